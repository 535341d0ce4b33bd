"""The comparison of methods as it may leave: their agreement with a diagnosis of which counts are hidden.

The clusters of the model are described beside the diagnosis. Scores of these clusters, and of methods that
find nearly the same ones, have no more digits than hidden counts allow.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from viewloom.clinical.release import DECIMALS, rounded
from viewloom.clinical.statistics import Precision, precision
from viewloom.clinical.suppression import hidden
from viewloom.evaluation.comparison import COLLAPSED, SCORES, Comparison

Array = np.ndarray
NEAR = 0.9  # adjusted Rand index with ours from which scores tell of the clusters of ours
COARSE = ("ARI", "NMI")  # scores that may be shown beside hidden counts


def published_comparison(found: Comparison, known: Precision) -> Comparison:
    """The comparison with the digits of scores that may be shown; NaN where none may.

    Parameters
    ----------
    found : Comparison
    known : Precision
        Of the diagnosis beside the clusters of ours.

    Examples
    --------
    >>> runs = pd.DataFrame({"method": ["ours, linear", "k-means"], "seed": 0, "seconds": 1.0})
    >>> runs = runs.assign(iterations=5, **dict.fromkeys(SCORES, 0.1234))
    >>> shown = published_comparison(Comparison(runs), Precision(agreement=1, exact=False)).runs
    >>> shown["NMI"].tolist(), shown["Acc"].tolist()
    ([0.1, 0.12], [nan, 0.12])
    """
    near = near_ours(found)
    scores = {
        score: [_shown(x, score, name in near, known) for name, x in _pairs(found.runs, score)]
        for score in SCORES
    }
    runs = found.runs.assign(**scores)
    return replace(found, runs=with_rough_sizes(runs) if "largest" in runs else runs)


def with_rough_sizes(table: pd.DataFrame) -> pd.DataFrame:
    """The share of the largest cluster in one decimal: of two clusters, it tells the size of a small one.

    >>> with_rough_sizes(pd.DataFrame({"largest": [0.387, 0.94, 0.96]}))["largest"].tolist()
    [0.4, 0.9, 1.0]
    """
    rough = [1.0 if x >= COLLAPSED else min(rounded(x, 1), 0.9) for x in table["largest"]]
    return table.assign(largest=rough)


def _pairs(runs: pd.DataFrame, score: str) -> list[tuple[str, float]]:
    return list(zip(runs["method"], runs[score], strict=True))


def _shown(value: float, score: str, near: bool, known: Precision) -> float:
    if known.exact or not near:
        return rounded(value, DECIMALS)
    if known.agreement is None or score not in COARSE:
        return float("nan")
    return rounded(value, known.agreement)


def score_decimals(found: Comparison, known: Precision) -> dict[str, int]:
    """Decimals of the scores of each method."""
    near = near_ours(found)
    coarse = DECIMALS if known.exact else known.agreement or 1
    return {name: coarse if name in near else DECIMALS for name in map(str, found.runs["method"])}


def near_ours(found: Comparison) -> set[str]:
    """Methods of ours, and those that find nearly the same clusters."""
    table = found.agreement
    ours = [str(name) for name in found.runs["method"] if str(name).startswith("ours")]
    known = [name for name in dict.fromkeys(ours) if name in table]
    alike = (table[known] >= NEAR).any(axis=1)
    return {*ours, *map(str, table.index[alike])}


def diagnosis_precision(found: Comparison, y: Any, min_cell: int) -> Precision:
    """How precisely scores of ours may be shown, beside tables of the diagnosis that hide small counts."""
    classes = np.asarray(y) if found.rows is None else np.asarray(y)[found.rows]
    tables = [
        pd.crosstab(classes, np.asarray(labels)).to_numpy()
        for name, labels in _pairs(found.runs, "labels")
        if name.startswith("ours") and isinstance(labels, list)
    ]
    distinct = {counts.tobytes(): counts for counts in tables}
    return min((_of_table(counts, min_cell) for counts in distinct.values()), key=_order, default=Precision())


def _of_table(counts: Array, min_cell: int) -> Precision:
    return precision(counts, hidden(counts, min_cell), min_cell, agreement=True)


def _order(known: Precision) -> int:
    """Less for what may be shown less precisely."""
    return DECIMALS if known.exact else known.agreement or 0
