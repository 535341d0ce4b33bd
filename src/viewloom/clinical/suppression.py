"""Suppression of small counts in tables, so that they can neither be read nor derived."""

from __future__ import annotations

import numpy as np
import pandas as pd

from viewloom.clinical.shown import Hidden, Known
from viewloom.runtime.errors import InputError

Array = np.ndarray
MIN_CELL = 11


def suppressed(counts: pd.DataFrame, min_cell: int = MIN_CELL, also: Array | None = None) -> pd.DataFrame:
    """Suppress small counts of people in a table, so that they can neither be read nor derived from totals.

    Counts below `min_cell` become ``<11``. If a row or column has a single hidden count, or hidden counts
    that together are below `min_cell`, its next smallest count is also hidden and becomes ``≥11``, so that
    totals of rows and columns may be shown.

    Parameters
    ----------
    counts : DataFrame of int
        Table without totals.
    min_cell : int, default=11
    also : array of bool of the same shape, optional
        Further counts to hide.

    Notes
    -----
    This is complementary suppression. A reader who knows all totals may still derive bounds of hidden
    counts, and may guess zeros that are hidden together.

    Examples
    --------
    >>> suppressed(pd.DataFrame({"a": [40, 30, 3], "b": [25, 20, 60]}, index=["HC", "MCI", "AD"]))
           a    b
    HC    40   25
    MCI  ≥11  ≥11
    AD   <11  ≥11
    """
    return shown_counts(counts, min_cell, also).map(str)


def shown_counts(counts: pd.DataFrame, min_cell: int = MIN_CELL, also: Array | None = None) -> pd.DataFrame:
    """A table of counts of people as `Known` and `Hidden` numbers; see `suppressed`.

    >>> shown_counts(pd.DataFrame([[40, 3]])).iloc[0].tolist()
    [Hidden(sign='≥', bound=11, share=None, spread=None), Hidden(sign='<', bound=11, share=None, spread=None)]
    """
    values = counts.to_numpy()
    if not (values >= 0).all():
        raise InputError("Counts of people must be non-negative numbers.")
    secret, shown = hidden(values, min_cell, also), np.empty(values.shape, dtype=object)
    for at, count in np.ndenumerate(values):
        concealed = Hidden("<" if count < min_cell else "≥", min_cell)
        shown[at] = concealed if secret[at] else Known(int(count))
    return pd.DataFrame(shown, index=counts.index, columns=counts.columns)


def hidden(counts: Array, min_cell: int = MIN_CELL, also: Array | None = None) -> Array:
    """Mask of the counts of a two-way table that must not be shown; see `suppressed`.

    >>> hidden(np.array([[50, 20, 3]])).tolist()
    [[False, True, True]]
    """
    mask = (counts < min_cell) | (False if also is None else also)
    before = -1
    while mask.sum() > before:
        before = mask.sum()
        guessed = _guessed_zeros(counts, mask)
        lines = zip(counts, mask, guessed, strict=True), zip(counts.T, mask.T, guessed.T, strict=True)
        for line, covered, known in [*lines[0], *lines[1]]:
            _cover(line, covered, known, min_cell)
    return np.asarray(mask)


def _guessed_zeros(counts: Array, mask: Array) -> Array:
    """Mask of hidden zeros that a total reveals, since all hidden counts in their row or column are zero."""
    left = np.where(mask, counts, 0)
    return mask & ((left.sum(axis=1, keepdims=True) == 0) | (left.sum(axis=0, keepdims=True) == 0))


def _cover(line: Array, covered: Array, known: Array, min_cell: int) -> None:
    """Hide the next smallest counts of a row or column until its total does not reveal the hidden ones."""
    while covered.any() and not covered.all():
        secret = covered & ~known
        safe = secret.sum() > 1 and line[secret].sum() >= min_cell
        if safe or (covered.sum() > 1 and not secret.any()):
            return
        covered[np.argmin(np.where(covered, np.inf, line))] = True
