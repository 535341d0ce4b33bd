"""The expensive stages of an analysis, with checkpoints."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import clone
from sklearn.preprocessing import StandardScaler

from viewloom.data.checks import per_view
from viewloom.data.views import Views
from viewloom.evaluation import comparison, selection
from viewloom.evaluation.comparison import Comparison
from viewloom.evaluation.selection.jobs import Checkpoint, Jobs, Record
from viewloom.evaluation.selection.stability import Stability
from viewloom.models.importance import linear_importance
from viewloom.models.kernel_nmf import KernelMultiviewNMF
from viewloom.runtime.progress import progress_bar
from viewloom.solver.updates import combinations
from viewloom.study.errors import StudyError

REFITS, SHARE = 20, 0.8  # number of subsamples for stability, and the share of subjects in each
MOST_PLACED = 40_000  # subjects x features, beyond which features are not permuted
LINEAR = ("linear", "cosine")  # kernels whose importance is a matrix product
MOST_CLUSTERS, LEAST_PER_CLUSTER = 8, 4  # for estimating the number of clusters


@dataclass(frozen=True)
class Stages:
    """Runs the stages of an analysis, and stores their results.

    Parameters
    ----------
    folder : Path or None
        Folder for the results; nothing is stored if None.
    key : str
        `fingerprint` of data and settings.
    n_jobs : int
    progress : bool
        Draw a progress bar for each stage.
    """

    folder: Path | None
    key: str
    n_jobs: int
    progress: bool

    def run(
        self, title: str, function: Callable[..., Record], units: Mapping[str, Sequence[Any]]
    ) -> dict[str, Record]:
        """``function(*arguments)`` of every unit, by name."""
        store = None if self.folder is None else Checkpoint(self.path(title), self.key)
        with progress_bar(title, len(units), self.progress) as tick:
            jobs = Jobs(self.n_jobs, store, tick)
            jobs.run(function, units)
        return {name: jobs.records[name] for name in units}

    def path(self, title: str) -> Path:
        """The file of a stage."""
        assert self.folder is not None
        return self.folder / f"{title.lower().replace(' ', '-')}.json"


def importance(model: KernelMultiviewNMF, views: Views, stages: Stages) -> dict[str, pd.DataFrame]:
    """Features of every view by importance."""
    found = stages.run("Ranking features", rank, {name: (model, views, name) for name in views.names})
    return {name: _framed(record) for name, record in found.items()}


def rank(model: KernelMultiviewNMF, views: Views, name: str) -> Record:
    """Importance of the features of a view, as a record.

    For wide views, where permutation takes too long, it is ``F = X^T P`` of the paper, with standardised
    features and the memberships of the model.
    """
    a = views.index(name)
    rows = views.rows(a)
    if (
        per_view(model.kernel, views.names, "kernel")[a] in LINEAR
        or len(rows) * views.n_features[a] <= MOST_PLACED
    ):
        frame = model.feature_importance(name)
    else:
        X = StandardScaler().fit_transform(views.blocks[a][rows])
        P_t = combinations(model.view_memberships_[a][rows].T, model.sharpness)  # k x n
        frame = linear_importance((P_t @ X).T, views.feature_names[name])
    return {"method": frame.attrs["method"], "table": frame.to_dict("split", index=False)}


def _framed(record: Record) -> pd.DataFrame:
    frame = pd.DataFrame(**record["table"])
    frame.attrs["method"] = record["method"]
    return frame


def stability(model: KernelMultiviewNMF, views: Views, stages: Stages) -> Stability:
    """Stability of clusters and subjects over refits on subsamples."""
    rng = np.random.default_rng(model.random_state)
    seen = np.zeros((REFITS, len(views)), dtype=bool)
    for row in seen:
        row[rng.permutation(len(views))[: round(SHARE * len(views))]] = True
    units = {f"subsample {i}": (clone(model), views, rows) for i, rows in enumerate(seen)}
    found = stages.run("Refitting on subsamples", refit, units)
    fitted = [i for i, record in enumerate(found.values()) if record["labels"]]
    labels = [record["labels"] for record in found.values() if record["labels"]]
    refits = np.array(labels, dtype=int).reshape(len(fitted), len(views))
    return Stability.of(model.labels_, refits, seen[fitted], views.ids)


def refit(model: KernelMultiviewNMF, views: Views, rows: np.ndarray) -> Record:
    """Clusters of all subjects by a model of a subsample; empty if it is too small for a view."""
    labels = np.empty(len(views), dtype=int)
    try:
        labels[rows] = model.fit(views[rows]).labels_
        labels[~rows] = model.predict(views[~rows])
    except ValueError:
        return {"labels": []}
    return {"labels": labels.tolist()}


def compared(views: Views, classes: pd.Series, seeds: int, stages: Stages) -> Comparison:
    """Compare methods on the subjects with a diagnosis, without methods that use it or fit many settings."""
    views, y = views[classes.index.to_numpy()], classes.to_numpy()
    left_out = {*comparison.ORACLES, *comparison.SLOW}
    names = [name for name in comparison.method_names(views) if name not in left_out]
    single = [name for name in names if name.startswith("SV ")]
    groups = ([single] if single else []) + [[name] for name in names if name not in single]
    units = {f"{group[0]}, {seeds} seeds": (views, y, group, seeds) for group in groups}
    found = stages.run("Comparing methods", score_methods, units)
    runs = [pd.DataFrame(**record["runs"]) for record in found.values()]
    return Comparison(pd.concat(runs, ignore_index=True))


def score_methods(views: Views, y: np.ndarray, methods: list[str], seeds: int) -> Record:
    """Scores of methods, as a record."""
    return {"runs": comparison.compare(views, y, methods, seeds).runs.to_dict("split", index=False)}


def number(model: KernelMultiviewNMF, views: Views, stages: Stages) -> selection.ClusterNumber:
    """Estimate the number of clusters."""
    most = min(MOST_CLUSTERS, len(views) // LEAST_PER_CLUSTER)
    if most < 2:
        raise StudyError(f"{len(views)} subjects are too few to choose the number of clusters.")
    return selection.choose_k(
        views,
        range(2, most + 1),
        n_jobs=stages.n_jobs,
        random_state=model.random_state,
        progress=stages.progress,
        checkpoint=None if stages.folder is None else stages.path("Counting clusters"),
        estimator=clone(model),
    )
