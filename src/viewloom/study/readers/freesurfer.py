"""FreeSurfer: folders of ``aseg.stats`` and ``?h.aparc.stats``.

Features have the names of asegstats2table and aparcstats2table: ``Left-Hippocampus``,
``lh_entorhinal_thickness``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import pandas as pd

from viewloom.study.errors import Message, StudyError, Suggestion, check_kind
from viewloom.study.notes import Breakdown, Count, Note, count_note
from viewloom.study.readers import frames
from viewloom.study.readers.formats import Sample
from viewloom.study.readers.frames import Patterns

ASEG = (  # FreeSurfer, FastSurfer, SAMSEG; the first that a subject has is read
    "aseg.stats",
    "aseg+DKT.stats",
    "aseg+DKT.VINN.stats",
    "aseg.VINN.stats",
    "samseg.fs.stats",
)
ATLASES = ("aparc", "aparc.DKTatlas.mapped", "aparc.DKTatlas")  # FreeSurfer, then FastSurfer
CORTEX = "ctx-"  # parcels in the segmentation of FastSurfer
ASEG_HEADERS = ["Index", "SegId", "NVoxels", "Volume_mm3", "StructName"]
APARC_HEADERS = ["StructName", "NumVert", "SurfArea", "GrayVol", "ThickAvg", "ThickStd"]
NOT_SUBJECTS = ("fsaverage",)
ONE_EACH = "keep one directory per subject"
LONG = ".long."  # <time point>.long.<template>
GLOBAL = re.compile(  # measures of the whole brain or of a hemisphere, not of a region
    r".*Vol|.*VolNotVent.*|.*-to-eTIV|.*SurfaceHoles|[lr]h_(MeanThickness|WhiteSurfArea|NumVert)_.*"
)
ICV = "EstimatedTotalIntraCranialVol"
RENAMED = {  # names of earlier versions -> current name
    **dict.fromkeys(["eTIV", "ICV", "IntraCranialVol"], ICV),
    **{
        f"{side}-Thalamus-Proper{mark}": f"{side}-Thalamus"
        for side in ("Left", "Right")
        for mark in ("", "*")
    },
}
HEMISPHERE = {"MeanThickness": "thickness", "WhiteSurfArea": "area", "NumVert": "vertices"}
MEASURE = re.compile(r"# Measure [^,]+, *(?P<name>[^,]+),.*, *(?P<value>[-+.\deE]+|nan), *[^,]*")


def read_stats(
    folder: str | Path,
    *,
    atlas: str | None = None,
    measures: Sequence[str] = ("volume", "thickness"),
    hemispheres: Sequence[str] = ("lh", "rh"),
    columns: Patterns = None,
    exclude: Patterns = None,
    longitudinal: bool = False,
    global_measures: bool = False,
) -> pd.DataFrame:
    """Read the stats files of all subjects in a folder.

    Parameters
    ----------
    folder : str or Path
        A SUBJECTS_DIR (``<subject>/stats/aseg.stats``) of FreeSurfer or FastSurfer, the output of fMRIPrep,
        which has one in ``sourcedata/freesurfer``, a folder with one folder per subject, or a folder of
        ``<subject>.aseg.stats``, ``<subject>.lh.aparc.stats`` and so on.
    atlas : str, optional
        Cortical parcellation, as in ``lh.<atlas>.stats``. By default aparc; if no subject has it,
        aparc.DKTatlas.mapped of FastSurfer, or aparc.DKTatlas.
    measures : list of str
        "volume" (also of subcortical structures), "thickness", "area", "thicknessstd", "meancurv",
        "gauscurv", "foldind" or "curvind".
    hemispheres : list of str
    columns, exclude : list of str, optional
        Shell patterns of the features to keep and to leave out.
    longitudinal : bool, default=False
        Read ``<time point>.long.<template>`` instead of all other directories. The id is the time point.
    global_measures : bool, default=False
        Add measures of the whole brain, such as the intracranial volume.

    Returns
    -------
    DataFrame indexed by ``id``, the name of the directory
        NaN where a subject lacks a structure or a file.

    Raises
    ------
    StudyError
        If there are no such files, or some have no table.
    """
    folder, notes = Path(folder), list[Note]()
    atlas = atlas or _usual_atlas(folder, notes)
    wanted = _wanted_files(atlas, measures, hemispheres)
    found = _found(folder, wanted)
    chosen = _one_stream(found, longitudinal, folder, notes)
    parts = []
    for kind, paths in _by_kind(chosen, wanted):
        parts.append(_read_kind(kind, paths, measures, folder))
        if len(paths) < len(chosen):
            lacking = Count(len(chosen) - len(paths), "subject", total=len(chosen))
            notes.append(Note((f"{kind} missing for ", lacking)))
    ids = pd.Index(sorted(chosen), dtype=str)
    wide = pd.concat([part.reindex(ids) for part in parts], axis=1)
    wide = wide.loc[:, ~wide.columns.duplicated()]  # both hemispheres repeat measures of the whole brain
    wide = _cortex_once(wide, measures, notes)
    _tell_segmentations(chosen, notes)
    wide = frames.select(regions(wide, global_measures, notes), columns, exclude, folder, notes)
    names = pd.Series(ids.map(lambda name: name.partition(LONG)[0]), name="directory")
    return frames.finish(wide, frames.checked_ids(names, folder, hint=ONE_EACH), folder, notes)


def is_stats(sample: Sample) -> bool:
    """Whether a folder has stats files."""
    return sample.path.is_dir() and next(_stats_files(sample.path), None) is not None


def regions(wide: pd.DataFrame, global_measures: bool, notes: list[Note]) -> pd.DataFrame:
    """The table without measures of the whole brain, unless they are requested."""
    if global_measures:
        return wide
    found = wide.columns.map(lambda name: GLOBAL.fullmatch(name) is not None).to_numpy(dtype=bool)
    notes += count_note(
        int(found.sum()), "measure of the whole brain", "measures of the whole brain", public=True
    )
    return wide.loc[:, ~found]


def _usual_atlas(folder: Path, notes: list[Note]) -> str:
    """The first of the usual parcellations that a subject has."""
    names = {path.name for path in _stats_files(folder)} if folder.is_dir() else set()
    ends = {atlas: (f"lh.{atlas}.stats", f"rh.{atlas}.stats") for atlas in ATLASES}
    atlas = next((one for one in ATLASES if any(name.endswith(ends[one]) for name in names)), ATLASES[0])
    if atlas != ATLASES[0]:
        notes.append(Note((f"no ?h.{ATLASES[0]}.stats: atlas {atlas}",)))
    return atlas


def _cortex_once(wide: pd.DataFrame, measures: Sequence[str], notes: list[Note]) -> pd.DataFrame:
    """The table without parcels of the segmentation, if volumes of the surface are there as well."""
    names = [str(name) for name in wide.columns]
    surface = "volume" in measures and any(name.startswith(("lh_", "rh_")) for name in names)
    double = [name for name in names if name.startswith(CORTEX)] if surface else []
    text = "of the segmentation left out: the surface has their volumes"
    notes += count_note(len(double), "cortical parcel", text=text, public=True)
    return wide.drop(columns=double)


def _tell_segmentations(chosen: dict[str, dict[str, Path]], notes: list[Note]) -> None:
    """Note that subjects have files of different segmentations."""
    used = [next((kind for kind in ASEG if kind in paths), None) for paths in chosen.values()]
    kinds = {kind: used.count(kind) for kind in ASEG if kind in used}
    if len(kinds) > 1:
        parts = Breakdown(tuple((count, f"with {kind}") for kind, count in kinds.items()))
        notes.append(Note(("different segmentations: ", parts)))


def _wanted_files(atlas: str, measures: Sequence[str], hemispheres: Sequence[str]) -> list[str]:
    """File names to look for."""
    unknown = [measure for measure in measures if measure not in APARC_COLUMNS]
    if unknown:
        raise StudyError(f"measures: unknown measure {unknown[0]!r}; known are {', '.join(APARC_COLUMNS)}.")
    return [*(ASEG if "volume" in measures else ()), *(f"{side}.{atlas}.stats" for side in hemispheres)]


def _found(folder: Path, wanted: Sequence[str]) -> dict[str, dict[str, Path]]:
    """Files by subject and kind."""
    if not folder.is_dir():
        raise StudyError(f"{folder.name}: no such folder; set path to the SUBJECTS_DIR of FreeSurfer.")
    found: dict[str, dict[str, Path]] = {}
    for path in _stats_files(folder):
        for kind in wanted:
            if path.name == kind or path.name.endswith((f".{kind}", f"_{kind}")):
                found.setdefault(_subject(path, kind), {})[kind] = path
    if not found:
        raise StudyError(
            f"{folder.name}: no {' or '.join(wanted)} in <subject>/stats, in <subject>, or as "
            "<subject>.aseg.stats; check the folder and atlas."
        )
    return found


def _stats_files(folder: Path) -> Iterator[Path]:
    """Stats files up to two levels below the folder, in order of name."""
    for pattern in ("*.stats", "*/*.stats", "*/stats/*.stats", "sourcedata/freesurfer/*/stats/*.stats"):
        yield from sorted(folder.glob(pattern))


def _subject(path: Path, kind: str) -> str:
    """The subject of a file, from its name or its directory."""
    own = path.name.removesuffix(kind).rstrip("._")
    folder = path.parent.parent if path.parent.name == "stats" else path.parent
    return own or folder.name


def _one_stream(
    found: dict[str, dict[str, Path]], longitudinal: bool, folder: Path, notes: list[Note]
) -> dict[str, dict[str, Path]]:
    """Subjects of the longitudinal or the cross-sectional stream, without templates and averages."""
    templates = {name.partition(LONG)[2] for name in found if LONG in name}
    chosen = {
        name: paths
        for name, paths in found.items()
        if (LONG in name) == longitudinal and name not in templates and not name.startswith(NOT_SUBJECTS)
    }
    if not chosen:
        other = "set longitudinal = true" if templates else "check the folder, or set longitudinal = false"
        text = f"{folder.name}: no directory of this stream among {len(found)}; {other}."
        raise StudyError(Message(text, Suggestion({"longitudinal": bool(templates)})))
    left = len(found) - len(chosen)
    notes += count_note(
        left, "directory of another stream", "directories of other streams, templates or averages"
    )
    return chosen


def _by_kind(
    chosen: dict[str, dict[str, Path]], wanted: Sequence[str]
) -> Iterator[tuple[str, dict[str, Path]]]:
    """The files of each kind by subject; all segmentations are one kind."""
    kinds = [kind for kind in wanted if kind not in ASEG]
    segmented = {
        name: paths[kind] for name, paths in chosen.items() for kind in reversed(ASEG) if kind in paths
    }
    if any(kind in wanted for kind in ASEG):
        yield ASEG[0], segmented
    for kind in kinds:
        yield kind, {name: paths[kind] for name, paths in chosen.items() if kind in paths}


def _read_kind(kind: str, paths: dict[str, Path], measures: Sequence[str], folder: Path) -> pd.DataFrame:
    """All files of one kind as a table, NaN where a file has no value."""
    rows = {name: _read_file(kind, path, measures) for name, path in paths.items()}
    invalid = sum(not row for row in rows.values())
    if invalid:  # their paths are not named, since they are ids
        raise StudyError(
            f"{folder.name}: {invalid} of {len(rows)} files {kind} have no table of these measures; run "
            "recon-all again for these subjects, or move their directories."
        )
    return pd.DataFrame.from_dict(rows, orient="index", dtype=float)


def _read_file(kind: str, path: Path, measures: Sequence[str]) -> dict[str, float]:
    """Features of one file; empty if it is invalid."""
    try:
        if kind in ASEG:
            return _read_aseg(path)
        return _read_aparc(path, kind.partition(".")[0], measures)
    except (ValueError, IndexError):
        return {}


def _read_aseg(path: Path) -> dict[str, float]:
    """Volumes of structures, then measures of the whole brain."""
    headers, rows, measured = _parse(path, ASEG_HEADERS)
    name, volume = headers.index("StructName"), headers.index("Volume_mm3")
    found = {RENAMED.get(row[name], row[name]): float(row[volume]) for row in rows}
    return {**found, **measured} if found else {}


def _read_aparc(path: Path, side: str, measures: Sequence[str]) -> dict[str, float]:
    """The measures of each parcel, then those of the hemisphere and the whole brain."""
    headers, rows, measured = _parse(path, APARC_HEADERS)
    name = headers.index("StructName")
    at = {measure: headers.index(APARC_COLUMNS[measure]) for measure in measures}
    found = {f"{side}_{row[name]}_{measure}": float(row[j]) for measure, j in at.items() for row in rows}
    named = {
        f"{side}_{key}_{HEMISPHERE[key]}" if key in HEMISPHERE else key: value
        for key, value in measured.items()
    }
    return {**found, **named} if found else {}


def _parse(path: Path, headers: list[str]) -> tuple[list[str], list[list[str]], dict[str, float]]:
    """Column headers, rows and whole-brain measures of a stats file."""
    rows, measured = [], {}
    check_kind(path)
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        if line.startswith("# ColHeaders"):
            headers = line.split()[2:]
        elif found := MEASURE.fullmatch(line.strip()):
            measured[RENAMED.get(found["name"], found["name"])] = float(found["value"])
        elif line.strip() and not line.startswith("#"):
            rows.append(line.split())
    return headers, rows, measured


APARC_COLUMNS = {  # measure, as aparcstats2table calls it -> column of ?h.aparc.stats
    "volume": "GrayVol",
    "thickness": "ThickAvg",
    "area": "SurfArea",
    "thicknessstd": "ThickStd",
    "meancurv": "MeanCurv",
    "gauscurv": "GausCurv",
    "foldind": "FoldInd",
    "curvind": "CurvInd",
}
