"""UCSF FreeSurfer tables of ADNI: the best and newest run of each subject, with readable names."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Unpack

import numpy as np
import pandas as pd

from viewloom.study.errors import Message, StudyError, Suggestion
from viewloom.study.notes import Note, count_note
from viewloom.study.readers import frames, stcodes
from viewloom.study.readers.adni import ADNI_CODES, ONE_VISIT, visit_rows
from viewloom.study.readers.dates import Reference
from viewloom.study.readers.files import TablePart, open_table, with_part
from viewloom.study.readers.formats import Sample
from viewloom.study.readers.frames import Codes, Patterns
from viewloom.study.readers.visits import VisitSetting

QUALITY = ["pass", "partial", "", "fail"]  # OVERALLQC from best to worst
RUNS = "runs of subjects with a better or newer one"


@with_part
def read_ucsffsx(
    path: str | Path,
    *,
    id: str = "RID",
    visit: VisitSetting = "bl",
    date: str | None = None,
    dictionary: str | Path | None = None,
    require_qc: bool = True,
    measures: Sequence[str] = ("volume", "thickness"),
    columns: Patterns = None,
    exclude: Patterns = None,
    missing_codes: Codes | None = None,
    reference: Reference | None = None,
    **part: Unpack[TablePart],
) -> pd.DataFrame:
    """Read a UCSF FreeSurfer table of ADNI: UCSFFSX, UCSFFSX51, UCSFFSX6, UCSFFSX7 or UCSFFSL.

    Parameters
    ----------
    path : str or Path
    id : str, default="RID"
    visit : str or dict, default="bl"
        Visit to keep by VISCODE2, or by VISCODE where that is absent or blank. "bl" covers sc and scmri;
        "all" keeps every row; others are as in `tables.read_table`.
    date, reference
        As in `tables.read_table`.
    dictionary : str or Path, optional
        Data dictionary with columns FLDNAME and TEXT, for names of ST codes. Most are known without it.
    require_qc : bool, default=True
        Keep only runs whose OVERALLQC is Pass. If False, they are preferred.
    measures : list of str
        "volume", "thickness", "area", "thicknessstd".
    columns, exclude : list of str, optional
        Shell patterns of the features to keep and to leave out, as names or as ST codes.
    missing_codes : list, or dict of column pattern to list, optional
        By default -4 and -1, the codes of ADNI: volumes and thickness are never negative.
    **part
        Sheet of a workbook, or object of an R file: `sheet` and `object` of `tables.read_table`.

    Returns
    -------
    DataFrame indexed by ``id``
        For several runs of a subject, the run with the best rating, then the latest RUNDATE, then IMAGEUID.
    """
    path, notes = Path(path), list[Note]()
    raw, notation = visit_rows(path, id, visit, notes, date, reference, part)
    same = [id, *(name for name in ("VISCODE", "VISCODE2") if visit == "all" and name in raw.columns)]
    raw = _newest_run(_rated(raw, require_qc, path, notes), same, notes)
    measured = [stcodes.measure_of(name) for name in raw.columns]
    if not any(measured):
        raise StudyError(f"{path.name}: no columns such as ST29SV; is this a UCSFFSX table?")
    codes = raw.loc[:, [measure in measures for measure in measured]]
    left = sum(measure is not None for measure in measured) - codes.shape[1]
    notes += count_note(left, "column of other measures", "columns of other measures", public=True)
    cells = _named(codes, columns, exclude, path, notes, texts=_texts(dictionary))
    known = ADNI_CODES if missing_codes is None else _codes(missing_codes, codes.columns, dictionary)
    values = frames.numbers(cells, known, path, notes, notation=notation)
    ids = frames.checked_ids(raw[id], path, hint=ONE_VISIT)
    return frames.finish(values, ids, path, notes)


def is_ucsffsx(sample: Sample) -> bool:
    """Whether a table has columns of ST codes."""
    return "RID" in sample.columns and any(stcodes.CODE.fullmatch(name) for name in sample.header)


def _codes(given: Codes, columns: pd.Index, dictionary: str | Path | None) -> Codes:
    """Missing codes by the readable names of columns."""
    names = stcodes.readable(columns, _texts(dictionary))
    return stcodes.codes_by_either_name(given, names, list(columns))


def _rated(raw: pd.DataFrame, require_qc: bool, path: Path, notes: list[Note]) -> pd.DataFrame:
    """Rows with a numeric column ``_rating``, 0 for Pass."""
    if "OVERALLQC" not in raw.columns:
        raise StudyError(f"{path.name}: no column OVERALLQC; is this a UCSFFSX table?")
    quality = frames.as_text(raw["OVERALLQC"]).fillna("").str.lower()
    rating = quality.map({code: rank for rank, code in enumerate(QUALITY)}).fillna(QUALITY.index(""))
    raw = raw.assign(_rating=rating)
    if not require_qc:
        return raw
    passed = raw["_rating"] == 0
    if not passed.any():
        raise StudyError(
            Message(
                f"{path.name}: none of {len(raw)} rows has OVERALLQC Pass; set require_qc = false to keep "
                "them.",
                Suggestion({"require_qc": False}),
            )
        )
    notes += count_note(int((~passed).sum()), "row without OVERALLQC Pass", "rows without OVERALLQC Pass")
    return raw[passed]


def _newest_run(raw: pd.DataFrame, same: list[str], notes: list[Note]) -> pd.DataFrame:
    """One of the rows that agree in columns `same`: the best rated, then the newest."""
    run = pd.to_datetime(_column_or_nan(raw, "RUNDATE"), errors="coerce", format="mixed")
    image = frames.as_numbers(_column_or_nan(raw, "IMAGEUID"))
    order = raw.assign(_run=run, _image=image).sort_values(
        ["_rating", "_run", "_image"], ascending=[True, False, False], kind="stable", na_position="last"
    )
    kept = raw.loc[order.drop_duplicates(same).index.sort_values()]
    older = len(raw) - len(kept)
    notes += count_note(older, "run of a subject with a better or newer one", RUNS)
    return kept.drop(columns="_rating")


def _column_or_nan(raw: pd.DataFrame, name: str) -> pd.Series:
    return raw[name] if name in raw.columns else pd.Series(np.nan, index=raw.index)


def _named(
    codes: pd.DataFrame,
    columns: Patterns,
    exclude: Patterns,
    path: Path,
    notes: list[Note],
    texts: dict[str, str],
) -> pd.DataFrame:
    """The selected columns with readable names; patterns match names or codes."""
    names = stcodes.readable(codes.columns, texts)
    by_code = dict(zip(codes.columns, names, strict=True))
    columns, exclude = _in_names(columns, by_code), _in_names(exclude, by_code)
    return frames.select(codes.set_axis(names, axis=1), columns, exclude, path, notes)


def _in_names(patterns: Patterns, by_code: dict[str, str]) -> list[str] | None:
    """Patterns of ST codes as readable names."""
    if patterns is None:
        return None
    return [
        name
        for pattern in patterns
        for name in [n for code, n in by_code.items() if frames.matches(code, [pattern])] or [pattern]
    ]


def _texts(dictionary: str | Path | None) -> dict[str, str]:
    """Descriptions of fields; the first if there are several."""
    if dictionary is None:
        return {}
    path = Path(dictionary)
    raw = open_table(path).load(None)
    fields, texts = (
        frames.as_text(frames.column(raw, name, path, "dictionary")) for name in ("FLDNAME", "TEXT")
    )
    table = pd.DataFrame({"field": fields, "text": texts}).dropna().drop_duplicates("field")
    return dict(zip(table["field"], table["text"], strict=True))
