"""Nystroem approximation: a finite factor of any kernel from landmarks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg

from viewloom.data.landmarks import cholesky_landmarks, kmeans_landmarks
from viewloom.kernels.base import PLAIN, Context
from viewloom.kernels.geometry import CrossGeometry, Geometry
from viewloom.kernels.linear import factored_rows
from viewloom.kernels.operators import Factored
from viewloom.kernels.pairwise import FunctionKernel, PairwiseKernel, Precomputed
from viewloom.kernels.registry import make_kernel
from viewloom.kernels.shared_graph import SharedRows
from viewloom.runtime.errors import InputError
from viewloom.runtime.stored import Stored, StoredParameters

Array = np.ndarray
NYSTROEM_CUT = 1e-10  # eigenvalues of k(L, L) below this share of the largest are noise

NYSTROEM_ROWS, NYSTROEM_SAMPLE = 8192, 8000


class Nystroem(StoredParameters, tag="kernel.nystroem"):
    """Approximation of a kernel by a factor of given rank, ``K ~ C W^+ C^T``.

    Here ``C = k(X, L)`` and ``W = k(L, L)``. The landmarks ``L`` are k-means centres, or samples drawn by
    block RPCholesky if the kernel is a function. Time and memory grow linearly with the number of
    samples.

    Parameters
    ----------
    kernel : str, kernel object or callable, default="gaussian"
    rank : int, default=300
        Number of landmarks.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).standard_normal((500, 3))
    >>> Z = Nystroem("gaussian", rank=200).fit(Geometry(X)).operator.Z
    >>> from viewloom.kernels.pairwise import Gaussian
    >>> K = Gaussian().prepare(Geometry(X)).matrix(Geometry(X))
    >>> bool(np.abs(Z @ Z.T - K).max() < 0.1)
    True
    """

    def __init__(self, kernel: Any = "gaussian", rank: int = 300) -> None:
        self.kernel = kernel
        self.rank = rank

    def fit(self, geometry: Geometry, context: Context = PLAIN) -> FittedNystroem:
        """Compute the kernel of the samples of a view."""
        kernel = make_kernel(self.kernel)
        if not isinstance(kernel, PairwiseKernel) or isinstance(kernel, Precomputed):
            raise InputError(f"Nystroem needs a pairwise kernel, such as 'gaussian', got {self.kernel!r}.")
        rows = _thinned(geometry)
        kernel = kernel.prepare(rows)
        landmarks = Geometry(self._landmarks(kernel, rows), geometry.name)
        return FittedNystroem.of(kernel, landmarks, geometry, context.normalize)

    def _landmarks(self, kernel: PairwiseKernel, rows: Geometry) -> Any:
        if rows.size <= self.rank:
            return rows.X
        if not isinstance(kernel, FunctionKernel):
            return kmeans_landmarks(rows.X, self.rank)

        def columns(pivots: Array) -> Array:
            return kernel.matrix(Geometry(rows.X[pivots]).to(rows.X))

        diagonal = kernel.diagonal(rows)
        return rows.X[cholesky_landmarks(columns, diagonal, self.rank, np.random.RandomState(0))]


@dataclass(frozen=True, eq=False)
class Factoring(Stored, tag="kernel.nystroem.factoring", fields=("kernel", "landmarks", "normalize", "root")):
    """Landmarks and ``W^(-1/2)``; the factor of any samples is ``k(X, L) W^(-1/2)``."""

    kernel: PairwiseKernel
    landmarks: Geometry
    normalize: bool
    root: Array

    @classmethod
    def of(cls, kernel: PairwiseKernel, landmarks: Geometry, normalize: bool) -> Factoring:
        """Compute the inverse root of the kernel of the landmarks."""
        values, vectors = scipy.linalg.eigh(kernel.matrix(landmarks))
        keep = values > NYSTROEM_CUT * values[-1]
        return cls(kernel, landmarks, normalize, vectors[:, keep] / np.sqrt(values[keep]))

    def __call__(self, X: Any) -> Factored:
        """Factor of samples."""
        Z = np.empty((X.shape[0], self.root.shape[1]), dtype=X.dtype)
        for start in range(0, len(Z), NYSTROEM_ROWS):  # avoids a second n x rank matrix
            rows = slice(start, start + NYSTROEM_ROWS)
            Z[rows] = self.kernel.matrix(self.landmarks.to(X[rows])) @ self.root
        return factored_rows(Z, self.normalize)


@dataclass(frozen=True, eq=False)
class FittedNystroem(Stored, tag="kernel.nystroem.fitted", fields=("factoring", "operator")):
    """The factor of the training samples, and the map to factors of new samples."""

    factoring: Factoring
    operator: Factored

    @classmethod
    def of(
        cls, kernel: PairwiseKernel, landmarks: Geometry, geometry: Geometry, normalize: bool
    ) -> FittedNystroem:
        """Compute the kernel of samples."""
        factoring = Factoring.of(kernel, landmarks, normalize)
        return cls(factoring, factoring(geometry.X))

    def place(self, cross: CrossGeometry, shared_graph: SharedRows | None = None) -> Factored:
        """Factor of new samples."""
        return self.factoring(cross.X)


def _thinned(geometry: Geometry) -> Geometry:
    """Every m-th sample, at most `NYSTROEM_SAMPLE`, from which landmarks and widths are computed."""
    step = -(-geometry.size // NYSTROEM_SAMPLE)
    return geometry if step == 1 else Geometry(geometry.X[::step], geometry.name)


def as_factored(kernel: Any) -> Any:
    """The kernel, or its Nystroem approximation if it would be stored entry by entry."""
    if isinstance(kernel, Precomputed):
        raise InputError(
            "A precomputed kernel cannot be approximated by landmarks; pass features, or factored=False."
        )
    return Nystroem(kernel) if isinstance(kernel, PairwiseKernel) else kernel
