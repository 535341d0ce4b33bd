"""The model as its users see it: truth recovered, invariances, new samples, absent views, odd data."""

import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.cluster import KMeans
from sklearn.datasets import make_blobs, make_circles
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score

from viewloom import KernelMultiviewNMF, Views
from viewloom.kernels import shared_graph
from viewloom.kernels.diffusion import Diffusion
from viewloom.kernels.linear import Linear
from viewloom.kernels.pairwise import Gaussian, Precomputed
from viewloom.models import importance

KERNELS = ["diffusion", "gaussian", "linear", "polynomial", "cosine"]


def planted(n=150, k=3, seed=0, noise_views=1, spread=1.0):
    """Three informative views of one partition, and noise views."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % k
    views = {}
    for a, d in enumerate((4, 10, 25)):
        centres = rng.standard_normal((k, d)) * 3.0
        views[f"view{a}"] = centres[y] + spread * rng.standard_normal((n, d))
    for a in range(noise_views):
        views[f"noise{a}"] = rng.standard_normal((n, 2))
    return views, y


def without(views, share, seed=0):
    """The same views, with a share of the samples lacking a random one."""
    rng = np.random.default_rng(seed)
    views = {name: X.copy() for name, X in views.items()}
    names, n = list(views), len(next(iter(views.values())))
    for i in rng.choice(n, int(share * n), replace=False):
        views[names[rng.integers(len(names))]][i] = np.nan
    return views


def fit(views, k=3, **settings):
    return KernelMultiviewNMF(k, random_state=0, **settings).fit(views)


class TestTruth:
    @pytest.mark.parametrize("kernel", KERNELS)
    def test_labels_recovered_and_noise_lightest(self, kernel):
        views, y = planted()
        model = fit(views, kernel=kernel)
        assert adjusted_rand_score(y, model.labels_) > 0.95
        assert model.view_names_[int(np.argmin(model.view_weights_))] == "noise0"

    def test_rings_need_the_kernel(self):
        X, y = make_circles(300, factor=0.4, noise=0.05, random_state=0)
        views = [X, X + 0.02 * np.random.default_rng(0).standard_normal(X.shape)]
        assert adjusted_rand_score(y, fit(views, 2).labels_) > 0.95
        assert adjusted_rand_score(y, fit(views, 2, kernel="linear").labels_) < 0.2
        assert adjusted_rand_score(y, KMeans(2, n_init=5, random_state=0).fit_predict(X)) < 0.2

    def test_missing_views_cost_little(self):
        views, y = planted(n=240, spread=1.5)
        complete = adjusted_rand_score(y, fit(views).labels_)
        incomplete = adjusted_rand_score(y, fit(without(views, 0.4)).labels_)
        assert incomplete > complete - 0.05

    def test_memberships_tell_who_is_torn(self):
        rng = np.random.default_rng(0)
        X = np.vstack([rng.normal(-3, 0.5, (40, 2)), rng.normal(3, 0.5, (40, 2)), np.zeros((1, 2))])
        model = fit([X, X + 0.1 * rng.standard_normal(X.shape)], 2, kernel="gaussian")
        certainty = model.memberships_.max(axis=1)
        assert np.argmin(certainty) == 80
        assert np.median(certainty) > 0.9


class TestDescent:
    @pytest.mark.parametrize("seed", range(12))
    def test_objective_never_increases(self, seed):
        """Random kernels, sizes, parameters and gaps, in both forms."""
        rng = np.random.default_rng(seed)
        k = int(rng.integers(2, 6))
        views, _ = planted(n=int(rng.integers(20, 80)), k=k, seed=seed)
        if seed % 3 == 0:
            views = without(views, 0.3, seed)
        settings = dict(
            kernel=KERNELS[seed % len(KERNELS)],
            gamma=float(rng.choice([0.0, 0.5, 1.0, 2.0, 4.0])),
            lam=float(rng.choice([0.0, 0.1, 1.0, 10.0])),
            theta=float(rng.choice([0.0, 0.1, 1.0])),
            max_iter=40,
            tol=0.0,
            random_state=seed,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            rho = float(rng.uniform())
            for model in (
                KernelMultiviewNMF(k, sharpness=rho, init="random", **settings),
                KernelMultiviewNMF.paper(k, **settings),
            ):
                history = np.array(model.fit(views).history_["objective"])
                assert np.diff(history).max() <= 1e-9 * history[0]

    @pytest.mark.parametrize("kernel", KERNELS)
    def test_default_start_converges_within_a_few_tens_of_iterations(self, kernel):
        views, _ = planted(spread=2.0)
        model = fit(views, kernel=kernel)
        assert model.converged_
        assert model.n_iter_ < 60

    def test_history_has_one_entry_per_iteration_and_ends_at_the_objective(self):
        model = fit(planted()[0])
        assert {len(values) for values in model.history_.values()} == {model.n_iter_}
        assert model.history_["objective"][-1] == model.objective_
        np.testing.assert_array_equal(model.history_["weights"][-1], model.view_weights_)

    def test_unfinished_fits_warn(self):
        with pytest.warns(ConvergenceWarning, match="did not converge in 2 iterations"):
            fit(planted(spread=2.0)[0], max_iter=2, tol=0.0)

    def test_more_starts_never_end_higher(self):
        views, _ = planted(spread=4.0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            one = fit(views, 5, init="random", n_init=1)
            many = fit(views, 5, init="random", n_init=4)
        assert many.objective_ <= one.objective_


class TestInvariance:
    @pytest.mark.parametrize("kernel", KERNELS)
    def test_order_of_samples(self, kernel):
        views, _ = planted()
        order = np.random.default_rng(1).permutation(150)
        shuffled = fit({name: X[order] for name, X in views.items()}, kernel=kernel)
        assert adjusted_rand_score(fit(views, kernel=kernel).labels_[order], shuffled.labels_) == 1.0

    @pytest.mark.parametrize("kernel", KERNELS)
    def test_order_of_views(self, kernel):
        views, _ = planted()
        model, reverse = fit(views, kernel=kernel), fit(dict(reversed(views.items())), kernel=kernel)
        assert adjusted_rand_score(model.labels_, reverse.labels_) == 1.0
        np.testing.assert_allclose(model.view_weights_, reverse.view_weights_[::-1], atol=0.01)

    def test_scale_of_a_kernel(self):
        views, _ = planted()
        K = [X @ X.T + 1.0 for X in views.values()]
        plain = fit(K, kernel="precomputed")
        scaled = fit([K[0] * 1e6, *K[1:]], kernel="precomputed")
        np.testing.assert_allclose(plain.view_weights_, scaled.view_weights_, atol=1e-8)
        np.testing.assert_array_equal(plain.labels_, scaled.labels_)

    def test_scale_of_features(self):
        views, _ = planted()
        plain, scaled = fit(views), fit({**views, "view0": views["view0"] * 1e6 + 5.0})
        np.testing.assert_allclose(plain.memberships_, scaled.memberships_, atol=1e-6)

    @pytest.mark.parametrize("kernel", KERNELS)
    def test_same_seed_same_bits(self, kernel):
        views, _ = planted()
        one, two = fit(views, kernel=kernel), fit(views, kernel=kernel)
        assert one.memberships_.tobytes() == two.memberships_.tobytes()
        assert one.view_weights_.tobytes() == two.view_weights_.tobytes()

    def test_containers_do_not_matter(self):
        views, _ = planted(noise_views=0)
        frames = {name: pd.DataFrame(X) for name, X in views.items()}
        expected = fit(views).memberships_
        for same in (
            frames,
            Views(views),
            list(views.values()),
            {k: np.asfortranarray(X) for k, X in views.items()},
        ):
            np.testing.assert_allclose(fit(same).memberships_, expected, atol=1e-8)

    def test_sparse_equals_dense(self):
        rng = np.random.default_rng(0)
        y = np.arange(120) % 3
        rates = rng.gamma(0.3, 1.0, (3, 150))
        counts = [rng.poisson(rates[y]).astype(float) for _ in range(2)]
        assert all((X == 0).mean() > 0.5 for X in counts)
        dense, sparse = fit(counts), fit([sp.csr_array(X) for X in counts])
        np.testing.assert_allclose(dense.memberships_, sparse.memberships_, atol=1e-6)

    @pytest.mark.parametrize("kernel", KERNELS)
    @pytest.mark.parametrize("gamma", [2.0, 4.0])
    def test_copies_of_a_view_share_its_vote(self, kernel, gamma):
        views, _ = planted(noise_views=0, spread=2.0)
        once = fit(views, kernel=kernel, gamma=gamma)
        thrice = fit(
            {**views, "copy": 1e6 * views["view0"], "again": views["view0"]}, kernel=kernel, gamma=gamma
        )
        beta = once.view_weights_
        np.testing.assert_allclose(thrice.view_weights_[[0, 3, 4]].sum(), beta[0], atol=0.35 * beta[0])
        assert adjusted_rand_score(once.labels_, thrice.labels_) > 0.9

    def test_centring_a_gram_matrix_is_centring_its_features(self):
        rng = np.random.default_rng(2)
        y = np.arange(90) % 3
        views = [rng.standard_normal((3, 5))[y] * 3 + rng.standard_normal((90, 5)) + 20.0 for _ in range(2)]
        centred = [X - X[:60].mean(axis=0) for X in views]
        settings = {"scale": None, "normalize": False, "kernel": "linear", "theta": 0.0}
        model = fit([X[:60] for X in centred], **settings)
        gram = fit(
            [X[:60] @ X[:60].T for X in views], **{**settings, "scale": "auto", "kernel": "precomputed"}
        )
        np.testing.assert_allclose(gram.memberships_, model.memberships_, atol=1e-6)
        np.testing.assert_array_equal(
            gram.predict([X[60:] @ X[:60].T for X in views]), model.predict([X[60:] for X in centred])
        )


class TestNewSamples:
    @pytest.mark.parametrize(
        "kernel", [*KERNELS, {"view0": "linear", "view1": Gaussian(3.0), "view2": "cosine"}]
    )
    def test_training_samples_get_their_labels_back(self, kernel):
        views, _ = planted(noise_views=0, spread=1.5)
        model = fit(views, kernel=kernel)
        assert (model.predict(views) == model.labels_).mean() > 0.97

    @pytest.mark.parametrize("kernel", KERNELS)
    def test_unseen_samples_are_placed(self, kernel):
        views, y = planted(n=300)
        train = fit({name: X[:200] for name, X in views.items()}, kernel=kernel)
        test = {name: X[200:] for name, X in views.items()}
        assert adjusted_rand_score(y[200:], train.predict(test)) > 0.9

    def test_samples_do_not_feel_each_other(self):
        views, _ = planted()
        model = fit(views)
        together = model.transform(views)
        alone = model.transform({name: X[7:8] for name, X in views.items()})
        np.testing.assert_allclose(alone[0], together[7], atol=1e-7)

    def test_a_profile_of_zeros_is_absent_whoever_comes_along(self):
        views, y = planted(noise_views=0)
        counts = np.random.default_rng(0).poisson(0.05 + 0.5 * (np.arange(150) % 3 == y[:, None]))
        model = fit({"view0": views["view0"], "counts": counts})
        new = {"view0": views["view0"][:2], "counts": counts[:2].copy()}
        new["counts"][0] = 0
        expected = model.transform({"view0": new["view0"][:1]})
        for rows in (1, 2):
            found = model.transform({name: X[:rows] for name, X in new.items()})
            np.testing.assert_allclose(found[:1], expected, atol=1e-7)

    def test_absent_views_by_dict_list_and_nan(self):
        views, y = planted(noise_views=0)
        model = fit(views)
        only = {"view2": views["view2"]}
        expected = model.transform(only)
        assert adjusted_rand_score(y, expected.argmax(axis=1)) > 0.9
        np.testing.assert_allclose(model.transform([None, None, views["view2"]]), expected, atol=1e-9)
        blank = {name: X if name == "view2" else np.full_like(X, np.nan) for name, X in views.items()}
        np.testing.assert_allclose(model.transform(blank), expected, atol=1e-9)

    @pytest.mark.parametrize("lacking", [{"view0"}, {"words"}, {"view0", "words"}])
    def test_views_that_nobody_has_need_not_be_there(self, monkeypatch, lacking):
        """Of a view that none of many new samples has, only the length of the training samples is used."""
        views, y = planted(noise_views=0)
        words = np.random.default_rng(0).poisson(0.1 + 0.5 * (np.arange(120) % 3 == y[:, None])).astype(float)
        views = {"view0": views["view0"], "words": sp.csr_array(words), "view1": views["view1"]}
        holes = np.ones((150, 3), dtype=bool)
        holes[::5, 0] = holes[1::5, 1] = False
        model = fit(Views(views, present=holes))
        new = {name: X for name, X in views.items() if name not in lacking}
        found = model.transform(new)
        monkeypatch.setattr(shared_graph, "FEW_ROWS", 1000)  # for so few, zeros are quicker
        np.testing.assert_allclose(found, model.transform(new), atol=1e-9)

    def test_precomputed_rows(self):
        views, _ = planted(noise_views=0)
        K = [X @ X.T for X in views.values()]
        model = fit(K, kernel=Precomputed())
        assert (model.predict([k[:20] for k in K]) == model.labels_[:20]).mean() > 0.9

    def test_score_is_near_its_best_for_planted_clusters_and_low_where_views_disagree(self):
        views, _ = planted(noise_views=0)
        half = {name: X[::2] for name, X in views.items()}
        rest = {name: X[1::2] for name, X in views.items()}
        model = fit(half)
        assert -0.2 < model.score(rest) <= 0.2
        shuffled = {name: np.random.default_rng(a).permutation(X) for a, (name, X) in enumerate(rest.items())}
        assert model.score(shuffled) < model.score(rest) - 0.3


class TestIncomplete:
    def test_view_memberships_say_who_was_absent(self):
        views, _ = planted(noise_views=0)
        views["view1"][[3, 5]] = np.nan
        model = fit(views)
        absent = np.isnan(model.view_memberships_[1]).all(axis=1)
        assert np.flatnonzero(absent).tolist() == [3, 5]
        assert np.isfinite(model.memberships_).all()

    def test_a_view_that_few_have(self):
        views, y = planted(noise_views=0)
        views["view1"][4:] = np.nan
        assert adjusted_rand_score(y, fit(views).labels_) > 0.9

    def test_views_without_a_common_sample(self):
        """Two views that share no sample have nothing to agree on, but a third can tie them."""
        views, y = planted(noise_views=0)
        views["view0"][:75] = np.nan
        views["view1"][75:] = np.nan
        assert adjusted_rand_score(y, fit(views).labels_) > 0.9


class TestOddData:
    @pytest.mark.parametrize("kernel", KERNELS)
    def test_one_cluster(self, kernel):
        model = fit(planted()[0], 1, kernel=kernel)
        assert (model.labels_ == 0).all()
        np.testing.assert_allclose(model.memberships_, 1.0)

    @pytest.mark.parametrize("kernel", KERNELS)
    def test_one_view(self, kernel):
        views, y = planted()
        model = fit(views["view2"], kernel=kernel)
        assert adjusted_rand_score(y, model.labels_) > 0.9
        assert model.view_weights_.tolist() == [1.0]

    @pytest.mark.parametrize("kernel", KERNELS)
    def test_as_many_clusters_as_samples(self, kernel):
        X = np.random.default_rng(0).standard_normal((6, 3))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = fit([X, X**2], 6, kernel=kernel)
        np.testing.assert_allclose(model.memberships_.sum(axis=1), 1.0)

    @pytest.mark.parametrize("kernel", ["gaussian", "linear", "polynomial", "cosine"])
    def test_two_samples(self, kernel):
        model = fit([np.eye(2), np.array([[0.0], [1.0]])], 2, kernel=kernel)
        assert len(set(model.labels_)) == 2

    @pytest.mark.parametrize("kernel", KERNELS)
    def test_duplicate_samples_and_a_perfect_fit(self, kernel):
        X = np.repeat(np.eye(3) * 5.0, 30, axis=0)
        model = fit([X, X @ np.ones((3, 2)) + X[:, :2]], kernel=kernel)
        assert adjusted_rand_score(np.repeat(np.arange(3), 30), model.labels_) == 1.0
        assert np.isfinite(model.view_weights_).all()

    def test_emptied_clusters_are_reported(self):
        X = np.repeat(np.eye(2), 20, axis=0)
        with pytest.warns(ConvergenceWarning, match="clusters have no samples"):
            model = fit([X, X], 4, theta=1.0)
        assert np.isfinite(model.memberships_).all()

    def test_collapsed_weights_warn(self):
        model = KernelMultiviewNMF.paper(3, kernel="linear", max_iter=500, random_state=0)
        with pytest.warns(UserWarning, match="of the weight"):
            model.fit(planted()[0])


class TestParameters:
    def test_per_view_parameters_by_dict_and_list(self):
        views, _ = planted(noise_views=0)
        names = list(views)
        by_dict = fit(
            views, lam={n: 5.0 for n in names}, theta=dict(zip(names, (0.0, 0.1, 0.2), strict=True))
        )
        by_list = fit(views, lam=[5.0, 5.0, 5.0], theta=[0.0, 0.1, 0.2])
        np.testing.assert_array_equal(by_dict.memberships_, by_list.memberships_)

    def test_given_start_is_used(self):
        views, y = planted()
        start = np.eye(3)[(y + 1) % 3]
        assert (fit(views, init=start).labels_ == (y + 1) % 3).mean() > 0.95

    @pytest.mark.parametrize(
        ("settings", "message"),
        [
            ({"gamma": -1.0}, "gamma"),
            ({"lam": -1.0}, "lam must be non-negative"),
            ({"lam": {"view0": 1.0}}, "lam must have one entry per view"),
            ({"theta": [0.1]}, "theta has 1 entries for 4 views"),
            ({"kernel": "fourier"}, "kernel must be one of"),
            ({"graph": "web"}, "graph must be one of"),
            ({"membership": "hard"}, "membership"),
            ({"sharpness": 1.5}, "sharpness"),
            ({"init": np.ones((3, 3))}, "init has shape"),
            ({"init": -np.ones((150, 3))}, "init must be finite and non-negative"),
            ({"backend": "abacus"}, "backend"),
            ({"n_clusters": 0}, "n_clusters"),
            ({"n_clusters": 1000}, "n_clusters=1000 is more than n_samples=150"),
        ],
    )
    def test_bad_parameters_are_named(self, settings, message):
        with pytest.raises(ValueError, match=message):
            KernelMultiviewNMF(**settings).fit(planted()[0])

    def test_gamma_selects_one_view_or_none(self):
        views, _ = planted()
        assert sorted(fit(views, gamma=1.0).view_weights_) == [0.0, 0.0, 0.0, 1.0]
        np.testing.assert_allclose(fit(views, gamma=0.0).view_weights_, 0.25)
        spread = [np.ptp(fit(views, gamma=g).view_weights_) for g in (1.5, 3.0, 10.0)]
        assert spread[0] > spread[1] > spread[2]

    def test_sharper_memberships_are_harder(self):
        views, _ = planted(spread=3.0)
        certainty = [fit(views, sharpness=rho).memberships_.max(axis=1).mean() for rho in (0.1, 0.5, 1.0)]
        assert certainty[0] < certainty[1] < certainty[2]


class TestImportance:
    def informative_first(self, seed=0):
        """Features 0 and 1 carry the clusters, ten more are noise."""
        rng = np.random.default_rng(seed)
        X, y = make_blobs(120, 2, centers=[[0, 0], [6, 0], [0, 6]], random_state=seed)
        return pd.DataFrame(np.hstack([X, rng.standard_normal((120, 10))])).rename(
            columns=lambda j: f"f{j}"
        ), y

    def test_linear_is_the_papers_F(self):
        X = self.informative_first()[0]
        form = {"kernel": "linear", "sharpness": 0.0, "scale": None, "normalize": False}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model = fit({"mri": X, "pet": X**2}, **form)
        frame = model.feature_importance("mri").set_index("feature").loc[X.columns]
        F = X.to_numpy().T @ np.linalg.pinv(model.view_memberships_[0].T)  # P = G^T (G G^T)^-1
        np.testing.assert_allclose(frame.filter(like="cluster_").to_numpy(), F, atol=1e-8)
        np.testing.assert_allclose(frame.importance, np.linalg.norm(F, axis=1), atol=1e-8)

    @pytest.mark.parametrize(
        ("kernel", "method"),
        [("linear", "F = X^T P"), ("gaussian", "permutation"), ("diffusion", "permutation")],
    )
    def test_informative_features_lead(self, kernel, method):
        X, _ = self.informative_first()
        model = fit({"mri": X, "pet": X[["f0", "f1"]]}, kernel=kernel)
        frame = model.feature_importance("mri")
        assert set(frame.feature[:2]) == {"f0", "f1"}
        assert frame.attrs["method"] == method
        assert list(frame.columns) == ["feature", "importance", "cluster_0", "cluster_1", "cluster_2"]
        assert frame.importance.is_monotonic_decreasing

    def test_batches_are_bounded_and_change_nothing(self, monkeypatch):
        X, _ = self.informative_first()
        model = fit({"mri": X, "pet": X[["f0", "f1"]]})
        whole = model.feature_importance("mri")
        monkeypatch.setattr(importance, "BATCH_VALUES", X.size)
        monkeypatch.setattr(importance, "_stack", lambda copies: copies[0] if len(copies) == 1 else None)
        pd.testing.assert_frame_equal(model.feature_importance("mri"), whole, atol=1e-12)

    def test_precomputed_has_no_features(self):
        X = self.informative_first()[0].to_numpy()
        with pytest.raises(ValueError, match="no features to rank"):
            fit([X @ X.T], kernel="precomputed").feature_importance(0)


def test_explicit_kernel_objects_and_strings_agree():
    views, _ = planted(noise_views=0)
    for name, kernel in {"linear": Linear(), "gaussian": Gaussian(), "diffusion": Diffusion()}.items():
        np.testing.assert_array_equal(
            fit(views, kernel=name).memberships_, fit(views, kernel=kernel).memberships_
        )
