"""The command line: each command parses, calls one public function and prints."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import nullcontext
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from typer.core import TyperGroup

import viewloom
from viewloom.cli import study_commands
from viewloom.cli.rendering import (
    comparison_table,
    console,
    frame_table,
    print_error,
    print_error_line,
    print_json,
    print_line,
    print_number,
    progress_wanted,
    show,
)
from viewloom.cli.study_commands import Jobs, Json, Quiet, Resume, Seeds, resumable
from viewloom.data.views import Views
from viewloom.evaluation.comparison import Comparison, compare
from viewloom.evaluation.selection import Selection, choose_k, select
from viewloom.runtime.files import atomic_write, check_room, writing
from viewloom.runtime.workers import exit_code, interrupted, silence_warnings
from viewloom.study import StudyError, read_study
from viewloom.study import run as runs

GRID = {"lam": [1.0, 10.0, 100.0], "theta": [0.01, 0.1, 1.0], "gamma": [1.5, 2.0, 4.0]}
DEBUG = "--debug"
NO_MEMORY = (
    "not enough memory; earlier results are unchanged. Use fewer --jobs, or fewer subjects or features."
)


class Commands(TyperGroup):
    """Commands that print errors on one line; exit code 2 for invalid input, 130 for Ctrl-C, 1 otherwise."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Accept ``--debug`` anywhere on the command line."""
        others = [argument for argument in args if argument != DEBUG]
        return super().parse_args(ctx, [DEBUG] * (DEBUG in args) + others)

    def invoke(self, ctx: Any) -> Any:
        """Run the command; print errors instead of raising them."""
        try:
            return super().invoke(ctx)
        except (Exception, KeyboardInterrupt) as error:
            if hasattr(error, "exit_code") or isinstance(error, typer.Abort):
                raise  # from the parser
            raise typer.Exit(_handled(error, ctx.params.get("debug", False))) from None


def _handled(error: BaseException, debug: bool) -> int:
    """Print an error and return the exit code."""
    if interrupted(error):
        silence_warnings()
        print_error_line("interrupted; earlier results are unchanged.")
        return exit_code()
    if isinstance(error, MemoryError):
        print_error_line(NO_MEMORY)
        return 1
    return print_error(error, debug)


app = typer.Typer(
    cls=Commands,
    help="Cluster subjects from several views, and estimate the weight of each view.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)
Output = Annotated[Path | None, typer.Option("--output", "-o", help="Folder for tables and figures.")]
StudyOrCohort = Annotated[
    Path | None,
    typer.Argument(metavar="STUDY", help="A study.toml, instead of a cohort.", show_default=False),
]


class CohortName(StrEnum):
    """Cohorts that are included in viewloom."""

    adni_like = "adni-like"
    ad_csf = "ad-csf"


Cohort = Annotated[CohortName, typer.Option(help="A cohort that is included in viewloom.")]


@app.callback(invoke_without_command=True)
def main(
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
    debug: Annotated[bool, typer.Option(DEBUG, help="Show the traceback of an error.")] = False,
) -> None:
    """Multi-view clustering by kernel matrix factorisation."""
    if version:
        console.print(f"viewloom {viewloom.__version__}")
        raise typer.Exit


def examples(*lines: str) -> str:
    """Examples at the end of a help text."""
    return "\n\n".join(["[bold]Examples[/bold]", *(f"$ viewloom {line}" for line in lines)])


EXAMPLES: dict[Callable[..., None], str] = {
    study_commands.simulate: examples("simulate study", "simulate two --cohorts 2"),
    study_commands.init: examples("init my-folder"),
    study_commands.check: examples("check study/study.toml", "check study/study.toml --picture overlaps.png"),
    study_commands.fit: examples(
        "fit study/study.toml --output run", "fit study/study.toml --output run --resume"
    ),
    study_commands.predict: examples("predict run/model.safetensors new/study.toml"),
    study_commands.replicate: examples("replicate run other/study.toml"),
    study_commands.report: examples("report run"),
    study_commands.rename: examples('rename run 1="limbic" 2="cortical"'),
    study_commands.figures: examples("figures run --format pdf,png --dpi 600 --only weights,importance"),
}
for command, end in EXAMPLES.items():
    app.command(epilog=end)(command)


@app.command(epilog=examples("demo", "demo --output somewhere"))
def demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the results.")] = Path(
        "demo-output"
    ),
    seeds: Seeds = 1,
    jobs: Jobs = 2,
    quiet: Quiet = False,
) -> None:
    """Run a complete study on a simulated Alzheimer cohort, with the commands you would type."""
    from viewloom.cli.demo import run_demo

    run_demo(output, _run, seeds=seeds, n_jobs=jobs, quiet=quiet)


def _run(arguments: list[str]) -> None:
    """Run a command of this program, and exit if it fails."""
    code = app(arguments, standalone_mode=False)
    if code:
        raise typer.Exit(code)


@app.command(name="compare", epilog=examples("compare study/study.toml", "compare --cohort ad-csf --seeds 3"))
def compare_methods(
    study: StudyOrCohort = None,
    cohort: Cohort = CohortName.adni_like,
    seeds: Seeds = 5,
    jobs: Jobs = 2,
    output: Output = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Compare baselines, the published form as it is and searched, and ours; takes minutes."""
    if output is not None:
        with writing(output):
            output.mkdir(parents=True, exist_ok=True)
        check_room(output)
    views, y, _ = load(study, cohort)
    if len(set(y)) < 2:
        raise StudyError(f"{study}: comparing methods needs diagnosis under [participants].")
    result = compare(views, y, seeds=seeds, n_jobs=jobs, progress=progress_wanted(quiet or as_json))
    if as_json:
        print_json({"table": result.table.reset_index().to_dict("records")})
    elif not quiet:
        show(comparison_table(result))
    if output is not None:
        with atomic_write(output / "comparison.csv") as part:
            result.to_csv(part)
        _draw_comparison(result, output / "comparison.png")
        if not (as_json or quiet):
            print_line(f"Table and figure in {output.resolve()}")


@app.command(
    name="select",
    epilog=examples(
        "select study/study.toml --output settings.csv", "select study/study.toml --clusters --json"
    ),
)
def select_parameters(
    study: StudyOrCohort = None,
    cohort: Cohort = CohortName.adni_like,
    clusters: Annotated[
        bool, typer.Option("--clusters", help="Choose the number of clusters instead.")
    ] = False,
    paper: Annotated[
        bool, typer.Option("--paper", help="Search lam, theta and sigma of the paper's method instead.")
    ] = False,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Also write the full table to this CSV file.")
    ] = None,
    resume: Resume = False,
    jobs: Jobs = 2,
    seed: Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Random seed.")] = 0,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Choose lam, theta and gamma by cross-validation, or the number of clusters, without labels."""
    if resume and output is None:
        raise StudyError("--resume needs --output, the table that the interrupted search was writing.")
    if clusters and paper:
        raise StudyError("--clusters and --paper are two searches; choose one.")
    if output is not None:
        check_room(output)
    views, y, k = load(study, cohort)
    known = y if len(y) == len(views) else None
    how: dict[str, Any] = {
        "n_jobs": jobs,
        "random_state": seed,
        "progress": progress_wanted(quiet or as_json),
    }
    began = time.perf_counter()
    with nullcontext() if output is None else resumable():
        if clusters:
            counting = partial(choose_k, views, range(2, 7), **how)
            found: Any = runs.search(counting, views, ("clusters", seed), output, resume=resume)
        else:
            grid = None if paper else GRID
            trying = partial(select, views, grid, n_clusters=k, y=known, paper=paper, **how)
            asked = ("paper" if paper else "settings", seed, k, known)
            found = runs.search(trying, views, asked, output, resume=resume)
    if as_json:
        content = (
            {"recommended": found.recommended, "reasons": found.reasons}
            if clusters
            else {"best": found.best_params}
        )
        print_json({**content, "table": found.table.to_dict("records")})
    elif not quiet:
        (print_number if clusters else _print_settings)(found)
        print_line(
            f"{time.perf_counter() - began:.0f} seconds" + ("" if output is None else f"; table in {output}")
        )


def _print_settings(found: Selection) -> None:
    columns = ["rank", *GRID, "sigma", "held_out", "stability", "reported_Acc", "reported_NMI"]
    shown = found.table.head(10)
    title = f"Best of {len(found.table)} settings, 5 folds; labels are not used for the choice"
    show(frame_table(title, shown[[name for name in columns if name in shown]]))
    print_line(f"Best: {found.best_params}")


def load(study: Path | None, cohort: CohortName) -> tuple[Views, np.ndarray, int]:
    """Views, classes and number of clusters of a cohort, or of the diagnosed subjects of a study."""
    if study is not None:
        ready = runs.prepare(read_study(study))
        y = ready.classes
        views = ready.views[y.index.to_numpy()] if len(y) else ready.views
        return views, y.to_numpy(), ready.study.model.n_clusters
    if cohort is CohortName.adni_like:
        simulated = viewloom.simulate.adni_like(random_state=0)
        views, classes = simulated.views, simulated.participants["diagnosis"].to_numpy()
    else:
        real = viewloom.datasets.load_ad_csf()
        views, classes = real.views, np.asarray(real.y)
    return views, classes, len(set(classes))


def _draw_comparison(result: Comparison, path: Path) -> None:
    from viewloom import plotting

    figure: Any = plotting.comparison(result).figure
    with atomic_write(path) as part:
        figure.savefig(part, bbox_inches="tight")
