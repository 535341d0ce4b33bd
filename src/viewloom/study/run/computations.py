"""The expensive stages of an analysis, with checkpoints."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp
from sklearn.base import clone

from viewloom.data.checks import per_view
from viewloom.data.drawing import rows_at_most
from viewloom.data.mixed import MixedBlock
from viewloom.data.mixed_encoding import MixedEncoder
from viewloom.data.views import Views
from viewloom.evaluation import comparison, feature_tests, selection
from viewloom.evaluation.comparison import Comparison
from viewloom.evaluation.selection.drawing import MOST_SAMPLES
from viewloom.evaluation.selection.evidence import TWINS, ClusterEvidence, evidence_units, judge, weighed
from viewloom.evaluation.selection.jobs import Checkpoint, Jobs, Record
from viewloom.evaluation.selection.stability import Stability
from viewloom.evaluation.uncertainty import Uncertainty, estimates, first_features, gathered
from viewloom.models.importance import linear_importance, mixed_linear_importance
from viewloom.models.kernel_nmf import KernelMultiviewNMF
from viewloom.runtime.progress import progress_bar
from viewloom.solver.updates import combinations
from viewloom.study.errors import StudyError
from viewloom.study.run.sampled import MOST_ASSESSED, Assessed, on_this_machine

REFITS, SHARE = 20, 0.8  # number of subsamples for stability, and the share of subjects in each
CHUNK = 10_000  # subjects whose features are standardised at a time
MOST_PLACED = 40_000  # subjects x features, beyond which features are not permuted
LINEAR = ("linear", "cosine")  # kernels whose importance is a matrix product
MOST_COUNTED = 2_000  # subjects of very many in whom clusters are counted
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

    def in_process(self, n: int) -> Stages:
        """The same without processes for very many subjects, whose data would be copied for each."""
        return replace(self, n_jobs=1) if n > MOST_ASSESSED else self

    def path(self, title: str) -> Path:
        """The file of a stage."""
        assert self.folder is not None
        return self.folder / f"{title.lower().replace(' ', '-')}.json"


def importance(model: KernelMultiviewNMF, views: Views, stages: Stages) -> dict[str, pd.DataFrame]:
    """Features of every view by importance."""
    units = {name: (model, views, name) for name in views.names}
    found = stages.in_process(len(views)).run("Ranking features", rank, units)
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
        P_t = combinations(model.view_memberships_[a][rows].T, model.sharpness)  # k x n
        frame = _by_centroids(P_t, views.blocks[a], rows, views.feature_names[name])
    return {"method": frame.attrs["method"], "table": frame.to_dict("split", index=False)}


def _by_centroids(P_t: np.ndarray, X: Any, rows: np.ndarray, names: np.ndarray) -> pd.DataFrame:
    """``F = X^T P`` of standardised features."""
    if isinstance(X, MixedBlock):
        encoder = MixedEncoder.fit(X[rows])
        return mixed_linear_importance((P_t @ encoder.transform(X[rows])).T, encoder)
    return linear_importance(standardised_product(X, rows, P_t), names)


def standardised_product(X: Any, rows: np.ndarray, P_t: np.ndarray) -> np.ndarray:
    """``Z^T P`` (d x k) of the standardised features of some rows, which are taken a few at a time."""
    d, total = X.shape[1], np.zeros((X.shape[1], len(P_t)))
    sums, squares = np.zeros(d), np.zeros(d)
    centre = _float64(X[rows[:CHUNK]]).mean(axis=0)  # near the mean: squares do not cancel
    for first in range(0, len(rows), CHUNK):
        part = _float64(X[rows[first : first + CHUNK]]) - centre
        sums += part.sum(axis=0)
        squares += (part**2).sum(axis=0)
        total += (P_t[:, first : first + CHUNK] @ part).T
    mean = sums / len(rows)
    spread = np.sqrt(np.maximum(squares / len(rows) - mean**2, 0.0))
    varies = spread > 1e-12 * np.maximum(np.abs(mean + centre), 1.0)
    scaled = (total.T - P_t.sum(axis=1)[:, None] * mean) / np.where(varies, spread, 1.0)
    return np.where(varies, scaled, 0.0).T


def _float64(X: Any) -> np.ndarray:
    return np.asarray(X.toarray() if sp.issparse(X) else X, dtype=np.float64)


def _framed(record: Record) -> pd.DataFrame:
    frame = pd.DataFrame(**record["table"])
    frame.attrs["method"] = record["method"]
    return frame


def stability(
    model: KernelMultiviewNMF,
    views: Views,
    ranked: Mapping[str, pd.DataFrame],
    assessed: Assessed,
    stages: Stages,
) -> tuple[Stability, Uncertainty]:
    """Stability of clusters and subjects over refits on subsamples, and intervals of what they estimate."""
    rng, m = np.random.default_rng(model.random_state), len(assessed.rows)
    seen = np.zeros((REFITS, m), dtype=bool)
    for row in seen:
        row[rng.permutation(m)[: round(SHARE * m)]] = True
    names = first_features(views, {name: frame["feature"].tolist() for name, frame in ranked.items()})
    units = {
        f"subsample {i}": (clone(assessed.estimator), assessed.views, rows, assessed.labels, names)
        for i, rows in enumerate(seen)
    }
    found = stages.run("Refitting on subsamples", refit, units)
    fitted = [i for i, record in enumerate(found.values()) if record["labels"]]
    labels = [record["labels"] for record in found.values() if record["labels"]]
    refits = np.array(labels, dtype=int).reshape(len(fitted), m)
    whole = estimates(model, views, model.labels_, names)
    known = [record["estimates"] for record in found.values() if record["labels"]]
    return (
        assessed.of_all(
            Stability.of(assessed.labels, refits, seen[fitted], assessed.views.ids), len(views), views.ids
        ),
        gathered(whole, known, views.names, names, 1.0 - SHARE),
    )


def refit(
    model: KernelMultiviewNMF,
    views: Views,
    rows: np.ndarray,
    known: np.ndarray,
    names: Mapping[str, Sequence[str]],
) -> Record:
    """Clusters of all subjects by a model of a subsample; empty if it is too small for a view."""
    labels = np.empty(len(views), dtype=int)
    try:
        labels[rows] = model.fit(views[rows]).labels_
        labels[~rows] = model.predict(views[~rows])
    except ValueError:
        return {"labels": []}
    return {"labels": labels.tolist(), "estimates": estimates(model, views[rows], known[rows], names)}


def evidence(
    model: KernelMultiviewNMF, views: Views, asked: int | None, least: int, stages: Stages
) -> ClusterEvidence | None:
    """The clusters beside those of twins; None for too few subjects, or if the study asks for no twins."""
    count = TWINS if asked is None else asked
    if not count or len(views) < least:
        return None
    units = evidence_units(model, views, count, int(model.random_state))
    return weighed(list(stages.run("Comparing with twins", judge, units).values()))


def feature_q(assessed: Assessed, stages: Stages) -> dict[str, pd.DataFrame]:
    """Tests of the features of each view against the clusters of the other views; none for a single view."""
    views = assessed.views
    if views.n_views == 1:
        return {}
    units = {name: (assessed.estimator, views, name) for name in views.names}
    found = stages.run("Testing features", tested, units)
    return {name: _framed(record) for name, record in found.items() if record["table"]}


def tested(model: KernelMultiviewNMF, views: Views, name: str) -> Record:
    """Tests of the features of a view, as a record; empty if the other views cannot be clustered."""
    try:
        frame = feature_tests.importance_test(model, views, name)
    except ValueError:
        return {"method": "", "table": {}}
    return {"method": frame.attrs["method"], "table": frame.to_dict("split", index=False)}


def compared(views: Views, classes: pd.Series, seeds: int, stages: Stages) -> Comparison:
    """Compare methods on the subjects with a diagnosis, without methods that use it or fit many settings.

    Most methods compare every subject with every other, so that of very many some are drawn at random.
    """
    if len(views) > MOST_ASSESSED:
        classes = classes.iloc[rows_at_most(len(classes), MOST_SAMPLES, 0)]
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
    found = comparison.compare(views, y, methods, seeds, progress=False, max_samples=None)
    return {"runs": found.runs.to_dict("split", index=False)}


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
        estimator=on_this_machine(model),
        max_samples=MOST_SAMPLES if len(views) <= MOST_ASSESSED else MOST_COUNTED,
    )
