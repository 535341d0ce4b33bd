"""The block updates, one pure function each. Notation: see `viewloom.solver.objective`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import scipy.linalg

from viewloom.runtime.errors import InputError

Array = np.ndarray
Rows = Any  # positions of a view's samples: an index array, or slice(None) for all
RIDGES = (1e-15, 1e-10)  # relative to the mean diagonal of S: keep an empty cluster finite
CACHED_SAMPLES = 8192  # number of samples whose memberships fit in the processor's cache
UNMOVED = 5e-7  # resolution of single precision: a sample whose first step is shorter takes no other step
SHORTEST = 1e-4  # least curvature relative to the slope: longer steps overshoot the simplex and lose digits
MOST_COMPARED = 16  # number of rows up to which a sorting network is used


def project_simplex(V: Array) -> Array:
    """Nearest point of the simplex ``{g >= 0, sum(g) = 1}``, for every column.

    With ``u`` the sorted column, the threshold is ``tau = max_r (u_1 + ... + u_r - 1) / r``; the
    projection is ``max(v - tau, 0)``.
    """
    u = falling_rows(V)
    excess = u[0] - 1.0
    tau, share = excess.copy(), np.empty_like(excess)
    for r, row in enumerate(u[1:], 2):
        excess += row
        np.multiply(excess, 1.0 / r, out=share)
        np.maximum(tau, share, out=tau)
    G = V - tau
    return np.asarray(np.maximum(G, 0.0, out=G))


def falling_rows(V: Array) -> list[Array]:
    """The rows of V with every column sorted in decreasing order.

    Few rows are sorted by a sorting network over entire rows, which is faster than column by column.
    """
    if len(V) > MOST_COMPARED:
        return list(np.sort(V, axis=0)[::-1])
    u, spare = list(V.copy()), np.empty_like(V[0])
    for i, j in sorting_network(len(V)):
        np.minimum(u[i], u[j], out=spare)
        np.maximum(u[i], u[j], out=u[i])
        u[j], spare = spare, u[j]
    return u


@cache
def sorting_network(k: int) -> list[tuple[int, int]]:
    """Pairs to compare and exchange to sort k numbers (Batcher's odd-even merge sort)."""
    powers = [1 << b for b in range((k - 1).bit_length())]
    return [
        (i, i + d)
        for b, p in enumerate(powers)
        for d in reversed(powers[: b + 1])
        for i in range(d % p, k - d)
        if (i - d % p) // d % 2 == 0 and i // (2 * p) == (i + d) // (2 * p)
    ]


def project_nonnegative(V: Array) -> Array:
    """Nearest non-negative point."""
    return np.maximum(V, 0.0)


PROJECTIONS: dict[str, Callable[[Array], Array]] = {
    "simplex": project_simplex,
    "nonnegative": project_nonnegative,
}


def membership_gram(G: Array, rho: float) -> Array:
    """``S = (1 - rho) G G^T + rho diag(G 1)``; for hard memberships it equals ``G G^T`` for every ``rho``."""
    S = np.asarray(G @ G.T, dtype=np.float64)
    return (1.0 - rho) * S + rho * np.diag(G.sum(axis=1, dtype=np.float64)) if rho else S


def update_P(S: Array, M: Array, quad: Array) -> tuple[Array, Array]:
    """``P = G^T S^-1`` (Eq. 5), the minimiser of the reconstruction error at fixed ``G``.

    Returned in the form that the other blocks use: ``C = S^-1 M`` (with ``P^T K = lift(C)``) and
    ``A = P^T K P = S^-1 (G K G^T) S^-1``.
    """
    R = _inverse_root(S)
    A = R.T @ (R @ quad @ R.T) @ R
    return R.T @ (R @ M), (A + A.T) / 2


def combinations(G: Array, rho: float) -> Array:
    """``P^T = S^-1 G`` (k x n), computed explicitly to place new samples (Eq. 5)."""
    R = _inverse_root(membership_gram(G, rho))
    return np.asarray(R.T @ (R @ G))


def _inverse_root(S: Array) -> Array:
    """``R`` with ``R^T R = S^-1``: the inverse of the Cholesky factor."""
    size, identity = max(float(np.trace(S)) / len(S), 1e-300), np.eye(len(S))
    for ridge in RIDGES:
        try:
            lower = scipy.linalg.cholesky(S + ridge * size * identity, lower=True)
            return np.asarray(scipy.linalg.solve_triangular(lower, identity, lower=True))
        except scipy.linalg.LinAlgError:
            continue  # two clusters with equal memberships: S is singular up to round-off
    raise InputError("Memberships contain values that are not finite.")


@dataclass(frozen=True)
class Quadratic:
    """The part of ``q`` of one view that depends on ``G``, at fixed ``P``, up to a constant::

        tr(A G G^T) - 2 tr(B^T G) + shift ||G||^2 + lam ||G - G_star||^2

    where ``A`` and ``B`` are ``P^T K P`` and ``P^T K`` for ``rho = 0``. The smoothness term is replaced
    by a majoriser that reads the graph once per iteration: with ``sigma >= sigma_max(L)`` and the
    memberships ``G_t`` of the previous iteration::

        tr(G L G^T) <= sigma ||G||^2 - 2 tr(G_t (sigma I - L) G^T) + const

    so that ``shift = theta sigma`` and ``B = P^T K + theta G_t (sigma I - L)``. The problem then
    separates into one problem in k unknowns per sample.
    """

    A: Array  # k x k
    B: Array  # k x n_a
    shift: float
    lam: float
    weight: float  # of this view in the objective
    rows: Rows  # which samples of the shard have this view

    @property
    def lipschitz(self) -> float:
        """Half the Lipschitz constant: ``sigma_max(A) + lam + theta sigma_max(L)`` (Eq. 6).

        Larger if the curvature is negligible relative to the slope.
        """
        curvature = float(scipy.linalg.eigvalsh(self.A)[-1]) + self.lam + self.shift
        steepest = float(np.abs(self.B).max(initial=0.0))
        return max(curvature, SHORTEST * steepest) or 1.0

    def half_gradient(self, G: Array, G_star: Array) -> Array:
        """``P^T K P G - P^T K + lam (G - G_star) + theta G L`` at ``G = G_t`` (Eq. 6)."""
        H = self.A + (self.shift + self.lam) * np.eye(len(self.A))
        return H.astype(G.dtype) @ G - self.B - self.lam * G_star[:, self.rows]

    def taken(self, part: tuple[Array, Rows]) -> Quadratic:
        """The same for some samples: their columns of ``B``, and their positions among the chosen."""
        columns, rows = part
        return replace(self, B=self.B.take(columns, axis=1), rows=rows)

    def values(self, G: Array, G_star: Array) -> Array:
        """Value of the problem of every sample (n_a)."""
        own = (self.A + self.shift * np.eye(len(self.A))).astype(G.dtype) @ G
        own -= self.B
        own -= self.B
        gap = G - G_star[:, self.rows]
        return column_dots(G, own) + self.lam * column_dots(gap, gap)


@dataclass(frozen=True)
class Memberships:
    """``G`` of every view and ``G_star``, for the same samples."""

    G: list[Array]
    G_star: Array

    @property
    def n(self) -> int:
        """Number of samples."""
        return int(self.G_star.shape[1])


def update_G(
    start: Memberships, quadratics: list[Quadratic], project: Callable[[Array], Array], n_steps: int
) -> Memberships:
    """Projected gradient on the memberships of all views at fixed ``P`` (Eq. 6), then the consensus (Eq. 7).

    ``n_steps = 1`` is the step of the paper. More steps are accelerated: every sample has its own
    momentum, which is reset when it overshoots, and keeps its first, plain step if the other steps do
    not improve on it. So the objective of no sample increases, and the result does not depend on how
    samples are split into shards. A sample that hardly moves in its first step takes no further steps.
    """
    step = _Step(quadratics, project)
    first = step(start)
    if n_steps == 1:
        return first
    moved = _moved(start, first, quadratics)
    if moved.all() and start.n <= CACHED_SAMPLES:
        return _accelerated(start, first, step, n_steps)
    moving = np.flatnonzero(moved)
    for begin in range(0, len(moving), CACHED_SAMPLES):
        chosen = moving[begin : begin + CACHED_SAMPLES]
        part = [_columns(q.rows, chosen, start.n) for q in quadratics]
        few = _Step([q.taken(p) for q, p in zip(quadratics, part, strict=True)], project, step.lipschitz)
        last = _accelerated(_taken(start, chosen, part), _taken(first, chosen, part), few, n_steps)
        _put(first, last, chosen, part)
    return first


class _Step:
    """One projected gradient step on all samples: ``project((I - H / L) G + (B + lam G_star) / L)``."""

    def __init__(
        self,
        quadratics: list[Quadratic],
        project: Callable[[Array], Array],
        lipschitz: list[float] | None = None,
    ) -> None:
        self.quadratics, self.project = quadratics, project
        self.lipschitz = lipschitz or [q.lipschitz for q in quadratics]
        self.weights = [q.weight * L for q, L in zip(quadratics, self.lipschitz, strict=True)]
        self.pull = np.array([q.weight * q.lam for q in quadratics])
        self.steps = [_plain_step(q, L) for q, L in zip(quadratics, self.lipschitz, strict=True)]

    def __call__(self, at: Memberships) -> Memberships:
        G = self.moved(at.G, at.G_star)
        return Memberships(G, self.consensus(G, at.n))

    def moved(self, G: list[Array], G_star: Array) -> list[Array]:
        """``G`` of every view after the step."""
        return [self.project(step(g, G_star)) for g, step in zip(G, self.steps, strict=True)]

    def consensus(self, G: list[Array], n: int) -> Array:
        """``G_star`` for given ``G``; a single complete view is the consensus itself."""
        rows = [q.rows for q in self.quadratics]
        return G[0] if len(G) == 1 and isinstance(rows[0], slice) else update_G_star(G, self.pull, rows, n)


def _plain_step(q: Quadratic, L: float) -> Callable[[Array, Array], Array]:
    """``G - half_gradient / L``, with the parts that do not depend on ``G`` computed once."""
    identity, dtype = np.eye(len(q.A)), q.B.dtype.type
    free = (1.0 - q.shift / L) * identity - q.A / L  # without the pull of the consensus
    pulled = (free - q.lam / L * identity).astype(dtype)
    free, offset, pull = free.astype(dtype), q.B * dtype(1.0 / L), dtype(q.lam / L)

    def step(G: Array, G_star: Array) -> Array:
        if G_star is G:
            V = free @ G
        else:
            V = pulled @ G
            V += pull * G_star[:, q.rows]
        V += offset
        return V

    return step


def _accelerated(start: Memberships, first: Memberships, step: _Step, n_steps: int) -> Memberships:
    """FISTA with restarts after the first step; returns the better of first and last for every sample.

    ``G_star`` is linear in ``G``, so that of an extrapolated ``G`` is extrapolated too.
    """
    G, change = first.G, [g - h for g, h in zip(first.G, start.G, strict=True)]
    time = np.ones(start.n, dtype=start.G_star.dtype)
    for _ in range(n_steps - 1):
        later = (1.0 + np.sqrt(1.0 + 4.0 * time**2)) / 2.0
        ahead = _extrapolated(G, change, step.quadratics, (time - 1.0) / later)
        new = step.moved(ahead, step.consensus(ahead, start.n))
        change = [g - h for g, h in zip(new, G, strict=True)]
        over = _overshoot(ahead, new, change, step, start.n)
        G, time = new, np.where(over, time.dtype.type(1.0), later)
    return _better(first, Memberships(G, step.consensus(G, start.n)), step.quadratics)


def _moved(start: Memberships, first: Memberships, quadratics: list[Quadratic]) -> Array:
    """Samples that the first step moved noticeably, in any view or in the consensus."""
    moved = (np.abs(start.G_star - first.G_star) > UNMOVED).any(axis=0)
    for g, h, q in zip(start.G, first.G, quadratics, strict=True):
        moved[q.rows] |= (np.abs(g - h) > UNMOVED).any(axis=0)
    return moved


def _columns(rows: Rows, chosen: Array, n: int) -> tuple[Array, Rows]:
    """Chosen samples that have a view: their positions among the samples of the view and among the chosen."""
    if isinstance(rows, slice):
        return chosen, rows  # all samples have the view
    place = np.full(n, -1)
    place[rows] = np.arange(len(rows))
    found = place[chosen]
    return found[found >= 0], np.flatnonzero(found >= 0)


def _taken(at: Memberships, chosen: Array, part: list[tuple[Array, Rows]]) -> Memberships:
    G = [g.take(columns, axis=1) for g, (columns, _) in zip(at.G, part, strict=True)]
    return Memberships(G, at.G_star.take(chosen, axis=1))


def _put(at: Memberships, some: Memberships, chosen: Array, part: list[tuple[Array, Rows]]) -> None:
    for g, h, (columns, _) in zip(at.G, some.G, part, strict=True):
        g[:, columns] = h
    at.G_star[:, chosen] = some.G_star


def _extrapolated(
    G: list[Array], change: list[Array], quadratics: list[Quadratic], momentum: Array
) -> list[Array]:
    ahead = [momentum[q.rows] * d for d, q in zip(change, quadratics, strict=True)]
    for y, g in zip(ahead, G, strict=True):
        y += g
    return ahead


def _overshoot(ahead: list[Array], new: list[Array], change: list[Array], step: _Step, n: int) -> Array:
    """Samples whose step points against their momentum: ``<Y - G_new, G_new - G_old> > 0``."""
    alignment = np.zeros(n)
    for y, g, d, q, w in zip(ahead, new, change, step.quadratics, step.weights, strict=True):
        y -= g  # in place: y is not used again
        alignment[q.rows] += w * column_dots(y, d)
    return alignment > 0.0


def column_dots(G: Array, H: Array) -> Array:
    """Inner products of the columns."""
    return np.asarray(np.einsum("ij,ij->j", G, H))


def _better(first: Memberships, last: Memberships, quadratics: list[Quadratic]) -> Memberships:
    """For every sample the lower of two candidates."""
    change = np.zeros(first.n)
    for g, h, q in zip(first.G, last.G, quadratics, strict=True):
        change[q.rows] += q.weight * (q.values(h, last.G_star) - q.values(g, first.G_star))
    worse = change > 0.0
    if not worse.any():
        return last
    G = [np.where(worse[q.rows], g, h) for g, h, q in zip(first.G, last.G, quadratics, strict=True)]
    return Memberships(G, np.where(worse, first.G_star, last.G_star))


def update_G_star(G: list[Array], pull: Array, rows: list[Rows], n: int) -> Array:
    """``G_star = sum beta^gamma lam G / sum beta^gamma lam`` over the views that a sample has (Eq. 7).

    `pull` are the weights ``beta^gamma lam``. If all weights of a sample are zero, every ``G_star`` is a
    minimiser, and the unweighted mean of its views is used.
    """
    dtype = G[0].dtype.type
    none = float(np.sqrt(np.finfo(dtype).tiny))  # replaces zero, so that views without weight have a mean
    weights = np.maximum(pull / (pull.max() or 1.0), none)
    if all(isinstance(where, slice) for where in rows):
        return _weighted_sum(G, weights / weights.sum())
    total, norm = np.zeros((G[0].shape[0], n), dtype), np.zeros(n, dtype)
    for g, weight, where in zip(G, weights, rows, strict=True):
        total[:, where] += dtype(weight) * g
        norm[where] += dtype(weight)
    return total / norm


def _weighted_sum(G: list[Array], shares: Array) -> Array:
    total = G[0] * G[0].dtype.type(shares[0])
    for g, share in zip(G[1:], shares[1:], strict=True):
        total += g * g.dtype.type(share)
    return total


def update_beta(q: Array, gamma: float) -> Array:
    """Weights that minimise ``sum_a beta_a^gamma q_a`` on the simplex (Eq. 8).

    ``gamma > 1``: ``beta_a ~ q_a^(1 / (1 - gamma))``. ``0 < gamma <= 1``: all weight on the smallest
    ``q``, since the objective is linear or concave in ``beta`` and its minimum is a vertex. ``gamma =
    0``: equal weights. Views with ``q = 0`` share all the weight.
    """
    v = len(q)
    if gamma == 0.0:
        return np.full(v, 1.0 / v)
    if gamma <= 1.0:
        return np.eye(v)[int(np.argmin(q))]
    perfect = q <= np.finfo(float).tiny
    if perfect.any():
        return perfect / perfect.sum()
    logs = np.log(q) / (1.0 - gamma)
    beta = np.exp(logs - logs.max())
    return np.asarray(beta / beta.sum())
