"""Names of views and features, and their lists in messages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from viewloom.runtime.errors import InputError

MOST_NAMES = 5  # number of names that an error message lists


def listed(names: Sequence[Any]) -> str:
    """The first names in quotes, and the number of further names.

    >>> listed(["a", "b"])
    "'a', 'b'"
    """
    shown = ", ".join(repr(str(name)) for name in names[:MOST_NAMES])
    more = len(names) - MOST_NAMES
    return f"{shown} and {more} more" if more > 0 else shown


def checked_names(names: list[str], n_views: int) -> list[str]:
    """Names of views as text; raise an error for duplicates or a wrong number of names."""
    names = [name_text(name) for name in names]
    if len(names) != n_views:
        raise InputError(f"{len(names)} names given for {n_views} views.")
    if len(set(names)) != len(names):
        raise InputError(f"Two views have the same name: {names}.")
    return names


def name_text(name: Any) -> str:
    """A name that can be written to files: lone surrogates are escaped."""
    return str(name).encode("utf-8", "backslashreplace").decode("utf-8")


@contextmanager
def naming_view(name: str) -> Iterator[None]:
    """Add the name of the view to errors of a transformer."""
    try:
        yield
    except (ValueError, TypeError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"View {name!r}: {error}") from error


def cluster_names(labels: Sequence[Any], names: Sequence[Any] | Mapping[Any, Any] | None = None) -> list[str]:
    """Names of clusters for people.

    Parameters
    ----------
    labels : sequence
        Distinct labels. Integers count clusters from 0, as in ``labels_``.
    names : sequence or mapping, optional
        The name of each cluster, by its label. By default integers are shown as numbers from 1, and other
        labels as they are.

    >>> cluster_names([0, 2]), cluster_names(["AD"]), cluster_names([0, 2], ["a", "b", "c"])
    (['1', '3'], ['AD'], ['a', 'c'])
    """
    if names is None:
        return [str(label + 1) if _is_position(label) else str(label) for label in labels]
    try:
        return [str(names[label]) for label in labels]
    except (IndexError, KeyError, TypeError):
        raise InputError(f"names has no name for some of the {len(labels)} clusters.") from None


def _is_position(label: Any) -> bool:
    return isinstance(label, (int, np.integer)) and not isinstance(label, bool) and int(label) >= 0
