"""Threads of BLAS and OpenMP: one where matrices are small, all given back, the same bits with any number."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib.machinery import EXTENSION_SUFFIXES
from threading import Barrier, get_ident
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from threadpoolctl import threadpool_info, threadpool_limits

import viewloom as vl
from viewloom.models.fitted import PLACED_ROWS
from viewloom.runtime import threads
from viewloom.runtime.threads import (
    DENSE_ROWS,
    SMALL_ROWS,
    allowed_threads,
    cores,
    one_blas_thread,
    one_openmp_thread,
    one_thread,
    threads_for,
)
from viewloom.solver.teams import in_threads


def counts(api=None):
    """Number of threads of every library that is loaded and does not take its threads from OpenMP."""
    found = [pool for pool in threadpool_info() if pool.get("threading_layer") != "openmp"]
    return {pool["filepath"]: pool["num_threads"] for pool in found if api in (None, pool["user_api"])}


@pytest.fixture(autouse=True)
def two_threads():
    with threadpool_limits(2):
        assert set(counts().values()) == {2}
        yield


def cohort(n=60, v=2, k=3, spread=3.0):
    rng = np.random.default_rng(0)
    y = np.arange(n) % k
    return {
        f"v{a}": np.abs(9 + spread * rng.standard_normal((k, 20))[y] + rng.standard_normal((n, 20)))
        for a in range(v)
    }


class Watching:
    """A linear kernel that notes how many threads there are whenever it is asked."""

    def __init__(self):
        self.seen = []

    def __call__(self, X, Y):
        self.seen.append(set(counts().values()))
        return X @ Y.T


def test_a_fit_builds_and_places_with_one_thread_and_gives_all_back():
    kernel = Watching()
    model = vl.KernelMultiviewNMF(3, kernel=kernel, random_state=0).fit(cohort())
    built = len(kernel.seen)
    model.transform(cohort())
    assert built > 0
    assert len(kernel.seen) > built
    assert all(seen == {1} for seen in kernel.seen)
    assert set(counts().values()) == {2}


@pytest.mark.parametrize("backend", ["serial", "threads"])
@pytest.mark.parametrize("rows", [60, 20_001])
def test_fits_on_landmarks_and_long_predictions_give_threads_back(backend, rows):
    views = cohort(300)
    model = vl.KernelMultiviewNMF(3, factored=20, backend=backend, max_iter=5, random_state=0).fit(views)
    assert set(counts().values()) == {2}
    model.predict({name: np.resize(X, (rows, 20)) for name, X in views.items()})
    assert set(counts().values()) == {2}


def test_threads_are_no_more_than_blas_had_and_no_more_than_cores():
    assert allowed_threads() == min(2, cores())
    with one_thread():  # a limit of our own
        assert allowed_threads() == min(2, cores())
    with threadpool_limits(1):
        assert allowed_threads() == 1
    with threadpool_limits(1, user_api="openmp"):
        assert allowed_threads() == min(2, cores())


@pytest.mark.parametrize(("limit", "expected"), [(1, 1), (2, 2)])
def test_a_pool_has_as_many_threads_as_allowed_and_starts_no_other_pool(monkeypatch, limit, expected):
    monkeypatch.setattr(threads, "cores", lambda: 4)
    meeting = Barrier(expected, timeout=30.0)  # broken if fewer threads come

    def inner(_):
        assert counts("blas") == dict.fromkeys(counts("blas"), 1)
        return get_ident()

    def outer(_):
        meeting.wait()
        assert set(in_threads(inner, range(3))) == {get_ident()}
        return get_ident()

    with threadpool_limits(limit):
        found = set(in_threads(outer, range(4)))
        assert set(counts("blas").values()) == {limit}
    assert len(found) == expected
    assert (get_ident() in found) == (expected == 1)


def test_many_rows_are_placed_in_threads_with_the_same_bits():
    model = vl.KernelMultiviewNMF(3, kernel=Watching(), random_state=0).fit(cohort())
    rng = np.random.default_rng(1)
    many = {name: np.abs(9 + 4 * rng.standard_normal((2 * PLACED_ROWS + 5, 20))) for name in cohort()}
    together = model.transform(many)
    with threadpool_limits(1):
        assert_array_equal(model.transform(many), together)
    last = {name: X[2 * PLACED_ROWS :] for name, X in many.items()}
    np.testing.assert_allclose(model.transform(last), together[2 * PLACED_ROWS :], atol=1e-9)


@pytest.mark.parametrize("make", [vl.KernelMultiviewNMF, vl.MultiviewNMF, vl.ConcatenatedNMF])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_fits_side_by_side_give_threads_back(make):
    views = cohort()

    def fit(seed):
        model = make(3, random_state=seed, max_iter=5).fit(views)
        model.predict(views)
        return counts("openmp")  # of this thread

    before = counts()
    with ThreadPoolExecutor(4) as pool:
        inside = list(pool.map(fit, range(12)))
    assert counts() == before
    assert all(found == inside[0] for found in inside)


def test_limits_that_overlap_are_put_back_by_the_last():
    first, second = one_blas_thread(), one_blas_thread()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert set(counts("blas").values()) == {1}
    second.__exit__(None, None, None)
    assert set(counts("blas").values()) == {2}


def test_errors_give_threads_back():
    def broken(X, Y):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        vl.KernelMultiviewNMF(3, kernel=broken).fit(cohort())
    assert set(counts().values()) == {2}
    with pytest.raises(ZeroDivisionError), one_thread():
        raise ZeroDivisionError
    assert set(counts().values()) == {2}


def test_openmp_is_limited_in_the_calling_thread_only():
    with ThreadPoolExecutor(1) as pool, one_thread():
        assert set(counts("openmp").values()) == {1}
        elsewhere = pool.submit(counts, "openmp").result()
        pool.submit(one_openmp_thread).result()
        assert set(pool.submit(counts, "openmp").result().values()) == {1}
    assert elsewhere.keys() == counts("openmp").keys()
    assert set(counts("openmp").values()) == {2}


def test_threads_stay_where_they_pay():
    found = {}
    for n in (SMALL_ROWS, SMALL_ROWS + 1, DENSE_ROWS, DENSE_ROWS + 1):
        for dense in (False, True):
            with threads_for(n, dense=dense):
                found[n, dense] = {api: set(counts(api).values()) for api in ("blas", "openmp")}
    assert found[SMALL_ROWS, False] == found[SMALL_ROWS, True] == {"blas": {1}, "openmp": {1}}
    few = [found[SMALL_ROWS + 1, False], found[DENSE_ROWS, True], found[DENSE_ROWS + 1, False]]
    assert few == 3 * [{"blas": {1}, "openmp": {2}}]
    assert found[DENSE_ROWS + 1, True] == {"blas": {2}, "openmp": {2}}


ON_OPENMP = """
import faiss, sklearn.neighbors
from threadpoolctl import threadpool_info, threadpool_limits
from viewloom.runtime.threads import SMALL_ROWS, threads_for

def counts(api):
    return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == api}

with threadpool_limits(2):
    for n in (SMALL_ROWS, SMALL_ROWS + 1):
        with threads_for(n):
            print(sorted(counts("openmp")), end=" ")
    print(sorted(counts("openmp")), sorted(counts("blas")))
"""


def test_a_blas_on_openmp_leaves_openmp_alone():
    pytest.importorskip("faiss")  # brings such a BLAS
    out = subprocess.run([sys.executable, "-c", ON_OPENMP], capture_output=True, text=True, check=True).stdout
    assert out == "[1] [2] [2] [2]\n"


LATE = """
import importlib.util, sys
from threadpoolctl import threadpool_info
spec = importlib.util.spec_from_file_location("threads", sys.argv[1])  # without the rest of viewloom
threads = sys.modules["threads"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(threads)
def counts(): return {pool["filepath"]: pool["num_threads"] for pool in threadpool_info()}
import numpy
early = counts()
with threads.one_thread():
    import scipy.linalg, sklearn.cluster
    late = counts()
    assert len(late) > len(early), (early, late)
    with threads.one_thread():
        assert set(counts().values()) == {1}, counts()
assert counts() == {**late, **early}, (counts(), early, late)
"""


def test_libraries_that_are_loaded_later_are_limited_too():
    run = {**os.environ, "OMP_NUM_THREADS": "2", "OPENBLAS_NUM_THREADS": "2"}
    done = subprocess.run(
        [sys.executable, "-c", LATE, threads.__file__], env=run, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


MODELS = {
    "diffusion": vl.KernelMultiviewNMF(12, random_state=0),
    "gaussian": vl.KernelMultiviewNMF(12, kernel="gaussian", graph="gaussian", max_iter=5, random_state=0),
    "landmarks": vl.KernelMultiviewNMF(12, factored=290, max_iter=5, random_state=0),
    "baseline": vl.MultiviewNMF(12, max_iter=5, random_state=0),
}


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", MODELS)
def test_the_same_bits_with_one_thread_and_two(name):
    """Clusters that are not clear, and matrices large enough for BLAS to share them between threads."""
    views, found = cohort(300, v=4, k=12, spread=0.6), []
    for count in (1, 2):
        with threadpool_limits(count):
            model = MODELS[name].fit(views)
            found.append(
                [model.memberships_, model.view_weights_, model.transform(views), model.score(views)]
            )
    for one, two in zip(*found, strict=True):
        assert_array_equal(two, one)


def test_libraries_are_searched_again_only_after_compiled_modules_were_imported(monkeypatch):
    searches, libraries = [], threads.Libraries()
    monkeypatch.setattr(
        threads, "ThreadpoolController", lambda: searches.append(1) or SimpleNamespace(lib_controllers=[])
    )
    libraries.of("blas")
    monkeypatch.setitem(sys.modules, "python_only", ModuleType("python_only"))
    libraries.of("blas")
    assert len(searches) == 1
    compiled = ModuleType("compiled")
    compiled.__file__ = "compiled" + EXTENSION_SUFFIXES[0]
    monkeypatch.setitem(sys.modules, "compiled", compiled)
    libraries.of("openmp")
    libraries.of("blas")
    assert len(searches) == 2
    del sys.modules["compiled"], sys.modules["python_only"]
    monkeypatch.setitem(sys.modules, "compiled", compiled)
    libraries.of("blas")
    assert len(searches) == 3
