"""Cautions on the results: one function per check, which returns a sentence or None."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from viewloom.clinical import MIN_CELL, site_warning
from viewloom.evaluation.selection.evidence import CUTS, UNSTABLE
from viewloom.study.report.evidence import cluster_words, evidence_sentence, judged
from viewloom.study.report.findings import Findings, clusters_of
from viewloom.study.report.privacy import plain
from viewloom.study.report.sentences import AMBIGUOUS, counted, joined, percent
from viewloom.study.report.testing import explained, explaining, explanation_caution

if TYPE_CHECKING:
    from viewloom.study.results import Results

DOMINANT = 0.9  # weight of a single view
SMALL = 0.05  # share of subjects
OFTEN_MISSING = 0.2  # share of subjects who lack a view
UNEVEN = 0.2  # Cramer's V of clusters and lacking a view
MANY_AMBIGUOUS = 0.2
FEW_EACH = 20  # subjects per cluster, on average
AGREEMENT = 0.6  # mean ARI of refits


def cautions(results: Results, found: Findings) -> list[dict[str, str]]:
    """Headings and sentences of the checks that found a problem, the most serious first."""
    checked = ((heading, check(results, found)) for heading, check in CHECKS.items())
    return [{"heading": heading, "text": text} for heading, text in checked if text]


def cautions_sentence(found: Sequence[Mapping[str, str]]) -> list[str]:
    """The headings of cautions in one sentence of the summary; none without cautions beside the verdict.

    >>> cautions_sentence([{"heading": "Small clusters"}, {"heading": "Few subjects"}])
    ['Cautions: small clusters; few subjects.']
    """
    named = [one["heading"] for one in found if one["heading"] not in VERDICTS]
    headings = [f"{heading[0].lower()}{heading[1:]}" for heading in named]
    return [f"Cautions: {'; '.join(headings)}."] if headings else []


def _not_converged(results: Results, found: Findings) -> str | None:
    if results.model.converged_:
        return None
    return (
        f"The computation stopped after {results.model.n_iter_} iterations, before it had converged. "
        "The clusters are not final: increase max_iter in study.toml and run the analysis again."
    )


def _dominated(results: Results, found: Findings) -> str | None:
    weights = results.model.view_weights_
    if len(weights) == 1 or weights.max() <= DOMINANT:
        return None
    name = plain(results.model.view_names_[int(weights.argmax())])
    return (
        f"{name} has {percent(weights.max())} of the weight, so the other views have little influence. A "
        "view can dominate because it is easy to partition rather than informative: compare with a larger "
        "gamma in study.toml."
    )


def _site(results: Results, found: Findings) -> str | None:
    """By all features, also where the site is a correlate of one, so that its p is not valid elsewhere."""
    site, table = results.roles.site, explained(results, found).table
    exact, shown = (
        one.assign(variable=one["variable"].map(plain))
        for one in (table[table["what"] == "variable"], found.associations)
    )
    return None if site is None else site_warning(exact, [plain(site)], shown)


def _unstable(results: Results, found: Findings) -> str | None:
    words = {j: cluster_words(results, j).split()[0] for j in clusters_of(found)}
    parts = [
        f"{_clusters(results, [j for j, word in words.items() if word == one])} {one}."
        for one in ("unstable", "doubtful")
        if one in words.values()
    ]
    if not parts and not results.stability.overall < AGREEMENT:
        return None
    overall = f"{results.stability.overall:.2f} (1 is perfect, 0 is chance)"
    advice = (
        "Do not interpret clusters that are not found again: try fewer clusters, or include more subjects."
    )
    return " ".join([*parts, f"The agreement of analyses of random subsamples is {overall}.", advice])


def _continuum(results: Results, found: Findings) -> str | None:
    return evidence_sentence(results) if judged(results) == CUTS else None


def _not_reproducible(results: Results, found: Findings) -> str | None:
    return evidence_sentence(results) if judged(results) == UNSTABLE else None


def _not_assessed(results: Results, found: Findings) -> str | None:
    if judged(results) is not None:
        return None
    return f"{evidence_sentence(results)} Any method returns clusters for any data."


def _small(results: Results, found: Findings) -> str | None:
    total, least = found.sizes.sum(), max(SMALL * found.sizes.sum(), min(results.min_cell, MIN_CELL))
    small = [j for j, size in enumerate(found.sizes) if size < least]
    if not small:
        return None
    return (
        f"{_clusters(results, small)} very small (fewer than {least:.0f} of {total} subjects). A few "
        "outliers or an error in the data can form a cluster of their own: examine these subjects first."
    )


def _few(results: Results, found: Findings) -> str | None:
    n, k = len(results.views), results.model.n_clusters
    if n >= FEW_EACH * k:
        return None
    return f"{n} subjects are few for {k} clusters: the clusters may change as subjects are added."


def _ambiguous(results: Results, found: Findings) -> str | None:
    ambiguous = results.model.memberships_.max(axis=1) < AMBIGUOUS
    if ambiguous.mean() <= MANY_AMBIGUOUS:
        return None
    shown = counted(int(ambiguous.sum()), len(ambiguous), results.min_cell)
    return (
        f"{shown} of {len(ambiguous)} subjects are ambiguous. The clusters may be divisions of a continuum "
        "rather than distinct groups."
    )


def _number(results: Results, found: Findings) -> str | None:
    if results.numbers is None or results.numbers.recommended == results.model.n_clusters:
        return None
    k = results.model.n_clusters
    if results.numbers.recommended is None:
        return (
            "The data show no distinct groups: a single group of subjects with the same correlations gives "
            f"clusters that are as stable. The {k} clusters are at best a useful summary."
        )
    return f"The data support {results.numbers.recommended} clusters, but {k} were requested."


def _confounded(results: Results, found: Findings) -> str | None:
    mixed = [name for name in explaining(results, found)["variable"] if name in results.roles.covariates]
    if not mixed:
        return None
    names = joined(map(plain, mixed))
    return (
        f"The clusters differ in {names}. They may reflect {names} rather than disease: compare matched "
        "subjects, or remove the effect (residualise in study.toml)."
    )


def _missing(results: Results, found: Findings) -> str | None:
    lacking = pd.Series(1.0 - results.views.present.mean(axis=0), index=results.views.names)
    often = lacking[lacking > OFTEN_MISSING]
    if often.empty:
        return None
    named = joined(
        f"{plain(name)} (about {round(20 * share) / 20:.0%} of them)" for name, share in often.items()
    )
    return f"Many subjects lack {named}. They were assigned by their other views, which is less certain."


def _uneven(results: Results, found: Findings) -> str | None:
    table = found.absence
    strong = table[(table["q"] < 0.05) & (table["effect"] > UNEVEN)]
    if strong.empty:
        return None
    shares = " ".join(_lacking(results, found, str(name)) for name in strong["variable"])
    return (
        f"The proportion of subjects who lack a view differs between the clusters. {shares} The clusters may "
        "partly reflect who was examined: check that they persist among subjects who have every view."
    )


def _lacking(results: Results, found: Findings, view: str) -> str:
    """The share of subjects of each cluster who lack a view, in steps of 5 %, without small counts."""
    lacks = ~results.views.present[:, results.views.index(view)]
    counts = np.bincount(results.model.labels_[lacks], minlength=results.model.n_clusters)
    rough = {j: _rough(int(counts[j]), int(found.sizes[j]), results.min_cell) for j in clusters_of(found)}
    shares = (f"{share} of cluster {results.cluster_names[j]}" for j, share in rough.items())
    return f"{plain(view)} is missing in {joined(shares)}."


def _rough(count: int, total: int, min_cell: int) -> str:
    """A share of subjects without small counts.

    >>> _rough(3, 90, 11), _rough(33, 90, 11), _rough(85, 90, 11)
    ('few', 'about 35%', 'nearly all')
    """
    if count < min_cell:
        return "few"
    return "nearly all" if total - count < min_cell else f"about {round(20 * count / total) / 20:.0%}"


def _clusters(results: Results, numbers: Iterable[int]) -> str:
    names = [results.cluster_names[j] for j in numbers]
    return f"Cluster {names[0]} is" if len(names) == 1 else f"Clusters {joined(names)} are"


def _stability_unknown(results: Results, found: Findings) -> str | None:
    if not np.isnan(results.stability.overall):
        return None
    return "The stability of the clusters was not assessed."


CHECKS = {
    "No convergence": _not_converged,
    "No clearly distinct clusters": _continuum,
    "Not reproducible": _not_reproducible,
    "Clusters not assessed": _not_assessed,
    "Clusters associated with site": _site,
    "A single view dominates": _dominated,
    "Unstable clusters": _unstable,
    "Stability unknown": _stability_unknown,
    "Small clusters": _small,
    "Few subjects": _few,
    "Number of clusters": _number,
    "Ambiguous subjects": _ambiguous,
    "Covariates differ between clusters": _confounded,
    "Other variables explain the clusters": explanation_caution,
    "Missing views": _missing,
    "Missing views differ between clusters": _uneven,
}
VERDICTS = {"No clearly distinct clusters", "Not reproducible", "Clusters not assessed"}
LIMITS = (
    "A clustering method returns the requested number of clusters for any data. Evidence for clusters is "
    "their stability, and their replication in other data.",
    "Clusters were formed and compared in the same subjects. Differences in variables that are part of the "
    "views, or depend on them, are expected and are no evidence for the clusters; p-values are exploratory.",
    "The clusters describe these subjects. Whether they generalise can only be tested in another cohort.",
)
