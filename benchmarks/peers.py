"""Other people's methods, each in its documented default use.

All of them install with numpy 2.4 and scikit-learn 1.9 on Python 3.11 (`pip install -e .[bench]`).
Of snfpy 0.2.2 the affinities still pass `force_all_finite` to scikit-learn, which renamed it in 1.6 and
dropped it in 1.8: the argument is translated here. iMML's methods use their Python engine (the default).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from methods import Fit, Method, Outcome
from offers import Offer
from sklearn.cluster import KMeans, SpectralClustering
from sklearn.decomposition import NMF
from sklearn.neighbors import kneighbors_graph
from sklearn.utils.validation import check_array

Array = np.ndarray
N_NEIGHBORS = 10  # scikit-learn's default for spectral clustering


def _kmeans(offer: Offer, n_clusters: int, seed: int) -> Outcome:
    model = KMeans(n_clusters, n_init=10, random_state=seed)
    return Outcome([model.fit_predict(np.hstack(offer.views))])


def _spectral(offer: Offer, n_clusters: int, seed: int) -> Outcome:
    model = SpectralClustering(n_clusters, affinity="nearest_neighbors", random_state=seed)
    return Outcome([model.fit_predict(np.hstack(offer.views))])


def _nmf(offer: Offer, n_clusters: int, seed: int) -> Outcome:
    memberships = NMF(n_clusters, random_state=seed).fit_transform(np.hstack(offer.views))
    return Outcome([memberships.argmax(axis=1)])


def _spectral_of_affinity(affinity: Array, n_clusters: int, seed: int) -> Outcome:
    model = SpectralClustering(n_clusters, affinity="precomputed", random_state=seed)
    return Outcome([model.fit_predict(affinity)])


def _mean_graph(offer: Offer, n_clusters: int, seed: int) -> Outcome:
    graphs = [kneighbors_graph(X, N_NEIGHBORS, include_self=True) for X in offer.views]
    mean = sum(graphs[1:], start=graphs[0]) / len(graphs)
    return _spectral_of_affinity((mean + mean.T) / 2.0, n_clusters, seed)


def _network_fusion(offer: Offer, n_clusters: int, seed: int) -> Outcome:
    from snf import compute

    compute.check_array = _mended_check_array
    fused = compute.snf(compute.make_affinity(offer.views))
    return _spectral_of_affinity(fused, n_clusters, seed)


def _mended_check_array(X: Any, *, force_all_finite: bool, **settings: Any) -> Array:
    """scikit-learn's `check_array`, with the argument's old name."""
    return check_array(X, ensure_all_finite=force_all_finite, **settings)


def _mvlearn(name: str) -> Fit:
    def fit(offer: Offer, n_clusters: int, seed: int) -> Outcome:
        from mvlearn import cluster

        model = getattr(cluster, name)(n_clusters=n_clusters, random_state=seed)
        return Outcome([model.fit_predict(offer.views)])

    return fit


def _polyview(name: str, clusters: str = "n_clusters") -> Fit:
    def fit(offer: Offer, n_clusters: int, seed: int) -> Outcome:
        from polyview import cluster

        model = getattr(cluster, name)(**{clusters: n_clusters}, random_state=seed).fit(offer.views)
        return Outcome([model.labels_], getattr(model, "weights_", None))

    return fit


def _imml(name: str) -> Fit:
    def fit(offer: Offer, n_clusters: int, seed: int) -> Outcome:
        from imml import cluster

        model = getattr(cluster, name)(n_clusters=n_clusters, random_state=seed)
        model.fit([X.copy() for X in offer.views])
        beta = getattr(model, "beta_", None)
        return Outcome([model.labels_], None if beta is None else np.ravel(beta) / np.sum(beta))

    return fit


PEERS = [
    Method("k-means (concatenated)", _kmeans, package="sklearn"),
    Method("spectral (concatenated)", _spectral, package="sklearn"),
    Method("NMF (concatenated)", _nmf, form="nonnegative", package="sklearn"),
    Method("spectral (mean graph)", _mean_graph, package="sklearn"),
    Method("mvlearn co-training", _mvlearn("MultiviewSpectralClustering"), package="mvlearn"),
    Method("mvlearn co-regularised", _mvlearn("MultiviewCoRegSpectralClustering"), package="mvlearn"),
    Method("polyview k-means", _polyview("MultiViewKMeans"), package="polyview"),
    Method("polyview NMF", _polyview("MultiViewNMF", "n_components"), form="nonnegative", package="polyview"),
    Method("polyview co-regularised", _polyview("MultiViewCoRegSpectralClustering"), package="polyview"),
    Method("SNF", _network_fusion, package="snf"),
    Method("NEMO", _imml("NEMO"), package="imml", random=False, incomplete=True),
    Method("EEIMVC", _imml("EEIMVC"), package="imml", incomplete=True),
    Method("DAIMC", _imml("DAIMC"), package="imml", incomplete=True),
    Method("LFIMVC", _imml("LFIMVC"), package="imml", incomplete=True),
    Method("PIMVC", _imml("PIMVC"), package="imml", incomplete=True),
]
