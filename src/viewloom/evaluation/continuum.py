"""Positions of samples along the leading axis of all views, for data without distinct clusters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp
from scipy.sparse.linalg import svds

from viewloom.data.views import Views
from viewloom.models.kernel_nmf import KernelMultiviewNMF
from viewloom.runtime.errors import InputError

Array = np.ndarray


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
    from the others.

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
    blocks = [_standardised(X, views.rows(a)) for a, X in enumerate(views.blocks)]
    scaled = [np.sqrt(w) * Z / max(_largest(Z), 1e-12) for w, Z in zip(weights, blocks, strict=True)]
    positions = _leading(np.hstack(scaled)) / np.sqrt(np.maximum(views.present @ weights, 1e-12))
    positions = positions - positions.mean()
    positions /= max(float(positions.std()), 1e-12)
    loadings = [_loadings(Z, positions, views.rows(a)) for a, Z in enumerate(blocks)]
    sign = _sign(np.concatenate(loadings))
    return ConsensusAxis(
        pd.Series(sign * positions, index=views.ids, name="position"),
        {
            name: _listed(views.feature_names[name], sign * found)
            for name, found in zip(views.names, loadings, strict=True)
        },
        pd.Series([float((found**2).mean()) for found in loadings], index=views.names, name="explained"),
    )


def _standardised(X: Any, rows: Array) -> Array:
    """Standardised features of all samples; zeros where a sample lacks the view."""
    Z = np.zeros(X.shape)
    part = np.asarray(X[rows].toarray() if sp.issparse(X) else X[rows], dtype=np.float64)
    part = part - part.mean(axis=0)
    spread = part.std(axis=0)
    Z[rows] = part / np.where(spread > 1e-12, spread, 1.0)
    return Z


def _largest(Z: Array) -> float:
    return float(_triple(Z)[1])


def _leading(Z: Array) -> Array:
    return _triple(Z)[0]


def _triple(Z: Array) -> tuple[Array, float]:
    """The first left singular vector and singular value."""
    if min(Z.shape) < 3:
        U, s, _ = np.linalg.svd(Z, full_matrices=False)
        return U[:, 0], float(s[0])
    U, s, _ = svds(Z, k=1, v0=np.ones(min(Z.shape)))
    return U[:, 0], float(s[0])


def _loadings(Z: Array, positions: Array, rows: Array) -> Array:
    """Correlation of each feature with the positions, over the samples that have the view."""
    t = positions[rows] - positions[rows].mean()
    scale = np.linalg.norm(t) * np.sqrt(len(rows))
    return np.asarray(Z[rows].T @ t / max(float(scale), 1e-12))


def _sign(loadings: Array) -> float:
    """The sign that makes the largest loading positive."""
    return 1.0 if loadings[np.abs(loadings).argmax()] >= 0.0 else -1.0


def _listed(names: Array, loadings: Array) -> pd.DataFrame:
    order = np.argsort(-np.abs(loadings), kind="stable")
    return pd.DataFrame({"feature": np.asarray(names)[order], "loading": loadings[order]})
