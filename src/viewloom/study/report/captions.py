"""Which figures a report has, with the heading, the caption and the alternative text of each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from viewloom.clinical import p_text
from viewloom.study.report.findings import Findings, clusters_of, shown_medians
from viewloom.study.report.presence import complete
from viewloom.study.report.privacy import plain
from viewloom.study.report.regions import feature_names
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
    return [_figure("weights", "View weights", WEIGHTS, alt)]


def _contributions(results: Results, found: Findings) -> list[Caption]:
    if results.views.n_views == 1 or found.secret.all():
        return []
    main = _by_name(results, found.moved.dropna(how="all").idxmax(axis=1))
    alt = "View that each cluster depends on most: " + joined(
        f"cluster {name} {plain(view)}" for name, view in main.items()
    )
    return [_figure("contributions", "Dependence of clusters on views", CONTRIBUTIONS, f"{alt}.")]


def _agreement(results: Results, found: Findings) -> list[Caption]:
    if results.views.n_views == 1:
        return []
    medians = np.nanmedian(found.contributions.overlap, axis=0)
    shared = dict(zip(found.contributions.view_names, medians, strict=True))
    alt = f"Median agreement of memberships with those of all views together: {_listed(shared, percent)}."
    return [_figure("agreement", "Agreement of the views", AGREEMENT, alt)]


def _certainty(results: Results, found: Findings) -> list[Caption]:
    if found.secret.all():
        return []
    medians = _by_name(results, certainty(results, found)[0.5])
    alt = f"Median of the largest membership: {_listed(medians, percent, 'cluster ')}."
    return [_figure("certainty", "Certainty of cluster assignment", CERTAINTY, alt)]


def _profiles(results: Results, found: Findings) -> list[Caption]:
    return [
        _figure("profiles", f"Cluster profiles in {plain(view)}", PROFILES, _profile_alt(results, means), a)
        for a, (view, means) in enumerate(found.profiles.items())
        if means.notna().to_numpy().any()
    ]


def _profile_alt(results: Results, means: pd.DataFrame) -> str:
    top = means[:TOP].set_axis(results.cluster_names, axis=1)
    top.index = pd.Index(feature_names(top.index, 40))
    known = [(name, cluster, z) for cluster in top for name, z in top[cluster].items() if np.isfinite(z)]
    far = sorted(known, key=lambda item: -abs(item[2]))[:NAMED]
    named = (f"{name} in cluster {cluster} {signed(z)} SD" for name, cluster, z in far)
    return f"Largest deviations from the mean: {joined(named)}."


def _importance(results: Results, found: Findings) -> list[Caption]:
    views = enumerate(results.model.view_names_)
    return [
        _figure("importance", f"Feature importance in {plain(view)}", IMPORTANCE, _ranking(results, view), a)
        for a, view in views
    ]


def _ranking(results: Results, view: str) -> str:
    first = feature_names(results.importance[view]["feature"][:TOP], 40)[:NAMED]
    return f"Most important features, in this order: {joined(first)}."


def _associations(results: Results, found: Findings) -> list[Caption]:
    table = found.associations.sort_values("effect", ascending=False, kind="stable")
    if table.empty:
        return []
    effects = dict(zip(table["variable"], table["effect"], strict=True))
    alt = f"Effect sizes: {_listed(effects, lambda effect: f'{effect:.2f}')}."
    return [_figure("associations", "Association of clinical variables with the clusters", ASSOCIATIONS, alt)]


def _survival(results: Results, found: Findings) -> list[Caption]:
    if found.conversion is None or results.roles.survival is None:
        return []
    test = f" Log-rank test: {p_text(found.conversion.p)}." if np.isfinite(found.conversion.p) else ""
    medians = shown_medians(found.conversion, results.min_cell).dropna()
    times = _listed(_by_name(results, medians), lambda time: f"{time:.1f}", "cluster ")
    alt = f"Median time to the event: {times}." if len(medians) else "No median time is known."
    event = plain(results.roles.survival[1]).replace("_", " ")
    return [_figure("survival", f"Time to {event}", SURVIVAL, alt + test)]


def _numbers(results: Results, found: Findings) -> list[Caption]:
    if results.numbers is None:
        return []
    table = results.numbers.table
    stable = dict(zip(table["k"], table["stability"], strict=True))
    alt = f"Stability by number of clusters: {_listed(stable, lambda value: f'{value:.2f}')}."
    return [_figure("numbers", "Number of clusters", NUMBERS, alt)]


def _comparison(results: Results, found: Findings) -> list[Caption]:
    if results.comparison is None:
        return []
    scores = results.comparison.table["NMI"].sort_values(ascending=False, kind="stable")
    alt = f"NMI with the diagnosis: {_listed(scores.to_dict(), lambda score: f'{score:.2f}')}."
    return [_figure("comparison", "Comparison of methods", COMPARISON, alt)]


def _overlaps(results: Results, found: Findings) -> list[Caption]:
    alt = f"{complete(results)} of {len(results.views)} subjects have every view."
    return [_figure("overlaps", "Availability of views", OVERLAPS, alt)]


def _objective(results: Results, found: Findings) -> list[Caption]:
    end = "converged" if results.model.converged_ else "did not converge"
    alt = f"The objective decreased over {results.model.n_iter_} iterations and {end}."
    return [_figure("objective", "Convergence", OBJECTIVE, alt)]


def _by_name(results: Results, values: pd.Series) -> dict[str, Any]:
    """Values of clusters by their names."""
    names = [results.cluster_names[j] for j in values.index]
    return dict(zip(names, values, strict=True))


def _listed(values: Mapping[Any, float], shown: Any, prefix: str = "") -> str:
    return joined(f"{prefix}{plain(name, 40)} {shown(value)}" for name, value in values.items())


WEIGHTS = (
    "Weights are estimated from the data: views that agree with the others get larger weights. The line "
    "marks equal weights."
)
CONTRIBUTIONS = (
    "Share of each cluster's membership that shifts to other clusters when a view is left out. The largest "
    "value of each cluster is in bold."
)
AGREEMENT = (
    "Agreement of the memberships from each view alone with those from all views together: 1 is perfect "
    "agreement. Dot: median; thick line: interquartile range; thin line: 5th to 95th percentile."
)
CERTAINTY = (
    "Largest membership of each subject, by cluster. Dot: median; thick line: interquartile range; thin "
    "line: 10th to 90th percentile."
)
PROFILES = (
    "Means of the most important features in each cluster, in standard deviations (SD) from the mean of all "
    "subjects: orange is below the mean, purple above. Empty cells: too few subjects to show."
)
IMPORTANCE = (
    "Features in order of importance, the most important at the top. Colours give the importance in each "
    "cluster, whatever its direction, relative to the largest of the view: yellow is more important. The "
    "narrow strip shows all features of the view."
)
ASSOCIATIONS = (
    "Effect size of the difference between clusters, by variable; blue where the difference is significant."
)
SURVIVAL = (
    "Kaplan-Meier estimates of the proportion without the event in each cluster, with 95% confidence bands. "
    "Curves end where too few subjects remain to show."
)
NUMBERS = (
    "Agreement of clusterings of random subsamples, by number of clusters, and the agreement expected by "
    "chance."
)
COMPARISON = (
    "Agreement of the clusters of each method with the diagnosis (NMI: 1 is perfect agreement; chance gives "
    "slightly more than 0). Ours: viewloom."
)
OVERLAPS = (
    "Each column is one combination of views: filled dots mark the views available, and the bar above gives "
    "the number of subjects. Hatched bars stand for counts that are not shown."
)
OBJECTIVE = "The objective that is minimised, by iteration. It should decrease and level off."
CAPTIONS = (
    _weights, _contributions, _agreement, _certainty, _profiles, _importance, _associations, _survival,
    _numbers, _comparison, _overlaps, _objective,
)  # fmt: skip
