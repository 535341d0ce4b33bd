"""What a saved model tells of who was in its training data: membership inference, measured.

Usage: ``python benchmarks/privacy.py [--sizes 100,300,900] [--share 4] [--cohorts 5] [--json FILE]``.

The attacker holds the model file and the rows of candidates, half of whom were in training, the others drawn
from the same population, and ranks them by how likely each was in training. An AUC of 0.5 is guessing, 1 is
certainty. The attacks are

distance
    to the nearest row that the file stores, in the scale of the model;
kernel
    the density of stored rows at the candidate, by a Gaussian kernel;
confidence
    the largest membership that the model gives the candidate;
loss
    the error with which the model reconstructs the candidate;
mixtures
    whether the candidate and two others have a mean that the file stores, to the last digits: for an attacker
    who holds the rows of all three.

Cohorts are simulated (`viewloom.simulate.adni_like`); a model stored with landmarks has one for every four
subjects unless `--share` says otherwise, close to the most that `store="landmarks"` allows.

``python benchmarks/privacy.py --attack [--releases] [--studies 200] [--leaky] [--record FILE]`` attacks the
published
files of random studies instead (`attacker`, `attack`): it prints, for every attack, how many hidden numbers
there were, how many were found, and in how many studies. ``--leaky`` attacks runs as they were published
before numbers were rounded, to show that the attacks work. With ``--record``, a stopped run is continued.
``--releases`` attacks what else leaves random studies (`attacker_releases`): follow-up, a replication in a
second cohort, scores of other methods; and counts what two runs with other numbers of clusters would tell.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
import scipy.special
import scipy.stats
from sklearn.metrics import roc_auc_score
from sklearn.neighbors import NearestNeighbors

Array = np.ndarray
NEAR = 15  # candidates around a stored row among whom its members are looked for
EQUAL = 1e-6  # in standard deviations of a feature
MOST_LOSSES = 200  # candidates whose loss is computed, one by one


@dataclass(frozen=True)
class Row:
    """The mean AUC of an attack over cohorts, and its 95 % interval."""

    store: str
    n: int
    attack: str
    auc: float
    low: float
    high: float


@dataclass(frozen=True)
class Held:
    """What the attacker has: the model, candidates, and both in the model's scale, all views side by side."""

    model: object
    candidates: object
    stored: Array
    rows: Array


def cohort(n: int, seed: int) -> tuple[object, Array]:
    """Candidates (views of 2 n subjects), and which of them are in training."""
    from viewloom.data import simulated as simulate

    parts = np.round(2 * n * np.array([88, 174, 83]) / 345).astype(int)
    views = simulate.adni_like(*parts.tolist(), random_state=seed).views
    inside = np.random.default_rng(seed).permutation(len(views)) < len(views) // 2
    return views, inside


def held(views: object, inside: Array, store: str, share: int, path: Path) -> Held:
    """Fit on those inside, save, and look at the file as the attacker does."""
    import viewloom as vl

    factored = int(inside.sum()) // share if store == "landmarks" else False
    model = vl.KernelMultiviewNMF(3, factored=factored, scale="standard", random_state=0).fit(views[inside])
    model.save(path, store=store)
    found = vl.load(path)
    fitted = found.fitted_model_
    scaled, kept = fitted.scaled(found.aligned(views)).scaled, fitted.samples.scaled
    stored = np.hstack([np.asarray(kept[a]) for a in sorted(kept)])
    return Held(found, views, stored, np.hstack([scaled[a] for a in sorted(scaled)]))


def by_distance(what: Held) -> Array:
    """Minus the distance to the nearest stored row."""
    return -NearestNeighbors(n_neighbors=1).fit(what.stored).kneighbors(what.rows)[0][:, 0]


def by_kernel(what: Held) -> Array:
    """The log density of stored rows."""
    near = NearestNeighbors(n_neighbors=2).fit(what.stored)
    width = float(np.median(near.kneighbors(what.stored)[0][:, 1]))
    squared = (what.rows**2).sum(1)[:, None] + (what.stored**2).sum(1) - 2.0 * what.rows @ what.stored.T
    return np.asarray(scipy.special.logsumexp(-squared / (2.0 * width**2), axis=1))


def by_confidence(what: Held) -> Array:
    """The largest membership."""
    return np.asarray(what.model.transform(what.candidates)).max(axis=1)


def by_loss(what: Held) -> Array:
    """The error of the reconstruction, of some candidates; training rows turn out to have the larger ones."""
    errors = np.full(len(what.rows), np.nan)
    for i in range(min(MOST_LOSSES, len(errors))):  # rows are in random order, inside and outside alike
        errors[i] = -what.model.score(what.candidates[[i]])
    return errors


def by_mixtures(what: Held) -> Array:
    """Whether a stored row is the mean of the candidate and two others."""
    proven = np.zeros(len(what.rows))
    near = NearestNeighbors(n_neighbors=NEAR).fit(what.rows).kneighbors(what.stored, return_distance=False)
    threes = np.array(list(combinations(range(NEAR), 3)))
    for row, around in zip(what.stored, near, strict=True):
        means = what.rows[around][threes].mean(axis=1)
        fitting = np.abs(means - row).max(axis=1) < EQUAL
        proven[around[threes[fitting]].ravel()] = 1.0
    return proven


ATTACKS: dict[str, Callable[[Held], Array]] = {
    "distance": by_distance,
    "kernel": by_kernel,
    "confidence": by_confidence,
    "loss": by_loss,
    "mixtures": by_mixtures,
}


def measured(n: int, cohorts: int, share: int) -> Iterator[Row]:
    """All attacks on models of n subjects."""
    for store in ("landmarks", "auto"):
        found: dict[str, list[float]] = {name: [] for name in ATTACKS}
        for seed in range(cohorts):
            views, inside = cohort(n, seed)
            with tempfile.TemporaryDirectory() as folder:
                what = held(views, inside, store, share, Path(folder, "m.safetensors"))
            for name, attack in ATTACKS.items():
                found[name].append(auc(inside, attack(what)))
        yield from (Row(store, n, name, *interval(np.array(values))) for name, values in found.items())


def auc(inside: Array, scores: Array) -> float:
    """How well the scores tell those inside from the others, where there is a score."""
    known = ~np.isnan(scores)
    return float(roc_auc_score(inside[known], scores[known]))


def interval(values: Array) -> tuple[float, float, float]:
    """Mean and 95 % interval of Student's t, over cohorts."""
    half = 0.0
    if len(values) > 1:
        half = float(scipy.stats.t.ppf(0.975, len(values) - 1) * values.std(ddof=1) / np.sqrt(len(values)))
    return float(values.mean()), float(values.mean()) - half, float(values.mean()) + half


def parse(argv: list[str] | None) -> argparse.Namespace:
    """Options of the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", default="100,300,900", help="numbers of training subjects")
    parser.add_argument("--share", type=int, default=4, help="training subjects per landmark")
    parser.add_argument("--cohorts", type=int, default=5, help="simulated cohorts of each size")
    parser.add_argument("--json", type=Path, help="write all numbers to this file")
    parser.add_argument("--attack", action="store_true", help="attack the published files of random studies")
    parser.add_argument("--studies", type=int, default=200, help="number of random studies")
    parser.add_argument(
        "--releases",
        action="store_true",
        help="with follow-up, replication, other methods, a second run",
    )
    parser.add_argument("--leaky", action="store_true", help="attack files without rounding and complements")
    parser.add_argument("--record", type=Path, help="file of finished studies, to continue")
    return parser.parse_args(argv)


def main(argv: list[str] | None = None) -> int:
    """Run the benchmark."""
    options = parse(argv)
    warnings.simplefilter("ignore")
    if options.attack:
        from attack import attack_all, summary

        found = attack_all(options.studies, options.leaky, options.record, options.releases)
        print("\n".join(summary(found)))
        if options.json:
            options.json.write_text(json.dumps(found))
        return 0
    rows: list[Row] = []
    for n in map(int, options.sizes.split(",")):
        for row in measured(n, options.cohorts, options.share):
            rows.append(row)
            print(
                f"{row.store:10} n = {row.n:<5} {row.attack:11} {row.auc:.3f} [{row.low:.3f}, {row.high:.3f}]"
            )
    if options.json:
        options.json.write_text(pd.DataFrame(map(asdict, rows)).to_json(orient="records", indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
