"""The optimisation problem: kernels and graphs of all views, and the placement of new samples."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from viewloom.data.views import Views
from viewloom.kernels.base import Context, FittedKernel
from viewloom.kernels.diffusion import Diffusion
from viewloom.kernels.geometry import Geometry, GramGeometry
from viewloom.kernels.graphs import KNN, Laplacian
from viewloom.kernels.operators import Cross, Operator
from viewloom.kernels.pairwise import Precomputed
from viewloom.kernels.reliability import Reliability, reliability_of
from viewloom.kernels.shared_graph import CrossViews, SharedGraph, common_shape
from viewloom.kernels.votes import provisional_clusters, shared_votes
from viewloom.models.scaling import informative_presence, rows_of_views, scale_block
from viewloom.runtime.stored import Stored
from viewloom.solver.objective import reconstruction
from viewloom.solver.shard import Shard, ViewBlock, ViewMessage
from viewloom.solver.start import joint_features
from viewloom.solver.updates import Rows, combinations, membership_gram

Array = np.ndarray


@dataclass(frozen=True)
class FittedView(Stored, tag="view", fields=("rows", "scaler", "geometry", "kernel", "graph")):
    """One view of the training samples: scaler, distances, kernel and graph."""

    rows: Rows  # training samples that have the view
    scaler: Any
    geometry: Geometry
    kernel: FittedKernel
    graph: Any  # None if theta = 0

    @property
    def laplacian(self) -> Laplacian | None:
        """Laplacian of the training samples."""
        return None if self.graph is None else self.graph.laplacian


@dataclass(frozen=True)
class Problem(Stored, tag="problem", fields=("views", "n", "shared_graph")):
    """All views of the training samples, ready for the solver."""

    views: list[FittedView]
    n: int
    shared_graph: SharedGraph | None

    @classmethod
    def of(
        cls,
        views: Views,
        kernels: list[Any],
        graphs: list[Any],
        scalers: list[Any],
        context: Context,
        sample: Views | None = None,
    ) -> Problem:
        """Scale every view, then build its kernel and its graph; `sample` has samples between landmarks."""
        rows = rows_of_views(informative_presence(views, scalers))
        geometries = [
            (GramGeometry if isinstance(kernel, Precomputed) else Geometry)(scaler.transform(X[where]), name)
            for (name, X), where, scaler, kernel in zip(views.items(), rows, scalers, kernels, strict=True)
        ]
        between = None if sample is None else NewSamples.of(sample, scalers).cross(geometries)
        shared_graph = _shared_graph(kernels, geometries, rows, len(views), context.n_clusters, between)
        fitted = [
            FittedView(
                where,
                scaler,
                geometry,
                kernel.fit(geometry, replace(context, shared_graph=shared_graph, view=a)),
                None if graph is None else graph.fit(geometry),
            )
            for a, (where, scaler, geometry, kernel, graph) in enumerate(
                zip(rows, scalers, geometries, kernels, graphs, strict=True)
            )
        ]
        return cls(fitted, len(views), shared_graph)

    @property
    def names(self) -> list[str]:
        """Names of the views."""
        return [view.geometry.name for view in self.views]

    @property
    def operators(self) -> list[Operator]:
        """Gram matrices of the training samples."""
        return [view.kernel.operator for view in self.views]

    @property
    def rows(self) -> list[Rows]:
        """Positions of the samples that have each view."""
        return [view.rows for view in self.views]

    def reliability(self, n_clusters: int) -> Reliability:
        """Reliability of each view."""
        if self.shared_graph is not None:
            return self.shared_graph.reliability
        Z = [operator.features(3 * n_clusters) for operator in self.operators]
        positions = [np.arange(self.n)[where] for where in self.rows]
        graphs = [KNN().fit(view.geometry).S for view in self.views]
        weights, gate = reliability_of(Z, graphs, positions, n_clusters)
        labels = provisional_clusters(self.start_features(n_clusters)[0], n_clusters)
        geometries = [view.geometry for view in self.views]
        return Reliability(weights, shared_votes(gate, geometries, positions, labels))

    def start_features(self, n_clusters: int) -> tuple[Array, Array]:
        """Features for the initial clustering (n x m), and a mask of their observed entries."""
        if self.shared_graph is not None:
            return self.shared_graph.walk.Z, np.ones(self.shared_graph.walk.Z.shape, dtype=bool)
        return joint_features(self.operators, self.rows, self.n, rank=max(3 * n_clusters, 10))

    def shard(self, project: Callable[[Array], Array], rho: float) -> Shard:
        """All training samples as one shard."""
        blocks = [ViewBlock(view.kernel.operator, view.laplacian, view.rows) for view in self.views]
        return Shard(blocks, project, rho)

    def place(
        self,
        samples: NewSamples,
        message: list[ViewMessage],
        project: Callable[[Array], Array],
        rho: float,
    ) -> tuple[Shard, list[ViewMessage]]:
        """New samples as a shard, with kernels to the training samples, and the messages of its views."""
        new = samples.cross([view.geometry for view in self.views])
        shared_graph = None if self.shared_graph is None else self.shared_graph.cross(*new)
        blocks = {
            a: ViewBlock(
                self.views[a].kernel.place(cross, shared_graph),
                cross_laplacian(self.views[a].graph, cross),
                samples.rows[a],
            )
            for a, cross in new.crosses.items()
        }
        messages = [_reaching(message[a], block) for a, block in blocks.items()]
        return Shard(list(blocks.values()), project, rho), messages

    @property
    def samples(self) -> NewSamples:
        """The training samples, in the form of new samples."""
        views = dict(enumerate(self.views))
        return NewSamples(
            {a: view.geometry.X for a, view in views.items()},
            {a: view.rows for a, view in views.items()},
            self.n,
        )

    def new_samples(self, views: Views) -> NewSamples:
        """Scale new samples like the training samples."""
        return NewSamples.of(views, [view.scaler for view in self.views])


@dataclass(frozen=True)
class NewSamples:
    """Scaled views of new samples, keyed by the positions of the views they have."""

    scaled: dict[int, Any]
    rows: dict[int, Rows]
    n: int

    @classmethod
    def of(cls, views: Views, scalers: list[Any]) -> NewSamples:
        """Scale the views that samples have."""
        present = informative_presence(views, scalers, least=0)
        rows = {a: where for a, where in enumerate(rows_of_views(present)) if present[:, a].any()}
        scaled = {a: scale_block(scalers[a], views.blocks[a][where]) for a, where in rows.items()}
        return cls(scaled, rows, len(views))

    def cross(self, geometries: Sequence[Geometry]) -> CrossViews:
        """Distances to stored samples, whose geometries are given."""
        crosses = {a: geometries[a].to(X) for a, X in self.scaled.items()}
        positions = {a: np.arange(self.n)[where] for a, where in self.rows.items()}
        return CrossViews(crosses, positions, self.n)

    @classmethod
    def of_one_view(cls, a: int, X: Any) -> NewSamples:
        """Samples with a single view, already scaled."""
        return cls({a: X}, {a: slice(None)}, X.shape[0])

    def complete(self, n_views: int) -> bool:
        """Whether all samples have all views, as arrays in double precision."""
        return len(self.rows) == n_views and all(
            isinstance(X, np.ndarray) and X.dtype == np.float64 and len(X) == self.n
            for X in self.scaled.values()
        )

    def present(self, n_views: int) -> Array:
        """Mask of the views that each sample has (n x v)."""
        present = np.zeros((self.n, n_views), dtype=bool)
        for a, where in self.rows.items():
            present[where, a] = True
        return present

    def taken(self, chosen: Array, views: Iterable[int]) -> NewSamples:
        """Select samples at increasing positions, and some of their views."""
        scaled, rows = {}, {}
        for a in views:
            has = np.zeros(self.n, dtype=bool)
            if a in self.rows:
                has[self.rows[a]] = True
            seen = has[chosen]
            if seen.any():
                position = np.cumsum(has) - 1  # of each sample in the view's own block
                scaled[a], rows[a] = self.scaled[a][position[chosen[seen]]], np.flatnonzero(seen)
        return NewSamples(scaled, rows, len(chosen))


def _shared_graph(
    kernels: list[Any],
    geometries: list[Geometry],
    rows: list[Rows],
    n: int,
    n_clusters: int,
    between: CrossViews | None,
) -> SharedGraph | None:
    """The shared graph, if there are several views and a kernel uses it."""
    sharing = [kernel for kernel in kernels if isinstance(kernel, Diffusion) and kernel.share > 0.0]
    if len(geometries) < 2 or not sharing:
        return None
    positions = [np.arange(n)[where] for where in rows]
    other = common_shape([kernel.shape(n, n_clusters) for kernel in sharing])
    shapes = [k.shape(n, n_clusters) if isinstance(k, Diffusion) else other for k in kernels]
    return SharedGraph.of(geometries, positions, n, n_clusters, shapes, between)


def codebooks(problem: Problem, G: list[Array], message: list[ViewMessage], rho: float) -> list[ViewMessage]:
    """The solution in the form needed to place new samples: ``P`` and memberships as codebooks."""
    found = []
    for view, g, m in zip(problem.views, G, message, strict=True):
        operator, Pt = view.kernel.operator, combinations(g, rho)
        near = None if view.laplacian is None else view.laplacian.adjacency.codebook(g)
        found.append(replace(m, A=operator.project(Pt).quad, C=operator.codebook(Pt), neighbours=near))
    return found


def consensus_error(shard: Shard, block: ViewBlock, message: ViewMessage) -> float:
    """Mean reconstruction error of the samples of a view under the consensus memberships."""
    G = shard.G_star[:, block.rows]
    fit = float(np.vdot(block.kernel.lift(message.C), G))
    trace = float(np.sum(block.kernel.diagonal(), dtype=np.float64))
    return reconstruction(trace, fit, message.A, membership_gram(G, shard.rho)) / G.shape[1]


def _reaching(message: ViewMessage, block: ViewBlock) -> ViewMessage:
    """The message with a bound on the curvature that also holds for the degrees of new samples."""
    if block.laplacian is None:
        return message
    largest = float(block.laplacian.degree.max())
    return message if largest <= message.sigma else replace(message, sigma=largest)


def cross_laplacian(graph: Any, cross: Any) -> Laplacian | None:
    """Laplacian of new samples, from a `CrossGeometry` or known neighbours."""
    if graph is None:
        return None
    rows, degree = graph.cross(cross)
    return Laplacian(Cross(rows, np.zeros(cross.size)), degree, graph.bound)
