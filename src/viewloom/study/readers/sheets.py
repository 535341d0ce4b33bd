"""Sheets of Excel workbooks and OpenDocument spreadsheets: where the table begins and ends, and its cells."""

from __future__ import annotations

import json
import marshal
import math
import os
import signal
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from viewloom.data.naming import listed
from viewloom.runtime.errors import MissingPackageError
from viewloom.study.errors import StudyError
from viewloom.study.notes import Note, count_note
from viewloom.study.readers.descriptions import NOTE as DESCRIPTIONS
from viewloom.study.readers.descriptions import described
from viewloom.study.readers.readerprocess import LENGTH
from viewloom.study.readers.separate import started
from viewloom.study.readers.text import DECIMAL_COMMA
from viewloom.study.readers.workbooks import NOT_VALID, PROTECTED, check_workbook, errors_in
from viewloom.study.wording import folded, nearest

Cells = list[Any]
SUFFIXES = (".xlsx", ".xlsm", ".xls", ".ods")
OLD_COLUMNS = 256  # that a sheet has in the format of .xls
TOP = 40  # rows among which the header is searched
BLOCK = 2000  # rows that are converted at a time
LONG_TEXT = 25  # characters of a cell that is a note rather than an id
ABSENT = {
    "", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>", "N/A",
    "NA", "NULL", "NaN", "None", "n/a", "nan", "null", ".",
}  # fmt: skip
SUMMARIES = {
    "mean", "average", "avg", "total", "totals", "grandtotal", "sum", "sd", "std", "stdev", "stddev", "sem",
    "standarddeviation", "median", "min", "max", "minimum", "maximum", "count", "n", "mittelwert", "summe",
    "gesamt", "moyenne", "somme", "media", "suma",
}  # fmt: skip
BELOW = ("row of notes or totals below the table", "rows of notes or totals below the table")
NO_MEMORY = "memory ran out; it is damaged, or has cells far from the table: delete them, or set sheet."
ERRORS = {"PasswordError": f"{PROTECTED}.", "MemoryError": NO_MEMORY}  # of the library
Merged = Sequence[tuple[tuple[int, int], tuple[int, int]]]


def sheet_names(path: Path) -> list[str]:
    """Names of the visible sheets with a table; see `load_sheet`."""
    with _opened(path) as book:
        return _with_data(book)


def load_sheet(path: Path, sheet: str | int | None, notes: list[Note], decimal: str = ".") -> pd.DataFrame:
    """The table of a sheet with the names of its header, duplicates included.

    Parameters
    ----------
    path : Path
    sheet : str or int or None
        Name of the sheet, or its number from 1; by default the only visible sheet with a table.
    notes : list of Note
    decimal : str
        The mark of numbers in columns that have text as well.

    Returns
    -------
    DataFrame
        Columns of numbers only are float64, others text: dates as 2021-03-14, and error cells as Excel shows
        them.
    """
    with _opened(path) as book:
        name = _chosen(path, book, sheet)
        errors = errors_in(path, name)
        head, rows = book.sheet(name)
        if path.suffix.lower() == ".xls":
            if head["width"] > OLD_COLUMNS:  # the library believes any place of a cell
                raise StudyError(f"{path.name}: {NOT_VALID}.")
            rows = map(_without_zeros, rows)
        left = head["start"][1]
        return _table(_with_errors(rows, errors, left), _merged(head["merged"], left), path, notes, decimal)


class Book:
    """A workbook that a process of its own has opened."""

    def __init__(self, path: Path, process: Any) -> None:
        self.path, self.process = path, process
        found = self._next()
        self.names: list[str] = found["names"]
        self.visible: list[str] = found["visible"]

    def size(self, name: str) -> tuple[int, int]:
        """Height and width of a sheet; zero for sheets of charts."""
        try:
            head = self._ask(name, whole=False)
        except StudyError:
            return 0, 0
        return head["height"], head["width"]

    def sheet(self, name: str) -> tuple[dict[str, Any], Iterator[Cells]]:
        """Size, first cell with data and merged areas of a sheet, and its rows."""
        return self._ask(name, whole=True), chain.from_iterable(iter(self._next, []))

    def _ask(self, name: str, *, whole: bool) -> Any:
        with suppress(BrokenPipeError):  # the process has ended
            os.write(self.process.stdin.fileno(), f"{json.dumps([name, whole])}\n".encode())
        return self._next()

    def _next(self) -> Any:
        """The next answer of the process."""
        length = int.from_bytes(self.process.stdout.read(LENGTH), "little")
        content = self.process.stdout.read(length)
        if not content or len(content) < length:
            raise StudyError(f"{self.path.name}: {self._why_ended()}")
        found = marshal.loads(content)
        if isinstance(found, dict) and "error" in found:
            raise StudyError(f"{self.path.name}: {ERRORS.get(found['error'], NOT_VALID + '.')}")
        return found

    def _why_ended(self) -> str:
        """Rust aborts where memory runs out, and the system kills."""
        signals = {-getattr(signal, name, 0) for name in ("SIGKILL", "SIGABRT")}
        return NO_MEMORY if self.process.wait() in signals else f"{NOT_VALID}."


@contextmanager
def _opened(path: Path) -> Iterator[Book]:
    if find_spec("python_calamine") is None:
        raise MissingPackageError("Excel files need python-calamine: pip install viewloom[files]")
    check_workbook(path)
    with started("workbook", path) as process:
        yield Book(path, process)


def _with_data(book: Book) -> list[str]:
    """Visible sheets with at least two rows and two columns."""
    return [name for name in book.visible if min(book.size(name)) > 1]


def _chosen(path: Path, book: Book, sheet: str | int | None) -> str:
    """The name of the sheet to read."""
    names = book.names
    if isinstance(sheet, int):
        if not 1 <= sheet <= len(names):
            raise StudyError(f"{path.name}: there is no sheet {sheet}; there are {listed(names)}.")
        return str(names[sheet - 1])
    if sheet is not None:
        if sheet not in names:
            hint = nearest(sheet, names) or f"; there are {listed(names)}."
            raise StudyError(f"{path.name}: no sheet {sheet!r}{hint}")
        return sheet
    found = names if len(names) == 1 else _with_data(book)
    if len(found) > 1:
        raise StudyError(
            f"{path.name}: {len(found)} sheets have data: {listed(found)}; set sheet to one of them."
        )
    if not found:
        raise StudyError(f"{path.name}: no sheet has a table.")
    return str(found[0])


def _with_errors(rows: Iterable[Cells], errors: dict[tuple[int, int], str], left: int) -> Iterator[Cells]:
    """Rows of cells from column `left` on; error cells have their text."""
    by_row: dict[int, dict[int, str]] = {}
    for (row, column), text in errors.items():
        by_row.setdefault(row, {})[column] = text
    for number, cells in enumerate(rows):
        for column, text in by_row.get(number, {}).items():
            cells += [""] * (column - left + 1 - len(cells))
            cells[column - left] = text
        yield cells


def _without_zeros(cells: Cells) -> Cells:
    r"""Text of two bytes a letter in old workbooks, of which the library takes each as a letter.

    >>> _without_zeros(["m\0p\0g\0", 21.0, ""])
    ['mpg', 21.0, '']
    """
    return [cell.replace("\0", "") if isinstance(cell, str) else cell for cell in cells]


def _merged(areas: Merged, left: int) -> Merged:
    """Areas of merged cells, with columns counted from the first one with data."""
    return [((r0, c0 - left), (r1, c1 - left)) for (r0, c0), (r1, c1) in areas if c0 >= left]


def _filled(cells: Cells) -> list[int]:
    return [
        j for j, cell in enumerate(cells) if cell != "" and not (isinstance(cell, str) and cell.isspace())
    ]


def _table(
    rows: Iterator[Cells], merged: Merged, path: Path, notes: list[Note], decimal: str
) -> pd.DataFrame:
    top = list(islice(rows, TOP))
    down = [one for one in merged if one[0][1] == one[1][1]]
    _fill(top, down, 0, [])
    at = _header_row(top)
    if at is None:
        raise StudyError(f"{path.name}: the sheet has no header with at least two names above rows of data.")
    names = _names(top, at, merged)
    told = described([["" if cell is None else str(cell) for cell in cells] for cells in top[at + 1 :]])
    first = at + 1 + told
    blocks = _blocks(top[first:], rows, [one for one in merged if one[1][0] >= first], first, names)
    frame, below = _frame(blocks, names, decimal)
    above = sum(bool(_filled(cells)) for cells in top[:at])
    notes += count_note(above, "line above the header", "lines above the header", public=True)
    notes += count_note(told, *DESCRIPTIONS, public=True)
    notes += count_note(below, *BELOW)
    return frame


def _fill(rows: list[Cells], merged: Merged, first: int, names: list[str]) -> None:
    """Give all cells of a merged area the value of its first cell; `first` is the number of the first row.

    Columns without a name are filled downwards only: beside a merged cell, they are a part of its column.
    """
    for (r0, c0), (r1, c1) in merged:
        if not first <= r0 < first + len(rows):
            continue
        value = rows[r0 - first][c0] if c0 < len(rows[r0 - first]) else ""
        for cells in rows[r0 - first : r1 - first + 1]:
            for j in range(c0, min(c1, len(cells) - 1) + 1):
                if j == c0 or names[j]:
                    cells[j] = value


def _header_row(top: list[Cells]) -> int | None:
    """The row of names above the data: of the rows that fit, the one above most columns without text.

    >>> _header_row([["Table 1", "", ""], ["", "", ""], ["id", "a", "b"], ["x", 1.0, 2.0], ["y", 2.0, ""]])
    2
    """
    width = max(map(len, top), default=0)
    filled, text = np.zeros((len(top), width), dtype=bool), np.zeros((len(top), width), dtype=bool)
    for i, cells in enumerate(top):
        filled[i, _filled(cells)] = True
        text[i, : len(cells)] = [isinstance(cell, str) for cell in cells]
    fitting = {at: _names_above(filled, text, at) for at in range(len(top) - 1)}
    counts = {at: count for at, count in fitting.items() if count is not None}
    return max(counts, key=lambda at: counts[at]) if counts else None  # the first of several


def _names_above(filled: np.ndarray, text: np.ndarray, at: int) -> int | None:
    """How many cells of a row are text above cells that mostly are not; None if it is no row of names.

    The masks (rows x columns) are of the cells that are filled, and of those that are text.
    """
    below = filled[at + 1 :]
    counts, other = below.sum(axis=0), (below & ~text[at + 1 :]).sum(axis=0)
    rows = int(below.any(axis=1).sum())
    here, texts = int(filled[at].sum()), filled[at] & text[at]
    wide = int((2 * counts > rows).sum()) if rows else 0
    if here < 2 or here < 0.6 * wide or 2 * int(texts.sum()) < here or not rows:
        return None
    return int((2 * other > counts)[texts].sum())


def _names(top: list[Cells], at: int, merged: Merged) -> list[str]:
    """Names of the columns; where some are equal, with the merged heading above them."""
    names = [_name(cell) for cell in top[at]]
    names += [""] * (max(map(len, top)) - len(names))
    if len({name for name in names if name}) < len(list(filter(None, names))):
        for (r0, c0), (r1, c1) in merged:
            if r0 <= r1 == at - 1 and c1 > c0:
                heading = _text(top[r0][c0], ".")
                for j in range(c0, min(c1, len(names) - 1) + 1):
                    names[j] = f"{heading} {names[j]}" if heading and names[j] else names[j]
    return names


def _name(cell: Any) -> str:
    """A cell of the header.

    >>> _name(0.5), _name(2010.0), _name(" a ")
    ('0.5', '2010', 'a')
    """
    whole = isinstance(cell, float) and cell.is_integer()
    return repr(cell) if isinstance(cell, float) and not whole else _text(cell, ".") or ""


def _blocks(
    start: list[Cells], rows: Iterator[Cells], merged: Merged, first: int, names: list[str]
) -> Iterator[list[Cells]]:
    """Rows below the header, a few thousand at a time, with merged cells filled."""
    if merged:  # areas may cross blocks
        every = [*start, *rows]
        _fill(every, merged, first, names)
        yield every
        return
    yield start
    while block := list(islice(rows, BLOCK)):
        yield block


@dataclass
class _Column:
    """Cells of a column: numbers, and texts by row where there are any."""

    numbers: list[np.ndarray]
    texts: dict[int, str]
    rows: int = 0

    def add(self, cells: Sequence[Any]) -> None:
        """Append the cells of a block."""
        plain = set(map(type, cells)) <= {float, int}
        self.numbers.append(np.array(cells, dtype=np.float64) if plain else self._mixed(cells))
        self.rows += len(cells)

    def _mixed(self, cells: Sequence[Any]) -> np.ndarray:
        values = np.full(len(cells), np.nan)
        for i, cell in enumerate(cells):
            if type(cell) is float or type(cell) is int:
                values[i] = cell
            elif cell != "" and (text := _text(cell, ".")) is not None and text not in ABSENT:
                self.texts[self.rows + i] = text
        return values

    def finished(self, decimal: str) -> np.ndarray | list[str | None]:
        """Numbers, or texts if some cells are."""
        values = np.concatenate(self.numbers) if self.numbers else np.empty(0)
        if not self.texts:
            return values
        if any(DECIMAL_COMMA.fullmatch(text) for text in self.texts.values()):
            decimal = ","  # numbers look like the texts beside them
        return [
            self.texts.get(i) or (None if math.isnan(value) else _number(value, decimal))
            for i, value in enumerate(values.tolist())
        ]


def _frame(blocks: Iterable[list[Cells]], names: list[str], decimal: str) -> tuple[pd.DataFrame, int]:
    """The table, and the number of rows below it that do not belong to it."""
    columns = [_Column([], {}) for _ in names]
    filled: list[int] = []  # cells of each row
    for block in blocks:
        width = len(names)
        padded = [cells if len(cells) == width else [*cells, *[""] * (width - len(cells))] for cells in block]
        for column, cells in zip(columns, zip(*padded, strict=True), strict=True):
            column.add(cells)
        filled += [len(cells) - cells.count("") for cells in padded]
    done = [column.finished(decimal) for column in columns]
    keep = [j for j, name in enumerate(names) if name or columns[j].texts or _any(done[j])]
    data = {
        n: pd.Series(done[j], dtype=None if isinstance(done[j], np.ndarray) else str)
        for n, j in enumerate(keep)
    }
    frame = pd.DataFrame(data, copy=False)
    end = _end(columns, filled, keep)
    while len(frame) and end and filled[end - 1] == 0:
        end -= 1
    below = sum(count > 0 for count in filled[end:])
    return frame.iloc[:end].set_axis([names[j] or f"column {j + 1}" for j in keep], axis=1), below


def _any(values: Any) -> bool:
    return not isinstance(values, np.ndarray) or bool((~np.isnan(values)).any())


def _end(columns: list[_Column], filled: list[int], keep: list[int]) -> int:
    """The row after the last one of the table, without the notes and totals below it."""
    end = len(filled)
    first = columns[keep[0]].texts if keep else {}
    is_summary = summary_test(first.values())
    while end and (
        filled[end - 1] == 0
        or is_summary(first.get(end - 1, ""))
        or _is_note(end - 1, filled, columns, len(keep))
    ):
        end -= 1
    return end


def summary_test(first: Iterable[str]) -> Callable[[str], bool]:
    """Whether a text of the first column names a mean or total: it occurs once, and is no level such as N.

    >>> [summary_test(texts)("N") for texts in (["a", "b", "N"], ["Y", "Y", "N"], ["Y", "N", "N"])]
    [True, False, False]
    """
    counts = Counter(first)
    distinct = max(counts.values(), default=1) == 1
    return lambda text: (
        folded(text) in SUMMARIES and counts[text] == 1 and (distinct or len(folded(text)) > 1)
    )


def _is_note(row: int, filled: list[int], columns: list[_Column], width: int) -> bool:
    """Whether a row has a text by itself: without values it is no subject, either."""
    if filled[row] != 1 or width < 2:
        return False
    apart = row > 0 and filled[row - 1] == 0
    text = next((column.texts[row] for column in columns if row in column.texts), "")
    return bool(text) and (apart or width > 2 or len(text) > LONG_TEXT)


def _text(cell: Any, decimal: str) -> str | None:
    """A cell as text, missing where blank."""
    if isinstance(cell, str):
        return cell.strip() or None
    if isinstance(cell, bool):
        return "TRUE" if cell else "FALSE"
    if isinstance(cell, (int, float)):
        return _number(float(cell), decimal)
    return str(cell[0])  # of a date


def _number(value: float, decimal: str) -> str:
    """A number as text that no rule takes for thousands.

    >>> _number(7.0, "."), _number(2.05, ","), _number(6.995, ",")
    ('7', '2,05', '6,9950')
    """
    if value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    text = repr(value)
    plain = "e" not in text and "n" not in text
    return (f"{text}0" if plain and text[-4:-3] == "." else text).replace(".", decimal)
