"""Processes that are killed at random moments: what is left, and whether the same results come of it.

    python benchmarks/faults.py [--kills 30] [--only fit,select,worker,workers,client] [--seed N]
                                [--json FILE]

The code must not change meanwhile, or results will: work on a copy where somebody edits it.


fit, select
    The command line as a process of its own, on a small study, with the results of an earlier run in
    the place where it is to write. It and its children are killed (``kill -9``) at moments spread over
    the time that it takes. After every kill: what is in that place is the earlier result or the whole
    new one, or waits whole in the hidden folder beside it (killed between two renames); nothing else is
    visible; nothing is locked. Then the same command with ``--resume`` has to end well, leave nothing
    hidden, and give the files of an uninterrupted run byte by byte. Files that differ between two
    uninterrupted runs, since times are written to them, are named and not compared; of the table of
    `select` the column ``seconds`` is left out. `select` tries a smaller grid than it does by default.
worker
    A fit on a Dask cluster of two processes, one of which is killed on the way. The fit has to go on,
    and to give the same labels, and memberships within 1e-6: the same bits, unless the worker died
    before rows were dealt out, and they went to one worker instead of two.
workers
    Both workers are killed at once, a fifth as often. The fit has to end within minutes: with the same
    labels if workers came back, and if none did with an error that says so.
client
    The process of such a fit is killed, a fifth as often, and its workers have to end.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import logging
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import psutil

Contents = dict[str, bytes]
PATIENCE = 300.0  # seconds that anything may take
ENDINGS = ("No Dask worker is left", "Dask workers were lost", "The Dask cluster has no workers")
SUMS_TOL = 1e-6  # of memberships whose sums were taken in another order
GRID = "{'lam': [1.0, 10.0], 'gamma': [2.0, 4.0]}"
COMMAND = f"from viewloom.cli import commands; commands.GRID = {GRID}; commands.app()"
STUDY = """
[study]
name = "Small"
[participants]
path = "participants.csv"
id = "participant_id"
diagnosis = "diagnosis"
[views.vbm]
path = "vbm.csv"
id = "participant_id"
columns = ["LH*", "LA*", "LP*"]
[views.fdg]
path = "fdg.csv"
format = "long"
id = "participant_id"
name = "region"
value = "suvr"
"""


@dataclass
class Tally:
    """What the kills of one target came to."""

    target: str
    seconds: float = 0.0  # of an uninterrupted run; of the processor, where it is a process of its own
    kills: int = 0  # that met a living process
    identical: int = 0  # results after it
    stages: dict[str, int] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    not_compared: list[str] = field(default_factory=list)

    def check(self, holds: bool, fault: str) -> None:
        """Write a fault down, and say so at once."""
        if not holds:
            self.faults.append(f"kill {self.kills}: {fault}")
            print(f"{self.target}, {self.faults[-1]}", file=sys.stderr, flush=True)

    def count(self, stage: str) -> None:
        """Write a kill down, and say how far this is."""
        self.kills += 1
        self.stages[stage] = self.stages.get(stage, 0) + 1
        print(f"{self.target}: kill {self.kills}, {self.identical} as without", file=sys.stderr, flush=True)


@dataclass(frozen=True)
class Command:
    """A command that writes one folder or file, and how to see what it wrote."""

    name: str
    options: tuple[str, ...]
    read: Callable[[Path], Contents]

    def start(self, study: Path, target: Path, *more: str, jobs: int = 1) -> subprocess.Popen[bytes]:
        """The running process, with a process group of its own."""
        chosen = [self.name, str(study), "--output", str(target), "--jobs", str(jobs), *self.options, *more]
        return subprocess.Popen(
            [sys.executable, "-c", COMMAND, *chosen], start_new_session=True, stderr=subprocess.PIPE
        )

    def run(self, study: Path, target: Path, *more: str) -> None:
        """Run it to its end."""
        process = self.start(study, target, *more)
        _, told = process.communicate(timeout=PATIENCE)
        if process.returncode:
            raise RuntimeError(f"{self.name} failed: {told.decode()}")


def files_of(folder: Path) -> Contents:
    """Every file of a run folder."""
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def table_of(path: Path) -> Contents:
    """The table of a search without its times."""
    table = pd.read_csv(path, dtype=str)
    return {path.name: table.drop(columns="seconds").to_csv(index=False).encode()}


COMMANDS = {
    "fit": Command("fit", ("--quiet",), files_of),
    "select": Command("select", ("--quiet",), table_of),
}


@dataclass(frozen=True)
class Course:
    """A command that nobody interrupts: what it gives, now and with another seed before."""

    study: Path
    earlier: Path  # where the result of another seed is
    before: Contents  # that result
    names: set[str]  # of the files of a result
    steady: Contents  # of the new result, but for times
    seconds: float  # of the processor, since the clock depends on what else the machine does

    @classmethod
    def of(cls, command: Command, folder: Path) -> Course:
        """Run it three times."""
        study = write_study(folder / "study")
        name = "results" if command.name == "fit" else "results.csv"
        first, second, earlier = (folder / part / name for part in ("first", "second", "earlier"))
        command.run(study, first)
        began = os.times()
        command.run(study, second)
        ended = os.times()
        seconds = ended.children_user + ended.children_system - began.children_user - began.children_system
        command.run(study, earlier, "--seed", "1")
        whole, again = command.read(first), command.read(second)
        steady = {key: text for key, text in whole.items() if again.get(key) == text}
        return cls(study, earlier, command.read(earlier), set(whole), steady, seconds)

    def is_new(self, found: Contents) -> bool:
        """Whether this is the whole new result."""
        return set(found) == self.names and all(found[key] == text for key, text in self.steady.items())


def kill_command(command: Command, folder: Path, kills: int, rng: np.random.Generator) -> Tally:
    """Kill a command again and again, and resume it."""
    course = Course.of(command, folder)
    tally = Tally(command.name, course.seconds, not_compared=sorted(course.names - set(course.steady)))
    for number in range(kills):
        target = folder / f"kill{number}" / course.earlier.name
        copied(course.earlier, target)
        process = command.start(course.study, target, jobs=2 if number % 5 == 4 else 1)
        moment = np.sqrt((number + rng.random()) / kills)  # a quarter in the first half: imports take long
        stage = killed_after(process, course.seconds * moment, target)
        if stage is None:
            continue
        tally.count(stage)
        check_remains(tally, command, course, target)
        command.run(course.study, target, "--resume")
        same = course.is_new(command.read(target))
        tally.identical += same
        tally.check(same, "other results after --resume")
        tally.check(os.listdir(target.parent) == [target.name], "something is left after --resume")
        shutil.rmtree(target.parent)
    return tally


def write_study(folder: Path) -> Path:
    """A study of some forty subjects."""
    from viewloom.study import write_example

    write_example(folder, sizes=(12, 14, 16))
    (folder / "study.toml").write_text(STUDY, encoding="utf-8")
    return folder / "study.toml"


def copied(source: Path, target: Path) -> None:
    """The result of an earlier run in its place."""
    target.parent.mkdir()
    (shutil.copytree if source.is_dir() else shutil.copy)(source, target)


def killed_after(process: subprocess.Popen[bytes], seconds: float, target: Path) -> str | None:
    """Kill a process that has worked for so long, and its children; where it was, or None if it had ended."""
    while process.poll() is None and busy_seconds(process.pid) < seconds:
        time.sleep(0.005)
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    return stage_of(hidden_beside(target)) if process.returncode == -signal.SIGKILL else None


def busy_seconds(pid: int) -> float:
    """What a process and its children have had of the processor."""
    total = 0.0
    with suppress(psutil.Error):
        parent = psutil.Process(pid)
        for one in (parent, *parent.children(recursive=True)):
            with suppress(psutil.Error):
                total += sum(one.cpu_times()[:2])
    return total


def hidden_beside(target: Path) -> Path:
    """Where a command works."""
    return target.with_name(f".{target.name}.unfinished")


def stage_of(hidden: Path) -> str:
    """How far a command had come, by what it left."""
    if not hidden.exists():
        return "before or after its work"
    if (hidden / "old").exists():
        return "between two renames"
    if (hidden / "new").exists():
        return "writing results"
    kept = [path for path in (hidden / "checkpoints").rglob("*") if path.is_file()]
    latest = max(kept, key=lambda path: path.stat().st_mtime_ns, default=None)
    if latest is None:
        return "reading and fitting"
    return "writing a checkpoint" if latest.name.startswith(".") else f"after {latest.stem[:30]}"


def check_remains(tally: Tally, command: Command, course: Course, target: Path) -> None:
    """Check what a killed process has left."""
    hidden = hidden_beside(target)
    visible = {name for name in os.listdir(target.parent) if not name.startswith(".")}
    tally.check(visible <= {target.name}, "a partial file is visible")
    if target.exists():
        found = command.read(target)
        tally.check(found == course.before or course.is_new(found), "a partial result is visible")
    else:
        tally.check((hidden / "old").exists(), "the earlier result is gone")
    if hidden.exists():
        tally.check(is_free(hidden), "a lock is left")


def is_free(folder: Path) -> bool:
    """Whether a folder can be locked."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(handle)
    return True


def dask_data() -> dict[str, np.ndarray]:
    """Two views of four clusters."""
    rng = np.random.default_rng(0)
    y = rng.integers(4, size=6000)
    return {f"v{d}": 1.2 * rng.standard_normal((4, d))[y] + rng.standard_normal((len(y), d)) for d in (6, 9)}


@contextmanager
def local_client(folder: str) -> Iterator[Any]:
    """A client of two worker processes."""
    from distributed import Client, LocalCluster

    logging.getLogger("distributed").setLevel(logging.CRITICAL)  # it tells of every worker that is lost
    where = {"host": "127.0.0.1", "dashboard_address": "127.0.0.1:0", "local_directory": folder}
    with LocalCluster(n_workers=2, threads_per_worker=1, **where) as cluster, Client(cluster) as client:
        yield client


def fit_on_dask() -> np.ndarray:
    """Memberships from the workers of the running client."""
    from viewloom import KernelMultiviewNMF

    model = KernelMultiviewNMF(4, factored=300, backend="dask", random_state=0, max_iter=40, tol=0.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # not converged
        return model.fit(dask_data()).memberships_


def kill_workers(folder: Path, kills: int, rng: np.random.Generator) -> Tally:
    """Kill one of two workers in every fit, each on a new cluster: not every worker is brought back."""
    tally = Tally("worker")
    with local_client(str(folder)):
        expected = fit_on_dask()
        began = time.monotonic()
        fit_on_dask()
        tally.seconds = time.monotonic() - began
    for number in range(kills):
        with local_client(str(folder)) as client:
            pids = list(client.run(os.getpid).values())
            fate = Fate(pids[int(rng.integers(2))], tally.seconds * (number + rng.random()) / kills)
            found = fit_on_dask()
            if not fate.met():
                continue
        bits = "the same bits" if np.array_equal(found, expected) else "sums in another order"
        tally.count(f"in quarter {4 * number // kills + 1} of the fit: {bits}")
        same = np.array_equal(found.argmax(axis=1), expected.argmax(axis=1))
        same &= bool(np.abs(found - expected).max() <= SUMS_TOL)
        tally.identical += same
        tally.check(same, "other memberships")
    return tally


class Fate:
    """Kills a process after a while, unless asked before."""

    def __init__(self, pid: int, seconds: float) -> None:
        self.happened = False
        self.pid = pid
        self.timer = threading.Timer(seconds, self._strike)
        self.timer.start()

    def _strike(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        self.happened = True

    def met(self) -> bool:
        """Whether it came to that."""
        self.timer.cancel()
        self.timer.join()
        return self.happened


def kill_all_workers(folder: Path, kills: int, rng: np.random.Generator) -> Tally:
    """Kill both workers of a fit, and see what becomes of it."""
    tally = Tally("workers")
    for number in range(kills):
        process = fit_elsewhere("bereft", folder / f"bereft{number}")
        time.sleep(3.0 * (number + rng.random()) / kills)
        began = time.monotonic()
        for worker in workers_of(process):
            worker.kill()
        told, _ = process.communicate(timeout=PATIENCE)
        tally.count(f"{time.monotonic() - began:5.1f} s until: {told.strip()}")
        tally.identical += told.startswith("the same")
        tally.check(told.startswith(("the same", *ENDINGS)), told.strip())
    return tally


def kill_clients(folder: Path, kills: int, rng: np.random.Generator) -> Tally:
    """Kill the process of a fit, and see its workers end."""
    tally = Tally("client")
    for number in range(kills):
        process = fit_elsewhere("client", folder / f"client{number}")
        time.sleep(3.0 * (number + rng.random()) / kills)
        children = psutil.Process(process.pid).children(recursive=True)
        process.kill()
        process.communicate()
        _, alive = psutil.wait_procs(children, timeout=60)
        tally.count(f"{len(children)} processes of its own")
        tally.check(not alive, f"{len(alive)} processes live on")
        tally.identical += not alive
        for orphan in alive:
            orphan.kill()
    return tally


def fit_elsewhere(role: str, scratch: Path) -> subprocess.Popen[str]:
    """A process that has begun to fit on a cluster of its own."""
    process = subprocess.Popen(
        [sys.executable, __file__, "--be", role, "--scratch", str(scratch)],
        start_new_session=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout is not None
    process.stdout.readline()
    return process


def workers_of(process: subprocess.Popen[str]) -> list[psutil.Process]:
    """Processes of the workers, not those that look after them."""
    children = psutil.Process(process.pid).children(recursive=True)
    return [child for child in children if any("spawn_main" in word for word in child.cmdline())]


def be_client(folder: str) -> None:
    """Fit until somebody kills this process."""
    with local_client(folder):
        print("begun", flush=True)
        while True:
            fit_on_dask()


def be_bereft(folder: str) -> None:
    """Fit while somebody kills the workers, and say how that ended."""
    with local_client(folder):
        expected = fit_on_dask()
        print("begun", flush=True)
        try:
            same = np.array_equal(fit_on_dask().argmax(axis=1), expected.argmax(axis=1))
            print("the same labels" if same else "other labels", flush=True)
        except Exception as error:
            print(error, flush=True)
        os._exit(0)  # a cluster without workers takes long to close


ROLES = {"client": be_client, "bereft": be_bereft}
TARGETS: dict[str, Callable[[Path, int, np.random.Generator], Tally]] = {
    **{name: partial(kill_command, command) for name, command in COMMANDS.items()},
    "worker": kill_workers,
    "workers": lambda folder, kills, rng: kill_all_workers(folder, max(kills // 5, 1), rng),
    "client": lambda folder, kills, rng: kill_clients(folder, max(kills // 5, 1), rng),
}


def shown(tally: Tally) -> str:
    """A target in a few lines."""
    lines = [
        f"{tally.target}: {tally.kills} kills, {tally.identical} as without, {len(tally.faults)} faults "
        f"({tally.seconds:.1f} s uninterrupted)"
    ]
    lines += [f"  {count:3} {stage}" for stage, count in sorted(tally.stages.items())]
    lines += [f"  not compared: {', '.join(tally.not_compared)}"] * bool(tally.not_compared)
    return "\n".join([*lines, *(f"  {fault}" for fault in tally.faults)])


def main() -> int:
    """Run what was asked for; 1 if there was any fault."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--only", default=",".join(TARGETS))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--be", choices=ROLES, help=argparse.SUPPRESS)
    parser.add_argument("--scratch", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.be:
        ROLES[options.be](options.scratch)
    tallies = []
    for name in options.only.split(","):
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            tallies.append(TARGETS[name](Path(folder), options.kills, np.random.default_rng(options.seed)))
        print(shown(tallies[-1]), flush=True)
    if options.json:
        options.json.write_text(json.dumps([asdict(tally) for tally in tallies], indent=1), encoding="utf-8")
    return int(any(tally.faults for tally in tallies))


if __name__ == "__main__":
    raise SystemExit(main())
