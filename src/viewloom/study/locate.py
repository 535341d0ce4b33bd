"""Where a key stands in a TOML file, and mistakes told with their place."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

Where = tuple[str | int, ...]  # keys from the outside in, such as ("views", "mri", "path")


class Problem(NamedTuple):
    """A mistake and its place."""

    where: Where
    message: str


def told(problems: Iterable[Problem], text: str, path: Path) -> str:
    """Problems as the user sees them, from the top of the file down."""
    numbered = sorted(
        ((line_of(problem.where, text), problem) for problem in problems), key=lambda pair: pair[0]
    )
    lines = (f"{path.name}, line {n}: {'.'.join(map(str, p.where))}: {p.message}" for n, p in numbered)
    return "\n".join(line if line.endswith("?") else f"{line}." for line in lines)


def line_of(where: Where, text: str) -> int:
    r"""The line on which a key is set; where it is absent, that of the block in which it should be.

    `tomllib` tells no positions. But the first lines of a TOML file are themselves TOML wherever a statement
    ends, so a key belongs to the statement after which it first appears.

    Parameters
    ----------
    where : tuple
        Keys from the outside in, and numbers for the entries of arrays.
    text : str
        A valid TOML file.

    Examples
    --------
    >>> line_of(("model", "lam"), "[model]\nkernel = 'linear'\nlam = 3")
    3
    """
    while where:
        for line, data in _statements(text):
            if len(in_data(where, data)) == len(where):
                return line
        where = where[:-1]
    return 1


def in_data(loc: Where, data: Any) -> Where:
    """The part of an error's place that exists in the file; pydantic adds names of alternatives."""
    where: list[str | int] = []
    for part in loc:
        known = data if isinstance(data, dict) else range(len(data)) if isinstance(data, list) else ()
        if part in known:
            where, data = [*where, part], data[part]
    return tuple(where)


@lru_cache(maxsize=1)
def _statements(text: str) -> list[tuple[int, dict[str, Any]]]:
    """The first line of each statement, and all that the file has said after it."""
    lines, start, found = text.split("\n"), 1, []
    for end in range(1, len(lines) + 1):
        try:
            found.append((start, tomllib.loads("\n".join(lines[:end]) + "\n")))
        except tomllib.TOMLDecodeError:
            continue  # in the midst of a statement
        start = end + 1
    return found
