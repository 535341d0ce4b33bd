"""Covariates as a design matrix, coded as in the training subjects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd

from viewloom.clinical import as_categories, as_numbers
from viewloom.data.naming import listed
from viewloom.study.errors import StudyError
from viewloom.study.levels import MOST_LEVELS, folded, is_categorical
from viewloom.study.notes import Note, count_note
from viewloom.study.preparation.splines import knots_of, spline_basis
from viewloom.study.wording import counted, quoted

Array = np.ndarray


@dataclass(frozen=True, eq=False)
class Covariates:
    """From columns of the participants to a design matrix of p columns.

    `levels` has the categories of each covariate, None if it is numeric. The first category has no column.
    `knots` has those of covariates that are splines.
    """

    levels: Mapping[str, list[str] | None]
    default: Array
    centre: Array
    spread: Array
    knots: Mapping[str, Array] = field(default_factory=dict)

    @classmethod
    def fit(
        cls,
        participants: pd.DataFrame | None,
        names: Sequence[str],
        splines: Sequence[str] = (),
        reference: Array | None = None,
    ) -> Covariates:
        """Find the categories of all training subjects, and means, modes and knots of the reference."""
        levels = {name: _levels(column_of(participants, name), name) for name in names}
        among = participants if reference is None or participants is None else participants[reference]
        knots = {name: _knots(among, name, levels[name]) for name in splines}
        defaults = [
            _default(column_of(among, name), found, knots.get(name)) for name, found in levels.items()
        ]
        unscaled = cls(levels, np.concatenate([np.empty(0), *defaults]), np.array(0.0), np.array(1.0), knots)
        design = unscaled.design(among, 1)
        spread = design.std(axis=0)
        return replace(unscaled, centre=design.mean(axis=0), spread=np.where(spread > 0, spread, 1.0))

    def design(self, participants: pd.DataFrame | None, n: int) -> Array:
        """Design matrix (n x p), standardised."""
        raw = self.raw(participants, n)
        return np.asarray((np.where(np.isnan(raw), self.default, raw) - self.centre) / self.spread)

    def raw(self, participants: pd.DataFrame | None, n: int) -> Array:
        """Design matrix without standardisation, NaN where the covariate is missing."""
        coded = [
            _coded(column_of(participants, name), levels, self.knots.get(name))
            for name, levels in self.levels.items()
        ]
        return np.column_stack(coded) if coded else np.empty((n, 0))

    def unseen(self, participants: pd.DataFrame | None) -> list[Note]:
        """Notes on levels that are not in the training data; other spellings of a level are errors."""
        notes = list[Note]()
        for name, levels in self.levels.items():
            column = column_of(participants, name)
            if levels is None:
                _check_numbers(column, name)
                continue
            labels = [label for label in as_categories(column) if label is not None]
            new = [label for label in labels if label not in levels]
            _check_new_levels(new, len(labels), levels, name)
            text = f"a level of {name!r} that is not in the training data"
            notes += count_note(len(new), "subject has", "subjects have", text)
        return notes


def _check_numbers(column: pd.Series, name: str) -> None:
    known = np.array([label is not None for label in as_categories(column)], dtype=bool)
    texts = int(np.isnan(as_numbers(column)[known]).sum())
    if texts:
        raise StudyError(
            f"Covariate {name!r} is numeric in training but not for {counted(texts, 'subject')}; "
            "correct the cells, or list them in missing_codes of [participants]."
        )


def _check_new_levels(new: list[str], n: int, levels: Sequence[str], name: str) -> None:
    """Refuse other spellings of known levels, and a column of n labels without a known level."""
    known = {folded(level): level for level in levels}
    respelt = {label: known[folded(label)] for label in sorted(set(new)) if folded(label) in known}
    if not respelt and (len(new) < n or not n):
        return
    if respelt:
        same = ", ".join(f"'{level}' = ['{label}']" for label, level in respelt.items())
        text = f"levels {quoted(respelt)} that are spelled differently in training; add to [participants] "
        raise StudyError(f"Covariate {name!r} has {text}levels = {{ '{name}' = {{ {same} }} }}.")
    raise StudyError(
        f"Covariate {name!r} has none of the training levels, {quoted(levels)}, in "
        f"{counted(n, 'subject')}; map them with levels = {{ '{name}' = {{ ... }} }} under "
        "[participants]."
    )


def column_of(participants: pd.DataFrame | None, name: str) -> pd.Series:
    """A column of the participants."""
    if participants is None:
        raise StudyError(f"Column {name!r} is needed, but there is no table of participants.")
    columns = list(participants.columns)
    if columns.count(name) != 1:
        raise StudyError(
            f"The table of participants has {columns.count(name)} columns {name!r} among {listed(columns)}."
        )
    return participants[name]


def labels_of(participants: pd.DataFrame | None, name: str | None) -> list[str | None]:
    """A column as categories."""
    return as_categories(column_of(participants, str(name)))


def _levels(column: pd.Series, name: str) -> list[str] | None:
    """Categories of a covariate, None if it is numeric."""
    labels = as_categories(column)
    known = {label for label in labels if label is not None}
    if not known:
        raise StudyError(f"Covariate {name!r} has no value among {len(column)} subjects; leave it out.")
    if not is_categorical(column):
        return None
    if len(known) > MOST_LEVELS:
        raise StudyError(
            f"Covariate {name!r} is text with {len(known)} distinct values; use numbers or a few categories."
        )
    return sorted(known)


def _knots(participants: pd.DataFrame | None, name: str, levels: Sequence[str] | None) -> Array:
    """Knots of a covariate, which must be numeric."""
    if levels is not None:
        raise StudyError(f"Covariate {name!r} is categorical, and only numbers can be splines; leave it out.")
    return knots_of(as_numbers(column_of(participants, name)), name)


def _coded(column: pd.Series, levels: Sequence[str] | None, knots: Array | None) -> Array:
    """A covariate as columns of the design, NaN where it is missing or of an unknown category."""
    if levels is None:
        return _of_numbers(as_numbers(column), knots)
    labels = as_categories(column)
    coded = np.array([[float(label == level) for level in levels[1:]] for label in labels])
    coded = coded.reshape(len(labels), len(levels) - 1)
    coded[[label not in levels for label in labels]] = np.nan
    return coded


def _default(column: pd.Series, levels: Sequence[str] | None, knots: Array | None) -> Array:
    """The columns for subjects without the covariate: those of the mean, or the most frequent category."""
    if levels is None:
        numbers = as_numbers(column)
        known = numbers[np.isfinite(numbers)]
        if not len(known):
            raise StudyError(
                f"Covariate {column.name!r} has no value in {len(column)} controls; leave it out."
            )
        return _of_numbers(known.mean(keepdims=True), knots)[0]
    labels = as_categories(column)
    most_frequent = max(levels, key=labels.count)
    return np.array([float(most_frequent == level) for level in levels[1:]])


def _of_numbers(values: Array, knots: Array | None) -> Array:
    return values[:, None] if knots is None else spline_basis(values, knots)
