"""Script that reads a file in a process of its own: a damaged file may crash the library, or take all memory.

It imports nothing of viewloom. It is run with a key of `KINDS`, the path, and the arguments of that kind, and
may use `BASE` bytes and `MOST_TIMES` times the size of the file.

Files of SPSS, Stata and SAS are read by a function of pyreadstat with some options. The answer is a line of
JSON (`describe`, or an error), and then each column: numbers as their bytes, texts as a line of JSON.

Workbooks are asked for sheets by lines of JSON on the standard input: the arguments of `Book.answers`. Each
answer has its length in front, and then is in the format of `marshal`.
"""

from __future__ import annotations

import datetime
import io
import json
import marshal
import os
import re
import sys
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from itertools import islice
from typing import IO, Any

TEXT = "text"  # kind of a column that is no array of numbers
BASE, MOST_TIMES = 1 << 30, 500  # bytes
OLD_STATA = range(102, 106)  # versions of the format up to Stata 5; later ones may begin with "<"
OLD_MISSING = 2.0**333
FIRST_DAY = datetime.date(1960, 1, 1)
BLOCK = 2000  # rows that are sent at a time
PROPERTIES = re.compile(rb"<(?:\w+:)?workbookPr\b[^>]*>")
OPEN_DOCUMENT = b"application/vnd.oasis.opendocument.spreadsheet"
LENGTH = 8  # bytes of the length of an answer


def main(kind: str, path: str, *arguments: str) -> None:
    """Read the file and write it to the standard output."""
    _no_core_dump()
    limit_memory(path)
    with _output() as out:
        KINDS[kind](out, path, *arguments)


def answer(out: IO[bytes], path: str, function: str, options: str) -> None:
    """Read a file with pyreadstat and write its content, or the error of the library."""
    try:
        frame, about = getattr(import_module("pyreadstat"), function)(path, **json.loads(options))
        if function == "read_dta" and not isinstance(frame, dict):
            frame = _of_old_stata(frame, about, path)
        head = describe(frame, about)
    except Exception as error:
        out.write(_line({"error": type(error).__name__, "message": str(error)}))
        return
    out.write(_line(head))
    for j, kind in enumerate(head["kinds"]):
        _send(out, frame.iloc[:, j], kind)


def _of_old_stata(frame: Any, about: Any, path: str) -> Any:
    """With missing doubles and dates of formats before 2007, which the library takes for numbers."""
    with open(path, "rb") as file:
        if ord(file.read(1)) in OLD_STATA:
            frame = frame.mask(frame.eq(OLD_MISSING))
    for name, kind in about.original_variable_types.items():
        if kind.startswith(("%d", "%-d")) and frame[name].dtype.kind in "iuf":
            frame[name] = [
                None if day != day else FIRST_DAY + datetime.timedelta(int(day)) for day in frame[name]
            ]
    return frame


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


class Book:
    """The sheets of a workbook, opened by python-calamine."""

    def __init__(self, path: str) -> None:
        opened = import_module("python_calamine").CalamineWorkbook
        content = repaired(path)
        self.book = opened.from_path(path) if content is None else opened.from_filelike(content)

    def names(self) -> dict[str, Any]:
        """Names of all sheets, and of the visible ones."""
        visible = [one.name for one in self.book.sheets_metadata if str(one.visible).endswith("Visible")]
        return {"names": list(self.book.sheet_names), "visible": visible}

    def answers(self, name: str, whole: bool) -> Iterator[Any]:
        """Size, first cell with data and merged areas of a sheet; if `whole`, its rows in blocks, and [].

        Cells are numbers, texts and, of other types such as dates, tuples with their text.
        """
        sheet = self.book.get_sheet_by_name(name)
        yield {
            "height": sheet.height,
            "width": sheet.width,
            "start": sheet.start or (0, 0),
            "merged": sheet.merged_cell_ranges or [],
        }
        rows = sheet.iter_rows() if whole else iter(())
        while block := list(islice(rows, BLOCK)):
            yield block
        if whole:
            yield []


def repaired(path: str) -> IO[bytes] | None:
    """A workbook as the library needs it, or None if it is so already.

    Dates: the property ``date1904`` is in the first element ``workbookPr``. The library believes the last
    one, and Excel writes others, as extensions. They are given another name.

    OpenDocument: Google writes no part ``mimetype``, without which the library refuses the file.
    """
    with open(path, "rb") as file:
        if file.read(2) != b"PK":  # .xls
            return None
    with zipfile.ZipFile(path) as book:
        parts = book.namelist()
        changed = {
            name: text
            for name in parts
            if name.lower().endswith("workbook.xml")
            and (text := _with_one_property(book.read(name))) is not None
        }
        if "content.xml" in parts and "mimetype" not in parts:
            changed["mimetype"] = OPEN_DOCUMENT
        if not changed:
            return None
        made = io.BytesIO()
        with zipfile.ZipFile(made, "w") as copy:
            for name in dict.fromkeys([*changed, *parts]):
                copy.writestr(name, changed.get(name) or book.read(name))
    made.seek(0)
    return made


def _with_one_property(text: bytes) -> bytes | None:
    """The part with the properties of a workbook, with one element of these; None where it has no other.

    >>> _with_one_property(b'<workbookPr date1904="1"/><x14:workbookPr dpi="0"/>')
    b'<workbookPr date1904="1"/><x14:otherPr dpi="0"/>'
    """
    found = PROPERTIES.search(text)
    if found is None or b"date1904" not in found[0] or b"workbookPr" not in text[found.end() :]:
        return None
    return text[: found.end()] + text[found.end() :].replace(b"workbookPr", b"otherPr")


def answer_sheets(out: IO[bytes], path: str) -> None:
    """Open a workbook, and write the sheets that are asked for."""
    with _errors(out):
        book = Book(path)
        _write(out, book.names())
        for line in sys.stdin:
            with _errors(out):
                for found in book.answers(*json.loads(line)):
                    _write(out, found)


@contextmanager
def _errors(out: IO[bytes]) -> Iterator[None]:
    """Write an error in place of an answer."""
    try:
        yield
    except BaseException as error:  # panics are no Exception
        _write(out, {"error": type(error).__name__})


def _write(out: IO[bytes], content: Any) -> None:
    try:
        found = marshal.dumps(content)
    except ValueError:  # a block with dates
        found = marshal.dumps([[plain(cell) for cell in cells] for cells in content])
    out.write(len(found).to_bytes(LENGTH, "little") + found)
    out.flush()


def plain(cell: Any) -> Any:
    """A cell as a number or text, others as a tuple with their text: dates as 2021-03-14."""
    if isinstance(cell, str | int | float):
        return cell
    if isinstance(cell, datetime.datetime):
        return (str(cell if cell.time() != datetime.time() else cell.date()),)
    return (str(cell),)


def limit_memory(path: str) -> None:
    """Refuse memory beyond all proportion; not known to Windows, and without effect on macOS."""
    try:
        import resource
    except ImportError:
        return
    allowed = BASE + MOST_TIMES * os.path.getsize(path)
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    least = min([allowed, *(limit for limit in (soft, hard) if limit != resource.RLIM_INFINITY)])
    resource.setrlimit(resource.RLIMIT_DATA, (least, hard))


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


KINDS: dict[str, Callable[..., None]] = {"statistics": answer, "workbook": answer_sheets}

if __name__ == "__main__":
    main(*sys.argv[1:])
