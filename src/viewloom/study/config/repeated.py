"""Sources with several visits: which visit is kept, and whether visits of the follow-up come after it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from viewloom.study import readers
from viewloom.study.config.positions import Problem
from viewloom.study.config.schema import Conversion, Participants, Study, View
from viewloom.study.readers.visits import Rule, parse, rule_of

ALL = "all"
WHERE = ("followup", "visits")


class Span(NamedTuple):
    """The positions that a visit may have, on the scale of `visits.parse`."""

    scale: str
    low: float
    high: float

    def comparable(self, other: Span) -> bool:
        """Whether both are of one scale."""
        return self.scale == other.scale or "any" in (self.scale, other.scale)


def visit_rule(source: Participants | View) -> Rule | None:
    """The rule of a source with several visits; None if it has one row per subject."""
    option = readers.FORMATS[source.format].options.get("visit")
    visit = source.visit if option is None or source.visit is not None else option.default
    return None if visit in (None, ALL) else rule_of(visit)


def repeated_sources(study: Study) -> dict[str, Participants | View]:
    """Sources with several visits, by the name of their block."""
    every: dict[str, Participants | View] = {f"views.{name}": view for name, view in study.views.items()}
    if study.participants is not None:
        every["participants"] = study.participants
    return {name: source for name, source in every.items() if visit_rule(source) is not None}


def span_of(rule: Rule) -> Span | None:
    """The positions of a visit; None for codes without an order.

    >>> span_of(rule_of("m12")), span_of(rule_of({"months": 12, "within": 3})), span_of(rule_of("uns1"))
    (Span(scale='time', low=12.0, high=12.0), Span(scale='time', low=9.0, high=15.0), None)
    """
    if rule.kind == "months":
        return Span("time", rule.months - rule.within, rule.months + rule.within)
    visit = parse(rule.code)
    return Span(visit.scale, visit.place, visit.place) if visit.scale else None


def later(rule: Rule, before: Rule) -> bool:
    """Whether a visit comes after another one, or their order is unknown."""
    one, other = span_of(rule), span_of(before)
    if one is None or other is None or not one.comparable(other):
        return str(rule) != str(before)
    return one.low > other.high


def followup_problems(study: Study) -> Iterator[Problem]:
    """Visits of the follow-up that are not later than those of the sources."""
    if not study.followup.visits:
        return
    sources = {name: visit_rule(source) for name, source in repeated_sources(study).items()}
    if not any(name.startswith("views.") for name in sources):
        yield Problem(WHERE, "no view has several visits; set visit of the views that do")
    for name, base in sources.items():
        if base is not None and base.kind not in ("code", "months"):
            start = "a code such as 'bl', or { months = 0, within = 6 }"
            yield Problem(
                WHERE, f"needs a visit of [{name}] that is the same for all: {start}, not {str(base)!r}"
            )
    if study.followup.visits != [ALL]:
        yield from _order_problems(study, sources)


def _order_problems(study: Study, sources: dict[str, Rule | None]) -> Iterator[Problem]:
    rules = [rule_of(visit) for visit in study.followup.visits]
    for i, rule in enumerate(rules):
        if rule.kind not in ("code", "months") or rule.code == ALL:
            yield Problem(
                WHERE, f"{str(rule)!r} is not a visit; write codes, or {{ months = 12, within = 3 }}"
            )
            continue
        for name, base in sources.items():
            if base is not None and base.kind in ("code", "months") and not later(rule, base):
                yield Problem(WHERE, f"{rule} is not later than visit of [{name}], {base}")
        if any(not later(rule, before) for before in rules[:i]):
            yield Problem(WHERE, f"{rule} is not later than the visits before it")


def conversion_problems(study: Study) -> Iterator[Problem]:
    """A conversion that cannot be derived from the participants."""
    people = study.participants
    if people is None or not isinstance(people.survival, Conversion):
        return
    where = ("participants", "survival")
    base = visit_rule(people)
    if people.diagnosis is None:
        yield Problem(where, "converts_to needs diagnosis of [participants]")
    if base is None:
        yield Problem(where, "converts_to needs several visits; set visit of [participants]")
    elif base.kind not in ("code", "months"):
        yield Problem(
            where, f"converts_to needs a visit that is the same for all, such as 'bl', not {str(base)!r}"
        )
