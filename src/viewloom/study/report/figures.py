"""The figures of a report, drawn from their plain data: those of `plotting` and `clinical_plots`.

The data come from `viewloom.study.report.drawings`, and are stored with the report; names of clusters are not
part of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from textwrap import wrap
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from viewloom.clinical import Conversion
from viewloom.study.report.captions import QUANTILES
from viewloom.study.report.drawable import check_installed
from viewloom.study.report.drawings import Data, figure_data
from viewloom.study.report.svg import STYLE, inline_svg

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from viewloom.study.results import Results

Names = Sequence[str]
BLACK = "#010101"  # text on heat maps, which stays black on dark screens


def figures(results: Results, summary: dict[str, Any]) -> dict[str, str]:
    """Draw the figures that a summary lists.

    Parameters
    ----------
    results : Results
    summary : dict
        Of `summarize`.

    Returns
    -------
    dict of str to str
        ``<svg>`` elements by the id of the figure. They hold no style, script or reference to elsewhere.
    """
    return inline_figures(figure_data(results, summary), results.cluster_names)


def inline_figures(parts: Mapping[str, Data], names: Names) -> dict[str, str]:
    """``<svg>`` elements of the figures with these data, for HTML."""
    with _drawing():
        from matplotlib import rc_context

        with rc_context(STYLE):
            return {name: inline_svg(_figure(part, names), name) for name, part in parts.items()}


def write_figure(part: Data, names: Names, path: Any, format: str, dpi: int) -> None:
    """Draw a figure to a file."""
    with _drawing():
        from matplotlib import rc_context

        with rc_context({"pdf.fonttype": 42, "svg.fonttype": "none", "svg.hashsalt": "viewloom"}):
            _figure(part, names).savefig(path, format=format, dpi=dpi, metadata=NO_DATE[format])


@contextmanager
def _drawing() -> Iterator[None]:
    check_installed()
    from viewloom.plotting.style import for_files

    with for_files():
        yield


def _figure(part: Data, names: Names) -> Figure:
    figure: Any = DRAW[part["kind"]](part["data"], names).figure
    return figure


def _weights(data: Data, names: Names) -> Axes:
    from viewloom.plotting.model import view_weights

    return view_weights(pd.DataFrame([data["weights"]], columns=pd.Index(data["views"])))


def _objective(data: Data, names: Names) -> Axes:
    from viewloom.plotting.model import objective

    ax = objective(SimpleNamespace(history_={"objective": data["objective"]}, converged_=data["converged"]))
    ax.set_ylabel("objective")
    return ax


def _contributions(data: Data, names: Names) -> Axes:
    """Means by cluster, as those of one sample per cluster."""
    from viewloom.evaluation.inspection import ViewContributions
    from viewloom.plotting.model import contribution_map
    from viewloom.plotting.style import wrapped_names

    change = np.array(data["change"], dtype=float)
    k = len(change)
    sizes = zip(wrapped_names(names), data["sizes"], strict=True)
    means = ViewContributions(data["views"], np.arange(k), np.eye(k), np.empty((0, k, k)), change)
    ax = contribution_map(means, [f"{name} (n {size})" for name, size in sizes])
    _fixed_text(ax)
    return ax


def _agreement(data: Data, names: Names) -> Axes:
    from viewloom.plotting.model import QUANTILES as SHOWN
    from viewloom.plotting.model import agreement_rows

    values = np.array(data["quantiles"], dtype=float)
    return agreement_rows(pd.DataFrame(values, index=data["views"], columns=pd.Index(SHOWN)))


def _certainty(data: Data, names: Names) -> Axes:
    """Quantiles of the largest membership, by cluster."""
    from viewloom.plotting.model import quantile_rows
    from viewloom.plotting.style import shortened

    rows = [f"cluster {names[j]}" for j in data["clusters"]]
    table = pd.DataFrame(data["quantiles"], index=rows, columns=pd.Index(QUANTILES), dtype=float)
    clearest = shortened(table[0.5].idxmax(), 60).removeprefix("cluster ")
    title = f"Cluster {clearest} has the most certain assignments"
    return quantile_rows(table.iloc[::-1], title, "largest membership (median, quartiles, 10-90 %)")


def _profiles(data: Data, names: Names) -> Axes:
    from viewloom.plotting.features import cluster_profiles

    means = pd.DataFrame(np.array(data["means"], dtype=float), index=data["features"])
    return cluster_profiles(means, names=names)


def _importance(data: Data, names: Names) -> Axes:
    from viewloom.plotting.features import ImportanceMap

    values, strip = np.array(data["values"], dtype=float), np.array(data["strip"], dtype=float)
    return ImportanceMap(data["features"], values, strip, data["total"], data["half"]).draw(None, names)


def _associations(data: Data, names: Names) -> Axes:
    from viewloom.plotting.clinical import association_bars

    columns = ("variable", "kind", "significant", "effect", "p", "q")
    return association_bars(pd.DataFrame({name: data[name] for name in columns}))


def _survival(data: Data, names: Names) -> Axes:
    from matplotlib.figure import Figure

    from viewloom.plotting.clinical import curve_names, survival_curves
    from viewloom.plotting.style import text_width

    clusters, least = data["clusters"], data["min_cell"]
    beside = text_width(curve_names(names)) / 72.0
    size = max(4.0, 2.6 + 2 * beside), 2.6 + 0.15 * len(clusters)
    ax = Figure(figsize=size, layout="constrained").subplots()
    curves = pd.DataFrame(data["curves"]).astype({"low": float, "high": float}).assign(at_risk=least)
    counts = [[0 if n is None else n for n in row] for row in data["at_risk"]]
    found = Conversion(
        summary=pd.DataFrame(index=pd.Index(clusters)),
        curves=curves,
        at_risk=pd.DataFrame(counts, index=pd.Index(data["times"], name="time"), columns=clusters),
        statistic=np.nan,
        df=len(clusters) - 1,
        p=np.nan if data["p"] is None else data["p"],
        pairs=pd.DataFrame(),
        missing=0,
    )
    return survival_curves(found, ax, min_cell=least, names=names)


def _numbers(data: Data, names: Names) -> Axes:
    from viewloom.plotting.model import stability

    table = pd.DataFrame(data["table"]).astype(float).astype({"k": int})
    return stability(SimpleNamespace(table=table, recommended=data["recommended"]))


def _comparison(data: Data, names: Names) -> Axes:
    from viewloom.evaluation.comparison import SCORES, Comparison
    from viewloom.plotting.model import comparison

    runs = pd.DataFrame(data["runs"]).astype(dict.fromkeys(SCORES, float))
    return comparison(Comparison(runs.assign(seconds=np.nan, iterations=np.nan)))


def _overlaps(data: Data, names: Names) -> Axes:
    """Patterns of views; bars whose counts are hidden are hatched, all of one height."""
    from viewloom.study.overlaps import overlaps

    views = pd.DataFrame({"subjects": 0}, index=pd.Index(data["views"]))
    patterns = pd.MultiIndex.from_tuples([tuple(pattern) for pattern in data["patterns"]])
    heights = pd.Series(data["heights"], index=patterns)
    shown: Any = SimpleNamespace(n_subjects=data["subjects"], views=views, overlaps=heights)
    ax = overlaps(shown)
    for bar, label, size, hides in zip(ax.patches, ax.texts, data["sizes"], data["hidden"], strict=False):
        label.set_text(size)
        if hides:
            bar.set(hatch="////", fill=False, edgecolor=bar.get_facecolor(), linewidth=0.5)
    ax.set_yticks(range(len(data["views"])), data["views"], parse_math=False)
    title = f"{data['complete']} of {data['subjects']} subjects have every view"
    ax.set_title("\n".join(wrap(title, 28)), loc="left", fontsize=8)
    return ax


def _fixed_text(ax: Axes) -> None:
    """Keep black numbers on a heat map black in dark mode."""
    for text in ax.texts:
        if text.get_color() == "black":
            text.set_color(BLACK)


NO_DATE: dict[str, dict[str, None]] = {
    "png": {"Software": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
    "svg": {"Date": None, "Creator": None},
}
DRAW: dict[str, Callable[[Data, Names], Axes]] = {
    "weights": _weights,
    "contributions": _contributions,
    "agreement": _agreement,
    "certainty": _certainty,
    "profiles": _profiles,
    "importance": _importance,
    "associations": _associations,
    "survival": _survival,
    "numbers": _numbers,
    "comparison": _comparison,
    "overlaps": _overlaps,
    "objective": _objective,
}
