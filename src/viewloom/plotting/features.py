"""Figures of feature importance and cluster profiles."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from viewloom.plotting.style import (
    DIVERGING,
    GREY,
    LARGE,
    PLAIN,
    SMALL,
    add_colour_scale,
    axes_or_new,
    count_text,
    grid_axes,
    map_size,
    map_style,
    name_columns,
    name_rows,
    remove_frame,
    set_labels,
    shortened,
    symmetric_limit,
    wrapped_names,
)
from viewloom.runtime.errors import InputError

Array = np.ndarray


def feature_importance(importance: pd.DataFrame, ax: Axes | None = None, *, top: int = 15) -> Axes:
    """Heat map of feature importance by cluster, sorted by importance, as in Figure 2 of the paper.

    The large map shows the `top` features, the narrow map to its right all features of the view.

    Parameters
    ----------
    importance : DataFrame of `feature_importance`
    ax : Axes, optional
    top : int, default=15

    Examples
    --------
    >>> import viewloom as vl
    >>> views, y = vl.simulate.three_kinds(20, random_state=0)
    >>> model = vl.KernelMultiviewNMF(3, random_state=0).fit(views)
    >>> ax = vl.plotting.feature_importance(model.feature_importance("noise"), top=3)
    >>> ax.images[0].get_array().shape  # features x clusters
    (3, 3)
    """
    ranked = importance.sort_values("importance", ascending=False, kind="stable")
    values = ranked[[name for name in ranked.columns if str(name).startswith("cluster_")]].to_numpy(
        dtype=float
    )
    d, k = values.shape
    names = wrapped_names(ranked["feature"][:top])
    ax = axes_or_new(ax, *map_size(names, k, extra=0.5 * (d > top)))
    style = map_style(values)
    image = ax.imshow(values[:top], aspect="auto", **style)
    if d > top:
        _all_features(ax, values, top, style)
    add_colour_scale(ax, image, _importance_label(importance), beside=d > top)
    name_rows(ax, names)
    name_columns(ax, [str(j) for j in range(k)])
    set_labels(ax, _importance_title(ranked["importance"].to_numpy(dtype=float)), "cluster", "")
    return ax


def feature_importances(model: Any, axes: Any = None, *, top: int = 15) -> Array:
    """Feature importance of every view of a model, in one figure.

    Parameters
    ----------
    model : fitted estimator with `feature_importance`
    axes : sequence of Axes, optional
        One per view.
    top : int, default=15

    Returns
    -------
    array of Axes

    Examples
    --------
    >>> import viewloom as vl
    >>> views, y = vl.simulate.three_kinds(20, random_state=0)
    >>> model = vl.KernelMultiviewNMF(3, random_state=0).fit(views)
    >>> axes = vl.plotting.feature_importances(model, top=3)
    >>> len(axes)
    3
    """
    names = model.view_names_
    tables = [model.feature_importance(name) for name in names]
    if axes is None:
        rows = min(top, max(len(table) for table in tables))
        longest = wrapped_names(feature for table in tables for feature in table["feature"][:top])
        axes = grid_axes(len(names), map_size(longest, model.n_clusters, extra=0.5)[0], 1.4 + 0.15 * rows)
    axes = np.asarray(axes, dtype=object).ravel()
    if len(axes) < len(names):
        raise InputError(f"There are {len(names)} views, but {len(axes)} axes; pass one per view.")
    for ax, name, table in zip(axes, names, tables, strict=False):
        feature_importance(table, ax, top=top)
        ax.set_title(
            f"{wrapped_names([name])[0]}\n{ax.get_title(loc='left')}", loc="left", fontsize=LARGE, **PLAIN
        )
    for ax in axes[len(names) :]:
        ax.set_axis_off()
    return np.asarray(axes[: len(names)])


def cluster_profiles(profiles: pd.DataFrame, ax: Axes | None = None) -> Axes:
    """Heat map of mean z-scores of features (rows) in clusters (columns).

    Parameters
    ----------
    profiles : DataFrame of `inspection.cluster_profiles`
    ax : Axes, optional

    Examples
    --------
    >>> import viewloom as vl
    >>> views, y = vl.simulate.three_kinds(20, random_state=0)
    >>> model = vl.KernelMultiviewNMF(3, random_state=0).fit(views)
    >>> profiles = vl.inspection.cluster_profiles(views, model.labels_, "rings", ["rings_0", "rings_1"])
    >>> ax = vl.plotting.cluster_profiles(profiles)
    >>> ax.images[0].get_array().shape  # features x clusters
    (2, 3)
    """
    values = profiles.to_numpy(dtype=float)
    names = wrapped_names(profiles.index)
    ax = axes_or_new(ax, *map_size(names, values.shape[1]))
    limit = symmetric_limit(values)
    image = ax.imshow(values, aspect="auto", cmap=DIVERGING, vmin=-limit, vmax=limit)
    add_colour_scale(ax, image, "mean z-score (SD)")
    name_rows(ax, names)
    name_columns(ax, wrapped_names(profiles.columns))
    set_labels(ax, _profiles_title(profiles), "cluster", "")
    return ax


def _all_features(ax: Axes, values: Array, top: int, style: dict[str, Any]) -> None:
    """Draw a narrow map of all features next to the top features, with lines that mark their position."""
    strip = ax.inset_axes((1.08, 0.0, 0.14, 1.0))
    strip.imshow(values, aspect="auto", **style)
    strip.set_xticks([])
    strip.set_yticks([])
    strip.set_xlabel(f"all\n{len(values)}", fontsize=SMALL)
    remove_frame(strip)
    for here, there in ((1.0, 1.0), (0.0, 1.0 - top / len(values))):
        ax.plot(
            (1.005, 1.075), (here, there), color=GREY, linewidth=0.6, transform=ax.transAxes, clip_on=False
        )


def _importance_title(importance: Array) -> str:
    """Number of features with half of the importance, which is sorted."""
    total = np.cumsum(importance)
    half = int(np.searchsorted(total, total[-1] / 2.0)) + 1
    return f"Half of the importance lies in {half} of {count_text(len(importance), 'feature')}"


def _importance_label(importance: pd.DataFrame) -> str:
    permuted = importance.attrs.get("method") == "permutation"
    return "change of membership" if permuted else "loading F"


def _profiles_title(profiles: pd.DataFrame) -> str:
    sizes = np.nan_to_num(np.abs(profiles.to_numpy(dtype=float)))
    row, column = divmod(int(sizes.argmax()), sizes.shape[1])
    z, cluster = profiles.to_numpy(dtype=float)[row, column], shortened(profiles.columns[column])
    return f"Cluster {cluster} stands out most: {shortened(profiles.index[row])} at {z:+.1f} SD"
