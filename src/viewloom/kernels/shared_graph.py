"""Shared graph: the neighbour graphs of all views, combined by view reliability.

The neighbour graph of a single view may have many components, or connect samples that no other view
connects. The shared graph combines the edges of all views, weighted by reliability. A view is reliable
if other reliable views agree with it, so no view can confirm itself. Labels are not used.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from viewloom.data.matrix import concatenated, placed_rows
from viewloom.kernels.decorrelation import can_be_decorrelated, decorrelation
from viewloom.kernels.geometry import FEW_ROWS, CrossGeometry, Geometry, GramGeometry
from viewloom.kernels.graphs import KNN, FittedKNN, scale_both_sides
from viewloom.kernels.operators import Factored, scaled, top_eigenpairs, unit_rows
from viewloom.kernels.reliability import Reliability, reliability_of, spread
from viewloom.kernels.votes import provisional_clusters, shared_votes
from viewloom.runtime.stored import Stored

Array = np.ndarray
FUSED = 0.4  # share of the graph of the concatenated features
EARLIER_FUSED = 0.25  # the same in models that were saved before it was stored with them

LONGEST_WALK = 300.0

LEAST_EIGENVALUE = 0.05  # directions that decay faster are not extended to new samples

COMPLETE = 1e-5  # difference from one up to which the weights of the views of a sample add up to one

ROUNDING = 10.0  # a variance below this many units in the last place of the mean square counts as zero


@dataclass(frozen=True)
class Walk(Stored, tag="walk", fields=("Z", "extension", "degrees")):
    """Diffusion along a graph ``T``: features ``Z`` of its nodes, and their extension to new nodes.

    With ``U, l`` the top eigenpairs of ``T``, ``Z = U diag(((1 + l) / 2)^(t / 2))`` with rows of
    unit length. As ``T U = U l``, the edges of a new node times ``U / l`` extend ``U`` to it
    (Nystroem). The walk lasts for `time`; it is prolonged until at most `directions` directions
    remain, ``sum ((1 + l) / 2)^t <= directions``, because walks need more time to cross long, thin
    clusters.
    """

    Z: Array  # n x rank
    extension: Array  # n x rank
    degrees: Array  # n

    @classmethod
    def along(cls, W: Any, rank: int, time: float, directions: float) -> Walk:
        """Compute the diffusion along a symmetric graph of any degrees."""
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


class CrossViews(NamedTuple):
    """Distances between n new samples and stored ones, by the positions of the views that new ones have."""

    crosses: dict[int, CrossGeometry]
    rows: dict[int, Array]  # new samples that have the view
    n: int


@dataclass(frozen=True, eq=False)
class SharedGraph(
    Stored,
    tag="shared_graph",
    fields=("rows", "n", "graphs", "reliability", "fusion", "fused", "degrees", "fused_share"),
):
    """One graph over all samples: ``M = (1 - f) sum_a w_a S_a + f S_fused``, normalised.

    ``S_a`` are the neighbour graphs of the views, ``w_a`` their weights by reliability (see
    `view_reliability`), and ``S_fused`` is the neighbour graph of the concatenated features. Each
    view's graph and walk use the parameters of its kernel; the graph and walk of all views use the
    `common_shape`.

    Attributes
    ----------
    rows : list of arrays
        Positions of the samples that have each view.
    n : int
        Number of samples.
    graphs : list of FittedKNN
        Neighbour graph of each view.
    reliability : Reliability
        Reliability of each view.
    fusion : Fusion or None
        Concatenated features; None if any kernel is precomputed, since it has no features.
    fused : FittedKNN or None
        Neighbour graph of the concatenated features.
    degrees : (n,) array
    fused_share : float
        ``f``.
    M : sparse matrix or None
        The graph; not needed to place new samples.
    walk : Walk or None
        Diffusion along ``M``; not needed to place new samples.
    """

    rows: list[Array]
    n: int
    graphs: list[FittedKNN]
    reliability: Reliability
    fusion: Fusion | None
    fused: FittedKNN | None
    degrees: Array
    fused_share: float = EARLIER_FUSED
    M: Any = None
    walk: Any = None

    @classmethod
    def of(
        cls,
        geometries: list[Geometry],
        rows: list[Array],
        n: int,
        n_clusters: int,
        shapes: list[WalkShape],
        between: CrossViews | None = None,
    ) -> SharedGraph:
        """Build the graph of the samples of several views; of landmarks with the samples `between` them."""
        shape = common_shape(shapes)
        graphs = [
            KNN(own.n_neighbors).fit(geometry) for own, geometry in zip(shapes, geometries, strict=True)
        ]
        if between is not None:
            graphs = [graph.spanned_by(between.crosses[a]) for a, graph in enumerate(graphs)]
        Z = [own.walk(graph.S).Z for own, graph in zip(shapes, graphs, strict=True)]
        weights, gate = reliability_of(Z, [graph.S for graph in graphs], rows, n_clusters)
        fusion = fused = None
        if not any(isinstance(geometry, GramGeometry) for geometry in geometries):
            fusion = Fusion.of(geometries, rows, n, weights)
            fused = KNN(shape.n_neighbors).fit(fusion.geometry)
            if between is not None:
                fused = fused.spanned_by(fusion.cross(*between))
        edges, places = {a: graph.S for a, graph in enumerate(graphs)}, dict(enumerate(rows))
        W = combined_graph(weights, edges, (places, rows), (n, n), fused and fused.S, FUSED)
        M, degrees = normalised(W)
        walk = shape.walk(M)
        votes = shared_votes(gate, geometries, rows, provisional_clusters(walk.Z, n_clusters))
        return cls(rows, n, graphs, Reliability(weights, votes), fusion, fused, degrees, FUSED, M, walk)

    def within(self, view: int) -> Any:
        """``M`` restricted to the samples of a view."""
        where = self.rows[view]
        return self.M if len(where) == self.n else self.M[where][:, where]

    def cross(
        self, crosses: dict[int, CrossGeometry], rows: dict[int, Array], n: int, *, fuse: bool = True
    ) -> SharedRows:
        """Edges of new samples, per view and in the shared graph; `fuse` uses concatenated features, too."""
        edges = {a: self.graphs[a].cross(cross)[0] for a, cross in crosses.items()}
        fused = None
        if fuse and self.fusion is not None and self.fused is not None:
            fused = self.fused.cross(self.fusion.cross(crosses, rows, n))[0]
        places = (rows, self.rows)
        W = combined_graph(self.reliability.weights, edges, places, (n, self.n), fused, self.fused_share)
        own = np.asarray(W.sum(axis=1)).ravel()
        return SharedRows(edges, rows, scale_both_sides(W, own, self.degrees))


def combined_graph(
    weights: Array,
    edges: dict[int, Any],
    places: tuple[dict[int, Array], list[Array]],
    shape: tuple[int, int],
    fused: Any,
    share: float,
) -> Any:
    """``(1 - f) sum_a w_a S_a + f S_fused``; `places` are the positions of rows and columns of the views."""
    rows, columns = places
    total = sum(weights[a] * spread(S, rows[a], columns[a], shape) for a, S in edges.items())
    return total if fused is None else (1.0 - share) * total + share * fused


@dataclass(frozen=True)
class SharedRows:
    """Edges from new samples to training samples: of each view, and of all views together."""

    edges: dict[int, Any]
    rows: dict[int, Array]
    M: Any


@dataclass(frozen=True)
class WalkShape:
    """Parameters of the diffusion, used by the kernels and by the shared graph."""

    n_neighbors: int
    rank: int
    time: float
    directions: float

    def walk(self, W: Any) -> Walk:
        """Diffusion along a graph."""
        return Walk.along(W, self.rank, self.time, self.directions)


def common_shape(shapes: list[WalkShape]) -> WalkShape:
    """Parameters for the graph of all views: medians, the largest rank and the most directions."""
    return WalkShape(
        round(float(np.median([shape.n_neighbors for shape in shapes]))),
        max(shape.rank for shape in shapes),
        float(np.median([shape.time for shape in shapes])),
        max(shape.directions for shape in shapes),
    )


@dataclass(frozen=True, eq=False)
class Fusion(Stored, tag="fusion", fields=("weights", "parts", "geometry")):
    """Concatenated features: views decorrelated, of mean squared length one, times the root of their weight.

    Sparse views, profiles and views with few samples are only centred (see `viewloom.kernels.decorrelation`).
    """

    weights: Array
    parts: list[Part]
    geometry: Geometry  # of the training samples

    @classmethod
    def of(cls, geometries: list[Geometry], rows: list[Array], n: int, weights: Array) -> Fusion:
        """Concatenate the features of several views."""
        found = [Part.of(geometry.X, weight) for geometry, weight in zip(geometries, weights, strict=True)]
        parts, features = [part for part, _ in found], {a: own for a, (_, own) in enumerate(found)}
        side = stretched(parts, weights, features, dict(enumerate(rows)), n)
        return cls(weights, parts, Geometry(side, "all views"))

    def cross(self, crosses: dict[int, CrossGeometry], rows: dict[int, Array], n: int) -> CrossGeometry:
        """Distances between new samples and training samples.

        If no new sample has a view, the distances depend only on the lengths of the training samples
        in it; for many new samples the features of such a view are replaced by these lengths.
        """
        features = {a: self.parts[a].features(cross.X) for a, cross in crosses.items()}
        short = n > FEW_ROWS and len(features) < len(self.parts)
        train = Geometry(self._shortened(features), self.geometry.name) if short else self.geometry
        return train.to(stretched(self.parts, self.weights, features, rows, n, short))

    def _shortened(self, features: dict[int, Any]) -> Any:
        """Training samples, with lengths in place of features for the views that are not in `features`."""
        ends = np.cumsum([len(part.centre) for part in self.parts])
        places = [slice(end - len(part.centre), end) for part, end in zip(self.parts, ends, strict=True)]
        views = [self.geometry.X[:, place] for place in places]
        return concatenated(
            [X if a in features else np.sqrt(Factored(X).diagonal())[:, None] for a, X in enumerate(views)]
        )


def stretched(
    parts: list[Part],
    weights: Array,
    features: dict[int, Any],
    rows: dict[int, Array],
    n: int,
    short: bool = False,
) -> Any:
    """Features of all views (n rows); zero for missing views, and the others scaled up to compensate."""
    side = concatenated(
        [
            np.zeros((n, 1)) if short and a not in features else part.placed(features.get(a), rows.get(a), n)
            for a, part in enumerate(parts)
        ]
    )
    seen = np.zeros(n)
    for a, where in rows.items():
        seen[where] += weights[a]
    if np.abs(seen - 1.0).max() < COMPLETE:
        return side
    full = 1.0 / np.sqrt(np.maximum(seen, 1e-3))
    return scaled(side, full)


@dataclass(frozen=True)
class Part(Stored, tag="fusion.part", fields=("centre", "factor", "sparse", "root")):
    """Centre and factor of one view in the concatenated features, and the map that decorrelates them."""

    centre: Array
    factor: float
    sparse: bool  # sparse views are not centred, which changes no distance between samples that have them
    root: Array | None = None  # d x d; None if not decorrelated, as in models of earlier versions

    @classmethod
    def of(cls, X: Any, weight: float) -> tuple[Part, Any]:
        """The part of a view and its features; the factor is zero if the view is constant up to rounding."""
        mean = np.asarray(X.mean(axis=0, dtype=np.float64)).ravel()
        squares = float(Factored(X).diagonal().mean())
        variance = squares - float(mean @ mean)
        constant = not variance > ROUNDING * np.finfo(X.dtype).eps * squares
        if constant or not can_be_decorrelated(X):
            part = cls(mean, 0.0 if constant else float(np.sqrt(weight / variance)), sp.issparse(X))
            return part, part.features(X)
        own = np.asarray(X - mean, dtype=np.float64)
        root = decorrelation(own)
        if root is not None:
            own = own @ root
            variance = float(Factored(own).diagonal().mean())
        part = cls(mean, float(np.sqrt(weight / variance)), False, root)
        own *= part.factor
        return part, own

    def features(self, X: Any) -> Any:
        """Scaled features of samples that have the view."""
        if self.sparse:
            return X.astype(np.float64) * self.factor
        centred = np.asarray(X - self.centre, dtype=np.float64)
        own = centred if self.root is None else centred @ self.root
        own *= self.factor
        return own

    def placed(self, features: Any | None, rows: Array | None, n: int) -> Any:
        """Features with n rows, zero for samples without the view."""
        shape = (n, len(self.centre))
        if features is None or rows is None:
            return sp.csr_array(shape) if self.sparse else np.zeros(shape)
        return placed_rows(features, rows, n)


def normalised(W: Any) -> tuple[Any, Array]:
    """``D^-1/2 W D^-1/2`` and the degrees."""
    degrees = np.maximum(np.asarray(W.sum(axis=1)).ravel(), np.finfo(float).tiny)
    return scale_both_sides(W, degrees, degrees), degrees
