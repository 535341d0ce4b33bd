"""Names from files on a terminal: they are shown, and cannot steer it."""

import json
import re
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from rich.console import Console
from small import STUDY, write_small
from typer.testing import CliRunner

from viewloom.cli import rendering as console
from viewloom.cli.commands import app
from viewloom.runtime.visible import visible
from viewloom.study.notes import Note
from viewloom.study.run.tables import FORMULA, inert_text

TRICKS = {
    "colour": "\x1b[31mred",
    "clear": "a\x1b[2J\x1b[Hb",
    "title": "\x1b]0;owned\x07",
    "link": "\x1b]8;;https://example.org\x1b\\here\x1b]8;;\x1b\\",
    "eight bits": "\x9b31mred",
    "bell": "a\x07b",
    "backspace": "good\x08\x08\x08\x08evil",
    "return": "good\revil",
    "two lines": "one\ntwo",
    "line separator": "one\u2028two",
    "direction": "\u202egnp.exe\u2066",
    "invisible": "a\u200bb\ufeff",
    "delete": "a\x7fb",
    "no text": "a\udcffb",
    "markup": "[red]not red[/red][link=https://example.org]x[/link]",
    "broken markup": "[/bold] [",
}
HARM = re.compile(r"[^\n\x20-\x7e\xa1-\xac\xae-\u061b\u061d-\u1fff\u2010-\u2027\u2030-\u205f\u2070-\ud7ff]")
WRITABLE = {name: text for name, text in TRICKS.items() if name != "no text"}


def harmless(text):
    """Nothing but what can be seen, and line breaks."""
    assert not HARM.search(text), HARM.search(text)
    text.encode()


@pytest.mark.parametrize("trick", TRICKS)
def test_visible(trick):
    shown = visible(TRICKS[trick])
    harmless(shown)
    assert "\n" not in shown


@pytest.mark.parametrize("trick", TRICKS)
def test_whatever_is_printed_passes_one_place(trick, capsys):
    text = TRICKS[trick]
    console.print_line(text)
    console.print_error_line(text)
    console.print_notes("Notes", [Note((text,))] * 2)
    console.show(console.rows_of(console.table_of("Title", text, "n"), [(text, 1)]))
    console.console.print(console.escape(text))
    told = capsys.readouterr()
    harmless(told.out + told.err)
    if trick == "markup":
        assert told.out.count("[red]not red[/red]") >= 4


def test_every_console_of_the_program_is_safe():
    """Rich prints text by `render_str` alone; a new console without it would print names as they are."""
    consoles = [value for value in vars(console).values() if isinstance(value, Console)]
    assert len(consoles) >= 2
    assert all(isinstance(one, console.Safe) for one in consoles)


@pytest.mark.parametrize("trick", TRICKS)
def test_json_says_the_same_and_is_harmless(trick, capsys):
    console.print_json({TRICKS[trick]: [TRICKS[trick]]})
    told = capsys.readouterr().out
    harmless(told)
    assert json.loads(told) == {TRICKS[trick]: [TRICKS[trick]]}


@pytest.fixture(scope="module")
def tricky(tmp_path_factory):
    """A study whose names, levels, columns and sites are all out to do harm."""
    folder = write_small(tmp_path_factory.mktemp("tricky") / "files")
    tricks = [text for text in WRITABLE.values() if not re.search(r"[\r\n\u2028]", text)]
    people = pd.read_csv(folder / "participants.csv")
    people["diagnosis"] = people["diagnosis"].map(dict(zip(["HC", "MCI", "AD"], tricks, strict=False)))
    people["\x1b[5msite"] = [tricks[i % len(tricks)] for i in range(len(people))]
    people = people.rename(columns={"diagnosis": "\x1b[31mdx", "mmse": "m\x07mse"})
    people.to_csv(folder / "participants.csv", index=False)
    scans = pd.read_csv(folder / "vbm.csv")
    named = [name for name in scans if re.match("L[HAP]", name)]
    scans = scans.rename(columns={name: f"{name}{text}" for name, text in zip(named, tricks, strict=False)})
    scans["LH\x1b[7mconstant"] = 1.0
    scans.to_csv(folder / "vbm.csv", index=False)
    study = STUDY.replace('"Small"', json.dumps("\x1b]0;owned\x07Small\nstudy\u202e"))
    study = study.replace('diagnosis = "diagnosis"', r'diagnosis = "\u001b[31mdx"')
    study = study.replace('outcomes = ["mmse"]', 'site = "\\u001b[5msite"\noutcomes = ["m\\u0007mse"]')
    (folder / "study.toml").write_text(study, encoding="utf-8")
    return folder


def run(*arguments):
    said = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert said.exit_code == 0, said.output
    harmless(said.stdout + said.stderr)
    return said.stdout


def test_every_command(tricky):
    study, results = tricky / "study.toml", tricky / "run"
    checked = run("check", study)
    assert r"\x1b]0;owned\x07Small\nstudy\u202e" in checked
    assert r"\x1b[31mred" in checked
    assert json.loads(run("check", study, "--json"))["name"] == "\x1b]0;owned\x07Small\nstudy\u202e"
    fitted = run("fit", study, "--output", results, "--jobs", 1)
    assert r"\x1b]0;owned\x07Small\nstudy\u202e" in fitted
    run("predict", results, study)
    run("predict", results, study, "--json")
    run("report", results)
    page = (results / "report.html").read_text(encoding="utf-8")
    harmless(page)
    assert r"<title>\x1b]0;owned\x07Small study\u202e: clusters</title>" in page


def test_errors(tricky, tmp_path):
    """What a study gets wrong is told with names from its files."""
    text = (tricky / "study.toml").read_text(encoding="utf-8")
    for name in tricky.iterdir():
        (tmp_path / name.name).symlink_to(name)
    (tmp_path / "study.toml").unlink()
    wrong = text.replace('id = "participant_id"', r'id = "\u001b[31mid"')
    (tmp_path / "study.toml").write_text(wrong, encoding="utf-8")
    for command in ("check", "fit", "compare", "select"):
        said = CliRunner().invoke(app, [command, str(tmp_path / "study.toml")])
        assert said.exit_code == 2
        harmless(said.stdout + said.stderr)


@pytest.mark.parametrize("start", FORMULA)
def test_no_cell_is_a_formula(start):
    assert inert_text(f"{start}cmd").startswith("'")


@pytest.mark.parametrize("n", [3, 15, 17])
def test_the_agreement_of_methods_fits_in_80_columns(n, capsys):
    names = [f"method {chr(97 + i)}" for i in range(n)]
    values = pd.DataFrame(np.round(np.linspace(-1.0, 1.0, n * n).reshape(n, n), 2), names, names)
    console.print_agreement(SimpleNamespace(agreement=values, collapsed=[]))
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    assert all(
        any(line.split(maxsplit=1) == [str(i), name] for line in lines) for i, name in enumerate(names, 1)
    )
    cells = [line.split() for line in lines[1 + n :]]
    first = [row[1:] for row in cells[1 : n + 1]]
    assert first == [[str(round(100 * v)) for v in row[:15]] for row in values.to_numpy()]
    assert len(cells) == (n + 1) * (1 if n <= 15 else 2)
