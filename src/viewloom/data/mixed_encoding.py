"""Numbers for the columns of a mixed view, so that each column counts alike.

As in factor analysis of mixed data, numeric columns are standardised, and the dummies of a nominal column are
divided by the root of their share. Each nominal column is then divided by the root of its number of levels
minus one, which gives it the total variance 1 of a numeric column, however many levels it has. A column with
two levels is the same as a standardised 0/1 column. Ordinal columns are standardised ridit scores: the share
of samples below a level plus half of the share at it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from viewloom.data.mixed import Levels, MixedBlock, level_text
from viewloom.data.naming import listed
from viewloom.runtime.errors import InputError
from viewloom.runtime.stored import Stored

Array = np.ndarray
RARE_COUNT, RARE_SHARE = 5, 0.01  # a level below both is rare, and if it is below half of the average level
SPARSE_WIDTH = 256  # columns from which an encoded view is sparse
POOLED = "(rare levels)"


class OrdinalColumn(Stored, tag="column.ordinal", fields=("levels", "scores")):
    """Scores of ordered levels; unknown levels have the mean, 0."""

    def __init__(self, levels: list[str], scores: Array) -> None:
        self.levels, self.scores = levels, scores

    @classmethod
    def fit(cls, levels: Sequence[str], counts: Array) -> OrdinalColumn:
        """Standardised ridit scores of levels with these counts; levels without samples lie between."""
        shares = counts / counts.sum()
        ridits = np.cumsum(shares) - shares / 2.0 - 0.5  # with mean 0
        spread = float(np.sqrt(shares @ ridits**2))
        return cls(list(levels), ridits / spread if spread > 0.0 else np.zeros(len(counts)))

    @property
    def known(self) -> Array:
        """Mask of the levels that have a place."""
        return np.ones(len(self.levels), dtype=bool)

    @property
    def names(self) -> list[str]:
        """A score has no levels of its own."""
        return [""]

    def encode(self, codes: Array) -> Array:
        """Scores (n x 1) of codes, -1 for unknown levels."""
        return np.append(self.scores, 0.0)[codes][:, None]

    def encode_sparse(self, codes: Array) -> sp.csr_array:
        """`encode` as a sparse matrix."""
        return sp.csr_array(self.encode(codes))


class NominalColumn(Stored, tag="column.nominal", fields=("levels", "dummies", "shares")):
    """Weighted dummies of levels; unknown levels have the mean of the training samples.

    Attributes
    ----------
    levels : list of str
    dummies : (levels,) array of int
        Position of the dummy of each level: rare levels share one, those without samples have -1.
    shares : (m,) array
        Share of the samples of each dummy.
    """

    def __init__(self, levels: list[str], dummies: Array, shares: Array) -> None:
        self.levels, self.dummies, self.shares = levels, dummies, shares

    @classmethod
    def fit(cls, levels: Sequence[str], counts: Array) -> NominalColumn:
        """Dummies of levels with these counts."""
        dummies = pooled(counts)
        seen = dummies >= 0
        shares = np.bincount(dummies[seen], weights=counts[seen]) / counts.sum()
        return cls(list(levels), dummies, shares)

    @property
    def known(self) -> Array:
        """Mask of the levels that have a place."""
        return np.asarray(self.dummies >= 0)

    @property
    def names(self) -> list[str]:
        """Name of each dummy."""
        where = [np.flatnonzero(self.dummies == j) for j in range(len(self.shares))]
        return [self.levels[found[0]] if len(found) == 1 else POOLED for found in where]

    @property
    def weights(self) -> Array:
        """``1 / sqrt(share * (m - 1))`` of each of the m dummies."""
        return 1.0 / np.sqrt(self.shares * max(len(self.shares) - 1, 1))

    def encode(self, codes: Array) -> Array:
        """Centred dummies times their weights (n x m)."""
        rows = np.vstack([np.eye(len(self.shares)) - self.shares, np.zeros(len(self.shares))])
        return (rows * self.weights)[np.append(self.dummies, -1)[codes]]

    def encode_sparse(self, codes: Array) -> sp.csr_array:
        """`encode` plus the same row everywhere, the mean of the dummies, so that known levels are sparse."""
        mean = sp.csr_array((self.shares * self.weights)[None])
        rows = sp.csr_array(sp.vstack([sp.diags_array(self.weights), mean], format="csr"))
        return sp.csr_array(rows[np.append(self.dummies, -1)[codes] % rows.shape[0]])


def pooled(counts: Array) -> Array:
    """The dummy of each level: rare levels share the last one; -1 for levels without samples.

    >>> pooled(np.array([50, 0, 2, 45, 3])).tolist()
    [0, -1, 2, 1, 2]
    """
    n, seen = counts.sum(), counts > 0
    limit = min(max(RARE_COUNT, RARE_SHARE * n), n / max(2 * seen.sum(), 1))
    rare, kept = seen & (counts < limit), counts >= max(limit, 1)
    dummies = np.full(len(counts), -1)
    dummies[kept] = np.arange(kept.sum())
    dummies[rare] = kept.sum()
    return dummies


class MixedEncoder(Stored, tag="scaler.mixed", fields=("view", "columns", "mean", "scale", "categorical")):
    """The encoding of a mixed view: fitted to training samples, applied to new samples.

    Attributes
    ----------
    view : str
        Name of the view.
    columns : list of str
        Names of the original columns.
    mean, scale : (d,) arrays
        Of numeric columns; 0 and 1 for categorical columns.
    categorical : list
        One `OrdinalColumn` or `NominalColumn` per column, None for numeric columns.

    Examples
    --------
    >>> import pandas as pd
    >>> from viewloom.data.mixed import mixed_block
    >>> frame = pd.DataFrame({"age": [60.0, 80.0, 70.0, 70.0], "sex": ["f", "m", "m", "f"]})
    >>> block = mixed_block(frame, "clinical")
    >>> encoder = MixedEncoder.fit(block)
    >>> encoder.names
    ['age', 'sex=f', 'sex=m']
    >>> encoder.transform(block)[:2].round(2).tolist()
    [[-1.41, 0.71, -0.71], [1.41, -0.71, 0.71]]
    """

    def __init__(
        self, view: str, columns: list[str], mean: Array, scale: Array, categorical: list[Any]
    ) -> None:
        self.view, self.columns = view, columns
        self.mean, self.scale, self.categorical = mean, scale, categorical

    @classmethod
    def fit(cls, X: MixedBlock, standardise: bool = True) -> MixedEncoder:
        """Fit the encoding to observed rows without missing cells; numbers may keep their units."""
        categorical = [_fitted_column(levels, X.cells[:, j]) for j, levels in enumerate(X.levels)]
        number = np.array([column is None for column in categorical])
        scale = X.cells.std(axis=0) if standardise else np.ones(X.shape[1])
        return cls(
            X.name,
            [str(column) for column in X.columns],
            np.where(number, X.cells.mean(axis=0), 0.0),
            np.where(number & (scale > 10.0 * np.finfo(float).eps * np.abs(X.cells).max(axis=0)), scale, 1.0),
            categorical,
        )

    @property
    def widths(self) -> list[int]:
        """Number of encoded columns of each original column."""
        return [1 if column is None else len(column.names) for column in self.categorical]

    @property
    def groups(self) -> list[slice]:
        """Encoded columns of each original column."""
        ends = np.cumsum(self.widths).tolist()
        return [slice(end - width, end) for end, width in zip(ends, self.widths, strict=True)]

    @property
    def level_names(self) -> list[list[str]]:
        """Names of the dummies of each original column; none for numeric and ordinal columns."""
        nominal = [isinstance(column, NominalColumn) for column in self.categorical]
        return [column.names if one else [] for column, one in zip(self.categorical, nominal, strict=True)]

    @property
    def names(self) -> list[str]:
        """Names of the encoded columns."""
        named = zip(self.columns, self.level_names, strict=True)
        return [
            name
            for column, levels in named
            for name in ([f"{column}={level}" for level in levels] or [column])
        ]

    @property
    def is_sparse(self) -> bool:
        """Whether encoded views are sparse, because they are wide."""
        return sum(self.widths) >= SPARSE_WIDTH and sum(self.widths) > 4 * len(self.columns)

    def transform(self, X: Any) -> Any:
        """Encoded rows (n x sum of widths): an array, or a sparse array if there are many levels."""
        X = self._checked(X)
        parts = [self._encoded(X, j) for j in range(X.shape[1])]
        if self.is_sparse:
            return sp.csr_array(sp.hstack(parts, format="csr"))
        return np.hstack(parts)

    def unseen(self, X: Any) -> dict[str, int]:
        """Number of samples with a level that was not seen in the fit, by column."""
        X = self._checked(X)
        counts = {
            self.columns[j]: int((~np.append(column.known, False)[self._codes(X, j)]).sum())
            for j, column in enumerate(self.categorical)
            if column is not None
        }
        return {name: count for name, count in counts.items() if count}

    def _encoded(self, X: MixedBlock, j: int) -> Any:
        column = self.categorical[j]
        if column is None:
            scaled = (X.cells[:, [j]] - self.mean[j]) / self.scale[j]
            return sp.csr_array(scaled) if self.is_sparse else scaled
        codes = self._codes(X, j)
        return column.encode_sparse(codes) if self.is_sparse else column.encode(codes)

    def _codes(self, X: MixedBlock, j: int) -> Array:
        """Positions of the levels of the fit, matched by name; -1 for other levels and missing cells."""
        fitted: Mapping[str, int] = {name: i for i, name in enumerate(self.categorical[j].levels)}
        given, values = X.levels[j], X.cells[:, j]
        if given is not None:
            lookup = np.array([fitted.get(name, -1) for name in given.names] + [-1])
            return lookup[np.where(np.isnan(values), -1, values).astype(int)]
        distinct, inverse = np.unique(values, return_inverse=True)
        return np.array([fitted.get(level_text(value), -1) for value in distinct], dtype=int)[inverse]

    def _checked(self, X: Any) -> MixedBlock:
        """New samples as a mixed block, whose columns are of the kinds of the fit."""
        if not isinstance(X, MixedBlock):
            X = X.toarray() if sp.issparse(X) else np.asarray(X, dtype=np.float64)
            X = MixedBlock(X, (None,) * X.shape[1], np.asarray(self.columns, dtype=object), self.view)
        pairs = list(zip(self.columns, self.categorical, X.levels, strict=True))
        texts = [name for name, column, given in pairs if column is None and given is not None]
        if texts:
            raise InputError(
                f"View {self.view!r}: columns {listed(texts)} are not numeric, but they were in fit."
            )
        bare = [name for name, column, given in pairs if column is not None and given is None]
        foreign = [name for name in bare if not _has_numbers(self.categorical[self.columns.index(name)])]
        if foreign:
            raise InputError(
                f"View {self.view!r}: columns {listed(foreign)} have levels, but they are numbers here. Pass "
                "a data frame with the names of the levels."
            )
        return X


def encoded(X: Any) -> tuple[Any, list[slice]]:
    """Numbers of a block without missing cells, and the columns that stand for each original one.

    >>> import pandas as pd
    >>> from viewloom.data.mixed import mixed_block
    >>> frame = pd.DataFrame({"age": [60.0, 80.0, 70.0, 70.0], "sex": ["f", "m", "m", "f"]})
    >>> encoded(mixed_block(frame, "clinical"))[1]
    [slice(0, 1, None), slice(1, 3, None)]
    """
    if not isinstance(X, MixedBlock):
        return X, [slice(j, j + 1) for j in range(X.shape[1])]
    encoder = MixedEncoder.fit(X)
    return encoder.transform(X), encoder.groups


def _fitted_column(levels: Levels | None, values: Array) -> OrdinalColumn | NominalColumn | None:
    if levels is None:
        return None
    counts = np.bincount(values.astype(int), minlength=len(levels.names))
    return (OrdinalColumn if levels.ordered else NominalColumn).fit(levels.names, counts)


def _has_numbers(column: OrdinalColumn | NominalColumn) -> bool:
    """Whether the levels of a column are numbers."""
    return all(level.lstrip("-").replace(".", "", 1).isdigit() for level in column.levels)
