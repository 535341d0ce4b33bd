"""The order of the clusters of a study: by size, or by a clinical measure of severity."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd

from viewloom.clinical.variables import as_numbers, variable_of
from viewloom.models.kernel_nmf import KernelMultiviewNMF
from viewloom.study.config.toml import Study
from viewloom.study.errors import Message, StudyError, Suggestion
from viewloom.study.notes import Note

Array = np.ndarray
LOWER_IS_WORSE = re.compile("mmse|mmscore|moca", re.IGNORECASE)


def ordered(
    model: KernelMultiviewNMF,
    study: Study,
    participants: pd.DataFrame | None,
    everyone: pd.DataFrame | None = None,
) -> tuple[KernelMultiviewNMF, list[Note]]:
    """The model with its clusters in the order that the study sets, and a note on it.

    Clusters of the same size or severity are ordered by size, then by their first subject, so that the order
    does not depend on the numbers that the fit happened to give. `everyone` also has the controls who are not
    clustered, if there are any.
    """
    labels, k = model.labels_, model.n_clusters
    sizes = np.bincount(labels, minlength=k)
    first = [int(np.argmax(labels == j)) if sizes[j] else len(labels) for j in range(k)]
    notes: list[Note] = []
    keys: list[Array] = [np.array(first), -sizes]
    if study.cluster.order == "severity":
        column = severity_column(study, participants)
        assert participants is not None
        sign = direction(study, participants if everyone is None else everyone, column)
        means = pd.Series(sign * as_numbers(participants[column])).groupby(labels).mean().reindex(range(k))
        keys.append(means.fillna(np.inf).to_numpy())
        lowest = "lowest" if sign > 0 else "highest"
        notes = [Note((f"clusters are ordered by the mean of {column!r}, the {lowest} first",))]
    return model.reordered(np.lexsort(keys)), notes


def severity_column(study: Study, participants: pd.DataFrame | None) -> str:
    """The column that measures severity: `remove_severity`, or the first numeric outcome."""
    outcomes = [] if study.participants is None else list(study.participants.outcomes)
    people = pd.DataFrame() if participants is None else participants
    for name in [study.cluster.remove_severity, *outcomes]:
        if name in people and variable_of(str(name), people[name], categorical=False).kind == "numeric":
            return str(name)
    raise StudyError(
        Message(
            "study.toml: cluster.order = 'severity' needs a numeric column among the outcomes of "
            "[participants], such as outcomes = ['mmse']; or set order = 'size'.",
            Suggestion({"order": "size"}, block=("cluster",)),
        )
    )


def direction(study: Study, participants: pd.DataFrame, column: str) -> int:
    """1 if larger values are more severe, -1 if smaller ones are.

    They are those that the other subjects have, compared with the controls, if the study names controls;
    otherwise MMSE and MoCA are known to decrease, and all other columns are taken to increase.
    """
    values, by_name = as_numbers(participants[column]), -1 if LOWER_IS_WORSE.search(column) else 1
    diagnosis = study.participants and study.participants.diagnosis
    if not diagnosis or not study.preparation.controls:
        return by_name
    control = participants[diagnosis].astype(str).isin(map(str, study.preparation.controls)).to_numpy()
    means = [values[rows & np.isfinite(values)] for rows in (control, ~control)]
    if not all(len(part) for part in means):
        return by_name
    return int(np.sign(means[1].mean() - means[0].mean())) or by_name


def check_order(study: Study, participants: pd.DataFrame | None) -> None:
    """Raise a StudyError if the order of the clusters cannot be computed."""
    if study.cluster.order == "severity":
        severity_column(study, participants)
