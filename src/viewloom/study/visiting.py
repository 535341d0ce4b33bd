"""The sources of a study at other visits than the one that is kept."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TypeVar

import numpy as np
import pandas as pd

from viewloom.study.config.repeated import later, span_of, visit_rule
from viewloom.study.config.schema import Participants, View
from viewloom.study.errors import StudyError
from viewloom.study.readers.dates import YEAR
from viewloom.study.readers.tables import codes_in
from viewloom.study.readers.visits import NoVisit, Rule, Visit, parse, rule_of
from viewloom.study.reading import reference_dates

P = TypeVar("P", Participants, View)


def at_visit(source: P, rule: Rule) -> P:
    """The source with another visit."""
    visit = {"months": rule.months, "within": rule.within} if rule.kind == "months" else rule.code
    changed = source.model_copy(update={"visit": visit})
    changed.model_fields_set.add("visit")
    return changed


def visit_name(rule: Rule) -> str:
    """A visit as it is called in tables.

    >>> visit_name(rule_of("m12")), visit_name(rule_of({"months": 12, "within": 3}))
    ('m12', 'month 12')
    """
    return f"month {rule.months:g}" if rule.kind == "months" else rule.code


def later_rules(sources: Iterable[Participants | View]) -> list[Rule]:
    """All visits in the files of some sources that come after the ones that are kept, in their order."""
    sources = list(sources)
    bases = [base for base in map(visit_rule, sources) if base is not None]
    visits = {visit.key: visit for source in sources for visit in _visits_in(source)}
    ordered = sorted(visits.values(), key=lambda visit: (visit.scale, visit.place))
    rules = {visit.key: rule_of(visit.key) for visit in ordered if visit.scale}
    return [rule for rule in rules.values() if all(_follows(rule, base) for base in bases)]


def _follows(rule: Rule, base: Rule) -> bool:
    """Whether a visit certainly comes after another one."""
    one, other = span_of(rule), span_of(base)
    return one is not None and other is not None and one.comparable(other) and later(rule, base)


def _visits_in(source: Participants | View) -> list[Visit]:
    """The visits that occur in the files of a source."""
    keys = ("delimiter", "decimal", "thousands", "encoding", "sheet", "object")
    options = {name: getattr(source, name) for name in keys}
    found = [
        parse(code) for path in files_of(source) for code in codes_in(path, source.visit_column, options)
    ]
    if any(visit.private for visit in found):
        raise StudyError(
            f"{files_of(source)[0].name}: visits are dates or days, so that there is no list of them; set "
            "visits of [followup] to [{ months = 12, within = 3 }] or similar."
        )
    return found


def files_of(source: Participants | View) -> list[Path]:
    """The tables of a source."""
    named = source.paths if isinstance(source, View) else None
    return [path for path in (source.path, *(named or [])) if path is not None]


def years_at(people: Participants, rule: Rule, match: str, ids: pd.Index) -> pd.Series:
    """Years from the visit that is kept to another one, by id: by dates where known, else by months.

    NaN where neither is known.
    """
    span, base = span_of(rule), visit_rule(people)
    start = None if base is None else span_of(base)
    timed = span is not None and span.scale == "time" and start is not None and start.scale in ("time", "any")
    months = ((span.low + span.high) - (start.low + start.high)) / 2 if timed and span and start else np.nan
    nominal = pd.Series(months / 12, index=ids, dtype=float)
    if people.date is None:
        return nominal
    try:
        one, other = reference_dates(people, match), reference_dates(at_visit(people, rule), match)
    except NoVisit:
        return nominal
    assert one is not None
    assert other is not None
    exact = (other.days.number.reindex(ids) - one.days.number.reindex(ids)) / YEAR
    return exact.fillna(nominal)
