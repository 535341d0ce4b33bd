"""Importance of the features of a view for the clusters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp

Array = np.ndarray
BATCH_ROWS, BATCH_VALUES = 20_000, 2**24  # limits for permuted copies that are placed together


def linear_importance(F: Array, names: Array) -> pd.DataFrame:
    """Importance from centroids in feature space, ``F = X^T P`` (d x k): the norms of its rows."""
    return _ranked(names, np.linalg.norm(F, axis=1), F, "F = X^T P")


def permutation_importance(
    memberships: Callable[[Any], Array],
    X: Any,
    names: Array,
    rng: np.random.RandomState,
    n_repeats: int = 1,
) -> pd.DataFrame:
    """Mean change of the memberships (n x k) in a view if one of its features is permuted between samples.

    `importance` is half the sum over clusters (total variation: the share of membership that changes).
    """
    n, d = X.shape
    reference = memberships(X)
    change = np.zeros((d, reference.shape[1]))
    per_batch = max(min(BATCH_ROWS, BATCH_VALUES // d) // n, 1)
    for _ in range(n_repeats):
        for first in range(0, d, per_batch):
            features = range(first, min(first + per_batch, d))
            stacked = _stack([_shuffled(X, j, rng) for j in features])
            moved = memberships(stacked).reshape(len(features), n, -1)
            change[first : first + len(features)] += np.abs(moved - reference).mean(axis=1)
    change /= n_repeats
    return _ranked(names, change.sum(axis=1) / 2.0, change, "permutation")


def _shuffled(X: Any, j: int, rng: np.random.RandomState) -> Any:
    order = rng.permutation(X.shape[0])
    if sp.issparse(X):
        X = X.tolil(copy=True)
        X[:, [j]] = X[:, [j]].tocsr()[order]
        return X.tocsr()
    X = X.copy()
    X[:, j] = X[order, j]
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
