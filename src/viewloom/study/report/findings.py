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

from viewloom.clinical import Conversion, associations, conversion, on_grid, pairwise
from viewloom.clinical.published import published_associations, published_pairs
from viewloom.clinical.release import DECIMALS
from viewloom.data.mixed import MixedBlock
from viewloom.evaluation.inspection import (
    ViewContributions,
    cluster_profiles,
    view_agreement,
    view_contributions,
)
from viewloom.study.report.disclosed import Disclosed, disclosed
from viewloom.study.report.levels import levels_of

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
        profiles={name: _profiles(results, told, name) for name in model.view_names_},
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


def _profiles(results: Results, told: Disclosed, view: str) -> pd.DataFrame:
    """Mean z-scores of the most important features of a view."""
    names = [str(name) for name in results.importance[view]["feature"][:MOST_FEATURES]]
    means = cluster_profiles(results.views, results.model.labels_, view, names)
    k, block = results.model.n_clusters, results.views[view]
    means = means.reindex(columns=range(k))
    hide = told.hidden_means[view].to_numpy()[: len(names)]
    return means.mask(hide).set_axis([_measured(block, name) for name in names], axis=0)


def _measured(block: Any, name: str) -> str:
    """What the mean of a feature is of: of one with two levels, the second level."""
    found = levels_of(block, name) if isinstance(block, MixedBlock) else None
    return f"{name} = {found[1]}" if found is not None and len(found) == 2 else name


def clusters_of(found: Findings) -> Iterator[int]:
    """Clusters that are large enough to describe."""
    return (j for j in range(len(found.sizes)) if not found.secret[j])


PAIR_COLUMNS = [
    "variable", "cluster", "other", "test", "p", "p_holm", "effect", "low", "high", "n", "n_other",
]  # fmt: skip
