"""Levels of categorical columns of the participants, and the description of columns by `check`."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd

from viewloom.clinical import as_categories, as_numbers
from viewloom.clinical.suppression import suppressed
from viewloom.study.config.schema import Participants
from viewloom.study.errors import StudyError
from viewloom.study.readers.mixed import check_readable_levels
from viewloom.study.wording import counted, quoted

FAMILIES = (  # spellings of one level; numbers are not among them
    {"m", "male", "man", "men", "mann", "männlich", "maennlich"},
    {"f", "female", "woman", "women", "frau", "weiblich"},
    {"y", "yes", "ja"},
    {"n", "no", "nein"},
    {"t", "true"},
    {"pos", "positive", "positiv"},
    {"neg", "negative", "negativ"},
)
ROUNDING = 1e-9  # of the largest value: smaller differences come from arithmetic
MOST_LEVELS = 20  # of a text covariate; with more it is likely a date or a name
CATEGORIES, NUMBERS = "categories", "numbers"
DIFFERENT = {"levels": "categorical = ['{name}']", "types": "types = {{ '{name}' = 'nominal' }}"}
TYPE_COLUMNS = ["view", "column", "type", "levels", "missing", "source"]
COLUMNS = ["role", "type", "known", "missing", "levels", "lowest", "highest", "step"]


def folded(level: str) -> str:
    """A level in a form that does not depend on case, blanks and abbreviation.

    >>> [folded(level) for level in ("Male", "m ", "site_01", "Site 01", "-1", "01", "1.0")]
    ['m', 'm', 'site 01', 'site 01', '-1', '1', '1']
    """
    plain = unicodedata.normalize("NFKC", level).casefold().strip()
    if re.fullmatch(r"[-+]?\d+(\.\d+)?", plain):
        return f"{float(plain):g}"
    plain = re.sub(r"(?<=[^\W_])[\s_.\-]+(?=[^\W_])", " ", plain)
    return next((min(family, key=len) for family in FAMILIES if plain in family), plain)


def respelt(labels: Iterable[str | None]) -> list[list[str]]:
    """Groups of spellings of one level, the most frequent spelling first.

    >>> respelt(["M", "M", "male", "F", None])
    [['M', 'male']]
    """
    counts = Counter(label for label in labels if label is not None)
    groups: dict[str, list[str]] = {}
    for level in sorted(counts, key=lambda level: (-counts[level], level)):
        groups.setdefault(folded(level), []).append(level)
    return [spellings for spellings in groups.values() if len(spellings) > 1]


def _both_coded_and_spelt(labels: Iterable[str | None]) -> list[str]:
    """All levels, if some are numbers and others words that are often coded as numbers."""
    levels = sorted({label for label in labels if label is not None})
    words = [level for level in levels if any(folded(level) in family for family in FAMILIES)]
    return levels if words and any(np.isfinite(as_numbers(levels))) else []


def spelling_problems(column: pd.Series, key: str = "levels") -> Iterator[str]:
    """Levels of a column with several spellings, and the setting that merges them.

    The `key` is that of the block: ``levels`` of [participants], or ``types`` of a view.
    """
    name, labels = str(column.name), as_categories(column)
    many = len(set(labels)) > MOST_LEVELS
    found, different = respelt(labels), DIFFERENT[key].format(name=name)
    where = " under [participants]" if key == "levels" else ""
    if found and many:  # they may be ids
        yield f"column {name!r} has {counted(len(found), 'level')} with several spellings; use one each."
    elif found:
        spellings = "; ".join(map(quoted, found))
        same = ", ".join(f"'{first}' = {others}" for first, *others in found)
        to = " to [participants]" if key == "levels" else ""
        yield (
            f"column {name!r} has several spellings of one level: {spellings}; add{to} "
            f"{key} = {{ '{name}' = {{ {same} }} }}, or {different} if they differ."
        )
    elif (levels := _both_coded_and_spelt(labels)) and not many:
        yield (
            f"column {name!r} mixes codes and words: {quoted(levels)}; state which are the same with "
            f"{key} = {{ '{name}' = {{ ... }} }}{where}, or set {different} if all differ."
        )


def levelled(frame: pd.DataFrame) -> list[str]:
    """Columns that have levels."""
    return [str(name) for name, dtype in frame.dtypes.items() if isinstance(dtype, pd.CategoricalDtype)]


def with_common_levels(frames: list[pd.DataFrame]) -> list[pd.DataFrame]:
    """Tables whose columns with levels have the levels of all tables, so that rows can be concatenated."""
    names = {name: frame[name].cat.ordered for frame in frames for name in levelled(frame)}
    for name, ordered in names.items():
        parts = [frame[name] for frame in frames if name in frame]
        if not all(isinstance(part.dtype, pd.CategoricalDtype) for part in parts):
            raise StudyError(f"column {name!r} has levels in one file and numbers in another; set types.")
        union = list(dict.fromkeys(level for part in parts for level in part.cat.categories))
        if ordered and any(list(part.cat.categories) != union for part in parts):
            raise StudyError(f"the files order the levels of column {name!r} differently; set types.")
        frames = [
            frame.assign(**{name: frame[name].cat.set_categories(union)}) if name in frame else frame
            for frame in frames
        ]
    return frames


def with_levels(frame: pd.DataFrame, people: Participants) -> pd.DataFrame:
    """The table with levels merged as the study sets."""
    for name, merged in people.levels.items():
        if name in frame.columns:
            new = {str(old): level for level, spellings in merged.items() for old in spellings}
            check_readable_levels(new, frame[name], f"[participants] levels: column {name!r}")
            labels = [
                None if label is None else new.get(label, label) for label in as_categories(frame[name])
            ]
            frame = frame.assign(**{name: pd.Series(labels, frame.index, dtype=object)})
    return frame


def as_declared(column: pd.Series) -> pd.Series:
    """A column as categories, even if its cells are numbers."""
    return pd.Series(pd.Categorical(as_categories(column)), column.index, name=column.name)


def is_categorical(column: pd.Series) -> bool:
    """Whether a column is categorical: declared so, or not all numbers."""
    known = [label is not None for label in as_categories(column)]
    declared = isinstance(column.dtype, pd.CategoricalDtype)
    return declared or bool(np.isnan(as_numbers(column)[known]).any())


def described(participants: pd.DataFrame | None, people: Participants | None, min_cell: int) -> pd.DataFrame:
    """Describe every column that the study names, without data on individual subjects.

    Parameters
    ----------
    participants : DataFrame or None
        One row per subject.
    people : Participants or None
    min_cell : int
        Counts below are not shown, and at least as many subjects lie beyond `lowest` and `highest`.

    Returns
    -------
    DataFrame
        Per column: role, type (categories or numbers), known and missing cells, levels with their counts,
        lowest and highest of all but the extreme values, and the step in which values change.
    """
    if participants is None or people is None:
        return pd.DataFrame(columns=pd.Index(COLUMNS))
    codes = {people.diagnosis, people.site}
    rows: dict[str, dict[str, Any]] = {}
    for role, name in people.named_columns:
        column = participants[name]
        known = sum(label is not None for label in as_categories(column))
        kind = CATEGORIES if name in codes or is_categorical(column) else NUMBERS
        summary = _levels(column, min_cell) if kind == CATEGORIES else _range(column, min_cell)
        counts = {"known": known, "missing": len(column) - known}
        rows.setdefault(name, {"role": role, "type": kind, **counts, **summary})
    table = pd.DataFrame(list(rows.values()), index=pd.Index(list(rows)), columns=pd.Index(COLUMNS))
    return table.rename_axis("column")


def described_types(frames: Mapping[str, pd.DataFrame], min_cell: int) -> pd.DataFrame:
    """Describe every column of views that has levels, without data on individual subjects.

    Returns
    -------
    DataFrame
        One row per column: view, column, type (binary, ordinal or nominal), levels with their counts, missing
        cells, and source: where the type comes from (study.toml, the file, or text that was taken for
        nominal).
    """
    rows = []
    for view, frame in frames.items():
        sources = frame.attrs.get("types", {})
        for name in levelled(frame):
            column = frame[name]
            order = [str(level) for level in column.cat.categories]
            levels = _levels(column, min_cell, order)["levels"]
            kind = "ordinal" if column.cat.ordered else "binary" if column.nunique() == 2 else "nominal"
            source = sources.get(str(name), "file")
            rows.append([view, str(name), kind, levels, int(column.isna().sum()), source])
    return pd.DataFrame(rows, columns=pd.Index(TYPE_COLUMNS))


def _levels(column: pd.Series, min_cell: int, order: list[str] | None = None) -> dict[str, Any]:
    """Levels with their counts, small ones hidden; only their number if there are many."""
    counts = Counter(label for label in as_categories(column) if label is not None)
    if len(counts) > MOST_LEVELS:
        return {"levels": f"{len(counts)} levels"}
    levels = sorted(counts) if order is None else [level for level in order if level in counts]
    table = suppressed(pd.DataFrame({"n": [counts[level] for level in levels]}), min_cell)
    shown = zip(levels, table["n"].tolist(), strict=True)
    return {"levels": ", ".join(f"{level} ({n})" for level, n in shown)}


def _range(column: pd.Series, min_cell: int) -> dict[str, Any]:
    """Quantiles beyond which enough subjects lie, and the smallest difference between values."""
    numbers = as_numbers(column)
    numbers = numbers[np.isfinite(numbers)]
    share = max(0.05, min_cell / max(len(numbers), 1))
    if share >= 0.5:
        return {}
    lowest, highest = np.quantile(numbers, [share, 1 - share])
    steps = np.diff(np.unique(numbers))
    step = steps[steps > ROUNDING * np.abs(numbers).max()].min(initial=np.inf)
    rounded = (
        float(f"{value:.3g}") for value in (lowest, highest, step)
    )  # rounded: not the value of a subject
    return dict(zip(("lowest", "highest", "step"), rounded, strict=True))
