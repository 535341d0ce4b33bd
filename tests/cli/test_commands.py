"""The command line and the demo."""

import subprocess
import sys
from functools import partial

import pytest
from typer.testing import CliRunner

import viewloom
from viewloom.cli.commands import app
from viewloom.cli.demo import planted_features
from viewloom.data import simulated as simulate
from viewloom.study import example, report
from viewloom.study.run import computations as stages

runner = CliRunner()


def test_version():
    assert runner.invoke(app, ["--version"]).output.strip() == f"viewloom {viewloom.__version__}"


def test_as_a_module():
    done = subprocess.run(
        [sys.executable, "-m", "viewloom", "no-such-command"], capture_output=True, text=True
    )
    assert done.returncode == 2
    assert "Usage: viewloom" in done.stderr


HEAVY = {"numpy", "scipy", "pandas", "sklearn", "matplotlib", "joblib", "viewloom.study", "viewloom.models"}
IMPORTED = "import sys; from viewloom.__main__ import main; main(); print(*sys.modules, file=sys.stderr)"


def test_help_starts_without_what_commands_compute_with():
    """Importing scikit-learn and pandas takes two seconds."""
    done = subprocess.run([sys.executable, "-c", IMPORTED, "--help"], capture_output=True, text=True)
    assert "replicate" in done.stdout
    assert HEAVY & set(done.stderr.split()) == set()


@pytest.mark.parametrize(
    "command", ["simulate", "init", "check", "fit", "predict", "report", "compare", "select", "demo"]
)
def test_help_names_the_commands(command):
    assert command in runner.invoke(app, ["--help"]).output
    result = runner.invoke(app, [command, "--help"])
    assert result.exit_code == 0
    assert f"$ viewloom {command}" in result.output


def test_the_shell_completes_commands():
    words = {"COMP_WORDS": "viewloom pre", "COMP_CWORD": "1", "_VIEWLOOM_COMPLETE": "complete_bash"}
    assert runner.invoke(app, [], prog_name="viewloom", env=words).output.strip() == "predict"


@pytest.mark.parametrize(
    "arguments",
    [["compare", "--cohort", "moon"], ["demo", "--seeds", "0"], ["fit"], ["simulate", "x", "--seed", "-1"]],
)
def test_bad_arguments_end_with_code_2_and_no_traceback(arguments):
    result = runner.invoke(app, arguments)
    assert result.exit_code == 2
    assert "Traceback" not in result.output


def test_the_demo_goes_from_files_to_report_by_commands_that_can_be_typed(tmp_path, monkeypatch):
    pytest.importorskip("bed_reader")
    monkeypatch.setattr(example, "write_example", partial(example.write_example, sizes=(12, 16, 24)))
    monkeypatch.setattr("viewloom.cli.demo.adni_like", partial(simulate.adni_like, 10, 10, 10))
    text = example.STUDY.replace('"controls" ', '"all" ') + 'kernel = "linear"\n'
    monkeypatch.setattr(example, "STUDY", text)
    monkeypatch.setattr(stages.comparison, "method_names", lambda views: ["k-means"])
    monkeypatch.setattr(report, "inline_figures", lambda parts, names: dict.fromkeys(parts, ""))  # saves time
    monkeypatch.setattr(report, "to_html", lambda summary, figures: summary["title"])
    result = runner.invoke(app, ["demo", "--output", str(tmp_path), "--jobs", "1"])
    assert result.exit_code == 0, result.output
    for command in ("simulate", "check", "fit", "report"):
        assert f"$ viewloom {command} " in result.stdout
    assert str(tmp_path / "results" / "report.html") in result.stdout
    assert result.stdout.rstrip().endswith(f"viewloom app {tmp_path}")
    assert {path.name for path in tmp_path.iterdir()} == {"cohort", "overlaps.png", "results"}
    assert "sub-00" not in result.output


def test_importance_finds_the_planted_regions_better_than_chance():
    found = planted_features(simulate.adni_like(20, 30, 20, random_state=0))
    ours = found.xs("ours, linear", level=1)
    assert ours.loc[["vbm", "freesurfer", "fdg"], "auc"].mean() > 0.65
    assert set(found.index.get_level_values(1)) == {"ours, linear", "single-view NMF"}


def test_help_of_select_says_that_labels_are_not_used():
    result = runner.invoke(app, ["select", "--help"])
    assert result.exit_code == 0
    assert "without labels" in result.output
