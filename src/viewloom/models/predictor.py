"""Many predictions of few samples: what does not depend on the samples is checked once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from viewloom.data.alignment import unnamed_arrays
from viewloom.data.matrix import LARGEST
from viewloom.models.problem import NewSamples
from viewloom.models.scaling import UnitRows, scale_block

if TYPE_CHECKING:
    from viewloom.models.fitted import FittedModel

Array = np.ndarray
EVERY = slice(None)  # all samples have the view


@dataclass(frozen=True, eq=False)
class PlainRows:
    """Which new samples need no other check, those with all views as a dict of arrays, and their scalers.

    Attributes
    ----------
    views : list of tuple
        Name, number of columns and scaler of each view, and whether it contains counts.
    most : int
        Number of samples up to which they are placed together.
    named : list of str
        Views whose features had names in the fit, which arrays lack, so that a warning is due.
    """

    views: list[tuple[str, int, Any, bool]]
    most: int
    named: list[str]

    @classmethod
    def of(cls, model: FittedModel) -> PlainRows:
        """Those of a model."""
        scalers = [view.scaler for view in model.problem.views]
        views = [
            (name, len(model.features[name]), scaler, isinstance(scaler, UnitRows))
            for name, scaler in zip(model.names, scalers, strict=True)
        ]
        return cls(views, model.placed_rows, unnamed_arrays(model.features))

    def scaled(self, X: Any) -> NewSamples | None:
        """The samples, scaled; None if they need other checks."""
        if not isinstance(X, dict) or len(X) != len(self.views):
            return None
        first = X.get(self.views[0][0])
        n = len(first) if type(first) is np.ndarray and first.ndim else 0
        if not 0 < n <= self.most or not all(
            _is_plain(X.get(name), (n, width), counts) for name, width, _, counts in self.views
        ):
            return None
        scaled = {a: scale_block(scaler, X[name]) for a, (name, _, scaler, _) in enumerate(self.views)}
        return NewSamples(scaled, dict.fromkeys(scaled, EVERY), n)


def _is_plain(block: Any, shape: tuple[int, int], counts: bool) -> bool:
    """Whether a view is an array of finite and moderate values, without empty profiles of counts."""
    if not (type(block) is np.ndarray and block.dtype == np.float64 and block.shape == shape):
        return False
    if not np.vdot(block, block) <= LARGEST**2:  # also for NaN
        return False
    return not counts or bool(np.vecdot(block, block).all())


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
        self._general, self._model, self._warned = transform, model, False

    def predict(self, X: Any) -> Array:
        """Cluster of each sample."""
        return np.asarray(self.transform(X).argmax(axis=1))

    def transform(self, X: Any) -> Array:
        """Memberships of the samples (n x k); rows sum to one."""
        samples = self._model.plain(X, warn=False) if self._warned else None
        if samples is not None:
            return self._model.memberships(samples)
        found = np.asarray(self._general(X))
        self._warned = True
        return found
