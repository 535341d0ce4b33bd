"""Parquet and Feather files."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pandas as pd

from viewloom.runtime.errors import MissingPackageError
from viewloom.study.errors import StudyError, check_kind
from viewloom.study.readers.declared import feather_size, pages_size
from viewloom.study.readers.packed import MOST_TIMES

LARGE = 1 << 30  # bytes of memory from which they are compared with the size of the file
PARQUET, FEATHER = (".parquet", ".pq"), (".feather", ".arrow")


def load_arrow(path: Path) -> pd.DataFrame:
    """The table of a Parquet or Feather file; a named index becomes a column."""
    kind = _check(path)
    if kind == "Parquet":
        shape_of(path)
    try:
        _check_parts(path, kind)
        table = _table(path, kind)
        _check_size(path, sum(map(_text_size, table.columns)))
        frame = table.cast(_schema(path, kind)).to_pandas()
        named = [name for name in frame.index.names if name is not None]
        frame = frame.reset_index(level=named) if named else frame
    except StudyError:
        raise
    except Exception:  # of pyarrow, and of pandas for invalid metadata; the message may quote data
        raise StudyError(f"{path.name}: is not a valid {kind} file; write it again.") from None
    return frame.set_axis(frame.columns.astype(str), axis=1)


def load_blocks(path: Path, columns: Collection[str], rows: int) -> Iterator[pd.DataFrame]:
    """Some columns of a Parquet file as blocks of at most so many rows."""
    kind = _check(path)
    try:
        _check_parts(path, kind)
        with import_module("pyarrow.parquet").ParquetFile(path, pre_buffer=False) as file:
            for batch in file.iter_batches(rows, columns=list(columns), use_threads=False):
                batch.validate(full=True)
                yield batch.to_pandas(ignore_metadata=True, split_blocks=True)
    except (GeneratorExit, StudyError):
        raise
    except Exception:  # of pyarrow
        raise StudyError(f"{path.name}: is not a valid {kind} file; write it again.") from None


def shape_of(path: Path) -> tuple[int, int]:
    """Number of rows and columns of a Parquet file, without reading the data.

    Equal cells take no space, so that a small file may have more cells than there is memory: it is refused.
    """
    kind = _check(path)
    try:
        found = import_module("pyarrow.parquet").read_metadata(path)
        rows, columns = int(found.num_rows), int(found.num_columns)
    except Exception:  # of pyarrow
        raise StudyError(f"{path.name}: is not a valid {kind} file; write it again.") from None
    _check_size(path, 8 * rows * columns)
    return rows, columns


def _check_parts(path: Path, kind: str) -> None:
    """Refuse a file whose pages or blocks would take too much memory, by what they declare."""
    if kind == "Parquet":
        about = import_module("pyarrow.parquet").read_metadata(path)
        _check_size(path, pages_size(path, about))
    else:
        _check_size(path, feather_size(path))


def _check_size(path: Path, size: int) -> None:
    """Refuse a file whose content has so many bytes."""
    if size > max(LARGE, MOST_TIMES * path.stat().st_size):
        raise StudyError(
            f"{path.name}: would take more than {MOST_TIMES} times its size in memory and was not read; "
            "write it again with fewer rows or shorter texts."
        )


def _text_size(column: Any) -> int:
    """Bytes of texts that are stored once, if each cell had its own."""
    compute, types = import_module("pyarrow.compute"), import_module("pyarrow.types")
    if not types.is_dictionary(column.type) or not _is_text(column.type.value_type):
        return 0
    lengths = (compute.take(compute.binary_length(part.dictionary), part.indices) for part in column.chunks)
    return sum(compute.sum(found).as_py() or 0 for found in lengths)


def _is_text(kind: Any) -> bool:
    types = import_module("pyarrow.types")
    return bool(types.is_string(kind) or types.is_large_string(kind))


def header_of(path: Path) -> list[str]:
    """Names of the columns, without reading the data."""
    kind = _check(path)
    try:
        return [str(name) for name in _schema(path, kind).names]
    except Exception:  # of pyarrow
        raise StudyError(f"{path.name}: is not a valid {kind} file; write it again.") from None


def first_rows(path: Path, rows: int, columns: int) -> pd.DataFrame:
    """The first rows and columns of a Parquet file, without reading the others."""
    kind = _check(path)
    try:
        _check_parts(path, kind)
        with import_module("pyarrow.parquet").ParquetFile(path) as file:
            names = file.schema_arrow.names[:columns]
            batches = file.iter_batches(batch_size=rows, columns=names)
            first = next(batches, None)
            return pd.DataFrame(columns=names) if first is None else first.to_pandas()
    except StudyError:
        raise
    except Exception:  # of pyarrow
        raise StudyError(f"{path.name}: is not a valid Parquet file; write it again.") from None


def _table(path: Path, kind: str) -> Any:
    """The table; lengths and texts are validated, which would crash or fail when they are used."""
    if kind == "Parquet":
        texts = [field.name for field in _schema(path, kind) if _is_text(field.type)]
        table = import_module("pyarrow.parquet").read_table(path, read_dictionary=texts)
        table.validate(full=True)
        return table
    return _feather_table(path)


def _feather_table(path: Path) -> Any:
    """The table of a Feather file."""
    source = import_module("pyarrow").OSFile(str(path))
    with source, import_module("pyarrow.ipc").open_file(source) as file:
        table = file.read_all()
        table.validate(full=True)
        return table


def _schema(path: Path, kind: str) -> Any:
    if kind == "Parquet":
        return import_module("pyarrow.parquet").read_schema(path)
    with import_module("pyarrow").memory_map(str(path)) as source:
        return import_module("pyarrow.ipc").open_file(source).schema


def _check(path: Path) -> str:
    """The kind of the file, which must exist."""
    kind = "Parquet" if path.suffix.lower() in PARQUET else "Feather"
    check_kind(path)
    if not path.is_file():
        raise StudyError(f"{path.name}: no such file.")
    if find_spec("pyarrow") is None:
        raise MissingPackageError(f"{kind} files need pyarrow: pip install viewloom[study]")
    return kind
