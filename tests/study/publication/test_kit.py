"""The publication kit: it says what was done and nothing else, and shows nobody."""

import copy
import csv
import json
import re
import shutil
import zipfile
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from small import STUDY, write_small
from typer.testing import CliRunner

import viewloom as vl
from viewloom.cli.commands import app
from viewloom.clinical.used import USED
from viewloom.runtime.errors import MissingPackageError
from viewloom.study import StudyError, read_study, report, run
from viewloom.study.preparation.fitted import Plan, Preparation
from viewloom.study.publication import kit as kit_module
from viewloom.study.publication import methods_text, write_paper
from viewloom.study.publication.blocks import Statement, escaped, to_markdown
from viewloom.study.publication.checklist import ANSWERED, ITEMS, OPEN, filled
from viewloom.study.publication.record import read_record
from viewloom.study.publication.references import REFERENCES, software
from viewloom.study.publication.table_one import MARK, TableOne
from viewloom.study.report.methods import _preparation
from viewloom.study.run import computations
from viewloom.study.run.paper_figures import write_figures

openpyxl, Document = pytest.importorskip("openpyxl"), pytest.importorskip("docx").Document
MEDIAN, KNN, REGRESSION = "the median of the feature", "nearest subject", "by linear regression"
SPLINE, SCALED, SEVERITY = "natural cubic spline", "scaled to unit variance", "As a measure of severity"
MARKS = (MEDIAN, KNN, REGRESSION, SPLINE, SCALED, SEVERITY, "w-scores", "ComBat")
WORD = ("methods.docx", "checklist.docx", "model_card.docx", "table1.docx")
TEXT = ("methods.md", "checklist.md", "model_card.md", "references.bib", "table1.csv")


HOSTILE = {
    "diagnosis": '=HYPERLINK("http://example.org/")',
    "mmse": "<script>alert(1)</script>",
    "sex": "@sum | [x](y) `z`",
}


def fitted(folder, text):
    """The run folder of a study, with few refits; the report shows subjects, which a paper must not."""
    (folder / "study.toml").write_text(text, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(computations, "REFITS", 3)
        patch.setattr(report, "inline_figures", lambda parts, names: dict.fromkeys(parts, ""))  # saves time
        run.run_study(read_study(folder / "study.toml"), folder / "run", subjects=True)
    return folder / "run"


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = write_small(tmp_path_factory.mktemp("small"), missing=0.1)
    return fitted(folder, STUDY + "seed = 5\n")


def written(folder, only=("weights", "brain_vbm")):
    """Names and paths of the files of a kit, with few figures."""
    with pytest.MonkeyPatch.context() as patch:
        if only:
            patch.setattr(kit_module, "write_figures", partial(write_figures, only=only))
        else:
            patch.setattr(kit_module, "_write_figures", lambda *_: None)
        return {path.name: path for path in write_paper(folder, formats=["svg"])}


@pytest.fixture(scope="module")
def kit(finished):
    return written(finished)


@pytest.fixture(scope="module")
def hostile_kit(tmp_path_factory):
    folder = write_small(tmp_path_factory.mktemp("hostile"))
    people = pd.read_csv(folder / "participants.csv").rename(columns=HOSTILE)
    people[HOSTILE["diagnosis"]] = "+cmd|' /C calc'!A0 " + people[HOSTILE["diagnosis"]]
    people.to_csv(folder / "participants.csv", index=False)
    text = STUDY.replace('name = "Small"', 'name = "=2+3\\u0007"')
    for name, harm in HOSTILE.items():
        text = text.replace(f'"{name}"', f"'{harm}'")
    return written(fitted(folder, text), only=())


@pytest.fixture(scope="module")
def record(finished):
    return read_record(finished)


def section(make, record):
    return " ".join(statement.text for statement in make(record))


def changed(record, **methods):
    """The record of a run in which something else was done."""
    return replace(record, methods={**copy.deepcopy(record.methods), **methods})


def read(path):
    """All text of a file: of Word and Excel files the text that their libraries show."""
    if path.suffix == ".docx":
        document = Document(str(path))
        cells = [cell.text for table in document.tables for row in table.rows for cell in row.cells]
        return "\n".join([*(part.text for part in document.paragraphs), *cells])
    if path.suffix == ".xlsx":
        return "\n".join(str(cell) for row in sheet(path).iter_rows(values_only=True) for cell in row if cell)
    return path.read_text(encoding="utf-8")


def sheet(path):
    return openpyxl.load_workbook(path).active


class TestMethods:
    def test_numbers_are_those_of_the_run(self, finished, kit):
        about = json.loads((finished / "run.json").read_text(encoding="utf-8"))
        metrics = json.loads((finished / "metrics.json").read_text(encoding="utf-8"))
        weights = pd.read_csv(finished / "weights.csv")
        text = read(kit["methods.md"])
        assert f"All {metrics['subjects']} subjects" in text
        assert f"The number of clusters, {metrics['clusters']}," in text
        assert f"random seed {about['seed']} " in text
        assert about["seed"] == 5
        assert f"after {metrics['iterations']} iterations" in text
        for view, features in zip(weights["view"], weights["features"], strict=True):
            assert f"{view} ({features} features" in text
        for package, version in about["versions"].items():
            assert f"{package} {version}" in text
        model = about["settings"]["model"]
        assert f"lambda {model['lam']:g} " in text
        assert "a linear kernel" in text

    def test_word_and_markdown_say_the_same(self, record, kit):
        word, plain = read(kit["methods.docx"]), read(kit["methods.md"]).replace("\\", "")
        blocks = [block for block in methods_text.methods_blocks(record) if hasattr(block, "statements")]
        assert len(blocks) == 6
        for statement in (one for block in blocks for one in block.statements):
            assert statement.text in word
            assert statement.text in plain

    @pytest.mark.parametrize(
        ("plan", "marks", "words"),
        [
            ({}, {MEDIAN}, ""),
            ({"impute": "knn"}, {KNN}, "mean of the 5 nearest subjects"),
            ({"residualise": ["age"], "residualise_on": "all"}, {MEDIAN, REGRESSION}, "in all subjects"),
            ({"residualise": ["age", "sex"]}, {MEDIAN, REGRESSION}, "estimated in controls (HC)"),
            ({"residualise": ["age"], "splines": ["age"]}, {MEDIAN, REGRESSION, SPLINE}, "of age (age"),
            ({"w_scores": ["age", "sex"]}, {MEDIAN, "w-scores"}, "the same age and sex"),
            ({"harmonise": "combat"}, {MEDIAN, "ComBat"}, "the 3 sites of site"),
            ({"harmonise": "combat", "harmonise_on": "controls"}, {MEDIAN, "ComBat"}, "in controls only"),
            ({"standardise": True}, {MEDIAN, SCALED}, "vbm and fdg were scaled"),
            ({"remove_severity": "mmse"}, {MEDIAN, SEVERITY}, "the linear effect of mmse was removed"),
            ({"remove_severity": "common"}, {MEDIAN, SEVERITY}, "the first common component of the views"),
        ],
    )  # fmt: skip
    def test_each_step_has_its_sentence_and_no_other(self, record, cohort, plan, marks, words):
        views, people = cohort
        roles = {"diagnosis": "diagnosis", "controls": "HC", "site": "site", "min_site": 3}
        fitted = Preparation.fit(views, people, Plan(**roles, **plan))
        views_said = [{**view, "scale": "none"} for view in record.methods["views"]]
        done = changed(record, preparation=_preparation(fitted), views=views_said)
        text = section(methods_text.preparation, done)
        assert words in text
        assert {mark for mark in MARKS if mark in text} == marks  # one view has missing cells

    def test_imputation_is_not_claimed_without_missing_cells(self, cohort):
        views, people = cohort
        whole = vl.Views({"fdg": np.nan_to_num(views["fdg"])}, ids=views.ids)
        assert _preparation(Preparation.fit(whole, people, Plan()))["steps"] == {}

    @pytest.mark.parametrize(
        ("make", "done", "words"),
        [
            ("clustering", {"converged": False}, "did not converge within"),
            ("clustering", {"candidates": [2, 3, 4], "recommended": 3}, "Numbers from 2 to 4"),
            ("clustering", {"candidates": [2, 3], "recommended": None}, "no number was clearly better"),
            ("clustering", {"lam": {"vbm": 1.0, "fdg": 2.0}}, "lambda 1 for vbm and 2 for fdg"),
            ("stability", {"left_out_sites": 4}, "Each of 4 sites was also left out"),
            ("stability", {"twins": {"number": 7, "verdict": "clusters"}}, "7 simulated data sets"),
            ("stability", {"twins": {"number": 7, "verdict": "cuts"}}, "cuts through a continuum"),
            ("stability", {"comparison": {"methods": ["k-means"], "seeds": 3}}, "views, with 3 random"),
            ("stability", {"comparison": {"methods": ["SV a", "SV b", "ours, linear"], "seeds": 1}},
             "single views (SV) and the method of this study with other kernels (linear)"),
        ],
    )  # fmt: skip
    def test_each_analysis_has_its_sentence(self, record, make, done, words):
        function = getattr(methods_text, make)
        assert words not in section(function, record)
        assert words in section(function, changed(record, **done))

    @pytest.mark.parametrize(
        ("done", "words", "key"),
        [
            ({"survival": True}, "Kaplan-Meier curves", "kaplan1958"),
            ({"slopes": 2, "visits": 1}, "linear mixed models", "laird1982"),
            ({"pairs": ["Mann-Whitney"]}, "Holm's correction", "holm1979"),
            (
                {"adjusted": ["linear", "ordinal"]},
                "linear and ordinal regression, adjusted for",
                "seabold2010",
            ),
            ({"cox": True}, "by Cox regression, adjusted for age and sex", "cox1972"),
            ({"held_out": {"features": 9, "variables": 1, "splits": 7}}, "in 7 random splits", "liu2020"),
        ],
    )
    def test_each_test_has_its_sentence_and_reference(self, record, done, words, key):
        without = {"survival": False, "slopes": 0, "visits": 0, "pairs": [], "adjusted": [], "cox": False}
        without |= {"held_out": None, "used": 0, "covariates": ["age", "sex"]}
        statements = {}
        for name, found in (("with", {**without, **done}), ("without", without)):
            tests = {**record.methods["tests"], **found}
            statements[name] = list(methods_text.tests(changed(record, tests=tests)))
        assert any(words in one.text and key in one.cites for one in statements["with"])
        assert not any(words in one.text or key in one.cites for one in statements["without"])

    def test_variables_that_were_used_are_said_to_be_not_tested(self, record):
        found = {
            **record.methods["tests"],
            "used": 2,
            "held_out": {"features": 9, "variables": 1, "splits": 0},
        }
        text = section(methods_text.tests, changed(record, tests=found))
        assert "2 variables were used for clustering" in text
        assert "9 features and 1 such variable were compared between clusters of the other views" in text
        assert "splits" not in text

    def test_rules_name_no_subjects(self, record):
        cluster = {
            "include": {"age": {"min": 55}},
            "exclude": {"participant_id": ["S01", "S02"], "sex": ["F"]},
        }
        text = section(methods_text.rules, replace(record, settings={**record.settings, "cluster": cluster}))
        assert text == (
            "Included were subjects with age of at least 55 "
            "Excluded were subjects with 2 values of participant_id and sex F"
        )


@pytest.fixture(scope="module")
def cohort():
    """A cohort of 90 subjects of three sites; some cells of one view are missing."""
    found = vl.simulate.adni_like(30, 30, 30, n_sites=3, random_state=0)
    fdg = np.array(found.views["fdg"])
    fdg[::7, 0] = np.nan
    frames = {"vbm": found.views["vbm"][:, :6], "fdg": fdg}
    return vl.Views(frames, ids=found.participants.index, allow_nan=True), found.participants


class TestReferences:
    def test_all_that_are_cited_are_in_the_file_and_no_others(self, kit):
        cited = {key for name in TEXT[:3] for key in re.findall(r"(?<!\\)@(\w+)", read(kit[name]))}
        listed = re.findall(r"^@\w+{(\w+),", read(kit["references.bib"]), re.MULTILINE)
        assert set(listed) == cited
        assert len(listed) == len(set(listed))
        assert {"viewloom", "liu2023", "pedregosa2011", "lisik2025"} <= cited
        assert not {"johnson2007", "laird1982", "kaplan1958", "lajoie2012"} & cited

    def test_entries_are_balanced(self, kit):
        text = read(kit["references.bib"])
        assert text.count("{") == text.count("}")
        assert f"version {vl.__version__}" in text

    def test_viewloom_and_the_paper_are_cited_as_in_the_citation_file(self):
        source = Path(__file__).parents[3] / "CITATION.cff"
        if not source.exists():
            pytest.skip("not in a checkout")
        text = source.read_text(encoding="utf-8")
        title = REFERENCES["liu2023"].fields["title"].replace("{", "").replace("}", "").partition(" -- ")[0]
        assert title in text
        assert "name: The viewloom developers" in text
        assert software("1", "2026").fields["author"] == "{The viewloom developers}"

    @pytest.mark.parametrize("key", [key for key in REFERENCES if key != "viewloom"])
    def test_references_as_text(self, key):
        text = REFERENCES[key].text()
        assert REFERENCES[key].fields["year"] in text
        assert not set("{}\\") & set(text.replace("\\&", "&"))


class TestTableOne:
    def test_all_formats_hold_the_same_table(self, record, kit):
        table = TableOne.of(record)
        expected = [list(table.columns), *map(list, table.rows)]
        with kit["table1.csv"].open(encoding="utf-8", newline="") as file:
            assert list(csv.reader(file)) == expected
        rows = list(
            sheet(kit["table1.xlsx"]).iter_rows(min_row=2, max_row=len(expected) + 1, values_only=True)
        )
        assert [[cell or "" for cell in row] for row in rows] == expected
        word = Document(str(kit["table1.docx"])).tables[0]
        assert [[cell.text for cell in row.cells] for row in word.rows] == expected

    def test_cells_are_those_of_the_report(self, finished, record):
        content = json.loads((finished / "summary.json").read_text(encoding="utf-8"))["summary"]
        profile = next(table for table in content["tables"] if table["id"] == "profile")
        texts = [[cell["text"] for cell in row][1:] for row in profile["rows"]]
        table = TableOne.of(record)
        assert [list(row[1 : len(profile["columns"])]) for row in table.rows] == texts

    def test_small_counts_are_hidden_with_a_footnote(self, kit):
        text = read(kit["table1.docx"])
        assert "<11" in text
        assert "<11: fewer than 11 subjects" in text
        assert "Effects range" not in text  # the table has none

    def test_every_sign_of_a_hidden_number_is_explained(self, record):
        summary = copy.deepcopy(record.summary)
        (shown,) = (one for one in summary["tables"] if one["id"] == "profile")
        for at, sign in enumerate(("hidden", "about 20")):
            shown["rows"][1 + at][2]["text"] = sign
        notes = TableOne.of(replace(record, summary=summary)).footnotes[-1]
        assert "hidden: not shown" in notes
        assert "about: rounded" in notes
        assert "about:" not in TableOne.of(record).footnotes[-1]

    def test_tests_are_beside_their_variable(self, record):
        frame = TableOne.of(record).frame
        row = frame[frame["variable"] == "mmse"].iloc[0]
        assert row["test"] == "Kruskal-Wallis"
        assert (frame.loc[frame["variable"] == "", "test"] == "").all()

    def test_variables_that_were_used_have_a_footnote_and_no_p(self, record):
        assert not any(MARK in note for note in TableOne.of(record).footnotes)
        summary = copy.deepcopy(record.summary)
        (shown,) = (one for one in summary["tables"] if one["id"] == "associations")
        at = [column["label"] for column in shown["columns"]].index("significant")
        (row,) = (row for row in shown["rows"] if row[0]["text"] == "mmse")
        row[at]["text"] = USED
        table = TableOne.of(replace(record, summary=summary))
        frame = table.frame
        assert frame.loc[frame["variable"] == "mmse", ["test", "p", "q"]].to_numpy().tolist() == [
            [MARK, "", ""]
        ]
        assert table.footnotes[0].startswith(f"{MARK} Used for clustering")

    def test_without_participants_it_has_the_sizes(self, record):
        tables = [table for table in record.summary["tables"] if table["id"] != "profile"]
        bare = replace(record, summary={**record.summary, "tables": tables})
        assert TableOne.of(bare).columns[:2] == ("cluster", "subjects")


class TestChecklistAndCard:
    def test_every_item_is_answered_or_left_to_the_authors(self, record):
        found = filled(record)
        assert [one.number for one in found] == list(range(1, len(ITEMS) + 1))
        assert all(one.answer for one in found)
        assert all(one.status == OPEN for one in found if one.item.answer is None)
        assert sum(one.status == ANSWERED for one in found) >= 10

    def test_it_does_not_pretend_to_be_the_published_wording(self, kit):
        assert "not the wording of TRoCA" in read(kit["checklist.md"])

    def test_answers_follow_the_run(self, record):
        sites = next(i for i, item in enumerate(ITEMS) if "other sites" in item.text)
        assert filled(record)[sites].status == OPEN
        assert "3 sites" in filled(changed(record, left_out_sites=3))[sites].answer

    def test_the_card_has_limits_and_cautions_of_the_report(self, record, kit):
        text = read(kit["model_card.docx"])
        for limit in record.summary["limits"]:
            assert limit in text
        for caution in record.summary["cautions"]:
            assert caution["text"] in text
        assert "not diagnoses" in text


class TestPrivacy:
    def test_no_subject_is_named(self, finished, kit):
        ids = pd.read_csv(finished / "labels.csv")["id"].astype(str)
        summary = (finished / "summary.json").read_text(encoding="utf-8")
        assert ids[0] in summary  # the report of this run shows subjects
        for path in kit.values():
            text = read(path)
            if zipfile.is_zipfile(path):
                with zipfile.ZipFile(path) as archive:
                    text += "".join(
                        archive.read(name).decode("utf-8", "ignore") for name in archive.namelist()
                    )
            assert not [one for one in ids if one in text], path.name

    def test_hostile_names_are_inert(self, hostile_kit):
        with hostile_kit["table1.csv"].open(encoding="utf-8", newline="") as file:
            cells = [cell for row in csv.reader(file) for cell in row]
        assert not [cell for cell in cells if cell.startswith(("=", "+", "-", "@"))]
        assert any(cell.startswith("'=HYPERLINK") for cell in cells)
        for row in sheet(hostile_kit["table1.xlsx"]).iter_rows():
            for cell in row:
                assert cell.value is None or cell.data_type == "s"
                assert not str(cell.value or "").startswith(("=", "+", "@"))
        for name in TEXT[:3]:
            text = read(hostile_kit[name])
            assert "<script>" not in text.replace("\\<", "")
            assert not re.search(r"(?<!\\)\[x\]\(y\)", text)
            assert not [letter for letter in text if ord(letter) < 32 and letter != "\n"]
        for name in WORD:
            with zipfile.ZipFile(hostile_kit[name]) as archive:
                assert "<script>" not in archive.read("word/document.xml").decode("utf-8")

    def test_text_is_escaped_for_markdown(self):
        assert escaped("a|b\n# c") == "a\\|b \\# c"
        block = methods_text.Paragraph((Statement("see @nobody"), Statement("yes", "holm1979")))
        assert to_markdown([block]) == "see \\@nobody. yes [@holm1979].\n"


class TestFolder:
    def test_figures_are_included(self, kit):
        assert {"figure_weights.svg", "figure_brain_vbm.svg", "figure_brain_key_aal.svg"} <= set(kit)
        assert json.loads(kit["paper.json"].read_text(encoding="utf-8"))["files"] == sorted(
            name for name in kit if name != "paper.json"
        )

    def test_it_is_written_whole_or_not_at_all(self, finished, tmp_path, monkeypatch):
        target = tmp_path / "paper"
        monkeypatch.setattr(kit_module, "_write_figures", lambda *_: None)
        first = {path.name for path in write_paper(finished, target)}
        assert "methods.md" in first

        def fail(*_):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(kit_module, "write_table_xlsx", fail)
        with pytest.raises(OSError, match="No space left"):
            write_paper(finished, target)
        assert {path.name for path in target.iterdir()} == first
        with pytest.raises(OSError, match="No space left"):
            write_paper(finished, tmp_path / "new")
        assert not (tmp_path / "new").exists()

    def test_other_files_are_not_replaced(self, finished, tmp_path):
        (tmp_path / "thesis.docx").write_text("x", encoding="utf-8")
        with pytest.raises(StudyError, match="1 files that are not from a run"):
            write_paper(finished, tmp_path)
        assert (tmp_path / "thesis.docx").exists()

    def test_missing_packages_name_the_extra(self, finished, monkeypatch):
        monkeypatch.setattr(kit_module, "find_spec", lambda name: None if name == "docx" else 1)
        with pytest.raises(MissingPackageError, match=r"pip install viewloom\[paper\]"):
            write_paper(finished)

    def test_runs_of_earlier_versions_are_refused(self, finished, tmp_path):
        old = tmp_path / "run"
        shutil.copytree(finished, old)
        content = json.loads((old / "summary.json").read_text(encoding="utf-8"))
        del content["summary"]["methods"]
        (old / "summary.json").write_text(json.dumps(content), encoding="utf-8")
        found = CliRunner().invoke(app, ["paper", str(old)])
        assert found.exit_code == 2
        assert not (tmp_path / "run-paper").exists()
        with pytest.raises(StudyError, match=r"written by an earlier version.*`viewloom fit`"):
            write_paper(old)

    def test_a_folder_without_a_run_is_refused(self, tmp_path):
        with pytest.raises(StudyError, match="not a run folder"):
            write_paper(tmp_path)

    def test_the_command_prints_json(self, finished, tmp_path, monkeypatch):
        monkeypatch.setattr(kit_module, "_write_figures", lambda *_: None)
        found = CliRunner().invoke(app, ["paper", str(finished), "-o", str(tmp_path / "kit"), "--json"])
        assert found.exit_code == 0, found.output
        content = json.loads(found.stdout)
        assert content["folder"] == str(tmp_path / "kit")
        assert "methods.md" in content["files"]
