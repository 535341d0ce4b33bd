"""Data thinning: two independent parts of the same data, one to cluster and one to test."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import clone

from viewloom.clinical.combining import cauchy_combination
from viewloom.clinical.held_out import adjusted, compared_columns
from viewloom.data.views import Views
from viewloom.runtime.errors import InputError

Array = np.ndarray
NOISES = ("gaussian", "poisson")
REPEATS = 10
STREAM = 7417


def thinned(
    X: Any, noise: str, *, covariance: Array | None = None, share: float = 0.5, random_state: Any = 0
) -> tuple[Array, Array]:
    """Split every value in two parts that sum to it, and are independent if its noise is as stated.

    Gaussian values ``x ~ N(mu, Sigma)`` become ``x1 = share x + w`` and ``x2 = x - x1`` with ``w ~ N(0, share
    (1 - share) Sigma)``; counts ``x ~ Poisson(mu)`` become ``x1 ~ Binomial(x, share)`` and ``x2 = x - x1``
    (Neufeld et al. 2024). Both parts are independent given mu, with means ``share mu`` and ``(1 - share)
    mu``.

    Parameters
    ----------
    X : (n, d) array
    noise : {"gaussian", "poisson"}
    covariance : (d, d) array, optional
        Covariance of the noise, required for Gaussian values. It must come from elsewhere, such as from a
        reference sample or repeated measurements: with the covariance of the same sample the parts are
        uncorrelated whatever the data, and clusters cannot be found again.
    share : float, default=0.5
    random_state : int or Generator, default=0

    Returns
    -------
    x1, x2 : (n, d) arrays

    Examples
    --------
    >>> first, second = thinned([[4, 0], [2, 9]], "poisson")
    >>> (first + second).tolist()
    [[4.0, 0.0], [2.0, 9.0]]
    """
    X = np.asarray(X, dtype=float)
    if noise not in NOISES:
        raise InputError(f"noise must be one of {list(NOISES)}, got {noise!r}.")
    if not 0.0 < share < 1.0:
        raise InputError(f"share must be between 0 and 1, got {share}.")
    if not np.isfinite(X).all():
        raise InputError(f"{int((~np.isfinite(X)).sum())} values are missing; thinning needs complete data.")
    # a stream of its own: that of the seed alone may have made the data
    known = isinstance(random_state, np.random.Generator)
    rng = random_state if known else np.random.default_rng([random_state, STREAM])
    first = _binomial(X, share, rng) if noise == "poisson" else _gaussian(X, covariance, share, rng)
    return first, X - first


def _binomial(X: Array, share: float, rng: np.random.Generator) -> Array:
    if (X < 0).any() or (np.round(X) != X).any():
        raise InputError("Counts are whole numbers that are not negative; use noise='gaussian' for others.")
    return rng.binomial(X.astype(np.int64), share).astype(float)


def _gaussian(X: Array, covariance: Array | None, share: float, rng: np.random.Generator) -> Array:
    if covariance is None:
        raise InputError(
            "Gaussian thinning needs the covariance of the noise, from a reference sample or from repeated "
            "measurements; with the covariance of the clustered sample itself, clusters are not found again."
        )
    given = np.asarray(covariance, dtype=float)
    if given.shape != (X.shape[1], X.shape[1]):
        raise InputError(f"covariance has shape {given.shape}, expected {(X.shape[1], X.shape[1])}.")
    values, vectors = np.linalg.eigh(given)
    if values.min() < -1e-8 * max(values.max(), 1.0):
        raise InputError("covariance has negative eigenvalues; it is not a covariance matrix.")
    scale = np.sqrt(share * (1.0 - share))
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    return np.asarray(share * X + scale * rng.standard_normal(X.shape) @ root.T)


def thinning_tests(
    model: Any,
    views: Any,
    noise: str,
    *,
    covariance: Array | None = None,
    repeats: int = REPEATS,
    random_state: int = 0,
) -> pd.DataFrame:
    """Cluster one part of thinned data, and compare the features of the other part between the clusters.

    The null hypothesis is that all subjects have the same mean of the feature, with noise as stated: one
    Gaussian cloud with this covariance, or Poisson counts of one rate. It holds its level only if that is the
    distribution of the noise: subjects who vary more than the noise, and counts that vary more than Poisson
    counts, are rejected without clusters.

    Parameters
    ----------
    model : estimator
        Its settings are used.
    views : Views
        Complete: every subject has every view.
    noise : {"gaussian", "poisson"}
    covariance : (d, d) array, optional
        Covariance of the noise of all features, views one after the other; required for Gaussian noise.
    repeats : int, default=10
        Times that the data are thinned; p-values are combined by `cauchy_combination`.
    random_state : int, default=0

    Returns
    -------
    DataFrame
        One row per feature: ``view``, ``name``, ``p`` and ``q`` (Benjamini-Hochberg).

    Examples
    --------
    >>> import viewloom as vl
    >>> rng = np.random.default_rng(0)
    >>> counts = rng.poisson(np.where(np.arange(80)[:, None] < 40, 2.0, 12.0), size=(80, 4))
    >>> model = vl.KernelMultiviewNMF(2, kernel="linear", random_state=0)
    >>> bool((thinning_tests(model, {"counts": counts}, "poisson", repeats=3)["q"] < 0.05).all())
    True
    """
    known = Views(views)
    if not known.complete:
        lacking = int((~known.present.all(axis=1)).sum())
        raise InputError(f"{lacking} subjects lack a view; thinning needs subjects with every view.")
    X = np.asarray(known)
    found = [_once(model, known, X, noise, covariance, random_state + i) for i in range(repeats)]
    names = [(view, name) for view in known.names for name in known.feature_names[view]]
    table = pd.DataFrame(names, columns=pd.Index(["view", "name"])).assign(p=cauchy_combination(found))
    return table.assign(q=adjusted(table["p"].to_numpy(dtype=float)))


def _once(model: Any, views: Views, X: Array, noise: str, covariance: Array | None, seed: int) -> Array:
    first, second = thinned(X, noise, covariance=covariance, random_state=seed)
    ends = np.cumsum(views.n_features)[:-1]
    blocks = dict(zip(views.names, np.split(first, ends, axis=1), strict=True))
    labels = clone(model).fit(Views(blocks)).labels_
    return compared_columns(np.asarray(labels), second)[0]
