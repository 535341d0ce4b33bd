"""Full disks, folders that cannot be written, files that change, and processes that are killed."""

import multiprocessing
import os
import resource
import shutil
import signal
import subprocess
import time
from contextlib import contextmanager

import numpy as np
import pytest
from hostile import NIGHTLY

from viewloom import persistence, report
from viewloom.runs import stages

KILLS = 30 if NIGHTLY else 3
SPARE = 256  # bytes that there is room for on a full disk


def contents(folder):
    """Every file by its path, and what is in it."""
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def visible(folder):
    return {path for path in contents(folder) if not any(part.startswith(".") for part in path.parts)}


def assert_told(result, *words):
    """One line, and an exit code that is not 0."""
    assert result.exit_code in (1, 2)
    assert result.stderr.startswith("Error: ")
    assert result.stderr.count("\n") == 1
    assert all(word in result.stderr for word in words)


@contextmanager
def mounted(folder, options):
    """A disk of its own; skipped where nobody may mount one."""
    folder.mkdir()
    if os.name != "posix" or os.geteuid() != 0 or shutil.which("mount") is None:
        pytest.skip("only root can mount a disk")
    if subprocess.run(
        ["mount", "-t", "tmpfs", "-o", options, "tmpfs", folder], capture_output=True
    ).returncode:
        pytest.skip("no disk can be mounted here")
    try:
        yield folder
    finally:
        subprocess.run(["umount", folder], check=True)


@contextmanager
def filled(folder):
    """A disk on which there is no room any more."""
    with mounted(folder, "size=2m"):
        yield lambda: (folder / ".filler").write_bytes(b"x" * (shutil.disk_usage(folder).free - SPARE))


@contextmanager
def limited(folder):
    """The same without a disk of its own: no file may be longer."""
    folder.mkdir()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        yield lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (SPARE, hard))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)


@pytest.mark.parametrize("disk", [filled, limited])
def test_a_full_disk(small_study, fitted_run, viewloom, tmp_path, disk):
    study = small_study(tmp_path) / "study.toml"
    with disk(tmp_path / "disk") as fill:
        target = tmp_path / "disk"
        shutil.copytree(fitted_run, target / "run")
        assert viewloom("predict", fitted_run, study, "--output", target / "placed.csv").exit_code == 0
        shutil.copytree(
            study.parent, target / "other", ignore=shutil.ignore_patterns("study.toml", "study-results")
        )
        fill()
        before = {path: text for path, text in contents(target).items() if path.name != ".filler"}
        for command in (
            ("fit", study, "--output", target / "run", "--seed", 3, "--jobs", 1),
            ("fit", study, "--output", target / "another", "--jobs", 1),
            ("predict", fitted_run, study, "--output", target / "placed.csv"),
            ("predict", fitted_run, study, "--output", target / "new.csv"),
            ("check", study, "--picture", target / "views.png"),
            ("init", target / "other"),
        ):
            assert_told(viewloom(*command))
        after = {path: text for path, text in contents(target).items() if path in before}
        assert after == before
        assert visible(target) == set(before)
        model = persistence.load(fitted_run / "model.safetensors")
        with pytest.raises(Exception, match=r"space|large|os error"):
            model.save(target / "run" / "model.safetensors")
        assert (target / "run" / "model.safetensors").read_bytes() == before[
            next(p for p in before if p.name == "model.safetensors")
        ]


@contextmanager
def locked(folder):
    """A folder that cannot be written."""
    folder.mkdir()
    folder.chmod(0o555)
    if os.access(folder, os.W_OK):  # root can write anywhere but on such a disk
        folder.chmod(0o755)
        folder.rmdir()
        with mounted(folder, "size=1m,ro"):
            yield folder
    else:
        yield folder
        folder.chmod(0o755)


def test_a_folder_that_cannot_be_written(small_study, fitted_run, viewloom, tmp_path):
    study = small_study(tmp_path) / "study.toml"
    with locked(tmp_path / "locked") as target:
        for command in (
            ("fit", study, "--output", target / "run", "--jobs", 1),
            ("predict", fitted_run, study, "--output", target / "new.csv"),
            ("check", study, "--picture", target / "views.png"),
            ("simulate", target / "cohort"),
        ):
            assert_told(viewloom(*command))
        assert list(target.iterdir()) == []


@pytest.mark.parametrize("name", ["vbm.csv", "participants.csv"])
def test_a_file_that_changes_meanwhile(small_study, fitted_run, viewloom, tmp_path, monkeypatch, name):
    study = small_study(tmp_path) / "study.toml"
    shutil.copytree(fitted_run, tmp_path / "run")
    before, refit = contents(tmp_path / "run"), stages.refit

    def meddling(*arguments):
        with (study.parent / name).open("a") as file:
            file.write("\n")
        return refit(*arguments)

    monkeypatch.setattr(stages, "refit", meddling)
    result = viewloom("fit", study, "--output", tmp_path / "run", "--seed", 3, "--jobs", 1)
    assert_told(result, name, "changed while the study was running")
    assert contents(tmp_path / "run") == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["files", "run"]


def test_a_model_that_has_changed(small_study, fitted_run, viewloom, tmp_path):
    study = small_study(tmp_path) / "study.toml"
    assert viewloom("predict", fitted_run, study).exit_code == 0
    before = contents(study.parent)
    damaged = bytearray((fitted_run / "model.safetensors").read_bytes())
    damaged[-9] ^= 1
    (tmp_path / "model.safetensors").write_bytes(damaged)
    result = viewloom("predict", tmp_path / "model.safetensors", study)
    assert_told(result, "model.safetensors was changed or damaged")
    assert contents(study.parent) == before


def fit(arguments, refits):
    """`viewloom fit` in a process of its own, to be killed."""
    from viewloom.cli import app

    stages.REFITS = refits
    report.summarize = lambda results, subjects: {"title": results.name}
    report.figures = lambda results, summary: {}
    report.to_html = lambda summary, figures: f"<h1>{summary['title']}</h1>"
    app(["fit", *map(str, arguments), "--jobs", "1", "--quiet"])


@pytest.fixture(scope="module")
def started():
    """``started(*arguments)`` is a running `viewloom fit`; all come from one process that has imported it."""
    processes = multiprocessing.get_context("forkserver")
    processes.set_forkserver_preload(["viewloom.cli", "viewloom.runs", __name__])
    processes.Process(target=time.sleep, args=(0,)).start()

    def start(*arguments):
        process = processes.Process(target=fit, args=(arguments, 8))
        process.start()
        return process

    return start


def results_of(folder):
    """What has to be the same in two runs."""
    return {p: text for p, text in contents(folder).items() if p.suffix == ".csv" or p.name == "metrics.json"}


def test_killed_at_any_moment(small_study, fitted_run, started, tmp_path):
    study = small_study(tmp_path) / "study.toml"
    started(study, "--output", tmp_path / "warm").join()
    began = time.monotonic()
    started(study, "--output", tmp_path / "whole").join()
    duration = time.monotonic() - began
    expected = results_of(tmp_path / "whole")
    rng, stopped = np.random.default_rng(0 if not NIGHTLY else None), 0
    old = contents(fitted_run)
    for number in range(KILLS):
        target = tmp_path / f"run{number}"
        shutil.copytree(fitted_run, target)
        process = started(study, "--output", target)
        time.sleep(duration * (number + rng.random()) / KILLS)
        process.kill()
        process.join()
        stopped += process.exitcode == -signal.SIGKILL
        hidden = tmp_path / f".{target.name}.unfinished"
        if target.exists():
            assert contents(target) == old or results_of(target) == expected
        else:
            assert (hidden / "old").exists()  # killed between two renames
        again = started(study, "--output", target, "--resume")
        again.join()
        assert again.exitcode == 0
        assert results_of(target) == expected
        assert not hidden.exists()
    assert stopped > KILLS / 2
    assert not any(path.name.startswith(".") for path in tmp_path.iterdir())
