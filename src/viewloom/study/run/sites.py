"""Clusters of each site by a model of the other sites, with checkpoints."""

from __future__ import annotations

import numpy as np
from sklearn.base import clone
from sklearn.metrics import adjusted_rand_score

from viewloom.data.views import Views
from viewloom.evaluation.replication.statistics import jaccard, matched
from viewloom.evaluation.selection.jobs import Record
from viewloom.models.kernel_nmf import KernelMultiviewNMF
from viewloom.study.left_out import LEAST_PER_CLUSTER, LeftOutSites, sites_to_leave
from viewloom.study.run.computations import Stages

Array = np.ndarray


def left_out_sites(
    model: KernelMultiviewNMF, views: Views, labels: Array, min_cell: int, stages: Stages
) -> LeftOutSites:
    """Leave out each site in turn.

    Parameters
    ----------
    model : KernelMultiviewNMF
        Of all sites.
    views : Views
        As prepared for all sites.
    labels : (n,) array
        The site of each subject, None where it is unknown.
    min_cell : int
        Sites with fewer subjects are skipped.
    stages : Stages
    """
    sites = sites_to_leave(labels, min_cell)
    units = {site: (clone(model), views, model.labels_, labels == site) for site in sites}
    records = list(stages.run("Leaving out sites", leave_out, units).values())
    known = np.array([label is not None for label in labels])
    small = known & ~np.isin(labels.astype(str), sites)
    return LeftOutSites(
        sites,
        np.array([int((labels == site).sum()) for site in sites]),
        np.array([record["agreement"] for record in records], dtype=float),
        np.array([record["counts"] for record in records], dtype=int),
        np.array([record["refit"] for record in records], dtype=float),
        np.array([record["overlap"] for record in records], dtype=float),
        len(set(labels[small])),
        int(small.sum()),
        int((~known).sum()),
    )


def leave_out(model: KernelMultiviewNMF, views: Views, labels: Array, inside: Array) -> Record:
    """Predict a site by a model of the others, and cluster it on its own.

    Clusters get the numbers of `labels`, those of the model of all sites. Numbers are None if the other
    sites, or the site itself, are too few for a model.
    """
    k = model.n_clusters
    try:
        others = clone(model).fit(views[~inside])
        predicted = others.predict(views[inside])
    except ValueError:
        return {"agreement": None, "counts": [0] * k, "refit": None, "overlap": [None] * k}
    numbers = _numbers(labels[~inside], others.labels_, k)
    predicted = numbers[predicted]
    refit, overlap = _refitted(model, views[inside], predicted)
    return {
        "agreement": float(adjusted_rand_score(labels[inside], predicted)),
        "counts": np.bincount(predicted, minlength=k).tolist(),
        "refit": refit,
        "overlap": overlap,
    }


def _numbers(labels: Array, found: Array, k: int) -> Array:
    """For each cluster of a model the number of the one it matches."""
    renamed = matched(labels, found, k)
    numbers = np.full(k, -1)
    numbers[found] = renamed
    numbers[numbers < 0] = [j for j in range(k) if j not in renamed][: (numbers < 0).sum()]
    return numbers


def _refitted(
    model: KernelMultiviewNMF, views: Views, predicted: Array
) -> tuple[float | None, list[float | None]]:
    """Agreement of predicted clusters with those of a model of the site alone."""
    k = model.n_clusters
    nothing: list[float | None] = [None] * k
    if len(views) < LEAST_PER_CLUSTER * k:
        return None, nothing
    try:
        found = clone(model).fit(views).labels_
    except ValueError:
        return None, nothing
    found = matched(predicted, found, k)
    return float(adjusted_rand_score(predicted, found)), jaccard(predicted, found, k).tolist()
