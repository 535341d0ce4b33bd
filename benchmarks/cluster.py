"""What an iteration costs on a Dask cluster, against threads and serial, and what follows for more rows.

    python benchmarks/cluster.py [--n 200000] [--small 20000] [--workers 2] [--iterations 10] [--json FILE]

Three simulated views of 64 float32 features, ten clusters, worker processes of one thread each on this
machine. Seconds are medians over iterations of the same run; bytes are what the loopback interface
carried meanwhile, other programs' included. The last lines are arithmetic from what was measured,
for `--rows` rows on `--machines` workers.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import psutil
from distributed import Client, LocalCluster

import viewloom.cluster
from viewloom import KernelMultiviewNMF
from viewloom.solver.shard import Shard

K, VIEWS, FEATURES = 10, 3, 64
WARM = 2  # iterations that are not counted
GIB = 2**30


class Metered(viewloom.cluster.Cluster):
    """A team that notes how long every step took and what went over the wire."""

    seconds: list[float]
    wire: list[int]
    row_bytes_seen: float
    message: Any

    def total(self, function: Any, *args: Any) -> list[Any]:
        """The same, measured."""
        carried, began = loopback_bytes(), time.perf_counter()
        result = super().total(function, *args)
        if function is Shard.step:
            Metered.seconds.append(time.perf_counter() - began)
            Metered.wire.append(loopback_bytes() - carried)
            Metered.row_bytes_seen, Metered.message = self.row_bytes, args[0]
        return result

    @classmethod
    def reset(cls) -> None:
        """Begin to count anew."""
        Metered.seconds, Metered.wire = [], []


@dataclass
class Measured:
    """What was measured; seconds and bytes are per iteration."""

    n: int
    workers: int
    serial: dict[int, float] = field(default_factory=dict)
    threads: dict[int, float] = field(default_factory=dict)
    dask: dict[int, float] = field(default_factory=dict)
    wire_bytes: dict[int, float] = field(default_factory=dict)
    message_bytes: int = 0  # to one worker; sums come back in the same shapes
    row_bytes: float = 0.0


def main(argv: list[str] | None = None) -> int:
    """Measure, print, and write what was printed."""
    options = parse(argv)
    measured = measure(options)
    lines = [*compared(measured, options), *priced(measured), *foretold(measured, options)]
    print("\n".join(lines))
    if options.json:
        options.json.write_text(json.dumps({**asdict(measured), "lines": lines}, indent=2))
    return 0


def parse(argv: list[str] | None) -> argparse.Namespace:
    """Options of the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--n", type=int, default=200_000, help="rows")
    parser.add_argument("--small", type=int, default=20_000, help="rows for the overhead against serial")
    parser.add_argument("--workers", type=int, default=2, help="worker processes")
    parser.add_argument("--iterations", type=int, default=10)
    parser.add_argument("--rows", type=int, default=10**8, help="rows of the arithmetic")
    parser.add_argument("--machines", type=int, default=100, help="workers of the arithmetic")
    parser.add_argument("--bandwidth", type=float, default=1.25e9, help="bytes per second at the scheduler")
    parser.add_argument("--json", type=Path, help="write every number to this file")
    return parser.parse_args(argv)


def measure(options: argparse.Namespace) -> Measured:
    """Fits of the same data by every backend, one after the other."""
    measured = Measured(options.n, options.workers)
    views = simulated(options.n)
    for n in sorted({options.small, options.n // 2, options.n}):
        part = {name: X[:n] for name, X in views.items()}
        measured.threads[n] = seconds_of("threads", part, options.iterations)
        if n == options.small:
            measured.serial[n] = seconds_of("serial", part, options.iterations)
        on_cluster(measured, part, options)
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


def on_cluster(measured: Measured, views: dict[str, np.ndarray], options: argparse.Namespace) -> None:
    """Measure on new worker processes."""
    n = len(views["view0"])
    Metered.reset()
    viewloom.cluster.Cluster = Metered  # type: ignore[misc]
    local = {"host": "127.0.0.1", "dashboard_address": "127.0.0.1:0", "threads_per_worker": 1}
    with LocalCluster(n_workers=options.workers, **local) as cluster, Client(cluster):
        measured.dask[n] = seconds_of("dask", views, options.iterations)
    measured.wire_bytes[n] = median(Metered.wire[WARM:])
    measured.row_bytes = Metered.row_bytes_seen
    measured.message_bytes = sum(
        array.nbytes for m in Metered.message for array in (m.A, m.C, m.neighbours) if array is not None
    )


def seconds_of(backend: str, views: dict[str, np.ndarray], iterations: int) -> float:
    """Median seconds of an iteration, after the first."""
    settings = {"max_iter": iterations, "tol": 0.0, "init": "random", "random_state": 0}  # a long way to go
    model = KernelMultiviewNMF(K, factored=True, backend=backend, **settings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # not converged
        model.fit(views)
    return median(model.history_["seconds"][WARM:])


def loopback_bytes() -> int:
    """Bytes that the loopback interface has carried."""
    nics = psutil.net_io_counters(pernic=True)
    return int(next((nic.bytes_sent for name, nic in nics.items() if name.startswith("lo")), 0))


def compared(measured: Measured, options: argparse.Namespace) -> list[str]:
    """An iteration against threads and serial."""
    lines = [f"{'rows':>9} {'threads s':>10} {'dask s':>8} {'ratio':>6} {'bytes on the wire':>18}"]
    for n, dask in measured.dask.items():
        threads, wire = measured.threads[n], measured.wire_bytes[n]
        lines.append(f"{n:>9} {threads:>10.3f} {dask:>8.3f} {dask / threads:>6.2f} {wire:>18.0f}")
    above = measured.dask[options.small] - measured.serial[options.small]
    lines.append(
        f"{options.small} rows: {1e3 * above:.0f} ms above serial ({measured.serial[options.small]:.3f} s)"
    )
    return lines


def priced(measured: Measured) -> list[str]:
    """Bytes and messages from the shapes, beside what was counted."""
    both_ways = 2 * measured.workers * measured.message_bytes
    carried = measured.wire_bytes[measured.n]
    return [
        f"a message of {VIEWS} x (k x k + k x w + k x m) float64: {measured.message_bytes} bytes",
        f"an iteration on {measured.workers} workers: {2 * measured.workers} messages, {both_ways} bytes; "
        f"twice, since the scheduler passes them on: {2 * both_ways}; counted: {carried:.0f} "
        f"({carried / (2 * both_ways):.2f} times)",
    ]


def foretold(measured: Measured, options: argparse.Namespace) -> list[str]:
    """Cost per row from the least and the most rows, checked between them, and carried on."""
    few, middle, many = sorted(measured.dask)
    each = (measured.dask[many] - measured.dask[few]) * measured.workers / (many - few)
    fixed = measured.dask[few] - each * few / measured.workers
    expected = fixed + each * middle / measured.workers
    rows = options.rows / options.machines
    passed = 4 * options.machines * measured.message_bytes
    work, wire = each * rows, passed / options.bandwidth
    held = rows * measured.row_bytes
    result = options.rows * K * (VIEWS + 1) * 4
    return [
        f"{1e6 * each:.3f} us per row and worker, {1e3 * fixed:.1f} ms whatever the rows; "
        f"{middle} rows: {expected:.3f} s foretold, {measured.dask[middle]:.3f} s measured",
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
