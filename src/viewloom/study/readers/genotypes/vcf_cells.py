"""Calls and dosages in the cells of a line of a VCF, all subjects at a time."""

from __future__ import annotations

import numpy as np

Array = np.ndarray
TAB, COLON, DOT, ZERO = b"\t:.0"
SLASH, BAR = b"/|"
ABSENT = -2  # second allele of a subject with one copy; a missing allele is -1
OTHER_PLOIDY = "with more than two copies of a subject left out"
WITHOUT = "without calls left out"
MOST_DIGITS = 24  # of a dosage
LOWEST, HIGHEST = -1e-3, 2.001  # dosages, up to rounding


class Damaged(Exception):
    """Content that cannot be right."""


def calls(cells: bytes, n: int, key: int, keys: int) -> Array | None:
    r"""Copies of ALT (n,) as int8, -1 where there is no call; None where a subject has more than two copies.

    >>> calls(b"0|1:9\t1/1:9\t.:.", 3, 0, 2).tolist(), calls(b"0/1\t1/1\t./.", 3, 0, 1).tolist()
    ([1, 2, -1], [1, 2, -1])
    >>> calls(b"/0|1\t|1\t/0/0", 3, 0, 1).tolist()
    [1, 2, 0]
    """
    text = np.frombuffer(cells, dtype=np.uint8)
    if keys == 1 and len(text) == 4 * n - 1 and (text[3::4] == TAB).all():  # a call of three letters each
        return counts(_allele(text[::4]), _second(text[1::4], text[2::4]))
    start, end = fields(text, n, key)
    start = _after_phase(text, start, end)
    length = end - start
    if (length > 3).any() or (length == 2).any():
        return None
    if (length < 1).any():
        raise Damaged
    first, second = _allele(text[start]), np.full(n, ABSENT, dtype=np.int8)
    double = length == 3
    second[double] = _second(text[start[double] + 1], text[start[double] + 2])
    return counts(first, second)


def _after_phase(text: Array, start: Array, end: Array) -> Array:
    """Calls may begin with / or | since VCF 4.4, which tells whether the first allele is phased."""
    first = text[np.minimum(start, len(text) - 1)]
    return np.where((start < end) & ((first == SLASH) | (first == BAR)), start + 1, start)


def counts(first: Array, second: Array) -> Array:
    """Copies of ALT (n,) from two alleles: 0, 1, -1 where missing, -2 where there is no second copy.

    Subjects with one copy, as men have of X, count 0 or 2, as in PLINK; half calls are no calls.

    >>> counts(np.array([0, 1, 1, -1, 0]), np.array([1, 1, -2, 1, 0])).tolist()
    [1, 2, 2, -1, 0]
    """
    total = first + np.where(second == ABSENT, first, second)
    return np.where((first < 0) | (second == -1), -1, total).astype(np.int8)


def _allele(letters: Array) -> Array:
    """Alleles 0 and 1, -1 for a dot."""
    found = np.where(letters == DOT, -1, letters.astype(np.int8) - ZERO).astype(np.int8)
    if (found < -1).any() or (found > 1).any():
        raise Damaged
    return found


def _second(between: Array, letters: Array) -> Array:
    if not ((between == SLASH) | (between == BAR)).all():
        raise Damaged
    return _allele(letters)


def dosages(cells: bytes, n: int, key: int) -> Array:
    r"""Dosages (n,) as float32, NaN where missing.

    >>> dosages(b"0/1:1.25\t0/0:.\t1/1\t0/1:1e0", 4, 1).tolist()
    [1.25, nan, nan, 1.0]
    """
    text = np.frombuffer(cells, dtype=np.uint8)
    start, end = fields(text, n, key)
    values = decimals(text, start, end)
    if ((values < LOWEST) | (values > HIGHEST)).any():
        raise Damaged
    return np.clip(values, 0.0, 2.0).astype(np.float32)


def fields(text: Array, n: int, key: int) -> tuple[Array, Array]:
    """Where the field at position `key` of each subject begins and ends; both alike where it is absent."""
    tabs = np.flatnonzero(text == TAB)
    if len(tabs) != n - 1:
        raise Damaged
    start = np.concatenate([[0], tabs + 1])
    end = np.concatenate([tabs, [len(text)]])
    colons = np.concatenate([np.flatnonzero(text == COLON), [len(text)] * (key + 2)])
    next_colon = np.searchsorted(colons, start)
    if key:
        before = colons[next_colon + key - 1]
        start = np.where(before < end, before + 1, end)
    return start, np.maximum(start, np.minimum(end, colons[next_colon + key]))


def decimals(text: Array, start: Array, end: Array) -> Array:
    """Numbers (n,) in parts of a text, NaN for a dot and for nothing."""
    length = end - start
    width = int(length.max(initial=0))
    if width > MOST_DIGITS:
        raise Damaged
    padded = np.concatenate([text, np.zeros(width + 1, dtype=np.uint8)])
    whole, scale = np.zeros(len(start)), np.ones(len(start))
    dotted, odd = np.zeros(len(start), dtype=bool), np.zeros(len(start), dtype=bool)
    for i in range(width):
        letter, inside = padded[start + i], length > i
        digit = letter - np.uint8(ZERO)  # wraps below 0, so that only digits are below 10
        isdigit, isdot = inside & (digit < 10), inside & (letter == DOT)
        odd |= inside & ~isdigit & ~isdot | isdot & dotted
        whole = np.where(isdigit, 10.0 * whole + digit, whole)
        scale = np.where(isdigit & dotted, 10.0 * scale, scale)
        dotted |= isdot
    values = whole / scale
    values[(length == 0) | ((length == 1) & dotted)] = np.nan
    for j in np.flatnonzero(odd):  # an exponent, or no number
        try:
            values[j] = float(bytes(text[start[j] : end[j]]))
        except ValueError:
            raise Damaged from None
    return values
