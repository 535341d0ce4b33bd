"""What an iteration costs on a Dask cluster, against threads and serial, and what follows for more rows.

    python benchmarks/cluster.py [--n 1000000] [--small 20000] [--workers 2] [--iterations 10] [--json FILE]

Three simulated views of 64 float32 features, ten clusters, worker processes of one thread each on this
machine, and as many threads. The backends take turns, `--rounds` times each. Seconds are the median over
iterations; on a machine that has other work, the least and the processor's seconds (client, scheduler and
workers together) tell more. Bytes are what the loopback interface carried meanwhile, other programs'
included. The last lines are arithmetic from what was measured, for `--rows` rows on `--machines` workers.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import mean, median
from typing import Any, ClassVar

import numpy as np
import psutil
from distributed import Client, LocalCluster

import viewloom.solver.dask_team
from viewloom import KernelMultiviewNMF
from viewloom.solver.shard import Shard
from viewloom.solver.teams import TEAMS, Serial, Threads

K, VIEWS, FEATURES = 10, 3, 64
WARM = 2  # iterations that are not counted
GIB = 2**30
COLUMNS = ("   rows", "threads s", "dask s", "ratio", "of least", "of processor", "bytes on the wire")


@dataclass(frozen=True)
class Step:
    """An iteration: seconds of the clock, of all processors, and bytes on the wire."""

    seconds: float
    processor: float
    wire: int


class Metered:
    """A team that notes what its iterations cost."""

    steps: ClassVar[list[Step]] = []
    message: ClassVar[Any] = None
    row_bytes_seen: ClassVar[float] = 0.0

    def total(self, function: Any, *args: Any) -> list[Any]:
        """The same, measured."""
        carried, used, began = loopback_bytes(), processor_seconds(), time.perf_counter()
        result: list[Any] = super().total(function, *args)  # type: ignore[misc]
        if function is Shard.step:
            seconds = time.perf_counter() - began
            Metered.steps.append(Step(seconds, processor_seconds() - used, loopback_bytes() - carried))
            Metered.message, Metered.row_bytes_seen = args[0], getattr(self, "row_bytes", 0.0)
        return result


class MeteredSerial(Metered, Serial):
    """One shard after the other."""


class MeteredThreads(Metered, Threads):
    """Threads."""


class MeteredCluster(Metered, viewloom.solver.dask_team.Cluster):
    """Dask."""


@dataclass
class Cost:
    """What iterations of a backend cost, as far as they were measured."""

    steps: list[Step] = field(default_factory=list)

    @property
    def seconds(self) -> float:
        """Median seconds."""
        return median(step.seconds for step in self.steps)

    @property
    def least(self) -> float:
        """Seconds of the fastest."""
        return min(step.seconds for step in self.steps)

    @property
    def processor(self) -> float:
        """Mean seconds of all processors."""
        return mean(step.processor for step in self.steps)

    @property
    def wire(self) -> float:
        """Median bytes."""
        return median(step.wire for step in self.steps)


@dataclass
class Measured:
    """What was measured: costs of an iteration by number of rows."""

    n: int
    workers: int
    serial: dict[int, Cost] = field(default_factory=dict)
    threads: dict[int, Cost] = field(default_factory=dict)
    dask: dict[int, Cost] = field(default_factory=dict)
    message_bytes: int = 0  # to one worker; sums come back in the same shapes
    row_bytes: float = 0.0


def main(argv: list[str] | None = None) -> int:
    """Measure, print, and write what was printed."""
    options = parse(argv)
    measured = measure(options)
    lines = [overhead(measured, options.small), *priced(measured), *foretold(measured, options)]
    print("\n".join(lines))
    if options.json:
        options.json.write_text(json.dumps({**asdict(measured), "lines": lines}, indent=2))
    return 0


def parse(argv: list[str] | None) -> argparse.Namespace:
    """Options of the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--n", type=int, default=1_000_000, help="rows")
    parser.add_argument("--small", type=int, default=20_000, help="rows for the overhead against serial")
    parser.add_argument("--workers", type=int, default=2, help="worker processes")
    parser.add_argument("--iterations", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=2, help="turns of every backend")
    parser.add_argument("--rows", type=int, default=10**8, help="rows of the arithmetic")
    parser.add_argument("--machines", type=int, default=100, help="workers of the arithmetic")
    parser.add_argument("--bandwidth", type=float, default=1.25e9, help="bytes per second at the scheduler")
    parser.add_argument("--json", type=Path, help="write every number to this file")
    return parser.parse_args(argv)


def measure(options: argparse.Namespace) -> Measured:
    """Fits of the same data by every backend, in turns."""
    TEAMS.update(serial=MeteredSerial.of, threads=MeteredThreads.of)
    viewloom.solver.dask_team.Cluster = MeteredCluster  # type: ignore[misc]
    measured = Measured(options.n, options.workers)
    views = simulated(options.n)
    print("  ".join(COLUMNS))
    local = {"host": "127.0.0.1", "dashboard_address": "127.0.0.1:0", "threads_per_worker": 1}
    for n in sorted({options.small, options.n // 2, options.n}):
        part = {name: X[:n] for name, X in views.items()}
        turns = {"threads": measured.threads, "dask": measured.dask}
        if n == options.small:
            turns["serial"] = measured.serial
        with LocalCluster(n_workers=options.workers, **local) as cluster, Client(cluster):
            for backend, costs in options.rounds * list(turns.items()):
                costs.setdefault(n, Cost()).steps += steps_of(backend, part, options.iterations)
        print(compared(measured, n), flush=True)
    measured.row_bytes = Metered.row_bytes_seen
    measured.message_bytes = sum(
        array.nbytes for m in Metered.message for array in (m.A, m.C, m.neighbours) if array is not None
    )
    return measured


def simulated(n: int) -> dict[str, np.ndarray]:
    """Ten clusters seen through three views."""
    rng = np.random.default_rng(0)
    y = rng.integers(K, size=n)
    return {
        f"view{a}": rng.standard_normal((K, FEATURES), dtype=np.float32)[y]
        + rng.standard_normal((n, FEATURES), dtype=np.float32)
        for a in range(VIEWS)
    }


def steps_of(backend: str, views: dict[str, np.ndarray], iterations: int) -> list[Step]:
    """Iterations of a fit, after the first."""
    settings = {"max_iter": iterations, "tol": 0.0, "init": "random", "random_state": 0}  # a long way to go
    model = KernelMultiviewNMF(K, factored=True, backend=backend, **settings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # not converged
        model.fit(views)
    return Metered.steps[WARM - iterations :]


def processor_seconds() -> float:
    """Seconds that processors gave to this process and its children."""
    me = psutil.Process()
    times = [process.cpu_times() for process in (me, *me.children(recursive=True))]
    return float(sum(time.user + time.system for time in times))


def loopback_bytes() -> int:
    """Bytes that the loopback interface has carried."""
    nics = psutil.net_io_counters(pernic=True)
    return int(next((nic.bytes_sent for name, nic in nics.items() if name.startswith("lo")), 0))


def compared(measured: Measured, n: int) -> str:
    """An iteration against threads."""
    dask, threads = measured.dask[n], measured.threads[n]
    pairs = [(getattr(dask, name), getattr(threads, name)) for name in ("seconds", "least", "processor")]
    ratios = [f"{mine / theirs:.2f}" for mine, theirs in pairs]
    cells = [f"{n}", f"{threads.seconds:.3f}", f"{dask.seconds:.3f}", *ratios, f"{dask.wire:.0f}"]
    return "  ".join(f"{cell:>{len(name)}}" for cell, name in zip(cells, COLUMNS, strict=True))


def overhead(measured: Measured, n: int) -> str:
    """An iteration on few rows against serial."""
    dask, serial = measured.dask[n], measured.serial[n]
    above, least = dask.seconds - serial.seconds, dask.least - serial.least
    return (
        f"{n} rows: {1e3 * above:.0f} ms above serial ({1e3 * serial.seconds:.0f} ms); "
        f"of the least {1e3 * least:.0f} ms above {1e3 * serial.least:.0f} ms"
    )


def priced(measured: Measured) -> list[str]:
    """Bytes and messages from the shapes, beside what was counted."""
    both_ways = 2 * measured.workers * measured.message_bytes
    carried = measured.dask[measured.n].wire
    return [
        f"a message of {VIEWS} x (k x k + k x w + k x m) float64: {measured.message_bytes} bytes",
        f"an iteration on {measured.workers} workers: {2 * measured.workers} messages, {both_ways} bytes; "
        f"twice, since the scheduler passes them on: {2 * both_ways}; counted: {carried:.0f} "
        f"({carried / (2 * both_ways):.2f} times)",
    ]


def foretold(measured: Measured, options: argparse.Namespace) -> list[str]:
    """Cost per row from the least and the most rows, checked between them, and carried on."""
    few, middle, many = sorted(measured.dask)
    took = {n: cost.least for n, cost in measured.dask.items()}
    each = (took[many] - took[few]) * measured.workers / (many - few)
    fixed = took[few] - each * few / measured.workers
    expected = fixed + each * middle / measured.workers
    rows = options.rows / options.machines
    passed = 4 * options.machines * measured.message_bytes
    work, wire = each * rows, passed / options.bandwidth
    held = rows * measured.row_bytes
    result = options.rows * K * (VIEWS + 1) * 4
    return [
        f"{1e6 * each:.3f} us per row and worker, {1e3 * fixed:.1f} ms whatever the rows; "
        f"{middle} rows: {expected:.3f} s foretold, {took[middle]:.3f} s measured",
        f"{options.rows} rows on {options.machines} workers: {rows:.0f} rows each; an iteration takes",
        f"  {work:.2f} s of work,",
        f"  {4 * options.machines} messages, {passed / 1e6:.0f} MB past the scheduler: {wire:.2f} s "
        f"at {options.bandwidth / 1e9:.2f} GB/s, half of that with Client(direct_to_workers=True),",
        f"  {held / GIB:.2f} GiB on each worker ({measured.row_bytes:.0f} bytes per row), "
        f"{result / GIB:.0f} GiB of memberships on the client at the end",
        f"calls kept for recovery: {measured.message_bytes / 1e6:.2f} MB an iteration",
    ]


if __name__ == "__main__":
    raise SystemExit(main())
