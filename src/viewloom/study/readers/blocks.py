"""Large tables in blocks of rows: memory is that of the numbers, in single precision, and of one block.

Single precision has seven digits, more than any measurement of a subject; what is estimated from the numbers,
such as means and effects, is computed in double precision.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd

from viewloom.runtime.progress import stage
from viewloom.study.notes import Note, count_note
from viewloom.study.readers import frames
from viewloom.study.readers.files import TableFile
from viewloom.study.readers.frames import Aside, Codes, Patterns
from viewloom.study.readers.notation import Notation, fractions, looks_grouped
from viewloom.study.readers.sheets import SUMMARIES
from viewloom.study.wording import folded

Array = np.ndarray
BLOCK_CELLS = 2**23  # cells of a block
INDEX = "__index_level_"  # the start of names that pandas gives to an index without a name


class NotPlain(Exception):
    """A table with cells that only the reader of whole tables can judge."""


@dataclass(eq=False)
class Doubts:
    """Columns whose numbers may be thousands, by all blocks so far; see `notation.may_be_grouped`."""

    notation: Notation
    open: Array  # positions of columns that may be
    fraction: Array = field(init=False)
    whole: Array = field(init=False)
    largest: Array = field(init=False)

    def __post_init__(self) -> None:
        size = len(self.open)
        self.fraction, self.whole = np.zeros(size, dtype=bool), np.zeros(size, dtype=bool)
        self.largest = np.zeros(size)

    def see(self, values: Array) -> None:
        """Look at another block (n x d)."""
        for j in self.open:
            known = values[np.isfinite(values[:, j]), j]
            parts = fractions(known)
            self.fraction[j] |= bool(len(parts))
            self.whole[j] |= len(parts) < len(known)
            self.largest[j] = max(self.largest[j], np.abs(known).max(initial=0.0))
            if not looks_grouped(parts):
                self.open = self.open[self.open != j]

    @property
    def any(self) -> bool:
        """Whether a column may have thousands, given all blocks."""
        if self.notation.given:
            return False
        beside = self.whole[self.open] | (not self.notation.certain)
        return bool((self.fraction[self.open] & beside & (self.largest[self.open] > 2)).any())


def wide_table(
    file: TableFile,
    path: Path,
    *,
    id: str,
    columns: Patterns,
    exclude: Patterns,
    codes: Codes,
    aside: Aside,
    notes: list[Note],
) -> pd.DataFrame | None:
    """The features of a large table, as `tables.read_table` gives them; None if not all cells are numbers."""
    found: list[Note] = []
    header = pd.DataFrame(columns=[name for name in file.header if not name.startswith(INDEX)])
    frames.column(header, id, path, "id")
    cells = frames.select(header.loc[:, header.columns != id], columns, exclude, path, found)
    cells, named = frames.apart(cells, aside, path)
    names = [str(name) for name in cells.columns]
    try:
        values, ids = gathered(file, path, id, names, codes, found)
    except NotPlain:
        return None
    index = frames.checked_ids(ids, path, hint=frames.repeats_hint(header))
    frame = frames.finish(
        pd.DataFrame(values, columns=names, copy=False), index, path, [*notes, *file.notes, *found]
    )
    frame.attrs["aside"] = named
    return frame


def is_plain(file: TableFile) -> bool:
    """Whether a table is large, and its numbers are written as pandas reads them."""
    return file.is_large and not file.notation.thousands and file.notation.decimal != ","


def gathered(
    file: TableFile, path: Path, id: str, names: list[str], codes: Codes, notes: list[Note]
) -> tuple[Array, pd.Series]:
    """Numbers (n x d, float32) and ids of all rows.

    `NotPlain` where a cell is no number, a column is boolean in some blocks only, or a row may be a comment
    or a total.
    """
    doubts, parts, ids, coded = Doubts(file.notation, np.arange(len(names))), [], [], 0
    truths = set[tuple[bool, ...]]()
    last = pd.Series(dtype=object)
    rows = max(BLOCK_CELLS // (len(names) + 1), 1)
    with stage(f"Reading {path.name}", file.about_rows) as advance:
        for block in file.blocks([id, *names], [id], rows):
            values = _numbers(block, id, names, frames.names_truth(codes))
            truths.add(tuple(map(pd.api.types.is_bool_dtype, block[names].dtypes)))
            last = block.iloc[:, 0]
            if _has_comment(last) or len(truths) > 1:
                raise NotPlain
            doubts.see(values)
            coded += _blanked(values, names, codes)
            parts.append(values.astype(np.float32))
            ids.append(block[id])
            advance(len(block))
    if doubts.any or not parts or folded(str(last.iloc[-1])) in SUMMARIES:
        raise NotPlain
    notes += count_note(coded, "cell", text="with a missing code set to missing")
    return np.concatenate(parts), pd.concat(ids, ignore_index=True)


def _numbers(block: pd.DataFrame, id: str, names: Sequence[str], truths: bool) -> Array:
    """Values (n x d) of a block; `NotPlain` where a cell is no number, or a row is blank.

    With `truths`, a boolean is no number, since it may be a missing code.
    """
    cells = block[list(names)]
    plain = all(pd.api.types.is_numeric_dtype(dtype) for dtype in cells.dtypes)
    plain &= not (truths and any(pd.api.types.is_bool_dtype(dtype) for dtype in cells.dtypes))
    if not plain or block[id].isna().any():
        raise NotPlain
    values = cells.to_numpy(dtype=np.float64, na_value=np.nan)
    ends = (extreme.reduce(values, axis=None, initial=0.0) for extreme in (np.fmin, np.fmax))
    if max(map(abs, ends)) > np.finfo(np.float32).max:  # infinite ones, too
        raise NotPlain
    return values


def _has_comment(first: pd.Series) -> bool:
    """Whether a cell of the first column begins as a comment does."""
    if pd.api.types.is_numeric_dtype(first):
        return False
    return bool(frames.as_text(first).str.startswith("#").any())


def _blanked(values: Array, names: list[str], codes: Codes) -> int:
    """Set missing codes to NaN in place; how many there were."""
    if not codes:
        return 0
    coded = frames.coded(names, values, codes)
    values[coded] = np.nan
    return int(coded.sum())


Rows = tuple[Array, pd.Series]  # of a block: places in a list of distinct texts, -1 where missing, and these


def numbered_pairs(
    blocks: Iterable[tuple[Rows, Rows]],
) -> tuple[Array, Array, list[str], list[str]]:
    """Numbers of ids and of codes of all rows (-1 for a blank code), and the ids and codes themselves."""
    ids, codes = list[Rows](), list[Rows]()
    for (subject, known), (at, texts) in blocks:
        ids.append((subject.astype(np.int32), known))
        codes.append((at.astype(np.int32), texts))
    (rows, subjects), (columns, names) = _numbered(ids), _numbered(codes)
    return rows, columns, subjects, names


def _numbered(blocks: Sequence[Rows]) -> tuple[Array, list[str]]:
    """The number of each row's text, in the order in which texts are first seen, and the texts."""
    numbers, known = pd.factorize(pd.concat([texts for _, texts in blocks], ignore_index=True))
    ends = np.cumsum([len(texts) for _, texts in blocks])[:-1]
    parts = zip(np.split(numbers.astype(np.int32), ends), blocks, strict=True)
    return np.concatenate([np.append(part, np.int32(-1))[at] for part, (at, _) in parts]), known.tolist()
