"""Figures of feature importance and cluster profiles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from viewloom.data.naming import cluster_names
from viewloom.plotting.style import (
    DIVERGING,
    GREY,
    LARGE,
    OKABE_ITO,
    PLAIN,
    SHARES,
    SMALL,
    add_colour_scale,
    axes_or_new,
    count_text,
    grid_axes,
    list_size,
    map_size,
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
STRIP_ROWS = 400  # of the narrow map of all features
ROOM = 32  # letters of a name on a line


def feature_importance(
    importance: pd.DataFrame, ax: Axes | None = None, *, top: int = 15, names: Sequence[Any] | None = None
) -> Axes:
    """Heat map of feature importance by cluster, sorted by importance, as in Figure 2 of the paper.

    The large map shows the `top` features, the narrow map to its right all features of the view. Colours
    have one meaning whatever the kernel: the absolute importance in a cluster, relative to the largest of the
    view. The direction of a difference is shown by `cluster_profiles`.

    Parameters
    ----------
    importance : DataFrame of `feature_importance`
    ax : Axes, optional
    top : int, default=15
    names : sequence of str, optional
        Names of the clusters; by default numbers from 1.

    Examples
    --------
    >>> import viewloom as vl
    >>> views, y = vl.simulate.three_kinds(20, random_state=0)
    >>> model = vl.KernelMultiviewNMF(3, random_state=0).fit(views)
    >>> ax = vl.plotting.feature_importance(model.feature_importance("noise"), top=3)
    >>> ax.images[0].get_array().shape  # features x clusters
    (3, 3)
    """
    shown = ImportanceMap.of(importance, top)
    return shown.draw(ax, cluster_names(range(shown.strip.shape[1]), names))


@dataclass(frozen=True, eq=False)
class ImportanceMap:
    """What a figure of feature importance shows.

    Attributes
    ----------
    features : list of str
        The most important features.
    values : (f, k) array
        Their importance in each cluster, relative to the largest of the view.
    strip : (s, k) array
        The same of all features, or means of neighbours in the ranking if there are many.
    total : int
        Number of features of the view.
    half : int or None
        Number of those with half of the importance; None if the importance is not known.
    """

    features: list[str]
    values: Array
    strip: Array
    total: int
    half: int | None

    @classmethod
    def of(cls, importance: pd.DataFrame, top: int) -> ImportanceMap:
        """The map of a table of `feature_importance`."""
        ranked = importance.sort_values("importance", ascending=False, kind="stable")
        clusters = [name for name in ranked.columns if str(name).startswith("cluster_")]
        values = np.abs(ranked[clusters].to_numpy(dtype=float))
        values = values / symmetric_limit(values)
        parts = np.array_split(values, STRIP_ROWS) if len(values) > STRIP_ROWS else values[:, None]
        total = np.cumsum(ranked["importance"].to_numpy(dtype=float))
        return cls(
            features=[str(name) for name in ranked["feature"][:top]],
            values=values[:top],
            strip=np.array([part.mean(axis=0) for part in parts]).reshape(-1, values.shape[1]),
            total=len(values),
            half=int(np.searchsorted(total, total[-1] / 2.0)) + 1 if np.isfinite(total[-1:]).all() else None,
        )

    def draw(self, ax: Axes | None, clusters: Sequence[str]) -> Axes:
        """Draw the map with names of clusters."""
        names, more = wrapped_names(self.features, ROOM), self.total > len(self.features)
        ax = axes_or_new(ax, *map_size(names, self.values.shape[1], extra=0.5 * more))
        image = ax.imshow(self.values, aspect="auto", interpolation="nearest", **SHARES)
        if more:
            self._draw_strip(ax)
        add_colour_scale(ax, image, "importance (1: largest of the view)", beside=more)
        name_rows(ax, names)
        name_columns(ax, wrapped_names(clusters))
        features = count_text(self.total, "feature")
        half = f"Half of the importance lies in {self.half} of {features}"
        set_labels(ax, f"Importance of {features}" if self.half is None else half, "cluster", "")
        return ax

    def _draw_strip(self, ax: Axes) -> None:
        """Draw all features next to the top features, with lines that mark the position of these."""
        strip = ax.inset_axes((1.08, 0.0, 0.14, 1.0))
        strip.imshow(self.strip, aspect="auto", interpolation="nearest", **SHARES)
        strip.set_xticks([])
        strip.set_yticks([])
        strip.set_xlabel(f"all\n{self.total}", fontsize=SMALL)
        remove_frame(strip)
        line: dict[str, Any] = {"color": GREY, "linewidth": 0.6, "transform": ax.transAxes, "clip_on": False}
        for here, there in ((1.0, 1.0), (0.0, 1.0 - len(self.features) / self.total)):
            ax.plot((1.005, 1.075), (here, there), **line)


def feature_importances(
    model: Any, axes: Any = None, *, top: int = 15, names: Sequence[Any] | None = None
) -> Array:
    """Feature importance of every view of a model, in one figure.

    Parameters
    ----------
    model : fitted estimator with `feature_importance`
    axes : sequence of Axes, optional
        One per view.
    top : int, default=15
    names : sequence of str, optional
        Names of the clusters; by default numbers from 1.

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
    views = model.view_names_
    tables = [model.feature_importance(name) for name in views]
    if axes is None:
        rows = min(top, max(len(table) for table in tables))
        longest = wrapped_names((feature for table in tables for feature in table["feature"][:top]), ROOM)
        axes = grid_axes(len(views), map_size(longest, model.n_clusters, extra=0.5)[0], 1.4 + 0.15 * rows)
    axes = np.asarray(axes, dtype=object).ravel()
    if len(axes) < len(views):
        raise InputError(f"There are {len(views)} views, but {len(axes)} axes; pass one per view.")
    for ax, name, table in zip(axes, views, tables, strict=False):
        feature_importance(table, ax, top=top, names=names)
        ax.set_title(
            f"{wrapped_names([name])[0]}\n{ax.get_title(loc='left')}", loc="left", fontsize=LARGE, **PLAIN
        )
    for ax in axes[len(views) :]:
        ax.set_axis_off()
    return np.asarray(axes[: len(views)])


def explained_shares(table: pd.DataFrame, ax: Axes | None = None) -> Axes:
    """Shares of the variance of features that clusters explain, with intervals.

    Parameters
    ----------
    table : DataFrame
        One row per feature, in groups by view: ``feature``, ``view``, ``value``, ``low`` and ``high`` (as in
        `inspection.uncertainty`), and ``other``, the share explained by clusters of the other views (the
        effect of `inspection.importance_test`).
    ax : Axes, optional

    Examples
    --------
    >>> table = pd.DataFrame({"feature": ["a", "b"], "view": "mri", "value": [0.5, 0.2], "other": 0.1})
    >>> ax = explained_shares(table.assign(low=[0.4, 0.1], high=[0.6, 0.3]))
    >>> ax.get_title(loc="left")
    'Largest share: a, 50% (40% to 60%)'
    """
    shown = table.iloc[::-1].reset_index(drop=True)
    names = wrapped_names([f"{row.feature} ({row.view})" for row in shown.itertuples()], ROOM)
    ax = axes_or_new(ax, *list_size(names))
    rows = np.arange(len(shown))
    ax.plot(shown["other"], rows, "o", markerfacecolor="none", color=GREY, markersize=5)
    ax.hlines(rows, shown["low"], shown["high"], color=OKABE_ITO[0], linewidth=1.2)
    ax.plot(shown["value"], rows, "o", color=OKABE_ITO[0], markersize=4)
    name_rows(ax, names, rows)
    ax.set_ylim(-0.6, len(rows) - 0.4)
    ax.set_xlim(left=0.0)
    best = table.iloc[int(table["value"].to_numpy().argmax())]
    bounds = f"{best['low']:.0%} to {best['high']:.0%}"
    title = f"Largest share: {shortened(best['feature'])}, {best['value']:.0%} ({bounds})"
    set_labels(ax, title, "share of variance explained (ring: by the other views)", "")
    return ax


def cluster_profiles(
    profiles: pd.DataFrame, ax: Axes | None = None, *, names: Sequence[Any] | None = None
) -> Axes:
    """Heat map of mean z-scores of features (rows) in clusters (columns).

    Parameters
    ----------
    profiles : DataFrame of `inspection.cluster_profiles`
    ax : Axes, optional
    names : sequence of str, optional
        Names of the clusters, by label; by default integer labels are shown as numbers from 1.

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
    values, clusters = profiles.to_numpy(dtype=float), cluster_names(list(profiles.columns), names)
    features = wrapped_names(profiles.index, ROOM)
    ax = axes_or_new(ax, *map_size(features, values.shape[1]))
    limit = symmetric_limit(values)
    image = ax.imshow(values, aspect="auto", cmap=DIVERGING, vmin=-limit, vmax=limit)
    add_colour_scale(ax, image, "mean z-score (SD)")
    name_rows(ax, features)
    name_columns(ax, wrapped_names(clusters))
    set_labels(ax, _profiles_title(profiles.set_axis(clusters, axis=1)), "cluster", "")
    return ax


def _profiles_title(profiles: pd.DataFrame) -> str:
    sizes = np.nan_to_num(np.abs(profiles.to_numpy(dtype=float)))
    row, column = divmod(int(sizes.argmax()), sizes.shape[1])
    z, cluster = profiles.to_numpy(dtype=float)[row, column], shortened(profiles.columns[column])
    return f"Largest deviation: {shortened(profiles.index[row])} in cluster {cluster}, {z:+.1f} SD"
