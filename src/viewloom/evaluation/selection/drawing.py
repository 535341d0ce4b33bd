"""Samples drawn at random where there are very many."""

from __future__ import annotations

import numpy as np

from viewloom.data.views import Views
from viewloom.runtime.errors import InputError

Array = np.ndarray
MOST_SAMPLES = 4000  # that are compared with twins, or searched
LEAST_SAMPLES = 100  # that may be drawn of more


def at_most(views: Views, most: int | None, seed: int) -> Views:
    """All samples, or so many that are drawn at random."""
    rows = rows_at_most(len(views), most, seed)
    chosen: Views = views if len(rows) == len(views) else views[rows]
    return chosen


def rows_at_most(n: int, most: int | None, seed: int) -> Array:
    """Positions of all of n samples, or of so many that are drawn at random, in order."""
    if most is not None and most < LEAST_SAMPLES:
        raise InputError(f"max_samples must be {LEAST_SAMPLES} or more, or None for all; got {most}.")
    if most is None or n <= most:
        return np.arange(n)
    return np.sort(np.random.default_rng(seed).permutation(n)[:most])
