"""Descriptive tables of clusters, without small counts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from viewloom.clinical.release import mean_decimals, rounded, withheld
from viewloom.clinical.shown import Hidden, Known, Shown
from viewloom.clinical.suppression import MIN_CELL, hidden, shown_counts
from viewloom.clinical.variables import CONSTANT, Variable, clusters_of, variables_of
from viewloom.data.naming import cluster_names

Array = np.ndarray
SHOWN = (None, CONSTANT)  # reasons to skip a test for which the variable is still described


def profile(
    labels: Any,
    participants: pd.DataFrame,
    *,
    categorical: Iterable[str] = (),
    min_cell: int = MIN_CELL,
    names: Sequence[Any] | Mapping[Any, Any] | None = None,
) -> pd.DataFrame:
    """Describe clusters: size, mean (SD) and median of numbers, counts and shares of categories.

    Shares refer to all subjects of a cluster, including those with missing values. Counts below `min_cell`,
    and numbers that describe fewer subjects, are not shown; see `suppressed`. Where the mean of a cluster is
    hidden, so is that of a second one, since the mean of all subjects is shown.

    Parameters
    ----------
    labels : (n,) array
    participants : DataFrame
    categorical : iterable of str
        Columns that contain codes rather than numbers.
    min_cell : int, default=11
    names : sequence or mapping of str, optional
        Names of the clusters, by label; by default integer labels are shown as numbers from 1.

    Returns
    -------
    DataFrame of str
        Indexed by variable and value, with one column per cluster and ``all``.

    Examples
    --------
    >>> people = pd.DataFrame({"age": range(60, 90), "sex": ["F"] * 12 + ["M"] * 18})
    >>> profile([0] * 15 + [1] * 15, people)
                          1           2         all
    variable value
    subjects n           15          15          30
    age      mean (SD)   67.0 (4.5)  82.0 (4.5)  74.5 (8.8)
             median      hidden      hidden      74
    sex      F           hidden      <11         12 (40%)
             M           <11         hidden      18 (60%)
    """
    table = described(labels, participants, categorical=categorical, min_cell=min_cell).map(str)
    clusters, _ = clusters_of(labels, len(participants), participants.index)
    return table.set_axis([*cluster_names(clusters, names), "all"], axis=1)


def described(
    labels: Any, participants: pd.DataFrame, *, categorical: Iterable[str] = (), min_cell: int = MIN_CELL
) -> pd.DataFrame:
    """The table of `profile` with a `Known` or `Hidden` number in every cell.

    Examples
    --------
    >>> people = pd.DataFrame({"age": range(60, 90)})
    >>> cell = described([0] * 15 + [1] * 15, people).loc[("age", "mean (SD)"), "0"]
    >>> cell.value, cell.decimals, str(cell)
    (67.0, 1, '67.0 (4.5)')
    """
    clusters, codes = clusters_of(labels, len(participants), participants.index)
    members = np.column_stack([codes[:, None] == np.arange(len(clusters)), np.ones(len(codes), dtype=bool)])
    chosen = [variable for variable, reason in variables_of(participants, categorical) if reason in SHOWN]
    blocks = [_counted({"n": members[:, -1]}, members, min_cell, shares=False)]
    blocks += [DESCRIBED[variable.kind](variable, members, min_cell) for variable in chosen]
    names = ["subjects", *(variable.name for variable in chosen)]
    table = pd.concat(blocks, keys=names, names=["variable", "value"])
    return table.set_axis([*map(str, clusters), "all"], axis=1)


def _counted(rows: Mapping[str, Array], members: Array, min_cell: int, shares: bool = True) -> pd.DataFrame:
    """Counts of subjects in clusters and in total (last column), with their share of the cluster."""
    counts = np.array([(mask[:, None] & members).sum(axis=0) for mask in rows.values()])
    inner, totals, sizes = counts[:, :-1], counts[:, -1:], members.sum(axis=0)
    secret = np.append(hidden(sizes[None, :-1], min_cell)[0], False)
    also = _breaks(inner, hidden(totals, min_cell)[:, 0], secret[:-1]) if shares else None
    parts = shown_counts(pd.DataFrame(inner), min_cell, also), shown_counts(pd.DataFrame(totals), min_cell)
    shown = pd.concat(parts, axis=1).to_numpy(dtype=object)
    if shares:
        for at in np.argwhere(np.broadcast_to(~secret, shown.shape)):
            shown[*at] = _with_share(shown[*at], sizes[at[1]])
    return pd.DataFrame(shown, index=list(rows))


def _with_share(count: Shown, size: int) -> Shown:
    return replace(count, share=float(count.value / size)) if isinstance(count, Known) else count


def _breaks(counts: Array, rows: Array, columns: Array) -> Array:
    """Mask of the smallest count of each row and column with a hidden total, so that no sum reveals it."""
    mask = np.zeros(counts.shape, dtype=bool)
    mask[np.flatnonzero(rows), counts[rows].argmin(axis=1)] = True
    mask[counts[:, columns].argmin(axis=0), np.flatnonzero(columns)] = True
    return mask


def _described_categories(variable: Variable, members: Array, min_cell: int) -> pd.DataFrame:
    """Counts of each category, and of missing values."""
    levels = sorted(set(variable.data[variable.known]))
    rows = {level: np.asarray(variable.data == level) for level in levels}
    if not variable.known.all():
        rows["(missing)"] = ~variable.known | rows.get("(missing)", False)
    return _counted(rows, members, min_cell)


def _described_numbers(variable: Variable, members: Array, min_cell: int) -> pd.DataFrame:
    """Mean, standard deviation and median in each cluster with enough values, and of all subjects."""
    known = members & variable.known[:, None]
    sizes = known.sum(axis=0)
    secret = np.append(withheld(sizes[:-1], min_cell), sizes[-1] < max(min_cell, 1))
    described = sizes[~secret]
    decimals = mean_decimals(variable.data[variable.known], int(described.min()) if len(described) else 0)
    shown = [
        _hidden_moments(size, min_cell) if hide else _moments(variable.data[member], decimals, min_cell)
        for size, hide, member in zip(sizes, secret, known.T, strict=True)
    ]
    rows = pd.DataFrame(shown, columns=["mean (SD)", "median"], dtype=object).T
    if variable.known.all():
        return rows
    return pd.concat(
        [rows, _counted({"known": variable.known, "(missing)": ~variable.known}, members, min_cell)]
    )


def _hidden_moments(size: int, min_cell: int) -> tuple[Shown, Shown]:
    cell = Hidden("<", min_cell) if size < min_cell else Hidden("", 0)
    return cell, cell


def _moments(values: Array, decimals: int, min_cell: int) -> tuple[Shown, Shown]:
    """Mean with standard deviation, and a rounder median, which is the value of a single subject or two."""
    spread = rounded(values.std(ddof=1), decimals) if len(values) > 1 else np.nan
    coarser = decimals - (min_cell > 1)
    median = Known(rounded(np.median(values), coarser), coarser)
    few = len(values) < 2 * min_cell and min_cell > 1
    mean = Known(rounded(values.mean(), decimals), decimals, spread=spread)
    return mean, Hidden("", 0) if few else median


DESCRIBED = {"numeric": _described_numbers, "categorical": _described_categories}
