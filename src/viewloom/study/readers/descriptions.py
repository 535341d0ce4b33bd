"""Rows between the header and the data that describe the columns: their meaning, labels or units."""

from __future__ import annotations

import re
from collections.abc import Sequence

NUMBER = re.compile(r"[-+]?[.,]?\d[\d.,]*(?:[eE][-+]?\d+)?")
DATUM = re.compile(r"[<>=~≤≥]*\s*[-+]?[.,]?\d[\d.,:/-]*(?:[eE][-+]?\d+)?\s*%?")  # number, date, time or limit
CODE = re.compile(r"(?=\D*\d)[\w.:/+-]+")  # as ids and visits are written
ABSENT = {"", ".", "-", "--", "?", "na", "n/a", "#n/a", "<na>", "nan", "null", "none", "missing", "n.d."}
HEADINGS = {"unit", "units", "description", "descriptions", "label", "labels", "type", "types", "einheit"}
UNITS = {
    "mm", "cm", "m", "mm2", "mm3", "cm3", "ml", "l", "dl", "g", "kg", "mg", "ug", "ng", "pg", "s", "ms",
    "sec", "min", "h", "hours", "days", "weeks", "months", "years", "yrs", "score", "count", "au",
    "a.u.", "ratio", "suvr", "hz", "bpm", "mmhg", "mmol", "nmol", "nm", "um", "µm", "mm³", "mm²", "iu",
}  # fmt: skip
NOTE = ("row of descriptions below the header", "rows of descriptions below the header")
MOST = 3  # rows of descriptions, as Qualtrics writes
SENTENCE = 3  # words of a description


def described(rows: Sequence[Sequence[str]]) -> int:
    """Number of rows at the start, below a header, that describe columns of numbers.

    >>> described([["", "pg/mL", "mm3"], ["S1", "3.1", "40"], ["S2", "2.9", "41"]])
    1
    >>> described([["S0", "n/k", "mm3"], ["S1", "3.1", "40"], ["S2", "2.9", "41"]])
    0
    """
    for count in range(1, min(MOST, len(rows) - 2) + 1):
        if any(DATUM.fullmatch(cell.strip()) for cell in rows[count - 1]):
            return 0
        if all(_describes(row, rows[count:]) for row in rows[:count]):
            return count
    return 0


def _describes(row: Sequence[str], data: Sequence[Sequence[str]]) -> bool:
    """Whether a row has texts above all numbers, which are no missing codes, and is not that of a subject."""
    measured = [j for j in range(max(map(len, data))) if has_numbers(data, j)]
    texts = [row[j].strip().casefold() if j < len(row) else "" for j in measured]
    if not texts or not ABSENT.isdisjoint(texts) or _is_subject(row, data, measured):
        return False
    first = row[0].strip().casefold()
    return first in {"", *HEADINGS} or _are_units(texts) or _are_labels(texts)


def _is_subject(row: Sequence[str], data: Sequence[Sequence[str]], measured: Sequence[int]) -> bool:
    """Whether a cell beside the numbers is an id, a visit or a group as in the rows below."""
    for j, cell in enumerate(cell.strip().casefold() for cell in row):
        if j in measured or cell in ABSENT or (j == 0 and cell in HEADINGS):
            continue
        below = {other[j].strip().casefold() for other in data if j < len(other)} - ABSENT
        codes = bool(below) and all(map(CODE.fullmatch, [cell, *below]))
        if codes or cell in below or (j == 0 and shape(cell) in map(shape, below)):
            return True
    return False


def shape(text: str) -> str:
    """A text with all words and all numbers alike.

    >>> shape("sub 07"), shape("Subject")
    ('a 0', 'a')
    """
    return re.sub(r"\d+", "0", re.sub(r"[^\W\d_]+", "a", text))


def has_numbers(data: Sequence[Sequence[str]], j: int) -> bool:
    """Whether a column has at least two cells, all of them numbers."""
    cells = [row[j].strip() for row in data if j < len(row)]
    known = [cell for cell in cells if cell.casefold() not in ABSENT]
    return len(known) > 1 and all(map(NUMBER.fullmatch, known))


def _are_units(texts: Sequence[str]) -> bool:
    return all(text.strip("()[] ") in UNITS or set(text) & set("/%^") for text in texts)


def _are_labels(texts: Sequence[str]) -> bool:
    """Whether most texts differ, as missing codes of one subject do not; a few must be sentences."""
    distinct = len(set(texts))
    if len(texts) < SENTENCE:
        return distinct == len(texts) and all(len(text.split()) >= SENTENCE for text in texts)
    return distinct >= max(SENTENCE, len(texts) / 2)
