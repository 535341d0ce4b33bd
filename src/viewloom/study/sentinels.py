"""Numbers that look like undeclared missing codes: of a usual form, repeated, and far from all other values.

Only the smallest and the largest values of a column are candidates. Ties at an integer far from all other
values are unlikely in measurements, even with heavy tails; consecutive integers (-1, 0, 1, 2) are not codes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from viewloom.study.errors import Message, Suggestion
from viewloom.study.notes import Note, count_note
from viewloom.study.readers.frames import Codes, matches
from viewloom.study.tables_in_memory import values_of
from viewloom.study.wording import counted, quoted

Array = np.ndarray
REPEATED = [digit * (10**n - 1) // 9 for n in range(2, 9) for digit in (7, 8, 9)]  # 77, 88, 99, 777, ...
LARGEST = [2**31 - 1, 2**63 - 1, float(np.finfo(np.float32).max), float(np.finfo(float).max), 1e30, 1e36]
LOW = np.array([*range(-1, -11, -1), *(-code for code in REPEATED), -32768, *(-code for code in LARGEST)])
NEXT = [996, 997, 998, 9996, 9997, 9998]  # of surveys
UNRATED = 101  # "unable to rate" in the MDS-UPDRS
HIGH = np.array([*REPEATED, *NEXT, UNRATED, 99.9, 99.99, 999.9, 999.99, 9999.9, *LARGEST])
ORDINAL = np.array([7, 8, 9])  # unknown or not asked, in columns of two or three categories
UK_BIOBANK = re.compile(r"f\.\d+\.\d+\.\d+|\d+-\d+\.\d+|p\d+(_i\d+)?(_a\d+)?")  # -1, -3: no answer
LEAST = 8  # smallest number of known values
STRONG = 100  # larger codes are rarely values
FAR_ONCE = 10.0  # distance of a code that occurs once, in ranges of the other values
CONTINUOUS = (
    20,
    0.95,
)  # number of distinct values, and their share of the nonzero values, of a continuous column
MOST_SMALL = 3  # distinct codes from -1 to -10 in one column
MOST_NAMES = 3


@dataclass(frozen=True)
class Candidate:
    """A number that may be a missing code, and its count in a column."""

    column: str
    code: float
    count: int


def candidates(frame: pd.DataFrame, *, ordinal: bool = False) -> list[Candidate]:
    """Find numbers that look like missing codes.

    Parameters
    ----------
    frame : DataFrame of float
    ordinal : bool, default=False
        Whether 7, 8 and 9 may be codes in columns of two or three categories: in covariates, not in counts.

    Examples
    --------
    >>> volumes = [3.1, 2.9, 3.4, 3.3, 2.7, 3.0, 3.2, 2.8, -4.0, -4.0]
    >>> candidates(pd.DataFrame({"hippocampus": volumes, "z": np.array(volumes) - 3}))
    [Candidate(column='hippocampus', code=-4.0, count=2)]
    """
    values = values_of(frame)
    high = np.concatenate([HIGH, ORDINAL]) if ordinal else HIGH
    return [
        Candidate(str(frame.columns[j]), code, count)
        for j in _with_code_at_an_end(values, high)
        for code, count in _codes(values[:, j], str(frame.columns[j]), high)
    ]


def in_doubt(frame: pd.DataFrame) -> list[str]:
    """Columns of many integers of which only -1 is negative, and may be a missing code.

    >>> in_doubt(pd.DataFrame({"score": [-1, -1, *range(10)], "copies": [-1, 0, 1, 2] * 3}))
    ['score']
    """
    values = values_of(frame)
    lowest = np.fmin.reduce(values, initial=np.inf)
    names = [str(name) for name in frame.columns]
    return [names[j] for j in np.flatnonzero(lowest == -1).tolist() if _score_with_code(values[:, j])]


def _score_with_code(column: Array) -> bool:
    known = column[~np.isnan(column)]
    rest = np.unique(known[known != -1])
    return bool((known == -1).sum() > 1 and len(rest) >= LEAST and rest[0] == 0 and (rest % 1 == 0).all())


def doubts(frame: pd.DataFrame, given: Codes | None) -> list[Note]:
    """A note on columns in which -1 may be a missing code."""
    names = in_doubt(frame[undecided([str(name) for name in frame.columns], given)])
    named = f"{quoted(names[:MOST_NAMES])}{', ...' * (len(names) > MOST_NAMES)}"
    way_out = "if it means missing, list it in missing_codes"
    text = f"-1 as the only negative value: {named}; {way_out}"
    return count_note(len(names), "column has", "columns have", text, public=True)


def _with_code_at_an_end(values: Array, high: Array) -> Array:
    """Columns whose smallest or largest value has the form of a missing code."""
    lowest, highest = np.fmin.reduce(values, initial=np.inf), np.fmax.reduce(values, initial=-np.inf)
    with np.errstate(over="ignore"):  # codes beyond single precision
        low, high = LOW.astype(values.dtype), high.astype(values.dtype)
    coded = np.isin(lowest, low) | np.isin(highest, high)
    return np.array([j for j in np.flatnonzero(coded) if (~np.isnan(values[:, j])).sum() >= LEAST], dtype=int)


def _codes(x: Array, name: str, high: Array) -> list[tuple[float, int]]:
    """Codes of a column with their counts."""
    values, counts = np.unique(x[~np.isnan(x)], return_counts=True)
    if values.dtype == np.float32:  # the decimal numbers that single precision stands for, such as 99.9
        values = np.array([float(str(value)) for value in values])
    first, last = 0, len(values)
    while first < last and values[first] in LOW:
        first += 1
    if (values[:first] >= -10).sum() > MOST_SMALL and not UK_BIOBANK.fullmatch(name):
        first = int((values < -10).sum())  # many different small negative numbers are values
    while last > first and values[last - 1] in high:
        last -= 1
    rest = Rest(values[first:last], counts[first:last], name)
    if rest.counts.sum() < LEAST // 2:
        return []
    low = _outward(values[:first][::-1], counts[:first][::-1], rest)
    return [*low, *_outward(values[last:], counts[last:], rest)]


@dataclass(frozen=True, eq=False)
class Rest:
    """The distinct values of a column that are not codes, sorted, and their counts."""

    points: Array
    counts: Array
    name: str

    @property
    def spread(self) -> float:
        """Range of the values."""
        return float(self.points[-1] - self.points[0])

    @property
    def integers(self) -> bool:
        """Whether all values are integers."""
        return bool((self.points % 1 == 0).all())

    @property
    def continuous(self) -> bool:
        """Whether nearly all nonzero values are distinct."""
        least, share = CONTINUOUS
        some = self.points != 0
        return bool(some.sum() >= least and some.sum() >= share * self.counts[some].sum())

    @property
    def step(self) -> float:
        """The largest distance between adjacent values in the lower half."""
        return float(np.diff(self.points[: max(len(self.points) // 2, 2)]).max(initial=0.0))

    def gap(self, code: float) -> float:
        """Distance of a code from the range of the values."""
        return float(max(self.points[0] - code, code - self.points[-1]))

    def wider(self, code: float, count: int) -> Rest:
        """The same with one more value."""
        values, counts = np.append(self.points, code), np.append(self.counts, count)
        order = np.argsort(values)
        return Rest(values[order], counts[order], self.name)


def _outward(codes: Array, counts: Array, rest: Rest) -> Iterator[tuple[float, int]]:
    """Codes at one end, from the inside; a number that is not a code is a value for those further out."""
    for code, count in zip(codes.tolist(), counts.tolist(), strict=True):
        if _far(code, count, rest) or _impossible(code, count, rest) or _unknown(code, count, rest):
            yield code, count
        else:
            rest = rest.wider(code, count)


def _far(code: float, count: int, rest: Rest) -> bool:
    """Whether a code is far from all values; the limit depends on its count and its form."""
    if abs(code) < STRONG and (count == 1 or abs(code) < 9 or code in ORDINAL):
        return False
    if rest.spread == 0:
        return count > 1
    if count == 1:
        return code not in NEXT and rest.gap(code) >= FAR_ONCE * rest.spread
    ranges = 0.25 if abs(code) >= STRONG else 2.0 if rest.integers else 0.5
    return rest.gap(code) >= ranges * rest.spread


def _impossible(code: float, count: int, rest: Rest) -> bool:
    """Whether a negative code occurs in a column of nonnegative values, and does not continue them."""
    if code >= 0 or count < 2 or rest.points[0] < 0 or len(rest.points) < 2:
        return False
    if rest.continuous or UK_BIOBANK.fullmatch(rest.name):
        return True
    if rest.integers:
        return rest.gap(code) > max(3.0, 1.5 * rest.step)
    return rest.gap(code) > 3 * rest.step and rest.gap(code) >= 0.5 * rest.spread


def _unknown(code: float, count: int, rest: Rest) -> bool:
    """Whether a code is 7, 8 or 9 in a column of two or three categories."""
    few = len(rest.points) in (2, 3) and rest.integers
    return code in ORDINAL and count > 1 and few and rest.points[0] >= 0 and rest.points[-1] <= 3


def messages(found: Sequence[Candidate], given: Codes | None) -> Iterator[Message]:
    """One line per code: its columns, its count, and the two possible settings."""
    for code in sorted({one.code for one in found}):
        here = [one for one in found if one.code == code]
        names, n = [one.column for one in here], sum(one.count for one in here)
        more = f" and {counted(len(names) - MOST_NAMES, 'more column')}" if len(names) > MOST_NAMES else ""
        where = f"column{'s' * (len(names) > 1)} {quoted(names[:MOST_NAMES])}{more}"
        ways = _ways_out(code, names, given)
        yield Message(
            f"{where}: {shown(code)} in {counted(n, 'cell')}, far from all other values, looks like a "
            f"missing code; {ways}.",
            ways,
        )


def _ways_out(code: float, names: list[str], given: Codes | None) -> Message:
    """The settings for a number that is a code, and for one that is a value."""
    number = int(code) if shown(code).lstrip("-").isdigit() else float(code)
    if isinstance(given, Mapping):
        entry = f"'{names[0]}' = "
        text = f"add {entry}[{shown(code)}] to missing_codes, or {entry}[] if it is a value"
        return Message(text, *_either({**given, names[0]: [number]}, {**given, names[0]: []}))
    codes = ", ".join([*(repr(one) for one in given or ()), shown(code)])
    value, values = ("[]", []) if len(names) > 1 else (f"{{ '{names[0]}' = [] }}", {names[0]: []})
    if given:
        value, values = f"{{ '*' = [{', '.join(repr(one) for one in given)}] }}", {"*": list(given)}
    text = f"set missing_codes = [{codes}], or missing_codes = {value} if it is a value"
    return Message(text, *_either([*(given or ()), number], values))


def _either(missing: Any, value: Any) -> tuple[Suggestion, Suggestion]:
    """The settings for a code, and for a value."""
    return Suggestion({"missing_codes": missing}), Suggestion({"missing_codes": value}, "if it is a value")


def shown(code: float) -> str:
    """A code as text.

    >>> shown(-4.0), shown(99.9)
    ('-4', '99.9')
    """
    return str(int(code)) if float(code).is_integer() and abs(code) < 1e15 else repr(float(code))


def undecided(names: Sequence[str], given: Codes | None) -> list[str]:
    """Columns whose missing codes the study does not declare.

    An empty list declares that there are none; an entry for a pattern declares all codes of the matching
    columns.

    >>> undecided(["a", "b"], {"a": []}), undecided(["a"], []), undecided(["a"], [-4])
    (['b'], [], ['a'])
    """
    if isinstance(given, Mapping):
        return [name for name in names if not matches(name, given)]
    return list(names) if given is None or len(given) else []
