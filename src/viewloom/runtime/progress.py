"""Progress bars with the remaining time."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

T = TypeVar("T")


def no_progress(count: int) -> None:
    """Ignore progress."""


@contextmanager
def progress_bar(title: str, total: int, show: bool) -> Iterator[Callable[[int], None]]:
    """Yield a function to call with the number of finished units; draw a bar if `show`."""
    if not (show and sys.stderr.isatty()):
        yield no_progress
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(title, total=total)
        yield lambda count: bar.advance(task, count)


def with_progress(function: Callable[..., T], advance: Callable[[int], None]) -> Callable[..., T]:
    """Wrap a function so that every call advances a progress bar by one."""

    def wrapped(*args: Any) -> T:
        result = function(*args)
        advance(1)
        return result

    return wrapped
