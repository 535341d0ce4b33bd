"""Visits: names of visit columns, equivalent visit codes, and the order of visits."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import date
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from viewloom.data.naming import listed
from viewloom.study.errors import StudyError
from viewloom.study.notes import Breakdown, Count, Note, count_note
from viewloom.study.wording import counted, folded

FIRST = "first"  # keep the first visit of each subject
COLUMNS = (  # names of columns as `folded` writes them, the most likely first
    "viscode2", "viscode", "visit", "visitid", "visitcode", "visitname", "visitnumber", "visitno", "visitnum",
    "visnum", "session", "sessionid", "sessionname", "sessionnumber", "timepoint", "wave", "eventname",
    "redcapeventname", "studyvisit", "examvisit", "assessment",
)  # fmt: skip
BASELINE = ("bl", "baseline", "base", "baselinevisit", "baselineyear1arm1", "baselinearm1", "pre")
SCREENING = ("sc", "scr", "screen", "screening", "screeningvisit")
LATER = ("fu", "followup", "post")
NUMBERED = re.compile(
    r"(?:ses|session|visit|vis|v|wave|w|timepoint|time|tp|t|fu|followup|exam)?[\s_-]*"
    r"(?P<unit>months?|m|years?|y)?[\s_-]*(?P<number>\d{1,4}(?:\.\d+)?)[\s_-]*(?P<after>months?|m|years?|y)?"
)
DATE = re.compile(r"(\d{4})-(\d{2})-(\d{2})")
MOST_CODES = 8  # codes that a message lists


class Visit(NamedTuple):
    """A visit code: a key that equal visits share, the scale of its order, and its position on that scale."""

    key: str
    scale: str
    place: float


def visit_columns(names: Iterable[str]) -> list[str]:
    """Columns with the name of a visit column, the most likely first.

    >>> visit_columns(["id", "Session", "VISCODE", "age"])
    ['VISCODE', 'Session']
    """
    known = [name for name in map(str, names) if folded(name) in COLUMNS]
    return sorted(known, key=lambda name: COLUMNS.index(folded(name)))


def parse(code: str) -> Visit:
    """Parse a visit code.

    >>> parse("ses-M000") == parse("bl") == parse("m00"), parse("V01").key, parse("Month 12").key
    (True, '1', 'm12')
    """
    text = code.strip().casefold()
    word = folded(text)
    word = word.removeprefix("ses") or word
    if word in BASELINE:
        return Visit("bl", "any", 0.0)
    if word in SCREENING:
        return Visit("sc", "any", -1.0)
    if word in LATER:
        return Visit(word, "number", 1.0)
    found = NUMBERED.fullmatch(text)
    return _numbered(found) if found else _dated(text)


def _numbered(found: re.Match[str]) -> Visit:
    """A code with a number of months, of years, or of the visit."""
    unit, number = (found["unit"] or found["after"] or "")[:1], float(found["number"])
    if unit == "":
        return Visit(f"{number:g}", "number", number)
    if number == 0:
        return Visit("bl", "any", 0.0)
    return Visit(f"{unit}{number:g}", "time", number * (12 if unit == "y" else 1))


def _dated(text: str) -> Visit:
    """A date, or a code without an order."""
    found = DATE.match(text)
    try:
        day = date(*map(int, found.groups())) if found else None
    except ValueError:
        day = None
    return Visit(text, "day", float(day.toordinal())) if day else Visit(text, "", 0.0)


def at_visits(
    raw: pd.DataFrame, codes: pd.Series, wanted: Iterable[str], path: Path, notes: list[Note]
) -> pd.DataFrame:
    """Rows of the selected visits; case, padding and prefixes of codes are ignored (ses-M00, m0, bl)."""
    wanted = list(wanted)
    keys = {parse(visit).key for visit in wanted}
    same = [code for code in codes.dropna().unique() if parse(code).key in keys]
    kept = codes.isin(same).to_numpy(dtype=bool)
    if not kept.any():
        raise StudyError(
            f"{path.name}: no row has visit {listed(wanted)} in column {codes.name!r}, which has "
            f"{codes.nunique()} codes{_known(codes)}; check visit, and that this is the visit column."
        )
    if not set(same) & set(wanted):
        written = f"visit {listed(wanted)} is written {listed(sorted(same))} in column {codes.name!r}"
        notes.append(Note((written,)))
    notes += count_note(int((~kept).sum()), "row of another visit", "rows of other visits")
    return raw[kept]


def first_visits(
    raw: pd.DataFrame, ids: pd.Series, codes: pd.Series, path: Path, notes: list[Note]
) -> pd.DataFrame:
    """Rows of the first visit of each subject; the codes must have an order."""
    parsed = {code: parse(code) for code in codes.dropna().unique()}
    scales = {visit.scale for visit in parsed.values() if visit.scale} - {"any"}
    if len(scales) > 1 or not any(visit.scale for visit in parsed.values()):
        raise StudyError(
            f"{path.name}: the {counted(len(parsed), 'code')} of column {codes.name!r} have no order, "
            f"so there is no first visit{_known(codes)}; set the visit to keep, such as visit = 'bl'."
        )
    place = codes.map({code: visit.place for code, visit in parsed.items() if visit.scale})
    place = pd.to_numeric(place)
    first = place.groupby(ids.to_numpy()).transform("min")
    kept = (place == first).to_numpy(dtype=bool)
    unordered = int(place.isna().sum())
    notes += count_note(unordered, "row of a visit without an order", "rows of visits without an order")
    notes.append(Note(("first visit of each subject kept: ", _counts(codes[kept], parsed))))
    notes += count_note(int((~kept).sum()) - unordered, "row of a later visit", "rows of later visits")
    return raw[kept]


def _counts(codes: pd.Series, parsed: dict[str, Visit]) -> Count | Breakdown:
    """The number of rows of each visit; their total where visits are days, or too many to list."""
    counts = codes.value_counts()
    if len(counts) > MOST_CODES or any(parsed[code].scale == "day" for code in counts.index):
        return Count(len(codes), "row")
    order = sorted(counts.index, key=lambda code: (parsed[code].place, code))
    return Breakdown(tuple((int(counts[code]), f"at {code!r}") for code in order))


def _known(codes: pd.Series) -> str:
    """The codes, if they are certainly visit codes."""
    parsed = {code: parse(code) for code in codes.dropna().unique()}
    if len(parsed) > MOST_CODES or not all(visit.scale in ("any", "time") for visit in parsed.values()):
        return ""
    order = sorted(parsed, key=lambda code: (parsed[code].place, code))
    return f" ({', '.join(repr(code) for code in order)})"
