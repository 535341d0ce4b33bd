"""Pipes, sockets, devices, folders, loops and empty files in the place of files: refused in a line."""

import os
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from small import STUDY, write_small
from typer.testing import CliRunner

import viewloom as vl
from viewloom.cli.commands import app
from viewloom.study.errors import StudyError
from viewloom.study.readers import FORMATS, sniff

pytestmark = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="files of POSIX")
SECONDS = 300  # within which everything is refused; far more than it takes, on a busy machine, too
NEEDED = {
    "table": {"id": "id"},
    "long": {"id": "id", "name": "region", "value": "value"},
    "codes": {"id": "id", "code": "code"},
    "h5mu": {"modality": "rna"},
    "nifti": {"atlas_image": "atlas.nii", "atlas_labels": "atlas.tsv"},
}
SUFFIX = {"plink": ".bed", "h5mu": ".h5mu", "h5ad": ".h5ad"}


@pytest.fixture(autouse=True)
def _in_time():
    """Nothing waits for a pipe that nobody writes to."""

    def late(*_):
        raise AssertionError("waited for a file that is none")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(SECONDS)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def pipe(path):
    os.mkfifo(path)


def plug(path):
    """A socket; its path may be 107 bytes long at most."""
    here = Path.cwd()
    os.chdir(path.parent)
    with socket.socket(socket.AF_UNIX) as opened:
        opened.bind(path.name)
    os.chdir(here)


def endless(path):
    path.symlink_to("/dev/zero")


def loop(path):
    path.symlink_to(path)


def dangling(path):
    path.symlink_to(path.with_name("not there"))


def folder(path):
    path.mkdir()


def nothing(path):
    path.write_bytes(b"")


KINDS = [pipe, plug, endless, loop, dangling, folder, nothing]


def put(kind, path):
    """That in the place of a file."""
    path.unlink(missing_ok=True)
    kind(path)


def refused(*arguments):
    """What a command says, in lines without a traceback, with exit code 2."""
    said = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert said.exit_code == 2, said.output
    lines = said.stderr.strip().split("\n")
    assert len(lines) == 1, lines
    assert lines[0].startswith("Error: ")
    assert "failed" not in lines[0]
    return lines[0]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("format", FORMATS)
def test_every_reader(tmp_path, format, kind):
    path = tmp_path / f"file{SUFFIX.get(format, '.csv')}"
    put(kind, path)
    if format == "plink":
        for suffix in (".bim", ".fam"):
            put(kind, path.with_suffix(suffix))
    with pytest.raises((StudyError, ImportError)) as told:
        FORMATS[format](path, **NEEDED.get(format, {}))
    assert "\n" not in str(told.value)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("option", [{"encoding": "utf-8"}, {"delimiter": "comma"}])
def test_a_reader_that_is_told_how_a_file_is_written(tmp_path, kind, option):
    put(kind, tmp_path / "file.csv")
    with pytest.raises(StudyError):
        FORMATS["table"](tmp_path / "file.csv", id="id", **option)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".bed", ".h5ad", ".h5mu", ".npy"])
def test_looking_for_a_format(tmp_path, kind, suffix):
    put(kind, tmp_path / f"file{suffix}")
    assert sniff(tmp_path / f"file{suffix}") in (None, "h5ad", "h5mu", "table")


@pytest.mark.parametrize("kind", [pipe, endless])
def test_a_stats_file_that_is_none(tmp_path, kind):
    (tmp_path / "sub-01" / "stats").mkdir(parents=True)
    put(kind, tmp_path / "sub-01" / "stats" / "aseg.stats")
    with pytest.raises(StudyError, match="have no table"):
        FORMATS["freesurfer"](tmp_path)


@pytest.fixture
def files(tmp_path):
    return write_small(tmp_path / "files")


COMMANDS = ["check", "fit", "compare", "select"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("command", COMMANDS)
def test_a_study_file_that_is_none(tmp_path, command, kind):
    put(kind, tmp_path / "study.toml")
    refused(command, tmp_path / "study.toml")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("table", ["participants.csv", "vbm.csv", "fdg.csv"])
def test_a_table_that_is_none(files, table, kind):
    put(kind, files / table)
    for command in COMMANDS:
        refused(command, files / "study.toml")


@pytest.mark.parametrize("kind", [pipe, endless, plug])
def test_the_way_out_is_said(files, kind):
    put(kind, files / "vbm.csv")
    said = refused("check", files / "study.toml")
    assert "vbm.csv is a" in said
    assert "only files and folders are read" in said


@pytest.mark.parametrize("kind", KINDS)
def test_a_model_that_is_none(files, kind):
    put(kind, files / "model.safetensors")
    refused("predict", files / "model.safetensors", files / "study.toml")
    with pytest.raises((ValueError, FileNotFoundError)):
        vl.load(files / "model.safetensors")


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_whose_parts_are_none(files, kind):
    (files / "run").mkdir()
    for name in ("run.json", "summary.json"):
        put(kind, files / "run" / name)
    refused("report", files / "run")
    refused("fit", files / "study.toml", "--output", files / "run")


def identity(path):
    """What a write would change; reading changes the time of access."""
    found = path.lstat()
    return found.st_ino, found.st_mode, found.st_size, found.st_mtime_ns, found.st_ctime_ns


@pytest.mark.parametrize("kind", [pipe, plug, endless, folder])
def test_an_output_that_is_none(files, kind):
    """What is there is not replaced, and not written to."""
    put(kind, files / "out.csv")
    before = identity(files / "out.csv")
    refused("select", files / "study.toml", "--output", files / "out.csv")
    put(kind, files / "out.png")
    refused("check", files / "study.toml", "--picture", files / "out.png", "--quiet")
    assert identity(files / "out.csv") == before


@pytest.mark.parametrize("kind", KINDS)
def test_a_folder_that_is_none(tmp_path, kind):
    put(kind, tmp_path / "data")
    refused("init", tmp_path / "data")


@pytest.mark.parametrize("kind", KINDS)
def test_a_folder_with_something_strange_in_it(files, kind):
    (files / "study.toml").unlink()
    for other in ("freesurfer", "genotypes"):
        shutil.rmtree(files / other)
    put(kind, files / "strange.csv")
    put(kind, files / "strange.parquet")
    said = CliRunner().invoke(app, ["init", str(files)])
    assert said.exit_code in (0, 2), said.output
    assert "Traceback" not in said.output


@pytest.mark.parametrize("kind", [pipe, plug, endless])
@pytest.mark.parametrize("suffix", [".npy", ".parquet", ".zarr"])
def test_blocks_on_disk(tmp_path, suffix, kind):
    put(kind, tmp_path / f"view{suffix}")
    with pytest.raises(ValueError, match="only files and folders are read"):
        vl.KernelMultiviewNMF(2).fit({"a": str(tmp_path / f"view{suffix}"), "b": np.zeros((9, 2))})


@pytest.mark.parametrize("kind", [pipe, plug, endless])
def test_a_checkpoint_that_is_none(tmp_path, kind):
    put(kind, tmp_path / "checkpoint.json")
    views, _ = vl.simulate.blobs_views(30, random_state=0)
    with pytest.raises(ValueError, match="not a checkpoint"):
        vl.select(
            views, {"lam": [1.0]}, n_clusters=2, random_state=0, checkpoint=tmp_path / "checkpoint.json"
        )


@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="becomes another user")
@pytest.mark.parametrize("name", ["study.toml", "vbm.csv"])
def test_files_that_may_not_be_read(tmp_path, name):
    """Read as a user who has no right to."""
    files = write_small(tmp_path / "files")
    for path in [files, *tmp_path.parents]:
        if path.stat().st_uid == 0 and not path.stat().st_mode & 0o001:
            pytest.skip("other users do not get here at all")
    (files / name).chmod(0)
    code = (
        "import os, sys\nfrom viewloom.cli.commands import app\nos.setuid(12345)\napp(['check', sys.argv[1]])"
    )
    command = [sys.executable, "-c", code, str(files / "study.toml")]
    said = subprocess.run(command, check=False, capture_output=True, text=True, timeout=300)
    assert said.returncode == 2, said.stderr
    assert "permission denied" in said.stderr


@pytest.mark.parametrize("name", ["two\nlines", "bell\a", "\x1b[31mred", "carriage\rreturn"])
def test_names_of_files_that_break_lines(tmp_path, name):
    files = write_small(tmp_path / "files")
    (files / "vbm.csv").rename(files / f"{name}.csv")
    escaped = "".join(f"\\u{ord(c):04x}" if ord(c) < 32 else c for c in name)
    (files / "study.toml").write_text(STUDY.replace("vbm.csv", f"{escaped}.csv"), encoding="utf-8")
    said = refused("check", files / "study.toml")
    assert "control characters" in said
    (files / "study.toml").rename(files / f"{name}.toml")
    refused("check", files / f"{name}.toml")
    refused("report", files / name)
    refused("predict", files / name, files / f"{name}.toml")
