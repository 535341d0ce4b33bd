"""Samples drawn at random where there are very many."""

from __future__ import annotations

import numpy as np

Array = np.ndarray


def rows_at_most(n: int, most: int | None, seed: int) -> Array:
    """Positions of all of n samples, or of so many that are drawn at random, in order.

    >>> rows_at_most(5, 2, 0), rows_at_most(3, None, 0)
    (array([2, 4]), array([0, 1, 2]))
    """
    if most is None or n <= most:
        return np.arange(n)
    return np.sort(np.random.default_rng(seed).permutation(n)[:most])
