"""Preparation of views: fitted on training subjects, stored with the model, applied to new subjects.

The steps of every view are, in this order: constant columns are left out, missing cells imputed, sites
harmonised, covariates regressed out or features made into w-scores, features standardised; at last severity
is removed. Sparse views are not changed. Columns with levels are left out if they are constant, and filled.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp

from viewloom.data.alignment import align
from viewloom.data.mixed import MixedBlock
from viewloom.data.naming import listed
from viewloom.data.portions import row_portions
from viewloom.data.views import Views
from viewloom.study.errors import StudyError
from viewloom.study.notes import Count, Note, count_note
from viewloom.study.preparation.covariates import Covariates, labels_of
from viewloom.study.preparation.mixed_view import MixedView, fit_mixed, restored_mixed
from viewloom.study.preparation.normative import check_enough, check_estimable, reference_subjects
from viewloom.study.preparation.plan import Plan
from viewloom.study.preparation.severity import Severity, fit_severity
from viewloom.study.preparation.steps import NOWHERE, Asked, People
from viewloom.study.preparation.view_steps import PreparedView, fit_steps, naming, restored_view
from viewloom.study.readers.genotypes.panel import Panel
from viewloom.study.wording import counted

__all__ = ["Plan", "Preparation"]
Array = np.ndarray


@dataclass(frozen=True, eq=False)
class Preparation:
    """Steps fitted on training subjects; see `Plan` for what they do.

    Attributes
    ----------
    plan : Plan
    views : list of PreparedView or MixedView
    covariates : Covariates
    sites : list of str
        Sites of the training subjects.
    severity : tuple of Severity
        What `remove_severity` removes, in this order.
    notes : list of Note
        What was changed for the training subjects: counts and names of features, never ids.

    Examples
    --------
    >>> import numpy as np, pandas as pd
    >>> from viewloom import Views
    >>> scans = pd.DataFrame({"left": [3.0, np.nan, 2.0], "right": [3.0, 2.0, 1.0], "side": [2.0] * 3})
    >>> views = Views({"mri": scans}, allow_nan=True)
    >>> prepared = Preparation.fit(views)
    >>> for note in prepared.notes:
    ...     print(note)
    View 'mri': 1 column with a single value left out: 'side'
    View 'mri': 1 missing cell (16.7%) filled with the median
    >>> prepared.transform(views)["mri"].tolist()
    [[3.0, 3.0], [2.5, 2.0], [2.0, 1.0]]

    Deviations from controls of the same age and sex, in their standard deviations:

    >>> import viewloom as vl
    >>> cohort = vl.simulate.adni_like(random_state=0)
    >>> plan = Plan(
    ...     w_scores=["age", "sex", "icv"], splines=["age"], diagnosis="diagnosis", controls="HC",
    ...     genotypes=["snp"],
    ... )
    >>> fitted = Preparation.fit(cohort.views, cohort.participants, plan)
    >>> fdg = pd.DataFrame(fitted.transform(cohort.views, cohort.participants)["fdg"])
    >>> means = fdg.groupby(cohort.participants["diagnosis"].to_numpy()).mean().mean(axis=1)
    >>> means[["MCI", "AD"]].round(1).to_dict()
    {'MCI': -0.5, 'AD': -1.3}
    """

    plan: Plan
    views: list[PreparedView | MixedView]
    covariates: Covariates
    sites: list[str]
    notes: list[Note]
    severity: tuple[Severity, ...] = ()

    @classmethod
    def fit(
        cls,
        views: Views,
        participants: pd.DataFrame | None = None,
        plan: Plan | None = None,
        clustered: Array | None = None,
    ) -> Preparation:
        """Fit the steps on training subjects.

        Parameters
        ----------
        views : Views
            Made with ``allow_nan=True``.
        participants : DataFrame, optional
            One row per subject, in the order of the views.
        plan : Plan, optional
        clustered : (n,) bool array, optional
            Subjects in whom the effect of severity is estimated, by default all; the others are reference
            controls.

        Raises
        ------
        StudyError
            With the view, the column and the solution.
        """
        plan = Plan() if plan is None else plan
        _check_plan(plan, views)
        participants = _matched(participants, views)
        reference = _reference_subjects(participants, plan, len(views))
        covariates = _fitted_covariates(views, participants, plan, reference)
        labels = labels_of(participants, plan.site) if plan.harmonise != "none" else []
        sites = sorted({label for label in labels if label is not None})
        _check_sites(labels, plan)
        blank = cls(plan, [], covariates, sites, [])
        people, notes = blank._people(views, participants)
        complete = ~np.isnan(covariates.raw(participants, len(views))).any(axis=1)
        nothing = np.empty((len(views), 0), dtype=bool)
        asked = Asked(plan, people, reference, complete, np.empty(0), nothing, len(sites))
        notes += _idle_notes(participants, plan, reference)
        prepared = [_fitted_view(views, a, asked) for a in range(views.n_views)]
        notes += [note.about(f"View {view.name!r}") for view in prepared for note in view.notes]
        return replace(blank, views=prepared, notes=notes)._with_severity(views, participants, clustered)

    def _with_severity(
        self, views: Views, participants: pd.DataFrame | None, clustered: Array | None
    ) -> Preparation:
        """The preparation with the removal of severity, estimated in the clustered subjects."""
        if self.plan.remove_severity is None:
            return self
        rows = np.ones(len(views), dtype=bool) if clustered is None else clustered
        people = None if participants is None else participants[rows]
        ready = self.transform(views, participants)
        controls = None if rows.all() else ready[~rows]
        fitted = fit_severity(ready[rows], self.plan.remove_severity, people, self.plan.genotypes, controls)
        notes = [note for severity in fitted for note in severity.notes]
        return replace(self, severity=tuple(fitted), notes=[*self.notes, *notes])

    def with_variants(self, panels: Mapping[str, Panel]) -> Preparation:
        """The same preparation, which stores the alleles of genotypes, by view."""
        views = [
            replace(view, panel=panels[view.name].of(map(str, view.features)))
            if view.name in panels
            else view
            for view in self.views
        ]
        return replace(self, views=views)

    @property
    def needed(self) -> dict[str, Collection[str]]:
        """By view, the features that new subjects need; of genotypes, with their alleles."""
        return {view.name: view.needed for view in self.views}

    @property
    def without_severity(self) -> Preparation:
        """The same preparation, which leaves severity in the views."""
        return replace(self, severity=())

    def transform(
        self, views: Views, participants: pd.DataFrame | None = None, *, overwrite: bool = False
    ) -> Views:
        """Apply the steps: the views have no NaN in observed rows, and the same ids.

        A subject without a value in the columns that are kept of a view lacks the view in the result. With
        `overwrite`, large views may be changed in place, so that they are not in memory twice.
        """
        return self._transformed(views, participants, overwrite)[0]

    def remarks(self, views: Views, participants: pd.DataFrame | None = None) -> list[Note]:
        """Notes on what `transform` imputes or leaves unchanged for these subjects."""
        return self._transformed(views, participants)[1]

    def to_arrays(self) -> dict[str, Array]:
        """All fitted arrays, by name."""
        steps = {
            f"{a}/{i}/{name}": value
            for a, view in enumerate(self.views)
            for i, step in enumerate(view.steps)
            for name, value in step.arrays().items()
        }
        design = {name: getattr(self.covariates, name) for name in ("default", "centre", "spread")}
        design |= {f"knots/{i}": self.covariates.knots[name] for i, name in enumerate(self.plan.splines)}
        removed = {
            f"severity/{i}/{name}": value
            for i, severity in enumerate(self.severity)
            for name, value in severity.to_arrays().items()
        }
        return {**steps, **removed, **{f"covariates/{name}": value for name, value in design.items()}}

    def settings(self) -> dict[str, Any]:
        """All other settings, for JSON; includes whether the arrays have training rows."""
        return {
            "plan": {name: _listed(value) for name, value in asdict(self.plan).items()},
            "covariates": dict(self.covariates.levels),
            "sites": self.sites,
            "views": [view.settings() for view in self.views],
            "severity": [severity.settings() for severity in self.severity],
            "notes": [str(note) for note in self.notes],
            "holds_training_rows": any("knn" in view.kinds for view in self.views),
        }

    @classmethod
    def from_arrays(cls, settings: Mapping[str, Any], arrays: Mapping[str, Array]) -> Preparation:
        """The preparation that gave these `settings` and `to_arrays`, bit for bit, without its notes."""
        design = {name: arrays[f"covariates/{name}"] for name in ("default", "centre", "spread")}
        plan = Plan(**settings["plan"])
        knots = {name: arrays[f"covariates/knots/{i}"] for i, name in enumerate(plan.splines)}
        return cls(
            plan,
            [_restored(view, a, arrays) for a, view in enumerate(settings["views"])],
            Covariates(settings["covariates"], **design, knots=knots),
            list(settings["sites"]),
            notes=[],
            severity=tuple(
                Severity.from_arrays(severity, arrays, f"severity/{i}/")
                for i, severity in enumerate(settings.get("severity", ()))
            ),
        )

    def _transformed(
        self, views: Views, participants: pd.DataFrame | None, overwrite: bool = False
    ) -> tuple[Views, list[Note]]:
        views, notes = self._aligned(views)
        people, lacking = self._people(views, _matched(participants, views))
        notes += lacking
        blocks, present = list(views.blocks), views.present.copy()
        for a, view in enumerate(self.views):
            if not view.steps and isinstance(view, PreparedView):
                continue
            rows = views.rows(a)
            if isinstance(view, MixedView):
                with naming(view.name):
                    X, left, changed = view.prepared(blocks[a][rows], people[rows])
                notes += [note.about(f"View {view.name!r}") for note in changed]
                blocks[a], kept = X.scattered(rows[left], len(views)), rows[left]
            else:
                blocks[a], kept = _prepared(view, _dense(blocks[a]), rows, people, overwrite)
            present[:, a] = False
            present[kept, a] = True
            lost = len(rows) - len(kept)
            empty = count_note(lost, "subject", text="without a value in the columns that are kept")
            notes += [note.about(f"View {view.name!r}") for note in empty]
        _check_seen(present)
        features = {view.name: view.features_out for view in self.views}
        ready = views.replaced(blocks=blocks, present=present, feature_names=features)
        for severity in self.severity:
            ready, unknown = severity.remove(ready, participants)
            notes += unknown
        return ready, notes

    def _aligned(self, views: Views) -> tuple[Views, list[Note]]:
        """New subjects with the views and features of training, and notes on other features."""
        features = {view.name: view.features for view in self.views}
        known, notes = _known_features(views, features)
        try:
            return align(known, list(features), features, allow_nan=True), notes
        except ValueError as error:
            raise StudyError(str(error)) from None

    def _people(self, views: Views, participants: pd.DataFrame | None) -> tuple[People, list[Note]]:
        """Covariates and sites of subjects, and notes on missing ones."""
        n = len(views)
        raw = self.covariates.raw(participants, n)
        lacking = int(np.isnan(raw).any(axis=1).sum())
        filled = "without a covariate, replaced by its mean or most frequent value"
        notes = [*count_note(lacking, "subject", text=filled), *self.covariates.unseen(participants)]
        site, control = np.full(n, NOWHERE), np.zeros(n, dtype=bool)
        if self.plan.harmonise != "none":
            labels = labels_of(participants, self.plan.site)
            new = sorted({label for label in labels if label is not None} - set(self.sites))
            at = {label: i for i, label in enumerate(self.sites + new * (self.plan.new_sites == "adapt"))}
            site = np.array([at.get(label or "", NOWHERE) for label in labels], dtype=int)
            if self.plan.harmonise_on == "controls" and (new or not self.views):
                control = _controls(participants, self.plan)
            notes += self._site_notes(labels, control)
        return People(self.covariates.design(participants, n), site, control), notes

    def _site_notes(self, labels: Sequence[str | None], control: Array) -> list[Note]:
        """Notes on new sites, and on subjects who are not harmonised; new sites may be an error."""
        isnew = np.array([label is not None and label not in self.sites for label in labels], dtype=bool)
        new, n_sites = (
            int(isnew.sum()),
            len({label for label in labels if label is not None} - set(self.sites)),
        )
        if new and self.plan.new_sites == "error":
            who = f"{counted(new, 'subject')} from {counted(n_sites, 'site')} ({self.plan.site!r})"
            raise StudyError(
                f"{who} that are not in the training data, so that their effect is unknown. Fit again with "
                "subjects of these sites, or with new_sites = 'average', which does not harmonise them."
            )
        nowhere = count_note(
            sum(label is None for label in labels), "subject", text="without a site, not harmonised"
        )
        if new and self.plan.new_sites == "adapt":
            return [_adapted_note(new, n_sites, int((isnew & control).sum())), *nowhere]
        text = "of sites that are not in the training data, not harmonised"
        return [*count_note(new, "subject", text=text), *nowhere]


def _fitted_view(views: Views, a: int, asked: Asked) -> PreparedView | MixedView:
    """Fit the preparation of the view at this position; sparse views have no steps."""
    name, rows = views.names[a], views.rows(a)
    block, features = views.blocks[a], views.feature_names[name]
    if sp.issparse(block):
        return PreparedView(name, features, (), ())
    here = asked.of(rows)
    if isinstance(block, MixedBlock):
        return fit_mixed(block[rows], here, partial(fit_steps, name))
    X = block[rows] if block.dtype == np.float32 else block[rows].astype(np.float64)
    return fit_steps(name, X, features, here)


def _restored(stored: Mapping[str, Any], a: int, arrays: Mapping[str, Array]) -> PreparedView | MixedView:
    """Restore a view."""
    if "levelled" not in stored:
        return restored_view(stored, a, arrays)
    found = stored["numbers"]
    numbers = None if found is None else restored_view({**stored, "features": found}, a, arrays)
    return restored_mixed(stored, numbers)


def _adapted_note(subjects: int, sites: int, controls: int) -> Note:
    """What was done for sites that are not in the training data."""
    whose = Count(sites, "site", public=True)
    by = Count(controls, "control")
    return Note((Count(subjects, "subject"), " of ", whose, " not in the training data, harmonised by ", by))


def _fitted_covariates(
    views: Views, participants: pd.DataFrame | None, plan: Plan, reference: Array
) -> Covariates:
    """The covariates of the plan, whose effects must be estimable in the controls of every view."""
    changed = [
        a
        for a, name in enumerate(views.names)
        if plan.on_controls and name not in plan.genotypes and not sp.issparse(views.blocks[a])
    ]
    for a in changed:
        with naming(views.names[a]):
            check_enough(int((reference & views.present[:, a]).sum()), 0, plan)
    covariates = Covariates.fit(participants, plan.covariates, plan.splines, reference)
    complete = ~np.isnan(covariates.raw(participants, len(views))).any(axis=1)
    used = reference & complete if plan.w_scores else reference
    for a in changed:
        with naming(views.names[a]):
            check_estimable(participants, covariates, used & views.present[:, a])
    return covariates


def _check_sites(labels: Sequence[str | None], plan: Plan) -> None:
    """Refuse sites that are all too small to be harmonised, such as one per subject."""
    sizes = Counter(label for label in labels if label is not None)
    largest = max(sizes.values(), default=plan.min_site)
    if largest < plan.min_site:
        raise StudyError(
            f"harmonise: {counted(len(sizes), 'site')} ({plan.site!r}), the largest of "
            f"{counted(largest, 'subject')}, and {plan.min_site} are needed (min_site); name the column of "
            "the site or scanner, or do not harmonise."
        )


def _check_plan(plan: Plan, views: Views) -> None:
    unknown = [name for name in plan.genotypes if name not in views.names]
    if unknown:
        raise StudyError(
            f"genotypes names unknown views {listed(unknown)}; the views are {listed(views.names)}."
        )


def _matched(participants: pd.DataFrame | None, views: Views) -> pd.DataFrame | None:
    """The participants, which must have the rows of the views."""
    if participants is None:
        return None
    if len(participants) != len(views):
        raise StudyError(f"The table of participants has {len(participants)} rows for {len(views)} subjects.")
    if views.ids is not None and not participants.index.equals(views.ids):
        raise StudyError(
            "The table of participants is not in the order of the views; reindex it by their ids."
        )
    return participants


def _known_features(views: Views, wanted: Mapping[str, Array]) -> tuple[Views, list[Note]]:
    """The views without features that are not in the training data, if they have all that are."""
    blocks, names, notes = list(views.blocks), dict(views.feature_names), list[Note]()
    for a, name in enumerate(views.names):
        found = names[name]
        seen = pd.Index(found).isin(wanted.get(name, found))
        if seen.sum() == len(wanted.get(name, found)) < len(found):
            blocks[a], names[name] = blocks[a][:, seen], found[seen]
            text = "not in the training data left out"
            new = count_note(int((~seen).sum()), "column", text=text, public=True)
            notes += [note.about(f"View {name!r}") for note in new]
    return views.replaced(blocks=blocks, feature_names=names), notes


def _reference_subjects(participants: pd.DataFrame | None, plan: Plan, n: int) -> Array:
    """Subjects in whom the effects of covariates are estimated."""
    if not plan.on_controls:
        return np.ones(n, dtype=bool)
    return _controls(participants, plan)


def _controls(participants: pd.DataFrame | None, plan: Plan) -> Array:
    """Which subjects have the diagnosis of controls."""
    controls = tuple(plan.controls or ())
    return np.array([label in controls for label in labels_of(participants, plan.diagnosis)], dtype=bool)


def _idle_notes(participants: pd.DataFrame | None, plan: Plan, reference: Array) -> list[Note]:
    """Notes on covariates that are constant among the reference subjects."""
    found = (
        []
        if participants is None
        else [name for name in plan.covariates if participants[name][reference].nunique() < 2]
    )
    who = reference_subjects(plan)
    text = f"with a single value among the {who}, whose effect is not removed: {listed(found)}"
    return count_note(len(found), "covariate", text=text, public=True)


def _check_seen(present: Array) -> None:
    unseen = int((~present.any(axis=1)).sum())
    if unseen:
        raise StudyError(
            f"{counted(unseen, 'subject')} without a value in any column that is kept; leave them out."
        )


def _dense(X: Any) -> Array:
    """The block of a dense view; a view that all subjects lack is an empty sparse matrix."""
    return np.asarray(X.toarray() if sp.issparse(X) else X)


def _prepared(
    view: PreparedView, X: Array, rows: Array, people: People, overwrite: bool
) -> tuple[Array, Array]:
    """A block after all steps, NaN in other rows than these, and the rows that have a value then."""
    shape, kept = (len(X), len(view.features_out)), [np.empty(0, dtype=int)]
    alone = X.dtype != np.float32 or people.control.any()  # effects of new sites need all of their rows
    same = overwrite and not alone and shape == X.shape and X.flags.writeable
    full = X if same else np.full(shape, np.nan, dtype=X.dtype)
    for part in [slice(0, len(rows))] if alone else row_portions((len(rows), X.shape[1])):
        ready, left = view.apply(X[rows[part]].astype(np.float64), people[rows[part]])
        full[rows[part]] = np.nan
        kept.append(rows[part][left])
        full[kept[-1]] = ready
    return full, np.concatenate(kept)


def _listed(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value
