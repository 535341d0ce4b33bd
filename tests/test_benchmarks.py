"""The quality benchmark on small made-up sets: nothing leaks, nothing is dropped, limits hold."""

import json
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))

import quality
import scenarios
import summary
from offers import prepare
from runner import Reply, Task, Worker, carry_out
from scenarios import CLEAN, Scenario, lacking, with_absent, with_harm
from sets import find_sets, read_classes, read_views

N, K = 60, 3


def blobs(rng, y, n_features):
    centres = 6.0 * rng.standard_normal((K, n_features))
    return centres[y] + rng.standard_normal((len(y), n_features))


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(K), N // K)
    first, second = blobs(rng, y, 5), blobs(rng, y, 8)
    np.savez(tmp_path / "made_up.npz", view0=first, view1=second, y=y)
    np.savez(tmp_path / "kernel_made_up.npz", view0=first @ first.T, view1=second @ second.T, y=y)
    np.savez(tmp_path / "with_names.npz", X_mri=first, y_class=y)
    return tmp_path


def task(folder, method="viewloom", scenario=CLEAN, name="made_up"):
    return Task(folder / f"{name}.npz", K, method, scenario, seed=0)


def scores(**columns):
    """A frame of fits: method to NMI per set."""
    return pd.DataFrame(
        [
            {"set": f"s{i}", "n": 2000, "method": method, "kind": "clean", "scenario": "clean", "seed": 0}
            | {"share": 0.0, "Acc": nmi, "NMI": nmi, "ARI": nmi, "seconds": 1.0, "weights": None, "error": ""}
            for method, values in columns.items()
            for i, nmi in enumerate(values)
        ]
    )


def test_whole_run(folder, capsys):
    """Clean, hostile and incomplete runs, their tables, the figure and the file."""
    options = ["--data", str(folder), "--seeds", "1", "--methods", "viewloom,k-means (concatenated)"]
    outputs = ["--json", str(folder / "out.json"), "--figure", str(folder / "out.png")]
    assert quality.main([*options, *outputs, "--hostile", "--missing", "0.3"]) == 0
    printed = capsys.readouterr().out
    assert "Left out" in printed
    assert "with_names" in printed
    content = json.loads((folder / "out.json").read_text())
    fits = pd.DataFrame(content["fits"])
    assert set(fits["set"]) == {"made_up", "kernel_made_up"}
    assert set(fits[fits["set"] == "made_up"]["scenario"]) == {
        "clean",
        *scenarios.HARMFUL,
        "missing 0.3",
        "complete 0.3",
    }
    assert (fits["error"] == "").all()
    assert content["summary"]["viewloom"]["NMI"] > 0.9
    assert (folder / "out.png").stat().st_size > 0


def test_ablation_has_a_row_per_idea(folder, capsys):
    assert quality.main(["--data", str(folder), "--sets", "made_up", "--seeds", "1", "--ablation"]) == 0
    printed = capsys.readouterr().out
    assert all(method.name in printed for method in quality.ABLATION)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--data", "nowhere"], "No folder nowhere"),
        (["--sets", "moon"], "No set is called moon"),
        (["--methods", "magic"], "No method is called magic"),
        (["--json", "nowhere/out.json"], "No folder nowhere"),
    ],
)
def test_what_is_not_there_is_named(folder, capsys, options, message):
    assert quality.main(["--data", str(folder), *options]) == 2
    assert message in capsys.readouterr().out


def test_classes_do_not_reach_the_methods(folder):
    """With other classes in the file the labels stay the same."""
    before = carry_out(task(folder))
    y = np.random.default_rng(1).permutation(read_classes(folder / "made_up.npz"))
    views = read_views(folder / "made_up.npz")
    read_views.cache_clear()
    np.savez(folder / "made_up.npz", view0=views[0], view1=views[1], y=y)
    np.testing.assert_array_equal(before.labelings[0], carry_out(task(folder)).labelings[0])


def test_time_limit_ends_a_fit_but_not_the_run(folder):
    with Worker() as worker:
        assert worker.run(task(folder), time_limit=0.0).error == "no result within 0 s"
        assert worker.run(task(folder), time_limit=60.0).error == ""


def test_error_of_a_method_is_its_result(folder):
    bad = Task(folder / "made_up.npz", N + 1, "viewloom", CLEAN, 0)
    assert carry_out(bad).error.startswith("ValueError: n_clusters=61")


@pytest.mark.parametrize("method", ["SNF", "NEMO", "polyview NMF", "mvlearn co-training"])
def test_peers_that_are_installed_run(folder, method):
    pytest.importorskip({"SNF": "snf", "NEMO": "imml"}.get(method, method.split()[0]))
    reply = carry_out(task(folder, method))
    assert reply.error == ""
    assert len(reply.labelings[0]) == N


def test_failure_takes_the_last_rank_and_is_printed():
    frame = scores(a=[0.9, 0.8], b=[0.5, 0.9], c=[0.1, np.nan])
    frame.loc[frame["NMI"].isna(), "error"] = "no result within 1 s"
    table = summary.overall(frame)
    assert table["rank"].to_dict() == {"a": 1.5, "b": 1.5, "c": 3.0}
    assert table["sets"].to_dict() == {"a": 2, "b": 2, "c": 1}
    assert summary.failures(frame) == ["c, s1, clean: no result within 1 s"]


def test_method_that_always_fails_is_kept():
    assert summary.overall(scores(a=[0.9, 0.8], b=[np.nan, np.nan])).loc["b", "rank"] == 2.0


def test_critical_difference_of_demsar():
    """q = 2.728 for five methods (Demsar 2006, table 5a)."""
    assert summary.critical_difference(5, 30) == pytest.approx(2.728 * np.sqrt(30 / 180), rel=1e-3)


def test_speed_is_compared_with_peers_of_like_quality():
    frame = scores(**{"viewloom": [0.8], "k-means (concatenated)": [0.79], "SNF": [0.5]})
    frame.loc[frame["method"] == "k-means (concatenated)", "seconds"] = 4.0
    assert "0.25 times as long as the fastest near it, k-means (concatenated)" in summary.speed(frame)


def test_dropped_subjects_count_as_wrong(folder):
    [bench_set], _ = find_sets(folder, ["made_up"])
    scenario = Scenario("complete", 0.5)
    y = read_classes(bench_set.path)
    labels = np.where(lacking(N, 2, 0.5, 0) < 0, y, -1)
    found = summary.record(bench_set, task(folder, scenario=scenario), Reply([labels], placed=y), y)
    assert found["Acc"] == 0.5
    assert found["NMI"] < 1.0
    assert found["NMI whole"] == found["NMI placed"] == 1.0


def test_share_of_subjects_lacks_one_view():
    views = with_absent([np.ones((50, 2)), np.ones((50, 3)), np.ones((50, 1))], lacking(50, 3, 0.3, 0))
    absent = np.column_stack([np.isnan(X).all(axis=1) for X in views])
    assert np.bincount(absent.sum(axis=1)).tolist() == [35, 15]


@pytest.mark.parametrize("kind", scenarios.HARMFUL)
def test_harmful_view_comes_last(kind):
    views = [np.random.default_rng(0).standard_normal((N, 4))]
    harmed = with_harm(views, kind, K, seed=0)
    assert len(harmed) == 2
    assert harmed[0] is views[0]
    assert np.isfinite(harmed[1]).all()


def test_offers():
    rng = np.random.default_rng(0)
    counts = rng.poisson(0.2, size=(N, 150)).astype(float)
    values = rng.standard_normal((N, 4))
    values[0] = np.nan
    scaled = prepare([counts, values], "scaled", is_kernel=False, impute=True).views
    np.testing.assert_allclose(np.linalg.norm(scaled[0], axis=1), 1.0)
    np.testing.assert_allclose(scaled[1].mean(axis=0), 0.0, atol=1e-12)
    assert min(X.min() for X in prepare([counts, values], "nonnegative", False, True).views) >= 0.0
    gram = values[1:] @ values[1:].T
    factor = prepare([gram], "scaled", is_kernel=True, impute=False).views[0]
    norms = np.linalg.norm(values[1:], axis=1)
    np.testing.assert_allclose(factor @ factor.T, gram / norms[:, None] / norms, atol=1e-8)
