"""From sources to a study: files of a view, participants, and matching of ids."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from viewloom.study import readers
from viewloom.study.drafting import columns
from viewloom.study.drafting.candidates import PEOPLE_NAMES, likely_people
from viewloom.study.drafting.columns import named
from viewloom.study.drafting.found import Candidate, Found
from viewloom.study.drafting.genotypes import ending
from viewloom.study.drafting.patterns import link, pattern_of_people
from viewloom.study.drafting.tables import Table
from viewloom.study.ids import canonical_ids, styles_of
from viewloom.study.readers.frames import as_numbers
from viewloom.study.wording import counted

SAME = 0.9  # share of common columns from which tables have the same measures
ALIKE = 0.5  # share of common columns from which tables of other subjects are one view
DIFFERENT = ("statistics", "tracer", "atlas", "atlas_image", "files")  # settings of other measures
REPORTS = "cat12-report"
PHENOTYPE = re.compile(r"(?i)pheno(type)?s?|questionnaires?|assessments?")


@dataclass
class Block:
    """A block of study.toml.

    Attributes
    ----------
    name : str
    settings : dict
        Its keys and values, path or paths and format first.
    remarks : list of str
        Remarks on the decisions, written above the block.
    others : dict of str to list of str
        Alternative values of a key, written after it.
    ids : Index
        Canonical ids; for large files those that are known.
    files : list of Path
        Files of the block.
    off : str
        Why the block is a comment; empty if it is not.
    spare : bool
        Whether it may be used if there is no other view.
    """

    name: str
    settings: dict[str, Any]
    remarks: list[str] = field(default_factory=list)
    others: dict[str, list[str]] = field(default_factory=dict)
    ids: pd.Index = field(default_factory=lambda: pd.Index([], dtype=str))
    files: list[Path] = field(default_factory=list)
    off: str = ""
    spare: bool = False

    @property
    def sources(self) -> list[tuple[Path, str]]:
        """The files, and the sheet or object in them."""
        part = self.settings.get("sheet") or self.settings.get("object") or ""
        return [(path, part) for path in self.files]


@dataclass
class Plan:
    """A draft of a study."""

    folder: Path
    views: list[Block] = field(default_factory=list)
    people: Block | None = None
    match: str = "exact"
    n_clusters: int = 3
    passed: list[tuple[str, str, int]] = field(default_factory=list)

    @property
    def active(self) -> list[Block]:
        """Views that are not comments."""
        return [view for view in self.views if not view.off]


def make_plan(found: Found) -> Plan:
    """Choose participants, views, and how ids are matched."""
    people = ranked_people(found.people)
    plan = Plan(found.folder, passed=list(found.passed))
    views = [view for view in found.views if not (people and view.table is people[0])]
    views = _tables_of_freesurfer(_of_chromosomes(views))
    groups, clashes = _joined_rows(views)
    plan.match = _match([*groups, *clashes], people)
    link(groups, people[0].subjects() if people else [], plan.match)
    names = _names([_name(view) for view in [*groups, *clashes]])
    blocks = [
        _block(view, name, found.folder, plan.match)
        for view, name in zip([*groups, *clashes], names, strict=True)
    ]
    for view, block in zip(clashes, blocks[len(groups) :], strict=True):
        block.off = view.remarks.pop(0)
    plan.views = blocks
    if people:
        _add_people(plan, people, found, any(not block.off for block in blocks))
    _set_phenotypes_aside(plan)
    return plan


def ranked_people(tables: Sequence[Table]) -> list[Table]:
    """Tables of participants, the most likely first."""

    def rank(table: Table) -> tuple[bool, bool, bool, int, int]:
        diagnosis = bool(table.roles(columns.DIAGNOSIS))
        called = table.title.casefold() in ("participants", "participant", "subjects")
        hinted = bool(PEOPLE_NAMES.match(table.title))
        return not called, not diagnosis, not hinted, -min(len(table.clinical), 3), len(table.measures)

    return sorted(filter(likely_people, tables), key=rank)


def _name(view: Candidate) -> str:
    return view.name


def _names(stems: Iterable[str]) -> list[str]:
    """Valid and unique names."""
    names: list[str] = []
    for stem in stems:
        name = re.sub(r"[^\w+-]+", "_", stem)[:50].strip("_+-") or "view"
        taken = {other.casefold() for other in names}
        number = next(n for n in range(1, len(names) + 2) if _numbered(name, n).casefold() not in taken)
        names.append(_numbered(name, number))
    return names


def _numbered(name: str, number: int) -> str:
    return name if number == 1 else f"{name}_{number}"


def _of_chromosomes(views: Sequence[Candidate]) -> list[Candidate]:
    """Merge files of genotypes of the same subjects and other variants whose names differ in a number."""
    kept: list[Candidate] = []
    for view in views:
        partner = next((other for other in kept if _same_subjects_other_variants(other, view)), None)
        if partner is None:
            kept.append(view)
            continue
        partner.paths += view.paths
        partner.beside += view.beside
        partner.features += view.features
        name = partner.paths[0].name.removesuffix(ending(partner.paths[0]) or "")
        partner.name = re.sub(r"(?i)[._-]*(chr(omosome)?)?[._-]*[\dxym]+$", "", name) or "genotypes"
        count = len(partner.paths)
        partner.remarks[0] = (
            f"genotypes in {count} files, one per chromosome: {counted(len(partner.ids), 'subject')}"
        )
    for view in kept:
        view.paths.sort(
            key=lambda path: [int(n) if n.isdigit() else 99 for n in re.findall(r"\d+|\D+$", path.stem)]
        )
    return kept


def _same_subjects_other_variants(one: Candidate, other: Candidate) -> bool:
    if one.format != other.format or not readers.FORMATS[one.format].genotypes:
        return False
    alike = {_without_number(path) for path in (*one.paths, *other.paths)}
    return len(alike) == 1 and set(one.ids) == set(other.ids) and not set(one.features) & set(other.features)


def _without_number(path: Path) -> str:
    return re.sub(r"(?i)(?<=chr)[xym]+|\d+", "#", path.name) + str(path.parent)


def _tables_of_freesurfer(views: Sequence[Candidate]) -> list[Candidate]:
    """Tables of FreeSurfer in one folder as one view, unless they have duplicate measures."""
    kept: list[Candidate] = []
    members: dict[int, list[Candidate]] = {}
    for view in views:
        place = next((n for n, other in enumerate(kept) if _goes_with(view, other, members.get(n, []))), None)
        if place is None:
            members[len(kept)] = [replace(view)]
            kept.append(view)
            continue
        members[place].append(view)
        kept[place] = _side_by_side(members[place])
    return kept


def _goes_with(view: Candidate, other: Candidate, members: Sequence[Candidate]) -> bool:
    """Whether a table shares subjects with those of a view, but no measures of these subjects."""
    if not view.format == other.format == "freesurfer-table" or view.paths[0].parent != other.paths[0].parent:
        return False
    same = [member for member in members if _share(set(view.features), set(member.features)) >= ALIKE]
    linked = bool(same) or bool(set(view.ids) & set(other.ids))
    return linked and not any(set(view.ids) & set(member.ids) for member in same)


def _side_by_side(tables: Sequence[Candidate]) -> Candidate:
    ids = list(dict.fromkeys(id for table in tables for id in table.ids))
    remarks = [f"{len(tables)} tables of FreeSurfer, {counted(len(ids), 'subject')}"]
    features = [name for table in tables for name in table.features]
    paths = list(dict.fromkeys(path for table in tables for path in table.paths))  # once for all sheets
    return replace(tables[0], name="freesurfer", paths=paths, ids=ids, features=features, remarks=remarks)


def _joined_rows(views: Sequence[Candidate]) -> tuple[list[Candidate], list[Candidate]]:
    """Views, with files of the same columns and other subjects merged; and views with common subjects."""
    kept: list[Candidate] = []
    clashes: list[Candidate] = []
    for view in views:
        partner, share = _nearest(view, kept)
        if partner is None:
            kept.append(view)
        elif set(view.ids) & set(partner.ids):
            clash = _held(view, partner) >= SAME
            (clashes if clash else kept).append(_clash(view, partner) if clash else view)
        elif share >= ALIKE:
            _stack(partner, view)
        else:
            kept.append(view)
    return kept, clashes


def _nearest(view: Candidate, kept: Sequence[Candidate]) -> tuple[Candidate | None, float]:
    """The view with most common columns that can be read with the same settings."""
    shares = {
        n: _share(set(view.features), set(other.features))
        for n, other in enumerate(kept)
        if view.format == other.format and _same_reading(view, other)
    }
    likely = {n: share for n, share in shares.items() if share >= ALIKE or _held(view, kept[n]) >= SAME}
    best = max(likely, key=lambda n: likely[n], default=None)
    return (kept[best], likely[best]) if best is not None else (None, 0.0)


def _held(view: Candidate, other: Candidate) -> float:
    """The share of the columns of a view that another view has."""
    return len(set(view.features) & set(other.features)) / max(len(set(view.features)), 1)


def _same_reading(one: Candidate, other: Candidate) -> bool:
    keys = ("id", "visit", "visit_column", "modality", "sheet", "object", *DIFFERENT)
    return all(one.settings.get(key) == other.settings.get(key) for key in keys)


def _share(one: set[str], other: set[str]) -> float:
    return len(one & other) / len(one | other) if one and other else 0.0


def _stack(view: Candidate, more: Candidate) -> None:
    """One view of both files."""
    view.paths += more.paths
    view.beside += more.beside
    view.ids = [*view.ids, *more.ids]
    exclude = list(dict.fromkeys([*view.settings.get("exclude", []), *more.settings.get("exclude", [])]))
    if exclude:
        view.settings["exclude"] = exclude
    types = {**more.settings.get("types", {}), **view.settings.get("types", {})}
    if types:
        view.settings["types"] = types
    other = [f"{path.name}: the same columns, other subjects: one view of both files" for path in more.paths]
    view.remarks += other


def _clash(view: Candidate, partner: Candidate) -> Candidate:
    """A view with the columns and subjects of another, with the reason as its first remark."""
    shared = len(set(view.ids) & set(partner.ids))
    other = partner.paths[0].name
    if _equal_measures(view, partner):
        why = f"the same measures as in {other}: not used twice"
    else:
        why = (
            f"not joined: it has the columns of {other} and {counted(shared, 'subject')} in common with it. "
            "Another visit, another measure, or a cohort whose ids coincide? If subjects differ, make their "
            "ids differ and list both files in paths; if it is another measure, uncomment the block"
        )
    view.remarks.insert(0, why)
    return view


def _equal_measures(view: Candidate, partner: Candidate) -> bool:
    """Whether two tables have the same numbers for the same subjects."""
    if view.table is None or partner.table is None or len(view.paths) + len(partner.paths) > 2:
        return False
    shared = [name for name in view.table.measures if name in set(partner.table.measures)]
    if len(shared) < SAME * len(view.features):  # others are in other sheets
        return False
    one, other = (
        side.table.baseline.set_index(side.table.id)[shared]
        for side in (view, partner)
        if side.table is not None
    )
    common = one.index.intersection(other.index)
    left, right = (
        side.loc[common].apply(as_numbers).to_numpy(dtype=float, na_value=np.nan) for side in (one, other)
    )
    return np.array_equal(left, right, equal_nan=True)


def _match(views: Sequence[Candidate], people: Sequence[Table]) -> str:
    """How ids are matched: the simplest style that links most pairs of sources and most subjects."""
    headers = [view.table.header for view in views if view.table] + [table.header for table in people]
    asked = [readers.FORMATS[view.format].ids for view in views]
    if any(asked) or any(named(header, "rid ptid") for header in headers):
        return next(filter(None, asked), "adni")
    sources = [view.ids for view in views] + [table.subjects() for table in people]
    ids = [id for source in sources for id in source]
    scores = {style: _score(sources, style) for style in styles_of(ids)}
    return max(scores, key=lambda style: scores[style])


def _score(sources: Sequence[Sequence[str]], style: str) -> tuple[int, int]:
    """The number of linked pairs of sources, and of common subjects; 0 if a style merges subjects."""
    canonical = [canonical_ids(source, style) for source in sources]
    if any(ids.has_duplicates for ids in canonical):
        return (-1, 0)
    shared = [len(set(one) & set(other)) for one, other in combinations(canonical, 2)]
    return sum(count > 0 for count in shared), sum(shared)


def _block(view: Candidate, name: str, folder: Path, match: str) -> Block:
    paths = [path.relative_to(folder).as_posix() for path in view.paths]
    where: dict[str, Any] = {"path": paths[0]} if len(paths) == 1 else {"paths": paths}
    others = {"id": view.table.ids[1:]} if view.table is not None and "id" in view.settings else {}
    own = {key: _relative(value, folder) for key, value in view.settings.items()}
    settings = {**where, "format": view.format, **own}
    files = [*view.paths, *view.beside]
    return Block(name, settings, view.remarks, others, canonical_ids(view.ids, match), files)


def _relative(value: Any, folder: Path) -> Any:
    """A path in settings as study.toml has it."""
    return value.relative_to(folder).as_posix() if isinstance(value, Path) else value


def _add_people(plan: Plan, people: Sequence[Table], found: Found, other_views: bool) -> None:
    """The block of participants, and a view of its measures."""
    table = people[0]
    plan.people = people_block(table, found.folder, plan.match)
    _link_people(plan.people, table, [view for view in found.views if view.table is not table], plan.match)
    used = {source for view in plan.views for source in view.sources}
    others = [other.path for other in people[1:] if other.path != table.path]
    plan.people.others["path"] = [path.relative_to(found.folder).as_posix() for path in dict.fromkeys(others)]
    own = [view for view in found.views if view.table is table]
    for view in own:
        name = _names([*(block.name for block in plan.views), "features"])[-1]
        block = _block(view, name, found.folder, plan.match)
        block.off = "the measures of the table of participants; uncomment them to use them"
        block.off, block.spare = (block.off, True) if other_views else ("", False)
        plan.views.append(block)
    too = f"also a table of participants; {' '.join([table.path.name, *table.part.values()])} is used"
    for other in people[1:]:
        if other.source not in used:
            where = "".join(f"{key} {name!r}: " for key, name in other.part.items())
            plan.passed.append((other.path.relative_to(found.folder).as_posix(), where + too, 1))
    _set_aside(plan, {other.source for other in people[1:] if PEOPLE_NAMES.match(other.title)}, too)


def _link_people(people: Block, table: Table, views: Sequence[Candidate], match: str) -> None:
    """Set a pattern of ids if the participants meet no view without one."""
    found = pattern_of_people(table.subjects(), views, match)
    if found is not None:
        pattern, met = found
        people.settings["id"] = {"column": table.id, "pattern": pattern}
        people.remarks.append(f"ids by a pattern: {met} subjects are in the views, none without it")


def people_block(table: Table, folder: Path, match: str) -> Block:
    """The block of participants, with the columns whose roles are clear."""
    settings: dict[str, Any] = {
        "path": table.path.relative_to(folder).as_posix(), "format": table.format,
        **table.part, "id": table.id,
    }  # fmt: skip
    settings |= table.visits.settings
    diagnosis, site = table.roles(columns.DIAGNOSIS), table.roles(columns.SITE)
    settings |= {key: names[0] for key, names in (("diagnosis", diagnosis), ("site", site)) if names}
    settings["covariates"] = table.roles(columns.COVARIATES)
    settings["outcomes"] = table.roles(columns.OUTCOMES)
    others = {"id": table.ids[1:], "diagnosis": diagnosis[1:], "site": site[1:]}
    remarks = [
        f"{counted(len(table.subjects()), 'subject')}, ids in column {table.id!r}",
        *table.visits.remarks,
        *table.notes,
    ]
    return Block(
        "participants", settings, remarks, others, canonical_ids(table.subjects(), match), [table.path]
    )


def _set_phenotypes_aside(plan: Plan) -> None:
    """Use questionnaires, tables of sessions and reports of CAT12 as views only if there are no others."""
    clinical = {source for view in plan.active for source in view.sources if _is_phenotype(view)}
    _set_aside(plan, clinical, "assessments (folder phenotype): uncomment them to use them as well")
    sessions = {source for view in plan.active for source in view.sources if _is_sessions(view)}
    _set_aside(plan, sessions, "what is known of sessions: uncomment it to use it as well")
    reports = {one for view in plan.active for one in view.sources if view.settings["format"] == REPORTS}
    _set_aside(plan, reports, "intracranial volume and tissues: covariates rather than features")


def _is_phenotype(view: Block) -> bool:
    return any(map(PHENOTYPE.fullmatch, _places(view)))


def _is_sessions(view: Block) -> bool:
    return view.settings["format"] == "bids" and any(path.is_dir() for path in view.files)


def _set_aside(plan: Plan, sources: set[tuple[Path, str]], why: str) -> None:
    """Disable views of some files or sheets if there are others."""
    chosen = [view for view in plan.active if sources.intersection(view.sources)]
    if len(chosen) < len(plan.active):
        for view in chosen:
            view.off, view.spare = why, True


def _places(view: Block) -> list[str]:
    first = view.settings.get("path") or view.settings["paths"][0]
    return list(Path(first).parts[:-1])
