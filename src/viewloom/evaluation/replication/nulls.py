"""Null cohorts, Gaussian cohorts and halves of the second cohort, transferred and refitted."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import clone

from viewloom.data.views import Views
from viewloom.evaluation.inspection import standardised
from viewloom.evaluation.replication.cohort import Cohort, dense
from viewloom.evaluation.replication.statistics import (
    Profiles,
    agreement,
    in_group,
    jaccard,
    matched,
    nearest_samples,
)
from viewloom.evaluation.selection.jobs import Jobs, Record
from viewloom.evaluation.twins import gaussian_twin
from viewloom.models.problem import NewSamples
from viewloom.models.scaling import Centred, Standard, fit_scaler
from viewloom.runtime.progress import progress_bar

Array = np.ndarray
HALVES = 10  # random halves of the second cohort, for the intervals of its weights
VIEWS, CONTINUUM = "views", "continuum"  # kinds of null cohorts


def drawn_cohorts(
    cohort: Cohort, n_permutations: int, n_continuum: int, seed: int, n_jobs: int | None, progress: bool
) -> dict[str, list[Record]]:
    """Null cohorts, Gaussian cohorts and halves of the second cohort, transferred and refitted."""
    kind = VIEWS if len(cohort.views) > 1 else CONTINUUM
    n_gaussian = n_continuum if kind == VIEWS else 0
    distances = cohort.profiles.distances
    units: dict[str, tuple[Any, ...]] = {
        f"null {i}": (cohort, distances, kind, [seed, 1, i]) for i in range(n_permutations)
    }
    units |= {f"gaussian {i}": (cohort, distances, CONTINUUM, [seed, 2, i]) for i in range(n_gaussian)}
    n_halves = HALVES if n_permutations else 0
    halves = {f"half {i}": (cohort, [seed, 3, i]) for i in range(n_halves)}
    with progress_bar("Refitting null cohorts", len(units) + n_halves, progress) as tick:
        jobs = Jobs(n_jobs, None, tick)
        jobs.run(_null, units)
        jobs.run(_half, halves)
    return {
        "null": [jobs.records[f"null {i}"] for i in range(n_permutations)],
        "gaussian": [jobs.records[f"gaussian {i}"] for i in range(n_gaussian)],
        "half": [jobs.records[f"half {i}"] for i in range(n_halves)],
    }


def _null(cohort: Cohort, distances: list[Array], kind: str, seed: list[int]) -> Record:
    """A cohort without shared structure, transferred and refitted."""
    rng = np.random.default_rng(seed)
    if kind == VIEWS:
        samples, own, distances = _shuffled(cohort, distances, rng)
        estimator = clone(cohort.estimator)
    else:
        samples, own, distances = _gaussian(cohort, rng)
        estimator = clone(cohort.estimator).set_params(scale=None)
    transferred = cohort.model.memberships(samples).argmax(axis=1)
    fitted = estimator.fit(own)
    found = matched(transferred, fitted.labels_, cohort.k)
    nearest = nearest_samples(distances, cohort.rows, cohort.weights, cohort.n)
    return {
        "ari": agreement(transferred, found),
        "jaccard": jaccard(transferred, found, cohort.k).tolist(),
        "in_group": in_group(transferred, nearest, cohort.k).tolist(),
        "weights": fitted.view_weights_.tolist(),
    }


def _shuffled(
    cohort: Cohort, distances: list[Array], rng: np.random.Generator
) -> tuple[NewSamples, Views, list[Array]]:
    """The cohort with the rows of each view permuted, the same ones for transfer, refit and distances."""
    scaled, blocks, far = dict(cohort.samples.scaled), [], []
    for a, where, name, D in zip(cohort.views, cohort.rows, cohort.names, distances, strict=True):
        order = rng.permutation(len(where))
        scaled[a] = cohort.samples.scaled[a][order]
        at = np.arange(cohort.n)
        at[where] = where[order]
        blocks.append(cohort.own[name][at])
        far.append(D[np.ix_(order, order)])
    return replace(cohort.samples, scaled=scaled), cohort.own.replaced(blocks=blocks), far


def _gaussian(cohort: Cohort, rng: np.random.Generator) -> tuple[NewSamples, Views, list[Array]]:
    """One Gaussian with the means and covariances of the scaled cohort."""
    names = cohort.names
    blocks = []
    for a, where in zip(cohort.views, cohort.rows, strict=True):
        X = np.full((cohort.n, cohort.samples.scaled[a].shape[1]), np.nan)
        X[where] = dense(cohort.samples.scaled[a])
        blocks.append(X)
    twin = gaussian_twin(Views(blocks, names=names), rng)
    scaled = {a: twin.blocks[i][cohort.rows[i]] for i, a in enumerate(cohort.views)}
    own = [
        rescaled(X, cohort.model.problem.views[a].scaler)
        for a, X in zip(cohort.views, twin.blocks, strict=True)
    ]
    Z = [standardised(X) for X in scaled.values()]
    empty = [np.zeros((cohort.k, X.shape[1])) for X in Z]
    far = Profiles.of(Z, cohort.rows, empty, cohort.weights).distances
    return replace(cohort.samples, scaled=scaled), Views(own, names=names), far


def rescaled(X: Array, scaler: Any) -> Array:
    """Observed rows in the scale that they would have in a fit of their own."""
    scale = "standard" if isinstance(scaler, Standard) else "centre" if isinstance(scaler, Centred) else None
    if scale is None:
        return X
    Z, seen = X.copy(), ~np.isnan(X[:, 0])
    Z[seen] = fit_scaler(scale, X[seen]).transform(X[seen])
    return Z


def _half(cohort: Cohort, seed: list[int]) -> Record:
    """Weights of the views in a random half of the second cohort; none if it is too small."""
    chosen = np.random.default_rng(seed).permutation(cohort.n)[: cohort.n // 2]
    try:
        fitted = clone(cohort.estimator).fit(cohort.own[np.sort(chosen)])
    except ValueError:
        return {"weights": [np.nan] * len(cohort.views)}
    return {"weights": fitted.view_weights_.tolist()}
