"""Columns of a view that have levels: which they are, and their cells as pandas categories.

The type of a column is set in study.toml, or comes from the file (categories of Parquet, factors of R, value
labels of SPSS and Stata), or is inferred: text with few levels is nominal. Numbers are continuous.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd

from viewloom.data.mixed import level_text
from viewloom.study.errors import Message, StudyError, Suggestion
from viewloom.study.notes import Note, count_note
from viewloom.study.readers import frames
from viewloom.study.readers.frames import Code, Codes
from viewloom.study.readers.notation import Notation, kind_of, showable
from viewloom.study.readers.sheets import ABSENT
from viewloom.study.wording import counted, quoted

Array = np.ndarray
Named = Literal["continuous", "ordinal", "nominal", "binary"]
Setting = Named | Sequence[Code] | Mapping[str, Sequence[Code]]  # a type, levels in order, or their spellings
CONTINUOUS, ORDINAL, NOMINAL, BINARY = "continuous", "ordinal", "nominal", "binary"
BY_STUDY, BY_FILE, INFERRED = "study.toml", "file", "text"  # where the type of a column comes from
MOST_LEVELS = 20  # of a text column that is taken for nominal
WAY_OUT = (
    "list missing codes in missing_codes, select with columns and exclude, or declare the column under types"
)


@dataclass(frozen=True)
class Levelled:
    """A column with levels: the setting of the study, and where its type comes from."""

    setting: Setting
    source: str


Types = Mapping[str, Setting | Levelled]  # those that are `Levelled` come from the file


def setting_of(name: str, types: Types) -> Setting | Levelled | None:
    """The type that is set for a column: by its name, or else by the first pattern that matches.

    >>> setting_of("apoe", {"a*": "nominal", "apoe": "ordinal"}), setting_of("mmse", {"a*": "nominal"})
    ('ordinal', None)
    """
    return next((types[key] for key in (name, *types) if key in types and frames.matches(name, [key])), None)


def declared(header: Sequence[str], types: Types, rename: Mapping[str, str]) -> list[str]:
    """Columns of a file that have levels by the study, so that their cells have to be read as text."""
    return [name for name in header if setting_of(rename.get(name, name), types) not in (None, CONTINUOUS)]


def numbers_and_levels(
    cells: pd.DataFrame, codes: Codes, types: Types, path: Path, notes: list[Note], notation: Notation
) -> pd.DataFrame:
    """Continuous columns as float64, and columns with levels as categories.

    ``attrs["types"]`` has where the type of each column with levels comes from.

    Parameters
    ----------
    cells : DataFrame
    codes : sequence, or dict of column pattern to sequence
        Missing codes.
    types : dict of str to type
        What the study sets, by name or pattern of columns.
    path : Path
    notes : list of Note
    notation : Notation

    Raises
    ------
    StudyError
        With the column, and what to do.
    """
    found = {str(name): _levelled(cells[name], types, codes, notation) for name in cells.columns}
    levelled = {name: one for name, one in found.items() if one is not None}
    if not levelled:
        return frames.numbers(cells, codes, path, notes, way_out=WAY_OUT, notation=notation)
    columns = {
        name: as_levels(cells[name], one, frames.codes_of(name, codes), path)
        for name, one in levelled.items()
    }
    numeric = cells.drop(columns=list(columns))
    rest = frames.numbers(numeric, codes, path, notes, way_out=WAY_OUT, notation=notation)
    both = pd.concat([rest, pd.DataFrame(columns, index=cells.index)], axis=1)[list(cells.columns)]
    notes += _coded_note(cells[list(columns)], both[list(columns)])
    both.attrs = {"types": {name: one.source for name, one in levelled.items()}}
    return both


def _levelled(cells: pd.Series, types: Types, codes: Codes, notation: Notation) -> Levelled | None:
    """How a column with levels is read; None for continuous columns."""
    setting = setting_of(str(cells.name), types)
    if isinstance(setting, Levelled):
        return setting
    if setting is not None:
        return None if setting == CONTINUOUS else Levelled(setting, BY_STUDY)
    if isinstance(cells.dtype, pd.CategoricalDtype):
        many = cells.nunique() > MOST_LEVELS and frames.is_numeric(cells, codes, notation=notation)
        dates = cells.cat.categories.dtype.kind in "mM"
        return None if many or dates else Levelled(ORDINAL if cells.cat.ordered else NOMINAL, BY_FILE)
    if frames.is_numeric(cells, codes, notation=notation):
        return None
    text = frames.without_codes(cells, frames.codes_of(str(cells.name), codes)).dropna()
    constant = len(text) > 1 and text.eq(text.iloc[0]).all() and kind_of(text.iloc[0], notation) == "text"
    return Levelled(NOMINAL, INFERRED) if constant or _are_levels(text, notation) else None


def has_levels(cells: pd.Series) -> bool:
    """Whether a column that is not numeric would be nominal."""
    if isinstance(cells.dtype, pd.CategoricalDtype):
        return 2 <= cells.nunique() <= MOST_LEVELS
    return _are_levels(frames.as_text(cells).dropna(), frames.PLAIN)


def _are_levels(text: pd.Series, notation: Notation) -> bool:
    """Whether text has few levels that are words, and not dates, numbers with units, ids or remarks."""
    distinct = text.unique().tolist()
    few = 2 <= len(distinct) <= MOST_LEVELS and 2 * len(distinct) <= len(text)
    return few and all(kind_of(level, notation) == "text" for level in distinct)


def as_levels(cells: pd.Series, how: Levelled, codes: Sequence[Code], path: Path) -> pd.Categorical:
    """The cells of a column as categories.

    Parameters
    ----------
    cells : Series
    how : Levelled
    codes : sequence
        Missing codes.
    path : Path
        For messages.

    Examples
    --------
    >>> column = pd.Series(["2", "0", "-9", None, "0"], name="apoe")
    >>> as_levels(column, Levelled("ordinal", "study.toml"), [-9], Path("a.csv"))
    ['2', '0', NaN, NaN, '0']
    Categories (2, str): ['0' < '2']
    """
    where, setting = f"{path.name}: column {cells.name!r}", how.setting
    text, known = _texts(cells, codes)
    if isinstance(setting, Mapping):
        merged = {str(old): new for new, spellings in setting.items() for old in spellings}
        text, known = text.map(lambda label: merged.get(label, label), na_action="ignore"), None
        setting = NOMINAL
    found = [label for label in text.dropna().unique().tolist() if known is None or label in known]
    check_readable_levels(_listed(how.setting), text, where)
    if not isinstance(setting, str):
        names = [level_text(level) for level in setting]
        _check_listed([label for label in found if label not in names], text, where)
        return pd.Categorical(text, pd.Index(names, dtype=str), ordered=True)
    if setting == BINARY and len(found) > 2:
        raise StudyError(f"{where} has {len(found)} levels, and types says that it is binary; correct one.")
    _check_few(found, text, how, where)
    names = known or _sorted(found)
    if setting == ORDINAL and known is None and not _have_order(found):
        raise StudyError(
            f"{where} is ordinal, and the order of its {len(found)} levels is not known; list them from low "
            f"to high: types = {{ '{cells.name}' = ['...', '...'] }}."
        )
    return pd.Categorical(text, pd.Index(names, dtype=str), ordered=setting == ORDINAL)


def _listed(setting: Setting) -> list[str]:
    """Levels of a setting, as the file has them."""
    if isinstance(setting, Mapping):
        return [str(spelling) for spellings in setting.values() for spelling in spellings]
    return [] if isinstance(setting, str) else [level_text(level) for level in setting]


def check_readable_levels(levels: Iterable[str], text: pd.Series, where: str) -> None:
    """Refuse levels such as None and NA whose cells were read as missing."""
    lost = [level for level in levels if level in ABSENT and not text.eq(level).any()]
    missing = int(text.isna().sum())
    if lost and missing:
        raise StudyError(
            f"{where} has {counted(missing, 'missing cell')}, and {quoted(lost)} is read as missing, so it "
            "cannot be a level; write another word in the file."
        )


def _texts(cells: pd.Series, codes: Sequence[Code]) -> tuple[pd.Series, list[str] | None]:
    """Cells as text without missing codes, and the levels in the order of the file where it has one."""
    if not isinstance(cells.dtype, pd.CategoricalDtype):
        return frames.without_codes(cells, codes), None
    names = {level: level_text(level).strip() for level in cells.cat.categories}
    text = pd.Series(cells.astype(object).map(names), cells.index, dtype=object)
    gone = frames.spellings(codes, cells) | {""}
    used = set(text.dropna())
    return text.mask(text.isin(gone)), [
        name for name in dict.fromkeys(names.values()) if name in used and name not in gone
    ]


def _sorted(levels: Sequence[str]) -> list[str]:
    """Levels by the numbers that they begin with, else by their text."""
    return sorted(levels, key=lambda level: (_number(level), level) if _have_order(levels) else (0.0, level))


def _number(level: str) -> float:
    found = re.match(r"[-+]?\d+(?:\.\d+)?", level)
    return float(found[0]) if found else float("nan")


def _have_order(levels: Sequence[str]) -> bool:
    """Whether levels are numbers, or begin with different numbers, as in '0 none', '1 mild'."""
    numbers = [_number(level) for level in levels]
    return not np.isnan(numbers).any() and len(set(numbers)) == len(levels)


def _check_listed(others: Sequence[str], text: pd.Series, where: str) -> None:
    if others:
        named = f" ({quoted(showable(list(others)))})" if showable(list(others)) else ""
        cells = counted(int(text.isin(others).sum()), "cell")
        raise StudyError(
            f"{where} has {counted(len(others), 'level')}{named} in {cells} that types does not list; add "
            "them, or list them in missing_codes."
        )


def _check_few(found: Sequence[str], text: pd.Series, how: Levelled, where: str) -> None:
    """Refuse identifiers and remarks, unless the study declares the column."""
    known = int(text.notna().sum())
    if how.source != BY_STUDY and len(found) > 2 and 2 * len(found) > known:
        raise StudyError(
            Message(
                f"{where} has {len(found)} levels in {known} rows, like an identifier; leave it out with "
                f"exclude, or set types = {{ '{text.name}' = 'nominal' }}.",
                Suggestion({"types": {str(text.name): "nominal"}}),
            )
        )


def _coded_note(cells: pd.DataFrame, made: pd.DataFrame) -> list[Note]:
    lost = sum(int((frames.as_text(cells[name]).notna() & made[name].isna()).sum()) for name in cells.columns)
    return count_note(lost, "cell", text="of columns with levels with a missing code set to missing")
