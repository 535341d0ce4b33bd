"""Variants of the default that were tried and not kept, and its start: what the solver adds, by group.

python benchmarks/quality.py --ablation --seeds 1 --methods viewloom --variants benchmarks/tried.py
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from methods import Method, Outcome, inside, replaced, viewloom
from offers import Offer
from sklearn.covariance import ledoit_wolf_shrinkage

import viewloom as vl
from viewloom.kernels import shared_graph, votes
from viewloom.kernels.decorrelation import decorrelation
from viewloom.kernels.diffusion import Diffusion
from viewloom.models import fitting
from viewloom.models.scaling import Standard, fit_scaler
from viewloom.solver import objective

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


def within_features(K: Array, labels: Array) -> Array:
    """Similarities of features whose means in each cluster are taken out: ``(I - Q Q^T) K (I - Q Q^T)``."""
    G = (labels[:, None] == np.unique(labels)).astype(float)
    Q = G / np.sqrt(G.sum(axis=0))
    K = K - Q @ (Q.T @ K)
    K = K - (K @ Q) @ Q.T
    return np.asarray(K - np.diag(np.diagonal(K)))


def squared(own: Any) -> Any:
    """The resemblance without its root."""
    return lambda *given: own(*given) ** 2


def half_root(X: Array) -> Array | None:
    """The root of the map: directions of much variance are reduced half as far."""
    root = decorrelation(X)
    if root is None:
        return None
    values, V = np.linalg.eigh(root)
    return np.asarray((V * np.sqrt(values)) @ V.T)


def _method(name: str, fit: Any) -> Method:
    return replace(viewloom(name), fit=fit, settings=name)


METHODS = (
    _method("start only", start_only),
    _method("k eigenvectors without decay", eigenvectors),
    _method("each view with two kernels", two_kernels),
    _method("views half decorrelated", half_decorrelated),
    inside("all features half decorrelated", shared_graph, "decorrelation", half_root),
    inside("0.4 of the graph of all features", shared_graph, "FUSED", 0.4),
    inside("resemblance without its root", votes, "resemblance", squared(votes.resemblance)),
    inside("resemblance of features within clusters", votes, "details", within_features),
    inside("constant loss of 0.5", objective, "DELTA", 0.5),
    inside("constant loss of 2", objective, "DELTA", 2.0),
    inside("least vote 0.25", votes, "LEAST_VOTE", 0.25),
    viewloom("lam=100", lam=100.0),
    viewloom("lam=1", lam=1.0),
)
