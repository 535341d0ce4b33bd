"""Genotypes of new subjects as a stored model counts them."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from viewloom.study.errors import StudyError
from viewloom.study.notes import Note, count_note
from viewloom.study.readers.genotypes.matching import (
    EVIDENCE,
    EXCHANGED,
    LEAST_TO_TRUST,
    OTHER_STRAND,
    Match,
    Matching,
    oriented,
    same_strand_evidence,
)
from viewloom.study.readers.genotypes.panel import Panel
from viewloom.study.readers.genotypes.sources import Block, as_floats, exchanged, precision

Array = np.ndarray
OTHER_BUILD = 0.1  # share of variants of the same name at another place, above which places are not compared


@dataclass
class Harmonised:
    """Collects the variants of a panel from blocks of a file.

    Parameters
    ----------
    panel : Panel
    n : int
        Number of subjects.
    """

    panel: Panel
    n: int
    rows: dict[int, Array] = field(default_factory=dict)
    matches: dict[int, Match] = field(default_factory=dict)
    repeated: int = 0

    def __post_init__(self) -> None:
        self.matching = Matching(self.panel)

    def add(self, block: Block) -> None:
        """Take what the panel has; a variant found by name is preferred to one found by place."""
        for match in self.matching.of(block.rows):
            before = self.matches.get(match.of)
            if before is not None and before.by_name >= match.by_name:
                self.repeated += before.by_name == match.by_name
                continue
            self.matches[match.of], self.rows[match.of] = match, oriented(block, match).copy()

    def finish(self, max_absent: float, path: Path) -> tuple[Array, list[Note]]:
        """Counts (d, n) of all features of the panel, NaN where absent, and what was done."""
        notes = self._without_other_build()
        notes += self._strands()
        absent = len(self.panel) - len(self.rows)
        _check_absent(absent, len(self.panel), max_absent, path)
        kind = precision(len(self.panel), self.n)
        values: Array = np.full((len(self.panel), self.n), np.nan, dtype=kind)
        for j, row in self.rows.items():
            values[j] = as_floats(row, kind)
        hows = [match.how for match in self.matches.values()]
        text = "that the file counts by the other allele counted as in the model"
        notes += _note(sum(how in EXCHANGED for how in hows), text)
        others = len(self.matching.elsewhere - set(self.matches))
        notes += _note(others, "with other alleles than in the model treated as absent")
        notes += _note(self.repeated, "that the file has more than once read once")
        return values, [
            *notes,
            *_note(absent, "of the model absent, replaced by the mean of the training data"),
        ]

    def _without_other_build(self) -> list[Note]:
        """Drop matches by place where names show that places are of another genome build."""
        known = [match for match in self.matches.values() if match.by_name and self._has_place(match.of)]
        moved = sum(not match.same_place for match in known)
        placed = [j for j, match in self.matches.items() if not match.by_name]
        if not placed:
            return []
        if moved <= OTHER_BUILD * len(known):
            return _note(len(placed), "of another name matched by place and alleles")
        self._drop(placed)
        return _note(len(placed), "not matched by place, since the genome build is another")

    def _has_place(self, j: int) -> bool:
        return bool(self.panel.rows["position"].iloc[j] > 0)

    def _strands(self) -> list[Note]:
        """Decide on the strand of variants that are the same on both, by the others and by frequency."""
        sure = [match.how for match in self.matches.values() if not match.ambiguous]
        flipped = sum(how in OTHER_STRAND for how in sure)
        trusted = len(sure) >= LEAST_TO_TRUST and not flipped
        at = [j for j, match in self.matches.items() if match.ambiguous]
        turned, unknown = list[int](), list[int]()
        for j in at:
            frequency = self.panel.rows["frequency"].to_numpy(dtype=float)[[j]]
            evidence = float(same_strand_evidence(self.rows[j][None], frequency)[0])
            if evidence < -EVIDENCE and not trusted:
                turned.append(j)
            elif evidence < -EVIDENCE or (evidence < EVIDENCE and not trusted):
                unknown.append(j)
        for j in turned:
            self.rows[j] = exchanged(self.rows[j])
        self._drop(unknown)
        return [
            *_note(flipped, "on the other strand than in the model turned"),
            *_note(len(turned), "with alleles A/T or C/G turned, by their frequency"),
            *_note(len(unknown), "with alleles A/T or C/G and of unknown strand treated as absent"),
        ]

    def _drop(self, at: list[int]) -> None:
        for j in at:
            del self.rows[j], self.matches[j]


def _check_absent(absent: int, total: int, bound: float, path: Path) -> None:
    if absent > bound * total:
        raise StudyError(
            f"{path.name}: {absent} of the {total} variants of the model are absent, more than max_absent = "
            f"{bound:g} allows; use imputed genotypes, check names and genome build, or raise max_absent."
        )


def _note(count: int, text: str) -> list[Note]:
    return count_note(count, "variant", text=text, public=True)
