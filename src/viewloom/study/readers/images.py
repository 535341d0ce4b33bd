"""NIfTI maps, such as VBM, PET or CBF: one value per region of an atlas, one map in memory at a time."""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from viewloom.runtime.progress import stage
from viewloom.study.errors import Message, StudyError, Suggestion
from viewloom.study.notes import Count, Note, count_note
from viewloom.study.readers import frames
from viewloom.study.readers.atlases import Atlas, Grid, atlas_of, load_image
from viewloom.study.readers.dates import Reference
from viewloom.study.readers.formats import Sample
from viewloom.study.readers.frames import Patterns
from viewloom.study.readers.visits import VisitSetting

ENDS = (".nii", ".nii.gz")
VERSION = "1"  # of cached values
LEAST_COVERED = 0.5  # share of a region that a map must cover
BIDS = re.compile(r"(?P<prefix>[a-z0-9]*?)(?P<sub>sub-[A-Za-z0-9]+)(?:_(?P<ses>ses-[A-Za-z0-9]+))?(?:_.*)?")
PROCESSED = re.compile(r"^(?:s\d{0,2})?m0?wp\d")  # prefixes of SPM and CAT12
LIKE_ATLAS = re.compile(r"(?i).*(?:atlas|dseg|parc|labels?).*")
TABLES = (".tsv", ".csv", ".txt")
LEAST_MAPS = 4


def read_maps(
    path: str | Path | Sequence[str | Path],
    *,
    atlas_image: str | Path,
    atlas_labels: str | Path | None = None,
    statistic: str = "mean",
    files: str = "*",
    resample: bool = False,
    cache: bool = True,
    visit: VisitSetting | None = None,
    columns: Patterns = None,
    exclude: Patterns = None,
    reference: Reference | None = None,
) -> pd.DataFrame:
    """Read NIfTI maps of all subjects as one value per region of a label atlas.

    Parameters
    ----------
    path : path, or list of paths
        A folder of maps, also in folders below it, or the maps.
    atlas_image : str or Path
        Label atlas, in the space of the maps.
    atlas_labels : str or Path, optional
        Numbers and names of its regions: a table with columns such as index and name, or lines of both.
        Regions that it lacks are left out.
    statistic : {"mean", "median", "sum"}
        "sum" is the sum of voxels times their volume in ml: volumes, for modulated tissue maps.
    files : str, default="*"
        Pattern of the names of maps, where a folder has others as well.
    resample : bool, default=False
        Whether maps on another grid than the atlas are accepted: the labels of the nearest voxels are used.
        By default they are refused. Another order or direction of axes alone is no other grid.
    cache : bool, default=True
        Keep the values of each map in ``$XDG_CACHE_HOME/viewloom`` (``~/.cache/viewloom``), without ids,
        under a hash of the content of map and atlas.
    visit : str or dict, optional
        Session to keep, as in `tables.read_table`, if maps are named ``sub-*_ses-*``.
    columns, exclude : list of str, optional
        Shell patterns of the regions to keep and to leave out.
    reference
        As in `tables.read_table`.

    Returns
    -------
    DataFrame indexed by ``id``
        The subject of maps named as in BIDS, else the name of the map without the prefixes of SPM. Voxels
        that are not finite do not count; a region of which a map has less than half is missing.
    """
    notes = list[Note]()
    where, maps = _maps(path, files, Path(atlas_image))
    atlas = atlas_of(Path(atlas_image), None if atlas_labels is None else Path(atlas_labels))
    values, grids = _values(maps, atlas, statistic, resample, cache, where)
    notes.append(Note((f"{statistic} of {len(atlas.names)} regions of {Path(atlas_image).name}",)))
    if grids:
        notes.append(
            Note((Count(grids, "map", total=len(maps)), " on another grid: labels of the nearest voxels"))
        )
    lacking = int(np.isnan(values).sum())
    notes += count_note(lacking, "region of a map", "regions of maps", "outside of the map set to missing")
    wide = pd.DataFrame(values, columns=atlas.names)
    return _finished(wide, maps, visit, columns, exclude, where, notes, reference)


def is_maps(sample: Sample) -> bool:
    """Whether it is an image, or a folder with images."""
    if sample.path.is_dir():
        return next(_images(sample.path), None) is not None
    return sample.path.name.lower().endswith(ENDS)


def folders_of_maps(paths: Sequence[Path], folder: Path) -> dict[Path, list[Path]]:
    """Folders of maps for which there is an atlas with a table, and all these files."""
    images = [path for path in paths if path.name.lower().endswith(ENDS)]
    atlas = _atlas_among(images)
    if atlas is None:
        return {}
    groups: dict[tuple[Path, str], list[Path]] = {}
    for path in images:
        if path != atlas[0]:
            groups.setdefault((_root(path, folder), _pattern(path)), []).append(path)
    best = max(groups, key=lambda key: len(groups[key]), default=None)
    if best is None or len(groups[best]) < LEAST_MAPS:
        return {}
    return {best[0]: [*groups[best], *atlas]}


def drafts(folder: Path, files: Sequence[Path]) -> list[dict[str, Any]]:
    """Settings of the view of a folder of maps."""
    *maps, image, labels = files
    return [{"files": _pattern(maps[0]), "atlas_image": image, "atlas_labels": labels}]


def region_values(values: np.ndarray, labels: np.ndarray, n: int, statistic: str, voxel: float) -> np.ndarray:
    """The statistic of the finite voxels of regions 1 to n; NaN for regions without any.

    >>> region_values(np.array([1.0, 3.0, 5.0, np.nan]), np.array([1, 1, 2, 2]), 3, "mean", 1000.0)
    array([ 2.,  5., nan])
    """
    known = np.isfinite(values) & (labels > 0)
    values, labels = values[known], labels[known]
    counts = np.bincount(labels, minlength=n + 1)[1:]
    if statistic == "median":
        order = np.argsort(labels, kind="stable")
        parts = np.split(values[order], np.cumsum(counts)[:-1])
        return np.array([np.median(part) if len(part) else np.nan for part in parts])
    sums = np.bincount(labels, weights=values, minlength=n + 1)[1:]
    scale = voxel / 1000 if statistic == "sum" else 1.0 / np.maximum(counts, 1)
    return np.where(counts > 0, sums * scale, np.nan)


def _maps(path: str | Path | Sequence[str | Path], files: str, atlas: Path) -> tuple[Path, list[Path]]:
    """A path for messages, and the maps."""
    several = not isinstance(path, (str, Path))
    given = [Path(one) for one in path] if several else [Path(path)]  # type: ignore[union-attr, arg-type]
    where = given[0].parent if several else given[0]
    found = [one for source in given for one in (sorted(_images(source)) if source.is_dir() else [source])]
    labels = os.path.realpath(atlas)
    maps = [one for one in found if fnmatchcase(one.name, files) and os.path.realpath(one) != labels]
    if not maps:
        raise StudyError(
            f"{where.name}: no map *.nii or *.nii.gz whose name matches {files!r}; check path and files."
        )
    return where, maps


def _images(folder: Path) -> Iterator[Path]:
    """Images in the folder and below it."""
    return (path for path in folder.rglob("*.nii*") if path.name.endswith(ENDS) and path.is_file())


def _values(
    maps: Sequence[Path], atlas: Atlas, statistic: str, resample: bool, cache: bool, where: Path
) -> tuple[np.ndarray, int]:
    """Values (n, regions) of all maps, and how many of them have another grid."""
    rows, faults, shifted = [], Counter[str](), 0
    with stage("Reading maps", len(maps)) as advance:
        for path in maps:
            try:
                row, other = _row(path, atlas, statistic, resample, cache)
                rows.append(row)
                shifted += other
            except StudyError as error:
                faults[Message(str(error).removeprefix(f"{path.name}: ").rstrip("."), *error.lines)] += 1
            advance(1)
    if faults:  # maps are not named, since their names are ids
        first, _ = faults.most_common(1)[0]
        text = f"{where.name}: {sum(faults.values())} of {len(maps)} maps cannot be read: one {first}."
        raise StudyError(Message(text, first))
    return np.vstack(rows), shifted


def _row(path: Path, atlas: Atlas, statistic: str, resample: bool, cache: bool) -> tuple[np.ndarray, bool]:
    """Values of one map, and whether it has another grid than the atlas."""
    place = _place(path, atlas, statistic) if cache else None
    kept = _kept(place, len(atlas.names))
    if kept is not None and (resample or not kept[0]):
        return kept[1:], bool(kept[0])
    values, grid = load_image(path)
    other = not atlas.grid.same(grid)
    if other and not resample:
        raise StudyError(
            Message(
                "has another grid (shape, voxels or origin) than the atlas; set resample = true, or bring "
                "both to one space",
                Suggestion({"resample": True}),
            )
        )
    row = _of_map(values, grid, atlas, statistic)
    if place is not None:
        _keep(place, np.concatenate([[float(other)], row]))
    return row, other


def _of_map(values: np.ndarray, grid: Grid, atlas: Atlas, statistic: str) -> np.ndarray:
    labels, n = atlas.on(grid).ravel(), len(atlas.names)
    row = region_values(values.ravel(), labels, n, statistic, grid.voxel)
    covered = np.bincount(labels[np.isfinite(values.ravel())], minlength=n + 1)[1:] * grid.voxel
    return np.where(covered >= LEAST_COVERED * atlas.volumes(), row, np.nan)


def _place(path: Path, atlas: Atlas, statistic: str) -> Path | None:
    """The file of the cached values of a map."""
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    try:
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return None
    key = hashlib.sha256("\n".join([VERSION, digest, atlas.digest, statistic]).encode()).hexdigest()
    return Path(home, "viewloom", "regions", f"{key}.npy")


def _kept(place: Path | None, n: int) -> np.ndarray | None:
    """Cached values: whether the grid is another one, then one value per region."""
    if place is None:
        return None
    try:
        found = np.load(place, allow_pickle=False)
    except (OSError, ValueError, EOFError):
        return None
    return found if found.shape == (n + 1,) and found.dtype == np.float64 else None


def _keep(place: Path, values: np.ndarray) -> None:
    """Write values whole or not at all, for this user only; a cache that cannot be written is no error."""
    with suppress(OSError):
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        number, name = tempfile.mkstemp(dir=place.parent)
        with os.fdopen(number, "wb") as file:
            np.save(file, values)
        os.replace(name, place)


def _id(path: Path) -> tuple[str, str | None]:
    """Subject and session of a map."""
    found = BIDS.fullmatch(_stem(path))
    return (found["sub"], found["ses"]) if found else (PROCESSED.sub("", _stem(path)), None)


def _finished(
    wide: pd.DataFrame,
    maps: Sequence[Path],
    visit: VisitSetting | None,
    columns: Patterns,
    exclude: Patterns,
    where: Path,
    notes: list[Note],
    reference: Reference | None,
) -> pd.DataFrame:
    subjects = pd.DataFrame([_id(path) for path in maps], columns=["subject", "session"])
    chosen = frames.select(wide, columns, exclude, where, notes)
    if visit is not None:
        codes = frames.as_text(subjects["session"])
        subjects = frames.of_visit(subjects, "subject", codes, visit, where, notes, reference=reference)
    hint = "set files to the pattern of one map per subject, or visit to keep one session"
    ids = frames.checked_ids(subjects["subject"], where, hint=hint)
    return frames.finish(chosen.loc[subjects.index], ids, where, notes)


def _stem(path: Path) -> str:
    return re.sub(r"(?i)\.nii(?:\.gz)?$", "", path.name)


def _atlas_among(images: Iterable[Path]) -> tuple[Path, Path] | None:
    """The image that is named like an atlas and has a table beside it."""
    for path in images:
        if LIKE_ATLAS.fullmatch(_stem(path)) and not path.name.startswith("sub-"):
            for end in TABLES:
                table = path.with_name(f"{_stem(path)}{end}")
                if table.is_file():
                    return path, table
    return None


def _root(path: Path, folder: Path) -> Path:
    """The folder of all subjects of a map."""
    ups = [up for up in (path.parent, *path.parent.parents) if up == folder or folder in up.parents]
    subjects = [up for up in ups if up.name.startswith("sub-") and up != folder]
    return subjects[-1].parent if subjects else path.parent


def _pattern(path: Path) -> str:
    """A pattern of the names of like maps of other subjects."""
    found = BIDS.fullmatch(_stem(path))
    if found is None:
        prefix = PROCESSED.match(path.name)
        return f"{prefix[0] if prefix else ''}*{path.name[len(_stem(path)) :]}"
    rest = path.name[
        len(found["prefix"]) + len(found["sub"]) + (len(found["ses"]) + 1 if found["ses"] else 0) :
    ]
    return f"{found['prefix']}sub-*{rest}"
