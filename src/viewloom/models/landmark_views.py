"""Landmarks of a cohort: a few subjects, or means of similar ones, that represent all of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from viewloom.data.matrix import concatenated, placed_rows
from viewloom.data.views import Views
from viewloom.kernels.geometry import Geometry
from viewloom.kernels.operators import Factored, scaled
from viewloom.models.scaling import mixable, rows_of_views, scale_block

Array = np.ndarray
MEMBERS, CANDIDATES = 3, 30  # fewest samples of a mean, so that no single one can be recovered; nearest ones


def landmark_views(views: Views, scalers: Sequence[Any], count: int, rng: np.random.RandomState) -> Views:
    """Landmarks that follow the density of the samples.

    Every sample belongs to the cell of the nearest of `count` random samples, by the scaled features of all
    views. In every view, a landmark is the mean of the three samples of the cell nearest to the random one
    that have the view, so that most samples count for one landmark; where fewer have it, of the three nearest
    samples of any cell; and missing where these are not near. So no landmark is a sample. Landmarks without
    any view are dropped.

    Counts and categories have no mean that is like them: their landmark is the sample nearest to the mean of
    the scaled features of the cell. If there are at most `count` samples, they are returned unchanged.
    """
    if len(views) <= count:
        return views
    side = _features(views, scalers)
    chosen = np.sort(rng.choice(len(views), size=count, replace=False))
    distances, cells = (found[:, 0] for found in Geometry(side[chosen], "all views").nearest(side, 1))
    if not mixable(scalers):
        return views[_central(side, cells)]
    shares = _shares(views.present, cells, np.lexsort((distances, cells)), side, chosen)
    present = np.column_stack([np.diff(put.indptr) > 0 for put in shares])
    blocks = [_means(X, put) for X, put in zip(views.blocks, shares, strict=True)]
    return views.replaced(blocks=blocks, present=present, ids=None)[present.any(axis=1)]


def _features(views: Views, scalers: Sequence[Any]) -> Any:
    """Scaled features of all views (n x d), each of mean squared length one, zero for missing views."""
    return concatenated(
        [
            placed_rows(_unit(scale_block(scaler, X[rows])), rows, len(views))
            for X, scaler, rows in zip(views.blocks, scalers, rows_of_views(views.present), strict=True)
        ]
    )


def _unit(X: Any) -> Any:
    """Features of mean squared length one."""
    length = float(Factored(X).diagonal().mean())
    return X * (length**-0.5 if length > 0.0 else 1.0)


def _central(side: Any, cells: Array) -> Array:
    """Positions of the samples nearest to the mean of their cell, one of every cell that has samples."""
    put = _as_shares(cells, np.arange(len(cells)), (int(cells.max()) + 1, len(cells)))
    means = put @ side
    products = (side * means[cells]).sum(axis=1)
    gaps = Factored(side).diagonal() - 2.0 * products + Factored(means).diagonal()[cells]
    order = np.lexsort((gaps, cells))
    return np.sort(order[np.unique(cells[order], return_index=True)[1]])


def _shares(present: Array, cells: Array, order: Array, side: Any, chosen: Array) -> list[Any]:
    """Shares of the samples (columns) in the landmarks (rows), for every view.

    `order` has the samples by cells, those nearest to the `chosen` ones first.
    """
    sizes = np.column_stack([np.bincount(cells[seen], minlength=len(chosen)) for seen in present.T])
    few = np.flatnonzero((sizes < MEMBERS).any(axis=1))
    near = np.empty((0, 1), dtype=np.intp)
    if len(few):
        near = Geometry(side, "all views").nearest(side[chosen[few]], min(CANDIDATES, len(cells)))[1]
    found = []
    for seen, size in zip(present.T, sizes.T, strict=True):
        own = order[seen[order]]
        place = np.arange(len(own)) - np.repeat(np.cumsum(size) - size, size)  # in the cell
        own = own[(place < MEMBERS) & (size[cells[own]] >= MEMBERS)]
        group, member = _nearest_members(seen[near], near)
        small = size[few[group]] < MEMBERS
        rows = np.concatenate([cells[own], few[group[small]]])
        found.append(_as_shares(rows, np.concatenate([own, member[small]]), (len(chosen), len(cells))))
    return found


def _nearest_members(has: Array, near: Array) -> tuple[Array, Array]:
    """Row and sample of the first three candidates that have a view, of rows with at least three."""
    number = np.cumsum(has, axis=1)
    group, place = np.nonzero(has & (number <= MEMBERS) & (number[:, -1:] >= MEMBERS))
    return group, near[group, place]


def _as_shares(rows: Array, columns: Array, shape: tuple[int, int]) -> Any:
    """A matrix whose rows have equal entries at given places and sum to one."""
    put = sp.csr_array((np.ones(len(rows)), (rows, columns)), shape=shape)
    return scaled(put, 1.0 / np.maximum(np.diff(put.indptr), 1))


def _means(X: Any, put: Any) -> Any:
    """Means of samples by their shares, in the precision of the view; NaN for landmarks without it."""
    if sp.issparse(X):
        return sp.csr_array(put @ X).astype(X.dtype)
    used = np.zeros(len(X), dtype=bool)
    used[put.indices] = True
    means = put @ np.where(used[:, None], X, 0.0)
    means[np.diff(put.indptr) == 0] = np.nan
    return means.astype(X.dtype)
