"""The paper's table: every method runs, labels only score, and the columns mean what they say."""

import numpy as np
import pytest

from viewloom import compare
from viewloom.cli.rendering import comparison_table
from viewloom.clinical.statistics import Precision
from viewloom.data import simulated as simulate
from viewloom.evaluation import comparison
from viewloom.evaluation.comparison import ORACLE, PUBLISHED_ORACLE, SCORES, SEARCHED, method_names
from viewloom.study.compared import diagnosis_precision, published_comparison


@pytest.fixture(scope="module")
def toy():
    return simulate.blobs_views(60, n_views=2, noise_views=1, random_state=0)


@pytest.fixture(scope="module")
def full(toy):
    with pytest.MonkeyPatch.context() as patch:
        two = {"lam": [10.0], "theta": [0.001, 1.0], "max_iter": [50]}  # of its settings
        patch.setattr(comparison, "PAPER_GRID", two)
        patch.setattr(comparison, "SEARCH_FOLDS", 2)
        return compare(*toy, seeds=1)


def test_every_method_of_the_paper_and_ours_has_a_row(full, toy):
    views, _ = toy
    names = list(full.table.index)
    assert names[: views.n_views + 1] == [*(f"SV {name}" for name in views.names), "SV (mean)"]
    for name in ("CNMF", "MNMF", "AWMNMF", "published settings", "k-means", "ours, linear", "ours, Gaussian"):
        assert name in names
    assert {f"ours, polynomial d={d}" for d in (1, 2, 3)} <= set(names)
    assert set(method_names(views)) | {"SV (mean)"} == set(names)


def test_ours_recovers_the_planted_clusters(full):
    assert full.table.loc["ours, diffusion", "Acc"] > 0.95


def test_scores_are_in_range_and_mirkin_is_one_minus_rand(full):
    table = full.table
    assert np.isfinite(table[list(SCORES)]).all().all()
    np.testing.assert_allclose(table["RI"] + table["MI"], 1.0)


def test_single_view_mean_is_the_mean_of_the_single_views(full, toy):
    rows = [f"SV {name}" for name in toy[0].names]
    assert full.table.loc["SV (mean)", "Acc"] == pytest.approx(full.table.loc[rows, "Acc"].mean())


def test_the_oracle_is_never_below_a_width_of_the_grid(full):
    assert full.table.loc[ORACLE, "Acc"] >= full.table.loc["ours, Gaussian", "Acc"]


def test_the_published_form_is_shown_with_its_settings_searched_and_chosen_with_labels(full):
    """Its theta = 1 puts everybody into one cluster; a search without labels finds the planted ones."""
    nmi = full.table["NMI"]
    for init in ("kkmeans", "random"):
        assert nmi[PUBLISHED_ORACLE[init]] >= nmi[SEARCHED[init]] - 1e-9
    assert nmi[SEARCHED["kkmeans"]] > nmi["published settings"] + 0.5


def test_labels_do_not_change_what_any_method_but_the_oracle_finds(toy):
    views, y = toy
    shuffled = np.random.default_rng(0).permutation(y)
    chosen = ["k-means", "ours, diffusion", "MNMF"]
    fair, unfair = (compare(views, labels, methods=chosen, seeds=1).runs for labels in (y, shuffled))
    np.testing.assert_array_equal(fair["iterations"], unfair["iterations"])


def test_side_by_side_equals_one_after_the_other(toy):
    chosen = ["k-means", "ours, linear"]
    one, two = (compare(*toy, methods=chosen, seeds=2, n_jobs=jobs).runs for jobs in (1, 2))
    np.testing.assert_array_equal(one[["method", "seed", "Acc"]], two[["method", "seed", "Acc"]])


def test_incomplete_views_are_compared_too():
    views, y = simulate.blobs_views(60, n_views=2, random_state=0)
    blocks = {name: X.copy() for name, X in views.items()}
    blocks[views.names[0]][:6] = np.nan
    table = compare(blocks, y, methods=["CNMF", "MNMF", "k-means", "ours, diffusion"], seeds=1).table
    assert np.isfinite(table["Acc"]).all()
    assert table.loc["ours, diffusion", "Acc"] > 0.9


def test_unknown_methods_are_named(toy):
    with pytest.raises(ValueError, match=r"Unknown methods \['magic'\]"):
        compare(*toy, methods=["magic"])


def test_of_many_samples_some_are_compared_and_that_is_said():
    views, y = simulate.blobs_views(150, n_views=2, random_state=0)
    chosen = {"methods": ["k-means", "ours, diffusion"], "seeds": 1}
    with pytest.warns(UserWarning, match="compared in 100 of 150 samples, drawn at random"):
        found = compare(views, y, max_samples=100, **chosen)
    assert [len(labels) for labels in found.runs["labels"]] == [100, 100]
    again = compare(views[found.rows], y[found.rows], **chosen)
    assert again.rows is None
    assert again.table.drop(columns="seconds").equals(found.table.drop(columns="seconds"))
    assert diagnosis_precision(found, y, 5) == diagnosis_precision(again, y[found.rows], 5)
    assert published_comparison(found, Precision()).rows is found.rows
    assert "In 100 subjects, drawn at random." in comparison_table(found).caption


def test_csv_holds_the_table(full, tmp_path):
    full.to_csv(tmp_path / "table.csv")
    assert (tmp_path / "table.csv").read_text().startswith("method,Acc,NMI,ARI,RI,MI,seconds,iterations")
