"""Lines around the header that are no subjects: descriptions, units, versions, comments."""

import pandas as pd
import pytest
from noted import texts

from viewloom.study.errors import StudyError
from viewloom.study.readers.tables import read_table

DATA = "S1,1.5,2,3\nS2,2.5,3,4\nS3,3.5,4,5\n"
NAMES = "subjectkey,age,thick,vol\n"
SENTENCES = "The global unique identifier,Age in months,Mean thickness in mm,Volume of the region\n"
IMPORT = '"{""ImportId"":""id""}","{""ImportId"":""Q1""}","{""ImportId"":""Q2""}","{""ImportId"":""Q3""}"\n'


def read(tmp_path, text, id="subjectkey", **options):
    path = tmp_path / "table.csv"
    path.write_text(text)
    return read_table(path, id=id, **options)


@pytest.mark.parametrize(
    "below",
    [
        SENTENCES,
        ",years,mm,mm3\n",
        "unit,a,a,a\n",
        "x,years,pg/mL,%\n",
        SENTENCES + IMPORT,
        "\n" + SENTENCES,
    ],
)
@pytest.mark.parametrize("numeric", [True, False])
def test_rows_that_describe_columns_are_no_subjects(tmp_path, below, numeric):
    frame = read(tmp_path, NAMES + below + DATA, numeric=numeric)
    plain = read(tmp_path, NAMES + DATA, numeric=numeric)
    pd.testing.assert_frame_equal(frame, plain)
    rows = len(below.strip().split("\n"))
    told = f"{rows} row{'s' * (rows > 1)} of descriptions below the header left out"
    assert told in texts(frame.attrs["notes"])


@pytest.mark.parametrize(
    "first",
    [
        "S0,missing,x,x\n",
        "S0,x,x,x\n",
        "S0,<5,<6,<7\n",
        "S0,x,7,y\n",
        "S0,n/k,n/k,n/k\n",
        "S0,failed,excluded,not done\n",
        "S0,too much motion,failed quality control,stopped before the end\n",
    ],
)
def test_a_subject_with_text_in_its_cells_is_refused_not_left_out(tmp_path, first):
    with pytest.raises(StudyError, match="1 of 4 rows"):
        read(tmp_path, NAMES + first + DATA)


@pytest.mark.parametrize(
    ("names", "rows"),
    [
        ("id,vol", ["S0,failed quality control", "S1,2", "S2,3", "S3,4"]),
        ("id,vol,area", ["adam,n/k,n/k", "bruno,2,3", "carla,3,4", "doris,4,5"]),
        ("site,id,vol", ["New York,7QK,n/k", "Berlin,P8X,2", "Berlin,X1,3", "Berlin,R22,4"]),
        ("comment,visit,id,vol", [",first,ann,n/k", ",first,bob,2", ",first,cy,3", ",first,di,4"]),
    ],
)
def test_a_subject_whose_id_is_like_the_others_is_no_row_of_units(tmp_path, names, rows):
    with pytest.raises(StudyError, match="1 of 4 rows"):
        read(tmp_path, "\n".join([names, *rows]), id="id", columns=["vol"])


@pytest.mark.parametrize("first", ["S0,NA,NA,NA\n", "S0,,,\n", "S0,.,n/a,\n"])
def test_a_subject_without_values_is_kept(tmp_path, first):
    frame = read(tmp_path, NAMES + first + DATA)
    assert frame.index.tolist() == ["S0", "S1", "S2", "S3"]
    assert frame.loc["S0"].isna().all()


@pytest.mark.parametrize("above", ["image,03\n", "mds_updrs,01,,\n"])
def test_name_and_version_of_a_structure_are_above_the_header(tmp_path, above):
    frame = read(tmp_path, above + NAMES + DATA)
    pd.testing.assert_frame_equal(frame, read(tmp_path, NAMES + DATA))
    assert "1 line above the header left out" in texts(frame.attrs["notes"])


def test_headers_of_two_columns_are_no_versions(tmp_path):
    assert read(tmp_path, "id,2\nS1,5\nS2,6\n", id="id").columns.tolist() == ["2"]


def test_more_comments_than_lines_are_looked_at(tmp_path):
    comments = "".join(f"!Sample_{n}\tx\ty\tz\n" for n in range(90))
    text = f'{comments}!table_begin\n"id"\t"a"\t"b"\nS1\t1\t2\nS2\t3\t4\n!table_end\n'
    frame = read(tmp_path, text, id="id")
    assert frame.to_numpy().tolist() == [[1, 2], [3, 4]]
    assert {"91 lines above the header left out", "1 comment left out"} <= set(texts(frame.attrs["notes"]))


def test_units_below_the_header_of_a_sheet(tmp_path):
    pytest.importorskip("python_calamine")
    pytest.importorskip("openpyxl")
    rows = [["id", "abeta", "tau"], [None, "pg/mL", "pg/mL"], ["S1", 1.5, 2], ["S2", 2.5, 3], ["S3", 3, 4]]
    path = tmp_path / "table.xlsx"
    pd.DataFrame(rows).to_excel(path, header=False, index=False)
    frame = read_table(path, id="id")
    assert frame["abeta"].tolist() == [1.5, 2.5, 3.0]
    assert frame.index.tolist() == ["S1", "S2", "S3"]
    assert "1 row of descriptions below the header left out" in texts(frame.attrs["notes"])
