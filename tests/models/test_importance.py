"""Which features clusters rest on, against loops."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose

from viewloom.models import importance
from viewloom.models.importance import linear_importance, permutation_importance

NAMES = np.array(["x", "y", "z"], dtype=object)


def test_linear_importance_is_the_length_of_each_row():
    F = np.array([[0.0, 1.0], [3.0, 4.0], [2.0, 0.0]])
    found = linear_importance(F, NAMES)
    assert found["feature"].tolist() == ["y", "z", "x"]
    assert_allclose(found["importance"], [5.0, 2.0, 1.0])
    assert_allclose(found[["cluster_0", "cluster_1"]], [[3.0, 4.0], [2.0, 0.0], [0.0, 1.0]])


def shares(X):
    """Memberships that depend on the first feature, and half as much on the second."""
    X = X.toarray() if sp.issparse(X) else X
    p = (2.0 * X[:, 0] + X[:, 1]) / 3.0
    return np.column_stack([p, 1.0 - p])


@pytest.mark.parametrize("wrap", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("batch", [20_000, 1])
def test_permutation_importance_is_the_share_of_membership_that_moves(monkeypatch, wrap, batch):
    monkeypatch.setattr(importance, "BATCH_ROWS", batch)
    X, repeats = np.random.default_rng(0).uniform(size=(20, 3)), 3
    found = permutation_importance(shares, wrap(X), NAMES, np.random.RandomState(0), repeats)
    rng, moved = np.random.RandomState(0), np.zeros((3, 2))
    for _ in range(repeats):
        for j in range(3):
            other = X.copy()
            order = rng.permutation(20)
            for i in range(20):
                other[i, j] = X[order[i], j]
            moved[j] += sum(abs(shares(other) - shares(X))) / 20 / repeats
    assert found["feature"].tolist() == ["x", "y", "z"]
    assert_allclose(found["importance"], moved.sum(axis=1) / 2.0)
    assert_allclose(found[["cluster_0", "cluster_1"]], moved)
    assert found["importance"].iloc[2] == 0.0
