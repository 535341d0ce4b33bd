"""New subjects: their clusters by the model of a run, and clusters looked for in a second study."""

from __future__ import annotations

import csv
from itertools import islice
from pathlib import Path, PurePosixPath

from starlette.requests import Request
from starlette.responses import Response

from viewloom.app.context import address, context_of, go, local, one, page, parsed_json, run_path
from viewloom.app.run_page import files_in, read_index
from viewloom.runtime.errors import InputError

MOST = 500  # subjects that are listed


def show(request: Request) -> Response:
    """Show what can be done with new subjects, and what was done last."""
    context = context_of(request)
    found = context.root.found()
    other = one(request, "other")
    predicted = parsed_json(context.jobs.output(other, "predict")) if other else None
    return page(
        request,
        "subjects.html",
        found=found,
        run=one(request, "run") or (found.runs[0] if found.runs else ""),
        other=other,
        predicted=predicted,
        far=_far(context.root.path(predicted["file"])) if predicted else [],
    )


def _far(path: Path) -> list[list[str]]:
    """The subjects who are far from everything in training; on the screen of their owner only."""
    if not path.is_file():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        rows = (row for row in csv.DictReader(file) if row.get("far") == "yes")
        found = [
            [row[name] for name in ("id", "cluster", "distance", "far_in")] for row in islice(rows, MOST)
        ]
    return sorted(found, key=lambda row: -float(row[2] or 0))


def _chosen(request: Request) -> tuple[str, str]:
    """The run and the other study file."""
    root = context_of(request).root
    run, other = root.relative(run_path(request)), one(request, "other")
    if not other.endswith(".toml") or not root.path(other).is_file():
        raise InputError("Choose a study file of the new subjects; draft one from their files first.")
    return run, other


def predict(request: Request) -> Response:
    """Assign new subjects."""
    context = context_of(request)
    run, other = _chosen(request)
    following = address("subjects", run=run, other=other, file=one(request, "file"))
    output = str(PurePosixPath(other).with_name("predictions.csv"))
    arguments = ["predict", local(run), local(other), "--output", local(output), "--json"]
    context.jobs.start(other, arguments, following)
    return go(request, "job", file=other, command="predict")


def replicate(request: Request) -> Response:
    """Look for the clusters in a second study."""
    context = context_of(request)
    run, other = _chosen(request)
    path = PurePosixPath(other)
    output = str(path.with_name(f"{path.stem}-replication"))
    following = address("replication", run=output, file=one(request, "file"))
    arguments = ["replicate", local(run), local(other), "--output", local(output)]
    context.jobs.start(other, arguments, following)
    return go(request, "job", file=other, command="replicate")


def replication(request: Request) -> Response:
    """Show the results of a replication."""
    path = run_path(request, index="replication.json")
    run = context_of(request).root.relative(path)
    return page(
        request,
        "replication.html",
        run=run,
        about=read_index(path / "replication.json"),
        files=files_in(path, ["labels.csv"]),
    )
