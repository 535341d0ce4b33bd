"""Names, order and renaming of clusters, figures for papers, and what a rerun replaces."""

import json
import re
import shutil
from collections import defaultdict
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from small import STUDY, write_small
from typer.testing import CliRunner

import viewloom as vl
from viewloom.cli.commands import app
from viewloom.models import persistence
from viewloom.runtime import progress
from viewloom.study import StudyError, check, cluster_names, read_study
from viewloom.study.ordering import direction, ordered, severity_column
from viewloom.study.report import summarize, to_html
from viewloom.study.run import analyse, predict, rename, renaming, run_study, write_figures
from viewloom.study.run.renaming import renamed
from viewloom.study.run.tables import labels_table

runner = CliRunner()
HOSTILE = "<script>harmed()</script>"
NAMED = '[cluster]\nnames = ["limbic", "cortical", "<b>diffuse</b>"]\n'


def run(*arguments):
    return runner.invoke(app, [str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return write_small(tmp_path_factory.mktemp("files"), STUDY, sizes=(12, 16, 20))


@pytest.fixture(scope="module")
def whole(files, tmp_path_factory):
    """A run with its report, and its results."""
    folder = tmp_path_factory.mktemp("runs") / "run"
    return folder, run_study(read_study(files / "study.toml"), folder, subjects=True)


@pytest.fixture
def copied(whole, tmp_path):
    return shutil.copytree(whole[0], tmp_path / "run")


def edited(files, folder, text):
    """A copy of the study with another study file."""
    shutil.copytree(files, folder)
    (folder / "study.toml").write_text(text, encoding="utf-8")
    return folder / "study.toml"


def texts(page):
    """Everything that a reader of a report sees, without tags."""
    return re.sub(r"<(style|script)>.*?</\1>|<[^>]*>", " ", page, flags=re.DOTALL)


class TestNumbersFromOne:
    def test_no_cluster_is_called_0(self, whole, files, capsys):
        folder, _ = whole
        again = run("predict", folder, files / "study.toml", "-o", folder.parent / "p.csv")
        page = (folder / "report.html").read_text(encoding="utf-8")
        labels = re.findall(r'aria-label="([^"]*)"', page)
        for text in (texts(page), again.stdout, *labels):
            assert not re.search(r"clusters? 0\b|membership 0\b", text, re.IGNORECASE)
            assert not cluster_names.PLACEHOLDER.search(text)
        assert "Cluster 1" in page
        assert "Cluster 3" in page
        assert re.search(r"^1 +\d+", again.stdout, re.MULTILINE)
        assert not re.search(r"^0 +\d+", again.stdout, re.MULTILINE)

    def test_console_table_of_a_fit(self, whole, capsys):
        from viewloom.cli.rendering import _clusters

        columns = [list(column.cells) for column in _clusters(whole[1]).columns]
        assert columns[0] == ["1", "2", "3"]

    def test_tables_have_labels_from_0_and_names(self, whole):
        folder, results = whole
        table = pd.read_csv(folder / "labels.csv", dtype={"cluster": str})
        assert table["label"].tolist() == results.model.labels_.tolist()
        assert table["cluster"].tolist() == [str(j + 1) for j in results.model.labels_]
        assert list(table.columns[:4]) == ["id", "label", "cluster", "membership_0"]
        for name in ("metrics.json", "run.json"):
            assert json.loads((folder / name).read_text())["cluster_names"] == ["1", "2", "3"]


class TestNames:
    def test_in_the_report(self, whole):
        names = ["limbic", "cortical", "<b>diffuse</b>"]
        told = summarize(replace(whole[1], settings={**whole[1].settings, "cluster": {"names": names}}))
        page = to_html(told, defaultdict(str))
        assert "<b>diffuse" not in page
        assert "Cluster 3: <bdi>&lt;b&gt;diffuse&lt;/b&gt;</bdi>" in page
        assert page.count("limbic") > 10

    def test_in_the_results(self, files, tmp_path):
        results = analyse(read_study(edited(files, tmp_path / "s", STUDY + NAMED)))
        assert results.cluster_names == ["limbic", "cortical", "<b>diffuse</b>"]
        assert set(labels_table(results)["cluster"]) <= set(results.cluster_names)

    @pytest.mark.parametrize(
        ("names", "message"),
        [
            ('["a", "b"]', "has 2 names for 3 clusters"),
            ('["a", "b", "A"]', "two clusters have the same name"),
            ('["a", "b", ""]', "the name of cluster 3 must be 1 to 40 printable characters"),
            ('["a", "b\\n", "c"]', "the name of cluster 2 must be"),
            ('["a", "b", "\\u202ec"]', "the name of cluster 3 must be"),
            ('["a", "b", "c=d"]', "the name of cluster 3 must be"),
            (f'["a", "b", "{"x" * 41}"]', "the name of cluster 3 must be"),
            ('["2", "b", "c"]', "'2' is the number of another cluster"),
            ('["\U000f5001", "b", "c"]', "the name of cluster 1 must be"),
        ],
    )
    def test_bad_names_are_one_line(self, files, tmp_path, names, message):
        path = edited(files, tmp_path / "s", f"{STUDY}[cluster]\nnames = {names}\n")
        found = run("check", path)
        assert found.exit_code == 2
        assert message in found.stderr
        assert found.stderr.count("\n") == 1

    def test_models_of_earlier_versions_have_numbers(self, whole, files, tmp_path):
        path = shutil.copy(whole[0] / "model.safetensors", tmp_path / "m.safetensors")
        model, extra, arrays = persistence.load_with(path)
        persistence.save(
            model, path, extra={k: v for k, v in extra.items() if k != "cluster_names"}, arrays=arrays
        )
        assert set(predict(path, read_study(files / "study.toml"))["cluster"]) <= {"1", "2", "3"}

    def test_a_model_with_bad_names_is_damaged(self, whole, files, tmp_path):
        path = shutil.copy(whole[0] / "model.safetensors", tmp_path / "m.safetensors")
        persistence.change_extra(path, {"cluster_names": ["a", "\x1b[31m", "c"]})
        with pytest.raises(ValueError, match="cannot be read"):
            predict(path, read_study(files / "study.toml"))


class TestOrder:
    def test_largest_first(self, whole):
        sizes = whole[1].sizes
        assert sizes == sorted(sizes, reverse=True)

    def test_by_severity_and_the_same_when_resumed(self, files, tmp_path):
        study = read_study(edited(files, tmp_path / "s", STUDY + '[cluster]\norder = "severity"\n'))
        first, again = (analyse(study, checkpoints=tmp_path / "kept") for _ in range(2))
        mmse = first.participants["mmse"].groupby(first.model.labels_).mean()
        assert mmse.is_monotonic_decreasing
        np.testing.assert_array_equal(first.model.memberships_, again.model.memberships_)
        pd.testing.assert_frame_equal(first.importance["vbm"], again.importance["vbm"])
        assert any("ordered by the mean of 'mmse', the highest first" in str(note) for note in first.notes)

    def test_does_not_depend_on_the_numbers_of_the_fit(self, files, whole):
        model, study = whole[1].model, read_study(files / "study.toml")
        for order in ([2, 0, 1], [1, 0, 2]):
            turned, _ = ordered(model.reordered(order), study, None)
            np.testing.assert_array_equal(turned.labels_, model.labels_)
            np.testing.assert_array_equal(turned.memberships_, model.memberships_)

    def test_ties_by_the_first_subject(self, files):
        views, _ = vl.simulate.blobs_views(30, random_state=0)
        model = vl.KernelMultiviewNMF(3, random_state=0).fit(views)
        assert sorted(np.bincount(model.labels_)) == [10, 10, 10]
        turned, _ = ordered(model, read_study(files / "study.toml"), None)
        first = [int(np.argmax(turned.labels_ == j)) for j in range(3)]
        assert first == sorted(first)

    def test_severity_needs_a_numeric_outcome(self, files, tmp_path):
        text = STUDY.replace('outcomes = ["mmse"]', 'outcomes = ["sex"]').replace('"age", "sex"', '"age"')
        path = edited(files, tmp_path / "s", text + '[cluster]\norder = "severity"\n')
        assert not check(read_study(path)).ok
        found = run("fit", path, "-o", tmp_path / "run")
        assert found.exit_code == 2
        assert "or set order = 'size'" in found.stderr
        assert not (tmp_path / "run").exists()

    @pytest.mark.parametrize(("column", "expected"), [("mmse", -1), ("cdrsb", 1), ("score", 1)])
    def test_direction_by_name(self, files, column, expected):
        people = pd.DataFrame({column: [1.0, 2.0, 3.0], "diagnosis": ["HC", "AD", "AD"]})
        assert direction(read_study(files / "study.toml"), people, column) == expected

    def test_direction_by_controls(self, files):
        study = read_study(files / "study.toml")
        controls = study.preparation.model_copy(update={"controls": ["HC"]})
        study = study.model_copy(update={"preparation": controls})
        people = pd.DataFrame({"score": [9.0, 2.0, 3.0], "diagnosis": ["HC", "AD", "AD"]})
        assert direction(study, people, "score") == -1
        assert severity_column(study, people.assign(mmse=[1.0, 2.0, 3.0])) == "mmse"
        with pytest.raises(StudyError, match="needs a numeric column"):
            severity_column(study, None)


class TestRename:
    def test_everywhere_and_back_again(self, copied, files):
        before = {path.name: path.read_bytes() for path in copied.iterdir()}
        modes = {path.name: path.stat().st_mode for path in copied.iterdir()}
        assert rename(copied, {"1": "limbic", "2": HOSTILE}) == ["limbic", HOSTILE, "3"]
        page = (copied / "report.html").read_text(encoding="utf-8")
        assert "Cluster 1: <bdi>limbic</bdi>" in page
        assert HOSTILE not in page
        assert "cluster limbic" in texts(page)
        table = pd.read_csv(copied / "labels.csv", dtype=str)
        assert table["cluster"].tolist() == [["limbic", HOSTILE, "3"][int(j)] for j in table["label"]]
        assert set(predict(copied, read_study(files / "study.toml"))["cluster"]) <= {"limbic", HOSTILE, "3"}
        for name in ("metrics.json", "run.json"):
            assert json.loads((copied / name).read_text())["cluster_names"][0] == "limbic"
        assert {path.name: path.stat().st_mode for path in copied.iterdir()} == modes
        path = write_figures(copied, copied / "f", formats=["svg"], only=["certainty"])[0]
        assert "limbic" in path.read_text(encoding="utf-8")
        shutil.rmtree(copied / "f")
        rename(copied, {"limbic": "1", HOSTILE: "2"})
        assert {path.name: path.read_bytes() for path in copied.iterdir()} == before
        assert [path.name for path in copied.parent.iterdir()] == ["run"]

    @pytest.mark.parametrize(
        ("pairs", "message"),
        [
            (["4=x"], "there is no cluster '4'"),
            (["0=x"], "there is no cluster '0'"),
            (["1"], "write each cluster once"),
            (["1=a", "1=b"], "write each cluster once"),
            (["1=2"], "'2' is the number of another cluster"),
            (["1=a", "2=A"], "two clusters have the same name"),
            (["1=\x1b[31mred"], "must be 1 to 40 printable"),
            (["1="], "must be 1 to 40 printable"),
        ],
    )
    def test_refused_and_nothing_changed(self, copied, pairs, message):
        before = {path.name: path.read_bytes() for path in copied.iterdir()}
        found = run("rename", copied, *pairs)
        assert found.exit_code == 2
        assert message in found.stderr
        assert "\x1b[31mred" not in found.stderr
        assert {path.name: path.read_bytes() for path in copied.iterdir()} == before

    def test_whole_or_not_at_all(self, copied, monkeypatch):
        def full(*arguments):
            raise OSError(28, "No space left on device")

        before = {path.name: path.read_bytes() for path in copied.iterdir()}
        monkeypatch.setattr(renaming, "write_content", full)
        with pytest.raises(OSError, match="No space"):
            rename(copied, {"1": "limbic"})
        assert {path.name: path.read_bytes() for path in copied.iterdir()} == before

    def test_runs_of_earlier_versions(self, copied):
        path = copied / "summary.json"
        content = json.loads(path.read_text(encoding="utf-8"))
        path.write_text(json.dumps({k: v for k, v in content.items() if k != "drawings"}), encoding="utf-8")
        for command in (["rename", copied, "1=a"], ["figures", copied]):
            found = run(*command)
            assert found.exit_code == 2
            assert "written by an earlier version" in found.stderr

    def test_a_report_of_an_earlier_version_is_written_again(self, copied):
        content = json.loads((copied / "summary.json").read_text(encoding="utf-8"))
        summary = {key: value for key, value in content["summary"].items() if key != "cluster_names"}
        for j, card in enumerate(summary["clusters"]):
            card.pop("number")
            card["cluster"] = j
        old = {"format": 1, "summary": summary, "figures": content["figures"]}
        (copied / "summary.json").write_text(json.dumps(old), encoding="utf-8")
        assert run("report", copied).exit_code == 0
        page = (copied / "report.html").read_text(encoding="utf-8")
        assert "<h3>Cluster 0</h3>" in page
        assert "numbered from 0" in page

    @pytest.mark.parametrize("command", [["rename", "{}", "1=a"], ["figures", "{}"]])
    def test_not_a_run(self, tmp_path, command):
        found = run(*(part.format(tmp_path) for part in command))
        assert found.exit_code == 2
        assert "not a run folder" in found.stderr

    def test_names_by_number_and_by_name(self):
        assert renamed(["a", "2", "3"], {"2": "b", "a": "1"}) == ["1", "b", "3"]
        with pytest.raises(StudyError, match="write it once"):
            renamed(["a", "2"], {"a": "b", "1": "c"})


class Nothing:
    """Bars of progress that are not drawn."""

    def advance(self, task, count):
        pass

    def remove_task(self, task):
        pass


class TestFigures:
    def test_every_figure_of_the_report(self, whole, tmp_path):
        listed = json.loads((whole[0] / "summary.json").read_text(encoding="utf-8"))["summary"]["figures"]
        paths = write_figures(whole[0], tmp_path / "f", formats=["svg"])
        assert len(paths) == len(listed)
        assert all(path.read_bytes().startswith(b"<?xml") for path in paths)
        assert {"weights.svg", "agreement.svg", "objective.svg"} <= {path.name for path in paths}

    def test_they_are_counted_while_they_are_drawn(self, whole, tmp_path):
        titles = []

        class Bars(Nothing):
            def add_task(self, title, total):
                titles.append((title, total))

        token = progress.SHOWN.set(Bars())
        try:
            write_figures(whole[0], tmp_path, formats=["svg", "pdf"], only=["objective"])
        finally:
            progress.SHOWN.reset(token)
        assert titles == [("Figures", 2)]

    def test_formats(self, whole, tmp_path):
        paths = write_figures(whole[0], tmp_path, formats=["pdf", "svg", "pdf"], only=["objective"])
        assert [path.read_bytes()[:4] for path in paths] == [b"%PDF", b"<?xm"]

    def test_resolution(self, whole, tmp_path):
        from matplotlib.image import imread

        low, high = (
            write_figures(whole[0], tmp_path / str(dpi), dpi=dpi, only=["weights"])[0] for dpi in (50, 100)
        )
        assert np.abs(np.array(imread(high).shape[:2]) - 2 * np.array(imread(low).shape[:2])).max() <= 1

    def test_beside_the_run_by_default(self, copied):
        found = run("figures", copied, "--only", "weights,objective", "--format", "svg", "--json")
        assert found.exit_code == 0
        assert sorted(path.name for path in (copied.parent / "run-figures").iterdir()) == [
            "objective.svg",
            "weights.svg",
        ]

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            (["--format", "jpg"], "figures are written as 'png', 'pdf', 'svg', not 'jpg'"),
            (["--only", "wieghts"], "there is no figure 'wieghts'; did you mean 'weights'?"),
            (["--format", ","], "not nothing"),
        ],
    )
    def test_mistakes_are_one_line(self, copied, options, message):
        found = run("figures", copied, *options)
        assert found.exit_code == 2
        assert message in found.stderr
        assert found.stderr.count("\n") == 1
        assert not (copied.parent / "run-figures").exists()

    def test_nothing_about_single_subjects_is_stored(self, whole, files):
        stored = json.loads((whole[0] / "summary.json").read_text(encoding="utf-8"))["drawings"]
        ids = pd.read_csv(whole[0] / "labels.csv")["id"]
        text = json.dumps(stored)
        assert not any(subject in text for subject in ids)
        n = len(ids)
        assert not any(len(value) == n for value in lists(stored))


def lists(value):
    """All lists in nested data."""
    if isinstance(value, dict):
        value = list(value.values())
    elif isinstance(value, list):
        yield value
    for inner in value if isinstance(value, list) else ():
        yield from lists(inner)


def test_a_rerun_says_what_it_replaces(copied, files, monkeypatch):
    import viewloom.study.run as runs

    results = {}
    monkeypatch.setattr(runs, "run_study", lambda *a, **k: results.setdefault("ran", True) and 1 / 0)
    found = run("fit", files / "study.toml", "-o", copied)
    assert re.search(
        r"Replaces the run in .*: 'Small', finished 20\d\d-.*, seed 0, 3 clusters\.", found.stdout
    )
    for option in ("--quiet", "--json"):
        assert not run("fit", files / "study.toml", "-o", copied, option).stdout
    assert not run("fit", files / "study.toml", "-o", copied.parent / "new").stdout
    assert results["ran"]


def test_names_of_a_rerun_are_inert(copied):
    from viewloom.study.run import earlier_run

    about = json.loads((copied / "run.json").read_text())
    (copied / "run.json").write_text(json.dumps({**about, "study": "\x1b[31mred\n" + "x" * 999}))
    assert earlier_run(copied).isprintable()
    assert len(earlier_run(copied)) < 400
    (copied / "run.json").write_text("[]")
    assert earlier_run(copied) is None


def test_placeholders_of_others_are_kept_and_text_from_files_is_escaped(whole):
    told = summarize(replace(whole[1], name="\U000f5001\x1b"))
    assert told["title"] == "2\\x1b"
    assert told["cluster_names"] == ["1", "2", "3"]
