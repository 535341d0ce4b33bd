"""Complete samples: the prepared way gives what the general one gives, whatever the views are like."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import viewloom as vl
from viewloom.models.complete_rows import CompleteRows, Fused, least_positions

N = 90


def cohort(n=N, k=3):
    """A narrow view, which is decorrelated, a wide one and counts, which are not."""
    rng = np.random.default_rng(0)
    y = np.arange(n) % k
    views = {f"v{d}": 3.0 * rng.standard_normal((k, d))[y] + rng.standard_normal((n, d)) for d in (5, 150)}
    rates = rng.uniform(0.05, 1.0, size=(k, 110))
    views["counts"] = rng.poisson(rates[y] * (rng.uniform(size=110) < 0.4)).astype(np.float64)
    return views


def incomplete():
    views = cohort()
    views["v150"][::7] = np.nan
    return views


FITS = {
    "complete": (cohort, {}),
    "training samples without a view": (incomplete, {}),
    "few neighbours": (cohort, {"kernel": vl.kernels.Diffusion(n_neighbors=6)}),
    "all weight on one view": (cohort, {"gamma": 1.0}),
    "other shares": (cohort, {"kernel": vl.kernels.Diffusion(share=0.3)}),
    "landmarks": (cohort, {"factored": 60}),
    "landmarks without a view": (incomplete, {"factored": 60}),
    "landmarks with other numbers of neighbours": (
        cohort,
        {"factored": 60, "kernel": vl.kernels.Diffusion(n_neighbors=18)},
    ),
}


@pytest.fixture(scope="module", params=FITS)
def model(request):
    views, parameters = FITS[request.param]
    return vl.KernelMultiviewNMF(3, random_state=0, **parameters).fit(views()).fitted_model_


def general(model, samples):
    """Consensus memberships by the general way."""
    return model.place(samples).shard.G_star


# new samples, and samples that are nearly or exactly those of training
@pytest.mark.parametrize(("rows", "shift"), [(1, 0.3), (3, 0.3), (40, 0.3), (3, 1e-6), (1, 0.0), (20, 0.0)])
def test_equals_the_general_way(model, rows, shift, monkeypatch):
    monkeypatch.setattr(CompleteRows, "pays", lambda self, m: True)
    rng = np.random.default_rng(1)
    new = {
        name: np.abs(X[:rows] + shift * rng.standard_normal((rows, X.shape[1])))
        for name, X in cohort().items()
    }
    samples = model.scaled(vl.Views(new))
    assert model.complete_rows is not None
    assert_allclose(model.consensus(samples), general(model, samples), atol=1e-7 if rows > 32 else 1e-11)


def test_distances_of_concatenated_features_are_those_of_all_columns(model):
    fusion = model.problem.shared_graph.fusion
    rows, fused = model.complete_rows, model.complete_rows.fused
    scaled = model.scaled(vl.Views(cohort(4)))
    blocks, n = [scaled.scaled[a] for a in range(3)], model.problem.n
    direct = fused.features(blocks)
    pairs = [*zip(blocks, rows.train, strict=True), (direct, fused.train)]
    D = np.stack([((X[:, None] - Y) ** 2).sum(axis=2) for X, Y in pairs])
    whole = np.hstack([part.features(X) for part, X in zip(fusion.parts, blocks, strict=True)])
    expected = ((whole[:, None] - fusion.geometry.X) ** 2).sum(axis=2)
    fused.add(D)
    assert_allclose(D[-1], expected, rtol=1e-9, atol=1e-9)
    positions = np.tile(np.arange(n), (4, 1))
    assert_allclose(fused.gaps(blocks, np.arange(4), positions), expected, rtol=1e-9, atol=1e-12)


def test_only_views_that_are_not_decorrelated_are_summed():
    model = vl.KernelMultiviewNMF(3, random_state=0).fit(cohort()).fitted_model_
    fusion = model.problem.shared_graph.fusion
    assert np.flatnonzero(Fused.of(fusion, complete=True).summed).tolist() == [1, 2]
    assert Fused.of(fusion, complete=False).summed is None


OTHERS = {
    "Gaussian kernels": {"kernel": "gaussian"},
    "no graph": {"theta": 0.0},
    "a dense graph": {"graph": "gaussian"},
    "one kernel alone": {"kernel": [vl.kernels.Diffusion(), "linear", vl.kernels.Diffusion()]},
    "memberships that do not sum to one": {"membership": "nonnegative", "sharpness": 0.0},
    "landmarks, no graph": {"factored": 60, "theta": 0.0},
    "landmarks, memberships that do not sum to one": {
        "factored": 60,
        "membership": "nonnegative",
        "sharpness": 0.0,
    },
}


@pytest.mark.parametrize("what", OTHERS)
def test_other_models_take_the_general_way(what):
    model = vl.KernelMultiviewNMF(3, random_state=0, max_iter=5, **OTHERS[what]).fit(cohort()).fitted_model_
    assert model.complete_rows is None
    assert model.memberships(vl.Views(cohort(4))).shape == (4, 3)


def test_landmarks_of_earlier_versions_take_the_general_way():
    """Their samples are not tied along the concatenated features."""
    model = vl.KernelMultiviewNMF(3, factored=60, random_state=0).fit(cohort()).fitted_model_
    older, new = replace(model, fused=False), vl.Views(cohort(4))
    assert older.complete_rows is None
    assert np.abs(older.memberships(new) - model.memberships(new)).max() > 1e-6


@pytest.mark.parametrize("factored", [False, 60])
def test_samples_without_a_view_take_the_general_way(factored):
    model = vl.KernelMultiviewNMF(3, factored=factored, random_state=0).fit(cohort()).fitted_model_
    lacking = model.scaled(vl.Views(incomplete())[:8])
    assert not lacking.complete(3)
    assert_allclose(model.consensus(lacking), general(model, lacking))


def test_many_samples_take_the_prepared_way_where_views_are_long():
    model = vl.KernelMultiviewNMF(3, random_state=0).fit(cohort()).fitted_model_
    assert model.complete_rows.pays(1)
    assert model.complete_rows.pays(5000)  # 260 columns are multiplied once instead of twice
    del (narrow := cohort())["counts"], narrow["v150"]
    narrow["twice"] = 2.0 + narrow["v5"] ** 3
    model = vl.KernelMultiviewNMF(3, random_state=0).fit(narrow).fitted_model_
    assert model.complete_rows.pays(1)
    assert not model.complete_rows.pays(5000)


@pytest.mark.parametrize("n", [300, 345, 4096, 5000])
def test_least_positions_are_those_of_a_sort(n):
    rng = np.random.default_rng(0)
    D = rng.standard_normal((3, 40, n))
    D[0, :, 5:12] = np.inf  # training samples without a view
    found = np.sort(least_positions(D, 20), axis=2)
    assert_array_equal(found, np.sort(np.argsort(D, axis=2)[..., :20], axis=2))


def test_equal_distances_have_equal_ranks():
    model = vl.KernelMultiviewNMF(3, random_state=0).fit(doubled()).fitted_model_
    samples = model.scaled(vl.Views({name: 1.01 * X[:4] for name, X in cohort().items()}))
    assert_allclose(model.consensus(samples), general(model, samples), atol=1e-11)


def doubled():
    """Every training sample twice, so that neighbours are at equal distances."""
    return {name: np.vstack([X, X]) for name, X in cohort().items()}
