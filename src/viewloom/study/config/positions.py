"""Line numbers of keys in a TOML file, and errors with their line."""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

Where = tuple[str | int, ...]  # keys from the outside in, such as ("views", "mri", "path")
TOKEN = re.compile(  # strings of four kinds, comments, brackets and line ends
    r'"""(?:\\.|[^\\])*?"""+|\'{3}.*?\'{3,}|"(?:\\.|[^"\\\n])*"|\'[^\'\n]*\'|#[^\n]*|[\[\]{}\n]', re.DOTALL
)


class Problem(NamedTuple):
    """An error and the key that it is about."""

    where: Where
    message: str


def messages(problems: Iterable[Problem], text: str, path: Path) -> str:
    """Errors as text, in the order of the file."""
    numbered = sorted(
        ((line_of(problem.where, text), problem) for problem in problems), key=lambda pair: pair[0]
    )
    lines = (f"{path.name}, line {n}: {'.'.join(map(str, p.where))}: {p.message}" for n, p in numbered)
    return "\n".join(line if line.endswith("?") else f"{line}." for line in lines)


def line_of(where: Where, text: str) -> int:
    r"""The line on which a key is set; where it is absent, that of the block in which it should be.

    `tomllib` reports no positions. Since each statement of a TOML file is itself TOML, a key belongs to the
    first statement in which it occurs.

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
    """The part of the location of an error that exists in the file; pydantic adds names of alternatives."""
    where: list[str | int] = []
    for part in loc:
        known = data if isinstance(data, dict) else range(len(data)) if isinstance(data, list) else ()
        if part in known:
            where, data = [*where, part], data[part]
    return tuple(where)


@lru_cache(maxsize=1)
def _statements(text: str) -> list[tuple[int, dict[str, Any]]]:
    """The first line of each statement, and its content below its header."""
    header, found, seen = "", [], Counter[str]()
    for line, statement in _cut(text):
        is_header = statement.startswith("[")
        header = statement if is_header else header
        seen[header] += is_header
        content = tomllib.loads(statement if is_header else f"{header}\n{statement}")
        found.append((line, _numbered(content, seen[header] - 1) if header.startswith("[[") else content))
    return found


def _numbered(content: dict[str, Any], number: int) -> dict[str, Any]:
    """The content below ``[[key]]`` as the entry with this number."""
    [(key, inner)] = content.items()
    return {key: {number: inner[0]} if isinstance(inner, list) else _numbered(inner, number)}


def _cut(text: str) -> Iterator[tuple[int, str]]:
    """Statements with their first lines; a statement ends with the line, unless a bracket or text is open."""
    begin, line, depth = 0, 1, 0
    for token in TOKEN.finditer(f"{text}\n"):
        mark = token[0]
        depth += (mark in "[{") - (mark in "]}")
        if mark != "\n" or depth:
            continue
        piece = text[begin : token.start()]
        statement = piece.strip()
        if statement and not statement.startswith("#"):
            yield line, f"{statement}\n"
        begin, line = token.end(), line + piece.count("\n") + 1
