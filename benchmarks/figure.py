"""Mean ranks with the critical difference, and NMI over sets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import summary
from methods import DEFAULT, OURS, PAPER

COLOURS = {"default": "#b2182b", "ours": "#ef8a62", "peer": "#4d4d4d"}


def draw(frame: pd.DataFrame, path: Path) -> None:
    """Write the figure: methods in rows, best mean rank on top."""
    import matplotlib.pyplot as plt

    table, nmi = summary.overall(frame), summary.by_set(summary.clean(frame), "NMI")
    difference = summary.critical_difference(len(table), len(nmi))
    size = (10.0, 1.6 + 0.28 * len(table))
    figure, (left, right) = plt.subplots(1, 2, figsize=size, sharey=True, layout="constrained")
    _draw_ranks(left, table, difference)
    _draw_scores(right, nmi[table.index])
    left.set_yticks(range(len(table)), table.index)
    left.invert_yaxis()
    for label in left.get_yticklabels():
        label.set_color(_colour(label.get_text()))
    figure.suptitle(f"{len(nmi)} sets; no fit sees a label", fontsize=11)
    figure.savefig(path, dpi=150)
    plt.close(figure)


def _draw_ranks(ax: Any, table: pd.DataFrame, difference: float) -> None:
    best = table["rank"].min()
    ax.axvspan(best, best + difference, color="#fddbc7", alpha=0.6, lw=0)
    for row, (name, rank) in enumerate(table["rank"].items()):
        ax.plot([best, rank], [row, row], color="#cccccc", lw=1, zorder=1)
        ax.plot(rank, row, "o", color=_colour(name), zorder=2)
        ax.annotate(f"{rank:.1f}", (rank, row), (7, 0), textcoords="offset points", va="center", fontsize=8)
    ax.set_xlim(right=table["rank"].max() * 1.08)
    ax.set_xlabel("mean rank by NMI (1 is best)")
    ax.set_title(
        f"Shaded: no significant difference to the best\n(critical difference {difference:.1f})",
        fontsize=9,
    )
    _bare(ax)


def _draw_scores(ax: Any, nmi: pd.DataFrame) -> None:
    for row, (name, values) in enumerate(nmi.items()):
        ax.plot(values, [row] * len(values), "|", color=_colour(name), alpha=0.45, ms=8)
        ax.plot(values.mean(), row, "o", color=_colour(name))
        if failed := int(values.isna().sum()):
            ax.annotate(
                f"{failed} failed", (1.02, row), xycoords=("axes fraction", "data"), va="center", fontsize=8
            )
    ax.set_xlim(-0.02, 1.02)
    ax.set_xlabel("NMI")
    ax.set_title("One tick per set\ndot: mean over finished sets", fontsize=9)
    ax.tick_params(axis="y", length=0)
    _bare(ax)


def _bare(ax: Any) -> None:
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(axis="x", color="#eeeeee", zorder=0)
    ax.set_axisbelow(True)


def _colour(name: str) -> str:
    if name == DEFAULT:
        return COLOURS["default"]
    return COLOURS["ours" if name in {method.name for method in [*OURS, *PAPER]} else "peer"]
