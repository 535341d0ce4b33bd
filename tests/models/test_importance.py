"""Which features clusters rest on, against loops."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose

import viewloom as vl
from viewloom.models import column_updates, importance
from viewloom.models.column_updates import ColumnUpdates, Distances
from viewloom.models.importance import linear_importance, permutation_importance

NAMES = np.array(["x", "y", "z"], dtype=object)


def test_linear_importance_is_the_length_of_each_row():
    F = np.array([[0.0, 1.0], [3.0, 4.0], [2.0, 0.0]])
    found = linear_importance(F, NAMES)
    assert found["feature"].tolist() == ["y", "z", "x"]
    assert_allclose(found["importance"], [5.0, 2.0, 1.0])
    assert_allclose(found[["cluster_0", "cluster_1"]], [[3.0, 4.0], [2.0, 0.0], [0.0, 1.0]])


def shares(X):
    """Memberships that depend on the first feature, and half as much on the second."""
    X = X.toarray() if sp.issparse(X) else X
    p = (2.0 * X[:, 0] + X[:, 1]) / 3.0
    return np.column_stack([p, 1.0 - p])


@pytest.mark.parametrize("wrap", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("batch", [20_000, 1])
def test_permutation_importance_is_the_share_of_membership_that_moves(monkeypatch, wrap, batch):
    monkeypatch.setattr(importance, "BATCH_ROWS", batch)
    X, repeats = np.random.default_rng(0).uniform(size=(20, 3)), 3
    found = permutation_importance(shares, wrap(X), NAMES, np.random.RandomState(0), repeats)
    rng, moved = np.random.RandomState(0), np.zeros((3, 2))
    for _ in range(repeats):
        for j in range(3):
            other = X.copy()
            order = rng.permutation(20)
            for i in range(20):
                other[i, j] = X[order[i], j]
            moved[j] += sum(abs(shares(other) - shares(X))) / 20 / repeats
    assert found["feature"].tolist() == ["x", "y", "z"]
    assert_allclose(found["importance"], moved.sum(axis=1) / 2.0)
    assert_allclose(found[["cluster_0", "cluster_1"]], moved)
    assert found["importance"].iloc[2] == 0.0


def overlapping(n=80, lacking=False):
    """Three views whose clusters overlap, so that single features move memberships; the first is narrow."""
    rng = np.random.default_rng(0)
    y = np.arange(n) % 3
    views = {f"v{d}": 0.6 * rng.standard_normal((3, d))[y] + rng.standard_normal((n, d)) for d in (6, 60, 9)}
    if lacking:
        views["v60"][::5], views["v9"][1::7] = np.nan, np.nan
    return views


FITS = {
    "three views": (overlapping, {}),
    "samples without a view": (lambda: overlapping(lacking=True), {}),
    "one view": (lambda: {"v60": overlapping()["v60"]}, {}),
    "no graph": (overlapping, {"theta": 0.0}),
    "few neighbours": (overlapping, {"kernel": vl.kernels.Diffusion(n_neighbors=5)}),
    "a view alone": (overlapping, {"kernel": vl.kernels.Diffusion(share=0.0)}),
}


@pytest.mark.parametrize("what", FITS)
# with few candidates, other samples come near
@pytest.mark.parametrize("candidates", [column_updates.CANDIDATES, (1,)], ids=str)
def test_updated_distances_give_what_samples_placed_anew_give(monkeypatch, what, candidates):
    monkeypatch.setattr(column_updates, "CANDIDATES", candidates)
    views, parameters = FITS[what]
    model = vl.KernelMultiviewNMF(3, random_state=0, **parameters).fit(views()).fitted_model_
    for view, name in enumerate(model.names):
        X, rng = model.problem.views[view].geometry.X, np.random.default_rng(1)
        updates = ColumnUpdates.of(model.problem, view, model.codebooks[view], model.sharpness)
        place = model._placing(view)
        columns = list(range(min(X.shape[1], 12)))
        orders = [rng.permutation(len(X)) for _ in columns]
        found = updates.memberships(columns, orders, place(X))
        for j, order, U in zip(columns, orders, found, strict=True):
            other = X.copy()
            other[:, j] = X[order, j]
            assert_allclose(U, place(other), atol=2e-7, err_msg=name)
        assert np.abs(found - place(X)).max() > 1e-3


def test_importance_is_the_same_with_and_without_updates(monkeypatch):
    model = vl.KernelMultiviewNMF(3, random_state=0).fit(overlapping())
    found = model.feature_importance("v60", n_repeats=2).set_index("feature")
    monkeypatch.setattr(type(model.fitted_model_), "_column_updates", lambda self, view: None)
    expected = model.feature_importance("v60", n_repeats=2).set_index("feature").loc[found.index]
    assert found["importance"].max() > 0.0
    assert_allclose(found, expected, atol=1e-7)


def test_distances_after_a_change_of_one_column():
    rng = np.random.default_rng(0)
    X, T = rng.standard_normal((30, 4)), rng.standard_normal((70, 4))
    squares = ((X[:, None] - T) ** 2).sum(axis=2)
    distances = Distances.of(squares, X, T, np.ones(4), 5)
    change = 3.0 * rng.standard_normal(30)
    found, positions = distances.nearest(2, change)
    moved = X.copy()
    moved[:, 2] += change
    expected = np.sqrt(((moved[:, None] - T) ** 2).sum(axis=2))
    assert_allclose(found, np.sort(expected, axis=1)[:, :5])
    assert_allclose(np.take_along_axis(expected, positions, axis=1), found)


@pytest.mark.parametrize("parameters", [{"kernel": "gaussian"}, {"graph": "gaussian"}])
def test_other_kernels_and_graphs_have_no_updates(parameters):
    model = (
        vl.KernelMultiviewNMF(3, random_state=0, max_iter=3, **parameters).fit(overlapping(40)).fitted_model_
    )
    assert model._column_updates(0) is None
