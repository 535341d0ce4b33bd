"""From labels to scores, and from scores to the tables."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from methods import DEFAULT, OURS
from runner import Reply, Task
from scenarios import HARMFUL, lacking
from scipy.stats import studentized_range
from sets import PUBLISHED, BenchSet
from sklearn.metrics import normalized_mutual_info_score

from viewloom.metrics import clustering_report

Array = np.ndarray
Record = dict[str, Any]
METRICS = ["Acc", "NMI", "ARI"]
INCOMPLETE_METRICS = ["NMI whole", "NMI placed"]  # on samples with all views; with the others predicted
LARGE = 1000  # samples from which a set counts for the comparison of speed
NEAR = 0.02  # NMI by which a peer may fall behind and still be compared in speed


def record(bench_set: BenchSet, task: Task, reply: Reply, y: Array) -> Record:
    """Scores of one fit, with what is needed to find it again."""
    found: Record = {
        "set": bench_set.name,
        "n": bench_set.n_samples,
        "method": task.method,
        "scenario": str(task.scenario),
        "kind": task.scenario.kind,
        "share": task.scenario.share,
        "seed": task.seed,
        "seconds": reply.seconds,
        "weights": None if reply.weights is None else [float(w) for w in reply.weights],
        "error": reply.error,
    }
    if reply.error:
        return found | dict.fromkeys([*METRICS, *INCOMPLETE_METRICS], float("nan"))
    return found | _scores(reply, y) | _incomplete_scores(bench_set, task, reply, y)


def _scores(reply: Reply, y: Array) -> dict[str, float]:
    """Means over labelings. Samples without a label count as wrong, and as a cluster of their own."""
    reports = [clustering_report(y, labels) for labels in reply.labelings]
    scores = {name: float(np.mean([report[name] for report in reports])) for name in METRICS}
    kept = reply.labelings[0] >= 0
    if not kept.all():
        scores["Acc"] = clustering_report(y[kept], reply.labelings[0][kept])["Acc"] * float(kept.mean())
    return scores


def _incomplete_scores(bench_set: BenchSet, task: Task, reply: Reply, y: Array) -> dict[str, float]:
    """NMI on the samples that have all views, and with the others predicted."""
    whole = lacking(bench_set.n_samples, bench_set.n_views, task.scenario.share, task.seed) < 0
    placed = reply.placed
    return {
        "NMI whole": float(normalized_mutual_info_score(y[whole], reply.labelings[0][whole])),
        "NMI placed": np.nan if placed is None else float(normalized_mutual_info_score(y, placed)),
    }


def clean(frame: pd.DataFrame) -> pd.DataFrame:
    """Fits on the views as they are."""
    return frame[frame["kind"] == "clean"]


def by_set(frame: pd.DataFrame, column: str) -> pd.DataFrame:
    """Means over seeds, sets in rows and methods in columns; NaN where a method failed."""
    return frame.pivot_table(
        column, "set", "method", aggfunc=lambda x: x.mean(skipna=False), sort=False, dropna=False
    )


def of_one_set(frame: pd.DataFrame, name: str) -> pd.DataFrame:
    """Scores of all methods on one set, mean and spread over seeds, best NMI first."""
    groups = clean(frame[frame["set"] == name]).groupby("method", sort=False)
    table = groups[[*METRICS, "seconds"]].agg(lambda x: x.mean(skipna=False))
    spread = groups[METRICS].std()
    for metric in METRICS:
        table[f"{metric} spread"] = spread[metric]
    return table.sort_values("NMI", ascending=False)


def ranks(nmi: pd.DataFrame) -> pd.DataFrame:
    """Rank of each method (columns) on each set (rows) by NMI; failures share the last rank."""
    return nmi.rank(axis=1, ascending=False).fillna(nmi.shape[1])


def overall(frame: pd.DataFrame) -> pd.DataFrame:
    """Means over the sets that a method finished, mean rank over all sets, and wins; best rank first."""
    frame = clean(frame)
    nmi = by_set(frame, "NMI")
    table = pd.DataFrame({metric: by_set(frame, metric).mean() for metric in METRICS})
    table["rank"] = ranks(nmi).mean()
    table["wins"] = nmi.ge(nmi.max(axis=1) - 1e-9, axis=0).sum()
    table["seconds"] = by_set(frame, "seconds").mean()
    table["sets"] = nmi.notna().sum()
    return table.sort_values("rank")


def critical_difference(n_methods: int, n_sets: int, level: float = 0.05) -> float:
    """Nemenyi: mean ranks that differ by less are not told apart (Demsar 2006)."""
    if n_methods < 2:
        return 0.0
    q = studentized_range.ppf(1.0 - level, n_methods, np.inf) / np.sqrt(2.0)
    return float(q * np.sqrt(n_methods * (n_methods + 1) / (6.0 * n_sets)))


def against_published(frame: pd.DataFrame, method: str = DEFAULT) -> pd.DataFrame:
    """The best published figures beside ours."""
    ours = clean(frame[frame["method"] == method]).groupby("set")[["Acc", "NMI"]].mean()
    columns = ["by", "published Acc", "published NMI"]
    table = ours.join(pd.DataFrame.from_dict(PUBLISHED, orient="index", columns=columns), how="inner")
    for metric in ("Acc", "NMI"):
        table[f"{metric} reached"] = table[metric] >= table[f"published {metric}"]
    return table


def speed(frame: pd.DataFrame) -> str:
    """Our seconds on large sets against the fastest peer of nearly our quality there."""
    large = clean(frame[frame["n"] >= LARGE])
    if DEFAULT not in set(large["method"]):
        return f"Speed: no set with at least {LARGE} samples, or {DEFAULT} was not run."
    nmi, seconds = by_set(large, "NMI").mean(skipna=False), by_set(large, "seconds").sum(skipna=False)
    peers = nmi.index.difference([method.name for method in OURS])
    near = [peer for peer in peers if nmi[peer] >= nmi[DEFAULT] - NEAR]
    count = large["set"].nunique()
    where = f"On the {count} sets with at least {LARGE} samples {DEFAULT} (NMI {nmi[DEFAULT]:.3f})"
    if not near:
        best = nmi[peers].idxmax() if nmi[peers].notna().any() else "none"
        return f"{where} takes {seconds[DEFAULT]:.1f} s; no peer comes within {NEAR} of it (nearest: {best})."
    fastest = seconds[near].idxmin()
    ratio = seconds[DEFAULT] / seconds[fastest]
    return f"{where} takes {ratio:.2f} times as long as the fastest near it, {fastest} ({nmi[fastest]:.3f})."


def failures(frame: pd.DataFrame) -> list[str]:
    """One line per method, set and scenario that gave no result."""
    failed = frame[frame["error"] != ""].drop_duplicates(["method", "set", "scenario"])
    return [f"{row.method}, {row.set}, {row.scenario}: {row.error}" for row in failed.itertuples()]


def hostile(frame: pd.DataFrame) -> pd.DataFrame:
    """What a harmful view costs: loss of NMI over sets and seeds, and the weight that the view gets."""
    harmed = frame[frame["kind"].isin(list(HARMFUL))].copy()
    before = clean(frame).groupby(["set", "method"])["NMI"].mean()
    keys = pd.MultiIndex.from_frame(harmed[["set", "method"]])
    harmed["loss"] = before.reindex(keys).to_numpy() - harmed["NMI"].to_numpy()
    weights = harmed["weights"].dropna()
    harmed["weight"] = weights.map(lambda w: w[-1])
    harmed["of equal"] = weights.map(lambda w: w[-1] * len(w))
    harmed["least"] = weights.map(lambda w: float(w[-1] <= min(w)))
    groups = harmed.groupby(["method", "kind"], sort=False)
    table = groups[["NMI", "loss", "weight", "of equal", "least"]].mean()
    per_set = harmed.groupby(["method", "kind", "set"], sort=False)["loss"].mean().dropna()
    worst = per_set.groupby(["method", "kind"], sort=False)
    table["worst loss"] = worst.max()
    table["on"] = worst.idxmax().map(lambda key: key[-1])
    return table.reset_index()


def hostile_by_set(frame: pd.DataFrame, method: str = DEFAULT) -> pd.DataFrame:
    """NMI of one method on each set, clean and with each harmful view."""
    ours = frame[(frame["method"] == method) & (frame["share"] == 0.0)]
    return ours.pivot_table("NMI", "set", "scenario", sort=False)


def missing(frame: pd.DataFrame) -> pd.DataFrame:
    """NMI with all subjects against complete-case analysis, means over sets and seeds."""
    by = ["method", "share"]
    values = frame[frame["share"] > 0.0]
    with_all, whole_only = (values[values["kind"] == kind].groupby(by) for kind in ("missing", "complete"))
    table = pd.DataFrame(
        {
            "all subjects": with_all["NMI"].mean(),
            "complete case": whole_only["NMI"].mean(),
            "rest predicted": whole_only["NMI placed"].mean(),
            "whole: all": with_all["NMI whole"].mean(),
            "whole: complete case": whole_only["NMI whole"].mean(),
        }
    ).reset_index()
    features_only = clean(frame[frame["set"].isin(set(values["set"]))])
    table.insert(1, "nothing missing", table["method"].map(features_only.groupby("method")["NMI"].mean()))
    return table


def ablation(frame: pd.DataFrame) -> pd.DataFrame:
    """Every change beside the default: means over finished sets, and sets where NMI moves by over 0.01."""
    table = overall(frame)[[*METRICS, "seconds", "sets"]]
    change = by_set(clean(frame), "NMI").sub(by_set(clean(frame), "NMI")[DEFAULT], axis=0)
    table["change"] = change.mean()
    table["better"], table["worse"] = (change > 0.01).sum(), (change < -0.01).sum()
    return table.sort_values("NMI", ascending=False)
