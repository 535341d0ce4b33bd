"""Two unequal clusters along one continuum, in three correlated views with skewed features.

    python benchmarks/continuum.py [--seeds 5] [--skews 0,0.6,1] [--methods viewloom,NEMO,...] [--json FILE]

Each view has ten readings of a severity and of a size that grows with it, as diagnostic images have;
features are ``exp(skew x)`` of normal ones. Prints the mean NMI with the planted clusters, and the share of
subjects in the smaller cluster that was found (a bit more than a third is planted). Variants are those of
`tried.py`.
"""

from __future__ import annotations

import argparse
import json
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import tables
from offers import prepare
from registry import method_named
from sklearn.metrics import normalized_mutual_info_score

Array = np.ndarray
N, FEATURES = 400, 10  # subjects, features of a view
SHARE, GAP = 0.37, 2.0  # of the smaller cluster, between the mean severities
TRIED = Path(__file__).with_name("tried.py")
METHODS = [
    "viewloom",
    "features not decorrelated",
    "Mahalanobis distances",
    "features as normal scores",
    "features clipped",
    "start only",
    "time=20",
    "walks until k directions lead",
    "viewloom linear",
    "k-means (concatenated)",
    "spectral (mean graph)",
    "NEMO",
    "SNF",
]


def cohort(seed: int, skew: float) -> tuple[list[Array], Array]:
    """Three views and the planted clusters; the second view shows severity and size half as well."""
    rng = np.random.default_rng(seed)
    y = (rng.uniform(size=N) < SHARE).astype(int)
    severity = rng.normal(size=N) * np.where(y == 1, 1.3, 0.8) + GAP * y
    size = rng.normal(size=N) + 0.4 * severity
    return [reading(severity, size, clarity, skew, rng) for clarity in (1.0, 0.5, 1.0)], y


def reading(severity: Array, size: Array, clarity: float, skew: float, rng: np.random.Generator) -> Array:
    """Features of one view: severity, size, three directions of its own, and noise; then skewed."""
    shown = np.outer(severity, clarity * rng.uniform(0.2, 1.0, FEATURES))
    shown += np.outer(size, clarity * rng.uniform(0.0, 1.0, FEATURES))
    own = 0.6 * rng.normal(size=(N, 3)) @ rng.normal(size=(3, FEATURES))
    X = shown + own + 0.5 * rng.normal(size=(N, FEATURES))
    X = X / X.std(axis=0)
    return np.exp(skew * X) if skew else X


def scores(name: str, seed: int, skew: float) -> tuple[float, float]:
    """NMI of a method, and the share of subjects in its smaller cluster."""
    method, (views, y) = method_named(name, TRIED), cohort(seed, skew)
    labels = method.fit(prepare(views, method.form, False, not method.incomplete), 2, seed).labelings[0]
    return float(normalized_mutual_info_score(y, labels)), float(np.bincount(labels, minlength=2).min() / N)


def measured(names: list[str], seeds: int, skews: list[float]) -> pd.DataFrame:
    """One row per method: mean NMI and share of the smaller cluster for each skew."""
    rows = {}
    for name in names:
        found = {skew: np.mean([scores(name, seed, skew) for seed in range(seeds)], axis=0) for skew in skews}
        nmi = {f"NMI, skew {skew:g}": mean[0] for skew, mean in found.items()}
        rows[name] = nmi | {f"smaller, skew {skew:g}": mean[1] for skew, mean in found.items()}
    return pd.DataFrame.from_dict(rows, orient="index")


def parse(argv: list[str] | None) -> argparse.Namespace:
    """Options of the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=5, help="number of cohorts")
    parser.add_argument("--skews", default="0,0.6,1", help="skews of the features")
    parser.add_argument("--methods", default=",".join(METHODS), help="names of methods and variants")
    parser.add_argument("--json", type=Path, help="write the table to this file")
    return parser.parse_args(argv)


def main(argv: list[str] | None = None) -> int:
    """Run the benchmark."""
    options = parse(argv)
    warnings.simplefilter("ignore")
    table = measured(options.methods.split(","), options.seeds, [float(s) for s in options.skews.split(",")])
    tables.show(tables.make_console(), "Two clusters along a continuum", table, "method")
    if options.json:
        options.json.write_text(json.dumps(json.loads(table.to_json(orient="index")), indent=1))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
