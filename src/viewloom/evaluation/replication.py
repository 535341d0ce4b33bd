"""Replication of clusters in a second cohort."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from viewloom.data.checks import per_view
from viewloom.data.naming import listed
from viewloom.data.views import Views
from viewloom.evaluation.inspection import standardised
from viewloom.evaluation.replication_statistics import (
    Concordance,
    Profiles,
    adjusted_p,
    agreement,
    best_matching,
    cluster_means,
    in_group,
    interval,
    jaccard,
    matched,
    nearest_samples,
    upper_p,
)
from viewloom.evaluation.selection.jobs import Jobs, Record, quiet
from viewloom.evaluation.selection.number import gaussian_twin
from viewloom.evaluation.selection.search import refuse_precomputed, seed_of
from viewloom.models.fitted import FittedModel
from viewloom.models.kernel_nmf import KernelMultiviewNMF
from viewloom.models.problem import NewSamples
from viewloom.models.scaling import Centred, Standard, fit_scaler
from viewloom.runtime.errors import InputError, InputTypeError
from viewloom.runtime.progress import progress_bar

Array = np.ndarray
ALPHA, STRICT = 0.05, 0.01  # levels of null cohorts, which are few; and of concordance and profiles
SIMILAR = (
    0.5  # Jaccard similarity below which a cluster is called dissolved (Hennig 2007); also of neighbours
)
DRAWS, BATCH = 999, 111  # random directions, and permutations of memberships; directions at a time
HALVES = 10  # random halves of the second cohort, for the intervals of its weights
MOST = 5000  # subjects of the second cohort that are compared
REPLICATED, PARTLY, NOT = "replicated", "partly replicated", "not replicated"
VIEWS, CONTINUUM = "views", "continuum"  # kinds of null cohorts
PER_VIEW = ("kernel", "lam", "theta", "graph", "scale")  # parameters that may differ between views
RULE = (
    "A cluster is replicated or partly replicated only if two p-values, corrected for the number of "
    f"clusters, are small: that of its concordance below {STRICT} (the views of the second cohort place "
    f"the same subjects in it; with a single view, that of the Jaccard similarity below {ALPHA}), and that "
    f"of its profile correlation below {STRICT}. It is replicated if moreover the Jaccard similarity and "
    f"the in-group proportion are at least {SIMILAR}, and the interval of the profile correlation lies "
    "above 0."
)
CUTS = "Agreement of cuts does not show that clusters exist; see choose_k."


@dataclass(frozen=True, eq=False)
class Replication:
    """How the clusters of a model fare in a second cohort; see `replicate`.

    Attributes
    ----------
    verdict : str
        "replicated" if all clusters are, "not replicated" if none is, even partly, else "partly replicated".
    clusters : DataFrame
        One row per cluster: ``first``, ``transferred`` and ``refitted`` (numbers of subjects);
        ``concordance``, ``jaccard``, ``in_group`` and ``profile``, each with ``_lower``, ``_upper`` and
        ``_p`` (corrected for the number of clusters); ``verdict``. The concordance is NaN with a single view.
    overall : Series
        Adjusted Rand index ``ari`` of transferred and refitted clusters, ``lower``, ``upper`` and ``p``, and
        ``continuum_p``, which compares it with cuts through a single Gaussian (NaN if it was not computed).
    profiles : DataFrame
        Profile correlations by ``view`` and ``cluster``: ``correlation``, ``lower``, ``upper`` and ``p``.
    weights : DataFrame
        One row per common view: weights in the ``first`` fit, rescaled to the common views, and in the
        ``second``, with ``lower``, ``upper`` and ``p`` of the latter.
    labels : DataFrame
        Per subject of the second cohort the ``transferred`` and the ``refitted`` cluster, and the
        ``confidence`` of the transfer.
    refit : KernelMultiviewNMF
        The model of the second cohort; its clusters have their own numbers.
    cautions, notes : list of str

    Examples
    --------
    >>> import viewloom as vl
    >>> views, _ = vl.simulate.blobs_views(120, random_state=0)
    >>> model = vl.KernelMultiviewNMF(n_clusters=3, random_state=0).fit(views[:60])
    >>> found = vl.replicate(model, views[60:], n_permutations=0, n_continuum=0)
    >>> found.labels.columns.to_list()
    ['transferred', 'refitted', 'confidence']
    """

    verdict: str
    clusters: pd.DataFrame
    overall: pd.Series
    profiles: pd.DataFrame
    weights: pd.DataFrame
    labels: pd.DataFrame
    refit: KernelMultiviewNMF
    cautions: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        lines = [f"{self.verdict} (ARI {self.overall['ari']:.2f}, p = {self.overall['p']:.3f})"]
        lines += [
            f"cluster {j}: {row['verdict']} (Jaccard {row['jaccard']:.2f}, in-group proportion "
            f"{row['in_group']:.2f}, profile correlation {row['profile']:.2f})"
            for j, row in self.clusters.iterrows()
        ]
        return "\n".join([*lines, *self.cautions])


def replicate(
    model: KernelMultiviewNMF,
    views: Any,
    *,
    own: Any = None,
    n_permutations: int = 39,
    n_continuum: int = 19,
    n_resamples: int = 200,
    random_state: Any = 0,
    n_jobs: int | None = 1,
    progress: bool = False,
) -> Replication:
    """Assess whether the clusters of a model are found again in a second cohort.

    The second cohort is clustered twice: by *transfer*, which places its subjects with the first model,
    and by a *refit*, the same estimator fitted on the second cohort alone. Refitted clusters get the numbers
    of the transferred ones that they share most subjects with, one to one.

    Parameters
    ----------
    model : fitted KernelMultiviewNMF
    views : dict, list, Views or array
        The second cohort, measured and prepared like the first. Views of the model may be missing, and
        further views are not used.
    own : dict, list, Views or array, optional
        The same subjects, in the same order, prepared on their own; for the refit. By default `views`.
    n_permutations : int, default=39
        Number of null cohorts, which are transferred and refitted like the second cohort. With 0, which is
        quick and possible with several views, the p-values from them and the intervals of weights are NaN.
    n_continuum : int, default=19
        Number of Gaussian cohorts, in order to warn if clusters may be cuts through a continuum; 0 for none.
    n_resamples : int, default=200
        Number of bootstrap resamples of subjects for the intervals (95 %).
    random_state : int, RandomState or None, default=0
    n_jobs : int, default=1
        Number of parallel fits; the results do not depend on it.
    progress : bool, default=False

    Returns
    -------
    Replication

    Notes
    -----
    *Agreement* of transferred and refitted clusters: ARI, and the Jaccard similarity of each pair. The
    *in-group proportion* of a transferred cluster is the share of its subjects whose nearest neighbour in the
    second cohort is in it (Kapp & Tibshirani 2007). The null of these is the second cohort with the rows of
    each view permuted independently, so that views have nothing in common, transferred and refitted again.
    With a single view it is a Gaussian cohort with the same covariances.

    The *concordance* of a cluster is the mean correlation between pairs of views of the memberships by each
    view alone, at the centroids of the first model. The null is the same permutation of rows, 999 times.

    The *profile* of a cluster is its mean z-scores, relative to its own cohort. The correlation of the
    refitted profile with that of the first cohort is uncentred, since 0 is the mean of the cohort. The null
    is random directions with the covariance within the refitted clusters, matched to the first profiles as
    well as possible: clusters at other locations do not replicate, however clear they are. A cluster
    close to the mean of its cohort has hardly a profile, and is seldom replicated.

    P-values are corrected for the number of clusters by the maximum over clusters (Westfall & Young). A
    cluster is replicated or partly replicated only if its concordance and its profile correlation have
    p < 0.01 (with a single view, its Jaccard similarity p < 0.05, instead of the concordance). It is
    replicated if moreover the Jaccard similarity and the in-group proportion are at least
    0.5, and the interval of the profile correlation lies above 0. Thus, cohorts that share no structure, or
    whose views share none, have no cluster that is even partly replicated in about 95 % of cases. A
    cluster that a single view of several shows cannot be told from that.

    Cuts through one continuum can be found again, too. `continuum_p` compares the ARI with that of a single
    Gaussian with the same covariances, and a caution is given if it is not larger.

    Intervals are from resampled subjects of the second cohort with fixed clusters; those of weights are from
    refits on random halves. The p-value of a weight is the share of null cohorts in which the view has as
    much weight. At most 5000 subjects are compared, a random sample of larger cohorts.

    Examples
    --------
    >>> import viewloom as vl
    >>> views, _ = vl.simulate.blobs_views(120, random_state=0)
    >>> model = vl.KernelMultiviewNMF(n_clusters=3, random_state=0).fit(views[:60])
    >>> found = vl.replicate(model, views[60:], n_permutations=19, n_continuum=0)
    >>> found.verdict
    'replicated'
    """
    if not isinstance(model, KernelMultiviewNMF):
        raise InputTypeError(f"replicate needs a KernelMultiviewNMF, got {type(model).__name__}.")
    check_is_fitted(model)
    _check_numbers(n_permutations, n_continuum, n_resamples)
    seed = seed_of(random_state, None)
    cohort = _Cohort.of(model, views, own, seed)
    if n_permutations == 0 and len(cohort.views) == 1:
        raise InputError("A single common view needs n_permutations of at least 19.")
    with quiet():
        refit = cohort.estimator.fit(cohort.own)
    drawn = _drawn(cohort, n_permutations, n_continuum, seed, n_jobs, progress)
    return _assessed(cohort, refit, drawn, np.random.default_rng([seed, n_resamples]), n_resamples)


def _check_numbers(n_permutations: int, n_continuum: int, n_resamples: int) -> None:
    if n_permutations != 0 and n_permutations < 19:
        raise InputError(
            f"n_permutations must be at least 19, to reach p = 0.05, or 0; got {n_permutations!r}."
        )
    if n_continuum < 0:
        raise InputError(f"n_continuum must be 0 or more, got {n_continuum!r}.")
    if n_resamples < 1:
        raise InputError(f"n_resamples must be at least 1, got {n_resamples!r}.")


@dataclass(frozen=True, eq=False)
class _Cohort:
    """The second cohort beside the model of the first."""

    model: FittedModel
    samples: NewSamples  # common views, scaled like the first cohort
    own: Views  # for the refit
    estimator: KernelMultiviewNMF  # not fitted
    views: list[int]  # positions of the common views in the model
    first: Array  # clusters of the stored samples of the first cohort
    sizes: Array  # number of its subjects in each cluster
    ids: Any
    notes: list[str]

    @classmethod
    def of(cls, model: KernelMultiviewNMF, views: Any, own: Any, seed: int) -> _Cohort:
        """Check the second cohort, and leave out what the model does not have."""
        given, notes = common_views(model, views)
        refuse_precomputed(model, given.replaced(names=model.view_names_))
        given, mine = (given, given) if own is None else _paired(given, Views(own), notes)
        kept = _sampled(len(given), seed, notes)
        given, mine = given[kept], mine[kept]
        aligned = model.aligned(given)
        fitted, first = model.fitted_model_, _labels_of_first(model)
        return cls(
            fitted,
            fitted.scaled(aligned),
            mine,
            _for_views(model, given.names, seed),
            [model.view_names_.index(name) for name in given.names],
            first,
            np.bincount(getattr(model, "labels_", first), minlength=model.n_clusters),
            given.ids if given.ids is not None else pd.RangeIndex(len(given)),
            notes,
        )

    @property
    def k(self) -> int:
        return self.model.n_clusters

    @property
    def n(self) -> int:
        return self.samples.n

    @property
    def names(self) -> list[str]:
        return [self.model.names[a] for a in self.views]

    @cached_property
    def weights(self) -> Array:
        """Weights of the common views in the first model, which sum to one."""
        weights = self.model.weights[self.views]
        total = weights.sum()
        return np.asarray(weights / total if total > 0.0 else np.full(len(weights), 1.0 / len(weights)))

    @cached_property
    def rows(self) -> list[Array]:
        """Subjects of each common view."""
        return [np.arange(self.n)[self.samples.rows.get(a, slice(0, 0))] for a in self.views]

    @cached_property
    def concordance(self) -> Concordance:
        """Memberships by each common view alone."""
        alone = [self.model.memberships(self.samples, using=[a]) for a in self.views]
        members = [standardised(U[where]) for U, where in zip(alone, self.rows, strict=True)]
        return Concordance.of(members, self.rows, self.weights, self.n)

    @cached_property
    def profiles(self) -> Profiles:
        """Profiles of both cohorts."""
        stored = self.model.samples
        where = [np.arange(stored.n)[stored.rows[a]] for a in self.views]
        first = [
            cluster_means(standardised(_dense(stored.scaled[a])), self.first[at], self.k)
            for a, at in zip(self.views, where, strict=True)
        ]
        second = [standardised(_dense(self.samples.scaled[a])) for a in self.views]
        return Profiles.of(second, self.rows, first, self.weights)


def common_views(model: KernelMultiviewNMF, views: Any) -> tuple[Views, list[str]]:
    """The views that a model has, with the samples that have one of them, and notes on what is left out."""
    given = Views(views)
    if given.names == ["view0"] and len(model.view_names_) == 1:
        given = Views(given, names=model.view_names_)
    shared = [
        name for name in model.view_names_ if name in given.names and _shares_features(model, given, name)
    ]
    if not shared:
        raise InputError(
            "The second cohort has no view in common with the model: none has the name and a feature of one "
            f"of {listed(model.view_names_)}."
        )
    others = [name for name in given.names if name not in shared]
    lacking = [name for name in model.view_names_ if name not in shared]
    notes = [f"Views of the first cohort that the second lacks: {listed(lacking)}."] * bool(lacking)
    notes += [f"Views of the second cohort that are not used: {listed(others)}."] * bool(others)
    seen = given.present[:, [given.index(name) for name in shared]].any(axis=1)
    if not seen.all():
        notes.append(f"{int((~seen).sum())} subjects have none of the common views and are left out.")
    return given[seen].select(shared), notes


def _shares_features(model: KernelMultiviewNMF, given: Views, name: str) -> bool:
    """Whether a view has features of the model, or as many of them without names; and subjects."""
    found, wanted = given.feature_names[name], model.view_features_[name]
    some = len(found) == len(wanted) or bool(set(found) & set(wanted))
    named_apart = len(found) == len(wanted) and not _numbered(found, name) and not _numbered(wanted, name)
    disjoint = named_apart and not set(found) & set(wanted)
    return some and not disjoint and len(given.rows(given.index(name))) >= 2


def _numbered(features: Array, name: str) -> bool:
    return str(features[0]) in (f"{name}_0", "0")


def _paired(given: Views, own: Views, notes: list[str]) -> tuple[Views, Views]:
    """The second cohort as prepared for the transfer and on its own, with the same views of each subject."""
    mine = _counterpart(own, given)
    both = given.present & mine.present
    seen = both.any(axis=1)
    if not seen.any():
        raise InputError("No subject has a view both in views and in own.")
    if not seen.all():
        notes.append(f"{int((~seen).sum())} subjects without a common view after preparation are left out.")
    return Views(given[seen], present=both[seen]), Views(mine[seen], present=both[seen])


def _counterpart(own: Views, given: Views) -> Views:
    """The same subjects and views as they are prepared on their own."""
    if given.ids is not None and own.ids is not None:
        at = own.ids.get_indexer(given.ids)
        if (at < 0).any():
            raise InputError(f"own lacks {int((at < 0).sum())} of the subjects of views.")
        own = own[at]
    if len(own) != len(given):
        raise InputError(f"own has {len(own)} subjects, and views {len(given)}; they must be the same.")
    lacking = [name for name in given.names if name not in own.names]
    if lacking:
        raise InputError(f"own lacks the views {listed(lacking)}.")
    return own.select(given.names)


def _sampled(n: int, seed: int, notes: list[str]) -> Array:
    if n <= MOST:
        return np.arange(n)
    notes.append(f"A random sample of {MOST} of {n} subjects is compared.")
    return np.sort(np.random.default_rng(seed).choice(n, MOST, replace=False))


def _for_views(model: KernelMultiviewNMF, names: Sequence[str], seed: int) -> KernelMultiviewNMF:
    """The estimator with the same settings for some of its views."""
    settings: dict[str, Any] = {}
    for parameter in PER_VIEW:
        value = getattr(model, parameter)
        if isinstance(value, (Mapping, list, tuple, np.ndarray)):
            each = dict(zip(model.view_names_, per_view(value, model.view_names_, parameter), strict=True))
            settings[parameter] = {name: each[name] for name in names}
    if not isinstance(model.init, str):
        settings["init"] = "kkmeans"  # initial memberships are those of the first cohort
    estimator: KernelMultiviewNMF = clone(model)
    return estimator.set_params(random_state=seed, verbose=0, **settings)  # type: ignore[no-any-return]


def _labels_of_first(model: KernelMultiviewNMF) -> Array:
    """Clusters of the samples that the model stores: training samples or landmarks."""
    fitted = model.fitted_model_
    labels = getattr(model, "labels_", None)
    if fitted.EXACT and labels is not None and len(labels) == fitted.samples.n:
        return np.asarray(labels)
    return np.asarray(fitted.memberships(fitted.samples).argmax(axis=1))


def _dense(X: Any) -> Array:
    return np.asarray(X.toarray() if sp.issparse(X) else X, dtype=np.float64)


def _drawn(
    cohort: _Cohort, n_permutations: int, n_continuum: int, seed: int, n_jobs: int | None, progress: bool
) -> dict[str, list[Record]]:
    """Null cohorts, Gaussian cohorts and halves of the second cohort, transferred and refitted."""
    kind = VIEWS if len(cohort.views) > 1 else CONTINUUM
    n_gaussian = n_continuum if kind == VIEWS else 0
    distances = cohort.profiles.distances
    units: dict[str, tuple[Any, ...]] = {
        f"null {i}": (cohort, distances, kind, [seed, 1, i]) for i in range(n_permutations)
    }
    units |= {f"gaussian {i}": (cohort, distances, CONTINUUM, [seed, 2, i]) for i in range(n_gaussian)}
    n_halves = HALVES if n_permutations else 0
    halves = {f"half {i}": (cohort, [seed, 3, i]) for i in range(n_halves)}
    with progress_bar("Refitting null cohorts", len(units) + n_halves, progress) as tick:
        jobs = Jobs(n_jobs, None, tick)
        jobs.run(_null, units)
        jobs.run(_half, halves)
    return {
        "null": [jobs.records[f"null {i}"] for i in range(n_permutations)],
        "gaussian": [jobs.records[f"gaussian {i}"] for i in range(n_gaussian)],
        "half": [jobs.records[f"half {i}"] for i in range(n_halves)],
    }


def _null(cohort: _Cohort, distances: list[Array], kind: str, seed: list[int]) -> Record:
    """A cohort without shared structure, transferred and refitted."""
    rng = np.random.default_rng(seed)
    if kind == VIEWS:
        samples, own, distances = _shuffled(cohort, distances, rng)
        estimator = clone(cohort.estimator)
    else:
        samples, own, distances = _gaussian(cohort, rng)
        estimator = clone(cohort.estimator).set_params(scale=None)
    transferred = cohort.model.memberships(samples).argmax(axis=1)
    fitted = estimator.fit(own)
    found = matched(transferred, fitted.labels_, cohort.k)
    nearest = nearest_samples(distances, cohort.rows, cohort.weights, cohort.n)
    return {
        "ari": agreement(transferred, found),
        "jaccard": jaccard(transferred, found, cohort.k).tolist(),
        "in_group": in_group(transferred, nearest, cohort.k).tolist(),
        "weights": fitted.view_weights_.tolist(),
    }


def _shuffled(
    cohort: _Cohort, distances: list[Array], rng: np.random.Generator
) -> tuple[NewSamples, Views, list[Array]]:
    """The cohort with the rows of each view permuted, the same ones for transfer, refit and distances."""
    scaled, blocks, far = dict(cohort.samples.scaled), [], []
    for a, where, name, D in zip(cohort.views, cohort.rows, cohort.names, distances, strict=True):
        order = rng.permutation(len(where))
        scaled[a] = cohort.samples.scaled[a][order]
        at = np.arange(cohort.n)
        at[where] = where[order]
        blocks.append(cohort.own[name][at])
        far.append(D[np.ix_(order, order)])
    return replace(cohort.samples, scaled=scaled), cohort.own.replaced(blocks=blocks), far


def _gaussian(cohort: _Cohort, rng: np.random.Generator) -> tuple[NewSamples, Views, list[Array]]:
    """One Gaussian with the means and covariances of the scaled cohort."""
    names = cohort.names
    blocks = []
    for a, where in zip(cohort.views, cohort.rows, strict=True):
        X = np.full((cohort.n, cohort.samples.scaled[a].shape[1]), np.nan)
        X[where] = _dense(cohort.samples.scaled[a])
        blocks.append(X)
    twin = gaussian_twin(Views(blocks, names=names), rng)
    scaled = {a: twin.blocks[i][cohort.rows[i]] for i, a in enumerate(cohort.views)}
    own = [
        _rescaled(X, cohort.model.problem.views[a].scaler)
        for a, X in zip(cohort.views, twin.blocks, strict=True)
    ]
    Z = [standardised(X) for X in scaled.values()]
    empty = [np.zeros((cohort.k, X.shape[1])) for X in Z]
    far = Profiles.of(Z, cohort.rows, empty, cohort.weights).distances
    return replace(cohort.samples, scaled=scaled), Views(own, names=names), far


def _rescaled(X: Array, scaler: Any) -> Array:
    """Observed rows in the scale that they would have in a fit of their own."""
    scale = "standard" if isinstance(scaler, Standard) else "centre" if isinstance(scaler, Centred) else None
    if scale is None:
        return X
    Z, seen = X.copy(), ~np.isnan(X[:, 0])
    Z[seen] = fit_scaler(scale, X[seen]).transform(X[seen])
    return Z


def _half(cohort: _Cohort, seed: list[int]) -> Record:
    """Weights of the views in a random half of the second cohort; none if it is too small."""
    chosen = np.random.default_rng(seed).permutation(cohort.n)[: cohort.n // 2]
    try:
        fitted = clone(cohort.estimator).fit(cohort.own[np.sort(chosen)])
    except ValueError:
        return {"weights": [np.nan] * len(cohort.views)}
    return {"weights": fitted.view_weights_.tolist()}


def _assessed(
    cohort: _Cohort,
    refit: KernelMultiviewNMF,
    drawn: Mapping[str, list[Record]],
    rng: np.random.Generator,
    n_resamples: int,
) -> Replication:
    U = cohort.model.memberships(cohort.samples)
    transferred = U.argmax(axis=1)
    refitted = matched(transferred, refit.labels_, cohort.k)
    compared = _Compared(cohort, transferred, refitted)
    resampled = compared.resampled(rng, n_resamples)
    directions = compared.directions(rng)
    clusters = _clusters_table(compared, resampled, compared.permuted(rng), directions, drawn["null"])
    overall = _overall(compared, resampled, drawn)
    ordered = np.sort(U, axis=1)
    confidence = ordered[:, -1] - (ordered[:, -2] if cohort.k > 1 else 0.0)
    labels = {"transferred": transferred, "refitted": refitted, "confidence": confidence}
    return Replication(
        _overall_verdict(clusters["verdict"].tolist()),
        clusters,
        overall,
        _profiles_table(compared, resampled, directions),
        _weights_table(cohort, refit, drawn),
        pd.DataFrame(labels, index=cohort.ids),
        refit,
        list(cautions(clusters, overall)),
        cohort.notes,
    )


@dataclass(frozen=True, eq=False)
class _Compared:
    """Statistics of transferred and refitted clusters."""

    cohort: _Cohort
    transferred: Array
    refitted: Array

    @cached_property
    def nearest(self) -> Array:
        """The nearest subject of each."""
        cohort = self.cohort
        return nearest_samples(cohort.profiles.distances, cohort.rows, cohort.weights, cohort.n)

    def statistics(self, counts: Array | None = None) -> dict[str, Any]:
        """All statistics, of subjects that count as often as `counts`."""
        k, one, other = self.cohort.k, self.transferred, self.refitted
        overall, by_view = self.cohort.profiles.of_clusters(other, counts)
        return {
            "ari": agreement(one, other, counts),
            "concordance": self.cohort.concordance.observed(counts),
            "jaccard": jaccard(one, other, k, counts),
            "in_group": in_group(one, self.nearest, k, counts),
            "profile": np.diagonal(overall),
            "by_view": np.diagonal(by_view, axis1=1, axis2=2),  # v x k
        }

    @cached_property
    def observed(self) -> dict[str, Any]:
        """All statistics of the second cohort."""
        return self.statistics()

    def resampled(self, rng: np.random.Generator, n_resamples: int) -> dict[str, Array]:
        """Statistics of bootstrap resamples of the subjects."""
        n = self.cohort.n
        draws = rng.multinomial(n, np.full(n, 1.0 / n), size=n_resamples)
        rows = [self.statistics(counts) for counts in draws]
        return {name: np.array([row[name] for row in rows]) for name in rows[0]}

    def permuted(self, rng: np.random.Generator) -> Array:
        """Concordance of clusters after permutations of the subjects of each view (draws x k)."""
        return np.array([self.cohort.concordance.permuted(rng) for _ in range(DRAWS)])

    def directions(self, rng: np.random.Generator) -> dict[str, Array]:
        """Profile correlations of random directions, matched as well as possible."""
        k, n = self.cohort.k, self.cohort.n
        parts: dict[str, list[Array]] = {"profile": [], "by_view": []}
        for _ in range(DRAWS // BATCH):
            G = rng.standard_normal((BATCH, k, n))
            overall, by_view = self.cohort.profiles.of_directions(G, self.refitted)
            best = np.array([best_matching(S) for S in overall])  # batch x k
            at, columns = np.arange(BATCH)[:, None], np.arange(k)
            parts["profile"].append(overall[at, best, columns])
            parts["by_view"].append(by_view[:, at, best, columns].swapaxes(0, 1))
        return {name: np.concatenate(part) for name, part in parts.items()}


def _clusters_table(
    compared: _Compared,
    resampled: Mapping[str, Array],
    permuted: Array,
    directions: Mapping[str, Array],
    null: Sequence[Record],
) -> pd.DataFrame:
    k, observed = compared.cohort.k, compared.observed
    nulls = {"concordance": permuted}
    nulls |= {
        name: np.array([record[name] for record in null], dtype=float).reshape(-1, k) for name in IN_NULLS
    }
    nulls["profile"] = directions["profile"]
    table = pd.DataFrame(index=pd.RangeIndex(k, name="cluster"))
    table["first"] = compared.cohort.sizes
    for name, labels in (("transferred", compared.transferred), ("refitted", compared.refitted)):
        table[name] = np.bincount(labels, minlength=k)
    for name, values in nulls.items():
        table[name] = observed[name]
        table[f"{name}_lower"], table[f"{name}_upper"] = interval(resampled[name])
        table[f"{name}_p"] = adjusted_p(observed[name], values)
    table["verdict"] = [cluster_verdict(row) for row in table.to_dict("records")]
    return table


IN_NULLS = ("jaccard", "in_group")


def cluster_verdict(row: Mapping[Any, Any]) -> str:
    """The verdict on a cluster, by `RULE`.

    >>> row = {"concordance": 0.6, "concordance_p": 0.001, "jaccard": 0.8, "jaccard_p": 0.025}
    >>> row |= {"in_group": 0.9, "profile_p": 0.001, "profile_lower": 0.7}
    >>> cluster_verdict(row), cluster_verdict({**row, "jaccard": 0.4})
    ('replicated', 'partly replicated')
    """
    single = np.isnan(row["concordance"])
    shared = row["jaccard_p"] < ALPHA if single else row["concordance_p"] < STRICT
    if not (shared and row["profile_p"] < STRICT):
        return NOT
    fully = min(row["jaccard"], row["in_group"]) >= SIMILAR and row["profile_lower"] > 0.0
    return REPLICATED if fully else PARTLY


def _overall_verdict(verdicts: Sequence[str]) -> str:
    """The common verdict on all clusters, if they have one."""
    return verdicts[0] if len(set(verdicts)) == 1 else PARTLY


def _overall(
    compared: _Compared, resampled: Mapping[str, Array], drawn: Mapping[str, list[Record]]
) -> pd.Series:
    ari = compared.observed["ari"]
    lower, upper = interval(resampled["ari"])
    p = float(upper_p(ari, [record["ari"] for record in drawn["null"]]))
    gaussian = [record["ari"] for record in drawn["gaussian"]]
    single = len(compared.cohort.views) == 1  # whose null cohorts are Gaussian
    continuum = p if single else float(upper_p(ari, gaussian)) if gaussian else np.nan
    values = {"ari": ari, "lower": float(lower), "upper": float(upper), "p": p, "continuum_p": continuum}
    return pd.Series(values, name="overall")


def cautions(clusters: pd.DataFrame, overall: pd.Series) -> list[str]:
    """What to bear in mind about the verdict."""
    found = []
    if overall["continuum_p"] > ALPHA:
        found.append(
            "The clusters agree no more than cuts through a single Gaussian with the same correlations would "
            f"(p = {overall['continuum_p']:.2f}). {CUTS}"
        )
    elif np.isnan(overall["continuum_p"]):
        found.append(CUTS)
    empty = int((clusters["transferred"] == 0).sum())
    if empty:
        found.append(f"{empty} clusters have no subjects in the second cohort.")
    return found


def _profiles_table(
    compared: _Compared, resampled: Mapping[str, Array], directions: Mapping[str, Array]
) -> pd.DataFrame:
    observed = compared.observed["by_view"]  # v x k
    lower, upper = interval(resampled["by_view"])
    names, k = compared.cohort.names, compared.cohort.k
    columns = {
        "view": np.repeat(np.array(names, dtype=object), k),
        "cluster": np.tile(np.arange(k), len(names)),
        "correlation": observed.ravel(),
        "lower": lower.ravel(),
        "upper": upper.ravel(),
        "p": upper_p(observed, directions["by_view"]).ravel(),
    }
    return pd.DataFrame(columns)


def _weights_table(
    cohort: _Cohort, refit: KernelMultiviewNMF, drawn: Mapping[str, list[Record]]
) -> pd.DataFrame:
    second = refit.view_weights_
    halves = np.array([record["weights"] for record in drawn["half"]], dtype=float).reshape(-1, len(second))
    known = halves[~np.isnan(halves).any(axis=1)]
    spread = 1.96 * known.std(axis=0, ddof=1) if len(known) > 1 else np.full(len(second), np.nan)
    columns = {
        "first": cohort.weights,
        "second": second,
        "lower": np.clip(second - spread, 0.0, 1.0),
        "upper": np.clip(second + spread, 0.0, 1.0),
        "p": upper_p(
            second, np.array([record["weights"] for record in drawn["null"]]).reshape(-1, len(second))
        ),
    }
    return pd.DataFrame(columns, index=pd.Index(cohort.names, name="view"))
