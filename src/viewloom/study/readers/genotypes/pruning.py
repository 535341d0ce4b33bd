"""Pruning of variants in linkage disequilibrium, in one pass over the file."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from viewloom.study.readers.genotypes.correlations import Strip, squared_correlations

Array = np.ndarray
STRIP = 64  # variants whose correlations are computed at a time
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
        self._recent: list[tuple[int, Strip]] = []  # within a window of what comes next, and where they begin

    def push(self, values: Array, maf: Array) -> None:
        """Add variants (b, n) of the chromosome, in order of position."""
        for first in range(0, len(values), STRIP):
            self._link(values[first : first + STRIP])
            found = maf[first : first + STRIP].tolist()
            self._maf |= dict(enumerate(found, start=self._end))
            self._end += len(found)
        while self.decided + self.ld.window <= self._end:
            self._prune(self.decided + self.ld.window)
            self._move(self.decided + self.ld.step)

    def finish(self) -> None:
        """The chromosome has no more variants."""
        while self._done < self._end:
            self._prune(min(self.decided + self.ld.window, self._end))
            self._move(self.decided + self.ld.step if self._done < self._end else self._end)
        self._move(self._end)

    def _link(self, values: Array) -> None:
        """Find pairs of correlated variants, of which the later one is among these."""
        strip, reach = Strip.of(values), self._end - self.ld.window + 1
        self._recent = [(first, old) for first, old in self._recent if first + len(old.x) > reach]
        self._recent.append((self._end, strip))
        for first, old in self._recent:
            for i, j in np.argwhere(squared_correlations(old, strip) > self.ld.r2).tolist():
                earlier, later = first + i, self._end + j
                if earlier < later < earlier + self.ld.window:
                    self._later.setdefault(earlier, []).append(later)
                    self._linked.add(later)

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
