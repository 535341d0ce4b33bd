"""Follow-up: later visits of a study, prepared as the first one and placed by its model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from viewloom.clinical import Slopes, slopes
from viewloom.clinical.variables import as_numbers, variable_of
from viewloom.data.naming import listed
from viewloom.data.views import Views
from viewloom.models.kernel_nmf import KernelMultiviewNMF
from viewloom.runtime.errors import MissingPackageError
from viewloom.runtime.threads import one_thread
from viewloom.study import readers
from viewloom.study.aside import named_by_rules, named_elsewhere
from viewloom.study.cohort import StudyData
from viewloom.study.config.repeated import ALL, repeated_sources, visit_rule
from viewloom.study.config.schema import Study
from viewloom.study.errors import StudyError
from viewloom.study.notes import Count, Note, count_note
from viewloom.study.preparation.fitted import Preparation
from viewloom.study.readers.visits import NoVisit, Rule, rule_of
from viewloom.study.reading import ReferenceDates, read_participants, read_view, reference_dates
from viewloom.study.visiting import at_visit, later_rules, visit_name, years_at

Array = np.ndarray
BASELINE = "baseline"


@dataclass(frozen=True, eq=False)
class LaterVisit:
    """The data of a later visit, of subjects of the first one.

    Attributes
    ----------
    name : str
    views : Views
        Prepared views of subjects who have at least one view at the visit.
    outcomes : DataFrame
        All subjects with a row of participants at the visit: ``years`` since the first one, and the outcomes.
    """

    name: str
    views: Views
    outcomes: pd.DataFrame

    @property
    def seen(self) -> list[str]:
        """Views that at least one subject has."""
        return [name for a, name in enumerate(self.views.names) if self.views.present[:, a].any()]


@dataclass(frozen=True, eq=False)
class Followup:
    """Clusters and outcomes at several visits.

    Attributes
    ----------
    labels : DataFrame
        Subjects (rows) by visits: the cluster, NaN where a subject was not seen. The first column,
        ``baseline``, has the clusters of the fit.
    same_views : DataFrame
        The same subjects and later visits: the cluster in which the data of the first visit are placed, if
        only the views are used that the subject has at the later visit.
    views : dict of str to list of str
        By visit, the views that at least one subject has.
    outcomes : DataFrame
        One row per subject and visit: ``id``, ``visit``, ``years``, and the outcomes.
    slopes : dict of str to Slopes
        Change of each numeric outcome per year, by cluster of the first visit.
    notes : list of Note
    """

    labels: pd.DataFrame
    same_views: pd.DataFrame
    views: dict[str, list[str]]
    outcomes: pd.DataFrame
    slopes: dict[str, Slopes] = field(default_factory=dict)
    notes: list[Note] = field(default_factory=list)

    @property
    def visits(self) -> list[str]:
        """Names of the later visits."""
        return [str(name) for name in self.labels.columns[1:]]


def read_followup(study: Study, data: StudyData, preparation: Preparation) -> list[LaterVisit]:
    """Read the later visits that a study names, and prepare them as the first one.

    Views that have a `visit` are read at the later visit, genotypes are those of the first visit, and other
    views are missing.

    Parameters
    ----------
    study : Study
    data : StudyData
        Of the first visit.
    preparation : Preparation
        Fitted on the first visit.

    Returns
    -------
    list of LaterVisit
        Empty if the study names none.

    Raises
    ------
    StudyError
        If no view has one of the visits.
    """
    if not study.followup.visits:
        return []
    repeated = [source for name, source in repeated_sources(study).items() if name != "participants"]
    everything = study.followup.visits == [ALL]
    rules = later_rules(repeated) if everything else [rule_of(visit) for visit in study.followup.visits]
    if not rules:
        raise StudyError("followup: no view has a visit later than the one that is kept; leave visits out.")
    reference = reference_dates(study.participants, study.ids.match)
    return [_at(study, data, rule, preparation, reference) for rule in rules]


def visit_notes(later: list[LaterVisit], total: int) -> list[Note]:
    """How many subjects have which views at each later visit."""
    notes = []
    for visit in later:
        count = Count(len(visit.views), "subject", total=total)
        views = f" with at least one of the views {listed(visit.seen)}"
        notes.append(Note((f"visit {visit.name!r}: ", count, views)))
    return notes


def _at(
    study: Study, data: StudyData, rule: Rule, preparation: Preparation, reference: ReferenceDates | None
) -> LaterVisit:
    """Read and prepare one later visit."""
    frames, fixed = _frames(study, rule, preparation, reference)
    seen = {subject for frame in frames.values() for subject in frame.index}
    assert data.views.ids is not None
    ids = pd.Index([subject for subject in data.views.ids if subject in seen], dtype=str, name="id")
    if not len(ids):
        raise StudyError(
            f"followup: no view has a subject of the first visit at visit {visit_name(rule)!r}; check visits."
        )
    both = frames | fixed
    tables = {name: both[name].reindex(ids) for name in study.views if name in both}
    tables = {name: frame for name, frame in tables.items() if frame.notna().to_numpy().any()}
    outcomes, people = _people(study, data, rule, ids)
    views = preparation.transform(Views(tables, ids=ids, allow_nan=True), people)
    return LaterVisit(visit_name(rule), views, outcomes)


def _frames(
    study: Study, rule: Rule, preparation: Preparation, reference: ReferenceDates | None
) -> tuple[dict[str, pd.DataFrame], dict[str, pd.DataFrame]]:
    """Tables of the views at a later visit, and those of genotypes, which do not change."""
    more: Any = {"training": False, "reference": reference}
    frames, fixed = dict[str, pd.DataFrame](), dict[str, pd.DataFrame]()
    for prepared in preparation.views:
        view, name = study.views[prepared.name], prepared.name
        more["needed"] = prepared.needed
        more["elsewhere"] = named_elsewhere(study) | named_by_rules(study, name)
        if visit_rule(view) is not None:
            try:
                frame = read_view(at_visit(view, rule), study.ids.match, **more)
            except NoVisit:
                continue
            kept = frame.columns.isin(prepared.features_out)
            frames[name] = frame[frame.loc[:, kept].notna().any(axis=1)]
        elif readers.FORMATS[view.format].genotypes or name in study.preparation.genotypes:
            fixed[name] = read_view(view, study.ids.match, **more)
    return frames, fixed


def _people(
    study: Study, data: StudyData, rule: Rule, ids: pd.Index
) -> tuple[pd.DataFrame, pd.DataFrame | None]:
    """Outcomes at a later visit, and participants for the preparation."""
    people, start = study.participants, data.participants
    if people is None or start is None:
        return pd.DataFrame({"years": pd.Series(dtype=float)}), None
    now = None
    if visit_rule(people) is not None:
        try:
            now = read_participants(at_visit(people, rule), study.ids.match, training=False)
        except NoVisit:
            now = None
    if now is None:
        return pd.DataFrame({"years": pd.Series(dtype=float)}), start.reindex(ids)
    now = now[now.index.isin(start.index)]
    years = years_at(people, rule, study.ids.match, now.index)
    outcomes = now[list(people.outcomes)].assign(years=years)
    used = [*people.covariates, people.site, study.cluster.severity_column]
    return outcomes, _filled(now.reindex(ids), start.reindex(ids), used)


def _filled(now: pd.DataFrame, start: pd.DataFrame, names: Iterable[str | None]) -> pd.DataFrame:
    """Participants at a visit, with columns that are missing there from the first visit."""
    known = [name for name in names if name is not None]
    return now.assign(**{name: now[name].where(now[name].notna(), start[name]) for name in known})


def follow(
    later: list[LaterVisit],
    model: KernelMultiviewNMF,
    views: Views,
    data: StudyData,
    outcomes: Iterable[str],
) -> Followup | None:
    """Place later visits by the model of the first one.

    Parameters
    ----------
    later : list of LaterVisit
        From `read_followup`.
    model : KernelMultiviewNMF
        Fitted to `views`.
    views : Views
        The prepared views of the first visit.
    data : StudyData
        Of the first visit.
    outcomes : iterable of str
        Columns of the participants whose change is estimated.

    Returns
    -------
    Followup or None
        None without later visits.
    """
    if not later or views.ids is None:
        return None
    labels = pd.DataFrame({BASELINE: model.labels_.astype(float)}, index=views.ids)
    same = pd.DataFrame(index=views.ids)
    with one_thread():
        for visit in later:
            placed = _clustered(visit.views, views.ids)
            labels[visit.name] = _labels(model, placed).reindex(views.ids)
            same[visit.name] = _labels(model, _as_seen(views, placed)).reindex(views.ids)
    table = _outcomes(later, data, list(outcomes), views.ids)
    found, notes = _slopes(table, labels[BASELINE], list(outcomes))
    return Followup(labels, same, {visit.name: visit.seen for visit in later}, table, found, notes)


def _clustered(later: Views, ids: pd.Index) -> Views:
    """The subjects of a later visit who were clustered at the first one."""
    assert later.ids is not None
    return later[later.ids.isin(ids)]


def _labels(model: KernelMultiviewNMF, views: Views) -> pd.Series:
    """The cluster of each subject, by id."""
    if not len(views):
        return pd.Series(dtype=float)
    return pd.Series(np.asarray(model.transform(views)).argmax(axis=1).astype(float), index=views.ids)


def _as_seen(views: Views, later: Views) -> Views:
    """The first visit of the subjects of a later one, with the views that they have at both."""
    assert views.ids is not None
    assert later.ids is not None
    start = views[views.ids.get_indexer(later.ids)]
    both = start.present & later.present
    left = both.any(axis=1)
    return Views(start[left], present=both[left])


def _outcomes(later: list[LaterVisit], data: StudyData, names: list[str], ids: pd.Index) -> pd.DataFrame:
    """Outcomes of the clustered subjects at all visits, one row per subject and visit."""
    if data.participants is None:
        return pd.DataFrame(columns=pd.Index(["id", "visit", "years"]))
    start = data.participants.reindex(ids)[names].assign(years=0.0)
    parts = [
        frame[frame.index.isin(ids)].assign(visit=name)
        for name, frame in [(BASELINE, start), *((visit.name, visit.outcomes) for visit in later)]
        if len(frame)
    ]
    table = pd.concat(parts).rename_axis("id").reset_index()
    return table[["id", "visit", "years", *names]]


def _slopes(table: pd.DataFrame, labels: pd.Series, names: list[str]) -> tuple[dict[str, Slopes], list[Note]]:
    """Slopes of the numeric outcomes, and notes on those that are not estimated."""
    if not names or table["visit"].nunique() < 2:
        text = "the participants have no later visits, so that no change of outcomes is estimated"
        return {}, [Note((text,))] if names else []
    timed = table[table["years"].notna()]
    if timed["visit"].nunique() < 2:
        return {}, [Note(("later visits have neither months nor dates, so that no change is estimated",))]
    numeric = [name for name in names if variable_of(name, timed[name], False).kind == "numeric"]
    try:
        found = {name: _slope(timed, labels, name) for name in numeric}
    except MissingPackageError as error:
        return {}, [Note((str(error),))]
    return found, list(_slope_notes(found, len(table) - len(timed)))


def _slope(table: pd.DataFrame, labels: pd.Series, name: str) -> Slopes:
    values = as_numbers(table[name])
    return slopes(labels.loc[table["id"]].to_numpy().astype(int), table["id"], table["years"], values)


def _slope_notes(found: dict[str, Slopes], untimed: int) -> Iterator[Note]:
    failed = [name for name, one in found.items() if not one.converged]
    if failed:
        yield Note((f"the mixed model did not converge for {listed(failed)}, whose change is not estimated",))
    simple = [name for name, one in found.items() if one.converged and one.random == "intercept"]
    if simple:
        yield Note((f"the mixed model has random intercepts only for {listed(simple)}, since it did not "
                    "converge with random slopes",))  # fmt: skip
    yield from count_note(untimed, "visit of outcomes without a time", "visits of outcomes without a time")
