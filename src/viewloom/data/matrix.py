"""Conversion of a view to a numeric matrix, dense or sparse."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp
from sklearn.utils import check_array

from viewloom.data.frames import LOST_INDEX, as_table
from viewloom.data.mixed import MixedBlock, is_categorical, mixed_block, numbers
from viewloom.data.naming import listed, naming_view
from viewloom.runtime.errors import InputError, InputTypeError

Block = Any  # an ndarray, a csr_array or a MixedBlock, samples in rows

FLOATS = [np.float64, np.float32]

NUMBERS = (int, float, np.bool_, np.integer, np.floating)  # types allowed in a column of mixed objects

LARGEST, LARGEST_SINGLE = 1e60, 1e9  # fourth powers of values and of their inverses stay finite


def concatenated(blocks: Sequence[Block]) -> Block:
    """Concatenate the columns of all blocks: dense, or sparse if any block is."""
    if any(sp.issparse(X) for X in blocks):
        return sp.csr_array(sp.hstack(blocks, format="csr"))
    return np.hstack(blocks)


def placed_rows(X: Any, rows: Any, n: int) -> Any:
    """Rows of X at their increasing positions among n rows, the others zero; X itself if it has all of them.

    >>> placed_rows(np.array([[1.0], [2.0]]), np.array([0, 2]), 3).tolist()
    [[1.0], [0.0], [2.0]]
    """
    if X.shape[0] == n:
        return X
    if sp.issparse(X):
        put = sp.csr_array((np.ones(len(rows), dtype=X.dtype), (rows, np.arange(len(rows)))), (n, len(rows)))
        return sp.csr_array(put @ X)
    block = np.zeros((n, X.shape[1]), dtype=X.dtype)
    block[rows] = X
    return block


def as_view_table(X: Any, name: str) -> Any:
    """A view as a pandas frame, or as an object that can be converted to an array."""
    if X is None:
        raise InputError(f"View {name!r} is None; leave it out.")
    if isinstance(X, (str, PathLike)):
        raise InputTypeError(
            f"View {name!r} is a path, but only estimators read files. Read it into a table first."
        )
    with naming_view(name):
        return as_table(X)


def as_block(X: Any, name: str) -> Block:
    """One view as a two-dimensional array of numbers; float32 is kept unless products would overflow.

    A table with categorical columns is a `MixedBlock`.
    """
    if isinstance(X, pd.DataFrame):
        X = _frame_block(X, name)
    if isinstance(X, MixedBlock):
        return X
    try:
        X = X if sp.issparse(X) else np.asarray(X)
        _check_kind(X)
        if hasattr(X, "check_format"):
            X.check_format(full_check=True)  # invalid indices could corrupt memory
        if not _is_plain(X):  # for single rows these checks would dominate the time
            with np.errstate(over="ignore"):  # overflow is reported later as infinite values
                X = check_array(
                    X, accept_sparse="csr", dtype=FLOATS, ensure_all_finite=False, ensure_min_samples=0
                )
    except (ValueError, TypeError, OverflowError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"View {name!r}: {_without_values(str(error))}") from None
    X = _canonical(X) if sp.issparse(X) else X
    return X.astype(np.float64) if X.dtype == np.float32 and _needs_double(X) else X


def _is_plain(X: Any) -> bool:
    """Whether an array needs no conversion."""
    return type(X) is np.ndarray and X.dtype in FLOATS and X.shape[1] > 0


def _needs_double(X: Block) -> bool:
    """Whether products of values exceed the range of single precision."""
    size = largest_entry(X)
    return size > 0.0 and not 1.0 / LARGEST_SINGLE <= size <= LARGEST_SINGLE


def _canonical(X: Any) -> sp.csr_array:
    """Without duplicate entries, and with 32-bit indices if possible, as scikit-learn requires."""
    index = np.int32 if max(X.nnz, *X.shape) < 2**31 else np.int64
    parts = (X.data, X.indices.astype(index, copy=False), X.indptr.astype(index, copy=False))
    canonical = sp.csr_array(parts, shape=X.shape)
    if not canonical.has_canonical_format:
        canonical = canonical.copy()  # do not modify the caller's matrix
        canonical.sum_duplicates()
    return canonical


def largest_entry(X: Block) -> float:
    """The largest absolute value, ignoring NaN."""
    values = X.data if sp.issparse(X) else numbers(X)
    return float(max(np.fmax.reduce(values, None, initial=0.0), -np.fmin.reduce(values, None, initial=0.0)))


def _check_kind(X: Any) -> None:
    """Raise errors where those of scikit-learn would print data, or where it would accept dates."""
    if X.ndim != 2:
        raise InputError(
            f"Expected 2 dimensions (samples x features), got {X.ndim}. Reshape your data, with "
            "array.reshape(-1, 1) if it is a single feature."
        )
    if X.dtype.kind == "c":
        raise InputError("Complex data not supported; pass real and imaginary part as features.")
    if X.dtype.kind in "mM":
        raise InputError("Dates and durations are not numbers; convert them to days or years.")


def _without_values(message: str) -> str:
    """A message of numpy or scikit-learn without values of the data."""
    if message.startswith("could not convert string"):
        return "it contains text that is not a number; encode it or leave it out."
    if message.startswith("int too large"):
        return "it contains integers that are too large to compute with."
    return message


def _frame_block(frame: pd.DataFrame, name: str) -> np.ndarray | MixedBlock:
    """Values of a table; errors name the columns that are neither numeric nor categorical."""
    columns = frame.columns.map(str)
    lost = [column for column in columns if column.startswith("__") and LOST_INDEX.fullmatch(column)]
    if lost:
        raise InputError(
            f"View {name!r} has a column {lost[0]!r}, the index of a pandas frame saved by another "
            "library. Make it the index again, or drop it."
        )
    repeated = columns[columns.duplicated()].unique()
    if len(repeated):
        raise InputError(f"View {name!r} has duplicate feature names: {listed(list(repeated))}.")
    bad = [column for column, dtype in frame.dtypes.items() if not _is_numeric(dtype, frame, column)]
    levelled = [column for column in bad if is_categorical(frame[column])]
    if len(levelled) < len(bad):
        others = [column for column in bad if column not in levelled]
        raise InputError(
            f"View {name!r} has {len(others)} columns that are not numeric: {listed(others)}. Convert them "
            "to numbers, make them categorical (astype('category')) or leave them out."
        )
    if levelled:
        return mixed_block(frame, name)
    if any(pd.api.types.is_object_dtype(dtype) for dtype in frame.dtypes):
        frame = frame.where(frame.notna(), np.nan)  # None and NA among numbers
    single = all(dtype == np.float32 for dtype in frame.dtypes)
    return frame.to_numpy(dtype=np.float32 if single else np.float64, na_value=np.nan)


def _is_numeric(dtype: Any, frame: pd.DataFrame, column: Any) -> bool:
    if pd.api.types.is_object_dtype(dtype):
        return all(isinstance(value, NUMBERS) or value is None or value is pd.NA for value in frame[column])
    return pd.api.types.is_numeric_dtype(dtype) and not pd.api.types.is_complex_dtype(dtype)


def observed_rows(X: Block) -> np.ndarray:
    """Mask of the observed rows: all rows of a sparse matrix, else those that are not all NaN."""
    if sp.issparse(X):
        return np.ones(X.shape[0], dtype=bool)
    return np.asarray(~np.isnan(numbers(X)).all(axis=1))


def scatter_rows(X: Any, rows: np.ndarray, n: int) -> Block:
    """A matrix of n rows with the observed ones in place; other rows are NaN (dense) or empty (sparse)."""
    if len(rows) == n:
        return X
    if isinstance(X, MixedBlock):
        return X.scattered(rows, n)
    if sp.issparse(X):
        ones = np.ones(len(rows), dtype=X.dtype)
        return sp.csr_array(sp.csr_array((ones, (rows, np.arange(len(rows)))), (n, len(rows))) @ X)
    full = np.full((n, X.shape[1]), np.nan, dtype=X.dtype)
    full[rows] = X
    return full
