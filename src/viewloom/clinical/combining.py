"""Combination of the p-values of one hypothesis from several random splits of the data."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray
NEAR_ONE = 0.99  # larger p-values count as this one, since those of 1 would outweigh all others


def cauchy_combination(p: Any, axis: int = 0) -> Array:
    """Combine dependent p-values of one hypothesis: the Cauchy combination test (Liu and Xie 2020).

    Each p is turned into ``tan((1/2 - p) pi)``, which follows a Cauchy distribution under the null
    hypothesis. The mean of Cauchy variables has the same distribution if they are independent or equal, and
    nearly so in the tail for correlations in between, where up to 6 % instead of 5 % are rejected. Splits of
    the same data give correlated p-values; twice their median would be valid as well, but rejects a true null
    hypothesis far too rarely.

    Parameters
    ----------
    p : array
        Missing values are ignored.
    axis : int, default=0

    Returns
    -------
    array
        NaN where all are missing.

    Examples
    --------
    >>> [round(float(cauchy_combination(p)), 3) for p in ([0.02, 0.02, 0.02], [0.02, 0.9])]
    [0.02, 0.049]
    """
    values = np.moveaxis(np.clip(np.asarray(p, dtype=float), 1e-15, NEAR_ONE), axis, 0)
    known = np.isfinite(values)
    scores = np.where(known, np.tan((0.5 - np.where(known, values, 0.5)) * np.pi), 0.0)
    count = known.sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = scores.sum(axis=0) / count
    return np.asarray(np.where(count > 0, 0.5 - np.arctan(mean) / np.pi, np.nan))
