"""The fit: its settings, its progress, and jobs of all kinds while they run."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response, StreamingResponse

from viewloom.app.context import (
    address,
    context_of,
    default_output,
    form_of,
    go,
    local,
    one,
    page,
    seconds,
    study_path,
    whole_number,
)
from viewloom.app.jobs import Status
from viewloom.runtime.errors import InputError

EVERY = 0.3  # seconds between looks at the progress
LONGEST = 3600.0  # seconds that a stream lasts; the browser then asks again
FLAGS = {"compare": "--compare", "leave": "--leave-site-out", "subjects": "--subjects"}
NUMBERS = {"splits": "--splits", "twins": "--twins", "seed": "--seed"}
TITLES = {
    "simulate": "Writing the simulated cohort",
    "init": "Drafting a study",
    "check": "Checking the study",
    "fit": "Clustering the subjects",
    "predict": "Assigning new subjects",
    "replicate": "Comparing with a second study",
    "rename": "Renaming clusters",
    "report": "Writing the report again",
    "figures": "Drawing figures",
    "paper": "Writing the files for a paper",
    "select": "Searching settings",
    "compare": "Comparing",
}
STEPS = {  # where a job belongs among the steps
    "check": "check",
    **dict.fromkeys(("fit", "select", "compare"), "fit"),
    **dict.fromkeys(("rename", "report", "figures", "paper"), "run"),
    **dict.fromkeys(("predict", "replicate"), "subjects"),
}


def show(request: Request) -> Response:
    """Show the settings of a fit."""
    from viewloom.study.config.toml import examined, study_text
    from viewloom.study.errors import StudyError
    from viewloom.study.run.run_folder import earlier_run
    from viewloom.study.run.staging import unfinished

    path, file = study_path(request), one(request, "file")
    status = context_of(request).jobs.status(file, "fit")
    if status is not None and status.running:
        return go(request, "job", file=file, command="fit")
    try:
        study, problems = examined(study_text(path), path)
    except StudyError:
        study, problems = None, []
    output = one(request, "output") or (status.about["output"] if status else "") or default_output(file)
    target = context_of(request).root.path(output)
    return page(
        request,
        "fit.html",
        study=study,
        sound=study is not None and not problems,
        output=output,
        earlier=earlier_run(target),
        unfinished=unfinished(target),
        job=status,
        errors=context_of(request).jobs.errors(file, "fit") if status and status.state == "failed" else [],
    )


def start(request: Request) -> Response:
    """Start a fit, or resume one."""
    path, file = study_path(request), one(request, "file")
    context, form = context_of(request), form_of(request)
    output = one(request, "output").strip() or default_output(file)
    target = context.root.path(output)
    _set_clusters(request, path)
    arguments = ["fit", local(file), "--output", local(output)]
    arguments += ["--choose-k"] if one(request, "clusters") == "choose" else []
    arguments += [flag for name, flag in FLAGS.items() if name in form]
    for name, flag in NUMBERS.items():
        arguments += (
            [flag, whole_number(one(request, name).strip(), flag)] if one(request, name).strip() else []
        )
    arguments += ["--resume"] if "resume" in form else []
    following = address("run", run=context.root.relative(target), file=file)
    context.jobs.start(file, arguments, following, output=output)
    return go(request, "job", file=file, command="fit")


def _set_clusters(request: Request, path: Path) -> None:
    """Write the number of clusters to the study file, where it differs."""
    from viewloom.app.study_page import write_changes
    from viewloom.study.config.toml import read_study

    given = one(request, "n_clusters").strip()
    if one(request, "clusters") == "number" and given:
        number = int(whole_number(given, "number of clusters"))
        if read_study(path).model.n_clusters != number:
            write_changes(request, path, {("model", "n_clusters"): number})
            read_study(path)


def resume(request: Request) -> Response:
    """Start the last fit again, from its checkpoints."""
    study_path(request)
    file, jobs = one(request, "file"), context_of(request).jobs
    status = jobs.status(file, "fit")
    if status is None:
        raise InputError("There is no fit to resume.")
    arguments = [*(part for part in status.arguments if part != "--resume"), "--resume"]
    jobs.start(file, arguments, status.next, **status.about)
    return go(request, "job", file=file, command="fit")


def discard(request: Request) -> Response:
    """Remove the checkpoints of an unfinished fit."""
    from viewloom.study.run.staging import discard as remove

    study_path(request)
    remove(context_of(request).root.path(one(request, "output")))
    return go(request, "fit", file=one(request, "file"))


def job(request: Request) -> Response:
    """Show a job while it runs; afterwards its results, or why it has none."""
    context, command = context_of(request), _command(request)
    subject = _subject(request)
    status = context.jobs.status(subject, command)
    if status is None:
        raise InputError("There is no such job.")
    if status.state == "finished" or (command == "check" and status.state == "failed"):
        return RedirectResponse(f"{context.session.base}/{status.next}", 303)
    return page(
        request,
        "job.html",
        job=status,
        shown=_progress(status),
        title=TITLES[command],
        here=STEPS.get(command, ""),
        back=_back(request, command),
        subject=subject,
        of=("run" if one(request, "run") else "file"),
        errors=context.jobs.errors(subject, command) if not status.running else [],
        log=context.jobs.output(subject, command),
    )


def _back(request: Request, command: str) -> str:
    """Where a job was started."""
    file, run = one(request, "file"), one(request, "run")
    if run:
        return address("run", run=run, file=file)
    if command in ("predict", "replicate"):
        return address("subjects", other=file)
    return {"fit": address("fit", file=file), "check": address("check", file=file)}.get(
        command, address("settings", file=file) if command in ("select", "compare") else ""
    )


def _command(request: Request) -> str:
    command = one(request, "command")
    if command not in TITLES:
        raise InputError("There is no such job.")
    return command


def _subject(request: Request) -> str:
    return one(request, "run") or one(request, "file")


def stop(request: Request) -> Response:
    """Stop a job: pause it, or cancel it and remove what it left behind."""
    from viewloom.study.run.staging import discard as remove

    context, command, subject = context_of(request), _command(request), _subject(request)
    status = context.jobs.status(subject, command)
    context.jobs.stop(subject)
    if "cancel" in form_of(request) and status is not None and "output" in status.about:
        remove(context.root.path(status.about["output"]))
    if command == "fit":
        return go(request, "fit", file=subject)
    return go(request, "job", command=command, file=one(request, "file"), run=one(request, "run"))


async def events(request: Request) -> Response:
    """Stream the progress of a job."""
    context, command, subject = context_of(request), _command(request), _subject(request)

    async def stream() -> AsyncIterator[str]:
        last = ""
        for _ in range(round(LONGEST / EVERY)):
            status = await asyncio.to_thread(context.jobs.status, subject, command)
            if status is None or await request.is_disconnected():
                return
            text = json.dumps(_progress(status))
            if text != last:
                yield f"data: {text}\n\n"
            last = text
            if not status.running:
                return
            await asyncio.sleep(EVERY)

    return StreamingResponse(stream(), media_type="text/event-stream")


def _progress(status: Status) -> dict[str, Any]:
    """What the page shows of a job: the whole where the command announced its stages, or else the stage."""
    whole = status.share is not None
    left = f"about {seconds(status.left_of_all)} left" if status.left_of_all else ""
    if not whole and status.left and status.total > 1:
        left = f"about {seconds(status.left)} left in this stage"
    parts = [
        f"Step {status.steps[0]} of {status.steps[1]}" if whole else "",
        f"{status.done} of {status.total} done" if status.total > 1 else "",
        f"{seconds(status.elapsed)} so far",
        left,
    ]
    return {
        "state": status.state,
        "stage": status.stage or "Starting",
        "detail": " · ".join(filter(None, parts)),
        "said": status.said[-1] if status.said else "",
        "done": round(status.share, 3) if status.share is not None else status.done,
        "total": 1 if whole else status.total if status.total > 1 else 0,
    }
