"""A complete study on a simulated cohort, with the commands that a user would type."""

from __future__ import annotations

import shlex
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
from sklearn.exceptions import ConvergenceWarning

from viewloom.cli.rendering import print_line, show, table_of, working
from viewloom.data.simulated import Cohort, adni_like
from viewloom.evaluation.comparison import nonnegative
from viewloom.evaluation.inspection import importance_against_truth
from viewloom.models.baselines import GraphNMF
from viewloom.models.kernel_nmf import KernelMultiviewNMF

STRONG_EFFECT = 1.0  # |d| between AD and HC of the regions an importance ranking should find


def run_demo(
    output: str | Path,
    run: Callable[[list[str]], Any],
    *,
    seeds: int = 1,
    n_jobs: int = 2,
    quiet: bool = False,
) -> Path:
    """Write a simulated cohort to disk, then check it, cluster it, compare methods and write the report.

    Parameters
    ----------
    output : path
        Folder for the cohort and the results; an existing cohort is reused.
    run : callable
        Runs ``viewloom`` with a list of arguments.
    seeds : int, default=1
        Seeds of every method in the comparison.
    n_jobs : int, default=2
    quiet : bool, default=False

    Returns
    -------
    Path
        The report.
    """
    folder = Path(output)
    for arguments in commands(folder, seeds, n_jobs):
        if arguments[0] == "simulate" and (folder / "cohort" / "study.toml").exists():
            continue
        if arguments[0] == "report" and not quiet:
            with working("Comparing important features with planted ones", quiet):
                recovery = planted_features(adni_like(random_state=0))
            _show_recovery(recovery)
        if not quiet:
            print_line(f"\n$ viewloom {shlex.join(arguments)}", "bold")
        run([*arguments, *["--quiet"] * quiet])
    if not quiet:
        print_line(f"\nThe same in your browser: viewloom app {shlex.quote(str(folder))}")
    return folder / "results" / "report.html"


def commands(folder: Path, seeds: int, n_jobs: int) -> list[list[str]]:
    """The arguments that a user would type after ``viewloom``."""
    study, results = str(folder / "cohort" / "study.toml"), str(folder / "results")
    return [
        ["simulate", str(folder / "cohort")],
        ["check", study, "--picture", str(folder / "overlaps.png")],
        ["fit", study, "--output", results, "--compare", "--seeds", str(seeds), "--jobs", str(n_jobs)],
        ["report", results],
    ]


def planted_features(cohort: Cohort, random_state: int = 0) -> pd.DataFrame:
    """How well feature importance recovers the planted features: this method, and single-view NMF.

    Parameters
    ----------
    cohort : Cohort
    random_state : int, default=0

    Returns
    -------
    DataFrame
        Indexed by view and method; see `viewloom.inspection.importance_against_truth`.
    """
    linear = KernelMultiviewNMF(3, kernel="linear", random_state=random_state).fit(cohort.views)
    rows = {}
    for name in cohort.views.names:
        planted = cohort.truth.informative(name, STRONG_EFFECT)
        single = GraphNMF(3, random_state=random_state)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            single.fit(nonnegative(cohort.views.select([name])))
        rows[name, "ours, linear"] = importance_against_truth(linear.feature_importance(name), planted)
        rows[name, "single-view NMF"] = importance_against_truth(single.feature_importance(), planted)
    return pd.DataFrame(rows).T


def _show_recovery(recovery: pd.DataFrame) -> None:
    title = "Planted features among the most important"
    table = table_of(title, "view", "method", "precision at 10", "by chance", "AUC", text=2)
    for row in recovery.reset_index(names=["view", "method"]).to_dict("records"):
        scores = (f"{row[name]:.2f}" for name in ("precision", "chance", "auc"))
        table.add_row(row["view"], row["method"], *scores)
    table.caption = "On the complete cohort, in which these features were simulated"
    show(table)
