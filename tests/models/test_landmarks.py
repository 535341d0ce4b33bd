"""Landmarks instead of all pairs: the same answer, however rows are stored, split and worked on."""

import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose
from sklearn.datasets import make_circles
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score
from sklearn.preprocessing import StandardScaler

from viewloom import KernelMultiviewNMF, Views, kernels
from viewloom.data.landmarks import cholesky_landmarks
from viewloom.data.row_sources import Blocks
from viewloom.kernels.base import Context
from viewloom.kernels.geometry import Geometry
from viewloom.kernels.graphs import KNN
from viewloom.kernels.operators import Factored
from viewloom.kernels.ties import packed
from viewloom.models import landmark_problem
from viewloom.models.fitting import Parameters
from viewloom.models.landmark_problem import root_scales, tied
from viewloom.models.landmark_views import landmark_views
from viewloom.models.scaling import fit_scaler
from viewloom.solver.updates import project_simplex

K, N, LANDMARKS = 4, 3000, 300


def simulated(separation=6.0, n=N, features=(6, 10, 20), seed=0, dtype=np.float64):
    """Gaussian clusters in several views, centres of each pair `separation` apart."""
    rng = np.random.default_rng(seed)
    y = rng.integers(K, size=n)
    views = {}
    for a, d in enumerate(features):
        centres = np.linalg.qr(rng.standard_normal((d, K)))[0].T * separation / np.sqrt(2.0)
        views[f"view{a}"] = (centres[y] + rng.standard_normal((n, d))).astype(dtype)
    return views, y


def model(**changes):
    return KernelMultiviewNMF(K, **{"factored": LANDMARKS, "random_state": 0, **changes})


def in_blocks(views, rows, **changes):
    found = model(**changes)
    found._set_results(found._fit_landmarks(Blocks(views, rows=rows), Parameters.of(found)))
    return found


@pytest.fixture(scope="module")
def clear():
    return simulated()


@pytest.fixture(scope="module")
def fitted(clear):
    return model().fit(clear[0])


def test_the_graph_of_landmarks_depends_on_the_samples_between_them(clear, fitted):
    landmarks = fitted.fitted_model_.problem
    views = Views(clear[0])
    new = landmarks.new_samples(views).cross([view.geometry for view in landmarks.views])
    graph = landmarks.shared_graph
    pairs = [(graph.graphs[a], view.geometry, new.crosses[a]) for a, view in enumerate(landmarks.views)]
    pairs.append((graph.fused, graph.fusion.geometry, graph.fusion.cross(*new)))
    for found, geometry, between in pairs:
        alone = KNN(found.n_neighbors).fit(geometry)
        assert_allclose(found.S.toarray(), alone.spanned_by(between).S.toarray(), atol=1e-9)
        assert abs(found.S - alone.S).max() > 0.01


def test_as_many_landmarks_as_samples_are_the_exact_graph(clear):
    views = Views(clear[0])[:200]
    found = model(factored=500).fit(views).fitted_model_.problem
    exact = model(factored=False).fit(views).fitted_model_.problem
    assert_allclose(found.shared_graph.M.toarray(), exact.shared_graph.M.toarray(), atol=1e-9)


def test_ties_follow_the_concatenated_features_unless_a_model_is_older(clear, fitted):
    new = {name: X[:50] + 0.5 for name, X in clear[0].items()}
    older = replace(fitted.fitted_model_, fused=False)
    found, without = (m.memberships(Views(new)) for m in (fitted.fitted_model_, older))
    assert np.abs(found - without).max() > 1e-3
    graph = replace(fitted.fitted_model_.problem.shared_graph, fusion=None)
    alone = replace(fitted.fitted_model_, problem=replace(fitted.fitted_model_.problem, shared_graph=graph))
    assert_allclose(alone.memberships(Views(new)), without, atol=1e-7)


@pytest.fixture(scope="module")
def overlapping():
    return simulated(separation=3.0)


class TestAgreement:
    def test_with_the_exact_fit_on_clear_data(self, clear, fitted):
        views, y = clear
        exact = model(factored=False).fit(views)
        assert adjusted_rand_score(exact.labels_, fitted.labels_) >= 0.95
        assert adjusted_rand_score(y, fitted.labels_) >= 0.95
        np.testing.assert_allclose(fitted.view_weights_, exact.view_weights_, atol=0.1)

    def test_where_only_a_graph_tells_clusters(self):
        X, y = make_circles(N, factor=0.4, noise=0.05, random_state=0)
        views = [X, X + 0.02 * np.random.default_rng(0).standard_normal(X.shape)]
        found = KernelMultiviewNMF(2, factored=LANDMARKS, random_state=0).fit(views)
        assert adjusted_rand_score(y, found.labels_) >= 0.95

    @pytest.mark.parametrize(("name", "landmarks"), [("handwritten_mfeat6", 1000), ("bbcsport", True)])
    def test_on_real_sets(self, data_dir, name, landmarks):
        with np.load(data_dir / f"{name}.npz") as content:
            names = sorted(key for key in content.files if key.startswith("view"))
            views, y = [content[key].astype(np.float64) for key in names], content["y"]
        scores = [
            normalized_mutual_info_score(
                y,
                KernelMultiviewNMF(len(np.unique(y)), factored=factored, random_state=0).fit(views).labels_,
            )
            for factored in (False, landmarks)
        ]
        assert abs(scores[0] - scores[1]) <= 0.04

    @pytest.mark.parametrize("kernel", ["linear", "cosine", "polynomial", "gaussian", "diffusion"])
    def test_of_every_kernel(self, clear, kernel):
        views, y = clear
        found = model(kernel=kernel).fit(views)
        assert adjusted_rand_score(y, found.labels_) >= 0.95
        np.testing.assert_array_equal(found.predict(views), found.labels_)

    @pytest.mark.parametrize(
        "kernel",
        [lambda X, Y: (X @ Y.T + 1.0) ** 2, kernels.Nystroem("gaussian", rank=50)],
        ids=["function", "Nystroem"],
    )
    def test_of_kernels_that_are_objects(self, clear, kernel):
        views, y = clear
        assert adjusted_rand_score(y, model(kernel=kernel).fit(views).labels_) >= 0.95

    def test_of_one_kernel_per_view_and_no_graph(self, clear):
        views, y = clear
        found = model(kernel=["linear", "gaussian", "diffusion"], theta=[0.0, 0.1, 0.0]).fit(views)
        assert adjusted_rand_score(y, found.labels_) >= 0.95

    def test_precomputed_kernels_cannot_be_factored(self):
        with pytest.raises(ValueError, match="cannot be approximated by landmarks"):
            model(kernel="precomputed", factored=3).fit(np.eye(6))


class TestBlocks:
    @pytest.mark.parametrize("rows", [700, 1499, 10_000])
    def test_their_size_does_not_matter(self, overlapping, rows):
        views, _ = overlapping
        expected, found = in_blocks(views, 1000), in_blocks(views, rows)
        np.testing.assert_array_equal(found.labels_, expected.labels_)
        np.testing.assert_allclose(found.history_["objective"], expected.history_["objective"], rtol=1e-9)
        np.testing.assert_allclose(found.memberships_, expected.memberships_, atol=1e-7)

    def test_threads_equal_serial_to_the_bit(self, overlapping):
        views, _ = overlapping
        serial, threads = (in_blocks(views, 700, backend=backend) for backend in ("serial", "threads"))
        np.testing.assert_array_equal(threads.memberships_, serial.memberships_)
        assert threads.history_["objective"] == serial.history_["objective"]

    def test_objective_never_increases(self, overlapping):
        history = np.array(in_blocks(overlapping[0], 700, init="random", tol=0.0).history_["objective"])
        assert len(history) > 5
        assert np.diff(history).max() <= 1e-9 * history[0]


class TestPrediction:
    def test_training_rows_get_their_labels(self, overlapping):
        views, _ = overlapping
        found = model().fit(views)
        assert (found.predict(views) == found.labels_).mean() >= 0.99

    def test_one_sample_gets_what_it_gets_among_others(self, clear, fitted):
        views, _ = clear
        together = fitted.transform({name: X[:50] for name, X in views.items()})
        alone = fitted.transform({name: X[7:8] for name, X in views.items()})
        np.testing.assert_allclose(alone[0], together[7], atol=1e-6)

    def test_a_view_may_be_absent(self, clear, fitted):
        views, y = clear
        few = {name: X[:500] for name, X in views.items() if name != "view1"}
        assert adjusted_rand_score(y[:500], fitted.predict(few)) >= 0.95


class TestPrecision:
    @pytest.mark.parametrize("kernel", ["diffusion", "linear", "gaussian"])
    def test_single_stays_single(self, kernel):
        views, y = simulated(dtype=np.float32)
        found = model(kernel=kernel).fit(views)
        assert adjusted_rand_score(y, found.labels_) >= 0.95
        shard = found.fitted_model_.place(Views({name: X[:100] for name, X in views.items()})).shard
        assert {block.kernel.Z.dtype for block in shard.blocks} == {np.dtype(np.float32)}
        assert {block.laplacian.adjacency.Z.dtype for block in shard.blocks} == {np.dtype(np.float32)}
        assert {g.dtype for g in [shard.G_star, *(b.G for b in shard.blocks)]} == {np.dtype(np.float32)}

    def test_ties_in_four_bytes(self):
        """Rows sum to one, and products are those of the matrix up to the precision of the weights."""
        rng = np.random.default_rng(0)
        n, m, t, k = 200, 40, 7, 3
        weights = rng.random((n, t)) ** 4
        weights /= weights.sum(axis=1, keepdims=True)
        columns = np.array([np.sort(rng.permutation(m)[:t]) for _ in range(n)])
        B = np.zeros((n, m), dtype=np.float32)
        B[np.arange(n)[:, None], columns] = weights
        ties, scale = packed(Factored(sp.csr_array(B))), rng.random(m)
        assert ties.nbytes == 4 * n * t
        np.testing.assert_allclose(ties.Z.toarray(), B, atol=t * 1e-5)
        np.testing.assert_allclose(ties.Z.sum(axis=1), 1.0, atol=1e-6)
        G, M = rng.random((k, n)).astype(np.float32), rng.random((k, m))
        for found, S in ((ties, B), (ties.rescaled(scale), B * scale)):
            np.testing.assert_allclose(found.project(G).M, G @ S, atol=1e-3)
            np.testing.assert_allclose(found.lift(M), M @ S.T, atol=1e-4)
            assert found.lift(M).dtype == np.float32

    def test_other_ties_stay_as_they_are(self):
        uneven = sp.csr_array(np.array([[1.0, 0.0], [0.5, 0.5]], dtype=np.float32))
        for B in (uneven, sp.csr_array(np.eye(2)), np.eye(2, dtype=np.float32)):
            factor = Factored(B)
            assert packed(factor) is factor

    def test_packed_ties_change_no_cluster(self, monkeypatch):
        views, _ = simulated(dtype=np.float32)
        found = model().fit(views)
        monkeypatch.setattr(landmark_problem, "pack", lambda shard: None)
        expected = model().fit(views)
        np.testing.assert_allclose(found.memberships_, expected.memberships_, atol=1e-3)
        np.testing.assert_array_equal(found.labels_, expected.labels_)

    def test_single_and_double_agree(self, overlapping):
        views, _ = overlapping
        double = model().fit(views)
        single = model().fit({name: X.astype(np.float32) for name, X in views.items()})
        assert adjusted_rand_score(single.labels_, double.labels_) >= 0.98


class TestAbsentViews:
    def test_cost_little(self, clear):
        views, y = clear
        rng = np.random.default_rng(1)
        holes = {name: X.copy() for name, X in views.items()}
        lost = rng.integers(6, size=N)  # half of the samples lack one of three views
        for a, X in enumerate(holes.values()):
            X[lost == a] = np.nan
        found = model().fit(holes)
        assert adjusted_rand_score(y, found.labels_) >= 0.95
        assert np.isnan(found.view_memberships_[2]).all(axis=1).sum() == (lost == 2).sum()
        assert (found.predict(holes) == found.labels_).mean() >= 0.99

    @pytest.mark.parametrize("backend", ["serial", "threads"])
    def test_a_block_in_which_nobody_has_a_view(self, clear, backend):
        views, y = clear
        holes = {**views, "view1": views["view1"].copy()}
        holes["view1"][:1000] = np.nan
        found = in_blocks(holes, 500, backend=backend)
        assert adjusted_rand_score(y, found.labels_) >= 0.95
        whole = in_blocks(holes, N, backend=backend)
        np.testing.assert_array_equal(found.labels_, whole.labels_)
        assert found.objective_ == pytest.approx(whole.objective_, rel=1e-9)


def word_counts(n=N, words=400, seed=0):
    """Two sparse views of short texts, each with its own frequent words per cluster."""
    rng = np.random.default_rng(seed)
    y = rng.integers(K, size=n)
    views = {}
    for name in ("title", "body"):
        frequencies = np.array([rng.dirichlet(np.full(words, 0.05)) for _ in range(K)])
        counts = np.vstack([rng.multinomial(25, frequencies[label]) for label in y])
        views[name] = sp.csr_array(counts.astype(np.float64))
    return views, y


class TestSparse:
    @pytest.mark.parametrize("kernel", ["linear", "diffusion"])
    def test_stays_sparse_and_gives_what_dense_gives(self, monkeypatch, kernel):
        views, y = word_counts()
        dense = model(kernel=kernel).fit({name: X.toarray() for name, X in views.items()})

        def refuse(self, *args, **settings):
            if self.shape[0] > LANDMARKS and self.shape[1] > LANDMARKS:
                raise AssertionError("a sparse view was made dense")
            return original(self, *args, **settings)

        original = sp.csr_array.toarray
        monkeypatch.setattr(sp.csr_array, "toarray", refuse)
        found = model(kernel=kernel).fit(views)
        assert adjusted_rand_score(y, found.labels_) >= 0.95
        assert adjusted_rand_score(dense.labels_, found.labels_) >= 0.99
        assert all(sp.issparse(view.geometry.X) for view in found.fitted_model_.problem.views)
        np.testing.assert_array_equal(found.predict(views), found.labels_)


def as_npy(X, path):
    np.save(path.with_suffix(".npy"), X)
    return path.with_suffix(".npy")


def as_memmap(X, path):
    return np.load(as_npy(X, path), mmap_mode="r")


def as_parquet(X, path):
    pytest.importorskip("pyarrow")
    frame = pd.DataFrame(X, columns=[f"f{j}" for j in range(X.shape[1])])
    frame.to_parquet(path.with_suffix(".parquet"), row_group_size=777)
    return str(path.with_suffix(".parquet"))


def as_zarr(X, path):
    zarr = pytest.importorskip("zarr")
    stored = zarr.create_array(path.with_suffix(".zarr"), shape=X.shape, chunks=(640, 7), dtype=X.dtype)
    stored[:] = X
    return path.with_suffix(".zarr")


class TestFiles:
    @pytest.mark.parametrize("store", [as_npy, as_memmap, as_parquet, as_zarr])
    def test_give_the_labels_of_the_array(self, clear, fitted, tmp_path, store):
        views, _ = clear
        stored = {name: store(X, tmp_path / name) for name, X in views.items()}
        found = model().fit(stored)
        np.testing.assert_array_equal(found.labels_, fitted.labels_)
        np.testing.assert_allclose(found.memberships_, fitted.memberships_, atol=1e-9)
        np.testing.assert_array_equal(found.predict(stored), fitted.predict(views))

    def test_views_may_lie_in_different_places(self, clear, fitted, tmp_path):
        views, _ = clear
        stored = {
            "view0": views["view0"],
            "view1": as_npy(views["view1"], tmp_path / "a"),
            "view2": as_parquet(views["view2"], tmp_path / "b"),
        }
        np.testing.assert_array_equal(model().fit(stored).labels_, fitted.labels_)

    def test_a_list_of_paths_is_a_list_of_views(self, clear, fitted, tmp_path):
        stored = [str(as_npy(X, tmp_path / name)) for name, X in clear[0].items()]
        np.testing.assert_array_equal(model().fit(stored).labels_, fitted.labels_)

    def test_a_file_that_is_not_there_is_named(self, tmp_path):
        with pytest.raises(ValueError, match=r"The file 'gone\.npy'"):
            model().fit({"a": tmp_path / "gone.npy"})


class TestNames:
    def test_reordered_columns_are_put_in_order(self, clear, fitted):
        frames = {
            name: pd.DataFrame(X, columns=[f"{name} feature {j}" for j in range(X.shape[1])])
            for name, X in clear[0].items()
        }
        found = model().fit(frames)
        np.testing.assert_array_equal(found.labels_, fitted.labels_)
        reordered = {name: frame[frame.columns[::-1]] for name, frame in frames.items()}
        np.testing.assert_array_equal(found.transform(reordered), found.transform(frames))


class TestStart:
    def test_a_given_start_is_taken(self, clear):
        """Clusters numbered the other way round stay so."""
        views, _ = clear
        first = model().fit(views)
        turned = model(init=first.memberships_[:, ::-1]).fit(views)
        assert (turned.labels_ == K - 1 - first.labels_).mean() >= 0.99

    def test_of_the_wrong_shape_is_refused(self, clear):
        with pytest.raises(ValueError, match=r"init has shape \(3000, 3\), expected .* \(3000, 4\)"):
            model(init=np.ones((N, 3))).fit(clear[0])

    def test_the_same_seed_gives_the_same_fit(self, clear, fitted):
        np.testing.assert_array_equal(model().fit(clear[0]).memberships_, fitted.memberships_)


class TestSwitch:
    def test_many_samples_are_tied_to_landmarks_which_is_said(self):
        views, y = simulated(n=20_001, features=(4, 4))
        with pytest.warns(UserWarning, match="20001 samples: 2000 landmarks are used"):
            found = model(factored="auto").fit(views)
        assert adjusted_rand_score(y, found.labels_) >= 0.95

    def test_few_are_not(self, clear):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found = model(factored="auto").fit(clear[0])
        assert found.fitted_model_.problem.n == N
        assert not found.needs_no_training_rows


class TestNystroem:
    SAMPLES = np.random.default_rng(0).standard_normal((800, 4))

    @pytest.mark.parametrize("kernel", ["gaussian", lambda X, Y: np.exp(X @ Y.T / 4.0)])
    def test_error_falls_with_rank(self, kernel):
        geometry, plain = Geometry(self.SAMPLES), Context(normalize=False)
        K = kernels.make_kernel(kernel).fit(geometry, plain).operator.K
        errors = []
        for rank in (10, 40, 160, 800):
            Z = kernels.Nystroem(kernel, rank=rank).fit(Geometry(self.SAMPLES), plain).operator.Z
            errors.append(np.linalg.norm(Z @ Z.T - K) / np.linalg.norm(K))
        assert errors[0] > errors[1] > errors[2] > errors[3]
        assert errors[2] < 0.05
        assert errors[3] < 1e-6

    def test_as_many_landmarks_as_features_are_exact(self):
        geometry, plain = Geometry(self.SAMPLES), Context(normalize=False)
        K = kernels.Polynomial(degree=2).fit(geometry, plain).operator.K  # 1 + 4 + 10 features
        Z = kernels.Nystroem("polynomial", rank=15).fit(geometry, plain).operator.Z
        np.testing.assert_allclose(Z @ Z.T, K, atol=1e-8)

    def test_new_samples_have_the_features_of_training_samples(self):
        geometry = Geometry(self.SAMPLES)
        fitted = kernels.Nystroem(rank=100).fit(geometry)
        placed = fitted.place(geometry.to(self.SAMPLES[:9]))
        np.testing.assert_allclose(placed.Z, fitted.operator.Z[:9], atol=1e-10)
        np.testing.assert_allclose(placed.diagonal(), 1.0)

    def test_kernels_without_pairs_are_refused(self):
        with pytest.raises(ValueError, match="needs a pairwise kernel"):
            kernels.Nystroem("linear").fit(Geometry(self.SAMPLES))


def landmarks_of(views, count):
    scalers = [fit_scaler("auto", X[views.present[:, a]]) for a, X in enumerate(views.blocks)]
    return landmark_views(views, scalers, count, np.random.RandomState(0))


class TestLandmarks:
    @pytest.mark.parametrize("rank", [1, 5, 23])
    def test_cholesky_finds_the_rank(self, rank):
        rng = np.random.default_rng(rank)
        F = rng.standard_normal((400, rank))
        K = F @ F.T
        chosen = cholesky_landmarks(lambda at: K[:, at], np.diagonal(K), 100, np.random.RandomState(0), 4)
        assert rank <= len(chosen) <= rank + 4
        assert len(np.unique(chosen)) == len(chosen)
        C, W = K[:, chosen], K[np.ix_(chosen, chosen)]
        np.testing.assert_allclose(C @ np.linalg.pinv(W, rcond=1e-10) @ C.T, K, atol=1e-6 * np.abs(K).max())

    def test_mixtures_are_no_training_rows(self, clear):
        views = Views(clear[0])
        mixed = landmarks_of(views, LANDMARKS)
        assert len(mixed) == LANDMARKS
        for name, X in views.items():
            gaps = np.abs(mixed[name][:, None, :3] - X[None, :, :3]).max(axis=2)
            assert gaps.min() > 0.0

    def test_mixtures_are_means_of_those_who_have_the_view(self):
        """In threes that are alike, of whom the first lacks the second view."""
        X = np.repeat(10.0 * np.arange(20.0), 3)[:, None] + np.tile([0.0, 0.1, 0.2], 20)[:, None]
        X = np.hstack([X, X**2])
        second = np.where(np.arange(60)[:, None] % 3 == 0, np.nan, np.repeat(np.arange(20.0), 3)[:, None])
        mixed = landmarks_of(Views({"a": X, "b": second}), 40)
        present = mixed.present[:, 1]
        assert present.sum() >= 20
        assert (~present).sum() == 0  # three that have the view are among the thirty nearest
        np.testing.assert_array_equal(np.isfinite(mixed["b"][:, 0]), present)
        assert mixed["b"][present].min() >= 0.0
        assert mixed["b"][present].max() <= 19.0

    @pytest.mark.parametrize("missing", [0.0, 0.4])
    def test_means_within_cells(self, missing):
        """Against loops: the three nearest in the cells around random samples, or in any cell."""
        rng = np.random.default_rng(1)
        X = {"a": rng.standard_normal((90, 2)), "b": rng.standard_normal((90, 3))}
        X["b"][rng.random(90) < missing] = np.nan
        views = Views(X)
        side = np.hstack([StandardScaler().fit_transform(x) / np.sqrt(x.shape[1]) for x in X.values()])
        side = np.nan_to_num(side)
        seeds = np.sort(np.random.RandomState(0).choice(90, size=12, replace=False))
        gaps = np.linalg.norm(side[:, None] - side[seeds], axis=2)  # 90 x 12
        found, smallest = landmarks_of(views, 12), 90
        for a, x in enumerate(X.values()):
            for j in range(12):
                near = [i for i in gaps[:, j].argsort() if views.present[i, a]]
                cell = [i for i in near if gaps[i].argmin() == j]
                smallest = min(smallest, len(cell))
                expected = x[(cell if len(cell) >= 3 else near)[:3]].mean(axis=0)
                np.testing.assert_allclose(found.blocks[a][j], expected)
        assert smallest < 3 or not missing

    def test_landmarks_of_counts_are_central(self):
        """Two groups of compositions around their centres, and one landmark near each."""
        rng = np.random.default_rng(0)
        centres = rng.dirichlet(np.full(150, 0.05), size=2)
        spread = np.r_[np.full(99, 60), 4000, np.full(99, 60), 4000]
        counts = np.array([rng.multinomial(n, centres[i // 100]) for i, n in enumerate(spread)])
        found = landmarks_of(Views({"words": counts.astype(float)}), 2)["words"].sum(axis=1)
        assert sorted(found) in ([4000.0, 4000.0], [4000.0])  # long texts are nearest to the mean

    def test_counts_are_samples(self):
        views, _ = word_counts(n=500)
        found = landmarks_of(Views(views), 50)
        assert len(found) == 50
        assert all(sp.issparse(X) for X in found.blocks)
        rows = {tuple(row) for row in views["body"].toarray()}
        assert all(tuple(row) in rows for row in found["body"].toarray())


def test_scales_of_landmarks_are_inverse_roots_of_the_sums_of_their_ties():
    found = root_scales([np.array([4.0, 0.25, 0.0]), np.zeros(0)])
    np.testing.assert_allclose(found[0], [0.5, 2.0, 0.0])  # a landmark that nobody is tied to has no say
    assert found[1] is None
    rng = np.random.default_rng(0)
    B = rng.dirichlet(np.ones(4), size=9)  # rows that sum to one
    scaled = B * root_scales([B.sum(axis=0)])[0]
    np.testing.assert_allclose((scaled @ scaled.T).sum(axis=1), 1.0)  # degrees of B Lambda^-1 B^T


def test_ties_are_shares_of_the_nearest_landmarks_and_factors_those_of_new_samples():
    rng = np.random.default_rng(0)
    landmarks, X = rng.standard_normal((30, 3)), rng.standard_normal((6, 3))
    problem = (
        KernelMultiviewNMF(2, kernel="linear", scale=None, random_state=0)
        .fit(landmarks)
        .fitted_model_.problem
    )
    block = tied(problem, problem.new_samples(Views(X)), project_simplex, 0.5).blocks[0]
    np.testing.assert_allclose(block.kernel.Z, [x / np.sqrt(sum(x**2)) for x in X])
    D = np.array([[np.sqrt(sum((x - y) ** 2)) for y in landmarks] for x in X])
    among = np.array([[np.sqrt(sum((x - y) ** 2)) for y in landmarks] for x in landmarks])
    scale = np.sort(among, axis=1)[:, 15]  # distance to the 15th other landmark
    expected = np.zeros((6, 30))
    for i in range(6):
        near = np.argsort(D[i])[:15]
        own = max(D[i, near[-1]], scale.min())
        weights = (1 - np.arange(15) / 15) * np.exp(-(D[i, near] ** 2) / (own * scale[near]))
        expected[i, near] = weights / weights.sum()
    B = block.laplacian.adjacency.Z
    np.testing.assert_allclose(B.toarray() if hasattr(B, "toarray") else B, expected, atol=1e-9)
