"""Tests of clinical variables as they may be published, beside tables with hidden counts or means."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from viewloom.clinical.release import (
    ALPHA,
    DECIMALS,
    FEW_VALUES,
    P,
    coarse_p,
    interval_decimals,
    rounded,
    rounded_p,
    withheld,
)
from viewloom.clinical.shown import Hidden
from viewloom.clinical.statistics import Precision, precision
from viewloom.clinical.variables import Variable, clusters_of, variables_of

Array = np.ndarray
MISSING = "(missing)"
MEAN, MEDIAN = "mean (SD)", "median"
NOTHING = Precision(None, None, classes=False, exact=False)
CLASS_ONLY = Precision(None, None, classes=True, exact=False)
FEW = Precision(1, None, classes=True, exact=False)
RATIOS = ("odds ratio", "hazard ratio")


def precisions(
    labels: Any,
    participants: pd.DataFrame,
    profile: pd.DataFrame,
    min_cell: int,
    *,
    categorical: Iterable[str] = (),
    agreement: str | None = None,
) -> dict[str, Precision]:
    """How precisely the statistics of each variable may be shown beside its profile.

    Parameters
    ----------
    labels : (n,) array
    participants : DataFrame
    profile : DataFrame
        Of `described`. All counts of variables that it lacks are taken as hidden.
    min_cell : int
    categorical : iterable of str
        Columns that contain codes rather than numbers.
    agreement : str, optional
        The variable whose agreement with the clusters is shown, too.
    """
    clusters, codes = clusters_of(labels, len(participants), participants.index)
    described = set(profile.index.get_level_values("variable"))
    found = {}
    for variable, _ in variables_of(participants, categorical):
        part: Any = profile.xs(variable.name, level="variable") if variable.name in described else None
        if variable.kind == "numeric":
            found[variable.name] = _of_means(variable, codes, len(clusters), part, min_cell)
        else:
            shared = variable.name == agreement
            found[variable.name] = _of_counts(variable, codes, len(clusters), part, min_cell, shared)
    return found


def small_groups(variable: Variable, codes: Array, k: int, min_cell: int) -> bool:
    """Whether a cluster has few known values of a variable, or few subjects with one of its values.

    Missing values are a value of categories. Numbers with few distinct values are seen as categories, since
    their statistics tell counts.
    """
    values = variable.data
    if variable.kind == "numeric":
        few = len(np.unique(values[variable.known])) <= FEW_VALUES
        values, codes = (values if few else variable.known)[variable.known], codes[variable.known]
    levels, at = np.unique(values.astype(str), return_inverse=True)
    counts = np.zeros((max(len(levels), 1), k), dtype=int)
    np.add.at(counts, (at, codes), 1)
    return bool((counts < min_cell).any())


def _of_means(
    variable: Variable, codes: Array, k: int, part: pd.DataFrame | None, min_cell: int
) -> Precision:
    """Without hidden means everything; an effect would otherwise give the hidden means."""
    if part is None or MEAN not in part.index:
        return replace(CLASS_ONLY, counted=bool(variable.known.all()))
    counted = not any(isinstance(cell, Hidden) for cell in part.drop(index=[MEAN, MEDIAN]).to_numpy().ravel())
    if _has_withheld(variable, codes, part, k, min_cell):
        return replace(CLASS_ONLY, counted=counted)
    return replace(FEW if small_groups(variable, codes, k, min_cell) else Precision(), counted=counted)


def _has_withheld(variable: Variable, codes: Array, part: pd.DataFrame, k: int, min_cell: int) -> bool:
    """Whether means are hidden for another reason than that all would be rounded too much."""
    secret = [isinstance(cell, Hidden) for cell in part.loc[MEAN]]
    small = withheld(np.bincount(codes[variable.known], minlength=k), min_cell)
    return any(secret) and (bool(small.any()) or not all(secret))


def _of_counts(
    variable: Variable, codes: Array, k: int, part: pd.DataFrame | None, min_cell: int, agreement: bool
) -> Precision:
    levels = sorted(set(variable.data[variable.known]))
    masks = [np.asarray(variable.data == level) for level in levels]
    if not variable.known.all():
        masks.append(~variable.known)
    counts = np.array([np.bincount(codes[mask], minlength=k) for mask in masks]).reshape(-1, k)
    if part is None:
        return precision(counts, np.full(counts.shape, min_cell > 1), min_cell, len(levels), agreement, 0)
    cells = part.to_numpy()[:, :k]
    if len(cells) != len(counts):  # a category is called as missing values are
        return NOTHING
    secret = np.array([[isinstance(cell, Hidden) for cell in row] for row in cells])
    unbounded = any(isinstance(cell, Hidden) and not cell.sign for cell in cells.ravel())
    found = precision(counts, secret, min_cell, len(levels), agreement, 0 if unbounded else min_cell)
    return replace(found, counted=not secret[len(levels) :].any())


def published_associations(table: pd.DataFrame, known: Mapping[str, Precision]) -> pd.DataFrame:
    """`associations` with the digits that may be shown; NaN and classes where hidden numbers ask for it.

    >>> raw = pd.DataFrame({"variable": ["a", "b"], "effect": [0.12345, 0.2], "p": [0.012345, 0.03]})
    >>> raw = raw.assign(q=raw["p"], statistic=3.21)
    >>> shown = published_associations(raw, {"a": Precision(), "b": CLASS_ONLY})
    >>> shown["effect"].tolist(), shown["p"].tolist()
    ([0.12, nan], [0.012, PClass(text='<0.05')])

    Intervals are shown for variables without hidden numbers only. Where the number of values is hidden, and
    the interval would tell it, there is none, and of p only the class.
    """
    exact = [_without_number(row, known.get(row["variable"], NOTHING)) for row in table.to_dict("records")]
    effects = [shown_effect(value, one) for value, one in zip(table["effect"], exact, strict=True)]
    shown = table.drop(columns="statistic", errors="ignore").assign(effect=np.array(effects, dtype=float))
    shown = _with_intervals(shown, [one.exact for one in exact])
    for name in ("p", "q"):
        values: Any = [shown_p(value, one) for value, one in zip(table[name], exact, strict=True)]
        shown = shown.assign(**{name: values})
    shown.attrs = dict(table.attrs)
    return shown


def published_explanations(table: pd.DataFrame, n: int) -> pd.DataFrame:
    """`explanations` of n subjects, without intervals that tell how many values of a variable are known."""
    bounds = zip(table["low"], table["high"], table["n"], strict=True)
    secret = np.array(
        [known < n and tells_number(low, high, known) for low, high, known in bounds], dtype=bool
    )
    return table.assign(low=table["low"].mask(secret), high=table["high"].mask(secret))


def tells_number(low: float, high: float, n: int) -> bool:
    """Whether an interval with two decimals tells the number of subjects behind it, if that is hidden.

    >>> tells_number(0.08, 0.52, 55), tells_number(0.16, 0.34, 240)
    (True, False)
    """
    return interval_decimals(low, high, n) < DECIMALS


def _without_number(row: Mapping[Any, Any], known: Precision) -> Precision:
    """The precision of a test; less where the number of values is hidden, and the interval tells it."""
    if known.counted or "low" not in row or not tells_number(row["low"], row["high"], row["n"]):
        return known
    return replace(known, exact=False)


def published_pairs(table: pd.DataFrame, known: Mapping[str, Precision]) -> pd.DataFrame:
    """`pairwise` with the digits that may be shown; of variables with hidden numbers, what is significant.

    The numbers of subjects are not shown.
    """
    least = table[["n", "n_other"]].min(axis=1)
    rows = [
        _single(row, known.get(row["variable"], NOTHING), int(n), "difference")
        for row, n in zip(table.to_dict("records"), least, strict=True)
    ]
    return _as_table(rows, table.drop(columns=["n", "n_other"]))


def published_adjusted(
    table: pd.DataFrame, known: Mapping[str, Precision], covariates: Iterable[str] = ()
) -> pd.DataFrame:
    """Effects of `adjusted_effects` with the digits that may be shown.

    Variables with hidden counts or means have none. Where the number of missing values of a variable or a
    covariate is hidden in a cluster, intervals are rounder, or are not shown with odds ratios.
    """
    counted = all(known.get(name, NOTHING).counted for name in covariates)
    exact = np.array([known.get(name, NOTHING).exact for name in table["variable"]], dtype=bool)
    shown = table[exact]
    least = np.minimum(shown["n"], shown.groupby("variable")["n"].transform("sum") - shown["n"])
    rows = []
    for row, n in zip(shown.to_dict("records"), least, strict=True):
        one = known[row["variable"]]
        rows.append(_single(row, replace(one, counted=one.counted and counted), int(n), row["measure"]))
    return _as_table(rows, shown)


def published_hazards(table: pd.DataFrame, least: int, counted: bool = True) -> pd.DataFrame:
    """Rows of `hazards` with enough events, with the digits that may be shown.

    The interval of a hazard ratio tells the numbers of events of the cluster and of the others. It is not
    shown, and of p only the class, where a number of events or of subjects without one is below `least` in
    any cluster; nor where covariates lack a hidden number of values (not `counted`).
    """
    parts = pd.DataFrame({"events": table["events"], "others": table["n"] - table["events"]}).min(axis=1)
    exact = Precision(counted=counted and bool((parts >= least).all()))
    shown = table[(parts >= least) & (table["note"] == "")]
    shown = shown.rename(columns={"hazard_ratio": "effect"})
    return _as_table([_single(row, exact, 0, "hazard ratio") for row in shown.to_dict("records")], shown)


def _single(row: Mapping[Any, Any], known: Precision, n: int, measure: str) -> dict[Any, Any]:
    """The effect of a single cluster or pair of clusters of at least n subjects."""
    if known.exact and not known.counted:
        decimals = 0 if measure in RATIOS else interval_decimals(row["low"], row["high"], n)
        if decimals < DECIMALS:
            p = {name: coarse_p(row[name]) for name in ("p", "p_holm")}
            bounds = {name: rounded(row[name], 1) if decimals else np.nan for name in ("low", "high")}
            return {**row, "effect": rounded(row["effect"], 1), **bounds, **p, "decimals": 1}
    numbers = {name: rounded(row[name]) if known.exact else np.nan for name in ("effect", "low", "high")}
    p = {name: _pair_p(row[name], known.exact, name) for name in ("p", "p_holm")}
    return {**row, **numbers, **p, "decimals": DECIMALS}


def _as_table(rows: Sequence[Mapping[Any, Any]], like: pd.DataFrame) -> pd.DataFrame:
    """Rows with the columns of another table, and the decimals of their effects."""
    return pd.DataFrame(list(rows), columns=pd.Index([*like.columns, "decimals"]))


def _with_intervals(table: pd.DataFrame, exact: Sequence[bool]) -> pd.DataFrame:
    """Bounds of effects with the decimals of effects; NaN for variables with hidden numbers."""
    bounds = {
        name: [rounded(value) if one else np.nan for value, one in zip(table[name], exact, strict=True)]
        for name in ("low", "high")
        if name in table
    }
    return table.assign(**{name: np.array(values, dtype=float) for name, values in bounds.items()})


def shown_effect(value: float, known: Precision) -> float:
    """An effect size with its decimals; NaN if it must not be shown."""
    return np.nan if known.effect is None else rounded(value, min(known.effect, DECIMALS))


def shown_p(p: float, known: Precision) -> P:
    """A p-value with two digits, or its class, or NaN."""
    if known.exact:
        return rounded_p(p)
    return coarse_p(p) if known.classes else np.nan


def _pair_p(p: float, exact: bool, name: str) -> P:
    if exact:
        return rounded_p(p)
    return coarse_p(p, (ALPHA,)) if name == "p_holm" else np.nan


def published_agreement(
    scores: Mapping[str, float] | None, known: Precision | None
) -> dict[str, float] | None:
    """Agreement of clusters and diagnosis with the digits that may be shown; None if none may.

    >>> published_agreement({"ARI": 0.0722, "NMI": 0.0947, "Acc": 0.48}, Precision(agreement=1, exact=False))
    {'ARI': 0.1, 'NMI': 0.1}
    """
    if scores is None or known is None or known.agreement is None:
        return None
    names = list(scores) if known.exact else ["ARI", "NMI"]
    return {name: rounded(scores[name], known.agreement) for name in names}
