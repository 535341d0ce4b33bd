"""The command line: parse, call one public function, print."""

from __future__ import annotations

import time
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich import box
from rich.console import Console
from rich.table import Table

import viewloom
from viewloom.comparison import SCORES, Comparison, compare
from viewloom.selection import choose_k, select
from viewloom.views import Views

app = typer.Typer(
    help="Cluster subjects seen through several views, and learn how much each view counts.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
console = Console()
GRID = {"lam": [1.0, 10.0, 100.0], "theta": [0.01, 0.1, 1.0], "gamma": [1.5, 2.0, 4.0]}

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
    found = Table(title="Planted features among the most important", box=box.SIMPLE_HEAD)
    for column in ("view", "method", "precision at 10", "by chance", "AUC"):
        found.add_column(column)
    for row in result.recovery.reset_index(names=["view", "method"]).itertuples(index=False):
        found.add_row(
            str(row.view), str(row.method), f"{row.precision:.2f}", f"{row.chance:.2f}", f"{row.auc:.2f}"
        )
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
    views, y = load(cohort)
    result = compare(views, y, seeds=seeds, n_jobs=jobs, progress=not quiet)
    console.print(comparison_table(result))
    if output is not None:
        output.mkdir(parents=True, exist_ok=True)
        result.to_csv(output / "comparison.csv")
        _draw_comparison(result, output / "comparison.png")
        console.print(f"Table and figure in [bold]{output.resolve()}[/bold]")


@app.command(name="select")
def select_parameters(
    cohort: Annotated[CohortName, typer.Option(help="Which cohort.")] = CohortName.adni_like,
    clusters: Annotated[
        bool, typer.Option("--clusters", help="Choose the number of clusters instead.")
    ] = False,
    jobs: Jobs = 2,
    seed: Annotated[int, typer.Option(help="Random seed.")] = 0,
    quiet: Quiet = False,
) -> None:
    """Choose lam, theta and gamma by cross-validation, or the number of clusters, without labels."""
    views, y = load(cohort)
    began = time.perf_counter()
    if clusters:
        number = choose_k(views, range(2, 7), n_jobs=jobs, random_state=seed, progress=not quiet)
        title = "Stability against the number of clusters"
        shown = number.table[["k", "stability", "twin_stability", "pac", "gap", "prediction_strength"]]
        verdict = [f"Recommended: {number.recommended or 'no clear clusters'}", *number.reasons]
    else:
        k = len(set(y))
        found = select(views, GRID, n_clusters=k, y=y, n_jobs=jobs, random_state=seed, progress=not quiet)
        title = "Best of 27 settings, 5 folds; labels are reported, never used"
        shown = found.table.head(10)[["rank", *GRID, "held_out", "stability", "reported_Acc", "reported_NMI"]]
        verdict = [f"Best: {found.best_params}"]
    table = Table(title=title, box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for column in shown.columns:
        table.add_column(str(column).replace("_", " "), justify="right")
    for row in shown.itertuples(index=False):
        table.add_row(*(f"{value:.3g}" if isinstance(value, float) else str(value) for value in row))
    console.print(table)
    for sentence in verdict:
        console.print(sentence)
    console.print(f"{time.perf_counter() - began:.0f} seconds")


def load(cohort: CohortName) -> tuple[Views, np.ndarray]:
    """Views and classes of a cohort; ends with code 2 where its package is not installed."""
    if cohort is CohortName.adni_like:
        simulated = viewloom.simulate.adni_like(random_state=0)
        return simulated.views, simulated.participants["diagnosis"].to_numpy()
    try:
        real = viewloom.datasets.load_ad_csf()
    except ImportError as error:
        console.print(f"[red]{error}[/red]")
        raise typer.Exit(2) from None
    return real.views, np.asarray(real.y)


def _draw_comparison(result: Comparison, path: Path) -> None:
    from viewloom import plotting

    figure: Any = plotting.comparison(result).figure
    figure.savefig(path, bbox_inches="tight")


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
