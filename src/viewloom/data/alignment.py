"""Checks of views before fitting, and alignment of new samples with the views of a fitted model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from viewloom.data.checks import check_size
from viewloom.data.matrix import LARGEST, Block, largest_entry
from viewloom.data.mixed import MixedBlock, check_levels, numbers
from viewloom.data.naming import listed, name_text
from viewloom.data.views import SPLIT_BY_VIEWS, Views, is_multiview, is_numbered, numbered_names
from viewloom.runtime.errors import InputError
from viewloom.runtime.user_warnings import warn_user


def check_trainable(views: Views, n_clusters: int) -> None:
    """Raise an error if `n_clusters` clusters cannot be learned from the data."""
    n = len(views)
    if n < 2:
        raise InputError(f"Clustering needs at least 2 samples, got n_samples={n}.")
    if n_clusters > n:
        raise InputError(f"n_clusters={n_clusters} is more than n_samples={n}.")
    for a, (name, X) in enumerate(views.items()):
        check_observed(views, a, 2)
        rows = views.rows(a)
        X = X if len(rows) == n else X[rows]
        check_size(X, name)
        if isinstance(X, MixedBlock):
            check_levels(X)
        X = numbers(X)
        spread = largest_entry(X.max(axis=0) - X.min(axis=0))
        if not spread:
            raise InputError(
                f"View {name!r} is constant: all its {len(rows)} observed rows are equal. Leave it out."
            )
        if spread < 1.0 / LARGEST:
            raise InputError(
                f"View {name!r} varies by less than {1.0 / LARGEST:g}, which is too little to compute with. "
                "Change its unit, or leave it out if it is constant up to rounding."
            )


def check_observed(views: Views, a: int, least: int) -> None:
    """Raise an error if fewer than `least` samples have a view."""
    count = len(views.rows(a))
    if count < least:
        raise InputError(
            f"View {views.names[a]!r} is observed for {count} of {len(views)} samples; leave it out."
        )


def align(
    data: Any,
    names: Sequence[str],
    features: Mapping[str, np.ndarray],
    *,
    allow_nan: bool = False,
    names_checked: bool = False,
) -> Views:
    """New samples as the views that a model was fitted on, including missing views.

    Views may be missing from a dict or Views, or None in a list. Named features are reordered as in fit.
    """
    given = Views(fitted_parts(data, names), allow_nan=allow_nan)
    if given.names == ["view0"] and len(names) == 1:
        given = Views(given, names=names, allow_nan=allow_nan)
    _check_known(given.names, names)
    if len(given) == 0:
        raise InputError("Found array with 0 sample(s); at least 1 is needed.")
    n = len(given)
    blocks, present = [], np.zeros((n, len(names)), dtype=bool)
    for a, name in enumerate(names):
        if name in given.names:
            at = given.index(name)
            if not allow_nan:  # not to be imputed first
                check_size(given.blocks[at], name)
            blocks.append(_in_order(given.blocks[at], given.feature_names[name], features[name], name))
            present[:, a] = given.present[:, at]
        else:
            blocks.append(sp.csr_array((n, len(features[name]))))
    if not names_checked:
        _warn_of_names(given, features)
    return given.replaced(names=list(names), blocks=blocks, present=present, feature_names=dict(features))


def fitted_parts(data: Any, names: Sequence[str]) -> Any:
    """New samples as a dict by view name, without missing views; Views are returned unchanged."""
    if isinstance(data, Views):
        return data
    if not is_multiview(data):
        if len(names) > 1:
            raise InputError(
                f"One matrix given, but fit saw {len(names)} views: {listed(names)}. "
                "Name the views in a dict."
            )
        return {names[0]: data}
    if not isinstance(data, Mapping):
        if len(data) != len(names):
            raise InputError(
                f"{len(data)} views given, {len(names)} fitted; pass None for a missing view. "
                f"{SPLIT_BY_VIEWS}"
            )
        data = dict(zip(names, data, strict=True))
    _check_known([name_text(name) for name in data], names)
    return {name: X for name, X in data.items() if X is not None}


def _check_known(given: Sequence[str], names: Sequence[str]) -> None:
    unknown = [name for name in given if name not in names]
    if unknown:
        raise InputError(f"Views {unknown} were not seen in fit, which saw {list(names)}.")


def _in_order(X: Block, found: np.ndarray, wanted: np.ndarray, name: str) -> Block:
    """Columns in the order of fit, matched by name, or by position if either side has no names."""
    unnamed = found is numbered_names(name, len(found))  # faster than comparing thousands of names
    if (unnamed and len(found) == len(wanted)) or np.array_equal(found, wanted):
        return X
    if set(found) == set(wanted):
        position = {feature: j for j, feature in enumerate(found)}
        return X[:, [position[feature] for feature in wanted]]
    bare = _is_bare(found, name) or _is_bare(wanted, name)
    if X.shape[1] != len(wanted):
        which = "." if bare else f": {_differing(found, wanted)}."
        raise InputError(f"View {name!r} has {X.shape[1]} features, but fit saw {len(wanted)}{which}")
    if bare:
        return X
    missing = [feature for feature in wanted if feature not in set(found)]
    raise InputError(f"View {name!r} lacks {len(missing)} features seen in fit: {listed(missing)}.")


def _is_bare(features: np.ndarray, name: str) -> bool:
    """Whether features have default names, or 0, 1, ... as in data frames made of arrays."""
    if features is numbered_names(name, len(features)):
        return True  # faster than comparing thousands of names
    if not len(features) or features[-1] not in (f"{name}_{len(features) - 1}", str(len(features) - 1)):
        return False
    counted = [str(j) for j in range(len(features))]
    return is_numbered(features, name) or features.tolist() == counted


def _differing(found: np.ndarray, wanted: np.ndarray) -> str:
    missing = [feature for feature in wanted if feature not in set(found)]
    extra = [feature for feature in found if feature not in set(wanted)]
    parts = [("missing", missing), ("not seen in fit", extra)]
    return "; ".join(f"{what} {listed(features)}" for what, features in parts if features)


def _warn_of_names(given: Views, features: Mapping[str, np.ndarray]) -> None:
    """Warn about views whose features have names either in fit or now, and so are matched by position."""
    warn_by_position(
        [name for name in given.names if _one_sided(given.feature_names[name], features[name], name)]
    )


def unnamed_arrays(features: Mapping[str, np.ndarray]) -> list[str]:
    """Views that `warn_by_position` has to name if all are given as arrays.

    >>> unnamed_arrays({"a": np.array(["age", "sex"]), "b": np.array(["b_0", "b_1"])})
    ['a']
    """
    return [
        name
        for name, wanted in features.items()
        if _one_sided(numbered_names(name, len(wanted)), wanted, name)
    ]


def warn_by_position(names: Sequence[str]) -> None:
    """Warn about views whose features are matched by position, if there are any."""
    if names:
        warn_user(
            f"Features of {len(names)} views have names either in fit or in the new data, not in both: "
            f"{listed(names)}. They are matched by position; pass data frames to match them by name."
        )


def _one_sided(found: np.ndarray, wanted: np.ndarray, name: str) -> bool:
    if _is_bare(found, name) == _is_bare(wanted, name):
        return False
    return wanted[0] not in found.tolist() or set(found) != set(wanted)
