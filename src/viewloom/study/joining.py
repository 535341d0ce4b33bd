"""The tables of a study before they are joined: problems that prevent the join, and notes on it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import pandas as pd

from viewloom.data.mixed import coded
from viewloom.data.naming import listed
from viewloom.study.aside import copies, in_full, shared_columns, without
from viewloom.study.config.schema import Study
from viewloom.study.errors import Message, Suggestion
from viewloom.study.ids import best_style, canonical_ids, styles_of
from viewloom.study.notes import Note, count_note
from viewloom.study.reading import column_names, file_names, none_left
from viewloom.study.selecting import CLUSTERED, Selection
from viewloom.study.tables_in_memory import among, is_sparse, with_rows
from viewloom.study.wording import nearest

LEAST_PER_CLUSTER = 2  # subjects
MOST_LABELS = 10  # diagnoses that an error may list


@dataclass(frozen=True, eq=False)
class Tables:
    """The tables of a study before they are joined.

    Attributes
    ----------
    frames : dict of str to DataFrame
        One per view that could be read, indexed by id.
    participants : DataFrame or None
    aside : dict of str to dict of str to str
        By view, the columns that are not features, and the reasons.
    notes : list of Note
    problems : list of str
        What keeps the study from being run.
    selection : Selection or None
        Who is clustered; None without rules. Subjects who are left out are in no frame then.
    """

    frames: dict[str, pd.DataFrame] = field(default_factory=dict)
    participants: pd.DataFrame | None = None
    aside: dict[str, dict[str, str]] = field(default_factory=dict)
    notes: list[Note] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    selection: Selection | None = None

    @cached_property
    def ids(self) -> pd.Index:
        """Subjects with at least one view, sorted."""
        return _union(frame.index for frame in self.frames.values())

    @property
    def clustered(self) -> Tables:
        """The tables of the subjects who are clustered."""
        return self if self.selection is None else self.of(CLUSTERED)

    def of(self, *roles: str) -> Tables:
        """The tables of the subjects with one of these roles."""
        assert self.selection is not None
        ids = self.selection.of(*roles)
        frames = {name: _of_subjects(frame, ids) for name, frame in self.frames.items()}
        return replace(self, frames=frames)


def _of_subjects(frame: pd.DataFrame, ids: pd.Index) -> pd.DataFrame:
    """Some rows of a table, with its attributes."""
    return with_rows(frame, among(frame.index, ids))


def join_notes(tables: Tables, study: Study) -> Iterator[Note]:
    """Notes on subjects and columns that the join leaves out or duplicates."""
    ids, people = tables.ids, tables.participants
    known = ids
    if people is not None and len(ids):
        known = _union([ids, people.index])
        unseen, unlisted = len(known) - len(ids), len(known) - len(people)
        yield from count_note(unseen, "participant is", "participants are", "in no view and left out")
        whose = "of the views"
        yield from count_note(
            unlisted, f"subject {whose} is", f"subjects {whose} are", "not among participants"
        )
    if study.ids.match == "exact":
        styles = styles_of(known)
        saved = {style: len(known) - canonical_ids(known, style).nunique() for style in styles}
        style = max(saved, key=lambda style: saved[style])
        way_out = f"spelled differently; match = {style!r} under [ids] would join them"
        matching = Suggestion({"match": style}, block=("ids",))
        found = count_note(saved[style], "id is", "ids are", way_out)
        yield from (replace(note, suggestions=(matching,)) for note in found)
    yield from shared_columns(tables.frames)


def without_copies(frames: Mapping[str, pd.DataFrame], people: pd.DataFrame | None, study: Study) -> Tables:
    """The tables without columns that are copies of named columns of the participants."""
    kept, problems = dict[str, pd.DataFrame](), list[str]()
    aside = {name: dict(frame.attrs["aside"]) for name, frame in frames.items()}
    for name, frame in frames.items():
        found = _copies(frame, people, study, name)
        aside[name] |= found
        left = without(frame, found)
        if left.shape[1]:
            kept[name] = left
        else:
            problems.append(f"view {name!r}: {none_left(study.views[name], aside[name])}")
    return Tables(kept, people, aside, problems=problems)


def _copies(frame: pd.DataFrame, people: pd.DataFrame | None, study: Study, view: str) -> dict[str, str]:
    """Copies of named columns, except those that the view names in full."""
    if people is None or study.participants is None:
        return {}
    roles = {column: key for key, column in reversed(study.participants.named_columns)}
    found = copies(frame, people, roles)
    return {column: why for column, why in found.items() if not in_full(study.views[view], column)}


def constant_columns(frame: pd.DataFrame) -> pd.Series:
    """Which columns have a single value, ignoring missing cells.

    >>> constant_columns(pd.DataFrame({"a": [1.0, None, 1.0], "b": [1.0, 2.0, 3.0]})).to_dict()
    {'a': True, 'b': False}
    """
    if is_sparse(frame):
        counts = [frame.iloc[:, j].array.npoints for j in range(frame.shape[1])]
        return pd.Series([count in (0, len(frame)) for count in counts], frame.columns)
    codes = coded(frame)
    return codes.max() == codes.min()


def _poor_views(tables: Tables, study: Study) -> Iterator[str]:
    """Views with a single column, or without any variation."""
    for name, frame in tables.frames.items():
        where = f"view {name!r}: {file_names(study.views[name])}"
        if not len(frame):
            yield f"{where}: none of the subjects to cluster has the view; leave it out, or change [cluster]."
        elif frame.shape[1] == 1:
            yield (
                f"{where}: the view has a single {column_names(frame.columns)}; add columns, or name it "
                "under outcomes of [participants] instead."
            )
        elif constant_columns(frame).all():
            yield f"{where}: no column varies among its {len(frame)} subjects; leave the view out."


def _unlinked_views(tables: Tables, study: Study) -> Iterator[Message]:
    """Views that have no subject in common with the other views."""
    linked, apart = _islands(tables.frames)
    if apart:
        a, b = (_union(tables.frames[name].index for name in names) for names in (linked, apart))
        way = _turned({name: tables.frames[name] for name in linked}, b)
        way = way or _turned({name: tables.frames[name] for name in apart}, a) or _way_out(a, b)
        yield Message(f"views {listed(linked)} have no subject in common with {listed(apart)}{way}", way)


def _few_subjects(tables: Tables, study: Study) -> Iterator[str]:
    n, k = len(tables.ids), study.model.n_clusters
    if len(tables.frames) == len(study.views) and n < LEAST_PER_CLUSTER * k:
        yield f"{n} subjects are too few for {k} clusters; at least {LEAST_PER_CLUSTER * k} are needed."


def _no_common_subject(tables: Tables, study: Study) -> Iterator[Message]:
    """Participants that have no subject in common with the views."""
    ids, people = tables.ids, tables.participants
    if people is not None and len(ids) and not among(ids, people.index).any():
        way = _turned(tables.frames, people.index) or _way_out(ids, people.index)
        yield Message(f"the views have no subject in common with participants{way}", way)


def _no_controls(tables: Tables, study: Study) -> Iterator[str]:
    """Controls that do not occur among the diagnoses."""
    column = study.participants and study.participants.diagnosis
    if tables.participants is None or column is None:
        return
    known = sorted({str(label) for label in tables.participants[column].dropna()})
    for controls in study.preparation.controls:
        if controls not in known:
            others = _others(controls, known)
            yield f"participants: no subject has the diagnosis {controls!r} of preparation.controls{others}"


def _others(label: str, known: list[str]) -> str:
    """The existing labels; if there are many they may be ids, and only their number is given."""
    few = nearest(label, known) or f"; there are {listed(known)}."
    return few if len(known) <= MOST_LABELS else f"; there are {len(known)} others."


def _islands(frames: Mapping[str, pd.DataFrame]) -> tuple[list[str], list[str]]:
    """Views that are linked to the first one by common subjects, and the others."""
    apart = list(frames)
    together, seen = apart[:1], _union(frames[name].index for name in apart[:1])
    while linked := [name for name in apart if among(frames[name].index, seen).any()]:
        together += [name for name in linked if name not in together]
        apart = [name for name in apart if name not in linked]
        seen = _union(frames[name].index for name in together)
    return together, apart


def _union(indices: Iterable[pd.Index]) -> pd.Index:
    found = {subject for index in indices for subject in index.to_numpy(dtype=object).tolist()}
    return pd.Index(sorted(found), dtype=str, name="id")


def _turned(frames: Mapping[str, pd.DataFrame], ids: pd.Index) -> Message | None:
    """The way out if columns of a view are subjects, and its rows are not in any spelling."""
    found = [
        name
        for name, frame in frames.items()
        if 2 * among(frame.columns, ids).sum() > frame.shape[1] and not best_style(frame.index, ids)[1]
    ]
    if not found:
        return None
    text = f": the columns of view {found[0]!r} are subjects; set format = 'matrix' there, without id."
    return Message(text, Suggestion({"format": "matrix"}, block=("views", found[0])))


def _way_out(a: pd.Index, b: pd.Index) -> Message:
    """The number of ids that do not match, and a possible solution."""
    style, shared = best_style(a, b)
    helps = f"set match = {style!r} under [ids], which matches {shared}."
    spelling = "check the id columns and the spelling of ids."
    found = [Suggestion({"match": style}, block=("ids",))] if shared else []
    return Message(f" ({len(a)} and {len(b)} ids): {helps if shared else spelling}", *found)


PROBLEMS = (_no_common_subject,)
TRAINING_PROBLEMS = (_poor_views, _unlinked_views, _few_subjects, _no_common_subject, _no_controls)
