"""`viewloom fit` on a Dask cluster that is given by its address."""

import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor

import pandas as pd
import pytest
from numpy.testing import assert_allclose
from small import in_name_only
from test_large import write_study
from typer.testing import CliRunner

from viewloom import KernelMultiviewNMF
from viewloom.cli.commands import app
from viewloom.study import compute, read_study, report
from viewloom.study.compute import model_settings
from viewloom.study.run import prepare

distributed = pytest.importorskip("distributed")

MODEL = "n_clusters = 2\nmax_iter = 40\ntol = 0.0\n"
LOCAL = {"threads_per_worker": 1, "host": "127.0.0.1", "dashboard_address": "127.0.0.1:0"}


@pytest.fixture(scope="module")
def client():
    """Two worker processes, each of which a nanny starts again when it dies."""
    with (
        distributed.LocalCluster(n_workers=2, **LOCAL) as local,
        distributed.Client(local, set_as_default=False) as client,
    ):
        yield client


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    """A report in name only."""
    monkeypatch.setattr(report, "unnamed_summary", in_name_only)
    monkeypatch.setattr(report, "figure_data", lambda results, summary: {})
    monkeypatch.setattr(report, "to_html", lambda summary, figures: f"<h1>{summary['title']}</h1>")


def fit(folder, where):
    """What the command says."""
    folder.mkdir()
    write_study(folder, 500, where)
    text = (folder / "study.toml").read_text().replace("n_clusters = 2\n", MODEL)
    (folder / "study.toml").write_text(text)
    command = ["fit", str(folder / "study.toml"), "--quiet", "--jobs", "1", "-o", str(folder / "run")]
    return CliRunner().invoke(app, command)


def kill_a_host(client):
    """Kill the first worker that holds shards; the moment is that of the fit."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        for pid, held in client.run(hosting).values():
            if held:
                os.kill(pid, signal.SIGKILL)
                return
        time.sleep(0.02)
    raise AssertionError("no worker was given shards")


def hosting(dask_worker):
    return os.getpid(), len(dask_worker.state.actors)


def test_the_labels_of_one_machine_though_a_worker_is_killed(client, tmp_path):
    address = client.scheduler.address
    with ThreadPoolExecutor(1) as other:
        killed = other.submit(kill_a_host, client)
        result = fit(tmp_path / "cluster", f'factored = 100\nscheduler = "{address}"')
        killed.result()
    assert result.exit_code == 0, result.output
    found = pd.read_csv(tmp_path / "cluster" / "run" / "labels.csv", index_col="id")
    study = read_study(tmp_path / "cluster" / "study.toml")
    settings = {**model_settings(study, len(found)), "backend": "threads"}
    here = KernelMultiviewNMF(**settings).fit(prepare(study).views)
    turned = here.memberships_[0].argmax() != found["label"].iloc[0]
    same = here.memberships_[:, ::-1] if turned else here.memberships_
    assert_allclose(found[["membership_0", "membership_1"]], same, atol=1e-6)
    assert address not in (tmp_path / "cluster" / "run" / "run.json").read_text()


def test_an_address_where_nobody_answers(tmp_path, monkeypatch):
    monkeypatch.setattr(compute, "SECONDS", 1)
    result = fit(tmp_path / "nobody", 'scheduler = "tcp://127.0.0.1:9"')
    assert result.exit_code == 2
    assert "no Dask scheduler answers at tcp://127.0.0.1:9" in " ".join(result.stderr.split())
    assert "Traceback" not in result.stderr
