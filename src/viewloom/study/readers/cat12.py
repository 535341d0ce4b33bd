"""CAT12: regional volumes and thickness of subjects in a folder, and intracranial volumes, also of SPM."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from viewloom.data.naming import listed
from viewloom.runtime.progress import stage
from viewloom.study.errors import StudyError, check_readable
from viewloom.study.notes import Count, Note, count_note
from viewloom.study.readers import frames
from viewloom.study.readers.cat12_files import Atlas, report_of, rois_of
from viewloom.study.readers.dates import Reference
from viewloom.study.readers.files import open_table
from viewloom.study.readers.formats import Sample
from viewloom.study.readers.frames import Aside, Patterns
from viewloom.study.readers.tables import filled
from viewloom.study.readers.visits import VisitSetting
from viewloom.study.wording import counted, nearest

ROI = re.compile(r"catROIs?_(?P<name>.+)\.(?:xml|mat)")
REPORT = re.compile(r"cat_(?P<name>.+)\.xml")
BIDS = re.compile(r"[a-z]?(?P<sub>sub-[A-Za-z0-9]+)(?:_(?P<ses>ses-[A-Za-z0-9]+))?(?:_.*)?")
PREFERRED = ("neuromorphometrics", "aparc_DK40", "cobra", "hammers", "lpba40", "aal3")  # atlases of drafts
THICK = "thickness"
USUAL = ("Vgm", THICK)  # measures by default
GLOBALS = ["TIV", "GM", "WM", "CSF", "WMH"]
TIV = re.compile(r"(?i)TIV\w*\.txt")
SPM = re.compile(r"File(?: Volume\d)+")  # names of columns of SPM's table of tissue volumes
SEGMENTED = re.compile(r"(?P<name>.+?)(?:_seg8)?\.(?:mat|nii|nii\.gz)")  # of SPM, or images
VOLUME = re.compile(r"\d{1,5}(?:\.\d+)?|NaN")
LARGEST = 1 << 26  # bytes of a table
FROM_SPM = "correct the cells, or write the table again with SPM"
IDENTICAL = "keep one file per subject, or set visit"


def read_cat12(
    folder: str | Path,
    *,
    atlas: str | None = None,
    measures: Sequence[str] | None = None,
    visit: VisitSetting | None = None,
    columns: Patterns = None,
    exclude: Patterns = None,
    global_measures: bool = False,
    reference: Reference | None = None,
) -> pd.DataFrame:
    """Read the regional values of CAT12 of all subjects in a folder: catROI and catROIs, as .xml or .mat.

    Parameters
    ----------
    folder : str or Path
        The folder of CAT12's output, or its folder ``label``. Of a subject with both kinds of files the .xml
        is read.
    atlas : str, optional
        Such as "neuromorphometrics"; required if there are several: their regions overlap.
    measures : list of str, optional
        Such as "Vgm", "Vwm" or "Vcsf" (volumes in ml), or "thickness" in catROIs. By default Vgm, or
        thickness in an atlas of the surface.
    visit : str or dict, optional
        Session to keep, as in `tables.read_table`, if files are named ``sub-*_ses-*``.
    columns, exclude : list of str, optional
        Shell patterns of the regions to keep and to leave out.
    global_measures : bool, default=False
        Add TIV and the volumes of tissues from the reports ``cat_*.xml``.
    reference
        As in `tables.read_table`.

    Returns
    -------
    DataFrame indexed by ``id``
        The name of the file after ``catROI``, or its subject where it is named as in BIDS. Columns are
        regions; with several measures, region and measure.
    """
    folder, notes = Path(folder), list[Note]()
    files = _by_name(_found(folder, ROI), folder, "catROI_*.xml; set path to the output of CAT12")
    read = _read_all(files, rois_of, folder, "CAT12")
    chosen = _chosen_atlas(read, atlas, folder)
    wanted = _measures(read, chosen, measures, folder)
    lacking = sum(chosen not in atlases for atlases in read.values())
    rows = {name: _regions(atlases[chosen], wanted) for name, atlases in read.items() if chosen in atlases}
    notes.append(Note((f"{', '.join(wanted)} of atlas {chosen}",)))
    if lacking:
        notes.append(Note((f"atlas {chosen} missing for ", Count(lacking, "subject", total=len(read)))))
    wide = pd.DataFrame.from_dict(rows, orient="index", dtype=float)
    if global_measures:
        wide = wide.join(_reports(folder, notes)[GLOBALS])
    return _finished(wide, visit, columns, exclude, folder, notes, reference)


def read_reports(
    path: str | Path,
    *,
    visit: VisitSetting | None = None,
    columns: Patterns = None,
    exclude: Patterns = None,
    numeric: bool = True,
    aside: Aside = None,
    reference: Reference | None = None,
) -> pd.DataFrame:
    """Read intracranial volume and volumes of tissues: ``cat_*.xml`` or ``TIV.txt`` of CAT12, or of SPM.

    Parameters
    ----------
    path : str or Path
        A folder with reports; or the table that CAT12 writes of them, which must have been saved with names;
        or the table of SPM's Tissue Volumes, with columns ``File``, ``Volume1`` and so on.
    visit, columns, exclude, aside, reference
        As in `read_cat12` and `tables.read_table`.
    numeric : bool
        All columns are numbers; the table may be that of the participants.

    Returns
    -------
    DataFrame indexed by ``id``
        TIV, GM, WM, CSF and WMH in ml; from reports also IQR, the rating of image quality (1 is best). Tables
        of SPM keep their columns, in litres. Ids are names of images without folder and endings, or their
        subjects where they are named as in BIDS.
    """
    path, notes = Path(path), list[Note]()
    wide = _reports(path, notes) if path.is_dir() else _table(path, notes)
    cells, named = frames.apart(wide, aside, path)
    frame = _finished(cells, visit, columns, exclude, path, notes, reference)
    frame.attrs["aside"] = named
    return frame


def is_cat12(sample: Sample) -> bool:
    """Whether a folder has regional values of CAT12."""
    return sample.path.is_dir() and next(_found(sample.path, ROI), None) is not None


def is_reports(sample: Sample) -> bool:
    """Whether it is a folder with reports of CAT12, or its table of TIV."""
    if sample.path.is_dir():
        return next(_found(sample.path, REPORT), None) is not None
    return bool(TIV.fullmatch(sample.path.name)) or _is_of_spm(sample.header)


def folders_of_rois(paths: Sequence[Path], folder: Path) -> dict[Path, list[Path]]:
    """Folders of regional values; the reports beside them belong to them."""
    found = _folders(paths, folder, ROI)
    reports = _folders(paths, folder, REPORT)
    return {home: [*files, *reports.get(home, [])] for home, files in found.items()}


def folders_of_reports(paths: Sequence[Path], folder: Path) -> dict[Path, list[Path]]:
    """Folders of reports."""
    return _folders(paths, folder, REPORT)


def _folders(paths: Sequence[Path], folder: Path, name: re.Pattern[str]) -> dict[Path, list[Path]]:
    """Files by folder, with those of the same name as .mat, in which CAT12 writes the same."""
    found: dict[Path, list[Path]] = {}
    known = {path for path in paths if name.fullmatch(path.name)}
    for path in paths:
        if path in known or (path.suffix == ".mat" and path.with_suffix(".xml") in known):
            found.setdefault(_home(path, folder), []).append(path)
    return found


def drafts(folder: Path, files: Sequence[Path] = ()) -> list[dict[str, Any]]:
    """Settings of the views that are drafted: an atlas of volumes, and one of the surface if there is any."""
    named = _by_name(_found(folder, ROI), folder, "catROI_*.xml")
    read = _read_all(named, rois_of, folder, "CAT12")
    counts = Counter(name for atlases in read.values() for name in atlases)
    surface = {
        name for atlases in read.values() for name, atlas in atlases.items() if THICK in atlas.measures
    }
    subjects = Counter(_id(name)[0] for name in read)
    several = {"visit": "first"} if max(subjects.values()) > 1 else {}
    groups = [group for group in (set(counts) - surface, surface) if group]
    return [{"atlas": _preferred(group, counts), **several} for group in groups]


def _preferred(atlases: set[str], counts: Mapping[str, int]) -> str:
    """The atlas of most subjects."""
    known = [name for name in PREFERRED if name in atlases]
    return max(known or sorted(atlases), key=lambda name: counts[name])


def _home(path: Path, folder: Path) -> Path:
    """The folder of all subjects: above label or report, and above folders of single subjects."""
    home = (
        path.parent.parent
        if path.parent.name in ("label", "report") and path.parent != folder
        else path.parent
    )
    while home.name.startswith(("sub-", "ses-")) and home != folder:
        home = home.parent
    return home


def _found(folder: Path, name: re.Pattern[str]) -> Iterator[Path]:
    """Files of a kind in the folder and below it."""
    return (path for path in folder.rglob("cat*") if name.fullmatch(path.name) and path.is_file())


def _by_name(paths: Iterable[Path], folder: Path, needed: str) -> dict[str, list[Path]]:
    """Files by the name of the image, XML before MATLAB, volumes before surfaces."""
    if not folder.is_dir():
        raise StudyError(f"{folder.name}: is no folder; set path to the output of CAT12.")
    found: dict[str, list[Path]] = {}
    for path in sorted(paths, key=lambda path: (path.suffix.lower() != ".xml", path.name)):
        match = ROI.fullmatch(path.name) or REPORT.fullmatch(path.name)
        assert match is not None
        others = found.setdefault(match["name"], [])
        if path.stem not in [other.stem for other in others]:
            others.append(path)
        elif any(other.stem == path.stem and other.suffix == path.suffix for other in others):
            raise StudyError(f"{folder.name}: several files of one image; {IDENTICAL}.")
    if not found:
        raise StudyError(f"{folder.name}: no {needed}.")
    return found


def _read_all(
    files: Mapping[str, list[Path]], read: Any, folder: Path, what: str
) -> dict[str, dict[str, Any]]:
    """What all files of a subject hold; errors count files, whose names are ids."""
    held: dict[str, dict[str, Any]] = {}
    faults = Counter[str]()
    with stage(f"Reading {what}", len(files)) as advance:
        for name, paths in files.items():
            held[name] = {}
            for path in paths:
                try:
                    held[name] |= read(path)
                except StudyError as error:
                    faults[str(error).removeprefix(f"{path.name}: ")] += 1
            advance(1)
    if faults:
        first, _ = faults.most_common(1)[0]
        raise StudyError(
            f"{folder.name}: {sum(faults.values())} of {len(files)} files cannot be read: {first}."
        )
    return held


def _chosen_atlas(read: Mapping[str, Mapping[str, Atlas]], atlas: str | None, folder: Path) -> str:
    known = sorted({name for atlases in read.values() for name in atlases})
    if not known:
        raise StudyError(
            f"{folder.name}: no atlas in {counted(len(read), 'file')} of CAT12; run its ROI analysis."
        )
    if atlas is None and len(known) > 1:
        raise StudyError(
            f"{folder.name}: {len(known)} atlases, whose regions overlap; set atlas to one of "
            f"{listed(known)}."
        )
    if atlas is not None and atlas not in known:
        raise StudyError(
            f"{folder.name}: no atlas {atlas!r}{nearest(atlas, known) or f'; there are {listed(known)}.'}"
        )
    return atlas or known[0]


def _measures(
    read: Mapping[str, Mapping[str, Atlas]], atlas: str, measures: Sequence[str] | None, folder: Path
) -> list[str]:
    known = sorted({key for atlases in read.values() if atlas in atlases for key in atlases[atlas].measures})
    wanted = list(measures or [key for key in USUAL if key in known][:1] or known[:1])
    for key in wanted:
        if key not in known:
            raise StudyError(f"{folder.name}: atlas {atlas} has no measure {key!r}; it has {listed(known)}.")
    return wanted


def _regions(atlas: Atlas, measures: Sequence[str]) -> dict[str, float]:
    """Values by region; regions of equal names are numbered."""
    counts, names = Counter(atlas.names), list[str]()
    for name in atlas.names:
        names.append(
            name if counts[name] == 1 else f"{name}_{1 + sum(n.startswith(f'{name}_') for n in names)}"
        )
    single = len(measures) == 1
    return {
        name if single else f"{name}_{key}": value
        for key in measures
        for name, value in zip(names, atlas.measures.get(key, []), strict=False)
    }


def _reports(folder: Path, notes: list[Note]) -> pd.DataFrame:
    """Volumes by image."""
    files = _by_name(_found(folder, REPORT), folder, "reports cat_*.xml of CAT12")
    held = _read_all(files, report_of, folder, "reports")
    wide = pd.DataFrame.from_dict(held, orient="index", dtype=float)
    unknown = int(wide["TIV"].isna().sum())
    notes += count_note(unknown, "report without TIV has", "reports without TIV have", "missing values")
    return wide.reindex(columns=[*GLOBALS, "IQR"])


def _table(path: Path, notes: list[Note]) -> pd.DataFrame:
    """Volumes by image, from a table of CAT12 or SPM."""
    return _spm_table(path, notes) if _is_of_spm(Sample(path).header) else _tiv_table(path)


def _is_of_spm(header: Sequence[str]) -> bool:
    return SPM.fullmatch(" ".join(header)) is not None


def _spm_table(path: Path, notes: list[Note]) -> pd.DataFrame:
    """Volumes by image; SPM writes the path of each segmentation in single quotation marks."""
    file = open_table(path)
    raw = filled(file, path, notes, ["File"])
    paths = frames.as_text(raw["File"])
    blank = int(paths.isna().sum())
    if blank:
        raise StudyError(
            f"{path.name}: column 'File' is blank in {counted(blank, 'row')}; fill in the names."
        )
    cells = raw.drop(columns="File")
    values = frames.numbers(cells, (), path, notes, way_out=FROM_SPM, notation=file.notation)
    return values.set_axis(pd.Index([_image(text) for text in paths]), axis=0)


def _image(path: str) -> str:
    r"""The name of an image, from a path of itself, its report or its segmentation.

    >>> _image("'C:\\data\\sub-01_T1w_seg8.mat'"), _image("/data/ann.nii.gz"), _image("report/cat_ann.xml")
    ('sub-01_T1w', 'ann', 'ann')
    """
    name = re.split(r"[/\\]", path.strip().strip("'"))[-1]
    found = REPORT.fullmatch(name) or SEGMENTED.fullmatch(name)
    return found["name"] if found else name


def _tiv_table(path: Path) -> pd.DataFrame:
    """Volumes by image, from a table without a header: perhaps a name, then up to five numbers."""
    check_readable(path)
    if path.stat().st_size > LARGEST:
        raise StudyError(f"{path.name}: is too large for a table of TIV.")
    text = path.read_text(encoding="utf-8", errors="replace")
    lines = [[cell.strip() for cell in line.split("\t")] for line in text.splitlines() if line.strip()]
    if lines and all(VOLUME.fullmatch(line[0]) for line in lines):
        raise StudyError(f"{path.name}: has no names of files; save it again in CAT12 with names.")
    if len({len(line) for line in lines}) != 1 or not 1 < len(lines[0]) <= 1 + len(GLOBALS):
        raise StudyError(f"{path.name}: is no table of names and volumes, as CAT12 writes it.")
    if not all(VOLUME.fullmatch(cell) for line in lines for cell in line[1:]):
        raise StudyError(f"{path.name}: has volumes that are no numbers; save it again in CAT12.")
    names = pd.Index([_image(line[0]) for line in lines])
    numbers = [[float(cell) for cell in line[1:]] for line in lines]
    return pd.DataFrame(numbers, index=names, columns=GLOBALS[: len(numbers[0])], dtype=float)


def _id(name: str) -> tuple[str, str | None]:
    """Subject and session of an image."""
    found = BIDS.fullmatch(name)
    return (found["sub"], found["ses"]) if found else (name, None)


def _finished(
    wide: pd.DataFrame,
    visit: VisitSetting | None,
    columns: Patterns,
    exclude: Patterns,
    folder: Path,
    notes: list[Note],
    reference: Reference | None,
) -> pd.DataFrame:
    """One row per subject, of the session to keep."""
    subjects = pd.DataFrame([_id(str(name)) for name in wide.index], columns=["subject", "session"])
    raw = pd.concat([subjects, wide.reset_index(drop=True)], axis=1)
    if visit is not None:
        raw = frames.of_visit(
            raw, "subject", frames.as_text(raw["session"]), visit, folder, notes, reference=reference
        )
    ids = frames.checked_ids(raw["subject"], folder, hint="set visit to keep one session of each subject")
    cells = frames.select(raw.drop(columns=["subject", "session"]), columns, exclude, folder, notes)
    infinite = cells.isin([float("inf"), float("-inf")])
    notes += count_note(int(infinite.to_numpy().sum()), "infinite cell", text="set to missing")
    return frames.finish(cells.mask(infinite), ids, folder, notes)
