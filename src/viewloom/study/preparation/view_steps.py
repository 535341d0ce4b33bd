"""The steps of one view, in order: fitted, applied, stored and restored."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from viewloom.data.portions import row_portions
from viewloom.study.errors import Message, StudyError
from viewloom.study.notes import Note
from viewloom.study.preparation.plan import Plan
from viewloom.study.preparation.steps import STEPS, Asked, Keep, People, Step
from viewloom.study.readers.genotypes.panel import Panel

Array = np.ndarray


@dataclass(frozen=True, eq=False)
class PreparedView:
    """The fitted steps of a view; a sparse view has none. `panel` has the alleles of genotypes."""

    name: str
    features: Array
    kinds: tuple[str, ...]
    steps: tuple[Step, ...]
    panel: Panel | None = None

    def settings(self) -> dict[str, Any]:
        """What is stored of it beside arrays, for JSON."""
        found = {"name": self.name, "features": self.features.tolist(), "steps": list(self.kinds)}
        return found | ({} if self.panel is None else {"variants": self.panel.state()})

    def apply(self, X: Array, people: People) -> tuple[Array, Array]:
        """Rows after all steps, and their positions; rows without any value are left out."""
        rows = np.arange(len(X))
        with naming(self.name):
            for step in self.steps:
                X, rows = _without_empty(step.apply(X, people[rows]), rows)
        return X, rows

    @property
    def notes(self) -> list[Note]:
        """Notes on the training subjects."""
        return [note for step in self.steps for note in step.notes]

    @property
    def needed(self) -> Collection[str]:
        """The features that new subjects need; of genotypes, with their alleles."""
        return set(self.features) if self.panel is None else self.panel

    @property
    def features_out(self) -> Array:
        """Names of the remaining features."""
        features = self.features
        for step in self.steps:
            features = step.names(features)
        return features


def fit_steps(name: str, X: Array, features: Array, asked: Asked) -> PreparedView:
    """Fit the steps of the numbers of a view; `X` are the subjects who have it, and so is `asked`."""
    kinds, steps = _kinds(asked.plan, name), []
    asked = replace(asked, features=features, known=~np.isnan(X))
    with naming(name):
        for kind in kinds:
            step = STEPS[kind].fit(X, asked)
            X, left = _without_empty(_applied(step, X, asked.people), np.arange(len(X)))
            asked = asked.after(step, left)
            steps.append(step)
    return PreparedView(name, features, kinds, tuple(steps))


def restored_view(view: Mapping[str, Any], a: int, arrays: Mapping[str, Array]) -> PreparedView:
    """Restore a view."""
    steps = [_restored_step(kind, f"{a}/{i}/", arrays) for i, kind in enumerate(view["steps"])]
    features = np.asarray(view["features"], dtype=object)
    stored = view.get("variants")
    panel = None if stored is None else Panel.from_state(map(str, features), stored)
    return PreparedView(view["name"], features, tuple(view["steps"]), tuple(steps), panel)


def _restored_step(kind: str, start: str, arrays: Mapping[str, Any]) -> Step:
    """Restore a step from the arrays whose names begin with `start`."""
    return STEPS[kind](
        **{name.removeprefix(start): X for name, X in arrays.items() if name.startswith(start)}
    )


def _kinds(plan: Plan, view: str) -> tuple[str, ...]:
    """The steps of a view, in order."""
    last = ("standardise",) * plan.standardise
    if view in plan.genotypes:
        return ("keep", "dosage", *last)
    combat = ("combat", "keep") * (plan.harmonise == "combat")
    relative = "w_scores" if plan.w_scores else "residualise"
    covariates = (relative, "keep") * bool(plan.covariates)
    return ("keep", plan.impute, *combat, *covariates, *last)


def _applied(step: Step, X: Array, people: People) -> Array:
    """Training rows after a step; single precision stays so, and is changed in place."""
    if X.dtype != np.float32:
        return step.apply(X, people)
    if isinstance(step, Keep):
        return X if step.keep.all() else X[:, step.keep]
    for part in row_portions(X.shape):
        X[part] = step.apply(X[part].astype(np.float64), people[part])
    return X


def _without_empty(X: Array, rows: Array) -> tuple[Array, Array]:
    """Rows with any value, and their positions."""
    known = ~np.isnan(X).all(axis=1)
    same = known.all() and X.flags.c_contiguous
    return (X, rows) if same else (X[known], rows[known])


@contextmanager
def naming(view: str) -> Iterator[None]:
    """Add the name of the view to errors."""
    try:
        yield
    except StudyError as error:
        raise StudyError(*(Message(f"View {view!r}: {line}", line) for line in error.lines)) from None
