"""The second cohort beside the model of the first: common views and subjects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp
from sklearn.base import clone

from viewloom.data.checks import per_view
from viewloom.data.naming import listed
from viewloom.data.views import Views
from viewloom.evaluation.inspection import standardised
from viewloom.evaluation.replication.statistics import Concordance, Profiles, cluster_means
from viewloom.evaluation.selection.search import refuse_precomputed
from viewloom.models.fitted import FittedModel
from viewloom.models.kernel_nmf import KernelMultiviewNMF
from viewloom.models.problem import NewSamples
from viewloom.runtime.errors import InputError

Array = np.ndarray

MOST = 5000  # subjects of the second cohort that are compared
PER_VIEW = ("kernel", "lam", "theta", "graph", "scale")  # parameters that may differ between views


@dataclass(frozen=True, eq=False)
class Cohort:
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
    def of(cls, model: KernelMultiviewNMF, views: Any, own: Any, seed: int) -> Cohort:
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
        """Number of clusters."""
        return self.model.n_clusters

    @property
    def n(self) -> int:
        """Number of subjects."""
        return self.samples.n

    @property
    def names(self) -> list[str]:
        """Names of the common views."""
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
            cluster_means(standardised(dense(stored.scaled[a])), self.first[at], self.k)
            for a, at in zip(self.views, where, strict=True)
        ]
        second = [standardised(dense(self.samples.scaled[a])) for a in self.views]
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


def dense(X: Any) -> Array:
    """A block of a view as a dense array of double precision."""
    return np.asarray(X.toarray() if sp.issparse(X) else X, dtype=np.float64)
