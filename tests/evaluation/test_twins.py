"""Twins keep margins, correlations and absent views, and have no clusters."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.stats import norm, spearmanr

from viewloom import Views
from viewloom.evaluation import twins
from viewloom.evaluation.twins import Twins, draw_twin, normal_scores, unimodal


def correlated(rng, n, d, strength=0.8):
    loading = rng.uniform(-strength, strength, d)
    return rng.standard_normal((n, 1)) * loading + np.sqrt(1 - loading**2) * rng.standard_normal((n, d))


def genotypes(rng, n, blocks):
    r = 0.7
    shared = [np.repeat(rng.standard_normal((n, blocks)), 5, axis=1) for _ in range(2)]
    alleles = [np.sqrt(r) * one + np.sqrt(1 - r) * rng.standard_normal(one.shape) < -0.5 for one in shared]
    return np.add(*alleles, dtype=float)


def test_margins_and_rank_correlations_are_kept_within_and_between_views():
    rng = np.random.default_rng(0)
    Z = correlated(rng, 400, 8)
    views = Views({"skewed": np.exp(Z[:, :4]), "flat": norm.cdf(Z[:, 4:])})
    twin = draw_twin(views, 1)
    X, Y = views.concatenate(), twin.concatenate()
    np.testing.assert_allclose(spearmanr(Y)[0], spearmanr(X)[0], atol=0.08)
    for j in range(8):
        spread = np.ptp(np.quantile(X[:, j], [0.05, 0.95]))
        q = np.linspace(0.05, 0.95, 10)
        np.testing.assert_allclose(np.quantile(Y[:, j], q), np.quantile(X[:, j], q), atol=0.06 * spread)
    assert abs(np.corrcoef(X[:, 0], Y[:, 0])[0, 1]) < 0.3


def test_genotypes_keep_frequencies_exactly_and_their_linkage():
    rng = np.random.default_rng(0)
    X = genotypes(rng, 300, 8)
    Y = draw_twin(X, 1)["view0"]
    np.testing.assert_array_equal(np.sort(Y, axis=0), np.sort(X, axis=0))
    same = np.kron(np.eye(8), np.ones((5, 5))) - np.eye(40) > 0
    assert np.corrcoef(Y.T)[same].mean() == pytest.approx(np.corrcoef(X.T)[same].mean(), abs=0.08)
    assert abs(np.corrcoef(Y.T)[~same & ~np.eye(40, dtype=bool)].mean()) < 0.02


def test_a_column_with_two_modes_gets_one():
    rng = np.random.default_rng(0)
    x = np.sort(np.r_[rng.normal(-5, 1, 200), rng.normal(5, 1, 200)])[:, None]
    between = np.mean(np.abs(unimodal(x)) < 2)
    assert np.mean(np.abs(x) < 2) < 0.01 < 0.1 < between
    one = np.sort(rng.exponential(size=(400, 1)), axis=0)
    np.testing.assert_allclose(
        np.quantile(unimodal(one), [0.2, 0.5, 0.9]), np.quantile(one, [0.2, 0.5, 0.9]), rtol=0.1
    )


def test_absent_views_wide_views_and_sparse_views():
    rng = np.random.default_rng(0)
    wide = rng.standard_normal((30, 200))
    wide[4:9] = np.nan
    views = Views({"wide": wide, "sparse": sp.csr_array(rng.binomial(1, 0.3, (30, 6)).astype(float))})
    twin = draw_twin(views, 0)
    np.testing.assert_array_equal(twin.present, views.present)
    assert sp.issparse(twin["sparse"])
    np.testing.assert_array_equal(twin["sparse"].sum(axis=0), views["sparse"].sum(axis=0))
    assert np.isnan(twin["wide"][4:9]).all()
    assert np.isfinite(np.delete(twin["wide"], slice(4, 9), axis=0)).all()


def test_correlation_between_views_survives_absent_rows():
    rng = np.random.default_rng(0)
    Z = rng.standard_normal((400, 1)) + 0.5 * rng.standard_normal((400, 4))
    X, Y = Z[:, :2].copy(), Z[:, 2:].copy()
    X[:130], Y[270:] = np.nan, np.nan
    twin = draw_twin(Views([X, Y]), 0)
    both = slice(130, 270)
    found = np.corrcoef(twin["view0"][both, 0], twin["view1"][both, 0])[0, 1]
    assert found == pytest.approx(np.corrcoef(X[both, 0], Y[both, 0])[0, 1], abs=0.12)


def test_extremes_in_common_are_kept():
    """Of a multivariate t distribution samples are extreme in all columns together; so are those of twins."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((500, 8)) / np.sqrt(rng.chisquare(3, (500, 1)) / 3)
    far = [np.log((normal_scores(Y) ** 2).mean(axis=1)).std() for Y in (X, draw_twin(X, 0)["view0"])]
    plain = np.log((normal_scores(rng.standard_normal((500, 8))) ** 2).mean(axis=1)).std()
    assert far[1] == pytest.approx(far[0], rel=0.12)
    assert far[0] > 1.3 * plain


def test_same_seed_same_twin_and_other_seeds_others():
    source = Twins(Views(np.random.default_rng(0).standard_normal((40, 5))))
    one, again, other = (source.draw(np.random.default_rng(seed))["view0"] for seed in (0, 0, 1))
    np.testing.assert_array_equal(one, again)
    assert np.abs(one - other).max() > 0.1


def test_other_processes_get_what_all_draws_share():
    views = Views(
        {"a": np.random.default_rng(0).standard_normal((40, 5)), "b": np.arange(80.0).reshape(40, 2) % 3}
    )
    sent = pickle.loads(pickle.dumps(Twins(views)))
    assert {"margins", "spectrum", "radii"} <= vars(sent).keys()
    one, other = (source.draw(np.random.default_rng(1)) for source in (Twins(views), sent))
    for name in views.names:
        np.testing.assert_array_equal(one[name], other[name])


def test_many_samples_and_features_use_a_factor_model(monkeypatch):
    monkeypatch.setattr(twins, "LARGEST_EXACT", 20)
    monkeypatch.setattr(twins, "FACTORS", 5)
    rng = np.random.default_rng(0)
    X = correlated(rng, 300, 40)
    difference = np.corrcoef(draw_twin(X, 0)["view0"].T) - np.corrcoef(X.T)
    assert np.abs(difference).mean() < 0.08


def test_constant_columns_and_few_samples():
    X = np.c_[np.ones(6), np.arange(6.0)]
    np.testing.assert_array_equal(np.sort(draw_twin(X, 0)["view0"], axis=0), np.sort(X, axis=0))
