"""Clinica: atlas statistics in a CAPS folder, and tables of `clinica iotools merge-tsv`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Unpack

import pandas as pd

from viewloom.data.naming import listed
from viewloom.study.errors import StudyError
from viewloom.study.notes import Note, count_note
from viewloom.study.readers import frames
from viewloom.study.readers.dates import Reference
from viewloom.study.readers.files import TablePart, open_table, with_part
from viewloom.study.readers.formats import Sample
from viewloom.study.readers.frames import Codes, Patterns
from viewloom.study.readers.tables import read_table
from viewloom.study.readers.visits import VisitSetting, parse
from viewloom.study.wording import counted

END = "_statistics.tsv"
ENTITY = re.compile(r"(?<![A-Za-z])(sub|ses|trc|space|map|suvr|pvc|desc|long|res|acq)-([A-Za-z0-9]+)")
GROUP = re.compile(r"group-([A-Za-z0-9]+)")
KEYS = ("pipeline", "group", "atlas", "tracer", "pvc", "reference", "map")  # that tell statistics apart
NAMED = {"space": "atlas", "trc": "tracer", "suvr": "reference"}
ID, SESSION = "participant_id", "session_id"
BACKGROUND = ("background", "unknown", "outside")
MERGED = re.compile(
    r"(?P<pipeline>t1-volume|pet-volume|t1-freesurfer)_(?:group-(?P<group>[A-Za-z0-9]+)_)?"
    r"(?:atlas-)?(?P<atlas>[A-Za-z0-9-]+?)(?:_trc-(?P<tracer>[A-Za-z0-9]+))?(?:_pvc-(?P<pvc>[a-z]+))?"
    r"_ROI-(?P<roi>.+)_(?P<map>intensity|volume|thickness|area|meancurv)"
)


@dataclass(frozen=True)
class Kind:
    """What statistics are of: pipeline, group, atlas, tracer, correction, reference and map."""

    parts: tuple[str, ...]

    @classmethod
    def of(cls, found: Mapping[str, str]) -> Kind:
        """From the parts of a name."""
        return cls(tuple(found.get(key) or "" for key in KEYS))

    @property
    def settings(self) -> dict[str, str]:
        """Those that it has."""
        return {key: value for key, value in zip(KEYS, self.parts, strict=True) if value}

    def fits(self, choice: Mapping[str, str]) -> bool:
        """Whether it is what was chosen."""
        return all(self.settings.get(key, "") == value for key, value in choice.items())


def read_caps(
    folder: str | Path,
    *,
    statistics: Mapping[str, str] | None = None,
    visit: VisitSetting | None = None,
    columns: Patterns = None,
    exclude: Patterns = None,
    reference: Reference | None = None,
) -> pd.DataFrame:
    """Read the atlas statistics of all subjects in a CAPS folder of Clinica: t1-volume, PET and dwi-dti.

    Parameters
    ----------
    folder : str or Path
        The CAPS folder, or its folder ``subjects``.
    statistics : dict, optional
        Which statistics to read, by some of the keys pipeline, group, atlas, tracer, pvc, reference and map.
        Required as far as there are several: regions of several atlases overlap.
    visit : str or dict, optional
        Session to keep, as in `tables.read_table`; required if subjects have several.
    columns, exclude : list of str, optional
        Shell patterns of the regions to keep and to leave out. The background is left out.
    reference
        As in `tables.read_table`.

    Returns
    -------
    DataFrame indexed by ``id``, such as sub-ADNI011S0002
        NaN where a subject lacks a region.
    """
    folder, notes = Path(folder), list[Note]()
    found = statistics_in(folder)
    kind = _one_kind(found, statistics or {}, folder)
    rows = [_row(path) for path in found[kind]]
    unreadable = sum(row is None for row in rows)
    if unreadable:
        raise StudyError(
            f"{folder.name}: {unreadable} of {len(rows)} files *{END} are no tables of label_name and "
            "mean_scalar; run clinica again for these subjects, or move the files."
        )
    raw = pd.DataFrame([row for row in rows if row is not None])
    notes.append(_said(kind))
    raw = _of_session(raw, visit, reference, folder, notes)
    ids = frames.checked_ids(raw[ID], folder, hint="set visit to keep one session of each subject")
    wide = raw.drop(columns=[ID, SESSION])
    nothing = [name for name in wide.columns if str(name).casefold() in BACKGROUND]
    notes += count_note(len(nothing), "background region", public=True)
    wide = frames.select(wide.drop(columns=nothing).astype(float), columns, exclude, folder, notes)
    return frames.finish(wide, ids, folder, notes)


@with_part
def read_merged(
    path: str | Path,
    *,
    statistics: Mapping[str, str] | None = None,
    visit: VisitSetting | None = None,
    columns: Patterns = None,
    exclude: Patterns = None,
    missing_codes: Codes | None = None,
    reference: Reference | None = None,
    **part: Unpack[TablePart],
) -> pd.DataFrame:
    """Read the regions of one pipeline and atlas in a table of `clinica iotools merge-tsv`.

    Parameters
    ----------
    path : str or Path
    statistics : dict, optional
        Which columns to read, by some of the keys pipeline, group, atlas, tracer, pvc and map, as in
        `read_caps`.
    visit : str or dict, optional
        Session to keep, as in `tables.read_table`; required if subjects have several.
    columns, exclude : list of str, optional
        Shell patterns of the regions to keep and to leave out.
    missing_codes, reference
        As in `tables.read_table`.
    **part
        Sheet of a workbook, or object of an R file: `sheet` and `object` of `tables.read_table`.

    Returns
    -------
    DataFrame indexed by ``id``
        Columns have the names of the regions.
    """
    path = Path(path)
    found = merged_kinds(open_table(path, **part).header)
    if not found:
        raise StudyError(
            f"{path.name}: no columns such as t1-volume_group-*_atlas-*_ROI-*; is it of merge-tsv?"
        )
    kind = _one_kind(found, statistics or {}, path)
    regions = {name: _region(name) for name in found[kind]}
    nothing = [name for name, region in regions.items() if region.casefold() in BACKGROUND]
    wanted = [_literal(name) for name in regions if name not in nothing]
    options: Any = {"missing_codes": missing_codes, "reference": reference, "visit_column": SESSION, **part}
    frame = read_table(path, id=ID, visit=visit, columns=wanted, **options)
    attrs, notes = frame.attrs, [*frame.attrs["notes"], _said(kind)]
    notes += count_note(len(nothing), "background region", public=True)
    named = frame.set_axis([regions[str(name)] for name in frame.columns], axis=1)
    frame = frames.select(named, columns, exclude, path, notes)
    frame.attrs = {**attrs, "notes": notes, "empty": [regions.get(name, name) for name in attrs["empty"]]}
    return frame


def _said(kind: Kind) -> Note:
    return Note((f"statistics of {', '.join(f'{key} {value}' for key, value in kind.settings.items())}",))


def _region(name: str) -> str:
    found = MERGED.fullmatch(name)
    assert found is not None
    return found["roi"]


def is_caps(sample: Sample) -> bool:
    """Whether a folder has atlas statistics of Clinica."""
    return sample.path.is_dir() and next(_files(sample.path), None) is not None


def is_merged(sample: Sample) -> bool:
    """Whether a table has regions of Clinica's pipelines by subject and session."""
    return {ID, SESSION} <= sample.columns and any(MERGED.fullmatch(name) for name in sample.header)


def drafts_of_caps(folder: Path, files: Sequence[Path] = ()) -> list[dict[str, Any]]:
    """Settings of the views of a CAPS folder."""
    found = statistics_in(folder)
    several = any(len({_subject(path) for path in paths}) < len(paths) for paths in found.values())
    return _drafts(
        found, {"visit": _first(path for paths in found.values() for path in paths)} if several else {}
    )


def drafts_of_merged(
    path: Path, files: Sequence[Path] = (), **part: Unpack[TablePart]
) -> list[dict[str, Any]]:
    """Settings of the views of a merged table."""
    file = open_table(path, **part)
    ids = frames.as_text(file.load([ID, SESSION])[ID])
    return _drafts(merged_kinds(file.header), {"visit": "first"} if ids.duplicated().any() else {})


def folders_of_caps(paths: Sequence[Path], folder: Path) -> dict[Path, list[Path]]:
    """CAPS folders, and their statistics."""
    found: dict[Path, list[Path]] = {}
    for path in paths:
        if not path.name.endswith(END) or not ENTITY.search(path.name):
            continue
        root = next((up.parent for up in path.parents if up.name == "subjects"), None)
        root = root or next((up.parent for up in path.parents if up.name.startswith("sub-")), path.parent)
        if root == folder or folder in root.parents:
            found.setdefault(root, []).append(path)
    return found


def statistics_in(folder: Path) -> dict[Kind, list[Path]]:
    """Statistics by what they are of."""
    if not folder.is_dir():
        raise StudyError(f"{folder.name}: is no folder; set path to the CAPS folder of clinica.")
    found: dict[Kind, list[Path]] = {}
    for path in sorted(_files(folder)):
        found.setdefault(_kind(path), []).append(path)
    if not found:
        raise StudyError(f"{folder.name}: no files sub-*{END}; set path to the CAPS folder of clinica.")
    return found


def merged_kinds(names: Iterable[str]) -> dict[Kind, list[str]]:
    """Columns of a merged table by what they are of."""
    found: dict[Kind, list[str]] = {}
    for name in names:
        if match := MERGED.fullmatch(name):
            parts = {key: value for key, value in match.groupdict().items() if key != "roi" and value}
            found.setdefault(Kind.of(parts), []).append(name)
    return found


def _files(folder: Path) -> Iterator[Path]:
    """Statistics in the folder and below it."""
    return (path for path in folder.rglob(f"sub-*{END}") if path.is_file())


def _kind(path: Path) -> Kind:
    parts = {NAMED.get(key, key): value for key, value in ENTITY.findall(path.name)}
    group = GROUP.search(path.as_posix())
    above = [up.name for up in path.parents]
    known = next((name for name in ("t1", "pet", "dwi") if name in above), "")
    surface = "-surface" if known == "pet" and "surface" in above else ""
    return Kind.of({**parts, "group": group[1] if group else "", "pipeline": known + surface})


def _one_kind(found: Mapping[Kind, Sequence[Any]], choice: Mapping[str, str], path: Path) -> Kind:
    """The kind that was chosen; it is an error if there is none or several."""
    for key in choice:
        if key not in KEYS:
            raise StudyError(f"{path.name}: statistics has no key {key!r}; known are {', '.join(KEYS)}.")
    fitting = [kind for kind in found if kind.fits(choice)]
    if len(fitting) == 1:
        return fitting[0]
    known = {key: sorted({kind.settings.get(key, "none") for kind in fitting or found}) for key in KEYS}
    said = "; ".join(f"{key}: {listed(values)}" for key, values in known.items() if _tells(values, fitting))
    if not fitting:
        raise StudyError(f"{path.name}: no statistics as chosen; there are {said}.")
    count = counted(len(fitting), "kind")
    raise StudyError(f"{path.name}: {count} of statistics; choose one under statistics by {said}.")


def _tells(values: Sequence[str], fitting: Sequence[Kind]) -> bool:
    """Whether the values of a key help to choose."""
    return len(values) > 1 if fitting else list(values) != ["none"]


def _drafts(found: Mapping[Kind, Sequence[Any]], more: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A view for each kind, of the atlas with most regions or files; other atlases have the same signal."""
    best: dict[tuple[str, ...], Kind] = {}
    at = KEYS.index("atlas")
    for kind in found:
        others = (*kind.parts[:at], *kind.parts[at + 1 :])
        if others not in best or len(found[kind]) > len(found[best[others]]):
            best[others] = kind
    return [{"statistics": kind.settings, **more} for kind in best.values()]


def _first(paths: Iterable[Path]) -> str:
    codes = {found[1] for path in paths if (found := re.search(r"_ses-([A-Za-z0-9]+)", path.name))}
    return "bl" if any(parse(code).key == "bl" for code in codes) else "first"


def _subject(path: Path) -> str:
    return path.name.split("_")[0]


def _row(path: Path) -> dict[str, Any] | None:
    """Means of the regions of one file; None if it is invalid."""
    parts = dict(ENTITY.findall(path.name))
    try:
        table = open_table(path, delimiter="\t").load(["label_name"])
        names = frames.as_text(frames.column(table, "label_name", path, "region"))
        values = pd.to_numeric(frames.column(table, "mean_scalar", path, "value"), errors="coerce")
    except (StudyError, OSError):
        return None
    if not len(table) or names.isna().any() or names.duplicated().any() or values.isna().all():
        return None
    session = parts.get("ses")
    return {
        ID: f"sub-{parts['sub']}",
        SESSION: f"ses-{session}" if session else None,
        **dict(zip(names, values, strict=True)),
    }


def _of_session(
    raw: pd.DataFrame,
    visit: VisitSetting | None,
    reference: Reference | None,
    folder: Path,
    notes: list[Note],
) -> pd.DataFrame:
    if visit is None:
        return raw
    codes = frames.as_text(raw[SESSION])
    return frames.of_visit(raw, ID, codes, visit, folder, notes, reference=reference)


def _literal(name: str) -> str:
    return re.sub(r"([*?[])", r"[\1]", name)
