"""Kinds of files that hold a table, and how each is opened: the cells as they are, before any check."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from inspect import Parameter, signature
from math import prod
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypedDict, get_type_hints

import pandas as pd

from viewloom.data.naming import listed
from viewloom.study.errors import StudyError, check_readable
from viewloom.study.notes import Note, count_note
from viewloom.study.readers import arrow, rfiles, sheets, statfiles
from viewloom.study.readers.descriptions import NOTE as DESCRIPTIONS
from viewloom.study.readers.notation import Notation
from viewloom.study.readers.packed import PACKED
from viewloom.study.readers.text import (
    DELIMITERS,
    Dialect,
    about_lines,
    find_dialect,
    find_notation,
    lacks_end,
    load,
    load_blocks,
    padded_columns,
    short_rows,
)

Given = Mapping[str, Any]
LARGE_TEXT, LARGE_CELLS = 2**27, 2**24  # bytes of text, and cells of Parquet, from which blocks are read
LEVELS = ("with value labels read as their codes", "with value labels read as their labels")


class TablePart(TypedDict, total=False):
    """Keys of study.toml that choose one of several tables of a file; see `open_table`."""

    sheet: str | int | None
    object: str | None


def with_part(read: Callable[..., pd.DataFrame]) -> Callable[..., pd.DataFrame]:
    """Give a reader the keys of `TablePart` as keyword-only parameters, in place of ``**part``."""
    kinds = get_type_hints(TablePart)
    shared = [Parameter(name, Parameter.KEYWORD_ONLY, default=None, annotation=kinds[name]) for name in kinds]
    return with_parameters(read, shared)


def with_parameters(
    read: Callable[..., pd.DataFrame], shared: Iterable[Parameter]
) -> Callable[..., pd.DataFrame]:
    """Show keyword-only parameters in the signature of a reader, in place of those with two stars."""
    given = signature(read)
    own = [one for one in given.parameters.values() if one.kind is not Parameter.VAR_KEYWORD]
    read.__signature__ = given.replace(parameters=[*own, *shared])  # type: ignore[attr-defined]
    return read


class TableFile(Protocol):
    """An opened file with a table; in a `typed` file cells are read as what they are, not as text."""

    typed: ClassVar[bool]

    @property
    def header(self) -> list[str]:
        """Names of the columns, duplicates included."""

    @property
    def notation(self) -> Notation:
        """Notation of numbers in text cells."""

    @property
    def notes(self) -> list[Note]:
        """What was left out, or decided."""

    def load(self, text: Collection[str] | None = (), *, levels: bool = False) -> pd.DataFrame:
        """The cells; columns in `text` as text, all if None; with `levels`, labels instead of codes."""

    def padded(self) -> list[str]:
        """Columns with zero-padded cells, which are codes."""

    @property
    def is_large(self) -> bool:
        """Whether the table is better read in blocks."""

    @property
    def about_rows(self) -> int:
        """About how many rows it has; 0 if that is not known without reading it."""

    def blocks(self, columns: Collection[str], text: Collection[str], rows: int) -> Iterator[pd.DataFrame]:
        """Blocks of so many rows with at least these columns; those in `text` as text. Then see `notes`."""


@dataclass(frozen=True)
class Kind:
    """A kind of file, an entry of `KINDS`.

    Parameters
    ----------
    title : str
        What people call it.
    suffixes : tuple of str
        Ends of names in lower case.
    load : callable
        ``load(path, given, notes, levels)`` returns the cells.
    header : callable
        ``header(path, given)`` returns the names of the columns.
    options : tuple of str
        Keys of study.toml, beside decimal and thousands, that apply to it.
    extra : str
        The extra of viewloom that it needs.
    parts : callable
        Names of the sheets or objects of a file with several tables, and the key that chooses one.
    """

    title: str
    suffixes: tuple[str, ...]
    load: Callable[[Path, Given, list[Note], bool], pd.DataFrame]
    header: Callable[[Path, Given], list[str]]
    options: tuple[str, ...] = ()
    extra: str = ""
    parts: tuple[str, Callable[[Path], list[str]]] | None = None


@dataclass
class TextFile:
    """A delimited text, which may be compressed."""

    typed: ClassVar[bool] = False
    path: Path
    dialect: Dialect
    notes: list[Note] = field(default_factory=list)

    @property
    def header(self) -> list[str]:
        """Names of the columns."""
        return self.dialect.header

    @property
    def notation(self) -> Notation:
        """Notation of numbers."""
        return self.dialect.notation

    def load(self, text: Collection[str] | None = (), *, levels: bool = False) -> pd.DataFrame:
        """The cells."""
        frame = load(self.path, self.dialect, text=text)
        foot = frame.attrs.pop("notes", 0)
        self.notes = self._noted(lacks_end(self.dialect, frame), foot)
        return frame

    def _noted(self, lacking: bool, foot: int = 0) -> list[Note]:
        """Lines around the table, and short rows, of which there are none unless cells are `lacking`."""
        above = self.dialect.above
        short = short_rows(self.path, self.dialect) - foot if lacking else 0
        return [
            *count_note(above, "line above the header", "lines above the header", public=True),
            *count_note(len(self.dialect.below), *DESCRIPTIONS, public=True),
            *count_note(foot, *sheets.BELOW),
            *count_note(short, "row", text="with fewer cells than the header: the last ones are missing"),
        ]

    def padded(self) -> list[str]:
        """Columns with zero-padded cells."""
        return padded_columns(self.path, self.dialect)

    @property
    def is_large(self) -> bool:
        """By the size of the file."""
        return self.path.stat().st_size >= LARGE_TEXT

    @property
    def about_rows(self) -> int:
        """By the length of the first lines."""
        return about_lines(self.path)

    def blocks(self, columns: Collection[str], text: Collection[str], rows: int) -> Iterator[pd.DataFrame]:
        """Blocks of rows, with all columns."""
        lacking = False
        for block in load_blocks(self.path, self.dialect, rows, text=text):
            lacking = lacking or lacks_end(self.dialect, block)
            yield block
        self.notes = self._noted(lacking)


@dataclass
class CellFile:
    """A file whose cells have types."""

    typed: ClassVar[bool] = True
    path: Path
    kind: Kind
    given: Given
    notation: Notation
    notes: list[Note] = field(default_factory=list)

    @cached_property
    def header(self) -> list[str]:
        """Names of the columns."""
        return self.kind.header(self.path, self.given)

    def load(self, text: Collection[str] | None = (), *, levels: bool = False) -> pd.DataFrame:
        """The cells; those that are numbers stay so, since they have no leading zeros."""
        self.notes.clear()
        frame = self.kind.load(self.path, self.given, self.notes, levels)
        found = frame.attrs.get("labelled", [])
        shown = f"{LEVELS[levels]}: {listed(found)}"
        self.notes += count_note(len(found), "column", text=shown, public=True)
        frame.attrs = {}  # pandas would copy them with every column
        return frame

    def padded(self) -> list[str]:
        """None: typed cells say whether they are codes."""
        return []

    @property
    def is_large(self) -> bool:
        """Parquet with many cells; other kinds cannot be read in blocks."""
        return self._is_parquet and prod(arrow.shape_of(self.path)) >= LARGE_CELLS

    @property
    def about_rows(self) -> int:
        """As Parquet says; 0 for other kinds."""
        return arrow.shape_of(self.path)[0] if self._is_parquet else 0

    def blocks(self, columns: Collection[str], text: Collection[str], rows: int) -> Iterator[pd.DataFrame]:
        """Blocks of rows; whole where the kind has none."""
        if self._is_parquet:
            yield from arrow.load_blocks(self.path, columns, rows)
        else:
            yield self.load(text)

    @property
    def _is_parquet(self) -> bool:
        return self.path.suffix.lower() in arrow.PARQUET


def kind_of(path: Path) -> Kind | None:
    """The kind of a file by its name; None for delimited text.

    >>> kind_of(Path("a.xlsx")).title, kind_of(Path("a.csv"))
    ('Excel or OpenDocument workbook', None)
    """
    suffix = path.suffix.lower()
    return next((kind for kind in KINDS.values() if suffix in kind.suffixes), None)


def misplaced(path: Path, options: Iterable[str]) -> dict[str, str]:
    """Options that a file of this kind does not have, with the kinds that have them.

    >>> misplaced(Path("a.csv"), ["sheet", "decimal"])
    {'sheet': 'delimited text; it is for Excel or OpenDocument workbook'}
    """
    kind = kind_of(path)
    own = TEXT_OPTIONS if kind is None else kind.options
    title = "delimited text" if kind is None else kind.title
    return {
        option: f"{title}; it is for {' and '.join(homes)}"
        for option in options
        if option not in own and (homes := _homes(option))
    }


def _homes(option: str) -> list[str]:
    texts = ["delimited text"] if option in TEXT_OPTIONS else []
    return texts + [kind.title for kind in KINDS.values() if option in kind.options]


def open_table(
    path: Path,
    *,
    delimiter: str | None = None,
    decimal: str | None = None,
    thousands: str | None = None,
    encoding: str | None = None,
    sheet: str | int | None = None,
    object: str | None = None,
    candidates: Iterable[str] = tuple(DELIMITERS.values()),
    options: bool = False,
) -> TableFile:
    """Open a file with a table of any kind; see `text.find_dialect` for the parameters of text.

    Parameters
    ----------
    path : Path
    sheet : str or int, optional
        Workbooks: name or number of the sheet.
    object : str, optional
        RData: name of the object.
    candidates : iterable of str
        Delimiters that are considered.
    options : bool
        Whether the format has the options decimal and thousands.
    """
    kind = kind_of(path)
    given = {"delimiter": delimiter, "encoding": encoding, "sheet": sheet, "object": object}
    for option, why in misplaced(path, [name for name, value in given.items() if value is not None]).items():
        raise StudyError(f"{path.name}: {option} is not an option of {why}.")
    if kind is None:
        dialect = find_dialect(
            path,
            delimiter=delimiter,
            decimal=decimal,
            thousands=thousands,
            encoding=encoding,
            candidates=candidates,
            options=options,
        )
        return TextFile(path, dialect)
    check_readable(path)
    notation = replace(find_notation(decimal, thousands), options=options)
    return CellFile(path, kind, {**given, "decimal": notation.decimal}, notation)


def parts_of(path: Path) -> tuple[str, list[str]] | None:
    """The key that chooses one of several tables of a file, and their names; None for a single table."""
    kind = kind_of(path)
    if kind is None or kind.parts is None:
        return None
    key, names = kind.parts
    found = names(path)
    return (key, found) if len(found) > 1 else None


def _sheet(path: Path, given: Given, notes: list[Note], levels: bool) -> pd.DataFrame:
    return sheets.load_sheet(path, given["sheet"], notes, given["decimal"])


def _object(path: Path, given: Given, notes: list[Note], levels: bool) -> pd.DataFrame:
    return rfiles.load_rfile(path, given["object"], notes)


def _statfile(path: Path, given: Given, notes: list[Note], levels: bool) -> pd.DataFrame:
    return statfiles.load_statfile(path, given["encoding"], levels=levels)


def _stat_header(path: Path, given: Given) -> list[str]:
    return statfiles.header_of(path, given.get("encoding"))


def _arrow(path: Path, given: Given, notes: list[Note], levels: bool) -> pd.DataFrame:
    return arrow.load_arrow(path)


TEXT_OPTIONS = ("delimiter", "encoding")
TEXT_SUFFIXES = (".csv", ".tsv", ".txt", *(f".csv{end}" for end in PACKED[:-1]), PACKED[-1])
KINDS: dict[str, Kind] = {
    "parquet": Kind(
        "Parquet", arrow.PARQUET, _arrow, lambda path, given: arrow.header_of(path), extra="study"
    ),
    "feather": Kind(
        "Feather", arrow.FEATHER, _arrow, lambda path, given: arrow.header_of(path), extra="study"
    ),
    "excel": Kind(
        "Excel or OpenDocument workbook",
        sheets.SUFFIXES,
        _sheet,
        lambda path, given: list(_sheet(path, given, [], False).columns),
        ("sheet",),
        "files",
        ("sheet", sheets.sheet_names),
    ),
    "spss": Kind(
        "SPSS",
        statfiles.SPSS,
        _statfile,
        _stat_header,
        ("encoding",),
        "files",
    ),
    "stata": Kind(
        "Stata",
        statfiles.STATA,
        _statfile,
        _stat_header,
        ("encoding",),
        "files",
    ),
    "sas": Kind("SAS", statfiles.SAS, _statfile, _stat_header, ("encoding",), "files"),
    "r": Kind(
        "R",
        rfiles.SUFFIXES,
        _object,
        lambda path, given: list(_object(path, given, [], False).columns),
        ("object",),
        "files",
        ("object", rfiles.objects_in),
    ),
}
