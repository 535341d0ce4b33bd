"""What joblib says about its processes, in our words."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager


@contextmanager
def told_of_lost_processes() -> Iterator[None]:
    """Systems that run out of memory end processes without a word; joblib renews those that have grown."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "A worker stopped while some jobs were given", UserWarning)
        try:
            yield
        except BrokenProcessPool:
            raise MemoryError("A process was ended, most often because memory ran out; use fewer.") from None
