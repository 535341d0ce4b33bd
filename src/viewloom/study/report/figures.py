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
from viewloom.clinical.release import P, PClass
from viewloom.runtime.progress import stage, with_progress
from viewloom.study.report.brain import draw_brain_figure
from viewloom.study.report.captions import QUANTILES
from viewloom.study.report.comparison import draw_agreement, draw_solutions
from viewloom.study.report.drawable import check_installed, fixed_text
from viewloom.study.report.drawings import Data, figure_data
from viewloom.study.report.svg import STYLE, inline_svg

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from viewloom.study.results import Results

Names = Sequence[str]


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

        with rc_context(STYLE), stage("Figures", len(parts)) as advance:
            drawn = with_progress(lambda name: inline_svg(_figure(parts[name], names), name), advance)
            return {name: drawn(name) for name in parts}


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

    weights = pd.DataFrame([data["weights"]], columns=pd.Index(data["views"]))
    if "low" not in data:
        return view_weights(weights)
    bounds = pd.DataFrame({name: data[name] for name in ("low", "high")}, index=data["views"], dtype=float)
    return view_weights(weights, intervals=bounds)


def _continuum(data: Data, names: Names) -> Axes:
    from viewloom.plotting.model import position_counts

    return position_counts(
        pd.DataFrame({name: data[name] for name in ("low", "high", "counts")}, dtype=float)
    )


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
    fixed_text(ax)
    return ax


def _agreement(data: Data, names: Names) -> Axes:
    from viewloom.plotting.model import QUANTILES as SHOWN
    from viewloom.plotting.model import agreement_rows

    values = np.array(data["quantiles"], dtype=float)
    return agreement_rows(pd.DataFrame(values, index=data["views"], columns=pd.Index(SHOWN)))


def _certainty(data: Data, names: Names) -> Axes:
    """Quantiles of the largest membership, by cluster."""
    from viewloom.evaluation.uncertainty import parted
    from viewloom.plotting.model import draw_intervals, quantile_rows
    from viewloom.plotting.style import shortened

    rows = [f"cluster {names[j]}" for j in data["clusters"]]
    table = pd.DataFrame(data["quantiles"], index=rows, columns=pd.Index(QUANTILES), dtype=float)
    means = pd.DataFrame(data.get("means", {}), index=rows, columns=["value", "low", "high"], dtype=float)
    clearest = parted(means)
    named = "" if clearest is None else shortened(clearest, 60).removeprefix("cluster ")
    title = f"Cluster {named} has the most certain assignments" if named else "Certainty of assignment"
    ax = quantile_rows(table.iloc[::-1], title, "largest membership (median, quartiles, 10-90 %)")
    draw_intervals(ax, means.iloc[::-1], below=0.28)
    return ax


def _standing(data: Data, names: Names) -> Axes:
    """Features that stand out: what the clusters explain of them."""
    from viewloom.plotting.features import explained_shares

    table = pd.DataFrame({name: data[name] for name in ("feature", "view", "other", "value", "low", "high")})
    return explained_shares(table)


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

    columns = ("variable", "kind", "significant")
    table = pd.DataFrame({name: data[name] for name in columns})
    p_values: Any = {name: [_p(p) for p in data[name]] for name in ("p", "q")}
    return association_bars(table.assign(effect=np.array(data["effect"], dtype=float), **p_values))


def _p(p: float | str | None) -> P:
    """A p-value that is stored as a number, as the text of its class, or as none."""
    return PClass(p) if isinstance(p, str) else np.nan if p is None else p


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
        p=_p(data["p"]),
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


NO_DATE: dict[str, dict[str, None]] = {
    "png": {"Software": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
    "svg": {"Date": None, "Creator": None},
}
DRAW: dict[str, Callable[[Data, Names], Axes]] = {
    "continuum": _continuum,
    "weights": _weights,
    "contributions": _contributions,
    "agreement": _agreement,
    "certainty": _certainty,
    "profiles": _profiles,
    "brain": draw_brain_figure,
    "standing": _standing,
    "importance": _importance,
    "associations": _associations,
    "survival": _survival,
    "numbers": _numbers,
    "comparison": _comparison,
    "methods": draw_agreement,
    "solutions": draw_solutions,
    "overlaps": _overlaps,
    "objective": _objective,
}
