"""Similarity graphs of the samples of a view."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator

from viewloom.kernels.geometry import FEW_ROWS, CrossGeometry, Geometry
from viewloom.kernels.operators import Explicit, scaled, top_eigenpairs
from viewloom.runtime.errors import InputError
from viewloom.runtime.stored import Stored, StoredParameters

Array = np.ndarray
SPANNED = 5  # nearest landmarks that a sample connects
ROUNDED = 1.0 + 1e-9  # ratio of distances up to which they count as equal
LONE = 1e-9  # weight of the edges of landmarks relative to those by samples


@dataclass(frozen=True)
class Laplacian:
    """``L = diag(degree) - adjacency``, with ``sigma >= sigma_max(L)``."""

    adjacency: Any  # an Operator, or a Cross for new samples
    degree: Array
    sigma: float


class KNN(StoredParameters, tag="graph.knn"):
    """Nearest-neighbour graph with self-tuning weights and symmetric normalisation.

    ``W_ij = (1 - r_ij / n_neighbors) exp(-d_ij^2 / (s_i s_j))`` for neighbours, made symmetric. ``r_ij`` is
    the number of neighbours of ``i`` nearer than ``j``, and ``s_i`` the distance to the last neighbour. The
    ranks make the graph a mean over numbers of neighbours: with many features all distances are similar, and
    the exponential alone would weight near and far neighbours equally. ``L = I - D^-1/2 W D^-1/2`` has its
    spectrum in [0, 2].

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
        """Compute the graph of the samples of a view."""
        distances, positions = geometry.neighbours(self.n_neighbors)
        scales = local_scales(distances)
        weights = neighbour_weights(distances, positions, scales, scales) * rank_weights(distances)
        W = edges(weights, positions, geometry.size)
        W = ((W + W.T) / 2.0).tocsr()
        return FittedKNN(self.n_neighbors, scales, np.asarray(W.sum(axis=1)).ravel(), W, ranked=True)


@dataclass(frozen=True)
class FittedKNN(Stored, tag="graph.knn.fitted", fields=("n_neighbors", "scales", "degrees", "ranked")):
    """A nearest-neighbour graph: local scales, degrees and the normalised adjacency ``S``."""

    n_neighbors: int
    scales: Array
    degrees: Array
    W: Any = None  # of the training samples; not needed to place new samples
    ranked: bool = False  # whether near neighbours have larger weights; not so in models before 0.3.0

    @cached_property
    def S(self) -> Any:
        """``D^-1/2 W D^-1/2``, sparse."""
        return scale_both_sides(self.W, self.degrees, self.degrees)

    @cached_property
    def least_scale(self) -> float:
        """The smallest of the local scales."""
        return float(self.scales.min())

    bound = 2.0  # of the spectrum of a normalised Laplacian

    @property
    def laplacian(self) -> Laplacian:
        """Normalised Laplacian."""
        return Laplacian(Explicit(self.S), np.ones(self.S.shape[0]), self.bound)

    def cross(self, geometry: CrossGeometry) -> tuple[Any, Array]:
        """Normalised edges from new samples to training samples (n_new x n), and degrees."""
        W = self._edges(geometry)
        degrees = np.asarray(W.sum(axis=1)).ravel()
        return scale_both_sides(W, degrees, self.degrees), np.ones(geometry.size)

    def ties(self, geometry: CrossGeometry) -> Any:
        """Edges from new samples to training samples (n_new x n), with rows that sum to one."""
        return row_stochastic(self._edges(geometry))

    def spanned_by(self, geometry: CrossGeometry) -> FittedKNN:
        """The graph of landmarks that are connected by the samples between them.

        With the ties ``B`` of samples to their `SPANNED` nearest landmarks, ``W = B^T B`` without its
        diagonal: two landmarks are connected by the samples that are near both. So the graph depends on all
        samples, and not on the landmarks alone. Landmarks without such samples keep their edges. New samples
        are placed as before.
        """
        B = replace(self, n_neighbors=min(SPANNED, self.n_neighbors)).ties(geometry)
        W = sp.csr_array(B.T @ B)
        W.setdiag(0.0)
        W = W + LONE * self.W
        own = np.asarray(W.sum(axis=1)).ravel()
        return replace(self, W=scale_both_sides(W, own / self.degrees, own / self.degrees))

    def _edges(self, geometry: CrossGeometry) -> Any:
        distances, positions = geometry.neighbours(self.n_neighbors)
        scales = local_scales(distances, floor=self.least_scale)
        weights = neighbour_weights(distances, positions, scales, self.scales)
        if self.ranked:
            weights *= rank_weights(distances)
        return edges(weights, positions, len(self.degrees), dense=len(positions) <= FEW_ROWS)


def row_stochastic(W: Any) -> Any:
    """Scale rows to sum to one."""
    sums = np.asarray(W.sum(axis=1)).ravel()
    inverse = 1.0 / np.where(sums > 0.0, sums, 1.0)
    return scaled(W, inverse)


class GaussianGraph(StoredParameters, tag="graph.gaussian"):
    """Graph of the paper: ``W_ij = exp(-||x_i - x_j||^2 / (2 sigma^2))`` for all pairs, ``L = D - W``.

    Parameters
    ----------
    sigma : float, "median" or sequence of floats, default="median"
        Width, as in `viewloom.kernels.Gaussian`.
    """

    def __init__(self, sigma: Any = "median") -> None:
        self.sigma = sigma

    def fit(self, geometry: Geometry) -> FittedGaussianGraph:
        """Compute the graph of the samples of a view."""
        sigma = geometry.gaussian_width(self.sigma)
        return FittedGaussianGraph.of(geometry.gaussian(sigma), sigma)


@dataclass(frozen=True)
class FittedGaussianGraph(Stored, tag="graph.gaussian.fitted", fields=("sigma", "bound")):
    """A dense Gaussian graph."""

    sigma: float
    bound: float  # of the spectrum of its Laplacian
    laplacian: Laplacian | None = None  # of the training samples; not needed to place new samples

    @classmethod
    def of(cls, W: Array, sigma: float) -> FittedGaussianGraph:
        """The graph with given weights (n x n)."""
        degree = W.sum(axis=1)
        L = LinearOperator(W.shape, matvec=lambda x: degree * x.ravel() - W @ x.ravel(), dtype=W.dtype)
        bound = float(top_eigenpairs(L, 1)[0][0])
        return cls(sigma, bound, Laplacian(Explicit(W), degree, bound))

    def cross(self, geometry: CrossGeometry) -> tuple[Array, Array]:
        """Edges from new samples to training samples (n_new x n), and degrees."""
        W = geometry.gaussian(self.sigma)
        return W, W.sum(axis=1)

    def ties(self, geometry: CrossGeometry) -> Array:
        """Edges from new samples to training samples, with rows that sum to one."""
        return np.asarray(row_stochastic(self.cross(geometry)[0]))


GRAPHS: dict[str, Any] = {"knn": KNN, "gaussian": GaussianGraph}


def make_graph(graph: Any) -> Any:
    """The graph for a parameter: a name, a graph object, or None for no graph."""
    if graph is None or (hasattr(graph, "fit") and not isinstance(graph, type)):
        return graph
    if isinstance(graph, str) and graph in GRAPHS:
        return GRAPHS[graph]()
    raise InputError(f"graph must be one of {sorted(GRAPHS)}, a graph object or None, got {graph!r}.")


def local_scales(distances: Array, floor: float = 0.0) -> Array:
    """Distance to the last neighbour, but at least a tenth of the median, for duplicated samples."""
    scales = distances[:, -1].astype(np.float64)
    floor = floor or 0.1 * float(np.median(scales)) or float(scales.max()) or 1.0
    return np.maximum(scales, floor)


def neighbour_weights(distances: Array, positions: Array, scales: Array, other_scales: Array) -> Array:
    """``exp(-d_ij^2 / (s_i s_j))`` for given neighbours, bounded below so that every row has edges."""
    weights = np.exp(-(distances**2) / (scales[:, None] * other_scales[positions]))
    return np.asarray(np.maximum(weights, 1e-12, out=weights))


def rank_weights(distances: Array) -> Array:
    """``1 - r / n_neighbors``, with ``r`` the number of neighbours of the row that are nearer.

    Distances that are equal up to rounding, as between profiles of counts, have the same rank. The result is
    one row for all rows if none has any.

    Examples
    --------
    >>> rank_weights(np.array([[1.0, 2.0, 2.0, 5.0]]))
    array([[1.  , 0.75, 0.75, 0.25]])
    """
    order = np.arange(distances.shape[-1])
    further = are_further(distances)
    if further.all():
        return 1.0 - order / len(order)  # the same for all rows
    ranks = np.zeros(distances.shape, dtype=np.intp)
    ranks[..., 1:] = np.where(further, order[1:], 0)
    return np.asarray(1.0 - np.maximum.accumulate(ranks, axis=-1) / len(order))


def are_further(distances: Array) -> Array:
    """Whether a distance in a rising row is larger than the one before by more than rounding."""
    return np.asarray(distances[..., 1:] > ROUNDED * distances[..., :-1])


def edges(weights: Array, positions: Array, n: int, *, dense: bool = False) -> Any:
    """Weights of neighbours as a matrix (rows x n), sparse by default."""
    count, width = weights.shape
    if dense:
        W = np.zeros((count, n))
        W[np.arange(count)[:, None], positions] = weights
        return W
    index = np.int32 if count * width < 2**31 else np.int64
    firsts = np.arange(0, count * width + 1, width, dtype=index)
    W = sp.csr_array((weights.ravel(), positions.ravel().astype(index), firsts), shape=(count, n))
    W.sort_indices()
    return W


def scale_both_sides(W: Any, left: Array, right: Array) -> Any:
    """``diag(left)^-1/2 W diag(right)^-1/2``."""
    return scaled(W, left**-0.5, right**-0.5)
