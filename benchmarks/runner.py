"""Fits in a process of their own, so that a time limit can end them."""

from __future__ import annotations

import contextlib
import multiprocessing as mp
import os
import time
import warnings
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
from methods import Outcome
from offers import prepare
from registry import method_named
from scenarios import Scenario, absent_view, changed, with_absent
from sets import Source, read_views

Array = np.ndarray
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
STARTING = 120.0  # seconds a worker may take to import what it needs


@dataclass(frozen=True)
class Task:
    """One fit. Of the classes it knows their number only."""

    source: Source
    n_clusters: int
    method: str
    scenario: Scenario
    seed: int
    variants: Path | None = None  # a file with further methods


@dataclass(frozen=True)
class Reply:
    """What came of a task: labelings (-1 where a sample was left out), or the reason there are none."""

    labelings: list[Array]
    seconds: float = float("nan")
    weights: Array | None = None
    agreement: Array | None = None  # of each view with the others, where a method reports it
    placed: Array | None = None  # labels with the samples left out of the fit predicted
    error: str = ""


class Worker:
    """A process that works on one task at a time, and is replaced when it takes too long or dies."""

    def __init__(self) -> None:
        for name in THREADS:
            os.environ.setdefault(name, "1")
        self._process: Any = None
        self._pipe: Any = None

    def run(self, task: Task, time_limit: float) -> Reply:
        """The reply to a task, or an error after `time_limit` seconds."""
        if self._process is None:
            self._start()
        self._pipe.send(task)
        if not self._pipe.poll(time_limit):
            self.close()
            return Reply([], error=f"no result within {time_limit:g} s")
        try:
            return self._pipe.recv()
        except EOFError:
            self.close()
            return Reply([], error="the process died")

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._pipe.close()
            self._process = None

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _start(self) -> None:
        context = mp.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs,), daemon=True)
        self._process.start()
        theirs.close()
        if not self._pipe.poll(STARTING):
            self.close()
            raise RuntimeError(f"The worker process did not start within {STARTING:g} s.")
        self._pipe.recv()


def _serve(pipe: Connection) -> None:
    """Answer tasks until the pipe closes."""
    warnings.simplefilter("ignore")
    pipe.send("ready")
    with contextlib.suppress(EOFError), open(os.devnull, "w") as nowhere:
        while True:
            task = pipe.recv()
            with contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere):
                reply = carry_out(task)
            pipe.send(reply)


def carry_out(task: Task) -> Reply:
    """Prepare the views of a task and fit; errors of a method are part of its result."""
    try:
        return _fit(task)
    except Exception as error:
        return Reply([], error=f"{type(error).__name__}: {error}".splitlines()[0])


def _fit(task: Task) -> Reply:
    method, scenario = method_named(task.method, task.variants), task.scenario
    views = changed(read_views(task.source), scenario, task.n_clusters, task.seed, task.source.signal_view)
    absent = absent_view(scenario, len(views[0]), len(views), task.seed)
    if scenario.share:
        views = with_absent(views, absent)
    kept = absent < 0 if scenario.kind == "complete" else np.ones(len(absent), dtype=bool)
    offered = prepare([X[kept] for X in views], method.form, task.source.is_kernel, not method.incomplete)
    start = time.perf_counter()
    outcome = method.fit(offered, task.n_clusters, task.seed)
    seconds = time.perf_counter() - start
    labelings = [_scattered(labels, kept) for labels in outcome.labelings]
    placed = _placed(outcome, views, labelings[0], kept)
    agreement = outcome.agreement and outcome.agreement()
    return Reply(labelings, seconds, outcome.weights, agreement, placed)


def _scattered(labels: Array, kept: Array) -> Array:
    full = np.full(len(kept), -1)
    full[kept] = labels
    return full


def _placed(outcome: Outcome, views: list[Array], labels: Array, kept: Array) -> Array | None:
    """Labels of all samples, those left out of the fit predicted from the views they have."""
    if outcome.predict is None or kept.all():
        return None
    placed = labels.copy()
    placed[~kept] = outcome.predict([X[~kept] for X in views])
    return placed
