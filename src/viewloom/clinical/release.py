"""What may leave about subjects: the precision of numbers, and which groups are not described.

Everything that is published goes through this module: tables, figures and files of a run have no number with
more digits than it gives them. Counts are hidden by `suppression`; here are the numbers that could give a
hidden count, a hidden mean or the value of a single subject back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import total_ordering
from typing import Any

import numpy as np
import pandas as pd

from viewloom.clinical.shown import ABOUT, Known, Shown

Array = np.ndarray
DECIMALS = 2  # of effects, correlations, shares, standardised means
DIGITS = 3  # significant digits of other numbers
STEPS = 5  # numbers of subjects with a value that the rounded mean of a group leaves
SPREAD = 22  # values of a hidden number of subjects that an interval leaves: twice as many as are hidden
FEW_VALUES = 6  # distinct values of a variable whose mean tells counts
CLASSES = (0.001, 0.01, 0.05)  # of p-values of variables with hidden numbers
ALPHA, LEAST_P = 0.05, 0.0009


@total_ordering
@dataclass(frozen=True)
class PClass:
    """A p-value of which only the class is known, such as ``<0.05`` or ``≥0.05``.

    It compares with bounds as the p-value does. It is no number: nothing can round or print it as one.

    Attributes
    ----------
    text : str
        ``<`` or ``≥``, and a bound.

    Examples
    --------
    >>> PClass("<0.05") < 0.05, PClass("≥0.05") < 0.05, str(PClass("<0.01"))
    (True, False, '<0.01')
    """

    text: str

    @property
    def bound(self) -> float:
        """The bound."""
        return float(self.text[1:])

    @property
    def nearest(self) -> float:
        """The p-value of the class that is nearest to the bound."""
        return float(np.nextafter(self.bound, 0.0)) if self.text[0] == "<" else self.bound

    def __str__(self) -> str:
        return self.text

    def __lt__(self, other: P) -> bool:
        return self.nearest < (other.nearest if isinstance(other, PClass) else other)


P = float | PClass  # a p-value or its class


def coarse_p(p: P, classes: Sequence[float] = CLASSES) -> P:
    """The class of a p-value; NaN stays.

    >>> coarse_p(0.0321), coarse_p(0.2)
    (PClass(text='<0.05'), PClass(text='≥0.05'))
    """
    if isinstance(p, PClass) or np.isnan(p):
        return p
    above = [bound for bound in classes if p < bound]
    return PClass(f"<{above[0]:g}" if above else f"≥{classes[-1]:g}")


def has_p(p: P) -> bool:
    """Whether a p-value, or at least its class, is known.

    >>> has_p(0.2), has_p(PClass("<0.05")), has_p(float("nan"))
    (True, True, False)
    """
    return isinstance(p, PClass) or bool(np.isfinite(p))


def interval_decimals(low: float, high: float, n: int) -> int:
    """Decimals of a 95 % interval of a mean that tell little of the number of subjects n behind it.

    The half width h is proportional to ``n^-1/2``: where it is known to ``10^-d``, n is known to
    ``2 n 10^-d / h``. Zero where even one decimal is too much.

    >>> [interval_decimals(-h, h, n) for h, n in ((0.45, 40), (0.28, 100), (0.14, 400))]
    [0, 1, 2]
    """
    half = (high - low) / 2.0
    if not half > 0.0:
        return 0
    return int(np.clip(np.floor(-np.log10(SPREAD * half / (2.0 * max(n, 1)))), 0, DECIMALS))


def rounded(value: float, decimals: int = DECIMALS) -> float:
    """A number with at most this many decimals; negative ones round to tens, hundreds and so on.

    >>> rounded(0.12345), rounded(-0.001), rounded(1512.3, -1)
    (0.12, 0.0, 1510.0)
    """
    return round(float(value), decimals) + 0.0


def significant(value: float, digits: int = DIGITS) -> float:
    """A number with at most this many significant digits.

    >>> significant(0.0123456), significant(98765.0)
    (0.0123, 98800.0)
    """
    return float(f"{value:.{digits}g}") + 0.0


def rounded_p(p: float) -> float:
    """A p-value with two digits, not below 0.001, on its side of 0.05.

    Monte-Carlo p-values with a fixed seed would otherwise identify the table that they come from.

    >>> [rounded_p(p) for p in (1e-9, 0.0042, 0.0421, 0.0498, 0.3387)]
    [0.0009, 0.004, 0.042, 0.049, 0.34]
    """
    if np.isnan(p):
        return p
    if p < CLASSES[0]:
        return LEAST_P
    near = round(float(p), 3 if p < 0.1 else 2)
    return near if (near < ALPHA) == (p < ALPHA) else 0.049


def withheld(sizes: Any, min_cell: int) -> Array:
    """Groups whose means must not be shown, beside the mean of all.

    These are groups below `min_cell`, and as many of the next smallest that the withheld groups are at least
    two and together not below `min_cell`: the mean of all and those of the others then give the mean of the
    withheld groups together, and of none of them alone.

    >>> withheld([50, 20, 3], 11).tolist(), withheld([50, 20, 30], 11).tolist()
    ([False, True, True], [False, False, False])
    """
    sizes = np.asarray(sizes)
    mask = sizes < max(min_cell, 1)
    for j in np.argsort(sizes, kind="stable"):
        some = mask & (sizes > 0)
        if not some.any() or (some.sum() > 1 and sizes[some].sum() >= min_cell):
            break
        mask[j] = True
    return np.asarray(mask)


def group_quantiles(values: Any, quantiles: Sequence[float], least: int) -> Array:
    """Quantiles as means of the `least` values around them, so that none is the value of one subject.

    >>> group_quantiles(np.arange(101.0), [0.25, 0.5], 11).round(6).tolist()
    [25.0, 50.0]
    >>> group_quantiles([1.0, 2.0], [0.5], 11)
    array([nan])
    """
    ordered = np.sort(np.asarray(values, dtype=float)[~np.isnan(values)])
    width = max(least, 1)
    if len(ordered) < width:
        return np.full(len(quantiles), np.nan)
    means = np.convolve(ordered, np.full(width, 1.0 / width), mode="valid")
    first = np.asarray(quantiles) * (len(ordered) - 1) - (width - 1) / 2.0
    return np.asarray(np.interp(first, np.arange(len(means)), means))


def has_few_values(values: Array) -> bool:
    """Whether known values have so few different ones that their mean and standard deviation tell counts.

    >>> has_few_values(np.array([0, 1, 1, 0])), has_few_values(np.arange(20)), has_few_values(np.ones(5))
    (True, False, False)
    """
    return 1 < len(np.unique(values)) <= FEW_VALUES


def mean_decimals(values: Array, smallest: int) -> int:
    """Decimals of means: two or three digits of the standard deviation, fewer where means would tell counts.

    The mean of a variable with few distinct values is a sum of counts. Its rounding leaves five numbers of
    subjects with the largest value, or with the least, even where all others have the other one.

    Parameters
    ----------
    values : array
        Known values of all subjects.
    smallest : int
        Size of the smallest group that is described.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> mean_decimals(rng.normal(70, 8, 300), 40), mean_decimals(rng.normal(1500, 150, 300), 40)
    (1, -1)
    >>> mean_decimals(rng.integers(0, 3, 300), 40)
    0
    """
    spread = float(values.std())
    size = int(np.floor(np.log10(spread))) if spread > 0 else 0
    decimals = max(1 - size, 1) if size < 2 else 1 - size
    if has_few_values(values):
        reach = 2.0 * (STEPS - 1) * float(values.max() - values.min())
        decimals = min(decimals, int(np.floor(np.log10(max(smallest, 1) / reach))))
    return int(np.clip(decimals, -12, 6))


def plain_number(value: Shown) -> int | float | str:
    """A shown number for a file: a number, or text where it is hidden; rounded counts are numbers.

    >>> from viewloom.clinical.shown import Hidden
    >>> plain_number(Known(12)), plain_number(Hidden("<", 11)), plain_number(Hidden("about ", 310))
    (12, '<11', 310)
    """
    if isinstance(value, Known):
        return int(value.value) if value.decimals <= 0 else rounded(value.value, value.decimals)
    return int(value.bound) if value.sign == ABOUT else str(value)


def released(value: Any, digits: int = DIGITS) -> Any:
    """Nested content with its numbers rounded to significant digits, for files without another rule.

    >>> released({"a": [0.123456, 12, "x", None], "b": np.float64(1e-5)})
    {'a': [0.123, 12, 'x', None], 'b': 1e-05}
    """
    if isinstance(value, dict):
        return {name: released(inner, digits) for name, inner in value.items()}
    if isinstance(value, (list, tuple, np.ndarray, pd.Series)):
        return [released(inner, digits) for inner in value]
    if isinstance(value, PClass):
        return str(value)
    if isinstance(value, (float, np.floating)) and np.isfinite(value):
        return significant(float(value), digits)
    return value


def released_frame(table: pd.DataFrame, digits: int = DIGITS) -> pd.DataFrame:
    """A table with its numbers rounded to significant digits.

    >>> released_frame(pd.DataFrame({"a": [0.123456], "n": [12345]})).to_dict("records")
    [{'a': 0.123, 'n': 12345}]
    """
    numbers = [name for name in table if table[name].dtype.kind == "f"]
    return table.assign(
        **{str(name): [significant(value, digits) for value in table[name]] for name in numbers}
    )
