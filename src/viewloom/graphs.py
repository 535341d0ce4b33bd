"""Distances within a view, computed once, and the similarity graphs built on them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from numbers import Real
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.neighbors import NearestNeighbors

from viewloom.operators import Explicit, top_eigenpairs

Array = np.ndarray
GRID_SAMPLE = 500  # samples on which a grid of widths is compared


class Geometry:
    """The samples of one view, with distances and neighbours that are computed once and shared."""

    def __init__(self, X: Any, name: str = "X") -> None:
        self.X = X
        self.name = name  # of the view, for messages
        self._neighbours: tuple[Array, Array] | None = None

    @property
    def train(self) -> Geometry:
        """The samples that distances are measured to: these themselves."""
        return self

    @property
    def size(self) -> int:
        """Number of samples."""
        return int(self.X.shape[0])

    @cached_property
    def squared_distances(self) -> Array:
        """All pairwise squared distances (n x n)."""
        return np.asarray(euclidean_distances(self.X, squared=True))

    @cached_property
    def index(self) -> NearestNeighbors:
        """Index for neighbour queries."""
        return NearestNeighbors().fit(self.X)

    def neighbours(self, count: int) -> tuple[Array, Array]:
        """Distances and positions of the nearest other samples (n x count)."""
        count = max(min(count, self.size - 1), 1)
        if self._neighbours is None or self._neighbours[0].shape[1] < count:
            self._neighbours = self.index.kneighbors(n_neighbors=count)
        distances, positions = self._neighbours
        return distances[:, :count], positions[:, :count]

    def to(self, X_new: Any) -> CrossGeometry:
        """Distances from new samples to these."""
        return CrossGeometry(self, X_new)


class GramGeometry(Geometry):
    """Distances that a Gram matrix implies: ``d_ij^2 = K_ii + K_jj - 2 K_ij``."""

    def __init__(self, X: Any, name: str = "X") -> None:
        super().__init__(_dense(X), name)

    @cached_property
    def squared_distances(self) -> Array:
        """All pairwise squared distances (n x n)."""
        diagonal = np.diagonal(self.X)
        return np.maximum(diagonal[:, None] + diagonal - 2.0 * self.X, 0.0)

    @cached_property
    def index(self) -> NearestNeighbors:
        """Index for neighbour queries."""
        distances = np.sqrt(self.squared_distances)
        np.fill_diagonal(distances, 0.0)
        return NearestNeighbors(metric="precomputed").fit(distances)

    def to(self, X_new: Any) -> CrossGeometry:
        """Distances from new samples, whose own diagonal is taken as the mean of the training diagonal."""
        X_new, diagonal = _dense(X_new), np.diagonal(self.X)
        squared = np.maximum(diagonal.mean() + diagonal - 2.0 * X_new, 0.0)
        cross = CrossGeometry(self, X_new)
        cross.squared_distances = squared
        cross.query = np.sqrt(squared)
        return cross


class CrossGeometry:
    """New samples of a view, seen from the training samples."""

    def __init__(self, train: Geometry, X: Any) -> None:
        self.train = train
        self.X = X
        self.query = X
        self._neighbours: tuple[Array, Array] | None = None

    @property
    def size(self) -> int:
        """Number of new samples."""
        return int(self.X.shape[0])

    @cached_property
    def squared_distances(self) -> Array:
        """Squared distances to all training samples (n_new x n)."""
        return np.asarray(euclidean_distances(self.X, self.train.X, squared=True))

    def neighbours(self, count: int) -> tuple[Array, Array]:
        """Distances and positions of the nearest training samples (n_new x count)."""
        count = max(min(count, self.train.size), 1)
        if self._neighbours is None or self._neighbours[0].shape[1] < count:
            self._neighbours = self.train.index.kneighbors(self.query, n_neighbors=count)
        distances, positions = self._neighbours
        return distances[:, :count], positions[:, :count]


@dataclass(frozen=True)
class Laplacian:
    """``L = diag(degree) - adjacency``, with ``sigma >= sigma_max(L)``."""

    adjacency: Any  # an Operator; the Cross of new samples
    degree: Array
    sigma: float


class KNN(BaseEstimator):
    """Symmetric-normalised nearest-neighbour graph with self-tuning weights.

    ``W_ij = exp(-d_ij^2 / (s_i s_j))`` for neighbours, ``s_i`` the distance to the last neighbour, and
    ``L = I - D^-1/2 W D^-1/2``, whose spectrum lies in [0, 2].

    Parameters
    ----------
    n_neighbors : int, default=15

    Examples
    --------
    >>> import numpy as np
    >>> laplacian = KNN(n_neighbors=2).fit(Geometry(np.arange(5.0)[:, None])).laplacian
    >>> bool(laplacian.degree.min() == 1.0)
    True
    """

    def __init__(self, n_neighbors: int = 15) -> None:
        self.n_neighbors = n_neighbors

    def fit(self, geometry: Geometry) -> FittedKNN:
        """Graph of the samples of a view."""
        distances, positions = geometry.neighbours(self.n_neighbors)
        scales = local_scales(distances)
        W = neighbour_weights(distances, positions, scales, scales, geometry.size)
        W = ((W + W.T) / 2.0).tocsr()
        return FittedKNN(self.n_neighbors, scales, np.asarray(W.sum(axis=1)).ravel(), W)


@dataclass(frozen=True)
class FittedKNN:
    """A nearest-neighbour graph: local scales, degrees and the normalised adjacency ``S``."""

    n_neighbors: int
    scales: Array
    degrees: Array
    W: Any

    @cached_property
    def S(self) -> Any:
        """``D^-1/2 W D^-1/2``, sparse."""
        return scale_both_sides(self.W, self.degrees, self.degrees)

    bound = 2.0  # of the spectrum of a normalised Laplacian

    @property
    def laplacian(self) -> Laplacian:
        """Normalised Laplacian."""
        return Laplacian(Explicit(self.S), np.ones(self.S.shape[0]), self.bound)

    def cross(self, geometry: CrossGeometry) -> tuple[Any, Array]:
        """Normalised edges from new samples to training samples (n_new x n, sparse), and degrees."""
        W = self._edges(geometry)
        degrees = np.asarray(W.sum(axis=1)).ravel()
        return scale_both_sides(W, degrees, self.degrees), np.ones(geometry.size)

    def ties(self, geometry: CrossGeometry) -> Any:
        """Edges from new samples to training samples (n_new x n), as shares that sum to one."""
        return row_stochastic(self._edges(geometry))

    def _edges(self, geometry: CrossGeometry) -> Any:
        distances, positions = geometry.neighbours(self.n_neighbors)
        scales = local_scales(distances, floor=float(self.scales.min()))
        return neighbour_weights(distances, positions, scales, self.scales, len(self.degrees))


def row_stochastic(W: Any) -> Any:
    """Rows that sum to one."""
    sums = np.asarray(W.sum(axis=1)).ravel()
    inverse = 1.0 / np.where(sums > 0.0, sums, 1.0)
    return sp.csr_array(sp.diags_array(inverse) @ W) if sp.issparse(W) else W * inverse[:, None]


class GaussianGraph(BaseEstimator):
    """The paper's graph: ``W_ij = exp(-||x_i - x_j||^2 / (2 sigma^2))`` between all samples, ``L = D - W``.

    Parameters
    ----------
    sigma : float, "median" or sequence of floats, default="median"
        Width, as in `viewloom.kernels.Gaussian`.
    """

    def __init__(self, sigma: Any = "median") -> None:
        self.sigma = sigma

    def fit(self, geometry: Geometry) -> FittedGaussianGraph:
        """Graph of the samples of a view."""
        return FittedGaussianGraph(
            geometry.squared_distances, gaussian_width(self.sigma, geometry.squared_distances)
        )


class FittedGaussianGraph:
    """A dense Gaussian graph."""

    def __init__(self, squared_distances: Array, sigma: float) -> None:
        self.sigma = sigma
        W = gaussian(squared_distances, sigma)
        np.fill_diagonal(W, 1.0)
        degree = W.sum(axis=1)
        self.bound = float(top_eigenpairs(np.diag(degree) - W, 1)[0][0])
        self.laplacian = Laplacian(Explicit(W), degree, self.bound)

    def cross(self, geometry: CrossGeometry) -> tuple[Array, Array]:
        """Edges from new samples to training samples (n_new x n), and degrees."""
        W = gaussian(geometry.squared_distances, self.sigma)
        return W, W.sum(axis=1)

    def ties(self, geometry: CrossGeometry) -> Array:
        """Edges from new samples to training samples, as shares that sum to one."""
        return np.asarray(row_stochastic(self.cross(geometry)[0]))


GRAPHS: dict[str, Any] = {"knn": KNN, "gaussian": GaussianGraph}


def make_graph(graph: Any) -> Any:
    """The graph that a parameter names: a string, a graph object, or None for no graph."""
    if graph is None or (hasattr(graph, "fit") and not isinstance(graph, type)):
        return graph
    if isinstance(graph, str) and graph in GRAPHS:
        return GRAPHS[graph]()
    raise ValueError(f"graph must be one of {sorted(GRAPHS)}, a graph object or None, got {graph!r}.")


def local_scales(distances: Array, floor: float = 0.0) -> Array:
    """Distance to the last neighbour, kept above a tenth of the typical one where samples repeat."""
    scales = distances[:, -1].astype(np.float64)
    floor = floor or 0.1 * float(np.median(scales)) or float(scales.max()) or 1.0
    return np.maximum(scales, floor)


def neighbour_weights(
    distances: Array, positions: Array, scales: Array, other_scales: Array, n: int
) -> sp.csr_array:
    """Sparse ``exp(-d_ij^2 / (s_i s_j))`` over given neighbours, rows x n."""
    count, width = distances.shape
    rows = np.repeat(np.arange(count), width)
    columns = positions.ravel()
    weights = np.exp(-(distances.ravel() ** 2) / (scales[rows] * other_scales[columns]))
    weights = np.maximum(weights, 1e-12)  # a far neighbour is still a neighbour: no row without edges
    return sp.csr_array((weights, (rows, columns)), shape=(count, n))


def scale_both_sides(W: Any, left: Array, right: Array) -> Any:
    """``diag(left)^-1/2 W diag(right)^-1/2``."""
    return sp.csr_array(sp.diags_array(left**-0.5) @ W @ sp.diags_array(right**-0.5))


def _dense(X: Any) -> Array:
    return np.asarray(X.toarray() if sp.issparse(X) else X)


def gaussian(squared_distances: Array, sigma: float) -> Array:
    """``exp(-d^2 / (2 sigma^2))``."""
    return np.exp(squared_distances / (-2.0 * sigma**2))


def gaussian_width(sigma: Any, squared_distances: Array) -> float:
    """A number as it is, the median distance between samples, or of a grid the `most_spread_width`."""
    if not isinstance(sigma, str) and np.ndim(sigma) == 1:
        return most_spread_width(np.asarray(sigma, dtype=np.float64), squared_distances)
    if isinstance(sigma, str) and sigma == "median":
        off_diagonal = squared_distances[np.triu_indices(len(squared_distances), 1)]
        return float(np.sqrt(np.median(off_diagonal))) or 1.0
    if not (isinstance(sigma, Real) and 0.0 < float(sigma) < np.inf):
        raise ValueError(f"sigma must be a positive number or 'median', got {sigma!r}.")
    return float(sigma)


def most_spread_width(grid: Array, squared_distances: Array) -> float:
    """The width of a grid under which kernel values of different pairs differ most."""
    if not (len(grid) and (grid > 0.0).all()):
        raise ValueError("A grid of sigma must hold positive numbers.")
    rows = np.linspace(0, len(squared_distances) - 1, min(GRID_SAMPLE, len(squared_distances)))
    rows = np.unique(rows.astype(int))
    sample = squared_distances[np.ix_(rows, rows)][np.triu_indices(len(rows), 1)]
    spreads = [float(np.var(gaussian(sample, sigma))) for sigma in grid]
    return float(grid[int(np.argmax(spreads))])
