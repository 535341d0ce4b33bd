"""The section "Who was clustered" of a report: groups, controls placed by the model, and severity."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from viewloom.clinical import Hidden, Known, Shown, shown_counts
from viewloom.clinical.statistics import Precision
from viewloom.study.design import SeverityShare, severity_word
from viewloom.study.report.privacy import plain, shown_sizes
from viewloom.study.report.sentences import counted, joined, percent, sameness
from viewloom.study.report.table_cells import Cell, Table, number, shown, table_of, text

if TYPE_CHECKING:
    from viewloom.study.results import Results


def design_section(results: Results, precision: Mapping[str, Precision]) -> dict[str, Any] | None:
    """Sentences and tables on the design of a study; None for results without it."""
    if results.design is None:
        return None
    shown = replace(results.design.severity, clinical=shown_severity(results.design.severity, precision))
    results = replace(results, design=replace(results.design, severity=shown))
    sentences = [*who(results), *_controls(results), *_with_controls(results), *_severity(results)]
    tables = [*_groups_table(results), *_controls_table(results), *_again_table(results)]
    return {"sentences": sentences, "tables": [*tables, *_severity_table(results)]}


def shown_severity(found: SeverityShare, precision: Mapping[str, Precision]) -> dict[str, float]:
    """Eta squared of the measures of severity; not of those whose mean, or number of values, is hidden."""
    exact = {name for name, known in precision.items() if known.exact and known.counted}
    return {name: value for name, value in found.clinical.items() if name in exact}


def severity_sentence(found: SeverityShare) -> str:
    """How much of the clustering is severity, in words."""
    scores = {name: value for name, value in found.clinical.items() if np.isfinite(value)}
    if not scores and not np.isfinite(found.features):
        return "How much of the clustering is severity is unknown: no score or feature measures it."
    return " ".join([_by_scores(scores), *_by_features(found.features)])


def _by_scores(scores: Mapping[str, float]) -> str:
    """The word follows from scores alone: features may differ for any reason."""
    if not scores:
        return "No clinical score tells how much of the clustering is severity."
    word = severity_word(max(scores.values())).capitalize()
    parts = [f"{percent(value)} of the variance of {plain(name)}" for name, value in scores.items()]
    return f"{word} of the clustering is severity: clusters explain {joined(parts)}."


def _by_features(share: float) -> Iterator[str]:
    if np.isfinite(share):
        yield (
            f"Clusters explain {percent(share)} of the variance of the mean of the features, which is "
            "severity or whatever else most features share."
        )


def _shares(found: SeverityShare) -> Iterator[tuple[str, float]]:
    for name, value in found.clinical.items():
        if np.isfinite(value):
            yield name, value
    if np.isfinite(found.features):
        yield "the mean of the features", found.features


def who(results: Results) -> Iterator[str]:
    """Who was clustered, is reference or is left out, in sentences."""
    groups = results.design.groups if results.design else None
    if groups is None:
        yield f"All {len(results.views)} subjects with data were clustered."
        return
    yield " ".join([f"{len(results.views)} subjects were clustered.", *_others(groups, results.min_cell)])


def _others(groups: pd.DataFrame, min_cell: int) -> Iterator[str]:
    """Subjects who were not clustered, in sentences; none on roles that nobody has."""
    reference, left = (int(groups[role].sum()) for role in ("reference", "left out"))
    if reference:
        yield (
            f"{counted(reference, None, min_cell)} controls are reference: the data are prepared with them, "
            "but they do not form clusters."
        )
    if left:
        yield f"{counted(left, None, min_cell)} subjects are left out by the rules of the study."


def _controls(results: Results) -> Iterator[str]:
    placed = results.design.controls if results.design else None
    if placed is None:
        return
    total = int(placed.sizes.sum())
    if total < results.min_cell:
        yield "The reference controls are too few to show where they fall."
        return
    most = int(placed.sizes.argmax())
    exact = isinstance(shown_sizes(placed.sizes, results.min_cell)[most], Known)
    share = f"{percent(placed.sizes[most] / total)} of them" if exact else "the largest group of them"
    verb = "fall" if exact else "falls"
    far = counted(placed.far, total, results.min_cell)
    yield (
        f"When the model places the {total} reference controls, {share} {verb} into cluster "
        f"{plain(results.cluster_names[most])}. {far} of them are far from the clustered "
        "subjects in at least one view."
    )


def _with_controls(results: Results) -> Iterator[str]:
    again = results.design.with_controls if results.design else None
    if again is None:
        return
    ari = number(again.ari)["text"]
    yield (
        "When the controls are clustered as well, the clusters of the other subjects are "
        f"{sameness(again.ari)} (adjusted Rand index {ari}; 1 is the same, 0 is chance)."
    )


def _severity(results: Results) -> Iterator[str]:
    if results.design is None:
        return
    found = results.design.severity
    if found.removed is not None:
        yield f"Before clustering, {_removed(found, _where(results))}."
    yield severity_sentence(found)


def _removed(found: SeverityShare, where: str) -> str:
    """What was removed, in words."""
    head, _, count = str(found.removed).partition(":")
    if head != "common":
        return f"the linear effect of {plain(found.removed)} was removed from {where}"
    first = f"the first {count} common components" if count else "the first common component"
    if not found.normal:
        return f"{first} {'were' if count else 'was'} removed from {where}"
    usual = "the first" if found.normal == 1 else f"the first {found.normal}"
    return (
        f"common components were removed from {where}: {usual} of the controls (normal variation), and then "
        f"{first} of the clustered subjects"
    )


def _where(results: Results) -> str:
    """The views from which severity is removed, in words."""
    return "every view but genotypes" if results.preparation.plan.genotypes else "every view"


def _groups_table(results: Results) -> list[Table]:
    groups = results.design.groups if results.design else None
    if groups is None:
        return []
    cells = {role: _role_cells(groups[role], results.min_cell) for role in groups.columns}
    rows = [
        [text(plain(name)), *(cells[role][i] for role in groups.columns)]
        for i, name in enumerate(groups.index)
    ]
    columns = [("diagnosis", 0), *((str(role), 1) for role in groups.columns)]
    return [table_of("groups", "Who was clustered, by diagnosis", GROUPS, columns, rows)]


def _role_cells(counts: pd.Series, min_cell: int) -> list[Cell]:
    return [shown(size) for size in role_sizes(counts, min_cell)]


def role_sizes(counts: pd.Series, min_cell: int) -> list[Shown]:
    """The diagnoses of a role. Nobody is shown as 0; the total is known."""
    some = counts.to_numpy() > 0
    listed: list[Shown] = [Known(0)] * len(counts)
    for at, size in zip(np.flatnonzero(some), shown_sizes(counts.to_numpy()[some], min_cell), strict=True):
        listed[at] = size
    return listed


def _controls_table(results: Results) -> list[Table]:
    placed = results.design.controls if results.design else None
    if placed is None or placed.sizes.sum() < results.min_cell:
        return []
    sizes = shown_sizes(placed.sizes, results.min_cell)
    total = placed.sizes.sum()
    rows = [
        [
            text(plain(results.cluster_names[j])),
            shown(size),
            number(np.nan if isinstance(size, Hidden) else placed.sizes[j] / total),
            number(np.nan if placed.sizes[j] < results.min_cell else placed.confidence[j]),
        ]
        for j, size in enumerate(sizes)
    ]
    columns = [("cluster", 0), ("controls", 1), ("share", 1), ("mean confidence", 1)]
    return [table_of("controls", "Reference controls placed by the model", CONTROLS, columns, rows)]


def _again_table(results: Results) -> list[Table]:
    again = results.design.with_controls if results.design else None
    if again is None:
        return []
    k = len(again.controls)
    # the controls are a further row: totals of columns are the sizes of the new clusters
    counts = pd.DataFrame(np.vstack([again.table, again.controls]))
    cells = shown_counts(counts, results.min_cell).to_numpy()
    names = [f"cluster {plain(name)}" for name in results.cluster_names] + ["controls"]
    rows = [[text(name), *map(shown, row)] for name, row in zip(names, cells, strict=True)]
    columns = [("without controls", 0), *((f"with controls: {j + 1}", 1) for j in range(k))]
    return [table_of("with-controls", "Clusters with and without controls", AGAIN, columns, rows)]


def _severity_table(results: Results) -> list[Table]:
    if results.design is None:
        return []
    rows = [[text(plain(name)), number(value)] for name, value in _shares(results.design.severity)]
    columns = [("measure of severity", 0), ("eta squared", 1)]
    return [table_of("severity", "Severity", SEVERITY, columns, rows)] if rows else []


GROUPS = (
    "Reference: controls in whom the preparation is estimated, and who are placed by the model afterwards. "
    "Left out: subjects who take part in nothing."
)
CONTROLS = (
    "Confidence is the difference of the two largest memberships: 0 is ambiguous, 1 is certain. A cluster "
    "that many controls fall into is unlikely to be a subtype of the disease."
)
AGAIN = (
    "Subjects by their cluster in the main analysis (rows) and in a second one that also has the controls "
    "(columns). Clusters are in the order that matches best; subjects off the diagonal change theirs."
)
SEVERITY = (
    "Eta squared is the share of the variance that lies between clusters: half or more of it is called "
    "much, a tenth or more part, less little, by the score of which most is explained. The mean of the "
    "features is that of all features but "
    "genotypes, before severity is removed, each with the sign by which it differs from controls, or else "
    "that of the first common component."
)
