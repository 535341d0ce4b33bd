"""Interface of kernels and the context they are fitted in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from viewloom.kernels.geometry import CrossGeometry
from viewloom.kernels.shared_graph import SharedGraph, SharedRows


@dataclass(frozen=True)
class Context:
    """Information that a kernel may use in addition to its view."""

    normalize: bool = True  # scale to unit diagonal
    n_clusters: int = 2
    shared_graph: SharedGraph | None = None
    view: int = 0  # position of the view in the shared graph


PLAIN = Context()


class FittedKernel(Protocol):
    """A kernel fitted to training samples."""

    @property
    def operator(self) -> Any:
        """Gram matrix of the training samples; None in a loaded model that does not need it."""

    def place(self, cross: CrossGeometry, shared_graph: SharedRows | None = None) -> Any:
        """Operator between new samples and training samples."""
