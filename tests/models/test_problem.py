"""How views are brought to scale, and who counts as having one."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal

import viewloom as vl
from viewloom.kernels.pairwise import Precomputed
from viewloom.kernels.registry import make_kernel
from viewloom.models.scaling import (
    CentredGram,
    Columns,
    UnitRows,
    fit_scaler,
    fit_scalers,
    informative_presence,
    mixable,
)

rng = np.random.default_rng(0)
X = rng.standard_normal((9, 4)) * [1.0, 5.0, 0.1, 2.0] + 3.0


def counts(n=6, d=101, share=0.4):
    """Counts of which just this share is not zero."""
    C = np.zeros(n * d)
    C[: int(share * n * d)] = 4.0
    return np.random.default_rng(0).permutation(C).reshape(n, d)


class TestFitScaler:
    @pytest.mark.parametrize("scale", ["standard", "auto"])
    def test_features_of_mean_zero_and_variance_one(self, scale):
        found = fit_scaler(scale, X).transform(X)
        expected = [
            [
                (X[i, j] - sum(X[:, j]) / 9) / np.sqrt(sum((X[:, j] - sum(X[:, j]) / 9) ** 2) / 9)
                for j in range(4)
            ]
            for i in range(9)
        ]
        assert_allclose(found, expected)

    def test_sparse_features_are_not_centred(self):
        found = fit_scaler("standard", sp.csr_array(X)).transform(sp.csr_array(X))
        assert_allclose(found.toarray(), X / X.std(axis=0))

    def test_centred_features_keep_their_units(self):
        scaler = fit_scaler("centre", X)
        assert_allclose(scaler.transform(X), X - X.mean(axis=0))
        assert scaler.transform(X.astype(np.float32)).dtype == np.float32
        S = sp.csr_array(X)
        assert_array_equal(fit_scaler("centre", S).transform(S).toarray(), X)  # sparse stays sparse

    def test_one_scale_for_each_view(self, tmp_path):
        views = vl.Views({"a": X, "b": X})
        model = vl.KernelMultiviewNMF(2, kernel="linear", scale={"a": "centre", "b": None}, random_state=0)
        model.fit(views).save(tmp_path / "m.safetensors")
        assert [type(view.scaler).__name__ for view in model.fitted_model_.problem.views] == [
            "Centred",
            "Columns",
        ]
        restored = vl.load(tmp_path / "m.safetensors")
        assert_array_equal(restored.transform(views), model.transform(views))
        for scale, message in (
            ({"a": "centre"}, "one entry per view"),
            (["max", None], "scale must be one of"),
        ):
            with pytest.raises(vl.InputError, match=message):
                model.set_params(scale=scale).fit(views)

    def test_samples_of_length_one(self):
        found = fit_scaler("unit", X).transform(X)
        assert_allclose(found, [row / np.sqrt(sum(row**2)) for row in X])
        assert_allclose(
            fit_scaler("unit", counts()).transform(np.array([[3.0, 4.0]])), [[0.6, 0.8]]
        )  # no roots

    @pytest.mark.parametrize("wrap", [np.asarray, sp.csr_array])
    def test_counts_become_hellinger_profiles(self, wrap):
        C = counts() * np.arange(1, 102)
        found = fit_scaler("auto", wrap(C)).transform(wrap(C))
        expected = [[np.sqrt(c / sum(row)) if sum(row) else 0.0 for c in row] for row in C]
        assert_allclose(found.toarray() if sp.issparse(found) else found, expected)

    def test_none_leaves_views_alone(self):
        assert_array_equal(fit_scaler(None, X).transform(X), X)

    @pytest.mark.parametrize("wrap", [np.asarray, sp.csr_array])
    def test_what_counts_as_counts(self, wrap):
        def are_counts(C):
            return isinstance(fit_scaler("auto", wrap(C)), UnitRows)

        assert are_counts(counts())
        assert are_counts(counts() / 7.0)  # frequencies
        assert not are_counts(counts(d=100))  # too few features
        assert not are_counts(counts(share=0.5))  # not more than half zeros
        assert are_counts(counts(share=0.49))
        negative = counts()
        negative[negative > 0] *= -1.0
        assert not are_counts(negative)

    def test_new_samples_below_zero_count_as_zero(self):
        assert_allclose(UnitRows(root=True).transform(np.array([[-4.0, 9.0, 16.0]])), [[0.0, 0.6, 0.8]])
        assert_allclose(
            UnitRows(root=True).transform(sp.csr_array([[-4.0, 9.0, 16.0]])).toarray(), [[0.0, 0.6, 0.8]]
        )

    def test_only_samples_that_have_the_view_are_learned_from(self):
        gaps = X.copy()
        gaps[::3] = np.nan
        scaler = fit_scalers(vl.Views({"a": gaps, "b": X}), [make_kernel("linear")] * 2, "auto")[0]
        assert_allclose(scaler.mean_, np.nanmean(gaps, axis=0))

    def test_gram_matrices_are_centred_unless_left_alone(self):
        views, kernels = vl.Views({"a": X @ X.T, "b": X}), [Precomputed(), make_kernel("linear")]
        assert [type(s).__name__ for s in fit_scalers(views, kernels, "auto")] == [
            "CentredGram",
            "Standard",
        ]
        assert [type(s) for s in fit_scalers(views, kernels, None)] == [Columns, Columns]

    def test_counts_are_not_mixed(self):
        assert not mixable([fit_scaler("auto", X), fit_scaler("auto", counts())])
        assert mixable([fit_scaler("auto", X), fit_scaler(None, counts())])


class TestCentredGram:
    def test_it_is_the_gram_matrix_of_centred_features(self):
        centred = X - X.mean(axis=0)
        K = X @ X.T
        assert_allclose(CentredGram.of(K, slice(None)).transform(K), centred @ centred.T, atol=1e-9)
        new = rng.standard_normal((3, 4))
        assert_allclose(
            CentredGram.of(K, slice(None)).transform(new @ X.T), (new - X.mean(axis=0)) @ centred.T, atol=1e-9
        )

    def test_single_precision_stays_symmetric(self):
        """The means of rows and columns are rounded alike."""
        features = np.abs(rng.standard_normal((300, 5))).astype(np.float32) + 30.0
        K = features @ features.T
        K = (K + K.T) / 2
        for given in (K, sp.csr_array(K)):
            centred = CentredGram.of(given, slice(None)).transform(given)
            assert np.abs(centred - centred.T).max() < 1e-11 * np.abs(K).max()

    def test_only_columns_of_samples_that_have_the_view(self):
        rows = np.array([0, 2, 3, 7])
        part = X[rows] - X[rows].mean(axis=0)
        assert_allclose(
            CentredGram.of((X @ X.T)[rows], rows).transform((X @ X.T)[rows]), part @ part.T, atol=1e-9
        )


class TestTelling:
    def views(self, zeros):
        C = counts(share=0.45)
        C[zeros] = 0.0
        return vl.Views({"c": C, "x": X[:6]})

    def scalers(self):
        return [UnitRows(root=True), Columns()]

    def test_a_profile_of_zeros_says_nothing(self):
        present = informative_presence(self.views([1, 4]), self.scalers())
        assert present[:, 0].tolist() == [True, False, True, True, False, True]
        assert present[:, 1].all()

    def test_unless_too_few_are_left(self):
        assert informative_presence(self.views([0, 1, 2, 3, 4]), self.scalers())[:, 0].all()
        assert informative_presence(self.views([0, 1, 2, 3]), self.scalers())[:, 0].sum() == 2
        assert informative_presence(self.views([0, 1, 2, 3, 4]), self.scalers(), least=0)[:, 0].sum() == 1

    def test_unless_it_is_all_there_is_of_a_sample(self):
        views = vl.Views({"c": self.views([1, 4]).blocks[0]})
        assert informative_presence(views, self.scalers()[:1]).all()
