"""Comparison of methods on the same views and seeds, scored against known classes, as in the paper.

Labels are used only to compute scores, with one exception, marked by its name: "Gaussian (oracle)" selects
the width of the paper's grid by accuracy.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import MinMaxScaler, StandardScaler

from viewloom.data.matching import matched_values
from viewloom.data.per_view import PerView
from viewloom.data.views import Views
from viewloom.kernels.pairwise import Gaussian, Polynomial
from viewloom.metrics import clustering_report
from viewloom.models.baselines import ConcatenatedNMF, GraphNMF, MultiviewNMF
from viewloom.models.kernel_nmf import KernelMultiviewNMF
from viewloom.runtime.errors import InputError
from viewloom.runtime.threads import one_thread
from viewloom.runtime.workers import explain_lost_processes, watched

SCORES = ("Acc", "NMI", "ARI", "RI", "MI")
DISTANCES = ("MI",)  # scores of which lower is better
SIGMA_GRID = np.exp(np.arange(-2.0, 11.0))  # the paper's
Maker = Callable[[int, int], Any]  # (number of clusters, seed) -> estimator


@dataclass(frozen=True)
class Method:
    """A row of the table: an estimator, and the preprocessing of its views."""

    name: str
    make: Maker
    offer: Callable[[Views], Any]

    def run(self, views: Views, y: np.ndarray, n_clusters: int, seed: int) -> dict[str, Any]:
        """Scores of one fit, with its time and number of iterations."""
        began = time.perf_counter()
        model = self.make(n_clusters, seed)
        with warnings.catch_warnings(), one_thread():
            warnings.simplefilter("ignore", ConvergenceWarning)
            warnings.simplefilter("ignore", UserWarning)
            labels = model.fit(self.offer(views)).labels_
        seconds = time.perf_counter() - began
        report = {name: value for name, value in clustering_report(y, labels).items() if name in SCORES}
        iterations = getattr(model, "n_iter_", np.nan)
        return {"method": self.name, "seed": seed, **report, "seconds": seconds, "iterations": iterations}


@dataclass(frozen=True)
class Comparison:
    """Scores of every method and seed."""

    runs: pd.DataFrame  # one row per method and seed

    @property
    def table(self) -> pd.DataFrame:
        """Mean over seeds of every score, and its standard deviation."""
        groups = self.runs.groupby("method", sort=False)
        mean = groups[[*SCORES, "seconds", "iterations"]].mean()
        spread = groups[list(SCORES)].std(ddof=0).add_suffix("_sd")
        return mean.join(spread)

    def to_csv(self, path: str | Path) -> None:
        """Write the table."""
        self.table.round(6).to_csv(path)


def compare(
    views: Any,
    y: Any,
    methods: Iterable[str] | None = None,
    seeds: int | Sequence[int] = 5,
    *,
    n_clusters: int | None = None,
    n_jobs: int | None = None,
    progress: bool = False,
) -> Comparison:
    """Run the paper's methods, ours and k-means, and score them against known classes.

    Parameters
    ----------
    views : dict, list, Views or array
    y : (n,) array
        Known classes, used to compute scores and to select the width of the oracle.
    methods : iterable of str, optional
        Names of `method_names`; all of them where None.
    seeds : int or sequence of int, default=5
        How many random seeds, or which.
    n_clusters : int, optional
        The number of classes in `y` where None.
    n_jobs : int, optional
        Number of parallel fits, as in scikit-learn, with one BLAS thread each.
    progress : bool, default=False
        Show a progress bar.

    Returns
    -------
    Comparison

    Examples
    --------
    >>> import viewloom as vl
    >>> views, y = vl.simulate.blobs_views(60, random_state=0)
    >>> result = vl.compare(views, y, methods=["k-means", "ours, diffusion"], seeds=1)
    >>> list(result.table.index)
    ['k-means', 'ours, diffusion']
    """
    views = Views(views)
    y = matched_values(y, views.ids, "y")
    chosen = _chosen(all_methods(views), methods)
    k = n_clusters or len(np.unique(y))
    numbers = list(range(seeds)) if isinstance(seeds, int) else list(seeds)
    tasks = [(method, seed) for method in chosen for seed in numbers]
    calls = (delayed(watched)(method.run, views, y, k, seed) for method, seed in tasks)
    rows = Parallel(n_jobs=n_jobs, return_as="generator")(calls)
    with explain_lost_processes():
        runs = pd.DataFrame(list(_tracked(rows, len(tasks)) if progress else rows))
    return Comparison(_ordered(_with_single_view_mean(_with_oracle(runs)), views))


def method_names(views: Any) -> list[str]:
    """Names of the methods that `compare` runs on these views."""
    return list(
        dict.fromkeys(ORACLE if m.name.startswith(ORACLE) else m.name for m in all_methods(Views(views)))
    )


ORACLE = "ours, Gaussian (oracle)"


def all_methods(views: Views) -> list[Method]:
    """A row for each single view, and those of `METHODS`."""
    return [*(Method(f"SV {name}", _single_view, _only(name)) for name in views.names), *METHODS]


def nonnegative(views: Views) -> Views:
    """Features scaled to [0, 1], as the NMF baselines need them."""
    return PerView(MinMaxScaler(clip=True)).fit_transform(views)


def standardised(views: Views) -> Views:
    """Features of mean zero and variance one."""
    return PerView(StandardScaler()).fit_transform(views)


def concatenated(views: Views) -> np.ndarray:
    """Concatenated standardised features; missing views are filled with means."""
    return SimpleImputer().fit_transform(np.asarray(standardised(views)))


def _filled_nonnegative(views: Views) -> Views:
    """As `nonnegative`, with absent views given their mean: CNMF needs every feature of every sample."""
    if views.complete:
        return nonnegative(views)
    return Views({"all": SimpleImputer().fit_transform(np.asarray(nonnegative(views)))})


def _only(name: str) -> Callable[[Views], Any]:
    def offer(views: Views) -> Any:
        X = nonnegative(views)[name]
        return SimpleImputer().fit_transform(X) if not views.complete else X

    return offer


def _single_view(k: int, seed: int) -> GraphNMF:
    return GraphNMF(k, random_state=seed)


def _published(k: int, seed: int) -> KernelMultiviewNMF:
    return KernelMultiviewNMF.paper(k, kernel=Gaussian(SIGMA_GRID), random_state=seed)


def _ours(label: str, kernel: Any) -> Method:
    def make(k: int, seed: int) -> KernelMultiviewNMF:
        return KernelMultiviewNMF(k, kernel=kernel, random_state=seed)

    return Method(f"ours, {label}", make, lambda views: views)


METHODS: list[Method] = [  # beside single views: the rows of the paper's table, k-means and ours
    Method("CNMF", lambda k, s: ConcatenatedNMF(k, random_state=s), _filled_nonnegative),
    Method("MNMF", lambda k, s: MultiviewNMF(k, random_state=s), nonnegative),
    Method("AWMNMF", lambda k, s: MultiviewNMF(k, gamma=2.0, random_state=s), nonnegative),
    Method("published form", _published, standardised),
    Method("k-means", lambda k, s: KMeans(k, n_init=10, random_state=s), concatenated),
    _ours("linear", "linear"),
    *(_ours(f"polynomial d={d}", Polynomial(degree=d)) for d in (1, 2, 3)),
    _ours("Gaussian", Gaussian(SIGMA_GRID)),
    *(_ours(f"Gaussian (oracle) {sigma:g}", Gaussian(float(sigma))) for sigma in SIGMA_GRID),
    _ours("diffusion", "diffusion"),
]


def _chosen(methods: list[Method], names: Iterable[str] | None) -> list[Method]:
    if names is None:
        return methods
    names = list(names)
    known = {ORACLE if m.name.startswith(ORACLE) else m.name for m in methods}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise InputError(f"Unknown methods {unknown}; there are {sorted(known)}.")
    return [m for m in methods if m.name in names or (ORACLE in names and m.name.startswith(ORACLE))]


def _tracked(rows: Iterable[dict[str, Any]], total: int) -> Iterable[dict[str, Any]]:
    from rich.progress import track

    return track(rows, description="Comparing methods", total=total)


def _with_oracle(runs: pd.DataFrame) -> pd.DataFrame:
    """Of the widths in the grid only the one with the best mean accuracy, under the oracle's name."""
    is_oracle = runs["method"].str.startswith(ORACLE)
    if not is_oracle.any():
        return runs
    best = runs[is_oracle].groupby("method")["Acc"].mean().idxmax()
    return pd.concat([runs[~is_oracle], runs[runs["method"] == best].assign(method=ORACLE)])


def _with_single_view_mean(runs: pd.DataFrame) -> pd.DataFrame:
    """The mean over single views, as the paper reports it."""
    single = runs[runs["method"].str.startswith("SV ")]
    if single.empty:
        return runs
    mean = single.drop(columns="method").groupby("seed", as_index=False).mean()
    return pd.concat([runs, mean.assign(method="SV (mean)")])


def _ordered(runs: pd.DataFrame, views: Views) -> pd.DataFrame:
    order = [*(f"SV {name}" for name in views.names), "SV (mean)", *method_names(views)]
    rank = runs["method"].map({name: position for position, name in reversed(list(enumerate(order)))})
    return runs.iloc[np.lexsort((runs["seed"], rank))].reset_index(drop=True)
