"""The same seed gives the same answer: again, in another process, with other threads, in another order.

Bits are promised for every number of threads (see `viewloom.runtime.threads`). In single precision clusters
that are clear stay the same.
"""

import hashlib
import os
import subprocess
import sys
from functools import partial

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from sklearn.metrics import adjusted_rand_score

import viewloom as vl
from viewloom.data.row_sources import Blocks
from viewloom.models import kernel_nmf as estimators

MODELS = {
    "diffusion": vl.KernelMultiviewNMF(3, random_state=0),
    "gaussian": vl.KernelMultiviewNMF(3, kernel="gaussian", graph="gaussian", random_state=0),
    "linear": vl.KernelMultiviewNMF(3, kernel="linear", init="random", random_state=0),
    "landmarks": vl.KernelMultiviewNMF(3, factored=40, random_state=0),
    "paper": vl.KernelMultiviewNMF.paper(3, random_state=0, max_iter=30),
    "baseline": vl.MultiviewNMF(3, gamma=2.0, random_state=0, max_iter=30),
}


def cohort(n=260):
    rng = np.random.default_rng(0)
    y = np.arange(n) % 3
    views = {
        f"v{d}": np.abs(4 + 3 * rng.standard_normal((3, d))[y] + rng.standard_normal((n, d))) for d in (5, 60)
    }
    views["v5"][::7] = np.nan
    return views


def digest(model):
    """A hash of all that a fit found, but for times."""
    found = [model.memberships_, model.labels_, model.view_weights_, *model.view_memberships_]
    found += [np.array(model.history_["objective"])]
    return hashlib.sha256(b"".join(np.ascontiguousarray(x).tobytes() for x in found)).hexdigest()


def fitted(name):
    return MODELS[name].fit(cohort())


def in_process(threads, hash_seed):
    """Digests of all models, fitted in a fresh process."""
    path = os.pathsep.join([os.path.dirname(__file__), os.environ.get("PYTHONPATH", "")])
    setup = {"PYTHONPATH": path, "PYTHONHASHSEED": hash_seed, "OMP_NUM_THREADS": threads}
    command = [sys.executable, "-W", "ignore", "-c", "import test_same_answer as t; t.fit_all()"]
    done = subprocess.run(
        command, env={**os.environ, **setup, "OPENBLAS_NUM_THREADS": threads}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return dict(line.split() for line in done.stdout.splitlines())


def fit_all():
    print("\n".join(f"{name} {digest(fitted(name))}" for name in MODELS))


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_processes_and_numbers_of_threads():
    bits = {name: digest(fitted(name)) for name in MODELS}
    assert in_process("1", "1") == bits
    assert in_process("2", "2") == bits
    assert len(set(bits.values())) == len(MODELS)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", MODELS)
def test_again_in_the_same_process(name):
    views = cohort()
    before = {key: X.copy() for key, X in views.items()}
    model = MODELS[name].fit(views)
    first, placed = digest(model), model.transform(views)
    assert digest(model.fit(views)) == first
    assert_array_equal(model.transform(views), placed)
    for key, X in views.items():
        assert_array_equal(X, before[key])


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_one_thread_or_many_give_the_same_bits(monkeypatch):
    monkeypatch.setattr(estimators, "Blocks", partial(Blocks, rows=40))
    serial, threads, again = (
        digest(vl.KernelMultiviewNMF(3, factored=40, backend=backend, random_state=0).fit(cohort()))
        for backend in ("serial", "threads", "threads")
    )
    assert serial == threads == again


def test_the_order_of_rows_in_files_does_not_matter(small_study, fitted_run, viewloom, tmp_path):
    folder = small_study(tmp_path)
    rng = np.random.default_rng(0)
    for name in ("vbm.csv", "fdg.csv", "participants.csv"):
        table = pd.read_csv(folder / name, dtype=str, keep_default_na=False)
        shuffled = table.iloc[rng.permutation(len(table))]
        assert not shuffled.equals(table)
        shuffled.to_csv(folder / name, index=False)
    assert viewloom("fit", folder / "study.toml", "--jobs", 1, "--quiet").exit_code == 0
    for name in ("labels.csv", "weights.csv", "metrics.json"):
        assert (folder / "study-results" / name).read_bytes() == (fitted_run / name).read_bytes()


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(
    "settings", [{}, {"kernel": "gaussian"}, {"kernel": "linear"}, {"factored": 40}], ids=str
)
def test_single_precision(settings):
    views = cohort()
    double, single = (
        vl.KernelMultiviewNMF(3, random_state=0, **settings).fit({k: X.astype(t) for k, X in views.items()})
        for t in (np.float64, np.float32)
    )
    assert adjusted_rand_score(single.labels_, double.labels_) >= 0.99
    assert adjusted_rand_score(single.predict(views), double.predict(views)) >= 0.99
    assert adjusted_rand_score(double.labels_, np.arange(len(double.labels_)) % 3) >= 0.99  # they are clear
