"""Conditions on rows, such as ``QC == 'Pass' and AGE >= 55``: parsed here, never evaluated as Python.

A condition is true, false or, where a cell is missing, unknown. Rows are kept where it is true.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

Array = np.ndarray
MOST = 2000  # characters
DEEPEST = 50  # parentheses
TOKEN = re.compile(
    r"\s*(?:(?P<number>[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?(?![\w.]))|(?P<op><=|>=|==|!=|<|>)"
    r"|(?P<text>'[^']*'|\"[^\"]*\")|(?P<quoted>`[^`]+`)|(?P<word>[^\W\d][\w.]*)|(?P<mark>[()\[\],]))",
)
WORDS = {"and", "or", "not", "in", "is", "missing"}
COMPARE: dict[str, Callable[[Array, Array], Array]] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le,
    ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
MIRRORED = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}
HINTS = {"=": "write == to compare", "&": "write and", "|": "write or", "!": "write not", "~": "write not"}


class ConditionError(Exception):
    """Why a text is not a condition."""


class Truth(NamedTuple):
    """Where a condition holds, and where it does not; in the other rows it is unknown."""

    yes: Array
    no: Array


class Rows(Protocol):
    """Columns of a table, as a condition needs them."""

    def numbers(self, column: str) -> Array:
        """Numbers of a column, NaN where missing."""

    def texts(self, column: str) -> Array:
        """Texts of a column, None where missing."""

    def dates(self, column: str) -> Array:
        """Days of a column of dates, NaN where missing."""

    def day(self, text: str) -> float | None:
        """The day of a date; None for other texts."""


class Column(NamedTuple):
    """A column that is named in a condition."""

    name: str


Operand = Column | float | str


@dataclass(frozen=True)
class Condition:
    """A parsed condition.

    Attributes
    ----------
    columns : list of str
        The columns it names, in order.
    texts : set of str
        Those that it compares with text.
    evaluate : callable
        Its truth in the rows of a table.

    Examples
    --------
    >>> parse("QC == 'Pass' and (AGE >= 55 or `Mini mental` in [29, 30])").columns
    ['QC', 'AGE', 'Mini mental']
    """

    columns: list[str]
    texts: set[str]
    evaluate: Callable[[Rows], Truth]


def parse(text: str) -> Condition:
    """Parse a condition.

    Parameters
    ----------
    text : str
        Comparisons ``== != < <= > >=`` of columns with numbers, texts in quotes or other columns,
        ``in [...]``, ``not in [...]``, ``is missing``, ``is not missing``, joined by ``and``, ``or``, ``not``
        and parentheses. Names of columns with spaces or signs are written between backticks.

    Raises
    ------
    ConditionError
        With the reason.
    """
    if len(text) > MOST:
        raise ConditionError(f"a condition has at most {MOST} characters")
    reader = _Parser(list(_tokens(text)))
    evaluate = reader.either(0)
    if reader.kind != "end":
        raise ConditionError(f"unexpected {reader.token!r}")
    return Condition(list(dict.fromkeys(reader.columns)), reader.texts, evaluate)


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    at = 0
    while text[at:].strip():
        found = TOKEN.match(text, at)
        if found is None:
            rest = text[at:].strip()
            hint = "a quotation mark is not closed" if rest[0] in "'\"`" else HINTS.get(rest[0], "")
            raise ConditionError(f"unexpected {rest[0]!r}{'; ' if hint else ''}{hint}")
        kind = str(found.lastgroup)
        token = found[kind]
        lower = token.lower()
        yield (
            ("word" if kind == "word" and lower in WORDS else "column" if kind == "word" else kind),
            (lower if kind == "word" and lower in WORDS else token),
        )
        at = found.end()
    yield "end", "the end"


class _Parser:
    """Recursive descent; `columns` and `texts` collect what a condition names."""

    def __init__(self, tokens: Sequence[tuple[str, str]]) -> None:
        self.tokens, self.at = tokens, 0
        self.columns: list[str] = []
        self.texts: set[str] = set()

    @property
    def kind(self) -> str:
        return self.tokens[self.at][0]

    @property
    def token(self) -> str:
        return self.tokens[self.at][1]

    def take(self, *tokens: str) -> bool:
        """Move on if the next token is one of these words or marks."""
        if self.kind in ("word", "mark") and self.token in tokens:
            self.at += 1
            return True
        return False

    def expect(self, token: str) -> None:
        if not self.take(token):
            raise ConditionError(f"expected {token!r} before {self.token!r}")

    def either(self, depth: int) -> Callable[[Rows], Truth]:
        parts = [self.both(depth)]
        while self.take("or"):
            parts.append(self.both(depth))
        return parts[0] if len(parts) == 1 else lambda rows: _any([part(rows) for part in parts])

    def both(self, depth: int) -> Callable[[Rows], Truth]:
        parts = [self.negated(depth)]
        while self.take("and"):
            parts.append(self.negated(depth))
        return parts[0] if len(parts) == 1 else lambda rows: _all([part(rows) for part in parts])

    def negated(self, depth: int) -> Callable[[Rows], Truth]:
        if depth > DEEPEST:
            raise ConditionError("nested too deeply")
        if self.take("not"):
            inner = self.negated(depth + 1)
            return lambda rows: Truth(*reversed(inner(rows)))
        if self.take("("):
            inside = self.either(depth + 1)
            self.expect(")")
            return inside
        return self.comparison()

    def comparison(self) -> Callable[[Rows], Truth]:
        left = self.operand()
        if self.kind == "op":
            return self.chain(left)
        if not isinstance(left, Column):
            raise ConditionError(f"expected a comparison before {self.token!r}")
        if self.take("is"):
            opposite = self.take("not")
            self.expect("missing")
            return _missing(left, opposite)
        opposite = self.take("not")
        if not self.take("in"):
            raise ConditionError(f"column {left.name!r} is not compared with anything")
        found = self.members(left)
        return (lambda rows: Truth(*reversed(found(rows)))) if opposite else found

    def chain(self, left: Operand) -> Callable[[Rows], Truth]:
        """One comparison, or several as in ``55 <= AGE < 90``."""
        parts = []
        while self.kind == "op":
            sign = self.token
            self.at += 1
            right = self.operand()
            parts.append(self.compared(left, sign, right))
            left = right
        return parts[0] if len(parts) == 1 else lambda rows: _all([part(rows) for part in parts])

    def compared(self, left: Operand, sign: str, right: Operand) -> Callable[[Rows], Truth]:
        if not isinstance(left, Column):
            left, sign, right = right, MIRRORED.get(sign, sign), left
        if not isinstance(left, Column):
            raise ConditionError("a comparison needs a column")
        if isinstance(right, str):
            self.texts.add(left.name)
            return _with_text(left, sign, right)
        return _with_number(left, sign, right)

    def operand(self) -> Operand:
        kind, token = self.tokens[self.at]
        if kind not in ("number", "text", "quoted", "column"):
            raise ConditionError(f"expected a column, number or text before {token!r}")
        self.at += 1
        if kind == "number":
            return float(token)
        if kind == "text":
            return token[1:-1]
        name = token.strip("`")
        self.columns.append(name)
        return Column(name)

    def members(self, left: Column) -> Callable[[Rows], Truth]:
        """A list of numbers or of texts."""
        self.expect("[")
        values = [self.operand()]
        while self.take(","):
            values.append(self.operand())
        self.expect("]")
        if any(isinstance(value, Column) for value in values) or len({type(value) for value in values}) > 1:
            raise ConditionError("a list after in has numbers only, or texts in quotes only")
        parts = [self.compared(left, "==", value) for value in values]
        return lambda rows: _any([part(rows) for part in parts])


def _any(parts: Sequence[Truth]) -> Truth:
    return Truth(
        np.logical_or.reduce([one.yes for one in parts]), np.logical_and.reduce([one.no for one in parts])
    )


def _all(parts: Sequence[Truth]) -> Truth:
    return Truth(
        np.logical_and.reduce([one.yes for one in parts]), np.logical_or.reduce([one.no for one in parts])
    )


def _missing(column: Column, opposite: bool) -> Callable[[Rows], Truth]:
    def evaluate(rows: Rows) -> Truth:
        absent = np.array([text is None for text in rows.texts(column.name)], dtype=bool)
        return Truth(~absent, absent) if opposite else Truth(absent, ~absent)

    return evaluate


def _with_number(column: Column, sign: str, other: Column | float) -> Callable[[Rows], Truth]:
    def evaluate(rows: Rows) -> Truth:
        values = rows.numbers(column.name)
        against = rows.numbers(other.name) if isinstance(other, Column) else np.full(len(values), other)
        return _of_numbers(values, against, sign)

    return evaluate


def _with_text(column: Column, sign: str, text: str) -> Callable[[Rows], Truth]:
    def evaluate(rows: Rows) -> Truth:
        if sign in ("==", "!="):
            cells = rows.texts(column.name)
            known = np.array([cell is not None for cell in cells], dtype=bool)
            same = np.array([cell == text for cell in cells], dtype=bool)
            return Truth(same & known, ~same & known) if sign == "==" else Truth(~same & known, same & known)
        day = rows.day(text)
        if day is None:
            raise ConditionError(
                f"text can be compared with == and != only, unless it is a date: {sign} {text!r}"
            )
        days = rows.dates(column.name)
        return _of_numbers(days, np.full(len(days), day), sign)

    return evaluate


def _of_numbers(values: Array, against: Array, sign: str) -> Truth:
    known = ~np.isnan(values) & ~np.isnan(against)
    holds = COMPARE[sign](values, against)
    return Truth(holds & known, ~holds & known)
