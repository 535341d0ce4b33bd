"""Levels of the features of views, by cluster, as far as counts of subjects may be told."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from viewloom.clinical import Known, Shown, described
from viewloom.clinical.release import withheld
from viewloom.data.mixed import MixedBlock
from viewloom.study.report.privacy import plain
from viewloom.study.report.table_cells import Cell, Table, number, table_of, text

if TYPE_CHECKING:
    from viewloom.study.results import Results

Array = np.ndarray
MOST_LEVELLED = 100  # features with levels of a view that a report lists


def described_levels(results: Results, view: str) -> pd.DataFrame:
    """Counts of the levels of a view's features in clusters, small ones hidden; empty where all are numbers.

    Of the subjects who have the view, after the preparation. Indexed by feature and level, with one column
    per cluster and ``all``.
    """
    a = results.views.index(view)
    block, rows = results.views.blocks[a], results.views.rows(a)
    if not isinstance(block, MixedBlock) or not len(rows):
        return pd.DataFrame()
    ranked = [str(name) for name in results.importance[view]["feature"]]
    chosen = [name for name in ranked if levels_of(block, name) is not None][:MOST_LEVELLED]
    if not chosen:  # columns with levels may all have been left out
        return pd.DataFrame()
    frame = pd.DataFrame({name: _labels(block, rows, name) for name in chosen})
    labels = results.model.labels_[rows]
    found = described(labels, frame, categorical=chosen, min_cell=results.min_cell)[1:]
    wanted = [*map(str, range(results.model.n_clusters)), "all"]
    return _without_small_clusters(found.reindex(columns=wanted), labels, results)


def _without_small_clusters(table: pd.DataFrame, labels: Array, results: Results) -> pd.DataFrame:
    """The table without clusters in which few subjects have the view."""
    counts = np.bincount(labels, minlength=results.model.n_clusters)
    hide = withheld(counts, results.min_cell)
    return table.drop(columns=[str(j) for j in np.flatnonzero(hide)]).reindex(columns=table.columns)


def levels_of(block: MixedBlock, feature: str) -> tuple[str, ...] | None:
    """Names of the levels of a feature; None for numbers."""
    levels = block.levels[list(block.columns).index(feature)]
    return None if levels is None else levels.names


def _labels(block: MixedBlock, rows: Array, feature: str) -> pd.Series:
    j = list(block.columns).index(feature)
    names = np.array(levels_of(block, feature), dtype=object)
    return pd.Series(names[block.cells[rows, j].astype(int)], dtype=object)


def hidden_features(table: pd.DataFrame, features: list[str], k: int) -> dict[str, Array]:
    """By feature with levels, the clusters (k,) of which no mean may be shown: a count of a level is hidden.

    Features without levels are not included.
    """
    known = set() if table.empty else set(table.index.get_level_values("variable"))
    return {
        name: ~np.array(
            [all(isinstance(cell, Known) for cell in table.loc[name][str(j)]) for j in range(k)], dtype=bool
        )
        for name in features
        if name in known
    }


def levels_table(results: Results, a: int, view: str, table: pd.DataFrame) -> Table:
    """Shares of the levels of a view's features in each cluster, in the order of importance."""
    columns = [("feature", 0), ("level", 0), ("all subjects (%)", 1)]
    columns += [(f"cluster {name} (%)", 1) for name in results.cluster_names]
    order = ["all", *map(str, range(results.model.n_clusters))]
    rows = [
        [text(plain(feature)), text(plain(level, 60)), *(_percent(cell) for cell in cells)]
        for (feature, level), cells in zip(table.index, table[order].to_numpy(), strict=True)
    ]
    return table_of(f"levels-{a}", f"Levels of {plain(view)}", ABOUT, columns, rows)


def _percent(cell: Shown | float) -> Cell:
    share = cell.share if isinstance(cell, Known) else None
    return number(float("nan") if share is None else 100.0 * share, 0)


ABOUT = (
    "Share of the subjects with the view who have a level, in per cent, after missing cells are filled. "
    "Shares of few subjects, and those from which they could be derived, are not shown. Features are in "
    f"the order of importance; at most {MOST_LEVELLED}."
)
