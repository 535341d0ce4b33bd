"""Suppression of small counts in tables, so that they can neither be read nor derived."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pandas as pd
from scipy.optimize import Bounds, LinearConstraint, linprog, milp

from viewloom.clinical.shown import ABOUT, Hidden, Known
from viewloom.runtime.errors import InputError

Array = np.ndarray
MIN_CELL = 11
SOLUTIONS = 5  # values that a hidden count may have, for a reader who knows the totals
MOST_NODES = 2000  # of the search for counts to hide


def suppressed(counts: pd.DataFrame, min_cell: int = MIN_CELL, also: Array | None = None) -> pd.DataFrame:
    """Suppress small counts of people in a table, so that they can neither be read nor derived from totals.

    Counts below `min_cell` become ``<11``. As few other counts as possible are also hidden, so that totals of
    rows and columns may be shown: a reader who knows them, and the bounds, finds at least five values for
    each hidden count that agree with the table, or as many as any table with these totals allows. The hidden
    counts of a row or column are together not below `min_cell`. The other hidden counts become ``≥11``, or
    ``hidden`` if even that bound would give small counts away.

    Parameters
    ----------
    counts : DataFrame of int
        Table without totals.
    min_cell : int, default=11
    also : array of bool of the same shape, optional
        Further counts to hide.

    Notes
    -----
    This is complementary cell suppression. For each count that is not protected yet, the smallest set of
    further counts is found by mixed-integer programming; ties are resolved by the smallest sum.

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
    secret, floor = _protected(values, min_cell, also)
    others = Hidden("≥", min_cell) if floor else Hidden("", 0)
    shown = np.empty(values.shape, dtype=object)
    for at, count in np.ndenumerate(values):
        concealed = Hidden("<", min_cell) if count < min_cell else others
        shown[at] = concealed if secret[at] else Known(int(count))
    return pd.DataFrame(shown, index=counts.index, columns=counts.columns)


def rough_count(count: int, min_cell: int = MIN_CELL) -> Hidden:
    """A total of counts that are hidden, and that could be derived from it and from means: rounded to tens.

    >>> str(rough_count(3)), str(rough_count(27))
    ('<11', 'about 30')
    """
    return Hidden("<", min_cell) if count < min_cell else Hidden(ABOUT, 10 * round(count / 10))


def hidden(counts: Array, min_cell: int = MIN_CELL, also: Array | None = None) -> Array:
    """Mask of the counts of a two-way table that must not be shown; see `suppressed`.

    >>> hidden(np.array([[50, 20, 3]])).tolist()
    [[False, True, True]]
    """
    return _protected(counts, min_cell, also)[0]


def _protected(counts: Array, min_cell: int, also: Array | None) -> tuple[Array, int]:
    """Mask of the hidden counts, and the lower bound that may be shown for those that are not small."""
    first = (counts < min_cell) | (False if also is None else also)
    if not first.any():
        return np.asarray(first), min_cell
    enough = min(SOLUTIONS, max(min_cell, 1)) - 1
    bounded, free = (_Table(counts, min_cell, floor, enough) for floor in (min_cell, 0))
    mask = bounded.covered(first)
    if all(bounded.most(at) >= free.most(at) for at in map(tuple, np.argwhere(mask))):
        return mask, min_cell
    return free.covered(first), 0


def possible_values(
    counts: Array, mask: Array, at: tuple[int, ...], min_cell: int = MIN_CELL, floor: int | None = None
) -> int:
    """Number of values, up to five, that a hidden count may have if all totals are known.

    `floor` is the lower bound that is shown for hidden counts that are not small, by default `min_cell`.

    >>> possible_values(np.array([[50, 20, 3]]), np.array([[False, True, True]]), (0, 2))
    5
    """
    enough = min(SOLUTIONS, max(min_cell, 1)) - 1
    return _Table(counts, min_cell, min_cell if floor is None else floor, enough).width(at, mask) + 1


def span(bounds: Array, lines: Array, totals: Array, at: int) -> int:
    """Number of values from the least to the largest that one of several counts may have.

    Parameters
    ----------
    bounds : (n, 2) array
        Least and largest value of each count.
    lines : (m, n) array
        Sums of counts that are known, as rows of zeros and ones.
    totals : (m, 2) array
        Bounds of these sums.
    at : int
        The count.

    Examples
    --------
    >>> span(np.array([[1, 10], [1, 10]]), np.ones((1, 2)), np.array([[15, 15]]), 0)
    6
    """
    target = np.eye(len(bounds))[at]
    limits = LinearConstraint(lines, totals[:, 0], totals[:, 1])
    ends = [
        milp(
            sign * target,
            integrality=np.ones(len(bounds)),
            bounds=Bounds(bounds[:, 0], bounds[:, 1]),
            constraints=limits,
        )
        for sign in (1.0, -1.0)
    ]
    return 0 if any(end.x is None for end in ends) else round(-ends[0].fun - ends[1].fun) + 1


class _Table:
    """A table whose row and column totals are known, seen by a reader who knows bounds of hidden counts.

    Counts below `min_cell` are known to be below it, other hidden counts to be at least `floor`. Changes of
    counts by more than `enough`, which gives enough solutions, do not matter.
    """

    def __init__(self, counts: Array, min_cell: int, floor: int, enough: int) -> None:
        small = counts < min_cell
        self.counts, self.min_cell, self.enough = counts, min_cell, enough
        self.up = np.where(small, np.clip(min_cell - 1 - counts, 0, enough), enough)
        self.down = np.clip(np.where(small, counts, counts - floor), 0, enough)
        self.lines = _lines(counts.shape)

    def covered(self, mask: Array) -> Array:
        """The mask with further counts, so that every hidden count has enough solutions."""
        mask = mask.copy()
        if not self._sums(mask).all():
            mask = self._extended(mask, None)
        waiting = [tuple(at) for at in np.argwhere(mask)]
        while waiting:
            at = waiting.pop(0)
            if self.width(at, mask) < self.most(at):
                more = self._extended(mask, at)
                waiting += [tuple(new) for new in np.argwhere(more & ~mask)]
                mask = more
        return mask

    def most(self, at: tuple[int, ...]) -> int:
        """The largest range of a count, up to what is enough: that if all counts are hidden."""
        return self.width(at, np.ones(self.counts.shape, dtype=bool))

    def width(self, at: tuple[int, ...], mask: Array) -> int:
        """Difference of the largest and least value of a hidden count, up to what is enough."""
        up, down = np.where(mask, self.up, 0), np.where(mask, self.down, 0)
        if _by_cycles(up, down, at) >= self.enough:
            return self.enough
        position = int(np.ravel_multi_index(at, self.counts.shape))
        bounds = np.column_stack([-down.ravel(), up.ravel()]).astype(np.float64)
        return min(self.enough, _range(self.counts.shape, bounds.tobytes(), position))

    def _sums(self, mask: Array) -> Array:
        """Whether the hidden counts of each row and column are together not small, or all of its counts."""
        return np.asarray(self.lines @ (self.counts * mask).ravel() >= self._least(mask))

    def _least(self, mask: Array) -> Array:
        """The least sum of the hidden counts of each row and column; 0 where none is hidden."""
        touched = self.lines @ mask.ravel() > 0
        return np.where(touched, np.minimum(self.lines @ self.counts.ravel(), self.min_cell), 0)

    def _extended(self, mask: Array, at: tuple[int, ...] | None) -> Array:
        """The mask with the fewest further counts that give a hidden count its largest range.

        With y = 1 for hidden counts, there are two other tables, ``counts + u`` and ``counts + d``, with the
        same totals and ``-down y <= u, d <= up y``, between which the count at `at` has the wanted range.
        """
        n, lines = self.counts.size, self.lines
        x, up, down = self.counts.ravel().astype(float), self.up.ravel(), self.down.ravel()
        eye, none = np.eye(n), np.zeros((n, n))
        blank = np.zeros_like(lines)
        constraints = [
            LinearConstraint(np.hstack([lines, blank, blank]), 0, 0),
            LinearConstraint(np.hstack([blank, lines, blank]), 0, 0),
            LinearConstraint(np.hstack([blank, blank, lines * x]), self._least(mask), np.inf),
        ]
        for left, right in ((eye, none), (none, eye)):
            constraints += [
                LinearConstraint(np.hstack([left, right, -np.diag(up)]), -np.inf, 0),
                LinearConstraint(np.hstack([left, right, np.diag(down)]), 0, np.inf),
            ]
        if at is not None:
            target = eye[np.ravel_multi_index(at, self.counts.shape)]
            wide = np.concatenate([target, -target, np.zeros(n)])
            constraints.append(LinearConstraint(wide, self.most(at), np.inf))
        given = mask.ravel().astype(float)
        reach = np.full(2 * n, float(self.enough))
        found = milp(
            np.concatenate([np.zeros(2 * n), 1.0 + x / (x.sum() + 1.0)]),
            integrality=np.repeat([0, 0, 1], n),
            bounds=Bounds(np.concatenate([-reach, given]), np.concatenate([reach, np.ones(n)])),
            constraints=constraints,
            options={"node_limit": MOST_NODES, "mip_rel_gap": 0.0},
        )
        if found.x is None:  # not solved in time
            return np.ones_like(mask)
        return mask | (found.x[2 * n :] > 0.5).reshape(mask.shape)


@lru_cache(maxsize=2**12)  # the same tables are asked for with other bounds, and again for other numbers
def _range(shape: tuple[int, ...], bounds: bytes, position: int) -> int:
    """Difference of the largest and least change of a count, within bounds, that keeps all totals."""
    lines, target = _lines(shape), np.zeros(int(np.prod(shape)))
    target[position] = 1.0
    limits, zero = np.frombuffer(bounds).reshape(-1, 2), np.zeros(len(lines))
    ends = [linprog(sign * target, A_eq=lines, b_eq=zero, bounds=limits).fun for sign in (1, -1)]
    return round(-ends[0] - ends[1])


@lru_cache(maxsize=2**8)
def _lines(shape: tuple[int, ...]) -> Array:
    """Rows and columns (one per line) with more than one count, as sums of counts."""
    at = np.arange(shape[0] * shape[1]).reshape(shape)
    groups = [line for line in (*at, *at.T) if len(line) > 1]
    return np.array([np.isin(at.ravel(), line) for line in groups], dtype=float).reshape(-1, at.size)


def _by_cycles(up: Array, down: Array, at: tuple[int, ...]) -> float:
    """A lower bound of the range of a count: what it changes with one other row and column.

    If a count increases, so does the one in the other row and column; the other two decrease.
    """
    i, j = at
    if len(up) > 1 and up.shape[1] > 1:
        rows, columns = np.arange(len(up)) != i, np.arange(up.shape[1]) != j
        rise, fall = (
            np.minimum(
                np.minimum(a[i, j], a[rows][:, columns]), np.minimum(b[i, columns], b[rows, j][:, None])
            )
            for a, b in ((up, down), (down, up))
        )
    else:  # a single row or column
        others = np.arange(up.size) != i + j
        rise, fall = (np.minimum(a[i, j], b.ravel()[others]) for a, b in ((up, down), (down, up)))
    return float(rise.max(initial=0) + fall.max(initial=0))
