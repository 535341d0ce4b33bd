"""Inspection of fitted models: contributions of views, importance of features, stability of weights."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp
from scipy.stats import rankdata
from sklearn.base import clone
from sklearn.metrics import roc_auc_score
from sklearn.utils.validation import check_is_fitted

from viewloom.data.checks import view_position
from viewloom.data.matching import matched_values
from viewloom.data.mixed import MixedBlock
from viewloom.data.naming import listed
from viewloom.data.views import Views
from viewloom.evaluation.agreement import view_agreement
from viewloom.evaluation.continuum import ConsensusAxis, consensus_axis
from viewloom.evaluation.feature_tests import importance_test
from viewloom.evaluation.uncertainty import Uncertainty, uncertainty
from viewloom.models.fitted import FittedModel
from viewloom.models.kernel_nmf import KernelMultiviewNMF
from viewloom.models.problem import NewSamples
from viewloom.runtime.errors import InputError, InputTypeError

__all__ = [
    "ConsensusAxis",
    "Uncertainty",
    "ViewContributions",
    "annotate",
    "cluster_profiles",
    "consensus_axis",
    "importance_against_truth",
    "importance_test",
    "uncertainty",
    "view_agreement",
    "view_contributions",
    "weights_over_gamma",
    "weights_over_seeds",
]

Array = np.ndarray
CELLS = 2**23  # of a view that are standardised at a time
GAMMAS = (1.0, 1.2, 1.5, 2.0, 3.0, 4.0, 8.0, 16.0, 64.0)


@dataclass(frozen=True, eq=False)
class ViewContributions:
    """Memberships of samples from each view alone and without each view; see `view_contributions`.

    Attributes
    ----------
    view_names : list of str
    labels : (n,) int array
        Cluster of each sample.
    consensus : (n, k) array
        Memberships from all views of a sample.
    alone : (v, n, k) array
        Memberships from one view alone; NaN for samples without the view.
    change : (n, v) array
        Share of the membership of a sample that changes if the view is left out (total variation, 0 to 1).
        NaN for samples without the view or with no other view.
    """

    view_names: list[str]
    labels: Array
    consensus: Array
    alone: Array
    change: Array

    @property
    def overlap(self) -> Array:
        """Overlap of the memberships from each view alone with the consensus (n x v), 0 to 1."""
        return 1.0 - _moved(self.alone, self.consensus).T

    @property
    def agreement(self) -> Array:
        """Mean overlap between the views of a sample (n,): 1 if all agree; NaN with a single view."""
        pairs = [1.0 - _moved(a, b) for a, b in combinations(self.alone, 2)]
        return _mean_of_known(np.array(pairs).reshape(len(pairs), len(self.labels)))

    def by_cluster(self) -> pd.DataFrame:
        """Mean `change` of each view (columns) in each cluster (rows): the largest defines the cluster."""
        return self._frame(self.change).groupby(self.labels).mean().reindex(self._clusters)

    def agreement_by_cluster(self) -> pd.DataFrame:
        """Mean `overlap` of each view (columns) with the consensus in each cluster (rows)."""
        return self._frame(self.overlap).groupby(self.labels).mean().reindex(self._clusters)

    def defining_views(self) -> pd.Series:
        """The view with the largest mean change in each cluster; clusters without one are left out."""
        means = self.by_cluster().dropna(how="all")
        return means.idxmax(axis=1).rename("view")

    def to_frame(self) -> pd.DataFrame:
        """One row per sample and view, with ``change``, ``overlap`` and ``agreement``."""
        n, v = self.change.shape
        return pd.DataFrame(
            {
                "sample": np.repeat(np.arange(n), v),
                "cluster": np.repeat(self.labels, v),
                "view": np.tile(self.view_names, n),
                "change": self.change.ravel(),
                "overlap": self.overlap.ravel(),
                "agreement": np.repeat(self.agreement, v),
            }
        )

    @property
    def _clusters(self) -> pd.Index:
        return pd.RangeIndex(self.consensus.shape[1], name="cluster")

    def _frame(self, values: Array) -> pd.DataFrame:
        return pd.DataFrame(values, columns=pd.Index(self.view_names))


def view_contributions(model: KernelMultiviewNMF, X: Any = None) -> ViewContributions:
    """Change of the consensus of each sample without each view, and agreement between its views.

    Memberships are computed at the fitted centroids, as in `transform`: from all views, without each view,
    and from each view alone. Means over a cluster show which view defines it.

    Parameters
    ----------
    model : fitted KernelMultiviewNMF
    X : dict, list, Views or array, optional
        New samples; by default the training samples, or the landmarks of a model fitted with
        `factored`.

    Returns
    -------
    ViewContributions

    Notes
    -----
    Leaving a view out of the mean that defines the consensus (Eq. 7) is cheaper but not informative: the
    fitted memberships of the other views were already pulled towards a consensus that includes the view.
    Here the consensus is solved again without the view and without its edges in the shared graph (see
    `Diffusion`). Centroids and weights are not refitted: this is the change for one sample, not for the
    clustering.

    Examples
    --------
    >>> import viewloom as vl
    >>> from viewloom.inspection import view_contributions
    >>> views, _ = vl.simulate.three_kinds(20, random_state=0)
    >>> model = vl.KernelMultiviewNMF(n_clusters=3, random_state=0).fit(views)
    >>> contributions = view_contributions(model)
    >>> contributions.change.shape
    (60, 3)
    >>> "noise" in contributions.defining_views().to_list()
    False
    """
    if not isinstance(model, KernelMultiviewNMF):
        raise InputTypeError(f"view_contributions needs a KernelMultiviewNMF, got {type(model).__name__}.")
    check_is_fitted(model)
    fitted, v = model.fitted_model_, len(model.view_names_)
    samples = fitted.samples if X is None else fitted.scaled(model.aligned(X))
    consensus = fitted.memberships(samples, using=range(v))
    without, alone = np.empty((2, v, *consensus.shape))
    for a in range(v):
        alone[a] = fitted.memberships(samples, using=[a])
        without[a] = _memberships_without(fitted, samples, a)
    labels = model.labels_ if X is None and fitted.EXACT else np.argmax(consensus, axis=1)
    return ViewContributions(list(model.view_names_), labels, consensus, alone, _moved(without, consensus).T)


def annotate(importance: pd.DataFrame, notes: Mapping[str, str]) -> pd.DataFrame:
    """Add a column ``note`` with notes on known features to an importance table.

    Parameters
    ----------
    importance : DataFrame
        Table with a column ``feature``, as returned by `feature_importance`.
    notes : dict of feature name to note
        For example `viewloom.simulate.feature_notes()`.

    Examples
    --------
    >>> import pandas as pd
    >>> from viewloom.inspection import annotate
    >>> ranking = pd.DataFrame({"feature": ["rs3818361", "sim_chr7_00412"], "importance": [2.0, 1.0]})
    >>> annotate(ranking, {"rs3818361": "CR1"})["note"].to_list()
    ['CR1', '']
    """
    return importance.assign(note=[notes.get(name, "") for name in importance["feature"]])


def importance_against_truth(
    importance: pd.DataFrame, informative: Iterable[str], top: int = 10
) -> dict[str, float]:
    """Evaluate a ranking of features against the known informative features.

    Parameters
    ----------
    importance : DataFrame
        Table with columns ``feature`` and ``importance``.
    informative : iterable of str
        The informative features.
    top : int, default=10
        Number of features for ``precision``.

    Returns
    -------
    dict
        ``precision``: share of informative features among the `top` features (or all, if there are fewer);
        ``chance``: that of a random ranking; ``auc``: probability that an informative feature ranks above
        another one, NaN if all or none are informative.

    Examples
    --------
    >>> import pandas as pd
    >>> from viewloom.inspection import importance_against_truth
    >>> ranking = pd.DataFrame({"feature": list("abcd"), "importance": [4.0, 3.0, 2.0, 1.0]})
    >>> importance_against_truth(ranking, ["a", "c"], top=2)
    {'precision': 0.5, 'chance': 0.5, 'auc': 0.75}
    """
    if top < 1:
        raise InputError(f"top must be at least 1, got {top}.")
    names, scores = importance["feature"], importance["importance"].to_numpy(dtype=float)
    planted = names.isin(_known(informative, names, "The importance table")).to_numpy()
    first = np.argsort(-scores, kind="stable")[:top]
    mixed = 0 < planted.sum() < len(planted)
    return {
        "precision": float(planted[first].mean()),
        "chance": float(planted.mean()),
        "auc": float(roc_auc_score(planted, scores)) if mixed else float("nan"),
    }


def weights_over_seeds(
    model: KernelMultiviewNMF, views: Any, seeds: Iterable[int] = range(10)
) -> pd.DataFrame:
    """View weights of the model fitted with several random seeds.

    Kernels and graphs are built once; only the initialisation varies.

    Parameters
    ----------
    model : KernelMultiviewNMF
        Its parameters are used; the estimator itself is not fitted.
    views : dict, list, Views or array
    seeds : iterable of int, default=range(10)

    Returns
    -------
    DataFrame
        One row per seed, one column per view.

    Examples
    --------
    >>> import viewloom as vl
    >>> from viewloom.inspection import weights_over_seeds
    >>> views, _ = vl.simulate.three_kinds(20, random_state=0)
    >>> weights = weights_over_seeds(vl.KernelMultiviewNMF(n_clusters=3), views, seeds=[0, 1])
    >>> weights.mean().idxmin()
    'noise'
    """
    return _weights_over(model, views, "random_state", list(seeds)).rename_axis("seed")


def weights_over_gamma(
    model: KernelMultiviewNMF, views: Any, gammas: Iterable[float] = GAMMAS
) -> pd.DataFrame:
    """View weights for several values of `gamma`, from a single view at 1 to equal weights.

    Parameters
    ----------
    model : KernelMultiviewNMF
        Its other parameters are used; the estimator itself is not fitted.
    views : dict, list, Views or array
    gammas : iterable of float

    Returns
    -------
    DataFrame
        One row per gamma, one column per view.

    Examples
    --------
    >>> import viewloom as vl
    >>> from viewloom.inspection import weights_over_gamma
    >>> views, _ = vl.simulate.three_kinds(20, random_state=0)
    >>> model = vl.KernelMultiviewNMF(n_clusters=3, random_state=0)
    >>> weights_over_gamma(model, views, [1.0, 2.0, 1e6]).max(axis=1).round(2).to_list()
    [1.0, ..., 0.33]
    """
    return _weights_over(model, views, "gamma", [float(gamma) for gamma in gammas])


def cluster_profiles(views: Any, labels: Any, view: str | int, features: Sequence[str]) -> pd.DataFrame:
    """Mean z-score of features in each cluster, over the samples that have the view.

    Ordinal features have the z-scores of their ranks, and features with two levels those of the second level.

    Parameters
    ----------
    views : dict, list, Views or array
    labels : (n,) array
    view : str or int
    features : sequence of str
        Names of features, for example the first of `feature_importance`.

    Returns
    -------
    DataFrame
        Features in rows, in the given order; clusters in columns. 0 for constant features, NaN if no sample
        of a cluster has the view, and for features with more than two levels, which have no mean.

    Examples
    --------
    >>> import pandas as pd
    >>> from viewloom.inspection import cluster_profiles
    >>> scans = pd.DataFrame({"hippocampus": [1.0, 1.0, 3.0, 3.0], "icv": [5.0, 7.0, 5.0, 7.0]})
    >>> profiles = cluster_profiles({"mri": scans}, [0, 0, 1, 1], "mri", ["hippocampus", "icv"])
    >>> profiles.loc["hippocampus"].to_list()
    [-1.0, 1.0]
    """
    views = Views(views)
    labels = matched_values(labels, views.ids, "labels")
    if labels.shape != (len(views),):
        raise InputError(f"labels has shape {labels.shape}, expected ({len(views)},).")
    a = view_position(view, views.names)
    name, rows = views.names[a], views.rows(a)
    names = pd.Index(views.feature_names[name])
    columns = names.get_indexer(pd.Index(_known(features, names, f"View {name!r}")))
    step = max(CELLS // max(len(rows), 1), 1)
    parts = [columns[first : first + step] for first in range(0, max(len(columns), 1), step)]
    tables = [_mean_scores(_chosen(views.blocks[a], rows, part), labels[rows], names[part]) for part in parts]
    return pd.concat(tables, axis=1).reindex(np.unique(labels)).rename_axis("cluster").T


def _chosen(block: Any, rows: Array, columns: Array) -> Any:
    """Some rows and columns of a view, without a copy of all columns of a dense one."""
    X = block[rows][:, columns] if isinstance(block, MixedBlock) else block[:, columns][rows]
    return _scored(X) if isinstance(X, MixedBlock) else X


def _mean_scores(X: Any, labels: Array, names: pd.Index) -> pd.DataFrame:
    """Mean z-scores of some features in each cluster (clusters x features)."""
    X = _scored(X) if isinstance(X, MixedBlock) else X.toarray() if sp.issparse(X) else X
    z = pd.DataFrame(standardised(X), columns=names)
    return z.groupby(labels).mean()


def _scored(X: MixedBlock) -> Array:
    """Numbers, ranks of ordered levels and codes of two levels; NaN for other features (n x d)."""
    scored = X.cells.copy()
    for j, levels in enumerate(X.levels):
        if levels is not None and levels.ordered:
            scored[:, j] = rankdata(X.cells[:, j])
        elif levels is not None and len(levels.names) > 2:
            scored[:, j] = np.nan
    return scored


def _memberships_without(fitted: FittedModel, samples: NewSamples, view: int) -> Array:
    """Memberships (n x k) from all views except one; NaN for samples without it or with no other view."""
    present = samples.present(len(fitted.names))
    others = [a for a in range(len(fitted.names)) if a != view]
    chosen = np.flatnonzero(present[:, view] & present[:, others].any(axis=1))
    U = np.full((samples.n, fitted.n_clusters), np.nan)
    U[chosen] = fitted.memberships(samples.taken(chosen, others), using=others)
    return U


def _moved(U: Array, V: Array) -> Array:
    """Total variation between memberships along the last axis: the share of membership that differs."""
    return np.asarray(np.abs(U - V).sum(axis=-1) / 2.0)


def _mean_of_known(values: Array) -> Array:
    """Mean over the first axis, ignoring NaN; NaN if all values are NaN."""
    known = ~np.isnan(values)
    count = known.sum(axis=0)
    total = np.where(known, values, 0.0).sum(axis=0)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def _weights_over(model: KernelMultiviewNMF, views: Any, parameter: str, values: list[Any]) -> pd.DataFrame:
    """Weights of the model at several values of a parameter that kernels and graphs do not depend on."""
    views = Views(views)
    rows: list[Array] = []
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="View .* of the weight")  # visible in the result
        for value in values:
            if not rows:
                first = clone(model).set_params(factored=False, **{parameter: value}).fit(views)
            fitted = first.refit(**{parameter: value}) if rows else first
            rows.append(fitted.view_weights_)
    return pd.DataFrame(rows, columns=pd.Index(views.names), index=pd.Index(values, name=parameter))


def _known(names: Iterable[str], among: Any, where: str) -> list[str]:
    """The names as a list; raise an error if any is not a feature."""
    names = list(names)
    unknown = sorted({str(name) for name in names} - {str(name) for name in among})
    if unknown:
        raise InputError(f"{where} has no features {listed(unknown)}.")
    return names


def standardised(X: Array) -> Array:
    """Columns scaled to zero mean and unit variance; zeros for constant columns."""
    centred = X - X.mean(axis=0)
    spread = centred.std(axis=0)
    varies = spread > 1e-12 * np.abs(X).max(axis=0, initial=0.0)
    z = np.where(varies, centred / np.where(varies, spread, 1.0), 0.0)
    return np.asarray(np.where(np.isnan(spread), np.nan, z))
