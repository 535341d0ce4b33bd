"""A schematic drawing of the brain, our own: where each region of two atlases is drawn.

Outlines and seeds are laid by hand, in units of a hundredth of the length of the brain, for the left
hemisphere with the front on the left. Each point of a face belongs to the region of the nearest seed; borders
are smoothed. Positions follow the anatomy, sizes and shapes do not: it is a diagram.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np
from scipy.interpolate import splev, splprep
from scipy.ndimage import gaussian_filter
from scipy.spatial import KDTree

Array = np.ndarray
Seeds = Mapping[str, list[tuple[float, float]]]
WIDTH, HEIGHT = 100.0, 78.0  # of a face
STEP = 0.5  # of the grid on which borders are found
BLUR = 1.6  # of borders, in units
TOLERANCE = 0.45  # of simplified borders, in units
BEYOND = 6.0  # how far regions are drawn beyond the outline, which cuts them
WALL = ""  # of the medial face: corpus callosum, diencephalon and brain stem, which are no cortex
FACES = ("lateral", "medial")
PANEL = "subcortical"

OUTLINES = {
    "lateral": [
        (3, 38), (5, 50), (13, 62), (27, 70), (42, 74), (57, 74), (71, 70), (84, 61), (93, 50), (97, 40),
        (97, 31), (91, 25), (81, 23), (71, 19), (60, 14), (48, 9), (36, 6), (26, 7), (20, 12), (19, 19),
        (21, 25), (14, 26), (7, 30),
    ],
    "medial": [
        (3, 38), (5, 50), (13, 62), (27, 70), (42, 74), (57, 74), (71, 70), (84, 61), (93, 50), (97, 40),
        (97, 31), (91, 25), (81, 23), (71, 19), (60, 14), (48, 9), (36, 6), (27, 8), (24, 14), (27, 21),
        (29, 26), (21, 26), (13, 26), (7, 30),
    ],
}  # fmt: skip

_BOTH_LATERAL: Seeds = {
    "postcentral": [(54, 71), (52, 63), (50, 55), (48, 47)],
    "superior temporal": [(29, 25), (36, 27), (44, 30), (51, 34), (57, 38)],
    "middle temporal": [(28, 18), (36, 19), (45, 22), (54, 26), (63, 31)],
    "inferior temporal": [(32, 10), (42, 13), (52, 17), (62, 22), (71, 26)],
    "insula": [(31, 34), (36, 35)],
}
_BOTH_MEDIAL: Seeds = {
    "precuneus": [(62, 66), (68, 61), (66, 55), (73, 56)],
    "cuneus": [(80, 56), (85, 49), (78, 48)],
    "lingual": [(73, 34), (81, 32), (90, 32)],
    "fusiform": [(43, 12), (52, 16), (61, 20), (71, 24)],
    WALL: [
        (29, 41), (34, 46), (41, 49), (49, 49), (56, 46), (36, 39), (44, 40), (52, 40), (33, 33), (41, 32),
        (47, 31), (38, 26), (32, 27), (56, 36),
    ],
}  # fmt: skip
DESIKAN_KILLIANY: Mapping[str, Seeds] = {
    "lateral": {
        **_BOTH_LATERAL,
        "superior frontal": [(11, 61), (19, 67), (28, 71), (37, 74)],
        "rostral middle frontal": [(8, 48), (14, 55), (21, 59), (14, 47), (21, 52)],
        "caudal middle frontal": [(32, 64), (31, 58)],
        "precentral": [(45, 71), (43, 63), (40, 54), (39, 46)],
        "superior parietal": [(63, 69), (71, 66), (78, 60)],
        "supramarginal": [(58, 55), (62, 50), (57, 47)],
        "inferior parietal": [(69, 57), (75, 51), (80, 46), (73, 45)],
        "lateral occipital": [(89, 50), (92, 41), (91, 31), (83, 35)],
        "pars opercularis": [(32, 49), (33, 43)],
        "pars triangularis": [(24, 45), (25, 41)],
        "pars orbitalis": [(16, 38), (20, 35)],
        "frontal pole": [(3, 38)],
        "lateral orbitofrontal": [(9, 32), (15, 29), (21, 29)],
        "transverse temporal": [(44, 37), (49, 41)],
        "banks of superior temporal sulcus": [(63, 39), (67, 41)],
        "temporal pole": [(21, 12), (21, 19)],
    },
    "medial": {
        **_BOTH_MEDIAL,
        "superior frontal": [(9, 50), (16, 57), (24, 63), (33, 67), (39, 69), (13, 50)],
        "frontal pole": [(3, 40)],
        "medial orbitofrontal": [(9, 34), (16, 31), (23, 30)],
        "rostral anterior cingulate": [(21, 41), (18, 38), (24, 47)],
        "caudal anterior cingulate": [(31, 53), (38, 56)],
        "posterior cingulate": [(46, 57), (54, 55)],
        "isthmus cingulate": [(62, 48), (64, 42), (61, 37)],
        "paracentral": [(46, 69), (53, 69)],
        "pericalcarine": [(74, 41), (82, 41), (91, 41)],
        "parahippocampal": [(50, 25), (57, 29)],
        "entorhinal": [(36, 16), (42, 20)],
        "temporal pole": [(27, 12)],
    },
}
AAL: Mapping[str, Seeds] = {
    "lateral": {
        **_BOTH_LATERAL,
        "superior frontal": [(9, 57), (17, 65), (27, 70), (36, 73)],
        "middle frontal": [(8, 48), (15, 54), (23, 59), (31, 62), (16, 49)],
        "middle orbitofrontal": [(6, 39), (12, 39)],
        "superior orbitofrontal": [(7, 32), (13, 31)],
        "inferior orbitofrontal": [(19, 35), (21, 30)],
        "inferior frontal, triangular part": [(23, 47), (24, 42)],
        "inferior frontal, opercular part": [(32, 50), (32, 44)],
        "precentral": [(45, 71), (42, 63), (39, 54), (39, 49)],
        "rolandic operculum": [(39, 42), (44, 43)],
        "Heschl's gyrus": [(43, 36), (48, 39)],
        "superior temporal pole": [(21, 21)],
        "middle temporal pole": [(22, 12)],
        "superior parietal": [(63, 70), (71, 67)],
        "inferior parietal": [(61, 61), (68, 59)],
        "supramarginal": [(58, 52), (60, 46)],
        "angular gyrus": [(70, 51), (74, 46), (67, 43)],
        "superior occipital": [(80, 60), (84, 56)],
        "middle occipital": [(83, 48), (80, 40), (90, 43)],
        "inferior occipital": [(91, 31), (82, 31)],
    },
    "medial": {
        **_BOTH_MEDIAL,
        "medial superior frontal": [(8, 47), (14, 54), (21, 60), (28, 64)],
        "supplementary motor area": [(36, 68), (43, 68)],
        "paracentral": [(50, 70), (55, 68)],
        "medial orbitofrontal": [(7, 37), (14, 36)],
        "gyrus rectus": [(10, 30), (18, 29)],
        "olfactory cortex": [(26, 29), (26, 33)],
        "anterior cingulate": [(21, 42), (24, 48), (30, 53)],
        "middle cingulate": [(37, 56), (45, 58), (53, 56)],
        "posterior cingulate": [(61, 49), (63, 43)],
        "calcarine": [(74, 41), (82, 41), (91, 41)],
        "parahippocampal": [(35, 16), (43, 21), (51, 25), (58, 30)],
    },
}
# of the right half of the panel, as seen from behind: centre, half axes, rotation in degrees
_NUCLEI = {
    "caudate": (13.5, 57, 4.2, 8.5, -18),
    "thalamus": (8.5, 41, 6.2, 7.5, 0),
    "putamen": (28, 46, 4.4, 10.5, 14),
    "pallidum": (20.5, 43.5, 3.0, 7.5, 14),
    "hippocampus": (25, 17, 9.0, 4.0, 14),
    "amygdala": (29.5, 27.5, 6.0, 4.6, 0),
}
NUCLEI = {
    "Desikan-Killiany": {
        **_NUCLEI,
        "nucleus accumbens": (17, 31, 4.4, 3.4, 0),
        "ventral diencephalon": (8, 28, 4.8, 4.2, 0),
        "lateral ventricle": (5.5, 62, 2.9, 8.5, -24),
        "choroid plexus": (5.2, 50.6, 3.4, 1.7, 0),
        "inferior lateral ventricle": (37, 19, 2.2, 5.2, 10),
        "cerebellar cortex": (25, 4, 12.0, 5.4, 12),
        "cerebellar white matter": (11.5, 7.5, 3.2, 3.6, 0),
        "brain stem": (0, 14, 4.6, 12.0, 0),
    },
    "AAL": _NUCLEI,
}
MIDLINE = ("brain stem",)
ATLASES = {"Desikan-Killiany": DESIKAN_KILLIANY, "AAL": AAL}


@dataclass(frozen=True, eq=False)
class Atlas:
    """Where the regions of an atlas are drawn.

    Attributes
    ----------
    name : str
    faces : dict of str to dict of str to list of (p, 2) arrays
        Polygons of each region, by face; of the panel for the right side. `WALL` is no region.

    Examples
    --------
    >>> atlas = atlas_of("Desikan-Killiany")
    >>> [face for face in atlas.faces if "precuneus" in atlas.faces[face]]
    ['medial']
    >>> len(atlas.regions)
    48
    """

    name: str
    faces: dict[str, dict[str, list[Array]]]

    @property
    def regions(self) -> list[str]:
        """Names of the regions, in the order of drawing."""
        return list(regions_of(self.name))


@cache
def regions_of(name: str) -> dict[str, None]:
    """Names of the regions of an atlas, in the order of drawing; nothing is drawn for it.

    >>> "angular gyrus" in regions_of("AAL"), "angular gyrus" in regions_of("Desikan-Killiany")
    (True, False)
    """
    cortex = [region for face in FACES for region in ATLASES[name][face] if region != WALL]
    return dict.fromkeys([*cortex, *NUCLEI[name]])


@cache
def atlas_of(name: str) -> Atlas:
    """The atlas with a name: "Desikan-Killiany" or "AAL"."""
    faces = {face: _tessellated(ATLASES[name][face]) for face in FACES}
    panel = {region: [_ellipse(*shape)] for region, shape in NUCLEI[name].items()}
    return Atlas(name, {**faces, PANEL: panel})


@cache
def outline(face: str) -> Array:
    """The closed outline of a face, (p, 2): a smooth curve through the points of `OUTLINES`."""
    points = np.array(OUTLINES[face], dtype=float)
    curve, _ = splprep(np.r_[points, points[:1]].T, s=0.0, per=True)
    return simplified(np.array(splev(np.linspace(0.0, 1.0, 241), curve)).T, 0.1)


def _tessellated(seeds: Seeds) -> dict[str, list[Array]]:
    """Polygons of the regions of a face: points nearest to their seeds, with smooth borders."""
    from contourpy import contour_generator

    names = list(seeds)
    owner = np.repeat(np.arange(len(names)), [len(seeds[name]) for name in names])
    xs, ys = (np.arange(-BEYOND, end + BEYOND, STEP) for end in (WIDTH, HEIGHT))
    grid = np.stack(np.meshgrid(xs, ys), axis=-1)
    nearest = owner[KDTree([point for name in names for point in seeds[name]]).query(grid)[1]]
    soft = np.stack([gaussian_filter((nearest == j).astype(float), BLUR / STEP) for j in range(len(names))])
    found = {}
    for j, name in enumerate(names):
        excess = soft[j] - np.delete(soft, j, axis=0).max(axis=0)  # positive where the region prevails
        excess[[0, -1]] = excess[:, [0, -1]] = -1.0  # closed at the ends of the grid
        lines = contour_generator(xs, ys, excess)
        found[name] = [simplified(np.asarray(line), TOLERANCE) for line in lines.lines(0.0)]
    return found


def simplified(line: Array, tolerance: float) -> Array:
    """A line without the points that lie within `tolerance` of the line through the others.

    >>> simplified(np.array([[0.0, 0.0], [1.0, 0.01], [2.0, 0.0], [2.0, 3.0]]), 0.1).tolist()
    [[0.0, 0.0], [2.0, 0.0], [2.0, 3.0]]
    """
    start, end = line[0], line[-1]
    along = end - start
    length = float(np.hypot(*along))
    away = line - start
    across = np.abs(along[0] * away[:, 1] - along[1] * away[:, 0]) / length if length else np.hypot(*away.T)
    far = int(across.argmax())
    if len(line) < 3 or across[far] <= tolerance:
        return line[[0, -1]]
    return np.r_[simplified(line[: far + 1], tolerance)[:-1], simplified(line[far:], tolerance)]


def _ellipse(x: float, y: float, a: float, b: float, turned: float) -> Array:
    """An ellipse as a polygon."""
    angles, turn = np.linspace(0.0, 2.0 * np.pi, 21), np.radians(turned)
    u, v = a * np.cos(angles), b * np.sin(angles)
    return np.stack([x + u * np.cos(turn) - v * np.sin(turn), y + u * np.sin(turn) + v * np.cos(turn)], 1)
