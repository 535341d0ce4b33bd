"""Worker processes: stopping on signals, ending with their parent, and errors of lost processes."""

from __future__ import annotations

import _thread
import multiprocessing
import os
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import NoReturn, TypeVar

from viewloom.runtime.errors import InputError

T = TypeVar("T")
PATIENCE = 3.0  # seconds from a signal until the process is ended by force
AFTER_FINALIZER = 0.01  # seconds until an interruption is raised again
WATCH, WATCHED_EVERY = "viewloom-watch", 0.5  # name of the thread; interval in seconds
FILES, FILES_PER_JOB = 32, 4  # open files needed at the same time, with a reserve
STOPS = ("SIGINT", "SIGTERM", "SIGHUP")  # SIGHUP does not exist on Windows
TRACKER = b"resource_tracker"  # a process that cleans up after others, and ends with them
RECEIVED: list[int] = []  # termination signals received
TOLD: list[bool] = []  # whether the line that tells of an interruption was printed
LAST_LINE = "\nError: interrupted; earlier results are unchanged.\n"


class Interrupted(KeyboardInterrupt):
    """A signal that ends the command.

    If a plain `KeyboardInterrupt` leaves ``exec``, which data classes and named tuples use, ``python -m``
    kills itself with SIGINT at its end, even if the error was handled.
    """


def exit_code() -> int:
    """Exit code of an interrupted command: 130 for Ctrl-C, 143 for SIGTERM."""
    return 128 + (RECEIVED[0] if RECEIVED else signal.SIGINT)


def interrupted(error: BaseException) -> bool:
    """Whether an error was caused by a signal, even if interrupted code turned it into another error."""
    return isinstance(error, KeyboardInterrupt) or bool(RECEIVED)


def silence_warnings() -> None:
    """Show no more warnings: libraries warn of work that an interruption left unfinished."""
    warnings.simplefilter("ignore")


def before_last_line() -> None:
    """Prepare the line that tells of an interruption: it is printed once, without warnings around it."""
    silence_warnings()
    TOLD.append(True)


def stop_on_signals() -> None:
    """Handle SIGTERM and SIGHUP like Ctrl-C, unless they are ignored (``nohup``).

    A second signal, or a delay of more than three seconds, ends the process and its children at once.
    """
    for name in STOPS:
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _stop)
    sys.unraisablehook = _raise_later


def _stop(number: int, frame: FrameType | None) -> NoReturn:
    for name in STOPS:
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), _stop_at_once)
    RECEIVED.append(number)
    silence_warnings()
    end_children()  # before they print errors about a lost parent
    threading.Thread(target=_stop_late, daemon=True).start()
    raise Interrupted


def _raise_later(unraisable: sys.UnraisableHookArgs) -> None:
    """Raise an interruption again that came during a finalizer, whose errors Python only prints."""
    if not isinstance(unraisable.exc_value, Interrupted):
        return sys.__unraisablehook__(unraisable)
    signal.signal(RECEIVED[0], _raise)
    timer = threading.Timer(AFTER_FINALIZER, _thread.interrupt_main, (RECEIVED[0],))
    timer.daemon = True
    timer.start()


def _raise(number: int, frame: FrameType | None) -> NoReturn:
    signal.signal(number, _stop_at_once)
    raise Interrupted


def _stop_late() -> None:
    time.sleep(PATIENCE)
    if not TOLD:
        with suppress(OSError):
            os.write(2, LAST_LINE.encode())  # the main thread may hold the lock of the stream
    _stop_at_once()


def _stop_at_once(*_: object) -> NoReturn:
    end_children()
    os._exit(exit_code())


def end_children() -> None:
    """End the child processes of this process."""
    for pid in _children():
        with suppress(OSError):
            os.kill(pid, getattr(signal, "SIGKILL", signal.SIGTERM))


def _children() -> list[int]:
    """Ids of the child processes; those that are just starting are only listed in /proc."""
    if not os.path.isdir("/proc/self"):
        return [child.pid for child in multiprocessing.active_children() if child.pid is not None]
    return [int(name) for name in os.listdir("/proc") if name.isdigit() and _is_child(name)]


def _is_child(name: str) -> bool:
    try:
        with open(f"/proc/{name}/stat", "rb") as stat, open(f"/proc/{name}/cmdline", "rb") as command:
            parent = int(stat.read().rsplit(b")", 1)[1].split()[1])  # after "pid (name) state"
            return parent == os.getpid() and TRACKER not in command.read()
    except OSError:  # the process has ended
        return False


def watched(function: Callable[..., T], *arguments: object) -> T:
    """Call a function; a joblib worker also starts a thread that ends it once its parent has ended."""
    if multiprocessing.current_process().name.startswith("Loky"):
        _watch_once()
    return function(*arguments)


def _watch_once() -> None:
    if not any(thread.name == WATCH for thread in threading.enumerate()):
        threading.Thread(target=_watch, name=WATCH, args=(os.getppid(),), daemon=True).start()


def _watch(parent: int) -> None:
    """End this process once its parent changes, which happens when the parent has ended."""
    while os.getppid() == parent:
        time.sleep(WATCHED_EVERY)
    os._exit(1)


def check_open_files(n_jobs: int) -> int:
    """Check that enough files may be open for `n_jobs` processes; raise the soft limit if possible."""
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
def explain_lost_processes() -> Iterator[None]:
    """Raise a MemoryError if a process was killed; ignore the restart of workers that use much memory."""
    from concurrent.futures.process import BrokenProcessPool  # imports much

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "A worker stopped while some jobs were given", UserWarning)
        try:
            yield
        except BrokenProcessPool:
            raise MemoryError("A process was ended, most often because memory ran out; use fewer.") from None
