"""The check: who has which view, what is left out and why, and lines that mend what is wrong."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import FileResponse, Response

from viewloom.app.context import address, context_of, digest, go, local, one, page, parsed_json, study_path
from viewloom.runtime.errors import InputError
from viewloom.study.config.toml import study_text

PICTURE = "overlaps.svg"
MOST_ROWS = 200


def show(request: Request) -> Response:
    """Show the last check of a study."""
    path, file = study_path(request), one(request, "file")
    jobs = context_of(request).jobs
    status = jobs.status(file, "check")
    if status is not None and status.running:
        return go(request, "job", file=file, command="check")
    text = study_text(path)
    found = parsed_json(jobs.output(file, "check")) if status else None
    errors = jobs.errors(file, "check") if status and found is None else []
    return page(
        request,
        "check.html",
        status=200,
        job=status,
        found=found,
        errors=errors,
        advice=found.get("suggestions", {}) if found else {},
        stale=bool(status and status.about.get("digest") != digest(text)),
        picture=(jobs.folder(file, "check") / PICTURE).is_file(),
        most=MOST_ROWS,
    )


def start(request: Request) -> Response:
    """Check the study."""
    path, file = study_path(request), one(request, "file")
    context = context_of(request)
    picture = context.jobs.folder(file, "check") / PICTURE
    arguments = ["check", local(file), "--json", "--picture", str(picture.relative_to(context.root.folder))]
    context.jobs.start(file, arguments, address("check", file=file), digest=digest(study_text(path)))
    return go(request, "job", file=file, command="check")


def picture(request: Request) -> Response:
    """The figure of the overlaps."""
    study_path(request)
    path = context_of(request).jobs.folder(one(request, "file"), "check") / PICTURE
    if not path.is_file():
        raise InputError("There is no figure; check the study first.")
    return FileResponse(path, media_type="image/svg+xml")
