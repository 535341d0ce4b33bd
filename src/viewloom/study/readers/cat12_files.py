"""Files of CAT12 of one subject: regional values (catROI) and reports (cat), as XML or MATLAB."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from viewloom.study.readers.matlab import Value, load_mat
from viewloom.study.readers.safexml import Element, load_xml

CGW = ("CSF", "GM", "WM", "WMH")  # order of vol_abs_CGW


@dataclass(frozen=True)
class Atlas:
    """Regions of an atlas: their names, and one value each per measure."""

    names: list[str]
    measures: dict[str, list[float]]


def rois_of(path: Path) -> dict[str, Atlas]:
    """Atlases of a catROI file; atlases without regions are left out.

    Raises
    ------
    StudyError
        Without the name of the file, which is that of a subject.
    """
    found = _from_mat(path) if path.suffix.lower() == ".mat" else _from_xml(load_xml(path))
    return {name: atlas for name, atlas in found.items() if atlas.names and atlas.measures}


def report_of(path: Path) -> dict[str, float]:
    """TIV, volumes of tissues (ml) and the rating of image quality of a report."""
    root = load_xml(path)
    volumes, total = root.find("subjectmeasures", "vol_abs_CGW"), root.find("subjectmeasures", "vol_TIV")
    rating = root.find("qualityratings", "IQR")
    found = dict(zip(CGW, vector(volumes.text) if volumes else [], strict=False))
    tiv = vector(total.text) if total else []
    known = {"TIV": tiv[0] if tiv else math.nan, **found}
    known["IQR"] = next(iter(vector(rating.text)), math.nan) if rating else math.nan
    return known


def vector(text: str) -> list[float]:
    """Numbers of a MATLAB vector.

    >>> vector("[1.5;NaN;3e-2]"), vector("2.5"), vector("[1 2]")
    ([1.5, nan, 0.03], [2.5], [1.0, 2.0])
    """
    try:
        return [float(one) for one in text.strip("[] \n\t").replace(";", " ").replace(",", " ").split()]
    except ValueError:
        return []


def _from_xml(root: Element) -> dict[str, Atlas]:
    atlases = {}
    for child in root.children:
        names, data = child.find("names"), child.find("data")
        if names is None or data is None:
            continue
        regions = [item.text for item in names.children if item.name == "item"]
        values = {measure.name: vector(measure.text) for measure in data.children}
        atlases[child.name] = _atlas(regions, values)
    return atlases


def _atlas(names: list[str], values: dict[str, list[float]]) -> Atlas:
    """An atlas with the measures that have a value for each region."""
    return Atlas(names, {key: found for key, found in values.items() if names and len(found) == len(names)})


def _from_mat(path: Path) -> dict[str, Atlas]:
    return {
        name: _atlas(_texts(atlas.get("names")), _vectors(atlas.get("data")))
        for root in load_mat(path)
        if isinstance(root, dict)
        for name, atlas in root.items()
        if isinstance(atlas, dict)
    }


def _texts(names: Value) -> list[str]:
    """Names of regions: a cell array, or the text of one."""
    cells = names if isinstance(names, list) else [names]
    return [cell for cell in cells if isinstance(cell, str)]


def _vectors(data: Value) -> dict[str, list[float]]:
    measures = data if isinstance(data, dict) else {}
    return {key: found.tolist() for key, found in measures.items() if isinstance(found, np.ndarray)}
