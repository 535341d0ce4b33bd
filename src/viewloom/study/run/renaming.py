"""Rename the clusters of a run, without a new fit."""

from __future__ import annotations

import csv
import json
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from viewloom.models import persistence
from viewloom.runtime.files import PRIVATE, atomic_write, sync, writing
from viewloom.runtime.visible import visible
from viewloom.study.cluster_names import default_names, name_problems
from viewloom.study.errors import StudyError
from viewloom.study.run import tables
from viewloom.study.run.prediction import MODEL, NAMES
from viewloom.study.run.run_folder import LABELS, METRICS, REPORT, SUMMARY, damaged, stored, write_content
from viewloom.study.run.staging import RUN, publish, workplace

FILES = (RUN, LABELS, METRICS, MODEL, SUMMARY, REPORT)


def rename(folder: str | os.PathLike[str], changes: Mapping[str, str]) -> list[str]:
    r"""Rename the clusters of a run in all files of its folder, completely or not at all.

    Report and figures are drawn again from what the folder stores; predictions of the model have the new
    names. Tables that were predicted earlier are not changed.

    Parameters
    ----------
    folder : path
        A run folder.
    changes : dict of str to str
        New names by the number of the cluster, from 1, or by its present name.

    Returns
    -------
    list of str
        All names.

    Raises
    ------
    StudyError
        If there is no such run or cluster, or a name cannot be used. Nothing is changed then.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import pandas as pd
    >>> import viewloom as vl
    >>> from viewloom import runs, study
    >>> folder = Path(tempfile.mkdtemp())
    >>> views, _ = vl.simulate.blobs_views(60, n_views=2, random_state=0)
    >>> for name, X in views.items():
    ...     pd.DataFrame(X).rename_axis("id").add_prefix("x").to_csv(folder / f"{name}.csv")
    >>> text = "[report]\ntwins = 0\n"
    >>> text += "".join(f'[views.{name}]\npath = "{name}.csv"\nid = "id"\n' for name in views.names)
    >>> _ = (folder / "study.toml").write_text(text + '[model]\nkernel = "linear"\n')
    >>> _ = runs.run_study(study.read_study(folder / "study.toml"), folder / "results")
    >>> runs.rename(folder / "results", {"1": "limbic"})
    ['limbic', '2', '3']
    """
    with workplace(folder, resume=True, check=_check_run) as place:
        content = stored(folder)
        with damaged(folder):
            present = [str(name) for name in content["summary"]["cluster_names"]]
            drawings = dict(content["drawings"])
        names = renamed(present, changes)
        with writing(place.target):
            shutil.copytree(place.target, place.new, symlinks=True)
        _rewrite(place.new, {**content["summary"], "cluster_names": names}, drawings, names)
        for path in [*place.new.iterdir(), place.new]:
            sync(path)
        publish(place)
    return names


def renamed(present: Sequence[str], changes: Mapping[str, str]) -> list[str]:
    """The names after some changes.

    >>> renamed(["1", "2"], {"1": "limbic"}), renamed(["limbic", "2"], {"limbic": "1"})
    (['limbic', '2'], ['1', '2'])
    """
    known = {key: j for keys in (present, default_names(len(present))) for j, key in enumerate(keys)}
    names = list(present)
    for key, name in changes.items():
        if key not in known:
            raise StudyError(
                f"there is no cluster {visible(key[:60])!r}; the clusters are "
                f"{', '.join(repr(visible(name)) for name in present)}, or 1 to {len(present)}."
            )
        names[known[key]] = name
    if len({known[key] for key in changes}) < len(changes):
        raise StudyError("a cluster is named twice, by its number and by its name; write it once.")
    problems = list(name_problems(names, len(present)))
    if problems:
        raise StudyError("\n".join(f"{problem}." for problem in problems))
    return names


def _check_run(folder: Path) -> None:
    """Refuse a folder that is not that of a run, or of one without names."""
    content = stored(folder)
    absent = [name for name in FILES if not (folder / name).is_file()]
    if absent:
        raise StudyError(f"{visible(folder)}: not a complete run folder, since it has no {absent[0]}.")
    if "drawings" not in content:
        raise StudyError(
            f"{visible(folder)}: written by an earlier version, which stored no names of clusters; run "
            "`viewloom fit` again."
        )


def _rewrite(folder: Path, summary: dict[str, Any], drawings: dict[str, Any], names: list[str]) -> None:
    """Write the names to all files of a copy of the run folder."""
    with damaged(folder):
        write_content(folder, summary, drawings, (folder / SUMMARY).stat().st_mode & 0o777)
        for name in (METRICS, RUN):
            about = json.loads((folder / name).read_text(encoding="utf-8"))
            tables.write_json({**about, "cluster_names": names}, folder / name)
        _relabel(folder / LABELS, names)
    persistence.change_extra(folder / MODEL, {NAMES: names}, PRIVATE)


def _relabel(path: Path, names: list[str]) -> None:
    """Write the column ``cluster`` of the subjects again, from their labels; all other cells stay."""
    with path.open(encoding="utf-8", newline="") as file:
        header, *rows = csv.reader(file)
    label, cluster = header.index("label"), header.index("cluster")
    for row in rows:
        row[cluster] = tables.inert_text(names[int(row[label])])
    with atomic_write(path, PRIVATE) as part, part.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([header, *rows])
