"""Which figures a report has, with the heading, the caption and the alternative text of each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from viewloom.clinical import p_text
from viewloom.clinical.release import group_quantiles, has_p
from viewloom.study.report.comparison import AGREEMENT as AGREEMENT_OF_METHODS
from viewloom.study.report.comparison import (
    MAP,
    agreement_alternative,
    collapsed_sentence,
    solutions_alternative,
)
from viewloom.study.report.continuum import axis_of, histogram
from viewloom.study.report.findings import Findings, clusters_of
from viewloom.study.report.presence import complete
from viewloom.study.report.privacy import in_words, plain
from viewloom.study.report.regions import feature_names
from viewloom.study.report.sentences import joined, percent, signed
from viewloom.study.report.standing_out import explained_shares, marked, nothing_stands_out

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
    """Quantiles (columns) of the largest membership of the subjects of each cluster that may be described.

    Each is the mean of `min_cell` subjects, so that none is that of one.
    """
    top, labels = results.model.memberships_.max(axis=1), results.model.labels_
    shown = list(clusters_of(found))
    values = [group_quantiles(top[labels == j], QUANTILES, results.min_cell) for j in shown]
    return pd.DataFrame(values, index=pd.Index(shown), columns=pd.Index(QUANTILES))


def _figure(name: str, heading: str, caption: str, alt: str, view: int | None = None) -> Caption:
    drawn = name if view is None else f"{name}-{view}"
    return {"id": drawn, "kind": name, "view": view, "heading": heading, "caption": caption, "alt": alt}


def _weights(results: Results, found: Findings) -> list[Caption]:
    weights = dict(zip(results.model.view_names_, results.model.view_weights_, strict=True))
    alt = f"Weights of views: {_listed(weights, percent)}."
    return [_figure("weights", "View weights", WEIGHTS, alt)]


def _continuum(results: Results, found: Findings) -> list[Caption]:
    axis = axis_of(results)
    if axis is None:
        return []
    bins = histogram(axis.positions.to_numpy(), results.min_cell)
    alt = f"Numbers of subjects along the axis, from one end to the other: {joined(map(str, bins['count']))}."
    return [_figure("continuum", "Positions along the continuum", CONTINUUM, alt)]


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
    overlap = found.contributions.overlap
    medians = [group_quantiles(values, [0.5], results.min_cell)[0] for values in overlap.T]
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
        if means.notna().to_numpy().any() and not nothing_stands_out(results, view)
    ]


def _profile_alt(results: Results, means: pd.DataFrame) -> str:
    top = means[:TOP].set_axis(results.cluster_names, axis=1)
    top.index = pd.Index(feature_names(top.index, 40))
    known = [(name, cluster, z) for cluster in top for name, z in top[cluster].items() if np.isfinite(z)]
    far = sorted(known, key=lambda item: -abs(item[2]))[:NAMED]
    named = (f"{name} in cluster {cluster} {signed(z)} SD" for name, cluster, z in far)
    return f"Largest deviations from the mean: {joined(named)}."


def _standing(results: Results, found: Findings) -> list[Caption]:
    table = explained_shares(results, found)
    if table.empty:
        return []
    first = table.sort_values("value", ascending=False, kind="stable")[:NAMED].to_dict("records")
    named = (
        f"{feature_names([row['feature']], 40)[0]} {percent(row['value'])} ({percent(row['low'])} to "
        f"{percent(row['high'])})"
        for row in first
    )
    alt = f"Largest shares of variance that the clusters explain, with 95% intervals: {joined(named)}."
    return [_figure("standing", "Features that stand out", STANDING, alt)]


def _importance(results: Results, found: Findings) -> list[Caption]:
    views = [
        (a, view) for a, view in enumerate(results.model.view_names_) if not nothing_stands_out(results, view)
    ]
    captions = {view: IMPORTANCE + NOT_STANDING * _has_marks(results, view) for _, view in views}
    return [
        _figure(
            "importance", f"Feature importance in {plain(view)}", captions[view], _ranking(results, view), a
        )
        for a, view in views
    ]


def _has_marks(results: Results, view: str) -> bool:
    """Whether a feature of the figure does not stand out."""
    first = results.importance[view]["feature"][:TOP].tolist()
    return marked(results, view, first, first) != first


def _ranking(results: Results, view: str) -> str:
    first = feature_names(results.importance[view]["feature"][:TOP], 40)[:NAMED]
    return f"Most important features, in this order: {joined(first)}."


def _brain(results: Results, found: Findings) -> list[Caption]:
    """One figure for each view with enough brain regions."""
    from viewloom.study.report.brain import brain_caption, brain_values

    drawn = ((a, view, brain_values(means)) for a, (view, means) in enumerate(found.profiles.items()))
    return [
        _figure("brain", f"{plain(view)} on the brain", *brain_caption(values, results.cluster_names), a)
        for a, view, values in drawn
        if values is not None
    ]


def _associations(results: Results, found: Findings) -> list[Caption]:
    table = found.associations.sort_values("effect", ascending=False, kind="stable")
    if table.empty:
        return []
    known = table.dropna(subset="effect")
    effects = dict(zip(known["variable"], known["effect"], strict=True))
    alt = f"Effect sizes: {_listed(effects, lambda effect: f'{effect:.2g}')}."
    return [_figure("associations", "Association of clinical variables with the clusters", ASSOCIATIONS, alt)]


def _survival(results: Results, found: Findings) -> list[Caption]:
    if found.conversion is None or results.roles.survival is None or found.conversion.curves.empty:
        return []
    test = f" Log-rank test: {p_text(found.conversion.p)}." if has_p(found.conversion.p) else ""
    medians = found.conversion.summary["median"].dropna()
    times = _listed(_by_name(results, medians), lambda time: f"{time:.3g}", "cluster ")
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
    if found.comparison is None:
        return []
    scores = found.comparison.table["NMI"].dropna().sort_values(ascending=False, kind="stable")
    alt = f"NMI with the diagnosis: {_listed(scores.to_dict(), lambda score: f'{score:.2g}')}."
    return [_figure("comparison", "Comparison of methods", COMPARISON, alt)]


def _methods(results: Results, found: Findings) -> list[Caption]:
    if results.comparison is None or len(results.comparison.agreement) < 2:
        return []
    caption = AGREEMENT_OF_METHODS + collapsed_sentence(results.comparison)
    alt = agreement_alternative(results.comparison)
    return [_figure("methods", "Agreement between methods", caption, alt)]


def _solutions(results: Results, found: Findings) -> list[Caption]:
    if results.solutions is None:
        return []
    alt = solutions_alternative(results.solutions)
    return [_figure("solutions", "Dependence on settings", MAP, alt)]


def _overlaps(results: Results, found: Findings) -> list[Caption]:
    alt = f"{in_words(complete(results))} of {len(results.views)} subjects have every view."
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
    "Weights are estimated from the data: views that share nothing with the others have little weight, views "
    "that resemble each other share a part of it, all others have similar weights. Weights do not rank "
    "views; the agreement in the table of views does. The vertical line marks equal weights, horizontal "
    "lines are 95% intervals from refits on subsamples."
)
CONTINUUM = (
    "Number of subjects by position along the leading axis of all views, in standard deviations. Intervals "
    "with few subjects are joined."
)
CONTRIBUTIONS = (
    "Share of each cluster's membership that shifts to other clusters when a view is left out. The largest "
    "value of each cluster is in bold."
)
AGREEMENT = (
    "Agreement of the memberships from each view alone with those from all views together: 1 is perfect "
    "agreement. Dot: median; thick line: interquartile range; thin line: 5th to 95th percentile. Each is a "
    "mean of several subjects."
)
CERTAINTY = (
    "Largest membership of each subject, by cluster. Dot: median; thick line: interquartile range; thin "
    "line: 10th to 90th percentile. Each is a mean of several subjects. Diamond: mean, with its 95% interval "
    "from refits on subsamples."
)
PROFILES = (
    "Means of the most important features in each cluster, in standard deviations (SD) from the mean of all "
    "subjects: orange is below the mean, purple above. Empty cells: not shown, since there are "
    "too few subjects, or the means of a small cluster could be derived from them."
)
IMPORTANCE = (
    "Features in order of importance, the most important at the top. Colours give the importance in each "
    "cluster, whatever its direction, relative to the largest of the view: yellow is more important. The "
    "narrow strip, if there are more, shows all features of the view. Empty columns: not "
    "shown, since there are too few subjects, or the values of a small cluster could be derived from them."
)
NOT_STANDING = (
    " n.s.: the feature does not stand out, since it is not related to the clusters of the other views (q of "
    "0.05 or more)."
)
STANDING = (
    "Features that stand out, at most five of each view. Dot: share of the variance of the feature that the "
    "clusters explain, with its 95% interval from refits on subsamples. Ring: the same for clusters that the "
    "other views form without this view, which the feature did not help to form."
)
ASSOCIATIONS = (
    "Effect size of the difference between clusters, by variable; blue where the difference is significant. "
    "Variables without a bar: not shown, since small counts could be derived from the effect."
)
SURVIVAL = (
    "Kaplan-Meier estimates of the proportion without the event in each cluster, with 95% confidence bands. "
    "Curves are drawn at a few round times, and end where too few subjects remain to show. Numbers at risk "
    "are rounded to tens. A cluster has no curve if it has too few subjects or events to show, or if the "
    "small number of another cluster could be derived from it."
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
    _continuum, _weights, _contributions, _agreement, _certainty, _profiles, _brain, _standing, _importance,
    _associations, _survival, _numbers, _comparison, _methods, _solutions, _overlaps, _objective,
)  # fmt: skip
