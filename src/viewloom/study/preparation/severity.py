"""Removal of severity: the effect of a clinical score, or of the first common component, on every view.

The effects are estimated by least squares in the subjects who are clustered, after all other steps, and are
removed from everyone. The common component is a score per subject that all views share most: the first
principal component of the standardised features, where each view has the same largest variance, so that
neither the number of features nor their redundancy favours a view. Subjects who lack a view get their score
from the others.

What varies most among patients is not severity alone: brains differ in health, too. Where there are reference
controls, their normal variation is removed first: the first common components of the controls, at most three,
that explain more than those of features in random order. What is common to the patients then is severity.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
import scipy.linalg
import scipy.sparse as sp

from viewloom.clinical import as_categories, as_numbers
from viewloom.data.mixed import numeric_part, with_numbers
from viewloom.data.views import Views
from viewloom.study.errors import StudyError
from viewloom.study.notes import Note, count_note
from viewloom.study.wording import counted, nearest

Array = np.ndarray
COMMON = "common"  # instead of a column
NORMAL = "common among controls"  # likewise, for normal variation
N_NORMAL, LEAST_CONTROLS = 3, 20  # components of the controls, and the number of controls they need
LEAST_SUBJECTS = 10  # with a score, for estimating its effect
N_PERMUTATIONS = 19
MOST_ROUNDS, TOLERANCE = 500, 1e-10
UNSTABLE = 1e-12  # relative range below which a score is constant
NAME_IT = "name it under outcomes of [participants]"


@dataclass(frozen=True, eq=False)
class ViewEffect:
    """The effect of severity on a view of d features, and how its features contribute to the score.

    Attributes
    ----------
    slopes : (d,) array
        Change of each feature by one unit of the score.
    centre, spread, loadings : (d,) arrays
        The score of a subject is the sum of ``(x - centre) / spread * loadings`` over features, relative to
        the sum of squared loadings of the views that the subject has. Empty for a clinical score.
    """

    slopes: Array
    centre: Array
    spread: Array
    loadings: Array


@dataclass(frozen=True, eq=False)
class Severity:
    """The fitted effect of severity; see `fit_severity`.

    Attributes
    ----------
    column : str
        Column of the participants, or "common", or "common among controls".
    mean : float
        Mean score of the subjects it was fitted on; the effect is removed relative to it.
    views : dict of str to ViewEffect
        Views from which it is removed.
    notes : list of Note
    """

    column: str
    mean: float
    views: Mapping[str, ViewEffect]
    notes: list[Note] = field(default_factory=list)

    def score(self, views: Views, participants: pd.DataFrame | None) -> Array:
        """Severity of subjects (n,); NaN where it is unknown."""
        if self.column not in (COMMON, NORMAL):
            return _clinical_score(participants, self.column)
        return _common_score(_observed(views, self.views), self.views)

    def remove(self, views: Views, participants: pd.DataFrame | None) -> tuple[Views, list[Note]]:
        """The views without the effect, and notes on subjects without a score, who are not changed."""
        score = self.score(views, participants)
        centred = np.where(np.isnan(score), 0.0, score - self.mean)
        blocks = [
            with_numbers(X, numeric_part(X) - np.outer(centred, self.views[name].slopes))
            if name in self.views and not sp.issparse(X)
            else X
            for name, X in zip(views.names, views.blocks, strict=True)
        ]
        lacking = int(np.isnan(score).sum())
        return views.replaced(blocks=blocks), _lacking_note(lacking, self.column)

    def to_arrays(self) -> dict[str, Array]:
        """All fitted arrays, by name."""
        arrays = {
            f"{a}/{part}": getattr(effect, part)
            for a, effect in enumerate(self.views.values())
            for part in PARTS
        }
        return {"mean": np.array([self.mean]), **arrays}

    def settings(self) -> dict[str, Any]:
        """All other settings, for JSON."""
        return {"column": self.column, "views": list(self.views)}

    @classmethod
    def from_arrays(
        cls, settings: Mapping[str, Any], arrays: Mapping[str, Array], start: str = ""
    ) -> Severity:
        """The severity that gave these `settings` and `to_arrays`, whose names begin with `start` here."""
        views = {
            str(name): ViewEffect(**{part: arrays[f"{start}{a}/{part}"] for part in PARTS})
            for a, name in enumerate(settings["views"])
        }
        return cls(str(settings["column"]), float(arrays[f"{start}mean"][0]), views)


def fit_severity(
    views: Views,
    setting: str,
    participants: pd.DataFrame | None = None,
    genotypes: Sequence[str] = (),
    controls: Views | None = None,
) -> list[Severity]:
    """Estimate the effect of severity on every view.

    Parameters
    ----------
    views : Views
        Without NaN in observed rows, of the subjects who are clustered.
    setting : str
        Numeric column of the participants; or "common" for the first common component of the views, or
        "common:3" for the first three.
    participants : DataFrame, optional
        One row per subject, in the order of the views.
    genotypes : sequence of str
        Views that neither contribute nor are changed; neither are sparse views.
    controls : Views, optional
        Reference controls, whose normal variation is removed before a common component.

    Returns
    -------
    list of Severity
        To be removed one after the other: each further component is that of the views without the one before.

    Raises
    ------
    StudyError
        If there is no such column, or its effect cannot be estimated.

    Examples
    --------
    >>> import viewloom as vl
    >>> cohort = vl.simulate.adni_like(random_state=0)
    >>> (fitted,) = fit_severity(cohort.views, "common", genotypes=["snp"])
    >>> score = fitted.score(cohort.views, None)
    >>> bool(abs(np.corrcoef(score, cohort.truth.stage)[0, 1]) > 0.5)
    True
    >>> pattern, notes = fitted.remove(cohort.views, None)
    >>> bool(np.abs((score - score.mean()) @ pattern["fdg"]).max() < 1e-6)
    True
    """
    names = measured_views(views, genotypes)
    if not names:
        raise StudyError("remove_severity: no view is left from which severity could be removed.")
    column = COMMON if setting.startswith(f"{COMMON}:") else setting
    fitted = _normal_variation(controls, names) if column == COMMON and controls is not None else []
    for severity in fitted:
        views, _ = severity.remove(views, None)
    for _ in range(n_components(setting)):
        fitted.append(_fitted(views, column, participants, names))
        views, _ = fitted[-1].remove(views, participants)
    return fitted


def _normal_variation(controls: Views, names: Sequence[str]) -> list[Severity]:
    """The common components of controls, in the views that enough of them have."""
    known = [name for name in names if len(controls.rows(controls.index(name))) >= LEAST_CONTROLS]
    fitted = list[Severity]()
    for _ in range(min(N_NORMAL, n_common(controls, known)) if known else 0):
        fitted.append(_fitted(controls, NORMAL, None, known))
        controls, _ = fitted[-1].remove(controls, None)
    return fitted


def n_common(views: Views, names: Sequence[str]) -> int:
    """Number of components that explain more than in all permutations of each feature (Horn 1965)."""
    rng = np.random.default_rng(0)
    rows = [views.rows(views.index(name)) for name in names]
    X = [_standard(numeric_part(views[name][at])) for name, at in zip(names, rows, strict=True)]
    chance = [
        _eigenvalues([rng.permuted(part, axis=0) for part in X], rows, len(views))
        for _ in range(N_PERMUTATIONS)
    ]
    above = _eigenvalues(X, rows, len(views)) > np.max(chance, axis=0)
    return int(np.argmin([*above, False]))


def _standard(X: Array) -> Array:
    """Standard scores, relative to the number of features."""
    spread = X.std(axis=0)
    varies = spread > UNSTABLE * np.abs(X).max(axis=0, initial=1e-300)
    return np.asarray((X - X.mean(axis=0)) / np.where(varies, spread, np.inf) / np.sqrt(X.shape[1]))


def _eigenvalues(parts: Sequence[Array], rows: Sequence[Array], n: int) -> Array:
    """Eigenvalues of the sum of the Gram matrices of views, the largest first: all n, or those not zero."""
    side = np.zeros((n, sum(X.shape[1] for X in parts)))
    ends = np.cumsum([0, *(X.shape[1] for X in parts)])
    for X, at, start, stop in zip(parts, rows, ends[:-1], ends[1:], strict=True):
        side[at, start:stop] = X
    gram = side @ side.T if n <= side.shape[1] else side.T @ side  # the same eigenvalues
    return np.linalg.eigvalsh(gram)[::-1]


def measured_views(views: Views, genotypes: Sequence[str]) -> list[str]:
    """Views that severity can show in: with numbers, and neither genotypes nor sparse."""
    pairs = zip(views.names, views.blocks, strict=True)
    return [
        name
        for name, X in pairs
        if name not in genotypes and not sp.issparse(X) and numeric_part(X).shape[1] > 0
    ]


def n_components(setting: str) -> int:
    """Number of scores that a setting removes.

    >>> n_components("mmse"), n_components("common"), n_components("common:3")
    (1, 1, 3)
    """
    head, _, number = setting.partition(":")
    return int(number) if head == COMMON and number else 1


def _fitted(views: Views, column: str, participants: pd.DataFrame | None, names: list[str]) -> Severity:
    """One score and its effects."""
    nothing = np.empty(0)
    unknown = dict.fromkeys(names, ViewEffect(nothing, nothing, nothing, nothing))
    parts = common_component(views, names) if column in (COMMON, NORMAL) else unknown
    score = Severity(column, 0.0, parts).score(views, participants)
    _check_score(score, column)
    effects = {name: _effect(views, name, score, parts[name]) for name in names}
    lacking = _lacking_note(int(np.isnan(score).sum()), column)
    return Severity(column, float(np.nanmean(score)), effects, lacking)


def common_component(views: Views, names: Sequence[str]) -> dict[str, ViewEffect]:
    """Loadings of the first common component of some views, without slopes.

    Alternating least squares of the model ``Z_v = s l_v^T``, where `Z_v` are the standardised features of the
    subjects who have view v, divided by its largest singular value.
    """
    if not names:
        return {}
    rows = {name: views.rows(views.index(name)) for name in names}
    X = {name: numeric_part(views[name][rows[name]]) for name in names}
    scales = {name: _scales(X[name]) for name in names}
    Z = {name: (X[name] - centre) / spread for name, (centre, spread) in scales.items()}
    total, seen = np.zeros(len(views)), np.zeros(len(views))
    for name in names:
        total[rows[name]] += _leading(Z[name], total[rows[name]])
        seen[rows[name]] += 1.0
    score = total / np.maximum(seen, 1.0)
    for _ in range(MOST_ROUNDS):
        score, before = score / np.linalg.norm(score), score
        loadings = {name: Z[name].T @ score[rows[name]] / _squares(score[rows[name]]) for name in names}
        score = np.nan_to_num(_scores(Z, rows, loadings, len(views)))
        if np.linalg.norm(score / np.linalg.norm(score) - before / np.linalg.norm(before)) < TOLERANCE:
            break
    return {name: ViewEffect(np.empty(0), *scales[name], loadings[name]) for name in names}


def _scales(X: Array) -> tuple[Array, Array]:
    """Means, and spreads by which the largest singular value of the standardised features is 1."""
    centre, spread = X.mean(axis=0), X.std(axis=0)
    spread = np.where(spread > UNSTABLE * np.maximum(np.abs(centre), 1e-300), spread, np.inf)
    largest = np.linalg.norm(_first_component((X - centre) / spread))
    return centre, spread * max(largest, 1e-300) / np.sqrt(len(X))


def _leading(Z: Array, along: Array) -> Array:
    """The first left singular vector, in the direction of other views."""
    u = _first_component(Z)
    u *= np.sqrt(len(Z)) / max(float(np.linalg.norm(u)), 1e-300)
    return -u if u @ along < 0 else u


def _first_component(Z: Array) -> Array:
    """The first left singular vector of a matrix (n x d), times its singular value.

    From the smaller Gram matrix, since few features of very many subjects need no decomposition of all.
    """
    n, d = Z.shape
    gram, last = Z.T @ Z if d <= n else Z @ Z.T, min(n, d) - 1
    value, vector = scipy.linalg.eigh(gram, subset_by_index=[last, last])
    first = Z @ vector[:, 0] if d <= n else vector[:, 0] * np.sqrt(max(value[0], 0.0))
    return np.asarray(first)


def _squares(score: Array) -> float:
    return max(float(score @ score), 1e-300)


def _scores(
    Z: Mapping[str, Array], rows: Mapping[str, Array], loadings: Mapping[str, Array], n: int
) -> Array:
    """Least squares score of each subject from the views that it has; NaN without any."""
    above, below = np.zeros(n), np.zeros(n)
    for name, values in Z.items():
        above[rows[name]] += values @ loadings[name]
        below[rows[name]] += loadings[name] @ loadings[name]
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(below > 0.0, above / below, np.nan)


def _observed(views: Views, names: Mapping[str, ViewEffect]) -> dict[str, tuple[Array, Array, int]]:
    """Rows and their positions of each view, and the number of subjects."""
    found = {}
    for name in names:
        rows = views.rows(views.index(name))
        found[name] = (_dense(numeric_part(views.blocks[views.index(name)][rows])), rows, len(views))
    return found


def _dense(X: Any) -> Array:
    """A view that all subjects lack is an empty sparse matrix."""
    return np.asarray(X.toarray() if sp.issparse(X) else X, dtype=float)


def _common_score(
    observed: Mapping[str, tuple[Array, Array, int]], effects: Mapping[str, ViewEffect]
) -> Array:
    Z = {name: (X - effects[name].centre) / effects[name].spread for name, (X, _, _) in observed.items()}
    rows = {name: at for name, (_, at, _) in observed.items()}
    n = next(iter(observed.values()))[2]
    return _scores(Z, rows, {name: effects[name].loadings for name in observed}, n)


def _clinical_score(participants: pd.DataFrame | None, column: str) -> Array:
    if participants is None:
        raise StudyError(f"remove_severity: column {column!r} is needed, but there are no participants.")
    known = [str(name) for name in participants.columns]
    if column not in known:
        hint = nearest(column, known)[:-1]
        raise StudyError(
            f"remove_severity: column {column!r} of the participants is needed{hint}; {NAME_IT}."
        )
    numbers = as_numbers(participants[column])
    given = np.array([label is not None for label in as_categories(participants[column])], dtype=bool)
    texts = int(np.isnan(numbers[given]).sum())
    if texts:
        raise StudyError(
            f"remove_severity: column {column!r} is not numeric in {counted(texts, 'subject')}; name a "
            "numeric column, or 'common'."
        )
    return numbers


def _check_score(score: Array, column: str) -> None:
    known = score[~np.isnan(score)]
    if not len(known):
        raise StudyError(f"remove_severity: {column!r} has no value among the clustered subjects.")
    if len(known) < LEAST_SUBJECTS:
        raise StudyError(
            f"remove_severity: {counted(len(known), 'clustered subject')} with {column!r}, too few "
            f"to estimate its effect ({LEAST_SUBJECTS} are needed)."
        )
    if np.ptp(known) <= UNSTABLE * np.abs(known).max():
        raise StudyError(f"remove_severity: {column!r} is constant among the clustered subjects.")


def _effect(views: Views, name: str, score: Array, part: ViewEffect) -> ViewEffect:
    """Least squares slopes of the features on the score, in the subjects who have both."""
    rows = views.rows(views.index(name))
    rows = rows[~np.isnan(score[rows])]
    s = score[rows] - score[rows].mean() if len(rows) else score[rows]
    X = numeric_part(views[name][rows])
    slopes = s @ (X - X.mean(axis=0)) / _squares(s) if len(rows) else np.zeros(X.shape[1])
    return ViewEffect(slopes, part.centre, part.spread, part.loadings)


def _lacking_note(count: int, column: str) -> list[Note]:
    """Subjects without a score; those without any of the views have nothing to be changed."""
    text = f"without {column!r}, from whom severity is not removed"
    return [] if column in (COMMON, NORMAL) else count_note(count, "subject", text=text)


PARTS = ("slopes", "centre", "spread", "loadings")
