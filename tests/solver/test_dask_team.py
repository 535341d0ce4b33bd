"""Dask on a real cluster of processes: what serial gives, whatever happens to workers."""

import importlib
import os
import resource
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import viewloom as vl
from viewloom.data.row_sources import Blocks
from viewloom.models import fitting
from viewloom.solver import dask_team as cluster
from viewloom.solver.dask_team import Cluster
from viewloom.solver.shard import Shard
from viewloom.solver.updates import project_simplex

dask = pytest.importorskip("dask")
distributed = pytest.importorskip("distributed")
da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")

K, N = 4, 3000
PRELOADED = [
    "distributed",
    "dask.dataframe",
    "sklearn.cluster",
    "viewloom.solver.dask_team",
    "viewloom.models.fitted",
]
LOCAL = {"threads_per_worker": 1, "host": "127.0.0.1", "dashboard_address": "127.0.0.1:0"}


@contextmanager
def local_client(n_workers, **settings):
    """A client of new worker processes, which no test sees that does not ask for it."""
    with (
        distributed.LocalCluster(n_workers=n_workers, **LOCAL, **settings) as local,
        distributed.Client(local, set_as_default=False) as client,
    ):
        yield client


@pytest.fixture(scope="module", autouse=True)
def forked_workers():
    """Workers come from a process that has imported what they need, which takes seconds each otherwise."""
    with dask.config.set({"distributed.worker.multiprocessing-method": "forkserver"}):
        distributed.utils.get_mp_context().set_forkserver_preload(PRELOADED)
        yield


@pytest.fixture(scope="module")
def two_workers(forked_workers):
    with local_client(2) as client:
        yield client


def sized(client, count):
    """The client, once exactly so many workers have begun to work."""
    if len(client.cluster.plan) != count:  # to scale while a worker restarts would close it
        client.cluster.scale(count)
    until(lambda: len(cluster._workers(client)) == count)
    client.run(importlib.import_module, "viewloom")
    return client


def until(condition):
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.fixture
def client(two_workers):
    """The running client, with two workers."""
    with sized(two_workers, 2).as_current():
        yield two_workers


@pytest.fixture(scope="module", params=[2, 3])
def count(request):
    return request.param


@pytest.fixture
def any_client(two_workers, count):
    """The running client, with two and with three workers."""
    with sized(two_workers, count).as_current():
        yield two_workers


@pytest.fixture(scope="module")
def data():
    """Three views of four clusters, the last without information."""
    rng = np.random.default_rng(0)
    y = rng.integers(K, size=N)
    X = [1.2 * rng.standard_normal((K, d))[y] + rng.standard_normal((N, d)) for d in (6, 9)]
    return {"a": X[0], "b": X[1], "noise": rng.standard_normal((N, 4))}


def model(backend, **changes):
    return vl.KernelMultiviewNMF(K, **{"factored": 300, "random_state": 0, "backend": backend, **changes})


@pytest.fixture(scope="module")
def serial(data):
    return model("serial").fit(data)


def assert_same(found, expected):
    np.testing.assert_array_equal(found.labels_, expected.labels_)
    np.testing.assert_allclose(found.history_["objective"], expected.history_["objective"], rtol=1e-9)
    np.testing.assert_allclose(found.view_weights_, expected.view_weights_, rtol=1e-7)
    for G, H in zip(found.view_memberships_, expected.view_memberships_, strict=True):
        np.testing.assert_allclose(G, H, atol=1e-6)


def only_on_workers(X, chunks):
    """A Dask array that must not be computed in this process."""
    here = os.getpid()

    def guarded(block):
        if os.getpid() == here:
            raise AssertionError("computed on the client")
        return block

    return da.from_array(X, chunks=(chunks, -1)).map_blocks(guarded, meta=X[:0])


def test_arrays_in_memory(any_client, data, serial):
    assert_same(model("dask").fit(data), serial)


def test_uneven_partitions_that_differ_between_views(any_client, data, serial):
    partitions = {"a": (1, 1999, 1000), "b": (700, 800, 700, 800), "noise": (3000,)}
    lazy = {name: only_on_workers(X, partitions[name]) for name, X in data.items()}
    assert_same(model("dask").fit(lazy), serial)


def test_data_frames_of_unknown_lengths(client, data, serial):
    frames = {name: pd.DataFrame(X).add_prefix(f"{name}-") for name, X in data.items()}
    lazy = {name: dd.from_pandas(frame, npartitions=3 + a) for a, (name, frame) in enumerate(frames.items())}
    lazy["a"] = lazy["a"][lazy["a"]["a-0"] > -np.inf]
    found = model("dask").fit(lazy)
    assert_same(found, serial)
    assert list(found.view_features_["a"]) == list(frames["a"].columns)
    lazy["a"] = lazy["a"].to_dask_array()  # an array with chunks of unknown size
    assert_same(model("dask").fit(lazy), serial)


def test_samples_that_lack_views(client, data):
    holes = {name: X.copy() for name, X in data.items()}
    holes["b"][:1600] = np.nan  # nobody on the first worker has it
    expected = model("serial").fit(holes)
    assert_same(model("dask").fit(holes), expected)
    assert_same(model("dask").fit({name: only_on_workers(X, 600) for name, X in holes.items()}), expected)


def test_sparse_views_and_those_who_lack_them(client, data):
    rng = np.random.default_rng(1)
    words = sp.csr_array(rng.poisson(0.3 + (data["a"][:, :1] > 0) * (np.arange(120) < 40)).astype(float))
    present = np.ones((N, 2), dtype=bool)
    present[::7, 1] = False
    views = vl.Views({"a": data["a"], "words": words}, present=present)
    assert_same(model("dask").fit(views), model("serial").fit(views))


def test_files_are_read_by_workers(client, data, serial, tmp_path, monkeypatch):
    zarr = pytest.importorskip("zarr")

    monkeypatch.chdir(tmp_path)
    np.save("a.npy", np.vstack([np.full((5, 6), np.nan), data["a"]]))
    pd.DataFrame(data["b"]).add_prefix("b").to_parquet("b.parquet", row_group_size=700)
    zarr.save_array("noise.zarr", data["noise"])
    files = {"a": np.load("a.npy", mmap_mode="r")[5:], "b": "b.parquet", "noise": "noise.zarr"}
    monkeypatch.setattr(Blocks, "read", sent_only(Blocks.read))
    assert_same(model("dask").fit(files), serial)


def sent_only(read):
    """`read`, but not of blocks: the sample and a probe are all that the client may read."""

    def guarded(self, start, stop):
        assert (start, stop) == (0, self.n) or stop <= cluster.PROBE_ROWS
        return read(self, start, stop)

    return guarded


@pytest.mark.parametrize("init", ["random", "given"])
def test_memberships_to_begin_from_are_dealt_out(client, data, init):
    start = init if init == "random" else np.eye(K)[np.arange(N) % K]
    found = [model(backend, init=start, max_iter=5, tol=0.0).fit(data) for backend in ("dask", "serial")]
    assert_same(*found)


def test_auto_takes_dask_where_a_client_runs(client, data, serial, monkeypatch):
    made = []
    of = Cluster.of
    monkeypatch.setattr(Cluster, "of", lambda *args: made.append(args) or of(*args))
    assert_same(model("auto").fit({name: only_on_workers(X, 1100) for name, X in data.items()}), serial)
    assert len(made) == 1
    model("auto", max_iter=2, tol=0.0).fit(data)
    assert len(made) == 1  # arrays in memory stay


def still(views):
    """A shard that has memberships and nothing else."""
    shard = Shard([], project_simplex, 0.0)
    shard.start(np.ones((2, len(views))))
    return shard


def grown(shard, amount):
    shard.G_star = shard.G_star + amount
    return [shard.G_star.sum()]


def test_errors_of_shards_and_of_reading_are_passed_on(client, tmp_path):
    def broken(shard):
        raise ValueError("7 values are wrong")

    def unreadable(views):
        if len(views) > cluster.PROBE_ROWS:
            raise FileNotFoundError("gone")
        return still(views)

    team = Cluster.of(still, Blocks(np.ones((7, 1))))
    with pytest.raises(ValueError, match="7 values are wrong"):
        team.total(broken)
    with pytest.raises(FileNotFoundError, match="gone"):
        Cluster.of(unreadable, Blocks(np.ones((300, 1)))).total(grown, 1)


def test_workers_forget_shards_when_the_team_is_gone(client):
    def held(dask_worker):
        return len(dask_worker.state.actors) + len(dask_worker.data)

    Cluster.of(still, Blocks(np.ones((7, 1)))).total(grown, 1)
    until(lambda: sum(client.run(held).values()) == 0)


def test_too_little_memory_is_said_before_anything_is_sent(data):
    many = {name: np.tile(X, (10, 1)) for name, X in data.items()}
    with local_client(1, memory_limit="500MiB") as client, client.as_current():
        with pytest.raises(ValueError, match=r"can hold \d MiB .* 30000 rows of \d+ bytes need 33 MiB"):
            model("dask").fit(many)
        assert client.run_on_scheduler(lambda dask_scheduler: len(dask_scheduler.tasks)) == 0


def test_without_a_client(data, serial):
    with pytest.raises(ValueError, match=r"running Dask client.*backend=\"threads\""):
        model("dask").fit(data)
    lazy = {name: da.from_array(X, chunks=(900, -1)) for name, X in data.items()}
    assert_same(model("auto").fit(lazy), serial)


def test_without_distributed(data, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ImportError, match=r"pip install viewloom\[dask\]"):
        model("dask").fit(data)


def test_the_model_needs_no_cluster_afterwards(two_workers, data, serial, tmp_path):
    with two_workers.as_current():
        fitted = model("dask").fit({name: da.from_array(X, chunks=(900, -1)) for name, X in data.items()})
    new = {name: X[:50] + 0.1 for name, X in data.items()}
    np.testing.assert_array_equal(fitted.predict(new), serial.predict(new))
    fitted.save(tmp_path / "model.safetensors")
    loaded = vl.load(tmp_path / "model.safetensors")
    np.testing.assert_array_equal(loaded.transform(new), fitted.transform(new))


@pytest.mark.parametrize(
    ("partitions", "rows", "expected"),
    [
        ((100, 50, 850, 1, 1), 200, [0, 150, 320, 490, 660, 830, 1002]),
        ((1, 1, 1), 5, [0, 3]),
        ((0, 400, 0), 200, [0, 200, 400]),
    ],
)
def test_blocks_follow_partitions(partitions, rows, expected):
    blocks = Blocks([da.zeros((sum(partitions), 2), chunks=(partitions, -1))], rows=rows)
    assert [0, *(stop for _, stop in blocks.ranges)] == expected


@pytest.mark.parametrize(("patience", "chunks"), [(0.0, None), (60.0, 900)], ids=["survivor", "restarted"])
def test_a_worker_killed_in_the_middle_of_a_fit(client, data, monkeypatch, patience, chunks):
    given = data if chunks is None else {name: only_on_workers(X, chunks) for name, X in data.items()}
    settings = {"max_iter": 6, "tol": 0.0}
    expected = model("dask", **settings).fit(given)
    monkeypatch.setattr(cluster, "RESTART_SECONDS", patience)
    killed = []

    def kill_once(parameters, iteration, objective):
        if parameters.factored and iteration == 3:  # not while landmarks are fitted, here
            killed.append(next(iter(client.run(os.getpid).values())))
            os.kill(killed[-1], signal.SIGKILL)

    monkeypatch.setattr(fitting, "report_iteration", kill_once)
    found = model("dask", **settings).fit(given)
    assert len(killed) == 1
    np.testing.assert_array_equal(found.memberships_, expected.memberships_)
    assert found.history_["objective"] == expected.history_["objective"]


def test_a_worker_that_dies_of_a_call(client, tmp_path):
    flag = tmp_path / "died"

    def deadly(shard, amount):
        if not flag.exists():
            flag.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return grown(shard, amount)

    team = Cluster.of(still, Blocks(np.ones((7, 1))))
    assert team.total(grown, 1) == [28]
    assert team.total(deadly, 10) == [168]  # once for every shard, also for those that had to be built again
    assert team.each(lambda shard: shard.G_star.shape[1]) == [4, 3]


def test_no_worker_is_left(client, monkeypatch):
    monkeypatch.setattr(cluster, "LONELY_SECONDS", 0.1)
    team = Cluster.of(still, Blocks(np.ones((7, 1))))
    team.total(grown, 1)
    sized(client, 0)
    with pytest.raises(RuntimeError, match="No Dask worker is left"):
        team.total(grown, 1)
    with pytest.raises(ValueError, match="no workers: start some"):
        Cluster.of(still, Blocks(np.ones((7, 1))))


def test_workers_are_seen_while_the_client_asks_for_all_else(two_workers):
    """Dask's own looks at the scheduler, which leave workers out, come between ours."""
    sized(two_workers, 2)
    with (
        dask.config.set({"distributed.client.scheduler-info-interval": "1ms"}),
        distributed.Client(two_workers.cluster, set_as_default=False) as client,
    ):
        assert {len(cluster._workers(client)) for _ in range(500)} == {2}


def test_the_scheduler_is_gone():
    with local_client(0) as client:
        assert cluster._workers(client) == {}
    with pytest.raises(RuntimeError, match="scheduler can no longer be reached: start a cluster"):
        cluster._workers(client)


@pytest.fixture
def workers_without_nanny():
    """A client of two worker processes that nobody brings back."""
    command = [sys.executable, "-m", "distributed.cli.dask_worker", "--no-nanny", "--no-dashboard"]
    places = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    quiet = {"stderr": subprocess.DEVNULL, "env": {**os.environ, "PYTHONPATH": places}}
    with (
        distributed.LocalCluster(n_workers=0, **LOCAL) as local,
        distributed.Client(local, set_as_default=False) as client,
    ):
        started = [subprocess.Popen([*command, local.scheduler_address], **quiet) for _ in range(2)]
        try:
            client.wait_for_workers(2, timeout=300)
            with client.as_current():
                yield client
        finally:
            for process in started:
                process.kill()
                process.wait()


def test_all_workers_die_of_a_call_and_none_comes_back(workers_without_nanny, monkeypatch):
    def deadly(shard):
        os.kill(os.getpid(), signal.SIGKILL)

    monkeypatch.setattr(cluster, "LONELY_SECONDS", 0.5)
    team = Cluster.of(still, Blocks(np.ones((7, 1))))
    assert team.total(grown, 1) == [28]
    began = time.monotonic()
    with pytest.raises(RuntimeError, match=r"No Dask worker is left, and none came back within 0\.5 s"):
        team.total(deadly)
    assert time.monotonic() - began < 30


@pytest.mark.skipif(sys.platform != "linux", reason="asks glibc")
def test_workers_use_freed_memory_again(client):
    """Under Dask's own setting every array would be mapped anew: 256 pages each."""

    def faults(shard):
        def page_faults():
            return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

        def use_memory():
            return [np.ones(2**17).sum() for _ in range(100)]

        use_memory()
        before = page_faults()
        use_memory()
        return [page_faults() - before]

    assert Cluster.of(still, Blocks(np.ones((7, 1)))).total(faults)[0] < 2 * 100 * 25
