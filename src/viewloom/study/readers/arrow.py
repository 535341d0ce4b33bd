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

PARQUET, FEATHER = (".parquet", ".pq"), (".feather", ".arrow")


def load_arrow(path: Path) -> pd.DataFrame:
    """The table of a Parquet or Feather file; a named index becomes a column."""
    kind = _check(path)
    try:
        table = _table(path, kind)
        table.validate(full=True)  # lengths and text, which would crash or fail when they are used
        frame = table.to_pandas()
        named = [name for name in frame.index.names if name is not None]
        frame = frame.reset_index(level=named) if named else frame
    except Exception:  # of pyarrow, and of pandas for invalid metadata; the message may quote data
        raise StudyError(f"{path.name}: is not a valid {kind} file; write it again.") from None
    return frame.set_axis(frame.columns.astype(str), axis=1)


def load_blocks(path: Path, columns: Collection[str], rows: int) -> Iterator[pd.DataFrame]:
    """Some columns of a Parquet file as blocks of at most so many rows."""
    kind = _check(path)
    try:
        with import_module("pyarrow.parquet").ParquetFile(path, pre_buffer=False) as file:
            for batch in file.iter_batches(rows, columns=list(columns), use_threads=False):
                batch.validate(full=True)
                yield batch.to_pandas(ignore_metadata=True, split_blocks=True)
    except GeneratorExit:
        raise
    except Exception:  # of pyarrow
        raise StudyError(f"{path.name}: is not a valid {kind} file; write it again.") from None


def shape_of(path: Path) -> tuple[int, int]:
    """Number of rows and columns of a Parquet file, without reading the data."""
    kind = _check(path)
    try:
        found = import_module("pyarrow.parquet").read_metadata(path)
        return int(found.num_rows), int(found.num_columns)
    except Exception:  # of pyarrow
        raise StudyError(f"{path.name}: is not a valid {kind} file; write it again.") from None


def header_of(path: Path) -> list[str]:
    """Names of the columns, without reading the data."""
    kind = _check(path)
    try:
        return [str(name) for name in _schema(path, kind).names]
    except Exception:  # of pyarrow
        raise StudyError(f"{path.name}: is not a valid {kind} file; write it again.") from None


def first_rows(path: Path, rows: int, columns: int) -> pd.DataFrame:
    """The first rows and columns of a Parquet file, without reading the others."""
    _check(path)
    try:
        with import_module("pyarrow.parquet").ParquetFile(path) as file:
            names = file.schema_arrow.names[:columns]
            batches = file.iter_batches(batch_size=rows, columns=names)
            first = next(batches, None)
            return pd.DataFrame(columns=names) if first is None else first.to_pandas()
    except Exception:  # of pyarrow
        raise StudyError(f"{path.name}: is not a valid Parquet file; write it again.") from None


def _table(path: Path, kind: str) -> Any:
    if kind == "Parquet":
        return import_module("pyarrow.parquet").read_table(path)
    return import_module("pyarrow.feather").read_table(path, memory_map=False)


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
