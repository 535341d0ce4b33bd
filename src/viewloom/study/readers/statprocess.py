"""Script that reads a file of SPSS, Stata or SAS in a process of its own, which a damaged file may crash.

It is run with the path, the function of pyreadstat and its options, and imports nothing of viewloom. It
writes a line of JSON (`describe`, or an error), and then each column: numbers as their bytes, texts as a line
of JSON.
"""

from __future__ import annotations

import json
import os
import sys
from importlib import import_module
from typing import IO, Any

TEXT = "text"  # kind of a column that is no array of numbers


def main(path: str, function: str, options: str) -> None:
    """Read the file and write it to the standard output."""
    _no_core_dump()
    with _output() as out:
        answer(out, path, function, options)


def answer(out: IO[bytes], path: str, function: str, options: str) -> None:
    """Read the file and write its content, or the error of the library."""
    try:
        frame, about = getattr(import_module("pyreadstat"), function)(path, **json.loads(options))
        head = describe(frame, about)
    except Exception as error:
        out.write(_line({"error": type(error).__name__, "message": str(error)}))
        return
    out.write(_line(head))
    for j, kind in enumerate(head["kinds"]):
        _send(out, frame.iloc[:, j], kind)


def describe(frame: Any, about: Any) -> dict[str, Any]:
    """Names and kinds of the columns, number of rows, and labels of values and variables."""
    if isinstance(frame, dict):  # names only
        return {"names": [str(name) for name in frame], "kinds": []}
    return {
        "names": [str(name) for name in frame.columns],
        "kinds": [_kind(frame.iloc[:, j].dtype) for j in range(frame.shape[1])],
        "rows": len(frame),
        "labels": {name: list(found.items()) for name, found in about.variable_value_labels.items()},
        "measures": {name: str(measure) for name, measure in about.variable_measure.items()},
        "descriptions": {name: str(text) for name, text in about.column_names_to_labels.items() if text},
    }


def as_texts(column: Any) -> list[str | None]:
    """Cells as text, dates as 2021-03-14, and None where missing."""
    cells = zip(column.tolist(), column.isna().tolist(), strict=True)
    return [None if missing else str(cell) for cell, missing in cells]


def _kind(dtype: Any) -> str:
    return str(dtype.str) if getattr(dtype, "kind", "O") in "biufmM" and hasattr(dtype, "str") else TEXT


def _send(out: IO[bytes], column: Any, kind: str) -> None:
    out.write(_line(as_texts(column)) if kind == TEXT else column.to_numpy().tobytes())


def _line(content: Any) -> bytes:
    return json.dumps(content).encode() + b"\n"


def _output() -> IO[bytes]:
    """The standard output, on which the library can print nothing any more."""
    out = os.fdopen(os.dup(1), "wb")
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.close(nowhere)
    return out


def _no_core_dump() -> None:
    """A crash must not leave the data of subjects in a file."""
    try:
        import resource
    except ImportError:  # Windows has none
        return
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


if __name__ == "__main__":
    main(*sys.argv[1:])
