"""New samples at fixed centroids: the minimum that small steps lead to, in any form of the model."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import viewloom as vl

VIEWS = ("a", "b", "c")
MIXED = dict(zip(VIEWS, (0.0, 1.0, 10.0), strict=True))
FORMS = {
    "default": {},
    "eight clusters": {"n_clusters": 8},
    "linear": {"kernel": "linear"},
    "unequal degrees": {"kernel": "gaussian", "graph": "gaussian", "theta": 0.01},
    "no graph": {"graph": None, "lam": 1.0},
    "no pull": {"lam": 0.0},
    "a view without pull": {"lam": MIXED},
    "one view chosen": {"gamma": 1.0},
    "one view chosen, some without pull": {"gamma": 1.0, "lam": MIXED},
    "one view heavy": {"gamma": 1.05},
    "mixed centres": {"sharpness": 0.0},
    "hard": {"sharpness": 1.0},
    "landmarks": {"factored": 60},
    "published": {**vl.KernelMultiviewNMF.paper(3).get_params(), "max_iter": 20, "lam": 100.0},
}


def samples(n, rng, absent):
    y = rng.integers(3, size=n)
    centres = np.random.default_rng(0)
    views = {
        name: 1.5 * centres.standard_normal((3, d))[y] + rng.standard_normal((n, d))
        for name, d in zip(VIEWS, (4, 6, 9), strict=True)
    }
    lost = rng.integers(6, size=n) if absent else np.full(n, 9)
    for a, X in enumerate(views.values()):
        X[lost == a] = np.nan
    return views


def small_steps(model, new):
    """`Shard.move`, as often as it takes."""
    placed = model.fitted_model_.place(model.aligned(new))
    shard, message = placed.shard, placed.codebooks
    shard.start(np.full_like(shard.G_star, 1.0 / model.n_clusters))
    for _ in range(2000):
        before = shard.G_star
        shard.move(message, 20)
        if np.abs(shard.G_star - before).max() <= 1e-12:
            break
    return (shard.G_star / shard.G_star.sum(axis=0)).T


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("form", FORMS)
def test_the_minimum_that_small_steps_lead_to(form):
    rng = np.random.default_rng(1)
    model = vl.KernelMultiviewNMF(**{"n_clusters": 3, "random_state": 0, **FORMS[form]})
    model.fit(samples(90, rng, absent=False))
    new = samples(120, rng, absent=True)  # more with the same views than are solved one by one
    expected = small_steps(model, new)
    assert_allclose(model.transform(new), expected, atol=1e-6)
    np.testing.assert_array_equal(model.predict(new), expected.argmax(axis=1))
    few = {name: X[:8] for name, X in new.items()}
    assert_allclose(model.transform(few), expected[:8], atol=1e-6)
