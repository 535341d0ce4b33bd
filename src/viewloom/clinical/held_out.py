"""Valid tests of features: clusters that are assigned without the view that is tested.

The features that formed clusters differ between them whatever the data, so that their p-values mean nothing.
Two tests are valid. Both assign the subjects to clusters by other views only, and have the null hypothesis
that the feature is independent of these views.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats
from sklearn.base import clone
from sklearn.metrics import adjusted_rand_score

from viewloom.clinical.combining import cauchy_combination
from viewloom.clinical.findings import COMPARED
from viewloom.clinical.used import used_for_clustering, used_names
from viewloom.clinical.variables import Variable, variables_of
from viewloom.data.matrix import scatter_rows
from viewloom.data.mixed import MixedBlock
from viewloom.data.views import Views
from viewloom.runtime.errors import InputError

Array = np.ndarray
PER_VIEW = ("kernel", "lam", "theta", "graph", "scale")  # parameters that may have an entry for each view
SPLITS = 10
LEAST = 20  # subjects that are tested
CHUNK = 2000  # features at a time


@dataclass(frozen=True)
class LeftOut:
    """Features of a view compared between clusters of the other views.

    Attributes
    ----------
    p, effect : (d,) array
        Kruskal-Wallis test and epsilon squared of each feature; NaN for constant features, or if the test was
        not possible.
    agreement : float
        Adjusted Rand index of these clusters with those of all views.
    subjects : int
        Subjects who have the view and another one.
    """

    p: Array
    effect: Array
    agreement: float
    subjects: int


def view_left_out(model: Any, views: Any, view: str) -> LeftOut:
    """Cluster on the other views, and compare the features of a view between these clusters.

    The null hypothesis of each test is that the feature is independent of the other views. It is rejected if
    the feature follows clusters that are found without its view; that also happens where views share a
    continuum, such as severity or age, and is then no evidence for distinct groups.

    Parameters
    ----------
    model : estimator
        Fitted to all views; a copy with its settings is fitted to the other ones.
    views : Views
        As fitted.
    view : str

    Returns
    -------
    LeftOut

    Examples
    --------
    >>> import viewloom as vl
    >>> views, _ = vl.simulate.blobs_views(60, n_views=3, random_state=0)
    >>> model = vl.KernelMultiviewNMF(3, kernel="linear", random_state=0).fit(views)
    >>> found = view_left_out(model, views, "blobs0")
    >>> found.agreement, bool((found.p < 0.05).any())
    (1.0, True)
    """
    _others(views, [view])  # refuses a single view before the model is asked for its clusters
    return without_view(model, np.asarray(model.labels_), views, view)


def without_view(model: Any, labels: Array, views: Any, view: str) -> LeftOut:
    """`view_left_out` with the clusters given, and a model that need not be fitted."""
    known, (a, others) = Views(views), _others(views, [view])
    rows = known.present[:, others].any(axis=1)
    d = known.n_features[a[0]]
    nothing = LeftOut(np.full(d, np.nan), np.full(d, np.nan), float("nan"), 0)
    tested = rows & known.present[:, a[0]]
    if tested.sum() < LEAST:
        return nothing
    try:
        fitted = settings_without(model, known.names, [view]).fit(_selected(known[rows], others))
    except ValueError:  # too few subjects for a view
        return nothing
    codes = np.zeros(len(known), dtype=int)
    codes[rows] = fitted.labels_
    p, effect = compared_columns(codes[tested], known[view][tested])
    agreement = float(adjusted_rand_score(labels[rows], codes[rows]))
    return LeftOut(p, effect, agreement, int(tested.sum()))


def variable_left_out(model: Any, views: Any, variable: Variable, left: Sequence[str]) -> float:
    """P-value of a variable between clusters of the views other than `left`; NaN without other views.

    For variables that were used for clustering: `left` are the views with a feature that is close to it. The
    null hypothesis is that the variable is independent of the other views.
    """
    known, (_, others) = Views(views), _others(views, left, require=False)
    rows = known.present[:, others].any(axis=1) if others else np.zeros(len(known), dtype=bool)
    if (rows & variable.known).sum() < LEAST:
        return float("nan")
    try:
        fitted = settings_without(model, known.names, left).fit(_selected(known[rows], others))
    except ValueError:
        return float("nan")
    return _variable_p(np.asarray(fitted.labels_), variable.data[rows], variable.known[rows], variable.kind)


def split_once(
    model: Any, views: Views, seed: int, variables: Mapping[str, tuple[Variable, Sequence[str]]] | None = None
) -> dict[str, Any]:
    """Fit half of the subjects, place the others without each view in turn, and test them.

    Returns
    -------
    dict
        ``views``: p-values of the features by view; ``variables``: p-values by name. All are NaN if the half
        is too small for the model.
    """
    variables = variables or {}
    half = np.zeros(len(views), dtype=bool)
    half[np.random.default_rng(seed).permutation(len(views))[: len(views) // 2]] = True
    try:
        fitted = clone(model).fit(views[half])
    except ValueError:
        fitted = None
    return {
        "views": {name: _placed_p(fitted, views, ~half, name) for name in views.names},
        "variables": {
            name: _placed_variable_p(fitted, views, ~half, variable, left)
            for name, (variable, left) in variables.items()
        },
    }


def split_tests(
    model: Any,
    views: Any,
    participants: pd.DataFrame | None = None,
    *,
    categorical: Collection[str] = (),
    splits: int = SPLITS,
    random_state: int = 0,
) -> pd.DataFrame:
    """Test features on subjects who did not form the clusters, and are placed without the feature's view.

    In each split the model is fitted to all views of a random half. The other half is placed by all views but
    the one that is tested, and its features are compared between the clusters (Kruskal-Wallis). Clusters thus
    are those of all views, but a feature has no part in placing the subjects in whom it is tested. The null
    hypothesis is that the feature is independent of the other views. P-values of the splits are combined by
    `cauchy_combination`.

    Placing by all views would not be valid: subjects with high values of a feature would be placed together
    by it, in the second half as in the first.

    Parameters
    ----------
    model : estimator
        Its settings are used; needs to place samples that lack a view.
    views : Views
    participants : DataFrame, optional
        Variables that were used for clustering are tested in the same way, placed without the views that have
        a feature close to them.
    categorical : collection of str
    splits : int, default=10
    random_state : int, default=0

    Returns
    -------
    DataFrame
        One row per feature, and per variable that was used for clustering: ``view`` ("" for variables),
        ``name``, ``p`` and ``q`` (Benjamini-Hochberg over all rows that have a p).

    Examples
    --------
    >>> import viewloom as vl
    >>> views, _ = vl.simulate.blobs_views(80, n_views=2, random_state=0)
    >>> table = split_tests(vl.KernelMultiviewNMF(3, kernel="linear", random_state=0), views, splits=3)
    >>> bool((table["q"] < 0.05).any())
    True
    """
    known = Views(views)
    if known.n_views < 2:
        raise InputError("A view is tested by placing subjects by the others; there is only one view.")
    marked = used_variables(participants, known, categorical) if participants is not None else {}
    records = [split_once(model, known, random_state + i, marked) for i in range(splits)]
    return combined_splits(records, known)


def used_variables(
    participants: pd.DataFrame, views: Views, categorical: Collection[str] = ()
) -> dict[str, tuple[Variable, list[str]]]:
    """Variables that were used for clustering, with the views in question."""
    used = used_names(used_for_clustering(participants, views, categorical=categorical))
    found = {variable.name: variable for variable, _ in variables_of(participants, categorical)}
    return {name: (found[name], left) for name, left in used.items()}


def combined_splits(records: Sequence[Mapping[str, Any]], views: Views) -> pd.DataFrame:
    """The table of `split_tests` from the records of `split_once`."""
    rows = []
    for view in views.names:
        p = cauchy_combination([np.array(record["views"][view], dtype=float) for record in records])
        rows += [[view, name, value] for name, value in zip(views.feature_names[view], p, strict=True)]
    for name in records[0]["variables"] if records else ():
        p = cauchy_combination([np.array(record["variables"][name], dtype=float) for record in records])
        rows.append(["", name, float(p)])
    table = pd.DataFrame(rows, columns=pd.Index(["view", "name", "p"]))
    return table.assign(q=adjusted(table["p"].to_numpy(dtype=float)))


def adjusted(p: Array) -> Array:
    """Benjamini-Hochberg q-values; NaN where p is NaN."""
    q, known = np.full(len(p), np.nan), np.isfinite(p)
    q[known] = stats.false_discovery_control(p[known]) if known.any() else []
    return q


def compared_columns(codes: Array, X: Any) -> tuple[Array, Array]:
    """P-values of rank tests and epsilon squared of columns between groups; NaN for constant columns.

    The Kruskal-Wallis statistic H is referred to F, as ``H / (k - 1) / ((n - 1 - H) / (n - k))`` (Iman and
    Davenport 1976): chi-square is conservative for the small p-values that combination needs.

    >>> X = np.array([[1.0, 2.0], [2.0, 2.0], [3.0, 2.0], [4.0, 2.0], [5.0, 2.0], [6.0, 2.0]])
    >>> p, effect = compared_columns(np.array([0, 0, 0, 1, 1, 1]), X)
    >>> p.round(3).tolist(), effect.round(2).tolist()
    ([0.021, nan], [0.77, nan])

    Nominal features of a mixed view have the p-value of a chi-square or Fisher test, and the square of
    Cramer's V.
    """
    if isinstance(X, MixedBlock):
        return _compared_mixed(codes, X)
    groups, at = np.unique(codes, return_inverse=True)
    parts = [_effects(at, len(groups), X[:, start : start + CHUNK]) for start in range(0, X.shape[1], CHUNK)]
    effect = np.concatenate([*parts, np.empty(0)])
    n, k = len(at), len(groups)
    if k < 2 or n <= k:
        return np.full_like(effect, np.nan), np.full_like(effect, np.nan)
    with np.errstate(divide="ignore"):
        F = effect / (k - 1) / ((1.0 - effect) / (n - k))  # effect is H / (n - 1)
    return np.asarray(stats.f.sf(F, k - 1, n - k)), effect


def _compared_mixed(codes: Array, X: MixedBlock) -> tuple[Array, Array]:
    """`compared_columns` of a view with levels; ordered levels are compared by rank, as numbers are."""
    p, effect = compared_columns(codes, X.cells)
    for j, levels in enumerate(X.levels):
        if levels is not None and not levels.ordered:
            names = np.array(levels.names, dtype=object)[X.cells[:, j].astype(int)]
            groups = [names[codes == group] for group in np.unique(codes)]
            p[j] = effect[j] = np.nan
            if len(groups) > 1 and len(set(names)) > 1:
                found = COMPARED["categorical"](groups)
                p[j], effect[j] = found.p, found.effect**2
    return p, effect


def _effects(at: Array, k: int, X: Any) -> Array:
    """Share of the variance of the ranks between groups, of each column."""
    dense = X.toarray() if hasattr(X, "toarray") else np.asarray(X)
    ranks = stats.rankdata(dense, axis=0) - (len(at) + 1) / 2.0
    member = np.eye(k)[at]
    between = ((member.T @ ranks) ** 2 / member.sum(axis=0)[:, None]).sum(axis=0)
    total = (ranks**2).sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(np.where(total > 0.0, between / total, np.nan))


def settings_without(model: Any, names: Sequence[str], left: Collection[str]) -> Any:
    """A copy of an estimator with its settings for the remaining views.

    >>> import viewloom as vl
    >>> model = vl.KernelMultiviewNMF(3, kernel={"a": "linear", "b": "rbf", "c": "linear"}, lam=[1, 2, 3])
    >>> other = settings_without(model, ["a", "b", "c"], ["b"])
    >>> other.kernel, other.lam
    ({'a': 'linear', 'c': 'linear'}, [1, 3])
    """
    copy = clone(model)
    given = {name: value for name, value in copy.get_params(deep=False).items() if name in PER_VIEW}
    for parameter, value in given.items():
        if isinstance(value, Mapping):
            copy.set_params(**{parameter: {name: one for name, one in value.items() if name not in left}})
        elif isinstance(value, (list, tuple, np.ndarray)):
            kept = [one for name, one in zip(names, value, strict=True) if name not in left]
            copy.set_params(**{parameter: kept})
    return copy


def _others(views: Any, left: Sequence[str], require: bool = True) -> tuple[list[int], list[int]]:
    """Positions of the views that are left out, and of the others."""
    known = Views(views)
    out = [known.index(name) for name in left]
    others = [a for a in range(known.n_views) if a not in out]
    if require and not others:
        raise InputError("A view is tested by clustering the others; there is only one view.")
    return out, others


def _selected(views: Views, others: Sequence[int]) -> Views:
    return views.select([views.names[a] for a in others])


def _placed_p(fitted: Any, views: Views, rows: Array, view: str) -> list[float]:
    """P-values of the features of a view in subjects who are placed by the other views."""
    a = views.index(view)
    tested = rows & views.present[:, a]
    codes, placed = _placed(fitted, views, tested, [view])
    if codes is None:
        return [float("nan")] * views.n_features[a]
    return compared_columns(codes, views[view][placed])[0].tolist()


def _placed_variable_p(
    fitted: Any, views: Views, rows: Array, variable: Variable, left: Sequence[str]
) -> float:
    codes, placed = _placed(fitted, views, rows & variable.known, left)
    if codes is None:
        return float("nan")
    return _variable_p(codes, variable.data[placed], variable.known[placed], variable.kind)


def _placed(fitted: Any, views: Views, rows: Array, left: Sequence[str]) -> tuple[Array | None, Array]:
    """Clusters of subjects who are placed without some views, and who they are."""
    out, others = _others(views, left, require=False)
    placed = np.flatnonzero(rows & views.present[:, others].any(axis=1)) if others else np.empty(0, dtype=int)
    if fitted is None or len(placed) < LEAST:
        return None, placed
    return np.asarray(fitted.predict(absent(views[placed], out))), placed


def absent(views: Views, out: Sequence[int]) -> Views:
    """The same samples without some views."""
    present = views.present.copy()
    present[:, list(out)] = False
    blocks = [
        scatter_rows(X[:0], np.empty(0, dtype=int), len(views)) if a in out else X
        for a, X in enumerate(views.blocks)
    ]
    return views.replaced(blocks=blocks, present=present)


def _variable_p(codes: Array, data: Array, known: Array, kind: str) -> float:
    """P-value of a variable between clusters."""
    groups = [data[known & (codes == j)] for j in np.unique(codes)]
    groups = [group for group in groups if len(group)]
    values = np.concatenate(groups) if groups else np.empty(0)
    if len(groups) < 2 or len(set(values.tolist())) < 2:
        return float("nan")
    if kind == "numeric":
        return float(compared_columns(codes[known], data[known].astype(float)[:, None])[0][0])
    return float(COMPARED[kind](groups).p)
