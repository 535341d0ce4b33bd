"""Where the iteration begins."""

import numpy as np
from sklearn.cluster import KMeans

from viewloom.kernels.operators import Factored
from viewloom.solver.start import (
    cheapest_merges,
    joint_features,
    kernel_kmeans,
    merge_and_split,
    soft_memberships,
)


def three_pairs(n=40):
    """Six blobs on a line, far apart; a bad start puts two centres into one and one between two."""
    rng = np.random.default_rng(0)
    centres = np.array([0.0, 10.0, 20.0, 30.0, 40.0, 50.0])
    return np.repeat(centres, n)[:, None] + rng.standard_normal((6 * n, 3)) * [1.0, 0.1, 0.1]


def test_a_merge_and_a_split_mend_what_lloyd_cannot():
    X = three_pairs()
    stuck = np.array([[-1.0], [1.0], [15.0], [30.0], [40.0], [50.0]]) * [1.0, 0.0, 0.0]
    lloyd = KMeans(6, init=stuck, n_init=1).fit(X)
    assert len(np.unique(lloyd.labels_[40:120])) == 1  # two blobs in one cluster
    mended = merge_and_split(X, lloyd)
    assert mended.inertia_ < 0.1 * lloyd.inertia_
    assert [len(np.unique(part)) for part in mended.labels_.reshape(6, 40)] == [1] * 6


def test_a_good_clustering_is_left_alone():
    X = three_pairs()
    best = KMeans(6, n_init=20, random_state=0).fit(X)
    assert merge_and_split(X, best).inertia_ == best.inertia_


def test_merges_are_priced_by_ward():
    X = np.random.default_rng(1).standard_normal((60, 4))
    model = KMeans(5, n_init=3, random_state=0).fit(X)
    cost, i, j = cheapest_merges(model.cluster_centers_, np.bincount(model.labels_))[0]
    merged = np.where(model.labels_ == j, i, model.labels_)
    error = sum(((X[merged == c] - X[merged == c].mean(axis=0)) ** 2).sum() for c in np.unique(merged))
    np.testing.assert_allclose(error - model.inertia_, cost)


def test_kernel_kmeans_finds_clusters_and_numbers_them_by_size():
    X = np.array([[0.0], [9.0], [0.1], [9.1], [0.2], [50.0]])
    found = kernel_kmeans(X, np.ones(X.shape, dtype=bool), 3, np.random.RandomState(0))
    assert found.tolist() == [0, 1, 0, 1, 0, 2]


def is_settled(X, observed, labels):
    """Whether every sample is nearest to its own centre, which it has in place of what was not observed."""
    means = [
        [X[(labels == c) & observed[:, j], j].mean() for j in range(X.shape[1])]
        for c in range(labels.max() + 1)
    ]
    filled = np.where(observed, X, np.array(means)[labels])
    centres = np.array([filled[labels == c].mean(axis=0) for c in range(labels.max() + 1)])
    return np.array_equal(((filled[:, None] - centres) ** 2).sum(axis=2).argmin(axis=1), labels)


def test_kernel_kmeans_takes_no_notice_of_what_was_not_observed():
    rng = np.random.default_rng(0)
    X, observed = rng.standard_normal((40, 4)), np.ones((40, 4), dtype=bool)
    observed[::2, 2:] = False
    X[~observed] = 0.0
    plain = KMeans(3, n_init=10, random_state=0).fit(X).labels_
    assert not is_settled(X, observed, plain)
    assert is_settled(X, observed, kernel_kmeans(X, observed, 3, np.random.RandomState(0)))


def test_joint_features_are_a_factor_of_the_mean_kernel():
    rng = np.random.default_rng(0)
    Z = [rng.standard_normal((12, 3)), rng.standard_normal((8, 2))]
    rows = [slice(None), np.arange(4, 12)]
    X, observed = joint_features([Factored(z) for z in Z], rows, 12, rank=5)
    K = [(z - z.mean(axis=0)) @ (z - z.mean(axis=0)).T for z in Z]
    expected = K[0] / 2.0
    expected[4:, 4:] += K[1] / 2.0
    np.testing.assert_allclose(X @ X.T, expected, atol=1e-12)
    assert observed[:, :3].all()
    assert observed[:, 3:].all(axis=1).tolist() == [False] * 4 + [True] * 8


def test_soft_memberships_are_nearly_hard():
    G = soft_memberships(np.array([0, 2, 1]), 3)
    np.testing.assert_allclose(G, [[0.98, 0.01, 0.01], [0.01, 0.01, 0.98], [0.01, 0.98, 0.01]])
    np.testing.assert_allclose(soft_memberships(np.zeros(4, dtype=int), 1), np.ones((1, 4)))
