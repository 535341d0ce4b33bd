"""Patterns of ids that let tables meet: ids with prefixes, sessions or days in them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pandas as pd

from viewloom.study import readers
from viewloom.study.drafting.found import Candidate
from viewloom.study.ids import VISIT, canonical_ids, extracted
from viewloom.study.readers.visits import FIRST
from viewloom.study.wording import counted

LEAST = 0.5  # share of the subjects of the smaller table that must meet
PATTERNS = (  # the most specific first
    r"^(OAS\d+)_[A-Za-z]+_(?P<visit>d\d+)",
    r"^(OAS\d+)",
    r"(\d{3}_S_\d{4,5})",
    r"^sub-([0-9A-Za-z]+)_ses-(?P<visit>[0-9A-Za-z]+)",
    r"^sub-([0-9A-Za-z]+)",
    r"^([^_]+)_(?P<visit>(?:ses-)?[A-Za-z]{0,3}\d+)$",
    r"^([^_]+)_",
    r"^([^-]+)-",
    r"_([^_]+)$",
    r"-([^-]+)$",
    r"^[A-Za-z_-]+(\d+)$",
    r"^(\d+)[A-Za-z_-]+$",
    r"(\d{4,})",
)


def link(views: Sequence[Candidate], people: Sequence[str], match: str) -> None:
    """Set a pattern of ids in the views that are not linked to most tables, where one lets them meet.

    Parameters
    ----------
    views : sequence of Candidate
        Changed in place: ids, settings and remarks.
    people : sequence of str
        Ids of the participants.
    match : str
        How ids are matched; see `ids.canonical_ids`.
    """
    main = _largest_island([*(view.ids for view in views), people], match)
    for view in views:
        if view.ids and main and not main.intersection(canonical_ids(view.ids, match)):
            _set(view, main, match)


def _largest_island(sources: Iterable[Sequence[str]], match: str) -> set[str]:
    """Ids of the most tables that are linked by common ids; of several, those of the most subjects."""
    islands: list[tuple[int, set[str]]] = []
    for ids in (set(canonical_ids(source, match)) for source in sources if source):
        linked = [island for island in islands if island[1] & ids]
        merged = (1 + sum(count for count, _ in linked), ids.union(*(known for _, known in linked)))
        islands = [island for island in islands if island not in linked] + [merged]
    return max(islands, key=lambda island: (island[0], len(island[1])))[1] if islands else set()


def pattern_of_people(ids: Sequence[str], views: Sequence[Candidate], match: str) -> tuple[str, int] | None:
    """The pattern by which the participants meet the views, and how many do; None if they do without one."""
    others = _known([view.ids for view in views], match)
    if not others or others.intersection(canonical_ids(ids, match)):
        return None
    best = _best(ids, others, match, visits=False)
    return None if best is None else (best[0], best[1])


def _known(sources: Iterable[Sequence[str]], match: str) -> set[str]:
    return {id for source in sources for id in canonical_ids(source, match)}


def _set(view: Candidate, others: set[str], match: str) -> None:
    visits = readers.takes(view.format, "pattern") and "visit" not in view.settings
    best = _best(view.ids, others, match, visits=visits)
    if best is None:
        return
    pattern, met, ids = best
    column = {"column": view.settings["id"]} if "id" in view.settings else {}
    settings: dict[str, Any] = {"id": {**column, "pattern": pattern}}
    if len(ids) < len(view.ids):
        settings["visit"] = FIRST
        rows = f"{counted(len(ids), 'subject')} in {len(view.ids)} rows"
        view.remarks = [
            remark.replace(f"{counted(len(view.ids), 'subject')}", rows, 1) for remark in view.remarks
        ]
    view.settings = {**view.settings, **settings}
    view.ids = ids
    view.remarks.append(
        f"ids by a pattern: {met} of {len(ids)} subjects are in other tables, none without it"
    )


def _best(
    ids: Sequence[str], others: set[str], match: str, *, visits: bool
) -> tuple[str, int, list[str]] | None:
    """The pattern by which most ids are among others; their number; and the ids it gives."""
    found = []
    for place, pattern in enumerate(PATTERNS):
        parts = extracted(pd.Series(ids, dtype=str), pattern).dropna()
        subjects = list(dict.fromkeys(parts["id"]))
        merges = len(subjects) < len(parts)
        if 2 * len(parts) < len(ids) or (merges and not (visits and VISIT in parts.columns)):
            continue
        if merges and parts.duplicated().any():
            continue
        met = len(others.intersection(canonical_ids(subjects, match)))
        if met >= max(2, LEAST * min(len(subjects), len(others))):
            found.append((-met, place, pattern, subjects))
    if not found:
        return None
    met, _, pattern, subjects = min(found)
    return pattern, -met, subjects
