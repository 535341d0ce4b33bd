"""Values of tables without copies, dense or sparse.

A sparse table is a data frame with sparse columns, whose other cells are 0; it has no missing cells. Row
operations of pandas on thousands of sparse columns are slow and may fill them, so that they are done here on
matrices.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp

from viewloom.data.mixed import coded
from viewloom.data.portions import row_portions

Array = np.ndarray


def is_sparse(frame: pd.DataFrame) -> bool:
    """Whether a table is sparse.

    >>> is_sparse(sparse_frame(sp.csr_array(np.eye(2)), ["s1", "s2"], ["a", "b"]))
    True
    >>> is_sparse(pd.DataFrame({"a": [1.0]}))
    False
    """
    return bool(frame.shape[1]) and all(isinstance(dtype, pd.SparseDtype) for dtype in frame.dtypes)


def sparse_frame(X: Any, index: Any, columns: Any) -> pd.DataFrame:
    """A sparse table of a matrix."""
    accessor: Any = pd.DataFrame.sparse
    frame: pd.DataFrame = accessor.from_spmatrix(sp.csc_matrix(X), index=index, columns=columns)
    return frame


def matrix_of(frame: pd.DataFrame) -> sp.csr_array:
    """The matrix of a sparse table."""
    parts = [frame.iloc[:, j].array for j in range(frame.shape[1])]
    counts = [part.npoints for part in parts]
    rows = np.concatenate([part.sp_index.indices for part in parts])
    values = np.concatenate([part.sp_values for part in parts])
    starts = np.concatenate([[0], np.cumsum(counts)])
    return sp.csr_array(sp.csc_array((values, rows, starts), shape=frame.shape))


def values_of(frame: pd.DataFrame) -> Array:
    """Values of a dense table, codes for levels; no copy if all columns have the same type of number."""
    frame = coded(frame)
    same = len(set(frame.dtypes)) == 1 and frame.dtypes.iloc[0] in (np.float64, np.float32)
    return frame.to_numpy() if same else frame.to_numpy(dtype=np.float64)


def numeric_columns(frame: pd.DataFrame) -> pd.DataFrame:
    """The columns of a table that have no levels; the table itself if none has."""
    levelled = [isinstance(dtype, pd.CategoricalDtype) for dtype in frame.dtypes]
    return frame.loc[:, ~np.array(levelled, dtype=bool)] if any(levelled) else frame


def with_rows(frame: pd.DataFrame, rows: Array) -> pd.DataFrame:
    """Some rows of a table, by a mask or positions, with its attributes."""
    if is_sparse(frame):
        kept = sparse_frame(matrix_of(frame)[rows], frame.index[rows], frame.columns)
    else:
        kept = frame.iloc[np.flatnonzero(rows)] if rows.dtype == bool else frame.iloc[rows]
    kept.attrs = frame.attrs
    return kept


def among(ids: pd.Index, others: pd.Index) -> Array:
    """Which ids are among others, which are unique; quicker than `isin` for many."""
    return np.asarray(others.get_indexer(ids) >= 0)


def missing_cells(frame: pd.DataFrame) -> int:
    """Number of missing cells."""
    return 0 if is_sparse(frame) else int(np.isnan(values_of(frame)).sum())


def has_value(frame: pd.DataFrame) -> Array:
    """Which rows have any value."""
    return np.ones(len(frame), dtype=bool) if is_sparse(frame) else ~np.isnan(values_of(frame)).all(axis=1)


def in_rows(frame: pd.DataFrame, ids: pd.Index) -> Any:
    """The matrix of a table, or the table if it has levels, with one row per id.

    Where the table has no row, that of the result is NaN, or empty if it is sparse.
    """
    if numeric_columns(frame) is not frame:
        return frame.reindex(ids)
    at = frame.index.get_indexer(ids)
    if not is_sparse(frame):
        return _rows_at(values_of(frame), at)
    X = sp.vstack([matrix_of(frame), sp.csr_array((1, frame.shape[1]), dtype=np.float32)], format="csr")
    return X[np.where(at >= 0, at, len(frame))]


def _rows_at(X: Array, at: Array) -> Array:
    """Rows of a matrix at these positions, NaN where they are negative; consecutive in memory."""
    found = np.full((len(at), X.shape[1]), np.nan, dtype=X.dtype)
    for part in row_portions(found.shape):  # or all rows would be copied once more
        seen = at[part] >= 0
        found[part][seen] = X[at[part][seen]]
    return found
