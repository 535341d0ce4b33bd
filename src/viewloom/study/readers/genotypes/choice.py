"""Which variants to read: by name, by a list in a file, or by region or gene."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import translate
from pathlib import Path

import numpy as np
import pandas as pd

from viewloom.data.naming import listed
from viewloom.study.errors import StudyError, check_kind
from viewloom.study.readers.genotypes.panel import chromosomes
from viewloom.study.wording import counted

Array = np.ndarray
REGION = re.compile(r"(?:chr)?(?P<chromosome>[0-9A-Za-z]+)(?::(?P<start>[\d,]+)-(?P<end>[\d,]+))?")
COMMENTS = ("#", "track", "browser")
LAST = 2**40  # beyond the end of every chromosome
LARGEST_LIST = 2**28  # bytes of a list of variants or regions


@dataclass(frozen=True)
class Region:
    """Part of a chromosome; first and last position count from 1 and are both included."""

    chromosome: str
    first: int
    last: int

    @classmethod
    def parsed(cls, text: str) -> Region:
        """A region as people write it.

        >>> Region.parsed("chr19:44,905,000-44,910,000")
        Region(chromosome='19', first=44905000, last=44910000)
        >>> Region.parsed("21") == Region("21", 0, LAST)
        True
        """
        found = REGION.fullmatch(text.strip())
        if found is None:
            raise StudyError(
                f"regions: {text!r} is no region; write chromosome:from-to, as 19:44905000-44910000."
            )
        (chromosome,) = chromosomes([found["chromosome"]])
        if found["start"] is None:
            return cls(chromosome, 0, LAST)
        first, last = (int(found[key].replace(",", "")) for key in ("start", "end"))
        if first > last:
            raise StudyError(f"regions: {text!r} ends before it begins.")
        return cls(chromosome, first, last)


class Choice:
    """The variants that a view asks for; called with rows of a panel, which of them to read.

    Parameters
    ----------
    variants : sequence of str, optional
        Names or shell patterns.
    names : set of str, optional
        Names of a list.
    regions : sequence of Region, optional
        A variant must lie in one of them; and, where names are given, have one of them.
    """

    def __init__(
        self,
        variants: Sequence[str] | None = None,
        names: set[str] | None = None,
        regions: Sequence[Region] | None = None,
    ) -> None:
        self.variants, self.names = variants, names
        wild = [name for name in variants or () if re.search(r"[*?\[]", name)]
        self._exact = set(variants or ())
        self._pattern = re.compile("|".join(map(translate, wild))) if wild else None
        self._regions = None if regions is None else _by_chromosome(regions)

    @property
    def everything(self) -> bool:
        """Whether all variants are read."""
        return self.variants is None and self.names is None and self._regions is None

    def __call__(self, rows: pd.DataFrame) -> Array:
        """Which variants are chosen."""
        kept = np.ones(len(rows), dtype=bool)
        if self.variants is not None:
            kept &= rows["variant"].isin(self._exact).to_numpy() | self._wild(rows["variant"])
        if self.names is not None:
            kept &= rows["variant"].isin(self.names).to_numpy()
        if self._regions is not None:
            kept &= _within(rows, self._regions)
        return kept

    def _wild(self, names: pd.Series) -> Array:
        if self._pattern is None:
            return np.zeros(len(names), dtype=bool)
        return np.array([self._pattern.match(name) is not None for name in names], dtype=bool)

    def nothing(self, path: Path) -> StudyError:
        """The error that no variant is chosen."""
        asked = (
            f"matches {listed(list(self.variants))} of variants"
            if self.variants
            else "is among those asked for"
        )
        return StudyError(f"{path.name}: no variant {asked}; check their spelling{self._or_build}.")

    @property
    def _or_build(self) -> str:
        return "" if self._regions is None else ", and the genome build of the regions"


def chosen(
    variants: Sequence[str] | None,
    variants_from: str | Path | None,
    regions: Sequence[str] | None,
    regions_from: str | Path | None,
    genes: Sequence[str] | None,
) -> Choice:
    """The choice that the options of a view describe."""
    if genes is not None and regions_from is None:
        raise StudyError(
            "genes needs regions_from: a BED file with the name of each gene in its fourth column."
        )
    names = None if variants_from is None else listed_names(Path(variants_from))
    places = [Region.parsed(text) for text in regions or ()]
    if regions_from is not None:
        places += intervals(Path(regions_from), genes)
    asked = regions is not None or regions_from is not None
    return Choice(variants, names, places if asked else None)


def text_lines(path: Path) -> list[str]:
    """Lines of a small text file, without comments."""
    check_kind(path)
    try:
        if path.stat().st_size > LARGEST_LIST:
            raise StudyError(
                f"{path.name}: larger than {LARGEST_LIST >> 20} MiB; name fewer variants or regions."
            )
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise StudyError(f"{path.name}: cannot be read as text ({type(error).__name__}).") from None
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith(COMMENTS)]
    if not lines:
        raise StudyError(f"{path.name}: the file is empty.")
    return lines


def listed_names(path: Path) -> set[str]:
    """Names of variants in the first column of a text, as for ``plink --extract``."""
    return {line.split()[0] for line in text_lines(path)}


def intervals(path: Path, genes: Iterable[str] | None = None) -> list[Region]:
    """Regions of a BED file: chromosome, start (from 0), end (not included) and, fourth, a name."""
    rows = [line.split() for line in text_lines(path)]
    bad = sum(len(row) < 3 or not (row[1].isdigit() and row[2].isdigit()) for row in rows)
    if bad:
        raise StudyError(
            f"{path.name}: {counted(bad, 'line is', 'lines are')} not chromosome, start and end; write a "
            "BED file."
        )
    if genes is not None:
        names = {row[3] for row in rows if len(row) > 3}
        absent = [gene for gene in genes if gene not in names]
        if absent:
            raise StudyError(
                f"{path.name}: no gene {listed(absent)} in its fourth column; check their spelling."
            )
        rows = [row for row in rows if len(row) > 3 and row[3] in set(genes)]
    places = chromosomes(row[0] for row in rows)
    return [Region(place, int(row[1]) + 1, int(row[2])) for place, row in zip(places, rows, strict=True)]


def _by_chromosome(regions: Iterable[Region]) -> dict[str, tuple[Array, Array]]:
    """By chromosome, the first and last positions of its regions, sorted and merged where they overlap."""
    merged: dict[str, list[list[int]]] = {}
    for region in sorted(regions, key=lambda one: (one.chromosome, one.first)):
        parts = merged.setdefault(region.chromosome, [])
        if parts and region.first <= parts[-1][1]:
            parts[-1][1] = max(parts[-1][1], region.last)
        else:
            parts.append([region.first, region.last])
    return {name: (np.array(parts)[:, 0], np.array(parts)[:, 1]) for name, parts in merged.items()}


def _within(rows: pd.DataFrame, regions: dict[str, tuple[Array, Array]]) -> Array:
    """Which variants lie in a region."""
    kept = np.zeros(len(rows), dtype=bool)
    places, positions = np.array(chromosomes(rows["chromosome"]), dtype=object), rows["position"].to_numpy()
    for name, (first, last) in regions.items():
        here = np.flatnonzero(places == name)
        at = np.searchsorted(first, positions[here], side="right") - 1
        kept[here] = (at >= 0) & (positions[here] <= last[np.maximum(at, 0)])
    return kept
