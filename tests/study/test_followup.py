"""Follow-up: later visits read, placed and reported; conversion derived from visits; what is refused."""

import json
import re

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from viewloom import KernelMultiviewNMF
from viewloom.cli import app
from viewloom.clinical import transitions
from viewloom.simulate import adni_like, adni_like_visits
from viewloom.study.check import check
from viewloom.study.cohort import load
from viewloom.study.config.toml import read_study
from viewloom.study.errors import StudyError
from viewloom.study.example import write_example
from viewloom.study.followup import follow
from viewloom.study.report.summarize import summarize
from viewloom.study.run.analysis import analyse, prepare
from viewloom.study.run.prediction import predict, save_model
from viewloom.study.run.tables import followup_table

DASH = "\N{EN DASH}"
SIZES = (30, 50, 30)
LINEAR = 'n_clusters = 2\nkernel = "linear"\nn_init = 1\n'


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    pytest.importorskip("bed_reader")
    path = tmp_path_factory.mktemp("visits")
    write_example(path, sizes=SIZES, visits=3, missing=0.05)
    text = (path / "study.toml").read_text().replace("n_clusters = 3\n", LINEAR)
    text = text.replace("min_maf = 0.01\n", 'variants = "rs1*"\n')  # fewer, to be quick
    (path / "study.toml").write_text(text)
    return path


@pytest.fixture(scope="module")
def text(folder):
    return (folder / "study.toml").read_text()


@pytest.fixture(scope="module")
def run(folder):
    """Without the figures of the report, to be quick."""
    pytest.importorskip("statsmodels")
    results = analyse(read_study(folder / "study.toml"))
    save_model(results, folder / "model.safetensors")
    return results


@pytest.fixture(scope="module")
def summary(run):
    return summarize(run)


@pytest.fixture
def other(folder, text):
    """The study with other settings, in the same folder."""

    def write(*changes):
        changed = text
        for old, new in changes:
            assert old in changed
            changed = changed.replace(old, new)
        (folder / "other.toml").write_text(changed)
        return folder / "other.toml"

    return write


def refused(path):
    """What the command line says, on one line."""
    result = CliRunner().invoke(app, ["check", str(path)], env={"COLUMNS": "1000"})
    assert result.exit_code == 2, result.output
    assert not re.search(r"sub-\d", result.output)
    return " ".join(result.output.split())


class TestSimulation:
    def test_the_first_visit_is_that_of_the_plain_cohort(self):
        first, one = adni_like_visits(*SIZES, random_state=3)[0].cohort, adni_like(*SIZES, random_state=3)
        pd.testing.assert_frame_equal(first.participants, one.participants)
        assert all(np.array_equal(first.views[name], one.views[name]) for name in one.views.names)

    def test_the_stage_rises_and_scores_fall_with_it(self):
        first, *_, last = adni_like_visits(*SIZES, visits=4, random_state=0)
        ids = last.cohort.participants.index
        start = pd.Series(first.cohort.truth.stage, first.cohort.participants.index)[ids].to_numpy()
        rise = last.cohort.truth.stage - start
        fall = last.cohort.participants["mmse"] - first.cohort.participants["mmse"][ids]
        assert (rise >= 0).all()
        assert np.corrcoef(rise, fall)[0, 1] < -0.7

    def test_seen_subjects_decrease_and_dates_increase(self):
        visits = adni_like_visits(*SIZES, random_state=0)
        assert [len(visit.cohort.views) for visit in visits] == [110, 99, 89]
        ids = visits[2].cohort.participants.index
        dates = [pd.to_datetime(visit.dates["exam"])[ids] for visit in visits]
        assert (dates[0] < dates[1]).all()
        assert (dates[1] < dates[2]).all()

    def test_one_visit_gives_the_files_as_before(self, tmp_path):
        pytest.importorskip("bed_reader")
        write_example(tmp_path, sizes=SIZES)
        assert "followup" not in (tmp_path / "study.toml").read_text()
        assert "visit" not in pd.read_csv(tmp_path / "vbm.csv").columns

    def test_the_command_line_has_the_option(self, tmp_path):
        pytest.importorskip("bed_reader")
        result = CliRunner().invoke(app, ["simulate", str(tmp_path / "s"), "--visits", "2", "--quiet"])
        assert result.exit_code == 0, result.output
        assert set(pd.read_csv(tmp_path / "s" / "vbm.csv")["visit"]) == {"bl", "m12"}


class TestFollowup:
    def test_labels_are_those_of_predict_at_the_visit(self, folder, run, other):
        """Prediction of a study of the later visit, of the same subjects and views."""
        changes = [('visit = "bl"', 'visit = "m12"'), ('[followup]\nvisits = "all"\n', "")]
        changes += [('survival = { converts_to = "AD", among = "MCI" }', "")]
        path = other(*changes)
        text = path.read_text()
        begin, end = text.index("[views.freesurfer]"), text.index("# Glucose")
        path.write_text(text[:begin] + text[end:])
        table = predict(folder / "model.safetensors", read_study(path)).set_index("id")
        labels = run.followup.labels["m12"].dropna()
        seen = table.index[table["views_seen"] != "snp"]
        assert sorted(labels.index) == sorted(seen)
        assert labels.astype(int).to_dict() == table.loc[seen, "label"].to_dict()

    def test_seen_subjects_are_those_of_the_files(self, folder, run):
        for visit in ("m12", "m24"):
            tables = [pd.read_csv(folder / name) for name in ("vbm.csv", "fdg.csv")]
            seen = {i for table in tables for i in table.loc[table["visit"] == visit, "participant_id"]}
            assert set(run.followup.labels[visit].dropna().index) == seen & set(run.views.ids)
            assert run.followup.views[visit] == ["vbm", "fdg", "snp"]

    def test_the_baseline_is_the_fit(self, run):
        assert run.followup.labels["baseline"].tolist() == run.model.labels_.tolist()
        assert run.followup.visits == ["m12", "m24"]

    def test_outcomes_are_those_of_the_files_with_their_years(self, folder, run):
        raw = pd.read_csv(folder / "participants.csv")
        found = run.followup.outcomes
        merged = found.assign(visit=found["visit"].replace("baseline", "bl")).merge(
            raw, left_on=["id", "visit"], right_on=["participant_id", "visit"], suffixes=("", "_raw")
        )
        assert len(merged) == len(found)
        assert (merged["mmse"] == merged["mmse_raw"]).all()
        start = raw[raw["visit"] == "bl"].set_index("participant_id")["exam_date"]
        days = pd.to_datetime(merged["exam_date"]) - pd.to_datetime(merged["id"].map(start))
        np.testing.assert_allclose(merged["years"], days.dt.days / 365.25)

    def test_slopes_are_of_every_numeric_outcome(self, run):
        assert list(run.followup.slopes) == ["mmse", "cdrsb"]
        assert run.followup.slopes["mmse"].table["slope"].min() < -0.5

    def test_without_statsmodels_the_rest_is_reported(self, folder, monkeypatch):
        monkeypatch.setattr("viewloom.clinical.longitudinal.find_spec", lambda name: None)
        ready = prepare(read_study(folder / "study.toml"))
        model = KernelMultiviewNMF(**ready.study.model.settings).fit(ready.views)
        found = follow(ready.later, model, ready.views, ready.data, ["mmse"])
        assert found.slopes == {}
        assert [str(note) for note in found.notes] == ["Slopes need statsmodels: pip install viewloom[stats]"]

    def test_visits_by_months_are_the_same_as_by_codes(self, other, run):
        months = "visits = [{ months = 12, within = 3 }, { months = 24, within = 3 }]"
        ready = prepare(read_study(other(('visits = "all"', months))))
        assert [visit.name for visit in ready.later] == ["month 12", "month 24"]
        expected = [run.followup.labels[name].dropna().index.tolist() for name in ("m12", "m24")]
        assert [visit.views.ids.tolist() for visit in ready.later] == expected

    def test_subjects_who_were_not_clustered_are_left_out(self, run, folder):
        """Views of half of the subjects: the others of a later visit have no cluster to keep."""
        ready = prepare(read_study(folder / "study.toml"))
        half = ready.views[::2]
        model = KernelMultiviewNMF(**ready.study.model.settings).fit(half)
        found = follow(ready.later, model, half, ready.data, [])
        expected = [name for name in run.followup.labels["m12"].dropna().index if name in set(half.ids)]
        assert found.labels["m12"].dropna().index.tolist() == expected
        start = ready.views[ready.views.ids.isin(expected)]
        present = found.same_views["m12"].dropna()
        assert set(present.index) <= set(start.ids)

    def test_a_subject_without_a_value_in_the_kept_columns_is_not_seen(self, folder, other):
        """A constant column, which the preparation leaves out, has the only value of a subject."""
        raw, uptake = pd.read_csv(folder / "vbm.csv").assign(extra=1.0), pd.read_csv(folder / "fdg.csv")
        scanned, measured = (
            set(table.loc[table["visit"] == "m12", "participant_id"]) for table in (raw, uptake)
        )
        only = sorted(scanned - measured)[0]
        rows = (raw["participant_id"] == only) & (raw["visit"] == "m12")
        raw.loc[rows, raw.columns.difference(["participant_id", "visit", "scan_date", "extra"])] = np.nan
        raw.to_csv(folder / "vbm2.csv", index=False)
        first = prepare(read_study(other(('"vbm.csv"', '"vbm2.csv"')))).later[0]
        assert set(first.views.ids) == (scanned | measured) - {only}

    def test_a_score_of_severity_that_is_missing_later_is_that_of_the_first_visit(self, folder, other):
        raw = pd.read_csv(folder / "participants.csv")
        later = (raw["visit"] != "bl").to_numpy()
        first = raw[~later].set_index("participant_id")["mmse"]
        found = []
        for name, mmse in (("none", np.nan), ("first", raw["participant_id"].map(first))):
            raw.assign(mmse=raw["mmse"].where(~later, mmse)).to_csv(folder / f"{name}.csv", index=False)
            cluster = '[cluster]\nremove_severity = "mmse"\n\n[model]'
            path = other(('"participants.csv"', f'"{name}.csv"'), ("[model]", cluster))
            text = path.read_text()
            begin, end = text.index("# Genotypes"), text.index("# Fitted")
            path.write_text(text[:begin] + text[end:])
            found.append(prepare(read_study(path)).later[0].views)
        for without, filled in zip(*(views.blocks for views in found), strict=True):
            np.testing.assert_array_equal(without, filled)

    def test_check_tells_who_has_the_visits(self, folder):
        notes = [str(note) for note in check(read_study(folder / "study.toml")).notes]
        assert "visit 'm12': 99 of 110 subjects with at least one of the views 'vbm', 'fdg', 'snp'" in notes

    def test_a_study_without_it_has_none(self, other):
        assert prepare(read_study(other(('[followup]\nvisits = "all"\n', "")))).later == []


@pytest.fixture(scope="module")
def tables(summary):
    return {table["id"]: table for table in summary["tables"]}


def test_clusters_at_all_visits_are_written(run):
    found = followup_table(run.followup)
    labels = run.followup.labels
    assert list(found.columns) == ["id", "visit", "label"]
    assert len(found) == labels.notna().to_numpy().sum()
    assert all(labels.loc[row.id, row.visit] == row.label for row in found.itertuples())


class TestReport:
    def test_the_tables_are_there(self, tables):
        assert {"followup", "transitions-0", "transitions-1", "slopes", "slope-tests"} <= set(tables)

    def test_no_small_count_is_shown_or_derived(self, run, tables):
        """Against the true counts."""
        for i, visit in enumerate(run.followup.visits):
            labels = run.followup.labels
            true = transitions(labels["baseline"], labels[visit], clusters=range(2)).to_numpy()
            assert 0 < true.min() < run.min_cell  # or nothing is tested
            cells = [[cell["text"] for cell in row[1:]] for row in tables[f"transitions-{i}"]["rows"]]
            shown = np.array([[text.isdigit() for text in row] for row in cells])
            assert not (shown & (true < run.min_cell)).any()
            for axis in (0, 1):
                assert ((~shown).sum(axis=axis) != 1).all()
            kept = tables["followup"]["rows"][i][2]["text"]
            if not shown.diagonal().all():
                assert kept.startswith("about")

    def test_the_sentence_is_rounded(self, summary):
        found = [line for line in summary["in_short"] if "keep their cluster" in line]
        assert found
        assert all(re.search(r"about \d0% of the subjects", line) for line in found)

    def test_slopes_of_small_clusters_are_hidden(self, run):
        from dataclasses import replace

        from viewloom.study.report.findings import findings
        from viewloom.study.report.followup import followup_tables

        hidden = replace(run, min_cell=1000)
        made = {table["id"]: table for table in followup_tables(hidden, findings(run))}
        for row in made["slopes"]["rows"]:
            assert [cell["text"] for cell in row[3:]] == [DASH] * 3
        assert [cell["text"] for cell in made["followup"]["rows"][0][1:4]] == ["<1000", DASH, DASH]

    def test_no_id_is_in_the_report(self, summary):
        assert not re.search(r"sub-\d{4}", json.dumps(summary))


class TestConversion:
    def test_times_are_those_of_a_loop_over_the_file(self, folder):
        raw = pd.read_csv(folder / "participants.csv")
        people = load(read_study(folder / "study.toml")).participants
        time, event = "years to conversion to AD", "conversion to AD"
        converted = 0
        for subject, row in people.iterrows():
            rows = raw[raw["participant_id"] == subject].sort_values("exam_date")
            days = (pd.to_datetime(rows["exam_date"]) - pd.Timestamp(rows["exam_date"].iloc[0])).dt.days
            reached = days[(rows["diagnosis"] == "AD").to_numpy()]
            if rows["diagnosis"].iloc[0] != "MCI" or len(rows) < 2:
                assert np.isnan(row[time])
                assert np.isnan(row[event])
                continue
            expected = reached.iloc[0] if len(reached) else days.iloc[-1]
            assert row[time] == pytest.approx(expected / 365.25)
            assert row[event] == float(len(reached) > 0)
            converted += int(row[event])
        assert converted > 3

    def test_without_dates_months_of_the_codes_are_used(self, other):
        people = load(read_study(other(('date = "exam_date"\n', "")))).participants
        assert set(people["years to conversion to AD"].dropna()) <= {1.0, 2.0}

    def test_the_report_has_the_curves(self, run):
        assert run.roles.survival == ("years to conversion to AD", "conversion to AD")


VISITS = 'visits = "all"'
SCAN = 'visit = "bl"\ndate = "scan_date"'
NO_FOLLOWUP = ('[followup]\nvisits = "all"\n', "")
ALL_SUBJECTS = ('residualise_on = "controls"', 'residualise_on = "all"')
WIDE = "visits = [{ months = 12, within = 9 }, { months = 24, within = 9 }]"
REFUSED = [
    ([(VISITS, 'visits = ["m99"]')], "no view has a subject of the first visit at visit 'm99'"),
    ([(VISITS, 'visits = ["bl"]')], "bl is not later than visit of [views.vbm], bl"),
    ([(VISITS, 'visits = ["m24", "m12"]')], "m12 is not later than the visits before it"),
    ([(VISITS, WIDE)], "not later than the visits before it"),
    ([(VISITS, 'visits = ["first"]')], "'first' is not a visit"),
    ([(VISITS, "visits = [{ months = 12 }]")], "needs months, and within"),
    ([(VISITS, "visit = 'm12'")], "followup.visit: unknown key; did you mean 'visits'?"),
    ([(SCAN, 'visit = "first"')], "that is the same for all: a code such as 'bl'"),
    ([(SCAN, 'visit = "nearest:"')], "needs a column of dates"),
    ([(SCAN, 'visit = "nearest:LHippocampus"'), NO_FOLLOWUP], "no valid date"),
    ([('converts_to = "AD"', 'converts_to = "Alz"')], "no visit has the diagnosis 'Alz' of survival.conv"),
    ([('among = "MCI"', 'among = "mci"')], "'mci' of survival.among; did you mean 'MCI'"),
    ([('diagnosis = "diagnosis"', ""), ALL_SUBJECTS], "converts_to needs diagnosis"),
    ([('date = "exam_date"', 'date = "exam"')], "no date"),
    ([('date = "exam_date"', 'date = "sex"')], "column 'sex' has no valid date"),
]


@pytest.mark.parametrize(("changes", "told"), REFUSED)
def test_what_cannot_be_followed_is_refused_on_one_line(other, changes, told):
    assert told in refused(other(*changes))


def test_nearest_scans_in_a_study(folder, other):
    """By a loop over the file: the scan nearest to the exam at the baseline."""
    changes = [('visit = "bl"\ndate = "scan_date"', 'visit = "nearest:scan_date"')]
    study = read_study(other(*changes, ('[followup]\nvisits = "all"\n', "")))
    people, scans = pd.read_csv(folder / "participants.csv"), pd.read_csv(folder / "vbm.csv")
    exam = people[people["visit"] == "bl"].set_index("participant_id")["exam_date"]
    views = load(study).views
    values = pd.DataFrame(views["vbm"], views.ids, views.feature_names["vbm"])
    for subject, rows in scans.groupby("participant_id"):
        days = (pd.to_datetime(rows["scan_date"]) - pd.Timestamp(exam[subject])).dt.days.abs()
        expected = rows.loc[days.idxmin(), "LHippocampus"]
        assert values.loc[subject, "LHippocampus"] == pytest.approx(expected)
    notes = [str(note) for note in check(study).notes]
    assert any("visit nearest to the date of the participants kept: " in note for note in notes)


def test_problems_of_the_participants_are_said_once(other):
    with pytest.raises(StudyError) as caught:
        load(read_study(other(('visit = "bl"\ndate = "exam_date"', 'visit = "m77"\ndate = "exam_date"'))))
    lines = [line for line in str(caught.value).split("\n") if "m77" in line]
    assert len(lines) == 1
