"""Figures of clinical variables: ``f(result, ax=None) -> ax``, as in `viewloom.plotting`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from viewloom.clinical import MIN_CELL, Conversion, on_grid, p_text
from viewloom.clinical.release import has_p
from viewloom.data.naming import cluster_names
from viewloom.plotting.style import (
    GREY,
    OKABE_ITO,
    PALE,
    PLAIN,
    SMALL,
    WIDTH,
    axes_extent,
    axes_or_new,
    line_style,
    list_size,
    name_rows,
    set_labels,
    shortened,
    spread,
    text_width,
    wrapped_names,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["association_bars", "survival_curves"]

LONGEST = 50  # letters of the name of a curve
EFFECTS = {"numeric": "epsilon squared", "categorical": "Cramer's V"}


def survival_curves(
    conversion: Conversion,
    ax: Axes | None = None,
    *,
    min_cell: int = MIN_CELL,
    names: Sequence[Any] | Mapping[Any, Any] | None = None,
) -> Axes:
    """Kaplan-Meier curve of each cluster with its 95 % band, and the numbers at risk below.

    Curves are drawn on a grid of round times (`clinical.on_grid`), so that no step is the time of a single
    subject, and end when fewer than `min_cell` subjects are at risk. Numbers at risk are rounded to tens.
    Clusters with fewer events, or whose number of subjects is hidden, have no curve.
    ``min_cell=1`` draws the exact curves.

    Parameters
    ----------
    conversion : Conversion
    ax : Axes, optional
    min_cell : int, default=11
    names : sequence or mapping of str, optional
        Names of the clusters, by label; by default integer labels are shown as numbers from 1.

    Examples
    --------
    >>> import viewloom as vl
    >>> people = vl.simulate.adni_like(random_state=0).participants.query("diagnosis == 'MCI'")
    >>> found = vl.clinical.conversion(people["sex"], people["conversion_time"], people["conversion_event"])
    >>> vl.clinical_plots.survival_curves(found).get_xlabel()
    'time'
    """
    conversion = on_grid(conversion, min_cell)
    clusters = list(conversion.summary.index)
    shown = curve_names(cluster_names(clusters, names))
    ax = axes_or_new(ax, max(1.4 * WIDTH, 3.0 + 2 * text_width(shown) / 72.0), 2.6 + 0.15 * len(clusters))
    safe = conversion.curves[conversion.curves["at_risk"] >= min_cell]
    for i, cluster in enumerate(clusters):
        _curve(ax, safe[safe["cluster"] == cluster], line_style(i))
    ax.set_ylim(-0.02, 1.04)
    ax.set_xlim(0.0, float(safe["time"].max()) if len(safe) else 1.0)
    times = conversion.at_risk.index
    ax.set_xticks(times[times <= ax.get_xlim()[1]])
    _named_ends(ax, safe.groupby("cluster").last().reindex(clusters), shown)
    _risk_table(ax, conversion, shown, min_cell)
    set_labels(ax, _conversion_title(conversion), "time", "share not converted")
    return ax


def curve_names(names: Sequence[str]) -> list[str]:
    """Names of clusters beside their curves, each on one line."""
    return [shortened(f"cluster {name}", LONGEST) for name in names]


def association_bars(table: pd.DataFrame, ax: Axes | None = None) -> Axes:
    """Effect size of every variable: numeric above, categorical below, in blue if significant.

    Parameters
    ----------
    table : DataFrame of `clinical.associations`
    ax : Axes, optional

    Examples
    --------
    >>> import viewloom as vl
    >>> cohort = vl.simulate.adni_like(random_state=0)
    >>> table = vl.clinical.associations(cohort.truth.y, cohort.participants[["mmse", "age", "sex"]])
    >>> len(vl.clinical_plots.association_bars(table).patches)
    3
    """
    ranked = table.sort_values(["kind", "effect"], kind="stable").reset_index(drop=True)
    names = wrapped_names(ranked["variable"])
    ax = axes_or_new(ax, *list_size(names))
    rows = np.arange(len(ranked)) + 1.2 * (ranked["kind"] == "numeric").to_numpy()
    effects = ranked["effect"].to_numpy(dtype=float)
    ax.barh(rows, effects, height=0.6, color=np.where(ranked["significant"], OKABE_ITO[0], PALE))
    ax.set_xlim(0.0, max(1.3 * float(np.nan_to_num(effects).max(initial=0.0)), 0.1))
    ax.set_ylim(-0.7, float(rows.max(initial=0.0)) + 0.7 + 0.9)
    note: dict[str, Any] = {"va": "center", "fontsize": SMALL, "color": GREY}
    for row, effect, q in zip(rows, np.nan_to_num(effects), ranked["q"], strict=True):
        text = p_text(q, "q") if q == q else "no p"
        ax.annotate(text, (effect, row), (3, 0), textcoords="offset points", **note)
    for kind, at in pd.Series(rows).groupby(ranked["kind"]).max().items():
        ax.annotate(EFFECTS[str(kind)], (0.0, at + 0.75), style="italic", **note)
    name_rows(ax, names, rows)
    set_labels(ax, _associations_title(table), "effect size (blue: differs between clusters)", "")
    return ax


def _curve(ax: Axes, curve: pd.DataFrame, line: dict[str, Any]) -> None:
    """Draw the steps of a curve and its band."""
    ax.step(curve["time"], curve["survival"], where="post", linewidth=1.3, **line)
    band: dict[str, Any] = {"step": "post", "color": line["color"], "alpha": 0.12, "linewidth": 0}
    ax.fill_between(curve["time"], curve["low"], curve["high"], **band)


def _named_ends(ax: Axes, ends: pd.DataFrame, names: list[str]) -> None:
    """Write names at the ends of curves, moved apart to avoid overlap."""
    drawn = np.flatnonzero(ends["survival"].notna())
    if not len(drawn):
        return
    low, high = ax.get_ylim()
    gap = 1.3 * SMALL * (high - low) / axes_extent(ax)[1]
    heights = spread(ends["survival"].to_numpy(dtype=float)[drawn], gap, low, high)
    backing = {"facecolor": "white", "alpha": 0.7, "linewidth": 0, "pad": 0.5}
    for i, height in zip(drawn.tolist(), heights, strict=True):
        colour = line_style(i)["color"]
        style: dict[str, Any] = {"color": colour, "fontsize": SMALL, "va": "center", "bbox": backing, **PLAIN}
        ax.annotate(names[i], (ends["time"].iloc[i], height), (4, 0), textcoords="offset points", **style)


def _risk_table(ax: Axes, conversion: Conversion, names: list[str], min_cell: int) -> None:
    """Write numbers at risk below the axes, one row per cluster, at the ticks."""
    below = -3.6 * SMALL  # points: below tick labels and the label of the axis
    style: dict[str, Any] = {"fontsize": SMALL, "textcoords": "offset points", "va": "top"}
    style["annotation_clip"] = False
    where = ax.get_xaxis_transform()
    ax.annotate("at risk", (0.0, 0.0), (-16, below), where, ha="right", color=GREY, **style)
    for i, cluster in enumerate(conversion.at_risk.columns):
        height = below - 1.35 * SMALL * (i + 1)
        colour = line_style(i)["color"]
        ax.annotate(names[i], (0.0, 0.0), (-16, height), where, ha="right", color=colour, **style, **PLAIN)
        for time, count in conversion.at_risk.loc[ax.get_xticks(), cluster].items():
            text = _at_risk_text(int(count), min_cell)
            ax.annotate(text, (time, 0.0), (0, height), where, ha="center", color=colour, **style)


def _at_risk_text(count: int, min_cell: int) -> str:
    """A number at risk as `clinical.on_grid` rounds it.

    >>> [_at_risk_text(count, 11) for count in (120, 11, 0, -1)]
    ['120', '≥11', '<11', '–']
    """
    if count < 0:
        return "\N{EN DASH}"
    if count < min_cell:
        return f"<{min_cell}"
    return f"≥{min_cell}" if count == min_cell > 1 else str(count)


def _conversion_title(conversion: Conversion) -> str:
    if not has_p(conversion.p):
        return "Nothing to compare: one cluster, or no conversions"
    differ = conversion.p < 0.05
    found = "Clusters differ in conversion" if differ else "No significant difference between clusters"
    return f"{found} (log-rank {p_text(conversion.p)})".replace(
        " = ", "\N{NO-BREAK SPACE}=\N{NO-BREAK SPACE}"
    )


def _associations_title(table: pd.DataFrame) -> str:
    """How many variables differ; how many were tested is unknown where p-values are hidden."""
    found = int(table["significant"].sum())
    if found:
        return f"{found} {'variable differs' if found == 1 else 'variables differ'} between clusters"
    tested = table["p"].notna().any()
    return "No tested variable differs between clusters" if tested else "No p-value can be shown"
