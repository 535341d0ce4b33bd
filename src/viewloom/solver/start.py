"""Initial memberships, the same for every view."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import scipy.linalg
from sklearn.cluster import KMeans

from viewloom.kernels.operators import Operator
from viewloom.kernels.seeding import Seeding
from viewloom.solver.updates import Rows

Array = np.ndarray
SOFTNESS = 0.02  # distance of initial memberships from the vertex of the simplex
KMEANS_RESTARTS = 10
FILL_ROUNDS = 10
# merges and splits tried by `merge_and_split`; least ratio of gain to cost, as Lloyd's steps add to the gain
MERGES, SPLITS, WORTH_TRYING = 3, 4, 0.7


def random_memberships(n: int, n_clusters: int, rng: np.random.RandomState, membership: str) -> Array:
    """Uniform random memberships (k x n), as in the paper; normalised if `membership` is "simplex"."""
    G = rng.uniform(size=(n_clusters, n))
    return G / G.sum(axis=0) if membership == "simplex" else G


def soft_memberships(labels: Array, n_clusters: int) -> Array:
    """Nearly hard memberships (k x n): 0.98 in the cluster of a sample, the rest shared by the others."""
    if n_clusters == 1:
        return np.ones((1, len(labels)))
    G = np.full((n_clusters, len(labels)), SOFTNESS / (n_clusters - 1))
    G[labels, np.arange(len(labels))] = 1.0 - SOFTNESS
    return G


def joint_features(operators: list[Operator], rows: list[Rows], n: int, rank: int) -> tuple[Array, Array]:
    """Factor of the mean kernel (n x m), centred, and a mask of its observed entries."""
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

    The best result is improved by `merge_and_split`. Features of missing views are replaced by the
    centre of the sample's cluster until labels no longer change (k-POD), so that a missing view has
    no influence on the label.
    """
    seeding = Seeding(KMEANS_RESTARTS)
    model = KMeans(n_clusters, init=seeding, n_init=KMEANS_RESTARTS, random_state=rng).fit(X)
    model = merge_and_split(X, model)
    for _ in range(0 if observed.all() else FILL_ROUNDS):
        labels, centres = model.labels_, model.cluster_centers_
        X = np.where(observed, X, centres[labels])
        model = KMeans(n_clusters, init=centres, n_init=1).fit(X)
        if np.array_equal(labels, model.labels_):
            break
    return by_size(model.labels_)


def merge_and_split(X: Array, model: KMeans) -> KMeans:
    """Lower the error by merging two clusters and splitting another, which Lloyd's steps cannot do.

    The merges of least cost are tried with the splits of largest gain until none lowers the error, at
    most once per cluster. With many clusters, or clusters of unequal size, restarts rarely find such
    moves.
    """
    for _ in range(model.n_clusters):
        better = next((new for new in _moves(X, model) if new.inertia_ < (1.0 - 1e-6) * model.inertia_), None)
        if better is None:
            break
        model = better
    return model


def _moves(X: Array, model: KMeans) -> Iterator[KMeans]:
    """Clusterings that differ by one merge and one split, the most promising first."""
    merges = cheapest_merges(model.cluster_centers_, np.bincount(model.labels_, minlength=model.n_clusters))
    splits = _best_splits(X, model)
    for (cost, i, j), (gain, s, halves) in itertools.product(merges, splits):
        if s in (i, j) or gain < WORTH_TRYING * cost:
            continue
        centres = model.cluster_centers_.copy()
        centres[i] = X[np.isin(model.labels_, (i, j))].mean(axis=0)
        centres[[j, s]] = halves
        yield KMeans(model.n_clusters, init=centres, n_init=1).fit(X)


def cheapest_merges(centres: Array, sizes: Array) -> list[tuple[float, int, int]]:
    """Pairs of clusters with the least cost of merging (Ward): ``n_i n_j / (n_i + n_j) ||c_i - c_j||^2``."""
    i, j = np.triu_indices(len(centres), 1)
    costs = sizes[i] * sizes[j] / np.maximum(sizes[i] + sizes[j], 1) * ((centres[i] - centres[j]) ** 2).sum(1)
    return [(float(costs[p]), int(i[p]), int(j[p])) for p in np.argsort(costs)[:MERGES]]


def _best_splits(X: Array, model: KMeans) -> list[tuple[float, int, Array]]:
    """Clusters with the largest error, split in two: gain, cluster, centres of the halves."""
    own = [X[model.labels_ == c] for c in range(model.n_clusters)]
    errors = np.array([((x - x.mean(axis=0)) ** 2).sum() if len(x) > 1 else 0.0 for x in own])
    least = 1e-12 * float(np.vdot(X, X))  # below it samples differ only by round-off
    halved = [(c, _halves(own[c])) for c in np.argsort(-errors)[:SPLITS] if errors[c] > least]
    return sorted(((gain, int(c), halves) for c, (gain, halves) in halved), key=lambda split: -split[0])


def _halves(X: Array) -> tuple[float, Array]:
    """Decrease of the error by splitting samples across their main direction, and the two centres."""
    centred = X - X.mean(axis=0)
    widest = scipy.linalg.eigh(centred.T @ centred, subset_by_index=[X.shape[1] - 1] * 2)[1][:, 0]
    side = centred @ widest > 0.0
    centres = np.array([centred[side].mean(axis=0), centred[~side].mean(axis=0)])
    gain = side.sum() * centres[0] @ centres[0] + (~side).sum() * centres[1] @ centres[1]
    return float(gain), centres + X.mean(axis=0)


def by_size(labels: Array) -> Array:
    """Labels renumbered by decreasing cluster size; ties in order of appearance."""
    _, first, inverse, counts = np.unique(labels, return_index=True, return_inverse=True, return_counts=True)
    order = np.lexsort((first, -counts))
    return np.argsort(order)[inverse]
