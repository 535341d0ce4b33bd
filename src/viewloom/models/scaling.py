"""Scalers of views, fitted on training samples and applied to new samples."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.preprocessing import StandardScaler

from viewloom.data.checks import per_view
from viewloom.data.mixed import MixedBlock
from viewloom.data.mixed_encoding import MixedEncoder
from viewloom.data.naming import MOST_NAMES, listed
from viewloom.data.views import Views
from viewloom.kernels.operators import Factored, dense, unit_rows
from viewloom.kernels.pairwise import Precomputed
from viewloom.runtime.errors import InputError
from viewloom.runtime.stored import Stored
from viewloom.runtime.user_warnings import warn_user
from viewloom.solver.updates import Rows

Array = np.ndarray
SCALES = ("auto", "standard", "centre", "unit")


class Columns(Stored, tag="scaler.columns", fields=("columns",)):
    """No scaling, with a selection of columns: those of observed samples in a Gram matrix."""

    def __init__(self, columns: Rows = slice(None)) -> None:
        self.columns = columns

    def transform(self, X: Any) -> Any:
        """Select the columns."""
        return X[:, self.columns]


class CentredGram(Columns, tag="scaler.gram", fields=("columns", "means")):
    """A Gram matrix centred at the mean of its training samples, as if features had been centred.

    ``k_c(x, y) = k(x, y) - m(x) - m(y) + mean(m)``, where ``m(x)`` is the mean of ``k(x, .)`` over training
    samples. Distances do not change.
    """

    def __init__(self, columns: Rows, means: Array) -> None:
        super().__init__(columns)
        self.means = means

    @classmethod
    def of(cls, K: Any, columns: Rows) -> CentredGram:
        """Fit the scaler to a Gram matrix of training samples."""
        K = Columns(columns).transform(K)
        square = K.shape[0] == K.shape[1]
        return cls(columns, dense(K).mean(axis=0) if square else np.zeros(K.shape[1]))

    def transform(self, X: Any) -> Any:
        """Centre rows."""
        X = super().transform(X)
        X = dense(X)
        return X - X.mean(axis=1, keepdims=True) - self.means + self.means.mean()


class Centred(Stored, tag="scaler.centred", fields=("mean",)):
    """Features with zero mean, in their own units."""

    def __init__(self, mean: Array) -> None:
        self.mean = mean

    def transform(self, X: Any) -> Any:
        """Subtract the means of training samples."""
        X = X.toarray() if sp.issparse(X) else X
        return X - self.mean.astype(X.dtype, copy=False)


class UnitRows(Stored, tag="scaler.unit", fields=("root",)):
    """Scale samples to unit length.

    With `root`, square roots are taken first, so that distances are Hellinger distances between
    compositions and a few frequent features do not dominate.
    """

    def __init__(self, root: bool = False) -> None:
        self.root = root

    def transform(self, X: Any) -> Any:
        """Scale samples; rows of zeros are unchanged."""
        return unit_rows(_roots(X) if self.root else X)


class Standard(Stored, StandardScaler, tag="scaler.standard"):
    """Scale features to zero mean and unit variance: a StandardScaler that can be stored."""

    PARAMETERS = ("with_mean", "with_std", "copy")
    LEARNED = ("mean_", "var_", "scale_", "n_samples_seen_", "n_features_in_")

    def state(self) -> dict[str, Any]:
        """Parameters and fitted attributes."""
        return {name: getattr(self, name) for name in (*self.PARAMETERS, *self.LEARNED)}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Standard:
        """Restore the fitted scaler."""
        made = cls(**{name: state[name] for name in cls.PARAMETERS})
        for name in cls.LEARNED:
            setattr(made, name, state[name])
        return made


def _roots(X: Any) -> Any:
    """Square roots; negative values of new samples count as zero."""
    if not sp.issparse(X):
        Y = np.maximum(X, 0.0)
        return np.sqrt(Y, out=Y if Y.dtype.kind == "f" else None)
    return sp.csr_array((np.sqrt(np.maximum(X.data, 0.0)), X.indices, X.indptr), shape=X.shape)


def fit_scaler(scale: str | None, X: Any) -> Any:
    """Fit the scaler of a view, applied before distances are computed.

    "standard" scales features to zero mean and unit variance, "centre" to zero mean (neither centres sparse
    views), "unit" scales samples to unit length. "auto" takes square roots and unit length for counts and
    frequencies (non-negative, over half zeros, over 100 features), and uses "standard" otherwise. Views with
    categorical columns are encoded by a `MixedEncoder`, whose numbers are standardised, or with "centre" keep
    their units.
    """
    if scale is not None and scale not in SCALES:
        raise InputError(f"scale must be one of {listed(SCALES)} or None, got {scale!r}.")
    if isinstance(X, MixedBlock):
        return _mixed_scaler(scale, X)
    if scale is None or (scale == "centre" and sp.issparse(X)):
        return Columns()
    if scale == "centre":
        return Centred(np.asarray(X.mean(axis=0, dtype=np.float64)))
    if scale == "unit" or (scale == "auto" and _looks_like_counts(X)):
        return UnitRows(root=scale == "auto")
    return Standard(with_mean=not sp.issparse(X)).fit(X)


def fit_scalers(views: Views, kernels: list[Any], scale: Any) -> list[Any]:
    """Fit the scaler of each view; `scale` may have one entry per view."""
    scales, rows = per_view(scale, views.names, "scale"), rows_of_views(views.present)
    return [
        _gram_scaler(one, X[where], where) if isinstance(kernel, Precomputed) else fit_scaler(one, X[where])
        for one, X, where, kernel in zip(scales, views.blocks, rows, kernels, strict=True)
    ]


def mixable(scalers: Iterable[Any]) -> bool:
    """Whether samples may be averaged to landmarks: not if any view contains counts or categories."""
    return not any(isinstance(scaler, (UnitRows, MixedEncoder)) for scaler in scalers)


def _mixed_scaler(scale: str | None, X: MixedBlock) -> MixedEncoder:
    if scale not in ("auto", "standard", "centre"):
        raise InputError(
            f"View {X.name!r} has categorical columns, which are encoded with scale='auto', 'standard' or "
            f"'centre', not {scale!r}."
        )
    return MixedEncoder.fit(X, standardise=scale != "centre")


def _gram_scaler(scale: str | None, K: Any, where: Rows) -> Columns:
    if isinstance(K, MixedBlock):
        raise InputError(f"View {K.name!r} has categorical columns: it is not a precomputed kernel.")
    return Columns(where) if scale is None else CentredGram.of(K, where)


def scale_block(scaler: Any, X: Any) -> Any:
    """``scaler.transform(X)``, without the checks of scikit-learn, which dominate the time of few rows."""
    if not (isinstance(scaler, StandardScaler) and scaler.with_mean):
        return scaler.transform(X)
    X = X.toarray() if sp.issparse(X) else X
    found = X - scaler.mean_.astype(X.dtype, copy=False)
    found /= scaler.scale_.astype(X.dtype, copy=False)
    return found


def _looks_like_counts(X: Any) -> bool:
    values = X.data if sp.issparse(X) else X
    if X.shape[1] <= 100 or values.min(initial=0.0) < 0.0:
        return False
    return int(np.count_nonzero(values)) < 0.5 * X.shape[0] * X.shape[1]


def informative_presence(views: Views, scalers: list[Any], least: int = 2) -> Array:
    """Mask of the views that each sample has (n x v), where a profile of zeros counts as missing.

    Such profiles are kept if the sample would have no view left, or the view fewer than `least` samples.
    """
    present = views.present.copy()
    for a, scaler in enumerate(scalers):
        if isinstance(scaler, UnitRows):
            full = present[:, a] & (Factored(views.blocks[a]).diagonal() > 0.0)
            present[:, a] = full if full.sum() >= least else present[:, a]
    lost = ~present.any(axis=1)
    present[lost] = views.present[lost]
    return present


def warn_of_unseen(views: Views, scalers: list[Any]) -> None:
    """Warn of levels that were not seen in the fit, with counts by column but without the levels."""
    counts: list[str] = []
    for a, (name, scaler) in enumerate(zip(views.names, scalers, strict=True)):
        rows = views.rows(a)
        if isinstance(scaler, MixedEncoder) and len(rows):
            unseen = scaler.unseen(views.blocks[a][rows])
            counts += [f"{count} in column {column!r} of view {name!r}" for column, count in unseen.items()]
    if counts:
        more = f" and {len(counts) - MOST_NAMES} more columns" if len(counts) > MOST_NAMES else ""
        warn_user(
            f"Some of {len(views)} samples have levels that were not seen in fit, which count as the mean of "
            f"the column: {', '.join(counts[:MOST_NAMES])}{more}."
        )


def rows_of_views(present: Array) -> list[Rows]:
    """Positions of the samples that have each view."""
    return [slice(None) if column.all() else np.flatnonzero(column) for column in present.T]
