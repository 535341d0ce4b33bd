"""What to distrust: one function per doubt, each a sentence or nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from viewloom.clinical import MIN_CELL, site_warning
from viewloom.study.notes import shown_count
from viewloom.study.report.findings import Findings
from viewloom.study.report.privacy import plain
from viewloom.study.report.sentences import AMBIGUOUS, joined, percent, verdict

if TYPE_CHECKING:
    from viewloom.study.results import Results

COLLAPSED = 0.9  # weight of a single view
SMALL = 0.05  # share of subjects
OFTEN_MISSING = 0.2  # share of subjects who lack a view
UNEVEN = 0.2  # Cramer's V of clusters and lacking a view
CONFOUNDED = {"numeric": 0.06, "categorical": 0.2}  # effect of a covariate that is worth a warning
MANY_AMBIGUOUS = 0.2
FEW_EACH = 20  # subjects per cluster, on average
AGREEMENT = 0.6  # mean ARI of refits


def cautions(results: Results, found: Findings) -> list[dict[str, str]]:
    """What there is to distrust, gravest first: heading and sentence of each doubt."""
    said = ((heading, doubt(results, found)) for heading, doubt in DOUBTS.items())
    return [{"heading": heading, "text": text} for heading, text in said if text]


def _unfinished(results: Results, found: Findings) -> str | None:
    if results.model.converged_:
        return None
    return (
        f"The computation stopped after {results.model.n_iter_} rounds while the fit was still improving. "
        "The clusters are not final: allow more rounds (max_iter in study.toml) and run again."
    )


def _collapsed(results: Results, found: Findings) -> str | None:
    weights = results.model.view_weights_
    if len(weights) == 1 or weights.max() <= COLLAPSED:
        return None
    name = plain(results.model.view_names_[int(weights.argmax())])
    return (
        f"{name} has {percent(weights.max())} of the weight, so the other views hardly count. It may be easy "
        "to split rather than informative: compare with a larger gamma in study.toml."
    )


def _site(results: Results, found: Findings) -> str | None:
    site = results.roles.site
    table = found.associations.assign(variable=found.associations["variable"].map(plain))
    return None if site is None else site_warning(table, [plain(site)])


def _unstable(results: Results, found: Findings) -> str | None:
    words = results.stability.clusters.map(verdict)
    parts = [
        f"{_clusters(list(words.index[words == word]))} {word}"
        for word in ("unstable", "doubtful")
        if (words == word).any()
    ]
    if not parts and not results.stability.overall < AGREEMENT:
        return None
    which = f"{joined(parts)}. " if parts else ""
    return (
        f"{which}On random parts of the subjects the clustering agrees with itself by "
        f"{results.stability.overall:.2f} only (1 is full agreement, 0 is chance). Do not build on a "
        "cluster that does not come back: try fewer clusters, or more subjects."
    )


def _small(results: Results, found: Findings) -> str | None:
    total, least = found.sizes.sum(), max(SMALL * found.sizes.sum(), min(results.min_cell, MIN_CELL))
    small = [j for j, size in enumerate(found.sizes) if size < least]
    if not small:
        return None
    return (
        f"{_clusters(small)} very small (below {least:.0f} of {total} subjects). A handful of unusual "
        "subjects, or a fault in the data, can make a cluster of its own: look at these first."
    )


def _few(results: Results, found: Findings) -> str | None:
    n, k = len(results.views), results.model.n_clusters
    if n >= FEW_EACH * k:
        return None
    return f"{n} subjects are few for {k} clusters; expect clusters to change with the next subjects."


def _torn(results: Results, found: Findings) -> str | None:
    ambiguous = results.model.memberships_.max(axis=1) < AMBIGUOUS
    if ambiguous.mean() <= MANY_AMBIGUOUS:
        return None
    shown = shown_count(int(ambiguous.sum()), len(ambiguous), results.min_cell)
    return (
        f"{shown} of {len(ambiguous)} subjects lie between clusters. The clusters may be cuts through a "
        "continuum rather than separate groups."
    )


def _number(results: Results, found: Findings) -> str | None:
    if results.numbers is None or results.numbers.recommended == results.model.n_clusters:
        return None
    k = results.model.n_clusters
    if results.numbers.recommended is None:
        return (
            "The data show no clear groups: a single cloud of subjects with the same correlations can be "
            f"cut as well. The {k} clusters are a useful summary at best."
        )
    return f"The data speak for {results.numbers.recommended} clusters, but {k} were asked for."


def _confounded(results: Results, found: Findings) -> str | None:
    table = found.associations
    bound = table["kind"].map(CONFOUNDED)
    mixed = table[
        table["variable"].isin(results.roles.covariates) & table["significant"] & (table["effect"] > bound)
    ]
    if mixed.empty:
        return None
    names = joined(plain(name) for name in mixed["variable"])
    return (
        f"The clusters differ in {names}. They may reflect {names} rather than disease: compare subjects "
        "who are alike in this, or have the effect taken out (residualise in study.toml)."
    )


def _missing(results: Results, found: Findings) -> str | None:
    lacking = pd.Series(1.0 - results.views.present.mean(axis=0), index=results.views.names)
    often = lacking[lacking > OFTEN_MISSING]
    if often.empty:
        return None
    named = joined(
        f"{plain(name)} (about {round(20 * share) / 20:.0%} of them)" for name, share in often.items()
    )
    return f"Many subjects lack {named}. They were placed by their other views alone, which is less sure."


def _uneven(results: Results, found: Findings) -> str | None:
    table = found.absence
    strong = table[(table["q"] < 0.05) & (table["effect"] > UNEVEN)]
    if strong.empty:
        return None
    named = joined(plain(name) for name in strong["variable"])
    return (
        f"Who lacks {named} differs between clusters. Part of what looks like a cluster may be who was "
        "measured: check that the clusters hold among subjects who have every view."
    )


def _clusters(numbers: list[int]) -> str:
    return f"Cluster {numbers[0]} is" if len(numbers) == 1 else f"Clusters {joined(map(str, numbers))} are"


def _nothing_known(results: Results, found: Findings) -> str | None:
    if not np.isnan(results.stability.overall):
        return None
    return "Whether the clusters would come back in other subjects was not examined."


DOUBTS = {
    "The computation did not finish": _unfinished,
    "The clusters follow the site": _site,
    "One view decides alone": _collapsed,
    "Clusters that may not come back": _unstable,
    "Stability is not known": _nothing_known,
    "Small clusters": _small,
    "Few subjects": _few,
    "The number of clusters": _number,
    "Subjects between clusters": _torn,
    "Age, sex or other covariates differ": _confounded,
    "Missing views": _missing,
    "Views are missing unevenly": _uneven,
}
LIMITS = (
    "A clustering finds as many clusters as it is asked for, in any data. Stability and the comparison "
    "with other data are what speaks for them.",
    "Clusters were found and compared in the same subjects. Differences in variables that went into the "
    "views, or depend on them, are to be expected and prove nothing; p-values are a guide, not a test of a "
    "plan made before.",
    "The clusters describe these subjects. Whether they hold elsewhere needs another cohort.",
)
