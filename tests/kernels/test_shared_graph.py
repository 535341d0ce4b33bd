"""The graph that views share, whom to believe, and the default kernel, against loops over entries."""

import itertools

import naive
import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose

import viewloom as vl
from viewloom.kernels.base import Context
from viewloom.kernels.diffusion import Diffusion
from viewloom.kernels.geometry import Geometry, GramGeometry
from viewloom.kernels.graphs import KNN
from viewloom.kernels.reliability import Agreement, Structure, overlap, spread, view_reliability
from viewloom.kernels.shared_graph import Fusion, Part, SharedGraph, Walk, WalkShape, common_shape
from viewloom.kernels.votes import provisional_clusters

N, K = 40, 3
SHAPE = WalkShape(6, 7, 12.0, 1.5 * K)


def cohort(missing=False, n=N, seed=0):
    """Views that agree, one that does not, and which samples have them."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % K
    blocks = [3 * rng.standard_normal((K, d))[y] + rng.standard_normal((n, d)) for d in (2, 3, 4)]
    blocks.append(rng.standard_normal((n, 3)))
    rows = [np.arange(n) for _ in blocks]
    if missing:
        rows[1], rows[3] = np.flatnonzero(np.arange(n) % 5), np.arange(8, n)
    return [X[where] for X, where in zip(blocks, rows, strict=True)], rows


def shared_graph(missing=False):
    blocks, rows = cohort(missing)
    return SharedGraph.of([Geometry(X) for X in blocks], rows, N, K, [SHAPE] * 4), blocks, rows


def gram(Z):
    return Z @ Z.T


def naive_weft(blocks, rows):
    """Weights and woven graph, from the data alone."""
    graphs = [naive.neighbour_graph(X, 6)[0] for X in blocks]
    Z = [naive.walk(S, 7, 12.0, 4.5)[0] for S in graphs]
    full = []
    for S, where in zip(graphs, rows, strict=True):
        T = np.zeros((N, N))
        T[np.ix_(where, where)] = S
        full.append(T)
    E, null, C = np.eye(4), np.zeros((4, 4)), np.eye(4)
    for a in range(4):
        for b in range(4):
            both = np.intersect1d(rows[a], rows[b])
            C[a, b] = naive.overlap(full[a], full[b])
            if a != b:
                E[a, b], null[a, b] = naive.mutual(
                    Z[a][np.searchsorted(rows[a], both)], Z[b][np.searchsorted(rows[b], both)], K
                )
    w, g = naive.view_reliability(E, null, C)
    fused = naive.neighbour_graph(naive.side_by_side(blocks, rows, N, w), 6)[0]
    return w, g, naive.combined_graph(graphs, rows, N, w, fused), E, C, graphs, Z


class TestWalk:
    @pytest.mark.parametrize("time", [1.0, 12.0, 40.0])
    @pytest.mark.parametrize("directions", [1.0, 4.5, 100.0])
    def test_features_equal_the_naive_ones(self, time, directions):
        S = KNN(6).fit(Geometry(cohort()[0][0])).S
        Z, onward = naive.walk(S.toarray(), 7, time, directions)
        found = Walk.along(S, 7, time, directions)
        assert_allclose(gram(found.Z), gram(Z), atol=1e-9)
        assert_allclose(found.extension @ found.Z.T, onward @ Z.T, atol=1e-9)

    def test_of_many_samples_too(self):
        """Lanczos instead of LAPACK."""
        S = KNN(8).fit(Geometry(cohort(n=420)[0][0])).S
        assert_allclose(
            gram(Walk.along(S, 5, 12.0, 4.5).Z), gram(naive.walk(S.toarray(), 5, 12.0, 4.5)[0]), atol=1e-3
        )

    def test_it_ends_where_few_directions_are_left(self):
        """Of d equal copies of one direction, each left over by half in a step, d / 2^t remain."""
        W = sp.csr_array(sp.block_diag([np.ones((2, 2))] * 4))  # eigenvalues 1 (4 times) and 0 (4 times)
        short, long = Walk.along(W, 8, 1.0, 6.01), Walk.along(W, 8, 1.0, 4.5)
        assert_allclose(gram(short.Z)[0, 1], (1 - 0.5) / (1 + 0.5))  # left over: 4 + 4 / 2 = 6
        time = next(1.2**i for i in range(99) if 4 + 4 * 0.5 ** (1.2**i) <= 4.5)
        assert_allclose(gram(long.Z)[0, 1], (1 - 0.5**time) / (1 + 0.5**time))

    def test_it_ends_in_any_case(self):
        assert np.isfinite(Walk.along(sp.eye_array(9).tocsr(), 9, 12.0, 2.0).Z).all()

    def test_new_nodes_are_continued_by_their_edges(self):
        S = KNN(6).fit(Geometry(cohort()[0][0])).S
        walk = Walk.along(S, 7, 12.0, 4.5)
        _, onward = naive.walk(S.toarray(), 7, 12.0, 4.5)
        edges, degrees = S.toarray()[:5] * 3.0, S.toarray().sum(axis=1)
        T = np.array([[e[j] / np.sqrt(sum(e) * degrees[j]) for j in range(N)] for e in edges])
        assert_allclose(gram(walk.features(edges)), gram(naive.unit(T @ onward)), atol=1e-9)
        assert not walk.features(np.zeros((1, N))).any()

    def test_faster_directions_are_not_continued(self):
        path = sp.diags_array(
            [np.ones(N - 1), np.ones(N - 1)], offsets=[-1, 1]
        ).tocsr()  # eigenvalues in [-1, 1]
        walk = Walk.along(path, N, 12.0, 1e9)
        values = np.sort(np.linalg.eigvalsh(naive.normalised(path.toarray())))[::-1]
        assert_allclose(walk.extension[:, values < 0.05], 0.0)
        assert (np.abs(walk.extension[:, values > 0.06]).max(axis=0) > 0.0).all()


class TestAgreement:
    def features(self):
        return [Walk.along(KNN(6).fit(Geometry(X)).S, 7, 12.0, 4.5).Z for X in cohort()[0]]

    @pytest.mark.parametrize("k", [2, 3, 5])
    def test_equals_the_naive_one(self, k):
        Z = self.features()
        found = Agreement.of(Z, [np.arange(N)] * 4, k)
        for a, b in itertools.permutations(range(4), 2):
            assert_allclose([found.E[a, b], found.null[a, b]], naive.mutual(Z[a], Z[b], k), atol=1e-9)
        assert_allclose(np.diag(found.E), 1.0)
        assert found.known.all()

    def test_over_the_samples_that_both_views_have(self):
        Z, (_, rows) = self.features(), cohort(missing=True)
        found = Agreement.of([z[where] for z, where in zip(Z, rows, strict=True)], rows, K)
        both = np.intersect1d(rows[1], rows[3])
        assert_allclose(found.E[1, 3], naive.mutual(Z[1][both], Z[3][both], K)[0], atol=1e-9)

    def test_known_answers(self):
        rng = np.random.default_rng(0)
        labels = np.eye(3)[np.arange(300) % 3]
        same, other = labels @ rng.standard_normal((3, 4)), np.eye(3)[rng.permutation(300) % 3]
        E = Agreement.of([labels, same, other], [np.arange(300)] * 3, 3).E
        assert_allclose(E[:2, :2], 1.0)  # the same clusters, whatever they are called
        assert E[0, 2] < 0.02  # chance
        assert E[2, 0] < 0.02

    def test_too_few_in_common_say_nothing(self):
        Z, rows = [np.eye(6), np.eye(6)], [np.arange(6), np.arange(3, 9)]
        assert not Agreement.of(Z, rows, 3).known[0, 1]
        more = [np.arange(6), np.arange(2, 8)]
        assert Agreement.of(Z, more, 3).known.all()

    @pytest.mark.parametrize(("n", "r"), [(12, 1), (40, 2), (40, 9)])
    def test_chance_is_that_of_random_directions(self, n, r):
        """Mean and standard deviation of the explained share over random directions."""
        rng = np.random.default_rng(0)
        A = Structure.of(rng.standard_normal((n, 12)) * np.linspace(0.3, 3.0, 12), r + 1)
        random = [Structure.of(rng.standard_normal((n, r)), r + 1) for _ in range(4000)]
        a, span = A.spectrum, A.spectrum[-r:].sum() - r / (n - 1) * A.spectrum.sum()
        explained = np.array([((B.leading.T @ A.Y) ** 2).sum() for B in random])
        assert_allclose(explained.mean(), r / (n - 1) * a.sum(), rtol=0.03)
        assert_allclose(explained.std() / span, A.explained_by(random[0])[1], rtol=0.05)


def test_overlap_equals_the_naive_one_and_knows_copies():
    blocks, rows = cohort(missing=True)
    graphs = [KNN(6).fit(Geometry(X)).S for X in blocks]
    full = [spread(S, where, where, (N, N)).toarray() for S, where in zip(graphs, rows, strict=True)]
    expected = [[naive.overlap(S, T) for T in full] for S in full]
    assert_allclose(overlap(graphs, rows), expected)
    assert_allclose(overlap([graphs[0], 7.0 * graphs[0]], [rows[0]] * 2), 1.0)
    assert_allclose(
        overlap([sp.eye_array(4).tocsr(), sp.csr_array(np.eye(4)[::-1])], [np.arange(4)] * 2), np.eye(2)
    )


class TestReliability:
    E = np.array([[1.0, 0.8, 0.7, 0.1], [0.8, 1.0, 0.6, 0.0], [0.7, 0.6, 1.0, 0.05], [0.1, 0.0, 0.05, 1.0]])
    C = np.array([[1.0, 0.3, 0.2, 0.1], [0.3, 1.0, 0.6, 0.1], [0.2, 0.6, 1.0, 0.0], [0.1, 0.1, 0.0, 1.0]])
    null = np.array([[0, 0.1, 0.05, 0.1], [0.1, 0, 0.02, 0.1], [0.05, 0.02, 0, 0.1], [0.1, 0.1, 0.1, 0]])

    def of(self, E, C, null=0.0):
        E = np.asarray(E)
        return view_reliability(Agreement(E, np.full(E.shape, null), np.ones(E.shape, bool)), np.asarray(C))

    def test_equals_the_naive_iteration(self):
        agreement = Agreement(self.E, self.null, np.ones((4, 4), bool))
        found, expected = (
            view_reliability(agreement, self.C),
            naive.view_reliability(self.E, self.null, self.C),
        )
        for mine, naively in zip(found, expected, strict=True):
            assert_allclose(mine, naively)

    def test_it_has_come_to_its_fixed_point(self):
        agreement = Agreement(self.E, self.null, np.ones((4, 4), bool))
        w = view_reliability(agreement, self.C)[0]
        A = (1.0 - self.C) * w
        np.fill_diagonal(A, 0.0)
        A /= A.sum(axis=1)[:, None]
        e, epsilon = (self.E * A).sum(axis=1), 3 * (self.null * A).sum(axis=1)
        m = (self.C**32).sum(axis=1)
        expected = e**4 / (e**4 + epsilon**4) / (m * (self.C / m).sum(axis=1))
        assert_allclose(w, expected / expected.sum(), atol=1e-9)

    @pytest.mark.parametrize("copied", range(4))
    def test_copies_share_one_weight_and_the_others_keep_theirs(self, copied):
        take = [*range(4), copied, copied]
        w, g = view_reliability(Agreement(self.E, self.null, np.ones((4, 4), bool)), self.C)
        E, null, C = (M[np.ix_(take, take)] for M in (self.E, self.null, self.C))
        found, gates = view_reliability(Agreement(E, null, np.ones((6, 6), bool)), C)
        expected = np.where(np.arange(6) % 4 == copied, w[take] / 3, w[take])
        expected[4:] = w[copied] / 3
        assert_allclose(found, expected, rtol=1e-6)
        assert_allclose(gates, g[take], rtol=1e-6)

    @pytest.mark.parametrize("null", [0.0, 0.05, 0.3])
    @pytest.mark.parametrize("agreed", [0.9, 0.1])
    def test_two_views_are_equal(self, agreed, null):
        w, g = self.of([[1.0, agreed], [agreed, 1.0]], np.eye(2), null)
        assert_allclose(w, 0.5)
        assert g[0] == g[1]

    def test_two_views_by_hand(self):
        """e = 0.2 is two thirds of epsilon = 3 * 0.1."""
        g = self.of([[1.0, 0.2], [0.2, 1.0]], np.eye(2), 0.1)[1]
        assert_allclose(g, 2**4 / (2**4 + 3**4))

    def test_agreement_well_above_chance_counts_in_full(self):
        """However much it is: no view grows rich by agreeing most."""
        E = [[1.0, 0.8, 0.3], [0.8, 1.0, 0.3], [0.3, 0.3, 1.0]]
        w, g = self.of(E, np.eye(3), 0.005)
        assert_allclose(w, 1 / 3, rtol=0.01)
        assert_allclose(g, 1.0, rtol=0.01)

    @pytest.mark.parametrize("noise", [1, 10])
    def test_noise_has_next_to_no_weight_however_many_views_of_it(self, noise):
        v = 3 + noise
        E = np.full((v, v), 0.005)
        E[:3, :3] = 0.06
        np.fill_diagonal(E, 1.0)
        w, g = self.of(E, np.eye(v), 0.006)
        assert_allclose(w[:3], w[0])
        assert w[:3].sum() > 0.8
        assert (w[3:] < 0.05 * w[0]).all()
        assert g[3:].max() < 0.05 < 0.9 < g[:3].min()

    def test_pairs_without_common_samples_are_left_out(self):
        E = np.array([[1.0, 0.5, 0.0], [0.5, 1.0, 0.5], [0.0, 0.5, 1.0]])
        known = np.array([[True, True, False], [True, True, True], [False, True, True]])
        assert_allclose(view_reliability(Agreement(E, np.full((3, 3), 0.01), known), np.eye(3))[0], 1 / 3)

    def test_copies_share_one_weight_and_do_not_confirm_each_other(self):
        E, C = np.array([[1.0, 0.6], [0.6, 1.0]]), np.eye(2)
        w, g = self.of(np.kron(E, np.ones((2, 2))), np.kron(C, np.ones((2, 2))), 0.01)
        assert_allclose(w, 0.25)
        assert_allclose(g, self.of(E, C, 0.01)[1][0])
        w, g = self.of(np.ones((2, 2)), np.ones((2, 2)))  # nothing but copies: no other view to compare with
        assert_allclose(g, 1.0, atol=1e-3)
        assert_allclose(w, 0.5)

    def test_one_view(self):
        assert self.of(np.ones((1, 1)), np.ones((1, 1))) == ([1.0], [1.0])


class TestFusion:
    @pytest.mark.parametrize("missing", [False, True])
    def test_equals_the_naive_features(self, missing):
        blocks, rows = cohort(missing)
        w = np.array([0.4, 0.3, 0.2, 0.1])
        found = Fusion.of([Geometry(X) for X in blocks], rows, N, w)
        expected = naive.side_by_side(blocks, rows, N, w)
        assert_allclose(gram(found.geometry.X), gram(expected), atol=1e-9)

    def test_mean_squared_length_is_the_weight(self):
        blocks, rows = cohort()
        X = Fusion.of([Geometry(X) for X in blocks], rows, N, np.array([0.4, 0.3, 0.2, 0.1])).geometry.X
        ends = np.cumsum([0, *(block.shape[1] for block in blocks)])
        lengths = [(X[:, i:j] ** 2).sum(axis=1).mean() for i, j in itertools.pairwise(ends)]
        assert_allclose(lengths, [0.4, 0.3, 0.2, 0.1])

    def test_sparse_views_have_the_same_distances(self):
        blocks, rows = cohort()
        blocks, w = [np.abs(X) for X in blocks], np.full(4, 0.25)  # profiles, which are not decorrelated
        dense = Fusion.of([Geometry(X) for X in blocks], rows, N, w).geometry
        sparse = Fusion.of([Geometry(sp.csr_array(X)) for X in blocks], rows, N, w).geometry
        assert_allclose(sparse.squared_distances, dense.squared_distances, atol=1e-9)

    @pytest.mark.parametrize("n", [5, 38])
    def test_new_samples_lie_where_training_samples_do(self, n):
        """Few and many at a time; distances to all training samples, with a view that none of them has."""
        blocks, rows = cohort()
        w = np.array([0.4, 0.3, 0.2, 0.1])
        fusion = Fusion.of([Geometry(X) for X in blocks], rows, N, w)
        crosses = {a: Geometry(X).to(X[:n]) for a, X in enumerate(blocks)}
        cross = fusion.cross(crosses, dict.fromkeys(crosses, np.arange(n)), n)
        assert_allclose(cross.squared_distances, fusion.geometry.squared_distances[:n], atol=1e-9)
        del crosses[2]
        cross = fusion.cross(crosses, dict.fromkeys(crosses, np.arange(n)), n)
        new = fusion.geometry.X[:n].copy()
        new[:, 5:9] = 0.0
        new /= np.sqrt(0.8)
        expected = [[sum((x - y) ** 2) for y in fusion.geometry.X] for x in new]
        assert_allclose(cross.squared_distances, expected, atol=1e-9)

    def test_a_view_that_does_not_vary_has_no_say(self):
        assert Part.of(np.full((6, 2), 3.0), 1.0)[0].factor == 0.0
        assert Part.of(1e9 + 1e-9 * np.random.default_rng(0).standard_normal((6, 2)), 1.0)[0].factor == 0.0
        assert Part.of(np.array([[0.0], [2.0]]), 4.0)[0].factor == 2.0  # variance 1


class TestSharedGraph:
    @pytest.mark.parametrize("missing", [False, True])
    def test_equals_the_naive_graph(self, missing):
        found, blocks, rows = shared_graph(missing)
        w, g, M, *_ = naive_weft(blocks, rows)
        assert_allclose(found.reliability.weights, w, atol=1e-9)
        labels = provisional_clusters(found.walk.Z, K)
        assert_allclose(found.reliability.votes, naive.votes(blocks, rows, labels, g), atol=1e-7)
        assert_allclose(found.degrees, M.sum(axis=1), atol=1e-9)
        assert_allclose(found.M.toarray(), naive.normalised(M), atol=1e-9)
        assert_allclose(gram(found.walk.Z), gram(naive.walk(naive.normalised(M), 7, 12.0, 4.5)[0]), atol=1e-7)
        for a, where in enumerate(rows):
            assert_allclose(found.within(a).toarray(), found.M.toarray()[np.ix_(where, where)])

    def test_noise_is_believed_least(self):
        assert np.argmin(shared_graph()[0].reliability.weights) == 3

    @pytest.mark.parametrize("n", [4, 36])
    def test_edges_of_new_samples_equal_the_naive_ones(self, n):
        found, blocks, rows = shared_graph()
        new = [X[:n] + 0.1 for X in blocks]
        crosses = {
            a: found_geometry.to(X)
            for a, (found_geometry, X) in enumerate(zip(map(Geometry, blocks), new, strict=True))
        }
        cross = found.cross(crosses, dict.fromkeys(crosses, np.arange(n)), n)
        W = np.zeros((n, N))
        for a, X in enumerate(blocks):
            _, scale, degrees = naive.neighbour_graph(X, 6)
            W += (
                0.6
                * found.reliability.weights[a]
                * np.array([naive.neighbour_edges(x, X, 6, scale, degrees) for x in new[a]])
            )
        side = naive.side_by_side(blocks, rows, N, found.reliability.weights)
        ends = np.cumsum([0, *(X.shape[1] for X in blocks)])
        moved = [  # the linear map from features to the training samples' coordinates, by least squares
            (new[a] - X.mean(axis=0)) @ np.linalg.lstsq(X - X.mean(axis=0), side[:, i:j], rcond=None)[0]
            for a, (X, (i, j)) in enumerate(zip(blocks, itertools.pairwise(ends), strict=True))
        ]
        _, scale, degrees = naive.neighbour_graph(side, 6)
        fused = np.array([naive.neighbour_edges(x, side, 6, scale, degrees) for x in np.hstack(moved)])
        alone = found.cross(crosses, dict.fromkeys(crosses, np.arange(n)), n, fuse=False)
        for edges, M in ((W + 0.4 * fused, cross.M), (W / 0.6, alone.M)):
            expected = [[e[j] / np.sqrt(sum(e) * found.degrees[j]) for j in range(N)] for e in edges]
            assert_allclose(M.toarray() if sp.issparse(M) else M, expected, atol=1e-9)

    def test_a_gram_matrix_has_nothing_to_put_beside_others(self):
        blocks, rows = cohort()
        geometries = [Geometry(blocks[0]), GramGeometry(blocks[1] @ blocks[1].T)]
        found = SharedGraph.of(geometries, rows[:2], N, K, [SHAPE] * 2)
        assert found.fusion is None
        S = [KNN(6).fit(geometry).S.toarray() for geometry in geometries]
        M = found.reliability.weights[0] * S[0] + found.reliability.weights[1] * S[1]
        assert_allclose(found.M.toarray(), naive.normalised(M), atol=1e-9)


def test_what_belongs_to_all_views_has_medians_and_the_largest_rank():
    shapes = [WalkShape(5, 9, 12.0, 4.5), WalkShape(20, 6, 30.0, 4.5), WalkShape(8, 3, 13.0, 4.5)]
    assert common_shape(shapes) == WalkShape(8, 9, 13.0, 4.5)
    assert common_shape(shapes[:1]) == shapes[0]


class TestDiffusion:
    @pytest.mark.parametrize(
        ("n", "k", "count"), [(40, 3, 7), (20, 3, 5), (300, 3, 20), (100, 5, 10), (690, 27, 13)]
    )
    def test_parameters_that_are_left_open(self, n, k, count):
        assert Diffusion().shape(n, k) == WalkShape(count, 3 * k, 12.0, 1.5 * k)
        assert Diffusion(4, 6.0, 11).shape(n, k) == WalkShape(4, 11, 6.0, 1.5 * k)
        assert Diffusion().share == 0.75

    @pytest.mark.parametrize("share", [None, 0.0, 0.2, 1.0])
    def test_kernel_equals_the_naive_one(self, share):
        found, blocks, rows = shared_graph(missing=True)
        kernel = Diffusion(6, 12.0, 7) if share is None else Diffusion(6, 12.0, 7, share)
        share = 0.75 if share is None else share
        *_, M, _, _, graphs, _ = naive_weft(blocks, rows)
        M = naive.normalised(M)
        for a, X in enumerate(blocks):
            T = (1 - share) * graphs[a] + share * M[np.ix_(rows[a], rows[a])]
            expected = gram(naive.walk(T, 7, 12.0, 4.5)[0])
            fitted = kernel.fit(Geometry(X), Context(n_clusters=K, shared_graph=found, view=a))
            assert_allclose(gram(fitted.operator.Z), expected, atol=1e-7)

    def test_a_view_alone(self):
        X = cohort()[0][0]
        fitted = Diffusion(6, 12.0, 7).fit(Geometry(X), Context(n_clusters=K))
        S, scale, degrees = naive.neighbour_graph(X, 6)
        Z, onward = naive.walk(S, 7, 12.0, 4.5)
        assert_allclose(gram(fitted.operator.Z), gram(Z), atol=1e-9)
        new = X[:5] + 0.05
        T = np.array([naive.neighbour_edges(x, X, 6, scale, degrees) for x in new])
        d = S.sum(axis=1)
        T = np.array([[t[j] / np.sqrt(sum(t) * d[j]) for j in range(N)] for t in T])
        placed = fitted.place(Geometry(X).to(new)).Z
        assert_allclose(placed @ fitted.operator.Z.T, naive.unit(T @ onward) @ Z.T, atol=1e-9)

    @pytest.mark.parametrize("share", [0.3, 0.5])
    def test_new_samples_by_their_edges_in_the_view_and_in_all(self, share):
        found, blocks, rows = shared_graph(missing=True)
        a = 1
        fitted = Diffusion(6, 12.0, 7, share).fit(
            Geometry(blocks[a]), Context(n_clusters=K, shared_graph=found, view=a)
        )
        crosses = {b: Geometry(X).to(X[:4] + 0.05) for b, X in enumerate(blocks)}
        cross = found.cross(crosses, dict.fromkeys(crosses, np.arange(4)), 4)
        edges = (1 - share) * cross.edges[a] + share * cross.M[:, rows[a]]
        placed = fitted.place(crosses[a], cross).Z
        assert_allclose(placed, fitted.walk.features(edges))


def test_a_default_fit_weighs_views_by_the_naive_weights():
    """The whole way from data to weights: scaled views, auto neighbours, three directions per cluster."""
    blocks, rows = cohort()
    model = vl.KernelMultiviewNMF(K, random_state=0).fit(dict(zip("abcd", blocks, strict=True)))
    scaled = [(X - X.mean(axis=0)) / X.std(axis=0) for X in blocks]
    graphs = [naive.neighbour_graph(X, 7)[0] for X in scaled]
    Z = [naive.walk(S, 9, 12.0, 4.5)[0] for S in graphs]
    pairs = [[naive.mutual(Z[a], Z[b], K) for b in range(4)] for a in range(4)]
    E, null = ([[pair[i] for pair in row] for row in pairs] for i in range(2))
    w, g = naive.view_reliability(E, null, [[naive.overlap(S, T) for T in graphs] for S in graphs])
    reliability = model.fitted_model_.problem.reliability(K)
    assert_allclose(reliability.weights, w, atol=1e-9)
    labels = provisional_clusters(model.fitted_model_.problem.shared_graph.walk.Z, K)
    assert_allclose(reliability.votes, naive.votes(scaled, rows, labels, g), atol=1e-7)
    fused = naive.neighbour_graph(naive.side_by_side(scaled, rows, N, w), 7)[0]
    M = naive.normalised(naive.combined_graph(graphs, rows, N, w, fused))
    for a, view in enumerate(model.fitted_model_.problem.views):
        expected = naive.walk(0.25 * graphs[a] + 0.75 * M, 9, 12.0, 4.5)[0]
        assert_allclose(gram(view.kernel.operator.Z), gram(expected), atol=1e-7)
