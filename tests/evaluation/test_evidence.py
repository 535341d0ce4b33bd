"""Verdicts on clusterings, the continuum, tests of features, and intervals."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.preprocessing import StandardScaler, normalize

import viewloom as vl
from viewloom.evaluation import continuum
from viewloom.evaluation.continuum import consensus_axis
from viewloom.evaluation.feature_tests import importance_test, permutation_p, without_view
from viewloom.evaluation.selection import cluster_evidence
from viewloom.evaluation.selection.evidence import loss_of, weighed
from viewloom.evaluation.selection.number import tabulate
from viewloom.evaluation.uncertainty import Uncertainty, uncertainty

QUICK = {"n_twins": 4}
SIZES = (("a", 6), ("b", 4))


def model(k=3, **settings):
    return vl.KernelMultiviewNMF(k, random_state=0, **settings)


def along_a_line(seed=0, n=80):
    rng = np.random.default_rng(seed)
    stage = rng.standard_normal((n, 1))
    return [stage * rng.uniform(1, 2, 6) + 0.5 * rng.standard_normal((n, 6)) for _ in range(2)]


@pytest.fixture(scope="module")
def planted():
    views, y = vl.simulate.blobs_views(80, n_views=2, n_clusters=3, separation=6.0, random_state=0)
    return vl.Views(views), y


def test_planted_clusters_are_clusters_and_cuts_are_cuts(planted):
    found = cluster_evidence(model(), planted[0], **QUICK)
    assert found.words == "clusters"
    assert found.table.loc["loss", "z"] > 4
    cut = cluster_evidence(model(2), along_a_line(), **QUICK)
    assert cut.words == "reproducible cuts through a continuum"
    noise = [np.random.default_rng(a).standard_normal((60, 8)) for a in range(2)]
    assert cluster_evidence(model(), noise, **QUICK).words == "not reproducible"


@pytest.mark.parametrize("family", ["lognormal", "poisson", "standard_t"])
def test_skewed_discrete_and_heavy_data_are_no_clusters(family):
    for seed in range(2):
        rng = np.random.default_rng(seed)
        how = {"standard_t": (3,), "poisson": (1.0,), "lognormal": (0.0, 1.0)}[family]
        X = getattr(rng, family)(*how, size=(60, 10)).astype(float)
        assert cluster_evidence(model(), X, random_state=seed, **QUICK).verdict != "clusters"


def test_same_seed_same_evidence(planted):
    one, two = (cluster_evidence(model(), planted[0], n_twins=3) for _ in range(2))
    pd.testing.assert_frame_equal(one.table, two.table)


def test_verdicts_follow_from_numbers():
    def verdict(stability, loss):
        rng = np.random.default_rng(0)
        twins = [
            {"stability": 0.7, "loss": 0.5 + e, "separation": 0.5} for e in 0.01 * rng.standard_normal(10)
        ]
        return weighed([{"stability": stability, "loss": loss, "separation": 0.6}, *twins]).verdict

    assert verdict(0.9, 0.3) == "clusters"
    assert verdict(0.9, 0.38) == "clusters"  # 0.12 less
    assert verdict(0.9, 0.42) == "cuts"  # significant, but 0.08 are too little
    assert verdict(0.65, 0.3) == "cuts"  # tighter, but less stable than twins
    assert verdict(0.5, 0.3) == "not reproducible"
    assert weighed([{}, {}, {}, {}]).verdict is None


def test_number_and_verdict_compare_losses_in_the_same_way():
    losses = [0.3, 0.31, 0.28, 0.33, 0.3]
    twins = [{"stability": 0.3, "loss": loss, "separation": 0.5} for loss in losses]
    found = weighed([{"stability": 0.98, "loss": 0.1, "separation": 0.6}, *twins])
    assert found.gap == pytest.approx(np.mean(losses) - 0.1)
    assert found.table.loc["loss", "z"] == pytest.approx(found.gap / np.std(losses, ddof=1))
    data = {"stability": [0.98], "held_out": [0.1], "pac": 0.0, "prediction_strength": [0.9], "loss": [0.1]}
    records = [{"k": [5], "stability": [0.3], "loss": [loss]} for loss in losses]
    row = tabulate([5], [data], records).iloc[0]
    assert row["clear"]
    assert (row["twin_loss"], row["z"]) == pytest.approx(tuple(found.table.loc["loss", ["twins", "z"]]))
    assert row["gap"] == pytest.approx(found.gap)


@pytest.mark.parametrize("calibrate", [True, False])
def test_loss_lies_between_the_least_possible_and_that_of_one_cluster(calibrate):
    """Against distances from the means of clusters in the space of a linear kernel, view by view."""
    rng = np.random.default_rng(0)
    y = np.arange(90) % 3
    views = {name: 8.0 * rng.standard_normal((3, d))[y] + rng.standard_normal((90, d)) for name, d in SIZES}
    views["b"][:20] = np.nan
    found = model(kernel="linear", calibrate=calibrate).fit(views)
    losses = []
    for name, U in zip(found.view_names_, found.view_memberships_, strict=True):
        seen = np.isfinite(U[:, 0])
        X, labels = views[name][seen], U[seen].argmax(axis=1)
        assert np.allclose(U[seen].max(axis=1), 1.0)  # hard: both parts of the error are the same
        X = normalize(StandardScaler().fit_transform(X))  # lengths of one, as `normalize` makes them
        X -= X.mean(axis=0)
        within = sum(((X[labels == c] - X[labels == c].mean(axis=0)) ** 2).sum() for c in range(3))
        best = (np.linalg.svd(X, compute_uv=False)[:2] ** 2).sum()
        losses.append((within - (X**2).sum() + best) / best)
    assert found.fitted_model_.results.losses == pytest.approx(losses, abs=1e-6)
    assert loss_of(found) == pytest.approx(found.view_weights_ @ losses, abs=1e-6)


def test_too_few_twins_are_refused(planted):
    with pytest.raises(vl.InputError, match="At least 3 twins"):
        cluster_evidence(model(), planted[0], n_twins=2)


def test_axis_recovers_a_continuum_that_views_share():
    rng = np.random.default_rng(0)
    stage = rng.uniform(size=100)
    X = np.c_[np.outer(stage, [1.0, -1.0]), np.zeros((100, 1))] + 0.1 * rng.standard_normal((100, 3))
    Y = np.outer(stage, [2.0, 1.0]) + 0.2 * rng.standard_normal((100, 2))
    X[:20] = np.nan
    axis = consensus_axis({"x": X, "y": Y})
    assert abs(np.corrcoef(axis.positions, stage)[0, 1]) > 0.95
    assert axis.positions.std(ddof=0) == pytest.approx(1.0)
    loadings = axis.loadings["x"].set_index("feature")["loading"]
    assert abs(loadings["x_2"]) < 0.3
    assert loadings["x_0"] * loadings["x_1"] < -0.7
    seen = ~np.isnan(X[:, 0])
    expected = np.corrcoef(X[seen, 0], axis.positions[seen])[0, 1]
    assert loadings["x_0"] == pytest.approx(expected)


def test_axis_of_very_many_samples_is_estimated_in_some_and_positions_all(monkeypatch):
    rng = np.random.default_rng(1)
    stage = rng.uniform(size=300)
    X = np.outer(stage, [1.0, -1.0, 0.5]) + 0.1 * rng.standard_normal((300, 3))
    codes = sp.csr_array((rng.random((300, 40)) < np.outer(stage, rng.uniform(size=40))).astype(float))
    X[::5] = np.nan
    whole = consensus_axis({"x": X, "codes": codes})
    monkeypatch.setattr(continuum, "MOST_SAMPLES", 120)
    some = consensus_axis({"x": X, "codes": codes})
    assert len(some.positions) == 300
    assert abs(np.corrcoef(whole.positions, some.positions)[0, 1]) > 0.98
    assert abs(np.corrcoef(some.positions, stage)[0, 1]) > 0.9
    assert 0.0 < np.abs(whole.explained - some.explained).max() < 0.1


def test_moments_of_permutations_are_exact():
    """The share below 5 % is 5 % for normal, skewed and rare features."""
    rng = np.random.default_rng(0)
    U = rng.dirichlet([0.3] * 3, 50)
    for X in (
        rng.standard_normal((50, 4000)),
        rng.lognormal(size=(50, 4000)),
        rng.binomial(2, 0.1, (50, 4000)),
    ):
        _, p = permutation_p(X.astype(float), U)
        assert np.mean(p < 0.05) == pytest.approx(0.05, abs=0.015)
    x = rng.lognormal(size=(50, 1))
    effect, p = permutation_p(x, U)
    null = [permutation_p(x[rng.permutation(50)], U)[0][0] for _ in range(1000)]
    assert p[0] == pytest.approx(np.mean(null >= effect[0]), abs=0.05)


def test_planted_features_are_named_and_others_are_not(planted):
    views, y = planted
    rng = np.random.default_rng(0)
    snp = rng.binomial(2, 0.3, (80, 30)).astype(float)
    snp[:, 7] = rng.binomial(2, np.where(y == 0, 0.8, 0.1))
    both = vl.Views({**dict(views.items()), "snp": snp})
    table = importance_test(model(), both, "snp")
    assert table.loc[0, "feature"] == "snp_7"
    assert (table["q"] < 0.05).sum() <= 2
    unrelated = vl.Views({**dict(views.items()), "snp": snp[rng.permutation(80)]})
    assert (importance_test(model(), unrelated, "snp")["q"] > 0.05).all()


def test_features_of_the_only_view_are_compared_with_twins():
    X = np.random.default_rng(0).standard_normal((60, 6))
    table = importance_test(model(), X, n_twins=5)
    assert table.attrs["method"] == "twins"
    assert (table["q"] > 0.01).all()


def test_settings_of_other_views_are_kept():
    changed = without_view(model(kernel={"a": "linear", "b": "gaussian"}, lam=[1.0, 2.0]), ["a", "b"], 0)
    assert changed.kernel == {"b": "gaussian"}
    assert changed.lam == [2.0]


def test_intervals_hold_the_estimate_and_say_most_only_where_they_part(planted):
    fitted = model().fit(planted[0])
    found = uncertainty(fitted, planted[0], n_subsamples=4)
    for table in (found.weights, found.certainty, *found.features.values()):
        assert (table["low"] <= table["value"]).all()
        assert (table["value"] <= table["high"]).all()
    apart = pd.DataFrame({"value": [0.6, 0.4], "low": [0.55, 0.35], "high": [0.65, 0.45]}, index=["a", "b"])
    assert Uncertainty(apart, apart).largest_weight() == "a"
    assert Uncertainty(apart.assign(high=0.7), apart).largest_weight() is None


def test_loss_of_landmarks_is_that_of_all_samples(planted):
    """Two thirds of the samples are landmarks, so that the kernels are nearly the exact ones."""
    exact, tied = (model(kernel="gaussian", factored=factored).fit(planted[0]) for factored in (False, 55))
    assert loss_of(tied) == pytest.approx(loss_of(exact), abs=0.02)
