"""Compound files (OLE), such as workbooks of Excel before 2007: chains of sectors, checked before use.

A table says which sector follows each; a chain that comes back to itself would never be read to its end.
"""

from __future__ import annotations

import numpy as np

Array = np.ndarray
FIRST = 109  # sectors of the table that the header lists
LAST = 0xFFFFFFFA  # numbers from here on are no sectors, but ends of chains and the like
HEAD = 512  # bytes


def has_endless_chain(content: bytes) -> bool:
    """Whether a chain of sectors comes back to itself, or the header is damaged."""
    if len(content) < HEAD or int.from_bytes(content[0x1E:0x20], "little") not in (9, 12):
        return True
    listed = _listed(content)
    if listed is None:
        return True
    following = _numbers(content, listed)
    if _comes_back(following):
        return True
    small = _chain(following, _number(content, 0x3C))
    return _comes_back(_numbers(content, small))


def _listed(content: bytes) -> list[int] | None:
    """Sectors of the table: those in the header, and in sectors that follow each other; None if endless."""
    found = np.frombuffer(content, dtype="<u4", count=FIRST, offset=0x4C).tolist()
    at, seen = _number(content, 0x44), set[int]()
    while at < LAST:
        part = _numbers(content, [at]).tolist()
        if at in seen:
            return None
        if not part:
            break
        seen.add(at)
        found += part[:-1]
        at = part[-1]
    return [one for one in found if one < LAST]


def _number(content: bytes, at: int) -> int:
    return int.from_bytes(content[at : at + 4], "little")


def _numbers(content: bytes, sectors: list[int]) -> Array:
    """The numbers in some sectors, of those that the file has."""
    size = 1 << int.from_bytes(content[0x1E:0x20], "little")
    parts = [content[(one + 1) * size : (one + 2) * size] for one in sectors]
    return np.frombuffer(b"".join(part for part in parts if len(part) == size), dtype="<u4")


def _chain(following: Array, at: int) -> list[int]:
    """Sectors from one to the end of its chain, which has one."""
    found = list[int]()
    while at < len(following):
        found.append(at)
        at = int(following[at])
    return found


def _comes_back(following: Array) -> bool:
    """Whether a chain has no end: steps are doubled until they exceed the number of sectors.

    >>> _comes_back(np.array([1, 2, LAST])), _comes_back(np.array([1, 2, 0]))
    (False, True)
    """
    end = len(following)
    step = np.append(np.minimum(following.astype(np.int64), end), end)
    for _ in range(end.bit_length()):
        step = step[step]
    return bool((step != end).any())
