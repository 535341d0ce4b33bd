"""More samples than can be compared with each other, and files that are larger than memory."""

import pickle
import sys
import tracemalloc
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.metrics import adjusted_rand_score
from sklearn.neighbors import NearestNeighbors

import viewloom as vl
from viewloom.data.row_sources import ParquetRows
from viewloom.kernels import geometry as geometries
from viewloom.kernels.geometry import Geometry, GramGeometry

N = 4000


def curved(n):
    """A surface of three dimensions in twenty."""
    rng = np.random.default_rng(0)
    return np.tanh(rng.standard_normal((n, 3)) @ rng.standard_normal((3, 20)))


def round_clusters(n):
    """As many directions as features, where neighbours are hard to tell."""
    rng = np.random.default_rng(0)
    X = 0.6 * rng.standard_normal((10, 32))[rng.integers(10, size=n)] + rng.standard_normal((n, 32))
    return X.astype(np.float32)


def copies(n):
    """More copies of every sample than it has neighbours."""
    return np.repeat(np.random.default_rng(0).standard_normal((n // 40, 6)), 40, axis=0)


def far_apart(n):
    """Cells of very unequal size, far from the origin."""
    X = curved(n) * 1e-2 + 1e3
    X[::1000] += 50.0
    return X


@pytest.fixture
def many(monkeypatch):
    """Samples count as many from here on."""
    monkeypatch.setattr(geometries, "EXACT_SEARCH_ROWS", N - 1)


class TestNeighbours:
    @pytest.mark.parametrize("make", [curved, round_clusters, copies, far_apart])
    def test_of_many_samples_are_nearly_all_found(self, many, make):
        pytest.importorskip("faiss")
        X = make(N)
        distances, positions = Geometry(X).neighbours(15)
        truth = NearestNeighbors(algorithm="brute").fit(X.astype(np.float64)).kneighbors(n_neighbors=15)[0]
        assert (distances <= truth[:, -1:] * (1 + 1e-5) + 1e-6).mean() >= 0.95
        assert not (positions == np.arange(N)[:, None]).any()
        assert (np.diff(distances, axis=1) >= 0.0).all()
        gaps = X[positions].astype(np.float64) - X[:, None]
        np.testing.assert_allclose(distances, np.linalg.norm(gaps, axis=2), atol=1e-12)

    def test_are_the_same_each_time(self, many):
        pytest.importorskip("faiss")
        found = [Geometry(round_clusters(N)).neighbours(15)[1] for _ in range(2)]
        np.testing.assert_array_equal(*found)

    def test_without_faiss_are_exact_which_is_said(self, many, monkeypatch):
        monkeypatch.setitem(sys.modules, "faiss", None)
        X = curved(N)
        with pytest.warns(UserWarning, match=r"View 'mri' has 4000 samples.*pip install viewloom\[scale\]"):
            positions = Geometry(X, "mri").neighbours(5)[1]
        np.testing.assert_array_equal(positions, NearestNeighbors().fit(X).kneighbors(n_neighbors=5)[1])

    @pytest.mark.parametrize(
        "geometry",
        [lambda X: Geometry(sp.csr_array(X)), lambda X: GramGeometry(X @ X.T)],
        ids=["sparse", "gram"],
    )
    def test_of_anything_but_dense_features_are_exact(self, monkeypatch, geometry):
        monkeypatch.setattr(geometries, "EXACT_SEARCH_ROWS", 10)
        monkeypatch.setattr(geometries, "approximate_neighbours", None)
        X = curved(200)
        found = geometry(X).neighbours(5)[1]
        np.testing.assert_array_equal(found, NearestNeighbors().fit(X).kneighbors(n_neighbors=5)[1])

    def test_exact_kernels_of_many_samples_use_them(self, many, monkeypatch):
        pytest.importorskip("faiss")
        y = np.arange(N) % 3
        rng = np.random.default_rng(0)
        views = [3.0 * np.eye(3, 8)[y] + rng.standard_normal((N, 8)) for _ in range(2)]
        asked = []
        search = geometries.approximate_neighbours
        monkeypatch.setattr(
            geometries, "approximate_neighbours", lambda X, count: asked.append(len(X)) or search(X, count)
        )
        found = vl.KernelMultiviewNMF(3, factored=False, random_state=0).fit(views)
        assert asked
        assert set(asked) == {N}
        assert adjusted_rand_score(y, found.labels_) > 0.95


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """A table, and its Parquet file as pandas writes it: all rows in one group."""
    pytest.importorskip("pyarrow")
    frame = pd.DataFrame(np.random.default_rng(0).standard_normal((10**6, 2)))
    frame.columns = ["a", "b"]
    path = tmp_path_factory.mktemp("parquet") / "view.parquet"
    frame.to_parquet(path)
    return frame, path


class TestParquetOfOneGroup:
    def test_any_rows_in_any_order(self, stored):
        frame, path = stored
        rows = ParquetRows(path)
        for start, stop in [(150_000, 150_010), (0, 5), (5, 9000), (9001, 9002), (3, 3), (999_990, 10**7)]:
            pd.testing.assert_frame_equal(
                rows[start:stop].reset_index(drop=True), frame[start:stop].reset_index(drop=True)
            )
        sent = pickle.loads(pickle.dumps(rows))
        np.testing.assert_array_equal(sent[7:11], frame[7:11])

    def test_from_several_threads(self, stored):
        frame, path = stored
        rows, starts = ParquetRows(path), range(0, 60_000, 5000)
        with ThreadPoolExecutor(4) as pool:
            found = list(pool.map(lambda start: rows[start : start + 5000], starts))
        np.testing.assert_array_equal(np.concatenate(found), frame[:60_000])

    def test_is_not_loaded_whole(self, stored):
        """Neither by Arrow nor by what it is turned into."""
        import pyarrow as pa

        frame, path = stored
        rows, before = ParquetRows(path), pa.total_allocated_bytes()
        most = 0
        tracemalloc.start()
        for start in range(0, len(frame), 50_000):
            rows[start : start + 50_000]
            most = max(most, pa.total_allocated_bytes() - before)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert most + peak < frame.to_numpy().nbytes / 2
