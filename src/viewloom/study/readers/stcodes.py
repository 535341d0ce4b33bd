"""Names of the ST codes in the FreeSurfer tables of ADNI: ``ST29SV`` is the volume of the left hippocampus.

The numbers are those of the data dictionaries. The number of a right structure is that of the left plus 59.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from viewloom.study.readers.frames import Code, Codes, codes_of

CODE = re.compile(r"ST(?P<number>\d+)(?P<kind>SV|CV|SA|TA|TS|HS)(?P<table>_.+)?")
MEASURES = {
    "SV": "volume",
    "CV": "volume",
    "HS": "volume",
    "SA": "area",
    "TA": "thickness",
    "TS": "thicknessstd",
}
FIRST_LEFT, TO_RIGHT = 11, 59
PAIRED = [
    "AccumbensArea", "Amygdala", "Bankssts", "CaudalAnteriorCingulate", "CaudalMiddleFrontal", "Caudate",
    "CerebellumCortex", "CerebellumWM", "CerebralCortex", "CerebralWM", "ChoroidPlexus", "CorpusCallosum",
    "Cuneus", "Entorhinal", "FrontalPole", "Fusiform", "Hemisphere", "HemisphereWM", "Hippocampus",
    "InferiorLateralVentricle", "InferiorParietal", "InferiorTemporal", "Interior", "IsthmusCingulate",
    "LateralOccipital", "LateralOrbitofrontal", "LateralVentricle", "Lingual", "MedialOrbitofrontal",
    "MiddleTemporal", "NonWMHypoIntensities", "Pallidum", "Paracentral", "Parahippocampal",
    "ParsOpercularis", "ParsOrbitalis", "ParsTriangularis", "Pericalcarine", "Postcentral",
    "PosteriorCingulate", "Precentral", "Precuneus", "Putamen", "RostralAnteriorCingulate",
    "RostralMiddleFrontal", "SuperiorFrontal", "SuperiorParietal", "SuperiorTemporal", "Supramarginal",
    "TemporalPole", "Thalamus", "TransverseTemporal", "Undetermined", "Unknown", "VentralDC", "Vessel",
    "WMHypoIntensities",
]  # fmt: skip
STRUCTURES = {
    1: "Brainstem",
    2: "CorpusCallosumAnterior",
    3: "CorpusCallosumCentral",
    4: "CorpusCallosumMidAnterior",
    5: "CorpusCallosumMidPosterior",
    6: "CorpusCallosumPosterior",
    7: "Csf",
    8: "FifthVentricle",
    9: "FourthVentricle",
    10: "Icv",
    68: "NonWMHypoIntensities",
    69: "OpticChiasm",
    127: "ThirdVentricle",
    128: "WMHypoIntensities",
    129: "LeftInsula",
    130: "RightInsula",
}
STRUCTURES |= {FIRST_LEFT + i: f"Left{name}" for i, name in enumerate(PAIRED)}
STRUCTURES |= {FIRST_LEFT + TO_RIGHT + i: f"Right{name}" for i, name in enumerate(PAIRED)}


def measure_of(column: str) -> str | None:
    """The measure of an ST code, or None for other columns.

    >>> measure_of("ST24TA"), measure_of("RID")
    ('thickness', None)
    """
    found = CODE.fullmatch(column)
    return MEASURES[found["kind"]] if found else None


def readable(columns: Iterable[str], texts: Mapping[str, str] | None = None) -> list[str]:
    """Readable names of columns; columns without a unique name keep their code.

    Parameters
    ----------
    columns : list of str
        ST codes, also with the suffix of a table as in TADPOLE; other names stay as they are.
    texts : dict of str to str, optional
        Descriptions from a data dictionary, such as "Volume (WM Parcellation) of LeftHippocampus".

    Examples
    --------
    >>> readable(["ST29SV", "ST83TA", "ST10CV", "ST155SV"])
    ['LeftHippocampus_volume', 'RightEntorhinal_thickness', 'Icv_volume', 'ST155SV']
    >>> readable(["ST29SV"], {"ST29SV": "Volume (WM Parcellation) of Hippocampus, left"})
    ['Hippocampus, left_volume']
    """
    columns = list(columns)
    names = [_name(column, texts or {}) for column in columns]
    unique = {name for name in names if names.count(name) == 1}
    return [name if name in unique else column for name, column in zip(names, columns, strict=True)]


def codes_by_either_name(codes: Codes, applied: Sequence[str], others: Sequence[str]) -> Codes:
    """Missing codes for columns named `applied`; patterns may also match their other names.

    >>> codes_by_either_name({"ST*": [-4]}, ["LeftHippocampus_volume"], ["ST29SV"])
    {'ST*': [-4], 'LeftHippocampus_volume': [-4]}
    """
    if not isinstance(codes, Mapping):
        return codes
    more: dict[str, list[Code]] = {}
    for name, other in zip(applied, others, strict=True):
        found = codes_of(other, codes) if other != name else []
        if found:
            more[name] = [*codes_of(name, codes), *found]
    return {**codes, **more}


def _name(column: str, texts: Mapping[str, str]) -> str:
    found = CODE.fullmatch(column)
    if found is None:
        return column
    text = texts.get(column, texts.get(column.removesuffix(found["table"] or ""), ""))
    structure = text.rpartition(" of ")[2].strip() or STRUCTURES.get(int(found["number"]))
    return f"{structure}_{MEASURES[found['kind']]}" if structure else column
