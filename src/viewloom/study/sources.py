"""One source of a study, a view or the participants, as a table indexed by id in the form ids are matched in.

What there is to say of a table is in its ``attrs["notes"]``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from viewloom.clinical import as_categories
from viewloom.study import readers
from viewloom.study.errors import StudyError
from viewloom.study.ids import canonical_ids, count_unknown
from viewloom.study.schema import Participants, View
from viewloom.study.wording import counted, nearest, note
from viewloom.views import listed

CHECK = "check visit and missing_codes"
LEARNED = ("min_maf", "min_call_rate")  # options that choose columns by their values
TAKE_SEVERAL = {"freesurfer-table"}  # formats whose reader joins files itself


def read_view(view: View, match: str, *, training: bool = True) -> pd.DataFrame:
    """The table of a view; subjects without any value are left out.

    Parameters
    ----------
    view : View
    match : {"exact", "adni", "bids"}
        How ids are matched; see `ids.canonical_ids`.
    training : bool, default=True
        Whether to leave out columns by what is known of these subjects: those without any value, and rare
        variants. New subjects need the columns of training, whatever is known of them.
    """
    read = _read_chosen if training else _read_whole
    parts = [_matched(read(view, path), match, file_names(view)) for path in _sources(view)]
    frame = _together(parts, view)
    seen = frame.notna().any(axis=1)
    absent = note(int((~seen).sum()), "subject without any value", "subjects without any value")
    return _noted(_transformed(frame[seen], view), [*frame.attrs["notes"], *absent])


def read_participants(people: Participants, match: str, *, training: bool = True) -> pd.DataFrame:
    """The columns that the study names, diagnosis and site as text.

    Parameters
    ----------
    people : Participants
    match : {"exact", "adni", "bids"}
    training : bool, default=True
        Whether it is an error if a column has no value at all; of new subjects much may not be known yet.
    """
    frame = _read(people, people.path, people.options, numeric=False)
    problems = list(_column_problems(people, frame, training))
    if problems:
        raise StudyError("\n".join(problems))
    named = list(dict.fromkeys(column for _, column in people.named_columns))
    frame = _matched(frame, match, file_names(people))
    chosen = frame.reindex(columns=named)
    for column in filter(None, (people.diagnosis, people.site)):
        chosen[column] = pd.Series(as_categories(chosen[column]), chosen.index, dtype=object)
    return _noted(chosen, frame.attrs["notes"])


def _column_problems(people: Participants, frame: pd.DataFrame, training: bool) -> Iterator[str]:
    """Columns that the study names and the table does not have, or has without any value."""
    empty, known = frame.attrs["empty"], list(frame.columns)
    for key, column in people.named_columns:
        where = f"{file_names(people)}: "
        if column in empty and training:
            yield f"{where}column {column!r}, named under {key}, has no value; do not name it, or {CHECK}."
        elif column not in [*empty, *known]:
            hint = nearest(column, known) or f"; there are {listed(known)}."
            yield f"{where}no column {column!r}, named under {key}{hint}"


def _sources(view: View) -> list[Path | list[Path]]:
    """What to give the reader, call by call."""
    return [view.source] if view.path or view.format in TAKE_SEVERAL else list(view.paths or [])


def _read(
    source: Participants | View, path: Path | list[Path], options: Mapping[str, Any], **more: Any
) -> pd.DataFrame:
    return readers.FORMATS[source.format](path, **options, **more)


def _read_chosen(view: View, path: Path | list[Path]) -> pd.DataFrame:
    """A file of a view, with a note of its columns without any value, which are left out."""
    frame = _read(view, path, view.options)
    empty = frame.attrs["empty"]
    left_out = f"left out: {listed(empty)}"
    found = note(len(empty), "column without any value", "columns without any value", left_out)
    return _noted(frame, [*frame.attrs["notes"], *found])


def _read_whole(view: View, path: Path | list[Path]) -> pd.DataFrame:
    """A file of a view with all its columns."""
    frame = _read(view, path, {key: value for key, value in view.options.items() if key not in LEARNED})
    columns = [*frame.columns, *frame.attrs["empty"]]
    return _noted(frame.reindex(columns=columns), frame.attrs["notes"])


def _together(frames: list[pd.DataFrame], view: View) -> pd.DataFrame:
    """Files of one view: under each other if they are of different subjects, else side by side."""
    notes = [note for frame in frames for note in frame.attrs["notes"]]
    if not _any_twice(frame.index for frame in frames):
        return _noted(pd.concat(frames, axis=0), notes)
    if not _any_twice(frame.columns for frame in frames):
        return _noted(pd.concat(frames, axis=1), notes)
    raise StudyError(
        f"{file_names(view)}: files have both subjects and columns in common; make them two views."
    )


def _any_twice(indices: Iterable[pd.Index]) -> bool:
    every = [name for index in indices for name in index]
    return len(set(every)) < len(every)


def _matched(frame: pd.DataFrame, match: str, file: str) -> pd.DataFrame:
    """The table with ids in the form they are matched in."""
    ids = canonical_ids(frame.index, match)
    repeated = int(ids.duplicated().sum())
    if repeated:
        spelt = "" if match == "exact" else f" (ids matched as {match!r})"
        raise StudyError(
            f"{file}: {counted(repeated, 'row')} whose id appeared before{spelt}; keep one row per subject, "
            "for example by choosing a visit."
        )
    style = f"not of the {match!r} style and left as spelt"
    unknown = note(count_unknown(frame.index, match), "id is", "ids are", style)
    return _noted(frame.set_axis(ids, axis=0), [*frame.attrs["notes"], *unknown])


def _noted(frame: pd.DataFrame, notes: Iterable[str]) -> pd.DataFrame:
    frame.attrs = {"notes": list(notes)}
    return frame


def _transformed(frame: pd.DataFrame, view: View) -> pd.DataFrame:
    """Values on the scale that the study asks for."""
    values = frame.to_numpy(dtype=float)
    with np.errstate(all="ignore"):
        changed = TRANSFORMS[view.transform](values)
    bad = ~np.isfinite(changed) & ~np.isnan(values)
    if bad.any():
        what = "infinite" if view.transform == "none" else f"without a finite {view.transform}"
        bad_columns = frame.columns[bad.any(axis=0)]
        ways = [way for option, way in WAYS_OUT.items() if readers.takes(view.format, option)]
        raise StudyError(
            f"{file_names(view)}: {bad.sum()} values are {what}, in {column_names(bad_columns)}; "
            f"{', '.join([*ways, 'or change transform'])}."
        )
    return pd.DataFrame(changed, frame.index, frame.columns)


def file_names(source: Participants | View) -> str:
    """Names of the files of a source, as an error tells them."""
    return ", ".join(path.name for path in source.inputs[:3])


def column_names(names: pd.Index) -> str:
    """Names of columns, as an error tells them."""
    return f"column{'s' * (len(names) > 1)} {listed(list(names))}"


WAYS_OUT = {
    "missing_codes": "name codes of missing values under missing_codes",
    "exclude": "leave the columns out with exclude",
}
TRANSFORMS: dict[str, Any] = {"none": np.asarray, "log": np.log, "log1p": np.log1p, "sqrt": np.sqrt}
