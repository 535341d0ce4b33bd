"""Genotypes of PLINK: ``.bed/.bim/.fam`` and ``.raw``, as counts of an allele, which is part of the name."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd

from viewloom.runtime.errors import MissingPackageError
from viewloom.study.errors import StudyError, check_kind
from viewloom.study.notes import Note, count_note
from viewloom.study.readers import frames
from viewloom.study.readers.formats import Sample
from viewloom.study.readers.genotypes.bits import tallied
from viewloom.study.readers.genotypes.listing import read_list, width
from viewloom.study.readers.genotypes.panel import UNKNOWN, feature_names, panel_rows, parsed_names, rows_at
from viewloom.study.readers.genotypes.reading import Paths, genotypes, with_options
from viewloom.study.readers.genotypes.sources import Block, Chooser, Tallies, block_size, slices
from viewloom.study.readers.tables import filled_rows
from viewloom.study.readers.text import find_dialect, load

MAGIC = b"\x6c\x1b"
BY_VARIANT, BY_SUBJECT = b"\1", b"\0"  # order of the calls, the third byte
PACKED = 2**20  # bytes of calls that are counted at a time
FAM = ["fid", "iid", "father", "mother", "sex", "phenotype"]
BIM = ["chromosome", "variant", "cm", "position", "counted", "other"]
RAW = ["FID", "IID", "PAT", "MAT", "SEX", "PHENOTYPE"]
DOMINANCE = "_HET"  # columns that PLINK adds with --recode AD
EXPORT = "export it again with plink --recode A"
ONE_IID = "subjects are identified by IID; make it unique with plink --update-ids"


@with_options
def read_bed(path: Paths, **options: Any) -> pd.DataFrame:
    """Read PLINK 1 genotypes.

    Parameters
    ----------
    path : path or list of paths
        The ``.bed`` file, or its path without the suffix; or several, as one per chromosome.
    **options
        See `genotypes.reading.Options`: ``min_maf``, ``min_call_rate``, ``variants`` and others.

    Returns
    -------
    DataFrame indexed by ``id``, the IID
        Column ``rs429358_C`` counts allele C, which is A1, the fifth column of the ``.bim``: 0, 1 or 2, and
        NaN where there is no call. A variant without an id is named ``chromosome:position``.

    Raises
    ------
    StudyError
        If one of the three files is missing, or the ``.bed`` does not match the others.
    ImportError
        Without bed-reader (``pip install viewloom[study]``).
    """
    return genotypes(path, BedSource, **options)


@with_options
def read_raw(path: Paths, **options: Any) -> pd.DataFrame:
    """Read ``.raw`` files of PLINK 1 (``--recode A``) or PLINK 2 (``--export A``), calls or dosages.

    Parameters
    ----------
    path : path or list of paths
        The ``.raw`` file, or several.
    **options
        As of `read_bed`.

    Returns
    -------
    DataFrame indexed by ``id``, the IID
        Named as by `read_bed`: ``rs1_A`` counts allele A, also where PLINK 2 wrote ``rs1_A(/G)``.
    """
    return genotypes(path, RawSource, **options)


class BedSource:
    """A ``.bed`` with its ``.bim`` and ``.fam``; see `genotypes.sources.Source`."""

    def __init__(self, path: Path) -> None:
        self.path = _bed_path(path)
        people = _beside(self.path.with_suffix(".fam"), FAM, ["iid"])
        self.panel = _panel(self.path.with_suffix(".bim"))
        self.size = len(self.panel)
        self.skipped: dict[str, int] = {}
        self.notes: list[Note] = []
        _check_bed(self.path, len(people), self.size)
        self.ids = frames.checked_ids(people["iid"], self.path.with_suffix(".fam"), hint=ONE_IID)

    def blocks(self, choose: Chooser) -> Iterator[Block]:
        """The chosen variants, as int8."""
        n, passed = len(self.ids), 0
        at = np.flatnonzero(choose(self.panel))
        with _bed_reader().open_bed(self.path, iid_count=n, sid_count=self.size) as file:
            for part in slices(at, block_size(n, 1)):
                run = slice(part[0], part[-1] + 1) if part[-1] - part[0] == len(part) - 1 else part
                calls = file.read(np.s_[:, run], dtype="int8", order="F").T
                np.maximum(calls, np.int8(-1), out=calls)  # -127 where there is no call
                yield Block(rows_at(self.panel, part), calls, int(part[-1]) + 1 - passed)
                passed = int(part[-1]) + 1

    def tallies(self, wanted: np.ndarray, unlike: int = -1) -> Tallies | None:
        """See `genotypes.sources.Tallied`; None where calls are stored by subject."""
        n, width = len(self.ids), -(-len(self.ids) // 4)
        calls, copies = np.zeros(self.size, dtype=np.int32), np.zeros(self.size)
        with self.path.open("rb") as file:
            if file.read(3)[2:] != BY_VARIANT:
                return None
            for part in slices(np.arange(self.size), max(1, PACKED // width)):
                if wanted[part].any():
                    file.seek(3 + int(part[0]) * width)
                    packed = np.fromfile(file, dtype=np.uint8, count=len(part) * width)
                    calls[part], copies[part] = tallied(packed.reshape(-1, width), n)
        at = np.flatnonzero(wanted)
        return Tallies(at, calls[at], copies[at], at[:0])


class RawSource:
    """A ``.raw``; see `genotypes.sources.Source`."""

    def __init__(self, path: Path) -> None:
        self.path, self.notes = path, list[Note]()
        dialect = find_dialect(path, candidates=[" ", "\t"], decimal=".")  # as PLINK writes
        raw = filled_rows(load(path, dialect, text=["FID", "#FID", "IID", "#IID"]), path, self.notes)
        raw = raw.set_axis([name.removeprefix("#") for name in raw.columns], axis=1)
        self.ids = frames.checked_ids(frames.column(raw, "IID", path, "id"), path, hint=ONE_IID)
        self._calls = raw.loc[:, [name not in RAW and not name.endswith(DOMINANCE) for name in raw.columns]]
        self._notation = dialect.notation
        dominance = sum(name.endswith(DOMINANCE) for name in raw.columns)
        self.notes += count_note(dominance, "column of dominance", "columns of dominance", public=True)
        names = parsed_names(self._calls.columns)
        self.panel = names.assign(chromosome="", position=UNKNOWN)
        self.size = len(names)
        self.skipped: dict[str, int] = {}

    def blocks(self, choose: Chooser) -> Iterator[Block]:
        """The chosen variants in one block."""
        at = np.flatnonzero(choose(self.panel))
        if not len(at):
            return
        rows = self.panel.iloc[at]
        cells = self._calls.iloc[:, at].set_axis(feature_names(rows, self.path), axis=1)
        frame = frames.numbers(cells, (), self.path, self.notes, way_out=EXPORT, notation=self._notation)
        strange = int(((frame < 0) | (frame > 2)).sum().sum())
        if strange:
            raise StudyError(f"{self.path.name}: {strange} calls are not between 0 and 2; {EXPORT}.")
        yield Block(rows, np.ascontiguousarray(frame.to_numpy().T), self.size)


def is_genotypes(sample: Sample) -> bool:
    """Whether a file is a ``.bed`` of PLINK."""
    return sample.path.is_file() and is_bed(sample.path)


def is_raw(sample: Sample) -> bool:
    """Whether a text has the first columns of a ``.raw``."""
    return sample.header[:2] in (RAW[:2], ["#FID", "IID"]) and sample.columns >= set(RAW[2:])


def is_bed(path: Path) -> bool:
    """Whether the file has the magic number of PLINK; lists of intervals are also named ``.bed``."""
    with path.open("rb") as file:
        return file.read(2) == MAGIC


def _bed_path(path: Path) -> Path:
    bed = path if path.suffix.lower() == ".bed" else path.with_name(path.name + ".bed")
    bed = path.with_suffix(".bed") if path.suffix in (".bim", ".fam") else bed
    for suffix in (".bed", ".bim", ".fam"):
        check_kind(bed.with_suffix(suffix))
        if not bed.with_suffix(suffix).is_file():
            raise StudyError(
                f"{bed.with_suffix(suffix).name}: no such file; .bed, .bim and .fam belong together."
            )
    return bed


def _beside(path: Path, names: list[str], used: list[str]) -> pd.DataFrame:
    """Columns of a ``.fam`` or ``.bim``, which has no header."""
    content = path.read_bytes().strip()
    if not content:
        raise StudyError(f"{path.name}: the file is empty.")
    found = width(content)
    if found != len(names):
        raise StudyError(
            f"{path.name}: has {found} columns instead of {len(names)}; write it again with PLINK."
        )
    try:
        return read_list(content, names, used, "position")
    except ValueError:
        raise StudyError(
            f"{path.name}: is not a table of {len(names)} columns; write it again with PLINK."
        ) from None


def _check_bed(bed: Path, n_people: int, n_variants: int) -> None:
    """Check the magic number, and the length expected from the other two files: four calls per byte."""
    with bed.open("rb") as file:
        head = file.read(3)
    if head[:2] != MAGIC or head[2:] not in (BY_VARIANT, BY_SUBJECT):
        raise StudyError(f"{bed.name}: is not a PLINK 1 .bed file; make one with plink --make-bed.")
    rows, calls = (n_variants, n_people) if head[2:] == BY_VARIANT else (n_people, n_variants)
    expected, size = 3 + rows * -(-calls // 4), bed.stat().st_size
    if size != expected:
        fault = "is truncated" if size < expected else "is too long"
        raise StudyError(
            f"{bed.name}: {fault}: {size} bytes instead of {expected} for {n_people} subjects and "
            f"{n_variants} variants; copy it again together with its .bim and .fam."
        )


def _panel(path: Path) -> pd.DataFrame:
    """Variants of a ``.bim``."""
    return panel_rows(_beside(path, BIM, [name for name in BIM if name != "cm"]), path)


def _bed_reader() -> ModuleType:
    try:
        return import_module("bed_reader")
    except ImportError as error:
        raise MissingPackageError("PLINK files need bed-reader: pip install viewloom[study]") from error
