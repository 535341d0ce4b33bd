"""AnnData and MuData; skipped where the libraries are not installed, but for what must hold without them."""

import os
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from noted import texts
from numpy.testing import assert_array_equal

from viewloom.study.errors import StudyError
from viewloom.study.readers import sniff
from viewloom.study.readers.anndata import read_h5ad, read_h5mu

RNA = np.array([[1.0, 0.0, 2.5], [0.0, np.nan, 1.0]])
REALFILES = Path(
    os.environ.get("VIEWLOOM_REALFILES", Path(__file__).parents[3].parent / "shared" / "realfiles")
)
BEYOND = np.array([0, 2, 1, 10**9], dtype=np.int32)


def data(X=RNA, ids=("01", "02"), names=("TP53", "APOE", "MT-CO1")):
    anndata = pytest.importorskip("anndata")
    anndata.settings.allow_write_nullable_strings = True  # the text of pandas 3
    return anndata.AnnData(X, obs=pd.DataFrame(index=list(ids)), var=pd.DataFrame(index=list(names)))


def changed(folder, X, change, **layers):
    """A file that was written well, and changed."""
    path, table = folder / "x.h5ad", data(X)
    table.layers.update(layers)
    table.write_h5ad(path)
    with pytest.importorskip("h5py").File(path, "r+") as file:
        change(file)
    return path


class TestH5ad:
    @pytest.mark.parametrize("wrap", [np.asarray, sp.csr_matrix])
    def test_dense_and_sparse(self, tmp_path, wrap):
        path = tmp_path / "gene expression é.h5ad"
        data(wrap(RNA)).write_h5ad(path)
        assert sniff(path) == "h5ad"
        frame = read_h5ad(path)
        assert frame.index.tolist() == ["01", "02"]
        assert frame.index.name == "id"
        assert frame.columns.tolist() == ["TP53", "APOE", "MT-CO1"]
        assert_array_equal(frame, RNA)
        assert texts(frame.attrs["notes"]) == []

    def test_layers_and_patterns(self, tmp_path):
        path = tmp_path / "x.h5ad"
        table = data()
        table.layers["log"] = np.log1p(RNA)
        table.write_h5ad(path)
        frame = read_h5ad(path, layer="log", exclude=["MT-*"])
        assert_array_equal(frame, np.log1p(RNA)[:, :2])
        with pytest.raises(StudyError, match=r"no layer 'logs'; did you mean 'log'\?"):
            read_h5ad(path, layer="logs")

    @pytest.mark.filterwarnings("ignore:.*names are not unique")
    def test_repeated_names(self, tmp_path):
        data(ids=("01", "01")).write_h5ad(tmp_path / "ids.h5ad")
        with pytest.raises(StudyError, match="column 'obs_names' has 1 row with a duplicate id"):
            read_h5ad(tmp_path / "ids.h5ad")
        data(names=("a", "a", "b")).write_h5ad(tmp_path / "names.h5ad")
        with pytest.raises(StudyError, match="1 column names occur more than once: 'a'"):
            read_h5ad(tmp_path / "names.h5ad")

    def test_other_files(self, tmp_path):
        pytest.importorskip("anndata")
        h5py = pytest.importorskip("h5py")
        path = tmp_path / "x.h5ad"
        with pytest.raises(StudyError, match="no such file"):
            read_h5ad(path)
        path.write_text("id,x\n")
        with pytest.raises(StudyError, match="is not an HDF5 file"):
            read_h5ad(path)
        with h5py.File(path, "w") as file:
            file["something"] = [1, 2]
        with pytest.raises(StudyError, match=r"cannot be read as \.h5ad|has no X"):
            read_h5ad(path)

    def test_what_would_reach_beyond_the_matrix(self, tmp_path):
        """Positions of a sparse matrix are written to memory as they are."""
        path = changed(tmp_path, sp.csr_matrix(RNA), lambda file: file["X/indices"].write_direct(BEYOND))
        with pytest.raises(StudyError, match="the sparse matrix is damaged; write it again"):
            read_h5ad(path)

    def test_what_is_not_asked_for_is_not_read(self, tmp_path):
        """Nor can it do harm: groups within themselves, positions beyond a matrix."""

        def spoil(file):
            file["uns/more"] = file["uns"]
            file["layers/log/indices"][...] = BEYOND
            del file["obsp"]
            file.move("layers/log", "obsp")

        path = changed(tmp_path, RNA, spoil, log=sp.csr_matrix(RNA))
        assert_array_equal(read_h5ad(path), RNA)

    def test_a_matrix_within_itself(self, tmp_path):
        def spoil(file):
            file["X/more"] = file["X"]
            file["X"].attrs["encoding-type"] = "dict"

        with pytest.raises(StudyError, match="cannot be read"):
            read_h5ad(changed(tmp_path, sp.csr_matrix(RNA), spoil))

    def test_names_that_do_not_fit(self, tmp_path):
        path = changed(tmp_path, RNA, lambda file: file.move("obs", "uns/obs") or file.copy("var", "obs"))
        with pytest.raises(StudyError, match="does not match its row and column names"):
            read_h5ad(path)

    def test_a_table_in_place_of_layers_is_not_told(self, tmp_path):
        def spoil(file):
            del file["layers"]
            file["layers"] = ["secret"]

        with pytest.raises(StudyError, match="no layer 'log'; there are none"):
            read_h5ad(changed(tmp_path, RNA, spoil), layer="log")

    @pytest.mark.parametrize(
        "X", [np.array([[1j, 0, 2]]), np.array([["a", "b", "c"]])], ids=["complex", "text"]
    )
    def test_what_is_not_a_number(self, tmp_path, X):
        data(X, ids=("01",)).write_h5ad(tmp_path / "x.h5ad")
        with pytest.raises(StudyError, match=r"the matrix is not numeric|cannot be read"):
            read_h5ad(tmp_path / "x.h5ad")


ENCODED = {"encoding-type": "dataframe", "encoding-version": "0.1.0"}


def records(names, field="index", dtype="S10"):
    """A table as anndata wrote it before 0.7: an array of records, names first."""
    return np.array([(name, i) for i, name in enumerate(names)], dtype=[(field, dtype), ("n", "i4")])


def with_records(file, field="index", obs=(b"01", b"02"), var=(b"TP53", b"APOE", b"MT-CO1")):
    file["obs"], file["var"] = records(obs, field), records(var, field)


def with_groups(file, obs="_index", **attributes):
    """Tables as groups of columns, as from 0.7 on."""
    for axis, names in (("obs", ["01", "02"]), ("var", ["TP53", "APOE", "MT-CO1"])):
        group = file.create_group(axis)
        group[obs] = np.array(names, dtype="S")
        group.attrs.update({"_index": obs, "column-order": np.array([], dtype="S1"), **attributes})


def old_sparse(file, kind):
    matrix = kind(np.nan_to_num(RNA))
    for name in ("data", "indices", "indptr"):
        file[f"X/{name}"] = getattr(matrix, name)
    file["X"].attrs["h5sparse_format"] = matrix.format
    file["X"].attrs["h5sparse_shape"] = matrix.shape


def old_categories(file):
    """A column of codes whose levels stand beside it, and one in `uns`."""
    with_groups(file, **ENCODED)
    levels = file.create_dataset("obs/__categories/dx", data=np.array([b"AD", b"HC"]))
    file["obs/dx"] = np.array([1, 0], dtype="i1")
    file["obs/dx"].attrs["categories"] = levels.ref
    file["obs"].attrs["column-order"] = np.array(["dx"], dtype="S2")
    file["uns/dx_categories"] = np.array([b"AD", b"HC"])


def old_raw(file):
    with_records(file)
    file["raw.X"], file["raw.var"] = np.ones((2, 1)), records([b"TP53"])


OLD = {
    "records": with_records,
    "records of other names": lambda file: with_records(file, "obs_names"),
    "raw": old_raw,
    "categories": old_categories,
    "groups": lambda file: with_groups(file, "cell", **ENCODED),
}
MATRICES = {
    "float32": RNA.astype("f4"),
    "float16": RNA.astype("f2"),
    "big-endian": RNA.astype(">f8"),
    "counts": np.nan_to_num(RNA).astype("u2"),
    "bool": np.nan_to_num(RNA) > 0,
    "csr": sp.csr_matrix,
    "csc": sp.csc_matrix,
}


@pytest.mark.filterwarnings("ignore")
class TestOldFiles:
    """Files of early versions, which are written here by hand, equal what anndata reads of them."""

    @pytest.mark.parametrize("matrix", MATRICES)
    @pytest.mark.parametrize("tables", OLD)
    def test_equal_anndata(self, tmp_path, tables, matrix):
        anndata, h5py = pytest.importorskip("anndata"), pytest.importorskip("h5py")
        path, X = tmp_path / "old.h5ad", MATRICES[matrix]
        with h5py.File(path, "w") as file:
            OLD[tables](file)
            if callable(X):
                old_sparse(file, X)
            else:
                file["X"] = X
        expected, frame = anndata.read_h5ad(path), read_h5ad(path)
        assert frame.index.tolist() == expected.obs_names.tolist() == ["01", "02"]
        assert frame.columns.tolist() == expected.var_names.tolist() == ["TP53", "APOE", "MT-CO1"]
        assert_array_equal(frame, expected.to_df().astype(float))

    def written(self, folder, change):
        with pytest.importorskip("h5py").File(folder / "old.h5ad", "w") as file:
            file["X"] = RNA
            change(file)
        return folder / "old.h5ad"

    @pytest.fixture(autouse=True)
    def _needs_anndata(self):
        pytest.importorskip("anndata")

    def test_text_of_variable_length_and_beyond_ascii(self, tmp_path):
        text = pytest.importorskip("h5py").string_dtype()

        def spoil(file):
            file["obs"] = np.array([("é1", 0), ("02", 1)], dtype=[("index", text), ("n", "i4")])
            file["var"] = records(["Gén".encode(), b"b", b"c"])

        frame = read_h5ad(self.written(tmp_path, spoil))
        assert (frame.index.tolist(), frame.columns[0]) == (["é1", "02"], "Gén")

    def test_ids_that_are_numbers(self, tmp_path):
        def spoil(file):
            with_records(file)
            del file["obs"]
            file["obs"] = records([7, 8], dtype="i8")

        assert read_h5ad(self.written(tmp_path, spoil)).index.tolist() == ["7", "8"]

    def test_ids_that_are_codes_are_not_taken_for_names(self, tmp_path):
        """Codes 1 and 0 once became the ids '1' and '0'."""

        def spoil(file):
            with_groups(file)
            levels = file.create_dataset("obs/__categories/_index", data=np.array([b"01", b"02"]))
            del file["obs/_index"]
            file["obs/_index"] = np.array([1, 0], dtype="i1")
            file["obs/_index"].attrs["categories"] = levels.ref

        assert read_h5ad(self.written(tmp_path, spoil)).index.tolist() == ["02", "01"]

    @pytest.mark.parametrize("code", [-1, 5, -2])
    def test_codes_without_a_level(self, tmp_path, code):
        def spoil(file):
            with_groups(file)
            levels = file.create_dataset("obs/__categories/_index", data=np.array([b"01", b"02"]))
            del file["obs/_index"]
            file["obs/_index"] = np.array([1, code], dtype="i1")
            file["obs/_index"].attrs["categories"] = levels.ref

        with pytest.raises(StudyError):
            read_h5ad(self.written(tmp_path, spoil))

    @pytest.mark.parametrize("axis", ["obs", "var"])
    def test_tables_without_names(self, tmp_path, axis):
        """Where anndata numbers the rows, which would match no other file, or the wrong one."""

        def spoil(file):
            with_records(file)
            del file[axis]
            file[f"{axis}/n"] = np.arange(2)

        with pytest.raises(StudyError, match="has no names"):
            read_h5ad(self.written(tmp_path, spoil))

        def bare(file):
            with_records(file)
            del file[axis]
            file[axis] = np.arange(2)

        with pytest.raises(StudyError, match="has no names"):
            read_h5ad(self.written(tmp_path, bare))

    def test_an_old_layer(self, tmp_path):
        def add(file):
            with_records(file)
            file["layers/log"] = np.log1p(RNA)

        assert_array_equal(read_h5ad(self.written(tmp_path, add), layer="log"), np.log1p(RNA))

    def test_a_matrix_of_one_dimension(self, tmp_path):
        def spoil(file):
            with_records(file)
            del file["X"]
            file["X"] = RNA[:, 0]

        with pytest.raises(StudyError, match="1 dimensions, not 2"):
            read_h5ad(self.written(tmp_path, spoil))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("version", ["0.1.2", "0.3.10", "0.4.1"])
def test_real_files_equal_mudata(version):
    mudata, path = pytest.importorskip("mudata"), REALFILES / "h5mu" / f"v{version}.h5mu"
    if not path.is_file():
        pytest.skip("the real files are not here")
    for name, table in mudata.read_h5mu(path).mod.items():
        frame = read_h5mu(path, modality=name)
        assert frame.index.tolist() == table.obs_names.tolist()
        assert_array_equal(frame, table.to_df()[frame.columns].astype(float))


class TestH5mu:
    @pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning")
    def test_one_modality_of_several(self, tmp_path):
        mudata = pytest.importorskip("mudata")
        path = tmp_path / "x.h5mu"
        protein = data(np.array([[5.0], [6.0], [7.0]]), ("02", "03", "04"), ("CD4",))
        mudata.MuData({"rna": data(), "protein": protein}).write_h5mu(path)
        assert sniff(path) == "h5mu"
        assert_array_equal(read_h5mu(path, modality="rna"), RNA)
        frame = read_h5mu(path, modality="protein")
        assert frame["CD4"].to_dict() == {"02": 5.0, "03": 6.0, "04": 7.0}
        with pytest.raises(StudyError, match=r"no modality 'proteins'; did you mean 'protein'\?"):
            read_h5mu(path, modality="proteins")


@pytest.mark.parametrize("read", [read_h5ad, lambda path: read_h5mu(path, modality="rna")])
def test_a_missing_library_names_the_extra(tmp_path, monkeypatch, read):
    monkeypatch.setitem(sys.modules, "anndata.io", None)
    with pytest.raises(ImportError, match=r"needs anndata: pip install viewloom\[omics\]"):
        read(tmp_path / "x")
