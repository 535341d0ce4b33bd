"""Statistics of a replication: agreement of two clusterings of one cohort, and of profiles of two cohorts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment

Array = np.ndarray
LEVEL = 0.95  # of intervals


def matched(labels: Array, found: Array, k: int) -> Array:
    """Clusters `found` under the numbers of those of `labels` that they share most samples with, one to one.

    >>> matched(np.array([0, 0, 1, 1]), np.array([1, 1, 0, 1]), 2).tolist()
    [0, 0, 1, 0]
    """
    counts = np.zeros((k, k), dtype=int)
    np.add.at(counts, (labels, found), 1)
    rows, columns = linear_sum_assignment(counts, maximize=True)
    return np.asarray(rows[np.argsort(columns)][found])


def jaccard(labels: Array, found: Array, k: int, counts: Array | None = None) -> Array:
    """Jaccard similarity of the clusters with the same number; 0 where both have no samples.

    >>> jaccard(np.array([0, 0, 1, 1]), np.array([0, 0, 0, 1]), 3).round(2).tolist()
    [0.67, 0.5, 0.0]
    """
    weights = np.ones(len(labels)) if counts is None else counts
    one, other = (x == np.arange(k)[:, None] for x in (labels, found))  # k x n
    both, either = (one & other) @ weights, (one | other) @ weights
    return np.asarray(both / np.maximum(either, 1e-300))


def in_group(labels: Array, nearest: Array, k: int, counts: Array | None = None) -> Array:
    """In-group proportion (Kapp & Tibshirani 2007): samples whose nearest sample is in the same cluster.

    NaN for clusters without samples.

    >>> in_group(np.array([0, 0, 1]), np.array([1, 0, 1]), 3).tolist()
    [1.0, 0.0, nan]
    """
    weights = np.ones(len(labels)) if counts is None else counts
    own = (labels == labels[nearest]).astype(float)
    total = np.bincount(labels, weights, minlength=k)
    inside = np.bincount(labels, weights * own, minlength=k)
    return np.where(total > 0.0, inside / np.maximum(total, 1e-300), np.nan)


def nearest_samples(distances: Sequence[Array], rows: Sequence[Array], weights: Array, n: int) -> Array:
    """Nearest other sample of each, by the weighted mean distance over the views that two samples share.

    Parameters
    ----------
    distances : sequence of (n_a, n_a) arrays
        Squared distances in each view, on one scale.
    rows : sequence of (n_a,) arrays
        Samples of each view.
    weights : (v,) array
    n : int
    """
    total, shared = np.zeros((n, n)), np.zeros((n, n))
    for D, where, weight in zip(distances, rows, weights, strict=True):
        at = np.ix_(where, where)
        total[at] += weight * D
        shared[at] += weight
    mean = np.where(shared > 0.0, total / np.where(shared > 0.0, shared, 1.0), np.inf)
    np.fill_diagonal(mean, np.inf)
    return np.asarray(mean.argmin(axis=1))


@dataclass(frozen=True, eq=False)
class Concordance:
    """Mean correlation of the memberships of each cluster between pairs of views, weighted by the views.

    Attributes
    ----------
    memberships : list of (n, k) arrays
        Memberships by each view alone, as deviations from the mean in standard deviations; 0 if missing.
    rows : list of (n_a,) arrays
        Subjects of each view.
    weights : (v,) array
    """

    memberships: list[Array]
    rows: list[Array]
    weights: Array

    @classmethod
    def of(cls, memberships: Sequence[Array], rows: list[Array], weights: Array, n: int) -> Concordance:
        """From standardised memberships (n_a x k) of the subjects of each view."""
        full = [np.zeros((n, U.shape[1])) for U in memberships]
        for Z, U, where in zip(full, memberships, rows, strict=True):
            Z[where] = U
        return cls(full, rows, weights)

    def observed(self, counts: Array | None = None) -> Array:
        """One number per cluster; NaN if no two views have subjects in common."""
        return self._mean(self.memberships, counts)

    def permuted(self, rng: np.random.Generator) -> Array:
        """The same after a permutation of the subjects of each view."""
        shuffled = [Z.copy() for Z in self.memberships]
        for Z, where in zip(shuffled, self.rows, strict=True):
            Z[where] = Z[rng.permutation(where)]
        return self._mean(shuffled, None)

    def _mean(self, members: list[Array], counts: Array | None) -> Array:
        n, k = members[0].shape
        c = np.ones(n) if counts is None else np.asarray(counts, dtype=float)
        total, scale = np.zeros(k), 0.0
        for a, b in combinations(range(len(members)), 2):
            shared = float(c @ (self._present[a] * self._present[b]))
            weight = float(self.weights[a] * self.weights[b])
            if shared > 0.0 and weight > 0.0:
                total += weight * (c @ (members[a] * members[b])) / shared
                scale += weight
        return total / scale if scale > 0.0 else np.full(k, np.nan)

    @cached_property
    def _present(self) -> list[Array]:
        present = [np.zeros(len(self.memberships[0])) for _ in self.rows]
        for seen, where in zip(present, self.rows, strict=True):
            seen[where] = 1.0
        return present


def upper_p(observed: Any, null: Any) -> Array:
    """Share of null values at least as large as the observed ones, which count as one of them.

    NaN without null values; 1 where the observed value is NaN.

    >>> upper_p([3.0, 0.0], [[1.0, 1.0], [2.0, 2.0], [2.5, 0.5]]).tolist()
    [0.25, 1.0]
    """
    observed, null = np.asarray(observed, dtype=float), np.asarray(null, dtype=float)
    if len(null) == 0:
        return np.full(observed.shape, np.nan)
    least = np.nan_to_num(observed, nan=-np.inf)
    larger = (np.nan_to_num(null, nan=-np.inf) >= least).sum(axis=0)
    return np.where(np.isnan(observed), 1.0, (1.0 + larger) / (1.0 + len(null)))


def adjusted_p(observed: Any, null: Any) -> Array:
    """P-values corrected for the number of clusters, from the largest of all clusters (Westfall & Young).

    Values are studentised for each cluster by all of its values, the observed one included, so that the
    observed row is exchangeable with those of the null.

    Parameters
    ----------
    observed : (k,) array
    null : (b, k) array
    """
    if len(null) == 0:
        return np.full(np.shape(observed), np.nan)
    rows = np.vstack([np.asarray(observed, dtype=float)[None], np.asarray(null, dtype=float)])
    lowest = np.nanmin(rows) if np.isfinite(rows).any() else 0.0
    filled = np.where(np.isnan(rows), lowest, rows)
    spread = filled.std(axis=0)
    z = (filled - filled.mean(axis=0)) / np.where(spread > 0.0, spread, 1.0)
    p = (z.max(axis=1)[:, None] >= z[0]).mean(axis=0)
    return np.where(np.isnan(rows[0]), 1.0, p)


def agreement(labels: Array, found: Array, counts: Array | None = None) -> float:
    """Adjusted Rand index; 0 where one clustering has a single cluster. `counts` weighs samples.

    >>> round(agreement(np.array([0, 0, 1, 1]), np.array([0, 0, 1, 2])), 2)
    0.57
    """
    table = np.zeros((int(labels.max()) + 1, int(found.max()) + 1))
    np.add.at(table, (labels, found), 1.0 if counts is None else counts)
    rows, columns = table.sum(axis=1), table.sum(axis=0)
    if np.count_nonzero(rows) < 2 or np.count_nonzero(columns) < 2:
        return 0.0
    both, one, other = (float((x * (x - 1.0)).sum()) / 2.0 for x in (table, rows, columns))
    n = table.sum()
    expected = one * other / (n * (n - 1.0) / 2.0)
    return float((both - expected) / ((one + other) / 2.0 - expected))


def interval(values: Any) -> tuple[Array, Array]:
    """Quantiles of resampled values (first axis), ignoring NaN; NaN where there are none."""
    values = np.asarray(values, dtype=float)
    known = ~np.isnan(values)
    filled = np.where(known.any(axis=0), values, 0.0)
    with np.errstate(invalid="ignore"):
        lower, upper = np.nanquantile(filled, [(1.0 - LEVEL) / 2.0, (1.0 + LEVEL) / 2.0], axis=0)
    return np.where(known.any(axis=0), lower, np.nan), np.where(known.any(axis=0), upper, np.nan)


@dataclass(frozen=True, eq=False)
class Profiles:
    """Profiles of clusters of the second cohort beside those of the first, as products of subjects.

    A profile is the vector of mean z-scores of a cluster in a view, relative to its own cohort. Its
    similarity is the uncentred correlation (the cosine), since 0 is the mean of the cohort. Over views,
    products are means over features, weighted by the weights of the views.

    Attributes
    ----------
    rows : list of (n_a,) arrays
        Subjects of each view.
    gram : list of (n_a, n_a) arrays
        Products of their z-scores, divided by the number of features.
    cross : list of (n_a, k) arrays
        Products with the profiles of the first cohort.
    lengths : (v, k) array
        Squared lengths of the profiles of the first cohort.
    weights : (v,) array
    """

    rows: list[Array]
    gram: list[Array]
    cross: list[Array]
    lengths: Array
    weights: Array

    @classmethod
    def of(cls, second: list[Array], rows: list[Array], first: list[Array], weights: Array) -> Profiles:
        """Products from z-scores (n_a x d_a) of the second cohort and profiles (k x d_a) of the first."""
        return cls(
            rows,
            [Z @ Z.T / Z.shape[1] for Z in second],
            [Z @ P.T / Z.shape[1] for Z, P in zip(second, first, strict=True)],
            np.array([(P**2).mean(axis=1) for P in first]),
            weights,
        )

    @property
    def distances(self) -> list[Array]:
        """Squared distances of subjects in each view, divided by their mean."""
        found = []
        for K in self.gram:
            D = np.maximum(np.diagonal(K)[:, None] + np.diagonal(K) - 2.0 * K, 0.0)
            found.append(D / max(float(D.mean()), 1e-300))
        return found

    def of_clusters(self, labels: Array, counts: Array | None = None) -> tuple[Array, Array]:
        """Similarities (k x k over all views, v x k x k by view) of clusters with those of the first cohort.

        Rows are clusters of `labels`, columns those of the first cohort. `counts` weighs subjects.
        """
        k = self.lengths.shape[1]
        counts = np.ones(len(labels)) if counts is None else counts
        W = (labels == np.arange(k)[:, None]) * counts  # k x n
        parts = [W[:, where] for where in self.rows]
        return self._similar([part / np.maximum(part.sum(axis=1, keepdims=True), 1e-300) for part in parts])

    def of_directions(self, G: Array, labels: Array) -> tuple[Array, Array]:
        """Similarities of random directions with the covariance within clusters.

        Parameters
        ----------
        G : (b, k, n) array
            Random numbers, b times one row per direction; they weigh the subjects' deviations from their
            clusters.
        labels : (n,) array

        Returns
        -------
        (b, k, k) and (v, b, k, k) arrays
        """
        b, k, n = G.shape
        sizes = np.bincount(labels, minlength=k)
        centred = G - np.einsum("j,bjn->bn", sizes / sizes.sum(), G)[:, None]  # profiles have the mean 0
        flat = centred.reshape(b * k, n)
        overall, by_view = self._similar([_within(flat[:, at], labels[at]) for at in self.rows])
        return overall.reshape(b, k, k), by_view.reshape(-1, b, k, k)

    def _similar(self, parts: list[Array]) -> tuple[Array, Array]:
        pairs = list(zip(parts, self.gram, self.cross, strict=True))
        inner = np.array([W @ Q for W, _, Q in pairs])  # v x k x k
        lengths = np.array([_squared_lengths(W, K) for W, K, _ in pairs])  # v x k
        w = self.weights
        overall = _cosine(
            np.einsum("a,ajl->jl", w, inner), (w @ lengths)[:, None], (w @ self.lengths)[None, :]
        )
        return overall, _cosine(inner, lengths[:, :, None], self.lengths[:, None, :])


def _squared_lengths(W: Array, K: Array) -> Array:
    """``w^T K w`` for each row of W, 0 where it is not above the rounding errors of its terms."""
    found = ((W @ K) * W).sum(axis=1)
    rounding = np.finfo(float).eps * np.abs(W).sum(axis=1) ** 2 * np.abs(K).max(initial=0.0)
    return np.where(found > rounding, found, 0.0)


def _within(G: Array, labels: Array) -> Array:
    """Weights of subjects such that the means of clusters cancel."""
    inside = (labels[:, None] == np.unique(labels)).astype(float)  # n x k
    return np.asarray(G - (G @ inside / inside.sum(axis=0)) @ inside.T)


def _cosine(inner: Array, one: Array, other: Array) -> Array:
    """Products by lengths; NaN where a length is 0."""
    scale = np.sqrt(np.maximum(one, 0.0) * np.maximum(other, 0.0))
    return np.where(scale > 1e-12, inner / np.where(scale > 1e-12, scale, 1.0), np.nan)


def best_matching(similarity: Array) -> Array:
    """For each column the row of the one-to-one matching with the largest sum of similarities.

    >>> best_matching(np.array([[0.1, 0.9], [0.8, 0.85]])).tolist()
    [1, 0]
    """
    rows, columns = linear_sum_assignment(np.nan_to_num(similarity, nan=-1.0), maximize=True)
    return np.asarray(rows[np.argsort(columns)])


def cluster_means(Z: Array, labels: Array, k: int) -> Array:
    """Mean of the rows of each cluster (k x d); 0 for clusters without rows."""
    W = (labels == np.arange(k)[:, None]).astype(float)
    return np.asarray((W @ Z) / np.maximum(W.sum(axis=1, keepdims=True), 1.0))
