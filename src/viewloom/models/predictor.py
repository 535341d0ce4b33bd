"""Many predictions of few samples: what does not depend on the samples is checked once."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from viewloom.data.matrix import LARGEST
from viewloom.models.problem import NewSamples
from viewloom.models.scaling import UnitRows, scale_block

if TYPE_CHECKING:
    from viewloom.models.fitted import FittedModel

Array = np.ndarray
EVERY = slice(None)  # all samples have the view


class Predictor:
    """Memberships and labels of new samples, as a fitted estimator computes them, with fewer checks.

    Returned by `KernelMultiviewNMF.predictor`. Samples with all views, given as a dict of two-dimensional
    arrays of float64 whose columns are those of the fit, in their order, take a short way. All others, such
    as data frames, missing views, or values that are not finite, are passed to the estimator, with its
    checks and errors. So is the first call, which warns if the features had names in the fit.

    Parameters
    ----------
    transform : callable
        `transform` of the fitted estimator.
    model : FittedModel
        Its fitted model.

    Examples
    --------
    >>> import viewloom as vl
    >>> views, _ = vl.simulate.blobs_views(60, random_state=0)
    >>> model = vl.KernelMultiviewNMF(3, random_state=0).fit(views)
    >>> predictor, arrays = model.predictor(), dict(views.items())
    >>> bool((predictor.predict(arrays) == model.predict(views)).all())
    True
    """

    def __init__(self, transform: Callable[[Any], Any], model: FittedModel) -> None:
        self._general, self._model = transform, model
        self._scalers = [view.scaler for view in model.problem.views]
        self._counts = [isinstance(scaler, UnitRows) for scaler in self._scalers]
        self._widths = {name: len(model.features[name]) for name in model.names}
        self._warned = False

    def predict(self, X: Any) -> Array:
        """Cluster of each sample."""
        return np.asarray(self.transform(X).argmax(axis=1))

    def transform(self, X: Any) -> Array:
        """Memberships of the samples (n x k); rows sum to one."""
        if self._warned and self._is_plain(X):
            return self._model.memberships(self._scaled(X))
        found = np.asarray(self._general(X))
        self._warned = True
        return found

    def _is_plain(self, X: Any) -> bool:
        """Whether X has all views, as arrays that need no other check."""
        if not isinstance(X, dict) or X.keys() != self._widths.keys():
            return False
        first = X[self._model.names[0]]
        n = len(first) if type(first) is np.ndarray and first.ndim else 0
        return (
            0 < n <= self._model.placed_rows
            and all(
                type(block) is np.ndarray
                and block.dtype == np.float64
                and block.shape == (n, self._widths[name])
                for name, block in X.items()
            )
            and self._can_be_placed(X)
        )

    def _can_be_placed(self, X: dict[str, Array]) -> bool:
        """Whether all values are finite and moderate, and no profile of counts is empty."""
        for name, counts in zip(self._model.names, self._counts, strict=True):
            block = X[name]
            if not np.vdot(block, block) <= LARGEST**2:  # False for NaN
                return False
            if counts and not block.any(axis=1).all():
                return False
        return True

    def _scaled(self, X: dict[str, Array]) -> NewSamples:
        named = enumerate(zip(self._model.names, self._scalers, strict=True))
        scaled = {a: scale_block(scaler, X[name]) for a, (name, scaler) in named}
        return NewSamples(scaled, dict.fromkeys(scaled, EVERY), len(scaled[0]))
