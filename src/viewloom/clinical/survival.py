"""Time to conversion: Kaplan-Meier curves and log-rank tests of clusters."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from viewloom.clinical.findings import holm
from viewloom.clinical.release import DECIMALS, P, coarse_p, rounded
from viewloom.clinical.suppression import hidden
from viewloom.clinical.variables import as_numbers, clusters_of
from viewloom.data.matching import matched_values, row_index
from viewloom.runtime.errors import InputError

Array = np.ndarray
CONFIDENCE = 0.95
MOST_TIMES = 6  # maximum number of times in the table of numbers at risk
MOST_STEPS = 10  # of a curve that is shown: a time is known to a tenth of the range, at best
ROUGH = 10  # numbers at risk that are shown are multiples of it


@dataclass(frozen=True)
class LogRank:
    """Statistic, degrees of freedom and p-value of a log-rank test; NaN if there is nothing to compare."""

    statistic: float
    df: int
    p: float


@dataclass(frozen=True, eq=False)
class Conversion:
    """Time to an event by cluster; see `conversion`.

    Attributes
    ----------
    summary : DataFrame
        One row per cluster: ``n``, ``events``, and ``median`` time, NaN if less than half converted.
    curves : DataFrame
        Kaplan-Meier steps: ``cluster``, ``time``, ``survival``, ``low`` and ``high`` (95 %, log-log; NaN
        if the curve is zero), and ``at_risk`` just before the step.
    at_risk : DataFrame
        Numbers at risk at round times (rows), by cluster (columns).
    statistic, df, p : float, int, float or PClass
        Log-rank test over all clusters; NaN without events or with a single cluster.
    pairs : DataFrame
        Log-rank tests of pairs: ``cluster``, ``other``, ``statistic``, ``p``, ``p_holm``.
    missing : int
        Number of subjects without time or event.
    """

    summary: pd.DataFrame
    curves: pd.DataFrame
    at_risk: pd.DataFrame
    statistic: float
    df: int
    p: P
    pairs: pd.DataFrame
    missing: int


def conversion(labels: Any, time: Any, event: Any) -> Conversion:
    """Time to conversion in each cluster: Kaplan-Meier curves and log-rank tests.

    Parameters
    ----------
    labels : (n,) array
    time : (n,) array
        Time of the event or of censoring; NaN for subjects without follow-up.
    event : (n,) array of bool or 0 and 1
        Whether the event was observed.

    Returns
    -------
    Conversion

    Examples
    --------
    >>> found = conversion([0, 0, 0, 1, 1, 1], [1.0, 2.0, 3.0, 4.0, 5.0, 6.0], [1, 1, 1, 1, 0, 0])
    >>> found.summary["median"].tolist()
    [2.0, nan]
    >>> round(found.statistic, 2), found.df, round(found.p, 3)
    (5.05, 1, 0.025)
    """
    ids = row_index(time)
    event = event if hasattr(event, "dtype") else pd.Series(event, dtype=object)
    event = as_numbers(matched_values(event, ids, "event", "time"))
    time = as_numbers(time)
    check_follow_up(time, event)
    known = np.isfinite(time) & np.isfinite(event)
    clusters, codes = clusters_of(labels, len(time), ids)
    seen = [i for i in range(len(clusters)) if (codes[known] == i).any()]
    samples = {clusters[i]: (time[known & (codes == i)], event[known & (codes == i)] == 1) for i in seen}
    if not samples:
        raise InputError("No subject has both a time and an event.")
    curves = pd.concat([_curve(*sample).assign(cluster=name) for name, sample in samples.items()])
    overall = logrank(list(samples.values()))
    return Conversion(
        summary=_summary(samples, curves),
        curves=curves[["cluster", "time", "survival", "low", "high", "at_risk"]].reset_index(drop=True),
        at_risk=_at_risk(samples, round_times(float(time[known].max()))),
        statistic=overall.statistic,
        df=overall.df,
        p=overall.p,
        pairs=_logrank_pairs(samples),
        missing=int((~known).sum()),
    )


def logrank(samples: Sequence[tuple[Array, Array]]) -> LogRank:
    """Log-rank test of k samples of times and events.

    With ``d_j`` events among ``n_j`` at risk at time j, of which ``n_ij`` belong to sample i, and
    ``q_ij = n_ij / n_j``, observed minus expected numbers ``O_i - E_i`` have the covariance
    ``V = sum_j d_j (n_j - d_j) / (n_j - 1) (diag(q_j) - q_j q_j^T)``. The statistic
    ``(O - E)^T V^+ (O - E)`` follows chi-square with k - 1 degrees of freedom.
    """
    times = np.unique(np.concatenate([time[event] for time, event in samples]))
    if len(samples) < 2 or len(times) == 0:
        return LogRank(np.nan, len(samples) - 1, np.nan)
    risk = np.column_stack([(time >= times[:, None]).sum(axis=1) for time, _ in samples])  # (t, k)
    events = np.column_stack([(time[event] == times[:, None]).sum(axis=1) for time, event in samples])
    n, d = risk.sum(axis=1), events.sum(axis=1)
    q = risk / n[:, None]
    excess = (events - d[:, None] * q).sum(axis=0)
    weight = d * (n - d) / np.maximum(n - 1, 1)
    V = np.diag(weight @ q) - (q * weight[:, None]).T @ q
    statistic = float(excess @ np.linalg.pinv(V, hermitian=True) @ excess)
    df = int((risk[0] > 0).sum()) - 1  # samples censored before the first event do not count
    return LogRank(statistic, df, float(stats.chi2.sf(statistic, df)) if df else np.nan)


def round_times(last: float, most: int = MOST_TIMES) -> Array:
    """Times from 0 in fewer than `most` steps of 1, 2 or 5 times a power of ten, up to `last`.

    >>> round_times(4.3).tolist()
    [0.0, 1.0, 2.0, 3.0, 4.0]
    """
    if not last > 0:
        return np.zeros(1)
    power = 10.0 ** np.floor(np.log10(last / most))
    step = next(power * digit for digit in (1, 2, 5, 10) if last / (power * digit) < most)
    return np.asarray(step * np.arange(int(last / step) + 1))


def on_grid(found: Conversion, min_cell: int) -> Conversion:
    """Curves that may be shown: on a grid of at most ten round times, without times of single subjects.

    A curve has its value at the times of the grid, as far as `min_cell` subjects are at risk, in two
    decimals. A cluster has none if it has fewer subjects or events, or if its number of subjects is hidden
    beside that of a small cluster: the steps and the band of a curve tell both. Medians are times of the
    grid. Numbers at risk are rounded to tens, but not below `min_cell`; smaller ones are 0, those of a
    cluster whose number is hidden -1. Where a number of events is hidden, of p only the class is shown: with
    a hazard ratio it tells the number. With ``min_cell=1`` nothing is hidden.

    >>> rng = np.random.default_rng(0)
    >>> found = conversion(rng.integers(2, size=200), rng.exponential(3.0, 200), rng.integers(2, size=200))
    >>> shown = on_grid(found, 11)
    >>> bool(np.isin(shown.curves["time"], grid_of(found, 11)).all()), shown.at_risk.iloc[0].tolist()
    (True, [90, 110])
    """
    if min_cell <= 1:
        return found
    times = grid_of(found, min_cell)
    curves = [_on_grid(curve, times, min_cell) for _, curve in found.curves.groupby("cluster", sort=False)]
    shown = pd.concat(curves, ignore_index=True) if curves else found.curves  # none may be shown
    beside, few = _concealed(found.summary, min_cell)
    shown = shown[~shown["cluster"].isin([*beside, *few])].reset_index(drop=True)
    halved = shown[shown["survival"] <= 0.5].groupby("cluster")["time"].min()
    at_risk = found.at_risk.copy()
    at_risk[beside] = -1
    rough = (ROUGH * (at_risk / ROUGH).round()).clip(lower=min_cell)
    return replace(
        found,
        summary=found.summary.assign(median=halved.reindex(found.summary.index)),
        curves=shown,
        at_risk=rough.where(at_risk >= min_cell, at_risk.clip(upper=0)).astype(int),
        p=coarse_p(found.p) if hides_events(found.summary, min_cell) else found.p,
    )


def hides_events(summary: pd.DataFrame, min_cell: int) -> bool:
    """Whether a cluster has few subjects with the event, or without it.

    >>> hides_events(pd.DataFrame({"n": [40, 30], "events": [20, 25]}), 11)
    True
    """
    if "n" not in summary:
        return False
    return bool((np.minimum(summary["events"], summary["n"] - summary["events"]) < min_cell).any())


def _concealed(summary: pd.DataFrame, min_cell: int) -> tuple[list[Any], list[Any]]:
    """Clusters that are hidden beside a small one, and those with few subjects or events.

    There are none in curves that were on the grid before, which have no numbers.
    """
    if "n" not in summary:
        return [], []
    secret = hidden(summary[["n"]].to_numpy().T, min_cell)[0]
    few = (summary[["n", "events"]].min(axis=1) < min_cell).to_numpy()
    return list(summary.index[secret & (summary["n"] >= min_cell)]), list(summary.index[few])


def grid_of(found: Conversion, min_cell: int) -> Array:
    """Round times at which curves may be shown, from 0.

    >>> found = conversion([0] * 40, np.linspace(0.1, 4.0, 40), np.ones(40))
    >>> grid_of(found, 11).tolist()
    [0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0]
    """
    last = float(found.curves.loc[found.curves["at_risk"] >= min_cell, "time"].max())
    return round_times(last, MOST_STEPS)


def _on_grid(curve: pd.DataFrame, times: Array, min_cell: int) -> pd.DataFrame:
    """The last step of a curve at or before each time at which enough subjects were still at risk."""
    enough = times <= float(curve.loc[curve["at_risk"] >= min_cell, "time"].max())
    times = times[enough]
    at = np.searchsorted(curve["time"].to_numpy(), times, side="right") - 1
    shown = curve.iloc[at].assign(time=times, at_risk=min_cell)
    values = shown[["survival", "low", "high"]].map(lambda x: rounded(x, DECIMALS))
    return shown.assign(**values)


def check_follow_up(time: Any, event: Any) -> None:
    """Raise an error for negative times and for events other than 0 and 1, if both are known."""
    time, event = as_numbers(time), as_numbers(event)
    known = np.isfinite(time) & np.isfinite(event)
    negative, strange = int((time[known] < 0).sum()), int((~np.isin(event[known], (0, 1))).sum())
    if negative:
        raise InputError(f"{negative} times are negative; count from the first visit.")
    if strange:
        raise InputError(f"event has {strange} values that are neither 0 nor 1; recode them.")


def _curve(time: Array, event: Array) -> pd.DataFrame:
    """Kaplan-Meier curve of a sample, from time 0."""
    survival = stats.ecdf(stats.CensoredData.right_censored(time, ~event)).sf
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # no bounds if the curve is at 0 or 1
        bounds = survival.confidence_interval(CONFIDENCE, method="log-log")
    certain = survival.probabilities == 1.0
    curve = pd.DataFrame(
        {
            "time": survival.quantiles,
            "survival": survival.probabilities,
            "low": np.where(certain, 1.0, bounds.low.probabilities),
            "high": np.where(certain, 1.0, bounds.high.probabilities),
            "at_risk": (time >= survival.quantiles[:, None]).sum(axis=1),
        }
    )
    start = pd.DataFrame({"time": [0.0], "survival": 1.0, "low": 1.0, "high": 1.0, "at_risk": len(time)})
    return pd.concat([start, curve]) if survival.quantiles[0] > 0 else curve


def _summary(samples: Mapping[Any, tuple[Array, Array]], curves: pd.DataFrame) -> pd.DataFrame:
    halved = curves[curves["survival"] <= 0.5 + 1e-12].groupby("cluster")["time"].min()
    rows = {name: {"n": len(time), "events": int(event.sum())} for name, (time, event) in samples.items()}
    summary = pd.DataFrame.from_dict(rows, orient="index").rename_axis("cluster")
    return summary.assign(median=halved.reindex(summary.index))


def _at_risk(samples: Mapping[Any, tuple[Array, Array]], times: Array) -> pd.DataFrame:
    counts = {name: (time >= times[:, None]).sum(axis=1) for name, (time, _) in samples.items()}
    return pd.DataFrame(counts, index=pd.Index(times, name="time"))


def _logrank_pairs(samples: Mapping[Any, tuple[Array, Array]]) -> pd.DataFrame:
    """Log-rank tests of all pairs."""
    rows = []
    for first, second in combinations(samples, 2):
        found = logrank([samples[first], samples[second]])
        rows.append({"cluster": first, "other": second, "statistic": found.statistic, "p": found.p})
    table = pd.DataFrame(rows, columns=pd.Index(["cluster", "other", "statistic", "p"]))
    return table.assign(p_holm=holm(table["p"].to_numpy(dtype=float)))
