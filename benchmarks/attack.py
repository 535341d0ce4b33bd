"""Random studies whose published files are attacked: see `attacker`, `attacker_features`, ``privacy.py``."""

from __future__ import annotations

import json
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import attacker_releases as releases
import numpy as np
import pandas as pd
from attacker import Attack
from attacker_features import attack

STUDY = """\
[study]
name = "Random study"
[participants]
path = "people.csv"
id = "id"
diagnosis = "diagnosis"
covariates = ["age", "sex"]
outcomes = ["mmse", "apoe", "cdr"]
site = "site"
survival = { time = "years", event = "event" }
[views.one]
path = "one.csv"
id = "id"
[views.two]
path = "two.csv"
id = "id"
[views.three]
path = "three.csv"
id = "id"
[report]
twins = 0
[model]
kernel = "linear"
"""
# without covariates, effects and their intervals are functions of counts and means
UNADJUSTED = {
    'covariates = ["age", "sex"]': "covariates = []",
    '["mmse", "apoe", "cdr"]': '["mmse", "apoe", "cdr", "age", "sex"]',
}
VIEWS = {"one": 5, "two": 4, "three": 3}  # numbers of features
DRAWN = ("survival",)
METHODS = ["ours, linear", "ours, diffusion", "k-means"]
CONTINUUM = "continuum"
REFITS = 2  # of the stability, which is not attacked


def write_study(folder: Path, seed: int) -> Path:
    """A random study of 60 to 240 subjects with two to four clusters, often with a small one."""
    rng = np.random.default_rng(seed)
    n, k = int(rng.integers(60, 241)), int(rng.integers(2, 5))
    y = subjects(rng, n, k)
    for name, d in VIEWS.items():
        centres = 5.0 * rng.standard_normal((k, d))
        frame = pd.DataFrame(centres[y] + rng.standard_normal((len(y), d))).add_prefix(f"{name}_")
        frame = frame.join(variants(rng, y, k)) if name == "one" else frame
        kept = rng.random(len(y)) < (1.0 if name == "one" else rng.choice([1.0, 0.95, 0.85]))
        frame.assign(id=ids(y))[kept].to_csv(folder / f"{name}.csv", index=False)
    people(rng, y, k).assign(id=ids(y)).to_csv(folder / "people.csv", index=False)
    path, text = folder / "study.toml", STUDY if seed % 4 < 2 else STUDY.replace('kernel = "linear"\n', "")
    for given, other in UNADJUSTED.items() if seed % 2 else ():
        text = text.replace(given, other)
    path.write_text(f"{text}n_clusters = {k}\n", encoding="utf-8")
    return path


def subjects(rng: np.random.Generator, n: int, k: int) -> np.ndarray:
    """The true cluster of about n subjects; the last cluster is often small."""
    sizes = 12 + rng.multinomial(n - 12 * k, rng.dirichlet(np.full(k, 2.0)))
    if rng.random() < 0.5:
        sizes[-1] = rng.integers(3, 11)
    return rng.permutation(np.repeat(np.arange(k), sizes))


def variants(rng: np.random.Generator, y: np.ndarray, k: int) -> pd.DataFrame:
    """Features with two and with three values, often rare, whose means tell counts."""
    rates = rng.beta(1.0, 3.0, (2, k))[:, y]
    return pd.DataFrame({"one_carrier": rng.binomial(1, rates[0]), "one_variant": rng.binomial(2, rates[1])})


def ids(y: np.ndarray) -> list[str]:
    """Names of subjects."""
    return [f"s{i:04}" for i in range(len(y))]


def write_cohorts(folder: Path, seed: int) -> tuple[Path, Path, int]:
    """Two random cohorts of one population, the first with a later visit, and the size of the second."""
    rng = np.random.default_rng(seed)
    k = int(rng.integers(2, 5))
    centres = {name: 5.0 * rng.standard_normal((k, d)) for name, d in VIEWS.items()}
    paths = []
    for cohort in ("first", "second"):
        y = subjects(rng, int(rng.integers(60, 201)), k)
        place = folder / cohort
        place.mkdir()
        frames = {name: [_visit(rng, centre[y], y, "bl")] for name, centre in centres.items()}
        facts = people(rng, y, k).assign(id=ids(y), visit="bl")
        tables = [facts]
        if cohort == "first":
            seen, moved = rng.random(len(y)) < 0.8, rng.random(len(y)) < rng.uniform(0.05, 0.3)
            later = np.where(moved, rng.integers(k, size=len(y)), y)
            for name, centre in centres.items():
                frames[name].append(_visit(rng, centre[later], y, "m12")[seen])
            change = rng.normal(-0.5 * y, 1.5).round(0)
            tables.append(facts.assign(visit="m12", mmse=facts["mmse"] + change)[seen])
        for name, parts in frames.items():
            pd.concat(parts).to_csv(place / f"{name}.csv", index=False)
        pd.concat(tables).to_csv(place / "people.csv", index=False)
        visits = STUDY.replace('id = "id"\n', 'id = "id"\nvisit = "bl"\nvisit_column = "visit"\n')
        later_visits = '[followup]\nvisits = ["m12"]\n' * (cohort == "first")
        text = visits.replace("[model]", f"{later_visits}[model]")
        (place / "study.toml").write_text(f"{text}n_clusters = {k}\n", encoding="utf-8")
        paths.append(place / "study.toml")
    return paths[0], paths[1], len(y)


def _visit(rng: np.random.Generator, centres: np.ndarray, y: np.ndarray, visit: str) -> pd.DataFrame:
    values = pd.DataFrame(centres + rng.standard_normal(centres.shape)).add_prefix("x")
    return values.assign(id=ids(y), visit=visit)


def people(rng: np.random.Generator, y: np.ndarray, k: int) -> pd.DataFrame:
    """Clinical variables that differ between clusters, with missing values in some of them."""
    n = len(y)

    def categories(levels: list[str], rarest: float) -> np.ndarray:
        shares = rng.dirichlet(np.linspace(4.0, rarest, len(levels)), size=k)
        return np.array([rng.choice(levels, p=shares[c]) for c in y], dtype=object)

    mmse = np.round(27.0 - 2.0 * y + 2.5 * rng.standard_normal(n), 0)
    mmse[(y == k - 1) & (rng.random(n) < rng.choice([0.0, 0.5]))] = np.nan
    apoe = categories(["e3/e3", "e3/e4", "e2/e3", "e4/e4"], 0.5)
    apoe[rng.random(n) < rng.choice([0.0, 0.05])] = None
    time = rng.exponential(4.0 - 0.5 * y) + 0.1
    censored = rng.uniform(1.0, 5.0, n)
    sex, age = categories(["F", "M"], 3.0), np.round(72.0 + 7.0 * rng.standard_normal(n) + 3.0 * y, 1)
    cdr = rng.binomial(2, 0.1 + 0.2 * y / k)
    sex[rng.random(n) < rng.choice([0.0, 0.05])] = None
    age[rng.random(n) < rng.choice([0.0, 0.08])] = np.nan
    return pd.DataFrame(
        {
            "diagnosis": categories(["HC", "MCI", "AD"], 1.0),
            "sex": sex,
            "apoe": apoe,
            "site": categories(["a", "b", "c"], 1.5),
            "age": age,
            "cdr": cdr,
            "mmse": mmse,
            "years": np.minimum(time, censored).round(4),
            "event": (time <= censored).astype(int),
        }
    )


def run(path: Path, folder: Path) -> None:
    """The run folder of a study."""
    from viewloom.study import read_study
    from viewloom.study.run.run_folder import run_study

    with attackable(), few_figures(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run_study(read_study(path), folder)


@contextmanager
def attackable() -> Iterator[None]:
    """Runs with all that is attacked, and little of what is not.

    Loadings are published although there are clusters, and the importance of features is that of wide views.
    """
    from viewloom.evaluation.inspection import view_agreement
    from viewloom.study.held_out import ONE_VIEW, HeldOutTests

    run, report = "viewloom.study.run", "viewloom.study.report"
    changes = {
        f"{run}.computations.REFITS": REFITS,
        f"{run}.computations.MOST_PLACED": 0,
        f"{run}.analysis.held_out_tests": lambda *_: HeldOutTests(reason=ONE_VIEW),
        f"{report}.findings.view_agreement": partial(view_agreement, n_resamples=REFITS),
        f"{report}.continuum.judged": lambda _: CONTINUUM,
    }
    with ExitStack() as stack:
        for name, other in changes.items():
            stack.enter_context(patch(name, other))
        yield


@contextmanager
def few_figures() -> Iterator[None]:
    """Only the figure that is attacked is drawn; the data of all are stored."""
    from viewloom.study import report

    draw = report.inline_figures

    def drawn(parts: dict[str, Any], names: list[str]) -> dict[str, str]:
        found = draw({name: part for name, part in parts.items() if name in DRAWN}, names)
        return {name: found.get(name, "") for name in parts}

    with patch.object(report, "inline_figures", drawn):
        yield


@contextmanager
def leaky() -> Iterator[None]:
    """Runs as they were published before: six digits, exact steps, no second mean hidden."""
    from viewloom.clinical.shown import Known
    from viewloom.study.run import tables

    def raw(value: float, *_: Any) -> float:
        return float(value)

    def curves(found: Any, min_cell: int) -> Any:
        return replace(found, curves=found.curves[found.curves["at_risk"] >= min_cell])

    report, clinical = "viewloom.study.report", "viewloom.clinical"
    changes = {
        f"{report}.table_cells.rounded": lambda value, digits: float(f"{value:.6g}"),
        f"{report}.table_cells.rounded_p": raw,
        f"{clinical}.profiles.rounded": raw,
        f"{clinical}.shown.round": raw,
        f"{report}.drawings.significant": lambda value: float(f"{value:.6g}"),
        f"{report}.findings.on_grid": curves,
        f"{report}.feature_means.withheld": lambda sizes, min_cell: np.asarray(sizes) < min_cell,
        f"{report}.disclosed.published_agreement": lambda scores, known: scores,
        f"{report}.disclosed.released_importance": lambda frame, hidden: frame,
        f"{report}.standing_out.undescribed": lambda *_: set(),
        f"{clinical}.profiles.has_few_values": lambda _: False,
        f"{clinical}.published.shown_effect": raw,
        f"{clinical}.published.shown_p": raw,
        f"{clinical}.profiles.withheld": lambda sizes, min_cell: np.asarray(sizes) < min_cell,
        f"{clinical}.profiles.rough_count": lambda count, min_cell: Known(count),
        f"{clinical}.profiles._mean_of_all": lambda means, *_: means[-1],
        f"{clinical}.published.small_groups": lambda *_: False,
        f"{clinical}.published._single": lambda row, *_: {**row, "decimals": 2},
        "viewloom.plotting.clinical.on_grid": curves,
        "viewloom.study.published.shown_effect": raw,
        "viewloom.study.published.shown_p": raw,
        "viewloom.study.run.tables.released": lambda content: content,
        "viewloom.study.run.tables.shared_weights": tables.weights_table,
    }
    with ExitStack() as stack:
        for name, other in changes.items():
            stack.enter_context(patch(name, other))
        yield


def attacked(seed: int, leaks: bool = False) -> dict[str, Attack]:
    """All attacks on one random study."""
    with tempfile.TemporaryDirectory() as place, ExitStack() as stack:
        if leaks:
            stack.enter_context(leaky())
        folder = Path(place)
        run(write_study(folder, seed), folder / "run")
        return attack(folder / "run")


def attacked_releases(seed: int, leaks: bool = False) -> dict[str, Attack]:
    """Attacks on a study with follow-up, its replication, a comparison of methods, and two runs together."""
    with tempfile.TemporaryDirectory() as place, ExitStack() as stack:
        if leaks:
            stack.enter_context(leaky())
            stack.enter_context(leaky_releases())
        folder = Path(place)
        first, second, n = write_cohorts(folder, seed)
        run(first, folder / "run")
        replicated(folder / "run", second, folder / "replication")
        compared(first, folder)
        return {
            **attack(folder / "run"),
            "transitions": releases.attack_transitions(folder / "run"),
            "sizes": releases.attack_sizes(folder / "run", folder / "replication", n),
            "deviations": releases.attack_deviations(folder / "replication", n, ["diagnosis", "sex"]),
            "scores": releases.attack_scores(folder / "run", folder, "ours, linear"),
            "two runs": two_runs(first, folder),
            **run_again(first, folder),
        }


def replicated(first: Path, second: Path, folder: Path) -> None:
    """The folder of a replication."""
    from viewloom.study import read_study
    from viewloom.study.run.replication import replicate_study

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        replicate_study(first, read_study(second), folder)


def compared(study: Path, folder: Path) -> None:
    """The tables that `viewloom compare` writes for a study, of three methods."""
    from viewloom.evaluation.comparison import compare
    from viewloom.study import compared as policy
    from viewloom.study import read_study
    from viewloom.study.run.analysis import prepare

    ready = prepare(read_study(study))
    found = compare(ready.views, ready.classes.to_numpy(), METHODS, seeds=1)
    known = policy.diagnosis_precision(found, ready.classes, ready.study.report.min_cell)
    shown = policy.published_comparison(found, known)
    shown.table.to_csv(folder / "comparison.csv", float_format="%.6g")
    shown.agreement.round(2).to_csv(folder / "agreement.csv")


def two_runs(study: Path, folder: Path) -> Attack:
    """What could be subtracted if another run with one more cluster were published, too."""
    from viewloom.models.kernel_nmf import KernelMultiviewNMF
    from viewloom.study import read_study
    from viewloom.study.run.analysis import prepare

    ready = prepare(read_study(study))
    settings = ready.study.model.settings
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        labels, others = (
            KernelMultiviewNMF(**{**settings, "n_clusters": settings["n_clusters"] + more})
            .fit(ready.views)
            .labels_
            for more in (0, 1)
        )
    few, close = releases.differenced(labels, others)
    return Attack(close, few)


def run_again(study: Path, folder: Path) -> dict[str, Attack]:
    """What a second run tells: one that hides counts below 20, and one without the first subject."""
    text = study.read_text(encoding="utf-8")
    coarser, without = study.with_name("coarser.toml"), folder / "lacking" / study.name
    coarser.write_text(text.replace("[report]\n", "[report]\nmin_cell = 20\n"), encoding="utf-8")
    run(coarser, folder / "coarser")
    without.parent.mkdir()
    without.write_text(text, encoding="utf-8")
    for path in study.parent.glob("*.csv"):
        table = pd.read_csv(path)
        table[table["id"] != "s0000"].to_csv(without.with_name(path.name), index=False)
    run(without, folder / "without")
    return {
        "together": releases.attack_together(folder / "run", folder / "coarser"),
        "left out": releases.attack_left_out(folder / "run", folder / "without"),
    }


@contextmanager
def leaky_releases() -> Iterator[None]:
    """Comparisons, replications and follow-up as they were published before."""
    from viewloom.clinical.shown import Hidden, Known

    def only_small(counts: pd.DataFrame, least: int = 11, _: Any = None) -> pd.DataFrame:
        return counts.map(lambda n: Hidden("<", least) if n < least else Known(int(n)))

    changes = {
        "viewloom.study.report.followup.shown_counts": only_small,
        "viewloom.study.report.privacy.shown_counts": only_small,
        "viewloom.study.compared._shown": lambda value, *_: float(value),
        "viewloom.study.clinical_numbers.described": described_with_all_means,
    }
    with ExitStack() as stack:
        for name, other in changes.items():
            stack.enter_context(patch(name, other))
        yield


def described_with_all_means(*args: Any, **settings: Any) -> pd.DataFrame:
    """Profiles in which only the means of small clusters are hidden."""
    from viewloom.clinical import described, profiles

    with patch.object(profiles, "withheld", lambda sizes, min_cell: np.asarray(sizes) < min_cell):
        return described(*args, **settings)


def attack_all(
    studies: int, leaks: bool, record: Path | None, everything: bool = False
) -> list[dict[str, Any]]:
    """Attacks on many studies; those that a record has are not run again."""
    rows = json.loads(record.read_text()) if record is not None and record.is_file() else []
    done = {(row["seed"], row["leaky"]) for row in rows}
    make = attacked_releases if everything else attacked
    for seed in range(studies):
        if (seed, leaks) not in done:
            found = {name: asdict(one) for name, one in make(seed, leaks).items()}
            rows.append({"seed": seed, "leaky": leaks, **found})
            if record is not None:
                record.write_text(json.dumps(rows))
    return [row for row in rows if row["leaky"] == leaks and row["seed"] < studies]


def summary(rows: list[dict[str, Any]]) -> list[str]:
    """One line for each attack: targets, targets found, studies in which one was found, open ones."""
    lines = [f"{'attack':12} {'targets':>8} {'found':>8} {'studies':>8} {'with one':>9} {'open':>6}"]
    for name in (name for name in rows[0] if name not in ("seed", "leaky")) if rows else ():
        tried, found, left = (sum(row[name][key] for row in rows) for key in ("tried", "found", "open"))
        having = sum(row[name]["tried"] > 0 for row in rows)
        hit = sum(row[name]["found"] > 0 for row in rows)
        lines.append(f"{name:12} {tried:8} {found:8} {having:8} {hit:9} {left:6}")
    return lines
