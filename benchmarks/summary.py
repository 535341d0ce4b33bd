"""From the scores of fits to the tables."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from methods import DEFAULT, OURS, PAPER, SINGLE
from registry import REFERENCES
from scenarios import HARMFUL, ONE_VIEW_MISSING, SIGNAL_AND_NOISE
from scipy.stats import spearmanr, studentized_range
from scores import METRICS
from sets import PUBLISHED

Array = np.ndarray
IMAGING, FDG = slice(0, 3), 2  # of the simulated cohorts' views: vbm, freesurfer, fdg, snp
FDG_COUNT = "FDG not lightest"
N_BOOTSTRAP = 4000
LARGE = 1000  # samples from which a set counts for the comparison of speed
NEAR = 0.02  # NMI by which a peer may fall behind and still be compared in speed


def clean(frame: pd.DataFrame) -> pd.DataFrame:
    """Fits on the views as they are, of methods that the tables show."""
    return frame[(frame["kind"] == "clean") & (frame["method"] != SINGLE)]


def by_set(frame: pd.DataFrame, column: str) -> pd.DataFrame:
    """Means over seeds, sets in rows and methods in columns; NaN where a method failed."""
    return frame.pivot_table(
        column, "set", "method", aggfunc=lambda x: x.mean(skipna=False), sort=False, dropna=False
    )


def labelled(frame: pd.DataFrame) -> pd.DataFrame:
    """Sets with known classes: those where any method has an NMI."""
    scored = frame.groupby("set")["NMI"].transform(lambda nmi: nmi.notna().any())
    return frame[scored]


def regret(scores: pd.DataFrame, references: Sequence[str] = REFERENCES) -> pd.DataFrame:
    """Best score among the references on each set (rows) less that of each method (columns).

    Negative where a method beats them all. References that were not run are left out.
    """
    best = scores[[name for name in references if name in scores]].max(axis=1)
    return -scores.sub(best, axis=0)


def standing(frame: pd.DataFrame, metric: str = "NMI") -> pd.DataFrame:
    """Mean score, mean rank, mean and worst regret of every method, best rank first."""
    scores = by_set(clean(frame), metric).dropna(how="all")
    lost = regret(scores)
    table = pd.DataFrame({metric: scores.mean(), "rank": ranks(scores).mean(), "regret": lost.mean()})
    table["worst"] = lost.max()
    table["on"] = [lost[name].idxmax() if lost[name].notna().any() else "-" for name in lost]
    table["seconds"] = by_set(clean(frame), "seconds").loc[scores.index].mean()
    table["sets"] = scores.notna().sum()
    return table.sort_values("rank")


def paired(
    scores: pd.DataFrame, units: pd.Series | None = None, against: str = DEFAULT, seed: int = 0
) -> pd.DataFrame:
    """Score of each method less that of another, mean over sets, with a 95 % bootstrap interval.

    The bootstrap draws `units` (of each set, by its name): sets of one simulated cohort are drawn together.
    """
    differences = scores.drop(columns=against).sub(scores[against], axis=0)
    of_set = pd.Series(scores.index, scores.index) if units is None else units.reindex(scores.index)
    rows = {
        name: _paired_row(values[values.notna()], of_set[values.notna()], seed)
        for name, values in differences.items()
    }
    columns = ["difference", "low", "high", "better", "worse", "sets"]
    return pd.DataFrame.from_dict(rows, orient="index", columns=columns)


def _paired_row(values: pd.Series, units: pd.Series, seed: int) -> tuple[float, float, float, int, int, int]:
    if values.empty:
        return (np.nan, np.nan, np.nan, 0, 0, 0)
    low, high = bootstrap_interval(values.to_numpy(), units.to_numpy(), seed)
    better, worse = int((values > 0.01).sum()), int((values < -0.01).sum())
    return (float(values.mean()), low, high, better, worse, len(values))


def bootstrap_interval(values: Array, units: Array, seed: int = 0) -> tuple[float, float]:
    """95 % interval of the mean, units drawn with replacement."""
    codes = np.unique(units.astype(str), return_inverse=True)[1]
    totals, counts = np.bincount(codes, values), np.bincount(codes)
    draws = np.random.default_rng(seed).integers(len(counts), size=(N_BOOTSTRAP, len(counts)))
    means = totals[draws].sum(axis=1) / counts[draws].sum(axis=1)
    low, high = np.quantile(means, [0.025, 0.975])
    return float(low), float(high)


def by_block(frame: pd.DataFrame) -> pd.DataFrame:
    """Means over the simulated cohorts, kinds of task in columns; stage is eta squared."""
    frame = clean(frame)
    nmi = frame.pivot_table("NMI", "method", "block", sort=False)
    stage = frame[frame["stage"].notna()].pivot_table("stage", "method", "block", sort=False)
    return nmi.join(stage.rename(columns=lambda block: block.replace("diagnosis", "stage")))


def weights_against_views(frame: pd.DataFrame) -> pd.DataFrame:
    """Rank correlation with the NMI of single views, mean over sets of three views or more.

    Of the view weights and of the reported agreement; how often the heaviest view is the best one; on
    simulated cohorts, how often FDG is not the lightest imaging view.
    """
    single = frame[frame["method"] == SINGLE].dropna(subset="single").set_index("set")["single"]
    single = single[single.map(len) >= 3]
    fits = clean(frame)[lambda f: f["set"].isin(single.index) & f["weights"].notna()].copy()
    fits["views"] = fits["set"].map(single)
    fits = fits[fits["weights"].map(len) == fits["views"].map(len)]
    fits["weights rho"] = [_spearman(w, s) for w, s in zip(fits["weights"], fits["views"], strict=True)]
    fits["agreement rho"] = [_spearman(a, s) for a, s in zip(fits["agreement"], fits["views"], strict=True)]
    fits["heaviest is best"] = [
        float(np.argmax(w) == np.argmax(s)) for w, s in zip(fits["weights"], fits["views"], strict=True)
    ]
    fits[FDG_COUNT] = [
        _fdg_not_lightest(w) if group == "simulated" else np.nan
        for w, group in zip(fits["weights"], fits["group"], strict=True)
    ]
    columns = ["weights rho", "agreement rho", "heaviest is best", FDG_COUNT]
    table = fits.groupby(["method", "set"], sort=False)[columns].mean().groupby("method", sort=False).mean()
    table["sets"] = fits.groupby("method")["set"].nunique()
    return table.dropna(axis=1, how="all")


def _spearman(values: object, single: Sequence[float]) -> float:
    """Rank correlation; NaN where there is nothing to compare, 0 where all values are equal."""
    if not isinstance(values, list) or len(values) != len(single):
        return np.nan
    if np.ptp(values) < 1e-9 or np.ptp(single) < 1e-9:
        return 0.0
    return float(spearmanr(values, single).statistic)


def _fdg_not_lightest(weights: Sequence[float]) -> float:
    """Whether FDG is not the lightest imaging view; NaN where all weights are equal."""
    return np.nan if np.ptp(weights) < 1e-9 else float(np.argmin(weights[IMAGING]) != FDG)


def survival(frame: pd.DataFrame) -> pd.DataFrame:
    """-log10 p of the log-rank test on each cohort with survival, and the mean C-index out of sample."""
    frame = clean(frame)
    frame = frame[frame["C-index"].notna()].assign(evidence=lambda f: -np.log10(f["log-rank p"].clip(1e-16)))
    if frame.empty:
        return pd.DataFrame()
    table = by_set(frame, "evidence").T.add_prefix("-log10 p ")
    return table.join(by_set(frame, "C-index").T.add_prefix("C-index ")).assign(
        **{"C-index": by_set(frame, "C-index").mean()}
    )


def signal_and_noise(frame: pd.DataFrame) -> pd.DataFrame:
    """A view of signal beside one of noise: weight of the signal view, mean and least."""
    fits = frame[(frame["kind"] == SIGNAL_AND_NOISE) & frame["weights"].notna()].copy()
    fits["signal"] = fits["weights"].map(lambda w: w[0])
    groups = fits.groupby("method", sort=False)
    table = groups.agg(NMI=("NMI", "mean"), mean=("signal", "mean"), least=("signal", "min"))
    table["on"] = fits.loc[groups["signal"].idxmin().to_numpy(), "set"].to_numpy()
    table["below half"] = groups["signal"].agg(lambda w: float((w < 0.5 - 1e-9).mean()))
    table["fits"] = groups.size()
    return table


def one_view_missing(frame: pd.DataFrame) -> pd.DataFrame:
    """NMI with a share of one view missing, and what that costs against nothing missing."""
    fits = frame[frame["kind"] == ONE_VIEW_MISSING]
    lost = by_set(fits, "NMI")
    whole = by_set(clean(frame[frame["set"].isin(set(fits["set"]))]), "NMI")[lost.columns]
    return pd.DataFrame(
        {"nothing missing": whole.mean(), "missing": lost.mean(), "loss": (whole - lost).mean()}
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
    frame = labelled(clean(frame))
    nmi = by_set(frame, "NMI")
    table = pd.DataFrame({metric: by_set(frame, metric).mean() for metric in METRICS})
    table["rank"] = ranks(nmi).mean()
    table["wins"] = nmi.ge(nmi.max(axis=1) - 1e-9, axis=0).sum()
    table["seconds"] = by_set(frame, "seconds").mean()
    table["sets"] = nmi.notna().sum()
    return table.sort_values("rank")


def critical_difference(n_methods: int, n_sets: int, level: float = 0.05) -> float:
    """Nemenyi: mean ranks that differ by less are not significantly different (Demsar 2006)."""
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
    peers = nmi.index.difference([method.name for method in [*OURS, *PAPER]])
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
    """Every change beside the default: mean NMI, sets where it moves by over 0.01, NMI of each group.

    On simulated cohorts also how often FDG is not the lightest imaging view.
    """
    table = overall(frame)[["NMI"]]
    change = by_set(clean(frame), "NMI").sub(by_set(clean(frame), "NMI")[DEFAULT], axis=0)
    table["change"] = change.mean()
    table["better"], table["worse"] = (change > 0.01).sum(), (change < -0.01).sum()
    for group, part in frame.groupby("group", sort=False):
        table[str(group)] = by_set(clean(part), "NMI").mean()
    weights = weights_against_views(frame) if "single" in frame else pd.DataFrame()
    if FDG_COUNT in weights:
        table[FDG_COUNT] = weights[FDG_COUNT]
    table["n"] = change.notna().sum()
    return table.sort_values("NMI", ascending=False)
