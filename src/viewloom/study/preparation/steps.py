"""Steps of the preparation of a view: each is fitted on training subjects and applied to others.

A step is a dataclass of arrays with ``fit(X, asked)`` and ``apply(X, people)``; rows of X are the subjects
who have the view.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Self

import numpy as np
from sklearn.impute import KNNImputer

from viewloom.data.naming import listed
from viewloom.data.portions import column_portions
from viewloom.study.errors import Message, StudyError, Suggestion
from viewloom.study.notes import Count, Note, count_note
from viewloom.study.preparation.combat import Combat, adapt_combat, apply_combat, fit_combat
from viewloom.study.preparation.normative import Norm, check_enough, fit_norm, reference_subjects
from viewloom.study.preparation.plan import Plan
from viewloom.study.wording import counted

Array = np.ndarray
NOWHERE = -1  # the site of subjects without a known site
LEAST_TO_ADAPT = 10  # controls of a new site
ROUNDING = 1e-12  # relative range below which a column is constant
EXPLAINED = 1e-9  # relative residual spread below which a feature is fully explained


@dataclass(frozen=True, eq=False)
class People:
    """Covariates (n x p, standardised), site positions of n subjects, and whether they are controls.

    Positions of sites that are not in the training data follow those that are.
    """

    covariates: Array
    site: Array
    control: Array

    def __getitem__(self, rows: Array | slice) -> People:
        return People(self.covariates[rows], self.site[rows], self.control[rows])


@dataclass(frozen=True, eq=False)
class Asked:
    """The settings and subjects that a step is fitted with."""

    plan: Plan
    people: People
    reference: Array  # (n,) bool: subjects in whom the effects of covariates are estimated
    complete: Array  # (n,) bool: subjects with all covariates
    features: Array
    known: Array  # (n, d) bool: cells that are not missing in the file
    n_sites: int

    def after(self, step: Step, rows: Array) -> Asked:
        """The same for the next step and the remaining rows."""
        columns = step.names(np.arange(len(self.features)))
        kept = self.of(rows)
        return replace(kept, features=self.features[columns], known=kept.known[:, columns])

    def of(self, rows: Array) -> Asked:
        """The same for some subjects."""
        reference, complete = self.reference[rows], self.complete[rows]
        return replace(
            self, people=self.people[rows], reference=reference, complete=complete, known=self.known[rows]
        )


@dataclass(frozen=True, eq=False)
class Step:
    """A fitted step; all fields but the notes are numeric arrays."""

    notes: tuple[Note, ...] = field(default=(), kw_only=True)

    @classmethod
    def fit(cls, X: Array, asked: Asked) -> Self:
        """Fit on training subjects."""
        raise NotImplementedError

    def apply(self, X: Array, people: People) -> Array:
        """Apply the step to rows."""
        raise NotImplementedError

    def names(self, features: Array) -> Array:
        """Names of the remaining features."""
        return features

    def arrays(self) -> dict[str, Array]:
        """The fields by name."""
        names = [f.name for f in fields(self) if f.name != "notes"]
        return {name: np.ascontiguousarray(getattr(self, name)) for name in names}


@dataclass(frozen=True, eq=False)
class Keep(Step):
    """Keep columns that are not constant."""

    keep: Array

    @classmethod
    def fit(cls, X: Array, asked: Asked) -> Self:
        """Find them; it is an error if there are none."""
        empty = np.isnan(X).all(axis=0)
        constant = ~empty & ~_varies(X)
        keep = ~(empty | constant)
        if not keep.any():
            raise StudyError(
                f"all of its {len(keep)} columns are constant among the {len(X)} subjects who have it; "
                "leave it out."
            )
        notes = _column_notes(
            asked.features,
            (empty, "without any value left out"),
            (constant, "with a single value left out"),
        )
        return cls(keep, notes=notes)

    def apply(self, X: Array, people: People) -> Array:
        """Select the columns."""
        return X[:, self.keep]

    def names(self, features: Array) -> Array:
        """Select the names."""
        return features[self.keep]


@dataclass(frozen=True, eq=False)
class Median(Step):
    """Impute missing cells by the median of the feature."""

    values: Array

    @classmethod
    def fit(cls, X: Array, asked: Asked) -> Self:
        """Compute the medians of the known values."""
        medians = [np.nanmedian(X[:, part], axis=0) for part in column_portions(X.shape)]
        return cls(np.concatenate(medians).astype(np.float64), notes=_filled_note(X, "the median"))

    def apply(self, X: Array, people: People) -> Array:
        """Impute."""
        return np.where(np.isnan(X), self.values, X)


@dataclass(frozen=True, eq=False)
class Dosage(Median):
    """Impute missing calls by the mean dosage of the variant."""

    @classmethod
    def fit(cls, X: Array, asked: Asked) -> Self:
        """Compute the means of the known calls, which must lie between 0 and 2."""
        strange = int(((X < 0) | (X > 2)).sum())
        if strange:
            raise StudyError(
                f"{counted(strange, 'value')} outside 0 to 2, which are not allele counts; list the code of "
                "missing calls in missing_codes, or do not list the view under genotypes."
            )
        means = np.asarray(np.nanmean(X, axis=0, dtype=np.float64))
        return cls(means, notes=_filled_note(X, "the mean dosage"))


@dataclass(frozen=True, eq=False)
class Neighbours(Step):
    """Impute missing cells by the mean of the nearest training subjects; `rows` are standardised."""

    centre: Array
    spread: Array
    rows: Array
    n_neighbors: Array

    @classmethod
    def fit(cls, X: Array, asked: Asked) -> Self:
        """Store the training rows."""
        centre, spread = np.nanmean(X, axis=0), np.nanstd(X, axis=0)
        k = np.array([asked.plan.n_neighbors])
        return cls(centre, spread, (X - centre) / spread, k, notes=_filled_note(X, "the mean of neighbours"))

    def apply(self, X: Array, people: People) -> Array:
        """Impute; known values are unchanged, bit for bit."""
        if not np.isnan(X).any():
            return X
        imputer = KNNImputer(n_neighbors=int(self.n_neighbors[0])).fit(self.rows)
        filled = imputer.transform((X - self.centre) / self.spread)
        return np.where(np.isnan(X), filled * self.spread + self.centre, X)


@dataclass(frozen=True, eq=False)
class Harmonise(Step):
    """ComBat between the sites that are large enough in this view; see `combat`.

    `position` is the row of each site of the study among those harmonised, or -1. `varies` are the features
    that vary within sites, and `least` the controls that a new site needs; models of version 0.2 have
    neither.
    """

    position: Array
    mean: Array
    slopes: Array
    spread: Array
    shift: Array
    scale: Array
    varies: Array = field(default_factory=lambda: np.empty(0, dtype=bool))
    least: Array = field(default_factory=lambda: np.array([LEAST_TO_ADAPT]))

    @classmethod
    def fit(cls, X: Array, asked: Asked) -> Self:
        """Estimate the effects of sites."""
        site, covariates, plan = asked.people.site, asked.people.covariates, asked.plan
        used = asked.people.control if plan.harmonise_on == "controls" else np.ones(len(X), dtype=bool)
        sizes, used_sizes = (_sizes(found, asked.n_sites) for found in (site, site[used]))
        large = used_sizes >= plan.min_site
        if large.sum() < 2:
            _check_controls(int((sizes >= plan.min_site).sum()), int(large.sum()), plan)
            return cls._idle(X, covariates, sizes, Count(int(large.sum()), "site", public=True), plan)
        position = np.where(large, np.cumsum(large) - 1, NOWHERE)
        at = np.where(used, _looked_up(position, site), NOWHERE)
        there = at >= 0
        fitted = fit_combat(X if there.all() else X[there], at[there], covariates[there])
        least = np.array([max(plan.min_site, LEAST_TO_ADAPT)])
        return cls(position, **asdict(fitted), least=least, notes=_small_sites_note(sizes, large, plan))

    @classmethod
    def _idle(cls, X: Array, covariates: Array, sizes: Array, sites: Count, plan: Plan) -> Self:
        """A step that changes nothing, for a view of a single site."""
        nothing, none = np.zeros(X.shape[1]), np.empty((0, X.shape[1]))
        slopes = np.zeros((covariates.shape[1], X.shape[1]))
        note = Note(("not harmonised: ", sites, f" with {plan.min_site} {_counted_by(plan)} or more"))
        return cls(np.full(len(sizes), NOWHERE), nothing, slopes, nothing, none, none, notes=(note,))

    def apply(self, X: Array, people: People) -> Array:
        """Remove the effects of sites; those of new sites are estimated in their controls."""
        fitted = Combat(self.mean, self.slopes, self.spread, self.shift, self.scale, self.varies)
        known = np.where(people.site < len(self.position), people.site, NOWHERE)
        harmonised = apply_combat(fitted, X, _looked_up(self.position, known), people.covariates)
        for site in np.unique(people.site[people.site >= len(self.position)]) if len(self.shift) else ():
            here = people.site == site
            C, controls = people.covariates[here], people.control[here]
            self._check_adaptable(int(controls.sum()))
            adapted = adapt_combat(fitted, X[here][controls], C[controls])
            nearby = np.zeros(here.sum(), dtype=int)
            harmonised[here] = apply_combat(adapted, X[here], nearby, C)
        return harmonised

    def _check_adaptable(self, controls: int) -> None:
        """Refuse a new site with too few controls."""
        if controls < self.least[0]:
            raise StudyError(
                f"a site that is not in the training data has {counted(controls, 'control')}, too few to "
                f"estimate its effects ({self.least[0]} are needed); leave its subjects out, or fit again "
                "with subjects of this site or with new_sites = 'average'."
            )


@dataclass(frozen=True, eq=False)
class Residualise(Step):
    """Remove the effects of covariates, relative to the mean of the reference subjects.

    ``X - (C - centre) slopes``; slopes are 0 for columns without an estimate. Columns that are fully
    explained are set to their `level`.
    """

    centre: Array
    slopes: Array
    level: Array
    explained: Array

    @classmethod
    def fit(cls, X: Array, asked: Asked) -> Self:
        """Estimate the effects by least squares."""
        norm, found = _estimated(X, asked, asked.reference, filled=True)
        who = reference_subjects(asked.plan)
        notes = _column_notes(
            asked.features,
            (found.explained, "fully explained by the covariates"),
            (found.constant, f"constant among the {who}, from which no effect of covariates is removed"),
            (
                found.unknown,
                f"known for fewer than {found.least} {who}, from which no effect of covariates is removed",
            ),
        )
        return cls(norm.centre, norm.slopes, norm.level, found.explained, notes=notes)

    def apply(self, X: Array, people: People) -> Array:
        """Subtract the effects."""
        return np.where(self.explained, self.level, X - (people.covariates - self.centre) @ self.slopes)


@dataclass(frozen=True, eq=False)
class WScores(Residualise):
    """Deviations from the level of controls with the same covariates, divided by their `spread`."""

    spread: Array

    @classmethod
    def fit(cls, X: Array, asked: Asked) -> Self:
        """Estimate level, effects and spread in controls, from cells and covariates that are known."""
        controls = asked.reference & asked.complete
        norm, found = _estimated(X, asked, controls)
        parts = [_spreads(X, asked, norm, found.unknown, part) for part in column_portions(X.shape)]
        level, of_known, of_left = (np.concatenate(one) for one in zip(*parts, strict=True))
        flat = norm.spread <= EXPLAINED * of_known
        spread = np.where(flat | found.constant | found.unknown, of_left, norm.spread)
        spread[(spread <= 0) | found.explained] = 1.0
        only_controls = flat & ~(found.explained | found.constant | found.unknown)
        of_all = "divided by the standard deviation of all subjects"
        notes = _column_notes(
            asked.features,
            (found.explained, "fully explained by the covariates"),
            (found.constant, f"constant among the controls, {of_all}"),
            (found.unknown, f"known for fewer than {found.least} controls, {of_all}"),
            (only_controls, f"fully explained by the covariates among the controls, {of_all}"),
        )
        notes = (Note(("w-scores relative to ", Count(int(controls.sum()), "control"))), *notes)
        return cls(norm.centre, norm.slopes, level, found.explained, spread, notes=notes)

    def apply(self, X: Array, people: People) -> Array:
        """Subtract what controls have, and divide."""
        return np.asarray((super().apply(X, people) - self.level) / self.spread)


@dataclass(frozen=True, eq=False)
class Found:
    """Columns (d,) whose effects of covariates cannot be estimated, and those that have no other values."""

    explained: Array
    constant: Array
    unknown: Array  # known for fewer than `least` reference subjects
    least: int


def _spreads(X: Array, asked: Asked, norm: Norm, unknown: Array, part: slice) -> tuple[Array, Array, Array]:
    """Level of some columns, and the spread of their known values and of what covariates leave."""
    known = np.where(asked.known[:, part], X[:, part], np.nan).astype(np.float64)
    level = np.where(unknown[part], np.nanmean(known, axis=0), norm.level[part])
    left = known - level - (asked.people.covariates - norm.centre) @ norm.slopes[:, part]
    return level, np.nanstd(known, axis=0), np.nanstd(left, axis=0)


def _estimated(X: Array, asked: Asked, who: Array, *, filled: bool = False) -> tuple[Norm, Found]:
    """The regression on covariates in these subjects, in cells that are known, or in all if `filled`."""
    C = asked.people.covariates
    there = who.copy() if filled else np.zeros(len(X), dtype=bool)
    for part in () if filled else column_portions(X.shape):
        there |= asked.known[:, part].any(axis=1) & who
    least = check_enough(int(there.sum()), C.shape[1], asked.plan)
    centre = C[asked.reference].mean(axis=0)
    parts = [
        _estimated_part(
            X[:, part].astype(np.float64),
            replace(asked, known=asked.known[:, part]),
            np.repeat(who[:, None], X[:, part].shape[1], axis=1) & (filled | asked.known[:, part]),
            (centre, least),
        )
        for part in column_portions(X.shape)
    ]
    norms, found = zip(*parts, strict=True)
    slopes, level, spread = (_beside(norms, name) for name in ("slopes", "level", "spread"))
    explained, constant, unknown = (_beside(found, name) for name in ("explained", "constant", "unknown"))
    return Norm(centre, slopes, level, spread), Found(explained, constant, unknown, least)


def _beside(parts: Sequence[Any], name: str) -> Array:
    return np.concatenate([getattr(part, name) for part in parts], axis=-1)


def _estimated_part(X: Array, asked: Asked, used: Array, given: tuple[Array, int]) -> tuple[Norm, Found]:
    """The regression of some columns in used cells, without effects where there is no estimate."""
    C, (centre, least) = asked.people.covariates, given
    count = used.sum(axis=0)
    constant = (count > 0) & ~_varies(np.where(used, X, np.nan))
    unknown = ~constant & ((used & asked.known).sum(axis=0) < least)
    norm = fit_norm(X, C, used, centre)
    none = constant | unknown
    norm.slopes[:, none] = 0.0
    norm.level[none] = (np.where(used, X, 0.0).sum(axis=0) / np.maximum(count, 1))[none]
    left = X - norm.level - (C - norm.centre) @ norm.slopes
    known = asked.known & asked.complete[:, None]
    explained = _explained(np.where(known, left, np.nan), np.where(known, X, np.nan))
    return norm, Found(explained, constant, unknown, least)


@dataclass(frozen=True, eq=False)
class Standardise(Step):
    """Scale to zero mean and unit variance."""

    centre: Array
    spread: Array

    @classmethod
    def fit(cls, X: Array, asked: Asked) -> Self:
        """Compute means and standard deviations."""
        return cls(X.mean(axis=0, dtype=np.float64), X.std(axis=0, dtype=np.float64))

    def apply(self, X: Array, people: People) -> Array:
        """Scale."""
        return np.asarray((X - self.centre) / self.spread)


def _varies(X: Array) -> Array:
    """Which columns are not constant up to rounding, ignoring missing cells."""
    lowest, highest = np.fmin.reduce(X, initial=np.inf), np.fmax.reduce(X, initial=-np.inf)  # not NaN
    lowest, highest = lowest.astype(np.float64), highest.astype(np.float64)
    return np.asarray(highest - lowest > ROUNDING * np.maximum(np.abs(highest), np.abs(lowest)))


def _explained(left: Array, X: Array) -> Array:
    """Columns that vary, and whose residuals are zero up to rounding."""
    explained = _varies(X)
    spread, rest = np.nanstd(X[:, explained], axis=0), np.nanstd(left[:, explained], axis=0)
    explained[explained] = rest <= EXPLAINED * spread
    return explained


def _column_notes(features: Array, *causes: tuple[Array, str]) -> tuple[Note, ...]:
    """One note per cause, with its columns."""
    return tuple(
        note
        for found, cause in causes
        for note in count_note(
            int(found.sum()), "column", text=f"{cause}: {listed(features[found])}", public=True
        )
    )


def _looked_up(position: Array, site: Array) -> Array:
    """Positions of the sites of subjects, -1 where the site is unknown."""
    return np.where(site >= 0, position[site], NOWHERE)


def _sizes(site: Array, n_sites: int) -> Array:
    """Number of subjects of each site."""
    return np.bincount(site[site >= 0], minlength=max(n_sites, 1))


def _counted_by(plan: Plan) -> str:
    return "controls" if plan.harmonise_on == "controls" else "subjects"


def _check_controls(large: int, with_controls: int, plan: Plan) -> None:
    """Refuse to estimate the effects of several sites in controls if fewer than two have enough."""
    if large >= 2 and plan.harmonise_on == "controls":
        raise StudyError(
            Message(
                f"{counted(with_controls, 'site')} of {large} with {plan.min_site} controls or more "
                "(min_site), and harmonise_on = 'controls' needs two; set harmonise_on = 'all', or do not "
                "harmonise.",
                Suggestion({"harmonise_on": "all"}, block=("preparation",)),
            )
        )


def _small_sites_note(sizes: Array, large: Array, plan: Plan) -> tuple[Note, ...]:
    small = ~large & (sizes > 0)
    subjects = Count(int(sizes[small].sum()), "subject")
    sites = Count(int(small.sum()), "site", public=True)
    few = f"{plan.min_site} controls" if plan.harmonise_on == "controls" else f"{plan.min_site}"
    note = Note((subjects, " of ", sites, f" with fewer than {few}, not harmonised"))
    return (note,) * bool(small.any())


def _filled_note(X: Array, by: str) -> tuple[Note, ...]:
    count = int(np.isnan(X).sum())
    cells = Count(count, "missing cell", detail=f" ({count / X.size:.1%})")
    return (Note((cells, f" filled with {by}")),) * bool(count)


STEPS: dict[str, type[Step]] = {
    "keep": Keep,
    "median": Median,
    "dosage": Dosage,
    "knn": Neighbours,
    "combat": Harmonise,
    "residualise": Residualise,
    "w_scores": WScores,
    "standardise": Standardise,
}
