"""Decorrelated features against the shrunk covariances of scikit-learn."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.spatial.distance import cdist
from sklearn.covariance import LedoitWolf

from viewloom.kernels.decorrelation import can_be_decorrelated, decorrelation
from viewloom.kernels.shared_graph import Part


def correlated(n=60, d=5):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d)) + 3.0 * rng.standard_normal((n, 1))
    return X - X.mean(axis=0)


def test_distances_are_those_of_mahalanobis_in_directions_of_much_variance():
    """Where all directions but one have less than the mean variance, that one is reduced to it."""
    X = correlated()
    C = LedoitWolf(assume_centered=True).fit(X).covariance_
    (*_, largest), V = np.linalg.eigh(C)
    mean, first = np.trace(C) / len(C), V[:, -1:]
    others = X - X @ first @ first.T
    expected = cdist(others, others, "sqeuclidean") + mean / largest * cdist(
        X @ first, X @ first, "sqeuclidean"
    )
    found = X @ decorrelation(X)
    np.testing.assert_allclose(cdist(found, found, "sqeuclidean"), expected, atol=1e-9)


def test_what_all_features_share_counts_once():
    X = correlated(400)
    before, after = (np.linalg.eigvalsh(np.cov(Y.T)) for Y in (X, X @ decorrelation(X)))
    assert before[-1] > 30.0
    assert after[-1] < 1.1 * np.trace(np.cov(X.T)) / 5
    np.testing.assert_allclose(after[:-1], before[:-1], rtol=1e-6)


def test_what_was_removed_does_not_come_back():
    """A direction with hardly any variance stays small, in new samples, too."""
    X = correlated(400)
    direction = np.full((5, 1), 5**-0.5)
    left = X - 0.999 * X @ direction @ direction.T
    root = decorrelation(left - left.mean(axis=0))
    assert np.abs(X @ root).max() <= np.abs(X).sum(axis=1).max()
    assert np.linalg.norm(left @ root @ direction) < 0.01 * np.linalg.norm(X @ direction)


@pytest.mark.parametrize("shape", [(9, 5), (5, 9), (2100, 1001)])
def test_too_few_samples_or_too_many_features(shape):
    assert decorrelation(np.ones(shape)) is None


def test_features_that_do_not_vary():
    assert decorrelation(np.zeros((20, 3))) is None
    X = np.hstack([correlated(), np.zeros((60, 1))])
    assert np.isfinite(decorrelation(X)).all()


@pytest.mark.parametrize("X", [np.abs(correlated()), sp.csr_array(correlated())], ids=["profiles", "sparse"])
def test_profiles_and_sparse_views_stay_as_they_are(X):
    assert not can_be_decorrelated(X)
    assert Part.of(X, 1.0)[0].root is None


def test_units_of_features_matter_little():
    """A view in other units has the same distances, up to the shrinkage."""
    X = correlated(2000)
    parts = [Part.of(Y, 1.0)[1] for Y in (X, 100.0 * X)]
    np.testing.assert_allclose(cdist(parts[0][:9], parts[0]), cdist(parts[1][:9], parts[1]), rtol=1e-6)


@pytest.mark.parametrize(
    "X",
    [correlated(), np.abs(correlated()), sp.csr_array(correlated().astype(np.float32))],
    ids=["decorrelated", "profiles", "sparse"],
)
def test_features_of_the_fit_are_those_of_new_samples(X):
    part, own = Part.of(X, 1.0)
    assert own.dtype == np.float64
    assert (own != part.features(X)).sum() == 0
