"""Files of SPSS, Stata and SAS: numbers, texts and dates, with the labels of values and variables.

They are read in a process of their own (`readerprocess`), because damaged files may crash the library.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any

import numpy as np
import pandas as pd

from viewloom.runtime.errors import MissingPackageError
from viewloom.study.errors import StudyError, check_kind
from viewloom.study.readers.readerprocess import TEXT
from viewloom.study.readers.separate import started

READERS = {  # end of the name -> program, and function of pyreadstat
    ".sav": ("SPSS", "read_sav"),
    ".zsav": ("SPSS", "read_sav"),
    ".por": ("SPSS", "read_por"),
    ".dta": ("Stata", "read_dta"),
    ".sas7bdat": ("SAS", "read_sas7bdat"),
    ".xpt": ("SAS", "read_xport"),
}
SPSS, STATA, SAS = (".sav", ".zsav", ".por"), (".dta",), (".sas7bdat", ".xpt")
NO_ENCODING = (".por",)  # formats that have none
NO_MEMORY = "memory ran out while it was read; it is damaged, or too large for this computer."
Labels = Mapping[Any, str]


def load_statfile(path: Path, encoding: str | None = None, *, levels: bool = False) -> pd.DataFrame:
    """The table of a file of SPSS, Stata or SAS; the missing codes that the file declares are missing.

    Parameters
    ----------
    path : Path
    encoding : str or None
        By default that of the file.
    levels : bool, default=False
        Whether columns all of whose values have labels are given as categories of these labels, instead of
        codes; ordered ones where the file says that they are ordinal.

    Returns
    -------
    DataFrame
        ``attrs["labelled"]`` has the names of those columns, ``attrs["descriptions"]`` the labels of
        variables.
    """
    frame, labels = _read(path, encoding)
    names = [str(name) for name in frame.columns]
    frame.attrs["labelled"] = [
        name for name in names if name in labels and _complete(frame[name], labels[name])
    ]
    for name in frame.attrs["labelled"] if levels else ():
        frame[name] = _labelled(frame[name], labels[name], frame.attrs["measures"].get(name) == "ordinal")
    return frame


def _labelled(cells: pd.Series, labels: Labels, ordered: bool) -> Any:
    """The labels of cells as categories, in the order of their codes; equal labels are one level."""
    names = {value: str(labels[value]) for value in _sorted_codes(labels)}
    return pd.Categorical(
        cells.map(names), pd.Index(dict.fromkeys(names.values()), dtype=str), ordered=ordered
    )


def _sorted_codes(labels: Labels) -> list[Any]:
    """Codes in order; texts after numbers."""
    return sorted(labels, key=lambda code: (isinstance(code, str), code))


def header_of(path: Path, encoding: str | None = None) -> list[str]:
    """Names of the columns, without reading the data."""
    _check(path)
    about = path.stat()
    return list(_names(path, encoding, (about.st_ino, about.st_mtime_ns, about.st_size)))


@lru_cache(maxsize=64)
def _names(path: Path, encoding: str | None, version: tuple[int, ...]) -> tuple[str, ...]:
    with _answer(path, encoding, metadataonly=True, output_format="dict") as (head, _):
        return tuple(head["names"])


def _read(path: Path, encoding: str | None) -> tuple[pd.DataFrame, dict[str, Labels]]:
    """The table, and by column the labels of its values."""
    with _answer(path, encoding) as (head, stream):
        columns = {j: _column(stream, kind, head["rows"]) for j, kind in enumerate(head["kinds"])}
    frame = pd.DataFrame(columns).set_axis(head["names"], axis=1)
    frame.attrs = {"descriptions": head["descriptions"], "measures": head["measures"]}
    return frame, {name: {value: text for value, text in pairs} for name, pairs in head["labels"].items()}


def _column(stream: IO[bytes], kind: str, rows: int) -> pd.Series:
    """The next column of the answer."""
    if kind == TEXT:
        return pd.Series(json.loads(stream.readline()), dtype=str)
    values = np.empty(rows, dtype=kind)
    if rows and stream.readinto(values.view(np.uint8)) != values.nbytes:  # type: ignore[attr-defined]
        raise EOFError
    return pd.Series(values)


@contextmanager
def _answer(path: Path, encoding: str | None, **more: Any) -> Iterator[tuple[dict[str, Any], IO[bytes]]]:
    """The first line that `readerprocess` writes about a file, and the stream of what follows."""
    program, function = READERS[path.suffix.lower()]
    _check(path)
    if encoding and path.suffix.lower() not in NO_ENCODING:
        more["encoding"] = encoding
    with started("statistics", path, function, json.dumps(more)) as process:
        try:
            head = json.loads(process.stdout.readline())
            if "error" not in head:
                yield head, process.stdout
        except (ValueError, EOFError):  # the process ended before it had written all
            raise StudyError(_crashed(path, program, process.wait())) from None
    if "error" in head:
        raise StudyError(_refused(path, program, head["error"], head["message"]))


def _check(path: Path) -> None:
    """Refuse a file that cannot be read."""
    check_kind(path)
    if find_spec("pyreadstat") is None:
        raise MissingPackageError(
            f"{READERS[path.suffix.lower()][0]} files need pyreadstat: pip install viewloom[files]"
        )
    if not path.is_file():
        raise StudyError(f"{path.name}: no such file.")
    if not os.access(path, os.R_OK):
        raise StudyError(f"{path.name}: permission denied.")


def _crashed(path: Path, program: str, code: int) -> str:
    if code == -getattr(signal, "SIGKILL", 0):  # by the system
        return f"{path.name}: {NO_MEMORY}"
    return f"{path.name}: is damaged, so that its reader crashes; save it again with {program}."


def _refused(path: Path, program: str, error: str, message: str) -> str:
    """The error of the library in other words: its message may quote data."""
    if error == "MemoryError":
        return f"{path.name}: {NO_MEMORY}"
    if error == "OverflowError":
        return f"{path.name}: has dates after the year 9999; correct them."
    if error == "UnicodeDecodeError" or "encoding" in message.lower() or "convert" in message.lower():
        return f"{path.name}: its text cannot be decoded; set encoding, such as 'cp1252' or 'utf-8'."
    return f"{path.name}: is not a valid file of {program} ({error}); save it again."


def _complete(cells: pd.Series, labels: Labels) -> bool:
    """Whether each value has a label; otherwise labels are of missing codes or of the ends of a scale."""
    known = cells.dropna()
    return len(known) > 0 and bool(known.isin(list(labels)).all())
