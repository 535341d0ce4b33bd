"""A first study.toml, written by looking at the files that are there.

Names of files and columns are all it tells; choices that are not clear stay comments.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pandas as pd

from viewloom.study import readers
from viewloom.study.errors import StudyError
from viewloom.study.look import (
    CLINICAL,
    COVARIATES,
    DIAGNOSIS,
    IDS,
    OUTCOMES,
    SITE,
    Found,
    likely_participants,
    look,
)
from viewloom.study.readers.frames import VISIT_COLUMNS
from viewloom.study.readers.tables import read_table

SIDE = "roilat side hemi hemisphere"
BASELINES = ("bl", "baseline", "sc", "M00", "ses-M00", "m00", "V1", "1", "0")
ADNI = ("adnimerge", "tadpole", "ucsffsx", "fdg")
MRI = (
    ("ST*SV_UCSFFSX_*", "ST*TA_UCSFFSX_*"),
    ("Hippocampus", "Entorhinal", "Fusiform", "MidTemp", "Ventricles", "WholeBrain"),
)


def draft(folder: str | Path) -> str:
    """A commented study.toml for the files of a folder, which `read_study` accepts as it stands.

    Parameters
    ----------
    folder : str or Path
        Its files and those of its subfolders are looked at.

    Returns
    -------
    str
        To be saved as study.toml in that folder.

    Raises
    ------
    StudyError
        Where no file is known.
    """
    given, folder = folder, Path(folder).resolve()
    if not folder.is_dir():
        raise StudyError(f"{given}: no such folder.")
    found = look(folder)
    people = likely_participants(found)
    views = _view_blocks(found, people[:1], folder)
    if not any(block.startswith("[") for block in views):
        raise StudyError(f"{given}: no file of features was recognised; the manual lists the formats.")
    return "\n".join([_head(folder), _participants_block(people, folder), *views, _foot(found)])


def _view_blocks(found: Sequence[Found], people: Sequence[Found], folder: Path) -> list[str]:
    """A block per view; tables of FreeSurfer are one view together, participants one if there is no other."""
    joined = [file for file in found if file.format == "freesurfer-table"]
    single = [[file] for file in found if file not in [*people, *joined]]
    groups = [group for group in [joined, *single] if group]
    names = _view_names(group[0].path.stem if len(group) == 1 else "freesurfer" for group in groups)
    blocks = [_view_block(name, group, folder) for name, group in zip(names, groups, strict=True)]
    others = [_view_block("features", [file], folder) for file in people]
    if any(block.startswith("[") for block in blocks):
        others = [_as_comment(block) for block in others]
    return [block for block in [*blocks, *others] if block]


def _view_names(stems: Iterable[str]) -> list[str]:
    """Names that are allowed and differ."""
    names: list[str] = []
    for stem in stems:
        name = re.sub(r"[^\w+-]+", "_", stem)[:50].strip("_+-") or "view"
        taken = sum(re.fullmatch(rf"(?i){re.escape(name)}(_\d+)?", other) is not None for other in names)
        names.append(f"{name}_{taken + 1}" if taken else name)
    return names


def _view_block(name: str, group: Sequence[Found], folder: Path) -> str:
    """The block of a view: a comment where only the user can complete it, empty without features."""
    file = group[0]
    paths = [_text(path.path.relative_to(folder).as_posix()) for path in group]
    where = f"path = {paths[0]}" if len(paths) == 1 else f"paths = [{', '.join(paths)}]"
    settings = SETTINGS.get(file.format, _nothing)(file)
    if settings is None:
        return ""
    key = name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _text(name)
    block = "\n".join([f"[views.{key}]", where, f'format = "{file.format}"', *settings, ""])
    return _as_comment(block) if UNKNOWN in settings else block


def _as_comment(block: str) -> str:
    return re.sub(r"(?m)^(?=.)", "# ", block)


def _nothing(file: Found) -> list[str]:
    return []


def _table_settings(file: Found) -> list[str] | None:
    """Id, visit, and the columns that are not features."""
    ids = file.named(IDS)
    read = _first_reading(file, ids[0]) if ids else None
    if read is None:
        return None
    visit, frame = read
    text = [name for name in frame.columns if not pd.api.types.is_numeric_dtype(frame[name])]
    apart = [*ids[1:], *file.named(CLINICAL), *text]
    exclude = [name for name in frame.columns if name in apart]
    if frame.shape[1] - len(exclude) < 2:
        return None
    lines = [_choice("id", ids), *_visit_line(visit)]
    if exclude:
        lines.append(f"exclude = [{', '.join(map(_text, exclude))}]  # not features, or not numbers")
    return [*lines, '# transform = "log"  # or "log1p", "sqrt"', "# missing_codes = [-4]"]


def _first_reading(file: Found, id: str) -> tuple[str | None, pd.DataFrame] | None:
    """The table at its first visit, and the name of that; None where it cannot be read."""
    visits = BASELINES if any(name in VISIT_COLUMNS for name in file.header) else ()
    for visit in (None, *visits):
        try:
            return visit, read_table(file.path, id=id, visit=visit, numeric=False)
        except StudyError:
            continue
    return None


def _visit_line(visit: str | None) -> list[str]:
    return [] if visit is None else [f"visit = {_text(visit)}  # subjects have several"]


def _long_settings(file: Found) -> list[str] | None:
    ids, region, value = map(file.named, (IDS, " ".join(readers.REGION), " ".join(readers.VALUE)))
    if not (ids and region and value):
        return None
    names = [region[0], *file.named(SIDE)[:1]]
    visits = [name for name in file.header if name in VISIT_COLUMNS]
    return [
        _choice("id", ids),
        f"name = [{', '.join(map(_text, names))}]",
        _choice("value", value),
        *([f"# visit = {_text(BASELINES[0])}  # of column {_text(visits[0])}"] if visits else []),
    ]


def _plink_settings(file: Found) -> list[str]:
    return ["min_maf = 0.01  # rarer variants are left out", "min_call_rate = 0.95"]


def _mudata_settings(file: Found) -> list[str]:
    return [UNKNOWN]


def _baseline(file: Found) -> list[str]:
    return ['visit = "bl"']


def _merged_settings(file: Found) -> list[str] | None:
    """Columns of ADNI's merged tables that come from MRI."""
    found = [patterns for patterns in MRI if any(fnmatchcase(name, patterns[0]) for name in file.header)]
    columns = [f"columns = [{', '.join(map(_text, patterns))}]" for patterns in found[:1]]
    return [*_baseline(file), *columns] if columns else None


def _participants_block(people: Sequence[Found], folder: Path) -> str:
    """The block of the likeliest table, with others as comments."""
    if not people:
        return '# No table with a diagnosis was found.\n# [participants]\n# path = "..."\n# id = "..."\n'
    file = people[0]
    ids = file.named(IDS)
    read = _first_reading(file, ids[0]) if file.format == "table" else ("bl", None)
    paths = [_text(other.path.relative_to(folder).as_posix()) for other in people]
    lines = ["[participants]", _choice_of("path", paths), f'format = "{file.format}"', _choice("id", ids)]
    lines += _visit_line(read[0] if read else None)
    for key, names in (("diagnosis", DIAGNOSIS), ("site", SITE)):
        lines.append(_choice(key, file.named(names)))
    for key, names in (("covariates", COVARIATES), ("outcomes", OUTCOMES)):
        columns = ", ".join(map(_text, file.named(names)))
        lines.append(f"{key} = [{columns}]" if columns else f'# {key} = ["..."]')
    return "\n".join([*lines, '# survival = { time = "...", event = "..." }', ""])


def _choice(key: str, columns: Sequence[str]) -> str:
    return _choice_of(key, [_text(column) for column in columns])


def _choice_of(key: str, quoted: Sequence[str]) -> str:
    """The first of several possible values, the others as a comment."""
    if not quoted:
        return f'# {key} = "..."'
    return f"{key} = {quoted[0]}" + (f"  # or {', '.join(quoted[1:])}" if len(quoted) > 1 else "")


def _head(folder: Path) -> str:
    return f"""# Written by looking at the files of this folder; read it through.
# `viewloom check study.toml` shows who has what, `viewloom fit study.toml` runs it.

[study]
name = {_text(folder.name or "study")}
"""


def _foot(found: Sequence[Found]) -> str:
    """Settings that hold for all views."""
    adni = any(file.format in ADNI or file.named("rid ptid") for file in found)
    return f"""[preparation]
impute = "median"  # or "knn"
# residualise = ["..."]  # covariates whose effect is to be taken out
# controls = "..."  # the value of diagnosis that controls have
# residualise_on = "controls"  # or "all"
# harmonise = "combat"  # between sites

[model]
n_clusters = 3
seed = 0

[ids]
match = "{"adni" if adni else "exact"}"  # "adni": PTID, RID and BIDS spellings are one subject
"""


def _text(value: Any) -> str:
    """Text between quotes; whatever a name holds, it stays on its line."""
    return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")


UNKNOWN = 'modality = "..."'
SETTINGS: dict[str, Callable[[Found], list[str] | None]] = {
    "table": _table_settings,
    "long": _long_settings,
    "plink": _plink_settings,
    "plink-raw": _plink_settings,
    "h5mu": _mudata_settings,
    "adnimerge": _merged_settings,
    "tadpole": _merged_settings,
    "ucsffsx": _baseline,
    "fdg": _baseline,
}
