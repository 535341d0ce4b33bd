"""MUSE regions of NiChart: columns named by the number of a region, single or derived."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Unpack

import pandas as pd

from viewloom.data.naming import listed
from viewloom.study.errors import StudyError
from viewloom.study.notes import Note, count_note
from viewloom.study.readers import frames
from viewloom.study.readers.files import TablePart, open_table, with_part
from viewloom.study.readers.formats import Sample
from viewloom.study.readers.frames import Codes, Patterns
from viewloom.study.readers.tables import filled

SERIES = r"(?:[A-Za-z]+_)*?(?:DL)?(?:MUSE|WMLS)_(?:Volume_)?"  # volumes, or those of lesions, of regions
COLUMN = re.compile(rf"(?P<prefix>{SERIES}|ROI_?|R)?(?P<number>\d{{1,3}})")
NAMED = re.compile(rf"{SERIES}\d{{1,3}}")
IDS = ("MRID", "ID", "PTID", "participant_id", "Subject")
SINGLE = range(1, 300)  # numbers from 300 on are sums of single regions; 701 and 702 are brain and ICV
ICV = 702
LEAST = 20  # columns that are plain numbers, for a table to be recognised
DICTIONARY = {
    "number": ("ID", "IndexMUSE", "ROI_INDEX", "Index", "Label"),
    "name": ("Full_Name", "Name", "ROINameMUSE", "ROI_NAME"),
}


@with_part
def read_muse(
    path: str | Path,
    *,
    id: str | None = None,
    rois: str = "single",
    dictionary: str | Path | None = None,
    columns: Patterns = None,
    exclude: Patterns = None,
    missing_codes: Codes | None = None,
    **part: Unpack[TablePart],
) -> pd.DataFrame:
    """Read volumes of MUSE regions, as NiChart, DLMUSE and iSTAGING write them.

    Parameters
    ----------
    path : str or Path
        A table with columns such as 47, MUSE_Volume_47, H_MUSE_Volume_47 or DL_WMLS_Volume_47, the volume of
        lesions in a region.
    id : str, optional
        MRID by default.
    rois : {"single", "derived", "all"}
        Regions 1 to 299 are single; regions from 300 on, among them the brain (701) and the intracranial
        volume (702), are sums of single regions, so that both together count volumes twice.
    dictionary : str or Path, optional
        Table of numbers and names, such as MUSE_ROI_complete_list.csv of NiChart.
    columns, exclude : list of str, optional
        Shell patterns of the regions to keep and to leave out: the column in the file, or its name.
    missing_codes : list, or dict of column pattern to list, optional
    **part
        Sheet of a workbook, or object of an R file: `sheet` and `object` of `tables.read_table`.

    Returns
    -------
    DataFrame indexed by ``id``
        Columns are MUSE_47 (WMLS_47 for lesions), or names where there is a dictionary.
    """
    path, notes = Path(path), list[Note]()
    file = open_table(path, **part)
    id = id or next((name for name in IDS if name in file.header), file.header[0])
    raw = filled(file, path, notes, [id])
    frames.check_names(raw, path)
    ids = frames.checked_ids(frames.column(raw, id, path, "id"), path, hint="keep one row per subject")
    numbers = _one_series(
        {name: number for name in map(str, raw.columns) if name != id and (number := _number(name))}, path
    )
    if not numbers:
        raise StudyError(
            f"{path.name}: no columns such as MUSE_Volume_47 or 47; is this a table of MUSE regions?"
        )
    left = raw.shape[1] - 1 - len(numbers)
    notes += count_note(left, "column that is no region", "columns that are no regions", public=True)
    kept = {name: number for name, number in numbers.items() if _is_wanted(number, rois)}
    if not kept:
        raise StudyError(f"{path.name}: none of {len(numbers)} regions is {rois}; set rois.")
    what = "derived regions" if rois == "single" else "single regions"
    notes += count_note(len(numbers) - len(kept), what.removesuffix("s"), what, public=True)
    names = _names(kept, dictionary)
    table = raw[list(kept)].set_axis([names[name] for name in kept], axis=1)
    cells = frames.select(table, _in_names(columns, names), _in_names(exclude, names), path, notes)
    values = frames.numbers(cells, missing_codes or (), path, notes, notation=file.notation)
    return frames.finish(values, ids, path, notes)


def is_muse(sample: Sample) -> bool:
    """Whether a table has columns of MUSE regions: by name, or ids and plain numbers up to ICV (702)."""
    if any(NAMED.fullmatch(name) for name in sample.header):
        return True
    plain = [int(name) for name in sample.header if re.fullmatch(r"[1-9]\d{0,2}", name)]
    if len(plain) < LEAST or max(plain) > ICV:
        return False
    return "MRID" in sample.columns or (max(plain) == ICV and not sample.columns.isdisjoint(IDS))


def _number(name: str) -> int | None:
    found = COLUMN.fullmatch(name)
    return int(found["number"]) if found else None


def _series(name: str) -> str:
    return "WMLS" if "WMLS" in name else "MUSE"


def _one_series(numbers: dict[str, int], path: Path) -> dict[str, int]:
    """Columns of regions; several for one region, such as raw and harmonised volumes, are refused."""
    twice = sorted({number for number in numbers.values() if list(numbers.values()).count(number) > 1})
    if twice:
        prefixes = sorted({name.removesuffix(str(number)) for name, number in numbers.items()})
        raise StudyError(
            f"{path.name}: {len(twice)} regions have several columns, such as raw and harmonised volumes "
            f"({listed([f'{prefix}*' for prefix in prefixes])}); keep one of them in the file."
        )
    return numbers


def _is_wanted(number: int, rois: str) -> bool:
    return rois == "all" or (number in SINGLE) == (rois == "single")


def _names(kept: dict[str, int], dictionary: str | Path | None) -> dict[str, str]:
    """Names of regions by column."""
    known = _dictionary(dictionary)
    names = {name: known.get(number, f"{_series(name)}_{number}") for name, number in kept.items()}
    return {
        name: f"{text} ({kept[name]})" if list(names.values()).count(text) > 1 else text
        for name, text in names.items()
    }


def _in_names(patterns: Patterns, names: dict[str, str]) -> list[str] | None:
    """Patterns of columns as names of regions."""
    if patterns is None:
        return None
    return [
        name
        for pattern in patterns
        for name in [text for column, text in names.items() if frames.matches(column, [pattern])] or [pattern]
    ]


def _dictionary(dictionary: str | Path | None) -> dict[int, str]:
    """Names by number."""
    if dictionary is None:
        return {}
    path = Path(dictionary)
    raw = open_table(path).load(None)
    header = [str(name) for name in raw.columns]
    found = {key: next((name for name in known if name in header), None) for key, known in DICTIONARY.items()}
    if None in found.values():
        raise StudyError(f"{path.name}: no columns of numbers and names, such as ID and Full_Name.")
    table = pd.DataFrame({key: raw[str(name)] for key, name in found.items()})
    numbers, names = frames.as_numbers(table["number"]), frames.as_text(table["name"])
    both = zip(numbers, names, strict=True)
    return {
        int(number): str(name)
        for number, name in both
        if number == number and name == name and number % 1 == 0
    }
