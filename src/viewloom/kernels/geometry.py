"""Distances between the samples of a view, and from new samples to them."""

from __future__ import annotations

from functools import cached_property
from importlib.util import find_spec
from numbers import Real
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.neighbors import NearestNeighbors

from viewloom.kernels.neighbours import (
    PartlyDense,
    approximate_neighbours,
    fits_single,
    fits_table,
    nearest_in_single,
    nearest_others,
    nearest_to_few,
)
from viewloom.kernels.operators import Factored, dense
from viewloom.runtime.errors import InputError
from viewloom.runtime.stored import Stored
from viewloom.runtime.user_warnings import warn_user

Array = np.ndarray
GRID_SAMPLE = 500  # number of samples on which a grid of widths is compared

DISTANCE_ROWS = 256  # rows of the distance matrix that are computed at a time

QUERY_ROWS = 2048  # new samples per query, since all distances of sparse samples are stored

FEW_ROWS = 32  # number of new samples up to which edges are stored dense, which is faster than sparse

LEAST_SEARCHED = 15  # neighbours per search: the graph of the default model uses so many, kernels often fewer

EXACT_SEARCH_ROWS = 50_000  # rows of a dense view beyond which neighbours are searched with faiss


class Geometry(Stored, tag="geometry"):
    """The samples of one view, with cached distances and neighbours."""

    def __init__(self, X: Any, name: str = "X", neighbours: tuple[Array, Array] | None = None) -> None:
        self.X = X
        self.name = name  # of the view, for messages
        self._neighbours = neighbours
        self._squared_distances: Array | None = None
        self._widths: dict[Any, float] = {}
        self._gaussian: tuple[float, Array] | None = None

    @property
    def train(self) -> Geometry:
        """The samples that distances are measured to, here the samples themselves."""
        return self

    @property
    def size(self) -> int:
        """Number of samples."""
        return int(self.X.shape[0])

    def state(self) -> dict[str, Any]:
        """The samples, and their neighbours if they were computed."""
        return {"X": self.X, "name": self.name, "neighbours": self._neighbours}

    @property
    def squared_distances(self) -> Array:
        """All pairwise squared distances (n x n)."""
        if self._squared_distances is None:
            self._squared_distances = self._measured()
        return self._squared_distances

    def _measured(self) -> Array:
        D = squared_distances(self.X, self.X)
        np.fill_diagonal(D, 0.0)
        return D

    def gaussian_width(self, sigma: Any) -> float:
        """`gaussian_width` of these samples."""
        key = tuple(np.ravel(sigma).tolist())
        if key not in self._widths:
            self._widths[key] = gaussian_width(sigma, self.squared_distances)
        return self._widths[key]

    def gaussian(self, sigma: float) -> Array:
        """``exp(-d^2 / (2 sigma^2))`` (n x n), computed in place of the distances and cached."""
        if self._gaussian is None or self._gaussian[0] != sigma:
            self._gaussian = None
            D, self._squared_distances = self.squared_distances, None  # one n x n matrix, not two
            self._gaussian = (sigma, gaussian(D, sigma, out=D))
        return self._gaussian[1]

    @cached_property
    def squared_lengths(self) -> Array:
        """``||x||^2`` of the samples, in double precision."""
        return Factored(self.X.astype(np.float64, copy=False)).diagonal()

    @cached_property
    def index(self) -> NearestNeighbors:
        """Index for neighbour queries."""
        return NearestNeighbors().fit(self.X)

    @cached_property
    def partly_dense(self) -> PartlyDense | None:
        """The samples for neighbour queries, if they are sparse with some dense columns."""
        return PartlyDense.of(self.X)

    def neighbours(self, count: int) -> tuple[Array, Array]:
        """Distances and positions of the nearest other samples (n x count)."""
        count = max(min(count, self.size - 1), 1)
        if self._neighbours is None or self._neighbours[0].shape[1] < count:
            self._neighbours = self._searched(max(count, min(LEAST_SEARCHED, self.size - 1)))
        distances, positions = self._neighbours
        return distances[:, :count], positions[:, :count]

    def _searched(self, count: int) -> tuple[Array, Array]:
        if self.size > EXACT_SEARCH_ROWS and isinstance(self.X, np.ndarray):
            if find_spec("faiss") is not None:
                return approximate_neighbours(self.X, count)
            warn_user(
                f"View {self.name!r} has {self.size} samples; the exact search for neighbours compares all "
                "pairs. For a faster search: pip install viewloom[scale]."
            )
        if fits_table(self.X, count):
            return nearest_others(self.X, count)
        if self.partly_dense is not None and self.partly_dense.fits(count):
            return self.partly_dense.nearest(self.X, count, others=True)
        return self._compared(count)

    def _compared(self, count: int) -> tuple[Array, Array]:
        distances, positions = self.index.kneighbors(n_neighbors=count)
        return distances, positions

    def nearest(self, X_new: Any, count: int) -> tuple[Array, Array]:
        """Distances and positions of the samples nearest to new samples (n_new x count)."""
        if fits_single(X_new, self.X, count):
            return nearest_in_single(X_new, self.X, count)
        if X_new.shape[0] <= FEW_ROWS and not sp.issparse(X_new) and not sp.issparse(self.X):
            return nearest_to_few(X_new, self.X, self.squared_lengths, count)
        if self.partly_dense is not None and self.partly_dense.fits(count):
            return self.partly_dense.nearest(X_new, count)
        starts = range(0, X_new.shape[0], QUERY_ROWS)
        found = [self.index.kneighbors(X_new[i : i + QUERY_ROWS], n_neighbors=count) for i in starts]
        return np.vstack([distances for distances, _ in found]), np.vstack([nearest for _, nearest in found])

    def to(self, X_new: Any) -> CrossGeometry:
        """Distances from new samples to these samples."""
        return CrossGeometry(self, X_new)


class GramGeometry(Geometry, tag="geometry.gram"):
    """Distances implied by a Gram matrix: ``d_ij^2 = K_ii + K_jj - 2 K_ij``."""

    def __init__(self, X: Any, name: str = "X", neighbours: tuple[Array, Array] | None = None) -> None:
        super().__init__(dense(X), name, neighbours)

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> GramGeometry:
        """Restore the object from its state, in which the matrix is dense."""
        if not isinstance(state["X"], np.ndarray):
            raise InputError("A stored Gram matrix must be dense.")
        return cls(**state)

    def _measured(self) -> Array:
        diagonal = np.diagonal(self.X)
        D = -2.0 * self.X
        D += diagonal[:, None]
        D += diagonal
        return np.maximum(D, 0.0, out=D)

    @cached_property
    def index(self) -> NearestNeighbors:
        """Index for neighbour queries."""
        distances = np.sqrt(self.squared_distances)
        np.fill_diagonal(distances, 0.0)
        return NearestNeighbors(metric="precomputed").fit(distances)

    _searched = Geometry._compared  # rows are not features

    def nearest(self, X_new: Any, count: int) -> tuple[Array, Array]:
        """The same, from rows of distances."""
        return self.index.kneighbors(X_new, n_neighbors=count)

    def to(self, X_new: Any) -> CrossGeometry:
        """Distances from new samples, using the mean of the training diagonal as their diagonal."""
        X_new, diagonal = dense(X_new), np.diagonal(self.X)
        squared = np.maximum(diagonal.mean() + diagonal - 2.0 * X_new, 0.0)
        cross = CrossGeometry(self, X_new)
        cross.squared_distances = squared
        cross.query = np.sqrt(squared)
        return cross


class CrossGeometry:
    """New samples of a view, with distances to the training samples."""

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
        return squared_distances(self.X, self.train.X)

    def gaussian(self, sigma: float) -> Array:
        """``exp(-d^2 / (2 sigma^2))`` to all training samples (n_new x n)."""
        return gaussian(self.squared_distances, sigma)

    def neighbours(self, count: int) -> tuple[Array, Array]:
        """Distances and positions of the nearest training samples (n_new x count)."""
        count = max(min(count, self.train.size), 1)
        if self._neighbours is None or self._neighbours[0].shape[1] < count:
            self._neighbours = self.train.nearest(self.query, count)
        distances, positions = self._neighbours
        return distances[:, :count], positions[:, :count]


def squared_distances(X: Any, Y: Any) -> Array:
    """``||x - y||^2`` of all pairs (n x m), computed in double precision, returned in the precision of X.

    Blocks of rows limit the memory for intermediate results.
    """
    D = np.empty((X.shape[0], Y.shape[0]), dtype=np.result_type(X.dtype, np.float32))
    X, Y = X.astype(np.float64, copy=False), Y.astype(np.float64, copy=False)
    own, lengths = Factored(X).diagonal(), Factored(Y).diagonal()
    for start in range(0, len(D), DISTANCE_ROWS):
        rows = slice(start, start + DISTANCE_ROWS)
        block = dense(X[rows] @ Y.T)
        block *= -2.0
        block += lengths
        block += own[rows, None]
        np.maximum(block, 0.0, out=D[rows], casting="same_kind")
    return D


def gaussian(squared_distances: Array, sigma: float, out: Array | None = None) -> Array:
    """``exp(-d^2 / (2 sigma^2))``."""
    scaled = np.multiply(squared_distances, -0.5 / sigma**2, out=out)
    return np.asarray(np.exp(scaled, out=scaled))


def gaussian_width(sigma: Any, squared_distances: Array) -> float:
    """The width for a parameter: a number, "median" (of distances), or a grid (see `most_spread_width`)."""
    if not isinstance(sigma, str) and np.ndim(sigma) == 1:
        return most_spread_width(np.asarray(sigma, dtype=np.float64), squared_distances)
    if isinstance(sigma, str) and sigma == "median":
        return float(np.sqrt(np.median(above_diagonal(squared_distances), overwrite_input=True))) or 1.0
    if not (isinstance(sigma, Real) and 0.0 < float(sigma) < np.inf):
        raise InputError(f"sigma must be a positive number or 'median', got {sigma!r}.")
    return float(sigma)


def above_diagonal(D: Array) -> Array:
    """The entries above the diagonal, one per pair."""
    return np.concatenate([row[i + 1 :] for i, row in enumerate(D)])


def most_spread_width(grid: Array, squared_distances: Array) -> float:
    """The width in a grid with the largest variance of kernel values between pairs."""
    if not (len(grid) and (grid > 0.0).all()):
        raise InputError("A grid of sigma must contain positive numbers.")
    rows = np.linspace(0, len(squared_distances) - 1, min(GRID_SAMPLE, len(squared_distances)))
    rows = np.unique(rows.astype(int))
    sample = above_diagonal(squared_distances[np.ix_(rows, rows)])
    spreads = [float(np.var(gaussian(sample, sigma))) for sigma in grid]
    return float(grid[int(np.argmax(spreads))])
