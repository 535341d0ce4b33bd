"""Brain pictures of a report: mean z-scores of regions in clusters, for views whose columns are regions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from viewloom.data.regions import Region, region_of
from viewloom.study.report.sentences import joined, signed
from viewloom.study.wording import counted

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from viewloom.plotting.brain import BrainValues

LEAST = 4  # regions; views with fewer have no picture
NAMED = 3  # regions that an alternative text names


def brain_values(means: pd.DataFrame) -> BrainValues | None:
    """Mean z-scores of the regions of a view, or None if its columns are no brain regions.

    Of several measures of the same regions, such as thickness and area, the most frequent one is drawn.
    """
    if sum(region_of(str(name)) is not None for name in means.index) < LEAST:
        return None
    from viewloom.plotting.brain import BrainValues, main_measure

    measure = main_measure(list(means.index))
    try:
        found = BrainValues.of(means, measure=measure)
    except ValueError:  # two columns of one region and measure: no picture can be right
        return None
    return found if len(found.regions) >= LEAST and np.isfinite(found.z).any() else None


def brain_data(found: BrainValues) -> dict[str, Any]:
    """What a picture shows beside the values, as plain data."""
    return {
        "atlas": found.atlas,
        "regions": [[region.side, region.name, region.measure] for region in found.regions],
        "unknown": len(found.unknown),
        "others": found.others,
        "measure": found.measure,
    }


def draw_brain_figure(data: dict[str, Any], names: Sequence[str]) -> Axes:
    """Draw the picture with these data."""
    from viewloom.plotting.brain import BrainValues, draw_brain

    regions = [Region(side, name, measure) for side, name, measure in data["regions"]]
    values, unknown = np.array(data["values"], dtype=float), [""] * data["unknown"]
    found = BrainValues(data["atlas"], regions, values, unknown, data["measure"], data["others"])
    return draw_brain(found, list(names), None, "mean z-score (SD)")


def brain_caption(found: BrainValues, names: Sequence[str]) -> tuple[str, str]:
    """Caption and alternative text of a picture."""
    what = f", {found.measure}" if found.measure else ""
    parts = [CAPTION.format(atlas=found.atlas, what=what)]
    if found.unknown:
        some = counted(len(found.unknown), "column is", "columns are")
        parts.append(f"{some} no region of the atlas and not drawn.")
    if found.others:
        others = counted(found.others, "column of another measure is", "columns of other measures are")
        parts.append(f"{others} not drawn.")
    return " ".join(parts), _alternative(found, names)


def _alternative(found: BrainValues, names: Sequence[str]) -> str:
    """The regions that deviate most, of every cluster."""
    texts = []
    for j, name in enumerate(names):
        order = np.argsort(-np.nan_to_num(np.abs(found.z[:, j])), kind="stable")[:NAMED]
        known = [i for i in order if np.isfinite(found.z[i, j])]
        far = joined(f"{found.regions[i]} {signed(found.z[i, j])} SD" for i in known)
        texts += [f"Cluster {name}: {far}."] if known else []
    return " ".join(["Regions that deviate most from the mean.", *texts])


CAPTION = (
    "Mean of each brain region in each cluster{what}, in standard deviations (SD) from the mean of all "
    "subjects: orange is below the mean, purple above, grey has no value. Schematic drawing of the regions "
    "of the atlas {atlas}."
)
