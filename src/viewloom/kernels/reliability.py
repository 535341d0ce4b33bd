"""Agreement between views, near-duplicate views, and the reliability of each view."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from viewloom.kernels.geometry import FEW_ROWS
from viewloom.runtime.stored import Stored

Array = np.ndarray
RELIABILITY_ROUNDS = 30
GATE = 4.0  # standard deviations under chance at which a view has half of the full weight
LEAST_AGREEMENT = 0.01  # the same bound for many samples, where any agreement is significant
MOST_DOUBTS = 1.5  # of a view of noise, in losses of a single cluster
LEAST_WEIGHT = 1e-4  # of a view relative to the full weight: its edges keep lone samples connected

COPY_POWER = 4  # views that share half of their edges hardly count as copies


@dataclass(frozen=True, eq=False)
class Structure:
    """Centred features of a view, and the k - 1 leading directions that represent its memberships."""

    Y: Array  # n x m, centred
    leading: Array  # n x (k - 1), orthonormal
    spectrum: Array  # eigenvalues of Y^T Y, rising

    @classmethod
    def of(cls, Z: Array, n_clusters: int) -> Structure:
        """The structure of features for a number of clusters."""
        Y = Z - Z.mean(axis=0)
        values, V = scipy.linalg.eigh(Y.T @ Y)
        r = max(n_clusters - 1, 1)
        keep = values[-r:] > 1e-10 * max(values[-1], 1e-300)
        return cls(Y, np.asarray(Y @ (V[:, -r:][:, keep] / np.sqrt(values[-r:][keep]))), values.clip(0.0))

    def explained_by(self, other: Structure) -> tuple[float, float]:
        """Share of the structure that another one explains, and its standard deviation under chance.

        The r leading directions of the other structure explain some of the variance ``sum_i a_i``, ``a``
        the spectrum. The scale runs from 0, what random directions explain, to 1, what the own leading
        directions explain. For r random directions among ``m = n - 1`` the explained variance has the mean
        ``r / m sum_i a_i`` and the variance ``2 r (m - r) (m sum_i a_i^2 - (sum_i a_i)^2) / (m^2 (m - 1)
        (m + 2))``.
        """
        a, r, m = self.spectrum, other.leading.shape[1], len(self.Y) - 1
        total = float(a.sum())
        chance = r / m * total
        span = max(float(a[-r:].sum()) - chance, 1e-12) if r else 1.0
        explained = float(((other.leading.T @ self.Y) ** 2).sum())
        variance = 2.0 * r * (m - r) * (m * float((a * a).sum()) - total**2) / (m**2 * (m - 1) * (m + 2))
        return max(explained - chance, 0.0) / span, float(np.sqrt(max(variance, 0.0))) / span


def mutual(A: Structure, B: Structure) -> tuple[float, float]:
    """Mean share that two structures explain of each other, and its standard deviation under chance."""
    (one, null), (other, other_null) = A.explained_by(B), B.explained_by(A)
    return (one + other) / 2.0, (null + other_null) / 2.0


@dataclass(frozen=True)
class Agreement:
    """Agreement of all pairs of views: 0 is chance, 1 is complete."""

    E: Array  # v x v, symmetric
    null: Array  # v x v: standard deviation of E between views that have nothing in common
    known: Array  # v x v: whether the pair has enough samples in common

    @classmethod
    def of(cls, Z: list[Array], rows: list[Array], n_clusters: int) -> Agreement:
        """Agreement of views, each by the samples that a pair has in common."""
        v = len(Z)
        E, null, known = np.eye(v), np.zeros((v, v)), np.eye(v, dtype=bool)
        every = [Structure.of(features, n_clusters) for features in Z]
        for a, b in combinations(range(v), 2):
            both, at_a, at_b = np.intersect1d(rows[a], rows[b], assume_unique=True, return_indices=True)
            if len(both) <= max(n_clusters, 3):
                continue
            pair = [
                every[c] if len(at) == len(Z[c]) else Structure.of(Z[c][at], n_clusters)
                for c, at in ((a, at_a), (b, at_b))
            ]
            known[a, b] = known[b, a] = True
            E[a, b], null[a, b] = E[b, a], null[b, a] = mutual(*pair)
        return cls(E, null, known)

    def mean(self, A: Array) -> tuple[Array, Array]:
        """Mean agreement of each view with others by the weights ``A``, and the bound of the gate.

        A view that can be compared with no other one agrees completely.
        """
        support = A.sum(axis=1)
        A = A / np.maximum(support, 1e-12)[:, None]
        e = np.where(support > 1e-6, (self.E * A).sum(axis=1), 1.0)
        return e, np.maximum(GATE * (self.null * A).sum(axis=1), LEAST_AGREEMENT)


def overlap(graphs: list[Any], rows: list[Array]) -> Array:
    """Cosine similarity between the graphs of views: 1 for copies, which are no independent evidence."""
    n = 1 + max(int(where.max()) for where in rows)
    graphs = [spread(S, where, where, (n, n)) for S, where in zip(graphs, rows, strict=True)]
    norms = [np.sqrt(float(S.multiply(S).sum())) for S in graphs]
    return np.array(
        [
            [float(S.multiply(T).sum()) / (norms[a] * norms[b]) for b, T in enumerate(graphs)]
            for a, S in enumerate(graphs)
        ]
    )


def spread(S: Any, rows: Array, columns: Array, shape: tuple[int, int]) -> Any:
    """Embed a matrix in a larger one at given rows and columns; dense if S is dense and rows are few."""
    if S.shape == shape:
        return S
    if isinstance(S, np.ndarray) and shape[0] <= FEW_ROWS:
        W = np.zeros(shape)
        W[np.ix_(rows, columns)] = S
        return W
    S = sp.coo_array(S)
    return sp.csr_array((S.data, (rows[S.row], columns[S.col])), shape=shape)


@dataclass(frozen=True)
class Reliability(Stored, tag="reliability", fields=("doubts", "weights", "copies")):
    """Reliability of each view, judged by its agreement with the other views."""

    doubts: Array  # from 1/2 to 3/2: the smaller, the more it agrees with others; 0 for a single view
    weights: Array  # weight of its edges in the shared graph
    copies: Array  # number of near-duplicates of the view, itself included


def view_reliability(agreement: Agreement, C: Array) -> Reliability:
    """Reliability of each view, from the agreement and the overlap ``C`` of views.

    ``e_a = sum_b A_ab E_ab / sum_b A_ab`` with ``A_ab = (1 - C_ab) w_b`` is the mean agreement of a view with
    other reliable views, and ``g_a = e_a^2 / (e_a^2 + epsilon_a^2)`` a gate at chance: ``epsilon_a`` is a few
    standard deviations of ``e_a`` under chance. The edges of a view have the weight ``w_a ~ g_a``, divided
    among near-duplicates: views that agree with others clearly better than by chance have nearly equal
    weights, however much they agree, and views of noise have next to none. ``e`` and ``w`` are iterated to a
    fixed point. The doubts are ``3/2 - g_a (1 + e_a) / 2``: the smaller they are, the more weight the view
    with the smallest loss takes, and with it the consensus.
    """
    v = len(C)
    if v == 1:
        return Reliability(np.zeros(1), np.ones(1), np.ones(1))
    independent = np.where(agreement.known, np.clip(1.0 - C, 0.0, None), 0.0)
    np.fill_diagonal(independent, 0.0)
    w, e, g = np.full(v, 1.0 / v), np.ones(v), np.ones(v)
    for _ in range(RELIABILITY_ROUNDS):
        e, epsilon = agreement.mean(independent * w)
        g = e**2 / (e**2 + epsilon**2)
        w = np.maximum(g, LEAST_WEIGHT) / C.sum(axis=1)
        w /= w.sum()
    return Reliability(MOST_DOUBTS - g * (1.0 + np.minimum(e, 1.0)) / 2.0, w, (C**COPY_POWER).sum(axis=1))
