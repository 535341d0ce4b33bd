"""Squared correlations of variants, over the subjects that have a call of both."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from viewloom.study.readers.genotypes.sources import complete

Array = np.ndarray
LEAST = 1e-9  # share of the sum of squares that is variance, not rounding


@dataclass(frozen=True, eq=False)
class Strip:
    """Some variants (b, n), ready for products.

    Attributes
    ----------
    x : (b, n) array
        Counts, or centred dosages; 0 where there is no call. Products of counts are integers, and their sums
        are exact.
    known : (b, n) array or None
        1 where there is a call, else 0; None if all are there.
    """

    x: Array
    known: Array | None

    @classmethod
    def of(cls, values: Array) -> Strip:
        """A strip of calls (int8, -1 where there is none) or dosages (float32, NaN)."""
        every = complete(values)
        if values.dtype != np.int8:
            return _of_dosages(values, every)
        kind = np.float32 if 4 * values.shape[1] < 2**24 else np.float64  # single has integers up to 2^24
        if every:
            return cls(values.astype(kind), None)
        return cls(np.maximum(values, 0).astype(kind), (values >= 0).astype(kind))

    @cached_property
    def sums(self) -> tuple[Array, Array]:
        """Sums of x and of x^2 over all subjects."""
        ones = np.ones(self.x.shape[1], dtype=self.x.dtype)
        return self.x @ ones, np.vecdot(self.x, self.x)


def _of_dosages(values: Array, every: bool) -> Strip:
    if every:
        return Strip(values - values.mean(axis=1, keepdims=True), None)
    known = ~np.isnan(values)
    mean = np.nansum(values, axis=1, dtype=np.float64) / np.maximum(known.sum(axis=1), 1)
    return Strip(np.where(known, values - mean[:, None], 0.0), known.astype(np.float64))


def squared_correlations(X: Strip, Y: Strip) -> Array:
    """Squared correlations of the variants of X and of Y; 0 where one is constant.

    >>> X, Y = np.array([[0, 1, 2]], dtype=np.int8), np.array([[0, 1, 1], [2, 2, 2]], dtype=np.int8)
    >>> squared_correlations(Strip.of(X), Strip.of(Y))
    array([[0.75, 0.  ]])
    """
    n, sx, sy, sxx, syy, sxy = (found.astype(np.float64) for found in _sums(X, Y))
    cross, vx, vy = n * sxy - sx * sy, n * sxx - sx**2, n * syy - sy**2
    vary = (vx > LEAST * n * sxx) & (vy > LEAST * n * syy)
    return np.asarray(np.divide(cross**2, vx * vy, out=np.zeros_like(cross), where=vary))


def _sums(X: Strip, Y: Strip) -> tuple[Array, ...]:
    """Number of subjects that have both, and sums of x, y, x^2, y^2 and xy over them, by pair of variants."""
    x, y = X.x, Y.x
    if X.known is None and Y.known is None:
        (sx, sxx), (sy, syy) = X.sums, Y.sums
        return np.array(x.shape[1]), sx[:, None], sy, sxx[:, None], syy, x @ y.T
    kx = np.ones_like(x) if X.known is None else X.known
    ky = np.ones_like(y) if Y.known is None else Y.known
    return kx @ ky.T, x @ ky.T, kx @ y.T, x**2 @ ky.T, kx @ (y**2).T, x @ y.T
