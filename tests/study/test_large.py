"""Studies of very many subjects: what is done in blocks or in some of the subjects gives what all give."""

import ctypes
import json
import subprocess
import sys
from functools import partial
from importlib import import_module

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose
from threadpoolctl import threadpool_info, threadpool_limits
from typer.testing import CliRunner

import viewloom as vl
from viewloom.cli.commands import app
from viewloom.data import portions
from viewloom.data.views import Views
from viewloom.evaluation.selection import choose_k, select
from viewloom.evaluation.selection.stability import consensus_matrix, pac, sampled_pac
from viewloom.study import StudyError, read_study
from viewloom.study.cohort import join, read_tables
from viewloom.study.compute import enough_memory, jobs_within, machines, model_settings
from viewloom.study.config.schema import Compute
from viewloom.study.preparation.fitted import Plan, Preparation
from viewloom.study.run import computations, design, predict, run_study, sampled
from viewloom.study.run.computations import standardised_product


@pytest.mark.parametrize(
    "plan",
    [
        Plan(residualise=["age", "sex"], residualise_on="all", harmonise="combat", site="site"),
        Plan(w_scores=["age"], diagnosis="dx", controls="HC", harmonise="combat", site="site"),
        Plan(standardise=True),
    ],
)
def test_preparation_by_portions(monkeypatch, plan):
    rng, n = np.random.default_rng(0), 240
    people = pd.DataFrame(
        {
            "age": rng.normal(70, 5, n),
            "sex": rng.choice(["F", "M"], n),
            "site": rng.choice(list("abc"), n),
            "dx": rng.choice(["HC", "AD"], n),
        },
        index=[f"s{i}" for i in range(n)],
    )
    X = rng.normal(size=(n, 6)) + people[["age"]].to_numpy() / 10
    X[rng.random(X.shape) < 0.05] = np.nan
    X[:30] = np.nan
    other = rng.normal(size=(n, 3))
    exact = Views({"a": X, "b": other}, ids=people.index, allow_nan=True)
    single = exact.replaced(blocks=[block.astype(np.float32) for block in exact.blocks])
    whole = Preparation.fit(exact, people, plan)
    monkeypatch.setattr(portions, "CELLS", 500)  # two columns, or 80 rows
    parts = Preparation.fit(single, people, plan)
    assert list(map(str, parts.notes)) == list(map(str, whole.notes))
    found, expected = (fit.transform(single, people) for fit in (parts, whole))
    assert found.blocks[0].dtype == np.float32
    for one, other in zip(found.blocks, expected.blocks, strict=True):
        assert_allclose(one, other, atol=2e-5)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_large_views_are_prepared_in_place(monkeypatch, dtype):
    """The same numbers as in a copy; subjects who lose their last value, or never had one, have NaN."""
    rng, n = np.random.default_rng(0), 60
    X = rng.normal(size=(n, 3)).astype(dtype)
    X[:5], X[5:9, 1:] = np.nan, np.nan
    views = Views({"a": X, "b": rng.normal(size=(n, 2))}, allow_nan=True)
    monkeypatch.setattr(portions, "CELLS", 30)  # ten rows
    fitted = Preparation.fit(views, plan=Plan(standardise=True))
    before = X.copy()
    expected = fitted.transform(views)
    np.testing.assert_array_equal(X, before)
    found = fitted.transform(views, overwrite=True)
    np.testing.assert_array_equal(found["a"], expected["a"])
    np.testing.assert_array_equal(found.present, expected.present)
    assert np.shares_memory(found["a"], X) == (dtype == np.float32)


def test_joining_keeps_every_table_once(tmp_path):
    write_study(tmp_path)
    study = read_study(tmp_path / "study.toml")
    tables = read_tables(study)
    frames, ids = dict(tables.frames), tables.ids
    data = join(study, tables)
    assert tables.frames == {}
    assert list(data.views.ids) == list(ids)
    for name, frame in frames.items():
        there = data.views.present[:, data.views.index(name)]
        assert list(data.views.feature_names[name]) == list(frame.columns)
        X = data.views[name]
        assert sp.issparse(X) or (X.flags.c_contiguous and X.flags.writeable)
        X = X.toarray() if sp.issparse(X) else X
        np.testing.assert_array_equal(X[there], frame.reindex(ids[there]).to_numpy())


def test_preparation_uses_one_thread(tmp_path, monkeypatch):
    """Products of a few columns would wait for other threads, a hundred times as long on a busy machine."""
    counts, module = [], import_module("viewloom.study.check")
    write_study(tmp_path)

    def spied(*arguments, **options):
        counts.extend(library["num_threads"] for library in threadpool_info())
        return read_tables(*arguments, **options)

    monkeypatch.setattr(module, "read_tables", spied)
    with threadpool_limits(2):
        assert module.examine(read_study(tmp_path / "study.toml"))[1] is not None
    assert set(counts) == {1}


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="another C library")
def test_freed_memory_is_returned():
    code = """
import numpy as np, psutil
from viewloom.runtime.memory import return_freed_memory
def size(): return psutil.Process().memory_info().rss / 2**20
kept, lost = [], []
for _ in range(4000):
    lost.append(np.ones(8000))  # 64 kB, from the heap
    kept.append(np.ones(10))
lost.clear()
before = size()
return_freed_memory()
print(before - size())
"""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert float(found.stdout) > 150  # of 244 MiB


def test_importance_in_chunks(monkeypatch):
    rng = np.random.default_rng(0)
    X, P_t = 100 + rng.normal(size=(50, 4)), rng.random((3, 40))
    X[:, 3] = 7.0
    rows = np.sort(rng.permutation(50)[:40])
    monkeypatch.setattr(computations, "CHUNK", 7)
    Z = X[rows] - X[rows].mean(axis=0)
    Z[:, :3] /= X[rows, :3].std(axis=0)
    assert_allclose(standardised_product(X, rows, P_t), (P_t @ Z).T, atol=1e-9)


def test_pac_of_sampled_pairs():
    rng = np.random.default_rng(0)
    labels = np.where(rng.random((10, 400)) < 0.8, rng.integers(0, 3, (10, 400)) * (np.arange(400) % 2), -1)
    exact = pac(consensus_matrix(labels))
    assert sampled_pac(labels, rng) == pytest.approx(exact)
    assert sampled_pac(labels, rng, n_pairs=20_000) == pytest.approx(exact, abs=0.015)


@pytest.mark.parametrize(("separation", "expected"), [(4.0, 3), (0.0, None)])
def test_counting_clusters_in_some_samples(separation, expected):
    """As many are found in a quarter of the samples as in all, and equally stable ones."""
    views, _ = vl.simulate.blobs_views(250, n_views=2, separation=separation, random_state=0)
    how = {"ks": [2, 3], "n_subsamples": 3, "n_twins": 6, "random_state": 0, "progress": False}
    some, all_ = choose_k(views, max_samples=100, **how), choose_k(views, max_samples=None, **how)
    assert some.recommended == all_.recommended == expected
    assert (len(some.views), len(all_.views)) == (100, 250)
    assert some.reasons[-1] == "Assessed in 100 of 250 samples, drawn at random."
    if expected:
        assert_allclose(some.table["gap"], all_.table["gap"], atol=0.1)
    with pytest.raises(ValueError, match="max_samples must be 100 or more"):
        choose_k(views, max_samples=5, **how)


def test_searching_in_some_samples():
    views, y = vl.simulate.blobs_views(150, n_views=2, random_state=0)
    grid = {"sigma": [0.01, 3.0]}
    found = select(views, grid, cv=2, random_state=0, progress=False, y=y, max_samples=100)
    assert found.best_params["kernel"].sigma == 3.0
    assert (found.searched, len(found.views)) == (100, 150)


def test_the_command_says_that_it_searched_in_some(tmp_path, monkeypatch):
    write_study(tmp_path, 300)
    monkeypatch.setattr("viewloom.evaluation.selection.select", partial(select, max_samples=100))
    monkeypatch.setattr("viewloom.cli.commands.GRID", {"lam": [1.0, 10.0]})
    done = CliRunner().invoke(app, ["select", str(tmp_path / "study.toml"), "--jobs", "1"])
    assert "Searched in 100 of 300 subjects, drawn at random." in done.output


def write_study(folder, n=300, compute="factored = 60"):
    """Two views of numbers and one of codes."""
    rng = np.random.default_rng(0)
    y, ids = rng.integers(0, 2, n), np.array([f"s{i:04d}" for i in range(n)])
    for name, d in (("mri", 6), ("blood", 4)):
        X = pd.DataFrame(3.0 * y[:, None] + rng.normal(size=(n, d))).add_prefix(name)
        X.insert(0, "eid", ids)
        X[rng.random(n) < 0.9].to_csv(folder / f"{name}.csv", index=False)
    pairs = np.argwhere(rng.random((n, 30)) < 0.2 + 0.5 * (np.arange(30) % 2 == y[:, None]))
    codes = pd.DataFrame({"eid": ids[pairs[:, 0]], "icd": [f"C{j:02d}" for j in pairs[:, 1]]})
    codes.to_csv(folder / "codes.csv", index=False)
    people = pd.DataFrame(
        {"eid": ids, "age": rng.normal(60, 5, n).round(1), "grip": rng.normal(30, 4, n) - y}
    )
    people.to_csv(folder / "people.csv", index=False)
    (folder / "study.toml").write_text(
        '[participants]\npath = "people.csv"\nid = "eid"\noutcomes = ["grip"]\ncovariates = ["age"]\n'
        '[views.mri]\npath = "mri.csv"\nid = "eid"\n[views.blood]\npath = "blood.csv"\nid = "eid"\n'
        '[views.codes]\npath = "codes.csv"\nformat = "codes"\nid = "eid"\ncode = "icd"\n'
        '[preparation]\nresidualise = ["age"]\nresidualise_on = "all"\n'
        f"[model]\nn_clusters = 2\n[report]\ntwins = 0\n[compute]\n{compute}\n"
    )
    return pd.Series(y, ids)


@pytest.fixture
def few(monkeypatch):
    """Clusterings are assessed in a hundred subjects, by three refits."""
    for module in (sampled, computations, design):
        monkeypatch.setattr(module, "MOST_ASSESSED", 100)
    monkeypatch.setattr(computations, "REFITS", 3)


def test_a_study_with_codes_by_landmarks(tmp_path, few):
    truth = write_study(tmp_path)
    results = run_study(read_study(tmp_path / "study.toml"), tmp_path / "run")
    assert not results.model.fitted_model_.EXACT
    assert results.views.blocks[2].format == "csr"
    labels = pd.read_csv(tmp_path / "run" / "labels.csv", index_col="id")
    assert vl.metrics.clustering_report(truth.reindex(labels.index), labels["label"])["Acc"] > 0.95
    assert labels["stability"].notna().sum() == 100
    assert any("100 subjects drawn at random" in str(note) for note in results.notes)
    assert results.stability.overall > 0.8
    assert set(results.feature_tests) == {"mri", "blood", "codes"}
    assert 60 < results.tests.views["mri"].subjects <= 100
    assert results.design.severity.features > 0.5
    assert "drawn at random" in (tmp_path / "run" / "report.html").read_text()
    placed = predict(tmp_path / "run", read_study(tmp_path / "study.toml")).set_index("id")
    assert (placed["label"] == labels["label"]).mean() > 0.97


class TestCompute:
    def test_settings(self, tmp_path):
        write_study(tmp_path, 30, 'factored = true\nmemory = "1.5 GiB"\nbackend = "threads"')
        study = read_study(tmp_path / "study.toml")
        assert model_settings(study, 30)["factored"] is True
        assert model_settings(study, 30)["backend"] == "threads"
        assert study.compute.bytes == 1.5 * 2**30

    def test_a_scheduler_means_dask_and_landmarks(self):
        assert Compute(scheduler="tcp://127.0.0.1:8786").settings == {"factored": True, "backend": "dask"}

    def test_memory_decides(self):
        small = Compute(memory="2GB")
        assert enough_memory(small, 5000)
        assert not enough_memory(small, 15_000)
        assert [jobs_within(small, 4, n) for n in (1000, 4000, 10**6)] == [4, 3, 1]

    @pytest.mark.parametrize(
        ("line", "message"),
        [
            ("factored = 1", "too few landmarks; give 2 or more"),
            ('factored = "yes"', "must be 'auto', true, false, or the number of landmarks"),
            ("factored = 2.5", "must be 'auto', true, false, or the number of landmarks"),
            ('memory = "8"', "a number with its unit, such as '8GB'"),
            ("memory = 8", "a number with its unit, such as '8GB'"),
            ('memory = "0GB"', "a number with its unit, such as '8GB'"),
            ('factored = false\nbackend = "dask"', "not fitted on a cluster; leave out one of them"),
            ('factored = false\nscheduler = "tcp://127.0.0.1:9"', "not fitted on a cluster"),
            ('scheduler = "here"', "such as 'tcp://10.0.0.5:8786'"),
            ('backend = "ray"', "backend"),
        ],
    )
    def test_mistakes(self, tmp_path, line, message):
        write_study(tmp_path, 30, line)
        with pytest.raises(StudyError, match=message):
            read_study(tmp_path / "study.toml")

    def test_no_scheduler_answers(self, monkeypatch):
        pytest.importorskip("distributed")
        monkeypatch.setattr("viewloom.study.compute.SECONDS", 0.2)
        with (
            pytest.raises(StudyError, match=r"no Dask scheduler answers at tcp://127\.0\.0\.1:9; start one"),
            machines(Compute(scheduler="tcp://127.0.0.1:9")),
        ):
            pass

    def test_a_cluster_without_address(self):
        pytest.importorskip("distributed")
        with pytest.raises(StudyError, match="'dask' needs scheduler"), machines(Compute(backend="dask")):
            pass

    def test_the_address_is_not_in_the_record(self, tmp_path):
        from viewloom.study.run.analysis import settings_of

        write_study(tmp_path, 30, 'scheduler = "tcp://10.0.0.5:8786"')
        assert "10.0.0.5" not in json.dumps(settings_of(read_study(tmp_path / "study.toml")))
