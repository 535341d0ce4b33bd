"""The analysis of a study: read, prepare, fit, rank features, refit on subsamples, compare.

Expensive parts are stages, whose results are stored in checkpoints, so that an interrupted analysis can be
resumed. Each process uses one thread: the same inputs and seed give the same numbers, whatever the number of
processes.
"""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from viewloom.evaluation.selection.jobs import fingerprint
from viewloom.models import persistence
from viewloom.models.kernel_nmf import KernelMultiviewNMF
from viewloom.runtime.files import PRIVATE
from viewloom.runtime.memory import return_freed_memory
from viewloom.runtime.progress import announce, progress_bar, showing_parts, tell
from viewloom.runtime.threads import one_thread
from viewloom.study.check import Prepared, examine
from viewloom.study.compute import jobs_within, machines, model_settings
from viewloom.study.config.toml import Study
from viewloom.study.errors import StudyError
from viewloom.study.followup import follow
from viewloom.study.left_out import LeftOutSites, site_labels
from viewloom.study.notes import Note
from viewloom.study.ordering import ordered
from viewloom.study.results import Results, Roles, versions
from viewloom.study.run.computations import (
    Stages,
    compared,
    evidence,
    feature_q,
    importance,
    number,
    stability,
)
from viewloom.study.run.design import design
from viewloom.study.run.held_out import held_out_tests
from viewloom.study.run.sampled import MOST_ASSESSED, Assessed
from viewloom.study.run.sites import left_out_sites
from viewloom.study.run.solutions import varied_settings

HALVES = "Testing other halves"
SHARES = {  # of the time, in percent of an analysis of the simulated cohort without the optional stages
    "Reading files": 2.0,
    "Fitting the model": 2.0,
    "Leaving out sites": 20.0,
    "Ranking features": 17.0,
    "Refitting on subsamples": 18.0,
    "Clustering with controls": 2.0,
    "Leaving out views": 3.0,
    "Leaving out variables": 1.0,
    HALVES: 1.0,  # each
    "Comparing with twins": 25.0,
    "Testing features": 2.0,
    "Comparing methods": 100.0,
    "Varying settings": 40.0,
    "Counting clusters": 100.0,
    "Writing results": 30.0,
}


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
        With one line per problem, as shown by `viewloom.study.check`.
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
    """Read, prepare and cluster a study, and assess the clusters.

    Parameters
    ----------
    study : Study
    compare : bool, default=False
        Also run other methods and settings, and compare their clusters with each other and the diagnosis.
    choose_k : bool, default=False
        Estimate the number of clusters.
    seeds : int, default=3
        Number of seeds of each method in the comparison.
    n_jobs : int, default=1
        Number of parallel fits; the results do not depend on it.
    progress : bool, default=False
        Show progress bars.
    checkpoints : path, optional
        Folder for the results of finished stages.

    Returns
    -------
    Results
    """
    announce(planned(study, compare=compare, choose_k=choose_k))
    with progress_bar("Reading files", 0, progress):
        ready = prepare(study)
    if compare:
        _check_classes(ready.classes)
    settings = settings_of(study)
    key = fingerprint(ready.views, settings, ready.data.inputs, versions())
    n_jobs = jobs_within(study.compute, n_jobs, min(len(ready.views), MOST_ASSESSED))
    stages = Stages(_folder(checkpoints, key), key, n_jobs, progress)
    with progress_bar("Fitting the model", 0, progress), showing_parts():
        model, notes = _clustered(ready, stages)
    return_freed_memory()  # of factors and ties
    tell(_sizes(model))
    followed = follow(ready.later, model, ready.views, ready.data, Roles.of(study).outcomes)
    left_out = _left_out(model, ready, stages) if study.cluster.leave == "site" else None
    assessed = Assessed.of(model, ready.views)
    later: list[Note] = [note for part in (followed, left_out) if part is not None for note in part.notes]
    return Results(
        **_origin(ready, settings),
        **_assessed(model, ready, assessed, stages),
        **_alternatives(model, ready, assessed, stages, compare=compare, choose_k=choose_k, seeds=seeds),
        model=model,
        notes=[*ready.check.notes, *notes, *assessed.notes(len(ready.views)), *later],
        followup=followed,
        left_out_sites=left_out,
    )


def planned(study: Study, *, compare: bool = False, choose_k: bool = False) -> dict[str, float]:
    """The stages of an analysis in their order, and how long they take relative to each other.

    The shares are those of the simulated cohort, and a guess for other data.

    >>> list(planned(Study.model_validate({"views": {"mri": {}}, "report": {"twins": 0}})))[:3]
    ['Reading files', 'Fitting the model', 'Ranking features']
    """
    wanted = {
        "Leaving out sites": study.cluster.leave == "site",
        "Clustering with controls": bool(study.rules),
        HALVES: study.report.splits > 0,
        "Comparing with twins": study.report.twins != 0,
        "Comparing methods": compare,
        "Varying settings": compare,
        "Counting clusters": choose_k,
    }
    found = {title: share for title, share in SHARES.items() if wanted.get(title, True)}
    return {**found, HALVES: SHARES[HALVES] * study.report.splits} if HALVES in found else found


def _sizes(model: KernelMultiviewNMF) -> str:
    """What is known once the model is fitted; the order of clusters may be another one in the report."""
    sizes = sorted(np.bincount(model.labels_, minlength=model.n_clusters).tolist(), reverse=True)
    shown = f"{', '.join(map(str, sizes[:-1]))} and {sizes[-1]}"
    return f"{len(sizes)} clusters of {shown} subjects; how much they can be relied on comes next."


def _clustered(ready: Prepared, stages: Stages) -> tuple[KernelMultiviewNMF, list[Note]]:
    """The fitted model with its clusters in order, and notes on both."""
    model, warned = _fitted(ready, stages)
    others = None if ready.raw is None else ready.raw.participants
    model, of_order = ordered(model, ready.study, ready.data.participants, others)
    return model, [*(Note((text,)) for text in warned), *of_order]


def _origin(ready: Prepared, settings: dict[str, Any]) -> dict[str, Any]:
    """The fields of the results that do not depend on the model."""
    study = ready.study
    return {
        "name": study.name,
        "views": ready.views,
        "preparation": ready.preparation,
        "participants": ready.data.participants,
        "roles": Roles.of(study),
        "check": ready.check,
        "settings": settings,
        "versions": versions(),
        "seed": study.model.seed,
        "inputs": ready.data.inputs,
        "min_cell": study.report.min_cell,
    }


def _assessed(
    model: KernelMultiviewNMF, ready: Prepared, assessed: Assessed, stages: Stages
) -> dict[str, Any]:
    """Features, stability and uncertainty, evidence of clusters, tests, and the design of the study."""
    study, views = ready.study, ready.views
    ranked = importance(model, views, stages)
    stable, uncertain = stability(model, views, ranked, assessed, stages)
    people, severity = ready.data.participants, study.cluster.remove_severity
    return {
        "importance": ranked,
        "stability": stable,
        "uncertainty": uncertain,
        "design": design(ready, model, stages),
        "tests": held_out_tests(assessed, people, Roles.of(study), study.report.splits, severity, stages),
        "evidence": evidence(model, views, study.report.twins, study.report.min_cell, stages),
        "feature_tests": feature_q(assessed, stages),
    }


def _alternatives(
    model: KernelMultiviewNMF,
    ready: Prepared,
    assessed: Assessed,
    stages: Stages,
    *,
    compare: bool,
    choose_k: bool,
    seeds: int,
) -> dict[str, Any]:
    """Other methods, settings and numbers of clusters, as far as they are asked for."""
    views = ready.views
    return {
        "comparison": compared(views, ready.classes, seeds, stages) if compare else None,
        "solutions": varied_settings(assessed.estimator, assessed.views, stages) if compare else None,
        "numbers": number(model, views, stages) if choose_k else None,
    }


def _left_out(model: KernelMultiviewNMF, ready: Prepared, stages: Stages) -> LeftOutSites:
    labels = site_labels(ready.study, ready.data.participants)
    return left_out_sites(model, ready.views, labels, ready.study.report.min_cell, stages)


def settings_of(study: Study) -> dict[str, Any]:
    """All settings of a study, for JSON; paths are relative to the study file."""
    folder = study.path.parent

    def relative(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: relative(inner) for name, inner in value.items()}
        if isinstance(value, list):
            return [relative(inner) for inner in value]
        return Path(os.path.relpath(value, folder)).as_posix() if isinstance(value, Path) else value

    return dict(relative(study.model_dump(exclude_none=True, exclude={"compute": {"scheduler"}})))


def _folder(checkpoints: str | os.PathLike[str] | None, key: str) -> Path | None:
    """The folder for the stages of this analysis."""
    if checkpoints is None:
        return None
    folder = Path(checkpoints) / key
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _check_classes(classes: pd.Series) -> None:
    if classes.nunique() < 2:
        raise StudyError(
            "study.toml: comparing methods needs at least two diagnoses, and the clustered subjects have "
            f"{classes.nunique()}; check diagnosis of [participants] and the rules of [cluster], or leave "
            "the comparison out."
        )


def _fitted(ready: Prepared, stages: Stages) -> tuple[KernelMultiviewNMF, list[str]]:
    """The fitted model and its warnings."""
    if stages.folder is None:
        return _fit(ready)
    path = stages.folder / "model.safetensors"
    if not path.exists():
        model, warned = _fit(ready)
        persistence.save(model, path, extra={"warned": warned}, mode=PRIVATE)
    model, extra, _ = persistence.load_with(path)  # the same arrays whether resumed or not
    return model, extra["warned"]


def _fit(ready: Prepared) -> tuple[KernelMultiviewNMF, list[str]]:
    settings, compute = model_settings(ready.study, len(ready.views)), ready.study.compute
    with warnings.catch_warnings(record=True) as caught, machines(compute), one_thread():
        warnings.simplefilter("always")
        model = KernelMultiviewNMF(**settings).fit(ready.views)
    return model, [str(warning.message) for warning in caught if _is_ours(warning)]


def _is_ours(warning: Any) -> bool:
    return issubclass(warning.category, UserWarning)
