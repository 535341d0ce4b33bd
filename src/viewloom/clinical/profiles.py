"""Descriptive tables of clusters, without small counts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from viewloom.clinical.release import has_few_values, mean_decimals, rounded, withheld
from viewloom.clinical.shown import ABOUT, Hidden, Known, Shown
from viewloom.clinical.suppression import MIN_CELL, SOLUTIONS, hidden, rough_count, shown_counts, span
from viewloom.clinical.variables import CONSTANT, Variable, clusters_of, variables_of
from viewloom.data.naming import cluster_names

Array = np.ndarray
FAR = 4.0  # standard deviations within which the mean of a cluster is taken to be
HIDDEN = Hidden("", 0)  # a mean or median; a bound of the number of subjects would be taken for one of it
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
    """Mean, standard deviation and median in each cluster with enough values, and of all subjects.

    The standard deviation of few distinct values is not shown: it tells counts more precisely than the mean.
    """
    known, values = members & variable.known[:, None], variable.data[variable.known]
    sizes, few = known.sum(axis=0), has_few_values(values) and min_cell > 1
    secret = np.append(withheld(sizes[:-1], min_cell), sizes[-1] < max(min_cell, 1))
    described = sizes[~secret]
    decimals = mean_decimals(values, int(described.min()) if len(described) else 0)
    spread = float(values.std()) if few else np.inf
    secret |= 10.0**-decimals > spread  # rounded means would differ where the means hardly do
    shown = [
        (HIDDEN, HIDDEN) if hide else _moments(variable.data[member], decimals, min_cell, spread)
        for hide, member in zip(secret, known.T, strict=True)
    ]
    counts = _numbers_of_values(variable, members, min_cell)
    everyone = _mean_of_all([mean for mean, _ in shown], *_ends(counts, members, min_cell), few)
    shown[-1] = (everyone, shown[-1][1])
    if few:
        shown = [(_without_spread(mean), median) for mean, median in shown]
    rows = pd.DataFrame(shown, columns=["mean (SD)", "median"], dtype=object).T
    return rows if counts is None else pd.concat([rows, counts])


def _without_spread(mean: Shown) -> Shown:
    return replace(mean, spread=None) if isinstance(mean, Known) else mean


def _numbers_of_values(variable: Variable, members: Array, min_cell: int) -> pd.DataFrame | None:
    """Known and missing values of clusters and of all; None if all are known."""
    if variable.known.all():
        return None
    counts = _counted({"known": variable.known, "(missing)": ~variable.known}, members, min_cell)
    if not any(isinstance(cell, Hidden) for cell in counts.to_numpy()[:, :-1].ravel()):
        return counts
    lacking = rough_count(int((~variable.known).sum()), min_cell)
    totals = pd.Series([HIDDEN, lacking], index=counts.index, dtype=object)
    return pd.concat([counts.iloc[:, :-1], totals.rename(counts.columns[-1])], axis=1)


def _ends(counts: pd.DataFrame | None, members: Array, min_cell: int) -> tuple[Array, Array]:
    """Bounds (k, 2) of the numbers of values in clusters, and (2,) of all, for a reader of what is shown."""
    n = len(members)
    sizes = [*shown_counts(pd.DataFrame([members[:, :-1].sum(axis=0)]), min_cell).iloc[0], Known(n)]
    ends = np.array([_bounds(size, n) for size in sizes])
    if counts is not None:
        known, missing = (np.array([_bounds(cell, n) for cell in row]) for row in counts.to_numpy())
        low = np.maximum(known[:, 0], ends[:, 0] - missing[:, 1])
        ends = np.column_stack([low, np.minimum(known[:, 1], ends[:, 1] - missing[:, 0])])
    return ends[:-1], ends[-1]


def _bounds(cell: Shown, n: int) -> tuple[int, int]:
    """Bounds of a shown count of at most n.

    >>> _bounds(Hidden("<", 11), 40), _bounds(Hidden("≥", 11), 40), _bounds(Hidden("", 0), 40)
    ((0, 10), (11, 40), (0, 40))
    """
    if isinstance(cell, Known):
        return int(cell.value), int(cell.value)
    if cell.sign == ABOUT:
        return max(cell.bound - 5, 0), cell.bound + 5
    return (0, cell.bound - 1) if cell.sign == "<" else (cell.bound, n)


def _mean_of_all(means: Sequence[Shown], ends: Array, total: Array, few: bool = False) -> Shown:
    """The mean of all subjects, as round as needed to keep the numbers of values in clusters hidden.

    It is the last of `means`, and that of the clusters, weighted by their numbers of values:
    ``sum_j n_j (m_j - m) = 0``. So is the variance, which is not shown of `few` distinct values: the standard
    deviation of all is left out where it tells the numbers.
    """
    everyone, secret = means[-1], np.flatnonzero(ends[:, 0] < ends[:, 1]).tolist()
    if isinstance(everyone, Hidden) or not secret:
        return everyone
    alone = [span(ends, np.ones((1, len(ends))), total[None], at) for at in secret]
    for decimals in (everyone.decimals, everyone.decimals - 1):
        rounder = replace(everyone, value=rounded(everyone.value, decimals), decimals=decimals)
        by_mean = _weighing(means[:-1], rounder, total)
        if not _keeps_hidden(ends, *by_mean, secret, alone):
            continue
        lines, totals = (
            np.vstack(pair) for pair in zip(by_mean, _spreading(means[:-1], rounder), strict=True)
        )
        safe = not few and _keeps_hidden(ends, lines, totals, secret, alone)
        return rounder if safe else _without_spread(rounder)
    return HIDDEN


def _keeps_hidden(ends: Array, lines: Array, totals: Array, secret: list[int], alone: list[int]) -> bool:
    """Whether sums of numbers of values leave enough values of those that are hidden."""
    left = [span(ends, lines, totals, at) for at in secret]
    return all(one >= min(SOLUTIONS, most) for one, most in zip(left, alone, strict=True))


def _weighing(means: Sequence[Shown], everyone: Known, total: Array) -> tuple[Array, Array]:
    """Sums of numbers of values, and their bounds, that the rounded means allow; for `span`.

    The mean of a cluster that is hidden is within a few standard deviations.
    """
    shift, room = _shifts(means, everyone)
    lines = np.array([np.ones(len(means)), shift - room, shift + room])
    return lines, np.array([total, [-np.inf, 0.0], [0.0, np.inf]])


def _shifts(means: Sequence[Shown], everyone: Known) -> tuple[Array, Array]:
    """Differences (k,) of means from that of all, and how far rounding leaves them open."""
    half, spread = 0.5 * 10.0**-everyone.decimals, everyone.spread or 0.0
    shifts = [0.0 if isinstance(mean, Hidden) else mean.order - everyone.order for mean in means]
    reach = [
        FAR * spread if isinstance(mean, Hidden) else half + 0.5 * 10.0**-mean.decimals for mean in means
    ]
    return np.array(shifts), np.array(reach)


def _spreading(means: Sequence[Shown], everyone: Known) -> tuple[Array, Array]:
    """As `_weighing`, by rounded standard deviations s_j of clusters and s of all.

    ``sum_j (n_j - 1) s_j^2 + n_j (m_j - m)^2 = (N - 1) s^2``, so that
    ``sum_j n_j (s_j^2 + (m_j - m)^2 - s^2) = sum_j s_j^2 - s^2``.
    """
    shift, room = _shifts(means, everyone)
    near, far = np.maximum(np.abs(shift) - room, 0.0) ** 2, (np.abs(shift) + room) ** 2
    most = FAR * (everyone.spread or 0.0)
    ends = np.array([_variance(mean, most) for mean in (*means, everyone)])  # k + 1 x 2
    lines = np.array([ends[:-1, 0] + near - ends[-1, 1], ends[:-1, 1] + far - ends[-1, 0]])
    least, largest = ends[:-1].sum(axis=0) - ends[-1, ::-1]
    return lines, np.array([[-np.inf, largest], [least, np.inf]])


def _variance(mean: Shown, most: float) -> tuple[float, float]:
    """Bounds of a squared standard deviation that is shown, or hidden."""
    if isinstance(mean, Hidden) or mean.spread is None or np.isnan(mean.spread):
        return 0.0, most**2
    half, spread = 0.5 * 10.0**-mean.decimals, rounded(mean.spread, mean.decimals)
    return max(spread - half, 0.0) ** 2, (spread + half) ** 2


def _moments(values: Array, decimals: int, min_cell: int, most: float) -> tuple[Shown, Shown]:
    """Mean with standard deviation, and a rounder median, which is the value of a single subject or two.

    A median that is rounded to more than `most` is not shown.
    """
    spread = rounded(values.std(ddof=1), decimals) if len(values) > 1 else np.nan
    coarser = decimals - (min_cell > 1)
    median = Known(rounded(np.median(values), coarser), coarser)
    few = len(values) < 2 * min_cell and min_cell > 1
    mean = Known(rounded(values.mean(), decimals), decimals, spread=spread)
    return mean, HIDDEN if few or 10.0**-coarser > most else median


DESCRIBED = {"numeric": _described_numbers, "categorical": _described_categories}
