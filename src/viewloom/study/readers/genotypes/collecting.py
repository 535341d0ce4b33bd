"""Variants that pass the filters, collected block by block."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pandas as pd

from viewloom.study.errors import StudyError
from viewloom.study.notes import Note, count_note
from viewloom.study.readers.genotypes.counts import Counts
from viewloom.study.readers.genotypes.filters import Filters
from viewloom.study.readers.genotypes.panel import chromosomes
from viewloom.study.readers.genotypes.pruning import LD, Pruner
from viewloom.study.readers.genotypes.sources import Block, Chooser, Source, Tallied, Tallies

Array = np.ndarray
Kept = tuple[pd.DataFrame, Array, Array]  # rows of a panel, values of these and others, and which


class Collection:
    """The variants of one or several files that are kept, never all variants at a time.

    Parameters
    ----------
    n : int
        Number of subjects.
    filters : Filters
    ld : LD or None
        How to prune variants in linkage disequilibrium.
    """

    def __init__(self, n: int, filters: Filters, ld: LD | None = None) -> None:
        self.n, self.filters, self.ld = n, filters, ld
        self.rows: list[pd.DataFrame] = []
        self.counts = Counts(n)
        self.chosen = self.pruned = 0
        self._current: _Chromosome | None = None

    def choosing(self, source: Source, choose: Chooser, alone: bool) -> Chooser:
        """Leave out variants by counts of calls, where the source has them, before anything is decoded.

        Where it is the only one, room is reserved for the others.
        """
        if not isinstance(source, Tallied) or not (self.filters.min_maf or self.filters.min_call_rate):
            return choose

        def common(rows: pd.DataFrame) -> Array:
            wanted = choose(rows)
            found = source.tallies(wanted, self.filters.unlike(self.n))
            left = wanted if found is None else self._common(wanted, found)
            if alone and found is not None:
                self.counts.reserve(int(left.sum()), certain=self.ld is None and not self.filters.min_info)
            return left

        return common

    def _common(self, wanted: Array, found: Tallies) -> Array:
        """Which of the wanted variants are called in enough subjects and common enough."""
        kept, _ = self.filters.common(found.calls, found.copies, self.n)
        self.filters.leave_out_rare(len(found.rare))
        self.chosen += int((~kept).sum()) + len(found.rare)
        left = wanted.copy()
        left[found.at], left[found.rare] = kept, False
        return left

    def add(self, block: Block) -> None:
        """Add variants that are chosen."""
        self.chosen += len(block.rows)
        kept, frequency = self.filters.passed(block)
        rows, at = block.rows[kept].assign(frequency=frequency[kept]), np.flatnonzero(kept)
        if self.ld is None:
            self._append(rows, block.calls, at)
            return
        values = block.calls if len(at) == len(kept) else block.calls[at]
        names = np.array(chromosomes(rows["chromosome"]), dtype=object)
        edges = [0, *(np.flatnonzero(names[1:] != names[:-1]) + 1).tolist(), len(names)]
        for start, end in pairwise(edges):
            if start < end:
                self._push(str(names[start]), rows.iloc[start:end], values[start:end], self.ld)
        if self._current is not None:
            self._current.keep_waiting()

    def finish(self) -> tuple[pd.DataFrame, Array]:
        """The rows of the panel, and the counts (d, n)."""
        self._close()
        if not self.rows:
            return pd.DataFrame(columns=["variant", "frequency"]), np.empty((0, self.n))
        rows = pd.concat(self.rows, ignore_index=True)
        self.rows = []
        return rows, self.counts.whole()

    @property
    def notes(self) -> list[Note]:
        """What was left out."""
        if self.ld is None:
            return self.filters.notes
        text = f"in linkage disequilibrium (r2 above {self.ld.r2:g}) with another"
        pruned = count_note(self.pruned, f"variant {text}", f"variants {text}", public=True)
        return [*self.filters.notes, *pruned]

    def _push(self, name: str, rows: pd.DataFrame, values: Array, ld: LD) -> None:
        if self._current is None or self._current.name != name:
            self._close()
            self._current = _Chromosome(name, ld)
        for ready in self._current.push(rows, values):
            self._append(*ready)

    def _close(self) -> None:
        if self._current is not None:
            for ready in self._current.finish():
                self._append(*ready)
            self.pruned += len(self._current.pruner.pruned)
            self._current = None

    def _append(self, rows: pd.DataFrame, values: Array, at: Array) -> None:
        if len(rows):
            self.rows.append(rows)
            self.counts.append(values, at)


class _Chromosome:
    """Variants of a chromosome until the pruner has decided on them."""

    def __init__(self, name: str, ld: LD) -> None:
        self.name, self.pruner = name, Pruner(ld)
        self._waiting: list[tuple[int, pd.DataFrame, Array]] = []
        self._end, self._last = 0, -1

    def push(self, rows: pd.DataFrame, values: Array) -> Iterator[Kept]:
        """Add variants; yields those that are kept for good."""
        positions = rows["position"].to_numpy()
        if positions[0] < self._last or (np.diff(positions) < 0).any():
            raise StudyError(
                f"chromosome {self.name}: variants are not sorted by position, which ld_prune needs; sort "
                "the file with plink2 --sort-vars."
            )
        self._last = int(positions[-1])
        self._waiting.append((self._end, rows, values))
        self._end += len(rows)
        frequency = rows["frequency"].to_numpy()
        self.pruner.push(values, np.minimum(frequency, 1.0 - frequency))
        yield from self._ready()

    def finish(self) -> Iterator[Kept]:
        """The rest of the variants that are kept."""
        self.pruner.finish()
        yield from self._ready()

    def keep_waiting(self) -> None:
        """Copy the values of variants that are not decided; those that came may be overwritten."""
        self._waiting = [(start, rows, values.copy()) for start, rows, values in self._waiting]

    def _ready(self) -> Iterator[Kept]:
        while self._waiting and self._waiting[0][0] < self.pruner.decided:
            start, rows, values = self._waiting.pop(0)
            end = min(self.pruner.decided - start, len(rows))
            if end < len(rows):
                self._waiting.insert(0, (start + end, rows.iloc[end:], values[end:]))
            at = np.array([i for i in range(end) if start + i not in self.pruner.pruned], dtype=np.intp)
            yield rows.iloc[at], values, at
