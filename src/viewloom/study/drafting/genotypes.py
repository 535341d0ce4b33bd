"""Files of genotypes in a folder, as possible views."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from viewloom.study import readers
from viewloom.study.drafting import kinds
from viewloom.study.errors import StudyError
from viewloom.study.readers.genotypes.bgen import BgenSource, sample_beside
from viewloom.study.readers.genotypes.pgen import PgenSource, beside
from viewloom.study.readers.genotypes.sources import Source
from viewloom.study.readers.genotypes.vcf import VcfSource
from viewloom.study.readers.plink import BedSource, is_bed
from viewloom.study.wording import counted

if TYPE_CHECKING:
    from viewloom.study.drafting.found import Found

UNUSABLE = ("permission denied", "not a regular file", "an empty file")
INTERVALS = "a list of intervals (BED of genome browsers), not PLINK genotypes"
SETTINGS = {"min_maf": 0.01, "min_call_rate": 0.95}
SOURCES: dict[str, tuple[str, Callable[[Path], Source]]] = {  # end of a name -> kind of file, and its source
    ".bed": ("PLINK genotypes", BedSource),
    ".pgen": ("PLINK 2 genotypes", PgenSource),
    ".bgen": ("imputed genotypes (BGEN)", BgenSource),
    ".vcf": ("variant calls (VCF)", VcfSource),
    ".vcf.gz": ("variant calls (VCF)", VcfSource),
    ".vcf.bgz": ("variant calls (VCF)", VcfSource),
    ".bcf": ("variant calls (BCF)", VcfSource),
}
BESIDE = {".bed": (".bim", ".fam"), ".pgen": (".pvar", ".psam")}


def ending(path: Path) -> str | None:
    """The end of the name that says that a file has genotypes.

    >>> ending(Path("chr1.vcf.gz")), ending(Path("chr1.csv"))
    ('.vcf.gz', None)
    """
    name = path.name.lower()
    return next((end for end in sorted(SOURCES, key=len, reverse=True) if name.endswith(end)), None)


def genotype_files(files: Sequence[Path], found: Found) -> set[Path]:
    """Add a candidate for each file of genotypes; returns all files that are explained by that."""
    explained: set[Path] = set()
    there = set(files)
    for path in files:
        end = ending(path)
        if end is None:
            continue
        explained.add(path)
        others = _others(path, end)
        why = _why_not(path, end, [other for other in others if other not in there])
        if why is None:
            why = _add(path, end, others, found)
        explained.update(others if why is None else ())
        if why is not None:
            found.pass_over(path, why)
    return explained


def _others(path: Path, end: str) -> list[Path]:
    """Files that belong to one of genotypes, present or not."""
    if end == ".bgen":
        sample = sample_beside(path)
        return [] if sample is None else [sample]
    if end == ".pgen":
        zipped = beside(path, ".pvar", ".pvar.zst", ".bim")
        people = beside(path, ".psam", ".fam")
        return [zipped or path.with_suffix(".pvar"), people or path.with_suffix(".psam")]
    return [path.with_suffix(suffix) for suffix in BESIDE.get(end, ())]


def _why_not(path: Path, end: str, absent: Sequence[Path]) -> str | None:
    """Why a file cannot be used, as far as its name and first bytes tell."""
    broken = kinds.unreadable_as(path)
    if broken in UNUSABLE or (broken or "").startswith(("a link", "a Git", "a git")):
        return broken
    if end == ".bed" and not is_bed(path):
        return INTERVALS
    if absent:
        lacking = " and ".join(other.suffix for other in absent)
        return f"{SOURCES[end][0]} without {lacking}; {', '.join(BESIDE[end])} and {end} belong together"
    return None


def _add(path: Path, end: str, others: list[Path], found: Found) -> str | None:
    """Add a candidate; or the reason why the file cannot be read."""
    from viewloom.study.drafting.found import Candidate

    kind, opened = SOURCES[end]
    try:
        source = opened(path)
        rows = _first_variants(source)
    except (StudyError, ImportError) as error:
        return str(error).removeprefix(f"{path.name}: ").rstrip(".")
    if rows is None:
        return f"{kind} without variants"
    features = (rows["chromosome"] + " " + rows["variant"] + " " + rows["position"].astype(str)).tolist()
    number = counted(source.size, "variant") if source.size else "variants counted when read"
    remarks = [f"{kind}: {counted(len(source.ids), 'subject')}, {number}"]
    name, format = path.name[: -len(end)], str(readers.owner(path))
    view = Candidate(name, [path], format, dict(SETTINGS), list(source.ids), features, remarks, beside=others)
    found.views.append(view)
    return None


def _first_variants(source: Source) -> pd.DataFrame | None:
    """Rows of the panel in the first block of a file, without any calls."""
    seen = list[pd.DataFrame]()

    def look(rows: pd.DataFrame) -> np.ndarray:
        seen.append(rows)
        return np.zeros(len(rows), dtype=bool)

    next(source.blocks(look), None)
    return seen[0] if seen and len(seen[0]) else None
