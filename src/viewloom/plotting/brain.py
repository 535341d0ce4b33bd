"""Regional values on a schematic brain, drawn offline from our own geometry."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize, to_hex
from matplotlib.patches import Patch, PathPatch, Polygon
from matplotlib.path import Path

from viewloom.data.naming import cluster_names, listed
from viewloom.data.regions import Region, region_of
from viewloom.plotting.brain_atlas import (
    ATLASES,
    HEIGHT,
    MIDLINE,
    PANEL,
    WALL,
    WIDTH,
    Atlas,
    atlas_of,
    outline,
    regions_of,
)
from viewloom.plotting.style import (
    DIVERGING,
    GREY,
    PLAIN,
    SMALL,
    axes_or_new,
    count_text,
    inert,
    set_labels,
    shortened,
    symmetric_limit,
    wrapped_names,
)
from viewloom.runtime.errors import InputError

Array = np.ndarray
NO_VALUE = "#C9CCD1"  # regions without a value
EDGE = "#8D939B"  # borders of regions; also visible between pale ones
GAP = 7.0  # between faces, in units of the atlas
HALF = 44.0  # width of each half of the panel
ROW = HEIGHT + 12.0  # height of a row
# the faces from left to right: side, face, left edge, whether the drawing is mirrored
PLACES = (
    ("left", "lateral", 0.0, False),
    ("left", "medial", WIDTH + GAP, True),
    ("right", "medial", 2 * (WIDTH + GAP) + 2 * HALF + GAP, False),
    ("right", "lateral", 3 * (WIDTH + GAP) + 2 * HALF + GAP, True),
)
CENTRE = 2 * (WIDTH + GAP) + HALF  # of the panel
TOTAL = PLACES[-1][2] + WIDTH
COLUMNS, KEY_WIDTH = 4, 2 * (WIDTH + GAP) + 2 * HALF  # of the key
KEY: dict[str, Any] = {"fontsize": SMALL - 0.5, "frameon": False, "handlelength": 1.0, "borderpad": 0.0}


@dataclass(frozen=True, eq=False)
class BrainValues:
    """Values of regions, one column per map.

    Attributes
    ----------
    atlas : str
        "Desikan-Killiany" or "AAL".
    regions : list of Region
        Recognised regions, each once.
    z : (r, k) array
        Their values.
    unknown : list of str
        Columns that are no region of the atlas.
    measure : str or None
        The measure, where columns have several.
    others : int
        Columns of other measures of the same regions.
    """

    atlas: str
    regions: list[Region]
    z: Array
    unknown: list[str]
    measure: str | None = None
    others: int = 0

    @classmethod
    def of(cls, table: pd.DataFrame, *, measure: str | None = None) -> BrainValues:
        """Find the regions of the rows of a table.

        Parameters
        ----------
        table : DataFrame
            Features (rows) x maps.
        measure : str, optional
            Such as "thickness": which of several measures of a region to draw.

        Raises
        ------
        InputError
            If two features are the same region.
        """
        columns = [str(name) for name in table.index]
        found = [region_of(column) for column in columns]
        atlas = best_atlas(found)
        known = regions_of(atlas)
        placed = [region is not None and region.name in known for region in found]
        wanted = [
            there and (measure is None or region is None or region.measure in (None, measure))
            for there, region in zip(placed, found, strict=True)
        ]
        rows = np.flatnonzero(wanted)
        regions = [region for i in rows if (region := found[i]) is not None]
        _check_single(regions)
        unknown = [column for column, there in zip(columns, placed, strict=True) if not there]
        values = table.to_numpy(dtype=float)[rows]
        return cls(atlas, regions, values, unknown, measure, int(sum(placed)) - len(rows))


def best_atlas(regions: Sequence[Region | None]) -> str:
    """The atlas that has most of the regions; the first one if there is no difference.

    >>> best_atlas([Region("left", "angular gyrus"), Region("left", "precuneus")])
    'AAL'
    """
    names = [region.name for region in regions if region is not None]
    return max(ATLASES, key=lambda atlas: sum(name in regions_of(atlas) for name in names))


def main_measure(columns: Sequence[Any]) -> str | None:
    """The measure of most regions where columns have several; None where one measure is no choice.

    >>> main_measure(["lh_insula_thickness", "lh_insula_area", "rh_insula_area"])
    'area'
    >>> main_measure(["lh_insula_thickness", "Left-Hippocampus"]) is None
    True
    """
    found = [region for region in map(region_of, map(str, columns)) if region is not None]
    places = Counter((region.side, region.name) for region in found)
    counts = Counter(region.measure for region in found if region.measure)
    return counts.most_common(1)[0][0] if max(places.values(), default=0) > 1 and counts else None


def _check_single(regions: Sequence[Region]) -> None:
    """Refuse two columns for the same region."""
    places = Counter((region.side, region.name) for region in regions)
    shared = {f"{side} {name}".strip() for (side, name), n in places.items() if n > 1}
    if shared:
        measures = sorted({region.measure for region in regions if region.measure})
        way_out = (
            f"set measure to one of {listed(measures)}" if len(measures) > 1 else "leave one of them out"
        )
        raise InputError(
            f"{count_text(len(shared), 'region')} with more than one column ({listed(sorted(shared))}); "
            f"{way_out}."
        )


def brain_map(
    values: Mapping[Any, float] | pd.Series | pd.DataFrame,
    ax: Axes | None = None,
    *,
    measure: str | None = None,
    names: Sequence[Any] | None = None,
    label: str = "mean z-score (SD)",
) -> Axes:
    """Values of brain regions as colours on a schematic brain, one row per cluster.

    Columns of FreeSurfer (the atlas of Desikan and Killiany, with subcortical structures) and of the AAL
    atlas are recognised, and their short names such as ``LHippVol``. From left to right: the left hemisphere
    from outside and from the midline, subcortical structures from behind, the right hemisphere from the
    midline and from outside. All rows have one scale, whose middle is zero. Grey regions have no value.

    Parameters
    ----------
    values : Series, dict or DataFrame
        By column; of a DataFrame, each column is a row of the figure, as in `inspection.cluster_profiles`.
    ax : Axes, optional
    measure : str, optional
        Which of several measures of the regions to draw, such as "thickness".
    names : sequence of str, optional
        Names of the clusters, by label; by default integer labels are shown as numbers from 1.
    label : str
        What the colours mean.

    Examples
    --------
    >>> import viewloom as vl
    >>> ax = vl.plotting.brain_map({"lh_entorhinal_thickness": -1.2, "rh_entorhinal_thickness": -0.8})
    >>> ax.get_title(loc="left")
    'Largest value: left entorhinal, thickness at -1.2'
    """
    table = values if isinstance(values, pd.DataFrame) else pd.Series(values, dtype=float).to_frame("")
    found = BrainValues.of(table, measure=measure)
    clusters = [""] if not isinstance(values, pd.DataFrame) else cluster_names(list(table.columns), names)
    return draw_brain(found, clusters, ax, label)


def draw_brain(found: BrainValues, clusters: Sequence[str], ax: Axes | None, label: str) -> Axes:
    """Draw regional values, one row per cluster."""
    if not found.regions:
        raise InputError(
            f"None of the {count_text(len(found.unknown), 'column')} is a brain region of the atlases of "
            "Desikan and Killiany or AAL; rename them, such as 'lh_entorhinal_thickness'."
        )
    k = len(clusters)
    ax = axes_or_new(ax, 7.0, 0.8 + 0.98 * k)
    limit = symmetric_limit(found.z)
    scale = ScalarMappable(Normalize(-limit, limit), colormaps[DIVERGING])
    for row, name in enumerate(clusters):
        base = (k - 1 - row) * ROW
        _draw_row(ax, found, found.z[:, row], base, scale)
        if name:
            text = wrapped_names([f"cluster {name}"], 14)[0]
            ax.text(-6, base + HEIGHT / 2, text, ha="right", va="center", fontsize=SMALL, **PLAIN)
    _label_faces(ax, k)
    _finish(ax, k, scale, label, _has_gaps(found))
    set_labels(ax, _title(found, clusters), "", "")
    ax.set_xlabel(_left_out(found), fontsize=SMALL, color=GREY)
    return ax


def _has_gaps(found: BrainValues) -> bool:
    """Whether a region of the atlas has no value in some row."""
    whole = sum(bool(np.isfinite(row).all()) for row in found.z)
    return whole < len(places(found.atlas))


def places(atlas: str) -> list[tuple[str, str]]:
    """Side and name of every region that an atlas draws.

    >>> len(places("AAL"))
    90
    """
    return [
        (side, name)
        for name in regions_of(atlas)
        for side in (("",) if name in MIDLINE else ("left", "right"))
    ]


def _draw_row(ax: Axes, found: BrainValues, values: Array, base: float, scale: ScalarMappable) -> None:
    """One map: the four faces and the panel."""
    atlas = atlas_of(found.atlas)
    at = {(region.side, region.name): float(z) for region, z in zip(found.regions, values, strict=True)}
    colours = {place: _colour(scale, z) for place, z in at.items() if np.isfinite(z)}
    for side, face, left, mirrored in PLACES:
        edge = _moved(outline(face), left, base, mirrored)
        cut = PathPatch(Path(edge, closed=True), facecolor="none", edgecolor=GREY, linewidth=0.6, zorder=3)
        ax.add_patch(cut)
        for name, polygons in atlas.faces[face].items():
            for polygon in polygons if name != WALL else ():
                shape = _patch(_moved(polygon, left, base, mirrored), colours.get((side, name), NO_VALUE))
                shape.set_gid(f"{side} {name}")
                ax.add_patch(shape)
                shape.set_clip_path(cut)
    for side, name, polygon in _panel(atlas):
        shape = _patch(_shifted(polygon, 0.0, base), colours.get((side, name), NO_VALUE))
        shape.set_gid(f"{side} {name}".strip())
        ax.add_patch(shape)


def _colour(scale: Any, value: float) -> str:
    """The colour of a value on the scale, such as "#e66101"."""
    return to_hex(scale.to_rgba(value))


def _panel(atlas: Atlas) -> Iterator[tuple[str, str, Array]]:
    """Shapes of the subcortical panel: the left side of the brain is on the left."""
    for name, polygons in atlas.faces[PANEL].items():
        for polygon in polygons:
            if name in MIDLINE:
                yield "", name, _shifted(polygon, CENTRE, 4.0)
                continue
            yield "left", name, _shifted(polygon * (-1.0, 1.0), CENTRE, 4.0)
            yield "right", name, _shifted(polygon, CENTRE, 4.0)


def _shifted(points: Array, x: float, y: float) -> Array:
    return points + np.array([x, y])


def _patch(polygon: Array, colour: str) -> Polygon:
    return Polygon(polygon, closed=True, facecolor=colour, edgecolor=EDGE, linewidth=0.35)


def _moved(points: Array, left: float, base: float, mirrored: bool) -> Array:
    """Points of a face at its place in the figure."""
    x = WIDTH - points[:, 0] if mirrored else points[:, 0]
    return np.stack([x + left, points[:, 1] + base], axis=1)


def _label_faces(ax: Axes, k: int) -> None:
    """Names of the faces above the first row."""
    style: dict[str, Any] = {"ha": "center", "va": "bottom", "fontsize": SMALL - 0.5, "color": GREY}
    for side, face, left, _ in PLACES:
        ax.text(left + WIDTH / 2, k * ROW - 10.0, f"{side}, {face}", **style)
    ax.text(CENTRE, k * ROW - 10.0, "subcortical", **style)
    for side, sign in (("L", -1), ("R", 1)):
        ax.text(CENTRE + sign * (HALF - 4), 2.0, side, **{**style, "va": "center"})


def _finish(ax: Axes, k: int, scale: ScalarMappable, label: str, gaps: bool) -> None:
    """Limits, colour scale and the key of grey regions."""
    ax.set(xlim=(-2.0, TOTAL + 2.0), ylim=(-4.0, k * ROW), aspect="equal", xticks=[], yticks=[])
    ax.spines[:].set_visible(False)
    bar = ax.figure.colorbar(scale, ax=ax, pad=0.02, fraction=0.02, shrink=0.9 if k == 1 else 0.6, aspect=14)
    bar.set_label(label, fontsize=SMALL)
    bar.ax.tick_params(labelsize=SMALL, length=2.0, width=0.6)
    bar.outline.set_visible(False)  # type: ignore[operator]
    if gaps:
        key = [Patch(facecolor=NO_VALUE, label="no value")]
        ax.legend(handles=key, loc="lower right", bbox_to_anchor=(1.0, -0.04), **KEY)


def _title(found: BrainValues, clusters: Sequence[str]) -> str:
    """The largest value, whatever its sign."""
    sizes = np.nan_to_num(np.abs(found.z))
    row, column = divmod(int(sizes.argmax()), sizes.shape[1])
    where, z = shortened(found.regions[row], 60), found.z[row, column]
    if not clusters[column]:
        return f"Largest value: {where} at {z:+.1f}"
    return f"Largest value: {where} in cluster {shortened(clusters[column])}, {z:+.1f}"


def _left_out(found: BrainValues) -> str:
    """What is not drawn, and which atlas it is."""
    parts = [f"schematic, regions of the atlas {found.atlas}"]
    if found.unknown:
        parts.append(f"{count_text(len(found.unknown), 'column')} not drawn: no region of it")
    if found.others:
        parts.append(f"{count_text(found.others, 'column')} of other measures not drawn")
    return inert("; ".join(parts))


def brain_key(atlas: str = "Desikan-Killiany", ax: Axes | None = None) -> Axes:
    """The regions of an atlas on the schematic brain, with numbers and their names.

    Parameters
    ----------
    atlas : {"Desikan-Killiany", "AAL"}
    ax : Axes, optional

    Examples
    --------
    >>> ax = brain_key("AAL")
    >>> ax.get_title(loc="left")
    'AAL: 45 regions; numbers on the left side'
    """
    if atlas not in ATLASES:
        raise InputError(f"There is no atlas {atlas!r}; there are {listed(list(ATLASES))}.")
    drawn, lines = atlas_of(atlas), -(-len(regions_of(atlas)) // COLUMNS)
    ax = axes_or_new(ax, 7.0, 2.5 + 0.125 * lines)
    numbers = {name: str(i + 1) for i, name in enumerate(drawn.regions)}
    blank = BrainValues(atlas, [], np.empty((0, 1)), [])
    _draw_row(ax, blank, np.empty(0), 0.0, ScalarMappable(Normalize(-1.0, 1.0)))
    for name, x, y in _label_points(drawn):
        ax.text(x, y, numbers[name], ha="center", va="center", fontsize=SMALL - 1.5)
    for i, name in enumerate(drawn.regions):
        column, line = divmod(i, lines)
        x, y = column * KEY_WIDTH / COLUMNS, -8.0 - 5.2 * line
        ax.text(x, y, f"{numbers[name]}  {name}", fontsize=SMALL - 1.0, va="center")
    ax.set(xlim=(-2.0, KEY_WIDTH), ylim=(-8.0 - 5.2 * lines, HEIGHT), aspect="equal", xticks=[], yticks=[])
    ax.spines[:].set_visible(False)
    set_labels(ax, f"{atlas}: {len(drawn.regions)} regions; numbers on the left side", "", "")
    return ax


def _label_points(atlas: Atlas) -> Iterator[tuple[str, float, float]]:
    """Where the number of each region is written: inside its largest part of each face on the left."""
    for _, face, left, mirrored in PLACES[:2]:
        edge = Path(outline(face))
        for name, polygons in atlas.faces[face].items():
            if name != WALL:
                x, y = _inside(max(polygons, key=len), edge)
                yield name, left + (WIDTH - x if mirrored else x), y
    for side, name, polygon in _panel(atlas):
        if side != "right":
            yield name, *polygon.mean(axis=0)


def _inside(polygon: Array, edge: Path) -> tuple[float, float]:
    """The point of a region that is farthest from its border and from the outline."""
    grid = np.stack(np.meshgrid(np.arange(0.0, WIDTH), np.arange(0.0, HEIGHT)), axis=-1).reshape(-1, 2)
    kept = grid[Path(polygon).contains_points(grid) & edge.contains_points(grid)]
    border = np.r_[_dense(polygon), edge.vertices]
    distance = np.sqrt(((kept[:, None] - border[None]) ** 2).sum(axis=2)).min(axis=1)
    x, y = kept[int(distance.argmax())]
    return float(x), float(y)


def _dense(polygon: Array) -> Array:
    """Points along a closed line."""
    steps = np.linspace(0.0, 1.0, 8, endpoint=False)[:, None, None]
    return np.asarray((polygon + steps * (np.roll(polygon, -1, axis=0) - polygon)).reshape(-1, 2))
