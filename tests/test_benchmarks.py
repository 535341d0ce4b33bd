"""The quality benchmark on small made-up sets: nothing leaks, nothing is dropped, limits hold."""

import json
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))

import calibration
import continuum
import fusion
import methods
import mixed
import quality
import realfiles
import results
import scenarios
import speed
import subtypes
import summary
from methods import ABLATION, DEFAULT, SINGLE
from offers import prepare
from registry import REFERENCES, method_named, variants_of
from runner import Reply, Task, Worker, carry_out
from scenarios import CLEAN, Scenario, lacking, with_absent, with_harm
from scores import class_scores, eta_squared, record
from sets import File, Simulated, find_sets, halves, members, read_truth, read_views
from sklearn.metrics import adjusted_rand_score
from survival_scores import c_index, held_out_c_index, survival_scores

import viewloom as vl
from viewloom.evaluation.selection.evidence import tighter
from viewloom.kernels import shared_graph, votes

N, K = 60, 3
BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


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


@pytest.fixture
def cohorts(folder):
    """A patient cohort with survival, an unknown class, missing values and a constant feature."""
    (folder / "cohorts").mkdir()
    rng = np.random.default_rng(1)
    y = np.repeat(np.arange(K), N // K)
    first, second = blobs(rng, y, 5), blobs(rng, y, 4)
    first[3, 1] = np.nan
    first[:, 2] = 7.0
    time = rng.exponential(1.0 + 5.0 * y)
    classes = np.where(np.arange(N) == 0, -1, y)
    third = blobs(rng, y, 3)
    views = {"view0": first, "view1": second, "view2": third}
    np.savez(folder / "cohorts" / "patients.npz", **views, y=classes, time=time, event=np.ones(N))
    return folder


@pytest.fixture
def in_process(monkeypatch):
    """Fits in this process; `test_whole_run` has them in processes of their own."""
    monkeypatch.setattr(quality.Worker, "run", lambda self, task, time_limit: carry_out(task))


def task(folder, method="viewloom", scenario=CLEAN, name="made_up"):
    return Task(File(folder / f"{name}.npz"), K, method, scenario, seed=0)


def scores(**columns):
    """A frame of fits: method to NMI per set."""
    return pd.DataFrame(
        [
            {"set": f"s{i}", "group": "sets", "block": "sets", "unit": f"s{i}", "n": 2000, "method": method}
            | {"kind": "clean", "scenario": "clean", "seed": 0, "agreement": None, "stage": np.nan}
            | {"share": 0.0, "Acc": nmi, "NMI": nmi, "ARI": nmi, "seconds": 1.0, "weights": None, "error": ""}
            for method, values in columns.items()
            for i, nmi in enumerate(values)
        ]
    )


def test_whole_run(folder, capsys):
    """Clean, hostile and incomplete runs, their tables, the figure and the file."""
    options = ["--data", str(folder), "--groups", "sets", "--half", "all", "--seeds", "1"]
    options += ["--methods", "viewloom,k-means (concatenated)"]
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
        "signal and noise",
        "missing 0.3",
        "complete 0.3",
        "one view missing 0.3",
    }
    assert (fits["error"] == "").all()
    assert content["summary"]["viewloom"]["NMI"] > 0.9
    assert (folder / "out.png").stat().st_size > 0


@pytest.mark.usefixtures("in_process")
def test_ablation_has_a_row_per_idea(folder, capsys):
    options = ["--data", str(folder), "--groups", "sets", "--half", "all", "--sets", "made_up"]
    assert quality.main([*options, "--seeds", "1", "--ablation"]) == 0
    printed = capsys.readouterr().out
    assert all(method.name in printed for method in ABLATION)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--data", "nowhere"], "No folder nowhere"),
        (["--sets", "moon"], "No set is called moon"),
        (["--methods", "magic"], "No method is called magic"),
        (["--json", "nowhere/out.json"], "No folder nowhere"),
        (["--groups", "planets"], "No group is called planets"),
        (["--half", "development"], "Nothing in the development half of sets"),
        (["--tables"], "name that file with --out"),
    ],
)
def test_what_is_not_there_is_named(folder, capsys, options, message):
    common = ["--data", str(folder), "--groups", "sets", "--half", "all"]
    assert quality.main([*common, *options]) == 2
    assert message in capsys.readouterr().out


def test_classes_do_not_reach_the_methods(folder):
    """With other classes in the file the labels stay the same."""
    before = carry_out(task(folder))
    y = np.random.default_rng(1).permutation(File(folder / "made_up.npz").truth().y)
    views = read_views(File(folder / "made_up.npz"))
    read_views.cache_clear()
    np.savez(folder / "made_up.npz", view0=views[0], view1=views[1], y=y)
    np.testing.assert_array_equal(before.labelings[0], carry_out(task(folder)).labelings[0])


def test_time_limit_ends_a_fit_but_not_the_run(folder):
    with Worker() as worker:
        assert worker.run(task(folder), time_limit=0.0).error == "no result within 0 s"
        assert worker.run(task(folder), time_limit=60.0).error == ""


def test_error_of_a_method_is_its_result(folder):
    bad = Task(File(folder / "made_up.npz"), N + 1, "viewloom", CLEAN, 0)
    assert carry_out(bad).error.startswith("InputError: n_clusters=61")


@pytest.mark.parametrize("method", ["SNF", "NEMO", "EEIMVC", "spectral (mean graph)", "MOFA + k-means"])
def test_peers_find_planted_clusters(folder, method):
    pytest.importorskip(method_named(method).package)
    reply = carry_out(task(folder, method))
    assert reply.error == ""
    y = File(folder / "made_up.npz").truth().y
    assert adjusted_rand_score(y, reply.labelings[0]) > 0.9


@pytest.mark.parametrize("method", ["polyview NMF", "mvlearn co-training", "LFIMVC"])
def test_peers_that_are_installed_run(folder, method):
    pytest.importorskip(method_named(method).package)
    reply = carry_out(task(folder, method))
    assert reply.error == ""
    assert len(reply.labelings[0]) == N


@pytest.mark.parametrize("method", ["NEMO", "EEIMVC"])
def test_methods_for_incomplete_views_use_everybody(folder, method):
    """A third of the samples lack a view, and their clusters are found with the other."""
    reply = carry_out(task(folder, method, Scenario("missing", 0.3)))
    y = File(folder / "made_up.npz").truth().y
    assert adjusted_rand_score(y, reply.labelings[0]) > 0.8


def test_nemo_and_snf_are_those_of_other_packages(folder, monkeypatch):
    """The graphs of iMML and snfpy, where they are installed (snfpy needs an argument's old name)."""
    imml, compute = pytest.importorskip("imml.cluster"), pytest.importorskip("snf.compute")
    views = prepare(read_views(File(folder / "made_up.npz")), "scaled", is_kernel=False, impute=True).views
    theirs = imml.NEMO(n_clusters=K, random_state=0).fit([X.copy() for X in views]).affinity_matrix_
    ours = fusion.nemo(views)
    assert np.corrcoef(np.asarray(theirs).ravel(), ours.ravel())[0, 1] > 0.95
    monkeypatch.setattr(compute, "check_array", lambda X, **settings: np.array(X))
    theirs = compute.snf(compute.make_affinity(views))
    assert np.corrcoef(theirs.ravel(), fusion.snf(views).ravel())[0, 1] > 0.99


def test_rows_of_a_fused_graph_keep_their_neighbours():
    W = np.array([[3.0, 1.0, 2.0], [1.0, 3.0, 0.0], [2.0, 0.0, 3.0]])
    np.testing.assert_allclose(fusion.nearest(W, 2).toarray()[0], [0.6, 0.0, 0.4])


def test_halves_are_disjoint_and_complete(data_dir):
    """Every set and cohort is in exactly one half, and every name in the file is there."""
    for group, parts in halves().items():
        assert not set(parts["development"]) & set(parts["confirmation"])
        assert members(group, "all") == [*parts["development"], *parts["confirmation"]]
    for group, folder in (("sets", data_dir), ("cohorts", data_dir / "cohorts")):
        found, _ = find_sets(data_dir, [group])
        assert sorted(one.name for one in found) == sorted(members(group, "all"))
        assert folder.is_dir()


def test_simulated_cohorts_come_adjusted_and_raw_with_everybody_and_with_patients():
    found, _ = find_sets(Path("nowhere"), ["simulated"], "development")
    assert {one.block for one in found} == {
        f"{kind} {how}" for kind in ("diagnosis", "subtypes") for how in ("adjusted", "raw")
    }
    assert {one.unit for one in found} == {f"seed {seed}" for seed in members("simulated", "development")}
    raw, adjusted = Simulated(0, False, False), Simulated(0, False, True)
    healthy = raw.truth().y == 0
    assert abs(adjusted.views()[0][healthy].mean()) < 1e-9 < abs(raw.views()[0][healthy].mean())
    np.testing.assert_array_equal(adjusted.views()[3], raw.views()[3])  # genes are left alone
    assert (
        len(Simulated(0, True, False).views()[0]) == len(Simulated(0, True, False).truth().y) < len(healthy)
    )


def test_cohorts_have_survival_and_unknown_classes(cohorts):
    [patients], _ = find_sets(cohorts, ["cohorts"])
    assert patients.n_clusters == K
    views, truth = read_views(patients.source), read_truth(patients.source)
    assert [X.shape[1] for X in views] == [4, 4, 3]
    assert not np.isnan(views[0]).any()
    labels = np.where(truth.y < 0, 0, truth.y)
    found = record(patients, task(cohorts), method_named(DEFAULT), Reply([labels]), truth)
    assert found["NMI"] == pytest.approx(1.0)
    assert found["log-rank p"] < 1e-3
    assert found["C-index"] > 0.6


def test_survival_of_random_clusters_is_at_chance():
    rng = np.random.default_rng(0)
    time, event, labels = rng.exponential(size=400), np.ones(400), rng.integers(3, size=400)
    assert held_out_c_index(labels, time, event == 1) == pytest.approx(0.5, abs=0.05)
    by_time = np.digitize(time, np.quantile(time, [1 / 3, 2 / 3]))
    assert survival_scores(by_time, time, event)["C-index"] > 0.8


def test_c_index_counts_comparable_pairs():
    """Of three subjects the second is censored: only pairs with the first event can be compared."""
    time, event = np.array([1.0, 2.0, 3.0]), np.array([True, False, True])
    assert c_index(np.array([2.0, 1.0, 0.0]), time, event) == 1.0
    assert c_index(np.array([1.0, 1.0, 2.0]), time, event) == 0.25


def test_eta_squared():
    assert eta_squared(np.array([0, 0, 1, 1]), np.array([1.0, 1.0, 3.0, 3.0])) == 1.0
    assert eta_squared(np.array([0, 1, 0, 1]), np.array([1.0, 1.0, 3.0, 3.0])) == 0.0


def test_an_oracle_takes_the_best_labeling_others_the_mean():
    y = np.repeat([0, 1], 10)
    labelings = [y, np.zeros(20, dtype=int)]
    assert class_scores(labelings, y, "best")["NMI"] == pytest.approx(1.0)
    assert class_scores(labelings, y, "mean")["NMI"] == pytest.approx(0.5)


def test_regret_is_against_the_best_reference_of_each_set():
    table = pd.DataFrame({DEFAULT: [0.5, 0.9], "NEMO": [0.7, 0.6], "other": [0.9, 0.1]}, index=["a", "b"])
    lost = summary.regret(table)
    np.testing.assert_allclose(lost[DEFAULT], [0.2, 0.0])
    np.testing.assert_allclose(lost["other"], [-0.2, 0.8])  # no reference: it sets no mark
    assert {DEFAULT, "NEMO", "SNF"} <= set(REFERENCES)


def test_standing_names_the_worst_set():
    table = summary.standing(scores(**{DEFAULT: [0.5, 0.9], "NEMO": [0.7, 0.6]}))
    assert table.loc[DEFAULT, "on"] == "s0"
    assert table.loc["NEMO", ["regret", "worst"]].tolist() == pytest.approx([0.15, 0.3])
    assert table["rank"].tolist() == [1.5, 1.5]


def test_paired_differences_and_their_interval():
    rng = np.random.default_rng(0)
    base = rng.uniform(size=40)
    table = pd.DataFrame({DEFAULT: base, "better": base + 0.1, "noisy": base + rng.normal(0.0, 0.1, 40)})
    found = summary.paired(table)
    np.testing.assert_allclose(found.loc["better", ["difference", "low", "high"]].astype(float), 0.1)
    assert found.loc["noisy", "low"] < 0.0 < found.loc["noisy", "high"]
    assert found.loc["better", ["better", "worse", "sets"]].tolist() == [40, 0, 40]


def test_sets_of_one_unit_are_drawn_together():
    """Ten sets that are copies of two have the interval of two."""
    values = np.repeat([0.0, 1.0], 5)
    together = summary.bootstrap_interval(values, np.repeat(["a", "b"], 5))
    apart = summary.bootstrap_interval(values, np.arange(10))
    assert together == (0.0, 1.0)
    assert 0.0 < apart[0] < apart[1] < 1.0


def test_weights_are_compared_with_single_views():
    frame = scores(**{DEFAULT: [0.9], SINGLE: [0.5]})
    frame["single"] = [None, [0.1, 0.2, 0.3]]
    frame["weights"] = [[0.2, 0.3, 0.5], None]
    frame["agreement"] = [[0.9, 0.5, 0.1], None]
    found = summary.weights_against_views(frame).loc[DEFAULT]
    assert found[["weights rho", "agreement rho", "heaviest is best"]].tolist() == pytest.approx(
        [1.0, -1.0, 1.0]
    )


def test_signal_beside_noise_is_the_first_view():
    views = [np.zeros((N, 3)), np.ones((N, 9))]
    signal, noise = scenarios.signal_and_noise(views, seed=0)
    assert signal is views[1]
    assert noise.shape == (N, scenarios.N_NOISE)
    assert scenarios.signal_and_noise(views, seed=0, signal=0)[0] is views[0]


def test_one_view_is_missing_from_a_share_of_samples():
    absent = scenarios.absent_view(Scenario(scenarios.ONE_VIEW_MISSING, 0.3), 50, 3, seed=4)
    assert np.unique(absent).tolist() == [-1, 1]
    assert (absent == 1).sum() == 15


@pytest.mark.usefixtures("in_process")
def test_a_run_goes_on_where_it_stopped(folder, capsys, monkeypatch):
    out = folder / "fits.jsonl"
    options = ["--data", str(folder), "--groups", "sets", "--half", "all", "--sets", "made_up"]
    options += ["--methods", "k-means (concatenated),NEMO", "--seeds", "2", "--out", str(out)]
    assert quality.main(options) == 0
    lines = out.read_text().splitlines()
    assert len(lines) == 4
    out.write_text("\n".join(lines[:3]) + "\n" + lines[3][:40])  # cut off in the last line
    monkeypatch.setattr(quality.Worker, "run", _counted(quality.Worker.run, calls := []))
    assert quality.main(options) == 0
    assert len(calls) == 1
    assert quality.main(["--tables", "--out", str(out)]) == 0
    assert len(calls) == 1
    assert "NEMO" in capsys.readouterr().out
    assert quality.main(["--tables", "--out", str(out), "--sets", "made_up"]) == 0
    assert quality.main(["--tables", "--out", str(out), "--sets", "other"]) == 2
    assert "no set other" in capsys.readouterr().out


def _counted(function, calls):
    def counted(*arguments):
        calls.append(arguments)
        return function(*arguments)

    return counted


def test_fits_of_other_code_and_failures_of_shorter_limits_are_repeated(tmp_path):
    store = results.Store(tmp_path / "fits.jsonl")
    fit = {"set": "a", "method": "m", "scenario": "clean", "seed": 0, "code": "1", "time_limit": 10.0}
    store.add({**fit, "error": "no result within 10 s"})
    key = results.key_of(fit)
    assert store.find(key, "1", 10.0)
    assert store.find(key, "2", 10.0) is None
    assert store.find(key, "1", 60.0) is None


def test_settings_of_a_method_are_part_of_its_code():
    assert results.code_of("viewloom", "a") != results.code_of("viewloom", "b")


@pytest.mark.usefixtures("in_process")
def test_variants_of_a_file_are_measured(folder, capsys):
    (folder / "variants.py").write_text(
        "from methods import viewloom\nMETHODS = [viewloom('equal weights', gamma=0.0)]\n"
    )
    options = [
        "--data",
        str(folder),
        "--groups",
        "sets",
        "--half",
        "all",
        "--sets",
        "made_up",
        "--seeds",
        "1",
    ]
    options += ["--methods", "viewloom", "--variants", str(folder / "variants.py")]
    out = ["--out", str(folder / "fits.jsonl")]
    assert quality.main([*options, *out]) == 0
    assert "equal weights" in capsys.readouterr().out
    assert quality.main([*options, "--baseline", str(folder / "fits.jsonl")]) == 0
    assert "viewloom (baseline)" in capsys.readouterr().out


def test_every_variant_that_was_tried_finds_planted_clusters(cohorts):
    source, path = File(cohorts / "cohorts" / "patients.npz", patients=True), BENCHMARKS / "tried.py"
    y, given = np.repeat(np.arange(K), N // K), read_views(source)
    for method in variants_of(path):
        found = method.fit(prepare(given, method.form, False, False), K, 0)
        assert adjusted_rand_score(y, found.labelings[0]) > 0.5, method.name


def test_replaced_functions_are_put_back_after_a_fit(cohorts):
    before = [vars(module).copy() for module in (votes, shared_graph, shared_graph.SharedGraph)]
    source = File(cohorts / "cohorts" / "patients.npz", patients=True)
    for name in ("whole vote, by dependence", "the same, edges divided, too"):
        reply = carry_out(Task(source, K, name, CLEAN, 0, BENCHMARKS / "tried.py"))
        assert reply.error == ""
    assert before == [vars(module) for module in (votes, shared_graph, shared_graph.SharedGraph)]


def test_ablation_shows_every_group_and_how_often_fdg_is_not_the_lightest():
    frame = scores(viewloom=[0.5, 0.4], other=[0.6, 0.4]).assign(single=None)
    frame["group"] = ["sets", "simulated"] * 2
    frame["weights"] = [None, [0.2, 0.4, 0.3, 0.1], None, [0.4, 0.3, 0.2, 0.1]]
    single = {"set": "s1", "group": "simulated", "method": SINGLE, "kind": "clean"}
    frame = pd.concat([frame, pd.DataFrame([single | {"single": [0.1, 0.2, 0.3, 0.0]}])], ignore_index=True)
    table = summary.ablation(frame)
    assert table.loc["other", ["sets", "simulated", "change", summary.FDG_COUNT]].round(6).tolist() == [
        *(0.6, 0.4, 0.05, 0.0)
    ]
    assert table.loc["viewloom", summary.FDG_COUNT] == 1.0
    equal = frame["weights"].map(lambda weights: weights and [0.25] * 4)
    assert summary.FDG_COUNT not in summary.ablation(frame.assign(weights=equal))
    assert table.loc["other", ["better", "worse", "n"]].tolist() == [1, 0, 2]


def test_versions_are_compared_by_the_seconds_of_their_fits(folder, monkeypatch):
    source = str(Path(vl.__file__).parents[1])
    np.savez(folder / "fits-3.npz", *read_views(File(folder / "made_up.npz")))
    for name in ("kernel_made_up", "with_names", "made_up"):
        (folder / f"{name}.npz").rename(folder / f"{name}.kept")
    assert speed.default_fits(source, str(folder)).shape == (1,)
    (folder / "made_up.kept").rename(folder / "made_up.npz")
    made_up = find_sets(folder, ["sets"])[0]
    monkeypatch.setattr("sets.find_sets", lambda *given: (made_up, []))
    monkeypatch.setattr(
        speed, "default_fits", lambda source, scratch: np.array([2.0 - ("src" not in source)])
    )
    assert not list(speed.measure_versions(folder))
    monkeypatch.setenv(speed.EARLIER, "earlier")
    whole, worst = speed.measure_versions(folder)
    assert (whole.ratio, worst.ratio, whole.reached) == (2.0, 2.0, "no")


def test_published_form_searched_and_with_its_best_setting(folder, monkeypatch):
    """Of two settings; searched without labels it has one labeling, the oracle has one per setting."""
    monkeypatch.setattr(methods, "PAPER_GRID", {"lam": [10.0], "theta": [0.001, 1.0]})
    searched, oracle = (carry_out(task(folder, f"published form ({how})")) for how in ("searched", "oracle"))
    assert [len(reply.labelings) for reply in (searched, oracle)] == [1, 2]
    y = File(folder / "made_up.npz").truth().y
    assert adjusted_rand_score(y, searched.labelings[0]) > 0.9
    assert method_named("published form (oracle)").pooling == "best"


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
    [bench_set], _ = find_sets(folder, ["sets"], names=["made_up"])
    scenario = Scenario("complete", 0.5)
    truth = read_truth(bench_set.source)
    y = truth.y
    labels = np.where(lacking(N, 2, 0.5, 0) < 0, y, -1)
    method, reply = method_named(DEFAULT), Reply([labels], placed=y)
    found = record(bench_set, task(folder, scenario=scenario), method, reply, truth)
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


def test_subtypes_are_measured_among_patients_on_the_same_inputs():
    """Controls are reference: they are in no view, and severity is removed from all views but genotypes."""
    cohort = subtypes.vl.simulate.adni_like(20, 20, 25, random_state=0)
    plans = [subtypes.plan_of("adjusted", removal) for removal in ("none", "mmse")]
    plain, pattern = (subtypes.prepared(cohort, plan) for plan in plans)
    assert len(plain) == len(pattern) == 40
    mmse = cohort.participants["mmse"][cohort.truth.y > 0]
    assert np.abs(np.corrcoef(pattern["fdg"][:, 0], mmse)[0, 1]) < 1e-8
    np.testing.assert_array_equal(plain["snp"], pattern["snp"])
    methods = [*subtypes.OURS, *subtypes.PEERS]
    assert [name for name, _ in subtypes.labelings(plain, plans[0], 2, 0, methods)] == methods


def test_calibration_resumes_and_prints_both_tables(tmp_path, capsys, monkeypatch):
    out, options = tmp_path / "runs.jsonl", ["--quick", "--rules", "fit"]
    options += ["--out", str(out), "--json", str(tmp_path / "rates.json")]
    assert calibration.main(options) == 0
    lines = out.read_text().splitlines()
    assert len(lines) == 3
    out.write_text("\n".join(lines[:2]) + "\n" + lines[2][:30])  # cut off in the last line
    monkeypatch.setattr(calibration, "carried_out", _counted(calibration.carried_out, calls := []))
    assert calibration.main(options) == 0
    assert len(calls) == 1
    rows = {row["case"]: row for row in json.loads((tmp_path / "rates.json").read_text())}
    assert rows["separation 6"]["found"] == 1
    assert rows["all families"]["found"] == 0
    assert "Power" in capsys.readouterr().out


def test_calibration_counts_the_runs_of_several_files_once(tmp_path, capsys):
    run = {"rule": "fit", "case": "uniform", "found": False}
    for name, seeds in (("one", (1, 2)), ("two", (2, 3))):
        (tmp_path / name).write_text("".join(f"{json.dumps({**run, 'seed': seed})}\n" for seed in seeds))
    options = ["--runs", "0", "--merge", str(tmp_path / "one"), str(tmp_path / "two")]
    assert calibration.main([*options, "--json", str(tmp_path / "rates.json")]) == 0
    assert {row["runs"] for row in json.loads((tmp_path / "rates.json").read_text())} == {3}
    assert "70.8%" in capsys.readouterr().out  # 1 - 0.025 ** (1 / 3)


def test_runs_of_calibration_end_early_only_where_nothing_could_change():
    """Whatever twins are drawn, a loss that is called out of reach is not clearly below all of them."""
    rng = np.random.default_rng(0)
    for level, n in ((calibration.EVIDENCE_LEVEL, 10), (calibration.NUMBER_LEVEL, 20)):
        early = 0
        for _ in range(300):
            losses = 0.1 + rng.uniform(0.0, 0.3) + rng.uniform(0.01, 0.1) * rng.standard_normal(n)
            gap, z = tighter(0.1, losses)
            clear = z > calibration.least_z(n, level) and gap > calibration.LEAST_GAP
            given_up = [calibration.out_of_reach(0.1, losses[:m].tolist(), n, level) for m in range(1, n + 1)]
            assert given_up == sorted(given_up)  # once out of reach, always
            assert bool(given_up[-1]) != bool(clear)
            early += given_up[n // 2]
        assert early > 100


@pytest.mark.parametrize("separation", [2.0, 6.0])
def test_calibration_asks_the_rules_of_the_package(separation):
    views, k = calibration.planted(separation, 1)
    views = views[np.arange(60)]
    model = calibration.vl.KernelMultiviewNMF(k, random_state=0)
    verdict = calibration.vl.selection.cluster_evidence(model, views, random_state=0).verdict
    assert calibration.by_fit(views, k, 0)["verdict"] == verdict


def test_verdicts_on_files(folder, capsys):
    assert calibration.main(["--real", str(folder)]) == 0
    head, *rows = capsys.readouterr().out.splitlines()
    assert [row.split()[0] for row in rows] == ["made_up"]  # neither kernels nor other forms
    assert rows[0].endswith("1.00  clusters")
    assert head.index("verdict") == rows[0].index("clusters")


@pytest.mark.parametrize("family", list(calibration.FAMILIES))
def test_families_without_clusters_have_the_sizes_they_say(family):
    views, k = calibration.without_clusters(family, 3, 80)
    assert 50 <= len(views) <= 80
    assert 1 <= views.n_views <= 4
    assert 2 <= k <= 5


def test_gower_similarity_against_loops():
    frames, _ = mixed.simulated("balanced", 0, n=20)
    grade, group = frames["clinical"]["grade 0"], frames["clinical"]["group 0"]
    codes = grade.cat.codes.to_numpy(dtype=float)
    ordered, nominal = mixed._similarity(grade), mixed._similarity(group)
    for i in range(20):
        for j in range(20):
            assert ordered[i, j] == pytest.approx(1.0 - abs(codes[i] - codes[j]) / np.ptp(codes))
            assert nominal[i, j] == float(group[i] == group[j])


def test_every_encoding_of_mixed_columns_runs(tmp_path):
    frames, y = mixed.simulated("mostly numeric", 0, n=60)
    assert len(mixed.scores(frames, y, 0)) == len(mixed.METHODS)
    np.savez(tmp_path / "set.npz", view0=np.c_[np.arange(9.0), [0, 1, 2] * 3], names=["a"], y=[0, 1, -1] * 3)
    typed, known = mixed.stored(tmp_path / "set.npz")
    assert known.tolist() == [0, 1] * 3
    assert [str(dtype) for dtype in typed["a"].dtypes] == ["category", "category"]


def test_clusters_along_a_continuum_are_found_by_every_listed_method(capsys, tmp_path):
    options = ["--seeds", "1", "--skews", "0.6", "--methods", "viewloom,time=20,NEMO"]
    assert continuum.main([*options, "--json", str(tmp_path / "out.json")]) == 0
    found = json.loads((tmp_path / "out.json").read_text())
    assert list(found) == ["viewloom", "time=20", "NEMO"]
    assert all(row["NMI, skew 0.6"] > 0.1 and row["smaller, skew 0.6"] > 0.1 for row in found.values())
    assert all(method_named(name, continuum.TRIED) for name in continuum.METHODS)
    assert "skew 0.6" in capsys.readouterr().out


def test_real_files_are_compared_with_an_independent_reader(tmp_path, capsys):
    frame = pd.DataFrame({"id": ["secret-1", "secret-2"], "x": [1.5, None], "day": ["2021-03-14", "n/a"]})
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        frame.to_csv(tmp_path / folder / "equal.csv", index=False)
    frame.to_parquet(tmp_path / "equal.parquet")
    frame[["id"]].to_csv(tmp_path / "single.csv", index=False)
    (tmp_path / "other.pdf").write_bytes(b"%PDF")
    assert realfiles.main([str(tmp_path), "--json", str(tmp_path / "out.json")]) == 0
    found = {row["path"]: row["outcome"] for row in json.loads((tmp_path / "out.json").read_text())}
    assert found == {
        "a/equal.csv": "equal", "b/equal.csv": "equal", "equal.parquet": "equal", "single.csv": "refused",
    }  # fmt: skip
    printed = capsys.readouterr().out
    assert "secret" not in printed
    assert "text .csv, refused: a single column; a table has an id and features" in printed


def test_cells_that_differ_from_an_independent_reading_are_counted():
    frame = pd.DataFrame({"id": ["a", "b"], "x": [1.5, 3.0]})
    title, header = ["Table 1", None, None], [None, "id", "x"]
    cells = [[None, "a", 1.5], [None, None, None], [None, "b", 3]]
    assert realfiles.cells_apart(frame, [title, header, *cells]) == 0
    assert realfiles.cells_apart(frame, [title, header, *cells[:2], [None, "b", 4]]) == 1
    assert realfiles.cells_apart(frame, [title, header, *cells, [None, "c", 2]]) == 2  # a row that was lost
    assert realfiles.cells_apart(frame, [["other", "x"], ["a", 1.5], ["b", 3]]) == 4

    def fails():
        raise KeyError("a value")

    assert realfiles.compared(fails, None) == ("crashed", "KeyError")
    assert realfiles.compared(lambda: frame, None) == ("read", "")


def test_counts_of_alleles_that_differ_are_counted():
    ours = pd.DataFrame({"rs1_A": [0.0, 1.0], "rs2_C": [2.0, np.nan]}, ["a", "b"])
    assert realfiles.counts_apart(ours, ours.loc[["b", "a"]].assign(rs3_T=np.nan)) == 0
    assert realfiles.counts_apart(ours, ours.replace(2.0, 1.0)) == 1
    assert realfiles.counts_apart(ours, ours[["rs1_A"]]) == 2
