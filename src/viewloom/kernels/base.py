"""What every kernel offers, and what it is fitted with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from viewloom.kernels.geometry import CrossGeometry
from viewloom.kernels.shared_graph import SharedGraph, SharedRows


@dataclass(frozen=True)
class Context:
    """What a kernel may know besides its own view."""

    normalize: bool = True  # unit diagonal
    n_clusters: int = 2
    shared_graph: SharedGraph | None = None  # the graphs of all views together
    view: int = 0  # position of this view among them


PLAIN = Context()


class FittedKernel(Protocol):
    """A kernel that knows its training samples."""

    @property
    def operator(self) -> Any:
        """Gram matrix of the training samples; None in a loaded model that needs none."""

    def place(self, cross: CrossGeometry, shared_graph: SharedRows | None = None) -> Any:
        """Operator of new samples against the training samples."""
