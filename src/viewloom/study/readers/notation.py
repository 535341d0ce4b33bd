"""Notation of numbers in text cells: parsing, and the kinds of cells that are not numbers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd

from viewloom.study.errors import Message, Suggestion

Array = np.ndarray
DIGITS = r"[-+\u2212]?\d+(?:[.,]\d+)?"
SPACES = "\u00a0\u202f\u2009"  # thousands separators
KINDS = {  # kinds of cells that are not numbers; the first that matches
    "both marks": r"[-+]?[1-9]\d{0,2}(?:\.\d{3})+,\d+|[-+]?[1-9]\d{0,2}(?:,\d{3})+\.\d+",
    "thousands": r"[-+]?[1-9]\d{0,2}(?:([., '\u2019\u00a0\u202f\u2009])\d{3})(?:\1\d{3})*",
    "comma": r"[-+]?\d*,\d+",
    "point": r"[-+]?\d*\.\d+",
    "date": r"\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}(?:[ T].*)?|\d{1,2}[- ]?[A-Za-z]{3}[- ]?\d{2,4}",
    "error": r"#[A-Z/0]+[!?]|Err:\d{3}",
    "percent": rf"{DIGITS}\s*%",
    "bound": rf"(?:[<>\u2264\u2265~]=?|=)\s*{DIGITS}|{DIGITS}\s*\+",
    "quotes": rf"(['\"\u2018\u2019\u201c\u201d]){DIGITS}['\"\u2018\u2019\u201c\u201d]?",
    "unit": rf"{DIGITS}\s*(?!\d)[^\W\d_][\w\u00b5\u00b0/^.\u00b2\u00b3]{{0,9}}",
}
NUMBERS = {  # kinds that are numbers in another notation
    "both marks", "thousands", "doubtful thousands", "comma", "point", "mixed", "percent", "quotes",
}  # fmt: skip
SETTABLE = {"both marks", "thousands", "doubtful thousands", "comma"}  # by decimal and thousands
TRUTH = {"true": 1.0, "false": 0.0}
MOST_SHOWN, LONGEST = 5, 14  # texts in a message, and characters of one
SHOWABLE = re.compile(rf"[<>\u2264\u2265~=]*\s*{DIGITS}\s*[^\d_]{{0,10}}|[^\d]+")
NEUTRAL = r"0|-\d|-?([789])\1+"  # zero and missing codes, which say nothing about the notation
FIRST = 64  # cells of a column that mostly decide whether they may have been thousands
MOSTLY = 0.5  # share of numbers in a numeric column


@dataclass(frozen=True)
class Notation:
    """The notation of the numbers of a table.

    Attributes
    ----------
    decimal, thousands : str
        Separators; empty where thousands are not separated.
    given : bool
        Whether the user set it.
    certain : bool
        Whether some comma in the table is certainly a decimal one.
    options : bool
        Whether the format has the options decimal and thousands.
    """

    decimal: str = "."
    thousands: str = ""
    given: bool = False
    certain: bool = True
    options: bool = False


@dataclass(frozen=True)
class Fault:
    """Cells of a column that are not numbers: count, kinds, and texts that may be shown."""

    count: int
    known: int
    kinds: tuple[str, ...]
    texts: tuple[str, ...]
    marks: tuple[str, ...] = ()

    @property
    def mostly_numbers(self) -> bool:
        """Whether the column is numeric except for a few cells, or for its notation."""
        return self.known - self.count >= MOSTLY * self.known or set(self.kinds) <= NUMBERS


def parse(text: pd.Series, notation: Notation) -> Array:
    """Numbers in text cells, NaN for other cells.

    >>> parse(pd.Series(["6.995", "183", "1,5", "1.5"]), Notation(",", ".")).tolist()
    [6995.0, 183.0, 1.5, nan]
    """
    if text.str.casefold().isin(TRUTH).sum() == text.notna().sum():
        return text.str.casefold().map(TRUTH).to_numpy(dtype=np.float64, na_value=np.nan)
    plain = _ungrouped(text, notation) if notation.thousands else text
    if notation.decimal == ",":
        plain = plain.mask(plain.str.contains(".", regex=False, na=False))
        plain = plain.str.replace(",", ".", regex=False)
    return pd.to_numeric(plain, errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)


def _ungrouped(text: pd.Series, notation: Notation) -> pd.Series:
    """Numbers without thousands separators; missing where a separator is in another place."""
    mark, decimal = re.escape(notation.thousands), re.escape(notation.decimal)
    if notation.thousands == " ":
        text = text.str.replace(rf"[{SPACES}]", " ", regex=True)
    marked = text.str.contains(notation.thousands, regex=False, na=False)
    grouped = text.str.fullmatch(rf"[-+]?[1-9]\d{{0,2}}(?:{mark}\d{{3}})+(?:{decimal}\d*)?", na=False)
    plain = text.str.replace(notation.thousands, "", regex=False)
    return plain.where(grouped | ~marked)


def fault(text: pd.Series, values: Array, notation: Notation) -> Fault | None:
    """The fault of a text column, of which `values` are the numbers; None if there is none."""
    known = int(text.notna().sum())
    wrong = text[np.isnan(values) & text.notna().to_numpy()]
    if len(wrong):
        distinct = wrong.unique().tolist()
        kinds = {cell: kind_of(cell, notation) for cell in distinct}
        marks = {found[1] for cell in distinct if (found := re.search(r"\d([., '\u2019\u00a0])\d", cell))}
        if "comma" in kinds.values() and text.str.fullmatch(r"[-+]?\d*\.\d+", na=False).any():
            kinds = {cell: "mixed" if kind == "comma" else kind for cell, kind in kinds.items()}
        texts = showable(distinct) if len(wrong) < MOSTLY * known else ()
        return Fault(len(wrong), known, tuple(dict.fromkeys(kinds.values())), texts, tuple(sorted(marks)))
    grouped = _grouped_in_doubt(text, notation)
    if grouped:
        return Fault(grouped, known, ("doubtful thousands",), (), (notation.decimal,))
    return None


def kind_of(cell: str, notation: Notation) -> str:
    """The kind of a cell that is not a number.

    >>> kinds = (kind_of(cell, Notation()) for cell in ("61,2", "1,234", "90+", "12 %", "#DIV/0!", "low"))
    >>> list(kinds)
    ['comma', 'thousands', 'bound', 'percent', 'error', 'text']
    """
    return next((kind for kind, pattern in KINDS.items() if re.fullmatch(pattern, cell)), "text")


def _grouped_in_doubt(text: pd.Series, notation: Notation) -> int:
    """Number of cells that may be thousands: 6.995 beside 183, or 6,995 without a certain decimal comma."""
    if notation.given or notation.thousands:
        return 0
    mark = re.escape(notation.decimal)
    text = text.reset_index(drop=True)
    marked = text[text.str.contains(notation.decimal, regex=False, na=False)]
    if not len(marked) or not marked.str.fullmatch(rf"[-+]?[1-9]\d{{0,2}}(?:{mark}\d{{3}})").all():
        return 0
    others = text[~text.index.isin(marked.index)].dropna()
    beside = not others.str.fullmatch(NEUTRAL).all()
    return len(marked) if beside or not notation.certain else 0


def may_be_grouped(values: Array, notation: Notation) -> bool:
    """Whether numbers may have been thousands, so that their text has to be checked."""
    if len(values) > FIRST and not looks_grouped(fractions(values[:FIRST])):
        return False
    known = values[np.isfinite(values)]
    parts = fractions(known)
    if notation.given or not len(parts) or (len(parts) == len(known) and notation.certain):
        return False
    if np.abs(known).max() <= 2:  # dosages
        return False
    return looks_grouped(parts)


def fractions(values: Array) -> Array:
    """Finite values that are not whole."""
    return values[np.isfinite(values) & (np.trunc(values) != values)]


def looks_grouped(parts: Array) -> bool:
    """Whether all are between 1 and 1000 with at most three decimals."""
    size = np.abs(parts) * 1000
    return bool((size >= 1000).all() and (size < 1e6).all() and (np.abs(size - np.rint(size)) < 1e-6).all())


def showable(texts: list[str]) -> tuple[str, ...]:
    """Texts that may be shown in a message: few, short, and neither ids nor dates."""
    plain = all(
        len(text) <= LONGEST
        and (SHOWABLE.fullmatch(text) or kind_of(text, Notation()) == "error")
        and not re.search(r"\d{5}|\d{4}.*[^\W\d_]", text)
        and kind_of(text, Notation()) != "date"
        for text in texts
    )
    return tuple(sorted(texts)) if plain and len(texts) <= MOST_SHOWN else ()


def advice(found: Fault, notation: Notation, way_out: str) -> Message:
    """The solution for a column with a fault."""
    ways = list(dict.fromkeys(_advice(found, notation, way_out)))
    return Message(", or ".join(ways), *ways)


def _advice(found: Fault, notation: Notation, way_out: str) -> Iterator[str]:
    mark = found.marks[0] if found.marks else "."
    mark = " " if mark in SPACES else "'" if mark == "\u2019" else mark
    other = {".": ",", ",": "."}.get(mark, notation.decimal)
    for kind in found.kinds:
        if kind in ("thousands", "doubtful thousands", "both marks", "comma") and not notation.options:
            yield "write numbers with decimal points and without thousands separators"
        elif kind == "thousands":
            yield Message(f'set thousands = "{mark}"', Suggestion({"thousands": mark}))
            if mark != notation.decimal and mark in ".,":
                yield _decimal(mark, "if it is the decimal mark")
        elif kind == "doubtful thousands":
            thousands = "if these are thousands"
            yield Message(f'set thousands = "{mark}" {thousands}', Suggestion({"thousands": mark}, thousands))
            yield _decimal(mark, "if they are decimals")
        elif kind == "both marks":
            both = Suggestion({"decimal": other, "thousands": mark})
            yield Message(f'set decimal = "{other}" and thousands = "{mark}"', both)
        elif kind == "date" and not found.mostly_numbers:
            yield "leave dates out with exclude"
        else:
            yield ADVICE.get(kind, way_out)


def _decimal(mark: str, condition: str) -> Message:
    return Message(f'decimal = "{mark}" {condition}', Suggestion({"decimal": mark}, condition))


ADVICE = {
    "comma": Message('set decimal = ","', Suggestion({"decimal": ","})),
    "point": "write all numbers of the table with one decimal mark",
    "mixed": "write all numbers of the table with one decimal mark",
    "percent": "write numbers without percent signs",
    "unit": "write numbers without units",
    "quotes": "write numbers without quotation marks",
}
DESCRIPTIONS = {  # instead of "not a number"
    "comma": "written with decimal commas",
    "point": "written with decimal points in a table of decimal commas",
    "mixed": "written with decimal points and with decimal commas",
    "percent": "written with percent signs",
    "unit": "written with units",
    "quotes": "written with quotation marks",
    "thousands": "written with thousands separators",
    "both marks": "written with thousands and decimal separators",
    "doubtful thousands": "written with three digits after a separator, as thousands are,",
    "date": "a date",
    "error": "a spreadsheet error",
}


def description(found: Fault) -> str:
    """The fault of a column: not a number, or a number in another notation."""
    return DESCRIPTIONS.get(found.kinds[0], "not a number") if len(found.kinds) == 1 else "not a number"
