"""Progress bars with the remaining time, in terminals and notebooks, and lines in a file for other programs.

Bars are drawn by rich in terminals (`viewloom.runtime.terminal`). In notebooks one output of the cell is
replaced while the work lasts; it needs no further package and disappears at the end. Elsewhere, as in files
and pipes, nothing is drawn.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar, copy_context
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Any, TypeVar

from viewloom.runtime.visible import visible

T = TypeVar("T")
SHOWN: ContextVar[Any] = ContextVar("progress that is drawn", default=None)
PARTS: ContextVar[bool] = ContextVar("whether all bars within the drawn one are lines of it", default=False)
RECORD: list[Path] = []  # the file to which progress is recorded, if any
RECORDED_EVERY = 0.2  # seconds
OUTPUT: dict[int | None, Any] = {}  # by the number of the last cell with bars, the output that they share
DELAY, EVERY = 1.0, 0.5  # seconds until a bar appears in a notebook, and between its updates
TICK = 1.0  # seconds between updates while no unit is finished
WIDTH = 24  # characters of a bar in a notebook


def no_progress(count: int) -> None:
    """Ignore progress."""


@contextmanager
def progress_bar(title: str, total: int, show: bool) -> Iterator[Callable[[int], None]]:
    """Yield a function to call with the number of finished units; draw a bar if `show`.

    A total of 0 is an unknown one. Within another bar it is a line of that one. Where progress is recorded
    for another program, nothing is drawn.
    """
    if RECORD:
        yield recorder(title, total)
        return
    if not (show or PARTS.get()):
        yield no_progress
        return
    with drawing(True), stage(title, total) as advance:
        yield advance


@contextmanager
def drawing(show: bool) -> Iterator[None]:
    """Draw the stages within if `show`, unless they are drawn already or nothing can be drawn."""
    bars = _bars() if show and SHOWN.get() is None else None
    if bars is None:
        yield
        return
    with bars as bar:
        shown = SHOWN.set(bar)
        try:
            yield
        finally:
            SHOWN.reset(shown)


@contextmanager
def showing_parts() -> Iterator[None]:
    """Show the bars of all functions that are called as lines of the bar that is drawn, if one is."""
    token = PARTS.set(SHOWN.get() is not None)
    try:
        yield
    finally:
        PARTS.reset(token)


@contextmanager
def stage(title: str, total: int) -> Iterator[Callable[[int], None]]:
    """A part of the work within `progress_bar`: a line of its own while it lasts, if a bar is drawn.

    A total of 0 is an unknown one.
    """
    bar = SHOWN.get()
    if bar is None:
        yield no_progress
        return
    task = bar.add_task(visible(title), total=total or None)
    try:
        yield lambda count: bar.advance(task, count)
    finally:
        bar.remove_task(task)


def record_to(path: Path) -> None:
    """Record the progress of this process in a file, instead of drawing it: one JSON object per line.

    Each has the stage, the finished units, their total (0 if unknown), and the time in seconds; or what
    `announce` or `tell` records.
    """
    RECORD[:] = [path]


def announce(shares: Mapping[str, float]) -> None:
    """Record the stages that will follow, in their order, with their expected shares of the time."""
    _record({"plan": dict(shares)})


def tell(line: str) -> None:
    """Record a result that is known before the end."""
    _record({"said": line})


def _record(event: Mapping[str, Any]) -> None:
    if RECORD:
        with RECORD[0].open("a", encoding="utf-8") as file:
            file.write(f"{json.dumps(event)}\n")


def recorder(title: str, total: int) -> Callable[[int], None]:
    """Record the beginning of a stage; return a function that records its finished units."""
    done, last = 0, 0.0

    def advance(count: int) -> None:
        nonlocal done, last
        done += count
        if time.time() - last < RECORDED_EVERY and done < total:
            return
        last = time.time()
        _record({"stage": title, "done": done, "total": total, "at": last})

    advance(0)
    return advance


def with_progress(function: Callable[..., T], advance: Callable[[int], None]) -> Callable[..., T]:
    """Wrap a function so that every call advances a progress bar by one."""

    def wrapped(*args: Any) -> T:
        result = function(*args)
        advance(1)
        return result

    return wrapped


def _bars() -> AbstractContextManager[Any] | None:
    """The bars of a notebook or a terminal; None where nothing can be drawn."""
    if in_notebook():
        return NotebookBars()
    if not sys.stderr.isatty():
        return None
    from viewloom.runtime.terminal import terminal_bars

    return terminal_bars()


def in_notebook() -> bool:
    """Whether the code runs in a cell of a notebook, also in JupyterLab, VS Code or Colab."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return shell is not None and hasattr(shell, "kernel")


@dataclass
class Task:
    """One line: finished units of all, since when."""

    title: str
    total: int | None
    done: int = 0
    began: float = field(default_factory=time.monotonic)
    at: float = 0.0  # when a unit was last finished

    def advance(self, count: int) -> None:
        """Count finished units."""
        self.done, self.at = self.done + count, time.monotonic()

    def line(self, now: float) -> str:
        """The line as text, with the remaining time.

        Examples
        --------
        >>> print(Task("Searching", 4, 1, began=0.0, at=20.0).line(25.0))
        Searching ██████··················  25 %  0:00:55 left
        """
        if not self.total:
            return f"{self.title} {clock(now - self.began)}"
        share = min(self.done / self.total, 1.0)
        bar = "█" * round(WIDTH * share)
        left = seconds_left(share, self.at - self.began, now - self.at)
        end = "" if left is None else f"  {clock(left)} left"
        return f"{self.title} {bar:·<{WIDTH}} {100 * share:3.0f} %{end}"


def seconds_left(share: float, spent: float, since: float) -> float | None:
    """Seconds until the end at the mean speed so far; None if nothing is done.

    Parameters
    ----------
    share : float
        Share of the units that are finished.
    spent : float
        Seconds from the beginning until the last of them.
    since : float
        Seconds since then.

    Examples
    --------
    >>> seconds_left(0.25, 20.0, 5.0)
    55.0
    """
    return max(spent * (1.0 / share - 1.0) - since, 0.0) if share > 0.0 else None


def clock(seconds: float) -> str:
    """Hours, minutes and seconds.

    Examples
    --------
    >>> clock(3725.4)
    '1:02:05'
    """
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02d}:{rest:02d}"


class NotebookBars:
    """Lines of progress in the output of a cell, with the methods of rich's `Progress` that are used here.

    A thread updates them while no unit is finished; units may be finished in several threads.
    """

    def __init__(self) -> None:
        self._tasks: dict[int, Task] = {}
        self._handle: Any = None
        self._next = 0
        self._drawn = time.monotonic() + DELAY - EVERY
        self._lock, self._ended = Lock(), Event()
        self._clock = Thread(target=copy_context().run, args=(self._tick,), daemon=True)

    def __enter__(self) -> NotebookBars:
        self._clock.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._clock.join()
        if self._handle is not None:
            self._handle.update({"text/plain": ""}, raw=True)

    def add_task(self, title: str, total: int | None) -> int:
        """Add a line; return its number."""
        with self._lock:
            self._next += 1
            self._tasks[self._next] = Task(title, total)
            self._draw()
            return self._next

    def advance(self, task: int, count: int) -> None:
        """Count finished units of a line."""
        with self._lock:
            self._tasks[task].advance(count)
            self._draw()

    def remove_task(self, task: int) -> None:
        """Remove a line."""
        with self._lock:
            del self._tasks[task]

    def _tick(self) -> None:
        """Draw now and then until the end."""
        while not self._ended.wait(TICK):
            with self._lock:
                self._draw()

    def _draw(self) -> None:
        """Draw all lines, unless they were drawn just now."""
        now = time.monotonic()
        if now - self._drawn < EVERY or not self._tasks:
            return
        text = {"text/plain": "\n".join(task.line(now) for task in self._tasks.values())}
        if self._handle is None:
            self._handle = _shown(text)
        else:
            self._handle.update(text, raw=True)
        self._drawn = now


def _shown(text: dict[str, str]) -> Any:
    """The output of the present cell with this text: one for all bars of a cell, since empty ones remain."""
    shell, display = (import_module(name) for name in ("IPython", "IPython.display"))  # a notebook has them
    cell = getattr(shell.get_ipython(), "execution_count", None)
    if cell is None or cell not in OUTPUT:
        OUTPUT.clear()
        OUTPUT[cell] = display.display(text, raw=True, display_id=True)
    else:
        OUTPUT[cell].update(text, raw=True)
    return OUTPUT[cell]
