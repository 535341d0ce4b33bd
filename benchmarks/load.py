"""Many fits side by side, the same work for a long time, and many predictions through one model.

    python benchmarks/load.py [--only fits,loop,predict,million] [--fits 200] [--processes 8] [--minutes 10]
                              [--json FILE]

fits
    So many fits of a small cohort in so many processes at a time. All have to succeed, and those of the
    same seed to give the same bits.
loop
    Fit a study, predict with its model and write its report again, over and over in one process.
    Resident memory is read after every cycle; a line through it, after the first quarter of the cycles
    as warm-up, should be flat: its slope with the standard error is given.
predict
    A model of a cohort like that of the study (345 subjects, four views) is saved and loaded, and asked
    for one subject at a time and for many; then one that is stored by its landmarks alone (the three
    views that are not counts). Single subjects are also asked for through `model.predictor()`. Where a
    target is missed (1000 single subjects a second, 1 000 000 rows a minute) the functions that took
    longest are listed. Threads are those of the default. Rates are given by the clock, and by the time that
    the process had processors for, which other work on the machine changes less; the best of five turns.
million
    The same for a million rows in one call, through a model of 20 000 rows and three views.
"""

from __future__ import annotations

import argparse
import cProfile
import gc
import hashlib
import io
import json
import os
import pstats
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from threadpoolctl import threadpool_limits

import viewloom as vl
from viewloom.data.simulated import adni_like

SEEDS = 10
SINGLES, BATCH, MANY = 200, 16_384, 1_000_000
TURNS = 5  # of which the best counts
LISTED = 12  # functions of a profile


@dataclass(frozen=True)
class Row:
    """One figure; with a target, the least that it should be."""

    what: str
    value: float
    unit: str
    error: float | None = None
    target: float | None = None

    def __str__(self) -> str:
        error = "" if self.error is None else f" +- {self.error:.3g}"
        verdict = (
            "" if self.target is None else f"  target {self.target:g}: " + ("yes" if self.reached else "no")
        )
        return f"{self.what:<66} {self.value:>11.5g}{error} {self.unit}{verdict}"

    @property
    def reached(self) -> bool:
        """Whether the target holds."""
        return self.target is None or self.value >= self.target


@dataclass(frozen=True)
class Goal:
    """So many in a span of seconds."""

    target: float
    span: float
    unit: str

    def rate(self, count: int, seconds: float) -> float:
        """How many there are in a span."""
        return count * self.span / seconds


SINGLE, MINUTELY = Goal(1000.0, 1.0, "a second"), Goal(1e6, 60.0, "a minute")


def measure_fits(options: argparse.Namespace) -> Iterator[Row]:
    """Fits side by side."""
    seeds = [number % SEEDS for number in range(options.fits)]
    began = time.perf_counter()
    with ProcessPoolExecutor(options.processes, get_context("spawn")) as pool:
        digests = list(pool.map(fitted, seeds))  # an error of any is raised here
    seconds = time.perf_counter() - began
    alike = sum(
        len({d for s, d in zip(seeds, digests, strict=True) if s == seed}) == 1 for seed in set(seeds)
    )
    yield Row(
        f"fits that succeeded, {options.processes} at a time", len(digests), "fits", target=options.fits
    )
    yield Row("seeds whose fits all gave the same bits", alike, "seeds", target=len(set(seeds)))
    yield Row("fits a second", len(digests) / seconds, "1/s")


def fitted(seed: int) -> str:
    """A hash of what a fit gives."""
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        views = adni_like(30, 35, 40, random_state=0).views
        model = vl.KernelMultiviewNMF(3, init="random", random_state=seed).fit(views)
    found = (model.memberships_, model.view_weights_, *model.view_memberships_)
    return hashlib.sha256(b"".join(np.ascontiguousarray(x).tobytes() for x in found)).hexdigest()


def measure_loop(options: argparse.Namespace) -> Iterator[Row]:
    """Memory over many cycles."""
    from faults import write_study

    from viewloom.study import read_study
    from viewloom.study import run as runs
    from viewloom.study.run import computations as stages

    stages.REFITS = 2  # more cycles in the same time
    kept = []
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        study, results = write_study(Path(folder) / "study"), Path(folder) / "results"
        deadline = time.monotonic() + 60.0 * options.minutes
        while time.monotonic() < deadline:
            found = read_study(study)
            runs.run_study(found, results)
            runs.write_predictions(runs.predict(results, found), Path(folder) / "predictions.csv")
            runs.rewrite_report(results)
            gc.collect()
            kept.append(psutil.Process().memory_info().rss / 1024)
    steady = np.array(kept[len(kept) // 4 :])
    slope, error = line(steady)
    yield Row("cycles of fit, predict and report", len(kept), "cycles")
    yield Row("resident memory after warm-up", steady[0] / 1024, "MiB")
    yield Row("resident memory at the end", steady[-1] / 1024, "MiB")
    yield Row("growth of resident memory", slope, "KiB a cycle", error)


def line(y: np.ndarray) -> tuple[float, float]:
    """Slope of a line through values one step apart, and its standard error."""
    x = np.arange(len(y)) - (len(y) - 1) / 2.0
    slope = float(x @ y / (x @ x))
    rest = y - y.mean() - slope * x
    return slope, float(np.sqrt(rest @ rest / max(len(y) - 2, 1) / (x @ x)))


def measure_predict(options: argparse.Namespace) -> Iterator[Row]:
    """Rates of prediction."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cohort = adni_like(random_state=0).views
        uncounted = cohort.select([name for name in cohort.names if name != "snp"])
        exact = loaded(vl.KernelMultiviewNMF(3, random_state=0).fit(cohort))
        tied = loaded(vl.KernelMultiviewNMF(3, factored=100, random_state=0).fit(uncounted), "landmarks")
        yield from rates("345 subjects, four views", exact, cohort)
        yield from rates("stored by landmarks, three views", tied, uncounted)


def loaded(model: Any, store: str = "auto") -> Any:
    """The model after a visit to the disk."""
    with tempfile.TemporaryDirectory() as folder:
        model.save(Path(folder) / "model.safetensors", store=store)
        return vl.load(Path(folder) / "model.safetensors")


def rates(what: str, model: Any, cohort: vl.Views) -> Iterator[Row]:
    """One subject at a time, and many."""
    rng = np.random.default_rng(0)
    new = [{name: noisy(X[[i % len(cohort)]], rng) for name, X in cohort.items()} for i in range(SINGLES)]
    many = {name: noisy(X[rng.integers(len(cohort), size=BATCH)], rng) for name, X in cohort.items()}
    compiled = model.predictor().predict
    compiled(new[0])  # the first call checks everything
    yield from timed(f"single, {what}", lambda: [model.predict(one) for one in new], SINGLES, SINGLE)
    yield from timed(f"predictor, {what}", lambda: [compiled(one) for one in new], SINGLES, SINGLE)
    yield from timed(f"batch, {what}", lambda: model.predict(many), BATCH, MINUTELY)


def noisy(X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """New subjects like those of training."""
    return X * (1.0 + 0.05 * rng.standard_normal(X.shape))


def measure_million(options: argparse.Namespace) -> Iterator[Row]:
    """A million rows in one call."""
    rng = np.random.default_rng(0)
    centres = [3.0 * rng.standard_normal((5, d)) for d in (20, 20, 10)]

    def drawn(n: int) -> list[np.ndarray]:
        y = rng.integers(5, size=n)
        return [(c[y] + rng.standard_normal((n, c.shape[1]))).astype(np.float32) for c in centres]

    model = loaded(vl.KernelMultiviewNMF(5, factored=True, random_state=0).fit(drawn(20_000)), "landmarks")
    rows = drawn(MANY)
    yield from timed("10^6 rows, three views, 2000 landmarks", lambda: model.predict(rows), MANY, MINUTELY)


def timed(what: str, work: Callable[[], Any], count: int, goal: Goal) -> Iterator[Row]:
    """A rate by the clock and by the processors; a profile where both miss the target."""
    turns = [_turn(work) for _ in range(TURNS)]
    clock, busy = (min(seconds) for seconds in zip(*turns, strict=True))
    for seconds, by in ((clock, "clock"), (busy, "processors")):
        yield Row(f"{what}, by the {by}", goal.rate(count, seconds), goal.unit, target=goal.target)
    if goal.rate(count, min(clock, busy)) < goal.target:
        print(profiled(work))


def _turn(work: Callable[[], Any]) -> tuple[float, float]:
    """Seconds by the clock and by the processor."""
    clock, busy = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - clock, time.process_time() - busy


def profiled(work: Callable[[], Any]) -> str:
    """The functions that take longest by themselves."""
    profile, text = cProfile.Profile(), io.StringIO()
    profile.runcall(work)
    pstats.Stats(profile, stream=text).strip_dirs().sort_stats("tottime").print_stats(LISTED)
    return text.getvalue()


MEASURES: dict[str, Callable[[argparse.Namespace], Iterator[Row]]] = {
    "fits": measure_fits,
    "loop": measure_loop,
    "predict": measure_predict,
    "million": measure_million,
}


def main() -> int:
    """Run what was asked for; 1 if a target was missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--only", default=",".join(MEASURES))
    parser.add_argument("--fits", type=int, default=200)
    parser.add_argument("--processes", type=int, default=8)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rows = []
    for name in options.only.split(","):
        for row in MEASURES[name](options):
            print(row, flush=True)
            rows.append(row)
    print(f"load of the machine: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    if options.json:
        options.json.write_text(json.dumps([asdict(row) for row in rows], indent=1), encoding="utf-8")
    return int(not all(row.reached for row in rows))


if __name__ == "__main__":
    raise SystemExit(main())
