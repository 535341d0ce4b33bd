"""A run: its report and files, names of clusters, files for a paper, and another run beside it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import FileResponse, Response

from viewloom.app.context import address, context_of, form_of, go, local, one, page, run_path
from viewloom.runtime.errors import InputError

REPORT_POLICY = "sandbox allow-scripts; frame-ancestors 'self'"  # besides that in the report itself
FORMATS = ("png", "pdf", "svg")
ABOUT = {
    "report.html": "the report; may be shared",
    "labels.csv": "cluster of each subject; private",
    "followup.csv": "clusters at later visits; private",
    "weights.csv": "weights of the views",
    "metrics.json": "sizes, stability and agreement",
    "clinical.json": "clinical variables of the clusters",
    "model.safetensors": "the model; private, since it holds training rows",
    "summary.json": "content of the report",
    "run.json": "settings, versions and input files",
    "replication.html": "the report; may be shared",
    "replication.json": "content of the report",
}


def show(request: Request) -> Response:
    """Show a run."""
    path, context = run_path(request), context_of(request)
    run = context.root.relative(path)
    about = read_index(path / "run.json")
    beside = [path.with_name(f"{path.name}{end}") for end in ("-figures", "-paper")]
    return page(
        request,
        "run.html",
        run=run,
        about=about,
        names=[str(name) for name in about.get("cluster_names", [])],
        files=files_in(path, about.get("private", [])),
        figures=files_in(beside[0], []),
        paper=files_in(beside[1], []),
        where=[context.root.relative(one) for one in beside],
        others=[other for other in context.root.found().runs if other != run],
        formats=FORMATS,
        said=one(request, "said"),
        job=None,
    )


def read_index(path: Path) -> dict[str, Any]:
    """The JSON file that describes a folder of results; `InputError` if it is damaged."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise InputError(f"{path.parent.name}: its {path.name} cannot be read.") from None
    return found if isinstance(found, dict) else {}


def files_in(folder: Path, private: list[str]) -> list[tuple[str, int, str, bool]]:
    """Names, sizes, remarks, and whether they are private."""
    found = sorted(folder.iterdir()) if folder.is_dir() else []
    return [
        (path.name, path.stat().st_size, _about(path.name), path.name in private)
        for path in found
        if path.is_file() and not path.name.startswith(".")
    ]


def _about(name: str) -> str:
    """What a file of a run holds."""
    view = name.removeprefix("importance_").removesuffix(".csv")
    return ABOUT.get(name) or (
        f"features of view {view} by importance" if name.startswith("importance_") else ""
    )


def report(request: Request) -> Response:
    """The report by itself, with its own policy."""
    name = "replication.html" if one(request, "kind") == "replication" else "report.html"
    index = "replication.json" if name.startswith("replication") else "run.json"
    path = run_path(request, index=index) / name
    if path.is_symlink() or not path.is_file():
        raise InputError(f"{name}: no such report.")
    headers = {"content-security-policy": REPORT_POLICY, "x-frame-options": "SAMEORIGIN"}
    return FileResponse(path, media_type="text/html", headers=headers)


def download(request: Request) -> Response:
    """A file to keep."""
    given = one(request, "path")
    path = context_of(request).root.path(given)
    if not path.is_file():
        raise InputError(f"{given or 'The file'}: no such file.")
    return FileResponse(path, media_type="application/octet-stream", filename=path.name)


def rename(request: Request) -> Response:
    """Rename the clusters."""
    run = context_of(request).root.relative(run_path(request))
    names = [str(name) for name in read_index(run_path(request) / "run.json").get("cluster_names", [])]
    given = [(form_of(request).get(f"name-{j}", [name]) or [name])[0].strip() for j, name in enumerate(names)]
    changed = [f"{j + 1}={new}" for j, (old, new) in enumerate(zip(names, given, strict=True)) if new != old]
    if not changed:
        return go(request, "run", run=run, file=one(request, "file"))
    return _start(request, run, ["rename", local(run), *changed], "renamed")


def rewrite(request: Request) -> Response:
    """Write the report again."""
    run = context_of(request).root.relative(run_path(request))
    return _start(request, run, ["report", local(run)], "written")


def figures(request: Request) -> Response:
    """Draw the figures for a paper."""
    run = context_of(request).root.relative(run_path(request))
    return _start(request, run, ["figures", local(run), *_drawing(request)], "drawn")


def paper(request: Request) -> Response:
    """Write the files for a paper."""
    run = context_of(request).root.relative(run_path(request))
    return _start(request, run, ["paper", local(run), *_drawing(request)], "paper")


def _drawing(request: Request) -> list[str]:
    """Format and resolution."""
    chosen = [name for name in form_of(request).get("format", ["png"]) if name in FORMATS]
    dpi = one(request, "dpi", "300").strip()
    if not dpi.isdigit():
        raise InputError("The resolution must be a whole number.")
    return ["--format", ",".join(chosen or ["png"]), "--dpi", dpi]


def _start(request: Request, run: str, arguments: list[str], said: str) -> Response:
    context, file = context_of(request), one(request, "file")
    context.jobs.start(run, arguments, address("run", run=run, file=file, said=said))
    return go(request, "job", run=run, file=file, command=arguments[0])


def compare(request: Request) -> Response:
    """Show two runs side by side."""
    from viewloom.study.run.comparing import compare_runs

    context = context_of(request)
    first, second = run_path(request), run_path(request, "other")
    found = compare_runs(first, second)
    runs = [context.root.relative(path) for path in (first, second)]
    return page(request, "compare.html", found=found, runs=runs, run=runs[0])
