"""Conversion that no column gives: derived from the diagnoses of the participants at all visits."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

from viewloom.clinical import first_conversion
from viewloom.data.naming import listed
from viewloom.study.config.schema import Conversion, Participants
from viewloom.study.errors import StudyError
from viewloom.study.readers.visits import NoVisit
from viewloom.study.reading import file_names, read_participants
from viewloom.study.visiting import at_visit, later_rules, years_at
from viewloom.study.wording import nearest

MOST_LABELS = 10  # diagnoses that an error may list


def with_conversion(frame: pd.DataFrame, people: Participants, match: str) -> pd.DataFrame:
    """The participants, with columns of time and event where the study derives a conversion."""
    if not isinstance(people.survival, Conversion) or people.diagnosis is None:
        return frame
    visits = pd.concat([pd.DataFrame(_start(frame, people)), *_later(frame.index, people, match)])
    _check_diagnoses(visits["diagnosis"], people.survival, file_names(people))
    if visits.loc[visits["years"] != 0, "years"].isna().all():
        raise StudyError(
            f"{file_names(people)}: no later visit gives a time for survival.converts_to; set date of "
            "[participants], or visit codes with months."
        )
    found = first_conversion(
        visits["id"],
        visits["years"],
        visits["diagnosis"],
        people.survival.converts_to,
        among=people.survival.among,
    ).reindex(frame.index)
    attrs, (time, event) = frame.attrs, people.survival.columns
    result = frame.assign(**{time: found["time"], event: found["event"]})
    result.attrs = attrs
    return result


def _start(frame: pd.DataFrame, people: Participants) -> dict[str, object]:
    return {"id": frame.index.to_numpy(), "years": 0.0, "diagnosis": frame[people.diagnosis].to_numpy()}


def _later(ids: pd.Index, people: Participants, match: str) -> Iterator[pd.DataFrame]:
    """Years and diagnoses at each later visit, of the subjects of the first one."""
    for rule in later_rules([people]):
        try:
            seen = read_participants(at_visit(people, rule), match, training=False)
        except NoVisit:
            continue
        seen = seen[seen.index.isin(ids)]
        years = years_at(people, rule, match, seen.index)
        yield pd.DataFrame(
            {"id": seen.index, "years": years.to_numpy(), "diagnosis": seen[people.diagnosis].to_numpy()}
        )


def _check_diagnoses(diagnosis: pd.Series, survival: Conversion, file: str) -> None:
    """Refuse diagnoses that nobody has at any visit."""
    known = sorted({str(label) for label in diagnosis.dropna()})
    for key, labels in (("converts_to", survival.converts_to), ("among", survival.among)):
        for label in labels:
            if label not in known:
                few = nearest(label, known) or f"; there are {listed(known)}."
                others = few if len(known) <= MOST_LABELS else f"; there are {len(known)} others."
                raise StudyError(f"{file}: no visit has the diagnosis {label!r} of survival.{key}{others}")
