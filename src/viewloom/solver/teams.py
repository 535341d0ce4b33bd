"""Teams hold the shards and run functions on them: in this thread, in several threads, or on a Dask cluster.

A team is built from a function that makes a shard of a block of rows. `total` applies a function to
every shard and adds the results up, view by view; `each` returns them in the order of rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import reduce
from threading import local
from typing import Any

from viewloom.data.row_sources import Blocks, assemble, is_lazy
from viewloom.runtime.progress import no_progress, with_progress
from viewloom.runtime.threads import allowed_threads, one_openmp_thread, one_thread
from viewloom.solver.shard import Shard, Team

Make = Callable[[Any], Shard]
Advance = Callable[[int], None]  # advances a progress bar by a number of shards
Gather = Callable[[Make, Blocks, Advance], Team]


class Serial:
    """Shards run one after the other in this thread."""

    def __init__(self, shards: Sequence[Shard], ranges: Sequence[tuple[int, int]] = ()) -> None:
        self.shards, self.ranges = list(shards), list(ranges)

    @classmethod
    def of(cls, make: Make, blocks: Blocks, advance: Advance = no_progress) -> Serial:
        """Make the shards of all blocks."""
        return cls([with_progress(make, advance)(views) for views in blocks], blocks.ranges)

    def each(self, function: Callable[..., Any], *args: Any) -> list[Any]:
        """``function(shard, *args)`` for every shard."""
        return list(self._results(function, *args))

    def deal(self, function: Callable[..., Any], parts: list[Any]) -> list[Any]:
        """``function(shard, part)`` for every shard and its part."""
        return [function(shard, part) for shard, part in zip(self.shards, parts, strict=True)]

    def total(self, function: Callable[..., list[Any]], *args: Any) -> list[Any]:
        """Lists added up over shards, each as soon as it is there."""
        return add_up(self._results(function, *args))

    def _results(self, function: Callable[..., Any], *args: Any) -> Iterator[Any]:
        return (function(shard, *args) for shard in self.shards)


class Threads(Serial):
    """Shards run in parallel threads, with one BLAS thread each."""

    @classmethod
    def of(cls, make: Make, blocks: Blocks, advance: Advance = no_progress) -> Threads:
        """Make the shards of all blocks."""
        made = in_threads(lambda rows: with_progress(make, advance)(blocks.read(*rows)), blocks.ranges)
        return cls(list(made), blocks.ranges)

    def _results(self, function: Callable[..., Any], *args: Any) -> Iterator[Any]:
        return in_threads(lambda shard: function(shard, *args), self.shards)


_POOL = local()  # whether this thread belongs to a pool


def in_threads(function: Callable[[Any], Any], items: Sequence[Any]) -> Iterator[Any]:
    """``function(item)`` for every item, in parallel threads and in the order of the items.

    Threads are as many as BLAS may use. A thread of such a pool starts no other one.
    """
    count = min(allowed_threads(), len(items))
    with one_thread():
        if count < 2 or getattr(_POOL, "joined", False):
            yield from map(function, items)
            return
        with ThreadPoolExecutor(count, initializer=_join_pool) as pool:
            yield from pool.map(function, items)


def _join_pool() -> None:
    _POOL.joined = True
    one_openmp_thread()  # OpenMP's limit applies to the thread that sets it


def add_up(parts: Iterable[list[Any]]) -> list[Any]:
    """Add up the sums of all shards, view by view, without holding those of all shards at once."""
    return reduce(lambda total, part: [a + b for a, b in zip(total, part, strict=True)], parts)


def build(make: Make, names: list[str], parts: list[Any], present: Any, features: Any = None) -> Shard:
    """A shard of a `Blocks.portion`, in the process that will hold it."""
    with one_thread():
        return make(assemble(names, parts, present, features))


def on_cluster(make: Make, blocks: Blocks, advance: Advance = no_progress) -> Team:
    """A team on the workers of the running Dask client, which make their shards at the first call."""
    from viewloom.solver.dask_team import Cluster

    return Cluster.of(make, blocks)


TEAMS: dict[str, Gather] = {  # by the values of `backend`, beside "auto"
    "serial": Serial.of,
    "threads": Threads.of,
    "dask": on_cluster,
}


def choose_team(backend: str, blocks: Blocks) -> Gather:
    """Constructor of the team for a backend; "auto" uses Dask for Dask arrays and threads otherwise."""
    if backend == "auto":
        backend = "dask" if any(is_lazy(source) for source in blocks.sources) and has_client() else "threads"
    return TEAMS[backend]


def has_client() -> bool:
    """Whether a Dask client is running in this process."""
    try:
        from distributed import get_client

        get_client()
    except (ImportError, ValueError):
        return False
    return True
