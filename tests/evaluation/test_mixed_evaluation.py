"""Twins, tests and profiles of features with levels, against naive loops."""

import numpy as np
import pandas as pd
import pytest
import scipy.stats
from numpy.testing import assert_allclose, assert_array_equal

import viewloom as vl
from viewloom.clinical.held_out import compared_columns
from viewloom.clinical.used import used_for_clustering
from viewloom.data.mixed import mixed_block
from viewloom.evaluation.feature_tests import explained, permutation_p
from viewloom.evaluation.twins import draw_twin
from viewloom.inspection import cluster_profiles, consensus_axis

N = 150


def sampled(seed=0, strength=0.0):
    """A factor that all columns share, with one cloud of samples."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=N)

    def noisy():
        return 0.7 * z + 0.7 * rng.normal(size=N) + strength * (np.arange(N) % 3)

    clinical = pd.DataFrame(
        {
            "score": noisy(),
            "grade": pd.Categorical.from_codes(np.digitize(noisy(), [-0.5, 0.6]), list("abc"), ordered=True),
            "site": pd.Categorical.from_codes(np.digitize(noisy(), [-0.8, 0.3, 0.9]), ["n", "s", "w", "e"]),
            "sex": pd.Categorical(np.where(noisy() > 0.2, "f", "m")),
        }
    )
    return {"clinical": clinical, "mri": pd.DataFrame({f"r{j}": noisy() for j in range(3)})}


@pytest.fixture(scope="module")
def views():
    return vl.Views(sampled())


def test_twins_keep_the_number_of_samples_of_each_level(views):
    twin = draw_twin(views, 0)["clinical"]
    block = views["clinical"]
    for j in block.categorical:
        assert_array_equal(
            np.bincount(twin.cells[:, j].astype(int)), np.bincount(block.cells[:, j].astype(int))
        )
    assert twin.levels == block.levels
    assert not np.array_equal(twin.cells, block.cells)


def test_twins_keep_correlations_of_levels(views):
    def correlations(some):
        return np.corrcoef(np.hstack(some.encoded().blocks).T)

    wanted = correlations(views)
    found = np.mean([correlations(draw_twin(views, seed)) for seed in range(20)], axis=0)
    above = np.triu_indices(len(wanted), 1)
    assert np.corrcoef(wanted[above], found[above])[0, 1] > 0.98
    assert abs(np.polyfit(wanted[above], found[above], 1)[0] - 1.0) < 0.12


def test_absent_views_of_twins_are_absent(views):
    present = np.ones((N, 2), dtype=bool)
    present[:20, 0] = False
    twin = draw_twin(vl.Views(views, present=present), 0)
    assert_array_equal(twin.present, present)
    assert np.isnan(twin["clinical"].cells[:20]).all()


def test_share_explained_is_chi_square_of_nominal_features(views):
    labels = np.arange(N) % 3
    U, frame = np.eye(3)[labels], sampled()["clinical"]
    found = explained(views["clinical"], U)
    table = pd.crosstab(frame["site"], labels)
    chi2 = scipy.stats.chi2_contingency(table, correction=False)[0]
    assert_allclose(found[2], chi2 / N / (table.shape[0] - 1))
    groups = frame["score"].groupby(labels).transform("mean")
    assert_allclose(found[0], groups.var(ddof=0) / frame["score"].var(ddof=0))


def test_p_values_of_levels_are_those_of_permutations(views):
    rng = np.random.default_rng(1)
    U = np.eye(3)[rng.integers(3, size=N)]
    effect, p = permutation_p(views["clinical"], U)
    null = np.array([explained(views["clinical"], U[rng.permutation(N)]) for _ in range(400)])
    assert_allclose(p, (null >= effect).mean(axis=0), atol=0.08)
    assert_allclose(null.mean(axis=0), 2 / (N - 1), rtol=0.2)


def test_held_out_tests_of_nominal_features(views):
    codes = np.arange(N) % 3
    p, effect = compared_columns(codes, views["clinical"])
    table = pd.crosstab(sampled()["clinical"]["site"], codes)
    assert_allclose(p[2], scipy.stats.chi2_contingency(table, correction=False)[1])
    assert ((effect >= 0) & (effect <= 1)).all()


def test_variables_that_are_copies_of_levels_are_found(views):
    site = sampled()["clinical"]["site"]
    people = pd.DataFrame(
        {"where": site.map(dict(zip("nswe", "abcd", strict=True))), "age": np.arange(N) % 40}
    )
    found = used_for_clustering(people, views).set_index(["variable", "view"])
    assert found.loc[("where", "clinical"), "used"]
    assert found.loc[("where", "clinical"), "feature"] == "site"
    assert not found.loc[("age", "clinical"), "used"]


def test_profiles_of_levels(views):
    labels, frame = np.arange(N) % 2, sampled()["clinical"]
    found = cluster_profiles(views, labels, "clinical", ["sex", "site", "grade"])
    second = (frame["sex"] == "m").to_numpy(dtype=float)
    z = (second - second.mean()) / second.std()
    assert_allclose(found.loc["sex"], [z[labels == 0].mean(), z[labels == 1].mean()])
    assert found.loc["site"].isna().all()
    ranks = scipy.stats.zscore(scipy.stats.rankdata(frame["grade"].cat.codes))
    assert_allclose(found.loc["grade"], [ranks[labels == 0].mean(), ranks[labels == 1].mean()])


def test_the_axis_has_levels(views):
    axis = consensus_axis(views)
    assert "site=n" in axis.loadings["clinical"]["feature"].tolist()
    score = abs(np.corrcoef(axis.positions, sampled()["mri"].mean(axis=1))[0, 1])
    assert score > 0.8


def test_numbers_that_keep_their_units():
    block = mixed_block(sampled()["clinical"], "clinical")
    centred = vl.KernelMultiviewNMF(2, scale="centre", random_state=0).fit(
        {"clinical": sampled()["clinical"]}
    )
    scaler = centred.fitted_model_.problem.views[0].scaler
    assert_allclose(scaler.transform(block)[:, 0], block.cells[:, 0] - block.cells[:, 0].mean())


def test_replication_with_levels():
    first, second = (sampled(seed, strength=3.0) for seed in (0, 1))
    model = vl.KernelMultiviewNMF(3, random_state=0).fit(first)
    found = vl.replicate(model, second, n_permutations=0, n_continuum=0, n_resamples=2, random_state=0)
    assert (found.labels["transferred"] == found.labels["refitted"]).mean() > 0.9
