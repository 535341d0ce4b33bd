"""Agreement between clusterings of different subsamples."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
from scipy.optimize import linear_sum_assignment
from sklearn.metrics.cluster import contingency_matrix

Array = np.ndarray
ABSENT = -1  # label of a sample that a clustering has not seen


def pairwise_ari(labels: Any) -> Array:
    """Adjusted Rand index of every pair of clusterings, on the samples that both have seen.

    A clustering with a single cluster agrees with its like by having said nothing: such pairs count 0.

    Parameters
    ----------
    labels : (s, n) array of int
        One clustering per row; -1 where it has not seen a sample.

    Returns
    -------
    (s (s - 1) / 2,) array

    Examples
    --------
    >>> pairwise_ari([[0, 0, 1, 1], [1, 1, 0, 0], [0, 0, -1, 1]]).tolist()
    [1.0, 1.0, 1.0]
    >>> pairwise_ari([[0, 0, 0], [0, 0, 0]]).tolist()
    [0.0]
    """
    return np.array([_agreement(one, other) for one, other in combinations(np.asarray(labels), 2)])


def _agreement(one: Array, other: Array) -> float:
    """As scikit-learn computes it, without its checks, which take far longer than small clusterings."""
    both = (one != ABSENT) & (other != ABSENT)
    (rows, one), (columns, other) = (_sizes(labels[both]) for labels in (one, other))
    if len(rows) < 2 or len(columns) < 2:
        return 0.0
    cells, n = _sizes(one * len(columns) + other)[0], len(one)
    pairs = [int((sizes**2).sum()) - n for sizes in (cells, rows, columns)]  # twice their numbers
    shared, in_one, in_other = pairs
    if shared == in_one == in_other:
        return 1.0
    chance = in_one * in_other / (n * (n - 1))
    return (shared - chance) / ((in_one + in_other) / 2 - chance)


def _sizes(labels: Array) -> tuple[Array, Array]:
    """Sizes of clusters, and the clustering with numbers from 0."""
    _, numbered, sizes = np.unique(labels, return_inverse=True, return_counts=True)
    return sizes, numbered


def consensus_matrix(labels: Any) -> Array:
    """How often two samples share a cluster, among the clusterings that have seen both.

    Parameters
    ----------
    labels : (s, n) array of int
        One clustering per row; -1 where it has not seen a sample.

    Returns
    -------
    (n, n) array
        Shares in [0, 1]; NaN where no clustering has seen both.

    Examples
    --------
    >>> consensus_matrix([[0, 0, 1], [0, 1, 1]]).tolist()
    [[1.0, 0.5, 0.0], [0.5, 1.0, 0.5], [0.0, 0.5, 1.0]]
    """
    labels = np.asarray(labels)
    seen = (labels != ABSENT).astype(np.float64)
    together = np.zeros((labels.shape[1], labels.shape[1]))
    for cluster in range(int(labels.max(initial=ABSENT)) + 1):
        inside = (labels == cluster).astype(np.float64)  # s x n
        together += inside.T @ inside
    both = seen.T @ seen
    return np.where(both > 0.0, together / np.where(both > 0.0, both, 1.0), np.nan)


def pac(consensus: Any, low: float = 0.1, high: float = 0.9) -> float:
    """Proportion of ambiguous clustering: the share of pairs that are neither always nor never together.

    Parameters
    ----------
    consensus : (n, n) array
        See `consensus_matrix`.
    low, high : float
        A pair is ambiguous if its share lies strictly between.

    Examples
    --------
    >>> pac([[1.0, 0.5, 0.0], [0.5, 1.0, 1.0], [0.0, 1.0, 1.0]]).__round__(3)
    0.333
    """
    consensus = np.asarray(consensus, dtype=np.float64)
    pairs = consensus[np.triu_indices(len(consensus), 1)]
    pairs = pairs[~np.isnan(pairs)]
    return float(np.mean((pairs > low) & (pairs < high))) if len(pairs) else float("nan")


def sampled_pac(
    labels: Any, rng: np.random.Generator, n_pairs: int = 1_000_000, low: float = 0.1, high: float = 0.9
) -> float:
    """`pac` of clusterings (s x n), without their matrix: of all pairs, or of so many drawn at random.

    The standard error of a share of a million pairs is at most 0.0005.

    Examples
    --------
    >>> labels = np.array([[0, 0, 1], [0, 1, 1]])
    >>> round(sampled_pac(labels, np.random.default_rng(0)), 3) == round(pac(consensus_matrix(labels)), 3)
    True
    """
    labels = np.asarray(labels)
    n = labels.shape[1]
    one, other = _pairs(n, n_pairs, rng)
    together, both = np.zeros(len(one), dtype=np.int32), np.zeros(len(one), dtype=np.int32)
    for row in labels:
        a, b = row[one], row[other]
        seen = (a != ABSENT) & (b != ABSENT)
        both += seen
        together += seen & (a == b)
    share = together[both > 0] / both[both > 0]
    return float(np.mean((share > low) & (share < high))) if len(share) else float("nan")


def _pairs(n: int, most: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """All pairs of n samples, or so many different samples drawn at random."""
    if n * (n - 1) // 2 <= most:
        return np.triu_indices(n, 1)
    one = rng.integers(n, size=most)
    return one, (one + rng.integers(1, n, size=most)) % n


def prediction_strength(predicted: Any, labels: Any) -> float:
    """Share of pairs of a cluster that a model of other samples puts together, in the worst cluster.

    Tibshirani and Walther (2005): 1 if the clusters of one half of the data can be predicted from the
    other half. Above 0.8 to 0.9 clusters are commonly called real. Clusters of one sample have no pairs
    and are passed over.

    Parameters
    ----------
    predicted : (n,) array of int
        Clusters of the samples by the model of the others.
    labels : (n,) array of int
        Clusters of the samples by a model of their own.

    Examples
    --------
    >>> prediction_strength([0, 0, 0, 1, 1, 0], [1, 1, 1, 0, 0, 0]).__round__(3)
    0.333
    """
    predicted, labels = np.asarray(predicted), np.asarray(labels)
    return min((_kept_together(predicted[labels == c]) for c in _with_pairs(labels)), default=0.0)


def _with_pairs(labels: Array) -> Array:
    clusters, counts = np.unique(labels, return_counts=True)
    return np.asarray(clusters[counts > 1])


def _kept_together(predicted: Array) -> float:
    counts = np.unique(predicted, return_counts=True)[1]
    return float((counts * (counts - 1)).sum() / (len(predicted) * (len(predicted) - 1)))


@dataclass(frozen=True, eq=False)
class Stability:
    """How a clustering fares when it is repeated without some of the samples.

    Attributes
    ----------
    clusters : Series
        For each cluster the mean Jaccard similarity with the most similar cluster of a refit, on the
        samples of the refit (Hennig 2007). Above 0.75 clusters are commonly called stable; below 0.6 they
        should not be trusted. NaN where no refit has seen the cluster.
    subjects : Series
        For each sample the share of refits that put it into its own cluster, whether or not they were
        fitted on it. Clusters of a refit are matched with those of the clustering one to one.
    overall : float
        Mean adjusted Rand index between two refits, on the samples that both were fitted on.
    refits : int
        Number of refits.
    share : float
        Mean share of the samples that a refit was fitted on.
    """

    clusters: pd.Series
    subjects: pd.Series
    overall: float
    refits: int = 0
    share: float = float("nan")

    @classmethod
    def of(cls, labels: Any, refits: Any, seen: Any, ids: Any = None) -> Stability:
        """Stability of a clustering, from refits on subsamples.

        Parameters
        ----------
        labels : (n,) array of int
            The clustering.
        refits : (s, n) array of int
            What each refit says of all samples.
        seen : (s, n) array of bool
            Which samples a refit was fitted on.
        ids : sequence, optional
            Names of the samples.

        Examples
        --------
        >>> seen = [[True, True, True, True, False], [True, True, True, False, True]]
        >>> found = Stability.of([0, 0, 1, 1, 1], [[1, 1, 0, 0, 0], [0, 1, 1, 1, 1]], seen)
        >>> found.clusters.round(3).tolist(), found.subjects.tolist(), round(found.overall, 3)
        ([0.75, 0.833], [1.0, 0.5, 1.0, 1.0, 1.0], -0.5)
        """
        labels, refits, seen = np.asarray(labels), np.asarray(refits), np.asarray(seen, dtype=bool)
        names = list(range(int(labels.max()) + 1))
        jaccard = [_jaccard(labels[m], found[m], len(names)) for found, m in zip(refits, seen, strict=True)]
        kept = [matched_clusters(found, labels, m) == labels for found, m in zip(refits, seen, strict=True)]
        pairs = pairwise_ari(np.where(seen, refits, ABSENT))
        return cls(
            pd.Series(_mean(jaccard, len(names)), index=names, name="stability"),
            pd.Series(_mean(kept, len(labels)), index=ids, name="stability"),
            float(pairs.mean()) if len(pairs) else float("nan"),
            len(refits),
            float(seen.mean()) if len(refits) else float("nan"),
        )


def _jaccard(labels: Array, found: Array, k: int) -> Array:
    """For each of k clusters the similarity with the most similar one found; NaN where it has no samples."""
    best = np.full(k, np.nan)
    for cluster in np.unique(labels):
        inside = labels == cluster
        best[cluster] = max(
            np.sum(inside & (found == other)) / np.sum(inside | (found == other))
            for other in np.unique(found)
        )
    return best


def matched_clusters(found: Array, labels: Array, seen: Array) -> Array:
    """Clusters of a refit under the numbers of those they share most samples with, -1 for the rest."""
    known, other = np.unique(labels[seen]), np.unique(found[seen])
    rows, columns = linear_sum_assignment(contingency_matrix(labels[seen], found[seen]), maximize=True)
    number = dict(zip(other[columns], known[rows], strict=True))
    return np.array([number.get(cluster, ABSENT) for cluster in found])


def _mean(rows: list[Array], size: int) -> Array:
    """Column means of what is known; NaN where nothing is."""
    values = np.array(rows, dtype=np.float64).reshape(-1, size)
    known = ~np.isnan(values)
    count = known.sum(axis=0)
    total = np.where(known, values, 0.0).sum(axis=0)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)
