"""Dates of visits: calendar dates, or days since the entry into the study."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
import pandas as pd

from viewloom.study.errors import StudyError

ISO = re.compile(r"(\d{4})[-/.]?(\d{2})[-/.]?(\d{2})(?:[ T]\d{1,2}:.*)?")
SLASHED = re.compile(r"(\d{1,2})[/.](\d{1,2})[/.](\d{4})(?:[ T]\d{1,2}:.*)?")  # day or month first
NUMBERED = re.compile(
    r"(?:.*_)?d?(\d{1,5})(?:\.0*)?", re.IGNORECASE | re.ASCII
)  # 129, d0129, OAS30001_MR_d0129
MONTH = 30.4375  # days
YEAR = 365.25  # days
WRITE = "write dates as 2021-03-14, or as numbers of days since the entry"


@dataclass(frozen=True, eq=False)
class Days:
    """Days of visits.

    Attributes
    ----------
    number : Series of float
        NaN where the date is missing.
    calendar : bool
        Whether they are calendar dates, rather than days since the entry into the study.
    """

    number: pd.Series
    calendar: bool


class Reference(Protocol):
    """The dates to which those of a table are compared."""

    def of(self, ids: pd.Series) -> Days:
        """The date of each subject, NaN where there is none."""


def days_of(cells: pd.Series, path: Path) -> Days:
    """The days of a column of dates, or of days since the entry; blank cells are missing.

    >>> found = days_of(pd.Series(["2021-03-14", None, "2021-03-16"], name="date"), Path("t.csv"))
    >>> found.calendar, found.number.diff(2).iloc[2].item()
    (True, 2.0)
    >>> days_of(pd.Series(["d0000", "d0129"], name="day"), Path("t.csv")).number.tolist()
    [0.0, 129.0]
    """
    if pd.api.types.is_datetime64_any_dtype(cells):
        return Days(_numbers(cells).rename(str(cells.name)), True)
    text = cells.astype(str).str.strip()
    text = text.where(cells.notna().to_numpy() & (text != "").to_numpy()).str.replace(r"\.0$", "", regex=True)
    known = text.dropna()
    if not len(known):
        raise StudyError(f"{path.name}: column {cells.name!r} has no date; check date and visit.")
    for read in (_iso, _slashed, _numbered):
        found = read(known, path)
        if found is not None:
            return Days(found.number.reindex(cells.index).rename(str(cells.name)), found.calendar)
    strange = int((~known.str.fullmatch(ISO) & ~known.str.fullmatch(SLASHED)).sum())
    raise StudyError(
        f"{path.name}: column {cells.name!r} has no valid date in {strange or len(known)} of {len(cells)} "
        f"rows; {WRITE}."
    )


def _iso(known: pd.Series, path: Path) -> Days | None:
    """Dates with the year first."""
    return _dates(known.str.extract(f"^{ISO.pattern}$"), (0, 1, 2))


def _slashed(known: pd.Series, path: Path) -> Days | None:
    """Dates with the day or the month first; the column must tell which."""
    parts = known.str.extract(f"^{SLASHED.pattern}$")
    if parts.isna().to_numpy().any():
        return None
    day_first, month_first = _dates(parts, (2, 1, 0)), _dates(parts, (2, 0, 1))
    if day_first is not None and month_first is not None and (parts[0] != parts[1]).any():
        raise StudyError(
            f"{path.name}: column {known.name!r} has dates that may begin with the day or with the month; "
            f"{WRITE}."
        )
    return day_first or month_first


def _dates(parts: pd.DataFrame, order: tuple[int, int, int]) -> Days | None:
    """Dates from year, month and day as text; None unless all are valid."""
    names = ("year", "month", "day")
    numbers = pd.DataFrame({name: parts[at] for name, at in zip(names, order, strict=True)}).astype(float)
    if numbers.isna().to_numpy().any():
        return None
    dates = pd.to_datetime(numbers, errors="coerce")
    return None if dates.isna().any() else Days(_numbers(dates), True)


def _numbers(dates: pd.Series) -> pd.Series:
    """Days since 1970."""
    days = dates.dt.tz_localize(None).dt.normalize() - pd.Timestamp("1970-01-01")
    return (days / pd.Timedelta(days=1)).astype(float)


def _numbered(known: pd.Series, path: Path) -> Days | None:
    """Whole numbers of days since the entry, which may be the end of a label."""
    found = known.str.extract(f"^{NUMBERED.pattern}$", flags=NUMBERED.flags)[0]
    negative = known.str.fullmatch(r"-\d{1,5}")
    number = pd.to_numeric(found.where(~negative, known), errors="coerce")
    return None if number.isna().any() else Days(number.astype(float), False)


def gaps(date: Days, reference: Days, where: str) -> pd.Series:
    """Days from the reference to each date; both must be of one kind."""
    if date.calendar != reference.calendar:
        kinds = {True: "calendar dates", False: "days since the entry"}
        one, other = kinds[date.calendar], kinds[reference.calendar]
        raise StudyError(f"{where} has {one}, but date of [participants] has {other}; use one kind in both.")
    return pd.Series(
        date.number.to_numpy() - reference.number.to_numpy(), date.number.index, dtype=np.float64
    )
