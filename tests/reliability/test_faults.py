"""Full disks, folders that cannot be written, files that change, too little memory, and killed processes."""

import json
import multiprocessing
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
import warnings
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from hostile import NIGHTLY
from small import in_name_only

from viewloom import OutputError
from viewloom.cli import commands as cli
from viewloom.evaluation import comparison
from viewloom.evaluation.selection import search
from viewloom.evaluation.selection.jobs import Jobs
from viewloom.models import persistence
from viewloom.runtime.workers import explain_lost_processes
from viewloom.study import report
from viewloom.study.run import computations as stages

KILLS = 30 if NIGHTLY else 3
REFITS = 4
DRAWING = ["jinja2", "matplotlib.figure"]  # which every fit imports
SPARE = 256  # bytes that there is room for on a full disk


def contents(folder):
    """Every file by its path, and what is in it."""
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def visible(folder):
    return {path for path in contents(folder) if not any(part.startswith(".") for part in path.parts)}


@pytest.fixture(autouse=True)
def _short_search(monkeypatch):
    """A grid of two settings."""
    monkeypatch.setattr(cli, "GRID", {"lam": [1.0, 10.0]})


def assert_told(result, *words):
    """One line, and an exit code that is not 0."""
    assert result.exit_code in (1, 2, 130)
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
    kept, sys.dont_write_bytecode = sys.dont_write_bytecode, True  # or that of new imports would be cut off
    try:
        yield lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (SPARE, hard))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)
        sys.dont_write_bytecode = kept


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
            ("select", study, "--output", target / "settings.csv", "--jobs", 1),
            ("simulate", target / "cohort"),
        ):
            assert_told(viewloom(*command), "cannot be written", "make room there", str(target))
        after = {path: text for path, text in contents(target).items() if path in before}
        assert after == before
        assert visible(target) == set(before)
        model = persistence.load(fitted_run / "model.safetensors")
        with pytest.raises(
            OutputError, match=r"model.safetensors: cannot be written \((No space|File too large)"
        ):
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
            ("select", study, "--output", target / "settings.csv", "--jobs", 1),
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


def without_seconds(path):
    return pd.read_csv(path).drop(columns="seconds")


@pytest.fixture
def judged(monkeypatch):
    """The settings that are tried, and ``judged.stop_after``: how many before the user interrupts."""
    judge = search.judge

    class Judged(list):
        stop_after = 100

        def __call__(self, model, *rest):
            if len(self) == self.stop_after:
                raise KeyboardInterrupt
            self.append(model.lam)
            return judge(model, *rest)

    found = Judged()
    monkeypatch.setattr(search, "judge", found)
    return found


def test_a_search_that_is_interrupted_goes_on(small_study, viewloom, tmp_path, judged):
    study, place = small_study(tmp_path) / "study.toml", tmp_path / "found"
    place.mkdir()
    command = ("select", study, "--jobs", 1, "--output", place / "settings.csv")
    assert viewloom(*command, "--quiet").exit_code == 0
    expected, both = without_seconds(place / "settings.csv"), judged.copy()
    assert sorted(path.name for path in place.iterdir()) == ["settings.csv"]
    old = (place / "settings.csv").read_bytes()
    judged.clear()
    judged.stop_after = 1
    assert_told(viewloom(*command), "--resume")
    assert (place / "settings.csv").read_bytes() == old
    judged.stop_after = 100
    result = viewloom(*command, "--resume", "--json")
    assert result.exit_code == 0
    assert judged == both  # none twice
    pd.testing.assert_frame_equal(without_seconds(place / "settings.csv"), expected)
    told = json.loads(result.stdout)
    assert told["best"] == {"lam": expected.loc[0, "lam"]}
    assert len(told["table"]) == 2
    assert sorted(path.name for path in place.iterdir()) == ["settings.csv"]


def test_a_search_takes_up_none_but_its_own(small_study, viewloom, tmp_path, judged):
    study = small_study(tmp_path) / "study.toml"
    command = ("select", study, "--jobs", 1, "--quiet", "--output", tmp_path / "settings.csv")
    judged.stop_after = 1
    assert viewloom(*command).exit_code == 130
    judged.stop_after = 100
    assert viewloom(*command, "--seed", 1, "--resume").exit_code == 0
    assert len(judged) == 1 + 2
    assert_told(viewloom("select", study, "--resume"), "--output")
    assert_told(viewloom("select", study, "--output", study.parent / "vbm.csv"), "not the table of a search")
    assert len(judged) == 1 + 2


@pytest.mark.parametrize("error", [MemoryError, np._core._exceptions._ArrayMemoryError((9,), np.dtype("f8"))])
def test_a_search_without_memory(small_study, viewloom, tmp_path, monkeypatch, error):
    def failing(*_):
        raise error

    monkeypatch.setattr(search, "judge", failing)
    study = small_study(tmp_path) / "study.toml"
    result = viewloom("select", study, "--jobs", 1, "--output", tmp_path / "settings.csv")
    assert_told(result, "not enough memory")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["files"]


def test_processes_that_the_system_ends(monkeypatch):
    with pytest.raises(MemoryError, match="memory ran out"):
        Jobs(2, None, lambda _: None).run(os._exit, {"one": (9,), "two": (9,)})
    dying = SimpleNamespace(name="dying", run=lambda *_: os._exit(9))
    monkeypatch.setattr(comparison, "all_methods", lambda views: [dying])
    with pytest.raises(MemoryError, match="memory ran out"):
        comparison.compare(np.eye(6), [0, 1] * 3, methods=["dying"], seeds=2, n_jobs=2)


def test_processes_that_joblib_renews_are_not_told():
    with warnings.catch_warnings(record=True) as told, explain_lost_processes():
        warnings.warn(
            "A worker stopped while some jobs were given to the executor.", UserWarning, stacklevel=1
        )
    assert told == []


WIDE = """
[study]
name = "Many"
[views.a]
path = "a.csv"
id = "id"
[model]
kernel = "gaussian"
"""


def limited_fit(arguments, log, megabytes):
    """`viewloom fit` in a process that may have so much more memory than it has."""
    os.dup2(os.open(log, os.O_WRONLY | os.O_CREAT), 2)
    A = np.ones((300, 300))
    np.linalg.eigh(A @ A)  # BLAS takes its own memory once, and ends the process where there is none
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + megabytes * 2**20,) * 2)
    fit(arguments, 2)


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="the size of a process is read from /proc")
def test_too_little_memory(started, fitted_run, tmp_path):
    rng, n = np.random.default_rng(0), 4000  # 128 MB of kernel
    table = pd.DataFrame(rng.standard_normal((n, 3)), index=pd.Index([f"s{i}" for i in range(n)], name="id"))
    table.add_prefix("x").to_csv(tmp_path / "a.csv")
    (tmp_path / "study.toml").write_text(WIDE, encoding="utf-8")
    shutil.copytree(fitted_run, tmp_path / "run")
    before = contents(tmp_path)
    given = (tmp_path / "study.toml", "--output", tmp_path / "run")
    process = started(given, tmp_path / ".log", 100, target=limited_fit)
    process.join()
    told = (tmp_path / ".log").read_text()
    (tmp_path / ".log").unlink()
    assert process.exitcode == 1
    assert told.startswith("Error: not enough memory; earlier results are unchanged.")
    assert contents(tmp_path) == before


def fit(arguments, refits):
    """`viewloom fit` in a process of its own, to be killed."""
    from viewloom.cli.commands import app

    stages.REFITS, stages.TWINS = refits, 0
    report.unnamed_summary = in_name_only
    report.figure_data = lambda results, summary: {}
    report.to_html = lambda summary, figures: f"<h1>{summary['title']}</h1>"
    app(["fit", *map(str, arguments), "--jobs", "1", "--quiet"])


@pytest.fixture(scope="module")
def started():
    """``started(arguments, refits)`` is a running `viewloom fit`.

    All come from one process that has imported it.
    """
    processes = multiprocessing.get_context("forkserver")
    processes.set_forkserver_preload(["viewloom.cli.commands", "viewloom.study.run", *DRAWING, __name__])
    processes.Process(target=time.sleep, args=(0,)).start()

    def start(*arguments, target=fit):
        process = processes.Process(target=target, args=arguments)
        process.start()
        return process

    return start


def results_of(folder):
    """What has to be the same in two runs."""
    return {p: text for p, text in contents(folder).items() if p.suffix == ".csv" or p.name == "metrics.json"}


def test_killed_at_any_moment(small_study, fitted_run, started, tmp_path):
    study = small_study(tmp_path) / "study.toml"
    began = time.monotonic()
    started((study, "--output", tmp_path / "whole"), REFITS).join()
    duration = time.monotonic() - began
    expected = results_of(tmp_path / "whole")
    rng, stopped = np.random.default_rng(0 if not NIGHTLY else None), 0
    old = contents(fitted_run)
    for number in range(KILLS):
        target = tmp_path / f"run{number}"
        shutil.copytree(fitted_run, target)
        process = started((study, "--output", target), REFITS)
        time.sleep(duration * (number + rng.random()) / KILLS)
        process.kill()
        process.join()
        stopped += process.exitcode == -signal.SIGKILL
        hidden = tmp_path / f".{target.name}.unfinished"
        if target.exists():
            assert contents(target) == old or results_of(target) == expected
        else:
            assert (hidden / "old").exists()  # killed between two renames
        again = started((study, "--output", target, "--resume"), REFITS)
        again.join()
        assert again.exitcode == 0
        assert results_of(target) == expected
        assert not hidden.exists()
    assert stopped > KILLS / 2
    assert not any(path.name.startswith(".") for path in tmp_path.iterdir())
