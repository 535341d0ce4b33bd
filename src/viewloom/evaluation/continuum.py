"""Positions of samples along the leading axis of all views, for data without distinct clusters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy.sparse.linalg import svds

from viewloom.data.drawing import rows_at_most
from viewloom.data.views import Views
from viewloom.kernels.operators import dense
from viewloom.models.kernel_nmf import KernelMultiviewNMF
from viewloom.runtime.errors import InputError

Array = np.ndarray
MOST_SAMPLES = 10_000  # from which the axis is estimated, and whose positions are computed at a time


@dataclass(frozen=True, eq=False)
class ConsensusAxis:
    """The leading axis that views share.

    Attributes
    ----------
    positions : Series
        Position of each sample, of mean 0 and standard deviation 1.
    loadings : dict of str to DataFrame
        For each view ``feature`` and ``loading``, its correlation with the positions, the largest first.
    explained : Series
        Share of the variance of each view that the axis explains.
    """

    positions: pd.Series
    loadings: dict[str, pd.DataFrame]
    explained: pd.Series


def consensus_axis(views: Any, model: KernelMultiviewNMF | None = None) -> ConsensusAxis:
    """The leading axis of all views, and the position of each sample along it.

    Where samples form a continuum, a position says more than a cluster. It is the first component of
    multiple factor analysis: features are standardised, each view is divided by its largest singular value,
    so that none dominates by its size, and weighted by the model. Samples that lack a view have a position
    from the others. Of more than 10,000 samples as many are drawn at random for the axis and the
    loadings; all have a position.

    Parameters
    ----------
    views : dict, list, Views or array
    model : fitted KernelMultiviewNMF, optional
        Its view weights are used; equal weights if None.

    Returns
    -------
    ConsensusAxis

    Examples
    --------
    >>> stage = np.linspace(-1.0, 1.0, 50)
    >>> noise = np.random.default_rng(0).standard_normal((2, 50, 3))
    >>> axis = consensus_axis([stage[:, None] + 0.1 * noise[0], -stage[:, None] + 0.1 * noise[1]])
    >>> bool(abs(np.corrcoef(axis.positions, stage)[0, 1]) > 0.98)
    True
    """
    views = Views(views).encoded()
    weights = np.full(views.n_views, 1.0 / views.n_views) if model is None else model.view_weights_
    if len(weights) != views.n_views:
        raise InputError(f"The model has {len(weights)} views, the data have {views.n_views}.")
    chosen = rows_at_most(len(views), MOST_SAMPLES, 0)
    some = views if len(chosen) == len(views) else views[chosen]
    scales = [
        _Scale.of(X[some.rows(a)], w) for a, (X, w) in enumerate(zip(some.blocks, weights, strict=True))
    ]
    blocks = [
        scale.apply(X, some.rows(a)) for a, (X, scale) in enumerate(zip(some.blocks, scales, strict=True))
    ]
    axis = _axis(np.hstack(blocks))
    positions = _positions(views, scales, axis) / np.sqrt(np.maximum(views.present @ weights, 1e-12))
    positions = positions - positions.mean()
    positions /= max(float(positions.std()), 1e-12)
    loadings = [_loadings(Z, positions[chosen], some.rows(a)) for a, Z in enumerate(blocks)]
    sign = _sign(np.concatenate(loadings))
    return ConsensusAxis(
        pd.Series(sign * positions, index=views.ids, name="position"),
        {
            name: _listed(views.feature_names[name], sign * found)
            for name, found in zip(views.names, loadings, strict=True)
        },
        pd.Series([float((found**2).mean()) for found in loadings], index=views.names, name="explained"),
    )


@dataclass(frozen=True, eq=False)
class _Scale:
    """Standardises the features of a view (d), and divides them by their largest singular value."""

    centre: Array
    spread: Array
    factor: float

    @classmethod
    def of(cls, X: Any, weight: float) -> _Scale:
        """That of the samples that have the view."""
        part = dense(X)
        centre, spread = part.mean(axis=0), part.std(axis=0)
        spread = np.where(spread > 1e-12, spread, 1.0)
        Z = (part - centre) / spread
        largest = float(np.linalg.norm(Z @ _axis(Z))) if len(Z) else 0.0
        return cls(centre, spread, np.sqrt(weight) / max(largest, 1e-12))

    def apply(self, X: Any, rows: Array) -> Array:
        """Scaled features of all samples; zeros where a sample lacks the view."""
        Z = np.zeros(X.shape)
        Z[rows] = self.factor * (dense(X[rows]) - self.centre) / self.spread
        return Z


def _axis(Z: Array) -> Array:
    """The first right singular vector."""
    if min(Z.shape) < 3:
        return np.asarray(np.linalg.svd(Z, full_matrices=False)[2][0])
    return np.asarray(svds(Z, k=1, v0=np.ones(min(Z.shape)))[2][0])


def _positions(views: Views, scales: Sequence[_Scale], axis: Array) -> Array:
    """Positions of all samples along an axis of the scaled features, a block of samples at a time."""
    parts = np.split(axis, np.cumsum(views.n_features)[:-1])
    positions = np.zeros(len(views))
    for start in range(0, len(views), MOST_SAMPLES):
        block = views[np.arange(start, min(start + MOST_SAMPLES, len(views)))]
        for a, (scale, part) in enumerate(zip(scales, parts, strict=True)):
            positions[start : start + len(block)] += scale.apply(block.blocks[a], block.rows(a)) @ part
    return positions


def _loadings(Z: Array, positions: Array, rows: Array) -> Array:
    """Correlation of each feature with the positions, over the samples that have the view."""
    t, Z = positions[rows] - positions[rows].mean(), Z[rows]
    scale = np.linalg.norm(t) * np.linalg.norm(Z, axis=0)
    return np.asarray(Z.T @ t / np.where(scale > 1e-12, scale, np.inf))


def _sign(loadings: Array) -> float:
    """The sign that makes the largest loading positive."""
    return 1.0 if loadings[np.abs(loadings).argmax()] >= 0.0 else -1.0


def _listed(names: Array, loadings: Array) -> pd.DataFrame:
    order = np.argsort(-np.abs(loadings), kind="stable")
    return pd.DataFrame({"feature": np.asarray(names)[order], "loading": loadings[order]})
