"""Who is clustered: rules as pure functions, and studies in which controls are reference."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from noted import texts
from numpy.testing import assert_array_equal
from typer.testing import CliRunner

from viewloom.cli.commands import app
from viewloom.study import StudyError, check, read_study
from viewloom.study.config.rules import Rule, rules_of
from viewloom.study.design import ControlsPlaced, Design, WithControls
from viewloom.study.report import summarize, to_html
from viewloom.study.run import analyse, predict, prepare
from viewloom.study.run.prediction import save_model
from viewloom.study.selecting import exclusions, matches, problems_of

runner = CliRunner()
N = 90
IDS = [f"S{j:03d}" for j in range(N)]
DX = np.array(["AD", "MCI", "CN"] * (N // 3))
STUDY = """
[participants]
path = "people.csv"
id = "id"
diagnosis = "dx"
covariates = ["age"]
outcomes = ["mmse"]
[views.mri]
path = "mri.csv"
id = "id"
[views.pet]
path = "pet.csv"
id = "id"
[preparation]
residualise = ["age"]
controls = "CN"
[model]
n_clusters = 2
kernel = "linear"
"""
PATIENTS = '[cluster]\ninclude = { dx = ["AD", "MCI"] }\n'


def written(folder, cluster="", *, people=None, mri=None):
    """The files of a study of 30 AD, 30 MCI and 30 controls; two patterns of atrophy, and severity."""
    rng = np.random.default_rng(0)
    ids = pd.Index(IDS, name="id")
    stage = np.where(DX == "CN", 0.0, np.where(DX == "MCI", 0.5, 1.0)) + 0.2 * rng.random(N)
    pattern = np.arange(N) // 3 % 2
    age = rng.normal(70, 6, N).round(1)
    table = pd.DataFrame({"dx": DX, "age": age, "mmse": (30 - 8 * stage).round(), "flag": 1.0}, index=ids)
    table["group"] = np.where(np.arange(N) < 60, "1", "2")
    table = table if people is None else people(table)
    for name, width in (("mri", 8), ("pet", 6)):
        X = 10 + rng.standard_normal((N, width)) - 0.05 * (age[:, None] - 70) - 3 * stage[:, None]
        X[:, : width // 2] -= 2.0 * ((pattern == 0) & (DX != "CN"))[:, None]
        frame = pd.DataFrame(X.round(4), index=ids).add_prefix(f"{name}_")
        if name == "mri":
            frame["QC"] = np.where(np.arange(N) % 10 == 0, "Fail", "Pass")
            frame["motion"] = (np.arange(N) * 7 % N / N).round(3)
            frame = frame if mri is None else mri(frame)
        frame.to_csv(folder / f"{name}.csv")
    table.to_csv(folder / "people.csv")
    ignored = "" if "mri.QC" in cluster else 'exclude = ["QC", "motion"]\n'
    text = STUDY.replace('path = "mri.csv"\n', f'path = "mri.csv"\n{ignored}')
    (folder / "study.toml").write_text(text + cluster)
    return read_study(folder / "study.toml")


def refused(study):
    """The problems, which `check` and `prepare` state alike."""
    with pytest.raises(StudyError) as caught:
        prepare(study)
    found = check(study)
    assert not found.ok
    assert found.problems == str(caught.value).split("\n")
    assert not any(subject in line for line in found.problems for subject in IDS)
    return found.problems


class TestRules:
    """Against loops over cells."""

    CELLS = ("AD", " AD ", "ad", 1, 1.0, "1", "1.0", 0.5, None, np.nan, "", "MCI")

    @pytest.mark.parametrize(
        ("code", "expected"),
        [
            ("AD", {0, 1}),
            ("ad", {2}),
            ("1", {3, 4, 5}),
            ("1.0", {3, 4, 5, 6}),
            ("0.5", {7}),
            ("MCI", {11}),
            ("other", set()),
        ],
    )
    def test_codes_match_as_diagnoses_do(self, code, expected):
        rule = Rule("include", "x", None, "x", (code,))
        matched, known = matches(rule, pd.Series(self.CELLS, dtype=object))
        assert set(np.flatnonzero(matched)) == expected
        assert_array_equal(known, [cell is not None and cell == cell and cell != "" for cell in self.CELLS])

    def test_ranges_include_their_ends(self):
        rng = np.random.default_rng(0)
        column = pd.Series(np.where(rng.random(200) < 0.1, np.nan, rng.integers(0, 20, 200)))
        for low, high in [(3, 7), (-np.inf, 7), (3, np.inf)]:
            matched, known = matches(Rule("include", "x", None, "x", low=low, high=high), column)
            assert matched.tolist() == [bool(low <= value <= high) for value in column]
            assert known.tolist() == [value == value for value in column]

    def test_every_rule_against_a_loop(self):
        rng = np.random.default_rng(1)
        dx = pd.Series(rng.choice(["AD", "MCI", "CN", None], 300), dtype=object)
        age = pd.Series(np.where(rng.random(300) < 0.1, np.nan, rng.integers(50, 90, 300)))
        qc = pd.Series(rng.choice(["Pass", "Fail", None], 300), dtype=object)
        rules = rules_of({"dx": ["AD", "MCI"], "age": {"min": 60}}, {"mri.qc": ["Fail"]}, ["mri"])
        there = rng.random(300) < 0.7
        everyone = np.ones(300, dtype=bool)
        reasons = exclusions(rules, [dx, age, qc], [everyone, everyone, there])
        clustered = [not any(found) for found in zip(*reasons, strict=True)]
        expected = [
            d in ("AD", "MCI") and a >= 60 and q != "Fail" and not (q is None and t)
            for d, a, q, t in zip(dx, age, qc, there, strict=True)
        ]
        assert clustered == expected

    def test_problems_name_the_nearest_level_and_all_levels(self):
        column = pd.Series(["AD", "MCI", "CN"], dtype=object)
        (line,) = problems_of(Rule("include", "dx", None, "dx", ("mci",)), column)
        assert (
            line
            == "cluster.include: 'dx': no subject has 'mci'; did you mean 'MCI'? There are 'AD', 'CN', 'MCI'."
        )

    def test_levels_that_may_be_ids_are_only_counted(self):
        (line,) = problems_of(Rule("include", "x", None, "x", ("S00",)), pd.Series(IDS, dtype=object))
        assert line == f"cluster.include: 'x': no subject has 'S00'; there are {N} others."

    def test_views_with_dots_and_common_starts(self):
        rules = rules_of({"mri.t1.QC": ["1"], "mri.QC": ["1"], "pet": ["1"]}, {}, ["mri", "mri.t1", "pet"])
        assert [(rule.view, rule.column) for rule in rules] == [
            ("mri.t1", "QC"),
            ("mri", "QC"),
            (None, "pet"),
        ]


class TestWhoIsClustered:
    def test_patients_are_clustered_and_controls_are_reference(self, tmp_path):
        ready = prepare(written(tmp_path, PATIENTS))
        assert ready.views.ids.tolist() == [one for one, dx in zip(IDS, DX, strict=True) if dx != "CN"]
        assert ready.reference.ids.tolist() == [one for one, dx in zip(IDS, DX, strict=True) if dx == "CN"]
        assert ready.data.participants.index.equals(ready.views.ids)
        assert ready.check.n_subjects == 60
        assert ready.check.diagnoses == {"AD": 30, "MCI": 30}
        assert ready.check.groups.loc["CN"].to_dict() == {"clustered": 0, "reference": 30, "left out": 0}
        assert (
            "60 subjects clustered, 30 subjects reference, 0 subjects left out"
            in texts(ready.check.notes)[-1]
        )

    def test_without_rules_nothing_changes(self, tmp_path):
        ready = prepare(written(tmp_path))
        assert len(ready.views) == N
        assert ready.reference is None
        assert ready.check.groups.empty

    def test_excluding_the_diagnosis_makes_controls_reference(self, tmp_path):
        ready = prepare(written(tmp_path, '[cluster]\nexclude = { dx = "CN" }\n'))
        assert len(ready.views) == 60
        assert len(ready.reference) == 30

    def test_a_rule_on_a_views_column_of_text(self, tmp_path):
        """Failed scans are out, controls among them; the column is no feature."""
        rules = '[cluster]\ninclude = { dx = ["AD", "MCI"] }\nexclude = { "mri.QC" = "Fail" }\n'
        ready = prepare(written(tmp_path, rules, mri=lambda frame: frame.drop(columns="motion")))
        failed = np.arange(N) % 10 == 0
        assert len(ready.views) == ((DX != "CN") & ~failed).sum()
        assert len(ready.reference) == ((DX == "CN") & ~failed).sum()
        assert "QC" not in ready.views.feature_names["mri"]
        assert ready.check.aside["mri"]["QC"] == "named under cluster.exclude"
        assert f"{failed.sum()} excluded by 'mri.QC'" in "".join(texts(ready.check.notes))

    @pytest.mark.parametrize("visit", ['"nearest:scan"', '{ months = 0, within = 6 }\ndate = "scan"'])
    def test_flags_are_those_of_the_scan_that_is_kept(self, tmp_path, visit):
        """An earlier scan of everyone failed; the scan at the exam has the flags of the fixture."""

        def scans(frame):
            earlier = frame.assign(QC="Fail", scan="2020-01-10")
            return pd.concat([earlier, frame.assign(scan="2021-01-20")])

        rules = '[cluster]\nexclude = { "mri.QC" = "Fail" }\n'
        written(tmp_path, rules, people=lambda table: table.assign(exam="2021-01-15"), mri=scans)
        text = (tmp_path / "study.toml").read_text().replace('id = "id"\n', 'id = "id"\ndate = "exam"\n', 1)
        text = text.replace('path = "mri.csv"\n', f'path = "mri.csv"\nvisit = {visit}\n')
        (tmp_path / "study.toml").write_text(text)
        ready = prepare(read_study(tmp_path / "study.toml"))
        assert len(ready.views) == N - N // 10

    def test_who_lacks_the_view_is_not_excluded_by_its_column(self, tmp_path):
        rules = '[cluster]\nexclude = { "mri.QC" = "Fail" }\n'
        ready = prepare(written(tmp_path, rules, mri=lambda frame: frame.drop(columns="motion").iloc[20:]))
        assert set(IDS[:20]) <= set(ready.views.ids)
        assert len(ready.views) == N - 7

    def test_a_numeric_column_of_a_view(self, tmp_path):
        rules = '[cluster]\nexclude = { "mri.motion" = { min = 0.9 }, "mri.QC" = ["Fail"] }\n'
        ready = prepare(written(tmp_path, rules))
        moved = (np.arange(N) * 7 % N / N).round(3) >= 0.9
        kept = ~moved & (np.arange(N) % 10 != 0)
        assert ready.views.ids.tolist() == [one for one, keep in zip(IDS, kept, strict=True) if keep]

    def test_missing_values_are_left_out_and_counted(self, tmp_path):
        def some(table):
            table.loc[IDS[:3], "mmse"] = np.nan
            return table

        ready = prepare(written(tmp_path, "[cluster]\ninclude = { mmse = { min = 0 } }\n", people=some))
        assert len(ready.views) == N - 3
        assert len(ready.reference) == 1
        assert "2 without 'mmse'" in texts(ready.check.notes)[-1]

    def test_columns_named_only_by_rules_are_read_and_codes_are_numbers(self, tmp_path):
        ready = prepare(written(tmp_path, "[cluster]\ninclude = { group = 1 }\n"))
        assert len(ready.views) == 60

    def test_the_notes_of_a_report_hide_small_groups(self, tmp_path):
        rules = '[cluster]\ninclude = { dx = ["AD", "MCI"], age = { min = 65 } }\n'
        ready = prepare(written(tmp_path, rules))
        left = int((ready.check.groups["left out"]).sum())
        assert 0 < left < 11
        shared = [note.shared(11) for note in ready.check.notes]
        assert "fewer than 11 subjects left out" in shared[-2]
        assert f"{left} " not in shared[-1]

    @pytest.mark.parametrize(
        ("rules", "words"),
        [
            (
                'include = { dx = "EMCI" }',
                "no subject has 'EMCI'; did you mean 'MCI'? There are 'AD', 'CN', 'MCI'",
            ),
            ('exclude = { dx = "PSP" }', "cluster.exclude: 'dx': no subject has 'PSP'; there are 'AD'"),
            ('include = { diagnose = "AD" }', "no column 'diagnose', named under cluster.include"),
            ("include = { dx = { min = 1 } }", "'dx' is not numeric ('AD', 'CN', 'MCI')"),
            ("include = { age = { min = 200 } }", "no subject is within { min = 200 }"),
            ('include = { "mri.QX" = "Pass" }', "view 'mri': mri.csv: no column 'QX', named under [cluster]"),
            ('include = { dx = "AD" }\nexclude = { dx = "AD" }', "no subject is left by the rules"),
            ('include = { dx = "CN" }\nexclude = { age = { min = 40 } }', "no subject is left"),
            (
                'include = { dx = ["AD", "CN"] }\nsensitivity = ["with-controls"]',
                "no control is left to be added",
            ),
            ('remove_severity = "moca"', "no column 'moca', named under cluster.remove_severity"),
            ('remove_severity = "dx"', "'dx' is not numeric"),
            ('remove_severity = "flag"', "'flag' is constant among the clustered subjects"),
        ],
    )
    def test_refused_in_one_line(self, tmp_path, rules, words):
        (line,) = refused(written(tmp_path, f"[cluster]\n{rules}\n"))
        assert words in line

    def test_a_column_that_the_format_does_not_read(self, tmp_path):
        written(tmp_path)
        rows = [f"{one},{region},{j % 7 + 0.1},Pass" for j, one in enumerate(IDS) for region in ("a", "b")]
        (tmp_path / "long.csv").write_text("id,region,suvr,QC\n" + "\n".join(rows) + "\n")
        view = '[views.fdg]\npath = "long.csv"\nformat = "long"\nid = "id"\nname = "region"\nvalue = "suvr"\n'
        text = (tmp_path / "study.toml").read_text() + view + '[cluster]\nexclude = { "fdg.QC" = "Fail" }\n'
        (tmp_path / "study.toml").write_text(text)
        (line,) = refused(read_study(tmp_path / "study.toml"))
        assert "column 'QC', named under [cluster], is not read by format 'long'" in line

    def test_a_view_that_nobody_who_is_clustered_has(self, tmp_path):
        study = written(tmp_path, '[cluster]\ninclude = { dx = "AD" }\n', mri=lambda frame: frame[DX != "AD"])
        assert "none of the subjects to cluster has the view" in refused(study)[0]

    def test_too_few_are_left(self, tmp_path):
        def three(table):
            return table.assign(age=np.where(np.arange(N) < 3, 95.0, table["age"]))

        study = written(tmp_path, "[cluster]\ninclude = { age = { min = 94 } }\n", people=three)
        assert "too few for 2 clusters" in refused(study)[0]

    @pytest.mark.parametrize(
        ("rules", "words"),
        [
            ("include = { dx = [] }", "names no group"),
            ("include = { age = {} }", "needs min or max"),
            ("include = { age = { min = 5, max = 4 } }", "min is above max: 5 and 4"),
            ('sensitivity = ["with-controls"]', "'with-controls' needs rules"),
        ],
    )
    def test_refused_before_files_are_read(self, tmp_path, rules, words):
        written(tmp_path)
        text = (tmp_path / "study.toml").read_text()
        (tmp_path / "study.toml").write_text(f"{text}[cluster]\n{rules}\n")
        result = runner.invoke(app, ["check", str(tmp_path / "study.toml")])
        assert result.exit_code == 2
        assert words in result.output.replace("\n", " ")

    def test_rules_without_participants(self, tmp_path):
        written(tmp_path)
        text = '[views.pet]\npath = "pet.csv"\nid = "id"\n[cluster]\ninclude = { dx = "AD" }\n'
        (tmp_path / "study.toml").write_text(text + 'remove_severity = "mmse"\n')
        with pytest.raises(StudyError, match="there are no participants; write view") as caught:
            read_study(tmp_path / "study.toml")
        assert "column 'mmse' needs [participants]" in str(caught.value)

    def test_the_command_line_says_who(self, tmp_path):
        written(tmp_path, PATIENTS)
        result = runner.invoke(app, ["check", str(tmp_path / "study.toml")])
        assert result.exit_code == 0
        assert "Who is clustered" in result.output
        found = json.loads(runner.invoke(app, ["check", str(tmp_path / "study.toml"), "--json"]).output)
        assert found["groups"]["reference"] == {"AD": 0, "CN": 30, "MCI": 0}


class TestControlsAsReference:
    def test_patients_do_not_change_what_is_estimated_in_controls(self, tmp_path):
        def weaker(frame):
            frame.loc[DX == "AD", "mri_0"] += 5.0
            return frame

        (tmp_path / "a").mkdir()
        (tmp_path / "b").mkdir()
        one, other = (
            prepare(written(tmp_path / name, PATIENTS, mri=change)).preparation
            for name, change in (("a", None), ("b", weaker))
        )
        for before, after in zip(one.views[0].steps[2:3], other.views[0].steps[2:3], strict=True):
            assert_array_equal(before.slopes, after.slopes)

    def test_controls_change_the_model_through_the_preparation_only(self, tmp_path):
        """Without residuals, other values of controls leave the views of patients as they are."""

        def shifted(frame):
            frame.loc[DX == "CN", "mri_0"] += 2.0
            return frame

        labels = []
        for name, change in (("a", None), ("b", shifted)):
            (tmp_path / name).mkdir()
            study = written(tmp_path / name, PATIENTS, mri=change)
            plain = study.preparation.model_copy(update={"residualise": []})
            ready = prepare(study.model_copy(update={"preparation": plain}))
            labels.append((ready.views["mri"], ready.reference["mri"]))
        assert_array_equal(labels[0][0], labels[1][0])
        assert not np.array_equal(labels[0][1], labels[1][1])

    def test_who_is_left_out_takes_part_in_nothing(self, tmp_path):
        def noisy(frame):
            frame.loc[DX == "MCI", "mri_1"] *= 1.2
            return frame

        prepared = []
        for name, change in (("a", None), ("b", noisy)):
            (tmp_path / name).mkdir()
            prepared.append(
                prepare(written(tmp_path / name, '[cluster]\ninclude = { dx = "AD" }\n', mri=change))
            )
        assert_array_equal(prepared[0].everyone["mri"], prepared[1].everyone["mri"])


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    """A run in which controls are reference, and its folder."""
    folder = tmp_path_factory.mktemp("design")
    study = written(folder, PATIENTS + 'remove_severity = "common"\nsensitivity = ["with-controls"]\n')
    results = analyse(study)
    save_model(results, folder / "model.safetensors")
    return results, folder


class TestDesign:
    def test_results_are_of_the_clustered(self, fitted):
        results, _ = fitted
        assert len(results.views) == len(results.model.labels_) == len(results.participants) == 60

    def test_controls_are_placed_and_clustered(self, fitted):
        design = fitted[0].design
        assert design.controls.sizes.sum() == 30
        assert design.with_controls.controls.sum() == 30
        assert design.with_controls.table.sum() == 60
        assert design.groups["reference"].to_dict() == {"AD": 0, "CN": 30, "MCI": 0}

    def test_placing_is_that_of_predict(self, fitted):
        """The same controls as new subjects."""
        results, folder = fitted
        table = predict(folder / "model.safetensors", read_study(folder / "study.toml"))
        assert len(table) == N  # all new subjects are placed, whatever the rules
        controls = table[table["id"].isin([one for one, dx in zip(IDS, DX, strict=True) if dx == "CN"])]
        assert_array_equal(np.bincount(controls["label"], minlength=2), results.design.controls.sizes)
        assert (controls["far"] == "yes").sum() == results.design.controls.far

    def test_the_stored_model_removes_the_same(self, fitted):
        """Training subjects placed again have their memberships, since severity is removed alike."""
        results, folder = fitted
        table = predict(folder / "model.safetensors", read_study(folder / "study.toml")).set_index("id")
        again = table.loc[results.views.ids, "label"].to_numpy()
        assert np.mean(again == results.model.labels_) > 0.9

    def test_the_report_tells(self, fitted):
        summary = summarize(fitted[0])
        design = summary["design"]
        told = " ".join(design["sentences"])
        assert "60 subjects were clustered. 30 controls are reference" in told
        assert "left out" not in told  # nobody is
        assert "Before clustering, the first common component was removed from every view." in told
        assert "No clinical score tells how much of the clustering is severity" in told
        assert [table["id"] for table in design["tables"]] == [
            "groups",
            "controls",
            "with-controls",
            "severity",
        ]
        page = to_html(summary, {figure["id"]: "" for figure in summary["figures"]})
        assert '<h2 id="h-design">Who was clustered</h2>' in page

    def test_small_counts_are_hidden(self, fitted):
        """In every table and sentence of the section; 3 to 6 and what they could be derived from."""
        results = fitted[0]
        again = WithControls(0.7, np.array([[25, 3], [4, 28]]), np.array([25, 5]))
        placed = ControlsPlaced(np.array([25, 5]), np.array([0.2, 0.3]), 6)
        groups = pd.DataFrame({"clustered": [57, 3], "reference": [25, 5], "left out": [4, 0]}, ["AD", "MCI"])
        design = Design(groups, placed, again, results.design.severity)
        section = summarize(replace(results, design=design))["design"]
        told = [cell["text"] for table in section["tables"][:3] for row in table["rows"] for cell in row[1:]]
        assert not {"3", "4", "5", "6", "25", "57"} & {*told}
        assert "<11" in told
        assert "Fewer than 11 of them are far" in " ".join(section["sentences"])
        assert "Fewer than 11 subjects are left out" in " ".join(section["sentences"])

    def test_new_subjects_need_the_column_that_was_removed(self, tmp_path):
        study = written(tmp_path, PATIENTS + 'remove_severity = "mmse"\n')
        results = analyse(study)
        save_model(results, tmp_path / "model.safetensors")
        people = pd.read_csv(tmp_path / "people.csv")
        people.loc[:1, "mmse"] = np.nan
        people.to_csv(tmp_path / "people.csv", index=False)
        notes = predict(tmp_path / "model.safetensors", study).attrs["notes"]
        assert "2 subjects without 'mmse', from whom severity is not removed" in texts(notes)
        people.drop(columns="mmse").to_csv(tmp_path / "people.csv", index=False)
        text = (tmp_path / "study.toml").read_text().replace('outcomes = ["mmse"]\n', "")
        (tmp_path / "study.toml").write_text(text.split("[cluster]")[0])
        with pytest.raises(StudyError, match="column 'mmse' of the participants is needed"):
            predict(tmp_path / "model.safetensors", read_study(tmp_path / "study.toml"))


def test_an_interrupted_run_is_resumed_with_its_fit_of_controls(tmp_path, monkeypatch):
    from viewloom.study.run import design

    study = written(tmp_path, PATIENTS + 'sensitivity = ["with-controls"]\n')
    first = analyse(study, checkpoints=tmp_path / "kept")
    monkeypatch.setattr(design, "fit_again", lambda *_: pytest.fail("fitted again"))
    again = analyse(study, checkpoints=tmp_path / "kept")
    assert_array_equal(first.design.with_controls.table, again.design.with_controls.table)
