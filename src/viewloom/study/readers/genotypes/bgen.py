"""Genotype probabilities of BGEN 1.1 to 1.3, as expected counts of the second allele.

The layout is that of the specification (www.chg.ox.ac.uk/~gav/bgen_format); every length is compared with the
size of the file before anything is read or decompressed.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from struct import error as StructError
from struct import unpack, unpack_from
from typing import Any, BinaryIO

import numpy as np
import pandas as pd

from viewloom.runtime.errors import MissingPackageError
from viewloom.study.errors import StudyError, check_readable
from viewloom.study.notes import Note
from viewloom.study.readers import frames
from viewloom.study.readers.genotypes.panel import panel_rows
from viewloom.study.readers.genotypes.sources import Block, Chooser, block_size

Array = np.ndarray
MAGIC = (b"bgen", b"\0\0\0\0")
HEAD = 4 + 20  # bytes of the offset and of the smallest header
SAMPLES = 1 << 31  # flag
ONE_ID = "subjects are identified by their id in the .sample file; make it unique"
MULTIALLELIC = "with more than two alleles left out; split them with qctool or bcftools norm"
OTHER_PLOIDY = "with more than two copies of a subject left out"
MOST_ALLELE = 2**20  # bytes of an allele
NO_NAME = ("", ".", "0")  # what programs write for an rsid that is unknown
COLUMNS = ("chromosome", "position", "variant", "counted", "other")


class Damaged(Exception):
    """A length or number in a file that cannot be right."""


@dataclass(frozen=True)
class Head:
    """The first block of the file."""

    start: int  # of the first variant
    variants: int
    subjects: int
    layout: int
    compression: int
    ids: list[str] | None


class BgenSource:
    """A ``.bgen``; see `sources.Source`. The counted allele is the second one."""

    def __init__(self, path: Path, sample: Path | None = None) -> None:
        self.path = path
        check_readable(path)
        with _explained(path), path.open("rb") as file:
            self._head = read_head(file, path.stat().st_size)
        self.ids = self._subjects(sample)
        self.size = self._head.variants
        self.skipped: dict[str, int] = {}
        self.notes: list[Note] = []
        self._expand = _decompressor(self._head.compression, path)

    def _subjects(self, sample: Path | None) -> pd.Index:
        beside = sample or sample_beside(self.path)
        if beside is None and self._head.ids is None:
            raise StudyError(
                f"{self.path.name}: no ids; put {self.path.stem}.sample next to it, or name the file with "
                "sample."
            )
        if beside is None:
            ids, where = pd.Series(self._head.ids, name="id", dtype=object), self.path
        else:
            ids, where = sample_ids(beside), beside
        if len(ids) != self._head.subjects:
            raise StudyError(
                f"{where.name}: {len(ids)} subjects, but {self.path.name} has {self._head.subjects}; they "
                "do not belong together."
            )
        return frames.checked_ids(ids, where, hint=ONE_ID)

    def blocks(self, choose: Chooser) -> Iterator[Block]:
        """The chosen variants, as float32."""
        self.skipped = {MULTIALLELIC: 0, OTHER_PLOIDY: 0}
        size, left = block_size(len(self.ids), 4), self._head.variants
        with _explained(self.path), self.path.open("rb", buffering=1 << 20) as file:
            reader = Variants(file, self._head, self.path.stat().st_size)
            file.seek(self._head.start)
            while left:
                found = [reader.next() for _ in range(min(size, left))]
                left -= len(found)
                yield self._block(reader, found, choose)
            if file.tell() != reader.size:
                raise Damaged

    def _block(self, reader: Variants, found: list[Variant], choose: Chooser) -> Block:
        rows = panel_rows(
            dict(zip(COLUMNS, zip(*(one.names for one in found), strict=True), strict=True)), self.path
        )
        wanted = choose(rows)
        single = np.array([one.alleles == 2 for one in found], dtype=bool)
        self.skipped[MULTIALLELIC] += int((wanted & ~single).sum())
        at = np.flatnonzero(wanted & single)
        values = np.empty((len(at), len(self.ids)), dtype=np.float32)
        after, good = reader.file.tell(), np.ones(len(at), dtype=bool)
        for i, j in enumerate(at):
            dosage = self._dosage(reader.data(found[j]))
            good[i] = dosage is not None
            values[i] = np.nan if dosage is None else dosage
        self.skipped[OTHER_PLOIDY] += int((~good).sum())
        reader.file.seek(after)
        return Block(rows.iloc[at[good]], values if good.all() else values[good], len(found))

    def _dosage(self, data: bytes) -> Array | None:
        n = len(self.ids)
        if self._head.layout == 1:
            return first_layout(_inflated(data, 6 * n) if self._head.compression else data, n)
        if not self._head.compression:
            return second_layout(data, n)
        (size,) = unpack_from("<I", data)
        if not 10 + n <= size <= 10 + n + 8 * 4 * n:
            raise Damaged
        return second_layout(self._expand(data[4:], size), n)


@dataclass(frozen=True)
class Variant:
    """What a file says about a variant, and where its probabilities are."""

    names: tuple[str, int, str, str, str]
    alleles: int
    start: int
    length: int


class Variants:
    """Reads variants one after the other."""

    def __init__(self, file: BinaryIO, head: Head, size: int) -> None:
        self.file, self.head, self.size = file, head, size

    def next(self) -> Variant:
        """The next variant; its probabilities are passed over."""
        if self.head.layout == 1 and self._number(4) != self.head.subjects:
            raise Damaged
        variant, rsid, chromosome = (self._text(2) for _ in range(3))
        position = self._number(4)
        alleles = 2 if self.head.layout == 1 else self._number(2)
        if alleles < 1:
            raise Damaged
        names = [self._text(4) for _ in range(alleles)]
        length = self._number(4) if self.head.layout == 2 or self.head.compression else 6 * self.head.subjects
        start = self.file.tell()
        if start + length > self.size:
            raise Damaged
        self.file.seek(length, 1)
        known = rsid if rsid not in NO_NAME else variant
        second = names[1] if alleles > 1 else ""
        return Variant((chromosome, position, known, second, names[0]), alleles, start, length)

    def data(self, variant: Variant) -> bytes:
        """The probabilities of a variant, as stored."""
        self.file.seek(variant.start)
        return self._bytes(variant.length)

    def _bytes(self, count: int) -> bytes:
        found = self.file.read(count)
        if len(found) < count:
            raise Damaged
        return found

    def _number(self, width: int) -> int:
        return int.from_bytes(self._bytes(width), "little")

    def _text(self, width: int) -> str:
        length = self._number(width)
        if length > MOST_ALLELE:
            raise Damaged
        return self._bytes(length).decode("utf-8")


def read_head(file: BinaryIO, size: int) -> Head:
    """The first block, and the ids where they follow it."""
    head = file.read(HEAD)
    if len(head) < HEAD:
        raise Damaged
    offset, length, variants, subjects = unpack("<4I", head[:16])
    if head[16:20] not in MAGIC or not 20 <= length <= offset or offset + 4 > size:
        raise Damaged
    file.seek(4 + length - 4)
    (flags,) = unpack("<I", file.read(4))
    layout, compression = flags >> 2 & 15, flags & 3
    if layout not in (1, 2) or compression > layout or not subjects or variants * 10 > size:
        raise Damaged
    ids = _stored_ids(file, subjects, offset - length) if flags & SAMPLES else None
    return Head(offset + 4, variants, subjects, layout, compression, ids)


def _stored_ids(file: BinaryIO, subjects: int, room: int) -> list[str]:
    block = file.read(room)
    length, count = unpack_from("<2I", block)
    if count != subjects or length > room:
        raise Damaged
    at, ids = 8, []
    for _ in range(count):
        (width,) = unpack_from("<H", block, at)
        if at + 2 + width > length:
            raise Damaged
        ids.append(block[at + 2 : at + 2 + width].decode("utf-8"))
        at += 2 + width
    return ids


def first_layout(data: bytes, n: int) -> Array:
    """Expected counts (n,) from three 16-bit probabilities per subject, in units of 1 / 32768."""
    if len(data) != 6 * n:
        raise Damaged
    P = np.frombuffer(data, dtype="<u2").reshape(n, 3).astype(np.float32)
    known = P.sum(axis=1)
    total = P[:, 1] + 2.0 * P[:, 2]
    return np.divide(total, known, out=np.full(n, np.nan, dtype=np.float32), where=known > 0)


def second_layout(data: bytes, n: int) -> Array | None:
    """Expected counts (n,) of the second of two alleles; None where a subject has more than two copies.

    A subject with one copy, as men have of X, counts 0 to 2, as in PLINK.
    """
    subjects, alleles, low, high = unpack_from("<IH2B", data)
    if subjects != n or alleles != 2 or low > high or len(data) < 10 + n:
        raise Damaged
    if high > 2 or low < 1:
        return None
    ploidy = np.frombuffer(data, dtype=np.uint8, count=n, offset=8)
    phased, bits = data[8 + n], data[9 + n]
    if phased > 1 or not 1 <= bits <= 32:
        raise Damaged
    copies, missing = ploidy & 63, ploidy >= 128
    if copies.min() < low or copies.max() > high:
        raise Damaged
    numbers = _numbers(data, 10 + n, bits, int(copies.sum()))  # as many per subject as copies, phased or not
    dosage = _expected(numbers, copies, 2.0**bits - 1.0, bool(phased))
    dosage[missing] = np.nan
    return dosage


def _expected(numbers: Array, copies: Array, one: float, phased: bool) -> Array:
    """Counts (n,) from probabilities in units of 1 / `one`.

    Two copies have P(aa) and P(ab), so that the count of b is 2 - 2 P(aa) - P(ab); phased, they have P(a) of
    each haplotype, and it is 2 - P(a) - P(a'). A single copy has P(a), and counts twice.
    """
    first = 1.0 if phased else 2.0
    if copies.min() == 2:
        pairs = numbers.reshape(-1, 2)
        return np.asarray(2.0 - (first * pairs[:, 0] + pairs[:, 1]) / one, dtype=np.float32)
    start = np.cumsum(copies, dtype=np.int64) - copies
    double = copies == 2
    known = 2.0 * numbers[start]
    known[double] = first * numbers[start[double]] + numbers[start[double] + 1]
    return np.asarray(2.0 - known / one, dtype=np.float32)


def _numbers(data: bytes, start: int, bits: int, count: int) -> Array:
    """Unsigned integers of so many bits, packed from the low end, as float32 (float64 above 16 bits)."""
    if len(data) != start + -(-count * bits // 8):
        raise Damaged
    if bits in (8, 16, 32):
        whole = np.frombuffer(data, dtype=f"<u{bits // 8}", offset=start, count=count)
        return whole.astype(np.float32 if bits < 32 else np.float64)
    packed = np.frombuffer(data, dtype=np.uint8, offset=start)
    each = np.unpackbits(packed, bitorder="little", count=count * bits).reshape(count, bits)
    return each @ (2.0 ** np.arange(bits))


def sample_beside(path: Path) -> Path | None:
    """The ``.sample`` with the name of a ``.bgen``."""
    found = path.with_suffix(".sample")
    return found if found.is_file() else None


def sample_ids(path: Path) -> pd.Series:
    """Ids (the second column) of a ``.sample``, whose second line has the types of columns."""
    check_readable(path)
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise StudyError(f"{path.name}: cannot be read as text ({type(error).__name__}).") from None
    rows = [line.split() for line in lines if line.strip()]
    if len(rows) < 3 or rows[1][0] != "0" or min(map(len, rows)) < 1:
        raise StudyError(f"{path.name}: is not a .sample file: two lines of header, then one per subject.")
    at = 1 if len(rows[0]) > 1 and rows[0][1].upper() in ("ID_2", "IID") else 0
    short = sum(len(row) <= at for row in rows)
    if short:
        raise StudyError(f"{path.name}: {short} lines have no id; write it again.")
    return pd.Series([row[at] for row in rows[2:]], name=rows[0][at], dtype=object)


def is_bgen(path: Path) -> bool:
    """Whether a file has the marks of BGEN."""
    with path.open("rb") as file:
        head = file.read(HEAD)
    return len(head) == HEAD and head[16:20] in MAGIC


class _explained:
    """Turns what damaged files lead to into an error that names the file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        bad = (Damaged, StructError, UnicodeDecodeError, zlib.error, ValueError, OverflowError, EOFError)
        if isinstance(error, bad) and not isinstance(error, StudyError):
            raise StudyError(
                f"{self.path.name}: is not a BGEN file, or damaged or truncated; copy it again."
            ) from None


def _inflated(data: bytes, size: int) -> bytes:
    """Decompressed data, which must have this size; never more than that is decompressed."""
    stream = zlib.decompressobj()
    found = stream.decompress(data, size + 1)
    if len(found) != size:
        raise Damaged
    return found


def _decompressor(compression: int, path: Path) -> Callable[[bytes, int], bytes]:
    if compression < 2:
        return _inflated
    try:
        codec = import_module("pyarrow").Codec("zstd")
    except ImportError as error:
        raise MissingPackageError(
            f"{path.name}: BGEN files compressed by Zstandard need pyarrow: pip install viewloom[study]"
        ) from error

    def expanded(data: bytes, size: int) -> bytes:
        try:
            return bytes(codec.decompress(data, size, asbytes=True))
        except (OSError, ValueError):
            raise Damaged from None

    return expanded
