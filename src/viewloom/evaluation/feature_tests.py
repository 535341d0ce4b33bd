"""Tests of features: which of them relate to the clusters that the other views form."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp
import scipy.stats
from sklearn.base import clone

from viewloom.data.mixed_encoding import encoded
from viewloom.data.views import Views
from viewloom.evaluation.selection.evidence import (
    LEAST_TWINS,
    TWINS,
    judged_estimator,
)
from viewloom.evaluation.selection.jobs import quiet
from viewloom.evaluation.twins import Twins
from viewloom.models.kernel_nmf import KernelMultiviewNMF
from viewloom.runtime.errors import InputError

Array = np.ndarray
PER_VIEW = ("kernel", "lam", "theta", "graph", "scale")  # parameters that may differ between views
OTHER_VIEWS, AGAINST_TWINS = "clusters of the other views", "twins"
CHUNK = 4096  # features at a time, to limit memory


def importance_test(
    model: KernelMultiviewNMF, views: Any, view: str | int = 0, *, n_twins: int = TWINS, random_state: Any = 0
) -> pd.DataFrame:
    """Test which features of a view relate to the clusters, with p-values that do not use them twice.

    The features of a view were used to form the clusters, so that they differ between clusters in any
    data. The model is therefore fitted again without the view, and each feature is compared with the
    memberships of samples from the other views: the share of its variance that they explain, against its
    distribution if samples of the view are permuted. With a single view, features are compared with those
    of `n_twins` twins, which have the same correlations and no clusters.

    Parameters
    ----------
    model : KernelMultiviewNMF
        Its parameters are used.
    views : dict, list, Views or array
    view : str or int
    n_twins : int, default=10
        For a single view.
    random_state : int, default=0
        For a single view.

    Returns
    -------
    DataFrame
        ``feature``, ``effect`` (share of variance explained), ``p`` and ``q`` (Benjamini-Hochberg), the
        least p first. ``attrs["method"]`` says what features are compared with.

    Notes
    -----
    Mean and variance of the permutation distribution are exact (Kazi-Aoual et al. 1995); its tail is that of
    the beta distribution with these moments.

    Examples
    --------
    >>> import viewloom as vl
    >>> views, _ = vl.simulate.three_kinds(30, random_state=0)
    >>> model = vl.KernelMultiviewNMF(3, random_state=0)
    >>> bool((importance_test(model, views, "noise")["q"] > 0.05).all())
    True
    """
    from viewloom.data.checks import view_position

    views = Views(views)
    a = view_position(view, views.names)
    if views.n_views > 1:
        return against_other_views(model, views, a)
    return against_twins(model, views, n_twins, random_state)


def against_other_views(model: KernelMultiviewNMF, views: Views, a: int) -> pd.DataFrame:
    """Features of a view against the clusters that the other views form."""
    others = [name for name in views.names if name != views.names[a]]
    has_other = np.delete(views.present, a, axis=1).any(axis=1)
    rows = np.flatnonzero(views.present[:, a] & has_other)
    estimator = without_view(model, views.names, a)
    with quiet():
        fitted = estimator.fit(views[np.flatnonzero(has_other)].select(others))
    at = np.cumsum(has_other) - 1
    X = views.blocks[a][rows]
    effect, p = permutation_p(X, fitted.memberships_[at[rows]])
    return _tested(views.feature_names[views.names[a]], effect, p, OTHER_VIEWS)


def against_twins(model: KernelMultiviewNMF, views: Views, n_twins: int, seed: int) -> pd.DataFrame:
    """Features of the only view against those of twins (Student's t of one more twin)."""
    if n_twins < LEAST_TWINS:
        raise InputError(f"At least {LEAST_TWINS} twins are needed; got {n_twins}.")
    estimator, twins = judged_estimator(model, seed), Twins(views)
    draws = [twins.draw(np.random.default_rng([seed, t])) for t in range(n_twins)]
    with quiet():
        found = [
            explained(data.blocks[0], clone(estimator).fit(data).memberships_) for data in (views, *draws)
        ]
    data, null = found[0], np.array(found[1:])
    scale = np.maximum(null.std(axis=0, ddof=1), 1e-9) * np.sqrt(1.0 + 1.0 / n_twins)
    p = scipy.stats.t.sf((data - null.mean(axis=0)) / scale, n_twins - 1)
    return _tested(views.feature_names[views.names[0]], data, p, AGAINST_TWINS)


def without_view(model: KernelMultiviewNMF, names: list[str], a: int) -> KernelMultiviewNMF:
    """The estimator for the other views: settings that differ between views lose those of the view."""
    changes: dict[str, Any] = {}
    for parameter in PER_VIEW:
        value = getattr(model, parameter)
        if isinstance(value, Mapping):
            changes[parameter] = {name: one for name, one in value.items() if name != names[a]}
        elif isinstance(value, (list, tuple, np.ndarray)):
            changes[parameter] = [one for b, one in enumerate(value) if b != a]
    if not isinstance(model.init, str):
        changes["init"] = "kkmeans"
    if model.backend == "dask":  # the client may be gone, or in another process
        changes["backend"] = "threads"
    return clone(model).set_params(**changes)  # type: ignore[no-any-return]


def explained(X: Any, memberships: Array) -> Array:
    """Share of the variance of each feature (d,) that memberships (n x k) explain linearly.

    That of a nominal feature is over its weighted dummies: Pearson's ``chi^2 / n`` divided by the number of
    levels minus one, if memberships are 0 or 1.
    """
    basis = _basis(memberships)
    return np.concatenate([found.explained(basis) for found in _chunks(X)])


def permutation_p(X: Any, memberships: Array) -> tuple[Array, Array]:
    """Share of variance explained, and the probability of as much if samples are permuted."""
    U = _basis(memberships)
    n, q = len(U), U.shape[1]
    if n < 5 or not q or q >= n - 1:
        return np.zeros(X.shape[1]), np.ones(X.shape[1])
    leverage = float(((U**2).sum(axis=1) ** 2).sum() / q)
    effects, tails = [], []
    for found in _chunks(X):
        effect, (rank, fourth) = found.explained(U), found.moments()
        spread = q / rank * _variance(n, q, leverage, rank, fourth)
        effects.append(effect)
        tails.append(np.where(found.varies, _beta_tail(effect, q / (n - 1.0), spread), 1.0))
    return np.concatenate(effects), np.concatenate(tails)


def _variance(n: int, q: int, leverage: float, rank: Array, fourth: Array) -> Array:
    """Permutation variance of the RV coefficient of a projection of rank q and of features.

    `rank` is ``tr(W)^2 / tr(W^2)`` and `fourth` is ``sum_i w_ii^2 / tr(W^2)`` of ``W = Z Z^T``.
    """

    def tau(beta: Any, delta: Any) -> Any:
        return (n - 1) / ((n - 3) * (n - 1 - beta)) * (n * (n + 1) * delta - (n - 1) * (beta + 2))

    factor = 2.0 * (n - 1 - rank) * (n - 1 - q) / ((n + 1) * (n - 1) ** 2 * (n - 2))
    return np.asarray(factor * (1.0 + (n - 3) / (2.0 * n * (n - 1)) * tau(rank, fourth) * tau(q, leverage)))


def _beta_tail(effect: Array, mean: float, variance: Array) -> Array:
    """Tail of the beta distribution with this mean and variance."""
    size = np.maximum(mean * (1.0 - mean) / np.maximum(variance, 1e-300) - 1.0, 1e-6)
    return np.asarray(scipy.stats.beta.sf(np.clip(effect, 0.0, 1.0), mean * size, (1.0 - mean) * size))


def _basis(memberships: Array) -> Array:
    """An orthonormal basis (n x q) of centred memberships."""
    U, s, _ = np.linalg.svd(memberships - memberships.mean(axis=0), full_matrices=False)
    return np.asarray(U[:, s > 1e-8 * max(s.max(initial=0.0), 1e-300)])


@dataclass(frozen=True, eq=False)
class _Features:
    """Some features: centred columns (n x m) with a sum of squares of 1 in each feature.

    `starts` has the first column of each feature; a nominal feature has one column per level.
    """

    Z: Array
    starts: Array
    varies: Array

    @classmethod
    def of(cls, Z: Array, starts: Array) -> _Features:
        Z = Z - Z.mean(axis=0)
        length = np.sqrt(np.add.reduceat((Z**2).sum(axis=0), starts))
        varies = length > 1e-12
        widths = np.diff(np.append(starts, Z.shape[1]))
        return cls(Z / np.repeat(np.where(varies, length, 1.0), widths), starts, varies)

    def explained(self, U: Array) -> Array:
        """Share of each feature that an orthonormal basis (n x q) explains."""
        return np.asarray(np.add.reduceat(((U.T @ self.Z) ** 2).sum(axis=0), self.starts))

    def moments(self) -> tuple[Array, Array]:
        """The rank and fourth moment of each feature; see `_variance`."""
        single = len(self.starts) == self.Z.shape[1]
        if single:
            return np.ones(len(self.starts)), (self.Z**4).sum(axis=0)
        parts = np.split(self.Z, self.starts[1:], axis=1)
        squares = np.array([((part.T @ part) ** 2).sum() for part in parts])  # tr(W^2)
        squares = np.maximum(squares, 1e-300)
        fourth = np.array([((part**2).sum(axis=1) ** 2).sum() for part in parts])
        return 1.0 / squares, fourth / squares


def _chunks(X: Any) -> Iterator[_Features]:
    """Features, some at a time."""
    for first in range(0, X.shape[1], CHUNK):
        part, groups = encoded(X[:, first : first + CHUNK])
        Z = np.asarray(part.toarray() if sp.issparse(part) else part, dtype=np.float64)
        yield _Features.of(Z, np.array([group.start for group in groups]))


def _tested(names: Array, effect: Array, p: Array, method: str) -> pd.DataFrame:
    p = np.clip(p, 0.0, 1.0)
    table = pd.DataFrame(
        {"feature": names, "effect": effect, "p": p, "q": scipy.stats.false_discovery_control(p)}
    )
    order = np.lexsort((-effect, p))
    table = table.iloc[order].reset_index(drop=True)
    table.attrs["method"] = method
    return table
