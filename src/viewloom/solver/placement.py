"""Where new samples belong, at centroids and weights that stay as they are.

Nothing ties new samples to each other, so each is a small convex problem of its own: with
``H = (1 - rho) A + theta D`` and ``b = P^T K - rho / 2 diag(A) + theta G W``, both of one view (see
`viewloom.solver.updates.Quadratic`)::

    min over g_a, s   sum_a w_a (g_a^T H_a g_a - 2 b_a^T g_a + lam_a ||g_a - s||^2)

The best ``s`` is the mean of ``g_a``, weighted by the pulls ``w_a lam_a``. With that put in, samples that
have the same views share one matrix in k v unknowns. What remains is to keep the ``g_a`` where memberships
may be. For few samples it is found which of them are zero, turn by turn: a handful of small equations each.
For many, the matrix is inverted once, and ADMM takes turns between the two for all samples at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import scipy.linalg

from viewloom.solver.shard import Shard, ViewBlock, ViewMessage
from viewloom.solver.updates import project_simplex

Array = np.ndarray
Project = Callable[[Array], Array]
LEAST_PULL = 1e-12  # of the strongest: views with less do not move the consensus
TOL, MOST_ROUNDS, CHECK_EVERY = 1e-8, 3000, 5
RELAXED = 1.6  # steps a little too long get there sooner
LEAST_CURVATURE = 1e-6  # of the largest
CACHED_SAMPLES = 1024
FEW_SAMPLES, FEW_UNKNOWNS, MOST_TURNS = 32, 64, 20  # for which equations are solved instead
EVEN = 1e-12  # curvature towards the middle, for ties; memberships below it are zero


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
            most = degree.max(initial=0.0)
            H = H + m.theta * most * np.eye(k)
            slack[block.rows] = m.theta * (most - degree)
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
    patterns, which = present[:1], np.zeros(n, dtype=int)
    if not present.all():
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
    counted = weights * lam > LEAST_PULL * (weights * lam).max()
    parts, weights, lam = (
        [p for p, h in zip(parts, counted, strict=True) if h],
        weights[counted],
        lam[counted],
    )
    weights = weights / (weights @ lam)
    b = np.stack([w * p.b[:, samples] for p, w in zip(parts, weights, strict=True)], axis=1)
    slack = np.stack([w * p.slack[samples] for p, w in zip(parts, weights, strict=True)])
    Q = _curvature([part.H for part in parts], weights, weights * lam)
    return np.tensordot(weights * lam, _minimised(Q, b, slack, project), axes=(0, 1))


def _curvature(H: list[Array], weights: Array, pull: Array) -> Array:
    """The matrix of the problem (k v x k v) once the consensus is put in; pulls sum to one."""
    k, v = len(H[0]), len(H)
    Q = np.einsum("ij,ab->iajb", np.eye(k), np.diag(pull) - np.outer(pull, pull))
    for a in range(v):
        Q[:, a, :, a] += weights[a] * H[a]
    return Q.reshape(k * v, k * v)


def _minimised(Q: Array, b: Array, slack: Array, project: Project) -> Array:
    """Memberships (k x v x n) that minimise ``g^T Q g - 2 b^T g - sum(slack g^2)``."""
    k, v, n = b.shape
    sizes = np.diagonal(Q).reshape(k, v).mean(axis=0)
    sizes = np.tile(np.where(sizes > 0.0, sizes, 1.0), k)  # of the curvature of each view
    b, slack = b.reshape(k * v, n), np.tile(slack, (k, 1))
    sums = np.tile(np.eye(v), k) if project is project_simplex else np.empty((0, k * v))
    few = n <= FEW_SAMPLES and k * v <= FEW_UNKNOWNS
    G = _solved(Q, b, slack, sizes, sums) if few else None
    if G is None:
        G = _alternated(Q, b, slack, sizes, lambda x: project(x.reshape(k, v * n)).reshape(k * v, n))
    return G.reshape(k, v, n)


def _solved(Q: Array, b: Array, slack: Array, sizes: Array, E: Array) -> Array | None:
    """The minimum by equations for what is not zero, with ``E g = 1``; None where none is found.

    Unknowns that come out negative are set to zero, and zeros that would rather grow are set free, until
    there are neither (primal-dual active sets). Of equally good answers the most even one is found.
    """
    (m, n), c = b.shape, len(E)
    even = EVEN * sizes
    K = np.zeros((n, m + c, m + c))
    K[:, :m, :m] = Q + np.diag(even) - slack.T[:, :, None] * np.eye(m)
    K[:, :m, m:], K[:, m:, :m] = -E.T, E
    right = np.hstack([b.T + even * c / m, np.ones((n, c))])
    free, fixed = np.ones((n, m + c), dtype=bool), np.eye(m + c)
    for _ in range(MOST_TURNS):
        try:
            g = np.linalg.solve(np.where(free[:, :, None], K, fixed), (right * free)[:, :, None])
        except np.linalg.LinAlgError:
            return None
        slope = ((K @ g)[:, :m, 0] - right[:, :m]) / sizes
        optimal = np.where(free[:, :m], g[:, :m, 0], slope) >= -EVEN  # not so where a number is not finite
        if optimal.all():
            return _tidy(g[:, :m, 0].T, E)
        free[:, :m] ^= ~optimal
    return None


def _tidy(g: Array, E: Array) -> Array:
    """What rounding left of zeros and ones, so that samples between two clusters are just between."""
    g = np.where(g > EVEN, g, 0.0)
    return g / (E.T @ (E @ g)) if len(E) else g


def _alternated(Q: Array, b: Array, slack: Array, sizes: Array, project: Project) -> Array:
    """The minimum by ADMM; slack, where there is any, is made up for from one round to the next."""
    root = np.sqrt(sizes)  # views count alike
    values, U = scipy.linalg.eigh(Q / np.outer(root, root))
    step = float(np.sqrt(max(values[0], LEAST_CURVATURE * values[-1]) * values[-1])) or 1.0
    inverse = (U / (values.clip(0.0) + step)) @ U.T / root[:, None]
    given, kept = inverse / root, inverse * root * step
    offset, loose = given @ b, bool(slack.any())
    x = z = project(np.zeros_like(b))  # all clusters alike
    u = np.zeros_like(b)
    for number in range(1, MOST_ROUNDS + 1):
        x = kept @ (z - u) + (given @ (b + slack * x) if loose else offset)
        ahead = RELAXED * x + (1.0 - RELAXED) * z + u
        z, before = project(ahead), z
        u = ahead - z
        if number % CHECK_EVERY == 0 and max(np.abs(z - before).max(), np.abs(z - x).max()) <= TOL:
            break
    return z
