"""Commands on studies: each parses, calls one public function and prints.

Commands import what they call, so that ``--help`` and ``--version`` start without numpy and pandas.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from viewloom.cli.rendering import (
    check_as_dict,
    print_check,
    print_error_line,
    print_formats,
    print_json,
    print_line,
    print_predictions,
    print_replication,
    print_results,
    progress_wanted,
    working,
)
from viewloom.runtime.files import atomic_write, check_room
from viewloom.runtime.visible import visible
from viewloom.runtime.workers import before_last_line, check_open_files, exit_code, interrupted

if TYPE_CHECKING:
    from viewloom.study import Study
    from viewloom.study.check import Check
    from viewloom.study.drafting.draft import Draft
    from viewloom.study.results import Results

StudyFile = Annotated[Path, typer.Argument(metavar="STUDY", help="A study file.")]
HERE = Path("study.toml")
STARTING = "Starting"  # while the libraries are imported
Seeds = Annotated[int, typer.Option(min=1, help="Number of random seeds per method.")]
Jobs = Annotated[
    int,
    typer.Option(
        min=1, callback=check_open_files, help="Number of parallel fits; the results do not depend on it."
    ),
]
Resume = Annotated[bool, typer.Option("--resume", help="Resume the same command after an interruption.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print errors only.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON only.")]


def _enough_twins(count: int | None) -> int | None:
    if count:
        from viewloom.study.config.schema import twins_problem

        if problem := twins_problem(count):
            raise typer.BadParameter(problem)
    return count


def simulate(
    folder: Annotated[
        Path,
        typer.Argument(metavar="DIR", help="Folder to write to; created if necessary.", show_default=False),
    ],
    seed: Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Random seed.")] = 0,
    missing: Annotated[float, typer.Option(min=0, max=0.9, help="Share of views that are missing.")] = 0.1,
    visits: Annotated[int, typer.Option(min=1, max=10, help="Number of yearly visits.")] = 1,
    cohorts: Annotated[
        int,
        typer.Option(
            min=1, max=2, help="2 writes two cohorts of the same disease, with other sites and views."
        ),
    ] = 1,
    quiet: Quiet = False,
) -> None:
    """Write the files of an example study with a simulated cohort."""
    with working("Simulating", quiet):
        from viewloom.study.errors import StudyError
        from viewloom.study.example import write_cohorts, write_example

        if cohorts == 2:
            if visits > 1:
                raise StudyError("--cohorts 2 writes one visit of each subject; leave --visits out.")
            pair = write_cohorts(folder, random_state=seed, missing=missing)
        else:
            files = write_example(folder, random_state=seed, missing=missing, visits=visits)
    if cohorts == 2:
        first, second = (files[0] for files in pair)
        if not quiet:
            print_line(f"Wrote two simulated cohorts to {folder}. Next:")
            print_line(f"  viewloom fit {first} --output {folder / 'run'}")
            print_line(f"  viewloom replicate {folder / 'run'} {second}")
        return
    if not quiet:
        print_line(f"Wrote {len(files)} files of a simulated cohort to {folder}. Next:")
        print_line(f"  viewloom check {files[0]}")
        print_line(f"  viewloom fit {files[0]}")


def init(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of your data files.")] = Path("."),
    schema: Annotated[
        bool, typer.Option("--schema", help="Also write study.schema.json, for editors that validate TOML.")
    ] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing study.toml.")] = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Draft a study.toml from the files in a folder."""
    with working(STARTING, quiet or as_json):
        from viewloom.study.config.toml import json_schema
        from viewloom.study.drafting.draft import draft
        from viewloom.study.errors import StudyError
        from viewloom.study.run.tables import write_json

    target = folder / "study.toml"
    if folder.is_symlink() and not folder.exists():
        raise StudyError(f"{folder}: is a broken link.")
    if target.exists() and not overwrite:
        raise StudyError(f"{target}: already exists; edit it, move it, or replace it with --overwrite.")
    with working("Reading files", quiet or as_json):
        drafted = draft(folder)
    with atomic_write(target) as part:
        part.write_text(drafted.text, encoding="utf-8")
    if schema:
        with atomic_write(folder / "study.schema.json") as part:
            write_json(json_schema(), part)
    if as_json:
        print_json({"file": str(target), "used": drafted.used, "passed": drafted.passed})
    elif not quiet:
        _print_draft(drafted)
        print_line(f"Wrote {target}; review it before you continue. Next:")
        print_line(f"  viewloom check {target}")


def _print_draft(drafted: Draft) -> None:
    """Print how each file is used, or why it is skipped."""
    for title, lines in (("Used", drafted.used), ("Skipped", drafted.passed)):
        if lines:
            print_line(title)
            for line in lines:
                print_line(f"  {line}")
            print_line("")


def formats(
    as_json: Json = False,
    as_markdown: Annotated[
        bool, typer.Option("--markdown", help="Print the page of the documentation instead.")
    ] = False,
) -> None:
    """List the formats and kinds of files that studies read, with their options and an example of each."""
    from viewloom.study.readers import catalogue

    lists = {"files": catalogue.files(), "formats": catalogue.formats()}
    if as_json:
        print_json({name: [one.as_dict() for one in found] for name, found in lists.items()})
    elif as_markdown:
        print_line(catalogue.markdown())
    else:
        print_formats(lists["files"], "Files that hold a table")
        print_formats(lists["formats"], "Formats")


def check(
    study: StudyFile = HERE,
    picture: Annotated[
        Path | None, typer.Option(help="Draw the overlap of the views to this file (PNG, SVG or PDF).")
    ] = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Check the files of a study: subjects, views, missing data, and what fit leaves out."""
    with working(STARTING, quiet or as_json):
        from viewloom.study import StudyError, read_study
        from viewloom.study import check as check_files

    if picture is not None and not picture.absolute().parent.is_dir():
        raise StudyError(f"{picture.parent}: no such folder.")
    with working("Reading files", quiet or as_json):
        found = check_files(read_study(study))
    if as_json:
        print_json(check_as_dict(found))
    elif not quiet:
        print_check(found)
    if not found.ok:
        for problem in found.problems:
            print_error_line(problem)
        raise typer.Exit(2)
    if picture is not None:
        with working("Drawing the overlap", quiet or as_json):
            _draw(found, picture)
        if not (as_json or quiet):
            print_line(f"Figure: {picture}")


def _draw(found: Check, path: Path) -> None:
    from viewloom.study.errors import StudyError
    from viewloom.study.overlaps import overlaps

    figure: Any = overlaps(found).figure
    if path.suffix.lstrip(".").lower() not in figure.canvas.get_supported_filetypes():
        raise StudyError(f"{path}: figures are .png, .svg or .pdf.")
    with atomic_write(path) as part:
        figure.savefig(part, bbox_inches="tight")


def fit(
    study: StudyFile = HERE,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Run folder; by default beside the study file."),
    ] = None,
    compare: Annotated[
        bool, typer.Option("--compare", help="Also compare other methods with the diagnosis.")
    ] = False,
    choose_k: Annotated[
        bool, typer.Option("--choose-k", help="Estimate the number of clusters; takes longer.")
    ] = False,
    leave_site_out: Annotated[
        bool, typer.Option("--leave-site-out", help="Predict each site by a model of the other sites.")
    ] = False,
    splits: Annotated[
        int | None,
        typer.Option(
            min=0, help="Random halves in which features are tested on subjects placed without their view."
        ),
    ] = None,
    twins: Annotated[
        int | None,
        typer.Option(
            min=0,
            callback=_enough_twins,
            help="Data sets without clusters to compare with, instead of those of the study.",
        ),
    ] = None,
    resume: Resume = False,
    subjects: Annotated[
        bool, typer.Option("--subjects", help="Show individual subjects in the report; do not share it then.")
    ] = False,
    seed: Annotated[
        int | None, typer.Option(min=0, max=2**32 - 1, help="Random seed, instead of that of the study.")
    ] = None,
    seeds: Seeds = 3,
    jobs: Jobs = 2,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Cluster the subjects of a study, and write tables, the model and a report to a run folder."""
    silent = quiet or as_json
    with working(STARTING, silent):
        from viewloom.study import read_study
        from viewloom.study import run as runs

    found = with_seed(read_study(study), seed)
    found = leaving_sites(found) if leave_site_out else found
    found = with_report(found, splits=splits, twins=twins)
    folder = output or study.with_name(f"{study.stem}-results")
    check_room(folder)
    earlier = runs.earlier_run(folder)
    if earlier is not None and not silent:
        print_line(f"Replaces the run in {folder}: {earlier}.")
    options: dict[str, Any] = {"compare": compare, "choose_k": choose_k, "seeds": seeds, "subjects": subjects}
    with resumable():
        results = runs.run_study(
            found, folder, resume=resume, n_jobs=jobs, progress=progress_wanted(silent), **options
        )
    _print_run(results, folder, as_json, quiet)


def _print_run(results: Results, folder: Path, as_json: bool, quiet: bool) -> None:
    """Print what a run found and where it is."""
    from viewloom.study.run.tables import metrics

    if as_json:
        print_json(
            {"folder": str(folder), **metrics(results), "notes": [str(note) for note in results.notes]}
        )
    elif not quiet:
        print_results(results)
        print_line(f"\nResults in {folder}; start with the report:")
        print_line(f"  {folder / 'report.html'}")


@contextmanager
def resumable() -> Iterator[None]:
    """Print how to resume a command that is interrupted."""
    try:
        yield
    except BaseException as error:
        if not interrupted(error):
            raise
        before_last_line()
        print_error_line(
            "interrupted; earlier results are unchanged. Run the same command with --resume to continue."
        )
        raise typer.Exit(exit_code()) from None


def with_seed(study: Study, seed: int | None) -> Study:
    """The study with another random seed."""
    if seed is None:
        return study
    return study.model_copy(update={"model": study.model.model_copy(update={"seed": seed})})


def with_report(study: Study, **settings: int | None) -> Study:
    """The study with other settings of its report; those that are None stay."""
    given = {name: value for name, value in settings.items() if value is not None}
    return study.model_copy(update={"report": study.report.model_copy(update=given)})


def leaving_sites(study: Study) -> Study:
    """The study with each site left out in turn."""
    return study.model_copy(update={"cluster": study.cluster.model_copy(update={"leave": "site"})})


def predict(
    model: Annotated[
        Path,
        typer.Argument(metavar="MODEL", help="A run folder, or its model.safetensors.", show_default=False),
    ],
    study: StudyFile,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="Table of the subjects; by default predictions.csv beside the study."
        ),
    ] = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Assign new subjects with a fitted model, and flag those far from the training data."""
    with working(STARTING, quiet or as_json):
        from viewloom.study import read_study
        from viewloom.study.run.prediction import check_writable, write_predictions
        from viewloom.study.run.prediction import predict as assigned

    target = output or study.with_name("predictions.csv")
    found = read_study(study)
    check_writable(target.absolute())
    with working("Assigning subjects", quiet or as_json):
        table = assigned(model, found)
        write_predictions(table, target)
    if as_json:
        counts = table["label"].value_counts().sort_index().to_dict()
        far = int((table["far"] == "yes").sum())
        names = dict(zip(table["label"], table["cluster"], strict=True))
        content = {"subjects": len(table), "per_cluster": counts, "names": names, "far": far}
        notes = [str(note) for note in table.attrs["notes"]]
        print_json({"file": str(target), **content, "notes": notes})
    elif not quiet:
        print_predictions(table)
        print_line(f"Table of the subjects, readable by you only: {target}")


def replicate(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.", show_default=False)],
    study: StudyFile,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Folder for the results; by default beside the second study."),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(min=0, max=2**32 - 1, help="Random seed, instead of that of the run.")
    ] = None,
    jobs: Jobs = 2,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Assess whether the clusters of a run are found again in a second study, and write a report."""
    with working(STARTING, quiet or as_json):
        from viewloom.study import read_study
        from viewloom.study.run.replication import replicate_study

    found = read_study(study)
    folder = output or study.with_name(f"{study.stem}-replication")
    check_room(folder)
    results = replicate_study(
        run, found, folder, seed=seed, n_jobs=jobs, progress=progress_wanted(quiet or as_json)
    )
    if as_json:
        from viewloom.study.report.replication import content
        from viewloom.study.run.tables import plain

        print_json({"folder": str(folder), **plain(content(results))})
    elif not quiet:
        print_replication(results)
        print_line(f"\nResults in {folder}; start with the report:")
        print_line(f"  {folder / 'replication.html'}")


def report(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.", show_default=False)],
    quiet: Quiet = False,
) -> None:
    """Write the report of a run again, without the data."""
    with working("Writing the report", quiet):
        from viewloom.study.run.run_folder import rewrite_report

        path = rewrite_report(run)
    if not quiet:
        print_line(f"Report: {path}")


def rename(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.", show_default=False)],
    names: Annotated[
        list[str],
        typer.Argument(
            metavar="CLUSTER=NAME...",
            help="Number of the cluster in the report, or its present name, and its new name.",
            show_default=False,
        ),
    ],
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Rename the clusters of a run in its report, tables and model, without a new fit."""
    from viewloom.study.errors import StudyError
    from viewloom.study.run.renaming import rename as renamed

    changes: dict[str, str] = {}
    for pair in names:
        key, equals, name = pair.partition("=")
        if not equals or key.strip() in changes:
            raise StudyError(f"write each cluster once, as 1=limbic, not {visible(pair[:80])!r}.")
        changes[key.strip()] = name.strip()
    with working("Drawing figures", quiet or as_json):
        found = renamed(run, changes)
    if as_json:
        print_json({"folder": str(run), "cluster_names": found})
    elif not quiet:
        print_line(f"Clusters of {run}: {', '.join(f'{j + 1} {name}' for j, name in enumerate(found))}")
        print_line(f"Report: {run / 'report.html'}")


def figures(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.", show_default=False)],
    format: Annotated[
        str, typer.Option("--format", "-f", help="png, pdf, svg, or several: png,pdf.")
    ] = "png",
    dpi: Annotated[int, typer.Option(min=50, max=1200, help="Resolution of PNG files.")] = 300,
    only: Annotated[
        str | None,
        typer.Option(
            help="Figures to write, such as weights,importance; by default all.", show_default=False
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Folder for the files; by default RUN-figures beside the run."),
    ] = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Write the figures of a report to files for a paper, without new computing."""
    with working("Drawing figures", quiet or as_json):
        from viewloom.study.run.paper_figures import write_figures

        files = write_figures(run, output, formats=_listed(format), dpi=dpi, only=_listed(only or ""))
    if as_json:
        print_json({"files": [str(path) for path in files]})
    elif not quiet:
        print_line(f"Wrote {len(files)} files to {files[0].parent}:")
        print_line(f"  {', '.join(path.name for path in files)}")


def paper(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.", show_default=False)],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Folder for the files; by default RUN-paper beside the run."),
    ] = None,
    format: Annotated[
        str, typer.Option("--format", "-f", help="Of figures: png, pdf, svg, or several: png,pdf.")
    ] = "png",
    dpi: Annotated[int, typer.Option(min=50, max=1200, help="Resolution of PNG files.")] = 300,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Write methods text, references, Table 1, a checklist, a model card and figures for a paper."""
    with working("Writing documents and figures", quiet or as_json):
        from viewloom.study.publication import write_paper

        files = write_paper(run, output, formats=_listed(format), dpi=dpi)
    if as_json:
        print_json({"folder": str(files[0].parent), "files": [path.name for path in files]})
    elif not quiet:
        texts = [path.name for path in files if path.suffix == ".md"]
        print_line(f"Wrote {len(files)} files to {files[0].parent}; start with {', '.join(texts)}.")
        print_line("The checklist says which items are left to you.")


def app(
    folder: Annotated[
        Path,
        typer.Argument(metavar="DIR", help="Folder of your files; nothing outside it is read or written."),
    ] = Path("."),
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the browser.")] = True,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; by default a free one.")] = 0,
    host: Annotated[
        str, typer.Option(help="Address to listen at; any other than this machine's own is at your risk.")
    ] = "127.0.0.1",
    idle: Annotated[
        float, typer.Option(min=0.01, help="Minutes without use and without a job until it closes.")
    ] = 120.0,
    quiet: Quiet = False,
) -> None:
    """Do all this in a page of your browser, on this machine only."""
    from viewloom.app.server import LOOPBACK, serve

    if host != LOOPBACK:
        print_error_line(
            f"listening at {visible(host)}: others in your network can try to reach this page, and what they "
            "see of it is not encrypted."
        )

    def announce(link: str) -> None:
        if not quiet:
            print_line("Opening your browser; if it stays closed, open this link, which works once:")
        print_line(f"  {link}")
        if not quiet:
            print_line("Ctrl-C closes viewloom; a running job goes on, and is shown when you come back.")
        sys.stdout.flush()

    serve(folder, host=host, port=port, idle=60 * idle, browse=browser, announce=announce)


def _listed(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]
