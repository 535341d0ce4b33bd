"""Variables that were used for clustering: features, near-copies of features, and close correlates."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd
import scipy.linalg
import scipy.sparse as sp
from scipy import stats

from viewloom.clinical.findings import cramers_vs
from viewloom.clinical.variables import Variable, variables_of
from viewloom.data.drawing import rows_at_most
from viewloom.data.matching import matched_values
from viewloom.data.mixed import MixedBlock, numbers
from viewloom.data.mixed_encoding import encoded
from viewloom.data.views import Views
from viewloom.kernels.operators import dense
from viewloom.runtime.errors import InputError

Array = np.ndarray
NEAR = 0.8  # correlation with a feature from which a variable counts as used for clustering
COPY = 0.95  # multiple correlation with the features of a view from which it is a near-copy of them
USED = "used for clustering: p not valid"
LEAST = 10  # subjects with both the variable and the view
CHUNK = 1000  # features at a time
MOST_SUBJECTS, PER_FEATURE = 10_000, 3  # drawn of more: a correlation of 0.8 is known to within 0.01
RIDGE = 1e-9  # relative to the squared length of a feature
MOST_TABLES, MOST_LEVELS = 2000, 10  # features with few values that are compared by Cramer's V
MOST_COUNTS = 2**20  # in tables that are compared at once
COLUMNS = ["variable", "view", "feature", "measure", "strength", "used"]


@dataclass(frozen=True)
class Match:
    """The feature of a view that is closest to a variable."""

    feature: str
    measure: str
    strength: float


def used_for_clustering(
    participants: pd.DataFrame, views: Any, *, categorical: Iterable[str] = (), bound: float = NEAR
) -> pd.DataFrame:
    """Find variables that clusters cannot be tested on, because they or their likes formed the clusters.

    A variable is used for clustering if a feature of a view has its name, if its correlation with a feature
    is at least `bound`, or if the features of a view together give it (multiple correlation of 0.95 or more,
    adjusted for the number of features), such as the sum of the items of a test. Of more than 10,000 subjects
    as many are drawn at random, or three for each feature.

    Parameters
    ----------
    participants : DataFrame
        One row per subject.
    views : Views
        The views that were clustered, with the same subjects in the same order; matched by id if both have
        ids.
    categorical : iterable of str
        Columns that contain codes rather than numbers.
    bound : float, default=0.8
        Absolute Pearson or rank correlation of numbers; of categories the correlation ratio eta, or Cramer's
        V with features that have at most 10 values.

    Returns
    -------
    DataFrame
        One row per variable and view, with the closest feature: ``variable``, ``view``, ``feature``,
        ``measure`` ("name", "r", "rank r", "eta", "V" or "multiple R"), ``strength`` and ``used``.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> scores = rng.normal(size=(50, 2))
    >>> people = pd.DataFrame({"mmse": scores[:, 0] + 0.1 * rng.normal(size=50), "age": rng.normal(size=50)})
    >>> table = used_for_clustering(people, {"cognition": scores})
    >>> table[["variable", "feature", "used"]].to_numpy().tolist()
    [['mmse', 'cognition_0', True], ['age', 'cognition_0', False]]
    """
    if not participants.shape[1]:  # a study without participants has no ids to match
        return pd.DataFrame(columns=pd.Index(COLUMNS))
    known = views if isinstance(views, Views) else Views(views)
    people = _matched(participants, known)
    rows = []
    for variable, reason in variables_of(people, categorical):
        for name in known.names if reason is None else ():
            match = _closest(variable, known, name)
            limit = {"name": -np.inf, "multiple R": COPY}.get(match.measure, bound)
            rows.append([variable.name, name, *vars(match).values(), bool(match.strength >= limit)])
    return pd.DataFrame(rows, columns=pd.Index(COLUMNS))


def used_names(table: pd.DataFrame) -> dict[str, list[str]]:
    """Variables of a table of `used_for_clustering` that were used, with the views in question."""
    used = table[table["used"].astype(bool)]
    return {str(name): rows["view"].tolist() for name, rows in used.groupby("variable", sort=False)}


def _matched(participants: pd.DataFrame, views: Views) -> pd.DataFrame:
    """Participants in the order of the views."""
    order = pd.Series(range(len(participants)), index=participants.index)
    at = matched_values(order, views.ids, "participants", "the views")
    if len(at) != len(views):
        raise InputError(f"{len(at)} participants and {len(views)} samples of the views.")
    return participants.iloc[np.asarray(at, dtype=int)]


def _closest(variable: Variable, views: Views, view: str) -> Match:
    """The closest feature of a view, of the strongest measure."""
    wanted = _letters(variable.name)
    same = [name for name in views.feature_names[view] if _letters(name) == wanted]
    if same:
        return Match(str(same[0]), "name", 1.0)
    rows = np.flatnonzero(variable.known & views.present[:, views.index(view)])
    nothing = Match("", "", float("nan"))
    if len(rows) < LEAST:
        return nothing
    most = max(MOST_SUBJECTS, PER_FEATURE * len(views.feature_names[view]))
    rows = rows[rows_at_most(len(rows), most, 0)]
    X, names = _comparable(views[view][rows], views.feature_names[view], variable.kind)
    y = variable.data[rows]
    found = [Match(str(names[j]), measure, value) for measure, j, value in _strengths(variable.kind, y, X)]
    best = max(found, key=lambda match: match.strength, default=nothing)
    whole = _multiple(y, X) if variable.kind == "numeric" else 0.0
    return Match("all features together", "multiple R", whole) if whole >= max(COPY, best.strength) else best


def _comparable(X: Any, names: Array, kind: str) -> tuple[Any, Array]:
    """The numbers of a view, and the feature of each: of levels their codes, or dummies for numbers."""
    if not isinstance(X, MixedBlock) or kind == "categorical":
        return numbers(X), names
    found, groups = encoded(X)
    return found, np.repeat(names, [group.stop - group.start for group in groups])


@lru_cache(maxsize=100_000)  # every variable is compared with the same features
def _letters(name: Any) -> str:
    return "".join(letter for letter in str(name).casefold() if letter.isalnum())


def _strengths(kind: str, y: Array, X: Any) -> Iterator[tuple[str, int, float]]:
    """Measures of association, the feature at which each is largest, and its value."""
    for start, part in _chunks(X):
        for measure, values in MEASURES[kind](y, part):
            if np.isfinite(values).any():
                j = int(np.nanargmax(values))
                yield measure, start + j, float(values[j])


def _chunks(X: Any) -> Iterator[tuple[int, Array]]:
    """Dense columns of a matrix, some at a time."""
    for start in range(0, X.shape[1], CHUNK):
        part = X[:, start : start + CHUNK]
        yield start, dense(part)


def _numeric_strengths(y: Array, X: Array) -> Iterator[tuple[str, Array]]:
    yield "r", np.abs(_correlations(y.astype(float), X))
    yield "rank r", np.abs(_correlations(stats.rankdata(y.astype(float)), stats.rankdata(X, axis=0)))


def _correlations(y: Array, X: Array) -> Array:
    """Pearson correlations of a variable with columns; NaN for constant ones."""
    y, X = y - y.mean(), X - X.mean(axis=0)
    scale = np.sqrt((y @ y) * (X * X).sum(axis=0))
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(scale > 0.0, (y @ X) / scale, np.nan)


def _categorical_strengths(y: Array, X: Array) -> Iterator[tuple[str, Array]]:
    levels, codes = np.unique(y.astype(str), return_inverse=True)
    yield "eta", _correlation_ratios(codes, X, len(levels))
    if X.shape[1] <= MOST_TABLES:
        strengths, few = np.full(X.shape[1], np.nan), np.flatnonzero(_has_few_values(X))
        at_once = max(MOST_COUNTS // (len(levels) * MOST_LEVELS), 1)
        for start in range(0, len(few) if len(levels) > 1 else 0, at_once):
            chosen = few[start : start + at_once]
            strengths[chosen] = cramers_vs(_tables(codes, X[:, chosen], len(levels)))
        yield "V", strengths


def _has_few_values(X: Array) -> Array:
    """Columns with 2 to `MOST_LEVELS` different values; NaN is one."""
    found = 1 + _changes(np.sort(X, axis=0)).sum(axis=0)
    return np.asarray((found >= 2) & (found <= MOST_LEVELS))


def _changes(X: Array) -> Array:
    """Where values of sorted columns differ from the ones above; NaN, which is last, equals NaN."""
    return np.asarray((X[1:] != X[:-1]) & ~np.isnan(X[:-1]))


def _tables(codes: Array, X: Array, k: int) -> Array:
    """How often each of k categories occurs with each value of every column (m x k x `MOST_LEVELS`)."""
    order, values = np.argsort(X, axis=0), np.zeros(X.shape, dtype=np.intp)
    np.cumsum(_changes(np.take_along_axis(X, order, axis=0)), axis=0, out=values[1:])
    cells = (np.arange(X.shape[1]) * k + codes[order]) * MOST_LEVELS + values
    counts = np.bincount(cells.ravel(), minlength=X.shape[1] * k * MOST_LEVELS)
    return np.asarray(counts.reshape(-1, k, MOST_LEVELS))


def _correlation_ratios(codes: Array, X: Array, k: int) -> Array:
    """Correlation ratio of categories with each column, adjusted for the number of categories."""
    n = len(codes)
    if n <= k:
        return np.full(X.shape[1], np.nan)
    member = np.eye(k)[codes]
    centred = X - X.mean(axis=0)
    total = (centred**2).sum(axis=0)
    between = ((member.T @ centred) ** 2 / member.sum(axis=0)[:, None]).sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        adjusted = 1.0 - (1.0 - between / total) * (n - 1) / (n - k)
    return np.where(total > 0.0, np.sqrt(np.maximum(adjusted, 0.0)), np.nan)


def _multiple(y: Array, X: Any) -> float:
    """Adjusted multiple correlation with all features; 0 with more than one feature for two subjects."""
    n, d = X.shape
    if d < 2 or 2 * d > n:
        return 0.0
    y = y.astype(float) - y.astype(float).mean()
    if not y.any():
        return 0.0
    X = sp.csr_array(X, dtype=float) if sp.issparse(X) else np.asarray(X - X.mean(axis=0), dtype=float)
    mean = np.asarray(X.mean(axis=0)).ravel()  # zero unless sparse
    b = _coefficients(dense(X.T @ X) - n * np.outer(mean, mean), X.T @ y)
    left = float(((y - X @ b + mean @ b) ** 2).sum() / (y @ y))
    return float(np.sqrt(max(0.0, 1.0 - left * (n - 1) / (n - d - 1))))


def _coefficients(gram: Array, cross: Array) -> Array:
    """Least squares coefficients, with a ridge that is lost in rounding unless features are collinear."""
    spread = np.sqrt(np.maximum(gram.diagonal(), 0.0))
    scale = np.where(spread > 0.0, spread, np.inf)
    correlations = gram / np.outer(scale, scale) + RIDGE * np.eye(len(gram))
    return np.asarray(scipy.linalg.solve(correlations, cross / scale, assume_a="pos") / scale)


MEASURES = {"numeric": _numeric_strengths, "categorical": _categorical_strengths}
