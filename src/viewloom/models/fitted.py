"""The fitted model behind a fitted `KernelMultiviewNMF`.

It owns the scalers, kernels and graphs of the views, the solution and the range of the losses. Estimators
hold parameters and attributes; inspection, selection, runs and persistence use the public methods here.
There are two kinds: `ExactModel` stores the training samples, `LandmarkModel` stores landmarks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd

from viewloom.data.alignment import warn_by_position
from viewloom.data.mixed_encoding import MixedEncoder
from viewloom.data.row_sources import Blocks
from viewloom.data.views import Views
from viewloom.kernels.geometry import GramGeometry
from viewloom.kernels.graphs import FittedGaussianGraph
from viewloom.kernels.linear import FittedLinear
from viewloom.kernels.pairwise import FittedPairwise
from viewloom.models.base import as_memberships
from viewloom.models.column_updates import ColumnUpdates
from viewloom.models.complete_rows import CompleteRows
from viewloom.models.fitting import (
    BUILDING,
    Parameters,
    Progress,
    Solution,
    build,
    needs_landmarks,
    solve_by_landmarks,
    solve_exactly,
)
from viewloom.models.importance import (
    linear_importance,
    mixed_levels,
    mixed_linear_importance,
    permutation_importance,
)
from viewloom.models.landmark_problem import rescale, tied_views
from viewloom.models.predictor import PlainRows, Predictor
from viewloom.models.problem import NewSamples, Problem, consensus_error
from viewloom.models.scaling import warn_of_unseen
from viewloom.runtime.errors import InputError
from viewloom.runtime.progress import progress_bar
from viewloom.runtime.stored import Stored
from viewloom.runtime.threads import one_blas_thread, threads_for
from viewloom.solver.placement import consensus_of
from viewloom.solver.shard import Shard, ViewMessage
from viewloom.solver.teams import in_threads
from viewloom.solver.updates import PROJECTIONS

__all__ = [
    "ExactModel",
    "FittedModel",
    "LandmarkModel",
    "Parameters",
    "Placed",
    "Predictor",
    "needs_landmarks",
]

Array = np.ndarray
PLACED_ROWS = 2048  # new samples placed at a time, to limit memory
NEIGHBOURS = 5  # neighbours whose mean distance measures how far away a sample is
STATE = ("names", "features", "problem", "codebooks", "weights", "loss_range", "membership", "sharpness")


@dataclass(frozen=True)
class Placed:
    """New samples with their consensus memberships at the fitted centroids."""

    shard: Shard
    codebooks: list[ViewMessage]  # of the views they have
    views: list[int]  # positions of these views in the model

    @property
    def memberships(self) -> Array:
        """Consensus memberships (n x k); rows sum to one."""
        return as_memberships(self.shard.G_star)


@dataclass(frozen=True, eq=False, kw_only=True)
class FittedModel(Stored):
    """Base class of fitted models; see `ExactModel` and `LandmarkModel`.

    Attributes
    ----------
    names : list of str
        Names of the views.
    features : dict of str to array
        Names of the features of each view.
    problem : Problem
        Scalers, kernels and graphs, of the training samples or of the landmarks.
    codebooks : list of ViewMessage
        Centroids of each view, in the form used to place new samples.
    weights : (v,) array
        View weights.
    loss_range : (2, v) array
        Least loss of each view per sample, and the difference to the loss of a single cluster.
    membership : str
    sharpness : float
    parameters : Parameters or None
        Parameters of the fit; None in a loaded model.
    solution : Solution or None
        Results of the training samples; None in a loaded model.
    """

    EXACT: ClassVar[bool]  # whether the training samples are stored
    placed_rows: ClassVar[int] = PLACED_ROWS

    names: list[str]
    features: dict[str, Array]
    problem: Problem
    codebooks: list[ViewMessage]
    weights: Array
    loss_range: Array
    membership: str
    sharpness: float
    parameters: Parameters | None = None
    solution: Solution | None = None

    @property
    def holds_training_rows(self) -> bool:
        """Whether the model contains rows of single training samples."""
        raise NotImplementedError

    @property
    def results(self) -> Solution:
        """Results of the training samples, after a fit."""
        if self.solution is None:
            raise InputError("A loaded model has no results of its training samples; fit again.")
        return self.solution

    @property
    def n_clusters(self) -> int:
        """Number of clusters."""
        return len(self.codebooks[0].A)

    @property
    def samples(self) -> NewSamples:
        """The stored samples, training samples or landmarks, scaled."""
        return self.problem.samples

    @cached_property
    def plain_rows(self) -> PlainRows:
        """Which new samples need no other check than those of `PlainRows`."""
        return PlainRows.of(self)

    def plain(self, X: Any, *, warn: bool = True) -> NewSamples | None:
        """New samples that are a dict of arrays of all views, checked and scaled; None for any other."""
        samples = self.plain_rows.scaled(X)
        if warn and samples is not None:
            warn_by_position(self.plain_rows.named)
        return samples

    def scaled(self, views: Views) -> NewSamples:
        """Scale new samples, whose views must be aligned with those of the fit."""
        if views.names != self.names:
            raise InputError(f"Views {views.names} are not those of the fit, {self.names}: align them first.")
        return self.problem.new_samples(views)

    def place(self, views: Views | NewSamples) -> Placed:
        """Compute the consensus memberships of new samples at the fitted centroids."""
        samples = self.scaled(views) if isinstance(views, Views) else views
        with self._threads():
            shard, codebooks = self._reaching(samples)
            shard.start(consensus_of(shard, codebooks, samples.n))
        return Placed(shard, codebooks, list(samples.rows))

    def memberships(self, views: Views | NewSamples, using: Iterable[int] | None = None) -> Array:
        """Consensus memberships of new samples (n x k).

        Parameters
        ----------
        views : Views or NewSamples
            Views aligned with those of the fit, or samples that are already scaled.
        using : iterable of int, optional
            Positions of the views to use; by default all. Samples without any of them get NaN.
        """
        if using is not None:
            return self._memberships_using(views, list(using))
        if isinstance(views, NewSamples):
            return as_memberships(self.consensus(views))
        warn_of_unseen(views, [view.scaler for view in self.problem.views])
        starts = range(0, len(views), PLACED_ROWS)
        parts = [views] if len(starts) == 1 else [views[i : i + PLACED_ROWS] for i in starts]
        found = in_threads(lambda part: self.consensus(self.scaled(part)), parts)
        return as_memberships(np.hstack(list(found)))

    @cached_property
    def complete_rows(self) -> CompleteRows | None:
        """The model prepared to place complete samples, if its kernels allow it."""
        return self._prepared() if self.membership == "simplex" else None

    def consensus(self, samples: NewSamples) -> Array:
        """Consensus memberships of scaled samples (k x n); complete ones may take a shorter way."""
        prepared = self.complete_rows if samples.complete(len(self.names)) else None
        if prepared is None or not prepared.pays(samples.n):
            return self.place(samples).shard.G_star
        with self._threads():
            return prepared.consensus([samples.scaled[a] for a in range(len(self.names))])

    def score(self, views: Views) -> float:
        """Negative weighted mean of the calibrated errors of reconstructing views from the consensus."""
        warn_of_unseen(views, [view.scaler for view in self.problem.views])
        placed = self.place(views)
        pairs = zip(placed.shard.blocks, placed.codebooks, strict=True)
        with self._threads():
            errors = np.array([consensus_error(placed.shard, block, m) for block, m in pairs])
        least, span = self.loss_range[:, placed.views]
        weights = self.weights[placed.views]
        total = float(weights.sum()) or 1.0  # all weight on a view that no sample has
        return -float(weights @ ((errors - least) / span)) / total

    def distances(self, views: Views) -> Array:
        """Mean distance (n x v) to the nearest five stored samples; NaN for missing views."""
        samples = self.scaled(views)
        found = np.full((samples.n, len(self.names)), np.nan)
        for a, X in samples.scaled.items():
            found[samples.rows[a], a] = _mean_distance(self.problem.views[a].geometry.to(X))
        return found

    def training_distances(self, views: Views) -> Array:
        """`distances` of the training samples to other training samples."""
        raise NotImplementedError

    def refit(self, **parameters: Any) -> Self:
        """Fit another model with some parameters changed, reusing kernels and graphs.

        Used for searches over `lam`, `theta`, `gamma` or initialisations; parameters that kernels or graphs
        depend on cannot be changed.
        """
        raise NotImplementedError

    def reordered(self, order: Array) -> Self:
        """The same model with cluster ``order[j]`` at position j."""
        codebooks = [codebook.reordered(order) for codebook in self.codebooks]
        solution = None if self.solution is None else self.solution.reordered(order)
        return replace(self, codebooks=codebooks, solution=solution)

    def importance(self, view: int, rng: np.random.RandomState, n_repeats: int = 1) -> pd.DataFrame:
        """Importance of each feature of a view: see `KernelMultiviewNMF.feature_importance`."""
        name, fitted = self.names[view], self.problem.views[view]
        if isinstance(fitted.scaler, MixedEncoder):
            return self._mixed_importance(view, fitted.scaler, rng, n_repeats)
        if isinstance(fitted.kernel, FittedLinear):
            return linear_importance(self.codebooks[view].C.T, self.features[name])
        if isinstance(fitted.geometry, GramGeometry):
            raise InputError(f"View {name!r} is a precomputed kernel: it has no features to rank.")
        return permutation_importance(
            self._placing(view),
            fitted.geometry.X,
            self.features[name],
            rng,
            n_repeats,
            updates=self._column_updates(view),
        )

    def _mixed_importance(
        self, view: int, encoder: MixedEncoder, rng: np.random.RandomState, n_repeats: int
    ) -> pd.DataFrame:
        """Importance of each original column of a view with categorical columns."""
        fitted = self.problem.views[view]
        if isinstance(fitted.kernel, FittedLinear):
            return mixed_linear_importance(self.codebooks[view].C.T, encoder)
        X, names = fitted.geometry.X, self.features[self.names[view]]
        place = self._placing(view)
        frame = permutation_importance(place, X, names, rng, n_repeats, encoder.groups)
        frame.attrs["levels"] = mixed_levels(place(X), X, encoder)
        return frame

    def _column_updates(self, view: int) -> ColumnUpdates | None:
        """The view prepared to permute its columns, if the model allows it."""
        return None

    def _placing(self, view: int) -> Callable[[Any], Array]:
        """Memberships of scaled samples that have only one view."""
        return lambda X: self.memberships(NewSamples.of_one_view(view, X))

    def _memberships_using(self, views: Views | NewSamples, using: list[int]) -> Array:
        samples = self.scaled(views) if isinstance(views, Views) else views
        chosen = samples.present(len(self.names))[:, using].any(axis=1)
        U = np.full((samples.n, self.n_clusters), np.nan)
        if chosen.any():
            U[chosen] = self.place(samples.taken(np.flatnonzero(chosen), using)).memberships
        return U

    @cached_property
    def _stored(self) -> tuple[int, bool]:
        """Number of stored samples, and whether kernels or graphs are stored entry by entry."""
        views = self.problem.views
        entrywise = [
            isinstance(view.kernel, FittedPairwise) or isinstance(view.graph, FittedGaussianGraph)
            for view in views
        ]
        return max(view.geometry.size for view in views), any(entrywise)

    def _threads(self) -> AbstractContextManager[None]:
        """Thread limit for placing new samples."""
        n, entrywise = self._stored
        return threads_for(n, dense=entrywise)

    def _prepared(self) -> CompleteRows | None:
        """The model prepared to place complete samples whose memberships sum to one."""
        raise NotImplementedError

    def _reaching(self, samples: NewSamples) -> tuple[Shard, list[ViewMessage]]:
        """New samples as a shard, and the codebooks of the views they have."""
        raise NotImplementedError


@dataclass(frozen=True, eq=False, kw_only=True)
class ExactModel(FittedModel, tag="model.exact", fields=STATE):
    """A model that stores its training samples; new samples are placed by their kernels with all of them."""

    EXACT: ClassVar[bool] = True

    @classmethod
    def fit(cls, views: Views, p: Parameters) -> ExactModel:
        """Build the kernels and graphs of the views, and solve."""
        with p.threads(len(views)):
            with progress_bar("Kernels and graphs", 0, p.verbose == 1):
                problem = build(views, p)
            return cls.of(problem, views.feature_names, p)

    @classmethod
    def of(
        cls, problem: Problem, features: dict[str, Array], p: Parameters, progress: Progress | None = None
    ) -> ExactModel:
        """Solve with kernels and graphs that are already built."""
        solution = solve_exactly(problem, p, progress)
        return cls(names=problem.names, features=features, problem=problem, **_solved(solution, p))

    @property
    def holds_training_rows(self) -> bool:
        """Always true."""
        return True

    def training_distances(self, views: Views) -> Array:
        """`distances` of the training samples to other training samples."""
        found = np.full((self.problem.n, len(self.names)), np.nan)
        for a, view in enumerate(self.problem.views):
            found[view.rows, a] = _mean_distance(view.geometry)
        return found

    def refit(self, **parameters: Any) -> ExactModel:
        """Fit another model with some parameters changed, reusing kernels and graphs."""
        if self.parameters is None:
            raise InputError("A loaded model has no kernels of its training samples; fit again.")
        building = sorted(set(parameters) & set(BUILDING))
        if building:
            raise InputError(f"Kernels and graphs depend on {building}; fit again to change them.")
        p = replace(self.parameters, **parameters)
        wanted = p.graphs(self.names)
        lacking = [
            a for a, view in enumerate(self.problem.views) if view.graph is None and wanted[a] is not None
        ]
        if lacking:
            raise InputError(f"{len(lacking)} views were fitted with theta=0 and have no graph; fit again.")
        with p.threads(self.problem.n):
            return self.of(self.problem, self.features, p)

    def _column_updates(self, view: int) -> ColumnUpdates | None:
        if self.membership != "simplex":
            return None
        return ColumnUpdates.of(self.problem, view, self.codebooks[view], self.sharpness)

    def _prepared(self) -> CompleteRows | None:
        return CompleteRows.of(self.problem, self.codebooks, self.sharpness)

    def _reaching(self, samples: NewSamples) -> tuple[Shard, list[ViewMessage]]:
        return self.problem.place(samples, self.codebooks, PROJECTIONS[self.membership], self.sharpness)


@dataclass(frozen=True, eq=False, kw_only=True)
class LandmarkModel(FittedModel, tag="model.landmarks", fields=(*STATE, "n", "scales", "mixed", "fused")):
    """A model that stores landmarks; samples are placed by their ties to them.

    Attributes
    ----------
    n : int
        Number of training samples.
    scales : list of (m,) arrays or None
        Scales of the ties to each landmark: see `viewloom.models.fitting.Tied`.
    mixed : bool
        Whether landmarks are means of samples, so that no sample is stored.
    fused : bool
        Whether samples are tied to landmarks along the concatenated features, too; not so in models that were
        saved before it was stored with them.
    """

    EXACT: ClassVar[bool] = False

    n: int
    scales: list[Array | None]
    mixed: bool = False
    fused: bool = False

    @classmethod
    def fit(cls, sample: Views, blocks: Blocks, p: Parameters, rng: np.random.RandomState) -> LandmarkModel:
        """Compute landmarks from a sample of the blocks, tie all rows to them, and solve."""
        with one_blas_thread():
            ties, solution = solve_by_landmarks(sample, blocks, p, rng)
        return cls(
            names=sample.names,
            features=sample.feature_names,
            problem=ties.problem,
            n=blocks.n,
            scales=ties.scales,
            mixed=ties.mixed,
            fused=True,
            **_solved(solution, p),
        )

    @property
    def holds_training_rows(self) -> bool:
        """True unless landmarks are means of samples."""
        return not self.mixed

    def training_distances(self, views: Views) -> Array:
        """`distances` of the training samples to the landmarks."""
        return self.distances(views)

    def refit(self, **parameters: Any) -> LandmarkModel:
        """Raise an error: the ties of the training samples are not stored."""
        raise InputError("A model fitted by landmarks does not store the ties of its samples; fit again.")

    def _prepared(self) -> CompleteRows | None:
        if not self.fused:
            return None
        return CompleteRows.of(self.problem, self.codebooks, self.sharpness, self.scales)

    def _reaching(self, samples: NewSamples) -> tuple[Shard, list[ViewMessage]]:
        blocks = tied_views(self.problem, samples, fuse=self.fused)
        shard = Shard(list(blocks.values()), PROJECTIONS[self.membership], self.sharpness)
        rescale(shard, [self.scales[a] for a in blocks])
        return shard, [self.codebooks[a] for a in blocks]


def _solved(solution: Solution, p: Parameters) -> dict[str, Any]:
    """The fields of a model that come from its solution and parameters."""
    return {
        "codebooks": solution.codebooks,
        "weights": solution.weights,
        "loss_range": solution.loss_range,
        "membership": p.membership,
        "sharpness": p.sharpness,
        "parameters": p,
        "solution": solution,
    }


def _mean_distance(geometry: Any) -> Array:
    return np.asarray(geometry.neighbours(NEIGHBOURS)[0].mean(axis=1))
