"""What happened in each iteration, and whether there is any point in another."""

from __future__ import annotations

import numpy as np

from viewloom.solver.objective import Terms

Array = np.ndarray
History = dict[str, list]  # one entry per iteration


def new_history() -> History:
    """A history without entries."""
    names = ("objective", "reconstruction", "consensus", "smoothness", "weights", "seconds")
    return {name: [] for name in names}


def record(history: History, J: float, terms: Terms, beta: Array, seconds: float) -> None:
    """Add an iteration."""
    entry = (J, terms.reconstruction, terms.consensus, terms.smoothness, beta, seconds)
    for values, value in zip(history.values(), entry, strict=True):
        values.append(value)


def has_converged(history: History, tol: float) -> bool:
    """Whether the objective fell by less than the share `tol` in the last iteration."""
    objectives = history["objective"]
    return len(objectives) > 1 and objectives[-2] - objectives[-1] <= tol * abs(objectives[-2])
