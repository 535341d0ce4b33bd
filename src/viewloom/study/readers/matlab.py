"""MATLAB files up to version 7, checked before they are read: damaged sizes would cost time and memory."""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from viewloom.study.errors import StudyError, check_readable

LARGEST = 1 << 22  # bytes of a file; those of CAT12 have about 10 KiB
MOST_EXPANDED = 1 << 27  # bytes of one variable
DEEPEST = 20
HEAD = 128  # bytes
INT32, MATRIX, COMPRESSED = 5, 14, 15  # types of data elements
HDF5 = b"MATLAB 7.3"
DAMAGED = "a MATLAB file that is damaged, or not of CAT12"
Order = Literal["little", "big"]


def load_mat(path: Path) -> list[Any]:
    """The variables of a file, with structures as objects.

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
        raise StudyError("a MATLAB file that is empty or too large")
    _check(content)
    from scipy.io import loadmat

    try:
        found = loadmat(path, squeeze_me=True, struct_as_record=False, chars_as_strings=True)
    except Exception:  # damaged files fail in many ways
        raise StudyError(DAMAGED) from None
    return [value for key, value in found.items() if not key.startswith("__")]


def _check(content: bytes) -> None:
    """Refuse files of another version, and sizes that cannot be."""
    order: Order = "little" if content[126:128] == b"IM" else "big"
    if len(content) < HEAD or content[126:128] not in (b"IM", b"MI"):
        raise StudyError(DAMAGED)
    for kind, data in _elements(content[HEAD:], order, padded=False):
        if kind == COMPRESSED:
            for inner, part in _elements(_expanded(data), order):
                _check_element(inner, part, order, 0)
        else:
            _check_element(kind, data, order, 0)


def _check_element(kind: int, data: bytes, order: Order, depth: int) -> None:
    """An array has no more entries than bytes, and contains no others too deeply."""
    if kind != MATRIX or not data:
        return
    parts = list(_elements(data, order))
    sizes = parts[1][1] if len(parts) > 1 and parts[1][0] == INT32 else b"\xff\xff\xff\x7f"
    shape = [int.from_bytes(sizes[at : at + 4], order, signed=True) for at in range(0, len(sizes), 4)]
    if depth > DEEPEST or min(shape, default=-1) < 0 or math.prod(shape) > len(data):
        raise StudyError(DAMAGED)
    for inner, part in parts:
        _check_element(inner, part, order, depth + 1)


def _elements(data: bytes, order: Order, *, padded: bool = True) -> Iterator[tuple[int, bytes]]:
    """Types and contents of data elements that follow each other."""
    at = 0
    while at + 8 <= len(data):
        kind, size = (int.from_bytes(data[at + by : at + by + 4], order) for by in (0, 4))
        if kind >> 16:  # up to four bytes, in the tag itself
            yield kind & 0xFFFF, data[at + 4 : at + 4 + min(kind >> 16, 4)]
            at += 8
            continue
        if size > len(data) - at - 8:
            raise StudyError(DAMAGED)
        yield kind, data[at + 8 : at + 8 + size]
        at += 8 + size + (-size % 8 if padded and kind != COMPRESSED else 0)


def _expanded(data: bytes) -> bytes:
    try:
        opened = zlib.decompressobj().decompress(data, MOST_EXPANDED + 1)
    except zlib.error:
        raise StudyError(DAMAGED) from None
    if len(opened) > MOST_EXPANDED:
        raise StudyError("a MATLAB file that is empty or too large")
    return opened
