"""Several visits: transitions between clusters, slopes of outcomes by cluster, and conversion."""

from __future__ import annotations

import warnings
from collections.abc import Collection
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from viewloom.clinical.variables import as_numbers, clusters_of
from viewloom.runtime.errors import InputError, MissingPackageError

Array = np.ndarray
Z = float(stats.norm.ppf(0.975))
INTERCEPT_AND_SLOPE, INTERCEPT = "intercept and slope", "intercept"
LEAST_REPEATED = 3  # subjects of a cluster with several visits


@dataclass(frozen=True, eq=False)
class Slopes:
    """Change of an outcome per unit of time in each cluster; see `slopes`.

    Attributes
    ----------
    table : DataFrame
        One row per cluster: ``slope``, ``low`` and ``high`` (95 % interval), ``subjects`` with several
        visits, and ``visits``. NaN for clusters that have too few such subjects.
    statistic, df, p : float, int, float
        Wald test of equal slopes, that is of the interaction of cluster and time; NaN with fewer than two
        clusters, or if the model did not converge.
    random : str
        "intercept and slope", or "intercept" where a model with random slopes did not converge.
    converged : bool
    """

    table: pd.DataFrame
    statistic: float
    df: int
    p: float
    random: str
    converged: bool


def transitions(before: Any, after: Any, clusters: Collection[Any] | None = None) -> pd.DataFrame:
    """Count subjects by their cluster at two visits.

    Parameters
    ----------
    before, after : (n,) array
        Cluster of each subject at both visits; missing where the subject was not seen. Two series are matched
        by their index.
    clusters : collection, optional
        All clusters, in their order; by default those that occur.

    Returns
    -------
    DataFrame of int
        Clusters before (rows) by clusters after (columns), of subjects who were seen at both visits.

    Examples
    --------
    >>> transitions([0, 0, 1, 1], [0, 1, 1, None]).to_numpy().tolist()
    [[1, 1], [0, 1]]
    """
    if isinstance(before, pd.Series) and isinstance(after, pd.Series):
        after = after.reindex(before.index)
    one, other = (pd.Series(np.asarray(pd.Series(labels), dtype=object)) for labels in (before, after))
    if len(one) != len(other):
        raise InputError(f"{len(one)} clusters before and {len(other)} after; pass one of each per subject.")
    both = one.notna() & other.notna()
    one, other = one[both], other[both]
    known = sorted({*one, *other}) if clusters is None else list(clusters)
    strange = len({*one, *other} - set(known))
    if strange:
        raise InputError(f"{strange} labels are not among the clusters.")
    counts = np.zeros((len(known), len(known)), dtype=int)
    np.add.at(counts, tuple([known.index(label) for label in labels] for labels in (one, other)), 1)
    rows, columns = pd.Index(known, name="before"), pd.Index(known, name="after")
    return pd.DataFrame(counts, index=rows, columns=columns)


def first_conversion(
    ids: Any, time: Any, diagnosis: Any, to: Collection[str], *, among: Collection[str] = ()
) -> pd.DataFrame:
    """Derive the time to a diagnosis from the diagnoses at several visits.

    Parameters
    ----------
    ids : (m,) array
        Subject of each visit.
    time : (m,) array
        Time since the first visit; visits without a time are left out.
    diagnosis : (m,) array of str
        Diagnosis at the visit; visits without a diagnosis are left out.
    to : collection of str
        Diagnoses that are the event.
    among : collection of str, optional
        Diagnoses of the subjects at risk at their first visit; by default all that are not the event.

    Returns
    -------
    DataFrame indexed by id
        ``time`` of the first visit with the event, or of the last visit without it, and ``event`` (1 or 0).
        NaN for subjects who are not at risk, or have no later visit.

    Examples
    --------
    >>> found = first_conversion([1, 1, 1, 2, 2], [0, 1, 2, 0, 3], ["MCI", "AD", "AD", "MCI", "MCI"], ["AD"])
    >>> found.to_numpy().tolist()
    [[1.0, 1.0], [3.0, 0.0]]
    """
    rows = pd.DataFrame({"id": np.asarray(ids, dtype=object), "time": as_numbers(time)})
    rows["diagnosis"] = np.asarray(pd.Series(diagnosis), dtype=object)
    every = pd.Index(rows["id"].unique(), name="id")
    rows = rows[rows["time"].notna() & rows["diagnosis"].notna()].sort_values("time", kind="stable")
    start = rows.drop_duplicates("id").set_index("id")["diagnosis"].reindex(every)
    first, last = (getattr(rows.groupby("id")["time"], end)().reindex(every) for end in ("min", "max"))
    at_risk = (last > first) & ~start.isin(list(to))
    if among:
        at_risk &= start.isin(list(among))
    reached = (
        rows[rows["diagnosis"].isin(list(to))].drop_duplicates("id").set_index("id")["time"].reindex(every)
    )
    found = pd.DataFrame({"time": reached.fillna(last), "event": reached.notna().astype(float)})
    return found.where(np.repeat(at_risk.to_numpy()[:, None], 2, axis=1))


def slopes(labels: Any, ids: Any, time: Any, values: Any) -> Slopes:
    """Estimate the change of an outcome over time in each cluster by a linear mixed model.

    The fixed effects are an intercept and a slope for each cluster; the random effects are an intercept and a
    slope of each subject, or an intercept only where the model with random slopes does not converge. The
    model is fitted by restricted maximum likelihood (`statsmodels.regression.mixed_linear_model.MixedLM`).

    Parameters
    ----------
    labels : (m,) array
        Cluster of the subject of each visit.
    ids : (m,) array
        Subject of each visit.
    time : (m,) array
        Time since the first visit.
    values : (m,) array
        Outcome; visits without a value or a time are left out.

    Returns
    -------
    Slopes

    Raises
    ------
    ImportError
        Without statsmodels (``pip install viewloom[stats]``).

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> ids, time = np.repeat(np.arange(60), 3), np.tile([0.0, 1.0, 2.0], 60)
    >>> values = 28 - (ids % 2) * 2.0 * time + rng.normal(0, 1, 60)[ids] + rng.normal(0, 0.3, 180)
    >>> found = slopes(ids % 2, ids, time, values)
    >>> found.table["slope"].round().abs().tolist(), bool(found.p < 0.001)
    ([0.0, 2.0], True)
    """
    if find_spec("statsmodels") is None:
        raise MissingPackageError("Slopes need statsmodels: pip install viewloom[stats]")
    time, values = as_numbers(time), as_numbers(values)
    clusters, codes = clusters_of(labels, len(time))
    subject = np.unique(np.asarray(pd.Series(ids).astype(str), dtype=str), return_inverse=True)[1]
    if len(subject) != len(time) or len(values) != len(time):
        raise InputError("labels, ids, time and values must have one entry per visit.")
    known = np.isfinite(time) & np.isfinite(values)
    counts = _counts(subject[known], codes[known], time[known], len(clusters))
    enough = counts["subjects"].to_numpy() >= LEAST_REPEATED
    used = known & enough[codes]
    table = counts.set_axis(pd.Index(clusters, name="cluster"))
    order = np.argsort(subject[used], kind="stable")  # MixedLM groups rows by subject
    y = values[used][order]
    if not enough.any() or np.ptp(y) == 0:
        return Slopes(_with_slopes(table, enough, None), np.nan, 0, np.nan, INTERCEPT, False)
    design = _design(codes[used][order], time[used][order], np.flatnonzero(enough))
    scale = float(y.std())
    fitted, random = _fitted(y / scale, design, time[used][order], subject[used][order])
    if fitted is None:
        return Slopes(_with_slopes(table, enough, None), np.nan, 0, np.nan, random, False)
    k = int(enough.sum())
    estimate, covariance = np.asarray(fitted.fe_params)[k:] * scale, _covariance(fitted)[k:, k:] * scale**2
    return Slopes(
        _with_slopes(table, enough, (estimate, covariance)), *_equal(estimate, covariance), random, True
    )


def _counts(subject: Array, codes: Array, time: Array, k: int) -> pd.DataFrame:
    """By cluster, the number of subjects with several times, and the number of visits."""
    rows = pd.DataFrame({"subject": subject, "cluster": codes, "time": time})
    times = rows.groupby(["cluster", "subject"])["time"]
    several = times.max() > times.min()
    subjects = several.groupby(level="cluster").sum().reindex(range(k), fill_value=0)
    visits = rows.groupby("cluster").size().reindex(range(k), fill_value=0)
    return pd.DataFrame({"subjects": subjects.astype(int), "visits": visits.astype(int)})


def _design(codes: Array, time: Array, clusters: Array) -> Array:
    """Fixed effects (m, 2k): an indicator of each cluster, then the same times time."""
    indicator = (codes[:, None] == clusters).astype(float)
    return np.hstack([indicator, indicator * time[:, None]])


def _fitted(y: Array, design: Array, time: Array, groups: Array) -> tuple[Any, str]:
    """The fitted mixed model, or None where none converges, and its random effects."""
    from statsmodels.regression.mixed_linear_model import MixedLM

    ones = np.ones((len(y), 1))
    for random, effects in ((INTERCEPT_AND_SLOPE, np.hstack([ones, time[:, None]])), (INTERCEPT, ones)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # on convergence, which is checked
            try:
                found = MixedLM(y, design, groups, exog_re=effects).fit(reml=True, method="lbfgs")
            except (np.linalg.LinAlgError, ValueError):
                continue
        if (
            found.converged
            and np.isfinite(_covariance(found)).all()
            and (np.diag(_covariance(found)) > 0).all()
        ):
            return found, random
    return None, INTERCEPT


def _covariance(fitted: Any) -> Array:
    """Covariance of the fixed effects."""
    p = len(fitted.fe_params)
    return np.asarray(fitted.cov_params())[:p, :p]


def _with_slopes(table: pd.DataFrame, enough: Array, found: tuple[Array, Array] | None) -> pd.DataFrame:
    """The table of counts with slopes and their intervals."""
    slope, error = np.full(len(table), np.nan), np.full(len(table), np.nan)
    if found is not None:
        slope[enough], error[enough] = found[0], np.sqrt(np.diag(found[1]))
    return pd.DataFrame(
        {"slope": slope, "low": slope - Z * error, "high": slope + Z * error}, index=table.index
    ).join(table)


def _equal(estimate: Array, covariance: Array) -> tuple[float, int, float]:
    """Wald test that all slopes are equal: ``(C b)^T (C V C^T)^-1 (C b)`` for differences C of neighbours."""
    k = len(estimate)
    if k < 2:
        return np.nan, 0, np.nan
    contrast = np.eye(k)[:-1] - np.eye(k)[1:]
    difference = contrast @ estimate
    statistic = float(difference @ np.linalg.solve(contrast @ covariance @ contrast.T, difference))
    return statistic, k - 1, float(stats.chi2.sf(statistic, k - 1))
