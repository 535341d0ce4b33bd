"""Joining of tables on an id."""

from __future__ import annotations

from typing import Any

import pandas as pd

from viewloom.data.frames import is_dask_frame, is_default, is_frame
from viewloom.data.matching import check_ids
from viewloom.data.matrix import as_view_table
from viewloom.data.naming import listed
from viewloom.runtime.errors import InputError, InputTypeError


def indexed_by_id(frame: Any, name: str, on: str | None) -> pd.DataFrame:
    """The table of a view indexed by its id; rows without any value are dropped."""
    if not is_frame(frame) and not is_dask_frame(frame):
        raise InputTypeError(f"View {name!r} must be a DataFrame, got {type(frame).__name__}.")
    indexed = isinstance(frame, pd.DataFrame)
    frame = as_view_table(frame, name)
    if on is not None and on != frame.index.name:
        if on not in frame.columns:
            raise InputError(
                f"View {name!r} has no id column {on!r}; its columns begin with "
                f"{listed(list(frame.columns))}."
            )
        frame = frame.set_index(on)
    elif on is None and not indexed and is_default(frame.index):
        raise InputError(f"View {name!r} has no index; pass the name of the id column as on=.")
    check_ids(frame.index, f"View {name!r}")
    if frame.shape[1]:
        frame = frame[frame.notna().any(axis=1)]
    if frame.empty:
        raise InputError(f"View {name!r} has no values; leave it out.")
    return frame


def check_overlap(indexed: dict[str, pd.DataFrame]) -> None:
    """Raise an error if a table shares no id with any other."""
    if len(indexed) < 2:
        return
    for name, frame in indexed.items():
        others = [other.index for key, other in indexed.items() if key != name]
        if not any(frame.index.isin(other).any() for other in others):
            raise InputError(
                f"View {name!r} shares no id with any other view; "
                "check that the ids are spelled the same way."
            )


def joined_ids(indices: list[pd.Index], how: str) -> pd.Index:
    """Ids in order of first appearance."""
    ids = indices[0]
    for other in indices[1:]:
        ids = ids[ids.isin(other)] if how == "inner" else ids.append(other[~other.isin(ids)])
    return ids
