"""The numbers of a report, computed once for its sentences, tables and figures, as they may be shown.

Only `contributions` has values per subject, of which means and quantiles are shown.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np
import pandas as pd
import scipy.sparse as sp

from viewloom.clinical import Conversion, associations, conversion, on_grid, pairwise
from viewloom.clinical.published import published_associations, published_pairs
from viewloom.clinical.release import DECIMALS, FEW_VALUES, withheld
from viewloom.data.mixed import MixedBlock, numbers
from viewloom.evaluation.inspection import (
    ViewContributions,
    cluster_profiles,
    view_agreement,
    view_contributions,
)
from viewloom.study.report.disclosed import Disclosed, disclosed
from viewloom.study.report.levels import described_levels, hidden_features, levels_of

if TYPE_CHECKING:
    from viewloom.study.results import Results

Array = np.ndarray
MOST_FEATURES = 500  # features of a view that a report lists


@dataclass(frozen=True, eq=False)
class Findings(Disclosed):
    """The numbers that a report shows, beside those of `Disclosed`.

    Attributes
    ----------
    agreement : DataFrame
        Of `view_agreement`.
    contributions : ViewContributions
    moved : DataFrame
        Mean share of membership (clusters x views) that shifts without a view; NaN for secret clusters.
    compared : DataFrame
        Of `clinical.associations`, exact: for decisions, never shown.
    associations, pairs : DataFrame
        Of `clinical.associations`, and of `clinical.pairwise` for each variable that differs, rounded.
        Effects are NaN and p-values have a class where counts or means of small clusters are hidden.
    absence : DataFrame
        `clinical.associations` of clusters with the absence of each view.
    conversion : Conversion or None
        On a grid of round times.
    profiles : dict of str to DataFrame
        Mean z-scores of each view's features in clusters, most important first; NaN where few have the view,
        and for features with more than two levels.
    levels : dict of str to DataFrame
        Of `described_levels`, for views with levels.
    left_out : dict of str to str
        Variables that are not compared or not described, and the reason.
    """

    agreement: pd.DataFrame
    contributions: ViewContributions
    moved: pd.DataFrame
    compared: pd.DataFrame
    associations: pd.DataFrame
    pairs: pd.DataFrame
    absence: pd.DataFrame
    conversion: Conversion | None
    profiles: dict[str, pd.DataFrame]
    levels: dict[str, pd.DataFrame]
    left_out: dict[str, str]

    def effect_decimals(self, variable: str) -> int:
        """Decimals of the effect of a variable, as far as it is shown."""
        known = self.precision.get(variable)
        return DECIMALS if known is None or known.effect is None else known.effect


_FOUND: WeakKeyDictionary[Results, Findings] = WeakKeyDictionary()  # for as long as the results are in use


def findings(results: Results) -> Findings:
    """The numbers of a report from the results of a run; summary and figures use the same ones."""
    if results not in _FOUND:
        _FOUND[results] = _computed(results)
    return _FOUND[results]


def _computed(results: Results) -> Findings:
    model, told = results.model, disclosed(results)
    contributions = view_contributions(model)
    levels = {name: described_levels(results, name) for name in model.view_names_}
    compared = associations(model.labels_, told.people, categorical=told.codes, views=results.views)
    return Findings(
        **vars(told),
        agreement=view_agreement(model),
        contributions=contributions,
        moved=_moved(results, contributions),
        compared=compared,
        associations=published_associations(compared, told.precision),
        pairs=published_pairs(_pairs(results, told.people, compared, told.codes), told.precision),
        absence=_absence(results),
        conversion=_conversion(results),
        profiles={name: _profiles(results, name, levels[name]) for name in model.view_names_},
        levels=levels,
        left_out={**compared.attrs["skipped"], **told.crowded},
    )


def _pairs(results: Results, people: pd.DataFrame, compared: pd.DataFrame, codes: list[str]) -> pd.DataFrame:
    """Pairs of clusters compared on each variable that differs; pairs with few values are left out."""
    tables = [pd.DataFrame(columns=pd.Index(PAIR_COLUMNS))]
    for name in compared.loc[compared["significant"], "variable"]:
        table = pairwise(results.model.labels_, people[name], categorical=name in codes)
        enough = table[["n", "n_other"]].min(axis=1) >= results.min_cell
        tables.append(table[enough].assign(variable=name)[PAIR_COLUMNS])
    found = [table for table in tables if len(table)]
    return pd.concat(found, ignore_index=True) if found else tables[0]


def _absence(results: Results) -> pd.DataFrame:
    """Association of clusters with the absence of each view."""
    lacking = pd.DataFrame(~results.views.present, columns=pd.Index(results.views.names))
    return associations(results.model.labels_, lacking.map({True: "lacks", False: "has"}.get))


def _conversion(results: Results) -> Conversion | None:
    """Time to an event, if the study names one and enough subjects have follow-up."""
    if results.participants is None or results.roles.survival is None:
        return None
    time, event = (results.participants[name] for name in results.roles.survival)
    known = pd.to_numeric(time, errors="coerce").notna() & pd.to_numeric(event, errors="coerce").notna()
    if known.sum() < results.min_cell:
        return None
    return on_grid(conversion(results.model.labels_, time, event), results.min_cell)


def _moved(results: Results, found: ViewContributions) -> pd.DataFrame:
    """Mean share of membership that shifts without a view, where enough subjects of a cluster have it."""
    counts = pd.DataFrame(~np.isnan(found.change)).groupby(found.labels).sum()
    means = found.by_cluster()
    enough = counts.reindex(means.index, fill_value=0).to_numpy() >= results.min_cell
    secret = np.bincount(results.model.labels_, minlength=len(means)) < results.min_cell
    return means.where(enough & ~secret[:, None])


def _profiles(results: Results, view: str, levels: pd.DataFrame) -> pd.DataFrame:
    """Mean z-scores of the most important features of a view."""
    names = [str(name) for name in results.importance[view]["feature"][:MOST_FEATURES]]
    means = cluster_profiles(results.views, results.model.labels_, view, names)
    k, block = results.model.n_clusters, results.views[view]
    means = means.reindex(columns=range(k))
    hide = _hidden_means(results, view, names)
    known = hidden_features(levels, names, k)
    hide = np.array([known.get(name, row) for name, row in zip(names, hide, strict=True)]).reshape(-1, k)
    return means.mask(hide).set_axis([_measured(block, name) for name in names], axis=0)


def _measured(block: Any, name: str) -> str:
    """What the mean of a feature is of: of one with two levels, the second level."""
    found = levels_of(block, name) if isinstance(block, MixedBlock) else None
    return f"{name} = {found[1]}" if found is not None and len(found) == 2 else name


def _hidden_means(results: Results, view: str, names: list[str]) -> Array:
    """Features x clusters of which no mean may be shown, since few subjects have the view or a value."""
    seen = results.views.present[:, results.views.index(view)]
    counts = np.bincount(results.model.labels_[seen], minlength=results.model.n_clusters)
    few = _carriers(results, view, names) < results.min_cell  # features x clusters
    sizes = np.where(few, np.minimum(counts, 1), counts)
    return np.array([withheld(row, results.min_cell) for row in sizes]).reshape(few.shape)


def _carriers(results: Results, view: str, names: list[str]) -> Array:
    """Subjects of each cluster whose value is not the usual one, for features with few values.

    The mean of a rare variant tells how many carry it. All subjects with the view count for other features.
    """
    a = results.views.index(view)
    rows = results.views.rows(a)
    columns = pd.Index(results.views.feature_names[view]).get_indexer(pd.Index(names))
    block = results.views.blocks[a]  # columns first: rows of all columns would be a copy of the view
    block = block[rows][:, columns] if isinstance(block, MixedBlock) else block[:, columns][rows]
    X = block.toarray() if sp.issparse(block) else np.asarray(numbers(block))
    labels, k = results.model.labels_[rows], results.model.n_clusters
    return np.array([np.bincount(labels[_unusual(x)], minlength=k) for x in X.T]).reshape(len(names), k)


def _unusual(values: Array) -> Array:
    """Values other than the most frequent one, if there are few different values; else all."""
    levels, counts = np.unique(values, return_counts=True)
    if not 1 < len(levels) <= FEW_VALUES:
        return np.ones(len(values), dtype=bool)
    return np.asarray(values != levels[counts.argmax()])


def clusters_of(found: Findings) -> Iterator[int]:
    """Clusters that are large enough to describe."""
    return (j for j in range(len(found.sizes)) if not found.secret[j])


PAIR_COLUMNS = [
    "variable", "cluster", "other", "test", "p", "p_holm", "effect", "low", "high", "n", "n_other",
]  # fmt: skip
