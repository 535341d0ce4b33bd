"""Intervals of view weights, of the certainty of clusters and of the importance of features.

They come from refits on subsamples, as the delete-d jackknife: if a share ``f`` of the samples is left out,
the variance of an estimate is ``(1 - f) / f`` times the mean square of its deviations over subsamples (Shao
and Wu 1989).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import clone

from viewloom.data.views import Views
from viewloom.evaluation.feature_tests import explained
from viewloom.evaluation.selection.evidence import subsamples
from viewloom.evaluation.selection.jobs import Record, quiet
from viewloom.evaluation.selection.stability import ABSENT, matched_clusters
from viewloom.models.kernel_nmf import KernelMultiviewNMF

Array = np.ndarray
NORMAL = 1.96  # of a 95 % interval
MOST_FEATURES = 50  # of a view, whose importance has an interval


@dataclass(frozen=True, eq=False)
class Uncertainty:
    """Estimates with 95 % intervals.

    Attributes
    ----------
    weights : DataFrame
        ``value``, ``low`` and ``high`` of the weight of each view.
    certainty : DataFrame
        The same of the mean largest membership in each cluster.
    features : dict of str to DataFrame
        For the first features of each view ``feature``, and the same of the share of its variance that the
        memberships explain.
    """

    weights: pd.DataFrame
    certainty: pd.DataFrame
    features: dict[str, pd.DataFrame] = field(default_factory=dict)

    def largest_weight(self) -> str | None:
        """The view whose weight is larger than that of every other, with intervals that part; else None."""
        return parted(self.weights)


def parted(table: pd.DataFrame) -> str | None:
    """The row with the largest value whose interval lies above those of all others; None if there is none.

    >>> bounds = {"value": [0.6, 0.4], "low": [0.55, 0.3], "high": [0.65, 0.5]}
    >>> parted(pd.DataFrame(bounds, index=["a", "b"])), parted(pd.DataFrame(bounds, index=["a", "b"])[:1])
    ('a', None)
    """
    if len(table) < 2 or table.isna().to_numpy().any():
        return None
    first = int(table["value"].to_numpy().argmax())
    others = np.delete(table["high"].to_numpy(), first)
    return str(table.index[first]) if table["low"].iloc[first] > others.max() else None


def uncertainty(
    model: KernelMultiviewNMF,
    views: Any,
    *,
    n_subsamples: int = 20,
    share: float = 0.8,
    random_state: Any = 0,
) -> Uncertainty:
    """Intervals of weights, certainty and importance of a fitted model, from refits on subsamples.

    Parameters
    ----------
    model : fitted KernelMultiviewNMF
    views : dict, list, Views or array
        What it was fitted to.
    n_subsamples : int, default=20
    share : float, default=0.8
        Share of the samples in each subsample.
    random_state : int, default=0

    Returns
    -------
    Uncertainty

    Examples
    --------
    >>> import viewloom as vl
    >>> views, _ = vl.simulate.three_kinds(20, random_state=0)
    >>> model = vl.KernelMultiviewNMF(3, random_state=0).fit(views)
    >>> found = uncertainty(model, views, n_subsamples=5)
    >>> bool((found.weights["low"] <= found.weights["value"]).all())
    True
    """
    views = Views(views)
    names = first_features(views, {})
    records = []
    for rows in subsamples(len(views), n_subsamples, share, np.random.default_rng(random_state)):
        with quiet():
            fitted = clone(model).fit(views[rows])
        records.append(estimates(fitted, views[rows], model.labels_[rows], names))
    return gathered(estimates(model, views, model.labels_, names), records, views.names, names, 1.0 - share)


def first_features(views: Views, ranked: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """The first features of each view, by a ranking where there is one."""
    return {name: list(ranked.get(name, views.feature_names[name]))[:MOST_FEATURES] for name in views.names}


def estimates(
    model: KernelMultiviewNMF, views: Views, labels: Array, names: Mapping[str, Sequence[str]]
) -> Record:
    """Weights, certainty of clusters and importance of features; clusters are matched with given labels."""
    top, k = model.memberships_.max(axis=1), model.n_clusters
    found = matched_clusters(model.labels_, labels, labels != ABSENT)
    certainty = [float(top[found == j].mean()) if (found == j).any() else float("nan") for j in range(k)]
    return {
        "weights": model.view_weights_.tolist(),
        "certainty": certainty,
        "features": {name: _explained(model, views, name, names[name]) for name in views.names},
    }


def _explained(model: KernelMultiviewNMF, views: Views, view: str, names: Sequence[str]) -> list[float]:
    a = views.index(view)
    rows = views.rows(a)
    at = pd.Index(views.feature_names[view]).get_indexer(pd.Index(names))
    return explained(views.blocks[a][rows][:, at], model.memberships_[rows]).tolist()  # type: ignore[no-any-return]


def gathered(
    whole: Record,
    records: Sequence[Record],
    views: Sequence[str],
    names: Mapping[str, Sequence[str]],
    left_out: float,
) -> Uncertainty:
    """Intervals around the estimates of all samples, from those of subsamples."""

    def interval(get: Any, index: Sequence[Any]) -> pd.DataFrame:
        return intervals(np.array(get(whole)), np.array([get(record) for record in records]), left_out, index)

    features = {
        name: interval(lambda record, name=name: record["features"][name], range(len(names[name])))
        for name in views
    }
    for name, table in features.items():
        table.insert(0, "feature", list(names[name]))
    return Uncertainty(
        interval(lambda record: record["weights"], list(views)),
        interval(lambda record: record["certainty"], range(len(whole["certainty"]))),
        features,
    )


def intervals(value: Array, refits: Array, left_out: float, index: Sequence[Any]) -> pd.DataFrame:
    """Jackknife intervals of shares, within 0 and 1; NaN with fewer than two refits.

    >>> intervals(np.array([0.5]), np.array([[0.48], [0.52]]), 0.2, ["a"]).round(3).loc["a"].tolist()
    [0.5, 0.422, 0.578]
    """
    refits = np.asarray(refits, dtype=np.float64).reshape(-1, len(value))
    known = np.isfinite(refits)
    count = known.sum(axis=0)
    deviation = np.where(known, refits - value, 0.0)
    deviation = np.where(known, deviation - deviation.sum(axis=0) / np.maximum(count, 1), 0.0)
    spread = np.sqrt((1.0 - left_out) / left_out * (deviation**2).sum(axis=0) / np.maximum(count, 1))
    half = np.where(count >= 2, NORMAL * spread, np.nan)
    return pd.DataFrame(
        {"value": value, "low": np.clip(value - half, 0.0, 1.0), "high": np.clip(value + half, 0.0, 1.0)},
        index=pd.Index(list(index)),
    )
