"""Files of R: data frames, tibbles and matrices of ``.rds`` and ``.RData``, also in lists. No code is run."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Iterator, Mapping
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from viewloom.data.naming import listed
from viewloom.runtime.errors import MissingPackageError
from viewloom.runtime.visible import visible
from viewloom.study.errors import StudyError, check_kind
from viewloom.study.notes import Note, count_note
from viewloom.study.readers.packed import OPENERS, Bounded
from viewloom.study.readers.text import ROW_NAMES
from viewloom.study.wording import nearest

SUFFIXES = (".rds", ".rdata", ".rda")
MAGIC = {b"\x1f\x8b": ".gz", b"BZh": ".bz2", b"\xfd7zXZ": ".xz"}
HEAD, SAVED = b"RDX3\n", re.compile(rb"RD[XAB][23]\n")  # of files of save, not of saveRDS
PARSERS = {  # mark of the encoding -> module and class of the library
    b"X\n": ("_xdr", "ParserXDR"),
    b"A\n": ("_ascii", "ParserASCII"),
    b"A\r\n": ("_ascii", "ParserASCII"),
    b"B\n": ("_binary", "ParserBinary"),
}
TEXT, ATTRIBUTES = 9, 1 << 9  # type of texts, and a flag
MOST_CELLS = 5 * 10**7  # of all sequences
CELLS_PER_TEXT = 25  # what the text of a number costs
MOST_OBJECTS = 1 << 21  # of about 150 bytes; equal texts are one
WIDEST = 1 << 24  # characters
TOO_MANY = "has too many texts or other objects to be read; save a data frame of fewer columns, or as CSV."
NOT_VALID = "is damaged, or has objects that are not read; save the data frame alone, with saveRDS"


def objects_in(path: Path) -> list[str]:
    """Names of the tables in a file with several objects; empty for the single object of an ``.rds``."""
    found = _objects(path)
    return [name for name in found if name]


def load_rfile(path: Path, object: str | None, notes: list[Note]) -> pd.DataFrame:
    """A data frame or matrix of a file of R; row names that are text become the first column.

    Parameters
    ----------
    path : Path
    object : str or None
        Name of the object in an ``.RData``, or of a part of a list, such as ``study$gene``; by default the
        only table.
    notes : list of Note
    """
    found = _objects(path)
    name = _chosen(path, list(found), object)
    frame = found[name]
    lists = [str(column) for column in frame.columns if _is_nested(frame[column])]
    notes += count_note(
        len(lists), "column of lists", "columns of lists", f"left out: {listed(lists)}", public=True
    )
    return frame.drop(columns=lists)


def _chosen(path: Path, names: list[str], object: str | None) -> str:
    if object is not None and object not in names:
        known = [name for name in names if name]
        hint = nearest(object, known) or (f"; there are {listed(known)}." if known else "; leave object out.")
        raise StudyError(f"{path.name}: no data frame or matrix {object!r}{hint}")
    if object is not None:
        return object
    if len(names) > 1:
        raise StudyError(f"{path.name}: has {len(names)} tables: {listed(names)}; set object to one of them.")
    return names[0]


def _is_nested(cells: pd.Series) -> bool:
    return cells.dtype == object and any(isinstance(cell, (list, dict, np.ndarray)) for cell in cells)


def _objects(path: Path) -> dict[str, pd.DataFrame]:
    """Tables of a file by name; that of an ``.rds`` has an empty name."""
    check_kind(path)
    content = _content(path)
    if find_spec("rdata") is None:
        raise MissingPackageError("Files of R need rdata: pip install viewloom[files]")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            parsed = _parsed(content)
            found = _converted(parsed)
            several = isinstance(found, dict) and parsed.object.info.type.name == "LIST"
            found = found if several else {"": found}
            kept = _tables(found) or _tables(_members(found))
    except StudyError as error:
        raise StudyError(f"{path.name}: {error}") from None
    except (Exception, RecursionError, MemoryError):  # of the library, for what is damaged
        raise StudyError(f"{path.name}: {NOT_VALID}.") from None
    if not kept:
        kind = ", ".join(sorted({type(value).__name__ for value in found.values()})) or "nothing"
        raise StudyError(f"{path.name}: has no data frame or matrix ({kind}); save a data frame.")
    return kept


def _tables(objects: Mapping[str, Any]) -> dict[str, pd.DataFrame]:
    frames = {visible(str(name)): _frame(value) for name, value in objects.items()}
    return {name: frame for name, frame in frames.items() if frame is not None}


def _members(objects: Mapping[str, Any]) -> dict[str, Any]:
    """What is in lists and in lists of lists, by the names of R.

    >>> _members({"study": {"gene": 1, "lipid": {"a": 2}}, "": [3]})
    {'study$gene': 1, 'study$lipid$a': 2, '[[1]]': 3}
    """
    found: dict[str, Any] = {}
    for name, value in objects.items():
        parts = _parts(name, value)
        lists = {key: part for key, part in parts.items() if isinstance(part, (dict, list))}
        found |= {key: part for key, part in parts.items() if key not in lists} | _members(lists)
    return found


def _parts(name: str, value: Any) -> dict[str, Any]:
    if isinstance(value, dict):
        return {f"{name}${key}" if name else str(key): part for key, part in value.items()}
    return {
        f"{name}[[{n}]]": part for n, part in enumerate(value if isinstance(value, list) else (), start=1)
    }


def _parsed(content: bytes) -> Any:
    """Objects as the library represents them, parsed within bounds."""
    body = content[len(HEAD) :] if SAVED.match(content) else content
    mark = next(mark for mark in PARSERS if body.startswith(mark))
    module, name = PARSERS[mark]
    library = import_module("rdata.parser")
    parser = _bounded_parser(getattr(import_module(f"rdata.parser.{module}"), name))(
        memoryview(body)[len(mark) :],
        expand_altrep=True,
        altrep_constructor_dict=_bounded(library.DEFAULT_ALTREP_MAP),
    )
    found = parser.parse_all()
    parser.check_complete()
    return found


def _bounded_parser(parser: Any) -> Any:
    """A parser of the library that refuses counts which the file cannot have, and shares equal texts."""
    kinds = import_module("rdata.parser").RObjectType

    class Parser(parser):  # type: ignore[misc]
        def __init__(self, data: memoryview, **options: Any) -> None:
            super().__init__(data, **options)
            self.size, self.left, self.texts = len(data), MOST_OBJECTS, dict[tuple[bytes, bytes], Any]()

        def parse_R_object(self, *given: Any, **more: Any) -> Any:
            self.left -= 1
            if self.left < 0:
                raise StudyError(TOO_MANY)
            found = super().parse_R_object(*given, **more)
            if found.info.type is kinds.STR and _are_wide(found.value):
                found.info.type = kinds.VEC  # a list: each text of an array has the length of the longest
            return found

        def _parse_array_values(self, dtype: Any, length: int) -> Any:
            if length > self.size:
                raise ValueError
            return super()._parse_array_values(dtype, length)

        def _parse_bytecode(self, references: Any, repeated: Any = None) -> Any:
            at = self.file.tell()
            if repeated is None and self.parse_int() > self.size:  # entries of a list
                raise ValueError
            self.file.seek(at)
            return super()._parse_bytecode(references, repeated)

        def _parse_vector_value(self, references: Any, repeated: Any = None) -> list[Any]:
            binary = isinstance(self.file, io.BytesIO)
            return [
                (binary and self._text(references, repeated)) or self.parse_R_object(references, repeated)
                for _ in range(self.parse_int())
            ]

        def _text(self, references: Any, repeated: Any) -> Any:
            """The next object if it is a text, the same one for equal texts."""
            at = self.file.tell()
            head = self.file.read(8)  # type and flags, length
            order: Any = "little" if getattr(self, "byteorder", ">") == "<" else "big"
            flags, length = (int.from_bytes(part, order, signed=True) for part in (head[:4], head[4:]))
            if flags & 0xFF == TEXT and not flags & ATTRIBUTES and length >= 0:
                key = (head, self.file.read(length))
                if key in self.texts:
                    return self.texts[key]
                self.file.seek(at)
                return self.texts.setdefault(key, self.parse_R_object(references, repeated))
            self.file.seek(at)
            return None

    return Parser


def _bounded(constructors: Mapping[bytes, Any]) -> dict[bytes, Any]:
    """What expands compact sequences, such as 1:n, and their texts: not as long as their numbers say."""
    left = float(MOST_CELLS)

    def of(expand: Any, count: Any, cost: int) -> Any:
        def expanded(state: Any) -> Any:
            nonlocal left
            left -= cost * abs(float(count(state)))
            if not left >= 0:
                raise StudyError(TOO_MANY)
            return expand(state)

        return expanded

    found = dict(constructors)
    for name in found:
        if name.startswith(b"compact"):
            found[name] = of(found[name], lambda state: np.ravel(state.value)[0], 1)
        elif name == b"deferred_string":
            found[name] = of(found[name], lambda state: np.size(state.value[0].value), CELLS_PER_TEXT)
    return found


def _converted(parsed: Any) -> Any:
    """Objects of Python; texts of unknown encoding are UTF-8, else of Windows."""
    conversion = import_module("rdata.conversion")
    classes = {**conversion.DEFAULT_CLASS_MAP, **CLASSES}
    del classes["ts"]  # expands the times that a file tells
    try:
        return conversion.convert(parsed, classes, default_encoding="utf-8")
    except UnicodeError:
        return conversion.convert(parsed, classes, default_encoding="cp1252")


def _are_wide(texts: list[Any]) -> bool:
    """Whether an array of texts would have very many characters."""
    return len(texts) * max((len(text.value or b"") for text in texts), default=0) > WIDEST


def _content(path: Path) -> bytes:
    """The unpacked bytes; see `packed.Bounded`."""
    try:
        with path.open("rb") as file:
            head = file.read(6)
        suffix = next((end for mark, end in MAGIC.items() if head.startswith(mark)), None)
        if suffix is None:
            return path.read_bytes()
        with Bounded(OPENERS[suffix](path), path, path.stat().st_size) as stream:
            return stream.readall() or b""
    except FileNotFoundError:
        raise StudyError(f"{path.name}: no such file.") from None
    except PermissionError:
        raise StudyError(f"{path.name}: permission denied.") from None


def _frame(value: Any) -> pd.DataFrame | None:
    """A table, or None for any other object."""
    if isinstance(value, pd.DataFrame):
        named = not pd.api.types.is_numeric_dtype(value.index)
        frame = value.reset_index(names=ROW_NAMES) if named else value.reset_index(drop=True)
        return frame.set_axis(frame.columns.astype(str), axis=1)
    if getattr(value, "ndim", 0) != 2:
        return None
    names = [_axis(value, axis) for axis in (0, 1)]
    cells = np.asarray(value)
    frame = pd.DataFrame(cells, columns=names[1] or [f"V{j}" for j in range(1, cells.shape[1] + 1)])
    if names[0]:
        frame.insert(0, ROW_NAMES, pd.Series(names[0], dtype=str))
    return frame


def _axis(matrix: Any, axis: int) -> list[str]:
    """Names of the rows or columns of a matrix; empty where there are none."""
    known = getattr(matrix, "coords", {})
    name = matrix.dims[axis] if known else None
    return [str(one) for one in known[name].to_numpy()] if name in known else []


def _data_frame(value: Any, attrs: Mapping[str, Any]) -> pd.DataFrame:
    """A data frame whose columns have different names."""
    names = [str(name) for name in attrs["names"]]
    if len(set(names)) < len(names):  # the library keeps the last of equal names
        repeated = sorted({name for name in names if names.count(name) > 1})
        raise StudyError(f"a data frame has columns of the same name: {listed(repeated)}; rename them.")
    columns = value.values() if isinstance(value, dict) else value
    cells = [part for name, one in zip(names, columns, strict=True) for part in _columns(name, one)]
    names = [name for name, _ in cells]
    if len(set(names)) < len(names):
        raise StudyError("the columns of a matrix in a data frame have the names of others; rename them.")
    frame = pd.DataFrame({name: _column(one) for name, one in cells})
    rows = attrs.get("row.names")
    if isinstance(rows, (list, np.ndarray)) and len(rows) == len(frame) and _are_texts(rows):
        frame.index = pd.Index([str(row) for row in rows])
    return frame


def _columns(name: str, cells: Any) -> Iterator[tuple[str, Any]]:
    """A column, or the columns of one that is a matrix or a data frame, named as R does."""
    if getattr(cells, "ndim", 1) != 2:
        yield name, cells
    elif isinstance(cells, pd.DataFrame):
        yield from ((f"{name}.{key}", part) for key, part in cells.items())
    else:
        names = _axis(cells, 1) or [str(j) for j in range(1, cells.shape[1] + 1)]
        yield from ((f"{name}.{key}", part) for key, part in zip(names, np.asarray(cells).T, strict=True))


def _are_texts(rows: Any) -> bool:
    return all(isinstance(row, str) for row in rows)


def _column(cells: Any) -> Any:
    """Cells of a column for pandas: integers with missing cells as numbers, texts as text."""
    if hasattr(cells, "dims"):  # an array with names
        cells = np.asarray(cells)
    if isinstance(cells, np.ma.MaskedArray):
        return np.ma.filled(cells.astype(np.float64), np.nan)
    if isinstance(cells, np.ndarray) and cells.dtype.kind in "OU":
        return pd.Series(cells.tolist(), dtype=str if _are_plain(cells) else object)
    return (
        cells
        if isinstance(cells, (np.ndarray, pd.Categorical, pd.Series))
        else pd.Series(list(cells), dtype=object)
    )


def _are_plain(cells: np.ndarray) -> bool:
    return all(cell is None or isinstance(cell, str) for cell in cells)


def _factor(value: Any, attrs: Mapping[str, Any]) -> Any:
    """A factor: codes from 1, of which the library takes 0 for the last level."""
    levels = [str(level) for level in attrs["levels"]]
    codes = np.ma.filled(np.ma.asarray(value), 0).astype(np.int64)
    known: Any = np.where((codes > 0) & (codes <= len(levels)), codes - 1, -1)
    return pd.Categorical.from_codes(known, pd.Index(levels, dtype=str))


def _days(value: Any, attrs: Mapping[str, Any]) -> np.ndarray:
    """A column of class Date: days since 1970."""
    return _times(np.asarray(value, dtype=np.float64) * 86400)


def _seconds(value: Any, attrs: Mapping[str, Any]) -> np.ndarray:
    """A column of class POSIXct: seconds since 1970."""
    return _times(np.asarray(value, dtype=np.float64))


def _times(seconds: np.ndarray) -> np.ndarray:
    known = np.isfinite(seconds)
    whole = np.where(known, seconds, 0).round().astype("int64").astype("datetime64[s]")
    return np.where(known, whole, np.datetime64("NaT"))


def _integer64(value: Any, attrs: Mapping[str, Any]) -> np.ndarray:
    """A column of class integer64, whose bits are stored in doubles."""
    bits = np.ascontiguousarray(value, dtype=np.float64).view(np.int64)
    return np.where(bits == np.iinfo(np.int64).min, np.nan, bits.astype(np.float64))


def _labelled(value: Any, attrs: Mapping[str, Any]) -> Any:
    """A column of package haven: its codes."""
    return value


CLASSES = {
    "data.frame": _data_frame,
    "factor": _factor,
    "ordered": _factor,
    "Date": _days,
    "POSIXct": _seconds,
    "integer64": _integer64,
    "haven_labelled": _labelled,
}
