"""What a method is shown: the same preprocessing for all, in the form that it can take.

`raw`
    The views as they are, for viewloom, which scales them itself.
`scaled`
    Sparse non-negative views (more than half zeros, more than 100 features) with unit rows, all else
    standardised. Of a Gram matrix: features whose products are the kernel with unit diagonal.
`nonnegative`
    Sparse views as above, all else between 0 and 1. Of a Gram matrix: the kernel with unit diagonal.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import MinMaxScaler, StandardScaler

Array = np.ndarray
Form = Literal["raw", "scaled", "nonnegative"]


@dataclass(frozen=True)
class Offer:
    """Views in the form that a method takes, and whether they are Gram matrices."""

    views: list[Array]
    is_kernel: bool = False


def prepare(views: list[Array], form: Form, is_kernel: bool, impute: bool) -> Offer:
    """Views in a given form; absent rows get the mean of each feature where `impute` is set."""
    if is_kernel and form != "raw":
        offered = [_of_kernel(K, form) for K in views]
    else:
        offered = [_of_features(X, form) for X in views]
    if impute:
        offered = [_imputed(X) for X in offered]
    return Offer(offered, is_kernel and form == "raw")


def looks_sparse(X: Array) -> bool:
    """Counts or frequencies: non-negative, more than half zeros, more than 100 features."""
    seen = X[~np.isnan(X).any(axis=1)]
    return X.shape[1] > 100 and bool(seen.min() >= 0.0) and float(np.mean(seen == 0.0)) > 0.5


def _of_features(X: Array, form: Form) -> Array:
    if form == "raw":
        return X
    if looks_sparse(X):
        return X / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-12)
    scaler = StandardScaler() if form == "scaled" else MinMaxScaler(clip=True)
    return scaler.fit_transform(X)


def _of_kernel(K: Array, form: Form) -> Array:
    norms = np.sqrt(np.maximum(np.diagonal(K), 1e-12))
    K = (K + K.T) / 2.0 / norms[:, None] / norms
    if form == "nonnegative":
        return K - min(float(K.min()), 0.0)
    values, vectors = np.linalg.eigh(K)
    kept = values > 1e-10 * values[-1]
    return vectors[:, kept] * np.sqrt(values[kept])


def _imputed(X: Array) -> Array:
    return SimpleImputer(keep_empty_features=True).fit_transform(X) if np.isnan(X).any() else X
