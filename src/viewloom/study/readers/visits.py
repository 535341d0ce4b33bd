"""Visits: names of visit columns, visit codes and their order, and the rows of the visit to keep."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from viewloom.data.naming import listed
from viewloom.study.errors import StudyError
from viewloom.study.notes import Breakdown, Count, Note, Rough, count_note
from viewloom.study.readers.dates import MONTH, Days, gaps
from viewloom.study.wording import counted, folded

Array = np.ndarray
VisitSetting = str | Mapping[str, float]  # the key visit of study.toml
FIRST, LAST = "first", "last"  # keep the first or last visit of each subject
NEAREST = "nearest:"  # followed by a column of dates
COLUMNS = (  # names of columns as `folded` writes them, the most likely first
    "viscode2", "viscode", "visit", "visitid", "visitcode", "visitname", "visitnumber", "visitno", "visitnum",
    "visnum", "session", "sessionid", "sessionname", "sessionnumber", "timepoint", "wave", "eventname",
    "redcapeventname", "eventid", "studyvisit", "examvisit", "assessment",
)  # fmt: skip
BASELINE = ("bl", "baseline", "base", "baselinevisit", "baselineyear1", "pre")
SCREENING = ("sc", "scr", "screen", "screening", "screeningvisit", "scmri")
LATER = ("fu", "followup", "post")
ARM = re.compile(r"[\s_-]*arm[\s_-]*\d+$")  # of REDCap
FOLLOW_UP = re.compile(r"^(\d+[\s_-]*(?:year|month)s?)[\s_-]*follow[\s_-]*up(?:[\s_-]*y)?$")
UNITS = r"months?|mos?|m|years?|yrs?|y|days?|d"
NUMBERED = re.compile(
    r"(?:ses|session|visit|vis|v|wave|w|timepoint|time|tp|t|fu|followup|exam)?[\s_-]*"
    rf"(?P<unit>{UNITS})?[\s_-]*(?P<number>\d{{1,4}}(?:\.\d+)?)[\s_-]*(?P<after>{UNITS})?"
)
LABEL = re.compile(r"(?:sub-)?oas\d_?\d{4,5}_\w*?(?:ses-)?(?P<kind>d|mr)(?P<number>\d{1,5})")  # of OASIS
DATE = re.compile(r"(?:ses-)?(\d{4})-?(\d{2})-?(\d{2})")
PER_MONTH = {"m": 1.0, "y": 12.0, "d": 1.0 / MONTH}
MOST_CODES = 8  # codes that a message lists
REPEATED = ("redcaprepeatinstrument", "repeatinstrument")  # column of REDCap, blank in rows of a visit itself
BEYOND = (90, 180)  # days between two dates that a note counts


class NoVisit(StudyError):
    """No row of a table is of the visit."""


class Visit(NamedTuple):
    """A visit code: a key that equal visits share, the scale of its order, and its position on that scale.

    Codes with a date, a number of days or an id are private: they may identify a subject.
    """

    key: str
    scale: str
    place: float
    private: bool = False


def visit_columns(names: Iterable[str]) -> list[str]:
    """Columns with the name of a visit column, the most likely first.

    >>> visit_columns(["id", "Session", "VISCODE", "age"])
    ['VISCODE', 'Session']
    """
    known = [name for name in map(str, names) if folded(name) in COLUMNS]
    return sorted(known, key=lambda name: COLUMNS.index(folded(name)))


def repeat_column(names: Iterable[str]) -> str | None:
    """The column of repeated instruments of REDCap."""
    return next((name for name in map(str, names) if folded(name) in REPEATED), None)


def unrepeated(name: str) -> str:
    """The condition that leaves out rows of repeated instruments.

    >>> unrepeated("redcap_repeat_instrument"), unrepeated("Repeat Instrument")
    ('redcap_repeat_instrument is missing', '`Repeat Instrument` is missing')
    """
    return f"{name} is missing" if name.isidentifier() else f"`{name}` is missing"


def parse(code: str) -> Visit:
    """Parse a visit code.

    Months, years and days since the baseline have the scale "time", and their position is in months.

    >>> parse("ses-M000") == parse("bl") == parse("m00"), parse("V01").key, parse("Month 12") == parse("y1")
    (True, '1', True)
    >>> parse("OAS30001_MR_d0129")[:2], parse("2_year_follow_up_y_arm_1").key
    (('d129', 'time'), 'm24')
    """
    text = code.strip().casefold()
    text = FOLLOW_UP.sub(r"\1", ARM.sub("", text) or text)
    word = folded(text)
    word = word.removeprefix("ses") or word
    if word in BASELINE:
        return Visit("bl", "any", 0.0)
    if word in SCREENING:
        return Visit("sc", "any", -1.0)
    if word in LATER:
        return Visit(word, "number", 1.0)
    if found := NUMBERED.fullmatch(text):
        unit = (found["unit"] or found["after"] or "")[:1]
        return _numbered(unit, float(found["number"]), private=unit == "d")
    if found := LABEL.fullmatch(text):
        return _numbered(found["kind"].removeprefix("mr"), float(found["number"]), private=True)
    return _dated(text)


def _numbered(unit: str, number: float, *, private: bool) -> Visit:
    """A code with a number of months, of years, of days, or of the visit."""
    if unit == "":
        return Visit(f"{number:g}", "number", number, private)
    if number == 0:
        return Visit("bl", "any", 0.0, private)
    months = number * PER_MONTH[unit]
    return Visit(f"d{number:g}" if unit == "d" else f"m{months:g}", "time", months, private)


def _dated(text: str) -> Visit:
    """A date, or a code without an order."""
    found = DATE.match(text)
    try:
        day = date(*map(int, found.groups())) if found else None
    except ValueError:
        day = None
    return Visit(text, "day", float(day.toordinal()), True) if day else Visit(text, "", 0.0)


@dataclass(frozen=True)
class Rule:
    """Which visit of each subject to keep; see `rule_of`."""

    kind: str  # "code", "first", "last", "nearest" or "months"
    code: str = ""
    date: str = ""
    months: float = 0.0
    within: float = 0.0

    def __str__(self) -> str:
        if self.kind == "months":
            return f"{{ months = {self.months:g}, within = {self.within:g} }}"
        return f"{NEAREST}{self.date}" if self.kind == "nearest" else self.code


def rule_of(visit: VisitSetting) -> Rule:
    """The rule that a key `visit` sets.

    >>> rule_of("first").kind, rule_of("nearest:EXAMDATE").date, str(rule_of({"months": 12, "within": 3}))
    ('first', 'EXAMDATE', '{ months = 12, within = 3 }')
    """
    if isinstance(visit, Mapping):
        if set(visit) != {"months", "within"} or not float(visit["within"]) >= 0:
            raise StudyError("visit must have the keys months and within, and within must not be negative.")
        return Rule("months", months=float(visit["months"]), within=float(visit["within"]))
    text = str(visit)
    if text.startswith(NEAREST):
        column = text.removeprefix(NEAREST).strip()
        if not column:
            raise StudyError("visit = 'nearest:' needs a column of dates, such as 'nearest:EXAMDATE'.")
        return Rule("nearest", date=column)
    return Rule(text if text in (FIRST, LAST) else "code", code=text)


@dataclass(frozen=True, eq=False)
class Visits:
    """The rows of a table with several visits, from which those of one visit are taken.

    Attributes
    ----------
    ids : Series of str
        Subject of each row.
    codes : Series of str, or None
        Visit code of each row.
    days : Days or None
        Date of each row.
    reference : Days or None
        Date of the participants, for the subject of each row.
    path : Path
    notes : list of Note
        What was kept and left out is added to it.
    """

    ids: pd.Series
    codes: pd.Series | None
    days: Days | None
    reference: Days | None
    path: Path
    notes: list[Note]

    def of(self, rule: Rule, same: Iterable[str] = ()) -> Array:
        """Mask of the rows to keep; `same` has all codes of the visit, if there are several."""
        kept = self._of(rule, same)
        if self.days is not None and self.reference is not None:
            self.notes.extend(gap_notes(self._gaps()[kept], self.ids[kept], self._dates))
        return kept

    def _of(self, rule: Rule, same: Iterable[str]) -> Array:
        literal = self.codes is not None and bool((self.codes == rule.code).any())
        if rule.kind == "code" or (rule.kind in (FIRST, LAST) and literal):
            return self._at(list(same) or [rule.code])
        if rule.kind == "nearest":
            if self.reference is None:
                raise StudyError(
                    f"{self.path.name}: visit = {str(rule)!r} needs the dates of the participants; set "
                    "date of [participants]."
                )
            return self._nearest(self._gaps(), 0.0, "the date of the participants")
        if rule.kind == "months":
            return self._at_month(rule)
        return self._end(rule.kind)

    def _at(self, wanted: list[str]) -> Array:
        """Rows of visits by their codes."""
        if self.codes is None:
            raise StudyError(f"{self.path.name}: no visit column was found; set visit_column.")
        return at_visits(self.codes, wanted, self.path, self.notes)

    def _end(self, which: str) -> Array:
        """Rows of the first or last visit of each subject."""
        place = self._ordered(which)
        ends = place.groupby(self.ids.to_numpy()).transform("min" if which == FIRST else "max")
        kept = (place == ends).to_numpy(dtype=bool)
        self._tell(
            f"{which} visit of each subject kept: ", kept, place, "later" if which == FIRST else "earlier"
        )
        return kept

    def _at_month(self, rule: Rule) -> Array:
        """Rows of the visit nearest to a month, and not further from it than allowed."""
        place = self._months()
        near = place.where((place - rule.months).abs() <= rule.within + 1e-9)
        if near.isna().all():
            raise NoVisit(
                f"{self.path.name}: no subject has a visit within {rule.within:g} months of month "
                f"{rule.months:g}; check visit."
            )
        return self._nearest(near, rule.months, f"month {rule.months:g}")

    def _nearest(self, place: pd.Series, target: float, what: str) -> Array:
        """Rows of each subject that are nearest to a target; the earlier of two that are equally near."""
        kept, tied = nearest_rows(place, self.ids, target)
        if not kept.any():
            raise NoVisit(f"{self.path.name}: no subject has a visit with a date; check visit and date.")
        self._tell(f"visit nearest to {what} kept: ", kept, place, "other")
        self.notes.extend(
            count_note(tied, "subject", text="with two equally near visits; the earlier is kept")
        )
        return kept

    def _ordered(self, which: str) -> pd.Series:
        """The position of each row in the order of visits, NaN if it has none: by codes, else by dates."""
        codes = self._parsed()
        scales = {visit.scale for visit in codes.values() if visit.scale} - {"any"}
        if self.codes is not None and len(scales) <= 1 and any(visit.scale for visit in codes.values()):
            return _placed(self.codes, codes)
        if self.days is not None:
            return self.days.number
        if self.codes is None:
            raise StudyError(f"{self.path.name}: no visit column was found; set visit_column or date.")
        raise StudyError(
            f"{self.path.name}: the {counted(len(codes), 'code')} of column {self.codes.name!r} have no "
            f"order, so there is no {which} visit{_known(self.codes)}; set the visit to keep, such as "
            "visit = 'bl'."
        )

    def _months(self) -> pd.Series:
        """Months of each row: by codes, else by dates, from those of the participants or the first one."""
        codes = self._parsed()
        scales = {visit.scale for visit in codes.values()}
        if self.codes is not None and ("time" in scales or ("any" in scales and scales <= {"any", ""})):
            return _placed(
                self.codes, {code: at for code, at in codes.items() if at.scale in ("any", "time")}
            )
        if self.days is None:
            raise StudyError(
                f"{self.path.name}: the visit codes do not give months; set date to a column of dates, or "
                "visit to a code."
            )
        if self.reference is not None:
            return self._gaps() / MONTH
        number = self.days.number
        return (number - number.groupby(self.ids.to_numpy()).transform("min")) / MONTH

    def _gaps(self) -> pd.Series:
        assert self.days is not None
        assert self.reference is not None
        return gaps(self.days, self.reference, f"{self.path.name}: {self._dates}")

    @property
    def _dates(self) -> str:
        return f"column {self.days.number.name!r}" if self.days is not None else ""

    def _parsed(self) -> dict[str, Visit]:
        return {} if self.codes is None else {code: parse(code) for code in self.codes.dropna().unique()}

    def _tell(self, text: str, kept: Array, place: pd.Series, other: str) -> None:
        """Note the visits that are kept, and the number of rows that are not."""
        unordered = int(place.isna().sum())
        left = "row of a visit without an order", "rows of visits without an order"
        if other == "other":
            left = "row too far away or without a date", "rows too far away or without a date"
        self.notes.extend(count_note(unordered, *left))
        self.notes.append(Note((text, visit_counts(self.ids[kept], self.codes, self._parsed()))))
        rest = f"row of {'an' if other[0] in 'eo' else 'a'} {other} visit".replace("an other", "another")
        self.notes.extend(count_note(int((~kept).sum()) - unordered, rest, f"rows of {other} visits"))


def nearest_rows(place: pd.Series, ids: pd.Series, target: float) -> tuple[Array, int]:
    """Mask of the rows of each subject nearest to a target, and the number of subjects with two such places.

    Of two places that are equally near, the earlier is kept.

    >>> place, ids = pd.Series([0.0, 6.0, 12.0, 12.0]), pd.Series(["a", "b", "b", "c"])
    >>> kept, tied = nearest_rows(place, ids, 9.0)
    >>> kept.tolist(), tied
    ([True, True, False, True], 1)
    """
    subject = ids.to_numpy()
    distance = (place - target).abs()
    near = place.where(distance == distance.groupby(subject).transform("min"))
    earliest = near.groupby(subject).transform("min")
    tied = near.notna() & (near != earliest)
    return (near == earliest).to_numpy(dtype=bool), int(ids[tied].nunique())


def _placed(codes: pd.Series, parsed: Mapping[str, Visit]) -> pd.Series:
    """The position of each row; NaN for codes without an order."""
    return pd.to_numeric(codes.map({code: visit.place for code, visit in parsed.items() if visit.scale}))


def at_visits(codes: pd.Series, wanted: Iterable[str], path: Path, notes: list[Note]) -> Array:
    """Mask of the rows of visits; case, padding and prefixes of codes are ignored (ses-M00, m0, bl)."""
    wanted = list(wanted)
    keys = {parse(visit).key for visit in wanted}
    same = [code for code in codes.dropna().unique() if parse(code).key in keys]
    kept = codes.isin(same).to_numpy(dtype=bool)
    if not kept.any():
        raise NoVisit(
            f"{path.name}: no row has visit {listed(wanted)} in column {codes.name!r}, which has "
            f"{codes.nunique()} codes{_known(codes)}; check visit, and that this is the visit column."
        )
    if not set(same) & set(wanted) and not any(parse(code).private for code in same):
        written = f"visit {listed(wanted)} is written {listed(sorted(same))} in column {codes.name!r}"
        notes.append(Note((written,)))
    notes += count_note(int((~kept).sum()), "row of another visit", "rows of other visits")
    return kept


def visit_counts(ids: pd.Series, codes: pd.Series | None, parsed: Mapping[str, Visit]) -> Count | Breakdown:
    """The number of subjects at each visit; their total where codes are private, or too many to list."""
    kept = None if codes is None else codes[ids.index]
    counts = {} if kept is None else {str(code): n for code, n in ids.groupby(kept).nunique().items()}
    if not counts or len(counts) > MOST_CODES or any(parsed[code].private for code in counts):
        return Count(int(ids.nunique()), "subject")
    order = sorted(counts, key=lambda code: (parsed[code].place, code))
    return Breakdown(tuple((int(counts[code]), f"at {code!r}") for code in order))


def gap_notes(gap: pd.Series, ids: pd.Series, dates: str) -> list[Note]:
    """Note on the days between the dates of a table and those of the participants."""
    days = gap.abs().groupby(ids.to_numpy()).min().dropna()
    if not len(days):
        return []
    shares = [Count(int((days > limit).sum()), "subject", total=len(days)) for limit in BEYOND]
    middle = Rough(round(float(days.median())), "day", len(days))
    near, far = (f" beyond {limit} days" for limit in BEYOND)
    start = f"from {dates} to the date of the participants: median "
    return [Note((start, middle, "; ", shares[0], near, ", ", shares[1], far))]


def _known(codes: pd.Series) -> str:
    """The codes, if they are certainly visit codes."""
    parsed = {code: parse(code) for code in codes.dropna().unique()}
    certain = all(visit.scale in ("any", "time") and not visit.private for visit in parsed.values())
    if len(parsed) > MOST_CODES or not certain:
        return ""
    order = sorted(parsed, key=lambda code: (parsed[code].place, code))
    return f" ({', '.join(repr(code) for code in order)})"
