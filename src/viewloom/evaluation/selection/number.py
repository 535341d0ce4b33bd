"""How many clusters there are, if any."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
import scipy.linalg
import scipy.sparse as sp
import scipy.stats
from sklearn.base import clone

from viewloom.data.checks import per_view
from viewloom.data.views import Views
from viewloom.evaluation.selection.jobs import Jobs, Record, open_checkpoint, quiet
from viewloom.evaluation.selection.search import base_model, refuse_precomputed, seed_of
from viewloom.evaluation.selection.stability import (
    ABSENT,
    consensus_matrix,
    pac,
    pairwise_ari,
    prediction_strength,
)
from viewloom.models.kernel_nmf import KernelMultiviewNMF
from viewloom.models.scaling import fit_scaler, informative_presence
from viewloom.runtime.errors import InputError
from viewloom.runtime.progress import progress_bar

Array = np.ndarray
LEAST_GAP = 0.1  # share of the twins' loss that clear clusters must save
LEVEL = 0.005  # how often one more twin may save as much
STRONG = 0.8  # prediction strength of what Tibshirani and Walther call clusters
EQUALLY_STABLE = 0.02  # difference of mean ARI that decides nothing
TWIN_SUBSAMPLES, SPLITS = 3, 3


@dataclass(frozen=True)
class ClusterNumber:
    """What was found about the number of clusters.

    Attributes
    ----------
    recommended : int or None
        None where there are no clear clusters.
    reasons : list of str
    table : DataFrame
        One row per k. On subsamples: ``stability``, ``stability_std`` (ARI between two of them),
        ``pac``, ``loss`` (objective), ``held_out``, ``held_out_std`` (calibrated loss of samples left
        out); ``prediction_strength`` on halves; ``twin_stability``, ``twin_loss`` (means over Gaussian
        twins), ``excess`` (stability above the twins'), ``gap`` (share of the twins' loss that is saved)
        and its ``z``; ``clear``.
    consensus : (n, n) array or None
        How often samples share a cluster at the recommended k; fitted when first asked for.
    """

    recommended: int | None
    reasons: list[str]
    table: pd.DataFrame
    views: Views = field(repr=False)
    estimator: KernelMultiviewNMF = field(repr=False)
    subsamples: list[Array] = field(repr=False)

    @cached_property
    def consensus(self) -> Array | None:
        """Consensus matrix of the recommended k."""
        if self.recommended is None:
            return None
        with quiet():
            models = _fits(_with_k(self.estimator, self.recommended), self.views, self.subsamples)
        return consensus_matrix(_labels(models, self.subsamples, len(self.views)))


def choose_k(
    views: Any,
    ks: Iterable[int] = range(2, 9),
    *,
    n_subsamples: int = 20,
    share: float = 0.8,
    n_twins: int = 20,
    n_jobs: int | None = None,
    random_state: Any = None,
    progress: bool = True,
    checkpoint: str | os.PathLike[str] | None = None,
    estimator: KernelMultiviewNMF | None = None,
) -> ClusterNumber:
    """Recommend a number of clusters, or say that there are no clear ones.

    Any method finds k clusters in anything, and cuts an elongated cloud in two at the same place every
    time. So everything is compared with *twins* of the data that have no clusters: one Gaussian with the
    same means and the same covariances of all features, within and between views (see `gaussian_twin`).
    If the data are themselves one Gaussian, twins are exchangeable with them, however elongated it is
    and however much views share.

    A number of clusters is *clear* if its loss lies more than 10 % below that of the twins, and further
    than one more twin would in one of 200 cases (about three standard deviations), and if subsamples
    agree more than those of twins. The most stable of the clear ones is recommended. Distant clusters
    may be merged as stably as they can be separated, so of those within 0.02 of the most stable the
    largest is taken. Prediction strength, PAC and held-out loss are given beside it; held-out loss is
    calibrated for each k, so it does not compare between them.

    Parameters
    ----------
    views : dict, list, Views or array
    ks : iterable of int, default=range(2, 9)
    n_subsamples : int, default=20
    share : float, default=0.8
        Share of the samples in each subsample.
    n_twins : int, default=20
        Fewer are faster, and ask for more of clusters to be called clear.
    n_jobs : int, optional
        Number of processes, as in joblib. The result does not depend on it.
    random_state : int, RandomState or None
    progress : bool, default=True
    checkpoint : path, optional
        A file for the numbers of finished parts, from which an interrupted run goes on. It holds nothing
        about single samples. One of other data or settings is refused.
    estimator : KernelMultiviewNMF, optional
        Parameters other than the number of clusters.

    Returns
    -------
    ClusterNumber

    Notes
    -----
    A single cloud that is far from Gaussian (very skewed, or a curved sheet) differs from its twins too,
    and may be called clustered. Groups that blur into a continuum give no clear clusters, though a cut
    through them may be useful. Views are brought to scale once, on all samples. Absent views of twins
    are absent for the same samples.

    Examples
    --------
    >>> import viewloom as vl
    >>> views, y = vl.simulate.blobs_views(60, n_views=2, n_clusters=3, separation=6.0, random_state=0)
    >>> found = choose_k(views, [2, 3], n_subsamples=3, n_twins=6, random_state=0, progress=False)
    >>> found.recommended
    3
    """
    seed = seed_of(random_state, checkpoint)
    views, model = Views(views), base_model(estimator, None, seed)
    refuse_precomputed(model, views)
    ks = _checked_ks(ks, len(views), share, n_twins)
    store = open_checkpoint(checkpoint, views, "choose_k", model, ks, n_subsamples, share, n_twins, seed)
    scaled, model = in_scale(views, model.scale), model.set_params(scale=None)
    subsamples = _subsamples(len(views), n_subsamples, share, seed)
    with progress_bar("Counting clusters", len(ks) + n_twins, progress) as tick:
        jobs = Jobs(n_jobs, store, tick)
        jobs.run(judge_k, {f"k={k}": (_with_k(model, k), scaled, subsamples, seed) for k in ks})
        jobs.run(judge_twin, {f"twin {t}": (model, scaled, ks, share, (seed, t)) for t in range(n_twins)})
    table = tabulate(
        ks,
        [jobs.records[f"k={k}"] for k in ks],
        [jobs.records[f"twin {t}"] for t in range(n_twins)],
    )
    recommended = recommend(table)
    return ClusterNumber(recommended, reasons(table, recommended), table, scaled, model, subsamples)


def judge_k(model: KernelMultiviewNMF, views: Views, subsamples: list[Array], seed: int) -> Record:
    """Everything about one number of clusters on the data."""
    models = _fits(model, views, subsamples)
    labels = _labels(models, subsamples, len(views))
    return {
        "stability": pairwise_ari(labels).tolist(),
        "pac": pac(consensus_matrix(labels)),
        "loss": [fitted.objective_ for fitted in models],
        "held_out": [
            -fitted.score(views[_others(rows, len(views))])
            for fitted, rows in zip(models, subsamples, strict=True)
        ],
        "prediction_strength": _strengths(model, views, _subsamples(len(views), SPLITS, 0.5, seed)),
    }


def judge_twin(
    model: KernelMultiviewNMF, views: Views, ks: Sequence[int], share: float, seed: tuple[int, int]
) -> Record:
    """Stability and loss of every number of clusters on one Gaussian twin."""
    twin = gaussian_twin(views, np.random.default_rng(seed))
    subsamples = _subsamples(len(views), TWIN_SUBSAMPLES, share, seed)
    record: Record = {"stability": [], "loss": []}
    for k in ks:
        models = _fits(_with_k(model, k), twin, subsamples)
        record["stability"].append(float(pairwise_ari(_labels(models, subsamples, len(views))).mean()))
        record["loss"].append(float(np.mean([fitted.objective_ for fitted in models])))
    return record


def gaussian_twin(views: Views, rng: np.random.Generator) -> Views:
    """A draw from one Gaussian with exactly the means and covariances of the data, of all views together.

    With ``H`` an orthonormal basis (n - 1 x n) of what is orthogonal to the constant, ``H X = Q R``;
    ``Q`` is replaced by a random orthonormal basis ``Q_0`` (Langsrud 2005), so that ``X_0 = H^T Q_0 R +
    mean`` has the covariances of ``X``. Absent values are the means of their features while this is done.

    Parameters
    ----------
    views : Views
    rng : Generator

    Examples
    --------
    >>> X = np.random.default_rng(0).exponential(size=(20, 3))
    >>> twin = gaussian_twin(Views(X), np.random.default_rng(1))["view0"]
    >>> bool(np.allclose(np.cov(twin.T), np.cov(X.T)) and np.allclose(twin.mean(axis=0), X.mean(axis=0)))
    True
    """
    X, means = _filled(views)
    H = scipy.linalg.helmert(len(X))
    R = np.linalg.qr(H @ X, mode="r")  # r x d
    Q, T = np.linalg.qr(rng.standard_normal((len(H), len(R))))
    Q *= np.sign(np.diagonal(T))  # uniform over all orthonormal bases
    blocks = np.split(H.T @ (Q @ R) + means, np.cumsum(views.n_features)[:-1], axis=1)
    for block, present in zip(blocks, views.present.T, strict=True):
        block[~present] = np.nan
    return Views(blocks, names=views.names)


def _filled(views: Views) -> tuple[Array, Array]:
    """All features side by side (n x d), absent values replaced by their means, and the means."""
    blocks = [X.toarray() if sp.issparse(X) else np.array(X, dtype=np.float64) for X in views.blocks]
    means = [X[views.rows(a)].mean(axis=0) for a, X in enumerate(blocks)]
    for a, X in enumerate(blocks):
        X[~views.present[:, a]] = means[a]
    return np.hstack(blocks), np.concatenate(means)


def in_scale(views: Views, scale: Any) -> Views:
    """Views as the estimator scales them, so that twins can be drawn in the same scale."""
    scales = per_view(scale, views.names, "scale")
    scalers = [fit_scaler(scales[a], X[views.rows(a)]) for a, X in enumerate(views.blocks)]
    present = informative_presence(views, scalers)
    blocks = [
        _transformed(scaler, X, views.rows(a))
        for a, (scaler, X) in enumerate(zip(scalers, views.blocks, strict=True))
    ]
    return Views(blocks, names=views.names, present=present)


def _transformed(scaler: Any, X: Any, rows: Array) -> Any:
    if sp.issparse(X):
        return scaler.transform(X)  # rows of absent samples are empty and stay so
    scaled = np.full(X.shape, np.nan)
    scaled[rows] = scaler.transform(X[rows])
    return scaled


def tabulate(ks: Sequence[int], data: Sequence[Record], twins: Sequence[Record]) -> pd.DataFrame:
    """One row per number of clusters: the data, the twins, and how far they are apart."""
    table = pd.DataFrame({"k": list(ks)})
    for measure in ("stability", "held_out"):
        table[measure] = [float(np.mean(record[measure])) for record in data]
        table[f"{measure}_std"] = [float(np.std(record[measure])) for record in data]
    for measure in ("pac", "prediction_strength", "loss"):
        table[measure] = [float(np.mean(record[measure])) for record in data]
    losses = np.array([twin["loss"] for twin in twins])  # twins x ks
    table["twin_stability"] = np.mean([twin["stability"] for twin in twins], axis=0)
    table["twin_loss"] = losses.mean(axis=0)
    table["excess"] = table["stability"] - table["twin_stability"]
    saved = table["twin_loss"] - table["loss"]
    table["gap"] = saved / np.maximum(table["twin_loss"], np.finfo(float).tiny)
    table["z"] = saved / np.maximum(losses.std(axis=0, ddof=1), 1e-9)
    significant = table["z"] > least_z(len(twins))
    table["clear"] = significant & (table["gap"] > LEAST_GAP) & (table["excess"] > 0.0)
    return table


def least_z(n_twins: int) -> float:
    """What one more twin exceeds with probability `LEVEL`, in standard deviations of `n_twins` (Student's t).

    Examples
    --------
    >>> round(least_z(20), 1), round(least_z(6), 1)
    (2.9, 4.4)
    """
    return float(scipy.stats.t.isf(LEVEL, n_twins - 1) * np.sqrt(1.0 + 1.0 / n_twins))


def recommend(table: pd.DataFrame) -> int | None:
    """The most stable of the clear numbers of clusters, of equally stable ones the largest."""
    clear = table[table["clear"]]
    if clear.empty:
        return None
    stable = clear["stability"] >= clear["stability"].max() - EQUALLY_STABLE
    return int(clear.loc[stable, "k"].max())


def reasons(table: pd.DataFrame, recommended: int | None) -> list[str]:
    """Why this number, or why none, in plain sentences."""
    if recommended is None:
        span = f"{table['k'].min()} to {table['k'].max()}"
        return [
            f"No clear clusters: with no number from {span} do the data fall into groups that are clearly "
            "tighter and more stable than those cut from a single Gaussian cloud with the same correlations.",
            "Nearest to it: " + _against_twins(_first(table, "gap")),
        ]
    chosen = _first(table[table["k"] == recommended], "k")
    others = table[table["clear"] & (table["k"] != recommended)]
    reasons = [_against_twins(chosen), _strength(chosen), _ambiguity(chosen)]
    return reasons if others.empty else [*reasons, "Next: " + _against_twins(_first(others, "stability"))]


def _first(table: pd.DataFrame, by: str) -> dict[Any, Any]:
    return table.sort_values(by, ascending=False, kind="stable").to_dict("records")[0]


def _against_twins(row: dict[Any, Any]) -> str:
    way = "below" if row["gap"] >= 0.0 else "above"
    return (
        f"k = {row['k']}: clusterings of two subsamples agree with a mean ARI of {row['stability']:.2f} "
        f"(single Gaussian cloud: {row['twin_stability']:.2f}), and the loss is {abs(row['gap']):.0%} {way} "
        f"that of such a cloud (z = {row['z']:.1f})."
    )


def _strength(row: dict[Any, Any]) -> str:
    verdict = "reaches" if row["prediction_strength"] >= STRONG else "falls short of"
    return (
        f"Prediction strength is {row['prediction_strength']:.2f}, which {verdict} the usual {STRONG} ("
        "pairs of the worst cluster that a model of the other half of the samples keeps together)."
    )


def _ambiguity(row: dict[Any, Any]) -> str:
    return (
        f"{row['pac']:.0%} of all pairs of samples are together in some subsamples and apart in others (PAC)."
    )


def _fits(model: KernelMultiviewNMF, views: Views, subsamples: list[Array]) -> list[KernelMultiviewNMF]:
    return [clone(model).fit(views[rows]) for rows in subsamples]


def _labels(models: list[KernelMultiviewNMF], subsamples: list[Array], n: int) -> Array:
    """Clusters of all samples (subsamples x n), -1 where a subsample lacks one."""
    labels = np.full((len(models), n), ABSENT)
    for row, model, rows in zip(labels, models, subsamples, strict=True):
        row[rows] = model.labels_
    return labels


def _strengths(model: KernelMultiviewNMF, views: Views, halves: list[Array]) -> list[float]:
    """Prediction strength of both halves of every split."""
    strengths = []
    for rows in halves:
        parts = views[rows], views[_others(rows, len(views))]
        one, other = (clone(model).fit(part) for part in parts)
        strengths.append(prediction_strength(one.predict(parts[1]), other.labels_))
        strengths.append(prediction_strength(other.predict(parts[0]), one.labels_))
    return strengths


def _with_k(model: KernelMultiviewNMF, k: int) -> KernelMultiviewNMF:
    return clone(model).set_params(n_clusters=k)  # type: ignore[no-any-return]


def _subsamples(n: int, count: int, share: float, seed: Any) -> list[Array]:
    rng = np.random.default_rng(seed)
    return [np.sort(rng.permutation(n)[: round(share * n)]) for _ in range(count)]


def _others(rows: Array, n: int) -> Array:
    return np.setdiff1d(np.arange(n), rows)


def _checked_ks(ks: Iterable[int], n: int, share: float, n_twins: int) -> list[int]:
    found = sorted({int(k) for k in ks})
    if n_twins < 2:
        raise InputError(f"n_twins must be 2 or more, to tell how much twins differ; got {n_twins}.")
    if not 0.5 <= share < 1.0:
        raise InputError(f"share must be at least 0.5 and less than 1, got {share}.")
    if not found or found[0] < 2:
        raise InputError(f"ks must be numbers of clusters of 2 or more, got {found}.")
    if found[-1] > n // 4:
        raise InputError(
            f"{found[-1]} clusters cannot be assessed with {n} samples; give at least 4 samples a cluster."
        )
    return found
