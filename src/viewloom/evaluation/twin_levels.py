"""Columns of twins that have levels: dummies of nominal levels, and levels drawn from latent values."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from viewloom.data.mixed import MixedBlock

Array = np.ndarray


@dataclass(frozen=True)
class Columns:
    """How the columns of a view are represented by numbers: nominal ones by a dummy for each level.

    Attributes
    ----------
    widths : tuple of int
        Number of numbers that represent each column.
    nominal : tuple of bool
    """

    widths: tuple[int, ...]
    nominal: tuple[bool, ...]

    @classmethod
    def of(cls, X: Any) -> Columns | None:
        """Those of a mixed block; None for a block of numbers."""
        if not isinstance(X, MixedBlock):
            return None
        nominal = tuple(levels is not None and not levels.ordered for levels in X.levels)
        widths = tuple(
            len(levels.names) if levels is not None and one else 1
            for levels, one in zip(X.levels, nominal, strict=True)
        )
        return cls(widths, nominal)

    @property
    def size(self) -> int:
        """Number of numbers of a sample."""
        return sum(self.widths)

    @property
    def groups(self) -> list[slice]:
        """The numbers of each column."""
        ends = np.cumsum(self.widths).tolist()
        return [slice(end - width, end) for end, width in zip(ends, self.widths, strict=True)]

    def numbers(self, cells: Array) -> Array:
        """Numbers, codes of ordered levels, and dummies of nominal ones (n x size)."""
        parts = [
            np.eye(width)[cells[:, j].astype(int)] if one else cells[:, [j]]
            for j, (width, one) in enumerate(zip(self.widths, self.nominal, strict=True))
        ]
        return np.hstack(parts)

    def levels(self, Z: Array, values: Array, margins: Array) -> Array:
        """Values (n x size) with exactly one dummy of each nominal column, by its latent numbers in Z."""
        values = values.copy()
        for group, one in zip(self.groups, self.nominal, strict=True):
            if one:
                codes = assigned(Z[:, group], margins[:, group].mean(axis=0))
                values[:, group] = np.eye(group.stop - group.start)[codes]
        return values

    def cells(self, values: Array) -> Array:
        """Cells of a mixed block (n x d), the inverse of `numbers`."""
        parts = [
            values[:, group].argmax(axis=1) if one else values[:, group.start]
            for group, one in zip(self.groups, self.nominal, strict=True)
        ]
        return np.column_stack(parts).astype(np.float64)


def assigned(Z: Array, shares: Array) -> Array:
    """Levels (n,) of samples by their latent values (n x m), with exactly these shares of the samples.

    From the rarest level on, each takes those of the remaining samples whose value of the level exceeds the
    others most.

    >>> Z = np.array([[2.0, 0.0, 0.0], [0.0, 2.0, 0.0], [0.0, 0.0, 2.0], [1.0, 0.0, 0.5]])
    >>> assigned(Z, np.array([0.5, 0.25, 0.25])).tolist()
    [0, 1, 2, 0]
    """
    wanted = _whole(shares, len(Z))
    order = np.argsort(wanted, kind="stable")
    level, free = np.full(len(Z), order[-1]), np.arange(len(Z))
    for i, j in enumerate(order[:-1]):
        beyond = Z[free, j] - Z[np.ix_(free, order[i + 1 :])].max(axis=1)
        taken = np.argsort(-beyond, kind="stable")[: wanted[j]]
        level[free[taken]] = j
        free = np.delete(free, taken)
    return level


def _whole(shares: Array, n: int) -> Array:
    """Whole numbers with sum n, nearest to the shares of n."""
    exact = shares / shares.sum() * n
    whole = np.floor(exact).astype(int)
    more = np.argsort(whole - exact, kind="stable")[: n - int(whole.sum())]
    whole[more] += 1
    return whole


def dense(X: Any, columns: Columns | None = None) -> Array:
    """The numbers of a block."""
    if columns is not None:
        return columns.numbers(X.cells)
    return np.asarray(X.toarray() if sp.issparse(X) else X, dtype=np.float64)


def like(values: Array, rows: Array, block: Any, columns: Columns | None = None) -> Any:
    """A block in the form of the given one, with values in some rows."""
    if columns is not None:
        cells = np.full(block.shape, np.nan)
        cells[rows] = columns.cells(values)
        return replace(block, cells=cells)
    if sp.issparse(block):
        made = sp.lil_array(block.shape)
        made[rows] = values
        return sp.csr_array(made)
    full = np.full(block.shape, np.nan)
    full[rows] = values
    return full
