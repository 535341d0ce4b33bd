"""Searches and comparisons: the page asks what the command line does, and shows what it answers."""

import json

import pytest
from local_page import asked
from typer.testing import CliRunner

from viewloom.app import run_page, settings_page
from viewloom.cli import app
from viewloom.runtime.errors import InputError

FILE = "study/study.toml"
NUMBER = {"recommended": 4, "reasons": ["k = 4: <b>stable</b>"], "table": [{"k": 4, "stability": 0.8}]}
SETTINGS = {
    "best": {"lam": 10.0, "theta": 0.1, "gamma": 2.0},
    "table": [{"lam": 10.0, "theta": 0.1, "held_out": 0.4}],
}
METHODS = {"table": [{"method": "ours", "NMI_mean": 0.5}], "agreement": {}, "collapsed": {}}
VARIATIONS = {"settings": [{"setting": "lam 1", "ARI": 0.9}], "choices": [{"choice": "lam", "ARI": 0.9}]}


def finished(study, kind, content):
    """As if a search had ended."""
    command = settings_page.QUESTIONS[kind].command
    folder = study.context.jobs.folder(FILE, command)
    folder.mkdir(parents=True, exist_ok=True)
    job = {"arguments": [command], "root": str(study.root), "next": "", "about": {"kind": kind}, "began": 0.0}
    (folder / "job.json").write_text(json.dumps(job))
    (folder / "output.txt").write_text(json.dumps(content))
    (folder / "exit.json").write_text("0")


def shown(study):
    return settings_page.show(asked(study)).body.decode()


COMMANDS = {
    "number": "select {} --clusters --output ./study/study-clusters.csv --json",
    "settings": "select {} --output ./study/study-settings.csv --json --seed 3",
    "paper": "select {} --paper --output ./study/study-paper-settings.csv --json",
    "methods": "compare {} --output ./study/study-methods --json --seeds 2",
    "variations": "compare {} --settings --output ./study/study-variations --json",
}


@pytest.mark.parametrize("kind", COMMANDS)
def test_the_same_commands(study, kind):
    """What is started is what would be typed; `test_same_files` shows that such jobs write the same files."""
    given = {"settings": {"seed": "3"}, "methods": {"seeds": " 2 "}}.get(kind, {})
    assert settings_page.start(asked(study, kind=kind, **given)).status_code == 303
    [(subject, arguments, following, about)] = study.started
    assert arguments == COMMANDS[kind].format(f"./{FILE}").split()
    assert (subject, about["kind"]) == (FILE, kind)
    assert following.startswith("settings?")
    parsed = CliRunner().invoke(app, [*arguments, "--help"])  # options that the command has
    assert parsed.exit_code == 0
    assert all(flag in parsed.output for flag in arguments if flag.startswith("--"))


@pytest.mark.parametrize("kind", ["report", "figures"])
def test_the_same_commands_of_runs(study, kind):
    (study.root / "run").mkdir()
    (study.root / "run" / "run.json").write_text('{"cluster_names": ["1", "2"]}')
    {"report": run_page.rewrite, "figures": run_page.figures}[kind](asked(study, run="run", format="svg"))
    [(subject, arguments, *_)] = study.started
    wanted = {"report": "report ./run", "figures": "figures ./run --format svg --dpi 300"}
    assert (subject, " ".join(arguments)) == ("run", wanted[kind])


@pytest.mark.parametrize(
    "form", [{"kind": "all"}, {}, {"kind": "number", "seed": "-1"}, {"kind": "paper", "seed": "x"}]
)
def test_other_questions_are_refused(study, form):
    with pytest.raises(InputError):
        settings_page.start(asked(study, **form))
    assert study.started == []


def test_a_recommended_number_is_written(study):
    finished(study, "number", NUMBER)
    text = shown(study)
    assert "4 clusters" in text
    assert "<b>stable" not in text
    assert "n_clusters = 4" in text
    settings_page.apply(asked(study))
    assert "n_clusters = 4" in (study.root / FILE).read_text()


def test_recommended_settings_are_written(study):
    finished(study, "settings", SETTINGS)
    assert "Best of 1: lam 10.0, theta 0.1, gamma 2.0" in shown(study)
    settings_page.apply(asked(study))
    assert "lam = 10.0\ntheta = 0.1\ngamma = 2.0" in (study.root / FILE).read_text()


@pytest.mark.parametrize(
    "content", [{**NUMBER, "recommended": None}, {"recommended": "4; x", "reasons": [], "table": []}]
)
def test_nothing_to_recommend(study, content):
    finished(study, "number", content)
    assert 'action="/x/settings/apply"'.replace("/x", study.context.session.base) not in shown(study)
    with pytest.raises(InputError, match="no recommended setting"):
        settings_page.apply(asked(study))


def test_comparisons_are_shown_with_figures(study):
    for kind, content, name in (("methods", METHODS, "comparison"), ("variations", VARIATIONS, "settings")):
        finished(study, kind, content)
        folder = study.root / "study" / f"study-{kind}"
        folder.mkdir()
        (folder / f"{name}.png").write_bytes(b"png")
        (folder / f"{name}.csv").write_text("a\n")
        text = shown(study)
        assert f"kind={kind}&amp;name={name}.png" in text
        assert f"study-{kind}%2F{name}.csv" in text  # to download
        assert "ours" in text or "lam 1" in text
        assert settings_page.figure(asked(study, kind=kind, name=f"{name}.png")).media_type == "image/png"
    for kind, name in (("methods", "../study.toml"), ("methods", "comparison.csv"), ("x", "comparison.png")):
        with pytest.raises(InputError, match="no such figure"):
            settings_page.figure(asked(study, kind=kind, name=name))


def test_errors_are_shown(study):
    finished(study, "methods", {})
    folder = study.context.jobs.folder(FILE, "compare")
    (folder / "exit.json").write_text("2")
    (folder / "errors.txt").write_text("Error: comparing methods needs diagnosis\n")
    assert "comparing methods needs diagnosis" in shown(study)
