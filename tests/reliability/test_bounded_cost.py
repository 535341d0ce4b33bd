"""Small files that ask for gigabytes are refused in one line, within two gigabytes of memory."""

import gzip
import io
import json
import re
import struct
import subprocess
import sys
import tracemalloc
import zipfile
from contextlib import suppress

import numpy as np
import pandas as pd
import pytest
from old_workbooks import NONE, number, old_workbook, record
from typer.testing import CliRunner

from viewloom.cli import app
from viewloom.study.errors import StudyError
from viewloom.study.readers import arrow, declared, rfiles
from viewloom.study.readers.genotypes import scores
from viewloom.study.readers.tables import read_table
from viewloom.study.readers.workbooks import check_workbook

openpyxl = pytest.importorskip("openpyxl")
pyreadstat = pytest.importorskip("pyreadstat")
pytest.importorskip("python_calamine")
pytest.importorskip("rdata")
pytest.importorskip("resource")

ROWS = [["id", "a"], ["x", 1.5], ["y", 2.5]]
LIMITED = """
import json, resource, sys
from viewloom.study.errors import StudyError
from viewloom.study.readers.tables import read_table

resource.setrlimit(resource.RLIMIT_DATA, (2 << 30, 2 << 30))
told = {}
for path in sys.argv[1:]:
    try:
        found = read_table(path, id="id")["a"]
        told[path] = "read" if found.to_dict() == {"x": 1.5, "y": 2.5} else "read otherwise"
    except StudyError as error:
        told[path] = str(error)
peaks = [resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
print(json.dumps([told, peaks]))
"""


def workbook(change, sheets=1, **parts):
    """An .xlsx whose sheets are changed as text, with further parts."""
    book, made, out = openpyxl.Workbook(), io.BytesIO(), io.BytesIO()
    for one in [book.active, *(book.create_sheet() for _ in range(sheets - 1))]:
        for row in ROWS:
            one.append(row)
    book.save(made)
    with zipfile.ZipFile(made) as source, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as file:
        for name in source.namelist():
            content = source.read(name).decode()
            file.writestr(name, change(content) if f"sheet{sheets}.xml" in name else content)
        for name, content in parts.items():
            file.writestr(f"xl/{name}.xml", content)
    return out.getvalue()


def shared_strings(text, count=1):
    return f'<sst xmlns="x" count="{count}" uniqueCount="{count}"><si><t>{text}</t></si></sst>'


def many_cells(content):
    cells = "".join(f'<row r="{n}"><c r="A{n}" t="s"><v>0</v></c></row>' for n in range(4, 100_000))
    return content.replace("</sheetData>", f"{cells}</sheetData>")


def far_row(content):
    """Cells without a place, in rows that have one."""
    wide = "<c><v>1</v></c>" * 16000
    rows = f'<row r="4">{wide}</row><row r="1000000"><c><v>1</v></c></row>'
    return content.replace("</sheetData>", f"{rows}</sheetData>")


def integers(*numbers):
    return struct.pack(f">{len(numbers)}i", *numbers)


def of_r(*parts):
    return b"X\n" + integers(2, 0, 0) + b"".join(parts)


def texts_of_r(*texts):
    return integers(16, len(texts)) + b"".join(integers(0x40009, len(one)) + one for one in texts)


def symbol(name):
    return integers(1, 0x40009, len(name)) + name


def open_document(*rows):
    names = "".join(
        f' xmlns:{one}="urn:oasis:names:tc:opendocument:xmlns:{one}:1.0"'
        for one in ("office", "table", "text")
    )
    body = f'<office:body><office:spreadsheet><table:table table:name="s">{"".join(rows)}</table:table>'
    content = (
        f"<office:document-content{names}>{body}</office:spreadsheet></office:body></office:document-content>"
    )
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("mimetype", "application/vnd.oasis.opendocument.spreadsheet")
        file.writestr("META-INF/manifest.xml", "<manifest:manifest/>")
        file.writestr("content.xml", content)
    return out.getvalue()


def row_of_document(*texts, times=1):
    cells = "".join(
        f'<table:table-cell office:value-type="string"><text:p>{one}</text:p></table:table-cell>'
        for one in texts
    )
    return f'<table:table-row table:number-rows-repeated="{times}">{cells}</table:table-row>'


def old_stata(folder):
    """A .dta with another number of rows in its header."""
    path = folder / "whole.dta"
    pyreadstat.write_dta(pd.DataFrame(ROWS[1:], columns=ROWS[0]), path, version=8)
    content = path.read_bytes()
    return content[:6] + struct.pack("<i", 2**31 - 1) + content[10:]


def damaged_page(folder):
    """A .parquet whose only page declares two gigabytes."""
    path = folder / "whole.parquet"
    frame = pd.DataFrame({"id": np.arange(1000)})
    frame.to_parquet(path, index=False, engine="pyarrow", use_dictionary=False)
    content = path.read_bytes()
    assert content[4:7] == b"\x15\x00\x15"  # the type of the page is 0; its size follows
    end = next(at for at in range(7, 17) if content[at] < 128) + 1
    return content[:7] + b"\xfe\xff\xff\xff\x0f" + content[end:]


def damaged_block(folder):
    """A .feather of which a compressed buffer declares eight gigabytes."""
    path = folder / "whole.feather"
    pd.DataFrame({"id": np.arange(1000)}).to_feather(path, compression="zstd")
    content = path.read_bytes()
    assert content.count(struct.pack("<q", 8000)) >= 1
    return content.replace(struct.pack("<q", 8000), struct.pack("<q", 1 << 33))


def mixed_columns():
    rng = np.random.default_rng(0)
    kinds = pd.Categorical(rng.choice(["x", "y"], size=300))
    texts = [f"s{i}" for i in range(300)]
    return pd.DataFrame({"id": texts, "kind": kinds, "a": rng.normal(size=300), "b": rng.random(300) < 0.5})


SPREAD = "memory ran out; it is damaged, or has cells far from the table"
BOMBS = {  # name of a file -> what it has, and what is told
    "whole.xls": (old_workbook(ROWS), "^read$"),
    "far.xls": (old_workbook(ROWS, number(65535, 65535, 1.0)), SPREAD),
    "sheets.xls": (old_workbook(ROWS, number(65535, 255, 1.0), sheets=20), SPREAD),
    "size.xls": (old_workbook(ROWS, record(0x200, struct.pack("<IIHHH", 0, NONE, 0, 0xFFFF, 0))), SPREAD),
    "header.xls": (old_workbook(ROWS, table_length=NONE), f"{SPREAD}|^read$"),  # by versions of the library
    "far.xlsx": (workbook(lambda content: content.replace('r="B3"', 'r="XFD1048576"'), 2), SPREAD),
    "rows.xlsx": (workbook(far_row), SPREAD),
    "count.xlsx": (workbook(str, sharedStrings=shared_strings("x", 10**9)), SPREAD),
    "texts.xlsx": (workbook(many_cells, sharedStrings=shared_strings("z" * 32000)), SPREAD),
    "texts.ods": (
        open_document(row_of_document("id", "a"), row_of_document("z" * 30000, "q", times=10**6)),
        SPREAD,
    ),
    "bytecode.rds": (of_r(integers(21, 2**31 - 1, 254, 0)), "is damaged, or has objects that are not read"),
    "count.rds": (b"A\n2\n0\n0\n14\n2147483647\n1\n", "is damaged, or has objects that are not read"),
    "text.rds": (
        of_r(texts_of_r(*[b"a"] * 100_000, b"b" * 100_000)),
        r"has no data frame or matrix \(list\)",
    ),
    "times.rds": (
        of_r(
            integers(14 | 0x300, 1), struct.pack(">d", 1),
            integers(0x402), symbol(b"tsp"), integers(14, 3), struct.pack(">3d", 0, 4e9, 1),
            integers(0x402), symbol(b"class"), texts_of_r(b"ts"), integers(254),
        ),
        r"has no data frame or matrix \(ndarray\)",
    ),
    "rows.dta": (old_stata, "memory ran out while it was read"),
    "page.parquet": (damaged_page, "would take more than 500 times its size"),
    "block.feather": (damaged_block, "would take more than 500 times its size"),
}  # fmt: skip


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """What is told of each file, and the most memory of this process and of those that it started, in MiB."""
    folder = tmp_path_factory.mktemp("files")
    for name, (content, _) in BOMBS.items():
        (folder / name).write_bytes(content(folder) if callable(content) else content)
    command = [sys.executable, "-c", LIMITED, *(str(folder / name) for name in BOMBS)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    messages, peaks = json.loads(done.stdout)
    return {path.rpartition("/")[2]: message for path, message in messages.items()}, [k >> 10 for k in peaks]


@pytest.mark.skipif(sys.platform != "linux", reason="the limit of memory is one of Linux")
class TestTwoGigabytes:
    @pytest.mark.parametrize("name", BOMBS)
    def test_one_line(self, told, name):
        message = told[0][name]
        assert re.search(BOMBS[name][1], message)
        assert "\n" not in message

    def test_memory(self, told):
        assert max(told[1]) < 1500

    def test_the_command_ends_with_2(self, tmp_path):
        (tmp_path / "far.xls").write_bytes(BOMBS["far.xls"][0])
        (tmp_path / "study.toml").write_text(
            '[views.a]\npath = "far.xls"\nid = "id"\n[model]\nn_clusters = 2\n'
        )
        done = CliRunner().invoke(app, ["check", str(tmp_path / "study.toml")])
        assert done.exit_code == 2
        assert SPREAD in " ".join(done.output.split())


class TestObjectsOfR:
    def test_too_many(self, tmp_path, monkeypatch):
        monkeypatch.setattr(rfiles, "MOST_OBJECTS", 50)
        path = tmp_path / "t.rds"
        path.write_bytes(of_r(integers(19, 100, *[254] * 100)))
        with pytest.raises(StudyError, match="has too many texts or other objects"):
            rfiles.load_rfile(path, None, [])

    def test_equal_texts_are_one_object(self, tmp_path, monkeypatch):
        monkeypatch.setattr(rfiles, "MOST_OBJECTS", 50)
        path = tmp_path / "t.rds"
        path.write_bytes(of_r(texts_of_r(*[b"a", b"b"] * 100)))
        with pytest.raises(StudyError, match=r"has no data frame or matrix \(ndarray\)"):
            rfiles.load_rfile(path, None, [])

    def test_texts_of_very_different_lengths(self, tmp_path, monkeypatch):
        rdata = pytest.importorskip("rdata")
        frame = pd.DataFrame({"id": ["a", "b"], "note": ["x" * 500, "y"], "a": [1.5, 2.5]})
        rdata.write_rds(
            tmp_path / "t.rds", frame.astype({name: pd.StringDtype("python") for name in ("id", "note")})
        )
        monkeypatch.setattr(rfiles, "WIDEST", 100)
        found = rfiles.load_rfile(tmp_path / "t.rds", None, [])
        assert found["note"].tolist() == frame["note"].tolist()
        assert found["a"].tolist() == [1.5, 2.5]


class TestColumnFiles:
    """Parquet and Feather, in which equal cells take no space."""

    @pytest.fixture(autouse=True)
    def _small(self, monkeypatch):
        monkeypatch.setattr(arrow, "LARGE", 1 << 16)

    @pytest.mark.parametrize("end", ["parquet", "feather"])
    @pytest.mark.parametrize("column", ["numbers", "texts"])
    def test_refused(self, tmp_path, end, column):
        made = {
            "numbers": lambda: np.zeros(300_000),
            "texts": lambda: pd.Categorical.from_codes(np.zeros(5000, dtype=int), ["q" * 2000]),
        }[column]()
        path = tmp_path / f"t.{end}"
        options = {"compression": "zstd"}
        getattr(pd.DataFrame({"id": made}), f"to_{end}")(path, **options)
        with pytest.raises(StudyError, match="would take more than 500 times its size in memory"):
            read_table(path, id="id")

    @pytest.mark.parametrize("end", ["parquet", "feather"])
    def test_refused_before_it_is_read(self, tmp_path, monkeypatch, end):
        monkeypatch.setattr(arrow, "_table", None)
        path = tmp_path / f"t.{end}"
        text = pd.DataFrame({"id": ["z" * 20_000] * 1000})
        getattr(text, f"to_{end}")(
            path, compression="zstd", **({"use_dictionary": False} if end == "parquet" else {})
        )
        with pytest.raises(StudyError, match="would take more than 500 times its size in memory"):
            read_table(path, id="id")
        if end == "parquet":
            for read in (
                lambda: list(arrow.load_blocks(path, ["id"], 10)),
                lambda: arrow.first_rows(path, 1, 1),
            ):
                with pytest.raises(StudyError, match="would take more than 500 times its size in memory"):
                    read()

    @pytest.mark.parametrize(
        "options",
        [
            {},
            {"compression": "none", "data_page_version": "2.0"},
            {"compression": "gzip", "row_group_size": 70, "data_page_size": 100, "write_page_index": True},
            {"use_dictionary": False, "write_statistics": False},
        ],
    )
    def test_sizes_of_pages(self, tmp_path, options):
        """Of each column what its metadata say, without the headers of pages."""
        parquet = pytest.importorskip("pyarrow.parquet")
        frame = mixed_columns()
        frame.to_parquet(tmp_path / "t.parquet", **options)
        about = parquet.read_metadata(tmp_path / "t.parquet")
        groups = [about.row_group(g) for g in range(about.num_row_groups)]
        whole = sum(group.column(j).total_uncompressed_size for group in groups for j in range(4))
        found = declared.pages_size(tmp_path / "t.parquet", about)
        assert 0.5 * whole < found < whole + declared.WIDTH * frame.size

    @pytest.mark.parametrize("compression", ["uncompressed", "lz4", "zstd"])
    def test_sizes_of_blocks(self, tmp_path, compression):
        frame = mixed_columns()
        frame.to_feather(tmp_path / "t.feather", compression=compression, chunksize=70)
        used = pytest.importorskip("pyarrow").Table.from_pandas(frame).nbytes
        assert used <= declared.feather_size(tmp_path / "t.feather") < 4 * used

    @pytest.mark.parametrize("end", ["parquet", "feather"])
    def test_damaged_bytes(self, tmp_path, end):
        """Any file is read, or refused."""
        path, rng = tmp_path / f"t.{end}", np.random.default_rng(0)
        getattr(mixed_columns(), f"to_{end}")(path)
        content = path.read_bytes()
        for _ in range(300):
            changed = bytearray(content)
            for at in rng.integers(len(content), size=3):
                changed[at] = rng.integers(256)
            path.write_bytes(bytes(changed))
            with suppress(StudyError):
                arrow.load_arrow(path)

    @pytest.mark.parametrize("end", ["parquet", "feather"])
    def test_texts_stay_as_they_are(self, tmp_path, end):
        kinds = pd.Categorical(["x", "y", "x"])
        frame = pd.DataFrame({"id": ["a", "b", None], "kind": kinds, "a": [1.0, 2.0, 3.0]})
        getattr(frame, f"to_{end}")(tmp_path / f"t.{end}")
        pd.testing.assert_frame_equal(arrow.load_arrow(tmp_path / f"t.{end}"), frame)

    @pytest.mark.parametrize("end", ["parquet", "feather"])
    def test_lists_of_texts(self, tmp_path, end):
        frame = pd.DataFrame({"id": ["a", "b"], "words": [["x", "y"], ["z"]]})
        getattr(frame, f"to_{end}")(tmp_path / f"t.{end}")
        found = arrow.load_arrow(tmp_path / f"t.{end}")
        assert [list(words) for words in found["words"]] == [["x", "y"], ["z"]]


def test_a_part_of_a_workbook_that_is_longer_than_the_file(tmp_path):
    content = workbook(str)
    at = content.index(b"PK\1\2")  # the first entry of the directory
    path = tmp_path / "t.xlsx"
    path.write_bytes(content[: at + 20] + struct.pack("<I", 2**31 - 1) + content[at + 24 :])
    with pytest.raises(StudyError, match="is not a valid workbook"):
        check_workbook(path)


class TestWeights:
    """Files of weights of a score, which may be large."""

    @pytest.fixture(params=[".txt", ".txt.gz"])
    def path(self, tmp_path, request):
        text, path = b"rsID\teffect_allele\teffect_weight\nrs1\tA\t0.5\n", tmp_path / f"w{request.param}"
        path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
        return path

    def test_a_small_one_takes_little_memory(self, path):
        tracemalloc.start()
        try:
            scores.load_weights(path)
            assert tracemalloc.get_traced_memory()[1] < 1 << 26
        finally:
            tracemalloc.stop()

    def test_too_large(self, path, monkeypatch):
        monkeypatch.setattr(scores, "LARGEST", 20)
        with pytest.raises(StudyError, match="larger than 0 MiB; use fewer variants"):
            scores.load_weights(path)
