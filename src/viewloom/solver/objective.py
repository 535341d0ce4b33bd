"""The objective, defined in one place for the loop, the history, the tests and the report.

======== =========== =============================================================
symbol   shape       meaning
======== =========== =============================================================
K        n x n       Gram matrix of a view
W, D, L  n x n       similarity graph of a view, its degrees, ``L = D - W``
G        k x n       memberships of one view
P        n x k       centroids of one view as combinations of samples
G_star   k x n       consensus memberships
beta     v           view weights, ``sum(beta) = 1``
lam      v           strength of the consensus term
theta    v           strength of the smoothness term
gamma    scalar      exponent of the view weights
======== =========== =============================================================

Eq. 4::

    J   = sum_a beta_a^gamma c_a ((q_a - o_a) / s_a + delta)
    q_a = e_a + lam_a ||G - G_star||^2 + theta_a tr(G L G^T)
    e_a = (1 - rho) ||Phi - Phi P G||^2 + rho sum_ij G_ji ||phi_i - Phi p_j||^2
        = tr(K) - 2 tr(P^T K G^T) + tr(P^T K P S),   S = (1 - rho) G G^T + rho diag(G 1)

The published form has ``c = s = 1`` and ``o = delta = rho = 0``. With calibration, ``o_a`` is the
least reconstruction error that any memberships can reach and ``o_a + s_a`` the error of a single
cluster; both are constants of the view.

The sharpness ``rho`` makes the problem well-posed. With ``rho = 0`` memberships can become softer at
no cost, even on the simplex: mixing all of them with uniform memberships leaves ``P G`` unchanged,
because the centroids move outwards, while both regularisers shrink. The second part of ``e_a``
penalises this; it equals the first part if memberships are hard.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from viewloom.kernels.operators import Moments, Operator

Array = np.ndarray
DELTA = 1.0  # constant part of calibrated losses, in losses of a single cluster
EVEN = 50.0  # largest exponent: weights hardly differ from here on, and larger powers overflow


@dataclass(frozen=True)
class Terms:
    """The three terms of ``q`` without their factors, with one entry per view."""

    reconstruction: Array
    consensus: Array
    smoothness: Array

    def losses(self, lam: Array, theta: Array) -> Array:
        """``q_a`` of every view."""
        return self.reconstruction + lam * self.consensus + theta * self.smoothness


@dataclass(frozen=True)
class Calibration:
    """Constants of each view that make losses comparable: ``c ((q - o) / s + delta)``.

    ``o`` (offset) and ``o + s`` are the reconstruction errors of the best clustering and of a single
    cluster (see `explained_range`). ``delta`` is a constant loss of all views: without it, a view could gain
    nearly all weight by pulling the consensus towards itself. ``c`` (charge) accounts for votes (see
    `charge_of`).
    """

    offset: Array
    scale: Array
    delta: float
    charge: Array

    def __call__(self, q: Array) -> Array:
        """Calibrated losses, never below zero."""
        return self.charge * (np.maximum((q - self.offset) / self.scale, 0.0) + self.delta)

    @property
    def slope(self) -> Array:
        """Derivative of the calibrated loss with respect to ``q``."""
        return self.charge / self.scale

    @classmethod
    def identity(cls, n_views: int) -> Calibration:
        """The published form: losses without calibration."""
        return cls(np.zeros(n_views), np.ones(n_views), 0.0, np.ones(n_views))

    @classmethod
    def of(cls, operators: Sequence[Operator | Moments], n_clusters: int, charge: Array) -> Calibration:
        """Compute the constants of each view from the spectrum of its centred kernel."""
        ranges = np.array([explained_range(operator, n_clusters) for operator in operators])
        return cls(ranges[:, 0], ranges[:, 1], DELTA if len(charge) > 1 else 0.0, charge)


def charge_of(votes: Array, gamma: float) -> Array:
    """``c = v^(1 - gamma)`` for a view with vote v, so that its weight is in proportion to its vote.

    A view with vote v and weight ``v beta`` then contributes v times what it would with a full vote and
    weight ``beta``: ``c (v beta)^gamma q = v beta^gamma q``. So m copies with a vote of ``1 / m`` each have
    together the loss and the weight of the single view; without this factor a view would gain weight by
    being passed twice. If ``0 < gamma <= 1``, all weight goes to one view, and ``c = 1 / v`` keeps it from
    being a view of noise.
    """
    power = 1.0 if 0.0 < gamma <= 1.0 else min(gamma - 1.0, EVEN)
    return np.asarray((1.0 / votes) ** power)


def explained_range(operator: Operator | Moments, n_clusters: int) -> tuple[float, float]:
    """Least possible reconstruction error, and the difference to the error of a single cluster.

    Memberships that sum to one span the constant vector, so ``P G`` projects onto a space that contains
    ``1 / sqrt(n)`` and k - 1 further directions. By Ky Fan's theorem the error is at least ``tr(K_c)``
    minus the ``k - 1`` largest eigenvalues of the centred kernel ``K_c``. The error of a single cluster
    is ``tr(K_c)``.
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
