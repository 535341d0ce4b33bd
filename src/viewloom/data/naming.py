"""Names of views and features, and how messages list them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from viewloom.runtime.errors import InputError

MOST_NAMES = 5  # how many names an error message lists before it counts the rest


def listed(names: Sequence[Any]) -> str:
    """A few names in quotes, and how many more there are.

    >>> listed(["a", "b"])
    "'a', 'b'"
    """
    shown = ", ".join(repr(str(name)) for name in names[:MOST_NAMES])
    more = len(names) - MOST_NAMES
    return f"{shown} and {more} more" if more > 0 else shown


def checked_names(names: list[str], n_views: int) -> list[str]:
    """Names of views as text, one for each, without duplicates."""
    names = [name_text(name) for name in names]
    if len(names) != n_views:
        raise InputError(f"{len(names)} names given for {n_views} views.")
    if len(set(names)) != len(names):
        raise InputError(f"Two views have the same name: {names}.")
    return names


def name_text(name: Any) -> str:
    """A name that can be written: lone surrogates, which no file can hold, become escapes."""
    return str(name).encode("utf-8", "backslashreplace").decode("utf-8")


@contextmanager
def naming_view(name: str) -> Iterator[None]:
    """Errors of a transformer, with the view it was working on."""
    try:
        yield
    except (ValueError, TypeError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"View {name!r}: {error}") from error
