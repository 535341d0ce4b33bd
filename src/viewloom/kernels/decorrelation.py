"""Decorrelated features: what many features share does not count many times in a distance."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

Array = np.ndarray
LARGEST = 1000  # number of features up to which they are decorrelated
SAMPLES = 2  # least number of samples per feature: with fewer, the covariance is mostly an artefact


def shrinkage(X: Array, gram: Array) -> float:
    """Share of the identity in the covariance of centred features, by Ledoit and Wolf (2004).

    `gram` is ``X^T X``.

    Examples
    --------
    >>> from sklearn.covariance import ledoit_wolf_shrinkage
    >>> X = np.random.default_rng(0).standard_normal((40, 9))
    >>> X -= X.mean(axis=0)
    >>> bool(np.isclose(shrinkage(X, X.T @ X), ledoit_wolf_shrinkage(X, assume_centered=True)))
    True
    """
    n, d = X.shape
    mean, square = float(np.trace(gram)) / (n * d), float((gram * gram).sum()) / n**2
    fourth = float((np.einsum("ij,ij->i", X, X) ** 2).sum()) / n
    distance = square - d * mean**2
    return min(max((fourth - square) / n, 0.0), distance) / distance if distance > 0.0 else 0.0


def decorrelation(X: Array) -> Array | None:
    """Map (d x d) from centred features to coordinates in which no direction has more than the mean variance.

    With ``S`` the covariance, ``C = (1 - s) S + s m I = V diag(l) V^T``, ``m`` the mean of ``diag(S)`` and
    ``s`` of `shrinkage`, the map is ``V diag(min(1, sqrt(m / l))) V^T``. Directions with less variance stay
    as they are: Mahalanobis distances would magnify their noise, and what is left of a component that was
    removed, such as severity. None for features that do not vary, for more than `LARGEST` features and for
    fewer than `SAMPLES` samples per feature.
    """
    n, d = X.shape
    if d > LARGEST or n < SAMPLES * d or not X.any():
        return None
    gram = X.T @ X
    s, mean = shrinkage(X, gram), float(np.trace(gram)) / (n * d)
    values, V = np.linalg.eigh((1.0 - s) / n * gram + s * mean * np.eye(d))
    return np.asarray((V * np.sqrt(mean / np.maximum(values, mean))) @ V.T)


def can_be_decorrelated(X: object) -> bool:
    """Whether a view has features in units: neither sparse, nor profiles, which are nowhere negative."""
    return not sp.issparse(X) and bool(np.asarray(X).min(initial=0.0) < 0.0)
