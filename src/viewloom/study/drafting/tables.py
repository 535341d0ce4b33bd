"""The columns of a table: ids, visits, and the roles of the others."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate, islice
from pathlib import Path
from typing import Any

import pandas as pd

from viewloom.data.naming import listed
from viewloom.study import readers
from viewloom.study.drafting import columns
from viewloom.study.drafting.columns import named
from viewloom.study.errors import StudyError
from viewloom.study.readers import frames
from viewloom.study.readers.bids import described, levels_of
from viewloom.study.readers.files import kind_of, open_table
from viewloom.study.readers.matrices import annotates
from viewloom.study.readers.mixed import has_levels
from viewloom.study.readers.packed import is_packed, open_bytes, unpacked_name
from viewloom.study.readers.tables import REGION, VALUE
from viewloom.study.readers.text import NAMED, SINGLE
from viewloom.study.readers.visits import FIRST, parse, repeat_column, unrepeated, visit_columns
from viewloom.study.wording import counted, folded

LARGE = 1 << 25  # bytes; of larger files only the first lines are read
SAMPLE = 3000  # lines
LEAST_LEVELLED = 0.25  # text columns with levels per measure, for them to be features
MOST_IDS = 4  # candidate id columns
SIDE = "roilat side hemi hemisphere"
PERHAPS_VISITS = "ses tp phase event redcapevent followup exam month months year"  # if ids are not unique
REPEATS = "rows of repeated instruments left out by rows"
Glance = Callable[[pd.DataFrame], tuple[pd.DataFrame, str]]
LONG_KEYS = (" ".join(map(folded, REGION)), " ".join(map(folded, VALUE)))


class Unusable(Exception):
    """Why a table cannot be a source of a study."""


@dataclass(frozen=True)
class Visits:
    """The visit to keep: settings for study.toml, and a remark on the choice."""

    settings: dict[str, str] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()


@dataclass
class Table:
    """A table, or its first rows.

    Attributes
    ----------
    path : Path
    format : str
    raw : DataFrame
        Its rows, or the first rows of a large file; id and visit columns are text.
    complete : bool
        Whether these are all rows.
    ids : list of str
        Possible id columns, the most likely first.
    part : dict
        The sheet or object, where the file has several tables.
    notes : list of str
        What was left out of the file.
    rows : str or None
        The condition on rows that are kept.
    """

    path: Path
    format: str
    raw: pd.DataFrame
    complete: bool
    ids: list[str]
    part: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    rows: str | None = None

    @property
    def title(self) -> str:
        """What the table is called: its sheet or object, else its file."""
        return next(iter(self.part.values()), Path(unpacked_name(self.path)).stem)

    @property
    def source(self) -> tuple[Path, str]:
        """The file, and the sheet or object in it."""
        return self.path, next(iter(self.part.values()), "")

    @property
    def name(self) -> str:
        """The name of the table, from that of the file and of the sheet."""
        stem = Path(unpacked_name(self.path)).stem
        return "_".join([stem, *(name.removeprefix(f"{stem}$") for name in self.part.values())])

    @property
    def header(self) -> list[str]:
        """Names of the columns."""
        return [str(name) for name in self.raw.columns]

    @property
    def id(self) -> str:
        """The most likely id column."""
        return self.ids[0]

    def subjects(self, id: str | None = None) -> list[str]:
        """Distinct ids, in order of appearance."""
        return frames.as_text(self.raw[id or self.id]).dropna().unique().tolist()

    @cached_property
    def is_long(self) -> bool:
        """Whether rows are measurements, rather than subjects."""
        return self.format == "long" and bool(frames.as_text(self.raw[self.id]).duplicated().any())

    @cached_property
    def visits(self) -> Visits:
        """The visit to keep; `Unusable` if rows of a subject cannot be distinguished."""
        format = readers.FORMATS[self.format]
        if not format.tabular:
            first = "bl" if format.glance is None else FIRST
            return Visits({"visit": first}) if readers.takes(self.format, "visit") else Visits()
        chosen = choose_visit(self)
        if self.rows is None:
            return chosen
        return Visits({**chosen.settings, "rows": self.rows}, (*chosen.remarks, REPEATS))

    @cached_property
    def baseline(self) -> pd.DataFrame:
        """Rows of the visit to keep, for formats without their own rule."""
        if not readers.FORMATS[self.format].tabular or "visit" not in self.visits.settings:
            return self.raw
        codes = frames.visit_codes(self.raw, self.visits.settings.get("visit_column"), self.path)
        return frames.of_visit(self.raw, self.id, codes, self.visits.settings["visit"], self.path, [])

    @cached_property
    def clinical(self) -> list[str]:
        """Columns that describe the subject, by their names."""
        apart = {*self.ids, *visit_columns(self.header)}
        return [name for name in named(self.header, columns.CLINICAL) if name not in apart]

    @cached_property
    def text(self) -> list[str]:
        """Columns that are not numeric, or have cells that a reader of numbers refuses."""
        cells = self.baseline
        return [
            name
            for name in self.header
            if not frames.is_numeric(cells[name], ()) or frames.needs_correction(cells[name])
        ]

    @cached_property
    def counting(self) -> list[str]:
        """Columns of row numbers that are not ids."""
        near = [name for name in self.header[:2] if name not in self.ids]
        return [name for name in near if columns.counts_rows(self.raw[name])]

    @cached_property
    def measures(self) -> list[str]:
        """Numeric columns that are neither ids, visits nor clinical."""
        apart = {*self.ids, *visit_columns(self.header), *self.clinical, *self.text, *self.counting}
        apart |= {*columns.form_status(self.header)}
        apart |= {self.visits.settings.get("visit_column", "")}
        return [name for name in self.header if name not in apart]

    @cached_property
    def levelled(self) -> list[str]:
        """Text columns with levels that are features; not a few beside many measures, such as remarks."""
        apart = {*self.ids, *visit_columns(self.header), *self.clinical, *self.counting}
        apart |= {self.visits.settings.get("visit_column", "")}
        found = [name for name in self.text if name not in apart and has_levels(self.baseline[name])]
        return found if len(found) >= LEAST_LEVELLED * len(self.measures) else []

    @cached_property
    def few_values(self) -> list[str]:
        """Measures of a few whole numbers, which may be levels."""
        others = [name for name in self.measures if name not in self.described]
        return [name for name in others if columns.is_graded(self.baseline[name])]

    @cached_property
    def described(self) -> list[str]:
        """Measures whose values a sidecar lists as levels."""
        sidecar = described(self.path) if self.format == "bids" else {}
        return [name for name in self.measures if levels_of(sidecar.get(name, {}))]

    def roles(self, names: str) -> list[str]:
        """Columns of a role, by their names and content."""
        fits = FITS[names]
        return [
            name for name in named(self.header, names) if name not in self.ids and fits(self.baseline[name])
        ]


FITS = {
    columns.DIAGNOSIS: columns.is_diagnosis,
    columns.SITE: columns.is_site,
    columns.COVARIATES: columns.is_covariate,
    columns.OUTCOMES: columns.is_covariate,
}


def look_at(
    path: Path, known: Iterable[str] = (), part: dict[str, str] | None = None, format: str | None = None
) -> Table:
    """Read a table as far as needed, and find its id columns.

    Parameters
    ----------
    path : Path
    known : iterable of str
        Ids of other tables, which identify an id column with an unusual name.
    part : dict, optional
        The sheet or object, where the file has several tables.
    format : str, optional
        Guessed by default.

    Raises
    ------
    Unusable
        With the kind of the file, and the solution.
    """
    try:
        guessed, raw, complete, notes = _read(path, part or {})
    except (StudyError, ImportError) as error:
        raise Unusable(_reason(str(error).removeprefix(f"{path.name}: ").rstrip("."))) from None
    if raw.columns.duplicated().any():
        repeated = int(raw.columns.duplicated().sum())
        raise Unusable(f"a table with {counted(repeated, 'duplicate column name')}; rename them")
    format = format or guessed
    if format == "table" and annotates(readers.Sample(path, part)):
        raise Unusable("a table of features, such as results of tests: its rows are not subjects")
    glance = readers.FORMATS[format].glance
    raw, id = (raw, "") if glance is None else _glanced(glance, raw)
    if _lacks_header([str(name) for name in raw.columns]):
        raise Unusable("a table without a header: its first line has numbers instead of names")
    ids = [id] if glance is not None else _id_columns(raw, format, set(known))
    if not ids:
        raise Unusable(_no_ids(raw))
    raw, rows = _once(raw) if readers.takes(format, "rows") else (raw, None)
    return Table(path, format, raw, complete, ids, part or {}, notes, rows)


def _once(raw: pd.DataFrame) -> tuple[pd.DataFrame, str | None]:
    """Rows that are no repeated instruments of REDCap, and the condition; None where all are kept."""
    name = repeat_column(raw.columns)
    if name is None or raw[name].isna().all() or raw[name].notna().all():
        return raw, None
    return raw[raw[name].isna()], unrepeated(name)


def _glanced(glance: Glance, raw: pd.DataFrame) -> tuple[pd.DataFrame, str]:
    """One row per subject, and the name of the column of ids."""
    try:
        return glance(raw)
    except StudyError as error:
        raise Unusable(str(error).removeprefix("table: ").rstrip(".")) from None


def _reason(error: str) -> str:
    """Why a reader refuses a file, for a file of unknown kind."""
    return "text without columns: not a table" if error.startswith(SINGLE) else error


def _read(path: Path, part: dict[str, str]) -> tuple[str, pd.DataFrame, bool, list[str]]:
    """Format, rows, whether these are all rows, and notes on them."""
    if kind_of(path) is not None or (path.stat().st_size <= LARGE and not _expands(path)):
        format, raw, notes = _read_file(path, part)
        return format, raw, True, notes
    with tempfile.TemporaryDirectory() as folder, open_bytes(path) as file:
        start = Path(folder, unpacked_name(path))
        start.write_bytes(b"".join(islice(iter(lambda: file.readline(LARGE), b""), SAMPLE)))
        format, raw, notes = _read_file(start, part)
        return format, raw, False, notes


def _expands(path: Path) -> bool:
    """Whether a compressed file is large."""
    if not is_packed(path):
        return False
    with open_bytes(path) as file:
        return any(size > LARGE for size in accumulate(map(len, iter(lambda: file.read(1 << 20), b""))))


def _read_file(path: Path, part: dict[str, str]) -> tuple[str, pd.DataFrame, list[str]]:
    format = readers.sniff(path, part)
    options: dict[str, Any] = dict(part)
    file = open_table(path, candidates=NAMED.values(), **options)
    header = file.header
    text = [*named(header, columns.IDS), *visit_columns(header), *header[:2]]
    raw = file.load(text, levels=True)
    return format or "table", raw[raw.notna().any(axis=1)], [str(note) for note in file.notes]


def _lacks_header(header: list[str]) -> bool:
    """Whether the first line is data; numbers may be names only if the id column has a name."""
    share = pd.to_numeric(pd.Series(header), errors="coerce").notna().mean()
    known = named(header, f"{columns.IDS} {columns.UNNAMED}")
    return bool(share > frames.MOST_NUMBERS) and not known


def _id_columns(raw: pd.DataFrame, format: str, known: set[str]) -> list[str]:
    """Possible id columns: by name, else by content."""
    header = [str(name) for name in raw.columns]
    by_name = [name for name in named(header, columns.IDS) if columns.may_be_ids(raw[name])]
    if not _is_wide(format) and by_name:
        return by_name[:MOST_IDS]
    good = [name for name in by_name if _identifies_subjects(raw, name)]
    return (good or by_name or _by_content(raw, header, known))[:MOST_IDS]


def _is_wide(format: str) -> bool:
    """Whether rows are subjects, and columns may be any."""
    return readers.FORMATS[format].tabular and format != "long"


def _identifies_subjects(raw: pd.DataFrame, name: str) -> bool:
    """Whether there are many distinct ids; group codes are not ids."""
    return frames.as_text(raw[name]).nunique() >= max(2, len(raw) / 20)


def _by_content(raw: pd.DataFrame, header: list[str], known: set[str]) -> list[str]:
    """Columns of distinct values that are the first column, or text, or ids of other tables."""
    different = [name for name in header if columns.may_be_ids(raw[name]) and raw[name].is_unique]
    different = [name for name in different if not columns.counts_rows(raw[name])]
    shared = [name for name in different if len(known.intersection(frames.as_text(raw[name]))) > len(raw) / 2]
    first = [name for name in different if name == header[0] or not frames.is_numeric(raw[name], ())]
    return shared or first[:1]


def _no_ids(raw: pd.DataFrame) -> str:
    """The reason for a table without ids."""
    header = [str(name) for name in raw.columns]
    shape = f"a table of {counted(len(raw), 'row')} and {counted(len(header), 'column')}"
    blank = [name for name in named(header, columns.IDS) if raw[name].isna().any()]
    if blank:
        lacking = int(raw[blank[0]].isna().sum())
        return f"{shape} whose column {blank[0]!r} has no id in {counted(lacking, 'row')}; fill them in"
    if any(columns.counts_rows(raw[name]) for name in header[:2]):
        return f"{shape} in which only the row numbers are unique: no id column"
    return f"{shape} without an id column; add one, such as subject_id"


def choose_visit(table: Table) -> Visits:
    """The visit to keep: none if ids are unique, the baseline if all have it, else the first visit."""
    raw, ids = table.raw, frames.as_text(table.raw[table.id])
    apart = [ids]
    if table.is_long:
        apart += [frames.as_text(raw[name]) for name in long_names(table)]
    repeated = int(pd.concat(apart, axis=1).duplicated().sum())
    names = visit_columns(table.header)
    if not repeated:
        return Visits()
    for name in [*names, *named(table.header, PERHAPS_VISITS)]:
        chosen = _visit_of(frames.as_text(raw[name]), pd.concat(apart, axis=1), ids)
        if chosen is not None:
            own = {} if names[:1] == [name] else {"visit_column": name}
            remarks = f"visit {chosen[0]!r} of column {name!r}: {chosen[1]}"
            return Visits({"visit": chosen[0], **own}, (remarks,))
    raise Unusable(_repeats(table, repeated, names))


def _visit_of(codes: pd.Series, apart: pd.DataFrame, ids: pd.Series) -> tuple[str, str] | None:
    """The visit to keep, and its subjects; None if some subjects have several rows at it."""
    visits = codes.dropna().map(parse).reindex(codes.index)
    subjects = ids.nunique()
    first = pd.Series(
        [code == code and parse(str(code)).key == "bl" for code in codes], codes.index, dtype=bool
    )
    alone = not apart[first].duplicated().any() and bool(first.any())
    if alone and ids[first].nunique() == subjects:
        return str(codes[first].mode()[0]), f"all {subjects} subjects have it"
    scales = {visit.scale for visit in visits.dropna()} - {"any", ""}
    ordered = visits.dropna().map(lambda visit: visit.scale != "")
    if len(scales) <= 1 and len(ordered) and ordered.all():
        place = visits.map(lambda visit: visit.place, na_action="ignore").astype(float)
        kept = (place == place.groupby(ids).transform("min")).to_numpy()
        if not apart[kept].duplicated().any():
            return FIRST, f"the first of each subject ({_seen(codes[kept], visits[kept])})"
    if alone:
        return str(codes[first].mode()[0]), f"{ids[first].nunique()} of {subjects} subjects have it"
    return None


def _seen(codes: pd.Series, visits: pd.Series) -> str:
    """The number of subjects at each visit; dates are not shown."""
    counts = codes.value_counts()
    if len(counts) > MOST_IDS * 2 or any(visit.private for visit in visits):
        return counted(len(codes), "row")
    return ", ".join(
        f"{counts[code]} at {code!r}" for code in sorted(counts.index, key=lambda c: (parse(c).place, c))
    )


def _repeats(table: Table, repeated: int, names: list[str]) -> str:
    """Why rows of one subject cannot be distinguished, and the solution."""
    ids = frames.as_text(table.raw[table.id])
    what = f"a table with {counted(repeated, 'row')} with a duplicate id (column {table.id!r})"
    distinct = [
        name
        for name in table.header
        if name != table.id
        and table.raw[name].nunique() <= columns.MOST_LEVELS
        and not pd.concat([ids, table.raw[name]], axis=1).duplicated().any()
    ]
    if names:
        return f"{what}, also within one visit of column {names[0]!r}; keep one row per subject and visit"
    if distinct:
        name = distinct[0]
        hint = f"column {name!r} distinguishes them: set visit_column = {name!r} and the visit to keep"
        return f"{what}; {hint}"
    return f"{what}, and no visit column; keep one row per subject, or add a column visit"


def long_names(table: Table) -> list[str]:
    """Columns that name the measurement of a row."""
    return [*named(table.header, LONG_KEYS[0])[:1], *named(table.header, SIDE)[:1]]


def long_value(table: Table) -> str:
    """The column of the measurement."""
    apart = long_names(table)
    return next(name for name in named(table.header, LONG_KEYS[1]) if name not in apart)


def excluded(table: Table) -> list[str]:
    """Columns that are not features, in the order of the file."""
    dropped = {table.id}
    if "visit" in table.visits.settings:
        dropped.add(table.visits.settings.get("visit_column") or visit_columns(table.header)[0])
    kept = {*table.measures, *table.levelled}
    return [name for name in table.header if name not in dropped and name not in kept]


def why_excluded(table: Table) -> list[str]:
    """Remarks on columns that are left out."""
    left = [name for name in excluded(table) if name not in table.ids]
    rows = [name for name in left if name in table.counting]
    mixed = columns.mostly_numbers(table.baseline, [name for name in left if name in table.text])
    remarks = []
    if left:
        remarks.append(f"not features: {listed(left)}")
    if rows:
        remarks.append(f"row numbers: {listed(rows)}")
    if mixed:
        remarks.append(f"numeric except for a few cells: {listed(mixed)}; see missing_codes")
    if table.few_values:
        named_few = listed(table.few_values)
        remarks.append(f"few whole numbers, continuous unless types makes them ordinal: {named_few}")
    if table.described:
        remarks.append(
            f"levels of the sidecar, nominal unless types makes them ordinal: {listed(table.described)}"
        )
    return remarks
