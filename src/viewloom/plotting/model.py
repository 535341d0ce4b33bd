"""Figures of models: weights, memberships, agreement of views, selection of parameters."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from viewloom.data.naming import cluster_names
from viewloom.evaluation.comparison import DISTANCES, Comparison
from viewloom.evaluation.inspection import ViewContributions
from viewloom.plotting.style import (
    AMBIGUOUS,
    GREY,
    NOTHING,
    OKABE_ITO,
    PALE,
    SEQUENTIAL,
    SHARES,
    SMALL,
    WIDTH,
    add_colour_scale,
    axes_or_new,
    count_text,
    label_line_ends,
    line_style,
    list_size,
    most_lines,
    name_columns,
    name_rows,
    set_few_ticks,
    set_labels,
    shortened,
    symmetric_limit,
    text_width,
    wrapped_names,
    write_numbers,
)

Array = np.ndarray
OPEN_BIN = 1.0  # width at which an open bin is drawn
NEARLY_EQUAL = 0.1  # range of view weights, relative to equal ones
MARGIN = 0.02  # share of membership by which a view matters clearly more than the next one
QUANTILES = [0.05, 0.25, 0.5, 0.75, 0.95]  # of the samples that `view_agreement` shows


def comparison(result: Comparison, ax: Axes | None = None, *, score: str = "NMI") -> Axes:
    """One score of every method: mean and spread over seeds, with the best at the top.

    Methods whose score is not known come last.

    Parameters
    ----------
    result : Comparison
    ax : Axes, optional
    score : {"NMI", "Acc", "ARI", "RI", "MI"}

    Examples
    --------
    >>> import viewloom as vl
    >>> views, y = vl.simulate.blobs_views(60, random_state=0)
    >>> result = vl.compare(views, y, methods=["k-means", "ours, diffusion"], seeds=1)
    >>> ax = vl.plotting.comparison(result, score="ARI")
    >>> len(ax.get_yticklabels())
    2
    """
    rising = score not in DISTANCES
    table = result.table.sort_values(score, kind="stable", ascending=rising, na_position="first")
    names = wrapped_names(table.index)
    ax = axes_or_new(ax, *list_size(names))
    rows = np.arange(len(table))
    oracle = table.index.str.contains("oracle")
    colours = np.where(table.index.str.startswith("ours"), OKABE_ITO[0], GREY)
    colours = np.where(oracle, PALE, colours)
    ax.hlines(rows, table[score] - table[f"{score}_sd"], table[score] + table[f"{score}_sd"], color=PALE)
    ax.scatter(table[score], rows, c=colours, s=16, zorder=3)
    name_rows(ax, names, rows)
    ax.set_ylim(-0.6, len(table) - 0.4)
    ax.set_xlim(left=float(table[score].min(skipna=True)) if (table[score] < 0.0).any() else 0.0)
    for row in rows[table[score].isna()]:
        ax.annotate(
            " not shown", (0.0, row), xycoords=("axes fraction", "data"), va="center", color=GREY, size=SMALL
        )
    better = "; lower is better" if score in DISTANCES else ""
    set_labels(
        ax,
        _leading(table[score] if oracle.all() else table.loc[~oracle, score]),
        f"{score}, mean and spread over seeds (blue: ours; pale: chosen with labels{better})",
        "",
    )
    return ax


def _leading(scores: pd.Series) -> str:
    """The best methods, which come last; those that are equal as shown are named together."""
    known = scores.dropna()
    if known.empty:
        return "No score is shown"
    of_shown = " shown" if len(known) < len(scores) else ""
    best = known.index[known.round(2) == round(known.iloc[-1], 2)][::-1]
    return f"Best score{of_shown}: {joined_names(best)} ({known.iloc[-1]:.2g})"


def joined_names(names: Iterable[Any]) -> str:
    """Up to three names, and how many more.

    >>> joined_names("ab"), joined_names("abcde")
    ('a and b', 'a, b, c and 2 more')
    """
    shown = [shortened(name) for name in names]
    parts = shown if len(shown) <= 3 else [*shown[:3], f"{len(shown) - 3} more"]
    return " and ".join(filter(None, (", ".join(parts[:-1]), parts[-1])))


def position_counts(bins: pd.DataFrame, ax: Axes | None = None) -> Axes:
    """Numbers of samples along an axis, between the positions ``low`` and ``high``.

    Parameters
    ----------
    bins : DataFrame
        Columns ``low``, ``high`` and ``counts``; the first and the last bin may be open (NaN or infinite).
    ax : Axes, optional

    Examples
    --------
    >>> bins = pd.DataFrame({"low": [np.nan, 0.0], "high": [0.0, np.nan], "counts": [20, 30]})
    >>> position_counts(bins).get_ylabel()
    'samples per standard deviation'
    """
    low, high = bins["low"].to_numpy(dtype=float), bins["high"].to_numpy(dtype=float)
    low = np.where(np.isfinite(low), low, np.nanmin(high[np.isfinite(high)], initial=0.0) - OPEN_BIN)
    high = np.where(np.isfinite(high), high, np.nanmax(low, initial=0.0) + OPEN_BIN)
    ax = axes_or_new(ax, 4.0, 2.4)
    heights = bins["counts"].to_numpy(dtype=float) / (high - low)
    ax.bar(low, heights, high - low, align="edge", color=OKABE_ITO[0], alpha=0.6, edgecolor="white")
    for left, right, height, count in zip(low, high, heights, bins["counts"], strict=True):
        ax.annotate(f"{count:.0f}", ((left + right) / 2, height), ha="center", va="bottom", fontsize=7)
    title = "Samples vary along one axis"
    set_labels(ax, title, "position on the leading axis (SD)", "samples per standard deviation")
    return ax


def view_weights(result: Any, ax: Axes | None = None, *, intervals: pd.DataFrame | None = None) -> Axes:
    """Learned weight of every view; with several seeds the mean, and each seed as a dot.

    Parameters
    ----------
    result : fitted estimator, or DataFrame of `inspection.weights_over_seeds`
    ax : Axes, optional
    intervals : DataFrame, optional
        ``low`` and ``high`` of each view, as in `inspection.uncertainty`. The title then says which view
        has the largest weight only if its interval lies above those of the others.

    Examples
    --------
    >>> import viewloom as vl
    >>> views, y = vl.simulate.three_kinds(20, random_state=0)
    >>> model = vl.KernelMultiviewNMF(3, random_state=0).fit(views)
    >>> ax = vl.plotting.view_weights(model)
    >>> ax.get_xlabel()
    'view weight (line: equal weights)'
    """
    weights = _weights_frame(result)
    means = weights.mean().sort_values(kind="stable")
    names = wrapped_names(means.index)
    ax = axes_or_new(ax, *list_size(names))
    rows = np.arange(len(means))
    ax.axvline(1.0 / len(means), color=PALE, linewidth=0.8, zorder=0)
    if len(weights) > 1:
        seeds = weights[means.index]
        ax.hlines(rows, seeds.min(), seeds.max(), color=PALE, linewidth=2.0, zorder=1)
        ax.plot(seeds.to_numpy().T, rows, ".", color=GREY, markersize=3, alpha=0.6, zorder=2)
    most = max(float(weights.to_numpy().max()), 1.0 / len(means))
    if intervals is not None:
        low, high = (intervals.loc[means.index, name].to_numpy(dtype=float) for name in ("low", "high"))
        ax.hlines(rows, low, high, color=OKABE_ITO[0], linewidth=1.2, zorder=2)
        most = max(most, float(np.nanmax(high, initial=0.0)))
    ax.plot(means, rows, "o", color=OKABE_ITO[0], markersize=5, zorder=3)
    name_rows(ax, names, rows)
    ax.set_ylim(-0.6, len(means) - 0.4)
    ax.set_xlim(0.0, 1.05 * most)
    over = f"; mean, range and dots of {len(weights)} seeds" if len(weights) > 1 else ""
    title = _weights_title(means) if intervals is None else _parted_title(intervals.loc[means.index], means)
    set_labels(ax, title, f"view weight (line: equal weights{over})", "")
    return ax


def objective(model: Any, ax: Axes | None = None) -> Axes:
    """Objective against iteration.

    Parameters
    ----------
    model : fitted estimator
    ax : Axes, optional

    Examples
    --------
    >>> import viewloom as vl
    >>> views, y = vl.simulate.three_kinds(20, random_state=0)
    >>> model = vl.KernelMultiviewNMF(3, random_state=0).fit(views)
    >>> ax = vl.plotting.objective(model)
    >>> len(ax.lines[0].get_xdata()) == model.n_iter_
    True
    """
    values = np.asarray(model.history_["objective"], dtype=float)
    ax = axes_or_new(ax, WIDTH, 2.2)
    marker = "o" if len(values) <= 30 else ""
    ax.plot(
        np.arange(1, len(values) + 1), values, marker=marker, markersize=3, color=OKABE_ITO[0], linewidth=1.2
    )
    ax.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=6))
    ax.yaxis.set_major_formatter("{x:.7g}")  # no separate power of ten
    ended = "Converged" if model.converged_ else "Not converged"
    fall = 1.0 - values[-1] / values[0] if values[0] else 0.0
    fell = f"{fall:.1%}" if not 0.0 < fall < 0.001 else "less than 0.1%"
    title = f"{ended} after {count_text(len(values), 'iteration')}; the objective fell by {fell}"
    set_labels(ax, title, "iteration", "objective (Eq. 4)")
    return ax


def memberships(result: Any, ax: Axes | None = None, *, names: Sequence[Any] | None = None) -> Axes:
    """Heat map of consensus memberships: samples in columns, sorted by cluster and certainty.

    Parameters
    ----------
    result : fitted estimator, or (n, k) array of memberships
    ax : Axes, optional
    names : sequence of str, optional
        Names of the clusters; by default numbers from 1.

    Examples
    --------
    >>> import viewloom as vl
    >>> views, y = vl.simulate.three_kinds(20, random_state=0)
    >>> model = vl.KernelMultiviewNMF(3, random_state=0).fit(views)
    >>> ax = vl.plotting.memberships(model)
    >>> ax.images[0].get_array().shape  # clusters x samples
    (3, 60)
    """
    U = np.asarray(getattr(result, "memberships_", result), dtype=float)
    n, k = U.shape
    labels, top = U.argmax(axis=1), U.max(axis=1)
    order = np.lexsort((-top, labels))
    sizes = np.bincount(labels, minlength=k)
    ax = axes_or_new(ax, WIDTH, 1.2 + 0.17 * max(k, 5))
    image = ax.imshow(U[order].T, aspect="auto", interpolation="nearest", **SHARES)
    add_colour_scale(ax, image, "membership")
    for edge in np.cumsum(sizes)[:-1]:
        ax.axvline(edge - 0.5, color="white", linewidth=0.5)
    name_rows(ax, _with_sizes(sizes, names))
    ambiguous = int((top < AMBIGUOUS).sum())
    title = f"{ambiguous} of {n} samples are ambiguous (largest membership below {AMBIGUOUS})"
    set_labels(ax, title, "samples, sorted by cluster and certainty", "cluster")
    return ax


def view_agreement(result: ViewContributions, ax: Axes | None = None) -> Axes:
    """Agreement of each view alone with the consensus: median, quartiles, and 5 to 95 % of the samples.

    Parameters
    ----------
    result : ViewContributions
    ax : Axes, optional

    Examples
    --------
    >>> import viewloom as vl
    >>> views, y = vl.simulate.three_kinds(20, random_state=0)
    >>> model = vl.KernelMultiviewNMF(3, random_state=0).fit(views)
    >>> contributions = vl.inspection.view_contributions(model)
    >>> ax = vl.plotting.view_agreement(contributions)
    >>> len(ax.get_yticklabels())
    3
    """
    overlap = pd.DataFrame(result.overlap, columns=pd.Index(result.view_names))
    return agreement_rows(overlap.quantile(QUANTILES).T, ax)


def agreement_rows(quantiles: pd.DataFrame, ax: Axes | None = None) -> Axes:
    """`view_agreement` of quantiles: 5, 25, 50, 75 and 95 % (columns) of each view (rows)."""
    ordered = quantiles.iloc[np.argsort(quantiles[0.5], kind="stable")]
    best = ordered[0.5].iloc[-1]
    names = joined_names(ordered.index[ordered[0.5].round(2) == round(best, 2)][::-1])
    title = f"Closest to the consensus alone: {names} (median {best:.2f})"
    label = "membership shared with the consensus (median, quartiles, 5-95 % of samples)"
    return quantile_rows(ordered, title, label, ax)


def quantile_rows(quantiles: pd.DataFrame, title: str, label: str, ax: Axes | None = None) -> Axes:
    """Five quantiles (columns) of each named row, from below: a dot, a thick and a thin line."""
    names, rows = wrapped_names(quantiles.index), np.arange(len(quantiles))
    low, first, median, third, high = quantiles.to_numpy(dtype=float).T
    ax = axes_or_new(ax, *list_size(names))
    ax.hlines(rows, low, high, color=PALE, linewidth=1.2)
    ax.hlines(rows, first, third, color=OKABE_ITO[0], linewidth=4.0, alpha=0.5)
    ax.plot(median, rows, "o", color=OKABE_ITO[0], markersize=5)
    name_rows(ax, names, rows)
    ax.set_xlim(0.0, 1.02)
    ax.set_ylim(-0.6, len(rows) - 0.4)
    set_labels(ax, title, label, "")
    return ax


def draw_intervals(ax: Axes, table: pd.DataFrame, below: float = 0.0) -> None:
    """Draw ``value`` with ``low`` and ``high`` of each row, at or below its position."""
    rows = np.arange(len(table)) - below
    value, low, high = (table[name].to_numpy(dtype=float) for name in ("value", "low", "high"))
    ax.hlines(rows, low, high, color=GREY, linewidth=1.2)
    ax.plot(value, rows, "d", color=GREY, markersize=3)


def view_contributions(
    result: ViewContributions, ax: Axes | None = None, *, names: Sequence[Any] | None = None
) -> Axes:
    """Mean change of memberships if a view is left out, by cluster: which view defines which cluster.

    Parameters
    ----------
    result : ViewContributions
    ax : Axes, optional
    names : sequence of str, optional
        Names of the clusters; by default numbers from 1.

    Examples
    --------
    >>> import viewloom as vl
    >>> views, y = vl.simulate.three_kinds(20, random_state=0)
    >>> model = vl.KernelMultiviewNMF(3, random_state=0).fit(views)
    >>> contributions = vl.inspection.view_contributions(model)
    >>> ax = vl.plotting.view_contributions(contributions)
    >>> ax.images[0].get_array().shape  # clusters x views
    (3, 3)
    """
    sizes = np.bincount(result.labels, minlength=result.consensus.shape[1])
    return contribution_map(result, _with_sizes(sizes, names), ax)


def contribution_map(result: ViewContributions, clusters: Sequence[str], ax: Axes | None = None) -> Axes:
    """`view_contributions` with names of rows."""
    means = result.by_cluster()
    k, v = means.shape
    views = wrapped_names(result.view_names)
    slant = 0.7 * text_width(views) / 72.0  # width and height of rotated names in inches
    beside = text_width(clusters) / 72.0
    ax = axes_or_new(ax, max(WIDTH, 1.2 + beside + 0.42 * v, 2.0 + slant), 0.9 + slant + 0.19 * max(k, 4))
    values = means.to_numpy(dtype=float)
    image = ax.imshow(
        values, aspect="auto", cmap=SEQUENTIAL, vmin=0.0, vmax=max(symmetric_limit(values), 5 * NOTHING)
    )
    add_colour_scale(ax, image, "change of membership")
    name_rows(ax, clusters)
    name_columns(ax, views)
    write_numbers(ax, image, values)
    set_labels(ax, _contributions_title(result), "view left out", "cluster")
    return ax


def weights_over_gamma(weights: pd.DataFrame, ax: Axes | None = None) -> Axes:
    """View weights for several values of gamma: a single view at 1, equal weights at large values.

    Parameters
    ----------
    weights : DataFrame of `inspection.weights_over_gamma`
    ax : Axes, optional

    Examples
    --------
    >>> import viewloom as vl
    >>> views, y = vl.simulate.three_kinds(20, random_state=0)
    >>> model = vl.KernelMultiviewNMF(3, random_state=0).fit(views)
    >>> weights = vl.inspection.weights_over_gamma(model, views, [1.0, 2.0, 8.0])
    >>> ax = vl.plotting.weights_over_gamma(weights)
    >>> ax.get_xlabel()
    'gamma (exponent of the weights)'
    """
    weights = weights.sort_index()
    gammas = weights.index.to_numpy(dtype=float)
    v, names = weights.shape[1], wrapped_names(weights.columns)
    width = max(WIDTH, 2.2 + text_width(names) / 72.0)
    ax = axes_or_new(ax, width, max(2.3, 1.0 + 0.14 * v * most_lines(names)))
    ax.axhline(1.0 / v, color=PALE, linewidth=0.8, zorder=0)
    for a, name in enumerate(weights.columns):
        ax.plot(gammas, weights[name], marker="o", markersize=2.5, linewidth=1.2, **line_style(a))
    ax.set_ylim(-0.02, 1.02)
    if (gammas > 0).all():
        ax.set_xscale("log")
        set_few_ticks(ax, gammas)
    label_line_ends(ax, gammas[-1], weights.iloc[-1].to_numpy(dtype=float), names)
    set_labels(ax, _gamma_title(weights), "gamma (exponent of the weights)", "view weight (line: equal)")
    return ax


def stability(result: Any, ax: Axes | None = None) -> Axes:
    """Stability of the clustering by number of clusters, compared with data without clusters.

    Parameters
    ----------
    result : object with `table` and `recommended`
        For example the result of `viewloom.choose_k`. `table` has columns ``k``, ``stability`` and, if
        known, ``twin_stability`` and ``pac`` (share of ambiguous pairs).
    ax : Axes, optional

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> import pandas as pd
    >>> import viewloom as vl
    >>> shares = {"stability": [0.6, 0.98, 0.9], "twin_stability": [0.4, 0.6, 0.6]}
    >>> found = pd.DataFrame({"k": [2, 3, 4], **shares})
    >>> result = SimpleNamespace(table=found, recommended=3)  # as `viewloom.choose_k` gives it
    >>> vl.plotting.stability(result).get_xlabel()
    'number of clusters k'
    """
    table = result.table.sort_values("k")
    curves: list[tuple[str, str, dict[str, Any]]] = [
        ("stability", "stability", {"color": OKABE_ITO[0], "marker": "o", "linestyle": "-"}),
        ("twin_stability", "stability\nby chance", {"color": GREY, "marker": "s", "linestyle": "--"}),
        (
            "pac",
            "ambiguous pairs\n(PAC; low is good)",
            {"color": OKABE_ITO[1], "marker": "^", "linestyle": ":"},
        ),
    ]
    known = [(column, label, style) for column, label, style in curves if column in table]
    ax = axes_or_new(ax, WIDTH, 2.3)
    for column, _, style in known:
        ax.plot(table["k"], table[column], markersize=3.5, linewidth=1.2, **style)
    if result.recommended is not None:
        ax.axvline(result.recommended, color=PALE, linewidth=4.0, alpha=0.6, zorder=0)
    ax.set_ylim(-0.02, 1.05)
    set_few_ticks(ax, table["k"].to_numpy(dtype=float))
    ends = np.array([table[column].iloc[-1] for column, _, _ in known], dtype=float)
    labels, colours = [label for _, label, _ in known], [style["color"] for _, _, style in known]
    label_line_ends(ax, float(table["k"].iloc[-1]), ends, labels, colours)
    set_labels(ax, _stability_title(result.recommended), "number of clusters k", "share")
    return ax


def consensus_matrix(
    C: Any, labels: Any, ax: Axes | None = None, *, names: Sequence[Any] | None = None
) -> Axes:
    """Heat map of how often pairs of samples are in the same cluster, sorted by cluster.

    Parameters
    ----------
    C : (n, n) array
        Share of runs in which two samples are in the same cluster.
    labels : (n,) array
    ax : Axes, optional
    names : sequence of str, optional
        Names of the clusters, by label; by default integer labels are shown as numbers from 1.

    Examples
    --------
    >>> import viewloom as vl
    >>> labels = [[0, 0, 1, 1], [1, 1, 0, 0], [0, 0, 0, 1]]
    >>> C = vl.selection.consensus_matrix(labels)
    >>> vl.plotting.consensus_matrix(C, labels[0]).images[0].get_array().shape
    (4, 4)
    """
    C, labels = np.asarray(C, dtype=float), np.asarray(labels)
    clusters, codes = np.unique(labels, return_inverse=True)
    together = codes[:, None] == codes
    order = np.lexsort((-np.where(together, C, 0.0).mean(axis=1), codes))
    ax = axes_or_new(ax, WIDTH, 3.0)
    image = ax.imshow(C[np.ix_(order, order)], interpolation="nearest", **SHARES)
    add_colour_scale(ax, image, "share of runs together")
    edges = np.concatenate([[0], np.cumsum(np.bincount(codes))]) - 0.5
    for edge in edges[1:-1]:
        ax.axhline(edge, color="white", linewidth=0.5)
        ax.axvline(edge, color="white", linewidth=0.5)
    middles = (edges[:-1] + edges[1:]) / 2.0
    shown = wrapped_names(cluster_names(clusters.tolist(), names))
    name_rows(ax, shown, middles)
    name_columns(ax, shown, middles)
    set_labels(ax, _consensus_title(C, together), "samples, by cluster", "samples, by cluster")
    return ax


def _with_sizes(sizes: Array, names: Sequence[Any] | None) -> list[str]:
    """Names of clusters with their sizes."""
    clusters = wrapped_names(cluster_names(range(len(sizes)), names))
    return [f"{name} (n={size})" for name, size in zip(clusters, sizes, strict=True)]


def _weights_frame(result: Any) -> pd.DataFrame:
    """Weights with views in columns, one row per seed."""
    if isinstance(result, pd.DataFrame):
        return result
    return pd.DataFrame([result.view_weights_], columns=pd.Index(result.view_names_))


def _weights_title(means: pd.Series) -> str:
    if len(means) == 1:
        return "A single view has all the weight"
    if means.iloc[-1] - means.iloc[0] < 0.01:
        return "All views have equal weight"
    most, least = shortened(means.index[-1]), shortened(means.index[0])
    return f"{most} has the largest weight ({means.iloc[-1]:.2f}), {least} the smallest ({means.iloc[0]:.2f})"


def _parted_title(bounds: pd.DataFrame, means: pd.Series) -> str:
    """The view whose interval lies above those of the others, if there is one; views are in rising order."""
    spread = means.iloc[-1] - means.iloc[0]
    if len(means) < 2 or spread < 0.01:
        return _weights_title(means)
    if spread < NEARLY_EQUAL / len(means):
        return "All views have nearly equal weight"
    if bounds["low"].iloc[-1] > bounds["high"].iloc[:-1].max():
        return f"{shortened(means.index[-1])} has the largest weight ({means.iloc[-1]:.2f})"
    return "Intervals overlap: no view clearly has the largest weight"


def _contributions_title(result: ViewContributions) -> str:
    """The views that matter clearly more than the next one (`MARGIN`) to some cluster."""
    defining = result.defining_views()
    if defining.empty:
        return "With a single view there is nothing to leave out"
    if symmetric_limit(result.by_cluster().to_numpy(dtype=float)) < NOTHING:
        return f"No single view is decisive: leaving one out changes less than {NOTHING:.0%} of memberships"
    change = result.by_cluster().loc[defining.index].to_numpy(dtype=float)
    ordered = np.sort(np.nan_to_num(change), axis=1)
    clear = ordered[:, -1] - ordered[:, -2] >= MARGIN
    counts = defining[clear].value_counts()
    if counts.empty:
        return "No cluster depends clearly on one view more than on the others"
    if len(counts) == 1 and clear.all():
        return f"Leaving out {shortened(counts.index[0])} changes every cluster most"
    found = [f"{shortened(view)} for {count_text(n, 'cluster')}" for view, n in counts.iloc[:3].items()]
    return f"View that matters most: {', '.join(found)}"


def _gamma_title(weights: pd.DataFrame) -> str:
    first, last = weights.iloc[0], weights.iloc[-1]
    heaviest = shortened(first.idxmax())
    alone = f"only {heaviest} counts" if first.max() > 0.99 else f"{heaviest} leads ({first.max():.2f})"
    end = "weights are equal" if np.ptp(last) < 0.05 else f"weights are {last.min():.2f} to {last.max():.2f}"
    return f"At gamma = {weights.index[0]:g} {alone}; at {weights.index[-1]:g} {end}"


def _stability_title(recommended: int | None) -> str:
    if recommended is None:
        return "No number of clusters is stable beyond chance"
    return f"{count_text(recommended, 'cluster')} recommended (grey band)"


def _consensus_title(C: Array, together: Array) -> str:
    pairs = ~np.eye(len(C), dtype=bool)
    parts = [(C[pairs & together], "of one cluster"), (C[pairs & ~together], "of different clusters")]
    said = [
        f"{np.nanmean(values):.0%} of runs if {which}" for values, which in parts if np.isfinite(values).any()
    ]
    return f"Pairs are together in {', '.join(said)}" if said else "A single sample"
