"""Importance of the features of a view for the clusters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp

from viewloom.data.mixed_encoding import MixedEncoder
from viewloom.models.column_updates import BATCH_ROWS as UPDATED_ROWS
from viewloom.models.column_updates import ColumnUpdates
from viewloom.runtime.progress import stage

Array = np.ndarray
BATCH_ROWS, BATCH_VALUES = 20_000, 2**24  # limits for permuted copies that are placed together


def linear_importance(F: Array, names: Array) -> pd.DataFrame:
    """Importance from centroids in feature space, ``F = X^T P`` (d x k): the norms of its rows."""
    return _ranked(names, np.linalg.norm(F, axis=1), F, "F = X^T P")


def mixed_linear_importance(F: Array, encoder: MixedEncoder) -> pd.DataFrame:
    """`linear_importance` of original columns: the rows of the dummies of a nominal column are combined.

    Entries of nominal columns are lengths, and so not negative; ``attrs["levels"]`` has those of each level.
    """
    parts = [F[group] for group in encoder.groups]
    nominal = [len(levels) > 0 for levels in encoder.level_names]
    rows = [
        np.linalg.norm(part, axis=0) if one else part[0] for part, one in zip(parts, nominal, strict=True)
    ]
    frame = linear_importance(np.array(rows), np.asarray(encoder.columns, dtype=object))
    named = zip(encoder.columns, encoder.level_names, parts, strict=True)
    frame.attrs["levels"] = {column: _by_level(levels, part) for column, levels, part in named if levels}
    return frame


def permutation_importance(
    memberships: Callable[[Any], Array],
    X: Any,
    names: Array,
    rng: np.random.RandomState,
    n_repeats: int = 1,
    groups: Sequence[slice] | None = None,
    updates: ColumnUpdates | None = None,
) -> pd.DataFrame:
    """Mean change of the memberships (n x k) in a view if one of its features is permuted between samples.

    `importance` is half the sum over clusters (total variation: the share of membership that changes).
    `groups` are the columns of X that are permuted together as one feature; by default each is one.
    `updates`, if the model has them, permute single columns faster.
    """
    n, width = X.shape
    groups = [slice(j, j + 1) for j in range(width)] if groups is None else groups
    reference, d = memberships(X), len(groups)
    change = np.zeros((d, reference.shape[1]))
    rows = min(BATCH_ROWS, BATCH_VALUES // width) if updates is None else UPDATED_ROWS
    per_batch = max(rows // n, 1)
    with stage("Importance", n_repeats * d) as advance:
        for first in list(range(0, d, per_batch)) * n_repeats:
            features = groups[first : first + per_batch]
            orders = [rng.permutation(n) for _ in features]
            if updates is None:
                stacked = _stack([_shuffled(X, *pair) for pair in zip(features, orders, strict=True)])
                moved = memberships(stacked).reshape(len(features), n, -1)
            else:
                moved = updates.memberships([group.start for group in features], orders, reference)
            change[first : first + len(features)] += np.abs(moved - reference).mean(axis=1)
            advance(len(features))
    change /= n_repeats
    return _ranked(names, change.sum(axis=1) / 2.0, change, "permutation")


def mixed_levels(memberships: Array, X: Any, encoder: MixedEncoder) -> dict[str, dict[str, list[float]]]:
    """Share of the samples of each level in each cluster, by nominal column; shares of a level sum to one.

    `X` are the encoded samples (n x width), `memberships` theirs (n x k). Levels without samples have no row.
    """
    found = {}
    for column, levels, group in zip(encoder.columns, encoder.level_names, encoder.groups, strict=True):
        if levels:
            dummies = X[:, group].toarray() if sp.issparse(X) else X[:, group]
            level = dummies.argmax(axis=1)
            present = [j for j in range(len(levels)) if (level == j).any()]
            shares = np.array([memberships[level == j].mean(axis=0) for j in present])
            found[column] = _by_level([levels[j] for j in present], shares)
    return found


def _by_level(levels: Sequence[str], rows: Array) -> dict[str, list[float]]:
    return {level: row.tolist() for level, row in zip(levels, rows, strict=True)}


def _shuffled(X: Any, group: slice, order: Array) -> Any:
    if sp.issparse(X):
        X = X.tolil(copy=True)
        X[:, group] = X[:, group].tocsr()[order]
        return X.tocsr()
    X = X.copy()
    X[:, group] = X[order, group]
    return X


def _stack(copies: list[Any]) -> Any:
    return sp.vstack(copies, format="csr") if sp.issparse(copies[0]) else np.vstack(copies)


def _ranked(names: Array, importance: Array, per_cluster: Array, method: str) -> pd.DataFrame:
    frame = pd.DataFrame({"feature": names, "importance": importance})
    for j in range(per_cluster.shape[1]):
        frame[f"cluster_{j}"] = per_cluster[:, j]
    frame = frame.sort_values("importance", ascending=False, kind="stable", ignore_index=True)
    frame.attrs["method"] = method
    return frame
