"""Dependence of views: agreement that no third view confirms."""

import numpy as np

from viewloom.kernels.reliability import Agreement, dependence

N, K = 300, 3


def features(*parts):
    """Centred columns of several parts."""
    X = np.column_stack(parts)
    return X - X.mean(axis=0)


def test_what_only_two_views_share_is_dependence():
    """Views 0 and 1 share clusters and something else; view 2 shares the clusters only."""
    rng = np.random.default_rng(0)
    clusters = np.eye(K)[rng.integers(K, size=N)] * 6.0
    organ = 1.5 * rng.standard_normal((N, 2))

    def noise(d):
        return 0.5 * rng.standard_normal((N, d))

    Z = [
        features(clusters + noise(K), organ + noise(2)),
        features(clusters + noise(K), organ + noise(2)),
        features(clusters + noise(K), noise(2)),
    ]
    rows, weights = [np.arange(N)] * 3, np.full(3, 1 / 3)
    D = dependence(Z, rows, K, weights, Agreement.of(Z, rows, K))
    assert np.array_equal(D, D.T)
    assert np.array_equal(np.diag(D), np.ones(3))
    assert D[0, 1] > 0.3 > 3.0 * max(D[0, 2], D[1, 2])


def test_two_views_are_never_dependent():
    Z = [np.random.default_rng(0).standard_normal((40, 4))] * 2
    rows = [np.arange(40)] * 2
    D = dependence(Z, rows, K, np.full(2, 0.5), Agreement.of(Z, rows, K))
    assert np.array_equal(D, np.eye(2))
