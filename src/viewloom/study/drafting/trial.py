"""Test a drafted study: sources that cannot be read or joined become comments with the reason."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from copy import deepcopy

import pandas as pd

from viewloom.study import readers
from viewloom.study.check import check
from viewloom.study.config.toml import parse_study
from viewloom.study.drafting.plan import Block, Plan
from viewloom.study.drafting.text import study_text
from viewloom.study.errors import StudyError
from viewloom.study.joining import LEAST_PER_CLUSTER, constant_columns
from viewloom.study.readers.visits import FIRST
from viewloom.study.reading import read_participants, read_view
from viewloom.study.wording import counted

LARGE = 1 << 25  # bytes; larger sources are not tested
MOST_SUBJECTS = 300  # folders of FreeSurfer that are read for the test
MOST_REPAIRS = 12
NAMING = ("outcomes", "covariates")
ROLES = ("site", "diagnosis")


def tried(plan: Plan) -> Plan:
    """The plan, with everything disabled that `check` would refuse."""
    for view in plan.active:
        _try_view(plan, view)
    if not plan.active:
        _use_spare(plan)
    if plan.people is not None and not plan.people.off:
        _try_people(plan, plan.people)
    _keep_linked(plan)
    _set_clusters(plan)
    if plan.active:
        _repair(plan)
    return plan


def _use_spare(plan: Plan) -> None:
    """Use spare views if no other view can be read."""
    for view in plan.views:
        if view.spare:
            view.off = ""
            _try_view(plan, view)


def _is_large(plan: Plan, block: Block) -> bool:
    """Whether a source is too large to be tested."""
    if any(path.is_dir() for path in block.files):
        return len(block.ids) > MOST_SUBJECTS
    return sum(path.stat().st_size for path in block.files) > LARGE


def _alone(plan: Plan, block: Block) -> Plan:
    """The plan with one view only."""
    return Plan(plan.folder, [block], None, plan.match, plan.n_clusters)


def _try_view(plan: Plan, view: Block) -> None:
    """Read a view; disable it if that fails."""
    if _is_large(plan, view):
        view.remarks.append("large: not read by `init`; `viewloom check` reads it")
        return
    try:
        study = parse_study(study_text(_alone(plan, view)), plan.folder / "study.toml")
        frame = read_view(study.views[view.name], plan.match)
    except (StudyError, ImportError) as error:
        if readers.FORMATS[view.settings["format"]].ids == "adni" and view.settings.get("visit") == "bl":
            view.settings["visit"] = FIRST
            view.remarks.append("no baseline; the first visit of each subject is kept")
            _try_view(plan, view)
            return
        view.off = str(error).split("\n")[0].removeprefix("study.toml, ")
        return
    view.ids = pd.Index(frame.index)
    if frame.shape[1] < 2 or (len(frame) > 1 and constant_columns(frame).all()):
        view.off = f"{counted(frame.shape[1], 'column')}, too few that vary for a view"


def _try_people(plan: Plan, people: Block) -> None:
    """Read the participants; disable them if that fails."""
    if _is_large(plan, people):
        return
    keys = ("path", "sheet", "object", "id")
    here = {key: people.settings[key] for key in keys if key in people.settings}
    views = [Block("x", {"format": "table", **here})]
    try:
        study = parse_study(
            study_text(Plan(plan.folder, views, people, plan.match)), plan.folder / "study.toml"
        )
        assert study.participants is not None
        people.ids = pd.Index(read_participants(study.participants, plan.match).index)
    except (StudyError, ImportError) as error:
        people.off = str(error).split("\n")[0].removeprefix("study.toml, ")


def _keep_linked(plan: Plan) -> None:
    """Keep the largest set of views that are linked by common subjects."""
    islands = _islands(plan.active)
    if not islands:
        return
    who = set(plan.people.ids) if plan.people is not None and not plan.people.off else set()

    def size(island: list[Block]) -> tuple[int, bool, int]:
        ids = {id for view in island for id in view.ids}
        return len(island), bool(ids & who), len(ids)

    best = max(islands, key=size)
    ids = {id for view in best for id in view.ids}
    for view in plan.active:
        if view not in best:
            view.off = _no_link(view, best)
    if plan.people is not None and not plan.people.off and not ids & who:
        plan.people.off = f"none of its {len(who)} subjects is in the views; {_spelling(who, ids)}"


def _no_link(view: Block, best: list[Block]) -> str:
    others = ", ".join(repr(other.name) for other in best[:3])
    spelling = _spelling(set(view.ids), {id for other in best for id in other.ids})
    return f"none of its {len(view.ids)} subjects is in view {others}; {spelling}"


def _spelling(one: set[str], other: set[str]) -> str:
    """Possible reasons why ids differ."""
    ends = [{found[0] for id in ids if (found := re.search(r"[1-9]\d*$", id))} for ids in (one, other)]
    shared = len(ends[0] & ends[1])
    if 2 * shared > min(len(one), len(other)):
        return f"the numbers at the end of ids agree for {shared}: use the same spelling of ids"
    return "is it another study, or are ids spelled differently?"


def _islands(views: list[Block]) -> list[list[Block]]:
    """Groups of views that are linked by common subjects."""
    islands: list[list[Block]] = []
    for view in views:
        linked = [island for island in islands if any(set(view.ids) & set(other.ids) for other in island)]
        merged = [*(other for island in linked for other in island), view]
        islands = [island for island in islands if island not in linked] + [merged]
    return islands


def _set_clusters(plan: Plan) -> None:
    """Limit the number of clusters by the number of subjects; too few subjects are an error."""
    n = len({id for view in plan.active for id in view.ids})
    plan.n_clusters = min(3, max(2, n // LEAST_PER_CLUSTER))
    if n < 2 * LEAST_PER_CLUSTER:
        for view in plan.active:
            view.off = f"{counted(n, 'subject')} in total: at least {2 * LEAST_PER_CLUSTER} are needed"


def _repair(plan: Plan) -> None:
    """Disable what `check` refuses, one part at a time."""
    problems = _problems(plan)
    for _ in range(MOST_REPAIRS):
        if not problems:
            return
        ways = [(len(_problems(way(deepcopy(plan), ""))), n, way) for n, way in enumerate(_ways(plan))]
        if not ways:
            return
        left, _, way = min(ways, key=lambda found: found[:2])
        if left >= len(problems):
            way = _all_off
        way(plan, problems[0])
        problems = _problems(plan) if plan.active else []


def _all_off(plan: Plan, why: str) -> Plan:
    for view in plan.active:
        view.off = why
    return plan


def _problems(plan: Plan) -> list[str]:
    """The problems that `check` finds in the sources that are small enough to be tested."""
    small = deepcopy(plan)
    small.views = [view for view in plan.active if not _is_large(plan, view)]
    if plan.people is not None and _is_large(plan, plan.people):
        small.people = None
    if not small.views:
        return []
    try:
        found = check(parse_study(study_text(small), plan.folder / "study.toml"))
    except (StudyError, ImportError) as error:
        return str(error).split("\n")
    return found.problems


def _ways(plan: Plan) -> Iterator[Callable[[Plan, str], Plan]]:
    """What can be disabled, the least loss first."""
    people = plan.people
    if people is not None and not people.off:
        for key in NAMING:
            for name in people.settings[key]:
                yield _without_name(key, name)
        for key in ROLES:
            if key in people.settings:
                yield _without_role(key)
    for view in sorted(plan.active, key=lambda view: len(view.ids)) if len(plan.active) > 1 else []:
        yield _without_view(view.name)
    if people is not None and not people.off:
        yield _without_people


def _without_name(key: str, name: str) -> Callable[[Plan, str], Plan]:
    def way(plan: Plan, why: str) -> Plan:
        assert plan.people is not None
        plan.people.settings[key] = [other for other in plan.people.settings[key] if other != name]
        plan.people.remarks.append(f"{name!r} is not among {key}: {why}")
        return plan

    return way


def _without_role(key: str) -> Callable[[Plan, str], Plan]:
    def way(plan: Plan, why: str) -> Plan:
        assert plan.people is not None
        name = plan.people.settings.pop(key)
        plan.people.remarks.append(f"{name!r} is not the {key}: {why}")
        return plan

    return way


def _without_view(name: str) -> Callable[[Plan, str], Plan]:
    def way(plan: Plan, why: str) -> Plan:
        for view in plan.active:
            if view.name == name:
                view.off = why or "refused"
        return plan

    return way


def _without_people(plan: Plan, why: str) -> Plan:
    if plan.people is not None:
        plan.people.off = why or "refused"
    return plan
