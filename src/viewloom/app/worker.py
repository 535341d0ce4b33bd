"""A process that waits for one job, runs its command, and records progress, output and exit code.

It is started ahead of the job, so that imports are done by then, and ends if the server ends before it has a
job. A job itself outlives the server.
"""

from __future__ import annotations

import json
import os
import runpy
import sys
import time
from importlib import import_module
from pathlib import Path

EXIT, LOCK, JOB = "exit.json", "lock", "job.json"
PATIENCE = 5.0  # seconds to wait for the lock
OUTPUT, ERRORS, PROGRESS = "output.txt", "errors.txt", "progress.jsonl"


def main() -> int:
    """Wait for the folder of a job on the standard input, and run it."""
    for name in ("cli.commands", "study.run", "study.report.drawable"):
        import_module(f"viewloom.{name}")
    line = sys.stdin.readline()
    return run(Path(json.loads(line))) if line else 0


def run(folder: Path) -> int:
    """Run the command of a job while the lock of its subject is held."""
    from viewloom.runtime.progress import record_to

    lock = hold(folder.parent / LOCK, folder.name)
    if lock is None:
        return 1
    job = json.loads((folder / JOB).read_text(encoding="utf-8"))
    _redirect(folder)
    record_to(folder / PROGRESS)
    os.chdir(job["root"])
    sys.argv = ["viewloom", *job["arguments"]]
    code = _program()
    (folder / f".{EXIT}").write_text(json.dumps(code), encoding="utf-8")
    os.replace(folder / f".{EXIT}", folder / EXIT)
    os.close(lock)
    return code


def _program() -> int:
    """The exit code of ``python -m viewloom``."""
    try:
        runpy.run_module("viewloom", run_name="__main__")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    return 0


def _redirect(folder: Path) -> None:
    """Let the command read nothing, and write to the files of its job."""
    new = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    handles = [
        os.open(os.devnull, os.O_RDONLY),
        *(os.open(folder / name, new, 0o600) for name in (OUTPUT, ERRORS)),
    ]
    for number, handle in enumerate(handles):
        os.dup2(handle, number)
        os.close(handle)


def hold(path: Path, command: str) -> int | None:
    """Lock a file as long as this process lives, and write who holds it; None if another process does."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    end = time.monotonic() + PATIENCE  # the job before may be just about to let go
    while not lock(handle):
        if time.monotonic() > end:
            os.close(handle)
            return None
        time.sleep(0.02)
    os.truncate(path, 0)
    os.write(handle, json.dumps({"pid": os.getpid(), "command": command}).encode())
    return handle


def lock(handle: int) -> bool:
    """Lock an open file for this process; False if another process has locked it."""
    try:
        import fcntl
    except ImportError:  # Windows
        import msvcrt

        try:
            os.lseek(handle, 1 << 20, os.SEEK_SET)  # a byte far behind what is written
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
            os.lseek(handle, 0, os.SEEK_SET)
        except OSError:
            return False
        return True
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


if __name__ == "__main__":
    sys.exit(main())
