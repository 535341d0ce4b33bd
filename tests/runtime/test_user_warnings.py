"""Warnings name the line of the user that caused them, however deep in the package they arise."""

import ast
import re
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import viewloom as vl
from viewloom.models import fitting

SOURCE = Path(vl.__file__).parent
VIEWS = vl.simulate.blobs_views(40, n_views=2, random_state=0)[0]
POSITIVE = {name: np.abs(X) for name, X in VIEWS.items()}
NAMED = {name: pd.DataFrame(X).add_prefix("f") for name, X in VIEWS.items()}
INDEFINITE = np.eye(40) - np.ones((40, 40)) / 20


def short(cls=vl.KernelMultiviewNMF, **changes):
    return cls(3, max_iter=1, random_state=0, **changes)


FITTED = vl.KernelMultiviewNMF(3, random_state=0).fit(NAMED)
CASES = {
    "fit": (lambda: short().fit(VIEWS), "did not converge"),
    "fit_predict": (lambda: short().fit_predict(VIEWS), "did not converge"),
    "fit_transform": (lambda: short().fit_transform(VIEWS), "did not converge"),
    "set_output": (lambda: short().set_output(transform="pandas").fit_transform(VIEWS), "did not converge"),
    "refit": (lambda: FITTED.refit(max_iter=1), "did not converge"),
    "paper": (lambda: vl.KernelMultiviewNMF.paper(3, max_iter=1).fit(VIEWS), "did not converge"),
    "landmarks": (lambda: short(factored=20).fit(VIEWS), "did not converge"),
    "MultiviewNMF": (lambda: short(vl.MultiviewNMF).fit(POSITIVE), "did not converge"),
    "ConcatenatedNMF": (lambda: short(vl.ConcatenatedNMF).fit(POSITIVE), "did not converge"),
    "GraphNMF": (lambda: short(vl.GraphNMF).fit(POSITIVE["blobs0"]), "did not converge"),
    "pipeline": (
        lambda: make_pipeline(vl.PerView(StandardScaler()), short()).fit(VIEWS),
        "did not converge",
    ),
    "a list of one view": (lambda: short().fit([VIEWS["blobs0"]]), "list of one view"),
    "names in fit only": (lambda: FITTED.predict({"blobs0": VIEWS["blobs0"]}), "matched by position"),
    "score": (lambda: FITTED.score({"blobs0": VIEWS["blobs0"]}), "matched by position"),
    "precomputed": (
        lambda: vl.KernelMultiviewNMF(3, kernel="precomputed", scale=None).fit(INDEFINITE),
        "not positive semidefinite",
    ),
}


def caught(function, message):
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        function()
    return [warning for warning in found if re.search(message, str(warning.message))]


@pytest.mark.parametrize("name", CASES)
def test_warnings_point_at_the_line_of_the_user(name):
    function, message = CASES[name]
    found = caught(function, message)
    assert len(found) == 1
    assert (found[0].filename, found[0].lineno) == (__file__, called_at(function))


def called_at(function):
    """The line of a lambda; those of this file have one line."""
    return function.__code__.co_firstlineno


def test_a_choice_of_landmarks_points_there_too(monkeypatch):
    monkeypatch.setattr(fitting, "EXACT_ROWS", 30)
    fit = lambda: short().fit(VIEWS)  # noqa: E731
    (warning,) = caught(fit, "landmarks are used instead of exact kernels")
    assert (warning.filename, warning.lineno) == (__file__, called_at(fit))


def test_all_warnings_are_issued_by_warn_user():
    """A fixed stacklevel is right for one way in only."""
    found = {
        path.relative_to(SOURCE).as_posix()
        for path in SOURCE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("warnings.warn", "warn")
    }
    assert found == {"runtime/user_warnings.py"}
