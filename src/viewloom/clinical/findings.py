"""Tests between groups of subjects, with effect sizes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from viewloom.clinical.intervals import (
    UNKNOWN,
    cliffs_delta_interval,
    cramers_v_interval,
    epsilon_squared_interval,
)
from viewloom.clinical.release import P, PClass, rounded_p

Array = np.ndarray
# Cochran: chi-square is valid if at most a fifth of the expected counts are below 5, and none below 1
SMALL_EXPECTED, SMALL_SHARE, LEAST_EXPECTED = 5.0, 0.2, 1.0
DRAWS, BATCH, SEED = 9999, 1000, 0  # random tables for Fisher's test beyond 2 x 2


@dataclass(frozen=True)
class Finding:
    """A test with its statistic, p-value, effect size and the 95 % interval of the effect."""

    test: str
    statistic: float
    p: float
    effect: float
    low: float
    high: float


def kruskal_wallis(groups: Sequence[Array]) -> Finding:
    """Kruskal-Wallis test with epsilon squared, ``H / (n - 1)``."""
    H, p = stats.kruskal(*groups)
    n = sum(map(len, groups))
    interval = epsilon_squared_interval(float(H), n, len(groups))
    return Finding("Kruskal-Wallis", float(H), float(p), float(H / (n - 1)), *interval)


def mann_whitney(groups: Sequence[Array]) -> Finding:
    """Mann-Whitney test with Cliff's delta, ``2 U / (n m) - 1``."""
    first, second = groups
    U, p = stats.mannwhitneyu(first, second)
    delta = float(2.0 * U / (len(first) * len(second)) - 1.0)
    return Finding("Mann-Whitney", float(U), float(p), delta, *cliffs_delta_interval(first, second))


def chi_square_or_fisher(groups: Sequence[Array]) -> Finding:
    """Chi-square test, or Fisher's exact test if expected counts are small, with Cramer's V."""
    levels = sorted({value for group in groups for value in group})
    counts = np.array([[np.sum(group == level) for group in groups] for level in levels])
    if len(levels) < 2:
        return Finding("chi-square", 0.0, 1.0, 0.0, *UNKNOWN)
    chi2, p, _, expected = stats.chi2_contingency(counts, correction=False)
    effect = (cramers_v(float(chi2), counts), *cramers_v_interval(float(chi2), counts))
    if chi_square_is_valid(expected):
        return Finding("chi-square", float(chi2), float(p), *effect)
    if counts.shape == (2, 2):
        odds, p = stats.fisher_exact(counts)
        return Finding("Fisher exact", float(odds), float(p), *effect)
    return Finding("Fisher exact", np.nan, _fisher(counts), *effect)


def chi_square_is_valid(expected: Array) -> bool:
    """Whether expected counts are large enough for the chi-square test (Cochran)."""
    return bool(expected.min() >= LEAST_EXPECTED and np.mean(expected < SMALL_EXPECTED) <= SMALL_SHARE)


def _fisher(counts: Array) -> float:
    """Share of random tables with the same margins that are at most as likely as this one."""
    tables = stats.random_table(counts.sum(axis=1), counts.sum(axis=0))
    bound = tables.logpmf(counts) + 1e-7
    drawn = random_tables(counts, np.random.default_rng(SEED))
    rare = sum(int((tables.logpmf(part) <= bound).sum()) for part in np.array_split(drawn, DRAWS // BATCH))
    return (rare + 1) / (DRAWS + 1)


def random_tables(counts: Array, rng: np.random.Generator) -> Array:
    """Random tables with the margins of this one."""
    tables = stats.random_table(counts.sum(axis=1), counts.sum(axis=0))
    sizes = [min(BATCH, DRAWS - start) for start in range(0, DRAWS, BATCH)]
    return np.concatenate([tables.rvs(size, random_state=rng) for size in sizes])


def cramers_v(chi2: float, counts: Array) -> float:
    """Cramer's V, corrected for its bias in small samples (Bergsma 2013).

    >>> round(cramers_v(20.0, np.full((2, 2), 20)), 3)
    0.49
    """
    n, (r, c) = counts.sum(), counts.shape
    phi2 = max(0.0, chi2 / n - (r - 1) * (c - 1) / (n - 1))
    least = min(r - (r - 1) ** 2 / (n - 1), c - (c - 1) ** 2 / (n - 1)) - 1
    return float(np.sqrt(phi2 / least)) if least > 0 else 0.0


def chi_squares(tables: Array) -> Array:
    """Chi-square of each table; empty rows and columns do not count."""
    rows, columns = tables.sum(axis=2)[:, :, None], tables.sum(axis=1)[:, None, :]
    expected = np.maximum(rows * columns, 1)
    return np.asarray(tables.sum(axis=(1, 2)) * ((tables**2 / expected).sum(axis=(1, 2)) - 1.0))


def cramers_vs(tables: Array) -> Array:
    """Cramer's V of each table, as `cramers_v`."""
    n = np.maximum(tables.sum(axis=(1, 2)), 2)
    r, c = ((tables.sum(axis=axis) > 0).sum(axis=1) for axis in (2, 1))
    phi2 = np.maximum(0.0, chi_squares(tables) / n - (r - 1) * (c - 1) / (n - 1))
    least = np.minimum(r - (r - 1) ** 2 / (n - 1), c - (c - 1) ** 2 / (n - 1)) - 1
    return np.asarray(np.where(least > 0, np.sqrt(phi2 / np.where(least > 0, least, 1.0)), 0.0))


def holm(p: Array) -> Array:
    """P-values adjusted by Holm's step-down method.

    >>> holm(np.array([0.01, 0.04, 0.03])).round(3).tolist()
    [0.03, 0.06, 0.06]
    """
    order = np.argsort(p, kind="stable")
    steps = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    corrected = np.empty(len(p))
    corrected[order] = np.minimum(steps, 1.0)
    return corrected


def p_text(p: P, letter: str = "p") -> str:
    """A p-value or q-value as text, with two digits; only its class if that is all that may be shown.

    >>> from viewloom.clinical.release import coarse_p
    >>> p_text(0.0421), p_text(0.3387), p_text(1e-9, "q"), p_text(coarse_p(0.02)), p_text(float("nan"))
    ('p = 0.042', 'p = 0.34', 'q < 0.001', 'p < 0.05', 'p not valid')
    """
    if isinstance(p, PClass):
        return f"{letter} {p.text[0]} {p.text[1:]}"
    if np.isnan(p):
        return f"{letter} not valid"
    near = rounded_p(p)
    return f"{letter} < 0.001" if near < 0.001 else f"{letter} = {near:.{2 if near >= 0.1 else 3}f}"


COMPARED = {"numeric": kruskal_wallis, "categorical": chi_square_or_fisher}
COMPARED_PAIRS = {"numeric": mann_whitney, "categorical": chi_square_or_fisher}
