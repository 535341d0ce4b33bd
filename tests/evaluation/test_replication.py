"""Replication: statistics against plain loops, verdicts on cohorts with and without shared structure."""

import importlib.util
from itertools import permutations
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.metrics import adjusted_rand_score

import viewloom as vl
from viewloom.evaluation.inspection import standardised
from viewloom.evaluation.replication.nulls import rescaled
from viewloom.evaluation.replication.statistics import (
    Concordance,
    Profiles,
    adjusted_p,
    agreement,
    best_matching,
    cluster_means,
    in_group,
    interval,
    jaccard,
    matched,
    nearest_samples,
    upper_p,
)
from viewloom.evaluation.replication.verdicts import CUTS, NOT, PARTLY, REPLICATED, cluster_verdict
from viewloom.models.scaling import fit_scaler

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "replication.py"


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.fixture(scope="module")
def halves():
    views, y = vl.simulate.blobs_views(160, n_features=8, random_state=3)
    model = vl.KernelMultiviewNMF(3, random_state=0).fit(views[:80])
    return model, views[80:], y[80:]


@pytest.fixture(scope="module")
def found(halves):
    return vl.replicate(halves[0], halves[1], n_permutations=19, n_continuum=0)


def loop_jaccard(one, other, k):
    pairs = [
        ({i for i, x in enumerate(one) if x == j}, {i for i, x in enumerate(other) if x == j})
        for j in range(k)
    ]
    return [len(a & b) / len(a | b) if a | b else 0.0 for a, b in pairs]


def loop_nearest(blocks, rows, weights, n):
    """Nearest subject by a loop over all pairs and views."""
    scales = [np.mean([np.sum((x - z) ** 2) for x in X for z in X]) for X in blocks]
    nearest = []
    for i in range(n):
        found = {}
        for j in set(range(n)) - {i}:
            shared = [a for a in range(len(blocks)) if i in rows[a] and j in rows[a]]
            if shared:
                far = [
                    weights[a]
                    * np.sum((blocks[a][list(rows[a]).index(i)] - blocks[a][list(rows[a]).index(j)]) ** 2)
                    / scales[a]
                    for a in shared
                ]
                found[j] = sum(far) / sum(weights[a] for a in shared)
        nearest.append(min(found, key=found.get))
    return np.array(nearest)


def test_clusters_are_matched_as_the_best_of_all_permutations(rng):
    for _ in range(20):
        one, other = rng.integers(4, size=(2, 30))
        best = max(np.sum(one == np.array(p)[other]) for p in permutations(range(4)))
        renamed = matched(one, other, 4)
        assert np.sum(one == renamed) == best
        assert len({(a, b) for a, b in zip(other, renamed, strict=True)}) == len(set(other))  # one to one


def test_jaccard_and_in_group_proportion_equal_loops(rng):
    n, k, weights = 25, 3, np.array([0.7, 0.3])
    rows = [np.arange(n), np.sort(rng.choice(n, 18, replace=False))]
    blocks = [standardised(rng.standard_normal((len(r), 4))) for r in rows]
    profiles = Profiles.of(blocks, rows, [np.zeros((k, 4))] * 2, weights)
    nearest = nearest_samples(profiles.distances, rows, weights, n)
    assert_array_equal(nearest, loop_nearest(blocks, rows, weights, n))
    one, other = rng.integers(k, size=(2, n))
    assert_allclose(jaccard(one, other, k), loop_jaccard(one, other, k))
    loop = [np.mean([one[nearest[i]] == j for i in range(n) if one[i] == j]) for j in range(k)]
    assert_allclose(in_group(one, nearest, k), loop)


def test_counts_weigh_subjects_as_if_they_were_repeated(rng):
    n, k = 30, 3
    one, other = rng.integers(k, size=(2, n))
    nearest, counts = rng.integers(n, size=n), rng.integers(3, size=n)
    again = np.repeat(np.arange(n), counts)
    assert_allclose(jaccard(one, other, k, counts), jaccard(one[again], other[again], k))
    loop = [np.mean([one[nearest[i]] == j for i in again if one[i] == j]) for j in range(k)]
    assert_allclose(in_group(one, nearest, k, counts), loop)


def test_concordance_equals_a_loop_over_pairs_of_views(rng):
    n, k, weights = 20, 2, np.array([0.5, 0.3, 0.2])
    rows = [np.sort(rng.choice(n, 15, replace=False)) for _ in range(3)]
    members = [standardised(rng.random((15, k))) for _ in rows]
    total, scale = np.zeros(k), 0.0
    for a in range(3):
        for b in range(a + 1, 3):
            both = sorted(set(rows[a]) & set(rows[b]))
            products = [members[a][list(rows[a]).index(i)] * members[b][list(rows[b]).index(i)] for i in both]
            total += weights[a] * weights[b] * np.mean(products, axis=0)
            scale += weights[a] * weights[b]
    assert_allclose(Concordance.of(members, rows, weights, n).observed(), total / scale)


def test_profile_correlations_equal_those_of_mean_vectors(rng):
    n, k, weights = 40, 3, np.array([0.6, 0.4])
    rows = [np.arange(n), np.arange(5, n)]
    second = [standardised(rng.standard_normal((len(r), d))) for r, d in zip(rows, (6, 9), strict=True)]
    first = [rng.standard_normal((k, d)) for d in (6, 9)]
    labels = rng.integers(k, size=n)
    overall, by_view = Profiles.of(second, rows, first, weights).of_clusters(labels)
    means = [cluster_means(Z, labels[r], k) for Z, r in zip(second, rows, strict=True)]
    for a in range(2):
        for j in range(k):
            for m in range(k):
                x, z = means[a][j], first[a][m]
                assert_allclose(by_view[a, j, m], x @ z / np.linalg.norm(x) / np.linalg.norm(z))
    scale = [np.sqrt(w / X.shape[1]) for w, X in zip(weights, first, strict=True)]
    x, z = (np.hstack([s * X[1] for s, X in zip(scale, parts, strict=True)]) for parts in (means, first))
    assert_allclose(overall[1, 1], x @ z / np.linalg.norm(x) / np.linalg.norm(z))


def test_random_directions_have_nothing_of_the_cluster_means(rng):
    labels = np.repeat([0, 1, 2], 20)
    Z = standardised(np.eye(3)[labels] * 100.0)  # nothing but cluster means
    overall, _ = Profiles.of([Z], [np.arange(60)], [rng.standard_normal((3, 3))], np.ones(1)).of_directions(
        rng.standard_normal((5, 3, 60)), labels
    )
    assert np.isnan(overall).all()


def test_the_adjusted_rand_index_is_that_of_scikit_learn(rng):
    for _ in range(10):
        one, other = rng.integers(4, size=(2, 40))
        counts = rng.integers(4, size=40)
        again = np.repeat(np.arange(40), counts)
        assert_allclose(agreement(one, other), adjusted_rand_score(one, other))
        assert_allclose(agreement(one, other, counts), adjusted_rand_score(one[again], other[again]))
    assert agreement(np.zeros(5, dtype=int), np.zeros(5, dtype=int)) == 0.0


def test_the_best_matching_has_the_largest_sum(rng):
    for _ in range(10):
        S = rng.standard_normal((4, 4))
        best = max(sum(S[p[j], j] for j in range(4)) for p in permutations(range(4)))
        assert_allclose(S[best_matching(S), np.arange(4)].sum(), best)


def test_p_values_are_uniform_under_the_null(rng):
    draws = rng.standard_normal((400, 40, 3)) * [1.0, 5.0, 0.1]  # one of 40 rows is the observed one
    p = np.array([adjusted_p(rows[0], rows[1:]) for rows in draws])
    assert abs(np.mean(p.min(axis=1) <= 0.05) - 0.05) < 0.035  # familywise
    single = np.array([upper_p(rows[0], rows[1:]) for rows in draws]).ravel()
    assert abs(np.mean(single <= 0.1) - 0.1) < 0.03
    assert_array_equal(adjusted_p([np.nan, 9.0], np.zeros((19, 2))), [1.0, 0.05])
    assert np.isnan(adjusted_p([1.0], np.empty((0, 1)))).all()


def test_intervals_ignore_what_is_unknown():
    lower, upper = interval(np.column_stack([np.arange(101.0), np.full(101, np.nan)]))
    assert_allclose([lower[0], upper[0]], [2.5, 97.5])
    assert np.isnan([lower[1], upper[1]]).all()


def test_verdicts_follow_the_rule():
    row = {"concordance": 0.5, "concordance_p": 0.001, "jaccard": 0.7, "jaccard_p": 0.9, "in_group": 0.8}
    row |= {"profile_p": 0.001, "profile_lower": 0.2}
    assert cluster_verdict(row) == REPLICATED
    for change in ({"concordance_p": 0.02}, {"profile_p": 0.02}, {"concordance": np.nan}):
        assert cluster_verdict({**row, **change}) == NOT
    for change in ({"jaccard": 0.4}, {"in_group": 0.4}, {"profile_lower": -0.1}):
        assert cluster_verdict({**row, **change}) == PARTLY


def test_clusters_of_one_population_are_replicated(halves, found):
    model, views, _ = halves
    assert found.verdict == REPLICATED
    assert_array_equal(found.labels["transferred"], model.predict(views))
    assert found.overall["ari"] > 0.9
    assert found.overall["p"] == 0.05  # of 19 null cohorts, none agrees as much
    assert (found.clusters[["jaccard_p", "in_group_p"]] <= 0.1).all(axis=None)
    assert_allclose(found.weights[["first", "second"]].sum(), 1.0)
    assert (found.clusters["first"].sum(), found.clusters["refitted"].sum()) == (80, 80)
    for name in ("concordance", "jaccard", "in_group", "profile"):
        known = found.clusters[[f"{name}_lower", name, f"{name}_upper"]]
        assert (known[f"{name}_lower"] <= known[f"{name}_upper"]).all()
    assert CUTS in str(found)


def test_the_same_seed_gives_the_same_numbers_whatever_the_number_of_jobs(halves, found):
    again = vl.replicate(halves[0], halves[1], n_permutations=19, n_continuum=0, n_jobs=2)
    pd.testing.assert_frame_equal(found.clusters, again.clusters)
    pd.testing.assert_frame_equal(found.weights, again.weights)


def test_a_loaded_model_gives_the_same_numbers(halves, tmp_path):
    model, views, _ = halves
    model.save(tmp_path / "model.safetensors")
    fitted, loaded = (
        vl.replicate(one, views, n_permutations=0, n_continuum=0)
        for one in (model, vl.load(tmp_path / "model.safetensors"))
    )
    pd.testing.assert_frame_equal(fitted.clusters, loaded.clusters)


def test_views_may_be_missing_and_others_are_not_used(halves):
    model, views, _ = halves
    second = {name: views[name] for name in ("blobs2", "blobs0")}
    second["other"] = views["blobs1"]
    some = vl.replicate(model, second, n_permutations=0, n_continuum=0)
    assert list(some.weights.index) == ["blobs0", "blobs2"]
    assert some.verdict == REPLICATED
    assert len(some.notes) == 2
    assert np.isnan(some.overall["p"])


def test_settings_per_view_apply_to_the_views_in_common():
    views, _ = vl.simulate.blobs_views(120, random_state=0)
    kernels = ["linear", "gaussian", "cosine"]
    lam = dict(zip(views.names, (5.0, 10.0, 20.0), strict=True))
    more = {
        "theta": [0.1, 0.2, 0.3],
        "graph": ["knn"] * 3,
        "scale": {"blobs0": "centre", "blobs1": None, "blobs2": "unit"},
    }
    model = vl.KernelMultiviewNMF(3, kernel=kernels, lam=lam, random_state=0, **more).fit(views[:60])
    second = views[60:].select(["blobs0", "blobs2"])
    refit = vl.replicate(model, second, n_permutations=0, n_continuum=0).refit
    assert refit.kernel == {"blobs0": "linear", "blobs2": "cosine"}
    assert refit.lam == {"blobs0": 5.0, "blobs2": 20.0}
    assert refit.theta == {"blobs0": 0.1, "blobs2": 0.3}
    assert refit.graph == {"blobs0": "knn", "blobs2": "knn"}
    assert refit.scale == {"blobs0": "centre", "blobs2": "unit"}


def test_sizes_of_the_first_cohort_are_those_of_its_subjects_also_with_landmarks():
    views, _ = vl.simulate.blobs_views(260, random_state=0)
    model = vl.KernelMultiviewNMF(3, factored=40, random_state=0).fit(views[:200])
    found = vl.replicate(model, views[200:], n_permutations=0, n_continuum=0)
    assert_array_equal(found.clusters["first"], np.bincount(model.labels_, minlength=3))


def test_a_single_view_is_compared_with_a_gaussian_cohort():
    views, _ = vl.simulate.blobs_views(120, n_views=1, n_features=10, separation=6.0, random_state=0)
    model = vl.KernelMultiviewNMF(3, random_state=0).fit(views[:60])
    single = vl.replicate(model, views[60:], n_permutations=39)
    assert single.verdict == REPLICATED
    assert single.overall["continuum_p"] == single.overall["p"] == 0.025
    with pytest.raises(vl.InputError, match="at least 19"):
        vl.replicate(model, views[60:], n_permutations=0)


@pytest.mark.parametrize("scale", ["standard", "centre", "unit", None])
def test_gaussian_cohorts_are_scaled_as_a_fit_of_their_own_would(rng, scale):
    X = 5.0 + rng.standard_normal((12, 3)) * [1.0, 2.0, 3.0]
    scaler = fit_scaler(scale, rng.standard_normal((9, 3)))
    expected = fit_scaler(scale, X).transform(X) if scale in ("standard", "centre") else X
    assert_allclose(rescaled(np.vstack([X, np.full(3, np.nan)]), scaler)[:12], expected)


def test_own_preparation_is_for_the_refit_only(halves):
    model, views, _ = halves
    own = vl.Views({name: 3.0 * X[:, :6] + 1.0 for name, X in views.items()})
    both = vl.replicate(model, views, own=own, n_permutations=0, n_continuum=0)
    assert_array_equal(both.labels["transferred"], model.predict(views))
    assert [len(names) for names in both.refit.view_features_.values()] == [6, 6, 6]


def test_a_cohort_without_anything_in_common_is_refused(halves):
    views = halves[1]
    rows = pd.DataFrame(views["blobs0"])
    for second in (
        {"other": views["blobs0"]},
        {"blobs0": rows.set_axis([f"gene{j}" for j in range(8)], axis=1), "x": views["blobs1"]},
    ):
        named = vl.KernelMultiviewNMF(3, random_state=0)
        named.fit({name: pd.DataFrame(X).add_prefix("f") for name, X in views.items()})
        with pytest.raises(vl.InputError, match="no view in common") as error:
            vl.replicate(named, second)
        assert "\n" not in str(error.value)


def test_wrong_arguments_are_refused(halves):
    model, views, _ = halves
    with pytest.raises(vl.InputTypeError, match="needs a KernelMultiviewNMF"):
        vl.replicate(vl.MultiviewNMF(3), views)
    for settings in ({"n_permutations": 5}, {"n_resamples": 0}, {"n_continuum": -1}):
        with pytest.raises(vl.InputError, match=next(iter(settings))):
            vl.replicate(model, views, **settings)
    with pytest.raises(vl.InputError, match="must be the same"):
        vl.replicate(model, views, own=views[:50])


def benchmark():
    spec = importlib.util.spec_from_file_location("replication_benchmark", BENCHMARK)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("family", ["unrelated views", "noise", "other locations"])
def test_cohorts_without_shared_structure_are_not_replicated(family):
    assert benchmark().rates(family, 5, 1)[NOT] >= 0.8  # the benchmark measures the rate itself


def test_planted_structure_is_replicated():
    assert benchmark().rates("planted, 60 subjects", 5, 1)[REPLICATED] >= 0.8


def test_a_continuum_comes_with_a_caution():
    assert benchmark().verdict_of("continuum", 0)[1]


def test_halves_of_a_real_cohort_replicate_and_permuted_rows_do_not(data_dir):
    path = data_dir / "cohorts" / "brca348.npz"
    if not path.exists():
        pytest.skip("brca348 not found")
    with np.load(path) as data:
        views = vl.Views({name: data[name] for name in data.files if name.startswith("view")})
    order = np.random.default_rng(0).permutation(len(views))
    first, second = views[order[:174]], views[order[174:]]
    model = vl.KernelMultiviewNMF(2, random_state=0).fit(first)
    assert vl.replicate(model, second, n_permutations=0, n_continuum=0).verdict == REPLICATED
    for seed in (1, 2, 3):
        rng = np.random.default_rng(seed)
        shuffled = vl.Views({name: X[rng.permutation(len(X))] for name, X in second.items()})
        assert vl.replicate(model, shuffled, n_permutations=0, n_continuum=0).verdict == NOT
