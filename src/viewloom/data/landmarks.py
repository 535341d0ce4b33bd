"""Landmarks: a small set of points that represents the samples of a cohort or a kernel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from sklearn.cluster import KMeans
from sklearn.neighbors import NearestNeighbors
from sklearn.preprocessing import MaxAbsScaler, StandardScaler

from viewloom.data.matrix import concatenated
from viewloom.data.views import Views

Array = np.ndarray
MEMBERS, CANDIDATES = 3, 30  # samples per mixture, so that no single one can be recovered; nearest candidates
LANDMARK_ITER = 10


def landmark_views(views: Views, count: int, rng: np.random.RandomState, *, mix: bool = True) -> Views:
    """Draw `count` random samples as landmarks; with `mix`, average three similar samples for each.

    Landmarks follow the density of the cohort, and with `mix` no landmark is a sample. Each view of a
    landmark is the mean of the three nearest samples that have it; if there are not enough of them
    nearby, the landmark does not have the view, and landmarks without any view are dropped. Do not mix
    counts: the mean of three short texts is unlike any text. If there are at most `count` samples, they
    are returned unchanged.
    """
    if len(views) <= count:
        return views
    chosen = np.sort(rng.choice(len(views), size=count, replace=False))
    if not mix:
        return views[chosen]
    side = _scaled_features(views)
    near = NearestNeighbors(n_neighbors=min(CANDIDATES, len(views))).fit(side)
    members = near.kneighbors(side[chosen], return_distance=False)
    means = [_mixed(X, views.present[:, a], members) for a, X in enumerate(views.blocks)]
    present = np.column_stack([seen for _, seen in means])
    return views.replaced(blocks=[mean for mean, _ in means], present=present, ids=None)[present.any(axis=1)]


def _scaled_features(views: Views) -> Any:
    """Concatenated scaled features, zero for missing views, divided by the root of the number of features."""
    return concatenated([_side(X, views.present[:, a]) for a, X in enumerate(views.blocks)])


def _side(X: Any, present: Array) -> Any:
    scaler = MaxAbsScaler() if sp.issparse(X) else StandardScaler()
    width = np.sqrt(X.shape[1])
    if sp.issparse(X):
        return scaler.fit_transform(X) / width
    scaler.fit(X[present])
    return np.where(present[:, None], scaler.transform(X) / width, 0.0)


def _mixed(X: Any, present: Array, members: Array) -> tuple[Any, Array]:
    """Means of the first three members that have a view (same dtype), and whether there are three."""
    has = present[members]
    number = np.cumsum(has, axis=1)
    enough = number[:, -1] >= MEMBERS
    group, place = np.nonzero(has & (number <= MEMBERS) & enough[:, None])
    shares = np.full(len(group), 1.0 / MEMBERS)
    put = sp.csr_array((shares, (group, members[group, place])), shape=(len(members), len(present)))
    if sp.issparse(X):
        return sp.csr_array(put @ X).astype(X.dtype), enough
    means = put @ np.where(present[:, None], X, 0.0)
    means[~enough] = np.nan
    return means.astype(X.dtype), enough


def kmeans_landmarks(X: Any, count: int) -> Array:
    """K-means centres, which halve the error of random landmarks."""
    return np.asarray(KMeans(count, n_init=1, max_iter=LANDMARK_ITER, random_state=0).fit(X).cluster_centers_)


def cholesky_landmarks(
    column: Callable[[Array], Array], diagonal: Array, count: int, rng: np.random.RandomState, block: int = 50
) -> Array:
    """Pivots of a randomly pivoted partial Cholesky factorisation of a kernel.

    Block RPCholesky: pivots are drawn in blocks with probability proportional to the residual
    diagonal; ``column(pivots)`` returns their columns of the kernel (n x pivots). Used for kernels whose
    features cannot be averaged.
    """
    residual, F = diagonal.astype(np.float64).copy(), np.zeros((len(diagonal), 0))
    chosen: list[int] = []
    while len(chosen) < count and residual.max() > 1e-10 * diagonal.max():
        size = min(block, count - len(chosen), int((residual > 0.0).sum()))
        pivots = np.unique(rng.choice(len(diagonal), size=size, replace=False, p=residual / residual.sum()))
        G = column(pivots) - F @ F[pivots].T
        values, vectors = scipy.linalg.eigh(G[pivots])
        keep = values > 1e-10 * values[-1]
        new = G @ (vectors[:, keep] / np.sqrt(values[keep]))
        F = np.hstack([F, new])
        residual = np.maximum(residual - np.einsum("ij,ij->i", new, new), 0.0)
        residual[pivots] = 0.0
        chosen.extend(pivots.tolist())
    return np.sort(np.array(chosen))
