"""Wide tables, one row per subject, and long ones, one row per measurement, in files of any kind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from viewloom.study.errors import StudyError
from viewloom.study.notes import Note, count_note
from viewloom.study.readers import frames
from viewloom.study.readers.blocks import is_plain, wide_table
from viewloom.study.readers.dates import Reference
from viewloom.study.readers.files import TableFile, open_table
from viewloom.study.readers.formats import Sample
from viewloom.study.readers.frames import Aside, Codes, Patterns
from viewloom.study.readers.mixed import Types, declared, numbers_and_levels
from viewloom.study.readers.notation import Notation
from viewloom.study.readers.shaping import Rename, Shape, equal_ids_hint, shaped
from viewloom.study.readers.sheets import BELOW, summary_test
from viewloom.study.readers.text import COMMENTS
from viewloom.study.readers.visits import VisitSetting, rule_of, visit_columns

# columns of long tables in lower case, the likeliest first
REGION = ("region", "roi", "roiname", "roi_name", "feature", "structure", "testname", "assay", "analyte")
VALUE = ("value", "mean", "suvr", "measure", "volume", "thickness", "testvalue", "npx", "concentration")
MEASURED_AGAIN = (
    "pair of subject and region measured more than once",
    "pairs of subject and region measured more than once",
)


def read_table(
    path: str | Path,
    *,
    id: str,
    visit: VisitSetting | None = None,
    visit_column: str | None = None,
    date: str | None = None,
    columns: Patterns = None,
    exclude: Patterns = None,
    missing_codes: Codes | None = None,
    delimiter: str | None = None,
    decimal: str | None = None,
    thousands: str | None = None,
    encoding: str | None = None,
    sheet: str | int | None = None,
    object: str | None = None,
    rows: str | None = None,
    rename: Rename | None = None,
    pattern: str | None = None,
    types: Types | None = None,
    numeric: bool = True,
    aside: Aside = None,
    reference: Reference | None = None,
) -> pd.DataFrame:
    r"""Read a table with one row per subject, or per subject and visit.

    Parameters
    ----------
    path : str or Path
        CSV, TSV or other delimited text, which may be compressed, Parquet, Feather, Excel, SPSS, Stata, SAS
        or R; see `viewloom.study.readers.files`.
    id : str
        Column of ids. They are text: leading zeros stay.
    visit : str or dict, optional
        Visit to keep; padding and prefixes of codes are ignored (``m0``, ``ses-M00``, ``bl``). "first" and
        "last" keep the first or last visit of each subject, ``{"months": 12, "within": 3}`` that nearest to a
        month, and "nearest:<date column>" that nearest to the date in `reference`. Of two visits that are
        equally near, the earlier is kept.
    visit_column : str, optional
        Column of visits; by default the first with a common name.
    date : str, optional
        Column of dates, or of days since the entry: for visits whose codes have no order, or give no months.
    columns, exclude : list of str, optional
        Shell patterns of the columns to keep and to leave out, case-sensitive. By default all but the id.
    missing_codes : list, or dict of column pattern to list, optional
        Missing codes other than blanks and NA, such as -4.
    delimiter, decimal, encoding : str, optional
        Detected by default.
    thousands : str, optional
        Thousands separator. By default none, and a column that may have one is refused.
    sheet : str or int, optional
        Workbooks: name of the sheet, or its number from 1. By default the only one with data.
    object : str, optional
        RData: name of the data frame. By default the only one.
    rows : str, optional
        Condition on the rows that are kept, such as ``QC == 'Pass' and AGE >= 55``; see
        `expressions.parse`. Columns that it compares with text are not features.
    rename : dict of str to str, optional
        New names of columns; all other options use the new names.
    pattern : str, optional
        Regular expression whose group is the id, such as ``sub-(OAS\d+)``. Rows whose id does not match are
        left out. A group ``(?P<visit>...)`` has the visit.
    types : dict of str to str, list or dict, optional
        Types of columns, by name or pattern: "continuous", "ordinal", "nominal" or "binary"; the levels of an
        ordinal column from low to high; or the spellings of each level of a nominal column. By default
        numbers are continuous, categories of the file have levels, and text with few levels is nominal.
    numeric : bool, default=True
        Whether columns are features: numbers, or categories of pandas. If False, columns that are not numbers
        are kept as text.
    aside : function of str to bool, optional
        Whether a column is not a feature; such columns are left out and listed in ``attrs["aside"]``.
    reference : Reference, optional
        Dates of the participants.

    Returns
    -------
    DataFrame indexed by ``id``
        ``attrs["notes"]`` has notes on what was left out.

    Raises
    ------
    StudyError
        With the file, the column and the number of cells that cannot be read.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "volumes.csv")
    ...     _ = path.write_text("subject;hippocampus\n007;3,1\n008;-9\n")
    ...     frame = read_table(path, id="subject", missing_codes=[-9])
    >>> print(frame)
         hippocampus
    id
    007          3.1
    008          NaN
    """
    table = TableRequest(
        Path(path),
        id,
        _dialect(delimiter, decimal, thousands, encoding, sheet, object),
        Shape(rename or {}, rows, pattern),
        VisitChoice(visit, visit_column, date, reference),
        missing_codes or (),
    )
    if numeric and not types and table.keeps_all_rows:
        large = _in_blocks(table, columns, exclude, aside)
        if large is not None:
            return large
    kept = _kept_rows(table, codes=not numeric, types=types)
    others = _no_features(table, kept, columns) if numeric else _no_attributes(table, kept)
    cells = kept.rows.loc[:, ~kept.rows.columns.isin([id, *others])]
    cells = frames.select(cells, columns, exclude, table.path, table.notes)
    cells, named = frames.apart(cells, aside, table.path)
    ids = _unique_ids(table, kept.rows)
    values = _values(table, cells, kept.notation, types or {}, numeric)
    frame = frames.finish(values, ids, table.path, table.notes)
    frame.attrs |= {"aside": named, "types": values.attrs.get("types", {})}
    return frame


def read_long(
    path: str | Path,
    *,
    id: str,
    name: str | Sequence[str],
    value: str,
    visit: VisitSetting | None = None,
    visit_column: str | None = None,
    date: str | None = None,
    columns: Patterns = None,
    exclude: Patterns = None,
    missing_codes: Codes | None = None,
    delimiter: str | None = None,
    decimal: str | None = None,
    thousands: str | None = None,
    encoding: str | None = None,
    sheet: str | int | None = None,
    object: str | None = None,
    rows: str | None = None,
    rename: Rename | None = None,
    pattern: str | None = None,
    repeats: str = "error",
    reference: Reference | None = None,
) -> pd.DataFrame:
    r"""Read a table with one row per subject and region, as PET pipelines write it.

    Parameters
    ----------
    path : str or Path
    id, value : str
        Columns of ids and of values.
    name : str or list of str
        Column of the region, or several columns, such as region and side.
    visit, visit_column, date, reference, missing_codes, delimiter, decimal, thousands, encoding
        As in `read_table`.
    sheet, object, rows, rename, pattern
        As in `read_table`.
    columns, exclude : list of str, optional
        Shell patterns of the regions to keep and to leave out.
    repeats : {"error", "mean"}
        How to handle several different values of a subject and region. Duplicates count once.

    Returns
    -------
    DataFrame indexed by ``id``
        One column per region, in order of first appearance; NaN where missing.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "pet.csv")
    ...     _ = path.write_text("RID,ROINAME,ROILAT,MEAN\n2,Angular,Left,1.2\n2,Angular,Right,1.3\n")
    ...     frame = read_long(path, id="RID", name=["ROINAME", "ROILAT"], value="MEAN")
    >>> frame.columns.tolist()
    ['Angular_Left', 'Angular_Right']
    """
    parts = [name] if isinstance(name, str) else list(name)
    table = TableRequest(
        Path(path),
        id,
        _dialect(delimiter, decimal, thousands, encoding, sheet, object),
        Shape(rename or {}, rows, pattern),
        VisitChoice(visit, visit_column, date, reference),
        missing_codes or (),
    )
    kept = _kept_rows(table, text=parts)
    options: Any = {"codes": table.codes, "repeats": repeats, "notation": kept.notation}
    wide = pivot(kept.rows, table.path, id=id, name=parts, value=value, notes=table.notes, **options)
    cells = frames.select(wide, columns, exclude, table.path, table.notes)
    return frames.finish(cells, wide.index, table.path, table.notes)


class VisitChoice(NamedTuple):
    """The settings that choose the rows of a visit."""

    visit: VisitSetting | None
    column: str | None
    date: str | None
    reference: Reference | None


@dataclass(frozen=True)
class TableRequest:
    """A table, the options that choose its rows, and the notes on what was left out."""

    path: Path
    id: str
    dialect: dict[str, Any]
    shape: Shape
    choice: VisitChoice
    codes: Codes
    notes: list[Note] = field(default_factory=list)

    @property
    def keeps_all_rows(self) -> bool:
        """Whether no option chooses rows, or renames columns."""
        choice = self.choice
        return self.shape == Shape() and choice.visit is choice.column is choice.date is None


class KeptRows(NamedTuple):
    """Rows that are kept, the notation of their numbers, and the names of the columns of visits and dates."""

    rows: pd.DataFrame
    notation: Notation
    visits: list[str]


def _dialect(
    delimiter: str | None,
    decimal: str | None,
    thousands: str | None,
    encoding: str | None,
    sheet: str | int | None,
    object: str | None,
) -> dict[str, Any]:
    """How a file is written: keywords of `open_table`."""
    text = {"delimiter": delimiter, "decimal": decimal, "thousands": thousands, "encoding": encoding}
    return {**text, "sheet": sheet, "object": object}


def _kept_rows(
    table: TableRequest, *, text: Sequence[str] = (), codes: bool = False, types: Types | None = None
) -> KeptRows:
    """Rows of the visit that satisfy the condition; columns in `text` are not converted to numbers."""
    path, notes, choice = table.path, table.notes, table.choice
    named = table.shape.in_file([table.id, *text, *filter(None, [choice.column]), *sorted(table.shape.texts)])
    options: Any = {"codes": codes, "levels": True, "types": types, "rename": table.shape.rename}
    raw, notation = _load(path, table.dialect, named, notes, **options)
    options = {"notation": notation, "codes": table.codes, "visits": choice.visit is not None}
    raw = shaped(raw, table.shape, table.id, path, notes, **options)
    raw, visits = _visit_rows(raw, table.id, choice, path, notes)
    return KeptRows(raw, notation, visits)


def _no_features(table: TableRequest, kept: KeptRows, columns: Patterns) -> list[str]:
    """Columns that are not features: visits, dates and, unless they are named, texts of a condition."""
    conditions = [name for name in table.shape.texts if not frames.matches(name, columns or ())]
    return [*kept.visits, *conditions]


def _no_attributes(table: TableRequest, kept: KeptRows) -> list[str]:
    """Columns that are not attributes of participants: visits; the date that was asked for is kept."""
    return [name for name in kept.visits if name != table.choice.date]


def _values(
    table: TableRequest, cells: pd.DataFrame, notation: Notation, types: Types, numeric: bool
) -> pd.DataFrame:
    """Cells as features, or, unless `numeric`, as attributes of participants, which may be text."""
    if numeric:
        return numbers_and_levels(cells, table.codes, types, table.path, table.notes, notation)
    return frames.numbers_or_text(cells, table.codes, table.path, table.notes, notation=notation)


def _unique_ids(table: TableRequest, rows: pd.DataFrame) -> pd.Index:
    """Ids of rows; it is an error if one is blank or occurs twice."""
    pattern, visit = table.shape.pattern, table.choice.visit
    hint = equal_ids_hint(pattern) if pattern and visit is None else frames.repeats_hint(rows)
    return frames.checked_ids(frames.column(rows, table.id, table.path, "id"), table.path, hint=hint)


def pivot(
    raw: pd.DataFrame,
    path: Path,
    *,
    id: str,
    name: Sequence[str],
    value: str,
    codes: Codes,
    repeats: str,
    notes: list[Note],
    notation: Notation,
) -> pd.DataFrame:
    """Rows of measurements as one row per subject and one column per region, in order of appearance."""
    if repeats not in ("error", "mean"):
        raise StudyError(f"repeats must be 'error' or 'mean', got {repeats!r}.")
    region = _joined_names(raw, name, path)
    cells = frames.column(raw, value, path, "value").to_frame()
    measured = pd.DataFrame(
        {
            "id": frames.clean_ids(frames.column(raw, id, path, "id"), path),
            "region": region,
            "value": frames.numbers(cells, codes, path, notes, notation=notation)[value],
        }
    )
    once = _one_value_each(measured, path, repeats, frames.repeats_hint(raw), notes)
    ids = pd.Index(measured["id"].unique().tolist(), dtype=str, name="id")
    return once.pivot_table("value", "id", "region").reindex(index=ids, columns=region.unique())


def _joined_names(raw: pd.DataFrame, parts: Sequence[str], path: Path) -> pd.Series:
    """Names of the regions; blank parts are left out."""
    columns = [frames.as_text(frames.column(raw, part, path, "name")) for part in parts]
    unnamed = int(columns[0].isna().sum())
    if unnamed:
        raise StudyError(
            f"{path.name}: column {parts[0]!r} is blank in {unnamed} rows; fill in the name of the region."
        )
    joined = columns[0]
    for part in columns[1:]:
        joined = joined + ("_" + part).fillna("")
    return joined


def _one_value_each(
    measured: pd.DataFrame, path: Path, repeats: str, hint: str, notes: list[Note]
) -> pd.DataFrame:
    """Distinct rows; several values of a subject and region are an error, or are averaged later."""
    distinct = measured.drop_duplicates()
    equal = len(measured) - len(distinct)
    notes += count_note(equal, "row equal to another", "rows equal to another", "counted once")
    distinct = distinct[distinct["value"].notna()]  # missing values are ignored beside known ones
    several = int((distinct.groupby(["id", "region"]).size() > 1).sum())
    if several and repeats == "error":
        raise StudyError(
            f"{path.name}: {several} pairs of subject and region have several values; {hint}, or set "
            "repeats = 'mean'."
        )
    notes += count_note(several, *MEASURED_AGAIN, "averaged")
    return distinct


def _load(
    path: Path,
    given: dict[str, Any],
    text: Sequence[str],
    notes: list[Note],
    *,
    codes: bool = False,
    levels: bool = False,
    types: Types | None = None,
    rename: Rename | None = None,
) -> tuple[pd.DataFrame, Notation]:
    """Nonblank rows of a file, and the notation of numbers.

    Columns named in `text`, or with levels by `types`, are kept as text, and so are codes if `codes` is set.
    Values with labels are given as these if `codes` or `levels` is set.
    """
    file = open_table(path, **given, options=True)
    if file.notation.decimal == "," and not (given["decimal"] or given["thousands"]):
        notes.append(Note(("decimal commas read as points",)))
    names = list[str]()
    if not file.typed:  # the header of other files may take as long as the whole
        names = [*text, *visit_columns(file.header), *declared(file.header, types or {}, rename or {})]
    raw = file.load(names, levels=codes or levels)
    if codes and not file.typed and (coded := [*_truths(raw), *file.padded()]):
        raw = file.load([*names, *coded], levels=True)
    notes += file.notes
    return filled_rows(raw, path, notes), file.notation


def _in_blocks(
    table: TableRequest, columns: Patterns, exclude: Patterns, aside: Aside
) -> pd.DataFrame | None:
    """The features of a large table of plain numbers; None if it is small, or not of plain numbers."""
    file = open_table(table.path, **table.dialect, options=True)
    if not is_plain(file):
        return None
    options: Any = {"columns": columns, "exclude": exclude, "aside": aside}
    return wide_table(file, table.path, id=table.id, codes=table.codes, notes=table.notes, **options)


def _truths(raw: pd.DataFrame) -> list[str]:
    """Columns in which pandas may have converted words to booleans."""
    return [str(name) for name, dtype in raw.dtypes.items() if dtype in (bool, object)]


def filled(
    file: TableFile, path: Path, notes: list[Note], text: Sequence[str], *, levels: bool = False
) -> pd.DataFrame:
    """Nonblank rows of an opened file; see `TableFile.load`."""
    raw = file.load(text, levels=levels)
    notes += file.notes
    return filled_rows(raw, path, notes)


def filled_rows(raw: pd.DataFrame, path: Path, notes: list[Note]) -> pd.DataFrame:
    """Rows that are not blank, nor comments, nor totals at the end; it is an error if there are none."""
    filled = raw.notna().any(axis=1).to_numpy()
    comments, totals = _comments_and_totals(raw[filled])
    kept = filled.copy()
    kept[filled] = ~(comments | totals)
    if not kept.any():
        raise StudyError(f"{path.name}: has a header but no rows.")
    notes += count_note(int((~filled).sum()), "blank row")
    notes += count_note(int(comments.sum()), "comment")
    notes += count_note(int(totals.sum()), *BELOW)
    return raw if kept.all() else raw[kept]


def _comments_and_totals(raw: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """Rows with nothing but a first cell with a comment, and rows at the end such as a mean or total."""
    comments, totals = np.zeros((2, len(raw)), dtype=bool)
    if not len(raw) or pd.api.types.is_numeric_dtype(raw.iloc[:, 0]):
        return comments, totals
    first = frames.as_text(raw.iloc[:, 0]).fillna("")
    comments[:] = first.str.startswith(COMMENTS)
    if comments.any():
        comments &= raw.iloc[:, 1:].isna().all(axis=1).to_numpy()
    end, is_summary = len(raw), summary_test(first)
    while end and (comments[end - 1] or is_summary(first.iloc[end - 1])):
        end -= 1
    totals[end:] = ~comments[end:]
    return comments, totals


def is_table(sample: Sample) -> bool:
    """Whether a file has a table."""
    return sample.is_cells or bool(sample.header)


def is_long(sample: Sample) -> bool:
    """Whether a table has columns for the name and the value of a measurement."""
    folded = {name.casefold() for name in sample.header}
    return bool(folded & set(REGION) and folded & set(VALUE))


def _visit_rows(
    raw: pd.DataFrame, id: str, choice: VisitChoice, path: Path, notes: list[Note]
) -> tuple[pd.DataFrame, list[str]]:
    """Rows of the visit, or all rows if None, and the names of the columns of visits and dates."""
    if choice.visit is None and choice.column is None and choice.date is None:
        return raw, []
    rule = None if choice.visit is None else rule_of(choice.visit)
    date = (rule and rule.date) or choice.date
    has_codes = choice.column is not None or bool(visit_columns(raw.columns))
    codes = frames.visit_codes(raw, choice.column, path) if has_codes or not date else None
    dropped = [str(name) for name in (codes if codes is None else codes.name, date) if name is not None]
    if choice.visit is None:
        return raw, dropped
    more: Any = {"date": choice.date, "reference": choice.reference}
    return frames.of_visit(raw, id, codes, choice.visit, path, notes, **more), dropped


def codes_in(path: Path, visit_column: str | None, dialect: dict[str, Any]) -> list[str]:
    """The visit codes of a table, each once; VISCODE stands in where VISCODE2 is blank."""
    raw, _ = _load(path, dialect, [*filter(None, [visit_column])], [])
    codes = frames.visit_codes(raw, visit_column, path)
    if visit_column is None and codes.name == "VISCODE2" and "VISCODE" in raw.columns:
        codes = codes.fillna(frames.as_text(raw["VISCODE"]))
    return [str(code) for code in codes.dropna().unique()]
