"""Diffusion kernel: similarity along the graph of a view and along the shared graph."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from viewloom.kernels.base import PLAIN, Context
from viewloom.kernels.geometry import CrossGeometry, Geometry
from viewloom.kernels.graphs import KNN, FittedKNN
from viewloom.kernels.operators import Factored
from viewloom.kernels.shared_graph import SharedRows, Walk, WalkShape
from viewloom.runtime.stored import Stored, StoredParameters

Array = np.ndarray


class Diffusion(StoredParameters, tag="kernel.diffusion"):
    """Diffusion along the neighbour graph of a view, combined with the shared graph of all views.

    With ``S`` the normalised neighbour graph of the view (`viewloom.kernels.graphs.KNN`) and ``M`` the
    shared graph (`viewloom.kernels.shared_graph.SharedGraph`),
    ``T = normalise((1 - share) S + share M)``. The top eigenpairs ``U, l`` of ``(T + I) / 2`` give
    the factor ``Z = U diag(l^(time / 2))``, with rows of unit length: samples are similar if random
    walks from them meet.

    Parameters
    ----------
    n_neighbors : int or "auto", default="auto"
        Number of neighbours in the graphs. "auto" uses half the mean cluster size, at least 5 and at
        most 20.
    time : float, default=12
        Length of the walk. It is prolonged if more than 1.5 directions per cluster would remain, as
        happens with long, thin clusters.
    rank : int, optional
        Number of eigenpairs. If None, three times the number of clusters.
    share : float, default=0.75
        Weight of the shared graph; 0 uses the graph of the view alone.

    Notes
    -----
    Kernels of different views may have different parameters. The graph and the walk of each view then use
    its own parameters. The graph of the concatenated features and the features for the initialisation, which
    belong to all views, use the median of `n_neighbors` and `time` and the largest `rank`.

    Examples
    --------
    >>> import viewloom as vl
    >>> views, y = vl.simulate.rings(120, n_rings=3, noise=0.08, random_state=0)
    >>> few = vl.kernels.Diffusion(n_neighbors=8)
    >>> labels = vl.KernelMultiviewNMF(3, kernel=few, random_state=0).fit_predict(views)
    >>> vl.metrics.clustering_accuracy(y, labels)
    1.0
    """

    def __init__(
        self,
        n_neighbors: int | str = "auto",
        time: float = 12.0,
        rank: int | None = None,
        share: float = 0.75,
    ) -> None:
        self.n_neighbors = n_neighbors
        self.time = time
        self.rank = rank
        self.share = share

    def shape(self, n: int, n_clusters: int) -> WalkShape:
        """Parameters of the walk for n samples, with defaults filled in."""
        count = self.n_neighbors
        if isinstance(count, str):
            count = int(np.clip(round(n / (2 * n_clusters)), 5, 20))
        return WalkShape(count, self.rank or 3 * n_clusters, self.time, 1.5 * n_clusters)

    def fit(self, geometry: Geometry, context: Context = PLAIN) -> FittedDiffusion:
        """Compute the kernel of the samples of a view."""
        shape = self.shape(geometry.size, context.n_clusters)
        if context.shared_graph is None or self.share == 0.0:
            graph = KNN(shape.n_neighbors).fit(geometry)
            return FittedDiffusion(graph, shape.walk(graph.S))
        graph, M = context.shared_graph.graphs[context.view], context.shared_graph.within(context.view)
        walk = shape.walk((1.0 - self.share) * graph.S + self.share * M)
        return FittedDiffusion(graph, walk, self.share, context.view, context.shared_graph.rows[context.view])


@dataclass(frozen=True, eq=False)
class FittedDiffusion(
    Stored, tag="kernel.diffusion.fitted", fields=("graph", "walk", "share", "view", "columns")
):
    """Factor of the training samples, and the extension to new samples."""

    graph: FittedKNN
    walk: Walk
    share: float = 0.0
    view: int = 0  # position of the view in the shared graph; columns are positions there, too
    columns: Array | None = None

    @cached_property
    def operator(self) -> Factored:
        """Factor of the training samples."""
        return Factored(self.walk.Z)

    def place(self, cross: CrossGeometry, shared_graph: SharedRows | None = None) -> Factored:
        """Factor of new samples."""
        if shared_graph is None or self.columns is None:
            return Factored(self.walk.features(self.graph.cross(cross)[0]))
        M = shared_graph.M[shared_graph.rows[self.view]][:, self.columns]
        return Factored(
            self.walk.features((1.0 - self.share) * shared_graph.edges[self.view] + self.share * M)
        )
