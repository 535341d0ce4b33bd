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
from viewloom.kernels.graphs import FittedKNN, scale_both_sides
from viewloom.kernels.shared_graph import COMPLETE, SharedGraph, SharedRows, combined_graph
from viewloom.models.base import as_memberships
from viewloom.models.problem import FittedView, Problem, cross_laplacian
from viewloom.solver.placement import EVEN, Joint, Part
from viewloom.solver.shard import ViewBlock, ViewMessage
from viewloom.solver.updates import project_simplex

Array = np.ndarray
EVERY = slice(None)
CANDIDATES = 32  # nearest samples that are compared, beside the neighbours
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
        kept = min(count + CANDIDATES, squares.shape[1])
        order = np.argsort(squares, axis=1, kind="stable")
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
        squares = self.near_squares + slope[:, None] - pull[:, None] * along[self.near]
        order = np.argsort(squares, axis=1, kind="stable")[:, : self.count]  # fast: nearly in order
        found, positions = (np.take_along_axis(x, order, axis=1) for x in (squares, self.near))
        least = self.beyond + slope - np.maximum(pull * along.max(), pull * along.min())
        missed = np.flatnonzero(least < found[:, -1])
        if len(missed):
            whole = self.squares[missed] + slope[missed, None] - pull[missed, None] * along
            order = np.argsort(whole, axis=1)[:, : self.count]
            found[missed], positions[missed] = np.take_along_axis(whole, order, axis=1), order
        return np.sqrt(np.maximum(found, 0.0)), positions


@dataclass(frozen=True, eq=False)
class ColumnUpdates:
    """One view of a model with diffusion kernels, prepared to permute its columns one by one."""

    view: int
    fitted: FittedView
    shared: SharedGraph | None
    own: Distances  # in the view
    fused: Distances | None  # in the concatenated features
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
        return cls(view, fitted, shared, own, _fused_distances(shared, view, fitted), message, rho)

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

    def _part(self, own: Any, fused: Any) -> Part:
        """The problem of samples with given neighbours."""
        kernel: Any = self.fitted.kernel
        Z = kernel.place(own, self._shared_rows(own, fused))
        block = ViewBlock(Z, cross_laplacian(self.fitted.graph, own), EVERY)
        return Part.of(block, self.message, self.rho, own.size)

    def _shared_rows(self, own: Any, fused: Any) -> SharedRows | None:
        """Edges of the samples in the shared graph."""
        if self.shared is None:
            return None
        shared, m, every = self.shared, own.size, np.arange(own.size)
        edges = {self.view: shared.graphs[self.view].cross(own)[0]}
        both = None if fused is None or shared.fused is None else shared.fused.cross(fused)[0]
        places = ({self.view: every}, shared.rows)
        W = combined_graph(shared.reliability.weights, edges, places, (m, shared.n), both, shared.fused_share)
        degrees = np.asarray(W.sum(axis=1)).ravel()
        return SharedRows(edges, {self.view: every}, scale_both_sides(W, degrees, shared.degrees))


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
        slack = np.zeros((1, len(again)))
        G[:, again] = joint.consensus(part.b[:, None, again], slack, project_simplex)
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
