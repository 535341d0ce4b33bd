"""From labels to scores."""

from __future__ import annotations

from typing import Any

import numpy as np
from methods import Method, Pooling
from runner import Reply, Task
from scenarios import absent_view
from sets import BenchSet, Truth
from sklearn.metrics import normalized_mutual_info_score
from survival_scores import survival_scores

from viewloom.metrics import clustering_report

Array = np.ndarray
Record = dict[str, Any]
METRICS = ["Acc", "NMI", "ARI"]
INCOMPLETE_METRICS = ["NMI whole", "NMI placed"]  # on samples with all views; with the others predicted
OTHER_METRICS = ["stage", "log-rank p", "C-index"]


def record(bench_set: BenchSet, task: Task, method: Method, reply: Reply, truth: Truth) -> Record:
    """Scores of one fit, with what is needed to find it again."""
    found: Record = {
        "group": bench_set.group,
        "block": bench_set.block,
        "set": bench_set.name,
        "unit": bench_set.unit,
        "n": bench_set.n_samples,
        "method": task.method,
        "scenario": str(task.scenario),
        "kind": task.scenario.kind,
        "share": task.scenario.share,
        "seed": task.seed,
        "seconds": reply.seconds,
        "weights": _listed(reply.weights),
        "agreement": _listed(reply.agreement),
        "error": reply.error,
    }
    found |= dict.fromkeys([*METRICS, *INCOMPLETE_METRICS, *OTHER_METRICS], float("nan"))
    if reply.error:
        return found
    found |= further_scores(reply.labelings[0], truth)
    if truth.n_classes:
        found |= class_scores(reply.labelings, truth.y, method.pooling)
        found |= _incomplete_scores(bench_set, task, reply, truth.y)
    if method.pooling == "each view" and truth.n_classes:
        found["single"] = _of_each_view(reply.labelings, truth.y, bench_set.n_views)
    return found


def class_scores(labelings: list[Array], y: Array, pooling: Pooling) -> dict[str, float]:
    """Agreement with known classes. Samples left out count as wrong, and as a cluster of their own.

    Of several labelings the mean, or that with the best NMI where `pooling` is "best": an oracle.
    """
    known = y >= 0
    reports = [clustering_report(y[known], labels[known]) for labels in labelings]
    if pooling == "best":
        reports = [max(reports, key=lambda report: report["NMI"])]
    scores = {name: float(np.mean([report[name] for report in reports])) for name in METRICS}
    kept = labelings[0] >= 0
    if not kept.all():
        part = kept & known
        accuracy = clustering_report(y[part], labelings[0][part])["Acc"]
        scores["Acc"] = accuracy * float(part.sum() / known.sum())
    return scores


def further_scores(labels: Array, truth: Truth) -> dict[str, float]:
    """What clusters say of stage and of survival, where these are known."""
    found = {} if truth.stage is None else {"stage": eta_squared(labels, truth.stage)}
    if truth.time is not None and truth.event is not None:
        found |= survival_scores(labels, truth.time, truth.event)
    return found


def eta_squared(labels: Array, values: Array) -> float:
    """Share of the variance of values that lies between clusters."""
    means = np.zeros(len(values))
    for cluster in np.unique(labels):
        means[labels == cluster] = values[labels == cluster].mean()
    return float(means.var() / values.var())


def _of_each_view(labelings: list[Array], y: Array, n_views: int) -> list[float]:
    """NMI of every view by itself, the mean of its labelings."""
    known = y >= 0
    nmi = [normalized_mutual_info_score(y[known], labels[known]) for labels in labelings]
    return [float(mean) for mean in np.reshape(nmi, (n_views, -1)).mean(axis=1)]


def _incomplete_scores(bench_set: BenchSet, task: Task, reply: Reply, y: Array) -> dict[str, float]:
    """NMI on the samples that have all views, and with the others predicted."""
    absent = absent_view(task.scenario, bench_set.n_samples, bench_set.n_views, task.seed)
    whole, known, placed = (absent < 0) & (y >= 0), y >= 0, reply.placed
    return {
        "NMI whole": float(normalized_mutual_info_score(y[whole], reply.labelings[0][whole])),
        "NMI placed": np.nan
        if placed is None
        else float(normalized_mutual_info_score(y[known], placed[known])),
    }


def _listed(values: Array | None) -> list[float] | None:
    return None if values is None else [float(value) for value in values]
