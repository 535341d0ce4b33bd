"""scikit-learn's own checks, and its tools on Views."""

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.impute import SimpleImputer
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from viewloom import KernelMultiviewNMF, PerView, Views

MODELS = [
    KernelMultiviewNMF(n_clusters=3, random_state=0),
    KernelMultiviewNMF(n_clusters=3, kernel="gaussian", random_state=0),
    KernelMultiviewNMF(n_clusters=3, kernel="linear", theta=0.0, random_state=0),
]


@parametrize_with_checks(MODELS)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def two_views(n=60):
    rng = np.random.default_rng(0)
    y = np.arange(n) % 3
    centres = [4.0 * rng.standard_normal((3, d)) for d in (3, 5)]
    frames = [pd.DataFrame(c[y] + rng.standard_normal((n, c.shape[1]))) for c in centres]
    return Views({"mri": frames[0].add_prefix("m"), "pet": frames[1].add_prefix("p")}), y


def test_grid_search_ranks_by_the_held_out_score():
    views, _ = two_views()
    search = GridSearchCV(KernelMultiviewNMF(3, random_state=0), {"lam": [1.0, 10.0]}, cv=3).fit(views)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert search.best_estimator_.view_names_ == ["mri", "pet"]


def test_cross_validate_scores_every_fold():
    views, _ = two_views()
    scores = cross_validate(KernelMultiviewNMF(3, random_state=0), views, cv=4, error_score="raise")
    assert scores["test_score"].shape == (4,)


def test_pipeline_prepares_every_view_on_its_own():
    views, _ = two_views()
    blocks = {name: X.copy() for name, X in views.items()}
    blocks["mri"][3, 1] = np.nan  # one cell of an observed row
    pipeline = make_pipeline(
        PerView(SimpleImputer()), PerView(StandardScaler()), KernelMultiviewNMF(3, random_state=0)
    )
    labels = pipeline.fit_predict(blocks)
    assert (pipeline.predict(blocks) == labels).mean() > 0.95


def test_views_are_a_matrix_to_single_view_estimators():
    views, _ = two_views()
    expected = KMeans(3, n_init=2, random_state=0).fit_predict(np.hstack(views.blocks))
    np.testing.assert_array_equal(KMeans(3, n_init=2, random_state=0).fit_predict(views), expected)


def test_clone_and_pickle_keep_the_model():
    views, _ = two_views()
    model = KernelMultiviewNMF(3, kernel={"mri": "linear", "pet": "gaussian"}, random_state=0).fit(views)
    assert clone(model).get_params()["kernel"] == model.kernel
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.transform(views), model.transform(views))
    assert len(pickle.loads(pickle.dumps(views))) == len(views)


def test_set_output_gives_frames():
    views, _ = two_views()
    U = KernelMultiviewNMF(3, random_state=0).set_output(transform="pandas").fit_transform(views)
    assert list(U.columns) == [f"kernelmultiviewnmf{j}" for j in range(3)]


def test_columns_are_matched_by_name():
    views, _ = two_views()
    frames = {name: pd.DataFrame(X, columns=views.feature_names[name]) for name, X in views.items()}
    model = KernelMultiviewNMF(3, random_state=0).fit(frames)
    shuffled = {name: frame[frame.columns[::-1]] for name, frame in frames.items()}
    np.testing.assert_array_equal(model.transform(shuffled), model.transform(frames))
    with pytest.raises(ValueError, match="'pet'"):
        model.predict({"pet": frames["pet"].rename(columns={"p0": "q"})})
