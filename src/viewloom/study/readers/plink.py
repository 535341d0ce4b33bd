"""Genotypes of PLINK: ``.bed/.bim/.fam`` and ``.raw``, as counts of an allele, which is part of the name."""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from types import ModuleType

import numpy as np
import pandas as pd

from viewloom.data.naming import listed
from viewloom.runtime.errors import MissingPackageError
from viewloom.study.errors import StudyError, check_kind
from viewloom.study.notes import Note, count_note
from viewloom.study.readers import frames
from viewloom.study.readers.formats import Sample
from viewloom.study.readers.frames import Patterns
from viewloom.study.readers.tables import filled_rows
from viewloom.study.readers.text import find_dialect, load

MAGIC = b"\x6c\x1b"
FAM = ["fid", "iid", "father", "mother", "sex", "phenotype"]
BIM = ["chromosome", "variant", "cm", "position", "counted", "other"]
RAW = ["FID", "IID", "PAT", "MAT", "SEX", "PHENOTYPE"]
COUNTED = re.compile(r"(?P<variant>.+)_(?P<counted>[^_(]+)(?:\(/(?P<other>.*)\))?")  # rs1_A, rs1_A(/G)
DOMINANCE = "_HET"  # columns that PLINK adds with --recode AD
EXPORT = "export it again with plink --recode A"
ONE_IID = "subjects are identified by IID; make it unique with plink --update-ids"


def read_bed(
    path: str | Path, *, min_maf: float = 0.0, min_call_rate: float = 0.0, variants: Patterns = None
) -> pd.DataFrame:
    """Read PLINK 1 genotypes.

    Parameters
    ----------
    path : str or Path
        The ``.bed`` file, or its path without the suffix.
    min_maf : float, default=0
        Minimum minor allele frequency, among calls.
    min_call_rate : float, default=0
        Minimum share of subjects with a call.
    variants : list of str, optional
        Shell patterns of the variants to keep, such as ``rs429358``.

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
    bed, notes = _bed_path(Path(path)), list[Note]()
    people = _read_beside(bed.with_suffix(".fam"), FAM)
    panel = _read_beside(bed.with_suffix(".bim"), BIM)
    _check_bed(bed, len(people), len(panel))
    ids = frames.checked_ids(people["iid"], bed.with_suffix(".fam"), hint=ONE_IID)
    with _bed_reader().open_bed(bed, iid_count=len(people), sid_count=len(panel)) as file:
        panel = _chosen(_named(panel), variants, bed)
        calls = file.read(np.s_[:, panel.index.to_numpy()], dtype="float64")
    frame = pd.DataFrame(calls, columns=_features(panel, bed))
    return frames.finish(_filtered(frame, min_maf, min_call_rate, bed, notes), ids, bed, notes)


def read_raw(
    path: str | Path, *, min_maf: float = 0.0, min_call_rate: float = 0.0, variants: Patterns = None
) -> pd.DataFrame:
    """Read ``.raw`` files of PLINK 1 (``--recode A``) or PLINK 2 (``--export A``), calls or dosages.

    Parameters
    ----------
    path : str or Path
        The ``.raw`` file.
    min_maf, min_call_rate, variants
        As in `read_bed`.

    Returns
    -------
    DataFrame indexed by ``id``, the IID
        Named as by `read_bed`: ``rs1_A`` counts allele A, also where PLINK 2 wrote ``rs1_A(/G)``.
    """
    path, notes = Path(path), list[Note]()
    dialect = find_dialect(path, candidates=[" ", "\t"], decimal=".")  # as PLINK writes
    raw = filled_rows(load(path, dialect, text=["FID", "#FID", "IID", "#IID"]), path, notes)
    raw = raw.set_axis([name.removeprefix("#") for name in raw.columns], axis=1)
    ids = frames.checked_ids(frames.column(raw, "IID", path, "id"), path, hint=ONE_IID)
    calls = raw.loc[:, [name not in RAW and not name.endswith(DOMINANCE) for name in raw.columns]]
    dominance = sum(name.endswith(DOMINANCE) for name in raw.columns)
    notes += count_note(dominance, "column of dominance", "columns of dominance", public=True)
    panel = _chosen(_parsed_names(calls.columns), variants, path)
    calls = calls.iloc[:, panel.index.to_numpy()].set_axis(_features(panel, path), axis=1)
    frame = frames.numbers(calls, (), path, notes, way_out=EXPORT, notation=dialect.notation)
    strange = int(((frame < 0) | (frame > 2)).sum().sum())
    if strange:
        raise StudyError(f"{path.name}: {strange} calls are not between 0 and 2; {EXPORT}.")
    return frames.finish(_filtered(frame, min_maf, min_call_rate, path, notes), ids, path, notes)


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


def _read_beside(path: Path, names: list[str]) -> pd.DataFrame:
    """A ``.fam`` or ``.bim`` as text: without a header, separated by blanks or tabs."""
    try:
        with path.open(encoding="utf-8", newline=None) as file:  # see text.load
            table = pd.read_csv(file, sep=r"\s+", header=None, dtype=str, keep_default_na=False)
    except pd.errors.EmptyDataError:
        raise StudyError(f"{path.name}: the file is empty.") from None
    except (pd.errors.ParserError, UnicodeDecodeError):
        raise StudyError(
            f"{path.name}: is not a table of {len(names)} columns; write it again with PLINK."
        ) from None
    if table.shape[1] != len(names):
        raise StudyError(
            f"{path.name}: has {table.shape[1]} columns instead of {len(names)}; write it again with PLINK."
        )
    return table.set_axis(names, axis=1)


def _check_bed(bed: Path, n_people: int, n_variants: int) -> None:
    """Check the magic number, and the length expected from the other two files: four calls per byte."""
    with bed.open("rb") as file:
        head = file.read(3)
    if head[:2] != MAGIC or head[2:] not in (b"\0", b"\1"):
        raise StudyError(f"{bed.name}: is not a PLINK 1 .bed file; make one with plink --make-bed.")
    by_variant = head[2:] == b"\1"
    rows, calls = (n_variants, n_people) if by_variant else (n_people, n_variants)
    expected, size = 3 + rows * -(-calls // 4), bed.stat().st_size
    if size != expected:
        fault = "is truncated" if size < expected else "is too long"
        raise StudyError(
            f"{bed.name}: {fault}: {size} bytes instead of {expected} for {n_people} subjects and "
            f"{n_variants} variants; copy it again together with its .bim and .fam."
        )


def _named(panel: pd.DataFrame) -> pd.DataFrame:
    """Name variants without an id by their position."""
    place = panel["chromosome"] + ":" + panel["position"]
    return panel.assign(variant=panel["variant"].mask(panel["variant"] == ".", place))


def _parsed_names(names: pd.Index) -> pd.DataFrame:
    """Variant, counted and other allele from the header of a ``.raw``."""
    found = [COUNTED.fullmatch(name) for name in names]
    rows = [
        match.groupdict("") if match else {"variant": name, "counted": "", "other": ""}
        for name, match in zip(names, found, strict=True)
    ]
    return pd.DataFrame(rows, columns=["variant", "counted", "other"])


def _chosen(panel: pd.DataFrame, patterns: Sequence[str] | None, path: Path) -> pd.DataFrame:
    """Rows of the variants that match a pattern, numbered as in the file."""
    if panel.empty:
        raise StudyError(f"{path.name}: has no variants.")
    if patterns is None:
        return panel
    kept = panel[[frames.matches(name, patterns) for name in panel["variant"]]]
    if kept.empty:
        raise StudyError(
            f"{path.name}: no variant matches {listed(list(patterns))} of variants; check their spelling."
        )
    return kept


def _features(panel: pd.DataFrame, path: Path) -> list[str]:
    """Variant and counted allele; also the other allele where names are not unique."""
    name = panel["variant"] + ("_" + panel["counted"]).where(panel["counted"] != "", "")
    shared = name.duplicated(keep=False)
    name = name.mask(shared, name + "(/" + panel["other"] + ")")
    repeated = int(name.duplicated().sum())
    if repeated:
        raise StudyError(
            f"{path.name}: {repeated} variants have the id and alleles of another; remove duplicates."
        )
    return name.tolist()


def _filtered(
    frame: pd.DataFrame, min_maf: float, min_call_rate: float, path: Path, notes: list[Note]
) -> pd.DataFrame:
    """Variants with sufficient call rate and allele frequency."""
    calls = frame.to_numpy()
    called = (~np.isnan(calls)).sum(axis=0)
    frequency = np.nansum(calls, axis=0) / np.maximum(2 * called, 1)
    rare = np.minimum(frequency, 1 - frequency) < min_maf
    seldom = called < min_call_rate * len(frame)
    below = f"below a call rate of {min_call_rate}"
    notes += count_note(int(seldom.sum()), f"variant {below}", f"variants {below}", public=True)
    below = f"below a minor allele frequency of {min_maf}"
    notes += count_note(int((rare & ~seldom).sum()), f"variant {below}", f"variants {below}", public=True)
    kept = frame.loc[:, ~(rare | seldom)]
    if kept.shape[1] == 0:
        raise StudyError(f"{path.name}: no variant is left; lower min_maf and min_call_rate.")
    return kept


def _bed_reader() -> ModuleType:
    try:
        return import_module("bed_reader")
    except ImportError as error:
        raise MissingPackageError("PLINK files need bed-reader: pip install viewloom[study]") from error
