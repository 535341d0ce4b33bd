"""Models of views with categorical columns: fit, predict, save and importance."""

import warnings

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score
from sklearn.model_selection import GridSearchCV
from sklearn.preprocessing import StandardScaler

import viewloom as vl
from viewloom import InputError, KernelMultiviewNMF, Views
from viewloom.blocks import Blocks

Y = np.repeat([0, 1, 2], 30)
N = len(Y)


def sampled(seed, y=Y):
    """Three clusters in every column but one."""
    rng = np.random.default_rng(seed)
    grade = np.clip(np.round(rng.normal(1.5 * y, 0.5)), 0, 3).astype(int)
    site = np.where(rng.random(len(y)) < 0.85, y, rng.integers(0, 3, len(y)))
    return pd.DataFrame(
        {
            "age": rng.normal(3.0 * y, 1.0),
            "grade": pd.Categorical.from_codes(grade, ["0", "I", "II", "III"], ordered=True),
            "site": np.array(["north", "south", "west"])[site],
            "noise": pd.Categorical(rng.choice(list("pqrs"), len(y))),
        }
    )


def views_of(seed, y=Y):
    rng = np.random.default_rng(seed + 1000)
    return {"clinical": sampled(seed, y), "mri": rng.normal(2.0 * y[:, None], 1.0, (len(y), 3))}


@pytest.fixture(scope="module")
def model():
    return KernelMultiviewNMF(3, random_state=0).fit(views_of(0))


def test_planted_clusters_are_found_and_predicted(model):
    assert adjusted_rand_score(Y, model.labels_) > 0.9
    assert adjusted_rand_score(Y, model.predict({"clinical": sampled(1)})) > 0.75
    assert model.n_features_in_ == 7


def test_labels_do_not_depend_on_names_or_codes_of_levels(model):
    views = views_of(0)
    names = {"north": "z", "south": "y", "west": "x"}
    views["clinical"] = views["clinical"].assign(
        site=pd.Categorical(views["clinical"]["site"].map(names)),
        grade=views["clinical"]["grade"].cat.rename_categories(["a", "d", "c", "b"]),
    )
    other = KernelMultiviewNMF(3, random_state=0).fit(views)
    assert_allclose(other.memberships_, model.memberships_, atol=1e-6)


@pytest.mark.parametrize("settings", [{}, {"kernel": "linear"}, {"factored": 40}], ids=str)
def test_saved_models_place_samples_where_they_did(tmp_path, settings):
    fitted = KernelMultiviewNMF(3, random_state=0, **settings).fit(views_of(0))
    fitted.save(tmp_path / "m.safetensors")
    assert_array_equal(
        vl.load(tmp_path / "m.safetensors").transform(views_of(2)), fitted.transform(views_of(2))
    )


def test_landmarks_are_samples_and_are_not_averaged(tmp_path):
    fitted = KernelMultiviewNMF(3, factored=40, random_state=0).fit(views_of(0))
    assert adjusted_rand_score(Y, fitted.labels_) > 0.7
    assert not fitted.needs_no_training_rows
    with pytest.raises(InputError):
        fitted.save(tmp_path / "m.safetensors", store="landmarks")


@pytest.mark.parametrize("wrap", [Views, dict])
def test_blocks_of_rows_have_the_levels_of_the_fit(model, wrap):
    new = views_of(3)
    blocks = [model.transform(block) for block in Blocks(wrap(new), rows=16)]
    assert_allclose(np.vstack(blocks), model.transform(new), atol=1e-6)


def test_parquet_files_keep_categories(model, tmp_path):
    pytest.importorskip("pyarrow")
    new = views_of(3)
    new["clinical"].to_parquet(tmp_path / "clinical.parquet")
    given = {"clinical": tmp_path / "clinical.parquet", "mri": new["mri"]}
    assert_allclose(model.transform(given), model.transform(new), atol=1e-6)


def test_categories_of_dask_are_refused():
    dask = pytest.importorskip("dask.dataframe")
    with pytest.raises(ValueError, match="2 columns of a Dask frame are categorical: 'grade', 'noise'"):
        KernelMultiviewNMF(3).fit({"clinical": dask.from_pandas(sampled(0), npartitions=2)})


def test_unseen_levels_are_counted_in_a_warning_without_their_names(model):
    new = sampled(1)
    new.loc[:3, "site"] = "secret"
    with pytest.warns(UserWarning, match=r"Some of 90 .*: 4 in column 'site' of view 'clinical'") as caught:
        U = model.transform({"clinical": new})
    assert "secret" not in str(caught[0].message)
    assert np.isfinite(U).all()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.transform({"clinical": sampled(1)})


def test_samples_may_lack_the_view(model):
    new = views_of(1)
    new["clinical"] = new["clinical"].astype({"grade": object})
    new["clinical"].iloc[5] = None
    new["clinical"]["grade"] = pd.Categorical(new["clinical"]["grade"], ["0", "I", "II", "III"], ordered=True)
    assert_allclose(model.transform(new)[5], model.transform({"mri": new["mri"]})[5], atol=1e-9)


def test_predictor_gives_the_same(model):
    new, predictor = views_of(1), model.predictor()
    for _ in range(2):
        assert_array_equal(predictor.predict(new), model.predict(new))


@pytest.mark.parametrize("kernel", ["diffusion", "linear"])
def test_importance_has_one_row_per_column_and_levels_below(kernel):
    fitted = KernelMultiviewNMF(3, kernel=kernel, random_state=0).fit(views_of(0))
    found = fitted.feature_importance("clinical")
    assert sorted(found["feature"]) == ["age", "grade", "noise", "site"]
    assert found["feature"].iloc[-1] == "noise"
    assert set(found.attrs["levels"]) == {"site", "noise"}
    assert list(found.attrs["levels"]["site"]) == ["north", "south", "west"]
    if kernel == "diffusion":
        assert_allclose([sum(row) for row in found.attrs["levels"]["site"].values()], 1.0)
        assert np.argmax([*found.attrs["levels"]["site"].values()], axis=1).tolist() == [
            np.argmax(np.bincount(fitted.labels_[c == Y])) for c in range(3)
        ]


def test_importance_of_a_linear_kernel_combines_dummies():
    views = Views(sampled(0))
    mixed = KernelMultiviewNMF(3, kernel="linear", random_state=0).fit(views).feature_importance()
    plain = KernelMultiviewNMF(3, kernel="linear", scale=None, random_state=0).fit(views.encoded())
    rows = plain.feature_importance().set_index("feature")["importance"]
    site = np.sqrt(sum(rows[f"site={level}"] ** 2 for level in ("north", "south", "west")))
    assert_allclose(mixed.set_index("feature").loc[["age", "site"], "importance"], [rows["age"], site])


def test_grids_and_clones(model):
    assert clone(model).get_params() == model.get_params()
    search = GridSearchCV(KernelMultiviewNMF(3, random_state=0), {"lam": [1.0, 10.0]}, cv=2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert np.isfinite(search.fit(Views(views_of(0))).cv_results_["mean_test_score"]).all()


def frame(**changes):
    return {"clinical": sampled(1).assign(**changes)}


REFUSED = {
    "numeric in fit": (frame(age="old"), "columns 'age' are not numeric, but they were in fit"),
    "levels in fit": (frame(site=1.0), "columns 'site' have levels, but they are numbers here"),
    "array": ({"clinical": np.ones((4, 4))}, "'grade', 'site', 'noise' have levels"),
    "text for numbers": (
        {"mri": pd.DataFrame({"x": ["a"], "y": ["b"], "z": ["c"]})},
        "View 'mri' has 3 categorical",
    ),
}


@pytest.mark.filterwarnings("ignore:Features of 1 views")
@pytest.mark.parametrize(("new", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_columns_of_another_kind_are_refused(model, new, message):
    with pytest.raises(InputError, match=message):
        model.predict(new)


@pytest.mark.parametrize("scale", [None, "unit"])
def test_other_scales_are_refused(scale):
    with pytest.raises(
        InputError, match="View 'clinical' has categorical columns, which are encoded with scale="
    ):
        KernelMultiviewNMF(3, scale=scale).fit(views_of(0))


@pytest.mark.parametrize("estimator", [vl.ConcatenatedNMF(3), vl.GraphNMF(3), vl.MultiviewNMF(3)], ids=str)
def test_other_estimators_refuse_categories(estimator):
    with pytest.raises(InputError, match="View 'clinical' has 3 categorical columns"):
        estimator.fit(Views(views_of(0)))


def test_other_transformers_and_estimators_get_encoded_views():
    views = Views(views_of(0))
    with pytest.raises(ValueError, match="categorical columns"):
        vl.PerView(StandardScaler()).fit(views)
    assert adjusted_rand_score(Y, KMeans(3, n_init=3, random_state=0).fit_predict(views.encoded())) > 0.7


def test_a_precomputed_kernel_has_no_categories():
    with pytest.raises(InputError, match="is not a precomputed kernel"):
        KernelMultiviewNMF(3, kernel={"clinical": "precomputed", "mri": "linear"}).fit(views_of(0))
