"""The block updates, one pure function each. Notation: see `viewloom.solver.objective`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
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
        return self.A @ G + (self.shift + self.lam) * G - self.B - self.lam * G_star[:, self.rows]

    def values(self, G: Array, G_star: Array) -> Array:
        """Value of every sample's problem (n_a)."""
        own = self.A @ G + self.shift * G - 2.0 * self.B
        gap = G - G_star[:, self.rows]
        return np.einsum("ij,ij->j", G, own) + self.lam * np.einsum("ij,ij->j", gap, gap)


def update_G(
    G: list[Array],
    G_star: Array,
    quadratics: list[Quadratic],
    project: Callable[[Array], Array],
    n_steps: int,
) -> tuple[list[Array], Array]:
    """Projected gradient on the memberships of all views at fixed ``P`` (Eq. 6), then the consensus (Eq. 7).

    ``n_steps = 1`` is the step of the paper. More steps are accelerated: every sample carries its
    own momentum, loses it when it overshoots, and falls back on its first, plain step if the others
    did not improve on it. So no sample's part of the objective ever increases, however the samples
    are split into shards.
    """
    lipschitz = [q.lipschitz for q in quadratics]
    weights = [q.weight * step for q, step in zip(quadratics, lipschitz, strict=True)]
    pull, rows = np.array([q.weight * q.lam for q in quadratics]), [q.rows for q in quadratics]

    def step_from(Y: list[Array], Y_star: Array) -> tuple[list[Array], Array]:
        new = [
            project(y - q.half_gradient(y, Y_star) / step)
            for y, q, step in zip(Y, quadratics, lipschitz, strict=True)
        ]
        return new, update_G_star(new, pull, rows, G_star.shape[1])

    first = current = step_from(G, G_star)
    previous = (G, G_star)
    time = np.ones(G_star.shape[1])
    for _ in range(n_steps - 1):
        later = (1.0 + np.sqrt(1.0 + 4.0 * time**2)) / 2.0
        ahead = _extrapolated(current, previous, quadratics, (time - 1.0) / later)
        new = step_from(*ahead)
        over = _overshoot(ahead[0], new[0], current[0], quadratics, weights, len(time))
        previous, current, time = current, new, np.where(over, 1.0, later)
    return current if n_steps == 1 else _better(first, current, quadratics)


def _extrapolated(
    current: tuple[list[Array], Array],
    previous: tuple[list[Array], Array],
    quadratics: list[Quadratic],
    momentum: Array,
) -> tuple[list[Array], Array]:
    ahead = [
        new + momentum[q.rows] * (new - old)
        for new, old, q in zip(current[0], previous[0], quadratics, strict=True)
    ]
    return ahead, current[1] + momentum * (current[1] - previous[1])


def _overshoot(
    ahead: list[Array],
    new: list[Array],
    old: list[Array],
    quadratics: list[Quadratic],
    weights: list[float],
    n: int,
) -> Array:
    """Samples whose step points against their momentum: ``<Y - G_new, G_new - G_old> > 0``."""
    alignment = np.zeros(n)
    for y, g, h, q, w in zip(ahead, new, old, quadratics, weights, strict=True):
        alignment[q.rows] += w * np.einsum("ij,ij->j", y - g, g - h)
    return alignment > 0.0


def _better(
    first: tuple[list[Array], Array],
    last: tuple[list[Array], Array],
    quadratics: list[Quadratic],
) -> tuple[list[Array], Array]:
    """For every sample the lower of two candidates."""
    change = np.zeros(first[1].shape[1])
    for g, h, q in zip(first[0], last[0], quadratics, strict=True):
        change[q.rows] += q.weight * (q.values(h, last[1]) - q.values(g, first[1]))
    worse = change > 0.0
    if not worse.any():
        return last
    G = [np.where(worse[q.rows], g, h) for g, h, q in zip(first[0], last[0], quadratics, strict=True)]
    return G, np.where(worse, first[1], last[1])


def update_G_star(G: list[Array], pull: Array, rows: list[Rows], n: int) -> Array:
    """``G_star = sum beta^gamma lam G / sum beta^gamma lam`` over the views that a sample has (Eq. 7).

    `pull` are the weights ``beta^gamma lam``. Where all of a sample's are zero every ``G_star`` is a
    minimiser; the plain mean of its views is taken.
    """
    total, norm = np.zeros((G[0].shape[0], n)), np.zeros(n)
    for g, weight, where in zip(G, np.maximum(pull, NO_PULL), rows, strict=True):
        total[:, where] += weight * g
        norm[where] += weight
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
