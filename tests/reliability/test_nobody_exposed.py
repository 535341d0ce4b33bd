"""Ids and values of subjects are in no output, error or report, however a command ends."""

import importlib
import re
import shutil
import warnings
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
import test_cli_study
from safetensors.numpy import load_file
from test_cli_study import BAD

import viewloom as vl
from viewloom.study.run import computations as stages
from viewloom.study.run import prediction

ID = re.compile(r"sub-0\d")  # begin of every id
cohort, folder = test_cli_study.cohort, test_cli_study.folder  # fixtures
VALUE = "31337.1234"  # planted into one cell
SECRETS = ("planted-secret", VALUE, VALUE[:7])
COMMANDS = {
    "fit": lambda study, run: ("--debug", "fit", study, "--jobs", 1),
    "check": lambda study, run: ("check", study, "--debug", "--json"),
    "predict": lambda study, run: ("predict", run, study, "--debug"),
    "compare": lambda study, run: ("compare", study, "--debug"),
    "select": lambda study, run: ("--debug", "select", study),
}

study_check = importlib.import_module("viewloom.study.check")  # the package has a function of this name


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
    [*(("fit", case) for case in BAD), *((name, "text instead of numbers") for name in COMMANDS)],
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
    ("command", "module", "name", "error"),
    [
        *(("fit", study_check, "read_tables", error) for error in ERRORS),
        ("fit", stages, "rank", KeyError),
        ("fit", stages, "refit", KeyError),
        ("check", vl.study, "check", KeyError),
        ("predict", prediction, "load", KeyError),
        ("compare", study_check, "read_tables", KeyError),
        ("select", study_check, "read_tables", KeyError),
    ],
)
def test_errors_of_others_with_debug(
    small_study, fitted_run, viewloom, tmp_path, monkeypatch, caplog, command, module, name, error
):
    folder = small_study(tmp_path)
    monkeypatch.setattr(module, name, quoting(error))
    result = viewloom(*COMMANDS[command](folder / "study.toml", fitted_run))
    assert result.exit_code == (130 if error is KeyboardInterrupt else 1)
    assert result.stderr.rstrip().rpartition("\n")[2].startswith("Error: ") or error is KeyboardInterrupt
    assert_silent(result)
    assert not any(ID.search(line) or VALUE in line for line in caplog.text.splitlines())
    assert not (folder / "study-results").exists()


@pytest.mark.parametrize("name", ["summary.json", "model.safetensors"])
def test_a_damaged_run_with_debug(small_study, fitted_run, viewloom, tmp_path, name):
    """What is left of a file that tells of subjects is not told in the error."""
    study, run = small_study(tmp_path) / "study.toml", tmp_path / "run"
    shutil.copytree(fitted_run, run)
    (run / name).write_text(f'{{"summary": {{"{SAID}": ', encoding="utf-8")
    command = ("report", run) if name == "summary.json" else ("predict", run, study)
    result = viewloom("--debug", *command)
    assert result.exit_code == 2
    assert_silent(result)


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


def blobs(n, sizes=(4, 3)):
    rng, y = np.random.default_rng(0), np.arange(n) % 3
    return {f"v{d}": 4 * rng.standard_normal((3, d))[y] + rng.standard_normal((n, d)) for d in sizes}


def stored_and_scaled(views, path):
    """Per view, the rows that a model stored with landmarks holds, and those of its subjects in its scale."""
    vl.KernelMultiviewNMF(3, factored=12, random_state=0).fit(views).save(path, store="landmarks")
    for view, X in zip(vl.load(path).fitted_model_.problem.views, views.values(), strict=True):
        yield view.geometry.X, view.scaler.transform(X[~np.isnan(X[:, 0])])


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_model_of_landmarks_holds_means_of_three_subjects(tmp_path):
    n, path = 45, tmp_path / "m.safetensors"
    threes = np.array(list(combinations(range(n), 3)))
    members = []
    for stored, X in stored_and_scaled(blobs(n), path):
        apart = np.abs(stored[:, None] - X[threes].mean(axis=1)).max(axis=2)
        assert (apart.min(axis=1) < 1e-9).all()
        members.append(threes[apart.argmin(axis=1)])
        assert np.abs(stored[:, None] - X).max(axis=2).min() > 1e-3
    np.testing.assert_array_equal(*members)
    assert not any(n in tensor.shape for tensor in load_file(path).values())


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_model_of_landmarks_holds_no_row_where_views_are_absent(tmp_path):
    views = blobs(200, sizes=(3, 1))
    views["v1"][np.random.default_rng(1).random(200) < 0.5] = np.nan
    for stored, X in stored_and_scaled(views, tmp_path / "m.safetensors"):
        assert np.abs(stored[:, None] - X).max(axis=2).min() > 1e-9
