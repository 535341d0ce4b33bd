"""Other people's methods, each in its documented default use.

k-means, spectral clustering, NEMO, SNF and EEIMVC need nothing but scikit-learn (see `fusion`). The slow
peers are packages that install with numpy 2.4 and scikit-learn 1.9 on Python 3.11
(`pip install -e .[bench]`). iMML's methods use their Python engine (the default).
"""

from __future__ import annotations

import numpy as np
from fusion import eeimvc, nemo, snf, spectral_labels
from methods import Fit, Method, Outcome
from offers import Offer
from sklearn.cluster import KMeans, SpectralClustering
from sklearn.decomposition import NMF
from sklearn.neighbors import kneighbors_graph

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


def _mean_graph(offer: Offer, n_clusters: int, seed: int) -> Outcome:
    graphs = [kneighbors_graph(X, min(N_NEIGHBORS, len(X)), include_self=True) for X in offer.views]
    mean = sum(graphs[1:], start=graphs[0]) / len(graphs)
    return Outcome([spectral_labels((mean + mean.T) / 2.0, n_clusters, seed)])


def _network_fusion(offer: Offer, n_clusters: int, seed: int) -> Outcome:
    return Outcome([spectral_labels(snf(offer.views), n_clusters, seed)])


def _nemo(offer: Offer, n_clusters: int, seed: int) -> Outcome:
    return Outcome([spectral_labels(nemo(offer.views), n_clusters, seed)])


def _eeimvc(offer: Offer, n_clusters: int, seed: int) -> Outcome:
    labels, weights = eeimvc(offer.views, n_clusters, seed)
    return Outcome([labels], weights)


def _mofa(offer: Offer, n_clusters: int, seed: int) -> Outcome:
    """Ten factors of MOFA+ with the package's options ("fast" convergence), then k-means of them."""
    from mofapy2.run.entry_point import entry_point

    model = entry_point()
    model.set_data_options(scale_views=True)
    model.set_data_matrix([[X] for X in offer.views])
    model.set_model_options(factors=min(10, len(offer.views[0]) - 1))
    model.set_train_options(iter=1000, convergence_mode="fast", seed=seed, quiet=True)
    model.build()
    model.run()
    found = model.model.getExpectations()["Z"]
    factors = found["E"] if isinstance(found, dict) else found
    return Outcome([KMeans(n_clusters, n_init=10, random_state=seed).fit_predict(factors)])


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


QUICK_PEERS = [
    Method("k-means (concatenated)", _kmeans, package="sklearn"),
    Method("spectral (concatenated)", _spectral, package="sklearn"),
    Method("spectral (mean graph)", _mean_graph, package="sklearn"),
    Method("NEMO", _nemo, package="sklearn", incomplete=True),
    Method("SNF", _network_fusion, package="sklearn"),
    Method("EEIMVC", _eeimvc, package="sklearn", incomplete=True),
]
SLOW_PEERS = [
    Method("MOFA + k-means", _mofa, package="mofapy2", incomplete=True),
    Method("NMF (concatenated)", _nmf, form="nonnegative", package="sklearn"),
    Method("mvlearn co-training", _mvlearn("MultiviewSpectralClustering"), package="mvlearn"),
    Method("mvlearn co-regularised", _mvlearn("MultiviewCoRegSpectralClustering"), package="mvlearn"),
    Method("polyview k-means", _polyview("MultiViewKMeans"), package="polyview"),
    Method("polyview NMF", _polyview("MultiViewNMF", "n_components"), form="nonnegative", package="polyview"),
    Method("polyview co-regularised", _polyview("MultiViewCoRegSpectralClustering"), package="polyview"),
    Method("DAIMC", _imml("DAIMC"), package="imml", incomplete=True),
    Method("LFIMVC", _imml("LFIMVC"), package="imml", incomplete=True),
    Method("PIMVC", _imml("PIMVC"), package="imml", incomplete=True),
]
