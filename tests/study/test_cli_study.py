"""Studies on the command line: every mistake is one line with the way out, and nothing is written."""

import json
import re
import shutil
import sys

import numpy as np
import pandas as pd
import pytest
from small import in_name_only
from typer.testing import CliRunner

from viewloom.cli.commands import app
from viewloom.study import report, write_example
from viewloom.study.run import computations as stages

pytest.importorskip("bed_reader")

runner = CliRunner()
ID = re.compile(r"sub-0\d")  # begin of every id


@pytest.fixture(scope="module")
def cohort(tmp_path_factory):
    """Files of a small study, in a path with blanks and accents."""
    folder = tmp_path_factory.mktemp("files") / "Études [2] 研究"
    write_example(folder, sizes=(12, 16, 24))
    text = (folder / "study.toml").read_text(encoding="utf-8")
    text = text.replace('residualise_on = "controls"', 'residualise_on = "all"').replace(
        "# columns", "columns"
    )
    (folder / "study.toml").write_text(text + 'kernel = "linear"\n', encoding="utf-8")
    return folder


@pytest.fixture
def folder(cohort, tmp_path):
    """A copy that a test may spoil."""
    return shutil.copytree(cohort, tmp_path / "Études [2] 研究")


@pytest.fixture
def fast(monkeypatch):
    """A report in name only."""
    monkeypatch.setattr(report, "unnamed_summary", in_name_only)
    monkeypatch.setattr(report, "figure_data", lambda results, summary: {})
    monkeypatch.setattr(report, "to_html", lambda summary, figures: f"<h1>{summary['title']}</h1>")


def run(*arguments):
    return runner.invoke(app, [str(argument) for argument in arguments])


def files(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def edited(name, change, encoding="utf-8"):
    """Spoil a file by a change of its text."""

    def spoil(folder):
        text = (folder / name).read_text(encoding="utf-8")
        (folder / name).write_bytes(change(text).encode(encoding))

    return spoil


def changed(name, change):
    """Spoil a table."""

    def spoil(folder):
        change(pd.read_csv(folder / name)).to_csv(folder / name, index=False)

    return spoil


def setting(old, new):
    return edited("study.toml", lambda text: text.replace(old, new))


def only_two(folder):
    keep = ["sub-0005", "sub-0006"]
    for name in ("vbm.csv", "fdg.csv", "participants.csv"):
        changed(name, lambda frame: frame[frame["participant_id"].isin(keep)])(folder)
    text = (folder / "study.toml").read_text(encoding="utf-8")
    text = re.sub(r"\[views\.(freesurfer|snp)\](.|\n)*?(?=\n#|\n\[)", "", text)
    (folder / "study.toml").write_text(re.sub(r"survival = .*", "", text), encoding="utf-8")


def dated(frame):
    return frame.assign(participant_id=pd.date_range("2001-02-03", periods=len(frame)).strftime("%d.%m.%Y"))


def emptied(frame):
    return frame.assign(**dict.fromkeys(frame.columns[1:], np.nan))


def truncate(folder):
    path = folder / "genotypes" / "snps.bed"
    path.write_bytes(path.read_bytes()[:-40])


BAD = {
    "wrong delimiter": (edited("vbm.csv", lambda t: t.replace(",", "~")), ["vbm.csv", "set delimiter"]),
    "another delimiter": (
        setting('path = "vbm.csv"', 'path = "vbm.csv"\ndelimiter = ";"'),
        ["vbm.csv", "leave delimiter out"],
    ),
    "text instead of numbers": (
        changed("vbm.csv", lambda f: f.assign(RHippocampus=[f"planted-secret {i}" for i in range(len(f))])),
        ["vbm.csv", "'RHippocampus'", "missing_codes"],
    ),
    "duplicated ids": (
        changed("vbm.csv", lambda f: pd.concat([f, f[:3]])),
        ["vbm.csv", "'participant_id'", "3 rows", "keep one row per subject"],
    ),
    "ids that never match": (
        changed("vbm.csv", lambda f: f.assign(participant_id="X" + f["participant_id"])),
        ["'vbm'", "the spelling of ids"],
    ),
    "participants that never match": (
        changed("participants.csv", lambda f: f.assign(participant_id="X" + f["participant_id"])),
        ["participants", "the spelling of ids"],
    ),
    "empty file": (edited("vbm.csv", lambda text: ""), ["vbm.csv", "empty"]),
    "header only": (edited("vbm.csv", lambda text: text.split("\n")[0]), ["vbm.csv", "no rows"]),
    "truncated bed": (truncate, ["snps.bed", "truncated", "copy it again"]),
    "one column": (
        setting('columns = ["LHippocampus", "R*"]', 'columns = ["LHippocampus"]'),
        ["vbm.csv", "'LHippocampus'", "outcomes"],
    ),
    "all columns missing": (changed("vbm.csv", emptied), ["vbm.csv", "'LHippocampus'"]),
    "dates as ids": (
        changed("vbm.csv", dated),
        ["vbm.csv", "'participant_id'", "dates", "another id column"],
    ),
    "two subjects": (only_two, ["2 subjects", "3 clusters"]),
    "no such id column": (
        setting('id = "participant_id"\ndiagnosis', 'id = "subject"\ndiagnosis'),
        ["participants.csv", "'subject'", "there are 'participant_id'"],
    ),
    "no such file": (setting('"vbm.csv"', '"vbn.csv"'), ["study.toml, line", "did you mean 'vbm.csv'"]),
    "unknown key": (setting("impute =", "inpute ="), ["study.toml, line", "did you mean 'impute'"]),
    "not TOML": (setting("n_clusters = 3", "n_clusters = three"), ["study.toml, line", "quotes"]),
    "no such diagnosis": (setting('"HC"', '"CN"'), ["'CN'", "preparation.controls", "'HC'"]),
    "other models than settings": (setting("n_clusters = 3", "n_clusters = 60"), ["60 clusters", "120"]),
}


@pytest.mark.parametrize(
    ("command", "case"), [(command, case) for command in ("check", "fit") for case in BAD]
)
def test_bad_input_is_one_line_and_nothing_is_written(folder, case, command):
    spoil, expected = BAD[case]
    spoil(folder)
    before = files(folder.parent)
    result = run(command, folder / "study.toml")
    assert result.exit_code == 2
    assert result.stderr.startswith("Error: ")
    assert result.stderr.count("\n") == 1
    for part in expected:
        assert part in result.stderr
    assert not ID.search(result.output)
    assert "planted-secret" not in result.output
    assert "Traceback" not in result.output
    assert files(folder.parent) == before
    assert not (folder / "study-results").exists()


GOOD = {
    "Windows encoding": edited(
        "vbm.csv", lambda text: text.replace("LHippocampus", "LHippocampus Größe"), "cp1252"
    ),
    "UTF-16": edited("vbm.csv", lambda text: text, "utf-16"),
    "byte order mark": edited("vbm.csv", lambda text: text, "utf-8-sig"),
    "semicolons and decimal commas": edited("vbm.csv", lambda t: t.replace(",", ";").replace(".", ",")),
    "Windows line ends": edited("vbm.csv", lambda text: text.replace("\n", "\r\n")),
    "an empty column": changed("vbm.csv", lambda frame: frame.assign(RInsula=np.nan)),
}


@pytest.mark.parametrize("case", GOOD)
def test_what_spreadsheets_do_to_tables_is_read(cohort, folder, case):
    GOOD[case](folder)
    setting('columns = ["LHippocampus", "R*"]', 'columns = ["LHippo*", "R*"]')(folder)
    result = run("check", folder / "study.toml", "--json")
    assert result.exit_code == 0, result.stderr
    found = json.loads(result.stdout)["views"]["vbm"]
    expected = json.loads(run("check", cohort / "study.toml", "--json").stdout)["views"]["vbm"]
    expected["features"] -= case == "an empty column"
    assert found == expected


@pytest.mark.parametrize(
    "arguments",
    [
        ["check", "no.toml"],
        ["fit", "no.toml"],
        ["predict", "no", "no.toml"],
        ["report", "no"],
        ["init", "no"],
    ],
)
def test_what_does_not_exist_is_told_in_a_line(tmp_path, arguments):
    paths = [tmp_path / name if name.startswith("no") else name for name in arguments]
    result = run(*paths)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_from_files_to_report(folder, fast, monkeypatch):
    result = run("fit", folder / "study.toml", "--jobs", 1)
    assert result.exit_code == 0, result.output
    results = folder / "study-results"
    assert f"{results / 'report.html'}" in result.stdout
    assert "View weights" in result.stdout
    assert not ID.search(result.output)

    told = run("fit", folder / "study.toml", "--jobs", 1, "--json", "--seed", 3)
    metrics = json.loads(told.stdout)
    assert metrics["subjects"] == 52
    assert len(metrics["cluster_sizes"]) == 3
    assert all(size >= 11 for size in metrics["cluster_sizes"] if not isinstance(size, str))
    assert told.stderr == ""
    assert json.loads((results / "run.json").read_text(encoding="utf-8"))["seed"] == 3

    placed = run("predict", results, folder / "study.toml")
    assert placed.exit_code == 0, placed.output
    assert not ID.search(placed.output)
    assert len(pd.read_csv(folder / "predictions.csv")) == 52
    counts = json.loads(run("predict", results, folder / "study.toml", "--json").stdout)
    assert sum(counts["per_cluster"].values()) == counts["subjects"] == 52

    (results / "report.html").unlink()
    assert run("report", results).exit_code == 0
    assert (results / "report.html").read_text(encoding="utf-8") == "<h1>Simulated cohort</h1>"


def test_an_interrupted_fit_says_how_to_go_on(folder, fast, monkeypatch):
    def interrupted(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(stages, "refit", interrupted)
    result = run("fit", folder / "study.toml", "--jobs", 1)
    assert result.exit_code == 130
    assert "--resume" in result.stderr
    assert not (folder / "study-results").exists()


def test_too_few_twins_are_refused_before_anything_is_read(folder):
    result = run("fit", folder / "study.toml", "--twins", 2)
    assert result.exit_code == 2
    assert "give 0 for none, or 3 or more" in " ".join(result.stderr.replace("│", " ").split())
    assert not (folder / "study-results").exists()


def test_predictions_do_not_replace_the_data(folder):
    before = files(folder)
    result = run("predict", folder, folder / "study.toml", "--output", folder / "vbm.csv")
    assert result.exit_code == 2
    assert "does not contain predictions" in result.stderr
    assert files(folder) == before


def test_errors_of_the_program_keep_their_message_to_themselves(folder, monkeypatch):
    def broken(*arguments, **settings):
        return float("planted-secret of sub-0001")

    monkeypatch.setattr(sys.modules["viewloom.study.check"], "read_tables", broken)
    plain = run("fit", folder / "study.toml")
    assert plain.exit_code == 1
    assert plain.stderr == "Error: the program failed (ValueError); --debug shows where.\n"
    for arguments in (["--debug", "fit"], ["fit", "--debug"]):
        debugged = run(*arguments, folder / "study.toml")
        assert debugged.exit_code == 1
        assert "in broken" in debugged.stderr
        assert "in prepare" in debugged.stderr
        assert "sub-0001'" not in debugged.stderr


def test_check_shows_who_has_what_and_draws_it(folder):
    result = run("check", folder / "study.toml", "--picture", folder / "views.svg")
    assert result.exit_code == 0
    assert "52 subjects" in result.stdout
    assert "Subjects by available views" in result.stdout
    assert (folder / "views.svg").read_text(encoding="utf-8").startswith("<?xml")
    for wrong in ("views.docx", "nowhere/views.svg"):
        assert run("check", folder / "study.toml", "--picture", folder / wrong).exit_code == 2
        assert not (folder / wrong).exists()


def test_the_study_of_this_folder_needs_no_name(folder, fast, monkeypatch):
    monkeypatch.chdir(folder)
    assert "52 subjects" in run("check").stdout
    assert run("fit", "--jobs", 1, "--quiet").exit_code == 0
    assert (folder / "study-results" / "labels.csv").is_file()
    monkeypatch.chdir(folder.parent)
    assert "study.toml: no such study file; `viewloom init` writes one" in run("fit").stderr


def test_simulate_then_init_then_check(tmp_path):
    assert run("simulate", tmp_path / "new", "--seed", 2, "--missing", 0.2).exit_code == 0
    again = run("simulate", tmp_path / "new")
    assert again.exit_code == 2
    assert "already exist" in again.stderr
    study = tmp_path / "new" / "study.toml"
    assert run("init", tmp_path / "new").exit_code == 2
    study.unlink()
    told = run("init", tmp_path / "new", "--schema")
    assert told.exit_code == 0
    assert "Used\n" in told.stdout
    assert run("init", tmp_path / "new").exit_code == 2
    study.write_text("mine")
    assert "--overwrite" in run("init", tmp_path / "new").stderr
    assert study.read_text() == "mine"
    assert run("init", tmp_path / "new", "--overwrite", "--quiet").stdout == ""
    assert json.loads((tmp_path / "new" / "study.schema.json").read_text())["properties"]["views"]
    found = json.loads(run("check", study, "--json").stdout)
    assert found["subjects"] == 345
    assert found["ok"]


def test_compare_and_select_take_a_study(folder, monkeypatch):
    setting('diagnosis = "diagnosis"', "")(folder)
    setting('controls = "HC"', "")(folder)
    result = run("compare", folder / "study.toml")
    assert result.exit_code == 2
    assert "needs diagnosis under [participants]" in result.stderr
    seen = {}

    def select(views, grid, **settings):
        seen.update(settings, grid=grid, subjects=len(views), names=views.names)
        raise ValueError("enough")

    monkeypatch.setattr("viewloom.evaluation.selection.select", select)
    run("select", folder / "study.toml")
    assert (seen["subjects"], seen["n_clusters"], seen["y"]) == (52, 3, None)
    assert seen["names"] == ["vbm", "freesurfer", "fdg", "snp"]
    assert seen["grid"] is not None
    assert not seen["paper"]
    run("select", folder / "study.toml", "--paper")
    assert (seen["grid"], seen["paper"]) == (None, True)
    result = run("select", folder / "study.toml", "--paper", "--clusters")
    assert result.exit_code == 2
    assert "choose one" in result.stderr
