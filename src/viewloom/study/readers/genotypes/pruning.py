"""Pruning of variants in linkage disequilibrium, in one pass over the file."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from viewloom.study.readers.genotypes.sources import as_floats

Array = np.ndarray
STRIP = 128  # variants whose correlations are computed at a time
EQUAL = 1.0 - 1e-9  # allele frequencies that differ by less than rounding are equal


@dataclass(frozen=True)
class LD:
    """Windows of variants and the largest squared correlation within them, as in PLINK's --indep-pairwise."""

    window: int
    step: int
    r2: float


class Pruner:
    """Leaves out variants of a chromosome that are correlated with another one nearby.

    Windows of `window` consecutive variants move by `step`. In a window, pairs of remaining variants are
    visited in order; of a pair whose squared correlation exceeds `r2`, the variant with the smaller minor
    allele frequency is left out (of equal ones, the later), until no such pair is left. As in PLINK 1.9, one
    variant is left out for each first partner and pass.

    Parameters
    ----------
    ld : LD

    Examples
    --------
    >>> a, b = np.array([0, 1, 2, 0, 1, 2]), np.array([0, 0, 1, 1, 0, 2])
    >>> pruner = Pruner(LD(10, 1, 0.5))
    >>> pruner.push(np.array([a, a, b], dtype=np.int8), np.full(3, 0.5))
    >>> pruner.finish()
    >>> pruner.pruned, pruner.decided
    ({1}, 3)
    """

    def __init__(self, ld: LD) -> None:
        self.ld = ld
        self.decided = 0  # variants before this position are kept, or pruned, for good
        self.pruned: set[int] = set()
        self._end = 0  # variants that have come
        self._done = 0  # variants that were the last of a window
        self._maf: dict[int, float] = {}
        self._later: dict[int, list[int]] = {}  # correlated variants that come later, within a window
        self._linked: set[int] = set()  # variants that are correlated with an earlier one
        self._tail: Array | None = None

    def push(self, values: Array, maf: Array) -> None:
        """Add variants (b, n) of the chromosome, in order of position."""
        for first in range(0, len(values), STRIP):
            strip = as_floats(values[first : first + STRIP])
            self._link(strip)
            found = maf[first : first + STRIP].tolist()
            self._maf |= dict(enumerate(found, start=self._end))
            self._end += len(strip)
        while self.decided + self.ld.window <= self._end:
            self._prune(self.decided + self.ld.window)
            self._move(self.decided + self.ld.step)

    def finish(self) -> None:
        """The chromosome has no more variants."""
        while self._done < self._end:
            self._prune(min(self.decided + self.ld.window, self._end))
            self._move(self.decided + self.ld.step if self._done < self._end else self._end)
        self._move(self._end)

    def _link(self, strip: Array) -> None:
        """Find the variants that are correlated with those of a strip."""
        before = strip[:0] if self._tail is None else self._tail
        both = np.concatenate([before, strip])
        linked = squared_correlations(strip, both) > self.ld.r2
        first = self._end - len(before)
        for new, old in np.argwhere(linked).tolist():
            later, earlier = self._end + new, first + old
            if earlier < later < earlier + self.ld.window:
                self._later.setdefault(earlier, []).append(later)
                self._linked.add(later)
        self._tail = both[-(self.ld.window - 1) :] if self.ld.window > 1 else both[:0]

    def _prune(self, end: int) -> None:
        """Prune the window that ends before this position."""
        new = range(self._done, end)
        changed = not self._linked.isdisjoint(new)
        while changed:
            changed = False
            for i in range(self.decided, end):
                partner = None if i in self.pruned else self._partner(i, end)
                if partner is not None:
                    self.pruned.add(i if self._maf[i] < EQUAL * self._maf[partner] else partner)
                    changed = True
        self._done = end

    def _partner(self, i: int, end: int) -> int | None:
        """The first remaining variant of the window that comes later and is correlated."""
        return next((j for j in self._later.get(i, ()) if j < end and j not in self.pruned), None)

    def _move(self, start: int) -> None:
        for i in range(self.decided, start):
            self._maf.pop(i, None)
            self._later.pop(i, None)
            self._linked.discard(i)
        self.decided = start


def squared_correlations(X: Array, Y: Array) -> Array:
    """Squared correlations of rows of X and Y, over the subjects that both have; 0 where constant."""
    known_x, known_y = ~np.isnan(X), ~np.isnan(Y)
    if known_x.all() and known_y.all():
        A, B = X - X.mean(axis=1, keepdims=True), Y - Y.mean(axis=1, keepdims=True)
        size = np.outer((A**2).sum(axis=1), (B**2).sum(axis=1))
        return np.asarray(np.divide((A @ B.T) ** 2, size, out=np.zeros_like(size), where=size > 0))
    x, y = np.where(known_x, X, 0).astype(np.float64), np.where(known_y, Y, 0).astype(np.float64)
    kx, ky = known_x.astype(np.float64), known_y.astype(np.float64)
    n = np.maximum(kx @ ky.T, 1.0)
    sx, sy = x @ ky.T, kx @ y.T
    cross = x @ y.T - sx * sy / n
    size = (x**2 @ ky.T - sx**2 / n) * (kx @ (y**2).T - sy**2 / n)
    return np.asarray(np.divide(cross**2, size, out=np.zeros_like(size), where=size > 1e-12))
