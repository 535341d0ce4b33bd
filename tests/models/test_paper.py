"""The published form agrees with the paper, transcribed naively."""

import warnings

import naive
import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from viewloom import KernelMultiviewNMF
from viewloom.kernels.graphs import GaussianGraph
from viewloom.kernels.linear import Linear
from viewloom.kernels.pairwise import Gaussian, Polynomial

SIGMA = 2.0
KERNELS = {
    "linear": Linear(),
    "polynomial": Polynomial(degree=2, coef0=1.0),
    "gaussian": Gaussian(sigma=SIGMA),
}


def problem(rng, n=12):
    return [rng.standard_normal((n, 3)), rng.standard_normal((n, 2)) * 2.0]


def fit_paper(views, start, **settings):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.simplefilter("ignore", UserWarning)
        model = KernelMultiviewNMF.paper(
            start.shape[1], graph=GaussianGraph(SIGMA), init=start, max_iter=20, tol=0.0, **settings
        )
        return model.fit(views)


@pytest.mark.parametrize("kind", KERNELS)
@pytest.mark.parametrize("gamma", [0, 1, 2, 3])
def test_agrees_with_transcription_over_20_iterations(kind, gamma):
    rng = np.random.default_rng(3)
    views, start = problem(rng), rng.uniform(size=(12, 3))
    Ks = [naive.kernel_matrix(X, kind, sigma=SIGMA) for X in views]
    Ls = [naive.laplacian(X, SIGMA) for X in views]
    expected, beta, objectives = naive.algorithm_1(Ks, Ls, start, 1.0, 1.0, gamma, 20)
    model = fit_paper(views, start, kernel=KERNELS[kind], gamma=gamma)
    assert model.n_iter_ == 20
    np.testing.assert_allclose(model.history_["objective"], objectives, rtol=1e-10)
    np.testing.assert_allclose(model.view_weights_, beta, rtol=1e-10, atol=1e-14)
    np.testing.assert_allclose(
        model.memberships_, expected / expected.sum(axis=1, keepdims=True), rtol=1e-9, atol=1e-12
    )


def test_settings_are_those_of_the_paper():
    model = KernelMultiviewNMF.paper(3)
    assert (model.lam, model.theta, model.gamma, model.sharpness) == (1.0, 1.0, 2.0, 0.0)
    assert (model.membership, model.init, model.inner_iter) == ("nonnegative", "random", 1)
    assert (model.calibrate, model.normalize) == (False, False)


def test_gaussian_kernel_and_graph_share_their_width():
    assert KernelMultiviewNMF.paper(3, kernel=Gaussian(sigma=0.7)).graph.sigma == 0.7


def test_sigma_grid_of_the_paper_is_chosen_between_the_extremes():
    X = np.random.default_rng(0).standard_normal((60, 4))
    model = KernelMultiviewNMF.paper(3, kernel=Gaussian(sigma=np.exp(np.arange(-2.0, 11.0))), random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.set_params(max_iter=3).fit(X)
    off_diagonal = model.fitted_model_.problem.operators[0].K[np.triu_indices(60, 1)]
    assert 0.1 < off_diagonal.mean() < 0.9
