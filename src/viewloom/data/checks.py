"""Checks of views, with error messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from viewloom.data.matrix import LARGEST, Block, largest_entry
from viewloom.data.mixed import MixedBlock, numbers
from viewloom.data.naming import listed
from viewloom.runtime.errors import InputError, InputTypeError

FILL = "Impute them, for example with viewloom.PerView(sklearn.impute.SimpleImputer())"
FILL_MIXED = (
    "Fill numbers with a mean or median, and categories with a level, such as "
    "frame[column].cat.add_categories('missing').fillna('missing')"
)


def check_lengths(blocks: list[Block], names: list[str]) -> None:
    """Raise an error if views have different numbers of rows."""
    lengths = [X.shape[0] for X in blocks]
    if len(set(lengths)) > 1:
        found = ", ".join(f"{name!r} has {n}" for name, n in zip(names, lengths, strict=True))
        raise InputError(
            f"Views must have one row per sample, in the same order: {found}. "
            "Views.from_frames joins tables on an id."
        )


def check_values(X: Block, present: np.ndarray, name: str, features: np.ndarray, allow_nan: bool) -> None:
    """Raise an error for infinite values, and for NaN in observed rows unless `allow_nan`."""
    values = X.data if sp.issparse(X) else numbers(X)
    if np.isfinite(values).all():
        return
    infinite = int(np.isinf(values).sum())
    if infinite:
        raise InputError(f"View {name!r} contains {infinite} infinite values (inf); remove them.")
    count, columns = _stray_nan(X, present)
    if count and not allow_nan:
        raise InputError(
            f"View {name!r} contains NaN in {count} observed rows, in features "
            f"{listed(features[columns])}. {FILL_MIXED if isinstance(X, MixedBlock) else FILL}, or set the "
            "entire row to NaN if the sample does not have this view."
        )


def _stray_nan(X: Block, present: np.ndarray) -> tuple[int, np.ndarray]:
    """Number of observed rows with NaN, and the columns with NaN."""
    if sp.issparse(X):
        entries = X.tocoo()
        stray = np.isnan(entries.data)
        return len(np.unique(entries.row[stray])), np.unique(entries.col[stray])
    missing = np.isnan(numbers(X)) & present[:, None]
    return int(missing.any(axis=1).sum()), np.flatnonzero(missing.any(axis=0))


def check_size(X: Block, name: str) -> None:
    """Raise an error for values whose products would overflow."""
    if largest_entry(X) > LARGEST:
        count = int(np.count_nonzero(np.abs(X.data if sp.issparse(X) else numbers(X)) > LARGEST))
        raise InputError(
            f"View {name!r} contains {count} values beyond {LARGEST:g}, whose products overflow. "
            "Set codes for missing values to NaN, or change its unit."
        )


def check_no_empty_samples(present: np.ndarray) -> None:
    """Raise an error for samples without any view."""
    empty = int((~present.any(axis=1)).sum())
    if empty:
        raise InputError(f"{empty} samples have no view at all (every row is NaN); leave them out.")


def per_view(value: Any, names: Sequence[str], what: str) -> list[Any]:
    """Values of a parameter for each view, from one value, a list, or a dict by view name.

    >>> per_view({"a": 1.0, "b": 2.0}, ["a", "b"], "lam")
    [1.0, 2.0]
    """
    if isinstance(value, Mapping):
        unknown = [key for key in value if key not in names]
        absent = [name for name in names if name not in value]
        if unknown or absent:
            raise InputError(f"{what} must have one entry per view: missing {absent}, unknown {unknown}.")
        return [value[name] for name in names]
    if isinstance(value, (list, tuple, np.ndarray)):
        if len(value) != len(names):
            raise InputError(f"{what} has {len(value)} entries for {len(names)} views.")
        return list(value)
    return [value] * len(names)


def view_position(view: Any, names: Sequence[str]) -> int:
    """Position of a view given by name or position.

    >>> view_position("pet", ["mri", "pet"]), view_position(-1, ["mri", "pet"])
    (1, 1)
    """
    if isinstance(view, str):
        if view not in names:
            raise InputError(f"No view is called {view!r}; there are {listed(names)}.")
        return list(names).index(view)
    if isinstance(view, bool) or not isinstance(view, (int, np.integer)):
        raise InputTypeError(f"view must be the name or the position of a view, got {type(view).__name__}.")
    if not -len(names) <= view < len(names):
        raise InputError(f"There is no view at position {view}; there are {len(names)}, counted from 0.")
    return int(view) % len(names)


def components(present: np.ndarray) -> np.ndarray:
    """Connected components (v,) of views, where samples with several views link them.

    >>> components(np.array([[True, True, False], [False, False, True]])).tolist()
    [0, 0, 1]
    """
    seen = sp.csr_array(present.astype(np.float64))
    return np.asarray(connected_components(seen.T @ seen, directed=False)[1])
