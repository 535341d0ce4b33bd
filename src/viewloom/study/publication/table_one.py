"""Table 1 of a paper: characteristics of the clusters, with tests; the cells are those of the report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from viewloom.clinical.used import USED
from viewloom.study.publication.blocks import Block, Bullets, Grid, Heading, write_docx
from viewloom.study.publication.record import Record
from viewloom.study.run.tables import inert_text, write_csv

TESTED = ("test", "p", "q")  # columns of the table of associations that are added
MARK = "†"
NOT_TESTED = (
    f"{MARK} Used for clustering, as a feature or a close correlate of one: clusters differ in what formed "
    "them whatever the data, so that there is no valid p or q."
)
CORRECTED = (
    "q is p corrected for the number of variables (Benjamini-Hochberg). Where numbers of a variable are "
    "hidden, of p and q only the range is given."
)


@dataclass(frozen=True)
class TableOne:
    """Table 1.

    Attributes
    ----------
    title : str
    columns : tuple of str
    rows : tuple of tuples of str
    footnotes : tuple of str
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    footnotes: tuple[str, ...]

    @classmethod
    def of(cls, record: Record) -> TableOne:
        """The table of a run; without clinical variables, sizes and stability of the clusters."""
        profile, title = record.table("profile"), f"Table 1. Clusters of {record.title}"
        if profile is None:
            profile = record.table("clusters") or {"columns": [], "rows": [], "about": ""}
            plain = tuple(map(_texts, profile["rows"]))
            return cls(title, _columns(profile), plain, _footnotes(record, plain, profile["about"]))
        tested, columns = _tests(record), _columns(profile)
        added = tuple(name for name in TESTED if any(name in row for row in tested.values()))
        rows, previous = [], None
        for row in map(_texts, profile["rows"]):
            first = row[0] != previous
            found = tested.get(row[0], {}) if first else {}
            name = row[0] if first else ""
            rows.append((name, *row[1:], *(found.get(column, "") for column in added)))
            previous = row[0]
        notes = _footnotes(record, rows, profile["about"], CORRECTED if added else "")
        used = (NOT_TESTED,) if any(MARK in row for row in rows) else ()
        return cls(title, (*columns, *added), tuple(rows), (*used, *notes))

    @property
    def frame(self) -> pd.DataFrame:
        """The table as text."""
        return pd.DataFrame(list(self.rows), columns=list(self.columns), dtype=str)

    @property
    def blocks(self) -> list[Block]:
        """The table as blocks of a document."""
        return [Heading(self.title, 2), Grid(self.columns, self.rows), Bullets(self.footnotes)]


def _columns(table: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(str(column["label"]) for column in table["columns"])


def _texts(row: list[Mapping[str, Any]]) -> tuple[str, ...]:
    return tuple(str(cell["text"]) for cell in row)


def _tests(record: Record) -> dict[str, dict[str, str]]:
    """The row of each variable in the table of associations, by column; a mark where p is not valid."""
    table = record.table("associations")
    if table is None:
        return {}
    rows = [dict(zip(_columns(table), _texts(row), strict=True)) for row in table["rows"]]
    marks = dict.fromkeys(TESTED, "") | {"test": MARK}
    return {
        row["variable"]: {**row, **(marks if row.get("significant") == USED else {})}
        for row in rows
        if "variable" in row
    }


def _footnotes(record: Record, rows: Sequence[tuple[str, ...]], *about: str) -> tuple[str, ...]:
    """What the table shows, and what the signs of hidden numbers in it mean."""
    least, cells = record.methods["min_cell"], [cell for row in rows for cell in row[2:]]
    derived = "since a smaller number could be derived from it"
    signs = {
        f"<{least}": f"fewer than {least} subjects",
        f"≥{least}": f"at least {least}, not shown exactly {derived}",
        "hidden": f"not shown {derived}",
        "about": f"rounded {derived}",
        "\N{EN DASH}": "not shown, since hidden numbers could be derived from it",
    }
    starts = {cell.split(" ")[0] for cell in cells}
    found = "; ".join(f"{sign}: {text}" for sign, text in signs.items() if sign in starts)
    return tuple(note for note in (*about, f"{found}." if found else "") if note)


def write_table_csv(table: TableOne, path: Path) -> None:
    """Write the table as CSV; text that a spreadsheet would evaluate is prefixed by an apostrophe."""
    write_csv(table.frame, path)


def write_table_xlsx(table: TableOne, path: Path) -> None:
    """Write the table as an Excel file of plain text, with title and footnotes; no cell is a formula."""
    from openpyxl import Workbook
    from openpyxl.styles import Font

    book = Workbook()
    sheet: Any = book.active
    sheet.title = "Table 1"
    lines = [(table.title,), table.columns, *table.rows, (), *((note,) for note in table.footnotes)]
    for i, line in enumerate(lines, 1):
        for j, text in enumerate(line, 1):
            if text:
                cell = sheet.cell(i, j, inert_text(text))
                cell.data_type, cell.font = "s", Font(bold=i <= 2)
    sheet.freeze_panes = "A3"
    for j, name in enumerate(table.columns, 1):
        longest = max([len(name), *(len(row[j - 1]) for row in table.rows)])
        sheet.column_dimensions[sheet.cell(2, j).column_letter].width = min(longest + 2, 40)
    book.save(path)


def write_table_docx(table: TableOne, path: Path) -> None:
    """Write the table as a Word file."""
    write_docx(table.blocks, path, {})
