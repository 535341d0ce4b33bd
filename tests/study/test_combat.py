"""ComBat against another library's numbers, closed forms and planted effects."""

import contextlib
import io

import numpy as np
import pandas as pd
import pytest

from viewloom.study.errors import StudyError
from viewloom.study.preparation.combat import apply_combat, fit_combat, posterior
from viewloom.study.preparation.splines import knots_of, spline_basis

# first feature of `scanned()`; subjects 0, 15 and 40
GAMMA = [-1.974947, 0.09192, 2.294236]
DELTA = [0.519133, 1.196442, 1.665523]
HARMONISED = [12.600742, 14.411822, 14.324283]


def scanned(seed=0, sizes=(12, 20, 9), d=7):
    """Features with planted shifts and scales of sites, and effects of two covariates."""
    rng = np.random.default_rng(seed)
    site = np.repeat(np.arange(len(sizes)), sizes)
    C = rng.standard_normal((len(site), 2)).astype(np.float32).astype(float)
    X = 10 + 3 * site[:, None] + (1 + site[:, None]) * rng.standard_normal((len(site), d))
    return X + C @ rng.standard_normal((2, d)), site, C


def by_neurocombat(X, site, C):
    """Harmonised data, gamma* and delta* of neuroCombat."""
    combat = pytest.importorskip("neuroCombat")
    table = pd.DataFrame({"site": site, "age": C[:, 0], "icv": C[:, 1]})
    with contextlib.redirect_stdout(io.StringIO()):
        found = combat.neuroCombat(X.T, table, "site", continuous_cols=["age", "icv"])
    return found["data"].T, found["estimates"]["gamma.star"], found["estimates"]["delta.star"]


def test_equals_neurocombat():
    X, site, C = scanned()
    harmonised, gamma, delta = by_neurocombat(X, site, C)
    fitted = fit_combat(X, site, C)
    np.testing.assert_allclose(fitted.shift, gamma, atol=1e-4)  # it stops at 1e-4
    np.testing.assert_allclose(fitted.scale**2, delta, rtol=1e-4)
    np.testing.assert_allclose(apply_combat(fitted, X, site, C), harmonised, atol=1e-3)


def test_numbers_of_neurocombat():
    """The same, as neuroCombat 0.2.12 printed them."""
    X, site, C = scanned()
    fitted = fit_combat(X, site, C)
    np.testing.assert_allclose(fitted.shift[:, 0], GAMMA, atol=1e-4)
    np.testing.assert_allclose(fitted.scale[:, 0] ** 2, DELTA, rtol=1e-4)
    np.testing.assert_allclose(apply_combat(fitted, X, site, C)[[0, 15, 40], 0], HARMONISED, atol=1e-3)


def in_loops(X, site, C, used):
    """ComBat as published, one feature at a time, estimated in the rows `used` and applied to all."""
    k, p, d = site.max() + 1, C.shape[1], X.shape[1]
    n_used = [sum(used & (site == i)) for i in range(k)]
    D = np.hstack([np.eye(k)[site], C])
    Z, level, spread = np.empty_like(X), np.empty_like(X), np.empty(d)
    for g in range(d):
        b = np.linalg.lstsq(D[used], X[used, g], rcond=None)[0]
        spread[g] = np.sqrt(np.mean([(x - row @ b) ** 2 for x, row in zip(X[used, g], D[used], strict=True)]))
        level[:, g] = sum(n_used[i] * b[i] for i in range(k)) / sum(n_used) + C @ b[k : k + p]
        Z[:, g] = (X[:, g] - level[:, g]) / spread[g]
    Y = np.empty_like(X)
    for i in range(k):
        here, n = site == i, n_used[i]
        g_hat = [Z[here & used, g].mean() for g in range(d)]
        d_hat = [Z[here & used, g].var(ddof=1) for g in range(d)]
        middle, tau2 = np.mean(g_hat), np.var(g_hat, ddof=1)
        m, s2 = np.mean(d_hat), np.var(d_hat, ddof=1)
        a, b = (2 * s2 + m**2) / s2, (m * s2 + m**3) / s2
        for g in range(d):
            gamma, delta = g_hat[g], d_hat[g]
            for _ in range(500):
                gamma = (n * tau2 * g_hat[g] + delta * middle) / (n * tau2 + delta)
                delta = (b + sum((z - gamma) ** 2 for z in Z[here & used, g]) / 2) / (n / 2 + a - 1)
            Y[here, g] = level[here, g] + spread[g] * (Z[here, g] - gamma) / np.sqrt(delta)
    return Y


@pytest.mark.parametrize("spline", [False, True])
@pytest.mark.parametrize("on_controls", [False, True])
def test_equals_the_published_formulas_in_loops(spline, on_controls):
    X, site, C = scanned(sizes=(15, 20, 12))
    used = np.arange(len(X)) % 2 == 0 if on_controls else np.ones(len(X), dtype=bool)
    if spline:
        C = np.column_stack([spline_basis(C[:, 0], knots_of(C[used, 0], "age")), C[:, 1]])
    fitted = fit_combat(X[used], site[used], C[used])
    np.testing.assert_allclose(apply_combat(fitted, X, site, C), in_loops(X, site, C, used), rtol=1e-7)


def test_controls_applied_to_patients_equals_neurocombat():
    """By its estimates; its function for new subjects does not run with numpy 2.4."""
    combat = pytest.importorskip("neuroCombat")
    X, site, _ = scanned(sizes=(30, 40, 24))
    own, none = np.arange(len(X)) % 2 == 0, np.empty((len(X), 0))
    with contextlib.redirect_stdout(io.StringIO()):
        found = combat.neuroCombat(X[own].T, pd.DataFrame({"site": site[own]}), "site")["estimates"]
    mean, spread = found["stand.mean"][:, 0], np.sqrt(found["var.pooled"][:, 0])
    Z = ((X - mean) / spread - found["gamma.star"][site]) / np.sqrt(found["delta.star"][site])
    fitted = fit_combat(X[own], site[own], none[own])
    np.testing.assert_allclose(apply_combat(fitted, X, site, none), mean + spread * Z, atol=1e-3)


def test_equals_neurocombat_with_a_spline():
    X, site, C = scanned(sizes=(30, 40, 24))
    curve = spline_basis(C[:, 0], knots_of(C[:, 0], "age"))
    combat = pytest.importorskip("neuroCombat")
    table = pd.DataFrame(curve, columns=["age", "bent", "more"]).assign(site=site)
    with contextlib.redirect_stdout(io.StringIO()):
        found = combat.neuroCombat(X.T, table, "site", continuous_cols=["age", "bent", "more"])["data"].T
    np.testing.assert_allclose(apply_combat(fit_combat(X, site, curve), X, site, curve), found, atol=1e-3)


def test_effects_solve_the_equations_of_the_posterior():
    """Equations of Johnson et al. (2007), written out at the answer."""
    Z = np.random.default_rng(1).standard_normal((9, 6)) * np.linspace(0.5, 2, 6) + np.linspace(-1, 1, 6)
    g, v = Z.mean(axis=0), Z.var(axis=0, ddof=1)
    gamma, delta = posterior(9, g, v)
    m, s2, tau2 = v.mean(), v.var(ddof=1), g.var(ddof=1)
    a, b = (2 * s2 + m**2) / s2, (m * s2 + m**3) / s2
    np.testing.assert_allclose(gamma, (9 * tau2 * g + delta * g.mean()) / (9 * tau2 + delta), rtol=1e-8)
    np.testing.assert_allclose(delta, (b + ((Z - gamma) ** 2).sum(axis=0) / 2) / (9 / 2 + a - 1), rtol=1e-8)
    assert (np.abs(gamma - g.mean()) < np.abs(g - g.mean())).all()  # shrunk


def test_one_feature_is_not_shrunk():
    """Both sites get the mean of all, and the spread within sites."""
    rng = np.random.default_rng(0)
    site = np.repeat([0, 1], [10, 30])
    X = rng.standard_normal((40, 1)) * (1 + site[:, None]) + 5 * site[:, None]
    fitted = fit_combat(X, site, np.empty((40, 0)))
    Y = apply_combat(fitted, X, site, np.empty((40, 0)))
    for i in (0, 1):
        assert Y[site == i].mean() == pytest.approx(X.mean())
        assert Y[site == i].std(ddof=1) == pytest.approx(fitted.spread[0])


def test_planted_sites_go_and_planted_covariates_stay():
    X, site, C = scanned(sizes=(60, 80, 70))
    Y = apply_combat(fit_combat(X, site, C), X, site, C)
    means, spreads = (np.array([f(Y[site == i], axis=0) for i in range(3)]) for f in (np.mean, np.std))
    assert np.ptp(means, axis=0).max() < 0.2 * np.ptp([X[site == i].mean() for i in range(3)])
    assert (spreads.max(axis=0) / spreads.min(axis=0)).max() < 1.25
    slopes = [np.linalg.lstsq(np.hstack([np.ones((210, 1)), C]), M, rcond=None)[0][1:] for M in (X, Y)]
    np.testing.assert_allclose(*slopes, atol=0.5)


def test_new_subjects_do_not_depend_on_each_other_and_unknown_sites_stay():
    X, site, C = scanned()
    fitted = fit_combat(X, site, C)
    whole = apply_combat(fitted, X, site, C)
    np.testing.assert_array_equal(apply_combat(fitted, X[[5]], site[[5]], C[[5]]), whole[[5]])
    nowhere = np.full(len(site), -1)
    np.testing.assert_array_equal(apply_combat(fitted, X, nowhere, C), X)


def test_features_that_all_vary_alike():
    """The variance of the variances is zero: the prior is certain, and nothing divides by it."""
    gamma, delta = posterior(3, np.zeros(2), np.ones(2))
    np.testing.assert_allclose(gamma, 0.0, atol=1e-12)
    np.testing.assert_allclose(delta, 1.0)


def test_a_column_that_only_tells_the_site_stays_finite():
    X, site, C = scanned()
    X[:, 0] = site
    Y = apply_combat(fit_combat(X, site, C), X, site, C)
    assert np.isfinite(Y).all()


@pytest.mark.parametrize("site", [[0, 0, 0, 0], [0, 0, 0, 1]])
def test_too_few_sites_or_subjects(site):
    with pytest.raises(StudyError, match="at least two sites"):
        fit_combat(np.eye(4), np.array(site), np.empty((4, 0)))


def test_a_covariate_that_is_the_site():
    X, site, _ = scanned()
    with pytest.raises(StudyError, match="confounded with the sites"):
        fit_combat(X, site, (site == 1).astype(float)[:, None])


def test_a_covariate_that_does_not_vary_is_no_matter():
    X, site, C = scanned()
    C[:, 1] = 0.0
    np.testing.assert_allclose(fit_combat(X, site, C).shift, fit_combat(X, site, C[:, :1]).shift, rtol=1e-9)
