"""Tables of ADNI: ADNIMERGE, TADPOLE, and FDG of Berkeley.

All are read by RID unless another id is asked for, and at baseline unless another visit is.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd

from viewloom.study.errors import StudyError
from viewloom.study.readers import frames, stcodes
from viewloom.study.readers.frames import Codes, Patterns
from viewloom.study.readers.tables import filled_rows, pivot
from viewloom.study.readers.text import find_dialect, load
from viewloom.study.readers.visits import parse
from viewloom.study.wording import note

SAME_VISIT = {  # a baseline is screened, scanned and seen under different codes
    "bl": ("bl", "sc", "scmri"),
    "4_bl": ("4_bl", "4_sc"),
}
ONE_VISIT = "give visit to keep one visit of each subject"
TEXT = ["RID", "PTID", "VISCODE", "VISCODE2", "OVERALLQC", "RUNDATE", "DX", "ROINAME", "ROILAT"]
DX_NAMES = {"NL": "CN", "Dementia": "AD"}  # as in DX_bl
DX_CHANGE = {1: "CN", 2: "MCI", 3: "AD", 4: "MCI", 5: "AD", 6: "AD", 7: "CN", 8: "MCI", 9: "CN"}
TADPOLE_CODES = {  # tables in which nothing can be negative
    f"*_{table}*": (-4,) for table in ("UCSFFS", "BAIPETNMRC_", "UCBERKELEYAV", "UPENNBIOMK", "DTIROI_")
}
BOOKKEEPING = (
    "RID", "PTID", "SITE", "D1", "D2", "*VISCODE*", "EXAMDATE*", "*_bl", "Month", "M", "COLPROT", "ORIGPROT",
    "IMAGEUID*", "LONI*", "RUNDATE*", "VERSION*", "FSVERSION*", "FLDSTRENG*", "update_stamp*", "DXCHANGE",
)  # fmt: skip


def read_adnimerge(
    path: str | Path,
    *,
    id: str = "RID",
    visit: str = "bl",
    columns: Patterns = None,
    exclude: Patterns = None,
    missing_codes: Codes = (),
    numeric: bool = True,
) -> pd.DataFrame:
    """Read ADNIMERGE.

    Parameters
    ----------
    path : str or Path
    id : str, default="RID"
        "PTID" is there as well.
    visit : str, default="bl"
    columns, exclude : list of str, optional
        Shell patterns. By default all columns of numbers but ids, dates and copies of the baseline
        (``*_bl``); with ``numeric=False`` all columns.
    missing_codes : list, or dict of column pattern to list
        Such as ``{"MOCA": [-1]}``; -1 and -4 can be real values in other columns.
    numeric : bool, default=True
        If False, text such as DX and PTGENDER stays, for the table of participants.

    Returns
    -------
    DataFrame indexed by ``id``
        ``DX`` is CN, MCI or AD, the state after a change such as "MCI to Dementia". ``AGE`` is that of the
        visit: the table's own, at baseline, plus ``Years_bl``. ``>1700`` and the like count as their bound.
    """
    path, notes = Path(path), list[str]()
    raw = visit_rows(path, id, visit, notes)
    return _clinical(_aged(raw), path, id, columns, exclude, missing_codes, numeric, notes)


def read_tadpole(
    path: str | Path,
    *,
    id: str = "RID",
    visit: str = "bl",
    columns: Patterns = None,
    exclude: Patterns = None,
    missing_codes: Codes | None = None,
    numeric: bool = True,
) -> pd.DataFrame:
    """Read TADPOLE_D1_D2: ADNIMERGE with the tables of images and fluids beside it.

    Parameters
    ----------
    path, id, visit, columns, exclude, numeric
        As in `read_adnimerge`. Patterns fit the full names, such as ``ST*SV_UCSFFSX_*``.
    missing_codes : list, or dict of column pattern to list, optional
        By default -4 in the tables beside ADNIMERGE, where nothing is negative, and nowhere else.

    Returns
    -------
    DataFrame indexed by ``id``
        ST codes have names such as ``LeftHippocampus_volume`` where one table only was chosen. ``DX`` is
        CN, MCI or AD, from DXCHANGE where that is given.
    """
    path, notes = Path(path), list[str]()
    raw = _aged(visit_rows(path, id, visit, notes))
    if "DXCHANGE" in raw.columns:
        change = frames.as_numbers(raw["DXCHANGE"]).map(DX_CHANGE)
        raw = raw.assign(DX=change.fillna(raw["DX"]) if "DX" in raw.columns else change)
    codes = TADPOLE_CODES if missing_codes is None else missing_codes
    frame = _clinical(raw, path, id, columns, exclude, codes, numeric, notes)
    return frame.set_axis(stcodes.readable(frame.columns), axis=1)


def read_fdg(
    path: str | Path,
    *,
    id: str = "RID",
    visit: str = "bl",
    value: str = "MEAN",
    columns: Patterns = None,
    exclude: Patterns = None,
    missing_codes: Codes = (),
) -> pd.DataFrame:
    """Read UCBERKELEYFDG: one row per scan and region.

    Parameters
    ----------
    path : str or Path
    id : str, default="RID"
    visit : str, default="bl"
    value : str, default="MEAN"
    columns, exclude : list of str, optional
        Shell patterns of the regions to keep and to leave out.
    missing_codes : list, or dict of column pattern to list

    Returns
    -------
    DataFrame indexed by ``id``
        One column per ROINAME, with ROILAT where there is one. Several scans of a visit are averaged, which
        is noted. ADNI gives one to five regions; a finer view is BAIPETNMRC, or one's own extraction.
    """
    path, notes = Path(path), list[str]()
    raw = visit_rows(path, id, visit, notes)
    name = ["ROINAME", *(["ROILAT"] if "ROILAT" in raw.columns else [])]
    wide = pivot(raw, path, id=id, name=name, value=value, codes=missing_codes, repeats="mean", notes=notes)
    return frames.finish(frames.select(wide, columns, exclude, path, notes), wide.index, path, notes)


def visit_rows(path: Path, id: str, visit: str, notes: list[str]) -> pd.DataFrame:
    """Rows of the visit, with ids and codes as text."""
    raw = filled_rows(load(path, find_dialect(path), text=[id, *TEXT]), path, notes).copy()  # in one piece
    frames.column(raw, id, path, "id")
    frames.check_names(raw, path)
    if visit == "all":
        return raw
    codes = _visits(raw, path)
    wanted = SAME_VISIT.get(parse(visit).key, (visit,))
    return frames.of_visit(raw, id, codes, wanted, path, notes)


def _visits(raw: pd.DataFrame, path: Path) -> pd.Series:
    """VISCODE2, which counts from a subject's own baseline, else VISCODE."""
    given = [name for name in ("VISCODE2", "VISCODE") if name in raw.columns]
    if not given:
        raise StudyError(
            f"{path.name}: no column VISCODE; set visit = 'all' if there is one row per subject."
        )
    codes = [frames.as_text(raw[name]).str.lower() for name in given]
    return codes[0] if len(codes) == 1 else codes[0].fillna(codes[1])


def _aged(raw: pd.DataFrame) -> pd.DataFrame:
    """The age at the visit; the tables repeat that at baseline on every row."""
    if not {"AGE", "Years_bl"} <= set(raw.columns):
        return raw
    age, years = (frames.as_numbers(raw[name]) for name in ("AGE", "Years_bl"))
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
    notes: list[str],
) -> pd.DataFrame:
    """The chosen columns of ADNIMERGE or TADPOLE."""
    ids = frames.checked_ids(frames.column(raw, id, path, "id"), path, hint=ONE_VISIT)
    if "DX" in raw.columns:
        last = frames.as_text(raw["DX"]).str.replace(r"(?s)^.* to ", "", regex=True)
        raw = raw.assign(DX=last.map(lambda name: DX_NAMES.get(name, name), na_action="ignore"))
    rest = raw.drop(columns=id)
    if numeric and columns is None:
        rest = _measurements(rest, codes, notes)
    cells = frames.select(rest, columns, exclude, path, notes)
    convert: Any = frames.numbers if numeric else frames.numbers_or_text
    return frames.finish(convert(cells, codes, path, notes, censored=True), ids, path, notes)


def _measurements(raw: pd.DataFrame, codes: Codes, notes: list[str]) -> pd.DataFrame:
    """Columns of numbers that say something about a subject."""
    kept = [
        not frames.matches(name, BOOKKEEPING) and frames.is_numeric(raw[name], codes, censored=True)
        for name in raw.columns
    ]
    left = len(kept) - sum(kept)
    notes += note(left, "column of text, ids or dates", "columns of text, ids, dates or copies")
    return raw.loc[:, kept]
