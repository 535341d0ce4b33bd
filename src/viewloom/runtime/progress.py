"""A bar with the time left, for work that takes longer than a moment."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

T = TypeVar("T")


def unseen(count: int) -> None:
    """Nobody looks."""


@contextmanager
def progress_bar(title: str, total: int, show: bool) -> Iterator[Callable[[int], None]]:
    """A function to call with the number of finished units; draws a bar if asked to."""
    if not (show and sys.stderr.isatty()):
        yield unseen
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(title, total=total)
        yield lambda count: bar.advance(task, count)


def told(function: Callable[..., T], advance: Callable[[int], None]) -> Callable[..., T]:
    """The function, which tells a bar whenever it is done."""

    def wrapped(*args: Any) -> T:
        result = function(*args)
        advance(1)
        return result

    return wrapped
