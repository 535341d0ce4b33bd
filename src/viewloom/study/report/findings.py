"""The numbers of a report, computed once for its sentences, tables and figures.

Only `contributions` has values per subject, of which means and quantiles are shown.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import numpy as np
import pandas as pd

from viewloom.clinical import Conversion, Shown, associations, conversion, described, pairwise
from viewloom.evaluation.inspection import (
    ViewContributions,
    cluster_profiles,
    view_agreement,
    view_contributions,
)
from viewloom.study.report.privacy import shown_sizes

if TYPE_CHECKING:
    from viewloom.study.results import Results

Array = np.ndarray
MOST_FEATURES = 500  # features of a view that a report lists
MOST_LEVELS = 30  # categories of a variable that a report lists


@dataclass(frozen=True, eq=False)
class Findings:
    """The numbers that a report shows.

    Attributes
    ----------
    sizes, shown_sizes : (k,) array, list of Known or Hidden
        Number of subjects of each cluster, and the same without small counts.
    secret : (k,) bool array
        Clusters that are too small to describe.
    agreement : DataFrame
        Of `view_agreement`.
    contributions : ViewContributions
    moved : DataFrame
        Mean share of membership (clusters x views) that shifts without a view; NaN for secret clusters.
    associations, pairs : DataFrame
        Of `clinical.associations`, and of `clinical.pairwise` for each variable that differs.
    profile : DataFrame
        Of `clinical.described`.
    absence : DataFrame
        `clinical.associations` of clusters with the absence of each view.
    conversion : Conversion or None
    profiles : dict of str to DataFrame
        Mean z-scores of each view's features in clusters, most important first; NaN where few have the view.
    left_out : dict of str to str
        Variables that are not compared or not described, and the reason.
    """

    sizes: Array
    shown_sizes: list[Shown]
    secret: Array
    agreement: pd.DataFrame
    contributions: ViewContributions
    moved: pd.DataFrame
    associations: pd.DataFrame
    pairs: pd.DataFrame
    profile: pd.DataFrame
    absence: pd.DataFrame
    conversion: Conversion | None
    profiles: dict[str, pd.DataFrame]
    left_out: dict[str, str]


_FOUND: WeakKeyDictionary[Results, Findings] = WeakKeyDictionary()  # for as long as the results are in use


def findings(results: Results) -> Findings:
    """The numbers of a report from the results of a run; summary and figures use the same ones."""
    if results not in _FOUND:
        _FOUND[results] = _computed(results)
    return _FOUND[results]


def _computed(results: Results) -> Findings:
    model, min_cell = results.model, results.min_cell
    sizes = np.bincount(model.labels_, minlength=model.n_clusters)
    secret = sizes < min_cell
    contributions = view_contributions(model)
    people, codes, crowded = _variables(results)
    compared = associations(model.labels_, people, categorical=codes)
    listed = people.drop(columns=list(crowded))
    return Findings(
        sizes=sizes,
        shown_sizes=shown_sizes(sizes, min_cell),
        secret=secret,
        agreement=view_agreement(model),
        contributions=contributions,
        moved=contributions.by_cluster().mul(np.where(secret, np.nan, 1.0), axis=0),
        associations=compared,
        pairs=_pairs(results, people, compared, codes),
        profile=described(model.labels_, listed, categorical=codes, min_cell=min_cell),
        absence=_absence(results),
        conversion=_conversion(results),
        profiles={name: _profiles(results, name) for name in model.view_names_},
        left_out={**compared.attrs["skipped"], **crowded},
    )


def _variables(results: Results) -> tuple[pd.DataFrame, list[str], dict[str, str]]:
    """Clinical variables, those of them that are codes, and those with too many categories to describe."""
    roles = results.roles
    names = [roles.diagnosis, *roles.outcomes, *roles.covariates, roles.site]
    chosen = list(dict.fromkeys(name for name in names if name is not None))
    if results.participants is None or not chosen:
        return pd.DataFrame(index=range(len(results.views))), [], {}
    people = results.participants[chosen]
    codes = [name for name in (roles.diagnosis, roles.site) if name is not None]
    texts = people.select_dtypes(exclude="number").columns.union(codes, sort=False)
    counts = {name: people[name].nunique() for name in texts}
    crowded = {name: f"{n} categories, too many to list" for name, n in counts.items() if n > MOST_LEVELS}
    return people, codes, crowded


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
    return conversion(results.model.labels_, time, event) if known.sum() >= results.min_cell else None


def _profiles(results: Results, view: str) -> pd.DataFrame:
    """Mean z-scores of the most important features of a view."""
    names = results.importance[view]["feature"][:MOST_FEATURES].tolist()
    means = cluster_profiles(results.views, results.model.labels_, view, names)
    seen = results.views.present[:, results.views.index(view)]
    counts = np.bincount(results.model.labels_[seen], minlength=results.model.n_clusters)
    means = means.reindex(columns=range(results.model.n_clusters))
    return means.mul(np.where(counts < results.min_cell, np.nan, 1.0), axis=1)


def shown_medians(found: Conversion, min_cell: int) -> pd.Series:
    """Median times of clusters; NaN where the curve falls to one half after too few subjects remain."""
    enough = found.curves[found.curves["at_risk"] >= min_cell]
    lowest = enough.groupby("cluster")["survival"].min().reindex(found.summary.index)
    return found.summary["median"].where(lowest <= 0.5)


def clusters_of(found: Findings) -> Iterator[int]:
    """Clusters that are large enough to describe."""
    return (j for j in range(len(found.sizes)) if not found.secret[j])


PAIR_COLUMNS = ["variable", "cluster", "other", "test", "p", "p_holm", "effect"]
