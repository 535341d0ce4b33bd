"""Kernels defined by a function of two samples."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg

from viewloom.kernels.base import PLAIN, Context
from viewloom.kernels.geometry import CrossGeometry, Geometry
from viewloom.kernels.operators import Cross, Explicit, Factored, dense
from viewloom.kernels.shared_graph import SharedRows
from viewloom.runtime.errors import InputError
from viewloom.runtime.stored import Stored, StoredParameters
from viewloom.runtime.user_warnings import warn_user

Array = np.ndarray
Samples = Geometry | CrossGeometry


class PairwiseKernel(StoredParameters):
    """Base class of kernels defined by their entries. Subclasses implement `matrix` and `diagonal`.

    A subclass with a `tag` (see `viewloom.runtime.stored.Stored`) is saved with a model by its
    parameters.
    """

    def matrix(self, samples: Samples) -> Array:
        """``k(x, y)`` of samples (rows) and training samples (columns); the caller may modify the result."""
        raise NotImplementedError

    def diagonal(self, samples: Samples) -> Array:
        """``k(x, x)`` of samples."""
        raise NotImplementedError

    def prepare(self, geometry: Geometry) -> PairwiseKernel:
        """The kernel with data-dependent parameters filled in."""
        return self

    def fit(self, geometry: Geometry, context: Context = PLAIN) -> FittedPairwise:
        """Compute the kernel of the samples of a view."""
        return FittedPairwise.of(self.prepare(geometry), geometry, context.normalize)


@dataclass(frozen=True, eq=False)
class FittedPairwise(Stored, tag="kernel.pairwise.fitted", fields=("kernel", "name", "norms")):
    """A dense Gram matrix, optionally with unit diagonal."""

    kernel: PairwiseKernel
    name: str  # of the view, for messages
    norms: Array | None  # root of the diagonal; None if the kernel is not normalised
    operator: Any = None  # of the training samples; not needed to place new samples

    @classmethod
    def of(cls, kernel: PairwiseKernel, geometry: Geometry, normalize: bool) -> FittedPairwise:
        """Compute the kernel of samples."""
        K = kernel.matrix(geometry)
        norms = _norms(np.diagonal(K), geometry.name) if normalize else None
        return cls(kernel, geometry.name, norms, Explicit(K if norms is None else _unit(K, norms, norms)))

    def place(self, cross: CrossGeometry, shared_graph: SharedRows | None = None) -> Cross:
        """Rows of new samples."""
        rows, diagonal = self.kernel.matrix(cross), self.kernel.diagonal(cross)
        if self.norms is None:
            return Cross(rows, diagonal)
        return Cross(_unit(rows, _norms(diagonal, self.name), self.norms), np.ones(cross.size))


def _norms(diagonal: Array, name: str) -> Array:
    if not (diagonal > 0.0).all():
        raise InputError(
            f"The diagonal of the kernel of view {name!r} is not positive for "
            f"{int((~(diagonal > 0.0)).sum())} samples, so it cannot be scaled to one; "
            "leave them out or pass normalize=False."
        )
    return np.sqrt(diagonal)


def _unit(K: Array, left: Array, right: Array) -> Array:
    """``diag(left)^-1 K diag(right)^-1``, in place."""
    if np.all(left == 1.0) and np.all(right == 1.0):
        return K
    K /= left[:, None]
    K /= right
    return K


class Polynomial(PairwiseKernel, tag="kernel.polynomial"):
    """``k(x, y) = (<x, y> + coef0)^degree``.

    Parameters
    ----------
    degree : int, default=2
    coef0 : float, default=1.0

    Examples
    --------
    >>> import numpy as np
    >>> samples = Geometry(np.array([[1.0, 0.0], [0.0, 2.0]]))
    >>> Polynomial(degree=2, coef0=1.0).matrix(samples).tolist()
    [[4.0, 1.0], [1.0, 25.0]]
    """

    def __init__(self, degree: int = 2, coef0: float = 1.0) -> None:
        self.degree = degree
        self.coef0 = coef0

    def matrix(self, samples: Samples) -> Array:
        """``k(x, y)`` of samples against the training samples."""
        K = dense(samples.X @ samples.train.X.T)
        K += self.coef0
        K **= self.degree
        return K

    def diagonal(self, samples: Samples) -> Array:
        """``k(x, x)`` of samples."""
        return (Factored(samples.X).diagonal() + self.coef0) ** self.degree


class Gaussian(PairwiseKernel, tag="kernel.gaussian"):
    """``k(x, y) = exp(-||x - y||^2 / (2 sigma^2))``.

    Parameters
    ----------
    sigma : float, "median" or sequence of floats, default="median"
        Width. "median" uses the median distance between samples of the view. From a grid, such as
        ``np.exp(np.arange(-2, 11))`` of the paper, the width with the largest variance of kernel values
        between pairs is chosen, so that they are neither all near 0 nor all near 1. Labels are not
        used.

    Examples
    --------
    >>> import numpy as np
    >>> samples = Geometry(np.array([[0.0], [1.0], [3.0]]))
    >>> Gaussian(sigma="median").prepare(samples).sigma
    2.0
    >>> Gaussian(sigma=1.0).matrix(samples).round(3)[0].tolist()
    [1.0, 0.607, 0.011]
    """

    def __init__(self, sigma: Any = "median") -> None:
        self.sigma = sigma

    def prepare(self, geometry: Geometry) -> Gaussian:
        """The kernel with a numeric width."""
        return Gaussian(geometry.gaussian_width(self.sigma))

    def matrix(self, samples: Samples) -> Array:
        """``k(x, y)`` of samples and training samples; not copied, since it has unit diagonal already."""
        return samples.gaussian(self.sigma)

    def diagonal(self, samples: Samples) -> Array:
        """Ones."""
        return np.ones(samples.size)


class FunctionKernel(PairwiseKernel):
    """A kernel given as a function ``f(X, Y)`` that returns the matrix of ``k(x, y)``.

    Parameters
    ----------
    function : callable
    """

    def __init__(self, function: Callable[[Any, Any], Any]) -> None:
        self.function = function

    def matrix(self, samples: Samples) -> Array:
        """``k(x, y)`` of samples against the training samples."""
        K = np.asarray(dense(self.function(samples.X, samples.train.X)), dtype=np.float64)
        if K.shape != (samples.size, samples.train.size) or not np.isfinite(K).all():
            raise InputError(
                f"The kernel function of view {samples.train.name!r} must return a finite "
                f"{samples.size} x {samples.train.size} matrix, got shape {K.shape}."
            )
        return checked_gram(K, samples.name) if samples.train is samples else K.copy()

    def diagonal(self, samples: Samples) -> Array:
        """``k(x, x)`` of samples, one at a time."""
        X = samples.X
        return np.array([float(dense(self.function(X[[i]], X[[i]]))[0, 0]) for i in range(samples.size)])


class Precomputed(PairwiseKernel, tag="kernel.precomputed"):
    """Views that are Gram matrices: n x n for `fit`, n_new x n for `predict`.

    A matrix that is not symmetric raises an error. If a matrix is not positive semidefinite, its
    negative eigenvalues are set to zero, and a warning states the lowest one. The diagonal ``k(x, x)``
    of new samples is not part of the data; the mean of the training diagonal is used.

    Examples
    --------
    >>> import viewloom as vl
    >>> from sklearn.metrics.pairwise import rbf_kernel
    >>> views, y = vl.simulate.blobs_views(60, n_views=2, random_state=0)
    >>> grams = {name: rbf_kernel(X) for name, X in views.items()}
    >>> model = vl.KernelMultiviewNMF(3, kernel="precomputed", random_state=0).fit(grams)
    >>> new = rbf_kernel(views["blobs0"][:4], views["blobs0"])
    >>> bool((model.predict({"blobs0": new}) == model.labels_[:4]).all())
    True
    """

    gram_: Array | None = None  # checked Gram matrix of the training samples

    def prepare(self, geometry: Geometry) -> PairwiseKernel:
        """The kernel with its checked matrix."""
        return self.from_state(
            {"gram": checked_gram(np.asarray(geometry.X, dtype=np.float64), geometry.name)}
        )

    def state(self) -> dict[str, Any]:
        """The checked matrix."""
        return {"gram": self.gram_}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Precomputed:
        """Restore the kernel with its matrix."""
        fitted = cls()
        fitted.gram_ = state["gram"]
        return fitted

    def matrix(self, samples: Samples) -> Array:
        """The matrix, or the rows for new samples."""
        return np.array(self.gram_ if samples.train is samples else samples.X)

    def diagonal(self, samples: Samples) -> Array:
        """``k(x, x)`` of samples."""
        diagonal = np.diagonal(np.asarray(self.gram_))
        return diagonal if samples.train is samples else np.full(samples.size, diagonal.mean())


def checked_gram(K: Array, name: str) -> Array:
    """Check a Gram matrix and make it symmetric and positive semidefinite (see `Precomputed`)."""
    if K.ndim != 2 or K.shape[0] != K.shape[1]:
        raise InputError(
            f"View {name!r} has shape {K.shape}; a precomputed kernel must be square, with one row "
            "and one column per sample."
        )
    size = float(np.abs(K).max())
    if size == 0.0:
        raise InputError(f"The kernel of view {name!r} is zero everywhere.")
    asymmetry = float(np.abs(K - K.T).max()) / size
    if asymmetry > 1e-6:
        raise InputError(
            f"The kernel of view {name!r} is not symmetric (largest difference {asymmetry:.1e} of its "
            "largest entry); pass (K + K.T) / 2 to use its symmetric part."
        )
    K = (K + K.T) / 2.0
    if _is_positive(K, 1e-7 * len(K) * size):
        return K
    values, vectors = scipy.linalg.eigh(K)
    warn_user(
        f"The kernel of view {name!r} is not positive semidefinite (lowest eigenvalue {values[0] / size:.1e} "
        "of its largest entry); negative eigenvalues are set to zero."
    )
    return np.asarray((vectors * np.maximum(values, 0.0)) @ vectors.T)


def _is_positive(K: Array, slack: float) -> bool:
    """Whether no eigenvalue lies below ``-slack``: ``K + slack I`` has a Cholesky factor."""
    shifted = K.copy()
    shifted.flat[:: len(K) + 1] += slack
    try:
        scipy.linalg.cholesky(shifted, overwrite_a=True)
    except np.linalg.LinAlgError:
        return False
    return True
