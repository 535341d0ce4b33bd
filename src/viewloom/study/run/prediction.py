"""Prediction of new subjects with a saved model and its preparation."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from viewloom.data.views import Views
from viewloom.models import persistence
from viewloom.models.kernel_nmf import KernelMultiviewNMF
from viewloom.runtime.errors import InputError
from viewloom.runtime.files import PRIVATE, atomic_write
from viewloom.runtime.threads import one_thread
from viewloom.runtime.visible import visible
from viewloom.study.cluster_names import default_names, name_problems
from viewloom.study.cohort import load
from viewloom.study.config.toml import Study
from viewloom.study.errors import StudyError, check_kind
from viewloom.study.preparation.fitted import Preparation
from viewloom.study.results import Results
from viewloom.study.run import tables

Array = np.ndarray
RARE = 0.01  # share of training subjects beyond the distance limit
MODEL = "model.safetensors"
PREPARATION, LIMITS, NAMES = "preparation", "limits", "cluster_names"


def save_model(results: Results, path: Path) -> None:
    """Save the model with its preparation and its distance limits."""
    extra = {
        PREPARATION: results.preparation.settings(),
        LIMITS: distance_limits(results.model, results.views),
        NAMES: results.cluster_names,
    }
    persistence.save(results.model, path, extra=extra, arrays=results.preparation.to_arrays(), mode=PRIVATE)


def predict(path: str | os.PathLike[str], study: Study) -> pd.DataFrame:
    r"""Assign the subjects of a study to clusters with a saved model.

    Parameters
    ----------
    path : path
        ``model.safetensors`` of a run, or the run folder.
    study : Study
        New subjects; views may be missing. The saved preparation and model settings are used, not those of
        the study.

    Returns
    -------
    DataFrame
        Per subject: id, label (from 0), ``cluster`` (its name), memberships, confidence, ``distance``,
        ``far`` (yes or no), ``far_in`` (the views in which it is far) and ``views_seen``. The distance in a
        view is the mean distance to the five nearest training subjects, relative to the limit that 99 % of
        left-out training subjects stay below; ``distance`` is the largest over views, and a subject is far
        from the training data if it exceeds 1.
        ``attrs["notes"]`` has notes on what was left out or imputed.

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
    >>> table = runs.predict(folder / "results", described)
    >>> list(table.columns[:3]), len(table)
    (['id', 'label', 'cluster'], 60)
    """
    model, preparation, limits, cluster_names = loaded_model(Path(path))
    data = load(study, training=False, needed=preparation.needed)
    with one_thread(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Some of .* levels that were not seen")  # notes say so
        views = preparation.transform(data.views, data.participants)
        memberships = np.asarray(model.transform(views))
        ratio = distances(model, views) / np.array([limits[name] for name in views.names])
    names = np.array(views.names, dtype=object)
    table = tables.subject_table(
        views,
        memberships,
        cluster_names,
        distance=np.nanmax(ratio, axis=1),
        far=np.where((ratio > 1.0).any(axis=1), "yes", "no"),
        far_in=["; ".join(names[row > 1.0]) for row in ratio],
    )
    table.attrs["notes"] = [*data.notes, *preparation.remarks(data.views, data.participants)]
    return table


def loaded_model(path: Path) -> tuple[KernelMultiviewNMF, Preparation, dict[str, float], list[str]]:
    """The model, its preparation, the distance limits of its views and the names of its clusters."""
    path = path / MODEL if path.is_dir() else path
    check_kind(path)
    if not path.is_file():
        raise StudyError(f"{visible(path)}: no such model; `viewloom fit` writes one into its run folder.")
    model, extra, arrays = persistence.load_with(path)
    if PREPARATION not in extra or LIMITS not in extra:
        raise StudyError(f"{visible(path)}: the model has no preparation; use the {MODEL} of a run.")
    try:
        preparation = Preparation.from_arrays(extra[PREPARATION], arrays)
        limits = {str(name): float(limit) for name, limit in extra[LIMITS].items()}
        return model, preparation, limits, stored_names(extra, model.n_clusters)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
        raise persistence.DamagedFile(f"{path.name} has a preparation that cannot be read.") from None


def stored_names(extra: Mapping[str, Any], k: int) -> list[str]:
    """The names of the clusters that are stored with a model; numbers from 1 in models without names."""
    names = [str(name) for name in extra.get(NAMES, default_names(k))]
    if list(name_problems(names, k)):
        raise InputError("The names of the clusters are invalid.")
    return names


def distance_limits(model: KernelMultiviewNMF, views: Views) -> dict[str, float]:
    """For each view, a limit that few distances between training subjects exceed.

    It is the quantile 1 - 0.01 / v for v views, since a subject has a distance in each view.
    """
    level = 1.0 - RARE / len(model.view_names_)
    found = model.fitted_model_.training_distances(model.aligned(views))
    return {
        name: float(np.nanquantile(column, level))
        for name, column in zip(model.view_names_, found.T, strict=True)
    }


def distances(model: KernelMultiviewNMF, views: Views) -> Array:
    """Mean distance (n x v) to the nearest training subjects, in the scale of the model, or NaN."""
    return model.fitted_model_.distances(model.aligned(views))


def write_predictions(table: pd.DataFrame, path: str | os.PathLike[str]) -> Path:
    """Write predictions, readable by their owner only; an earlier file of predictions is replaced.

    Parameters
    ----------
    table : DataFrame
        From `predict`.
    path : path
    """
    target = Path(path).absolute()
    check_writable(target)
    with atomic_write(target, PRIVATE) as part:
        tables.write_csv(table, part)
    return target


def check_writable(target: Path) -> None:
    """Refuse a path without a folder, or of a file that does not have predictions."""
    if not target.parent.is_dir():
        raise StudyError(f"{visible(target.parent)}: no such folder.")
    if target.exists() and not _is_predictions(target):
        raise StudyError(f"{visible(target)}: exists and does not contain predictions; set another --output.")


def _is_predictions(path: Path) -> bool:
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(32).startswith((b"id,label,cluster,membership_0", b"id,label,membership_0"))
