"""NEMO, SNF and EEIMVC, written from their papers; views in, a fused graph or labels out.

The settings are those of the papers and of their authors' packages. `tests/test_benchmarks.py` compares the
graphs of SNF with snfpy's and of NEMO with iMML's where these are installed. EEIMVC here centres its kernels
and gives them unit diagonal, which iMML's does not: its results differ.
"""

from __future__ import annotations

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from sklearn.cluster import KMeans, SpectralClustering
from sklearn.metrics import pairwise_distances

Array = np.ndarray
TINY = np.finfo(float).eps


def similarity(distances: Array, n_neighbors: int, mu: float) -> Array:
    """Normal density of the distances with the local standard deviation ``mu * eps`` (Wang 2014).

    ``eps_ij`` is the mean of three: the mean distance of i to its neighbours, that of j, and ``d_ij``.
    """
    near = np.sort(distances, axis=1)[:, 1 : n_neighbors + 1].mean(axis=1)
    scale = mu * (near[:, None] + near[None, :] + distances) / 3.0 + TINY
    return np.exp(-0.5 * (distances / scale) ** 2) / scale


def nearest(W: Array, n_neighbors: int) -> sp.csr_array:
    """The largest entries of each row (n_neighbors of them), divided by their sum."""
    columns = np.argpartition(-W, n_neighbors - 1, axis=1)[:, :n_neighbors]
    values = np.take_along_axis(W, columns, axis=1)
    values = values / np.maximum(values.sum(axis=1, keepdims=True), TINY)
    rows = np.repeat(np.arange(len(W)), n_neighbors)
    return sp.csr_array((values.ravel(), (rows, columns.ravel())), shape=W.shape)


def snf(views: list[Array], n_neighbors: int = 20, mu: float = 0.5, n_iter: int = 20) -> Array:
    """Similarity network fusion (Wang et al. 2014): the fused graph of complete views.

    ``P_v <- S_v mean_{u != v}(P_u) S_v^T + I``, where rows of `P` sum to one at the start and `S` keeps
    neighbours only. Squared distances and the added identity are those of the packages SNFtool and snfpy.
    """
    k = min(n_neighbors, len(views[0]) - 1)
    full = [_stochastic(similarity(pairwise_distances(X, metric="sqeuclidean"), k, mu)) for X in views]
    local = [nearest(P, k) for P in full]
    for _ in range(n_iter if len(views) > 1 else 0):
        total = sum(full[1:], start=full[0])
        others = [(total - P) / (len(views) - 1) for P in full]
        full = [_symmetric(S @ (S @ P).T) + np.eye(len(P)) for S, P in zip(local, others, strict=True)]
    fused = np.mean(full, axis=0)
    return _symmetric(fused / fused.sum(axis=1, keepdims=True)) + 0.5 * np.eye(len(fused))


def _stochastic(W: Array) -> Array:
    """Rows that sum to one, symmetrised."""
    return _symmetric(W / np.maximum(W.sum(axis=1, keepdims=True), TINY))


def _symmetric(A: Array) -> Array:
    return (A + A.T) / 2.0


def nemo(views: list[Array], ratio: int = 6, mu: float = 0.5) -> Array:
    """NEMO (Rappoport and Shamir 2019): mean relative similarity over the views that two samples share.

    Every sample has a sixth of the view's samples as neighbours. Rows of NaN lack the view; pairs that share
    none get the mean of all others.
    """
    n = len(views[0])
    total, shared = np.zeros((n, n)), np.zeros((n, n))
    for X in views:
        seen = np.flatnonzero(~np.isnan(X).any(axis=1))
        k = max(2, round(len(seen) / ratio))
        local = nearest(similarity(pairwise_distances(X[seen], metric="sqeuclidean"), k, mu), k).toarray()
        total[np.ix_(seen, seen)] += local + local.T
        shared[np.ix_(seen, seen)] += 1.0
    with np.errstate(invalid="ignore"):
        mean = total / shared
    return np.where(shared > 0.0, mean, np.nanmean(mean[np.tril_indices(n, -1)]))


def spectral_labels(affinity: Array | sp.spmatrix, n_clusters: int, seed: int) -> Array:
    """Spectral clustering of a graph, scikit-learn's defaults."""
    model = SpectralClustering(n_clusters, affinity="precomputed", random_state=seed)
    return np.asarray(model.fit_predict(affinity))


def eeimvc(
    views: list[Array], n_clusters: int, seed: int, max_iter: int = 100, tol: float = 1e-6
) -> tuple[Array, Array]:
    """EE-IMVC (Liu et al. 2021), late fusion of kernel k-means: labels, and weights of the views.

    Maximises ``tr(H^T sum_p beta_p H_p W_p)`` over orthogonal `H` and rotations `W_p`, with ``|beta| = 1``.
    `H_p` are the leading eigenvectors of the centred linear kernel with unit diagonal; rows of samples that
    lack the view (NaN) follow `H`.
    """
    seen = [~np.isnan(X).any(axis=1) for X in views]
    bases = [_leading(X, s, n_clusters) for X, s in zip(views, seen, strict=True)]
    rotations = [np.eye(n_clusters) for _ in views]
    beta, before = np.full(len(views), len(views) ** -0.5), -np.inf
    for _ in range(max_iter):
        fused = sum(b * H @ W for b, H, W in zip(beta, bases, rotations, strict=True))
        H = _orthogonal(np.asarray(fused))
        rotations = [_orthogonal(base.T @ H) for base in bases]
        for base, W, s in zip(bases, rotations, seen, strict=True):
            base[~s] = _orthogonal(H[~s] @ W.T) if (~s).any() else 0.0
        gains = np.array([np.sum(H * (base @ W)) for base, W in zip(bases, rotations, strict=True)])
        value = float(np.linalg.norm(gains))
        beta = gains / value
        if value - before < tol * value:
            break
        before = value
    rows = H / np.maximum(np.linalg.norm(H, axis=1, keepdims=True), TINY)
    labels = KMeans(n_clusters, n_init=10, random_state=seed).fit_predict(rows)
    return labels, beta / beta.sum()


def _leading(X: Array, seen: Array, n_clusters: int) -> Array:
    """Leading left singular vectors of centred samples of unit length (n x k); zeros where one is absent."""
    centred = X[seen] - X[seen].mean(axis=0)
    centred /= np.maximum(np.linalg.norm(centred, axis=1, keepdims=True), TINY)
    K = centred @ centred.T
    basis = np.zeros((len(X), n_clusters))
    basis[seen] = scipy.linalg.eigh(K, subset_by_index=[len(K) - n_clusters, len(K) - 1])[1]
    return basis


def _orthogonal(A: Array) -> Array:
    """The nearest matrix with orthonormal columns (or rows, where there are fewer)."""
    U, _, Vt = np.linalg.svd(A, full_matrices=False)
    return np.asarray(U @ Vt)
