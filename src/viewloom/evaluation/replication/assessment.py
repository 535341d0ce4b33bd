"""Replication of clusters in a second cohort."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from sklearn.utils.validation import check_is_fitted

from viewloom.evaluation.replication.cohort import Cohort
from viewloom.evaluation.replication.compared import (
    Compared,
    clusters_table,
    overall_agreement,
    profiles_table,
    weights_table,
)
from viewloom.evaluation.replication.nulls import drawn_cohorts
from viewloom.evaluation.replication.statistics import matched
from viewloom.evaluation.replication.verdicts import cautions, overall_verdict
from viewloom.evaluation.selection.jobs import Record, quiet
from viewloom.evaluation.selection.search import seed_of
from viewloom.models.kernel_nmf import KernelMultiviewNMF
from viewloom.runtime.errors import InputError, InputTypeError


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
    progress: bool = True,
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
    progress : bool, default=True
        Show a progress bar, in a terminal or a notebook.

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
    cohort = Cohort.of(model, views, own, seed)
    if n_permutations == 0 and len(cohort.views) == 1:
        raise InputError("A single common view needs n_permutations of at least 19.")
    with quiet():
        refit = cohort.estimator.fit(cohort.own)
    drawn = drawn_cohorts(cohort, n_permutations, n_continuum, seed, n_jobs, progress)
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


def _assessed(
    cohort: Cohort,
    refit: KernelMultiviewNMF,
    drawn: Mapping[str, list[Record]],
    rng: np.random.Generator,
    n_resamples: int,
) -> Replication:
    U = cohort.model.memberships(cohort.samples)
    transferred = U.argmax(axis=1)
    refitted = matched(transferred, refit.labels_, cohort.k)
    compared = Compared(cohort, transferred, refitted)
    resampled = compared.resampled(rng, n_resamples)
    directions = compared.directions(rng)
    clusters = clusters_table(compared, resampled, compared.permuted(rng), directions, drawn["null"])
    overall = overall_agreement(compared, resampled, drawn)
    ordered = np.sort(U, axis=1)
    confidence = ordered[:, -1] - (ordered[:, -2] if cohort.k > 1 else 0.0)
    labels = {"transferred": transferred, "refitted": refitted, "confidence": confidence}
    return Replication(
        overall_verdict(clusters["verdict"].tolist()),
        clusters,
        overall,
        profiles_table(compared, resampled, directions),
        weights_table(cohort, refit, drawn),
        pd.DataFrame(labels, index=cohort.ids),
        refit,
        list(cautions(clusters, overall)),
        cohort.notes,
    )
