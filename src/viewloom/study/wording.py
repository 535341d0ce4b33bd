"""Formatting of names and counts in errors and notes."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches

CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")  # not allowed in names of files


def nearest(name: object, known: Iterable[object], cutoff: float = 0.6) -> str:
    """A hint at the known name that is most similar to `name`, ignoring case, or an empty text.

    >>> nearest("colums", ["columns", "path"])
    "; did you mean 'columns'?"
    """
    folded = {str(other).casefold(): str(other) for other in known}
    found = get_close_matches(str(name).casefold(), folded, 1, cutoff)
    return f"; did you mean {folded[found[0]]!r}?" if found else ""


def folded(name: object) -> str:
    """A name without case, spaces and punctuation.

    >>> folded("DX_bl") == folded("dx.bl "), folded("Session_ID ")
    (True, 'sessionid')
    """
    return "".join(letter for letter in str(name).casefold() if letter.isalnum())


def quoted(names: Iterable[object]) -> str:
    """Names in quotes, separated by commas.

    >>> quoted(["a", 1])
    "'a', '1'"
    """
    return ", ".join(repr(str(name)) for name in names)


def counted(n: int, one: str, many: str | None = None) -> str:
    """A count with its noun in singular or plural.

    >>> counted(1, "row"), counted(3, "row"), counted(0, "directory", "directories")
    ('1 row', '3 rows', '0 directories')
    """
    return f"{n} {one if n == 1 else many or f'{one}s'}"
