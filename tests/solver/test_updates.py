"""Every block update does what its docstring says."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import minimize

from viewloom.runtime.errors import InputError
from viewloom.solver import updates
from viewloom.solver.updates import (
    Memberships,
    Quadratic,
    _accelerated,
    _layered,
    _Stack,
    _Steps,
    combinations,
    membership_gram,
    project_simplex,
    update_beta,
    update_G,
    update_G_star,
    update_P,
)

ALL = slice(None)


def random_memberships(rng, k, n):
    return rng.dirichlet(np.full(k, 0.5), size=n).T


def random_quadratic(rng, k, n, lam=None, rows=ALL, weight=None):
    R = rng.standard_normal((k, k))
    B = rng.standard_normal((k, n))
    lam = rng.uniform(0.1, 10.0) if lam is None else lam
    return Quadratic(R @ R.T, B, rng.uniform(0.0, 1.0), lam, weight or rng.uniform(0.1, 1.0), rows)


def flat_along_the_simplex(ridge, k=10, n=200):
    """A view whose curvature is large only where the sum of the memberships changes, and memberships."""
    rng = np.random.default_rng(13)
    B = 3.0 + 0.2 * rng.uniform(size=(k, n))
    return Quadratic(3.0 + ridge * np.eye(k), B, 0.02, 10.0, 1.0, ALL), random_memberships(rng, k, n)


def inner_objective(G, G_star, quadratics):
    return sum(q.weight * q.values(g, G_star).sum() for g, q in zip(G, quadratics, strict=True))


def consensus(G, quadratics):
    n = max(g.shape[1] for g in G)
    return update_G_star(G, np.array([q.weight * q.lam for q in quadratics]), [q.rows for q in quadratics], n)


class TestProjection:
    @given(arrays(float, (5, 4), elements=st.floats(-1e6, 1e6)))
    @settings(max_examples=50, deadline=None)
    def test_lands_on_the_simplex_and_stays_there(self, V):
        G = project_simplex(V)
        assert (G >= 0.0).all()
        np.testing.assert_allclose(G.sum(axis=0), 1.0, atol=1e-9)
        np.testing.assert_allclose(project_simplex(G), G, atol=1e-9)

    @pytest.mark.parametrize("k", [2, 5, 12, 20])
    @pytest.mark.parametrize("n", [3, 900])
    def test_several_matrices_and_any_guess_give_the_same(self, k, n):
        rng = np.random.default_rng(k)
        V = rng.standard_normal((2, k, n))
        expected = np.stack([project_simplex(v) for v in V])
        others = np.stack([random_memberships(rng, k, n) for _ in V])
        for near in (None, expected, others, np.roll(expected, 1, axis=1)):
            np.testing.assert_allclose(project_simplex(V, near), expected, atol=1e-12)

    @pytest.mark.parametrize("k", [5, 20])
    def test_a_column_does_not_depend_on_the_others(self, k):
        rng = np.random.default_rng(k)
        V, near = rng.standard_normal((k, 300)), random_memberships(rng, k, 300)
        near[:, ::2] = project_simplex(V[:, ::2])  # every other guess is right
        together = project_simplex(V, near)
        blocks = [slice(j, j + 3) for j in range(0, 300, 3)]
        apart = [project_simplex(V[:, block], near[:, block]) for block in blocks]
        np.testing.assert_allclose(together, np.hstack(apart), rtol=1e-12, atol=1e-15)

    def test_agrees_with_a_quadratic_program(self):
        rng = np.random.default_rng(0)
        for _ in range(10):
            v = rng.standard_normal(4) * 3.0
            answer = minimize(
                lambda g, v=v: ((g - v) ** 2).sum(),
                np.full(4, 0.25),
                jac=lambda g, v=v: 2 * (g - v),
                bounds=[(0, None)] * 4,
                constraints={"type": "eq", "fun": lambda g: g.sum() - 1},
                method="SLSQP",
                options={"ftol": 1e-14, "maxiter": 500},
            )
            np.testing.assert_allclose(project_simplex(v[:, None])[:, 0], answer.x, atol=1e-6)


class TestP:
    @pytest.mark.parametrize("rho", [0.0, 0.3, 1.0])
    def test_is_the_least_squares_solution(self, rho):
        """The mixed error is a plain least-squares problem in P on stacked, weighted samples."""
        rng = np.random.default_rng(1)
        Phi, G = rng.standard_normal((7, 9)), random_memberships(rng, 3, 9)  # features x samples
        targets, designs = [np.sqrt(1 - rho) * Phi], [np.sqrt(1 - rho) * G]
        for j in range(3):  # rho * sum_i G_ji ||phi_i - f_j||^2
            root = np.sqrt(rho * G[j])
            targets.append(Phi * root)
            designs.append(np.outer(np.eye(3)[j], root))
        F = np.linalg.lstsq(np.hstack(designs).T, np.hstack(targets).T, rcond=None)[0].T
        np.testing.assert_allclose(Phi @ combinations(G, rho).T, F, atol=1e-10)

    def test_small_form_is_the_written_out_form(self):
        rng = np.random.default_rng(2)
        X, G = rng.standard_normal((9, 4)), random_memberships(rng, 3, 9)
        K, Pt = X @ X.T, combinations(G, 0.4)
        C, A = update_P(membership_gram(G, 0.4), G @ K, G @ K @ G.T)
        np.testing.assert_allclose(C, Pt @ K, atol=1e-10)
        np.testing.assert_allclose(A, Pt @ K @ Pt.T, atol=1e-10)

    @pytest.mark.parametrize("rho", [0.0, 0.5])
    def test_stays_finite_with_empty_and_equal_clusters(self, rho):
        G = np.zeros((4, 6))
        G[0], G[1] = 0.5, 0.5  # equal rows, and two empty ones
        C, A = update_P(membership_gram(G, rho), G @ np.eye(6), G @ G.T)
        assert np.isfinite(C).all()
        assert np.isfinite(A).all()

    def test_memberships_that_are_not_finite_are_refused(self):
        G = np.full((2, 3), 0.5)
        G[0, 1] = np.nan
        with pytest.raises(InputError, match="not finite"):
            combinations(G, 0.5)


class TestG:
    def test_gradient_agrees_with_finite_differences(self):
        rng = np.random.default_rng(4)
        q, G, G_star = random_quadratic(rng, 3, 5), rng.uniform(size=(3, 5)), rng.uniform(size=(3, 5))
        numeric, step = np.zeros_like(G), 1e-6
        for i in np.ndindex(*G.shape):
            up, down = G.copy(), G.copy()
            up[i] += step
            down[i] -= step
            numeric[i] = (q.values(up, G_star).sum() - q.values(down, G_star).sum()) / (2 * step)
        np.testing.assert_allclose(2 * q.half_gradient(G, G_star), numeric, rtol=1e-6, atol=1e-6)

    def test_lipschitz_constant_bounds_the_measured_curvature_tightly(self):
        rng = np.random.default_rng(5)
        q, G_star = random_quadratic(rng, 4, 1), np.zeros((4, 1))
        directions = np.linalg.eigh(q.A)[1].T.tolist() + rng.standard_normal((20, 4)).tolist()
        curvatures = []
        for direction in directions:
            d = np.array(direction)[:, None]
            change = q.half_gradient(d, G_star) - q.half_gradient(0 * d, G_star)
            curvatures.append(float(np.linalg.norm(change) / np.linalg.norm(d)))
        assert max(curvatures) == pytest.approx(q.lipschitz, rel=1e-9)

    @pytest.mark.parametrize("seed", range(20))
    @pytest.mark.parametrize("n_steps", [1, 2, 10])
    def test_never_increases_any_sample(self, seed, n_steps):
        rng = np.random.default_rng(seed)
        k, n = int(rng.integers(1, 6)), 30
        rows = np.flatnonzero(rng.uniform(size=n) < 0.7)
        quadratics = [random_quadratic(rng, k, n), random_quadratic(rng, k, len(rows), rows=rows)]
        G_star = random_memberships(rng, k, n)
        G = [G_star.copy(), G_star[:, rows].copy()]
        new = update_G(Memberships(G, G_star), quadratics, project_simplex, n_steps)
        change = np.zeros(n)
        for g, h, q in zip(G, new.G, quadratics, strict=True):
            change[q.rows] += q.weight * (q.values(h, new.G_star) - q.values(g, G_star))
        assert change.max() <= 1e-10

    def test_many_steps_reach_the_minimum(self):
        rng = np.random.default_rng(6)
        k, n = 3, 4
        quadratics = [random_quadratic(rng, k, n, lam=3.0), random_quadratic(rng, k, n, lam=3.0)]
        start = random_memberships(rng, k, n)
        at = Memberships([start, start], start)
        for _ in range(200):
            at = update_G(at, quadratics, project_simplex, 20)

        def objective(x):
            parts = x.reshape(3, k, n)
            return inner_objective(list(parts[:2]), parts[2], quadratics)

        answer = minimize(
            objective,
            np.full(3 * k * n, 1 / k),
            bounds=[(0, 1)] * (3 * k * n),
            constraints={"type": "eq", "fun": lambda x: x.reshape(3, k, n).sum(axis=1).ravel() - 1},
            method="SLSQP",
            options={"ftol": 1e-13, "maxiter": 1000},
        )
        assert inner_objective(at.G, at.G_star, quadratics) <= answer.fun + 1e-6

    def test_samples_do_not_feel_how_they_are_split(self):
        rng = np.random.default_rng(7)
        quadratic, start = random_quadratic(rng, 3, 8), random_memberships(rng, 3, 8)
        whole = update_G(Memberships([start], start), [quadratic], project_simplex, 10)
        for part in (slice(0, 3), slice(3, 8)):
            q = Quadratic(
                quadratic.A, quadratic.B[:, part], quadratic.shift, quadratic.lam, quadratic.weight, ALL
            )
            alone = update_G(Memberships([start[:, part]], start[:, part]), [q], project_simplex, 10)
            np.testing.assert_allclose(alone.G[0], whole.G[0][:, part], atol=1e-14)

    @pytest.mark.parametrize("missing", [False, True])
    def test_samples_may_be_updated_in_chunks(self, monkeypatch, missing):
        rng = np.random.default_rng(12)
        k, n = 6, 50
        rows = np.flatnonzero(rng.uniform(size=n) < 0.6) if missing else ALL
        G_star = random_memberships(rng, k, n)
        quadratics = [
            random_quadratic(rng, k, n),
            random_quadratic(rng, k, G_star[:, rows].shape[1], rows=rows),
        ]
        start = Memberships([G_star, G_star[:, rows]], G_star)
        whole = update_G(start, quadratics, project_simplex, 10)
        monkeypatch.setattr(updates, "CACHED", 14 * k)  # seven samples of two views
        parts = update_G(start, quadratics, project_simplex, 10)
        for g, h in zip([*parts.G, parts.G_star], [*whole.G, whole.G_star], strict=True):
            np.testing.assert_allclose(g, h, atol=1e-12)

    def test_one_step_of_a_single_view_is_that_of_the_paper(self):
        rng = np.random.default_rng(13)
        q, start = random_quadratic(rng, 4, 30), random_memberships(rng, 4, 30)
        new = update_G(Memberships([start], start), [q], project_simplex, 1)
        expected = project_simplex(start - q.half_gradient(start, start) / q.lipschitz)
        np.testing.assert_allclose(new.G[0], expected, atol=1e-12)

    @pytest.mark.parametrize("ridge", [0.0, 1e-5, 0.1])
    def test_a_single_view_reaches_its_minimum_in_ten_steps(self, ridge):
        """Along the simplex its curvature is small, and lam does not add to it: steps may be long."""
        q, start = flat_along_the_simplex(ridge)
        few, many = (
            update_G(Memberships([start], start), [q], project_simplex, n_steps).G[0]
            for n_steps in (10, 3000)
        )
        before, reached, best = (replace(q, lam=0.0).values(G, start) for G in (start, few, many))
        assert (reached <= before + 1e-12).all()
        assert (reached - best).sum() < 1e-3 * (before - best).sum()

    def test_samples_of_a_flat_view_do_not_feel_the_slopes_of_others(self):
        q, start = flat_along_the_simplex(1e-5)
        q.B[:, 0] *= 10.0
        q = replace(q, shift=0.0)
        whole = update_G(Memberships([start], start), [q], project_simplex, 10)
        rest = replace(q, B=q.B[:, 1:])
        alone = update_G(Memberships([start[:, 1:]], start[:, 1:]), [rest], project_simplex, 10)
        np.testing.assert_allclose(alone.G[0], whole.G[0][:, 1:], atol=1e-13)

    @pytest.mark.parametrize(("v", "steps"), [(1, 3), (2, 10)])
    def test_samples_of_a_single_view_stop_when_they_hardly_move(self, v, steps):
        rng = np.random.default_rng(15)
        k, n, sizes = 6, 40, []

        def project(V, near=None):
            sizes.append(V.shape[-1])
            return project_simplex(V, near)

        start = random_memberships(rng, k, n)
        q = Quadratic(np.eye(k), 0.4 * rng.uniform(size=(k, n)), 0.0, 1.0, 1.0, ALL)
        update_G(Memberships([start] * v, start), [q] * v, project, 10)
        assert len(sizes) <= steps
        if v > 1:
            assert sizes == [n] * steps

    def test_the_only_sample_that_moves_takes_its_consensus_along(self):
        """One view, whose samples are given by their positions."""
        rng = np.random.default_rng(16)
        k, rows = 4, np.arange(5)
        q = random_quadratic(rng, k, 5, lam=1.0, rows=rows)
        q.B[0, 1:] += 100.0
        G_star = np.eye(k)[:, [1, 0, 0, 0, 0]]  # all others are at their minimum
        new = update_G(Memberships([G_star[:, rows]], G_star), [q], project_simplex, 10)
        assert np.abs(new.G[0][:, 0] - G_star[:, 0]).max() > 1e-3
        np.testing.assert_allclose(new.G_star[:, 0], new.G[0][:, 0], atol=1e-12)

    def test_leaving_settled_samples_out_changes_nothing(self):
        """Half of the samples sit at a vertex that their problem keeps; some of them lack a view."""
        rng = np.random.default_rng(11)
        k, n = 3, 40
        rows = np.arange(0, n, 3)
        quadratics = [random_quadratic(rng, k, n), random_quadratic(rng, k, len(rows), rows=rows)]
        still = np.arange(n) % 2 == 0
        for q in quadratics:
            q.B[0, still[q.rows]] += 100.0  # all of them want to be in the first cluster
        G_star = random_memberships(rng, k, n)
        G_star[:, still] = np.eye(k)[:, [0]]
        start = Memberships([G_star.copy(), G_star[:, rows].copy()], G_star)
        first = update_G(start, quadratics, project_simplex, 1)
        assert (first.G_star != G_star).any(axis=0).tolist() == (~still).tolist()
        everybody, places = slice(0, n), [q.rows for q in quadratics]
        steps = _Steps.of(quadratics, [q.lipschitz for q in quadratics], everybody, project_simplex)
        before, after = (_Stack(_layered(at.G, places, everybody), at.G_star) for at in (start, first))
        change = after.G - before.G
        expected = _accelerated(after, change, steps.squares(change), steps, 10)
        new = update_G(start, quadratics, project_simplex, 10)
        for g, h, where in zip(new.G, expected.G, places, strict=True):
            np.testing.assert_allclose(g, h[:, where], atol=1e-14)
        np.testing.assert_allclose(new.G_star, expected.G_star, atol=1e-14)


class TestGStar:
    def test_minimises_the_consensus_term(self):
        rng = np.random.default_rng(8)
        quadratics = [random_quadratic(rng, 3, 6), random_quadratic(rng, 3, 6)]
        G = [random_memberships(rng, 3, 6) for _ in quadratics]
        G_star = consensus(G, quadratics)
        at_minimum = inner_objective(G, G_star, quadratics)
        for _ in range(20):
            nudged = G_star + 1e-3 * rng.standard_normal(G_star.shape)
            assert inner_objective(G, nudged, quadratics) > at_minimum

    def test_averages_over_the_views_a_sample_has(self):
        rng = np.random.default_rng(9)
        quadratics = [random_quadratic(rng, 2, 3), random_quadratic(rng, 2, 2, rows=np.array([0, 2]))]
        G = [random_memberships(rng, 2, 3), random_memberships(rng, 2, 2)]
        np.testing.assert_allclose(consensus(G, quadratics)[:, 1], G[0][:, 1])

    def test_zero_weights_leave_the_mean(self):
        rng = np.random.default_rng(10)
        quadratics = [random_quadratic(rng, 2, 3, lam=0.0), random_quadratic(rng, 2, 3, lam=0.0)]
        G = [random_memberships(rng, 2, 3) for _ in quadratics]
        np.testing.assert_allclose(consensus(G, quadratics), (G[0] + G[1]) / 2)

    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_a_sample_whose_views_do_not_pull_has_their_mean(self, dtype):
        G = [np.array([[1.0, 0.0]], dtype), np.array([[0.0, 0.0]], dtype), np.array([[1.0]], dtype)]
        found = update_G_star(G, np.array([0.0, 0.0, 10.0]), [slice(None), slice(None), np.array([1])], 2)
        assert found.dtype == dtype
        np.testing.assert_allclose(found, [[0.5, 1.0]], rtol=1e-6)


class TestBeta:
    @pytest.mark.parametrize("gamma", [1.5, 2.0, 4.0])
    def test_agrees_with_a_numerical_minimiser(self, gamma):
        q = np.array([0.3, 1.0, 2.5])
        answer = minimize(
            lambda b: (b**gamma * q).sum(),
            np.full(3, 1 / 3),
            bounds=[(0, 1)] * 3,
            constraints={"type": "eq", "fun": lambda b: b.sum() - 1},
            method="SLSQP",
            options={"ftol": 1e-15},
        )
        np.testing.assert_allclose(update_beta(q, gamma), answer.x, atol=1e-5)

    @pytest.mark.parametrize("gamma", [0.3, 0.9, 1.0])
    def test_up_to_one_the_best_vertex_beats_every_mixture(self, gamma):
        q, rng = np.array([0.8, 0.5, 0.9]), np.random.default_rng(0)
        beta = update_beta(q, gamma)
        assert beta.tolist() == [0.0, 1.0, 0.0]
        for other in rng.dirichlet(np.ones(3), size=200):
            assert (other**gamma * q).sum() >= (beta**gamma * q).sum()

    def test_just_above_one_is_close_to_the_vertex(self):
        assert update_beta(np.array([0.8, 0.5]), 1.001)[1] > 0.999

    def test_zero_is_equal_weights(self):
        assert update_beta(np.array([0.1, 5.0]), 0.0).tolist() == [0.5, 0.5]

    def test_perfect_views_share_the_weight(self):
        assert update_beta(np.array([0.0, 1.0, 0.0]), 2.0).tolist() == [0.5, 0.0, 0.5]

    def test_extreme_losses_stay_finite(self):
        beta = update_beta(np.array([1e-300, 1e300]), 1.1)
        assert np.isfinite(beta).all()
        assert beta.sum() == pytest.approx(1.0)
