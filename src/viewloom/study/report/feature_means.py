"""Which means of features may be shown: those that describe enough subjects, and tell no small counts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import scipy.sparse as sp

from viewloom.clinical.release import FEW_VALUES, withheld
from viewloom.data.mixed import numbers
from viewloom.study.report.levels import hidden_features

if TYPE_CHECKING:
    from viewloom.study.results import Results

Array = np.ndarray
BATCH_VALUES = 2**22  # of a view that are counted at a time
SOME = 100  # subjects among whom features with many values are recognised


def hidden_means(results: Results, view: str, levels: pd.DataFrame) -> pd.DataFrame:
    """Features x clusters of which no mean may be shown, in the order of importance.

    Few subjects of the cluster have the view, or a value other than the usual one; or the mean would give
    such a mean of another cluster. `levels` are those of `described_levels`.
    """
    a, k = results.views.index(view), results.model.n_clusters
    rows = results.views.rows(a)
    labels = results.model.labels_[rows]
    unusual = _unusual_of(results.views.blocks[a], rows, labels, k)
    sizes = np.bincount(labels, minlength=k)
    sizes = np.where(unusual < results.min_cell, np.minimum(sizes, 1), sizes)
    names = [str(name) for name in results.importance[view]["feature"]]
    found = pd.DataFrame(_withheld(sizes, results.min_cell), index=results.views.feature_names[view])
    found = found.set_axis(found.index.astype(str), axis=0).reindex(names)
    for name, hide in hidden_features(levels, names, k).items():
        found.loc[name] = hide
    return found


def _withheld(sizes: Array, min_cell: int) -> Array:
    """`withheld` of many rows (d x k); equal rows are computed once."""
    kinds, which = np.unique(sizes, axis=0, return_inverse=True)
    return np.array([withheld(row, min_cell) for row in kinds]).reshape(kinds.shape)[which.ravel()]


def _unusual_of(block: Any, rows: Array, labels: Array, k: int) -> Array:
    """`unusual_counts` of all features of a view, some at a time."""
    X = numbers(block)
    X = X.tocsc() if sp.issparse(X) else X
    width = max(BATCH_VALUES // max(len(rows), 1), 1)
    parts = (_dense(X[:, first : first + width])[rows] for first in range(0, X.shape[1], width))
    return np.vstack([unusual_counts(part, labels, k) for part in parts])


def _dense(X: Any) -> Array:
    return np.asarray(X.toarray() if sp.issparse(X) else X)


def unusual_counts(X: Array, labels: Array, k: int) -> Array:
    """Subjects (d x k) of each cluster whose value is not the most frequent one there.

    The mean of a rare variant tells how many carry it, and that of a frequent one how many do not. All
    subjects count for features with more than a few different values, and for constant ones.

    >>> X = np.array([[0, 0.1], [0, 0.2], [1, 0.3], [1, 0.4], [1, 0.5], [1, 0.6], [0, 0.7]])
    >>> unusual_counts(X, np.array([0, 0, 0, 1, 1, 1, 1]), 2).tolist()
    [[1, 1], [3, 4]]
    """
    members = (labels[:, None] == np.arange(k)).astype(np.float32)
    counts = np.tile(members.sum(axis=0), (X.shape[1], 1))  # d x k
    maybe = np.flatnonzero(_may_have_few_values(X))
    part = X[:, maybe]
    largest, level = np.zeros((len(maybe), k)), part.min(axis=0, initial=np.inf)
    for _ in range(FEW_VALUES):
        largest = np.maximum(largest, np.equal(part, level).T.astype(np.float32) @ members)
        level = np.where(np.greater(part, level), part, np.inf).min(axis=0, initial=np.inf)
    few = np.isinf(level) & (largest.sum(axis=1) < len(X))
    counts[maybe[few]] -= largest[few]
    return counts.astype(int)


def _may_have_few_values(X: Array) -> Array:
    """Features (d,) with few different values among the first subjects."""
    some = np.sort(X[:SOME], axis=0)
    return np.asarray((np.diff(some, axis=0) > 0).sum(axis=0) < FEW_VALUES)


def common_features(X: Any, rows: Array, min_cell: int) -> Array:
    """Features (d,) of which enough subjects do not have the most frequent value."""
    return np.asarray(_unusual_of(X, rows, np.zeros(len(rows), dtype=int), 1)[:, 0] >= min_cell)
