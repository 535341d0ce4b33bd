"""Contributions of views, scores against planted features, weights over seeds and gammas, profiles."""

import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.metrics import roc_auc_score

from viewloom import GraphNMF, KernelMultiviewNMF, Views
from viewloom.data import simulated as simulate
from viewloom.evaluation.inspection import (
    ViewContributions,
    annotate,
    cluster_profiles,
    importance_against_truth,
    view_contributions,
    weights_over_gamma,
    weights_over_seeds,
)

K = 3


def blob(y, seed, separation=6.0, d=4):
    """Gaussians around centres `separation` apart, drawn on a fixed frame."""
    rng = np.random.default_rng(seed)
    centres = np.linalg.qr(rng.standard_normal((d, d)))[0][: y.max() + 1] * separation / np.sqrt(2)
    return centres[y] + rng.standard_normal((len(y), d))


def noise(n, seed, d=4):
    return np.random.default_rng(seed).standard_normal((n, d))


def fit(views, k=K, **settings):
    return KernelMultiviewNMF(k, random_state=0, **settings).fit(views)


@pytest.fixture(scope="module")
def y():
    return np.arange(90) % K


@pytest.fixture(scope="module")
def gaps(y):
    """Two informative views and noise; samples 0-9 lack the first, 80-89 have only the first."""
    views = {"a": blob(y, 0), "b": blob(y, 1), "noise": noise(len(y), 2)}
    views["a"][:10] = np.nan
    views["b"][80:] = np.nan
    views["noise"][80:] = np.nan
    model = fit(views)
    return views, model, view_contributions(model)


class TestContributions:
    @pytest.mark.parametrize(
        ("kernel", "most", "mean"),
        # the graph of all features side by side, which diffusion shares, puts a mean where a view is absent
        [("linear", 1e-4, 1e-5), ("gaussian", 1e-4, 1e-5), ("diffusion", 0.2, 0.02)],
    )
    def test_a_copy_moves_nothing(self, y, kernel, most, mean):
        """Left out, its twin says the same."""
        X = blob(y, 0, separation=3.0)
        said = view_contributions(fit({"one": X, "twin": X.copy()}, kernel=kernel))
        assert said.change.max() < most
        assert said.change.mean() < mean
        assert said.agreement.min() > 1 - 1e-4

    def test_a_lone_informative_view_moves_most(self, y):
        views = {"noise0": noise(60, 5), "told": blob(y[:60], 0), "noise1": noise(60, 6)}
        model = fit(views, init=np.eye(K)[y[:60]], kernel="gaussian")
        said = view_contributions(model)
        assert (said.defining_views() == "told").all()
        means = said.by_cluster()
        assert (means["told"] > 3 * means[["noise0", "noise1"]].max(axis=1)).all()

    def test_the_view_that_alone_defines_a_cluster(self):
        """Both views see the first cluster; only `b` tells the second from the third."""
        y = np.arange(120) % 3
        views = {"a": blob(np.minimum(y, 1), 0), "b": blob(y, 1)}
        model = fit(views, init=np.eye(3)[y], kernel="linear")
        said = view_contributions(model)
        means = said.by_cluster()
        assert means.loc[0].max() < 0.05
        assert (means.loc[[1, 2], "b"] > 0.2).all()
        assert said.defining_views()[[1, 2]].to_list() == ["b", "b"]
        assert means.loc[[1, 2], "a"].max() < 0.1

    def test_nan_only_where_a_view_is_absent_or_alone(self, gaps):
        _, _, said = gaps
        assert np.isnan(said.change[:10, 0]).all()
        assert np.isnan(said.change[80:]).all()
        assert np.isfinite(said.change[10:80]).all()
        assert np.isfinite(said.change[:10, 1:]).all()
        assert np.array_equal(np.isnan(said.agreement), np.arange(90) >= 80)
        assert np.array_equal(np.isnan(said.alone).any(axis=2).T, np.isnan(said.overlap))
        assert np.isfinite(said.consensus).all()

    def test_samples_do_not_depend_on_who_stands_beside_them(self, gaps):
        views, model, said = gaps
        some = [3, 20, 85]
        part = view_contributions(model, {name: X[some] for name, X in views.items()})
        np.testing.assert_allclose(part.change, said.change[some], atol=1e-5)
        np.testing.assert_allclose(part.agreement, said.agreement[some], atol=1e-5)

    def test_equals_transform_with_the_view_taken_away(self, gaps):
        """The definition, through the public door."""
        views, model, said = gaps
        rows = np.arange(10, 80)
        whole = {name: X[rows] for name, X in views.items()}
        without = {**whole, "b": np.full_like(whole["b"], np.nan)}
        moved = np.abs(model.transform(whole) - model.transform(without)).sum(axis=1) / 2
        np.testing.assert_allclose(said.change[rows, 1], moved, atol=1e-5)
        lone = model.transform({"a": whole["a"]})
        np.testing.assert_allclose(said.alone[0, rows], lone, atol=1e-5)

    def test_ranges_and_sums(self, gaps):
        _, model, said = gaps
        for values in (said.change, said.overlap, said.agreement):
            known = values[np.isfinite(values)]
            assert known.min() > -1e-12
            assert known.max() < 1 + 1e-12
        np.testing.assert_allclose(said.consensus.sum(axis=1), 1.0)
        assert np.array_equal(said.labels, model.labels_)

    def test_agreement_drops_where_views_were_shuffled(self, y):
        views = {"a": blob(y, 0), "b": blob(y, 1)}
        views["b"][:9] = views["b"][:9][[1, 2, 0, 4, 5, 3, 7, 8, 6]]  # into the next cluster
        said = view_contributions(fit(views))
        assert said.agreement[:9].max() < 0.5
        assert np.quantile(said.agreement[9:], 0.1) > 0.8

    def test_agreement_is_the_mean_over_pairs(self):
        alone = np.array([[[1.0, 0.0]], [[0.5, 0.5]], [[0.0, 1.0]]])
        said = ViewContributions(["a", "b", "c"], np.zeros(1, int), alone[0], alone, np.zeros((1, 3)))
        np.testing.assert_allclose(said.agreement, [(0.5 + 0.0 + 0.5) / 3])
        np.testing.assert_allclose(said.overlap, [[1.0, 0.5, 0.0]])

    def test_by_cluster_is_the_mean_of_those_who_know(self):
        change = np.array([[0.2, np.nan], [0.4, 0.1], [np.nan, 0.3]])
        U = np.full((3, 3), 1 / 3)
        said = ViewContributions(["a", "b"], np.array([0, 0, 2]), U, np.stack([U, U]), change)
        expected = [[0.3, 0.1], [np.nan, np.nan], [np.nan, 0.3]]
        np.testing.assert_allclose(said.by_cluster(), expected)
        np.testing.assert_allclose(said.agreement_by_cluster().loc[[0, 2]], 1.0)
        assert said.defining_views().to_dict() == {0: "a", 2: "b"}

    def test_frame_is_the_same_in_long_form(self, gaps):
        _, _, said = gaps
        frame = said.to_frame()
        wide = frame["change"].to_numpy().reshape(said.change.shape)
        np.testing.assert_array_equal(wide, said.change)
        assert frame["view"][:3].to_list() == said.view_names
        means = frame.groupby(["cluster", "view"], sort=False)["change"].mean()
        for (cluster, view), mean in means.items():
            np.testing.assert_allclose(said.by_cluster().loc[cluster, view], mean)

    def test_one_view_has_nothing_to_leave_out(self, y):
        said = view_contributions(fit(blob(y, 0)))
        assert np.isnan(said.change).all()
        assert np.isnan(said.agreement).all()
        assert said.defining_views().empty
        np.testing.assert_allclose(said.overlap, 1.0)

    def test_other_estimators_are_refused(self, y):
        with pytest.raises(TypeError, match="GraphNMF"):
            view_contributions(GraphNMF(2))


class TestTruth:
    def ranking(self, scores):
        return pd.DataFrame({"feature": [f"f{j}" for j in range(len(scores))], "importance": scores})

    def test_auc_is_that_of_scikit_learn_with_ties(self):
        rng = np.random.default_rng(0)
        scores = rng.integers(0, 8, 60).astype(float)
        planted = rng.random(60) < 0.3
        names = [f"f{j}" for j in np.flatnonzero(planted)]
        score = importance_against_truth(self.ranking(scores), names)
        assert score["auc"] == roc_auc_score(planted, scores)
        assert score["chance"] == planted.mean()

    def test_precision_counts_the_first(self):
        table = self.ranking(np.arange(30.0))  # worst first: rows need not be sorted
        assert importance_against_truth(table, ["f29", "f28", "f20", "f19"])["precision"] == 0.3
        assert importance_against_truth(table, ["f29", "f0"], top=1)["precision"] == 1.0
        assert importance_against_truth(self.ranking([1.0, 2.0]), ["f0"], top=10)["precision"] == 0.5

    @pytest.mark.parametrize("names", [[], ["f0", "f1", "f2"]])
    def test_no_auc_without_both_kinds(self, names):
        assert np.isnan(importance_against_truth(self.ranking([3.0, 2.0, 1.0]), names)["auc"])

    def test_unknown_names_and_tops(self):
        with pytest.raises(ValueError, match="no features 'f9'"):
            importance_against_truth(self.ranking([1.0]), ["f9"])
        with pytest.raises(ValueError, match="top must be"):
            importance_against_truth(self.ranking([1.0]), ["f0"], top=0)

    def test_planted_features_are_found(self, y):
        rng = np.random.default_rng(0)
        X = np.hstack([blob(y, 0), rng.standard_normal((len(y), 30))])
        model = fit({"x": X, "z": blob(y, 1)}, kernel="linear")
        score = importance_against_truth(model.feature_importance("x"), [f"x_{j}" for j in range(4)], top=4)
        assert score["precision"] == 1.0
        assert score["auc"] == 1.0

    def test_notes_keep_order_and_attributes(self):
        table = self.ranking([3.0, 2.0, 1.0]).iloc[[2, 0, 1]]
        table.attrs["method"] = "permutation"
        noted = annotate(table, {"f0": "known", "f7": "elsewhere"})
        assert noted["note"].to_list() == ["", "known", ""]
        pd.testing.assert_frame_equal(noted.drop(columns="note"), table)
        assert noted.attrs == table.attrs
        assert "note" not in table

    def test_names_of_the_literature_carry_a_note(self):
        names = ["LHippocampus", "LEntCtx", "RPostCingulate", "rs429358", "rs3818361", "sim_chr7_00412"]
        noted = annotate(pd.DataFrame({"feature": names}), simulate.feature_notes())["note"].to_list()
        for word, note in zip(["hippocampus", "entorhinal", "cingulate", "APOE", "CR1"], noted, strict=False):
            assert word in note
        assert noted[-1] == ""


@pytest.fixture(scope="module")
def views(y):
    return {"a": blob(y, 0), "b": blob(y, 1, separation=3.0), "noise": noise(len(y), 2)}


class TestWeights:
    def test_seeds_are_those_of_the_estimator(self, views):
        model = KernelMultiviewNMF(K, kernel="linear", init="random", max_iter=5, tol=0.0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            weights = weights_over_seeds(model, views, [3, 1])
            alone = model.set_params(random_state=1).fit(views)
        assert weights.index.to_list() == [3, 1]
        assert weights.index.name == "seed"
        np.testing.assert_array_equal(weights.loc[1], alone.view_weights_)
        assert np.ptp(weights.to_numpy(), axis=0).max() > 0.0  # seeds do something here

    def test_gamma_goes_from_one_view_to_all(self, views):
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # weight on one view is the point, not a surprise
            weights = weights_over_gamma(fit(views), views, [1, 1.05, 2, 1e6])
        np.testing.assert_allclose(weights.sum(axis=1), 1.0)
        np.testing.assert_allclose(sorted(weights.loc[1.0]), [0, 0, 1])
        np.testing.assert_allclose(weights.loc[1e6], 1 / 3, atol=1e-4)
        assert weights.max(axis=1).is_monotonic_decreasing
        assert weights.columns.to_list() == ["a", "b", "noise"]
        np.testing.assert_array_equal(weights.loc[2.0], fit(views, gamma=2.0).view_weights_)

    def test_the_model_is_left_as_it_was(self, views):
        model = KernelMultiviewNMF(K, gamma=7.0)
        weights_over_gamma(model, views, [2.0])
        assert model.gamma == 7.0
        assert not hasattr(model, "view_weights_")

    def test_bad_values_are_refused(self, views):
        with pytest.raises(ValueError, match="gamma"):
            weights_over_gamma(KernelMultiviewNMF(K), views, [-1.0])


class TestProfiles:
    def test_z_scores_by_hand(self):
        X = pd.DataFrame({"p": [0.0, 2.0, 4.0, 6.0], "q": [1.0, 1.0, 1.0, 1.0], "r": [4.0, 3.0, 2.0, 1.0]})
        table = cluster_profiles({"x": X}, [5, 5, 9, 9], "x", ["r", "p", "q"])
        assert table.index.to_list() == ["r", "p", "q"]
        assert table.columns.to_list() == [5, 9]
        sd = np.sqrt(5.0)
        np.testing.assert_allclose(table.loc["p"], [-2 / sd, 2 / sd])
        np.testing.assert_allclose(table.loc["r"], [2 / sd, -2 / sd])
        np.testing.assert_array_equal(table.loc["q"], 0.0)

    def test_absent_samples_do_not_count(self):
        X = np.array([[0.0], [2.0], [np.nan], [np.nan]])
        table = cluster_profiles({"x": X, "z": np.ones((4, 1))}, [0, 1, 0, 2], "x", ["x_0"])
        np.testing.assert_allclose(table.loc["x_0"], [-1.0, 1.0, np.nan])

    def test_sparse_views_and_views_by_number(self):
        X = np.array([[0.0, 3.0], [0.0, 1.0], [2.0, 1.0]])
        dense = cluster_profiles([X], [0, 0, 1], 0, ["view0_1"])
        sparse = cluster_profiles(Views([sp.csr_array(X)]), [0, 0, 1], 0, ["view0_1"])
        pd.testing.assert_frame_equal(dense, sparse)

    def test_errors_say_what_is_wrong(self):
        with pytest.raises(ValueError, match="'x' has no features 'nope'"):
            cluster_profiles({"x": np.eye(3)}, [0, 0, 1], "x", ["nope"])
        with pytest.raises(ValueError, match="labels has shape"):
            cluster_profiles({"x": np.eye(3)}, [0, 1], "x", ["x_0"])
