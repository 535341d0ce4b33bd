"""History of the iterations and the convergence criterion."""

from __future__ import annotations

import numpy as np

from viewloom.solver.objective import Terms

Array = np.ndarray
History = dict[str, list]  # one entry per iteration


def new_history() -> History:
    """An empty history."""
    names = ("objective", "reconstruction", "consensus", "smoothness", "weights", "seconds")
    return {name: [] for name in names}


def record(history: History, J: float, terms: Terms, beta: Array, seconds: float) -> None:
    """Add an iteration."""
    entry = (J, terms.reconstruction, terms.consensus, terms.smoothness, beta, seconds)
    for values, value in zip(history.values(), entry, strict=True):
        values.append(value)


def has_converged(history: History, tol: float) -> bool:
    """Whether the relative decrease of the objective in the last iteration is at most `tol`."""
    objectives = history["objective"]
    return len(objectives) > 1 and objectives[-2] - objectives[-1] <= tol * abs(objectives[-2])
