"""Safe display of text from files: control characters and direction marks are escaped."""

from __future__ import annotations

from typing import Any


def visible(text: Any, keep: str = "") -> str:
    r"""Text on one line, with characters that are not printable replaced by their escape codes.

    Escaped are terminal control characters, marks that change the direction of writing, line breaks, and
    bytes of file names that cannot be decoded.

    Parameters
    ----------
    text : object
        Converted with `str`.
    keep : str
        Characters that are not escaped.

    Examples
    --------
    >>> print(visible("a\x1b[31mb\u202ec\n"), visible("a\n", keep="\n"), end="")
    a\x1b[31mb\u202ec\n a
    """
    return "".join(c if c.isprintable() or c in keep else _code(c) for c in str(text))


def _code(c: str) -> str:
    return c.encode("unicode_escape").decode("ascii")
