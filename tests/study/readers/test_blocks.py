"""Large tables in blocks: the numbers, notes and refusals of the reader of whole tables."""

import gzip

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from viewloom.study import StudyError
from viewloom.study.readers import blocks, files
from viewloom.study.readers.codes import read_codes
from viewloom.study.readers.tables import read_table
from viewloom.study.readers.text import about_lines
from viewloom.study.readers.ukb import read_ukb
from viewloom.study.tables_in_memory import (
    has_value,
    in_rows,
    is_sparse,
    matrix_of,
    missing_cells,
    sparse_frame,
    with_rows,
)

N, D = 97, 7


@pytest.fixture
def in_blocks(monkeypatch):
    """Blocks of ten rows, of every file."""
    monkeypatch.setattr(files, "LARGE_TEXT", 0)
    monkeypatch.setattr(files, "LARGE_CELLS", 0)
    monkeypatch.setattr(blocks, "BLOCK_CELLS", 10 * (D + 1))
    seen = []
    inner = blocks._numbers
    monkeypatch.setattr(blocks, "_numbers", lambda *args: seen.append(len(args[0])) or inner(*args))
    return seen


@pytest.fixture
def table():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(50, 9, (N, D)).round(4), columns=[f"x{j}" for j in range(D)])
    frame = frame.mask(rng.random(frame.shape) < 0.1)
    frame.iloc[90, 2] = -4.5
    frame.insert(0, "eid", [f"{i:05d}" for i in range(N)])
    return frame


def write(frame, path):
    if path.suffix == ".parquet":
        pytest.importorskip("pyarrow")
        frame.to_parquet(path, index=False, row_group_size=40)
    else:
        frame.to_csv(path, index=False)
    return path


def both(path, monkeypatch, **options):
    """A table as a whole and in blocks."""
    found = read_table(path, id="eid", **options)
    with monkeypatch.context() as patch:
        patch.setattr(files, "LARGE_TEXT", 2**40)
        patch.setattr(files, "LARGE_CELLS", 2**40)
        return read_table(path, id="eid", **options), found


@pytest.mark.parametrize("end", [".csv", ".csv.gz", ".parquet"])
@pytest.mark.parametrize(
    "options",
    [{}, {"missing_codes": [-4.5]}, {"columns": ["x[1-4]"], "exclude": ["x3"]}, {"aside": "x6".__eq__}],
)
def test_the_same_as_a_whole_table(in_blocks, monkeypatch, table, tmp_path, end, options):
    whole, found = both(write(table, tmp_path / f"t{end}"), monkeypatch, **options)
    assert max(in_blocks) < N
    assert set(found.dtypes) == {np.dtype(np.float32)}
    assert_allclose(found.to_numpy(), whole.to_numpy(), rtol=1e-6)
    assert list(found.columns) == list(whole.columns)
    assert found.index.equals(whole.index)
    assert list(map(str, found.attrs["notes"])) == list(map(str, whole.attrs["notes"]))
    assert list(found.attrs["aside"]) == list(whole.attrs["aside"])


@pytest.mark.parametrize(
    ("row", "column", "cell"),
    [(95, "x2", "high"), (95, "x0", "1,234.5"), (3, "eid", "00004"), (95, "x1", "inf"), (95, "eid", "")],
)
def test_the_same_refusals(in_blocks, monkeypatch, table, tmp_path, row, column, cell):
    table = table.astype(object)
    table.loc[row, column] = cell
    path = write(table, tmp_path / "t.csv")
    with pytest.raises(StudyError) as found:
        read_table(path, id="eid")
    monkeypatch.setattr(files, "LARGE_TEXT", 2**40)
    with pytest.raises(StudyError) as whole:
        read_table(path, id="eid")
    assert str(found.value) == str(whole.value)


@pytest.mark.parametrize("end", [".csv", ".parquet"])
@pytest.mark.parametrize("arrays", ["mean", "first", "all", "drop"])
def test_uk_biobank(in_blocks, monkeypatch, table, tmp_path, end, arrays):
    names = ["p31", "p25005_i2", "p25005_i3", "p102_i2_a0", "p102_i2_a1", "p25010_i2", "p25019_i2"]
    table = table.set_axis(["eid", *names], axis=1).assign(p53_i2="2015-03-01")
    path, options = write(table, tmp_path / f"t{end}"), {"instance": 2, "arrays": arrays}
    options["missing_codes"] = [-4.5]
    found = read_ukb(path, **options)
    assert len(in_blocks) > 1
    assert max(in_blocks) < N
    monkeypatch.setattr(files, "LARGE_TEXT", 2**40)
    monkeypatch.setattr(files, "LARGE_CELLS", 2**40)
    whole = read_ukb(path, **options)
    assert set(found.dtypes) == {np.dtype(np.float32)}
    assert_allclose(found.to_numpy(), whole.to_numpy(), rtol=1e-6)
    assert list(found.columns) == list(whole.columns)
    assert sorted(map(str, found.attrs["notes"])) == sorted(map(str, whole.attrs["notes"]))


def test_text_in_a_later_block_of_uk_biobank(in_blocks, table, tmp_path):
    table = table.set_axis(["eid", *(f"p{j}" for j in range(D))], axis=1).astype(object)
    table.loc[95, "p3"] = "high"
    with pytest.raises(StudyError, match="'p3'"):
        read_ukb(write(table, tmp_path / "t.csv"))


def test_numbers_that_may_be_thousands_in_a_later_block(in_blocks, table, tmp_path):
    table["x5"] = ["1.234"] * 60 + ["183"] * (N - 60)
    with pytest.raises(StudyError, match="thousands"):
        read_table(write(table, tmp_path / "t.csv"), id="eid")


def test_dosages_and_decimals_are_not_thousands(in_blocks, monkeypatch, table, tmp_path):
    table["x5"] = ["1.234"] * 60 + ["1"] * (N - 60)
    whole, found = both(write(table, tmp_path / "t.csv"), monkeypatch)
    assert_allclose(found["x5"], whole["x5"], rtol=1e-6)


class TestCodes:
    ROWS = (("1", "I10"), ("1", "E11.9"), ("2", "I10"), ("2", "I10"), ("3", None), ("4", "E11.2"), ("4", " "))

    @pytest.fixture(params=[".csv", ".parquet"])
    def path(self, request, tmp_path):
        return write(pd.DataFrame(self.ROWS, columns=["eid", "icd"]), tmp_path / f"t{request.param}")

    def test_presence(self, path):
        found = read_codes(path, id="eid", code="icd")
        assert is_sparse(found)
        assert list(found.columns) == ["E11.2", "E11.9", "I10"]
        assert found.index.tolist() == ["1", "2", "3", "4"]
        assert_array_equal(matrix_of(found).toarray(), [[0, 1, 1], [0, 0, 1], [0, 0, 0], [1, 0, 0]])
        assert "1 row with a code that the subject has already" in str(found.attrs["notes"][0])

    def test_ids_in_order_of_appearance_across_blocks(self, tmp_path, monkeypatch):
        monkeypatch.setattr("viewloom.study.readers.codes.ROWS", 3)
        rows = [("10", "B"), ("007", "A"), ("10", "A"), (" 2", "A"), ("007", "B"), ("2", "C"), ("10", "B")]
        path = write(pd.DataFrame(rows, columns=["eid", "icd"]), tmp_path / "t.csv")
        found = read_codes(path, id="eid", code="icd")
        assert found.index.tolist() == ["10", "007", "2"]
        assert_array_equal(matrix_of(found).toarray(), [[1, 1, 0], [1, 1, 0], [1, 0, 1]])

    def test_wrong_ids_are_counted_by_rows(self, tmp_path):
        rows = [("1", "A"), ("2.5E+04", "A"), ("2.5E+04", "B"), (None, None)]
        path = write(pd.DataFrame(rows, columns=["eid", "icd"]), tmp_path / "t.csv")
        with pytest.raises(StudyError, match="column 'eid' has 2 ids that look like"):
            read_codes(path, id="eid", code="icd")
        path = write(pd.DataFrame([*rows[::2], (None, "C")], columns=["eid", "icd"]), tmp_path / "t.csv")
        with pytest.raises(StudyError, match="has no id in 1 of 3 rows"):
            read_codes(path, id="eid", code="icd")

    def test_digits_and_patterns(self, path):
        found = read_codes(path, id="eid", code="icd", digits=3, exclude=["I*"])
        assert list(found.columns) == ["E11"]
        assert_array_equal(matrix_of(found).toarray().ravel(), [1, 0, 0, 1])

    def test_refusals(self, path, tmp_path):
        with pytest.raises(StudyError, match="no code column 'ice'"):
            read_codes(path, id="eid", code="ice")
        empty = write(pd.DataFrame({"eid": ["1"], "icd": [""]}), tmp_path / "e.csv")
        with pytest.raises(StudyError, match="no code in 1 rows"):
            read_codes(empty, id="eid", code="icd")


def test_sparse_tables_like_dense_ones():
    rng = np.random.default_rng(0)
    X = (rng.random((9, 4)) < 0.3).astype(np.float32)
    ids = pd.Index([f"s{i}" for i in range(9)])
    dense, sparse = pd.DataFrame(X, ids, list("abcd")), sparse_frame(X, ids, list("abcd"))
    order = pd.Index(["s3", "nobody", "s0"])
    assert_array_equal(in_rows(sparse, order).toarray(), np.nan_to_num(in_rows(dense, order)))
    assert_array_equal(matrix_of(with_rows(sparse, X[:, 0] > 0)).toarray(), X[X[:, 0] > 0])
    assert (missing_cells(sparse), has_value(sparse).all()) == (0, True)


@pytest.mark.parametrize(
    ("text", "said"),
    [("eid,code\n,\n", "no rows"), ("eid,code,code\n1,I10,I11\n", "more than once|are called")],
)
def test_codes_without_rows_or_with_a_repeated_column(tmp_path, text, said):
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(StudyError, match=said):
        read_codes(tmp_path / "t.csv", id="eid", code="code")


@pytest.mark.parametrize("delimiter", [",", ";"])
def test_short_rows_and_lines_above_the_header_are_noted(in_blocks, monkeypatch, table, tmp_path, delimiter):
    """Short rows in two blocks, one of which has no other row with a missing last cell."""
    lines = table.fillna(1.0).to_csv(index=False, sep=delimiter).splitlines()
    for at in (14, 15, 88):
        lines[at] = lines[at].rsplit(delimiter, 2)[0]
    path = tmp_path / "t.csv"
    path.write_text("\n".join(["Volumes", "of all subjects", *lines]) + "\n")
    whole, found = both(path, monkeypatch)
    assert max(in_blocks) < N
    assert_allclose(found.to_numpy(), whole.to_numpy(), rtol=1e-6)
    notes = list(map(str, found.attrs["notes"]))
    assert notes == list(map(str, whole.attrs["notes"]))
    assert any(note.startswith("3 rows with fewer cells than the header") for note in notes)
    assert "2 lines above the header left out" in notes


@pytest.mark.parametrize("column", ["p25010_i2", "eid"])
def test_short_rows_of_uk_biobank_and_of_codes_are_noted(in_blocks, monkeypatch, tmp_path, column):
    rows = [f"{i},{i % 7}.5,{i % 5}.25" for i in range(N)]
    rows[40] = "40,3.5"
    path = tmp_path / "t.csv"
    path.write_text("eid,p25005_i2,p25010_i2\n" + "\n".join(rows) + "\n")

    def notes():
        frame = read_ukb(path) if column != "eid" else read_codes(path, id="eid", code="p25010_i2")
        return list(map(str, frame.attrs["notes"]))

    found = notes()
    monkeypatch.setattr(files, "LARGE_TEXT", 2**40)
    assert found == notes()
    assert any(note.startswith("1 row with fewer cells than the header") for note in found)


ODD = {
    "comment at the end": lambda lines: [*lines, "# end"],
    "comment between rows": lambda lines: [*lines[:50], "# half", *lines[50:]],
    "total": lambda lines: [*lines, "Mean" + ",1.5" * D],
    "booleans in later rows": lambda lines: [
        f"{line},{'1' if i < 50 else 'True'}" for i, line in enumerate(lines)
    ],
    "line ends in quotation marks": lambda lines: [*lines[:50], '"a\nb"' + ",1.5" * D, *lines[50:]],
    "blank row": lambda lines: [*lines[:50], "," * D, *lines[50:]],
    "longer row": lambda lines: [*lines[:50], lines[50] + ",1", *lines[51:]],
    "equal ids in two blocks": lambda lines: [*lines, lines[3]],
    "date in a later row": lambda lines: [*lines, "x" + ",2020-01-01" * D],
    "text that is a code": lambda lines: [*lines, "x" + ",ND" * D],
}


@pytest.mark.parametrize("odd", list(ODD))
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_oddities_are_judged_as_in_a_whole_table(in_blocks, monkeypatch, table, tmp_path, odd, mark):
    head, *lines = table.fillna(1.5).to_csv(index=False).splitlines()
    more = ",flag" if odd == "booleans in later rows" else ""
    path = tmp_path / "t.csv"
    path.write_text("\n".join([mark + head + more, *ODD[odd](lines)]) + "\n", encoding="utf-8")

    def outcome():
        try:
            frame = read_table(path, id="eid", missing_codes=["ND"])
        except StudyError as error:
            return str(error)
        return frame.astype(np.float32), list(map(str, frame.attrs["notes"]))

    found = outcome()
    monkeypatch.setattr(files, "LARGE_TEXT", 2**40)
    whole = outcome()
    if isinstance(whole, str):
        assert found == whole
    else:
        pd.testing.assert_frame_equal(found[0], whole[0])
        assert found[1] == whole[1]


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_the_number_of_rows_is_known_before_they_are_read(table, tmp_path, suffix):
    """About, for the time left."""
    file = files.open_table(write(table, tmp_path / f"t{suffix}"))
    assert file.about_rows == pytest.approx(N, abs=2)


def test_lines_of_a_long_text_are_estimated_and_those_of_a_compressed_one_unknown(tmp_path):
    lines = "id,x\n" + "".join(f"s{i:06d},{i % 7}\n" for i in range(60_000))
    (tmp_path / "t.csv").write_text(lines)
    assert about_lines(tmp_path / "t.csv") == pytest.approx(60_000, rel=0.01)
    with gzip.open(tmp_path / "t.csv.gz", "wt") as file:
        file.write(lines)
    assert about_lines(tmp_path / "t.csv.gz") == 0
