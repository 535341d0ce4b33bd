"""Views that are read in blocks of rows: data larger than memory, files, or arrays on a cluster.

A view may be any object with a `shape` whose rows can be sliced: an array, a sparse matrix, a
`numpy.memmap`, a Zarr or Dask array, a data frame, or a path to a `.npy`, `.parquet` or `.zarr`
file. Blocks are ordinary, checked `Views`, so other code does not depend on the source of rows.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from itertools import accumulate, pairwise
from math import ceil
from mmap import ALLOCATIONGRANULARITY
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp

from viewloom.data.alignment import fitted_parts
from viewloom.data.frames import (
    as_pandas,
    as_table,
    dask_index,
    index_names,
    is_dask_frame,
    is_default,
    is_frame,
    narwhal,
    stored_index,
    stored_range,
)
from viewloom.data.matching import match_rows
from viewloom.data.mixed import MixedBlock
from viewloom.data.naming import listed
from viewloom.data.views import Views, is_multiview, named_parts
from viewloom.runtime.errors import InputError
from viewloom.runtime.files import special

__all__ = ["Blocks"]

Array = np.ndarray
BLOCK_ROWS = 16_384
PARQUET_ROWS, PARQUET_BUFFER = 4096, 2**16  # rows decoded at a time; bytes of each column read at a time
FILE_SUFFIXES = (".npy", ".parquet", ".zarr")


class Blocks:
    """Named views of the same samples, read in blocks of consecutive rows.

    Parameters
    ----------
    data : dict, list or Views
        One source per view; the views of a list are named ``view0``, ``view1``, ...
    names : list of str, optional
        Names of the views of a fitted model, in the order of a list; some views may be missing.
    rows : int, default=16384
        Maximum number of rows per block.
    bounds : list of int, optional
        First row of every block, and one past the last row. By default blocks have equal size, or
        follow the partitions of a Dask array.

    Examples
    --------
    >>> import numpy as np
    >>> blocks = Blocks({"mri": np.ones((5, 2)), "pet": np.ones((5, 3))}, rows=2)
    >>> [len(block) for block in blocks]
    [2, 2, 1]
    """

    def __init__(
        self,
        data: Any,
        names: Sequence[str] | None = None,
        *,
        rows: int = BLOCK_ROWS,
        bounds: Sequence[int] | None = None,
    ) -> None:
        parts = named_parts(data) if names is None else fitted_parts(data, names)
        named = {name: _named_source(X, name) for name, X in parts.items()}
        self.ids, named = _matched(named)
        self.n = _common_length(named)
        if isinstance(data, Views):
            self.ids = data.ids
        self.features = data.feature_names if isinstance(data, Views) else None
        self.names = list(named)
        self.sources = list(named.values())
        self.present = data.present if isinstance(data, Views) else None
        self.rows = rows
        self.ranges = list(pairwise(bounds or self._bounds(rows)))

    def __iter__(self) -> Iterator[Views]:
        return (self.read(*rows) for rows in self.ranges)

    def read(self, start: int, stop: int) -> Views:
        """Read the rows from start to stop as views."""
        return assemble(*self.portion(start, stop))

    def parts(self, start: int, stop: int) -> list[Any]:
        """Rows of every view in a form that can be sent to a worker, where `assemble` joins them."""
        rows = slice(start, stop)
        return [source[rows] if _at_hand(source) else StoredRows(source, rows) for source in self.sources]

    def portion(self, start: int, stop: int) -> tuple[list[str], list[Any], Array | None, Any]:
        """All that `assemble` needs to make views of these rows in another process."""
        return self.names, self.parts(start, stop), self.present_in(slice(start, stop)), self.features

    def present_in(self, rows: Any) -> Array | None:
        """Mask of the views that rows have; None if it follows from the data."""
        return None if self.present is None else self.present[rows]

    def divided(self, shares: int) -> Blocks:
        """The same rows in blocks that are not larger, with the same number of blocks for each share."""
        rounds = ceil(self.n / (shares * self.rows))
        other = copy(self)
        other.ranges = list(pairwise(self._bounds(ceil(self.n / (shares * rounds)))))
        return other

    def take(self, positions: Array) -> Views:
        """Read the rows at increasing positions."""
        taken = [_taken(source, positions) for source in self.sources]
        return assemble(self.names, taken, self.present_in(positions), self.features)

    def sample(self, count: int, rng: np.random.RandomState) -> Views:
        """Read random rows in increasing order; they do not depend on the blocks."""
        if count >= self.n:
            return self.read(0, self.n)
        return self.take(np.sort(rng.choice(self.n, size=count, replace=False)))

    def _bounds(self, rows: int) -> list[int]:
        lazy = [source for source in self.sources if is_lazy(source)]
        if not lazy:
            return [*range(0, self.n, rows), self.n]
        widest = max(lazy, key=lambda source: source.shape[1])
        return _follow([0, *accumulate(widest.chunks[0])], rows)


@dataclass(frozen=True)
class StoredRows:
    """Rows that are read from a file by the process that needs them."""

    source: Any
    rows: slice

    def read(self) -> Any:
        """Read the rows."""
        return self.source[self.rows]


def assemble(
    names: Sequence[str],
    parts: Sequence[Any],
    present: Array | None,
    features: Mapping[str, Array] | None = None,
) -> Views:
    """Read or compute the parts of views and join them; `features` are names of features, if known."""
    views = Views(dict(zip(names, _in_memory(parts), strict=True)), present=present)
    return views if features is None else views.replaced(feature_names=dict(features))


def extent(data: Any) -> tuple[int, int]:
    """Numbers of samples and views of any data, without reading it; 0 if unknown."""
    if isinstance(data, Views):
        return len(data), data.n_views
    parts = [X for X in _parts(data) if X is not None]
    lengths = [_length(X) for X in parts] if is_multiview(data) or is_remote(data) else [_length(data)]
    return max(lengths, default=0), len(lengths)


def is_long(data: Any) -> bool:
    """Whether new samples are placed in blocks."""
    return extent(data)[0] > BLOCK_ROWS


def loaded(data: Any, names: Sequence[str] | None = None) -> Any:
    """The data, read into memory if it is remote; `names` are those of the views of a fitted model."""
    if not is_remote(data):
        return data
    blocks = Blocks(data, names)
    return blocks.read(0, blocks.n).replaced(ids=blocks.ids)


def _length(X: Any) -> int:
    if isinstance(X, (str, Path)) or is_lazy(X):
        X = _source(X)
    shape = getattr(X, "shape", None)
    return int(shape[0]) if shape else len(X) if hasattr(X, "__len__") else 0


def is_remote(data: Any) -> bool:
    """Whether a view is in a file or on a cluster."""
    return not isinstance(data, Views) and any(
        isinstance(X, (str, Path, np.memmap)) or is_lazy(X) or hasattr(X, "chunks") for X in _parts(data)
    )


def is_lazy(X: Any) -> bool:
    """Whether rows are computed by Dask."""
    return hasattr(X, "__dask_graph__")


class MemmapRows:
    """Rows of an array on disk, read on demand, so that the source can be sent to other processes."""

    def __init__(self, array: np.memmap) -> None:
        if not array.flags.c_contiguous:
            raise InputError("A memory-mapped view must be stored in C order; save a C-ordered copy.")
        self.path, self.offset = str(array.filename), _file_offset(array)
        self.shape, self.dtype = array.shape, array.dtype

    def __getitem__(self, rows: slice) -> Array:
        start, stop, _ = rows.indices(self.shape[0])
        width = self.shape[1] * self.dtype.itemsize
        count = max(stop - start, 0) * self.shape[1]
        values = np.fromfile(self.path, self.dtype, count, offset=self.offset + start * width)
        return values.reshape(-1, self.shape[1])


class ParquetRows:
    """Rows of a Parquet file with row groups of any size (pandas writes a million rows into one).

    A group can only be read from its start. So reading continues where the last block ended, and restarts
    at the group of the requested row only after a jump backwards or far ahead.
    """

    def __init__(self, path: str | Path) -> None:
        import pyarrow.parquet as pq

        self.path = str(path)
        self._file = pq.ParquetFile(self.path, pre_buffer=False, buffer_size=PARQUET_BUFFER)
        metadata = self._file.metadata
        stored = stored_index(self._file.schema_arrow)
        self.index = self._read_index(stored)
        self.shape = (metadata.num_rows, metadata.num_columns - len(stored))
        sizes = [metadata.row_group(g).num_rows for g in range(metadata.num_row_groups)]
        self._first = [0, *np.cumsum(sizes).tolist()]
        self._lock = Lock()
        self._next = self.shape[0]  # first row that was not returned yet; _batch holds rows read ahead
        self._batches: Iterator[Any] = iter(())
        self._batch: Any = ()

    def __reduce__(self) -> Any:
        return ParquetRows, (self.path,)

    def __getitem__(self, rows: slice) -> pd.DataFrame:
        from pyarrow import Table

        start, stop, _ = rows.indices(self.shape[0])
        with self._lock:
            self._go_to(start)
            batches = list(self._read_until(max(stop, start)))
        frame = Table.from_batches(batches, schema=self._file.schema_arrow).to_pandas()
        return frame.reset_index(drop=True)

    def _read_index(self, stored: list[str]) -> pd.Index:
        """The index that pandas stored with the table, or a default index."""
        if not stored:
            return stored_range(self._file.schema_arrow, self._file.metadata.num_rows)
        frame = self._file.read(columns=stored).to_pandas().reset_index()
        return pd.Index(frame.set_index(list(frame.columns)).index.set_names(index_names(stored)))

    def _go_to(self, start: int) -> None:
        group = bisect_right(self._first, start) - 1
        if not self._first[group] <= self._next <= start:
            self._next, self._batch = self._first[group], ()
            groups = list(range(group, len(self._first) - 1))
            self._batches = self._file.iter_batches(PARQUET_ROWS, row_groups=groups)
        for _ in self._read_until(start):
            pass

    def _read_until(self, stop: int) -> Iterator[Any]:
        while self._next < stop:
            batch = self._batch if len(self._batch) else next(self._batches)
            given = batch.slice(0, stop - self._next)
            self._batch = batch.slice(len(given))
            self._next += len(given)
            yield given


def _named_source(X: Any, name: str) -> Any:
    """The source of a view; errors name the view."""
    try:
        return _source(X)
    except (ValueError, TypeError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"View {name!r}: {error}") from error


def _source(X: Any) -> Any:
    """A source whose rows can be sliced, from any supported view."""
    if isinstance(X, (str, Path)):
        X = _opened(Path(X).absolute())  # workers may have another current folder
    if is_frame(X):
        return _frame_source(X)
    if is_lazy(X):
        return _lazy_source(X)
    if sp.issparse(X):
        return sp.csr_array(X)
    if not isinstance(X, np.memmap) or X.dtype.names is not None:
        X = as_table(X)
    if isinstance(X, pd.DataFrame):
        return FrameRows(X)
    if not hasattr(X, "shape"):
        X = np.asarray(X)
    if len(X.shape) != 2:
        raise InputError(f"A view must have two dimensions, got {len(X.shape)}.")
    return MemmapRows(X) if isinstance(X, np.memmap) else X


def _frame_source(X: Any) -> Any:
    """Rows of a frame, converted to pandas if it has an index."""
    unsized = not hasattr(X, "shape")
    if unsized or hasattr(X, "index") or hasattr(X, "dims") or _keeps_index(X):
        return FrameRows(as_pandas(X))
    return ForeignRows(narwhal(X).to_native())


def _keeps_index(table: Any) -> bool:
    """Whether an Arrow table stores the index of a pandas frame that is not a default index."""
    schema = getattr(table, "schema", None)
    return bool(stored_index(schema)) or not is_default(stored_range(schema, len(table)))


class FrameRows:
    """Rows of a pandas frame, by position."""

    def __init__(self, frame: pd.DataFrame) -> None:
        self.frame, self.shape, self.index = frame, frame.shape, frame.index

    def __getitem__(self, rows: Any) -> pd.DataFrame:
        return self.frame.iloc[rows].reset_index(drop=True)


class ForeignRows:
    """Rows of a frame of another library, without an index."""

    def __init__(self, frame: Any) -> None:
        self.frame, self.shape = frame, frame.shape

    def __getitem__(self, rows: Any) -> pd.DataFrame:
        return as_pandas(narwhal(self.frame)[rows])


def _matched(named: dict[str, Any]) -> tuple[pd.Index | None, dict[str, Any]]:
    """The common ids of sources, and the sources in this order; only frames in memory are reordered."""
    indices = {f"View {name!r}": getattr(source, "index", None) for name, source in named.items()}
    ids, orders = match_rows(indices)
    return ids, {name: _reordered(source, orders[f"View {name!r}"], name) for name, source in named.items()}


def _reordered(source: Any, order: Array | None, name: str) -> Any:
    if order is None:
        return source
    if not isinstance(source, FrameRows):
        raise InputError(
            f"View {name!r} has the ids of the first view in another order, but rows of files and of Dask "
            "cannot be reordered. Store all views in the same order."
        )
    return FrameRows(source.frame.iloc[order])


class LazyFrameRows:
    """Rows of a Dask data frame, by position; index and partition lengths are computed once."""

    def __init__(self, frame: Any) -> None:
        levelled = [
            str(name) for name, dtype in frame.dtypes.items() if isinstance(dtype, pd.CategoricalDtype)
        ]
        if levelled:
            raise InputError(
                f"{len(levelled)} columns of a Dask frame are categorical: {listed(levelled)}. compute() it "
                "first, or store it as Parquet and pass the file."
            )
        self.index, lengths = dask_index(frame)
        self.array, self.columns = frame.to_dask_array(lengths=lengths), list(frame.columns)
        self.shape, self.chunks, self.dtype = self.array.shape, self.array.chunks, self.array.dtype

    def __dask_graph__(self) -> Any:
        return self.array.__dask_graph__()

    def __getitem__(self, rows: Any) -> Any:
        from dask.delayed import delayed

        return delayed(pd.DataFrame)(self.array[rows], columns=self.columns)


def _lazy_source(X: Any) -> Any:
    if is_dask_frame(X):
        return LazyFrameRows(X)
    if np.isnan(X.shape[0]):
        X.compute_chunk_sizes()
    return X


def _file_offset(array: np.memmap) -> int:
    """Offset of the first value in the file; `offset` of a slice is that of the full array."""
    mapped: Any = array
    first = np.frombuffer(mapped._mmap, dtype=np.uint8).ctypes.data
    return int(array.offset - array.offset % ALLOCATIONGRANULARITY + array.ctypes.data - first)


def _opened(path: Path) -> Any:
    if not path.exists():
        raise InputError(f"The file {path.name!r} does not exist.")
    if kind := special(path):
        raise InputError(f"{path.name} is {kind}; only files and folders are read.")
    if path.suffix == ".npy":
        return np.load(path, mmap_mode="r")
    if path.suffix == ".parquet":
        return ParquetRows(path)
    if path.suffix == ".zarr":
        import zarr

        return zarr.open_array(path, mode="r")
    raise InputError(f"A view given as a file must end in {' or '.join(FILE_SUFFIXES)}, got {path.name!r}.")


def _parts(data: Any) -> list[Any]:
    if isinstance(data, Mapping):
        return list(data.values())
    return list(data) if isinstance(data, (list, tuple)) else [data]


def _common_length(named: Mapping[str, Any]) -> int:
    lengths = {name: int(source.shape[0]) for name, source in named.items()}
    if len(set(lengths.values())) != 1:
        raise InputError(f"Views must have the same number of samples, got {lengths}.")
    return next(iter(lengths.values()))


def _taken(source: Any, positions: Array) -> Any:
    """Rows at increasing positions: in one step if the source supports it, else in blocks."""
    if _at_hand(source):
        return source[positions]
    parts = []
    for start in range(0, source.shape[0], BLOCK_ROWS):
        low, high = np.searchsorted(positions, (start, start + BLOCK_ROWS))
        if high > low:
            block = source[start : min(start + BLOCK_ROWS, source.shape[0])]
            chosen = positions[low:high] - start
            parts.append(block.iloc[chosen] if isinstance(block, pd.DataFrame) else np.asarray(block)[chosen])
    return pd.concat(parts) if isinstance(parts[0], pd.DataFrame) else np.concatenate(parts)


def _at_hand(source: Any) -> bool:
    return (
        isinstance(source, (np.ndarray, FrameRows, ForeignRows, MixedBlock))
        or sp.issparse(source)
        or is_lazy(source)
    )


def _in_memory(parts: Sequence[Any]) -> list[Any]:
    read = [part.read() if isinstance(part, StoredRows) else part for part in parts]
    if not any(map(is_lazy, read)):
        return read
    from dask.base import compute

    return list(compute(*read, traverse=False))  # type: ignore[no-untyped-call]


def _follow(edges: Sequence[int], rows: int) -> list[int]:
    """Bounds of blocks of at most `rows` rows: small partitions are joined, large ones split evenly."""
    bounds = [0]
    for low, high in pairwise(edges):
        if high - bounds[-1] > rows and low > bounds[-1]:
            bounds.append(low)
        start, pieces = bounds[-1], ceil((high - bounds[-1]) / rows)
        bounds += [start + i * (high - start) // pieces for i in range(1, pieces)]
    return [*bounds, edges[-1]]
