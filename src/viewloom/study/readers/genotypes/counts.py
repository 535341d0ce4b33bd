"""Counts of the variants that are kept, collected block by block."""

from __future__ import annotations

import numpy as np

from viewloom.study.readers.genotypes.sources import complete, precision, slices

Array = np.ndarray
ROWS = 2**20  # bytes of values that are converted at a time, at least one variant
RESERVED = 2**31  # bytes that are reserved at most for what may be left out later


class Counts:
    """Counts (d, n) of variants that come in blocks, as floats with NaN where there is no call.

    Calls take one byte until all have come, since the precision depends on their number. Where it is known
    how many will come at most, and these are many, they are written to their place at once.

    Parameters
    ----------
    n : int
        Number of subjects.

    Examples
    --------
    >>> counts = Counts(3)
    >>> counts.append(np.array([[0, 1, 2], [2, -1, 0]], dtype=np.int8), np.array([1]))
    >>> counts.whole()
    array([[ 2., nan,  0.]])
    """

    def __init__(self, n: int) -> None:
        self.n = n
        self._parts: list[Array] = []
        self._room: Array | None = None
        self._filled = 0

    def reserve(self, most: int, certain: bool) -> None:
        """Expect up to so many variants, of which all are `certain` to come, or some may not.

        Memory that is reserved and not used takes address space only.
        """
        size = 4 * most * self.n
        if precision(most, self.n) is np.float32 and (certain or size <= RESERVED):
            self._room = np.empty((most, self.n), dtype=np.float32)

    def append(self, values: Array, at: Array) -> None:
        """Add the variants at these positions of an array (b, n)."""
        if self._room is None:
            self._parts.append(values[at])
            return
        for part in slices(at, max(1, ROWS // (self.n * values.itemsize))):
            block = values[part]
            _fill(self._room[self._filled : self._filled + len(block)], block)
            self._filled += len(block)

    def whole(self) -> Array:
        """All counts; what was collected is let go of."""
        room, self._room = self._room, None
        if room is not None:
            return room[: self._filled].astype(precision(self._filled, self.n), copy=False)
        size = sum(len(part) for part in self._parts)
        whole: Array = np.empty((size, self.n), dtype=precision(size, self.n))
        start = 0
        while self._parts:
            part = self._parts.pop(0)
            _fill(whole[start : start + len(part)], part)
            start += len(part)
        return whole


def _fill(target: Array, values: Array) -> None:
    target[...] = values
    if values.dtype == np.int8 and not complete(values):
        target[values < 0] = np.nan
