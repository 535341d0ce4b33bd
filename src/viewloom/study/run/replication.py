"""Replication of a run in a second study, and the folder of its results."""

from __future__ import annotations

import json
import os
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from viewloom.data.naming import listed
from viewloom.data.views import Views
from viewloom.evaluation.replication import Replication, replicate
from viewloom.models.kernel_nmf import KernelMultiviewNMF
from viewloom.runtime.errors import InputError
from viewloom.runtime.files import PRIVATE, atomic_write, special, sync, writing
from viewloom.runtime.progress import progress_bar
from viewloom.runtime.threads import one_thread
from viewloom.runtime.visible import visible
from viewloom.study.clinical_numbers import clinical_numbers, confirmed
from viewloom.study.cohort import load
from viewloom.study.compute import jobs_within
from viewloom.study.config.schema import Cluster, Followup
from viewloom.study.config.toml import Study
from viewloom.study.errors import StudyError
from viewloom.study.hashes import check_unchanged, input_hashes
from viewloom.study.notes import Note, count_note
from viewloom.study.preparation.fitted import Preparation
from viewloom.study.published import (
    clinical_precisions,
    published_confirmed,
    published_numbers,
    read_numbers,
)
from viewloom.study.replicated import StudyReplication
from viewloom.study.report.privacy import without_subjects
from viewloom.study.results import Roles, versions
from viewloom.study.run import tables
from viewloom.study.run.analysis import prepare, settings_of
from viewloom.study.run.prediction import loaded_model
from viewloom.study.run.run_folder import CLINICAL
from viewloom.study.run.staging import RUN, check_replaceable, publish, workplace

REPLICATION, REPORT, LABELS = "replication.json", "replication.html", "labels.csv"
FORMAT = 1  # of replication.json
DESIGN = {  # settings that should be the same in both studies, by block
    "preparation": ("residualise", "residualise_on", "w_scores", "splines", "standardise"),
    "cluster": ("include", "exclude", "remove_severity"),
}


def replicate_study(
    run: str | os.PathLike[str],
    study: Study,
    folder: str | os.PathLike[str],
    *,
    seed: int | None = None,
    n_jobs: int = 1,
    progress: bool = False,
) -> StudyReplication:
    r"""Replicate the clusters of a run in a second study, and write the results.

    Parameters
    ----------
    run : path
        The run folder of the first study.
    study : Study
        The second study. Its files, roles and preparation are used; the settings of the model are those of
        the run.
    folder : path
        An earlier replication is replaced at the end; a folder with other files is refused.
    seed : int, optional
        Random seed; by default that of the run.
    n_jobs : int, default=1
        Number of parallel fits; the results do not depend on it.
    progress : bool, default=False

    Returns
    -------
    StudyReplication

    Raises
    ------
    StudyError
        If the second study has errors, or no view or feature in common with the run. Nothing is written then.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import pandas as pd
    >>> import viewloom as vl
    >>> from viewloom import runs, study
    >>> folder = Path(tempfile.mkdtemp())
    >>> views, _ = vl.simulate.blobs_views(80, n_views=2, n_features=4, random_state=0)
    >>> for cohort, rows in (("first", views[:40]), ("second", views[40:])):
    ...     (folder / cohort).mkdir()
    ...     text = '[model]\nkernel = "linear"\n[report]\ntwins = 0\n'
    ...     for name, X in rows.items():
    ...         table = pd.DataFrame(X).rename_axis("id").add_prefix("x")
    ...         table.to_csv(folder / cohort / f"{name}.csv")
    ...         text += f'[views.{name}]\npath = "{name}.csv"\nid = "id"\n'
    ...     _ = (folder / cohort / "study.toml").write_text(text)
    >>> first, second = (study.read_study(folder / name / "study.toml") for name in ("first", "second"))
    >>> results = runs.run_study(first, folder / "run")
    >>> runs.replicate_study(folder / "run", second, folder / "replication").found.verdict
    'replicated'
    """
    from viewloom.study.report.drawable import check_installed

    check_installed()
    with workplace(folder, check=partial(check_replaceable, index=REPLICATION)) as place:
        results = compare_with_run(run, study, seed=seed, n_jobs=n_jobs, progress=progress)
        with writing(place.target):
            place.new.mkdir()
            _write(place.new, results)
            for path in [*place.new.iterdir(), place.new]:
                sync(path)
        check_unchanged(results.inputs, input_hashes(study))
        publish(place)
    return results


def compare_with_run(
    run: str | os.PathLike[str],
    study: Study,
    *,
    seed: int | None = None,
    n_jobs: int = 1,
    progress: bool = False,
) -> StudyReplication:
    """Replicate the clusters of a run in a second study, without writing anything; see `replicate_study`."""
    model, preparation, _, names = loaded_model(Path(run))
    about = _about(Path(run))
    seed = int(about.get("seed", 0)) if seed is None else seed
    with progress_bar("Reading files", 0, progress):
        data = load(study, training=False, needed=preparation.needed)
        common, notes = common_views(data.views, preparation)
        ready = prepare(as_second(study, model.n_clusters))
        people = _rows(data.participants, common.ids)
        with one_thread():
            views = preparation.transform(common, people)
        views = views.select(common.names)
        own = ready.views
    found = _replicated(model, _among(views, own), own, study, seed, n_jobs, progress)
    notes += [*lost_notes(len(views) - len(found.labels), study), *design_notes(about, study)]
    min_cell = max(study.report.min_cell, _min_cell(about))
    return StudyReplication(
        first=str(about.get("study", "First study")),
        second=study.name,
        found=found,
        cluster_names=names,
        **_clinical_comparison(_clinical(Path(run)), found, data.participants, views, study, min_cell),
        min_cell=min_cell,
        seed=seed,
        notes=[*data.notes, *notes, *preparation.remarks(common, people)],
        versions=versions(),
        inputs=data.inputs,
    )


def _clinical_comparison(
    first: dict[str, Any] | None,
    found: Replication,
    participants: pd.DataFrame | None,
    views: Views,
    study: Study,
    min_cell: int,
) -> dict[str, Any]:
    """Clinical variables of the clusters in the run and in the second study, as they may be published."""
    labels, ids = found.labels["transferred"].to_numpy(), found.labels.index
    people, roles = _rows(participants, ids), Roles.of(study)
    placed = views if views.ids is None else views[views.ids.get_indexer(ids)]
    second = clinical_numbers(labels, people, roles, min_cell, len(found.clusters), placed)
    known = clinical_precisions(labels, people, roles, min_cell)
    before: dict[str, Any] = (first or {}).get("deviations", {})
    return {
        "clinical": published_confirmed(confirmed(first, second), known),
        "deviations": (before, published_numbers(second, known)["deviations"]),
        "knows_first": first is not None,
    }


def lost_notes(count: int, study: Study) -> list[Note]:
    """A note on subjects who are transferred, but not refitted."""
    why = "whom the rules of [cluster] do not cluster" if study.rules else "who cannot be refitted"
    return count_note(count, "subject", text=f"{why} left out")


def design_notes(about: dict[str, Any], study: Study) -> list[Note]:
    """A note on settings of the design in which the second study differs from the run."""
    own = json.loads(json.dumps(without_subjects(settings_of(study))))
    names = [
        f"{block}.{key}"
        for block, keys in DESIGN.items()
        for key in keys
        if block in own and (first := _settings(about, block)) and first.get(key) != own[block].get(key)
    ]
    text = f"the second study differs from the run in {listed(names)}: check that this is intended"
    return [Note((text,))] * bool(names)


def _replicated(
    model: KernelMultiviewNMF, views: Views, own: Views, study: Study, seed: int, n_jobs: int, progress: bool
) -> Replication:
    """`replicate`, with errors that name the study."""
    try:
        jobs = jobs_within(study.compute, n_jobs, len(own))
        return replicate(model, views, own=own, random_state=seed, n_jobs=jobs, progress=progress)
    except InputError as error:
        raise StudyError(f"{visible(study.path)}: {error}") from None


def common_views(views: Views, preparation: Preparation) -> tuple[Views, list[Note]]:
    """The views of a second cohort that the first also has, with the subjects who have one of them."""
    wanted = {view.name: set(view.features) for view in preparation.views}
    shared = [name for name in views.names if wanted.get(name, set()) & set(views.feature_names[name])]
    if not shared:
        raise StudyError(
            "the second study has no view in common with the run: none has the name and a feature of one of "
            f"{listed(list(wanted))}."
        )
    others = [name for name in views.names if name not in shared]
    notes = [Note((f"views that are not in the run left out: {listed(others)}",))] * bool(others)
    lacking = [name for name in wanted if name not in shared]
    notes += [Note((f"views of the run that the second study lacks: {listed(lacking)}",))] * bool(lacking)
    seen = views.present[:, [views.index(name) for name in shared]].any(axis=1)
    notes += count_note(int((~seen).sum()), "subject", text="with none of the views of the run left out")
    return views[seen].select(shared), notes


def _rows(participants: pd.DataFrame | None, ids: Any) -> pd.DataFrame | None:
    return None if participants is None else participants.reindex(ids)


def _among(views: Views, own: Views) -> Views:
    """The subjects of `views` who are also in `own`."""
    assert views.ids is not None  # studies have ids
    kept = views.ids.isin(list(own.ids if own.ids is not None else []))
    if not kept.any():
        raise StudyError("no subject of the second study can be both transferred and refitted.")
    chosen: Views = views[kept]
    return chosen


def as_second(study: Study, n_clusters: int) -> Study:
    """The study with the number of clusters of the run, and without what a replication does not use."""
    kept = study.cluster.model_dump(include={"include", "exclude", "remove_severity"})
    model = study.model.model_copy(update={"n_clusters": n_clusters})
    return study.model_copy(update={"model": model, "cluster": Cluster(**kept), "followup": Followup()})


def _read_json(path: Path) -> dict[str, Any] | None:
    """A JSON object, or None where the file does not exist or is damaged."""
    if special(path) or not path.is_file():
        return None
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        return None
    return content if isinstance(content, dict) else None


def _beside(run: Path) -> Path:
    return run if run.is_dir() else run.parent


def _about(run: Path) -> dict[str, Any]:
    """The run.json of a run, empty where it cannot be read."""
    return _read_json(_beside(run) / RUN) or {}


def _clinical(run: Path) -> dict[str, Any] | None:
    """Clinical associations of a run; None for runs of earlier versions."""
    found = _read_json(_beside(run) / CLINICAL)
    sound = found is not None and {"associations", "deviations"} <= set(found)
    return read_numbers(found) if found is not None and sound else None


def _settings(about: dict[str, Any], block: str) -> dict[str, Any]:
    settings = about.get("settings")
    found = settings.get(block) if isinstance(settings, dict) else None
    return found if isinstance(found, dict) else {}


def _min_cell(about: dict[str, Any]) -> int:
    value = _settings(about, "report").get("min_cell", 1)
    return value if isinstance(value, int) else 1


def labels_table(results: StudyReplication) -> pd.DataFrame:
    """Clusters of the subjects of the second study."""
    labels, names = results.found.labels, np.array(results.cluster_names, dtype=object)
    return pd.DataFrame(
        {
            "id": labels.index.to_list(),
            "label": labels["transferred"].to_numpy(),
            "cluster": names[labels["transferred"].to_numpy()],
            "refitted": labels["refitted"].to_numpy(),
            "refitted_cluster": names[labels["refitted"].to_numpy()],
            "confidence": labels["confidence"].to_numpy(),
        }
    )


def _write(folder: Path, results: StudyReplication) -> None:
    """Write the files of a replication."""
    from viewloom.study.report import to_html
    from viewloom.study.report.replication import TEMPLATE, content, summarize_replication

    with atomic_write(folder / LABELS, PRIVATE) as part:
        tables.write_csv(labels_table(results), part)
    page = to_html(summarize_replication(results), {}, TEMPLATE)
    (folder / REPORT).write_text(page, encoding="utf-8")
    about = {
        "format": FORMAT,
        "first": results.first,
        "second": results.second,
        **content(results),
        "seed": results.seed,
        "versions": results.versions,
        "inputs": results.inputs,
        "files": sorted([LABELS, REPORT, REPLICATION]),
    }
    tables.write_json(about, folder / REPLICATION)
