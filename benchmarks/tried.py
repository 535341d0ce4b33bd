"""Variants of the default that were tried and not kept, and its start: what the solver adds, by group.

python benchmarks/quality.py --ablation --seeds 1 --methods viewloom --variants benchmarks/tried.py
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from methods import Method, Outcome, replaced, viewloom
from offers import Offer
from sklearn.covariance import ledoit_wolf_shrinkage

import viewloom as vl
from viewloom.kernels.diffusion import Diffusion
from viewloom.models import fitting
from viewloom.models.scaling import Standard, fit_scaler

Array = np.ndarray
WIDEST = 6000  # features of a view that is decorrelated


def start_only(offer: Offer, n_clusters: int, seed: int) -> Outcome:
    """The clusters with which the solver begins."""
    begun: list[Array] = []

    def recorded(*given: Any) -> Iterator[Array]:
        for start in starts(*given):
            begun.append(start)
            yield start

    starts = fitting.starts
    kernel = "precomputed" if offer.is_kernel else "diffusion"
    with replaced(fitting, "starts", recorded):
        vl.KernelMultiviewNMF(n_clusters, kernel=kernel, max_iter=1, random_state=seed).fit(offer.views)
    return Outcome([begun[0].argmax(axis=0)])


def eigenvectors(offer: Offer, n_clusters: int, seed: int) -> Outcome:
    """As many eigenvectors of the graphs as clusters, without decay."""
    kernel: Any = "precomputed" if offer.is_kernel else Diffusion(time=0.0, rank=n_clusters)
    model = vl.KernelMultiviewNMF(n_clusters, kernel=kernel, random_state=seed).fit(offer.views)
    return Outcome([model.labels_], model.view_weights_)


def two_kernels(offer: Offer, n_clusters: int, seed: int) -> Outcome:
    """Each view twice, with the diffusion kernel and with the linear kernel."""
    if offer.is_kernel:
        return viewloom("").fit(offer, n_clusters, seed)
    kernels = ["diffusion", "linear"] * len(offer.views)
    model = vl.KernelMultiviewNMF(n_clusters, kernel=kernels, random_state=seed)
    model.fit([X for X in offer.views for _ in range(2)])
    return Outcome([model.labels_], model.view_weights_.reshape(-1, 2).sum(axis=1))


def half_decorrelated(offer: Offer, n_clusters: int, seed: int) -> Outcome:
    """Standardised views times the inverse fourth root of their shrunk covariance."""
    if offer.is_kernel:
        return viewloom("").fit(offer, n_clusters, seed)
    changed = [_half_decorrelated(X) for X in offer.views]
    views = [X if Z is None else Z for X, Z in zip(offer.views, changed, strict=True)]
    scale = ["auto" if Z is None else None for Z in changed]
    model = vl.KernelMultiviewNMF(n_clusters, scale=scale, random_state=seed).fit(views)
    return Outcome([model.labels_], model.view_weights_)


def _half_decorrelated(X: Any) -> Array | None:
    """Coordinates of the samples, NaN for absent rows; None for counts, sparse and very wide views."""
    if sp.issparse(X) or X.shape[1] > WIDEST:
        return None
    seen = ~np.isnan(X).any(axis=1)
    scaler = fit_scaler("auto", X[seen])
    if not isinstance(scaler, Standard):
        return None
    Z = scaler.transform(X[seen])
    n, d = Z.shape
    shrinkage = ledoit_wolf_shrinkage(Z, assume_centered=True)
    U, s, _ = np.linalg.svd(Z, full_matrices=False)
    variances = (1.0 - shrinkage) * s**2 / n + shrinkage * (Z**2).sum() / (n * d)
    found = np.full((len(X), len(s)), np.nan)
    found[seen] = U * s * np.maximum(variances, 1e-9) ** -0.25
    return found


def _method(name: str, fit: Any) -> Method:
    return replace(viewloom(name), fit=fit, settings=name)


METHODS = (
    _method("start only", start_only),
    _method("k eigenvectors without decay", eigenvectors),
    _method("each view with two kernels", two_kernels),
    _method("views half decorrelated", half_decorrelated),
    viewloom("linear kernel", kernel="linear"),
)
