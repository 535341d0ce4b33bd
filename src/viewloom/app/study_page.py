"""The study: its form beside its text, both of which write study.toml."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from viewloom.app import forms, inputs
from viewloom.app.context import context_of, digest, form_of, go, one, page, parsed_json, study_path
from viewloom.runtime.files import atomic_write
from viewloom.study import readers
from viewloom.study.config.editing import edited
from viewloom.study.config.positions import Problem, Where
from viewloom.study.config.toml import examined, study_text
from viewloom.study.drafting.tables import Unusable, look_at
from viewloom.study.errors import StudyError

MOST_GROUPS = 20
CHANGED = (
    "The file was changed elsewhere since this page was loaded. It is shown as it is now; repeat your change."
)


def show(request: Request) -> Response:
    """Show the form and the text of a study."""
    path = study_path(request)
    return _page(request, path, study_text(path), said=one(request, "said"))


def save(request: Request) -> Response:
    """Write what the form changed."""
    path = study_path(request)
    text = study_text(path)
    if one(request, "digest") != digest(text):
        return _page(request, path, text, notice=CHANGED, status=409)
    new, problems = _with_form(request, text, path)
    if problems:
        return _page(request, path, new, problems, notice="Not saved: see the marked fields.", status=422)
    _write(request, path, text, new)
    if "check" in form_of(request):
        from viewloom.app.check_page import start

        return start(request)
    return go(request, "study", file=one(request, "file"), said="saved")


def live(request: Request) -> Response:
    """The text that the form stands for, and what is wrong with it; nothing is written."""
    path = study_path(request)
    new, problems = _with_form(request, study_text(path), path)
    fields = {forms.element_id(p.where): p.message for p in problems}
    return JSONResponse({"text": new, "errors": fields, "all": [_line(problem) for problem in problems]})


def save_text(request: Request) -> Response:
    """Write the text of the study as it was typed."""
    path = study_path(request)
    old = study_text(path)
    new = one(request, "text").replace("\r\n", "\n")
    if one(request, "digest") != digest(old):
        return _page(request, path, new, notice=CHANGED, status=409)
    try:
        _, problems = examined(new, path)
    except StudyError as error:
        return _page(request, path, new, notice=f"Not saved: {error}", status=422)
    if problems:
        return _page(request, path, new, problems, notice="Not saved: see the marked fields.", status=422)
    _write(request, path, old, new)
    return go(request, "study", file=one(request, "file"), said="saved")


def remove(request: Request) -> Response:
    """Remove a view, or the participants, from the study."""
    path = study_path(request)
    name = one(request, "view")
    where: Where = ("views", name) if name else ("participants",)
    write_changes(request, path, {where: None})
    return go(request, "study", file=one(request, "file"), said="saved")


def apply(request: Request) -> Response:
    """Write the line that a message of the last check suggests."""
    from viewloom.app.check_page import start
    from viewloom.study.advice import Advice

    path, file = study_path(request), one(request, "file")
    checked = parsed_json(context_of(request).jobs.output(file, "check")) or {}
    known = checked.get("suggestions", {}).get(one(request, "message"), [])
    number = one(request, "number", "0")
    chosen = Advice(**known[int(number)]) if number.isdigit() and int(number) < len(known) else None
    views = _data(study_text(path)).get("views", {})
    if chosen is None or (chosen.block[0] == "views" and chosen.block[1] not in views):
        raise StudyError("This suggestion does not fit the study any more; check it again.")
    write_changes(request, path, chosen.changes)

    return start(request)


def write_changes(request: Request, path: Path, changes: Mapping[Where, Any]) -> None:
    """Change keys of a study file, which is made where there is none."""
    text = study_text(path) if path.exists() else ""
    new = edited(text, changes)
    _write(request, path, text, new)


def _write(request: Request, path: Path, old: str, new: str) -> None:
    """Write a study file; sources that lead out of the root may not be added."""
    added = _sources(new) - _sources(old)
    root = context_of(request).root.folder
    for source in added:
        real = Path(os.path.realpath(path.parent / source))
        if real != root and root not in real.parents:
            raise StudyError(
                f"{source}: is outside the folder that viewloom app was started with; start it with a folder "
                "that holds all files."
            )
    mode = path.stat().st_mode & 0o777 if path.exists() else 0o666
    with atomic_write(path, mode) as part:
        part.write_text(new, encoding="utf-8")


def _sources(text: str) -> set[str]:
    """The paths that a study names."""
    data = _data(text)
    blocks = [data.get("participants"), *(data.get("views") or {}).values()]
    return {
        path
        for block in blocks
        if isinstance(block, dict)
        for key in PATHS
        for path in _texts(block.get(key))
    }


PATHS = ("path", "paths", "columns_from", "dictionary", "variants_from", "regions_from", "scores", "sample")


def _texts(value: Any) -> list[str]:
    return [one for one in (value if isinstance(value, list) else [value]) if isinstance(one, str)]


def _data(text: str) -> dict[str, Any]:
    try:
        data = tomllib.loads(text)
    except (ValueError, RecursionError):
        return {}
    views = data.get("views")
    return {**data, "views": views if isinstance(views, dict) else {}}


def _with_form(request: Request, text: str, path: Path) -> tuple[str, list[Problem]]:
    """The text with what the form changed, and its problems."""
    data = _data(text)
    fields = [
        one for block in forms.sections(data, [], _choices(request, data, path)) for one in block.fields
    ]
    changes, problems = inputs.changes(form_of(request), fields)
    new = edited(text, changes)
    _, more = examined(new, path)
    return new, [*problems, *more]


def _page(
    request: Request,
    path: Path,
    text: str,
    problems: list[Problem] | None = None,
    notice: str = "",
    said: str = "",
    status: int = 200,
) -> Response:
    data, broken = _data(text), ""
    if problems is None:
        try:
            _, problems = examined(text, path)
        except StudyError as error:
            problems, broken = [], str(error)
    blocks = [] if broken else forms.sections(data, problems, _choices(request, data, path))
    shown = {p for block in blocks for p in [*block.errors, *(e for f in block.fields for e in f.errors)]}
    return page(
        request,
        "study.html",
        status,
        sections=blocks,
        text=text,
        digest=digest(study_text(path)),
        notice=notice,
        broken=broken,
        problems=[_line(p) for p in problems],
        others=[_line(p) for p in problems if p.message not in shown],
        said=said,
        people="participants" in data,
        runs=context_of(request).root.found().runs,
    )


def _line(problem: Problem) -> str:
    return f"{'.'.join(map(str, problem.where))}: {problem.message}"


def _choices(request: Request, data: Mapping[str, Any], path: Path) -> forms.Choices:
    """Columns of the tables and groups of the diagnosis, as seen in the first lines."""
    blocks = {"": data.get("participants"), **data.get("views", {})}
    columns = {
        name: _columns(block, path.parent) for name, block in blocks.items() if isinstance(block, dict)
    }
    people = data.get("participants")
    groups = _groups_of(people, path.parent) if isinstance(people, dict) else []
    return forms.Choices({name: found for name, found in columns.items() if found}, groups)


def _columns(block: Mapping[str, Any], folder: Path) -> list[str]:
    given = _texts(block.get("path")) or _texts(block.get("paths"))
    source = folder / given[0] if given else None
    if source is None or not source.is_file():
        return []
    part = tuple(
        (key, block.get(key)) for key in ("sheet", "object") if isinstance(block.get(key), str | int)
    )
    return list(_header(source, part, source.stat().st_mtime_ns))


@lru_cache(maxsize=64)
def _header(path: Path, part: tuple[tuple[str, Any], ...], changed: int) -> tuple[str, ...]:
    header = readers.Sample(path, dict(part)).header
    return tuple(dict.fromkeys(header))


def _groups_of(people: Mapping[str, Any], folder: Path) -> list[str]:
    """The groups of the diagnosis among the first rows."""
    given, column = _texts(people.get("path")), people.get("diagnosis")
    source = folder / given[0] if given else None
    if source is None or not source.is_file() or not isinstance(column, str):
        return []
    part = tuple((key, people.get(key)) for key in ("sheet", "object") if isinstance(people.get(key), str))
    return list(_levels(source, part, column, source.stat().st_mtime_ns))


@lru_cache(maxsize=16)
def _levels(path: Path, part: tuple[tuple[str, Any], ...], column: str, changed: int) -> tuple[str, ...]:
    try:
        raw = look_at(path, part=dict(part)).raw
    except (Unusable, StudyError, ImportError):
        return ()
    levels = sorted(map(str, raw[column].dropna().unique())) if column in raw else []
    return tuple(levels) if len(levels) <= MOST_GROUPS else ()
