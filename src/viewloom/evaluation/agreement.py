"""Agreement of each view with the consensus of the other views, with intervals."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
import pandas as pd
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from viewloom.kernels.diffusion import Diffusion
from viewloom.kernels.graphs import KNN
from viewloom.kernels.reliability import Agreement, Structure, dependence, mutual, spread
from viewloom.models.kernel_nmf import KernelMultiviewNMF
from viewloom.models.problem import Problem
from viewloom.runtime.errors import InputError, InputTypeError

Array = np.ndarray
LEAST_SHARE = 1e-6  # of a view that depends on another: its edges keep samples connected
RELIABLE = 0.1  # of the largest weight: samples that have only views of less weight are left out


def view_agreement(
    model: KernelMultiviewNMF, *, n_resamples: int = 200, level: float = 0.95, random_state: Any = 0
) -> pd.DataFrame:
    """Agreement of each view with the consensus of the other views, above chance.

    The weights of a fit reject views of noise and are otherwise nearly equal. This is the figure to compare
    views by: how much of the cluster structure of a view the other views confirm, and of theirs the view.

    Parameters
    ----------
    model : fitted KernelMultiviewNMF
    n_resamples : int, default=200
        Number of random halves of the samples for the intervals.
    level : float, default=0.95
        Level of the intervals.
    random_state : int, RandomState or None, default=0

    Returns
    -------
    DataFrame
        One row per view with ``agreement`` (0 is chance, 1 is complete) and its interval from ``lower`` to
        ``upper``. NaN for a single view and for views with too few samples in common with others.

    Notes
    -----
    Both sides are diffusion features of neighbour graphs (`viewloom.kernels.Diffusion`): those of the view
    alone and those of the graph that all other views share. The k - 1 leading directions of each explain a
    part of the variance of the other; random directions give 0 and its own leading directions give 1, and
    the agreement is the mean of both. A halving of the samples varies about as much as the agreement does
    itself (delete-half jackknife); the features are held fixed, so the interval does not include their
    uncertainty. For a model fitted with landmarks, the samples are the landmarks.

    Two views that measure the same organ agree in more than the clusters. The edges of another view therefore
    count the less, the more of its agreement with the view is confirmed by no third view (see
    `viewloom.kernels.reliability.dependence`). A high agreement is still no proof of a good view, nor is a
    low one proof of a poor view.

    Examples
    --------
    >>> import viewloom as vl
    >>> views, _ = vl.simulate.three_kinds(30, random_state=0)
    >>> model = vl.KernelMultiviewNMF(n_clusters=3, random_state=0).fit(views)
    >>> agreement = vl.inspection.view_agreement(model)
    >>> agreement["agreement"].idxmin()
    'noise'
    """
    if not isinstance(model, KernelMultiviewNMF):
        raise InputTypeError(f"view_agreement needs a KernelMultiviewNMF, got {type(model).__name__}.")
    if n_resamples < 1:
        raise InputError(f"n_resamples must be at least 1, got {n_resamples!r}.")
    if not 0.0 < level < 1.0:
        raise InputError(f"level must lie between 0 and 1, got {level!r}.")
    check_is_fitted(model)
    rng = check_random_state(random_state)
    n_clusters = model.fitted_model_.n_clusters
    sides = [_Sides(*pair, n_clusters) for pair in _features(model.fitted_model_.problem, n_clusters)]
    rows = [(side.agreement(), *side.interval(rng, n_resamples, level)) for side in sides]
    columns = ["agreement", "lower", "upper"]
    return pd.DataFrame(rows, columns=columns, index=pd.Index(model.view_names_, name="view"))


@dataclass(frozen=True, eq=False)
class _Sides:
    """Features of the samples that a view has in common with others: of the view, and of the others."""

    own: Array
    others: Array
    n_clusters: int

    def agreement(self, chosen: Any = slice(None)) -> float:
        """Agreement over chosen samples."""
        own, others = self.own[chosen], self.others[chosen]
        if len(own) <= max(self.n_clusters, 3):
            return float("nan")
        return mutual(Structure.of(own, self.n_clusters), Structure.of(others, self.n_clusters))[0]

    def interval(self, rng: np.random.RandomState, n_resamples: int, level: float) -> tuple[float, float]:
        """Interval from random halves of the samples."""
        n = len(self.own)
        halves = [rng.choice(n, n // 2, replace=False) for _ in range(n_resamples)]
        values = np.array([self.agreement(np.sort(half)) for half in halves])
        shift = self.agreement() - values.mean()
        lower, upper = np.quantile(values, [(1.0 - level) / 2.0, (1.0 + level) / 2.0]) + shift
        return float(np.clip(lower, 0.0, 1.0)), float(np.clip(upper, 0.0, 1.0))


def _features(problem: Problem, n_clusters: int) -> list[tuple[Array, Array]]:
    """Per view, features of the view and of the graph of the others, of the samples in common.

    A sample counts if one of its other views is reliable.
    """
    positions = [np.arange(problem.n)[where] for where in problem.rows]
    shapes = [Diffusion().shape(view.geometry.size, n_clusters) for view in problem.views]
    graphs = [
        KNN(shape.n_neighbors).fit(view.geometry).S for shape, view in zip(shapes, problem.views, strict=True)
    ]
    weights = problem.reliability(n_clusters).weights
    if len(graphs) == 1:
        return [(np.empty((0, 1)), np.empty((0, 1)))]
    Z = [shape.walk(graph).Z for shape, graph in zip(shapes, graphs, strict=True)]
    D = dependence(Z, positions, n_clusters, weights, Agreement.of(Z, positions, n_clusters))
    found = []
    for a, (shape, where) in enumerate(zip(shapes, positions, strict=True)):
        others = [b for b in range(len(graphs)) if b != a]
        reliable = [b for b in others if weights[b] >= RELIABLE * weights[others].max()]
        everyone = reduce(np.union1d, [positions[b] for b in reliable])
        size = (problem.n, problem.n)
        shared = sum(
            weights[b] * max(1.0 - D[a, b], LEAST_SHARE) * spread(graphs[b], positions[b], positions[b], size)
            for b in others
        )
        _, at, others_at = np.intersect1d(where, everyone, assume_unique=True, return_indices=True)
        consensus = shape.walk(shared[everyone][:, everyone]).Z
        found.append((Z[a][at], consensus[others_at]))
    return found
