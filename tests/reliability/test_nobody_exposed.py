"""Ids and values of subjects are in no output, error or report, however a command ends."""

import re
import warnings

import pandas as pd
import pytest
import test_cli_study
from test_cli_study import BAD

from viewloom.runs import analysis, stages

ID = re.compile(r"sub-0\d")  # begin of every id
cohort, folder = test_cli_study.cohort, test_cli_study.folder  # fixtures
VALUE = "31337.1234"  # planted into one cell
SECRETS = ("planted-secret", VALUE, VALUE[:7])
COMMANDS = {
    "fit": lambda study, run: ("--debug", "fit", study),
    "check": lambda study, run: ("check", study, "--debug", "--json"),
    "predict": lambda study, run: ("predict", run, study, "--debug"),
    "compare": lambda study, run: ("compare", study, "--debug"),
    "select": lambda study, run: ("--debug", "select", study),
}


def plant(folder):
    """A value that nobody else has, in an outcome and in a view."""
    for name, column in (("participants.csv", "mmse"), ("vbm.csv", "LHippocampus")):
        table = pd.read_csv(folder / name)
        table[column] = table[column].astype(object)
        table.loc[5, column] = VALUE
        table.to_csv(folder / name, index=False)


def assert_silent(result):
    """Nothing of subjects in what a command printed, in its exception, or in what that was caused by."""
    told, error = [result.output], result.exception
    while error is not None:
        told += [str(error), *getattr(error, "__notes__", [])] if not isinstance(error, SystemExit) else []
        error = error.__cause__
    for text in told:
        assert not ID.search(text)
        assert not any(secret in text for secret in SECRETS)


@pytest.mark.parametrize(
    ("command", "case"),
    [*(("fit", case) for case in BAD), *((name, "text among numbers") for name in COMMANDS)],
)
def test_bad_input_with_debug(folder, viewloom, fitted_run, command, case):
    plant(folder)
    BAD[case][0](folder)
    before = {path for path in folder.parent.rglob("*")}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = viewloom(*COMMANDS[command](folder / "study.toml", fitted_run))
    assert result.exit_code == 2
    assert_silent(result)
    assert not any(ID.search(str(warning.message)) for warning in caught)
    assert {path for path in folder.parent.rglob("*")} == before


SAID = f"planted-secret {VALUE} of sub-0001"


def quoting(error):
    """A function that fails as libraries do: with the data in its message."""

    def broken(*arguments, **settings):
        raise error(SAID)

    return broken


ERRORS = [
    ValueError,
    KeyError,
    RuntimeError,
    MemoryError,
    RecursionError,
    UnicodeError,
    KeyboardInterrupt,
    OSError,
]


@pytest.mark.parametrize(
    ("module", "name", "error"),
    [
        *((analysis, "load", error) for error in ERRORS),
        (stages, "rank", KeyError),
        (stages, "refit", KeyError),
    ],
)
def test_errors_of_others_with_debug(small_study, viewloom, tmp_path, monkeypatch, module, name, error):
    folder = small_study(tmp_path)
    monkeypatch.setattr(module, name, quoting(error))
    result = viewloom("fit", folder / "study.toml", "--debug", "--jobs", 1)
    assert result.exit_code == 1
    assert result.stderr.rstrip().rpartition("\n")[2].startswith("Error: ")
    assert_silent(result)
    assert not (folder / "study-results").exists()


def test_a_run_tells_of_single_subjects_in_labels_only(small_study, viewloom, tmp_path):
    folder = small_study(tmp_path)
    plant(folder)
    for command in (
        ("fit", folder / "study.toml", "--jobs", 1, "--debug"),
        ("predict", folder / "study-results", folder / "study.toml", "--json"),
        ("report", folder / "study-results"),
        ("check", folder / "study.toml", "--picture", folder / "study-results" / "views.svg"),
    ):
        result = viewloom(*command, whole_report=True)
        assert result.exit_code == 0, result.output
        assert_silent(result)
    telling = {
        path.name
        for path in (folder / "study-results").iterdir()
        if ID.search(text := path.read_bytes().decode("utf-8", "replace")) or any(s in text for s in SECRETS)
    }
    assert telling == {"labels.csv"}
