"""Regression of one variable on clusters and covariates, by statsmodels."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from viewloom.clinical.variables import Variable, variable_of
from viewloom.runtime.errors import MissingPackageError

Array = np.ndarray
Z95 = float(stats.norm.ppf(0.975))
MOST_ORDERED = 7  # values of a number up to which it is treated as ordered categories
LARGEST = 12.0  # log odds ratio beyond which groups are separated
SEPARATED = "no estimate: groups are separated, all subjects of one have the same value"
SINGULAR = "no estimate: a covariate determines the clusters, or there are too few subjects"


@dataclass(frozen=True)
class Estimate:
    """An effect with its interval, or a statistic with its degrees of freedom; a note where there is none."""

    effect: float
    low: float
    high: float
    p: float
    df: int = 1
    note: str = ""

    @classmethod
    def none(cls, note: str) -> Estimate:
        """No estimate, and why."""
        return cls(np.nan, np.nan, np.nan, np.nan, 0, note)


@dataclass(frozen=True)
class Model:
    """A kind of regression: the effect of one indicator, and the test of several."""

    measure: str
    test: str
    effect: Callable[[Array, Array, Array], Estimate]
    overall: Callable[[Array, Array, Array], Estimate]


def check_installed(what: str) -> None:
    """Raise an error if statsmodels is missing."""
    if find_spec("statsmodels") is None:
        raise MissingPackageError(f"{what} statsmodels: pip install viewloom[stats]")


def model_of(variable: Variable, ordered: bool = False) -> str | None:
    """The kind of regression for a variable; None for categories without an order."""
    n = len(set(variable.data[variable.known].tolist()))
    if n == 2:
        return "logistic"
    if variable.kind == "categorical":
        return None
    return "ordinal" if ordered or n <= MOST_ORDERED else "linear"


def covariate_columns(
    participants: pd.DataFrame, names: Sequence[str], categorical: Collection[str]
) -> tuple[Array, Array]:
    """Columns of covariates, and who has all of them; numbers are standardised, categories are indicators.

    >>> people = pd.DataFrame({"age": [60.0, 70.0, 80.0, None], "sex": list("FMFM")})
    >>> Z, known = covariate_columns(people, ["age", "sex"], [])
    >>> Z[known].round(2).tolist(), known.tolist()
    ([[-1.22, 0.0], [0.0, 1.0], [1.22, 0.0]], [True, True, True, False])
    """
    columns, known = [], np.ones(len(participants), dtype=bool)
    for name in names:
        variable = variable_of(name, participants[name], name in categorical)
        known &= variable.known
        columns += _columns(variable)
    Z = np.column_stack(columns) if columns else np.empty((len(participants), 0))
    return Z, known


def _columns(variable: Variable) -> list[Array]:
    values = variable.data[variable.known]
    if variable.kind == "numeric":
        spread = values.std() or 1.0
        return [np.where(variable.known, (np.nan_to_num(variable.data) - values.mean()) / spread, 0.0)]
    return [np.asarray(variable.data == level, dtype=float) for level in sorted(set(values))[1:]]


def _design(X: Array, Z: Array) -> Array | None:
    """Intercept, clusters and the covariates that vary; None where clusters are determined by the others."""
    Z = Z[:, Z.std(axis=0) > 0] if len(Z) else Z
    design = np.column_stack([np.ones(len(X)), X, Z])
    alone = np.column_stack([np.ones(len(X)), Z])
    added = np.linalg.matrix_rank(design) - np.linalg.matrix_rank(alone)
    return design if added == X.shape[1] and len(design) > design.shape[1] + 2 else None


def _linear(y: Array, X: Array, Z: Array) -> Any:
    from statsmodels.regression.linear_model import OLS

    design = _design(X, Z)
    y = y.astype(float)
    if design is None or not y.std() > 0:
        return None
    return OLS(y / y.std(ddof=1), design).fit(cov_type="HC3", use_t=True)


def linear_effect(y: Array, X: Array, Z: Array) -> Estimate:
    """Difference of means in standard deviations."""
    found = _linear(y, X, Z)
    if found is None:
        return Estimate.none(SINGULAR)
    low, high = found.conf_int()[1]
    return Estimate(float(found.params[1]), float(low), float(high), float(found.pvalues[1]))


def linear_test(y: Array, X: Array, Z: Array) -> Estimate:
    """F test of all indicators."""
    found = _linear(y, X, Z)
    if found is None:
        return Estimate.none(SINGULAR)
    k = X.shape[1]
    test = found.f_test(np.eye(len(found.params))[1 : k + 1])
    return Estimate(float(np.squeeze(test.fvalue)), np.nan, np.nan, float(test.pvalue), k)


def logistic_fit(y: Array, design: Array) -> Any:
    """A fitted logistic regression; None if it does not converge or groups are separated."""
    from statsmodels.discrete.discrete_model import Logit

    return _fitted(lambda: Logit(_binary(y), design).fit(disp=0, maxiter=100), design)


def ordinal_fit(y: Array, design: Array) -> Any:
    """A fitted proportional-odds model, whose thresholds take the place of the intercept."""
    from statsmodels.miscmodels.ordinal_model import OrderedModel

    codes = np.unique(y.astype(float), return_inverse=True)[1]
    if design.shape[1] == 1:  # no indicator or covariate: the shares of the values
        shares = np.bincount(codes) / len(codes)
        return _Shares(float(np.log(shares[codes]).sum()))
    return _fitted(
        lambda: OrderedModel(codes, design[:, 1:], distr="logit").fit(method="bfgs", disp=0, maxiter=300),
        design[:, 1:],
    )


@dataclass(frozen=True)
class _Shares:
    """A proportional-odds model without columns."""

    llf: float


def _fitted(fit: Callable[[], Any], design: Array) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # on convergence and separation, which are checked
        try:
            found = fit()
            errors = np.asarray(found.bse)[: design.shape[1]]
        except (np.linalg.LinAlgError, ValueError, RuntimeError):
            return None
    spread = np.maximum(design.std(axis=0), 1e-12)
    params = np.asarray(found.params)[: design.shape[1]]
    usable = found.mle_retvals["converged"] and np.isfinite(errors).all() and np.isfinite(found.llf)
    return found if usable and (np.abs(params * spread) < LARGEST).all() and (errors < 100).all() else None


def _binary(y: Array) -> Array:
    return np.asarray(y == max(set(y.tolist())), dtype=float)


def _odds(fit: Callable[[Array, Array], Any], at: int) -> Callable[[Array, Array, Array], Estimate]:
    """The odds ratio of the first indicator, with Wald interval and likelihood-ratio test."""

    def effect(y: Array, X: Array, Z: Array) -> Estimate:
        design = _design(X, Z)
        if design is None or _separated(y, X):
            return Estimate.none(SINGULAR if design is None else SEPARATED)
        found, without = fit(y, design), fit(y, np.delete(design, 1, axis=1))
        if found is None or without is None:
            return Estimate.none(SEPARATED)
        b, error = float(np.asarray(found.params)[at]), float(np.asarray(found.bse)[at])
        p = float(stats.chi2.sf(max(2.0 * (found.llf - without.llf), 0.0), 1))
        return Estimate(float(np.exp(b)), float(np.exp(b - Z95 * error)), float(np.exp(b + Z95 * error)), p)

    return effect


def _odds_test(fit: Callable[[Array, Array], Any]) -> Callable[[Array, Array, Array], Estimate]:
    """Likelihood-ratio test of all indicators."""

    def overall(y: Array, X: Array, Z: Array) -> Estimate:
        design, k = _design(X, Z), X.shape[1]
        if design is None:
            return Estimate.none(SINGULAR)
        found = fit(y, design)
        without = fit(y, np.delete(design, range(1, k + 1), axis=1))
        if found is None or without is None:
            return Estimate.none(SEPARATED)
        statistic = max(2.0 * float(found.llf - without.llf), 0.0)
        return Estimate(statistic, np.nan, np.nan, float(stats.chi2.sf(statistic, k)), k)

    return overall


def _separated(y: Array, X: Array) -> bool:
    """Whether subjects with or without the indicator all have the same value."""
    inside = X[:, 0] > 0
    return min(len(set(y[inside].tolist())), len(set(y[~inside].tolist()))) < 2


MODELS = {
    "linear": Model("difference (SD)", "F", linear_effect, linear_test),
    "logistic": Model("odds ratio", "likelihood ratio", _odds(logistic_fit, 1), _odds_test(logistic_fit)),
    "ordinal": Model("odds ratio", "likelihood ratio", _odds(ordinal_fit, 0), _odds_test(ordinal_fit)),
}
