"""Memberships of the training samples in one view, with one of its columns permuted.

A permuted column changes squared distances by one coordinate. With a sample ``q_i``, a training sample
``t_l`` and the direction ``r_j`` of column j (a unit vector, or a row of the map that decorrelates them)::

    ||q_i + D_i r_j - t_l||^2 = ||q_i - t_l||^2 + D_i (2 <q_i, r_j> + D_i ||r_j||^2 - 2 <t_l, r_j>)

where ``D_i`` is the change of the column. The nearest samples are searched among candidates that were near
before the change; where a bound on all other distances does not exclude them, all are compared. Neighbours,
and so memberships, are those of samples that are placed anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from viewloom.kernels.diffusion import FittedDiffusion
from viewloom.kernels.geometry import GramGeometry
from viewloom.kernels.graphs import FittedKNN, local_scales, neighbour_weights, rank_weights
from viewloom.kernels.operators import unit_rows
from viewloom.kernels.shared_graph import COMPLETE, SharedGraph
from viewloom.models.base import as_memberships
from viewloom.models.problem import FittedView, Problem
from viewloom.solver.placement import EVEN, Joint, Part
from viewloom.solver.shard import ViewMessage
from viewloom.solver.updates import project_simplex

Array = np.ndarray
CANDIDATES = (4, 8, 16, 32)  # numbers of nearest samples that are compared, beside the neighbours
SELDOM = 0.1  # share of the samples for which they may be too few
BATCH_ROWS = 4096  # samples whose memberships are computed at a time


@dataclass(frozen=True)
class Neighbours:
    """Neighbours that are known, in place of a `viewloom.kernels.geometry.CrossGeometry`."""

    distances: Array
    positions: Array

    @property
    def size(self) -> int:
        """Number of samples."""
        return len(self.distances)

    def neighbours(self, count: int) -> tuple[Array, Array]:
        """Distances and positions of the nearest training samples (n x count)."""
        return self.distances[:, :count], self.positions[:, :count]

    @classmethod
    def stacked(cls, found: Sequence[tuple[Array, Array]]) -> Neighbours:
        """Neighbours of several sets of samples."""
        distances, positions = zip(*found, strict=True)
        return cls(np.concatenate(distances), np.concatenate(positions))


@dataclass(frozen=True, eq=False)
class Distances:
    """Squared distances from the samples of a view to training samples, before any column is permuted."""

    squares: Array  # n x n_train
    queries: Array  # n x d: <q_i, r_j>
    train: Array  # d x n_train: <t_l, r_j>
    norms: Array  # d: ||r_j||^2
    count: int  # neighbours
    near: Array  # n x c, positions of the candidates
    near_squares: Array  # n x c
    beyond: Array  # n: the least squared distance of all others

    @classmethod
    def of(cls, squares: Array, queries: Array, train: Array, norms: Array, count: int) -> Distances:
        """Find the candidates of every sample."""
        order = np.argsort(squares, axis=1, kind="stable")
        kept = min(count + _candidates(squares, order, queries, count), squares.shape[1])
        near = np.ascontiguousarray(order[:, :kept])
        sorted_squares = np.take_along_axis(squares, order[:, : kept + 1], axis=1)
        last = sorted_squares[:, kept] if kept < squares.shape[1] else np.full(len(squares), np.inf)
        train = np.ascontiguousarray(train.T)
        return cls(squares, queries, train, norms, count, near, sorted_squares[:, :kept].copy(), last)

    def nearest(self, column: int, change: Array) -> tuple[Array, Array]:
        """Distances and positions of the nearest training samples after a column has changed (n x count)."""
        along = self.train[column]
        slope = change * (2.0 * self.queries[:, column] + change * self.norms[column])
        pull = 2.0 * change
        squares = along.take(self.near)
        squares *= -pull[:, None]
        squares += self.near_squares
        order = np.argsort(squares, axis=1, kind="stable")[:, : self.count]  # fast: nearly in order
        order += (squares.shape[1] * np.arange(len(squares)))[:, None]
        found, positions = squares.take(order) + slope[:, None], self.near.take(order)
        least = self.beyond + slope - np.maximum(pull * along.max(), pull * along.min())
        missed = np.flatnonzero(least < found[:, -1])
        if len(missed):
            whole = self.squares[missed] + slope[missed, None] - pull[missed, None] * along
            found[missed], positions[missed] = _least(whole, self.count)
        return np.sqrt(np.maximum(found, 0.0)), positions


@dataclass(frozen=True, eq=False)
class ColumnUpdates:
    """One view of a model with diffusion kernels, prepared to permute its columns one by one."""

    view: int
    fitted: FittedView
    shared: SharedGraph | None
    own: Distances  # in the view
    fused: Distances | None  # in the concatenated features
    extension: Array  # what an edge adds to the features of a sample, n x rank
    message: ViewMessage
    rho: float

    @classmethod
    def of(cls, problem: Problem, view: int, message: ViewMessage, rho: float) -> ColumnUpdates | None:
        """Prepare a view; None if its kernel, graph or features are of another kind."""
        fitted = problem.views[view]
        if not _is_supported(fitted):
            return None
        kernel: Any = fitted.kernel
        shared = problem.shared_graph if kernel.columns is not None else None
        X, graphs = fitted.geometry.X, [kernel.graph, fitted.graph]
        count = max(graph.n_neighbors for graph in graphs if graph is not None)
        own = Distances.of(fitted.geometry.squared_distances, X, X, np.ones(X.shape[1]), min(count, len(X)))
        extension = kernel.walk.extension * kernel.walk.degrees[:, None] ** -0.5
        fused = _fused_distances(shared, view, fitted)
        return cls(view, fitted, shared, own, fused, extension, message, rho)

    def memberships(self, columns: Sequence[int], orders: Sequence[Array], start: Array) -> Array:
        """Memberships (columns x n x k) with each of some columns permuted; `start` are those without."""
        X = self.fitted.geometry.X
        changes = [X[order, j] - X[:, j] for j, order in zip(columns, orders, strict=True)]
        own, fused = (
            None
            if distances is None
            else Neighbours.stacked([distances.nearest(j, c) for j, c in zip(columns, changes, strict=True)])
            for distances in (self.own, self.fused)
        )
        assert own is not None
        part = self._part(own, fused)
        return as_memberships(_solved(part, start.T)).reshape(len(columns), len(X), -1)

    def _part(self, own: Neighbours, fused: Neighbours | None) -> Part:
        """The problem of samples with given neighbours."""
        m, graph = self.message, self.fitted.graph
        H, b = (1.0 - self.rho) * m.A, m.C @ self._features(own, fused).T
        b -= self.rho / 2.0 * np.diagonal(m.A)[:, None]
        if graph is not None and m.neighbours is not None:
            H = H + m.theta * np.eye(len(H))  # degrees are one
            b += m.theta * _sums(own, _weights(graph, own), m.neighbours.T).T
        return Part(H, b, np.zeros(own.size), m.lam, m.weight)

    def _features(self, own: Neighbours, fused: Neighbours | None) -> Array:
        """`FittedDiffusion.place` of samples with given neighbours, without matrices of edges."""
        kernel: Any = self.fitted.kernel
        S, extension = _weights(kernel.graph, own), self.extension
        if self.shared is None:
            return np.asarray(unit_rows(_sums(own, S, extension)))
        shared, where = self.shared, self.shared.rows[self.view]
        together = 0.0 if fused is None else shared.fused_share
        weight, roots = (1.0 - together) * shared.reliability.weights[self.view], shared.degrees**-0.5
        degrees = weight * S.sum(axis=1, keepdims=True)
        if fused is not None and shared.fused is not None:
            F = together * _weights(shared.fused, fused)
            degrees += F.sum(axis=1, keepdims=True)
        scale = kernel.share / np.sqrt(np.maximum(degrees, np.finfo(float).tiny))
        S *= (1.0 - kernel.share) + scale * (weight * roots[where]).take(own.positions[:, : S.shape[1]])
        Z = _sums(own, S, extension)
        if fused is not None:
            every = np.zeros((shared.n, extension.shape[1]))
            every[where] = roots[where, None] * extension
            Z += _sums(fused, scale * F, every)
        return np.asarray(unit_rows(Z))


def _weights(graph: FittedKNN, near: Neighbours) -> Array:
    """`FittedKNN.cross`: normalised weights of the edges to the neighbours (n x count)."""
    distances, positions = near.neighbours(graph.n_neighbors)
    W = neighbour_weights(distances, positions, local_scales(distances, graph.least_scale), graph.scales)
    if graph.ranked:
        W *= rank_weights(distances)
    W /= np.sqrt(W.sum(axis=1, keepdims=True))
    return np.asarray(W * (graph.degrees**-0.5).take(positions))


def _sums(near: Neighbours, weights: Array, values: Array) -> Array:
    """Weighted sums of the values of neighbours (n x width)."""
    positions = near.positions[:, : weights.shape[1]]
    return np.asarray((weights[:, None] @ values.take(positions, axis=0))[:, 0])


def _least(values: Array, count: int) -> tuple[Array, Array]:
    """The smallest values of each row in order, and their positions."""
    some = np.argpartition(values, count - 1, axis=1)[:, :count]
    least = np.take_along_axis(values, some, axis=1)
    order = np.argsort(least, axis=1)
    return np.take_along_axis(least, order, axis=1), np.take_along_axis(some, order, axis=1)


def _candidates(squares: Array, order: Array, queries: Array, count: int) -> int:
    """How many are compared beside the neighbours: the fewest that are seldom too few.

    The bound on the distances of others falls by twice the change of a column (the difference of two of its
    values, seldom beyond three standard deviations), times at most its range.
    """
    deviation, span = queries.std(axis=0), np.ptp(queries, axis=0)
    change = 2.0 * float((3.0 * deviation * span).mean())
    for more in (option for option in CANDIDATES if count + option < squares.shape[1]):
        ahead = np.take_along_axis(squares, order[:, [count - 1, count + more]], axis=1)
        if np.quantile(ahead[:, 1] - ahead[:, 0], SELDOM) > change:
            return more
    return CANDIDATES[-1]


def _is_supported(fitted: FittedView) -> bool:
    X, graph = fitted.geometry.X, fitted.graph
    return (
        isinstance(fitted.kernel, FittedDiffusion)
        and (graph is None or isinstance(graph, FittedKNN))
        and not isinstance(fitted.geometry, GramGeometry)
        and isinstance(X, np.ndarray)
        and X.dtype == np.float64
    )


def _fused_distances(shared: SharedGraph | None, view: int, fitted: FittedView) -> Distances | None:
    """Distances in the concatenated features, of samples that have this view only."""
    if shared is None or shared.fusion is None or shared.fused is None:
        return None
    fusion, X = shared.fusion, fitted.geometry.X
    part, n = fusion.parts[view], len(X)
    cross = fusion.cross({view: fitted.geometry.to(X)}, {view: np.arange(n)}, n)
    widths = [len(other.centre) for other in fusion.parts]
    if cross.X.shape[1] < sum(widths):  # other views are shortened
        widths = [width if a == view else 1 for a, width in enumerate(widths)]
    own = slice(sum(widths[:view]), sum(widths[: view + 1]))
    weight = float(fusion.weights[view])
    factor = part.factor if abs(weight - 1.0) < COMPLETE else part.factor / np.sqrt(max(weight, 1e-3))
    queries, train = factor * cross.X[:, own], factor * cross.train.X[:, own]
    norms = np.full(X.shape[1], factor**2)
    if part.root is not None:
        queries, train = queries @ part.root.T, train @ part.root.T
        norms = factor**2 * (part.root**2).sum(axis=1)
    count = min(shared.fused.n_neighbors, cross.train.size)
    return Distances.of(cross.squared_distances, queries, train, norms, count)


def _solved(part: Part, start: Array) -> Array:
    """Memberships that minimise ``g^T H g - 2 b^T g`` on the simplex, for copies of the samples of `start`.

    A permuted column seldom changes which memberships are zero. With those of `start` (k x n) given, the
    minimum is linear in ``b``; samples whose minimum would then be negative, or lower in a direction that was
    left out, are solved anew.
    """
    G, wrong = np.zeros_like(part.b), np.zeros(part.b.shape[1], dtype=bool)
    patterns, which = np.unique(start > EVEN, axis=1, return_inverse=True)
    which = np.tile(which.ravel(), part.b.shape[1] // start.shape[1])
    for number, free in enumerate(patterns.T):
        columns = np.flatnonzero(which == number)
        G[:, columns], wrong[columns] = _minimum_on(part.H, part.b[:, columns], free)
    again = np.flatnonzero(wrong)
    if len(again):
        joint = Joint.of([part])
        G[:, again] = joint.consensus(part.b[:, None, again], None, project_simplex)
    return G


def _minimum_on(H: Array, b: Array, free: Array) -> tuple[Array, Array]:
    """The minimum with all but some memberships zero (k x n), and whether it is not that of all of them."""
    count = int(free.sum())
    K = np.ones((count + 1, count + 1))
    K[:count, :count], K[count, count] = H[np.ix_(free, free)], 0.0
    found = np.linalg.pinv(K) @ np.vstack([b[free], np.ones((1, b.shape[1]))])
    G = np.zeros_like(b)
    G[free] = found[:count]
    slope = H @ G - b + found[count]  # the gradient, up to a factor, relative to the free memberships
    size = max(float(np.abs(H).max()), 1e-300)
    wrong = (G < -EVEN).any(axis=0) | (slope[~free] < -EVEN * size).any(axis=0)
    return np.maximum(G, 0.0), wrong | (np.abs(slope[free]) > 1e-9 * size).any(axis=0)
