"""The outsider of `attacker`, with what else leaves a study: follow-up, a replication, other methods.

transitions
    between clusters of two visits: the range of each hidden count, from the shown ones, the number of
    subjects seen, the number who keep their cluster, and the sizes of the clusters;
sizes
    of clusters in both cohorts of a replication, from their totals and from the report of the first run;
deviations
    of clusters from the second cohort: hidden means from those of the other clusters, and hidden counts of
    categories by integer programming, from the deviations of the shown shares and the sizes of the clusters;
scores
    of other methods: the tables of the diagnosis are solved again (`attacker.solved`) with the scores of all
    methods that, by the published agreement between methods, find the clusters that the report describes.

together
    counts of two runs of the same clusters with other numbers of subjects below which counts are hidden: all
    tables that agree with both;
left out
    the categories of one subject, from a run with and a run without that subject.

The last two are runs that should not both be shared; no rule of a single run can prevent them.
``differenced`` counts what two runs of the same study with other numbers of clusters tell together.
Nothing here imports viewloom. Figures and documents of `viewloom figures` and `viewloom paper` need no
attack: they are made from published files alone, which `tests/reliability/test_releases.py` proves by making
them again where nothing else is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from attacker import (
    ANY,
    ENOUGH,
    MANY,
    SCORES,
    Attack,
    Crossed,
    Published,
    _json,
    _rows,
    _span,
    _Tables,
    _text,
    both,
    count,
    crossed,
    found_mean,
    interval,
    solved,
)

Array = np.ndarray
SAME = 0.995  # published agreement from which two methods find the same clusters
SMALL = 11


def attack_transitions(run: Path) -> Attack:
    """Solve for hidden numbers of subjects who move from one cluster to another."""
    result, files = Attack(), Published.of(run)
    visits = files.rows("followup")
    for i, visit in enumerate(visits):
        rows = files.tables.get(f"transitions-{i}", {"rows": []})["rows"]
        if not rows:
            continue
        cells = np.array([[count(text) for text, _ in row[1:]] for row in rows])  # k x k x 2
        k = len(cells)
        lines, totals = [np.ones(k * k), np.eye(k).ravel()], [count(visit["seen"][0])]
        kept = visit["keep their cluster"][0]
        totals.append(count(kept) if kept[:1] != "\N{EN DASH}" else (0, MANY))
        for j, (_, largest) in enumerate(_sizes_of(files)):  # no more than are in the cluster
            lines.append(np.repeat(np.eye(k)[j], k))
            totals.append((0, largest))
        flat = cells.reshape(-1, 2)
        for at in np.flatnonzero(flat[:, 0] < flat[:, 1]):
            result.add(_narrow(flat, np.array(lines), np.array(totals), int(at)))
    return result


def _narrow(bounds: Array, lines: Array, totals: Array, at: int) -> bool:
    """Whether fewer values remain than enough, and than the total alone allows."""
    alone = _span(bounds, lines[:1], totals[:1], at)
    return _span(bounds, lines, totals, at) < min(ENOUGH, alone)


def _sizes_of(files: Published) -> list[tuple[int, int]]:
    return [count(str(size)) for size in files.metrics["cluster_sizes"]]


def attack_sizes(run: Path, replication: Path, second: int) -> Attack:
    """Solve for hidden sizes of clusters, with those of the first run and the size of the second cohort."""
    result, files, about = Attack(), Published.of(run), _json(replication / "replication.json")
    n = int(files.metrics["subjects"])
    for name in ("first", "transferred", "refitted"):
        shown = np.array([count(str(row[name])) for row in about["clusters"]])
        if name == "first":
            shown = np.array([both(*pair) for pair in zip(shown, _sizes_of(files), strict=True)], dtype=int)
        total = n if name == "first" else second
        for at in np.flatnonzero(shown[:, 0] < shown[:, 1]):
            found = _span(shown, np.ones((1, len(shown))), np.array([[total, total]]), int(at))
            result.add(found < ENOUGH)
    return result


def attack_deviations(replication: Path, n: int, complete: list[str]) -> Attack:
    """Solve for hidden means and counts of a cohort of n; `complete` variables have no missing values."""
    result, about, parser = Attack(), _json(replication / "replication.json"), _Tables()
    parser.feed(_text(replication / "replication.html"))
    rows = parser.tables.get("deviations", {"rows": []})["rows"]
    sizes = np.array([count(str(row["transferred"])) for row in about["clusters"]])
    for variable in dict.fromkeys(row[0][0] for row in rows):
        part = [row for row in rows if row[0][0] == variable]
        shown = [[both(interval(text), interval(key)) for text, key in row[3::2]] for row in part]
        if part[0][1][0] == "mean, SD":
            hidden = [j for j, one in enumerate(shown[0]) if one == ANY]
            for h in (h for h in hidden if sizes[h, 1] < SMALL):
                result.add(found_mean([*shown[0], (0.0, 0.0)], sizes, (n, n), 1.0, (0.0, 1.0), h))
        else:
            for found in _hidden_shares(shown, sizes, n, variable in complete):
                result.add(found)
    return result


def _hidden_shares(shown: list[list[Any]], sizes: Array, n: int, complete: bool) -> Iterator[bool]:
    """Counts of categories (levels x clusters) whose deviation is not shown.

    With counts x of a level, ``x_j / n_j - sum(x) / n`` is within the interval of a shown deviation.
    """
    levels, k = len(shown), len(sizes)
    at = np.arange(levels * k).reshape(levels, k)
    lines, totals = [], []
    for j in range(k):
        lines.append(np.isin(at, at[:, j]).ravel().astype(float))
        totals.append((sizes[j, 0] if complete else 0, sizes[j, 1]))
    for i in range(levels):
        for j in range(k):
            if shown[i][j] != ANY and sizes[j, 0] == sizes[j, 1]:
                line = np.where(np.isin(at, at[i]).ravel(), -1.0 / n, 0.0)
                line[at[i, j]] += 1.0 / sizes[j, 0]
                lines.append(line)
                totals.append((shown[i][j][0] - 1e-9, shown[i][j][1] + 1e-9))
    bounds = np.column_stack([np.zeros(levels * k), np.tile(sizes[:, 1], levels)])
    for i, j in ((i, j) for i in range(levels) for j in range(k) if shown[i][j] == ANY):
        spread = _span(bounds, np.array(lines), np.array(totals, dtype=float), int(at[i, j]))
        alone = _span(bounds, np.array(lines[:k]), np.array(totals[:k], dtype=float), int(at[i, j]))
        yield spread < min(ENOUGH, alone)


def attack_scores(run: Path, comparison: Path, own: str) -> Attack:
    """Solve for counts of the diagnosis with the scores of methods that find the described clusters."""
    result, files = Attack(), Published.of(run)
    scores = _rows(comparison / "comparison.csv")
    agreement = {row["method"]: row for row in _rows(comparison / "agreement.csv")}
    same = [name for name, row in agreement.items() if float(row.get(own) or 0.0) >= SAME]
    for variable, table in crossed(files):
        if ["participants.diagnosis", variable] in files.summary["settings"]:
            for found in solved(_with_scores(table, [row for row in scores if row["method"] in same])):
                result.add(found)
    return result


def _with_scores(table: Crossed, rows: list[dict[str, str]]) -> Crossed:
    """A table with what the scores of methods tell of it; a table that no count agrees with stays."""
    known = dict(table.scores)
    for row in rows:
        for name in SCORES:
            if row.get(name):
                known[name] = both(known.get(name, ANY), _stored(row[name]))
    narrower = replace(table, scores=known)
    possible = all(low <= high for low, high in known.values())
    return narrower if possible else table


def _stored(text: str) -> tuple[float, float]:
    """A number of a CSV file: zeros at its end are not written, so that 0.1 may stand for 0.10."""
    low, high = interval(text)
    return (low, high) if len(text.partition(".")[2]) != 1 else (float(text) - 0.05, float(text) + 0.05)


# two runs of one study


def attack_together(first: Path, second: Path) -> Attack:
    """Solve for counts that are hidden in both of two runs with the same clusters."""
    result, others = Attack(), dict(crossed(Published.of(second)))
    for name, table in crossed(Published.of(first)):
        if name in others and table.low.shape == others[name].low.shape:
            for found in solved(merged(table, others[name])):
                result.add(found)
    return result


def merged(one: Crossed, other: Crossed) -> Crossed:
    """What two descriptions of the same table tell together."""

    def narrower(a: Array, b: Array) -> Array:
        return np.column_stack([np.maximum(a[:, 0], b[:, 0]), np.minimum(a[:, 1], b[:, 1])])

    return replace(
        one,
        low=np.maximum(one.low, other.low),
        high=np.minimum(one.high, other.high),
        rows=narrower(one.rows, other.rows),
        columns=narrower(one.columns, other.columns),
        effect=both(one.effect, other.effect),
        p=both(one.p, other.p),
        test=one.test or other.test,
    )


def attack_left_out(whole: Path, without: Path) -> Attack:
    """Find the categories of the subject whom the second run lacks, by the difference of shown counts."""
    result, others = Attack(), dict(crossed(Published.of(without)))
    for name, table in crossed(Published.of(whole)):
        if name in others and table.rows.shape == others[name].rows.shape:
            result.add(found_category(table.rows, others[name].rows))
    return result


def found_category(whole: Array, without: Array) -> bool:
    """Whether the totals (levels x bounds) of a category are less by one subject, and it is shown.

    >>> found_category(np.array([[40, 40], [21, 21]]), np.array([[40, 40], [20, 20]]))
    True
    """
    exact = (whole[:, 0] == whole[:, 1]) & (without[:, 0] == without[:, 1])
    return bool((exact & (whole[:, 0] - without[:, 0] == 1)).any())


def differenced(labels: Array, others: Array, least: int = SMALL) -> tuple[int, int]:
    """Pairs of clusters of two runs that differ in few subjects, and all pairs that share most subjects.

    Labels are those that only the owner has: this counts what a reader could subtract at best, who guesses
    which clusters belong together.
    """
    close = few = 0
    for c in np.unique(labels):
        for d in np.unique(others):
            one, other = labels == c, others == d
            shared, apart = int((one & other).sum()), int((one ^ other).sum())
            described = min(one.sum(), other.sum()) >= least
            if described and shared > apart:
                close += 1
                few += 0 < apart < least
    return few, close
