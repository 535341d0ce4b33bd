"""The command line: parse, call one public function, print."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich import box
from rich.console import Console
from rich.table import Table

import viewloom
from viewloom.comparison import SCORES, Comparison, compare

app = typer.Typer(
    help="Cluster subjects seen through several views, and learn how much each view counts.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
console = Console()

Output = Annotated[Path | None, typer.Option("--output", "-o", help="Folder for tables and figures.")]
Seeds = Annotated[int, typer.Option(min=1, help="Random seeds per method.")]
Jobs = Annotated[int, typer.Option(min=1, help="Fits that run side by side.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar.")]


class CohortName(StrEnum):
    """Cohorts that come with viewloom."""

    adni_like = "adni-like"
    ad_csf = "ad-csf"


@app.callback(invoke_without_command=True)
def main(
    version: Annotated[bool, typer.Option("--version", help="Print the version and stop.")] = False,
) -> None:
    """Multi-view clustering by kernel matrix factorisation."""
    if version:
        console.print(f"viewloom {viewloom.__version__}")
        raise typer.Exit


@app.command()
def demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the results.")] = Path(
        "demo-output"
    ),
    seeds: Seeds = 3,
    jobs: Jobs = 2,
    quiet: Quiet = False,
) -> None:
    """Run the paper's study on a simulated Alzheimer cohort: compare, fit, draw."""
    from viewloom.demo import run_demo

    result = run_demo(output, seeds=seeds, n_jobs=jobs, progress=not quiet)
    console.print(f"\n[bold]{result.cohort.views!r}[/bold]")
    console.print(comparison_table(result.comparison))
    weights = Table("view", "weight", title="What each view counts (default model)")
    for name, weight in zip(result.model.view_names_, result.model.view_weights_, strict=True):
        weights.add_row(name, f"{weight:.3f}")
    console.print(weights)
    found = Table(
        "view", "precision at 10", "by chance", "AUC", title="Planted features among the most important"
    )
    for view, row in result.recovery.iterrows():
        found.add_row(str(view), *(f"{row[name]:.2f}" for name in ("precision", "chance", "auc")))
    console.print(found)
    console.print(f"{len(result.files)} tables and figures in [bold]{output.resolve()}[/bold]")


@app.command(name="compare")
def compare_methods(
    cohort: Annotated[CohortName, typer.Option(help="Which cohort.")] = CohortName.adni_like,
    seeds: Seeds = 5,
    jobs: Jobs = 2,
    output: Output = None,
    quiet: Quiet = False,
) -> None:
    """Print the paper's table: all baselines, the published form, and ours, on one cohort."""
    if cohort is CohortName.adni_like:
        simulated = viewloom.simulate.adni_like(random_state=0)
        views, y = simulated.views, simulated.participants["diagnosis"].to_numpy()
    else:
        try:
            real = viewloom.datasets.load_ad_csf()
        except ImportError as error:
            console.print(f"[red]{error}[/red]")
            raise typer.Exit(2) from None
        views, y = real.views, real.y
    result = compare(views, y, seeds=seeds, n_jobs=jobs, progress=not quiet)
    console.print(comparison_table(result))
    if output is not None:
        output.mkdir(parents=True, exist_ok=True)
        result.to_csv(output / "comparison.csv")
        console.print(f"Table in [bold]{(output / 'comparison.csv').resolve()}[/bold]")


def comparison_table(result: Comparison) -> Table:
    """The comparison as the paper prints it: per cent, mean over seeds, spread of the first scores."""
    table = Table(title="Agreement with the classes (%)", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column("method", no_wrap=True)
    for column in (*SCORES, "sec", "iter"):
        table.add_column(column, justify="right", no_wrap=True)
    for name, row in result.table.iterrows():
        spread = [f"{100 * row[score]:.1f}±{100 * row[f'{score}_sd']:.1f}" for score in SCORES[:3]]
        plain = [f"{100 * row[score]:.1f}" for score in SCORES[3:]]
        iterations = "" if row["iterations"] != row["iterations"] else f"{row['iterations']:.0f}"
        table.add_row(str(name), *spread, *plain, f"{row['seconds']:.1f}", iterations)
    table.caption = "MI: Mirkin distance, 100 - RI, lower is better. oracle: chosen with the labels."
    return table
