"""Missing codes that a file, or pandas, converts to another type before they are compared."""

import gzip

import numpy as np
import pandas as pd
import pytest
from noted import texts
from numpy.testing import assert_array_equal

from viewloom.study.errors import StudyError
from viewloom.study.readers import files
from viewloom.study.readers.tables import read_long, read_table

NAN = np.nan
N = 6
TRUTHS = [True, False, True, True, False, True]


def for_r(frame):
    return frame.astype({name: pd.StringDtype("python") for name in frame.select_dtypes("str").columns})


def csv_of(frame, spelled=("TRUE", "FALSE"), **options):
    words = {True: spelled[0], False: spelled[1]}
    kept = frame.assign(**{name: frame[name].map(words) for name in ("qc", "some") if name in frame})
    return kept.to_csv(index=False, **options)


WRITE = {
    "t.csv": lambda frame, path: path.write_text(csv_of(frame)),
    "small.csv": lambda frame, path: path.write_text(csv_of(frame, ("true", "false"))),
    "t.tsv": lambda frame, path: path.write_text(csv_of(frame, sep="\t", decimal=",")),
    "t.csv.gz": lambda frame, path: path.write_bytes(gzip.compress(csv_of(frame).encode())),
    "t.parquet": lambda frame, path: frame.to_parquet(path),
    "t.feather": lambda frame, path: frame.to_feather(path),
    "t.xlsx": lambda frame, path: frame.to_excel(path, index=False),
    "t.rds": lambda frame, path: pytest.importorskip("rdata").write_rds(path, for_r(frame)),
}
NEEDED = {"t.parquet": "pyarrow", "t.feather": "pyarrow", "t.xlsx": "openpyxl"}


@pytest.fixture(params=WRITE)
def path(request, tmp_path):
    return written(tmp_path / request.param, table())


def table():
    some = pd.Series(TRUTHS, dtype=object).where(np.arange(N) != 3)
    ids = [f"s{i}" for i in range(N)]
    return pd.DataFrame({"id": ids, "qc": TRUTHS, "some": some, "x": [0.0, 1.5, -9.5, 0.0, 1.0, 2.0]})


def written(path, frame):
    if path.name in NEEDED:
        pytest.importorskip(NEEDED[path.name])
    if path.suffix == ".xlsx":
        pytest.importorskip("python_calamine")
    if path.suffix == ".rds":  # which writes no missing booleans
        frame = frame.drop(columns="some")
    WRITE[path.name](frame, path)
    return path


def expected(*gone):
    return [NAN if truth in gone else float(truth) for truth in TRUTHS]


@pytest.mark.parametrize("code", ["FALSE", "False", "false"])
def test_a_truth_value_is_missing_and_zeros_are_not(path, code):
    frame = read_table(path, id="id", columns=["qc", "x"], missing_codes=[code])
    if code == "FALSE" or path.suffix != ".xlsx":  # workbooks are read as they show a truth value, as a text
        assert_array_equal(frame["qc"], expected(False))
        assert "2 cells with a missing code set to missing" in texts(frame.attrs["notes"])
    assert_array_equal(frame["x"], table()["x"])


def test_without_codes_they_are_numbers(path):
    assert_array_equal(read_table(path, id="id", columns=["qc", "x"])["qc"], expected())
    assert_array_equal(read_table(path, id="id", columns=["qc", "x"], missing_codes=[-4])["qc"], expected())


def test_codes_of_one_column(path):
    frame = read_table(path, id="id", columns=["qc", "x"], missing_codes={"q*": ["TRUE"], "x": [0]})
    assert_array_equal(frame["qc"], expected(True))
    assert_array_equal(frame["x"].isna(), table()["x"] == 0)


def test_numbers_as_codes(path):
    frame = read_table(path, id="id", columns=["qc", "x"], missing_codes=[0])
    assert_array_equal(frame["qc"].isna(), [not truth for truth in TRUTHS])


def test_beside_blank_cells(path):
    if path.suffix == ".rds":
        pytest.skip("rdata writes no missing booleans")
    frame = read_table(path, id="id", columns=["some", "x"], missing_codes=["FALSE"])
    assert frame["some"].isna().tolist() == [False, True, False, True, True, False]


def test_attributes_of_participants(path):
    people = read_table(path, id="id", columns=["qc"], missing_codes=["FALSE"], numeric=False)
    if path.name != "small.csv":  # there it is a text of another spelling
        assert people["qc"].isna().tolist() == [not truth for truth in TRUTHS]


def test_levels(path):
    frame = read_table(path, id="id", columns=["qc", "x"], missing_codes=["FALSE"], types={"qc": "nominal"})
    if path.name != "small.csv":
        assert frame["qc"].isna().tolist() == [not truth for truth in TRUTHS]


def test_conditions_on_rows(path):
    options = {"columns": ["x"], "rows": "qc == 0 or x == 2", "missing_codes": ["FALSE"]}
    assert read_table(path, id="id", **options).index.tolist() == ["s5"]


def test_long_tables(path):
    frame = read_long(path, id="id", name="id", value="qc", missing_codes=["FALSE"])
    assert np.nansum(frame) == sum(TRUTHS)
    assert (frame == 0).sum().sum() == 0


@pytest.mark.parametrize("name", ["t.csv", "t.parquet"])
def test_large_tables(tmp_path, monkeypatch, name):
    path = written(tmp_path / name, table().drop(columns="some").assign(x=0.1234))
    monkeypatch.setattr(files, "LARGE_TEXT", 1)
    monkeypatch.setattr(files, "LARGE_CELLS", 1)
    assert read_table(path, id="id", missing_codes=[-4])["qc"].dtype == np.float32
    frame = read_table(path, id="id", missing_codes=["FALSE"])
    assert_array_equal(frame["qc"], expected(False))


def test_categories_of_booleans(tmp_path):
    pytest.importorskip("pyarrow")
    table()[["id", "qc"]].astype({"qc": "category"}).to_feather(tmp_path / "t.feather")
    frame = read_table(tmp_path / "t.feather", id="id", missing_codes=["FALSE"])
    assert frame["qc"].isna().tolist() == [not truth for truth in TRUTHS]


@pytest.mark.parametrize("code", ["-9,5", -9.5, "-9.5"])
def test_codes_in_the_notation_of_the_file(tmp_path, code):
    path = written(tmp_path / "t.tsv", table())
    frame = read_table(path, id="id", columns=["x"], missing_codes=[code])
    assert_array_equal(frame["x"], [0.0, 1.5, NAN, 0.0, 1.0, 2.0])
    with pytest.raises(StudyError, match="rows keeps none"):
        read_table(path, id="id", columns=["x"], missing_codes=[code], rows="x < 0")


def test_numbers_among_texts_in_conditions(tmp_path):
    """-9.0 is the code -9 also where a column is read as text."""
    (tmp_path / "t.csv").write_text("id,x,y\n1,-9.0,1\n2,nd,2\n3,5,3\n")
    options = {"columns": ["y"], "missing_codes": [-9, "nd"], "rows": "x < 6"}
    assert read_table(tmp_path / "t.csv", id="id", **options).index.tolist() == ["3"]
