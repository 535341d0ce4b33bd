"""Amyloid and tau PET of ADNI: tables of UC Berkeley. SUVR, volumes, status and centiloids are kept apart."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Unpack

import numpy as np
import pandas as pd

from viewloom.data.naming import listed
from viewloom.study.errors import Message, StudyError, Suggestion
from viewloom.study.notes import Note, count_note
from viewloom.study.readers import frames
from viewloom.study.readers.adni import ADNI_CODES, ONE_VISIT, at_visit, loaded
from viewloom.study.readers.dates import Reference
from viewloom.study.readers.files import TablePart, with_part
from viewloom.study.readers.formats import Sample
from viewloom.study.readers.frames import Codes, Patterns
from viewloom.study.readers.visits import VisitSetting
from viewloom.study.wording import nearest

SUVR = "_SUVR"
RATIOS = ("suvr", "summary", "bilateral", "reference", "other")  # measures that are SUVR
MEASURES = (*RATIOS, "volume", "centiloids", "status")
DATES = ("SCANDATE", "EXAMDATE")
VOLUME = re.compile(r"(.+)_(?:VOLUME|SIZE)")
STATUS = re.compile(r".*STATUS.*|SUMMARYSUVR_.*CUTOFF")
SUMMARY = re.compile(
    r"SUMMARY|SUMMARYSUVR_\w+|FRONTAL|CINGULATE|PARIETAL|TEMPORAL|COMPOSITE|META_\w+|BRAAK\d+|B\d+"
)
REFERENCE = re.compile(
    r"WHOLECEREBELLUM|CEREBELLUMGREYMATTER|ERODED_SUBCORTICALWM|COMPOSITE_REF|BRAIN_?STEM|"
    r"INFERIORCEREBELLUM|INFERIOR_CEREBGM|CEREBRAL_WHITE_MATTER|"
    r"(?:(?:LEFT|RIGHT)_)?CEREBELLUM_(?:CORTEX|WHITE_MATTER)"
)
NOT_TISSUE = re.compile(
    r".*(?:VENT|VESSEL|CHOROID|UNKNOWN|CSF|CHIASM|HYPOINTENSITIES|CEREBRAL_WHITE_MATTER).*"
)
SIDED = re.compile(r"CTX_[LR]H_.+|(?:LEFT|RIGHT)_.+")
USUAL = ("INFERIORCEREBELLUM", "INFERIOR_CEREBGM", "WHOLECEREBELLUM")  # tau, tau with PVC, amyloid
SAME = 0.005  # deviation from 1 of a reference region to which values are relative
NORMALISED = re.compile(r"SUMMARYSUVR_\w+NORM.*")  # relative to the region that their names say


@with_part
def read_pet(
    path: str | Path,
    *,
    id: str = "RID",
    visit: VisitSetting = "bl",
    date: str | None = None,
    measures: Sequence[str] = ("suvr",),
    tracer: str | None = None,
    reference_region: str | None = None,
    require_qc: bool = True,
    columns: Patterns = None,
    exclude: Patterns = None,
    missing_codes: Codes | None = None,
    reference: Reference | None = None,
    **part: Unpack[TablePart],
) -> pd.DataFrame:
    """Read an amyloid or tau table of UC Berkeley: AMY_6MM, TAU_6MM, TAUPVC_6MM, AV45, FBB or AV1451.

    Parameters
    ----------
    path : str or Path
    id : str, default="RID"
    visit : str or dict, default="bl"
        As in `adni.read_adnimerge`. "first" and "last" are by the date of the scan.
    date, reference
        As in `tables.read_table`.
    measures : list of str, default=("suvr",)
        "suvr" has the regions of each hemisphere. "summary" has the cortical summary, lobes, Braak stages and
        meta-regions, "bilateral" the means of both hemispheres, "reference" reference regions, and "other"
        ventricles, white matter and vessels: these overlap with the regions, or are no target of the tracer.
        "volume", "centiloids" and "status" (positive or not, 0 or 1) have other units.
    tracer : str, optional
        Such as "FBP", "FBB" or "NAV". Required if there are several, unless only centiloids, volumes or
        status are read: SUVR of different tracers are not comparable.
    reference_region : str, optional
        Region by which all SUVR are divided. By default they are left as they are if they are relative to a
        reference region already, which then is 1 in all rows, and otherwise divided by the inferior
        cerebellum (tau) or the whole cerebellum (amyloid). A note says which.
    require_qc : bool, default=True
        Leave out scans whose qc_flag is not positive.
    columns, exclude : list of str, optional
        Shell patterns of the columns to keep and to leave out, among those of `measures`.
    missing_codes : list, or dict of column pattern to list, optional
        By default -4 and -1, except in centiloids, which can be negative.
    **part
        Sheet of a workbook, or object of an R file: `sheet` and `object` of `tables.read_table`.

    Returns
    -------
    DataFrame indexed by ``id``
    """
    path, notes = Path(path), list[Note]()
    raw, notation = loaded(path, id, notes, part)
    kinds = kinds_of([str(name) for name in raw.columns])
    wanted = _wanted(kinds, measures, path)
    raw = _of_tracer(_passed(raw, require_qc, path, notes), tracer, wanted, path, notes)
    scanned = next((name for name in DATES if name in raw.columns), None)
    raw = at_visit(raw, path, id, visit, notes, date, reference, scanned)
    ids = frames.checked_ids(frames.column(raw, id, path, "id"), path, hint=f"{ONE_VISIT}, such as 'first'")
    left = sum(kind is not None for kind in kinds.values()) - len(wanted)
    notes += count_note(left, "column of other measures", "columns of other measures", public=True)
    cells = frames.select(raw[list(wanted)], columns, exclude, path, notes)
    codes = _codes(kinds) if missing_codes is None else missing_codes
    values = frames.numbers(cells, codes, path, notes, notation=notation)
    ratios = [
        str(name) for name in values.columns if kinds[str(name)] in RATIOS and not NORMALISED.match(name)
    ]
    if ratios:
        found = [name for name, kind in kinds.items() if kind == "reference"]
        others = frames.numbers(raw[found], codes, path, [], notation=notation)
        values[ratios] = _relative(values[ratios], others, reference_region, path, notes)
    return frames.finish(values, ids, path, notes)


def is_pet(sample: Sample) -> bool:
    """Whether a table has the columns of UC Berkeley's amyloid or tau PET."""
    names = sample.columns
    regions = {"CTX_LH_ENTORHINAL_SUVR", "CTX_LH_ENTORHINAL", "CTX_LH_PRECUNEUS_SUVR", "META_TEMPORAL_SUVR"}
    summaries = {"SUMMARYSUVR_WHOLECEREBNORM", "CENTILOIDS", "SUMMARY_SUVR"}
    return "RID" in names and bool(names & (regions | summaries)) and not {"D1", "D2"} <= names


def drafts(path: Path, files: Sequence[Path] = (), **part: Unpack[TablePart]) -> list[dict[str, Any]]:
    """Settings of the drafted view: the most frequent tracer, and the first scan if few have a baseline."""
    raw, _ = loaded(path, "RID", [], part)
    raw = _passed(raw, True, path, [])
    settings: dict[str, Any] = {}
    tracers = frames.as_text(raw["TRACER"]) if "TRACER" in raw.columns else pd.Series(dtype=object)
    if len(set(tracers.dropna())) > 1:
        settings["tracer"] = str(tracers.mode()[0])
        raw = raw[tracers == settings["tracer"]]
    subjects = raw["RID"].nunique()
    try:
        early = at_visit(raw, path, "RID", "bl", [])["RID"].nunique()
    except StudyError:
        early = 0
    return [settings | ({"visit": "bl"} if 2 * early >= subjects else {"visit": "first"})]


def kinds_of(names: Sequence[str]) -> dict[str, str | None]:
    """The measure of each column, a name of `MEASURES`; None for ids, dates and ratings.

    >>> kinds_of(["RID", "CTX_LH_CUNEUS_SUVR", "CTX_LH_CUNEUS_VOLUME", "BRAAK1_SUVR", "CSF_SUVR"]).values()
    dict_values([None, 'suvr', 'volume', 'summary', 'other'])
    """
    sized = {found[1] for name in names if (found := VOLUME.fullmatch(name))}
    plain = not any(name.endswith(SUVR) for name in names)  # releases before 2018 have no suffix
    return {name: _kind(name, sized, plain) for name in names}


def _kind(name: str, sized: set[str], plain: bool) -> str | None:
    if name == "CENTILOIDS":
        return "centiloids"
    if STATUS.fullmatch(name):
        return "status"
    if VOLUME.fullmatch(name):
        return "volume"
    base = name.removesuffix(SUVR)
    ratio = base != name or (
        plain and (base in sized or REFERENCE.fullmatch(base) or SUMMARY.fullmatch(base))
    )
    if not ratio and not NORMALISED.fullmatch(name):
        return None
    if REFERENCE.fullmatch(base):
        return "reference"
    if SUMMARY.fullmatch(base):
        return "summary"
    if NOT_TISSUE.fullmatch(base) or base.startswith("CC_"):
        return "other"
    return "suvr" if SIDED.fullmatch(base) else "bilateral"


def _wanted(kinds: Mapping[str, str | None], measures: Sequence[str], path: Path) -> dict[str, str]:
    """The columns of the measures."""
    for measure in measures:
        if measure not in MEASURES:
            raise StudyError(f"measures: unknown measure {measure!r}; known are {', '.join(MEASURES)}.")
    found = {name: kind for name, kind in kinds.items() if kind in measures and kind is not None}
    if not found:
        present = [measure for measure in MEASURES if measure in kinds.values()]
        known = f"it has {', '.join(present)}" if present else "is this a PET table of UC Berkeley?"
        raise StudyError(f"{path.name}: no column of measures {listed(list(measures))}; {known}.")
    return found


def _passed(raw: pd.DataFrame, require_qc: bool, path: Path, notes: list[Note]) -> pd.DataFrame:
    """Rows whose qc_flag is positive."""
    if not require_qc or "qc_flag" not in raw.columns:
        return raw
    passed = (frames.as_numbers(raw["qc_flag"]) > 0).fillna(False).to_numpy(dtype=bool)
    if not passed.any():
        raise StudyError(
            Message(
                f"{path.name}: none of {len(raw)} rows has a positive qc_flag; set require_qc = false.",
                Suggestion({"require_qc": False}),
            )
        )
    notes += count_note(
        int((~passed).sum()), "row without a positive qc_flag", "rows without a positive qc_flag"
    )
    return raw[passed]


def _of_tracer(
    raw: pd.DataFrame, tracer: str | None, wanted: Mapping[str, str], path: Path, notes: list[Note]
) -> pd.DataFrame:
    """Rows of the tracer; several tracers are refused for measures that depend on it."""
    if "TRACER" not in raw.columns:
        if tracer is not None:
            raise StudyError(f"{path.name}: no column TRACER; leave tracer out.")
        return raw
    given = frames.as_text(raw["TRACER"])
    known = sorted(given.dropna().unique())
    if tracer is None:
        if len(known) > 1 and any(kind in RATIOS for kind in wanted.values()):
            raise StudyError(
                f"{path.name}: {len(known)} tracers ({listed(known)}), whose SUVR are not comparable; set "
                "tracer, or measures = ['centiloids']."
            )
        return raw
    kept = (given == tracer).to_numpy(dtype=bool, na_value=False)
    if not kept.any():
        raise StudyError(f"{path.name}: no row has tracer {tracer!r}; there are {listed(known)}.")
    notes += count_note(int((~kept).sum()), "row of another tracer", "rows of other tracers")
    return raw[kept]


def _codes(kinds: Mapping[str, str | None]) -> Codes:
    return {name: ADNI_CODES for name, kind in kinds.items() if kind not in (None, "centiloids")}


def _relative(
    ratios: pd.DataFrame, others: pd.DataFrame, region: str | None, path: Path, notes: list[Note]
) -> pd.DataFrame:
    """SUVR relative to the reference region."""
    by_region = {str(name).removesuffix(SUVR): others[name] for name in others.columns}
    if region is None:
        already = [name for name, values in by_region.items() if _is_one(values)]
        if already:
            notes.append(Note((f"SUVR relative to {already[0]}, as in the file",)))
            return ratios
        region = next((name for name in USUAL if name in by_region), None)
        if region is None:
            raise StudyError(f"{path.name}: no known reference region; set reference_region.")
    if region not in by_region:
        hint = nearest(region, by_region) or f"; there are {listed(list(by_region))}."
        raise StudyError(f"{path.name}: no reference region {region!r}{hint}")
    values = by_region[region].to_numpy()
    usable = np.isfinite(values) & (values > 0)
    notes.append(Note((f"SUVR divided by that of {region}",)))
    lacking = int((~usable).sum())
    notes += count_note(lacking, "scan", text="without a value of the reference region set to missing")
    return ratios.div(np.where(usable, values, np.nan), axis=0)


def _is_one(values: pd.Series) -> bool:
    known = values.dropna()
    return len(known) > 0 and bool((known - 1).abs().max() <= SAME)
