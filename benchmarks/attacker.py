"""An outsider who holds the published files of a run, and solves for what they hide.

All numbers of ``report.html``, ``summary.json``, ``metrics.json``, ``clinical.json`` and the CSV files are
read with the interval that their rounding leaves. The attacks are

counts
    of every table of a categorical variable and clusters: all tables are enumerated that agree with the shown
    counts, bounds and totals, with Cramer's V, the p-value and the agreement with the diagnosis. A hidden
    count is found if fewer than five values remain, and fewer than the totals alone allow;
patterns
    of views: the range of each hidden count, from the totals of the views;
means
    of clinical variables and z-scores of features in clusters where they are hidden, from those of the other
    clusters, of all subjects, and eta or epsilon squared. One is found if the values that remain span less
    than half a standard deviation;
times
    of events, from the steps of the survival curves and the median times. One is found if it is known to less
    than a month (a twelfth of a unit of time);
followed
    numbers of subjects with follow-up that are hidden, from the numbers at risk, the first step of the
    curves (nobody is censored before it) and the number of all subjects;
events
    numbers of events that are hidden, from the height of a curve and the width of its band (Greenwood). Both
    are found if fewer than five values remain, and fewer than what is shown of them allows;
hazards
    numbers of events that are hidden, from the intervals of hazard ratios: the information of a Cox
    regression is about ``d_1 d_2 / (d_1 + d_2)`` of the numbers of events;
numbers
    of subjects with a known value, or of a cluster, that are hidden: from the means and standard deviations
    of clusters and of all, which are sums over them, and from the intervals of differences of means;
values
    of variables with three values that are taken as numbers: all pairs of columns of three counts are
    enumerated that have the shown Cliff's delta and its interval. A count is found if it is known to be small
    and fewer than five values remain.

Nothing here imports viewloom: the attacker has the files, and knows how reports are made.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from html.parser import HTMLParser
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from scipy import special, stats
from scipy.optimize import Bounds, LinearConstraint, milp

Array = np.ndarray
ENOUGH = 5  # values of a hidden count
SPAN = 0.5  # standard deviations within which a mean counts as found
MONTH = 1.0 / 12.0
MOST_TABLES = 20_000
WALKERS, STEPS = 100, 600
EXACT = 1e-3  # width of an effect that is not rounded
STARTS, MOST_VALUES = 5, 10  # of the search for a table with a given value; values that are tried
MOST_COMBINED = 2_000_000  # combinations of hidden numbers that are tried
LOST = (1.1, 1.5)  # at most, information by the numbers of events over that of a Cox regression, adjusted
EFFECTS = 21  # values of a rounded effect that are tried
MOST_TOTALS = 8  # for which Fisher's test is computed again
ANY = (-np.inf, np.inf)
MANY = 10**6
GRID = np.linspace(-6.0, 6.0, 2401)  # shifts of means, in standard deviations
FINE = float(GRID[1] - GRID[0])
SLACK = 0.02  # of sums of squared shifts
VALUES = {"cdr": 3, "one_carrier": 2, "one_variant": 3}  # that variables and features have: 0, 1 and so on
Interval = tuple[float, float]
Effect = tuple[int, Interval, Interval, Interval]  # of a cluster against the rest, with its bounds


@dataclass
class Attack:
    """What was attacked, how many of it were found, and how many could be neither found nor shown safe."""

    tried: int = 0
    found: int = 0
    open: int = 0

    def add(self, found: bool | None) -> None:
        """Count one target; None where the search ended without an answer."""
        self.tried += 1
        self.found += found is True
        self.open += found is None


class _Tables(HTMLParser):
    """Tables of a report: by id, the heads and the rows of (text, sort key)."""

    def __init__(self) -> None:
        super().__init__()
        self.tables: dict[str, dict[str, list[Any]]] = {}
        self.row: list[tuple[str, str | None]] | None = None
        self.key: str | None = None
        self.text: str | None = None
        self.name = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag == "table":
            self.name = (given.get("id") or "t-").removeprefix("t-")
            self.tables[self.name] = {"heads": [], "rows": []}
        elif tag == "tr":
            self.row = []
        elif tag in ("td", "th"):
            self.text, self.key = "", given.get("data-v")

    def handle_data(self, data: str) -> None:
        if self.text is not None:
            self.text += data

    def handle_endtag(self, tag: str) -> None:
        if tag in ("td", "th") and self.row is not None and self.text is not None:
            self.row.append((self.text.strip(), self.key))
            self.text = None
        elif tag == "tr" and self.row is not None:
            table = self.tables[self.name]
            if not table["heads"]:
                table["heads"] = [text for text, _ in self.row]
            else:
                table["rows"].append(self.row)
            self.row = None


@dataclass
class Published:
    """The files of a run that others can read."""

    tables: dict[str, dict[str, list[Any]]]
    svg: dict[str, str]
    summary: dict[str, Any]
    metrics: dict[str, Any]
    clinical: dict[str, Any]
    weights: list[dict[str, str]]
    importance: dict[str, dict[str, str]]  # rows of all views, by feature

    @classmethod
    def of(cls, folder: Path) -> Published:
        """Read a run folder; files that only their owner can read are not opened."""
        content = _json(folder / "summary.json")
        parser = _Tables()
        parser.feed(_text(folder / "report.html"))
        weights = _rows(folder / "weights.csv")
        return cls(
            parser.tables,
            content.get("figures", {}),
            {**content.get("summary", {}), "drawings": content.get("drawings", {})},
            _json(folder / "metrics.json"),
            _json(folder / "clinical.json"),
            weights,
            {row["feature"]: row for path in folder.glob("importance_*.csv") for row in _rows(path)},
        )

    def rows(self, name: str) -> list[dict[str, tuple[str, str | None]]]:
        """The rows of a table, by the heads of its columns."""
        table = self.tables.get(name, {"heads": [], "rows": []})
        return [dict(zip(table["heads"], row, strict=False)) for row in table["rows"]]


def _text(path: Path) -> str:
    """A file, if others than its owner can read it."""
    return path.read_text(encoding="utf-8") if path.is_file() and path.stat().st_mode & 0o077 else ""


def _rows(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(_text(path).splitlines()))


def _json(path: Path) -> dict[str, Any]:
    return dict(json.loads(_text(path) or "{}"))


def interval(text: Any) -> Interval:
    """The values that are rounded to this text; everything for other text.

    >>> [tuple(round(x, 6) for x in interval(text)) for text in ("0.31", "−1.5", "<0.01", 0.307)]
    [(0.305, 0.315), (-1.55, -1.45), (0.0, 0.01), (0.3065, 0.3075)]
    """
    shown = str(text).replace("\N{MINUS SIGN}", "-").strip()
    if re.fullmatch(r"<\d*\.?\d+", shown):
        return 0.0, float(shown[1:])
    if re.fullmatch(r"≥\d*\.?\d+", shown):
        return float(shown[1:]), np.inf
    found = re.fullmatch(r"(-?\d+)(?:\.(\d+))?(?:e(-?\d+))?", shown)
    if not found:
        return ANY
    half = 0.5 * 10.0 ** (-len(found[2] or "") + int(found[3] or 0))
    return float(shown) - half, float(shown) + half


def both(*given: Interval) -> Interval:
    """What several intervals leave."""
    return max(low for low, _ in given), min(high for _, high in given)


def count(text: str) -> tuple[int, int]:
    """Bounds of a shown count."""
    shown = text.split(" (")[0]
    if shown.startswith("<"):
        return 0, int(shown[1:]) - 1
    if shown.startswith("≥"):
        return int(shown[1:]), 10**6
    if shown.startswith(">"):
        return int(shown[1:]) + 1, 10**6
    if shown.startswith("about "):
        return int(shown[6:]) - 5, int(shown[6:]) + 5
    return (int(shown), int(shown)) if shown.isdigit() else (0, 10**6)


# counts


@dataclass
class Crossed:
    """A table of a variable and clusters as it is published, with the statistics that are known of it."""

    low: Array
    high: Array
    rows: Array  # (levels, 2): bounds of totals
    columns: Array  # (k, 2)
    tested: int  # rows that are not missing values
    effect: Interval
    p: Interval
    test: str
    scores: dict[str, Interval]
    odds: tuple[Effect, ...] = ()

    @property
    def hidden(self) -> Array:
        """Counts that are not shown."""
        return np.argwhere(self.low < self.high)


def crossed(files: Published) -> Iterator[tuple[str, Crossed]]:
    """The tables of all categorical variables."""
    rows = files.rows("profile")
    heads = _clusters(files)
    if not rows:
        return
    sizes = np.array([count(rows[0][head][0]) for head in heads])
    for variable in dict.fromkeys(row["variable"][0] for row in rows[1:]):
        part = [row for row in rows if row["variable"][0] == variable]
        values = [row["value"][0] for row in part]
        if "mean (SD)" in values:
            continue
        cells = np.array([[count(row[head][0]) for head in heads] for row in part])
        totals = np.array([count(row["all"][0]) for row in part])
        tested = sum(value != "(missing)" for value in values)
        yield (
            variable,
            Crossed(
                cells[:, :, 0],
                cells[:, :, 1],
                totals,
                sizes,
                tested,
                *_statistics(files, variable),
                _odds(files, variable),
            ),
        )


def _statistics(files: Published, variable: str) -> tuple[Interval, Interval, str, dict[str, Interval]]:
    """Effect, p-value, test and scores of a variable, as narrow as any file tells."""
    effect, p, test = [ANY], [(0.0, 1.0)], ""
    for row in files.rows("associations"):
        if row["variable"][0] == variable:
            test = row["test"][0]
            effect += [interval(row["effect"][0]), interval(row["effect"][1])]
            p.append(interval(row["p"][0]))
            p += [interval(row["p"][1])] * (not row["p"][0].startswith(("<", "≥")))
    for row in files.rows("explanations"):
        if row["variable"][0] == variable:
            effect += [interval(row["effect"][0]), interval(row["effect"][1])]
    drawn = files.summary["drawings"].get("associations", {}).get("data", {"variable": []})
    if variable in drawn["variable"]:
        at = drawn["variable"].index(variable)
        effect.append(interval(drawn["effect"][at]))
        p.append(_p_of(drawn["p"][at]))
    for stored in files.clinical.get("associations", []):
        if stored["variable"] == variable:
            effect.append(interval(stored["effect"]))
            p.append(_p_of(stored["p"]))
    scores = {}
    if files.summary.get("settings") and ["participants.diagnosis", variable] in files.summary["settings"]:
        agreement = files.metrics.get("agreement_with_diagnosis") or {}
        scores = {name: interval(value) for name, value in agreement.items() if name in SCORES}
    return both(*effect), both(*p), test, scores


def _adjusted(files: Published, variable: str, model: str) -> Iterator[Effect]:
    """Effects of a variable and their bounds, by cluster, if nothing is adjusted for."""
    if not _unadjusted(files):
        return
    names = [head.removeprefix("cluster ") for head in _clusters(files)]
    for row in files.rows("adjusted"):
        if row["variable"][0] == variable and row["model"][0] == model:
            at = names.index(row["cluster against the rest"][0])
            yield at, interval(row["effect"][0]), *bounds_of(row["95% interval"][0])


def _unadjusted(files: Published) -> bool:
    return ["participants.covariates", "none"] in files.summary.get("settings", [])


def _odds(files: Published, variable: str) -> tuple[Effect, ...]:
    return tuple(_adjusted(files, variable, "logistic"))


def bounds_of(text: str) -> tuple[Interval, Interval]:
    """The two bounds of a shown interval.

    >>> bounds_of("0.5 to 2.5"), bounds_of("–")
    (((0.45, 0.55), (2.45, 2.55)), ((-inf, inf), (-inf, inf)))
    """
    low, _, high = text.partition(" to ")
    return interval(low), interval(high)


def _p_of(value: Any) -> Interval:
    """A stored p-value: those below 0.001 may stand for all of them."""
    low, high = interval(value)
    return (0.0, 0.001) if high < 0.001 and len(str(value)) <= 6 else (low, high)


def attack_counts(files: Published) -> Attack:
    """Solve for the hidden counts of all tables."""
    result = Attack()
    for _, table in crossed(files):
        for found in solved(table):
            result.add(found)
    return result


def solved(table: Crossed) -> list[bool | None]:
    """For each hidden count, whether fewer values remain than enough; None if the search did not end."""
    hidden = table.hidden
    if not len(hidden):
        return []
    tables, complete = enumerated(table)
    if not complete:
        tables = np.concatenate([tables, walked(table, tables)])
    agreeing = tables[agrees(table, tables)]
    answers: list[bool | None] = []
    for i, j in hidden.tolist():
        seen = set(agreeing[:, i, j].tolist())
        few = len(seen) < ENOUGH and len(seen) < (enough := min(ENOUGH, _allowed(table, i, j)))
        if not few:
            answers.append(False)
        elif complete:
            answers.append(True if seen else None)
        else:
            answers.append(decided(table, i, j, seen, enough))
    return answers


def decided(table: Crossed, i: int, j: int, seen: set[int], enough: int) -> bool | None:
    """Whether fewer than enough values of a count remain, by integer programming and a search for each value.

    A value remains if a table with it agrees with all that is published; None where the search finds too few.
    """
    bounds = np.column_stack([table.low.ravel(), table.high.ravel()])
    ends = _extremes(bounds, *_lines(table), i * table.low.shape[1] + j)
    if ends is None:
        return None
    if ends[1] - ends[0] + 1 < enough:
        return True
    if table.effect[1] - table.effect[0] < EXACT:
        return None  # few tables agree: none would be found by chance
    near = seen or {sum(ends) // 2}
    tried = sorted(range(ends[0], ends[1] + 1), key=lambda value: min(abs(value - one) for one in near))
    for value in tried[:MOST_VALUES]:
        if len(seen) >= enough:
            return False
        if value not in seen and has_value(table, i, j, value):
            seen.add(value)
    return False if len(seen) >= enough else None


def has_value(table: Crossed, i: int, j: int, value: int) -> bool:
    """Whether a search finds a table that agrees, with this value of a count."""
    low, high = table.low.copy(), table.high.copy()
    low[i, j] = high[i, j] = value
    fixed, rng = replace(table, low=low, high=high), np.random.default_rng(0)
    starts = [start for _ in range(STARTS) if (start := _feasible(fixed, rng)) is not None]
    moves = _moves(fixed, rng)
    if not starts or not len(moves):
        return any(bool(agrees(table, start[None])[0]) for start in starts)
    at = np.repeat(np.array(starts), WALKERS // len(starts), axis=0)
    apart = violation(table, at)
    for step in range(STEPS):
        if (apart <= 0.0).any() and agrees(table, at[apart <= 0.0]).any():
            return True
        new = _moved(fixed, at, moves, rng)
        further = violation(table, new)
        hot = 0.02 * rng.exponential(size=len(at)) * (1.0 - step / STEPS)
        taken = further <= apart + hot
        at, apart = np.where(taken[:, None, None], new, at), np.where(taken, further, apart)
    return bool(agrees(table, at).any())


def violation(table: Crossed, tables: Array) -> Array:
    """How far the statistics of tables are from those that are published."""
    apart = np.zeros(len(tables))
    for values, (low, high) in _told(table, tables[:, : table.tested]):
        away = np.maximum(np.maximum(low - values, values - high), 0.0)
        apart += np.nan_to_num(np.where(away > 1e-9, away, 0.0), nan=10.0, posinf=10.0)
    return apart


def _lines(table: Crossed) -> tuple[Array, Array]:
    """Sums of counts over rows and columns, and their bounds."""
    at = np.arange(table.low.size).reshape(table.low.shape)
    lines = np.array([np.isin(at.ravel(), line) for line in (*at, *at.T)], dtype=float)
    return lines, np.vstack([table.rows, table.columns])


def _allowed(table: Crossed, i: int, j: int) -> int:
    """Values of a count that the totals and bounds allow, if every count were hidden."""
    shown = table.low == table.high
    low = np.where(shown, 11, table.low).ravel()
    high = np.where(shown, 10**6, table.high).ravel()
    return _span(np.column_stack([low, high]), *_lines(table), i * shown.shape[1] + j)


def enumerated(table: Crossed, most: int = MOST_TABLES) -> tuple[Array, bool]:
    """All tables within the bounds and totals, and whether these are all."""
    cells = [tuple(at) for at in table.hidden.tolist()]
    shown = np.where(table.low < table.high, 0, table.low)
    rows, columns = shown.sum(axis=1).tolist(), shown.sum(axis=0).tolist()
    low, high = table.low.tolist(), table.high.tolist()
    row_ends, column_ends = table.rows.tolist(), table.columns.tolist()
    least_after, most_after = (_after(table, ends) for ends in (table.low, table.high))
    values, found, steps = [0] * len(cells), [], 0

    def place(at: int) -> bool:
        nonlocal steps
        steps += 1
        if len(found) >= most or steps > 20 * most:
            return False
        if at == len(cells):
            found.append(tuple(values))
            return True
        i, j = cells[at]
        (row_least, column_least), (row_most, column_most) = least_after[at], most_after[at]
        largest = min(
            high[i][j],
            row_ends[i][1] - rows[i] - row_least,
            column_ends[j][1] - columns[j] - column_least,
        )
        least = max(
            low[i][j],
            row_ends[i][0] - rows[i] - row_most,
            column_ends[j][0] - columns[j] - column_most,
        )
        for value in range(least, largest + 1):
            values[at] = value
            rows[i] += value
            columns[j] += value
            fine = place(at + 1)
            rows[i] -= value
            columns[j] -= value
            if not fine:
                return False
        return True

    complete = place(0)
    tables = np.repeat(shown[None], len(found), axis=0)
    tables[:, table.hidden[:, 0], table.hidden[:, 1]] = np.array(found, dtype=int).reshape(-1, len(cells))
    return tables, complete


def _after(table: Crossed, ends: Array) -> list[tuple[int, int]]:
    """For each hidden count, the sum of a bound over those that come later in its row, and in its column."""
    found = []
    for i, j in table.hidden.tolist():
        later = [(a, b) for a, b in table.hidden.tolist() if (a, b) > (i, j)]
        row = sum(int(ends[a, b]) for a, b in later if a == i)
        found.append((row, sum(int(ends[a, b]) for a, b in later if b == j)))
    return found


def walked(table: Crossed, tables: Array) -> Array:
    """Further tables within bounds and totals, by random exchanges; they prove that values are possible."""
    start = _feasible(table) if not len(tables) else None
    if start is None and not len(tables):
        return tables
    rng = np.random.default_rng(0)
    moves = _moves(table, rng)
    if not len(moves):
        return tables[:0]
    at = np.repeat(start[None], WALKERS, axis=0) if start is not None else rng.choice(tables, WALKERS)
    seen = []
    for step in range(STEPS):
        at = _moved(table, at, moves, rng)
        seen += [at] * (step % 5 == 4)
    return np.concatenate(seen)


def _moved(table: Crossed, at: Array, moves: Array, rng: np.random.Generator) -> Array:
    """Each table after a random exchange; the same where it would leave bounds or totals."""
    new = at + moves[rng.integers(len(moves), size=len(at))] * rng.choice([-1, 1], (len(at), 1, 1))
    fine = ((new >= table.low) & (new <= table.high)).all(axis=(1, 2))
    for axis, ends in ((2, table.rows), (1, table.columns)):
        totals = new.sum(axis=axis)
        fine &= ((totals >= ends[:, 0]) & (totals <= ends[:, 1])).all(axis=1)
    return np.where(fine[:, None, None], new, at)


def _moves(table: Crossed, rng: np.random.Generator) -> Array:
    """Exchanges over two or three rows and columns, and between lines whose totals are hidden."""
    mask = table.low < table.high
    moves = []
    for size, _ in product((2, 3), range(300)):
        if min(mask.shape) >= size:
            i, j = rng.permutation(len(mask))[:size], rng.permutation(mask.shape[1])[:size]
            if mask[i, j].all() and mask[i, np.roll(j, 1)].all():
                move = np.zeros(mask.shape, dtype=int)
                move[i, j] += 1
                move[i, np.roll(j, 1)] -= 1
                moves.append(move)
    open_rows, open_columns = (ends[:, 0] < ends[:, 1] for ends in (table.rows, table.columns))
    for (i, j), (a, b) in product(map(tuple, np.argwhere(mask)), repeat=2):
        if (j == b and i < a and open_rows[i] and open_rows[a]) or (
            i == a and j < b and open_columns[j] and open_columns[b]
        ):
            move = np.zeros(mask.shape, dtype=int)
            move[i, j], move[a, b] = 1, -1
            moves.append(move)
    return np.array(moves).reshape(-1, *mask.shape)


def _feasible(table: Crossed, rng: np.random.Generator | None = None) -> Array | None:
    """One table within bounds and totals; a random one, if there is a generator."""
    lines, totals = _lines(table)
    target = np.zeros(table.low.size) if rng is None else rng.standard_normal(table.low.size)
    found = milp(
        target,
        integrality=np.ones(table.low.size),
        bounds=Bounds(table.low.ravel(), np.minimum(table.high.ravel(), totals[:, 1].max())),
        constraints=LinearConstraint(lines, totals[:, 0], totals[:, 1]),
    )
    return None if found.x is None else np.round(found.x).astype(int).reshape(table.low.shape)


def agrees(table: Crossed, tables: Array) -> Array:
    """Which tables have the statistics that are published."""
    if not len(tables):
        return np.zeros(0, dtype=bool)
    inner = tables[:, : table.tested]
    fine = np.ones(len(tables), dtype=bool)
    for values, known in _told(table, inner):
        fine &= _within(values, known)
    if table.test != "chi-square" and table.p != (0.0, 1.0):
        p = fisher(inner[fine])
        fine[fine] = _within(p, table.p) | np.isnan(p)
    return fine


def _told(table: Crossed, inner: Array) -> Iterator[tuple[Array, Interval]]:
    """Statistics of tables, and what is published of each, but for Fisher's test."""
    yield cramers_v(inner), table.effect
    for name, known in table.scores.items():
        yield SCORES[name](inner), known
    for j, *shown in table.odds if inner.shape[1] == 2 else ():
        yield from zip(odds_ratios(inner, j), shown, strict=True)
    if table.test == "chi-square":
        r, c = ((inner.sum(axis=axis) > 0).sum(axis=1) for axis in (2, 1))
        yield stats.chi2.sf(chi_squares(inner), np.maximum((r - 1) * (c - 1), 1)), table.p


def odds_ratios(tables: Array, j: int) -> tuple[Array, Array, Array]:
    """Odds ratio of the second value in a cluster against the rest, and its 95 % interval (Wald)."""
    own, rest = tables[:, :, j].astype(float), np.delete(tables, j, axis=2).sum(axis=2).astype(float)
    cells = np.column_stack([own, rest])
    with np.errstate(divide="ignore", invalid="ignore"):
        b = np.log(own[:, 1] * rest[:, 0] / (own[:, 0] * rest[:, 1]))
        reach = 1.96 * np.sqrt((1.0 / cells).sum(axis=1))
        found = np.exp(b), np.exp(b - reach), np.exp(b + reach)
    return found[0], found[1], found[2]


def fisher(tables: Array) -> Array:
    """P-values of Fisher's test: the random tables of a fixed seed can be drawn again, for all totals."""
    p = np.full(len(tables), np.nan)
    totals = np.hstack([tables.sum(axis=2), tables.sum(axis=1)])
    groups, which = np.unique(totals, axis=0, return_inverse=True)
    for group in range(min(len(groups), MOST_TOTALS)):
        same = which.ravel() == group  # numpy 2.0 returns a column
        p[same] = _fisher(tables[same])
    return p


def _fisher(tables: Array) -> Array:
    """P-values of tables with the same totals."""
    first = tables[0][tables[0].sum(axis=1) > 0][:, tables[0].sum(axis=0) > 0]
    if first.shape == (2, 2):
        return np.array([stats.fisher_exact(_filled(table))[1] for table in tables])
    if min(first.shape) < 2:
        return np.ones(len(tables))
    drawing = stats.random_table(first.sum(axis=1), first.sum(axis=0))
    rng = np.random.default_rng(0)
    drawn = np.concatenate([drawing.rvs(size, random_state=rng) for size in [1000] * 9 + [999]])
    unlikely = np.sort(special.gammaln(drawn + 1.0).sum(axis=(1, 2)))
    above = len(unlikely) - np.searchsorted(unlikely, special.gammaln(tables + 1.0).sum(axis=(1, 2)) - 1e-7)
    return np.asarray((above + 1) / (len(unlikely) + 1))


def _filled(table: Array) -> Array:
    return np.asarray(table[table.sum(axis=1) > 0][:, table.sum(axis=0) > 0]).reshape(2, 2)


def _within(values: Array, known: Interval) -> Array:
    slack = 1e-9
    return (values >= known[0] - slack) & (values <= known[1] + slack)


def chi_squares(tables: Array) -> Array:
    """Chi-square of each table."""
    expected = np.maximum(tables.sum(axis=2)[:, :, None] * tables.sum(axis=1)[:, None, :], 1)
    return np.asarray(tables.sum(axis=(1, 2)) * ((tables**2 / expected).sum(axis=(1, 2)) - 1.0))


def cramers_v(tables: Array) -> Array:
    """Cramer's V of each table, corrected for its bias."""
    n = tables.sum(axis=(1, 2))
    r, c = ((tables.sum(axis=axis) > 0).sum(axis=1) for axis in (2, 1))
    phi2 = np.maximum(0.0, chi_squares(tables) / n - (r - 1) * (c - 1) / (n - 1))
    least = np.minimum(r - (r - 1) ** 2 / (n - 1), c - (c - 1) ** 2 / (n - 1)) - 1
    return np.where(least > 0, np.sqrt(phi2 / np.where(least > 0, least, 1.0)), 0.0)


def _ari(tables: Array) -> Array:
    def pairs(x: Array) -> Array:
        return x * (x - 1) / 2.0

    same = pairs(tables).sum(axis=(1, 2))
    rows, columns = pairs(tables.sum(axis=2)).sum(axis=1), pairs(tables.sum(axis=1)).sum(axis=1)
    chance = rows * columns / pairs(tables.sum(axis=(1, 2)))
    return np.asarray((same - chance) / np.maximum((rows + columns) / 2.0 - chance, 1e-12))


def _nmi(tables: Array) -> Array:
    n = tables.sum(axis=(1, 2))[:, None]
    apart = sum(special.entr(tables.sum(axis=axis) / n).sum(axis=1) for axis in (2, 1))
    joint = special.entr(tables.reshape(len(tables), -1) / n).sum(axis=1)
    return np.asarray((apart - joint) / np.maximum(apart / 2.0, 1e-12))


SCORES = {"ARI": _ari, "NMI": _nmi}


# patterns of views


def attack_patterns(files: Published) -> Attack:
    """Solve for the hidden counts of combinations of views."""
    result = Attack()
    rows, views = files.rows("patterns"), [row["view"][0] for row in files.rows("views")]
    if not rows:
        return result
    bounds = np.array([count(row["subjects"][0]) for row in rows])
    bounds[:, 0] = np.maximum(bounds[:, 0], 1)  # a combination that is listed occurs
    n = int(files.metrics["subjects"])
    has = np.array([[view not in row["missing views"][0].split(", ") for view in views] for row in rows])
    totals = np.array([_view_size(files, view) for view in views])
    for at in np.flatnonzero(bounds[:, 0] < bounds[:, 1]):
        with_views = _span(bounds, np.vstack([np.ones(len(rows)), has.T]), np.vstack([[n, n], totals]), at)
        alone = _span(bounds, np.ones((1, len(rows))), np.array([[n, n]]), at)
        result.add(with_views < min(ENOUGH, alone))
    return result


def _view_size(files: Published, view: str) -> tuple[int, int]:
    """Subjects who have a view; a round number of a file stands for the numbers around it."""
    shown = count(next(row["subjects"][0] for row in files.rows("views") if row["view"][0] == view))
    stored = next((count(row["subjects"]) for row in files.weights if row["view"] == view), shown)
    is_round = stored[0] % 10 == 0 and shown[0] < shown[1]
    return shown if is_round or stored[0] < stored[1] else stored


def _span(bounds: Array, lines: Array, totals: Array, at: int) -> int:
    """Number of values between the least and the largest that a count may have."""
    ends = _extremes(bounds, lines, totals, at)
    return 10**6 if ends is None else ends[1] - ends[0] + 1


def _extremes(bounds: Array, lines: Array, totals: Array, at: int) -> tuple[int, int] | None:
    """The least and the largest value that a count may have; None if there is none."""
    ends = []
    for sign in (1.0, -1.0):
        target = np.zeros(len(bounds))
        target[at] = sign
        found = milp(
            target,
            integrality=np.ones(len(bounds)),
            bounds=Bounds(bounds[:, 0], bounds[:, 1]),
            constraints=LinearConstraint(lines, totals[:, 0], totals[:, 1]),
        )
        if found.x is None:
            return None
        ends.append(round(sign * found.fun))
    return ends[0], ends[1]


# means


def attack_means(files: Published) -> Attack:
    """Solve for the means of clusters that are too small to show, of clinical variables and features."""
    result = Attack()
    rows, heads = files.rows("profile"), _clusters(files)
    sizes = np.array([count(rows[0][head][0]) for head in heads]) if rows else np.zeros((0, 2))
    for row in rows:
        spread = _spread_of(row) if row["value"][0] == "mean (SD)" else 0.0
        if spread > 0.0:
            variable = row["variable"][0]
            ours = [other for other in rows if other["variable"][0] == variable]
            known = next((other for other in ours if other["value"][0] == "known"), None)
            n = sizes if known is None else np.array([count(known[head][0]) for head in heads])
            total = _total(files, ours)
            means = [_mean(*row[head]) for head in [*heads, "all"]]
            small = [j for j, head in enumerate(heads) if row[head][0].startswith("<")]
            explained = both(_explained(files, variable), (0.0, most_explained(row, heads, n, total)))
            for h in small:
                result.add(found_mean(means, n, total, spread, explained, h))
    for found in _hidden_features(files, sizes):
        result.add(found)
    return result


def _total(files: Published, rows: list[dict[str, tuple[str, str | None]]]) -> tuple[int, int]:
    """Bounds of the number of subjects with a value, by the rows of a variable and what is missing of it."""
    n = int(files.metrics["subjects"])
    shown = {row["value"][0]: count(row["all"][0]) for row in rows}
    tested = [row for row in files.rows("associations") if row["variable"][0] == rows[0]["variable"][0]]
    lacking = [count(row["missing values"][0]) for row in tested]
    lacking += [shown["(missing)"]] if "(missing)" in shown else []
    known = shown.get("known", (0, n))
    return max([known[0], *(n - high for _, high in lacking)]), min(
        [known[1], n, *(n - low for low, _ in lacking)]
    )


def _clusters(files: Published) -> list[str]:
    """Columns of the profile for clusters."""
    return [
        head for head in files.tables.get("profile", {"heads": []})["heads"] if head.startswith("cluster")
    ]


def _mean(text: str, key: str | None) -> Interval:
    """A shown mean; the sort key may have more digits, but a zero behind the point may be none.

    >>> _mean("24 (4)", "24.0"), _mean("24 (4)", "24.3")
    ((23.5, 24.5), (24.25, 24.35))
    """
    if text[:1] in "<≥h":
        return ANY
    shown, stored = interval(text.split(" (")[0]), interval(key)
    same = key is not None and key.endswith(".0") and sum(shown) == sum(stored)
    return shown if same else both(shown, stored)


def _spread_of(row: dict[str, tuple[str, str | None]]) -> float:
    """The standard deviation of all, or the largest that the mean of few values allows; 0 if unknown."""
    text, mean = row["all"][0], _mean(*row["all"])
    if "(" in text:
        return float(text.split("(")[1].rstrip(")"))
    top, middle = VALUES.get(row["variable"][0], 1) - 1.0, sum(mean) / 2.0
    return float(np.sqrt(max(middle * (top - middle), 0.25))) if mean != ANY and top > 0.0 else 0.0


def spread_within(text: str) -> Interval:
    """The standard deviation that is shown with a mean.

    >>> spread_within("24.0 (4.5)"), spread_within("24")
    ((4.45, 4.55), (-inf, inf))
    """
    return interval(text.split("(")[1].rstrip(")")) if "(" in text else ANY


def most_explained(
    row: dict[str, tuple[str, str | None]], heads: list[str], n: Array, total: tuple[int, int]
) -> float:
    """The largest eta squared that standard deviations of shown clusters leave of the variance of all."""
    everyone = spread_within(row["all"][0])
    if everyone == ANY:
        return 1.0
    shown = [(spread_within(row[head][0]), n[j, 0]) for j, head in enumerate(heads)]
    within = sum(max(size - 1, 0) * spread[0] ** 2 for spread, size in shown if spread != ANY)
    return float(np.clip(1.0 - within / (total[1] * everyone[1] ** 2), 0.0, 1.0))


def _explained(files: Published, variable: str) -> Interval:
    """Eta squared of a variable, from any file."""
    severity = ((files.metrics.get("design") or {}).get("severity") or {}).get(variable)
    return both((0.0, 1.0), interval(severity))


def _hidden_features(files: Published, sizes: Array) -> Iterator[bool]:
    """Z-scores of features in small clusters; their mean over all subjects is 0."""
    n = int(files.metrics["subjects"])
    small = [j for j in range(len(sizes)) if sizes[j, 1] < 11]
    for name in (name for name in files.tables if re.fullmatch(r"features-\d+", name)):
        for row in files.rows(name)[:10]:
            means = [_mean(*cell) for head, cell in row.items() if head.endswith("(SD)")]
            if len(means) == len(sizes):
                known = [*(ANY if mean == (-np.inf, np.inf) else mean for mean in means), (0.0, 0.0)]
                share = shares_of(files, row["feature"][0])
                yield from (found_mean(known, sizes, (n, n), 1.0, share, h) for h in small)


def shares_of(files: Published, feature: str) -> Interval:
    """The share of the variance of a feature that the clusters explain."""
    found = [(0.0, 1.0)]
    for row in files.rows("standing-out"):
        if row["feature"][0] == feature:
            found += [interval(row["by all views"][0]), interval(row["by all views"][1])]
    return both(*found)


def found_mean(
    means: list[Interval], n: Array, total: tuple[int, int], spread: float, explained: Interval, h: int
) -> bool:
    """Whether a hidden mean is known to half a standard deviation; `means` ends with that of all subjects."""
    hidden = [j for j, mean in enumerate(means[:-1]) if mean == ANY]
    if not spread > 0 or h not in hidden or len(hidden) > 2:
        return False
    left = np.zeros(len(GRID), dtype=bool)
    for sizes in _possible_sizes(n, total, h):
        left |= possible_means(means, sizes, spread, explained, hidden, h)
    return bool(0.0 < left.sum() * FINE < SPAN)


def possible_means(
    means: list[Interval], sizes: Array, spread: float, explained: Interval, hidden: list[int], h: int
) -> Array:
    """Which shifts of a hidden mean (`GRID`) agree with the others, for given sizes.

    Shifts d from the mean of all, in standard deviations, have ``sum n d = 0`` and, as far as eta squared is
    known, ``sum n d^2 = eta^2 N``.
    """
    shifts, reach = _shifts(means, spread)
    rest, slack = -float(sizes @ shifts), float(sizes @ reach) + 1e-6
    if len(hidden) == 1:
        return np.asarray(np.abs(sizes[h] * GRID - rest) <= slack + FINE / 2.0 * sizes[h])
    other = max(sizes[next(j for j in hidden if j != h)], 1.0)
    centre = np.abs(rest - sizes[h] * GRID) / other
    near = np.maximum(centre - slack / other, 0.0)
    least = sizes @ np.maximum(np.abs(shifts) - reach, 0.0) ** 2 + sizes[h] * GRID**2
    most = sizes @ (np.abs(shifts) + reach) ** 2 + sizes[h] * GRID**2 + other * (centre + slack / other) ** 2
    fine = (near <= 4.0) & (most + SLACK >= explained[0] * (sizes.sum() - 1.0))
    return np.asarray(fine & (least + other * near**2 <= explained[1] * sizes.sum() + SLACK))


def _shifts(means: list[Interval], spread: float) -> tuple[Array, Array]:
    """Shifts of means from that of all, and how far rounding leaves them open; zeros for hidden ones."""
    middle, half = _middle(means, 0.0)
    hidden = np.array([mean == ANY for mean in means[:-1]])
    shifts = np.where(hidden, 0.0, (middle[:-1] - middle[-1]) / spread)
    return shifts, np.where(hidden, 0.0, (half[:-1] + half[-1]) / spread)


def _possible_sizes(n: Array, total: tuple[int, int], h: int) -> Iterator[Array]:
    """Sizes of clusters that agree with their bounds and total; that of one cluster is varied."""
    open_ = [j for j in range(len(n)) if n[j, 0] < n[j, 1] and j != h]
    for size in range(max(int(n[h, 0]), 1), min(int(n[h, 1]), 60) + 1):
        for sum_ in range(total[0], total[1] + 1):
            sizes = n[:, 0].astype(float)
            sizes[h] = size
            lacking = sum_ - sizes.sum()
            if open_:
                sizes[open_] += lacking / len(open_)
            if open_ or abs(lacking) < 0.5:
                yield sizes


# times


def attack_times(files: Published) -> Attack:
    """Look for times of single events in curves, drawn and stored, and in medians."""
    result = Attack()
    data = files.summary["drawings"].get("survival", {}).get("data")
    if data is None:
        return result
    curves = data["curves"]
    for cluster in sorted(set(curves["cluster"])):
        times = [t for t, c in zip(curves["time"], curves["cluster"], strict=True) if c == cluster and t > 0]
        for found in found_times(times):
            result.add(found)
    last = max(curves["time"], default=0.0)
    for steps in drawn_steps(files.svg.get("survival", ""), last):
        for found in found_times(steps):
            result.add(found)
    for row in files.rows("conversion"):
        text, key = row["median time"]
        if interval(text) != ANY:
            step = resolution([float(t) for t in curves["time"] if t > 0])
            result.add(min(step, 2 * abs(float(key or text) - interval(key or text)[0])) < MONTH)
    return result


def found_times(times: list[float]) -> list[bool]:
    """For each step of a curve, whether its time is known to a month."""
    return [resolution(times) < MONTH] * len(times)


def resolution(times: list[float]) -> float:
    """The spacing of the grid that all times are on; 0 if they are on none.

    >>> resolution([0.5, 1.0, 2.0]), resolution([0.218901, 0.332902, 0.50015])
    (0.5, 0.0)
    """
    if not times:
        return np.inf
    gaps = np.diff(np.unique([0.0, *times]))
    step = float(gaps[gaps > 1e-3].min(initial=np.inf))
    ratios = gaps[gaps > 1e-3] / step
    return step if np.abs(ratios - np.round(ratios)).max(initial=0.0) < 0.04 else 0.0


def drawn_steps(svg: str, last: float) -> list[list[float]]:
    """Times of the steps of the curves that are drawn, from their path; the longest curve ends at `last`."""
    ways = []
    for path in re.findall(r'<path [^>]*?\bd="([^"]*)"[^>]*?>', svg):
        points = np.array(re.findall(r"[ML] (-?[\d.]+) (-?[\d.]+)", path), dtype=float)
        if len(points) > 4 and "Z" not in path.upper():
            flat = np.abs(np.diff(points, axis=0)) < 0.02
            if flat.any(axis=1).all():
                ways.append(np.unique(points[:, 0].round(1)))
    if not ways:
        return []
    start, end = min(way[0] for way in ways), max(way[-1] for way in ways)
    scale = last / max(end - start, 1e-9)
    return [[float(x) for x in (way - start) * scale if x > 1e-6] for way in ways]


# numbers behind survival curves


def attack_followed(files: Published) -> Attack:
    """Solve for hidden numbers of subjects with follow-up, if all subjects have it."""
    result = Attack()
    rows, data = files.rows("conversion"), files.summary["drawings"].get("survival", {}).get("data")
    if not rows or data is None:
        return result
    n = int(files.metrics["subjects"])
    alone = [_values(row["followed up"][0], n) for row in rows]
    sizes = [_values(files.rows("profile")[0][head][0], n) for head in _clusters(files)]
    if len(alone) != len(sizes) or not all(
        a == b for a, b in zip(alone, sizes, strict=True) if len(a) == 1 or len(b) == 1
    ):
        return result  # some subjects have no follow-up
    known = [values & _at_risk(data, j, n) & _stepped(data, j, n) for j, values in enumerate(alone)]
    for j in (j for j, values in enumerate(alone) if len(values) > 1):
        remain, before = (len(_completing(values, j, n)) for values in (known, alone))
        result.add(0 < remain < min(ENOUGH, before))
    return result


def _values(text: str, n: int) -> set[int]:
    low, high = count(text)
    return set(range(low, min(high, n) + 1))


def _at_risk(data: dict[str, Any], j: int, n: int) -> set[int]:
    """Numbers at risk at the start that are rounded to what is shown."""
    shown = data["at_risk"][0][j]
    if shown is None or shown < 0:
        return set(range(n + 1))
    least = data["min_cell"]
    return {size for size in range(least, n + 1) if max(10 * round(size / 10), least) == shown}


def _curve_of(data: dict[str, Any], j: int) -> list[tuple[float, float, float, float]]:
    """Time, height and band of the curve of a cluster, after its start."""
    columns = (data["curves"][name] for name in ("cluster", "time", "survival", "low", "high"))
    cluster = data["clusters"][j]
    return [tuple(point) for c, *point in zip(*columns, strict=True) if c == cluster and point[0] > 0]


def _stepped(data: dict[str, Any], j: int, n: int) -> set[int]:
    """Numbers of subjects of which a whole number has the event before the first step."""
    curve = _curve_of(data, j)
    if not curve:
        return set(range(n + 1))
    lost = 1.0 - curve[0][1]
    return {size for size in range(1, n + 1) if abs(round(lost * size) / size - lost) <= 0.005}


def _completing(values: list[set[int]], j: int, n: int) -> set[int]:
    """Values of one number with which the others, within their values, have the total n."""
    sums = {0}
    for i, others in enumerate(values):
        sums = {a + b for a in sums for b in others if a + b <= n} if i != j else sums
    return {value for value in values[j] if n - value in sums}


def attack_events(files: Published) -> Attack:
    """Estimate hidden numbers of events by the last step of curves."""
    result = Attack()
    data = files.summary["drawings"].get("survival", {}).get("data")
    for j, row in enumerate(files.rows("conversion") if data is not None else []):
        if row["events"][0].startswith("<"):
            curve, bound = _curve_of(data, j), int(row["events"][0][1:])
            low, high = greenwood(*curve[-1][1:]) if curve else (0.0, np.inf)
            remain = [d for d in range(bound) if low - 0.5 < d < high + 0.5]
            result.add(0 < len(remain) < min(ENOUGH, bound))
    return result


def greenwood(height: float, low: float, high: float) -> Interval:
    """Bounds of the number of events before a step, by its height S and its 95 % band in two decimals.

    The band is that of ``log(-log S)``, with variance ``V / log(S)^2``. Without censoring ``V`` is
    ``(1 - S) / (n S)``, and there are ``(1 - S) n`` events.

    >>> [round(x) for x in greenwood(0.9, 0.82, 0.94)]  # 10 of 100
    [9, 14]
    """
    if height >= 1.0:
        return 0.0, 0.0
    found = []
    for shifts in product((-0.005, 0.005), repeat=3):
        S, a, b = np.clip(np.array([height, low, high]) + shifts, 1e-3, 0.999).tolist()
        width = (np.log(-np.log(a)) - np.log(-np.log(b))) / 2.0 / 1.96 * abs(np.log(S))
        found.append((1.0 - S) ** 2 / (S * width**2))
    return min(found), max(found)


# intervals of effects


def attack_hazards(files: Published) -> Attack:
    """Solve for hidden numbers of events by the intervals of hazard ratios."""
    result, rows, n = Attack(), files.rows("conversion"), int(files.metrics["subjects"])
    names = [row["cluster"][0] for row in rows]
    ratios = {
        names.index(row["cluster against the rest"][0]): bounds_of(row["95% interval"][0])
        for row in files.rows("hazards")
        if row["cluster against the rest"][0] in names
    }
    ends = [_events_of(row, n) for row in rows]
    for j in (j for j, (low, high) in enumerate(ends) if low < high):
        remain = possible_events(ends, ratios, j, LOST[not _unadjusted(files)])
        if remain is None:
            result.add(None)
        else:
            result.add(0 < remain < min(ENOUGH, ends[j][1] - ends[j][0] + 1))
    return result


def _events_of(row: dict[str, tuple[str, str | None]], n: int) -> tuple[int, int]:
    low, high = count(row["events"][0])
    return low, min(high, count(row["followed up"][0])[1], n)


def possible_events(
    ends: list[tuple[int, int]],
    ratios: dict[int, tuple[Interval, Interval]],
    j: int,
    lost: float = LOST[0],
) -> int | None:
    """Number of values of the events of cluster j that agree with the intervals; None for too many to try.

    With d events of a cluster and D of all, ``1 / se^2`` of the log hazard ratio is at most
    ``d (D - d) / D``, and not much less where the share of the cluster among those at risk changes little.
    """
    tried = _all_within(ends)
    if tried is None:
        return None
    fine, total = np.ones(len(tried), dtype=bool), tried.sum(axis=1)
    for i, (low, high) in ratios.items():
        if not np.isfinite([*low, *high]).all() or low[0] <= 0.0:
            continue
        narrow, wide = (np.log(b / a) / 2.0 / 1.96 for a, b in ((low[1], high[0]), (low[0], high[1])))
        most = tried[:, i] * (total - tried[:, i]) / np.maximum(total, 1)
        fine &= (most >= 0.97 / wide**2) & (most <= lost / narrow**2)
    return len(np.unique(tried[fine, j]))


def _all_within(ends: Sequence[tuple[int, int]]) -> Array | None:
    """All combinations of whole numbers within bounds; None for too many to try."""
    if np.prod([float(high - low + 1) for low, high in ends]) > MOST_COMBINED:
        return None
    return np.stack(np.meshgrid(*(np.arange(low, high + 1) for low, high in ends)), axis=-1).reshape(
        -1, len(ends)
    )


@dataclass
class Numbers:
    """What is shown of a numeric variable: bounds of the numbers of values, means and standard deviations."""

    n: list[tuple[int, int]]  # of each cluster
    total: tuple[int, int]
    means: list[Interval]  # of each cluster, and of all
    spreads: list[Interval]
    differences: list[Effect]


def attack_numbers(files: Published) -> Attack:
    """Solve for hidden numbers of subjects with a value of numeric variables."""
    result = Attack()
    for one in _numeric(files):
        for j in (j for j, (low, high) in enumerate(one.n) if low < high):
            result.add(found_number(one, j))
    return result


def _numeric(files: Published) -> Iterator[Numbers]:
    rows, heads, n = files.rows("profile"), _clusters(files), int(files.metrics["subjects"])
    for row in (row for row in rows if row["value"][0] == "mean (SD)"):
        variable = row["variable"][0]
        ours = {one["value"][0]: one for one in rows if one["variable"][0] == variable}
        ends, size = [], rows[0]
        for head in heads:
            low, high = count(size[head][0])
            if "known" in ours:
                known, missing = count(ours["known"][head][0]), count(ours["(missing)"][head][0])
                low, high = max(known[0], low - missing[1]), min(known[1], high - missing[0])
            ends.append((max(low, 0), min(high, n)))
        total = _total(files, list(ours.values()))
        cells = [row[head] for head in [*heads, "all"]]
        spreads = [spread_within(text) for text, _ in cells]
        means = [_mean(*cell) for cell in cells]
        yield Numbers(ends, total, means, spreads, list(_adjusted(files, variable, "linear")))


def found_number(one: Numbers, j: int) -> bool | None:
    """Whether few values of a hidden number agree with means, standard deviations and intervals."""
    tried = _all_within(one.n)
    if tried is None:
        return None
    total = tried.sum(axis=1)
    tried = tried[(total >= one.total[0]) & (total <= one.total[1]) & (total > 1)].astype(float)
    alone = len(np.unique(tried[:, j]))
    tried = tried[_sums_to(one, tried)]
    tried = tried[_spreads_to(one, tried)]
    for i, _, low, high in one.differences:
        tried = tried[_has_interval(one, tried, i, low, high)]
    return bool(0 < len(np.unique(tried[:, j])) < min(ENOUGH, alone))


def _middle(known: list[Interval], otherwise: float) -> tuple[Array, Array]:
    """Middles and half widths of intervals, with a middle for those that are not known."""
    ends = np.array([one if one != ANY else (otherwise, otherwise) for one in known])
    return ends.mean(axis=1), (ends[:, 1] - ends[:, 0]) / 2.0


def _sums_to(one: Numbers, n: Array) -> Array:
    """Which numbers have the mean of all, ``sum_j n_j (m_j - m) = 0``; hidden means are within four SD."""
    if one.means[-1] == ANY:
        return np.ones(len(n), dtype=bool)
    spread = max((spread[1] for spread in one.spreads if spread != ANY), default=MANY)
    middle, half = _middle(one.means, sum(one.means[-1]) / 2.0)
    reach = np.where([mean == ANY for mean in one.means[:-1]], 4.0 * spread, half[:-1]) + half[-1]
    return np.asarray(np.abs(n @ (middle[:-1] - middle[-1])) <= n @ reach + 1e-9)


def _spreads_to(one: Numbers, n: Array) -> Array:
    """Which numbers have the standard deviation s of all.

    ``sum_j (n_j - 1) s_j^2 + n_j (m_j - m)^2 = (N - 1) s^2``, or
    ``sum_j n_j (s_j^2 + (m_j - m)^2 - s^2) = sum_j s_j^2 - s^2``; what is hidden is at most four times s.
    """
    if one.spreads[-1] == ANY or one.means[-1] == ANY:
        return np.ones(len(n), dtype=bool)
    most = 4.0 * one.spreads[-1][1]
    s = np.array([spread if spread != ANY else (0.0, most) for spread in one.spreads]) ** 2  # k + 1 x 2
    shifts, reach = _shifts(one.means, 1.0)
    reach = np.where([mean == ANY for mean in one.means[:-1]], most, reach)
    near, far = np.maximum(np.abs(shifts) - reach, 0.0) ** 2, (np.abs(shifts) + reach) ** 2
    least, largest = s[:-1, 0] + near - s[-1, 1], s[:-1, 1] + far - s[-1, 0]
    ends = s[:-1].sum(axis=0) - s[-1, ::-1]
    return np.asarray((n @ least <= ends[1] + 1e-9) & (n @ largest >= ends[0] - 1e-9))


def _has_interval(one: Numbers, n: Array, i: int, low: Interval, high: Interval) -> Array:
    """Which numbers have the interval of a difference of means, in standard deviations (HC3).

    The variance of the difference is ``s_1^2 / (n_1 - 1) + s_2^2 / (n_2 - 1)``, with s_2 of all others.
    """
    if ANY in (low, high, *one.spreads):
        return np.ones(len(n), dtype=bool)
    middle, _ = _middle(one.means, 0.0)
    others = np.arange(n.shape[1]) != i
    total, n_rest = n.sum(axis=1), n[:, others].sum(axis=1)
    centre = n[:, others] @ middle[:-1][others] / np.maximum(n_rest, 1.0)
    apart = (n[:, others] * (middle[:-1][others] - centre[:, None]) ** 2).sum(axis=1)
    reaches = []
    for end in (0, 1):
        s = np.array([spread[end] for spread in one.spreads])
        rest = ((n[:, others] - 1.0) @ s[:-1][others] ** 2 + apart) / np.maximum(n_rest - 1.0, 1.0)
        var = s[i] ** 2 / np.maximum(n[:, i] - 1.0, 1.0) + rest / np.maximum(n_rest - 1.0, 1.0)
        reaches.append(stats.t.ppf(0.975, np.maximum(total - 2.0, 1.0)) * np.sqrt(var) / s[-1])
    least, most = (high[0] - low[1]) / 2.0, (high[1] - low[0]) / 2.0
    slack = 1.0 + (one.spreads[-1][1] - one.spreads[-1][0]) / one.spreads[-1][1]
    return np.asarray((reaches[1] * slack >= least) & (reaches[0] / slack <= most))


def attack_totals(files: Published) -> Attack:
    """Solve for hidden numbers of values of all subjects, by epsilon squared, its interval and p."""
    result, n, k = Attack(), int(files.metrics["subjects"]), len(_clusters(files))
    others = {row["variable"][0]: row for row in files.rows("explanations")}
    for row in files.rows("associations"):
        low, high = count(row["missing values"][0])
        if row["effect measure"][0] == "epsilon squared" and low < high:
            told = [row, *([others[row["variable"][0]]] if row["variable"][0] in others else [])]
            ends = [bounds_of(one["95% interval"][0]) for one in told]
            bounds = both(*(low for low, _ in ends)), both(*(high for _, high in ends))
            left = range(max(n - high, k + 1), n - low + 1)
            result.add(found_total(left, k, interval(row["effect"][0]), bounds, interval(row["p"][0])))
    return result


def found_total(
    left: range, k: int, effect: Interval, bounds: tuple[Interval, Interval], p: Interval
) -> bool:
    """Whether few numbers of values give the shown numbers of a Kruskal-Wallis test of k clusters."""
    if effect == ANY:
        return False
    fits = sum(_has_test(n, k, effect, bounds, p) for n in left)
    return 0 < fits < min(ENOUGH, len(left))


def _has_test(n: int, k: int, effect: Interval, bounds: tuple[Interval, Interval], p: Interval) -> bool:
    """Whether n values can have the effect, its interval (noncentral F of the ranks) and p."""
    H = np.linspace(max(effect[0], 0.0), min(effect[1], 0.999), EFFECTS) * (n - 1)
    F = (H / (k - 1)) / ((n - 1 - H) / (n - k))
    fine = _within(stats.chi2.sf(H, k - 1), p)
    for (low, high), share in zip(bounds, (0.025, 0.975), strict=True):
        if (low, high) != ANY:
            fine &= (_tail(F, n, k, low) <= share) & (_tail(F, n, k, high) >= share)
    return bool(fine.any())


def _tail(F: Array, n: int, k: int, bound: float) -> Array:
    """The upper tail of F at a bound of eta squared, which grows with it; none below 0."""
    if bound <= 0.0:
        return np.zeros(len(F))
    size = n * min(bound, 0.9999) / (1.0 - min(bound, 0.9999))
    return np.asarray(stats.ncf.sf(F, k - 1, n - k, size))


def attack_values(files: Published) -> Attack:
    """Solve for counts of the values of numeric variables that have few of them (a reader knows which)."""
    result, heads = Attack(), _clusters(files)
    sizes = files.rows("profile")[0] if heads else {}
    few = {
        row["variable"][0]: row
        for row in files.rows("profile")
        if row["value"][0] == "mean (SD)" and row["variable"][0] in VALUES
    }
    explained = {row["variable"][0]: interval(row["effect"][0]) for row in files.rows("associations")}
    for row in (row for row in files.rows("pairs") if row["variable"][0] in few):
        name, pair = row["variable"][0], [f"cluster {one}" for one in row["clusters"][0].split(" and ")]
        n, m = (count(sizes[head][0]) for head in pair)
        if n[0] == n[1] and m[0] == m[1]:
            shown = interval(row["effect"][0]), *bounds_of(row["95% interval"][0])
            means = tuple(_mean(*few[name][head]) for head in pair)
            for found in found_values(n[0], m[0], *shown, means, explained[name] if len(heads) == 2 else ANY):
                result.add(found)
    for row in few.values():
        for head in (*heads, "all"):
            n = count(sizes[head][0])
            if n[0] == n[1] and _mean(*row[head]) != ANY:
                for found in found_among(n[0], _mean(*row[head]), spread_within(row[head][0])):
                    result.add(found)
    return result


def found_among(n: int, mean: Interval, spread: Interval) -> list[bool]:
    """For the counts of the values 0, 1 and 2 among n, whether the mean and standard deviation tell them."""
    threes = _threes(n)
    means = threes @ np.arange(3) / n
    squares = threes @ np.arange(3) ** 2 / n - means**2
    spreads = np.sqrt(np.maximum(squares, 0.0) * n / max(n - 1, 1))
    left = threes[_within(means, mean) & _within(spreads, spread)]
    return [_is_told(values) for values in map(np.unique, left.T)]


def _is_told(values: Array) -> bool:
    """Whether a count is known to be small, and has few values."""
    return bool(0 < len(values) < ENOUGH and values[-1] < 11)


def found_values(
    n: int,
    m: int,
    delta: Interval,
    low: Interval,
    high: Interval,
    means: Sequence[Interval] = (ANY, ANY),
    explained: Interval = ANY,
) -> list[bool]:
    """For each of two times three counts, whether it is known to be small and to have few values.

    The values are 0, 1 and 2; `explained` is epsilon squared, if there are two clusters.
    """
    if ANY in (delta, low, high):
        return [False] * 6
    first, second = _threes(n), _threes(m)
    kept = []
    for part in np.array_split(first, max(len(first) // 50, 1)):
        a, b = np.repeat(part, len(second), axis=0), np.tile(second, (len(part), 1))
        fine = np.ones(len(a), dtype=bool)
        for values, known in zip(dominances(a, b), (delta, low, high), strict=True):
            fine &= _within(values, known)
        for part_, known in zip((a, b), means, strict=True):
            fine &= _within(part_ @ [0, 1, 2] / part_.sum(axis=1), known)
        fine &= _within(_epsilon_squared(a, b), explained)
        kept.append(np.hstack([a, b])[fine])
    tables = np.concatenate(kept)
    return [_is_told(values) for values in map(np.unique, tables.T)]


def _epsilon_squared(a: Array, b: Array) -> Array:
    """Epsilon squared of the Kruskal-Wallis test of two columns of counts, ``H / (N - 1)``."""
    n, m, both = a.sum(axis=1), b.sum(axis=1), (a + b).astype(float)
    total = (n + m).astype(float)
    tied = 1.0 - (both**3 - both).sum(axis=1) / (total**3 - total)
    U = dominances(a, b)[0] * n * m / 2.0
    return np.asarray(12.0 * U**2 / ((total + 1) * n * m * np.maximum(tied, 1e-9) * (total - 1)))


def _threes(n: int) -> Array:
    """All ways to divide n into three counts."""
    return np.array([(a, b, n - a - b) for a in range(n + 1) for b in range(n + 1 - a)])


def dominances(a: Array, b: Array) -> tuple[Array, Array, Array]:
    """Cliff's delta of two columns of counts of ordered values, and its interval (Feng and Cliff 2004)."""
    n, m = a.sum(axis=1)[:, None].astype(float), b.sum(axis=1)[:, None].astype(float)
    rows = (2.0 * np.cumsum(b, axis=1) - b - m) / m  # share of b below each value minus that above it
    columns = (n - 2.0 * np.cumsum(a, axis=1) + a) / n
    d = (a * rows).sum(axis=1, keepdims=True) / n
    within = n * m - (a * b).sum(axis=1, keepdims=True) - n * m * d**2
    between = m**2 * (a * (rows - d) ** 2).sum(axis=1, keepdims=True)
    between += n**2 * (b * (columns - d) ** 2).sum(axis=1, keepdims=True)
    s2 = np.maximum((between - within) / (n * m * (n - 1) * (m - 1)), (1.0 - d**2) / (n * m - 1))
    z = 1.959964
    below, reach = 1.0 - d**2 + z**2 * s2, z * np.sqrt(s2 * ((1.0 - d**2) ** 2 + z**2 * s2))
    with np.errstate(divide="ignore", invalid="ignore"):
        ends = [np.clip((d - d**3 + sign * reach) / below, -1.0, 1.0) for sign in (-1.0, 1.0)]
    return d[:, 0], ends[0][:, 0], ends[1][:, 0]


ATTACKS = {
    "counts": attack_counts,
    "patterns": attack_patterns,
    "means": attack_means,
    "times": attack_times,
    "followed": attack_followed,
    "events": attack_events,
    "hazards": attack_hazards,
    "numbers": attack_numbers,
    "values": attack_values,
    "totals": attack_totals,
}
