"""Who is clustered, who is reference, and who is left out, by the rules of ``[cluster]``.

Without rules everyone is clustered. With rules, a subject is clustered who matches every rule of ``include``
and none of ``exclude``. Controls who are not clustered are reference: the preparation is estimated in them,
too, and the report shows where they fall. A control who matches a rule of ``exclude`` on another column than
the diagnosis, such as failed quality control, is left out like any other subject. Whoever lacks a value that
a rule needs is left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from viewloom.clinical import as_categories, as_numbers
from viewloom.data.naming import listed
from viewloom.study.config.rules import EXCLUDE, Rule
from viewloom.study.config.schema import Study
from viewloom.study.errors import StudyError
from viewloom.study.levels import MOST_LEVELS, is_categorical
from viewloom.study.notes import Breakdown, Count, Note
from viewloom.study.wording import nearest, quoted

Array = np.ndarray
CLUSTERED, REFERENCE, LEFT_OUT = "clustered", "reference", "left out"
ROLES = (CLUSTERED, REFERENCE, LEFT_OUT)
NOT_GIVEN, EVERYONE = "not given", "all subjects"


@dataclass(frozen=True, eq=False)
class Selection:
    """The role of every subject with a view.

    Attributes
    ----------
    roles : Series of str
        "clustered", "reference" or "left out", by id.
    reasons : dict of str to int
        Why subjects are left out, and how many; the first reason counts.
    groups : DataFrame of int
        Subjects by diagnosis (rows) and role (columns); one row where the study names no diagnosis.
    """

    roles: pd.Series
    reasons: dict[str, int]
    groups: pd.DataFrame

    def of(self, *roles: str) -> pd.Index:
        """Ids of the subjects with one of these roles."""
        return pd.Index(self.roles.index[self.roles.isin(roles).to_numpy()])

    @property
    def notes(self) -> list[Note]:
        """How many subjects have each role, and why others are left out."""
        counts = {role: Count(int((self.roles == role).sum()), "subject") for role in ROLES}
        parts = [part for role in ROLES for part in (counts[role], f" {role}, ")]
        found = [Note(("by the rules of [cluster]: ", *parts[:-1], f" {LEFT_OUT}"))]
        if self.reasons:
            why = Breakdown(tuple((count, reason) for reason, count in self.reasons.items()))
            found.append(Note(("left out by the rules of [cluster]: ", why)))
        return found


def select(
    study: Study,
    ids: pd.Index,
    participants: pd.DataFrame | None,
    tables: Mapping[str, pd.DataFrame],
) -> Selection | None:
    """Apply the rules of a study.

    Parameters
    ----------
    study : Study
    ids : Index
        Subjects with at least one view.
    participants : DataFrame or None
        Indexed by id.
    tables : dict of str to DataFrame
        By view, the columns of its table that rules name, indexed by id.

    Returns
    -------
    Selection or None
        None without rules: everyone is clustered.

    Raises
    ------
    StudyError
        With one line per rule that cannot be applied, or if nobody is left.
    """
    rules = sorted(study.rules, key=lambda rule: rule.key != EXCLUDE)  # in the order of reasons
    if not rules:
        return None
    columns = [_column(rule, ids, participants, tables) for rule in rules]
    problems = [
        line for rule, column in zip(rules, columns, strict=True) for line in problems_of(rule, column)
    ]
    if problems:
        raise StudyError("\n".join(problems))
    reasons = exclusions(rules, columns, [_has_table(rule, ids, tables) for rule in rules])
    diagnosis = None if study.participants is None else study.participants.diagnosis
    labels = _labels(participants, diagnosis, ids)
    roles = _roles(rules, reasons, labels, study)
    if CLUSTERED not in roles:
        raise StudyError(f"cluster: no subject is left by the rules on {listed([r.name for r in rules])}.")
    if study.cluster.sensitivity and REFERENCE not in roles:
        raise StudyError("cluster.sensitivity: no control is left to be added; check the rules and controls.")
    left = Counter(
        next(reason for reason in found if reason)
        for role, found in zip(roles, zip(*reasons, strict=True), strict=True)
        if role == LEFT_OUT
    )
    names = [EVERYONE if diagnosis is None else label or NOT_GIVEN for label in labels]
    return Selection(pd.Series(roles, ids, dtype=object), dict(left.most_common()), _groups(names, roles))


def _groups(names: Sequence[str], roles: Sequence[str]) -> pd.DataFrame:
    """Number of subjects by diagnosis and role."""
    counts = Counter(zip(names, roles, strict=True))
    rows = {name: [counts[name, role] for role in ROLES] for name in sorted(set(names))}
    return pd.DataFrame.from_dict(rows, orient="index", columns=list(ROLES))


def matches(rule: Rule, column: pd.Series) -> tuple[Array, Array]:
    """Which values match a rule, and which are known.

    >>> rule = Rule("include", "age", None, "age", low=60)
    >>> [found.tolist() for found in matches(rule, pd.Series([59, 60.0, None]))]
    [[False, True, False], [True, True, False]]
    >>> rule = Rule("include", "dx", None, "dx", codes=("AD", "1"))
    >>> matches(rule, pd.Series(["AD", 1.0, "ad", None], dtype=object))[0].tolist()
    [True, True, False, False]
    """
    if rule.codes:
        labels = as_categories(column)
        found = np.array([label is not None and label in codes_of(rule) for label in labels], dtype=bool)
        return found, np.array([label is not None for label in labels], dtype=bool)
    numbers = as_numbers(column)
    return (numbers >= rule.low) & (numbers <= rule.high), ~np.isnan(numbers)


def codes_of(rule: Rule) -> set[str]:
    """The codes of a rule, with numbers spelled as in tables: 1.0 is 1."""
    numbers = (as_categories(as_numbers([code]))[0] for code in rule.codes)
    return {number or code for code, number in zip(rule.codes, numbers, strict=True)} | {*rule.codes}


def problems_of(rule: Rule, column: pd.Series) -> Iterator[str]:
    """Why a rule cannot be applied to a column: one line per problem."""
    where = f"{rule.where}: {rule.name!r}"
    labels = as_categories(column)
    known = sorted({label for label in labels if label is not None})
    if not known:
        yield f"{where} has no value among the subjects with a view."
    elif rule.codes:
        for code in rule.codes:
            if not codes_of(Rule(rule.key, rule.name, None, rule.column, (code,))) & {*known}:
                yield f"{where}: no subject has {code!r}{_others(code, known)}"
    elif is_categorical(column):
        yield f"{where} is not numeric{_listed(known)}; a range needs numbers: list the groups instead."
    elif not matches(rule, column)[0].any():
        yield f"{where}: no subject is within {_range(rule)}."


def exclusions(
    rules: Sequence[Rule], columns: Sequence[pd.Series], has_table: Sequence[Array]
) -> list[list[str]]:
    """For each rule and subject, the reason why the rule keeps the subject from being clustered, or ''."""
    return [
        _kept_away(rule, *matches(rule, column), there).tolist()
        for rule, column, there in zip(rules, columns, has_table, strict=True)
    ]


def _kept_away(rule: Rule, matched: Array, known: Array, there: Array) -> Array:
    """The reason for each subject, or ''; `there` are those whom a missing value excludes."""
    unknown = f"without {rule.name!r}"
    if rule.key == EXCLUDE:
        return np.where(matched, f"excluded by {rule.name!r}", np.where(~known & there, unknown, ""))
    other = f"with another {rule.name!r}" if rule.codes else f"with {rule.name!r} outside {_range(rule)}"
    return np.where(matched, "", np.where(known, other, unknown))


def _roles(
    rules: Sequence[Rule], reasons: Sequence[Sequence[str]], labels: list[str | None], study: Study
) -> list[str]:
    """The role of every subject."""
    controls = {*study.preparation.controls}
    diagnosis = study.participants and study.participants.diagnosis
    apply_to_controls = [rule.key == EXCLUDE and rule.name != diagnosis for rule in rules]
    roles = []
    for found, label in zip(zip(*reasons, strict=True), labels, strict=True):
        out = any(reason for reason, applies in zip(found, apply_to_controls, strict=True) if applies)
        spare = REFERENCE if label in controls and not out else LEFT_OUT
        roles.append(spare if any(found) else CLUSTERED)
    return roles


def _column(
    rule: Rule, ids: pd.Index, participants: pd.DataFrame | None, tables: Mapping[str, pd.DataFrame]
) -> pd.Series:
    source = participants if rule.view is None else tables.get(rule.view)
    if source is None or rule.column not in source:
        return pd.Series(np.nan, ids, dtype=object)
    return source[rule.column].reindex(ids)


def _has_table(rule: Rule, ids: pd.Index, tables: Mapping[str, pd.DataFrame]) -> Array:
    """Subjects that a missing value counts for; who lacks a view has no value to be excluded by."""
    if rule.view is None:
        return np.ones(len(ids), dtype=bool)
    table = tables.get(rule.view)
    return np.zeros(len(ids), dtype=bool) if table is None else np.asarray(ids.isin(table.index))


def _labels(participants: pd.DataFrame | None, column: str | None, ids: pd.Index) -> list[str | None]:
    if participants is None or column is None:
        return [None] * len(ids)
    return as_categories(participants[column].reindex(ids))


def _others(code: str, known: Collection[str]) -> str:
    """The level that is most similar, and the levels that exist; their number where they may be ids."""
    if len(known) > MOST_LEVELS:
        return f"; there are {len(known)} others."
    hint = nearest(code, known)
    return f"{hint} There are {quoted(known)}." if hint else f"; there are {quoted(known)}."


def _listed(known: Sequence[str]) -> str:
    return f" ({quoted(known)})" if len(known) <= MOST_LEVELS else ""


def _range(rule: Rule) -> str:
    ends = (("min", rule.low), ("max", rule.high))
    return "{ " + ", ".join(f"{name} = {value:g}" for name, value in ends if np.isfinite(value)) + " }"
