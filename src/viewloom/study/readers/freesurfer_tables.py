"""Tables of asegstats2table and aparcstats2table of FreeSurfer."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import reduce
from pathlib import Path
from typing import Any, Unpack

import pandas as pd

from viewloom.data.naming import listed
from viewloom.study.errors import StudyError
from viewloom.study.notes import Note, count_note
from viewloom.study.readers import frames
from viewloom.study.readers.files import TablePart, open_table, parts_of, with_part
from viewloom.study.readers.formats import Sample
from viewloom.study.readers.frames import Codes, Patterns
from viewloom.study.readers.freesurfer import GLOBAL, RENAMED, regions
from viewloom.study.readers.tables import filled
from viewloom.study.readers.text import NAMED

TABLE_HEAD = re.compile(r"Measure:(?P<aseg>\w+)|[lr]h\.(?P<atlas>[\w.+-]+)\.(?P<aparc>\w+)")
REGION = (  # names that ids of subjects do not have
    r"(?:Left|Right)-(?:Hippocampus|Amygdala|Caudate|Putamen|Pallidum|Thalamus.*|Lateral-Ventricle)|Brain-Stem|"
    r"[lr]h_\w+_(?:volume|area|thickness|thicknessstd|meancurv|gauscurv|foldind|curvind)|ctx[-_][lr]h[-_].+|"
    r"wm-[lr]h-.+"
)
CORRECT = (
    "correct the cells, list missing codes in missing_codes, or write the table again with "
    "asegstats2table or aparcstats2table"
)


@with_part
def read_stats_table(
    path: str | Path | Sequence[str | Path],
    *,
    id: str | None = None,
    columns: Patterns = None,
    exclude: Patterns = None,
    missing_codes: Codes | None = None,
    global_measures: bool = False,
    **part: Unpack[TablePart],
) -> pd.DataFrame:
    """Read tables of asegstats2table and aparcstats2table, with any delimiter, and join them.

    Parameters
    ----------
    path : path, or list of paths
        One table per measure and hemisphere: files, sheets of a workbook, or objects of an R file.
    id : str, optional
        Column of ids; the first column by default.
    columns, exclude : list of str, optional
        Shell patterns of the features to keep and to leave out.
    missing_codes : list, or dict of column pattern to list, optional
        Missing codes other than blanks and NA.
    global_measures : bool, default=False
        Keep measures of the whole brain, such as the intracranial volume.
    **part
        Sheet of a workbook, or object of an R file: `sheet` and `object` of `tables.read_table`. By default
        all with such a table.

    Returns
    -------
    DataFrame indexed by ``id``
        NaN where a subject is not in all tables.
    """
    paths = [Path(path)] if isinstance(path, (str, Path)) else [Path(one) for one in path]
    notes: list[Note] = []
    where = paths[0] if len(paths) == 1 else paths[0].parent
    given = {key: name for key, name in part.items() if name is not None}
    tables = [
        _read_stats_table(one, chosen, id, missing_codes or (), notes)
        for one in paths
        for chosen in ([given] if given else _parts(one, id, notes))
    ]
    joined = reduce(lambda left, right: _joined(left, right, where), tables)
    wide = frames.select(regions(joined, global_measures, notes), columns, exclude, where, notes)
    return frames.finish(wide, wide.index.rename("id"), where, notes)


def is_stats_table(sample: Sample) -> bool:
    """Whether the first cell is the header of asegstats2table or aparcstats2table."""
    return _is_one(sample.header, None)


def _parts(path: Path, id: str | None, notes: list[Note]) -> list[dict[str, Any]]:
    """Options that choose each table of a file: of several, those that FreeSurfer's tables are in."""
    key, names = parts_of(path) or ("", [])
    parts: dict[str, dict[str, Any]] = {name: {key: name} for name in names}
    known = {name: part for name, part in parts.items() if _is_one(open_table(path, **part).header, id)}
    if names and not known:
        raise StudyError(
            f"{path.name}: none of {len(names)} {key}s is a table of FreeSurfer: {listed(names)}; its first "
            "cell must be as asegstats2table or aparcstats2table wrote it."
        )
    others = [name for name in names if name not in known]
    notes += count_note(len(others), f"other {key}", text=f"left out: {listed(others)}", public=True)
    return list(known.values()) or [{}]


def _is_one(header: Sequence[str], id: str | None) -> bool:
    return id in header if id else TABLE_HEAD.fullmatch(next(iter(header), "")) is not None


def _read_stats_table(
    path: Path, part: dict[str, Any], id: str | None, codes: Codes, notes: list[Note]
) -> pd.DataFrame:
    """One table, indexed by id."""
    file = open_table(path, candidates=NAMED.values(), **part)
    head, id = file.header[0], id or file.header[0]
    raw = filled(file, path, notes, [id])
    if id == head and _are_regions(raw[id]):
        raw = _transposed(raw, path)
        notes.append(Note(("a row per region turned into a row per subject",)))
    directories = frames.as_text(frames.column(raw, id, path, "id")).str.rstrip("/")
    ids = frames.checked_ids(directories, path, hint="keep one row per subject")
    cells = raw.loc[:, raw.columns != id]
    cells = cells.set_axis([_feature(name, head) for name in cells.columns], axis=1)
    frames.select(cells, None, None, path, notes)  # repeated names
    values = frames.numbers(cells, codes, path, notes, way_out=CORRECT, notation=file.notation)
    return values.set_axis(ids, axis=0)


def _are_regions(names: pd.Series) -> bool:
    """Whether rows are regions, as with the option transpose, since some name is one of FreeSurfer's."""
    return bool(frames.as_text(names).str.fullmatch(REGION).any())


def _transposed(raw: pd.DataFrame, path: Path) -> pd.DataFrame:
    """One row per subject of a table with one column per subject."""
    frames.check_names(raw, path)
    id = str(raw.columns[0])
    regions = frames.checked_ids(raw[id], path, hint="keep one row per region")
    turned = raw.drop(columns=id).T.set_axis(regions, axis=1).infer_objects()
    return turned.rename_axis(index=id, columns=None).reset_index()


def by_subject(raw: pd.DataFrame) -> tuple[pd.DataFrame, str]:
    """One row per subject of a table, and the name of the column of ids."""
    id = str(raw.columns[0])
    return (_transposed(raw, Path("table")) if _are_regions(raw[id]) else raw), id


def _feature(name: str, head: str) -> str:
    """Name of a feature; it includes the measure, except for volumes of structures.

    >>> _feature("Left-Thalamus-Proper", "Measure:volume"), _feature("Left-Hippocampus", "Measure:mean")
    ('Left-Thalamus', 'Left-Hippocampus_mean')
    """
    found = TABLE_HEAD.fullmatch(head)
    measure = found.group("aseg") if found else None
    suffix = "" if measure in (None, "volume") else f"_{measure}"
    return RENAMED.get(name, name) + suffix


def _joined(left: pd.DataFrame, right: pd.DataFrame, where: Path) -> pd.DataFrame:
    """Join subjects and features; measures of the whole brain, which tables repeat, come from the left."""
    ids = left.index.union(right.index, sort=False)
    both, other = left.reindex(ids), right.reindex(ids)
    shared = right.columns.intersection(left.columns)
    repeated = [name for name in shared if GLOBAL.fullmatch(name) is None]
    twice = int((both[repeated].notna() & other[repeated].notna()).any(axis=1).sum())
    if twice:
        raise StudyError(
            f"{where.name}: {twice} subjects have the same features in several tables: {listed(repeated)}; "
            "list each table once."
        )
    for name in shared:
        both[name] = both[name].fillna(other[name])
    return pd.concat([both, other.drop(columns=shared)], axis=1)
