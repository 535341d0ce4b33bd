"""BIDS tables: participants, phenotype and sessions, with what their JSON sidecar says of columns."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from viewloom.study.errors import StudyError, check_readable
from viewloom.study.notes import count_note
from viewloom.study.readers import frames
from viewloom.study.readers.dates import Reference
from viewloom.study.readers.files import open_table
from viewloom.study.readers.formats import Sample
from viewloom.study.readers.frames import Aside, Codes, Patterns
from viewloom.study.readers.mixed import BY_FILE, CONTINUOUS, NOMINAL, Levelled, Types, setting_of
from viewloom.study.readers.shaping import Rename
from viewloom.study.readers.tables import read_table
from viewloom.study.readers.visits import VisitSetting

ID, SESSION = "participant_id", "session_id"
SESSIONS = "sub-*/sub-*_sessions.tsv"
ENDS = (".tsv", ".tsv.gz")
LARGEST = 1 << 24  # bytes of a sidecar
MISSING = re.compile(  # descriptions of levels that are missing values
    r"(?i)(?:data |value |is )?(?:missing|not available|n/?a|unknown|refused.*|no (?:data|answer|response)|"
    r"not (?:known|applicable|assessed|collected|reported|administered))(?: (?:data|value))?"
)


def read_bids(
    path: str | Path,
    *,
    id: str = ID,
    visit: VisitSetting | None = None,
    visit_column: str | None = None,
    date: str | None = None,
    columns: Patterns = None,
    exclude: Patterns = None,
    missing_codes: Codes | None = None,
    rows: str | None = None,
    rename: Rename | None = None,
    pattern: str | None = None,
    types: Types | None = None,
    numeric: bool = True,
    aside: Aside = None,
    reference: Reference | None = None,
) -> pd.DataFrame:
    """Read a BIDS table with its JSON sidecar: participants, sessions, or a table of the folder phenotype.

    Parameters
    ----------
    path : str or Path
        The table; or the folder of a dataset, whose files ``sub-*/sub-*_sessions.tsv`` are read as one table.
    id : str, default="participant_id"
    missing_codes : list, or dict of column pattern to list, optional
        In addition to codes that the sidecar describes as missing, unknown, refused or not applicable.
    visit, visit_column, date, columns, exclude, rows, rename, pattern, types, numeric, aside, reference
        As in `tables.read_table`.

    Returns
    -------
    DataFrame indexed by ``id``
        ``attrs["levels"]`` has the labels of the codes of each column by the sidecar, ``attrs["units"]`` and
        ``attrs["descriptions"]`` those of columns. Columns all of whose values are levels are pandas
        categoricals in the order of the sidecar, and numbers become their labels, unless `types` makes them
        continuous or lists their levels. The column ``session_id`` is not a feature.
    """
    path, new = Path(path), rename or {}
    sidecar = described(path)
    levels = {name: found for name, entry in sidecar.items() if (found := levels_of(entry))}
    options: Any = {
        "visit": visit, "visit_column": visit_column, "date": date, "columns": columns, "exclude": exclude,
        "rows": rows, "rename": rename, "pattern": pattern, "numeric": numeric, "aside": aside,
        "types": _types(types or {}, {new.get(name, name): found for name, found in levels.items()}),
        "reference": reference, "missing_codes": _codes(missing_codes, levels),
    }  # fmt: skip
    if path.is_dir():
        with tempfile.TemporaryDirectory() as folder:
            frame = read_table(_joined(path, Path(folder)), id=id, **options)
    else:
        options["visit_column"] = visit_column or _session_column(path, new)
        frame = read_table(path, id=id, **options)
    levels = {new.get(name, name): found for name, found in levels.items()}
    frame = labelled(frame, {name: found for name, found in levels.items() if _is_free(name, types or {})})
    frame.attrs["levels"] = {name: levels[name] for name in frame.columns if name in levels}
    for key, field in (("units", "Units"), ("descriptions", "Description")):
        texts = {new.get(name, name): entry.get(field) for name, entry in sidecar.items()}
        frame.attrs[key] = {name: text for name, text in texts.items() if isinstance(text, str)}
    return frame


def _types(given: Types, levels: Mapping[str, Mapping[str, str]]) -> Types:
    """Types of columns, with those whose levels in the sidecar are words, however many of them occur."""
    words = {name for name, known in levels.items() if not _are_numbers(known)}
    free = [name for name in sorted(words) if setting_of(name, given) is None]
    return {**given, **dict.fromkeys(free, Levelled(NOMINAL, BY_FILE))}


def _session_column(path: Path, rename: Rename) -> str | None:
    """The column of sessions, by its new name, where a table has one."""
    return rename.get(SESSION, SESSION) if SESSION in open_table(path).header else None


def _is_free(name: str, types: Types) -> bool:
    """Whether the study leaves the levels of a column to the sidecar."""
    setting = setting_of(name, types)
    return setting is None or (isinstance(setting, str) and setting != CONTINUOUS)


def is_bids(sample: Sample) -> bool:
    """Whether it is a table of BIDS with a sidecar or of sessions, or a folder with tables of sessions."""
    path = sample.path
    if path.is_dir():
        return next(path.glob(SESSIONS), None) is not None
    known = (
        path.name.startswith("participants.") or path.parent.name == "phenotype" or _stem(path) == "sessions"
    )
    return known and path.name.endswith(ENDS) and ID in sample.columns and _sidecar_of(path).is_file()


def described(path: Path) -> dict[str, dict[str, Any]]:
    """What the sidecar of a table says of each column; empty where there is none."""
    beside = _sidecar_of(path)
    if not beside.is_file():
        return {}
    check_readable(beside)
    if beside.stat().st_size > LARGEST:
        raise StudyError(f"{beside.name}: a sidecar of more than {LARGEST >> 20} MiB; correct or remove it.")
    try:
        found = json.loads(beside.read_bytes().decode("utf-8-sig"))
    except (ValueError, RecursionError):
        raise StudyError(f"{beside.name}: is not valid JSON; correct or remove it.") from None
    if not isinstance(found, dict):
        raise StudyError(f"{beside.name}: does not describe columns by name; correct or remove it.")
    return {str(name): entry for name, entry in found.items() if isinstance(entry, dict)}


def levels_of(entry: Mapping[str, Any]) -> dict[str, str]:
    """Labels of the codes of a column, in their order.

    >>> levels_of({"Levels": {"1": "male", "2": {"Description": "female"}}})
    {'1': 'male', '2': 'female'}
    """
    given = entry.get("Levels")
    if not isinstance(given, dict):
        return {}
    plain = {
        str(code): one.get("Description") if isinstance(one, dict) else one for code, one in given.items()
    }
    return {
        code: str(label) if isinstance(label, (str, int, float)) else code for code, label in plain.items()
    }


def labelled(frame: pd.DataFrame, levels: Mapping[str, Mapping[str, str]]) -> pd.DataFrame:
    """The table with categoricals in columns all of whose values are levels."""
    attrs, made, partly = dict(frame.attrs), dict[str, pd.Series](), 0
    for name in frame.columns:
        known = {
            code: text for code, text in levels.get(str(name), {}).items() if not MISSING.fullmatch(text)
        }
        if not known:
            continue
        text = frames.as_text(frame[name])
        if not text.dropna().isin(list(known)).all():
            partly += 1
            continue
        ordered = isinstance(frame[name].dtype, pd.CategoricalDtype) and bool(frame[name].cat.ordered)
        made[str(name)] = _categorical(text, known, ordered)
    frame = frame.assign(**made) if made else frame
    notes = count_note(len(made), "column", text="with levels of the sidecar read as categories", public=True)
    notes += count_note(
        partly, "column", text="with values beyond the levels of the sidecar read as they are", public=True
    )
    faults = {name: fault for name, fault in attrs.get("faults", {}).items() if name not in made}
    sources = {**dict.fromkeys(made, BY_FILE), **attrs.get("types", {})}
    frame.attrs = {**attrs, "notes": [*attrs["notes"], *notes], "faults": faults, "types": sources}
    return frame


def _categorical(text: pd.Series, known: Mapping[str, str], ordered: bool = False) -> pd.Series:
    """Codes as categories; codes that are numbers as their labels, if these differ."""
    codes = list(known)
    distinct = len(set(known.values())) == len(codes)
    labels = [known[code] for code in codes] if distinct and _are_numbers(codes) else codes
    named = text.map(dict(zip(codes, labels, strict=True)))
    made = pd.Categorical(named, categories=labels, ordered=ordered)
    return pd.Series(made, text.index, name=text.name)


def _are_numbers(codes: Iterable[str]) -> bool:
    return bool(pd.to_numeric(pd.Series(list(codes), dtype=object), errors="coerce").notna().all())


def _codes(given: Codes | None, levels: Mapping[str, Mapping[str, str]]) -> Codes | None:
    """Missing codes, with those that the sidecar describes as missing."""
    found = {
        name: [code for code, label in known.items() if MISSING.fullmatch(label.strip())]
        for name, known in levels.items()
    }
    listed = {name: [_number(code) for code in codes] for name, codes in found.items() if codes}
    if not listed:
        return given
    plain = given if isinstance(given, Mapping) else {"*": list(given or [])} if given else {}
    return {**plain, **{name: [*plain.get(name, []), *codes] for name, codes in listed.items()}}


def _number(code: str) -> str | float | int:
    """A code as a number, so that cells such as -9 and -9.0 are both found."""
    try:
        number = float(code)
    except ValueError:
        return code
    return int(number) if number.is_integer() and abs(number) < 1e15 else number


def _joined(folder: Path, home: Path) -> Path:
    """The tables of sessions of all subjects as one file."""
    paths = sorted(folder.glob(SESSIONS))
    if not paths:
        raise StudyError(
            f"{folder.name}: no sub-*/sub-*_sessions.tsv; set path to a BIDS dataset, or to a table."
        )
    tables = [_of_subject(path) for path in paths]
    whole = pd.concat(tables, ignore_index=True)
    if SESSION not in whole.columns:
        raise StudyError(f"{folder.name}: the tables of sessions have no column {SESSION}.")
    path = home / "sessions.tsv"
    whole.to_csv(path, sep="\t", index=False, na_rep="n/a")
    return path


def _of_subject(path: Path) -> pd.DataFrame:
    """Sessions of one subject; errors do not name the file, which is an id."""
    try:
        table = open_table(path, delimiter="\t").load(None)
    except StudyError:
        raise StudyError(
            "a sub-*_sessions.tsv cannot be read as a table; correct it, or name sessions.tsv."
        ) from None
    if table.columns.duplicated().any():
        raise StudyError("a sub-*_sessions.tsv has duplicate column names; rename them.")
    subject = path.name.removesuffix("_sessions.tsv")
    return table.drop(columns=ID, errors="ignore").assign(**{ID: subject})


def _stem(path: Path) -> str:
    return path.name.removesuffix(".gz").removesuffix(".tsv")


def _sidecar_of(path: Path) -> Path:
    return path / "sessions.json" if path.is_dir() else path.with_name(f"{_stem(path)}.json")


def drafts(path: Path, files: Sequence[Path] = ()) -> list[dict[str, Any]]:
    """Settings of the view of tables of sessions."""
    return [{"visit": "first"}]


def joined_sessions(paths: Sequence[Path], folder: Path) -> dict[Path, list[Path]]:
    """Datasets with tables of sessions of single subjects, and these files."""
    found: dict[Path, list[Path]] = {}
    for path in paths:
        if (
            re.fullmatch(r"(sub-[^_]+)_sessions\.tsv", path.name)
            and path.parent.name == path.name.split("_")[0]
        ):
            found.setdefault(path.parent.parent, []).append(path)
    return {root: files for root, files in found.items() if not (root / "sessions.tsv").exists()}
