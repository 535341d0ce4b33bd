"""Figures of agreement between clusterings: of methods, and of settings."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from viewloom.plotting.style import (
    SHARES,
    add_colour_scale,
    axes_or_new,
    count_text,
    name_columns,
    name_rows,
    set_labels,
    shortened,
    text_width,
    wrapped_names,
    write_numbers,
)

Array = np.ndarray
LABEL = "adjusted Rand index (1: same clusters)"


def method_agreement(result: Any, ax: Axes | None = None) -> Axes:
    r"""Agreement between the clusters of methods, on the same samples; the diagonal compares seeds.

    Parameters
    ----------
    result : Comparison, or DataFrame of its `agreement`
    ax : Axes, optional

    Examples
    --------
    >>> import viewloom as vl
    >>> views, y = vl.simulate.blobs_views(60, random_state=0)
    >>> result = vl.compare(views, y, methods=["k-means", "ours, diffusion"], seeds=1)
    >>> vl.plotting.method_agreement(result).get_title(loc="left").replace("\n", " ")
    '2 of 2 methods find the clusters of ours, diffusion'
    """
    table = result if isinstance(result, pd.DataFrame) else result.agreement
    values = table.to_numpy(dtype=float)
    ours = [name for name in table.index if str(name).startswith("ours")]
    reference = str([*table.index, *ours][-1])
    alike = int((table[reference].drop(reference) >= 0.8).sum()) + 1
    ax = _square_map(values, [str(name) for name in table.index], ax)
    found = f"{alike} of {count_text(len(table), 'method')} find the clusters of {shortened(reference)}"
    set_labels(ax, found, "", "")
    return ax


def solutions(found: Any, ax: Axes | None = None) -> Axes:
    r"""Agreement between the clusters of settings; lines part settings that give other clusters.

    Parameters
    ----------
    found : Solutions
    ax : Axes, optional

    Examples
    --------
    >>> import viewloom as vl
    >>> from viewloom.evaluation.solutions import map_solutions
    >>> views, y = vl.simulate.blobs_views(60, random_state=0)
    >>> found = map_solutions(views, grid={"lam": [1.0], "n_clusters": [2]})
    >>> vl.plotting.solutions(found).get_title(loc="left").replace("\n", " ")
    '2 of 3 settings give the clusters of the chosen one'
    """
    groups = found.settings["group"].to_numpy()
    order = np.lexsort((np.arange(len(groups)), groups))
    values = found.agreement.to_numpy(dtype=float)[np.ix_(order, order)]
    ax = _square_map(values, [str(found.settings.index[i]) for i in order], ax)
    for edge in np.flatnonzero(np.diff(groups[order])) + 0.5:
        for line in (ax.axhline, ax.axvline):
            line(edge, color="white", linewidth=2.0)
    same = int((groups == groups[0]).sum())
    title = f"{same} of {count_text(len(groups), 'setting')} give the clusters of the chosen one"
    set_labels(ax, title, "", "")
    return ax


def _square_map(values: Array, names: list[str], ax: Axes | None) -> Axes:
    """A heat map of agreement with names of rows and columns."""
    shown = wrapped_names(names, 30)
    side = 0.9 + 0.21 * len(names)
    ax = axes_or_new(ax, side + text_width(shown) / 72.0 + 0.8, side + 0.6 * text_width(shown) / 72.0 + 0.3)
    image = ax.imshow(np.clip(values, 0.0, 1.0), aspect="auto", **SHARES)
    if len(names) <= 30:
        write_numbers(ax, image, np.round(values, 2) + 0.0)  # no -0.00
        for text in ax.texts:
            text.set(fontsize=5.0, fontweight="normal")
    add_colour_scale(ax, image, LABEL)
    name_rows(ax, shown)
    name_columns(ax, shown)
    return ax
