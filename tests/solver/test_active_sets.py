"""Active sets of many samples: the minimum of each, whichever others are solved with it."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize

from viewloom.solver import placement
from viewloom.solver.placement import ActiveSets, Joint, Part
from viewloom.solver.updates import project_simplex

K, V, N = 4, 3, 60


def joint_and_attraction(seed=0):
    rng = np.random.default_rng(seed)
    roots = rng.standard_normal((V, K, K))
    parts = [Part(R @ R.T + 0.1 * np.eye(K), np.empty(0), np.empty(0), 0.7, 1.0) for R in roots]
    return Joint.of(parts), rng.standard_normal((K, V, N))


def minimum(Q, b, E):
    """The same by another solver."""
    bounds, sums = [(0.0, None)] * len(b), {"type": "eq", "fun": lambda g: E @ g - 1.0, "jac": lambda g: E}
    found = minimize(
        lambda g: g @ Q @ g - 2.0 * b @ g,
        np.full(len(b), 1.0 / K),
        jac=lambda g: 2.0 * (Q @ g - b),
        bounds=bounds,
        constraints=sums,
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 500},
    )
    return found.x


def test_each_sample_is_at_its_minimum():
    joint, b = joint_and_attraction()
    b = b.reshape(K * V, N)
    G, left = joint.active_sets(V).minimised(b)
    assert not len(left)
    expected = np.column_stack([minimum(joint.Q, column, joint.sums) for column in b.T])
    assert_allclose(G, expected, atol=1e-5)
    assert len(np.unique(G > 0.0, axis=1).T) > 10  # many sets of nonzero memberships


def test_samples_do_not_depend_on_each_other_nor_on_what_was_solved_before():
    joint, b = joint_and_attraction()
    b = b.reshape(K * V, N)
    together, _ = joint.active_sets(V).minimised(b)
    alone = np.hstack([joint.active_sets(V).minimised(b[:, [i]])[0] for i in range(N)])
    assert_allclose(alone, together, atol=1e-13)
    fresh = ActiveSets(joint.Q, joint.sizes, joint.sums)
    assert_array_equal(fresh.minimised(b[:, [7]])[0], alone[:, [7]])


def test_kept_factors_are_limited(monkeypatch):
    joint, b = joint_and_attraction()
    b = b.reshape(K * V, N)
    expected, _ = joint.active_sets(V).minimised(b)
    monkeypatch.setattr(placement, "MOST_FACTOR_BYTES", 3 * 8 * (K * V + V) ** 2)
    sets = ActiveSets(joint.Q, joint.sizes, joint.sums)
    assert_array_equal(sets.minimised(b)[0], expected)
    assert len(sets._factors) <= 3


@pytest.mark.parametrize("turns", [1, 2])
def test_samples_that_do_not_converge_are_left_to_the_other_method(monkeypatch, turns):
    joint, b = joint_and_attraction()
    expected = joint.consensus(b, None, project_simplex)
    monkeypatch.setattr(placement, "MOST_TURNS", turns)
    assert len(joint.active_sets(V).minimised(b.reshape(K * V, N))[1])
    assert_allclose(joint.consensus(b, None, project_simplex), expected, atol=1e-7)


def test_a_singular_matrix_is_left_to_the_other_method():
    sets = ActiveSets(np.full((2, 2), np.nan), np.ones(2), np.ones((1, 2)))
    assert_array_equal(sets.minimised(np.ones((2, 3)))[1], np.arange(3))


def test_unequal_degrees_few_and_many_samples():
    joint, b = joint_and_attraction()
    slack = 0.05 * np.random.default_rng(1).random((V, N))
    many = joint.consensus(b, slack, project_simplex)
    few = joint.consensus(b[..., :5], slack[:, :5], project_simplex)
    assert_allclose(few, many[:, :5], atol=1e-6)
    assert np.abs(many - joint.consensus(b, None, project_simplex)).max() > 1e-4


def test_several_threads_share_the_factors(monkeypatch):
    """Also where there is room for one factor only, so that each thread discards those of the others."""
    monkeypatch.setattr(placement, "MOST_FACTOR_BYTES", 1)
    Q, sizes, E = np.eye(6), np.ones(6), np.ones((1, 6))
    b = np.random.default_rng(0).standard_normal((6, 400))
    expected, _ = ActiveSets(Q, sizes, E).minimised(b)
    shared = ActiveSets(Q, sizes, E)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: shared.minimised(b)[0], range(8)))
    for G in found:
        assert_array_equal(G, expected)
