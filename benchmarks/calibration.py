"""How often clusters are found where there are none, and where there are some.

    python benchmarks/calibration.py [--runs 500] [--families "Gaussian;uniform;..."] [--rules fit,choose_k]
        [--first-seed 1000] [--minutes M] [--out FILE] [--merge FILE ...] [--json FILE] [--quick]
    python benchmarks/calibration.py --real [DIR] [--most 2500]

Each run of a family without clusters simulates 50 to 500 samples in 1 to 4 views of 3 to 40 features, and
asks both rules: `cluster_evidence` at 2 to 5 clusters, as after every fit of a study (fit), and `choose_k` at
its defaults (choose_k). Neither should find clusters in more than 5 % of the runs of any family. Three
families of one cloud that is curved or becomes wider, which twins cannot imitate, are counted, too; no bound
is claimed for them. Planted clusters at several separations give the power. Fits and twins that cannot change
the outcome are left out. Runs are added to the file of --out, which an interrupted command goes on with;
files of several commands (with seeds of their own: --first-seed) are counted together by --merge. Seeds below
1000 served to set the rules.

--real
    Instead: the verdict on every set of `benchmarks/sets.py` with at most so many samples, at its number of
    classes, with the numbers behind it, and the NMI of the clusters with the classes.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import beta, norm
from sets import default_folder, find_sets
from sklearn.base import clone
from sklearn.metrics import normalized_mutual_info_score

import viewloom as vl
from viewloom.evaluation.selection.evidence import (
    CLUSTERS,
    CUTS,
    LEAST_GAP,
    LEAST_STABILITY,
    SHARE,
    TWINS,
    UNSTABLE,
    evidence_units,
    judge,
    judged_estimator,
    labels_of,
    least_z,
    loss_of,
    subsamples,
    weighed,
)
from viewloom.evaluation.selection.evidence import LEVEL as EVIDENCE_LEVEL
from viewloom.evaluation.selection.number import FIRST_TWINS, judge_twin, recommend, still_open, tabulate
from viewloom.evaluation.selection.number import LEVEL as NUMBER_LEVEL
from viewloom.evaluation.selection.search import base_model
from viewloom.evaluation.selection.stability import pairwise_ari
from viewloom.evaluation.twins import Twins
from viewloom.runtime.threads import one_thread

Array = np.ndarray
Record = dict[str, Any]
MOST_WRONG = 0.05
SEPARATIONS = (1.0, 2.0, 2.5, 3.0, 4.0, 6.0)  # between centres, in standard deviations within clusters
POWER_SAMPLES, POWER_VIEWS, POWER_FEATURES, POWER_CLUSTERS = 150, 2, 10, 3
NUMBERS, SUBSAMPLES, NUMBER_TWINS = range(2, 9), 10, 20  # defaults of `choose_k`
ALL = "all families"
LD_BLOCK = 5  # neighbouring variants that are correlated


def correlated(rng: np.random.Generator, n: int, d: int) -> Array:
    """Gaussian columns with three common factors, which views share."""
    L = rng.standard_normal((d, 3))
    L *= rng.uniform(0.4, 0.9) / np.linalg.norm(L, axis=1, keepdims=True)
    rest = np.sqrt(1.0 - (L**2).sum(axis=1))
    return rng.standard_normal((n, 3)) @ L.T + rest * rng.standard_normal((n, d))


def one_factor(rng: np.random.Generator, n: int, d: int) -> Array:
    """Gaussian columns with one common factor: a long cloud."""
    loading = rng.uniform(0.4, 0.9, d)
    return rng.standard_normal((n, 1)) * loading + np.sqrt(1.0 - loading**2) * rng.standard_normal((n, d))


def joint_t3(rng: np.random.Generator, n: int, d: int) -> Array:
    """A multivariate t distribution: samples are extreme in all columns together."""
    return correlated(rng, n, d) / np.sqrt(rng.chisquare(3, (n, 1)) / 3.0)


def genotypes(rng: np.random.Generator, n: int, d: int) -> Array:
    """Numbers of minor alleles, in blocks of linkage disequilibrium."""
    blocks = -(-d // LD_BLOCK)
    threshold = norm.ppf(np.repeat(rng.uniform(0.05, 0.5, blocks), LD_BLOCK)[:d])
    r = rng.uniform(0.3, 0.9)
    counts = np.zeros((n, d))
    for _ in range(2):  # chromosomes
        shared = np.repeat(rng.standard_normal((n, blocks)), LD_BLOCK, axis=1)[:, :d]
        counts += np.sqrt(r) * shared + np.sqrt(1.0 - r) * rng.standard_normal((n, d)) < threshold
    return counts


def poisson(rng: np.random.Generator, n: int, d: int) -> Array:
    """Counts."""
    return rng.poisson(rng.uniform(0.5, 5.0, d), (n, d)).astype(float)


def sigmoid_courses(rng: np.random.Generator, n: int, d: int) -> Array:
    """Columns that change at some point of one continuum, as markers do in the course of a disease."""
    stage, onset, speed = rng.uniform(-1.0, 1.0, (n, 1)), rng.uniform(-0.8, 0.8, d), rng.uniform(3.0, 8.0, d)
    return 1.0 / (1.0 + np.exp(-speed * (stage - onset))) + 0.15 * rng.standard_normal((n, d))


def curved(rng: np.random.Generator, n: int, d: int) -> Array:
    """One cloud along a parabola."""
    stage = rng.standard_normal((n, 1))
    return np.hstack([stage, stage**2]) @ rng.standard_normal((2, d)) + 0.5 * rng.standard_normal((n, d))


def funnel(rng: np.random.Generator, n: int, d: int) -> Array:
    """One cloud that becomes wider along an axis."""
    stage = rng.standard_normal((n, 1))
    return stage + np.exp(0.7 * stage) * rng.standard_normal((n, d))


FAMILIES: dict[str, Callable[[np.random.Generator, int, int], Array]] = {
    "Gaussian": correlated,
    "one factor": one_factor,
    "t3, independent": lambda rng, n, d: rng.standard_t(3, (n, d)),
    "t3, joint": joint_t3,
    "lognormal, independent": lambda rng, n, d: rng.lognormal(size=(n, d)),
    "lognormal, correlated": lambda rng, n, d: np.exp(correlated(rng, n, d)),
    "exponential, independent": lambda rng, n, d: rng.exponential(size=(n, d)),
    "exponential, correlated": lambda rng, n, d: -norm.logsf(correlated(rng, n, d)),
    "uniform": lambda rng, n, d: rng.uniform(size=(n, d)),
    "SNP genotypes": genotypes,
    "Poisson": poisson,
}
BOUNDED = list(FAMILIES)
FAMILIES |= {"sigmoid courses": sigmoid_courses, "curved": curved, "funnel": funnel}  # not elliptical


def without_clusters(family: str, seed: int, most: int) -> tuple[vl.Views, int]:
    """Views of a family, and a number of clusters to ask for."""
    rng = np.random.default_rng(seed)
    n = int(np.exp(rng.uniform(np.log(50), np.log(most))))
    sizes = rng.integers(3, 41, rng.integers(1, 5))
    X = FAMILIES[family](rng, n, int(sizes.sum()))
    parts = np.split(X, np.cumsum(sizes)[:-1], axis=1)
    return vl.Views(parts), int(rng.integers(2, 6))


def planted(separation: float, seed: int) -> tuple[vl.Views, int]:
    """Clusters whose centres are equally far from each other, in every view."""
    rng = np.random.default_rng(seed)
    y = rng.integers(POWER_CLUSTERS, size=POWER_SAMPLES)
    blocks = []
    for _ in range(POWER_VIEWS):
        axes = np.linalg.qr(rng.standard_normal((POWER_FEATURES, POWER_CLUSTERS)))[0].T
        noise = rng.standard_normal((POWER_SAMPLES, POWER_FEATURES))
        blocks.append(axes[y] * separation / np.sqrt(2.0) + noise)
    return vl.Views(blocks), POWER_CLUSTERS


def by_fit(views: vl.Views, k: int, seed: int) -> Record:
    """The verdict after a fit, that of `cluster_evidence`."""
    units = evidence_units(vl.KernelMultiviewNMF(k, random_state=seed), views, TWINS, seed)
    estimator, views, count, start = units.pop("data")
    data = of_data(estimator, views, subsamples(len(views), count, SHARE, np.random.default_rng(start)))
    if data is None:
        return {"found": False, "verdict": UNSTABLE}
    about = {"stable": float(np.mean(data["stability"])), "loss": float(np.mean(data["loss"]))}
    twins: list[Record] = []
    for unit in units.values():
        twins.append(judge(*unit))
        losses = [twin["loss"] for twin in twins if twin]
        if len(losses) == len(twins) and out_of_reach(about["loss"], losses, TWINS, EVIDENCE_LEVEL):
            return {"found": False, "verdict": CUTS, **about, "twins": len(twins)}
    found = weighed([{"stability": about["stable"], "loss": about["loss"], "separation": np.nan}, *twins])
    about["gap"] = found.gap
    return {"found": found.verdict == CLUSTERS, "verdict": found.verdict, **about, "twins": len(twins)}


def by_number(views: vl.Views, k: int, seed: int) -> Record:
    """The number that `choose_k` recommends, if any."""
    model = judged_estimator(base_model(None, None, seed), seed)
    parts = subsamples(len(views), SUBSAMPLES, SHARE, np.random.default_rng(seed))
    judged = {c: of_data(clone(model).set_params(n_clusters=c), views, parts) for c in NUMBERS}
    data = {c: record for c, record in judged.items() if record is not None}
    left, records, twins = list(data), [], Twins(views)
    while left and len(records) < NUMBER_TWINS:
        records.append(judge_twin(model, twins, left, SHARE, (seed, len(records))))
        if len(records) == FIRST_TWINS:
            left = still_open(tabulate(left, [data[c] for c in left], records))
        losses = {c: [twin["loss"][twin["k"].index(c)] for twin in records] for c in left}
        means = {c: float(np.mean(data[c]["loss"])) for c in left}
        left = [c for c in left if not out_of_reach(means[c], losses[c], NUMBER_TWINS, NUMBER_LEVEL)]
    found = recommend(tabulate(left, [data[c] for c in left], records)) if left else None
    return {"found": found is not None, "recommended": found, "planted": k, "twins": len(records)}


def of_data(model: vl.KernelMultiviewNMF, views: vl.Views, parts: list[Array]) -> Record | None:
    """Stability and loss on subsamples; None as soon as they cannot agree well enough any more.

    Other measures of the table of `choose_k` decide nothing and are left out.
    """
    models: list[vl.KernelMultiviewNMF] = []
    agreement: list[float] = []
    pairs = len(parts) * (len(parts) - 1) // 2
    for i, rows in enumerate(parts):
        models.append(clone(model).fit(views[rows]))
        labels = labels_of(models, parts[: i + 1], len(views))
        agreement += [float(pairwise_ari(labels[[j, i]])[0]) for j in range(i)]
        if sum(agreement) + pairs - len(agreement) < LEAST_STABILITY * pairs:  # if all others were 1
            return None
    unused = {"pac": np.nan, "held_out": [np.nan], "prediction_strength": [np.nan]}
    return {"stability": agreement, "loss": [loss_of(fitted) for fitted in models], **unused}


def out_of_reach(loss: float, twins: list[float], n: int, level: float) -> bool:
    """Whether the data cannot be clearly tighter than n twins, whatever those are that are not made yet.

    Let x be how far the losses of twins are above that of the data, S and Q the sums of the known x and x^2,
    and r the number of unknown ones. ``A = (sum x)^2 / sum x^2`` gives
    ``z^2 = A (n - 1) / (n (n - A))``, which must exceed that of `least_z`: A must exceed A_0. For any sum, A
    is largest where the unknown x are equal, so that the largest mean of x is at the larger root c of
    ``(S + r c)^2 = A_0 (Q + r c^2)``. It must exceed what `LEAST_GAP` asks for.

    >>> out_of_reach(0.1, [0.3, 0.05], 10, 0.01), out_of_reach(0.1, [0.3, 0.28], 10, 0.01)
    (True, False)
    >>> out_of_reach(0.1, [0.15, 0.151], 10, 0.01)  # clearly above, but not by enough
    True
    """
    x = np.array(twins) - loss
    S, Q, r = float(x.sum()), float((x**2).sum()), n - len(x)
    least = least_z(n, level) ** 2
    A = n**2 * least / (n - 1 + n * least)
    if r >= A:
        return False
    if r == 0:
        return n * LEAST_GAP >= S or S**2 <= A * Q
    root = r * A * (S**2 + r * Q - A * Q)
    return root < 0.0 or S + (S * r + np.sqrt(root)) / (A - r) <= n * LEAST_GAP


RULES = {"fit": by_fit, "choose_k": by_number}


def units(args: argparse.Namespace) -> Iterator[tuple[str, str, int]]:
    """Rule, family or separation, and seed of every run, so that an early end leaves like numbers of each."""
    for seed in range(args.first_seed, args.first_seed + args.runs):
        for rule in args.rules:
            yield from ((rule, family, seed) for family in args.families)
            yield from ((rule, f"separation {separation:g}", seed) for separation in args.separations)


def carried_out(rule: str, case: str, seed: int, most: int) -> Record:
    """One run."""
    if case.startswith("separation "):
        views, k = planted(float(case.split()[1]), seed)
    else:
        views, k = without_clusters(case, seed, most)
    began = time.process_time()
    with warnings.catch_warnings(), one_thread():
        warnings.simplefilter("ignore")
        found = RULES[rule](views, k, seed)
    about = {"rule": rule, "case": case, "seed": seed, "n": len(views), "views": views.n_views, "k": k}
    return {**about, **found, "seconds": time.process_time() - began}


def read(path: Path) -> list[Record]:
    """Runs made earlier; a line that was cut off is left out."""
    records = []
    for line in path.read_text(encoding="utf-8").splitlines():
        with suppress(ValueError):
            records.append(json.loads(line))
    return records


def continued(path: Path | None) -> list[Record]:
    """Runs of a file to which more will be added, which is left without a line that was cut off."""
    if path is None or not path.exists():
        return []
    records = read(path)
    path.write_text("".join(f"{json.dumps(record)}\n" for record in records), encoding="utf-8")
    return records


def merged(records: list[Record], others: list[Path]) -> list[Record]:
    """With the runs of other files; a run that several files have counts once."""
    together = [*records, *(record for path in others for record in read(path))]
    return list({(record["rule"], record["case"], record["seed"]): record for record in together}.values())


def exact_interval(found: int, runs: int) -> tuple[float, float]:
    """The exact 95 % interval of a share (Clopper and Pearson).

    >>> [round(bound, 3) for bound in exact_interval(0, 50)]
    [0.0, 0.071]
    """
    low = beta.ppf(0.025, found, runs - found + 1) if found else 0.0
    high = beta.ppf(0.975, found + 1, runs - found) if found < runs else 1.0
    return float(low), float(high)


def rates(records: list[Record]) -> list[Record]:
    """Share of runs that found clusters, by rule and case, and over all families."""
    rows = []
    for rule in RULES:
        of_rule = [record for record in records if record["rule"] == rule]
        cases = {case: [case] for case in dict.fromkeys(record["case"] for record in of_rule)}
        together = {ALL: [case for case in cases if case in BOUNDED]}
        for name, parts in {**cases, **together}.items():
            runs = [record for record in of_rule if record["case"] in parts]
            rows += [_rate(rule, name, runs)] if runs else []
    return rows


def _rate(rule: str, case: str, runs: list[Record]) -> Record:
    found = sum(record["found"] for record in runs)
    low, high = exact_interval(found, len(runs))
    row = {"rule": rule, "case": case, "runs": len(runs), "found": found, "share": found / len(runs)}
    return {**row, "low": low, "high": high, "right": _right(runs)}


def _right(runs: list[Record]) -> int | None:
    """Runs in which the planted number is recommended."""
    if "recommended" not in runs[0]:
        return None
    return sum(record["recommended"] == record["planted"] for record in runs)


def printed(rows: list[Record]) -> None:
    """Both tables."""
    for title, planted_ones in (("Clusters found where there are none", False), ("Power", True)):
        print(f"\n{title}\n{'rule':<10}{'case':<26}{'runs':>6}{'found':>7}{'share':>8}  exact 95 % interval")
        for row in rows:
            if row["case"].startswith("separation") is planted_ones:
                right = f"  right number {row['right']}" if planted_ones and row["right"] is not None else ""
                interval = f"{row['low']:.1%} to {row['high']:.1%}"
                counts = f"{row['runs']:>6}{row['found']:>7}{row['share']:>8.1%}"
                print(f"{row['rule']:<10}{row['case']:<26}{counts}  {interval}{right}")


def real(folder: Path, most: int) -> None:
    """Print the verdict on every set; classes give the number of clusters and the NMI."""
    columns = ("stability", "of twins", "loss", "of twins")
    print(f"{'set':<28}{'n':>6}{'k':>4}{''.join(f'{c:>12}' for c in columns)}    gap      z    NMI  verdict")
    for found in find_sets(folder, ["sets", "cohorts"])[0]:
        if found.is_kernel or found.n_samples > most:
            continue
        views, y = vl.Views(found.source.views()), found.source.truth().y
        model = vl.KernelMultiviewNMF(found.n_clusters, random_state=0)
        with warnings.catch_warnings(), one_thread():
            warnings.simplefilter("ignore")
            evidence = vl.selection.cluster_evidence(model, views)
            labels = model.fit(views).labels_
        nmi = normalized_mutual_info_score(y[y >= 0], labels[y >= 0]) if (y >= 0).any() else np.nan
        rows = evidence.table.loc[["stability", "loss"], ["data", "twins"]].to_numpy().ravel()
        numbers = "".join(f"{value:>12.2f}" for value in rows)
        z = evidence.table.loc["loss", "z"]
        print(
            f"{found.name:<28}{found.n_samples:>6}{found.n_clusters:>4}{numbers}{evidence.gap:>7.2f}{z:>7.1f}"
            f"{nmi:>7.2f}  {evidence.words}",
            flush=True,
        )


def parse(argv: list[str] | None) -> argparse.Namespace:
    """Options of the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=500, help="of each family and separation")
    parser.add_argument("--families", default=";".join(FAMILIES), help="separated by semicolons")
    parser.add_argument("--rules", default=",".join(RULES))
    parser.add_argument("--separations", default=",".join(f"{s:g}" for s in SEPARATIONS))
    parser.add_argument("--first-seed", type=int, default=1000)
    parser.add_argument("--most", type=int, default=None, help="largest number of samples")
    parser.add_argument("--real", type=Path, nargs="?", const=default_folder(), help="verdicts on real sets")
    parser.add_argument("--minutes", type=float, default=np.inf, help="begin no run after this time")
    parser.add_argument("--out", type=Path, help="file of runs, to which new ones are added")
    parser.add_argument("--merge", type=Path, nargs="+", default=[], help="files of other runs to count, too")
    parser.add_argument("--json", type=Path, help="write both tables to this file")
    parser.add_argument("--quick", action="store_true", help="one run of two families and one separation")
    args = parser.parse_args(argv)
    if args.quick:
        args.runs, args.families, args.separations, args.most = 1, "Gaussian;SNP genotypes", "6", 60
    args.most = args.most or (2500 if args.real else 500)
    args.families = [name.strip() for name in args.families.split(";") if name.strip()]
    args.separations = [float(value) for value in args.separations.split(",") if value]
    args.rules = args.rules.split(",")
    for name in [*args.families, *args.rules]:
        if name not in {**FAMILIES, **RULES}:
            parser.error(f"no family or rule {name}; families: {'; '.join(FAMILIES)}; rules: fit, choose_k")
    return args


def main(argv: list[str] | None = None) -> int:
    """Make the runs that are missing, and print both tables."""
    args = parse(argv)
    if args.real:
        real(args.real, args.most)
        return 0
    records = merged(continued(args.out), args.merge)
    done = {(record["rule"], record["case"], record["seed"]) for record in records}
    end = time.monotonic() + 60.0 * args.minutes
    for unit in units(args):
        if unit not in done and time.monotonic() < end:
            records.append(carried_out(*unit, args.most))
            if args.out:
                with args.out.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(records[-1]) + "\n")
    rows = rates(records)
    printed(rows)
    if args.json:
        args.json.write_text(json.dumps(rows, indent=1), encoding="utf-8")
    return int(any(row["low"] > MOST_WRONG for row in rows if row["case"] in BOUNDED))


if __name__ == "__main__":
    raise SystemExit(main())
