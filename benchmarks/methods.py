"""What is measured: viewloom's own methods, and the default with one idea off at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import find_spec
from typing import Any, Literal

import numpy as np
from offers import Form, Offer
from sklearn.base import clone
from sklearn.cluster import KMeans, SpectralClustering

import viewloom as vl
from viewloom.evaluation.agreement import view_agreement
from viewloom.evaluation.selection.search import PAPER_GRID, expand, parameters, published_form
from viewloom.kernels import graphs, reliability, shared_graph, votes
from viewloom.kernels.decorrelation import decorrelation, shrinkage
from viewloom.kernels.diffusion import Diffusion
from viewloom.kernels.reliability import Agreement, view_reliability
from viewloom.solver import objective, start

Array = np.ndarray
DEFAULT = "viewloom"
SHOWN = (DEFAULT, "viewloom linear", "viewloom gaussian")  # whose reported agreement is in the tables


@dataclass(frozen=True)
class Outcome:
    """Labelings of the samples; weights of views and labels of new samples where a method has them."""

    labelings: list[Array]  # more than one where a method clusters every view by itself, or tries a grid
    weights: Array | None = None
    agreement: Callable[[], Array] | None = None  # of each view with the others, where a method reports it
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


def reported_agreement(model: vl.KernelMultiviewNMF) -> Array:
    """Agreement of each view with the consensus of the others, one number per view."""
    return view_agreement(model, n_resamples=1)["agreement"].to_numpy()


def viewloom(name: str, form: Form = "raw", **changes: Any) -> Method:
    """The default with changes. Views that are Gram matrices are taken as such, whatever the kernel."""

    def fit(offer: Offer, n_clusters: int, seed: int) -> Outcome:
        settings = {**changes, **({"kernel": "precomputed"} if offer.is_kernel else {})}
        model = vl.KernelMultiviewNMF(n_clusters, random_state=seed, **settings).fit(offer.views)
        agreement = partial(reported_agreement, model) if name in SHOWN else None
        return Outcome([model.labels_], model.view_weights_, agreement, model.predict)

    return Method(name, fit, form=form, incomplete=True, settings=repr((form, changes)))


def _published(**changes: Any) -> Fit:
    """The published form, literally, with changes; one width for kernel and graph."""

    def fit(offer: Offer, n_clusters: int, seed: int) -> Outcome:
        kernel = "precomputed" if offer.is_kernel else "gaussian"
        settings = {"kernel": kernel, "random_state": seed, **changes}
        model = vl.KernelMultiviewNMF.paper(n_clusters, **settings)
        model.fit(offer.views)
        return Outcome([model.labels_], model.view_weights_)

    return fit


def _searched(init: str) -> Fit:
    """The published form at the setting that `select` finds without labels."""

    def fit(offer: Offer, n_clusters: int, seed: int) -> Outcome:
        how = {"n_clusters": n_clusters, "cv": 3, "random_state": seed, "progress": False}
        found = vl.select(offer.views, {**PAPER_GRID, "init": [init]}, paper=True, **how)
        return Outcome([found.best_estimator.labels_], found.best_estimator.view_weights_)

    return fit


def _whole_grid(init: str) -> Fit:
    """The published form at every setting that `select` tries."""

    def fit(offer: Offer, n_clusters: int, seed: int) -> Outcome:
        model = published_form().set_params(n_clusters=n_clusters, init=init, random_state=seed)
        changes = [parameters(setting, model.graph) for setting in expand(PAPER_GRID)]
        return Outcome([clone(model).set_params(**change).fit(offer.views).labels_ for change in changes])

    return fit


def _step(name: str, **changes: Any) -> Method:
    """The published form with changes."""
    return Method(name, _published(**changes), form="raw", incomplete=True, settings=repr(changes))


def _of_grid(name: str, fit: Fit, pooling: Pooling = "mean") -> Method:
    """The published form with the settings of `select(paper=True)`."""
    return Method(name, fit, form="raw", incomplete=True, pooling=pooling, settings=repr(PAPER_GRID))


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


SINGLE = "single views"
SINGLE_VIEWS = Method(SINGLE, _single_views, random=False, pooling="each view")
OURS = [
    viewloom(DEFAULT),
    viewloom("viewloom linear", kernel="linear"),
    viewloom("viewloom gaussian", kernel="gaussian"),
]
PAPER = [
    _step("published settings"),
    _of_grid("published form (searched)", _searched("kkmeans")),
    _of_grid("published form (searched from random start)", _searched("random")),
    _of_grid("published form (oracle)", _whole_grid("kkmeans"), pooling="best"),
    _of_grid("published form (oracle from random start)", _whole_grid("random"), pooling="best"),
    Method("SV", _factorised_views, form="nonnegative"),
    Method("CNMF", _concatenated, form="nonnegative"),
    Method("MNMF", _multiview(gamma=0.0), form="nonnegative", incomplete=True),
    Method("AWMNMF", _multiview(gamma=2.0), form="nonnegative", incomplete=True),
]
# From the published settings to the default, one ingredient after the other.
_SCALED = {"scale": "auto"}
_NO_SMOOTHNESS = {**_SCALED, "theta": 0.0}
_STARTED = {**_NO_SMOOTHNESS, "init": "kkmeans"}
_CALIBRATED = {**_STARTED, "calibrate": True}
_PROBABILITIES = {**_CALIBRATED, "membership": "simplex", "sharpness": 0.5, "inner_iter": 10, "lam": 10.0}
STEPS = [
    _step("published settings"),
    _step("k-means start only", init="kkmeans"),
    _step("theta = 0 only", theta=0.0),
    _step("features scaled", **_SCALED),
    _step("... and theta = 0", **_NO_SMOOTHNESS),
    _step("... and k-means start", **_STARTED),
    _step("... and losses calibrated", **_CALIBRATED),
    _step("... and memberships probabilities and lam = 10", **_PROBABILITIES),
    _step("... and equal weights instead", **_PROBABILITIES, gamma=0.0),
    viewloom(DEFAULT),
]


@contextmanager
def replaced(module: Any, name: str, function: Any) -> Iterator[None]:
    """A function of the library, another one for a while."""
    own = vars(module)[name]
    setattr(module, name, function)
    try:
        yield
    finally:
        setattr(module, name, own)


def inside(name: str, module: Any, function: str, other: Any) -> Method:
    """The default with one of its own functions replaced: for what is no parameter."""
    return within(viewloom(name), (module, function, other))


def within(method: Method, *changes: tuple[Any, str, Any]) -> Method:
    """A method with functions of the library replaced."""

    def fit(offer: Offer, n_clusters: int, seed: int) -> Outcome:
        with ExitStack() as stack:
            for change in changes:
                stack.enter_context(replaced(*change))
            return method.fit(offer, n_clusters, seed)

    return replace(method, fit=fit, settings=method.name)


def _equal_weights(agreement: Agreement, C: Array) -> tuple[Array, Array]:
    """Edges of every view alike."""
    return np.full(len(C), 1.0 / len(C)), view_reliability(agreement, C)[1]


def _no_gate(agreement: Agreement, C: Array) -> tuple[Array, Array]:
    """Every view as reliable as any other, in edges and votes."""
    return np.full(len(C), 1.0 / len(C)), np.ones(len(C))


def _squared_agreement(agreement: Agreement, C: Array) -> tuple[Array, Array]:
    """Weights by the square of the agreement, without a gate at chance."""
    w = np.full(len(C), 1.0 / len(C))
    for _ in range(30 if len(C) > 1 else 0):
        A = np.clip(1.0 - C, 0.0, None) * w
        np.fill_diagonal(A, 0.0)
        w = np.maximum(agreement.mean(A)[0], 0.01) ** 2 / C.sum(axis=1)
        w /= w.sum()
    return w, view_reliability(agreement, C)[1]


def _smooth_gate(e: Array, null: Array) -> Array:
    """Half at four standard deviations, by the square of the agreement."""
    epsilon = np.maximum(4.0 * null, reliability.LEAST_AGREEMENT)
    return e**2 / (e**2 + epsilon**2)


def no_votes(gate: Array, *given: Any) -> Array:
    """A full vote for every view."""
    return np.ones(len(gate))


def _votes_without_gate(gate: Array, *given: Any) -> Array:
    """Views of noise have a vote like others."""
    return votes.shared_votes(np.ones(len(gate)), *given)


def _independent(geometries: Any, rows: list[Array], labels: Array) -> Array:
    """No view resembles another one."""
    return np.eye(len(rows))


def _one_cluster(Z: Array, n_clusters: int) -> Array:
    """Resemblance with the clusters in it."""
    return np.zeros(len(Z), dtype=int)


def no_decorrelation(X: Array) -> None:
    """Features of the views as they are."""


def first_clusters(X: Array, model: KMeans) -> KMeans:
    """The best restart of k-means as it is."""
    return model


def mahalanobis(X: Array) -> Array | None:
    """Directions of little variance are magnified, too, so that distances are those of Mahalanobis."""
    root = decorrelation(X)
    if root is None:
        return None
    gram = X.T @ X
    s, m = max(shrinkage(X, gram), 0.01), float(np.trace(gram)) / X.size
    return np.linalg.inv(np.linalg.cholesky((1.0 - s) / len(X) * gram + s * m * np.eye(X.shape[1]))).T


ABLATION = [
    viewloom(DEFAULT),
    viewloom("no shared graph (share=0)", kernel=Diffusion(share=0.0)),
    viewloom("sharpness=0", sharpness=0.0),
    viewloom("sharpness=1", sharpness=1.0),
    viewloom("calibrate=False", calibrate=False),
    inside("no constant part of losses", objective, "DELTA", 0.0),
    viewloom("equal weights (gamma=0)", gamma=0.0),
    viewloom("gamma=4", gamma=4.0),
    viewloom("scale=standard", scale="standard"),
    viewloom("scaled as for peers", form="scaled", scale=None),
    viewloom("init=random", init="random"),
    inside("start without merges and splits", start, "merge_and_split", first_clusters),
    viewloom("theta=0", theta=0.0),
    inside("neighbours without ranks", graphs, "rank_weights", np.ones_like),
    inside("edges of all views alike", reliability, "view_reliability", _equal_weights),
    inside("no gate at chance", reliability, "view_reliability", _no_gate),
    inside("smooth gate", reliability.Agreement, "gate", staticmethod(_smooth_gate)),
    inside("no votes", shared_graph, "shared_votes", no_votes),
    inside("votes without the gate", shared_graph, "shared_votes", _votes_without_gate),
    inside("votes by the gate only", votes, "resemblance", _independent),
    inside("only copies share a vote", votes, "SHARED", 0.0),
    inside("votes shared by agreement on clusters, too", shared_graph, "provisional_clusters", _one_cluster),
    inside("edges by squared agreement", reliability, "view_reliability", _squared_agreement),
    inside("no graph of all features", shared_graph, "FUSED", 0.0),
    inside("features not decorrelated", shared_graph, "decorrelation", no_decorrelation),
    inside("Mahalanobis distances", shared_graph, "decorrelation", mahalanobis),
    viewloom("share=0.5, theta=0.1", kernel=Diffusion(share=0.5), theta=0.1),
    viewloom("share=0.5", kernel=Diffusion(share=0.5)),
    viewloom("theta=0.1", theta=0.1),
    viewloom("15 neighbours", kernel=Diffusion(n_neighbors=15)),
    viewloom("time=8", kernel=Diffusion(time=8.0)),
    inside("walks not prolonged", shared_graph, "LONGEST_WALK", 0.0),
]
