"""Which figures a report has, with the heading, the caption and the alternative text of each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from viewloom.clinical import p_text
from viewloom.study.report.findings import Findings, clusters_of
from viewloom.study.report.presence import complete
from viewloom.study.report.privacy import plain
from viewloom.study.report.sentences import joined, percent, signed

if TYPE_CHECKING:
    from viewloom.study.results import Results

Caption = dict[str, Any]
TOP = 15  # features that are drawn by name
QUANTILES = (0.1, 0.25, 0.5, 0.75, 0.9)
NAMED = 5  # features that an alternative text names


def captions(results: Results, found: Findings) -> list[Caption]:
    """Figures in the order of the report."""
    return [caption for make in CAPTIONS for caption in make(results, found)]


def certainty(results: Results, found: Findings) -> pd.DataFrame:
    """Quantiles (columns) of the largest membership of the subjects of each cluster that may be described."""
    top, labels = results.model.memberships_.max(axis=1), results.model.labels_
    shown = list(clusters_of(found))
    values = [np.quantile(top[labels == j], QUANTILES) for j in shown]
    return pd.DataFrame(values, index=pd.Index(shown), columns=pd.Index(QUANTILES))


def _figure(name: str, heading: str, caption: str, alt: str, view: int | None = None) -> Caption:
    drawn = name if view is None else f"{name}-{view}"
    return {"id": drawn, "kind": name, "view": view, "heading": heading, "caption": caption, "alt": alt}


def _weights(results: Results, found: Findings) -> list[Caption]:
    weights = dict(zip(results.model.view_names_, results.model.view_weights_, strict=True))
    alt = f"Weights of views: {_listed(weights, percent)}."
    return [_figure("weights", "How much each view counts", WEIGHTS, alt)]


def _contributions(results: Results, found: Findings) -> list[Caption]:
    if results.views.n_views == 1 or found.secret.all():
        return []
    rests = found.moved.dropna(how="all").idxmax(axis=1)
    alt = "View each cluster rests on most: " + joined(f"cluster {j} {plain(v)}" for j, v in rests.items())
    return [_figure("contributions", "Which view each cluster rests on", CONTRIBUTIONS, f"{alt}.")]


def _agreement(results: Results, found: Findings) -> list[Caption]:
    if results.views.n_views == 1:
        return []
    medians = np.nanmedian(found.contributions.overlap, axis=0)
    shared = dict(zip(found.contributions.view_names, medians, strict=True))
    alt = f"Median share of membership in common with all views together: {_listed(shared, percent)}."
    return [_figure("agreement", "How far the views agree", AGREEMENT, alt)]


def _certainty(results: Results, found: Findings) -> list[Caption]:
    if found.secret.all():
        return []
    medians = certainty(results, found)[0.5]
    alt = f"Median of the largest membership: {_listed(medians.to_dict(), percent, 'cluster ')}."
    return [_figure("certainty", "How clearly subjects belong to their cluster", CERTAINTY, alt)]


def _profiles(results: Results, found: Findings) -> list[Caption]:
    return [
        _figure("profiles", f"How clusters differ in {plain(view)}", PROFILES, _profile_alt(means[:TOP]), a)
        for a, (view, means) in enumerate(found.profiles.items())
        if means.notna().to_numpy().any()
    ]


def _profile_alt(means: pd.DataFrame) -> str:
    known = [(name, j, z) for j in means for name, z in means[j].items() if np.isfinite(z)]
    far = sorted(known, key=lambda item: -abs(item[2]))[:NAMED]
    said = (f"{plain(name, 40)} in cluster {j} {signed(z)} SD" for name, j, z in far)
    return f"Furthest from average: {joined(said)}."


def _importance(results: Results, found: Findings) -> list[Caption]:
    views = enumerate(results.model.view_names_)
    return [
        _figure(
            "importance", f"Features that matter in {plain(view)}", IMPORTANCE, _ranking(results, view), a
        )
        for a, view in views
    ]


def _ranking(results: Results, view: str) -> str:
    first = results.importance[view]["feature"][:NAMED]
    return f"Most important features, in this order: {joined(plain(name, 40) for name in first)}."


def _associations(results: Results, found: Findings) -> list[Caption]:
    table = found.associations.sort_values("effect", ascending=False, kind="stable")
    if table.empty:
        return []
    effects = dict(zip(table["variable"], table["effect"], strict=True))
    alt = f"Effect sizes: {_listed(effects, lambda effect: f'{effect:.2f}')}."
    return [_figure("associations", "Clinical variables and the clusters", ASSOCIATIONS, alt)]


def _survival(results: Results, found: Findings) -> list[Caption]:
    if found.conversion is None or results.roles.survival is None:
        return []
    test = f" Log-rank test: {p_text(found.conversion.p)}." if np.isfinite(found.conversion.p) else ""
    medians = found.conversion.summary.loc[
        found.conversion.summary["n"] >= results.min_cell, "median"
    ].dropna()
    said = _listed(medians.to_dict(), lambda time: f"{time:.1f}", "cluster ")
    alt = f"Median time to the event: {said}." if len(medians) else "Less than half had the event."
    event = plain(results.roles.survival[1])
    return [_figure("survival", f"Time to {event}", SURVIVAL, alt + test)]


def _numbers(results: Results, found: Findings) -> list[Caption]:
    if results.numbers is None:
        return []
    table = results.numbers.table
    stable = dict(zip(table["k"], table["stability"], strict=True))
    alt = f"Stability by number of clusters: {_listed(stable, lambda value: f'{value:.2f}')}."
    return [_figure("numbers", "How many clusters?", NUMBERS, alt)]


def _comparison(results: Results, found: Findings) -> list[Caption]:
    if results.comparison is None:
        return []
    scores = results.comparison.table["NMI"].sort_values(ascending=False, kind="stable")
    alt = f"NMI with the diagnosis: {_listed(scores.to_dict(), lambda score: f'{score:.2f}')}."
    return [_figure("comparison", "Methods compared", COMPARISON, alt)]


def _overlaps(results: Results, found: Findings) -> list[Caption]:
    alt = f"{complete(results)} of {len(results.views)} subjects have every view."
    return [_figure("overlaps", "Who was missing which view", OVERLAPS, alt)]


def _objective(results: Results, found: Findings) -> list[Caption]:
    end = "levelled off" if results.model.converged_ else "was stopped while still falling"
    alt = f"The objective fell over {results.model.n_iter_} rounds and {end}."
    return [_figure("objective", "Did the computation finish?", OBJECTIVE, alt)]


def _listed(values: Mapping[Any, float], shown: Any, prefix: str = "") -> str:
    return joined(f"{prefix}{plain(name, 40)} {shown(value)}" for name, value in values.items())


WEIGHTS = (
    "The weight of a view is learned: views that fit together with the others get more. The line marks an "
    "equal share."
)
CONTRIBUTIONS = "Share of each cluster's membership that moves when a view is left out; the largest in bold."
AGREEMENT = (
    "How much each view, taken alone, puts subjects into the same clusters as all views together: 1 is full "
    "agreement. Dot: median; thick line: middle half of the subjects; thin line: 5 to 95 %."
)
CERTAINTY = (
    "Every subject belongs to each cluster by some share; this is the largest. Dot: median of the cluster's "
    "subjects; thick line: their middle half; thin line: 10 to 90 %."
)
PROFILES = (
    "Mean of the most important features in each cluster, in standard deviations (SD) from the mean of all "
    "subjects: orange is lower than average, purple is higher. Empty: too few subjects to be shown."
)
IMPORTANCE = (
    "Features sorted by importance, the most important on top, and how much each counts in every cluster. "
    "The narrow strip shows all features of the view."
)
ASSOCIATIONS = (
    "How strongly each variable differs between the clusters; blue where the difference is significant."
)
SURVIVAL = (
    "Share of each cluster without the event as time goes on (Kaplan-Meier), with 95 % bands. Curves end "
    "where too few subjects are left to be shown."
)
NUMBERS = (
    "Whether random parts of the subjects give the same clusters, for each number of clusters, and what "
    "chance alone would give."
)
COMPARISON = (
    "How well each method finds the diagnosis again (NMI: 1 is full agreement, 0 is none; chance gives a "
    "little more than 0). Ours: viewloom."
)
OVERLAPS = (
    "Each column is one pattern: filled dots are the views that these subjects have, the bar above is how "
    "many they are. Hatched bars stand for counts that are not shown."
)
OBJECTIVE = "The quantity that is made small, round by round. It should fall and level off."
CAPTIONS = (
    _weights, _contributions, _agreement, _certainty, _profiles, _importance, _associations, _survival,
    _numbers, _comparison, _overlaps, _objective,
)  # fmt: skip
