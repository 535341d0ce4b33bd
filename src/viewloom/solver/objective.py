"""The objective, written once: loop, tests, history and report read the same numbers.

======== =========== =============================================================
symbol   shape       meaning
======== =========== =============================================================
K        n x n       Gram matrix of a view
W, D, L  n x n       similarity graph of a view, its degrees, ``L = D - W``
G        k x n       memberships of one view
P        n x k       centroids of one view as combinations of samples
G_star   k x n       consensus memberships
beta     v           view weights, ``sum(beta) = 1``
lam      v           pull of the consensus
theta    v           smoothness along the graph
gamma    scalar      order of the weights
======== =========== =============================================================

Eq. 4::

    J   = sum_a beta_a^gamma c_a ((q_a - o_a) / s_a + delta_a)
    q_a = e_a + lam_a ||G - G_star||^2 + theta_a tr(G L G^T)
    e_a = (1 - rho) ||Phi - Phi P G||^2 + rho sum_ij G_ji ||phi_i - Phi p_j||^2
        = tr(K) - 2 tr(P^T K G^T) + tr(P^T K P S),   S = (1 - rho) G G^T + rho diag(G 1)

The published form has ``c = s = 1`` and ``o = delta = rho = 0``. With calibration ``o_a``
is the least reconstruction error that any memberships could reach and ``o_a + s_a`` that of a
single cluster, both constants of the view.

Why ``rho`` (sharpness): with ``rho = 0`` memberships may soften for nothing, even on the simplex.
Mixing all of them with the uniform ones leaves ``P G`` as it was, because the centroids move
outwards to match, while both regularisers shrink. The second part of ``e_a`` charges for that; it
equals the first where memberships are hard.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from viewloom.kernels.operators import Moments, Operator

Array = np.ndarray
EVEN = 50.0  # from this gamma on weights hardly differ, and powers of it overflow


@dataclass(frozen=True)
class Terms:
    """The three terms of ``q``, one entry per view, without their factors."""

    reconstruction: Array
    consensus: Array
    smoothness: Array

    def losses(self, lam: Array, theta: Array) -> Array:
        """``q_a`` of every view."""
        return self.reconstruction + lam * self.consensus + theta * self.smoothness


@dataclass(frozen=True)
class Calibration:
    """Constants of each view that make losses comparable: ``c ((q - o) / s + delta)``.

    ``o`` (offset) and ``o + s`` are the reconstruction errors of the best and of no clustering (see
    `explained_range`). ``delta`` (doubts) is the share of a view's structure that no other view
    bears out; it keeps a view from earning weight by pulling the consensus to itself. ``c``
    (charge) is for views that are given more than once (see `shared_vote`).
    """

    offset: Array
    scale: Array
    doubts: Array
    charge: Array

    def __call__(self, q: Array) -> Array:
        """Calibrated losses, never below zero."""
        return self.charge * (np.maximum((q - self.offset) / self.scale, 0.0) + self.doubts)

    @property
    def slope(self) -> Array:
        """How much a calibrated loss rises with ``q``."""
        return self.charge / self.scale

    @classmethod
    def identity(cls, n_views: int) -> Calibration:
        """The published form: losses as they are."""
        return cls(np.zeros(n_views), np.ones(n_views), np.zeros(n_views), np.ones(n_views))

    @classmethod
    def of(
        cls, operators: Sequence[Operator | Moments], n_clusters: int, doubts: Array, charge: Array
    ) -> Calibration:
        """Constants of each view, from the spectrum of its centred kernel."""
        ranges = np.array([explained_range(operator, n_clusters) for operator in operators])
        return cls(ranges[:, 0], ranges[:, 1], doubts, charge)


def shared_vote(copies: Array, gamma: float) -> Array:
    """``c = m^(gamma - 1)`` for a view that is there m times, so that copies share one vote.

    m copies of a view with weight ``beta / m`` each then cost what the view alone costs with
    ``beta``: ``m c (beta / m)^gamma q = beta^gamma q``. Without it a view gains by being given twice.
    """
    return np.asarray(copies ** min(gamma - 1.0, EVEN))


def explained_range(operator: Operator | Moments, n_clusters: int) -> tuple[float, float]:
    """Least reconstruction error possible, and how far a single cluster lies above it.

    Memberships that sum to one span the constant vector, so ``P G`` projects on a space that holds
    ``1 / sqrt(n)`` and k - 1 further directions. By Ky Fan the error is at least ``tr(K_c)`` minus
    the ``k - 1`` largest eigenvalues of the centred kernel ``K_c``, and one cluster leaves
    ``tr(K_c)``.
    """
    total = max(operator.trace() - operator.size * operator.mean(), 0.0)
    best = float(operator.centred_spectrum(min(n_clusters - 1, operator.size)).clip(0.0).sum())
    span = min(best, total)
    return total - span, span if span > 1e-12 * max(total, 1e-300) else max(total, 1.0)


def reconstruction(trace: float, fit: float, A: Array, S: Array) -> float:
    """``e`` from ``fit = tr(P^T K G^T)``, ``A = P^T K P`` and ``S``."""
    return max(trace - 2.0 * fit + float((A * S).sum()), 0.0)


def objective(beta: Array, q: Array, gamma: float) -> float:
    """``J = sum_a beta_a^gamma q_a`` of calibrated losses (Eq. 4)."""
    return float((beta**gamma * q).sum())
