"""From study.toml to the data of the study: read, match ids, join.

`read_tables` collects all errors; `load` raises them. Rows are sorted by id: the order of rows in the files
does not matter.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd

from viewloom.data.naming import name_text
from viewloom.data.views import Views
from viewloom.runtime.progress import stage
from viewloom.study.aside import aside_note, named_by_rules, named_elsewhere
from viewloom.study.config.schema import Study
from viewloom.study.conversion import with_conversion
from viewloom.study.errors import Message, StudyError
from viewloom.study.hashes import input_hashes
from viewloom.study.joining import PROBLEMS, TRAINING_PROBLEMS, Tables, join_notes, without_copies
from viewloom.study.notes import Note
from viewloom.study.readers.dates import Reference
from viewloom.study.readers.genotypes.panel import Panel
from viewloom.study.reading import (
    ATTACHED,
    read_participants,
    read_rule_columns,
    read_view,
    reference_dates,
)
from viewloom.study.selecting import CLUSTERED, REFERENCE, select
from viewloom.study.tables_in_memory import among, in_rows, is_sparse

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
    clustered : (n,) bool array or None
        Who is clustered; the others are reference. None: everyone.
    variants : dict of str to Panel
        By view of genotypes, its variants and alleles.
    """

    views: Views
    participants: pd.DataFrame | None
    notes: list[Note]
    inputs: dict[str, str]
    clustered: np.ndarray | None = None
    variants: dict[str, Panel] = field(default_factory=dict)

    def of(self, rows: np.ndarray) -> StudyData:
        """The data of some subjects, by a mask or their positions."""
        people = None if self.participants is None else self.participants.iloc[rows]
        return replace(self, views=self.views[rows], participants=people, clustered=None)


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
        Of genotypes, the `Panel` of their variants, whose alleles are counted as there.

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
    """Join all tables of a study to views with one row per subject; `StudyError` if that is not possible.

    The frames are taken out of `tables`, since those of very many subjects are not to be kept twice.
    """
    if tables.problems:
        raise StudyError(*tables.problems)
    ids, people = tables.ids, tables.participants
    found = {name: frame.attrs.get(ATTACHED) for name, frame in tables.frames.items()}
    variants = {name: panel for name, panel in found.items() if panel is not None}
    views = _joined(tables.frames, ids)
    chosen = None if tables.selection is None else among(ids, tables.selection.of(CLUSTERED))
    people = None if people is None else people.reindex(ids)
    return StudyData(views, people, tables.notes, input_hashes(study), chosen, variants)


def _joined(frames: dict[str, pd.DataFrame], ids: pd.Index) -> Views:
    """Views with one row per id; every frame is deleted once its rows are in order."""
    placed, present, features = dict[str, Any](), dict[str, np.ndarray](), dict[str, np.ndarray]()
    for name in list(frames):
        frame = frames.pop(name)
        placed[name] = in_rows(frame, ids)
        if not isinstance(placed[name], pd.DataFrame):  # a matrix has no names of features
            features[name] = np.asarray([name_text(column) for column in frame.columns], dtype=object)
        if is_sparse(frame):  # zeros do not tell who has the view
            present[name] = among(ids, frame.index)
    views = Views(placed, ids=ids, allow_nan=True)
    there = views.present.copy()
    for name, seen in present.items():
        there[:, views.index(name)] = seen
    return views.replaced(present=there, feature_names={**views.feature_names, **features})


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
    reference, problems = None, list[str]()
    with _collecting(problems, "participants", "participants"):
        reference = reference_dates(study.participants, study.ids.match)
    frames = _read_views(study, problems, training=training, reference=reference, needed=needed or {})
    people = _read_people(study, problems, training)
    tables = without_copies(frames, people if training else None, study)
    tables = replace(tables, participants=people)
    problems += tables.problems
    notes = [*_reading_notes(tables), *join_notes(tables, study)]
    selection = None
    if training and study.rules and not problems:
        with _collecting(problems):
            selection = select(study, tables.ids, people, _rule_tables(study, reference))
    if selection is not None:
        notes += selection.notes
        tables = replace(tables, selection=selection).of(CLUSTERED, REFERENCE)
    for problems_of in TRAINING_PROBLEMS if training else PROBLEMS:
        problems.extend(problems_of(tables.clustered, study))
    return replace(tables, notes=notes, problems=list(dict.fromkeys(problems)))


def _read_views(
    study: Study,
    problems: list[str],
    *,
    training: bool,
    reference: Reference | None,
    needed: Mapping[str, Collection[str]],
) -> dict[str, pd.DataFrame]:
    """The tables of views that can be read; errors are added to `problems`."""
    frames: dict[str, pd.DataFrame] = {}
    elsewhere = named_elsewhere(study)
    with stage("Views", len(study.views)) as advance:
        for name, view in study.views.items():
            with _collecting(problems, f"view {name!r}", "views", name):
                frames[name] = read_view(
                    view,
                    study.ids.match,
                    training=training,
                    elsewhere=elsewhere | named_by_rules(study, name),
                    needed=needed.get(name, ()),
                    reference=reference,
                    name=name,
                )
            advance(1)
    return frames


def _read_people(study: Study, problems: list[str], training: bool) -> pd.DataFrame | None:
    """The table of participants, or None without a readable one; errors are added to `problems`."""
    people = None
    if study.participants is not None:
        with _collecting(problems, "participants", "participants"):
            people = read_participants(study.participants, study.ids.match, training=training)
            if training:
                people = with_conversion(people, study.participants, study.ids.match)
    return people


def _rule_tables(study: Study, reference: Reference | None) -> dict[str, pd.DataFrame]:
    """By view, the columns of its table that rules name."""
    names = {view: [rule.column for rule in study.rules if rule.view == view] for view in study.views}
    found = {}
    for view, columns in names.items():
        if columns:
            with _naming(f"view {view!r}", "views", view):
                unique = list(dict.fromkeys(columns))
                found[view] = read_rule_columns(study.views[view], unique, study.ids.match, reference)
    return found


@contextmanager
def _collecting(problems: list[str], label: str | None = None, *block: str) -> Iterator[None]:
    """Collect errors instead of raising them."""
    try:
        with _naming(label, *block):
            yield
    except StudyError as error:
        problems.extend(error.lines)


@contextmanager
def _naming(label: str | None, *block: str) -> Iterator[None]:
    """Add the name of a source to every line of an error, and its block to what they suggest."""
    try:
        yield
    except StudyError as error:
        start = "" if label is None else f"{label}: "
        raise StudyError(*(Message(start + line, line).within(*block) for line in error.lines)) from None


def _reading_notes(tables: Tables) -> Iterator[Note]:
    """The notes of the readers, with the view or table that they are about."""
    for name, frame in tables.frames.items():
        notes = [*aside_note(tables.aside[name]), *frame.attrs["notes"]]
        yield from (note.about(f"view {name!r}") for note in notes)
    if tables.participants is not None:
        yield from (note.about("participants") for note in tables.participants.attrs["notes"])
