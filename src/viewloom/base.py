"""What every viewloom estimator shares: checking views, labels and prediction."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    ClusterMixin,
    TransformerMixin,
)
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, validate_data

from viewloom.views import Views, align, check_trainable, is_multiview

Array = np.ndarray


class MultiviewClusterer(ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClusterMixin, BaseEstimator):
    """Base of the estimators: `transform` gives memberships, `predict` the largest of them."""

    n_clusters: int
    view_names_: list[str]
    labels_: Array
    memberships_: Array

    def _check_views(self, X: Any, *, allow_nan: bool = False) -> Views:
        """Views to be fitted, checked; remembers names and features."""
        views = Views(X, allow_nan=allow_nan)
        if not isinstance(X, Views) and not is_multiview(X):
            validate_data(self, X, reset=True, skip_check_array=True)
        else:
            self.n_features_in_ = views.shape[1]
            self.__dict__.pop("feature_names_in_", None)
        check_trainable(views, self.n_clusters)
        self.view_names_ = views.names
        self.view_features_ = views.feature_names
        return views

    def _check_new_views(self, X: Any) -> Views:
        """New samples, aligned with the fitted views."""
        check_is_fitted(self)
        if not isinstance(X, Views) and not is_multiview(X) and len(self.view_names_) == 1:
            views = Views(X, names=self.view_names_)
            validate_data(self, X, reset=False, skip_check_array=True)
            if len(views) == 0:
                raise ValueError("Found array with 0 sample(s); at least 1 is needed.")
            return views
        return align(X, self.view_names_, self.view_features_)

    def transform(self, X: Any) -> Array:
        """Memberships of samples (n x k), rows sum to one. Absent views are allowed."""
        raise NotImplementedError

    def predict(self, X: Any) -> Array:
        """Cluster of each sample, from whatever views it has.

        Parameters
        ----------
        X : dict, list, Views or array
            New samples. Views may be absent: left out of a dict, None in a list, or rows of NaN.
        """
        return np.asarray(np.argmax(_values(self.transform(X)), axis=1))

    def fit_predict(self, X: Any, y: Any = None, **params: Any) -> Array:
        """Fit, and the cluster of each training sample."""
        return self.fit(X).labels_  # type: ignore[attr-defined,no-any-return]

    @property
    def _n_features_out(self) -> int:
        return self.n_clusters

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def as_memberships(G_star: Array) -> Array:
    """``G_star`` (k x n) as n x k with rows that sum to one; a sample in no cluster is in all alike."""
    U = np.array(G_star.T, dtype=np.float64, order="C")
    total = U.sum(axis=1, keepdims=True)
    return np.where(total > 0.0, U / np.where(total > 0.0, total, 1.0), 1.0 / U.shape[1])


def _values(memberships: Any) -> Array:
    return np.asarray(memberships)  # set_output may have made it a DataFrame
