"""OASIS-3: rows labelled by subject, kind of session and day since the entry, such as OAS30001_MR_d0129."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Unpack

import pandas as pd

from viewloom.study.errors import Message, StudyError, Suggestion
from viewloom.study.notes import Note, count_note
from viewloom.study.readers import frames
from viewloom.study.readers.dates import Reference
from viewloom.study.readers.files import TablePart, open_table, with_part
from viewloom.study.readers.formats import Sample
from viewloom.study.readers.frames import Aside, Codes, Patterns
from viewloom.study.readers.tables import filled_rows, read_table
from viewloom.study.readers.visits import FIRST, VisitSetting

LABEL = r"^(?:sub-)?(OAS\d{5})_.*?(?P<visit>d\d{4,5})$"
SUBJECT = re.compile(r"(?:sub-)?OAS\d{5}(?:_.*)?")
# columns of labels in the tables of the study
KNOWN = re.compile(
    r"(?i)OASIS_session_(?:label|id)|(?:MR|PET)_session|session_label|(?:MR|PET|FS) ID|freesurfer_id|"
    r".*(?:FSDATA|PUPTIMECOURSEDATA|CLINICALDATA|SESSIONDATA|UDS\w+DATA) ID"
)
CATALOGUE = {"Label", "Subject", "M/F"}  # columns of a list of sessions
DAY = re.compile(r"(?i)days_to_visit")  # what the label has as well
MOSTLY = 0.9


@with_part
def read_oasis(
    path: str | Path,
    *,
    id: str | None = None,
    visit: VisitSetting = FIRST,
    date: str | None = None,
    columns: Patterns = None,
    exclude: Patterns = None,
    missing_codes: Codes | None = None,
    rows: str | None = None,
    numeric: bool = True,
    aside: Aside = None,
    reference: Reference | None = None,
    **part: Unpack[TablePart],
) -> pd.DataFrame:
    r"""Read a table of OASIS-3, whose labels such as OAS30001_MR_d0129 hold the subject and the day.

    Parameters
    ----------
    path : str or Path
    id : str, optional
        Column of labels; found by default.
    visit : str or dict, default="first"
        Visit to keep, by the day in the label: "first", "last", ``{"months": 12, "within": 6}``, or
        "nearest:visit" for the day nearest to that of the participants (their key `date`).
    date : str, optional
        Another column of days since the entry.
    columns, exclude, missing_codes, rows, numeric, aside, reference
        As in `tables.read_table`. By default columns of text are left out.
    **part
        Sheet of a workbook, or object of an R file: `sheet` and `object` of `tables.read_table`.

    Returns
    -------
    DataFrame indexed by ``id``, the subject

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "fs.csv")
    ...     rows = "OAS30001_Freesurfer53_d0129,1.5\nOAS30001_Freesurfer53_d0757,1.4\n"
    ...     _ = path.write_text("FS_FSDATA ID,IntraCranialVol\n" + rows)
    ...     frame = read_oasis(path)
    >>> frame.index.tolist(), frame["IntraCranialVol"].tolist()
    (['OAS30001'], [1.5])
    """
    path = Path(path)
    raw = filled_rows(open_table(path, **part).load(), path, [])
    frames.check_names(raw, path)
    id = id or label_column(raw)
    if id is None:
        raise StudyError(
            Message(
                f"{path.name}: no column of labels such as OAS30001_MR_d0129; set id, or format = 'table'.",
                Suggestion({"format": "table"}),
            )
        )
    texts = _texts(raw, id, numeric) if columns is None else []
    options: Any = {"date": date, "columns": columns, "missing_codes": missing_codes, "rows": rows}
    options |= {"numeric": numeric, "aside": aside, "reference": reference, **part}
    frame = read_table(path, id=id, pattern=LABEL, visit=visit, exclude=[*(exclude or ()), *texts], **options)
    left = count_note(
        len(texts), "column of text, labels or days", "columns of text, labels or days", public=True
    )
    frame.attrs["notes"] = [*frame.attrs["notes"], *left, Note((f"subjects and days from column {id!r}",))]
    return frame


def label_column(raw: pd.DataFrame) -> str | None:
    """The first column whose cells are labels of sessions."""
    for name in raw.columns:
        text = frames.as_text(raw[name]).dropna()
        if len(text) and text.str.match(LABEL).mean() >= MOSTLY:
            return str(name)
    return None


def first_rows(raw: pd.DataFrame) -> tuple[pd.DataFrame, str]:
    """The first row of each subject, with the subject in the column of labels, and its name."""
    id = label_column(raw)
    if id is None:
        raise StudyError("no column of labels such as OAS30001_MR_d0129")
    found = frames.as_text(raw[id]).str.extract(LABEL)
    order = found["visit"].str[1:].astype(float).sort_values(kind="stable").index
    rows = raw.assign(**{id: found[0]}).loc[order]
    return rows[rows[id].notna()].drop_duplicates(id), id


def is_oasis(sample: Sample) -> bool:
    """Whether a table has a column that OASIS-3 uses for labels, and labels in it."""
    if not (any(KNOWN.fullmatch(name) for name in sample.header) or sample.columns >= CATALOGUE):
        return False
    return label_column(sample.first_rows) is not None


def _texts(raw: pd.DataFrame, id: str, numeric: bool) -> list[str]:
    """Columns that are no features: text and days, or, for participants, other labels and ids of subjects."""
    others = [str(name) for name in raw.columns if str(name) != id]
    texts = [name for name in others if not frames.is_numeric(raw[name], ())]
    if numeric:
        return [*texts, *(name for name in others if DAY.fullmatch(name) and name not in texts)]
    return [
        name
        for name in texts
        if frames.as_text(raw[name]).dropna().map(lambda t: bool(SUBJECT.fullmatch(t))).all()
    ]
