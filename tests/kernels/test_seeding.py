"""Initial centres of k-means against those of scikit-learn."""

import numpy as np
import pytest
from sklearn.cluster import kmeans_plusplus

from viewloom.kernels.seeding import Seeding


@pytest.mark.parametrize("restarts", [1, 20])  # product by product, and products of all pairs
def test_centres_are_those_of_scikit_learn(restarts):
    X = np.random.default_rng(0).standard_normal((200, 6))
    seeding, ours, theirs = Seeding(restarts), np.random.RandomState(3), np.random.RandomState(3)
    for _ in range(3):
        expected = kmeans_plusplus(X, 8, random_state=theirs)[0]
        np.testing.assert_array_equal(seeding(X, 8, random_state=ours), expected)
    assert (seeding._table is None) == (restarts == 1)


def test_equal_samples_and_a_single_cluster():
    X = np.ones((12, 2))
    np.testing.assert_array_equal(Seeding(2)(X, 4, random_state=np.random.RandomState(0)), np.ones((4, 2)))
    assert Seeding(2)(X, 1, random_state=np.random.RandomState(0)).shape == (1, 2)
