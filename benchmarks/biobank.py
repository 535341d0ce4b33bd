"""A biobank from its files to the report, as a user would run it.

    python benchmarks/biobank.py [--sizes 50000,500000] [--format parquet,csv] [--folder DIR] [--json FILE]
    python benchmarks/biobank.py --sizes 5000 --quick

Writes subjects of thirty sites with four views, a fifth of which are missing at random: 300 measures from
images, 60 of blood, 2 000 diagnosis codes of which a subject has about twenty, 50 genotype scores. Five
planted clusters differ in images, blood and codes; scores tell little. Images are shifted and stretched
by site and depend on age and sex. Then `viewloom check`, `fit --choose-k`, `report` and `predict` (of a tenth
as many new subjects) run one after the other, each in a process of its own: seconds by the clock and of
processors, peak memory of the process with its children, share of the whole, and the growth exponent of
processor time between the last two sizes. NMI with the planted clusters is compared with that of the exact
model of ten thousand of the subjects.

--quick
    Without twins and without the number of clusters, for tests.
--reading
    Instead: processor seconds and peak memory of reading one table of 1 000 columns, as CSV and as Parquet,
    beside the bare read of pandas.
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import psutil

Array = np.ndarray
Record = dict[str, Any]
K, SITES, MISSING = 5, 30, 0.2
WIDTHS = {"imaging": 300, "blood": 60, "scores": 50}
SEPARATIONS = {"imaging": 0.45, "blood": 0.6, "scores": 0.1}
CODES, PER_SUBJECT, OWN = 2_000, 20, 0.35  # codes, codes of a subject, share of those of the cluster
BLOCK = 50_000
EXACT = 10_000
GIB = 2**30
STUDY = """[study]
name = "Biobank"

[participants]
path = "participants.{text}"
id = "eid"
covariates = ["age", "sex"]
site = "centre"
outcomes = ["grip", "smoker"]

[views.imaging]
path = "imaging.{ext}"
id = "eid"

[views.blood]
path = "blood.{ext}"
id = "eid"

[views.codes]
path = "codes.{ext}"
format = "codes"
id = "eid"
code = "icd10"

[views.scores]
path = "scores.{ext}"
id = "eid"

[preparation]
residualise = ["age", "sex"]
residualise_on = "all"
harmonise = "combat"

[model]
n_clusters = 5

[compute]
{compute}
"""


class Cohort:
    """Subjects by blocks; the same block is the same whenever it is made."""

    def __init__(self, n: int, seed: int = 0) -> None:
        rng = np.random.default_rng(0)  # the population; the seed draws its members
        self.n, self.seed = n, seed
        self.centres = {
            name: SEPARATIONS[name] * rng.standard_normal((K, width)) for name, width in WIDTHS.items()
        }
        self.mixing = {name: rng.standard_normal((8, width)) for name, width in WIDTHS.items()}
        self.shift = 0.5 * rng.standard_normal((SITES, WIDTHS["imaging"]))
        self.stretch = np.exp(0.15 * rng.standard_normal((SITES, WIDTHS["imaging"])))
        self.ageing = 0.3 * rng.standard_normal((2, WIDTHS["imaging"]))
        self.popular = rng.permutation(CODES)

    def block(self, start: int) -> tuple[pd.DataFrame, dict[str, pd.DataFrame]]:
        """Participants and views of up to BLOCK subjects from this one on."""
        rng = np.random.default_rng((self.seed, start))
        n = min(BLOCK, self.n - start)
        y, site = rng.integers(0, K, n), rng.integers(0, SITES, n)
        ids = np.char.add("S", np.char.zfill(np.arange(start, start + n).astype(str), 8))
        age, sex = rng.normal(60, 8, n).round(1), rng.integers(0, 2, n)
        people = pd.DataFrame(
            {
                "eid": ids,
                "age": age,
                "sex": np.where(sex, "F", "M"),
                "centre": np.char.add("C", np.char.zfill(site.astype(str), 2)),
                "grip": (rng.normal(30, 6, n) - y).round(1),
                "smoker": np.where(rng.random(n) < 0.1 + 0.05 * y, "yes", "no"),
            }
        )
        there = rng.random((n, 4)) >= MISSING
        there[~there.any(axis=1), 0] = True
        views = {}
        for a, name in enumerate(WIDTHS):
            X = self.centres[name][y] + rng.standard_normal((n, WIDTHS[name]), dtype=np.float32)
            X += 0.3 * rng.standard_normal((n, 8)) @ self.mixing[name]
            if name == "imaging":
                X += np.column_stack([(age - 60) / 8, sex]) @ self.ageing
                X = X * self.stretch[site] + self.shift[site]
            X = np.round(X.astype(np.float32), 4)
            X[rng.random(X.shape) < 0.005] = np.nan
            frame = pd.DataFrame(X, columns=[f"{name}{j}" for j in range(WIDTHS[name])])
            frame.insert(0, "eid", ids)
            views[name] = frame[there[:, a]]
        views["codes"] = self._codes(ids, y, there[:, 3], rng)
        people.insert(len(people.columns), "truth", y)
        return people, views

    def _codes(self, ids: Array, y: Array, there: Array, rng: np.random.Generator) -> pd.DataFrame:
        """One row per subject and code: a third of the codes of its cluster, the others by popularity."""
        drawn = (CODES * rng.random((len(ids), PER_SUBJECT)) ** 2).astype(int)
        own = rng.random(drawn.shape) < OWN
        drawn[own] = (drawn // K * K + y[:, None])[own]
        rows = np.repeat(np.arange(len(ids)), PER_SUBJECT).reshape(drawn.shape)[there]
        pairs = np.unique(np.column_stack([rows.ravel(), self.popular[drawn[there]].ravel()]), axis=0)
        names = np.array([f"{chr(65 + j // 100)}{j % 100:02d}" for j in range(CODES)])
        return pd.DataFrame({"eid": ids[pairs[:, 0]], "icd10": names[pairs[:, 1]]})


def write(folder: Path, n: int, ext: str, *, compute: str = "", seed: int = 0, whole: int = 0) -> None:
    """All files of a study of n subjects, or of the first n of a larger one, a block at a time."""
    folder.mkdir(parents=True, exist_ok=True)
    cohort, writers = Cohort(max(n, whole), seed), dict[str, Any]()
    for start in range(0, n, BLOCK):
        people, views = cohort.block(start)
        chosen = set(people["eid"][: n - start])
        people, views = (
            people[: n - start],
            {name: frame[frame["eid"].isin(chosen)] for name, frame in views.items()},
        )
        parts = {"participants": people.drop(columns="truth"), "truth": people[["eid", "truth"]], **views}
        for name, frame in parts.items():
            if ext == "csv" or name in ("participants", "truth"):
                frame.to_csv(
                    folder / f"{name}.csv", mode="a" if start else "w", header=not start, index=False
                )
            else:
                _append(folder / f"{name}.parquet", frame, writers)
    for writer in writers.values():
        writer.close()
    (folder / "study.toml").write_text(STUDY.format(ext=ext, text="csv", compute=compute))


def _append(path: Path, frame: pd.DataFrame, writers: dict[str, Any]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.Table.from_pandas(frame, preserve_index=False)
    writer = writers.setdefault(path.name, None) or pq.ParquetWriter(path, table.schema)
    writers[path.name] = writer
    writer.write_table(table)


def run(command: list[str]) -> Record:
    """Run a command: seconds, processor seconds, and peak memory of its processes together."""
    begun, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    process = psutil.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    peak, done = [0.0], threading.Event()
    watch = threading.Thread(target=_watch, args=(process, peak, done))
    watch.start()
    out, err = process.communicate()
    done.set()
    watch.join()
    if process.returncode:
        raise SystemExit(f"{' '.join(command)}\n{out[-2000:]}\n{err[-2000:]}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"seconds": time.perf_counter() - begun, "processor": used, "peak GiB": peak[0] / GIB, "out": out}


def _watch(process: psutil.Popen, peak: list[float], done: threading.Event) -> None:
    while not done.wait(0.1):
        try:
            family = [process, *process.children(recursive=True)]
            peak[0] = max(peak[0], sum(_own_memory(one) for one in family))
        except psutil.NoSuchProcess:
            continue


def _own_memory(process: psutil.Process) -> int:
    """Resident memory without pages of files, which the system keeps for all processes."""
    try:
        info = process.memory_info()
        return int(info.rss - info.shared)
    except psutil.NoSuchProcess:
        return 0


def stages(folder: Path, n: int, ext: str, quick: bool) -> list[Record]:
    """All commands of a user, one after the other."""
    viewloom, study, out = [sys.executable, "-m", "viewloom"], str(folder / "study.toml"), str(folder / "run")
    new = folder / "new"
    write(new, max(n // 10, 200), ext, seed=1)
    fewer = ["--twins", "0"] if quick else ["--choose-k"]
    commands = {
        "check": [*viewloom, "check", study],
        "fit": [*viewloom, "fit", study, "--output", out, *fewer],
        "report": [*viewloom, "report", out],
        "predict": [*viewloom, "predict", out, str(new / "study.toml"), "--output", str(folder / "new.csv")],
    }
    found = []
    for stage, command in commands.items():
        record = {"n": n, "files": ext, "stage": stage, **run(command)}
        (folder / f"{stage}.log").write_text(record.pop("out"))
        show(record)
        found.append(record)
    return found


def show(record: Record) -> None:
    """One line of a measurement."""
    what = f"{record['n']:>8} {record['files']:<8} {record['stage']:<8}"
    times = f"{record['seconds']:9.1f} s {record['processor']:9.1f} s of processors"
    print(f"{what} {times} {record['peak GiB']:6.2f} GiB", flush=True)


def agreement(folder: Path, n: int, exact: int) -> Record:
    """NMI with the planted clusters, of the study and of the exact model of its first subjects."""
    small = folder / "exact"
    write(small, min(n, exact), "csv", compute="factored = false", whole=n)
    command = [sys.executable, "-m", "viewloom", "fit", str(small / "study.toml"), "--twins", "0"]
    run([*command, "--output", str(small / "run")])
    return {"n": n, "NMI": nmi_of(folder), f"NMI, exact model of {min(n, exact)}": nmi_of(small)}


def nmi_of(folder: Path) -> float:
    """NMI of the labels of a run with the planted clusters."""
    from sklearn.metrics import normalized_mutual_info_score

    truth = pd.read_csv(folder / "truth.csv", index_col="eid")["truth"]
    labels = pd.read_csv(folder / "run" / "labels.csv", index_col="id")["label"]
    return float(normalized_mutual_info_score(truth.reindex(labels.index), labels))


def growth(records: list[Record], measure: str = "processor") -> dict[str, float]:
    """Slope of log time over log size between the last two sizes, of every stage and of all together."""
    sizes = sorted({record["n"] for record in records})[-2:]
    if len(sizes) < 2:
        return {}
    taken = {(one["n"], one["stage"]): one[measure] for one in records}
    names = list(dict.fromkeys(one["stage"] for one in records))
    taken |= {(n, "all"): sum(taken[n, name] for name in names) for n in sizes}
    width = math.log(sizes[1] / sizes[0])
    return {name: math.log(taken[sizes[1], name] / taken[sizes[0], name]) / width for name in [*names, "all"]}


def shares(records: list[Record]) -> dict[str, float]:
    """Share of each stage in the time of the largest size."""
    largest = max(record["n"] for record in records)
    taken = {one["stage"]: one["processor"] for one in records if one["n"] == largest}
    return {name: seconds / sum(taken.values()) for name, seconds in taken.items()}


def reading(folder: Path, n: int, width: int = 1000) -> list[Record]:
    """Reading one wide table, and the bare read of pandas, each in a process of its own."""
    rng, found = np.random.default_rng(0), []
    for ext in ("csv", "parquet"):
        path, writers = folder / f"wide.{ext}", dict[str, Any]()
        for start in range(0, n, BLOCK // 10):
            size = min(BLOCK // 10, n - start)
            X = rng.standard_normal((size, width), dtype=np.float32).round(4)
            frame = pd.DataFrame(X).add_prefix("x")
            frame.insert(0, "eid", [f"S{i:08d}" for i in range(start, start + size)])
            if ext == "csv":
                frame.to_csv(path, mode="a" if start else "w", header=not start, index=False)
            else:
                _append(path, frame, writers)
        for writer in writers.values():
            writer.close()
        for name, code in (("bare", BARE[ext]), ("viewloom", OURS)):
            record = run([sys.executable, "-c", code, str(path)])
            seconds = float(record.pop("out").split()[-1])
            found.append({"n": n, "files": ext, "stage": name, **record, "seconds": seconds})
            show(found[-1])
    return found


TIMED = "import sys, time, {imports}; t = time.process_time(); {call}; print(time.process_time() - t)"
BARE = {
    "csv": TIMED.format(imports="pandas as pd", call="pd.read_csv(sys.argv[1])"),
    "parquet": TIMED.format(imports="pandas as pd", call="pd.read_parquet(sys.argv[1])"),
}
OURS = TIMED.format(
    imports="viewloom.study.readers.tables as tables", call="tables.read_table(sys.argv[1], id='eid')"
)


def main(argv: list[str] | None = None) -> list[Record]:
    """Run the benchmark."""
    options = parse(argv)
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        if options.reading:
            records = [one for n in options.sizes for one in reading(Path(folder), n)]
        else:
            records = whole_jobs(Path(folder), options)
    if options.json:
        Path(options.json).write_text(json.dumps(records, indent=1))
    return records


def whole_jobs(folder: Path, options: argparse.Namespace) -> list[Record]:
    """Every size in every kind of file, and the summary of each kind."""
    records: list[Record] = []
    for ext in options.format:
        here = []
        for n in options.sizes:
            write(folder / f"{ext}{n}", n, ext)
            here += stages(folder / f"{ext}{n}", n, ext, options.quick)
            print(json.dumps(agreement(folder / f"{ext}{n}", n, options.exact)), flush=True)
        print(f"{ext}: shares {_rounded(shares(here))}, growth {_rounded(growth(here))}", flush=True)
        records += here
    return records


def _rounded(values: dict[str, float]) -> dict[str, float]:
    return {name: round(value, 2) for name, value in values.items()}


def parse(argv: list[str] | None) -> argparse.Namespace:
    """Options of the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--sizes", type=lambda text: [int(n) for n in text.split(",")], default=[50_000, 500_000]
    )
    parser.add_argument("--format", type=lambda text: text.split(","), default=["parquet", "csv"])
    parser.add_argument("--exact", type=int, default=EXACT, help="subjects of the exact model")
    parser.add_argument("--quick", action="store_true", help="without twins and the number of clusters")
    parser.add_argument("--reading", action="store_true")
    parser.add_argument("--folder", type=Path, default=None, help="where temporary files are written")
    parser.add_argument("--json", default=None)
    return parser.parse_args(argv)


if __name__ == "__main__":
    main()
