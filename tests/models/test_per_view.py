"""What is set for one view counts for that view, in every estimator that takes settings per view."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import viewloom as vl
from viewloom.kernels.diffusion import Diffusion
from viewloom.kernels.graphs import KNN, GaussianGraph
from viewloom.kernels.nystroem import Nystroem
from viewloom.kernels.pairwise import Gaussian, Polynomial

NAMES = ["a", "b", "c"]
KERNELS = {
    "n_neighbors": (Diffusion(n_neighbors=5), Diffusion(n_neighbors=20)),
    "n_neighbors, no share": (Diffusion(5, share=0.0), Diffusion(20, share=0.0)),
    "time": (Diffusion(), Diffusion(time=30.0)),
    "rank": (Diffusion(), Diffusion(rank=4)),
    "share": (Diffusion(), Diffusion(share=0.1)),
    "share of none": (Diffusion(), Diffusion(share=0.0)),
    "sigma": (Gaussian(1.0), Gaussian(3.0)),
    "degree": (Polynomial(degree=2), Polynomial(degree=3)),
    "coef0": (Polynomial(coef0=1.0), Polynomial(coef0=3.0)),
    "landmarks": (Nystroem(rank=10), Nystroem(rank=20)),
    "landmarks of another kernel": (Nystroem("gaussian", 20), Nystroem("polynomial", 20)),
    "another kernel": ("diffusion", "gaussian"),
}
TERMS = {
    "lam": {"lam": (10.0, 1.0)},
    "theta": {"theta": (0.1, 5.0)},
    "no theta": {"theta": (5.0, 0.0)},
    "neighbours of the graph": {"graph": (KNN(5), KNN(15)), "theta": (5.0, 5.0)},
    "sigma of the graph": {"graph": (GaussianGraph(1.0), GaussianGraph(3.0))},
    "no graph": {"graph": ("knn", None), "theta": (5.0, 5.0)},
}
KERNEL_SETTINGS = {**{f"kernel: {name}": {"kernel": pair} for name, pair in KERNELS.items()}, **TERMS}


def cohort(n=90):
    rng = np.random.default_rng(0)
    y = np.arange(n) % 3
    return {name: np.abs(5 + rng.standard_normal((3, 6))[y] + rng.standard_normal((n, 6))) for name in NAMES}


def per_view(settings, changed):
    """Usual values for all views but the changed one."""
    return {key: {name: pair[name == changed] for name in NAMES} for key, pair in settings.items()}


def found(make, settings):
    model = make(3, random_state=0, max_iter=10, **settings).fit(cohort())
    return np.hstack([model.memberships_, *model.view_memberships_])


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("factored", [False, 60])
@pytest.mark.parametrize("what", KERNEL_SETTINGS)
def test_each_setting_counts_for_each_view(what, factored):
    settings = KERNEL_SETTINGS[what]
    results = [
        found(vl.KernelMultiviewNMF, {**per_view(settings, changed), "factored": factored})
        for changed in (None, *NAMES)
    ]
    assert_all_differ(results)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("what", TERMS)
def test_each_setting_of_the_baseline_counts_for_each_view(what):
    results = [found(vl.MultiviewNMF, per_view(TERMS[what], changed)) for changed in (None, *NAMES)]
    assert_all_differ(results)


def assert_all_differ(results):
    for i, one in enumerate(results):
        for other in results[:i]:
            assert not np.array_equal(one, other, equal_nan=True)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("factored", [False, 60])
@pytest.mark.parametrize("what", ["kernel: n_neighbors", "lam", "theta", "no graph"])
def test_lists_dicts_and_one_value_for_all_say_the_same(what, factored):
    by_name = per_view(KERNEL_SETTINGS[what], "b")
    by_place = {key: list(values.values()) for key, values in by_name.items()}
    shuffled = {key: dict(reversed(values.items())) for key, values in by_name.items()}
    one, *others = (
        found(vl.KernelMultiviewNMF, {**settings, "factored": factored})
        for settings in (by_name, by_place, shuffled)
    )
    for other in others:
        assert_array_equal(one, other)
    same = {key: pair[0] for key, pair in KERNEL_SETTINGS[what].items()}
    repeated = {key: dict.fromkeys(NAMES, value) for key, value in same.items()}
    assert_array_equal(found(vl.KernelMultiviewNMF, same), found(vl.KernelMultiviewNMF, repeated))


def test_settings_that_are_not_per_view_are_refused_as_such():
    for setting in ({"normalize": {"a": True}}, {"gamma": [2.0, 2.0, 2.0]}, {"sharpness": {"a": 0.5}}):
        with pytest.raises(ValueError, match=f"The '{next(iter(setting))}' parameter"):
            found(vl.KernelMultiviewNMF, setting)
    with pytest.raises(ValueError, match="kernel must have one entry per view"):
        found(vl.KernelMultiviewNMF, {"kernel": {"a": "linear"}})
    with pytest.raises(ValueError, match="scale must have one entry per view"):
        found(vl.KernelMultiviewNMF, {"scale": {"a": "unit"}})
    with pytest.raises(ValueError, match="graph has 2 entries for 3 views"):
        found(vl.KernelMultiviewNMF, {"graph": ["knn", "knn"]})
