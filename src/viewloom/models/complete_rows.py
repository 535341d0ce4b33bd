"""Placement of complete samples by diffusion kernels, with all arrays of the model prepared once.

The general way builds a geometry, edges and an operator per view for every call; for one sample this takes
longer than the arithmetic. Here the graphs of all views, and that of the concatenated features, are stacked,
so that one array operation serves all. Squared distances of concatenated features are sums of those of
the views, where they are not decorrelated, so that long views are multiplied once. The problem is that of
`viewloom.models.problem.Problem.place` or `viewloom.models.landmark_problem.tied`, and of
`viewloom.solver.placement.consensus_of`; results are equal up to rounding.

Shapes: v views, g = v + 1 graphs (the last is that of the concatenated features), n training samples or
landmarks, m new samples, c neighbours, k clusters. Training samples without a view have an infinite distance
in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from viewloom.kernels.diffusion import FittedDiffusion
from viewloom.kernels.geometry import FEW_ROWS, GramGeometry
from viewloom.kernels.graphs import FittedKNN, are_further, rank_weights
from viewloom.kernels.neighbours import CLOSE
from viewloom.kernels.shared_graph import COMPLETE, Fusion
from viewloom.models.problem import Problem
from viewloom.solver.placement import Joint, Part
from viewloom.solver.shard import ViewMessage
from viewloom.solver.updates import project_simplex

Array = np.ndarray
TINY = np.finfo(float).tiny
LEAST_WEIGHT = 1e-12  # of an edge, as in `viewloom.kernels.graphs.neighbour_weights`
MOST_BYTES = 2**28  # of the arrays that are prepared
CHUNK_VALUES = 2**19  # distances that are computed at a time
MOST_MARKED, LEAST_MARKED = 4096, 20_000  # values per row, and in all, whose last bits store positions


@dataclass(frozen=True, eq=False)
class Edges:
    """Neighbour graphs, stacked: edges of new samples from distances."""

    widths: list[int]  # numbers of neighbours
    last: tuple[Array, slice, Array]  # the last neighbours of each graph
    scales: Array  # g x n, negative
    floors: Array  # g x 1, the smallest scale of each graph
    factors: Array  # g x n: degrees to the power of -1/2, or the scales of ties
    powers: Array  # g x 1 x 1: of the sum of the edges of a sample, which divides them; 1 for ties
    ranked: Array  # g x 1 x c: weights of neighbours at distances that are not equal

    @classmethod
    def of(cls, graphs: Sequence[FittedKNN], rows: Sequence[Array], n: int, ties: Sequence[Array]) -> Edges:
        """Stack graphs; `rows` are the positions of their samples among all n.

        `ties` are the scales of the last graphs, if samples are tied to landmarks along them.
        """
        scales = _spread_all([graph.scales for graph in graphs], rows, n, 1.0)
        normalised = graphs[: len(graphs) - len(ties)]
        factors = [*(graph.degrees**-0.5 for graph in normalised), *ties]
        powers = np.repeat([0.5, 1.0], [len(normalised), len(ties)])
        floors = np.array([graph.least_scale for graph in graphs])[:, None]
        widths = np.array([graph.n_neighbors for graph in graphs])
        last = np.arange(len(widths)), slice(None), widths - 1
        ranked = np.maximum(1.0 - np.arange(widths.max()) / widths[:, None, None], 0.0)
        spread = _spread_all(factors, rows, n, 1.0)
        return cls(widths.tolist(), last, -scales, floors, spread, powers[:, None, None], ranked)

    def weights(self, distances: Array, flat: Array) -> Array:
        """Normalised weights (g x m x c) of the edges to the nearest training samples, the nearest first.

        `flat` are their positions in g x n values. Weights beyond the neighbours of a graph are zero.
        """
        W = distances * distances
        own = distances[self.last]  # g x m
        W /= np.maximum(own, self.floors)[..., None] * self.scales.take(flat)
        np.maximum(np.exp(W, out=W), LEAST_WEIGHT, out=W)
        W *= self._ranked(distances)
        return np.asarray(W * (self.factors.take(flat) / W.sum(axis=2, keepdims=True) ** self.powers))

    def _ranked(self, distances: Array) -> Array:
        """Weights by `viewloom.kernels.graphs.rank_weights`, zero beyond the neighbours of a graph."""
        if are_further(distances).all():
            return self.ranked
        found = np.zeros(distances.shape)
        for W, D, width in zip(found, distances, self.widths, strict=True):
            W[:, :width] = rank_weights(D[:, :width])
        return found


@dataclass(frozen=True, eq=False)
class Fused:
    """Distances of concatenated features, as sums over views."""

    fusion: Fusion
    summed: Array | None  # v: factors of the squared distances of views, 0 for those that are not summed
    direct: list[tuple[int, slice]]  # the other views, and the columns of their features
    train: Array  # concatenated features of the other views, n x d

    @classmethod
    def of(cls, fusion: Fusion, complete: bool) -> Fused:
        """Sums are used if all training samples are `complete`, since others are stretched."""
        own = np.array([complete and part.root is None for part in fusion.parts])
        places = _consecutive([len(part.centre) for part in fusion.parts])
        others = np.flatnonzero(~own).tolist()
        train = np.hstack([fusion.geometry.X[:, :0], *(fusion.geometry.X[:, places[a]] for a in others)])
        direct = _consecutive([len(fusion.parts[a].centre) for a in others])
        summed = np.where(own, [part.factor**2 for part in fusion.parts], 0.0) if own.any() else None
        return cls(fusion, summed, list(zip(others, direct, strict=True)), train)

    @property
    def lengths(self) -> Array:
        """Squared lengths of the training samples in the views that are not summed."""
        return np.asarray(np.einsum("ij,ij->i", self.train, self.train))

    def features(self, scaled: list[Array]) -> Array:
        """Concatenated features of samples, from the views that are not summed."""
        found = np.empty((len(scaled[0]), self.train.shape[1]))
        for a, place in self.direct:
            part = self.fusion.parts[a]
            centred = scaled[a] - part.centre
            if part.root is not None:
                centred = centred @ part.root
            np.multiply(centred, part.factor, out=found[:, place])
        return found

    def add(self, values: Array) -> None:
        """Add those of the summed views to the last of g arrays of squared lengths or distances."""
        if self.summed is not None:
            values[-1] += (self.summed @ values[:-1].reshape(len(self.summed), -1)).reshape(values[-1].shape)

    def gaps(self, scaled: list[Array], rows: Array, positions: Array) -> Array:
        """Squared distances of some rows to training samples at some positions, from differences."""
        parts = zip(self.fusion.parts, scaled, strict=True)
        features = np.hstack([part.features(X[rows]) for part, X in parts])
        return _gaps(features, self.fusion.geometry.X, positions)


@dataclass(frozen=True, eq=False)
class CompleteRows:
    """A fitted model of diffusion kernels with a shared graph, prepared to place complete samples."""

    train: list[Array]  # of every view: n x d, zero for samples without the view
    lengths: Array  # g x n: squared lengths, infinite for samples without the view
    halves: Array  # g x 1 x n: half of them, in the last graph without the summed views
    close: Array  # g x n: squared distances below these have lost digits
    fused: Fused
    edges: Edges  # of the g graphs, then of the smoothness terms of the v views
    both: Array  # positions of the g + v graphs among the g
    firsts: Array  # g + v x 1 x 1: of the values of each graph among those of all
    counts: tuple[int, int]  # neighbours in the graphs, and in the smoothness terms
    mix: Array  # g x 1 x 1: weights of the graphs in the shared graph
    extension: Array  # v n x rank: what an edge in the graph of a view adds to the features of a sample
    shared_extension: Array  # n x v rank: what an edge in the shared graph adds
    codebooks: Array  # v x rank x k
    neighbours: Array  # v n x k
    slope: Array  # v x 1 x k: the part of ``b`` that is the same for all samples
    joint: Joint

    @classmethod
    def of(
        cls, problem: Problem, codebooks: list[ViewMessage], rho: float, ties: Sequence[Array | None] = ()
    ) -> CompleteRows | None:
        """Prepare a model; None if it is of another kind or too large.

        `ties` are the scales of the ties to the landmarks in each view, if the problem is that of landmarks.
        """
        shared = problem.shared_graph
        if shared is None or shared.fusion is None or shared.fused is None:
            return None
        scales = [scale for scale in ties if scale is not None]
        if len(scales) < len(ties) or not _is_supported(
            problem, [*shared.graphs, shared.fused], shared.fusion
        ):
            return None
        n, rows, views = problem.n, shared.rows, problem.views
        every, graphs = [*rows, np.arange(n)], [*shared.graphs, shared.fused, *(view.graph for view in views)]
        kernels: list[Any] = [view.kernel for view in views]
        geometries = [*(view.geometry for view in views), shared.fusion.geometry]
        lengths = _spread_all([geometry.squared_lengths for geometry in geometries], every, n, np.inf)
        fused = Fused.of(shared.fusion, all(len(where) == n for where in rows))
        extended = [kernel.walk.extension * kernel.walk.degrees[:, None] ** -0.5 for kernel in kernels]
        extension = _spread_all(extended, rows, n, 0.0)  # v x n x rank
        share = np.array([kernel.share for kernel in kernels])[:, None, None]
        roots = shared.degrees[:, None] ** -0.5
        mix = np.append((1.0 - shared.fused_share) * shared.reliability.weights, shared.fused_share)
        smooth = [m.theta * m.neighbours.T for m in codebooks if m.neighbours is not None]
        return cls(
            train=[_spread(view.geometry.X, where, n) for view, where in zip(views, rows, strict=True)],
            lengths=lengths,
            halves=np.vstack([lengths[:-1], fused.lengths])[:, None] / 2.0,
            close=CLOSE * lengths,
            fused=fused,
            edges=Edges.of(graphs, [*every, *rows], n, scales),
            both=np.r_[: len(every), : len(rows)],
            firsts=n * np.arange(len(graphs))[:, None, None],
            counts=(shared.fused.n_neighbors, views[0].graph.n_neighbors),
            mix=mix[:, None, None],
            extension=((1.0 - share) * extension).reshape(-1, extension.shape[2]),
            shared_extension=(share * roots * extension).transpose(1, 0, 2).reshape(n, -1),
            codebooks=np.stack([message.C.T for message in codebooks]),
            neighbours=np.concatenate(_spread_all(smooth, rows, n, 0.0)),
            slope=np.stack([rho / 2.0 * np.diagonal(message.A)[None] for message in codebooks]),
            joint=Joint.of([_constants(message, rho) for message in codebooks]),
        )

    def pays(self, m: int) -> bool:
        """Whether this way is faster than the general one: for few samples, or for long views."""
        summed = () if self.fused.summed is None else np.flatnonzero(self.fused.summed)
        return m <= FEW_ROWS or sum(self.train[a].shape[1] for a in summed) > self.lengths.shape[1]

    def consensus(self, scaled: list[Array]) -> Array:
        """Consensus memberships (k x m) of samples with all views, scaled (m x d each)."""
        chunk = max(CHUNK_VALUES // self.lengths.size, 1)
        starts = range(0, len(scaled[0]), chunk)
        parts = [self._attraction([X[i : i + chunk] for X in scaled]) for i in starts]
        b = np.concatenate(parts, axis=1).take(self.joint.counted, axis=0).transpose(2, 0, 1)  # k x v x m
        return self.joint.consensus(b, None, project_simplex)

    def _attraction(self, scaled: list[Array]) -> Array:
        """``b`` of `viewloom.solver.placement` for some samples (v x m x k)."""
        distances, positions = self._nearest(scaled)
        v, m, (c, near) = len(scaled), len(scaled[0]), self.counts
        flat = positions.take(self.both, axis=0) + self.firsts
        W = self.edges.weights(distances.take(self.both, axis=0), flat)
        shared = (self.mix * W[: v + 1, :, :c]).transpose(1, 0, 2).reshape(m, 1, -1)
        places = positions[..., :c].transpose(1, 0, 2).reshape(m, -1)
        walked = (shared @ self.shared_extension.take(places, axis=0))[:, 0]
        walked /= np.sqrt(shared.sum(axis=2))
        alone = W[:v, :, None, :c] @ self.extension.take(flat[:v, :, :c], axis=0)  # v x m x 1 x rank
        Z = alone[:, :, 0] + walked.reshape(m, v, -1).transpose(1, 0, 2)
        Z /= np.sqrt(np.maximum((Z * Z).sum(axis=2, keepdims=True), TINY))
        smoothed = W[v + 1 :, :, None, :near] @ self.neighbours.take(flat[:v, :, :near], axis=0)
        return np.asarray(Z @ self.codebooks - self.slope + smoothed[:, :, 0])

    def _nearest(self, scaled: list[Array]) -> tuple[Array, Array]:
        """Distances and positions (g x m x c) of the nearest training samples, the nearest first."""
        count, (g, n), m = max(self.counts), self.lengths.shape, len(scaled[0])
        D, own = np.empty((g, m, n)), np.empty((g, m))
        features, train = [*scaled, self.fused.features(scaled)], [*self.train, self.fused.train]
        for X, Y, products, squared in zip(features, train, D, own, strict=True):
            np.matmul(X, Y.T, out=products)
            np.vecdot(X, X, out=squared)
        np.subtract(self.halves, D, out=D)  # ||y||^2 / 2 - <x, y>
        self.fused.add(D)
        self.fused.add(own)
        positions, row = least_positions(D, count), np.arange(g * m).reshape(g, m, 1)
        squares = 2.0 * D.take(positions + n * row) + own[..., None]
        close = squares < self.close.take(positions + self.firsts[:g])
        if close.any():  # cancellation
            self._recompute(squares, scaled, positions, close.any(axis=2))
        order = squares.argsort(axis=2, kind="stable") + count * row
        return np.sqrt(squares.take(order)), positions.take(order)

    def _recompute(self, squares: Array, scaled: list[Array], positions: Array, close: Array) -> None:
        """Replace squared distances that lost digits by those from differences."""
        for a, (X, Y) in enumerate(zip(scaled, self.train, strict=True)):
            rows = np.flatnonzero(close[a])
            squares[a, rows] = _gaps(X[rows], Y, positions[a, rows])
        rows = np.flatnonzero(close[-1])
        squares[-1, rows] = self.fused.gaps(scaled, rows, positions[-1, rows])


def least_positions(D: Array, count: int) -> Array:
    """Positions of the smallest of the last dimension, in any order.

    `np.partition` of values is several times as fast as that of positions. For up to `MOST_MARKED` values,
    positions are stored in their last bits, which changes them by less than 1e-12 of their size.
    """
    n, last = D.shape[-1], max(D.shape[-1] - 1, 1)
    if n > MOST_MARKED or D.size < LEAST_MARKED:
        return np.asarray(D.argpartition(count - 1, axis=-1)[..., :count])
    mask = (1 << last.bit_length()) - 1
    marked = D.view(np.int64) & ~mask
    marked |= np.arange(n)
    least = np.partition(marked.view(np.float64), count - 1, axis=-1)[..., :count]
    return np.asarray(least.view(np.int64) & mask)


def _gaps(X: Array, Y: Array, positions: Array) -> Array:
    gaps = Y[positions] - X[:, None]
    return np.asarray(np.einsum("ijk,ijk->ij", gaps, gaps))


def _consecutive(widths: Sequence[int]) -> list[slice]:
    ends = np.cumsum(widths)
    return [slice(int(end - width), int(end)) for width, end in zip(widths, ends, strict=True)]


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
