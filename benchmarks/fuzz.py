"""Fuzz every reader of files, guided by coverage, and count executions (needs ``pip install atheris``).

Usage: ``python benchmarks/fuzz.py --target load --seconds 1800``; ``--list`` tells the targets, ``--all``
takes one after the other. The time is CPU time of the process that fuzzes a target, so that a busy machine
or a pause does not shorten it.

A defect is an exception that the reader does not document, an input that takes more than 20 CPU seconds or
a GiB of memory, or the end of the process. The shortest input that shows it is kept in ``found/<target>`` of
the working folder, with its traceback; once mended, it belongs to ``tests/reliability/corpus/<target>``,
which the tests replay and fuzzing begins with.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path

CORPUS = Path(__file__).parents[1] / "tests" / "reliability" / "corpus"
MOST_ENDS = 50  # processes that may end before their time


@dataclass
class Outcome:
    """What came of a target."""

    target: str
    executions: int = 0
    seconds: float = 0.0
    ended: int = 0  # processes that crashed, hung or swelled
    defects: dict[str, int] = field(default_factory=dict)  # place -> times met

    def add(self, counts: dict) -> None:
        """Take in what a process reported."""
        self.executions += counts["executions"]
        self.seconds += counts["seconds"]
        for place, times in counts["defects"].items():
            self.defects[place] = self.defects.get(place, 0) + times

    def line(self) -> str:
        """One row of the table."""
        rate = self.executions / max(self.seconds, 1e-9)
        told = "; ".join(f"{place} ({times})" for place, times in self.defects.items()) or "none"
        return (
            f"{self.target:18}{self.executions:>12,}{self.seconds:>10.0f}{rate:>10.0f}{self.ended:>8}  {told}"
        )


HEADER = f"{'target':18}{'executions':>12}{'CPU s':>10}{'per s':>10}{'ended':>8}  defects"


def fuzz_target(name: str, seconds: float, work: Path) -> Outcome:
    """Fuzz one target in processes of its own, one after the other until its time is spent."""
    outcome = Outcome(name)
    write_seeds(name, work / "corpus" / name)
    (work / "found" / name).mkdir(parents=True, exist_ok=True)
    while outcome.seconds < seconds and outcome.ended < MOST_ENDS:
        status = work / f"{name}.json"
        status.unlink(missing_ok=True)
        code = child(name, seconds - outcome.seconds, work, status)
        outcome.add(read_status(status))
        outcome.ended += code != 0
    return outcome


def child(name: str, seconds: float, work: Path, status: Path) -> int:
    """Run the process that fuzzes; its pid is written down, so that it can be paused."""
    command = [sys.executable, __file__, "--target", name, "--seconds", str(seconds), "--folder", str(work)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    with (work / f"{name}.log").open("ab") as log:
        process = subprocess.Popen(
            [*command, "--status", str(status)], stdout=log, stderr=log, env=environment
        )
        with (work / "pids").open("a") as pids:
            pids.write(f"{process.pid}\n")
        return process.wait()


def read_status(path: Path) -> dict:
    """What a process has counted; one that ended at once has counted nothing, and lost some seconds."""
    return json.loads(path.read_text()) if path.exists() else {"executions": 0, "seconds": 5.0, "defects": {}}


def write_seeds(name: str, folder: Path) -> None:
    """Seeds and known regressions, unless an earlier run has left a corpus."""
    from fuzzing.seeds import SEEDS

    folder.mkdir(parents=True, exist_ok=True)
    known = [path.read_bytes() for path in sorted((CORPUS / name).glob("*"))]
    for content in [*([] if any(folder.iterdir()) else SEEDS[name]()), *known]:
        (folder / hashlib.sha256(content).hexdigest()[:16]).write_bytes(content)


def parse(argv: list[str] | None) -> argparse.Namespace:
    """Options of the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--target", action="append", help="name of a target; may be given several times")
    parser.add_argument("--all", action="store_true", help="all targets")
    parser.add_argument("--list", action="store_true", help="print the names of the targets")
    parser.add_argument("--seconds", type=float, default=1800.0, help="CPU seconds of each target")
    parser.add_argument("--jobs", type=int, default=1, help="targets side by side")
    parser.add_argument("--json", type=Path, help="write all counts to this file")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir(), "viewloom-fuzz"))
    parser.add_argument("--status", type=Path, help=argparse.SUPPRESS)  # in the process that fuzzes
    return parser.parse_args(argv)


def main(argv: list[str] | None = None) -> int:
    """Fuzz; 1 where there are defects, 2 where a target is not known."""
    options = parse(argv)
    if options.status:
        from fuzzing.process import fuzz

        fuzz(options.target[0], options.seconds, options.folder, options.status)
    from fuzzing.targets import TARGETS

    names = list(TARGETS) if options.all else options.target or []
    if options.list or not set(names) <= set(TARGETS) or not names:
        print("\n".join(TARGETS))
        return 0 if options.list else 2
    outcomes = run(names, options)
    return int(any(outcome.defects or outcome.ended for outcome in outcomes))


def run(names: list[str], options: argparse.Namespace) -> list[Outcome]:
    """All targets, told and written down as they are done."""
    options.folder.mkdir(parents=True, exist_ok=True)
    outcomes: list[Outcome] = []
    print(HEADER, flush=True)
    with ThreadPoolExecutor(options.jobs) as pool:
        for outcome in pool.map(lambda name: fuzz_target(name, options.seconds, options.folder), names):
            outcomes.append(outcome)
            print(outcome.line(), flush=True)
            if options.json:
                options.json.write_text(json.dumps([asdict(each) for each in outcomes], indent=1))
    print(f"{sum(outcome.executions for outcome in outcomes):,} executions", flush=True)
    return outcomes


if __name__ == "__main__":
    sys.exit(main())
