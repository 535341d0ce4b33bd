"""The run folder and its files."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from viewloom.runtime.errors import InputError
from viewloom.runtime.files import PRIVATE, atomic_write, special, sync, writing
from viewloom.runtime.progress import progress_bar
from viewloom.runtime.visible import visible
from viewloom.study.clinical_numbers import clinical_numbers
from viewloom.study.config.toml import Study
from viewloom.study.errors import StudyError, check_kind
from viewloom.study.hashes import check_unchanged, input_hashes
from viewloom.study.published import published_numbers
from viewloom.study.report.disclosed import disclosed
from viewloom.study.report.privacy import without_subjects
from viewloom.study.results import Results
from viewloom.study.run import tables
from viewloom.study.run.analysis import analyse
from viewloom.study.run.prediction import MODEL, save_model
from viewloom.study.run.staging import RUN, Workplace, publish, workplace

FORMAT = 2  # of run.json and summary.json; 1 has no names of clusters and no data of figures
LABELS, METRICS, REPORT, SUMMARY = "labels.csv", "metrics.json", "report.html", "summary.json"
LONGEST_LINE = 300  # characters
FOLLOWUP = "followup.csv"
CLINICAL = "clinical.json"


def run_study(
    study: Study,
    folder: str | os.PathLike[str],
    *,
    compare: bool = False,
    choose_k: bool = False,
    seeds: int = 3,
    subjects: bool = False,
    resume: bool = False,
    n_jobs: int = 1,
    progress: bool = False,
) -> Results:
    r"""Analyse a study and write its run folder.

    Parameters
    ----------
    study : Study
    folder : path
        An earlier run is replaced at the end; a folder with other files is refused.
    subjects : bool, default=False
        Show individual subjects in the report.
    resume : bool, default=False
        Resume an interrupted run of the same study.
    compare, choose_k, seeds, n_jobs, progress
        See `analyse`.

    Returns
    -------
    Results

    Raises
    ------
    StudyError
        If the study has errors, a file changes during the run, or the folder has other files. Nothing is
        written then.

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
    >>> text = "".join(f'[views.{name}]\npath = "{name}.csv"\nid = "id"\n' for name in views.names)
    >>> _ = (folder / "study.toml").write_text(text + '[model]\nkernel = "linear"\n')
    >>> described = study.read_study(folder / "study.toml")
    >>> results = runs.run_study(described, folder / "results")
    >>> results.sizes, (folder / "results" / "report.html").exists()
    ([20, 20, 20], True)
    """
    from viewloom.study.report.drawable import check_installed

    check_installed()
    with workplace(folder, resume=resume) as place:
        results = analyse(
            study,
            compare=compare,
            choose_k=choose_k,
            seeds=seeds,
            n_jobs=n_jobs,
            progress=progress,
            checkpoints=place.checkpoints,
        )
        _publish(
            place, results, subjects, progress, lambda: check_unchanged(results.inputs, input_hashes(study))
        )
    return results


def write(results: Results, folder: str | os.PathLike[str], *, subjects: bool = False) -> list[Path]:
    """Write the run folder, completely or not at all.

    Parameters
    ----------
    results : Results
    folder : path
        An earlier run is replaced at the end; a folder with other files is refused.
    subjects : bool, default=False
        Show individual subjects in the report.

    Returns
    -------
    list of Path
        ``labels.csv`` and, with later visits, ``followup.csv`` (both readable by their owner only),
        ``weights.csv``, ``importance_<view>.csv``, ``metrics.json``, ``clinical.json`` (clinical variables of
        the clusters, for `replicate_study`), ``model.safetensors``, ``report.html``, ``summary.json`` (the
        content of the report)
        and ``run.json``.
    """
    with workplace(folder) as place:
        return _publish(place, results, subjects, False, lambda: None)


def rewrite_report(folder: str | os.PathLike[str]) -> Path:
    """Write the report of a run again, from ``summary.json``.

    Parameters
    ----------
    folder : path
        A run folder.
    """
    from viewloom.study import report

    content, target = stored(folder), Path(folder) / REPORT
    with damaged(folder):
        html = report.to_html(content["summary"], content["figures"])
    with atomic_write(target, (Path(folder) / SUMMARY).stat().st_mode & 0o777) as part:
        part.write_text(html, encoding="utf-8")
    return target


def stored(folder: str | os.PathLike[str]) -> dict[str, Any]:
    """The content of ``summary.json`` of a run folder."""
    source = Path(folder) / SUMMARY
    check_kind(source)
    if not source.is_file():
        raise StudyError(
            f"{visible(folder)}: not a run folder, since it has no {SUMMARY}; `viewloom fit` writes one."
        )
    with damaged(folder):
        content: dict[str, Any] = json.loads(source.read_text(encoding="utf-8"))
        if content.get("format", FORMAT) > FORMAT:
            raise InputError("written by a later release")
        return content


@contextmanager
def damaged(folder: str | os.PathLike[str]) -> Iterator[None]:
    """Turn errors of damaged content into a StudyError."""
    try:
        yield
    except StudyError:
        raise
    except (AttributeError, ValueError, KeyError, TypeError, IndexError, OverflowError):
        raise StudyError(
            f"{visible(Path(folder) / SUMMARY)}: damaged or of another version; run `viewloom fit` again."
        ) from None


def earlier_run(folder: str | os.PathLike[str]) -> str | None:
    """One line on the run that a folder has: study, time, seed and clusters; None without a run.

    Examples
    --------
    >>> earlier_run("not a folder") is None
    True
    """
    source = Path(folder) / RUN
    if special(source):
        return None
    try:
        about = json.loads(source.read_text(encoding="utf-8"))
        clusters = about["settings"]["model"]["n_clusters"]
        found = f"{about['study']!r}, finished {about['finished']}, seed {about['seed']}, {clusters} clusters"
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return visible(found[:LONGEST_LINE])


def _publish(
    place: Workplace, results: Results, subjects: bool, progress: bool, verify: Callable[[], None]
) -> list[Path]:
    """Write the new folder, sync it to disk, and replace the old one by it."""
    with writing(place.target), progress_bar("Writing results", len(PARTS), progress) as tick:
        place.new.mkdir()
        for write_part in PARTS:
            write_part(place.new, results, subjects)
            tick(1)
        for path in [*place.new.iterdir(), place.new]:
            sync(path)
    verify()
    return publish(place)


def _write_tables(folder: Path, results: Results, subjects: bool) -> None:
    with atomic_write(folder / LABELS, PRIVATE) as part:
        tables.write_csv(tables.labels_table(results), part)
    if results.followup is not None:
        with atomic_write(folder / FOLLOWUP, PRIVATE) as part:
            tables.write_csv(tables.followup_table(results.followup), part)
    tables.write_csv(tables.shared_weights(results), folder / "weights.csv")
    shared = disclosed(results).importance
    for name, frame in zip(tables.file_names(list(shared)), shared.values(), strict=True):
        tables.write_csv(frame, folder / f"importance_{name}.csv")
    tables.write_json(tables.metrics(results), folder / METRICS)


def _write_clinical(folder: Path, results: Results, subjects: bool) -> None:
    """Write aggregates of clinical variables that a replication compares; small counts are hidden."""
    labels, k = results.model.labels_, results.model.n_clusters
    numbers = clinical_numbers(
        labels, results.participants, results.roles, results.min_cell, k, results.views
    )
    tables.write_json(published_numbers(numbers, disclosed(results).precision), folder / CLINICAL)


def _write_model(folder: Path, results: Results, subjects: bool) -> None:
    save_model(results, folder / MODEL)


def _write_report(folder: Path, results: Results, subjects: bool) -> None:
    from viewloom.study import report

    summary = report.unnamed_summary(results, subjects=subjects)
    drawings = report.figure_data(results, summary)
    write_content(folder, summary, drawings, PRIVATE if subjects else 0o666)


def write_content(folder: Path, summary: dict[str, Any], drawings: dict[str, Any], mode: int) -> None:
    """Write the report and its content: text with placeholders for names, and the data of the figures."""
    from viewloom.study import report

    figures = report.inline_figures(drawings, summary["cluster_names"])
    content = {"format": FORMAT, "summary": summary, "figures": figures, "drawings": drawings}
    texts = {REPORT: report.to_html(summary, figures), SUMMARY: json.dumps(content, ensure_ascii=False)}
    for name, text in texts.items():
        with atomic_write(folder / name, mode) as part:
            part.write_text(text, encoding="utf-8")


def _close(folder: Path, results: Results, subjects: bool) -> None:
    """Write the settings, versions and inputs of the run."""
    tables.write_json(_about(results, folder, subjects), folder / RUN)


def _about(results: Results, folder: Path, subjects: bool) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "study": results.name,
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        "seed": results.seed,
        "cluster_names": results.cluster_names,
        "settings": without_subjects(results.settings),
        "single_subjects_in_report": subjects,
        "versions": results.versions,
        "inputs": results.inputs,
        "notes": [note.shared(results.min_cell) for note in results.notes],
        "files": sorted(path.name for path in folder.iterdir()),
        "private": sorted(path.name for path in folder.iterdir() if path.stat().st_mode & 0o077 == 0),
    }


PARTS = (_write_tables, _write_clinical, _write_model, _write_report, _close)
