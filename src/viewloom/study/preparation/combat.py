"""ComBat: removes site differences in mean and variance, fitted once and applied to new subjects.

Johnson, Li and Rabinovic (2007), Biostatistics 8:118; for imaging Fortin et al. (2018), NeuroImage 167:104.
With site i, subject j and feature g::

    x_ijg = mean_g + c_ij b_g + spread_g (gamma_ig + sqrt(delta_ig) e_ijg)

The effects of a site, ``gamma`` and ``delta``, are shrunk across its features by empirical Bayes. The effects
of the covariates ``c`` are kept.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from viewloom.data.portions import column_portions
from viewloom.study.errors import StudyError

Array = np.ndarray
TINY = 1e-10  # a spread below this share of the values is rounding
TOLERANCE, MOST_ROUNDS = 1e-10, 10_000
MOST_CONFIDENT = 1e12  # limit of mean^2 / variance of the variances, for features of equal variance


@dataclass(frozen=True, eq=False)
class Combat:
    """Estimates for s sites, d features and p covariates; see `fit_combat`.

    Attributes
    ----------
    mean : (d,) array
        Mean over all subjects at covariates of zero.
    slopes : (p, d) array
        Effects of the covariates.
    spread : (d,) array
        Standard deviation within sites, given the covariates.
    shift, scale : (s, d) arrays
        Posterior ``gamma`` and ``sqrt(delta)`` of each site, in units of `spread`.
    varies : (d,) bool array
        Features that vary within sites; only these are shrunk and scaled.
    """

    mean: Array
    slopes: Array
    spread: Array
    shift: Array
    scale: Array
    varies: Array


def fit_combat(X: Array, site: Array, covariates: Array) -> Combat:
    """Estimate the effects of sites.

    Parameters
    ----------
    X : (n, d) array
        Without NaN.
    site : (n,) int array
        Sites as 0, 1, ..., each with at least two subjects.
    covariates : (n, p) array
        Covariates whose effects are kept; p may be 0.

    Examples
    --------
    >>> X = np.array([[1.0, 5.0], [3.0, 9.0], [2.0, 7.0], [11.0, 15.0], [13.0, 19.0], [12.0, 17.0]])
    >>> fitted = fit_combat(X, np.repeat([0, 1], 3), np.empty((6, 0)))
    >>> fitted.mean.round(6).tolist()
    [7.0, 12.0]
    """
    sizes = np.bincount(site)
    if len(sizes) < 2 or sizes.min() < 2:
        raise StudyError("ComBat needs at least two sites with at least two subjects each.")
    design = np.hstack([np.eye(len(sizes))[site], covariates])
    _check_not_confounded(design, covariates, len(sizes))
    solver, order = np.linalg.pinv(design), np.argsort(site, kind="stable")
    parts = [_features(X[:, part], design, solver, sizes, order) for part in column_portions(X.shape)]
    mean, slopes, spread, varies, gamma, variance = (
        np.concatenate(found, axis=-1) for found in zip(*parts, strict=True)
    )
    moments = zip(sizes.tolist(), gamma, variance, strict=True)
    effects_of = [_shrunk(n, shift_of, variance_of, varies) for n, shift_of, variance_of in moments]
    shift, scale = (np.array(found) for found in zip(*effects_of, strict=True))
    return Combat(mean, slopes, spread, shift, scale, varies)


def _features(X: Array, design: Array, solver: Array, sizes: Array, order: Array) -> tuple[Array, ...]:
    """Mean, slopes, spread and variation of some features, and their moments at each site (s x d)."""
    X = np.asarray(X, dtype=np.float64)
    effects = solver @ X
    mean, slopes = sizes @ effects[: len(sizes)] / len(X), effects[len(sizes) :]
    spread = np.sqrt(np.mean((X - design @ effects) ** 2, axis=0))
    varies = spread > TINY * np.abs(X).max(axis=0)
    spread = np.where(varies, spread, 1.0)
    Z = ((X - mean - design[:, len(sizes) :] @ slopes) / spread)[order]
    sites = np.split(Z, np.cumsum(sizes)[:-1])
    gamma, variance = ([found(part) for part in sites] for found in (_mean, _variance))
    return mean, slopes, spread, varies, np.array(gamma), np.array(variance)


def _mean(Z: Array) -> Array:
    return np.asarray(Z.mean(axis=0))


def _variance(Z: Array) -> Array:
    return np.asarray(Z.var(axis=0, ddof=1))


def adapt_combat(fitted: Combat, X: Array, covariates: Array) -> Combat:
    """The effects of a new site, whose subjects are like those that `fitted` was estimated in.

    They are estimated as those of the other sites, and mean, slopes and spread do not change. The result has
    a single site.
    """
    Z = (X - fitted.mean - covariates @ fitted.slopes) / fitted.spread
    shift, scale = _shrunk(len(Z), _mean(Z), _variance(Z), fitted.varies)
    return replace(fitted, shift=shift[None], scale=scale[None])


def _shrunk(n: int, gamma: Array, variance: Array, varies: Array) -> tuple[Array, Array]:
    """Shift and scale of a site of n subjects, from the moments of its standardised features.

    A feature that varies between sites only is fully corrected, and not used for the shrinkage.
    """
    shift, scale = gamma.copy(), np.ones(len(gamma))
    shift[varies], delta = posterior(n, gamma[varies], variance[varies])
    scale[varies] = np.sqrt(delta)
    return shift, scale


def apply_combat(fitted: Combat, X: Array, site: Array, covariates: Array) -> Array:
    """Remove the effects of sites; subjects whose `site` is -1 are unchanged."""
    known = site >= 0
    at = site[known]
    level = fitted.mean + covariates[known] @ fitted.slopes
    Z = ((X[known] - level) / fitted.spread - fitted.shift[at]) / fitted.scale[at]
    harmonised = X.copy()
    harmonised[known] = level + fitted.spread * Z
    return harmonised


def posterior(n: int, gamma: Array, variance: Array) -> tuple[Array, Array]:
    """Posterior mean ``gamma`` and variance ``delta`` of a site's standardised features.

    The priors are normal for ``gamma`` and inverse gamma for ``delta``, with the moments of the estimates
    over features. The estimates of a single feature are not shrunk.

    Parameters
    ----------
    n : int
        Subjects of the site.
    gamma, variance : array of d
        Mean and variance of each feature in these subjects.
    """
    d = len(gamma)
    delta = np.where(variance > TINY**2, variance, 1.0)
    if d < 2:
        return gamma, delta
    estimate, middle, between = gamma, gamma.mean(), gamma.var(ddof=1)
    average = delta.mean()
    confidence = min(average**2 / max(delta.var(ddof=1), average**2 / MOST_CONFIDENT), MOST_CONFIDENT)
    for _ in range(MOST_ROUNDS):
        old_gamma, old_delta = gamma, delta
        gamma = (n * between * estimate + delta * middle) / (n * between + delta)
        squares = (n - 1) * variance + n * (estimate - gamma) ** 2  # sum of (z - gamma)^2
        delta = (squares / 2.0 + average * (1.0 + confidence)) / (n / 2.0 + 1.0 + confidence)
        if _same(gamma, old_gamma) and _same(delta, old_delta):
            break
    return gamma, delta


def _same(new: Array, old: Array) -> bool:
    return np.allclose(new, old, rtol=TOLERANCE, atol=TOLERANCE)


def _check_not_confounded(design: Array, covariates: Array, n_sites: int) -> None:
    """Refuse covariates that differ between sites only."""
    within = np.linalg.matrix_rank(covariates - covariates.mean(axis=0)) if covariates.shape[1] else 0
    if np.linalg.matrix_rank(design) < n_sites + within:
        raise StudyError(
            "the covariates are confounded with the sites: one of them is constant within each site. Leave "
            "it out, or do not harmonise."
        )
