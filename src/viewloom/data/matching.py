"""Rows of several tables matched by their index, or refused.

A default index (0, 1, ...) and things without an index go by position. Once any index says more than that,
all of them are ids: the same ids in another order are put in order, and different ids are an error.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from viewloom.data.frames import is_default
from viewloom.runtime.errors import InputError

Array = np.ndarray
JOIN = (
    "Views.from_frames joins tables on their ids: a sample that is not in a table lacks that view. "
    "Where rows do match by position, drop the index with reset_index(drop=True)."
)
SELECT = "Select and order its rows with .loc[ids], or drop the index where rows match by position."


def row_index(X: Any) -> pd.Index | None:
    """The index of a pandas frame or series; None where rows have no names."""
    return X.index if isinstance(X, (pd.DataFrame, pd.Series)) else None


def match_rows(
    indices: Mapping[str, pd.Index | None], remedy: str = JOIN
) -> tuple[pd.Index | None, dict[str, Array | None]]:
    """The ids that tables share, in the order of the first that has any, and how to bring each to it.

    Parameters
    ----------
    indices : dict of str to Index or None
        By what the table is called in messages; None for rows without names.
    remedy : str
        What to do where ids differ, for the error message.

    Returns
    -------
    ids : Index or None
        None where all rows go by position.
    orders : dict of str to array or None
        Positions of the table's rows in the common order; None where they are in it already.

    Examples
    --------
    >>> ids, orders = match_rows({"a": pd.Index(["p", "q"]), "b": pd.Index(["q", "p"])})
    >>> ids.to_list(), orders["a"], orders["b"].tolist()
    (['p', 'q'], None, [1, 0])
    """
    named = {name: index for name, index in indices.items() if index is not None}
    orders: dict[str, Array | None] = dict.fromkeys(indices)
    if all(map(is_default, named.values())):
        return None, orders
    for name, index in named.items():
        check_ids(index, name)
    first, ids = next(iter(named.items()))
    for name, index in named.items():
        if not index.equals(ids):
            orders[name] = _order(first, ids, name, index, remedy)
    if len(named) < len(indices):
        _check_position(indices, orders, ids)
    return ids, orders


def in_order(X: Any, order: Array | None) -> Any:
    """A frame, series or array with its rows in the given order."""
    if order is None:
        return X
    return X.iloc[order] if isinstance(X, (pd.DataFrame, pd.Series)) else X[order]


def matched_pair(one: Any, other: Any, names: tuple[str, str]) -> tuple[Array, Array]:
    """Two sets of values of the same samples, the second in the order of the first.

    >>> y = pd.Series([1, 2], index=["p", "q"])
    >>> [values.tolist() for values in matched_pair(y, y[::-1], ("y_true", "labels"))]
    [[1, 2], [1, 2]]
    """
    for values, name in zip((one, other), names, strict=True):
        _check_unmasked(values, name)
    indices = [row_index(values) for values in (one, other)]
    _, orders = match_rows(dict(zip(names, indices, strict=True)), SELECT)
    return np.asarray(in_order(one, orders[names[0]])), np.asarray(in_order(other, orders[names[1]]))


def matched_values(values: Any, ids: pd.Index | None, name: str, whose: str = "the views") -> Array:
    """Values of samples (n,) or (n, k), in the order of `ids` where they have an index of their own.

    >>> matched_values(pd.Series([1, 2], index=["q", "p"]), pd.Index(["p", "q"]), "y").tolist()
    [2, 1]
    """
    _check_unmasked(values, name)
    _, orders = match_rows({whose: ids, name: row_index(values)}, SELECT)
    return np.asarray(in_order(values, orders[name]))


def _check_unmasked(values: Any, name: str) -> None:
    count = int(np.ma.getmaskarray(values).sum()) if np.ma.isMaskedArray(values) else 0
    if count:
        raise InputError(f"{name} has {count} masked values; leave these samples out.")


def check_ids(index: pd.Index, name: str) -> None:
    """Refuse an index with missing or duplicate ids."""
    missing = _missing(index)
    if missing:
        raise InputError(f"{name} has {missing} rows without an id.")
    if not index.is_unique:
        count = int(index.duplicated().sum())
        raise InputError(
            f"{name} has {count} rows whose id appeared before; keep one row per subject, or number the rows "
            "with reset_index(drop=True) if the index holds no ids."
        )


def _missing(index: pd.Index) -> int:
    if isinstance(index, pd.MultiIndex):
        return int(index.to_frame(index=False).isna().any(axis=1).sum())
    return int(np.sum(index.isna()))


def _order(first: str, ids: pd.Index, name: str, index: pd.Index, remedy: str) -> Array:
    """Positions in `index` of all ids, which must be the same."""
    same_kind = ids.nlevels == index.nlevels
    order = index.get_indexer(ids) if same_kind else np.full(len(ids), -1)
    shared = int((order >= 0).sum())
    if shared < len(ids) or len(index) > len(ids):
        raise InputError(
            f"{_capital(first)} and {name} have different ids: {len(ids)} and {len(index)}, of which "
            f"{shared} are in both{_reason((first, ids), (name, index))}. {remedy}"
        )
    return np.asarray(order)


def _reason(*tables: tuple[str, pd.Index]) -> str:
    """What may explain that ids differ."""
    counted = [name for name, index in tables if is_default(index)]
    if counted:
        return f" ({counted[0]} has a default index, which only counts its rows)"
    kinds = [index.inferred_type for _, index in tables]
    if kinds[0] != kinds[1]:
        return f" (the ids of {tables[0][0]} are of type {kinds[0]}, those of {tables[1][0]} {kinds[1]})"
    return ""


def _check_position(
    indices: Mapping[str, pd.Index | None], orders: Mapping[str, Array | None], ids: pd.Index
) -> None:
    """Refuse rows without names where it is not clear which order they are in."""
    bare = [name for name, index in indices.items() if index is None]
    moved = [name for name, order in orders.items() if order is not None]
    if moved:
        raise InputError(
            f"{_capital(bare[0])} has no index, and the ids of {moved[0]} are not in the order of the first "
            "table: it is not clear which of them its rows follow. Give it an index, or put all in one order."
        )
    if _is_shuffled_count(ids):
        raise InputError(
            f"{_capital(bare[0])} has no index, and the index of the others is 0 to {len(ids) - 1} in "
            "another order: it is not clear whether its rows match by position or by number. Give it an "
            "index, or drop that of the others with reset_index(drop=True)."
        )


def _is_shuffled_count(ids: pd.Index) -> bool:
    """Whether ids are row numbers 0 to n - 1 that are out of order, as after ``df.sample(frac=1)``."""
    if isinstance(ids, pd.MultiIndex) or ids.dtype.kind not in "iu" or ids.name is not None:
        return False
    return not is_default(ids) and np.array_equal(np.sort(ids), np.arange(len(ids)))


def _capital(name: str) -> str:
    return name[:1].upper() + name[1:] if name.startswith(("view ", "the ")) else name
