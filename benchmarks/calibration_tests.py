"""How often tests between clusters reject at 5 % when nothing differs.

    python benchmarks/calibration_tests.py [--runs 2000] [--tests split,thinning,...] [--model] [--out FILE]
        [--minutes M] [--json FILE]

Every run simulates data without clusters, clusters them, and tests a variable that does not differ. Tests
that viewloom offers should reject in 3.5 % to 6.5 % of runs. P-values of one run are correlated, so that
standard errors are those of the means of runs. A second table has tests that it does not offer,
with what goes wrong. Validity does not depend on how clusters are found, so most runs use k-means, which is
fast; `--model` uses KernelMultiviewNMF instead.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, ClusterMixin

import viewloom as vl
from viewloom.clinical.findings import chi_square_or_fisher, kruskal_wallis, mann_whitney
from viewloom.clinical.hazards import overall_hazards
from viewloom.clinical.held_out import compared_columns, split_once, used_variables, variable_left_out
from viewloom.clinical.regression import MODELS, covariate_columns
from viewloom.clinical.thinning import thinned
from viewloom.runtime.threads import one_thread

Array = np.ndarray
LEVEL, LEAST, MOST = 0.05, 0.035, 0.065
N, K, FEATURES, SPLITS = 90, 3, 4, 10
CUTS = [-1.5, 0.0, 1.5]  # between ordered categories
FAMILIES = ("Gaussian", "lognormal", "t3", "genotypes", "counts")
SLOW, SLOW_RUNS = ("ordinal", "near-copy"), 1000
MANY, MANY_RUNS = "split:", 8000  # p-values of tests whose p-values are the most correlated
BATCH = 8  # p-values of a run of tests of features: FEATURES of each of two views


class KMeansViews(ClusterMixin, BaseEstimator):
    """k-means of concatenated views; samples are placed by the views that they have."""

    def __init__(self, n_clusters: int = K, random_state: int = 0) -> None:
        self.n_clusters, self.random_state = n_clusters, random_state

    def fit(self, views: vl.Views, y: Any = None) -> KMeansViews:
        """Ten iterations from random samples."""
        X = np.hstack(views.blocks)
        self.mean_, self.scale_ = np.nanmean(X, axis=0), np.nanstd(X, axis=0)
        rng = np.random.default_rng(self.random_state)
        scaled = np.nan_to_num((X - self.mean_) / self.scale_)
        self.centres_ = scaled[rng.choice(len(X), self.n_clusters, replace=False)]
        for _ in range(10):
            self.labels_ = self.predict(views)
            for j in set(self.labels_.tolist()):
                self.centres_[j] = scaled[self.labels_ == j].mean(axis=0)
        return self

    def predict(self, views: vl.Views) -> Array:
        """The nearest centre in the features that are known."""
        X = (np.hstack(views.blocks) - self.mean_) / self.scale_
        known = np.isfinite(X).astype(float)
        distances = known @ (self.centres_.T**2) - 2.0 * np.nan_to_num(X) @ self.centres_.T
        return np.asarray(distances.argmin(axis=1))


def draw(family: str, rng: np.random.Generator, n: int = N, d: int = FEATURES) -> Array:
    """A view without clusters."""
    mixed = np.eye(d) + 0.5 * np.triu(np.ones((d, d)), 1)  # correlated columns
    normal = rng.standard_normal((n, d)) @ mixed
    return {
        "Gaussian": lambda: normal,
        "lognormal": lambda: np.exp(normal),
        "t3": lambda: rng.standard_t(3, (n, d)) @ mixed,
        "genotypes": lambda: rng.binomial(2, 0.3, (n, d)).astype(float),
        "counts": lambda: rng.poisson(4.0, (n, d)).astype(float),
    }[family]()


def two_views(family: str, rng: np.random.Generator, n: int = N, missing: float = 0.0) -> vl.Views:
    """Two independent views of a family; some subjects may lack one."""
    lost = rng.random(n)
    blocks = [draw(family, rng, n), draw(family, rng, n)]
    blocks[0][lost < missing / 2] = np.nan
    blocks[1][lost > 1.0 - missing / 2] = np.nan
    return vl.Views({"a": blocks[0], "b": blocks[1]})


def clustered(rng: np.random.Generator, n: int = N) -> Array:
    """Clusters of a Gaussian view."""
    return (
        KMeansViews(random_state=int(rng.integers(2**31)))
        .fit(vl.Views({"a": draw("Gaussian", rng, n)}))
        .labels_
    )


def between_clusters(
    test: Callable[[list[Array]], Any],
    draw_values: Callable[[np.random.Generator], Array],
    pair: bool = False,
) -> Callable[[np.random.Generator], Any]:
    """Variables that are independent of the views, between all clusters or between the first two."""

    def run(rng: np.random.Generator) -> Any:
        labels = clustered(rng)
        groups = np.unique(labels)[: 2 if pair else None]
        values = [draw_values(rng) for _ in range(BATCH)]
        return [test([one[labels == j] for j in groups]).p for one in values]

    return run


def logrank(rng: np.random.Generator) -> Any:
    """Times that are independent of the views, a third censored."""
    time, event = follow_up(rng)
    return [vl.clinical.conversion(clustered(rng), time, event).p]


def follow_up(rng: np.random.Generator, n: int = N) -> tuple[Array, Array]:
    """Times and events."""
    time, censored = rng.exponential(3.0, n), rng.exponential(6.0, n)
    return np.minimum(time, censored).round(2), (time <= censored).astype(int)


def confounded(rng: np.random.Generator) -> tuple[Array, pd.DataFrame]:
    """Clusters that depend on age, and age: variables that depend on age do not differ given age."""
    X = draw("Gaussian", rng)
    age = 70.0 + 5.0 * (X[:, 0] + rng.standard_normal(N)) / np.sqrt(2.0)
    labels = KMeansViews(random_state=0).fit(vl.Views({"a": X})).labels_
    return labels, pd.DataFrame({"age": age, "sex": rng.choice(list("FM"), N)})


def adjusted(
    kind: str, make: Callable[[Array, Array, np.random.Generator], Array]
) -> Callable[[np.random.Generator], Any]:
    """Test of all clusters, adjusted for age and sex, of a variable that depends on age alone."""

    def run(rng: np.random.Generator) -> Any:
        labels, people = confounded(rng)
        y = make((people["age"].to_numpy() - 70.0) / 5.0, labels, rng)
        Z, _ = covariate_columns(people, ["age", "sex"], [])
        indicators = (labels[:, None] == np.unique(labels)[1:]).astype(float)
        return [MODELS[kind].overall(y, indicators, Z).p]

    return run


def linear(
    make: Callable[[Array, Array, np.random.Generator], Array],
) -> Callable[[np.random.Generator], Any]:
    """A number that depends on age, plus noise."""
    return adjusted("linear", lambda age, labels, rng: age + make(age, labels, rng))


@cache
def cox(seed: int) -> tuple[float, float]:
    """Cox regression adjusted for age, of times that depend on age alone: test and check."""
    rng = np.random.default_rng(seed)
    labels, people = confounded(rng)
    time, event = follow_up(rng)
    time = time * np.exp(-(people["age"].to_numpy() - 70.0) / 10.0)
    Z, _ = covariate_columns(people, ["age"], [])
    _, _, p, check = overall_hazards(time, event == 1, labels, Z)
    return p, check


def left_out(family: str, n: int = N, missing: float = 0.0) -> Callable[[np.random.Generator], Any]:
    """Features of a view between clusters of the other one."""

    def run(rng: np.random.Generator) -> Any:
        views = two_views(family, rng, n, missing)
        model = estimator().fit(views)
        return vl.clinical.view_left_out(model, views, "a").p

    return run


def split(family: str, n: int = N, missing: float = 0.0) -> Callable[[np.random.Generator], Any]:
    """Features in subjects who are placed without their view, over ten splits."""

    def run(rng: np.random.Generator) -> Any:
        views, seed = two_views(family, rng, n, missing), int(rng.integers(2**31))
        return vl.clinical.split_tests(estimator(), views, splits=SPLITS, random_state=seed)["p"]

    return run


def copied(rng: np.random.Generator, splits: bool = False) -> Any:
    """A clinical variable that is nearly a feature, between clusters without the feature's view."""
    views = two_views("Gaussian", rng)
    people = pd.DataFrame({"z": views["a"][:, 0] + 0.1 * rng.standard_normal(N)})
    if splits:
        found = vl.clinical.split_tests(
            estimator(), views, people, splits=SPLITS, random_state=int(rng.integers(2**31))
        )
        return found.loc[found["view"] == "", "p"]
    ((variable, left),) = used_variables(people, views).values()
    return [variable_left_out(estimator(), views, variable, left)]


def thinning(noise: str, reference: int = 0) -> Callable[[np.random.Generator], Any]:
    """Second parts of thinned features between clusters of the first parts."""

    def run(rng: np.random.Generator) -> Any:
        views = two_views("counts" if noise == "poisson" else "Gaussian", rng)
        root = np.eye(FEATURES) + 0.5 * np.triu(np.ones((FEATURES, FEATURES)), 1)
        covariance = np.kron(np.eye(2), root.T @ root)
        if reference:
            others = np.hstack([draw("Gaussian", rng, reference), draw("Gaussian", rng, reference)])
            covariance = np.cov(others.T)
        given = None if noise == "poisson" else covariance
        seed = int(rng.integers(2**31))
        return vl.clinical.thinning_tests(estimator(), views, noise, covariance=given, random_state=seed)["p"]

    return run


def own_clusters(rng: np.random.Generator) -> Any:
    """The features that were clustered."""
    views = two_views("Gaussian", rng)
    return compared_columns(estimator().fit(views).labels_, np.asarray(views))[0]


def placed_by_all(rng: np.random.Generator) -> Any:
    """The second half, placed by all views, among them the one that is tested."""
    views = two_views("Gaussian", rng)
    half = np.arange(N) < N // 2
    labels = estimator().fit(views[half]).predict(views[~half])
    return compared_columns(labels, np.asarray(views)[~half])[0]


def sample_covariance(rng: np.random.Generator) -> Any:
    """Thinning with the covariance of the same sample."""
    views = two_views("Gaussian", rng)
    X = np.asarray(views)
    first, second = thinned(X, "gaussian", covariance=np.cov(X.T), random_state=rng)
    return compared_columns(estimator().fit(vl.Views({"a": first})).labels_, second)[0]


def varying_rates(rng: np.random.Generator) -> Any:
    """Poisson thinning of counts whose rate varies between subjects, without clusters."""
    counts = rng.poisson(rng.gamma(8.0, 0.5, N)[:, None], (N, BATCH)).astype(float)
    first, second = thinned(counts, "poisson", random_state=rng)
    return compared_columns(estimator().fit(vl.Views({"a": first})).labels_, second)[0]


def twice_median(rng: np.random.Generator) -> Any:
    """Splits as offered, combined by twice the median of their p-values."""
    views, seed = two_views("Gaussian", rng), int(rng.integers(2**31))
    records = [split_once(estimator(), views, seed + i)["views"] for i in range(SPLITS)]
    return 2.0 * np.median([record["a"] + record["b"] for record in records], axis=0)


def unadjusted(rng: np.random.Generator) -> Any:
    """A variable that depends on age, between clusters that depend on age, without adjustment."""
    labels, people = confounded(rng)
    y = (people["age"] - 70.0) / 5.0 + rng.standard_normal(N)
    return vl.clinical.associations(labels, pd.DataFrame({"y": y}))["p"]


OFFERED: dict[str, tuple[Callable[[np.random.Generator], Any], int]] = {
    "Kruskal-Wallis, variable that was not clustered": (
        between_clusters(kruskal_wallis, lambda rng: rng.exponential(size=N)), BATCH,
    ),
    "chi-square, variable that was not clustered": (
        between_clusters(chi_square_or_fisher, lambda rng: rng.choice(list("ABC"), N)), BATCH,
    ),
    "Mann-Whitney, pair of clusters": (
        between_clusters(mann_whitney, lambda rng: rng.exponential(size=N), pair=True), BATCH,
    ),
    "adjusted: linear": (linear(lambda age, labels, rng: rng.standard_normal(N)), 1),
    "adjusted: linear, unequal variances": (
        linear(lambda age, labels, rng: (1.0 + labels) * rng.standard_normal(N)), 1,
    ),
    "adjusted: linear, skewed": (linear(lambda age, labels, rng: rng.exponential(size=N)), 1),
    "adjusted: logistic": (
        adjusted("logistic", lambda age, labels, rng: (age + rng.logistic(size=N) > 0).astype(int)), 1,
    ),
    **{f"view left out: {name}": (left_out(name), FEATURES) for name in FAMILIES},
    "view left out: Gaussian, n = 60, 30 % lack a view": (left_out("Gaussian", 60, 0.3), FEATURES),
    **{f"split: {name}": (split(name), BATCH) for name in ("Gaussian", "lognormal", "genotypes")},
    "split: Gaussian, n = 150, 30 % lack a view": (split("Gaussian", 150, 0.3), BATCH),
    "near-copy of a feature, view left out": (copied, 1),
    "near-copy of a feature, split": (lambda rng: copied(rng, splits=True), 1),
    "thinning: Gaussian, known covariance": (thinning("gaussian"), BATCH),
    "thinning: Gaussian, covariance of 300 others": (thinning("gaussian", 300), BATCH),
    "thinning: Poisson": (thinning("poisson"), BATCH),
    "log-rank": (logrank, 1),
    "adjusted: ordinal": (
        adjusted("ordinal", lambda age, labels, rng: np.digitize(age + rng.logistic(size=N), CUTS)), 1,
    ),
    "adjusted: Cox": (lambda rng: [cox(int(rng.integers(2**31)))[0]], 1),
    "check of proportional hazards": (lambda rng: [cox(int(rng.integers(2**31)))[1]], 1),
}  # fmt: skip
NOT_OFFERED: dict[str, tuple[Callable[[np.random.Generator], Any], int]] = {
    "features between their own clusters": (own_clusters, BATCH),
    "second half placed by all views": (placed_by_all, BATCH),
    "thinning with the covariance of the same sample": (sample_covariance, BATCH),
    "Poisson thinning, rates vary between subjects": (varying_rates, BATCH),
    "splits combined by twice the median": (twice_median, BATCH),
    "unadjusted, clusters and variable follow age": (unadjusted, 1),
}
MODEL = False


def estimator() -> Any:
    """The clustering of a run."""
    if MODEL:
        return vl.KernelMultiviewNMF(K, kernel="linear", random_state=0, max_iter=30)
    return KMeansViews()


@dataclass
class Store:
    """P-values of the runs of one test, in a file of all tests to which new ones are added.

    Runs that the file has are not made again, and none after `end` (in the time of `time.monotonic`).
    """

    path: Path | None
    name: str
    known: dict[int, list[float]]
    end: float = np.inf

    @classmethod
    def nowhere(cls) -> Store:
        """Nothing is kept."""
        return cls(None, "", {})

    @classmethod
    def of(cls, path: Path | None, name: str, end: float) -> Store:
        """Read the runs of a test; a line that was cut off is left out."""
        known = {}
        for line in path.read_text(encoding="utf-8").splitlines() if path and path.exists() else ():
            with suppress(ValueError):
                record = json.loads(line)
                if record["test"] == name:
                    known[record["run"]] = record["p"]
        return cls(path, name, known, end)

    def get(self, run: int, make: Callable[[], Any]) -> Array:
        """The p-values of a run, none if there is no time left."""
        if run not in self.known and time.monotonic() < self.end:
            self.known[run] = [float(p) for p in np.asarray(make(), dtype=float)]
            if self.path is not None:
                with self.path.open("a", encoding="utf-8") as file:
                    file.write(json.dumps({"test": self.name, "run": run, "p": self.known[run]}) + "\n")
        return np.array(self.known.get(run, []), dtype=float)


def rate(
    test: Callable[[np.random.Generator], Any],
    each: int,
    runs: int,
    first: int = 0,
    store: Store | None = None,
) -> tuple[float, int, float]:
    """Share of p-values below 5 %, their number, and the standard error of the share over runs."""
    keep = Store.nowhere() if store is None else store
    with warnings.catch_warnings(), one_thread():
        warnings.simplefilter("ignore")
        found = [
            keep.get(i, lambda i=i: test(np.random.default_rng([first, i]))) for i in range(-(-runs // each))
        ]
    p = np.concatenate([np.zeros(0), *found])
    shares = [float((one[np.isfinite(one)] < LEVEL).mean()) for one in found if np.isfinite(one).any()]
    p = p[np.isfinite(p)]
    if not len(p):
        return float("nan"), 0, float("nan")
    return float((p < LEVEL).mean()), len(p), float(np.std(shares) / np.sqrt(max(len(shares), 1)))


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=2000, help="p-values of each test")
    parser.add_argument("--tests", default="", help="names, or parts of names, separated by commas")
    parser.add_argument("--model", action="store_true", help="KernelMultiviewNMF instead of k-means")
    parser.add_argument("--out", type=Path, help="file of runs, to which new ones are added")
    parser.add_argument("--minutes", type=float, default=np.inf, help="begin no run after this time")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    end = time.monotonic() + 60.0 * given.minutes
    global MODEL
    MODEL = given.model
    wanted = [part for part in given.tests.split(",") if part]
    results = {}
    for title, tests in (("offered", OFFERED), ("not offered", NOT_OFFERED)):
        print(f"\n| {title} | p-values | rejected at 5 % | standard error | within 3.5 to 6.5 % |")
        print("|---|---|---|---|---|")
        for name, (test, each) in tests.items():
            if wanted and not any(part in name for part in wanted):
                continue
            runs = min(given.runs, SLOW_RUNS) if any(part in name for part in SLOW) else given.runs
            runs = max(runs, MANY_RUNS) if name.startswith(MANY) and runs >= 2000 else runs
            store = Store.of(given.out, f"{name}, our model" if MODEL else name, end)
            share, count, error = rate(test, each, runs, store=store)
            results[name] = {"rate": share, "tests": count, "error": error}
            within = "yes" if LEAST <= share <= MOST else "no"
            print(f"| {name} | {count} | {share:.1%} | {error:.1%} | {within} |", flush=True)
    if given.json:
        given.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
