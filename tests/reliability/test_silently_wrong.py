"""Rows and columns are matched by name or refused, in every container, short and long.

Every change that a user may make to tables without noticing (rows or columns in another order, other names,
ids twice) gives the same answer as before, or an error that names the cause.
"""

import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.metrics import adjusted_rand_score
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler

import viewloom as vl
from viewloom.data import row_sources as blocks
from viewloom.data.matching import match_rows
from viewloom.evaluation.inspection import cluster_profiles

N, K, WIDTHS = 90, 3, {"mri": 4, "pet": 3}
SHUFFLE = np.random.default_rng(5).permutation(N)
WARNED = "ignore:Features of|X does not have valid|X has feature names"


def tables():
    """Two clear views with names for rows and columns, non-negative for the baselines."""
    rng = np.random.default_rng(0)
    y = rng.integers(K, size=N)
    ids = pd.Index([f"S{i:03d}" for i in rng.permutation(N)])
    frames = {}
    for name, width in WIDTHS.items():
        X = 9.0 * rng.uniform(size=(K, width))[y] + 0.4 * rng.uniform(size=(N, width))
        X[:, -1] += X[:, 0]  # so that columns cannot be exchanged
        frames[name] = pd.DataFrame(X, index=ids, columns=[f"{name}{j}" for j in range(width)])
    return frames


FRAMES = tables()


def as_parquet(frame, folder, index):
    path = folder / f"{len(list(folder.iterdir()))}.parquet"
    frame.to_parquet(path, index=index, row_group_size=37)
    return path


def as_npy(frame, folder):
    path = folder / f"{len(list(folder.iterdir()))}.npy"
    np.save(path, np.ascontiguousarray(frame.to_numpy()))
    return path


def as_zarr(frame, folder):
    zarr = pytest.importorskip("zarr")
    path = folder / f"{len(list(folder.iterdir()))}.zarr"
    stored = zarr.create_array(path, shape=frame.shape, chunks=(37, 2), dtype=float)
    stored[:] = frame.to_numpy()
    return path


def arrow(frame, index=False):
    return pytest.importorskip("pyarrow").Table.from_pandas(frame, preserve_index=index)


def stream(frame):
    table = arrow(frame)
    return pytest.importorskip("pyarrow").RecordBatchReader.from_batches(table.schema, table.to_batches())


def labelled(frame):
    return pytest.importorskip("xarray").DataArray(frame)


class OnlyInterchange:
    """A frame of a library that nobody knows."""

    def __init__(self, frame):
        self._frame = frame.reset_index(drop=True)

    def __dataframe__(self, *args, **kwargs):
        return self._frame.__dataframe__(*args, **kwargs)


def dask_frame(frame):
    dd = pytest.importorskip("dask.dataframe")
    return dd.from_pandas(frame, npartitions=3, sort=False)


def dask_read(frame):
    """As files are read: every partition counts its rows from 0."""
    dd = pytest.importorskip("dask.dataframe")
    plain = frame.reset_index(drop=True)
    parts = [plain[:40], plain[40:].reset_index(drop=True)]
    return dd.concat([dd.from_pandas(part, npartitions=1) for part in parts])


# container -> (how it is made of a frame, whether it keeps names of columns, whether it keeps ids of rows)
CONTAINERS = {
    "pandas": (lambda frame, _: frame, True, True),
    "pandas, default index": (lambda frame, _: frame.reset_index(drop=True), True, False),
    "pandas, several levels": (lambda frame, _: pd.concat({"bl": frame}), True, True),
    "pandas, nullable": (lambda frame, _: frame.convert_dtypes(), True, True),
    "polars": (lambda frame, _: pytest.importorskip("polars").DataFrame(frame), True, False),
    "arrow": (lambda frame, _: arrow(frame), True, False),
    "arrow with index": (lambda frame, _: arrow(frame, index=True), True, True),
    "arrow stream": (lambda frame, _: stream(frame), True, False),
    "interchange": (lambda frame, _: OnlyInterchange(frame), True, False),
    "dask frame": (lambda frame, _: dask_frame(frame), True, True),
    "dask frame of files": (lambda frame, _: dask_read(frame), True, False),
    "xarray": (lambda frame, _: labelled(frame), True, True),
    "records": (lambda frame, _: frame.to_records(index=False), True, False),
    "parquet": (lambda frame, folder: as_parquet(frame, folder, False), True, False),
    "parquet with index": (lambda frame, folder: as_parquet(frame, folder, True), True, True),
    "array": (lambda frame, _: frame.to_numpy(), False, False),
    "nested lists": (lambda frame, _: frame.to_numpy().tolist(), False, False),
    "matrix": (lambda frame, _: np.asmatrix(frame.to_numpy()), False, False),
    "objects": (lambda frame, _: frame.to_numpy().astype(object), False, False),
    "masked": (lambda frame, _: np.ma.array(frame.to_numpy()), False, False),
    "sparse": (lambda frame, _: sp.csr_array(frame.to_numpy()), False, False),
    "npy": (lambda frame, folder: as_npy(frame, folder), False, False),
    "memmap": (lambda frame, folder: np.load(as_npy(frame, folder), mmap_mode="r"), False, False),
    "zarr": (lambda frame, folder: as_zarr(frame, folder), False, False),
}
NAMED = [name for name, (_, columns, _) in CONTAINERS.items() if columns]
INDEXED = [name for name, (_, _, ids) in CONTAINERS.items() if ids]
FILES = ("npy", "parquet", "parquet with index", "zarr")  # which only estimators read
FIXED = ("dask frame", "parquet with index")  # whose rows are not moved


@pytest.fixture(params=["short", "long"])
def length(request, monkeypatch):
    """Short data is read at once, long data in blocks."""
    if request.param == "long":
        monkeypatch.setattr(blocks, "BLOCK_ROWS", N // 2)
    return request.param


def model(length="short"):
    return vl.KernelMultiviewNMF(K, random_state=0, tol=1e-2, factored=60 if length == "long" else "auto")


@pytest.fixture(scope="module")
def fitted():
    """Models of plain frames, by length."""
    return {length: model(length).fit(FRAMES) for length in ("short", "long")}


def put(container, folder, frames=FRAMES):
    make = CONTAINERS[container][0]
    return {name: make(frame, folder) for name, frame in frames.items()}


def changed(change, view="pet"):
    return {**FRAMES, view: change(FRAMES[view])}


@pytest.mark.filterwarnings(WARNED)
class TestEveryContainer:
    """Every container, as dict and as list, short and long, gives the answer of plain frames."""

    @pytest.mark.parametrize("container", CONTAINERS)
    def test_fit(self, container, length, fitted, tmp_path):
        data = put(container, tmp_path)
        found = model(length).fit(data)
        assert adjusted_rand_score(found.labels_, fitted[length].labels_) == 1.0
        assert found.view_names_ == list(FRAMES)
        expected = list(FRAMES["pet"]) if container in NAMED else ["pet_0", "pet_1", "pet_2"]
        assert list(found.view_features_["pet"]) == expected

    @pytest.mark.parametrize("as_list", [False, True])
    @pytest.mark.parametrize("container", CONTAINERS)
    def test_predict(self, container, as_list, length, fitted, tmp_path):
        data = put(container, tmp_path)
        data = list(data.values()) if as_list else data
        np.testing.assert_allclose(
            fitted["short"].transform(data), fitted["short"].transform(FRAMES), atol=1e-7
        )

    @pytest.mark.parametrize("container", [name for name in CONTAINERS if name not in FILES])
    def test_views_and_preparation(self, container, fitted, tmp_path):
        views = vl.Views(put(container, tmp_path))
        np.testing.assert_array_equal(np.asarray(views), np.hstack(list(FRAMES.values())))
        assert (views.ids is not None) == (container in INDEXED)
        scaler = MaxAbsScaler()
        scaled = vl.PerView(scaler).fit(FRAMES).transform(put(container, tmp_path))
        np.testing.assert_allclose(
            np.asarray(scaled.select(["pet"])), scaler.fit_transform(FRAMES["pet"].to_numpy())
        )
        np.testing.assert_array_equal(fitted["short"].predict(views), fitted["short"].predict(FRAMES))

    @pytest.mark.parametrize("baseline", [vl.MultiviewNMF, vl.ConcatenatedNMF])
    @pytest.mark.parametrize(
        "container", ["pandas", "polars", "masked", "parquet with index", "npy", "dask frame"]
    )
    def test_baselines(self, baseline, container, tmp_path):
        settings = {"graph": "knn", "max_iter": 20, "tol": 0.1, "random_state": 0}
        plain = baseline(K, **settings).fit(FRAMES)
        found = baseline(K, **settings).fit(put(container, tmp_path))
        np.testing.assert_allclose(found.memberships_, plain.memberships_, atol=1e-9)
        np.testing.assert_allclose(
            found.transform(FRAMES), plain.transform(put(container, tmp_path)), atol=1e-9
        )

    @pytest.mark.parametrize("container", [name for name in CONTAINERS if name not in FIXED])
    def test_one_matrix(self, container, length, tmp_path):
        """A single view needs no dict; its columns may not be in another order, as in scikit-learn."""
        make = CONTAINERS[container][0]
        one = model().fit(make(FRAMES["mri"], tmp_path))
        plain = model().fit(FRAMES["mri"])
        np.testing.assert_array_equal(one.labels_, plain.labels_)
        expected = plain.transform(FRAMES["mri"])
        np.testing.assert_allclose(one.transform(make(FRAMES["mri"], tmp_path)), expected, atol=1e-7)


class TestRows:
    """Rows of an indexed table in another order are put back, or refused where they cannot be moved."""

    @pytest.mark.parametrize("container", INDEXED)
    def test_in_another_order(self, container, length, fitted, tmp_path):
        data = put(container, tmp_path, changed(lambda frame: frame.iloc[SHUFFLE]))
        if container in FIXED:
            with pytest.raises(ValueError, match="View 'pet' has the ids of the first view in another order"):
                model(length).fit(data)
            return
        assert adjusted_rand_score(model(length).fit(data).labels_, fitted[length].labels_) == 1.0
        np.testing.assert_array_equal(fitted["short"].predict(data), fitted["short"].predict(FRAMES))

    def test_views_put_all_in_the_order_of_the_first(self):
        shuffled = changed(lambda frame: frame.iloc[SHUFFLE])
        for views in (vl.Views(shuffled), vl.Views(list(shuffled.values()), names=list(shuffled))):
            assert views.ids.equals(FRAMES["mri"].index)
            np.testing.assert_array_equal(views["pet"], FRAMES["pet"])
        assert vl.Views(FRAMES | {"mri": FRAMES["mri"].iloc[SHUFFLE]}).ids.equals(
            FRAMES["mri"].index[SHUFFLE]
        )

    def test_a_shuffled_count_is_an_index(self):
        """As of ``df.sample(frac=1)``, beside a default index that then counts as well."""
        plain = {name: frame.reset_index(drop=True) for name, frame in FRAMES.items()}
        views = vl.Views({"mri": plain["mri"], "pet": plain["pet"].iloc[SHUFFLE]})
        np.testing.assert_array_equal(views["pet"], FRAMES["pet"])

    def test_steps_that_take_views(self, fitted):
        shuffled = changed(lambda frame: frame.iloc[SHUFFLE])
        scaler = vl.PerView(MinMaxScaler()).fit(shuffled)
        np.testing.assert_array_equal(scaler.transform(shuffled)["pet"], scaler.transform(FRAMES)["pet"])
        assert fitted["short"].score(shuffled) == pytest.approx(fitted["short"].score(FRAMES))
        settings = {"graph": "knn", "max_iter": 20, "tol": 0.1, "random_state": 0}
        nmf = vl.MultiviewNMF(K, **settings)
        np.testing.assert_array_equal(nmf.fit(shuffled).labels_, nmf.fit(FRAMES).labels_)

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            (lambda frame: frame.iloc[:-9], "different ids: 90 and 81, of which 81 are in both.*from_frames"),
            (lambda frame: frame.set_axis(frame.index.str.lower()), "different ids: 90 and 90, of which 0"),
            (lambda frame: frame.reset_index(drop=True), "View 'pet' has a default index"),
            (lambda frame: frame.set_axis(range(1, N + 1)), "type string, those of View 'pet' integer"),
            (
                lambda frame: frame.set_axis(frame.index[[0, *range(N - 1)]]),
                "1 rows with a duplicate id",
            ),
            (lambda frame: frame.set_axis([None, *frame.index[1:]]), "1 rows without an id"),
            (lambda frame: pd.concat({"bl": frame}), "different ids"),
            (lambda frame: pd.concat({"bl": frame[:9], np.nan: frame[9:]}), "81 rows without an id"),
        ],
        ids=["fewer", "spelling", "default", "numbers", "duplicate", "missing", "levels", "missing level"],
    )
    def test_other_ids_are_refused(self, change, message, length, fitted):
        for use in (vl.Views, model(length).fit, fitted["short"].predict, vl.PerView(MinMaxScaler()).fit):
            with pytest.raises(ValueError, match=message) as error:
                use(changed(change))
            assert not any(subject in str(error.value) for subject in FRAMES["mri"].index)

    @pytest.mark.parametrize(
        ("mri", "pet", "message"),
        [
            (
                FRAMES["mri"],
                FRAMES["pet"].iloc[SHUFFLE],
                "View 'csf' has no index, and the ids of View 'pet' are not",
            ),
            (
                FRAMES["mri"].reset_index(drop=True).iloc[SHUFFLE],
                FRAMES["pet"].reset_index(drop=True).iloc[SHUFFLE],
                "View 'csf' has no index, and the index of the others is 0 to 89",
            ),
        ],
    )
    def test_rows_without_names_are_refused_where_they_are_ambiguous(self, mri, pet, message, length):
        with pytest.raises(ValueError, match=message):
            model(length).fit({"mri": mri, "pet": pet, "csf": FRAMES["mri"].to_numpy()})

    def test_rows_without_names_go_with_ids_in_one_order(self):
        views = vl.Views({"csf": FRAMES["mri"].to_numpy(), **FRAMES})
        np.testing.assert_array_equal(views["csf"], views["mri"])
        assert views.ids.equals(FRAMES["mri"].index)

    @pytest.mark.parametrize("container", ["pandas", "polars", "arrow", "interchange", "dask frame of files"])
    def test_from_frames_joins_tables_of_any_library(self, container, tmp_path):
        frames = {name: frame.rename_axis("id").reset_index() for name, frame in FRAMES.items()}
        frames["pet"] = frames["pet"].iloc[SHUFFLE][: N - 5]
        views = vl.Views.from_frames(put(container, tmp_path, frames), on="id")
        assert views.ids.tolist() == FRAMES["mri"].index.tolist()
        lacking = np.sort(SHUFFLE[N - 5 :])
        assert np.flatnonzero(~views.present[:, 1]).tolist() == lacking.tolist()
        np.testing.assert_array_equal(views["pet"][views.rows(1)], FRAMES["pet"].to_numpy()[views.rows(1)])
        assert views.feature_names["pet"].tolist() == list(FRAMES["pet"])

    def test_given_ids_in_another_order_are_refused(self):
        with pytest.raises(ValueError, match="ids are those of the index in another order"):
            vl.Views(FRAMES, ids=FRAMES["mri"].index[SHUFFLE])
        assert vl.Views(FRAMES, ids=range(N)).ids.tolist() == list(range(N))


def searched(y):
    """ARI that a search reports of the classes."""
    grid, settings = {"lam": [1.0]}, {"cv": 2, "random_state": 0, "progress": False}
    return vl.select(FRAMES, grid, y=y, estimator=model(), **settings).table["reported_ARI"][0]


class TestValuesOfSamples:
    """Classes, labels and starts that have an index of their own."""

    Y = pd.Series(np.repeat(range(K), N // K), index=FRAMES["mri"].index)

    def test_are_matched(self):
        labels = self.Y.to_numpy()
        assert vl.clustering_report(self.Y, self.Y.iloc[SHUFFLE])["ARI"] == 1.0
        profiles = cluster_profiles(FRAMES, self.Y.iloc[SHUFFLE], "mri", ["mri0"])
        pd.testing.assert_frame_equal(profiles, cluster_profiles(FRAMES, labels, "mri", ["mri0"]))
        runs = [vl.compare(FRAMES, y, ["k-means"], 1).runs["ARI"][0] for y in (labels, self.Y.iloc[SHUFFLE])]
        assert runs[0] == runs[1]
        found = [searched(y) for y in (labels, self.Y.iloc[SHUFFLE])]
        assert found[0] == found[1]

    @pytest.mark.parametrize(
        "use",
        [
            lambda y: vl.compare(FRAMES, y, ["k-means"], 1),
            lambda y: vl.select(FRAMES, {"lam": [1.0]}, y=y),
            lambda y: cluster_profiles(FRAMES, y, "mri", ["mri0"]),
            lambda y: vl.clustering_report(TestValuesOfSamples.Y, y),
        ],
        ids=["compare", "select", "cluster_profiles", "clustering_report"],
    )
    @pytest.mark.parametrize(
        ("y", "message"),
        [
            (Y.set_axis(Y.index.str.lower()), "different ids"),
            (Y.iloc[:-1], "different ids"),
            (Y.set_axis(["S"] * N), "rows with a duplicate id"),
            (np.ma.array(Y.to_numpy(), mask=np.arange(N) < 2), "2 masked values"),
        ],
        ids=["spelt otherwise", "fewer", "duplicates", "masked"],
    )
    def test_are_refused_where_ids_differ(self, use, y, message):
        with pytest.raises(ValueError, match=message):
            use(y)

    def test_a_shuffled_count_is_ambiguous_beside_an_array(self):
        y = pd.Series(np.arange(N) % K).iloc[SHUFFLE]
        with pytest.raises(ValueError, match="labels has no index"):
            vl.clustering_report(y, np.arange(N) % K)

    @pytest.mark.parametrize("estimator", [vl.KernelMultiviewNMF, vl.MultiviewNMF])
    def test_a_start_in_another_order_is_refused(self, estimator, length):
        start = pd.DataFrame(np.eye(K)[self.Y], index=self.Y.index)
        long = {"factored": 60} if length == "long" and estimator is vl.KernelMultiviewNMF else {}
        with pytest.raises(ValueError, match="init has the ids of the samples in another order"):
            estimator(K, init=start.iloc[SHUFFLE], **long).fit(FRAMES)
        with pytest.raises(ValueError, match="different ids"):
            estimator(K, init=start.set_axis(range(N)), **long).fit(FRAMES)


class TestColumns:
    @pytest.mark.parametrize("container", NAMED)
    def test_in_another_order_are_put_back(self, container, length, fitted, tmp_path):
        turned = {name: frame[frame.columns[::-1]] for name, frame in FRAMES.items()}
        found = fitted[length].transform(put(container, tmp_path, turned))
        np.testing.assert_allclose(found, fitted[length].transform(FRAMES), atol=1e-7)
        if container not in FILES:
            scaled = vl.PerView(MinMaxScaler()).fit(FRAMES).transform(put(container, tmp_path, turned))
            np.testing.assert_allclose(scaled["mri"], MinMaxScaler().fit_transform(FRAMES["mri"].to_numpy()))

    @pytest.mark.parametrize("wrap", [np.asarray, sp.csr_array])
    def test_of_views_are_put_back(self, wrap, length, fitted):
        """Named features of a matrix that is no frame."""
        turned = vl.Views({name: wrap(X.to_numpy()[:, ::-1]) for name, X in FRAMES.items()})
        names = {name: np.array(X.columns[::-1], dtype=object) for name, X in FRAMES.items()}
        found = fitted[length].transform(turned.replaced(feature_names=names))
        np.testing.assert_allclose(found, fitted[length].transform(FRAMES), atol=1e-7)

    @pytest.mark.parametrize("container", NAMED)
    @pytest.mark.parametrize(
        ("change", "message"),
        [
            (
                lambda frame: frame.rename(columns={"pet1": "q"}),
                "View 'pet' lacks 1 features seen in fit: 'pet1'",
            ),
            (lambda frame: frame.drop(columns="pet1"), "has 2 features, but fit saw 3: missing 'pet1'"),
            (lambda frame: frame.assign(age=1.0), "has 4 features, but fit saw 3: not seen in fit 'age'"),
        ],
        ids=["renamed", "missing", "extra"],
    )
    def test_of_other_names_are_refused(self, container, change, message, length, fitted, tmp_path):
        with pytest.raises(ValueError, match=message):
            fitted["short"].predict(put(container, tmp_path, changed(change)))

    @pytest.mark.parametrize(
        "make",
        [
            lambda frame: frame.set_axis(["x", "y", "x"], axis=1),
            lambda frame: frame.set_axis([1, "1", "y"], axis=1),
            lambda frame: arrow(frame).rename_columns(["x", "y", "x"]),
        ],
        ids=["pandas", "text and number", "arrow"],
    )
    def test_twice_are_refused(self, make, length, fitted):
        data = {**FRAMES, "pet": make(FRAMES["pet"])}
        for use in (model(length).fit, fitted["short"].predict):
            with pytest.raises(ValueError, match=r"View 'pet'.* duplicate feature names: '[x1]'"):
                use(data)

    def test_named_on_one_side_only_are_said(self, length, fitted):
        arrays = {name: frame.to_numpy() for name, frame in FRAMES.items()}
        with pytest.warns(
            UserWarning, match="Features of 2 views have names either in fit or in the new data"
        ):
            fitted["short"].predict(arrays)
        with pytest.warns(UserWarning, match="Features of 1 views .*'pet'"):
            vl.PerView(MinMaxScaler()).fit(arrays).transform({"mri": arrays["mri"], "pet": FRAMES["pet"]})
        with pytest.warns(UserWarning, match="X does not have valid feature names"):
            model().fit(FRAMES["mri"]).predict(arrays["mri"])
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            counted = {name: pd.DataFrame(X) for name, X in arrays.items()}
            model().fit(arrays).predict(counted)  # columns that are numbers are no names
            fitted["short"].predict(FRAMES)

    def test_of_one_matrix_in_another_order_are_refused(self, length):
        """As scikit-learn does."""
        frame = FRAMES["mri"]
        with pytest.raises(ValueError, match="feature names should match"):
            model().fit(frame).predict(frame[frame.columns[::-1]])

    def test_of_several_levels_are_names(self, fitted):
        levels = {name: pd.concat({"left": frame}, axis=1) for name, frame in FRAMES.items()}
        found = model().fit(levels)
        assert found.view_features_["pet"][0] == "('left', 'pet0')"
        turned = {name: frame[frame.columns[::-1]] for name, frame in levels.items()}
        np.testing.assert_array_equal(found.predict(turned), found.predict(levels))

    def test_a_lost_index_is_no_feature(self):
        pl = pytest.importorskip("polars")
        frame = FRAMES["pet"].set_axis(range(7, N + 7)).astype({"pet0": float})
        shuffled = pl.from_arrow(arrow(frame.iloc[SHUFFLE], index=True))
        with pytest.raises(ValueError, match="'__index_level_0__', the index of a pandas frame"):
            vl.Views({"pet": shuffled})


class TestMasks:
    """What is masked is missing, whatever number is hidden below."""

    def hidden(self, dtype=float):
        X = np.ma.array(np.round(FRAMES["pet"].to_numpy() * 10).astype(dtype), mask=False)
        X[3:7] = np.ma.masked
        X.data[3:7] = 99
        return X

    @pytest.mark.parametrize("dtype", [float, np.float32, int, object])
    def test_masked_rows_are_absent(self, dtype, length):
        X = self.hidden(dtype)
        views = vl.Views({"mri": FRAMES["mri"].to_numpy(), "pet": X})
        assert np.flatnonzero(~views.present[:, 1]).tolist() == [3, 4, 5, 6]
        bare = model(length).fit({"mri": FRAMES["mri"].to_numpy(), "pet": X})
        assert np.isnan(bare.view_memberships_[1][3:7]).all()
        placed = bare.transform({"mri": FRAMES["mri"].to_numpy(), "pet": X})
        np.testing.assert_allclose(
            placed[3:7], bare.transform({"mri": FRAMES["mri"].to_numpy()[3:7]}), atol=1e-6
        )

    @pytest.mark.parametrize("wrap", [lambda X: X, list], ids=["array", "list of rows"])
    def test_masked_cells_are_missing(self, wrap, length):
        X = self.hidden()
        X[20, 1] = np.ma.masked
        for use in (vl.Views, model(length).fit):
            with pytest.raises(
                ValueError, match="View 'pet' contains NaN in 1 observed rows, in features 'pet_1'"
            ):
                use({"mri": FRAMES["mri"].to_numpy(), "pet": wrap(X)})

    def test_masked_records_are_refused(self):
        records = np.ma.array(np.ones(4, dtype=[("a", float)]), mask=[(True,), (False,), (False,), (False,)])
        with pytest.raises(TypeError, match="View 'a': A masked record array is not supported"):
            vl.Views({"a": records})


class TestViewsApart:
    """Views that nobody has in common: clusters on one side have nothing to do with those on the other."""

    def holed(self, pattern):
        """Views 0, 1, ... of samples in turn, as the pattern of rows and views says."""
        rng = np.random.default_rng(0)
        rows = np.arange(N) % len(pattern)
        return [
            np.where(np.array(column)[rows][:, None], rng.standard_normal((N, 3)), np.nan)
            for column in np.array(pattern, dtype=bool).T
        ]

    @pytest.mark.parametrize(
        ("pattern", "message"),
        [
            ([[1, 0], [0, 1]], r"2 groups .*: 'view0'; 'view1'\."),
            (
                [[1, 1, 0], [0, 0, 1], [0, 1, 0]],
                r"2 groups .*: 'view0', 'view1'; 'view2'\.",
            ),
            ([[1, 0, 0], [0, 1, 0], [0, 0, 1]], "3 groups"),
            ([[1, 0, 1, 0], [0, 1, 0, 1]], r"'view0', 'view2'; 'view1', 'view3'\."),
        ],
    )
    def test_are_said(self, pattern, message, length):
        with pytest.warns(UserWarning, match=message):
            model(length).fit(self.holed(pattern))

    def test_are_said_by_the_baseline(self):
        data = [np.abs(X) for X in self.holed([[1, 0], [0, 1]])]
        with pytest.warns(UserWarning, match="2 groups"):
            vl.MultiviewNMF(K, max_iter=3, random_state=0).fit(data)

    @pytest.mark.parametrize("pattern", [[[1, 1, 0], [0, 1, 1]], [[1, 0], [0, 1], [1, 1]], [[1, 1]]])
    def test_linked_views_are_not(self, pattern, length):
        with warnings.catch_warnings():
            warnings.filterwarnings("error", message="The views form")
            model(length).fit(self.holed(pattern))

    def test_profiles_of_zeros_link_nothing(self):
        """Counts that are all zero say nothing of a sample, so that it has this view in name only."""
        rng = np.random.default_rng(0)
        one, other = np.arange(N) < N // 2, np.arange(N) >= N // 2
        counts = [rng.poisson(0.3, size=(N, 120)).astype(float) * seen[:, None] for seen in (one, other)]
        with pytest.warns(UserWarning, match=r"2 groups .*: 'view0'; 'view1'\."):
            model().fit(counts)


class TestListsInSplits:
    """scikit-learn takes a list of views for a list of samples."""

    ARRAYS = [FRAMES["mri"].to_numpy(), FRAMES["pet"].to_numpy()]  # noqa: RUF012

    def test_a_list_that_was_split_is_said(self):
        train, test = train_test_split(self.ARRAYS, random_state=0)
        with pytest.warns(UserWarning, match=r"X is a list of one view\. .* pass Views"):
            one = model().fit(train)
        with pytest.raises(ValueError, match=r"has \d features, but fit saw"):
            one.predict(test)
        with pytest.raises(ValueError, match=r"1 views given, 2 fitted.* pass Views"):
            model().fit(self.ARRAYS).score(test)

    def test_views_are_split_by_samples(self):
        search = GridSearchCV(model(), {"lam": [1.0, 10.0]}, cv=2, error_score="raise").fit(vl.Views(FRAMES))
        assert search.best_estimator_.view_names_ == list(FRAMES)


def test_many_rows_are_named_as_few_are():
    """More than a block of real length, given as a list to a model that was fitted on a dict."""
    rows = np.arange(blocks.BLOCK_ROWS + 7) % N
    many = {name: frame.iloc[rows].reset_index(drop=True) for name, frame in FRAMES.items()}
    fitted = model("long").fit(FRAMES)
    expected = fitted.predict(FRAMES)[rows]
    turned = {name: frame[frame.columns[::-1]] for name, frame in many.items()}
    for data in (list(many.values()), vl.Views(turned)):
        np.testing.assert_array_equal(fitted.predict(data), expected)
    few = fitted.predict({"mri": FRAMES["mri"]})
    np.testing.assert_array_equal(fitted.predict([many["mri"], None]), few[rows])


@pytest.mark.parametrize("view", [7, -99, True, 1.5, None, "csf", b"mri"])
def test_a_view_that_is_not_there_is_refused(view, fitted):
    nmf = vl.MultiviewNMF(K, max_iter=2, random_state=0).fit(FRAMES)
    concatenated = vl.ConcatenatedNMF(K, max_iter=2, random_state=0).fit(FRAMES)
    uses = [
        fitted["short"].feature_importance,
        lambda view: cluster_profiles(FRAMES, [0] * N, view, ["mri0"]),
    ]
    uses += [] if view is None else [nmf.feature_importance, concatenated.feature_importance]
    for use in uses:
        with pytest.raises((ValueError, TypeError), match="view"):
            use(view)


def test_the_package_shows_its_contract_only():
    assert [name for name in dir(vl) if not name.startswith("_")] == sorted(
        [
            *("ConcatenatedNMF", "GraphNMF", "KernelMultiviewNMF", "MultiviewNMF", "PerView", "Views"),
            *("InputError", "InputTypeError", "OutputError", "ViewloomError"),
            *("choose_k", "clinical", "clinical_plots", "clustering_report", "compare", "datasets"),
            *(
                "inspection",
                "kernels",
                "load",
                "metrics",
                "plotting",
                "replicate",
                "report",
                "runs",
                "select",
            ),
            *("simulate", "study"),
        ]
    )
    assert not hasattr(vl, "Any")


def test_ids_of_different_kinds_do_not_meet():
    with pytest.raises(ValueError, match="different ids: 2 and 2, of which 0 are in both"):
        match_rows({"a": pd.Index(["1", "2"]), "b": pd.Index([1, 2])})
