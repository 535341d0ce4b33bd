"""The paper's model as a scikit-learn estimator."""

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
from viewloom.models.fitted import ExactModel, FittedModel, LandmarkModel, Parameters, needs_landmarks
from viewloom.models.persistence import save
from viewloom.runtime.errors import InputError
from viewloom.solver.teams import TEAMS, side_by_side
from viewloom.solver.updates import PROJECTIONS

Array = np.ndarray
SAMPLE_ROWS = 20_000  # from which landmarks are made


class KernelMultiviewNMF(MultiviewClusterer, tag="estimator.kernel_multiview_nmf"):
    """Adaptive weighted multi-view kernel matrix factorisation.

    Every view is factorised in the feature space of its kernel, ``Phi ~ Phi P G``, with memberships
    ``G`` that are pulled towards a consensus ``G_star`` and vary smoothly along the view's graph;
    views are weighted by how well the consensus explains them (Eq. 4 of the paper)::

        min  sum_a beta_a^gamma (||Phi - Phi P G||^2 + lam ||G - G_star||^2 + theta tr(G L G^T))

    The default is the well-posed form: memberships are probabilities, kernels have unit diagonal,
    the losses of views are calibrated so that weights can be compared, and the start is kernel
    k-means. `paper` gives the form as published.

    Parameters
    ----------
    n_clusters : int, default=3
    kernel : str, kernel, callable, or list / dict with one per view, default="diffusion"
        "linear", "polynomial", "gaussian", "cosine", "diffusion", "precomputed", an object of
        `viewloom.kernels`, or a function ``f(X, Y)``.
    lam : float, or list / dict with one per view, default=10.0
        Pull of the consensus.
    theta : float, or list / dict with one per view, default=0.1
        Smoothness along the graph.
    gamma : float, default=2.0
        Order of the weights: 0 gives equal weights, values up to 1 choose a single view, large
        values even out.
    graph : {"knn", "gaussian"}, graph object or None, default="knn"
        Similarity graph of the smoothness term.
    membership : {"simplex", "nonnegative"}, default="simplex"
        Whether memberships are probabilities or merely non-negative, as in the paper.
    sharpness : float in [0, 1], default=0.5
        How much soft memberships cost: 0 reconstructs a sample from the mixture of its clusters'
        centres, as in the paper, which leaves open how soft memberships are (and lets rounding decide
        where clusters coincide); 1 charges the distance to each centre, as k-means does, which makes
        them hard. Hard memberships cost the same under all values. Memberships that are merely
        non-negative need 0.
    calibrate : bool, default=True
        Measure the loss of a view between the least possible and that of a single cluster.
    normalize : bool, default=True
        Give kernels unit diagonal.
    scale : {"auto", "standard", "unit"} or None, default="auto"
        "standard" gives features variance one, "unit" samples length one, None takes views as they
        are. "auto" takes square roots and unit length for counts and frequencies (non-negative,
        over half zeros, over 100 features), where a sample of zeros counts as lacking the view, and
        "standard" for all else.
    init : {"kkmeans", "random"} or array of shape (n, k), default="kkmeans"
        Start of the memberships.
    n_init : int, default=1
        Number of starts; the best objective is kept.
    inner_iter : int, default=10
        Gradient steps on the memberships per iteration; the paper takes one.
    max_iter : int, default=200
    tol : float, default=1e-4
        Stop when the objective falls by less than this share in an iteration.
    factored : bool, int or "auto", default="auto"
        Whether samples are tied to landmarks rather than to each other, so that time and memory
        grow with their number and not with its square: True takes 2000 landmarks, a number so many.
        "auto" does so beyond 20 000 samples.
    backend : {"auto", "serial", "threads", "dask"}, default="auto"
        Who works on blocks of samples where kernels are factored: one thread after another, all
        cores, or the workers of the running Dask client. "auto" takes Dask for Dask's arrays and
        threads for others.
    random_state : int, RandomState or None
    verbose : int, default=0
        1 prints a line per start and draws bars with the time left where there are many samples, 2
        prints a line per iteration.

    Attributes
    ----------
    labels_ : (n,) array of int
    memberships_ : (n, k) array
        Consensus memberships; rows sum to one.
    view_weights_ : (v,) array
        Learned weights ``beta``; sum to one.
    view_names_ : list of str
    view_memberships_ : list of (n, k) arrays
        Memberships of each view; NaN where a sample lacks the view.
    history_ : dict of lists
        One entry per iteration: "objective", "reconstruction", "consensus", "smoothness" and
        "weights" (the last four one number per view), "seconds".
    objective_ : float
    n_iter_ : int
    converged_ : bool
    fitted_model_ : FittedModel
        Kernels, graphs and centroids: what places new samples. See `viewloom.models.fitted`.

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
        "scale": [StrOptions({"auto", "standard", "unit"}), None],
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
        theta: Any = 0.1,
        gamma: float = 2.0,
        graph: Any = "knn",
        membership: str = "simplex",
        sharpness: float = 0.5,
        calibrate: bool = True,
        normalize: bool = True,
        scale: str | None = "auto",
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
        """The published form, literally: settings of the paper, one gradient step per iteration.

        Kernels, graphs and losses are used as they come, memberships are only non-negative and
        start at random. It does not fix the scale of memberships, nor make losses of different
        views comparable: on real data its clusters are often no better than chance. It is here to
        be compared with.

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
        """Cluster samples seen through several views.

        Parameters
        ----------
        X : dict, list, Views, array, DataFrame or sparse matrix
            One matrix per view with samples in rows; see `Views`. A view may also be a
            `numpy.memmap`, a Zarr or Dask array, or a path to a `.npy`, `.parquet` or `.zarr` file:
            see `viewloom.blocks`.
        y : ignored

        Returns
        -------
        self
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
        """Fit another estimator to the same samples, on the kernels and graphs of this one.

        Parameters
        ----------
        **parameters
            Those to change: `lam`, `gamma`, `init`, `random_state` and others that kernels and graphs do not
            depend on; `theta`, where this one was fitted with a graph.

        Returns
        -------
        KernelMultiviewNMF
            A new fitted estimator; this one stays as it is.

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

    def check_parameters(self) -> None:
        """Raise a ValueError where a parameter, or two together, cannot be."""
        super().check_parameters()
        if self.membership == "nonnegative" and self.sharpness > 0.0:
            raise InputError(
                "sharpness charges for memberships that sum to one: "
                "with membership='nonnegative' pass sharpness=0."
            )

    def _fit_landmarks(self, blocks: Blocks, parameters: Parameters) -> LandmarkModel:
        check_start(self.init, blocks.ids)
        rng = check_random_state(self.random_state)
        sample = self._check_views(blocks.sample(SAMPLE_ROWS, rng))
        return LandmarkModel.fit(sample, blocks, parameters, rng)

    def transform(self, X: Any) -> Array:
        """Memberships of new samples (n x k): the model's own problem, solved at the fitted centroids.

        Parameters
        ----------
        X : dict, list, Views or array
            New samples. Views may be absent: left out of a dict, None in a list, or rows of NaN.
        """
        check_is_fitted(self)
        if not is_long(X):
            return self._memberships_of(X)
        blocks = Blocks(X, self.view_names_)
        self._check_head(blocks, X)
        return np.concatenate(
            side_by_side(lambda rows: self._memberships_of(blocks.read(*rows)), blocks.ranges)
        )

    def _memberships_of(self, X: Any) -> Array:
        views = self._check_new_views(X)
        return self.fitted_model_.memberships(views)

    def score(self, X: Any, y: Any = None) -> float:
        """Minus the calibrated error with which the consensus memberships of samples reconstruct their views.

        0 is the best that any memberships could do on the training samples, -1 no better than a
        single cluster; views count by their weights. Comparable between settings of `lam` and
        `theta`, not between kernels, numbers of clusters, nor values of `gamma`, which sharpens the weights
        towards whatever view has the least loss. No label is used.
        """
        views = self._check_new_views(X)
        return self.fitted_model_.score(views)

    def feature_importance(self, view: str | int = 0, *, n_repeats: int = 1) -> pd.DataFrame:
        """How much each feature of a view counts, in all and per cluster.

        For linear kernels the paper's ``F = X^T P`` (features x clusters): `importance` is the
        length of a feature's row. For other kernels features are permuted one at a time:
        `importance` is the mean change of the view's memberships. The frame's ``attrs["method"]``
        says which.

        Parameters
        ----------
        view : str or int
        n_repeats : int, default=1
            Permutations of each feature, where they are used.

        Returns
        -------
        DataFrame
            Columns feature, importance, cluster_0, ..., sorted by importance.
        """
        check_is_fitted(self)
        rng = check_random_state(0 if self.random_state is None else self.random_state)
        return self.fitted_model_.importance(self._position(view), rng, n_repeats)

    @property
    def needs_no_training_rows(self) -> bool:
        """Whether new samples are placed by landmarks that are mixtures of samples."""
        check_is_fitted(self)
        return not self.fitted_model_.holds_training_rows

    def save(self, path: str | os.PathLike[str], *, store: str = "auto") -> None:
        """Write the fitted model to one file without code in it; `viewloom.load` reads it.

        Parameters
        ----------
        path : str or path
            By custom ``*.safetensors``.
        store : {"auto", "landmarks"}, default="auto"
            "auto" keeps what the model needs to place new samples and all results. For exact kernels
            that are the training rows; the file's metadata says so. "landmarks" keeps nothing of any
            one subject, neither rows nor labels, and is possible for models fitted with `factored`.
        """
        check_is_fitted(self)
        save(self, path, store=store)

    def without_samples(self) -> KernelMultiviewNMF:
        """The same, but for the results that tell of single training samples."""
        other = copy(self)
        for name in self.PER_SAMPLE:
            other.__dict__.pop(name, None)
        return other

    def state(self) -> dict[str, Any]:
        """Parameters, results and the fitted model, as they are saved."""
        results = {name: getattr(self, name) for name in self.STORED if hasattr(self, name)}
        return {"parameters": self.get_params(deep=False), "results": results, "model": self.fitted_model_}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> KernelMultiviewNMF:
        """The fitted estimator."""
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
