"""Tests between groups of subjects, with effect sizes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

Array = np.ndarray
# Cochran: chi-square is valid if at most a fifth of the expected counts are below 5, and none below 1
SMALL_EXPECTED, SMALL_SHARE, LEAST_EXPECTED = 5.0, 0.2, 1.0
DRAWS, BATCH, SEED = 9999, 1000, 0  # random tables for Fisher's test beyond 2 x 2


@dataclass(frozen=True)
class Finding:
    """A test with its statistic, p-value and effect size."""

    test: str
    statistic: float
    p: float
    effect: float


def kruskal_wallis(groups: Sequence[Array]) -> Finding:
    """Kruskal-Wallis test with epsilon squared, ``H / (n - 1)``."""
    H, p = stats.kruskal(*groups)
    return Finding("Kruskal-Wallis", float(H), float(p), float(H / (sum(map(len, groups)) - 1)))


def mann_whitney(groups: Sequence[Array]) -> Finding:
    """Mann-Whitney test with Cliff's delta, ``2 U / (n m) - 1``."""
    first, second = groups
    U, p = stats.mannwhitneyu(first, second)
    return Finding("Mann-Whitney", float(U), float(p), float(2.0 * U / (len(first) * len(second)) - 1.0))


def chi_square_or_fisher(groups: Sequence[Array]) -> Finding:
    """Chi-square test, or Fisher's exact test if expected counts are small, with Cramer's V."""
    levels = sorted({value for group in groups for value in group})
    counts = np.array([[np.sum(group == level) for group in groups] for level in levels])
    if len(levels) < 2:
        return Finding("chi-square", 0.0, 1.0, 0.0)
    chi2, p, _, expected = stats.chi2_contingency(counts, correction=False)
    effect = cramers_v(float(chi2), counts)
    if expected.min() >= LEAST_EXPECTED and np.mean(expected < SMALL_EXPECTED) <= SMALL_SHARE:
        return Finding("chi-square", float(chi2), float(p), effect)
    if counts.shape == (2, 2):
        odds, p = stats.fisher_exact(counts)
        return Finding("Fisher exact", float(odds), float(p), effect)
    return Finding("Fisher exact", np.nan, _fisher(counts), effect)


def _fisher(counts: Array) -> float:
    """Share of random tables with the same margins that are at most as likely as this one."""
    tables = stats.random_table(counts.sum(axis=1), counts.sum(axis=0))
    bound = tables.logpmf(counts) + 1e-7
    rng = np.random.default_rng(SEED)
    sizes = [min(BATCH, DRAWS - start) for start in range(0, DRAWS, BATCH)]
    rare = sum(int((tables.logpmf(tables.rvs(size, random_state=rng)) <= bound).sum()) for size in sizes)
    return (rare + 1) / (DRAWS + 1)


def cramers_v(chi2: float, counts: Array) -> float:
    """Cramer's V, corrected for its bias in small samples (Bergsma 2013).

    >>> round(cramers_v(20.0, np.full((2, 2), 20)), 3)
    0.49
    """
    n, (r, c) = counts.sum(), counts.shape
    phi2 = max(0.0, chi2 / n - (r - 1) * (c - 1) / (n - 1))
    least = min(r - (r - 1) ** 2 / (n - 1), c - (c - 1) ** 2 / (n - 1)) - 1
    return float(np.sqrt(phi2 / least)) if least > 0 else 0.0


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


def p_text(p: float, letter: str = "p") -> str:
    """A p-value or q-value as text.

    >>> p_text(0.0421), p_text(1e-9, "q")
    ('p = 0.042', 'q < 0.001')
    """
    return f"{letter} < 0.001" if p < 0.001 else f"{letter} = {p:.3f}"


COMPARED = {"numeric": kruskal_wallis, "categorical": chi_square_or_fisher}
COMPARED_PAIRS = {"numeric": mann_whitney, "categorical": chi_square_or_fisher}
