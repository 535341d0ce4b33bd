"""Text from files as it can be shown: nothing in it moves a cursor, hides a line or turns a direction."""

from __future__ import annotations

from typing import Any


def visible(text: Any, keep: str = "") -> str:
    r"""Text on one line, in which characters that cannot be seen are given by their codes.

    These are those that steer a terminal, those that turn the direction of writing, line breaks, and bytes
    of file names that are no text.

    Parameters
    ----------
    text : object
        Shown as its `str`.
    keep : str
        Characters that are left as they are.

    Examples
    --------
    >>> print(visible("a\x1b[31mb\u202ec\n"), visible("a\n", keep="\n"), end="")
    a\x1b[31mb\u202ec\n a
    """
    return "".join(c if c.isprintable() or c in keep else _code(c) for c in str(text))


def _code(c: str) -> str:
    return c.encode("unicode_escape").decode("ascii")
