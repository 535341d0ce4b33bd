"""Confidence intervals of effect sizes, in closed form or by inversion of noncentral distributions."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy import optimize, stats

Array = np.ndarray
CONFIDENCE = 0.95
TAIL = (1.0 - CONFIDENCE) / 2.0
LARGEST = 1e7  # noncentrality that is searched
UNKNOWN = (float("nan"), float("nan"))


def epsilon_squared_interval(H: float, n: int, k: int) -> tuple[float, float]:
    """95 % interval of epsilon squared, ``H / (n - 1)``, of a Kruskal-Wallis test of k groups.

    Epsilon squared is the share of the variance of the ranks between groups. The interval is that of eta
    squared of an analysis of variance of the ranks: the noncentrality of F is inverted, and
    ``eta^2 = lambda / (lambda + n)`` (Steiger 2004).

    >>> [round(bound, 2) for bound in epsilon_squared_interval(20.0, 100, 3)]
    [0.07, 0.33]
    """
    within = n - 1.0 - H
    if n <= k or k < 2 or within <= 1e-9 * n:
        return UNKNOWN
    F = (H / (k - 1)) / (within / (n - k))
    bounds = _noncentrality(lambda size: float(stats.ncf.sf(F, k - 1, n - k, size)))
    return bounds[0] / (bounds[0] + n), bounds[1] / (bounds[1] + n)


def cramers_v_interval(chi2: float, counts: Array) -> tuple[float, float]:
    """95 % interval of Cramer's V: ``sqrt(lambda / (n (min(r, c) - 1)))`` (Smithson 2003).

    Lambda is the noncentrality of the chi-square statistic.

    >>> [round(bound, 2) for bound in cramers_v_interval(20.0, np.full((2, 2), 20))]
    [0.28, 0.72]
    """
    n, (r, c) = float(counts.sum()), counts.shape
    if min(r, c) < 2:
        return UNKNOWN
    df = (r - 1) * (c - 1)
    low, high = _noncentrality(lambda size: float(stats.ncx2.sf(chi2, df, size)))
    most = n * (min(r, c) - 1)
    return float(np.sqrt(low / most)), float(min(np.sqrt(high / most), 1.0))


def _noncentrality(tail: Callable[[float], float]) -> tuple[float, float]:
    """Noncentralities at which the upper tail of the observed statistic is 2.5 % and 97.5 %."""
    central = tail(1e-12)
    low, high = (
        0.0 if central >= share else _solved(lambda size, share=share: tail(size) - share)  # type: ignore[misc]
        for share in (TAIL, 1.0 - TAIL)
    )
    return low, high


def _solved(difference: Callable[[float], float]) -> float:
    """The root of an increasing function of a noncentrality."""
    high = 10.0
    while difference(high) < 0.0 and high < LARGEST:
        high *= 3.0
    return float(optimize.brentq(difference, 1e-12, high)) if difference(high) >= 0.0 else float("nan")


def cliffs_delta_interval(first: Array, second: Array) -> tuple[float, float]:
    """95 % interval of Cliff's delta, asymmetric and inside -1 to 1 (Feng and Cliff 2004).

    With the dominances ``d_ij = sign(x_i - y_j)``, their means ``d_i.`` of each x, ``d_.j`` of each y and
    ``d`` of all, the variance of d is ``s^2 = (m^2 sum_i (d_i. - d)^2 + n^2 sum_j (d_.j - d)^2 - sum_ij
    (d_ij - d)^2) / (n m (n - 1) (m - 1))``, and the bounds are ``(d - d^3 -+ z s sqrt((1 - d^2)^2 + z^2
    s^2)) / (1 - d^2 + z^2 s^2)``.

    >>> [round(bound, 2) for bound in cliffs_delta_interval(np.arange(10.0), np.arange(3.0, 13.0))]
    [-0.8, -0.03]
    """
    n, m = len(first), len(second)
    if min(n, m) < 2:
        return UNKNOWN
    rows, columns = _dominance(first, second), -_dominance(second, first)
    d = float(rows.mean())
    ties = _ties(first, second)
    spread = (n * m - ties) - n * m * d**2  # sum_ij (d_ij - d)^2
    found = m**2 * ((rows - d) ** 2).sum() + n**2 * ((columns - d) ** 2).sum() - spread
    least = (1.0 - d**2) / (n * m - 1)
    s2 = max(found / (n * m * (n - 1) * (m - 1)), least)
    z = float(stats.norm.ppf(1.0 - TAIL))
    below = 1.0 - d**2 + z**2 * s2
    if below <= 0.0:
        return UNKNOWN
    reach = z * np.sqrt(s2) * np.sqrt((1.0 - d**2) ** 2 + z**2 * s2)
    centre = d - d**3
    return float(max((centre - reach) / below, -1.0)), float(min((centre + reach) / below, 1.0))


def _dominance(values: Array, others: Array) -> Array:
    """For each value, the share of the others below it minus the share above it."""
    ordered = np.sort(others)
    below = np.searchsorted(ordered, values, "left")
    above = len(others) - np.searchsorted(ordered, values, "right")
    return np.asarray((below - above) / len(others))


def _ties(values: Array, others: Array) -> int:
    ordered = np.sort(others)
    return int((np.searchsorted(ordered, values, "right") - np.searchsorted(ordered, values, "left")).sum())
