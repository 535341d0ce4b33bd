"""Brain regions that columns are about: ``lh_bankssts_thickness`` is a column, not the name of a region.

Known are the atlas of Desikan and Killiany with the subcortical segmentation of FreeSurfer, the 45 pairs of
cerebral regions of the AAL atlas, and the short names of both in ADNI's tables (``LHippVol``, ``RAngular``).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from viewloom.data.cohort.facts import facts

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
AAL = re.compile(r"(?P<region>[A-Za-z]+(?:_[A-Za-z]+)*)_(?P<side>[LR])")
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
# short names that the simulated cohort does not have
MORE = {
    "AccumVol": "nucleus accumbens", "CaudVol": "caudate", "PallVol": "pallidum", "PutamVol": "putamen",
    "ThalVol": "thalamus", "ParsOper": "pars opercularis", "ParsOrb": "pars orbitalis",
    "ParsTriang": "pars triangularis", "TransvTemporal": "transverse temporal", "Pericalc": "pericalcarine",
    "Olfactory": "olfactory cortex", "Rectus": "gyrus rectus", "LatVent": "lateral ventricle",
    "InfLatVent": "inferior lateral ventricle",
}  # fmt: skip
# names of the AAL atlas: the short name of each
AAL_NAMES = {
    "Precentral": "Precentral", "Frontal_Sup": "SupFrontal", "Frontal_Sup_Orb": "SupOrbFrontal",
    "Frontal_Mid": "MidFrontal", "Frontal_Mid_Orb": "MidOrbFrontal", "Frontal_Inf_Oper": "InfFrontal_Oper",
    "Frontal_Inf_Tri": "InfFrontal_Triang", "Frontal_Inf_Orb": "InfOrbFrontal",
    "Rolandic_Oper": "Rolandic_Oper", "Supp_Motor_Area": "SuppMotorArea", "Olfactory": "Olfactory",
    "Frontal_Sup_Medial": "MedSupFrontal", "Frontal_Med_Orb": "MedOrbFrontal", "Rectus": "Rectus",
    "Insula": "Insula", "Cingulum_Ant": "AntCingulate", "Cingulum_Mid": "MidCingulate",
    "Cingulum_Post": "PostCingulate", "Hippocampus": "Hippocampus", "ParaHippocampal": "Parahipp",
    "Amygdala": "Amygdala", "Calcarine": "Calcarine", "Cuneus": "Cuneus", "Lingual": "Lingual",
    "Occipital_Sup": "SupOccipital", "Occipital_Mid": "MidOccipital", "Occipital_Inf": "InfOccipital",
    "Fusiform": "Fusiform", "Postcentral": "Postcentral", "Parietal_Sup": "SupParietal",
    "Parietal_Inf": "InfParietal", "SupraMarginal": "Supramarg", "Angular": "Angular",
    "Precuneus": "Precuneus", "Paracentral_Lobule": "Paracentral", "Caudate": "Caudate",
    "Putamen": "Putamen", "Pallidum": "Pallidum", "Thalamus": "Thalamus", "Heschl": "Heschl",
    "Temporal_Sup": "SupTemporal", "Temporal_Pole_Sup": "SupTempPole", "Temporal_Mid": "MidTemporal",
    "Temporal_Pole_Mid": "MidTempPole", "Temporal_Inf": "InfTemporal",
}  # fmt: skip


@dataclass(frozen=True)
class Region:
    """A region of the brain, and what was measured there.

    Attributes
    ----------
    side : str
        "left", "right", or empty for regions without a side.
    name : str
    measure : str or None
        None where the column does not say.

    Examples
    --------
    >>> str(Region("left", "hippocampus", "volume"))
    'left hippocampus, volume'
    """

    side: str
    name: str
    measure: str | None = None

    def __str__(self) -> str:
        where = f"{self.side} {self.name}" if self.side else self.name
        return f"{where}, {self.measure}" if self.measure else where


def region_of(column: str) -> Region | None:
    """The region that a column is about, or None for other columns.

    >>> region_of("rh_entorhinal_thickness")
    Region(side='right', name='entorhinal', measure='thickness')
    >>> region_of("Frontal_Inf_Oper_L").name, region_of("rs429358")
    ('inferior frontal, opercular part', None)
    """
    return _short(column) or _of_freesurfer(column) or _of_aal(column)


def region_names(columns: Sequence[str]) -> list[str | None]:
    """The full names of regions; None for other columns, and for regions that two columns share."""
    found = [region_of(column) for column in columns]
    names = [None if region is None else str(region) for region in found]
    counts = Counter(names)
    return [name if counts[name] == 1 else None for name in names]


def _short(column: str) -> Region | None:
    """The region of a short name: the side and an abbreviation."""
    side, base = SIDES.get(column[:1].lower()), column[1:]
    name = abbreviated(base)
    if column[:1] not in ("L", "R") or side is None or name is None:
        return None
    return Region(side, name, "volume" if base.endswith("Vol") else None)


def abbreviated(base: str) -> str | None:
    """The full name of an abbreviation, or None.

    >>> abbreviated("InfFrontal_Oper")
    'inferior frontal, opercular part'
    """
    if base in facts()["regions"]:
        name = facts()["regions"][base][0]
        return str(IN_FULL.get(name, name))
    return MORE.get(base)


def _of_freesurfer(column: str) -> Region | None:
    for pattern in NAMES:
        found = pattern.fullmatch(column)
        name = found and REGIONS.get(re.sub("[-_.]", "", found["region"]).lower())
        if found and name:
            side = SIDES[found["side"][0].lower()] if found["side"] else ""
            return Region(side, name, MEASURES.get((found["measure"] or "").lower()))
    return None


def _of_aal(column: str) -> Region | None:
    found = AAL.fullmatch(column)
    base = found and AAL_NAMES.get(found["region"])
    name = base and abbreviated(base)
    return Region(SIDES[found["side"].lower()], name) if found and name else None
