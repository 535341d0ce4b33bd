"""Full names of brain regions, for axes: ``lh_bankssts_thickness`` is a column, not a name."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from viewloom.data.cohort.facts import facts
from viewloom.study.report.privacy import plain

SIDES = {"l": "left", "r": "right"}
MEASURES = {
    "thickness": "thickness", "thickavg": "thickness", "thicknessstd": "SD of thickness",
    "volume": "volume", "vol": "volume", "grayvol": "volume", "area": "area", "surfavg": "area",
    "suvr": "SUVR", "meancurv": "mean curvature",
}  # fmt: skip
REST = rf"(?P<region>[a-z]+(?:[-_.][a-z]+)*?)(?:[-_.](?P<measure>{'|'.join(MEASURES)}))?"
NAMES = [  # lingual is not on the left
    re.compile(before + REST, re.IGNORECASE)
    for before in (r"(?:ctx[-_.])?(?P<side>lh|rh|left|right|l|r)[-_.]?", "(?P<side>)")
]
# the atlas of Desikan and Killiany, and the subcortical segmentation of FreeSurfer
REGIONS = {
    "accumbens": "nucleus accumbens", "accumbensarea": "nucleus accumbens", "amygdala": "amygdala",
    "bankssts": "banks of superior temporal sulcus", "brainstem": "brain stem",
    "caudalanteriorcingulate": "caudal anterior cingulate", "caudalmiddlefrontal": "caudal middle frontal",
    "caudate": "caudate", "cerebellumcortex": "cerebellar cortex",
    "cerebellumwhitematter": "cerebellar white matter", "cerebellumwm": "cerebellar white matter",
    "cerebralcortex": "cerebral cortex", "cerebralwhitematter": "cerebral white matter",
    "cerebralwm": "cerebral white matter", "choroidplexus": "choroid plexus", "cuneus": "cuneus",
    "entorhinal": "entorhinal", "frontalpole": "frontal pole", "fusiform": "fusiform",
    "hippocampus": "hippocampus", "inferiorlateralventricle": "inferior lateral ventricle",
    "inferiorparietal": "inferior parietal", "inferiortemporal": "inferior temporal",
    "inflatvent": "inferior lateral ventricle", "insula": "insula", "isthmuscingulate": "isthmus cingulate",
    "lateraloccipital": "lateral occipital", "lateralorbitofrontal": "lateral orbitofrontal",
    "lateralventricle": "lateral ventricle", "lingual": "lingual",
    "medialorbitofrontal": "medial orbitofrontal", "middletemporal": "middle temporal",
    "pallidum": "pallidum", "paracentral": "paracentral", "parahippocampal": "parahippocampal",
    "parsopercularis": "pars opercularis", "parsorbitalis": "pars orbitalis",
    "parstriangularis": "pars triangularis", "pericalcarine": "pericalcarine", "postcentral": "postcentral",
    "posteriorcingulate": "posterior cingulate", "precentral": "precentral", "precuneus": "precuneus",
    "putamen": "putamen", "rostralanteriorcingulate": "rostral anterior cingulate",
    "rostralmiddlefrontal": "rostral middle frontal", "superiorfrontal": "superior frontal",
    "superiorparietal": "superior parietal", "superiortemporal": "superior temporal",
    "supramarginal": "supramarginal", "temporalpole": "temporal pole", "thalamus": "thalamus",
    "thalamusproper": "thalamus", "transversetemporal": "transverse temporal",
    "ventraldc": "ventral diencephalon",
}  # fmt: skip
# names of the AAL atlas in the simulated cohort, in full
IN_FULL = {
    "frontal inf oper": "inferior frontal, opercular part",
    "frontal inf tri": "inferior frontal, triangular part",
    "frontal inf orb": "inferior orbitofrontal",
    "frontal mid": "middle frontal",
    "frontal mid orb": "middle orbitofrontal",
    "frontal sup medial": "medial superior frontal",
    "frontal sup orb": "superior orbitofrontal",
    "heschl": "Heschl's gyrus",
    "occipital inf": "inferior occipital",
    "occipital mid": "middle occipital",
    "occipital sup": "superior occipital",
    "rolandic oper": "rolandic operculum",
    "supp motor area": "supplementary motor area",
    "temporal pole mid": "middle temporal pole",
    "temporal pole sup": "superior temporal pole",
}


def region_name(column: str) -> str | None:
    """The full name of the region of a column, or None for other columns.

    >>> region_name("lh_bankssts_thickness"), region_name("Left-Hippocampus"), region_name("LHippVol")
    ('left banks of superior temporal sulcus, thickness', 'left hippocampus', 'left hippocampus, volume')
    >>> region_name("rs429358") is None
    True
    """
    base = column[1:]
    if column[:1] in ("L", "R") and base in facts()["regions"]:
        name = facts()["regions"][base][0]
        return _written(column[0], IN_FULL.get(name, name), "volume" if base.endswith("Vol") else None)
    for pattern in NAMES:
        found = pattern.fullmatch(column)
        region = found and REGIONS.get(re.sub("[-_.]", "", found["region"]).lower())
        if found and region:
            return _written(found["side"], region, MEASURES.get((found["measure"] or "").lower()))
    return None


def _written(side: str, region: str, measure: str | None) -> str:
    where = f"{SIDES[side[0].lower()]} {region}" if side else region
    return f"{where}, {measure}" if measure else where


def region_names(columns: Sequence[str]) -> list[str | None]:
    """The full names of regions; None for other columns, and for regions that two columns share."""
    names = [region_name(column) for column in columns]
    counts = Counter(names)
    return [name if counts[name] == 1 else None for name in names]


def feature_names(columns: Iterable[Any], most: int) -> list[str]:
    """Names of features for readers: full names of regions, other names as in the data.

    >>> feature_names(["Left-Hippocampus", "rs429358"], 60)
    ['left hippocampus', 'rs429358']
    """
    names = [str(column) for column in columns]
    return [region or plain(name, most) for name, region in zip(names, region_names(names), strict=True)]
