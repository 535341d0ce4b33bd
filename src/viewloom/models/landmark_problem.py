"""Problems by landmarks, whose cost grows linearly with the number of samples.

A few thousand landmarks represent the cohort (`viewloom.models.landmark_views`). The exact problem
of the landmarks is built and solved. Every sample is then tied to its nearest landmarks in each view, which
gives it a row of the factor ``Z`` of each kernel and of the anchor graph ``W = B B^T``. The problem of all
samples is then solved in independent blocks of rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from viewloom.data.alignment import align
from viewloom.data.views import Views
from viewloom.kernels.geometry import CrossGeometry
from viewloom.kernels.graphs import Laplacian
from viewloom.kernels.operators import Factored, Moments, scaled
from viewloom.kernels.ties import PackedTies, packed
from viewloom.models.problem import FittedView, NewSamples, Problem
from viewloom.runtime.memory import return_freed_memory
from viewloom.solver.shard import Shard, ViewBlock, ViewMessage
from viewloom.solver.updates import Rows

Array = np.ndarray
ShardMemberships = tuple[Array, list[tuple[Rows, Array]]]  # G_star, and rows and G of each view
LANDMARKS = 2_000
START_ROUNDS, START_STEPS = 5, 10  # updates from uniform memberships to those of the landmarks' model


@dataclass(frozen=True, eq=False)
class Builder:
    """Makes a shard of a block of rows, in this process or on a worker."""

    landmarks: Problem
    codebooks: list[ViewMessage]  # of the solution of the landmarks
    names: list[str]
    features: dict[str, Array]
    project: Callable[[Array], Array]
    rho: float

    def __call__(self, views: Views) -> Shard:
        """The rows of a block, tied to the landmarks, with memberships predicted by their model."""
        samples = self.landmarks.new_samples(align(views, self.names, self.features))
        shard = tied(self.landmarks, samples, self.project, self.rho)
        pack(shard)
        k, dtype = self.codebooks[0].A.shape[0], shard.blocks[0].kernel.Z.dtype
        shard.start(np.full((k, samples.n), 1.0 / k, dtype=dtype))
        seen = replace(shard, blocks=[replace(shard.blocks[a], laplacian=None) for a in samples.rows])
        message = [replace(self.codebooks[a], neighbours=None) for a in samples.rows]
        for _ in range(START_ROUNDS):
            seen.move(message, START_STEPS)
        shard.start(seen.G_star)
        return_freed_memory()  # of distances to landmarks, in between what is kept
        return shard


def tied(
    landmarks: Problem,
    samples: NewSamples,
    project: Callable[[Array], Array],
    rho: float,
    *,
    fuse: bool = True,
) -> Shard:
    """Samples as a shard of all views: factors of their kernels, and their ties to landmarks.

    `fuse` ties them along the concatenated features, too.
    """
    blocks, dtype = tied_views(landmarks, samples, fuse=fuse), _precision(samples)
    every = [blocks.get(a) or _empty_block(view, dtype) for a, view in enumerate(landmarks.views)]
    return Shard(every, project, rho)


def tied_views(landmarks: Problem, samples: NewSamples, *, fuse: bool = True) -> dict[int, ViewBlock]:
    """The views that samples have, by their positions: see `tied`."""
    new, graph = samples.cross([view.geometry for view in landmarks.views]), landmarks.shared_graph
    shared_graph = None if graph is None else graph.cross(*new, fuse=fuse)
    dtype, found = _precision(samples), {}
    for a, rows in samples.rows.items():
        view, cross = landmarks.views[a], new.crosses[a]
        operator = view.kernel.place(cross, shared_graph).astype(dtype)
        found[a] = ViewBlock(operator, _ties(view, cross, dtype), rows)
    return found


def _precision(samples: NewSamples) -> Any:
    return np.result_type(*(X.dtype for X in samples.scaled.values()), np.float32)


def _ties(view: FittedView, cross: CrossGeometry, dtype: Any) -> Laplacian | None:
    if view.graph is None:
        return None
    B = view.graph.ties(cross).astype(dtype)
    return Laplacian(Factored(B), np.broadcast_to(B.dtype.type(1.0), cross.size), 1.0)


def _empty_block(view: FittedView, dtype: Any) -> ViewBlock:
    """An empty block of a view that no sample has."""
    nothing = np.arange(0)
    m, width = view.geometry.size, _width(view.kernel.operator)
    laplacian = None
    if view.graph is not None:
        laplacian = Laplacian(Factored(sp.csr_array((0, m), dtype=dtype)), np.ones(0, dtype=dtype), 1.0)
    return ViewBlock(Factored(np.zeros((0, width), dtype=dtype)), laplacian, nothing)


def _width(operator: Any) -> int:
    return int(operator.Z.shape[1])


def pack(shard: Shard) -> None:
    """Store the ties of samples in single precision in half of their memory."""
    for block in shard.blocks:
        if block.laplacian is not None:
            block.laplacian = replace(block.laplacian, adjacency=packed(block.laplacian.adjacency))


def tie_sums(shard: Shard) -> list[Array]:
    """Sums of the ties of samples to each landmark, for every view that has a graph."""
    return [
        np.zeros(0)
        if b.laplacian is None
        else np.asarray(b.laplacian.adjacency.Z.sum(axis=0, dtype=np.float64))
        for b in shard.blocks
    ]


def root_scales(sums: Sequence[Array]) -> list[Array | None]:
    """``Lambda^-1/2``; zero for landmarks without ties."""
    return [None if not len(s) else np.where(s > 0.0, s, np.inf) ** -0.5 for s in sums]


def rescale(shard: Shard, scales: Sequence[Array | None]) -> None:
    """Scale ties ``B`` to ``B Lambda^-1/2``."""
    for block, scale in zip(shard.blocks, scales, strict=True):
        if block.laplacian is not None and scale is not None:
            block.laplacian = replace(block.laplacian, adjacency=_rescaled(block.laplacian.adjacency, scale))


def _rescaled(ties: Factored | PackedTies, scale: Array) -> Factored | PackedTies:
    if isinstance(ties, PackedTies):
        return ties.rescaled(scale)
    B = ties.Z
    return Factored(scaled(B, np.ones(B.shape[0], dtype=B.dtype), scale.astype(B.dtype)))


def rescaled_moments(shard: Shard, scales: Sequence[Array | None]) -> list[Moments]:
    """Scale the ties by `rescale`; return the moments of the kernels."""
    rescale(shard, scales)
    return [block.kernel.moments() for block in shard.blocks]


def restart(shard: Shard, start: Array) -> None:
    """Initialise a shard with given memberships of its samples."""
    shard.start(np.ascontiguousarray(start, dtype=shard.G_star.dtype))


def memberships(shard: Shard) -> ShardMemberships:
    """``G_star`` of a shard, and the rows and ``G`` of each view."""
    return shard.G_star, [(block.rows, block.G) for block in shard.blocks]
