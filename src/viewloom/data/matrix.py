"""One view as a matrix of numbers, dense or sparse, whatever it came as."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp
from sklearn.utils import check_array

from viewloom.data.frames import LOST_INDEX, as_table
from viewloom.data.naming import listed, naming_view
from viewloom.runtime.errors import InputError, InputTypeError

Block = Any  # an ndarray or a csr_array, samples in rows

FLOATS = [np.float64, np.float32]

NUMBERS = (int, float, np.bool_, np.integer, np.floating)  # what a column of mixed objects may hold

LARGEST, LARGEST_SINGLE = 1e60, 1e9  # fourth powers of values and of their inverses are still numbers


def concatenated(blocks: Sequence[Block]) -> Block:
    """Columns of all blocks: dense, or sparse where any block is."""
    if any(sp.issparse(X) for X in blocks):
        return sp.csr_array(sp.hstack(blocks, format="csr"))
    return np.hstack(blocks)


def as_view_table(X: Any, name: str) -> Any:
    """What was given as a view: a pandas frame, or something that can be made an array."""
    if X is None:
        raise InputError(f"View {name!r} is None; leave it out.")
    if isinstance(X, (str, PathLike)):
        raise InputTypeError(
            f"View {name!r} is a path; only estimators read files. Read it into a table first."
        )
    with naming_view(name):
        return as_table(X)


def as_block(X: Any, name: str) -> Block:
    """One view as a numeric two-dimensional array; float32 stays float32 where it can be computed with."""
    if isinstance(X, pd.DataFrame):
        X = _numeric_frame(X, name)
    try:
        X = X if sp.issparse(X) else np.asarray(X)
        _check_kind(X)
        if hasattr(X, "check_format"):
            X.check_format(full_check=True)  # positions beyond the shape would be written to memory
        if not _is_plain(X):  # of one row, checks take longer than all else
            with np.errstate(over="ignore"):  # what double precision cannot hold is told as infinite
                X = check_array(
                    X, accept_sparse="csr", dtype=FLOATS, ensure_all_finite=False, ensure_min_samples=0
                )
    except (ValueError, TypeError, OverflowError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"View {name!r}: {_without_values(str(error))}") from None
    X = _canonical(X) if sp.issparse(X) else X
    return X.astype(np.float64) if X.dtype == np.float32 and _needs_double(X) else X


def _is_plain(X: Any) -> bool:
    """Whether an array is one to compute with already."""
    return type(X) is np.ndarray and X.dtype in FLOATS and X.shape[1] > 0


def _needs_double(X: Block) -> bool:
    """Whether products of values leave the range of single precision."""
    size = largest_entry(X)
    return size > 0.0 and not 1.0 / LARGEST_SINGLE <= size <= LARGEST_SINGLE


def _canonical(X: Any) -> sp.csr_array:
    """Without duplicates, and with positions of 32 bits where they suffice: scikit-learn takes no others."""
    index = np.int32 if max(X.nnz, *X.shape) < 2**31 else np.int64
    parts = (X.data, X.indices.astype(index, copy=False), X.indptr.astype(index, copy=False))
    canonical = sp.csr_array(parts, shape=X.shape)
    if not canonical.has_canonical_format:
        canonical = canonical.copy()  # the caller's matrix stays as it was
        canonical.sum_duplicates()
    return canonical


def largest_entry(X: Block) -> float:
    """The largest absolute value, NaN aside."""
    values = X.data if sp.issparse(X) else X
    return float(max(np.fmax.reduce(values, None, initial=0.0), -np.fmin.reduce(values, None, initial=0.0)))


def _check_kind(X: Any) -> None:
    """Refuse what scikit-learn would refuse by printing the data, or would take for numbers."""
    if X.ndim != 2:
        raise InputError(
            f"Expected 2 dimensions (samples x features), got {X.ndim}. Reshape your data, with "
            "array.reshape(-1, 1) if it is a single feature."
        )
    if X.dtype.kind == "c":
        raise InputError("Complex data not supported; pass real and imaginary part as features.")
    if X.dtype.kind in "mM":
        raise InputError("Dates and durations are not numbers; turn them into days or years.")


def _without_values(message: str) -> str:
    """A message of numpy or scikit-learn without the cell it complains of."""
    if message.startswith("could not convert string"):
        return "it holds text that is not a number; encode it or leave it out."
    if message.startswith("int too large"):
        return "it holds whole numbers that are too large to compute with."
    return message


def _numeric_frame(frame: pd.DataFrame, name: str) -> np.ndarray:
    """Values of a table as floats; what is not a number is named by its column."""
    columns = frame.columns.map(str)
    lost = [column for column in columns if column.startswith("__") and LOST_INDEX.fullmatch(column)]
    if lost:
        raise InputError(
            f"View {name!r} has a column {lost[0]!r}, the index of a pandas frame that another library "
            "saved. Make it the index again, or drop it."
        )
    repeated = columns[columns.duplicated()].unique()
    if len(repeated):
        raise InputError(f"View {name!r} has duplicate feature names: {listed(list(repeated))}.")
    bad = [column for column, dtype in frame.dtypes.items() if not _is_numeric(dtype, frame, column)]
    if bad:
        raise InputError(
            f"View {name!r} has {len(bad)} columns that are not numeric: {listed(bad)}. "
            "Encode them (for example with pandas.get_dummies) or leave them out."
        )
    if any(pd.api.types.is_object_dtype(dtype) for dtype in frame.dtypes):
        frame = frame.where(frame.notna(), np.nan)  # None and NA among numbers
    single = all(dtype == np.float32 for dtype in frame.dtypes)
    return frame.to_numpy(dtype=np.float32 if single else np.float64, na_value=np.nan)


def _is_numeric(dtype: Any, frame: pd.DataFrame, column: Any) -> bool:
    if pd.api.types.is_object_dtype(dtype):
        return all(isinstance(value, NUMBERS) or value is None or value is pd.NA for value in frame[column])
    return pd.api.types.is_numeric_dtype(dtype) and not pd.api.types.is_complex_dtype(dtype)


def observed_rows(X: Block) -> np.ndarray:
    """Which rows hold anything: all rows of a sparse matrix, else those that are not all NaN."""
    if sp.issparse(X):
        return np.ones(X.shape[0], dtype=bool)
    return np.asarray(~np.isnan(X).all(axis=1))


def scatter_rows(X: Any, rows: np.ndarray, n: int) -> Block:
    """Observed rows put back in place; absent ones NaN (dense) or empty (sparse)."""
    if len(rows) == n:
        return X
    if sp.issparse(X):
        ones = np.ones(len(rows), dtype=X.dtype)
        return sp.csr_array(sp.csr_array((ones, (rows, np.arange(len(rows)))), (n, len(rows))) @ X)
    full = np.full((n, X.shape[1]), np.nan, dtype=X.dtype)
    full[rows] = X
    return full
