"""Tests of clinical variables as they may be published, beside tables with hidden counts or means."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from viewloom.clinical.release import ALPHA, DECIMALS, P, coarse_p, rounded, rounded_p
from viewloom.clinical.shown import Hidden
from viewloom.clinical.statistics import Precision, precision
from viewloom.clinical.variables import Variable, clusters_of, variables_of

Array = np.ndarray
MISSING = "(missing)"
MEAN = "mean (SD)"
NOTHING = Precision(None, None, classes=False, exact=False)
CLASS_ONLY = Precision(None, None, classes=True, exact=False)


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
            found[variable.name] = _of_means(part)
        else:
            shared = variable.name == agreement
            found[variable.name] = _of_counts(variable, codes, len(clusters), part, min_cell, shared)
    return found


def _of_means(part: pd.DataFrame | None) -> Precision:
    """Without hidden means everything; an effect would otherwise give the hidden means."""
    if part is None or MEAN not in part.index:
        return CLASS_ONLY
    hides = any(isinstance(cell, Hidden) for cell in part.loc[MEAN])
    return CLASS_ONLY if hides else Precision()


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
    return precision(counts, secret, min_cell, len(levels), agreement, 0 if unbounded else min_cell)


def published_associations(table: pd.DataFrame, known: Mapping[str, Precision]) -> pd.DataFrame:
    """`associations` with the digits that may be shown; NaN and classes where hidden numbers ask for it.

    >>> raw = pd.DataFrame({"variable": ["a", "b"], "effect": [0.12345, 0.2], "p": [0.012345, 0.03]})
    >>> raw = raw.assign(q=raw["p"], statistic=3.21)
    >>> shown = published_associations(raw, {"a": Precision(), "b": CLASS_ONLY})
    >>> shown["effect"].tolist(), shown["p"].tolist()
    ([0.12, nan], [0.012, PClass(text='<0.05')])

    Intervals are shown for variables without hidden numbers only.
    """
    exact = [known.get(name, NOTHING) for name in table["variable"]]
    effects = [shown_effect(value, one) for value, one in zip(table["effect"], exact, strict=True)]
    shown = table.drop(columns="statistic", errors="ignore").assign(effect=np.array(effects, dtype=float))
    shown = _with_intervals(shown, [one.exact for one in exact])
    for name in ("p", "q"):
        values: Any = [shown_p(value, one) for value, one in zip(table[name], exact, strict=True)]
        shown = shown.assign(**{name: values})
    shown.attrs = dict(table.attrs)
    return shown


def published_pairs(table: pd.DataFrame, known: Mapping[str, Precision]) -> pd.DataFrame:
    """`pairwise` with the digits that may be shown; of variables with hidden numbers, what is significant."""
    exact = [known.get(name, NOTHING).exact for name in table["variable"]]
    shown = table.copy()
    shown["effect"] = [
        rounded(value) if one else np.nan for value, one in zip(table["effect"], exact, strict=True)
    ]
    shown = _with_intervals(shown, exact)
    for name in ("p", "p_holm"):
        values: Any = [_pair_p(value, one, name) for value, one in zip(table[name], exact, strict=True)]
        shown = shown.assign(**{name: values})
    return shown


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
