"""Brain pictures: every region has its place, sides mirror each other, colours are the values."""

import numpy as np
import pandas as pd
import pytest
from matplotlib import colormaps
from matplotlib.colors import to_hex
from matplotlib.path import Path

from viewloom import plotting
from viewloom.data.regions import AAL_NAMES, region_of
from viewloom.plotting.brain import NO_VALUE, PLACES, TOTAL, WIDTH, BrainValues, main_measure, places
from viewloom.plotting.brain_atlas import ATLASES, FACES, WALL, atlas_of, outline, simplified
from viewloom.runtime.errors import InputError

DK = [
    "bankssts", "caudalanteriorcingulate", "caudalmiddlefrontal", "cuneus", "entorhinal", "fusiform",
    "inferiorparietal", "inferiortemporal", "isthmuscingulate", "lateraloccipital",
    "lateralorbitofrontal", "lingual", "medialorbitofrontal", "middletemporal", "parahippocampal",
    "paracentral", "parsopercularis", "parsorbitalis", "parstriangularis", "pericalcarine", "postcentral",
    "posteriorcingulate", "precentral", "precuneus", "rostralanteriorcingulate", "rostralmiddlefrontal",
    "superiorfrontal", "superiorparietal", "superiortemporal", "supramarginal", "frontalpole",
    "temporalpole", "transversetemporal", "insula",
]  # fmt: skip
ASEG = [
    "Accumbens-area", "Amygdala", "Caudate", "Hippocampus", "Pallidum", "Putamen", "Thalamus-Proper",
    "VentralDC",
]  # fmt: skip
FREESURFER = [f"{side}_{name}_thickness" for side in ("lh", "rh") for name in DK]
SUBCORTICAL = [f"{side}-{name}" for side in ("Left", "Right") for name in ASEG]
SHORT = [f"{side}{name}" for side in "LR" for name in AAL_NAMES.values()]
LABELS = [f"{name}_{side}" for side in "LR" for name in AAL_NAMES]


def drawn(ax, name):
    """Patches of a region."""
    return [patch for patch in ax.patches if patch.get_gid() == name]


@pytest.mark.parametrize(
    ("columns", "atlas"),
    [
        (FREESURFER + SUBCORTICAL, "Desikan-Killiany"),
        (SHORT, "AAL"),
        (LABELS, "AAL"),
    ],
)
def test_every_region_has_exactly_one_place(columns, atlas):
    found = BrainValues.of(pd.DataFrame({0: np.arange(len(columns), dtype=float)}, index=columns))
    assert found.atlas == atlas
    assert found.unknown == []
    where = [(region.side, region.name) for region in found.regions]
    assert len(set(where)) == len(columns)
    assert set(where) <= set(places(atlas))
    assert len(places(atlas)) == len(set(places(atlas)))


def test_the_90_names_fill_the_atlas():
    assert len(SHORT) == 90
    assert {(region_of(name).side, region_of(name).name) for name in SHORT} == set(places("AAL"))


@pytest.mark.parametrize("atlas", list(ATLASES))
@pytest.mark.parametrize("face", FACES)
def test_a_point_of_a_face_belongs_to_one_region(atlas, face):
    """Regions tile the face: they neither overlap nor leave gaps, up to the width of a border."""
    rng = np.random.default_rng(0)
    points = rng.uniform((0, 0), (100, 78), size=(4000, 2))
    points = points[Path(outline(face)).contains_points(points)]
    shapes = [polygon for polygons in atlas_of(atlas).faces[face].values() for polygon in polygons]
    owners = sum(Path(shape).contains_points(points).astype(int) for shape in shapes)
    assert np.mean(owners == 1) > 0.96
    assert owners.max() <= 2


@pytest.mark.parametrize("columns", [FREESURFER + SUBCORTICAL, SHORT])
def test_the_right_side_mirrors_the_left(columns):
    ax = plotting.brain_map(dict.fromkeys(columns, 1.0))
    names = {
        patch.get_gid().removeprefix("left ")
        for patch in ax.patches
        if (patch.get_gid() or "").startswith("left ")
    }
    assert len(names) >= len(columns) // 2
    for name in names:
        left, right = (
            [patch.get_xy() for patch in drawn(ax, f"{side} {name}")] for side in ("left", "right")
        )
        flipped = sorted((TOTAL - shape[:, 0]).mean() for shape in left)
        assert flipped == pytest.approx(sorted(shape[:, 0].mean() for shape in right))
        assert sorted(shape[:, 1].mean() for shape in left) == pytest.approx(
            sorted(shape[:, 1].mean() for shape in right)
        )


def test_colours_are_the_values_on_one_scale():
    table = pd.DataFrame({0: [-2.0, 1.0], 1: [0.5, np.nan]}, index=["lh_insula_area", "Right-Amygdala"])
    ax = plotting.brain_map(table, names=["a", "b"])
    scale = colormaps["PuOr"]
    wanted = {"left insula": [-2.0, 0.5], "right amygdala": [1.0, np.nan]}
    for name, values in wanted.items():
        colours = [to_hex(patch.get_facecolor()) for patch in drawn(ax, name)]
        expected = [NO_VALUE.lower() if np.isnan(z) else to_hex(scale((z + 2.0) / 4.0)) for z in values]
        assert colours == expected
    assert {to_hex(patch.get_facecolor()) for patch in drawn(ax, "right insula")} == {NO_VALUE.lower()}
    assert ax.get_legend().get_texts()[0].get_text() == "no value"
    assert "left insula" in ax.get_title(loc="left")


def test_left_is_drawn_on_the_left():
    ax = plotting.brain_map(dict.fromkeys(FREESURFER, 1.0))
    middle = PLACES[1][2] + WIDTH
    assert all(
        (patch.get_xy()[:, 0].mean() < middle) == patch.get_gid().startswith("left")
        for patch in ax.patches
        if (patch.get_gid() or "").split(" ", 1)[-1] in atlas_of("Desikan-Killiany").faces["lateral"]
    )


def test_columns_that_are_no_region_are_counted_and_said():
    ax = plotting.brain_map({"lh_insula": 1.0, "age": 2.0, "rs429358": 3.0})
    assert "2 columns not drawn" in ax.get_xlabel()
    with pytest.raises(InputError, match=r"None of the 2 columns is a brain region"):
        plotting.brain_map({"age": 2.0, "rs429358": 3.0})


def test_two_measures_of_a_region_need_a_choice():
    values = {"lh_insula_thickness": 1.0, "lh_insula_area": -1.0, "rh_insula_area": 0.5}
    with pytest.raises(InputError, match=r"1 region with more than one column \('left insula'\).*'area'"):
        plotting.brain_map(values)
    ax = plotting.brain_map(values, measure="area")
    assert "1 column of other measures not drawn" in ax.get_xlabel()
    assert main_measure(list(values)) == "area"
    assert len(drawn(ax, "left insula")) == 1


def test_the_key_numbers_every_region():
    for atlas in ATLASES:
        texts = [text.get_text() for text in plotting.brain_key(atlas).texts]
        names = atlas_of(atlas).regions
        assert [f"{i}  {name}" for i, name in enumerate(names, 1)] == texts[-len(names) :]
        assert set(map(str, range(1, len(names) + 1))) <= set(texts)
    with pytest.raises(InputError, match="no atlas 'Brodmann'"):
        plotting.brain_key("Brodmann")


def test_simplified_lines_stay_near():
    angles = np.linspace(0.0, 2.0 * np.pi, 200)
    circle = 10.0 * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    few = simplified(circle, 0.2)
    assert len(few) < 40
    inner = np.hypot(*(0.5 * (few[1:] + few[:-1])).T)
    assert inner.min() > 9.7


def test_the_names_of_an_atlas_are_those_it_draws():
    for atlas in ATLASES:
        drawn = {name for shapes in atlas_of(atlas).faces.values() for name in shapes}
        assert set(atlas_of(atlas).regions) == drawn - {WALL}
