"""Tables of ADNI: ADNIMERGE, TADPOLE, and FDG of UC Berkeley.

The id is the RID and the visit is baseline by default.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Unpack

import pandas as pd

from viewloom.study.errors import Message, StudyError, Suggestion
from viewloom.study.notes import Note, count_note
from viewloom.study.readers import frames, stcodes
from viewloom.study.readers.dates import Reference
from viewloom.study.readers.files import TablePart, open_table, with_part
from viewloom.study.readers.formats import Sample
from viewloom.study.readers.frames import Aside, Codes, Patterns
from viewloom.study.readers.notation import Notation
from viewloom.study.readers.tables import filled, pivot
from viewloom.study.readers.visits import FIRST, LAST, VisitSetting, parse, rule_of

SAME_VISIT = {  # codes of one visit: a baseline includes screening and its scan
    "bl": ("bl", "sc", "scmri"),
    "4_bl": ("4_bl", "4_sc"),
}
ONE_VISIT = "set visit to keep one visit of each subject"
TEXT = ["RID", "PTID", "VISCODE", "VISCODE2", "OVERALLQC", "RUNDATE", "DX", "ROINAME", "ROILAT"]
DX_NAMES = {"NL": "CN", "Dementia": "AD"}  # as in DX_bl
DX_CHANGE = {1: "CN", 2: "MCI", 3: "AD", 4: "MCI", 5: "AD", 6: "AD", 7: "CN", 8: "MCI", 9: "CN"}
ADNI_CODES = (-4, -1)  # not applicable, and confirmed missing
NEVER_NEGATIVE = (  # of ADNIMERGE; others, such as RAVLT_learning and mPACCdigit, can be
    "AGE", "PTEDUCAT", "APOE4", "FDG", "PIB", "AV45", "FBB", "ABETA", "TAU", "PTAU", "CDRSB", "ADAS*", "MMSE",
    "RAVLT_immediate", "LDELTOTAL", "DIGITSCOR", "TRABSCOR", "FAQ", "MOCA", "Ecog*", "Ventricles",
    "Hippocampus", "WholeBrain", "Entorhinal", "Fusiform", "MidTemp", "ICV",
)  # fmt: skip
MERGE_CODES = {name + end: ADNI_CODES for name in NEVER_NEGATIVE for end in ("", "_bl")}
TABLES = ("UCSFFS", "BAIPETNMRC_", "UCBERKELEYAV", "UPENNBIOMK", "DTIROI_")  # without negative values
TADPOLE_CODES = MERGE_CODES | {f"*_{table}*": ADNI_CODES for table in TABLES}
BOOKKEEPING = (
    "RID", "PTID", "SITE", "D1", "D2", "*VISCODE*", "EXAMDATE*", "*_bl", "Month", "M", "COLPROT", "ORIGPROT",
    "IMAGEUID*", "LONI*", "RUNDATE*", "VERSION*", "FSVERSION*", "FLDSTRENG*", "update_stamp*", "DXCHANGE",
)  # fmt: skip


@with_part
def read_adnimerge(
    path: str | Path,
    *,
    id: str = "RID",
    visit: VisitSetting = "bl",
    date: str | None = None,
    columns: Patterns = None,
    exclude: Patterns = None,
    missing_codes: Codes | None = None,
    numeric: bool = True,
    aside: Aside = None,
    reference: Reference | None = None,
    **part: Unpack[TablePart],
) -> pd.DataFrame:
    """Read ADNIMERGE.

    Parameters
    ----------
    path : str or Path
    id : str, default="RID"
        "PTID" is available as well.
    visit : str or dict, default="bl"
        Visit to keep, as in `tables.read_table`; "bl" covers sc and scmri, "all" keeps every row.
    date, reference
        As in `tables.read_table`.
    columns, exclude : list of str, optional
        Shell patterns. By default all numeric columns except ids, dates and copies of the baseline
        (``*_bl``); with ``numeric=False`` all columns.
    missing_codes : list, or dict of column pattern to list, optional
        By default -4 and -1 in columns that are never negative, such as AGE, MMSE and Hippocampus.
    numeric : bool, default=True
        If False, text such as DX and PTGENDER is kept, for the table of participants.
    aside : function of str to bool, optional
        As in `tables.read_table`.
    **part
        Sheet of a workbook, or object of an R file: `sheet` and `object` of `tables.read_table`.

    Returns
    -------
    DataFrame indexed by ``id``
        ``DX`` is CN, MCI or AD, the state after a change such as "MCI to Dementia". ``AGE`` is the age
        at the visit: that at baseline, which the table has, plus ``Years_bl``. ``>1700`` is read as 1700.
    """
    path, notes = Path(path), list[Note]()
    raw, notation = visit_rows(path, id, visit, notes, date, reference, part)
    codes = MERGE_CODES if missing_codes is None else missing_codes
    raw = _aged(raw, codes, path, notation)
    return _clinical(raw, path, id, columns, exclude, codes, numeric, notes, notation, aside)


@with_part
def read_tadpole(
    path: str | Path,
    *,
    id: str = "RID",
    visit: VisitSetting = "bl",
    date: str | None = None,
    columns: Patterns = None,
    exclude: Patterns = None,
    missing_codes: Codes | None = None,
    numeric: bool = True,
    aside: Aside = None,
    reference: Reference | None = None,
    **part: Unpack[TablePart],
) -> pd.DataFrame:
    """Read TADPOLE_D1_D2: ADNIMERGE joined with tables of imaging and CSF measures.

    Parameters
    ----------
    path, id, visit, date, reference, columns, exclude, numeric, aside
        As in `read_adnimerge`. Patterns match the full names, such as ``ST*SV_UCSFFSX_*``.
    missing_codes : list, or dict of column pattern to list, optional
        By default -4 and -1 in the tables other than ADNIMERGE and in those of its columns that are never
        negative.
    **part
        Sheet of a workbook, or object of an R file: `sheet` and `object` of `tables.read_table`.

    Returns
    -------
    DataFrame indexed by ``id``
        ST codes have names such as ``LeftHippocampus_volume`` where a single table is selected. ``DX`` is
        CN, MCI or AD, from DXCHANGE where that is given.
    """
    path, notes = Path(path), list[Note]()
    raw, notation = visit_rows(path, id, visit, notes, date, reference, part)
    codes: Codes = TADPOLE_CODES
    if missing_codes is not None:
        names = [str(name) for name in raw.columns]
        codes = stcodes.codes_by_either_name(missing_codes, names, stcodes.readable(names))
    raw = _aged(raw, codes, path, notation)
    if "DXCHANGE" in raw.columns:
        change = frames.as_numbers(raw["DXCHANGE"]).map(DX_CHANGE)
        raw = raw.assign(DX=change.fillna(raw["DX"]) if "DX" in raw.columns else change)
    frame = _clinical(raw, path, id, columns, exclude, codes, numeric, notes, notation, aside)
    return frame.set_axis(stcodes.readable(frame.columns), axis=1)


@with_part
def read_fdg(
    path: str | Path,
    *,
    id: str = "RID",
    visit: VisitSetting = "bl",
    date: str | None = None,
    value: str = "MEAN",
    columns: Patterns = None,
    exclude: Patterns = None,
    missing_codes: Codes | None = None,
    reference: Reference | None = None,
    **part: Unpack[TablePart],
) -> pd.DataFrame:
    """Read UCBERKELEYFDG: one row per scan and region.

    Parameters
    ----------
    path : str or Path
    id : str, default="RID"
    visit, date, reference
        As in `read_adnimerge`.
    value : str, default="MEAN"
    columns, exclude : list of str, optional
        Shell patterns of the regions to keep and to leave out.
    missing_codes : list, or dict of column pattern to list, optional
        By default -4 and -1.
    **part
        Sheet of a workbook, or object of an R file: `sheet` and `object` of `tables.read_table`.

    Returns
    -------
    DataFrame indexed by ``id``
        One column per ROINAME, with ROILAT where there is one. Several scans of a visit are averaged,
        with a note. ADNI has one to five regions; BAIPETNMRC has more.
    """
    path, notes = Path(path), list[Note]()
    raw, notation = visit_rows(path, id, visit, notes, date, reference, part)
    name = ["ROINAME", *(["ROILAT"] if "ROILAT" in raw.columns else [])]
    wide = pivot(
        raw,
        path,
        id=id,
        name=name,
        value=value,
        codes=ADNI_CODES if missing_codes is None else missing_codes,
        repeats="mean",
        notes=notes,
        notation=notation,
    )
    return frames.finish(frames.select(wide, columns, exclude, path, notes), wide.index, path, notes)


def is_adnimerge(sample: Sample) -> bool:
    """Whether a table has the keys of ADNI's merged tables and a diagnosis."""
    keys, diagnoses = {"RID", "PTID", "VISCODE"}, {"DX_bl", "DX", "DXCHANGE"}
    return keys <= sample.columns and bool(sample.columns & diagnoses)


def is_tadpole(sample: Sample) -> bool:
    """Whether a merged table has the columns of the TADPOLE challenge."""
    names = sample.columns
    return is_adnimerge(sample) and ({"D1", "D2"} <= names or "DXCHANGE" in names)


def is_fdg(sample: Sample) -> bool:
    """Whether a table has a row per subject and region, as Berkeley's FDG tables do."""
    return {"RID", "ROINAME", "MEAN"} <= sample.columns


def visit_rows(
    path: Path,
    id: str,
    visit: VisitSetting,
    notes: list[Note],
    date: str | None = None,
    reference: Reference | None = None,
    part: TablePart | None = None,
) -> tuple[pd.DataFrame, Notation]:
    """Rows of the visit, with ids and codes as text, and how numbers are written."""
    raw, notation = loaded(path, id, notes, part)
    return at_visit(raw, path, id, visit, notes, date, reference), notation


def loaded(
    path: Path, id: str, notes: list[Note], part: TablePart | None = None
) -> tuple[pd.DataFrame, Notation]:
    """All rows, with ids and codes as text, and how numbers are written."""
    file = open_table(path, **(part or {}))
    raw = filled(file, path, notes, [id, *TEXT], levels=True).copy()  # defragmented
    frames.column(raw, id, path, "id")
    frames.check_names(raw, path)
    return raw, file.notation


def at_visit(
    raw: pd.DataFrame,
    path: Path,
    id: str,
    visit: VisitSetting,
    notes: list[Note],
    date: str | None = None,
    reference: Reference | None = None,
    scanned: str | None = None,
) -> pd.DataFrame:
    """Rows of the visit; `scanned` has the dates that order the rows of a subject, if there are any."""
    if visit == "all":
        return raw
    rule = rule_of(visit)
    by_date = scanned is not None and date is None and rule.kind in (FIRST, LAST)
    codes = None if by_date else _visits(raw, path)
    same = SAME_VISIT.get(parse(rule.code).key, ()) if rule.kind == "code" else ()
    more: Any = {"date": scanned if by_date else date, "reference": reference, "same": same}
    return frames.of_visit(raw, id, codes, visit, path, notes, **more)


def _visits(raw: pd.DataFrame, path: Path) -> pd.Series:
    """VISCODE2, which is relative to the baseline of each subject, else VISCODE."""
    given = [name for name in ("VISCODE2", "VISCODE") if name in raw.columns]
    if not given:
        raise StudyError(
            Message(
                f"{path.name}: no column VISCODE; set visit = 'all' if there is one row per subject.",
                Suggestion({"visit": "all"}, "if there is one row per subject"),
            )
        )
    codes = [frames.as_text(raw[name]).str.lower() for name in given]
    return codes[0] if len(codes) == 1 else codes[0].fillna(codes[1])


def _aged(raw: pd.DataFrame, codes: Codes, path: Path, notation: Notation) -> pd.DataFrame:
    """Replace the age at baseline, which the tables repeat on every row, by that at the visit."""
    if not {"AGE", "Years_bl"} <= set(raw.columns):
        return raw
    both = frames.numbers(
        raw[["AGE", "Years_bl"]], codes, path, [], way_out=frames.CORRECT, notation=notation
    )
    age, years = both["AGE"], both["Years_bl"]
    first = raw["VISCODE"].isin(SAME_VISIT["bl"]) if "VISCODE" in raw.columns else False
    return raw.assign(AGE=age + years.mask(first & years.isna(), 0.0))


def _clinical(
    raw: pd.DataFrame,
    path: Path,
    id: str,
    columns: Patterns,
    exclude: Patterns,
    codes: Codes,
    numeric: bool,
    notes: list[Note],
    notation: Notation,
    aside: Aside,
) -> pd.DataFrame:
    """The selected columns of ADNIMERGE or TADPOLE."""
    ids = frames.checked_ids(frames.column(raw, id, path, "id"), path, hint=ONE_VISIT)
    if "DX" in raw.columns:
        last = frames.as_text(raw["DX"]).str.replace(r"(?s)^.* to ", "", regex=True)
        raw = raw.assign(DX=last.map(lambda name: DX_NAMES.get(name, name), na_action="ignore"))
    rest = raw.drop(columns=id)
    if numeric and columns is None:
        rest = _measurements(rest, codes, notes, notation)
    cells, named = frames.apart(frames.select(rest, columns, exclude, path, notes), aside, path)
    convert: Any = frames.numbers if numeric else frames.numbers_or_text
    values = convert(cells, codes, path, notes, censored=True, notation=notation)
    frame = frames.finish(values, ids, path, notes)
    frame.attrs["aside"] = named
    return frame


def _measurements(raw: pd.DataFrame, codes: Codes, notes: list[Note], notation: Notation) -> pd.DataFrame:
    """Numeric columns other than ids, dates and copies."""
    kept = [
        not frames.matches(name, BOOKKEEPING)
        and frames.is_numeric(raw[name], codes, censored=True, notation=notation)
        for name in raw.columns
    ]
    left = len(kept) - sum(kept)
    notes += count_note(
        left, "column of text, ids or dates", "columns of text, ids, dates or copies", public=True
    )
    return raw.loc[:, kept]
