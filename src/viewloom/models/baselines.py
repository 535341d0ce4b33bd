"""Baselines of the paper: graph-regularised NMF of one view, of concatenated features, of several views.

The objectives and updates are in `viewloom.solver.multiplicative`.
"""

from __future__ import annotations

from collections.abc import Callable
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
import pandas as pd
import scipy.sparse as sp
from sklearn.cluster import KMeans
from sklearn.utils import Tags, check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from viewloom.data.checks import per_view
from viewloom.data.naming import listed
from viewloom.data.views import Views
from viewloom.kernels.graphs import make_graph
from viewloom.models.base import (
    MultiviewClusterer,
    as_memberships,
    given_start,
    nonnegative_per_view,
    scattered,
    warn_if_apart,
    warn_if_collapsed,
    warn_if_unfinished,
)
from viewloom.models.importance import linear_importance
from viewloom.runtime.errors import InputError
from viewloom.runtime.threads import threads_for
from viewloom.solver.multiplicative import (
    TINY,
    Factors,
    Solution,
    ViewProblem,
    place,
    reconstruction_error,
    solve,
)

Array = np.ndarray
SOFTNESS = 0.2  # added to initial one-hot memberships, since zeros stay zero
KMEANS_RESTARTS = 10


def kmeans_start(views: Views, n_clusters: int, rng: np.random.RandomState) -> Array:
    """Labels of k-means on the concatenated features, softened (k x n).

    Missing views are filled with the mean of the view; in a sparse view the row stays empty.
    """
    blocks = [_filled(X) for X in views.blocks]
    X = Views(blocks, names=views.names).concatenate()
    labels = KMeans(n_clusters, n_init=KMEANS_RESTARTS, random_state=rng).fit(X).labels_
    return np.eye(n_clusters)[:, labels] + SOFTNESS


def random_start(views: Views, n_clusters: int, rng: np.random.RandomState) -> Array:
    """Uniform random memberships (k x n)."""
    return rng.uniform(size=(n_clusters, len(views)))


STARTS: dict[str, Callable[[Views, int, np.random.RandomState], Array]] = {
    "kmeans": kmeans_start,
    "random": random_start,
}


def _filled(X: Any) -> Any:
    return X if sp.issparse(X) else np.where(np.isnan(X), np.nanmean(X, axis=0), X)


def check_nonnegative(views: Views, whom: str) -> Views:
    """Return the views; raise an error if any has a negative entry."""
    for name, X in views.items():
        values = X.data if sp.issparse(X) else X
        count = int(np.count_nonzero(values < 0.0))
        if count:
            raise InputError(
                f"Negative values in data passed to {whom}: view {name!r} has {count}, but F >= 0 and G >= 0 "
                "reconstruct non-negative data only. Shift every feature to its minimum, or scale with "
                "viewloom.PerView(sklearn.preprocessing.MinMaxScaler(clip=True)). "
                "KernelMultiviewNMF takes any sign."
            )
    return views


class FactorisationClusterer(MultiviewClusterer):
    """Base class of the baselines: initialisation, solution, new samples. Subclasses set the parameters."""

    lam: Any
    theta: Any
    gamma: float
    graph: Any
    init: Any
    max_iter: int
    tol: float
    random_state: Any
    verbose: int

    _parameter_constraints: dict[str, list] = {  # noqa: RUF012
        "n_clusters": [Interval(Integral, 1, None, closed="left")],
        "init": [StrOptions(set(STARTS)), "array-like"],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    def fit(self, X: Any, y: Any = None) -> Self:
        """Factorise the views and cluster their samples.

        Parameters
        ----------
        X : dict, list, Views, array, DataFrame or sparse matrix
            Non-negative data with samples in rows; see `Views`.
        y : None
            Ignored.

        Returns
        -------
        self
            The fitted estimator.
        """
        self._validate_params()
        views = self._arranged(check_nonnegative(self._check_views(X), type(self).__name__))
        with threads_for(len(views), dense=True):
            problems = self._problems(views)
            solution = solve(
                problems, self._start(views), float(self.gamma), self.max_iter, self.tol, self._progress
            )
        self._set_results(problems, solution)
        self._warn()
        return self

    def transform(self, X: Any) -> Array:
        """Memberships of samples (n x k): the same problem at the fitted centroids and weights.

        The graph term is left out, so that the memberships of a sample do not depend on other new samples.
        For training samples they are therefore close to `memberships_`, but not equal.

        Parameters
        ----------
        X : dict, list, Views or array
            New samples, non-negative.

        Returns
        -------
        (n, k) array
            Memberships; rows sum to one.
        """
        _, _, G_star = self._placed(X)
        return as_memberships(G_star)

    def score(self, X: Any, y: Any = None) -> float:
        """Negative reconstruction error ``||X - F G||^2 / ||X||^2`` of samples, averaged over views.

        0 is the best value. ``G`` are the memberships in each view at the fitted centroids. Labels are not
        used.
        """
        views, factors, _ = self._placed(X)
        with threads_for(max(len(view.rows) for view in views), dense=True):
            errors = [
                reconstruction_error(view, f) / max(view.squared_norm, TINY)
                for view, f in zip(views, factors, strict=True)
                if len(view.rows)
            ]
        return -float(np.mean(errors))

    def _arranged(self, views: Views) -> Views:
        """The matrices that are factorised."""
        return views

    def _problems(self, views: Views) -> list[ViewProblem]:
        lam, theta = (
            nonnegative_per_view(getattr(self, what), views.names, what) for what in ("lam", "theta")
        )
        graphs = [make_graph(graph) for graph in per_view(self.graph, views.names, "graph")]
        return [
            ViewProblem.of(X, views.rows(a), lam[a], theta[a], graphs[a], name)
            for a, (name, X) in enumerate(views.items())
        ]

    def _start(self, views: Views) -> Array:
        """Initial memberships (k x n) of all views; normalised unless given as an array."""
        if not isinstance(self.init, str):
            return given_start(self.init, len(views), self.n_clusters)
        G = STARTS[self.init](views, self.n_clusters, check_random_state(self.random_state))
        return np.asarray(G / G.sum(axis=0))

    def _placed(self, X: Any) -> tuple[list[ViewProblem], list[Factors], Array]:
        views = self._arranged(check_nonnegative(self._check_new_views(X), type(self).__name__))
        problems = [
            ViewProblem.of(block, views.rows(a), lam)
            for a, (block, lam) in enumerate(zip(views.blocks, self._lam, strict=True))
        ]
        with threads_for(len(views), dense=True):
            return problems, *place(problems, [C.T for C in self._components], self._pull, len(views))

    def _set_results(self, views: list[ViewProblem], solution: Solution) -> None:
        n = solution.G_star.shape[1]
        self.memberships_ = as_memberships(solution.G_star)
        self.labels_ = np.argmax(self.memberships_, axis=1)
        self.view_weights_ = solution.beta
        self.view_memberships_ = [
            scattered(view.rows, f.G, n) for view, f in zip(views, solution.factors, strict=True)
        ]
        self.history_ = solution.history
        self.objective_ = solution.history["objective"][-1]
        self.n_iter_ = len(solution.history["objective"])
        self.converged_ = solution.converged
        self._components = [np.ascontiguousarray(f.F.T) for f in solution.factors]
        self._lam = [view.lam for view in views]
        self._pull = solution.pull

    def _progress(self, iteration: int, J: float) -> None:
        if self.verbose:
            print(f"{type(self).__name__} iteration {iteration}: objective {J:.6g}")

    def _warn(self) -> None:
        warn_if_apart(self)
        warn_if_unfinished(self, "try a smaller theta, graph='knn' or fewer clusters")

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = True
        return tags


class _SingleFactorisation(FactorisationClusterer):
    """Base class for one matrix, without consensus and view weights."""

    lam = 0.0
    gamma = 0.0
    components_: Array

    def __init__(
        self,
        n_clusters: int = 3,
        *,
        theta: float = 1.0,
        graph: Any = "gaussian",
        init: Any = "kmeans",
        max_iter: int = 300,
        tol: float = 1e-5,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.n_clusters = n_clusters
        self.theta = theta
        self.graph = graph
        self.init = init
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.verbose = verbose

    def _set_results(self, views: list[ViewProblem], solution: Solution) -> None:
        super()._set_results(views, solution)
        self.components_ = self._components[0]

    def feature_importance(self, view: str | int | None = None) -> pd.DataFrame:
        """Importance of each feature: the norm of its row of ``F``, and the row itself.

        Parameters
        ----------
        view : str, int or None
            Select the features of one view; None selects all views.

        Returns
        -------
        DataFrame
            Columns feature, importance, cluster_0, ..., sorted by importance.
        """
        check_is_fitted(self)
        features = np.concatenate([self.view_features_[name] for name in self.view_names_])
        columns = slice(None)
        if view is not None:
            a = self._position(view)
            ends = np.cumsum([len(self.view_features_[name]) for name in self.view_names_])
            columns = slice(ends[a] - len(self.view_features_[self.view_names_[a]]), ends[a])
        return _importance(self.components_.T[columns], features[columns])


class GraphNMF(_SingleFactorisation):
    """Graph-regularised non-negative matrix factorisation of one view ("SV" in the paper, Eq. 1).

    It minimises::

        min  ||X - F G||^2 + theta tr(G L G^T),   F >= 0, G >= 0

    by the multiplicative updates of Cai et al., which never increase the objective. A sample belongs to the
    cluster of its largest membership.

    Parameters
    ----------
    n_clusters : int, default=3
    theta : float, default=1.0
        Strength of the smoothness term, relative to the scale of the data.
    graph : {"gaussian", "knn"}, graph object or None, default="gaussian"
        Similarity graph of the smoothness term. The paper uses "gaussian", a graph between all samples; its
        degrees grow with n, so that with many samples it may remove all cluster structure. "knn" is
        normalised. None means no smoothness term.
    init : {"kmeans", "random"} or array of shape (n, k), default="kmeans"
        Initial memberships. Entries that are zero in an array stay zero.
    max_iter : int, default=300
        Maximum number of iterations.
    tol : float, default=1e-5
        Stop when the relative decrease of the objective in an iteration is at most `tol`.
    random_state : int, RandomState or None
    verbose : int, default=0
        1 prints one line per iteration.

    Attributes
    ----------
    labels_ : (n,) array of int
    memberships_ : (n, k) array
        Rows sum to one.
    components_ : (k, d) array
        Centroids, ``F^T``.
    view_weights_ : (1,) array
    view_names_ : list of str
    view_memberships_ : list of one (n, k) array
    history_ : dict of lists
        One entry per iteration: "objective", "reconstruction", "consensus", "smoothness" and "weights" (the
        last four have one number per view), "seconds".
    objective_ : float
        Final value of the objective.
    n_iter_ : int
        Number of iterations.
    converged_ : bool
        Whether the iterations stopped by `tol`, before `max_iter`.

    Examples
    --------
    >>> import numpy as np
    >>> from viewloom.models.baselines import GraphNMF
    >>> X = np.array([[5.0, 0.1], [4.0, 0.0], [0.2, 3.0], [0.0, 4.0]])
    >>> model = GraphNMF(n_clusters=2, theta=0.1, tol=1e-2, random_state=0).fit(X)
    >>> bool(model.labels_[0] == model.labels_[1] != model.labels_[2] == model.labels_[3])
    True
    """

    def _arranged(self, views: Views) -> Views:
        if views.n_views > 1:
            raise InputError(
                f"GraphNMF factorises one view, got {views.n_views}: {listed(views.names)}. Select one, for "
                f"example with views.select([{views.names[0]!r}]), or use ConcatenatedNMF or MultiviewNMF."
            )
        return views


class ConcatenatedNMF(_SingleFactorisation):
    """Graph-regularised non-negative matrix factorisation of concatenated features ("CNMF" in the paper).

    `GraphNMF` (Eq. 1) on the concatenated views, without scaling: a view with more or larger features has
    more influence. Every sample must have every view.

    Parameters
    ----------
    n_clusters : int, default=3
    theta : float, default=1.0
        Strength of the smoothness term, relative to the scale of the data.
    graph : {"gaussian", "knn"}, graph object or None, default="gaussian"
        Similarity graph of the smoothness term. The paper uses "gaussian", a graph between all samples; its
        degrees grow with n, so that with many samples it may remove all cluster structure. "knn" is
        normalised. None means no smoothness term.
    init : {"kmeans", "random"} or array of shape (n, k), default="kmeans"
        Initial memberships. Entries that are zero in an array stay zero.
    max_iter : int, default=300
        Maximum number of iterations.
    tol : float, default=1e-5
        Stop when the relative decrease of the objective in an iteration is at most `tol`.
    random_state : int, RandomState or None
    verbose : int, default=0
        1 prints one line per iteration.

    Attributes
    ----------
    labels_ : (n,) array of int
    memberships_ : (n, k) array
        Rows sum to one.
    components_ : (k, d) array
        Centroids over the features of all views, ``F^T``.
    view_weights_ : (v,) array
        Equal weights.
    view_names_ : list of str
    view_memberships_ : list of (n, k) arrays
        The same for every view.
    history_ : dict of lists
        One entry per iteration: "objective", "reconstruction", "consensus" and "smoothness" (one number for
        all features), "weights", "seconds".
    objective_ : float
        Final value of the objective.
    n_iter_ : int
        Number of iterations.
    converged_ : bool
        Whether the iterations stopped by `tol`, before `max_iter`.

    Examples
    --------
    >>> import numpy as np
    >>> from viewloom.models.baselines import ConcatenatedNMF
    >>> views = {"a": np.array([[5.0], [4.0], [0.2], [0.0]]), "b": np.array([[0.1], [0.0], [3.0], [4.0]])}
    >>> model = ConcatenatedNMF(n_clusters=2, theta=0.1, tol=1e-2, random_state=0).fit(views)
    >>> model.components_.shape, model.view_weights_.tolist()
    ((2, 2), [0.5, 0.5])
    """

    def _arranged(self, views: Views) -> Views:
        lacking = int((~views.present.all(axis=1)).sum())
        if lacking:
            raise InputError(
                f"ConcatenatedNMF needs every view of every sample, but {lacking} of {len(views)} samples "
                "have missing views. Leave them out, or use MultiviewNMF, which allows missing views."
            )
        return Views([views.concatenate()], names=["all views"])

    def _set_results(self, views: list[ViewProblem], solution: Solution) -> None:
        super()._set_results(views, solution)
        v = len(self.view_names_)
        self.view_weights_ = np.full(v, 1.0 / v)
        self.view_memberships_ = self.view_memberships_ * v
        self.history_["weights"] = [self.view_weights_] * self.n_iter_


class MultiviewNMF(FactorisationClusterer):
    """Multi-view non-negative matrix factorisation with a consensus ("MNMF", Eq. 2, and "AWMNMF", Eq. 3).

    It minimises::

        min  sum_a beta_a^gamma (||X - F G||^2 + lam ||G - G_star||^2 + theta tr(G L G^T)),   F, G >= 0

    on non-negative data, by multiplicative updates that never increase the objective. Views may be
    incomplete: each view factorises the samples that have it, and the consensus of a sample averages over
    its views.

    Views are compared by their raw losses, as published. A view with few or small features has a small loss
    and therefore a large weight, whether informative or not: scale the views before interpreting weights.

    Parameters
    ----------
    n_clusters : int, default=3
    lam : float, or list / dict with one per view, default=1.0
        Strength of the consensus term, relative to the scale of the data.
    theta : float, or list / dict with one per view, default=1.0
        Strength of the smoothness term, relative to the scale of the data.
    gamma : float, default=0.0
        Exponent of the view weights: 0 gives equal weights (Eq. 2), values up to 1 select the view with the
        least loss, larger values weight the views (Eq. 3), more evenly the larger they are.
    graph : {"gaussian", "knn"}, graph object or None, or list / dict with one per view, default="gaussian"
        Similarity graph of the smoothness term. The paper uses "gaussian", a graph between all samples; its
        degrees grow with n, so that with many samples it may remove all cluster structure. "knn" is
        normalised. None means no smoothness term.
    init : {"kmeans", "random"} or array of shape (n, k), default="kmeans"
        Initial memberships of all views. Entries that are zero in an array stay zero.
    max_iter : int, default=300
        Maximum number of iterations.
    tol : float, default=1e-5
        Stop when the relative decrease of the objective in an iteration is at most `tol`.
    random_state : int, RandomState or None
    verbose : int, default=0
        1 prints one line per iteration.

    Attributes
    ----------
    labels_ : (n,) array of int
    memberships_ : (n, k) array
        Consensus memberships; rows sum to one.
    components_ : list of (k, d_a) arrays
        Centroids of each view, ``F^T``.
    view_weights_ : (v,) array
        View weights ``beta``; they sum to one.
    view_names_ : list of str
    view_memberships_ : list of (n, k) arrays
        Memberships in each view; NaN for samples without the view.
    history_ : dict of lists
        One entry per iteration: "objective", "reconstruction", "consensus", "smoothness" and "weights" (the
        last four have one number per view), "seconds".
    objective_ : float
        Final value of the objective.
    n_iter_ : int
        Number of iterations.
    converged_ : bool
        Whether the iterations stopped by `tol`, before `max_iter`.

    Examples
    --------
    >>> import numpy as np
    >>> from viewloom.models.baselines import MultiviewNMF
    >>> X = np.array([[5.0, 0.1], [4.0, 0.0], [0.2, 3.0], [0.0, 4.0]])
    >>> lacking = np.where([[False], [False], [False], [True]], np.nan, X[:, ::-1])
    >>> settings = {"theta": 0.1, "tol": 1e-2, "random_state": 0}
    >>> model = MultiviewNMF(n_clusters=2, **settings).fit({"mri": X, "pet": lacking})
    >>> bool(model.labels_[0] == model.labels_[1] != model.labels_[2] == model.labels_[3])
    True
    >>> model.predict({"pet": [[0.0, 9.0]]}).tolist() == model.labels_[:1].tolist()
    True
    """

    _parameter_constraints: dict[str, list] = {  # noqa: RUF012
        **FactorisationClusterer._parameter_constraints,
        "gamma": [Interval(Real, 0, None, closed="left")],
    }
    components_: list[Array]

    def __init__(
        self,
        n_clusters: int = 3,
        *,
        lam: Any = 1.0,
        theta: Any = 1.0,
        gamma: float = 0.0,
        graph: Any = "gaussian",
        init: Any = "kmeans",
        max_iter: int = 300,
        tol: float = 1e-5,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.n_clusters = n_clusters
        self.lam = lam
        self.theta = theta
        self.gamma = gamma
        self.graph = graph
        self.init = init
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.verbose = verbose

    def feature_importance(self, view: str | int | None = None) -> pd.DataFrame:
        """Importance of each feature of a view: the norm of its row of ``F``, and the row itself.

        Parameters
        ----------
        view : str, int or None
            Name or position of the view; required if there are several views, since their scales differ.

        Returns
        -------
        DataFrame
            Columns feature, importance, cluster_0, ..., sorted by importance.
        """
        check_is_fitted(self)
        if view is None and len(self.view_names_) > 1:
            raise InputError(f"Pass view=: one of {listed(self.view_names_)}.")
        a = 0 if view is None else self._position(view)
        return _importance(self.components_[a].T, self.view_features_[self.view_names_[a]])

    def _set_results(self, views: list[ViewProblem], solution: Solution) -> None:
        super()._set_results(views, solution)
        self.components_ = self._components

    def _warn(self) -> None:
        super()._warn()
        warn_if_collapsed(
            self,
            "Losses are not calibrated, so it may just have few or small features; scale the "
            "views, or increase gamma.",
        )


def _importance(F: Array, features: Array) -> pd.DataFrame:
    """Features sorted by the norm of their row of ``F`` (d x k)."""
    table = linear_importance(F, features)
    table.attrs["method"] = "F"
    return table
