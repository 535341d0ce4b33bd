"""Fitting: build kernels and graphs, initialise and solve, exactly or by landmarks.

`viewloom.models.fitted` holds the result, and `viewloom.models.kernel_nmf` is the estimator.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from viewloom.data.alignment import check_trainable
from viewloom.data.checks import per_view
from viewloom.data.row_sources import Blocks, extent
from viewloom.data.views import Views
from viewloom.kernels.base import Context
from viewloom.kernels.graphs import GaussianGraph, make_graph
from viewloom.kernels.nystroem import as_factored
from viewloom.kernels.pairwise import PairwiseKernel, Precomputed
from viewloom.kernels.registry import make_kernel
from viewloom.models.base import as_memberships, given_start, nonnegative_per_view, scattered
from viewloom.models.landmark_problem import (
    LANDMARKS,
    Builder,
    ShardMemberships,
    memberships,
    rescaled_moments,
    restart,
    root_scales,
    tie_sums,
)
from viewloom.models.landmark_views import landmark_views
from viewloom.models.problem import Problem, codebooks
from viewloom.models.scaling import fit_scalers, mixable
from viewloom.runtime.memory import return_freed_memory
from viewloom.runtime.progress import progress_bar, with_progress
from viewloom.runtime.threads import threads_for
from viewloom.runtime.user_warnings import warn_user
from viewloom.solver.convergence import History
from viewloom.solver.loop import Result, Settings, broadcast, solve
from viewloom.solver.objective import Calibration, charge_of, explained_range
from viewloom.solver.shard import Team, ViewMessage
from viewloom.solver.start import kernel_kmeans, random_memberships, soft_memberships
from viewloom.solver.teams import Serial, choose_team
from viewloom.solver.updates import PROJECTIONS

Array = np.ndarray
Progress = Callable[[int, float], None]
EXACT_ROWS = 20_000  # number of samples beyond which landmarks are used
DENSE_BYTES = 4 * 2**30  # size of n x n matrices beyond which landmarks are used
BUILDING = ("kernel", "graph", "scale", "normalize", "n_clusters")  # parameters of kernels and graphs


@dataclass(frozen=True)
class Parameters:
    """Parameters of `KernelMultiviewNMF` at the time of fitting."""

    n_clusters: int
    kernel: Any
    lam: Any
    theta: Any
    gamma: float
    graph: Any
    membership: str
    sharpness: float
    calibrate: bool
    normalize: bool
    scale: Any
    init: Any
    n_init: int
    inner_iter: int
    max_iter: int
    tol: float
    factored: bool | int | str
    backend: str
    random_state: Any
    verbose: int

    @classmethod
    def of(cls, estimator: Any) -> Parameters:
        """The parameters of an estimator."""
        return cls(**{field.name: getattr(estimator, field.name) for field in fields(cls)})

    @property
    def n_landmarks(self) -> int:
        """Number of landmarks."""
        return LANDMARKS if isinstance(self.factored, (bool, str)) else int(self.factored)

    def kernels(self, names: list[str]) -> list[Any]:
        """The kernel of each view."""
        return [make_kernel(kernel) for kernel in per_view(self.kernel, names, "kernel")]

    def graphs(self, names: list[str]) -> list[Any]:
        """The graph of each view, None without a smoothness term."""
        graphs, theta = (per_view(getattr(self, what), names, what) for what in ("graph", "theta"))
        return [make_graph(graph) if weight else None for graph, weight in zip(graphs, theta, strict=True)]

    @property
    def entrywise(self) -> list[Any]:
        """Kernels and graphs that are stored entry by entry."""
        chosen = [*listed_once(self.kernel, make_kernel), *listed_once(self.graph, make_graph)]
        return [item for item in chosen if isinstance(item, (PairwiseKernel, GaussianGraph))]

    def threads(self, n: int) -> AbstractContextManager[None]:
        """Thread limit for an exact problem of n samples."""
        return threads_for(n, dense=bool(self.entrywise))


@dataclass(frozen=True, eq=False)
class Solution:
    """Solution of the training samples, and the codebooks to place new samples."""

    memberships: Array  # n x k
    view_memberships: list[Array]  # n x k each; NaN for samples without the view
    weights: Array
    history: History
    objective: float
    n_iter: int
    converged: bool
    codebooks: list[ViewMessage]
    loss_range: Array  # 2 x v, per sample: least loss, and difference to the loss of one cluster

    @classmethod
    def of(
        cls, result: Result, found: list[ShardMemberships], codebooks: list[ViewMessage], loss_range: Array
    ) -> Solution:
        """The solution from the result of the loop and the memberships of all shards."""
        return cls(
            memberships=as_memberships(np.hstack([G_star for G_star, _ in found])),
            view_memberships=[
                np.concatenate([scattered(*part[a], G_star.shape[1]) for G_star, part in found])
                for a in range(len(result.beta))
            ],
            weights=result.beta,
            history=result.history,
            objective=result.objective,
            n_iter=result.n_iter,
            converged=result.converged,
            codebooks=codebooks,
            loss_range=loss_range,
        )

    @property
    def labels(self) -> Array:
        """Cluster of each training sample."""
        return np.asarray(np.argmax(self.memberships, axis=1))

    @property
    def losses(self) -> Array:
        """Calibrated reconstruction error of each view: 0 is the least possible, 1 that of one cluster."""
        sizes = np.array([np.isfinite(U[:, 0]).sum() for U in self.view_memberships])
        least, span = self.loss_range
        return np.asarray((self.history["reconstruction"][-1] / sizes - least) / span)

    def reordered(self, order: Array) -> Solution:
        """The solution with cluster ``order[j]`` at position j."""
        return replace(
            self,
            memberships=self.memberships[:, order],
            view_memberships=[U[:, order] for U in self.view_memberships],
            codebooks=[codebook.reordered(order) for codebook in self.codebooks],
        )


@dataclass(frozen=True, eq=False)
class Tied:
    """Landmarks, and the scales of the ties of all samples to them.

    Attributes
    ----------
    problem : Problem
        The exact problem of the landmarks.
    scales : list of (m,) arrays or None
        ``Lambda^-1/2`` of each view, where ``Lambda`` is the sum of the ties of all samples to each
        landmark: with row-stochastic ties ``B``, the graph ``B Lambda^-1 B^T`` has degrees of one.
    mixed : bool
        Whether landmarks are means of samples, so that no sample is stored.
    """

    problem: Problem
    scales: list[Array | None]
    mixed: bool


def needs_landmarks(p: Parameters, X: Any) -> bool:
    """Whether to use landmarks instead of exact kernels; warns if "auto" chooses landmarks."""
    if p.factored != "auto":
        return bool(p.factored)
    n, v = extent(X)
    kernels = listed_once(p.kernel, make_kernel)
    if any(isinstance(kernel, Precomputed) for kernel in kernels):
        return False
    stored = p.entrywise
    dense = 8 * n**2 * (len(stored) if len(stored) > 1 else v * len(stored))
    if n <= EXACT_ROWS and dense <= DENSE_BYTES:
        return False
    size = f", which would take {dense / 2**30:.0f} GiB" if stored else ""
    warn_user(
        f"{n} samples: {LANDMARKS} landmarks are used instead of exact kernels{size}. "
        "Pass factored=True to silence this warning, or factored=False for exact kernels."
    )
    return True


def listed_once(parameter: Any, make: Callable[[Any], Any]) -> list[Any]:
    """Objects for a parameter: one per view if given per view, else a single one."""
    if isinstance(parameter, dict):
        parameter = list(parameter.values())
    return [make(item) for item in (parameter if isinstance(parameter, (list, tuple)) else [parameter])]


def build(
    views: Views, p: Parameters, scalers: list[Any] | None = None, sample: Views | None = None
) -> Problem:
    """Build the kernels and graphs of the training samples, which depend on the parameters `BUILDING`.

    If these are landmarks, `sample` are the samples that they were computed from.
    """
    kernels = p.kernels(views.names)
    context = Context(normalize=p.normalize, n_clusters=p.n_clusters)
    scalers = scalers or fit_scalers(views, kernels, p.scale)
    return Problem.of(views, kernels, p.graphs(views.names), scalers, context, sample)


def solve_exactly(problem: Problem, p: Parameters, progress: Progress | None = None) -> Solution:
    """Solve the problem of the training samples with exact kernels."""
    sigmas = [0.0 if view.laplacian is None else view.laplacian.sigma for view in problem.views]
    constants = settings(problem.operators, sigmas, problem, p)
    result, team = _best_of_starts(problem, constants, p, progress)
    G = [block.G for block in team.shards[0].blocks]
    found = codebooks(problem, G, result.message, p.sharpness)
    return Solution.of(result, team.each(memberships), found, loss_range(problem.operators, constants, p))


def solve_by_landmarks(
    sample: Views, blocks: Blocks, p: Parameters, rng: np.random.RandomState
) -> tuple[Tied, Solution]:
    """Solve the problem of the landmarks, tie every sample to them, and solve for all samples.

    See `viewloom.models.landmark_problem`. Landmarks are computed from `sample`, some thousand checked rows
    of `blocks`.
    """
    with progress_bar("Landmarks", 0, p.verbose == 1):
        landmarks, pilot = _solve_landmarks(sample, p, rng)
    project = PROJECTIONS[p.membership]
    make = Builder(landmarks, pilot.codebooks, sample.names, sample.feature_names, project, p.sharpness)
    with progress_bar("Ties to landmarks", len(blocks.ranges), p.verbose == 1) as advance:
        team = choose_team(p.backend, blocks)(make, blocks, advance)
    with progress_bar("Sums over all samples", 0, p.verbose == 1):  # a cluster ties them now
        scales = root_scales(team.total(tie_sums))
        moments = team.total(rescaled_moments, scales)
    constants = settings(moments, [float(scale is not None) for scale in scales], landmarks, p)
    _restart(team, blocks.n, p)
    with progress_bar("Iterations, at most", p.max_iter, p.verbose == 1) as advance:
        result = solve(team, constants, with_progress(_reporter(p), advance))
    found = team.each(memberships)
    del team  # factors and ties
    return_freed_memory()  # or the results would come on top of them
    mixed = landmarks.n < len(sample) and mixable(view.scaler for view in landmarks.views)
    after = broadcast(result.sums, result.beta, constants)
    return Tied(landmarks, scales, mixed), Solution.of(
        result, found, after, loss_range(moments, constants, p)
    )


def _solve_landmarks(sample: Views, p: Parameters, rng: np.random.RandomState) -> tuple[Problem, Solution]:
    """The exact problem of the landmarks, on the scale of the sample, and its solution."""
    kernels = [as_factored(kernel) for kernel in p.kernels(sample.names)]
    pilot = replace(
        p, kernel=kernels, init="kkmeans", factored=False, verbose=0, random_state=rng.randint(2**31 - 1)
    )
    scalers = fit_scalers(sample, kernels, p.scale)
    views = Views(landmark_views(sample, scalers, p.n_landmarks, rng))
    check_trainable(views, p.n_clusters)
    with warnings.catch_warnings(), pilot.threads(len(views)):
        problem = build(views, pilot, scalers, sample if len(views) < len(sample) else None)
        warnings.simplefilter("ignore")  # warnings are issued for the fit to all samples
        return problem, solve_exactly(problem, pilot)


def settings(operators: Sequence[Any], sigmas: list[float], problem: Problem, p: Parameters) -> Settings:
    """Constants of the objective; the reliability of views is that of `problem`."""
    return Settings(
        lam=nonnegative_per_view(p.lam, problem.names, "lam"),
        theta=nonnegative_per_view(p.theta, problem.names, "theta"),
        gamma=float(p.gamma),
        traces=np.array([operator.trace() for operator in operators]),
        sigmas=np.array(sigmas),
        calibration=_calibration(operators, problem, p),
        n_steps=p.inner_iter,
        max_iter=p.max_iter,
        tol=p.tol,
    )


def _calibration(operators: Sequence[Any], problem: Problem, p: Parameters) -> Calibration:
    if not p.calibrate:
        return Calibration.identity(len(operators))
    charge = charge_of(problem.reliability(p.n_clusters).votes, p.gamma)
    return Calibration.of(operators, p.n_clusters, charge)


def loss_range(operators: Sequence[Any], constants: Settings, p: Parameters) -> Array:
    """Least loss of each view per sample, and the difference to the loss of a single cluster (2 x v)."""
    known = constants.calibration
    if p.calibrate:
        ranges = np.vstack([known.offset, known.scale])
    else:
        ranges = np.transpose([explained_range(operator, p.n_clusters) for operator in operators])
    return np.asarray(ranges / [operator.size for operator in operators])


def starts(n: int, p: Parameters, problem: Problem | None = None) -> Iterator[Array]:
    """Initial memberships (k x n), one per initialisation."""
    rng = check_random_state(p.random_state)
    if not isinstance(p.init, str):
        G = given_start(p.init, n, p.n_clusters)
        yield as_memberships(G).T.copy() if p.membership == "simplex" else G
        return
    if p.init == "random" or problem is None:
        for _ in range(p.n_init):
            yield random_memberships(n, p.n_clusters, rng, p.membership)
        return
    features, observed = problem.start_features(p.n_clusters)
    for _ in range(p.n_init):
        labels = kernel_kmeans(features, observed, p.n_clusters, rng)
        yield soft_memberships(labels, p.n_clusters)


def _restart(team: Team, n: int, p: Parameters) -> None:
    """Initialise memberships by `init`, unless it is "kkmeans", which the landmarks provide."""
    if isinstance(p.init, str) and p.init == "kkmeans":
        return
    start = next(starts(n, p))
    team.deal(restart, [start[:, slice(*rows)] for rows in team.ranges])


def _best_of_starts(
    problem: Problem, constants: Settings, p: Parameters, progress: Progress | None
) -> tuple[Result, Serial]:
    """Solve from every initialisation and keep the result with the lowest objective."""
    best: tuple[Result, Serial] | None = None
    for number, start in enumerate(starts(problem.n, p, problem)):
        shard = problem.shard(PROJECTIONS[p.membership], p.sharpness)
        shard.start(start)
        team = Serial([shard])
        with progress_bar("Iterations, at most", p.max_iter, p.verbose == 1) as advance:
            result = solve(team, constants, with_progress(progress or _reporter(p), advance))
        if p.verbose:
            print(f"start {number + 1}: objective {result.objective:.6g}, {result.n_iter} iterations")
        if best is None or result.objective < best[0].objective:
            best = result, team
    assert best is not None
    return best


def _reporter(p: Parameters) -> Progress:
    return lambda iteration, objective: report_iteration(p, iteration, objective)


def report_iteration(p: Parameters, iteration: int, objective: float) -> None:
    """Print an iteration, if `verbose` is larger than 1."""
    if p.verbose > 1:
        print(f"  iteration {iteration}: objective {objective:.6g}")
