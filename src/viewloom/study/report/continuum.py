"""The continuum in place of clusters: the leading axis of all views, as counts and loadings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np
import pandas as pd

from viewloom.evaluation.continuum import ConsensusAxis, consensus_axis
from viewloom.evaluation.selection.evidence import CLUSTERS
from viewloom.study.report.evidence import judged
from viewloom.study.report.feature_means import common_features
from viewloom.study.report.privacy import plain
from viewloom.study.report.regions import feature_names
from viewloom.study.report.table_cells import Table, number, table_of, text

if TYPE_CHECKING:
    from viewloom.study.results import Results

Array = np.ndarray
STEP, ENDS = 0.5, 3.0  # of the histogram, in standard deviations
MOST_LOADINGS, LEAST_LOADING = 5, 0.2  # of a view
_AXES: WeakKeyDictionary[Results, ConsensusAxis] = WeakKeyDictionary()


def axis_of(results: Results) -> ConsensusAxis | None:
    """The leading axis, where the clusters are not distinct and there are enough subjects for counts."""
    verdict = judged(results)
    if verdict is None or verdict == CLUSTERS or len(results.views) < 2 * results.min_cell:
        return None
    if results not in _AXES:
        _AXES[results] = consensus_axis(results.views, results.model)
    return _AXES[results]


def histogram(positions: Array, min_cell: int) -> pd.DataFrame:
    """Counts between fixed positions, joined from both ends until every count may be shown.

    >>> histogram(np.r_[np.full(20, -0.1), np.full(30, 0.1), 2.9], 11)["count"].tolist()
    [20, 31]
    """
    edges = np.arange(-ENDS, ENDS + STEP / 2, STEP)
    edges[[0, -1]] = -np.inf, np.inf
    counts = np.histogram(positions, edges)[0]
    joined: list[list[float]] = []
    for low, high, count in zip(edges[:-1], edges[1:], counts.tolist(), strict=True):
        if joined and joined[-1][2] < min_cell:
            joined[-1] = [joined[-1][0], high, joined[-1][2] + count]
        else:
            joined.append([low, high, count])
    while len(joined) > 1 and joined[-1][2] < min_cell:
        low, high, count = joined.pop()
        joined[-1] = [joined[-1][0], high, joined[-1][2] + count]
    return pd.DataFrame(joined, columns=["low", "high", "count"]).astype({"count": int})


def continuum_section(results: Results) -> dict[str, Any] | None:
    """Sentences and the table of loadings; None where clusters are distinct."""
    axis = axis_of(results)
    if axis is None:
        return None
    shares = ", ".join(f"{plain(name)} {share:.0%}" for name, share in axis.explained.items())
    return {
        "sentences": [ABOUT, f"Share of the variance of each view along it: {shares}."],
        "tables": [_table(results, axis)],
    }


def _table(results: Results, axis: ConsensusAxis) -> Table:
    rows, views = [], results.views.encoded()
    for name, table in axis.loadings.items():
        a = views.index(name)
        if views.present[:, a].sum() < results.min_cell:
            continue
        common = common_features(views.blocks[a], views.rows(a), results.min_cell)
        named = table["feature"].isin(views.feature_names[name][common])
        far = table[named & (table["loading"].abs() >= LEAST_LOADING)][:MOST_LOADINGS]
        shown = zip(feature_names(far["feature"], 60), far["loading"], strict=True)
        rows += [[text(feature), text(plain(name)), number(value)] for feature, value in shown]
    columns = [("feature", 0), ("view", 0), ("loading", 1)]
    return table_of("loadings", "Features along the continuum", LOADINGS, columns, rows)


ABOUT = (
    "Where clusters are not clearly distinct, positions along a continuum describe subjects without cuts. "
    "The leading axis is the first component that all views share (multiple factor analysis with the view "
    "weights); positions of the subjects are given by viewloom.inspection.consensus_axis."
)
LOADINGS = (
    "Correlation of features with the position along the axis, the largest of each view. Features with "
    f"correlations below {LEAST_LOADING} are left out, and so are those in which few differ from the "
    "usual value."
)
