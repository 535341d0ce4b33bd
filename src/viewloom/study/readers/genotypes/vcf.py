"""Variant calls and dosages of VCF (text, gzip or BGZF) and BCF, as counts of the ALT allele.

Lines are parsed by NumPy, all subjects at a time; every length is compared with what is there.
"""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Protocol, cast

import numpy as np
import pandas as pd

from viewloom.study.errors import Message, StudyError, Suggestion, check_readable
from viewloom.study.notes import Note
from viewloom.study.readers import frames
from viewloom.study.readers.genotypes import bcf
from viewloom.study.readers.genotypes.panel import panel_rows
from viewloom.study.readers.genotypes.pgen import quality_of
from viewloom.study.readers.genotypes.sources import BLOCK, Block, Chooser, as_floats, block_size
from viewloom.study.readers.genotypes.vcf_cells import OTHER_PLOIDY, WITHOUT, Damaged, calls, dosages

Array = np.ndarray
TEXT, GZIP, BCF = b"##fileformat=VCF", b"\x1f\x8b", b"BCF\x02"
ONE_ID = "subjects are identified by the columns of the file; make their names unique"
MULTIALLELIC = "with more than two alleles left out; split them with bcftools norm -m-"
FIXED = ["#CHROM", "POS", "ID", "REF", "ALT", "QUAL", "FILTER", "INFO", "FORMAT"]
LONGEST_LINE = 2**27  # bytes
LARGEST_HEAD = 2**26
FORMAT_ID = re.compile(r"##FORMAT=<ID=([^,>]+)")
END_OF_BGZF = bytes.fromhex("1f8b08040000000000ff0600424302001b0003000000000000000000")


class Record(Protocol):
    """A variant of a file, whose calls are not parsed yet."""

    names: tuple[str, int, str, str, str, float]  # chromosome, position, variant, ALT, REF, quality
    size: int  # bytes

    def values(self, field: str) -> Array | str:
        """Counts (n,), or why there are none."""
        ...


class VcfSource:
    """A VCF or BCF; see `sources.Source`. The counted allele is ALT.

    Parameters
    ----------
    path : Path
    field : {"GT", "DS"} or None
        Calls or dosages; by default dosages where the header declares them, else calls.
    """

    def __init__(self, path: Path, field: str | None = None) -> None:
        self.path = path
        _check_end(path)
        with _explained(path), opened(path) as file:
            text = _header(file)
        names = text[-1].split("\t")[len(FIXED) :]
        declared = {found[1] for line in text if (found := FORMAT_ID.match(line))} | {"GT"}
        if not names:
            raise StudyError(f"{path.name}: has no subjects; it lists variants only.")
        if field is not None and field not in declared:
            message = f"{path.name}: its header declares no FORMAT field {field}; set field = 'GT'."
            raise StudyError(Message(message, Suggestion({"field": "GT"})))
        self.field = field or ("DS" if "DS" in declared else "GT")
        self.ids = frames.checked_ids(pd.Series(names, name="subjects", dtype=object), path, hint=ONE_ID)
        self.size = 0
        self.skipped: dict[str, int] = {}
        self.notes: list[Note] = []

    def blocks(self, choose: Chooser) -> Iterator[Block]:
        """The chosen variants: calls as int8, dosages as float32."""
        self.skipped = dict.fromkeys((MULTIALLELIC, OTHER_PLOIDY, WITHOUT), 0)
        size = block_size(len(self.ids), 4)
        with _explained(self.path), opened(self.path) as file:
            records = self._records(file)
            while found := _some(records, size):
                yield self._block(found, choose)

    def _records(self, file: BinaryIO) -> Iterator[Record]:
        text = _header(file)
        if _is_bcf(self.path):
            return bcf.records(file, text, len(self.ids))
        return _lines(file, len(self.ids))

    def _block(self, found: Sequence[Record], choose: Chooser) -> Block:
        """The chosen ones of some variants."""
        rows = _rows([record.names for record in found], self.path)
        wanted = choose(rows)
        single = ~rows["counted"].isin(["", ".", "*"]) & ~rows["counted"].str.contains(",", regex=False)
        self.skipped[MULTIALLELIC] += int((wanted & ~single).sum())
        taken = dict[int, Array]()
        for i in np.flatnonzero(wanted & single).tolist():
            row = found[i].values(self.field)
            if isinstance(row, str):
                self.skipped[row] += 1
            else:
                taken[i] = row
        return Block(rows.iloc[list(taken)], together(list(taken.values()), len(self.ids)), len(found))


class Line:
    """A line of a VCF."""

    def __init__(self, line: bytes, n: int) -> None:
        cells = line.rstrip(b"\r\n").split(b"\t", 9)
        if len(cells) != 10 or not cells[1].isdigit():
            raise Damaged
        chromosome, position, name, ref, alt, info = (cells[i].decode("utf-8") for i in (0, 1, 2, 3, 4, 7))
        self.names = (chromosome, int(position), name, alt, ref, quality_of(info))
        self.size, self._n, self._keys, self._cells = len(line), n, cells[8].split(b":"), cells[9]

    def values(self, field: str) -> Array | str:
        """Counts (n,), or why there are none."""
        if field == "DS" and b"DS" in self._keys:
            return dosages(self._cells, self._n, self._keys.index(b"DS"))
        if b"GT" not in self._keys:
            return WITHOUT
        found = calls(self._cells, self._n, self._keys.index(b"GT"), len(self._keys))
        return OTHER_PLOIDY if found is None else found


def _lines(file: BinaryIO, n: int) -> Iterator[Record]:
    while line := file.readline(LONGEST_LINE):
        if len(line) == LONGEST_LINE:
            raise Damaged
        if line.strip():
            yield Line(line, n)


def _some(records: Iterator[Record], size: int) -> list[Record]:
    """The next records, of no more than a block."""
    found, room = list[Record](), BLOCK
    while len(found) < size and room > 0:
        record = next(records, None)
        if record is None:
            break
        found.append(record)
        room -= record.size
    return found


def together(rows: list[Array], n: int) -> Array:
    """Counts of variants (b, n): int8 where all are calls, else float32."""
    hard = all(row.dtype == np.int8 for row in rows)
    whole = np.empty((len(rows), n), dtype=np.int8 if hard else np.float32)
    for i, row in enumerate(rows):
        whole[i] = row if hard else as_floats(row)
    return whole


def _rows(names: list[tuple[str, int, str, str, str, float]], path: Path) -> pd.DataFrame:
    """Rows of a panel."""
    columns = ("chromosome", "position", "variant", "counted", "other", "info")
    rows = panel_rows(dict(zip(columns, zip(*names, strict=True), strict=True)), path)
    return rows.assign(info=rows["info"].astype(float))


def _header(file: BinaryIO) -> list[str]:
    """Lines of the header, the last of which names the columns; of a BCF they are one text."""
    first = file.read(5)
    if first[:4] == BCF:
        length = int.from_bytes(file.read(4), "little")
        if length > LARGEST_HEAD:
            raise Damaged
        content = file.read(length)
        if len(content) < length:
            raise Damaged
        lines = content.rstrip(b"\0").decode("utf-8").splitlines()
    else:
        lines = [line.decode("utf-8").rstrip("\r\n") for line in _head_lines(file, first)]
    if not lines or not lines[0].startswith("##fileformat=VCF") or not lines[-1].startswith("#CHROM\t"):
        raise Damaged
    return lines


def _head_lines(file: BinaryIO, first: bytes) -> Iterator[bytes]:
    room, line = LARGEST_HEAD, first + file.readline(LARGEST_HEAD)
    while line.startswith(b"#") and room > 0:
        yield line
        if line.startswith(b"#CHROM"):
            return
        room -= len(line)
        line = file.readline(LARGEST_HEAD)
    raise Damaged


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """The decompressed content of a file."""
    check_readable(path)
    with path.open("rb") as file:
        head = file.read(16)
        file.seek(0)
        if not head.startswith((TEXT, GZIP, BCF)):
            raise StudyError(f"{path.name}: is not a VCF or BCF file; write it again with bcftools.")
        if head.startswith(GZIP):
            with gzip.GzipFile(fileobj=file) as inner:
                yield cast(BinaryIO, inner)
        else:
            yield file


def _is_bcf(path: Path) -> bool:
    with opened(path) as file:
        return file.read(4) == BCF


def _check_end(path: Path) -> None:
    """Refuse an empty file, and a BGZF without the mark at its end."""
    check_readable(path)
    with path.open("rb") as file:
        head = file.read(18)
        file.seek(max(0, path.stat().st_size - len(END_OF_BGZF)))
        tail = file.read()
    if not head:
        raise StudyError(f"{path.name}: the file is empty.")
    if head[:4] == b"\x1f\x8b\x08\x04" and head[12:14] == b"BC" and tail != END_OF_BGZF:
        raise StudyError(f"{path.name}: is truncated; copy it again.")


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Whatever damaged content leads to as one error."""
    try:
        yield
    except (Damaged, EOFError, OSError, zlib.error, UnicodeDecodeError, IndexError, ValueError) as error:
        if isinstance(error, StudyError):
            raise
        raise StudyError(
            f"{path.name}: is damaged or truncated; copy it again, or write it with bcftools."
        ) from None
