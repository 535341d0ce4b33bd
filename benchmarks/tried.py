"""Variants of the default that were tried and not kept, and its start: what the solver adds, by group.

python benchmarks/quality.py --ablation --seeds 1 --methods viewloom --variants benchmarks/tried.py
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from methods import (
    Method,
    Outcome,
    inside,
    mahalanobis,
    no_decorrelation,
    no_votes,
    replaced,
    viewloom,
    within,
)
from offers import Offer
from scipy.stats import norm, rankdata
from sklearn.covariance import ledoit_wolf_shrinkage

import viewloom as vl
from viewloom.kernels import shared_graph, votes
from viewloom.kernels.base import PLAIN, Context
from viewloom.kernels.decorrelation import decorrelation
from viewloom.kernels.diffusion import Diffusion, FittedDiffusion
from viewloom.kernels.geometry import Geometry
from viewloom.kernels.linear import factored_rows
from viewloom.kernels.operators import top_eigenpairs, unit_rows
from viewloom.kernels.reliability import Agreement, Structure, dependence
from viewloom.kernels.shared_graph import Walk, normalised
from viewloom.models import fitting
from viewloom.models.scaling import Standard, fit_scaler
from viewloom.solver import objective

Array = np.ndarray
WIDEST = 6000  # features of a view that is decorrelated
BEYOND, LONGEST = 0.25, 60.0  # of `leading_walk`
FARTHEST = 3.0  # standard deviations from the mean at which features are clipped


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


def two_starts(offer: Offer, n_clusters: int, seed: int) -> Outcome:
    """From the shared graph and from the clusters of the linear kernel; the lower objective is kept."""
    if offer.is_kernel:
        return viewloom("").fit(offer, n_clusters, seed)
    model = vl.KernelMultiviewNMF(n_clusters, random_state=seed).fit(offer.views)
    linear = vl.KernelMultiviewNMF(n_clusters, kernel="linear", random_state=seed).fit(offer.views)
    best = min(model, model.refit(init=linear.memberships_), key=lambda found: found.objective_)
    return Outcome([best.labels_], best.view_weights_)


def linear_part(share: float) -> Any:
    """The fit of the diffusion kernel with a share of the leading directions of the linear kernel."""
    own = Diffusion.fit

    def fit(kernel: Diffusion, geometry: Geometry, context: Context = PLAIN) -> FittedDiffusion:
        fitted = own(kernel, geometry, context)
        linear = unit_rows(factored_rows(geometry.X, True).features(3 * context.n_clusters))
        Z = np.hstack([np.sqrt(1.0 - share) * fitted.walk.Z, np.sqrt(share) * linear])
        return replace(fitted, walk=replace(fitted.walk, Z=Z))

    return fit


def leading_walk(cls: Any, W: Any, rank: int, time: float, directions: float) -> Walk:
    """The walk, prolonged until directions beyond the k-th have a quarter of what those up to it have."""
    k = round(directions / 1.5)
    values = top_eigenpairs(normalised(W)[0], rank, tol=1e-5)[0]
    left = np.sort(((1.0 + values) / 2.0).clip(0.0, 1.0))[::-1]
    while (left[k:] ** time).sum() > BEYOND * (left[1:k] ** time).sum() and time < LONGEST:
        time *= 1.2
    return _ALONG.__func__(cls, W, rank, time, directions)


def changed_features(change: Any) -> Any:
    """The default on features that are changed, where these are not counts or frequencies."""

    def fit(offer: Offer, n_clusters: int, seed: int) -> Outcome:
        views = offer.views if offer.is_kernel else [_changed(X, change) for X in offer.views]
        return viewloom("").fit(replace(offer, views=views), n_clusters, seed)

    return fit


def _changed(X: Any, change: Any) -> Any:
    """A view with its observed rows changed; counts, frequencies and sparse views as they are."""
    if sp.issparse(X):
        return X
    seen = ~np.isnan(X).any(axis=1)
    if not isinstance(fit_scaler("auto", X[seen]), Standard):
        return X
    found = np.full(X.shape, np.nan)
    found[seen] = change(X[seen])
    return found


def normal_scores(X: Array) -> Array:
    """Ranks of each feature as quantiles of the normal distribution."""
    return np.asarray(norm.ppf(rankdata(X, axis=0) / (len(X) + 1.0)))


def clipped(X: Array) -> Array:
    """Features with values beyond three standard deviations moved there."""
    mean, deviation = X.mean(axis=0), X.std(axis=0)
    return np.clip(X, mean - FARTHEST * deviation, mean + FARTHEST * deviation)


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


def votes_by_dependence(offer: Offer, n_clusters: int, seed: int) -> Outcome:
    """Views share their votes by what is left of their agreement without what the others confirm."""
    found: list[Array] = []

    def recorded(Z: list[Array], graphs: list[Any], rows: list[Array], k: int) -> tuple[Array, Array]:
        weights, gate = own(Z, graphs, rows, k)
        found.append(dependence(Z, rows, k, weights, Agreement.of(Z, rows, k)))
        return weights, gate

    own = shared_graph.reliability_of
    with (
        replaced(shared_graph, "reliability_of", recorded),
        replaced(votes, "resemblance", lambda *given: found[-1]),
        replaced(votes, "SHARED", 1.0),
    ):
        return viewloom("").fit(offer, n_clusters, seed)


def own_directions(divide_edges: bool) -> Any:
    """Resemblance with provisional clusters from the leading directions of the views themselves."""

    def fit(offer: Offer, n_clusters: int, seed: int) -> Outcome:
        labels: list[Array] = []
        own, of = shared_graph.reliability_of, vars(shared_graph.SharedGraph)["of"]

        def begun(cls: Any, geometries: list[Geometry], rows: list[Array], *sizes: Any) -> Any:
            def recorded(Z: list[Array], graphs: list[Any], rows: list[Array], k: int) -> tuple[Array, Array]:
                weights, gate = own(Z, graphs, rows, k)
                joint = _joint_directions(Z, rows, weights, sizes[0], k)
                labels.append(votes.provisional_clusters(joint, k))
                if divide_edges:
                    weights = weights / votes.resemblance(geometries, rows, labels[-1]).sum(axis=1)
                return weights / weights.sum(), gate

            with replaced(shared_graph, "reliability_of", recorded):
                return of.__func__(cls, geometries, rows, *sizes)

        with (
            replaced(shared_graph.SharedGraph, "of", classmethod(begun)),
            replaced(shared_graph, "provisional_clusters", lambda Z, k: labels[-1]),
            replaced(votes, "SHARED", 1.0),
        ):
            return viewloom("").fit(offer, n_clusters, seed)

    return fit


def _joint_directions(Z: list[Array], rows: list[Array], weights: Array, n: int, k: int) -> Array:
    """Leading directions of all views side by side, zero for samples without a view."""
    blocks = []
    for features, where, weight in zip(Z, rows, weights, strict=True):
        leading = Structure.of(features, k).leading
        block = np.zeros((n, leading.shape[1]))
        block[where] = np.sqrt(weight) * leading
        blocks.append(block)
    return np.hstack(blocks)


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


def _of_earlier(name: str, *changes: tuple[Any, str, Any], **settings: Any) -> Method:
    """The default without votes, and with further changes."""
    return within(viewloom(name, **settings), (shared_graph, "shared_votes", no_votes), *changes)


_ALONG = vars(Walk)["along"]
_PLAIN = (shared_graph, "decorrelation", no_decorrelation)
_SHARED_WHOLLY = (votes, "SHARED", 1.0)

METHODS = (
    _method("start only", start_only),
    _of_earlier("no votes, Mahalanobis distances", (shared_graph, "decorrelation", mahalanobis)),
    _of_earlier("no votes, not decorrelated", _PLAIN),
    _of_earlier(
        "no votes, not decorrelated, share=0.5, theta=0.1",
        _PLAIN,
        kernel=Diffusion(share=0.5),
        theta=0.1,
    ),
    viewloom("linear kernel", kernel="linear"),
    _method("k eigenvectors without decay", eigenvectors),
    _method("each view with two kernels", two_kernels),
    inside("0.3 of the linear kernel", Diffusion, "fit", linear_part(0.3)),
    inside("0.15 of the linear kernel", Diffusion, "fit", linear_part(0.15)),
    _method("two starts, lower objective", two_starts),
    viewloom("n_init=5", n_init=5),
    _method("views half decorrelated", half_decorrelated),
    inside("all features half decorrelated", shared_graph, "decorrelation", half_root),
    inside("0.25 of the graph of all features", shared_graph, "FUSED", 0.25),
    inside("0.5 of the graph of all features", shared_graph, "FUSED", 0.5),
    _method("features as normal scores", changed_features(normal_scores)),
    _method("features clipped", changed_features(clipped)),
    inside("whole vote shared", votes, "SHARED", 1.0),
    inside("half of the vote shared", votes, "SHARED", 0.5),
    _method("whole vote, clusters of own directions", own_directions(divide_edges=False)),
    _method("the same, edges divided, too", own_directions(divide_edges=True)),
    _method("whole vote, by dependence", votes_by_dependence),
    within(
        viewloom("whole vote, resemblance without its root"),
        *((votes, "resemblance", squared(votes.resemblance)), _SHARED_WHOLLY),
    ),
    within(
        viewloom("whole vote, resemblance of features"), (votes, "details", within_features), _SHARED_WHOLLY
    ),
    inside("least vote 0.25", votes, "LEAST_VOTE", 0.25),
    inside("constant loss of 0.5", objective, "DELTA", 0.5),
    inside("constant loss of 2", objective, "DELTA", 2.0),
    viewloom("lam=100", lam=100.0),
    viewloom("lam=1", lam=1.0),
    viewloom("time=4", kernel=Diffusion(time=4.0)),
    viewloom("time=20", kernel=Diffusion(time=20.0)),
    inside("walks until k directions lead", Walk, "along", classmethod(leading_walk)),
)
