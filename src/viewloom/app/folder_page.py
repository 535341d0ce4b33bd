"""The folder: studies, results and files in it, a first study to try, and the beginning of a file."""

from __future__ import annotations

import os
import re
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import Response

from viewloom.app.context import address, context_of, form_of, go, local, one, page, parsed_json, study_path
from viewloom.runtime.errors import InputError

if TYPE_CHECKING:
    from viewloom.study.config.positions import Where

EXAMPLE = "example"  # folder of the simulated cohort
OPTIONS = ("delimiter", "decimal", "thousands", "encoding")


def home(request: Request) -> Response:
    """Show what the folder holds."""
    context = context_of(request)
    found = context.root.found()
    drafted = parsed_json(context.jobs.output("", "init"))
    first = not (found.studies or found.runs)
    return page(
        request,
        "folder.html",
        found=found,
        first=first,
        file=one(request, "file") or (found.studies[0] if len(found.studies) == 1 else ""),
        drafted=drafted if (context.root.folder / "study.toml").exists() else None,
        example=_free(context.root.folder, EXAMPLE),
    )


def _free(folder: Path, name: str) -> str:
    """A name that is not taken."""
    names = [name, *(f"{name}-{i}" for i in range(2, 1000))]
    return next(other for other in names if not (folder / other).exists())


def simulate(request: Request) -> Response:
    """Write the files of the simulated cohort."""
    context = context_of(request)
    name = one(request, "name", EXAMPLE)
    if (context.root.path(name)).exists() or "/" in name:
        raise InputError(f"{name}: exists already; choose another name.")
    file = f"{name}/study.toml"
    context.jobs.start("", ["simulate", local(name)], address("study", file=file))
    return go(request, "job", command="simulate")


def draft(request: Request) -> Response:
    """Draft a study from the files of the folder."""
    context = context_of(request)
    below = one(request, "below")
    file = str(PurePosixPath(below) / "study.toml")
    overwrite = ["--overwrite"] if "overwrite" in form_of(request) else []
    if context.root.path(file).exists() and not overwrite:
        raise InputError(f"{file}: exists already; open it, or tick the box to replace it.")
    arguments = ["init", local(below), "--json", *overwrite]
    context.jobs.start("", arguments, address("drafted", file=file))
    return go(request, "job", command="init")


def drafted(request: Request) -> Response:
    """Show what each file was taken for, and which were passed over."""
    study_path(request)
    found = parsed_json(context_of(request).jobs.output("", "init")) or {"used": [], "passed": []}
    return page(request, "drafted.html", drafted=found)


def preview(request: Request) -> Response:
    """Show the first rows and columns of a file."""
    from viewloom.study import readers
    from viewloom.study.drafting.preview import preview as beginning

    context = context_of(request)
    given = one(request, "path")
    path = context.root.path(given)
    if not path.exists() or not given:
        raise InputError(f"{given or 'The file'}: no such file.")
    options = {key: one(request, key) for key in OPTIONS}
    part = {key: value for key in ("sheet", "object") if (value := one(request, key))}
    shown = beginning(path, part, **options)
    studies = context.root.found().studies
    format = one(request, "format") or shown.format or "table"
    return page(
        request,
        "preview.html",
        path=given,
        shown=shown,
        part=part,
        options=options,
        studies=studies,
        format=format,
        formats=list(readers.FORMATS),
        name=_view_name(given),
        ids=_likely_id(shown.header),
    )


def _view_name(path: str) -> str:
    return re.sub(r"[^\w+-]+", "_", PurePosixPath(path).name.partition(".")[0])[:50].strip("_+-") or "view"


def _likely_id(header: list[str]) -> str:
    from viewloom.study.drafting import columns

    return next(iter(columns.named(header, columns.IDS)), header[0] if header else "")


def use(request: Request) -> Response:
    """Use a file as a view, or as the table of participants, of a study."""
    from viewloom.app.study_page import write_changes
    from viewloom.study.config.toml import VIEW_NAME

    given, name = one(request, "path"), one(request, "name").strip()
    context, people = context_of(request), "people" in form_of(request)
    if not given or not context.root.path(given).exists():
        raise InputError(f"{given or 'The file'}: no such file.")
    if not people and not VIEW_NAME.fullmatch(name):
        raise InputError("Names of views are up to 64 letters, digits, spaces and . + - _ only.")
    file = one(request, "file") or str(PurePosixPath(given).parent / "study.toml")
    study = context.root.path(file)
    options: dict[str, Any] = {
        key: value for key in (*OPTIONS, "sheet", "object") if (value := one(request, key))
    }
    source = {"path": _from(context.root.path(given), study.parent), "id": one(request, "id")}
    format = {} if people else {"format": one(request, "format")}
    block = {**{key: value for key, value in {**source, **format}.items() if value}, **options}
    where: Where = ("participants",) if people else ("views", name)
    changed: dict[Where, Any]
    changed = {(*where, key): value for key, value in block.items()} if people else {where: block}
    write_changes(request, study, changed)
    return go(request, "study", file=file)


def _from(path: Path, folder: Path) -> str:
    """A path relative to the study file."""
    return Path(os.path.relpath(path, folder)).as_posix()
