"""Conversion of tables of any library to pandas frames or arrays.

Supported are Polars, PyArrow, Dask, Modin and other libraries that narwhals supports, objects with the
Arrow or the dataframe interchange interface, DataArray of xarray, record arrays and masked arrays. Masked
values are missing values.
"""

from __future__ import annotations

import re
import warnings
from typing import Any

import narwhals as nw
import numpy as np
import pandas as pd
import scipy.sparse as sp
from narwhals.exceptions import DuplicateError

from viewloom.runtime.errors import InputError, InputTypeError

KNOWN = (np.ndarray, pd.DataFrame, list, tuple, dict, str, int, float, type(None))
LOST_INDEX = re.compile(r"__index_level_\d+__")  # name of an unnamed index in Arrow


def as_table(X: Any) -> Any:
    """A pandas frame for a table of any library, an array for a masked array; other data unchanged.

    >>> as_table(np.ma.array([[1.0, 2.0]], mask=[[False, True]])).tolist()
    [[1.0, nan]]
    >>> as_table(np.array([(1.0, 2.0)], dtype=[("age", float), ("mass", float)])).columns.tolist()
    ['age', 'mass']
    """
    if type(X) is np.ndarray and X.dtype.names is None:
        return X
    if isinstance(X, np.ndarray):
        return _from_array(X)
    if isinstance(X, (list, tuple)):
        return unmasked(np.ma.array(X)) if any(map(np.ma.isMaskedArray, X)) else X
    if is_dask_frame(X):
        return computed(X)
    return as_pandas(X) if is_frame(X) else X


def is_frame(X: Any) -> bool:
    """Whether X is a table with named columns, in memory or readable.

    >>> is_frame(pd.DataFrame({"a": [1]})), is_frame(np.eye(2))
    (True, False)
    """
    if isinstance(X, pd.DataFrame):
        return True
    if isinstance(X, KNOWN) or sp.issparse(X):
        return False
    return _is_labelled_array(X) or (not hasattr(X, "__dask_graph__") and _is_columnar(X))


def as_pandas(frame: Any) -> pd.DataFrame:
    """Convert a frame to pandas, column by column, so that Polars does not need PyArrow."""
    if isinstance(frame, pd.DataFrame):
        return frame
    if _is_labelled_array(frame):
        return pd.DataFrame(frame.to_pandas()).rename_axis(index=None, columns=None)
    frame = narwhal(frame)
    if frame.implementation.is_pandas_like():
        return frame.to_pandas()  # type: ignore[no-any-return]
    table = pd.DataFrame({name: _values(frame[name]) for name in frame.columns})
    schema = getattr(nw.to_native(frame), "schema", None)
    stored = stored_index(schema)
    if stored:
        return table.set_index(stored).rename_axis(index_names(stored))
    return table.set_axis(stored_range(schema, len(table)))


def _values(column: nw.Series[Any]) -> Any:
    """Values of a column; categories stay categories, which in Polars have no order."""
    if column.dtype not in (nw.Categorical, nw.Enum):
        return column.to_numpy()
    if column.implementation.is_pyarrow():
        return column.to_native().to_pandas()
    return pd.Series(column.to_list(), dtype="category")


def stored_index(schema: Any) -> list[str]:
    """Columns of an Arrow table that contain the index of the original pandas frame."""
    metadata = getattr(schema, "pandas_metadata", None) or {}
    return [name for name in metadata.get("index_columns", []) if isinstance(name, str)]


def stored_range(schema: Any, n: int) -> pd.RangeIndex:
    """The range index stored with an Arrow table of n rows, or a default index."""
    metadata = getattr(schema, "pandas_metadata", None) or {}
    ranges = [entry for entry in metadata.get("index_columns", []) if isinstance(entry, dict)]
    for entry in ranges:
        index = pd.RangeIndex(entry["start"], entry["stop"], entry["step"], name=entry["name"])
        if len(index) == n:  # slices of the table keep the full range
            return index
    return pd.RangeIndex(n)


def index_names(stored: list[str]) -> list[str | None]:
    """Names of index levels, None for unnamed levels.

    >>> index_names(["id", "__index_level_1__"])
    ['id', None]
    """
    return [None if LOST_INDEX.fullmatch(name) else name for name in stored]


def narwhal(frame: Any) -> nw.DataFrame[Any]:
    """A narwhals frame of a table of another library."""
    if isinstance(frame, nw.DataFrame):
        return frame
    try:
        known = nw.from_native(frame, pass_through=True)
        if isinstance(known, nw.LazyFrame):
            raise InputTypeError(f"A {type(frame).__name__} has no values yet; collect() or read it first.")
        return known if isinstance(known, nw.DataFrame) else nw.from_native(_from_interface(frame))
    except DuplicateError:
        names = pd.Index(_names(frame))
        repeated = ", ".join(map(repr, names[names.duplicated()].unique()[:5]))
        raise InputError(f"duplicate feature names: {repeated}.") from None


def is_dask_frame(X: Any) -> bool:
    """Whether X is a Dask data frame."""
    return hasattr(X, "__dask_graph__") and hasattr(X, "to_dask_array")


def dask_index(frame: Any) -> tuple[pd.Index, list[int]]:
    """The index of a Dask frame, and the lengths of its partitions.

    If the index of every partition starts from 0, as after reading files, it is a default index.
    """
    from dask.base import compute

    parts = compute(*frame.index.to_delayed())  # type: ignore[no-untyped-call]
    lengths = [len(part) for part in parts]
    counted = all(is_default(part) for part in parts)
    return (pd.RangeIndex(sum(lengths)) if counted else parts[0].append(list(parts[1:]))), lengths


def computed(frame: Any) -> pd.DataFrame:
    """Compute a Dask frame, with the index of `dask_index`."""
    index, _ = dask_index(frame)
    return frame.compute().set_axis(index)  # type: ignore[no-any-return]


def is_default(index: pd.Index) -> bool:
    """Whether an index is a default index: 0, 1, ... without a name.

    >>> is_default(pd.RangeIndex(3)), is_default(pd.Index([2, 0, 1]))
    (True, False)
    """
    if index.name is not None or isinstance(index, pd.MultiIndex):
        return False
    if isinstance(index, pd.RangeIndex):
        return len(index) == 0 or (index.start == 0 and (index.step == 1 or len(index) == 1))
    return index.dtype.kind in "iu" and np.array_equal(index, np.arange(len(index)))


def unmasked(X: Any) -> np.ndarray:
    """Values of a masked array, with NaN for masked values."""
    if X.dtype.kind in "biuf":
        kept = X.dtype if X.dtype == np.float32 else np.dtype(np.float64)
        return np.asarray(X.astype(kept).filled(np.nan))
    if X.dtype.kind in "mMc":
        return np.asarray(X.data)  # raises an error later
    return np.asarray(X.astype(object).filled(np.nan))


def _from_array(X: np.ndarray) -> Any:
    if X.dtype.names is not None:
        if np.ma.isMaskedArray(X):
            raise InputTypeError("A masked record array is not supported; pass a DataFrame with NaN instead.")
        return pd.DataFrame.from_records(X) if X.ndim == 1 else X
    if np.ma.isMaskedArray(X):
        return unmasked(X)
    return X


def _is_labelled_array(X: Any) -> bool:
    """Whether X is a two-dimensional DataArray of xarray, with ids and names as coordinates."""
    return all(hasattr(X, name) for name in ("dims", "coords", "to_pandas")) and getattr(X, "ndim", 0) == 2


def _is_columnar(X: Any) -> bool:
    if isinstance(X, (nw.DataFrame, nw.LazyFrame)) or hasattr(X, "__dataframe__"):
        return True
    if isinstance(nw.from_native(X, pass_through=True), (nw.DataFrame, nw.LazyFrame)):
        return True
    return hasattr(X, "__arrow_c_stream__") and not hasattr(X, "dtype") and not hasattr(X, "type")


def _from_interface(frame: Any) -> Any:
    """Read a frame of an unknown library through the Arrow or the dataframe interchange interface."""
    if hasattr(frame, "__arrow_c_stream__"):
        import pyarrow as pa

        return pa.table(frame)
    from pandas.api.interchange import from_dataframe

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The Dataframe Interchange Protocol is deprecated")
        return from_dataframe(frame)


def _names(frame: Any) -> list[str]:
    return list(getattr(frame, "column_names", getattr(frame, "columns", [])))
