"""The preparation of a view with levels: steps for its numbers, and filled levels for its other columns.

Sites and covariates have no effect that could be subtracted from a level, so that only numbers are
harmonised, residualised and made into w-scores. Levels that are rare are pooled by the model.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from viewloom.data.mixed import Levels, MixedBlock, level_text
from viewloom.data.mixed_encoding import pooled
from viewloom.data.naming import listed
from viewloom.study.errors import StudyError
from viewloom.study.levels import folded
from viewloom.study.notes import Count, Note, count_note
from viewloom.study.preparation.plan import Plan
from viewloom.study.preparation.steps import Asked, People
from viewloom.study.preparation.view_steps import PreparedView, naming
from viewloom.study.readers.genotypes.panel import Panel
from viewloom.study.wording import counted, quoted

Array = np.ndarray
MOST_NAMED = 6  # levels in a message
UNSEEN = "(unseen)"  # level of new subjects whose level is not in the training data
FitNumbers = Callable[[Array, Array, Asked], PreparedView]


@dataclass(frozen=True)
class FilledLevels:
    """A column with levels: those of training, and the level by which missing cells are filled."""

    column: str
    levels: Levels
    fill: int

    def state(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "column": self.column,
            "levels": list(self.levels.names),
            "ordered": self.levels.ordered,
            "fill": self.fill,
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> FilledLevels:
        """The column that gave this state."""
        levels = Levels(tuple(map(str, state["levels"])), bool(state["ordered"]))
        return cls(str(state["column"]), levels, int(state["fill"]))

    def codes(self, values: Array, given: Levels | None) -> tuple[Array, int]:
        """Codes of training levels (n,), NaN where missing, and the number of levels spelled differently.

        Levels that are not in the training data have the code after the last.
        """
        names, at = _given_names(values, given, self.column)
        places, respelt = _places(names, self.levels.names)
        known = ~np.isnan(values)
        found = np.full(len(values), np.nan)
        found[known] = np.array([*places, np.nan])[at[known]]
        return found, respelt

    def filled(self, codes: Array) -> Array:
        """Codes without missing cells."""
        return np.where(np.isnan(codes), self.fill, codes)

    def seen(self, codes: Array) -> Levels:
        """The levels of training, with one more if any cell has another level."""
        names, more = self.levels.names, bool((codes == len(self.levels.names)).any())
        return replace(self.levels, names=(*names, UNSEEN)) if more else self.levels


def _given_names(values: Array, given: Levels | None, column: str) -> tuple[list[str], Array]:
    """Names of levels, and the position of that of each cell (n,); -1 where missing."""
    known = ~np.isnan(values)
    if given is not None:
        return list(given.names), np.where(known, np.nan_to_num(values), -1).astype(int)
    distinct, inverse = np.unique(values[known], return_inverse=True)
    at = np.full(len(values), -1)
    at[known] = inverse
    return [level_text(value) for value in distinct.tolist()], at


def _places(names: Sequence[str], levels: Sequence[str]) -> tuple[list[int], int]:
    """Positions of names among levels, by any spelling that is unique, and how many differ in spelling.

    >>> _places(["F", "Male", "x"], ["f", "m"])
    ([0, 1, 2], 2)
    """
    folds = [folded(level) for level in levels]
    by_fold = {fold: j for j, fold in enumerate(folds) if folds.count(fold) == 1}
    exact = {level: j for j, level in enumerate(levels)}
    found = [exact.get(name, by_fold.get(folded(name), len(levels))) for name in names]
    taken = [j for j in found if j < len(levels)]
    doubtful = {j for j in taken if taken.count(j) > 1}
    found = [
        len(levels) if j in doubtful and name not in exact else j
        for name, j in zip(names, found, strict=True)
    ]
    respelt = sum(j < len(levels) and name not in exact for name, j in zip(names, found, strict=True))
    return found, respelt


@dataclass(frozen=True, eq=False)
class MixedView:
    """The fitted preparation of a view with levels.

    Attributes
    ----------
    name : str
    features : array of str
        All columns of the view in training.
    numbers : PreparedView or None
        The steps of its numbers; None without any number that varies.
    columns : tuple of FilledLevels
        Columns with levels that are kept.
    levelled : dict of str to Levels
        Levels of all columns that have them, kept or not.
    notes : list of Note
    """

    name: str
    features: Array
    numbers: PreparedView | None
    columns: tuple[FilledLevels, ...]
    levelled: Mapping[str, Levels]
    notes: Sequence[Note] = ()
    panel: Panel | None = None

    @property
    def kinds(self) -> tuple[str, ...]:
        """The steps of the numbers."""
        return () if self.numbers is None else self.numbers.kinds

    @property
    def steps(self) -> tuple[Any, ...]:
        """The fitted steps of the numbers."""
        return () if self.numbers is None else self.numbers.steps

    @property
    def needed(self) -> Collection[str]:
        """The features that new subjects need, with their levels; None for numbers."""
        return {str(name): self.levelled.get(str(name)) for name in self.features}

    @property
    def features_out(self) -> Array:
        """Names of the remaining features, in the order of training."""
        kept = {column.column for column in self.columns}
        kept |= set() if self.numbers is None else set(map(str, self.numbers.features_out))
        return np.array([name for name in self.features if name in kept], dtype=object)

    def settings(self) -> dict[str, Any]:
        """What is stored of it beside arrays, for JSON."""
        return {
            "name": self.name,
            "features": self.features.tolist(),
            "steps": list(self.kinds),
            "numbers": None if self.numbers is None else self.numbers.features.tolist(),
            "columns": [column.state() for column in self.columns],
            "levelled": {
                name: {"levels": list(levels.names), "ordered": levels.ordered}
                for name, levels in self.levelled.items()
            },
        }

    def prepared(self, X: Any, people: People) -> tuple[MixedBlock, Array, list[Note]]:
        """Rows after all steps, their positions, and notes; rows without any value are left out."""
        block = self._as_mixed(X)
        position = {str(name): j for j, name in enumerate(block.columns)}
        parts, notes, known = dict[str, Array](), list[Note](), np.zeros(len(block), dtype=bool)
        for column in self.columns:
            j = position[column.column]
            codes, respelt = column.codes(block.cells[:, j], block.levels[j])
            _check_known(column, codes)
            notes += _new_notes(column, codes, respelt)
            known |= ~np.isnan(codes)
            parts[column.column] = column.filled(codes)
        if self.numbers is not None:
            at = [position[str(name)] for name in self.numbers.features]
            X, seen = _numbers(self.numbers, block.cells[:, at], people)
            parts |= dict(zip(map(str, self.numbers.features_out), X.T, strict=True))
            known |= seen
        rows = np.flatnonzero(known)
        return self._block(parts, len(block))[rows], rows, notes

    def _as_mixed(self, X: Any) -> MixedBlock:
        """The block of new subjects; a view that all subjects lack is an empty sparse matrix."""
        if isinstance(X, MixedBlock):
            return X
        cells = np.asarray(X.toarray() if hasattr(X, "toarray") else X, dtype=float)
        return MixedBlock(cells, (None,) * cells.shape[1], self.features, self.name)

    def _block(self, parts: Mapping[str, Array], n: int) -> MixedBlock:
        names = self.features_out
        known = {column.column: column.seen(parts[column.column]) for column in self.columns}
        cells = np.column_stack([parts[str(name)] for name in names]) if n else np.empty((0, len(names)))
        return MixedBlock(cells, tuple(known.get(str(name)) for name in names), names, self.name)


def _numbers(view: PreparedView, X: Array, people: People) -> tuple[Array, Array]:
    """Numbers after all steps, and who has any of those that are kept; rows without are imputed, too."""
    seen = np.ones(len(X), dtype=bool)
    with naming(view.name):
        for i, step in enumerate(view.steps):
            X = step.apply(X, people)
            if i == 0:  # the columns that are kept
                seen = ~np.isnan(X).all(axis=1)
    return X, seen


def _check_known(column: FilledLevels, codes: Array) -> None:
    """Refuse several subjects of whom none has a level of training, as in another coding."""
    known = codes[~np.isnan(codes)]
    if len(known) > 1 and (known == len(column.levels.names)).all():
        levels = quoted(column.levels.names[:MOST_NAMED]) + ", ..." * (len(column.levels.names) > MOST_NAMED)
        raise StudyError(
            f"column {column.column!r} has none of the levels of the training data, {levels}, in "
            f"{counted(len(known), 'subject')}; map them: types = {{ '{column.column}' = "
            f"{{ '{column.levels.names[0]}' = [...] }} }}."
        )


def _new_notes(column: FilledLevels, codes: Array, respelt: int) -> Iterator[Note]:
    """Notes on new subjects; never the levels themselves."""
    unseen = int((codes == len(column.levels.names)).sum())
    text = f"a level of {column.column!r} that is not in the training data, and counts as its mean"
    yield from count_note(unseen, "subject has", "subjects have", text)
    yield from _filled_note(int(np.isnan(codes).sum()), len(codes), column)
    spelled = f"of {column.column!r} matched with another spelling in the training data"
    yield from count_note(respelt, "level", text=spelled, public=True)


def _filled_note(count: int, n: int, column: FilledLevels) -> list[Note]:
    by = "the median level" if column.levels.ordered else "the most frequent level"
    cells = Count(count, "missing cell", detail=f" ({count / max(n, 1):.1%})")
    return [Note((cells, f" of {column.column!r} filled with {by}"))] * bool(count)


def fit_mixed(block: MixedBlock, asked: Asked, fit_numbers: FitNumbers) -> MixedView:
    """Fit the preparation of observed rows of a view with levels."""
    names = np.array([str(name) for name in block.columns], dtype=object)
    columns = [_fitted_column(block, j) for j in block.categorical]
    constant = [str(names[j]) for j, one in zip(block.categorical, columns, strict=True) if one is None]
    kept = [column for column in columns if column is not None]
    notes = count_note(
        len(constant), "column", text=f"with a single value left out: {listed(constant)}", public=True
    )
    varies = [j for j in block.numeric if len(np.unique(block.cells[~np.isnan(block.cells[:, j]), j])) > 1]
    numbers = fit_numbers(block.cells[:, block.numeric], names[block.numeric], asked) if varies else None
    if numbers is None and not kept:
        raise StudyError(f"View {block.name!r}: no column varies among {len(block)} subjects; leave it out.")
    if numbers is None:
        idle = [str(names[j]) for j in block.numeric]
        notes += count_note(
            len(idle), "column", text=f"with a single value left out: {listed(idle)}", public=True
        )
    levelled = {str(names[j]): levels for j, levels in enumerate(block.levels) if levels is not None}
    notes += [] if numbers is None else numbers.notes
    for column in kept:
        codes = block.cells[:, list(names).index(column.column)]
        notes += [*_filled_note(int(np.isnan(codes).sum()), len(codes), column), *_rare_note(column, codes)]
    notes += _unchanged_note(kept, asked.plan)
    return MixedView(block.name, names, numbers, tuple(kept), levelled, notes)


def _fitted_column(block: MixedBlock, j: int) -> FilledLevels | None:
    """The levels of a column; None if it has a single one."""
    levels, codes = block.levels[j], block.cells[:, j]
    assert levels is not None
    known = np.sort(codes[~np.isnan(codes)]).astype(int)
    counts = np.bincount(known, minlength=len(levels.names))
    if (counts > 0).sum() < 2:
        return None
    fill = known[len(known) // 2] if levels.ordered else counts.argmax()
    return FilledLevels(str(block.columns[j]), replace(levels, declared=True), int(fill))


def _rare_note(column: FilledLevels, codes: Array) -> list[Note]:
    """A note on levels that the model pools; ordinal ones have scores, and are not pooled."""
    counts = np.bincount(column.filled(codes).astype(int), minlength=len(column.levels.names))
    dummies = pooled(counts)
    rare = int((dummies == dummies.max()).sum()) if not column.levels.ordered else 0
    text = f"of {column.column!r} pooled as one"
    return count_note(rare, "rare level", text=text, public=True) if rare > 1 else []


def _unchanged_note(columns: Sequence[FilledLevels], plan: Plan) -> list[Note]:
    """A note on steps that are not applied to levels."""
    steps = {
        "harmonised": plan.harmonise != "none",
        "made into w-scores": bool(plan.w_scores),
        "residualised": bool(plan.residualise),
        "adjusted for severity": plan.remove_severity is not None,
    }
    left = [name for name, done in steps.items() if done]
    names = listed([column.column for column in columns])
    text = f"with levels not {' or '.join(left)}, as only numbers can be: {names}"
    return count_note(len(columns) * bool(left), "column", text=text, public=True)


def restored_mixed(stored: Mapping[str, Any], numbers: PreparedView | None) -> MixedView:
    """The view that gave these `settings`."""
    levelled = {
        str(name): Levels(tuple(map(str, one["levels"])), bool(one["ordered"]))
        for name, one in stored["levelled"].items()
    }
    columns = tuple(map(FilledLevels.from_state, stored["columns"]))
    features = np.asarray(stored["features"], dtype=object)
    return MixedView(str(stored["name"]), features, numbers, columns, levelled)
