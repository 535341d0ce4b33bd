"""Portions of a large matrix that are computed one after the other, in double precision."""

from __future__ import annotations

from collections.abc import Iterator

CELLS = 2**23  # of a portion: 64 MiB in double precision


def column_portions(shape: tuple[int, ...]) -> Iterator[slice]:
    """Consecutive columns of an (n, d) matrix; a single portion of a small one, at least one of any.

    >>> [part.stop for part in column_portions((2**22, 5))]
    [2, 4, 5]
    """
    return _portions(shape[1], CELLS // max(shape[0], 1))


def row_portions(shape: tuple[int, ...]) -> Iterator[slice]:
    """Consecutive rows of an (n, d) matrix."""
    return _portions(shape[0], CELLS // max(shape[1], 1))


def _portions(size: int, step: int) -> Iterator[slice]:
    step = max(step, 1)
    return (slice(start, min(start + step, size)) for start in range(0, max(size, 1), step))
