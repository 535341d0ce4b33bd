"""The objective's constants and terms against loops, closed forms and known answers."""

import naive
import numpy as np
import pytest
from numpy.testing import assert_allclose

from viewloom.kernels.operators import Explicit, Factored
from viewloom.solver.objective import (
    Calibration,
    Terms,
    charge_of,
    explained_range,
    objective,
    reconstruction,
)
from viewloom.solver.updates import update_beta

rng = np.random.default_rng(0)
Z = rng.standard_normal((12, 4)) + 0.5
GRAM = Z @ Z.T


class TestExplainedRange:
    @pytest.mark.parametrize("k", [2, 3, 4])
    @pytest.mark.parametrize("operator", [Explicit(GRAM), Factored(Z), Factored(Z).moments()], ids=type)
    def test_equals_the_naive_one(self, operator, k):
        assert_allclose(explained_range(operator, k), naive.explained_range(GRAM, k), atol=1e-9)

    def test_no_memberships_do_better_and_one_cluster_leaves_all(self):
        least, span = explained_range(Explicit(GRAM), 3)
        errors = []
        for seed in range(200):
            labels = np.random.default_rng(seed).integers(3, size=12)
            errors.append(
                sum(((Z[labels == c] - Z[labels == c].mean(axis=0)) ** 2).sum() for c in set(labels))
            )
        assert least <= min(errors)
        assert_allclose(least + span, ((Z - Z.mean(axis=0)) ** 2).sum())

    def test_clusters_without_spread_reach_the_least(self):
        labels = np.arange(12) % 3
        K = np.eye(3)[labels] @ np.eye(3)[labels].T
        assert_allclose(explained_range(Explicit(K), 3), [0.0, 12 - 4.0], atol=1e-9)

    def test_a_kernel_that_tells_nobody_apart_has_a_span_of_its_own(self):
        assert explained_range(Explicit(np.ones((5, 5))), 3) == (0.0, 1.0)
        least, span = explained_range(Explicit(GRAM), 1)  # one cluster is all there is
        assert_allclose(least, span)
        assert_allclose(span, ((Z - Z.mean(axis=0)) ** 2).sum())


class TestCharge:
    @pytest.mark.parametrize("gamma", [0.0, 1.5, 2.0, 3.5])
    def test_copies_cost_together_what_one_costs(self, gamma):
        m, beta, q = 3.0, 0.6, 1.7
        c = charge_of(np.array([1.0 / m]), gamma)[0]
        assert_allclose(m * c * (beta / m) ** gamma * q, beta**gamma * q)
        assert_allclose(c, m ** (gamma - 1.0))

    @pytest.mark.parametrize("gamma", [1.5, 2.0, 3.5])
    def test_weights_are_in_proportion_to_votes(self, gamma):
        votes = np.array([1.0, 0.5, 0.05])
        assert_allclose(update_beta(1.3 * charge_of(votes, gamma), gamma), votes / votes.sum())

    @pytest.mark.parametrize("gamma", [0.1, 0.5, 1.0])
    def test_a_view_of_noise_is_not_the_one_that_takes_all(self, gamma):
        assert_allclose(update_beta(charge_of(np.array([0.05, 0.8]), gamma), gamma), [0.0, 1.0])

    def test_large_gamma_does_not_overflow(self):
        assert_allclose(charge_of(np.array([0.5]), 1e6), 2.0**50)
        assert_allclose(charge_of(np.array([0.5]), 51.0), 2.0**50)
        assert_allclose(charge_of(np.array([0.5]), 50.0), 2.0**49)


class TestCalibration:
    given = Calibration(np.array([1.0, 2.0]), np.array([4.0, 5.0]), 0.5, np.array([1.0, 3.0]))

    def test_by_hand(self):
        assert_allclose(self.given(np.array([9.0, 7.0])), [2.0 + 0.5, 3.0 * (1.0 + 0.5)])
        assert_allclose(self.given(np.array([0.5, 1.0])), [0.5, 1.5])  # never below zero
        assert_allclose(self.given.slope, [0.25, 0.6])

    def test_slope_is_the_derivative(self):
        q, h = np.array([3.0, 4.0]), 1e-6
        assert_allclose((self.given(q + h) - self.given(q)) / h, self.given.slope, rtol=1e-6)

    def test_identity_leaves_losses_alone(self):
        q = np.array([0.5, 3.0, 7.0])
        assert_allclose(Calibration.identity(3)(q), q)
        assert_allclose(Calibration.identity(3).slope, 1.0)

    def test_constants_of_each_view(self):
        charge = np.array([1.0, 2.0])
        found = Calibration.of([Explicit(GRAM), Factored(Z[:, :2])], 3, charge)
        expected = np.array([naive.explained_range(K, 3) for K in (GRAM, Z[:, :2] @ Z[:, :2].T)])
        assert_allclose(np.column_stack([found.offset, found.scale]), expected, atol=1e-9)
        assert_allclose(found(expected.sum(axis=1)), 2.0 * charge)


@pytest.mark.parametrize("rho", [0.0, 0.3, 1.0])
def test_reconstruction_equals_the_sum_over_samples_and_centres(rho):
    G = rng.dirichlet(np.ones(3), size=12).T
    P = rng.uniform(size=(12, 3))
    centres = P.T @ Z
    mixed = sum(((Z[i] - G[:, i] @ centres) ** 2).sum() for i in range(12))
    each = sum(G[j, i] * ((Z[i] - centres[j]) ** 2).sum() for i in range(12) for j in range(3))
    S = (1 - rho) * G @ G.T + rho * np.diag(G.sum(axis=1))
    found = reconstruction(np.trace(GRAM), np.trace(P.T @ GRAM @ G.T), P.T @ GRAM @ P, S)
    assert_allclose(found, (1 - rho) * mixed + rho * each)
    assert reconstruction(1.0, 2.0, np.eye(1), np.eye(1)) == 0.0  # rounding does not make it negative


def test_terms_and_objective_by_hand():
    terms = Terms(np.array([1.0, 2.0]), np.array([0.5, 0.1]), np.array([3.0, 4.0]))
    q = terms.losses(np.array([10.0, 20.0]), np.array([0.1, 0.5]))
    assert_allclose(q, [1.0 + 5.0 + 0.3, 2.0 + 2.0 + 2.0])
    assert_allclose(objective(np.array([0.25, 0.75]), q, 2.0), 0.0625 * 6.3 + 0.5625 * 6.0)
