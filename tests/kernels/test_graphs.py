"""Distances, neighbours and similarity graphs against their definitions."""

from unittest.mock import patch

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from naive import kernel_matrix
from naive import laplacian as naive_laplacian
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.neighbors import NearestNeighbors

from viewloom.kernels.geometry import FEW_ROWS, Geometry, GramGeometry
from viewloom.kernels.graphs import GRAPHS, KNN, FittedKNN, GaussianGraph, make_graph, rank_weights
from viewloom.kernels.neighbours import fits_table, nearest_others
from viewloom.kernels.operators import DENSE_EIGEN_SIZE
from viewloom.kernels.pairwise import Gaussian

X = np.random.default_rng(0).standard_normal((30, 3))
NEW = np.random.default_rng(1).standard_normal((4, 3))
DENSE_AND_SPARSE = pytest.mark.parametrize("wrap", [np.asarray, sp.csr_array])


def distances(X, Y):
    return np.array([[np.linalg.norm(x - y) for y in Y] for x in X])


def laplacian_matrix(laplacian):
    K = laplacian.adjacency.K
    return np.diag(laplacian.degree) - (K.toarray() if sp.issparse(K) else K)


class TestGeometry:
    @DENSE_AND_SPARSE
    def test_distances_equal_the_double_loop(self, wrap):
        geometry = Geometry(wrap(X))
        assert_allclose(geometry.squared_distances, distances(X, X) ** 2, atol=1e-10)
        assert_allclose(geometry.to(wrap(NEW)).squared_distances, distances(NEW, X) ** 2, atol=1e-10)
        assert (geometry.size, geometry.to(wrap(NEW)).size) == (30, 4)

    @pytest.mark.parametrize("offset", [0.0, 1e6])
    @pytest.mark.parametrize("gap", [1.0, 1e-9, 0.0])
    def test_neighbours_of_few_are_exact_near_and_far_from_the_origin(self, offset, gap):
        Y = X + offset
        new = Y[:3] + gap * NEW[:3]
        near, positions = Geometry(Y).to(new).neighbours(5)
        D = distances(new, Y)
        assert_array_equal(positions, D.argsort(axis=1)[:, :5])
        assert_allclose(near, np.sort(D, axis=1)[:, :5], rtol=1e-9)

    @DENSE_AND_SPARSE
    def test_neighbours_are_the_nearest_others_in_order(self, wrap):
        near, positions = Geometry(wrap(X)).neighbours(5)
        D = distances(X, X)
        np.fill_diagonal(D, np.inf)
        assert_array_equal(positions, np.argsort(D, axis=1)[:, :5])
        assert_allclose(near, np.sort(D, axis=1)[:, :5], atol=1e-7)

    @DENSE_AND_SPARSE
    def test_neighbours_of_new_samples_are_training_samples(self, wrap):
        near, positions = Geometry(wrap(X)).to(wrap(NEW)).neighbours(5)
        D = distances(NEW, X)
        assert_array_equal(positions, np.argsort(D, axis=1)[:, :5])
        assert_allclose(near, np.sort(D, axis=1)[:, :5], atol=1e-7)

    @pytest.mark.parametrize(
        "make", [lambda: Geometry(X), lambda: Geometry(X).to(np.repeat(NEW, 40, axis=0))]
    )
    def test_neighbours_are_searched_once_and_shared(self, make):
        geometry = make()
        with patch.object(
            NearestNeighbors, "kneighbors", autospec=True, side_effect=NearestNeighbors.kneighbors
        ) as search:
            near, positions = geometry.neighbours(16)
            fewer_near, fewer = geometry.neighbours(4)
            geometry.neighbours(16)
            assert search.call_count == 1
            more = geometry.neighbours(18)[1]
            assert search.call_count == 2
        assert_array_equal(fewer, positions[:, :4])
        assert_array_equal(fewer_near, near[:, :4])
        assert_array_equal(more[:, :16], positions)

    def test_kernels_with_few_neighbours_and_the_default_graph_share_a_search(self):
        with patch.object(Geometry, "_searched", autospec=True, side_effect=Geometry._searched) as search:
            geometry = Geometry(X)
            assert geometry.neighbours(5)[1].shape == (30, 5)
            KNN().fit(geometry)
        assert search.call_count == 1

    def test_distances_are_computed_once(self):
        geometry = Geometry(X)
        assert geometry.squared_distances is geometry.squared_distances

    @pytest.mark.parametrize(("asked", "found"), [(0, 1), (29, 29), (30, 29), (1000, 29)])
    def test_there_are_at_most_all_other_samples(self, asked, found):
        assert Geometry(X).neighbours(asked)[1].shape == (30, found)

    def test_a_new_sample_can_have_all_training_samples_as_neighbours(self):
        assert Geometry(X).to(NEW).neighbours(1000)[1].shape == (4, 30)


class TestGramGeometry:
    GRAM = X @ X.T

    def test_distances_are_those_of_the_samples(self):
        geometry = GramGeometry(self.GRAM)
        assert_allclose(geometry.squared_distances, Geometry(X).squared_distances, atol=1e-10)
        near, positions = geometry.neighbours(5)
        expected_near, expected = Geometry(X).neighbours(5)
        assert_array_equal(positions, expected)
        assert_allclose(near, expected_near, atol=1e-7)

    def test_new_samples_of_mean_length(self):
        length = np.sqrt(np.diagonal(self.GRAM).mean())
        new = NEW * (length / np.linalg.norm(NEW, axis=1))[:, None]
        cross, expected = GramGeometry(self.GRAM).to(new @ X.T), Geometry(X).to(new)
        assert_allclose(cross.squared_distances, expected.squared_distances, atol=1e-10)
        assert_array_equal(cross.neighbours(5)[1], expected.neighbours(5)[1])

    def test_distances_that_would_be_imaginary_are_zero(self):
        geometry = GramGeometry(np.array([[1.0, 2.0], [2.0, 1.0]]))
        assert_array_equal(geometry.squared_distances, 0.0)
        assert_array_equal(geometry.to(np.array([[9.0, 0.0]])).squared_distances, [[0.0, 2.0]])


def check_knn(graph, n):
    """What must hold of any neighbour graph; returns its normalised adjacency."""
    S = graph.S.toarray()
    assert S.shape == (n, n)
    assert np.isfinite(S).all()
    assert_allclose(S, S.T, rtol=1e-14)
    assert (S >= 0.0).all()
    assert (S <= 1.0 + 1e-12).all()
    assert_array_equal(np.diagonal(S), 0.0)
    assert (S.sum(axis=1) > 0.0).all()  # nobody is isolated
    laplacian = graph.laplacian
    assert_array_equal(laplacian_matrix(laplacian), np.eye(n) - S)
    spectrum = np.linalg.eigvalsh(np.eye(n) - S)
    assert spectrum.min() == pytest.approx(0.0, abs=1e-9)
    assert spectrum.max() <= laplacian.sigma + 1e-9 == 2.0 + 1e-9
    return S


class TestKNN:
    @staticmethod
    def naive(X, k):
        """Self-tuning weights over the directed neighbour lists, averaged over both directions."""
        n, D = len(X), distances(X, X)
        near = [[j for j in np.argsort(D[i], kind="stable") if j != i][:k] for i in range(n)]
        scale = [D[i, near[i][-1]] for i in range(n)]
        W = np.zeros((n, n))
        for i in range(n):
            for rank, j in enumerate(near[i]):
                weight = (1 - rank / len(near[i])) * np.exp(-(D[i, j] ** 2) / (scale[i] * scale[j]))
                W[i, j] += weight / 2
                W[j, i] += weight / 2
        return W

    @DENSE_AND_SPARSE
    @pytest.mark.parametrize("k", [1, 5, 15, 29, 200])
    def test_equals_the_naive_graph(self, wrap, k):
        graph = KNN(k).fit(Geometry(wrap(X)))
        W = self.naive(X, k)
        degree = W.sum(axis=1)
        assert_allclose(graph.W.toarray(), W, atol=1e-9)
        assert_allclose(check_knn(graph, 30), W / np.sqrt(np.outer(degree, degree)), atol=1e-9)

    @given(
        arrays(float, st.tuples(st.integers(2, 12), st.integers(1, 3)), elements=st.integers(-3, 3)),
        st.integers(1, 15),
    )
    @settings(max_examples=60, deadline=None)
    def test_holds_with_ties_and_repeated_samples(self, X, k):
        check_knn(KNN(k).fit(Geometry(X)), len(X))

    @pytest.mark.parametrize("k", [1, 3, 7])
    def test_more_copies_than_neighbours(self, k):
        copies = np.vstack([np.tile(X[:1], (9, 1)), np.tile(X[1:2], (5, 1)), X[2:6]])
        S = check_knn(KNN(k).fit(Geometry(copies)), len(copies))
        assert (S[:9, :9].sum(axis=1) > 0.0).all()

    def test_ties_have_the_same_weight_in_any_order(self):
        """Four corners of a square and its centre: all corners are equally near to the centre."""
        square = np.array([[0.0, 0.0], [1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]])
        W = KNN(4).fit(Geometry(square)).W.toarray()
        assert np.ptp(W[0, 1:]) < 1e-12
        order = [3, 1, 0, 4, 2]
        assert_allclose(KNN(4).fit(Geometry(square[order])).W.toarray(), W[np.ix_(order, order)], atol=1e-12)

    def test_all_samples_alike(self):
        check_knn(KNN(3).fit(Geometry(np.ones((8, 2)))), 8)

    def test_two_samples_are_each_others_neighbours(self):
        assert_allclose(check_knn(KNN(15).fit(Geometry(X[:2])), 2), [[0.0, 1.0], [1.0, 0.0]])

    @pytest.mark.parametrize("scale", [1e-8, 1e8])
    def test_the_unit_of_measurement_does_not_matter(self, scale):
        S = KNN(5).fit(Geometry(scale * X)).S.toarray()
        assert_allclose(S, KNN(5).fit(Geometry(X)).S.toarray(), atol=1e-9)

    def test_a_far_outlier_keeps_an_edge(self):
        far = np.vstack([X * 1e-3, [[1e6, 0.0, 0.0]]])
        check_knn(KNN(3).fit(Geometry(far)), 31)

    def test_edges_of_new_samples_follow_the_row_formula(self):
        graph = KNN(5).fit(Geometry(X))
        rows, degree = graph.cross(Geometry(X).to(NEW))
        D = distances(NEW, X)
        expected = np.zeros_like(D)
        for i, d in enumerate(D):
            near = np.argsort(d)[:5]
            ranks = 1 - np.arange(5) / 5
            expected[i, near] = ranks * np.exp(-(d[near] ** 2) / (d[near[-1]] * graph.scales[near]))
            expected[i] /= np.sqrt(expected[i].sum() * graph.degrees)
        assert_allclose(rows, expected, atol=1e-9)
        assert_array_equal(degree, 1.0)

    def test_a_new_sample_on_top_of_copies_stays_finite(self):
        copies = np.vstack([np.tile(X[:1], (9, 1)), X[1:4]])
        geometry = Geometry(copies)
        rows = KNN(3).fit(geometry).cross(geometry.to(X[:1]))[0]
        assert np.isfinite(rows).all()
        assert rows[0, :9].sum() > 0.0
        assert_array_equal(rows[0, 9:], 0.0)

    def test_edges_of_a_new_sample_do_not_depend_on_the_others(self):
        dense_spot = 1e-5 * X[:10]
        geometry = Geometry(np.vstack([dense_spot, X[10:]]))
        graph = KNN(3).fit(geometry)
        many = np.vstack([[1e-5, 0.0, 0.0], *[NEW] * FEW_ROWS])
        together, few = graph.cross(geometry.to(many))[0], graph.cross(geometry.to(many[:5]))[0]
        alone = graph.cross(geometry.to(many[:1]))[0]
        assert [sp.issparse(W) for W in (together, few, alone)] == [True, False, False]
        assert_allclose(few[:1], alone, rtol=1e-9)
        assert_allclose(together.toarray()[:5], few, rtol=1e-9)

    def test_distances_that_are_equal_up_to_rounding_have_the_same_rank(self):
        equal = np.array([[1.0, 2.0, 2.0, 3.0], [1.0, 1.5, 2.0, 3.0]])
        rounded = equal * (1.0 + np.array([0.0, 0.0, 4e-16, 0.0]))
        assert (rounded[0, 1:] > rounded[0, :-1]).all()
        assert_array_equal(rank_weights(rounded), [[1.0, 0.75, 0.75, 0.25], [1.0, 0.75, 0.5, 0.25]])
        assert_array_equal(rank_weights(rounded), rank_weights(equal))

    @pytest.mark.parametrize("copies", [1, FEW_ROWS])  # few rows are dense, many sparse
    def test_samples_between_landmarks_connect_them(self, copies):
        graph, geometry = KNN(6).fit(Geometry(X)), Geometry(X)
        new = np.vstack([NEW] * copies)
        spanned = FittedKNN.spanned_by(graph, geometry.to(new))
        B = np.zeros((len(new), len(X)))
        for b, d in zip(B, distances(new, X), strict=True):
            near = np.argsort(d)[:5]
            b[near] = (1 - np.arange(5) / 5) * np.exp(-(d[near] ** 2) / (d[near[-1]] * graph.scales[near]))
            b /= b.sum()
        W = sum(np.outer(b, b) for b in B)
        np.fill_diagonal(W, 0.0)
        W += 1e-9 * graph.W.toarray()
        assert_allclose(spanned.S.toarray(), W / np.sqrt(np.outer(W.sum(axis=0), W.sum(axis=0))), atol=1e-9)
        assert np.isfinite(spanned.S.toarray()).all()
        assert_array_equal(spanned.degrees, graph.degrees)  # those that place new samples


class TestGaussianGraph:
    @pytest.mark.parametrize("sigma", [0.3, 1.0, 20.0])
    def test_equals_the_naive_laplacian(self, sigma):
        laplacian = GaussianGraph(sigma).fit(Geometry(X)).laplacian
        L = laplacian_matrix(laplacian)
        assert_allclose(L, naive_laplacian(X, sigma), atol=1e-10)
        assert_allclose(L @ np.ones(len(X)), 0.0, atol=1e-12)
        assert laplacian.sigma == pytest.approx(np.linalg.eigvalsh(L)[-1], rel=1e-9)

    def test_largest_eigenvalue_of_many_samples(self):
        many = np.random.default_rng(0).standard_normal((DENSE_EIGEN_SIZE + 20, 2))
        laplacian = GaussianGraph("median").fit(Geometry(many)).laplacian
        assert laplacian.sigma == pytest.approx(np.linalg.eigvalsh(laplacian_matrix(laplacian))[-1], rel=1e-8)

    @pytest.mark.parametrize("n", [20, DENSE_EIGEN_SIZE + 20])
    def test_a_width_so_small_that_nobody_is_alike(self, n):
        apart = np.arange(n, dtype=float)[:, None]
        laplacian = GaussianGraph(1e-3).fit(Geometry(apart)).laplacian
        assert laplacian.sigma == 0.0
        assert_array_equal(laplacian.degree, 1.0)

    @pytest.mark.parametrize("sigma", ["median", [1e-3, 1.0, 1e3]])
    def test_width_is_chosen_as_for_the_kernel(self, sigma):
        chosen = GaussianGraph(sigma).fit(Geometry(X)).sigma
        assert chosen == Gaussian(sigma).fit(Geometry(X)).kernel.sigma

    def test_edges_of_new_samples_follow_the_row_formula(self):
        geometry = Geometry(X)
        rows, degree = GaussianGraph(0.8).fit(geometry).cross(geometry.to(NEW))
        W = kernel_matrix(np.vstack([X, NEW]), "gaussian", sigma=0.8)[30:, :30]
        assert_allclose(rows, W, atol=1e-12)
        assert_allclose(degree, W.sum(axis=1), rtol=1e-9)

    @pytest.mark.parametrize("sigma", ["auto", 0.0, []])
    def test_a_bad_width_is_refused(self, sigma):
        with pytest.raises(ValueError, match="sigma must"):
            GaussianGraph(sigma).fit(Geometry(X))


class TestMakeGraph:
    @pytest.mark.parametrize("name", GRAPHS)
    def test_a_name(self, name):
        assert type(make_graph(name)) is GRAPHS[name]

    @pytest.mark.parametrize("graph", [None, KNN(3), GaussianGraph(2.0)])
    def test_objects_and_none_are_themselves(self, graph):
        assert make_graph(graph) is graph

    @pytest.mark.parametrize("graph", ["anchor", 3, X])
    def test_anything_else_is_refused(self, graph):
        with pytest.raises(ValueError, match=r"graph must be one of \['gaussian', 'knn'\]"):
            make_graph(graph)

    def test_a_class_in_place_of_an_object_is_refused(self):
        with pytest.raises(ValueError, match="graph must be one of"):
            make_graph(KNN)


@pytest.mark.parametrize("graph", [KNN(7), GaussianGraph([1.0, 2.0])])
def test_graphs_are_cloned_by_their_parameters(graph):
    assert clone(graph).get_params() == graph.get_params()


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_neighbours_from_all_products_are_those_of_a_loop(dtype):
    rng = np.random.default_rng(0)
    X = (5.0 + rng.standard_normal((403, 30))).astype(dtype)
    X[7] = X[3]  # a duplicate, whose distance would be lost in a difference of products
    found, positions = nearest_others(X, 9)
    gaps = np.sqrt(((X[:, None].astype(np.float64) - X[None]) ** 2).sum(axis=2))
    np.fill_diagonal(gaps, np.inf)
    assert_allclose(found, np.sort(gaps, axis=1)[:, :9], atol=1e-12)
    assert_allclose(found, np.take_along_axis(gaps, positions, axis=1), atol=1e-12)
    assert all(len(set(row)) == 9 for row in positions.tolist())
    assert found[7, 0] == found[3, 0] == 0.0


@pytest.mark.parametrize("new", [False, True], ids=["others", "new samples"])
def test_neighbours_of_sparse_samples_with_dense_columns_are_those_of_a_loop(new):
    rng = np.random.default_rng(0)
    X = np.hstack(
        [5.0 + rng.standard_normal((603, 20)), rng.random((603, 70)) * (rng.random((603, 70)) < 0.05)]
    )
    X[::7, :20] = 0.0  # views that are absent
    X[8] = X[3]  # a duplicate, whose distance would be lost in a difference of products
    geometry, Y = Geometry(sp.csr_array(X)), X[2:400] if new else X
    found, positions = geometry.nearest(sp.csr_array(Y), 9) if new else geometry.neighbours(15)
    gaps = np.sqrt(((Y[:, None] - X[None]) ** 2).sum(axis=2))
    if not new:
        np.fill_diagonal(gaps, np.inf)
    assert geometry.partly_dense.crowded.tolist() == 20 * [True] + 70 * [False]
    assert "index" not in vars(geometry)  # scikit-learn was not asked
    assert_allclose(found, np.sort(gaps, axis=1)[:, : found.shape[1]], atol=1e-12)
    assert_allclose(found, np.take_along_axis(gaps, positions, axis=1), atol=1e-12)


def test_few_samples_and_columns_of_zeros_are_searched_by_scikit_learn():
    thin = sp.csr_array((np.random.default_rng(0).random((300, 50)) < 0.1).astype(float))
    assert Geometry(thin).partly_dense is None
    few = Geometry(sp.csr_array(np.random.default_rng(1).standard_normal((40, 5))))
    gaps = np.sqrt(few.squared_distances)
    np.fill_diagonal(gaps, np.inf)
    assert not few.partly_dense.fits(15)
    assert_allclose(few.neighbours(15)[0], np.sort(gaps, axis=1)[:, :15])


def test_few_features_samples_or_sparse_views_are_searched_otherwise():
    X = np.zeros((400, 30))
    assert fits_table(X, 9)
    assert not fits_table(X[:, :10], 9)
    assert not fits_table(X[:100], 9)
    assert not fits_table(np.zeros((3001, 30)), 9)
    assert not fits_table(sp.csr_array(X), 9)
