"""Genotypes of PLINK 2: ``.pgen`` with ``.pvar`` (also ``.pvar.zst``, ``.bim``) and ``.psam`` (``.fam``)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from viewloom.runtime.errors import MissingPackageError
from viewloom.study.errors import StudyError, check_kind
from viewloom.study.notes import Note
from viewloom.study.readers import frames
from viewloom.study.readers.genotypes.listing import read_list, width
from viewloom.study.readers.genotypes.panel import panel_rows, rows_at
from viewloom.study.readers.genotypes.pgen_header import (
    MAGIC,
    MODES,
    SEPARATE,
    Records,
    has_dosages,
    records,
)
from viewloom.study.readers.genotypes.sources import Block, Chooser, Tallies, block_size, slices

ONE_IID = "subjects are identified by IID; make it unique with plink2 --update-ids"
TOGETHER = ".pgen, .pvar and .psam belong together"
MULTIALLELIC = "with more than two alleles left out; split them with plink2 --make-pgen 'multiallelics=-'"
INFO_KEYS = ("INFO", "R2", "DR2", "IMP_INFO", "MACHR2")  # quality of imputation
QUALITY = re.compile(rf"(?:^|;)(?:{'|'.join(INFO_KEYS)})=([^;]+)")
COLUMNS = {"CHROM": "chromosome", "POS": "position", "ID": "variant", "ALT": "counted", "REF": "other"}
LARGEST_HEAD = 2**24  # bytes of the ## lines of a .pvar


class PgenSource:
    """A ``.pgen``; see `sources.Source`. The counted allele is ALT."""

    def __init__(self, path: Path) -> None:
        self.path = pgen_path(path)
        self.ids = frames.checked_ids(*_subjects(self.path), hint=ONE_IID)
        self.panel = _variants(self.path)
        self.size = len(self.panel)
        self.skipped: dict[str, int] = {}
        self.notes: list[Note] = []
        self._check_header()

    def blocks(self, choose: Chooser) -> Iterator[Block]:
        """The chosen variants; hard calls as int8, dosages as float32."""
        several, wanted = self._several, choose(self.panel)
        self.skipped = {MULTIALLELIC: int((wanted & several).sum())}
        at = np.flatnonzero(wanted & ~several).astype(np.uint32)
        with self._opened() as file:
            hard = not self._dosages
            n, passed = len(self.ids), 0
            size = block_size(n, 1 if hard else 4)
            room = np.empty((min(size, len(at)), n), dtype=np.int8 if hard else np.float32)
            for part in slices(at, size):
                values = self._values(file, part, room[: len(part)])
                yield Block(rows_at(self.panel, part), values, int(part[-1]) + 1 - passed)
                passed = int(part[-1]) + 1

    def tallies(self, wanted: np.ndarray, unlike: int = -1) -> Tallies | None:
        """See `sources.Tallied`; None for dosages, of which the file counts only the calls."""
        if self._dosages:
            return None
        usable = wanted & ~self._several
        found = self._records
        rare = usable & (found.unlike_at_most() <= unlike) if found else np.zeros_like(usable)
        at = np.flatnonzero(usable & ~rare)
        counts = np.empty((len(at), 4), dtype=np.uint32)  # subjects with 0, 1, 2 copies of ALT, and no call
        with self._opened() as file:
            try:
                for variant, cells in zip(at.tolist(), counts, strict=True):
                    file.count(variant, cells)
            except RuntimeError:
                raise self._damaged() from None
        calls, copies = counts[:, :3].sum(axis=1, dtype=np.int64), counts[:, 1] + 2.0 * counts[:, 2]
        return Tallies(at, calls, copies, np.flatnonzero(rare))

    @cached_property
    def _records(self) -> Records | None:
        return records(self.path)

    @cached_property
    def _dosages(self) -> bool:
        return has_dosages(self.path, self._records)

    @cached_property
    def _several(self) -> np.ndarray:
        """Which variants have more than two alleles."""
        return self.panel["counted"].str.contains(",", regex=False).to_numpy(dtype=bool)

    def _values(self, file: Any, at: np.ndarray, values: np.ndarray) -> np.ndarray:
        """Read variants into an array (b, n)."""
        run = at[-1] - at[0] == len(at) - 1
        try:
            if values.dtype == np.int8 and run:
                file.read_range(int(at[0]), int(at[-1]) + 1, values)
            elif values.dtype == np.int8:
                file.read_list(at, values)
            if values.dtype == np.int8:
                return np.maximum(values, np.int8(-1), out=values)  # -9 where there is no call
            file.read_dosages_list(at, values)
        except RuntimeError:
            raise self._damaged() from None
        if values.min() < 0:
            values[values < 0] = np.nan
        return values

    def _opened(self) -> Any:
        offsets = _allele_offsets(self.panel["counted"]) if self._several.any() else None
        try:
            return _pgenlib().PgenReader(
                bytes(self.path),
                raw_sample_ct=len(self.ids),
                variant_ct=self.size,
                allele_idx_offsets=offsets,
            )
        except (RuntimeError, AssertionError, MemoryError):
            raise self._damaged() from None

    def _damaged(self) -> StudyError:
        return StudyError(
            f"{self.path.name}: is damaged or truncated; copy it again, or write it with plink2."
        )

    def _check_header(self) -> None:
        """Compare the counts of the header with those of the other two files."""
        with self.path.open("rb") as file:
            head = file.read(12)
        if head[:2] != MAGIC or len(head) < 3 or head[2] not in MODES:
            raise StudyError(
                f"{self.path.name}: is not a PLINK 2 .pgen file; make one with plink2 --make-pgen."
            )
        if len(head) < 12:
            raise self._damaged()
        variants, subjects = (int.from_bytes(head[start : start + 4], "little") for start in (3, 7))
        if head[2] not in SEPARATE and (variants, subjects) != (self.size, len(self.ids)):
            raise StudyError(
                f"{self.path.name}: has {variants} variants and {subjects} subjects, but its .pvar and .psam "
                f"have {self.size} and {len(self.ids)}; {TOGETHER}."
            )
        if self._records is not None and not self._records.fit(self.path.stat().st_size):
            raise self._damaged()


def is_pgen(path: Path) -> bool:
    """Whether a file has the magic number of PLINK 2."""
    with path.open("rb") as file:
        head = file.read(3)
    return head[:2] == MAGIC and len(head) == 3 and head[2] in MODES


def pgen_path(path: Path) -> Path:
    """The ``.pgen`` of a set that is named by any of its files, or without a suffix."""
    name = re.sub(r"(?i)\.(pgen|pvar\.zst|pvar|psam)$", "", path.name)
    found = path if path.suffix.lower() == ".pgen" else path.with_name(name + ".pgen")
    check_kind(found)
    if not found.is_file():
        raise StudyError(f"{found.name}: no such file; {TOGETHER}.")
    return found


def beside(pgen: Path, *suffixes: str) -> Path | None:
    """The first file with the name of the ``.pgen`` and one of these suffixes."""
    stem = pgen.name[: -len(".pgen")]
    return next((path for suffix in suffixes if (path := pgen.with_name(stem + suffix)).is_file()), None)


def _needed(pgen: Path, *suffixes: str) -> Path:
    found = beside(pgen, *suffixes)
    if found is None:
        raise StudyError(f"{pgen.with_suffix(suffixes[0]).name}: no such file; {TOGETHER}.")
    check_kind(found)
    return found


def _subjects(pgen: Path) -> tuple[pd.Series, Path]:
    """The column of ids of a ``.psam``, or of a ``.fam``, which has no header."""
    path = _needed(pgen, ".psam", ".fam")
    try:
        text = _content(path).decode("utf-8")
    except UnicodeDecodeError:
        raise StudyError(f"{path.name}: cannot be read as text (UnicodeDecodeError).") from None
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("##")]
    head = lines[0].split() if lines else []
    if not lines:
        raise StudyError(f"{path.name}: the file is empty.")
    if not head[0].startswith("#"):
        rows, at = [line.split() for line in lines], 1  # as a .fam
    else:
        rows, at = [line.split() for line in lines[1:]], _iid_column(head, path)
    short = sum(len(row) <= at for row in rows)
    if short or not rows:
        raise StudyError(
            f"{path.name}: {short} of {len(rows)} lines have no IID; write it again with plink2."
        )
    return pd.Series([row[at] for row in rows], name="IID", dtype=object), path


def _iid_column(head: list[str], path: Path) -> int:
    names = [name.lstrip("#") for name in head]
    if "IID" not in names:
        raise StudyError(f"{path.name}: no column IID; write it again with plink2.")
    return names.index("IID")


def _variants(pgen: Path) -> pd.DataFrame:
    """Rows of the ``.pvar``, with the quality of imputation where its INFO column has one."""
    path = _needed(pgen, ".pvar", ".pvar.zst", ".bim")
    body, names = _body(_content(path), path)
    if not names:  # without a header, as in a .bim
        cm = ["cm"] if width(body) == 6 else []
        names = ["CHROM", "ID", *cm, "POS", "ALT", "REF"]
    absent = [name for name in COLUMNS if name not in names]
    if absent:
        raise StudyError(f"{path.name}: no column {' or '.join(absent)}; write it again with plink2.")
    try:
        table = read_list(body, names, [*COLUMNS, *(name for name in names if name == "INFO")], "POS")
    except ValueError:
        raise StudyError(f"{path.name}: is not a table of variants; write it again with plink2.") from None
    rows = panel_rows(table[list(COLUMNS)].rename(columns=COLUMNS), path)
    return rows.assign(info=[quality_of(text) for text in table["INFO"]]) if "INFO" in table else rows


def _body(content: bytes, path: Path) -> tuple[bytes, list[str]]:
    """What is below the header, and the names of the columns."""
    start = 0
    while content.startswith(b"##", start):
        end = content.find(b"\n", start)
        if end < 0 or end > LARGEST_HEAD:
            raise StudyError(f"{path.name}: has no variants.")
        start = end + 1
    head, body = b"", content[start:]
    if body.startswith(b"#"):
        head, _, body = body.partition(b"\n")
    if not body.strip():
        raise StudyError(f"{path.name}: has no variants.")
    return body, head.decode("utf-8", "replace").lstrip("#").split()


def _content(path: Path) -> bytes:
    """The content of a file, which may be compressed by Zstandard."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise StudyError(f"{path.name}: cannot be read ({type(error).__name__}).") from None
    return _decompressed(content, path) if path.suffix.lower() == ".zst" else content


def _decompressed(content: bytes, path: Path) -> bytes:
    try:
        arrow: Any = import_module("pyarrow")
    except ImportError as error:
        raise MissingPackageError(
            f"{path.name}: .zst needs pyarrow (pip install viewloom[study]); or decompress it by zstd -d."
        ) from error
    try:
        with arrow.CompressedInputStream(arrow.BufferReader(content), "zstd") as stream:
            return bytes(stream.read())
    except (OSError, ValueError):
        raise StudyError(f"{path.name}: is damaged or truncated; copy it again.") from None


def quality_of(info: str) -> float:
    """The quality of imputation in an INFO column, NaN where there is none.

    >>> quality_of("AF=0.1;R2=0.8"), quality_of("PR")
    (0.8, nan)
    """
    found = QUALITY.search(info)
    try:
        return float(found[1]) if found else np.nan
    except ValueError:
        return np.nan


def _allele_offsets(alts: pd.Series) -> np.ndarray:
    """Cumulative numbers of alleles, as pgenlib wants them."""
    counts = alts.str.count(",").to_numpy(dtype=np.int64) + 2
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.uintp)


def _pgenlib() -> Any:
    try:
        return import_module("pgenlib")
    except ImportError as error:
        raise MissingPackageError("PLINK 2 files need pgenlib: pip install viewloom[genetics]") from error
