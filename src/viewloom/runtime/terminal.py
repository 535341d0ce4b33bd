"""Progress bars in terminals, with the remaining time at the mean speed so far."""

from __future__ import annotations

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TaskID, TaskProgressColumn, TextColumn
from rich.text import Text

from viewloom.runtime.progress import clock, seconds_left


def terminal_bars() -> Progress:
    """Bars on the standard error, which disappear at the end."""
    title = TextColumn("{task.description}", markup=False)  # titles may name files
    columns = (title, BarColumn(), TaskProgressColumn(), TimeLeft())
    return Progress(*columns, console=Console(stderr=True), transient=True)


class TimeLeft(ProgressColumn):
    """The remaining time, or, if the total is unknown, the time since the beginning.

    The column of rich takes the speed of the last half minute, and so has none if a unit takes longer.
    """

    def __init__(self) -> None:
        super().__init__()
        self._last: dict[TaskID, tuple[float, float]] = {}  # finished units, and when the last was

    def render(self, task: Task) -> Text:
        """The time as text."""
        spent = task.elapsed or 0.0
        if not task.total:
            return Text(clock(spent), style="progress.elapsed")
        done, at = self._last.get(task.id, (0.0, 0.0))
        if task.completed != done:
            at = spent
            self._last[task.id] = task.completed, at
        left = seconds_left(min(task.completed / task.total, 1.0), at, spent - at)
        return Text("" if left is None else f"{clock(left)} left", style="progress.remaining")
