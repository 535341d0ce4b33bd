"""How time and memory grow with the number of samples.

    python benchmarks/scale.py [--sizes 10000,100000,1000000] [--backend threads] [--json FILE]
    python benchmarks/scale.py --files [--rows 1000000] [--limit 2] [--npy]
    python benchmarks/scale.py --sparse [--rows 100000]

Every measurement runs in a process of its own.

Without a flag: three simulated views of 64 features in single precision, ten clusters whose centres lie
0.6 standard deviations per feature apart. Whole `fit`, `predict` of a tenth of the samples, peak memory,
and, in the same run, scikit-learn's `KMeans(n_init=1)` on the features side by side. The growth exponent
is the slope of log time over log size between the last two sizes.

--files
    The same views in files, fitted from their paths under a limit of so many GiB: once from three
    .npy files, once with the last as Parquet, whose rows are one group, as pandas writes them. The
    limit is the kernel's RLIMIT_DATA, which counts all private writable memory that the process has
    asked for, touched or not: libraries, stacks of threads and buffers of BLAS too. (RLIMIT_AS would
    count program code besides.) Arrow's own allocator reserves 1 GiB that it does not touch, so here
    Arrow uses that of the system. Pages of files that the kernel keeps belong to no process.
    With --npy from .npy files only.
--sparse
    Counts of 50 000 words, 1 % of them not zero, in a csr matrix: texts of ten topics, a tenth of
    whose words are of the topic. A dense view of 64 features lies beside it.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from speed import in_new_process, peak_bytes, reset_peak, write_json

Array = np.ndarray
K, VIEWS, FEATURES, SEPARATION = 10, 3, 64, 0.6
WORDS, WORDS_PER_TEXT, TOPIC_SHARE = 50_000, 500, 0.1
WRITE_ROWS = 50_000
GIB = 2**30
Record = dict[str, Any]


def cohort(n: int) -> tuple[list[Array], Array]:
    """Views and the planted clusters."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, K, n)
    views = []
    for _ in range(VIEWS):
        X = rng.standard_normal((n, FEATURES), dtype=np.float32)
        X += SEPARATION * rng.standard_normal((K, FEATURES), dtype=np.float32)[y]
        views.append(X)
    return views, y


def texts(n: int) -> tuple[Any, Array]:
    """Word counts (csr, float32) and the planted topics, from whose own words a tenth of a text is drawn."""
    import scipy.sparse as sp

    rng = np.random.default_rng(0)
    y = rng.integers(0, K, n)
    parts = []
    for start in range(0, n, WRITE_ROWS):
        topics = y[start : start + WRITE_ROWS, None]
        words = rng.integers(0, WORDS, (len(topics), WORDS_PER_TEXT), dtype=np.int32)
        own = int(TOPIC_SHARE * WORDS_PER_TEXT)
        words[:, :own] = topics * (WORDS // K) + words[:, :own] % (WORDS // K)
        firsts = np.arange(0, words.size + 1, WORDS_PER_TEXT)
        ones = np.ones(words.size, dtype=np.float32)
        X = sp.csr_array((ones, words.ravel(), firsts), shape=(len(topics), WORDS))
        X.sum_duplicates()
        parts.append(X)
    return sp.csr_array(sp.vstack(parts)), y


def measure_sizes(options: argparse.Namespace) -> Record:
    """Everything about one size, in memory."""
    from sklearn.cluster import KMeans

    n = options.rows
    views, y = cohort(n)
    model, fitted = timed(lambda: new_model(options).fit(views))
    _, predicted = timed(lambda: model.predict([X[: n // 10] for X in views]))
    peak = peak_bytes() / GIB
    side = np.hstack(views)
    _, reference = timed(lambda: KMeans(K, n_init=1, random_state=0).fit(side))
    return {
        "n": n,
        "fit": fitted,
        "iterations": model.n_iter_,
        "predict": predicted,
        "peak GiB": peak,
        "k-means": reference,
        "ratio": fitted / reference,
        "NMI": agreement(y, model),
    }


def write_files(options: argparse.Namespace) -> Record:
    """The views of `cohort` as .npy, a block at a time, and the planted clusters; the last as Parquet too."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, K, options.rows)
    np.save(options.folder / "y.npy", y)
    blocks = [slice(start, start + WRITE_ROWS) for start in range(0, options.rows, WRITE_ROWS)]
    for a in range(VIEWS):
        path, shape = options.folder / f"view{a}.npy", (options.rows, FEATURES)
        X = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=shape)
        for rows in blocks:
            X[rows] = rng.standard_normal(X[rows].shape, dtype=np.float32)
        centres = SEPARATION * rng.standard_normal((K, FEATURES), dtype=np.float32)
        for rows in blocks:
            X[rows] += centres[y[rows]]
    if not options.npy:
        import pandas as pd

        pd.DataFrame(X).add_prefix("f").to_parquet(path.with_suffix(".parquet"))
    return {}


def measure_files(options: argparse.Namespace) -> Record:
    """A fit from files under a limit."""
    limit = int(options.limit * GIB)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    paths = [options.folder / f"view{a}.npy" for a in range(VIEWS)]
    if options.parquet:
        paths[-1] = paths[-1].with_suffix(".parquet")
    before = reset_peak()
    model, fitted = timed(lambda: new_model(options).fit({path.stem: path for path in paths}))
    peak = peak_bytes()
    return {
        "n": options.rows,
        "files": "2 npy, 1 parquet" if options.parquet else "3 npy",
        "fit": fitted,
        "iterations": model.n_iter_,
        "limit GiB": options.limit,
        "peak GiB": peak / GIB,
        "of it before GiB": before / GIB,
        "data GiB": VIEWS * options.rows * FEATURES * 4 / GIB,
        "NMI": agreement(np.load(options.folder / "y.npy"), model),
    }


def measure_sparse(options: argparse.Namespace) -> Record:
    """A fit on word counts beside a dense view."""
    X, y = texts(options.rows)
    rng = np.random.default_rng(1)
    beside = rng.standard_normal((options.rows, FEATURES), dtype=np.float32)
    beside += SEPARATION * rng.standard_normal((K, FEATURES), dtype=np.float32)[y]
    given = X.data.nbytes + X.indices.nbytes + X.indptr.nbytes + beside.nbytes
    nonzero = X.nnz / (X.shape[0] * X.shape[1])
    before = reset_peak()
    model, fitted = timed(lambda: new_model(options).fit({"words": X, "beside": beside}))
    extra = peak_bytes() - before
    return {
        "n": options.rows,
        "non-zero": nonzero,
        "fit": fitted,
        "iterations": model.n_iter_,
        "input GiB": given / GIB,
        "more GiB": extra / GIB,
        "more / input": extra / given,
        "if dense GiB": 4 * X.shape[0] * X.shape[1] / GIB,
        "NMI": agreement(y, model),
        "NMI of words": agreement(y, model.view_memberships_[0].argmax(axis=1)),
    }


MEASURES: dict[str, Callable[[argparse.Namespace], Record]] = {
    "sizes": measure_sizes,
    "write": write_files,
    "files": measure_files,
    "sparse": measure_sparse,
}


def new_model(options: argparse.Namespace) -> Any:
    """The model that is measured."""
    from viewloom import KernelMultiviewNMF

    return KernelMultiviewNMF(K, factored=True, backend=options.backend, random_state=0)


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    """A result and the seconds it took."""
    began = time.perf_counter()
    found = work()
    return found, time.perf_counter() - began


def agreement(y: Array, found: Any) -> float:
    """NMI of the planted clusters with a model's labels, or with given ones."""
    from sklearn.metrics import normalized_mutual_info_score

    return float(normalized_mutual_info_score(y, getattr(found, "labels_", found)))


def parse(argv: list[str] | None) -> argparse.Namespace:
    """Options of the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--files", action="store_true", help="views in files, under a limit of memory")
    what.add_argument("--sparse", action="store_true", help="word counts")
    parser.add_argument("--sizes", default="10000,100000,1000000", help="numbers of samples")
    parser.add_argument("--rows", type=int, help="samples with --files (1 000 000) or --sparse (100 000)")
    parser.add_argument("--limit", type=float, default=2.0, help="GiB of memory with --files")
    parser.add_argument("--npy", action="store_true", help="with --files: no Parquet")
    parser.add_argument("--backend", default="threads", choices=["serial", "threads"])
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument("--measure", choices=list(MEASURES), help=argparse.SUPPRESS)  # in the new process
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--parquet", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args(argv)


def records_of(options: argparse.Namespace) -> list[Record]:
    """All measurements that were asked for, each printed when it is done."""
    records: list[Record] = []

    def measure(what: str, rows: int, *more: str) -> None:
        arguments = ("--measure", what, "--rows", str(rows), "--backend", options.backend, *more)
        records.append(in_new_process(__file__, *arguments))
        show(records[-1], heading=len(records) == 1)

    if options.files:
        os.environ["ARROW_DEFAULT_MEMORY_POOL"] = "system"
        with tempfile.TemporaryDirectory() as folder:
            rows = options.rows or 1_000_000
            only = ["--npy"] if options.npy else []
            in_new_process(__file__, "--measure", "write", "--folder", folder, "--rows", str(rows), *only)
            for kind in [()] if options.npy else [(), ("--parquet",)]:
                measure("files", rows, "--folder", folder, "--limit", str(options.limit), *kind)
    elif options.sparse:
        measure("sparse", options.rows or 100_000)
    else:
        for n in map(int, options.sizes.split(",")):
            measure("sizes", n)
    return records


def show(record: Record, heading: bool) -> None:
    """A line of the table."""
    cells = {name: value if isinstance(value, str) else f"{value:.4g}" for name, value in record.items()}
    widths = [max(len(name), 10, 16 * isinstance(record[name], str)) for name in cells]
    if heading:
        print("  ".join(f"{name:>{width}}" for name, width in zip(cells, widths, strict=True)))
    print("  ".join(f"{cell:>{w}}" for cell, w in zip(cells.values(), widths, strict=True)), flush=True)


def main(argv: list[str] | None = None) -> int:
    """Measure and print a table."""
    options = parse(argv)
    if options.measure:  # in the new process
        warnings.simplefilter("ignore")
        print(json.dumps(MEASURES[options.measure](options)))
        return 0
    records = records_of(options)
    if "k-means" in records[-1] and len(records) > 1:
        last, before = records[-1], records[-2]
        exponent = np.log(last["fit"] / before["fit"]) / np.log(last["n"] / before["n"])
        print(f"growth exponent of fit between {before['n']} and {last['n']}: {exponent:.2f}")
    if options.files:
        print(f"limit: RLIMIT_DATA, {options.limit:g} GiB of private writable memory, touched or not")
    if options.json:
        write_json(options.json, records)
    return 0


if __name__ == "__main__":
    sys.exit(main())
