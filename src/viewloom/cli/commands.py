"""The command line: each command parses, calls one public function and prints.

Commands import what they call, so that ``--help`` and ``--version`` start without numpy and pandas.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

import viewloom
from viewloom.cli import study_commands
from viewloom.cli.rendering import (
    comparison_table,
    console,
    frame_table,
    print_agreement,
    print_error,
    print_error_line,
    print_json,
    print_line,
    print_number,
    print_solutions,
    progress_wanted,
    show,
    working,
)
from viewloom.cli.study_commands import STARTING, Jobs, Json, Quiet, Resume, Seeds, resumable
from viewloom.runtime.files import atomic_write, check_room, writing
from viewloom.runtime.workers import before_last_line, exit_code, interrupted

if TYPE_CHECKING:
    import numpy as np

    from viewloom.data.views import Views
    from viewloom.evaluation.comparison import Comparison
    from viewloom.evaluation.selection import Selection
    from viewloom.models.kernel_nmf import KernelMultiviewNMF

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
        before_last_line()
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
    study_commands.formats: examples("formats", "formats --json"),
    study_commands.check: examples("check study/study.toml", "check study/study.toml --picture overlaps.png"),
    study_commands.fit: examples(
        "fit study/study.toml --output run", "fit study/study.toml --output run --resume"
    ),
    study_commands.predict: examples("predict run/model.safetensors new/study.toml"),
    study_commands.replicate: examples("replicate run other/study.toml"),
    study_commands.report: examples("report run"),
    study_commands.rename: examples('rename run 1="limbic" 2="cortical"'),
    study_commands.figures: examples("figures run --format pdf,png --dpi 600 --only weights,importance"),
    study_commands.paper: examples("paper run", "paper run --format pdf,png --output submission"),
    study_commands.app: examples("app", "app my-folder"),
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
    with working(STARTING, quiet):
        from viewloom.cli.demo import run_demo

    run_demo(output, _run, seeds=seeds, n_jobs=jobs, quiet=quiet)


def _run(arguments: list[str]) -> None:
    """Run a command of this program, and exit if it fails."""
    code = app(arguments, standalone_mode=False)
    if code:
        raise typer.Exit(code)


@app.command(
    name="compare",
    epilog=examples(
        "compare study/study.toml", "compare --cohort ad-csf --seeds 3", "compare study/study.toml --settings"
    ),
)
def compare_methods(
    study: StudyOrCohort = None,
    cohort: Cohort = CohortName.adni_like,
    seeds: Seeds = 5,
    jobs: Jobs = 2,
    output: Output = None,
    settings: Annotated[
        bool, typer.Option("--settings", help="Compare settings of ours instead; needs no diagnosis.")
    ] = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Compare baselines, the published form as it is and searched, and ours; takes minutes."""
    if output is not None:
        with writing(output):
            output.mkdir(parents=True, exist_ok=True)
        check_room(output)
    if settings:
        _compare_settings(study, cohort, jobs, output, as_json, quiet)
        return
    result = _compared(study, cohort, seeds, jobs, progress_wanted(quiet or as_json))
    digits = _digits(study)
    if as_json:
        print_json(_comparison_content(result, digits))
    elif not quiet:
        show(comparison_table(result))
        print_agreement(result)
    if output is not None:
        with working("Drawing figures", quiet or as_json):
            _write_comparison(result, digits, output)
        if not (as_json or quiet):
            print_line(f"Tables and figures in {output.resolve()}")


def _compared(study: Path | None, cohort: CohortName, seeds: int, jobs: int, progress: bool) -> Comparison:
    """The comparison of methods; of a study, with scores that may be shared."""
    with working(STARTING, not progress):
        from viewloom.evaluation.comparison import compare
        from viewloom.study.errors import StudyError

    with working("Reading files", not progress):
        views, y, _ = load(study, cohort)
    if len(set(y)) < 2:
        raise StudyError(
            f"{study}: comparing methods needs diagnosis under [participants]; --settings compares settings "
            "without it."
        )
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Methods are compared in")  # the table says so
        result = compare(views, y, seeds=seeds, n_jobs=jobs, progress=progress)
    return result if study is None else _shareable(result, y, study)


def _comparison_content(result: Comparison, digits: int) -> dict[str, Any]:
    """A comparison as JSON."""
    return {
        "table": result.table.round(digits).reset_index().to_dict("records"),
        "agreement": result.agreement.round(digits).to_dict(),
        "collapsed": result.collapsed,
        "samples": None if result.rows is None else len(result.rows),
    }


def _write_comparison(result: Comparison, digits: int, folder: Path) -> None:
    """Write the tables and figures of a comparison."""
    for name, table in (("comparison", result.table), ("agreement", result.agreement)):
        with atomic_write(folder / f"{name}.csv") as part:
            table.round(digits).to_csv(part)
    _draw(plotting().comparison(result), folder / "comparison.png")
    _draw(plotting().method_agreement(result), folder / "agreement.png")


def _digits(study: Path | None) -> int:
    """Decimals of tables: as many as a report has for subjects of a study."""
    return 6 if study is None else 2


def _shareable(result: Comparison, y: np.ndarray, study: Path) -> Comparison:
    """The comparison with scores that may be shared beside a report of the study."""
    from viewloom.study import read_study
    from viewloom.study.compared import diagnosis_precision, published_comparison

    return published_comparison(result, diagnosis_precision(result, y, read_study(study).report.min_cell))


def _compare_settings(
    study: Path | None, cohort: CohortName, jobs: int, output: Path | None, as_json: bool, quiet: bool
) -> None:
    """Print and write the map of solutions."""
    silent = quiet or as_json
    with working("Reading files", silent):
        from viewloom.evaluation.solutions import map_solutions
        from viewloom.study.compared import with_rough_sizes

        views, estimator = chosen_setting(study, cohort)
    found = map_solutions(views, estimator, n_jobs=jobs, progress=progress_wanted(silent))
    found = found if study is None else replace(found, settings=with_rough_sizes(found.settings))
    digits = _digits(study)
    if as_json:
        settings = found.settings.round(digits).reset_index().to_dict("records")
        choices = found.choices.round(digits).reset_index().to_dict("records")
        agreement = found.agreement.round(digits).to_dict()
        print_json({"settings": settings, "choices": choices, "agreement": agreement})
    elif not quiet:
        print_solutions(found)
    if output is not None:
        with atomic_write(output / "settings.csv") as part:
            found.settings.round(digits).to_csv(part)
        _draw(plotting().solutions(found), output / "settings.png")
        if not silent:
            print_line(f"Table and figure in {output.resolve()}")


def chosen_setting(study: Path | None, cohort: CohortName) -> tuple[Views, KernelMultiviewNMF]:
    """All clustered subjects of a study, or of a cohort, and the model with the chosen setting."""
    from viewloom.models.kernel_nmf import KernelMultiviewNMF
    from viewloom.study import read_study
    from viewloom.study import run as runs
    from viewloom.study.compute import model_settings

    if study is None:
        views, _, k = load(study, cohort)
        return views, KernelMultiviewNMF(k, random_state=0)
    ready = runs.prepare(read_study(study))
    return ready.views, KernelMultiviewNMF(**model_settings(ready.study, len(ready.views)))


def plotting() -> Any:
    """The module of figures, which needs matplotlib."""
    from viewloom import plotting

    return plotting


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
    with working(STARTING, quiet or as_json):
        from viewloom.study.run.search import search, shared_table

    _check_search(clusters, paper, resume, output)
    how = {"n_jobs": jobs, "random_state": seed, "progress": progress_wanted(quiet or as_json)}
    began = time.perf_counter()
    with nullcontext() if output is None else resumable():
        find, views, asked = (
            _numbers(study, cohort, how) if clusters else _settings(study, cohort, paper, how)
        )
        found: Any = search(find, views, (*asked, seed), output, resume=resume)
    if as_json:
        print_json({**_answer(found), "table": shared_table(found.table).to_dict("records")})
    elif not quiet:
        (print_number if clusters else _print_settings)(found)
        print_line(
            f"{time.perf_counter() - began:.0f} seconds" + ("" if output is None else f"; table in {output}")
        )


def _check_search(clusters: bool, paper: bool, resume: bool, output: Path | None) -> None:
    """Refuse options that do not go together, and an output that cannot be written."""
    from viewloom.study.errors import StudyError

    if resume and output is None:
        raise StudyError("--resume needs --output, the table that the interrupted search was writing.")
    if clusters and paper:
        raise StudyError("--clusters and --paper are two searches; choose one.")
    if output is not None:
        check_room(output)


Search = tuple[Callable[..., Any], "Views", tuple[Any, ...]]  # what to call, on what, and what is asked


def _numbers(study: Path | None, cohort: CohortName, how: dict[str, Any]) -> Search:
    """The search for the number of clusters."""
    with working("Reading files", not how["progress"]):
        from viewloom.evaluation.selection import choose_k

        views, _, _ = load(study, cohort)
    return partial(choose_k, views, range(2, 7), **how), views, ("clusters",)


def _settings(study: Path | None, cohort: CohortName, paper: bool, how: dict[str, Any]) -> Search:
    """The search for parameters; classes are only reported."""
    with working("Reading files", not how["progress"]):
        from viewloom.evaluation.selection import select

        views, y, k = load(study, cohort)
    known = y if len(y) == len(views) else None
    find = partial(select, views, None if paper else GRID, n_clusters=k, y=known, paper=paper, **how)
    return find, views, ("paper" if paper else "settings", k, known)


def _answer(found: Any) -> dict[str, Any]:
    """What a search recommends."""
    if hasattr(found, "recommended"):
        return {"recommended": found.recommended, "reasons": found.reasons}
    return {"best": found.best_params}


def _print_settings(found: Selection) -> None:
    columns = ["rank", *GRID, "sigma", "held_out", "stability", "reported_Acc", "reported_NMI"]
    shown = found.table.head(10)
    title = f"Best of {len(found.table)} settings, 5 folds; labels are not used for the choice"
    show(frame_table(title, shown[[name for name in columns if name in shown]]))
    if found.searched < len(found.views):
        print_line(f"Searched in {found.searched} of {len(found.views)} subjects, drawn at random.")
    print_line(f"Best: {found.best_params}")


def load(study: Path | None, cohort: CohortName) -> tuple[Views, np.ndarray, int]:
    """Views, classes and number of clusters of a cohort, or of the diagnosed subjects of a study."""
    if study is not None:
        from viewloom.study import read_study
        from viewloom.study.run.analysis import prepare

        ready = prepare(read_study(study))
        y = ready.classes
        views = ready.views[y.index.to_numpy()] if len(y) else ready.views
        return views, y.to_numpy(), ready.study.model.n_clusters
    if cohort is CohortName.adni_like:
        simulated = viewloom.simulate.adni_like(random_state=0)
        views, classes = simulated.views, simulated.participants["diagnosis"].to_numpy()
    else:
        real = viewloom.datasets.load_ad_csf()
        views, classes = real.views, real.y
    return views, classes, len(set(classes))


def _draw(ax: Any, path: Path) -> None:
    figure: Any = ax.figure
    with atomic_write(path) as part:
        figure.savefig(part, bbox_inches="tight")
