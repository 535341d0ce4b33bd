"""Steps of the preparation of a view: each is fitted on training subjects and applied to others.

A step is a dataclass of arrays with ``fit(X, asked)`` and ``apply(X, people)``; rows of X are the subjects
who have the view.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields, replace
from typing import Self

import numpy as np
from sklearn.impute import KNNImputer

from viewloom.data.naming import listed
from viewloom.study.errors import StudyError
from viewloom.study.notes import Count, Note, count_note
from viewloom.study.preparation.combat import Combat, apply_combat, fit_combat
from viewloom.study.preparation.plan import Plan
from viewloom.study.wording import counted

Array = np.ndarray
NOWHERE = -1  # the site of subjects without a known site
LEAST_SUBJECTS, LEAST_PER_COVARIATE = 10, 5  # for estimating the effects of covariates
ROUNDING = 1e-12  # relative range below which a column is constant
TOO_FEW = {  # residualise_on -> the reference subjects, and the solution if they are too few
    "controls": ("controls", "set residualise_on = 'all', residualise fewer covariates or check controls"),
    "all": ("subjects", "residualise fewer covariates or none"),
}
EXPLAINED = 1e-9  # relative residual spread below which a feature is fully explained


@dataclass(frozen=True, eq=False)
class People:
    """Covariates (n x p, standardised) and site positions of n subjects."""

    covariates: Array
    site: Array

    def __getitem__(self, rows: Array) -> People:
        return People(self.covariates[rows], self.site[rows])


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
        return cls(np.nanmedian(X, axis=0), notes=_filled_note(X, "the median"))

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
        return cls(np.nanmean(X, axis=0), notes=_filled_note(X, "the mean dosage"))


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

    `position` is the row of each site of the study among those harmonised, or -1.
    """

    position: Array
    mean: Array
    slopes: Array
    spread: Array
    shift: Array
    scale: Array

    @classmethod
    def fit(cls, X: Array, asked: Asked) -> Self:
        """Estimate the effects of sites."""
        site, covariates = asked.people.site, asked.people.covariates
        sizes = np.bincount(site[site >= 0], minlength=max(asked.n_sites, 1))
        large = sizes >= asked.plan.min_site
        if large.sum() < 2:
            nothing = np.zeros(X.shape[1])
            none = np.empty((0, X.shape[1]))
            slopes = np.zeros((covariates.shape[1], X.shape[1]))
            sites = Count(int(large.sum()), "site", public=True)
            note = Note(("not harmonised: ", sites, f" with {asked.plan.min_site} subjects or more"))
            return cls(np.full(len(sizes), NOWHERE), nothing, slopes, nothing, none, none, notes=(note,))
        position = np.where(large, np.cumsum(large) - 1, NOWHERE)
        at = _looked_up(position, site)
        fitted = fit_combat(X[at >= 0], at[at >= 0], covariates[at >= 0])
        return cls(position, **asdict(fitted), notes=_small_sites_note(sizes, large, asked.plan.min_site))

    def apply(self, X: Array, people: People) -> Array:
        """Remove the effects of sites."""
        fitted = Combat(self.mean, self.slopes, self.spread, self.shift, self.scale)
        return apply_combat(fitted, X, _looked_up(self.position, people.site), people.covariates)


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
        sample, C = X[asked.reference], asked.people.covariates
        least = _check_enough(len(sample), C.shape[1], asked.plan)
        centre, level = C[asked.reference].mean(axis=0), sample.mean(axis=0)
        constant = ~_varies(sample)
        unknown = ~constant & (asked.known[asked.reference].sum(axis=0) < least)
        slopes = np.linalg.lstsq(C[asked.reference] - centre, sample - level, rcond=None)[0]
        slopes[:, constant | unknown] = 0.0
        left = X - level - (C - centre) @ slopes
        known = asked.known & asked.complete[:, None]
        explained = _explained(np.where(known, left, np.nan), np.where(known, X, np.nan))
        who = TOO_FEW[asked.plan.residualise_on][0]
        notes = _column_notes(
            asked.features,
            (explained, "fully explained by the covariates"),
            (constant, f"constant among the {who}, from which no effect of covariates is removed"),
            (unknown, f"known for fewer than {least} {who}, from which no effect of covariates is removed"),
        )
        return cls(centre, slopes, level, explained, notes=notes)

    def apply(self, X: Array, people: People) -> Array:
        """Subtract the effects."""
        return np.where(self.explained, self.level, X - (people.covariates - self.centre) @ self.slopes)


@dataclass(frozen=True, eq=False)
class Standardise(Step):
    """Scale to zero mean and unit variance."""

    centre: Array
    spread: Array

    @classmethod
    def fit(cls, X: Array, asked: Asked) -> Self:
        """Compute means and standard deviations."""
        return cls(X.mean(axis=0), X.std(axis=0))

    def apply(self, X: Array, people: People) -> Array:
        """Scale."""
        return np.asarray((X - self.centre) / self.spread)


def _varies(X: Array) -> Array:
    """Which columns are not constant up to rounding, ignoring missing cells."""
    missing = np.isnan(X)
    lowest = np.where(missing, np.inf, X).min(axis=0, initial=np.inf)
    highest = np.where(missing, -np.inf, X).max(axis=0, initial=-np.inf)
    return np.asarray(highest - lowest > ROUNDING * np.maximum(np.abs(highest), np.abs(lowest)))


def _explained(left: Array, X: Array) -> Array:
    """Columns that vary, and whose residuals are zero up to rounding."""
    explained = _varies(X)
    spread, rest = np.nanstd(X[:, explained], axis=0), np.nanstd(left[:, explained], axis=0)
    explained[explained] = rest <= EXPLAINED * spread
    return explained


def _check_enough(n: int, p: int, plan: Plan) -> int:
    """The number of subjects needed to estimate the effects of covariates; fewer are refused."""
    least = max(LEAST_SUBJECTS, LEAST_PER_COVARIATE * p)
    if n < least:
        who, way_out = TOO_FEW[plan.residualise_on]
        raise StudyError(
            f"{n} {who} have it, too few to estimate the effects of covariates ({least} are needed); "
            f"{way_out}."
        )
    return least


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


def _small_sites_note(sizes: Array, large: Array, least: int) -> tuple[Note, ...]:
    small = ~large & (sizes > 0)
    subjects = Count(int(sizes[small].sum()), "subject")
    sites = Count(int(small.sum()), "site", public=True)
    note = Note((subjects, " of ", sites, f" with fewer than {least}, not harmonised"))
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
    "standardise": Standardise,
}
