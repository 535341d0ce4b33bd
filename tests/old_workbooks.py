"""Workbooks of Excel before 2007, made by hand: no library that is installed writes them."""

import struct

NONE, END, TABLE = 0xFFFFFFFF, 0xFFFFFFFE, 0xFFFFFFFD  # sectors of compound files


def record(kind, content=b""):
    """A record of an old workbook."""
    return struct.pack("<HH", kind, len(content)) + content


def text(row, column, cell):
    return record(0x204, struct.pack("<HHHHB", row, column, 0, len(cell), 0) + cell.encode())


def number(row, column, cell):
    return record(0x203, struct.pack("<HHHd", row, column, 0, cell))


def old_workbook(rows, *more, sheets=1, table_length=1):
    """An .xls whose sheets all have these rows, of text and numbers, and further records."""
    cells = [
        (text if isinstance(cell, str) else number)(i, j, cell)
        for i, row in enumerate(rows)
        for j, cell in enumerate(row)
        if cell is not None
    ]
    begin = [record(0x809, struct.pack("<HHHHII", 0x600, kind, 0, 0, 0, 0)) for kind in (5, 16)]
    at = len(begin[0]) + 18 * sheets + 4
    listed = [record(0x85, struct.pack("<IHBB", at, 0, 6, 0) + b"s%05d" % n) for n in range(sheets)]
    content = b"".join([begin[0], *listed, record(10), begin[1], *more, *cells, record(10)])
    return compound(content.ljust(4096, b"\0"), table_length)


def compound(stream, table_length):
    """A compound file: header, table of sectors, directory, and the stream of a workbook."""
    n = -(-len(stream) // 512)
    following = [TABLE, END, *range(3, n + 2), END]
    head = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(16) + struct.pack("<5H6x", 0x3E, 3, 0xFFFE, 9, 6)
    head += struct.pack("<9I", 0, table_length, 1, 0, 4096, END, 0, END, 0)
    head += struct.pack("<109I", 0, *[NONE] * 108)
    entries = entry("Root Entry", 5, END, 0, 1) + entry("Workbook", 2, 2, len(stream)) + bytes(256)
    table = struct.pack("<128I", *following, *[NONE] * (128 - len(following)))
    return head + table + entries + stream.ljust(512 * n, b"\0")


def entry(name, kind, start, size, child=NONE):
    letters = name.encode("utf-16-le") + b"\0\0"
    numbers = struct.pack("<HBBIII36xIQ", len(letters), kind, 1, NONE, NONE, child, start, size)
    return letters.ljust(64, b"\0") + numbers
