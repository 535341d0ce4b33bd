"""Operators: the interface of Gram matrices and graphs to the solver, dense, sparse or factored.

The solver uses a symmetric n x n matrix ``K`` only in products with memberships ``G`` (k x n):

``project(G)``    a `Projection`: sums over samples that represent ``G K``;
``lift(M)``       the columns of ``G K`` for the samples of this operator;
``codebook(Pt)``  a compact form of ``P^T`` (k x n), so that ``P^T K`` of new samples is
                  ``place(rows).lift(codebook)``.

A dense or sparse ``K`` is projected to a k x n matrix. A factored ``K = Z Z^T`` is projected to the
k x m matrix ``G Z``, which can be added up over blocks of samples.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, Self

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator, eigsh

from viewloom.runtime.errors import InputError
from viewloom.runtime.stored import Stored

Array = np.ndarray
DENSE_EIGEN_SIZE = 400  # below this LAPACK is faster than Lanczos
SINGLE_TOL = 1e-5  # tolerance that single precision reaches, relative to the largest eigenvalue


@dataclass(frozen=True)
class Projection:
    """Sums over samples that represent ``G K``: ``M``, and ``quad = G K G^T`` (k x k)."""

    M: Array
    local_quad: Array | None = None  # None if quad = M M^T

    @property
    def quad(self) -> Array:
        """``G K G^T``, in double precision."""
        if self.local_quad is not None:
            return self.local_quad
        M = np.asarray(self.M, dtype=np.float64)
        return M @ M.T

    def __add__(self, other: Projection) -> Projection:
        if self.local_quad is not None:
            raise InputError("Only factored operators can be split into blocks of samples.")
        return Projection(self.M + other.M)


class Operator(Protocol):
    """A symmetric positive semidefinite matrix, or the rows of one for new samples."""

    @property
    def size(self) -> int:
        """Number of samples."""

    @property
    def dtype(self) -> Any:
        """Precision of the entries."""

    def project(self, G: Array) -> Projection:
        """Sums over samples from which `lift` computes ``G K``."""

    def lift(self, M: Array) -> Array:
        """``G K`` (k x n) from the sums."""

    def codebook(self, Pt: Array) -> Array:
        """The form of ``P^T`` that `lift` of new samples uses."""

    def diagonal(self) -> Array:
        """Diagonal of the matrix."""

    def features(self, rank: int) -> Array:
        """Factor (n x rank) whose Gram matrix is the best approximation of that rank."""

    def centred_spectrum(self, rank: int) -> Array:
        """Largest eigenvalues of ``H K H``, ``H = I - 11^T / n``, in decreasing order."""

    def mean(self) -> float:
        """Mean of all entries, ``1^T K 1 / n^2``."""

    def trace(self) -> float:
        """Sum of the diagonal."""


class Explicit:
    """A matrix whose entries are stored, dense or sparse."""

    def __init__(self, K: Any) -> None:
        self.K = K
        self._features: dict[int, Array] = {}  # cached by rank: eigenvectors are expensive

    @property
    def size(self) -> int:
        """Number of samples."""
        return int(self.K.shape[0])

    @property
    def dtype(self) -> Any:
        """Precision of the entries."""
        return self.K.dtype

    def project(self, G: Array) -> Projection:
        """``M = G K``, with its quadratic form."""
        M = np.ascontiguousarray((self.K @ G.T).T) if sp.issparse(self.K) else G @ self.K
        return Projection(M, np.asarray(M @ G.T, dtype=np.float64))

    def lift(self, M: Array) -> Array:
        """``G K``, which is ``M`` itself."""
        return M

    def codebook(self, Pt: Array) -> Array:
        """``P^T`` itself."""
        return Pt

    def diagonal(self) -> Array:
        """Diagonal of the matrix."""
        return np.asarray(self.K.diagonal())

    def features(self, rank: int) -> Array:
        """Factor of the best approximation of this rank (n x rank)."""
        if rank not in self._features:
            values, vectors = top_eigenpairs(self.K, rank)
            self._features[rank] = vectors * np.sqrt(np.maximum(values, 0.0))
        return self._features[rank]

    def centred_spectrum(self, rank: int) -> Array:
        """Largest eigenvalues of ``H K H``, falling."""
        if rank < 1:
            return np.zeros(0)
        n, means = self.size, np.asarray(self.K.mean(axis=0)).ravel()
        if n <= DENSE_EIGEN_SIZE:
            K = self.K.toarray() if sp.issparse(self.K) else np.asarray(self.K, dtype=np.float64)
            centred = K - means - means[:, None] + means.mean()
            return top_eigenpairs(centred, rank)[0]

        def matvec(x: Array) -> Array:
            x = x - x.mean()
            y = self.K @ x
            return np.asarray(y - y.mean())

        return top_eigenpairs(LinearOperator((n, n), matvec=matvec, dtype=np.float64), rank)[0]

    def mean(self) -> float:
        """Mean of all entries."""
        return float(self.K.mean(dtype=np.float64))

    def trace(self) -> float:
        """Sum of the diagonal."""
        return float(self.diagonal().sum(dtype=np.float64))


class Factored(Stored, tag="factor", fields=("Z",)):
    """``K = Z Z^T`` with a dense or sparse factor ``Z`` (n x m)."""

    def __init__(self, Z: Any) -> None:
        self.Z = Z

    @property
    def size(self) -> int:
        """Number of samples."""
        return int(self.Z.shape[0])

    @property
    def dtype(self) -> Any:
        """Precision of the factor."""
        return self.Z.dtype

    def project(self, G: Array) -> Projection:
        """``M = G Z``."""
        M = np.asarray((self.Z.T @ G.T).T) if sp.issparse(self.Z) else G @ self.Z
        return Projection(np.asarray(M, dtype=np.float64))

    def lift(self, M: Array) -> Array:
        """``G K = M Z^T``, in the precision of ``Z``."""
        M = M.astype(self.Z.dtype, copy=False)
        return M @ self.Z.T if isinstance(self.Z, np.ndarray) else np.asarray((self.Z @ M.T).T)

    def codebook(self, Pt: Array) -> Array:
        """``P^T Z``, which is sufficient for new samples."""
        return self.project(Pt).M

    def diagonal(self) -> Array:
        """Diagonal of the matrix."""
        if isinstance(self.Z, np.ndarray):  # faster than issparse, which counts for few rows
            return np.einsum("ij,ij->i", self.Z, self.Z)
        return np.asarray(self.Z.multiply(self.Z).sum(axis=1)).ravel()

    def features(self, rank: int) -> Array:
        """Factor of the best approximation of this rank (n x rank)."""
        n, m = self.Z.shape
        if m <= rank:
            return self.Z.toarray() if sp.issparse(self.Z) else self.Z
        if m <= n:
            values, V = top_eigenpairs(dense(self.Z.T @ self.Z), rank)
            return np.asarray(self.Z @ V)
        values, U = top_eigenpairs(dense(self.Z @ self.Z.T), rank)
        return U * np.sqrt(np.maximum(values, 0.0))

    def centred_spectrum(self, rank: int) -> Array:
        """Largest eigenvalues of ``H K H``, falling."""
        n, m = self.Z.shape
        if m > n:
            return Explicit(dense(self.Z @ self.Z.T)).centred_spectrum(rank)
        return self.moments().centred_spectrum(rank)

    def mean(self) -> float:
        """Mean of all entries."""
        mean = np.asarray(self.Z.mean(axis=0, dtype=np.float64)).ravel()
        return float(mean @ mean)

    def trace(self) -> float:
        """Sum of the diagonal."""
        return float(self.diagonal().sum(dtype=np.float64))

    def astype(self, dtype: Any) -> Self:
        """The same in another precision."""
        return self.from_state({**self.state(), "Z": self.Z.astype(dtype, copy=False)})

    def moments(self) -> Moments:
        """Sums over samples that determine the spectrum; the sums of several blocks can be added."""
        total = np.asarray(self.Z.sum(axis=0, dtype=np.float64)).ravel()
        return Moments(self.size, total, dense(self.Z.T @ self.Z))


@dataclass(frozen=True)
class Moments:
    """Trace, mean and spectrum of ``K = Z Z^T`` from ``n``, ``Z^T 1`` and ``Z^T Z``."""

    size: int
    total: Array  # m
    second: Array  # m x m

    def __add__(self, other: Moments) -> Moments:
        return Moments(self.size + other.size, self.total + other.total, self.second + other.second)

    def trace(self) -> float:
        """Sum of the diagonal."""
        return float(np.trace(self.second))

    def mean(self) -> float:
        """Mean of all entries."""
        return float(self.total @ self.total) / max(self.size, 1) ** 2

    def centred_spectrum(self, rank: int) -> Array:
        """Largest eigenvalues of ``H K H``, falling."""
        if rank < 1:
            return np.zeros(0)
        covariance = self.second - np.outer(self.total, self.total) / max(self.size, 1)
        values = top_eigenpairs(covariance, min(rank, len(self.total)))[0]
        return np.pad(values, (0, rank - len(values)))


class Cross:
    """Rows ``k(new, train)`` (n_new x n) of an explicit matrix, for new samples."""

    def __init__(self, rows: Any, diagonal: Array) -> None:
        self.rows = rows
        self._diagonal = diagonal

    @property
    def size(self) -> int:
        """Number of new samples."""
        return int(self.rows.shape[0])

    @property
    def dtype(self) -> Any:
        """Precision of the entries."""
        return self.rows.dtype

    def lift(self, M: Array) -> Array:
        """``P^T K`` of new samples from a codebook."""
        return M @ self.rows.T if isinstance(self.rows, np.ndarray) else np.asarray((self.rows @ M.T).T)

    def diagonal(self) -> Array:
        """``k(x, x)`` of new samples."""
        return self._diagonal


def top_eigenpairs(K: Any, rank: int, tol: float = 1e-9) -> tuple[Array, Array]:
    """Largest eigenvalues (decreasing) and eigenvectors of a symmetric matrix; deterministic.

    With a tolerance of at least `SINGLE_TOL`, large matrices are decomposed in single precision, in two
    thirds (Lanczos) or half (LAPACK) of the time.
    """
    n = K.shape[0]
    rank = min(rank, n)
    single = tol >= SINGLE_TOL and n > DENSE_EIGEN_SIZE and not isinstance(K, LinearOperator)
    if n <= DENSE_EIGEN_SIZE or 10 * rank >= n:
        full = K @ np.eye(n) if isinstance(K, LinearOperator) else dense(K)
        values, vectors = _largest(np.asarray(full, dtype=np.float32 if single else np.float64), rank)
    else:
        dtype = np.float32 if single else np.result_type(K.dtype, np.float32)  # integers become floats
        K = K if isinstance(K, LinearOperator) else K.astype(dtype, copy=False)
        v0 = np.random.default_rng(0).standard_normal(n).astype(dtype)
        if not np.any(K @ v0):
            return np.zeros(rank), np.eye(n, rank)  # ARPACK fails on the zero matrix
        reached = tol if single or dtype == np.float64 else 0.0
        values, vectors = eigsh(K, k=rank, which="LA", v0=v0, tol=reached)
    order = np.argsort(-values, kind="stable")
    vectors = vectors[:, order]
    return np.asarray(values[order], dtype=np.float64), vectors.astype(np.float64) if single else vectors


def _largest(K: Array, rank: int) -> tuple[Array, Array]:
    n = len(K)
    values, vectors = scipy.linalg.eigh(K, subset_by_index=(n - rank, n - 1))
    if len(values) == rank:
        return values, vectors
    values, vectors = scipy.linalg.eigh(K, driver="evd")  # subset search may miss equal eigenvalues
    return values[-rank:], vectors[:, -rank:]


def unit_rows(X: Any) -> Any:
    """Scale rows to unit length; rows of zeros are unchanged."""
    norms = np.sqrt(Factored(X).diagonal())
    inverse = 1.0 / np.where(norms > 0.0, norms, 1.0)
    return scaled(X, inverse.astype(X.dtype))


def scaled(X: Any, left: Array, right: Array | None = None) -> Any:
    """``diag(left) X diag(right)``, dense or sparse."""
    if isinstance(X, np.ndarray):
        return X * left[:, None] if right is None else X * left[:, None] * right
    X = sp.csr_array(X)
    values = X.data * np.repeat(left, np.diff(X.indptr))
    if right is not None:
        values *= right[X.indices]
    return sp.csr_array((values, X.indices.copy(), X.indptr.copy()), shape=X.shape)


def dense(K: Any) -> Array:
    """A dense or sparse matrix as a dense array."""
    return np.asarray(K.toarray() if sp.issparse(K) else K, dtype=np.float64)
