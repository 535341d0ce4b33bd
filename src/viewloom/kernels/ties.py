"""Ties of samples to landmarks in four bytes each, where a sparse matrix in single precision needs eight."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from viewloom.kernels.operators import Factored, Projection

Array = np.ndarray
WHOLE = 2**16 - 1  # the sum of the weights of a sample


@dataclass(frozen=True, eq=False)
class PackedTies:
    """The factor ``B diag(scale)`` of a graph, where rows of ``B`` (n x m) are t weights that sum to one.

    Weights are stored as multiples of ``1 / 65535``. The largest of a row takes the sum of the errors of the
    others, so that rows still sum to one.

    Attributes
    ----------
    weights, columns : (n, t) arrays of uint16
    scale : (m,) array
        In the precision of the products; includes the factor ``1 / 65535``.
    """

    weights: Array
    columns: Array
    scale: Array

    @property
    def size(self) -> int:
        """Number of samples."""
        return len(self.weights)

    @property
    def dtype(self) -> Any:
        """Precision of products."""
        return self.scale.dtype

    @property
    def nbytes(self) -> int:
        """Bytes of what grows with the number of samples."""
        return self.weights.nbytes + self.columns.nbytes

    @property
    def Z(self) -> Any:
        """The factor as a sparse matrix."""
        B = self._counts()
        B.data *= self.scale[B.indices]
        return B

    def rescaled(self, scale: Array) -> PackedTies:
        """``B diag(scale)``, in addition to the present scale."""
        return replace(self, scale=self.scale * scale.astype(self.dtype))

    def project(self, G: Array) -> Projection:
        """``M = G B diag(scale)``."""
        M = np.asarray((self._counts().T @ G.T).T, dtype=np.float64)
        return Projection(M * self.scale)

    def lift(self, M: Array) -> Array:
        """``M diag(scale) B^T``, in the precision of the ties."""
        return np.asarray((self._counts() @ (M * self.scale).astype(self.dtype).T).T)

    def _counts(self) -> Any:
        """The stored multiples as a sparse matrix (n x m), which is only needed during a product."""
        n, t = self.weights.shape
        parts = (self.weights.ravel().astype(self.dtype), self.columns.ravel().astype(np.int32))
        return sp.csr_array((*parts, np.arange(0, n * t + 1, t, dtype=np.int32)), shape=(n, len(self.scale)))


def packed(adjacency: Factored) -> Factored | PackedTies:
    """The factor of a graph with packed ties, if it is sparse, in single precision, and as wide in all rows.

    Examples
    --------
    >>> B = sp.csr_array(np.array([[0.25, 0.75, 0.0], [0.0, 0.5, 0.5]], dtype=np.float32))
    >>> packed(Factored(B)).Z.toarray().round(4).tolist()
    [[0.25, 0.75, 0.0], [0.0, 0.5, 0.5]]
    """
    B = adjacency.Z
    if not sp.issparse(B) or B.dtype != np.float32 or B.shape[1] > WHOLE + 1 or not B.shape[0]:
        return adjacency
    n, t = B.shape[0], B.nnz // B.shape[0]
    if t == 0 or not np.array_equal(B.indptr, np.arange(0, n * t + 1, t)):
        return adjacency
    weights = np.rint(B.data.astype(np.float64).reshape(n, t) * WHOLE)
    rows, largest = np.arange(n), weights.argmax(axis=1)
    weights[rows, largest] += WHOLE - weights.sum(axis=1)
    columns = B.indices.reshape(n, t).astype(np.uint16)
    return PackedTies(weights.astype(np.uint16), columns, np.full(B.shape[1], 1.0 / WHOLE, dtype=np.float32))
