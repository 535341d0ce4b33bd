"""The paper's study on a simulated cohort: compare, fit, explain, draw."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
from sklearn.exceptions import ConvergenceWarning

from viewloom.baselines import GraphNMF
from viewloom.comparison import Comparison, compare, nonnegative
from viewloom.estimators import KernelMultiviewNMF
from viewloom.inspection import (
    annotate,
    cluster_profiles,
    importance_against_truth,
    view_contributions,
    weights_over_gamma,
    weights_over_seeds,
)
from viewloom.simulate import Cohort, adni_like, feature_notes

GAMMAS = (1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 6.0, 10.0)
TOP = 12  # features of a profile
STRONG_EFFECT = 1.0  # |d| between AD and HC of the regions an importance ranking should find


@dataclass(frozen=True)
class Demo:
    """What the study found, and the files it wrote."""

    cohort: Cohort
    comparison: Comparison
    model: KernelMultiviewNMF
    importance: dict[str, pd.DataFrame]  # of each view, linear kernel, annotated
    recovery: pd.DataFrame  # importance against the planted features, by view and method
    files: list[Path]


def run_demo(
    output: str | Path,
    *,
    cohort: Cohort | None = None,
    seeds: int = 3,
    n_jobs: int = 2,
    random_state: int = 0,
    progress: bool = False,
) -> Demo:
    """Simulate a cohort, compare all methods on it, fit the model, and write tables and figures.

    Parameters
    ----------
    output : path
        Folder for the results; made if it is not there.
    cohort : Cohort, optional
        `simulate.adni_like` with the paper's numbers of subjects where None.
    seeds : int, default=3
        Seeds of every method in the comparison.
    n_jobs : int, default=2
    random_state : int, default=0
        Seed of the cohort and of the model.
    progress : bool, default=False
        Show a progress bar.
    """
    folder = Path(output)
    folder.mkdir(parents=True, exist_ok=True)
    cohort = cohort or adni_like(random_state=random_state)
    diagnosis = cohort.participants["diagnosis"]
    comparison = compare(cohort.views, diagnosis, seeds=seeds, n_jobs=n_jobs, progress=progress)
    model = KernelMultiviewNMF(3, random_state=random_state).fit(cohort.views)
    linear = KernelMultiviewNMF(3, kernel="linear", random_state=random_state).fit(cohort.views)
    notes = feature_notes()
    importance = {name: annotate(linear.feature_importance(name), notes) for name in model.view_names_}
    recovery = _recovery(cohort, importance, random_state)
    files = [
        *_write_tables(folder, comparison, importance),
        *_draw(folder, cohort, comparison, model, importance),
    ]
    return Demo(cohort, comparison, model, importance, recovery, files)


def _recovery(cohort: Cohort, importance: dict[str, pd.DataFrame], seed: int) -> pd.DataFrame:
    """How well importance finds the planted features of each view: ours, and single-view NMF."""
    rows = {}
    for name, frame in importance.items():
        planted = cohort.truth.informative(name, STRONG_EFFECT)
        single = GraphNMF(3, random_state=seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            single.fit(nonnegative(cohort.views.select([name])))
        rows[name, "ours, linear"] = importance_against_truth(frame, planted)
        rows[name, "single-view NMF"] = importance_against_truth(single.feature_importance(), planted)
    return pd.DataFrame(rows).T


def _write_tables(folder: Path, comparison: Comparison, importance: dict[str, pd.DataFrame]) -> list[Path]:
    tables = {"comparison.csv": comparison.table.round(6)}
    tables |= {f"importance_{name}.csv": frame.round(6) for name, frame in importance.items()}
    for name, table in tables.items():
        table.to_csv(folder / name, index=name == "comparison.csv")
    return [folder / name for name in tables]


def _draw(
    folder: Path,
    cohort: Cohort,
    comparison: Comparison,
    model: KernelMultiviewNMF,
    importance: dict[str, pd.DataFrame],
) -> list[Path]:
    from viewloom import plotting

    contributions = view_contributions(model)
    figures: dict[str, tuple[Any, Any]] = {
        "comparison": (plotting.comparison, comparison),
        "weights": (plotting.view_weights, weights_over_seeds(model, cohort.views, range(5))),
        "weights_over_gamma": (
            plotting.weights_over_gamma,
            weights_over_gamma(model, cohort.views, GAMMAS),
        ),
        "objective": (plotting.objective, model),
        "memberships": (plotting.memberships, model),
        "agreement": (plotting.view_agreement, contributions),
        "contributions": (plotting.view_contributions, contributions),
    }
    for name, frame in importance.items():
        profiles = cluster_profiles(cohort.views, model.labels_, name, list(frame["feature"][:TOP]))
        figures[f"importance_{name}"] = (plotting.feature_importance, frame)
        figures[f"profiles_{name}"] = (plotting.cluster_profiles, profiles)
    return [_save(folder / f"{name}.png", draw(result)) for name, (draw, result) in figures.items()]


def _save(path: Path, ax: Any) -> Path:
    from matplotlib import pyplot as plt

    ax.figure.savefig(path, dpi=150, bbox_inches="tight")
    plt.close(ax.figure)
    return path
