"""The beginning of a file, without reading it whole."""

import time
import tracemalloc

import numpy as np
import pandas as pd
import pytest

from viewloom.study.drafting.preview import COLUMNS, ROWS, preview

FRAME = (
    pd.DataFrame(np.arange(300.0).reshape(20, 15), columns=[f"x{j}" for j in range(15)])
    .rename_axis("id")
    .reset_index()
)


@pytest.mark.parametrize("sep", [",", ";", "\t"])
def test_text(tmp_path, sep):
    FRAME.to_csv(tmp_path / "a.csv", index=False, sep=sep)
    found = preview(tmp_path / "a.csv")
    assert found.header == list(FRAME.columns)
    assert found.rows.shape == (ROWS, COLUMNS)
    assert found.rows.iloc[2, :3].tolist() == ["2", "30.0", "31.0"]
    assert found.format == "table"


def test_half_a_million_rows_are_not_read_whole(tmp_path):
    line = ",".join(["0.123456789"] * 12)
    with open(tmp_path / "large.csv", "w") as file:
        file.write(",".join(["id", *(f"x{j}" for j in range(12))]) + "\n")
        file.writelines(f"s{i},{line}\n" for i in range(500_000))
    tracemalloc.start()
    began = time.process_time()
    found = preview(tmp_path / "large.csv")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(found.rows) == ROWS
    assert peak < 5e6  # the file has 78 MB
    assert time.process_time() - began < 2


def test_parquet_and_sheets(tmp_path):
    pytest.importorskip("pyarrow")
    FRAME.to_parquet(tmp_path / "a.parquet", index=False)
    found = preview(tmp_path / "a.parquet")
    assert (found.header, found.rows.shape) == (list(FRAME.columns), (ROWS, COLUMNS))
    pytest.importorskip("openpyxl")
    pytest.importorskip("python_calamine")
    with pd.ExcelWriter(tmp_path / "a.xlsx") as book:
        FRAME.to_excel(book, sheet_name="one", index=False)
        FRAME.iloc[:, :3].to_excel(book, sheet_name="two", index=False)
    found = preview(tmp_path / "a.xlsx")
    assert found.parts == ("sheet", ["one", "two"])
    assert len(found.header) == 16
    assert preview(tmp_path / "a.xlsx", {"sheet": "two"}).header == ["id", "x0", "x1"]


@pytest.mark.parametrize(
    ("name", "content", "remark"),
    [("a.csv", b"", "empty"), ("scan.nii.gz", b"\x1f\x8bx", "image"), ("a.txt", b"\0\1\2", "not a text file"),
     ("note.md", b"# x", "document"), ("b.parquet", b"PAR1", "not a valid Parquet")],
)  # fmt: skip
def test_other_files_say_what_they_are(tmp_path, name, content, remark):
    (tmp_path / name).write_bytes(content)
    found = preview(tmp_path / name)
    assert found.rows.empty
    assert remark in found.remark


def test_only_what_is_shown_is_parsed(tmp_path):
    """A table may have very many columns, and faults that are not shown."""
    names = ",".join(f"c{j}" for j in range(50_000))
    rows = ["1" + ",2" * 50_000] * 12
    table = tmp_path / "wide.csv"
    table.write_text("\n".join([f"id,{names}", *rows, "1,2,3,4" + ",5" * 60_000, ""]))
    found = preview(table)
    assert found.remark == ""
    assert (found.rows.shape, len(found.header)) == ((10, 10), 50_001)
