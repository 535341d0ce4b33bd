"""Memory that is no longer used, returned to the system."""

from __future__ import annotations

import ctypes
import sys
from contextlib import suppress


def return_freed_memory() -> None:
    """Return memory that arrays and tables no longer use to the system.

    The C library and Arrow keep it for later requests, so that a process that has read a large table, or
    fitted a model, would remain as large as it was at its peak, beside the processes of the next stage.
    """
    arrow = sys.modules.get("pyarrow")
    if arrow is not None:
        arrow.default_memory_pool().release_unused()
    with suppress(OSError, AttributeError, TypeError):  # another C library, or Windows
        ctypes.CDLL(None).malloc_trim(0)
