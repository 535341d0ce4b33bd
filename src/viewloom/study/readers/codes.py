"""Tables with one row per subject and code, such as diagnoses of hospital records."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Unpack

import numpy as np
import pandas as pd
import scipy.sparse as sp

from viewloom.runtime.progress import stage
from viewloom.study.errors import StudyError
from viewloom.study.notes import Note, count_note
from viewloom.study.readers import frames
from viewloom.study.readers.blocks import Rows, numbered_pairs
from viewloom.study.readers.files import TableFile, TablePart, open_table
from viewloom.study.readers.formats import Sample
from viewloom.study.readers.frames import Patterns
from viewloom.study.tables_in_memory import sparse_frame

Array = np.ndarray
ROWS = 2**20  # rows of a block


def read_codes(
    path: str | Path,
    *,
    id: str,
    code: str,
    digits: int | None = None,
    columns: Patterns = None,
    exclude: Patterns = None,
    delimiter: str | None = None,
    encoding: str | None = None,
    sheet: str | int | None = None,
    object: str | None = None,
) -> pd.DataFrame:
    r"""Read a table with one row per subject and code; features are 1 where a subject has the code, else 0.

    Subjects who are not in the table lack the view. A subject who was looked at and has no code has a row
    with a blank code. The result is sparse, so that there may be many codes.

    Parameters
    ----------
    path : str or Path
    id, code : str
        Columns of ids and of codes.
    digits : int, optional
        Length to which codes are cut: 3 makes I21.4 and I21.9 one feature, I21.
    columns, exclude : list of str, optional
        Shell patterns of the codes to keep and to leave out.
    delimiter, encoding, sheet, object
        As in `tables.read_table`.

    Returns
    -------
    DataFrame indexed by ``id``
        One sparse column per code, sorted.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "diagnoses.csv")
    ...     _ = path.write_text("eid,icd10\n1,I10\n1,E11\n2,I10\n3,\n")
    ...     frame = read_codes(path, id="eid", code="icd10")
    >>> print(frame.sparse.to_dense().astype(int))
        E11  I10
    id
    1     1    1
    2     0    1
    3     0    0
    """
    path, notes = Path(path), list[Note]()
    file = open_table(path, delimiter=delimiter, encoding=encoding, sheet=sheet, object=object)
    header = pd.DataFrame(columns=file.header)
    for name, role in ((id, "id"), (code, "code")):
        frames.column(header, name, path, role)
    rows, at, ids, names = numbered_pairs(_blocks(file, path, id, code, digits))
    notes += file.notes
    if not len(names):
        raise StudyError(f"{path.name}: column {code!r} has no code in {len(rows)} rows; check code.")
    X, repeated = _matrix(rows[at >= 0], at[at >= 0], (len(ids), len(names)))
    notes += count_note(repeated, "row", text="with a code that the subject has already, counted once")
    order = np.argsort(np.array(names))
    names = [names[j] for j in order]
    every = pd.DataFrame(np.empty((0, len(names))), columns=names)
    kept = list(frames.select(every, columns, exclude, path, notes).columns)
    chosen = order[np.isin(names, kept)]
    frame = sparse_frame(X[:, chosen], pd.Index(ids, dtype=str, name="id"), kept)
    frame.attrs = {"notes": notes, "empty": [], "faults": {}, "aside": []}
    return frame


def _blocks(
    file: TableFile, path: Path, id: str, code: str, digits: int | None
) -> Iterator[tuple[Rows, Rows]]:
    """Ids and codes of each block of rows."""
    frames.check_names(pd.DataFrame(columns=file.header), path)
    any_rows = False
    with stage(f"Reading {path.name}", file.about_rows) as advance:
        for block in file.blocks([id, code], [id, code], ROWS):
            (subject, ids), (at, codes) = (pd.factorize(block[name]) for name in (id, code))
            filled = (subject >= 0) | (at >= 0)
            if not filled.any():
                continue
            any_rows = True
            texts = frames.as_text(pd.Series(codes))
            known = _clean_ids(pd.Series(ids), block[id], subject, filled, path)
            yield (subject[filled], known), (at[filled], texts if digits is None else texts.str[:digits])
            advance(len(block))
    if not any_rows:
        raise StudyError(f"{path.name}: has a header but no rows.")


def _clean_ids(distinct: pd.Series, cells: pd.Series, at: Array, filled: Array, path: Path) -> pd.Series:
    """Distinct ids as text; errors tell how many of the rows that are filled have them."""
    try:
        if (at[filled] >= 0).all():
            return frames.clean_ids(distinct, path)
    except StudyError:
        pass
    return frames.clean_ids(cells[filled], path)  # raises


def _matrix(rows: Array, columns: Array, shape: tuple[int, int]) -> tuple[sp.csc_array, int]:
    """Ones where a subject has a code (float32), and the number of rows that repeat another."""
    X = sp.csc_array((np.ones(len(rows), dtype=np.float32), (rows, columns)), shape=shape)
    X.sum_duplicates()
    X.data[:] = 1.0
    return X, len(rows) - X.nnz


def is_codes(sample: Sample) -> bool:
    """Whether a table has two columns, the second of which is that of a code."""
    names = [name.casefold() for name in sample.header]
    return len(names) == 2 and names[1] in CODE_NAMES


def drafts(path: Path, files: Sequence[Path], **part: Unpack[TablePart]) -> list[dict[str, Any]]:
    """Settings of the view of a table of codes."""
    id, code = open_table(path, **part).header
    return [{"id": id, "code": code}]


CODE_NAMES = {
    "code",
    "icd",
    "icd10",
    "icd9",
    "diag_icd10",
    "diag_icd9",
    "atc",
    "read_code",
    "snomed",
}
