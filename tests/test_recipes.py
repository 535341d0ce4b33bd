"""The recipes of CONTRIBUTING.md, followed as they are written."""

from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.utils.estimator_checks import check_estimator

import viewloom as vl
from viewloom import kernels
from viewloom.evaluation import comparison
from viewloom.kernels.base import PLAIN, Context
from viewloom.kernels.geometry import Geometry
from viewloom.kernels.graphs import KNN
from viewloom.kernels.nystroem import Nystroem
from viewloom.kernels.operators import Factored
from viewloom.kernels.pairwise import PairwiseKernel
from viewloom.kernels.registry import KERNELS
from viewloom.models.baselines import _FactorisationClusterer
from viewloom.runtime import stored

RECIPES = (Path(__file__).parents[1] / "CONTRIBUTING.md").read_text(encoding="utf-8")


class Cauchy(PairwiseKernel, tag="kernel.cauchy"):
    """``k(x, y) = 1 / (1 + ||x - y||^2 / width^2)``, the width from the data where None."""

    def __init__(self, width=None):
        self.width = width

    def prepare(self, geometry):
        return Cauchy(self.width or float(np.sqrt(np.median(geometry.squared_distances))))

    def matrix(self, samples):
        return 1.0 / (1.0 + samples.squared_distances / self.width**2)

    def diagonal(self, samples):
        return np.ones(samples.size)


class Untagged(Cauchy):
    """A kernel that nobody gave a name in model files."""


class Doubled(kernels.Linear, tag="kernel.doubled"):
    """A kernel with a finite factor: every feature twice."""

    def fit(self, geometry, context=PLAIN):
        return FittedDoubled(geometry.X)


class FittedDoubled(stored.Stored, tag="kernel.doubled.fitted", fields=("X",)):
    def __init__(self, X):
        self.X, self.operator = X, Factored(np.hstack([X, X]))

    def place(self, cross, shared_graph=None):
        return Factored(np.hstack([cross.X, cross.X]))


class HalfNMF(_FactorisationClusterer):
    """A baseline with settings of its own."""

    lam, theta, gamma, graph = 0.5, 0.0, 0.0, None

    def __init__(self, n_clusters=3, *, init="kmeans", max_iter=20, tol=1e-5, random_state=None, verbose=0):
        self.n_clusters = n_clusters
        self.init = init
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.verbose = verbose


def cohort(n=60):
    rng = np.random.default_rng(0)
    y = np.arange(n) % 3
    return {
        name: np.abs(9 + 2 * rng.standard_normal((3, 5))[y] + rng.standard_normal((n, 5))) for name in "ab"
    }


@pytest.fixture
def registered(monkeypatch):
    monkeypatch.setitem(KERNELS, "cauchy", Cauchy)
    monkeypatch.setitem(KERNELS, "doubled", Doubled)


def saved_and_loaded(model, path):
    model.save(path)
    loaded = vl.load(path)
    assert_array_equal(loaded.transform(cohort()), model.transform(cohort()))
    assert repr(loaded) == repr(model)
    return loaded


def test_the_recipes_name_what_is_there():
    for words in (
        "`kernels.PairwiseKernel`",
        "`prepare(geometry)`",
        'class Laplace(PairwiseKernel, tag="kernel.laplace")',
        "registry `KERNELS`",
        "baselines._FactorisationClusterer",
        "comparison.all_methods",
        "stored.Stored",
    ):
        assert words in RECIPES


class TestKernel:
    def test_entries_unit_diagonal_and_new_samples(self):
        X = cohort()["a"]
        fitted = Cauchy(2.0).fit(Geometry(X), Context(normalize=True))
        expected = [[1.0 / (1.0 + sum((x - y) ** 2) / 4.0) for y in X] for x in X]
        assert_allclose(fitted.operator.K, expected)
        assert_allclose(fitted.place(Geometry(X).to(X[:4])).rows, np.array(expected)[:4])

    @pytest.mark.parametrize(
        "kernel",
        ["cauchy", Cauchy(3.0), {"a": "cauchy", "b": "linear"}, Nystroem("cauchy", rank=20)],
        ids=str,
    )
    def test_a_model_with_it_is_saved_and_loaded(self, registered, tmp_path, kernel):
        model = vl.KernelMultiviewNMF(3, kernel=kernel, random_state=0).fit(cohort())
        saved_and_loaded(model, tmp_path / "m.safetensors")

    def test_what_prepare_found_is_kept(self, registered, tmp_path):
        model = vl.KernelMultiviewNMF(3, kernel="cauchy", random_state=0).fit(cohort())
        loaded = saved_and_loaded(model, tmp_path / "m.safetensors")
        mine, theirs = (m.fitted_model_.problem.views[0].kernel.kernel for m in (model, loaded))
        assert mine.width == theirs.width > 0.0

    def test_landmarks_with_it(self, registered, tmp_path):
        model = vl.KernelMultiviewNMF(3, kernel="cauchy", factored=20, random_state=0).fit(cohort())
        saved_and_loaded(model, tmp_path / "m.safetensors")

    def test_loading_without_it_says_what_is_missing(self, registered, tmp_path, monkeypatch):
        vl.KernelMultiviewNMF(3, kernel="cauchy").fit(cohort()).save(tmp_path / "m.safetensors")
        monkeypatch.delitem(stored.REGISTRY, "kernel.cauchy")
        with pytest.raises(ValueError, match=r"'kernel.cauchy', which is not known here: import"):
            vl.load(tmp_path / "m.safetensors")

    def test_one_without_a_tag_is_refused(self, tmp_path):
        model = vl.KernelMultiviewNMF(3, kernel=Untagged()).fit(cohort())
        with pytest.raises(TypeError, match=r"holds a Untagged cannot be saved: .* declare a tag"):
            model.save(tmp_path / "m.safetensors")
        assert not list(tmp_path.iterdir())

    def test_a_function_is_refused(self, tmp_path):
        def product(X, Y):
            return X @ Y.T

        model = vl.KernelMultiviewNMF(3, kernel=product).fit(cohort())
        with pytest.raises(TypeError, match=r"function \(product\) cannot be saved: functions are code"):
            model.save(tmp_path / "m.safetensors")

    def test_a_finite_factor(self, registered, tmp_path):
        model = vl.KernelMultiviewNMF(3, kernel="doubled", random_state=0).fit(cohort())
        saved_and_loaded(model, tmp_path / "m.safetensors")

    def test_two_classes_of_one_tag_are_refused(self):
        with pytest.raises(TypeError, match=r"The tag 'kernel.cauchy' belongs to"):

            class Other(PairwiseKernel, tag="kernel.cauchy"):
                pass


def test_a_graph_of_ones_own_is_refused(tmp_path):
    class Own(KNN):
        pass

    model = vl.KernelMultiviewNMF(3, graph=Own(5)).fit(cohort())
    with pytest.raises(TypeError, match="holds a Own cannot be saved"):
        model.save(tmp_path / "m.safetensors")


@pytest.mark.parametrize("store", ["Landmarks", "labels", "", None, True])
def test_an_unknown_store_is_refused(tmp_path, store):
    model = vl.KernelMultiviewNMF(3, factored=15, random_state=0).fit(cohort())
    with pytest.raises(ValueError, match=r"store must be one of \['auto', 'landmarks'\]"):
        model.save(tmp_path / "m.safetensors", store=store)
    assert not list(tmp_path.iterdir())


class TestBaseline:
    @pytest.mark.filterwarnings("ignore::UserWarning")
    def test_it_has_the_attributes_of_the_others(self):
        model = HalfNMF(3, random_state=0).fit(cohort())
        other = vl.MultiviewNMF(3, random_state=0).fit(cohort())
        missing = {name for name in vars(other) if name.endswith("_")} - {*vars(model), "components_"}
        assert not missing
        assert model.transform(cohort()).shape == (60, 3)

    @pytest.mark.filterwarnings("ignore::UserWarning")
    def test_scikit_learn_checks(self):
        reason = "standardises its data, so it has negative entries, whatever the tags say"
        check_estimator(
            HalfNMF(max_iter=3), expected_failed_checks={"check_clustering": reason}, on_skip=None
        )

    def test_a_row_of_the_table(self, monkeypatch):
        own = comparison.Method("half", lambda k, s: HalfNMF(k, random_state=s), comparison.nonnegative)
        usual = comparison.all_methods
        monkeypatch.setattr(comparison, "all_methods", lambda views: [*usual(views), own])
        table = comparison.compare(cohort(), np.arange(60) % 3, methods=["half", "k-means"], seeds=range(1))
        assert set(table.table.index) == {"half", "k-means"}
