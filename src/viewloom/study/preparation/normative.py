"""What reference subjects, such as controls, have at given covariates, and how much they vary around it.

The deviation from it in standard deviations is the w-score: La Joie et al. (2012), J Neurosci 32:16265.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from viewloom.clinical import as_categories, as_numbers
from viewloom.study.errors import Message, StudyError, Suggestion
from viewloom.study.preparation.covariates import Covariates, column_of
from viewloom.study.preparation.plan import Plan
from viewloom.study.wording import counted

Array = np.ndarray
LEAST = {"controls": 20, "subjects": 10}  # reference subjects, for estimating the effects of covariates
LEAST_PER_COVARIATE = 5  # reference subjects per column of the design
LEAST_PER_LEVEL = 5  # controls with each level, and controls without the most frequent number


@dataclass(frozen=True, eq=False)
class Norm:
    """Regression of d features on p covariates: ``X = level + (C - centre) slopes + spread * noise``."""

    centre: Array  # (p,)
    slopes: Array  # (p, d)
    level: Array  # (d,)
    spread: Array  # (d,) residual standard deviation, n - p - 1 degrees of freedom


def fit_norm(X: Array, C: Array, used: Array, centre: Array) -> Norm:
    """Regress every feature on the covariates, by least squares over its used cells.

    Parameters
    ----------
    X : (n, d) array
    C : (n, p) array
    used : (n, d) bool array
        Features without more used cells than coefficients have zero slopes and spread.
    centre : (p,) array
        Covariates at which `level` is given.

    Examples
    --------
    >>> X, C = np.array([[1.0], [3.0], [2.0], [4.0]]), np.array([[0.0], [1.0], [0.0], [1.0]])
    >>> norm = fit_norm(X, C, np.ones((4, 1), dtype=bool), np.zeros(1))
    >>> norm.level.round(6).tolist(), norm.slopes.round(6).tolist(), norm.spread.round(6).tolist()
    ([1.5], [[2.0]], [0.707107])
    """
    design = np.column_stack([np.ones(len(C)), C - centre])
    coefficients, spread = np.zeros((design.shape[1], X.shape[1])), np.zeros(X.shape[1])
    for columns in _alike(used):
        rows = used[:, columns[0]]
        A, Y = design[rows], np.asarray(X[np.ix_(rows, columns)], dtype=np.float64)
        found, _, rank, _ = np.linalg.lstsq(A, Y, rcond=None)
        if len(A) > rank:
            coefficients[:, columns] = found
            spread[columns] = np.sqrt(((Y - A @ found) ** 2).sum(axis=0) / (len(A) - rank))
    return Norm(centre, coefficients[1:], coefficients[0], spread)


def _alike(used: Array) -> list[Array]:
    """Positions of columns with the same cells, group by group."""
    groups = np.unique(np.packbits(used, axis=0), axis=1, return_inverse=True)[1].ravel()
    order = np.argsort(groups, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(groups[order])) + 1)


def reference_subjects(plan: Plan) -> str:
    """The noun for the subjects in whom the effects of covariates are estimated."""
    return "controls" if plan.on_controls else "subjects"


def check_enough(n: int, p: int, plan: Plan) -> int:
    """The number of subjects needed to estimate the effects of p columns; fewer are refused."""
    who = reference_subjects(plan)
    least = max(LEAST[who], LEAST_PER_COVARIATE * p)
    if n < least:
        way = _way_out(plan)
        raise StudyError(
            Message(
                f"{n} {who} have it, too few to estimate the effects of covariates ({least} are needed); "
                f"{way}.",
                way,
            )
        )
    return least


def check_estimable(participants: pd.DataFrame | None, covariates: Covariates, among: Array) -> None:
    """Refuse covariates whose effect cannot be estimated in some subjects, but may differ in others."""
    for name, levels in covariates.levels.items():
        column = column_of(participants, name)
        if levels is None:
            _check_numbers_vary(as_numbers(column), among, name)
        elif len(levels) > 1:
            _check_levels(as_categories(column[among]), levels, name)
    design = covariates.design(participants, len(among))
    if _rank(design[among]) < _rank(design):
        raise StudyError(
            "the covariates cannot be told apart in controls, in whom one of them follows from the others; "
            "leave it out."
        )


def _check_levels(labels: list[str | None], levels: list[str], name: str) -> None:
    """Refuse levels that too few of these labels have."""
    rarest = min(levels, key=labels.count)
    found = labels.count(rarest)
    if found < LEAST_PER_LEVEL:
        raise StudyError(
            f"{counted(found, 'control')} of {len(labels)} with {rarest!r} as {name!r}, too few to estimate "
            f"its effect ({LEAST_PER_LEVEL} are needed); leave the covariate out, or merge the level with "
            "another."
        )


def _check_numbers_vary(values: Array, among: Array, name: str) -> None:
    """Refuse numbers that vary, but hardly among some subjects."""
    if len(np.unique(values[np.isfinite(values)])) < 2:
        return
    known = values[among & np.isfinite(values)]
    most = int(np.unique(known, return_counts=True)[1].max(initial=0))
    if len(known) - most < LEAST_PER_LEVEL:
        raise StudyError(
            f"{name!r} has the same value in {most} of {counted(len(known), 'control')}, so that its effect "
            "cannot be estimated in controls; leave the covariate out."
        )


def _rank(design: Array) -> int:
    return int(np.linalg.matrix_rank(design - design.mean(axis=0))) if design.size else 0


def _way_out(plan: Plan) -> str:
    """What to do if the reference subjects are too few."""
    if not plan.on_controls:
        return "residualise fewer covariates or none"
    if plan.w_scores:
        return "use residualise with residualise_on = 'all', use fewer covariates or check controls"
    return Message(
        "set residualise_on = 'all', use fewer covariates or check controls",
        Suggestion({"residualise_on": "all"}, block=("preparation",)),
    )
