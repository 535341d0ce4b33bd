"""Cox regression of the time to an event on clusters, and a check of proportional hazards."""

from __future__ import annotations

import warnings
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from viewloom.clinical.findings import holm
from viewloom.clinical.regression import Z95, check_installed, covariate_columns
from viewloom.clinical.survival import check_follow_up
from viewloom.clinical.variables import as_numbers, clusters_of
from viewloom.data.matching import matched_values, row_index
from viewloom.runtime.errors import InputError

Array = np.ndarray
REST = "rest"
LEAST_SUBJECTS, LEAST_EVENTS = 10, 5  # of a cluster, and of those that it is compared with
LARGEST = 12.0  # log hazard ratio beyond which a group has no events, or all of them
SINGULAR = 1e-9  # least eigenvalue of the covariance of a score, for standardised columns
COLUMNS = ["cluster", "against", "hazard_ratio", "low", "high", "p", "p_holm", "ph_p", "n", "events", "note"]


@dataclass(frozen=True, eq=False)
class Hazards:
    """Hazard ratios of clusters; see `hazards`.

    Attributes
    ----------
    table : DataFrame
        One row per cluster: ``cluster``, ``against``, ``hazard_ratio`` with its 95 % interval ``low`` to
        ``high``, ``p`` (likelihood ratio), ``p_holm``, ``ph_p`` (check that the ratio does not change with
        time), ``n``, ``events``, and a ``note`` where there is no estimate.
    statistic, df, p : float, int, float
        Likelihood-ratio test of all clusters at once, given the covariates.
    ph_p : float
        Check of proportional hazards for all clusters at once.
    covariates : list of str
    subjects, events : int
    """

    table: pd.DataFrame
    statistic: float
    df: int
    p: float
    ph_p: float
    covariates: list[str]
    subjects: int
    events: int


def hazards(
    labels: Any,
    time: Any,
    event: Any,
    participants: pd.DataFrame | None = None,
    covariates: Collection[str] = (),
    *,
    categorical: Collection[str] = (),
    against: Any = REST,
) -> Hazards:
    """Hazard ratios of clusters by Cox regression, with a check of proportional hazards.

    Parameters
    ----------
    labels : (n,) array
    time, event : (n,) arrays
        As for `conversion`; subjects with missing values are left out.
    participants : DataFrame, optional
        With the covariates.
    covariates, categorical : collection of str
        Columns of `participants`, and those that contain codes rather than numbers.
    against : "rest" or a cluster
        Compare each cluster with all other subjects, or with a reference cluster.

    Returns
    -------
    Hazards

    Raises
    ------
    MissingPackageError
        Without statsmodels (``pip install viewloom[stats]``).

    Notes
    -----
    Ties are handled by Efron's method. Clusters with fewer than 10 subjects or 5 events are not estimated.

    Examples
    --------
    >>> time = [6, 6, 6, 7, 10, 13, 16, 22, 23, 6, 9, 10, 11, 17, 19, 20, 25, 32, 32, 34, 35]
    >>> time += [1, 1, 2, 2, 3, 4, 4, 5, 5, 8, 8, 8, 8, 11, 11, 12, 12, 15, 17, 22, 23]
    >>> found = hazards(["6-MP"] * 21 + ["placebo"] * 21, time, [1] * 9 + [0] * 12 + [1] * 21)
    >>> found.table.loc[1, ["hazard_ratio", "low", "high"]].astype(float).round(2).tolist()
    [4.82, 2.15, 10.81]
    """
    check_installed("Cox regression needs")
    times, events, codes, clusters, Z = _complete(labels, time, event, participants, covariates, categorical)
    if against is not REST and against not in clusters:
        raise InputError(f"No subject is in cluster {against!r}, the reference.")
    rows = [
        _row(times, events, codes == j, _compared(codes, clusters, j, against), Z)
        | {"cluster": cluster, "against": against}
        for j, cluster in enumerate(clusters)
        if against is REST or cluster != against
    ]
    table = pd.DataFrame(rows, columns=pd.Index(COLUMNS))
    known = table["p"].notna().to_numpy()
    table["p_holm"] = np.nan
    table.loc[known, "p_holm"] = holm(table["p"].to_numpy(dtype=float)[known])
    statistic, df, p, ph = overall_hazards(times, events, codes, Z)
    return Hazards(table, statistic, df, p, ph, list(covariates), len(times), int(events.sum()))


def proportionality(
    X: Array, time: Array, event: Array, beta: Array, together: int | None = None
) -> tuple[Array, float]:
    """Check of proportional hazards: score tests of the products of columns with a function of time.

    Let ``r_i = x_i - xbar(t_i)`` be the Schoenfeld residuals of the events, where xbar is the mean and
    ``V_i`` the covariance of the subjects at risk, weighted by their hazards, and ``g_i = 1 - KM(t_i)``,
    centred. At the fitted coefficients the score of the products is ``U = sum_i g_i r_i``, with the
    covariance ``C = sum g_i^2 V_i - sum g_i V_i (sum V_i)^-1 sum g_i V_i``. The statistic of columns J is
    ``U_J C_JJ^-1 U_J``. (Grambsch and Therneau, 1994, replace ``V_i`` by their mean.)

    Parameters
    ----------
    X : (n, q) array
    time, event : (n,) arrays
    beta : (q,) array
        Fitted coefficients.
    together : int, optional
        Number of columns, from the first, that are tested together; all by default.

    Returns
    -------
    (q,) array, float
        P-values of every column, and of those together.
    """
    g = 1.0 - _kaplan_meier_before(time, event, time[event])
    if len(g) < 2 or np.ptp(g) <= 0.0:
        return np.full(X.shape[1], np.nan), float("nan")
    g = g - g.mean()
    residuals, V = schoenfeld(X, time, event, np.asarray(beta))
    scale = np.where(X.std(axis=0) > 0.0, X.std(axis=0), 1.0)  # p-values do not depend on it
    U = g @ residuals / scale
    moments = [np.tensordot(g**power, V, axes=1) / np.outer(scale, scale) for power in range(3)]
    C = moments[2] - moments[1] @ np.linalg.pinv(moments[0], rcond=SINGULAR, hermitian=True) @ moments[1]
    q = X.shape[1] if together is None else together
    single = [_score_p(U[j : j + 1], C[j : j + 1, j : j + 1]) for j in range(X.shape[1])]
    return np.array(single), _score_p(U[:q], C[:q, :q])


def _score_p(U: Array, C: Array) -> float:
    """P-value of ``U C^-1 U``; NaN where few events leave C singular."""
    if np.linalg.eigvalsh(C)[0] <= SINGULAR:
        return float("nan")
    return float(stats.chi2.sf(U @ np.linalg.solve(C, U), len(U)))


def schoenfeld(X: Array, time: Array, event: Array, beta: Array) -> tuple[Array, Array]:
    """Schoenfeld residuals of the events (d, q), in the order of the subjects, and covariances at risk.

    Sums over the subjects at risk are cumulative sums from the last time on, so that memory is linear.
    """
    order = np.argsort(time, kind="stable")[::-1]
    Y = X - X.mean(axis=0)
    risk = np.exp(Y @ beta)[order]
    sums = [np.cumsum(risk), np.cumsum(risk[:, None] * Y[order], axis=0)]
    sums.append(np.cumsum(risk[:, None, None] * Y[order, :, None] * Y[order, None, :], axis=0))
    last = len(time) - 1 - np.searchsorted(time[order][::-1], time[event], "left")  # of those at risk
    total, mean, square = (part[last] for part in sums)
    mean, square = mean / total[:, None], square / total[:, None, None]
    return Y[event] - mean, square - mean[:, :, None] * mean[:, None, :]


def _kaplan_meier_before(time: Array, event: Array, at: Array) -> Array:
    """Kaplan-Meier estimate just before given times."""
    steps, deaths = np.unique(time[event], return_counts=True)
    at_risk = len(time) - np.searchsorted(np.sort(time), steps, "left")
    survival = np.cumprod(1.0 - deaths / at_risk)
    return np.concatenate([[1.0], survival])[np.searchsorted(steps, at, "left")]


def _complete(
    labels: Any,
    time: Any,
    event: Any,
    participants: pd.DataFrame | None,
    covariates: Collection[str],
    categorical: Collection[str],
) -> tuple[Array, Array, Array, list[Any], Array]:
    """Subjects with everything known: times, events, clusters and columns of covariates."""
    ids = row_index(time)
    events = as_numbers(matched_values(event, ids, "event", "time"))
    times = as_numbers(time)
    check_follow_up(times, events)
    clusters, codes = clusters_of(labels, len(times), ids)
    Z, known = np.empty((len(times), 0)), np.ones(len(times), dtype=bool)
    if covariates:
        if participants is None or len(participants) != len(times):
            raise InputError("Covariates need the participants, with one row per time.")
        absent = [name for name in covariates if name not in participants]
        if absent:
            raise InputError(f"The participants have no column {absent[0]!r}.")
        Z, known = covariate_columns(participants, list(covariates), categorical)
    rows = known & np.isfinite(times) & np.isfinite(events)
    return times[rows], events[rows] == 1, codes[rows], clusters, Z[rows]


def _compared(codes: Array, clusters: list[Any], j: int, against: Any) -> Array:
    """Mask of the subjects of a comparison."""
    if against is REST:
        return np.ones(len(codes), dtype=bool)
    return np.asarray((codes == j) | (codes == clusters.index(against)))


def _row(time: Array, event: Array, inside: Array, rows: Array, Z: Array) -> dict[str, Any]:
    counts = {"n": int(inside.sum()), "events": int((inside & event).sum())}
    empty = dict.fromkeys(("hazard_ratio", "low", "high", "p", "ph_p"), np.nan)
    groups = [rows & inside, rows & ~inside]
    few = min(int(group.sum()) for group in groups) < LEAST_SUBJECTS
    if few or min(int((group & event).sum()) for group in groups) < LEAST_EVENTS:
        note = f"fewer than {LEAST_SUBJECTS} subjects or {LEAST_EVENTS} events"
        return {**empty, **counts, "note": note}
    x = inside[rows].astype(float)[:, None]
    found, without = _cox(time[rows], event[rows], x, Z[rows])
    if found is None:
        return {**empty, **counts, "note": "no estimate: a covariate determines the cluster"}
    b, error = float(found.params[0]), float(found.bse[0])
    p = float(stats.chi2.sf(max(2.0 * (found.llf - without), 0.0), 1))
    single, _ = proportionality(found.model.exog, time[rows], event[rows], found.params)
    numbers = {"hazard_ratio": np.exp(b), "low": np.exp(b - Z95 * error), "high": np.exp(b + Z95 * error)}
    return {**numbers, "p": p, "ph_p": float(single[0]), **counts, "note": ""}


def overall_hazards(time: Array, event: Array, codes: Array, Z: Array) -> tuple[float, int, float, float]:
    """Likelihood-ratio test of all clusters with enough events, and the check of proportional hazards."""
    enough = [
        j
        for j in np.unique(codes)
        if (codes == j).sum() >= LEAST_SUBJECTS and (event & (codes == j)).sum() >= LEAST_EVENTS
    ]
    rows = np.isin(codes, enough)
    k = len(enough) - 1
    if k < 1:
        return np.nan, 0, np.nan, np.nan
    X = (codes[rows][:, None] == np.array(enough)[1:]).astype(float)
    found, without = _cox(time[rows], event[rows], X, Z[rows])
    if found is None:
        return np.nan, k, np.nan, np.nan
    statistic = max(2.0 * (float(found.llf) - without), 0.0)
    _, together = proportionality(found.model.exog, time[rows], event[rows], found.params, k)
    return statistic, k, float(stats.chi2.sf(statistic, k)), together


def _cox(time: Array, event: Array, X: Array, Z: Array) -> tuple[Any, float]:
    """A fitted Cox regression, None where it cannot be estimated, and the log-likelihood without clusters."""
    from statsmodels.duration.hazard_regression import PHReg

    Z = Z[:, Z.std(axis=0) > 0] if len(Z) else Z
    design = np.column_stack([X, Z])
    if np.linalg.matrix_rank(design - design.mean(axis=0)) < design.shape[1]:
        return None, np.nan
    status = event.astype(int)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # on convergence, which is checked
        try:
            found = PHReg(time, design, status=status, ties="efron").fit(disp=0)
            without = _without(PHReg, time, status, Z, design)
        except (np.linalg.LinAlgError, ValueError):
            return None, np.nan
    usable = np.isfinite(found.bse).all() and (np.abs(np.asarray(found.params)) < LARGEST).all()
    return (found if usable else None), without


def _without(model: Any, time: Array, status: Array, Z: Array, design: Array) -> float:
    """The log-likelihood of the covariates alone; without covariates, that of no effect."""
    if Z.shape[1]:
        return float(model(time, Z, status=status, ties="efron").fit(disp=0).llf)
    return float(model(time, design, status=status, ties="efron").loglike(np.zeros(design.shape[1])))
