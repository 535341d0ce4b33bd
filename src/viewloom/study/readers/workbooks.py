"""Checks of a workbook before it is read: size, area, and error cells, which the library gives as blanks."""

from __future__ import annotations

import posixpath
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree
from xml.parsers import expat

import numpy as np

from viewloom.runtime.visible import visible
from viewloom.study.errors import StudyError
from viewloom.study.readers.compound import has_endless_chain
from viewloom.study.readers.packed import DAMAGED, LEAST, MOST_TIMES, too_large

OLE = b"\xd0\xcf\x11\xe0"
ENCRYPTED = "EncryptedPackage".encode("utf-16-le")
CHUNK = 1 << 20
MOST_CELLS = 1 << 24  # of the area of a sheet; larger areas must be filled
SPARSEST = 50  # cells of the area per cell that is filled
NOT_VALID = "is not a valid workbook; save it again"
PROTECTED = "is protected by a password; save it without one"
LONGEST_PLACE = 11  # characters of a place such as XFD1048576, with the quote behind it
ERROR = re.compile(
    rb"<(?:\w+:)?c\s(?=[^>]*\bt=\"e\")[^>]*?\br=\"([A-Z]{1,3})(\d{1,7})\"[^>]*>"
    rb"(?:(?!</(?:\w+:)?c>).)*?<(?:\w+:)?v>([^<]{1,20})</",
    re.DOTALL,
)
DECLARES = re.compile(rb"<!DOCTYPE[^>]*\[")  # OpenOffice writes others, without declarations
SHOWN_ERROR = re.compile(r"#(?:DIV/0!|N/A|NAME\?|NULL!|NUM!|REF!|VALUE!)|Err:\d{3}")
QUOTES = (ord('"'), ord("'"))
MOST_ROWS = 10**7
Array = np.ndarray
Errors = dict[tuple[int, int], str]
Inside = dict[str, zipfile.ZipInfo]  # parts of a workbook by name in lower case


def check_workbook(path: Path) -> None:
    """Refuse workbooks that are protected, damaged, or expand beyond all proportion."""
    with path.open("rb") as file:
        head = file.read(4)
        if head == OLE and path.suffix.lower() in (".xlsx", ".xlsm", ".ods"):
            protected = ENCRYPTED in head + file.read()
            raise StudyError(f"{path.name}: {PROTECTED if protected else NOT_VALID}.")
        if head == OLE and has_endless_chain(head + file.read()):
            raise StudyError(f"{path.name}: {NOT_VALID}.")
    if head != OLE:
        with _archive(path) as archive:
            _check_sizes(path, archive)


def _archive(path: Path) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(path)
    except (zipfile.BadZipFile, OSError, EOFError, ValueError, NotImplementedError):
        raise StudyError(f"{path.name}: {NOT_VALID}.") from None


def _check_sizes(path: Path, archive: zipfile.ZipFile) -> None:
    """Refuse by declared size, passwords, and parts that declare XML entities."""
    size, inside = path.stat().st_size, archive.infolist()
    if sum(info.file_size for info in inside) > max(LEAST, MOST_TIMES * size):
        raise StudyError(too_large(path))
    if any(info.compress_size > size for info in inside):  # which a read would reserve
        raise StudyError(f"{path.name}: {NOT_VALID}.")
    if any(info.flag_bits & 1 for info in inside):
        raise StudyError(f"{path.name}: {PROTECTED}.")
    for info in inside:
        if info.filename.lower().endswith((".xml", ".rels")):
            head = next(_parts(path, archive, info), b"")
            if DECLARES.search(head[: 1 << 12]) or b"<!ENTITY" in head:
                raise StudyError(
                    f"{path.name}: declares XML entities, which workbooks do not need; save it again."
                )


def _parts(path: Path, archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Iterator[bytes]:
    """The content of a part in chunks; more than is declared is an error."""
    try:
        with archive.open(info) as file:
            while chunk := file.read(CHUNK):
                yield chunk
    except (*DAMAGED, RuntimeError, NotImplementedError, ValueError):
        raise StudyError(f"{path.name}: {NOT_VALID}.") from None


def errors_in(path: Path, sheet: str) -> Errors:
    """Error cells of a sheet, such as #DIV/0!, by row and column from 0.

    Raises
    ------
    StudyError
        If the filled cells are spread over an area that is too large.
    """
    with path.open("rb") as file:
        if file.read(4) == OLE:
            return {}
    with _archive(path) as archive:
        inside = {_plain(info.filename): info for info in archive.infolist()}
        if "content.xml" in inside:
            return _of_open_document(path, archive, sheet)
        return _of_part(path, archive, _part_of(path, archive, inside, sheet))


def _plain(name: str) -> str:
    """The name of a part, however it is written."""
    return posixpath.normpath(name.replace("\\", "/").lstrip("/")).lower()


def _part_of(path: Path, archive: zipfile.ZipFile, inside: Inside, sheet: str) -> zipfile.ZipInfo:
    """The part with the cells of a sheet."""
    try:
        book = _linked(archive, inside, "", "officeDocument")[0]
        of_sheets = dict(_links(archive, inside, book))
        key = next(
            value
            for one in ElementTree.fromstring(archive.read(inside[book])).iter()
            if one.tag.endswith("}sheet") and one.get("name") == sheet
            for name, value in one.attrib.items()
            if name.endswith("}id")
        )
        return inside[of_sheets[key]]
    except (*DAMAGED, StopIteration, KeyError, IndexError, ElementTree.ParseError, ValueError, RuntimeError):
        raise StudyError(f"{path.name}: {NOT_VALID}.") from None


def _linked(archive: zipfile.ZipFile, inside: Inside, source: str, kind: str) -> list[str]:
    """Names of the parts of a kind that a part links to."""
    links = ElementTree.fromstring(archive.read(inside[_links_name(source)]))
    return [_target(source, one) for one in links if str(one.get("Type")).endswith(f"/{kind}")]


def _links(archive: zipfile.ZipFile, inside: Inside, source: str) -> Iterator[tuple[str, str]]:
    for one in ElementTree.fromstring(archive.read(inside[_links_name(source)])):
        yield str(one.get("Id")), _target(source, one)


def _links_name(source: str) -> str:
    folder, name = posixpath.split(source)
    return posixpath.join(folder, "_rels", f"{name}.rels")


def _target(source: str, link: ElementTree.Element) -> str:
    target = str(link.get("Target")).replace("\\", "/")
    return _plain(target if target.startswith("/") else posixpath.join(posixpath.dirname(source), target))


def _of_part(path: Path, archive: zipfile.ZipFile, part: zipfile.ZipInfo) -> Errors:
    """Error cells of a sheet of Excel; its area is checked on the way."""
    found: Errors = {}
    filled, width, height, rest = 0, 0, 0, b""
    for chunk in _parts(path, archive, part):
        text = rest + chunk
        end = text.rfind(b"</") if len(chunk) == CHUNK else len(text)  # complete cells
        text, rest = text[:end], text[end:]
        columns, rows = _places(text)
        filled += len(columns)
        width, height = max(width, int(columns.max(initial=0))), max(height, int(rows.max(initial=0)))
        if b't="e"' in text:
            found |= {
                (int(n) - 1, _column(a)): v.decode("utf-8", "replace") for a, n, v in ERROR.findall(text)
            }
    _check_area(path, height * width, filled)
    return found


def _places(text: bytes) -> tuple[Array, Array]:
    """Columns and rows, from 1, of all cells in the XML of a sheet: ``r="B7"`` is 2 and 7.

    The row is 0 where digits are too many.

    >>> [found.tolist() for found in _places(b'<c r="B7"><v>1</v></c><c s="1" r="AA12"/><row r="3">')]
    [[2, 27], [7, 12]]
    """
    codes = np.frombuffer(text + bytes(LONGEST_PLACE + 3), dtype=np.uint8)
    at = np.flatnonzero(codes == ord("="))
    at = at[at >= 2]
    at = at[(codes[at - 1] == ord("r")) & (codes[at - 2] == ord(" ")) & np.isin(codes[at + 1], QUOTES)]
    window = codes[at[:, None] + 2 + np.arange(LONGEST_PLACE)]
    letter, digit = window - 65 < 26, window - 48 < 10  # unsigned: smaller codes wrap around
    n_letters = np.where(letter[:, 0], 1 + letter[:, 1] * (1 + letter[:, 2] * (1 + letter[:, 3])), 0)
    cells = (n_letters >= 1) & (n_letters <= 3)
    cells &= np.take_along_axis(digit, np.minimum(n_letters, 3)[:, None], axis=1)[:, 0]
    window, digit, n_letters = window[cells], digit[cells], n_letters[cells].astype(np.int32)
    column, row, open_ = np.zeros_like(n_letters), np.zeros_like(n_letters), np.ones(len(window), dtype=bool)
    for j in range(LONGEST_PLACE):
        code, named = window[:, j].astype(np.int32), j < n_letters
        if j < 3:
            column = np.where(named, 26 * column + code - 64, column)
        number = ~named & digit[:, j] & open_ & (row < MOST_ROWS)
        open_ &= named | number
        row = np.where(number, 10 * row + code - 48, row)
    return column, np.where(row < MOST_ROWS, row, 0)


def _check_area(path: Path, area: int, filled: int) -> None:
    if area > MOST_CELLS and area > SPARSEST * filled:
        raise StudyError(
            f"{visible(path.name)}: {filled} cells are spread over an area of {area}; delete stray cells far "
            "from the table."
        )


def _column(letters: bytes) -> int:
    """The number of a column from 0.

    >>> _column(b"A"), _column(b"AA"), _column(b"XFD")
    (0, 26, 16383)
    """
    number = 0
    for letter in letters:
        number = 26 * number + letter - 64
    return number - 1


class _OpenDocument:
    """Counts the cells of a sheet of an OpenDocument spreadsheet, and notes its error cells.

    LibreOffice marks them; Excel stores the number 0, and the error as the text that is shown.
    """

    def __init__(self, sheet: str) -> None:
        self.sheet, self.inside = sheet, False
        self.row, self.column, self.rows = 0, 0, 1
        self.width, self.height, self.filled = 0, 0, 0
        self.error, self.typed, self.remark = False, False, False
        self.text, self.errors = "", Errors()

    def start(self, name: str, given: dict[str, str]) -> None:
        if name == "table:table":
            self.inside = given.get("table:name") == self.sheet
        elif not self.inside:
            return
        elif name == "table:table-row":
            self.rows, self.column = _times(given.get("table:number-rows-repeated")), 0
        elif name in ("table:table-cell", "table:covered-table-cell"):
            self._cell(given)
        elif name == "office:annotation":
            self.remark = True

    def _cell(self, given: dict[str, str]) -> None:
        times = _times(given.get("table:number-columns-repeated"))
        kind = given.get("office:value-type")
        if kind is not None:
            self.width = max(self.width, self.column + times)
            self.height = self.row + self.rows
            self.filled += times * self.rows
        self.error, self.text = given.get("calcext:value-type") == "error", ""
        self.typed = kind not in (None, "string")
        self.column += times

    def data(self, text: str) -> None:
        if (self.error or self.typed) and not self.remark:
            self.text += text

    def end(self, name: str) -> None:
        if name == "table:table":
            self.inside = False
        elif self.inside and name == "table:table-row":
            self.row += self.rows
        elif name == "office:annotation":
            self.remark = False
        elif self.inside and name == "table:table-cell":
            shown = self.text.strip()
            if self.error or (self.typed and SHOWN_ERROR.fullmatch(shown)):
                self.errors[self.row, self.column - 1] = shown or "#ERROR!"
            self.error = self.typed = False


def _times(text: str | None) -> int:
    return min(int(text), 1 << 31) if text and text.isascii() and text.isdecimal() else 1


def _of_open_document(path: Path, archive: zipfile.ZipFile, sheet: str) -> Errors:
    handler, parser = _OpenDocument(sheet), expat.ParserCreate()
    parser.StartElementHandler, parser.EndElementHandler = handler.start, handler.end
    parser.CharacterDataHandler = handler.data
    try:
        for chunk in _parts(path, archive, archive.getinfo("content.xml")):
            parser.Parse(chunk)
        parser.Parse(b"", True)
    except expat.ExpatError:
        raise StudyError(f"{path.name}: {NOT_VALID}.") from None
    _check_area(
        path, handler.width * handler.height, max(handler.filled, 1) if handler.filled < 1 << 27 else 1
    )
    return handler.errors
