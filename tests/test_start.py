"""Where the iteration begins."""

import numpy as np
from sklearn.cluster import KMeans

from viewloom.solver.start import cheapest_merges, merge_and_split


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
