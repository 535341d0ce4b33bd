"""A search for parameters or for the number of clusters: its table, and how to go on with it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from viewloom.data.views import Views
from viewloom.evaluation.selection import ClusterNumber, Selection
from viewloom.evaluation.selection.jobs import fingerprint
from viewloom.runtime.files import sync, writing
from viewloom.runtime.visible import visible
from viewloom.study.errors import StudyError
from viewloom.study.run import tables
from viewloom.study.run.staging import workplace

Found = TypeVar("Found", Selection, ClusterNumber)
COLUMNS = {"stability", "held_out"}  # that the table of any search has


def search(
    find: Callable[..., Found],
    views: Views,
    settings: Any,
    output: str | os.PathLike[str] | None,
    *,
    resume: bool = False,
) -> Found:
    """Search, and write the table that was found.

    Parameters
    ----------
    find : callable
        The search; called with ``checkpoint``, a file for what is finished, or None.
    views : Views
        That it searches with.
    settings : object
        All else that tells one search from another; can be pickled.
    output : path or None
        A CSV file, replaced at the end if it holds the table of an earlier search, and refused if it
        holds anything else. None writes nothing.
    resume : bool, default=False
        Go on where an interrupted search of the same views and settings stopped.

    Returns
    -------
    Selection or ClusterNumber

    Raises
    ------
    StudyError
        If there is something else in the place of the table.
    """
    if output is None:
        return find(checkpoint=None)
    with workplace(output, resume=resume, check=_check_table) as place:
        kept = place.checkpoints / fingerprint(views, settings)
        kept.mkdir(parents=True, exist_ok=True)
        found = find(checkpoint=kept / "searching.json")
        part = place.new / place.target.name
        with writing(place.target):
            place.new.mkdir()
            tables.write_csv(found.table, part)
            sync(part)
            part.replace(place.target)
            sync(place.target.parent)
    return found


def _check_table(path: Path) -> None:
    """Refuse to replace anything but the table of a search."""
    if path.exists() and not (path.is_file() and set(_header(path)) >= COLUMNS):
        raise StudyError(f"{visible(path)}: exists and is not the table of a search; give another --output.")


def _header(path: Path) -> list[str]:
    with path.open("rb") as file:
        return file.readline(2000).decode("utf-8", errors="replace").strip().split(",")
