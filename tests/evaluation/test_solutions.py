"""Agreement between methods and between settings."""

from itertools import product

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import adjusted_rand_score

from viewloom import KernelMultiviewNMF, compare, plotting
from viewloom.data import simulated as simulate
from viewloom.evaluation.comparison import SCORES, Comparison
from viewloom.evaluation.solutions import SAME, Solutions, map_solutions, variations
from viewloom.runtime.errors import InputError


@pytest.fixture(scope="module")
def toy():
    return simulate.blobs_views(60, n_views=2, random_state=0)


@pytest.fixture(scope="module")
def compared(toy):
    return compare(*toy, methods=["k-means", "AWMNMF", "published settings", "ours, linear"], seeds=2)


def of_labels(**labels):
    """A comparison of methods with these clusters, one list per seed."""
    rows = [
        {"method": name, "seed": seed, "seconds": 1.0, "iterations": 1.0, **dict.fromkeys(SCORES, 0.5),
         "largest": np.bincount(found).max() / len(found), "labels": found}
        for name, seeds in labels.items()
        for seed, found in enumerate(seeds)
    ]  # fmt: skip
    return Comparison(pd.DataFrame(rows))


def test_agreement_between_methods_equals_a_loop(compared):
    runs = compared.runs
    for one, other in product(compared.agreement.index, repeat=2):
        values = [
            adjusted_rand_score(a.labels, b.labels)
            if min(len(set(a.labels)), len(set(b.labels))) > 1
            else 0.0
            for a in runs[runs["method"] == one].itertuples()
            for b in runs[runs["method"] == other].itertuples()
            if (one, a.seed) != (other, b.seed)
        ]
        assert compared.agreement.loc[one, other] == pytest.approx(np.mean(values))
    assert np.allclose(compared.agreement, compared.agreement.T)


def test_clusters_match_the_samples_whatever_their_numbers():
    found = of_labels(a=[[0, 0, 1, 1]], b=[[1, 1, 0, 0]], c=[[0, 1, 0, 1]])
    assert found.agreement.loc["a", "b"] == 1.0
    assert found.agreement.loc["a", "c"] < 0.0
    assert np.diag(found.agreement).tolist() == [1.0, 1.0, 1.0]


def test_methods_with_nearly_everybody_in_one_cluster_are_named():
    one, nearly, halves = [0] * 40, [0] * 39 + [1], [0] * 20 + [1] * 20
    found = of_labels(one=[one], nearly=[nearly], halves=[halves])
    assert found.collapsed == ["one", "nearly"]
    assert found.agreement.loc["one"].drop("one").tolist() == [0.0, 0.0]


def test_a_baseline_that_collapsed_is_said_to_have(compared):
    assert "AWMNMF" in compared.collapsed
    assert "ours, linear" not in compared.collapsed
    assert compared.table.loc["AWMNMF", "largest"] > 0.95


def test_runs_without_labels_still_make_a_table(compared):
    """As a report stores them."""
    bare = Comparison(compared.runs.drop(columns=["labels", "largest"]))
    assert bare.collapsed == []
    assert bare.agreement.empty
    assert bare.table["NMI"].tolist() == compared.table["NMI"].tolist()


def test_settings_vary_one_choice_at_a_time():
    model = KernelMultiviewNMF(2, lam=1.0, random_state=1)
    found = variations(model)
    assert found[0] == ("", "", {})
    assert all(len(setting) == 1 for _, _, setting in found[1:])
    assert ("lam", "1") not in [(choice, value) for choice, value, _ in found]
    assert ("seed", "1") not in [(choice, value) for choice, value, _ in found]
    assert [value for choice, value, _ in found if choice == "k"] == ["3"]  # not one cluster
    with pytest.raises(InputError, match="Unknown parameters"):
        variations(model, {"lambda": [1.0]})


def test_the_map_tells_choices_that_matter(toy):
    views, _ = toy
    found = map_solutions(
        views,
        KernelMultiviewNMF(3, kernel="linear", random_state=0),
        {"lam": [1.0, 100.0], "n_clusters": [2]},
    )
    assert found.settings["group"].tolist() == [1, 1, 1, 2]
    choices = found.choices
    assert choices.index[0] == "k"
    assert choices["same"].to_dict() == {"k": False, "lam": True}
    assert choices.loc["lam", "values"] == "1, 100"
    fitted = KernelMultiviewNMF(2, kernel="linear", random_state=0).fit(views).labels_
    chosen = KernelMultiviewNMF(3, kernel="linear", random_state=0).fit(views).labels_
    assert found.settings.loc["k 2", "agreement"] == pytest.approx(adjusted_rand_score(chosen, fitted))


def test_groups_are_settings_that_agree():
    rng = np.random.default_rng(0)
    base = rng.integers(3, size=300)
    nearly = np.where(rng.uniform(size=300) < 0.02, 0, base)
    other = rng.integers(3, size=300)
    found = Solutions.of([("", ""), ("lam", "1"), ("lam", "2"), ("k", "4")], [base, other, nearly, base])
    assert found.settings["group"].tolist() == [1, 2, 1, 1]
    assert found.settings.loc["lam 2", "agreement"] > SAME
    assert found.agreement.loc["chosen", "k 4"] == 1.0


def test_figures_hold_the_matrices(compared, toy):
    ax = plotting.method_agreement(compared)
    shown = ax.images[0].get_array()
    np.testing.assert_allclose(shown, np.clip(compared.agreement, 0.0, 1.0))
    assert [label.get_text() for label in ax.get_yticklabels()] == list(compared.agreement.index)
    found = Solutions.of([("", ""), ("lam", "1"), ("k", "2")], [[0, 0, 1, 1], [0, 1, 0, 1], [1, 1, 0, 0]])
    ax = plotting.solutions(found)
    assert [label.get_text() for label in ax.get_yticklabels()] == ["chosen", "k 2", "lam 1"]
    assert ax.get_title(loc="left").startswith("2 of 3 settings")
