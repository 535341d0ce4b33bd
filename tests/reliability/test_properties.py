"""Whatever is passed in, the answer is valid or an error that names the view or the parameter."""

import inspect
import math
import traceback
import warnings
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
import sklearn.utils.validation
from hostile import Case, Recipe, cases, no_hang, problems, recipes
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import viewloom as vl
from viewloom.kernels.nystroem import Nystroem
from viewloom.kernels.pairwise import Precomputed
from viewloom.metrics import clustering_accuracy, clustering_report, mirkin_index, purity_score

LIBRARY = str(Path(vl.__file__).parent)
CHECKS = str(Path(sklearn.utils.validation.__file__).parent)
EXACT = {"exponent": 0, "dtypes": ("float64", "int64", "int8", "uint16", "bool")}  # where rounding is small
FORMS = [("simplex", 0.5), ("simplex", 0.5), ("simplex", 1.0), ("simplex", 0.0)]


def explained(error, words):
    """Whether an error is raised on purpose, here or by scikit-learn's checks, and says what is at fault."""
    innermost = traceback.extract_tb(error.__traceback__)[-1]
    raised = innermost.filename.startswith((LIBRARY, CHECKS)) and innermost.line.startswith("raise")
    return raised and any(word in str(error) for word in words)


def attempt(call, words):
    """What a call returns, or None if it refused in words that help."""
    with no_hang(), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        try:
            return call()
        except (ValueError, TypeError) as error:
            if isinstance(error, np.linalg.LinAlgError) or not explained(error, words):
                raise
            return None


def assert_memberships(U, n, k):
    assert U.shape == (n, k)
    assert np.isfinite(U).all()
    assert (U >= 0.0).all()
    assert_allclose(U.sum(axis=1), 1.0, atol=1e-5)


def assert_valid(model, n, k):
    assert_memberships(model.memberships_, n, k)
    assert_array_equal(model.labels_, model.memberships_.argmax(axis=1))
    for U in model.view_memberships_:
        seen = ~np.isnan(U).all(axis=1)
        assert_memberships(U[seen], int(seen.sum()), k)
    assert (model.view_weights_ >= 0.0).all()
    assert math.isclose(model.view_weights_.sum(), 1.0, rel_tol=1e-9)
    assert np.isfinite(model.history_["objective"]).all()
    assert len(model.history_["objective"]) == model.n_iter_


def assert_descent(model, size):
    """The objective never rises, up to rounding of sums of about this size."""
    J = np.array(model.history_["objective"])
    assert (np.diff(J) <= 1e-7 * np.abs(J[:-1]) + 1e-9 * size).all(), J


def words_of(model, case):
    return [*map(repr, case.names), *inspect.signature(type(model)).parameters, "samples"]


@st.composite
def settings_of_ours(draw):
    membership, sharpness = draw(st.sampled_from(FORMS))
    return {
        "kernel": draw(
            st.sampled_from(
                [
                    "diffusion",
                    "diffusion",
                    "gaussian",
                    "linear",
                    "polynomial",
                    "cosine",
                    Nystroem("gaussian", 5),
                ]
            )
        ),
        "membership": membership,
        "sharpness": sharpness,
        "calibrate": draw(st.booleans()),
        "normalize": draw(st.booleans()),
        "scale": draw(st.sampled_from(["auto", "auto", "standard", "unit", None])),
        "graph": draw(st.sampled_from(["knn", "gaussian", None])),
        "lam": draw(st.sampled_from([10.0, 0.0, 1e-3, 1e6])),
        "theta": draw(st.sampled_from([0.1, 0.0, 100.0])),
        "gamma": draw(st.sampled_from([2.0, 0.0, 0.5, 1.0, 1.01, 80.0])),
        "init": draw(st.sampled_from(["kkmeans", "kkmeans", "random"])),
        "random_state": draw(st.integers(0, 99)),
        "max_iter": 15,
    }


placings = st.sampled_from(["all views", "first view", "score"])


def assert_placed(model, case, views, how):
    """The training samples as new ones: with all views, with the first alone, or scored."""
    words = words_of(model, case)
    if how == "score":
        assert math.isfinite(attempt(lambda: model.score(views), words))
        return
    given = dict(list(views.items())[:1]) if how == "first view" else views
    U = attempt(lambda: model.transform(given), words)
    if U is not None:  # else somebody lacks the first view
        assert_memberships(U, case.n, case.k)


@cases(180)
@given(problems(), settings_of_ours(), placings)
def test_exact_kernels(case, settings, how):
    model = vl.KernelMultiviewNMF(case.k, factored=False, **settings)
    views = case.views()
    if attempt(lambda: model.fit(views), words_of(model, case)) is None:
        return
    assert_valid(model, case.n, case.k)
    if case.within(**EXACT) and settings["sharpness"] > 0.0:
        assert_descent(model, 1.0 if settings["calibrate"] else 100.0 * case.n)
    assert_placed(model, case, views, how)


@cases(40)
@given(
    problems(),
    settings_of_ours(),
    st.sampled_from([2, 3, 5, True]),
    st.sampled_from(["serial", "threads"]),
    placings,
)
def test_kernels_on_landmarks(case, settings, factored, backend, how):
    model = vl.KernelMultiviewNMF(case.k, factored=factored, backend=backend, **settings)
    views = case.views()
    if attempt(lambda: model.fit(views), [*words_of(model, case), "landmarks"]) is not None:
        assert_valid(model, case.n, case.k)
        assert_placed(model, case, views, how)


@cases(60)
@given(
    st.integers(1, 10),
    st.integers(1, 4),
    st.sampled_from(["psd", "rank one", "indefinite", "negative", "zero", "asymmetric", "nan", "oblong"]),
    st.sampled_from(["C", "F", "read-only", "csr", "frame"]),
    st.sampled_from([0, 0, 0, -50, 50]),
    st.booleans(),
    st.integers(0, 999),
)
def test_precomputed_kernels(n, k, kind, layout, exponent, normalize, seed):
    rng = np.random.default_rng(seed)
    K = GRAMS[kind](rng, n) * 10.0**exponent
    case = Case(n, k, [Recipe(1, "normal", "float64", layout, 0, 0.0, None, 0)])
    gram = case.recipes[0].contain(K)
    model = vl.KernelMultiviewNMF(k, kernel=Precomputed(), normalize=normalize, random_state=0, max_iter=10)
    if attempt(lambda: model.fit({"v0": gram}), words_of(model, case)) is not None:
        assert_valid(model, n, k)
        assert kind not in ("nan", "oblong", "zero")


def _gram(rng, n, rank):
    X = rng.standard_normal((n, rank))
    return X @ X.T


def _with_nan(K):
    K[0, -1] = np.nan
    return K


GRAMS = {
    "psd": lambda rng, n: _gram(rng, n, n),
    "rank one": lambda rng, n: _gram(rng, n, 1),
    "indefinite": lambda rng, n: _gram(rng, n, n) - 2.0 * np.eye(n),
    "negative": lambda rng, n: -_gram(rng, n, n),
    "zero": lambda rng, n: np.zeros((n, n)),
    "asymmetric": lambda rng, n: rng.standard_normal((n, n)),
    "nan": lambda rng, n: _with_nan(_gram(rng, n, n)),
    "oblong": lambda rng, n: rng.standard_normal((n, n + 1)),
}


@cases(260)
@given(
    problems(),
    st.sampled_from([vl.GraphNMF, vl.ConcatenatedNMF, vl.MultiviewNMF]),
    st.sampled_from(["gaussian", "knn", None]),
    st.sampled_from([1.0, 0.0, 1e-3, 1e4]),
    st.sampled_from([0.0, 1.0, 2.0, 80.0]),
    st.sampled_from(["kmeans", "random"]),
    st.sampled_from([True, True, True, False]),
)
def test_baselines(case, estimator, graph, theta, gamma, init, positive):
    weights = {"gamma": gamma} if estimator is vl.MultiviewNMF else {}
    model = estimator(case.k, graph=graph, theta=theta, init=init, random_state=0, max_iter=20, **weights)
    views = case.views(positive)
    if estimator is vl.GraphNMF and theta:  # else it refuses all but the first view
        views = {"v0": views["v0"]}
    words = [*words_of(model, case), "one view", "'all views'"]
    if attempt(lambda: model.fit(views), words) is None:
        return
    assert_valid(model, case.n, case.k)
    if case.within(**EXACT):
        assert_descent(model, 100.0 * case.n * (1.0 + theta))
    U = attempt(lambda: model.transform(views), words)
    if U is not None:
        assert_memberships(U, case.n, case.k)


@cases(360)
@given(problems(most_views=4), st.booleans())
def test_views(case, allow_nan):
    data = case.views()
    before = {name: _bytes(X) for name, X in data.items()}
    views = attempt(lambda: vl.Views(data, allow_nan=allow_nan), [*map(repr, case.names), "samples"])
    assert {name: _bytes(X) for name, X in data.items()} == before
    if views is None:
        return
    assert views.names == case.names
    assert views.present.any(axis=1).all()
    for a, X in enumerate(views.blocks):
        seen = X[views.rows(a)]
        values = seen.data if sp.issparse(seen) else seen
        assert X.dtype in (np.float32, np.float64)
        assert not np.isinf(values).any()
        assert allow_nan or np.isfinite(values).all()
    if len(views) > 1:
        back = vl.Views(views[np.arange(len(views))[::-1]][::-1], allow_nan=allow_nan)
        assert_array_equal(back.present, views.present)
        assert_array_equal(np.asarray(back), np.asarray(views))


def _bytes(X):
    if sp.issparse(X):
        return X.tocoo().data.tobytes()
    return repr(X) if isinstance(X, list) else np.asarray(X).tobytes()


WEIRD = {
    "too large for float": [[10**400], [1]],
    "beyond double precision": np.array([["1e4000"], ["1"]]).astype(np.longdouble),
    "text": [["a"], ["b"]],
    "ragged": [[1.0, 2.0], [3.0]],
    "objects": np.array([[object()], [1]]),
    "dates": np.array([["2001-02-03"], ["2004-05-06"]], dtype="datetime64[D]"),
    "complex": np.array([[1j], [2.0]]),
    "empty": np.empty((0, 3)),
    "no features": np.empty((3, 0)),
    "three dimensions": np.zeros((2, 2, 2)),
    "a number": 3.0,
    "nothing": None,
    "masked": np.ma.masked_array([[1.0], [np.inf]], [[0], [0]]),
    "records": np.zeros(3, dtype=[("a", float)]),
    "bytes": np.array([[b"1"], [b"x"]]),
    "all NaN": np.full((3, 2), np.nan),
}


@pytest.mark.parametrize("kind", WEIRD)
@pytest.mark.parametrize(
    "estimator", [vl.KernelMultiviewNMF, vl.GraphNMF, vl.ConcatenatedNMF, vl.MultiviewNMF]
)
def test_what_is_no_view_at_all(kind, estimator):
    words = ["'mri'", "samples", "sample(s)", "feature(s)", "No views"]
    assert attempt(lambda: estimator(2).fit({"mri": WEIRD[kind]}), words) is None


@pytest.mark.parametrize(
    ("value", "refused"),
    [
        (1e59, False),
        (1e61, True),
        (-1e61, True),
        (1e300, True),
        (1e-59, False),
        (1e-62, True),
        (5e-324, True),
    ],
)
@pytest.mark.parametrize("make", [np.asarray, sp.csr_array])
def test_values_that_cannot_be_squared_are_told_and_others_are_computed_with(value, refused, make):
    X = np.random.default_rng(0).integers(-9, 10, (12, 3)) * value
    model = vl.KernelMultiviewNMF(2, random_state=0)
    found = attempt(lambda: model.fit({"pet": make(X)}), ["'pet'"])
    assert (found is None) == refused
    if not refused:
        plain = vl.KernelMultiviewNMF(2, random_state=0).fit({"pet": make(X / value)})
        assert_array_equal(model.labels_, plain.labels_)
        with pytest.raises(ValueError, match=r"'pet' contains 36 values beyond 1e\+60"):
            model.predict({"pet": make(np.full((12, 3), 1e250))})


@pytest.mark.parametrize("value", [1e-30, 1e30])
def test_single_precision_is_left_where_it_does_not_suffice(value):
    X = np.random.default_rng(0).standard_normal((20, 3)) * value
    single, double = (
        vl.KernelMultiviewNMF(2, kernel="polynomial", random_state=0).fit(X.astype(dtype))
        for dtype in (np.float32, np.float64)
    )
    assert_array_equal(single.labels_, double.labels_)
    assert vl.Views(np.ones((3, 2), dtype=np.float32)).blocks[0].dtype == np.float32


def test_no_curvature_at_all():
    X = np.random.default_rng(76).integers(0, 3, (6, 1)).astype(float)
    settings = {"kernel": "linear", "sharpness": 1.0, "lam": 0.0, "theta": 0.0, "max_iter": 15}
    model = vl.KernelMultiviewNMF(3, random_state=0, **settings)
    assert attempt(lambda: model.fit({"v0": X}), []) is not None
    assert_valid(model, 6, 3)


def test_next_to_no_curvature():
    X = np.random.default_rng(0).normal(size=(3, 1))  # its mean is zero but for rounding
    model = vl.KernelMultiviewNMF(1, kernel="linear", lam=0.0, theta=0.0, normalize=False, calibrate=False)
    assert attempt(lambda: model.fit(X), []) is not None
    assert_valid(model, 3, 1)
    assert_descent(model, 3.0)


def test_a_view_in_which_all_are_alike_but_for_rounding():
    views = {"a": np.array([[1.0], [2.0]]), "b": np.array([[0.3], [0.4]], dtype=np.float32)}
    model = vl.KernelMultiviewNMF(2, scale="unit", random_state=0)
    assert attempt(lambda: model.fit(views), []) is not None
    assert_valid(model, 2, 2)


def test_sharpness_needs_memberships_that_sum_to_one():
    with pytest.raises(ValueError, match="pass sharpness=0"):
        vl.KernelMultiviewNMF(2, membership="nonnegative").fit(np.eye(4))


@cases(160)
@given(
    st.lists(st.sampled_from([0, 1, 2, -1, 7]), min_size=0, max_size=12),
    st.sampled_from([None, 1, -1]),
    st.sampled_from(["int8", "int64", "bool", "float32", "object", "str"]),
    st.randoms(use_true_random=False),
)
def test_metrics(y, cut, dtype, random):
    labels = random.sample(y, len(y))[:cut]
    truth, found = np.array(y, dtype=dtype), np.array(labels, dtype=dtype)
    scores = attempt(lambda: clustering_report(truth, found), ["samples", "labels", "y_true"])
    if len(y) != len(labels) or not y:
        return
    assert scores is not None
    assert all(-1e-12 <= scores[name] <= 1.0 + 1e-12 for name in ("Acc", "NMI", "RI", "MI", "purity"))
    assert scores["Acc"] <= scores["purity"] + 1e-12
    assert math.isclose(scores["RI"] + mirkin_index(truth, found), 1.0)
    assert clustering_accuracy(truth, truth) == purity_score(truth, truth) == 1.0


@cases(60)
@given(st.lists(recipes, min_size=1, max_size=2), st.data())
def test_parameters_out_of_range_are_named(views, data):
    case = Case(8, 2, views)
    name, value = data.draw(st.sampled_from(BAD_PARAMETERS))
    model = vl.KernelMultiviewNMF(2).set_params(**{name: value})
    assert attempt(lambda: model.fit(case.views()), [*words_of(model, case), "sigma"]) is None


BAD_PARAMETERS = [
    *(("n_clusters", value) for value in (0, -1, 2.5, "2", None, np.nan, 9)),
    *(("lam", value) for value in (-1.0, np.nan, np.inf, [1.0] * 9, {"other": 1.0}, "much")),
    *(("theta", value) for value in (-1.0, np.nan, [1.0] * 9)),
    *(("gamma", value) for value in (-1.0, np.nan, "two")),
    *(("kernel", value) for value in ("rbf", 3, ["linear"] * 9, None)),
    *(("graph", value) for value in ("rbf", 3)),
    *(("sharpness", value) for value in (-0.1, 1.1, np.nan)),
    *(("tol", value) for value in (-1.0, np.nan, None)),
    *(("max_iter", value) for value in (0, 1.5)),
    *(("init", value) for value in ("other", np.zeros((3, 2)), np.full((8, 2), np.nan), -np.ones((8, 2)))),
    *(("factored", value) for value in (1, "yes", 2.5)),
    *(("membership", value) for value in ("hard", None)),
    *(("scale", value) for value in ("minmax", 2)),
    *(("backend", value) for value in ("cluster", None)),
    *(("random_state", value) for value in (-1, "seed")),
]
