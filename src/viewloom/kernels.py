"""Kernels: from the samples of a view to an operator, and from new samples to their rows of it.

A kernel object holds parameters only. ``kernel.fit(geometry, context)`` gives a `FittedKernel`,
whose ``operator`` is the Gram matrix of the training samples and whose ``place(cross)`` gives new
samples' side of it.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from viewloom.graphs import KNN, CrossGeometry, FittedKNN, Geometry
from viewloom.landmarks import cholesky_landmarks, kmeans_landmarks
from viewloom.operators import Cross, Explicit, Factored, unit_rows
from viewloom.stored import Stored, StoredParameters
from viewloom.weft import Walk, WalkShape, Weft, WeftRows

Array = np.ndarray
Samples = Geometry | CrossGeometry
NYSTROEM_CUT = 1e-10  # eigenvalues of k(L, L) below this share of the largest are noise
NYSTROEM_ROWS, NYSTROEM_SAMPLE = 8192, 8000


@dataclass(frozen=True)
class Context:
    """What a kernel may know besides its own view."""

    normalize: bool = True  # unit diagonal
    n_clusters: int = 2
    weft: Weft | None = None  # the graphs of all views together
    view: int = 0  # position of this view among them


PLAIN = Context()


class FittedKernel(Protocol):
    """A kernel that knows its training samples."""

    @property
    def operator(self) -> Any:
        """Gram matrix of the training samples; None in a loaded model that needs none."""

    def place(self, cross: CrossGeometry, weft: WeftRows | None = None) -> Any:
        """Operator of new samples against the training samples."""


class Linear(StoredParameters, tag="kernel.linear"):
    """``k(x, y) = <x, y>``, kept as the factor ``X`` and never multiplied out.

    Examples
    --------
    >>> import numpy as np
    >>> fitted = Linear().fit(Geometry(np.array([[3.0, 4.0], [0.0, 2.0]])))
    >>> fitted.operator.diagonal().round(6).tolist()
    [1.0, 1.0]
    """

    def fit(self, geometry: Geometry, context: Context = PLAIN) -> FittedLinear:
        """Kernel of the samples of a view."""
        return FittedLinear.of(geometry.X, context.normalize)


class Cosine(Linear, tag="kernel.cosine"):
    """``k(x, y) = <x, y> / (|x| |y|)``: linear with unit diagonal, whatever the normalisation asked for.

    Examples
    --------
    >>> import numpy as np
    >>> fitted = Cosine().fit(Geometry(np.array([[3.0, 4.0], [0.0, 2.0]])), Context(normalize=False))
    >>> fitted.operator.diagonal().round(6).tolist()
    [1.0, 1.0]
    """

    def fit(self, geometry: Geometry, context: Context = PLAIN) -> FittedLinear:
        """Kernel of the samples of a view."""
        return FittedLinear.of(geometry.X, True)


@dataclass(frozen=True, eq=False)
class FittedLinear(Stored, tag="kernel.linear.fitted", fields=("normalize", "operator")):
    """``K = X X^T`` as a factor, rows of unit length if asked for."""

    normalize: bool
    operator: Factored

    @classmethod
    def of(cls, X: Any, normalize: bool) -> FittedLinear:
        """The kernel of samples."""
        return cls(normalize, _factored(X, normalize))

    def place(self, cross: CrossGeometry, weft: WeftRows | None = None) -> Factored:
        """Factor of new samples."""
        return _factored(cross.X, self.normalize)


def _factored(X: Any, normalize: bool) -> Factored:
    return Factored(unit_rows(X) if normalize else X)


class PairwiseKernel(StoredParameters):
    """A kernel given by its entries. Subclasses write `matrix`, and `diagonal` where it is cheaper.

    A subclass with a `tag` (see `viewloom.stored.Stored`) can be saved with a model: by its parameters.
    """

    def matrix(self, samples: Samples) -> Array:
        """``k(x, y)`` of samples (rows) against the training samples (columns), the caller's to change."""
        raise NotImplementedError

    def diagonal(self, samples: Samples) -> Array:
        """``k(x, x)`` of samples."""
        raise NotImplementedError

    def prepare(self, geometry: Geometry) -> PairwiseKernel:
        """The kernel with parameters that depend on the data filled in."""
        return self

    def fit(self, geometry: Geometry, context: Context = PLAIN) -> FittedPairwise:
        """Kernel of the samples of a view."""
        return FittedPairwise.of(self.prepare(geometry), geometry, context.normalize)


@dataclass(frozen=True, eq=False)
class FittedPairwise(Stored, tag="kernel.pairwise.fitted", fields=("kernel", "name", "norms")):
    """A dense Gram matrix, of unit diagonal if asked for."""

    kernel: PairwiseKernel
    name: str  # of the view, for messages
    norms: Array | None  # root of the diagonal; None where it is left as it is
    operator: Any = None  # of the training samples; new samples need none

    @classmethod
    def of(cls, kernel: PairwiseKernel, geometry: Geometry, normalize: bool) -> FittedPairwise:
        """The kernel of samples."""
        K = kernel.matrix(geometry)
        norms = _norms(np.diagonal(K), geometry.name) if normalize else None
        return cls(kernel, geometry.name, norms, Explicit(K if norms is None else _unit(K, norms, norms)))

    def place(self, cross: CrossGeometry, weft: WeftRows | None = None) -> Cross:
        """Rows of new samples."""
        rows, diagonal = self.kernel.matrix(cross), self.kernel.diagonal(cross)
        if self.norms is None:
            return Cross(rows, diagonal)
        return Cross(_unit(rows, _norms(diagonal, self.name), self.norms), np.ones(cross.size))


def _norms(diagonal: Array, name: str) -> Array:
    if not (diagonal > 0.0).all():
        raise ValueError(
            f"The kernel of view {name!r} is not positive at "
            f"{int((~(diagonal > 0.0)).sum())} samples, so it cannot have unit diagonal."
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
        K = _dense(samples.X @ samples.train.X.T)
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
        Width. "median" takes the median distance between samples of the view. Of a grid, such as
        the paper's ``np.exp(np.arange(-2, 11))``, the width is taken whose kernel values are spread
        most (largest variance between pairs): neither all near 0 nor all near 1. No label is
        involved.

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
        """The kernel with its width as a number."""
        return Gaussian(geometry.gaussian_width(self.sigma))

    def matrix(self, samples: Samples) -> Array:
        """``k(x, y)`` of samples against the training samples; has unit diagonal, so nobody rescales it."""
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
        K = np.asarray(_dense(self.function(samples.X, samples.train.X)), dtype=np.float64)
        if K.shape != (samples.size, samples.train.size) or not np.isfinite(K).all():
            raise ValueError(
                f"The kernel function of view {samples.train.name!r} must return a finite "
                f"{samples.size} x {samples.train.size} matrix, got shape {K.shape}."
            )
        return checked_gram(K, samples.name) if samples.train is samples else K.copy()

    def diagonal(self, samples: Samples) -> Array:
        """``k(x, x)`` of samples, one at a time."""
        X = samples.X
        return np.array([float(_dense(self.function(X[[i]], X[[i]]))[0, 0]) for i in range(samples.size)])


class Diffusion(StoredParameters, tag="kernel.diffusion"):
    """Diffusion along the neighbour graph of a view, with edges lent by the other views.

    With ``S`` the normalised neighbour graph of the view (`viewloom.graphs.KNN`) and ``M`` that of
    all views together (`viewloom.weft.Weft`), ``T = normalise((1 - share) S + share M)``. The top
    eigenpairs ``U, l`` of ``(T + I) / 2`` give the factor ``Z = U diag(l^(time / 2))``, with rows
    of unit length: samples are alike if walks from them meet.

    Parameters
    ----------
    n_neighbors : int or "auto", default="auto"
        "auto" takes half the mean size of a cluster, at least 5 and at most 20.
    time : float, default=12
        Length of the walk; longer where more than 1.5 directions per cluster would remain (long,
        thin clusters).
    rank : int, optional
        Number of eigenpairs; three times the number of clusters where None.
    share : float, default=0.5
        How much of the graph comes from all views together; 0 leaves every view to itself.

    Notes
    -----
    Views may have kernels with different parameters. Each view's graph and walk then follow its own; the
    graph of all features side by side and the features of the start, which belong to all views, take the
    median of `n_neighbors` and `time` and the largest `rank`.

    Examples
    --------
    >>> import viewloom as vl
    >>> views, y = vl.simulate.rings(120, n_rings=3, noise=0.08, random_state=0)
    >>> few = vl.kernels.Diffusion(n_neighbors=8)
    >>> labels = vl.KernelMultiviewNMF(3, kernel=few, random_state=0).fit_predict(views)
    >>> vl.metrics.clustering_accuracy(y, labels)
    1.0
    """

    def __init__(
        self, n_neighbors: int | str = "auto", time: float = 12.0, rank: int | None = None, share: float = 0.5
    ) -> None:
        self.n_neighbors = n_neighbors
        self.time = time
        self.rank = rank
        self.share = share

    def shape(self, n: int, n_clusters: int) -> WalkShape:
        """Parameters as numbers, for n samples."""
        count = self.n_neighbors
        if isinstance(count, str):
            count = int(np.clip(round(n / (2 * n_clusters)), 5, 20))
        return WalkShape(count, self.rank or 3 * n_clusters, self.time, 1.5 * n_clusters)

    def fit(self, geometry: Geometry, context: Context = PLAIN) -> FittedDiffusion:
        """Kernel of the samples of a view."""
        shape = self.shape(geometry.size, context.n_clusters)
        if context.weft is None or self.share == 0.0:
            graph = KNN(shape.n_neighbors).fit(geometry)
            return FittedDiffusion(graph, shape.walk(graph.S))
        graph, M = context.weft.graphs[context.view], context.weft.within(context.view)
        walk = shape.walk((1.0 - self.share) * graph.S + self.share * M)
        return FittedDiffusion(graph, walk, self.share, context.view, context.weft.rows[context.view])


@dataclass(frozen=True, eq=False)
class FittedDiffusion(
    Stored, tag="kernel.diffusion.fitted", fields=("graph", "walk", "share", "view", "columns")
):
    """Factor of the training samples, and what maps edges of new samples to theirs."""

    graph: FittedKNN
    walk: Walk
    share: float = 0.0
    view: int = 0  # of this view in the weft, as are its columns
    columns: Array | None = None

    @cached_property
    def operator(self) -> Factored:
        """Factor of the training samples."""
        return Factored(self.walk.Z)

    def place(self, cross: CrossGeometry, weft: WeftRows | None = None) -> Factored:
        """Factor of new samples."""
        if weft is None or self.columns is None:
            return Factored(self.walk.features(self.graph.cross(cross)[0]))
        M = weft.M[weft.rows[self.view]][:, self.columns]
        return Factored(self.walk.features((1.0 - self.share) * weft.edges[self.view] + self.share * M))


class Precomputed(PairwiseKernel, tag="kernel.precomputed"):
    """Views that are Gram matrices already: n x n for `fit`, n_new x n for `predict`.

    A matrix that is not symmetric is an error. One that is not positive semidefinite is repaired:
    its negative eigenvalues are set to zero, and a warning says how negative they were. New
    samples' own ``k(x, x)`` is not in the data and is taken to be the mean of the training
    diagonal.

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

    gram_: Array | None = None  # of the training samples, once it is checked

    def prepare(self, geometry: Geometry) -> PairwiseKernel:
        """Check the matrix, once."""
        return self.from_state(
            {"gram": checked_gram(np.asarray(geometry.X, dtype=np.float64), geometry.name)}
        )

    def state(self) -> dict[str, Any]:
        """The matrix, once it is checked."""
        return {"gram": self.gram_}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Precomputed:
        """The kernel with its matrix."""
        fitted = cls()
        fitted.gram_ = state["gram"]
        return fitted

    def matrix(self, samples: Samples) -> Array:
        """The matrix, or the rows of new samples."""
        return np.array(self.gram_ if samples.train is samples else samples.X)

    def diagonal(self, samples: Samples) -> Array:
        """``k(x, x)`` of samples."""
        diagonal = np.diagonal(np.asarray(self.gram_))
        return diagonal if samples.train is samples else np.full(samples.size, diagonal.mean())


class Nystroem(StoredParameters, tag="kernel.nystroem"):
    """A kernel as a factor of given rank, ``K ~ C W^+ C^T`` with ``C = k(X, L)`` and ``W = k(L, L)``.

    The landmarks ``L`` are centres of k-means, or, for kernels given as functions, samples drawn by
    block RPCholesky. Time and memory grow with the number of samples, not with its square.

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
    >>> K = Gaussian().prepare(Geometry(X)).matrix(Geometry(X))
    >>> bool(np.abs(Z @ Z.T - K).max() < 0.1)
    True
    """

    def __init__(self, kernel: Any = "gaussian", rank: int = 300) -> None:
        self.kernel = kernel
        self.rank = rank

    def fit(self, geometry: Geometry, context: Context = PLAIN) -> FittedNystroem:
        """Kernel of the samples of a view."""
        kernel = make_kernel(self.kernel)
        if not isinstance(kernel, PairwiseKernel) or isinstance(kernel, Precomputed):
            raise ValueError(f"Nystroem takes a kernel of pairs, such as 'gaussian', got {self.kernel!r}.")
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
        """The root of the landmarks' kernel."""
        values, vectors = scipy.linalg.eigh(kernel.matrix(landmarks))
        keep = values > NYSTROEM_CUT * values[-1]
        return cls(kernel, landmarks, normalize, vectors[:, keep] / np.sqrt(values[keep]))

    def __call__(self, X: Any) -> Factored:
        """Factor of samples."""
        Z = np.empty((X.shape[0], self.root.shape[1]), dtype=X.dtype)
        for start in range(0, len(Z), NYSTROEM_ROWS):  # the n x rank kernel never stands beside its factor
            rows = slice(start, start + NYSTROEM_ROWS)
            Z[rows] = self.kernel.matrix(self.landmarks.to(X[rows])) @ self.root
        return _factored(Z, self.normalize)


@dataclass(frozen=True, eq=False)
class FittedNystroem(Stored, tag="kernel.nystroem.fitted", fields=("factoring", "operator")):
    """The factor of the training samples, and how those of new samples are made."""

    factoring: Factoring
    operator: Factored

    @classmethod
    def of(
        cls, kernel: PairwiseKernel, landmarks: Geometry, geometry: Geometry, normalize: bool
    ) -> FittedNystroem:
        """The kernel of samples."""
        factoring = Factoring.of(kernel, landmarks, normalize)
        return cls(factoring, factoring(geometry.X))

    def place(self, cross: CrossGeometry, weft: WeftRows | None = None) -> Factored:
        """Factor of new samples."""
        return self.factoring(cross.X)


def _thinned(geometry: Geometry) -> Geometry:
    """At most some thousand samples, evenly taken: enough to place landmarks and to tell a width."""
    step = -(-geometry.size // NYSTROEM_SAMPLE)
    return geometry if step == 1 else Geometry(geometry.X[::step], geometry.name)


def as_factored(kernel: Any) -> Any:
    """The kernel, or its Nystroem factor where it would be stored entry by entry."""
    if isinstance(kernel, Precomputed):
        raise ValueError("A precomputed kernel is as large as it is: it cannot be factored from landmarks.")
    return Nystroem(kernel) if isinstance(kernel, PairwiseKernel) else kernel


KERNELS: dict[str, Any] = {
    "linear": Linear,
    "polynomial": Polynomial,
    "gaussian": Gaussian,
    "cosine": Cosine,
    "diffusion": Diffusion,
    "precomputed": Precomputed,
}


def make_kernel(kernel: Any) -> Any:
    """The kernel that a parameter names: a string, a kernel object or a function."""
    if hasattr(kernel, "fit") and not isinstance(kernel, type):
        return kernel
    if isinstance(kernel, str) and kernel in KERNELS:
        return KERNELS[kernel]()
    if callable(kernel) and not isinstance(kernel, type):
        return FunctionKernel(kernel)
    raise ValueError(
        f"kernel must be one of {sorted(KERNELS)}, a kernel object or a function, got {kernel!r}."
    )


def checked_gram(K: Array, name: str) -> Array:
    """A symmetric positive semidefinite matrix from one that should be (see `Precomputed`)."""
    if K.ndim != 2 or K.shape[0] != K.shape[1]:
        raise ValueError(
            f"View {name!r} has shape {K.shape}; a precomputed kernel must be square, with one row "
            "and one column per sample."
        )
    size = float(np.abs(K).max())
    if size == 0.0:
        raise ValueError(f"The kernel of view {name!r} is zero everywhere.")
    asymmetry = float(np.abs(K - K.T).max()) / size
    if asymmetry > 1e-6:
        raise ValueError(
            f"The kernel of view {name!r} is not symmetric (largest difference {asymmetry:.1e} of its "
            "largest entry); pass (K + K.T) / 2 if that is what you mean."
        )
    K = (K + K.T) / 2.0
    if _is_positive(K, 1e-7 * len(K) * size):
        return K
    values, vectors = scipy.linalg.eigh(K)
    warnings.warn(
        f"The kernel of view {name!r} is not positive semidefinite (lowest eigenvalue "
        f"{values[0] / size:.1e} of its "
        "largest entry); negative eigenvalues are set to zero.",
        stacklevel=2,
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


def _dense(K: Any) -> Array:
    return np.asarray(K.toarray() if sp.issparse(K) else K)
