"""The outsider of `attacker`, with the numbers of features, and with tables of several variables at once.

carriers
    numbers of subjects of a cluster with each value of a feature that has two or three values (a reader knows
    which), from its z-scores, its importance by centroids, which is nearly a z-score, and the share of its
    variance that the clusters explain. A count is found if it is known to be small and fewer than five values
    remain;
loadings
    hidden z-scores of features in small clusters: the loading of a feature is its correlation with the
    positions of subjects along the leading axis, ``sum_j n_j d_j t_j / N`` and the covariance within
    clusters, where the mean positions t of clusters are the same for all features. One is found if the values
    that remain span less than half a standard deviation;
joined
    hidden counts of tables, and hidden sizes of clusters, from all tables together: the sizes of the
    clusters are the same in all of them.

Nothing here imports viewloom.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

import attacker
import numpy as np
from attacker import (
    ANY,
    ENOUGH,
    SPAN,
    VALUES,
    Attack,
    Crossed,
    Interval,
    Published,
    _is_told,
    _mean,
    _possible_sizes,
    _shifts,
    _view_size,
    agrees,
    both,
    count,
    crossed,
    enumerated,
    interval,
    shares_of,
    solved,
)

Array = np.ndarray
SMALL = 11
SOFT = 0.02  # by which shares differ from those of hard clusters, at most
COARSE = np.linspace(-6.0, 6.0, 241)  # shifts of means, in standard deviations
POSITIONS = {2: 121, 3: 41, 4: 17}  # mean positions that are tried for each cluster, by their number
FAR = 3.0  # standard deviations within which the mean position of a cluster is


@dataclass
class Feature:
    """What is shown of a feature of which all subjects have the view."""

    name: str
    means: list[Interval]  # z-scores of clusters
    share: Interval
    loading: Interval


def features(files: Published) -> Iterator[Feature]:
    """Features of the views that no subject lacks."""
    n, views = int(files.metrics["subjects"]), [row["view"][0] for row in files.rows("views")]
    loadings = {row["feature"][0]: interval(row["loading"][0]) for row in files.rows("loadings")}
    soft = softness(files)
    for name in (name for name in files.tables if re.fullmatch(r"features-\d+", name)):
        if _view_size(files, views[int(name.split("-")[1])]) == (n, n):
            for row in files.rows(name):
                feature, means = row["feature"][0], _scores(row)
                close = [_wider(one, soft) for one in centroids(files, feature, len(means))]
                shown = [both(*pair) for pair in zip(means, close, strict=True)]
                yield Feature(feature, shown, shares_of(files, feature), loadings.get(feature, ANY))


def _scores(row: dict[str, tuple[str, str | None]]) -> list[Interval]:
    return [_mean(*cell) for head, cell in row.items() if head.endswith("(SD)")]


def centroids(files: Published, feature: str, k: int) -> list[Interval]:
    """The importance of a feature in each cluster, which is a z-score if memberships are 0 or 1."""
    row = files.importance.get(feature, {})
    return [interval(row.get(f"cluster_{j}") or "-") for j in range(k)]


def softness(files: Published) -> float:
    """How far z-scores are from the importance by centroids, where both are shown."""
    apart = [0.0]
    for row in (
        row for name in files.tables if re.fullmatch(r"features-\d+", name) for row in files.rows(name)
    ):
        means = _scores(row)
        pairs = zip(means, centroids(files, row["feature"][0], len(means)), strict=True)
        apart += [max(z[0] - f[1], f[0] - z[1]) for z, f in pairs if ANY not in (z, f)]
    return max(apart) + 0.002


def _wider(one: Interval, slack: float) -> Interval:
    return one[0] - slack, one[1] + slack


def sizes_of(files: Published) -> Array:
    """Bounds of the sizes of clusters."""
    return np.array([count(str(size)) for size in files.metrics["cluster_sizes"]])


# features with few values


def attack_carriers(files: Published) -> Attack:
    """Solve for numbers of subjects with each value of features that have few values."""
    result, sizes, n = Attack(), sizes_of(files), int(files.metrics["subjects"])
    for feature in (feature for feature in features(files) if feature.name in VALUES):
        for found in found_carriers(feature, sizes, n, VALUES[feature.name]):
            result.add(found)
    return result


def found_carriers(feature: Feature, bounds: Array, n: int, values: int) -> list[bool]:
    """For each cluster and value, whether the number of subjects is known to be small and has few values."""
    hidden = [j for j, (low, high) in enumerate(bounds) if low < high]
    h = min(hidden, key=lambda j: bounds[j, 1], default=0)
    told: list[list[set[int]]] = [[set() for _ in range(values)] for _ in bounds]
    for sizes in _possible_sizes(bounds, (n, n), h):
        for j, sums in enumerate(possible_sums(feature, sizes.round().astype(int), values)):
            for counts in divided(sums, round(sizes[j]), values):
                for value, one in enumerate(counts):
                    told[j][value].add(one)
    return [_is_told(np.array(sorted(one))) for cluster in told for one in cluster]


def divided(sums: Array, n: int, values: int) -> Iterator[tuple[int, ...]]:
    """Counts of the values 0, 1 (and 2) of n subjects that have one of the given sums.

    >>> list(divided(np.array([3]), 5, 3)), list(divided(np.array([3]), 5, 2))
    ([(2, 3, 0), (3, 1, 1)], [(2, 3)])
    """
    for total in sums.tolist():
        for twos in range(max(0, total - n), total // 2 + 1) if values == 3 else (0,):
            if total - 2 * twos + twos <= n:
                yield (n - total + twos, total - 2 * twos, twos)[:values]


def possible_sums(feature: Feature, sizes: Array, values: int) -> list[Array]:
    """For each cluster, the sums of the values of its subjects that agree with what is shown."""
    n, top = int(sizes.sum()), values - 1
    sums, mean, spread = _totals(n, values)
    ends = [_sums_within(z, size, mean, spread, top) for z, size in zip(feature.means, sizes, strict=True)]
    low, high = (np.array([end[side] for end in ends]) for side in (0, 1))  # k x totals
    fine = (low <= high).all(axis=0) & (low.sum(axis=0) <= sums) & (sums <= high.sum(axis=0))
    sums, mean, spread, low, high = sums[fine], mean[fine], spread[fine], low[:, fine], high[:, fine]
    low = np.maximum(low, sums - (high.sum(axis=0) - high))
    high = np.minimum(high, sums - (low.sum(axis=0) - low))
    hidden = [j for j, z in enumerate(feature.means) if z == ANY]
    if len(hidden) == 2 and feature.share != (0.0, 1.0) and sums.size:
        return _with_share(feature, sizes, (sums, mean, spread), (low, high), hidden)
    return [_covered(a, b) for a, b in zip(low, high, strict=True)]


def _totals(n: int, values: int) -> tuple[Array, Array, Array]:
    """Sum, mean and standard deviation of n values, for all numbers of them."""
    twos = np.arange(n + 1) if values == 3 else np.zeros(1, dtype=int)
    ones, twos = (grid.ravel() for grid in np.meshgrid(np.arange(n + 1), twos))
    ones, twos = ones[ones + twos <= n], twos[ones + twos <= n]
    sums = ones + 2 * twos
    spread = np.sqrt(np.maximum((ones + 4 * twos) / n - (sums / n) ** 2, 0.0))
    varies = spread > 0.0
    return sums[varies], sums[varies] / n, spread[varies]


def _sums_within(z: Interval, size: int, mean: Array, spread: Array, top: int) -> tuple[Array, Array]:
    """Bounds of the sum of a cluster by its z-score, for all totals."""
    if z == ANY:
        return np.zeros(len(mean), dtype=int), np.full(len(mean), top * size)
    low, high = (size * (mean + spread * end) for end in z)
    return np.maximum(np.ceil(low - 1e-6), 0).astype(int), np.minimum(
        np.floor(high + 1e-6), top * size
    ).astype(int)


def _covered(low: Array, high: Array) -> Array:
    """All whole numbers within one of several bounds."""
    kept = low <= high
    return np.unique(
        np.concatenate(
            [np.arange(a, b + 1) for a, b in np.unique([low[kept], high[kept]], axis=1).T]
            or [np.zeros(0, dtype=int)]
        )
    )


def _with_share(
    feature: Feature, sizes: Array, totals: tuple[Array, ...], ends: tuple[Array, Array], hidden: list[int]
) -> list[Array]:
    """Sums of clusters of which two are hidden, that explain the shown share of the variance."""
    sums, mean, spread = totals
    low, high = ends
    shown = [j for j in range(len(sizes)) if j not in hidden]
    n, (h, o) = sizes.sum(), sorted(hidden, key=lambda j: sizes[j])
    tried = np.arange(high[h].max() + 1)[:, None]  # values x totals
    middle = (low[shown] + high[shown]) // 2
    rest = sums - middle.sum(axis=0) - tried
    between = sum(
        sizes[j] * ((m / sizes[j] - mean) / spread) ** 2 for j, m in zip(shown, middle, strict=True)
    )
    between = between + sizes[h] * ((tried / max(sizes[h], 1) - mean) / spread) ** 2
    between = (between + sizes[o] * ((rest / max(sizes[o], 1) - mean) / spread) ** 2) / n
    fine = (tried >= low[h]) & (tried <= high[h]) & (rest >= low[o]) & (rest <= high[o])
    fine &= (between >= feature.share[0] - SOFT) & (between <= feature.share[1] + SOFT)
    kept = fine.any(axis=0)
    found = [_covered(low[j][kept], high[j][kept]) for j in range(len(sizes))]
    found[h] = tried[fine.any(axis=1), 0]
    return found


# loadings on the leading axis


def attack_loadings(files: Published) -> Attack:
    """Solve for hidden z-scores of small clusters by the loadings of all features."""
    result, sizes, n = Attack(), sizes_of(files), int(files.metrics["subjects"])
    known = [feature for feature in features(files) if ANY in feature.means]
    small = [j for j, (_, high) in enumerate(sizes) if high < SMALL]
    for h in small:
        same = [one for one in known if _hidden(one) == _hidden(known[0])]
        if known and len(_hidden(known[0])) == 2 and h in _hidden(known[0]):
            for found in found_by_loadings(same, sizes, n, h):
                result.add(found)
    return result


def _hidden(feature: Feature) -> list[int]:
    return [j for j, mean in enumerate(feature.means) if mean == ANY]


def found_by_loadings(known: list[Feature], bounds: Array, n: int, h: int) -> list[bool]:
    """Whether the z-score of each feature in cluster h is known to half a standard deviation."""
    left = np.zeros((len(known), len(COARSE)), dtype=bool)
    for sizes in _possible_sizes(bounds, (n, n), h):
        left |= possible_scores(known, sizes, h)
    spans = left.sum(axis=1) * (COARSE[1] - COARSE[0])
    return [bool(0.0 < span < SPAN) for span in spans]


def possible_scores(known: list[Feature], sizes: Array, h: int) -> Array:
    """Which z-scores (features x `COARSE`) of cluster h agree with loadings, for given sizes.

    With shifts d of a feature and mean positions t of clusters, the loading is ``sum n d t / N`` up to
    ``((1 - sum n d^2 / N) (1 - sum n t^2 / N))^1/2``, for the same t in all features.
    """
    positions, step = _positions(sizes)
    within = np.maximum(1.0 - (positions**2) @ sizes / sizes.sum(), 0.0)
    fits = [_fitting(feature, sizes, h, positions, within, step) for feature in known]  # each t x scores
    possible = np.all([fit.any(axis=1) for fit in fits], axis=0)
    return np.array([fit[possible].any(axis=0) for fit in fits])


def _positions(sizes: Array) -> tuple[Array, float]:
    """Mean positions of clusters (t x k), of mean 0 and variance at most 1, and their distance."""
    k = len(sizes)
    grid = np.linspace(-FAR, FAR, POSITIONS.get(k, 7))
    free = np.array(list(product(grid, repeat=k - 1)))
    large = int(np.argmax(sizes))
    last = -free @ np.delete(sizes, large) / sizes[large]
    found = np.insert(free, large, last, axis=1)
    return found[found**2 @ sizes <= sizes.sum() * 1.05], float(grid[1] - grid[0])


def _fitting(feature: Feature, sizes: Array, h: int, positions: Array, within: Array, step: float) -> Array:
    """Which z-scores of cluster h (columns) agree with the loading, at which mean positions (rows)."""
    n, o = sizes.sum(), next(j for j in _hidden(feature) if j != h)
    shifts, reach = _shifts([*feature.means, (0.0, 0.0)], 1.0)
    d = np.repeat(shifts[None], len(COARSE), axis=0)  # scores x k
    d[:, h] = COARSE
    d[:, o] = -(sizes @ shifts + sizes[h] * COARSE) / max(sizes[o], 1.0)
    between = d**2 @ sizes / n
    slack = 2.0 * float(reach @ sizes) / n + SOFT
    fine = (np.abs(d[:, o]) <= 4.0) & (between <= min(feature.share[1], 1.0) + slack)
    fine &= between >= feature.share[0] - slack
    if feature.loading == ANY:
        return np.broadcast_to(fine, (len(positions), len(COARSE)))
    told = (positions * sizes) @ d.T / n
    room = np.sqrt(np.outer(within + step, np.maximum(1.0 - between, 0.0) + slack)) + slack
    room = room + step / 2.0 * np.abs(d) @ sizes / n
    return np.asarray(fine & (told + room >= feature.loading[0]) & (told - room <= feature.loading[1]))


# tables of several variables


def attack_joined(files: Published) -> Attack:
    """Solve for hidden counts and sizes of clusters with the sizes that all tables allow."""
    result, tables = Attack(), [table for _, table in crossed(files)]
    if not tables or not (tables[0].columns[:, 0] < tables[0].columns[:, 1]).any():
        return result
    for found in found_together(tables, int(files.metrics["subjects"])):
        result.add(found)
    return result


def found_together(tables: list[Crossed], n: int) -> list[bool | None]:
    """Whether hidden sizes, and hidden counts, have few values if all tables have the same sizes.

    Counts are solved for where the other tables leave fewer sizes than their own.
    """
    sizes = possible_columns(tables[0].columns, n)
    own = [allowed_columns(table, sizes) for table in tables]
    left = sizes[np.all(own, axis=0)]
    answers: list[bool | None] = []
    for j in np.flatnonzero(tables[0].columns[:, 0] < tables[0].columns[:, 1]):
        remain, alone = (len(np.unique(one[:, j])) for one in (left, sizes))
        answers.append(0 < remain < min(ENOUGH, alone))
    columns = np.column_stack([left.min(axis=0), left.max(axis=0)]) if len(left) else tables[0].columns
    for table, allowed in zip(tables, own, strict=True):
        if 0 < len(left) < allowed.sum():
            answers += solved(replace(table, columns=columns))
    return answers


def possible_columns(columns: Array, n: int) -> Array:
    """All sizes of clusters within their bounds that have the total n."""
    ends = [range(low, min(high, n) + 1) for low, high in columns.tolist()]
    *free, last = sorted(range(len(ends)), key=lambda j: len(ends[j]))
    rows = []
    for values in product(*(ends[j] for j in free)):
        if n - sum(values) in ends[last]:
            row = dict(zip(free, values, strict=True)) | {last: n - sum(values)}
            rows.append([row[j] for j in range(len(ends))])
    return np.array(rows, dtype=int).reshape(-1, len(ends))


def allowed_columns(table: Crossed, columns: Array) -> Array:
    """Which sizes a table allows, by its counts, totals and statistics; all if there are too many tables."""
    fine = np.ones(len(columns), dtype=bool)
    for at, sizes in enumerate(columns):
        tables, complete = enumerated(replace(table, columns=np.column_stack([sizes, sizes])), most=200)
        fine[at] = not complete or bool(agrees(table, tables).any())
    return fine


ATTACKS = {
    **attacker.ATTACKS,
    "carriers": attack_carriers,
    "loadings": attack_loadings,
    "joined": attack_joined,
}


def attack(folder: Path) -> dict[str, Attack]:
    """All attacks on the published files of a run."""
    files = Published.of(folder)
    return {name: function(files) for name, function in ATTACKS.items()}
