"""Visits: columns and codes however they are written, and the visit that is kept of each subject."""

import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from noted import texts

from viewloom.study.errors import StudyError
from viewloom.study.readers.adni import read_adnimerge
from viewloom.study.readers.dates import Days, days_of
from viewloom.study.readers.tables import read_long, read_table
from viewloom.study.readers.visits import NoVisit, parse, rule_of, visit_columns
from viewloom.study.reading import ReferenceDates

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


SPELLINGS = {  # by months since the baseline
    -1: ["sc", "SC", "screening", "scmri", "Screening visit"],
    0: [
        "bl",
        "BL",
        "m00",
        "M0",
        "ses-M000",
        "ses-baseline",
        "baseline_visit_arm_1",
        "y0",
        "d0000",
        "Baseline",
    ],
    6: ["m06", "M6", "ses-M06", "ses-M006", "Month 6", "6 months", "6mo", "month_6_arm_1", "m6"],
    12: ["m12", "y1", "ses-M012", "Year 1", "1 yr", "12 months", "1_year_follow_up_y_arm_1", "ses-1year"],
    24: ["m24", "y2", "2_year_follow_up_y_arm_1", "M24"],
}


@pytest.mark.parametrize("months", SPELLINGS)
def test_every_spelling_of_a_month(months):
    found = [parse(code) for code in SPELLINGS[months]]
    assert {visit.place for visit in found} == {float(months)}
    assert len({visit.key for visit in found}) == 1
    assert {visit.scale for visit in found} <= {"any", "time"}


@pytest.mark.parametrize(
    "code",
    ["d0129", "OAS30001_MR_d0129", "ses-d0129", "sub-OAS30001_ses-d0129", "OAS30001_Freesurfer53_d0129"],
)
def test_days_of_oasis_are_months_and_private(code):
    visit = parse(code)
    assert (visit.key, visit.scale, visit.private) == ("d129", "time", True)
    assert visit.place == pytest.approx(129 / 30.4375)


@pytest.mark.parametrize(
    ("code", "place"), [("ses-01", 1), ("V02", 2), ("v04", 4), ("wave 3", 3), ("OAS2_0001_MR2", 2), ("T1", 1)]
)
def test_numbers_of_visits_are_no_months(code, place):
    assert parse(code)[1:3] == ("number", float(place))


@pytest.mark.parametrize("code", ["uns1", "nv", "f", "tau", "4_bl", "init", "retest"])
def test_codes_without_an_order(code):
    assert parse(code).scale == ""


def visits_table(seed, n=40):
    """Random visits of n subjects, with days since the entry, dates and codes, in random order."""
    rng = np.random.default_rng(seed)
    rows = [
        (f"s{j:03d}", month, month * 30 + int(rng.integers(-20, 21)))
        for j in range(n)
        for month in rng.choice([0, 3, 6, 12, 18, 24, 36], size=int(rng.integers(1, 6)), replace=False)
    ]
    raw = pd.DataFrame(rows, columns=["id", "month", "day"]).sample(frac=1.0, random_state=seed)
    raw["visit"] = [f"m{month:02d}" if month else "bl" for month in raw["month"]]
    raw["date"] = (pd.Timestamp("2010-01-01") + pd.to_timedelta(raw["day"], unit="D")).dt.strftime("%Y-%m-%d")
    return raw.assign(x=np.arange(float(len(raw))))


def naive(raw, place, target, within=np.inf):
    """By a loop: of each subject, the value at the place nearest to the target; the earlier of two."""
    found = {}
    for subject, rows in raw.groupby("id"):
        target_of = target[subject] if isinstance(target, dict) else target
        best = None
        for _, row in rows.iterrows():
            distance = abs(row[place] - target_of)
            if distance <= within and (best is None or (distance, row[place]) < best[:2]):
                best = (distance, row[place], row["x"])
        if best is not None:
            found[subject] = best[2]
    return found


@pytest.fixture(params=range(4))
def random(request, tmp_path):
    raw = visits_table(request.param)
    path = tmp_path / "t.csv"
    raw.drop(columns="month").to_csv(path, index=False)
    return raw, path


def kept(path, **settings):
    frame = read_table(path, id="id", columns=["x"], **settings)
    return frame["x"].to_dict()


@pytest.mark.parametrize("target", [0, 9, 12, 15, 40])
@pytest.mark.parametrize("within", [0, 3, 6, 100])
def test_months_by_codes_are_those_of_a_loop(random, target, within):
    raw, path = random
    expected = naive(raw, "month", target, within)
    settings = {"visit": {"months": target, "within": within}}
    if expected:
        assert kept(path, **settings) == expected
    else:
        with pytest.raises(NoVisit, match=f"no subject has a visit within {within} months of month {target}"):
            kept(path, **settings)


@pytest.mark.parametrize("date", ["date", "day"])
def test_months_by_dates_count_from_the_first_of_each_subject(random, date):
    raw, path = random
    months = (raw["day"] - raw.groupby("id")["day"].transform("min")) / 30.4375
    raw.drop(columns=["visit", "month"]).to_csv(path, index=False)
    expected = naive(raw.assign(at=months), "at", 12, 4)
    assert kept(path, visit={"months": 12, "within": 4}, date=date) == expected


@pytest.mark.parametrize("which", ["first", "last"])
def test_first_and_last_are_those_of_a_loop_by_codes_and_by_dates(random, which):
    raw, path = random
    ends = {"first": -1000, "last": 1000}
    assert kept(path, visit=which) == naive(raw, "month", ends[which])
    raw.drop(columns=["visit", "month"]).to_csv(path, index=False)
    assert kept(path, visit=which, date="date") == naive(raw, "day", 30 * ends[which])


@pytest.mark.parametrize("date", ["date", "day"])
def test_the_nearest_date_is_that_of_a_loop(random, date):
    raw, path = random
    ids = sorted(raw["id"].unique())
    days = dict(zip(ids, np.random.default_rng(1).integers(0, 900, len(ids)).tolist(), strict=True))
    start = pd.Timestamp("2010-01-01") - pd.Timestamp("1970-01-01")
    number = pd.Series(days, dtype=float) + (start.days if date == "date" else 0)
    reference = ReferenceDates(Days(number, date == "date"), "exact")
    assert kept(path, visit=f"nearest:{date}", reference=reference) == naive(raw, "day", days)


def test_equally_near_visits_are_told_and_the_earlier_is_kept(tmp_path):
    path = table(tmp_path / "t.csv", "visit", ["m06", "m12"], n=12)
    frame = read_table(path, id="id", visit={"months": 9, "within": 3})
    assert frame["x"].tolist() == [float(j) for j in range(12)]
    notes = texts(frame.attrs["notes"])
    assert "12 subjects with two equally near visits; the earlier is kept" in notes
    assert "visit nearest to month 9 kept: 12 at 'm06'" in notes


def test_two_rows_of_one_date_are_refused(tmp_path):
    path = tmp_path / "t.csv"
    pd.DataFrame({"id": ["a", "a", "b"], "date": ["2020-01-01"] * 3, "x": [1.0, 2.0, 3.0]}).to_csv(
        path, index=False
    )
    reference = ReferenceDates(Days(pd.Series({"a": 18262.0, "b": 18262.0}), True), "exact")
    with pytest.raises(StudyError, match="1 row with a duplicate id"):
        read_table(path, id="id", visit="nearest:date", reference=reference)


def test_days_between_are_told_without_small_counts(tmp_path):
    path = tmp_path / "t.csv"
    ids = [f"s{j:02d}" for j in range(30)]
    days = [10] * 15 + [100] * 12 + [200] * 3
    pd.DataFrame({"id": ids, "day": days, "x": np.arange(30.0)}).to_csv(path, index=False)
    reference = ReferenceDates(Days(pd.Series(0.0, index=ids), False), "exact")
    [_, note] = read_table(path, id="id", visit="nearest:day", reference=reference).attrs["notes"]
    start = "from column 'day' to the date of the participants: median "
    assert str(note) == f"{start}55 days; 15 of 30 subjects beyond 90 days, 3 of 30 subjects beyond 180 days"
    assert note.shared(11) == (
        f"{start}55 days; 15 of 30 subjects beyond 90 days, fewer than 11 of 30 subjects beyond 180 days"
    )
    assert "median (not shown)" in note.shared(31)


def test_counts_of_visits_are_of_subjects_even_in_long_tables(tmp_path):
    """26 rows of one subject must not pass for 26 subjects."""
    path = tmp_path / "long.csv"
    rows = [(f"s{j}", "bl", f"r{k}", j + k) for j in range(20) for k in range(26)]
    rows += [("late", "m12", f"r{k}", k) for k in range(26)]
    pd.DataFrame(rows, columns=["id", "visit", "region", "x"]).to_csv(path, index=False)
    notes = read_long(path, id="id", name="region", value="x", visit="first").attrs["notes"]
    assert texts(notes) == ["first visit of each subject kept: 20 at 'bl', 1 at 'm12'"]
    assert (
        notes[0].shared(11) == "first visit of each subject kept: at least 11 at 'bl', fewer than 11 at 'm12'"
    )


def test_labels_of_oasis_are_never_told(tmp_path):
    path = tmp_path / "oasis.csv"
    rows = [
        (f"OAS3000{j}", f"OAS3000{j}_MR_d{day:04d}", j + day) for j in range(1, 6) for day in (j, 400 + j)
    ]
    pd.DataFrame(rows, columns=["Subject", "label", "x"]).to_csv(path, index=False)
    settings = {"id": "Subject", "visit_column": "label"}
    for visit, days in (("first", 0), ("last", 400), ({"months": 12, "within": 3}, 400)):
        frame = read_table(path, visit=visit, **settings)
        assert frame["x"].tolist() == [2 * j + days for j in range(1, 6)]
        assert not any("OAS" in note or "_d0" in note for note in texts(frame.attrs["notes"]))
    for visit in ("d0001", "bl", {"months": 40, "within": 1}):
        try:
            told = texts(read_table(path, visit=visit, **settings).attrs["notes"])
        except StudyError as error:
            told = [str(error)]
        assert told
        assert not any("OAS" in text or "MR_d" in text for text in told)


def test_scans_of_screening_are_first_visits(tmp_path):
    """UCSF's tables call the scan at the baseline of ADNI 2 scmri."""
    path = tmp_path / "t.csv"
    rows = [("1", "scmri", 1.0), ("1", "m12", 2.0), ("2", "m06", 3.0), ("2", "sc", 4.0)]
    pd.DataFrame(rows, columns=["RID", "VISCODE", "x"]).to_csv(path, index=False)
    assert read_adnimerge(path, visit="first")["x"].to_dict() == {"1": 1.0, "2": 4.0}
    assert read_adnimerge(path, visit="last")["x"].to_dict() == {"1": 2.0, "2": 3.0}
    assert read_adnimerge(path, visit={"months": 0, "within": 2})["x"].to_dict() == {"1": 1.0, "2": 4.0}


DATES = {
    "iso": ["2021-03-14", "2020-12-31"],
    "compact": ["20210314", "20201231"],
    "numbers": [20210314, 20201231],
    "with time": ["2021-03-14 12:30:00", "2020-12-31T00:00"],
    "day first": ["14/03/2021", "31.12.2020"],
    "month first": ["3/14/2021", "12/31/2020"],
    "datetime": pd.to_datetime(["2021-03-14 12:30", "2020-12-31 00:00"]),
}


@pytest.mark.parametrize("kind", DATES)
def test_dates_however_they_are_written(kind):
    found = days_of(pd.Series(DATES[kind], name="date"), Path("t.csv"))
    assert (found.number.diff().iloc[1], found.calendar) == (-73.0, True)


@pytest.mark.parametrize(
    ("cells", "told"),
    [
        (["2021-03-15", "soon"], "column 'date' has no valid date in 1 of 2 rows"),
        (["2021-02-30", "2021-03-01"], "column 'date' has no valid date in 2 of 2 rows"),
        (["3/4/2021", "5/6/2021"], "may begin with the day or with the month"),
        ([None, None], "column 'date' has no date"),
        ([1.5, 2.25], "no valid date"),
        (["3/14/21", "3/15/21"], "no valid date"),
    ],
)
def test_dates_that_are_none_are_refused_without_their_text(cells, told):
    with pytest.raises(StudyError, match=told) as caught:
        days_of(pd.Series(cells, name="date"), Path("t.csv"))
    assert not any(str(cell) in str(caught.value) for cell in cells if cell is not None)


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"visit": "nearest:date"}, r"needs the dates of the participants; set date of \[participants\]"),
        ({"visit": "nearest:dat"}, "no date column 'dat'; did you mean 'date'"),
        ({"visit": "nearest:"}, "needs a column of dates"),
        ({"visit": {"months": 3}}, "keys months and within"),
        ({"visit": {"months": 3, "within": -1}}, "must not be negative"),
        ({"visit": {"months": 3, "within": 1}, "visit_column": "x"}, "do not give months; set date"),
        ({"visit": {"months": 99, "within": 1}}, "no subject has a visit within 1 months of month 99"),
        ({"visit": "last", "visit_column": "colour"}, "have no order, so there is no last visit"),
        ({"visit": "m99"}, "no row has visit 'm99'"),
    ],
)
def test_what_cannot_be_chosen_is_refused(tmp_path, settings, told):
    path = tmp_path / "t.csv"
    raw = pd.DataFrame({"id": ["a", "b"], "visit": ["bl", "m12"], "date": ["2020-01-01"] * 2, "x": [1, 2]})
    raw.assign(colour=["red", "blue"]).to_csv(path, index=False)
    with pytest.raises(StudyError, match=told) as caught:
        read_table(path, id="id", columns=["x"], **settings)
    assert "\n" not in str(caught.value)


def test_dates_and_days_are_not_compared(tmp_path):
    path = tmp_path / "t.csv"
    pd.DataFrame({"id": ["a", "b"], "day": [1, 2], "x": [1, 2]}).to_csv(path, index=False)
    reference = ReferenceDates(Days(pd.Series({"a": 18262.0, "b": 18262.0}), True), "exact")
    with pytest.raises(StudyError, match=r"days since the entry, but date of \[participants\] has calendar"):
        read_table(path, id="id", visit="nearest:day", reference=reference)


def test_rules_are_written_as_in_study_toml():
    assert [str(rule_of(visit)) for visit in ("bl", "nearest:d", {"months": 0, "within": 6})] == [
        "bl",
        "nearest:d",
        "{ months = 0, within = 6 }",
    ]


def test_sessions_of_a_real_table():
    root = os.environ.get("VIEWLOOM_REALFILES", Path(__file__).parents[4] / "shared" / "realfiles")
    path = Path(root) / "mlni" / "test_feature.tsv"
    if not path.is_file():
        pytest.skip("real files not found; set VIEWLOOM_REALFILES")
    raw = pd.read_csv(path, sep="\t")
    for visit in ("bl", "first", "last", "ses-M000", {"months": 0, "within": 6}):
        frame = read_table(path, id="participant_id", visit=visit, columns=["ROI*"])
        expected = raw[raw["session_id"] == "ses-M0"].set_index("participant_id")["ROI1"]
        assert frame["ROI1"].to_dict() == expected.to_dict()
    with pytest.raises(NoVisit, match="ses-M0"):
        read_table(path, id="participant_id", visit="m12", columns=["ROI*"])


def test_dates_are_attributes_of_participants_but_no_features(tmp_path):
    path = tmp_path / "people.csv"
    path.write_text("id,visit,exam,mmse\n1,bl,2020-01-01,29\n1,m12,2021-01-01,27\n2,bl,2020-02-01,30\n")
    options = {"id": "id", "visit": "bl", "visit_column": "visit", "date": "exam"}
    assert list(read_table(path, **options, numeric=False).columns) == ["exam", "mmse"]
    assert list(read_table(path, **options).columns) == ["mmse"]
