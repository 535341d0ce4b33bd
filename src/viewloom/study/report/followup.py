"""Follow-up in a report: who was seen, who keeps the cluster, transitions, and slopes of outcomes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from viewloom.clinical import Hidden, Shown, Slopes, p_text, shown_counts, transitions
from viewloom.clinical.release import P, coarse_p
from viewloom.study.notes import shown_count
from viewloom.study.report.findings import Findings
from viewloom.study.report.privacy import plain, rough_counts
from viewloom.study.report.sentences import joined, percent
from viewloom.study.report.table_cells import Cell, Table, number, p_value, shown, table_of, text

if TYPE_CHECKING:
    from viewloom.study.followup import Followup
    from viewloom.study.results import Results

Array = np.ndarray
ALPHA = 0.05


def followup_sentences(results: Results) -> list[str]:
    """How many subjects keep their cluster at the last visit with enough of them, and what changes."""
    if results.followup is None:
        return []
    return [*_keeping(results)[-1:], *_changes(results)]


def _keeping(results: Results) -> list[str]:
    counts = [(visit, *_kept(_followup(results), visit)) for visit in _followup(results).visits]
    return [
        f"At {plain(visit)}, about {percent(round(kept / seen, 1))} of the subjects seen keep their cluster."
        for visit, seen, kept in counts
        if min(kept, seen - kept) >= results.min_cell
    ]


def followup_tables(results: Results, found: Findings) -> list[Table]:
    """Tables of the follow-up."""
    if results.followup is None:
        return []
    rows = [_visit_row(results, visit) for visit in results.followup.visits]
    columns = [
        ("visit", 0),
        ("seen", 1),
        ("keep their cluster", 1),
        ("same views at baseline", 1),
        ("views", 0),
    ]
    by_visit = table_of("followup", "Follow-up by visit", FOLLOWUP, columns, rows)
    moved = [_transition_table(results, i, visit) for i, visit in enumerate(results.followup.visits)]
    return [by_visit, *moved, *_slope_tables(results)]


def _visit_row(results: Results, visit: str) -> list[Cell]:
    followup = _followup(results)
    seen, kept = _kept(followup, visit)
    again, same = _kept(followup, visit, followup.same_views[visit])
    few = seen < results.min_cell
    return [
        text(plain(visit)),
        shown(shown_count(seen, len(results.views), results.min_cell)),
        text("\N{EN DASH}") if few else shown(_shown_kept(results, visit, kept, seen)),
        text("\N{EN DASH}") if few else shown(shown_count(same, again, results.min_cell)),
        text(joined(plain(name) for name in followup.views[visit])),
    ]


def _kept(followup: Followup, visit: str, start: pd.Series | None = None) -> tuple[int, int]:
    """The number of subjects who were seen at a visit, and of those who are in the cluster of the fit.

    With `start`, the clusters at the visit are replaced by those of the first one for the same views.
    """
    now = followup.labels[visit] if start is None else start
    seen = now.notna()
    return int(seen.sum()), int((now[seen] == followup.labels.iloc[:, 0][seen]).sum())


def _shown_kept(results: Results, visit: str, kept: int, seen: int) -> Shown:
    """The number who keep their cluster; rounded if the table of transitions hides a part of it."""
    diagonal = np.diag(_transitions(results, visit).to_numpy())
    if any(isinstance(cell, Hidden) for cell in diagonal):
        return rough_counts(np.array([kept]), seen, rough=True)[0]
    return shown_count(kept, seen, results.min_cell)


def _transitions(results: Results, visit: str) -> pd.DataFrame:
    """Shown counts of subjects by cluster at the first visit (rows) and at another one."""
    labels = _followup(results).labels
    counts = transitions(labels.iloc[:, 0], labels[visit], clusters=range(results.model.n_clusters))
    return shown_counts(counts, results.min_cell)


def _transition_table(results: Results, i: int, visit: str) -> Table:
    names = [plain(name) for name in results.cluster_names]
    cells = _transitions(results, visit).to_numpy()
    rows = [[text(f"cluster {name}"), *map(shown, row)] for name, row in zip(names, cells, strict=True)]
    columns = [("at baseline", 0), *((f"cluster {name}", 1) for name in names)]
    title = f"Clusters at baseline and at {plain(visit)}"
    return table_of(f"transitions-{i}", title, TRANSITIONS, columns, rows)


def _slope_tables(results: Results) -> list[Table]:
    """One table of the slopes of all outcomes, and one of the tests."""
    found = _followup(results).slopes
    if not found:
        return []
    rows = [row for name, one in found.items() for row in _slope_rows(results, name, one)]
    columns = [
        ("variable", 0), ("cluster", 0), ("subjects", 1), ("change per year", 1), ("from", 1), ("to", 1),
    ]  # fmt: skip
    tests = [
        [text(plain(name)), *_test_cells(results, one), text(_model(one))] for name, one in found.items()
    ]
    heads = [("variable", 0), ("chi-square", 1), ("df", 1), ("p", 1), ("random effects", 0)]
    return [
        table_of("slopes", "Change of clinical variables", SLOPES, columns, rows),
        table_of("slope-tests", "Differences in change between clusters", TESTS, heads, tests),
    ]


def _test_cells(results: Results, one: Slopes) -> list[Cell]:
    """The test of an outcome; no statistic where slopes are hidden, which it would give."""
    statistic = np.nan if _hides_slopes(results, one) else one.statistic
    return [number(statistic), number(one.df, 0), p_value(_shown_p(results, one))]


def _hides_slopes(results: Results, one: Slopes) -> bool:
    return bool((_slope_sizes(results, one) < results.min_cell).any()) and results.min_cell > 1


def _shown_p(results: Results, one: Slopes) -> P:
    """The p-value of an outcome, its class where slopes are hidden."""
    return coarse_p(one.p) if _hides_slopes(results, one) else one.p


def _slope_sizes(results: Results, one: Slopes) -> pd.Series:
    """Subjects of each cluster with a slope."""
    return one.table["subjects"].reindex(range(results.model.n_clusters)).fillna(0).astype(int)


def _slope_rows(results: Results, name: str, one: Slopes) -> list[list[Cell]]:
    """The slopes of an outcome; none of clusters with few subjects."""
    table = one.table.reindex(range(results.model.n_clusters))
    sizes = _slope_sizes(results, one)
    counts = shown_counts(pd.DataFrame([sizes]), results.min_cell).iloc[0]
    few = (sizes < results.min_cell).to_numpy()
    return [
        [
            text(plain(name)),
            text(results.cluster_names[j]),
            shown(counts.iloc[j]),
            *(number(np.nan if few[j] else table[key].iloc[j]) for key in ("slope", "low", "high")),
        ]
        for j in range(len(table))
    ]


def _changes(results: Results) -> list[str]:
    """Outcomes whose change differs between clusters."""
    found = _followup(results).slopes
    clear = {name: _shown_p(results, one) for name, one in found.items() if one.p < ALPHA}
    if not clear:
        return []
    named = joined(f"{plain(name)} ({p_text(p)})" for name, p in clear.items())
    return [f"The change over time differs between the clusters in {named}."]


def _model(one: Slopes) -> str:
    return one.random if one.converged else "did not converge"


def _followup(results: Results) -> Followup:
    assert results.followup is not None
    return results.followup


FOLLOWUP = (
    "Later visits are prepared as the first one, and placed by its model. Seen: subjects with at least one "
    "view at the visit. Same views at baseline: how many of them are placed in their cluster by the data of "
    "the first visit, with only the views that they have at the later one. This is an upper bound of what "
    "can be expected without change, since the model was fitted to these data."
)
TRANSITIONS = (
    "Subjects who were seen at both visits, by their cluster at baseline (rows) and at the later visit "
    "(columns)."
)
SLOPES = (
    "Mean change per year by cluster at baseline, with a 95% interval, from a linear mixed model with "
    "random effects of subjects. Subjects: those with several visits. Clusters with few of them are not "
    "described."
)
TESTS = (
    "Wald test of the interaction of cluster and time: whether the change differs between clusters. Clusters "
    "were formed from the first visit, so that part of a difference may be regression to the mean. Random "
    "effects: intercept and slope of each subject, or the intercept where the larger model did not converge."
)
