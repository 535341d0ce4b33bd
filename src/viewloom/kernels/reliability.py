"""Agreement between views, near-duplicate views, and the reliability of each view."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from viewloom.kernels.geometry import FEW_ROWS
from viewloom.runtime.stored import Stored

Array = np.ndarray
RELIABILITY_POWER, RELIABILITY_FLOOR, RELIABILITY_ROUNDS = 2.0, 0.01, 30

COPY_POWER = 4  # views that share half of their edges hardly count as copies


def agreement(Z: list[Array], rows: list[Array], n_clusters: int) -> Array:
    """``E[a, b]``: how well view b explains the cluster structure of view a (0 is chance, 1 is complete).

    The k - 1 leading directions of the centred features of view b represent its memberships. They
    explain a part of the variance of view a; k - 1 random directions would explain
    ``(k - 1) / (n - 1)`` of it, and the leading directions of view a explain the most. ``E[a, b]`` is
    the explained variance on the scale between these two, so ``1 - E[a, b]`` is the calibrated loss
    of view a at the (relaxed) memberships of view b.
    """
    v, r = len(Z), max(n_clusters - 1, 1)
    E = np.eye(v)
    for a in range(v):
        for b in range(v):
            _, at_a, at_b = np.intersect1d(rows[a], rows[b], assume_unique=True, return_indices=True)
            if a == b or len(at_a) <= n_clusters:
                continue
            A, B = (Y - Y.mean(axis=0) for Y in (Z[a][at_a], Z[b][at_b]))
            explained = float(((leading_directions(B, r).T @ A) ** 2).sum())
            best = float(scipy.linalg.eigvalsh(A.T @ A)[-r:].sum())
            chance = float((A * A).sum()) * r / (len(at_a) - 1)
            E[a, b] = max(explained - chance, 0.0) / max(best - chance, 1e-12)
    return E


def leading_directions(B: Array, r: int) -> Array:
    """Orthonormal basis (n x r) of the directions in which centred features vary most."""
    values, V = scipy.linalg.eigh(B.T @ B)
    keep = values[-r:] > 1e-10 * max(values[-1], 1e-300)
    return np.asarray(B @ (V[:, -r:][:, keep] / np.sqrt(values[-r:][keep])))


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

    doubts: Array  # share of its structure that other, reliable views do not support
    weights: Array  # weight of its edges in the shared graph
    copies: Array  # number of near-duplicates of the view, itself included


def view_reliability(E: Array, C: Array) -> Reliability:
    """Reliability of each view, from the agreement ``E`` and the overlap ``C`` of views.

    The reliability of a view is its mean agreement with other reliable views, ``e_a = sum_b A_ab E_ab /
    sum_b A_ab`` with ``A_ab = (1 - C_ab) w_b``. Its edges have the weight ``w_a ~ e_a^2``, divided among
    near-duplicates. Both are iterated to a fixed point.
    """
    v = len(E)
    w, e = np.full(v, 1.0 / v), np.ones(v)
    for _ in range(RELIABILITY_ROUNDS if v > 1 else 0):
        A = np.clip(1.0 - C, 0.0, None) * w
        np.fill_diagonal(A, 0.0)
        support = A.sum(axis=1)
        e = np.where(support > 1e-6, (E * A).sum(axis=1) / np.maximum(support, 1e-12), 1.0)
        w = np.maximum(e, RELIABILITY_FLOOR) ** RELIABILITY_POWER / C.sum(axis=1)
        w /= w.sum()
    return Reliability(np.clip(1.0 - e, 0.0, 1.0), w, (C**COPY_POWER).sum(axis=1))
