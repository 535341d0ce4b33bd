"""What is measured: viewloom's own methods, and the default with one idea off at a time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Literal

import numpy as np
from offers import Form, Offer
from sklearn.cluster import KMeans, SpectralClustering

import viewloom as vl
from viewloom.kernels.diffusion import Diffusion

Array = np.ndarray


@dataclass(frozen=True)
class Outcome:
    """Labelings of the samples; weights of views and labels of new samples where a method has them."""

    labelings: list[Array]  # more than one where a method clusters every view by itself, or tries a grid
    weights: Array | None = None
    agreement: Array | None = None  # of each view with the others, where a method reports it
    predict: Callable[[list[Array]], Array] | None = None


# How several labelings become a score: mean, best (chosen with the labels: an oracle), one per view.
Pooling = Literal["mean", "best", "each view"]
Fit = Callable[[Offer, int, int], Outcome]  # views, number of clusters, seed


@dataclass(frozen=True)
class Method:
    """A way to cluster views, by the name it has in the tables."""

    name: str
    fit: Fit
    form: Form = "scaled"
    package: str = "viewloom"  # what must be importable
    random: bool = True  # whether the seed matters
    incomplete: bool = False  # whether rows of NaN are understood
    pooling: Pooling = "mean"
    settings: str = ""  # what tells its results from those of another method of the same name

    @property
    def installed(self) -> bool:
        """Whether the package is there."""
        return find_spec(self.package) is not None


def reported_agreement(model: Any) -> Array | None:
    """Agreement of each view with the others, where the model reports it: one number per view, or a table."""
    found = getattr(model, "view_agreement_", None)
    if found is None:
        return None
    return np.asarray(found["agreement"] if hasattr(found, "columns") else found, dtype=float).ravel()


def viewloom(name: str, form: Form = "raw", **changes: Any) -> Method:
    """The default with changes. Views that are Gram matrices are taken as such, whatever the kernel."""

    def fit(offer: Offer, n_clusters: int, seed: int) -> Outcome:
        settings = {**changes, **({"kernel": "precomputed"} if offer.is_kernel else {})}
        model = vl.KernelMultiviewNMF(n_clusters, random_state=seed, **settings).fit(offer.views)
        return Outcome([model.labels_], model.view_weights_, reported_agreement(model), model.predict)

    return Method(name, fit, form=form, incomplete=True, settings=repr((form, changes)))


def _published(**changes: Any) -> Fit:
    """The published form, literally, with changes; one width for kernel and graph."""

    def fit(offer: Offer, n_clusters: int, seed: int) -> Outcome:
        kernel = "precomputed" if offer.is_kernel else "gaussian"
        model = vl.KernelMultiviewNMF.paper(n_clusters, kernel=kernel, random_state=seed, **changes)
        model.fit(offer.views)
        return Outcome([model.labels_], model.view_weights_)

    return fit


def _factorised_views(offer: Offer, n_clusters: int, seed: int) -> Outcome:
    """Every view by itself; scores are means over views, since nobody knows the best one beforehand."""
    model = vl.GraphNMF(n_clusters, random_state=seed)
    return Outcome([model.fit(X).labels_.copy() for X in offer.views])


def _single_views(offer: Offer, n_clusters: int, seed: int) -> Outcome:
    """Every view by itself, by k-means and by spectral clustering: what weights are compared with."""
    kmeans = KMeans(n_clusters, n_init=3, random_state=seed)
    spectral = SpectralClustering(n_clusters, affinity="nearest_neighbors", random_state=seed)
    return Outcome([model.fit(X).labels_.copy() for X in offer.views for model in (kmeans, spectral)])


def _concatenated(offer: Offer, n_clusters: int, seed: int) -> Outcome:
    return Outcome([vl.ConcatenatedNMF(n_clusters, random_state=seed).fit(offer.views).labels_])


def _multiview(gamma: float) -> Fit:
    def fit(offer: Offer, n_clusters: int, seed: int) -> Outcome:
        model = vl.MultiviewNMF(n_clusters, gamma=gamma, random_state=seed).fit(offer.views)
        return Outcome([model.labels_], model.view_weights_)

    return fit


DEFAULT = "viewloom"
SINGLE = "single views"
SINGLE_VIEWS = Method(SINGLE, _single_views, random=False, pooling="each view")
OURS = [
    viewloom(DEFAULT),
    viewloom("viewloom linear", kernel="linear"),
    viewloom("viewloom gaussian", kernel="gaussian"),
]
PAPER = [
    Method("published settings", _published(), form="raw", incomplete=True),
    Method("SV", _factorised_views, form="nonnegative"),
    Method("CNMF", _concatenated, form="nonnegative"),
    Method("MNMF", _multiview(gamma=0.0), form="nonnegative", incomplete=True),
    Method("AWMNMF", _multiview(gamma=2.0), form="nonnegative", incomplete=True),
]
ABLATION = [
    viewloom(DEFAULT),
    viewloom("no lent edges (share=0)", kernel=Diffusion(share=0.0)),
    viewloom("sharpness=0", sharpness=0.0),
    viewloom("sharpness=1", sharpness=1.0),
    viewloom("calibrate=False", calibrate=False),
    viewloom("equal weights (gamma=0)", gamma=0.0),
    viewloom("gamma=4", gamma=4.0),
    viewloom("scale=standard", scale="standard"),
    viewloom("scaled as for peers", form="scaled", scale=None),
    viewloom("init=random", init="random"),
    viewloom("theta=0", theta=0.0),
    viewloom("15 neighbours", kernel=Diffusion(n_neighbors=15)),
    viewloom("time=8", kernel=Diffusion(time=8.0)),
]
