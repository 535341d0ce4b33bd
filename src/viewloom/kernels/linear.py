"""Kernels with a finite factor: linear and cosine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from viewloom.kernels.base import PLAIN, Context
from viewloom.kernels.geometry import CrossGeometry, Geometry
from viewloom.kernels.operators import Factored, unit_rows
from viewloom.kernels.shared_graph import SharedRows
from viewloom.runtime.stored import Stored, StoredParameters


class Linear(StoredParameters, tag="kernel.linear"):
    """``k(x, y) = <x, y>``, stored as the factor ``X``.

    Examples
    --------
    >>> import numpy as np
    >>> fitted = Linear().fit(Geometry(np.array([[3.0, 4.0], [0.0, 2.0]])))
    >>> fitted.operator.diagonal().round(6).tolist()
    [1.0, 1.0]
    """

    def fit(self, geometry: Geometry, context: Context = PLAIN) -> FittedLinear:
        """Kernel of the samples of a view."""
        return FittedLinear.of(geometry.X, context.normalize)


class Cosine(Linear, tag="kernel.cosine"):
    """``k(x, y) = <x, y> / (|x| |y|)``: linear with unit diagonal, also if ``normalize=False``.

    Examples
    --------
    >>> import numpy as np
    >>> fitted = Cosine().fit(Geometry(np.array([[3.0, 4.0], [0.0, 2.0]])), Context(normalize=False))
    >>> fitted.operator.diagonal().round(6).tolist()
    [1.0, 1.0]
    """

    def fit(self, geometry: Geometry, context: Context = PLAIN) -> FittedLinear:
        """Kernel of the samples of a view."""
        return FittedLinear.of(geometry.X, True)


@dataclass(frozen=True, eq=False)
class FittedLinear(Stored, tag="kernel.linear.fitted", fields=("normalize", "operator")):
    """``K = X X^T`` as a factor, optionally with rows of unit length."""

    normalize: bool
    operator: Factored

    @classmethod
    def of(cls, X: Any, normalize: bool) -> FittedLinear:
        """Compute the kernel of samples."""
        return cls(normalize, factored_rows(X, normalize))

    def place(self, cross: CrossGeometry, shared_graph: SharedRows | None = None) -> Factored:
        """Factor of new samples."""
        return factored_rows(cross.X, self.normalize)


def factored_rows(X: Any, normalize: bool) -> Factored:
    """Samples as a factor, optionally of unit length."""
    return Factored(unit_rows(X) if normalize else X)
