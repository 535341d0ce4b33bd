"""Whether a clustering shows clusters, or cuts through a continuum: comparison with twins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import scipy.stats
from sklearn.base import clone

from viewloom.data.views import Views
from viewloom.evaluation.selection.drawing import MOST_SAMPLES, at_most
from viewloom.evaluation.selection.jobs import Jobs, Record, quiet
from viewloom.evaluation.selection.search import refuse_precomputed, seed_of
from viewloom.evaluation.selection.stability import ABSENT, pairwise_ari
from viewloom.evaluation.twins import Twins
from viewloom.models.kernel_nmf import KernelMultiviewNMF
from viewloom.runtime.errors import InputError
from viewloom.runtime.progress import progress_bar

Array = np.ndarray
CLUSTERS, CUTS, UNSTABLE = "clusters", "cuts", "not reproducible"
VERDICTS = {
    CLUSTERS: "clusters",
    CUTS: "reproducible cuts through a continuum",
    UNSTABLE: "not reproducible",
}
LEAST_GAP = 0.10  # how far the calibrated loss of clusters must be below that of twins
LEVEL = 0.01  # how often one more twin may be as tight
LEAST_STABILITY = 0.6  # mean ARI between subsamples of what is called reproducible
TWINS, DATA_SUBSAMPLES, TWIN_SUBSAMPLES, SHARE = 10, 6, 2, 0.8
LEAST_TWINS = 3
TOLERANCE = 1e-3  # of fits, of data and of twins alike
MEASURES = ("stability", "loss", "separation")


@dataclass(frozen=True)
class ClusterEvidence:
    """A clustering beside the same number of clusters in twins, which have none.

    Attributes
    ----------
    verdict : str or None
        "clusters", "cuts" (reproducible cuts through a continuum) or "not reproducible". None where
        there is nothing to compare with.
    table : DataFrame
        Rows ``stability`` (mean ARI between subsamples), ``loss`` (reconstruction error between 0, the least
        possible, and 1, that of a single cluster; less is tighter) and ``separation`` (mean difference of
        the two largest memberships); columns ``data``, ``twins`` (their mean), ``twins_std``, and ``z``, the
        difference in standard deviations of twins, positive where the data are more clustered.
    gap : float
        How far the loss of the data is below the mean loss of twins.
    n_twins : int
    """

    verdict: str | None
    table: pd.DataFrame
    gap: float
    n_twins: int

    @property
    def words(self) -> str:
        """The verdict in words."""
        return "not assessed" if self.verdict is None else VERDICTS[self.verdict]


def cluster_evidence(
    model: KernelMultiviewNMF,
    views: Any,
    *,
    n_twins: int = TWINS,
    n_jobs: int | None = None,
    random_state: Any = 0,
    progress: bool = False,
) -> ClusterEvidence:
    """Compare a clustering with that of twins: data with the same margins and correlations, and no clusters.

    The model is fitted on subsamples of the data and of every twin. Clusters are called so if subsamples
    agree (mean ARI of at least 0.6, and more than in twins) and if they are tighter than those of twins:
    by 0.1 of the range between the loss of a single cluster and the least possible, and by more than one more
    twin would be in 1 of 100 cases. Subsamples that agree without that are reproducible cuts through a
    continuum.

    Parameters
    ----------
    model : KernelMultiviewNMF
        Its parameters are used; it need not be fitted.
    views : dict, list, Views or array
        The data. Of more than 4,000 samples as many are drawn at random.
    n_twins : int, default=10
    n_jobs : int, optional
        Number of processes; the result does not depend on it.
    random_state : int, RandomState or None, default=0
    progress : bool, default=False

    Returns
    -------
    ClusterEvidence

    Examples
    --------
    >>> import viewloom as vl
    >>> views, _ = vl.simulate.blobs_views(60, n_views=2, n_clusters=3, separation=6.0, random_state=0)
    >>> cluster_evidence(vl.KernelMultiviewNMF(3), views, n_twins=5).words
    'clusters'
    >>> cloud = np.random.default_rng(0).standard_normal((60, 5))
    >>> cluster_evidence(vl.KernelMultiviewNMF(3), cloud, n_twins=5).verdict == "clusters"
    False
    """
    views = Views(views)
    refuse_precomputed(model, views)
    units = evidence_units(model, views, n_twins, seed_of(random_state, None))
    with progress_bar("Comparing with twins", len(units), progress) as tick:
        jobs = Jobs(n_jobs, None, tick)
        jobs.run(judge, units)
    return weighed([jobs.records[name] for name in units])


def evidence_units(
    model: KernelMultiviewNMF, views: Views, n_twins: int, seed: int
) -> dict[str, tuple[Any, ...]]:
    """Arguments of `judge`, for the data and every twin."""
    if n_twins < LEAST_TWINS:
        raise InputError(
            f"At least {LEAST_TWINS} twins are needed, to tell how much they differ; got {n_twins}."
        )
    views, estimator = at_most(views, MOST_SAMPLES, seed), judged_estimator(model, seed)
    twins = Twins(views)
    units: dict[str, tuple[Any, ...]] = {"data": (estimator, views, DATA_SUBSAMPLES, (seed, 0))}
    return units | {f"twin {t}": (estimator, twins, TWIN_SUBSAMPLES, (seed, t + 1)) for t in range(n_twins)}


def judged_estimator(model: KernelMultiviewNMF, seed: int) -> KernelMultiviewNMF:
    """The estimator that is fitted to data and twins: as precise as the comparison needs."""
    estimator = clone(model).set_params(tol=max(model.tol, TOLERANCE))
    if estimator.backend == "dask":  # many small fits, in processes that have no client
        estimator.set_params(backend="threads")
    if not isinstance(estimator.init, str):  # memberships of all samples, which a subsample lacks
        estimator.set_params(init="kkmeans")
    if estimator.random_state is None:
        estimator.set_params(random_state=seed)
    return estimator  # type: ignore[no-any-return]


def judge(estimator: KernelMultiviewNMF, data: Views | Twins, count: int, seed: Sequence[int]) -> Record:
    """Stability, loss and separation on subsamples of the data or a twin; empty if it cannot be fitted."""
    rng = np.random.default_rng(seed)
    views = data.draw(rng) if isinstance(data, Twins) else data
    try:
        return measured(estimator, views, subsamples(len(views), count, SHARE, rng))
    except ValueError:
        return {}


def measured(estimator: KernelMultiviewNMF, views: Views, parts: list[Array]) -> Record:
    """Means over subsamples."""
    with quiet():
        models = [clone(estimator).fit(views[rows]) for rows in parts]
    return {
        "stability": float(pairwise_ari(labels_of(models, parts, len(views))).mean()),
        "loss": float(np.mean([loss_of(model) for model in models])),
        "separation": float(np.mean([separation(model.memberships_) for model in models])),
    }


def loss_of(model: KernelMultiviewNMF) -> float:
    """Calibrated reconstruction error of a fit: the mean over views, by their weights.

    The objective would not do: it depends on votes of views, which differ by factors between twins.
    """
    return float(model.view_weights_ @ model.fitted_model_.results.losses)


def weighed(records: Sequence[Mapping[str, float]]) -> ClusterEvidence:
    """The evidence from the record of the data, which is the first, and those of twins."""
    data, twins = records[0], [record for record in records[1:] if record]
    if not data or len(twins) < LEAST_TWINS:
        empty = pd.DataFrame(np.nan, index=list(MEASURES), columns=["data", "twins", "twins_std", "z"])
        return ClusterEvidence(None, empty, float("nan"), len(twins))
    values = pd.DataFrame(twins)
    table = pd.DataFrame({"data": pd.Series(data), "twins": values.mean(), "twins_std": values.std(ddof=1)})
    table = table.loc[list(MEASURES)]
    table["z"] = (table["data"] - table["twins"]) / np.maximum(table["twins_std"], 1e-9)
    gap, table.loc["loss", "z"] = tighter(data["loss"], values["loss"])
    return ClusterEvidence(_verdict(table, gap, len(twins)), table, gap, len(twins))


def _verdict(table: pd.DataFrame, gap: float, n_twins: int) -> str:
    stable, z = table["data"], table["z"]
    if stable["stability"] < LEAST_STABILITY:
        return UNSTABLE
    tight = gap > LEAST_GAP and z["loss"] > least_z(n_twins, LEVEL)
    return CLUSTERS if tight and z["stability"] > 0.0 else CUTS


def tighter(loss: float, twins: Any) -> tuple[float, float]:
    """How far a loss is below the mean of those of twins, and the same in their standard deviations.

    >>> gap, z = tighter(0.1, [0.2, 0.3, 0.4])
    >>> round(gap, 6), round(z, 6)
    (0.2, 2.0)
    """
    gap = float(np.mean(twins)) - loss
    return gap, gap / max(float(np.std(twins, ddof=1)), 1e-9)


def least_z(n_twins: int, level: float) -> float:
    """What one more twin exceeds with this probability, in standard deviations of `n_twins` (Student's t).

    Examples
    --------
    >>> round(least_z(20, 0.005), 1), round(least_z(10, 0.01), 1)
    (2.9, 3.0)
    """
    return float(scipy.stats.t.isf(level, n_twins - 1) * np.sqrt(1.0 + 1.0 / n_twins))


def separation(memberships: Array) -> float:
    """Mean difference of the two largest memberships of a sample.

    >>> separation(np.array([[1.0, 0.0], [0.5, 0.5]]))
    0.5
    """
    ordered = np.sort(memberships, axis=1)
    return float((ordered[:, -1] - ordered[:, -2]).mean()) if memberships.shape[1] > 1 else 1.0


def subsamples(n: int, count: int, share: float, rng: np.random.Generator) -> list[Array]:
    """Random subsamples of n samples, as sorted positions."""
    return [np.sort(rng.permutation(n)[: round(share * n)]) for _ in range(count)]


def labels_of(models: Sequence[KernelMultiviewNMF], parts: list[Array], n: int) -> Array:
    """Clusters of all samples (subsamples x n), -1 where a subsample lacks one."""
    labels = np.full((len(models), n), ABSENT)
    for row, model, rows in zip(labels, models, parts, strict=True):
        row[rows] = model.labels_
    return labels
