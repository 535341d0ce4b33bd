"""Algorithm 1 of the paper over shards: send small matrices, collect sums, update weights, repeat."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from viewloom.solver.convergence import History, has_converged, new_history, record
from viewloom.solver.objective import Calibration, Terms, objective, reconstruction
from viewloom.solver.shard import Shard, Team, ViewMessage, ViewSums
from viewloom.solver.updates import update_beta, update_P

Array = np.ndarray


@dataclass(frozen=True)
class Settings:
    """Constants of the problem, with one entry per view, and stopping parameters."""

    lam: Array
    theta: Array
    gamma: float
    traces: Array  # tr(K)
    sigmas: Array  # sigma_max(L)
    calibration: Calibration
    n_steps: int  # inner steps on G
    max_iter: int
    tol: float


@dataclass(frozen=True)
class Result:
    """Result of the loop. The memberships are held by the shards."""

    beta: Array
    message: list[ViewMessage]  # P of every view in compact form
    sums: list[ViewSums]
    history: History
    objective: float
    converged: bool

    @property
    def n_iter(self) -> int:
        """Number of iterations."""
        return len(self.history["objective"])


def solve(
    team: Team,
    settings: Settings,
    progress: Callable[[int, float], None] | None = None,
) -> Result:
    """Minimise Eq. 4, starting from the memberships in the shards.

    One iteration reads every kernel once. It updates ``P`` and ``G`` of every view, ``G_star`` and
    ``beta``, in the order of Algorithm 1. Each update minimises or decreases the objective, so the
    objective never increases.
    """
    sums = team.total(Shard.sums)
    beta = np.full(len(settings.lam), 1.0 / len(settings.lam))
    history = new_history()
    message: list[ViewMessage] = []
    converged = False
    for iteration in range(settings.max_iter):
        began = time.perf_counter()
        message = broadcast(sums, beta, settings)
        sums = team.total(Shard.step, message, settings.n_steps)
        terms = evaluate(message, sums, settings.traces)
        q = settings.calibration(terms.losses(settings.lam, settings.theta))
        beta = update_beta(q, settings.gamma)
        J = objective(beta, q, settings.gamma)
        record(history, J, terms, beta, time.perf_counter() - began)
        if progress is not None:
            progress(iteration + 1, J)
        if has_converged(history, settings.tol):
            converged = True
            break
    return Result(beta, message, sums, history, history["objective"][-1], converged)


def broadcast(sums: list[ViewSums], beta: Array, settings: Settings) -> list[ViewMessage]:
    """``P`` of every view (Eq. 5) in compact form, with the constants of the view."""
    weights = beta**settings.gamma * settings.calibration.slope
    messages = []
    for a, view in enumerate(sums):
        C, A = update_P(view.S, view.kernel.M, view.kernel.quad)
        neighbours = None if view.graph is None else view.graph.M
        lam, theta, sigma = settings.lam[a], settings.theta[a], settings.sigmas[a]
        messages.append(ViewMessage(A, C, neighbours, lam, theta, sigma, weights[a]))
    return messages


def evaluate(message: list[ViewMessage], sums: list[ViewSums], traces: Array) -> Terms:
    """The terms of every ``q`` at the ``P`` of the message and the memberships of the sums."""
    errors = [
        reconstruction(trace, view.fit, m.A, view.S)
        for trace, view, m in zip(traces, sums, message, strict=True)
    ]
    return Terms(
        np.array(errors),
        np.array([view.consensus for view in sums]),
        np.array([view.smoothness for view in sums]),
    )
