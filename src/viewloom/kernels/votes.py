"""Votes of views in the objective: views of noise have next to none, dependent views share theirs."""

from __future__ import annotations

import warnings
from itertools import combinations
from typing import NamedTuple

import numpy as np
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning

from viewloom.kernels.geometry import Geometry, GramGeometry
from viewloom.kernels.operators import dense
from viewloom.kernels.reliability import copies
from viewloom.kernels.seeding import Seeding

Array = np.ndarray
LEAST_VOTE = 0.05  # of a view of noise, whose weight still tells how well the clusters fit it
SHARED = 0.25  # part of the vote that resembling views share: a second reading still averages out noise
MOST_SAMPLES = 1000  # in common of two views, on which their similarities are compared


def shared_votes(gate: Array, geometries: list[Geometry], rows: list[Array], labels: Array) -> Array:
    """Vote of each view, ``v_a = g_a (1 - s + s / M_a) / m_a`` with ``M_a = sum_b R_ab / m_b``.

    The gate ``g_a`` is near 1 for a view that agrees with others better than by chance and near 0 for noise
    (see `viewloom.kernels.reliability.view_reliability`). ``R`` is the `resemblance` of views, whose errors
    are not independent: such views share the part s of their votes. ``m_a = sum_b R_ab^32`` is the number of
    copies of a view, itself included: m copies have ``1 / m`` of the vote each, and other views have the
    vote that they have beside a single one.
    """
    R = resemblance(geometries, rows, labels)
    m = copies(R)
    kept = 1.0 - SHARED + SHARED / (R / m).sum(axis=1)
    return np.asarray(np.maximum(gate, LEAST_VOTE) * kept / m)


def resemblance(geometries: list[Geometry], rows: list[Array], labels: Array) -> Array:
    """How much views resemble each other beyond the clusters (v x v): 0 is not at all, 1 for copies.

    The correlation between the similarities of samples in two views is the partial Mantel statistic: within
    each pair of clusters the mean similarity is subtracted first, so views that share nothing but clusters
    do not resemble each other, however clear these are. What chance gives, ``1 / sqrt(n)``, is subtracted.
    For a single feature the statistic is the square of the correlation of the features; its root is
    therefore taken.
    """
    R = np.eye(len(rows))
    found: dict[tuple[int, bytes], Details] = {}  # by view and samples, which most pairs have in common
    for a, b in combinations(range(len(rows)), 2):
        both = np.intersect1d(rows[a], rows[b], assume_unique=True)
        if not len(both):
            continue
        some = both[np.linspace(0, len(both) - 1, min(len(both), MOST_SAMPLES)).astype(int)]
        for c in (a, b):
            if (c, some.tobytes()) not in found:
                K = similarities(geometries[c], np.searchsorted(rows[c], some))
                found[c, some.tobytes()] = Details.of(details(K, labels[some]))
        r = correlation(found[a, some.tobytes()], found[b, some.tobytes()])
        R[a, b] = R[b, a] = np.sqrt(above_chance(r, len(some)))
    return R


def similarities(geometry: Geometry, chosen: Array) -> Array:
    """Gram matrix of chosen samples, centred."""
    X = geometry.X
    if isinstance(geometry, GramGeometry):
        K = X[np.ix_(chosen, chosen)].astype(np.float64, copy=False)
    else:
        X = X[chosen].astype(np.float64, copy=False)
        K = dense(X @ X.T)
    mean = K.mean(axis=0)
    K -= mean
    K -= (mean - mean.mean())[:, None]
    return K


def details(K: Array, labels: Array) -> Array:
    """Similarities of different samples, less their mean in each pair of clusters; zero on the diagonal."""
    G = (labels[:, None] == np.unique(labels)).astype(np.float64)  # n x k
    sizes = G.sum(axis=0)
    pairs = np.outer(sizes, sizes) - np.diag(sizes)
    between = G.T @ K @ G - (G.T * K.diagonal()) @ G  # sums over different samples
    left = G @ (between / np.maximum(pairs, 1.0)) @ G.T
    np.subtract(K, left, out=left)
    np.fill_diagonal(left, 0.0)
    return np.asarray(left)


class Details(NamedTuple):
    """Similarities without the clusters, and their sum of squares, which all pairs of views use."""

    K: Array
    square: float

    @classmethod
    def of(cls, K: Array) -> Details:
        """The details of a view."""
        return cls(K, float(np.vdot(K, K)))


def correlation(one: Details, other: Details) -> float:
    """Cosine between two matrices, 0 if one of them is zero."""
    size = np.sqrt(one.square * other.square)
    return float(np.vdot(one.K, other.K)) / size if size > 0.0 else 0.0


def above_chance(r: float, n: int) -> float:
    """A correlation less ``1 / sqrt(n)``, at least 0; 1 stays 1."""
    chance = 1.0 / np.sqrt(n)
    return float(np.clip((r - chance) / (1.0 - chance), 0.0, 1.0)) if n > 1 else 0.0


def provisional_clusters(Z: Array, n_clusters: int) -> Array:
    """Clusters of features that all views have in common, by k-means from one start."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # fewer distinct samples than clusters
        return np.asarray(KMeans(n_clusters, init=Seeding(1), n_init=1, random_state=0).fit(Z).labels_)
