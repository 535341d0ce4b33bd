"""The analysis of a study: read, prepare, fit, explain, try again on subsamples, compare.

Its expensive parts are stages. Each leaves what it found in a file, if it is given a folder for them, so that
an interrupted analysis goes on where it was. Everything computes with one thread per process: the same inputs
and seed give the same numbers, however many processes there are.
"""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import Any

import pandas as pd

from viewloom.evaluation.selection.jobs import fingerprint
from viewloom.models import persistence
from viewloom.models.kernel_nmf import KernelMultiviewNMF
from viewloom.runtime.files import PRIVATE
from viewloom.runtime.progress import progress_bar
from viewloom.runtime.threads import one_thread
from viewloom.study.check import Prepared, examine
from viewloom.study.config.toml import Study
from viewloom.study.errors import StudyError
from viewloom.study.notes import Note
from viewloom.study.results import Results, Roles, versions
from viewloom.study.run.computations import Stages, compared, importance, number, stability


def prepare(study: Study) -> Prepared:
    """Read a study and prepare its views.

    Parameters
    ----------
    study : Study

    Returns
    -------
    Prepared

    Raises
    ------
    StudyError
        With one line per problem: those that `viewloom.study.check` shows.
    """
    found, ready = examine(study)
    if ready is None:
        raise StudyError("\n".join(found.problems))
    return ready


def analyse(
    study: Study,
    *,
    compare: bool = False,
    choose_k: bool = False,
    seeds: int = 3,
    n_jobs: int = 1,
    progress: bool = False,
    checkpoints: str | os.PathLike[str] | None = None,
) -> Results:
    """Read, prepare and cluster a study, and find out what the clusters rest on.

    Parameters
    ----------
    study : Study
    compare : bool, default=False
        Run other methods, too, and score all against the diagnosis.
    choose_k : bool, default=False
        Find out how many clusters there seem to be.
    seeds : int, default=3
        Of each method, where methods are compared.
    n_jobs : int, default=1
        Fits that run side by side; results do not depend on it.
    progress : bool, default=False
        Show progress bars.
    checkpoints : path, optional
        A folder in which finished parts are kept, and found again.

    Returns
    -------
    Results
    """
    with progress_bar("Reading files", 1, progress):
        ready = prepare(study)
    if compare:
        _check_classes(ready.classes)
    settings = settings_of(study)
    key = fingerprint(ready.views, settings, ready.data.inputs, versions())
    stages = Stages(_folder(checkpoints, key), key, n_jobs, progress)
    model, warned = _fitted(ready, stages)
    return Results(
        name=study.name,
        model=model,
        views=ready.views,
        preparation=ready.preparation,
        participants=ready.data.participants,
        roles=Roles.of(study),
        importance=importance(model, ready.views, stages),
        stability=stability(model, ready.views, stages),
        comparison=compared(ready.views, ready.classes, seeds, stages) if compare else None,
        numbers=number(model, ready.views, stages) if choose_k else None,
        check=ready.check,
        notes=[*ready.check.notes, *(Note((text,)) for text in warned)],
        settings=settings,
        versions=versions(),
        seed=study.model.seed,
        inputs=ready.data.inputs,
        min_cell=study.report.min_cell,
    )


def settings_of(study: Study) -> dict[str, Any]:
    """All settings of a study as JSON can hold them; paths are relative to the study file."""
    folder = study.path.parent

    def relative(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: relative(inner) for name, inner in value.items()}
        if isinstance(value, list):
            return [relative(inner) for inner in value]
        return Path(os.path.relpath(value, folder)).as_posix() if isinstance(value, Path) else value

    return dict(relative(study.model_dump(exclude_none=True)))


def _folder(checkpoints: str | os.PathLike[str] | None, key: str) -> Path | None:
    """Where the stages of this very analysis are kept."""
    if checkpoints is None:
        return None
    folder = Path(checkpoints) / key
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _check_classes(classes: pd.Series) -> None:
    if classes.nunique() < 2:
        raise StudyError(
            f"study.toml: comparing methods needs two diagnoses or more, and there are {classes.nunique()}; "
            "name the column under diagnosis of [participants], or leave the comparison out."
        )


def _fitted(ready: Prepared, stages: Stages) -> tuple[KernelMultiviewNMF, list[str]]:
    """The model, and what it warned of."""
    if stages.folder is None:
        return _fit(ready)
    path = stages.folder / "model.safetensors"
    if not path.exists():
        model, warned = _fit(ready)
        persistence.save(model, path, extra={"warned": warned}, mode=PRIVATE)
    model, extra, _ = persistence.load_with(path)  # resumed or not, the same arrays in memory
    return model, extra["warned"]


def _fit(ready: Prepared) -> tuple[KernelMultiviewNMF, list[str]]:
    with warnings.catch_warnings(record=True) as caught, one_thread():
        warnings.simplefilter("always")
        model = KernelMultiviewNMF(**ready.study.model.settings).fit(ready.views)
    return model, [str(warning.message) for warning in caught if _is_ours(warning)]


def _is_ours(warning: Any) -> bool:
    return issubclass(warning.category, UserWarning)
