"""Problems whose cost grows with the number of samples, not with its square.

A few thousand landmarks stand for the cohort (`viewloom.data.landmarks.landmark_views`): on them the exact
problem is built and solved. Every sample is then tied to the landmarks that are nearest to it in
each view, which gives it a row of each kernel's factor ``Z`` and of the anchor graph ``W = B B^T``.
From there on all samples take part, in blocks of rows that know nothing of each other.
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
from viewloom.models.problem import FittedView, NewSamples, Problem
from viewloom.solver.shard import Shard, ViewBlock, ViewMessage
from viewloom.solver.updates import Rows

Array = np.ndarray
Found = tuple[Array, list[tuple[Rows, Array]]]  # G_star, and per view who has it and G
LANDMARKS = 2_000
START_ROUNDS, START_STEPS = 5, 10  # from all clusters alike to where the landmarks' model puts a sample


@dataclass(frozen=True, eq=False)
class Builder:
    """What makes a shard of a block of rows, wherever that may be."""

    landmarks: Problem
    codebooks: list[ViewMessage]  # of the landmarks' own solution
    names: list[str]
    features: dict[str, Array]
    project: Callable[[Array], Array]
    rho: float

    def __call__(self, views: Views) -> Shard:
        """The rows of a block, tied to the landmarks, with memberships where the landmarks put them."""
        samples = self.landmarks.new_samples(align(views, self.names, self.features))
        shard = tied(self.landmarks, samples, self.project, self.rho)
        k, dtype = self.codebooks[0].A.shape[0], shard.blocks[0].kernel.Z.dtype
        shard.start(np.full((k, samples.n), 1.0 / k, dtype=dtype))
        seen = replace(shard, blocks=[replace(shard.blocks[a], laplacian=None) for a in samples.rows])
        message = [replace(self.codebooks[a], neighbours=None) for a in samples.rows]
        for _ in range(START_ROUNDS):
            seen.move(message, START_STEPS)
        shard.start(seen.G_star)
        return shard


def tied(landmarks: Problem, samples: NewSamples, project: Callable[[Array], Array], rho: float) -> Shard:
    """Samples as a shard of all views: factors of their kernels, and their ties to landmarks."""
    crosses = {a: landmarks.views[a].geometry.to(X) for a, X in samples.scaled.items()}
    positions = {a: np.arange(samples.n)[where] for a, where in samples.rows.items()}
    shared_graph = (
        None
        if landmarks.shared_graph is None
        else landmarks.shared_graph.cross(crosses, positions, samples.n, fuse=False)
    )
    dtype = np.result_type(*(X.dtype for X in samples.scaled.values()), np.float32)
    blocks = []
    for a, view in enumerate(landmarks.views):
        if a in crosses:
            operator = view.kernel.place(crosses[a], shared_graph).astype(dtype)
            blocks.append(ViewBlock(operator, _ties(view, crosses[a], dtype), samples.rows[a]))
        else:
            blocks.append(_nobody(view, dtype))
    return Shard(blocks, project, rho)


def _ties(view: FittedView, cross: CrossGeometry, dtype: Any) -> Laplacian | None:
    if view.graph is None:
        return None
    B = view.graph.ties(cross).astype(dtype)
    return Laplacian(Factored(B), np.ones(cross.size, dtype=dtype), 1.0)


def _nobody(view: FittedView, dtype: Any) -> ViewBlock:
    """A view that no sample of a block has."""
    nothing = np.arange(0)
    m, width = view.geometry.size, _width(view.kernel.operator)
    laplacian = None
    if view.graph is not None:
        laplacian = Laplacian(Factored(sp.csr_array((0, m), dtype=dtype)), np.ones(0, dtype=dtype), 1.0)
    return ViewBlock(Factored(np.zeros((0, width), dtype=dtype)), laplacian, nothing)


def _width(operator: Any) -> int:
    return int(operator.Z.shape[1])


def tie_sums(shard: Shard) -> list[Array]:
    """Sum of the samples' ties to each landmark, for every view that has a graph."""
    return [
        np.zeros(0)
        if b.laplacian is None
        else np.asarray(b.laplacian.adjacency.Z.sum(axis=0, dtype=np.float64))
        for b in shard.blocks
    ]


def root_scales(sums: Sequence[Array]) -> list[Array | None]:
    """``Lambda^-1/2``; a landmark that nobody is tied to has no say."""
    return [None if not len(s) else np.where(s > 0.0, s, np.inf) ** -0.5 for s in sums]


def rescale(shard: Shard, scales: Sequence[Array | None]) -> None:
    """Turn ties ``B`` into ``B Lambda^-1/2``, once the sums of all are known."""
    for block, scale in zip(shard.blocks, scales, strict=True):
        if block.laplacian is not None and scale is not None:
            B = block.laplacian.adjacency.Z
            weighted = scaled(B, np.ones(B.shape[0], dtype=B.dtype), scale.astype(B.dtype))
            block.laplacian = replace(block.laplacian, adjacency=Factored(weighted))


def rescaled_moments(shard: Shard, scales: Sequence[Array | None]) -> list[Moments]:
    """`rescale` the ties; moments of the kernels."""
    rescale(shard, scales)
    return [block.kernel.moments() for block in shard.blocks]


def restart(shard: Shard, start: Array) -> None:
    """Begin from given memberships of the shard's samples instead."""
    shard.start(np.ascontiguousarray(start, dtype=shard.G_star.dtype))


def memberships(shard: Shard) -> Found:
    """``G_star``, and per view who has it and ``G``."""
    return shard.G_star, [(block.rows, block.G) for block in shard.blocks]
