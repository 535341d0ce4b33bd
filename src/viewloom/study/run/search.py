"""A search for parameters or for the number of clusters, with its table and checkpoints."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import pandas as pd

from viewloom.clinical.release import DECIMALS, released_frame
from viewloom.data.views import Views
from viewloom.evaluation.selection import ClusterNumber, Selection
from viewloom.evaluation.selection.jobs import fingerprint
from viewloom.runtime.files import sync, writing
from viewloom.runtime.visible import visible
from viewloom.study.errors import StudyError
from viewloom.study.run import tables
from viewloom.study.run.staging import workplace

Found = TypeVar("Found", Selection, ClusterNumber)
COLUMNS = {"stability", "held_out"}  # of the table of every search


def search(
    find: Callable[..., Found],
    views: Views,
    settings: Any,
    output: str | os.PathLike[str] | None,
    *,
    resume: bool = False,
) -> Found:
    """Search, and write the table of results.

    Parameters
    ----------
    find : callable
        The search; called with ``checkpoint``, a file for finished results, or None.
    views : Views
        The views that are searched.
    settings : object
        Other settings that identify the search; can be pickled.
    output : path or None
        CSV file. The table of an earlier search is replaced at the end; other files are refused. If None,
        nothing is written.
    resume : bool, default=False
        Resume an interrupted search with the same views and settings.

    Returns
    -------
    Selection or ClusterNumber

    Raises
    ------
    StudyError
        If the file exists and is not the table of a search.
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
            tables.write_csv(shared_table(found.table), part)
            sync(part)
            part.replace(place.target)
            sync(place.target.parent)
    return found


def shared_table(table: pd.DataFrame) -> pd.DataFrame:
    """The table of a search as it may be shared: three digits, and two decimals of scores with classes.

    >>> shared_table(pd.DataFrame({"stability": [0.87654], "reported_NMI": [0.04567]})).to_numpy().tolist()
    [[0.877, 0.05]]
    """
    scores = {str(name): table[name].round(DECIMALS) for name in table if str(name).startswith("reported_")}
    return released_frame(table).assign(**scores)


def _check_table(path: Path) -> None:
    """Refuse to replace anything but the table of a search."""
    if path.exists() and not (path.is_file() and set(_header(path)) >= COLUMNS):
        raise StudyError(f"{visible(path)}: exists and is not the table of a search; set another --output.")


def _header(path: Path) -> list[str]:
    with path.open("rb") as file:
        return file.readline(2000).decode("utf-8", errors="replace").strip().split(",")
