"""Checks of a study before it runs: available views, missing data, and what is left out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd

from viewloom.clinical.survival import check_follow_up
from viewloom.data.naming import listed
from viewloom.data.views import Views
from viewloom.models.kernel_nmf import KernelMultiviewNMF
from viewloom.runtime.memory import return_freed_memory
from viewloom.runtime.progress import stage
from viewloom.runtime.threads import one_thread
from viewloom.study.cohort import StudyData, join, read_tables
from viewloom.study.compute import model_settings
from viewloom.study.config.schema import Study
from viewloom.study.errors import StudyError
from viewloom.study.followup import LaterVisit, read_followup, visit_notes
from viewloom.study.hashes import check_unchanged, input_hashes
from viewloom.study.joining import Tables, constant_columns
from viewloom.study.left_out import check_sites
from viewloom.study.levels import described, described_types
from viewloom.study.notes import Note, count_note
from viewloom.study.ordering import check_order
from viewloom.study.preparation.fitted import Plan, Preparation
from viewloom.study.tables_in_memory import among, missing_cells

NOT_GIVEN = "not given"


@dataclass(frozen=True, eq=False)
class Check:
    """The result of `check`: counts and names of columns only.

    Attributes
    ----------
    name : str
        Title of the study.
    n_subjects : int
        Subjects with at least one view who are clustered. The tables below are about these, too.
    views : DataFrame
        Per view: format, subjects, features, missing (cells of these subjects) and missing_share, constant
        (columns).
    overlaps : Series of int
        Number of subjects with each combination of views, largest first. The index has one bool per view.
    constant : dict of str to list of str
        Columns that do not vary, by view.
    aside : dict of str to dict of str to str
        By view, columns of its table that are not features, and the reasons.
    sites : DataFrame
        Per site: number of subjects, in total and with each view. Empty where the study names no site.
    diagnoses : dict of str to int
        Subjects per diagnosis.
    covariates : DataFrame
        Per column of the participants that the study names: role, type, levels or range; see
        `levels.described`.
    notes : list of Note
        What `fit` leaves out or changes, and why.
    problems : list of str
        Errors that prevent a run, each a `Message` with the settings that solve it, where they are known. The
        tables then cover the files that could be read.
    groups : DataFrame
        Subjects by diagnosis (rows) and by what the rules of [cluster] make of them (columns): clustered,
        reference, left out. Empty without rules.
    types : DataFrame
        Per column of a view that has levels: its type, levels, and where the type comes from; see
        `levels.described_types`.
    """

    name: str
    n_subjects: int
    views: pd.DataFrame
    overlaps: pd.Series
    constant: dict[str, list[str]]
    aside: dict[str, dict[str, str]]
    sites: pd.DataFrame
    diagnoses: dict[str, int]
    covariates: pd.DataFrame
    notes: list[Note]
    problems: list[str]
    groups: pd.DataFrame = field(default_factory=pd.DataFrame)
    types: pd.DataFrame = field(default_factory=pd.DataFrame)

    @property
    def ok(self) -> bool:
        """Whether the study can be run."""
        return not self.problems


@dataclass(frozen=True, eq=False)
class Prepared:
    """A study that is read, checked and prepared for the fit.

    Attributes
    ----------
    study : Study
    data : StudyData
        Of the subjects who are clustered. Its views are as read if severity is removed from them, and else
        `views`: those of very many subjects are not kept twice.
    check : Check
    preparation : Preparation
        Fitted on the clustered and the reference subjects.
    views : Views
        The prepared views of the subjects who are clustered.
    everyone : Views or None
        The prepared views of these and of the reference subjects; None without reference subjects.
    raw : StudyData or None
        The data of all of them, with the mask of those who are clustered.
    """

    study: Study
    data: StudyData
    check: Check
    preparation: Preparation
    views: Views
    everyone: Views | None = None
    raw: StudyData | None = None
    later: list[LaterVisit] = field(default_factory=list)

    @property
    def clustered(self) -> np.ndarray:
        """Who of `everyone` is clustered; the others are reference (a mask)."""
        mask = None if self.raw is None else self.raw.clustered
        return np.ones(len(self.views), dtype=bool) if mask is None else mask

    @property
    def reference(self) -> Views | None:
        """The prepared views of the reference subjects; None where there are none."""
        return None if self.everyone is None else self.everyone[~self.clustered]

    @property
    def classes(self) -> pd.Series:
        """Known diagnoses, indexed by position; empty where the study names no diagnosis."""
        column = self.study.participants and self.study.participants.diagnosis
        people = self.data.participants
        if people is None or column is None:
            return pd.Series(dtype=object)
        return pd.Series(people[column].to_numpy(dtype=object)).dropna().astype(str)


def examine(study: Study) -> tuple[Check, Prepared | None]:
    """Run all steps before the fit: read, join, prepare, and check the input of the model.

    `check` and `fit` both use it, so that they accept the same studies.

    Parameters
    ----------
    study : Study

    Returns
    -------
    check : Check
    prepared : Prepared or None
        None where there are problems.
    """
    with one_thread():  # products of a few columns at a time
        found, ready = _examined(study)
    return_freed_memory()
    return found, ready


def _examined(study: Study) -> tuple[Check, Prepared | None]:
    before = input_hashes(study)
    tables = read_tables(study)
    found, notes = describe(study, tables), tables.notes
    return_freed_memory()
    try:
        everyone = join(study, tables)
        check_unchanged(before, everyone.inputs)
        with stage("Preparing the views", 0):
            ready = _prepared(study, everyone)
        later = read_followup(study, ready.data, ready.preparation)
    except StudyError as error:
        return replace(found, problems=[*error.lines]), None
    notes = [*notes, *ready.preparation.notes, *visit_notes(later, len(ready.views))]
    found = replace(found, notes=notes)
    return found, replace(ready, check=found, later=later)


def _prepared(study: Study, everyone: StudyData) -> Prepared:
    """The study prepared, with an empty check; `StudyError` if the model or the report cannot use it."""
    plan, clustered = Plan(**study.plan), everyone.clustered
    fitted = Preparation.fit(everyone.views, everyone.participants, plan, clustered)
    preparation = fitted.with_variants(everyone.variants)
    rows = np.ones(len(everyone.views), dtype=bool) if clustered is None else clustered
    alone = bool(rows.all())  # nobody is reference
    once = alone and not preparation.severity  # the views as read are not used again
    together = preparation.transform(everyone.views, everyone.participants, overwrite=once)
    data, views = (everyone, together) if alone else (everyone.of(rows), together[rows])
    try:
        KernelMultiviewNMF(**model_settings(study, len(views))).check_input(views)
    except ValueError as error:
        raise StudyError(str(error)) from None
    _check_survival(study, data)
    check_sites(study, data.participants)
    check_order(study, data.participants)
    data = data if preparation.severity else replace(data, views=views)
    others = (None, None) if alone else (together, everyone)
    return Prepared(study, data, _nothing(study), preparation, views, *others)


def _nothing(study: Study) -> Check:
    """A check of no tables, until `describe` has made one."""
    return describe(study, Tables())


def _check_survival(study: Study, data: StudyData) -> None:
    """Refuse times and events from which no survival curve can be estimated."""
    survival = None if study.participants is None else study.participants.survival
    if survival is None or data.participants is None:
        return
    try:
        check_follow_up(*(data.participants[name] for name in survival.columns))
    except ValueError as error:
        columns = " and ".join(map(repr, survival.columns))
        raise StudyError(f"participants: survival ({columns}): {error}") from None


def check(study: Study) -> Check:
    """Read all files of a study and prepare it as `fit` does, without fitting a model.

    Parameters
    ----------
    study : Study

    Returns
    -------
    Check

    Examples
    --------
    >>> import tempfile
    >>> from viewloom import study
    >>> folder = tempfile.mkdtemp()
    >>> files = study.write_example(folder)
    >>> found = study.check(study.read_study(files[0]))
    >>> found.ok, found.n_subjects, found.views.loc["fdg", "features"].item()
    (True, 345, 26)
    """
    return examine(study)[0]


def describe(study: Study, tables: Tables) -> Check:
    """Describe the tables of the clustered subjects, which are not prepared yet."""
    selection, tables = tables.selection, tables.clustered
    present = pd.DataFrame(
        {name: among(tables.ids, frame.index) for name, frame in tables.frames.items()}, index=tables.ids
    )
    constant = {name: _constant(frame) for name, frame in tables.frames.items()}
    sites = _sites(_labels(tables, study, "site"), present)
    unprepared = [*_constant_notes(constant), *_site_notes(sites, study)]
    return Check(
        name=study.name,
        n_subjects=len(tables.ids),
        views=_views(tables, study, constant),
        overlaps=_overlaps(present),
        constant={name: columns for name, columns in constant.items() if columns},
        aside={name: why for name, why in tables.aside.items() if why},
        sites=sites,
        diagnoses=dict(sorted(Counter(_labels(tables, study, "diagnosis")).items())),
        covariates=_covariates(tables, study),
        notes=[*tables.notes, *unprepared],
        problems=tables.problems,
        groups=pd.DataFrame() if selection is None else selection.groups,
        types=described_types(tables.frames, study.report.min_cell),
    )


def _constant(frame: pd.DataFrame) -> list[str]:
    return [str(name) for name in frame.columns[constant_columns(frame)]]


def _views(tables: Tables, study: Study, constant: dict[str, list[str]]) -> pd.DataFrame:
    """Format, size and missing cells of each view."""
    rows = {
        name: {
            "format": study.views[name].format,
            "subjects": len(frame),
            "features": frame.shape[1],
            "missing": missing_cells(frame),
            "missing_share": missing_cells(frame) / frame.size if frame.size else 0.0,
            "constant": len(constant[name]),
        }
        for name, frame in tables.frames.items()
    }
    return pd.DataFrame.from_dict(rows, orient="index", columns=COLUMNS).rename_axis("view")


def _overlaps(present: pd.DataFrame) -> pd.Series:
    """Counts of the combinations of views; ties are broken by the number of views."""
    counts = Counter(map(tuple, present.to_numpy(dtype=bool).tolist()))
    order = sorted(counts, key=lambda pattern: (-counts[pattern], -sum(pattern), pattern))
    index = pd.MultiIndex.from_tuples(order, names=list(present.columns)) if order else None
    return pd.Series([counts[pattern] for pattern in order], index, dtype=int, name="subjects")


def _labels(tables: Tables, study: Study, key: str) -> pd.Series:
    """A column of the participants, for all subjects with a view; empty where the study does not name it."""
    column = study.participants and getattr(study.participants, key)
    if column is None or tables.participants is None:
        return pd.Series(dtype=object)
    return pd.Series(tables.participants[column]).reindex(tables.ids).fillna(NOT_GIVEN)


def _covariates(tables: Tables, study: Study) -> pd.DataFrame:
    """The columns of the participants, for all subjects with a view."""
    people = None if tables.participants is None else tables.participants.reindex(tables.ids)
    return described(people, study.participants, study.report.min_cell)


def _sites(site: pd.Series, present: pd.DataFrame) -> pd.DataFrame:
    """Number of subjects per site, in total and with each view."""
    counts = present.groupby(site.reindex(present.index)).sum().rename_axis("site")
    counts.insert(0, "subjects", site.value_counts().reindex(counts.index), allow_duplicates=True)
    return counts


def _constant_notes(constant: dict[str, list[str]]) -> Iterator[Note]:
    for name, columns in constant.items():
        found = count_note(len(columns), "constant column", text=f"left out: {listed(columns)}", public=True)
        yield from (note.about(f"view {name!r}") for note in found)


def _site_notes(sites: pd.DataFrame, study: Study) -> Iterator[Note]:
    """Sites that are too small to be harmonised."""
    least = study.preparation.min_site
    small = int((sites.iloc[:, 0] < least).sum())  # a view may be called subjects, too
    if study.preparation.harmonise != "none":
        text = f"with fewer than {least} subjects (min_site) not harmonised"
        yield from count_note(small, "site", text=text, public=True)


COLUMNS = ["format", "subjects", "features", "missing", "missing_share", "constant"]
