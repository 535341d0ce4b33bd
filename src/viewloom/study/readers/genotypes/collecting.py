"""Variants that pass the filters, collected block by block."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pandas as pd

from viewloom.study.errors import StudyError
from viewloom.study.notes import Note, count_note
from viewloom.study.readers.genotypes.filters import Filters
from viewloom.study.readers.genotypes.panel import chromosomes
from viewloom.study.readers.genotypes.pruning import LD, Pruner
from viewloom.study.readers.genotypes.sources import Block, Chooser, Source, Tallied, stacked

Array = np.ndarray


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
        self.calls: list[Array] = []
        self.chosen = self.pruned = 0
        self._current: _Chromosome | None = None

    def choosing(self, source: Source, choose: Chooser) -> Chooser:
        """Leave out variants by counts of calls, where the source has them, before anything is decoded."""
        if not isinstance(source, Tallied) or not (self.filters.min_maf or self.filters.min_call_rate):
            return choose

        def common(rows: pd.DataFrame) -> Array:
            wanted = choose(rows)
            found = source.tallies(wanted)
            if found is None:
                return wanted
            at, n, total = found
            kept, _ = self.filters.common(n, total, len(source.ids))
            self.chosen += int((~kept).sum())
            left = wanted.copy()
            left[at] = kept
            return left

        return common

    def add(self, block: Block) -> None:
        """Add variants that are chosen."""
        self.chosen += len(block.rows)
        kept, frequency = self.filters.passed(block)
        rows, values = block.rows[kept].assign(frequency=frequency[kept]), block.calls[kept]
        if self.ld is None:
            self._append(rows, values)
            return
        names = np.array(chromosomes(rows["chromosome"]), dtype=object)
        edges = [0, *(np.flatnonzero(names[1:] != names[:-1]) + 1).tolist(), len(names)]
        for start, end in pairwise(edges):
            if start < end:
                self._push(str(names[start]), rows.iloc[start:end], values[start:end], self.ld)

    def finish(self) -> tuple[pd.DataFrame, Array]:
        """The rows of the panel, and the counts (d, n)."""
        self._close()
        if not self.rows:
            return pd.DataFrame(columns=["variant", "frequency"]), np.empty((0, self.n))
        rows = pd.concat(self.rows, ignore_index=True)
        self.rows = []
        parts, self.calls = self.calls, []
        return rows, stacked(parts, self.n)

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
        for ready, found in self._current.push(rows, values):
            self._append(ready, found)

    def _close(self) -> None:
        if self._current is not None:
            for ready, found in self._current.finish():
                self._append(ready, found)
            self.pruned += len(self._current.pruner.pruned)
            self._current = None

    def _append(self, rows: pd.DataFrame, values: Array) -> None:
        if len(rows):
            self.rows.append(rows)
            self.calls.append(values)


class _Chromosome:
    """Variants of a chromosome until the pruner has decided on them."""

    def __init__(self, name: str, ld: LD) -> None:
        self.name, self.pruner = name, Pruner(ld)
        self._waiting: list[tuple[int, pd.DataFrame, Array]] = []
        self._end, self._last = 0, -1

    def push(self, rows: pd.DataFrame, values: Array) -> Iterator[tuple[pd.DataFrame, Array]]:
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

    def finish(self) -> Iterator[tuple[pd.DataFrame, Array]]:
        """The rest of the variants that are kept."""
        self.pruner.finish()
        yield from self._ready()

    def _ready(self) -> Iterator[tuple[pd.DataFrame, Array]]:
        while self._waiting and self._waiting[0][0] + len(self._waiting[0][1]) <= self.pruner.decided:
            start, rows, values = self._waiting.pop(0)
            kept = np.array([start + i not in self.pruner.pruned for i in range(len(rows))], dtype=bool)
            yield rows[kept], values[kept]
