"""Landmarks against exact kernels, and against k-means, on real sets with known classes.

    python benchmarks/landmarks.py [--data DIR] [--landmarks 500] [--seeds 3] [--json FILE]

Every set with at least 1000 samples is fitted exactly (`factored=False`) and by landmarks; scikit-learn's
`KMeans` and `MiniBatchKMeans` cluster the concatenated, standardised features. NMI with the known classes and
CPU seconds, means over seeds; the methods take turns. Classes are used for scores only.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import tables
from sets import default_folder, find_sets
from sklearn.cluster import KMeans, MiniBatchKMeans
from sklearn.metrics import normalized_mutual_info_score
from sklearn.preprocessing import StandardScaler
from speed import LARGE_SET, cpu_seconds_of, write_json

from viewloom import KernelMultiviewNMF

Array = np.ndarray
EXACT, TIED = "exact", "landmarks"


def methods(views: list[Array], k: int, n_landmarks: int) -> dict[str, Callable[[int], Array]]:
    """Labels of every method for a seed."""
    X = StandardScaler().fit_transform(np.hstack(views))

    def ours(factored: int | bool) -> Callable[[int], Array]:
        return lambda seed: KernelMultiviewNMF(k, factored=factored, random_state=seed).fit_predict(views)

    return {
        EXACT: ours(False),
        TIED: ours(n_landmarks),
        "KMeans": lambda seed: KMeans(k, n_init=10, random_state=seed).fit_predict(X),
        "MiniBatchKMeans": lambda seed: MiniBatchKMeans(k, n_init=10, random_state=seed).fit_predict(X),
    }


def measured(found: Any, n_landmarks: int, seeds: int) -> list[dict[str, Any]]:
    """One record per method of a set: mean NMI and CPU seconds."""
    views, truth, k = found.source.views(), found.source.truth().y, found.n_clusters
    chosen = methods(views, k, n_landmarks)
    records: list[dict[str, Any]] = []
    for seed in range(seeds):
        for name, cluster in chosen.items():
            labels: list[Array] = []
            seconds = cpu_seconds_of(lambda: labels.append(cluster(seed)))  # noqa: B023
            nmi = normalized_mutual_info_score(truth, labels[0])
            records.append(
                {"set": found.name, "n": len(truth), "method": name, "nmi": nmi, "seconds": seconds}
            )
    return records


def summary(frame: pd.DataFrame) -> pd.DataFrame:
    """One row per set, and the means."""
    wide = frame.pivot_table(index=["set", "n"], columns="method", values=["nmi", "seconds"], sort=False)
    wide.columns = [f"{method}: {what}" for what, method in wide.columns]
    wide["loss"] = wide[f"{EXACT}: nmi"] - wide[f"{TIED}: nmi"]
    wide.loc[("mean", ""), :] = wide.mean()
    return wide.reset_index()


def main(argv: list[str] | None = None) -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=default_folder(), help="folder of .npz files")
    parser.add_argument("--landmarks", type=int, default=500)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--json", type=Path, help="write all numbers to this file")
    options = parser.parse_args(argv)
    warnings.simplefilter("ignore")
    chosen = [s for s in find_sets(options.data, ["sets"])[0] if s.n_samples >= LARGE_SET and not s.is_kernel]
    if not chosen:
        print(f"No set of at least {LARGE_SET} samples in {options.data}.")
        return 2
    records: list[dict[str, Any]] = []
    for found in chosen:
        print(found.name, file=sys.stderr)
        records += measured(found, options.landmarks, options.seeds)
    tables.show(tables.make_console(), "Landmarks on real sets", summary(pd.DataFrame(records)))
    if options.json:
        write_json(options.json, records)
    return 0


if __name__ == "__main__":
    sys.exit(main())
