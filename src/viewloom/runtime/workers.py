"""How processes are stopped, that no worker outlives its parent, and what joblib says, in our words."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from types import FrameType
from typing import NoReturn, TypeVar

from viewloom.runtime.errors import InputError

T = TypeVar("T")
PATIENCE = 3.0  # seconds from a signal until the process is ended by force
WATCH, WATCHED_EVERY = "viewloom-watch", 0.5  # name of a thread; seconds
FILES, FILES_PER_JOB = 32, 4  # that are open at the same time, with some to spare
STOPS = ("SIGINT", "SIGTERM", "SIGHUP")  # SIGHUP is unknown to Windows
TRACKER = b"resource_tracker"  # a process that tidies up after others, and ends with them
RECEIVED: list[int] = []  # signals that ask this process to end


def exit_code() -> int:
    """The exit code of a command that was interrupted: 130 for Ctrl-C, 143 for SIGTERM."""
    return 128 + (RECEIVED[0] if RECEIVED else signal.SIGINT)


def interrupted(error: BaseException) -> bool:
    """Whether an error comes from a signal; code that is interrupted may have turned it into another."""
    return isinstance(error, KeyboardInterrupt) or bool(RECEIVED)


def stop_on_signals() -> None:
    """Let SIGTERM and SIGHUP do what Ctrl-C does, unless they are ignored (``nohup``).

    A second signal, or three seconds without an end, end the process and its children at once.
    """
    for name in STOPS:
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _stop)


def _stop(number: int, frame: FrameType | None) -> NoReturn:
    for name in STOPS:
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), _stop_at_once)
    RECEIVED.append(number)
    end_children()  # before they notice that nobody waits for them, and say so
    threading.Thread(target=_stop_late, daemon=True).start()
    raise KeyboardInterrupt


def _stop_late() -> None:
    time.sleep(PATIENCE)
    _stop_at_once()


def _stop_at_once(*_: object) -> NoReturn:
    end_children()
    os._exit(exit_code())


def end_children() -> None:
    """End the processes that this one has started."""
    for pid in _children():
        with suppress(OSError):
            os.kill(pid, getattr(signal, "SIGKILL", signal.SIGTERM))


def _children() -> list[int]:
    """Their numbers; those that are just being started are known to the system only."""
    if not os.path.isdir("/proc/self"):
        return [child.pid for child in multiprocessing.active_children() if child.pid is not None]
    return [int(name) for name in os.listdir("/proc") if name.isdigit() and _is_child(name)]


def _is_child(name: str) -> bool:
    try:
        with open(f"/proc/{name}/stat", "rb") as stat, open(f"/proc/{name}/cmdline", "rb") as command:
            parent = int(stat.read().rsplit(b")", 1)[1].split()[1])  # after "pid (name) state"
            return parent == os.getpid() and TRACKER not in command.read()
    except OSError:  # it has ended
        return False


def watched(function: Callable[..., T], *arguments: object) -> T:
    """Call a function; if this is a worker of joblib, it ends soon after the process that started it."""
    if multiprocessing.current_process().name.startswith("Loky"):
        _watch_once()
    return function(*arguments)


def _watch_once() -> None:
    if not any(thread.name == WATCH for thread in threading.enumerate()):
        threading.Thread(target=_watch, name=WATCH, args=(os.getppid(),), daemon=True).start()


def _watch(parent: int) -> None:
    """End this process once it has another parent; those of killed processes are given one."""
    while os.getppid() == parent:
        time.sleep(WATCHED_EVERY)
    os._exit(1)


def check_open_files(n_jobs: int) -> int:
    """Refuse to begin with more processes than files may be open for; raises the limit where it may."""
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return n_jobs
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = FILES + FILES_PER_JOB * n_jobs
    if 0 <= hard < needed:
        raise InputError(
            f"only {hard} files may be open at the same time, and {n_jobs} jobs need {needed}: raise the "
            f"limit (ulimit -n {needed}), or use fewer --jobs."
        )
    if 0 <= soft < needed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))
    return n_jobs


@contextmanager
def told_of_lost_processes() -> Iterator[None]:
    """Systems that run out of memory end processes without a word; joblib renews those that have grown."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "A worker stopped while some jobs were given", UserWarning)
        try:
            yield
        except BrokenProcessPool:
            raise MemoryError("A process was ended, most often because memory ran out; use fewer.") from None
