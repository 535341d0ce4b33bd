"""The graph that all views share: their neighbour graphs, combined by reliability.

A view's own neighbour graph may fall into many components, or connect what no other view connects. The
shared graph takes edges of all views, the more the better other views agree with a view: a view is
reliable as far as other, reliable views agree with it, so that no view confirms itself. No label is used.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from viewloom.data.matrix import concatenated
from viewloom.kernels.geometry import FEW_ROWS, CrossGeometry, Geometry, GramGeometry
from viewloom.kernels.graphs import KNN, FittedKNN, scale_both_sides
from viewloom.kernels.operators import Factored, scaled, top_eigenpairs, unit_rows
from viewloom.kernels.reliability import Reliability, agreement, overlap, spread, view_reliability
from viewloom.runtime.stored import Stored

Array = np.ndarray
FUSED = 0.25  # share of the graph of the concatenated features

LONGEST_WALK = 300.0

LEAST_EIGENVALUE = 0.05  # directions that decay faster are not continued to new samples

ROUNDING = 10.0  # units in the last place of a mean square, below which nothing varies


@dataclass(frozen=True)
class Walk(Stored, tag="walk", fields=("Z", "extension", "degrees")):
    """Diffusion along a graph ``T``: features ``Z`` of its nodes, and what continues them to new nodes.

    With ``U, l`` the top eigenpairs of ``T``, ``Z = U diag(((1 + l) / 2)^(t / 2))`` with rows of
    unit length. As ``T U = U l``, the edges of a new node times ``U / l`` continue ``U``
    (Nystroem). The walk lasts `time`, or longer if need be until no more than `directions`
    directions are left, ``sum ((1 + l) / 2)^t <= directions``: where clusters are long and thin,
    walks take long to cross them.
    """

    Z: Array  # n x rank
    extension: Array  # n x rank
    degrees: Array  # n

    @classmethod
    def along(cls, W: Any, rank: int, time: float, directions: float) -> Walk:
        """Diffusion along a symmetric graph of any degrees."""
        T, degrees = normalised(W)
        values, U = top_eigenpairs(T, rank, tol=1e-5)
        remaining = ((1.0 + values) / 2.0).clip(0.0, 1.0)
        while (remaining**time).sum() > directions and time < LONGEST_WALK:
            time *= 1.2
        decay = remaining ** (time / 2.0)
        continued = np.where(values > LEAST_EIGENVALUE, decay / np.maximum(values, LEAST_EIGENVALUE), 0.0)
        return cls(unit_rows(U * decay), U * continued, degrees)

    def features(self, edges: Any) -> Array:
        """Features of new nodes from their edges (n_new x n)."""
        own = np.asarray(edges.sum(axis=1)).ravel()
        T = scale_both_sides(edges, np.where(own > 0.0, own, 1.0), self.degrees)
        return unit_rows(np.asarray(T @ self.extension))


@dataclass(frozen=True, eq=False)
class SharedGraph(
    Stored, tag="shared_graph", fields=("rows", "n", "graphs", "reliability", "fusion", "fused", "degrees")
):
    """One graph over all samples: ``M = (1 - f) sum_a w_a S_a + f S_fused``, normalised.

    ``S_a`` are the views' neighbour graphs, ``w_a`` how far each is believed (see `view_reliability`), and
    ``S_fused`` is the graph of all features side by side, one more graph. Each view's graph and
    walk have the shape that its kernel asks for; what belongs to all views has the `common_shape`.

    Attributes
    ----------
    rows : list of arrays
        Positions of the samples that have each view.
    n : int
        Number of samples.
    graphs : list of FittedKNN
        Neighbour graph of each view.
    reliability : Reliability
        How each view stands among the others.
    fusion : Fusion or None
        All features side by side; None where there is a precomputed kernel, which has no features.
    fused : FittedKNN or None
        Their neighbour graph.
    degrees : (n,) array
    M : sparse matrix or None
        The graph; new samples need none.
    walk : Walk or None
        Diffusion along ``M``; new samples need none.
    """

    rows: list[Array]
    n: int
    graphs: list[FittedKNN]
    reliability: Reliability
    fusion: Fusion | None
    fused: FittedKNN | None
    degrees: Array
    M: Any = None
    walk: Any = None

    @classmethod
    def of(
        cls, geometries: list[Geometry], rows: list[Array], n: int, n_clusters: int, shapes: list[WalkShape]
    ) -> SharedGraph:
        """The graph of the samples of several views."""
        shape = common_shape(shapes)
        graphs = [
            KNN(own.n_neighbors).fit(geometry) for own, geometry in zip(shapes, geometries, strict=True)
        ]
        Z = [own.walk(graph.S).Z for own, graph in zip(shapes, graphs, strict=True)]
        reliability = view_reliability(
            agreement(Z, rows, n_clusters), overlap([graph.S for graph in graphs], rows)
        )
        fusion = fused = None
        if not any(isinstance(geometry, GramGeometry) for geometry in geometries):
            fusion = Fusion.of(geometries, rows, n, reliability.weights)
            fused = KNN(shape.n_neighbors).fit(fusion.geometry)
        edges, places = {a: graph.S for a, graph in enumerate(graphs)}, dict(enumerate(rows))
        W = combined_graph(reliability.weights, edges, (places, rows), (n, n), fused and fused.S)
        M, degrees = normalised(W)
        return cls(rows, n, graphs, reliability, fusion, fused, degrees, M, shape.walk(M))

    def within(self, view: int) -> Any:
        """``M`` among the samples of a view."""
        where = self.rows[view]
        return self.M if len(where) == self.n else self.M[where][:, where]

    def cross(
        self, crosses: dict[int, CrossGeometry], rows: dict[int, Array], n: int, *, fuse: bool = True
    ) -> SharedRows:
        """Edges of new samples, per view and in the shared graph; `fuse` adds concatenated features."""
        edges = {a: self.graphs[a].cross(cross)[0] for a, cross in crosses.items()}
        fused = None
        if fuse and self.fusion is not None and self.fused is not None:
            fused = self.fused.cross(self.fusion.cross(crosses, rows, n))[0]
        W = combined_graph(self.reliability.weights, edges, (rows, self.rows), (n, self.n), fused)
        own = np.asarray(W.sum(axis=1)).ravel()
        return SharedRows(edges, rows, scale_both_sides(W, own, self.degrees))


def combined_graph(
    weights: Array,
    edges: dict[int, Any],
    places: tuple[dict[int, Array], list[Array]],
    shape: tuple[int, int],
    fused: Any,
) -> Any:
    """Edges of all views in one matrix, at the `places` of their rows and columns."""
    rows, columns = places
    total = sum(weights[a] * spread(S, rows[a], columns[a], shape) for a, S in edges.items())
    return total if fused is None else (1.0 - FUSED) * total + FUSED * fused


@dataclass(frozen=True)
class SharedRows:
    """Edges from new samples to training samples: of each view, and of all views together."""

    edges: dict[int, Any]
    rows: dict[int, Array]
    M: Any


@dataclass(frozen=True)
class WalkShape:
    """Parameters of the diffusion that kernels and shared_graph share."""

    n_neighbors: int
    rank: int
    time: float
    directions: float

    def walk(self, W: Any) -> Walk:
        """Diffusion along a graph."""
        return Walk.along(W, self.rank, self.time, self.directions)


def common_shape(shapes: list[WalkShape]) -> WalkShape:
    """The shape for what belongs to all views: medians, and the largest rank."""
    return WalkShape(
        round(float(np.median([shape.n_neighbors for shape in shapes]))),
        max(shape.rank for shape in shapes),
        float(np.median([shape.time for shape in shapes])),
        max(shape.directions for shape in shapes),
    )


@dataclass(frozen=True, eq=False)
class Fusion(Stored, tag="fusion", fields=("weights", "parts", "geometry")):
    """All features side by side: each view centred, of mean squared length one, times root weight."""

    weights: Array
    parts: list[Part]
    geometry: Geometry  # of the training samples

    @classmethod
    def of(cls, geometries: list[Geometry], rows: list[Array], n: int, weights: Array) -> Fusion:
        """The features of several views."""
        parts = [Part.of(geometry.X, weight) for geometry, weight in zip(geometries, weights, strict=True)]
        blocks = {a: geometry.X for a, geometry in enumerate(geometries)}
        side = stretched(parts, weights, blocks, dict(enumerate(rows)), n)
        return cls(weights, parts, Geometry(side, "all views"))

    def cross(self, crosses: dict[int, CrossGeometry], rows: dict[int, Array], n: int) -> CrossGeometry:
        """New samples seen from the training samples.

        Of a view that none of many has, distances need nothing but the training samples' length in it.
        """
        blocks = {a: cross.X for a, cross in crosses.items()}
        short = n > FEW_ROWS and len(blocks) < len(self.parts)
        train = Geometry(self._shortened(blocks), self.geometry.name) if short else self.geometry
        return train.to(stretched(self.parts, self.weights, blocks, rows, n, short))

    def _shortened(self, blocks: dict[int, Any]) -> Any:
        """The training samples, with their lengths instead of features in views that are not among blocks."""
        ends = np.cumsum([len(part.centre) for part in self.parts])
        places = [slice(end - len(part.centre), end) for part, end in zip(self.parts, ends, strict=True)]
        views = [self.geometry.X[:, place] for place in places]
        return concatenated(
            [X if a in blocks else np.sqrt(Factored(X).diagonal())[:, None] for a, X in enumerate(views)]
        )


def stretched(
    parts: list[Part],
    weights: Array,
    blocks: dict[int, Any],
    rows: dict[int, Array],
    n: int,
    short: bool = False,
) -> Any:
    """Scaled features (n rows); zeros where a sample lacks a view, the rest stretched to make up."""
    side = concatenated(
        [
            np.zeros((n, 1)) if short and a not in blocks else part.placed(blocks.get(a), rows.get(a), n)
            for a, part in enumerate(parts)
        ]
    )
    seen = np.zeros(n)
    for a, where in rows.items():
        seen[where] += weights[a]
    if np.allclose(seen, 1.0):
        return side
    full = 1.0 / np.sqrt(np.maximum(seen, 1e-3))
    return scaled(side, full)


@dataclass(frozen=True)
class Part(Stored, tag="fusion.part", fields=("centre", "factor", "sparse")):
    """How one view enters the features side by side."""

    centre: Array
    factor: float
    sparse: bool  # sparse views are not centred, which changes no distance between samples that have them

    @classmethod
    def of(cls, X: Any, weight: float) -> Part:
        """Centre and factor of a view; one that does not vary, up to rounding, has no say."""
        mean, squares = np.asarray(X.mean(axis=0)).ravel(), float(Factored(X).diagonal().mean())
        variance = squares - float(mean @ mean)
        varies = variance > ROUNDING * np.finfo(X.dtype).eps * squares
        return cls(mean, float(np.sqrt(weight / variance)) if varies else 0.0, sp.issparse(X))

    def placed(self, X: Any | None, rows: Array | None, n: int) -> Any:
        """The view scaled, with its rows at their places among n."""
        shape = (n, len(self.centre))
        if X is None or rows is None:
            return sp.csr_array(shape) if self.sparse else np.zeros(shape)
        if not self.sparse:
            block = np.zeros(shape)
            block[rows] = (X - self.centre) * self.factor
            return block
        put = sp.csr_array((np.ones(len(rows)), (rows, np.arange(len(rows)))), shape=(n, len(rows)))
        return sp.csr_array(put @ X * self.factor)


def normalised(W: Any) -> tuple[Any, Array]:
    """``D^-1/2 W D^-1/2`` and the degrees."""
    degrees = np.maximum(np.asarray(W.sum(axis=1)).ravel(), np.finfo(float).tiny)
    return scale_both_sides(W, degrees, degrees), degrees
