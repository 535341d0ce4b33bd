"""UK Biobank: columns named by field, instance and array, in all spellings of its exports."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Unpack

import pandas as pd

from viewloom.data.naming import listed
from viewloom.study.errors import StudyError
from viewloom.study.notes import Note, count_note
from viewloom.study.readers import frames
from viewloom.study.readers.blocks import INDEX, NotPlain, gathered, is_plain
from viewloom.study.readers.files import TableFile, TablePart, open_table, with_part
from viewloom.study.readers.formats import Sample
from viewloom.study.readers.frames import Aside, Codes, Patterns
from viewloom.study.readers.notation import Notation
from viewloom.study.readers.tables import filled
from viewloom.study.wording import counted

SPELLINGS = (  # Research Analysis Platform, CSV, R, and Stata of ukbconv
    re.compile(r"(?:participant\.)?p(?P<field>\d{1,6})(?:_i(?P<instance>\d{1,2}))?(?:_a(?P<array>\d{1,4}))?"),
    re.compile(r"(?P<field>\d{1,6})-(?P<instance>\d{1,2})\.(?P<array>\d{1,4})"),
    re.compile(r"f\.(?P<field>\d{1,6})\.(?P<instance>\d{1,2})\.(?P<array>\d{1,4})"),
    re.compile(r"(?:n|s|ts|x)_(?P<field>\d{1,6})_(?P<instance>\d{1,2})_(?P<array>\d{1,4})"),
)
IDS = ("eid", "f.eid", "n_eid", "participant.eid")
DICTIONARY = {"field": ("FieldID", "field_id"), "title": ("Field", "title", "Title")}  # of the showcase
CODED = ("Categorical multiple", "Categorical single", "Text", "Date", "Time", "Compound")
SAID = {
    "error": "",
    "drop": "left out",
    "mean": "averaged",
    "first": "of which the first is kept",
    "all": "kept as columns",
}
ABOUT = {  # fields that describe the subject or the visit, and are no measures
    *(31, 33, 34, 52, 21000, 21003, 21022),  # sex, birth, ethnic background, age
    *(53, 54, 55, 189),  # day, centre and month of the visit, deprivation of the neighbourhood
}
ONE_ROW = "keep one row per participant"
FIRST_ROWS = 1000  # by which columns of text are told in large tables
LEAST_SHARE = 0.5  # of columns that have names of fields

Sources = dict[str, list[str]]  # columns of the file by title


@dataclass(frozen=True)
class Part:
    """A column: its field, instance and place in the array; None where its name has none."""

    column: str
    field: int
    instance: int | None
    array: int | None


@with_part
def read_ukb(
    path: str | Path,
    *,
    id: str | None = None,
    instance: int | None = None,
    arrays: str = "error",
    dictionary: str | Path | None = None,
    columns: Patterns = None,
    exclude: Patterns = None,
    missing_codes: Codes | None = None,
    delimiter: str | None = None,
    encoding: str | None = None,
    numeric: bool = True,
    aside: Aside = None,
    **part: Unpack[TablePart],
) -> pd.DataFrame:
    r"""Read a table of UK Biobank, with columns such as p25005_i2, 25005-2.0, f.25005.2.0 or n_25005_2_0.

    Parameters
    ----------
    path : str or Path
    id : str, optional
        By default eid, also as f.eid, n_eid or participant.eid.
    instance : int, optional
        The visit to keep: 0 and 1 are assessments, 2 and 3 imaging. Required if the selected fields have
        several. Fields that have no instances are always kept; fields that lack this one are left out.
    arrays : {"error", "drop", "mean", "first", "all"}
        Fields with several array elements: refuse them, leave them out, average them, or keep the first or
        all elements. Repeated measurements can be averaged; lists of codes, such as field 20002, cannot.
    dictionary : str or Path, optional
        Data dictionary of the showcase (columns FieldID and Field), for names. With its column ValueType,
        categorical fields, dates and text are left out unless `columns` names them.
    columns, exclude : list of str, optional
        Shell patterns of fields to keep and to leave out, as p25005, as 25005, as the column in the file, or
        as the title in the dictionary.
    missing_codes : list, or dict of column pattern to list, optional
        Such as -1 (do not know) and -3 (prefer not to answer).
    delimiter, encoding, numeric, aside
        As in `tables.read_table`, also for large tables, which are read in blocks in single precision.
    **part
        Sheet of a workbook, or object of an R file: `sheet` and `object` of `tables.read_table`.

    Returns
    -------
    DataFrame indexed by ``id``
        Columns are p25005, or p25005_a3 for elements of arrays, or titles where there is a dictionary.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "ukb.csv")
    ...     _ = path.write_text("eid,25005-2.0,25005-3.0,25010-2.0\n1,6.5,6.4,1.2\n2,7.0,,1.3\n")
    ...     frame = read_ukb(path, instance=2)
    >>> frame.columns.tolist(), frame["p25005"].tolist()
    (['p25005', 'p25010'], [6.5, 7.0])
    """
    path, notes, codes = Path(path), list[Note](), missing_codes or ()
    file = open_table(path, delimiter=delimiter, encoding=encoding, **part)
    id = id or next((name for name in IDS if name in file.header), IDS[0])
    header = pd.DataFrame(columns=[name for name in file.header if not name.startswith(INDEX)])
    frames.column(header, id, path, "id")
    frames.check_names(header, path)
    fields = _dictionary(dictionary)
    parts = _chosen(_parts(header.columns, id, path, notes), fields, columns, exclude, path, notes)
    parts = _of_instance(parts, instance, path, notes)
    sources = _sources(parts, arrays, fields, path, notes)
    if numeric and is_plain(file):
        large = _in_blocks(file, path, id, sources, codes, aside, notes, choose=columns is None)
        if large is not None:
            return large
    raw = filled(file, path, notes, [id], levels=not numeric)
    ids = frames.checked_ids(frames.column(raw, id, path, "id"), path, hint=ONE_ROW)
    table = _table(raw, sources, lambda cells: frames.numbers(cells, codes, path, [], notation=file.notation))
    if numeric and columns is None:
        table = _measurements(table, codes, file.notation, notes)
    cells, named = frames.apart(table, aside, path)
    convert: Any = frames.numbers if numeric else frames.numbers_or_text
    frame = frames.finish(convert(cells, codes, path, notes, notation=file.notation), ids, path, notes)
    frame.attrs["aside"] = named
    return frame


def _in_blocks(
    file: TableFile,
    path: Path,
    id: str,
    sources: Sources,
    codes: Codes,
    aside: Aside,
    notes: list[Note],
    *,
    choose: bool,
) -> pd.DataFrame | None:
    """The fields of a large table; None if not all cells are numbers, even without columns of text."""
    found = list[Note]()
    kept = _numeric_at_first(file, id, sources, codes, found) if choose else sources
    cells, named = frames.apart(pd.DataFrame(columns=list(kept)), aside, path)
    kept = {str(title): kept[str(title)] for title in cells.columns}
    names = [name for columns in kept.values() for name in columns]
    try:
        values, ids = gathered(file, path, id, names, codes, found)
    except NotPlain:
        return None
    index = frames.checked_ids(ids, path, hint=ONE_ROW)
    table = pd.DataFrame(values, columns=names, copy=False)
    if len(names) == len(kept):
        table.columns = pd.Index(list(kept))
    else:
        table = _table(table, kept, lambda cells: cells)
    frame = frames.finish(table, index, path, [*notes, *file.notes, *found])
    frame.attrs["aside"] = named
    return frame


def _numeric_at_first(file: TableFile, id: str, sources: Sources, codes: Codes, notes: list[Note]) -> Sources:
    """The fields without those that are text in the first rows."""
    names = [name for columns in sources.values() for name in columns]
    head = next(iter(file.blocks([id, *names], [id], FIRST_ROWS)))
    kept = {
        title: columns
        for title, columns in sources.items()
        if len(columns) > 1 or frames.is_numeric(head[columns[0]], codes, notation=file.notation)
    }
    notes += _texts_left(len(sources) - len(kept)) if kept else []
    return kept or sources


def is_ukb(sample: Sample) -> bool:
    """Whether a table has a column eid, and most others are named by fields."""
    if not sample.columns & set(IDS):
        return False
    rest = [name for name in sample.header if name not in IDS]
    known = sum(parsed(name) is not None for name in rest)
    return known > 0 and known >= LEAST_SHARE * len(rest)


def parsed(name: str) -> Part | None:
    """The field, instance and array of a column.

    >>> [parsed(name) for name in ("p20002_i0_a3", "f.25005.2.0", "age")][1:]
    [Part(column='f.25005.2.0', field=25005, instance=2, array=0), None]
    """
    found = next((match for spelling in SPELLINGS if (match := spelling.fullmatch(name))), None)
    if found is None:
        return None
    numbers = {key: None if value is None else int(value) for key, value in found.groupdict().items()}
    return Part(name, int(found["field"]), numbers["instance"], numbers["array"])


def drafts(path: Path, files: Sequence[Path] = (), **part: Unpack[TablePart]) -> list[dict[str, Any]]:
    """Settings of the view that is drafted: the instance with most columns, without arrays, age and sex."""
    parts = [one for name in open_table(path, **part).header if (one := parsed(name))]
    counts = Counter(part.instance for part in parts if part.instance is not None)
    instance = max(sorted(counts), key=lambda one: counts[one], default=None)
    kept = Counter(part.field for part in parts if part.instance in (None, instance))
    settings: dict[str, Any] = {"instance": instance} if len(counts) > 1 else {}
    settings |= {"arrays": "drop"} if max(kept.values()) > 1 else {}
    about = sorted(ABOUT & kept.keys())
    return [settings | ({"exclude": [f"p{field}" for field in about]} if 0 < len(about) < len(kept) else {})]


def _parts(names: Iterable[object], id: str, path: Path, notes: list[Note]) -> list[Part]:
    """All columns of fields; others are left out."""
    others = [str(name) for name in names if str(name) != id]
    parts = [part for name in others if (part := parsed(name))]
    if not parts:
        raise StudyError(
            f"{path.name}: no columns such as p25005_i2 or 25005-2.0; is this a table of UK Biobank?"
        )
    left = len(others) - len(parts)
    notes += count_note(
        left, "column without the name of a field", "columns without the name of a field", public=True
    )
    return parts


def _chosen(
    parts: Sequence[Part],
    fields: Mapping[int, Mapping[str, str]],
    columns: Patterns,
    exclude: Patterns,
    path: Path,
    notes: list[Note],
) -> list[Part]:
    """Columns that the patterns select; by default without fields that the dictionary says are coded."""

    def spellings(part: Part) -> list[str]:
        title = fields.get(part.field, {}).get("title")
        return [part.column, f"p{part.field}", str(part.field), *([title] if title else [])]

    for pattern in columns or ():
        if not any(frames.matches(name, [pattern]) for part in parts for name in spellings(part)):
            raise StudyError(f"{path.name}: no field matches {pattern!r} of columns.")

    def among(part: Part, patterns: Patterns) -> bool:
        return any(frames.matches(name, patterns or ()) for name in spellings(part))

    kept = [part for part in parts if (columns is None or among(part, columns)) and not among(part, exclude)]
    coded = {part.field for part in kept if fields.get(part.field, {}).get("type") in CODED}
    if columns is None and coded:
        kept = [part for part in kept if part.field not in coded]
        notes += count_note(
            len(coded), "categorical field, date or text", "fields of categories, dates or text", public=True
        )
    if not kept:
        raise StudyError(f"{path.name}: no fields left besides the id; check columns and exclude.")
    return kept


def _of_instance(parts: Sequence[Part], instance: int | None, path: Path, notes: list[Note]) -> list[Part]:
    """Columns of the instance, and those without one."""
    found = sorted({part.instance for part in parts if part.instance is not None})
    if instance is None and len(found) > 1:
        raise StudyError(
            f"{path.name}: fields have instances {', '.join(map(str, found))}; set instance to one of them."
        )
    instance = found[0] if instance is None and found else instance
    kept = [part for part in parts if part.instance in (None, instance)]
    if not kept:
        raise StudyError(
            f"{path.name}: no field has instance {instance}; there are {', '.join(map(str, found))}."
        )
    lacking = {part.field for part in parts} - {part.field for part in kept}
    notes += count_note(
        len(lacking), f"field without instance {instance}", f"fields without instance {instance}", public=True
    )
    other = len(parts) - len(kept)
    if found:
        notes.append(Note((f"instance {instance} kept",)))
    notes += count_note(other, "column of another instance", "columns of other instances", public=True)
    return kept


def _sources(
    parts: Sequence[Part],
    arrays: str,
    fields: Mapping[int, Mapping[str, str]],
    path: Path,
    notes: list[Note],
) -> Sources:
    """Columns of the file by title, in the order of the file: one, or those that are averaged."""
    groups: dict[int, list[Part]] = {part.field: [] for part in parts}
    for part in sorted(parts, key=lambda part: part.array or 0):
        groups[part.field].append(part)
    several = [field for field, elements in groups.items() if len(elements) > 1]
    if several and arrays == "error":
        names = listed([f"p{field}" for field in several])
        raise StudyError(
            f"{path.name}: {counted(len(several), 'field')} with several array elements: {names}; set arrays "
            "= 'mean', 'first', 'all' or 'drop', or leave them out with exclude."
        )
    notes += count_note(
        len(several), "field", text=f"with several array elements {SAID[arrays]}", public=True
    )
    made: Sources = {}
    for field, title in _titles(groups, fields).items():
        made |= _columns(groups[field], title, arrays)
    if not made:
        raise StudyError(f"{path.name}: all fields have several array elements; set arrays.")
    return made


def _columns(elements: Sequence[Part], title: str, arrays: str) -> Sources:
    """The columns of a field."""
    if len(elements) == 1 or arrays == "first":
        return {title: [elements[0].column]}
    if arrays == "mean":
        return {title: [part.column for part in elements]}
    return {f"{title}_a{part.array}": [part.column] for part in elements} if arrays == "all" else {}


def _table(
    raw: pd.DataFrame, sources: Sources, numbers: Callable[[pd.DataFrame], pd.DataFrame]
) -> pd.DataFrame:
    """One column per title; several are converted by `numbers` and averaged."""
    made = {
        title: raw[columns[0]] if len(columns) == 1 else numbers(raw[columns]).mean(axis=1)
        for title, columns in sources.items()
    }
    return pd.DataFrame(made, index=raw.index)


def _titles(groups: Iterable[int], fields: Mapping[int, Mapping[str, str]]) -> dict[int, str]:
    """Names of fields: their titles, with the number where several have the same."""
    titles = {field: fields.get(field, {}).get("title", f"p{field}") for field in groups}
    counts = Counter(titles.values())
    return {field: title if counts[title] == 1 else f"{title} ({field})" for field, title in titles.items()}


def _measurements(table: pd.DataFrame, codes: Codes, notation: Notation, notes: list[Note]) -> pd.DataFrame:
    """Columns of numbers."""
    kept = [frames.is_numeric(table[name], codes, notation=notation) for name in table.columns]
    notes += _texts_left(len(kept) - sum(kept))
    return table.loc[:, kept] if any(kept) else table


def _texts_left(count: int) -> list[Note]:
    return count_note(count, "column of text or dates", "columns of text or dates", public=True)


def _dictionary(dictionary: str | Path | None) -> dict[int, dict[str, str]]:
    """Titles and types of fields by number."""
    if dictionary is None:
        return {}
    path = Path(dictionary)
    raw = open_table(path).load(None)
    names = [str(name) for name in raw.columns]
    found = {key: next((name for name in known if name in names), None) for key, known in DICTIONARY.items()}
    if None in found.values():
        raise StudyError(
            f"{path.name}: no columns FieldID and Field; is this the data dictionary of UK Biobank?"
        )
    number = frames.as_numbers(raw[str(found["field"])])
    title = frames.as_text(raw[str(found["title"])])
    kind = (
        frames.as_text(raw["ValueType"]) if "ValueType" in names else pd.Series(None, raw.index, dtype=object)
    )
    table = pd.DataFrame({"field": number, "title": title, "type": kind}).dropna(subset=["field", "title"])
    table = table[table["field"] % 1 == 0].drop_duplicates("field")
    return {
        int(field): {"title": title, "type": str(kind)}
        for field, title, kind in table.itertuples(index=False)
    }
