"""Names of views and features, and their lists in messages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

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
