"""From study.toml to the data of the study: read, match ids, join.

`read_tables` collects all errors; `load` raises them. Rows are sorted by id: the order of rows in the files
does not matter.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace

import pandas as pd

from viewloom.data.views import Views
from viewloom.study.aside import aside_note, named_elsewhere
from viewloom.study.config.schema import Study
from viewloom.study.conversion import with_conversion
from viewloom.study.errors import StudyError
from viewloom.study.hashes import input_hashes
from viewloom.study.joining import PROBLEMS, TRAINING_PROBLEMS, Tables, join_notes, without_copies
from viewloom.study.notes import Note
from viewloom.study.reading import read_participants, read_view, reference_dates

__all__ = ["StudyData", "input_hashes", "load", "read_tables"]


@dataclass(frozen=True, eq=False)
class StudyData:
    """The data of a study.

    Attributes
    ----------
    views : Views
        With ids, sorted; NaN where a cell is missing.
    participants : DataFrame or None
        The columns that the study names, in the order of ``views.ids``; empty rows for subjects not listed.
    notes : list of Note
        What was left out or changed; counts only.
    inputs : dict of str to str
        SHA-256 of every input, by its path relative to the study file.
    """

    views: Views
    participants: pd.DataFrame | None
    notes: list[Note]
    inputs: dict[str, str]


def load(
    study: Study, *, training: bool = True, needed: Mapping[str, Collection[str]] | None = None
) -> StudyData:
    """Read all files of a study and join them.

    Parameters
    ----------
    study : Study
    training : bool, default=True
        Whether a model is to be fitted to the data. New subjects for prediction may be few, with one view
        each.
    needed : dict of str to collection of str, optional
        By view, the columns that a model was fitted on. They are features, whatever the study names them as.

    Returns
    -------
    StudyData

    Raises
    ------
    StudyError
        With one line per problem.

    Examples
    --------
    >>> import tempfile
    >>> from viewloom import study
    >>> folder = tempfile.mkdtemp()
    >>> files = study.write_example(folder)
    >>> data = study.load(study.read_study(files[0]))
    >>> data.views.names, len(data.participants)
    (['vbm', 'freesurfer', 'fdg', 'snp'], 345)
    """
    return join(study, read_tables(study, training=training, needed=needed))


def join(study: Study, tables: Tables) -> StudyData:
    """Join all tables of a study to views with one row per subject; `StudyError` if that is not possible."""
    if tables.problems:
        raise StudyError("\n".join(tables.problems))
    ids, people = tables.ids, tables.participants
    views = Views(
        {name: frame.reindex(ids) for name, frame in tables.frames.items()}, ids=ids, allow_nan=True
    )
    return StudyData(
        views, None if people is None else people.reindex(ids), tables.notes, input_hashes(study)
    )


def read_tables(
    study: Study, *, training: bool = True, needed: Mapping[str, Collection[str]] | None = None
) -> Tables:
    """Read all files of a study, and collect errors instead of raising them.

    Parameters
    ----------
    study : Study
    training : bool, default=True
    needed : dict of str to collection of str, optional
        See `load`.

    Returns
    -------
    Tables
    """
    frames: dict[str, pd.DataFrame] = {}
    people, reference, problems = None, None, list[str]()
    elsewhere = named_elsewhere(study)
    with _collecting(problems, "participants"):
        reference = reference_dates(study.participants, study.ids.match)
    for name, view in study.views.items():
        with _collecting(problems, f"view {name!r}"):
            wanted = (needed or {}).get(name, ())
            frames[name] = read_view(
                view,
                study.ids.match,
                training=training,
                elsewhere=elsewhere,
                needed=wanted,
                reference=reference,
            )
    if study.participants is not None:
        with _collecting(problems, "participants"):
            people = read_participants(study.participants, study.ids.match, training=training)
            if training:
                people = with_conversion(people, study.participants, study.ids.match)
    tables = without_copies(frames, people if training else None, study)
    tables = replace(tables, participants=people)
    problems += tables.problems
    for problems_of in TRAINING_PROBLEMS if training else PROBLEMS:
        problems.extend(problems_of(tables, study))
    notes = [*_reading_notes(tables), *join_notes(tables, study)]
    return replace(tables, notes=notes, problems=list(dict.fromkeys(problems)))


@contextmanager
def _collecting(problems: list[str], label: str) -> Iterator[None]:
    """Collect errors instead of raising them."""
    try:
        yield
    except StudyError as error:
        problems.extend(f"{label}: {line}" for line in str(error).split("\n"))


def _reading_notes(tables: Tables) -> Iterator[Note]:
    """The notes of the readers, with the view or table that they are about."""
    for name, frame in tables.frames.items():
        notes = [*aside_note(tables.aside[name]), *frame.attrs["notes"]]
        yield from (note.about(f"view {name!r}") for note in notes)
    if tables.participants is not None:
        yield from (note.about("participants") for note in tables.participants.attrs["notes"])
