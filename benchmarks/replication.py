"""How often `viewloom.replicate` calls clusters replicated, with and without structure that cohorts share.

    python benchmarks/replication.py [--runs 100] [--families noise,planted,...] [--jobs 1]
        [--first-seed 1000] [--json FILE]

Each run simulates two cohorts, fits the first, and replicates it in the second. Families without shared
structure should be *not replicated* in at least 95 % of runs, and planted structure *replicated* in at least
90 %. A continuum has no clusters, but its cuts agree: there the share of runs with a caution counts.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed

import viewloom as vl
from viewloom.evaluation.replication.verdicts import NOT, PARTLY, REPLICATED
from viewloom.runtime.threads import one_thread

Pair = tuple[vl.Views, vl.Views]
N, K, FEATURES = 100, 3, 10  # subjects of each cohort, clusters, features of each of three views
LEAST_NOT, LEAST_REPLICATED = 0.95, 0.90


def planted(seed: int, n: int = N, separation: float = 4.0, missing: float = 0.0) -> Pair:
    """Two halves of one set of blobs; the second may lack views."""
    both, _ = vl.simulate.blobs_views(
        2 * n, n_clusters=K, n_features=FEATURES, separation=separation, random_state=seed
    )
    lost = np.random.default_rng([seed, 1]).random((n, both.n_views)) < missing
    lost[lost.all(axis=1), 0] = False
    second = both[n:]
    blocks = {name: np.where(lost[:, [a]], np.nan, X) for a, (name, X) in enumerate(second.items())}
    return both[:n], vl.Views(blocks)


def unrelated_views(seed: int) -> Pair:
    """The rows of each view of the second cohort are permuted."""
    first, second = planted(seed)
    rng = np.random.default_rng([seed, 2])
    return first, vl.Views({name: X[rng.permutation(len(X))] for name, X in second.items()})


def noise(seed: int) -> Pair:
    """Both cohorts are noise."""
    return _noise([seed, 3]), _noise([seed, 4])


def second_noise(seed: int) -> Pair:
    """The second cohort is noise."""
    return planted(seed)[0], _noise([seed, 5])


def other_locations(seed: int) -> Pair:
    """Both cohorts have clusters, at unrelated locations."""
    return planted(seed)[0], planted(seed + 100_000)[1]


def first_noise(seed: int) -> Pair:
    """The first cohort is noise; the second has clusters."""
    return _noise([seed, 6]), planted(seed)[1]


def continuum(seed: int) -> Pair:
    """One Gaussian with an axis that all views and both cohorts share."""
    rng = np.random.default_rng([seed, 7])
    axes = rng.standard_normal((3, FEATURES))
    cohorts = []
    for _ in range(2):
        stage = rng.standard_normal(N)
        views = {
            f"blobs{a}": np.outer(stage, axis) + rng.standard_normal((N, FEATURES))
            for a, axis in enumerate(axes)
        }
        cohorts.append(vl.Views(views))
    return cohorts[0], cohorts[1]


def _noise(seed: list[int]) -> vl.Views:
    rng = np.random.default_rng(seed)
    return vl.Views({f"blobs{a}": rng.standard_normal((N, FEATURES)) for a in range(3)})


NULLS: dict[str, Callable[[int], Pair]] = {
    "unrelated views": unrelated_views,
    "noise": noise,
    "second noise": second_noise,
    "other locations": other_locations,
    "first noise": first_noise,
}
PLANTED: dict[str, Callable[[int], Pair]] = {
    "planted": planted,
    "planted, 60 subjects": lambda seed: planted(seed, n=60),
    "planted, separation 3": lambda seed: planted(seed, separation=3.0),
    "planted, 20 % missing": lambda seed: planted(seed, missing=0.2),
}
FAMILIES = {**NULLS, **PLANTED, "continuum": continuum}


def verdict_of(family: str, seed: int) -> tuple[str, bool]:
    """The verdict on a pair of cohorts, and whether it comes with a caution."""
    first, second = FAMILIES[family](seed)
    with warnings.catch_warnings(), one_thread():
        warnings.simplefilter("ignore")
        model = vl.KernelMultiviewNMF(K, random_state=seed).fit(first)
        n_continuum = 19 if family in ("continuum", "planted") else 0
        found = vl.replicate(  # the verdict does not depend on null cohorts, which take the most time
            model, second, n_permutations=0, n_continuum=n_continuum, n_resamples=100, random_state=seed
        )
    return found.verdict, found.overall["continuum_p"] > 0.05


def rates(family: str, runs: int, jobs: int, start: int = 0) -> dict[str, Any]:
    """Shares of verdicts of a family, from the seed `start` on."""
    found = Parallel(jobs)(delayed(verdict_of)(family, seed) for seed in range(start, start + runs))
    counts = Counter(verdict for verdict, _ in found)
    shares = {verdict: counts[verdict] / runs for verdict in (REPLICATED, PARTLY, NOT)}
    return {"family": family, "runs": runs, **shares, "caution": sum(c for _, c in found) / runs}


def main(argv: list[str] | None = None) -> int:
    """Print the rates; 1 if one of them misses its aim."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--families", default=",".join(FAMILIES).replace(", ", "; "))
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--first-seed", type=int, default=1000, help="seeds below 100 served to set the rule")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(argv)
    chosen = [name.replace("; ", ", ") for name in options.families.split(",")]
    table = []
    for family in chosen:
        row = rates(family, options.runs, options.jobs, options.first_seed)
        table.append(row)
        shown = "  ".join(f"{name} {row[name]:.3f}" for name in (REPLICATED, PARTLY, NOT, "caution"))
        print(f"{family:25}{shown}", flush=True)
    if options.json:
        options.json.write_text(json.dumps(table, indent=1) + "\n", encoding="utf-8")
    return int(any(missed(row) for row in table))


def missed(row: dict[str, Any]) -> bool:
    """Whether a family misses its aim."""
    if row["family"] in NULLS:
        return bool(row[NOT] < LEAST_NOT)
    return bool(row["family"] in PLANTED and row[REPLICATED] < LEAST_REPLICATED)


if __name__ == "__main__":
    raise SystemExit(main())
