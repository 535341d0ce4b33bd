"""Views that are read a block of rows at a time: more samples than memory, files, or a cluster's arrays.

A view may be anything with a `shape` whose rows can be sliced: an array, a sparse matrix, a
`numpy.memmap`, a Zarr or Dask array, a data frame, or a path to a `.npy`, `.parquet` or `.zarr`
file. Blocks are ordinary `Views`, checked as such, so that nothing else need know where rows come
from.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
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

from viewloom.files import special
from viewloom.views import Views, is_multiview

Array = np.ndarray
BLOCK_ROWS = 16_384
PARQUET_ROWS, PARQUET_BUFFER = 4096, 2**16  # rows decoded at a time; bytes of each column read at a time
FILE_SUFFIXES = (".npy", ".parquet", ".zarr")


class Blocks:
    """Named views of the same samples, readable by blocks of consecutive rows.

    Parameters
    ----------
    data : dict, list or Views
        One source per view; a list calls them ``view0``, ``view1``, ...
    rows : int, default=16384
        Rows of a block.
    bounds : list of int, optional
        First row of every block and one past the last, instead of equal blocks, or of blocks that
        follow the partitions of a Dask array.

    Examples
    --------
    >>> import numpy as np
    >>> blocks = Blocks({"mri": np.ones((5, 2)), "pet": np.ones((5, 3))}, rows=2)
    >>> [len(block) for block in blocks]
    [2, 2, 1]
    """

    def __init__(self, data: Any, *, rows: int = BLOCK_ROWS, bounds: Sequence[int] | None = None) -> None:
        named = _named_sources(data)
        self.names = list(named)
        self.sources = list(named.values())
        self.n = _common_length(named)
        self.present = data.present if isinstance(data, Views) else None
        self.rows = rows
        self.ranges = list(pairwise(bounds or self._bounds(rows)))

    def __iter__(self) -> Iterator[Views]:
        return (self.read(*rows) for rows in self.ranges)

    def read(self, start: int, stop: int) -> Views:
        """Rows from start to stop as views."""
        return assemble(self.names, self.parts(start, stop), self.present_in(slice(start, stop)))

    def parts(self, start: int, stop: int) -> list[Any]:
        """Rows of every view as they can be sent elsewhere, to be put together there by `assemble`."""
        rows = slice(start, stop)
        return [source[rows] if _at_hand(source) else Stored(source, rows) for source in self.sources]

    def present_in(self, rows: Any) -> Array | None:
        """Which of the rows have which view, where the data cannot say it."""
        return None if self.present is None else self.present[rows]

    def divide(self, shares: int) -> None:
        """Cut blocks anew, none larger than before, so that as many can be given to each of `shares`."""
        rounds = ceil(self.n / (shares * self.rows))
        self.ranges = list(pairwise(self._bounds(ceil(self.n / (shares * rounds)))))

    def take(self, positions: Array) -> Views:
        """Rows at rising positions."""
        taken = [_taken(source, positions) for source in self.sources]
        return assemble(self.names, taken, self.present_in(positions))

    def sample(self, count: int, rng: np.random.RandomState) -> Views:
        """Random rows, in rising order; the same whatever the blocks."""
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
class Stored:
    """Rows that are read from a file where they are needed."""

    source: Any
    rows: slice

    def read(self) -> Any:
        """The rows."""
        return self.source[self.rows]


def assemble(names: Sequence[str], parts: Sequence[Any], present: Array | None) -> Views:
    """Parts of views, read or computed, as views."""
    return Views(dict(zip(names, _in_memory(parts), strict=True)), present=present)


def extent(data: Any) -> tuple[int, int]:
    """Numbers of samples and views of data of any kind, without reading it; zeros where it cannot be told."""
    if isinstance(data, Views):
        return len(data), data.n_views
    parts = [X for X in _parts(data) if X is not None]
    lengths = [_length(X) for X in parts] if is_multiview(data) or is_remote(data) else [_length(data)]
    return max(lengths, default=0), len(lengths)


def is_long(data: Any) -> bool:
    """Whether new samples are better placed block by block."""
    complete = isinstance(data, Views) or not any(X is None for X in _parts(data))
    return complete and extent(data)[0] > BLOCK_ROWS


def whole(data: Any) -> Any:
    """The data, read if it lies elsewhere."""
    if not is_remote(data):
        return data
    blocks = Blocks(data)
    return blocks.read(0, blocks.n)


def _length(X: Any) -> int:
    if isinstance(X, (str, Path)) or is_lazy(X):
        X = _source(X)
    shape = getattr(X, "shape", None)
    return int(shape[0]) if shape else len(X) if hasattr(X, "__len__") else 0


def is_remote(data: Any) -> bool:
    """Whether a view lies in a file or on a cluster."""
    return not isinstance(data, Views) and any(
        isinstance(X, (str, Path, np.memmap)) or is_lazy(X) or hasattr(X, "chunks") for X in _parts(data)
    )


def is_lazy(X: Any) -> bool:
    """Whether rows are computed by Dask."""
    return hasattr(X, "__dask_graph__")


class MemmapRows:
    """Rows of an array on disk, read when asked for, so that it can be sent to other processes."""

    def __init__(self, array: np.memmap) -> None:
        if not array.flags.c_contiguous:
            raise ValueError("A memory-mapped view must be stored row by row (C order).")
        self.path, self.offset = str(array.filename), _file_offset(array)
        self.shape, self.dtype = array.shape, array.dtype

    def __getitem__(self, rows: slice) -> Array:
        start, stop, _ = rows.indices(self.shape[0])
        width = self.shape[1] * self.dtype.itemsize
        count = max(stop - start, 0) * self.shape[1]
        values = np.fromfile(self.path, self.dtype, count, offset=self.offset + start * width)
        return values.reshape(-1, self.shape[1])


class ParquetRows:
    """Rows of a Parquet file, however large its row groups are (pandas writes a million rows into one).

    A group can only be read from its start. So reading goes on where the last block ended, and begins
    anew, at the group of the row asked for, only where somebody goes back or far ahead.
    """

    def __init__(self, path: str | Path) -> None:
        import pyarrow.parquet as pq

        self.path = str(path)
        self._file = pq.ParquetFile(self.path, pre_buffer=False, buffer_size=PARQUET_BUFFER)
        metadata = self._file.metadata
        self.shape = (metadata.num_rows, metadata.num_columns)
        sizes = [metadata.row_group(g).num_rows for g in range(metadata.num_row_groups)]
        self._first = [0, *np.cumsum(sizes).tolist()]
        self._lock = Lock()
        self._next = self.shape[0]  # the first row that is not read yet, and those read but not given out
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
        return Table.from_batches(batches, schema=self._file.schema_arrow).to_pandas()

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


def _source(X: Any) -> Any:
    """A view whose rows can be sliced, from what a user may give."""
    if isinstance(X, (str, Path)):
        X = _opened(Path(X).absolute())  # workers have their own current folder
    if isinstance(X, np.memmap):
        return MemmapRows(X)
    if isinstance(X, pd.DataFrame):
        return FrameRows(X)
    if is_lazy(X):
        return _lazy_source(X)
    if sp.issparse(X):
        return sp.csr_array(X)
    if not hasattr(X, "shape"):
        X = np.asarray(X)
    if len(X.shape) != 2:
        raise ValueError(f"A view must have two dimensions, got {len(X.shape)}.")
    return X


class FrameRows:
    """Rows of a data frame, by position."""

    def __init__(self, frame: pd.DataFrame) -> None:
        self.frame, self.shape = frame, frame.shape

    def __getitem__(self, rows: Any) -> pd.DataFrame:
        return self.frame.iloc[rows]


class LazyFrameRows:
    """Rows of a Dask data frame, by position; lengths of its partitions are computed once."""

    def __init__(self, frame: Any) -> None:
        self.array, self.columns = frame.to_dask_array(lengths=True), list(frame.columns)
        self.shape, self.chunks, self.dtype = self.array.shape, self.array.chunks, self.array.dtype

    def __dask_graph__(self) -> Any:
        return self.array.__dask_graph__()

    def __getitem__(self, rows: Any) -> Any:
        from dask.delayed import delayed

        return delayed(pd.DataFrame)(self.array[rows], columns=self.columns)


def _lazy_source(X: Any) -> Any:
    if hasattr(X, "to_dask_array"):
        return LazyFrameRows(X)
    if np.isnan(X.shape[0]):
        X.compute_chunk_sizes()
    return X


def _file_offset(array: np.memmap) -> int:
    """Where in the file the first value lies; a slice still has the offset of the whole."""
    mapped: Any = array
    first = np.frombuffer(mapped._mmap, dtype=np.uint8).ctypes.data
    return int(array.offset - array.offset % ALLOCATIONGRANULARITY + array.ctypes.data - first)


def _opened(path: Path) -> Any:
    if not path.exists():
        raise ValueError(f"There is no file {path.name!r}.")
    if kind := special(path):
        raise ValueError(f"{path.name} is {kind}; only files and folders are read.")
    if path.suffix == ".npy":
        return np.load(path, mmap_mode="r")
    if path.suffix == ".parquet":
        return ParquetRows(path)
    if path.suffix == ".zarr":
        import zarr

        return zarr.open_array(path, mode="r")
    raise ValueError(f"A view given as a file must end in {' or '.join(FILE_SUFFIXES)}, got {path.name!r}.")


def _parts(data: Any) -> list[Any]:
    if isinstance(data, Mapping):
        return list(data.values())
    return list(data) if isinstance(data, (list, tuple)) else [data]


def _named_sources(data: Any) -> dict[str, Any]:
    if isinstance(data, Views):
        return {name: _source(X) for name, X in data.items()}
    if isinstance(data, Mapping):
        return {str(name): _source(X) for name, X in data.items()}
    several = is_multiview(data) or (isinstance(data, (list, tuple)) and is_remote(data))
    parts = data if several else [data]
    return {f"view{a}": _source(X) for a, X in enumerate(parts)}


def _common_length(named: Mapping[str, Any]) -> int:
    lengths = {name: int(source.shape[0]) for name, source in named.items()}
    if len(set(lengths.values())) != 1:
        raise ValueError(f"Views must have the same number of samples, got {lengths}.")
    return next(iter(lengths.values()))


def _taken(source: Any, positions: Array) -> Any:
    """Rows at rising positions: at once where the source can, else block by block."""
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
    return isinstance(source, (np.ndarray, FrameRows)) or sp.issparse(source) or is_lazy(source)


def _in_memory(parts: Sequence[Any]) -> list[Any]:
    read = [part.read() if isinstance(part, Stored) else part for part in parts]
    if not any(map(is_lazy, read)):
        return read
    from dask.base import compute

    return list(compute(*read, traverse=False))  # type: ignore[no-untyped-call]


def _follow(edges: Sequence[int], rows: int) -> list[int]:
    """Bounds of blocks of at most so many rows: small partitions are joined, large ones cut evenly."""
    bounds = [0]
    for low, high in pairwise(edges):
        if high - bounds[-1] > rows and low > bounds[-1]:
            bounds.append(low)
        start, pieces = bounds[-1], ceil((high - bounds[-1]) / rows)
        bounds += [start + i * (high - start) // pieces for i in range(1, pieces)]
    return [*bounds, edges[-1]]
