"""Quality of clusterings on real data with known classes: viewloom's default against peers.

    python benchmarks/quality.py --data DIR [--sets a,b] [--methods ...] [--seeds 5] [--time-limit S]
        [--json FILE] [--figure FILE] [--hostile] [--missing 0.1,0.3,0.5] [--ablation]

Every `.npz` in the folder with arrays `view0`, `view1`, ... and `y` is a set; names that begin with
`kernel_` hold Gram matrices. Fits run in another process that never reads `y`: methods are told the
number of classes and nothing else of them.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import figure
import pandas as pd
import summary
import tables
from methods import ABLATION, DEFAULT, OURS, Method
from peers import PEERS
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from runner import Task, Worker
from scenarios import CLEAN, HARMFUL, Scenario
from sets import BenchSet, default_folder, find_sets, read_classes

GROUPS = {"ours": OURS, "peers": PEERS}
PACKAGES = ["viewloom", "numpy", "scipy", "scikit-learn", "mvlearn", "polyview", "snfpy", "imml"]


def main(argv: list[str] | None = None) -> int:
    """Run the benchmark; 2 where the sets or the methods asked for are not there."""
    options = parse(argv)
    console = tables.make_console()
    try:
        check_outputs(options)
        bench_sets, methods = plan_sets(options, console), plan_methods(options, console)
    except ValueError as error:
        console.print(str(error), markup=False)
        return 2
    frame = measure(bench_sets, methods, scenarios_of(options), options)
    report(console, frame, bench_sets, options)
    if options.json:
        write_json(options.json, frame, options)
    if options.figure:
        figure.draw(frame, options.figure)
    return 0


def parse(argv: list[str] | None) -> argparse.Namespace:
    """Options of the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=default_folder(), help="folder of .npz files")
    parser.add_argument("--sets", type=listed, help="names of sets; all by default")
    parser.add_argument("--methods", type=listed, help="names, or ours, peers; all by default")
    parser.add_argument("--seeds", type=int, default=5, help="number of seeds")
    parser.add_argument("--time-limit", type=float, default=120.0, help="seconds per fit")
    parser.add_argument("--json", type=Path, help="write every score to this file")
    parser.add_argument("--figure", type=Path, help="write mean ranks as a figure to this file")
    parser.add_argument("--hostile", action="store_true", help="also add a harmful view")
    parser.add_argument("--missing", type=shares, default=[], help="also take views from these shares")
    parser.add_argument("--ablation", action="store_true", help="ours with one idea off at a time, instead")
    return parser.parse_args(argv)


def check_outputs(options: argparse.Namespace) -> None:
    """Refuse to measure for an hour and then have nowhere to write."""
    for path in (options.json, options.figure):
        if path is not None and not path.absolute().parent.is_dir():
            raise ValueError(f"No folder {path.parent} to write {path.name} to.")


def listed(text: str) -> list[str]:
    """Names separated by commas."""
    return [name.strip() for name in text.split(",") if name.strip()]


def shares(text: str) -> list[float]:
    """Shares between 0 and 1, separated by commas."""
    values = [float(name) for name in listed(text)]
    if not all(0.0 < value < 1.0 for value in values):
        raise argparse.ArgumentTypeError("shares must lie between 0 and 1")
    return values


def plan_sets(options: argparse.Namespace, console: Console) -> list[BenchSet]:
    """Sets to run, saying which files are left out."""
    if not options.data.is_dir():
        raise ValueError(f"No folder {options.data}: name one with --data or VIEWLOOM_DATA.")
    bench_sets, others = find_sets(options.data, options.sets)
    if not bench_sets:
        raise ValueError(f"No .npz with arrays view0, view1, ... and y in {options.data}.")
    if others:
        console.print(f"Left out, since they have no view0, view1, ... and y: {', '.join(others)}")
    return bench_sets


def plan_methods(options: argparse.Namespace, console: Console) -> list[Method]:
    """Methods to run, in the order of the registries, saying which are not installed."""
    methods = named_methods(options.methods, ABLATION if options.ablation else [*OURS, *PEERS])
    tables.show_absent(console, methods)
    methods = [method for method in methods if method.installed]
    if not methods:
        raise ValueError("None of the methods asked for is installed.")
    if options.ablation and methods[0].name != DEFAULT:
        methods.insert(0, ABLATION[0])  # what the others are compared with
    return methods


def named_methods(names: list[str] | None, known: list[Method]) -> list[Method]:
    """Methods by name or group, all where no name is given."""
    names = names or [method.name for method in known]
    wanted = {method.name for name in names for method in GROUPS.get(name, ())} | set(names) - set(GROUPS)
    if unknown := sorted(wanted - {method.name for method in known}):
        there = ", ".join(method.name for method in known)
        raise ValueError(f"No method is called {', '.join(unknown)}. There are: {there}.")
    return [method for method in known if method.name in wanted]


def scenarios_of(options: argparse.Namespace) -> list[Scenario]:
    """The clean run, and what is asked for besides."""
    harmful = [Scenario(kind) for kind in HARMFUL] if options.hostile else []
    incomplete = [Scenario(kind, share) for share in options.missing for kind in ("missing", "complete")]
    return [CLEAN, *harmful, *incomplete]


def measure(
    bench_sets: list[BenchSet],
    methods: list[Method],
    scenarios: list[Scenario],
    options: argparse.Namespace,
) -> pd.DataFrame:
    """One row per fit. Gram matrices are measured clean only."""
    cells = [
        (bench_set, method, scenario)
        for bench_set in bench_sets
        for scenario in scenarios
        for method in methods
        if scenario == CLEAN or not bench_set.is_kernel
    ]
    records: list[summary.Record] = []
    with Worker() as worker, progress() as bar:
        job = bar.add_task("", total=len(cells))
        for bench_set, method, scenario in cells:
            bar.update(job, description=f"{bench_set.name}, {method.name}, {scenario}")
            records += fits(worker, bench_set, method, scenario, options)
            if error := records[-1]["error"]:
                bar.console.print(f"{bench_set.name}, {method.name}, {scenario}: {error}", markup=False)
            bar.advance(job)
    return pd.DataFrame(records)


def fits(
    worker: Worker,
    bench_set: BenchSet,
    method: Method,
    scenario: Scenario,
    options: argparse.Namespace,
) -> Iterator[summary.Record]:
    """Scores for each seed, up to the first failure. Without any randomness one fit is enough."""
    y = read_classes(bench_set.path)
    for seed in range(options.seeds if method.random or scenario != CLEAN else 1):
        task = Task(bench_set.path, bench_set.n_clusters, method.name, scenario, seed)
        found = summary.record(bench_set, task, worker.run(task, options.time_limit), y)
        yield found
        if found["error"]:
            return


def progress() -> Progress:
    """A bar on the error stream, so that tables can be sent to a file."""
    columns = [BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}")]
    return Progress(*columns, console=Console(stderr=True))


def report(
    console: Console, frame: pd.DataFrame, bench_sets: list[BenchSet], options: argparse.Namespace
) -> None:
    """All tables that were asked for."""
    for bench_set in bench_sets:
        tables.show_set(console, bench_set, frame)
    if options.hostile:
        tables.show_hostile(console, frame)
    if options.missing:
        tables.show_missing(console, frame)
    (tables.show_ablation if options.ablation else tables.show_overall)(console, frame)
    tables.show_failures(console, frame)


def write_json(path: Path, frame: pd.DataFrame, options: argparse.Namespace) -> None:
    """Every fit, the summary, and what it was measured with; written whole or not at all."""
    content: dict[str, Any] = {
        "settings": {
            "seeds": options.seeds,
            "time_limit": options.time_limit,
            "python": platform.python_version(),
        },
        "versions": {name: installed_version(name) for name in PACKAGES},
        "summary": json.loads(summary.overall(frame).to_json(orient="index")),
        "fits": json.loads(frame.to_json(orient="records")),
    }
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(content, indent=1))
    partial.replace(path)


def installed_version(name: str) -> str | None:
    """Version of a package, None where it is not installed."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None


if __name__ == "__main__":
    sys.exit(main())
