"""Possible sources of a study: the kind of each file in a folder."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from importlib import import_module
from pathlib import Path
from typing import Any

from viewloom.study import readers
from viewloom.study.drafting import columns, kinds
from viewloom.study.drafting.columns import named
from viewloom.study.drafting.found import Candidate, Found
from viewloom.study.drafting.genotypes import SETTINGS as GENOTYPES
from viewloom.study.drafting.genotypes import genotype_files
from viewloom.study.drafting.readers import folder_files, views_of_file
from viewloom.study.drafting.stats import Streams, find_streams
from viewloom.study.drafting.tables import (
    Table,
    Unusable,
    excluded,
    long_names,
    long_value,
    look_at,
    why_excluded,
)
from viewloom.study.drafting.walk import walk
from viewloom.study.errors import StudyError
from viewloom.study.ids import best_style
from viewloom.study.readers.files import parts_of
from viewloom.study.wording import counted

MANY = 20  # files with similar names; more are files of single subjects or regions
MOST_OPENED = 400  # files that may be tables
SAMPLED = 3  # files of like names that are opened
PEOPLE_NAMES = re.compile(
    r"(?i).*(participants?|subjects?|demograph|clinical|covariate|pheno|diagnos|metadata|info)"
)
MRI = (
    ("ST*SV_UCSFFSX_*", "ST*TA_UCSFFSX_*"),
    ("Hippocampus", "Entorhinal", "Fusiform", "MidTemp", "Ventricles", "WholeBrain"),
)


Source = tuple[Path, tuple[str, str] | None]  # a file, and the sheet or object in it


def find(folder: Path) -> Found:
    """Find the sources among the files of a folder."""
    tree, found = walk(folder), Found(folder)
    streams = find_streams(tree.files, folder)
    found.views += [_freesurfer(stream) for stream in streams]
    for stream in streams:
        found.passed += stream.passed(folder)
    taken = {path for stream in streams for path in stream.files}
    rest = [path for path in tree.files if path not in taken]
    in_folders = folder_files(rest, found)
    rest = [path for path in rest if path not in in_folders]
    genotypes = genotype_files(rest, found)
    rest = [path for path in rest if path not in genotypes]
    texts = [path for path in rest if _is_text(path, found)]
    _look_at_texts(texts, found)
    found.passed += [(label, why, count) for (label, why), count in tree.passed.items()]
    return found


def likely_people(table: Table) -> bool:
    """Whether a table is likely the table of participants."""
    if table.format not in readers.participants_formats():
        return False
    about = [name for name in table.clinical if name not in named(table.header, columns.OTHERS)]
    hinted = bool(PEOPLE_NAMES.match(table.title)) and bool(about)
    return bool(table.roles(columns.DIAGNOSIS)) or len(about) > 1 or hinted


def _freesurfer(stream: Streams) -> Candidate:
    remarks = [f"FreeSurfer statistics of {counted(len(stream.subjects), 'subject')}, one folder each"]
    if stream.lacking:
        remarks.append(f"{counted(stream.lacking, 'folder')} without files of atlas {stream.atlas!r}")
    return Candidate(
        stream.root.name, [stream.root], "freesurfer", stream.settings, stream.subjects, remarks=remarks
    )


def _is_text(path: Path, found: Found) -> bool:
    """Whether a file may be a table; other files are skipped or become candidates."""
    if path.name == "study.toml":
        found.pass_over(path, "a study file of viewloom")
        return False
    table = path.with_suffix(".tsv")
    if path.suffix == ".json" and table.is_file():
        found.pass_over(path, f"describes the columns of {table.name}, and is read with it")
        return False
    owner = readers.owner(path)
    by_name = kinds.known_as(path) if owner is None else None
    if by_name is not None:
        broken = kinds.unreadable_as(path) if path.is_symlink() else None
        found.pass_over(path, broken or by_name)
        return False
    if owner in ("h5ad", "h5mu"):
        _matrices(path, found)
        return False
    return True


def _matrices(path: Path, found: Found) -> None:
    """A view per modality of an h5mu, one of an h5ad."""
    broken = kinds.unreadable_as(path)
    if broken and not broken.startswith(("HDF5", "not a text")):
        found.pass_over(path, broken)
        return
    try:
        read = _modalities(path)
    except ImportError:
        found.pass_over(path, f"{path.suffix} needs anndata: pip install viewloom[omics]")
        return
    except Exception as error:  # HDF5 that is damaged or holds something else fails in many ways
        found.pass_over(path, f"cannot be read as {path.suffix} ({type(error).__name__}); write it again")
        return
    if not read:
        found.pass_over(path, f"a {path.suffix} without a matrix of observations; write it again")
    single = len(read) == 1
    for modality, (ids, features) in read.items():
        settings = {"modality": modality} if modality else {}
        name = path.stem if single else f"{path.stem}_{modality}"
        what = f"modality {modality!r}" if modality else "matrix"
        remarks = [f"{what}: {counted(len(ids), 'observation')}, {counted(len(features), 'variable')}"]
        found.views.append(Candidate(name, [path], path.suffix[1:].lower(), settings, ids, features, remarks))


def _modalities(path: Path) -> dict[str, tuple[list[str], list[str]]]:
    """Names of observations and variables of each modality; of an h5ad the one without a name."""
    h5py: Any = import_module("h5py")
    names = import_module("viewloom.study.readers.anndata").axis_names
    import_module("anndata")
    with h5py.File(path, "r") as file:
        groups = {str(key): file["mod"][key] for key in sorted(file["mod"])} if "mod" in file else {"": file}
        good = {key: group for key, group in groups.items() if {"obs", "var"} <= set(group)}
        return {key: (list(names(group["obs"])), list(names(group["var"]))) for key, group in good.items()}


def _look_at_texts(paths: Sequence[Path], found: Found) -> None:
    """Candidates of all files that may be tables; of many files with similar names only a few are opened."""
    opened: dict[Source, Table | list[Candidate] | str] = {}
    late: list[Source] = []
    for alike in _alike(paths, found.folder):
        if len(alike) > MANY or len(opened) > MOST_OPENED:
            _pass_alike(alike, found)
            continue
        for source in [source for path in alike for source in _sources(path)]:
            opened[source] = _opened(*source, ())
            late += [source] if isinstance(opened[source], str) else []
    known = {id for table in opened.values() if isinstance(table, Table) for id in table.subjects()}
    for source in late if known else ():
        opened[source] = _opened(*source, known)
    for source in _turned(opened):
        opened[source] = _opened(*source, (), "matrix")
    tables = [table for table in opened.values() if isinstance(table, Table)]
    _choose_ids(tables, [set(view.ids) for view in found.views])
    for source in sorted(opened, key=lambda one: paths.index(one[0])):
        _sort_in(*source, opened[source], found)


def _turned(opened: Mapping[Source, Table | list[Candidate] | str]) -> list[Source]:
    """Tables whose columns are the subjects of other tables."""
    tables = {source: table for source, table in opened.items() if isinstance(table, Table)}
    return [
        source
        for source, table in tables.items()
        if table.format == "table"
        and any(_has_columns_of(table, other) for other in tables.values() if other is not table)
    ]


def _has_columns_of(table: Table, other: Table) -> bool:
    """Whether most columns of a table, but none of its rows, are named by the ids of another one."""
    ids = set(other.subjects())
    if 2 * len(ids.intersection(table.header)) <= len(table.header) or _are_counted(table.header[1:]):
        return False
    _, shared = best_style(ids, table.subjects())
    return not shared


def _are_counted(names: Sequence[str]) -> bool:
    """Whether names are 1, 2, 3 and so on, as those of features often are; perhaps from 0."""
    return any(list(names) == [str(n) for n in range(first, first + len(names))] for first in (0, 1))


def _sources(path: Path) -> list[Source]:
    """A file, or each sheet or object of a file with several tables."""
    try:
        parts = parts_of(path) if kinds.unreadable_as(path) is None else None
    except (StudyError, ImportError, OSError):
        parts = None
    return [(path, None)] if parts is None else [(path, (parts[0], name)) for name in parts[1][:MANY]]


def _alike(paths: Sequence[Path], folder: Path) -> list[list[Path]]:
    """Files whose names differ in numbers only, in folders whose names do."""
    groups: dict[str, list[Path]] = defaultdict(list)
    for path in paths:
        groups[re.sub(r"(?:sub|ses)-[0-9A-Za-z]+|\d+", "#", path.relative_to(folder).as_posix())].append(path)
    return list(groups.values())


def _pass_alike(alike: Sequence[Path], found: Found) -> None:
    """Record the reason for many files with similar names once."""
    sample = [_opened(path, None, ()) for path in (*alike[: SAMPLED - 1], alike[-1])]
    tables = [table for table in sample if isinstance(table, Table)]
    why = next((why for why in sample if isinstance(why, str)), "")
    if tables:
        rows = max(len(table.raw) for table in tables)
        why = f"a table of {counted(rows, 'row')}, one of {len(alike)} files with similar names"
        why += ": one file per subject or region? Combine them in one table with one row per subject"
    found.passed += [(path.relative_to(found.folder).as_posix(), why, 1) for path in alike]


def _opened(
    path: Path, part: tuple[str, str] | None, known: Iterable[str], format: str | None = None
) -> Table | list[Candidate] | str:
    """Read a table, or record why that is not possible; its format is guessed unless it is given."""
    chosen = {} if part is None else dict([part])
    try:
        guessed = format or readers.sniff(path, chosen)
        if guessed is not None and guessed not in SETTINGS:
            return views_of_file(path, guessed, chosen)
        return kinds.unreadable_as(path) or look_at(path, known, chosen, format)
    except Unusable as error:
        return str(error)
    except OSError as error:
        return f"cannot be read ({error.strerror})"
    except (ValueError, MemoryError) as error:  # of parsers, on what is no table
        return f"cannot be read as a table ({type(error).__name__})"


def _choose_ids(tables: Sequence[Table], others: Sequence[set[str]]) -> None:
    """Put the id column that other sources share first."""
    for table in tables:
        if len(table.ids) > 1:
            seen = [
                {id for name in other.ids for id in other.subjects(name)}
                for other in tables
                if other is not table
            ]
            shared = {
                name: sum(len(ids.intersection(table.subjects(name))) for ids in [*seen, *others])
                for name in table.ids
            }
            table.ids.sort(key=lambda name: -shared[name])


def _sort_in(
    path: Path, part: tuple[str, str] | None, table: Table | list[Candidate] | str, found: Found
) -> None:
    """Add a table as participants or as a candidate, or record why it is neither."""
    where = "" if part is None else f"{part[0]} {part[1]!r}: "
    if isinstance(table, list):
        found.views += table
        return
    if isinstance(table, str):
        found.pass_over(path, where + table)
        return
    try:
        people = likely_people(table)
        view = _table_view(table)
    except (Unusable, StudyError) as error:
        found.pass_over(path, where + str(error).removeprefix(f"{path.name}: "))
        return
    if people:
        found.people.append(table)
    if view is not None:
        found.views.append(view)
    elif not people:
        found.pass_over(path, where + _nothing_in(table))


def _nothing_in(table: Table) -> str:
    """The reason why a table has no features for a view."""
    if named(table.header, "fldname variable variablename fieldname field"):
        return "a data dictionary: it describes columns, not subjects"
    known = table.id in named(table.header, columns.IDS)
    what = f"a table of {counted(len(table.raw), 'row')}" + (f", ids in column {table.id!r}" if known else "")
    if not table.measures and not known:
        return "text without numeric columns: not a table of subjects"
    if not table.measures:
        return f"{what}, without numeric columns"
    return f"{what}, with a single numeric column ({table.measures[0]!r}); a view needs two"


def _table_view(table: Table) -> Candidate | None:
    """The view of the measures of a table; None without measures."""
    settings = SETTINGS[table.format](table)
    if settings is None:
        return None
    remarks = [
        f"{counted(len(table.subjects()), 'subject')}{'' if table.complete else ' in the first lines'}"
    ]
    plain = table.format in WIDE
    features = table.measures if plain or table.format in ("plink-raw", "freesurfer-table") else []
    if table.format == "freesurfer-table":
        features = [f"{table.header[0]} {name}" for name in features]
    if plain:
        levelled = f" and {counted(len(table.levelled), 'column')} with levels" if table.levelled else ""
        remarks[0] += f", {counted(len(features), 'numeric column')}{levelled}"
        features = [*features, *table.levelled]
    general = plain or table.format == "long"
    remarks[0] += f", ids in column {table.id!r}" if general else f", format {table.format!r}"
    if plain:
        remarks += [*table.visits.remarks, *_session_note(table), *why_excluded(table)]
    elif table.format == "long":
        remarks += [*table.visits.remarks]
    joined = readers.FORMATS[table.format].several  # all tables of a file
    settings = {**({} if joined else table.part), **settings}
    return Candidate(
        table.name,
        [table.path],
        table.format,
        settings,
        table.subjects(),
        features,
        [*remarks, *table.notes],
        table,
    )


def _session_note(table: Table) -> Iterator[str]:
    """Remark on ids that include sessions."""
    ids = table.subjects()
    plain = {columns.SESSIONS.sub("", id) for id in ids}
    if len(plain) < len(ids):
        yield f"ids include sessions: {len(plain)} subjects, {len(ids)} rows; each row counts as a subject"


def _table_settings(table: Table) -> dict[str, Any] | None:
    """Id, visit, and the columns that are not features."""
    if table.is_long:
        return _long_settings(table)
    table.format = "table" if table.format == "long" else table.format
    left = [_as_pattern(name, table.header) for name in excluded(table)]
    if not table.measures or len(table.measures) + len(table.levelled) < 2:
        return None
    types = {_as_pattern(name, table.header): "nominal" for name in table.levelled}
    found = {"id": table.id, **table.visits.settings, **({"exclude": left} if left else {})}
    return {**found, **({"types": types} if types else {})}


def _as_pattern(name: str, header: Sequence[str]) -> str:
    """A name as a pattern that matches only itself."""
    if not re.search(r"[*?[]", name) or not any(
        fnmatchcase(other, name) for other in header if other != name
    ):
        return name
    return re.sub(r"([*?[])", r"[\1]", name)


def _long_settings(table: Table) -> dict[str, Any]:
    visits = table.visits.settings
    return {"id": table.id, "name": long_names(table), "value": long_value(table), **visits}


def _merged_settings(table: Table) -> dict[str, Any] | None:
    """Columns of ADNI's merged tables that come from MRI."""
    present = [patterns for patterns in MRI if any(fnmatchcase(name, patterns[0]) for name in table.header)]
    if not present:
        return None
    chosen = [pattern for pattern in present[0] if any(fnmatchcase(name, pattern) for name in table.header)]
    return {"visit": "bl", "columns": chosen} if len(chosen) > 1 or "*" in chosen[0] else None


def _days(table: Table) -> dict[str, Any] | None:
    """The first visit by the days in labels, without clinical columns."""
    if len(table.measures) < 2:
        return None
    return {
        "id": table.id,
        **table.visits.settings,
        "columns": [_as_pattern(n, table.header) for n in table.measures],
    }


def _baseline(table: Table) -> dict[str, Any]:
    return {"visit": "bl"}


def _nothing(table: Table) -> dict[str, Any]:
    return {}


def _genotypes(table: Table) -> dict[str, Any]:
    return dict(GENOTYPES)


SETTINGS = {  # formats of texts of which something is to be chosen; the readers of others are asked
    "table": _table_settings,
    "long": _table_settings,
    "matrix": _nothing,
    "bids": _table_settings,
    "oasis3": _days,
    "freesurfer-table": _nothing,
    "plink-raw": _genotypes,
    "adnimerge": _merged_settings,
    "tadpole": _merged_settings,
    "ucsffsx": _baseline,
    "fdg": _baseline,
}
WIDE = ("table", "bids")  # formats with one row per subject and any columns
assert set(SETTINGS) <= set(readers.FORMATS)
