"""The first rows and columns of a file, to see what it holds before it is used."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import pandas as pd

from viewloom.study import readers
from viewloom.study.drafting.kinds import known_as, unreadable_as
from viewloom.study.errors import StudyError
from viewloom.study.readers import arrow, text
from viewloom.study.readers.files import TextFile, kind_of, open_table, parts_of
from viewloom.study.readers.packed import open_bytes, unpacked_name
from viewloom.study.readers.text import NAMED

ROWS, COLUMNS = 10, 10  # shown
LINES, LONGEST = 200, 1 << 22  # of a text file that are read, and bytes of them
LARGEST = 1 << 26  # bytes of a file of another kind that can only be read whole


@dataclass(frozen=True, eq=False)
class Preview:
    """The beginning of a file.

    Attributes
    ----------
    format : str or None
        The format it is taken for; None if it is none.
    header : list of str
        Names of all columns; empty for files that are not tables.
    rows : DataFrame
        The first rows and columns, as text. Values of subjects: for the screen of their owner only.
    parts : tuple of (str, list of str) or None
        For files with several tables, the key that chooses one, and their names.
    remark : str
        Why there are no rows; empty if there are.
    """

    format: str | None
    header: list[str]
    rows: pd.DataFrame
    parts: tuple[str, list[str]] | None = None
    remark: str = ""


def preview(path: Path, part: dict[str, Any] | None = None, **options: Any) -> Preview:
    r"""Read the beginning of a file; large tables are not read whole.

    Parameters
    ----------
    path : Path
    part : dict, optional
        The sheet or object of a file with several tables.
    options : str
        Delimiter, decimal mark, thousands separator or encoding, where they are not detected.

    Examples
    --------
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     table = Path(folder, "a.csv")
    ...     _ = table.write_text("id;hippocampus\ns1;3,1\ns2;2,9\n")
    ...     preview(table).header
    ['id', 'hippocampus']
    """
    if path.is_file() and (known := known_as(path)):
        return Preview(None, [], pd.DataFrame(), remark=known)
    try:
        parts = None if path.is_dir() else parts_of(path)
        given = dict(part or {})
        if parts and not any(given.values()):
            given = {parts[0]: parts[1][0]}
        format = readers.sniff(path, given)
        if path.is_dir() or (format and readers.FORMATS[format].suffixes):
            known = (
                f"format {format}, which can be used as a view" if format else "a folder of unknown content"
            )
            return Preview(format, [], pd.DataFrame(), remark=known)
        frame, header = _beginning(path, {**given, **{k: v for k, v in options.items() if v}})
        return Preview(format, header, frame, parts)
    except (StudyError, ImportError) as error:
        why = unreadable_as(path) or str(error).removeprefix(f"{path.name}: ")
        return Preview(None, [], pd.DataFrame(), remark=why)


def _beginning(path: Path, given: dict[str, Any]) -> tuple[pd.DataFrame, list[str]]:
    """The first rows and columns as text, and the names of all columns."""
    kind = kind_of(path)
    if kind is None:
        return _of_text(path, given)
    if path.suffix.lower() in arrow.PARQUET:
        return _shown(arrow.first_rows(path, ROWS, COLUMNS)), arrow.header_of(path)
    if path.stat().st_size > LARGEST:
        raise StudyError(f"{path.name}: more than {LARGEST >> 20} MiB, which is too large for a preview.")
    frame = open_table(path, **given).load()
    return _shown(frame), [str(name) for name in frame.columns]


def _of_text(path: Path, given: dict[str, Any]) -> tuple[pd.DataFrame, list[str]]:
    """The same of text, of which the first lines are read."""
    with tempfile.TemporaryDirectory() as folder, open_bytes(path) as file:
        start = Path(folder, unpacked_name(path))
        start.write_bytes(b"".join(islice(iter(lambda: file.readline(LONGEST), b""), LINES)))
        table = open_table(start, candidates=NAMED.values(), **given)
        assert isinstance(table, TextFile)  # as every file of no other kind
        return _shown(text.first_rows(start, table.dialect, ROWS, COLUMNS)), table.header


def _shown(frame: pd.DataFrame) -> pd.DataFrame:
    shown = frame.iloc[:ROWS, :COLUMNS]
    return shown.astype(object).where(shown.notna(), "").map(str)
