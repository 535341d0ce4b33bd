"""The summary of a report: the findings of a study in sentences."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from viewloom.clinical import p_text
from viewloom.study.notes import shown_count
from viewloom.study.report.findings import Findings
from viewloom.study.report.privacy import plain
from viewloom.study.report.sites import sites_sentence

if TYPE_CHECKING:
    from viewloom.study.results import Results

# Hennig (2007) calls clusters with a mean Jaccard of 0.75 valid and below 0.6 not to be trusted
VERDICTS = ((0.85, "very stable"), (0.75, "stable"), (0.6, "doubtful"), (-np.inf, "unstable"))
STRENGTHS = {  # usual bounds of effect sizes
    "numeric": ((0.14, "strongly"), (0.06, "moderately"), (-np.inf, "weakly")),
    "categorical": ((0.5, "strongly"), (0.3, "moderately"), (-np.inf, "weakly")),
}
SAMENESS = (  # ARI of two clusterings
    (0.8, "nearly the same"),
    (0.6, "largely the same"),
    (0.4, "partly different"),
    (-np.inf, "substantially different"),
)
MOST_NAMED = 6  # variables or views that a sentence names
NO_AGREEMENT = 0.01  # lower end of the interval of a view that may share nothing with the others
AMBIGUOUS = 0.6  # largest membership below which a subject is ambiguous


def in_short(results: Results, found: Findings) -> list[str]:
    """The findings of a study in a few sentences."""
    sentences = [
        _counts(results, found),
        _number(results),
        _stability(results),
        _certainty(results),
        _diagnosis(results),
        _differences(found),
        _events(results, found),
        _weights(results),
        _agreement(found),
        sites_sentence(results),
    ]
    return [sentence for sentence in sentences if sentence]


def verdict(jaccard: float) -> str:
    """The stability of a cluster as a category.

    >>> verdict(0.9), verdict(0.7), verdict(float("nan"))
    ('very stable', 'doubtful', 'unknown')
    """
    return "unknown" if np.isnan(jaccard) else _level(jaccard, VERDICTS)


def sameness(ari: float) -> str:
    """How alike two clusterings are, in words.

    >>> sameness(0.9), sameness(0.43)
    ('nearly the same', 'partly different')
    """
    return _level(ari, SAMENESS)


def joined(parts: Iterable[str]) -> str:
    """A list in a sentence.

    >>> joined(["a"]), joined(["a", "b", "c"]), joined([])
    ('a', 'a, b and c', 'none')
    """
    *first, last = list(parts) or ["none"]
    return f"{', '.join(first)} and {last}" if first else last


def percent(share: float) -> str:
    """A share as a percentage.

    >>> percent(0.426), percent(0.004), percent(0.0)
    ('43%', '<1%', '0%')
    """
    return "<1%" if 0 < share < 0.005 else f"{share:.0%}"


def counted(count: int, total: int | None, min_cell: int) -> str:
    """A number of subjects at the beginning of a sentence, without small counts.

    >>> [counted(n, 60, 11) for n in (40, 3, 57, 0)]
    ['40', 'Fewer than 11', 'More than 49', 'None']
    """
    text = str(shown_count(count, total, min_cell))
    words = {"<": "Fewer than ", ">": "More than "}
    return f"{words[text[0]]}{text[1:]}" if text[0] in words else text if count else "None"


def signed(value: float, digits: int = 1) -> str:
    """A number with its sign, and a typographic minus.

    >>> signed(-1.04), signed(0.96)
    ('−1.0', '+1.0')
    """
    return f"{value:+.{digits}f}".replace("-", "\N{MINUS SIGN}")


def _level(value: float, levels: Sequence[tuple[float, str]]) -> str:
    return next(word for bound, word in levels if value >= bound)


def _counts(results: Results, found: Findings) -> str:
    names = joined(plain(name) for name in results.views.names)
    types = "type" if results.views.n_views == 1 else "types"
    sizes = joined(map(str, found.shown_sizes))
    return (
        f"{len(results.views)} subjects were grouped into {results.model.n_clusters} clusters of "
        f"{sizes} subjects, based on {results.views.n_views} {types} of data (views): {names}."
    )


def _weights(results: Results) -> str:
    weights = pd.Series(results.model.view_weights_, index=results.model.view_names_)
    if len(weights) == 1:
        return ""
    most, least = str(weights.idxmax()), str(weights.idxmin())
    if np.ptp(weights) < 0.01:
        return f"All views have the same weight ({percent(1 / len(weights))} each)."
    return (
        f"{plain(most)} has the largest weight ({percent(weights[most])}) and {plain(least)} the smallest "
        f"({percent(weights[least])}); equal weights would be {percent(1 / len(weights))} each."
    )


def _agreement(found: Findings) -> str:
    """How far the other views confirm each view, and which views they do not confirm."""
    table = found.agreement.dropna().sort_values("agreement", ascending=False, kind="stable")
    if table.empty:
        return ""
    values = [
        f"{plain(name)} {row.agreement:.2f} ({row.lower:.2f} to {row.upper:.2f})"
        for name, row in table[:MOST_NAMED].iterrows()
    ]
    rest = f", and {len(table) - MOST_NAMED} more" if len(table) > MOST_NAMED else ""
    alone = [plain(name) for name in table.index[table["lower"] < NO_AGREEMENT]]
    verb = "do" if len(alone) > 1 else "does"
    unclear = f" {joined(alone)} {verb} not clearly agree with the other views." if alone else ""
    return (
        "Agreement of each view with the other views, from 0 (chance) to 1 (complete), with 95% interval: "
        f"{', '.join(values)}{rest}.{unclear}"
    )


def _diagnosis(results: Results) -> str:
    scores, column = results.agreement, results.roles.diagnosis
    if scores is None or column is None:
        return ""
    return (
        f"Agreement of the clusters with {plain(column)}: adjusted Rand index {scores['ARI']:.2f}, "
        f"normalised mutual information {scores['NMI']:.2f} (1 is perfect, 0 is none)."
    )


def _differences(found: Findings) -> str:
    table = found.associations
    if table.empty:
        return ""
    differing = table[table["significant"]].sort_values("p", kind="stable")
    if differing.empty:
        return f"None of {_variables(len(table))} differs significantly between the clusters."
    named = [
        f"{plain(row['variable'])} ({_level(row['effect'], STRENGTHS[row['kind']])})"
        for _, row in differing[:MOST_NAMED].iterrows()
    ]
    rest = len(differing) - len(named)
    more = [f"{rest} more"] if rest else []
    return f"The clusters differ in {joined([*named, *more])}; {_variables(len(table))} were compared."


def _variables(n: int) -> str:
    return "1 clinical variable" if n == 1 else f"{n} clinical variables"


def _events(results: Results, found: Findings) -> str:
    columns = results.roles.survival
    if found.conversion is None or columns is None or not np.isfinite(found.conversion.p):
        return ""
    p, event = found.conversion.p, plain(columns[1]).replace("_", " ")
    differs = "differs" if p < 0.05 else "does not differ significantly"
    return (
        f"Among subjects with follow-up, time to {event} {differs} between the clusters (log-rank test, "
        f"{p_text(p)})."
    )


def _stability(results: Results) -> str:
    overall = results.stability.overall
    if not np.isfinite(overall):
        return ""
    return (
        f"When the analysis is repeated on random subsamples, the clusters are {sameness(overall)} "
        f"(agreement {overall:.2f}, where 1 is perfect and 0 is chance)."
    )


def _certainty(results: Results) -> str:
    n = len(results.views)
    ambiguous = int((results.model.memberships_.max(axis=1) < AMBIGUOUS).sum())
    if not ambiguous:
        return "Every subject is clearly assigned to one cluster."
    return (
        f"{counted(ambiguous, n, results.min_cell)} of {n} subjects are ambiguous: their largest "
        f"membership is below {AMBIGUOUS:.0%}."
    )


def _number(results: Results) -> str:
    if results.numbers is None:
        return (
            f"The number of clusters, {results.model.n_clusters}, was specified, not estimated from the data."
        )
    if results.numbers.recommended is None:
        return "No number of clusters is more stable than expected for a single group of subjects."
    return f"The data support {results.numbers.recommended} clusters."
