"""The predictor: the results of the estimator, whichever way samples take."""

import re
import warnings

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal

import viewloom as vl
from viewloom.models.fitted import FittedModel

N = 60


def cohort(n=N, named=False):
    """Two dense views and one of counts, in three clusters."""
    rng = np.random.default_rng(0)
    y = np.arange(n) % 3
    views = {f"v{d}": 3.0 * rng.standard_normal((3, d))[y] + rng.standard_normal((n, d)) for d in (4, 7)}
    rates = rng.uniform(0.05, 1.0, size=(3, 110))
    views["counts"] = rng.poisson(rates[y] * (rng.uniform(size=110) < 0.4)).astype(np.float64)
    return {name: pd.DataFrame(X).add_prefix("f") for name, X in views.items()} if named else views


MODELS = {
    "diffusion": vl.KernelMultiviewNMF(3, random_state=0),
    "gaussian": vl.KernelMultiviewNMF(3, kernel="gaussian", random_state=0),
    "landmarks": vl.KernelMultiviewNMF(3, factored=30, random_state=0),
}


@pytest.fixture(scope="module")
def fitted():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {name: model.fit(cohort()) for name, model in MODELS.items()}


@pytest.fixture
def short_ways(monkeypatch):
    """How many samples took the short way, call by call."""
    seen, whole = [], FittedModel.memberships

    def memberships(self, samples, using=None):
        if not isinstance(samples, vl.Views):
            seen.append(samples.n)
        return whole(self, samples, using)

    monkeypatch.setattr(FittedModel, "memberships", memberships)
    return seen


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("rows", [slice(3, 4), slice(0, 20), slice(None)], ids=str)
def test_the_same_bits_as_the_estimator(fitted, short_ways, name, rows):
    model, new = fitted[name], {view: 1.01 * X[rows] for view, X in cohort().items()}
    predictor, expected = model.predictor(), model.transform(new)
    assert_array_equal(expected, model.transform(vl.Views(new)))
    for _ in range(2):  # the first call takes the way of the estimator
        assert_array_equal(predictor.transform(new), expected)
        assert_array_equal(predictor.predict(new), expected.argmax(axis=1))
    assert short_ways == [len(expected)] * 5


def without_counts(views):
    views["counts"][1] = 0.0
    return views


def lacking(views):
    views["v4"][1] = np.nan
    return views


OTHERS = {
    "a missing view": lambda views: {name: views[name] for name in ("v4", "counts")},
    "rows of NaN": lacking,
    "an empty profile of counts": without_counts,
    "a profile whose length underflows": lambda views: views | {"counts": 1e-170 * views["counts"]},
    "single precision": lambda views: {name: X.astype(np.float32) for name, X in views.items()},
    "a list": lambda views: list(views.values()),
    "frames": lambda views: {name: pd.DataFrame(X) for name, X in views.items()},
    "views": vl.Views,
}


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("what", OTHERS)
def test_other_samples_are_passed_to_the_estimator(fitted, short_ways, what):
    model, predictor = fitted["diffusion"], fitted["diffusion"].predictor()
    predictor.predict(cohort())
    short_ways.clear()
    new = OTHERS[what](cohort(5))
    assert_array_equal(predictor.transform(new), model.transform(new))
    assert short_ways == []


BAD = {
    "one cell of NaN": lambda X: np.where(np.arange(X.size).reshape(X.shape) == 1, np.nan, X),
    "infinity": lambda X: np.where(np.arange(X.size).reshape(X.shape) == 1, np.inf, X),
    "huge values": lambda X: X * 1e200,
    "a column less": lambda X: X[:, 1:],
    "a row less": lambda X: X[1:],
    "no rows": lambda X: X[:0],
    "one dimension": lambda X: X[0],
}


@pytest.mark.parametrize("what", BAD)
def test_errors_are_those_of_the_estimator(fitted, what):
    model, predictor = fitted["gaussian"], fitted["gaussian"].predictor()
    predictor.predict(cohort())
    new = cohort(5)
    new["v7"] = BAD[what](new["v7"])
    with pytest.raises(ValueError) as expected:  # noqa: PT011
        model.transform(vl.Views(new))
    with pytest.raises(type(expected.value), match=re.escape(str(expected.value))):
        model.transform(new)
    with pytest.raises(type(expected.value)) as found:
        predictor.transform(new)
    assert str(found.value) == str(expected.value)


def test_names_of_features_are_matched_or_warned_of():
    frames = cohort(named=True)
    model = vl.KernelMultiviewNMF(3, random_state=0).fit(frames)
    predictor = model.predictor()
    with pytest.warns(UserWarning, match="matched by position"):
        predictor.predict(cohort())
    for _ in range(2):  # the estimator warns in every call
        with pytest.warns(UserWarning, match="Features of 3 views .*matched by position"):
            model.transform(cohort())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        predictor.predict(cohort())
    turned = {name: frame[frame.columns[::-1]] for name, frame in frames.items()}
    assert_array_equal(predictor.transform(turned), model.transform(frames))


def test_names_that_are_numbers_out_of_order_are_not_warned_of(short_ways):
    turned = cohort(named=True)
    turned["v4"] = turned["v4"].set_axis(["v4_3", "v4_2", "v4_1", "v4_0"], axis=1)
    model = vl.KernelMultiviewNMF(3, random_state=0).fit(turned)
    for new in (cohort(), vl.Views(cohort())):
        with pytest.warns(UserWarning, match="Features of 2 views .*'v7', 'counts'"):
            assert_array_equal(model.transform(new), model.transform(turned))
    assert short_ways == [N]


def test_only_fitted_models_have_one():
    with pytest.raises(ValueError, match="not fitted"):
        vl.KernelMultiviewNMF(3).predictor()
