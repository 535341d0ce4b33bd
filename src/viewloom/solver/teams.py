"""Who holds the shards and runs them: this thread, several threads, or a Dask cluster.

A team is made of a function that turns a block of rows into a shard. `total` calls a function of
every shard and adds the results up, view by view; `each` gives them in the order of rows.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import reduce
from operator import add
from typing import Any

from viewloom.data.row_sources import Blocks, assemble, is_lazy
from viewloom.runtime.progress import told, unseen
from viewloom.runtime.threads import one_openmp_thread, one_thread
from viewloom.solver.shard import Shard, Team

Make = Callable[[Any], Shard]
Advance = Callable[[int], None]  # tells a progress bar how many shards were made
Gather = Callable[[Make, Blocks, Advance], Team]


class Serial:
    """One shard after the other, in this thread."""

    def __init__(self, shards: Sequence[Shard], ranges: Sequence[tuple[int, int]] = ()) -> None:
        self.shards, self.ranges = list(shards), list(ranges)

    @classmethod
    def of(cls, make: Make, blocks: Blocks, advance: Advance = unseen) -> Serial:
        """Shards of all blocks."""
        return cls([told(make, advance)(views) for views in blocks], blocks.ranges)

    def each(self, function: Callable[..., Any], *args: Any) -> list[Any]:
        """``function(shard, *args)`` of every shard."""
        return [function(shard, *args) for shard in self.shards]

    def deal(self, function: Callable[..., Any], parts: list[Any]) -> list[Any]:
        """``function(shard, part)`` of every shard and its part."""
        return [function(shard, part) for shard, part in zip(self.shards, parts, strict=True)]

    def total(self, function: Callable[..., list[Any]], *args: Any) -> list[Any]:
        """Lists added up over shards."""
        return add_up(self.each(function, *args))


class Threads(Serial):
    """Shards side by side in threads; BLAS keeps to one thread in each."""

    @classmethod
    def of(cls, make: Make, blocks: Blocks, advance: Advance = unseen) -> Threads:
        """Shards of all blocks."""
        made = side_by_side(lambda rows: told(make, advance)(blocks.read(*rows)), blocks.ranges)
        return cls(made, blocks.ranges)

    def each(self, function: Callable[..., Any], *args: Any) -> list[Any]:
        """``function(shard, *args)`` of every shard."""
        return side_by_side(lambda shard: function(shard, *args), self.shards)


def side_by_side(function: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
    """``function(item)`` of every item, in threads."""
    with _pool() as pool:
        return list(pool.map(function, items))


@contextmanager
def _pool() -> Iterator[ThreadPoolExecutor]:
    # OpenMP's limit holds for the thread that sets it, so every thread does
    with one_thread(), ThreadPoolExecutor(cores(), initializer=one_openmp_thread) as pool:
        yield pool


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def add_up(parts: list[list[Any]]) -> list[Any]:
    """Sums of all shards, view by view."""
    return [reduce(add, view) for view in zip(*parts, strict=True)]


def build(make: Make, names: list[str], parts: list[Any], present: Any, features: Any = None) -> Shard:
    """A shard of a `Blocks.portion`, in the process that will hold it."""
    with one_thread():
        return make(assemble(names, parts, present, features))


def on_cluster(make: Make, blocks: Blocks, advance: Advance = unseen) -> Team:
    """A team on the workers of the running Dask client, which make their shards with the first call."""
    from viewloom.solver.dask_team import Cluster

    return Cluster.of(make, blocks)


TEAMS: dict[str, Gather] = {  # by the values of `backend`, beside "auto"
    "serial": Serial.of,
    "threads": Threads.of,
    "dask": on_cluster,
}


def choose_team(backend: str, blocks: Blocks) -> Gather:
    """The way that a parameter names; "auto" takes Dask for Dask's arrays, threads for anything else."""
    if backend == "auto":
        backend = "dask" if any(is_lazy(source) for source in blocks.sources) and has_client() else "threads"
    return TEAMS[backend]


def has_client() -> bool:
    """Whether a Dask client is running here."""
    try:
        from distributed import get_client

        get_client()
    except (ImportError, ValueError):
        return False
    return True
