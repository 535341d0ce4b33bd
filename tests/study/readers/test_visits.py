"""Visits: columns and codes however they are written, and the first visit of each subject."""

import pandas as pd
import pytest
from noted import texts

from viewloom.study.errors import StudyError
from viewloom.study.readers.adni import read_adnimerge
from viewloom.study.readers.tables import read_long, read_table
from viewloom.study.readers.visits import parse, visit_columns

COLUMNS = ["Visit", "VISCODE", "viscode2", "session", "Session_ID", "Timepoint", "time_point", "WAVE"]
SAME = [  # codes of the first visit, of the second, and other spellings of the first
    (["bl", "m12"], ["BL", "m00", "baseline", "ses-M000", "ses-bl"]),
    (["ses-M0", "ses-M12"], ["bl", "M00", "ses-M000"]),
    (["ses-01", "ses-02"], ["1", "ses-1", "V01"]),
    (["ses-M000", "ses-M006"], ["ses-M0", "baseline"]),
    (["m00", "m06"], ["M0", "bl"]),
    (["V01", "V02"], ["v1", "1"]),
    (["Screening", "V1"], ["sc", "screening"]),
    (["Baseline", "Month 6"], ["bl"]),
    (["0", "1"], ["0", "00"]),
    (["1", "2"], ["01", "ses-01"]),
]  # fmt: skip


def table(path, column, codes, n=4):
    rows = [(f"s{j}", code, float(j + 10 * k)) for k, code in enumerate(codes) for j in range(n)]
    pd.DataFrame(rows, columns=["id", column, "x"]).to_csv(path, index=False)
    return path


@pytest.mark.parametrize("column", COLUMNS)
def test_columns_whatever_their_case(tmp_path, column):
    path = table(tmp_path / "t.csv", column, ["bl", "m12"])
    assert read_table(path, id="id", visit="bl").columns.tolist() == ["x"]
    assert read_table(path, id="id", visit="bl")["x"].tolist() == [0.0, 1.0, 2.0, 3.0]


@pytest.mark.parametrize(("codes", "spellings"), SAME)
def test_codes_however_they_are_spelt(tmp_path, codes, spellings):
    path = table(tmp_path / "t.csv", "visit", codes)
    for visit in [codes[0], *spellings, "first"]:
        assert read_table(path, id="id", visit=visit)["x"].tolist() == [0.0, 1.0, 2.0, 3.0]
    assert read_table(path, id="id", visit=codes[1])["x"].tolist() == [10.0, 11.0, 12.0, 13.0]


def test_another_spelling_is_said(tmp_path):
    path = table(tmp_path / "t.csv", "visit", ["ses-M00", "ses-M12"])
    notes = texts(read_table(path, id="id", visit="bl").attrs["notes"])
    assert "visit 'bl' is written 'ses-M00' in column 'visit'" in notes


def test_the_first_visit_of_each_subject_is_counted(tmp_path):
    path = tmp_path / "t.csv"
    rows = [
        ("a", "m12", 3),
        ("a", "bl", 1),
        ("b", "m06", 4),
        ("b", "m12", 5),
        ("c", "bl", 6),
        ("d", "m12", 7),
    ]
    pd.DataFrame(rows, columns=["id", "visit", "x"]).to_csv(path, index=False)
    frame = read_table(path, id="id", visit="first")
    assert frame["x"].to_dict() == {"a": 1.0, "b": 4.0, "c": 6.0, "d": 7.0}
    assert texts(frame.attrs["notes"]) == [
        "first visit of each subject kept: 2 at 'bl', 1 at 'm06', 1 at 'm12'",
        "2 rows of later visits left out",
    ]


def test_the_first_of_days_and_of_numbers_beyond_nine(tmp_path):
    for codes in (
        ["2021-03-04", "2021-11-05"],
        ["9", "10"],
        ["m6", "m12"],
        ["bl", "V04"],
        ["screening", "bl"],
    ):
        path = table(tmp_path / "t.csv", "visit", list(reversed(codes)))
        assert read_table(path, id="id", visit="first")["x"].tolist() == [10.0, 11.0, 12.0, 13.0]


@pytest.mark.parametrize("codes", [["red", "blue"], ["m12", "V2"]])
def test_no_order_no_first_visit(tmp_path, codes):
    path = table(tmp_path / "t.csv", "visit", codes)
    with pytest.raises(StudyError, match=r"have no order.*visit = 'bl'"):
        read_table(path, id="id", visit="first")


def test_a_first_visit_twice_is_refused(tmp_path):
    path = table(tmp_path / "t.csv", "visit", ["bl", "m00"])
    with pytest.raises(StudyError, match="4 rows with a duplicate id"):
        read_table(path, id="id", visit="first")


def test_long_tables_and_tables_of_adni(tmp_path):
    path = table(tmp_path / "t.csv", "Visit", ["ses-M0", "ses-M12"]).rename(tmp_path / "long.csv")
    pd.read_csv(path).assign(region="A").to_csv(path, index=False)
    frame = read_long(path, id="id", name="region", value="x", visit="first")
    assert frame["A"].tolist() == [0.0, 1.0, 2.0, 3.0]
    rows = [("1", "m06", 2.0), ("1", "m12", 3.0), ("2", "bl", 4.0)]
    merged = tmp_path / "merged.csv"
    pd.DataFrame(rows, columns=["RID", "VISCODE", "x"]).to_csv(merged, index=False)
    assert read_adnimerge(merged, visit="first")["x"].to_dict() == {"1": 2.0, "2": 4.0}
    assert read_adnimerge(merged, visit="M00")["x"].to_dict() == {"2": 4.0}


def test_dates_are_never_told(tmp_path):
    path = table(tmp_path / "t.csv", "visit", ["2021-03-04", "2021-11-05"])
    assert not any("2021" in note for note in texts(read_table(path, id="id", visit="first").attrs["notes"]))
    with pytest.raises(StudyError) as caught:
        read_table(path, id="id", visit="bl")
    assert "2021" not in str(caught.value)


def test_other_columns_are_no_visits():
    assert visit_columns(["SES", "event", "age", "visitor", "sessions"]) == []
    assert parse("uns1").scale == ""
