"""Numbers on the design of a study: controls placed by the model, a fit with controls, severity."""

from __future__ import annotations

import numpy as np
import pandas as pd
from sklearn.base import clone

from viewloom.clinical import as_categories, as_numbers
from viewloom.data.drawing import rows_at_most
from viewloom.data.views import Views
from viewloom.evaluation.selection.jobs import Record
from viewloom.models.kernel_nmf import KernelMultiviewNMF
from viewloom.runtime.threads import one_thread
from viewloom.study.check import Prepared
from viewloom.study.design import (
    ControlsPlaced,
    Design,
    SeverityShare,
    WithControls,
    compared_with,
    eta_squared,
    mean_feature,
    severity_outcomes,
    signs_from_controls,
)
from viewloom.study.preparation.severity import NORMAL, common_component, measured_views
from viewloom.study.run.computations import Stages
from viewloom.study.run.prediction import distance_limits, distances
from viewloom.study.run.sampled import MOST_ASSESSED

Array = np.ndarray
WITH_CONTROLS = "with-controls"


def design(ready: Prepared, model: KernelMultiviewNMF, stages: Stages) -> Design:
    """The design of a study in numbers."""
    asked = WITH_CONTROLS in ready.study.cluster.sensitivity
    return Design(
        groups=ready.check.groups if len(ready.check.groups) else None,
        controls=None if ready.reference is None else placed(model, ready.views, ready.reference),
        with_controls=_with_controls(ready, model, stages) if asked else None,
        severity=severity_share(ready, model.labels_),
    )


def placed(model: KernelMultiviewNMF, views: Views, controls: Views) -> ControlsPlaced:
    """Where controls fall when the model places them."""
    with one_thread():
        memberships = np.asarray(model.transform(controls))
        limits = distance_limits(model, views)
        ratio = distances(model, controls) / np.array([limits[name] for name in model.view_names_])
    labels, ordered = memberships.argmax(axis=1), np.sort(memberships, axis=1)
    sizes = np.bincount(labels, minlength=model.n_clusters)
    sums = np.bincount(labels, ordered[:, -1] - ordered[:, -2], minlength=model.n_clusters)
    confidence = np.where(sizes > 0, sums / np.maximum(sizes, 1), np.nan)
    return ControlsPlaced(sizes, confidence, int((ratio > 1.0).any(axis=1).sum()))


def _with_controls(ready: Prepared, model: KernelMultiviewNMF, stages: Stages) -> WithControls | None:
    """The second fit; None where all controls are clustered already."""
    if ready.everyone is None:
        return None
    units = {"with controls": (clone(model), ready.everyone)}
    found = stages.run("Clustering with controls", fit_again, units)["with controls"]
    again, chosen = np.array(found["labels"], dtype=int), ready.clustered
    return compared_with(model.labels_, again[chosen], again[~chosen], model.n_clusters)


def fit_again(model: KernelMultiviewNMF, views: Views) -> Record:
    """Clusters of a model with the same settings, fitted to other subjects."""
    return {"labels": model.fit(views).labels_.tolist()}


def severity_share(ready: Prepared, labels: Array) -> SeverityShare:
    """How much of a clustering is severity."""
    people, outcomes = ready.data.participants, ready.study.participants
    column = ready.study.cluster.severity_column
    names = severity_outcomes(people, [] if outcomes is None else outcomes.outcomes)
    names += [] if column is None or column in names else [column]
    clinical = {name: eta_squared(as_numbers(people[name]), labels) for name in names if people is not None}
    rows = rows_at_most(len(ready.views), MOST_ASSESSED, 0)
    features = eta_squared(severity_of_features(ready, rows), labels[rows])
    normal = sum(severity.column == NORMAL for severity in ready.preparation.severity)
    return SeverityShare(clinical, features, ready.study.cluster.remove_severity, normal)


def severity_of_features(ready: Prepared, rows: Array) -> Array:
    """The mean of the signed features of some of the clustered subjects, before severity is removed."""
    preparation, data = ready.preparation.without_severity, ready.data.of(rows)
    removed = bool(ready.preparation.severity)
    views = preparation.transform(data.views, data.participants) if removed else data.views
    names = measured_views(views, preparation.plan.genotypes)
    controls = _controls(ready, data.participants, views)
    if controls is not None:
        signs = signs_from_controls(views, controls, names)
    else:
        signs = {name: np.sign(part.loadings) for name, part in common_component(views, names).items()}
    return mean_feature(views, signs)


def _controls(ready: Prepared, people: pd.DataFrame | None, views: Views) -> Views | None:
    """Prepared views of the reference controls, or of controls among these clustered subjects."""
    if ready.raw is not None:
        raw = ready.raw.of(~ready.clustered)
        return ready.preparation.without_severity.transform(raw.views, raw.participants)
    named = ready.study.participants
    if people is None or named is None or named.diagnosis is None:
        return None
    codes = {*ready.study.preparation.controls}
    chosen = np.array([label in codes for label in as_categories(people[named.diagnosis])], dtype=bool)
    return views[chosen] if chosen.any() and not chosen.all() else None
