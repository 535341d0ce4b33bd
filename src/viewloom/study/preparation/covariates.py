"""Covariates as a design matrix, coded as in the training subjects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from viewloom.clinical import as_categories, as_numbers
from viewloom.data.naming import listed
from viewloom.study.errors import StudyError
from viewloom.study.levels import MOST_LEVELS, folded, is_categorical
from viewloom.study.notes import Note, count_note
from viewloom.study.wording import counted, quoted

Array = np.ndarray


@dataclass(frozen=True, eq=False)
class Covariates:
    """From columns of the participants to a design matrix of p columns.

    `levels` has the categories of each covariate, None if it is numeric. The first category has no column.
    """

    levels: Mapping[str, list[str] | None]
    default: Array
    centre: Array
    spread: Array

    @classmethod
    def fit(cls, participants: pd.DataFrame | None, names: Sequence[str]) -> Covariates:
        """Find categories, means and most frequent values of the training subjects."""
        levels = {name: _levels(column_of(participants, name), name) for name in names}
        defaults = [_default(column_of(participants, name), found) for name, found in levels.items()]
        unscaled = cls(levels, np.concatenate([np.empty(0), *defaults]), np.array(0.0), np.array(1.0))
        design = unscaled.design(participants, 1)
        spread = design.std(axis=0)
        return replace(unscaled, centre=design.mean(axis=0), spread=np.where(spread > 0, spread, 1.0))

    def design(self, participants: pd.DataFrame | None, n: int) -> Array:
        """Design matrix (n x p), standardised."""
        raw = self.raw(participants, n)
        return np.asarray((np.where(np.isnan(raw), self.default, raw) - self.centre) / self.spread)

    def raw(self, participants: pd.DataFrame | None, n: int) -> Array:
        """Design matrix without standardisation, NaN where the covariate is missing."""
        coded = [_coded(column_of(participants, name), levels) for name, levels in self.levels.items()]
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


def _coded(column: pd.Series, levels: Sequence[str] | None) -> Array:
    """A covariate as columns of the design, NaN where it is missing or of an unknown category."""
    if levels is None:
        return as_numbers(column)[:, None]
    labels = as_categories(column)
    coded = np.array([[float(label == level) for level in levels[1:]] for label in labels])
    coded = coded.reshape(len(labels), len(levels) - 1)
    coded[[label not in levels for label in labels]] = np.nan
    return coded


def _default(column: pd.Series, levels: Sequence[str] | None) -> Array:
    """The value for subjects without the covariate: the mean, or the most frequent category."""
    if levels is None:
        return np.array([np.nanmean(as_numbers(column))])
    labels = as_categories(column)
    most_frequent = max(levels, key=labels.count)
    return np.array([float(most_frequent == level) for level in levels[1:]])
