"""Multi-view kernel matrix factorisation as a scikit-learn estimator."""

from __future__ import annotations

import os
from copy import copy
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from sklearn.base import clone
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from viewloom.data.row_sources import Blocks, is_long
from viewloom.kernels.graphs import GaussianGraph
from viewloom.kernels.pairwise import Gaussian
from viewloom.models.base import (
    MultiviewClusterer,
    check_start,
    warn_if_apart,
    warn_if_collapsed,
    warn_if_unfinished,
)
from viewloom.models.fitted import (
    ExactModel,
    FittedModel,
    LandmarkModel,
    Parameters,
    Predictor,
    needs_landmarks,
)
from viewloom.models.persistence import save
from viewloom.runtime.errors import InputError
from viewloom.runtime.progress import drawing, progress_bar, with_progress
from viewloom.solver.teams import TEAMS, in_threads
from viewloom.solver.updates import PROJECTIONS

Array = np.ndarray
SAMPLE_ROWS = 20_000  # rows from which landmarks are computed


class KernelMultiviewNMF(MultiviewClusterer, tag="estimator.kernel_multiview_nmf"):
    """Adaptive weighted multi-view kernel matrix factorisation.

    Every view is factorised in the feature space of its kernel, ``Phi ~ Phi P G``, with memberships
    ``G`` that are pulled towards a consensus ``G_star`` and vary smoothly along the graph of the view.
    Views are weighted by how well the consensus explains them (Eq. 4 of the paper)::

        min  sum_a beta_a^gamma (||Phi - Phi P G||^2 + lam ||G - G_star||^2 + theta tr(G L G^T))

    The default is the well-posed form: memberships are probabilities, kernels have unit diagonal,
    the losses of views are calibrated so that they can be compared, and memberships are initialised
    by kernel k-means. `paper` returns the published form.

    Parameters
    ----------
    n_clusters : int, default=3
    kernel : str, kernel, callable, or list / dict with one per view, default="diffusion"
        "linear", "polynomial", "gaussian", "cosine", "diffusion", "precomputed", an object of
        `viewloom.kernels`, or a function ``f(X, Y)`` that returns a kernel matrix.
    lam : float, or list / dict with one per view, default=10.0
        Strength of the consensus term.
    theta : float, or list / dict with one per view, default=0.01
        Strength of the smoothness term.
    gamma : float, default=2.0
        Exponent of the view weights: 0 gives equal weights, values up to 1 select a single view, large
        values give nearly equal weights.
    graph : {"knn", "gaussian"}, graph object or None, default="knn"
        Similarity graph of the smoothness term. None means no smoothness term.
    membership : {"simplex", "nonnegative"}, default="simplex"
        Whether memberships are probabilities, or only non-negative as in the paper.
    sharpness : float in [0, 1], default=0.5
        Penalty on soft memberships. With 0 a sample is reconstructed from the mixture of its cluster
        centres, as in the paper; this does not determine how soft memberships are. With 1 the
        distance to each centre counts, as in k-means, and memberships become hard. Hard memberships
        have the same loss for all values. Must be 0 if `membership` is "nonnegative".
    calibrate : bool, default=True
        Scale the loss of each view to the range between the least possible loss and that of a single
        cluster.
    normalize : bool, default=True
        Scale kernels to unit diagonal.
    scale : {"auto", "standard", "centre", "unit"} or None, or list / dict with one per view, default="auto"
        "standard" scales features to unit variance, "centre" subtracts their mean only, "unit" scales
        samples to unit length, None does not scale. "auto" takes square roots and unit length for
        counts and frequencies (non-negative, over half zeros, over 100 features), where a row of zeros
        counts as a missing view, and "standard" otherwise.
    init : {"kkmeans", "random"} or array of shape (n, k), default="kkmeans"
        Initial memberships.
    n_init : int, default=1
        Number of initialisations; the result with the lowest objective is kept.
    inner_iter : int, default=10
        Gradient steps on the memberships per iteration; 1 in the paper.
    max_iter : int, default=200
        Maximum number of iterations.
    tol : float, default=1e-4
        Stop when the relative decrease of the objective in an iteration is at most `tol`.
    factored : bool, int or "auto", default="auto"
        Whether to approximate kernels by landmarks, so that time and memory grow linearly and not
        quadratically with the number of samples. True uses 2000 landmarks; an int sets their number.
        "auto" uses landmarks for more than 20 000 samples.
    backend : {"auto", "serial", "threads", "dask"}, default="auto"
        Where blocks of samples are processed if kernels are factored: in one thread, on all cores, or
        on the workers of the running Dask client. "auto" uses Dask for Dask arrays and threads
        otherwise.
    random_state : int, RandomState or None
    verbose : int, default=0
        1 prints one line per initialisation and shows progress bars with the remaining time, in terminals
        and in notebooks; 2 also prints one line per iteration, without bars.

    Attributes
    ----------
    labels_ : (n,) array of int
    memberships_ : (n, k) array
        Consensus memberships; rows sum to one.
    view_weights_ : (v,) array
        Learned view weights ``beta``; they sum to one. Views that share nothing with the others have the
        smallest, views that resemble each other within clusters share a part, copies all of it. Other
        views are weighted nearly alike: weights do not rank views by how informative they are. To compare
        views, use `viewloom.inspection.view_agreement`.
    view_names_ : list of str
    view_memberships_ : list of (n, k) arrays
        Memberships in each view; NaN for samples without the view.
    history_ : dict of lists
        One entry per iteration: "objective", "reconstruction", "consensus", "smoothness" and
        "weights" (the last four have one number per view), "seconds".
    objective_ : float
        Final value of the objective.
    n_iter_ : int
        Number of iterations.
    converged_ : bool
        Whether the iterations stopped by `tol`, before `max_iter`.
    fitted_model_ : FittedModel
        Kernels, graphs and centroids, used to place new samples. See `viewloom.models.fitted`.

    Examples
    --------
    >>> import viewloom as vl
    >>> views, y = vl.simulate.three_kinds(random_state=0)
    >>> model = vl.KernelMultiviewNMF(n_clusters=3, random_state=0).fit(views)
    >>> vl.clustering_report(y, model.labels_)["Acc"] > 0.9
    True
    >>> min(zip(model.view_weights_, model.view_names_))[1]
    'noise'
    """

    fitted_model_: FittedModel
    PER_SAMPLE: ClassVar[tuple[str, ...]] = ("labels_", "memberships_", "view_memberships_")
    STORED: ClassVar[tuple[str, ...]] = (
        *PER_SAMPLE,
        *("n_features_in_", "feature_names_in_", "history_", "objective_", "n_iter_", "converged_"),
    )

    _parameter_constraints: dict[str, list] = {  # noqa: RUF012
        "n_clusters": [Interval(Integral, 1, None, closed="left")],
        "gamma": [Interval(Real, 0, None, closed="left")],
        "membership": [StrOptions(set(PROJECTIONS))],
        "sharpness": [Interval(Real, 0, 1, closed="both")],
        "calibrate": ["boolean"],
        "normalize": ["boolean"],
        "scale": [StrOptions({"auto", "standard", "centre", "unit"}), None, list, tuple, dict],
        "init": [StrOptions({"kkmeans", "random"}), "array-like"],
        "n_init": [Interval(Integral, 1, None, closed="left")],
        "inner_iter": [Interval(Integral, 1, None, closed="left")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "factored": [StrOptions({"auto"}), "boolean", Interval(Integral, 2, None, closed="left")],
        "backend": [StrOptions({"auto", *TEAMS})],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        n_clusters: int = 3,
        *,
        kernel: Any = "diffusion",
        lam: Any = 10.0,
        theta: Any = 0.01,
        gamma: float = 2.0,
        graph: Any = "knn",
        membership: str = "simplex",
        sharpness: float = 0.5,
        calibrate: bool = True,
        normalize: bool = True,
        scale: Any = "auto",
        init: Any = "kkmeans",
        n_init: int = 1,
        inner_iter: int = 10,
        max_iter: int = 200,
        tol: float = 1e-4,
        factored: bool | int | str = "auto",
        backend: str = "auto",
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.n_clusters = n_clusters
        self.kernel = kernel
        self.lam = lam
        self.theta = theta
        self.gamma = gamma
        self.graph = graph
        self.membership = membership
        self.sharpness = sharpness
        self.calibrate = calibrate
        self.normalize = normalize
        self.scale = scale
        self.init = init
        self.n_init = n_init
        self.inner_iter = inner_iter
        self.max_iter = max_iter
        self.tol = tol
        self.factored = factored
        self.backend = backend
        self.random_state = random_state
        self.verbose = verbose

    @classmethod
    def paper(cls, n_clusters: int = 3, *, kernel: Any = "gaussian", **changes: Any) -> KernelMultiviewNMF:
        """The published form: settings of the paper, one gradient step per iteration.

        Kernels, graphs and losses are neither scaled nor calibrated; memberships are only non-negative
        and initialised at random. This form does not determine the scale of memberships, and the
        losses of different views are not comparable: with `theta = 1` most real data end in one cluster.
        `select(views, paper=True)` searches its settings.

        Examples
        --------
        >>> from viewloom import KernelMultiviewNMF
        >>> KernelMultiviewNMF.paper(3, kernel="linear").membership
        'nonnegative'
        """
        settings: dict[str, Any] = {
            "lam": 1.0,
            "theta": 1.0,
            "gamma": 2.0,
            "graph": "gaussian",
            "membership": "nonnegative",
            "sharpness": 0.0,
            "calibrate": False,
            "normalize": False,
            "scale": None,
            "init": "random",
            "inner_iter": 1,
        }
        if isinstance(kernel, Gaussian):
            settings["graph"] = GaussianGraph(kernel.sigma)  # the paper has one sigma for both
        return cls(n_clusters, kernel=kernel, **{**settings, **changes})

    def fit(self, X: Any, y: Any = None) -> KernelMultiviewNMF:
        """Cluster samples described by several views.

        Parameters
        ----------
        X : dict, list, Views, array, DataFrame or sparse matrix
            One matrix per view with samples in rows; see `Views`. A view may also be a
            `numpy.memmap`, a Zarr or Dask array, or a path to a `.npy`, `.parquet` or `.zarr` file:
            see `viewloom.blocks`.
        y : None
            Ignored.

        Returns
        -------
        KernelMultiviewNMF
            The fitted estimator.
        """
        self.check_parameters()
        parameters = Parameters.of(self)
        if needs_landmarks(parameters, X):
            self._set_results(self._fit_landmarks(Blocks(X), parameters))
        else:
            self._set_results(ExactModel.fit(self._check_views(X), parameters))
        self._warn()
        return self

    def refit(self, **parameters: Any) -> KernelMultiviewNMF:
        """Fit a new estimator to the same samples with other parameters, reusing kernels and graphs.

        Parameters
        ----------
        **parameters
            Parameters to change: `lam`, `gamma`, `init`, `random_state` and others that kernels and graphs
            do not depend on; `theta`, if this estimator was fitted with a graph.

        Returns
        -------
        KernelMultiviewNMF
            A new fitted estimator; this one does not change.

        Examples
        --------
        >>> import viewloom as vl
        >>> views, _ = vl.simulate.blobs_views(60, random_state=0)
        >>> model = vl.KernelMultiviewNMF(3, random_state=0).fit(views)
        >>> model.refit(gamma=8.0).gamma
        8.0
        """
        check_is_fitted(self)
        other = clone(self).set_params(**parameters)
        other.check_parameters()
        for name in ("view_names_", "view_features_", "n_features_in_", "feature_names_in_"):
            if hasattr(self, name):
                setattr(other, name, getattr(self, name))
        other._set_results(self.fitted_model_.refit(**parameters))
        other._warn()
        return other

    def reordered(self, order: Any) -> KernelMultiviewNMF:
        """The same fitted model with its clusters in another order.

        Parameters
        ----------
        order : (k,) array of int
            The present cluster at each new position.

        Returns
        -------
        KernelMultiviewNMF
            A new fitted estimator; this one does not change. If memberships of a sample are exactly equal,
            its label is the first of these clusters in the new order.

        Examples
        --------
        >>> import viewloom as vl
        >>> views, _ = vl.simulate.blobs_views(60, random_state=0)
        >>> model = vl.KernelMultiviewNMF(3, random_state=0).fit(views)
        >>> turned = model.reordered([2, 0, 1])
        >>> bool((turned.memberships_[:, 0] == model.memberships_[:, 2]).all())
        True
        """
        check_is_fitted(self)
        order = np.asarray(order)
        if order.shape != (self.n_clusters,) or sorted(order.tolist()) != list(range(self.n_clusters)):
            raise InputError(f"order must contain each cluster from 0 to {self.n_clusters - 1} once.")
        other, order = copy(self), order.astype(int)
        other.fitted_model_ = self.fitted_model_.reordered(order)
        if hasattr(self, "memberships_"):  # absent in a model stored without its samples
            other.memberships_ = self.memberships_[:, order]
            other.view_memberships_ = [U[:, order] for U in self.view_memberships_]
            other.labels_ = np.asarray(other.memberships_.argmax(axis=1))
        return other

    def check_parameters(self) -> None:
        """Raise a ValueError if a parameter is invalid, or two parameters are incompatible."""
        super().check_parameters()
        if self.membership == "nonnegative" and self.sharpness > 0.0:
            raise InputError(
                "sharpness > 0 needs memberships that sum to one: "
                "with membership='nonnegative' pass sharpness=0."
            )

    def _fit_landmarks(self, blocks: Blocks, parameters: Parameters) -> LandmarkModel:
        check_start(self.init, blocks.ids)
        rng = check_random_state(self.random_state)
        with progress_bar("Reading a sample", 0, self.verbose == 1):
            sample = self._check_views(blocks.sample(SAMPLE_ROWS, rng))
        return LandmarkModel.fit(sample, blocks, parameters, rng)

    def transform(self, X: Any) -> Array:
        """Memberships of new samples (n x k): the problem of the model, solved at the fitted centroids.

        Parameters
        ----------
        X : dict, list, Views or array
            New samples. Views may be missing: left out of a dict, None in a list, or rows of NaN.

        Returns
        -------
        (n, k) array
            Consensus memberships; rows sum to one.
        """
        check_is_fitted(self)
        samples = self.fitted_model_.plain(X)
        if samples is not None:
            return self.fitted_model_.memberships(samples)
        if not is_long(X):
            return self._memberships_of(X)
        blocks = Blocks(X, self.view_names_)
        self._check_head(blocks, X)
        with progress_bar("Placing samples", len(blocks.ranges), self.verbose == 1) as advance:
            place = with_progress(lambda rows: self._memberships_of(blocks.read(*rows)), advance)
            return np.concatenate(list(in_threads(place, blocks.ranges)))

    def _memberships_of(self, X: Any) -> Array:
        views = self._check_new_views(X)
        return self.fitted_model_.memberships(views)

    def predictor(self) -> Predictor:
        """An object for many calls with few samples each, as in a service: see `Predictor`.

        It gives the results of `predict` and `transform`, without repeating checks that do not depend on the
        samples, and always as arrays. Pass complete samples as dicts of arrays, with columns as in the fit.

        Returns
        -------
        Predictor
        """
        check_is_fitted(self)
        return Predictor(self.transform, self.fitted_model_)

    def score(self, X: Any, y: Any = None) -> float:
        """Negative calibrated error of reconstructing the views of samples from their consensus memberships.

        0 is the best that any memberships could reach on the training samples; -1 is no better than a
        single cluster. Views count by their weights. Scores are comparable between values of `lam` and
        `theta`, but not between kernels, numbers of clusters, or values of `gamma`, since `gamma` shifts the
        weights towards the view with the lowest loss. Labels are not used.
        """
        views = self._check_new_views(X)
        return self.fitted_model_.score(views)

    def feature_importance(self, view: str | int = 0, *, n_repeats: int = 1) -> pd.DataFrame:
        """Importance of each feature of a view, overall and per cluster.

        For linear kernels this is the paper's ``F = X^T P`` (features x clusters), and `importance` is
        the norm of a feature's row. For other kernels features are permuted one at a time, and
        `importance` is the mean change of the memberships in the view. ``attrs["method"]`` of the
        frame names the method.

        A categorical column is one feature, permuted as a whole. ``attrs["levels"]`` has the values of each
        cluster for each level of nominal columns: entries of ``F`` for linear kernels, otherwise the mean
        memberships of the samples with this level.

        Parameters
        ----------
        view : str or int, default=0
            Name or position of the view.
        n_repeats : int, default=1
            Number of permutations of each feature, if features are permuted.

        Returns
        -------
        DataFrame
            Columns feature, importance, cluster_0, ..., sorted by importance.
        """
        check_is_fitted(self)
        rng = check_random_state(0 if self.random_state is None else self.random_state)
        with drawing(self.verbose == 1):
            return self.fitted_model_.importance(self._position(view), rng, n_repeats)

    @property
    def needs_no_training_rows(self) -> bool:
        """Whether new samples are placed by landmarks, without any training rows."""
        check_is_fitted(self)
        return not self.fitted_model_.holds_training_rows

    def save(self, path: str | os.PathLike[str], *, store: str = "auto") -> None:
        """Save the fitted model to a file that contains no code; `viewloom.load` reads it.

        Parameters
        ----------
        path : str or path
            Usually ``*.safetensors``.
        store : {"auto", "landmarks"}, default="auto"
            "auto" stores all results and the data needed to place new samples. For exact kernels these
            are the training rows; the metadata of the file says so. "landmarks" stores nothing about
            single subjects, neither rows nor labels, and is possible for models fitted with `factored`.
        """
        check_is_fitted(self)
        save(self, path, store=store)

    def without_samples(self) -> KernelMultiviewNMF:
        """A copy without the results of single training samples (labels and memberships)."""
        other = copy(self)
        for name in self.PER_SAMPLE:
            other.__dict__.pop(name, None)
        return other

    def state(self) -> dict[str, Any]:
        """Parameters, results and fitted model, as stored in files."""
        results = {name: getattr(self, name) for name in self.STORED if hasattr(self, name)}
        return {"parameters": self.get_params(deep=False), "results": results, "model": self.fitted_model_}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> KernelMultiviewNMF:
        """Restore a fitted estimator."""
        estimator, model = cls(**state["parameters"]), state["model"]
        if not isinstance(model, FittedModel) or not set(state["results"]) <= set(cls.STORED):
            raise InputError("The state is not that of a fitted estimator.")
        for name, value in state["results"].items():
            setattr(estimator, name, value)
        estimator.view_names_, estimator.view_features_ = model.names, model.features
        estimator.view_weights_, estimator.fitted_model_ = model.weights, model
        return estimator

    def _set_results(self, model: FittedModel) -> None:
        self.fitted_model_, found = model, model.results
        self.memberships_, self.labels_ = found.memberships, found.labels
        self.view_weights_, self.view_memberships_ = found.weights, found.view_memberships
        self.history_, self.objective_ = found.history, found.objective
        self.n_iter_, self.converged_ = found.n_iter, found.converged

    def _warn(self) -> None:
        warn_if_apart(self)
        warn_if_unfinished(self, "try fewer clusters or more starts (n_init)")
        warn_if_collapsed(
            self,
            "It may explain the consensus because it is simple, not because it is informative; "
            "a larger gamma or calibrate=True evens the weights out.",
        )
