"""A team of Dask workers, each of which holds the shards of consecutive blocks of rows.

A lot is a group of consecutive blocks on one worker. Its actor keeps the shards between calls and adds
their results up before sending them. Rows are read, or computed by Dask, on the worker of their shard;
the client receives k x k and k x m sums, and the memberships at the end.

The state of a shard depends only on its rows and on the calls made so far. Calls are small and are
logged: if a worker is lost, its lot is rebuilt on another worker and all calls are repeated, which
restores the state bit for bit.
"""

from __future__ import annotations

import ctypes
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain, groupby
from math import inf
from typing import Any

import scipy.sparse as sp

from viewloom.data.row_sources import Blocks, StoredRows, is_lazy
from viewloom.kernels.ties import PackedTies
from viewloom.runtime.errors import InputError, MissingPackageError, WorkerError
from viewloom.runtime.threads import one_blas_thread, one_openmp_thread
from viewloom.solver.shard import Shard
from viewloom.solver.teams import Make, add_up, build

ATTEMPTS, PAUSE_SECONDS = 4, 0.5  # attempts to complete a call when workers are lost, and the pause between
RESTART_SECONDS = 10.0  # time for a nanny to restart a lost worker, before other workers replace it
LONELY_SECONDS = 60.0  # the same if there are no other workers
POLL_SECONDS = 2.0  # interval of checks whether a worker that does not answer is still alive
PROBE_ROWS = 64
WORKING_BYTES = 2**27  # reserved for libraries, and once more for every thread that makes a shard
BUILD_FIRST = 10  # priority of making shards over computing more rows
TRIM_SETTING = "MALLOC_TRIM_THRESHOLD_"
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # of glibc's mallopt
KEPT_BYTES, MAPPED_BYTES = 2**26, 2**25  # free memory kept by an arena; size from which arrays are mapped


class Lost(Exception):
    """A worker was lost."""


@dataclass(frozen=True)
class Call:
    """A function to apply to every shard, with the same arguments or with one part for each."""

    function: Callable[..., Any]
    args: tuple[Any, ...] = ()
    parts: Sequence[Any] | None = None
    summed: bool = False

    def of(self, blocks: slice) -> Call:
        """The call restricted to the given blocks."""
        return self if self.parts is None else replace(self, parts=self.parts[blocks])

    def on(self, shards: Sequence[Shard], pool: ThreadPoolExecutor) -> list[Any]:
        """Apply the function to shards; return the results in the order of rows, or their sum."""
        given = [self.args] * len(shards) if self.parts is None else [(part,) for part in self.parts]
        with one_blas_thread():
            found = list(pool.map(lambda shard, args: self.function(shard, *args), shards, given))
        return add_up(found) if self.summed else found


@dataclass(frozen=True)
class Failure:
    """An error raised by a call; any other error from an actor means that its worker was lost."""

    error: Exception


class Host:
    """The actor that holds the shards of a lot; uses as many threads as its worker has."""

    def __init__(self, shards: Sequence[Shard]) -> None:
        from distributed import get_worker

        keep_freed_memory()
        self.shards = shards
        threads = get_worker().state.nthreads
        self.pool = ThreadPoolExecutor(threads, initializer=one_openmp_thread)

    def run(self, calls: Sequence[Call]) -> list[Any] | Failure:
        """Run calls in order; return the results of the last."""
        found: list[Any] = []
        try:
            for call in calls:
                found = call.on(self.shards, self.pool)
        except Exception as error:
            return Failure(error)
        return found


@dataclass(eq=False)
class Lot:
    """Consecutive blocks of rows on one worker."""

    blocks: slice
    ranges: list[tuple[int, int]]
    address: str = ""
    held: Any = None  # the future that keeps the actor alive
    actor: Any = None  # None if no worker holds the lot
    done: int = 0  # number of calls that the actor has run

    @property
    def rows(self) -> int:
        """Number of samples."""
        return self.ranges[-1][1] - self.ranges[0][0]

    def ask(self, log: Sequence[Call]) -> Any:
        """Send the calls that were not run yet; return a future, or None if the worker is lost."""
        with suppress(RuntimeError):
            return self.actor.run([call.of(self.blocks) for call in log[self.done :]])

    def answer(self, reply: Any) -> list[Any]:
        """Wait for the results of the calls that were sent."""
        try:
            found = _received(reply, lambda: self.held.status == "finished")
        except Exception as error:
            raise Lost from error.with_traceback(None)  # no reference cycle through the frames of this team
        if isinstance(found, Failure):
            raise found.error
        return found

    def drop(self) -> None:
        """Release the actor explicitly: distributed keeps references to it in cycles."""
        with suppress(Exception):  # a closed client has already released it
            self.held.cancel()
        self.held = self.actor = None
        self.done = 0


class Cluster:
    """Shards on the workers of a Dask client (see `viewloom.solver.teams`)."""

    def __init__(self, client: Any, make: Make, blocks: Blocks, lots: list[Lot], row_bytes: float) -> None:
        self.client, self.make, self.blocks, self.lots = client, make, blocks, lots
        self.row_bytes = row_bytes
        self.log: list[Call] = []

    def __del__(self) -> None:
        self._leave()

    def _leave(self) -> None:
        for lot in self.lots:
            lot.drop()

    @classmethod
    def of(cls, make: Make, blocks: Blocks) -> Cluster:
        """Distribute blocks over the workers of the running client; shards are made at the first call.

        Blocks are divided again, so that every thread has the same number of rows: see `ranges`.
        """
        client = running_client()
        workers = _workers(client)
        if not workers:
            raise InputError("The Dask cluster has no workers: start some, or client.wait_for_workers(1).")
        blocks = blocks.divided(len(workers) * max(worker["nthreads"] for worker in workers.values()))
        return cls(client, make, blocks, deal_out(blocks, len(workers)), bytes_per_row(make, blocks))

    @property
    def ranges(self) -> list[tuple[int, int]]:
        """First row of every shard, and one past its last."""
        return self.blocks.ranges

    def each(self, function: Callable[..., Any], *args: Any) -> list[Any]:
        """``function(shard, *args)`` for every shard, in the order of rows."""
        return list(chain.from_iterable(self._run(Call(function, args))))

    def deal(self, function: Callable[..., Any], parts: list[Any]) -> list[Any]:
        """``function(shard, part)`` for every shard and its part."""
        return list(chain.from_iterable(self._run(Call(function, parts=parts))))

    def total(self, function: Callable[..., list[Any]], *args: Any) -> list[Any]:
        """Lists added up over shards, first on every worker."""
        return add_up(self._run(Call(function, args, summed=True)))

    def _run(self, call: Call) -> list[list[Any]]:
        """Results of every lot; lots whose worker is lost are rebuilt and repeat the logged calls."""
        self.log.append(call)
        try:
            return self._completed()
        except BaseException:
            self._leave()
            raise

    def _completed(self) -> list[list[Any]]:
        results: dict[Lot, list[Any]] = {}
        for attempt in range(ATTEMPTS):
            time.sleep(PAUSE_SECONDS * (attempt > 0))
            waiting = [lot for lot in self.lots if lot not in results]
            self._place([lot for lot in waiting if lot.actor is None])
            results |= self._answers([lot for lot in waiting if lot.actor is not None])
            if len(results) == len(self.lots):
                return [results[lot] for lot in self.lots]
        raise WorkerError(
            f"Dask workers were lost {ATTEMPTS} times in the same step, most often because memory ran out. "
            "Start more workers, or give each more memory (memory_limit)."
        )

    def _answers(self, lots: list[Lot]) -> dict[Lot, list[Any]]:
        """Results of the last logged call, for the lots whose worker answers."""
        replies = [lot.ask(self.log) for lot in lots]
        results = {}
        for lot, reply in zip(lots, replies, strict=True):
            try:
                results[lot] = lot.answer(reply)
                lot.done = len(self.log)
            except Lost:
                lot.drop()
        return results

    def _place(self, lots: list[Lot]) -> None:
        """Build lots on the workers with the fewest rows; lots that fail have no actor."""
        if not lots:
            return
        self._find_homes(lots)
        with suppress(Lost):
            self._submit(lots)
        for lot in lots:
            try:
                lot.actor = self._settled(lot)
            except Lost:
                lot.drop()

    def _submit(self, lots: list[Lot]) -> None:
        make = self._sent(self.make, sorted({lot.address for lot in lots}))
        for lot in lots:
            lot.held = self._hosted(lot, make)

    def _find_homes(self, lots: list[Lot]) -> None:
        workers = self._awaited_workers()
        loads, added = Counter[str](), Counter[str]()
        for lot in self.lots:
            loads[lot.address] += lot.rows * (lot.actor is not None)
        for lot in lots:
            lot.address = min(workers, key=lambda address: loads[address])
            loads[lot.address] += lot.rows
            added[lot.address] += lot.rows
        check_memory(added, {address: _room(workers[address]) for address in added}, self.row_bytes)

    def _awaited_workers(self) -> dict[str, Any]:
        """Current workers, after waiting for lost ones to restart."""
        began = time.monotonic()
        while len(workers := _workers(self.client)) < len(self.lots):
            patience = RESTART_SECONDS if workers else LONELY_SECONDS
            if time.monotonic() - began >= patience:
                break
            time.sleep(0.1)
        if not workers:
            raise WorkerError(
                f"No Dask worker is left, and none came back within {LONELY_SECONDS:g} s. Most often memory "
                "ran out: start more workers, or give each more memory (memory_limit), and fit again."
            )
        return workers

    def _hosted(self, lot: Lot, make: Any) -> Any:
        """A future of the actor that holds the shards of a lot, all on one worker."""
        here = {"workers": [lot.address], "pure": False}
        shards = []
        for rows, parts in zip(lot.ranges, self._delivered(lot), strict=True):
            present = self.blocks.present_in(slice(*rows))
            arguments = make, self.blocks.names, parts, present, self.blocks.features
            shards.append(self.client.submit(build, *arguments, priority=BUILD_FIRST, **here))
        return self.client.submit(Host, shards, actor=True, **here)

    def _delivered(self, lot: Lot) -> Iterator[list[Any]]:
        """Parts of every block for its worker: computed there, read there, or sent."""
        blocks = [self.blocks.parts(*rows) for rows in lot.ranges]
        lazy = [part for part in chain.from_iterable(blocks) if is_lazy(part)]
        computed = iter(self.client.compute(lazy, workers=[lot.address], allow_other_workers=True))

        def delivered(part: Any) -> Any:
            if is_lazy(part):
                return next(computed)
            return part if isinstance(part, StoredRows) else self._sent(part, [lot.address])

        return ([delivered(part) for part in block] for block in blocks)

    def _sent(self, what: Any, addresses: list[str]) -> Any:
        """A future of data on the given workers."""
        try:
            return self.client.scatter([what], workers=addresses, broadcast=True, hash=False)[0]
        except (OSError, KeyError) as error:  # cannot be reached; no longer known to the scheduler
            raise Lost from error

    def _settled(self, lot: Lot) -> Any:
        """Wait until the shards are made; return the actor."""
        if lot.held is None:
            raise Lost
        try:
            return _received(lot.held, lambda: lot.address in _workers(self.client))
        except Exception as error:
            if lot.address in _workers(self.client):
                raise  # the worker is alive: an error of the computation
            raise Lost from error.with_traceback(None)


def running_client() -> Any:
    """The Dask client of this process."""
    try:
        from distributed import get_client
    except ImportError as error:
        raise MissingPackageError('backend="dask" needs distributed: pip install viewloom[dask]') from error
    try:
        return get_client()
    except ValueError as error:
        raise InputError(
            'backend="dask" needs a running Dask client: client = distributed.Client(...) before fit, '
            'or backend="threads".'
        ) from error


def deal_out(blocks: Blocks, count: int) -> list[Lot]:
    """Group consecutive blocks for `count` workers, with about the same number of rows each."""
    shares = [count * (start + stop) // (2 * blocks.n) for start, stop in blocks.ranges]
    lots = []
    for _, group in groupby(range(len(shares)), key=shares.__getitem__):
        positions = list(group)
        chosen = slice(positions[0], positions[-1] + 1)
        lots.append(Lot(chosen, blocks.ranges[chosen]))
    return lots


def keep_freed_memory() -> None:
    """Let a worker reuse freed memory.

    Dask makes glibc return free memory above 64 KiB to the system. Every temporary array is then mapped
    again and filled with zeros, which takes as long as the iteration itself.
    """
    if TRIM_SETTING in os.environ:
        with suppress(OSError, AttributeError):  # another C library
            adjust = ctypes.CDLL(None).mallopt
            adjust(M_TRIM_THRESHOLD, KEPT_BYTES)
            adjust(M_MMAP_THRESHOLD, MAPPED_BYTES)


def bytes_per_row(make: Make, blocks: Blocks) -> float:
    """Bytes per sample on a worker: factors, graph, memberships, and features unless read from a file."""
    stop = min(PROBE_ROWS, blocks.n)
    views = blocks.read(0, stop)
    shard = make(views)
    k, itemsize = len(shard.G_star), shard.G_star.itemsize
    total = float(k * itemsize)
    for block in shard.blocks:
        total += _row_bytes(block.kernel.Z) + k * itemsize
        if block.laplacian is not None:
            total += _tie_bytes(block.laplacian.adjacency) + itemsize
    sent = [not isinstance(part, StoredRows) for part in blocks.parts(0, stop)]
    return total + sum(_row_bytes(X) for X, there in zip(views.blocks, sent, strict=True) if there)


def _tie_bytes(ties: Any) -> float:
    packed = isinstance(ties, PackedTies)
    return ties.nbytes / max(ties.size, 1) if packed else _row_bytes(ties.Z)


def _row_bytes(X: Any) -> float:
    if sp.issparse(X):
        return (X.data.nbytes + X.indices.nbytes + X.indptr.nbytes) / max(X.shape[0], 1)
    return float(X.shape[1] * X.itemsize)


def check_memory(rows: Mapping[str, int], room: Mapping[str, float], row_bytes: float) -> None:
    """Raise an error if the rows do not fit into the memory of the workers."""
    for address, count in rows.items():
        need, have = count * row_bytes / 2**20, max(room[address], 0.0) / 2**20
        if need > have:
            raise InputError(
                f"Too little memory: a Dask worker can hold {have:.0f} MiB before it begins to spill, but "
                f"{count} rows of {row_bytes:.0f} bytes need {need:.0f} MiB. Start more workers, give each "
                "more memory (memory_limit), or pass float32 data."
            )


def _room(worker: Mapping[str, Any]) -> float:
    """Bytes available for shards before a worker begins to spill to disk."""
    from dask import config

    share = config.get("distributed.worker.memory.target") or 1.0
    used = worker["metrics"]["memory"] + WORKING_BYTES * (1 + worker["nthreads"])
    return share * worker["memory_limit"] - used if worker["memory_limit"] else inf


def _workers(client: Any) -> dict[str, Any]:
    """Workers known to the scheduler.

    `client.scheduler_info` is not used: it may return a concurrent request of the client, without workers.
    """
    try:
        known = client.sync(client.scheduler.identity, n_workers=-1)
    except (OSError, RuntimeError, AttributeError) as error:  # the last: a closed client has no scheduler
        raise WorkerError(
            "The Dask scheduler can no longer be reached: start a cluster and fit again."
        ) from error
    return dict(known["workers"])


def _received(future: Any, alive: Callable[[], bool]) -> Any:
    """Wait for the result of a future; raise `Lost` as soon as its worker is no longer alive."""
    while True:
        try:
            return future.result(timeout=POLL_SECONDS)
        except TimeoutError:
            if future.done():
                return future.result()
            if not alive():
                raise Lost from None
