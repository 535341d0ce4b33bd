"""Nearest neighbours: exact from products of all pairs, or approximate for very many samples."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.extmath import safe_sparse_dot

from viewloom.kernels.operators import Factored

Array = np.ndarray
BLOCK_ROWS = 256  # rows whose distances are computed at a time
GROUP = 16  # samples per group, of which the nearest is found first
RECALL, RECALL_SAMPLE = 0.98, 500  # least share of true neighbours found, on a sample of this size
CLOSE = 1e-4  # relative to a squared length; smaller squared distances are computed from differences
CELL_SAMPLE = 64  # training samples per cell for faiss
TABLE_ROWS = 3000  # number of samples up to which the products of all pairs are stored
TREE_FEATURES = 15  # number of features up to which a search tree is faster
CROWDED = 0.2  # share of entries that are not zero, from which a column is faster to multiply as a dense one


def fits_table(X: Any, count: int) -> bool:
    """Whether `nearest_others` can be used, and is faster than a tree."""
    if not isinstance(X, np.ndarray):
        return False
    return X.shape[1] > TREE_FEATURES and GROUP * (count + 1) <= len(X) <= TABLE_ROWS


def nearest_others(X: Array, count: int) -> tuple[Array, Array]:
    """Distances and positions of the nearest other rows of X, in double precision.

    ``||y||^2 / 2 - <x, y>`` has the order of the distances. The products of all pairs are symmetric, so that
    BLAS computes half of them. Distances that would lose digits are computed from differences.
    """
    n, surplus = len(X), -len(X) % GROUP
    X = np.pad(X.astype(np.float64, copy=False), ((0, surplus), (0, 0)))
    table = X @ X.T
    lengths = table.diagonal().copy()
    np.subtract(np.where(np.arange(len(X)) < n, lengths / 2.0, np.inf), table, out=table)
    np.fill_diagonal(table, np.inf)
    least, positions = least_in_rows(table[:n], count)
    squares = 2.0 * least + lengths[:n, None]
    close = (squares < CLOSE * lengths[:n, None]).any(axis=1)
    distances = np.sqrt(np.maximum(squares, 0.0, out=squares))
    if close.any():
        distances[close], positions[close] = _sorted_distances(X[:n][close], X, positions[close])
    return distances, positions


def fits_single(X: Any, Y: Any, count: int) -> bool:
    """Whether `nearest_in_single` can be used."""
    return _is_single(X) and _is_single(Y) and count <= len(Y) // GROUP


def _is_single(X: Any) -> bool:
    return isinstance(X, np.ndarray) and X.dtype == np.float32


def nearest_in_single(X: Array, Y: Array, count: int) -> tuple[Array, Array]:
    """Distances and positions of the rows of Y nearest to each row of X, in single precision.

    ``||y||^2 / 2 - <x, y>`` of a block of rows is computed by one product, in half the time of double
    precision. X and Y are centred first, so that little precision is lost in the difference.
    """
    centre = Y.mean(axis=0)
    Y = Y - centre
    surplus = -len(Y) % GROUP
    half = np.pad(Factored(Y).diagonal() / 2, (0, surplus), constant_values=np.inf)
    across = np.vstack([np.pad(-Y.T, ((0, 0), (0, surplus))), half])
    distances, positions = np.empty((len(X), count)), np.empty((len(X), count), dtype=np.intp)
    for start in range(0, len(X), BLOCK_ROWS):
        rows = slice(start, start + BLOCK_ROWS)
        x = X[rows] - centre
        least, positions[rows] = least_in_rows(
            np.pad(x, ((0, 0), (0, 1)), constant_values=1.0) @ across, count
        )
        distances[rows] = np.sqrt(np.maximum(2.0 * least + Factored(x).diagonal()[:, None], 0.0))
    return distances, positions


class PartlyDense:
    """Rows of a sparse matrix, some columns of which have few zeros, as concatenated views have.

    Products of such columns take as long as dense ones in sparse form, times about twenty.
    """

    def __init__(self, Y: Any, crowded: Array) -> None:
        self.Y, self.crowded, self.size = Y, crowded, Y.shape[0]
        self.dense, self.sparse = self._split(Y)
        self.half_lengths = Factored(Y).diagonal() / 2.0

    @classmethod
    def of(cls, Y: Any) -> PartlyDense | None:
        """The rows; None if no column has few zeros."""
        if not sp.issparse(Y):
            return None
        crowded = Y.count_nonzero(axis=0) > CROWDED * Y.shape[0]
        return cls(sp.csr_array(Y, dtype=np.float64), crowded) if crowded.any() else None

    def _split(self, X: Any) -> tuple[Array, Any]:
        X = sp.csc_array(X, dtype=np.float64)
        return X[:, np.flatnonzero(self.crowded)].toarray(), sp.csr_array(X[:, np.flatnonzero(~self.crowded)])

    def fits(self, count: int) -> bool:
        """Whether so many neighbours can be searched."""
        return GROUP * (count + 1) <= self.size

    def nearest(self, X: Any, count: int, *, others: bool = False) -> tuple[Array, Array]:
        """Distances and positions of the rows nearest to each row of X (n x count), in double precision.

        With `others`, X are the rows themselves, and none is its own neighbour.
        """
        distances, positions = np.empty((X.shape[0], count)), np.empty((X.shape[0], count), dtype=np.intp)
        for start in range(0, X.shape[0], BLOCK_ROWS):
            x = X[start : start + BLOCK_ROWS]
            rows, own = slice(start, start + x.shape[0]), np.arange(x.shape[0])
            table = self._table(x)
            if others:
                table[own, start + own] = np.inf
            distances[rows], positions[rows] = self._sorted(x, *least_in_rows(table, count))
        return distances, positions

    def _sorted(self, x: Any, least: Array, positions: Array) -> tuple[Array, Array]:
        """Distances in order, and positions; those that would lose digits are computed from differences."""
        lengths = Factored(x).diagonal()[:, None]
        squares = 2.0 * least + lengths
        row, place = np.nonzero(squares < CLOSE * lengths)
        if len(row):
            squares[row, place] = Factored(x[row] - self.Y[positions[row, place]]).diagonal()
        order = np.argsort(squares, axis=1, kind="stable")
        squares, positions = (np.take_along_axis(values, order, axis=1) for values in (squares, positions))
        return np.sqrt(np.maximum(squares, 0.0)), positions

    def _table(self, x: Any) -> Array:
        """``||y||^2 / 2 - <x, y>`` of all pairs, with infinite columns up to a multiple of `GROUP`."""
        crowded, rest = self._split(x)
        table = np.full((x.shape[0], self.size + -self.size % GROUP), np.inf)
        products = table[:, : self.size]
        np.subtract(self.half_lengths, safe_sparse_dot(rest, self.sparse.T, dense_output=True), out=products)
        products -= crowded @ self.dense.T
        return table


def nearest_to_few(X: Array, Y: Array, squared_lengths: Array, count: int) -> tuple[Array, Array]:
    """The same in double precision, for few rows of X, with ``||y||^2`` of all rows of Y given."""
    X = X.astype(np.float64, copy=False)
    D = squared_lengths + (Factored(X).diagonal()[:, None] - 2.0 * (X @ Y.T))
    rows, positions = np.arange(len(D))[:, None], D.argpartition(count - 1, axis=1)[:, :count]
    least = D[rows, positions]
    if (least < CLOSE * squared_lengths[positions]).any():  # cancellation
        return _sorted_distances(X, Y, positions)
    order = least.argsort(axis=1, kind="stable")
    return np.sqrt(least[rows, order]), positions[rows, order]


def least_in_rows(table: Array, count: int) -> tuple[Array, Array]:
    """The smallest values of every row, in increasing order, and their columns.

    At least `count` groups of columns have a value within the bound, so only values within it are sorted.
    """
    n, m = table.shape
    minima = table.reshape(n, GROUP, m // GROUP).min(axis=1)
    bound = np.partition(minima, count - 1, axis=1)[:, count - 1 : count]
    row, column = np.divmod(np.flatnonzero(table <= bound), m)
    place = np.arange(len(row)) - np.searchsorted(row, np.arange(n))[row]
    values = np.full((n, place.max() + 1), np.inf, dtype=table.dtype)
    columns = np.zeros(values.shape, dtype=np.intp)
    values[row, place], columns[row, place] = table[row, column], column
    order = np.argsort(values, axis=1)[:, :count]
    return np.take_along_axis(values, order, axis=1), np.take_along_axis(columns, order, axis=1)


def approximate_neighbours(X: Array, count: int) -> tuple[Array, Array]:
    """Distances and positions of the nearest other samples (n x count), approximately. Needs faiss.

    Samples are assigned to cells around k-means centres, and only the nearest cells are searched. Their
    number is increased until the share `RECALL` of the true neighbours is found for a few hundred samples,
    for which these are computed exactly. Distances are exact, and the result is deterministic.
    """
    faiss: Any = import_module("faiss")
    C = np.ascontiguousarray(X - X.mean(axis=0), dtype=np.float32)
    index = _cells(faiss, C)
    probe = C[:: -(-len(C) // RECALL_SAMPLE)]
    truth = faiss.knn(probe, C, count + 1)[1]
    while index.nprobe < index.nlist and _recall(index.search(probe, count + 1)[1], truth) < RECALL:
        index.nprobe *= 2
    found = index.search(C, count + 1)[1]
    short = np.flatnonzero(found[:, -1] < 0)  # cells with too few samples
    if len(short):
        found[short] = faiss.knn(C[short], C, count + 1)[1]
    return _sorted_distances(X, X, _without_self(found))


def _cells(faiss: Any, C: Array) -> Any:
    n, d = C.shape
    count = int(2 * np.sqrt(n))
    index = faiss.IndexIVFFlat(faiss.IndexFlatL2(d), d, count)
    index.train(C[:: max(n // (CELL_SAMPLE * count), 1)])
    index.add(C)
    index.nprobe = 4
    return index


def _recall(found: Array, truth: Array) -> float:
    """Share of the true neighbours that were found."""
    return float((found[:, :, None] == truth[:, None, :]).any(axis=1).mean())


def _without_self(positions: Array) -> Array:
    """Neighbours of every sample without the sample itself, or without the last if it is not among them."""
    own = positions == np.arange(len(positions))[:, None]
    own[~own.any(axis=1), -1] = True
    return positions[~own].reshape(len(positions), -1)


def _sorted_distances(X: Array, Y: Array, positions: Array) -> tuple[Array, Array]:
    """Distances to the rows of Y at given positions, in double precision and sorted, and the positions."""
    distances = np.empty(positions.shape)
    for start in range(0, len(X), BLOCK_ROWS):
        rows = slice(start, start + BLOCK_ROWS)
        gaps = Y[positions[rows]].astype(np.float64, copy=False) - X[rows, None]
        distances[rows] = np.sqrt(np.einsum("ijk,ijk->ij", gaps, gaps))
    order = np.argsort(distances, axis=1, kind="stable")
    return np.take_along_axis(distances, order, axis=1), np.take_along_axis(positions, order, axis=1)
