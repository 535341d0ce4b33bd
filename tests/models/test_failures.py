"""Where the published form fails, each failure shown, and absent from the default."""

import warnings

import naive
import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

from viewloom import KernelMultiviewNMF
from viewloom.solver.objective import reconstruction
from viewloom.solver.updates import combinations, membership_gram


def planted(n=120, seed=0, d=(10, 20)):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 3
    views = {
        f"view{a}": (2.5 * rng.standard_normal((3, m)))[y] + rng.standard_normal((n, m))
        for a, m in enumerate(d)
    }
    return views, y


def fit(model, views):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(views)


def terms(G, rho, K, L):
    """Reconstruction error at the best centroids, and smoothness."""
    S, Pt = membership_gram(G, rho), combinations(G, rho)
    return reconstruction(np.trace(K), float((Pt @ K * G).sum()), Pt @ K @ Pt.T, S), float(
        ((G @ L) * G).sum()
    )


@pytest.fixture
def small():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((15, 3))
    return X @ X.T, naive.laplacian(X, 1.0), rng.dirichlet(np.ones(3), 15).T


def test_1_shrinking_memberships_is_free_in_the_published_form(small):
    """``P G`` stays when ``G`` shrinks and ``P`` grows, while both regularisers shrink."""
    K, L, G = small
    P = combinations(G, 0.0).T
    at = naive.loss(K, L, P, G, G + 0.1, 1.0, 1.0)
    assert naive.loss(K, L, 2 * P, G / 2, (G + 0.1) / 2, 1.0, 1.0) < at
    error, smooth = terms(G, 0.0, K, L)
    smaller_error, smaller_smooth = terms(G / 10, 0.0, K, L)
    assert smaller_error == pytest.approx(error)
    assert smaller_smooth == pytest.approx(smooth / 100)


def test_1_the_scale_drifts_in_the_published_form_and_cannot_in_the_default():
    views, _ = planted()
    size = []
    for n_iter in (10, 1000):
        model = KernelMultiviewNMF.paper(3, kernel="polynomial", random_state=0, max_iter=n_iter, tol=0.0)
        fitted = fit(model, views).fitted_model_
        size.append(np.linalg.norm(fitted.codebooks[0].neighbours))  # G of the first view
    assert size[1] < 0.9 * size[0]
    memberships = KernelMultiviewNMF(3, random_state=0).fit(views).view_memberships_
    np.testing.assert_allclose([U.sum(axis=1) for U in memberships], 1.0)


def test_1_softening_is_free_even_on_the_simplex_unless_sharpness_charges_for_it(small):
    K, L, G = small
    softer = 0.5 * G + 0.5 / 3
    error, smooth = terms(G, 0.0, K, L)
    softer_error, softer_smooth = terms(softer, 0.0, K, L)
    assert softer_error == pytest.approx(error)
    assert softer_smooth == pytest.approx(smooth / 4)
    assert terms(softer, 0.5, K, L)[0] > terms(G, 0.5, K, L)[0]


def test_2_a_small_uninformative_view_takes_the_weight_in_the_published_form_only():
    views, y = planted()
    views["noise"] = 0.1 * np.random.default_rng(1).standard_normal((120, 2))
    published = fit(KernelMultiviewNMF.paper(3, kernel="linear", random_state=0), views)
    ours = KernelMultiviewNMF(3, kernel="linear", random_state=0).fit(views)
    assert published.view_weights_[2] > 0.9
    assert ours.view_weights_[2] == ours.view_weights_.min()
    assert adjusted_rand_score(y, ours.labels_) > 0.9


@pytest.mark.parametrize("kernel", ["diffusion", "gaussian"])
def test_3_a_view_with_clusters_of_its_own_cannot_earn_weight_by_leading(kernel):
    """Rich get richer: it would pull the consensus to itself, fit it best, and so weigh most."""
    views, y = planted(n=180, d=(8, 8, 8))
    rng = np.random.default_rng(2)
    views["own"] = (6.0 * rng.standard_normal((5, 4)))[rng.integers(0, 5, 180)] + 0.3 * rng.standard_normal(
        (180, 4)
    )
    ours = KernelMultiviewNMF(3, kernel=kernel, random_state=0).fit(views)
    assert np.argmin(ours.view_weights_) == 3
    assert adjusted_rand_score(y, ours.labels_) > 0.9


def test_4_from_random_starts_the_published_form_misses_clear_clusters():
    views, y = planted(n=150)
    published = [
        fit(KernelMultiviewNMF.paper(3, kernel="gaussian", random_state=seed, max_iter=50), views).labels_
        for seed in range(4)
    ]
    ours = [KernelMultiviewNMF(3, random_state=seed).fit(views).labels_ for seed in range(4)]
    assert np.mean([adjusted_rand_score(y, labels) for labels in published]) < 0.5
    assert min(adjusted_rand_score(y, labels) for labels in ours) > 0.95


def test_5_an_emptied_cluster_breaks_the_transcription_but_not_the_model():
    views, _ = planted(n=30)
    start = np.zeros((30, 3))
    start[:, :2] = np.random.default_rng(0).uniform(size=(30, 2))
    Ks = [X @ X.T for X in views.values()]
    Ls = [naive.laplacian(X, 1.0) for X in views.values()]
    with pytest.raises(np.linalg.LinAlgError):
        naive.algorithm_1(Ks, Ls, start, 1.0, 1.0, 2, 1)
    for model in (
        KernelMultiviewNMF.paper(3, kernel="linear", init=start),
        KernelMultiviewNMF(3, kernel="linear", init=start),
    ):
        assert np.isfinite(fit(model, views).memberships_).all()


def test_6_all_views_start_from_one_numbering_of_clusters():
    views, _ = planted()
    model = KernelMultiviewNMF(3, random_state=0).fit(views)
    for U in model.view_memberships_:
        assert (U.argmax(axis=1) == model.labels_).mean() > 0.95
