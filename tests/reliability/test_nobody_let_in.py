"""A model file carries no code, a study writes nowhere else, tables start nothing, and nobody is called."""

import csv
import io
import json
import pickle
import socket
import struct
import zipfile
from functools import partial

import numpy as np
import pandas as pd
import pytest
import typer
from hostile import cases, no_hang
from hypothesis import given
from hypothesis import strategies as st
from safetensors import SafetensorError
from safetensors.numpy import load as load_tensors
from safetensors.numpy import save_file

import viewloom as vl
from viewloom.cli import commands as cli
from viewloom.data.simulated import adni_like
from viewloom.models import persistence
from viewloom.models.persistence import DamagedFile
from viewloom.study import example
from viewloom.study.run import computations as stages
from viewloom.study.run.tables import file_names, write_csv

FORMULA = "=+-@\t\r\n"
DEVICES = {"con", "prn", "aux", "nul", *(f"{port}{i}" for port in ("com", "lpt") for i in range(1, 10))}


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "m.safetensors"
    X = np.random.default_rng(0).standard_normal((9, 2))
    vl.KernelMultiviewNMF(2, kernel="gaussian", random_state=0).fit({"a": X, "b": X[:, :1]}).save(path)
    return path


@pytest.fixture(scope="module")
def target(tmp_path_factory):
    return tmp_path_factory.mktemp("mutated") / "m.safetensors"


def header_of(content):
    (length,) = struct.unpack("<Q", content[:8])
    return json.loads(content[8 : 8 + length]), content[8 + length :]


def joined(header, data):
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def flipped(content, random):
    """Up to eight bits turned over, somewhere or in the header."""
    changed = bytearray(content)
    end = random.choice([len(changed), 8, 400])
    for _ in range(random.choice([1, 1, 2, 8])):
        changed[random.randrange(end)] ^= 1 << random.randrange(8)
    return bytes(changed)


def cut(content, random):
    return content[: random.randrange(len(content))]


def grown(content, random):
    where = random.randrange(len(content) + 1)
    return content[:where] + random.randbytes(random.randrange(1, 64)) + content[where:]


def overwritten(content, random):
    start, size = random.randrange(len(content)), random.randrange(1, 200)
    return content[:start] + random.randbytes(size) + content[start + size :]


def spliced(content, random):
    """A piece of the file in another place of it."""
    start, size, to = random.randrange(len(content)), random.randrange(1, 300), random.randrange(len(content))
    piece = content[start : start + size]
    return content[:to] + piece + content[to + len(piece) :]


def wrong_length(content, random):
    return struct.pack("<Q", random.choice([0, 1, 7, 2**31, 2**40, 2**62, 2**63, 2**64 - 1])) + content[8:]


def wrong_tensor(content, random):
    """One entry of the table of tensors: type, shape or place."""
    header, data = header_of(content)
    name = random.choice([key for key in header if key != "__metadata__"])
    entry = header[name]
    field = random.choice(["dtype", "shape", "data_offsets"])
    entry[field] = random.choice(
        {
            "dtype": ["I64", "F16", "BF16", "BOOL", "F8_E4M3", "object", "U8", "", None, "F64 "],
            "shape": [[-1], [2**63], [2**32, 2**32], [0], [], [1.5], "x", [-2, -9], [10**30]],
            "data_offsets": [[0, 0], [-8, 8], [8, 0], [0, 2**63], [2**64 - 1, 2**64 - 1], [], [0], "x"],
        }[field]
    )
    return joined(header, data)


def swapped_tensors(content, random):
    header, data = header_of(content)
    names = sorted(key for key in header if key != "__metadata__")
    a, b = random.sample(names, 2)
    header[a], header[b] = header[b], header[a]
    return joined(header, data)


def renamed_tensor(content, random):
    header, data = header_of(content)
    name = random.choice([key for key in header if key != "__metadata__"])
    header[random.choice(["../x", "", "\0", "99", "x" * 9999])] = header.pop(name)
    return joined(header, data)


def wrong_metadata(content, random):
    """Our own entry: not there, not text, not JSON, of another kind, or deep."""
    header, data = header_of(content)
    about = random.choice(
        [None, {}, {"viewloom": 3}, {"viewloom": ""}, {"viewloom": "[]"}, {"viewloom": "{"}, {"other": "{}"},
         {"viewloom": "[" * 3000}, {"viewloom": "1" * 9999}, {"viewloom": "NaN"}]
    )  # fmt: skip
    header["__metadata__"] = about
    return joined(header, data)


def wrong_entry(content, random):
    """One of our entries of another kind or value, with the old digest."""
    header, data = header_of(content)
    ours = json.loads(header["__metadata__"]["viewloom"])
    key = random.choice(list(ours))
    ours[key] = random.choice(
        [None, 3, "", "0", "-1", "9", "٣", "²", "9" * 5000, "x", [], ours["model"][: random.randrange(99)]]
    )
    header["__metadata__"]["viewloom"] = json.dumps(ours)
    return joined(header, data)


def disguised(content, random):
    """Another format under our name, before, after or instead of ours."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("data.pkl", pickle.dumps([1]))
    other = random.choice(
        [pickle.dumps(Ellipsis), buffer.getvalue(), b"\x93NUMPY", b"\x89HDF\r\n\x1a\n", b"PK\x03\x04"]
    )
    return random.choice([other, other + content, content + other, content[:8] + other])


MUTATIONS = [
    flipped, flipped, flipped, cut, grown, overwritten, spliced, wrong_length, wrong_tensor, wrong_tensor,
    swapped_tensors, renamed_tensor, wrong_metadata, wrong_entry, disguised,
]  # fmt: skip


@cases(700, nightly=100_000)
@given(st.sampled_from(MUTATIONS), st.randoms(use_true_random=False))
def test_changed_model_files_are_refused(saved, target, mutate, random):
    content = saved.read_bytes()
    changed = mutate(content, random)
    if _is_the_same(content, changed):
        return
    target.write_bytes(changed)
    with no_hang(), pytest.raises(DamagedFile):
        vl.load(target)


def _is_the_same(content, changed):
    """Whether names, numbers and metadata agree: the same model, spelt differently or in another order."""
    try:
        return _meaning(content) == _meaning(changed)
    except (ValueError, KeyError, TypeError, AttributeError, struct.error, SafetensorError):
        return False


def _meaning(content):
    header, _ = header_of(content)
    tensors = {name: (X.dtype.str, X.shape, X.tobytes()) for name, X in load_tensors(content).items()}
    return header["__metadata__"], tensors


@cases(100)
@given(st.randoms(use_true_random=False))
def test_forged_structures_make_nothing_but_models(saved, target, random):
    """The digest is right: somebody who means harm has put another value into the structure."""
    metadata, arrays = persistence._read(saved)
    part = random.choice(["model", "model", "extra"])
    structure = [json.loads(metadata[part])]
    places = list(_places(structure))
    holder, key = random.choice(places)
    holder[key] = random.choice(
        [None, -1, 2**70, "x", [], {}, {"tag": "Popen"}, {"is": "KernelMultiviewNMF"}, {"tensor": "0"},
         {"tag": "kernel.gaussian", "version": 1, "state": {"sigma": 1.0}}, {"tag": "geometry", "version": 1},
         {"tag": "geometry.gram", "version": 1, "state": {"X": 3}},
         {"tag": "shared_graph", "version": 1, "state": []},
         {"tensor": "nothing"}, {"tensor": []}, {"names": 3}, {"dict": [[1]]}, {"number": "nan"},
         {"sparse": [-1, 2]}, {"tag": ["list"]}, {"tag": {}},
         json.loads(json.dumps(random.choice(places)[0]))]
    )  # fmt: skip
    metadata[part] = json.dumps(structure[0])
    metadata["digest"] = persistence._digest(metadata, arrays)
    save_file(arrays, target, {persistence.KEY: json.dumps(metadata)})
    with no_hang():
        try:
            model = vl.load(target)
        except DamagedFile:
            return
        assert isinstance(model, vl.KernelMultiviewNMF)


def _places(value):
    """Every place of a structure at which a value stands."""
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
        yield value, key
        if isinstance(inner, (dict, list)):
            yield from _places(inner)


@cases(100)
@given(
    st.lists(
        st.text(max_size=30) | st.sampled_from(["..", "a/../b", "/etc", "CON", "nul.", "a\0b"]), min_size=1
    )
)
def test_names_of_views_stay_in_the_folder(names):
    made = [f"importance_{name}.csv" for name in file_names(names)]
    assert len({name.casefold() for name in made}) == len(names)
    for name in made:
        assert not set(name) & set('/\\:*?"<>|\0')
        assert len(name.encode()) < 255
        assert name.split(".")[0].casefold() not in DEVICES


@pytest.mark.parametrize(
    "name", ["../out", "/tmp/out", "a/b", "..", "a\\b", "a\0b", "a\nb", "", ".hidden", "x" * 99, "a:b", "~"]
)
def test_a_study_cannot_name_a_view_like_a_path(small_study, viewloom, tmp_path, name):
    folder = small_study(tmp_path)
    text = (folder / "study.toml").read_text(encoding="utf-8")
    (folder / "study.toml").write_text(
        text.replace("[views.vbm]", f"[views.{json.dumps(name)}]"), encoding="utf-8"
    )
    before = _tree(tmp_path)
    result = viewloom("fit", folder / "study.toml", "--jobs", 1)
    assert result.exit_code == 2
    assert result.stderr.startswith("Error: study.toml, line")
    assert _tree(tmp_path) == before


@pytest.mark.parametrize("name", ["CON", "aux.txt", "-rf"])
def test_what_a_study_may_name_a_view_is_written_into_the_run_folder_only(
    small_study, viewloom, tmp_path, name
):
    folder = small_study(tmp_path)
    text = (folder / "study.toml").read_text(encoding="utf-8")
    (folder / "study.toml").write_text(
        text.replace("[views.vbm]", f"[views.{json.dumps(name)}]"), encoding="utf-8"
    )
    before = _tree(tmp_path)
    result = viewloom("fit", folder / "study.toml", "--jobs", 1, "--quiet")
    added = _tree(tmp_path) - before
    assert result.exit_code == 2 or added
    assert all(path.startswith("files/study-results") for path in added)
    assert not any(path.rpartition("/")[2].split(".")[0].casefold() in DEVICES for path in added)


def _tree(folder):
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*")}


@cases(60)
@given(st.data())
def test_tables_start_no_formula(tmp_path_factory, data):
    """Whatever the text: no cell that a spreadsheet reads begins like a formula, and no row is added."""
    text = st.text(
        alphabet=st.sampled_from([*FORMULA, '"', ",", ";", "'", " ", "a", "1", "\0", "\u2028"]), max_size=6
    )
    columns = data.draw(st.lists(text, min_size=1, max_size=3, unique=True))
    rows = data.draw(st.lists(st.lists(text, min_size=len(columns), max_size=len(columns)), max_size=3))
    path = tmp_path_factory.getbasetemp() / "table.csv"
    write_csv(pd.DataFrame(rows, columns=columns, dtype=object), path)
    with path.open(encoding="utf-8", newline="") as file:
        found = list(csv.reader(file))
    assert len(found) == len(rows) + 1
    assert not any(cell.startswith(tuple(FORMULA)) for row in found for cell in row)


@pytest.fixture
def no_network(monkeypatch):
    """Every way out closed."""

    def refuse(*arguments, **settings):
        raise AssertionError("the network was touched")

    for name in ("connect", "connect_ex", "sendto", "sendmsg", "bind", "listen"):
        monkeypatch.setattr(socket.socket, name, refuse)
    for name in ("create_connection", "create_server", "getaddrinfo", "gethostbyname", "gethostbyaddr"):
        monkeypatch.setattr(socket, name, refuse)


@pytest.fixture
def quick(monkeypatch):
    """Small cohorts, and every method and command with one setting."""
    pytest.importorskip("bed_reader")
    monkeypatch.setattr(example, "write_example", partial(example.write_example, sizes=(12, 16, 24)))
    monkeypatch.setattr("viewloom.cli.demo.adni_like", partial(adni_like, 10, 10, 10))
    text = example.STUDY.replace('"controls" ', '"all" ') + 'kernel = "linear"\n'
    monkeypatch.setattr(example, "STUDY", text)
    monkeypatch.setattr(stages.comparison, "method_names", lambda views: ["k-means"])
    monkeypatch.setattr(stages.comparison, "PAPER_GRID", {"lam": [10.0]})
    methods = {stages.comparison._shown_name(method.name): method for method in stages.comparison.METHODS}
    monkeypatch.setattr(stages.comparison, "METHODS", list(methods.values()))  # one row of each grid
    monkeypatch.setattr(cli, "GRID", {"lam": [10.0]})


WHOLE = ("fit", "report", "rename", "figures", "replicate")  # commands whose reports are looked at


def every_command(folder, study):
    """Each command of the program, in an order in which it works."""
    results = study.parent / "study-results"
    return {
        "simulate": ("simulate", folder / "simulated"),
        "init": ("init", folder / "bare", "--schema"),
        "check": ("check", study, "--picture", folder / "views.svg"),
        "fit": ("fit", study, "--jobs", 1, "--compare", "--seeds", 1),
        "predict": ("predict", results, study),
        "report": ("report", results),
        "rename": ("rename", results, "1=limbic"),
        "figures": ("figures", results, "--format", "svg", "--only", "weights"),
        "paper": ("paper", results, "--output", folder / "written", "--format", "svg"),
        "formats": ("formats",),
        "replicate": ("replicate", results, study, "--output", folder / "replicated", "--jobs", 1),
        "compare": ("compare", study, "--seeds", 1, "--jobs", 1, "--output", folder / "compared"),
        "select": ("select", study, "--jobs", 1),
        "demo": ("demo", "--output", folder / "demo", "--jobs", 1),
    }


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_network_is_never_touched(small_study, viewloom, tmp_path, no_network, quick):
    study = small_study(tmp_path) / "study.toml"
    bare = small_study(tmp_path / "other").rename(tmp_path / "bare")
    (bare / "study.toml").unlink()
    commands = every_command(tmp_path, study)
    others = {"app"}  # serves pages on the loopback interface: see tests/app
    assert set(commands) | others == set(typer.main.get_command(cli.app).commands)
    for name, command in commands.items():
        done = viewloom(*command, whole_report=name in WHOLE)
        assert done.exit_code == 0, done.output
    page = (study.parent / "study-results" / "report.html").read_text(encoding="utf-8")
    assert "Content-Security-Policy" in page
    assert 'src="http' not in page
