"""The block updates, one pure function each. Notation: see `viewloom.solver.objective`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.linalg

Array = np.ndarray
Rows = Any  # positions of a view's samples: an index array, or slice(None) for all
RIDGES = (1e-15, 1e-10)  # of the mean diagonal of S: keep an emptied cluster finite
NO_PULL = 2.0**-300  # stands for a weight of zero, so that views without pull have a mean


def project_simplex(V: Array) -> Array:
    """Nearest point of the simplex ``{g >= 0, sum(g) = 1}``, for every column.

    With ``u`` the sorted column, the threshold is ``tau = (u_1 + ... + u_r - 1) / r`` for the
    largest ``r`` with ``u_r > tau``; the answer is ``max(v - tau, 0)``.
    """
    k = V.shape[0]
    u = np.sort(V.T, axis=1)[:, ::-1]  # n x k, falling
    excess = np.cumsum(u, axis=1) - 1.0
    r = np.count_nonzero(u * np.arange(1, k + 1) > excess, axis=1)
    tau = excess[np.arange(len(u)), r - 1] / r
    return np.maximum(V - tau, 0.0)


def project_nonnegative(V: Array) -> Array:
    """Nearest non-negative point."""
    return np.maximum(V, 0.0)


PROJECTIONS: dict[str, Callable[[Array], Array]] = {
    "simplex": project_simplex,
    "nonnegative": project_nonnegative,
}


def membership_gram(G: Array, rho: float) -> Array:
    """``S = (1 - rho) G G^T + rho diag(G 1)``: ``G G^T`` for hard memberships, whatever ``rho``."""
    S = np.asarray(G @ G.T, dtype=np.float64)
    return (1.0 - rho) * S + rho * np.diag(G.sum(axis=1, dtype=np.float64)) if rho else S


def update_P(S: Array, M: Array, quad: Array) -> tuple[Array, Array]:
    """``P = G^T S^-1`` (Eq. 5), the minimiser of the reconstruction error at fixed ``G``.

    Given as what the other blocks need of it: ``C = S^-1 M`` (with ``P^T K = lift(C)``) and
    ``A = P^T K P = S^-1 (G K G^T) S^-1``.
    """
    factor = _cholesky(S)
    half = scipy.linalg.cho_solve(factor, quad)
    A = scipy.linalg.cho_solve(factor, half.T)
    return scipy.linalg.cho_solve(factor, M), (A + A.T) / 2


def combinations(G: Array, rho: float) -> Array:
    """``P^T = S^-1 G`` (k x n), written out for new samples (Eq. 5)."""
    return np.asarray(scipy.linalg.cho_solve(_cholesky(membership_gram(G, rho)), G))


def _cholesky(S: Array) -> tuple[Array, bool]:
    size = max(float(np.trace(S)) / len(S), 1e-300)
    for ridge in RIDGES:
        try:
            return scipy.linalg.cho_factor(S + ridge * size * np.eye(len(S)), lower=True)
        except scipy.linalg.LinAlgError:
            continue  # two clusters with equal memberships: round-off took the rest
    raise ValueError("Memberships contain values that are not finite.")


@dataclass(frozen=True)
class Quadratic:
    """The part of ``q`` of one view that depends on ``G``, at fixed ``P``, up to a constant::

        tr(A G G^T) - 2 tr(B^T G) + shift ||G||^2 + lam ||G - G_star||^2

    where ``A`` and ``B`` are ``P^T K P`` and ``P^T K`` for ``rho = 0``. The smoothness term enters
    through a majoriser that touches the graph once per iteration: with ``sigma >= sigma_max(L)``
    and the memberships ``G_t`` of the iteration before::

        tr(G L G^T) <= sigma ||G||^2 - 2 tr(G_t (sigma I - L) G^T) + const

    so that ``shift = theta sigma`` and ``B = P^T K + theta G_t (sigma I - L)``. Every sample is then
    a problem of its own in k unknowns.
    """

    A: Array  # k x k
    B: Array  # k x n_a
    shift: float
    lam: float
    weight: float  # of this view in the objective
    rows: Rows  # which samples of the shard have this view

    @property
    def lipschitz(self) -> float:
        """Half the Lipschitz constant: ``sigma_max(A) + lam + theta sigma_max(L)`` (Eq. 6)."""
        return float(scipy.linalg.eigvalsh(self.A)[-1]) + self.lam + self.shift

    def half_gradient(self, G: Array, G_star: Array) -> Array:
        """``P^T K P G - P^T K + lam (G - G_star) + theta G L`` at ``G = G_t`` (Eq. 6)."""
        H = self.A + (self.shift + self.lam) * np.eye(len(self.A))
        return H.astype(G.dtype) @ G - self.B - self.lam * G_star[:, self.rows]

    def taken(self, part: tuple[Array, Array]) -> Quadratic:
        """The same for some samples only: their columns of ``B``, and their places among the chosen."""
        columns, rows = part
        return replace(self, B=np.ascontiguousarray(self.B[:, columns]), rows=rows)

    def values(self, G: Array, G_star: Array) -> Array:
        """Value of every sample's problem (n_a)."""
        own = self.A.astype(G.dtype, copy=False) @ G + self.shift * G - 2.0 * self.B
        gap = G - G_star[:, self.rows]
        return np.einsum("ij,ij->j", G, own) + self.lam * np.einsum("ij,ij->j", gap, gap)


@dataclass(frozen=True)
class Memberships:
    """``G`` of every view and ``G_star`` of the same samples."""

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

    ``n_steps = 1`` is the step of the paper. More steps are accelerated: every sample carries its
    own momentum, loses it when it overshoots, and falls back on its first, plain step if the others
    did not improve on it. So no sample's part of the objective ever increases, however the samples
    are split into shards. A sample that its first step leaves where it was stays there, so only the
    others take part in further steps.
    """
    step = _Step(quadratics, project)
    first = step(start)
    if n_steps == 1:
        return first
    moving = _moved(start, first, quadratics)
    if moving.all():
        return _accelerated(start, first, step, n_steps)
    chosen = np.flatnonzero(moving)
    if not len(chosen):
        return first
    part = [_columns(q.rows, chosen, start.n) for q in quadratics]
    fewer = _Step([q.taken(p) for q, p in zip(quadratics, part, strict=True)], project, step.lipschitz)
    last = _accelerated(_taken(start, chosen, part), _taken(first, chosen, part), fewer, n_steps)
    return _put(first, last, chosen, part)


class _Step:
    """One projected gradient step on all samples."""

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

    def __call__(self, at: Memberships) -> Memberships:
        G = [
            self.project(g - q.half_gradient(g, at.G_star) * g.dtype.type(1.0 / L))
            for g, q, L in zip(at.G, self.quadratics, self.lipschitz, strict=True)
        ]
        return Memberships(G, update_G_star(G, self.pull, [q.rows for q in self.quadratics], at.n))


def _accelerated(start: Memberships, first: Memberships, step: _Step, n_steps: int) -> Memberships:
    """FISTA with restarts from the first step on; for every sample the better of first and last."""
    previous, current = start, first
    time = np.ones(start.n, dtype=start.G_star.dtype)
    for _ in range(n_steps - 1):
        later = (1.0 + np.sqrt(1.0 + 4.0 * time**2)) / 2.0
        ahead = _extrapolated(current, previous, step.quadratics, (time - 1.0) / later)
        new = step(ahead)
        over = _overshoot(ahead.G, new.G, current.G, step, start.n)
        previous, current, time = current, new, np.where(over, time.dtype.type(1.0), later)
    return _better(first, current, step.quadratics)


def _moved(start: Memberships, first: Memberships, quadratics: list[Quadratic]) -> Array:
    """Samples that the first step moved, in any view or in the consensus."""
    moved = (start.G_star != first.G_star).any(axis=0)
    for g, h, q in zip(start.G, first.G, quadratics, strict=True):
        moved[q.rows] |= (g != h).any(axis=0)
    return moved


def _columns(rows: Rows, chosen: Array, n: int) -> tuple[Array, Array]:
    """Of the chosen samples those that have a view: their places among its samples, and among the chosen."""
    place = np.full(n, -1)
    place[rows] = np.arange(n)[: len(place[rows])]
    found = place[chosen]
    return found[found >= 0], np.flatnonzero(found >= 0)


def _taken(at: Memberships, chosen: Array, part: list[tuple[Array, Array]]) -> Memberships:
    G = [np.ascontiguousarray(g[:, columns]) for g, (columns, _) in zip(at.G, part, strict=True)]
    return Memberships(G, np.ascontiguousarray(at.G_star[:, chosen]))


def _put(at: Memberships, some: Memberships, chosen: Array, part: list[tuple[Array, Array]]) -> Memberships:
    for g, h, (columns, _) in zip(at.G, some.G, part, strict=True):
        g[:, columns] = h
    at.G_star[:, chosen] = some.G_star
    return at


def _extrapolated(
    current: Memberships, previous: Memberships, quadratics: list[Quadratic], momentum: Array
) -> Memberships:
    ahead = [
        new + momentum[q.rows] * (new - old)
        for new, old, q in zip(current.G, previous.G, quadratics, strict=True)
    ]
    return Memberships(ahead, current.G_star + momentum * (current.G_star - previous.G_star))


def _overshoot(ahead: list[Array], new: list[Array], old: list[Array], step: _Step, n: int) -> Array:
    """Samples whose step points against their momentum: ``<Y - G_new, G_new - G_old> > 0``."""
    alignment = np.zeros(n)
    for y, g, h, q, w in zip(ahead, new, old, step.quadratics, step.weights, strict=True):
        alignment[q.rows] += w * np.einsum("ij,ij->j", y - g, g - h)
    return alignment > 0.0


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

    `pull` are the weights ``beta^gamma lam``. Where all of a sample's are zero every ``G_star`` is a
    minimiser; the plain mean of its views is taken.
    """
    dtype = G[0].dtype.type
    total, norm = np.zeros((G[0].shape[0], n), dtype), np.zeros(n, dtype)
    largest = max(float(pull.max()), NO_PULL)
    for g, weight, where in zip(G, np.maximum(pull, NO_PULL) / largest, rows, strict=True):
        total[:, where] += dtype(weight) * g
        norm[where] += dtype(weight)
    return total / norm


def update_beta(q: Array, gamma: float) -> Array:
    """Weights that minimise ``sum_a beta_a^gamma q_a`` on the simplex (Eq. 8).

    ``gamma > 1``: ``beta_a ~ q_a^(1 / (1 - gamma))``. ``0 < gamma <= 1``: all weight on the least
    ``q``, since the objective is linear or concave in ``beta`` and its minimum a vertex. ``gamma =
    0``: equal weights. Views with ``q = 0`` share all weight.
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
