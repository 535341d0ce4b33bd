"""Filters of variants by call rate, allele frequency and quality of imputation, counted by reason."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from viewloom.study.notes import Note, count_note
from viewloom.study.readers.genotypes.sources import Block, called, totals

Array = np.ndarray
ROUNDING = 1e-9  # of frequencies


@dataclass(frozen=True)
class Filters:
    """Variants with sufficient call rate, allele frequency and quality; and how many have not.

    Attributes
    ----------
    min_maf, min_call_rate, min_info : float
    counts : Counter
        Variants left out so far, by the name of the limit that they are below.
    """

    min_maf: float = 0.0
    min_call_rate: float = 0.0
    min_info: float = 0.0
    counts: Counter[str] = field(default_factory=Counter)

    def passed(self, block: Block) -> tuple[Array, Array]:
        """Which variants of a block are kept, and the frequencies of the counted allele, or NaN."""
        n, total = totals(block.calls)
        kept, frequency = self.common(n, total, block.calls.shape[1])
        self._leave_out("quality of imputation", self._poor(block, frequency), kept)
        return kept, frequency

    def common(self, n: Array, total: Array, subjects: int) -> tuple[Array, Array]:
        """As `passed`, by numbers of calls and of counted alleles, without the quality of imputation."""
        with np.errstate(invalid="ignore", divide="ignore"):
            frequency = total / (2.0 * n)
        minor = np.minimum(frequency, 1.0 - frequency)
        kept = np.ones(len(n), dtype=bool)
        self._leave_out("call rate", n < self.min_call_rate * subjects, kept)
        self._leave_out("minor allele frequency", np.nan_to_num(minor) < self.min_maf, kept)
        return kept, frequency

    def unlike(self, subjects: int) -> int:
        """How many subjects may differ from all others, homozygous alike, in variants that are too rare.

        Where K differ, at least ``n - K`` have a call, and the minor allele has at most 2 K copies. -1 where
        there is no such number.
        """
        few = np.arange(subjects)
        rare = few / (subjects - few) < self.min_maf * (1.0 - ROUNDING)
        called = subjects - few >= self.min_call_rate * subjects
        return int(np.flatnonzero(rare & called).max(initial=-1))

    def leave_out_rare(self, count: int) -> None:
        """Count variants that are known to be too rare."""
        self.counts["minor allele frequency"] += count

    def _leave_out(self, name: str, poor: Array, kept: Array) -> None:
        self.counts[name] += int((poor & kept).sum())
        kept &= ~poor

    def _poor(self, block: Block, frequency: Array) -> Array:
        if not self.min_info:
            return np.zeros(len(frequency), dtype=bool)
        info = (
            block.rows["info"].to_numpy(dtype=float)
            if "info" in block.rows
            else np.full(len(frequency), np.nan)
        )
        unknown = np.isnan(info)
        if unknown.any():
            info = np.where(unknown, imputation_r2(block.calls, frequency), info)
        return ~(info >= self.min_info)

    @property
    def notes(self) -> list[Note]:
        """What was left out."""
        limits = (
            ("call rate", "a call rate", self.min_call_rate),
            ("minor allele frequency", "a minor allele frequency", self.min_maf),
            ("quality of imputation", "a quality of imputation", self.min_info),
        )
        found = list[Note]()
        for key, name, limit in limits:
            text = f"below {name} of {limit}"
            found += count_note(self.counts[key], f"variant {text}", f"variants {text}", public=True)
        return found


def imputation_r2(values: Array, frequency: Array) -> Array:
    """Variance of dosages relative to that of true counts, ``var(d) / (2 p (1 - p))`` (MaCH, PLINK 2).

    >>> calls = np.array([[0, 1, 1, 2], [0, 1, 1, 2]]).astype(np.float32)
    >>> imputation_r2(calls, np.array([0.5, 0.5]))
    array([1., 1.])
    """
    known = called(values)
    centred = np.where(known, values - 2.0 * frequency[:, None], 0.0)
    variance = (centred**2).sum(axis=1) / np.maximum(known.sum(axis=1), 1)
    expected = 2.0 * frequency * (1.0 - frequency)
    return np.asarray(np.divide(variance, expected, out=np.zeros(len(variance)), where=expected > 0))
