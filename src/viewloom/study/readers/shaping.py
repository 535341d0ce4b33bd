"""Names, rows and ids of a raw table before anything else is done with it: rename, rows, pattern of ids."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd

from viewloom.data.naming import listed
from viewloom.study.errors import StudyError
from viewloom.study.ids import MATCHED_LEAST, VISIT, extracted
from viewloom.study.notes import Count, Note, count_note
from viewloom.study.readers import frames
from viewloom.study.readers.dates import ISO, days_of
from viewloom.study.readers.expressions import ConditionError, parse
from viewloom.study.readers.frames import Codes
from viewloom.study.readers.notation import Notation
from viewloom.study.wording import nearest

Rename = Mapping[str, str]
ADDED = "visit"  # the column of visits that are part of ids


@dataclass(frozen=True)
class Shape:
    """Settings of the rows and names of a table.

    Attributes
    ----------
    rename : dict of str to str
        New names of columns by their names in the file.
    rows : str or None
        Condition on the rows that are kept; see `expressions.parse`.
    pattern : str or None
        Regular expression whose group is the id.
    """

    rename: Rename = field(default_factory=dict)
    rows: str | None = None
    pattern: str | None = None

    def in_file(self, names: list[str]) -> list[str]:
        """Names of columns as they are in the file."""
        return [*names, *(old for old, new in self.rename.items() if new in names)]

    @property
    def texts(self) -> set[str]:
        """Columns that the condition compares with text, and that are therefore not features."""
        return parse(self.rows).texts if self.rows else set()


def shaped(
    raw: pd.DataFrame,
    shape: Shape,
    id: str,
    path: Path,
    notes: list[Note],
    *,
    notation: Notation,
    codes: Codes = (),
    visits: bool = False,
) -> pd.DataFrame:
    """The table with new names, the chosen rows, and ids as the pattern gives them.

    Parameters
    ----------
    raw : DataFrame
    shape : Shape
    id : str
        Column of ids, by its new name.
    path : Path
    notes : list of Note
    notation : Notation
    codes : sequence or dict
        Missing codes, which no condition counts as values.
    visits : bool
        Whether visits are chosen, so that those in ids become a column.
    """
    raw = renamed(raw, shape.rename, path)
    if shape.rows:
        raw = chosen_rows(raw, shape.rows, path, notes, notation, codes)
    return _with_ids(raw, id, shape.pattern, path, notes, visits) if shape.pattern else raw


def renamed(raw: pd.DataFrame, rename: Rename, path: Path) -> pd.DataFrame:
    """The table with new names of columns; each old name must be there, and no name may occur twice."""
    names = [str(name) for name in raw.columns]
    for old in rename:
        if old not in names:
            hint = nearest(old, names) or f"; there are {listed(names)}."
            raise StudyError(f"{path.name}: no column {old!r}, named under rename{hint}")
    new = [rename.get(name, name) for name in names]
    twice = sorted({name for name in rename.values() if new.count(name) > 1})
    if twice:
        raise StudyError(
            f"{path.name}: rename gives several columns the name {listed(twice)}; choose other names."
        )
    return raw.set_axis(new, axis=1) if rename else raw


def chosen_rows(
    raw: pd.DataFrame, condition: str, path: Path, notes: list[Note], notation: Notation, codes: Codes
) -> pd.DataFrame:
    """The rows for which a condition is true; it is an error if there are none."""
    try:
        truth = parse(condition).evaluate(_Cells(raw, path, notation, codes))
    except ConditionError as error:
        raise StudyError(f"{path.name}: rows: {error}.") from None
    kept = int(truth.yes.sum())
    unknown = int((~truth.yes & ~truth.no).sum())
    if not kept:
        why = f", {unknown} of them for lack of a cell that it names" if unknown else ""
        raise StudyError(
            f"{path.name}: rows keeps none of {len(raw)} rows{why}; texts must agree in upper and lower case."
        )
    lacking = (" (", Count(unknown, "row"), " of them lack a cell that it names)") if unknown else ()
    if kept < len(raw):
        notes.append(Note((Count(len(raw) - kept, "row"), " set aside by rows", *lacking)))
    return raw[truth.yes]


@dataclass(frozen=True, eq=False)
class _Cells:
    """Columns of a raw table for a condition; see `expressions.Rows`."""

    raw: pd.DataFrame
    path: Path
    notation: Notation
    codes: Codes

    def numbers(self, column: str) -> np.ndarray:
        cells = self._column(column)
        codes = frames.codes_of(column, self.codes)
        values, wrong = frames.parsed_numbers(cells, codes, self.notation)
        if wrong:
            raise ConditionError(
                f"column {column!r} is compared with a number, but is not a number in {wrong} of "
                f"{len(cells)} rows; write texts in quotes"
            )
        return values

    def texts(self, column: str) -> np.ndarray:
        text = frames.without_codes(self._column(column), frames.codes_of(column, self.codes))
        return text.astype(object).where(text.notna(), None).to_numpy()

    def dates(self, column: str) -> np.ndarray:
        found = days_of(self._column(column), self.path)
        if not found.calendar:
            raise ConditionError(f"column {column!r} is compared with a date, but has days since the entry")
        return found.number.to_numpy(dtype=float)

    def day(self, text: str) -> float | None:
        if not ISO.fullmatch(text):
            return None
        return float(days_of(pd.Series([text], name="rows"), self.path).number.iloc[0])

    def _column(self, name: str) -> pd.Series:
        return frames.column(self.raw, name, self.path, "rows").reset_index(drop=True)


def _with_ids(
    raw: pd.DataFrame, id: str, pattern: str, path: Path, notes: list[Note], visits: bool
) -> pd.DataFrame:
    cells = frames.as_text(frames.column(raw, id, path, "id"))
    found = extracted(cells, pattern)
    matched = found["id"].notna() | cells.isna()  # blank ids are an error later on
    check_matched(int(matched.sum()), len(raw), path.name, id)
    notes += count_note(
        int((~matched).sum()),
        "row whose id does not match the pattern",
        "rows whose ids do not match the pattern",
    )
    table = raw.assign(**{id: found["id"]})
    if VISIT in found.columns and visits:
        if ADDED in raw.columns:
            raise StudyError(
                f"{path.name}: the pattern has a group {VISIT!r}, but there is a column {ADDED!r}; "
                "rename the column."
            )
        table = table.assign(**{ADDED: found[VISIT]})
    return table[matched]


def check_matched(matched: int, n: int, name: str, id: str | None) -> None:
    """Refuse a pattern that most ids do not match."""
    if matched < MATCHED_LEAST * n:
        where = "" if id is None else f" of column {id!r}"
        raise StudyError(
            f"{name}: the pattern matches {matched} of {n} ids{where}; correct the pattern, or leave out "
            "other rows with rows."
        )


def equal_ids_hint(pattern: str) -> str:
    """The solution for ids that a pattern makes equal."""
    group = (
        "" if re.search(rf"\(\?P<{VISIT}>", pattern) else f", with a group (?P<{VISIT}>...) for it in pattern"
    )
    ways = f"set visit{group}, or let the pattern keep more of the id"
    return f"the pattern gives several rows the same id: {ways}"
