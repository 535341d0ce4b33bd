"""Columns of a participants table as numeric or categorical variables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from viewloom.data.matching import matched_values
from viewloom.runtime.errors import InputError

Array = np.ndarray
CONSTANT = "all values are the same"
MANY = 1000  # cells of a column, of which many are equal
ALIKE = (
    "string",
    "floating",
    "integer",
    "mixed-integer-float",
)  # kinds in which equal values are one category
LARGEST = float(np.finfo(float).max)


@dataclass(frozen=True, eq=False)
class Variable:
    """A clinical variable: numbers with NaN, or categories as text with None."""

    name: str
    kind: str
    data: Array
    known: Array


def as_numbers(column: Any) -> Array:
    """A column as numbers, with NaN for other values.

    >>> as_numbers([1, "2.5", "unknown", None, 10**400]).tolist()
    [1.0, 2.5, nan, nan, nan]
    """
    if getattr(column, "dtype", None) == np.float64:  # nothing to convert, which takes most of the time
        numbers = np.asarray(column)
        return np.where(np.isfinite(numbers), numbers, np.nan)
    cells = pd.Series(column).astype(object)
    beyond = cells.map(lambda cell: isinstance(cell, int) and abs(cell) > LARGEST)  # too large for a float
    values = pd.to_numeric(cells.mask(beyond.astype(bool)), errors="coerce")
    numbers = values.to_numpy(dtype=float, na_value=np.nan)
    return np.where(np.isfinite(numbers), numbers, np.nan)


def as_categories(column: Any) -> list[str | None]:
    """A column as text, None for missing, blank or infinite values; 1 and 1.0 are one category.

    >>> as_categories([1.0, 2, " a ", "", np.nan])
    ['1', '2', 'a', None, None]
    """
    cells = pd.Series(column).astype(object)
    if len(cells) < MANY or pd.api.types.infer_dtype(cells) not in ALIKE:
        return [_category(value) for value in cells]
    at, distinct = pd.factorize(cells)  # each distinct value is converted once
    texts = [*map(_category, distinct), None]
    return [texts[i] for i in at.tolist()]


def _category(value: Any) -> str | None:
    if not isinstance(value, (float, np.floating)):
        return None if pd.isna(value) else str(value).strip() or None
    if not np.isfinite(value):
        return None
    return str(int(value)) if float(value).is_integer() else str(value)


def clusters_of(labels: Any, n: int, ids: pd.Index | None = None) -> tuple[list[Any], Array]:
    """Sorted clusters, and the position of the cluster of each subject.

    Labels with an index are matched with the ids of the subjects, if there are any.
    """
    labels = matched_values(labels, ids, "labels", "the subjects")
    if labels.shape != (n,):
        raise InputError(f"labels has shape {labels.shape}, expected ({n},).")
    if pd.isna(labels).any():
        raise InputError(f"{pd.isna(labels).sum()} subjects have no cluster; leave them out.")
    found, codes = np.unique(labels, return_inverse=True)
    return found.tolist(), codes


def variables_of(
    participants: pd.DataFrame, categorical: Iterable[str]
) -> Iterator[tuple[Variable, str | None]]:
    """Columns as variables, with the reason if a column cannot be compared."""
    names = [str(name) for name in participants.columns]
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise InputError(f"The participants table has several columns called {repeated[0]!r}; rename them.")
    codes = set(categorical)
    for j, name in enumerate(names):
        variable = variable_of(name, participants.iloc[:, j], name in codes)
        yield variable, _reason_to_skip(variable, forced=name in codes)


def variable_of(name: str, column: pd.Series, categorical: bool) -> Variable:
    """A column as numeric variable if it has more than two values, all numbers, else as categorical."""
    numbers, texts = as_numbers(column), as_categories(column)
    known = np.array([text is not None for text in texts], dtype=bool)
    several = len(np.unique(numbers[np.isfinite(numbers)])) > 2
    categorical = categorical or isinstance(column.dtype, pd.CategoricalDtype)
    if several and not categorical and np.isfinite(numbers[known]).all():
        return Variable(name, "numeric", numbers, known)
    return Variable(name, "categorical", np.array(texts, dtype=object), known)


def _reason_to_skip(variable: Variable, forced: bool) -> str | None:
    values = variable.data[variable.known]
    distinct = len(set(values.tolist()))
    if not distinct:
        return "all values missing"
    if distinct == 1:
        return CONSTANT
    if variable.kind == "categorical" and distinct == len(values) and not forced:
        return "all values differ"
    return None
