"""Quality of clusterings on sets with known classes, patient cohorts and simulated cohorts, beside peers.

    python benchmarks/quality.py [--half development|confirmation|all] [--groups sets,cohorts,simulated]
        [--methods ours,quick peers,...] [--seeds 2] [--time-limit S] [--jobs 1] [--quick]
        [--out FILE.jsonl] [--tables] [--baseline FILE.jsonl] [--variants FILE.py]
        [--hostile] [--missing 0.1,0.3,0.5] [--ablation] [--each] [--json FILE] [--figure FILE]

Groups: `sets`, every `.npz` in the folder `--data` with arrays `view0`, `view1`, ... and `y` (names that
begin with `kernel_` hold Gram matrices); `cohorts`, those in its folder `cohorts`, with `time` and `event`
where survival is known; `simulated`, cohorts of `viewloom.simulate.adni_like` (diagnosis, and subtypes among
patients, with age and sex regressed out by what controls show, and raw). `halves.toml` says which of them are
for development and which for confirmation. Fits run in another process that never reads classes: methods are
given their number and nothing else.

With `--out`, every fit is appended to a file. Fits that are there, made by the same source code, are not
repeated, and `--tables` prints the tables of the file without any fit.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from queue import SimpleQueue
from threading import Lock
from typing import Any

import figure
import pandas as pd
import results
import summary
import tables
from methods import ABLATION, DEFAULT, SINGLE_VIEWS, Method
from registry import REFERENCES, chosen
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from runner import Task, Worker
from scenarios import CLEAN, HARMFUL, ONE_VIEW_MISSING, SIGNAL_AND_NOISE, Scenario
from scores import Record, record
from sets import GROUPS, HALVES, BenchSet, default_folder, find_sets, read_truth

PACKAGES = ["viewloom", "numpy", "scipy", "scikit-learn", "mvlearn", "polyview", "imml", "mofapy2"]
QUICK_SAMPLES = 700  # sets with more samples are left out of a quick run
BASELINE = f"{DEFAULT} (baseline)"


def main(argv: list[str] | None = None) -> int:
    """Run the benchmark; 2 where the sets or the methods asked for are not there."""
    options = parse(argv)
    console = tables.make_console()
    try:
        check_outputs(options)
        if options.tables:
            frame, bench_sets = only_sets(pd.DataFrame(results.read(options.out)), options.sets), []
        else:
            bench_sets, methods = plan_sets(options, console), plan_methods(options, console)
            frame = measure(bench_sets, methods, scenarios_of(options), options)
        frame = with_baseline(frame, options.baseline)
    except ValueError as error:
        console.print(str(error), markup=False)
        return 2
    report(console, frame, bench_sets, options)
    if options.json:
        write_json(options.json, frame, options)
    if options.figure:
        figure.draw(summary.labelled(frame), options.figure)
    return 0


def parse(argv: list[str] | None) -> argparse.Namespace:
    """Options of the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=default_folder(), help="folder of .npz files")
    parser.add_argument("--groups", type=listed, default=list(GROUPS), help="sets, cohorts, simulated")
    parser.add_argument("--half", choices=HALVES, default="development", help="which half of every group")
    parser.add_argument("--sets", type=listed, help="names of sets; all of the half by default")
    parser.add_argument("--methods", type=listed, help="names, or ours, quick peers, peers, paper, all")
    parser.add_argument("--variants", type=Path, help="a Python file whose list METHODS is measured, too")
    parser.add_argument("--seeds", type=int, default=2, help="number of seeds")
    parser.add_argument("--time-limit", type=float, default=120.0, help="seconds per fit")
    parser.add_argument("--jobs", type=int, default=1, help="processes that fit side by side")
    parser.add_argument(
        "--quick", action="store_true", help="one seed, the methods of the regret, small sets"
    )
    parser.add_argument("--out", type=Path, help="append every fit to this file, and do none twice")
    parser.add_argument("--tables", action="store_true", help="print the tables of --out, without any fit")
    parser.add_argument("--baseline", type=Path, help="show the default of this earlier --out beside")
    parser.add_argument("--each", action="store_true", help="print a table for every set, too")
    parser.add_argument("--json", type=Path, help="write every score to this file")
    parser.add_argument("--figure", type=Path, help="write mean ranks as a figure to this file")
    parser.add_argument("--hostile", action="store_true", help="also add harmful views")
    parser.add_argument("--missing", type=shares, default=[], help="also take views from these shares")
    parser.add_argument("--ablation", action="store_true", help="ours with one idea off at a time, instead")
    options = parser.parse_args(argv)
    if options.quick:
        options.seeds = 1
        options.methods = options.methods or REFERENCES
    return options


def check_outputs(options: argparse.Namespace) -> None:
    """Refuse to measure for an hour and then have nowhere to write, and tables of nothing."""
    for path in (options.json, options.figure, options.out):
        if path is not None and not path.absolute().parent.is_dir():
            raise ValueError(f"No folder {path.parent} to write {path.name} to.")
    if options.tables and not (options.out and results.read(options.out)):
        raise ValueError("--tables prints what an earlier run wrote: name that file with --out.")
    if unknown := sorted(set(options.groups) - set(GROUPS)):
        raise ValueError(f"No group is called {', '.join(unknown)}. There are: {', '.join(GROUPS)}.")


def listed(text: str) -> list[str]:
    """Names separated by commas."""
    return [name.strip() for name in text.split(",") if name.strip()]


def shares(text: str) -> list[float]:
    """Shares between 0 and 1, separated by commas."""
    values = [float(name) for name in listed(text)]
    if not all(0.0 < value < 1.0 for value in values):
        raise argparse.ArgumentTypeError("shares must lie between 0 and 1")
    return values


def only_sets(frame: pd.DataFrame, names: list[str] | None) -> pd.DataFrame:
    """Rows of the sets that were asked for; all without names."""
    if not names:
        return frame
    if absent := sorted(set(names) - set(frame["set"])):
        raise ValueError(f"The file has no set {', '.join(absent)}.")
    return frame[frame["set"].isin(names)]


def plan_sets(options: argparse.Namespace, console: Console) -> list[BenchSet]:
    """Sets to run, saying which files are left out."""
    if options.groups != ["simulated"] and not options.data.is_dir():
        raise ValueError(f"No folder {options.data}: name one with --data or VIEWLOOM_DATA.")
    bench_sets, others = find_sets(options.data, options.groups, options.half, options.sets)
    if options.quick:
        bench_sets = [one for one in bench_sets if one.n_samples <= QUICK_SAMPLES]
    if not bench_sets:
        raise ValueError(f"Nothing in the {options.half} half of {', '.join(options.groups)}.")
    if others:
        console.print(f"Left out, since they have no view0, view1, ... and y: {', '.join(others)}")
    return bench_sets


def plan_methods(options: argparse.Namespace, console: Console) -> list[Method]:
    """Methods to run, in the order of the registries, saying which are not installed."""
    methods = chosen(options.methods, options.ablation, options.variants)
    tables.show_absent(console, methods)
    methods = [method for method in methods if method.installed]
    if not methods:
        raise ValueError("None of the methods asked for is installed.")
    if options.ablation and methods[0].name != DEFAULT:
        methods.insert(0, ABLATION[0])  # what the others are compared with
    return methods


def scenarios_of(options: argparse.Namespace) -> list[Scenario]:
    """The clean run, and what is asked for besides."""
    harmful = [Scenario(kind) for kind in (*HARMFUL, SIGNAL_AND_NOISE)] if options.hostile else []
    kinds = ("missing", "complete", ONE_VIEW_MISSING)
    return [CLEAN, *harmful, *(Scenario(kind, share) for share in options.missing for kind in kinds)]


@dataclass(frozen=True)
class Cell:
    """Fits that differ in their seed only."""

    bench_set: BenchSet
    method: Method
    scenario: Scenario

    def __str__(self) -> str:
        return f"{self.bench_set.name}, {self.method.name}, {self.scenario}"


def cells_of(bench_sets: list[BenchSet], methods: list[Method], scenarios: list[Scenario]) -> list[Cell]:
    """What is to be measured: Gram matrices clean only, single views of sets with three views or more."""
    cells = []
    for bench_set in bench_sets:
        single = bench_set.n_views >= 3 and not bench_set.is_kernel
        cells += [Cell(bench_set, SINGLE_VIEWS, CLEAN)] if single else []
        usable = [CLEAN] if bench_set.is_kernel else scenarios
        cells += [Cell(bench_set, method, scenario) for scenario in usable for method in methods]
    return cells


def measure(
    bench_sets: list[BenchSet],
    methods: list[Method],
    scenarios: list[Scenario],
    options: argparse.Namespace,
) -> pd.DataFrame:
    """One row per fit."""
    cells = cells_of(bench_sets, methods, scenarios)
    store, lock = results.Store(options.out), Lock()
    workers: SimpleQueue[Worker] = SimpleQueue()
    for _ in range(options.jobs):
        workers.put(Worker())

    def run(cell: Cell) -> list[Record]:
        worker = workers.get()
        try:
            return list(fits(worker, cell, store, lock, options))
        finally:
            workers.put(worker)

    records: list[Record] = []
    try:
        with progress() as bar, ThreadPoolExecutor(options.jobs) as pool:
            job = bar.add_task("", total=len(cells))
            for cell, found in zip(cells, pool.map(run, cells), strict=True):
                bar.update(job, description=str(cell), advance=1)
                records += found
                if error := found[-1]["error"]:
                    bar.console.print(f"{cell}: {error}", markup=False)
    finally:
        for _ in range(options.jobs):
            workers.get().close()
    return pd.DataFrame(records)


def fits(
    worker: Worker, cell: Cell, store: results.Store, lock: Lock, options: argparse.Namespace
) -> Iterator[Record]:
    """Scores for each seed, up to the first failure. Without any randomness one fit is enough."""
    bench_set, method, scenario = cell.bench_set, cell.method, cell.scenario
    code = results.code_of(method.package, method.settings)
    for seed in range(options.seeds if method.random or scenario != CLEAN else 1):
        key = (bench_set.name, method.name, str(scenario), seed)
        found = store.find(key, code, options.time_limit)
        if found is None:
            task = Task(bench_set.source, bench_set.n_clusters, method.name, scenario, seed, options.variants)
            reply = worker.run(task, options.time_limit)
            found = record(bench_set, task, method, reply, read_truth(bench_set.source))
            found |= {"code": code, "time_limit": options.time_limit}
            with lock:
                store.add(found)
        yield found
        if found["error"]:
            return


def with_baseline(frame: pd.DataFrame, path: Path | None) -> pd.DataFrame:
    """The default of an earlier run as one more method, on the sets of this one."""
    if path is None:
        return frame
    earlier = [found for found in results.read(path) if found["method"] == DEFAULT]
    if not earlier:
        raise ValueError(f"{path} has no fit of {DEFAULT}.")
    kept = pd.DataFrame(earlier).assign(method=BASELINE)
    return pd.concat([frame, kept[kept["set"].isin(set(frame["set"]))]], ignore_index=True)


def progress() -> Progress:
    """A bar on the error stream, so that tables can be sent to a file."""
    columns = [BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}")]
    return Progress(*columns, console=Console(stderr=True))


def report(
    console: Console, frame: pd.DataFrame, bench_sets: list[BenchSet], options: argparse.Namespace
) -> None:
    """All tables that were asked for."""
    for bench_set in bench_sets if options.each else []:
        tables.show_set(console, bench_set, frame)
    if SIGNAL_AND_NOISE in set(frame["kind"]):
        tables.show_hostile(console, frame)
    if ONE_VIEW_MISSING in set(frame["kind"]):
        tables.show_missing(console, frame)
    if options.ablation:
        tables.show_ablation(console, frame)
    else:
        for group in dict.fromkeys(frame["group"]):
            tables.show_group(console, group, frame)
        if len(set(frame["group"])) > 1:
            tables.show_all_groups(console, frame)
        if "sets" in set(frame["group"]):
            tables.show_overall(console, frame[frame["group"] == "sets"])
    tables.show_failures(console, frame)


def write_json(path: Path, frame: pd.DataFrame, options: argparse.Namespace) -> None:
    """Every fit, the summary, and what it was measured with; written whole or not at all."""
    content: dict[str, Any] = {
        "settings": {
            "half": options.half,
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
