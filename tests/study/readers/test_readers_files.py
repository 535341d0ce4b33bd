"""Files of SPSS, Stata, SAS and R, compressed tables and Feather: values, levels, missing codes, refusals."""

import bz2
import datetime
import gzip
import io
import lzma
import os
import re
import struct
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from inprocess import without_process
from noted import texts
from numpy.testing import assert_array_equal
from typer.testing import CliRunner

from viewloom.cli import app
from viewloom.study.errors import StudyError
from viewloom.study.readers import catalogue, packed, readerprocess, sniff, statfiles
from viewloom.study.readers.files import KINDS, kind_of, open_table, parts_of
from viewloom.study.readers.tables import read_table

pyreadstat = pytest.importorskip("pyreadstat")
rdata = pytest.importorskip("rdata")
NAN = np.nan
CORPUS = Path(__file__).parents[2] / "reliability" / "corpus"
DOCS = Path(__file__).parents[3] / "docs" / "formats.md"
REAL = Path(os.environ.get("VIEWLOOM_REALFILES", Path(__file__).parents[3].parent / "shared" / "realfiles"))
PLAIN = pd.DataFrame({"id": ["007", "008", "009"], "a": [1.5, NAN, 3.5], "b": [2.0, 4.0, 6.0]})
VALUES = [[1.5, 2], [NAN, 4], [3.5, 6]]
LABELLED = pd.DataFrame(
    {
        "id": ["a", "b", "c", "d"],
        "sex": [1.0, 2.0, 1.0, 9.0],
        "mmse": [28.0, -9.0, 99.0, 20.0],
        "day": [datetime.date(2020, 1, day) for day in (2, 3, 4, 5)],
        "site": ["X", "", "Y", "X"],
    }
)
LABELS = {"sex": {1: "Male", 2: "Female", 9: "Unknown"}, "mmse": {-9: "refused", 30: "best"}}
WRITE = {
    "t.sav": lambda frame, path: pyreadstat.write_sav(frame, path),
    "t.zsav": lambda frame, path: pyreadstat.write_sav(frame, path, compress=True),
    "t.por": lambda frame, path: pyreadstat.write_por(frame, path),
    "t.dta": lambda frame, path: frame.to_stata(path, write_index=False),
    "t.xpt": lambda frame, path: pyreadstat.write_xport(frame, path),
    "t.rds": lambda frame, path: rdata.write_rds(path, for_r(frame)),
    "t.RData": lambda frame, path: rdata.write_rda(path, {"volumes": for_r(frame)}),
    "t.feather": lambda frame, path: frame.to_feather(path),
    "t.parquet": lambda frame, path: frame.to_parquet(path),
    "t.csv.gz": lambda frame, path: path.write_bytes(gzip.compress(as_csv(frame))),
    "t.csv.bz2": lambda frame, path: path.write_bytes(bz2.compress(as_csv(frame))),
    "t.csv.xz": lambda frame, path: path.write_bytes(lzma.compress(as_csv(frame))),
    "t.zip": lambda frame, path: path.write_bytes(
        zipped({"folder/t.csv": as_csv(frame), "__MACOSX/t.csv": b""})
    ),
}


def as_csv(frame):
    return frame.to_csv(index=False).encode()


def for_r(frame):
    """With texts as `rdata` takes them."""
    texts = {name: pd.StringDtype("python") for name in frame.select_dtypes("str").columns}
    index = frame.index if frame.index.dtype.kind == "i" else frame.index.astype(object)
    return frame.astype(texts).set_axis(index, axis=0)


def zipped(files):
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in files.items():
            file.writestr(name, content)
    return made.getvalue()


def outcome(path):
    """The table, or the message."""
    try:
        return read_table(path, id="ID" if path.suffix == ".por" else "id")
    except StudyError as error:
        return str(error)


def complaint(path, **options):
    with pytest.raises(StudyError) as caught:
        read_table(path, **{"id": "id", **options})
    message = str(caught.value)
    assert "\n" not in message
    assert message.startswith(f"{path.name}: ")
    return message


@pytest.mark.parametrize("name", WRITE)
class TestEveryKind:
    def test_values(self, tmp_path, name):
        WRITE[name](PLAIN, tmp_path / name)
        upper = name.endswith(".por")
        frame = read_table(tmp_path / name, id="ID" if upper else "id")
        assert frame.index.tolist() == ["007", "008", "009"]
        assert frame.columns.tolist() == (["A", "B"] if upper else ["a", "b"])
        assert_array_equal(frame, VALUES)
        assert frame.dtypes.tolist() == [np.float64] * 2
        assert sniff(tmp_path / name) == "table"
        assert open_table(tmp_path / name).header[0].lower() == "id"

    @pytest.mark.parametrize("cut", [0, 3, 0.5, 0.9])
    def test_cut_off(self, tmp_path, name, cut, monkeypatch):
        monkeypatch.setattr(statfiles, "started", without_process)
        WRITE[name](PLAIN, tmp_path / name)
        path = tmp_path / name
        whole = path.read_bytes()
        path.write_bytes(whole[: int(cut * len(whole)) if isinstance(cut, float) else cut])
        frame = outcome(path)
        if isinstance(frame, str):
            assert frame.startswith(f"{name}: ")
            assert "\n" not in frame
        else:  # some formats have no count of rows, or pad their end
            assert_array_equal(frame, VALUES[: len(frame)])


class TestCrashes:
    """A reader that crashes gives one line, and this process goes on."""

    @pytest.fixture
    def path(self, tmp_path):
        WRITE["t.sav"](PLAIN, tmp_path / "t.sav")
        return tmp_path / "t.sav"

    @pytest.mark.parametrize(
        ("script", "told"),
        [
            ("import os; os.abort()", "is damaged, so that its reader crashes; save it again with SPSS"),
            ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "memory ran out"),
            ('print(\'{"names": ["id"], "kinds": ["<f8"], "rows": 3}\\nhalf\')', "is damaged"),
            ('print(\'{"names": ["id"], "kinds": ["text"], "rows": 3}\\n[\')', "is damaged"),
            ('print(\'{"error": "MemoryError", "message": ""}\')', "memory ran out"),
            ('print(\'{"error": "UnicodeDecodeError", "message": ""}\')', "its text cannot be decoded; set"),
        ],
    )
    def test_every_end_of_the_process(self, path, script, told, tmp_path, monkeypatch):
        (tmp_path / "script.py").write_text(script)
        monkeypatch.setattr(readerprocess, "__file__", str(tmp_path / "script.py"))
        with pytest.raises(StudyError, match=rf"^t\.sav: {told}"):
            statfiles.load_statfile(path)

    def test_the_process_ends_with_the_reader(self, path, tmp_path, monkeypatch):
        (tmp_path / "script.py").write_text("import time; print('{}', flush=True); time.sleep(600)")
        monkeypatch.setattr(readerprocess, "__file__", str(tmp_path / "script.py"))
        with pytest.raises(KeyboardInterrupt), statfiles._answer(path, None):
            raise KeyboardInterrupt

    def test_a_real_crash(self, path, tmp_path):
        content = (CORPUS / "sav" / "library-crashes").read_bytes()[1:]
        (tmp_path / "bad.sav").write_bytes(content)
        complaint(tmp_path / "bad.sav")

    def test_feather_with_a_length_beyond_its_text(self, tmp_path):
        path = tmp_path / "t.feather"
        PLAIN.to_feather(path, compression="uncompressed")
        lengths = np.array([0, 3, 6, 9]).tobytes()
        content = path.read_bytes()
        assert content.count(lengths) == 1
        path.write_bytes(content.replace(lengths, np.array([0, 3, 6, 2**62]).tobytes()))
        assert complaint(path) == "t.feather: is not a valid Feather file; write it again."


class TestOldStata:
    """A file of Stata 5, made by hand: a double that is missing, and a date by its old format."""

    @pytest.fixture
    def path(self, tmp_path, monkeypatch):
        monkeypatch.setattr(statfiles, "started", without_process)
        names, formats = (b"id", b"a", b"day"), (b"%9s", b"%9.0g", b"%dD_m_Y")
        head = bytes([105, 2, 1, 0]) + struct.pack("<HI", 3, 2) + bytes(32 + 18)
        head += bytes([127 + 2]) + b"dl" + b"".join(name.ljust(9, b"\0") for name in names) + bytes(8)
        head += b"".join(one.ljust(12, b"\0") for one in formats) + bytes(3 * 9 + 3 * 32 + 3)
        rows = [(b"x", 1.5, 14610), (b"y", 2.0**333, 14611)]
        path = tmp_path / "t.dta"
        path.write_bytes(head + b"".join(struct.pack("<2sdi", *row) for row in rows))
        return path

    def test_values(self, path):
        assert_array_equal(read_table(path, id="id", columns=["a"]), [[1.5], [NAN]])

    def test_dates(self, path):
        assert read_table(path, id="id", numeric=False)["day"].tolist() == ["2000-01-01", "2000-01-02"]

    def test_equal_to_pandas(self, path):
        frame = statfiles.load_statfile(path)
        independent = pd.read_stata(path)
        assert_array_equal(frame["a"], independent["a"])
        assert frame["day"].tolist() == independent["day"].astype(str).tolist()


class TestLabels:
    @pytest.fixture(autouse=True)
    def _fast(self, monkeypatch):
        monkeypatch.setattr(statfiles, "started", without_process)

    @pytest.fixture
    def path(self, tmp_path):
        ranges = {"sex": [9], "mmse": [{"lo": -99, "hi": -1}, 99]}
        pyreadstat.write_sav(
            LABELLED, tmp_path / "t.sav", variable_value_labels=LABELS, missing_ranges=ranges
        )
        return tmp_path / "t.sav"

    def test_participants_have_levels(self, path):
        people = read_table(path, id="id", numeric=False)
        assert people["sex"].tolist()[:3] == ["Male", "Female", "Male"]
        assert people["sex"].isna().tolist() == [False, False, False, True]
        assert_array_equal(people["mmse"], [28, NAN, NAN, 20])  # labels of a few values only
        assert people["day"].tolist()[0] == "2020-01-02"
        assert people["site"].isna().tolist() == [False, True, False, False]

    def test_a_column_without_any_value_has_no_levels(self, tmp_path):
        frame = pd.DataFrame({"id": ["a", "b"], "sex": [1.0, 2.0], "gone": [NAN, NAN]})
        labels = {"sex": {1: "M", 2: "F"}, "gone": {1: "yes"}}
        pyreadstat.write_sav(frame, tmp_path / "t.sav", variable_value_labels=labels)
        assert statfiles.load_statfile(tmp_path / "t.sav").attrs["labelled"] == ["sex"]

    def test_an_encoding_for_a_format_that_has_none(self, tmp_path):
        WRITE["t.por"](PLAIN, tmp_path / "t.por")
        assert_array_equal(read_table(tmp_path / "t.por", id="ID", encoding="latin-1"), VALUES)

    def test_views_have_levels(self, path):
        frame = read_table(path, id="id", columns=["sex", "mmse"])
        assert frame["sex"].cat.categories.tolist() == ["Male", "Female"]  # in the order of their codes
        assert frame["sex"].tolist()[:3] == ["Male", "Female", "Male"]
        assert_array_equal(frame["mmse"], [28, NAN, NAN, 20])
        assert frame.attrs["types"] == {"sex": "file"}
        assert "1 column with value labels read as their labels: 'sex'" in texts(frame.attrs["notes"])

    def test_ordinal_measures_are_ordered(self, tmp_path):
        codes = pd.DataFrame({"id": list("abcdefgh"), "stage": [3.0, 1.0, 2.0, 3.0] * 2, "x": [1.0] * 8})
        labels = {"stage": {1.0: "mild", 2.0: "some", 3.0: "severe"}}
        measures = {"stage": "ordinal"}
        path = tmp_path / "t.sav"
        pyreadstat.write_sav(codes, path, variable_value_labels=labels, variable_measure=measures)
        stage = read_table(path, id="id")["stage"]
        assert stage.cat.ordered
        assert stage.cat.categories.tolist() == ["mild", "some", "severe"]
        assert_array_equal(read_table(path, id="id", types={"stage": "nominal"})["stage"].cat.ordered, False)

    def test_stata_and_sas_missing(self, tmp_path):
        frame = pd.DataFrame({"id": ["a", "b", "c"], "x": [1.0, NAN, 3.0], "y": [1.0, 2.0, 3.0]})
        values = {"x": ["a", "z"]}
        tagged = pd.DataFrame({"id": ["a", "b", "c"], "x": [1.0, "a", "z"], "y": [1.0, 2.0, 3.0]})
        pyreadstat.write_dta(tagged, tmp_path / "t.dta", missing_user_values=values)
        assert_array_equal(read_table(tmp_path / "t.dta", id="id"), [[1, 1], [NAN, 2], [NAN, 3]])
        frame.to_stata(tmp_path / "u.dta", write_index=False)
        independent = pd.read_stata(tmp_path / "u.dta").set_index("id")
        assert_array_equal(read_table(tmp_path / "u.dta", id="id"), independent)

    def test_encoding(self, tmp_path):
        frame = PLAIN.assign(site=["Köln", "Paris", "Köln"])
        pyreadstat.write_sav(frame, tmp_path / "t.sav")
        assert read_table(tmp_path / "t.sav", id="id", numeric=False)["site"].tolist()[0] == "Köln"

    @pytest.mark.skipif(not REAL.is_dir(), reason="real files not found; set VIEWLOOM_REALFILES")
    def test_a_real_file(self):
        people = read_table(REAL / "sav" / "sample.sav", id="mychar", numeric=False)
        assert people["mylabl"].tolist() == ["Male", "Female", "Male", "Female", "Male"]
        assert people["mynum"].tolist() == [1.1, 1.2, -1000.3, -1.4, 1000.3]
        assert people["mydate"].tolist()[:2] == ["2018-05-06", "1880-05-06"]


class TestR:
    def test_factors_row_names_and_missing(self, tmp_path):
        frame = pd.DataFrame(
            {
                "dx": pd.Categorical(["AD", "CN", None]),
                "x": pd.array([1, None, 3], "Int32"),
                "t": ["u", None, "w"],
            },
            index=["s1", "s2", "s3"],
        )
        rdata.write_rds(tmp_path / "t.rds", for_r(frame))
        people = read_table(tmp_path / "t.rds", id="row.names", numeric=False)
        assert people.index.tolist() == ["s1", "s2", "s3"]
        assert people["dx"].tolist()[:2] == ["AD", "CN"]
        assert people.isna().sum().tolist() == [1, 1, 1]
        assert_array_equal(people["x"], [1, NAN, 3])

    def test_several_objects(self, tmp_path):
        path = tmp_path / "t.RData"
        rdata.write_rda(path, {"one": for_r(PLAIN), "two": for_r(PLAIN.assign(a=0.0)), "text": "x"})
        assert parts_of(path) == ("object", ["one", "two"])
        assert "has 2 tables: 'one', 'two'; set object" in complaint(path)
        assert "no data frame or matrix 'text'" in complaint(path, object="text")
        assert_array_equal(read_table(path, id="id", object="one"), VALUES)

    def test_tables_in_lists(self, tmp_path):
        """As packages of R keep views of the same subjects; the name is that of R."""
        path, views = tmp_path / "t.RData", {"gene": for_r(PLAIN), "lipid": for_r(PLAIN.assign(a=0.0))}
        rdata.write_rda(path, {"study": {"train": views, "group": "x"}})
        assert parts_of(path) == ("object", ["study$train$gene", "study$train$lipid"])
        assert_array_equal(read_table(path, id="id", object="study$train$gene"), VALUES)
        rdata.write_rds(tmp_path / "t.rds", views)
        assert_array_equal(read_table(tmp_path / "t.rds", id="id", object="gene"), VALUES)
        rdata.write_rds(tmp_path / "u.rds", [for_r(PLAIN), "x"])
        assert_array_equal(read_table(tmp_path / "u.rds", id="id"), VALUES)

    def test_lists_beside_a_table_are_not_searched(self, tmp_path):
        """A workspace with a data frame and fitted models, which keep tables of their own."""
        rdata.write_rda(tmp_path / "t.RData", {"volumes": for_r(PLAIN), "fit": {"model": for_r(PLAIN)}})
        assert_array_equal(read_table(tmp_path / "t.RData", id="id"), VALUES)

    def test_columns_that_are_matrices(self):
        """As in spectra of package pls, and in objects of class Surv: named as write.csv does."""
        from viewloom.study.readers.rfiles import _data_frame

        values = {"id": np.array(["a", "b"]), "NIR": np.array([[1.0, 2.0], [3.0, 4.0]]), "y": np.ones(2)}
        frame = _data_frame(values, {"names": list(values)})
        assert frame.columns.tolist() == ["id", "NIR.1", "NIR.2", "y"]
        assert_array_equal(frame[["NIR.1", "NIR.2"]], values["NIR"])
        inner = pd.DataFrame({"u": [1.0, 2.0]})
        assert _data_frame({"x": inner}, {"names": ["x"]}).columns.tolist() == ["x.u"]
        with pytest.raises(StudyError, match="have the names of others"):
            _data_frame({"x": inner, "x.u": np.ones(2)}, {"names": ["x", "x.u"]})

    def test_columns_that_are_arrays_with_names(self):
        """As tapply returns them: numbers, not objects of the library."""
        from viewloom.study.readers.rfiles import _data_frame

        array = pytest.importorskip("xarray").DataArray([1.5, 2.5], {"dim_0": ["a", "b"]})
        frame = _data_frame({"x": array}, {"names": ["x"]})
        assert frame["x"].dtype == np.float64
        assert frame["x"].tolist() == [1.5, 2.5]

    def test_nothing_to_read(self, tmp_path):
        rdata.write_rds(tmp_path / "t.rds", {"a": [1, 2]})
        assert "has no data frame or matrix" in complaint(tmp_path / "t.rds")

    def test_a_sequence_longer_than_any_table(self, tmp_path, monkeypatch):
        whole, path = struct.Struct(">i").pack, tmp_path / "t.rds"
        symbols = [
            whole(2) + whole(1) + whole(0x40009) + whole(len(s)) + s for s in (b"compact_intseq", b"base")
        ]
        kind = whole(2) + whole(13) + whole(1) + whole(13) + whole(254)
        state = whole(14) + whole(3) + struct.pack(">3d", 20, 1, 1)
        head = b"X\n" + whole(3) + whole(0x40000) + whole(0x30500) + whole(5) + b"UTF-8" + whole(238)
        path.write_bytes(head + b"".join(symbols) + kind + state + whole(254))
        assert "has no data frame or matrix" in complaint(path)
        monkeypatch.setattr("viewloom.study.readers.rfiles.MOST_CELLS", 10)
        assert "has too many texts or other objects" in complaint(path)

    def test_dates_and_wide_integers(self):
        from viewloom.study.readers.rfiles import _days, _integer64, _seconds

        assert _days(np.array([0.0, NAN]), {}).astype(str).tolist() == ["1970-01-01T00:00:00", "NaT"]
        assert _seconds(np.array([1.9999999]), {}).astype(str).tolist() == ["1970-01-01T00:00:02"]
        bits = np.array([5, np.iinfo(np.int64).min]).view(np.float64)
        assert_array_equal(_integer64(bits, {}), [5, NAN])

    def test_columns_of_one_name_are_refused(self):
        from viewloom.study.readers.rfiles import _data_frame

        with pytest.raises(StudyError, match="columns of the same name: 'a'"):
            _data_frame({"a": np.ones(2)}, {"names": ["a", "a"]})


class TestCompressed:
    def test_a_zip_with_several_tables_or_none(self, tmp_path):
        path = tmp_path / "t.zip"
        path.write_bytes(zipped({"a.csv": b"id,x\n", "b.tsv": b""}))
        assert "has 2 tables instead of one table: 'a.csv', 'b.tsv'" in complaint(path)
        path.write_bytes(zipped({"../../etc/passwd\x1b": b"x"}))
        assert "no delimited text instead of one table: 'passwd\\\\x1b'" in complaint(path)
        path.write_bytes(zipped({}))
        assert "the zip file is empty" in complaint(path)

    def test_paths_that_leave_the_folder_are_read_in_memory_only(self, tmp_path):
        path = tmp_path / "inner" / "t.zip"
        path.parent.mkdir()
        path.write_bytes(zipped({"../../t.csv": as_csv(PLAIN)}))
        assert_array_equal(read_table(path, id="id"), VALUES)
        assert sorted(one.name for one in tmp_path.rglob("*")) == ["inner", "t.zip"]

    @pytest.mark.parametrize("name", ["t.csv.gz", "t.zip", "t.csv.xz"])
    def test_bombs(self, tmp_path, name, monkeypatch):
        monkeypatch.setattr(packed, "LEAST", 1 << 20)
        path, bomb = tmp_path / name, b"id,a\n" + b"0" * (6 << 20)
        pack = {"gz": gzip.compress, "xz": lzma.compress}.get(name[-2:], lambda text: zipped({"t.csv": text}))
        path.write_bytes(pack(bomb))
        assert "expands to more than 500 times its size" in complaint(path)

    def test_encodings_and_delimiters_as_in_plain_files(self, tmp_path):
        path = tmp_path / "t.tsv.gz"
        path.write_bytes(gzip.compress("id\tä\n007\t1,5\n008\t2,5\n".encode("utf-16")))
        frame = read_table(path, id="id")
        assert (frame.columns.tolist(), frame["ä"].tolist()) == (["ä"], [1.5, 2.5])


class TestList:
    def test_the_page_has_the_list(self):
        if not DOCS.exists():
            pytest.skip("the documentation is not part of the package")
        text = DOCS.read_text(encoding="utf-8")
        assert catalogue.markdown() in text, (
            "run `viewloom formats --markdown` and put its output into the page"
        )

    def test_every_entry(self):
        for one in [*catalogue.files(), *catalogue.formats()]:
            assert one.about
            assert one.example.startswith(("[views.", "[participants]"))
            assert "..." not in one.example
        ends = [end for kind in KINDS.values() for end in kind.suffixes]
        assert len(ends) == len(set(ends))
        assert all(kind_of(Path(f"t{end}")) for end in ends)

    def test_the_command(self):
        run = CliRunner().invoke(app, ["formats"])
        assert run.exit_code == 0
        for word in ("excel", ".xlsx", "pip install viewloom[files]", "sheet", "freesurfer-table", "min_maf"):
            assert re.search(re.escape(word), run.output)
        assert '"formats"' in CliRunner().invoke(app, ["formats", "--json"]).output
