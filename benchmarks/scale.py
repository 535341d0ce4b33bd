"""How time and memory grow with the number of samples.

    python benchmarks/scale.py [--sizes 10000,100000,1000000] [--backend threads] [--json FILE]

Three simulated views of 64 features in single precision, ten clusters whose centres lie 0.6 standard
deviations per feature apart. Every size runs in a process of its own: whole `fit`, `predict` of a tenth
of the samples, peak memory, and, in the same run, scikit-learn's `KMeans(n_init=1)` on the features side
by side. The growth exponent is the slope of log time over log size between the last two sizes.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing as mp
import resource
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

K, VIEWS, FEATURES, SEPARATION = 10, 3, 64, 0.6
Record = dict[str, Any]


def cohort(n: int) -> tuple[list[np.ndarray], np.ndarray]:
    """Views and the planted clusters."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, K, n)
    views = []
    for _ in range(VIEWS):
        X = rng.standard_normal((n, FEATURES), dtype=np.float32)
        X += SEPARATION * rng.standard_normal((K, FEATURES), dtype=np.float32)[y]
        views.append(X)
    return views, y


def measure(n: int, backend: str) -> Record:
    """Everything about one size."""
    from sklearn.cluster import KMeans
    from sklearn.metrics import normalized_mutual_info_score

    from viewloom import KernelMultiviewNMF

    warnings.simplefilter("ignore")
    views, y = cohort(n)
    began = time.perf_counter()
    model = KernelMultiviewNMF(K, factored=True, backend=backend, random_state=0).fit(views)
    fitted = time.perf_counter()
    model.predict([X[: n // 10] for X in views])
    predicted = time.perf_counter()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    side = np.hstack(views)
    reference = time.perf_counter()
    KMeans(K, n_init=1, random_state=0).fit(side)
    kmeans = time.perf_counter() - reference
    return {
        "n": n,
        "fit": fitted - began,
        "iterations": model.n_iter_,
        "predict": predicted - fitted,
        "peak GiB": peak,
        "k-means": kmeans,
        "ratio": (fitted - began) / kmeans,
        "NMI": float(normalized_mutual_info_score(y, model.labels_)),
    }


def main() -> None:
    """Measure all sizes and print a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", default="10000,100000,1000000", help="numbers of samples")
    parser.add_argument("--backend", default="threads", choices=["serial", "threads"])
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    arguments = parser.parse_args()
    records: list[Record] = []
    for n in map(int, arguments.sizes.split(",")):
        with mp.get_context("spawn").Pool(1) as pool:
            records.append(pool.apply(measure, (n, arguments.backend)))
        if len(records) == 1:
            print("  ".join(f"{name:>10}" for name in records[0]))
        print("  ".join(f"{value:>10.4g}" for value in records[-1].values()), flush=True)
    if len(records) > 1:
        last, before = records[-1], records[-2]
        exponent = np.log(last["fit"] / before["fit"]) / np.log(last["n"] / before["n"])
        print(f"growth exponent of fit between {before['n']} and {last['n']}: {exponent:.2f}")
    if arguments.json:
        arguments.json.write_text(json.dumps(records, indent=1))


if __name__ == "__main__":
    main()
