"""Jobs: commands of the command line in processes of their own, one at a time per study or run.

All that is known of a job is in a hidden folder below the root, so that a job can be seen, stopped and
resumed after a crash of the browser, of the server or of the job itself.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from viewloom.app.worker import ERRORS, EXIT, JOB, LOCK, OUTPUT, PROGRESS, lock
from viewloom.runtime.errors import InputError
from viewloom.runtime.files import PAGE_FOLDER

STOPPED = "stopped"  # a file that says that the job was stopped on purpose
PATIENCE = 8.0  # seconds until a job that was asked to stop is killed
MOST_TEXT = 1 << 22  # bytes of output that are read
TAIL = 1 << 14  # bytes at the beginning and at the end of the progress that are read
LEAST_SHARE = 0.1  # of the work, from which on the time left can be estimated
EVENTS = ({"stage", "done", "total", "at"}, {"plan"}, {"said"})  # keys of what is recorded
RUNNING, FINISHED, FAILED, PAUSED, LOST = "running", "finished", "failed", "stopped", "lost"


@dataclass(frozen=True)
class Status:
    """What is known of a job.

    Attributes
    ----------
    state : str
        running, finished, failed (an error was printed), stopped (on purpose) or lost (killed).
    arguments : list of str
        Of the command.
    next : str
        Address of the page with its results.
    stage : str
        What is being done, and since when: `done` of `total` units, of an unknown total if 0.
    elapsed, left : float or None
        Seconds since the start, and until the end of the stage.
    steps : tuple of int
        Number of the stage among those that the command announced, and their number; (0, 0) without.
    share : float or None
        Part of the whole work that is done, as far as the command announced its stages.
    said : list of str
        Results that are known before the end.
    """

    state: str
    command: str
    arguments: list[str]
    next: str = ""
    stage: str = ""
    done: int = 0
    total: int = 0
    elapsed: float = 0.0
    left: float | None = None
    steps: tuple[int, int] = (0, 0)
    share: float | None = None
    said: list[str] = field(default_factory=list)
    about: dict[str, Any] = field(default_factory=dict)

    @property
    def running(self) -> bool:
        """Whether the job goes on."""
        return self.state == RUNNING

    @property
    def left_of_all(self) -> float | None:
        """Seconds until the end, by the share that is done; None as long as that is a guess.

        It is at least what is left of the stage.
        """
        if not self.share or self.share < LEAST_SHARE or "--resume" in self.arguments:
            return None  # stages that were finished before take no time
        return max(self.elapsed * (1.0 - self.share) / self.share, self.left or 0.0)


class Jobs:
    """The jobs below a root folder.

    Parameters
    ----------
    root : Path
        Commands run in this folder; their arguments are relative to it.
    warm : bool, default=True
        Start a process ahead of the next job, while none is running.
    """

    def __init__(self, root: Path, warm: bool = True) -> None:
        self.root, self.warm = root, warm
        self._started: dict[str, subprocess.Popen[str]] = {}
        self._waiting: subprocess.Popen[str] | None = None
        self._turn = threading.Lock()

    def folder(self, subject: str, command: str) -> Path:
        """The hidden folder of a job on a study file, run folder or data folder."""
        return self._subject(subject) / command

    def _subject(self, subject: str) -> Path:
        return self.root / PAGE_FOLDER / hashlib.sha256(subject.encode()).hexdigest()[:20]

    def start(self, subject: str, arguments: list[str], following: str, **about: Any) -> None:
        """Start a command; `InputError` while another one is running on the same subject."""
        command = arguments[0]
        with self._turn:
            if self.current(subject) is not None:
                raise InputError("Another job is running on this study; wait for it, or stop it first.")
            folder = self.folder(subject, command)
            _make_private(self.root / PAGE_FOLDER, folder.parent)
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(mode=0o700)
            content = {"arguments": arguments, "root": str(self.root), "next": following, "about": about}
            (folder / JOB).write_text(json.dumps({**content, "began": time.time()}), encoding="utf-8")
            self._started[subject] = self._hand_over(folder)
            self._waiting = None  # the next one is started when this job has ended: its imports take time

    def _hand_over(self, folder: Path) -> subprocess.Popen[str]:
        """Give a job to the process that waits for one, or to a new one."""
        process = self._waiting if self._waiting and self._waiting.poll() is None else _process()
        assert process.stdin is not None
        process.stdin.write(f"{json.dumps(str(folder))}\n")
        process.stdin.close()
        return process

    def prepare(self) -> None:
        """Start a process that waits for the next job."""
        with self._turn:
            if self.warm and (self._waiting is None or self._waiting.poll() is not None):
                self._waiting = _process()

    def close(self) -> None:
        """End the process that waits; running jobs go on."""
        with self._turn:
            if self._waiting is not None:
                self._waiting.kill()
                self._waiting.wait()
            self._waiting, self.warm = None, False

    def current(self, subject: str) -> str | None:
        """The command that is running on a subject."""
        holder, process = self._holder(subject), self._started.get(subject)
        starting = process is not None and process.poll() is None
        if holder is None and not starting:
            return None
        command = str(holder["command"]) if holder else self._latest(subject)
        return None if (self.folder(subject, command) / EXIT).exists() else command

    def _holder(self, subject: str) -> dict[str, Any] | None:
        """Who holds the lock of a subject."""
        path = self._subject(subject) / LOCK
        try:
            handle = os.open(path, os.O_RDWR)
        except OSError:
            return None
        try:
            if lock(handle):
                return None
            return dict(json.loads(os.read(handle, 4096)))
        except ValueError:  # it is just being written
            return {"pid": 0, "command": self._latest(subject)}
        finally:
            os.close(handle)

    def _latest(self, subject: str) -> str:
        """The command that was started last."""
        jobs = sorted(self._subject(subject).glob(f"*/{JOB}"), key=lambda path: path.stat().st_mtime)
        return jobs[-1].parent.name if jobs else ""

    def any_running(self) -> bool:
        """Whether a job of this server is running."""
        return any(process.poll() is None for process in list(self._started.values()))

    def status(self, subject: str, command: str) -> Status | None:
        """What is known of the last job of a command; None if there was none."""
        folder = self.folder(subject, command)
        try:
            job = json.loads((folder / JOB).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        state = self._state(subject, command, folder)
        if not self.any_running():
            self.prepare()
        events = _events(folder / PROGRESS)
        end = time.time() if state == RUNNING else _modified(folder)
        elapsed = max(0.0, end - job["began"])
        known = {"elapsed": elapsed, "about": job["about"], **_stage(events)}
        return Status(state, command, job["arguments"], job["next"], **known)

    def _state(self, subject: str, command: str, folder: Path) -> str:
        running = self.current(subject) == command
        code = _read_json(folder / EXIT)
        if code is not None:
            return FINISHED if code == 0 else PAUSED if (folder / STOPPED).exists() else FAILED
        if running:
            return RUNNING
        code = _read_json(folder / EXIT)  # it may have ended since
        if code is not None:
            return FINISHED if code == 0 else PAUSED if (folder / STOPPED).exists() else FAILED
        return PAUSED if (folder / STOPPED).exists() else LOST

    def output(self, subject: str, command: str) -> str:
        """What a job printed."""
        return _text(self.folder(subject, command) / OUTPUT)

    def errors(self, subject: str, command: str) -> list[str]:
        """The error lines that a job printed."""
        lines = _text(self.folder(subject, command) / ERRORS).splitlines()
        return [line.removeprefix("Error: ") for line in lines if line.strip()]

    def stop(self, subject: str) -> None:
        """Stop the job on a subject, and wait until it has ended."""
        command = self.current(subject)
        if command is None:
            return
        (self.folder(subject, command) / STOPPED).touch()
        holder, end = self._holder(subject), time.monotonic() + PATIENCE
        process = self._started.get(subject)
        pid = holder["pid"] if holder and holder["pid"] else process.pid if process else 0
        if not pid:
            return
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
        while self.current(subject) is not None and time.monotonic() < end:
            time.sleep(0.05)
        if self.current(subject) is not None:
            with suppress(ProcessLookupError):
                _kill_group(pid)


def _kill_group(pid: int) -> None:
    if hasattr(os, "killpg"):
        os.killpg(pid, signal.SIGKILL)
    else:
        os.kill(pid, signal.SIGTERM)


def _process() -> subprocess.Popen[str]:
    """A process that waits for a job, in a session of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "viewloom.app.worker"],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        text=True,
        env={**os.environ, "NO_COLOR": "1", "COLUMNS": "100"},
    )


def _make_private(*folders: Path) -> None:
    for folder in folders:
        with suppress(FileExistsError):
            folder.mkdir(mode=0o700)
        if folder.is_symlink() or (os.name == "posix" and folder.stat().st_uid != os.geteuid()):
            raise InputError(f"{folder.name}: is not a folder of yours; remove it.")
        folder.chmod(0o700)


def _stage(events: list[dict[str, Any]]) -> dict[str, Any]:
    """The stage of a job, the time until its end, and how much of the whole is done."""
    plan = _plan(events)  # other stages are parts of those that were announced
    stages = [event for event in events if "stage" in event and (not plan or event["stage"] in plan)]
    if not stages:
        return {}
    last = stages[-1]
    first = next(event for event in stages if event["stage"] == last["stage"])
    done = last["done"] - first["done"]
    left = (last["total"] - last["done"]) * (last["at"] - first["at"]) / done if done else None
    if left is not None:
        left = max(0.0, left - (time.time() - last["at"]))
    known = {"stage": last["stage"], "done": last["done"], "total": last["total"], "left": left}
    return {**known, **_whole(events), "said": [event["said"] for event in events if "said" in event]}


def _plan(events: list[dict[str, Any]]) -> dict[str, float]:
    """The announced stages and their shares."""
    return dict(next((event["plan"] for event in events if "plan" in event), {}))


def _whole(events: list[dict[str, Any]]) -> dict[str, Any]:
    """The place of the last announced stage among all of them, and the share of the work that is done.

    >>> plan = {"plan": {"read": 1.0, "fit": 3.0}}
    >>> _whole([plan, {"stage": "fit", "done": 1, "total": 2}, {"stage": "kernels", "done": 0, "total": 0}])
    {'steps': (2, 2), 'share': 0.625}
    """
    plan = _plan(events)
    last = next((event for event in reversed(events) if event.get("stage") in plan), None)
    if last is None:
        return {}
    titles, shares = list(plan), list(plan.values())
    at = titles.index(last["stage"])
    within = shares[at] * last["done"] / last["total"] if last["total"] else 0.0
    return {"steps": (at + 1, len(titles)), "share": (sum(shares[:at]) + within) / sum(shares)}


def _events(path: Path) -> list[dict[str, Any]]:
    """What was recorded at the beginning and at the end."""
    try:
        with path.open("rb") as file:
            start = file.read(TAIL)
            file.seek(max(len(start), path.stat().st_size - TAIL))
            lines = (start + b"\n" * (file.tell() > len(start)) + file.read()).decode("utf-8", "replace")
    except OSError:
        return []
    return [event for line in lines.split("\n") if (event := _parsed(line))]


def _parsed(line: str) -> dict[str, Any] | None:
    try:
        event = json.loads(line)
    except ValueError:  # half a line
        return None
    return event if isinstance(event, dict) and any(kind <= set(event) for kind in EVENTS) else None


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(MOST_TEXT).decode("utf-8", "replace")
    except OSError:
        return ""


def _read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def _modified(folder: Path) -> float:
    """When a job last wrote something."""
    return max((path.stat().st_mtime for path in folder.iterdir()), default=0.0)
