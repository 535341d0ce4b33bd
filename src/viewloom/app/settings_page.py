"""Settings and methods: which settings the data support, and what other methods and settings find."""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from starlette.requests import Request
from starlette.responses import FileResponse, Response

from viewloom.app.context import (
    address,
    context_of,
    digest,
    go,
    local,
    one,
    page,
    parsed_json,
    study_path,
    whole_number,
)
from viewloom.app.run_page import files_in
from viewloom.runtime.errors import InputError
from viewloom.study.config.toml import study_text
from viewloom.study.run.staging import unfinished

MOST_ROWS = 60
COMMANDS = ("select", "compare")


class Question(NamedTuple):
    """What can be asked of a study: the command, its flags, where its tables go, and how it is put."""

    command: str
    flags: tuple[str, ...]
    end: str
    title: str
    text: str


QUESTIONS = {
    "number": Question(
        "select",
        ("--clusters",),
        "-clusters.csv",
        "Which number of clusters?",
        "Two to six clusters, on subsamples and on data without clusters.",
    ),
    "settings": Question(
        "select",
        (),
        "-settings.csv",
        "Which lam, theta and gamma?",
        "27 settings by cross-validation. The diagnosis is not used for the choice.",
    ),
    "paper": Question(
        "select",
        ("--paper",),
        "-paper-settings.csv",
        "Which settings of the published method?",
        "Its lam, theta and sigma by cross-validation.",
    ),
    "methods": Question(
        "compare",
        (),
        "-methods",
        "What do other methods find?",
        "Baselines, the published method and this one against the diagnosis, which must be known.",
    ),
    "variations": Question(
        "compare",
        ("--settings",),
        "-variations",
        "How much depends on the settings?",
        "Clusters of other settings beside those of the study; needs no diagnosis.",
    ),
}


def show(request: Request) -> Response:
    """Show the questions, and the last answers."""
    path, file = study_path(request), one(request, "file")
    jobs = context_of(request).jobs
    running = next((command for command in COMMANDS if jobs.current(file) == command), None)
    if running:
        return go(request, "job", file=file, command=running)
    answers = [found for command in COMMANDS if (found := _answer(request, path, command))]
    return page(
        request,
        "settings.html",
        questions=QUESTIONS,
        answers=answers,
        kept={kind: unfinished(_target(request, kind)) for kind in QUESTIONS},
        most=MOST_ROWS,
        said=one(request, "said"),
        here="fit",
    )


def _target(request: Request, kind: str) -> Path:
    """Where the tables of a question go: beside the study file."""
    path = PurePosixPath(one(request, "file"))
    return context_of(request).root.path(str(path.with_name(f"{path.stem}{QUESTIONS[kind].end}")))


def _answer(request: Request, path: Path, command: str) -> dict[str, Any] | None:
    """What the last command of a kind printed, with its files."""
    context, file = context_of(request), one(request, "file")
    status = context.jobs.status(file, command)
    kind = str(status.about.get("kind")) if status else ""
    if status is None or kind not in QUESTIONS:
        return None
    found, target = parsed_json(context.jobs.output(file, command)), _target(request, kind)
    folder = target if target.is_dir() else target.parent
    files = [row for row in files_in(folder, []) if target.is_dir() or row[0] == target.name]
    return {
        "kind": kind,
        "found": found if status.state == "finished" else None,
        "errors": [] if status.state == "finished" else context.jobs.errors(file, command),
        "files": files,
        "folder": context.root.relative(folder),
        "figures": [row[0] for row in files if row[0].endswith(".png")],
        "changes": _settings(found, kind) if found and status.state == "finished" else {},
        "stale": status.about.get("digest") != digest(study_text(path)),
    }


def _settings(found: Any, kind: str) -> dict[str, Any]:
    """The keys of [model] that an answer recommends."""
    if kind == "number" and isinstance(found.get("recommended"), int):
        return {"n_clusters": found["recommended"]}
    if kind == "settings" and isinstance(found.get("best"), dict):
        return {key: found["best"][key] for key in ("lam", "theta", "gamma") if key in found["best"]}
    return {}


def start(request: Request) -> Response:
    """Ask one of the questions."""
    path, file, kind = study_path(request), one(request, "file"), one(request, "kind")
    if kind not in QUESTIONS:
        raise InputError("There is no such search.")
    context, asked = context_of(request), QUESTIONS[kind]
    output = context.root.relative(_target(request, kind))
    arguments = [asked.command, local(file), *asked.flags, "--output", local(output), "--json"]
    for name in ("seed",) if asked.command == "select" else ("seeds",):
        given = one(request, name).strip()
        arguments += [f"--{name}", whole_number(given, name)] if given else []
    arguments += ["--resume"] if unfinished(_target(request, kind)) and asked.command == "select" else []
    about = {"kind": kind, "digest": digest(study_text(path))}
    context.jobs.start(file, arguments, address("settings", file=file), **about)
    return go(request, "job", file=file, command=asked.command)


def apply(request: Request) -> Response:
    """Write the recommended settings to the study file."""
    from viewloom.app.study_page import write_changes

    path, file = study_path(request), one(request, "file")
    answer = _answer(request, path, "select")
    if answer is None or not answer["changes"]:
        raise InputError("There is no recommended setting; search for one first.")
    write_changes(request, path, {("model", key): value for key, value in answer["changes"].items()})
    return go(request, "settings", file=file, said="saved")


def figure(request: Request) -> Response:
    """A figure of a comparison."""
    study_path(request)
    kind, name = one(request, "kind"), one(request, "name")
    path = _target(request, kind) / name if kind in QUESTIONS else None
    if path is None or name not in ("comparison.png", "agreement.png", "settings.png") or not path.is_file():
        raise InputError("There is no such figure.")
    return FileResponse(path, media_type="image/png")
