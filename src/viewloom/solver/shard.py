"""Shards: blocks of samples with all their views, which receive small matrices and return small sums.

Everything that grows with the number of samples is held here. The loop only handles k x k and k x m
matrices (k x n for kernels that are stored entry by entry, which are never split), so the same code
runs on one shard or many.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np

from viewloom.kernels.graphs import Laplacian
from viewloom.kernels.operators import Projection
from viewloom.runtime.stored import Stored
from viewloom.runtime.threads import one_blas_thread
from viewloom.solver.updates import Memberships, Quadratic, Rows, column_dots, membership_gram, update_G

Array = np.ndarray


@dataclass(frozen=True)
class ViewMessage(
    Stored,
    tag="codebook",
    fields=("A", "C", "neighbours", "lam", "theta", "sigma", "weight"),
):
    """Matrices and constants of one view that every shard needs to update its memberships."""

    A: Array  # P^T K P, k x k
    C: Array  # lifts to P^T K, k x m
    neighbours: Array | None  # lifts to G W, k x m
    lam: float
    theta: float
    sigma: float  # sigma_max(L), or a bound
    weight: float  # beta^gamma / s

    def reordered(self, order: Array) -> ViewMessage:
        """The same view with cluster ``order[j]`` at position j."""
        neighbours = None if self.neighbours is None else self.neighbours[order]
        return replace(self, A=self.A[np.ix_(order, order)], C=self.C[order], neighbours=neighbours)


@dataclass(frozen=True)
class ViewSums:
    """Sums over the samples of one view; the sums of several shards can be added."""

    S: Array  # membership_gram(G, rho)
    kernel: Projection
    graph: Projection | None
    degrees: float  # tr(G D G^T)
    consensus: float  # ||G - G_star||^2
    fit: float  # tr(P^T K G^T)

    def __add__(self, other: ViewSums) -> ViewSums:
        graph = None if self.graph is None or other.graph is None else self.graph + other.graph
        return ViewSums(
            self.S + other.S,
            self.kernel + other.kernel,
            graph,
            self.degrees + other.degrees,
            self.consensus + other.consensus,
            self.fit + other.fit,
        )

    @property
    def smoothness(self) -> float:
        """``tr(G L G^T) = tr(G D G^T) - tr(G W G^T)``, never below zero."""
        if self.graph is None:
            return 0.0
        return max(self.degrees - float(np.trace(self.graph.quad)), 0.0)


@dataclass
class ViewBlock:
    """One view of the samples of a shard."""

    kernel: Any  # an Operator, or a Cross for new samples
    laplacian: Laplacian | None
    rows: Rows  # which samples of the shard have this view
    G: Array = field(default_factory=lambda: np.empty((0, 0)))


@dataclass
class Shard:
    """A block of samples: rows of their kernels and graphs, and memberships."""

    blocks: list[ViewBlock]
    project: Callable[[Array], Array]
    rho: float  # sharpness
    G_star: Array = field(default_factory=lambda: np.empty((0, 0)))

    def start(self, G_star: Array) -> None:
        """Initialise all views with the same memberships, so that clusters correspond between views.

        Memberships have the precision of the kernels.
        """
        G_star = G_star.astype(np.result_type(*(b.kernel.dtype for b in self.blocks), np.float32), copy=False)
        self.G_star = G_star
        for block in self.blocks:
            block.G = np.ascontiguousarray(G_star[:, block.rows])

    def move(self, message: list[ViewMessage], n_steps: int) -> list[Array]:
        """Update ``G`` and ``G_star`` at the given ``P`` and weights; return ``P^T K`` of every view."""
        PtK = [block.kernel.lift(m.C) for block, m in zip(self.blocks, message, strict=True)]
        quadratics = [
            _quadratic(block, ptk, m, self.rho)
            for block, ptk, m in zip(self.blocks, PtK, message, strict=True)
        ]
        now = Memberships([block.G for block in self.blocks], self.G_star)
        with one_blas_thread():  # k x k products are too small for several threads
            moved = update_G(now, quadratics, self.project, n_steps)
        self.G_star = moved.G_star
        for block, g in zip(self.blocks, moved.G, strict=True):
            block.G = g
        return PtK

    def step(self, message: list[ViewMessage], n_steps: int) -> list[ViewSums]:
        """Update the memberships by `move`, and return the sums at the new ones."""
        PtK = self.move(message, n_steps)
        return [
            self._sums(block, float(np.vdot(ptk, block.G)))
            for block, ptk in zip(self.blocks, PtK, strict=True)
        ]

    def sums(self) -> list[ViewSums]:
        """Sums at the current memberships, before the first ``P`` is known."""
        return [self._sums(block, 0.0) for block in self.blocks]

    def _sums(self, block: ViewBlock, fit: float) -> ViewSums:
        G, gap = block.G, block.G - self.G_star[:, block.rows]
        graph, degrees = None, 0.0
        if block.laplacian is not None:
            graph = block.laplacian.adjacency.project(G)
            degrees = float(column_dots(G, G) @ block.laplacian.degree)
        S = membership_gram(G, self.rho)
        kernel = block.kernel.project(G)
        return ViewSums(S, kernel, graph, degrees, float(np.vdot(gap, gap)), fit)


class Team(Protocol):
    """A collection of shards in one or several processes (see `viewloom.solver.teams`)."""

    @property
    def ranges(self) -> list[tuple[int, int]]:
        """First row of every shard, and one past its last."""

    def each(self, function: Callable[..., Any], *args: Any) -> list[Any]:
        """``function(shard, *args)`` for every shard, in the order of rows."""

    def deal(self, function: Callable[..., Any], parts: list[Any]) -> list[Any]:
        """``function(shard, part)`` for every shard and its part."""

    def total(self, function: Callable[..., list[Any]], *args: Any) -> list[Any]:
        """Lists, one entry per view, added up over shards."""


def _quadratic(block: ViewBlock, PtK: Array, m: ViewMessage, rho: float) -> Quadratic:
    # Python floats: numpy floats would promote single precision to double
    theta, sigma, lam, weight = map(float, (m.theta, m.sigma, m.lam, m.weight))
    # (1 - rho) g^T A g + rho diag(A)^T g: the quadratic form of a mixed reconstruction error
    A, B = (1.0 - rho) * m.A, PtK - (rho / 2.0 * np.diagonal(m.A)[:, None]).astype(PtK.dtype)
    if block.laplacian is None or m.neighbours is None:
        return Quadratic(A, B, 0.0, lam, weight, block.rows)
    smooth = (sigma - block.laplacian.degree) * block.G
    smooth += block.laplacian.adjacency.lift(m.neighbours)  # G (sigma I - L)
    smooth *= theta
    smooth += B
    return Quadratic(A, smooth, theta * sigma, lam, weight, block.rows)
