"""Grid search over parameters, judged without labels."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import groupby
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import clone
from sklearn.model_selection import KFold, ParameterGrid, check_cv
from sklearn.utils import check_random_state

from viewloom.data.alignment import align, check_trainable
from viewloom.data.checks import per_view
from viewloom.data.drawing import rows_at_most
from viewloom.data.matching import matched_values
from viewloom.data.views import Views
from viewloom.evaluation.selection.drawing import MOST_SAMPLES, checked
from viewloom.evaluation.selection.jobs import Jobs, Record, open_checkpoint, quiet
from viewloom.evaluation.selection.stability import ABSENT, pairwise_ari
from viewloom.kernels.graphs import GaussianGraph
from viewloom.kernels.pairwise import Gaussian, Precomputed
from viewloom.kernels.registry import make_kernel
from viewloom.metrics import clustering_report
from viewloom.models.fitted import ExactModel
from viewloom.models.fitting import BUILDING, Parameters, build
from viewloom.models.kernel_nmf import KernelMultiviewNMF
from viewloom.models.problem import Problem
from viewloom.runtime.errors import InputError, InputTypeError
from viewloom.runtime.progress import progress_bar

Array = np.ndarray
Setting = dict[str, Any]
COMPARABLE = (
    "lam",
    "theta",
    "graph",
    "init",
    "n_init",
    "inner_iter",
    "max_iter",
    "tol",
)  # leave the loss's unit alone
REPORTED = ("Acc", "NMI", "ARI")

# What `select(paper=True)` tries: widths of the paper's grid and the median distance, lam and theta.
PAPER_GRID: dict[str, list[Any]] = {
    "sigma": ["median", float(np.exp(1.0)), float(np.exp(2.0))],
    "lam": [1.0, 10.0],
    "theta": [0.0, 0.001, 0.01, 1.0],
}


@dataclass(frozen=True)
class Selection:
    """What a search found.

    Attributes
    ----------
    table : DataFrame
        One row per setting, best first: its parameters, ``held_out`` and ``held_out_std`` (calibrated
        loss of samples left out, lower is better), ``stability`` and ``stability_std`` (ARI between the
        models of two folds), ``rank``, ``seconds``, and with labels ``reported_Acc``, ``reported_NMI``,
        ``reported_ARI``, which play no part in the rank.
    best_params : dict
        Parameters of the first row, for ``estimator.set_params``.
    best_estimator : KernelMultiviewNMF
        Fitted with them on all samples, when first asked for.
    searched : int
        Number of samples that settings were fitted to and scored on; fewer than all if some were drawn.
    """

    table: pd.DataFrame
    best_params: dict[str, Any]
    searched: int
    views: Views = field(repr=False)
    estimator: KernelMultiviewNMF = field(repr=False)

    @cached_property
    def best_estimator(self) -> KernelMultiviewNMF:
        """The best setting, fitted on all samples."""
        return clone(self.estimator).set_params(**self.best_params).fit(self.views)  # type: ignore[no-any-return]

    def save_csv(self, path: str | os.PathLike[str]) -> None:
        """Write the table."""
        self.table.to_csv(path, index=False)


def select(
    views: Any,
    grid: Any = None,
    *,
    paper: bool = False,
    n_clusters: int | None = None,
    cv: Any = 5,
    y: Any = None,
    n_jobs: int | None = None,
    random_state: Any = None,
    progress: bool = True,
    checkpoint: str | os.PathLike[str] | None = None,
    estimator: KernelMultiviewNMF | None = None,
    max_samples: int | None = MOST_SAMPLES,
) -> Selection:
    """Search a grid of parameters by cross-validation, without labels.

    Every setting is fitted on the training part of every fold, and judged twice:

    - *held-out loss*: minus `KernelMultiviewNMF.score` of the fold left out;
    - *stability*: ARI between the clusters that models of two folds give to all samples, their own and
      new ones.

    The loss is measured in units of the kernel, and weighted by the learned view weights, which `gamma`
    sharpens: smaller values put more weight on whatever view has the least loss, so the mean falls
    whether the clusters are better or not. Losses are therefore compared only between settings that
    agree in all but `lam`, `theta`, the graph and how long to iterate; stability is compared between
    all. Both become positions in (0, 1) (0 is best, ties shared), and settings are ranked by the mean of
    the two positions, ties by stability, then by loss. So between kernels, widths and gammas stability
    decides, within them loss and stability together. In the published form nothing fixes the scale of
    memberships, and losses mean little: there stability decides alone.

    Parameters
    ----------
    views : dict, list, Views or array
    grid : dict of str to list, or list of such dicts
        Parameters of `KernelMultiviewNMF`, as in scikit-learn's ``ParameterGrid``. ``sigma`` is a
        shorthand: the width of the Gaussian kernel, for the settings that have one, and of the Gaussian
        graph where `estimator` has one. May be left out with `paper`.
    paper : bool, default=False
        Search the paper's own method: its objective and updates (`KernelMultiviewNMF.paper`) on scaled
        features from a k-means start, with ``PAPER_GRID`` of this module where no `grid` is given: `sigma`
        of kernel and graph, `lam` and `theta`. The paper searched a grid, too, and names no start; its
        published ``theta = 1`` on a dense graph smooths most data into one cluster.
    n_clusters : int, optional
        That of `estimator`, where None.
    cv : int or splitter, default=5
        Number of shuffled folds, or an object of scikit-learn that splits.
    y : array, optional
        Known classes. They are reported beside the ranking and never used in it.
    n_jobs : int, optional
        Number of processes, as in joblib. The table does not depend on it.
    random_state : int, RandomState or None
        Of folds, and of fits where `estimator` has none of its own.
    progress : bool, default=True
    checkpoint : path, optional
        A file for the numbers of finished settings, from which an interrupted search goes on. It holds
        no data, names or clusters of samples. One of another search is refused.
    estimator : KernelMultiviewNMF, optional
        Parameters that the grid does not vary.
    max_samples : int or None, default=4000
        Of more samples so many are drawn at random for the search, unless `cv` is an object that splits; time
        and memory do not grow further. None uses all.

    Returns
    -------
    Selection

    Notes
    -----
    Kernels and graphs are built once per fold and kernel and shared by all fits that differ in nothing
    else; those of all folds of one kernel are in memory at the same time.

    Examples
    --------
    >>> import viewloom as vl
    >>> views, y = vl.simulate.blobs_views(60, n_views=2, random_state=0)
    >>> grid = {"sigma": [0.01, 3.0], "lam": [1.0, 10.0]}
    >>> found = select(views, grid, cv=2, random_state=0, progress=False)
    >>> found.best_params["kernel"]
    Gaussian(sigma=3.0)
    >>> found.table[["sigma", "lam", "rank"]].shape
    (4, 3)

    The paper's method, ``theta`` chosen without labels; without a grid, `sigma` and `lam` are searched, too:

    >>> grid = {"theta": [0.001, 1.0]}
    >>> found = select(views, grid, paper=True, n_clusters=3, cv=2, random_state=0, progress=False)
    >>> found.best_params
    {'theta': 0.001}
    """
    views = Views(views)
    y = _checked_labels(y, views)
    seed = seed_of(random_state, checkpoint)
    if paper:
        estimator, grid = published_form(estimator), PAPER_GRID if grid is None else grid
    if grid is None:
        raise InputError("Give a grid of parameters to search, or paper=True for that of the paper's method.")
    model = base_model(estimator, n_clusters, seed)
    settings = expand(grid)
    models = [_configured(model, setting, views) for setting in settings]
    drawn = rows_at_most(len(views), checked(max_samples) if isinstance(cv, int) else None, seed)
    everyone = views
    if len(drawn) < len(views):
        views, y = views[drawn], y if y is None else y[drawn]
    folds = _folds(cv, len(views), seed)
    store = open_checkpoint(checkpoint, views, "select", model, settings, folds, y)
    with progress_bar("Searching", len(settings), progress) as tick:
        jobs = Jobs(n_jobs, store, tick)
        for names in _sharing_kernels(models):
            _search(jobs, {name: models[int(name)] for name in jobs.pending(names)}, views, folds, y)
    records = [jobs.records[str(i)] for i in range(len(settings))]
    table = rank(tabulate(settings, records), _unit_of_loss(settings, model.membership))
    best = parameters(settings[int(table.index[0])], model.graph)
    return Selection(table.reset_index(drop=True), best, len(views), everyone, model)


def published_form(estimator: KernelMultiviewNMF | None = None) -> KernelMultiviewNMF:
    """The published objective and updates on scaled features, from a k-means start."""
    if estimator is not None:
        raise InputError(
            "paper=True brings an estimator of its own; without it, pass "
            "estimator=KernelMultiviewNMF.paper(...) with the changes that you want."
        )
    return KernelMultiviewNMF.paper(init="kkmeans", scale="auto")


def expand(grid: Any) -> list[Setting]:
    """All settings of a grid, each once; ``sigma`` stays only where the kernel is Gaussian.

    Examples
    --------
    >>> expand({"kernel": ["linear", "gaussian"], "sigma": [1.0, 2.0]})
    [{'kernel': 'linear'}, {'kernel': 'gaussian', 'sigma': 1.0}, {'kernel': 'gaussian', 'sigma': 2.0}]
    """
    settings: dict[str, Setting] = {}
    for setting in ParameterGrid(grid):
        if setting.get("kernel", "gaussian") != "gaussian":
            setting = {name: value for name, value in setting.items() if name != "sigma"}
        settings.setdefault(repr(sorted(setting.items())), setting)
    return list(settings.values())


def parameters(setting: Setting, graph: Any = "knn") -> dict[str, Any]:
    """A setting as the estimator takes it: ``sigma`` is a Gaussian kernel, and a graph if it is Gaussian."""
    given = {name: value for name, value in setting.items() if name != "sigma"}
    if "sigma" not in setting:
        return given
    given["kernel"] = Gaussian(setting["sigma"])
    if isinstance(graph, GaussianGraph) or (isinstance(graph, str) and graph == "gaussian"):
        given.setdefault("graph", GaussianGraph(setting["sigma"]))  # the paper has one sigma for both
    return given


def tabulate(settings: Sequence[Setting], records: Sequence[Record]) -> pd.DataFrame:
    """One row per setting, in the order of the grid."""
    names = list(dict.fromkeys(name for setting in settings for name in setting))
    table = pd.DataFrame([{name: _cell(setting.get(name)) for name in names} for setting in settings])
    for measure in ("held_out", "stability"):
        table[measure] = [float(np.mean(record[measure])) for record in records]
        table[f"{measure}_std"] = [float(np.std(record[measure])) for record in records]
    table["seconds"] = [record["seconds"] for record in records]
    for measure in REPORTED:
        if measure in records[0]:
            table[f"reported_{measure}"] = [float(np.mean(record[measure])) for record in records]
    return table


def rank(table: pd.DataFrame, unit_of_loss: Sequence[str]) -> pd.DataFrame:
    """The table sorted best first, with a column `rank`; see `select` for the rule."""
    position = (_position(table["held_out"], unit_of_loss) + _position(-table["stability"])) / 2.0
    order = np.lexsort((table["held_out"], -table["stability"], position.round(9)))
    table = table.iloc[order].assign(rank=np.arange(1, len(table) + 1))
    last = ["rank", *table.columns[table.columns.get_loc("seconds") : -1]]
    return table[[*table.columns.drop(last), *last]]


def _position(values: pd.Series, groups: Sequence[str] | None = None) -> pd.Series:
    """Where values stand among those of their group, in (0, 1): 0 is lowest, the mean of a group is 1/2."""
    grouped = values.round(9).groupby([0] * len(values) if groups is None else list(groups))
    position: pd.Series = (grouped.rank() - 0.5) / grouped.transform("size")
    return position


def _unit_of_loss(settings: Sequence[Setting], membership: str = "simplex") -> list[str]:
    """Equal for settings whose losses can be compared: none where nothing fixes the scale of memberships."""
    if membership == "nonnegative":
        return [str(number) for number in range(len(settings))]
    return [_described(setting, [name for name in setting if name not in COMPARABLE]) for setting in settings]


def _described(setting: Mapping[str, Any], names: Sequence[str]) -> str:
    return repr([(name, setting[name]) for name in sorted(names)])


def _cell(value: Any) -> Any:
    return value if value is None or isinstance(value, (str, bool, int, float)) else repr(value)


@dataclass(frozen=True)
class Fold:
    """One part to fit on, with its kernels, and one to judge by."""

    features: dict[str, Array]
    problem: Problem
    test: Views
    train_rows: Array
    test_rows: Array


def _search(
    jobs: Jobs, models: Mapping[str, KernelMultiviewNMF], views: Views, rows: Any, y: Array | None
) -> None:
    """Judge models that share their kernels."""
    if models:
        with quiet():
            folds = [_built(list(models.values()), views, train, test) for train, test in rows]
        jobs.run(judge, {name: (model, folds, len(views), y) for name, model in models.items()})


def _built(models: Sequence[KernelMultiviewNMF], views: Views, train: Array, test: Array) -> Fold:
    """Kernels and graphs that all the models share; graphs, if any of them asks for smoothness."""
    smooth = any(np.any(per_view(model.theta, views.names, "theta")) for model in models)
    part = Views(views[train])
    check_trainable(part, models[0].n_clusters)
    problem = build(part, replace(Parameters.of(models[0]), theta=float(smooth)))
    held_out = align(views[test], part.names, part.feature_names)
    return Fold(part.feature_names, problem, held_out, train, test)


def judge(model: KernelMultiviewNMF, folds: Sequence[Fold], n: int, y: Array | None) -> Record:
    """Held-out loss of every fold, stability of every pair of folds, agreement with classes if any."""
    began = time.perf_counter()
    labels, losses = np.full((len(folds), n), ABSENT), []
    for row, fold in zip(labels, folds, strict=True):
        fitted = ExactModel.of(fold.problem, fold.features, Parameters.of(clone(model)))
        losses.append(-fitted.score(fold.test))
        row[fold.train_rows] = fitted.results.labels
        row[fold.test_rows] = fitted.memberships(fold.test).argmax(axis=1)
    record: Record = {"held_out": losses, "stability": pairwise_ari(labels).tolist()}
    record["seconds"] = time.perf_counter() - began
    return record if y is None else {**record, **_reported(labels, y)}


def _reported(labels: Array, y: Array) -> Record:
    reports = [clustering_report(y[row != ABSENT], row[row != ABSENT]) for row in labels]
    return {measure: [report[measure] for report in reports] for measure in REPORTED}


def _sharing_kernels(models: Sequence[KernelMultiviewNMF]) -> Iterator[list[str]]:
    """Names of the models, those together whose kernels and graphs are the same."""
    built_from = [_described(model.get_params(deep=False), BUILDING) for model in models]
    order = sorted(range(len(models)), key=lambda i: (built_from.index(built_from[i]), i))
    for _, group in groupby(order, key=lambda i: built_from[i]):
        yield [str(i) for i in group]


def seed_of(random_state: Any, checkpoint: Any) -> int:
    """A number to draw from again; with a checkpoint it must be given."""
    if isinstance(random_state, (int, np.integer)):
        return int(random_state)
    if random_state is None and checkpoint is not None:
        raise InputError(
            "Give random_state a number: new random samples cannot be resumed from a checkpoint."
        )
    return int(check_random_state(random_state).randint(2**31 - 1))


def base_model(estimator: KernelMultiviewNMF | None, n_clusters: int | None, seed: int) -> KernelMultiviewNMF:
    """The estimator whose parameters the search varies."""
    if not isinstance(estimator, (KernelMultiviewNMF, type(None))):
        raise InputTypeError(
            f"estimator must be a KernelMultiviewNMF, got {type(estimator).__name__}; scikit-learn's "
            "GridSearchCV takes any other with a score."
        )
    model = KernelMultiviewNMF() if estimator is None else clone(estimator)
    if n_clusters is not None:
        model.set_params(n_clusters=n_clusters)
    return model if model.random_state is not None else model.set_params(random_state=seed)  # type: ignore[no-any-return]


def _configured(model: KernelMultiviewNMF, setting: Setting, views: Views) -> KernelMultiviewNMF:
    """The estimator with a setting of the grid, checked before anything runs."""
    model = clone(model).set_params(**parameters(setting, model.graph))
    model.check_parameters()
    refuse_precomputed(model, views)
    return model


def refuse_precomputed(model: KernelMultiviewNMF, views: Views) -> None:
    """Gram matrices cannot be split by rows alone."""
    kernels = [make_kernel(kernel) for kernel in per_view(model.kernel, views.names, "kernel")]
    if any(isinstance(kernel, Precomputed) for kernel in kernels):
        raise InputError(
            "Precomputed kernels cannot be split into training and held-out samples by rows; pass the "
            "features with a kernel or a kernel function."
        )


def _folds(cv: Any, n: int, seed: int) -> list[tuple[Array, Array]]:
    splitter = (
        KFold(cv, shuffle=True, random_state=seed) if isinstance(cv, (int, np.integer)) else check_cv(cv)
    )
    return [(np.asarray(train), np.asarray(test)) for train, test in splitter.split(np.zeros(n))]


def _checked_labels(y: Any, views: Views) -> Array | None:
    if y is None:
        return None
    y = matched_values(y, views.ids, "y")
    if y.shape != (len(views),):
        raise InputError(f"y has shape {y.shape}, expected one class for each of {len(views)} samples.")
    return y
