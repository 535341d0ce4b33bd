"""Landmarks of kernels: a small set of points that represents all samples."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.linalg
from sklearn.cluster import KMeans

Array = np.ndarray
LANDMARK_ITER = 10


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
