"""Where new samples belong, at centroids and weights that stay as they are.

Nothing ties new samples to each other, so each is a small convex problem of its own: with
``H = (1 - rho) A + theta D`` and ``b = P^T K - rho / 2 diag(A) + theta G W``, both of one view (see
`viewloom.solver.updates.Quadratic`)::

    min over g_a, s   sum_a w_a (g_a^T H_a g_a - 2 b_a^T g_a + lam_a ||g_a - s||^2)

The best ``s`` is the mean of ``g_a``, weighted by the pulls ``w_a lam_a``. With that put in, samples that
have the same views share one matrix in k v unknowns, which is inverted once. What remains is to keep the
``g_a`` where memberships may be: ADMM takes turns between the two for all samples at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import scipy.linalg

from viewloom.solver.shard import Shard, ViewBlock, ViewMessage

Array = np.ndarray
Project = Callable[[Array], Array]
LEAST_PULL = 1e-12  # of the strongest: views with less do not move the consensus
TOL, MOST_ROUNDS, CHECK_EVERY = 1e-8, 3000, 5
RELAXED = 1.6  # steps a little too long get there sooner
LEAST_CURVATURE = 1e-6  # of the largest
CACHED_SAMPLES = 1024


@dataclass(frozen=True)
class Part:
    """What one view asks of its samples; columns of those who lack it are zero."""

    H: Array  # k x k, at the largest degree
    b: Array  # k x n
    slack: Array  # (n,), by how much theta D is less for a sample
    lam: float
    weight: float

    @classmethod
    def of(cls, block: ViewBlock, m: ViewMessage, rho: float, n: int) -> Part:
        """The view of a shard of n new samples."""
        k = len(m.A)
        H, b, slack = (1.0 - rho) * m.A, np.zeros((k, n)), np.zeros(n)
        b[:, block.rows] = block.kernel.lift(m.C) - rho / 2.0 * np.diagonal(m.A)[:, None]
        if block.laplacian is not None and m.neighbours is not None:
            b[:, block.rows] += m.theta * block.laplacian.adjacency.lift(m.neighbours)
            degree = block.laplacian.degree
            H = H + m.theta * float(degree.max(initial=0.0)) * np.eye(k)
            slack[block.rows] = m.theta * (degree.max(initial=0.0) - degree)
        return cls(H, b, slack, m.lam, m.weight)


def consensus_of(shard: Shard, message: list[ViewMessage], n: int) -> Array:
    """Consensus memberships (k x n) of the n new samples of a shard.

    Parameters
    ----------
    shard : Shard
        Of the views that any of them has.
    message : list of ViewMessage
        Of the same views.
    n : int

    Returns
    -------
    (k, n) array
        Those of a sample do not depend on which others are placed with it, up to `TOL`.
    """
    parts = [Part.of(block, m, shard.rho, n) for block, m in zip(shard.blocks, message, strict=True)]
    G_star = np.empty((len(message[0].A), n))
    for views, samples in _alike([block.rows for block in shard.blocks], n):
        G_star[:, samples] = _placed([parts[a] for a in views], samples, shard.project)
    return G_star


def _alike(rows: list[Array | slice], n: int) -> Iterator[tuple[Array, Array]]:
    """Sets of views, and samples that have just these, as many at a time as the processor's cache holds."""
    present = np.zeros((n, len(rows)), dtype=bool)
    for a, where in enumerate(rows):
        present[where, a] = True
    patterns, which = np.unique(present, axis=0, return_inverse=True)
    for number, pattern in enumerate(patterns):
        samples = np.flatnonzero(which.ravel() == number)
        for start in range(0, len(samples), CACHED_SAMPLES):
            yield np.flatnonzero(pattern), samples[start : start + CACHED_SAMPLES]


def _placed(parts: list[Part], samples: Array, project: Project) -> Array:
    """Consensus memberships of samples that have the same views."""
    lam, weights = (np.array([getattr(part, name) for part in parts]) for name in ("lam", "weight"))
    if not (weights * lam).any():  # nobody pulls: the plain mean of the views
        weights = 1.0 / np.maximum(lam, LEAST_PULL)
        lam = np.maximum(lam, LEAST_PULL)
    heard = weights * lam > LEAST_PULL * (weights * lam).max()
    parts, weights, lam = [p for p, h in zip(parts, heard, strict=True) if h], weights[heard], lam[heard]
    weights = weights / (weights @ lam)
    b = np.stack([w * p.b[:, samples] for p, w in zip(parts, weights, strict=True)], axis=1)
    slack = np.stack([w * p.slack[samples] for p, w in zip(parts, weights, strict=True)])
    Q = _curvature([part.H for part in parts], weights, weights * lam)
    return np.tensordot(weights * lam, _minimised(Q, b, slack, project), axes=(0, 1))


def _curvature(H: list[Array], weights: Array, pull: Array) -> Array:
    """The matrix of the problem (k x v x k x v) once the consensus is put in; pulls sum to one."""
    k, v = len(H[0]), len(H)
    Q = np.einsum("ij,ab->iajb", np.eye(k), np.diag(pull) - np.outer(pull, pull))
    for a in range(v):
        Q[:, a, :, a] += weights[a] * H[a]
    return Q


def _minimised(Q: Array, b: Array, slack: Array, project: Project) -> Array:
    """Memberships (k x v x n) that minimise ``g^T Q g - 2 b^T g - sum(slack g^2)``, by ADMM.

    Slack, where there is any, is made up for from one round to the next.
    """
    k, v, n = b.shape
    sizes = np.einsum("iaia->a", Q) / k
    root = np.tile(np.sqrt(np.where(sizes > 0.0, sizes, 1.0)), k)  # views count alike
    values, U = scipy.linalg.eigh(Q.reshape(k * v, k * v) / np.outer(root, root))
    step = float(np.sqrt(max(values[0], LEAST_CURVATURE * values[-1]) * values[-1])) or 1.0
    inverse = (U / (values.clip(0.0) + step)) @ U.T / root[:, None]
    b, slack, given, kept = b.reshape(k * v, n), np.tile(slack, (k, 1)), inverse / root, inverse * root * step
    offset, loose = given @ b, bool(slack.any())
    x = z = np.full((k * v, n), 1.0 / k)
    u = np.zeros((k * v, n))
    for number in range(1, MOST_ROUNDS + 1):
        x = kept @ (z - u) + (given @ (b + slack * x) if loose else offset)
        ahead = RELAXED * x + (1.0 - RELAXED) * z + u
        z, before = project(ahead.reshape(k, v * n)).reshape(k * v, n), z
        u = ahead - z
        if number % CHECK_EVERY == 0 and max(np.abs(z - before).max(), np.abs(z - x).max()) <= TOL:
            break
    return z.reshape(k, v, n)
