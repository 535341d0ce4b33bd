"""Delimited text, as written by spreadsheets, R and Windows, as a raw table."""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections import Counter, deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice, pairwise, takewhile
from pathlib import Path
from typing import IO, Any

import pandas as pd

from viewloom.study.errors import StudyError, check_kind
from viewloom.study.readers.descriptions import ABSENT, NUMBER, described, has_numbers, shape
from viewloom.study.readers.notation import Notation, may_be_grouped
from viewloom.study.readers.packed import is_packed, open_bytes

DELIMITERS = {"comma": ",", "semicolon": ";", "tab": "\t"}
NAMED = {**DELIMITERS, "space": " "}  # by the names that a user may give
RARE = ("|", " ")  # delimiters of tables that have no other, and cells in every line
SAMPLE = 50  # lines, without comments at the top, from which the dialect of a file is detected
COMMENTS = ("#", "!")  # the start of lines that are no rows; the second in series matrices of GEO
MOST_COMMENTS = 10_000  # lines
GCT = re.compile(r"#1\.[23]\n\d+(?:\t\d+){1,3}\n")  # a version, and numbers of rows and columns
CHUNK = 1 << 20
MEASURED = 1 << 18  # bytes of lines that are measured
BYTE_ORDER_MARKS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF32_LE: "utf-32",  # starts with that of UTF-16
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
BINARY = {  # first bytes of files that are not delimited text -> solution
    b"PK\x03\x04": "is a workbook or a zip file; give its name the right end, such as .xlsx or .zip",
    b"\xd0\xcf\x11\xe0": "is an old workbook; give its name the end .xls",
    b"\x1f\x8b": "is compressed; give its name the end .gz",
    b"BZh": "is compressed; give its name the end .bz2",
    b"\xfd7zXZ": "is compressed; give its name the end .xz",
    b"\x89HDF": "is an HDF5 file, not a table; give its format",
    b"MATLAB": "is a MATLAB file; export it as CSV",
    b"$FL2": "is an SPSS file; give its name the end .sav",
    b"$FL3": "is an SPSS file; give its name the end .zsav",
    b"PAR1": "is a Parquet file; give its name the end .parquet",
    b"ARROW1": "is a Feather file; give its name the end .feather",
}
TABLES_ONLY = "(formats 'table' and 'long' only)"  # formats with these options
MISSING = [".", " ", "\x1a"]  # in addition to those of pandas: "", NA, n/a, NaN, NULL, None, ...
FIRST_UNCHECKED = int(pd.__version__.split(".")[0]) < 3  # pandas 2 cuts a long first row of a block
SPARE = "cells beyond the header"  # a column for them
SINGLE = "a single column"  # the start of an error
ROW_NAMES = "row.names"  # the column for which R writes no name
UNCLOSED = "is not a table of lines and columns; look for an unclosed quotation mark."
PADDED = r"0\d"  # the start of codes, but not of numbers
DECIMAL_COMMA = re.compile(r"[-+]?\d+,\d+(?:[eE][-+]?\d+)?")
GROUPED_COMMA = re.compile(r"[-+]?[1-9]\d{0,2},\d{3}")  # possibly thousands
MOST_TITLES = 20  # lines
MOSTLY = 0.9  # share of lines that have as many cells as the header below titles
OTHER = {".": ",", ",": "."}  # thousands separator -> decimal mark


@dataclass(frozen=True)
class Dialect:
    """Encoding, delimiter and notation of a text table.

    Attributes
    ----------
    encoding, delimiter : str
    notation : Notation
    header : list of str
    skip : int
        Lines before the header, such as Excel's ``sep=;``.
    above : int
        Titles and comments among them.
    below : tuple of int
        Numbers, from 0, of the lines below the header that describe the columns, such as units.
    """

    encoding: str
    delimiter: str
    notation: Notation
    header: list[str]
    skip: int
    above: int = 0
    below: tuple[int, ...] = ()


def find_dialect(
    path: Path,
    *,
    delimiter: str | None = None,
    decimal: str | None = None,
    thousands: str | None = None,
    encoding: str | None = None,
    candidates: Iterable[str] = tuple(DELIMITERS.values()),
    options: bool = False,
) -> Dialect:
    """Detect the dialect of a table from its first lines; parameters that are given are used as they are.

    `options` is whether the format has the options decimal and thousands.

    Raises
    ------
    StudyError
        If the file is missing, empty, not text, or has a single column.
    """
    check_kind(path)
    _head(path)  # raises if the file cannot be read
    encoding = encoding or _encoding(path)
    numbered = _first_lines(path, encoding)
    if not numbered:
        raise StudyError(f"{path.name}: the file is empty.")
    announced = re.fullmatch(r"sep=(.)", numbered[0][1].rstrip("\r\n"), flags=re.IGNORECASE)
    numbered = numbered[1:] if announced else numbered
    mark = NAMED.get(delimiter, delimiter) if delimiter else announced and announced[1]
    marks = [*candidates, *([mark] if mark else [])]
    above = _above([line for _, line in numbered], [mark] if mark else marks)
    lines = [line for _, line in numbered[above:]]
    split = {other: _rows(lines, other) for other in marks}
    mark = mark or max(split, key=lambda other: _fit(split[other]))
    if delimiter is None and _fit(split[mark])[1] < 2:
        mark, split = _rare(lines, mark, split)
    _check_columns(path, mark, split, given=delimiter is not None)
    rows = split[mark]
    told = described(rows[1:]) if len(rows) == len(lines) else 0
    return Dialect(
        encoding=encoding,
        delimiter=mark,
        notation=replace(find_notation(decimal, thousands, rows[1 + told :], mark), options=options),
        header=_header(rows),
        skip=numbered[above][0],
        above=above,
        below=tuple(number for number, _ in numbered[above + 1 : above + 1 + told]),
    )


def _above(lines: Sequence[str], marks: Sequence[str]) -> int:
    """Number of lines above the header: comments, and titles of one cell.

    >>> _above(["# of", "# 2021", "id,a,b", "x,1,2"], [","]), _above(["#id,a,b", "x,1,2"], [","])
    (2, 0)
    >>> _above(["Volumes", "id,a,b", "# all of them", "x,1,2"], [","])
    1
    >>> _above(["Volumes", "of all subjects", "id,a,b", "x,1,2"], [","])
    2
    """
    if GCT.match("".join(line.rstrip() + "\n" for line in lines[:2])):
        return 2
    pairs = enumerate(pairwise(lines))
    first = next((n for n, (line, below) in pairs if not _is_above(line, below, marks)), 0)
    common = [mark for mark in marks if mark not in RARE]
    return first + (_titles(lines[first:], common) or _preface(lines[first:], common))


def _titles(lines: Sequence[str], marks: Sequence[str]) -> int:
    """Number of lines above a header, at least two, that are titles without delimiters, or comments; else 0.

    Below the header, lines must have as many cells, with few exceptions, and the whole must not be a table
    with one of the rare delimiters.
    """
    titles = list(takewhile(lambda line: _is_title(line, marks), lines))
    below = lines[len(titles) :]
    if len(titles) < 2 or len(below) < 2 or any(_fit(_rows(lines, mark))[0] == 1.0 for mark in RARE):
        return 0
    share, _, mark = max((*_fit(_rows(below, mark)), mark) for mark in marks)
    names = [cell.strip() for row in _rows(below[:1], mark) for cell in row if cell.strip()]
    header = len(names) > 1 and not any(map(NUMBER.fullmatch, names))
    return len(titles) if header and share >= MOSTLY else 0


def _preface(lines: Sequence[str], marks: Sequence[str]) -> int:
    """Number of lines above a header that are no rows, although delimiters are in them; else 0.

    >>> rows = ["id,age,sex,score", "a,61,f,3", "b,72,m,5", "c,65,f,4"]
    >>> _preface(["Scores, by Smith", *rows], ","), _preface(["Export,2021,,", "Site,Bonn,,", *rows], ",")
    (1, 2)
    """
    if any(line.count('"') % 2 for line in lines):
        return 0
    tables = (
        [[cell.strip() for row in _rows([one], mark) for cell in row] for one in lines] for mark in marks
    )
    found = [(*_fit(rows[at:]), at) for rows in tables if (at := _header_row(lines, rows))]
    return max(found, default=(0.0, 0, 0))[-1]


def _header_row(lines: Sequence[str], rows: Sequence[list[str]]) -> int:
    """The first full row, if it has names above columns of numbers; 0 if not, and below names without one."""
    width = Counter(map(len, rows)).most_common(1)[0][0]
    found = range(min(MOST_TITLES, len(rows) - 2))
    first = next((at for at in found if _is_full(rows[at], width) and not lines[at].startswith(COMMENTS)), 0)
    below = rows[first + 1 :]
    agree = width > 2 and sum(len(row) == width for row in below) >= MOSTLY * len(below)
    of_r = first == 1 and len(rows[0]) == width - 1 and all(rows[0]) and lines[0][0] not in COMMENTS
    return first if agree and not of_r and _are_names(rows[first], below) else 0


def _is_full(row: Sequence[str], width: int) -> bool:
    """Whether it is as long as most rows, and no cell but one, as of row names, is blank."""
    return len(row) == width and row.count("") <= 1


def _are_names(row: Sequence[str], below: Sequence[list[str]]) -> bool:
    """Whether cells are distinct texts, some of them above numbers."""
    texts = not any(map(NUMBER.fullmatch, row)) and ABSENT.isdisjoint(map(str.casefold, row))
    return texts and len(set(row)) == len(row) and any(has_numbers(below, j) for j in range(len(row)))


def _is_title(line: str, marks: Sequence[str]) -> bool:
    """Whether a line has one cell, whatever the delimiter."""
    cells = ([cell for row in _rows([line], mark) for cell in row if cell.strip()] for mark in marks)
    return not line.count('"') % 2 and all(len(found) == 1 for found in cells)


def _is_above(line: str, below: str, marks: Sequence[str]) -> bool:
    """Whether a line is a comment or a title above another one, or above names."""
    comment = line.startswith(COMMENTS)
    if comment and below.startswith(COMMENTS):
        return True
    common = [mark for mark in marks if mark not in RARE]
    usual = [mark for mark in common if mark in below]
    mark = max(usual or RARE, key=below.count)
    header = not usual and any(mark in line for mark in common)  # above a comment
    if header or line.count('"') % 2:
        return False
    cells, names = ([cell.strip() for row in _rows([one], mark) for cell in row] for one in (line, below))
    told = list(filter(None, cells))
    title = len(told) == 1 or (comment and abs(len(cells) - len(names)) > 1) or _is_preface(told, names)
    texts = list(filter(None, names)) if title else []
    return len(texts) > 1 and not any(map(NUMBER.fullmatch, texts))


def _is_preface(cells: Sequence[str], names: Sequence[str]) -> bool:
    """Whether a line has the name and version of a data structure of NDA, above names of columns.

    >>> _is_preface(["image", "03"], ["subjectkey", "age", "sex", "file"]), _is_preface(["id", "3"], ["x"])
    (True, False)
    """
    version = len(cells) == 2 and re.fullmatch(r"\d{1,2}", cells[1])
    return bool(version) and len(names) >= 2 * len(cells)


def _rare(lines: Sequence[str], mark: str, split: dict[str, list[list[str]]]) -> tuple[str, dict[str, Any]]:
    """The delimiter of a table without a usual one, if all lines have as many cells as the header."""
    split = {**split, **{other: _rows(lines, other) for other in RARE}}
    good = [other for other in RARE if len(lines) > 1 and _fit(split[other])[0] == 1.0]
    return (good or [mark])[0], split


def load(path: Path, dialect: Dialect, *, text: Collection[str] | None = ()) -> pd.DataFrame:
    """Read the table with the column names of the file, duplicates included.

    Parameters
    ----------
    path : Path
    dialect : Dialect
    text : collection of str or None
        Columns that are kept as text; all if None.

    Returns
    -------
    DataFrame
        ``attrs["notes"]`` is the number of notes below the table, if any, which are left out.
    """
    header = dialect.header
    as_text = [j for j, name in enumerate(header) if text is None or name in text]
    try:
        frame = _read_csv(path, dialect, as_text)
        doubtful = [j for j in range(len(header)) if _may_be_grouped(frame[j], dialect.notation)]
        if doubtful:
            frame = _read_csv(path, dialect, [*as_text, *doubtful])
    except (UnicodeError, LookupError):
        raise StudyError(_undecodable(path, dialect.encoding)) from None
    except StudyError:
        raise
    except ValueError as error:  # includes errors of the parser
        raise StudyError(_ragged(path, str(error))) from None
    if not isinstance(frame.index, pd.RangeIndex):  # pandas reads extra cells as row names
        raise StudyError(_ragged(path, f"Expected {len(header)} fields in line 2, saw more"))
    foot = _foot(path, dialect, frame)
    frame = frame.iloc[: len(frame) - foot]
    if not foot:
        _check_end(path, dialect, frame)
    if frame.iloc[:, -1].isna().any():
        _check_blanks(path, dialect)
    frame = frame.copy().set_axis(header, axis=1)  # defragmented, for speed
    frame.attrs = {"notes": foot} if foot else {}
    return frame


def _foot(path: Path, dialect: Dialect, frame: pd.DataFrame) -> int:
    """Number of notes at the end: below a blank line, short, and not named as the rows above are."""
    if not len(frame) or dialect.delimiter == " " or frame.iloc[-1:, -1:].notna().to_numpy().all():
        return 0
    with open_text(path, encoding=dialect.encoding, newline=None) as file:
        end = [line.strip() for line in deque(file, maxlen=2 * MOST_TITLES)]
    while end and not end[-1]:
        end.pop()
    tail = end[len(end) - end[::-1].index("") :] if "" in end else []
    rows, width = _rows(tail, dialect.delimiter), len(dialect.header)
    if not rows or len(rows) != len(tail) or len(rows) >= len(frame):
        return 0
    above = set(map(shape, frame.iloc[: -len(rows), 0].dropna().astype(str)))
    notes = all(2 * len(row) <= width and shape(row[0].strip()) not in above for row in rows)
    return len(rows) if notes else 0


def _check_end(path: Path, dialect: Dialect, frame: pd.DataFrame) -> None:
    """Refuse a file that ends within a row."""
    if frame.iloc[-1:, -1:].notna().to_numpy().all():
        return
    with open_text(path, encoding=dialect.encoding, newline=None) as file:
        last = next(iter(deque(file, maxlen=1)), "")
    cut = not last.endswith("\n") and '"' not in last
    found = _rows([last.strip("\x1a")], dialect.delimiter) if cut else []
    if found and len(found[0]) < len(dialect.header):
        cells = f"{len(found[0])} of {len(dialect.header)} cells"
        raise StudyError(
            f"{path.name}: the last line has {cells} and no line end, as if the file were cut off; copy it "
            "again, or complete the line."
        )


def _check_blanks(path: Path, dialect: Dialect) -> None:
    """Refuse short rows of a table with blanks between cells, in which no one can tell what is missing."""
    width = len(dialect.header)
    if dialect.delimiter != " ":
        return
    with open_text(path, encoding=dialect.encoding, newline=None) as file:
        for number, line in enumerate(islice(file, dialect.skip + 1, None), start=dialect.skip + 2):
            cells = sum(map(len, _rows([line], " ")))
            if 0 < cells < width and not line.startswith((*COMMENTS, "\x1a")):
                raise StudyError(
                    f"{path.name}: line {number} has {cells} cells, but the header has {width}; "
                    "write NA for missing cells where blanks are between cells."
                )


def lacks_end(dialect: Dialect, frame: pd.DataFrame) -> bool:
    """Whether the last cell of a row is missing, so that the row may be short."""
    width = _width(dialect)
    return width > 0 and bool(frame.iloc[:, width - 1].isna().any())


def _width(dialect: Dialect) -> int:
    """Number of columns without that of a trailing delimiter."""
    names = list(dialect.header)
    while names and names[-1] == f"column {len(names)}":
        names.pop()
    return len(names)


def short_rows(path: Path, dialect: Dialect) -> int:
    """Number of rows, notes included, with fewer cells than names; pandas reads the others as missing."""
    width, mark = _width(dialect), dialect.delimiter
    if mark == " ":
        return 0
    with open_text(path, encoding=dialect.encoding, newline=None) as file:
        below = islice(file, dialect.skip + 1, None)
        if not any(line.count(mark) < width - 1 and line.strip() for line in below):
            return 0
    with open_text(path, encoding=dialect.encoding, newline="") as file:
        rows = csv.reader(islice(file, dialect.skip, None), delimiter=mark, skipinitialspace=True)
        try:
            return sum(_is_short(row, width) for row in islice(rows, 1, None))
        except csv.Error:  # a very long cell
            return 0


def _is_short(row: list[str], width: int) -> bool:
    comment = len(row) == 1 and row[0].startswith((*COMMENTS, "\x1a"))
    return 0 < len(row) < width and any(map(str.strip, row)) and not comment


def first_rows(path: Path, dialect: Dialect, rows: int, columns: int) -> pd.DataFrame:
    """The first rows and columns as text; others are not parsed, of which there may be very many."""
    header = dialect.header[:columns]
    shown = replace(dialect, header=header)
    try:
        with open_text(path, encoding=dialect.encoding, newline=None) as file:
            options = {**_options(shown, range(len(header))), "usecols": range(len(header)), "nrows": rows}
            return pd.read_csv(file, **options).set_axis(header, axis=1)
    except (UnicodeError, LookupError):
        raise StudyError(_undecodable(path, dialect.encoding)) from None
    except ValueError as error:  # includes errors of the parser
        raise StudyError(_ragged(path, str(error))) from None


def load_blocks(path: Path, dialect: Dialect, rows: int, *, text: Collection[str] = ()) -> Iterator[Any]:
    """The table as blocks of so many rows, whose columns are numeric or not, each block by itself."""
    header = dialect.header
    as_text = [j for j, name in enumerate(header) if name in text]
    last, lacking = pd.DataFrame(), False
    options = _options(dialect, as_text, object)  # objects, since pandas converts other texts a second time
    if FIRST_UNCHECKED:
        options["names"].append(SPARE)  # more names than the header has, which is skipped
        options |= {"header": None, "skiprows": [*range(dialect.skip + 1), *dialect.below]}
    try:
        with open_text(path, encoding=dialect.encoding, newline=None) as file:
            for frame in pd.read_csv(file, chunksize=rows, **options):
                long = FIRST_UNCHECKED and bool(frame.pop(SPARE).notna().any())
                if long:
                    load(path, dialect)  # refuses the line, by its number
                if long or frame.shape[1] != len(header) or not isinstance(frame.index, pd.RangeIndex):
                    raise StudyError(_ragged(path, f"Expected {len(header)} fields in line 2, saw more"))
                last, lacking = frame, lacking or bool(frame.iloc[:, -1].isna().any())
                yield frame.set_axis(header, axis=1)
        _check_end(path, dialect, last)
        if lacking:
            _check_blanks(path, dialect)
    except (UnicodeError, LookupError):
        raise StudyError(_undecodable(path, dialect.encoding)) from None
    except StudyError:
        raise
    except ValueError as error:  # includes errors of the parser
        raise StudyError(_ragged(path, str(error))) from None


def _read_csv(path: Path, dialect: Dialect, text: Collection[int]) -> pd.DataFrame:
    """The table with numbered columns; those in `text` are kept as text, or all with thousands separators."""
    # Python converts every line end to \n: with a lone \r the parser of pandas 2 may not terminate
    with open_text(path, encoding=dialect.encoding, newline=None) as file:
        return pd.read_csv(file, **_options(dialect, text))


def _options(dialect: Dialect, text: Collection[int], kind: type = str) -> dict[str, Any]:
    """Options of pandas; `kind` is the type of columns that are kept as text."""
    as_text = range(len(dialect.header)) if dialect.notation.thousands else text
    return {
        "sep": r"\s+" if dialect.delimiter == " " else dialect.delimiter,
        "decimal": dialect.notation.decimal,
        "header": 0,
        "names": list(range(len(dialect.header))),
        "skiprows": [*range(dialect.skip), *dialect.below] if dialect.below else dialect.skip,
        "dtype": dict.fromkeys(as_text, kind),
        "na_values": MISSING,
        "skipinitialspace": True,
        "low_memory": False,
    }


def open_text(path: Path, *, encoding: str, newline: str | None, errors: str | None = None) -> IO[str]:
    """Open a text, which may be compressed."""
    if not is_packed(path):
        return path.open(encoding=encoding, newline=newline, errors=errors)
    return io.TextIOWrapper(open_bytes(path), encoding=encoding, newline=newline, errors=errors)


def about_lines(path: Path) -> int:
    """About how many lines a text has, by the length of the first ones; 0 if it is compressed."""
    if is_packed(path):
        return 0
    with path.open("rb") as file:
        start = file.read(MEASURED)
    return round(path.stat().st_size * start.count(b"\n") / max(len(start), 1))


def _may_be_grouped(column: pd.Series, notation: Notation) -> bool:
    return pd.api.types.is_float_dtype(column) and may_be_grouped(column.to_numpy(), notation)


def padded_columns(path: Path, dialect: Dialect) -> list[str]:
    """Columns with zero-padded cells, which are codes; all columns where lines are not rows."""
    between = r"\s" if dialect.delimiter == " " else re.escape(dialect.delimiter)
    padded = re.compile(rf'(?:^|{between})(?:[^\S{between}]|")*{PADDED}')
    found: set[int] = set()
    with open_text(path, encoding=dialect.encoding, newline=None) as file:
        for line in filter(padded.search, islice(file, dialect.skip, None)):
            rows = _rows([line], dialect.delimiter)
            if [len(cells) for cells in rows] != [len(dialect.header)]:
                return dialect.header
            found |= {j for j, cell in enumerate(rows[0]) if re.match(PADDED, cell.strip())}
    return [dialect.header[j] for j in found]


def _undecodable(path: Path, encoding: str) -> str:
    return f"{path.name}: cannot be decoded as {encoding}; save it as UTF-8, or set encoding {TABLES_ONLY}."


def _ragged(path: Path, message: str) -> str:
    """An error of pandas about the number of cells in a line, without its content."""
    found = re.search(r"Expected (\d+) fields in line (\d+), saw (\w+)", message)
    if found is None:
        return f"{path.name}: {UNCLOSED}"
    expected, line, saw = found.groups()
    return (
        f"{path.name}: line {line} has {saw} cells, but the header has {expected}; correct the line, or set "
        f"delimiter {TABLES_ONLY}."
    )


def _encoding(path: Path) -> str:
    """UTF-8 or UTF-16 if the bytes are valid, else Windows-1252."""
    head = _head(path)
    _check_text(path, head)
    for mark, encoding in BYTE_ORDER_MARKS.items():
        if head.startswith(mark):
            return encoding
    if b"\0" in head:
        raise StudyError(f"{path.name}: is not a text file; export it as CSV.")
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        with open_bytes(path) as file:
            for chunk in iter(lambda: file.read(CHUNK), b""):
                decoder.decode(chunk)
            decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return "cp1252"
    return "utf-8"


def _head(path: Path) -> bytes:
    try:
        with open_bytes(path) as file:
            return file.read(1 << 12)
    except FileNotFoundError:
        raise StudyError(f"{path.name}: no such file.") from None
    except IsADirectoryError:
        raise StudyError(f"{path.name}: is a folder, not a table; set path to a file.") from None
    except PermissionError:
        raise StudyError(f"{path.name}: permission denied.") from None
    except OSError as error:  # such as a failing disk or a disconnected share
        raise StudyError(f"{path.name}: cannot be read ({error.strerror}).") from None


def _check_text(path: Path, head: bytes) -> None:
    for mark, advice in BINARY.items():
        if head.startswith(mark):
            raise StudyError(f"{path.name}: {advice}.")


def _first_lines(path: Path, encoding: str) -> list[tuple[int, str]]:
    """The first nonblank lines, numbered from 0; `load` reports bytes that cannot be decoded."""
    try:
        with open_text(path, encoding=encoding, errors="replace", newline="") as file:
            return _sampled((n, line) for n, line in enumerate(file) if line.strip())
    except UnicodeError:  # codecs without replacement
        raise StudyError(_undecodable(path, encoding)) from None
    except StudyError:
        raise
    except (LookupError, ValueError):  # ValueError for names with a NUL
        raise StudyError(f"{path.name}: unknown encoding {encoding!r}; try utf-8 or cp1252.") from None


def _sampled(numbered: Iterable[tuple[int, str]]) -> list[tuple[int, str]]:
    """The comments at the top, and as many lines as `SAMPLE` from the first other one on."""
    found, rows = list[tuple[int, str]](), 0
    for one in islice(numbered, MOST_COMMENTS):
        found.append(one)
        rows += bool(rows) or not one[1].startswith(COMMENTS)
        if rows == SAMPLE:
            break
    return found


def _rows(lines: Sequence[str], mark: str) -> list[list[str]]:
    """Cells of the lines, split at the delimiter; empty if quotation marks are not closed."""
    if len(mark) != 1:
        raise StudyError(f"delimiter must be one character or one of {', '.join(NAMED)}.")
    trimmed = [line.strip() for line in lines] if mark == " " else lines
    try:
        return [row for row in csv.reader(trimmed, delimiter=mark, skipinitialspace=True) if row]
    except csv.Error:
        return []


def _fit(rows: list[list[str]]) -> tuple[float, int]:
    """Score of a delimiter: the share of lines as long as the header, then the number of columns."""
    if not rows or len(rows[0]) < 2:
        return 0.0, 0
    width = len(rows[0])
    agree = sum(len(row) in (width, width + 1) for row in rows)  # R writes one name less than columns
    return agree / len(rows), width


def _check_columns(path: Path, mark: str, split: dict[str, list[list[str]]], given: bool) -> None:
    if not split[mark]:
        raise StudyError(f"{path.name}: {UNCLOSED}")
    if len(split[mark][0]) > 1:
        return
    best = max(split, key=lambda other: _fit(split[other]))
    if given and _fit(split[best])[1] > 1:
        width = len(split[best][0])
        raise StudyError(
            f"{path.name}: {SINGLE} with delimiter {mark!r}, but {width} with {best!r}; "
            "leave delimiter out to have it detected."
        )
    raise StudyError(
        f"{path.name}: {SINGLE}; a table has an id and features, separated by commas, semicolons or "
        f"tabs. For other delimiters set delimiter {TABLES_ONLY}."
    )


def _header(rows: list[list[str]]) -> list[str]:
    """Names of the columns; R omits that of the row names, and a trailing delimiter adds an empty one."""
    header = [name.strip("\ufeff \t\r\n") for name in rows[0]]
    if len(rows) > 1 and all(len(row) == len(header) + 1 for row in rows[1:]):
        closed = all(row[-1] == "" for row in rows[1:])
        header = [*header, ""] if closed else [ROW_NAMES, *header]
    elif header[0] == "":
        header[0] = ROW_NAMES
    return [name or f"column {j}" for j, name in enumerate(header, start=1)]


def find_notation(
    decimal: str | None, thousands: str | None, rows: Sequence[Sequence[str]] = (), mark: str = ","
) -> Notation:
    """The notation of numbers: as set by the user, else as detected from the cells."""
    if thousands and thousands == decimal:
        raise StudyError(f"decimal and thousands are both {decimal!r}; they must differ.")
    if decimal or thousands:
        return Notation(decimal or OTHER.get(thousands or "", "."), thousands or "", given=bool(decimal))
    cells = [cell.strip() for row in rows for cell in row] if mark != "," else []
    commas = [cell for cell in cells if DECIMAL_COMMA.fullmatch(cell)]
    certain = not commas or any(not GROUPED_COMMA.fullmatch(cell) for cell in commas)
    return Notation("," if commas else ".", certain=certain)
