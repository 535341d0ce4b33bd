"""Who runs the shards. A backend calls a method of every shard and adds the sums up."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from viewloom.solver.shard import Shard, ViewSums, add_up


def serial(method: Callable[..., list[ViewSums]], shards: list[Shard], *args: Any) -> list[ViewSums]:
    """One shard after the other, in this thread."""
    return add_up([method(shard, *args) for shard in shards])


BACKENDS = {"auto": serial, "serial": serial}
