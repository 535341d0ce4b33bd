"""Bytes that the parts of Parquet and Feather files declare, read before the library reserves them."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Any

ENDS, FOOTER_END = b"ARROW1", 10  # of a Feather file: the size of the footer, and the mark
CONTINUED = 0xFFFFFFFF  # before the size of a message, in files since 2019
STORED = -1  # in place of the size of a compressed buffer: it is not compressed
WIDTH = 16  # most bytes of a value in memory: a text of a dictionary
DEEPEST = 16  # structures within structures of a page header
DATA_PAGES = {5: 1, 8: 1}  # fields of a page header -> of the number of values in them
DICTIONARY = 7
STOP, TRUE, FALSE, BYTE, DOUBLE, BINARY, LIST, SET, STRUCT = 0, 1, 2, 3, 7, 8, 9, 10, 12  # thrift


def feather_size(path: Path) -> int:
    """Bytes of all blocks of a Feather file, decompressed, or of their cells if these are more."""
    with _content(path) as content:
        end = len(content) - FOOTER_END
        if content[-len(ENDS) :] != ENDS:
            raise ValueError
        footer = _Table.root(content, end - _number("<i", content, end))
        return sum(
            _block_size(content, *block) for part in (2, 3) for block in footer.structs(part, "<qi4xq")
        )


def _block_size(content: mmap, start: int, head: int, _: int) -> int:
    """Bytes of a block of rows, or of a dictionary."""
    at = start + (8 if _number("<I", content, start) == CONTINUED else 4)
    message = _Table.root(content, at)
    block = message.table(2)
    if message.scalar(1, "<B") == 2:  # a dictionary has its values in a block
        block = block.table(1)
    buffers = list(block.structs(2, "<qq"))
    if block.place(3) is not None:  # compressed
        buffers = [(place, _expanded(content, start + head + place, size)) for place, size in buffers]
    cells = sum(max(0, length) for length, _ in block.structs(1, "<qq"))
    return max(sum(max(0, size) for _, size in buffers), 8 * cells)


def _expanded(content: mmap, at: int, size: int) -> int:
    """Bytes of a compressed buffer of this size, which come first in it."""
    declared = _number("<q", content, at) if size else 0
    return size if declared == STORED else declared


class _Table:
    """A table of FlatBuffers: fields, of which a list tells the places."""

    def __init__(self, content: mmap, at: int) -> None:
        self.content, self.at = content, at
        self.fields = at - _number("<i", content, at)

    @classmethod
    def root(cls, content: mmap, at: int) -> _Table:
        return cls(content, at + _number("<I", content, at))

    def place(self, field: int) -> int | None:
        """Where a field is, if it is there."""
        entry = 4 + 2 * field
        found = _number("<H", self.content, self.fields + entry) if entry < self._width else 0
        return self.at + found if found else None

    @property
    def _width(self) -> int:
        return _number("<H", self.content, self.fields)

    def scalar(self, field: int, kind: str) -> int:
        at = self.place(field)
        return 0 if at is None else _number(kind, self.content, at)

    def table(self, field: int) -> _Table:
        at = self.place(field)
        if at is None:
            raise ValueError
        return _Table(self.content, at + _number("<I", self.content, at))

    def structs(self, field: int, kind: str) -> Iterator[tuple[int, ...]]:
        at = self.place(field)
        if at is not None:
            at += _number("<I", self.content, at)
            size = _number("<I", self.content, at) * struct.calcsize(kind)
            yield from struct.iter_unpack(kind, self.content[at + 4 : at + 4 + size])


def pages_size(path: Path, about: Any) -> int:
    """Bytes of all pages of a Parquet file, decompressed, or of their cells if these are more.

    `about` are the metadata of pyarrow.
    """
    with _content(path) as content:
        groups = (about.row_group(g) for g in range(about.num_row_groups))
        chunks = (group.column(j) for group in groups for j in range(group.num_columns))
        return sum(_chunk_size(content, chunk) for chunk in chunks)


def _chunk_size(content: mmap, chunk: Any) -> int:
    """Bytes of the pages of a column, which follow each other until they have all values."""
    first = chunk.dictionary_page_offset
    at = first if chunk.has_dictionary_page and first else chunk.data_page_offset
    size, seen, wanted = 0, 0, chunk.num_values
    while seen < wanted:
        header, at = _structure(content, at, 0)
        size += max(header[2], WIDTH * header.get(DICTIONARY, {}).get(1, 0))
        values = [header[field][1] for field in DATA_PAGES if field in header]
        seen += sum(values)
        if header[2] < 0 or header[3] < 0 or any(value < 0 for value in values):
            raise ValueError
        at += header[3]
    return size


def _structure(content: mmap, at: int, depth: int) -> tuple[dict[int, Any], int]:
    """Integers and structures of a structure of Thrift's compact protocol, by field, and where it ends."""
    found, field = dict[int, Any](), 0
    if depth > DEEPEST:
        raise ValueError
    while (head := content[at]) != STOP:
        kind, at = head & 15, at + 1
        if head >> 4:
            field += head >> 4
        else:
            field, at = _integer(content, at)
        if kind == STRUCT:
            found[field], at = _structure(content, at, depth + 1)
        elif kind in (TRUE, FALSE):
            continue
        elif kind == BYTE:
            at += 1
        elif kind == DOUBLE:
            at += 8
        elif kind == BINARY:
            size, at = _varint(content, at)
            at += size
        elif kind < BINARY:
            found[field], at = _integer(content, at)
        else:  # page headers have no lists
            raise ValueError
    return found, at + 1


def _integer(content: mmap, at: int) -> tuple[int, int]:
    """A signed integer, whose last bit is its sign."""
    value, at = _varint(content, at)
    return (value >> 1) ^ -(value & 1), at


def _varint(content: mmap, at: int) -> tuple[int, int]:
    value = shift = 0
    while (byte := content[at]) & 128:
        value, shift, at = value | (byte & 127) << shift, shift + 7, at + 1
        if shift > 63:
            raise ValueError
    return value | byte << shift, at + 1


def _number(kind: str, content: mmap, at: int) -> int:
    if at < 0:
        raise ValueError
    (found,) = struct.unpack_from(kind, content, at)
    return int(found)


@contextmanager
def _content(path: Path) -> Iterator[mmap]:
    """The bytes of a file; those that are not as they must be are a ValueError."""
    try:
        with path.open("rb") as file, mmap(file.fileno(), 0, access=ACCESS_READ) as content:
            yield content
    except (struct.error, IndexError, KeyError, TypeError, AttributeError) as error:
        raise ValueError from error
