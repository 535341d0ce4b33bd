"""The baselines never increase their objective, agree with naive loops, and find planted clusters."""

import pickle

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from scipy.optimize import nnls
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score
from sklearn.utils.estimator_checks import parametrize_with_checks

from viewloom.data.views import Views
from viewloom.kernels.geometry import Geometry
from viewloom.kernels.graphs import GaussianGraph, make_graph
from viewloom.models.baselines import ConcatenatedNMF, GraphNMF, MultiviewNMF
from viewloom.solver.multiplicative import (
    Factors,
    ViewProblem,
    centroids,
    evaluate,
    place,
    solve,
    update_F,
    update_G,
)
from viewloom.solver.updates import update_G_star

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
ALL = [GraphNMF, ConcatenatedNMF, MultiviewNMF]


def random_views(seed, *, n=25, dims=(6, 4, 9), missing=0.0, sparse=False):
    """Non-negative noise, some of it zero; some samples lack some views."""
    rng = np.random.default_rng(seed)
    blocks = [rng.uniform(size=(n, d)) * (rng.uniform(size=(n, d)) < 0.6) for d in dims]
    present = rng.uniform(size=(n, len(dims))) >= missing
    present[np.arange(n), rng.integers(len(dims), size=n)] = True
    if sparse:
        return Views([sp.csr_array(X) for X in blocks], present=present)
    return Views([np.where(present[:, [a]], X, np.nan) for a, X in enumerate(blocks)])


def planted(seed=0, *, n=90, k=3, dims=(12, 8), noise=0.3):
    """Samples near one of k non-negative centroids in every view."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % k
    views = {}
    for a, d in enumerate(dims):
        C = rng.gamma(0.5, 2.0, size=(k, d)) + 3.0 * (np.arange(d) % k == np.arange(k)[:, None])
        views[f"v{a}"] = C[y] + noise * rng.uniform(size=(n, d))
    return views, y


def assert_never_increases(values):
    values = np.asarray(values)
    assert len(values) > 1
    assert (np.diff(values) <= 1e-10 * np.abs(values[:-1])).all()


# Descent


@pytest.mark.parametrize("gamma", [0.0, 0.5, 1.0, 2.0, 3.0])
@pytest.mark.parametrize("graph", [None, "gaussian", "knn"])
@pytest.mark.parametrize(("sparse", "missing"), [(False, 0.0), (True, 0.0), (False, 0.4), (True, 0.4)])
def test_objective_never_increases(gamma, graph, sparse, missing):
    for seed in range(2):
        views = random_views(seed, sparse=sparse, missing=missing)
        rng = np.random.default_rng(seed)
        lam, theta = rng.uniform(0, 10, size=(2, 3))
        model = MultiviewNMF(
            3, lam=list(lam), theta=list(theta), gamma=gamma, graph=graph, init="random", random_state=seed
        )
        history = model.set_params(max_iter=40, tol=0.0).fit(views).history_
        assert_never_increases(history["objective"])
        assert history["objective"][-1] < 0.999 * history["objective"][0]
        assert all(np.isfinite(U).any() for U in model.view_memberships_)


@pytest.mark.parametrize("theta", [0.1, 10.0, 1e4])
def test_steps_never_increase_a_graph_that_is_not_positive_semidefinite(theta):
    """A ring of neighbours has eigenvalue -1, where Cai et al.'s own majoriser does not hold."""
    rng = np.random.default_rng(0)
    X, G_star = rng.uniform(size=(20, 7)), rng.uniform(size=(3, 20))
    view = ViewProblem.of(X, np.arange(20), 0.3, theta, make_graph("knn").set_params(n_neighbors=2))
    assert np.linalg.eigvalsh(view.W.K.toarray())[0] < -0.5
    F, G = rng.uniform(size=(7, 3)), rng.uniform(size=(3, 20))
    losses = []
    for _ in range(100):
        factors = Factors.of(view, F, G, view.neighbours(G))
        losses.append(evaluate([view], [factors], G_star).losses(0.3, view.theta)[0])
        G = update_G(factors, view, G_star)
    assert_never_increases(losses)


def test_blocks_descend_on_their_own():
    rng = np.random.default_rng(1)
    X, G = rng.uniform(size=(8, 30)), rng.uniform(size=(3, 30))
    F = rng.uniform(size=(8, 3))
    errors = []
    for _ in range(50):
        errors.append(np.sum((X - F @ G) ** 2))
        F = update_F(F, X @ G.T, G @ G.T)
    assert_never_increases(errors)


@pytest.mark.parametrize("Model", [GraphNMF, ConcatenatedNMF])
def test_one_matrix_descends_and_terms_add_up(Model):
    X = np.random.default_rng(0).uniform(size=(30, 8))
    model = Model(4, theta=2.0, random_state=0, max_iter=50, tol=0.0).fit(X)
    history = model.history_
    assert_never_increases(history["objective"])
    total = history["reconstruction"][-1] + 2.0 * history["smoothness"][-1]
    np.testing.assert_allclose(model.objective_, total[0], rtol=1e-12)
    assert set(history) == {"objective", "reconstruction", "consensus", "smoothness", "weights", "seconds"}
    assert all(len(values) == model.n_iter_ == 50 for values in history.values())


# Agreement with loops over every index


def naive_update_F(F, X, G):
    d, k, n = F.shape[0], F.shape[1], X.shape[1]
    new = F.copy()
    for i in range(d):
        for j in range(k):
            up = sum(X[i, s] * G[j, s] for s in range(n))
            down = sum(F[i, m] * sum(G[m, s] * G[j, s] for s in range(n)) for m in range(k))
            new[i, j] = F[i, j] * up / down
    return new


def naive_update_G(F, X, G, G_star, W, lam, theta):
    d, k, n = F.shape[0], F.shape[1], X.shape[1]
    new = G.copy()
    for j in range(k):
        for s in range(n):
            up = sum(F[i, j] * X[i, s] for i in range(d)) + lam * G_star[j, s]
            up += theta * sum(G[j, t] * W[t, s] for t in range(n))
            down = sum(F[i, j] * F[i, m] * G[m, s] for i in range(d) for m in range(k)) + lam * G[j, s]
            down += theta * G[j, s] * sum(W[s, t] for t in range(n))
            new[j, s] = G[j, s] * up / down
    return new


def naive_loss(F, X, G, G_star, W, lam, theta):
    error = np.sum((X - F @ G) ** 2) + lam * np.sum((G - G_star) ** 2)
    pairs = [np.sum((G[:, [s]] - G) ** 2 * W[s]) for s in range(G.shape[1])]
    return error + theta * sum(pairs) / 2


def naive_fit(X, rows, start, lam, theta, gamma, n_iter):
    """Eq. 3 for complete or incomplete views, samples in columns."""
    n, v = start.shape[1], len(X)
    W = [np.exp(-((x.T[:, None] - x.T) ** 2).sum(-1) / (2 * median_distance(x.T) ** 2)) for x in X]
    G, G_star = [start[:, r] for r in rows], start
    F = [x @ g.T / g.sum(axis=1) for x, g in zip(X, G, strict=True)]
    beta, objectives = np.full(v, 1 / v), []
    for _ in range(n_iter):
        for a in range(v):
            F[a] = naive_update_F(F[a], X[a], G[a])
            G[a] = naive_update_G(F[a], X[a], G[a], G_star[:, rows[a]], W[a], lam[a], theta[a])
        G_star = np.zeros_like(start)
        for s in range(n):
            seen = [a for a in range(v) if s in rows[a]]
            weight = {a: beta[a] ** gamma * lam[a] * n / len(rows[a]) for a in seen}
            columns = {a: G[a][:, list(rows[a]).index(s)] for a in seen}
            G_star[:, s] = sum(weight[a] * columns[a] for a in seen) / sum(weight.values())
        q = np.array(
            [
                n / len(rows[a]) * naive_loss(F[a], X[a], G[a], G_star[:, rows[a]], W[a], lam[a], theta[a])
                for a in range(v)
            ]
        )
        if gamma > 1:
            beta = q ** (1 / (1 - gamma)) / np.sum(q ** (1 / (1 - gamma)))
        objectives.append(np.sum(beta**gamma * q))
    return F, G, G_star, beta, objectives


def median_distance(X):
    distances = np.sqrt(((X[:, None] - X) ** 2).sum(-1))
    squared = distances[np.triu_indices(len(X), 1)] ** 2
    return np.sqrt(np.median(squared))


@pytest.mark.parametrize("gamma", [0.0, 2.0, 3.0])
@pytest.mark.parametrize("missing", [0.0, 0.4])
def test_fit_agrees_with_naive_loops(gamma, missing):
    views = random_views(3, n=9, dims=(4, 3), missing=missing)
    rows = [views.rows(a) for a in range(2)]
    start = np.random.default_rng(0).uniform(0.1, 1.0, size=(9, 2))
    lam, theta = [0.7, 1.3], [0.2, 0.4]
    model = MultiviewNMF(2, lam=lam, theta=theta, gamma=gamma, init=start, max_iter=20, tol=0.0).fit(views)
    X = [views.blocks[a][rows[a]].T for a in range(2)]
    F, G, G_star, beta, objectives = naive_fit(X, rows, start.T, lam, theta, gamma, 20)
    np.testing.assert_allclose(model.history_["objective"], objectives, rtol=1e-10)
    np.testing.assert_allclose(model.view_weights_, beta, rtol=1e-10)
    np.testing.assert_allclose(model.memberships_, (G_star / G_star.sum(axis=0)).T, atol=1e-10)
    for a in range(2):
        np.testing.assert_allclose(model.components_[a], F[a].T, rtol=1e-10, atol=1e-12)
        expected = (G[a] / G[a].sum(axis=0)).T
        np.testing.assert_allclose(model.view_memberships_[a][rows[a]], expected, atol=1e-10)


@pytest.mark.parametrize("graph", ["gaussian", "knn"])
@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_sparse_views_give_the_same_as_dense(graph, missing):
    dense, sparse = (random_views(5, missing=missing, sparse=kind) for kind in (False, True))
    start = np.random.default_rng(0).uniform(size=(25, 3))
    model = MultiviewNMF(3, gamma=2.0, theta=0.5, graph=graph, init=start, max_iter=30, tol=0.0)
    a, b = clone(model).fit(dense), clone(model).fit(sparse)
    np.testing.assert_allclose(a.history_["objective"], b.history_["objective"], rtol=1e-10)
    np.testing.assert_allclose(a.transform(dense), b.transform(sparse), atol=1e-10)


def test_sparse_views_are_never_made_dense(monkeypatch):
    views = random_views(5, sparse=True)
    for kind in (sp.csr_array, sp.csc_array):
        monkeypatch.setattr(kind, "toarray", lambda self, *args, **kwargs: pytest.fail("made dense"))
    view = ViewProblem.of(views.blocks[0], np.arange(25), 1.0, 1.0, None)
    G = np.full((2, 25), 0.5)
    factors = Factors.of(view, centroids(view.X, G), G, view.neighbours(G))
    assert sp.issparse(view.X)
    assert update_G(factors, view, G).shape == (2, 25)


def test_one_view_is_the_same_in_all_three():
    X = random_views(0, dims=(6,)).blocks[0]
    start = np.random.default_rng(0).uniform(size=(25, 3))
    settings = {"theta": 0.3, "init": start, "max_iter": 25, "tol": 0.0}
    single, concatenated = (Model(3, **settings).fit(X) for Model in (GraphNMF, ConcatenatedNMF))
    multi = MultiviewNMF(3, lam=0.0, **settings).fit(X)
    np.testing.assert_array_equal(single.components_, concatenated.components_)
    np.testing.assert_array_equal(single.components_, multi.components_[0])
    np.testing.assert_array_equal(single.memberships_, multi.memberships_)


# Optimality


def test_fixed_point_satisfies_kkt():
    """At the end ``G >= 0``, ``grad >= 0``, ``G * grad = 0``, and so for ``F`` (Eq. 1 without graph)."""
    X = random_views(0, n=15, dims=(5,)).blocks[0]
    start = np.random.default_rng(1).uniform(size=(2, 15))
    solution = solve([ViewProblem.of(X, np.arange(15))], start, 0.0, 2000, -1.0, lambda *_: None)
    F, G = solution.factors[0].F, solution.factors[0].G
    residual = F @ G - X.T
    for value, gradient in ((G, F.T @ residual), (F, residual @ G.T)):
        assert np.abs(value * gradient).max() < 1e-8
        assert gradient.min() > -1e-6
        assert value.min() < 1e-4  # some bounds are active, so that complementarity says something


@pytest.mark.parametrize("graph", ["gaussian", "knn"])
def test_G_steps_end_where_kkt_holds_with_graph_and_consensus(graph):
    rng = np.random.default_rng(2)
    X, F, G_star = rng.uniform(size=(12, 6)), rng.uniform(size=(6, 3)), rng.uniform(size=(3, 12)) / 5
    view = ViewProblem.of(X, np.arange(12), 0.5, 0.8, make_graph(graph))
    G = np.ones((3, 12))
    for _ in range(2000):
        G = update_G(Factors.of(view, F, G, view.neighbours(G)), view, G_star)
    L = np.diag(view.degree) - view.neighbours(np.eye(12))
    gradient = F.T @ (F @ G - X.T) + 0.5 * (G - G_star) + 0.8 * G @ L
    assert (gradient > -1e-7).all()
    assert np.abs(G * gradient).max() < 1e-9
    assert (G < 1e-9).any()  # some bounds are active, so that complementarity says something


def test_new_samples_are_solved_to_the_least_squares_optimum():
    rng = np.random.default_rng(0)
    F, X = rng.gamma(0.5, size=(10, 3)), rng.uniform(size=(20, 10))
    view = ViewProblem.of(X, np.arange(20))
    factors, G_star = place([view], [F], np.zeros(1), 20)
    best = np.column_stack([nnls(F, x)[0] for x in X])
    np.testing.assert_allclose(factors[0].G, best, atol=1e-2)
    np.testing.assert_array_equal(G_star, factors[0].G)


def test_new_samples_reach_the_joint_optimum_of_their_views():
    """With ``g_star`` eliminated, stacked views are one non-negative least-squares problem per sample."""
    rng = np.random.default_rng(0)
    F, X = [rng.gamma(0.5, size=(d, 2)) for d in (6, 8)], [rng.uniform(size=(5, d)) for d in (6, 8)]
    weight, lam = np.array([0.7, 0.3]), np.array([0.5, 2.0])
    views = [ViewProblem.of(x, np.arange(5), pull) for x, pull in zip(X, lam, strict=True)]
    _, G_star = place(views, F, weight * lam, 5)
    root = np.sqrt(weight)[:, None]
    eye = np.eye(2)
    pulls = [np.hstack([a * eye, b * eye, -(a + b) * eye]) for a, b in np.diag(np.sqrt(weight * lam))]
    A = np.vstack(
        [
            np.hstack([root[0] * F[0], np.zeros((6, 4))]),
            np.hstack([np.zeros((8, 2)), root[1] * F[1], np.zeros((8, 2))]),
            *pulls,
        ]
    )
    for s in range(5):
        b = np.concatenate([root[0] * X[0][s], root[1] * X[1][s], np.zeros(4)])
        np.testing.assert_allclose(G_star[:, s], nnls(A, b)[0][4:], atol=1e-4)


def test_consensus_is_the_weighted_mean_of_the_views_a_sample_has():
    G = [np.full((2, 3), 1.0), np.full((2, 2), 4.0)]
    rows = [np.array([0, 1, 2]), np.array([1, 3])]
    assert update_G_star(G, np.array([2.0, 1.0]), rows, 4)[0].tolist() == [1.0, 2.0, 1.0, 4.0]
    assert update_G_star(G, np.array([1.0, 0.0]), rows, 4)[0].tolist() == [1.0, 1.0, 1.0, 4.0]
    assert update_G_star(G, np.zeros(2), rows, 4)[0].tolist() == [1.0, 2.5, 1.0, 4.0]


# Truth and weights


@pytest.mark.parametrize("init", ["kmeans", "random"])
@pytest.mark.parametrize("Model", [ConcatenatedNMF, MultiviewNMF])
def test_planted_clusters_are_found(Model, init):
    views, y = planted()
    model = Model(3, graph="knn", init=init, random_state=1, max_iter=1000).fit(views)
    assert adjusted_rand_score(y, model.labels_) > 0.95
    assert (model.predict(views) == model.labels_).mean() > 0.95


def test_planted_clusters_are_found_in_one_view():
    views, y = planted()
    model = GraphNMF(3, graph="knn", random_state=0).fit(views["v0"])
    assert adjusted_rand_score(y, model.labels_) > 0.95
    assert (model.predict(views["v0"]) == model.labels_).mean() > 0.95
    assert model.score(views["v0"]) > -0.05
    assert GraphNMF(1, random_state=0).fit(views["v0"]).score(views["v0"]) < model.score(views["v0"])


def test_incomplete_views_recover_the_truth():
    views, y = planted(n=120)
    rng = np.random.default_rng(0)
    views["v1"][rng.permutation(120)[:40]] = np.nan
    model = MultiviewNMF(3, graph="knn", random_state=0).fit(views)
    absent = np.isnan(views["v1"]).all(axis=1)
    assert adjusted_rand_score(y, model.labels_) > 0.95
    assert np.isnan(model.view_memberships_[1][absent]).all()
    assert np.isfinite(model.view_memberships_[1][~absent]).all()
    np.testing.assert_allclose(model.memberships_.sum(axis=1), 1.0)
    only_first = model.predict({"v0": views["v0"]})
    assert adjusted_rand_score(y, only_first) > 0.95


@pytest.mark.filterwarnings("ignore:View 'clean' has:UserWarning")
def test_weights_follow_gamma():
    views, _ = planted()
    views = {"clean": views["v0"], "noise": np.random.default_rng(0).uniform(0, 8, size=(90, 12))}
    fit = {
        gamma: MultiviewNMF(3, gamma=gamma, graph="knn", random_state=0).fit(views).view_weights_
        for gamma in (0.0, 0.5, 1.0, 2.0, 4.0)
    }
    assert fit[0.0].tolist() == [0.5, 0.5]
    assert fit[0.5].tolist() == fit[1.0].tolist() == [1.0, 0.0]
    assert 0.5 < fit[4.0][0] < fit[2.0][0] < 1.0  # noise of the same size explains itself less


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_weights_compare_raw_losses_so_a_small_view_leads_and_warns():
    """As published: shrinking a view raises its weight, whatever it says (METHOD.md 2.2)."""
    views, _ = planted()
    rng = np.random.default_rng(0)
    small_noise = {"clean": views["v0"], "noise": 1e-2 * rng.uniform(size=(90, 2))}
    model = MultiviewNMF(3, gamma=2.0, graph="knn", random_state=0)
    with pytest.warns(UserWarning, match="'noise' has .* of the weight"):
        model.fit(small_noise)
    assert model.view_weights_[1] > 0.9


# Contract


@pytest.mark.parametrize("Model", ALL)
def test_negative_entries_name_the_view_and_the_ways_out(Model):
    X = np.abs(np.random.default_rng(0).normal(size=(20, 4)))
    bad = X.copy()
    bad[3, 1] = -0.1
    model = Model(2, random_state=0)
    for data in ({"pet": bad}, {"pet": sp.csr_array(bad)}):
        with pytest.raises(ValueError, match=r"view 'pet' has 1,.*minimum.*MinMaxScaler"):
            model.fit(data)
    model.fit({"pet": X})
    with pytest.raises(ValueError, match=r"Negative values in data passed to .* view 'pet'"):
        model.predict({"pet": bad})


def test_graph_nmf_refuses_several_views():
    views, _ = planted()
    with pytest.raises(
        ValueError, match=r"one view, got 2: 'v0', 'v1'.*select.*ConcatenatedNMF or MultiviewNMF"
    ):
        GraphNMF().fit(views)


def test_concatenation_refuses_incomplete_views():
    views, _ = planted()
    model = ConcatenatedNMF(random_state=0).fit(views)
    views["v1"][:7] = np.nan
    for call in (ConcatenatedNMF().fit, model.predict):
        with pytest.raises(ValueError, match=r"7 of 90 samples have missing views.*MultiviewNMF"):
            call(views)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"gamma": -1.0}, "gamma"),
        ({"lam": -1.0}, "lam must be non-negative"),
        ({"theta": {"v0": 1.0, "v1": np.nan}}, "theta must be non-negative"),
        ({"lam": {"v0": 1.0}}, r"missing \['v1'\]"),
        ({"init": np.ones((90, 2))}, r"init has shape \(90, 2\)"),
        ({"init": -np.ones((90, 3))}, "init must be finite and non-negative"),
        ({"init": "nonsense"}, "init"),
        ({"graph": "nonsense"}, "graph must be one of"),
        ({"max_iter": 0}, "max_iter"),
    ],
)
def test_bad_parameters_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        MultiviewNMF(3, **settings).fit(planted()[0])


def test_parameters_by_view_name_reach_their_view():
    views, _ = planted()
    settings = {"max_iter": 15, "tol": 0.0, "random_state": 0}
    by_name = MultiviewNMF(3, lam={"v1": 2.0, "v0": 1.0}, theta={"v1": 0.5, "v0": 0.0}, **settings)
    by_list = MultiviewNMF(3, lam=[1.0, 2.0], theta=[0.0, 0.5], **settings)
    assert by_name.fit(views).objective_ == by_list.fit(views).objective_
    assert by_name.history_["smoothness"][-1][0] == 0.0 < by_name.history_["smoothness"][-1][1]


def test_no_graph_is_theta_zero():
    X = planted()[0]["v0"]
    a = GraphNMF(3, theta=0.0, random_state=0).fit(X)
    b = GraphNMF(3, graph=None, random_state=0).fit(X)
    c = GraphNMF(3, graph=GaussianGraph(1.0), random_state=0).fit(X)
    assert a.objective_ == b.objective_ != c.objective_


def test_unconverged_fit_warns():
    with pytest.warns(ConvergenceWarning, match="did not converge in 2 iterations"):
        model = GraphNMF(3, max_iter=2, tol=0.0, random_state=0).fit(planted()[0]["v0"])
    assert model.n_iter_ == 2
    assert not model.converged_
    assert GraphNMF(3, tol=1e-2, random_state=0).fit(planted()[0]["v0"]).converged_


@pytest.mark.parametrize("Model", ALL)
@pytest.mark.parametrize("init", ["kmeans", "random"])
def test_same_seed_same_bits(Model, init):
    X = planted()[0]["v0"]
    state = np.random.get_state()[1].copy()  # noqa: NPY002
    a, b = (Model(3, init=init, random_state=7).fit(X) for _ in range(2))
    assert a.memberships_.tobytes() == b.memberships_.tobytes()
    assert a.transform(X).tobytes() == b.transform(X).tobytes()
    assert (np.random.get_state()[1] == state).all()  # noqa: NPY002
    if init == "random":
        assert Model(3, init=init, random_state=8).fit(X).objective_ != a.objective_


@pytest.mark.parametrize("Model", ALL)
def test_pickle_clone_and_attributes(Model):
    X = planted()[0]["v0"]
    model = Model(3, theta=0.1, random_state=0).fit(X)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.transform(X), model.transform(X))
    assert clone(model).get_params() == model.get_params()
    assert model.labels_.tolist() == model.memberships_.argmax(axis=1).tolist()
    assert model.view_weights_.tolist() == [1.0]
    assert model.objective_ == model.history_["objective"][-1]


def test_concatenation_reports_on_every_view():
    views, _ = planted()
    model = ConcatenatedNMF(3, random_state=0).fit(views)
    assert model.components_.shape == (3, 20)
    assert model.view_weights_.tolist() == [0.5, 0.5] == model.history_["weights"][0].tolist()
    assert len(model.view_memberships_) == 2
    direct = GraphNMF(3, random_state=0).fit(np.hstack(list(views.values())))
    np.testing.assert_array_equal(model.components_, direct.components_)


@pytest.mark.parametrize("Model", [ConcatenatedNMF, MultiviewNMF])
def test_pandas_output(Model):
    views, _ = planted()
    model = Model(3, random_state=0).fit(views).set_output(transform="pandas")
    frame = model.transform(views)
    assert isinstance(frame, pd.DataFrame)
    assert list(frame.columns) == [f"{Model.__name__.lower()}{j}" for j in range(3)]
    assert (model.predict(views) == frame.to_numpy().argmax(axis=1)).all()


def test_samples_are_placed_independently_of_each_other():
    views, _ = planted()
    model = MultiviewNMF(3, gamma=2.0, random_state=0).fit(views)
    views = Views(views)
    whole = model.transform(views)
    single = np.vstack([model.transform(views[[i]]) for i in range(10)])
    np.testing.assert_allclose(single, whole[:10], atol=1e-10)


def test_feature_importance_ranks_the_rows_of_F():
    views, _ = planted()
    views = {name: pd.DataFrame(X).add_prefix(f"{name}.") for name, X in views.items()}
    multi = MultiviewNMF(3, random_state=0).fit(views)
    table = multi.feature_importance("v1")
    assert list(table.columns) == ["feature", "importance", "cluster_0", "cluster_1", "cluster_2"]
    assert table["importance"].is_monotonic_decreasing
    assert table.attrs["method"] == "F"
    lengths = np.linalg.norm(multi.components_[1], axis=0)
    assert table["feature"][0] == f"v1.{lengths.argmax()}"
    with pytest.raises(ValueError, match="Pass view=: one of 'v0', 'v1'"):
        multi.feature_importance()
    with pytest.raises(ValueError, match="No view is called 'v2'"):
        multi.feature_importance("v2")
    joint = ConcatenatedNMF(3, random_state=0).fit(views)
    assert len(joint.feature_importance()) == 20
    part = joint.feature_importance("v1").set_index("feature")
    np.testing.assert_array_equal(part.loc["v1.2"].to_numpy()[1:], joint.components_[:, 14])


def test_a_sample_of_zeros_belongs_to_all_alike():
    X = planted()[0]["v0"]
    X[5] = 0.0
    model = GraphNMF(3, theta=0.0, random_state=0).fit(X)
    np.testing.assert_allclose(model.memberships_[5], 1 / 3)
    np.testing.assert_allclose(model.transform(X[[5]]), 1 / 3)


def test_a_dead_cluster_stays_finite():
    X, start = planted()[0]["v0"], np.zeros((90, 3))
    start[:, 0] = 1.0
    with pytest.warns(ConvergenceWarning, match="2 of 3 clusters have no samples"):
        model = GraphNMF(3, init=start, random_state=0).fit(X)
    assert np.isfinite(model.components_).all()
    assert set(model.labels_) == {0}


def test_graph_geometry_sees_observed_rows_only():
    views = random_views(0, missing=0.5)
    rows = views.rows(1)
    view = ViewProblem.of(views.blocks[1], rows, 1.0, 1.0, make_graph("gaussian"))
    expected = GaussianGraph().fit(Geometry(views.blocks[1][rows])).laplacian
    np.testing.assert_array_equal(view.degree, expected.degree)


def expected_failed_checks(estimator):
    return {"check_clustering": "standardises its data, so it has negative entries, whatever the tags say"}


@parametrize_with_checks([Model(max_iter=20) for Model in ALL], expected_failed_checks=expected_failed_checks)
def test_scikit_learn_checks(estimator, check):
    check(estimator)
