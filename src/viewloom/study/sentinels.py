"""Numbers that look like codes of missing values: of the known kind, repeated, and apart from the rest.

A code is looked for at either end of a column only. Ties at a whole number far from all else hardly occur
in measurements, however heavy their tails; whole numbers beside each other (-1, 0, 1, 2) are left alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from viewloom.study.notes import Note, count_note
from viewloom.study.readers.frames import Codes, matches
from viewloom.study.wording import counted, quoted

Array = np.ndarray
REPEATED = [digit * (10**n - 1) // 9 for n in range(2, 9) for digit in (7, 8, 9)]  # 77, 88, 99, 777, ...
LARGEST = [2**31 - 1, 2**63 - 1, float(np.finfo(np.float32).max), float(np.finfo(float).max), 1e30, 1e36]
LOW = np.array([*range(-1, -11, -1), *(-code for code in REPEATED), -32768, *(-code for code in LARGEST)])
NEXT = [996, 997, 998, 9996, 9997, 9998]  # of surveys
HIGH = np.array([*REPEATED, *NEXT, 99.9, 99.99, 999.9, 999.99, 9999.9, *LARGEST])
ORDINAL = np.array([7, 8, 9])  # unknown or not asked, beside two or three categories
UK_BIOBANK = re.compile(r"f\.\d+\.\d+\.\d+|\d+-\d+\.\d+|p\d+(_i\d+)?(_a\d+)?")  # -1, -3: no answer
LEAST = 8  # known values without which nothing can be said
STRONG = 100  # codes beyond are seldom values of anything
FAR_ONCE = 10.0  # ranges of all others: how far off a code that occurs once must be
CONTINUOUS = 20, 0.95  # different values, and their share of all but zeros: ties do not occur by chance
MOST_SMALL = 3  # different codes from -1 to -10 in one column
MOST_NAMES = 3


@dataclass(frozen=True)
class Candidate:
    """A number that may stand for missing, and how often it occurs in a column."""

    column: str
    code: float
    count: int


def candidates(frame: pd.DataFrame, *, ordinal: bool = False) -> list[Candidate]:
    """Numbers that look like codes of missing values.

    Parameters
    ----------
    frame : DataFrame of float
    ordinal : bool, default=False
        Whether 7, 8 and 9 are suspect beside two or three categories: of covariates, not of counts.

    Examples
    --------
    >>> volumes = [3.1, 2.9, 3.4, 3.3, 2.7, 3.0, 3.2, 2.8, -4.0, -4.0]
    >>> candidates(pd.DataFrame({"hippocampus": volumes, "z": np.array(volumes) - 3}))
    [Candidate(column='hippocampus', code=-4.0, count=2)]
    """
    values = frame.to_numpy(dtype=float)
    high = np.concatenate([HIGH, ORDINAL]) if ordinal else HIGH
    return [
        Candidate(str(frame.columns[j]), code, count)
        for j in _with_code_at_an_end(values, high)
        for code, count in _codes(values[:, j], str(frame.columns[j]), high)
    ]


def in_doubt(frame: pd.DataFrame) -> list[str]:
    """Columns of many whole numbers of which only -1 is negative: perhaps a code, perhaps not.

    >>> in_doubt(pd.DataFrame({"score": [-1, -1, *range(10)], "copies": [-1, 0, 1, 2] * 3}))
    ['score']
    """
    values = frame.to_numpy(dtype=float)
    lowest = np.where(np.isnan(values), np.inf, values).min(axis=0, initial=np.inf)
    names = [str(name) for name in frame.columns]
    return [names[j] for j in np.flatnonzero(lowest == -1).tolist() if _score_with_code(values[:, j])]


def _score_with_code(column: Array) -> bool:
    known = column[~np.isnan(column)]
    rest = np.unique(known[known != -1])
    return bool((known == -1).sum() > 1 and len(rest) >= LEAST and rest[0] == 0 and (rest % 1 == 0).all())


def doubts(frame: pd.DataFrame, given: Codes | None) -> list[Note]:
    """A note on columns in which -1 may stand for missing."""
    names = in_doubt(frame[undecided([str(name) for name in frame.columns], given)])
    named = f"{quoted(names[:MOST_NAMES])}{', ...' * (len(names) > MOST_NAMES)}"
    way_out = "if it means missing, name it in missing_codes"
    text = f"-1 as the only negative value: {named}; {way_out}"
    return count_note(len(names), "column has", "columns have", text, public=True)


def _with_code_at_an_end(values: Array, high: Array) -> Array:
    """Columns whose least or greatest value is of the known kind."""
    known = ~np.isnan(values)
    lowest = np.where(known, values, np.inf).min(axis=0, initial=np.inf)
    highest = np.where(known, values, -np.inf).max(axis=0, initial=-np.inf)
    return np.flatnonzero((np.isin(lowest, LOW) | np.isin(highest, high)) & (known.sum(axis=0) >= LEAST))


def _codes(x: Array, name: str, high: Array) -> list[tuple[float, int]]:
    """Codes of a column with their counts."""
    values, counts = np.unique(x[~np.isnan(x)], return_counts=True)
    first, last = 0, len(values)
    while first < last and values[first] in LOW:
        first += 1
    if (values[:first] >= -10).sum() > MOST_SMALL and not UK_BIOBANK.fullmatch(name):
        first = int((values < -10).sum())  # so many small numbers below zero are values
    while last > first and values[last - 1] in high:
        last -= 1
    rest = Rest(values[first:last], counts[first:last], name)
    if rest.counts.sum() < LEAST // 2:
        return []
    low = _outward(values[:first][::-1], counts[:first][::-1], rest)
    return [*low, *_outward(values[last:], counts[last:], rest)]


@dataclass(frozen=True, eq=False)
class Rest:
    """The different values of a column that are no codes, sorted, and how often they occur."""

    points: Array
    counts: Array
    name: str

    @property
    def spread(self) -> float:
        """From the least to the greatest."""
        return float(self.points[-1] - self.points[0])

    @property
    def whole(self) -> bool:
        """Whether all are whole numbers."""
        return bool((self.points % 1 == 0).all())

    @property
    def continuous(self) -> bool:
        """Whether hardly any value but zero occurs twice."""
        least, share = CONTINUOUS
        some = self.points != 0
        return bool(some.sum() >= least and some.sum() >= share * self.counts[some].sum())

    @property
    def step(self) -> float:
        """The largest distance between neighbours in the lower half."""
        return float(np.diff(self.points[: max(len(self.points) // 2, 2)]).max(initial=0.0))

    def gap(self, code: float) -> float:
        """Distance of a code from all of them."""
        return float(max(self.points[0] - code, code - self.points[-1]))

    def wider(self, code: float, count: int) -> Rest:
        """With one more value."""
        values, counts = np.append(self.points, code), np.append(self.counts, count)
        order = np.argsort(values)
        return Rest(values[order], counts[order], self.name)


def _outward(codes: Array, counts: Array, rest: Rest) -> Iterator[tuple[float, int]]:
    """Codes on one side, from the inside; one that is none is a value for those further out."""
    for code, count in zip(codes.tolist(), counts.tolist(), strict=True):
        if _far(code, count, rest) or _impossible(code, count, rest) or _unknown(code, count, rest):
            yield code, count
        else:
            rest = rest.wider(code, count)


def _far(code: float, count: int, rest: Rest) -> bool:
    """Whether a code lies far outside: farther if it occurs once, less far if it can hardly be a value."""
    if abs(code) < STRONG and (count == 1 or abs(code) < 9 or code in ORDINAL):
        return False
    if rest.spread == 0:
        return count > 1
    if count == 1:
        return code not in NEXT and rest.gap(code) >= FAR_ONCE * rest.spread
    ranges = 0.25 if abs(code) >= STRONG else 2.0 if rest.whole else 0.5
    return rest.gap(code) >= ranges * rest.spread


def _impossible(code: float, count: int, rest: Rest) -> bool:
    """Whether a negative code stands among values that are never negative, and does not continue them."""
    if code >= 0 or count < 2 or rest.points[0] < 0 or len(rest.points) < 2:
        return False
    if rest.continuous or UK_BIOBANK.fullmatch(rest.name):
        return True
    if rest.whole:
        return rest.gap(code) > max(3.0, 1.5 * rest.step)
    return rest.gap(code) > 3 * rest.step and rest.gap(code) >= 0.5 * rest.spread


def _unknown(code: float, count: int, rest: Rest) -> bool:
    """Whether 7, 8 or 9 stands beside two or three categories."""
    few = len(rest.points) in (2, 3) and rest.whole
    return code in ORDINAL and count > 1 and few and rest.points[0] >= 0 and rest.points[-1] <= 3


def told(found: Sequence[Candidate], given: Codes | None) -> Iterator[str]:
    """One line per code: the columns, how often, and both ways out."""
    for code in sorted({one.code for one in found}):
        here = [one for one in found if one.code == code]
        names, n = [one.column for one in here], sum(one.count for one in here)
        more = f" and {counted(len(names) - MOST_NAMES, 'more column')}" if len(names) > MOST_NAMES else ""
        where = f"column{'s' * (len(names) > 1)} {quoted(names[:MOST_NAMES])}{more}"
        yield (
            f"{where}: {shown(code)} in {counted(n, 'cell')}, apart from all other values, looks like a "
            f"missing code; {_ways_out(code, names, given)}."
        )


def _ways_out(code: float, names: list[str], given: Codes | None) -> str:
    """What to write if the number is a code, and if it is a value."""
    if isinstance(given, Mapping):
        entry = f"'{names[0]}' = "
        return f"add {entry}[{shown(code)}] to missing_codes, or {entry}[] if it is a value"
    codes = ", ".join([*(repr(one) for one in given or ()), shown(code)])
    value = f"{{ '{names[0]}' = [] }}" if len(names) == 1 and not given else "[]"
    if given:
        value = f"{{ '*' = [{', '.join(repr(one) for one in given)}] }}"
    return f"set missing_codes = [{codes}], or missing_codes = {value} if it is a value"


def shown(code: float) -> str:
    """A code as one writes it.

    >>> shown(-4.0), shown(99.9)
    ('-4', '99.9')
    """
    return str(int(code)) if float(code).is_integer() and abs(code) < 1e15 else repr(float(code))


def undecided(names: Sequence[str], given: Codes | None) -> list[str]:
    """Columns of which the study does not say which codes they have.

    An empty list says that there are none; a pattern says all there is to know of the columns that fit it.

    >>> undecided(["a", "b"], {"a": []}), undecided(["a"], []), undecided(["a"], [-4])
    (['b'], [], ['a'])
    """
    if isinstance(given, Mapping):
        return [name for name in names if not matches(name, given)]
    return list(names) if given is None or len(given) else []
