"""The fitted model: what estimators, searches and reports ask of it."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import viewloom as vl
from viewloom.data.row_sources import Blocks
from viewloom.kernels.geometry import Geometry
from viewloom.kernels.pairwise import PairwiseKernel
from viewloom.models.fitted import ExactModel, LandmarkModel
from viewloom.models.fitting import Parameters, build


def cohort(n=60, seed=0, lacking=True):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 3
    views = {f"v{d}": 2 * rng.standard_normal((3, d))[y] + rng.standard_normal((n, d)) for d in (4, 6)}
    if lacking:
        views["v6"][::5] = np.nan
    return views


@pytest.fixture(scope="module")
def exact():
    return vl.KernelMultiviewNMF(3, random_state=0).fit(cohort())


@pytest.fixture(scope="module")
def tied():
    return vl.KernelMultiviewNMF(3, factored=30, random_state=0).fit(cohort(120))


class TestRefit:
    @pytest.mark.parametrize(
        "changes", [{"lam": 1.0}, {"theta": 1.0, "gamma": 4.0}, {"init": "random", "n_init": 2}, {}]
    )
    def test_gives_what_fit_gives(self, exact, changes):
        expected = vl.KernelMultiviewNMF(3, random_state=0, **changes).fit(cohort())
        found = exact.refit(**changes)
        assert_array_equal(found.memberships_, expected.memberships_)
        assert_array_equal(found.transform(cohort(9, 1)), expected.transform(cohort(9, 1)))
        assert found.get_params() == expected.get_params()
        assert found.n_features_in_ == expected.n_features_in_

    def test_leaves_the_first_as_it_is(self, exact):
        before = exact.memberships_.copy()
        exact.refit(lam=0.0)
        assert_array_equal(exact.memberships_, before)
        assert exact.lam == 10.0

    def test_computes_no_kernel_again(self, exact, monkeypatch):
        expected = exact.refit(gamma=3.0).memberships_
        monkeypatch.setattr("viewloom.models.fitted.build", None)
        assert_array_equal(exact.refit(gamma=3.0).memberships_, expected)

    @pytest.mark.parametrize("name", ["kernel", "graph", "scale", "normalize", "n_clusters"])
    def test_refuses_what_kernels_depend_on(self, exact, name):
        with pytest.raises(ValueError, match=f"depend on .*{name}"):
            exact.fitted_model_.refit(**{name: getattr(exact, name)})

    def test_refuses_a_graph_that_was_not_built(self):
        model = vl.KernelMultiviewNMF(3, theta=[0.0, 0.1], random_state=0).fit(cohort())
        with pytest.raises(ValueError, match="1 views were fitted with theta=0"):
            model.refit(theta=1.0)

    def test_refuses_parameters_that_cannot_be(self, exact):
        with pytest.raises(ValueError, match="gamma"):
            exact.refit(gamma=-1.0)

    def test_refuses_landmarks_and_loaded_models(self, exact, tied, tmp_path):
        with pytest.raises(ValueError, match="landmarks"):
            tied.refit(lam=1.0)
        exact.save(tmp_path / "m.safetensors")
        with pytest.raises(ValueError, match="loaded"):
            vl.load(tmp_path / "m.safetensors").refit(lam=1.0)


class TestMemberships:
    def test_of_all_views_are_those_of_transform(self, exact):
        new = cohort(9, 1)
        assert_array_equal(exact.fitted_model_.memberships(exact.aligned(new)), exact.transform(new))

    @pytest.mark.parametrize("kind", ["exact", "tied"])
    def test_of_some_views_are_those_of_samples_that_have_no_others(self, request, kind):
        model, new = request.getfixturevalue(kind), cohort(10, 1)
        found = model.fitted_model_.memberships(model.aligned(new), using=[1])
        has = ~np.isnan(new["v6"][:, 0])
        np.testing.assert_allclose(found[has], model.transform({"v6": new["v6"][has]}), atol=1e-9)
        assert np.isnan(found[~has]).all()

    def test_need_the_views_of_the_fit(self, exact):
        with pytest.raises(ValueError, match="align them first"):
            exact.fitted_model_.memberships(vl.Views({"v6": cohort()["v4"], "v4": cohort()["v4"]}))


class TestTwoImplementations:
    def test_are_what_they_say(self, exact, tied):
        assert isinstance(exact.fitted_model_, ExactModel)
        assert isinstance(tied.fitted_model_, LandmarkModel)
        assert exact.fitted_model_.holds_training_rows
        assert not tied.fitted_model_.holds_training_rows

    def test_distances_of_training_samples_leave_themselves_out(self, exact):
        views = exact.aligned(cohort())
        own, others = exact.fitted_model_.distances(views), exact.fitted_model_.training_distances(views)
        assert (np.isnan(own) == np.isnan(others)).all()
        assert (own[~np.isnan(own)] < others[~np.isnan(others)]).all()  # each is nearest to itself

    def test_settings_that_share_kernels(self):
        views = vl.Views(cohort())
        models = [vl.KernelMultiviewNMF(3, lam=lam, random_state=0) for lam in (1.0, 10.0)]
        problem = build(views, Parameters.of(models[0]))
        for model in models:
            found = ExactModel.of(problem, views.feature_names, Parameters.of(model))
            assert_array_equal(found.results.memberships, model.fit(views).memberships_)


def test_parameters_are_those_of_the_estimator():
    model = vl.KernelMultiviewNMF()
    assert {name: getattr(Parameters.of(model), name) for name in model.get_params()} == model.get_params()


def test_blocks_are_divided_into_others():
    blocks = Blocks(np.ones((100, 2)), rows=50)
    assert [stop - start for start, stop in blocks.divided(5).ranges] == [20] * 5
    assert [stop - start for start, stop in blocks.ranges] == [50, 50]


def test_distances_are_there_after_a_gaussian_took_their_place():
    X = np.random.default_rng(0).standard_normal((12, 3))
    geometry, other = Geometry(X), Geometry(X)
    K = geometry.gaussian(1.5)
    assert_array_equal(geometry.squared_distances, other.squared_distances)
    assert geometry.gaussian(1.5) is K
    assert_array_equal(geometry.gaussian(0.5), other.gaussian(0.5))


def test_known_classes_may_come_with_views_of_any_form():
    found = vl.select(
        cohort(lacking=False), {"lam": [1.0]}, n_clusters=3, cv=2, y=np.arange(60) % 3, random_state=0,
        progress=False,
    )  # fmt: skip
    assert "reported_ARI" in found.table


def test_a_pairwise_kernel_without_a_tag_still_fits():
    class Local(PairwiseKernel):
        def matrix(self, samples):
            return samples.gaussian(2.0)

        def diagonal(self, samples):
            return np.ones(samples.size)

    assert vl.KernelMultiviewNMF(3, kernel=Local(), random_state=0).fit(cohort()).n_iter_ > 0


class TestReordered:
    """Clusters in another order: the same model, with every result in the new order."""

    ORDER = (2, 0, 1)

    @pytest.mark.parametrize("which", ["exact", "tied"])
    def test_all_results_follow(self, which, request, tmp_path):
        model = request.getfixturevalue(which)
        turned = model.reordered(self.ORDER)
        where = np.argsort(self.ORDER)  # new position of each cluster
        assert_array_equal(turned.labels_, where[model.labels_])
        assert_array_equal(turned.memberships_, model.memberships_[:, self.ORDER])
        for there, here in zip(turned.view_memberships_, model.view_memberships_, strict=True):
            assert_array_equal(there, here[:, self.ORDER])
        turned.save(tmp_path / "model.safetensors")
        new = cohort(30, seed=1)
        for placed in (turned, vl.load(tmp_path / "model.safetensors")):
            np.testing.assert_allclose(
                placed.transform(new), model.transform(new)[:, self.ORDER], rtol=0, atol=1e-9
            )
            assert_array_equal(placed.predict(new), where[model.predict(new)])
            assert placed.score(new) == pytest.approx(model.score(new), rel=1e-9)
        assert_array_equal(turned.fitted_model_.results.labels, turned.labels_)

    @pytest.mark.parametrize("kernel", ["linear", "diffusion"])
    def test_importance_follows(self, kernel):
        model = vl.KernelMultiviewNMF(3, kernel=kernel, random_state=0).fit(cohort())
        there = model.reordered(self.ORDER).feature_importance("v4")
        here = model.feature_importance("v4")
        assert list(there["feature"]) == list(here["feature"])
        for j, old in enumerate(self.ORDER):
            np.testing.assert_allclose(there[f"cluster_{j}"], here[f"cluster_{old}"], rtol=0, atol=1e-9)

    def test_does_not_change_the_model(self, exact):
        before = exact.memberships_.copy(), exact.fitted_model_.codebooks[0].C.copy()
        exact.reordered(self.ORDER)
        assert_array_equal(exact.memberships_, before[0])
        assert_array_equal(exact.fitted_model_.codebooks[0].C, before[1])

    @pytest.mark.parametrize("order", [(0, 1), (0, 1, 1), (1, 2, 3), (0.5, 1, 2)])
    def test_refuses_what_is_not_an_order(self, exact, order):
        with pytest.raises(ValueError, match="each cluster from 0 to 2 once"):
            exact.reordered(order)
