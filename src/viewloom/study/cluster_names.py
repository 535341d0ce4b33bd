"""Names of clusters for people, and placeholders for them in stored text.

Arrays count clusters from 0; everything that people read has names, which are numbers from 1 unless a study
gives others. The content of a report is stored with a placeholder character in place of each name, so that
clusters can be renamed without parsing text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

LONGEST = 40  # characters of a name
FIRST = 0xF5000  # in a plane for private use, whose characters `visible` escapes in names from files
PLACEHOLDER = re.compile("([\U000f5000-\U000f5fff])")


def default_names(k: int) -> list[str]:
    """Numbers from 1.

    >>> default_names(3)
    ['1', '2', '3']
    """
    return [str(j + 1) for j in range(k)]


def placeholders(k: int) -> list[str]:
    """One character for each cluster, which `resolved` replaces by its name."""
    return [chr(FIRST + j) for j in range(k)]


def resolved(value: Any, names: Sequence[str]) -> Any:
    """Text, or lists and dicts of text, with names instead of placeholders.

    >>> resolved({"a": [f"cluster {placeholders(2)[1]}", 3]}, ["x", "limbic"])
    {'a': ['cluster limbic', 3]}
    """
    if isinstance(value, str):
        return value.translate({FIRST + j: name for j, name in enumerate(names)})
    if isinstance(value, dict):
        return {key: resolved(inner, names) for key, inner in value.items()}
    if isinstance(value, list):
        return [resolved(inner, names) for inner in value]
    return value


def name_problems(names: Sequence[str], k: int) -> Iterator[str]:
    """What is wrong with the names of k clusters.

    >>> list(name_problems(["limbic", "1"], 2))
    ["'1' is the number of another cluster"]
    """
    if len(names) != k:
        yield f"has {len(names)} names for {k} clusters (model.n_clusters)"
    for j, name in enumerate(names):
        if not name.isprintable() or name != name.strip() or "=" in name or not 0 < len(name) <= LONGEST:
            yield (
                f"the name of cluster {j + 1} must be 1 to {LONGEST} printable characters, without = and "
                "without spaces at its ends"
            )
        elif name.isdecimal() and name != str(j + 1):
            yield f"{name!r} is the number of another cluster"
    if len({name.casefold() for name in names}) < len(names):
        yield "two clusters have the same name, ignoring case"
