"""Read one source of a study, a view or the participants, as a table indexed by canonical id.

Notes on a table are in its ``attrs["notes"]``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd

from viewloom.clinical import as_categories
from viewloom.data.matrix import LARGEST
from viewloom.data.naming import listed
from viewloom.study import levels, readers, sentinels
from viewloom.study.aside import aside_note, counters, in_full, sorted_by, without
from viewloom.study.config.schema import Participants, View
from viewloom.study.errors import Message, StudyError
from viewloom.study.ids import canonical_ids, count_unknown, extracted
from viewloom.study.notes import Note, count_note
from viewloom.study.readers.dates import Days, Reference, days_of
from viewloom.study.readers.frames import matches
from viewloom.study.readers.mixed import BY_STUDY, CONTINUOUS, INFERRED, NOMINAL, Types
from viewloom.study.readers.shaping import check_matched
from viewloom.study.spelling import names_from, spelled_as
from viewloom.study.tables_in_memory import has_value, is_sparse, numeric_columns, values_of, with_rows
from viewloom.study.wording import counted, folded, nearest

CHECK = "check visit and missing_codes"
LEARNED = ("min_maf", "min_call_rate", "min_info", "ld_prune")  # options that choose columns by their values
OF_MODEL = ("max_absent", "sample", "field")  # options of genotypes that do not choose variants
ATTACHED = "variants"  # panel of the variants of a view, among the attributes of its frame


def read_view(
    view: View,
    match: str,
    *,
    training: bool = True,
    elsewhere: Mapping[str, str] | None = None,
    needed: Collection[str] = (),
    reference: Reference | None = None,
    name: str | None = None,
) -> pd.DataFrame:
    """Read a view; subjects without any value are left out.

    Parameters
    ----------
    view : View
    match : {"exact", "adni", "bids"}
        How ids are matched; see `ids.canonical_ids`.
    training : bool, default=True
        Whether to leave out columns without any value, rare variants and row numbers. New subjects need all
        columns of training.
    elsewhere : dict of str to str, optional
        Columns that are not features; see `aside.named_elsewhere`.
    needed : collection of str
        Columns that are always features, since a model was fitted on them.
    reference : Reference, optional
        Dates of the participants; see `reference_dates`.
    name : str, optional
        Name of the view, by which `columns_from` finds the view of another study.

    Returns
    -------
    DataFrame
        ``attrs["aside"]`` has the columns that were set aside, and the reasons; ``attrs["variants"]``, of
        genotypes, the panel of their variants.
    """
    features = Features(view, elsewhere or {}, needed, training, reference, name)
    parts = [_matched(features.read(path), match, file_names(view)) for path in _sources(view)]
    frame = _together(parts, view)
    problems = [*_code_problems(view, numeric_columns(frame)), *_level_problems(view, frame)]
    if training:
        _check_types(view, frame)
    if problems:
        raise StudyError(*problems)
    seen = has_value(frame)
    absent = count_note(int((~seen).sum()), "subject without any value", "subjects without any value")
    doubts = sentinels.doubts(numeric_columns(frame), view.missing_codes) if _has_codes(view) else []
    notes = [*frame.attrs["notes"], *absent, *doubts, *_inferred_note(frame)]
    kept = frame if seen.all() else with_rows(frame, seen)
    return _noted(_transformed(kept, view), notes, frame.attrs["aside"])


@dataclass(frozen=True)
class Features:
    """Reads files of a view, and sets aside columns that are not features; see `read_view`."""

    view: View
    elsewhere: Mapping[str, str]
    needed: Collection[str]
    training: bool
    reference: Reference | None = None
    name: str | None = None

    def read(self, path: Path | list[Path]) -> pd.DataFrame:
        """Read the features of a file."""
        read = _read_chosen if self.training else _read_all_columns
        more: dict[str, Any] = {"aside": self.named, "reference": self.reference}
        more |= {} if self.training else {"types": self._types(path)}
        if not self.training and len(self.needed) and self.view.counts_alleles:
            read, more["needed"] = _read_variants, self.needed
        frame = read(self.view, path, **{k: v for k, v in more.items() if readers.takes(self.view.format, k)})
        frame = self._spelled(frame)
        named = [*frame.attrs["aside"], *filter(self.named, map(str, frame.columns))]
        why = {name: self.elsewhere[folded(name)] for name in named}
        left = without(frame, why)
        if self.training:
            why |= {name: reason for name, reason in counters(left).items() if not self.is_feature(name)}
            left = without(left, why)
        if not left.shape[1]:
            raise StudyError(none_left(self.view, why))
        return _noted(left, [*frame.attrs["notes"], *self._order_note(left)], why)

    def _types(self, path: Path | list[Path]) -> Types:
        """Types of the columns of new subjects: with levels where the model has them, in whatever order."""
        own = {
            name: setting if setting == CONTINUOUS or isinstance(setting, Mapping) else NOMINAL
            for name, setting in (self.view.types or {}).items()
        }
        known = self.needed if isinstance(self.needed, Mapping) else {}
        of_model = {folded(name): CONTINUOUS if levels is None else NOMINAL for name, levels in known.items()}
        header = readers.Sample(path, self.view.part).header if isinstance(path, Path) and known else []
        names = [(self.view.rename or {}).get(name, name) for name in header]
        found = {name: of_model[folded(name)] for name in names if folded(name) in of_model}
        return {**found, **own}

    def _spelled(self, frame: pd.DataFrame) -> pd.DataFrame:
        """The table with the names of columns of `columns_from`."""
        if self.view.columns_from is None:
            return frame
        return spelled_as(frame, names_from(self.view.columns_from, self.name), file_names(self.view))

    def named(self, column: str) -> bool:
        """Whether the study names a column as something other than a feature."""
        return folded(column) in self.elsewhere and not self.is_feature(column)

    def is_feature(self, column: str) -> bool:
        """Whether a column is always a feature."""
        return column in self.needed or in_full(self.view, column)

    def _order_note(self, frame: pd.DataFrame) -> list[Note]:
        found = [name for name in sorted_by(frame) if not self.is_feature(name)] if self.training else []
        text = f"that the rows of the file are sorted by kept as features: {listed(found)}"
        return count_note(len(found), "column", text=text, public=True)


def _check_types(view: View, frame: pd.DataFrame) -> None:
    """Refuse types of columns that are not features."""
    names = [*map(str, frame.columns), *frame.attrs["aside"]]
    for pattern in view.types or {}:
        if not any(matches(name, [pattern]) for name in names):
            hint = nearest(pattern, names) or "."
            raise StudyError(f"{file_names(view)}: no feature matches {pattern!r} of types{hint}")


def _level_problems(view: View, frame: pd.DataFrame) -> Iterator[str]:
    """Levels with several spellings, in columns whose levels the study does not declare."""
    for name in levels.levelled(frame):
        if frame.attrs["types"].get(name) != BY_STUDY:
            yield from (
                f"{file_names(view)}: {line}" for line in levels.spelling_problems(frame[name], "types")
            )


def _inferred_note(frame: pd.DataFrame) -> list[Note]:
    found = [name for name, source in frame.attrs["types"].items() if source == INFERRED and name in frame]
    text = f"of text taken for nominal: {listed(found)}; set types if they are not"
    return count_note(len(found), "column", text=text, public=True)


def read_rule_columns(
    view: View, names: Collection[str], match: str, reference: Reference | None = None
) -> pd.DataFrame:
    """Columns of a view's table that rules name, as numbers or text, indexed by id.

    They are of the same visit as the features, which may depend on the `reference` dates. A reader that
    reads numbers only gives numeric columns only.
    """
    parts = [
        _matched(frame, match, file_names(view))
        for path in _sources(view)
        if (frame := _rule_part(view, path, names, reference)) is not None
    ]
    found = {str(name) for part in parts for name in part.columns}
    absent = [name for name in names if name not in found]
    if absent:
        raise StudyError(f"{file_names(view)}: {_no_rule_column(view, absent[0])}")
    whole = parts[0]
    for part in parts[1:]:
        whole = whole.combine_first(part)
    return whole.reindex(columns=list(names))


def _no_rule_column(view: View, name: str) -> str:
    """Why a view has no column for a rule."""
    known = sorted({name for path in view.inputs for name in readers.Sample(path, view.part).header})
    if name in known:
        way = "use require_qc, or " if readers.takes(view.format, "require_qc") else ""
        return (
            f"column {name!r}, named under [cluster], is not read by format {view.format!r}, which has "
            f"numeric features only; {way}add the column to the participants."
        )
    hint = nearest(name, known) or (f"; there are {listed(known)}." if known else ".")
    return f"no column {name!r}, named under [cluster]{hint}"


def _rule_part(
    view: View, path: Path | list[Path], names: Collection[str], reference: Reference | None
) -> pd.DataFrame | None:
    """The columns in one file; None where it has none of them."""
    texts = readers.takes(view.format, "numeric")
    options = {
        key: value for key, value in view.options.items() if key not in {*LEARNED, "exclude", "columns"}
    }
    if readers.takes(view.format, "needed"):
        return _read_variants(view, path, needed=list(names))
    header = readers.Sample(path, view.part).header if isinstance(path, Path) and not view.rename else []
    here = [name for name in names if name in header]
    if header and not here:
        return None
    chosen = {"columns": here} if here and texts else {}
    more: dict[str, Any] = {"numeric": False} if texts else {}
    more |= {"reference": reference} if readers.takes(view.format, "reference") else {}
    frame = _read(view, path, {**options, **chosen}, **more)
    empty = [name for name in frame.attrs["empty"] if name in names]
    return _noted(frame.reindex(columns=[*(name for name in frame.columns if name in names), *empty]), ())


def none_left(view: View, why: Mapping[str, str]) -> str:
    """The message that all columns of a view were set aside."""
    return f"{file_names(view)}: no features are left: {''.join(map(str, aside_note(why)))}."


def read_participants(people: Participants, match: str, *, training: bool = True) -> pd.DataFrame:
    """Read the columns of the participants that the study names, with diagnosis and site as text.

    Parameters
    ----------
    people : Participants
    match : {"exact", "adni", "bids"}
    training : bool, default=True
        Whether a column without any value is an error. For new subjects much may be unknown.
    """
    frame = _read(people, people.path, people.options, numeric=False)
    problems = [*_column_problems(people, frame, training), *_value_problems(people, frame)]
    if problems:
        raise StudyError(*problems)
    named = list(dict.fromkeys(column for _, column in people.named_columns))
    frame = _matched(frame, match, file_names(people))
    chosen = levels.with_levels(frame.reindex(columns=named), people)
    for column in set(people.categorical).intersection(named):
        chosen[column] = levels.as_declared(chosen[column])
    for column in filter(None, (people.diagnosis, people.site)):
        chosen[column] = pd.Series(as_categories(chosen[column]), chosen.index, dtype=object)
    numbers = chosen.select_dtypes("number")
    return _noted(chosen, [*frame.attrs["notes"], *sentinels.doubts(numbers, people.missing_codes)])


@dataclass(frozen=True, eq=False)
class ReferenceDates:
    """Dates of the participants, by canonical id."""

    days: Days
    match: str

    def of(self, ids: pd.Series) -> Days:
        """The date of each subject, NaN where there is none."""
        found = self.days.number.reindex(canonical_ids(ids.fillna("").tolist(), self.match))
        return Days(found.set_axis(ids.index), self.days.calendar)


def reference_dates(people: Participants | None, match: str) -> ReferenceDates | None:
    """The dates of the participants at the visit that is kept; None if the study names no column of dates."""
    if people is None or people.date is None:
        return None
    frame = _matched(_read(people, people.path, people.options, numeric=False), match, file_names(people))
    if people.date not in frame.columns:
        raise StudyError(f"{file_names(people)}: column {people.date!r} has no date; check date and visit.")
    return ReferenceDates(days_of(frame[people.date], people.path), match)


def _column_problems(people: Participants, frame: pd.DataFrame, training: bool) -> Iterator[str]:
    """Columns that the study names, and that are absent or without any value."""
    empty, known = frame.attrs["empty"], list(frame.columns)
    for key, column in people.named_columns:
        where = f"{file_names(people)}: "
        if column in empty and training:
            yield f"{where}column {column!r}, named under {key}, has no value; remove it, or {CHECK}."
        elif column not in [*empty, *known] and (training or not key.startswith("cluster.")):
            hint = nearest(column, known) or f"; there are {listed(known)}."
            yield f"{where}no column {column!r}, named under {key}{hint}"


def _value_problems(people: Participants, frame: pd.DataFrame) -> Iterator[str]:
    """Named columns with text among numbers, missing codes, or several spellings of a level."""
    where, codes = f"{file_names(people)}: ", [people.diagnosis, people.site]
    known = [*dict.fromkeys(name for _, name in people.named_columns if name in frame.columns)]
    faults = frame.attrs["faults"]
    frame = levels.with_levels(frame[known], people)
    open_ = [name for name in known if name not in people.categorical]
    for name in open_:
        if name in faults and name not in [*codes, *people.levels]:
            yield faults[name]
        elif name in codes or levels.is_categorical(frame[name]):
            yield from (where + line for line in levels.spelling_problems(frame[name]))
    numbers = [name for name in open_ if not levels.is_categorical(frame[name])]
    yield from _code_problems(people, frame[numbers], ordinal=True)


def _code_problems(
    source: Participants | View, frame: pd.DataFrame, *, ordinal: bool = False
) -> Iterator[str]:
    """Numbers that look like missing codes, unless the study declares them."""
    given = source.missing_codes
    names = sentinels.undecided([str(name) for name in frame.columns], given)
    if names and _has_codes(source):
        found = sentinels.candidates(frame[names], ordinal=ordinal)
        yield from (
            Message(f"{file_names(source)}: {line}", line) for line in sentinels.messages(found, given)
        )


def _has_codes(source: Participants | View) -> bool:
    return readers.takes(source.format, "missing_codes")


def _sources(view: View) -> list[Path | list[Path]]:
    """The path or paths for each call of the reader."""
    together = view.path is not None or readers.FORMATS[view.format].several
    return [view.source] if together else list(view.paths or [])


def _read(
    source: Participants | View, path: Path | list[Path], options: Mapping[str, Any], **more: Any
) -> pd.DataFrame:
    own = source.id_pattern is not None and readers.takes(source.format, "pattern")
    more |= {"pattern": source.id_pattern} if own else {}
    frame = readers.FORMATS[source.format](path, **options, **more)
    return frame if own or source.id_pattern is None else _by_pattern(frame, source)


def _by_pattern(frame: pd.DataFrame, source: Participants | View) -> pd.DataFrame:
    """The table with the ids that a pattern finds; rows whose id does not match are left out."""
    found = extracted(pd.Series(frame.index.astype(str)), str(source.id_pattern))["id"].to_numpy()
    matched = pd.notna(found)
    check_matched(int(matched.sum()), len(frame), file_names(source), None)
    kept = frame[matched].set_axis(pd.Index(found[matched], dtype=str, name="id"), axis=0)
    left = count_note(int((~matched).sum()), "id does not match", "ids do not match", "the pattern: left out")
    kept.attrs = {**frame.attrs, "notes": [*frame.attrs["notes"], *left]}
    return kept


def _read_chosen(view: View, path: Path | list[Path], **more: Any) -> pd.DataFrame:
    """Read a file of a view; columns without any value are left out and noted."""
    frame = _read(view, path, view.options, **more)
    empty = frame.attrs["empty"]
    left_out = f"left out: {listed(empty)}"
    found = count_note(
        len(empty), "column without any value", "columns without any value", left_out, public=True
    )
    return _noted(frame, [*frame.attrs["notes"], *found], frame.attrs.get("aside", ()))


def _read_all_columns(view: View, path: Path | list[Path], **more: Any) -> pd.DataFrame:
    """Read a file of a view with all its columns."""
    options = {key: value for key, value in view.options.items() if key not in LEARNED}
    frame = _read(view, path, {**options, **more})
    columns = [*frame.columns, *frame.attrs["empty"]]
    return _noted(frame.reindex(columns=columns), frame.attrs["notes"], frame.attrs.get("aside", ()))


def _read_variants(view: View, path: Path | list[Path], **more: Any) -> pd.DataFrame:
    """Read the variants of a model, with those that are absent."""
    options = {key: value for key, value in view.options.items() if key in OF_MODEL}
    frame = _read(view, path, options, **more)
    return _noted(frame.reindex(columns=list(more["needed"])), frame.attrs["notes"])


def _together(frames: list[pd.DataFrame], view: View) -> pd.DataFrame:
    """Concatenate the files of a view: rows if their subjects differ, else columns."""
    if len(frames) == 1:
        return frames[0]
    notes = [note for frame in frames for note in frame.attrs["notes"]]
    aside = {name: why for frame in frames for name, why in frame.attrs["aside"].items()}
    if not _any_twice(frame.index for frame in frames):
        stacked = without(_joined(frames, 0), aside)
        if not stacked.shape[1]:
            raise StudyError(none_left(view, aside))
        return _noted(stacked, notes, aside)
    if not _any_twice(frame.columns for frame in frames):
        return _noted(_joined(frames, 1), notes, aside)
    raise StudyError(
        f"{file_names(view)}: the files have both subjects and columns in common; define two views."
    )


def _joined(frames: list[pd.DataFrame], axis: Literal[0, 1]) -> pd.DataFrame:
    """Concatenate tables without their attributes, which pandas would compare."""
    bare = [frame.copy(deep=False) for frame in frames]
    for frame in bare:
        frame.attrs = {}
    joined = pd.concat(levels.with_common_levels(bare) if axis == 0 else bare, axis=axis)
    joined.attrs["types"] = {name: why for frame in frames for name, why in frame.attrs["types"].items()}
    return joined


def _any_twice(indices: Iterable[pd.Index]) -> bool:
    every = [name for index in indices for name in index]
    return len(set(every)) < len(every)


def _matched(frame: pd.DataFrame, match: str, file: str) -> pd.DataFrame:
    """The table with canonical ids."""
    ids = canonical_ids(frame.index, match)
    repeated = int(ids.duplicated().sum())
    if repeated:
        style = "" if match == "exact" else f" (ids matched as {match!r})"
        raise StudyError(
            f"{file}: {counted(repeated, 'row')} with a duplicate id{style}; keep one row per subject, "
            "for example by choosing a visit."
        )
    style = f"not of the {match!r} style and kept unchanged"
    unknown = count_note(count_unknown(frame.index, match), "id is", "ids are", style)
    aside = frame.attrs.get("aside", ())
    return _noted(frame.set_axis(ids, axis=0), [*frame.attrs["notes"], *unknown], aside)


def _noted(frame: pd.DataFrame, notes: Iterable[Note], aside: Collection[str] = ()) -> pd.DataFrame:
    attached, types = frame.attrs.get(ATTACHED), frame.attrs.get("types", {})
    frame.attrs = {"notes": list(notes), "aside": aside, "types": types}
    if attached is not None:
        frame.attrs[ATTACHED] = attached
    return frame


def _transformed(frame: pd.DataFrame, view: View) -> pd.DataFrame:
    """Values after the transformation that the study sets, which columns with levels do not have."""
    if is_sparse(frame):
        _check_untransformed(view)
        return frame
    numbers = numeric_columns(frame)
    values = values_of(numbers)
    with np.errstate(all="ignore"):
        changed = TRANSFORMS[view.transform](values)
    if view.transform != "none" or _largest(changed) > LARGEST:  # otherwise there is nothing to look for
        what = "infinite" if view.transform == "none" else f"without a finite {view.transform}"
        _check_values(~np.isfinite(changed) & ~np.isnan(values), what, numbers, view)
        far = f"beyond {LARGEST:g}, too large for the computation"
        _check_values(np.abs(changed) > LARGEST, far, numbers, view)
    done = pd.DataFrame(changed, frame.index, numbers.columns)
    if done.shape[1] < frame.shape[1]:
        done = pd.concat([done, frame.drop(columns=numbers.columns)], axis=1)[list(frame.columns)]
    done.attrs = dict(frame.attrs)
    return done


def _check_untransformed(view: View) -> None:
    if view.transform != "none":
        raise StudyError(f"{file_names(view)}: transform = {view.transform!r} has no use for zeros and ones.")


def _largest(values: np.ndarray) -> float:
    """The largest absolute value; NaN do not count."""
    ends = (extreme.reduce(values, axis=None, initial=0.0) for extreme in (np.fmin, np.fmax))
    return max(abs(float(end)) for end in ends)


def _check_values(bad: np.ndarray, what: str, frame: pd.DataFrame, view: View) -> None:
    """Raise an error if a view has invalid values."""
    if bad.any():
        bad_columns = frame.columns[np.flatnonzero(bad.any(axis=0))]
        ways = [way for option, way in WAYS_OUT.items() if readers.takes(view.format, option)]
        raise StudyError(
            f"{file_names(view)}: {bad.sum()} values are {what}, in {column_names(bad_columns)}; "
            f"{', '.join([*ways, 'or change transform'])}."
        )


def file_names(source: Participants | View) -> str:
    """Names of the files of a source, for an error message."""
    return ", ".join(path.name for path in source.inputs[:3])


def column_names(names: pd.Index) -> str:
    """Names of columns, for an error message."""
    return f"column{'s' * (len(names) > 1)} {listed(list(names))}"


WAYS_OUT = {
    "missing_codes": "name codes of missing values under missing_codes",
    "exclude": "leave the columns out with exclude",
}
TRANSFORMS: dict[str, Any] = {"none": np.asarray, "log": np.log, "log1p": np.log1p, "sqrt": np.sqrt}
