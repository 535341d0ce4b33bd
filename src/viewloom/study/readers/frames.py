"""From a raw table to one row per subject and numeric features: checks that all readers share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from viewloom.data.naming import listed
from viewloom.study.errors import Message, StudyError, Suggestion
from viewloom.study.notes import Note, count_note
from viewloom.study.readers.dates import Days, Reference, days_of
from viewloom.study.readers.notation import (
    SETTABLE,
    TRUTH,
    Fault,
    Notation,
    advice,
    description,
    fault,
    parse,
)
from viewloom.study.readers.text import PADDED
from viewloom.study.readers.visits import Visits, repeat_column, rule_of, unrepeated, visit_columns
from viewloom.study.readers.visits import parse as parse_visit
from viewloom.study.wording import counted, nearest, quoted

Patterns = Sequence[str] | None
Code = int | float | str
Codes = Sequence[Code] | Mapping[str, Sequence[Code]]
Aside = Callable[[str], bool] | None  # whether a column is named elsewhere, and so not a feature

KEEP_ONE = "keep one row per subject, or set visit and visit_column"
CORRECT = "correct the cells, or list missing codes in missing_codes"
NAME_CODES = "list missing codes in missing_codes, or select with columns and exclude"
IS_CATEGORICAL = "correct the cells, list them in missing_codes, or name the column under categorical"
PLAIN = Notation()
MONTH = "(?i:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec|mrz|mai|okt|dez)"
CONVERTED = {  # ids that a spreadsheet has converted, or a column without ids
    r"\d{4}-\d{1,2}-\d{1,2}(?:[ T]\d.*)?|\d{1,2}[/.]\d{1,2}[/.]\d{2,4}|\d{4}/\d{1,2}/\d{1,2}|"
    rf"\d{{1,2}}-{MONTH}(?:-\d{{2,4}})?|{MONTH}-\d{{2}}": "dates",
    r"\d(?:[.,]\d+)?E\+\d+": "rounded numbers",
}
MOST_NUMBERS = 0.3  # share of numbers among names of columns
CENSORED = r"^\s*[<>]=?\s*(?=[-+.\d])"  # '>1700': beyond the range of the assay


def column(raw: pd.DataFrame, name: str, path: Path, role: str) -> pd.Series:
    """The column of that name, which must be unique."""
    at = np.flatnonzero(raw.columns == name)
    if len(at) == 0:
        raise StudyError(f"{path.name}: no {role} column {name!r}{_known_columns(name, list(raw.columns))}")
    if len(at) > 1:
        raise StudyError(
            f"{path.name}: {len(at)} columns are called {name!r}; rename all but the {role} column."
        )
    return raw.iloc[:, at[0]]


def _known_columns(name: str, known: list[str]) -> str:
    """The names of the columns, unless the first line has data."""
    if pd.to_numeric(pd.Series(known), errors="coerce").notna().mean() > MOST_NUMBERS:
        return "; the first line has numbers instead of names: add a header."
    return nearest(name, known) or f"; there are {listed(known)}."


def matches(name: str, patterns: Iterable[str]) -> bool:
    """Whether a name equals or matches one of the patterns; case-sensitive.

    >>> matches("ST29SV", ["ST*SV"]), matches("st29sv", ["ST*SV"]), matches("a[1]", ["a[1]"])
    (True, False, True)
    """
    return any(name == pattern or fnmatchcase(name, pattern) for pattern in patterns)


def select(
    raw: pd.DataFrame, columns: Patterns, exclude: Patterns, path: Path, notes: list[Note]
) -> pd.DataFrame:
    """The selected columns, in the order of the file; a pattern of `columns` without a match is an error."""
    names = list(raw.columns)
    for pattern in columns or ():
        if not any(matches(name, [pattern]) for name in names):
            hint = nearest(pattern, names) or "."
            raise StudyError(f"{path.name}: no column matches {pattern!r} of columns{hint}")
    for pattern in exclude or ():
        if not any(matches(name, [pattern]) for name in names):
            notes.append(Note((f"no column matches {pattern!r} of exclude",)))
    kept = [
        (columns is None or matches(name, columns)) and not matches(name, exclude or ()) for name in names
    ]
    chosen = raw if all(kept) else raw.loc[:, kept]
    if chosen.shape[1] == 0:
        check = "check columns and exclude" if columns or exclude else "the file needs features as well"
        raise StudyError(f"{path.name}: no columns left besides the id; {check}.")
    check_names(chosen, path)
    return chosen


def apart(cells: pd.DataFrame, aside: Aside, path: Path) -> tuple[pd.DataFrame, list[str]]:
    """The columns that are features, and the names of those that the study names elsewhere."""
    found = [aside is not None and aside(str(name)) for name in cells.columns]
    names = [str(name) for name in cells.columns[found]]
    if len(names) == cells.shape[1]:
        raise StudyError(
            f"{path.name}: all columns are named elsewhere in the study: {listed(names)}; name those that "
            "are features in full under columns."
        )
    return cells.loc[:, ~np.array(found, dtype=bool)] if names else cells, names


def check_names(table: pd.DataFrame, path: Path) -> None:
    """Refuse duplicate column names."""
    repeated = table.columns[table.columns.duplicated()].unique()
    if len(repeated):
        raise StudyError(
            f"{path.name}: {len(repeated)} column names occur more than once: {listed(list(repeated))}; "
            "rename them."
        )


def visit_codes(raw: pd.DataFrame, name: str | None, path: Path) -> pd.Series:
    """The visit column: the one that is named, or the first with a known name."""
    if name is None:
        known = visit_columns(raw.columns)
        if not known:
            raise StudyError(f"{path.name}: no visit column was found; set visit_column.")
        name = known[0]
    return as_text(column(raw, name, path, "visit"))


def of_visit(
    raw: pd.DataFrame,
    id: str,
    codes: pd.Series | None,
    visit: Any,
    path: Path,
    notes: list[Note],
    *,
    date: str | None = None,
    reference: Reference | None = None,
    same: Sequence[str] = (),
) -> pd.DataFrame:
    """Rows of the visit that `visit` sets; see `visits.rule_of`.

    `date` is the column of dates, `reference` has the dates of the participants, and `same` has all codes of
    the visit, if there are several.
    """
    rule, ids = rule_of(visit), as_text(column(raw, id, path, "id"))
    days = _days(raw, codes, rule.date or date, path)
    known = None if reference is None or days is None else reference.of(ids)
    return raw[Visits(ids, codes, days, known, path, notes).of(rule, same)]


def _days(raw: pd.DataFrame, codes: pd.Series | None, date: str | None, path: Path) -> Days | None:
    """The dates of the rows: those of a column, or visit codes that are all dates."""
    if date is not None:
        return days_of(column(raw, date, path, "date"), path)
    found = [] if codes is None else codes.dropna().unique().tolist()
    if codes is None or not found or any(parse_visit(code).scale != "day" for code in found):
        return None
    return days_of(codes.str.removeprefix("ses-"), path)


def as_text(cells: pd.Series) -> pd.Series:
    """Cells as stripped text, missing where blank; integers without a decimal point."""
    if pd.api.types.is_float_dtype(cells) and (cells.dropna() % 1 == 0).all():
        cells = cells.astype("Int64")
    text = cells.astype(str).str.strip()
    return text.where(cells.notna().to_numpy() & (text != "").to_numpy())


def as_numbers(cells: pd.Series) -> pd.Series:
    """Cells as numbers, NaN for other text; read from text, since integers may be too large for floats."""
    return pd.to_numeric(as_text(cells), errors="coerce")


def clean_ids(cells: pd.Series, path: Path) -> pd.Series:
    """Ids as text, with leading zeros; blanks, and ids that a spreadsheet has converted, are errors."""
    text, where = as_text(cells), f"{path.name}: column {cells.name!r}"
    absent = int(text.isna().sum())
    if absent:
        raise StudyError(
            f"{where} has no id in {absent} of {len(text)} rows; fill in the ids or remove the rows."
        )
    for pattern, what in CONVERTED.items():
        count = int(text.str.fullmatch(pattern).sum())
        if count:
            raise StudyError(
                f"{where} has {count} ids that look like {what}; choose another id column, or format it "
                "as text in the spreadsheet and save again."
            )
    return text.str.removesuffix(".0") if text.str.fullmatch(r"\d+\.0").all() else text


def checked_ids(cells: pd.Series, path: Path, *, hint: str) -> pd.Index:
    """Ids of the rows, which must be unique; `hint` is the solution for duplicate ids."""
    text = clean_ids(cells, path)
    repeated = int(text.duplicated().sum())
    if repeated:
        rows = f"{counted(repeated, 'row')} with a duplicate id"
        raise StudyError(Message(f"{path.name}: column {cells.name!r} has {rows}; {hint}.", hint))
    return pd.Index(text.tolist(), dtype=str, name="id")


def repeats_hint(raw: pd.DataFrame) -> str:
    """The solution for duplicate ids, which depends on the columns that the table has."""
    repeated = repeat_column(raw.columns)
    if repeated is not None and raw[repeated].notna().any():
        once = unrepeated(repeated)
        return Message(f"set rows = {once!r} to leave out repeated instruments", Suggestion({"rows": once}))
    known = visit_columns(raw.columns)
    if not known:
        return KEEP_ONE
    text = f"set visit to keep one visit of column {known[0]!r}, or visit = 'first'"
    return Message(text, Suggestion({"visit": "first"}))


def numbers(
    cells: pd.DataFrame,
    codes: Codes,
    path: Path,
    notes: list[Note],
    *,
    censored: bool = False,
    way_out: str = NAME_CODES,
    notation: Notation = PLAIN,
) -> pd.DataFrame:
    """Cells as float64, NaN for missing cells and codes; other text is an error that names the column.

    Parameters
    ----------
    cells : DataFrame
    codes : sequence, or dict of column pattern to sequence
        Missing codes, of all columns or of those that match the pattern.
    path : Path
    notes : list of Note
    censored : bool
        Read cells such as ``>1700`` as their limit.
    way_out : str
        The solution for cells that are not numbers, in terms of the options of the format.
    notation : Notation
        Notation of numbers in text cells.
    """
    names = [str(name) for name in cells.columns]
    kinds = zip(names, cells.dtypes, strict=True)
    plain = np.array([_is_plain(dtype, codes_of(name, codes)) for name, dtype in kinds], dtype=bool)
    values = _plain_numbers(cells, plain)
    parsed = {
        name: _parsed(cells[name], codes_of(name, codes), censored, notation)
        for name, done in zip(names, plain, strict=True)
        if not done
    }
    for name, text in parsed.items():
        values[:, names.index(name)] = text.numbers
    faults = {name: text.fault for name, text in parsed.items() if text.fault is not None}
    if faults:
        raise StudyError(*_fault_lines(faults, len(cells), path, way_out, notation))
    if codes:
        values[coded(names, values, codes, notation)] = np.nan
    infinite = dict(zip(names, np.isinf(values).sum(axis=0).tolist(), strict=True))
    _check_cells(infinite, len(cells), "infinite", path, way_out)
    beyond = sum(text.beyond for text in parsed.values())
    blanked = int((np.isnan(values) & cells.notna().to_numpy(dtype=bool)).sum()) if codes else 0
    notes += count_note(beyond, "cell", text="beyond the range of the assay set to the limit")
    notes += count_note(blanked, "cell", text="with a missing code set to missing")
    return pd.DataFrame(values, index=cells.index, columns=names, copy=False)


def _plain_numbers(cells: pd.DataFrame, plain: np.ndarray) -> np.ndarray:
    """Values (n, d) of the numeric columns, NaN in the others; columns are contiguous, as pandas has them."""
    values = np.empty(cells.shape[::-1]).T
    if plain.all():
        simple = all(isinstance(dtype, np.dtype) and dtype.kind in "fiu" for dtype in cells.dtypes)
        # converted while it is copied, not before
        values[...] = cells.to_numpy() if simple else cells.to_numpy(dtype=np.float64, na_value=np.nan)
        return values
    values[:, ~plain] = np.nan
    values[:, plain] = cells.loc[:, plain].to_numpy(dtype=np.float64, na_value=np.nan)
    return values


def numbers_or_text(
    cells: pd.DataFrame,
    codes: Codes,
    path: Path,
    notes: list[Note],
    *,
    censored: bool = False,
    notation: Notation = PLAIN,
) -> pd.DataFrame:
    """Numeric columns as float64, others as text; 011 is a code, not a number.

    ``attrs["faults"]`` has the errors of columns that are numeric except for a few cells: whether they matter
    depends on the role of the column.
    """
    text, faults = {}, {}
    for name in cells.columns:
        if pd.api.types.is_numeric_dtype(cells[name]):
            continue
        found = _parsed(cells[name], codes_of(name, codes), censored, notation).fault
        if found is not None or _zero_padded(cells[name]):
            text[name] = without_codes(cells[name], codes_of(name, codes))
        if found is not None and found.mostly_numbers:
            (faults[name],) = _fault_lines({name: found}, len(cells), path, IS_CATEGORICAL, notation)
    plain = cells.drop(columns=list(text))
    rest = numbers(plain, codes, path, notes, censored=censored, way_out=CORRECT, notation=notation)
    both = pd.concat([rest, pd.DataFrame(text, index=cells.index)], axis=1)[list(cells.columns)]
    both.attrs = {"faults": faults}
    return both


def _zero_padded(cells: pd.Series) -> bool:
    return not pd.api.types.is_numeric_dtype(cells) and bool(as_text(cells).str.match(PADDED).any())


def is_numeric(cells: pd.Series, codes: Codes, *, censored: bool = False, notation: Notation = PLAIN) -> bool:
    """Whether cells are numbers or missing, except for a few invalid ones."""
    if pd.api.types.is_numeric_dtype(cells):
        return True
    found = _parsed(cells, codes_of(str(cells.name), codes), censored, notation).fault
    return found is None or found.mostly_numbers


def needs_correction(cells: pd.Series) -> bool:
    """Whether cells of a column of numbers are none in any notation that can be set.

    >>> needs_correction(pd.Series(["1", "2", "?"])), needs_correction(pd.Series(["1,5", "2,5"]))
    (True, False)
    """
    if pd.api.types.is_numeric_dtype(cells):
        return False
    found = _parsed(cells, (), False, PLAIN).fault
    return found is not None and not SETTABLE.issuperset(found.kinds)


def codes_of(name: str, codes: Codes) -> Sequence[Code]:
    """The missing codes of a column.

    >>> codes_of("ST29SV", {"ST*": [-4], "AGE": [-1]}), codes_of("AGE", [-9])
    ([-4], [-9])
    """
    if isinstance(codes, Mapping):
        return [code for pattern, found in codes.items() if matches(name, [pattern]) for code in found]
    return codes


def without_codes(cells: pd.Series, codes: Sequence[Code]) -> pd.Series:
    """Cells as text, without missing codes."""
    text = as_text(cells)
    return text.mask(text.isin(spellings(codes, cells))) if codes else text


def spellings(codes: Sequence[Code], cells: pd.Series) -> set[str]:
    """Missing codes as the cells spell them: of truth values, the file may have another spelling.

    >>> sorted(spellings(["FALSE", -9], pd.Series([True, None]))), spellings(["FALSE"], pd.Series(["False"]))
    (['-9', 'FALSE', 'False'], {'FALSE'})
    """
    levels = cells.cat.categories if isinstance(cells.dtype, pd.CategoricalDtype) else cells
    truths = pd.api.types.infer_dtype(levels, skipna=True) == "boolean"
    texts = {str(code) for code in codes}
    return texts | {str(text.casefold() == "true") for text in texts if truths and _is_truth(text)}


def names_truth(codes: Codes) -> bool:
    """Whether a code is a truth value, of which numbers in place of booleans do not tell the spelling."""
    every = [code for found in codes.values() for code in found] if isinstance(codes, Mapping) else codes
    return any(map(_is_truth, every))


def _is_truth(code: Code) -> bool:
    return str(code).casefold() in TRUTH


def _is_plain(dtype: Any, codes: Sequence[Code]) -> bool:
    """Whether a column has numbers; booleans are text where missing codes are."""
    truths = pd.api.types.is_bool_dtype(dtype)
    return bool(pd.api.types.is_numeric_dtype(dtype)) and not (truths and names_truth(codes))


@dataclass(frozen=True, eq=False)
class Parsed:
    """Numbers in text cells, the fault of the others, and the number of cells beyond a limit."""

    numbers: np.ndarray
    fault: Fault | None
    beyond: int


def _parsed(cells: pd.Series, codes: Sequence[Code], censored: bool, notation: Notation) -> Parsed:
    text = without_codes(cells, codes)
    beyond = int(text.str.match(CENSORED).sum()) if censored else 0
    if beyond:
        text = text.str.replace(CENSORED, "", regex=True)
    values = parse(text, notation)
    return Parsed(values, fault(text, values, notation), beyond)


def parsed_numbers(cells: pd.Series, codes: Sequence[Code], notation: Notation) -> tuple[np.ndarray, int]:
    """Numbers in the cells of a column, NaN for missing ones, and the count of cells that are no numbers."""
    if _is_plain(cells.dtype, codes):
        values, wrong = cells.to_numpy(dtype=np.float64, na_value=np.nan), 0
    else:
        found = _parsed(cells, codes, False, notation)
        values, wrong = found.numbers, 0 if found.fault is None else found.fault.count
    missing = coded([""], values[:, None], codes, notation)[:, 0]
    return np.where(missing, np.nan, values), wrong


def _fault_lines(
    faults: Mapping[str, Fault], n: int, path: Path, way_out: str, notation: Notation
) -> Iterator[Message]:
    """One line for all columns of n rows that have the same fault."""
    texts_of = {name: (description(one), advice(one, notation, way_out)) for name, one in faults.items()}
    for what, way in dict.fromkeys(texts_of.values()):
        first, *others = [name for name in faults if texts_of[name] == (what, way)]
        rows = f"{faults[first].count} of {n} rows"
        texts = f" ({quoted(faults[first].texts)})" if faults[first].texts else ""
        more = f" ({counted(len(others), 'more column')} likewise: {listed(others)})" if others else ""
        yield Message(f"{path.name}: column {first!r} is {what} in {rows}{texts}{more}; {way}.", way)


def coded(names: list[str], values: np.ndarray, codes: Codes, notation: Notation = PLAIN) -> np.ndarray:
    """Which (n, d) values are missing codes; codes that are text may have the notation of the file."""
    found_in = np.zeros_like(values, dtype=bool)
    for pattern, found in codes.items() if isinstance(codes, Mapping) else ([("*", codes)] if codes else []):
        found_at = [j for j, name in enumerate(names) if matches(name, [pattern])]
        at = slice(None) if len(found_at) == len(names) else found_at  # no copies
        found_in[:, at] |= np.isin(values[:, at], _code_numbers(found, notation))
    return found_in


def _code_numbers(codes: Sequence[Code], notation: Notation) -> np.ndarray:
    """The codes that are numbers.

    >>> _code_numbers([-4, "-9,5", "1.5", "n.d.", "FALSE"], Notation(decimal=","))
    array([-4. ,  1.5, -9.5])
    """
    known = pd.Series([code for code in codes if not _is_truth(code)], dtype=object)
    plain = pd.to_numeric(known, errors="coerce").to_numpy(dtype=np.float64)
    found = np.concatenate([plain, parse(known.astype(str), notation)])
    return pd.unique(found[~np.isnan(found)])


def _check_cells(bad: dict[str, int], n: int, what: str, path: Path, way_out: str) -> None:
    """Refuse columns of n rows with invalid cells."""
    names = [name for name, count in bad.items() if count]
    if names:
        others = f" ({counted(len(names) - 1, 'more column')} likewise)" if len(names) > 1 else ""
        raise StudyError(
            f"{path.name}: column {names[0]!r} is {what} in {bad[names[0]]} of {n} rows{others}; {way_out}."
        )


def finish(values: pd.DataFrame, ids: pd.Index, path: Path, notes: list[Note]) -> pd.DataFrame:
    """The result of a reader: indexed by id, with notes, and without empty columns.

    ``attrs["empty"]`` has the names of the empty columns; it is an error if there are no others.
    ``attrs["faults"]`` has a line for each text column that should be numeric.
    """
    frame = values.set_axis(ids, axis=0).rename_axis(columns=None)
    empty = [str(name) for name in frame.columns[frame.isna().all().to_numpy()]]
    if len(empty) == frame.shape[1]:
        raise StudyError(
            f"{path.name}: no column has any value among {counted(len(ids), 'subject')}: {listed(empty)}; "
            "check the selection of rows and columns."
        )
    frame = frame.drop(columns=empty) if empty else frame
    frame.attrs = {"notes": list(notes), "empty": empty, "faults": values.attrs.get("faults", {})}
    return frame
