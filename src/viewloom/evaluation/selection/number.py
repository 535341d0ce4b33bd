"""How many clusters there are, if any."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import clone

from viewloom.data.views import Views
from viewloom.evaluation.selection.drawing import MOST_SAMPLES, at_most
from viewloom.evaluation.selection.evidence import (
    LEAST_GAP,
    LEAST_STABILITY,
    TWIN_SUBSAMPLES,
    judged_estimator,
    labels_of,
    least_z,
    loss_of,
    measured,
    subsamples,
    tighter,
)
from viewloom.evaluation.selection.jobs import Jobs, Record, open_checkpoint, quiet
from viewloom.evaluation.selection.search import base_model, refuse_precomputed, seed_of
from viewloom.evaluation.selection.stability import (
    consensus_matrix,
    pairwise_ari,
    prediction_strength,
    sampled_pac,
)
from viewloom.evaluation.twins import Twins
from viewloom.models.kernel_nmf import KernelMultiviewNMF
from viewloom.runtime.errors import InputError
from viewloom.runtime.progress import progress_bar

Array = np.ndarray
LEVEL = 0.005  # how often one more twin may save as much, for each number of clusters
STRONG = 0.8  # prediction strength of what Tibshirani and Walther call clusters
EQUALLY_STABLE = 0.02  # difference of mean ARI that decides nothing
SPLITS = 2  # into halves
FIRST_TWINS, OPEN_Z = 4, 1.0  # twins of every k; z above which the other twins are made


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
        ``pac``, ``loss`` (reconstruction error between 0, the least possible, and 1, that of a single
        cluster), ``held_out``, ``held_out_std`` (calibrated loss of samples left out);
        ``prediction_strength`` on halves; ``twin_stability``, ``twin_loss`` (means over twins, of which there
        are ``twins``), ``excess`` (stability above the twins'), ``gap`` (loss below the twins') and its
        ``z``; ``clear``.
    consensus : (n, n) array or None
        How often samples share a cluster at the recommended k; fitted when first asked for. Of `views`, which
        are those that were drawn of more samples than `max_samples`.
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
        return consensus_matrix(labels_of(models, self.subsamples, len(self.views)))


def choose_k(
    views: Any,
    ks: Iterable[int] = range(2, 9),
    *,
    n_subsamples: int = 10,
    share: float = 0.8,
    n_twins: int = 20,
    n_jobs: int | None = None,
    random_state: Any = None,
    progress: bool = True,
    checkpoint: str | os.PathLike[str] | None = None,
    estimator: KernelMultiviewNMF | None = None,
    max_samples: int | None = MOST_SAMPLES,
) -> ClusterNumber:
    """Recommend a number of clusters, or say that there are no clear ones.

    Any method finds k clusters in anything, and cuts an elongated cloud in two at the same place every
    time. So everything is compared with *twins* of the data that have no clusters: one cloud with the same
    margins and the same correlations of all features, within and between views (see
    `viewloom.evaluation.twins`).

    A number of clusters is *clear* if its loss, which lies between 0, the least possible, and 1, that of a
    single cluster, is more than 0.1 below that of the twins, and further than one more twin would be in one
    of 200 cases (about three standard deviations), and if subsamples agree with a mean ARI of at least 0.6
    and more than those of twins. The most stable of the clear ones is recommended. Distant clusters may be
    merged as stably as they can be separated, so of those within 0.02 of the most stable the largest is
    taken. Prediction strength, PAC and held-out loss are given beside it; held-out loss is calibrated for
    each k, so it does not compare between them. Numbers of clusters that four twins rule out are not
    compared with the other twins.

    Parameters
    ----------
    views : dict, list, Views or array
    ks : iterable of int, default=range(2, 9)
    n_subsamples : int, default=10
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
    max_samples : int or None, default=4000
        Of more samples so many are drawn at random; time and memory do not grow further. None uses all.

    Returns
    -------
    ClusterNumber

    Notes
    -----
    What makes a number of clusters clear, stability and the share of loss that is saved, does not depend on
    the number of samples once there are many. What is lost is small clusters: one with fewer than a
    hundredth of the samples has too few left to be found.

    A single cloud that no elliptical copula describes, such as a curved sheet, differs from its twins and
    may be called clustered. Groups that blur into a continuum give no clear clusters, though a cut
    through them may be useful. Absent views of twins are absent for the same samples. How often clusters
    are found where there are none, and where there are some, is measured by ``benchmarks/calibration.py``.

    Examples
    --------
    >>> import viewloom as vl
    >>> views, y = vl.simulate.blobs_views(60, n_views=2, n_clusters=3, separation=6.0, random_state=0)
    >>> found = choose_k(views, [2, 3], n_subsamples=3, n_twins=6, random_state=0, progress=False)
    >>> found.recommended
    3
    """
    seed = seed_of(random_state, checkpoint)
    everyone, model = Views(views), base_model(estimator, None, seed)
    refuse_precomputed(model, everyone)
    views = at_most(everyone, max_samples, seed)
    ks = _checked_ks(ks, len(views), share, n_twins)
    store = open_checkpoint(checkpoint, views, "choose_k", model, ks, n_subsamples, share, n_twins, seed)
    model, parts = judged_estimator(model, seed), subsamples(len(views), n_subsamples, share, _rng(seed))
    with progress_bar("Counting clusters", len(ks) + n_twins, progress) as tick:
        jobs = Jobs(n_jobs, store, tick)
        jobs.run(judge_k, {f"k={k}": (_with_k(model, k), views, parts, seed) for k in ks})
        table = beside_twins(jobs, ks, model, Twins(views), share, n_twins, seed)
    recommended = recommend(table)
    why = [*reasons(table, recommended), *_drawn(len(views), len(everyone))]
    return ClusterNumber(recommended, why, table, views, model, parts)


def _drawn(used: int, n: int) -> list[str]:
    return [] if used == n else [f"Assessed in {used:,} of {n:,} samples, drawn at random."]


def beside_twins(
    jobs: Jobs,
    ks: list[int],
    model: KernelMultiviewNMF,
    twins: Twins,
    share: float,
    n_twins: int,
    seed: int,
) -> pd.DataFrame:
    """The table with twins: a few for every k, the others only for those that may be clear."""
    data = [jobs.records[f"k={k}"] for k in ks]
    names = [f"twin {t}" for t in range(n_twins)]
    first, rest = names[:FIRST_TWINS], names[FIRST_TWINS:]
    jobs.run(judge_twin, {name: (model, twins, ks, share, (seed, t)) for t, name in enumerate(first)})
    table = tabulate(ks, data, [jobs.records[name] for name in first])
    left = still_open(table)
    if not left or not rest:
        jobs.tick(len(rest))
        return table
    more = {name: (model, twins, left, share, (seed, len(first) + t)) for t, name in enumerate(rest)}
    jobs.run(judge_twin, more)
    return tabulate(ks, data, [jobs.records[name] for name in names])


def judge_k(model: KernelMultiviewNMF, views: Views, parts: list[Array], seed: int) -> Record:
    """Everything about one number of clusters on the data."""
    n, models = len(views), _fits(model, views, parts)
    labels = labels_of(models, parts, n)
    halves = subsamples(n, SPLITS, 0.5, np.random.default_rng(seed))
    return {
        "stability": pairwise_ari(labels).tolist(),
        "pac": sampled_pac(labels, np.random.default_rng(seed)),
        "loss": [loss_of(fitted) for fitted in models],
        "held_out": [
            -fitted.score(views[_others(rows, n)]) for fitted, rows in zip(models, parts, strict=True)
        ],
        "prediction_strength": _strengths(model, views, halves),
    }


def judge_twin(
    model: KernelMultiviewNMF, twins: Twins, ks: Sequence[int], share: float, seed: tuple[int, int]
) -> Record:
    """Stability and loss of some numbers of clusters on one twin."""
    rng = np.random.default_rng(seed)
    twin = twins.draw(rng)
    parts = subsamples(len(twin), TWIN_SUBSAMPLES, share, rng)
    records = [measured(_with_k(model, k), twin, parts) for k in ks]
    return {"k": list(ks), **{name: [found[name] for found in records] for name in ("stability", "loss")}}


def tabulate(ks: Sequence[int], data: Sequence[Record], twins: Sequence[Record]) -> pd.DataFrame:
    """One row per number of clusters: the data, the twins, and how far they are apart."""
    table = pd.DataFrame({"k": list(ks)})
    for measure in ("stability", "held_out"):
        table[measure] = [float(np.mean(record[measure])) for record in data]
        table[f"{measure}_std"] = [float(np.std(record[measure])) for record in data]
    for measure in ("pac", "prediction_strength", "loss"):
        table[measure] = [float(np.mean(record[measure])) for record in data]
    table["twins"] = [len(_of_twins(twins, k, "loss")) for k in ks]
    table["twin_stability"] = [float(np.mean(_of_twins(twins, k, "stability"))) for k in ks]
    table["twin_loss"] = [float(np.mean(_of_twins(twins, k, "loss"))) for k in ks]
    table["excess"] = table["stability"] - table["twin_stability"]
    beside = [tighter(loss, _of_twins(twins, k, "loss")) for loss, k in zip(table["loss"], ks, strict=True)]
    table[["gap", "z"]] = np.reshape(beside, (-1, 2))
    significant = table["z"] > [least_z(count, LEVEL) for count in table["twins"]]
    tight = significant & (table["gap"] > LEAST_GAP)
    table["clear"] = tight & (table["excess"] > 0.0) & (table["stability"] >= LEAST_STABILITY)
    return table


def _of_twins(twins: Sequence[Record], k: int, measure: str) -> list[float]:
    return [twin[measure][twin["k"].index(k)] for twin in twins if k in twin["k"]]


def still_open(table: pd.DataFrame) -> list[int]:
    """Numbers of clusters that may turn out to be clear with more twins."""
    possible = (table["z"] > OPEN_Z) & (table["gap"] > LEAST_GAP / 2) & (table["excess"] > -0.1)
    return [int(k) for k in table.loc[possible & (table["stability"] >= LEAST_STABILITY), "k"]]


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
            "tighter and more stable than those cut from a single cloud with the same margins and "
            "correlations.",
            "Nearest to it: " + _against_twins(_first(table, "gap")),
        ]
    chosen = _first(table[table["k"] == recommended], "k")
    others = table[table["clear"] & (table["k"] != recommended)]
    reasons = [_against_twins(chosen), _strength(chosen), _ambiguity(chosen)]
    return reasons if others.empty else [*reasons, "Next: " + _against_twins(_first(others, "stability"))]


def _first(table: pd.DataFrame, by: str) -> dict[Any, Any]:
    return table.sort_values(by, ascending=False, kind="stable").to_dict("records")[0]


def _against_twins(row: dict[Any, Any]) -> str:
    return (
        f"k = {row['k']}: clusterings of two subsamples agree with a mean ARI of {row['stability']:.2f} "
        f"(single cloud: {row['twin_stability']:.2f}), and the loss, between 0 (least possible) and 1 (one "
        f"cluster), is {row['loss']:.2f} (single cloud: {row['twin_loss']:.2f}, z = {row['z']:.1f})."
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


def _rng(seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)


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
