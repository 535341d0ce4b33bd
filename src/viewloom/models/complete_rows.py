"""Placement of complete samples by diffusion kernels, with all arrays of the model prepared once.

The general way builds a geometry, edges and an operator per view for every call; for one sample this takes
longer than the arithmetic. Here the graphs of all views, and that of the concatenated features, are stacked,
so that one array operation serves all. Squared distances of concatenated features are sums of those of
the views, where they are not decorrelated, so that long views are multiplied once. The problem is that of
`viewloom.models.problem.Problem.place` and `viewloom.solver.placement.consensus_of`; results are equal up to
rounding.

Shapes: v views, g = v + 1 graphs (the last is that of the concatenated features), n training samples, m new
samples, c neighbours, k clusters. Training samples without a view have an infinite distance in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from viewloom.kernels.diffusion import FittedDiffusion
from viewloom.kernels.geometry import FEW_ROWS, GramGeometry
from viewloom.kernels.graphs import FittedKNN, rank_weights
from viewloom.kernels.neighbours import CLOSE
from viewloom.kernels.shared_graph import COMPLETE, Fusion
from viewloom.models.problem import Problem
from viewloom.solver.placement import Joint, Part
from viewloom.solver.shard import ViewMessage
from viewloom.solver.updates import project_simplex

Array = np.ndarray
LEAST_WEIGHT = 1e-12  # of an edge, as in `viewloom.kernels.graphs.neighbour_weights`
MOST_BYTES = 2**28  # of the arrays that are prepared
CHUNK_VALUES = 2**18  # distances that are computed at a time, which fit in the processor's cache
SOLVED_ROWS = 1024  # samples whose memberships are computed at a time


@dataclass(frozen=True, eq=False)
class Edges:
    """Neighbour graphs with the same number of neighbours, stacked: edges of new samples from distances."""

    n_neighbors: int
    scales: Array  # g x n
    floors: Array  # g x 1 x 1, the smallest scale of each graph
    roots: Array  # g x n: degrees to the power of -1/2

    @classmethod
    def of(cls, graphs: Sequence[FittedKNN], rows: Sequence[Array], n: int) -> Edges:
        """Stack graphs; `rows` are the positions of their samples among all n."""
        scales = _spread_all([graph.scales for graph in graphs], rows, n, 1.0)
        degrees = _spread_all([graph.degrees for graph in graphs], rows, n, 1.0)
        floors = np.array([graph.least_scale for graph in graphs])[:, None, None]
        return cls(graphs[0].n_neighbors, scales, floors, degrees**-0.5)

    def weights(self, distances: Array, positions: Array) -> Array:
        """Normalised weights (g x m x c) of the edges to the nearest training samples."""
        distances, positions = distances[..., : self.n_neighbors], positions[..., : self.n_neighbors]
        graph = np.arange(len(distances))[:, None, None]
        own = np.maximum(distances[..., -1:], self.floors)
        W = np.exp(-(distances**2) / (own * self.scales[graph, positions]))
        np.maximum(W, LEAST_WEIGHT, out=W)
        W *= rank_weights(distances.reshape(-1, self.n_neighbors)).reshape(W.shape)
        return np.asarray(W * self.roots[graph, positions] / np.sqrt(W.sum(axis=2, keepdims=True)))


@dataclass(frozen=True, eq=False)
class Fused:
    """Distances of concatenated features, as sums over views."""

    fusion: Fusion
    summed: list[tuple[int, float]]  # views whose own distances count, and their factors
    direct: list[int]  # the other views
    train: Array  # concatenated features of the other views, n x d
    lengths: Array  # n

    @classmethod
    def of(cls, fusion: Fusion, complete: bool) -> Fused:
        """Sums are used if all training samples are `complete`, since others are stretched."""
        own = [complete and part.root is None for part in fusion.parts]
        ends = np.cumsum([len(part.centre) for part in fusion.parts])
        columns = [np.arange(end - len(p.centre), end) for p, end in zip(fusion.parts, ends, strict=True)]
        direct = [a for a, summed in enumerate(own) if not summed]
        train = fusion.geometry.X[:, np.concatenate([np.arange(0), *(columns[a] for a in direct)])]
        summed = [(a, fusion.parts[a].factor ** 2) for a, summed in enumerate(own) if summed]
        return cls(fusion, summed, direct, train, np.einsum("ij,ij->i", train, train))

    def features(self, scaled: list[Array], views: Iterable[int]) -> Array:
        """Concatenated features of samples, from some views."""
        every = np.arange(len(scaled[0]))
        placed = [self.fusion.parts[a].placed(scaled[a], every, len(every)) for a in views]
        return np.hstack([np.zeros((len(every), 0)), *placed])

    def squares(self, scaled: list[Array], D: Array) -> Array:
        """Squared distances (m x n), from those of the views (v x m x n)."""
        found = _squares(self.features(scaled, self.direct), self.train, self.lengths)
        for a, factor in self.summed:
            found += factor * D[a]
        return found

    def gaps(self, scaled: list[Array], rows: Array, positions: Array) -> Array:
        """Squared distances of some rows to training samples at some positions, from differences."""
        X = self.features([X[rows] for X in scaled], range(len(scaled)))
        return _gaps(X, self.fusion.geometry.X, positions)


@dataclass(frozen=True, eq=False)
class CompleteRows:
    """A fitted model of diffusion kernels with a shared graph, prepared to place complete samples."""

    train: list[Array]  # of every view: n x d, zero for samples without the view
    lengths: Array  # g x n: squared lengths, infinite for samples without the view
    fused: Fused
    edges: Edges
    near: Edges  # the graphs of the smoothness terms; v
    mix: Array  # g: weights of the graphs in the shared graph
    shared_roots: Array  # n: degrees of the shared graph to the power of -1/2
    share: Array  # v x 1 x 1
    extension: Array  # v x n x rank
    codebooks: Array  # v x rank x k
    neighbours: Array  # v x n x k
    slope: Array  # v x 1 x k: the part of ``b`` that is the same for all samples
    joint: Joint

    @classmethod
    def of(cls, problem: Problem, codebooks: list[ViewMessage], rho: float) -> CompleteRows | None:
        """Prepare a model; None if it is of another kind or too large."""
        shared = problem.shared_graph
        if shared is None or shared.fusion is None or shared.fused is None:
            return None
        if not _is_supported(problem, [*shared.graphs, shared.fused], shared.fusion):
            return None
        n, rows, views = problem.n, shared.rows, problem.views
        every = [*rows, np.arange(n)]
        kernels: list[Any] = [view.kernel for view in views]
        geometries = [*(view.geometry for view in views), shared.fusion.geometry]
        lengths = [geometry.squared_lengths for geometry in geometries]
        extended = [kernel.walk.extension * kernel.walk.degrees[:, None] ** -0.5 for kernel in kernels]
        smooth = [m.theta * m.neighbours.T for m in codebooks if m.neighbours is not None]
        return cls(
            train=[_spread(view.geometry.X, where, n) for view, where in zip(views, rows, strict=True)],
            lengths=_spread_all(lengths, every, n, np.inf),
            fused=Fused.of(shared.fusion, all(len(where) == n for where in rows)),
            edges=Edges.of([*shared.graphs, shared.fused], every, n),
            near=Edges.of([view.graph for view in views], rows, n),
            mix=np.append((1.0 - shared.fused_share) * shared.reliability.weights, shared.fused_share),
            shared_roots=shared.degrees**-0.5,
            share=np.array([kernel.share for kernel in kernels])[:, None, None],
            extension=_spread_all(extended, rows, n, 0.0),
            codebooks=np.stack([message.C.T for message in codebooks]),
            neighbours=_spread_all(smooth, rows, n, 0.0),
            slope=np.stack([rho / 2.0 * np.diagonal(message.A)[None] for message in codebooks]),
            joint=Joint.of([_constants(message, rho) for message in codebooks]),
        )

    def pays(self, m: int) -> bool:
        """Whether this way is faster than the general one: for few samples, or for long views."""
        saved = sum(self.train[a].shape[1] for a, _ in self.fused.summed)
        return m <= FEW_ROWS or saved > self.lengths.shape[1]

    def consensus(self, scaled: list[Array]) -> Array:
        """Consensus memberships (k x m) of samples with all views, scaled (m x d each)."""
        chunk = min(max(CHUNK_VALUES // self.lengths.size, 1), SOLVED_ROWS)
        starts = range(0, len(scaled[0]), chunk)
        b = np.concatenate([self._attraction([X[i : i + chunk] for X in scaled]) for i in starts], axis=1)
        b = b[self.joint.counted].transpose(2, 0, 1)  # k x v x m
        solved = [b[..., i : i + SOLVED_ROWS] for i in range(0, b.shape[2], SOLVED_ROWS)]
        return np.hstack(
            [self.joint.consensus(part, np.zeros(part.shape[1:]), project_simplex) for part in solved]
        )

    def _attraction(self, scaled: list[Array]) -> Array:
        """``b`` of `viewloom.solver.placement` for some samples (v x m x k)."""
        distances, positions = self._nearest(scaled)
        v, m, n = len(scaled), len(scaled[0]), self.lengths.shape[1]
        S = np.zeros((v + 1, m, n))
        weights = self.edges.weights(distances, positions)
        S[*_leading(S.shape), positions[..., : self.edges.n_neighbors]] = weights
        M = (self.mix @ S.reshape(v + 1, m * n)).reshape(m, n)
        M *= self.shared_roots / np.sqrt(M.sum(axis=1, keepdims=True))
        Z = ((1.0 - self.share) * S[:v] + self.share * M) @ self.extension  # v x m x rank
        Z /= np.sqrt(np.maximum((Z * Z).sum(axis=2, keepdims=True), np.finfo(float).tiny))
        return np.asarray(Z @ self.codebooks - self.slope + self._smoothed(distances[:v], positions[:v]))

    def _nearest(self, scaled: list[Array]) -> tuple[Array, Array]:
        """Distances and positions (g x m x c) of the nearest training samples, the nearest first."""
        count = max(self.edges.n_neighbors, self.near.n_neighbors)
        D = np.empty((len(self.lengths), len(scaled[0]), self.lengths.shape[1]))
        for a, (X, Y) in enumerate(zip(scaled, self.train, strict=True)):
            D[a] = _squares(X, Y, self.lengths[a])
        D[-1] = self.fused.squares(scaled, D)
        positions, (graph, sample) = D.argpartition(count - 1, axis=2)[..., :count], _leading(D.shape)
        squares = D[graph, sample, positions]
        close = (squares < CLOSE * self.lengths[graph, positions]).any(axis=2)
        if close.any():  # cancellation
            self._recompute(squares, scaled, positions, close)
        order = squares.argsort(axis=2, kind="stable")
        return np.sqrt(squares[graph, sample, order]), positions[graph, sample, order]

    def _recompute(self, squares: Array, scaled: list[Array], positions: Array, close: Array) -> None:
        """Replace squared distances that lost digits by those from differences."""
        for a, (X, Y) in enumerate(zip(scaled, self.train, strict=True)):
            rows = np.flatnonzero(close[a])
            squares[a, rows] = _gaps(X[rows], Y, positions[a, rows])
        rows = np.flatnonzero(close[-1])
        squares[-1, rows] = self.fused.gaps(scaled, rows, positions[-1, rows])

    def _smoothed(self, distances: Array, positions: Array) -> Array:
        """``theta G W`` of new samples (v x m x k)."""
        W = self.near.weights(distances, positions)
        view = np.arange(len(W))[:, None, None]
        G = self.neighbours[view, positions[..., : self.near.n_neighbors]]  # v x m x c x k
        return np.asarray((W[:, :, None] @ G)[:, :, 0])


def _squares(X: Array, Y: Array, lengths: Array) -> Array:
    """Squared distances between the rows of X and Y, with ``||y||^2`` given."""
    D = X @ Y.T
    D *= -2.0
    D += np.einsum("ij,ij->i", X, X)[:, None]
    D += lengths
    return np.asarray(D)


def _gaps(X: Array, Y: Array, positions: Array) -> Array:
    gaps = Y[positions] - X[:, None]
    return np.asarray(np.einsum("ijk,ijk->ij", gaps, gaps))


def _leading(shape: tuple[int, ...]) -> tuple[Array, Array]:
    """Indices of the first two of three dimensions, to pick entries along the last."""
    return np.arange(shape[0])[:, None, None], np.arange(shape[1])[:, None]


def _is_supported(problem: Problem, graphs: list[FittedKNN], fusion: Fusion) -> bool:
    """Whether all views have dense features, diffusion kernels and alike neighbour graphs."""
    near, kernels = [view.graph for view in problem.views], [view.kernel for view in problem.views]
    if not all(isinstance(graph, FittedKNN) for graph in near):
        return False
    columns = sum(len(part.centre) for part in fusion.parts)
    return (
        all(isinstance(kernel, FittedDiffusion) and kernel.columns is not None for kernel in kernels)
        and len({kernel.operator.Z.shape[1] for kernel in kernels}) == 1  # type: ignore[attr-defined]
        and all(_is_dense(view.geometry) for view in problem.views)
        and all(len({graph.n_neighbors for graph in some}) == 1 for some in (near, graphs))
        and all(graph.ranked and graph.least_scale > 0.0 for graph in (*near, *graphs))
        and max(near[0].n_neighbors, graphs[0].n_neighbors)
        <= min(view.geometry.size for view in problem.views)
        and abs(float(fusion.weights.sum()) - 1.0) < COMPLETE
        and 16 * problem.n * columns <= MOST_BYTES
    )


def _is_dense(geometry: Any) -> bool:
    X = geometry.X
    return not isinstance(geometry, GramGeometry) and isinstance(X, np.ndarray) and X.dtype == np.float64


def _constants(message: ViewMessage, rho: float) -> Part:
    """The problem of one view without its samples; degrees of new samples are one."""
    H = (1.0 - rho) * message.A + message.theta * np.eye(len(message.A))
    return Part(H, np.empty(0), np.empty(0), message.lam, message.weight)


def _spread(X: Array, rows: Array, n: int, fill: float = 0.0) -> Array:
    """Rows of X at their positions among n samples."""
    if len(rows) == n:
        return X
    found = np.full((n, *X.shape[1:]), fill)
    found[rows] = X
    return found


def _spread_all(arrays: Sequence[Array], rows: Sequence[Array], n: int, fill: float) -> Array:
    return np.stack([_spread(X, where, n, fill) for X, where in zip(arrays, rows, strict=True)])
