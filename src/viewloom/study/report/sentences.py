"""The summary of a report: the findings of a study in sentences."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from viewloom.clinical import Hidden, Known, Shown, p_text
from viewloom.clinical.release import has_p
from viewloom.study.notes import shown_count
from viewloom.study.report.evidence import evidence_sentence, judged
from viewloom.study.report.findings import Findings
from viewloom.study.report.privacy import in_words, plain
from viewloom.study.report.sites import sites_sentence

if TYPE_CHECKING:
    from viewloom.study.results import Results

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
NEARLY_EQUAL = 0.1  # range of view weights, relative to equal ones
NO_AGREEMENT = 0.01  # lower end of the interval of a view that may share nothing with the others
AMBIGUOUS = 0.6  # largest membership below which a subject is ambiguous


def in_short(results: Results, found: Findings) -> list[str]:
    """The findings of a study in a few sentences."""
    return [sentence for _, sentence in sourced(results, found)]


def sourced(results: Results, found: Findings) -> list[tuple[str, str]]:
    """The findings in a few sentences, each with the anchor of the table, figure or section it comes from."""
    sentences = [
        ("c-clusters", _counts(results, found)),
        ("evidence" if judged(results) else "methods", evidence_sentence(results)),
        ("evidence" if judged(results) else "c-clusters", _number(results)),
        ("c-clusters", _stability(results)),
        ("f-certainty", _certainty(results)),
        ("c-diagnosis", _diagnosis(results, found)),
        ("c-associations", _differences(found)),
        ("t-conversion", _events(results, found)),
        ("c-views", _weights(results)),
        ("c-views", _agreement(found)),
        ("tables", sites_sentence(results)),
    ]
    return [(anchor, sentence) for anchor, sentence in sentences if sentence]


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
    return in_words(shown_count(count, total, min_cell)) if count else "None"


def signed(value: float, digits: int = 1) -> str:
    """A number with its sign, and a typographic minus.

    >>> signed(-1.04), signed(0.96)
    ('−1.0', '+1.0')
    """
    return f"{value:+.{digits}f}".replace("-", "\N{MINUS SIGN}")


def _level(value: float, levels: Sequence[tuple[float, str]]) -> str:
    return next(word for bound, word in levels if value >= bound)


def _sizes(sizes: Sequence[Shown], min_cell: int) -> str:
    """The sizes of clusters, and why some are not shown.

    >>> _sizes([Known(50), Known(20)], 11)
    ' of 50 and 20 subjects'
    >>> _sizes([Known(50), Hidden("≥", 11), Hidden("<", 11)], 11)
    ' (50 subjects, and 2 sizes that are not shown, since one is below 11)'
    >>> _sizes([Hidden("≥", 11), Hidden("<", 11), Hidden("<", 11)], 11)
    ' (sizes are not shown, since 2 are below 11)'
    """
    known = [str(size) for size in sizes if isinstance(size, Known)]
    hidden = [size for size in sizes if isinstance(size, Hidden)]
    if not hidden:
        return f" of {joined(known)} subjects"
    small = sum(size.sign == "<" for size in hidden)
    why = f"not shown, since {'one is' if small == 1 else f'{small} are'} below {min_cell}"
    rest = f"{len(hidden)} sizes that are {why}"
    return f" ({joined(known)} subjects, and {rest})" if known else f" (sizes are {why})"


def _counts(results: Results, found: Findings) -> str:
    names = joined(plain(name) for name in results.views.names)
    types = "type" if results.views.n_views == 1 else "types"
    sizes = _sizes(found.shown_sizes, results.min_cell)
    return (
        f"{len(results.views)} subjects were grouped into {results.model.n_clusters} clusters"
        f"{sizes}, based on {results.views.n_views} {types} of data (views): {names}."
    )


def _weights(results: Results) -> str:
    """The views with the largest and the smallest weight, where their intervals part from the others'."""
    weights = pd.Series(results.model.view_weights_, index=results.model.view_names_)
    if len(weights) == 1:
        return ""
    equal = percent(1 / len(weights))
    if np.ptp(weights) < 0.01:
        return f"All views have the same weight ({equal} each)."
    if np.ptp(weights) < NEARLY_EQUAL / len(weights):
        return f"All views have nearly the same weight ({_shares(weights)})."
    if results.uncertainty is None or results.uncertainty.weights.isna().to_numpy().any():
        return f"View weights: {_shares(weights)}; equal weights would be {equal} each."
    known = results.uncertainty.weights
    listed = joined(
        f"{plain(name)} {percent(row.value)} ({percent(row.low)} to {percent(row.high)})"
        for name, row in known.sort_values("value", ascending=False).iterrows()
    )
    most = results.uncertainty.largest_weight()
    conclusion = (
        f"{plain(most)} has the largest weight"
        if most
        else "the intervals overlap, so no view clearly has the largest weight"
    )
    return f"View weights, with 95% intervals: {listed}; {conclusion}. Equal weights would be {equal} each."


def _shares(values: pd.Series) -> str:
    return joined(f"{plain(name)} {percent(value)}" for name, value in values.items())


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


def _diagnosis(results: Results, found: Findings) -> str:
    scores, column = found.scores, results.roles.diagnosis
    if scores is None or column is None:
        return ""
    return (
        f"Agreement of the clusters with {plain(column)}: adjusted Rand index {scores['ARI']:.2g}, "
        f"normalised mutual information {scores['NMI']:.2g} (1 is perfect, 0 is none)."
    )


def _differences(found: Findings) -> str:
    table = found.associations
    if table.empty:
        return ""
    differing = table[table["significant"]].sort_values("p", kind="stable")
    tested = int((table["note"] == "").sum())  # also where p is hidden
    if differing.empty:
        return f"None of {_variables(tested)} differs significantly between the clusters." if tested else ""
    named = [
        f"{plain(row['variable'])}{_strength(row['effect'], row['kind'])}"
        for _, row in differing[:MOST_NAMED].iterrows()
    ]
    rest = len(differing) - len(named)
    more = [f"{rest} more"] if rest else []
    return f"The clusters differ in {joined([*named, *more])}; {_variables(tested)} were compared."


def _strength(effect: float, kind: str) -> str:
    """The size of an effect in brackets; nothing where it is not shown."""
    return "" if np.isnan(effect) else f" ({_level(effect, STRENGTHS[kind])})"


def _variables(n: int) -> str:
    return "1 clinical variable" if n == 1 else f"{n} clinical variables"


def _events(results: Results, found: Findings) -> str:
    columns = results.roles.survival
    if found.conversion is None or columns is None or not has_p(found.conversion.p):
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
        return f"The largest membership of every subject is at least {AMBIGUOUS:.0%}."
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
        return "With no number of clusters do the data show clear clusters."
    return f"The data support {results.numbers.recommended} clusters."
