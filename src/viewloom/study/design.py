"""The design of a study in numbers: who was clustered, where controls fall, how much of it is severity."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.optimize import linear_sum_assignment

from viewloom.clinical import as_categories, as_numbers
from viewloom.data.mixed import numeric_part
from viewloom.data.views import Views

Array = np.ndarray
MUCH, PART = 0.5, 0.1  # shares of variance that are called much and part
SCALES = ("mmse", "moca", "cdr", "adas", "faq", "updrs", "npi", "stage", "severity")  # how their names begin
TINY = 1e-12


@dataclass(frozen=True, eq=False)
class ControlsPlaced:
    """Where the reference controls fall when the model places them.

    Attributes
    ----------
    sizes : (k,) int array
        Controls in each cluster.
    confidence : (k,) array
        Their mean confidence, the difference of the two largest memberships; NaN without controls.
    far : int
        Controls who are far from the training data in a view.
    """

    sizes: Array
    confidence: Array
    far: int


@dataclass(frozen=True, eq=False)
class WithControls:
    """A second fit of the clustered subjects together with the controls.

    Attributes
    ----------
    ari : float
        Adjusted Rand index of both fits, on the clustered subjects.
    table : (k, k) int array
        Clustered subjects by their cluster (rows) and their cluster in the second fit (columns), whose
        clusters are in the order that matches best.
    controls : (k,) int array
        Controls in each cluster of the second fit.
    """

    ari: float
    table: Array
    controls: Array


@dataclass(frozen=True, eq=False)
class SeverityShare:
    """How much of the clustering is severity: eta squared by cluster.

    Attributes
    ----------
    clinical : dict of str to float
        Of numeric outcomes that measure severity.
    features : float
        Of the mean of all standardised features, with the sign by which they differ from controls, or that
        of their first common component; before severity is removed. NaN without such features.
    removed : str or None
        What was removed before clustering.
    normal : int
        Number of common components of the controls that were removed before.
    """

    clinical: dict[str, float]
    features: float
    removed: str | None = None
    normal: int = 0

    @property
    def share(self) -> float:
        """The largest share; NaN where nothing is known."""
        values = [value for value in (*self.clinical.values(), self.features) if np.isfinite(value)]
        return max(values, default=float("nan"))


@dataclass(frozen=True, eq=False)
class Design:
    """The design of a study; parts that do not apply are None.

    Attributes
    ----------
    groups : DataFrame or None
        Of `Check.groups`, where there are rules.
    controls : ControlsPlaced or None
    with_controls : WithControls or None
    severity : SeverityShare
    """

    groups: pd.DataFrame | None
    controls: ControlsPlaced | None
    with_controls: WithControls | None
    severity: SeverityShare


def eta_squared(values: Array, labels: Array) -> float:
    """Share of the variance of values that lies between clusters; missing values are ignored.

    Parameters
    ----------
    values : (n,) array
    labels : (n,) array

    Returns
    -------
    float
        Between 0 and 1; NaN for fewer than three values, or values that do not vary.

    Examples
    --------
    >>> eta_squared(np.array([1.0, 1.0, 3.0, 3.0]), np.array([0, 0, 1, 1]))
    1.0
    >>> eta_squared(np.array([1.0, 3.0, 1.0, 3.0]), np.array([0, 0, 1, 1]))
    0.0
    """
    known = np.isfinite(values)
    x, clusters = values[known], np.unique(labels[known], return_inverse=True)[1]
    total = float(np.sum((x - x.mean()) ** 2)) if len(x) > 2 else 0.0
    if total <= TINY * float(np.sum(x**2)) or total == 0.0:
        return float("nan")
    sizes = np.bincount(clusters)
    means = np.bincount(clusters, x) / sizes
    return float(sizes @ (means - x.mean()) ** 2 / total)


def severity_word(share: float) -> str:
    """How much of a clustering is severity.

    >>> severity_word(0.7), severity_word(0.2), severity_word(0.05)
    ('much', 'part', 'little')
    """
    return "much" if share >= MUCH else "part" if share >= PART else "little"


def mean_feature(views: Views, signs: Mapping[str, Array]) -> Array:
    """Mean of the standardised features of each subject, times their signs; every view counts the same.

    Parameters
    ----------
    views : Views
    signs : dict of str to (d,) array
        The sign of every feature, by view; other views do not count.

    Returns
    -------
    (n,) array
        NaN for subjects without any of the views.
    """
    means = np.full((len(views), len(signs)), np.nan)
    for j, (name, sign) in enumerate(signs.items()):
        rows = views.rows(views.index(name))
        X = np.asarray(numeric_part(views[name]))[rows]
        spread = X.std(axis=0)
        Z = (X - X.mean(axis=0)) / np.where(spread > TINY, spread, np.inf)
        means[rows, j] = Z @ sign / max(len(sign), 1)
    known = ~np.isnan(means)
    with np.errstate(invalid="ignore"):
        return np.where(known, means, 0.0).sum(axis=1) / known.sum(axis=1)


def signs_from_controls(views: Views, controls: Views, names: Sequence[str]) -> dict[str, Array]:
    """The sign by which the mean of each feature differs from that of controls."""
    return {
        name: np.sign(_mean(views, name) - _mean(controls, name))
        for name in names
        if len(controls.rows(controls.index(name)))
    }


def _mean(views: Views, name: str) -> Array:
    return np.asarray(np.asarray(numeric_part(views[name]))[views.rows(views.index(name))].mean(axis=0))


def severity_outcomes(participants: pd.DataFrame | None, outcomes: Sequence[str]) -> list[str]:
    """Numeric outcomes that measure severity by their name; all numeric outcomes where none does.

    >>> people = pd.DataFrame({"MMSE": [24, 29, 30], "height": [1.7, 1.8, 1.6], "apoe": ["e3", "e4", "e3"]})
    >>> severity_outcomes(people, ["MMSE", "height", "apoe"]), severity_outcomes(people, ["height", "apoe"])
    (['MMSE'], ['height'])
    """
    if participants is None:
        return []
    numeric = [name for name in outcomes if _is_numeric(participants[name])]
    scales = [name for name in numeric if name.casefold().lstrip("_ ").startswith(SCALES)]
    return scales or numeric


def _is_numeric(column: pd.Series) -> bool:
    numbers = as_numbers(column)
    known = np.array([label is not None for label in as_categories(column)], dtype=bool)
    declared = isinstance(column.dtype, pd.CategoricalDtype)
    return bool(not declared and np.isfinite(numbers[known]).all() and len(np.unique(numbers[known])) > 2)


def compared_with(labels: Array, again: Array, controls: Array, k: int) -> WithControls:
    """Compare two fits, of which the second also has controls.

    Parameters
    ----------
    labels, again : (n,) int arrays
        Clusters of the same subjects in the first and the second fit.
    controls : (c,) int array
        Clusters of the controls in the second fit.
    k : int
        Number of clusters.

    Examples
    --------
    >>> found = compared_with(np.array([0, 0, 1, 1]), np.array([1, 1, 0, 0]), np.array([0, 0, 1]), 2)
    >>> found.ari, found.table.tolist(), found.controls.tolist()
    (1.0, [[2, 0], [0, 2]], [1, 2])
    """
    from sklearn.metrics import adjusted_rand_score

    table = np.zeros((k, k), dtype=int)
    np.add.at(table, (labels, again), 1)
    order = linear_sum_assignment(table, maximize=True)[1]
    sizes = np.bincount(controls, minlength=k)
    return WithControls(float(adjusted_rand_score(labels, again)), table[:, order], sizes[order])
