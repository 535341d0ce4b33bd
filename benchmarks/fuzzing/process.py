"""The process that fuzzes one target: libFuzzer by way of atheris, guided by the coverage of viewloom."""

from __future__ import annotations

import hashlib
import json
import os
import resource
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from random import Random
from typing import Any

LONGEST = 20.0  # CPU seconds that one input may take
WALL = 90  # seconds after which libFuzzer ends a process that hangs
LARGEST = 2**30  # bytes that one input may add to the process
LIMIT = 2560  # MiB at which libFuzzer ends a process that swells
REPORTED = 5.0  # CPU seconds between two reports
LENGTH = {
    "load": 60_000,
    "predict": 90_000,
    "report": 400_000,
    "h5ad": 250_000,
    "h5mu": 250_000,
}  # bytes; else:
SHORT = 8_000


class Recorder:
    """Counts executions, keeps an input of each defect, and ends the process when its time is over."""

    def __init__(self, name: str, seconds: float, found: Path, status: Path) -> None:
        self.name, self.seconds, self.found, self.status = name, seconds, found, status
        self.executions, self.defects, self.reported = 0, dict[str, int](), 0.0
        found.mkdir(parents=True, exist_ok=True)

    def watch(self, run: Callable[[bytes], None], content: bytes) -> None:
        """Run one input; what it does wrong is written down."""
        began, before = time.process_time(), peak_bytes()
        try:
            run(content)
        except Exception as error:
            self.keep(place(error), content, "".join(traceback.format_exception(error)))
        took = time.process_time() - began
        self.executions += 1
        if took > LONGEST:
            self.keep("slow", content, f"{took:.1f} CPU seconds\n")
        if peak_bytes() - before > LARGEST:
            self.keep("memory", content, f"{(peak_bytes() - before) / 2**20:.0f} MiB\n")
        self.report()

    def keep(self, key: str, content: bytes, told: str) -> None:
        """Keep the shortest input that shows a defect."""
        self.defects[key] = self.defects.get(key, 0) + 1
        path = self.found / hashlib.sha256(key.encode()).hexdigest()[:12]
        if not path.exists() or len(content) < path.stat().st_size:
            path.write_bytes(content)
            path.with_suffix(".txt").write_text(f"{key}\n\n{told}", encoding="utf-8", errors="replace")

    def report(self) -> None:
        """Write the counts down now and then, and at the end."""
        spent = time.process_time()
        over = spent >= self.seconds
        if over or spent - self.reported > REPORTED:
            self.reported = spent
            counts = {"executions": self.executions, "seconds": spent, "defects": self.defects}
            self.status.write_text(json.dumps(counts))
        if over:
            os._exit(0)  # libFuzzer's own end takes long


def place(error: BaseException) -> str:
    """What tells one defect from another: the error, and the line of viewloom that it passed last."""
    frames = list(traceback.walk_tb(error.__traceback__))
    ours = [(frame, line) for frame, line in frames if is_ours(frame.f_code.co_filename)] or frames
    frame, line = ours[-1]
    return f"{type(error).__name__} at {Path(frame.f_code.co_filename).name}:{line}"


def is_ours(file: str) -> bool:
    """Whether a file belongs to viewloom."""
    return "viewloom" in Path(file).parts


def peak_bytes() -> int:
    """Most memory that this process has held at a time."""
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def scratch() -> Path:
    """A folder in memory, where there is one."""
    memory = Path("/dev/shm")
    return Path(tempfile.mkdtemp(prefix="viewloom-fuzz-", dir=memory if memory.is_dir() else None))


def fuzz(name: str, seconds: float, work: Path, status: Path) -> None:
    """Fuzz a target until so many CPU seconds of this process are spent; does not return."""
    import atheris

    warnings.simplefilter("ignore")
    with atheris.instrument_imports(include=["viewloom"]):
        targets = import_module("fuzzing.targets")
        for module in ("viewloom.study.report", "viewloom.models.kernel_nmf", "viewloom.models.baselines"):
            import_module(module)  # what is otherwise imported when it is needed
    from fuzzing.forked import fork_readers
    from fuzzing.mutations import MUTATIONS

    fork_readers()
    target, folder = targets.TARGETS[name], scratch()
    recorder = Recorder(name, seconds, work / "found" / name, status)
    run = partial(targets.attempt, target, folder=folder)
    settings: dict[str, Any] = {}
    if target.mutation is not None:
        change = MUTATIONS[target.mutation]
        settings["custom_mutator"] = lambda content, size, seed: change(
            content, Random(seed), lambda part: atheris.Mutate(part, len(part) + 64)
        )[:size]
    atheris.Setup(arguments(name, work), lambda content: recorder.watch(run, content), **settings)
    atheris.Fuzz()


def arguments(name: str, work: Path) -> list[str]:
    """What libFuzzer is told."""
    return [
        sys.argv[0],
        f"-max_len={LENGTH.get(name, SHORT)}",
        f"-timeout={WALL}",
        f"-rss_limit_mb={LIMIT}",
        f"-artifact_prefix={work / 'found' / name}/ended-",
        "-len_control=0",
        "-verbosity=0",
        "-close_fd_mask=1",
        str(work / "corpus" / name),
    ]
