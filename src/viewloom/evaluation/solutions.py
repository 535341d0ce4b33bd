"""A map of solutions: which settings give the same clusters, and which choices change them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import squareform
from sklearn.base import clone

from viewloom.data.views import Views
from viewloom.evaluation.selection.jobs import Jobs
from viewloom.evaluation.selection.stability import pairwise_ari
from viewloom.models.kernel_nmf import KernelMultiviewNMF
from viewloom.runtime.errors import InputError
from viewloom.runtime.progress import progress_bar

Array = np.ndarray
SAME = 0.8  # adjusted Rand index from which two solutions are called the same
CHOSEN = "chosen"  # name of the setting that is varied
GRID: dict[str, list[Any]] = {
    "kernel": [KernelMultiviewNMF().kernel, "gaussian", "linear"],
    "lam": [1.0, 10.0, 100.0],
    "theta": [0.01, 0.1, 1.0],
    "random_state": [1, 2],
}
WORDS = {"random_state": "seed", "n_clusters": "k"}  # names of parameters for people


@dataclass(frozen=True, eq=False)
class Solutions:
    """Clusterings of the same samples by several settings.

    Attributes
    ----------
    settings : DataFrame
        One row per setting, indexed by its name: ``choice`` (the parameter that differs from the chosen
        setting), ``value``, ``agreement`` (adjusted Rand index with the chosen setting), ``group`` (settings
        that give the same clusters have the same number) and ``largest`` (share of the largest cluster).
    agreement : DataFrame
        Adjusted Rand index of every pair of settings.

    Examples
    --------
    >>> found = Solutions.of([("", ""), ("k", "2")], [[0, 0, 1, 2], [0, 0, 1, 1]])
    >>> found.agreement.round(2).loc["chosen", "k 2"]
    np.float64(0.57)
    """

    settings: pd.DataFrame
    agreement: pd.DataFrame

    @property
    def choices(self) -> pd.DataFrame:
        """How much each choice matters, one row per parameter, the most influential first.

        ``values`` that were tried instead, ``lowest`` and ``mean`` agreement with the chosen setting, and
        ``same``: whether all of them give the same clusters.
        """
        others = self.settings[self.settings["choice"] != ""]
        groups = others.groupby("choice", sort=False)
        table = groups["agreement"].agg(lowest="min", mean="mean")
        table.insert(0, "values", [", ".join(rows["value"]) for _, rows in groups])
        return table.assign(same=table["lowest"] >= SAME).sort_values("lowest", kind="stable")

    @classmethod
    def of(cls, settings: Sequence[tuple[str, str]], labels: Sequence[Sequence[int]]) -> Solutions:
        """Compare clusterings; the first setting is the chosen one.

        Parameters
        ----------
        settings : sequence of (str, str)
            The parameter that differs, and its value; empty for the chosen setting.
        labels : sequence of sequences of int
            The clusters of the same samples by every setting.

        Examples
        --------
        >>> found = Solutions.of([("", ""), ("lam", "1")], [[0, 0, 1, 1], [1, 1, 0, 0]])
        >>> found.settings["group"].tolist(), found.choices["lowest"].tolist()
        ([1, 1], [1.0])
        """
        names = [f"{choice} {value}" if choice else CHOSEN for choice, value in settings]
        rows = np.asarray(labels)
        matrix = squareform(pairwise_ari(rows)) + np.eye(len(rows))
        largest = [np.unique(row, return_counts=True)[1].max() / rows.shape[1] for row in rows]
        table = pd.DataFrame(
            {
                "choice": [choice for choice, _ in settings],
                "value": [value for _, value in settings],
                "agreement": matrix[0],
                "group": groups_of(matrix),
                "largest": largest,
            },
            index=pd.Index(names, name="setting"),
        )
        return cls(table, pd.DataFrame(matrix, index=table.index, columns=names))


def groups_of(matrix: Array, same: float = SAME) -> Array:
    """Numbers of groups of clusterings that agree by `same` in the mean, in order of appearance.

    >>> groups_of(np.array([[1.0, 0.9, 0.1], [0.9, 1.0, 0.2], [0.1, 0.2, 1.0]])).tolist()
    [1, 1, 2]
    """
    if len(matrix) < 2:
        return np.ones(len(matrix), dtype=int)
    distance = np.clip(1.0 - matrix, 0.0, None)
    np.fill_diagonal(distance, 0.0)
    found = fcluster(linkage(squareform(distance), "average"), 1.0 - same, "distance")
    order = {group: number for number, group in enumerate(dict.fromkeys(found.tolist()), 1)}
    return np.array([order[group] for group in found.tolist()])


def variations(
    estimator: KernelMultiviewNMF, grid: Mapping[str, Iterable[Any]] | None = None
) -> list[tuple[str, str, dict[str, Any]]]:
    """Settings that differ from those of an estimator in one parameter: its name, value, and both as a dict.

    The first has no difference. By default kernel, lam, theta, seed and the number of clusters are varied.

    >>> found = variations(KernelMultiviewNMF(3), {"lam": [1.0, 10.0], "n_clusters": [2, 3]})
    >>> [(choice, value) for choice, value, _ in found]
    [('', ''), ('lam', '1'), ('k', '2')]
    """
    chosen = estimator.get_params(deep=False)
    if grid is None:
        k = chosen["n_clusters"]
        grid = {**GRID, "n_clusters": [number for number in (k - 1, k + 1) if number > 1]}
    unknown = [name for name in grid if name not in chosen]
    if unknown:
        raise InputError(f"Unknown parameters {unknown}; there are {sorted(chosen)}.")
    changed = [
        (WORDS.get(name, name), _text(value), {name: value})
        for name, values in grid.items()
        for value in values
        if not _equal(value, chosen[name])
    ]
    return [("", "", {}), *changed]


def map_solutions(
    views: Any,
    estimator: KernelMultiviewNMF | None = None,
    grid: Mapping[str, Iterable[Any]] | None = None,
    *,
    n_jobs: int = 1,
    progress: bool = False,
) -> Solutions:
    """Fit with settings that differ in one choice each, and compare the clusters.

    Parameters
    ----------
    views : dict, list, Views or array
    estimator : KernelMultiviewNMF, optional
        With the chosen setting.
    grid : dict of str to list, optional
        Values of parameters to try, one at a time. By default three kernels, smaller and larger lam and
        theta, two other seeds, and one cluster less and more.
    n_jobs : int, default=1
    progress : bool, default=False

    Returns
    -------
    Solutions

    Examples
    --------
    >>> import viewloom as vl
    >>> views, y = vl.simulate.blobs_views(60, random_state=0)
    >>> found = map_solutions(views, grid={"lam": [1.0, 100.0], "n_clusters": [2]})
    >>> found.settings["group"].tolist()
    [1, 1, 1, 2]
    >>> found.choices["same"].to_dict()
    {'k': False, 'lam': True}
    """
    views = Views(views)
    model = KernelMultiviewNMF(random_state=0) if estimator is None else clone(estimator)
    found = variations(model, grid)
    units = {f"{choice} {value}": (model, views, setting) for choice, value, setting in found}
    with progress_bar("Varying settings", len(units), progress) as tick:
        jobs = Jobs(n_jobs, None, tick)
        jobs.run(solution, units)
    return collected(found, [jobs.records[name] for name in units])


def solution(model: KernelMultiviewNMF, views: Views, setting: dict[str, Any]) -> dict[str, Any]:
    """Clusters of a fit with another setting, as a record; empty if it is not possible."""
    import warnings

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            return {"labels": clone(model).set_params(**setting).fit(views).labels_.tolist()}
    except ValueError:
        return {"labels": []}


def collected(
    found: Sequence[tuple[str, str, dict[str, Any]]], records: Sequence[Mapping[str, Any]]
) -> Solutions:
    """The map of fitted settings; those that could not be fitted are left out."""
    fitted = [
        (choice, value, record["labels"])
        for (choice, value, _), record in zip(found, records, strict=True)
        if record["labels"]
    ]
    if not fitted or fitted[0][0]:
        raise InputError("The chosen setting cannot be fitted to these views.")
    return Solutions.of([(choice, value) for choice, value, _ in fitted], [row for *_, row in fitted])


def _equal(one: Any, other: Any) -> bool:
    return type(one) is type(other) and one == other if isinstance(one, str) else one == other


def _text(value: Any) -> str:
    return f"{value:g}" if isinstance(value, (int, float)) else str(value)
