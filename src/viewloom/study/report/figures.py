"""The figures of a report: those of `plotting` and `clinical_plots`, in a form that may be shared.

Names are shortened, small counts are removed, and nothing is drawn per subject.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from textwrap import wrap
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from viewloom.clinical import Hidden, Known, Shown
from viewloom.study.report.captions import TOP, certainty
from viewloom.study.report.drawable import check_installed
from viewloom.study.report.findings import Findings, findings
from viewloom.study.report.presence import complete, patterns_of, shown_patterns, view_sizes
from viewloom.study.report.privacy import plain
from viewloom.study.report.svg import STYLE, inline_svg

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from viewloom.study.results import Results

HEAD, TAIL = 13, 10  # letters of a long name beside a figure; together they fit on a line
MOST_PATTERNS = 14  # of views that are drawn
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
    check_installed()
    from matplotlib import rc_context

    from viewloom.plotting.style import for_files

    found, drawn = findings(results), {}
    with rc_context(STYLE), for_files():
        for figure in summary["figures"]:
            ax = DRAW[figure["kind"]](results, found, figure["view"])
            canvas: Any = ax.figure
            drawn[figure["id"]] = inline_svg(canvas, figure["id"])
    return drawn


def _weights(results: Results, found: Findings, view: int | None) -> Axes:
    from viewloom.plotting.model import view_weights

    names = pd.Index([_short(name) for name in results.model.view_names_])
    return view_weights(pd.DataFrame([results.model.view_weights_], columns=names))


def _objective(results: Results, found: Findings, view: int | None) -> Axes:
    from viewloom.plotting.model import objective

    ax = objective(results.model)
    ax.set_ylabel("objective")
    return ax


def _contributions(results: Results, found: Findings, view: int | None) -> Axes:
    from viewloom.plotting.model import view_contributions

    moved, names = found.contributions, [_short(name) for name in results.model.view_names_]
    change = np.where(found.secret[moved.labels][:, None], np.nan, moved.change)
    ax = view_contributions(replace(moved, view_names=names, change=change))
    rows = [f"{j} (n {_size(size)})" for j, size in enumerate(found.shown_sizes)]
    ax.set_yticks(range(len(rows)), rows)
    _fixed_text(ax)
    return ax


def _agreement(results: Results, found: Findings, view: int | None) -> Axes:
    from viewloom.plotting.model import view_agreement

    return view_agreement(
        replace(found.contributions, view_names=[_short(name) for name in results.model.view_names_])
    )


def _certainty(results: Results, found: Findings, view: int | None) -> Axes:
    """Quantiles of the largest membership, by cluster."""
    from viewloom.plotting.style import OKABE_ITO, PALE, axes_or_new, list_size, name_rows, set_labels

    table = certainty(results, found).iloc[::-1]
    names = [f"cluster {j}" for j in table.index]
    ax = axes_or_new(None, *list_size(names))
    rows = np.arange(len(table))
    ax.hlines(rows, table[0.1], table[0.9], color=PALE, linewidth=1.2)
    ax.hlines(rows, table[0.25], table[0.75], color=OKABE_ITO[0], linewidth=4.0, alpha=0.5)
    ax.plot(table[0.5], rows, "o", color=OKABE_ITO[0], markersize=5)
    name_rows(ax, names, rows)
    ax.set_xlim(0.0, 1.02)
    ax.set_ylim(-0.6, len(rows) - 0.4)
    clearest = f"{names[int(table[0.5].argmax())].capitalize()} has the most certain assignments"
    set_labels(ax, clearest, "largest membership (median, quartiles, 10-90 %)", "")
    return ax


def _profiles(results: Results, found: Findings, view: int | None) -> Axes:
    from viewloom.plotting.features import cluster_profiles

    return cluster_profiles(found.profiles[_view(results, view)][:TOP].rename(index=_short))


def _importance(results: Results, found: Findings, view: int | None) -> Axes:
    from viewloom.plotting.features import feature_importance

    ranked = results.importance[_view(results, view)]
    shown = ranked.assign(feature=[_short(name) for name in ranked["feature"]])
    shown.attrs = ranked.attrs
    return feature_importance(shown, top=TOP)


def _associations(results: Results, found: Findings, view: int | None) -> Axes:
    from viewloom.plotting.clinical import association_bars

    return association_bars(found.associations.assign(variable=found.associations["variable"].map(_short)))


def _survival(results: Results, found: Findings, view: int | None) -> Axes:
    from matplotlib.figure import Figure

    from viewloom.plotting.clinical import survival_curves

    assert found.conversion is not None  # or there is no caption
    names = len(found.conversion.summary)
    ax = Figure(figsize=(4.0, 2.6 + 0.15 * names), layout="constrained").subplots()
    return survival_curves(found.conversion, ax, min_cell=results.min_cell)


def _numbers(results: Results, found: Findings, view: int | None) -> Axes:
    from viewloom.plotting.model import stability

    return stability(results.numbers)


def _comparison(results: Results, found: Findings, view: int | None) -> Axes:
    from viewloom.plotting.model import comparison

    assert results.comparison is not None
    runs = results.comparison.runs
    return comparison(replace(results.comparison, runs=runs.assign(method=runs["method"].map(_short))))


def _overlaps(results: Results, found: Findings, view: int | None) -> Axes:
    """Patterns of views; bars whose counts are hidden are hatched, all of one height."""
    from viewloom.study.overlaps import overlaps

    counts = patterns_of(results)[:MOST_PATTERNS]
    sizes = shown_patterns(results)[:MOST_PATTERNS]
    heights = [n.value if isinstance(n, Known) else results.min_cell for n in sizes]
    views = zip(results.views.names, view_sizes(results), strict=True)
    rows = [f"{_short(name)} ({size})" for name, size in views]
    table = pd.DataFrame({"subjects": 0}, index=pd.Index(rows))
    drawn = pd.Series(heights, index=counts.index)
    ax = overlaps(replace(results.check, n_subjects=len(results.views), views=table, overlaps=drawn))
    for bar, label, count in zip(ax.patches, ax.texts, sizes, strict=False):
        label.set_text(str(count))
        if isinstance(count, Hidden):
            bar.set(hatch="////", fill=False, edgecolor=bar.get_facecolor(), linewidth=0.5)
    ax.set_yticks(range(len(rows)), rows, parse_math=False)
    title = f"{complete(results)} of {len(results.views)} subjects have every view"
    ax.set_title("\n".join(wrap(title, 28)), loc="left", fontsize=8)
    return ax


def _short(name: Any) -> str:
    """A name that fits on a line; long names keep their beginning and end.

    >>> _short("rh_rostralanteriorcingulate_thickness")
    'rh_rostralant…_thickness'
    """
    text = plain(name, 200)
    return text if len(text) <= HEAD + 1 + TAIL else f"{text[:HEAD]}…{text[-TAIL:]}"


def _size(size: Shown) -> str:
    """A count for ``n = 12`` or ``n < 11``.

    >>> _size(Known(12)), _size(Hidden("<", 11))
    ('= 12', '< 11')
    """
    return f"= {size}" if isinstance(size, Known) else f"{size.sign} {size.bound}"


def _view(results: Results, view: int | None) -> str:
    assert view is not None
    return results.model.view_names_[view]


def _fixed_text(ax: Axes) -> None:
    """Keep black numbers on a heat map black in dark mode."""
    for text in ax.texts:
        if text.get_color() == "black":
            text.set_color(BLACK)


DRAW: dict[str, Callable[[Any, Findings, int | None], Axes]] = {
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
