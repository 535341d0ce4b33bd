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
GATE = 3.0  # standard deviations under chance at which a view has half of the full weight
STEEPNESS = 4  # power of the gate: twice the bound counts nearly in full
LEAST_AGREEMENT = 0.01  # the same bound for many samples, where any agreement is significant
COPY_POWER = 32  # of the similarity of two views: views that differ visibly are no copies
LEAST_WEIGHT = 1e-4  # of a view relative to the full weight: its edges keep lone samples connected


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

    def without(self, directions: Array) -> Array:
        """The features without what orthonormal directions explain."""
        return np.asarray(self.Y - directions @ (directions.T @ self.Y))

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
        """Mean agreement of each view with others by the weights ``A``, and its deviation under chance.

        A view that can be compared with no other one agrees completely.
        """
        support = A.sum(axis=1)
        A = A / np.maximum(support, 1e-12)[:, None]
        e = np.where(support > 1e-6, (self.E * A).sum(axis=1), 1.0)
        return e, (self.null * A).sum(axis=1)

    @staticmethod
    def gate(e: Array, null: Array) -> Array:
        """Gate at chance for agreements and their standard deviations under chance: 0 is noise, 1 is full."""
        epsilon = np.maximum(GATE * null, LEAST_AGREEMENT)
        return np.asarray(e**STEEPNESS / (e**STEEPNESS + epsilon**STEEPNESS))


def overlap(graphs: list[Any], rows: list[Array]) -> Array:
    """Cosine similarity between the graphs of views: 1 for copies, which are no independent evidence."""
    n = 1 + max(int(where.max()) for where in rows)
    graphs = [spread(S, where, where, (n, n)) for S, where in zip(graphs, rows, strict=True)]
    norms = [np.sqrt(float(S.multiply(S).sum())) for S in graphs]
    C = np.eye(len(graphs))
    for a, b in combinations(range(len(graphs)), 2):
        C[a, b] = C[b, a] = float(graphs[a].multiply(graphs[b]).sum()) / (norms[a] * norms[b])
    return C


def copies(similarity: Array) -> Array:
    """Number of copies of each view, itself included, from similarities of views (v x v; 1 for copies).

    >>> copies(np.array([[1.0, 1.0, 0.5], [1.0, 1.0, 0.5], [0.5, 0.5, 1.0]])).round(6).tolist()
    [2.0, 2.0, 1.0]
    """
    return np.asarray((similarity**COPY_POWER).sum(axis=1))


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
class Reliability(Stored, tag="reliability", version=2, fields=("weights", "votes")):
    """Reliability of each view, judged by its agreement with the other views."""

    weights: Array  # weight of its edges in the shared graph
    votes: Array  # in the objective (see `viewloom.kernels.votes.shared_votes`)

    @classmethod
    def upgraded(cls, state: dict[str, Any], version: Any) -> dict[str, Any]:
        """Version 1 had numbers of copies; votes are only used to fit again."""
        if version != 1:
            return super().upgraded(state, version)
        return {"weights": state["weights"], "votes": 1.0 / np.asarray(state["copies"])}


def reliability_of(
    Z: list[Array], graphs: list[Any], rows: list[Array], n_clusters: int
) -> tuple[Array, Array]:
    """Weight and gate of each view from diffusion features and neighbour graphs of its samples."""
    return view_reliability(Agreement.of(Z, rows, n_clusters), overlap(graphs, rows))


def dependence(
    Z: list[Array], rows: list[Array], n_clusters: int, weights: Array, agreement: Agreement
) -> Array:
    """Share of the agreement of two views that no other reliable view confirms (v x v, ones on the diagonal).

    Two readings of one organ agree in more than the clusters. With the k - 1 directions that the other views
    have in common taken out of both, two views that share the clusters only no longer agree, such readings
    do: the share is the agreement that is left, divided by all agreement. It counts as far as the agreement
    is above chance and as other views are reliable; with two views nobody else could confirm, and it is 0.

    Two precise views beside a noisy one look the same as two readings of one organ beside an independent
    view. The share is therefore used to report agreement, and not to weight views.
    """
    v, n = len(Z), 1 + max(int(where.max()) for where in rows)
    D = np.eye(v)
    if v == 2:
        return D
    every = [_spread_leading(Z[c], rows[c], n, n_clusters) * np.sqrt(weights[c]) for c in range(v)]
    for a, b in combinations(range(v), 2):
        others = [c for c in range(v) if c not in (a, b)]
        if agreement.known[a, b] and agreement.E[a, b] > 0.0:
            credit = min(float(weights[others].max() / max(weights[a], weights[b])), 1.0)
            both, at_a, at_b = np.intersect1d(rows[a], rows[b], assume_unique=True, return_indices=True)
            confirmed = Structure.of(np.hstack([every[c][both] for c in others]), n_clusters).leading
            left = [Structure.of(Z[c][at], n_clusters).without(confirmed) for c, at in ((a, at_a), (b, at_b))]
            beyond = mutual(*(Structure.of(Y, n_clusters) for Y in left))[0]
            share = min(beyond / agreement.E[a, b], 1.0)
            D[a, b] = D[b, a] = share * credit * float(agreement.gate(agreement.E, agreement.null)[a, b])
    return D


def _spread_leading(Z: Array, rows: Array, n: int, n_clusters: int) -> Array:
    """Leading directions of a view among all samples (n x (k - 1)), zero for samples without the view."""
    leading = Structure.of(Z, n_clusters).leading
    found = np.zeros((n, leading.shape[1]))
    found[rows] = leading
    return found


def view_reliability(agreement: Agreement, C: Array) -> tuple[Array, Array]:
    """Weight of each view's edges and its gate, from the agreement and the overlap ``C`` of views.

    ``e_a = sum_b A_ab E_ab / sum_b A_ab`` with ``A_ab = (1 - C_ab) w_b`` is the mean agreement of a view with
    other reliable views, and ``g_a = e_a^4 / (e_a^4 + epsilon_a^4)`` a gate at chance: ``epsilon_a`` is three
    standard deviations of ``e_a`` under chance. The edges of a view have the weight ``w_a ~ g_a``, divided
    among near-duplicates, ``g_a / (m_a sum_b C_ab / m_b)`` with the `copies` m: copies share the weight of
    one view, and the others keep theirs. Views that agree with others clearly better than by chance have
    nearly equal weights, however much they agree, and views of noise have next to none. ``e`` and ``w`` are
    iterated to a fixed point.
    """
    v = len(C)
    w, g = np.full(v, 1.0 / v), np.ones(v)
    if v == 1:
        return w, g
    independent = np.where(agreement.known, np.clip(1.0 - C, 0.0, None), 0.0)
    np.fill_diagonal(independent, 0.0)
    m = copies(C)
    divided = m * (C / m).sum(axis=1)
    for _ in range(RELIABILITY_ROUNDS):
        g = agreement.gate(*agreement.mean(independent * w))
        w = np.maximum(g, LEAST_WEIGHT) / divided
        w /= w.sum()
    return w, g
