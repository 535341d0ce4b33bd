"""Lists of variants and subjects beside a file of genotypes: text in columns, without quotation marks."""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import pandas as pd

from viewloom.runtime.errors import MissingPackageError

BLOCK = 1 << 24  # bytes that are read at a time, at least one line


def read_list(content: bytes, names: Sequence[str], used: Sequence[str], place: str = "") -> pd.DataFrame:
    r"""Some columns of a list as text; cells are separated by a tab, or by any blanks.

    Parameters
    ----------
    content : bytes
        Lines in UTF-8, without a header.
    names, used : sequence of str
        Names of all columns, and of those that are returned.
    place : str
        The column of positions, which are integers where all cells are.

    Raises
    ------
    ValueError
        If a line has more or fewer cells, or is not UTF-8.

    Examples
    --------
    >>> names = ["chromosome", "variant", "position"]
    >>> print(read_list(b"1 rs1 7\n1 rs2 9\n", names, ["position"], "position"))
       position
    0         7
    1         9
    """
    try:
        table = _read(content, names, used)
    except ValueError:
        table = _read(_tabbed(content), names, used)
    if place in used:
        table = _with_integers(table, place)
    found: pd.DataFrame = table.to_pandas()
    return found


def width(content: bytes) -> int:
    r"""Number of cells of the first line.

    >>> width(b"1\trs1\t7\r\n")
    3
    """
    return len(re.split(rb"[\r\n]", content[:BLOCK].lstrip(), maxsplit=1)[0].split())


def _read(content: bytes, names: Sequence[str], used: Sequence[str]) -> Any:
    arrow, text = _arrow(), _arrow("csv")
    try:
        return text.read_csv(
            arrow.BufferReader(content),
            text.ReadOptions(use_threads=False, block_size=BLOCK, column_names=list(names)),
            text.ParseOptions(delimiter="\t", quote_char=False),
            text.ConvertOptions(
                column_types=dict.fromkeys(used, arrow.string()), include_columns=list(used), null_values=[]
            ),
        )
    except KeyError as error:
        raise ValueError from error


def _tabbed(content: bytes) -> bytes:
    """Lines with one tab between cells that are separated by any blanks."""
    return b"\n".join(b"\t".join(line.split()) for line in content.splitlines())


def _with_integers(table: Any, name: str) -> Any:
    at = table.column_names.index(name)
    try:
        return table.set_column(at, name, table[name].cast(_arrow().int64()))
    except ValueError:
        return table


def _arrow(part: str = "") -> Any:
    try:
        return import_module(f"pyarrow.{part}" if part else "pyarrow")
    except ImportError as error:
        raise MissingPackageError("Genotypes need pyarrow: pip install viewloom[study]") from error
