"""Variants of a file matched with those of a panel: by name or place, and by alleles on either strand."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import log

import numpy as np
import pandas as pd

from viewloom.study.readers.genotypes.panel import Panel, chromosomes
from viewloom.study.readers.genotypes.sources import Block, exchanged, totals

Array = np.ndarray
COMPLEMENT = str.maketrans("ACGT", "TGCA")
SAME, SWAPPED, FLIPPED, BOTH = "same", "swapped", "flipped", "flipped and swapped"
EXCHANGED = (SWAPPED, BOTH)  # the file counts the other allele
OTHER_STRAND = (FLIPPED, BOTH)
EVIDENCE = log(1000.0)  # of allele frequencies for one strand against the other
LEAST_TO_TRUST = (
    5  # unambiguous variants, all on the same strand, before ambiguous ones are taken to be as well
)


@dataclass(frozen=True)
class Match:
    """A variant of a block, and the one of the panel that it is."""

    at: int
    of: int
    how: str
    ambiguous: bool
    by_name: bool
    same_place: bool


class Matching:
    """Finds the variants of a panel in a file; called with rows of the file, which of them may match."""

    def __init__(self, panel: Panel) -> None:
        rows = panel.rows
        self.alleles = [
            (str(c).upper(), str(o).upper()) for c, o in zip(rows["counted"], rows["other"], strict=True)
        ]
        self.places = _places(rows)
        self._named = _positions(rows["variant"])
        known = rows["position"].to_numpy() > 0
        self._placed = _positions(
            place if there else None for place, there in zip(self.places, known, strict=True)
        )
        self.elsewhere: set[int] = set()  # variants whose name was found with other alleles

    def __call__(self, rows: pd.DataFrame) -> Array:
        """Which variants have a name or a place of the panel."""
        named = rows["variant"].isin(self._named.keys()).to_numpy()
        if not self._placed:
            return named
        return np.asarray(named | pd.Series(_places(rows)).isin(self._placed.keys()).to_numpy())

    def of(self, rows: pd.DataFrame) -> Iterator[Match]:
        """The matches of some rows."""
        pairs = zip(rows["counted"], rows["other"], strict=True)
        for at, (name, place, (a, b)) in enumerate(zip(rows["variant"], _places(rows), pairs, strict=True)):
            named = self._named.get(name, ())
            placed = [j for j in self._placed.get(place, ()) if j not in named]
            for j in (*named, *placed):
                counted, other = self.alleles[j]
                how = relation(counted, other, str(a).upper(), str(b).upper())
                if how is None:
                    self.elsewhere.update([j] if j in named else [])
                else:
                    unclear = is_ambiguous(counted, other or _partner(counted, a, b))
                    yield Match(at, j, how, unclear, j in named, self.places[j] == place)


def relation(counted: str, other: str, a: str, b: str) -> str | None:
    """How alleles a (counted) and b of a file relate to those of a panel; None where they are others.

    An unknown allele ("") may be any, but the other strand is only considered where both are known.

    >>> relation("A", "G", "A", "G"), relation("A", "G", "G", "A"), relation("A", "G", "T", "C")
    ('same', 'swapped', 'flipped')
    >>> relation("A", "G", "C", "T"), relation("A", "", "G", "A"), relation("A", "G", "A", "T")
    ('flipped and swapped', 'swapped', None)
    """
    if _fits(counted, other, a, b):
        return SAME
    if _fits(counted, other, b, a):
        return SWAPPED
    ca, cb = complement(a), complement(b)
    if not (counted and other and (ca or cb)):
        return None
    if _fits(counted, other, ca, cb):
        return FLIPPED
    return BOTH if _fits(counted, other, cb, ca) else None


def _fits(counted: str, other: str, a: str, b: str) -> bool:
    """Whether pairs of alleles agree where both are known, and in at least one of them."""
    pairs = [(counted, a), (other, b)]
    return all(x == y for x, y in pairs if x and y) and any(x and x == y for x, y in pairs)


def complement(allele: str) -> str:
    """The allele on the other strand; "" where it is not written in bases.

    >>> complement("AC"), complement("<DEL>")
    ('GT', '')
    """
    return allele.translate(COMPLEMENT)[::-1] if allele and set(allele) <= set("ACGT") else ""


def is_ambiguous(counted: str, other: str) -> bool:
    """Whether the alleles are the same on both strands, as of A/T and C/G."""
    return bool(counted) and complement(counted) == other


def same_strand_evidence(values: Array, frequency: Array) -> Array:
    """Log-likelihood that counts (b, n) have the strand of the panel, against the other one.

    Of m alleles x are counted ones, and their frequency in the panel is f: (2 x - m) log(f / (1 - f)).

    >>> same_strand_evidence(np.array([[2, 2, 1, 2]], dtype=np.int8), np.array([0.9])).round(1)
    array([13.2])
    """
    n, x = totals(values)
    f = np.clip(frequency, 1e-3, 1.0 - 1e-3)
    return np.nan_to_num((2.0 * x - 2.0 * n) * np.log(f / (1.0 - f)))


def _partner(counted: str, a: str, b: str) -> str:
    """The other allele by the file, where the panel does not know it."""
    a, b = str(a).upper(), str(b).upper()
    return b if a == counted else a


def _places(rows: pd.DataFrame) -> list[str]:
    names = chromosomes(rows["chromosome"])
    return [f"{name}:{position}" for name, position in zip(names, rows["position"], strict=True)]


def _positions(names: Sequence[str | None] | Iterator[str | None] | pd.Series) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for j, name in enumerate(names):
        if name is not None:
            found.setdefault(str(name), []).append(j)
    return found


def oriented(block: Block, match: Match) -> Array:
    """Counts (n,) of the allele that the panel counts."""
    row = block.calls[match.at]
    return exchanged(row) if match.how in EXCHANGED else row
