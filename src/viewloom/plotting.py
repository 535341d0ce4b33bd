"""Figures: ``f(result, ax=None) -> ax``, one function each.

Every function draws on the axes it is given, or on a new figure the width of a journal column, and says in
the title what there is to see. Categories have the colours of Okabe and Ito, heat maps perceptually uniform
ones. Names from files are drawn as they are, never as formulas. For axes of your own, make the figure with
``layout="constrained"``, which leaves room for long names.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from textwrap import wrap
from typing import Any

import numpy as np
import pandas as pd
from sklearn.isotonic import isotonic_regression

from viewloom.comparison import DISTANCES, Comparison
from viewloom.inspection import ViewContributions

try:
    from matplotlib import pyplot
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.font_manager import FontProperties, findfont, get_font
    from matplotlib.image import AxesImage
    from matplotlib.ticker import MaxNLocator, NullFormatter
except ImportError as error:
    raise ImportError("Figures need matplotlib: pip install viewloom[plot]") from error

__all__ = [
    "cluster_profiles",
    "comparison",
    "consensus_matrix",
    "feature_importance",
    "feature_importances",
    "memberships",
    "objective",
    "stability",
    "view_agreement",
    "view_contributions",
    "view_weights",
    "weights_over_gamma",
]

Array = np.ndarray
# yellow, which is illegible as text, gives way to grey
OKABE_ITO = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999999")
DASHES = ("-", "--", ":", "-.")  # for more lines than colours
GREY, PALE = "#666666", "#BBBBBB"
SEQUENTIAL, DIVERGING = "cividis", "PuOr"
SHARES: dict[str, Any] = {"cmap": SEQUENTIAL, "vmin": 0.0, "vmax": 1.0}
PLAIN: dict[str, Any] = {"parse_math": False, "usetex": False}  # text that may hold anything
WIDTH = 3.5  # inches: a journal column
LARGE, SMALL, LEAST = 8.0, 7.0, 4.5  # font sizes in points
LETTER = 0.58  # mean width of a letter, in font sizes
NOTHING = 0.01  # a share of membership too small to speak of
FOR_FILES: ContextVar[bool] = ContextVar("FOR_FILES", default=False)  # see `for_files`
TORN = 0.6  # a sample whose largest membership is below this is torn


def comparison(result: Comparison, ax: Axes | None = None, *, score: str = "NMI") -> Axes:
    """One score of every method: mean over seeds, and its spread, best at the top.

    Parameters
    ----------
    result : Comparison
    ax : Axes, optional
    score : {"NMI", "Acc", "ARI", "RI", "MI"}

    Examples
    --------
    >>> import viewloom as vl
    >>> from matplotlib.figure import Figure
    >>> from viewloom import plotting
    >>> views, y = vl.simulate.blobs_views(60, random_state=0)
    >>> result = vl.compare(views, y, methods=["k-means", "ours, diffusion"], seeds=1)
    >>> ax = plotting.comparison(result, Figure().subplots(), score="ARI")
    >>> len(ax.get_yticklabels())
    2
    """
    table = result.table.sort_values(score, kind="stable", ascending=score not in DISTANCES)
    names = _wrapped(table.index)
    ax = _axes(ax, *_list_size(names))
    rows = np.arange(len(table))
    oracle = table.index.str.contains("oracle")
    colours = np.where(table.index.str.startswith("ours"), OKABE_ITO[0], GREY)
    colours = np.where(oracle, PALE, colours)
    ax.hlines(rows, table[score] - table[f"{score}_sd"], table[score] + table[f"{score}_sd"], color=PALE)
    ax.scatter(table[score], rows, c=colours, s=16, zorder=3)
    _named_rows(ax, names, rows)
    ax.set_ylim(-0.6, len(table) - 0.4)
    ax.set_xlim(left=min(0.0, float(table[score].min())))
    leading = [*table.index, *table.index[~oracle]][-1]
    better = "; lower is better" * (score in DISTANCES)
    _labels(
        ax,
        f"{_short(leading)} leads",
        f"{score}, mean and spread over seeds (blue: ours; pale: chosen with labels{better})",
        "",
    )
    return ax


def view_weights(result: Any, ax: Axes | None = None) -> Axes:
    """Learned weight of every view; with several seeds their mean, and each seed as a dot.

    Parameters
    ----------
    result : fitted estimator, or DataFrame of `inspection.weights_over_seeds`
    ax : Axes, optional

    Examples
    --------
    >>> import viewloom as vl
    >>> from matplotlib.figure import Figure
    >>> from viewloom import plotting
    >>> views, y = vl.simulate.three_kinds(20, random_state=0)
    >>> model = vl.KernelMultiviewNMF(3, random_state=0).fit(views)
    >>> ax = plotting.view_weights(model, Figure().subplots())
    >>> ax.get_xlabel()
    'view weight (line: equal weights)'
    """
    weights = _weights_frame(result)
    means = weights.mean().sort_values(kind="stable")
    names = _wrapped(means.index)
    ax = _axes(ax, *_list_size(names))
    rows = np.arange(len(means))
    ax.axvline(1.0 / len(means), color=PALE, linewidth=0.8, zorder=0)
    if len(weights) > 1:
        seeds = weights[means.index]
        ax.hlines(rows, seeds.min(), seeds.max(), color=PALE, linewidth=2.0, zorder=1)
        ax.plot(seeds.to_numpy().T, rows, ".", color=GREY, markersize=3, alpha=0.6, zorder=2)
    ax.plot(means, rows, "o", color=OKABE_ITO[0], markersize=5, zorder=3)
    _named_rows(ax, names, rows)
    ax.set_ylim(-0.6, len(means) - 0.4)
    ax.set_xlim(0.0, 1.05 * max(float(weights.to_numpy().max()), 1.0 / len(means)))
    over = f"; mean, range and dots of {len(weights)} seeds" if len(weights) > 1 else ""
    _labels(ax, _weights_title(means), f"view weight (line: equal weights{over})", "")
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
    >>> from matplotlib.figure import Figure
    >>> from viewloom import plotting
    >>> views, y = vl.simulate.three_kinds(20, random_state=0)
    >>> model = vl.KernelMultiviewNMF(3, random_state=0).fit(views)
    >>> ax = plotting.objective(model, Figure().subplots())
    >>> len(ax.lines[0].get_xdata()) == model.n_iter_
    True
    """
    values = np.asarray(model.history_["objective"], dtype=float)
    ax = _axes(ax, WIDTH, 2.2)
    marker = "o" if len(values) <= 30 else ""
    ax.plot(
        np.arange(1, len(values) + 1), values, marker=marker, markersize=3, color=OKABE_ITO[0], linewidth=1.2
    )
    ax.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=6))
    ax.yaxis.set_major_formatter("{x:.7g}")  # no power of ten apart from the numbers
    ended = "Converged" if model.converged_ else "Stopped, still falling,"
    fall = 1.0 - values[-1] / values[0] if values[0] else 0.0
    fell = f"{fall:.1%}" if not 0.0 < fall < 0.001 else "less than 0.1%"
    title = f"{ended} after {_count(len(values), 'iteration')}; the objective fell by {fell}"
    _labels(ax, title, "iteration", "objective (Eq. 4)")
    return ax


def memberships(result: Any, ax: Axes | None = None) -> Axes:
    """Consensus memberships as a heat map: samples in columns, sorted by cluster and by how sure they are.

    Parameters
    ----------
    result : fitted estimator, or (n, k) array of memberships
    ax : Axes, optional

    Examples
    --------
    >>> import viewloom as vl
    >>> from matplotlib.figure import Figure
    >>> from viewloom import plotting
    >>> views, y = vl.simulate.three_kinds(20, random_state=0)
    >>> model = vl.KernelMultiviewNMF(3, random_state=0).fit(views)
    >>> ax = plotting.memberships(model, Figure().subplots())
    >>> ax.images[0].get_array().shape  # clusters x samples
    (3, 60)
    """
    U = np.asarray(getattr(result, "memberships_", result), dtype=float)
    n, k = U.shape
    labels, top = U.argmax(axis=1), U.max(axis=1)
    order = np.lexsort((-top, labels))
    sizes = np.bincount(labels, minlength=k)
    ax = _axes(ax, WIDTH, 1.2 + 0.17 * max(k, 5))
    image = ax.imshow(U[order].T, aspect="auto", interpolation="nearest", **SHARES)
    _colour_scale(ax, image, "membership")
    for edge in np.cumsum(sizes)[:-1]:
        ax.axvline(edge - 0.5, color="white", linewidth=0.5)
    _named_rows(ax, [f"{j} (n={size})" for j, size in enumerate(sizes)])
    torn = int((top < TORN).sum())
    title = f"{torn} of {n} samples are torn (largest membership below {TORN})"
    _labels(ax, title, "samples, sorted by cluster and certainty", "cluster")
    return ax


def view_agreement(result: ViewContributions, ax: Axes | None = None) -> Axes:
    """How far each view alone agrees with the consensus: median, quartiles, and 5 to 95 % of the samples.

    Parameters
    ----------
    result : ViewContributions
    ax : Axes, optional

    Examples
    --------
    >>> import viewloom as vl
    >>> from matplotlib.figure import Figure
    >>> from viewloom import plotting
    >>> views, y = vl.simulate.three_kinds(20, random_state=0)
    >>> model = vl.KernelMultiviewNMF(3, random_state=0).fit(views)
    >>> said = vl.inspection.view_contributions(model)
    >>> ax = plotting.view_agreement(said, Figure().subplots())
    >>> len(ax.get_yticklabels())
    3
    """
    overlap = pd.DataFrame(result.overlap, columns=pd.Index(result.view_names))
    medians = overlap.median().sort_values(kind="stable")
    low, first, third, high = (overlap[medians.index].quantile(q) for q in (0.05, 0.25, 0.75, 0.95))
    names = _wrapped(medians.index)
    ax = _axes(ax, *_list_size(names))
    rows = np.arange(len(medians))
    ax.hlines(rows, low, high, color=PALE, linewidth=1.2)
    ax.hlines(rows, first, third, color=OKABE_ITO[0], linewidth=4.0, alpha=0.5)
    ax.plot(medians, rows, "o", color=OKABE_ITO[0], markersize=5)
    _named_rows(ax, names, rows)
    ax.set_xlim(0.0, 1.02)
    ax.set_ylim(-0.6, len(medians) - 0.4)
    title = (
        f"{_short(medians.index[-1])} alone comes closest to the consensus (median {medians.iloc[-1]:.2f})"
    )
    _labels(ax, title, "membership shared with the consensus (median, quartiles, 5-95 % of samples)", "")
    return ax


def view_contributions(result: ViewContributions, ax: Axes | None = None) -> Axes:
    """Mean change of a cluster's memberships when a view is left out: which view defines which cluster.

    Parameters
    ----------
    result : ViewContributions
    ax : Axes, optional

    Examples
    --------
    >>> import viewloom as vl
    >>> from matplotlib.figure import Figure
    >>> from viewloom import plotting
    >>> views, y = vl.simulate.three_kinds(20, random_state=0)
    >>> model = vl.KernelMultiviewNMF(3, random_state=0).fit(views)
    >>> said = vl.inspection.view_contributions(model)
    >>> ax = plotting.view_contributions(said, Figure().subplots())
    >>> ax.images[0].get_array().shape  # clusters x views
    (3, 3)
    """
    means = result.by_cluster()
    k, v = means.shape
    names = _wrapped(result.view_names)
    slant = 0.7 * _text_width(names) / 72.0  # inches that slanted names may take, either way
    ax = _axes(ax, max(WIDTH, 1.6 + 0.42 * v, 2.0 + slant), 0.9 + slant + 0.19 * max(k, 4))
    values = means.to_numpy(dtype=float)
    image = ax.imshow(values, aspect="auto", cmap=SEQUENTIAL, vmin=0.0, vmax=max(_limit(values), 5 * NOTHING))
    _colour_scale(ax, image, "membership moved")
    sizes = np.bincount(result.labels, minlength=k)
    _named_rows(ax, [f"{j} (n={size})" for j, size in enumerate(sizes)])
    _named_columns(ax, names)
    _numbers(ax, image, values)
    _labels(ax, _contributions_title(result), "view left out", "cluster")
    return ax


def weights_over_gamma(weights: pd.DataFrame, ax: Axes | None = None) -> Axes:
    """View weights as gamma varies: a single view is selected at 1, all count alike at large values.

    Parameters
    ----------
    weights : DataFrame of `inspection.weights_over_gamma`
    ax : Axes, optional

    Examples
    --------
    >>> import viewloom as vl
    >>> from matplotlib.figure import Figure
    >>> from viewloom import plotting
    >>> views, y = vl.simulate.three_kinds(20, random_state=0)
    >>> model = vl.KernelMultiviewNMF(3, random_state=0).fit(views)
    >>> weights = vl.inspection.weights_over_gamma(model, views, [1.0, 2.0, 8.0])
    >>> ax = plotting.weights_over_gamma(weights, Figure().subplots())
    >>> ax.get_xlabel()
    'gamma (order of the weights)'
    """
    weights = weights.sort_index()
    gammas = weights.index.to_numpy(dtype=float)
    v, names = weights.shape[1], _wrapped(weights.columns)
    width = max(WIDTH, 2.2 + _text_width(names) / 72.0)
    ax = _axes(ax, width, max(2.3, 1.0 + 0.14 * v * _most_lines(names)))
    ax.axhline(1.0 / v, color=PALE, linewidth=0.8, zorder=0)
    for a, name in enumerate(weights.columns):
        ax.plot(gammas, weights[name], marker="o", markersize=2.5, linewidth=1.2, **_line(a))
    ax.set_ylim(-0.02, 1.02)
    if (gammas > 0).all():
        ax.set_xscale("log")
        _few_ticks(ax, gammas)
    _end_labels(ax, gammas[-1], weights.iloc[-1].to_numpy(dtype=float), names)
    _labels(ax, _gamma_title(weights), "gamma (order of the weights)", "view weight (line: equal)")
    return ax


def feature_importance(importance: pd.DataFrame, ax: Axes | None = None, *, top: int = 15) -> Axes:
    """The paper's Figure 2: features of a view sorted by importance, the first of them by name.

    The large map shows the `top` features, the narrow one to its right all features of the view.

    Parameters
    ----------
    importance : DataFrame of `feature_importance`
    ax : Axes, optional
    top : int, default=15

    Examples
    --------
    >>> import viewloom as vl
    >>> from matplotlib.figure import Figure
    >>> from viewloom import plotting
    >>> views, y = vl.simulate.three_kinds(20, random_state=0)
    >>> model = vl.KernelMultiviewNMF(3, random_state=0).fit(views)
    >>> ax = plotting.feature_importance(model.feature_importance("noise"), Figure().subplots(), top=3)
    >>> ax.images[0].get_array().shape  # features x clusters
    (3, 3)
    """
    ranked = importance.sort_values("importance", ascending=False, kind="stable")
    values = ranked[[name for name in ranked.columns if str(name).startswith("cluster_")]].to_numpy(
        dtype=float
    )
    d, k = values.shape
    names = _wrapped(ranked["feature"][:top])
    ax = _axes(ax, *_map_size(names, k, extra=0.5 * (d > top)))
    style = _map_style(values)
    image = ax.imshow(values[:top], aspect="auto", **style)
    if d > top:
        _all_features(ax, values, top, style)
    _colour_scale(ax, image, _importance_label(importance), beside=d > top)
    _named_rows(ax, names)
    _named_columns(ax, [str(j) for j in range(k)])
    _labels(ax, _importance_title(ranked["importance"].to_numpy(dtype=float)), "cluster", "")
    return ax


def feature_importances(model: Any, axes: Any = None, *, top: int = 15) -> Array:
    """`feature_importance` of every view of a model, side by side.

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
    >>> from matplotlib.figure import Figure
    >>> from viewloom import plotting
    >>> views, y = vl.simulate.three_kinds(20, random_state=0)
    >>> model = vl.KernelMultiviewNMF(3, random_state=0).fit(views)
    >>> axes = plotting.feature_importances(model, Figure().subplots(1, 3), top=3)
    >>> len(axes)
    3
    """
    names = model.view_names_
    tables = [model.feature_importance(name) for name in names]
    if axes is None:
        rows = min(top, max(len(table) for table in tables))
        longest = _wrapped(feature for table in tables for feature in table["feature"][:top])
        axes = _grid_axes(len(names), _map_size(longest, model.n_clusters, extra=0.5)[0], 1.4 + 0.15 * rows)
    axes = np.asarray(axes, dtype=object).ravel()
    if len(axes) < len(names):
        raise ValueError(f"There are {len(names)} views, but {len(axes)} axes.")
    for ax, name, table in zip(axes, names, tables, strict=False):
        feature_importance(table, ax, top=top)
        ax.set_title(
            f"{_wrapped([name])[0]}\n{ax.get_title(loc='left')}", loc="left", fontsize=LARGE, **PLAIN
        )
    for ax in axes[len(names) :]:
        ax.set_axis_off()
    return np.asarray(axes[: len(names)])


def cluster_profiles(profiles: pd.DataFrame, ax: Axes | None = None) -> Axes:
    """Mean z-scores of features (rows) in clusters (columns).

    Parameters
    ----------
    profiles : DataFrame of `inspection.cluster_profiles`
    ax : Axes, optional

    Examples
    --------
    >>> import viewloom as vl
    >>> from matplotlib.figure import Figure
    >>> from viewloom import plotting
    >>> views, y = vl.simulate.three_kinds(20, random_state=0)
    >>> model = vl.KernelMultiviewNMF(3, random_state=0).fit(views)
    >>> profiles = vl.inspection.cluster_profiles(views, model.labels_, "rings", ["rings_0", "rings_1"])
    >>> ax = plotting.cluster_profiles(profiles, Figure().subplots())
    >>> ax.images[0].get_array().shape  # features x clusters
    (2, 3)
    """
    values = profiles.to_numpy(dtype=float)
    names = _wrapped(profiles.index)
    ax = _axes(ax, *_map_size(names, values.shape[1]))
    limit = _limit(values)
    image = ax.imshow(values, aspect="auto", cmap=DIVERGING, vmin=-limit, vmax=limit)
    _colour_scale(ax, image, "mean z-score (SD)")
    _named_rows(ax, names)
    _named_columns(ax, _wrapped(profiles.columns))
    _labels(ax, _profiles_title(profiles), "cluster", "")
    return ax


def stability(result: Any, ax: Axes | None = None) -> Axes:
    """Stability of the clustering against the number of clusters, with that of data without clusters.

    Parameters
    ----------
    result : object with `table` and `recommended`
        `table` has columns ``k``, ``stability`` and, where known, ``twin_stability`` and ``pac`` (share of
        pairs that are neither together nor apart).
    ax : Axes, optional

    Examples
    --------
    >>> import pandas as pd
    >>> from types import SimpleNamespace
    >>> from matplotlib.figure import Figure
    >>> from viewloom import plotting
    >>> shares = {"stability": [0.6, 0.98, 0.9], "twin_stability": [0.4, 0.6, 0.6]}
    >>> found = pd.DataFrame({"k": [2, 3, 4], **shares})
    >>> result = SimpleNamespace(table=found, recommended=3)  # as `viewloom.choose_k` gives it
    >>> plotting.stability(result, Figure().subplots()).get_xlabel()
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
    ax = _axes(ax, WIDTH, 2.3)
    for column, _, style in known:
        ax.plot(table["k"], table[column], markersize=3.5, linewidth=1.2, **style)
    if result.recommended is not None:
        ax.axvline(result.recommended, color=PALE, linewidth=4.0, alpha=0.6, zorder=0)
    ax.set_ylim(-0.02, 1.05)
    _few_ticks(ax, table["k"].to_numpy(dtype=float))
    ends = np.array([table[column].iloc[-1] for column, _, _ in known], dtype=float)
    labels, colours = [label for _, label, _ in known], [style["color"] for _, _, style in known]
    _end_labels(ax, float(table["k"].iloc[-1]), ends, labels, colours)
    _labels(ax, _stability_title(result.recommended), "number of clusters k", "share")
    return ax


def consensus_matrix(C: Any, labels: Any, ax: Axes | None = None) -> Axes:
    """How often pairs of samples end in one cluster, sorted by cluster.

    Parameters
    ----------
    C : (n, n) array
        Share of runs in which two samples are together.
    labels : (n,) array
    ax : Axes, optional

    Examples
    --------
    >>> import viewloom as vl
    >>> from matplotlib.figure import Figure
    >>> from viewloom import plotting
    >>> labels = [[0, 0, 1, 1], [1, 1, 0, 0], [0, 0, 0, 1]]
    >>> C = vl.selection.consensus_matrix(labels)
    >>> plotting.consensus_matrix(C, labels[0], Figure().subplots()).images[0].get_array().shape
    (4, 4)
    """
    C, labels = np.asarray(C, dtype=float), np.asarray(labels)
    names, codes = np.unique(labels, return_inverse=True)
    together = codes[:, None] == codes
    order = np.lexsort((-np.where(together, C, 0.0).mean(axis=1), codes))
    ax = _axes(ax, WIDTH, 3.0)
    image = ax.imshow(C[np.ix_(order, order)], interpolation="nearest", **SHARES)
    _colour_scale(ax, image, "share of runs together")
    edges = np.concatenate([[0], np.cumsum(np.bincount(codes))]) - 0.5
    for edge in edges[1:-1]:
        ax.axhline(edge, color="white", linewidth=0.5)
        ax.axvline(edge, color="white", linewidth=0.5)
    middles = (edges[:-1] + edges[1:]) / 2.0
    _named_rows(ax, _wrapped(names), middles)
    _named_columns(ax, _wrapped(names), middles)
    _labels(ax, _consensus_title(C, together), "samples, by cluster", "samples, by cluster")
    return ax


def inert(text: Any) -> str:
    r"""Text from files as it can be drawn: characters that no font in use can show are given by their code.

    Examples
    --------
    >>> print(inert("a\nb"))
    a\nb
    """
    drawable = _drawable(tuple(FontProperties().get_family()))
    shown = (c if c.isprintable() and ord(c) in drawable else _code(c) for c in str(text))
    return "".join(shown).strip() or "(unnamed)"


def _short(name: Any, most: int = 40) -> str:
    """A name for a title, which stands in full beside the axes."""
    text = inert(name)
    return text if len(text) <= most else f"{text[: most - 3]}..."


def _code(c: str) -> str:
    return c.encode("unicode_escape").decode("ascii")


@lru_cache(maxsize=8)
def _drawable(families: tuple[str, ...]) -> frozenset[int]:
    """Code points that one of the fonts has."""
    fonts = [get_font(findfont(FontProperties(family=[family]))) for family in families]
    return frozenset(code for font in fonts for code in font.get_charmap())


def _wrapped(names: Iterable[Any]) -> list[str]:
    """Names on up to about three lines, all of them."""
    texts = [inert(name) for name in names]
    return ["\n".join(wrap(text, max(24, len(text) // 3 + 5))) for text in texts]


def _count(n: int, what: str) -> str:
    return f"{n} {what}" + "s" * (n != 1)


def _axes(ax: Axes | None, width: float, height: float) -> Axes:
    """The axes given, or those of a new figure of that size in inches."""
    if ax is None:
        ax = _new_figure(width, height).subplots()
    ax.tick_params(labelsize=SMALL, length=2.5, width=0.6)
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def _new_figure(width: float, height: float) -> Figure:
    """A figure of a size in inches; one of pyplot, which notebooks show, unless it is for a file only."""
    make: Any = Figure if FOR_FILES.get() else pyplot.figure
    return make(figsize=(width, height), dpi=150, layout="constrained")


@contextmanager
def for_files() -> Iterator[None]:
    """Draw without pyplot, which needs a backend that works: for figures that only go into files."""
    token = FOR_FILES.set(True)
    try:
        yield
    finally:
        FOR_FILES.reset(token)


def _labels(ax: Axes, title: str, x: str, y: str) -> None:
    """Labels, and a title, that fit."""
    room = _room(ax)
    ax.set_title(_lines(title, room, LARGE), loc="left", fontsize=LARGE, **PLAIN)
    ax.set_xlabel(_lines(x, room, SMALL), fontsize=SMALL)
    ax.set_ylabel(y, fontsize=SMALL)


def _lines(text: str, room: float, size: float) -> str:
    """Text broken to a width in points."""
    return "\n".join(wrap(text, max(int(room / (LETTER * size)), 16), break_on_hyphens=False))


def _room(ax: Axes) -> float:
    """Width in points from the left of the axes to the right of their cell, once names stand beside them."""
    width = _extent(ax)[0]
    names = [label.get_text() for label in ax.get_yticklabels()]
    beside = max(_text_width(names), 4 * SMALL) + 2 * SMALL  # numbers and a label at the least
    return 1.27 * width - beside if _managed(ax) else width


def _managed(ax: Axes) -> bool:
    """Whether a constrained layout makes room for what stands beside the axes."""
    engine = ax.figure.get_layout_engine()
    return engine is not None and not engine.adjust_compatible


def _extent(ax: Axes) -> tuple[float, float]:
    """Width and height of the axes in points, before any layout."""
    box, whole, points = ax.get_position(), ax.figure.bbox, 72.0 / ax.figure.dpi
    return float(box.width * whole.width * points), float(box.height * whole.height * points)


def _text_width(names: Sequence[str], size: float = SMALL) -> float:
    """Width of the longest line in points, roughly."""
    return LETTER * size * max((len(line) for name in names for line in name.split("\n")), default=0)


def _most_lines(names: Sequence[str]) -> int:
    return max((name.count("\n") + 1 for name in names), default=1)


def _map_size(names: Sequence[str], k: int, extra: float = 0.0) -> tuple[float, float]:
    """Size in inches of a heat map with named rows and k columns."""
    width = _text_width(names) / 72.0 + 0.16 * max(k, 8) + 0.9 + extra
    return max(WIDTH, width), 0.9 + max(len(names) * max(0.15, 0.11 * _most_lines(names)), 0.9)


def _list_size(names: Sequence[str]) -> tuple[float, float]:
    """Size in inches of a chart with one named row per item."""
    row = max(0.24, 0.115 * _most_lines(names))
    return max(WIDTH, _text_width(names) / 72.0 + 2.0), 1.0 + row * len(names)


def _grid_axes(n: int, width: float, height: float) -> Array:
    """Axes of a new figure for n maps of that size, two to a row."""
    rows, columns = -(-n // 2), min(n, 2)
    figure = _new_figure(columns * width, rows * height)
    return np.asarray(figure.subplots(rows, columns, squeeze=False))


def _named_rows(ax: Axes, names: Sequence[str], positions: Array | None = None) -> None:
    """Names at the rows, in letters that fit between them."""
    at = np.arange(len(names), dtype=float) if positions is None else positions
    low, high = sorted(ax.get_ylim())
    pitch = np.diff(at).min(initial=high - low) / max(high - low, 1.0) * _extent(ax)[1]
    size = float(np.clip(0.9 * pitch / _most_lines(names), LEAST, SMALL))
    ax.set_yticks(at, names, fontsize=size, linespacing=0.95, **PLAIN)
    if ax.images:
        _bare(ax)


def _named_columns(ax: Axes, names: Sequence[str], positions: Array | None = None) -> None:
    """Names at the columns: small where they are short, slanted where they would not fit side by side."""
    at = np.arange(len(names), dtype=float) if positions is None else positions
    low, high = sorted(ax.get_xlim())
    pitch = np.diff(at).min(initial=high - low) / max(high - low, 1.0) * 0.8 * _extent(ax)[0]
    size = float(np.clip(0.9 * SMALL * pitch / max(_text_width(names), 1.0), LEAST, SMALL))
    slant: dict[str, Any] = {}
    if _text_width(names, SMALL) > max(pitch, 4 * SMALL):
        size, slant = SMALL, {"rotation": 40, "ha": "right", "rotation_mode": "anchor"}
    ax.set_xticks(at, names, fontsize=size, **slant, **PLAIN)


def _bare(ax: Axes) -> None:
    """Heat maps need neither frame nor tick marks."""
    ax.spines[:].set_visible(False)
    ax.tick_params(length=0)


def _colour_scale(ax: Axes, image: AxesImage, label: str, beside: bool = False) -> None:
    """Colour bar as high as the axes; `beside` them there may be a map already."""
    pad = 0.03 + beside * (0.05 if _managed(ax) else 0.25)
    bar = ax.figure.colorbar(image, ax=ax, pad=pad, fraction=0.08, aspect=max(_extent(ax)[1] / 7.0, 6.0))
    bar.set_label(label, fontsize=SMALL)
    bar.ax.tick_params(labelsize=SMALL, length=2.0, width=0.6)
    bar.outline.set_visible(False)  # type: ignore[operator]


def _limit(values: Array) -> float:
    """Largest size of any value, for the ends of a colour scale."""
    known = np.abs(values[np.isfinite(values)])
    return float(known.max(initial=0.0)) or 1.0


def _map_style(values: Array) -> dict[str, Any]:
    """Colours for values that are signed or not."""
    limit = _limit(values)
    if values.size and float(np.nanmin(values)) < 0.0:
        return {"cmap": DIVERGING, "vmin": -limit, "vmax": limit, "interpolation": "nearest"}
    return {"cmap": SEQUENTIAL, "vmin": 0.0, "vmax": limit, "interpolation": "nearest"}


def _all_features(ax: Axes, values: Array, top: int, style: dict[str, Any]) -> None:
    """A narrow map of all features beside the first, with lines to where those lie in it."""
    strip = ax.inset_axes((1.08, 0.0, 0.14, 1.0))
    strip.imshow(values, aspect="auto", **style)
    strip.set_xticks([])
    strip.set_yticks([])
    strip.set_xlabel(f"all\n{len(values)}", fontsize=SMALL)
    _bare(strip)
    for here, there in ((1.0, 1.0), (0.0, 1.0 - top / len(values))):
        ax.plot(
            (1.005, 1.075), (here, there), color=GREY, linewidth=0.6, transform=ax.transAxes, clip_on=False
        )


def _numbers(ax: Axes, image: AxesImage, values: Array) -> None:
    """The values in their cells, the largest of each row in bold."""
    for i, row in enumerate(values):
        for j in np.flatnonzero(np.isfinite(row)):
            red, green, blue, _ = image.to_rgba(row[j])
            dark = 0.3 * red + 0.6 * green + 0.1 * blue < 0.5
            weight = "bold" if row[j] == max(np.nanmax(row), NOTHING) else "normal"
            style: dict[str, Any] = {
                "color": "white" if dark else "black",
                "fontsize": SMALL - 0.5,
                "fontweight": weight,
            }
            ax.text(float(j), i, f"{row[j]:.2f}", ha="center", va="center", **style)


def _line(a: int) -> dict[str, Any]:
    return {"color": OKABE_ITO[a % len(OKABE_ITO)], "linestyle": DASHES[a // len(OKABE_ITO) % len(DASHES)]}


def _few_ticks(ax: Axes, values: Array) -> None:
    """Ticks at the values themselves, as many as there is room for."""
    at = np.log(values) if ax.get_xscale() == "log" else values
    gap = 0.07 * float(np.ptp(at))
    kept = [0]
    for i in range(1, len(values)):
        if at[i] - at[kept[-1]] >= gap and at[i] > at[kept[-1]]:
            kept.append(i)
    ax.set_xticks(values[kept], [f"{value:g}" for value in values[kept]])
    ax.xaxis.set_minor_formatter(NullFormatter())
    ax.tick_params(axis="x", which="minor", length=0)


def _end_labels(
    ax: Axes, x: float, ends: Array, names: Sequence[str], colours: Sequence[str] | None = None
) -> None:
    """Names at the right ends of lines, moved apart where they would overlap."""
    low, high = ax.get_ylim()
    gap = 1.4 * SMALL * _most_lines(names) * (high - low) / _extent(ax)[1]
    for a, (name, y) in enumerate(zip(names, spread(ends, gap, low, high), strict=True)):
        colour = _line(a)["color"] if colours is None else colours[a]
        ax.annotate(
            name,
            (x, ends[a]),
            (1.05, y),
            textcoords=ax.get_yaxis_transform(),
            arrowprops={
                "arrowstyle": "-",
                "color": colour,
                "linewidth": 0.5,
                "shrinkA": 0,
                "shrinkB": 2,
                "relpos": (0, 0.5),
            },
            annotation_clip=False,
            color=colour,
            fontsize=SMALL,
            va="center",
            **PLAIN,
        )


def spread(positions: Array, gap: float, low: float, high: float) -> Array:
    """Positions at least `gap` apart, in the same order, moved as little as possible in least squares.

    With ``z_i = y_i - i gap`` for sorted ``y`` the condition is that ``z`` never falls: isotonic regression.
    They stay between `low` and `high` if there is room.

    Examples
    --------
    >>> spread(np.array([0.5, 0.5, 0.1]), 0.2, 0.0, 1.0).round(2).tolist()
    [0.4, 0.6, 0.1]
    """
    order = np.argsort(positions, kind="stable")
    steps = gap * np.arange(len(positions))
    z = isotonic_regression(positions[order] - steps)
    moved = np.empty(len(positions))
    moved[order] = np.clip(z, low, max(high - gap * (len(positions) - 1), low)) + steps
    return moved


def _weights_frame(result: Any) -> pd.DataFrame:
    """Weights with views in columns, one row per seed."""
    if isinstance(result, pd.DataFrame):
        return result
    return pd.DataFrame([result.view_weights_], columns=pd.Index(result.view_names_))


def _weights_title(means: pd.Series) -> str:
    if len(means) == 1:
        return "A single view has all the weight"
    if means.iloc[-1] - means.iloc[0] < 0.01:
        return "All views count alike"
    most, least = _short(means.index[-1]), _short(means.index[0])
    return f"{most} counts most ({means.iloc[-1]:.2f}), {least} least ({means.iloc[0]:.2f})"


def _contributions_title(result: ViewContributions) -> str:
    defining = result.defining_views()
    if defining.empty:
        return "With a single view there is nothing to leave out"
    if _limit(result.by_cluster().to_numpy(dtype=float)) < NOTHING:
        return f"No view alone matters: without any one, less than {NOTHING:.0%} of membership moves"
    counts = defining.value_counts()
    if len(counts) == 1:
        return f"Leaving out {_short(counts.index[0])} moves every cluster most"
    found = [f"{_short(view)} in {n}" for view, n in counts.iloc[:3].items()]
    return f"Clusters that move most without a view: {', '.join(found)}"


def _gamma_title(weights: pd.DataFrame) -> str:
    first, last = weights.iloc[0], weights.iloc[-1]
    heaviest = _short(first.idxmax())
    alone = f"only {heaviest} counts" if first.max() > 0.99 else f"{heaviest} leads ({first.max():.2f})"
    end = "all count alike" if np.ptp(last) < 0.05 else f"weights span {last.min():.2f} to {last.max():.2f}"
    return f"At gamma = {weights.index[0]:g} {alone}; at {weights.index[-1]:g} {end}"


def _importance_title(importance: Array) -> str:
    """How many features hold half of the importance, which is sorted."""
    total = np.cumsum(importance)
    half = int(np.searchsorted(total, total[-1] / 2.0)) + 1
    return f"Half of the importance lies in {half} of {_count(len(importance), 'feature')}"


def _importance_label(importance: pd.DataFrame) -> str:
    permuted = importance.attrs.get("method") == "permutation"
    return "membership moved" if permuted else "loading F"


def _profiles_title(profiles: pd.DataFrame) -> str:
    sizes = np.nan_to_num(np.abs(profiles.to_numpy(dtype=float)))
    row, column = divmod(int(sizes.argmax()), sizes.shape[1])
    z, cluster = profiles.to_numpy(dtype=float)[row, column], _short(profiles.columns[column])
    return f"Cluster {cluster} stands out most: {_short(profiles.index[row])} at {z:+.1f} SD"


def _stability_title(recommended: int | None) -> str:
    if recommended is None:
        return "No number of clusters is stable beyond chance"
    return f"{_count(recommended, 'cluster')} recommended (grey band)"


def _consensus_title(C: Array, together: Array) -> str:
    pairs = ~np.eye(len(C), dtype=bool)
    parts = [(C[pairs & together], "of one cluster"), (C[pairs & ~together], "of different clusters")]
    said = [
        f"{np.nanmean(values):.0%} of runs if {which}" for values, which in parts if np.isfinite(values).any()
    ]
    return f"Pairs are together in {', '.join(said)}" if said else "A single sample"
