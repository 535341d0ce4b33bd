"""Comparison of methods on the same views and seeds, scored against known classes, as in the paper.

Labels are used only to compute scores, except in the rows named "oracle": "Gaussian (oracle)" selects the
width of the paper's grid by accuracy, "published form (oracle)" the setting of `PAPER_GRID` by NMI.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import MinMaxScaler, StandardScaler

from viewloom.data.drawing import rows_at_most
from viewloom.data.matching import matched_values
from viewloom.data.per_view import PerView
from viewloom.data.views import Views
from viewloom.evaluation.selection.drawing import MOST_SAMPLES, checked
from viewloom.evaluation.selection.search import PAPER_GRID, expand, parameters, published_form, select
from viewloom.evaluation.selection.stability import pairwise_ari
from viewloom.kernels.pairwise import Gaussian, Polynomial
from viewloom.metrics import clustering_report
from viewloom.models.baselines import ConcatenatedNMF, GraphNMF, MultiviewNMF
from viewloom.models.kernel_nmf import KernelMultiviewNMF
from viewloom.runtime.errors import InputError
from viewloom.runtime.progress import progress_bar, with_progress
from viewloom.runtime.threads import one_thread
from viewloom.runtime.user_warnings import warn_user
from viewloom.runtime.workers import explain_lost_processes, watched

SCORES = ("Acc", "NMI", "ARI", "RI", "MI")
DISTANCES = ("MI",)  # scores of which lower is better
SIGMA_GRID = np.exp(np.arange(-2.0, 11.0))  # the paper's
SEARCH_FOLDS = 3
COLLAPSED = 0.95  # share of samples in one cluster from which a method has found no clusters
Maker = Callable[[int, int], Any]  # (number of clusters, seed) -> estimator


@dataclass(frozen=True)
class Method:
    """A row of the table: an estimator, and the preprocessing of its views."""

    name: str
    make: Maker
    offer: Callable[[Views], Any]

    def _given(self, views: Views) -> Views:
        """Views with levels as they are for ours, which encodes them, and as numbers for other methods."""
        return views if self.name.startswith("ours") else views.encoded()

    def run(self, views: Views, y: np.ndarray, n_clusters: int, seed: int) -> dict[str, Any]:
        """Scores, time, iterations and labels of one fit, and the share of the largest cluster."""
        began = time.perf_counter()
        model = self.make(n_clusters, seed)
        with warnings.catch_warnings(), one_thread():
            warnings.simplefilter("ignore", ConvergenceWarning)
            warnings.simplefilter("ignore", UserWarning)
            labels = model.fit(self.offer(self._given(views))).labels_
        seconds = time.perf_counter() - began
        report = {name: value for name, value in clustering_report(y, labels).items() if name in SCORES}
        iterations = getattr(model, "n_iter_", np.nan)
        sizes = np.unique(labels, return_counts=True)[1]
        return {
            "method": self.name,
            "seed": seed,
            **report,
            "seconds": seconds,
            "iterations": iterations,
            "largest": float(sizes.max() / sizes.sum()),
            "labels": [int(label) for label in labels],
        }


@dataclass(frozen=True)
class Comparison:
    """Scores and clusters of every method and seed.

    Attributes
    ----------
    runs : DataFrame
        One row per method and seed: scores, ``seconds``, ``iterations``, ``largest`` (share of the samples in
        the largest cluster) and ``labels`` (the cluster of every sample; None for means over single views).
    rows : (m,) array or None
        Positions of the samples that were compared, if these were drawn of more.

    Examples
    --------
    >>> import viewloom as vl
    >>> views, y = vl.simulate.blobs_views(60, random_state=0)
    >>> result = vl.compare(views, y, methods=["k-means", "ours, diffusion"], seeds=1)
    >>> result.agreement.round(1).to_numpy().tolist(), result.collapsed
    ([[1.0, 1.0], [1.0, 1.0]], [])
    """

    runs: pd.DataFrame
    rows: np.ndarray | None = None

    @property
    def table(self) -> pd.DataFrame:
        """Mean over seeds of every score, and its standard deviation."""
        groups = self.runs.groupby("method", sort=False)
        means = [*SCORES, "seconds", "iterations", *(["largest"] if "largest" in self.runs else [])]
        mean = groups[means].mean()
        spread = groups[list(SCORES)].std(ddof=0).add_suffix("_sd")
        return mean.join(spread)

    @cached_property
    def agreement(self) -> pd.DataFrame:
        """Adjusted Rand index between the clusters of methods, on the same samples: mean over pairs of seeds.

        On the diagonal it is the agreement of a method with itself at other seeds, 1 with a single seed.
        Clusterings of a single cluster agree with nothing.
        """
        known = self._with_labels
        names = list(dict.fromkeys(known["method"]))
        runs = {name: np.array(known.loc[known["method"] == name, "labels"].tolist()) for name in names}
        values = [[_mean_agreement(runs[one], runs[other], one == other) for other in names] for one in names]
        return pd.DataFrame(values, index=pd.Index(names, name="method"), columns=names, dtype=float)

    @property
    def collapsed(self) -> list[str]:
        """Methods that put nearly all samples (`COLLAPSED`) into one cluster, in the mean over seeds."""
        if "largest" not in self.runs:
            return []
        largest = self._with_labels.groupby("method", sort=False)["largest"].mean()
        return [str(name) for name in largest.index[largest >= COLLAPSED]]

    @property
    def _with_labels(self) -> pd.DataFrame:
        """Runs of which the clusters are known."""
        if "labels" not in self.runs:
            return self.runs.assign(labels=None)[:0]
        return self.runs[[isinstance(labels, list) for labels in self.runs["labels"]]]

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
    progress: bool = True,
    max_samples: int | None = MOST_SAMPLES,
) -> Comparison:
    """Run the paper's methods, ours and k-means, and score them against known classes.

    Parameters
    ----------
    views : dict, list, Views or array
    y : (n,) array
        Known classes, used to compute scores and, in the rows named "oracle", to select settings.
    methods : iterable of str, optional
        Names of `method_names`; all of them where None. Those that search the published form fit
        many settings: `SLOW` of this module.
    seeds : int or sequence of int, default=5
        How many random seeds, or which.
    n_clusters : int, optional
        The number of classes in `y` where None.
    n_jobs : int, optional
        Number of parallel fits, as in scikit-learn, with one BLAS thread each.
    progress : bool, default=True
        Show a progress bar, in a terminal or a notebook.
    max_samples : int or None, default=4000
        Of more samples so many are drawn at random for all methods, with a warning: most compare every
        sample with every other. None uses all.

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
    drawn = rows_at_most(len(views), checked(max_samples), 0)
    whole = len(drawn) == len(views)
    if not whole:
        _warn_drawn(len(drawn), len(views))
        views, y = views[drawn], y[drawn]
    numbers = list(range(seeds)) if isinstance(seeds, int) else list(seeds)
    tasks = [(method, seed) for method in chosen for seed in numbers]
    calls = (delayed(watched)(method.run, views, y, k, seed) for method, seed in tasks)
    rows = Parallel(n_jobs=n_jobs, return_as="generator")(calls)
    with explain_lost_processes(), progress_bar("Comparing methods", len(tasks), progress) as tick:
        runs = pd.DataFrame(list(map(with_progress(dict, tick), rows)))
    return Comparison(_ordered(_with_single_view_mean(_with_oracles(runs)), views), None if whole else drawn)


def _warn_drawn(used: int, n: int) -> None:
    warn_user(
        f"Methods are compared in {used:,} of {n:,} samples, drawn at random, since memory and time of most "
        "grow with the square of their number; max_samples sets how many."
    )


def method_names(views: Any) -> list[str]:
    """Names of the methods that `compare` runs on these views."""
    return list(dict.fromkeys(_shown_name(method.name) for method in all_methods(Views(views))))


def _shown_name(name: str) -> str:
    """The oracle that a row of a grid belongs to, its own name for all others."""
    return next((oracle for oracle in ORACLES if name.startswith(oracle)), name)


ORACLE = "ours, Gaussian (oracle)"
PUBLISHED = "published settings"
SEARCHED = {"kkmeans": "published form (searched)", "random": "published form (searched from random start)"}
PUBLISHED_ORACLE = {
    "kkmeans": "published form (oracle)",
    "random": "published form (oracle from random start)",
}
# Rows of a grid, of which the best by a score is shown.
ORACLES = {ORACLE: "Acc", **dict.fromkeys(PUBLISHED_ORACLE.values(), "NMI")}
SLOW = (*SEARCHED.values(), *PUBLISHED_ORACLE.values())  # rows that fit a whole grid


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


@dataclass
class SearchedForm:
    """The published form at the setting that `select` finds without labels, as an estimator."""

    n_clusters: int
    seed: int
    init: str

    def fit(self, views: Views) -> SearchedForm:
        """Search, then fit on all samples."""
        found = select(
            views,
            {**PAPER_GRID, "init": [self.init]},
            paper=True,
            n_clusters=self.n_clusters,
            cv=SEARCH_FOLDS,
            random_state=self.seed,
            progress=False,
        )
        self.labels_, self.n_iter_ = found.best_estimator.labels_, found.best_estimator.n_iter_
        return self


def _searched(init: str) -> Maker:
    return lambda k, seed: SearchedForm(k, seed, init)


def _published_grid(name: str, init: str) -> list[Method]:
    """A row for every setting of the grid; the best of them is shown as `name`."""

    def maker(setting: dict[str, Any]) -> Maker:
        def make(k: int, seed: int) -> Any:
            model = published_form().set_params(n_clusters=k, random_state=seed, init=init)
            return model.set_params(**parameters(setting, model.graph))

        return make

    return [
        Method(f"{name} {number}", maker(setting), _as_they_are)
        for number, setting in enumerate(expand(PAPER_GRID))
    ]


def _as_they_are(views: Views) -> Views:
    return views


def _ours(label: str, kernel: Any) -> Method:
    def make(k: int, seed: int) -> KernelMultiviewNMF:
        return KernelMultiviewNMF(k, kernel=kernel, random_state=seed)

    return Method(f"ours, {label}", make, _as_they_are)


METHODS: list[Method] = [  # beside single views: the rows of the paper's table, k-means and ours
    Method("CNMF", lambda k, s: ConcatenatedNMF(k, random_state=s), _filled_nonnegative),
    Method("MNMF", lambda k, s: MultiviewNMF(k, random_state=s), nonnegative),
    Method("AWMNMF", lambda k, s: MultiviewNMF(k, gamma=2.0, random_state=s), nonnegative),
    Method(PUBLISHED, _published, standardised),
    *(Method(name, _searched(init), _as_they_are) for init, name in SEARCHED.items()),
    *(row for init, name in PUBLISHED_ORACLE.items() for row in _published_grid(name, init)),
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
    known = {_shown_name(method.name) for method in methods}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise InputError(f"Unknown methods {unknown}; there are {sorted(known)}.")
    return [method for method in methods if _shown_name(method.name) in names]


def _with_oracles(runs: pd.DataFrame) -> pd.DataFrame:
    """Of the rows of each grid only the one with the best mean score, under the oracle's name."""
    for oracle, score in ORACLES.items():
        rows = runs["method"].str.startswith(oracle)
        if rows.any():
            best = runs[rows].groupby("method")[score].mean().idxmax()
            runs = pd.concat([runs[~rows], runs[runs["method"] == best].assign(method=oracle)])
    return runs


def _with_single_view_mean(runs: pd.DataFrame) -> pd.DataFrame:
    """The mean over single views, as the paper reports it."""
    single = runs[runs["method"].str.startswith("SV ")]
    if single.empty:
        return runs
    mean = single.drop(columns=["method", "labels"]).groupby("seed", as_index=False).mean()
    return pd.concat([runs, mean.assign(method="SV (mean)", labels=None)])


def _mean_agreement(one: np.ndarray, other: np.ndarray, same: bool) -> float:
    """Mean adjusted Rand index of all pairs of runs of two methods (runs x samples)."""
    if same and len(one) == 1:
        return 1.0
    pairs = combinations(one, 2) if same else product(one, other)
    return float(np.mean([pairwise_ari(pair)[0] for pair in pairs]))


def _ordered(runs: pd.DataFrame, views: Views) -> pd.DataFrame:
    order = [*(f"SV {name}" for name in views.names), "SV (mean)", *method_names(views)]
    rank = runs["method"].map({name: position for position, name in reversed(list(enumerate(order)))})
    return runs.iloc[np.lexsort((runs["seed"], rank))].reset_index(drop=True)
