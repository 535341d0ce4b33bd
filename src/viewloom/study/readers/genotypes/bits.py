"""Calls of two bits each, as in a ``.bed``: counted without unpacking them."""

from __future__ import annotations

import numpy as np

Array = np.ndarray
EVEN = np.uint64(0x5555555555555555)  # the first bit of each call


def tallied(packed: Array, n: int) -> tuple[Array, Array]:
    """Per variant: the number of calls of n subjects, and of copies of the counted allele.

    Parameters
    ----------
    packed : (b, ceil(n / 4)) array of uint8
        Four calls in a byte, the first in the lowest bits: 0 two copies, 1 no call, 2 one copy, 3 none. What
        follows the last call is ignored.
    n : int

    Examples
    --------
    >>> tallied(np.array([[0b11_10_01_00], [0b01_10_00_00]], dtype=np.uint8), 3)
    (array([2, 3], dtype=int32), array([3., 5.]))
    """
    words = np.zeros((len(packed), -(-n // 32)), dtype=np.uint64)
    cells = words.view(np.uint8)
    cells[:, : packed.shape[1]] = packed
    if n % 4:
        cells[:, packed.shape[1] - 1] &= np.uint8((1 << 2 * (n % 4)) - 1)
    low, high = words & EVEN, words >> np.uint64(1) & EVEN
    none = _ones(low & high)
    missing, one = _ones(low) - none, _ones(high) - none
    two = n - none - missing - one
    return n - missing, one + 2.0 * two


def _ones(words: Array) -> Array:
    """Number of set bits in each row."""
    found: Array = np.bitwise_count(words).sum(axis=1, dtype=np.int32)
    return found
