"""Base class of the estimators: checks of views, labels, prediction and warnings."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    ClusterMixin,
    TransformerMixin,
    clone,
)
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import Tags
from sklearn.utils._param_validation import StrOptions, validate_parameter_constraints
from sklearn.utils.validation import check_is_fitted, validate_data

from viewloom.data.alignment import align, check_trainable
from viewloom.data.checks import components, per_view, view_position
from viewloom.data.frames import as_table
from viewloom.data.matching import SELECT, match_rows, row_index
from viewloom.data.naming import listed
from viewloom.data.row_sources import Blocks, is_remote, loaded
from viewloom.data.views import SPLIT_BY_VIEWS, Views, is_multiview
from viewloom.runtime.errors import InputError
from viewloom.runtime.stored import Stored
from viewloom.runtime.user_warnings import warn_user
from viewloom.solver.teams import TEAMS

Array = np.ndarray
COLLAPSED = 0.9  # weight of a single view from which a warning is issued


class MultiviewClusterer(
    Stored, ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClusterMixin, BaseEstimator
):
    """Base class of the estimators: `transform` returns memberships, `predict` the largest of them."""

    n_clusters: int
    view_names_: list[str]
    labels_: Array
    memberships_: Array

    def _check_views(self, X: Any, *, allow_nan: bool = False) -> Views:
        """Check the views to fit, and store their names and features."""
        X = self._loaded(X)
        views = Views(X, allow_nan=allow_nan)
        if _is_one_matrix(X):
            validate_data(self, X, reset=True, skip_check_array=True)
        else:
            self.n_features_in_ = views.shape[1]
            self.__dict__.pop("feature_names_in_", None)
            _warn_of_split(X)
        check_trainable(views, self.n_clusters)
        check_start(getattr(self, "init", None), views.ids)
        self.view_names_ = views.names
        self.view_features_ = views.feature_names
        return views

    def check_parameters(self) -> None:
        """Raise a ValueError if a parameter is invalid."""
        constraints = dict(self._parameter_constraints)
        if "backend" in constraints:  # backends may have been registered since the class was made
            constraints["backend"] = [StrOptions({"auto", *TEAMS})]
        name = type(self).__name__
        validate_parameter_constraints(constraints, self.get_params(deep=False), caller_name=name)

    def check_input(self, X: Any) -> None:
        """Raise the errors that `fit` would raise for parameters or views, without fitting."""
        other = clone(self)
        other.check_parameters()
        other._check_views(X)

    def _check_new_views(self, X: Any) -> Views:
        """Check new samples and align them with the fitted views."""
        check_is_fitted(self)
        X = self._loaded(X, self.view_names_)
        checked = _is_one_matrix(X) and self.view_names_ == ["view0"]  # also fitted on one matrix
        if checked:
            views = Views(X)
            validate_data(self, X, reset=False, skip_check_array=True)
            X = views
        return align(X, self.view_names_, self.view_features_, names_checked=checked)

    def _check_head(self, blocks: Blocks, X: Any) -> None:
        """Check the first row of one long matrix as scikit-learn checks an entire short one."""
        if _is_one_matrix(X) and not is_remote(X):
            self._check_new_views(blocks.parts(0, 1)[0])

    @staticmethod
    def _loaded(X: Any, names: list[str] | None = None) -> Any:
        """Data in memory; a single table as a frame or an array."""
        X = loaded(X, names)
        return as_table(X) if _is_one_matrix(X) else X

    def aligned(self, X: Any) -> Views:
        """New samples as the views of the fit: checked, in the same order, including missing views."""
        return self._check_new_views(X)

    def transform(self, X: Any) -> Array:
        """Memberships of samples (n x k); rows sum to one. Views may be missing."""
        raise NotImplementedError

    def predict(self, X: Any) -> Array:
        """Predict the cluster of each sample from the views it has.

        Parameters
        ----------
        X : dict, list, Views or array
            New samples. Views may be missing: left out of a dict, None in a list, or rows of NaN.

        Returns
        -------
        (n,) array of int
            Index of the cluster of each sample.
        """
        return np.asarray(np.argmax(_values(self.transform(X)), axis=1))

    def _position(self, view: str | int) -> int:
        """Position of a view given by name or position."""
        return view_position(view, self.view_names_)

    @property
    def _n_features_out(self) -> int:
        return self.n_clusters

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def _is_one_matrix(X: Any) -> bool:
    return not isinstance(X, Views) and not is_multiview(X)


def _warn_of_split(X: Any) -> None:
    """Warn about a list that scikit-learn has probably split by views."""
    if isinstance(X, (list, tuple)) and len(X) == 1:
        warn_user(f"X is a list of one view. {SPLIT_BY_VIEWS}")


def as_memberships(G_star: Array) -> Array:
    """``G_star`` (k x n) as n x k with rows that sum to one; rows of zeros become uniform."""
    U = np.array(G_star.T, dtype=np.float64, order="C")
    sums = U.sum(axis=1, keepdims=True)
    if not (sums > 0.0).all():
        U[~(sums[:, 0] > 0.0)] = 1.0
        sums = U.sum(axis=1, keepdims=True)
    U /= sums
    return U


def nonnegative_per_view(value: Any, names: list[str], what: str) -> Array:
    """Values of a parameter for each view, which must be non-negative."""
    try:
        values = np.array(per_view(value, names, what), dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"{what} must be a number, or one number per view: {error}") from error
    if not (np.isfinite(values).all() and (values >= 0.0).all()):
        raise InputError(f"{what} must be non-negative and finite, got {value!r}.")
    return values


def given_start(init: Any, n: int, n_clusters: int) -> Array:
    """Check initial memberships (n x k) and return them as k x n."""
    U = np.array(as_table(init), dtype=np.float64)
    if U.shape != (n, n_clusters):
        raise InputError(f"init has shape {U.shape}, expected (n_samples, n_clusters) = {(n, n_clusters)}.")
    if not np.isfinite(U).all() or (U < 0.0).any():
        raise InputError("init must be finite and non-negative.")
    return np.ascontiguousarray(U.T)


def check_start(init: Any, ids: Any) -> None:
    """Raise an error if the index of initial memberships is not that of the samples."""
    index = row_index(init)
    if index is not None:
        _, orders = match_rows({"the samples": ids, "init": index}, SELECT)
        if orders["init"] is not None:
            raise InputError(f"init has the ids of the samples in another order. {SELECT}")


def scattered(rows: Any, G: Array, n: int) -> Array:
    """Memberships of a view (k x n_a) as n x k; NaN for samples without the view."""
    U = np.full((n, G.shape[0]), np.nan, dtype=G.dtype)
    U[rows] = as_memberships(G)
    return U


def warn_if_unfinished(model: Any, remedy: str) -> None:
    """Warn if the fit did not converge, or if clusters are empty."""
    if not model.converged_:
        warn_user(
            f"The fit did not converge in {model.n_iter_} iterations; increase max_iter or tol.",
            ConvergenceWarning,
        )
    empty = model.n_clusters - len(np.unique(model.labels_))
    if empty:
        warn_user(f"{empty} of {model.n_clusters} clusters have no samples; {remedy}.", ConvergenceWarning)


def warn_if_apart(model: Any) -> None:
    """Warn if no sample links some views to the others, so that their clusters cannot be matched."""
    present = np.column_stack([~np.isnan(U[:, 0]) for U in model.view_memberships_])
    groups = components(present)
    if groups.any():
        parts = [np.flatnonzero(groups == g) for g in np.unique(groups)]
        found = "; ".join(listed([model.view_names_[a] for a in part]) for part in parts)
        warn_user(
            f"The views form {len(parts)} groups without common samples: {found}. Clusters of one "
            "group cannot be matched with those of another: fit the groups separately, or add samples that "
            "have views of several groups."
        )


def warn_if_collapsed(model: Any, meaning: str) -> None:
    """Warn if one view has almost all the weight."""
    heaviest = int(np.argmax(model.view_weights_))
    weight = model.view_weights_[heaviest]
    if len(model.view_weights_) > 1 and weight > COLLAPSED and model.gamma > 1.0:
        warn_user(
            f"View {model.view_names_[heaviest]!r} has {weight:.0%} of the weight: the clusters depend "
            f"almost only on it. {meaning}"
        )


def _values(memberships: Any) -> Array:
    return np.asarray(memberships)  # a DataFrame after set_output
