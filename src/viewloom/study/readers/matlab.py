"""MATLAB files of versions 5 to 7, read by NumPy: damaged ones end the process in other readers.

A file is a sequence of elements: 8 bytes with a type and a size, then the data. Arrays are elements, too: of
their flags, shape, name and data, or of further arrays.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np

from viewloom.study.errors import StudyError, check_readable

LARGEST = 1 << 22  # bytes of a file; those of CAT12 have about 10 KiB
MOST_EXPANDED = 1 << 24  # bytes of all its variables
MOST_ARRAYS = 1 << 18
DEEPEST = 20
HEAD = 128  # bytes
MATRIX, COMPRESSED = 14, 15  # types of elements; of others:
NUMBERS = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
TEXTS = {1: "latin-1", 2: "latin-1", 4: "utf-16", 16: "utf-8", 17: "utf-16", 18: "utf-32"}
CELLS, STRUCTURE, CHARACTERS = 1, 2, 4  # classes of arrays; numbers are the following
NUMERIC = range(6, 16)
HDF5 = b"MATLAB 7.3"
DAMAGED = "a MATLAB file that is damaged, or not of CAT12"
TOO_LARGE = "a MATLAB file that is empty or too large"
Order = Literal["little", "big"]
Element = tuple[int, bytes]
Sized = TypeVar("Sized", list[Any], np.ndarray)
Value = dict[str, "Value"] | list["Value"] | str | np.ndarray | None


def load_mat(path: Path) -> list[Value]:
    """The variables of a file.

    Returns
    -------
    list
        Structures as dict, cells as list, text as str, numbers as float64 (in the order of MATLAB, by
        columns), None for what is not known, such as arrays of several structures.

    Raises
    ------
    StudyError
        Without the name of the file, which may be that of a subject.
    """
    check_readable(path)
    content = path.read_bytes() if path.stat().st_size <= LARGEST else b""
    if content.startswith(HDF5):
        raise StudyError("a MATLAB file of version 7.3; save it with -v7, or use the .xml of CAT12")
    if not content:
        raise StudyError(TOO_LARGE)
    if len(content) < HEAD or content[126:128] not in (b"IM", b"MI"):
        raise StudyError(DAMAGED)
    reader = _Reader("little" if content[126:128] == b"IM" else "big")
    try:
        return list(reader.variables(content[HEAD:]))
    except StudyError:
        raise
    except (ValueError, IndexError, zlib.error):
        raise StudyError(DAMAGED) from None


class _Reader:
    """Reads arrays, no more than a limit."""

    def __init__(self, order: Order) -> None:
        self.order: Order = order
        self.room, self.arrays = MOST_EXPANDED, MOST_ARRAYS

    def variables(self, content: bytes) -> Iterator[Value]:
        for kind, data in self.elements(content, padded=False):
            if kind == COMPRESSED:
                found = self.elements(self.expanded(data))
                yield from (self.array(part) for inner, part in found if inner == MATRIX)
            elif kind == MATRIX:
                yield self.array(data)

    def elements(self, data: bytes, *, padded: bool = True) -> Iterator[Element]:
        """Types and contents of elements that follow each other."""
        at = 0
        while at + 8 <= len(data):
            kind, size = self.number(data, at), self.number(data, at + 4)
            if kind >> 16:  # up to four bytes, in place of the size
                yield kind & 0xFFFF, data[at + 4 : at + 4 + min(kind >> 16, 4)]
                at += 8
                continue
            if not kind or size > len(data) - at - 8:
                raise ValueError
            yield kind, data[at + 8 : at + 8 + size]
            at += 8 + size + (-size % 8 if padded and kind != COMPRESSED else 0)

    def number(self, data: bytes, at: int) -> int:
        return int.from_bytes(data[at : at + 4], self.order)

    def expanded(self, data: bytes) -> bytes:
        opened = zlib.decompressobj().decompress(data, self.room + 1)
        self.room -= len(opened)
        if self.room < 0:
            raise StudyError(TOO_LARGE)
        return opened

    def array(self, data: bytes, depth: int = 0) -> Value:
        """The value of an array; nothing but its tag is stored of an empty one."""
        self.arrays -= 1
        if depth > DEEPEST or self.arrays < 0:
            raise ValueError
        if not data:
            return None
        parts = self.elements(data)
        flags, shape, _ = next(parts, (0, b"")), next(parts, (0, b"")), next(parts, (0, b""))  # and the name
        kind, count = self.number(flags[1], 0) & 0xFF, _product(self.numbers(shape))
        if kind == STRUCTURE:
            return self.structure(parts, depth) if count == 1 else None
        if kind == CELLS:
            return _of_size([self.array(part, depth + 1) for inner, part in parts if inner == MATRIX], count)
        element = next(parts, None)
        if element is None:
            return None
        if kind == CHARACTERS:
            return self.text(element)
        return _of_size(self.numbers(element), count) if kind in NUMERIC else None

    def structure(self, parts: Iterator[Element], depth: int) -> dict[str, Value]:
        length, names = int(self.numbers(next(parts, (0, b"")))[0]), next(parts, (0, b""))[1]
        if length < 1:
            raise ValueError
        fields = [names[at : at + length] for at in range(0, len(names), length)]
        values = (self.array(part, depth + 1) for inner, part in parts if inner == MATRIX)
        return dict(zip((_until_zero(field) for field in fields), values, strict=True))

    def numbers(self, element: Element) -> np.ndarray:
        kind, data = element
        if kind not in NUMBERS:
            raise ValueError
        mark = "<" if self.order == "little" else ">"
        return np.frombuffer(data, dtype=mark + NUMBERS[kind]).astype(np.float64)

    def text(self, element: Element) -> str:
        kind, data = element
        if kind not in TEXTS:
            raise ValueError
        wide = f"-{self.order[0]}e" if kind in (4, 17, 18) else ""
        return data.decode(TEXTS[kind] + wide)


def _of_size(values: Sized, count: float) -> Sized:
    """The values, unless the shape tells of others."""
    if len(values) != count:
        raise ValueError
    return values


def _product(shape: np.ndarray) -> float:
    return float(np.prod(shape)) if len(shape) else 0.0


def _until_zero(name: bytes) -> str:
    return name.split(b"\0")[0].decode("latin-1")
