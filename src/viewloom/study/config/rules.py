"""Rules on who is clustered: ``include`` and ``exclude`` of ``[cluster]``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import inf
from typing import Literal

INCLUDE, EXCLUDE = "include", "exclude"
Codes = list[str]
Range = dict[Literal["min", "max"], float]
Given = Mapping[str, Codes | Range]


@dataclass(frozen=True)
class Rule:
    """A rule on one column.

    Attributes
    ----------
    key : {"include", "exclude"}
    name : str
        As in study.toml: a column of the participants, or ``view.column`` for one of a view's table.
    view : str or None
        The view that the column belongs to.
    column : str
    codes : tuple of str
        Codes that match; empty where the rule is a range.
    low, high : float
        Range that matches, both ends included.
    """

    key: str
    name: str
    view: str | None
    column: str
    codes: tuple[str, ...] = ()
    low: float = -inf
    high: float = inf

    @property
    def where(self) -> str:
        """The place of the rule, for messages."""
        return f"cluster.{self.key}"


def rules_of(include: Given, exclude: Given, views: Iterable[str]) -> list[Rule]:
    """All rules of a study.

    >>> rules = rules_of({"age": {"min": 55}}, {"mri.QC": ["Fail"]}, ["mri", "pet"])
    >>> [(rule.key, rule.view, rule.column, rule.codes, rule.low) for rule in rules]
    [('include', None, 'age', (), 55), ('exclude', 'mri', 'QC', ('Fail',), -inf)]
    """
    names = list(views)
    return [*_rules(INCLUDE, include, names), *_rules(EXCLUDE, exclude, names)]


def _rules(key: str, given: Given, views: list[str]) -> Iterator[Rule]:
    for name, value in given.items():
        view, column = source_of(name, views)
        if isinstance(value, dict):
            yield Rule(key, name, view, column, low=value.get("min", -inf), high=value.get("max", inf))
        else:
            yield Rule(key, name, view, column, tuple(value))


def source_of(name: str, views: Iterable[str]) -> tuple[str | None, str]:
    """The view that a rule's column belongs to, None for the participants, and the column.

    >>> source_of("mri.QC", ["mri"]), source_of("age.bl", ["mri"])
    (('mri', 'QC'), (None, 'age.bl'))
    """
    owners = [view for view in views if name.startswith(f"{view}.") and len(name) > len(view) + 1]
    if not owners:
        return None, name
    view = max(owners, key=len)
    return view, name[len(view) + 1 :]
