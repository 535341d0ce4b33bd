"""Sources of genotypes: the subjects of a file, and blocks of its variants."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

import numpy as np
import pandas as pd

from viewloom.study.notes import Note
from viewloom.study.readers.files import LARGE_CELLS

Array = np.ndarray
Chooser = Callable[[pd.DataFrame], Array]  # rows of a panel -> which of them to read
BLOCK = 8 * 2**20  # bytes of a block of variants
MOST_VARIANTS = 4096  # of a block


@dataclass(frozen=True, eq=False)
class Block:
    """Some variants of a file, all subjects.

    Attributes
    ----------
    rows : DataFrame
        Chromosome, position, variant, counted and other allele, and ``info`` where the file has it.
    calls : (b, n) array
        Copies of the counted allele: int8 with -1 where there is no call, or float32 with NaN. They may be
        overwritten when the next block is read.
    seen : int
        Variants of the file that were passed, chosen or not.
    """

    rows: pd.DataFrame
    calls: Array
    seen: int


class Source(Protocol):
    """A file of genotypes.

    Attributes
    ----------
    path : Path
    ids : Index
        Subjects, in the order of the file.
    size : int
        Number of variants, or 0 where it is known only after reading.
    skipped : dict of str to int
        Variants that cannot be read, counted while the file is read, by the reason.
    notes : list of Note
        What else was left out.
    """

    path: Path
    ids: pd.Index
    size: int
    skipped: dict[str, int]
    notes: list[Note]

    def blocks(self, choose: Chooser) -> Iterator[Block]:
        """The chosen variants, block by block, in the order of the file."""
        ...


@dataclass(frozen=True, eq=False)
class Tallies:
    """What is known of variants before they are decoded.

    Attributes
    ----------
    at, calls, copies : (b,) arrays
        Positions of variants, and their numbers of calls and of copies of the counted allele.
    rare : array
        Positions of variants that were not counted.
    """

    at: Array
    calls: Array
    copies: Array
    rare: Array


@runtime_checkable
class Tallied(Protocol):
    """A source that counts calls without decoding them."""

    ids: pd.Index

    def tallies(self, wanted: Array, unlike: int = -1) -> Tallies | None:
        """Counts of the wanted variants; None if unknown.

        Where no more subjects than `unlike` differ from all others, who have two copies of one allele, a
        variant need not be counted.
        """
        ...


def block_size(n: int, width: int) -> int:
    """Number of variants of a block, for n subjects and so many bytes per value.

    >>> block_size(5000, 4), block_size(10, 1)
    (419, 4096)
    """
    return max(1, min(MOST_VARIANTS, BLOCK // max(1, n * width)))


def slices(at: Array, size: int) -> Iterator[Array]:
    """Consecutive parts of positions."""
    return (at[start : start + size] for start in range(0, len(at), size))


def called(values: Array) -> Array:
    """Which values are calls."""
    return values >= 0 if values.dtype == np.int8 else ~np.isnan(values)


def totals(values: Array) -> tuple[Array, Array]:
    """Per variant: the number of calls, and the sum of the counted alleles.

    >>> totals(np.array([[2, -1, 1]], dtype=np.int8))
    (array([2]), array([3.]))
    """
    kind = np.int32 if values.dtype == np.int8 else np.float64  # sums of int8 as float64 are ten times slower
    if complete(values):
        return np.full(len(values), values.shape[1]), values.sum(axis=1, dtype=kind).astype(np.float64)
    known = called(values)
    total = np.where(known, values, values.dtype.type(0)).sum(axis=1, dtype=kind)
    return known.sum(axis=1), total.astype(np.float64)


def complete(values: Array) -> bool:
    """Whether all values are calls."""
    if not values.size:
        return True
    return bool(values.min() >= 0) if values.dtype == np.int8 else not np.isnan(values.min())


def as_floats(values: Array, dtype: type = np.float32) -> Array:
    """Values as floats, NaN where there is no call."""
    if values.dtype != np.int8:
        return values.astype(dtype, copy=False)
    found: Array = values.astype(dtype)
    if not complete(values):
        found[values < 0] = np.nan
    return found


def exchanged(values: Array) -> Array:
    """Copies of the other allele: 2 minus those of the counted one."""
    if values.dtype == np.int8:
        return np.where(values < 0, values, np.int8(2) - values)
    return np.float32(2.0) - values


def precision(d: int, n: int) -> type:
    """The type of counts of d variants of n subjects: as in other tables, single precision for many.

    >>> precision(100, 100), precision(100_000, 1_000)
    (<class 'numpy.float64'>, <class 'numpy.float32'>)
    """
    return np.float32 if d * n >= LARGE_CELLS else np.float64
