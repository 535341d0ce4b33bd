"""Initial centres of k-means by k-means++ (Arthur and Vassilvitskii, 2007)."""

from __future__ import annotations

import numpy as np

from viewloom.kernels.operators import Factored

Array = np.ndarray
LARGEST = 5000  # number of samples up to which all products are computed; 200 MB


class Seeding:
    """The centres that ``KMeans(init="k-means++")`` draws, up to rounding, in a fraction of its time.

    Used as ``KMeans(k, init=Seeding(n_init), n_init=n_init)``. If the restarts compare more candidates than
    there are samples, the products of all pairs of samples are computed once for all restarts (of `LARGEST`
    samples at most).

    Examples
    --------
    >>> from sklearn.cluster import KMeans
    >>> X = np.random.default_rng(0).standard_normal((60, 4))
    >>> ours, theirs = (KMeans(5, init=init, n_init=3, random_state=0) for init in (Seeding(3), "k-means++"))
    >>> bool((ours.fit(X).labels_ == theirs.fit(X).labels_).all())
    True
    """

    def __init__(self, restarts: int) -> None:
        self.restarts = restarts
        self._table: tuple[Array, Array] | None = None  # samples and their products

    def __call__(self, X: Array, n_clusters: int, random_state: np.random.RandomState) -> Array:
        """Centres of one restart (k x m)."""
        n, trials = len(X), 2 + int(np.log(n_clusters))
        lengths, table = Factored(X).diagonal(), self._products(X, n_clusters * trials)

        def distances(rows: Array) -> Array:  # squared, to all samples
            products = X[rows] @ X.T if table is None else table[rows]
            return np.maximum(lengths[rows, None] + lengths - 2.0 * products, 0.0)

        chosen = [random_state.choice(n, p=np.full(n, 1.0 / n))]
        closest = distances(np.array(chosen))[0]
        for _ in range(n_clusters - 1):
            draws = random_state.uniform(size=trials) * closest.sum()
            candidates = np.minimum(np.searchsorted(np.cumsum(closest), draws), n - 1)
            nearer = np.minimum(closest, distances(candidates))
            best = int(np.argmin(nearer.sum(axis=1)))
            chosen.append(candidates[best])
            closest = nearer[best]
        return X[chosen]

    def _products(self, X: Array, candidates: int) -> Array | None:
        """``X X^T``, the same for all restarts; None if fewer candidates are compared, or X is large."""
        if self.restarts * candidates < len(X) or len(X) > LARGEST:
            return None
        if self._table is None or self._table[0] is not X:
            self._table = X, X @ X.T
        return self._table[1]
