"""Kernels against double loops over samples, and new samples against training samples."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from naive import kernel_matrix
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.metrics.pairwise import polynomial_kernel, rbf_kernel

from viewloom.kernels.base import Context
from viewloom.kernels.geometry import GRID_SAMPLE, Geometry, GramGeometry
from viewloom.kernels.linear import Cosine, Linear
from viewloom.kernels.operators import Cross, Explicit, Factored
from viewloom.kernels.pairwise import FunctionKernel, Gaussian, Polynomial, Precomputed
from viewloom.kernels.registry import KERNELS, make_kernel

RAW, UNIT = Context(normalize=False), Context(normalize=True)
X = np.random.default_rng(0).standard_normal((9, 4)) * (np.random.default_rng(1).random((9, 4)) < 0.7)
NEW = np.random.default_rng(2).standard_normal((3, 4))
INDEFINITE = np.array([[1.0, 2.0, 0.0], [2.0, 1.0, 0.0], [0.0, 0.0, 1.0]])  # eigenvalues 3, 1, -1

CASES = {
    "linear": (Linear(), {"kind": "linear"}),
    "polynomial": (Polynomial(), {"kind": "polynomial"}),
    "cubic": (Polynomial(degree=3, coef0=0.5), {"kind": "polynomial", "degree": 3, "coef0": 0.5}),
    "gaussian": (Gaussian(sigma=1.7), {"kind": "gaussian", "sigma": 1.7}),
    "function": (
        FunctionKernel(lambda X, Y: polynomial_kernel(X, Y, degree=2, gamma=1.0, coef0=1.0)),
        {"kind": "polynomial"},
    ),
}
EACH = pytest.mark.parametrize(("kernel", "naive"), CASES.values(), ids=CASES.keys())
DENSE_AND_SPARSE = pytest.mark.parametrize("wrap", [np.asarray, sp.csr_array])


def matrix(operator):
    """All entries of an operator."""
    return operator.lift(operator.project(np.eye(operator.size)).M)


def unit_diagonal(K):
    norms = np.sqrt(np.diagonal(K))
    return K / np.outer(norms, norms)


def cross_matrix(fitted, geometry, new):
    """Rows of new samples against the training samples, by way of the codebook of the identity."""
    codebook = fitted.operator.codebook(np.eye(geometry.size))
    return fitted.place(geometry.to(new)).lift(codebook).T


@EACH
@DENSE_AND_SPARSE
class TestEntries:
    def test_raw_entries_equal_the_double_loop(self, kernel, naive, wrap):
        operator = kernel.fit(Geometry(wrap(X)), RAW).operator
        K = kernel_matrix(X, **naive)
        assert_allclose(matrix(operator), K, rtol=1e-9, atol=1e-12)
        assert_allclose(operator.diagonal(), np.diagonal(K), rtol=1e-12)

    def test_normalised_entries_have_unit_diagonal(self, kernel, naive, wrap):
        operator = kernel.fit(Geometry(wrap(X)), UNIT).operator
        assert_allclose(operator.diagonal(), 1.0, rtol=1e-12)
        assert_allclose(matrix(operator), unit_diagonal(kernel_matrix(X, **naive)), rtol=1e-9, atol=1e-12)

    @pytest.mark.parametrize("context", [RAW, UNIT])
    def test_training_samples_placed_anew_get_their_own_rows(self, kernel, naive, wrap, context):
        geometry = Geometry(wrap(X))
        fitted = kernel.fit(geometry, context)
        Pt = np.random.default_rng(3).standard_normal((2, len(X)))
        placed = fitted.place(geometry.to(wrap(X)))
        assert_allclose(placed.lift(fitted.operator.codebook(Pt)), Pt @ matrix(fitted.operator), atol=1e-10)
        assert_allclose(placed.diagonal(), fitted.operator.diagonal(), rtol=1e-12)
        assert placed.size == len(X)

    @pytest.mark.parametrize("context", [RAW, UNIT])
    def test_new_samples_get_the_rows_they_would_have_in_training(self, kernel, naive, wrap, context):
        geometry = Geometry(wrap(X))
        rows = cross_matrix(kernel.fit(geometry, context), geometry, wrap(NEW))
        K = kernel_matrix(np.vstack([X, NEW]), **naive)
        K = unit_diagonal(K) if context.normalize else K
        assert_allclose(rows, K[len(X) :, : len(X)], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("kernel", [Linear(), Cosine()])
@DENSE_AND_SPARSE
def test_linear_kernels_are_never_multiplied_out(kernel, wrap):
    geometry = Geometry(wrap(X))
    fitted = kernel.fit(geometry)
    for operator in (fitted.operator, fitted.place(geometry.to(wrap(NEW)))):
        assert isinstance(operator, Factored)
        assert operator.Z.shape[1] == X.shape[1]
        assert sp.issparse(operator.Z) == sp.issparse(wrap(X))


@pytest.mark.parametrize("kernel", [Polynomial(), Gaussian()])
def test_pairwise_kernels_are_stored(kernel):
    geometry = Geometry(X)
    fitted = kernel.fit(geometry)
    assert isinstance(fitted.operator, Explicit)
    assert isinstance(fitted.place(geometry.to(NEW)), Cross)


@pytest.mark.parametrize("context", [RAW, UNIT])
def test_cosine_is_normalised_whatever_is_asked_for(context):
    geometry = Geometry(X)
    fitted = Cosine().fit(geometry, context)
    assert_allclose(matrix(fitted.operator), unit_diagonal(kernel_matrix(X, "linear")), atol=1e-12)
    assert_allclose(fitted.place(geometry.to(NEW)).diagonal(), 1.0)


@pytest.mark.parametrize("kernel", [Linear(), Cosine()])
@DENSE_AND_SPARSE
def test_a_sample_of_zeros_stays_zero(kernel, wrap):
    zeroed = X.copy()
    zeroed[3] = 0.0
    diagonal = kernel.fit(Geometry(wrap(zeroed))).operator.diagonal()
    assert_allclose(diagonal, np.arange(len(X)) != 3)


@pytest.mark.parametrize("kernel", [Linear(), Cosine(), Polynomial(), Gaussian()])
def test_float32_samples_give_the_same_kernel_to_single_precision(kernel):
    expected = matrix(kernel.fit(Geometry(X)).operator)
    assert_allclose(matrix(kernel.fit(Geometry(X.astype(np.float32))).operator), expected, atol=1e-5)


def test_a_kernel_without_positive_diagonal_cannot_be_normalised():
    with pytest.raises(ValueError, match="kernel of view 'mri' is not positive for 9 samples"):
        Polynomial(degree=1, coef0=-1e3).fit(Geometry(X, "mri"))


class TestGaussianWidth:
    @staticmethod
    def distances(X):
        return np.array([np.linalg.norm(X[i] - X[j]) for i in range(len(X)) for j in range(i)])

    def test_median_distance_between_different_samples(self):
        odd = X[:7]  # 21 pairs: one of them is the median, squared or not
        fitted = Gaussian("median").fit(Geometry(odd))
        assert fitted.kernel.sigma == pytest.approx(np.median(self.distances(odd)))

    def test_median_of_samples_that_are_mostly_the_same(self):
        fitted = Gaussian("median").fit(Geometry(np.eye(9)[[0] * 8 + [1]]))
        assert fitted.kernel.sigma == 1.0
        assert np.isfinite(fitted.operator.K).all()

    @pytest.mark.parametrize("grid", [np.exp(np.arange(-2.0, 11.0)), [0.1, 2.0, 300.0], (5.0,)])
    def test_of_a_grid_the_width_that_spreads_pairs_most(self, grid):
        spreads = [np.var(np.exp(-(self.distances(X) ** 2) / (2 * sigma**2))) for sigma in grid]
        assert Gaussian(grid).fit(Geometry(X)).kernel.sigma == grid[int(np.argmax(spreads))]

    @pytest.mark.parametrize("scale", [0.01, 1.0, 100.0])
    def test_the_width_chosen_follows_the_scale_of_the_data(self, scale):
        grid = np.geomspace(1e-4, 1e4, 17)
        chosen = Gaussian(grid).fit(Geometry(scale * X)).kernel.sigma
        assert chosen == pytest.approx(scale * Gaussian(grid).fit(Geometry(X)).kernel.sigma)

    def test_a_grid_over_many_samples_is_judged_on_some(self):
        many = np.random.default_rng(0).standard_normal((GRID_SAMPLE + 30, 2))
        grid = [1e-3, 1.0, 1e3]
        assert Gaussian(grid).fit(Geometry(many)).kernel.sigma == 1.0

    def test_the_parameter_itself_stays_as_given(self):
        kernel = Gaussian("median")
        kernel.fit(Geometry(X))
        assert kernel.sigma == "median"

    @pytest.mark.parametrize("sigma", ["auto", 0.0, -1.0, np.nan])
    def test_a_bad_width_is_refused(self, sigma):
        with pytest.raises(ValueError, match="sigma must be a positive number or 'median'"):
            Gaussian(sigma).fit(Geometry(X))

    @pytest.mark.parametrize("grid", [[], [0.0, 1.0], [1.0, -1.0], np.array([np.nan, 1.0])])
    def test_a_bad_grid_is_refused(self, grid):
        with pytest.raises(ValueError, match="grid of sigma must contain positive numbers"):
            Gaussian(grid).fit(Geometry(X))


class TestFunctions:
    @pytest.mark.parametrize(
        "function",
        [
            lambda X, Y: np.ones((3, 3)),
            lambda X, Y: np.ones((len(X), len(Y), 1)),
            lambda X, Y: np.full((len(X), len(Y)), np.nan),
            lambda X, Y: np.full((len(X), len(Y)), np.inf),
        ],
        ids=["shape", "dimensions", "NaN", "inf"],
    )
    def test_what_is_not_a_finite_matrix_is_refused(self, function):
        with pytest.raises(ValueError, match="function of view 'mri' must return a finite 9 x 9 matrix"):
            FunctionKernel(function).fit(Geometry(X, "mri"), RAW)

    def test_nan_for_new_samples_is_refused(self):
        def forgetful(X, Y):
            return X @ Y.T if len(X) == len(Y) else np.full((len(X), len(Y)), np.nan)

        geometry = Geometry(X, "mri")
        fitted = FunctionKernel(forgetful).fit(geometry, RAW)
        with pytest.raises(ValueError, match="function of view 'mri' must return a finite 3 x 9 matrix"):
            fitted.place(geometry.to(NEW))

    def test_what_is_not_symmetric_is_refused(self):
        with pytest.raises(ValueError, match="kernel of view 'mri' is not symmetric"):
            FunctionKernel(lambda X, Y: X @ (2.0 * Y + 1.0).T).fit(Geometry(X, "mri"), RAW)

    def test_what_is_indefinite_is_repaired(self):
        with pytest.warns(UserWarning, match="kernel of view 'mri' is not positive semidefinite"):
            fitted = FunctionKernel(lambda X, Y: np.tanh(X @ Y.T - 1.0)).fit(Geometry(X, "mri"), RAW)
        assert np.linalg.eigvalsh(fitted.operator.K).min() > -1e-12


class TestPrecomputed:
    GRAM = rbf_kernel(X)

    @staticmethod
    def fit(K, context=RAW):
        return Precomputed().fit(GramGeometry(K, "mri"), context)

    def test_raw_matrix_is_taken_as_it_is(self):
        K = kernel_matrix(X, "polynomial")
        assert_allclose(self.fit(K).operator.K, K, rtol=1e-12)
        assert_allclose(self.fit(K, UNIT).operator.K, unit_diagonal(K), rtol=1e-12)

    def test_the_callers_matrix_is_left_alone(self):
        K = kernel_matrix(X, "polynomial")
        before = K.copy()
        self.fit(K, UNIT)
        assert_array_equal(K, before)

    @pytest.mark.parametrize("context", [RAW, UNIT])
    def test_training_rows_placed_anew(self, context):
        geometry = GramGeometry(3.0 * self.GRAM)
        fitted = Precomputed().fit(geometry, context)
        assert_allclose(cross_matrix(fitted, geometry, 3.0 * self.GRAM), fitted.operator.K, rtol=1e-12)
        assert_allclose(fitted.place(geometry.to(3.0 * self.GRAM)).diagonal(), fitted.operator.diagonal())

    def test_new_samples_own_kernel_is_the_mean_of_training(self):
        K = kernel_matrix(X, "polynomial")
        geometry = GramGeometry(K)
        placed = Precomputed().fit(geometry, RAW).place(geometry.to(K[:2]))
        assert_allclose(placed.diagonal(), np.diagonal(K).mean())

    @pytest.mark.parametrize(
        ("K", "message"),
        [
            (GRAM[:5], r"View 'mri' has shape \(5, 9\); a precomputed kernel must be square"),
            (GRAM[:, :5], r"View 'mri' has shape \(9, 5\)"),
            (np.zeros((4, 4)), "kernel of view 'mri' is zero everywhere"),
            (np.triu(GRAM), r"kernel of view 'mri' is not symmetric .*pass \(K \+ K\.T\) / 2"),
            (GRAM + 1e-4 * np.tri(9), "kernel of view 'mri' is not symmetric"),
        ],
    )
    def test_what_is_no_gram_matrix_is_refused(self, K, message):
        with pytest.raises(ValueError, match=message):
            self.fit(K)

    def test_rounding_errors_are_forgiven_in_silence(self):
        noisy = self.GRAM + 1e-9 * np.random.default_rng(0).standard_normal(self.GRAM.shape)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            K = self.fit(noisy).operator.K
        assert_array_equal(K, K.T)
        assert_allclose(K, self.GRAM, atol=1e-8)

    @pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
    def test_negative_eigenvalues_are_set_to_zero_aloud(self, scale):
        with pytest.warns(UserWarning, match=r"'mri' is not positive semidefinite .*-5\.0e-01 of"):
            K = self.fit(scale * INDEFINITE).operator.K
        nearest = np.array([[1.5, 1.5, 0.0], [1.5, 1.5, 0.0], [0.0, 0.0, 1.0]])
        assert_allclose(K, scale * nearest, atol=1e-12 * scale)

    def test_the_repaired_matrix_is_the_one_normalised(self):
        with pytest.warns(UserWarning, match="not positive semidefinite"):
            K = self.fit(INDEFINITE, UNIT).operator.K
        assert_allclose(K, [[1.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 1.0]], atol=1e-12)

    def test_a_negative_definite_matrix_has_nothing_to_normalise(self):
        with (
            pytest.warns(UserWarning, match="not positive semidefinite"),
            pytest.raises(ValueError, match="kernel of view 'mri' is not positive for 3 samples"),
        ):
            self.fit(-np.eye(3), UNIT)


class TestMakeKernel:
    @pytest.mark.parametrize("name", KERNELS)
    def test_a_name(self, name):
        assert type(make_kernel(name)) is KERNELS[name]

    def test_an_object_is_itself(self):
        kernel = Gaussian(2.0)
        assert make_kernel(kernel) is kernel

    def test_a_function(self):
        assert make_kernel(rbf_kernel).function is rbf_kernel

    @pytest.mark.parametrize("kernel", ["rbf", None, 3, ["linear"]])
    def test_anything_else_is_refused(self, kernel):
        with pytest.raises(ValueError, match=r"kernel must be one of .*'gaussian', 'linear'.*, got"):
            make_kernel(kernel)


@pytest.mark.parametrize("kernel", [*(make() for make in KERNELS.values()), Polynomial(3), Gaussian([1, 2])])
def test_kernels_are_cloned_by_their_parameters(kernel):
    copy = clone(kernel)
    assert copy is not kernel
    assert copy.get_params() == kernel.get_params()


def test_fitting_leaves_no_trace_on_the_kernel():
    for kernel in (Linear(), Polynomial(), Gaussian(), FunctionKernel(rbf_kernel)):
        before = dict(vars(kernel))
        kernel.fit(Geometry(X))
        assert vars(kernel) == before
    kernel = Precomputed()
    kernel.fit(GramGeometry(rbf_kernel(X)))
    assert vars(kernel) == {}


class TestUnusualInput:
    """Functions, matrices and parameters of another kind than most."""

    def test_function_of_wrong_shape_is_refused_with_unit_diagonal_too(self):
        with pytest.raises(ValueError, match="must return a finite 9 x 9 matrix"):
            FunctionKernel(lambda X, Y: np.ones(3)).fit(Geometry(X, "mri"), UNIT)

    def test_repaired_function_has_unit_diagonal(self):
        with pytest.warns(UserWarning, match="not positive semidefinite"):
            fitted = FunctionKernel(lambda X, Y: np.tanh(X @ Y.T)).fit(Geometry(X), UNIT)
        assert_allclose(fitted.operator.diagonal(), 1.0, atol=1e-9)

    def test_sparse_gram_matrix(self):
        K = rbf_kernel(X)
        assert_allclose(Precomputed().fit(GramGeometry(sp.csr_array(K)), RAW).operator.K, K)

    def test_function_that_returns_a_sparse_matrix(self):
        fitted = FunctionKernel(lambda X, Y: X @ Y.T).fit(Geometry(sp.csr_array(X)), RAW)
        assert_allclose(fitted.operator.K, X @ X.T, atol=1e-12)

    @pytest.mark.parametrize("sigma", [None, [[1.0, 2.0]]])
    def test_width_of_another_type_is_refused(self, sigma):
        with pytest.raises(ValueError, match="sigma must be"):
            Gaussian(sigma).fit(Geometry(X))

    def test_a_kernel_class_in_place_of_an_object_is_refused(self):
        with pytest.raises(ValueError, match="kernel must be one of"):
            make_kernel(Gaussian)
