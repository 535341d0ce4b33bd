"""The command line and the study it runs."""

import pytest
from typer.testing import CliRunner

import viewloom
from viewloom import simulate
from viewloom.cli import app
from viewloom.demo import run_demo

runner = CliRunner()


def test_version():
    assert runner.invoke(app, ["--version"]).output.strip() == f"viewloom {viewloom.__version__}"


def test_help_names_the_commands():
    output = runner.invoke(app, ["--help"]).output
    assert "demo" in output
    assert "compare" in output


@pytest.mark.parametrize("arguments", [["compare", "--cohort", "moon"], ["demo", "--seeds", "0"]])
def test_bad_arguments_end_with_code_2_and_no_traceback(arguments):
    result = runner.invoke(app, arguments)
    assert result.exit_code == 2
    assert "Traceback" not in result.output


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    cohort = simulate.adni_like(20, 30, 20, random_state=0)
    return run_demo(tmp_path_factory.mktemp("study"), cohort=cohort, seeds=1)


def test_the_study_writes_every_table_and_figure(study):
    names = {path.name for path in study.files}
    assert all(path.stat().st_size > 0 for path in study.files)
    assert "comparison.csv" in names
    for view in ("vbm", "freesurfer", "fdg", "snp"):
        assert {f"importance_{view}.csv", f"importance_{view}.png", f"profiles_{view}.png"} <= names


def test_importance_tables_carry_notes_from_the_literature(study):
    notes = study.importance["snp"].set_index("feature")["note"]
    assert "CR1" in notes["rs3818361"]
    assert notes.filter(like="sim_").eq("").all() or notes.filter(like="sim_").isna().all()


def test_importance_finds_the_planted_regions_better_than_chance(study):
    ours = study.recovery.xs("ours, linear", level=1)
    assert ours.loc[["vbm", "freesurfer", "fdg"], "auc"].mean() > 0.65
    assert set(study.recovery.index.get_level_values(1)) == {"ours, linear", "single-view NMF"}


def test_help_of_select_says_that_labels_are_not_used():
    result = runner.invoke(app, ["select", "--help"])
    assert result.exit_code == 0
    assert "without labels" in result.output
