"""Selection without labels: measures against naive loops, the search, and the number of clusters."""

import json
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score
from sklearn.model_selection import GridSearchCV, KFold

from viewloom import KernelMultiviewNMF, MultiviewNMF, Views
from viewloom.data.simulated import blobs_views
from viewloom.evaluation import twins
from viewloom.evaluation.selection import (
    choose_k,
    consensus_matrix,
    number,
    pac,
    pairwise_ari,
    prediction_strength,
    search,
    select,
)
from viewloom.evaluation.selection.jobs import quiet
from viewloom.kernels.pairwise import Gaussian
from viewloom.models.problem import Problem

GRID = {"kernel": ["linear"], "lam": [1.0, 10.0], "theta": [0.0, 0.1]}
QUICK = {"cv": 3, "random_state": 0, "progress": False}
FEW = {"n_subsamples": 3, "n_twins": 6, "random_state": 0, "progress": False}


@pytest.fixture(scope="module")
def blobs():
    return blobs_views(45, n_views=2, n_clusters=3, separation=4.0, random_state=0)


@pytest.fixture(scope="module")
def whole(blobs):
    """Table of a search that nothing interrupted, in one process."""
    return select(blobs[0], GRID, y=blobs[1], n_jobs=1, **QUICK).table


@pytest.fixture
def clusterings():
    return np.random.default_rng(0).integers(-1, 3, size=(6, 12))


def without_time(table):
    return table.drop(columns="seconds")


# measures


def test_consensus_and_pac_agree_with_loops(clusterings):
    n = clusterings.shape[1]
    shares = np.full((n, n), np.nan)
    for i in range(n):
        for j in range(n):
            both = [(row[i], row[j]) for row in clusterings if row[i] >= 0 and row[j] >= 0]
            if both:
                shares[i, j] = sum(a == b for a, b in both) / len(both)
    np.testing.assert_allclose(consensus_matrix(clusterings), shares)
    pairs = [shares[i, j] for i, j in combinations(range(n), 2) if not np.isnan(shares[i, j])]
    assert pac(shares) == pytest.approx(sum(0.1 < share < 0.9 for share in pairs) / len(pairs))
    assert pac(np.eye(4)) == 0.0


def test_pairs_never_seen_together_are_unknown():
    consensus = consensus_matrix([[0, -1, 1], [-1, 0, 0]])
    assert np.isnan(consensus[0, 1])
    assert pac(consensus) == 0.0


def test_pairwise_ari_uses_common_samples_only(clusterings):
    expected = []
    for one, other in combinations(clusterings, 2):
        common = [i for i in range(len(one)) if one[i] >= 0 and other[i] >= 0]
        expected.append(adjusted_rand_score(one[common], other[common]))
    np.testing.assert_allclose(pairwise_ari(clusterings), expected)


def test_a_single_cluster_is_not_stable():
    assert pairwise_ari(np.zeros((3, 8), dtype=int)).tolist() == [0.0, 0.0, 0.0]


def test_prediction_strength_agrees_with_loops():
    rng = np.random.default_rng(1)
    predicted, labels = rng.integers(0, 3, 30), rng.integers(0, 4, 30)
    shares = []
    for cluster in range(4):
        pairs = list(combinations(np.flatnonzero(labels == cluster), 2))
        shares.append(np.mean([predicted[i] == predicted[j] for i, j in pairs]))
    assert prediction_strength(predicted, labels) == pytest.approx(min(shares))
    assert prediction_strength(labels, labels) == 1.0
    assert prediction_strength([0, 1, 1], [0, 1, 1]) == 1.0  # one sample has no pairs


# search


def test_sigma_belongs_to_gaussian_kernels_only():
    grid = {"kernel": ["linear", "gaussian"], "sigma": [1.0, 2.0], "lam": [1.0]}
    settings = search.expand(grid)
    assert [setting.get("sigma") for setting in settings] == [None, 1.0, 2.0]
    assert "sigma" not in search.parameters(settings[1])
    assert search.parameters(settings[1])["kernel"].sigma == 1.0


def test_losses_are_compared_within_their_unit_and_stability_between_all():
    table = pd.DataFrame(
        {
            "held_out": [0.9, 0.8, 0.2, 0.1],
            "stability": [0.9, 0.8, 0.3, 0.2],
            "seconds": 0.0,
        }
    )
    # in one unit, loss and stability cancel out and stability breaks the tie
    assert search.rank(table, ["a"] * 4).index.tolist() == [0, 1, 2, 3]
    # a lower loss of another unit is no merit: the more stable unit leads, and in it the lower loss
    ranked = search.rank(table, ["a", "a", "b", "b"])
    assert ranked.index.tolist() == [1, 0, 3, 2]
    assert ranked["rank"].tolist() == [1, 2, 3, 4]


def test_unit_of_loss_is_kernel_and_gamma():
    settings = search.expand({"lam": [1.0, 2.0], "gamma": [2.0, 4.0], "sigma": [1.0, 3.0]})
    units = search._unit_of_loss(settings)
    assert len(set(units)) == 4
    for unit in set(units):
        assert {s["lam"] for s, u in zip(settings, units, strict=True) if u == unit} == {1.0, 2.0}


def test_finds_a_width_that_sees_blobs(blobs):
    views, _ = blobs
    found = select(views, {"kernel": ["gaussian"], "sigma": [0.02, 3.0]}, **QUICK)
    assert found.best_params["kernel"].sigma == 3.0
    assert found.table["stability"].iloc[0] > found.table["stability"].iloc[1] + 0.3


def test_smoothing_everything_away_is_not_stable(blobs):
    views, _ = blobs
    found = select(views, {"kernel": ["linear"], "theta": [0.1, 1e3], "lam": [10.0]}, **QUICK)
    assert found.best_params["theta"] == 0.1
    assert found.table["stability"].iloc[1] == 0.0


def test_labels_are_reported_and_never_used(blobs, whole):
    views, y = blobs
    plain = select(views, GRID, **QUICK).table
    right = whole
    wrong = select(views, GRID, y=np.random.default_rng(0).permutation(y), **QUICK).table
    reported = ["reported_Acc", "reported_NMI", "reported_ARI"]
    for table in (right, wrong):
        pd.testing.assert_frame_equal(without_time(table.drop(columns=reported)), without_time(plain))
    assert right["reported_ARI"].mean() > wrong["reported_ARI"].mean() + 0.5


def published_nmi(views, y, **changes):
    model = KernelMultiviewNMF.paper(len(np.unique(y)), random_state=0, **changes)
    with quiet():
        return normalized_mutual_info_score(y, model.fit(views).labels_)


def test_the_papers_method_at_its_best_in_one_line(blobs):
    """Without labels; its published settings put nearly everybody into one cluster."""
    views, y = blobs
    found = select(views, paper=True, n_clusters=3, cv=2, random_state=0, progress=False)
    with quiet():
        searched = normalized_mutual_info_score(y, found.best_estimator.labels_)
    assert searched > 0.9 > published_nmi(views, y) + 0.4
    assert len(found.table) == len(search.expand(search.PAPER_GRID))
    assert found.best_estimator.membership == "nonnegative"
    assert found.best_estimator.theta < 1.0  # of which the grid has the published one, too
    assert 1.0 in search.PAPER_GRID["theta"]
    assert 1.0 in search.PAPER_GRID["lam"]


@pytest.mark.parametrize("name", ["msrcv1_5", "bbcsport"])
def test_the_papers_method_clusters_real_sets(data_dir, name):
    """Of two values of theta, the published one and none."""
    with np.load(data_dir / f"{name}.npz") as data:
        views = [data[key] for key in sorted(data.files) if key.startswith("view")]
        y = data["y"]
    grid = {"theta": [0.0, 1.0], "lam": [10.0], "max_iter": [60]}
    found = select(
        views, grid, paper=True, n_clusters=len(np.unique(y)), cv=2, random_state=0, progress=False
    )
    with quiet():
        searched = normalized_mutual_info_score(y, found.best_estimator.labels_)
    assert searched > 0.55
    assert searched > published_nmi(views, y, max_iter=60) + 0.4


def test_the_paper_has_one_sigma_for_kernel_and_graph():
    of_paper = search.parameters({"sigma": 2.0, "lam": 1.0}, KernelMultiviewNMF.paper().graph)
    assert (of_paper["kernel"].sigma, of_paper["graph"].sigma) == (2.0, 2.0)
    assert "graph" not in search.parameters({"sigma": 2.0}, KernelMultiviewNMF().graph)
    assert search.parameters({"sigma": 2.0, "graph": None}, "gaussian")["graph"] is None


def test_losses_of_the_published_form_are_not_compared():
    settings = search.expand({"lam": [1.0, 2.0], "theta": [0.0, 1.0]})
    assert len(set(search._unit_of_loss(settings, "simplex"))) == 1
    assert len(set(search._unit_of_loss(settings, "nonnegative"))) == 4


def test_grid_search_of_scikit_learn_finds_the_same_losses(blobs):
    views, _ = blobs
    model = KernelMultiviewNMF(n_clusters=3, random_state=0)
    grid = {"theta": [0.0, 0.1], "kernel": ["diffusion", "linear"]}
    theirs = GridSearchCV(model, grid, cv=KFold(3, shuffle=True, random_state=0)).fit(views)
    expected = pd.DataFrame(theirs.cv_results_["params"]).assign(
        held_out=-theirs.cv_results_["mean_test_score"]
    )
    found = select(views, grid, **QUICK).table
    both = found.merge(expected, on=list(grid), suffixes=("", "_theirs"))
    assert len(both) == 4
    np.testing.assert_allclose(both["held_out"], both["held_out_theirs"], rtol=1e-6)


def test_kernels_are_built_once_per_fold(blobs, monkeypatch):
    views, _ = blobs
    built, of = [], Problem.of
    monkeypatch.setattr(Problem, "of", lambda *args: built.append(1) or of(*args))
    select(views, {**GRID, "lam": [1.0], "kernel": ["linear", "gaussian"]}, **QUICK)
    assert len(built) == 2 * 3


def test_number_of_processes_changes_nothing(blobs, whole):
    views, y = blobs
    two = select(views, GRID, y=y, n_jobs=2, **QUICK).table
    pd.testing.assert_frame_equal(without_time(two), without_time(whole), check_exact=True)


class Interrupted(Exception):
    pass


def interrupt_after(monkeypatch, module, name, count):
    """Let a function of a module be called `count` times, and return the list of calls."""
    calls, function = [], getattr(module, name)

    def counted(*args):
        if len(calls) == count:
            raise Interrupted
        calls.append(1)
        return function(*args)

    monkeypatch.setattr(module, name, counted)
    return calls


def test_an_interrupted_search_goes_on_where_it_stopped(blobs, whole, monkeypatch, tmp_path):
    views, y = blobs
    file = tmp_path / "search.json"
    with monkeypatch.context() as patch:
        interrupt_after(patch, search, "judge", 3)
        with pytest.raises(Interrupted):
            select(views, GRID, y=y, checkpoint=file, **QUICK)
    assert len(json.loads(file.read_text())["units"]) == 3
    calls = interrupt_after(monkeypatch, search, "judge", 99)
    resumed = select(views, GRID, y=y, checkpoint=file, **QUICK).table
    assert len(calls) == 4 - 3
    pd.testing.assert_frame_equal(without_time(resumed), without_time(whole), check_exact=True)
    select(views, GRID, y=y, checkpoint=file, **QUICK)
    assert len(calls) == 4 - 3
    assert [path.name for path in tmp_path.iterdir()] == ["search.json"]


def test_a_checkpoint_of_something_else_is_refused(blobs, tmp_path):
    views, y = blobs
    file, grid = tmp_path / "search.json", {"lam": [1.0]}
    select(views, grid, checkpoint=file, **QUICK)
    other = Views({name: X + (X[3, 1] == X) for name, X in views.items()})
    changes = [
        (other, grid, {}),
        (views, {"lam": [2.0]}, {}),
        (views, grid, {"y": y}),
        (views, grid, {"cv": 4}),
    ]
    for data, searched, more in changes:
        with pytest.raises(ValueError, match="other data, settings or versions"):
            select(data, searched, checkpoint=file, **{**QUICK, **more})
    file.write_text("{")
    with pytest.raises(ValueError, match="not a checkpoint"):
        select(views, grid, checkpoint=file, **QUICK)


def test_a_checkpoint_tells_nothing_about_subjects(blobs, tmp_path):
    views, y = blobs
    named = Views(dict(views.items()), ids=[f"subject-{i}" for i in range(len(views))])
    file = tmp_path / "search.json"
    select(named, {"lam": [1.0, 10.0]}, y=[f"class-{c}" for c in y], checkpoint=file, **QUICK)
    text = file.read_text()
    assert "subject" not in text
    assert "class" not in text
    assert "\n" not in text  # indentation would need Python's encoder, which is many times slower
    longest = max(np.size(value) for unit in json.loads(text)["units"].values() for value in unit.values())
    assert longest <= 3  # folds, and pairs of folds


def test_a_checkpoint_needs_a_seed_and_settings_that_can_be_kept(blobs, tmp_path):
    views, _ = blobs
    file = tmp_path / "search.json"
    with pytest.raises(ValueError, match="random_state"):
        select(views, {"lam": [1.0]}, checkpoint=file, progress=False)
    with pytest.raises(ValueError, match="lambda"):
        select(views, {"kernel": [lambda X, Y: X @ Y.T]}, checkpoint=file, **QUICK)


def test_the_best_estimator_is_fitted_on_everything(blobs, tmp_path):
    views, _ = blobs
    found = select(views, {"lam": [1.0, 10.0], "kernel": [Gaussian(3.0)]}, **QUICK)
    plain = KernelMultiviewNMF(3, random_state=0, **found.best_params).fit(views)
    assert found.best_estimator is found.best_estimator
    np.testing.assert_array_equal(found.best_estimator.labels_, plain.labels_)
    found.save_csv(tmp_path / "table.csv")
    assert pd.read_csv(tmp_path / "table.csv").columns.tolist() == found.table.columns.tolist()


def test_incomplete_views_can_be_searched(blobs):
    views, _ = blobs
    present = np.ones((45, 2), dtype=bool)
    present[::6, 1] = False
    found = select(Views(views, present=present), {"lam": [1.0, 10.0]}, **QUICK)
    assert np.isfinite(found.table["held_out"]).all()


def test_what_cannot_be_searched_is_said_before_anything_runs(blobs):
    views, _ = blobs
    with pytest.raises(ValueError, match="recomputed"):
        select(views, {"kernel": ["linear", "precomputed"]}, **QUICK)
    with pytest.raises(TypeError, match="MultiviewNMF"):
        select(views, {"lam": [1.0]}, estimator=MultiviewNMF(), **QUICK)
    with pytest.raises(ValueError, match="45 samples"):
        select(views, {"lam": [1.0]}, y=[0, 1], **QUICK)
    with pytest.raises(ValueError, match="gamma"):
        select(views, {"gamma": [2.0, -1.0]}, **QUICK)
    with pytest.raises(ValueError, match="paper=True for"):
        select(views, **QUICK)
    with pytest.raises(ValueError, match="estimator of its own"):
        select(views, paper=True, estimator=KernelMultiviewNMF(), **QUICK)


# number of clusters


def test_twins_keep_all_covariances_and_nothing_else(blobs):
    views, _ = blobs
    twin = twins.gaussian_twin(views, np.random.default_rng(0))
    X, X0 = views.concatenate(), twin.concatenate()
    np.testing.assert_allclose(X0.mean(axis=0), X.mean(axis=0), atol=1e-10)
    np.testing.assert_allclose(np.cov(X0.T), np.cov(X.T), atol=1e-10)
    assert abs(np.corrcoef(X.ravel(), X0.ravel())[0, 1]) < 0.5
    other = twins.gaussian_twin(views, np.random.default_rng(1)).concatenate()
    assert np.abs(X0 - other).max() > 1.0


def test_twins_of_wide_sparse_and_incomplete_views():
    rng = np.random.default_rng(0)
    dense = rng.standard_normal((12, 30))
    dense[4] = np.nan
    views = Views({"wide": dense, "sparse": sp.csr_array(rng.binomial(1, 0.5, (12, 5)).astype(float))})
    twin = twins.gaussian_twin(views, rng)
    np.testing.assert_array_equal(twin.present, views.present)
    X = views["sparse"].toarray()
    np.testing.assert_allclose(np.cov(twin["sparse"].T), np.cov(X.T), atol=1e-10)


@pytest.mark.parametrize(("k", "kernel"), [(2, "linear"), (3, "diffusion")])
def test_recovers_the_planted_number(k, kernel):
    views, _ = blobs_views(60, n_views=2, n_clusters=k, separation=6.0, random_state=k + 1)
    found = choose_k(views, range(2, k + 2), estimator=KernelMultiviewNMF(kernel=kernel), **FEW)
    assert found.recommended == k
    row = found.table.set_index("k").loc[k]
    assert row["stability"] > 0.95
    assert row["prediction_strength"] > 0.9
    assert row["pac"] < 0.05
    assert found.reasons[0].startswith(f"k = {k}:")
    assert found.consensus.shape == (60, 60)
    assert pac(found.consensus) == pytest.approx(row["pac"])


@pytest.mark.parametrize(("stretch", "kernel"), [(1.0, "gaussian"), (5.0, "linear")])
def test_one_blob_has_no_clusters(stretch, kernel):
    rng = np.random.default_rng(0)
    views = [rng.standard_normal((50, 4)) * [stretch, 1.0, 1.0, 1.0] for _ in range(2)]
    model = KernelMultiviewNMF(kernel=kernel, scale=None)  # scaling would make it round
    found = choose_k(views, [2, 3], estimator=model, **FEW)
    assert found.recommended is None
    assert found.consensus is None
    assert found.reasons[0].startswith("No clear clusters")


def row(k, stability, *, clear=True):
    return {"k": k, "stability": stability, "clear": clear}


def test_the_most_stable_clear_number_wins_and_the_larger_of_equals():
    table = pd.DataFrame([row(2, 0.99), row(3, 0.98), row(4, 0.8), row(5, 1.0, clear=False)])
    assert number.recommend(table) == 3
    assert number.recommend(table.assign(clear=False)) is None
    assert number.recommend(table[table["k"] != 3]) == 2


def test_counting_resumes_and_does_not_depend_on_processes(blobs, monkeypatch, tmp_path):
    views, _ = blobs
    settings = {**FEW, "n_twins": 2, "estimator": KernelMultiviewNMF(kernel="linear")}
    whole = choose_k(views, [2, 3], **settings).table
    pd.testing.assert_frame_equal(
        choose_k(views, [2, 3], n_jobs=2, **settings).table, whole, check_exact=True
    )
    file = tmp_path / "number.json"
    with monkeypatch.context() as patch:
        interrupt_after(patch, number, "judge_twin", 1)
        with pytest.raises(Interrupted):
            choose_k(views, [2, 3], checkpoint=file, **settings)
    calls = interrupt_after(monkeypatch, number, "judge_twin", 99)
    resumed = choose_k(views, [2, 3], checkpoint=file, **settings).table
    assert len(calls) == 1
    pd.testing.assert_frame_equal(resumed, whole, check_exact=True)
    with pytest.raises(ValueError, match="other data, settings or versions"):
        choose_k(views, [2, 4], checkpoint=file, **settings)


def test_counting_refuses_what_it_cannot_count(blobs):
    views, _ = blobs
    for ks in ([1, 2], [], [30]):
        with pytest.raises(ValueError, match="clusters"):
            choose_k(views, ks, **FEW)
    with pytest.raises(ValueError, match="share"):
        choose_k(views, [2], share=1.0, **FEW)
    with pytest.raises(ValueError, match="n_twins"):
        choose_k(views, [2], **{**FEW, "n_twins": 1})


def test_fewer_twins_ask_for_more():
    """A normal twin exceeds the bound as often as it says, however few the others."""
    draws = np.random.default_rng(0).standard_normal((40_000, 5))
    z = (draws[:, 4] - draws[:, :4].mean(axis=1)) / draws[:, :4].std(axis=1, ddof=1)
    assert np.mean(z > number.least_z(4, number.LEVEL)) == pytest.approx(number.LEVEL, abs=0.0015)
