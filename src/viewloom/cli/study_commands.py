"""Commands on studies: parse, call one public function, print."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from viewloom.cli.rendering import (
    check_as_dict,
    print_check,
    print_json,
    print_predictions,
    print_results,
    progress_wanted,
    say,
    tell_error,
    working,
)
from viewloom.runtime.files import check_room, whole
from viewloom.runtime.workers import check_open_files, exit_code, interrupted
from viewloom.study import Study, StudyError, read_study
from viewloom.study import check as check_files
from viewloom.study import run as runs
from viewloom.study.check import Check
from viewloom.study.drafting.draft import Draft
from viewloom.study.run.prediction import check_writable
from viewloom.study.run.tables import metrics, write_json

StudyFile = Annotated[Path, typer.Argument(metavar="STUDY", help="A study file.")]
HERE = Path("study.toml")
Seeds = Annotated[int, typer.Option(min=1, help="Random seeds of each method that is compared.")]
Jobs = Annotated[
    int,
    typer.Option(
        min=1, callback=check_open_files, help="Fits that run side by side; results do not depend on it."
    ),
]
Resume = Annotated[bool, typer.Option("--resume", help="Go on where the same command was interrupted.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, and nothing else.")]


def simulate(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="Made if it is not there.", show_default=False)
    ],
    seed: Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Random seed.")] = 0,
    missing: Annotated[float, typer.Option(min=0, max=0.9, help="Share of views that are lost.")] = 0.1,
    quiet: Quiet = False,
) -> None:
    """Write a simulated cohort as the files of a study, to try everything with."""
    from viewloom.study.example import write_example

    files = write_example(folder, random_state=seed, missing=missing)
    if not quiet:
        say(f"{len(files)} files of a simulated cohort in {folder}. Next:")
        say(f"  viewloom check {files[0]}")
        say(f"  viewloom fit {files[0]}")


def init(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder of your files.")] = Path("."),
    schema: Annotated[
        bool, typer.Option("--schema", help="Write study.schema.json, too, for editors that check TOML.")
    ] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace a study.toml that is there.")
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Write a first study.toml by looking at the files that are there."""
    from viewloom.study.config.toml import json_schema
    from viewloom.study.drafting.draft import draft

    target = folder / "study.toml"
    if folder.is_symlink() and not folder.exists():
        raise StudyError(f"{folder}: is a link that leads nowhere.")
    if target.exists() and not overwrite:
        raise StudyError(
            f"{target}: exists already; edit it, move it away, or have it replaced with --overwrite."
        )
    with working("Looking at files", quiet):
        drafted = draft(folder)
    with whole(target) as part:
        part.write_text(drafted.text, encoding="utf-8")
    if schema:
        with whole(folder / "study.schema.json") as part:
            write_json(json_schema(), part)
    if not quiet:
        _tell_draft(drafted)
        say(f"{target} written; read it through. Next:")
        say(f"  viewloom check {target}")


def _tell_draft(drafted: Draft) -> None:
    """Every file: what it is used as, or why it is passed over."""
    for title, lines in (("Used", drafted.used), ("Passed over", drafted.passed)):
        if lines:
            say(title)
            for line in lines:
                say(f"  {line}")
            say("")


def check(
    study: StudyFile = HERE,
    picture: Annotated[
        Path | None, typer.Option(help="Draw who has which views into this file (PNG, SVG or PDF).")
    ] = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Show who has what, what is missing and what fit would leave out, before anything runs."""
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
            tell_error(problem)
        raise typer.Exit(2)
    if picture is not None:
        _draw(found, picture)
        if not (as_json or quiet):
            say(f"Picture: {picture}")


def _draw(found: Check, path: Path) -> None:
    from viewloom.study.overlaps import overlaps

    figure: Any = overlaps(found).figure
    if path.suffix.lstrip(".").lower() not in figure.canvas.get_supported_filetypes():
        raise StudyError(f"{path}: pictures are .png, .svg or .pdf.")
    with whole(path) as part:
        figure.savefig(part, bbox_inches="tight")


def fit(
    study: StudyFile = HERE,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="The run folder; beside the study file unless given."),
    ] = None,
    compare: Annotated[
        bool, typer.Option("--compare", help="Score other methods against the diagnosis, too.")
    ] = False,
    choose_k: Annotated[
        bool, typer.Option("--choose-k", help="Find out how many clusters there seem to be; takes a while.")
    ] = False,
    resume: Resume = False,
    subjects: Annotated[
        bool, typer.Option("--subjects", help="Show single subjects in the report; do not mail it then.")
    ] = False,
    seed: Annotated[int | None, typer.Option(min=0, max=2**32 - 1, help="Instead of the study's.")] = None,
    seeds: Seeds = 3,
    jobs: Jobs = 2,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Cluster the subjects of a study, and write tables, the model and a report into one folder."""
    found = with_seed(read_study(study), seed)
    folder = output or study.with_name(f"{study.stem}-results")
    check_room(folder)
    with resumable():
        results = runs.run_study(
            found,
            folder,
            compare=compare,
            choose_k=choose_k,
            seeds=seeds,
            subjects=subjects,
            resume=resume,
            n_jobs=jobs,
            progress=progress_wanted(quiet or as_json),
        )
    if as_json:
        print_json(
            {"folder": str(folder), **metrics(results), "notes": [str(note) for note in results.notes]}
        )
    elif not quiet:
        print_results(results)
        say(f"\nResults in {folder}; begin with the report:")
        say(f"  {folder / 'report.html'}")


@contextmanager
def resumable() -> Iterator[None]:
    """Say how to go on, to those who stop a command."""
    try:
        yield
    except BaseException as error:
        if not interrupted(error):
            raise
        tell_error("interrupted; earlier results are untouched. The same command with --resume goes on.")
        raise typer.Exit(exit_code()) from None


def with_seed(study: Study, seed: int | None) -> Study:
    """The study with another seed."""
    if seed is None:
        return study
    return study.model_copy(update={"model": study.model.model_copy(update={"seed": seed})})


def predict(
    model: Annotated[
        Path,
        typer.Argument(metavar="MODEL", help="A run folder, or its model.safetensors.", show_default=False),
    ],
    study: StudyFile,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Table of the subjects; predictions.csv beside the study."),
    ] = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Place new subjects with a fitted model, and say who is far from everything seen in training."""
    target = output or study.with_name("predictions.csv")
    found = read_study(study)
    check_writable(target.absolute())
    with working("Placing subjects", quiet or as_json):
        table = runs.predict(model, found)
    runs.write_predictions(table, target)
    if as_json:
        counts = table["label"].value_counts().sort_index().to_dict()
        far = int((table["far"] == "yes").sum())
        told = {"subjects": len(table), "per_cluster": counts, "far": far}
        notes = [str(note) for note in table.attrs["notes"]]
        print_json({"file": str(target), **told, "notes": notes})
    elif not quiet:
        print_predictions(table)
        say(f"Table of the subjects, readable by you only: {target}")


def report(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.", show_default=False)],
    quiet: Quiet = False,
) -> None:
    """Make the report of a run again; the data are not needed."""
    path = runs.rewrite_report(run)
    if not quiet:
        say(f"Report: {path}")
