"""Twins of views: data with the same margins and correlations, and no clusters.

A twin is drawn from one Gaussian copula. The columns of all views are turned into normal scores, the samples
are rotated at random (Langsrud 2005), which keeps all correlations within and between views, and the ranks
of the result take the values of each column again. If the data come from a single Gaussian copula, with any
margins, they are exchangeable with their twins but for the error of the ranks. If samples are extreme in
many columns together, as in a multivariate t distribution, the copula is that of a t distribution.

Margins are those of the data, except that a column with several modes takes the nearest distribution with
one mode: several modes are what clusters look like, and a twin has none. Columns with few values, such as
genotypes, keep their frequencies exactly. So do features with levels: a nominal one has a latent value for
each level, so that its relations with all other features are kept, and a sample has the level whose value
exceeds the others most.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.optimize import brentq, isotonic_regression
from scipy.special import ndtr, ndtri, polygamma
from scipy.stats import chi2, rankdata
from sklearn.utils.extmath import randomized_svd

from viewloom.data.views import Views
from viewloom.evaluation.twin_levels import Columns, dense, like

Array = np.ndarray
FEW_VALUES = 12  # distinct values of a column that is discrete, whose frequencies are kept
TIED = 0.1  # share of samples with the commonest value of a column that is discrete too
LARGEST_EXACT = 1500  # samples or features, beyond which the correlations are those of a factor model
FACTORS = 200  # of the factor model
AXES = 10  # principal components of other views that fill in absent views
GAIN = 2.0  # correction of radii by the variance that is lacking
CORRECTIONS = 2  # of correlations that rounding to discrete values weakens
LEAST_EXCESS, MOST_EXCESS = 1e-3, 5.0  # variance of logarithms of squared distances beyond a Gaussian's
LEAST_BINS, MOST_BINS, PER_BIN = 8, 40, 5  # of a margin that is made unimodal


@dataclass(frozen=True, eq=False)
class Twins:
    """Draws data like some views, without clusters.

    Parameters
    ----------
    views : Views

    Examples
    --------
    >>> X = np.random.default_rng(0).exponential(size=(200, 3))
    >>> twin = Twins(Views(X)).draw(np.random.default_rng(1))["view0"]
    >>> bool(np.allclose(np.mean(twin, axis=0), np.mean(X, axis=0), atol=0.05))
    True
    """

    views: Views

    def __getstate__(self) -> dict[str, Any]:
        """With what all draws share, so that processes need not compute it again."""
        shared = {"columns": self.columns, "margins": self.margins, "spectrum": self.spectrum}
        return {"views": self.views, **shared, "radii": self.radii}

    def draw(self, rng: np.random.Generator) -> Views:
        """A twin: the same samples, views and features; views are absent for the same samples."""
        parts = np.split(self.latent(rng), np.cumsum(self.sizes)[:-1], axis=1)
        blocks = []
        for a, (part, block) in enumerate(zip(parts, self.views.blocks, strict=True)):
            rows = self.views.rows(a)
            blocks.append(like(self._values(part[rows], a), rows, block, self.columns[a]))
        return self.views.replaced(blocks=blocks)

    def latent(self, rng: np.random.Generator) -> Array:
        """One elliptical cloud (n x d) with the correlations of the normal scores."""
        return self.gaussian(rng) * np.repeat(self.radii.draw(len(self.views), rng), self.sizes, axis=1)

    def gaussian(self, rng: np.random.Generator) -> Array:
        """One Gaussian cloud (n x d) with the correlations of the normal scores."""
        return _cloud(len(self.views), self.spectrum, rng)

    @property
    def sizes(self) -> list[int]:
        """Number of columns of each view, where a nominal feature has one for each level."""
        pairs = zip(self.columns, self.views.n_features, strict=True)
        return [size if columns is None else columns.size for columns, size in pairs]

    @cached_property
    def columns(self) -> list[Columns | None]:
        """How the features of each view with levels are represented by numbers; None for other views."""
        return [Columns.of(X) for X in self.views.blocks]

    @cached_property
    def radii(self) -> Radii:
        """How much samples differ in distance from the centre, beyond what a Gaussian cloud has."""
        wanted, found = self._energies(self.scores), Radii.none(len(self.sizes))
        for _ in range(CORRECTIONS + 1):  # ranks bring extreme samples nearer, so that factors must be larger
            rng = np.random.default_rng(len(self.views))
            Z = self.gaussian(rng) * np.repeat(found.draw(len(self.views), rng), self.sizes, axis=1)
            scores = np.hstack([normal_scores(part) for part in self._rounded(Z)])
            found = found.nearer(wanted, self._energies(scores))
        return found

    def _energies(self, Z: Array) -> Array:
        """Logarithm of the mean square of the scores of each sample in each view (n x v)."""
        parts = np.split(Z, np.cumsum(self.sizes)[:-1], axis=1)
        return np.log(np.column_stack([(part**2).mean(axis=1) for part in parts]) + 1e-6)

    @cached_property
    def margins(self) -> list[Array]:
        """Values of every column of each view, in order (samples with the view x d)."""
        return [unimodal(np.sort(X, axis=0)) for X, _ in self._observed]

    @cached_property
    def scores(self) -> Array:
        """Normal scores of all columns (n x d); absent views are filled in from the others."""
        parts = []
        for X, rows in self._observed:
            Z = np.zeros((len(self.views), X.shape[1]))
            Z[rows] = normal_scores(X)
            parts.append(Z)
        return _standardised(np.hstack(_filled(parts, self.views)))

    @cached_property
    def spectrum(self) -> tuple[Array, Array, Array | None]:
        """Singular values and axes of the latent cloud, and the spread of what they leave out."""
        spread, axes, noise = _decomposed(self.scores)
        if not self._discrete or noise is not None:
            return spread, axes, noise
        return self._corrected(spread, axes), axes, None

    def _corrected(self, spread: Array, axes: Array) -> Array:
        """Singular values of a cloud that has those of the scores after it is rounded to discrete values."""
        wanted, latent, rng = spread, spread, np.random.default_rng(len(self.views))
        for _ in range(CORRECTIONS):
            Z = _cloud(len(self.views), (latent, axes, None), rng)
            rounded = _standardised(np.hstack([normal_scores(part) for part in self._rounded(Z)]))
            found = np.linalg.norm(rounded @ axes.T, axis=0)  # of the rotated cloud, in the same axes
            latent = latent * np.where(found > 0.0, wanted / np.maximum(found, 1e-12), 1.0)
        return latent

    def _rounded(self, Z: Array) -> list[Array]:
        """Values of a latent cloud, for all samples, whether or not they have the view."""
        parts = np.split(Z, np.cumsum(self.sizes)[:-1], axis=1)
        return [self._values(part, a) for a, part in enumerate(parts)]

    def _values(self, Z: Array, a: int) -> Array:
        """Values of the margins of a view at the ranks of latent ones, with one level of nominal features."""
        values, columns = _ranked_values(Z, self.margins[a]), self.columns[a]
        return values if columns is None else columns.levels(Z, values, self.margins[a])

    @property
    def _observed(self) -> Iterator[tuple[Array, Array]]:
        """Numbers of the samples that have each view, and their positions."""
        for a, (X, columns) in enumerate(zip(self.views.blocks, self.columns, strict=True)):
            rows = self.views.rows(a)
            yield dense(X[rows], columns), rows

    @property
    def _discrete(self) -> bool:
        return any(discrete_columns(margin).any() for margin in self.margins)


@dataclass(frozen=True, eq=False)
class Radii:
    """Factors by which samples of a t distribution lie further from the centre than those of a Gaussian.

    The square of a factor is ``nu / chi^2_nu``, whose logarithm has variance ``trigamma(nu / 2)``.

    Attributes
    ----------
    excess : (v,) array
        Variance of the logarithm of the squared distance in each view, beyond a Gaussian's.
    shared : float
        Correlation of the factors of different views.
    """

    excess: Array
    shared: float

    @classmethod
    def none(cls, n_views: int) -> Radii:
        """Those of a Gaussian."""
        return cls(np.zeros(n_views), 0.0)

    def nearer(self, wanted: Array, energies: Array) -> Radii:
        """Corrected by the logarithms of squared distances (n x v) of the data and of a cloud with these."""
        lacking = np.atleast_2d(np.cov(wanted.T) - np.cov(energies.T))
        excess = np.clip(self.excess + GAIN * np.diagonal(lacking), 0.0, MOST_EXCESS)
        above = np.triu_indices(len(excess), 1)
        scale = np.sqrt(np.outer(excess, excess))[above].sum()
        more = self.shared + (GAIN * lacking[above].sum() / scale if scale else 0.0)
        return Radii(excess, float(np.clip(more, 0.0, 1.0)))

    def draw(self, n: int, rng: np.random.Generator) -> Array:
        """Factors of n samples in each view (n x v)."""
        common, own = rng.standard_normal((n, 1)), rng.standard_normal((n, len(self.excess)))
        u = ndtr(np.sqrt(self.shared) * common + np.sqrt(1.0 - self.shared) * own)
        nu = np.array([_freedom(excess) for excess in self.excess])
        return np.where(np.isfinite(nu), np.sqrt(nu / chi2.isf(u, np.minimum(nu, 1e6))), 1.0)


def _freedom(excess: float) -> float:
    """The degrees of freedom ``nu`` with ``trigamma(nu / 2) = excess``; infinite for a Gaussian.

    >>> round(_freedom(float(polygamma(1, 1.5))), 3), _freedom(0.0)
    (3.0, inf)
    """
    if excess <= LEAST_EXCESS:
        return float("inf")
    return float(2.0 * brentq(lambda x: polygamma(1, x) - excess, 0.1, 1e6))


def draw_twin(views: Any, random_state: Any = None) -> Views:
    """Data with the margins and correlations of some views and no clusters.

    Parameters
    ----------
    views : dict, list, Views or array
    random_state : int, Generator or None

    Returns
    -------
    Views

    Examples
    --------
    >>> import viewloom as vl
    >>> views, _ = vl.simulate.blobs_views(60, n_views=2, random_state=0)
    >>> twin = draw_twin(views, 0)
    >>> twin.names == views.names and twin.shape == views.shape
    True
    """
    return Twins(Views(views)).draw(np.random.default_rng(random_state))


def gaussian_twin(views: Views, rng: np.random.Generator) -> Views:
    """A draw from one Gaussian with exactly the means and covariances of the data, of all views together.

    The centred data are ``U S V^T``; ``U`` is replaced by a random orthonormal basis of directions that are
    orthogonal to the constant (Langsrud 2005). Absent values are the means of their features while this is
    done.

    Examples
    --------
    >>> X = np.random.default_rng(0).exponential(size=(20, 3))
    >>> twin = gaussian_twin(Views(X), np.random.default_rng(1))["view0"]
    >>> bool(np.allclose(np.cov(twin.T), np.cov(X.T)) and np.allclose(twin.mean(axis=0), X.mean(axis=0)))
    True
    """
    blocks = [dense(X).copy() for X in views.blocks]
    for a, X in enumerate(blocks):
        X[~views.present[:, a]] = X[views.rows(a)].mean(axis=0)
    X = np.hstack(blocks)
    twin = _cloud(len(X), _decomposed(X - X.mean(axis=0)), rng) + X.mean(axis=0)
    blocks = np.split(twin, np.cumsum(views.n_features)[:-1], axis=1)
    for block, present in zip(blocks, views.present.T, strict=True):
        block[~present] = np.nan
    return Views(blocks, names=views.names)


def normal_scores(X: Array) -> Array:
    """Columns as quantiles of the normal distribution, of mean 0 and variance 1; zeros if constant.

    Equal values share the mean of their scores.

    >>> normal_scores(np.array([[1.0], [5.0], [9.0]])).round(2).ravel().tolist()
    [-1.22, 0.0, 1.22]
    """
    if not len(X):
        return np.zeros(X.shape)
    return _standardised(ndtri((rankdata(X, axis=0) - 0.5) / len(X)))


def discrete_columns(margins: Array) -> Array:
    """Which columns, of values in order (n x d), have few values or one that is frequent."""
    if len(margins) < 2:
        return np.zeros(margins.shape[1], dtype=bool)
    new = np.diff(margins, axis=0) > 0.0
    few = new.sum(axis=0) < FEW_VALUES
    lag = max(int(TIED * len(margins)), 1)  # a run of equal values this long
    return np.asarray(few | (margins[lag:] == margins[:-lag]).any(axis=0))


def unimodal(margins: Array) -> Array:
    """Values in order (n x d), moved to the nearest distribution with one mode; discrete columns stay.

    >>> two = np.sort(np.r_[np.linspace(0, 1, 50), np.linspace(9, 10, 50)])[:, None]
    >>> bool(np.diff(two[:, 0]).max() > 7.9), bool(np.diff(unimodal(two)[:, 0]).max() < 2.0)
    (True, True)
    """
    moved = np.array(margins, dtype=np.float64)
    bins = min(len(margins) // PER_BIN, MOST_BINS)
    if bins < LEAST_BINS:
        return moved
    edges = np.quantile(moved, np.linspace(0.0, 1.0, bins + 1), axis=0)
    for j in np.flatnonzero(~discrete_columns(moved)):
        moved[:, j] = np.interp(moved[:, j], edges[:, j], _one_mode(edges[:, j]))
    return moved


def _one_mode(edges: Array) -> Array:
    """Edges of bins of equal probability, moved so that densities rise and then fall.

    For a given mode the maximum likelihood estimate is the isotonic regression of the densities ``1 /
    width`` with weights ``width`` on both sides; of the modes the most likely is taken.
    """
    width = np.maximum(np.diff(edges), 1e-9 * np.ptp(edges) + np.finfo(float).tiny)
    modes = range(0, len(width) + 1, max(len(width) // 10, 1))
    fits = [_rising_then_falling(1.0 / width, width, mode) for mode in modes]
    best = max(fits, key=lambda density: float(np.log(density).sum()))
    moved = np.r_[0.0, np.cumsum(1.0 / best)]
    return np.asarray(edges[0] + moved * (np.ptp(edges) / moved[-1]))


def _rising_then_falling(density: Array, width: Array, mode: int) -> Array:
    parts = [
        isotonic_regression(density[part], weights=width[part], increasing=rises).x
        for part, rises in ((slice(None, mode), True), (slice(mode, None), False))
        if len(density[part])
    ]
    return np.concatenate(parts)


def _rotation(n: int, rank: int, rng: np.random.Generator) -> Array:
    """A random orthonormal basis (n x rank) of directions that are orthogonal to the constant."""
    G = rng.standard_normal((n, rank))
    Q, T = np.linalg.qr(G - G.mean(axis=0))
    return np.asarray(Q * np.sign(np.diagonal(T)))


def _cloud(n: int, spectrum: tuple[Array, Array, Array | None], rng: np.random.Generator) -> Array:
    """One Gaussian cloud (n x d) with these singular values and axes, and the rest as noise."""
    spread, axes, noise = spectrum
    Z = _rotation(n, len(spread), rng) @ (spread[:, None] * axes)
    return Z if noise is None else Z + noise * rng.standard_normal(Z.shape)


def _decomposed(Z: Array) -> tuple[Array, Array, Array | None]:
    """Singular values, axes (r x d) and the spread of the rest; the rest is None where there is none."""
    n, d = Z.shape
    if min(n, d) > LARGEST_EXACT:
        _, spread, axes = randomized_svd(Z, FACTORS, random_state=0)
        rest = (Z**2).mean(axis=0) - ((spread[:, None] * axes) ** 2).sum(axis=0) / n
        return spread, axes, np.sqrt(np.maximum(rest, 0.0))
    square, wide = (Z @ Z.T, True) if d >= n else (Z.T @ Z, False)  # min(n, d) squared, no more than Z
    values, vectors = np.linalg.eigh(square)
    kept = values > 1e-10 * max(values.max(initial=0.0), 1e-300)
    spread = np.sqrt(values[kept])
    axes = vectors[:, kept].T @ Z / spread[:, None] if wide else vectors[:, kept].T
    return spread[-(n - 1) :], axes[-(n - 1) :], None  # the largest: centred scores have n - 1 at most


def _filled(parts: list[Array], views: Views) -> list[Array]:
    """Scores of views, with rows of absent views predicted from the other views, and a random residual."""
    if views.complete or len(parts) == 1:
        return parts
    rng = np.random.default_rng(len(views))
    return [_predicted(Z, parts[:a] + parts[a + 1 :], views.rows(a), rng) for a, Z in enumerate(parts)]


def _predicted(Z: Array, others: list[Array], rows: Array, rng: np.random.Generator) -> Array:
    absent = np.setdiff1d(np.arange(len(Z)), rows)
    if not len(absent):
        return Z
    rank = min(AXES, len(rows) // 4, sum(Y.shape[1] for Y in others))
    T = randomized_svd(np.hstack(others), max(rank, 1), random_state=0)[0]  # n x rank
    B = np.linalg.lstsq(T[rows], Z[rows], rcond=None)[0]
    rest = Z[rows] - T[rows] @ B
    filled = Z.copy()
    filled[absent] = T[absent] @ B + rest[rng.integers(len(rows), size=len(absent))]
    return filled


def _ranked_values(Z: Array, margins: Array) -> Array:
    """Values of the margins at the ranks of Z, whatever their numbers of rows."""
    ranks = np.empty(Z.shape, dtype=np.int64)
    np.put_along_axis(ranks, Z.argsort(axis=0), np.arange(len(Z))[:, None], axis=0)
    if len(Z) != len(margins):
        ranks = (ranks * len(margins)) // len(Z)
    return np.take_along_axis(margins, ranks, axis=0)


def _standardised(Z: Array) -> Array:
    Z = Z - Z.mean(axis=0)
    spread = Z.std(axis=0)
    return np.asarray(Z / np.where(spread > 0.0, spread, 1.0))
