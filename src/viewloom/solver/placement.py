"""Consensus memberships of new samples, at fixed centroids and weights.

New samples do not depend on each other, so each is a separate small convex problem: with
``H = (1 - rho) A + theta D`` and ``b = P^T K - rho / 2 diag(A) + theta G W``, both of one view (see
`viewloom.solver.updates.Quadratic`)::

    min over g_a, s   sum_a w_a (g_a^T H_a g_a - 2 b_a^T g_a + lam_a ||g_a - s||^2)

The optimal ``s`` is the mean of ``g_a``, weighted by ``w_a lam_a``. After substitution, samples that have
the same views share one matrix in k v unknowns; it remains to constrain the ``g_a`` to valid memberships.
Few samples are solved by an active-set method, with a few small systems of equations each. For many samples
the matrix is inverted once, and ADMM solves all of them together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import scipy.linalg

from viewloom.solver.shard import Shard, ViewBlock, ViewMessage
from viewloom.solver.updates import project_simplex

Array = np.ndarray
Project = Callable[[Array], Array]
LEAST_PULL = 1e-12  # relative to the largest: views with less do not move the consensus
TOL, MOST_ROUNDS, CHECK_EVERY = 1e-8, 3000, 5
RELAXED = 1.6  # over-relaxation, which speeds up ADMM
LEAST_CURVATURE = 1e-6  # relative to the largest
CACHED_SAMPLES = 1024
FEW_UNKNOWNS, MOST_UNKNOWNS, MOST_TURNS = 64, 1536, 20  # limits of the active-set method: of a sample, of all
EVEN = 1e-12  # curvature towards uniform memberships, to break ties; memberships below it are zero


@dataclass(frozen=True)
class Part:
    """The problem of one view; columns of samples without the view are zero."""

    H: Array  # k x k, at the largest degree
    b: Array  # k x n
    slack: Array  # (n,), difference of theta D between the largest degree and that of the sample
    lam: float
    weight: float

    @classmethod
    def of(cls, block: ViewBlock, m: ViewMessage, rho: float, n: int) -> Part:
        """Build the problem of one view of a shard of n new samples."""
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
        The new samples, with the views that at least one of them has.
    message : list of ViewMessage
        Messages of the same views.
    n : int
        Number of new samples.

    Returns
    -------
    (k, n) array
        Memberships of a sample do not depend on the other new samples, up to `TOL`.
    """
    parts = [Part.of(block, m, shard.rho, n) for block, m in zip(shard.blocks, message, strict=True)]
    G_star = np.empty((len(message[0].A), n))
    for views, samples in _alike([block.rows for block in shard.blocks], n):
        G_star[:, samples] = _placed([parts[a] for a in views], samples, shard.project)
    return G_star


def _alike(rows: list[Array | slice], n: int) -> Iterator[tuple[Array, Array]]:
    """Patterns of views, and the samples with each pattern, in chunks that fit the processor's cache."""
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
    joint = Joint.of(parts)
    b = np.stack([parts[a].b[:, samples] for a in joint.counted], axis=1)
    slack = np.stack([parts[a].slack[samples] for a in joint.counted])
    return joint.consensus(b, slack, project)


@dataclass(frozen=True)
class Joint:
    """What samples with the same views share: the matrix of their problem, and the weights of the views."""

    counted: list[int]  # positions of the views that move the consensus
    weights: Array
    pull: Array  # weights of the views in the consensus, which sum to one
    Q: Array  # k v x k v
    sizes: Array  # k v: scale of the curvature of each view
    sums: Array  # v x k v: adds up the memberships of each view

    @classmethod
    def of(cls, parts: Sequence[Part]) -> Joint:
        """The problem of the views of some samples."""
        lam, weights = (np.array([getattr(part, name) for part in parts]) for name in ("lam", "weight"))
        if not (weights * lam).any():  # no view has weight: use the unweighted mean of the views
            weights = 1.0 / np.maximum(lam, LEAST_PULL)
            lam = np.maximum(lam, LEAST_PULL)
        counted = np.flatnonzero(weights * lam > LEAST_PULL * (weights * lam).max()).tolist()
        weights, lam = weights[counted], lam[counted]
        weights = weights / (weights @ lam)
        Q = _curvature([parts[a].H for a in counted], weights, weights * lam)
        k, v = len(parts[0].H), len(counted)
        sizes = np.diagonal(Q).reshape(k, v).mean(axis=0)
        sizes = np.tile(np.where(sizes > 0.0, sizes, 1.0), k)
        return cls(counted, weights, weights * lam, Q, sizes, np.tile(np.eye(v), k))

    def consensus(self, b: Array, slack: Array, project: Project) -> Array:
        """Consensus memberships (k x n) for ``b`` (k x v x n) and slack (v x n) of the counted views."""
        b, slack = self.weights[:, None] * b, self.weights[:, None] * slack
        return np.tensordot(self.pull, _minimised(self, b, slack, project), axes=(0, 1))


def _curvature(H: list[Array], weights: Array, pull: Array) -> Array:
    """The matrix of the problem (k v x k v) after substituting the consensus; `pull` sums to one."""
    k, v = len(H[0]), len(H)
    Q = np.einsum("ij,ab->iajb", np.eye(k), np.diag(pull) - np.outer(pull, pull))
    for a in range(v):
        Q[:, a, :, a] += weights[a] * H[a]
    return Q.reshape(k * v, k * v)


def _minimised(joint: Joint, b: Array, slack: Array, project: Project) -> Array:
    """Memberships (k x v x n) that minimise ``g^T Q g - 2 b^T g - sum(slack g^2)``."""
    (k, v, n), Q, sizes = b.shape, joint.Q, joint.sizes
    b, slack = b.reshape(k * v, n), np.tile(slack, (k, 1))
    sums = joint.sums if project is project_simplex else joint.sums[:0]
    few = k * v <= FEW_UNKNOWNS and n * k * v <= MOST_UNKNOWNS
    G = _solved(Q, b, slack, sizes, sums) if few else None
    if G is None:
        G = _alternated(Q, b, slack, sizes, lambda x: project(x.reshape(k, v * n)).reshape(k * v, n))
    return G.reshape(k, v, n)


def _solved(Q: Array, b: Array, slack: Array, sizes: Array, E: Array) -> Array | None:
    """Minimise by a primal-dual active-set method, with ``E g = 1``; None if it does not converge.

    Unknowns that become negative are fixed at zero, and zeros with a negative gradient are released, until
    there are neither. If the minimum is not unique, the most uniform solution is returned.
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
        optimal = np.where(free[:, :m], g[:, :m, 0], slope) >= -EVEN  # False for NaN
        if optimal.all():
            return _tidy(g[:, :m, 0].T, E)
        free[:, :m] ^= ~optimal
    return None


def _tidy(g: Array, E: Array) -> Array:
    """Remove rounding errors from zeros and sums, so that ties between clusters are exact."""
    g = np.where(g > EVEN, g, 0.0)
    return g / (E.T @ (E @ g)) if len(E) else g


def _alternated(Q: Array, b: Array, slack: Array, sizes: Array, project: Project) -> Array:
    """Minimise by ADMM; slack, if any, is taken from the previous iteration."""
    root = np.sqrt(sizes)  # gives views equal scale
    values, U = scipy.linalg.eigh(Q / np.outer(root, root))
    step = float(np.sqrt(max(values[0], LEAST_CURVATURE * values[-1]) * values[-1])) or 1.0
    inverse = (U / (values.clip(0.0) + step)) @ U.T / root[:, None]
    given, kept = inverse / root, inverse * root * step
    offset, loose = given @ b, bool(slack.any())
    x = z = project(np.zeros_like(b))  # uniform memberships
    u = np.zeros_like(b)
    for number in range(1, MOST_ROUNDS + 1):
        x = kept @ (z - u) + (given @ (b + slack * x) if loose else offset)
        ahead = RELAXED * x + (1.0 - RELAXED) * z + u
        z, before = project(ahead), z
        u = ahead - z
        if number % CHECK_EVERY == 0 and max(np.abs(z - before).max(), np.abs(z - x).max()) <= TOL:
            break
    return z
