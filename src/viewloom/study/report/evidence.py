"""Whether there are clusters: the comparison with twins, in words and in a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from viewloom.evaluation.selection.evidence import (
    CLUSTERS,
    CUTS,
    LEAST_GAP,
    LEVEL,
    UNSTABLE,
    ClusterEvidence,
    least_z,
)
from viewloom.study.report.table_cells import Table, number, table_of, text

if TYPE_CHECKING:
    from viewloom.study.results import Results

# Hennig (2007) calls clusters with a mean Jaccard of 0.75 valid and below 0.6 not to be trusted
STABLE, DOUBTFUL = 0.75, 0.6
NOT_ASSESSED = "not assessed"
HEADLINES = {
    CLUSTERS: "The data show clusters",
    CUTS: "Reproducible cuts through a continuum, not clearly distinct clusters",
    UNSTABLE: "The clusters are not reproducible",
    None: "Whether there are clusters was not assessed",
}
MEASURES = {
    "stability": "stability (agreement of subsamples; 1 is perfect)",
    "loss": "loss (0 is the least possible, 1 that of one cluster)",
    "separation": "separation (difference of the two largest memberships)",
}


def judged(results: Results) -> str | None:
    """The verdict on the clustering; None where it was not compared with twins."""
    return None if results.evidence is None else results.evidence.verdict


def cluster_words(results: Results, j: int) -> str:
    """What a cluster is: its stability in the words of the verdict; none for a cluster that is too small."""
    if results.sizes[j] < results.min_cell:
        return NOT_ASSESSED
    return described(float(results.cluster_stability[j]), judged(results))


def described(jaccard: float, verdict: str | None) -> str:
    """The stability of a cluster in the words of the verdict on all.

    >>> described(0.9, "clusters"), described(0.9, "cuts"), described(0.9, None), described(0.5, "cuts")
    ('stable cluster', 'reproducible cut', 'stable', 'unstable')
    >>> described(0.9, "not reproducible"), described(float("nan"), None)
    ('not reproducible', 'not assessed')
    """
    if np.isnan(jaccard):
        return NOT_ASSESSED
    if verdict == UNSTABLE:
        return UNSTABLE
    if jaccard < DOUBTFUL:
        return "unstable"
    what = {CLUSTERS: " cluster", CUTS: " cut", None: ""}[verdict]
    if jaccard < STABLE:
        return f"doubtful{what}"
    return f"{'reproducible' if verdict == CUTS else 'stable'}{what}"


def evidence_sentence(results: Results) -> str:
    """The verdict on the clustering, and the numbers that it follows from."""
    found, verdict = results.evidence, judged(results)
    if found is None or verdict is None:
        return f"{HEADLINES[None]}: {_why_not(results)}."
    return f"{HEADLINES[verdict]}: {_reason(found, verdict)}"


def _reason(found: ClusterEvidence, verdict: str) -> str:
    data, twins = found.table["data"], found.table["twins"]
    stable = f"agreement of subsamples {data['stability']:.2f}, in twins {twins['stability']:.2f}"
    loss = f"loss {data['loss']:.2f}, in twins {twins['loss']:.2f}"
    tight = _tightness(found) if verdict == CUTS else ""
    return BECAUSE[verdict].format(stable=stable, tight=tight, loss=loss)


def _tightness(found: ClusterEvidence) -> str:
    """How tight cuts are beside those of twins, as far as the numbers show it."""
    certain, tight = found.table["z"]["loss"] > least_z(found.n_twins, LEVEL), found.gap > LEAST_GAP
    if certain:
        return NO_MORE_STABLE if tight else TIGHTER
    if tight:
        return UNCERTAIN.format(found.n_twins)
    return AS_TIGHT.format("nearly as" if found.gap > 0.0 else "at least as")


def evidence_section(results: Results) -> dict[str, Any] | None:
    """Headline, sentences and table of the comparison; None where there was none."""
    found, verdict = results.evidence, judged(results)
    if found is None or verdict is None:
        return None
    reason = _reason(found, verdict)
    return {
        "verdict": verdict,
        "headline": HEADLINES[verdict],
        "sentences": [f"{reason[0].upper()}{reason[1:]}", ABOUT.format(found.n_twins)],
        "tables": [_table(results)],
    }


def _table(results: Results) -> Table:
    assert results.evidence is not None
    rows = [
        [text(MEASURES[str(name)]), *(number(value) for value in row[:-1]), number(row[-1], 1)]
        for name, row in zip(results.evidence.table.index, results.evidence.table.to_numpy(), strict=True)
    ]
    columns = [("measure", 0), ("these data", 1), ("twins, mean", 1), ("twins, SD", 1), ("z", 1)]
    return table_of("evidence", "Comparison with data that have no clusters", TABLE, columns, rows)


def _why_not(results: Results) -> str:
    if len(results.views) < results.min_cell:
        return f"there are fewer than {results.min_cell} subjects"
    return "the clustering was not compared with data that have no clusters (twins)"


BECAUSE = {
    CLUSTERS: (
        "they are found again in subsamples ({stable}) and are tighter than groups cut from data with the "
        "same distributions and correlations and no clusters ({loss})."
    ),
    CUTS: (
        "similar groups are found again in subsamples ({stable}), {tight} ({loss}). Where the cuts lie "
        "may be a convention: consider positions along the continuum."
    ),
    UNSTABLE: "subsamples of the subjects give other groups ({stable}; {loss}). Do not interpret them.",
}
AS_TIGHT = (
    "but data with the same distributions and correlations and no clusters can be cut into groups that are "
    "{} tight"
)
TIGHTER = (
    "and are tighter than groups cut from data with the same distributions and correlations and no clusters, "
    f"but by less than {LEAST_GAP}, which some continua reach as well: it is open whether they are distinct"
)
UNCERTAIN = (
    "and are tighter than groups cut from data with the same distributions and correlations and no clusters, "
    "but these differ so much that {} of them do not show it with certainty: compare with more (--twins)"
)
NO_MORE_STABLE = (
    "but so are groups cut from data with the same distributions and correlations and no clusters, though "
    "these are less tight"
)
ABOUT = (
    "Twins are {} simulated data sets with the distribution of every feature, all correlations within and "
    "between views and the missing views of these data, and no clusters. They were clustered in the same way."
)
TABLE = (
    "Means over subsamples of 80% of the subjects, fewer and fitted less exactly than those behind the "
    "agreement in the summary, in the same way for these data and the twins. z is the difference from the "
    "twins in their standard deviations, positive where these data are more clustered."
)
