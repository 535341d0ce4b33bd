"""Where the iteration begins: memberships worth refining, the same for every view."""

from __future__ import annotations

import numpy as np
from sklearn.cluster import KMeans

from viewloom.operators import Operator
from viewloom.solver.updates import Rows

Array = np.ndarray
SOFTNESS = 0.02  # how far a start lies from the vertex of the simplex
KMEANS_RESTARTS = 10
FILL_ROUNDS = 10


def random_memberships(n: int, n_clusters: int, rng: np.random.RandomState, membership: str) -> Array:
    """Uniform random numbers (k x n), as in the paper; on the simplex if asked for."""
    G = rng.uniform(size=(n_clusters, n))
    return G / G.sum(axis=0) if membership == "simplex" else G


def soft_memberships(labels: Array, n_clusters: int) -> Array:
    """Nearly hard memberships (k x n): ``1 - 0.02`` in the sample's cluster, the rest evenly elsewhere."""
    if n_clusters == 1:
        return np.ones((1, len(labels)))
    G = np.full((n_clusters, len(labels)), SOFTNESS / (n_clusters - 1))
    G[labels, np.arange(len(labels))] = 1.0 - SOFTNESS
    return G


def joint_features(operators: list[Operator], rows: list[Rows], n: int, rank: int) -> tuple[Array, Array]:
    """Factor of the mean kernel (n x m), centred, and which of its entries are observed."""
    parts, masks = [], []
    for operator, where in zip(operators, rows, strict=True):
        F = operator.features(rank)
        part, mask = np.zeros((n, F.shape[1])), np.zeros((n, F.shape[1]), dtype=bool)
        part[where], mask[where] = F - F.mean(axis=0), True
        parts.append(part / np.sqrt(len(operators)))
        masks.append(mask)
    return np.hstack(parts), np.hstack(masks)


def kernel_kmeans(X: Array, observed: Array, n_clusters: int, rng: np.random.RandomState) -> Array:
    """Labels of k-means on features of the mean kernel, the best of several restarts.

    A sample that lacks a view is given there the centre of its own cluster, until labels settle
    (k-POD), so that the view neither attracts nor repels it.
    """
    model = KMeans(n_clusters, n_init=KMEANS_RESTARTS, random_state=rng).fit(X)
    for _ in range(0 if observed.all() else FILL_ROUNDS):
        labels, centres = model.labels_, model.cluster_centers_
        X = np.where(observed, X, centres[labels])
        model = KMeans(n_clusters, init=centres, n_init=1).fit(X)
        if np.array_equal(labels, model.labels_):
            break
    return by_size(model.labels_)


def by_size(labels: Array) -> Array:
    """Labels renumbered so that cluster 0 is the largest; equals in order of appearance."""
    _, first, inverse, counts = np.unique(labels, return_index=True, return_inverse=True, return_counts=True)
    order = np.lexsort((first, -counts))
    return np.argsort(order)[inverse]
