"""AnnData and MuData; skipped where the libraries are not installed, but for what must hold without them."""

import sys

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from numpy.testing import assert_array_equal

from viewloom.study.errors import StudyError
from viewloom.study.readers import sniff
from viewloom.study.readers.anndata import read_h5ad, read_h5mu

RNA = np.array([[1.0, 0.0, 2.5], [0.0, np.nan, 1.0]])
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
        assert frame.attrs["notes"] == []

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
        with pytest.raises(StudyError, match="column 'obs_names' has 1 row whose id appeared before"):
            read_h5ad(tmp_path / "ids.h5ad")
        data(names=("a", "a", "b")).write_h5ad(tmp_path / "names.h5ad")
        with pytest.raises(StudyError, match="1 column names occur more than once: 'a'"):
            read_h5ad(tmp_path / "names.h5ad")

    def test_other_files(self, tmp_path):
        pytest.importorskip("anndata")
        h5py = pytest.importorskip("h5py")
        path = tmp_path / "x.h5ad"
        with pytest.raises(StudyError, match="there is no such file"):
            read_h5ad(path)
        path.write_text("id,x\n")
        with pytest.raises(StudyError, match="is not an HDF5 file"):
            read_h5ad(path)
        with h5py.File(path, "w") as file:
            file["something"] = [1, 2]
        with pytest.raises(StudyError, match=r"cannot be read as \.h5ad|there is no X"):
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
        with pytest.raises(StudyError, match="does not fit the names of its rows and columns"):
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
        with pytest.raises(StudyError, match=r"something else than numbers|cannot be read"):
            read_h5ad(tmp_path / "x.h5ad")


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
