"""Records of BCF 2, the binary form of VCF, after its specification (samtools.github.io/hts-specs)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from struct import error as StructError
from struct import unpack_from
from typing import BinaryIO

import numpy as np

from viewloom.study.readers.genotypes.pgen import INFO_KEYS
from viewloom.study.readers.genotypes.vcf_cells import (
    ABSENT,
    HIGHEST,
    LOWEST,
    OTHER_PLOIDY,
    WITHOUT,
    Damaged,
    counts,
)

Array = np.ndarray
INTEGERS = {1: ("<i1", -128), 2: ("<i2", -32768), 3: ("<i4", -(2**31))}  # type -> kind, and missing value
FLOAT, CHAR = 5, 7
WIDTH = {0: 0, 1: 1, 2: 2, 3: 4, FLOAT: 4, CHAR: 1}
LARGEST_RECORD = 2**28  # bytes
DECLARED = re.compile(r"##(FILTER|INFO|FORMAT|contig)=<(?:.*,)?ID=([^,>]+)")
INDEX = re.compile(r",IDX=(\d+)")


def records(file: BinaryIO, header: list[str], n: int) -> Iterator[Record]:
    """The variants of a file whose header was read."""
    contigs, strings = dictionaries(header)
    while head := file.read(8):
        if len(head) < 8:
            raise Damaged
        shared, own = unpack_from("<2I", head)
        if shared > LARGEST_RECORD or own > LARGEST_RECORD:
            raise Damaged
        content = file.read(shared + own)
        if len(content) < shared + own:
            raise Damaged
        try:
            yield Record(content, shared, n, contigs, strings)
        except (StructError, KeyError):
            raise Damaged from None


def dictionaries(header: list[str]) -> tuple[dict[int, str], dict[int, str]]:
    """Names of contigs, and of filters, INFO and FORMAT fields, by the number that records have for them."""
    contigs, strings, known = dict[int, str](), {0: "PASS"}, {"PASS"}
    for line in header:
        found, given = DECLARED.match(line), INDEX.search(line)
        if found is None:
            continue
        kind, name = found[1], found[2]
        table = contigs if kind == "contig" else strings
        if given is not None:
            table[int(given[1])] = name
        elif kind == "contig" or name not in known:
            table[max(table, default=-1) + 1] = name
        known.update([] if kind == "contig" else [name])
    return contigs, strings


class Record:
    """A variant; its calls are found, not yet parsed."""

    def __init__(
        self, content: bytes, shared: int, n: int, contigs: dict[int, str], strings: dict[int, str]
    ) -> None:
        self.size, self._n = len(content), n
        contig, position, _, _, sizes, formats = unpack_from("<3if2I", content)
        self._at, self._content = 24, content
        if formats & 0xFFFFFF != n:
            raise Damaged
        name = self._text()
        alleles = [self._text() for _ in range(sizes >> 16)]
        self._typed()  # filters
        quality = self._quality(sizes & 0xFFFF, strings)
        alts = ",".join(alleles[1:])
        self.names = (contigs[contig], position + 1, name or ".", alts, (alleles or [""])[0], quality)
        self._at = shared
        self._fields = {strings[int(self._integer())]: self._matrix() for _ in range(formats >> 24)}

    def values(self, field: str) -> Array | str:
        """Counts (n,), or why there are none."""
        if field == "DS" and "DS" in self._fields:
            return _dosages(self._fields["DS"])
        found = self._fields.get("GT")
        if found is None or found.dtype.kind != "i" or not found.shape[1]:
            return WITHOUT
        end = np.iinfo(found.dtype).min + 1
        if found.shape[1] > 2 and (found[:, 2:] != end).any():
            return OTHER_PLOIDY
        alleles = np.where(found == end, ABSENT, (found >> 1) - 1)
        if (alleles[:, :2] > 1).any():
            raise Damaged
        second = alleles[:, 1] if alleles.shape[1] > 1 else np.full(self._n, ABSENT)
        return counts(alleles[:, 0], second)

    def _quality(self, number: int, strings: dict[int, str]) -> float:
        found = {strings[int(self._integer())]: self._typed() for _ in range(number)}
        known = [found[key] for key in INFO_KEYS if key in found]
        first = known[0] if known else None
        return float(first[0]) if isinstance(first, np.ndarray) and len(first) else np.nan

    def _head(self) -> tuple[int, int]:
        """Type and number of the next values."""
        descriptor = self._content[self._at]
        self._at += 1
        kind, length = descriptor & 15, descriptor >> 4
        if length == 15:
            length = int(self._integer())
        if kind not in WIDTH or length < 0:
            raise Damaged
        return kind, length

    def _integer(self) -> int:
        found = self._typed()
        if not isinstance(found, np.ndarray) or len(found) != 1:
            raise Damaged
        return int(found[0])

    def _typed(self) -> Array | str:
        kind, length = self._head()
        start, self._at = self._at, self._at + length * WIDTH[kind]
        if self._at > len(self._content):
            raise Damaged
        if kind == CHAR:
            return self._content[start : self._at].rstrip(b"\0").decode("utf-8")
        return np.frombuffer(self._content, dtype=_dtype(kind), count=length if kind else 0, offset=start)

    def _text(self) -> str:
        found = self._typed()
        return found if isinstance(found, str) else ""

    def _matrix(self) -> Array:
        """Values (n, length) of a FORMAT field."""
        kind, length = self._head()
        count = self._n * length
        start, self._at = self._at, self._at + count * WIDTH[kind]
        if self._at > len(self._content):
            raise Damaged
        whole = np.frombuffer(self._content, dtype=_dtype(kind), count=count if kind else 0, offset=start)
        return whole.reshape(self._n, length if kind else 0)


def _dtype(kind: int) -> str:
    return INTEGERS[kind][0] if kind in INTEGERS else "<f4" if kind == FLOAT else "u1"


def _dosages(found: Array) -> Array:
    """Dosages (n,): NaN where missing, which NaN stands for in floats."""
    if not found.shape[1] or found.dtype.kind == "u":
        raise Damaged
    values = found[:, 0].astype(np.float32)
    if found.dtype.kind == "i":
        values[found[:, 0] <= np.iinfo(found.dtype).min + 1] = np.nan
    if ((values < LOWEST) | (values > HIGHEST)).any():
        raise Damaged
    return np.clip(values, 0.0, 2.0)
