"""Operators against the matrices they stand for, written out."""

from functools import cache, reduce
from operator import add
from unittest.mock import patch

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse.linalg import aslinearoperator, eigsh

from viewloom.kernels import operators
from viewloom.kernels.operators import (
    DENSE_EIGEN_SIZE,
    Cross,
    Explicit,
    Factored,
    _largest,
    top_eigenpairs,
    unit_rows,
)

SMALL, LARGE = 12, DENSE_EIGEN_SIZE + 50


@cache
def random_factor(n, m):
    """A factor with zeros, so that its sparse form is a true one, and off the origin, as centring matters."""
    rng = np.random.default_rng(0)
    Z = (rng.standard_normal((n, m)) + 0.5) * (rng.random((n, m)) < 0.6)
    Z.flags.writeable = False
    return Z


@cache
def gram(n, m):
    return random_factor(n, m) @ random_factor(n, m).T


@cache
def eigenpairs(n, m):
    return np.linalg.eigh(gram(n, m))


@cache
def centred_eigenvalues(n, m):
    H = np.eye(n) - 1.0 / n
    return np.linalg.eigvalsh(H @ gram(n, m) @ H)[::-1]


def explicit(n, m):
    return Explicit(gram(n, m))


def explicit_sparse(n, m):
    return Explicit(sp.csr_array(gram(n, m)))


def factored(n, m):
    return Factored(random_factor(n, m))


def factored_sparse(n, m):
    return Factored(sp.csr_array(random_factor(n, m)))


KINDS = pytest.mark.parametrize("make", [explicit, explicit_sparse, factored, factored_sparse])
SHAPES = pytest.mark.parametrize(("n", "m"), [(SMALL, 5), (SMALL, 30), (LARGE, 8), (LARGE, LARGE + 20)])


@KINDS
@SHAPES
class TestAgainstTheMatrix:
    def test_project_then_lift_is_the_product(self, make, n, m):
        operator, K = make(n, m), gram(n, m)
        G = np.random.default_rng(1).random((3, n))
        projection = operator.project(G)
        assert operator.size == n
        assert_allclose(operator.lift(projection.M), G @ K, rtol=1e-10, atol=1e-9)
        assert_allclose(projection.quad, G @ K @ G.T, rtol=1e-10)

    def test_codebook_lifts_to_the_product(self, make, n, m):
        operator, K = make(n, m), gram(n, m)
        Pt = np.random.default_rng(2).standard_normal((3, n))
        if isinstance(operator, Explicit):
            rows = Cross(operator.K, operator.diagonal())
            assert_array_equal(rows.diagonal(), np.diagonal(K))
        else:
            rows = operator
        assert_allclose(rows.lift(operator.codebook(Pt)), Pt @ K, rtol=1e-10, atol=1e-9)

    def test_diagonal_and_mean(self, make, n, m):
        operator, K = make(n, m), gram(n, m)
        assert_allclose(operator.diagonal(), np.diagonal(K), rtol=1e-12)
        assert operator.mean() == pytest.approx(K.mean(), rel=1e-12)

    @pytest.mark.parametrize("rank", [1, 4])
    def test_features_are_the_best_approximation_of_their_rank(self, make, n, m, rank):
        F = make(n, m).features(rank)
        values, V = eigenpairs(n, m)
        best = (V[:, -rank:] * values[-rank:]) @ V[:, -rank:].T
        assert F.shape == (n, rank)
        assert_allclose(F @ F.T, best, atol=1e-6 * values[-1])

    @pytest.mark.parametrize("rank", [1, 5])
    def test_centred_spectrum(self, make, n, m, rank):
        expected = centred_eigenvalues(n, m)[:rank]
        assert_allclose(make(n, m).centred_spectrum(rank), expected, atol=1e-7 * expected[0])


@KINDS
@pytest.mark.parametrize("m", [5, 30])
def test_a_rank_beyond_the_matrix_gives_all_of_it(make, m):
    operator, K = make(SMALL, m), gram(SMALL, m)
    F = operator.features(SMALL + 3)
    assert_allclose(F @ F.T, K, atol=1e-10)
    spectrum = operator.centred_spectrum(SMALL)
    assert_allclose(spectrum, centred_eigenvalues(SMALL, m), atol=1e-10)
    assert spectrum.sum() == pytest.approx(np.trace(K) - SMALL * K.mean())


@KINDS
@pytest.mark.parametrize("n", [SMALL, LARGE])
def test_no_spectrum_where_none_is_asked_for(make, n):
    assert make(n, 5).centred_spectrum(0).shape == (0,)


@pytest.mark.parametrize("wrap", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("m", [5, 30])
def test_projections_of_row_blocks_add_up_to_the_whole(wrap, m):
    Z, G = random_factor(SMALL, m), np.random.default_rng(1).random((3, SMALL))
    blocks = [slice(0, 3), slice(3, 4), slice(4, SMALL)]
    total = reduce(add, [Factored(wrap(Z[rows])).project(G[:, rows]) for rows in blocks])
    assert_allclose(total.M, Factored(Z).project(G).M, atol=1e-12)
    assert_allclose(total.quad, G @ Z @ Z.T @ G.T, rtol=1e-10)
    lifted = np.hstack([Factored(wrap(Z[rows])).lift(total.M) for rows in blocks])
    assert_allclose(lifted, G @ Z @ Z.T, atol=1e-10)


def test_explicit_projections_cannot_be_added():
    projection = Explicit(np.eye(4)).project(np.ones((2, 4)))
    with pytest.raises(ValueError, match="Only factored operators"):
        projection + projection


@pytest.mark.parametrize("n", [SMALL, LARGE])
@pytest.mark.parametrize("make", [explicit, explicit_sparse, factored, factored_sparse])
def test_single_precision_is_kept_in_products_and_good_to_six_digits(make, n):
    operator, K = make(n, 8), gram(n, 8)
    name = "K" if isinstance(operator, Explicit) else "Z"
    setattr(operator, name, getattr(operator, name).astype(np.float32))
    G = np.random.default_rng(1).random((3, n)).astype(np.float32)
    projection = operator.project(G)
    lifted = operator.lift(projection.M)
    assert lifted.dtype == np.float32
    assert projection.quad.dtype == np.float64
    assert_allclose(lifted, G @ K, atol=1e-5 * np.abs(G @ K).max())
    top = eigenpairs(n, 8)[0][::-1][:3]
    assert_allclose((operator.features(3) ** 2).sum(axis=0), top, rtol=1e-4)
    assert_allclose(operator.centred_spectrum(3), centred_eigenvalues(n, 8)[:3], rtol=1e-4)
    assert operator.mean() == pytest.approx(K.mean(), rel=1e-5)


def recorded(decompose, used):
    """The function, which also notes the precision of the matrices it is given."""

    def call(K, *args, **kwargs):
        used.append(K.dtype)
        return decompose(K, *args, **kwargs)

    return call


class TestTopEigenpairs:
    @pytest.mark.parametrize("wrap", [np.asarray, sp.csr_array, aslinearoperator])
    @pytest.mark.parametrize(("n", "rank"), [(SMALL, 3), (LARGE, 3), (LARGE, LARGE // 2)])
    def test_agree_with_numpy_and_fall(self, wrap, n, rank):
        K = gram(n, 2 * n)
        values, vectors = top_eigenpairs(wrap(K), rank)
        assert_allclose(values, eigenpairs(n, 2 * n)[0][::-1][:rank], atol=1e-8 * values[0])
        assert (np.diff(values) <= 0.0).all()
        assert_allclose(K @ vectors, vectors * values, atol=1e-6 * values[0])
        assert_allclose(vectors.T @ vectors, np.eye(rank), atol=1e-9)

    @pytest.mark.parametrize("rank", [3, LARGE // 2])
    def test_with_a_coarse_tolerance_large_matrices_are_decomposed_in_single_precision(self, rank):
        K, used = gram(LARGE, 2 * LARGE), []
        with patch.multiple(operators, eigsh=recorded(eigsh, used), _largest=recorded(_largest, used)):
            values, vectors = top_eigenpairs(K, rank, tol=1e-5)
        assert used == [np.float32]
        assert values.dtype == vectors.dtype == np.float64
        assert_allclose(K @ vectors, vectors * values, atol=2e-5 * values[0])
        assert_allclose(vectors.T @ vectors, np.eye(rank), atol=2e-5)

    @pytest.mark.parametrize("wrap", [np.asarray, sp.csr_array, aslinearoperator])
    @pytest.mark.parametrize("n", [SMALL, LARGE])
    def test_same_input_same_output_to_the_bit(self, wrap, n):
        K = gram(n, 2 * n)
        first = top_eigenpairs(wrap(K), 3)
        np.random.seed(1)  # noqa: NPY002 (the global generator must not matter)
        again = top_eigenpairs(wrap(K.copy()), 3)
        assert_array_equal(first[0], again[0])
        assert_array_equal(first[1], again[1])

    def test_more_pairs_than_there_are(self):
        K = gram(SMALL, 2 * SMALL)
        values, vectors = top_eigenpairs(K, 3 * SMALL)
        assert_allclose((vectors * values) @ vectors.T, K, atol=1e-10 * values[0])

    @pytest.mark.parametrize("wrap", [np.asarray, sp.csr_array, aslinearoperator])
    @pytest.mark.parametrize("n", [SMALL, LARGE])
    def test_the_zero_matrix_has_a_zero_spectrum(self, wrap, n):
        values, vectors = top_eigenpairs(wrap(np.zeros((n, n))), 3)
        assert_array_equal(values, 0.0)
        assert_allclose(vectors.T @ vectors, np.eye(3), atol=1e-12)

    @pytest.mark.parametrize("n", [SMALL, LARGE])
    def test_a_constant_matrix_has_no_centred_spectrum(self, n):
        assert_allclose(Explicit(np.ones((n, n))).centred_spectrum(3), 0.0, atol=1e-9)

    @pytest.mark.parametrize("wrap", [np.asarray, sp.csr_array])
    def test_whole_numbers(self, wrap):
        K = np.diag(np.arange(LARGE))
        assert_allclose(top_eigenpairs(wrap(K), 4)[0], LARGE - 1 - np.arange(4), rtol=1e-8)

    def test_repeated_eigenvalues_are_all_found(self):
        blocks = sp.block_diag([np.full((25, 25), 0.04)] * 20, format="csr")  # twenty ones, the rest zeros
        values, vectors = top_eigenpairs(sp.csr_array(blocks), 12)
        assert_allclose(values, 1.0, rtol=1e-9)
        assert_allclose(vectors.T @ vectors, np.eye(12), atol=1e-9)


@pytest.mark.parametrize("wrap", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_unit_rows_have_unit_length_but_for_rows_of_zeros(wrap, dtype):
    X = random_factor(SMALL, 5).astype(dtype) * np.geomspace(1e-6, 1e6, SMALL, dtype=dtype)[:, None]
    X[4] = 0.0
    U = unit_rows(wrap(X))
    assert U.dtype == dtype
    U = U.toarray() if sp.issparse(U) else U
    assert_allclose(np.linalg.norm(U, axis=1), np.arange(SMALL) != 4, rtol=1e-5)
    assert_allclose(U * np.linalg.norm(X, axis=1)[:, None], X, rtol=1e-5)
