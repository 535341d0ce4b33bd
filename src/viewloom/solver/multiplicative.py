"""Non-negative factorisation by multiplicative updates: the solver of the paper's baselines.

Notation of `viewloom.solver.objective`, with data and centroids in place of kernel and ``P``:

======== =========== =================================================================
symbol   shape       meaning
======== =========== =================================================================
X        d x n_a     one view of the samples that have it, samples in columns, ``X >= 0``
F        d x k       centroids of one view, ``F >= 0``
G        k x n_a     memberships of one view, ``G >= 0``
======== =========== =================================================================

Eq. 3, with Eq. 2 as ``gamma = 0`` and Eq. 1 as a single view::

    J   = sum_a beta_a^gamma (n / n_a) q_a
    q_a = ||X - F G||^2 + lam_a ||G - G_star||^2 + theta_a tr(G L G^T)

The factor ``n / n_a`` makes losses of views comparable per observed sample; it is one if no view is missing.
As in the paper, the scale is not determined: ``F G`` stays the same when ``G`` shrinks and ``F`` grows, but
both penalties shrink with ``G``. So with ``theta > 0`` or ``lam > 0`` the objective keeps decreasing slowly,
and `tol` decides where the iterations stop.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import scipy.sparse as sp

from viewloom.kernels.geometry import Geometry
from viewloom.kernels.operators import Operator
from viewloom.solver.convergence import History, has_converged, new_history, record
from viewloom.solver.objective import Calibration, Terms, objective, reconstruction
from viewloom.solver.updates import update_beta, update_G_star

Array = np.ndarray
TINY = 1e-200  # least denominator; a larger one only shortens the step
NEW_SAMPLE_STEPS = 300  # fixed, so that the result of a sample does not depend on the other new samples


@dataclass(frozen=True)
class ViewProblem:
    """Data of one view, and the constants of its loss."""

    X: Any  # d x n_a, dense or sparse
    rows: Array  # samples that have the view
    squared_norm: float  # ||X||^2
    lam: float
    theta: float  # 0 if there is no graph
    W: Operator | None
    degree: Array  # n_a

    @classmethod
    def of(
        cls,
        X: Any,
        rows: Array,
        lam: float = 0.0,
        theta: float = 0.0,
        graph: Any = None,
        name: str = "X",
    ) -> Self:
        """Build the problem of a view with samples in rows (n x d), of which `rows` are observed."""
        X = X[rows].astype(np.float64)
        values = X.data if sp.issparse(X) else X
        squared_norm = float(np.sum(values**2))
        if graph is None or theta == 0.0:
            return cls(X.T, rows, squared_norm, lam, 0.0, None, np.zeros(len(rows)))
        laplacian = graph.fit(Geometry(X, name)).laplacian
        return cls(X.T, rows, squared_norm, lam, theta, laplacian.adjacency, laplacian.degree)

    def neighbours(self, G: Array) -> Array:
        """``G W`` (k x n_a)."""
        return np.zeros_like(G) if self.W is None else self.W.lift(self.W.project(G).M)


@dataclass(frozen=True)
class Factors:
    """``X ~ F G``, with the products used by both the updates and the objective."""

    F: Array  # d x k
    FX: Array  # F^T X, k x n_a
    FF: Array  # F^T F, k x k
    G: Array  # k x n_a
    GW: Array  # G W, k x n_a

    @classmethod
    def of(cls, view: ViewProblem, F: Array, G: Array, GW: Array) -> Self:
        """Factors with the products of a new ``F``."""
        return cls(F, np.asarray(F.T @ view.X), F.T @ F, G, GW)


@dataclass(frozen=True)
class Solution:
    """Result of the iterations."""

    factors: list[Factors]
    G_star: Array
    pull: Array  # beta^gamma lam n / n_a, the weight of a view in the consensus
    beta: Array
    history: History
    converged: bool


def update_F(F: Array, XG: Array, S: Array) -> Array:
    """``F <- F * (X G^T) / (F G G^T)``, from ``XG = X G^T`` (d x k) and ``S = G G^T`` (k x k).

    The step of Lee and Seung for ``||X - F G||^2`` (first term of Eq. 1 to 3), which never increases it.
    """
    return np.asarray(F * XG / np.maximum(F @ S, TINY))


def update_G(factors: Factors, view: ViewProblem, target: Array) -> Array:
    """``G <- G * (F^T X + lam G_star + theta G W) / (F^T F G + lam G + theta G D)``; `target` is ``G_star``.

    The step of Cai et al. for ``q`` at fixed ``F``. It is ``G - grad / (2 B)`` with the diagonal
    ``B = (F^T F G + lam G + theta G D) / G``. Half the Hessian, ``F^T F + lam + theta (D - W)``, is at most
    ``2 B``, as ``F^T F <= (F^T F G) / G`` for non-negative matrices and ``-W <= D``. So ``q`` never
    increases, for any ``W >= 0``.
    """
    G = factors.G
    numerator = factors.FX + view.lam * target + view.theta * factors.GW
    denominator = factors.FF @ G + (view.lam + view.theta * view.degree) * G
    return np.asarray(G * numerator / np.maximum(denominator, TINY))


def centroids(X: Any, G: Array) -> Array:
    """Means of the samples weighted by their memberships (d x k), the initial ``F``."""
    return np.asarray((X @ G.T) / np.maximum(G.sum(axis=1), TINY))


def evaluate(views: list[ViewProblem], factors: list[Factors], G_star: Array) -> Terms:
    """The three terms of every ``q``."""
    pairs = list(zip(views, factors, strict=True))
    return Terms(
        np.array([reconstruction_error(view, f) for view, f in pairs]),
        np.array([float(((f.G - G_star[:, view.rows]) ** 2).sum()) for view, f in pairs]),
        np.array([smoothness(view, f) for view, f in pairs]),
    )


def reconstruction_error(view: ViewProblem, factors: Factors) -> float:
    """``||X - F G||^2 = ||X||^2 - 2 <F^T X, G> + <F^T F, G G^T>``."""
    fit = float((factors.FX * factors.G).sum())
    return reconstruction(view.squared_norm, fit, factors.FF, factors.G @ factors.G.T)


def smoothness(view: ViewProblem, factors: Factors) -> float:
    """``tr(G L G^T) = <G, G D - G W>``, never below zero."""
    return max(float((factors.G * (factors.G * view.degree - factors.GW)).sum()), 0.0)


def solve(
    views: list[ViewProblem],
    G_star: Array,
    gamma: float,
    max_iter: int,
    tol: float,
    progress: Callable[[int, float], None],
) -> Solution:
    """Minimise Eq. 3 from initial ``G_star`` (k x n) by updating ``F``, ``G``, ``G_star``, ``beta`` in turn.

    One iteration reads every ``X`` twice and every ``W`` once. No update increases the objective.
    """
    n, rows = G_star.shape[1], [view.rows for view in views]
    lam, theta = np.array([view.lam for view in views]), np.array([view.theta for view in views])
    share = np.array([len(where) / n for where in rows])
    per_sample = replace(Calibration.identity(len(views)), scale=share)
    factors = [_start(view, G_star[:, view.rows]) for view in views]
    beta, converged = np.full(len(views), 1.0 / len(views)), False
    history = new_history()
    for iteration in range(1, max_iter + 1):
        began = time.perf_counter()
        factors = [_step(view, f, G_star[:, view.rows]) for view, f in zip(views, factors, strict=True)]
        G_star = update_G_star([f.G for f in factors], beta**gamma * lam / share, rows, n)
        terms = evaluate(views, factors, G_star)
        q = per_sample(terms.losses(lam, theta))
        beta = update_beta(q, gamma)
        J = objective(beta, q, gamma)
        record(history, J, terms, beta, time.perf_counter() - began)
        progress(iteration, J)
        converged = has_converged(history, tol)
        if converged:
            break
    return Solution(factors, G_star, beta**gamma * lam / share, beta, history, converged)


def place(views: list[ViewProblem], F: list[Array], pull: Array, n: int) -> tuple[list[Factors], Array]:
    """Memberships of new samples: ``G`` and ``G_star`` in turn at fixed ``F`` and weights."""
    rows = [view.rows for view in views]
    G_star = np.full((F[0].shape[1], n), 1.0 / F[0].shape[1])
    factors = [
        Factors.of(view, f, G_star[:, view.rows], np.zeros((f.shape[1], len(view.rows))))
        for view, f in zip(views, F, strict=True)
    ]
    for _ in range(NEW_SAMPLE_STEPS):
        factors = [
            replace(f, G=update_G(f, view, G_star[:, view.rows]))
            for view, f in zip(views, factors, strict=True)
        ]
        G_star = update_G_star([f.G for f in factors], pull, rows, n)
    return factors, G_star


def _start(view: ViewProblem, G: Array) -> Factors:
    return Factors.of(view, centroids(view.X, G), G, view.neighbours(G))


def _step(view: ViewProblem, old: Factors, target: Array) -> Factors:
    """Update ``F``, then ``G`` of one view."""
    F = update_F(old.F, np.asarray(view.X @ old.G.T), old.G @ old.G.T)
    factors = Factors.of(view, F, old.G, old.GW)
    G = update_G(factors, view, target)
    return replace(factors, G=G, GW=view.neighbours(G))
