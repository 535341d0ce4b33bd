"""Consensus memberships of new samples, at fixed centroids and weights.

New samples do not depend on each other, so each is a separate small convex problem: with
``H = (1 - rho) A + theta D`` and ``b = P^T K - rho / 2 diag(A) + theta G W``, both of one view (see
`viewloom.solver.updates.Quadratic`)::

    min over g_a, s   sum_a w_a (g_a^T H_a g_a - 2 b_a^T g_a + lam_a ||g_a - s||^2)

The optimal ``s`` is the mean of ``g_a``, weighted by ``w_a lam_a``. After substitution, samples that have
the same views share one matrix in k v unknowns; it remains to constrain the ``g_a`` to valid memberships.
An active-set method solves a few small systems of equations for each sample. Samples whose nonzero
memberships are the same have the same matrix, which is factorised once. ADMM solves the problems of many
clusters, and those of many samples of unequal degrees.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import scipy.linalg
from scipy.linalg.lapack import dgetrf, dgetrs

from viewloom.solver.shard import Shard, ViewBlock, ViewMessage
from viewloom.solver.updates import project_simplex

Array = np.ndarray
Project = Callable[[Array], Array]
LEAST_PULL = 1e-12  # relative to the largest: views with less do not move the consensus
TOL, MOST_ROUNDS, CHECK_EVERY = 1e-8, 3000, 5
RELAXED = 1.6  # over-relaxation, which speeds up ADMM
LEAST_CURVATURE = 1e-6  # relative to the largest
CACHED_SAMPLES = 1024
FEW_UNKNOWNS, MOST_TURNS = 64, 20  # limits of the active-set method
MOST_UNKNOWNS = 384  # limit for all samples together, if their degrees are unequal
MOST_FACTOR_BYTES = 2**24  # of the factorised matrices that are kept
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
    """Patterns of views, and the samples with each pattern."""
    present = np.zeros((n, len(rows)), dtype=bool)
    for a, where in enumerate(rows):
        present[where, a] = True
    patterns, which = present[:1], np.zeros(n, dtype=int)
    if not present.all():
        patterns, which = np.unique(present, axis=0, return_inverse=True)
    for number, pattern in enumerate(patterns):
        yield np.flatnonzero(pattern), np.flatnonzero(which.ravel() == number)


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
    _active: dict[int, ActiveSets] = field(default_factory=dict)

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

    def active_sets(self, n_sums: int) -> ActiveSets:
        """The active-set method with the first sums of memberships fixed at one: all, or none."""
        if n_sums not in self._active:
            self._active[n_sums] = ActiveSets(self.Q, self.sizes, self.sums[:n_sums])
        return self._active[n_sums]

    def consensus(self, b: Array, slack: Array | None, project: Project) -> Array:
        """Consensus memberships (k x n) for ``b`` (k x v x n) and slack (v x n) of the counted views."""
        slack = None if slack is None or not slack.any() else self.weights[:, None] * slack
        return np.asarray(self.pull @ _minimised(self, self.weights[:, None] * b, slack, project))


def _curvature(H: list[Array], weights: Array, pull: Array) -> Array:
    """The matrix of the problem (k v x k v) after substituting the consensus; `pull` sums to one."""
    k, v = len(H[0]), len(H)
    Q = np.einsum("ij,ab->iajb", np.eye(k), np.diag(pull) - np.outer(pull, pull))
    for a in range(v):
        Q[:, a, :, a] += weights[a] * H[a]
    return Q.reshape(k * v, k * v)


def _minimised(joint: Joint, b: Array, slack: Array | None, project: Project) -> Array:
    """Memberships (k x v x n) that minimise ``g^T Q g - 2 b^T g - sum(slack g^2)``."""
    k, v, n = b.shape
    b, slack = b.reshape(k * v, n), None if slack is None else np.tile(slack, (k, 1))
    G, left = _by_active_sets(joint, b, slack, joint.sums if project is project_simplex else joint.sums[:0])
    for start in range(0, len(left), CACHED_SAMPLES):
        some = left[start : start + CACHED_SAMPLES]
        loose = None if slack is None else slack[:, some]
        G[:, some] = _alternated(joint.Q, b[:, some], loose, joint.sizes, k, project)
    return G.reshape(k, v, n)


def _by_active_sets(joint: Joint, b: Array, slack: Array | None, E: Array) -> tuple[Array, Array]:
    """Memberships (k v x n) with ``E g = 1``, and the samples that are left to ADMM."""
    m, n = b.shape
    if m <= FEW_UNKNOWNS and slack is None:
        return joint.active_sets(len(E)).minimised(b)
    if m > FEW_UNKNOWNS or slack is None or m * n > MOST_UNKNOWNS:
        return np.empty_like(b), np.arange(n)
    own = [ActiveSets(joint.Q - np.diag(loose), joint.sizes, E) for loose in slack.T]
    found = [sets.minimised(b[:, [i]]) for i, sets in enumerate(own)]
    return np.hstack([G for G, _ in found]), np.flatnonzero([len(left) for _, left in found])


class ActiveSets:
    """A primal-dual active-set method for many samples with the same matrix, and ``E g = 1``.

    Unknowns that become negative are fixed at zero, and zeros with a negative gradient are released, until
    there are neither. If the minimum is not unique, the most uniform solution is returned. Matrices of the
    sets that occur are factorised once and kept.
    """

    def __init__(self, Q: Array, sizes: Array, E: Array) -> None:
        (m, c), even = (len(Q), len(E)), EVEN * sizes
        self.E, self.sizes, self.m = E, sizes[:, None], m
        self.K = np.zeros((m + c, m + c))
        self.K[:m, :m] = Q + np.diag(even)
        self.K[:m, m:], self.K[m:, :m] = -E.T, E
        self._gradient = self.K[:m]
        self._even = (even * c / m)[:, None]
        self._most = max(MOST_FACTOR_BYTES // self.K.nbytes, 1)
        self._factors: dict[bytes, tuple[Array, Array] | None] = {}

    def minimised(self, b: Array) -> tuple[Array, Array]:
        """Solutions (m x n), and the positions of the samples for which the method does not converge."""
        (m, n), left = b.shape, np.arange(b.shape[1])
        right = np.ones((len(self.K), n))
        np.add(b, self._even, out=right[:m])
        free, G = np.ones((m, n), dtype=bool), np.zeros((m, n))
        for _ in range(MOST_TURNS):
            g = self._solutions(free, right)
            slope = (self._gradient @ g - right[:m]) / self.sizes
            optimal = np.where(free, g[:m], slope) >= -EVEN  # False for NaN
            if optimal.all():
                G[:, left] = _tidy(g[:m], self.E)
                return G, left[:0]
            if len(left) > 1 and (done := optimal.all(axis=0)).any():
                G[:, left[done]] = _tidy(g[:m, done], self.E)
                left, right, free, optimal = left[~done], right[:, ~done], free[:, ~done], optimal[:, ~done]
            free = free == optimal
        return G, left

    def _solutions(self, free: Array, right: Array) -> Array:
        """Solutions of the linear systems with all but the free unknowns zero; NaN if there is none."""
        given = right.copy()
        given[: self.m] *= free
        if right.shape[1] == 1:
            return self._solution(free, given)
        found = np.empty_like(right)
        for samples in _same_columns(free):
            found[:, samples] = self._solution(free[:, samples[:1]], given[:, samples])
        return found

    def _solution(self, free: Array, right: Array) -> Array:
        """The same for samples with the same free unknowns."""
        factors = self._factorised(free[:, 0])
        return np.asarray(np.full_like(right, np.nan) if factors is None else dgetrs(*factors, right)[0])

    def _factorised(self, free: Array) -> tuple[Array, Array] | None:
        """LU factors with the rows of fixed unknowns replaced by those of the identity; None if singular."""
        key, kept = free.tobytes(), self._factors  # another thread may replace it
        if key not in kept:
            if len(kept) >= self._most:
                kept = self._factors = {}
            rows, K = np.flatnonzero(~free), self.K.copy()
            K[rows] = 0.0
            K[rows, rows] = 1.0
            lu, pivots, singular = dgetrf(K)
            kept[key] = None if singular else (lu, pivots)
        return kept[key]


def _same_columns(marks: Array) -> list[Array]:
    """Positions of equal columns of a boolean matrix with at most 64 rows."""
    bits = np.zeros((marks.shape[1], 8), dtype=np.uint8)
    packed = np.packbits(marks, axis=0).T
    bits[:, : packed.shape[1]] = packed
    codes = bits.view(np.uint64).ravel()
    order = np.argsort(codes, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(codes[order])) + 1)


def _tidy(g: Array, E: Array) -> Array:
    """Remove rounding errors from zeros and sums, so that ties between clusters are exact."""
    g = np.where(g > EVEN, g, 0.0)
    return g / (E.T @ (E @ g)) if len(E) else g


def _alternated(Q: Array, b: Array, slack: Array | None, sizes: Array, k: int, project: Project) -> Array:
    """Minimise by ADMM; slack, if any, is taken from the previous iteration."""

    def valid(x: Array) -> Array:
        return project(x.reshape(k, -1)).reshape(x.shape)

    root = np.sqrt(sizes)  # gives views equal scale
    values, U = scipy.linalg.eigh(Q / np.outer(root, root))
    step = float(np.sqrt(max(values[0], LEAST_CURVATURE * values[-1]) * values[-1])) or 1.0
    inverse = (U / (values.clip(0.0) + step)) @ U.T / root[:, None]
    given, kept = inverse / root, inverse * root * step
    offset = given @ b
    x = z = valid(np.zeros_like(b))  # uniform memberships
    u = np.zeros_like(b)
    for number in range(1, MOST_ROUNDS + 1):
        x = kept @ (z - u) + (offset if slack is None else given @ (b + slack * x))
        ahead = RELAXED * x + (1.0 - RELAXED) * z + u
        z, before = valid(ahead), z
        u = ahead - z
        if number % CHECK_EVERY == 0 and max(np.abs(z - before).max(), np.abs(z - x).max()) <= TOL:
            break
    return z
