"""Documents as blocks, which are written as Markdown and as Word files.

Text is plain: it may hold names from files, so that everything with a meaning in Markdown is escaped when it
is written.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~$^@&!])")


@dataclass(frozen=True)
class Statement:
    """A sentence, and the keys of the references that it cites.

    Examples
    --------
    >>> cited = Statement("P-values were corrected by Holm's method", "holm1979")
    >>> cited.cites
    ('holm1979',)
    """

    text: str
    cites: tuple[str, ...]

    def __init__(self, text: str, *cites: str) -> None:
        object.__setattr__(self, "text", text.rstrip("."))
        object.__setattr__(self, "cites", cites)


@dataclass(frozen=True)
class Heading:
    """A heading of a level from 1."""

    text: str
    level: int = 1


@dataclass(frozen=True)
class Paragraph:
    """Statements that follow each other."""

    statements: tuple[Statement, ...]


@dataclass(frozen=True)
class Bullets:
    """A list."""

    items: tuple[str, ...]


@dataclass(frozen=True)
class Grid:
    """A table: names of columns, and rows of text."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


Block = Heading | Paragraph | Bullets | Grid


def paragraph(*statements: Statement | str) -> Paragraph:
    """A paragraph of statements; text cites nothing."""
    return Paragraph(tuple(Statement(s) if isinstance(s, str) else s for s in statements))


def cited(blocks: Iterable[Block]) -> list[str]:
    """Keys of all references that blocks cite, in order of appearance."""
    found = [
        key
        for block in blocks
        if isinstance(block, Paragraph)
        for statement in block.statements
        for key in statement.cites
    ]
    return list(dict.fromkeys(found))


def escaped(text: str) -> str:
    r"""Text on one line, without any meaning in Markdown, HTML, or as a citation of Pandoc.

    >>> print(escaped("a_b <script> [x](y) @z"))
    a\_b \<script\> \[x\](y) \@z
    """
    return SPECIAL.sub(r"\\\1", " ".join(text.split()))


def to_markdown(blocks: Iterable[Block]) -> str:
    """Blocks as Markdown; references are cited as Pandoc does, by the keys of the BibTeX file."""
    return "\n\n".join(MARKDOWN[type(block)](block) for block in blocks) + "\n"


def _sentence(statement: Statement) -> str:
    keys = "; ".join(f"@{key}" for key in statement.cites)
    return escaped(statement.text) + (f" [{keys}]" if keys else "") + "."


def _grid(grid: Grid) -> str:
    rows = [grid.columns, ("---",) * len(grid.columns), *grid.rows]
    shown = [row if row[0] == "---" else tuple(map(escaped, row)) for row in rows]
    return "\n".join(f"| {' | '.join(row)} |" for row in shown)


MARKDOWN: dict[type, Callable[[Any], str]] = {
    Heading: lambda block: f"{'#' * block.level} {escaped(block.text)}",
    Paragraph: lambda block: " ".join(map(_sentence, block.statements)),
    Bullets: lambda block: "\n".join(f"- {escaped(item)}" for item in block.items),
    Grid: _grid,
}


def write_docx(blocks: Iterable[Block], path: Path, short: Mapping[str, str]) -> None:
    """Write blocks as a Word file.

    Parameters
    ----------
    blocks : iterable of Block
    path : Path
    short : dict of str to str
        How each reference is cited, such as "Holm 1979".
    """
    from docx import Document

    document = Document()
    for block in blocks:
        if isinstance(block, Heading):
            document.add_heading(block.text, block.level)
        elif isinstance(block, Paragraph):
            document.add_paragraph(" ".join(_prose(statement, short) for statement in block.statements))
        elif isinstance(block, Bullets):
            for item in block.items:
                document.add_paragraph(item, style="List Bullet")
        else:
            _add_grid(document, block)
    document.core_properties.author = ""
    document.save(str(path))


def _prose(statement: Statement, short: Mapping[str, str]) -> str:
    names = "; ".join(short[key] for key in statement.cites)
    return statement.text + (f" ({names})" if names else "") + "."


def _add_grid(document: Any, grid: Grid) -> None:
    """Add a table with a bold first row, which is repeated on every page."""
    table = document.add_table(rows=1, cols=len(grid.columns), style="Table Grid")
    _fill(table.rows[0], grid.columns, bold=True)
    for row in grid.rows:
        _fill(table.add_row(), row)


def _fill(row: Any, texts: Sequence[str], bold: bool = False) -> None:
    from docx.shared import Pt

    for cell, text in zip(row.cells, texts, strict=True):
        run = cell.paragraphs[0].add_run(text)
        run.bold, run.font.size = bold, Pt(8)
