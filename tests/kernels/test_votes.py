"""Votes of views: what views share beyond the clusters."""

import naive
import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose

import viewloom as vl
from viewloom.kernels.geometry import Geometry, GramGeometry
from viewloom.kernels.votes import MOST_SAMPLES, details, provisional_clusters, resemblance, shared_votes

N, K = 240, 3
rng = np.random.default_rng(0)
y = rng.integers(K, size=N)


def view(separation, *shared, d=8):
    """Clusters, noise, and features in common with other views."""
    X = separation * rng.standard_normal((K, d))[y] + rng.standard_normal((N, d))
    return np.column_stack([X, *shared])


def of(views, labels=y):
    return resemblance([Geometry(X) for X in views], [np.arange(N)] * len(views), labels)


def test_equals_the_naive_correlation_of_similarities():
    X, Y = view(2.0), view(1.0)
    Y[:, :2] += X[:, :2]
    few = slice(0, 40)
    found = resemblance([Geometry(X[few]), Geometry(Y[few])], [np.arange(40)] * 2, y[few])
    assert_allclose(found[0, 1], naive.resemblance(X[few], Y[few], y[few]))
    assert_allclose(np.diag(found), 1.0)
    assert_allclose(found, found.T)


def test_clusters_are_no_resemblance_however_clear():
    assert of([view(8.0), view(8.0), view(0.5)]).max(where=~np.eye(3, dtype=bool), initial=0.0) < 0.15
    assert of([view(8.0), view(8.0)], np.zeros(N, dtype=int))[0, 1] > 0.5  # if the clusters are not known


def test_two_readings_of_one_organ_resemble_each_other():
    organ = 2.0 * rng.standard_normal((N, 2))
    R = of([view(2.0, organ), view(2.0, organ), view(2.0)])
    assert R[0, 1] > 0.4 > 2.0 * max(R[0, 2], R[1, 2])


@pytest.mark.parametrize("change", [lambda X: -1e6 * X + 3.0, sp.csr_array, np.float32])
def test_copies_resemble_each_other_completely(change):
    X = view(2.0)
    assert_allclose(of([X, change(X)]), 1.0, atol=1e-5)


def test_gram_matrices_are_compared_as_their_features_are():
    X, Y = view(2.0), view(1.0)
    Y[:, :2] += X[:, :2]
    grams = [GramGeometry(X @ X.T), GramGeometry(Y @ Y.T)]
    assert_allclose(resemblance(grams, [np.arange(N)] * 2, y), of([X, Y]))


def test_samples_in_common_only():
    X, Y = view(2.0), view(2.0)
    Y[:, :3] = X[:, :3]
    some = np.arange(0, N, 5)
    found = resemblance([Geometry(X), Geometry(Y[some])], [np.arange(N), some], y)
    assert_allclose(found[0, 1], naive.resemblance(X[some], Y[some], y[some]))
    apart = resemblance([Geometry(X[:9]), Geometry(Y[9:])], [np.arange(9), np.arange(9, N)], y)
    assert_allclose(apart, np.eye(2))


def test_many_samples_are_compared_on_some():
    n = 3 * MOST_SAMPLES
    X, labels = rng.standard_normal((n, 3)), np.arange(n) % 2
    assert_allclose(resemblance([Geometry(X), Geometry(2 * X)], [np.arange(n)] * 2, labels), 1.0)


def test_a_view_that_does_not_vary_resembles_none():
    assert_allclose(of([np.ones((N, 2)), view(2.0)]), np.eye(2), atol=1e-6)


def test_details_have_no_mean_in_any_pair_of_clusters():
    X = view(3.0)
    left = details(X @ X.T, y)
    G = np.eye(K)[y]
    assert_allclose(G.T @ left @ G, 0.0, atol=1e-8)


def test_votes_are_gates_shared_by_those_who_resemble():
    X, rows = view(2.0), [np.arange(N)] * 3
    geometries = [Geometry(X), Geometry(5 * X), Geometry(rng.standard_normal((N, 2)))]
    found = shared_votes(np.array([1.0, 1.0, 0.001]), geometries, rows, y)
    assert_allclose(found[:2], 0.5, rtol=0.1)
    assert_allclose(found[2], 0.05, rtol=0.2)


def test_copies_have_one_vote_and_take_none_from_others():
    organ = rng.standard_normal((N, 3))
    views = [view(2.0, organ), view(2.0, organ), view(2.0)]
    gate = np.array([1.0, 0.9, 0.8])

    def of_views(views, gate):
        return shared_votes(gate, [Geometry(X) for X in views], [np.arange(N)] * len(views), y)

    once, twice = of_views(views, gate), of_views([*views, 3 * views[1]], gate[[0, 1, 2, 1]])
    assert_allclose(twice[[0, 2]], once[[0, 2]], rtol=0.01)
    assert_allclose(twice[1] + twice[3], once[1], rtol=0.01)


def test_provisional_clusters_are_those_of_clear_features():
    Z = np.eye(K)[y] + 0.01 * rng.standard_normal((N, K))
    assert vl.metrics.clustering_accuracy(y, provisional_clusters(Z, K)) == 1.0


class TestWeights:
    """Of whole fits."""

    def weights(self, *views):
        return vl.KernelMultiviewNMF(K, random_state=0).fit(list(views)).view_weights_

    def test_a_noisy_view_is_not_heavier_than_two_precise_ones(self):
        w = self.weights(view(1.6), view(1.6), view(0.6))
        assert w[2] == w.min()

    def test_an_independent_view_is_heavier_than_two_readings_of_one_organ(self):
        organ = 1.5 * rng.standard_normal((N, 6))
        w = self.weights(view(1.2, organ), view(1.2, organ), view(1.2, rng.standard_normal((N, 6))))
        assert w[2] == w.max()

    def test_noise_is_lightest_beside_views_that_share_a_vote(self):
        X = view(1.6)
        w = self.weights(X, X + 0.1 * rng.standard_normal(X.shape), view(1.6), rng.standard_normal((N, 20)))
        assert w[3] < 0.2 * w[:3].min()
