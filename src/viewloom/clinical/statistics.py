"""Statistics of tables with hidden counts, as coarse as needed to keep them hidden.

Cramer's V with many digits, or the agreement of clusters and diagnosis, can be computed for every table that
a reader thinks possible; few tables then remain. A statistic is shown only if other tables are found that
agree with everything shown, and have enough different values of each hidden count.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from scipy import special, stats

from viewloom.clinical.findings import (
    DRAWS,
    SEED,
    chi_square_is_valid,
    chi_squares,
    cramers_vs,
    random_tables,
)
from viewloom.clinical.release import CLASSES
from viewloom.clinical.suppression import MIN_CELL, SOLUTIONS, possible_values

Array = np.ndarray
MOST_HIDDEN = 40  # counts of a table for which all possible values are computed
WALKERS, STEPS = 60, 250  # of the search for other tables
LEVELS = ((1, 1), (None, 1), (None, None))  # decimals of V and of the agreement, finest first


@dataclass(frozen=True)
class Precision:
    """What may be shown of a categorical variable; None where nothing may.

    Attributes
    ----------
    effect : int or None
        Decimals of Cramer's V.
    agreement : int or None
        Decimals of the adjusted Rand index and of the normalised mutual information.
    classes : bool
        Whether the class of the p-value may be shown.
    exact : bool
        Whether no count is hidden, so that p-values are shown as numbers.
    counted : bool
        Whether the number of missing values in each cluster is known. Otherwise intervals and p-values of
        single clusters, from which it could be derived, are rounder.
    """

    effect: int | None = 2
    agreement: int | None = 2
    classes: bool = True
    exact: bool = True
    counted: bool = True


def precision(
    counts: Array,
    secret: Array,
    min_cell: int = MIN_CELL,
    tested: int | None = None,
    agreement: bool = False,
    floor: int | None = None,
) -> Precision:
    """The precision with which statistics of a table may be shown.

    Parameters
    ----------
    counts : (levels, clusters) array of int
    secret : array of bool
        Counts that are hidden.
    min_cell : int, default=11
    tested : int, optional
        Number of rows that are tested, from the first; by default all. The other rows are missing values.
    agreement : bool, default=False
        Whether the agreement of rows and columns is shown, too.
    floor : int, optional
        The lower bound that is shown for hidden counts that are not small; by default `min_cell`.

    Examples
    --------
    >>> counts = np.array([[12, 31, 45], [52, 25, 6], [74, 70, 30]])
    >>> precision(counts, counts < 0)
    Precision(effect=2, agreement=2, classes=True, exact=True, counted=True)
    >>> precision(counts, np.array([[0, 0, 0], [0, 1, 1], [0, 1, 1]], dtype=bool))
    Precision(effect=1, agreement=None, classes=True, exact=False, counted=True)
    """
    if not secret.any():
        return Precision()
    tested = len(counts) if tested is None else tested
    if counts[:tested].sum() < 2:  # nothing to compute
        return Precision(None, None, classes=False, exact=False)
    table = _Hidden(counts, secret, min_cell, min_cell if floor is None else floor, tested)
    levels = LEVELS if agreement else ((1, None), (None, None))
    for effect, scores in levels:
        if table.is_safe(effect, scores, classes=True):
            return Precision(effect, scores, exact=False)
    return Precision(None, None, classes=False, exact=False)


@dataclass(frozen=True)
class _Hidden:
    """A table with hidden counts, and other tables that a reader of the shown ones finds possible."""

    counts: Array
    secret: Array
    min_cell: int
    floor: int
    tested: int
    known: dict[tuple[int, int], int] = field(default_factory=dict)

    def is_safe(self, effect: int | None, agreement: int | None, classes: bool) -> bool:
        """Whether every hidden count keeps enough values, given what is shown."""
        agrees = np.ones(len(self.others), dtype=bool)
        if effect is not None:
            agrees &= self._same(cramers_vs, effect)
        if agreement is not None:
            agrees &= self._same(_adjusted_rand, agreement) & self._same(_mutual_information, agreement)
        if classes:
            agrees &= self._same_class
        found = self.others[agrees]
        return all(self._keeps(found, *at) for at in map(tuple, np.argwhere(self.secret).tolist()))

    def _keeps(self, found: Array, i: int, j: int) -> bool:
        """Whether a hidden count has five values among these tables, or as many as the totals allow."""
        values = len(np.unique(found[:, i, j]))
        if values >= SOLUTIONS:
            return True
        if self.secret.sum() > MOST_HIDDEN:  # of tables so large, statistics tell little of one count
            return values == len(np.unique(self.others[:, i, j]))
        return values >= self.possible(i, j)

    def possible(self, i: int, j: int) -> int:
        """Values of a hidden count that the totals allow, up to five."""
        if (i, j) not in self.known:
            self.known[i, j] = possible_values(self.counts, self.secret, (i, j), self.min_cell, self.floor)
        return self.known[i, j]

    @cached_property
    def others(self) -> Array:
        """Different tables with the same totals and shown counts, found by random walks along exchanges."""
        rng = np.random.default_rng(0)
        moves = _exchanges(self.secret, rng)
        if not len(moves):
            return self.counts[None]
        small = self.counts < self.min_cell
        low = np.where(self.secret, np.where(small, 0, self.floor), self.counts)
        high = np.where(self.secret, np.where(small, self.min_cell - 1, self.counts.sum()), self.counts)
        at = np.repeat(self.counts[None], WALKERS, axis=0)
        seen = [at]
        for _ in range(STEPS):
            new = at + moves[rng.integers(len(moves), size=WALKERS)]
            fine = ((new >= low) & (new <= high)).all(axis=(1, 2))
            at = np.where(fine[:, None, None], new, at)
            seen.append(at)
        tables = np.concatenate(seen)
        marks = rng.integers(1 << 62, size=self.counts.size)
        _, first = np.unique(tables.reshape(len(tables), -1) @ marks, return_index=True)  # modulo 2**64
        return tables[first]

    @cached_property
    def _same_class(self) -> Array:
        return self._same(self._classes, 0)

    def _same(self, statistic: Callable[[Array], Array], decimals: int) -> Array:
        """Which of the other tables have the same statistic, as it is shown."""
        own, values = (statistic(tables[:, : self.tested]) for tables in (self.counts[None], self.others))
        return np.asarray(np.round(values, decimals) == np.round(own[0], decimals))

    def _classes(self, tables: Array) -> Array:
        """The class of the p-value of each table, -1 for tables to which another test applies."""
        own = self.counts[: self.tested]
        rows, columns = own.sum(axis=1) > 0, own.sum(axis=0) > 0
        inner = own[rows][:, columns]
        if min(inner.shape) < 2:
            return np.zeros(len(tables))
        if chi_square_is_valid(stats.contingency.expected_freq(inner)):
            df = (inner.shape[0] - 1) * (inner.shape[1] - 1)
            return _class_of(stats.chi2.sf(chi_squares(tables), df))
        alike = (tables.sum(axis=1) == own.sum(axis=0)).all(axis=1)
        drawn = np.sort(_unlikeliness(random_tables(inner, np.random.default_rng(SEED))))
        above = len(drawn) - np.searchsorted(drawn, _unlikeliness(tables) - 1e-7)
        return np.where(alike, _class_of((above + 1) / (DRAWS + 1)), -1.0)


def _class_of(p: Array) -> Array:
    return np.searchsorted(CLASSES, p, side="right").astype(float)


def _exchanges(secret: Array, rng: np.random.Generator, most: int = 400) -> Array:
    """Changes of hidden counts that leave all totals: closed ways over two or three rows and columns."""
    rows, columns = secret.shape
    moves = []
    for size in (2, 3):
        if min(rows, columns) < size:
            continue
        for _ in range(most):
            i = rng.permutation(rows)[:size]
            j = rng.permutation(columns)[:size]
            after = np.roll(j, 1)
            if secret[i, j].all() and secret[i, after].all():
                move = np.zeros(secret.shape, dtype=int)
                move[i, j] += 1
                move[i, after] -= 1
                moves += [move, -move]
    return np.unique(moves, axis=0) if moves else np.empty((0, *secret.shape), dtype=int)


def _unlikeliness(tables: Array) -> Array:
    """Minus the logarithm of the probability of tables with the same totals, up to a constant."""
    return np.asarray(special.gammaln(tables + 1.0).sum(axis=(1, 2)))


def _adjusted_rand(tables: Array) -> Array:
    def pairs(x: Array) -> Array:
        return np.asarray(x * (x - 1) / 2.0)

    same = pairs(tables).sum(axis=(1, 2))
    rows, columns = pairs(tables.sum(axis=2)).sum(axis=1), pairs(tables.sum(axis=1)).sum(axis=1)
    chance = rows * columns / np.maximum(pairs(tables.sum(axis=(1, 2))), 1.0)
    most = (rows + columns) / 2.0
    return np.asarray((same - chance) / np.where(most == chance, 1.0, most - chance))


def _mutual_information(tables: Array) -> Array:
    """Mutual information of rows and columns over the mean of their entropies."""
    n = np.maximum(tables.sum(axis=(1, 2)), 1)[:, None]
    rows, columns = special.entr(tables.sum(axis=2) / n), special.entr(tables.sum(axis=1) / n)
    both = special.entr(tables.reshape(len(tables), -1) / n).sum(axis=1)
    apart = rows.sum(axis=1) + columns.sum(axis=1)
    return np.asarray((apart - both) / np.where(apart > 0, apart / 2.0, 1.0))
