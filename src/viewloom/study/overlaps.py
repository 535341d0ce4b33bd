"""Figure of the overlap of views: one column per combination of views, with the number of subjects."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import wrap
from typing import TYPE_CHECKING, Any

import numpy as np

from viewloom.runtime.errors import MissingPackageError
from viewloom.study.check import Check

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST, LEAST = 20, 6  # largest number of columns, and the smallest that there is room for
TALL = 3.2  # height of the longest bar, in rows
GAP = 0.7  # between the views and the bars above them, in rows
BLUE, GREY, PALE, FAINT = "#0072B2", "#666666", "#D0D0D0", "#F4F4F4"
LARGE, SMALL = 8.0, 7.0  # font sizes in points
LETTER = 0.58  # mean width of a letter, in font sizes
ROW, COLUMN = 0.26, 0.24  # inches
PLAIN: dict[str, Any] = {"parse_math": False, "usetex": False}  # for names from files


def overlaps(check: Check, ax: Axes | None = None) -> Axes:
    """Draw the number of subjects with each combination of views.

    Dots mark the views, and bars above them show the number of subjects.

    Parameters
    ----------
    check : Check
    ax : Axes, optional
        By default those of a new figure.

    Returns
    -------
    Axes
    """
    shown = check.overlaps.iloc[:MOST]
    patterns = np.array(shown.index.to_list(), dtype=bool).reshape(len(shown), len(check.views))
    colours = [BLUE if all(pattern) else GREY for pattern in patterns]
    names = [_row_name(str(name), n) for name, n in check.views["subjects"].items()]
    ax = _axes(names, len(shown)) if ax is None else ax
    _bars(ax, shown.to_list(), colours)
    _dots(ax, patterns, colours)
    ax.set_yticks(range(len(names)), names, fontsize=SMALL, linespacing=0.95, **PLAIN)
    ax.set_xticks([])
    ax.set_xlim(-0.6, max(len(shown), LEAST) - 0.4)
    ax.set_ylim(len(names) - 0.5, -GAP - TALL - 0.6)  # the first view is at the top
    ax.spines[:].set_visible(False)
    ax.tick_params(length=0)
    ax.set_title(_title(check), loc="left", fontsize=LARGE, **PLAIN)
    rest = check.overlaps.iloc[MOST:]
    if len(rest):
        ax.set_xlabel(
            f"{len(rest)} more combinations with {rest.sum()} subjects are not drawn", fontsize=SMALL
        )
    return ax


def _axes(names: Sequence[str], n_patterns: int) -> Axes:
    """Axes of a new figure with room for all names and patterns."""
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise MissingPackageError("Figures need matplotlib: pip install viewloom[plot]") from error
    beside = (
        LETTER * SMALL / 72.0 * max((len(line) for name in names for line in name.split("\n")), default=0)
    )
    size = (max(3.5, beside + 0.4 + COLUMN * n_patterns), 0.6 + ROW * (len(names) + GAP + TALL))
    return pyplot.subplots(figsize=size, dpi=150, layout="constrained")[1]


def _bars(ax: Axes, counts: list[int], colours: list[str]) -> None:
    """Bars above the rows of the views, and their counts."""
    heights = [TALL * count / max(counts) for count in counts]
    ax.bar(
        range(len(counts)), heights, bottom=[-GAP - height for height in heights], width=0.62, color=colours
    )
    for x, (height, count) in enumerate(zip(heights, counts, strict=True)):
        ax.text(x, -GAP - height - 0.08, str(count), ha="center", va="bottom", fontsize=SMALL)


def _dots(ax: Axes, patterns: np.ndarray, colours: list[str]) -> None:
    """Dots for the views of each combination, joined by a line; pale dots for missing views."""
    for row in range(0, patterns.shape[1], 2):
        ax.axhspan(row - 0.5, row + 0.5, color=FAINT, linewidth=0, zorder=0)
    for x, (pattern, colour) in enumerate(zip(patterns, colours, strict=True)):
        has, lacks = np.flatnonzero(pattern), np.flatnonzero(~pattern)
        ax.plot(np.full(len(lacks), x), lacks, "o", color=PALE, markersize=4.5, zorder=2)
        ax.plot(np.full(len(has), x), has, "o-", color=colour, markersize=5, linewidth=1.4, zorder=3)


def _row_name(name: str, n: int) -> str:
    return "\n".join(wrap(f"{name} (n={n})", max(24, len(name) // 3 + 12)))


def _title(check: Check) -> str:
    if check.overlaps.empty:
        return "No view could be read"
    complete = sum(n for pattern, n in zip(check.overlaps.index, check.overlaps, strict=True) if all(pattern))
    return f"{complete} of {check.n_subjects} subjects ({complete / check.n_subjects:.0%}) have every view"
