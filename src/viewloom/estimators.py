"""The paper's model as a scikit-learn estimator."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import clone
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from viewloom.backends import TEAMS, Serial, choose_team, on_cluster, side_by_side
from viewloom.base import (
    MultiviewClusterer,
    as_memberships,
    given_start,
    nonnegative_per_view,
    scattered,
    warn_if_collapsed,
    warn_if_unfinished,
)
from viewloom.blocks import Blocks, extent, is_long, whole
from viewloom.graphs import GaussianGraph, GramGeometry, make_graph
from viewloom.importance import linear_importance, permutation_importance
from viewloom.kernels import (
    Context,
    FittedLinear,
    Gaussian,
    PairwiseKernel,
    Precomputed,
    as_factored,
    make_kernel,
)
from viewloom.landmarks import landmark_views
from viewloom.large import (
    LANDMARKS,
    SAMPLE_ROWS,
    Builder,
    Found,
    LargeProblem,
    memberships,
    rescaled_moments,
    restart,
    root_scales,
    tie_sums,
)
from viewloom.operators import Moments
from viewloom.persistence import save, storable
from viewloom.placing import consensus_of
from viewloom.problem import NewSamples, Problem, consensus_error, fit_scalers, frozen_message, mixable
from viewloom.progress import progress_bar, told
from viewloom.solver.loop import Result, Settings, broadcast, solve
from viewloom.solver.objective import Calibration, shared_vote
from viewloom.solver.shard import Shard, ViewMessage
from viewloom.solver.start import kernel_kmeans, random_memberships, soft_memberships
from viewloom.solver.updates import PROJECTIONS
from viewloom.views import Views, per_view

Array = np.ndarray
EXACT_ROWS = 20_000  # beyond this many samples neighbours of all are no longer searched among all
DENSE_BYTES = 4 * 2**30  # nor are matrices of all pairs stored beyond this size
PLACED_ROWS = 2048  # new samples at a time, so that memory is used again


class KernelMultiviewNMF(MultiviewClusterer):
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

    _problem: Problem | LargeProblem
    _message: list[ViewMessage]
    PER_SAMPLE = ("labels_", "memberships_", "view_memberships_")  # results that tell of single samples

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
        self._check_parameters()
        if self._is_large(X):
            return self._fit_large(Blocks(X))
        views = self._check_views(whole(X))
        return self._fit_problem(self._build(views))

    def _check_input(self, X: Any) -> None:
        """Refuse what `fit` would refuse, without fitting."""
        model = clone(self)
        model._check_parameters()
        model._check_views(whole(X))

    def _check_parameters(self) -> None:
        self._validate_params()
        if self.membership == "nonnegative" and self.sharpness > 0.0:
            raise ValueError(
                "sharpness charges for memberships that sum to one: "
                "with membership='nonnegative' pass sharpness=0."
            )

    def _fit_problem(self, problem: Problem) -> KernelMultiviewNMF:
        """Fit on kernels and graphs that are built already, for searches over `lam`, `theta` and `gamma`."""
        sigmas = [0.0 if view.laplacian is None else view.laplacian.sigma for view in problem.views]
        settings = self._settings(problem.operators, sigmas, problem)
        result, team = self._best_of_starts(problem, settings)
        self._set_results(result, team.each(memberships))
        G = [block.G for block in team.shards[0].blocks]
        self._problem = problem
        self._message = frozen_message(problem, G, result.message, self.sharpness)
        self._warn()
        return self

    @property
    def _n_landmarks(self) -> int:
        return LANDMARKS if isinstance(self.factored, (bool, str)) else int(self.factored)

    def _is_large(self, X: Any) -> bool:
        """Whether all samples are tied to landmarks rather than to each other."""
        if self.factored != "auto":
            return bool(self.factored)
        n, v = extent(X)
        kernels = listed_once(self.kernel, make_kernel)
        if any(isinstance(kernel, Precomputed) for kernel in kernels):
            return False
        stored = [kernel for kernel in kernels if isinstance(kernel, PairwiseKernel)]
        stored += [graph for graph in listed_once(self.graph, make_graph) if isinstance(graph, GaussianGraph)]
        dense = 8 * n**2 * (len(stored) if len(stored) > 1 else v * len(stored))
        if n <= EXACT_ROWS and dense <= DENSE_BYTES:
            return False
        warnings.warn(
            f"{n} samples: tied to {LANDMARKS} landmarks rather than to each other"
            + (f", which would take {dense / 2**30:.0f} GiB" if stored else "")
            + ". Pass factored=True to agree, or False for exact kernels.",
            stacklevel=3,
        )
        return True

    def _fit_large(self, blocks: Blocks) -> KernelMultiviewNMF:
        """Fit on landmarks, tie every sample to them, and go on with all samples (see `viewloom.large`)."""
        rng = check_random_state(self.random_state)
        sample = self._check_views(blocks.sample(SAMPLE_ROWS, rng))
        pilot, landmarks = self._fit_landmarks(sample, rng)
        make = Builder(
            landmarks,
            pilot._message,
            self.view_names_,
            self.view_features_,
            PROJECTIONS[self.membership],
            self.sharpness,
        )
        with progress_bar("Landmarks", len(blocks.ranges), self.verbose == 1) as advance:
            gather = choose_team(self.backend, blocks)
            team = gather(make if gather is on_cluster else told(make, advance), blocks)
        scales = root_scales(team.total(tie_sums))
        moments: list[Moments] = team.total(rescaled_moments, scales)
        settings = self._settings(moments, [float(scale is not None) for scale in scales], landmarks)
        if not (isinstance(self.init, str) and self.init == "kkmeans"):
            start = next(self._starts(blocks.n))
            team.deal(restart, [start[:, slice(*rows)] for rows in blocks.ranges])
        with progress_bar("Iterations, at most", self.max_iter, self.verbose == 1) as advance:
            result = solve(team, settings, told(self._progress, advance))
        found = team.each(memberships)
        del team  # factors and ties take more than what is found
        self._set_results(result, found)
        mixed = landmarks.n < len(sample) and mixable(view.scaler for view in landmarks.views)
        self._problem = LargeProblem(landmarks, blocks.n, scales, mixed)
        self._message = broadcast(result.sums, result.beta, settings)
        self._warn()
        return self

    def _fit_landmarks(self, sample: Views, rng: Any) -> tuple[KernelMultiviewNMF, Problem]:
        """The exact model of the landmarks, on the scale of the sample."""
        kernels = [as_factored(kernel) for kernel in self._kernels(sample.names)]
        pilot = clone(self).set_params(kernel=kernels, init="kkmeans", factored=False, verbose=0)
        pilot.set_params(random_state=rng.randint(2**31 - 1))
        scalers = fit_scalers(sample, kernels, self.scale)
        views = landmark_views(sample, self._n_landmarks, rng, mix=mixable(scalers))
        problem = pilot._build(pilot._check_views(views), scalers)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what there is to say is said of all samples
            pilot._fit_problem(problem)
        return pilot, problem

    def transform(self, X: Any) -> Array:
        """Memberships of new samples (n x k): the model's own problem, solved at the fitted centroids.

        Parameters
        ----------
        X : dict, list, Views or array
            New samples. Views may be absent: left out of a dict, None in a list, or rows of NaN.
        """
        if not is_long(X):
            return self._memberships_of(whole(X))
        blocks = Blocks(X)
        return np.concatenate(
            side_by_side(lambda rows: self._memberships_of(blocks.read(*rows)), blocks.ranges)
        )

    def _memberships_of(self, X: Any) -> Array:
        views = self._check_new_views(X)
        parts = [views[i : i + PLACED_ROWS] for i in range(0, len(views), PLACED_ROWS)]
        placed = [self._placed(self._problem.new_samples(part))[0].G_star for part in parts]
        return as_memberships(np.hstack(placed))

    def score(self, X: Any, y: Any = None) -> float:
        """Minus the calibrated error with which the consensus memberships of samples reconstruct their views.

        0 is the best that any memberships could do on the training samples, -1 no better than a
        single cluster; views count by their weights. Comparable between settings of `lam` and
        `theta`, not between kernels, nor between values of `gamma`, which sharpens the weights
        towards whatever view has the least loss. No label is used.
        """
        views = self._check_new_views(X)
        samples = self._problem.new_samples(views)
        shard, message = self._placed(samples)
        errors = np.array(
            [consensus_error(shard, block, m) for block, m in zip(shard.blocks, message, strict=True)]
        )
        seen = list(samples.rows)
        least, span = self._range_per_sample[:, seen]
        weights = self.view_weights_[seen]
        total = float(weights.sum()) or 1.0  # one-hot weights on a view that nobody has
        return -float(weights @ ((errors - least) / span)) / total

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
        a = self._position(view)
        name = self.view_names_[a]
        kernel = self._problem.views[a].kernel
        if isinstance(kernel, FittedLinear):
            return linear_importance(self._message[a].C.T, self.view_features_[name])
        if isinstance(self._problem.views[a].geometry, GramGeometry):
            raise ValueError(f"View {name!r} is a precomputed kernel: it has no features to rank.")
        return permutation_importance(
            lambda X: as_memberships(self._placed(NewSamples.of_one_view(a, X))[0].G_star),
            self._problem.views[a].geometry.X,
            self.view_features_[name],
            check_random_state(0 if self.random_state is None else self.random_state),
            n_repeats,
        )

    @property
    def needs_no_training_rows(self) -> bool:
        """Whether new samples are placed by landmarks that are mixtures of samples."""
        check_is_fitted(self)
        return isinstance(self._problem, LargeProblem) and self._problem.mixed

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

    def _kernels(self, names: list[str]) -> list[Any]:
        return [make_kernel(kernel) for kernel in per_view(self.kernel, names, "kernel")]

    def _build(self, views: Views, scalers: list[Any] | None = None) -> Problem:
        kernels = self._kernels(views.names)
        theta = per_view(self.theta, views.names, "theta")
        graphs = [
            make_graph(graph) if weight else None
            for graph, weight in zip(per_view(self.graph, views.names, "graph"), theta, strict=True)
        ]
        context = Context(normalize=self.normalize, n_clusters=self.n_clusters)
        return Problem.of(views, kernels, graphs, scalers or fit_scalers(views, kernels, self.scale), context)

    def _settings(self, operators: Sequence[Any], sigmas: list[float], problem: Problem) -> Settings:
        """Constants of the objective; how views stand among each other is told by `problem`."""
        if self.calibrate:
            standing = problem.standing(self.n_clusters)
            charge = shared_vote(standing.copies, self.gamma)
            calibration = Calibration.of(operators, self.n_clusters, standing.doubts, charge)
        else:
            calibration = Calibration.identity(len(operators))
        sizes = np.array([operator.size for operator in operators])
        self._range_per_sample = np.vstack([calibration.offset / sizes, calibration.scale / sizes])
        return Settings(
            lam=nonnegative_per_view(self.lam, self.view_names_, "lam"),
            theta=nonnegative_per_view(self.theta, self.view_names_, "theta"),
            gamma=float(self.gamma),
            traces=np.array([operator.trace() for operator in operators]),
            sigmas=np.array(sigmas),
            calibration=calibration,
            n_steps=self.inner_iter,
            max_iter=self.max_iter,
            tol=self.tol,
        )

    def _starts(self, n: int, problem: Problem | None = None) -> Iterator[Array]:
        """Memberships (k x n) to begin from, one per start."""
        rng = check_random_state(self.random_state)
        if not isinstance(self.init, str):
            G = given_start(self.init, n, self.n_clusters)
            yield as_memberships(G).T.copy() if self.membership == "simplex" else G
            return
        if self.init == "random" or problem is None:
            for _ in range(self.n_init):
                yield random_memberships(n, self.n_clusters, rng, self.membership)
            return
        features, observed = problem.start_features(self.n_clusters)
        for _ in range(self.n_init):
            labels = kernel_kmeans(features, observed, self.n_clusters, rng)
            yield soft_memberships(labels, self.n_clusters)

    def _best_of_starts(self, problem: Problem, settings: Settings) -> tuple[Result, Serial]:
        """Solve from every start and keep the least objective."""
        best: tuple[Result, Serial] | None = None
        for number, start in enumerate(self._starts(problem.n, problem)):
            shard = problem.shard(PROJECTIONS[self.membership], self.sharpness)
            shard.start(start)
            team = Serial([shard])
            result = solve(team, settings, self._progress)
            self._say(f"start {number + 1}: objective {result.objective:.6g}, {result.n_iter} iterations")
            if best is None or result.objective < best[0].objective:
                best = result, team
        assert best is not None
        return best

    def _say(self, message: str) -> None:
        if self.verbose:
            print(message)

    def _progress(self, iteration: int, objective: float) -> None:
        if self.verbose > 1:
            print(f"  iteration {iteration}: objective {objective:.6g}")

    def _set_results(self, result: Result, found: list[Found]) -> None:
        self.memberships_ = as_memberships(np.hstack([G_star for G_star, _ in found]))
        self.labels_ = np.argmax(self.memberships_, axis=1)
        self.view_weights_ = result.beta
        self.view_memberships_ = [
            np.concatenate([scattered(*part[a], G_star.shape[1]) for G_star, part in found])
            for a in range(len(result.beta))
        ]
        self.history_ = result.history
        self.objective_ = result.objective
        self.n_iter_ = result.n_iter
        self.converged_ = result.converged

    def _warn(self) -> None:
        warn_if_unfinished(self, "try fewer clusters or more starts (n_init)")
        warn_if_collapsed(
            self,
            "It may explain the consensus because it is simple, not because it is informative; "
            "a larger gamma or calibrate=True evens the weights out.",
        )

    def _placed(self, samples: NewSamples) -> tuple[Shard, list[ViewMessage]]:
        """New samples moved to where the fitted centroids and the consensus of their views put them."""
        project = PROJECTIONS[self.membership]
        shard, message = self._problem.place(samples, self._message, project, self.sharpness)
        shard.start(consensus_of(shard, message, samples.n))
        return shard, message


def listed_once(parameter: Any, make: Callable[[Any], Any]) -> list[Any]:
    """What a parameter names, per view where it says so and once where it is the same for all."""
    if isinstance(parameter, dict):
        parameter = list(parameter.values())
    return [make(item) for item in (parameter if isinstance(parameter, (list, tuple)) else [parameter])]


storable(
    KernelMultiviewNMF,
    (
        *KernelMultiviewNMF._get_param_names(),
        *KernelMultiviewNMF.PER_SAMPLE,
        *("view_names_", "view_features_", "view_weights_", "n_features_in_", "feature_names_in_"),
        *("history_", "objective_", "n_iter_", "converged_", "_problem", "_message", "_range_per_sample"),
    ),
)
