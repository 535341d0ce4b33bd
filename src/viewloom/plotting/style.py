"""Shared style of figures: colours, sizes, axes, and safe drawing of names from files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from textwrap import wrap
from typing import Any

import numpy as np
from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties, findfont, get_font
from matplotlib.image import AxesImage
from matplotlib.ticker import NullFormatter
from sklearn.isotonic import isotonic_regression

Array = np.ndarray
# yellow, which is illegible as text, is replaced by grey
OKABE_ITO = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999999")

DASHES = ("-", "--", ":", "-.")  # for more lines than colours

GREY, PALE = "#666666", "#BBBBBB"

SEQUENTIAL, DIVERGING = "cividis", "PuOr"

SHARES: dict[str, Any] = {"cmap": SEQUENTIAL, "vmin": 0.0, "vmax": 1.0}

PLAIN: dict[str, Any] = {"parse_math": False, "usetex": False}  # for text from files

WIDTH = 3.5  # inches: a journal column

LARGE, SMALL, LEAST = 8.0, 7.0, 4.5  # font sizes in points

LONGEST_LINE = 50  # letters of a slanted name on one line

LETTER = 0.58  # mean width of a letter, in font sizes

NOTHING = 0.01  # a share of membership below this is negligible

FOR_FILES: ContextVar[bool] = ContextVar("FOR_FILES", default=False)  # see `for_files`

AMBIGUOUS = 0.6  # a sample whose largest membership is below this is ambiguous


def inert(text: Any) -> str:
    r"""Text that can be drawn: characters that are missing from the fonts are replaced by escape codes.

    Examples
    --------
    >>> print(inert("a\nb"))
    a\nb
    """
    drawable = _drawable(tuple(FontProperties().get_family()))
    shown = (c if c.isprintable() and ord(c) in drawable else _code(c) for c in str(text))
    return "".join(shown).strip() or "(unnamed)"


def shortened(name: Any, most: int = 40) -> str:
    """A name shortened for a title; the full name is shown at the axes."""
    text = inert(name)
    return text if len(text) <= most else f"{text[: most - 3]}..."


def _code(c: str) -> str:
    return c.encode("unicode_escape").decode("ascii")


@lru_cache(maxsize=8)
def _drawable(families: tuple[str, ...]) -> frozenset[int]:
    """Code points that at least one of the fonts has."""
    fonts = [get_font(findfont(FontProperties(family=[family]))) for family in families]
    return frozenset(code for font in fonts for code in font.get_charmap())


def wrapped_names(names: Iterable[Any], room: int = 24) -> list[str]:
    """Names wrapped to about three lines of at least `room` letters, without shortening."""
    texts = [inert(name) for name in names]
    return ["\n".join(wrap(text, max(room, len(text) // 3 + 5))) for text in texts]


def count_text(n: int, what: str) -> str:
    """A number with its noun, such as "3 samples"."""
    return f"{n} {what}" if n == 1 else f"{n} {what}s"


def axes_or_new(ax: Axes | None, width: float, height: float) -> Axes:
    """The given axes, or those of a new figure of this size in inches."""
    if ax is None:
        ax = new_figure(width, height).subplots()
    ax.tick_params(labelsize=SMALL, length=2.5, width=0.6)
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def new_figure(width: float, height: float) -> Figure:
    """A figure of a size in inches, created by pyplot so that notebooks show it, except in `for_files`."""
    make: Any = Figure if FOR_FILES.get() else pyplot.figure
    return make(figsize=(width, height), dpi=150, layout="constrained")


@contextmanager
def for_files() -> Iterator[None]:
    """Draw without pyplot, which needs a working backend: for figures that are only written to files."""
    token = FOR_FILES.set(True)
    try:
        yield
    finally:
        FOR_FILES.reset(token)


def set_labels(ax: Axes, title: str, x: str, y: str) -> None:
    """Set title and labels, wrapped to fit."""
    room = room_for_text(ax)
    ax.set_title(_lines(title, room, LARGE), loc="left", fontsize=LARGE, **PLAIN)
    ax.set_xlabel(_lines(x, room, SMALL), fontsize=SMALL)
    ax.set_ylabel(y, fontsize=SMALL)


def _lines(text: str, room: float, size: float) -> str:
    """Text wrapped to a width in points."""
    return "\n".join(wrap(text, max(int(room / (LETTER * size)), 16), break_on_hyphens=False))


def room_for_text(ax: Axes) -> float:
    """Width in points from the left of the axes to the right of their cell, after room for row names."""
    width = axes_extent(ax)[0]
    names = [label.get_text() for label in ax.get_yticklabels()]
    beside = max(text_width(names), 4 * SMALL) + 2 * SMALL  # at least numbers and a label
    return 1.27 * width - beside if _managed(ax) else width


def _managed(ax: Axes) -> bool:
    """Whether a constrained layout makes room for labels around the axes."""
    engine = ax.figure.get_layout_engine()
    return engine is not None and not engine.adjust_compatible


def axes_extent(ax: Axes) -> tuple[float, float]:
    """Width and height of the axes in points, before any layout."""
    box, figure, points = ax.get_position(), ax.figure.bbox, 72.0 / ax.figure.dpi
    return float(box.width * figure.width * points), float(box.height * figure.height * points)


def text_width(names: Sequence[str], size: float = SMALL) -> float:
    """Approximate width of the longest line in points."""
    return LETTER * size * max((len(line) for name in names for line in name.split("\n")), default=0)


def most_lines(names: Sequence[str]) -> int:
    """Number of lines of the tallest name."""
    return max((name.count("\n") + 1 for name in names), default=1)


def map_size(names: Sequence[str], k: int, extra: float = 0.0) -> tuple[float, float]:
    """Size in inches of a heat map with named rows and k columns."""
    width = text_width(names) / 72.0 + 0.16 * max(k, 8) + 0.9 + extra
    return max(WIDTH, width), 0.9 + max(len(names) * max(0.15, 0.11 * most_lines(names)), 0.9)


def list_size(names: Sequence[str]) -> tuple[float, float]:
    """Size in inches of a chart with one named row per item."""
    row = max(0.24, 0.115 * most_lines(names))
    return max(WIDTH, text_width(names) / 72.0 + 2.0), 1.0 + row * len(names)


def grid_axes(n: int, width: float, height: float) -> Array:
    """Axes of a new figure for n maps of this size, two per row."""
    rows, columns = -(-n // 2), min(n, 2)
    figure = new_figure(columns * width, rows * height)
    return np.asarray(figure.subplots(rows, columns, squeeze=False))


def name_rows(ax: Axes, names: Sequence[str], positions: Array | None = None) -> None:
    """Set names of rows, in a font size that fits."""
    at = np.arange(len(names), dtype=float) if positions is None else positions
    low, high = sorted(ax.get_ylim())
    pitch = np.diff(at).min(initial=high - low) / max(high - low, 1.0) * axes_extent(ax)[1]
    size = float(np.clip(0.9 * pitch / most_lines(names), LEAST, SMALL))
    ax.set_yticks(at, names, fontsize=size, linespacing=0.95, **PLAIN)
    if ax.images:
        remove_frame(ax)


def name_columns(ax: Axes, names: Sequence[str], positions: Array | None = None) -> None:
    """Set names of columns, in a smaller font or rotated if they would not fit."""
    at = np.arange(len(names), dtype=float) if positions is None else positions
    low, high = sorted(ax.get_xlim())
    pitch = np.diff(at).min(initial=high - low) / max(high - low, 1.0) * 0.8 * axes_extent(ax)[0]
    size = float(np.clip(0.9 * SMALL * pitch / max(text_width(names), 1.0), LEAST, SMALL))
    slant: dict[str, Any] = {}
    if text_width(names, SMALL) > max(pitch, 4 * SMALL):
        size, slant = SMALL, {"rotation": 40, "ha": "right", "rotation_mode": "anchor"}
        if max(map(len, names)) <= LONGEST_LINE:  # several lines would overlap the next name
            names = [name.replace("\n", " ") for name in names]
    ax.set_xticks(at, names, fontsize=size, **slant, **PLAIN)


def remove_frame(ax: Axes) -> None:
    """Remove frame and tick marks, for heat maps."""
    ax.spines[:].set_visible(False)
    ax.tick_params(length=0)


def add_colour_scale(ax: Axes, image: AxesImage, label: str, beside: bool = False) -> None:
    """Add a colour bar as high as the axes; `beside` leaves room for a map next to them."""
    pad = 0.03 + beside * (0.05 if _managed(ax) else 0.25)
    bar = ax.figure.colorbar(image, ax=ax, pad=pad, fraction=0.08, aspect=max(axes_extent(ax)[1] / 7.0, 6.0))
    bar.set_label(label, fontsize=SMALL)
    bar.ax.tick_params(labelsize=SMALL, length=2.0, width=0.6)
    bar.outline.set_visible(False)  # type: ignore[operator]


def symmetric_limit(values: Array) -> float:
    """Largest absolute value, for the ends of a colour scale."""
    known = np.abs(values[np.isfinite(values)])
    return float(known.max(initial=0.0)) or 1.0


def write_numbers(ax: Axes, image: AxesImage, values: Array) -> None:
    """Write the values into their cells, with the largest of each row in bold."""
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


def line_style(a: int) -> dict[str, Any]:
    """Colour and dashes of the line with a given index."""
    return {"color": OKABE_ITO[a % len(OKABE_ITO)], "linestyle": DASHES[a // len(OKABE_ITO) % len(DASHES)]}


def set_few_ticks(ax: Axes, values: Array) -> None:
    """Set ticks at the values, as many as there is room for."""
    at = np.log(values) if ax.get_xscale() == "log" else values
    gap = 0.07 * float(np.ptp(at))
    kept = [0]
    for i in range(1, len(values)):
        if at[i] - at[kept[-1]] >= gap and at[i] > at[kept[-1]]:
            kept.append(i)
    ax.set_xticks(values[kept], [f"{value:g}" for value in values[kept]])
    ax.xaxis.set_minor_formatter(NullFormatter())
    ax.tick_params(axis="x", which="minor", length=0)


def label_line_ends(
    ax: Axes, x: float, ends: Array, names: Sequence[str], colours: Sequence[str] | None = None
) -> None:
    """Write names at the right ends of lines, moved apart to avoid overlap."""
    low, high = ax.get_ylim()
    gap = 1.4 * SMALL * most_lines(names) * (high - low) / axes_extent(ax)[1]
    for a, (name, y) in enumerate(zip(names, spread(ends, gap, low, high), strict=True)):
        colour = line_style(a)["color"] if colours is None else colours[a]
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

    With ``z_i = y_i - i gap`` for sorted ``y`` the condition is that ``z`` does not decrease, which is
    isotonic regression. Positions stay between `low` and `high` if there is room.

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
