"""Availability of views, without small counts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

from viewloom.clinical import Known, Shown
from viewloom.study.report.privacy import rough_counts, shown_sizes

if TYPE_CHECKING:
    from viewloom.study.results import Results


def patterns_of(results: Results) -> pd.Series:
    """Number of subjects with each combination of views; the index has one bool per view."""
    present = pd.DataFrame(results.views.present, columns=pd.Index(results.views.names))
    counts = present.value_counts(sort=False)
    order = sorted(counts.index, key=lambda pattern: (-counts[pattern], -sum(pattern), pattern))
    return counts.reindex(pd.MultiIndex.from_tuples(order, names=results.views.names))


def shown_patterns(results: Results) -> list[Shown]:
    """`patterns_of` without small counts."""
    return shown_sizes(patterns_of(results).to_numpy(), results.min_cell)


def complete(results: Results) -> Shown:
    """Number of subjects who have every view, or its bound where it is small."""
    shown = dict(zip(patterns_of(results).index, shown_patterns(results), strict=True))
    return shown.get((True,) * results.views.n_views, Known(0))


def view_sizes(results: Results) -> list[Shown]:
    """Number of subjects who have each view; rounded where some combinations of views are rare."""
    rare = bool((patterns_of(results) < results.min_cell).any())
    return rough_counts(results.views.present.sum(axis=0), len(results.views), rare)
