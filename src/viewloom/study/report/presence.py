"""Availability of views, without small counts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from viewloom.clinical import Hidden, Known, Shown
from viewloom.clinical.shown import ABOUT
from viewloom.clinical.suppression import SOLUTIONS, span
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
    """Number of subjects who have each view; rounded, or hidden, where combinations of views are rare."""
    counts, n = results.views.present.sum(axis=0), len(results.views)
    if not (patterns_of(results) < results.min_cell).any():
        return [Known(int(count)) for count in counts]
    rough = rough_counts(counts, n, True, results.min_cell)
    if _keeps_patterns_hidden(results, rough):
        return rough
    return [size if isinstance(size, Known) else Hidden("", 0) for size in rough]


def _keeps_patterns_hidden(results: Results, sizes: list[Shown]) -> bool:
    """Whether hidden numbers of combinations of views have enough values for a reader of these sizes."""
    patterns, n = patterns_of(results), len(results.views)
    bounds = np.array([_bounds(count, n) for count in shown_patterns(results)])
    bounds[:, 0] = np.maximum(bounds[:, 0], 1)  # who reads of a combination knows that it occurs
    has = np.array(patterns.index.to_list(), dtype=float).reshape(len(patterns), -1).T
    everyone, all_ = np.array([[n, n]]), np.ones((1, len(patterns)))
    totals = np.vstack([everyone, [_bounds(size, n) for size in sizes]])
    return all(
        span(bounds, np.vstack([all_, has]), totals, at) >= min(SOLUTIONS, span(bounds, all_, everyone, at))
        for at in np.flatnonzero(bounds[:, 0] < bounds[:, 1]).tolist()
    )


def _bounds(count: Shown, n: int) -> tuple[int, int]:
    """The least and the largest number that a shown one may be.

    >>> _bounds(Known(12), 99), _bounds(Hidden("<", 11), 99), _bounds(Hidden(ABOUT, 50), 99)
    ((12, 12), (0, 10), (45, 55))
    """
    if isinstance(count, Known):
        return int(count.value), int(count.value)
    known = {"<": (0, count.bound - 1), ">": (count.bound + 1, n), "≥": (count.bound, n)}
    return {**known, ABOUT: (count.bound - 5, count.bound + 5)}.get(count.sign, (0, n))
