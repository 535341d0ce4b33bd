"""Columns of a view that are not features: named elsewhere in the study, copies of such columns, row numbers.

A column that a view names in full under `columns` is always a feature. Functions return a dict from the name
of each column that is set aside to the reason.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from math import lgamma, log

import numpy as np
import pandas as pd

from viewloom.clinical import as_categories, as_numbers
from viewloom.study import readers
from viewloom.study.config.schema import Participants, Study, View
from viewloom.study.notes import Count, Note, count_note
from viewloom.study.readers.visits import COLUMNS as VISIT_COLUMNS
from viewloom.study.tables_in_memory import is_sparse, numeric_columns, values_of
from viewloom.study.wording import folded

Array = np.ndarray
Why = dict[str, str]  # column -> reason

UNNAMED = re.compile(r"(unnamed:? ?\d*|column 1|\.\.\.1|row[._ ]?names?|level_0)?", re.IGNORECASE)
COUNTERS = {"x", "index", "v1", "row", "rownumber", "rownum", "rowid", "nr", "no", "number", "obs", "n"}
LEAST_ROWS = 10  # the values of a measure are in order by chance once in two million times
DENSE = 20  # largest range of a counter per row, where rows of other visits are left out
ORDERED_LEVELS = 10  # from this number of values on, numbers are compared by order, else by equality
CHANCE = 0.01  # probability that a column of a study is set aside by mistake
FIRST_ROWS = 60  # rows that rule most columns out before all rows are compared
ROUNDING = 1e-9  # share of a column's range
MOST_COMPARED = 20_000  # rows in which columns of two views are compared
SAME = 1e-4  # standard deviations by which copies may differ through rounding
MOST_NAMED = 6  # columns in a note
ROW_NUMBERS, SERIES = "row numbers", "a number series in the order of the rows"
RUNNING = "running numbers, as of rows in another order"
MOST_ALIKE = 2  # columns of such numbers; a table with more of them has ranks or simulated data
COARSE = ("diagnosis", "site")  # roles of which coarser codes are copies, too
NUMBER_OF_ID = "the number of the id"
WAY_BACK = "name a column in full under columns to use it as a feature"


def named_elsewhere(study: Study) -> Why:
    """Columns, by folded name, that the study names as something other than a feature, and their role."""
    found = {folded(name): "a column of visits" for name in VISIT_COLUMNS}
    for title, view in study.views.items():
        found |= _keys(view, f"[views.{title}]")
    people = study.participants
    if people is not None:
        found |= _keys(people, "[participants]")
        found |= {folded(name): _named_under(key) for key, name in people.named_columns}
    return {name: why for name, why in found.items() if name}


def named_by_rules(study: Study, view: str) -> Why:
    """Columns of a view's table, by folded name, that rules of [cluster] name."""
    return {folded(rule.column): f"named under {rule.where}" for rule in study.rules if rule.view == view}


def _named_under(key: str) -> str:
    return f"named under {key}" if "." in key else f"named under {key} of [participants]"


def _keys(source: Participants | View, block: str) -> Why:
    """The id, visit and date columns of a source."""
    default = getattr(readers.FORMATS[source.format].options.get("id"), "default", None)
    given = {
        "id": source.options.get("id") or default,
        "visit_column": source.visit_column,
        "date": source.date,
    }
    return {folded(name): f"{key} of {block}" for key, name in given.items() if isinstance(name, str)}


def in_full(view: View, column: str) -> bool:
    """Whether a view names a column, or its variant, in full rather than by a pattern."""
    variants = {column, column.rpartition("_")[0]} & {*(view.variants or ())}
    return column in (view.columns or ()) or bool(variants)


def counters(frame: pd.DataFrame) -> Why:
    """Columns of row numbers, in the order of the file or in the order of the ids.

    >>> ids = pd.Index([f"s{i}" for i in range(12)])
    >>> counters(pd.DataFrame({"no": range(1, 13), "volume": [3.1, 2.9] * 6}, ids))
    {'no': 'row numbers'}
    """
    if is_sparse(frame):
        return {}
    frame = numeric_columns(frame)
    X, orders = values_of(frame), (np.arange(len(frame)), _by_id(frame.index))
    likely = [_narrowed(in_order, X, order) for order in orders]
    found: Why = {}
    for j in np.unique(np.concatenate([*likely, _narrowed(_distinct_integers, X, orders[0])])):
        name, known = str(frame.columns[j]), ~np.isnan(X[:, j])
        why = _counter(name, X[:, j], orders)
        if why is None and np.array_equal(X[known, j], _numbers_of(frame.index[known])):
            why = NUMBER_OF_ID
        if why is not None:
            found[name] = why
    many = [why for why in (RUNNING, SERIES) if list(found.values()).count(why) > MOST_ALIKE]
    return {name: why for name, why in found.items() if why not in many}


def sorted_by(frame: pd.DataFrame) -> list[str]:
    """Columns that the rows are sorted by, without ties, apart from row numbers."""
    if is_sparse(frame):
        return []
    frame = numeric_columns(frame)
    X = values_of(frame)
    found = _narrowed(in_order, X, np.arange(len(X)))
    return [str(frame.columns[j]) for j in found if (~np.isnan(X[:, j])).sum() >= LEAST_ROWS]


def _narrowed(test: Callable[[Array], Array], X: Array, rows: Array) -> Array:
    """Columns that pass a test in this order of rows. The first rows rule most of them out."""
    columns = np.arange(X.shape[1])
    for some in (rows[:FIRST_ROWS], rows):
        columns = columns[test(X[np.ix_(some, columns)])] if len(columns) else columns
    several = (~np.isnan(X[:, columns])).sum(axis=0) > 1
    return columns[several]


def in_order(X: Array) -> Array:
    """Which columns are strictly monotonic, ignoring missing cells."""
    return _rises(X) | _rises(-X)


def _rises(X: Array) -> Array:
    """Which columns are strictly increasing, ignoring missing cells."""
    lowest = np.full((1, X.shape[1]), -np.inf)
    largest = np.maximum.accumulate(np.vstack([lowest, np.where(np.isnan(X), -np.inf, X)]), axis=0)[:-1]
    return np.asarray((np.isnan(X) | (largest < X)).all(axis=0))


def _distinct_integers(X: Array) -> Array:
    """Which columns have distinct integers only."""
    integers = (np.isnan(X) | (np.mod(X, 1.0) == 0.0)).all(axis=0)
    return integers & ~(np.diff(np.sort(X, axis=0), axis=0) == 0.0).any(axis=0)


def _counter(name: str, x: Array, orders: tuple[Array, ...]) -> str | None:
    """The reason why a column has row numbers, in one of these orders of rows, or None."""
    lines = [x[order] for order in orders]
    values = x[~np.isnan(x)]
    n, span = len(values), float(np.ptp(values)) + 1.0
    ordered = any(in_order(line[:, None])[0] for line in lines)
    integers = bool(_distinct_integers(values[:, None])[0])
    if UNNAMED.fullmatch(name.strip()) and (ordered or integers):
        return ROW_NUMBERS
    likely = folded(name) in COUNTERS
    if integers and (n >= LEAST_ROWS or likely):
        running = span == n and values.min() in (0.0, 1.0)
        if ordered and (likely or running or span <= DENSE * n):
            return ROW_NUMBERS
        if running:
            return ROW_NUMBERS if likely else RUNNING
    return SERIES if n >= LEAST_ROWS and any(map(_equally_spaced, lines)) else None


def _equally_spaced(line: Array) -> bool:
    """Whether the known values are a linear function of the row."""
    known = np.flatnonzero(~np.isnan(line))
    values, at = line[known], known - known.mean()
    slope = float(at @ values) / float(at @ at)
    left = values - values.mean() - slope * at
    return slope != 0.0 and float(np.abs(left).max()) <= ROUNDING * float(np.ptp(values))


def _by_id(ids: pd.Index) -> Array:
    """Rows sorted by the numbers in their ids, or by the ids as text where some have no number."""
    numbers = _numbers_of(ids)
    return np.argsort(np.array(ids, dtype=str) if np.isnan(numbers).any() else numbers, kind="stable")


def _numbers_of(ids: pd.Index) -> Array:
    """The last number in each id; NaN where there is none."""
    last = pd.Series(ids.astype(str)).str.extract(r"(\d{1,15})\D*$")[0]
    return pd.to_numeric(last, errors="coerce").to_numpy(dtype=float)


def copies(frame: pd.DataFrame, people: pd.DataFrame, roles: Mapping[str, str]) -> Why:
    """Columns that are copies of columns of the participants, in the same or another coding.

    Parameters
    ----------
    frame, people : DataFrame
        Indexed by id.
    roles : dict of str to str
        Columns of `people`, and their roles in the study.

    Notes
    -----
    Numbers with many values are compared by order: a copy orders all pairs of subjects in the same way.
    Categories and numbers with few values are compared by equality: a copy has one value for each category,
    and a coarser coding of the diagnosis or the site is a copy, too. Agreement that is likely by chance does
    not make a copy.
    """
    if is_sparse(frame):
        return {}
    shared = frame.index.intersection(people.index)
    X = values_of(frame if len(shared) == len(frame) else frame.loc[shared])
    surprise = log(max(X.shape[1], 1) * max(len(roles), 1) / CHANCE)
    found: Why = {}
    for column, role in roles.items():
        codes, ordered = _coded(people.loc[shared, column])
        for j in _followers(X, codes, ordered):
            exact = ordered or role in COARSE or _one_to_one(X[:, j], codes)
            if exact and _evidence(X[:, j], codes, ordered) > surprise:
                found.setdefault(str(frame.columns[j]), f"a copy of {column!r}, named under {role}")
    return found


def _coded(column: pd.Series) -> tuple[Array, bool]:
    """Levels as 0, 1, ..., with -1 where missing, and whether they are ordered."""
    labels, numbers = as_categories(column), as_numbers(column)
    numeric = np.isfinite(numbers).sum() >= sum(label is not None for label in labels)
    codes = pd.factorize(numbers if numeric else np.array(labels, dtype=object), sort=True)[0]
    return codes, bool(numeric and codes.max(initial=-1) + 1 >= ORDERED_LEVELS)


def _followers(X: Array, codes: Array, ordered: bool) -> Array:
    """Columns that are functions of the codes where both are known. A few rows rule most columns out."""
    rows = np.argsort(codes, kind="stable")
    rows = rows[codes[rows] >= 0]
    columns = np.arange(X.shape[1])
    for some in (rows[:FIRST_ROWS], rows):
        if len(some):
            columns = columns[_follows(X[np.ix_(some, columns)], codes[some], ordered)]
    return columns if len(rows) else columns[:0]


def _follows(X: Array, codes: Array, ordered: bool) -> Array:
    """Which columns are functions of sorted codes, monotonic ones if `ordered`."""
    starts = np.flatnonzero(np.diff(codes, prepend=-1))
    low = np.minimum.reduceat(np.where(np.isnan(X), np.inf, X), starts, axis=0)  # levels x columns
    high = np.maximum.reduceat(np.where(np.isnan(X), -np.inf, X), starts, axis=0)
    if not ordered:
        return np.asarray((high <= low).all(axis=0))
    return _apart(low, high) | _apart(-high, -low)


def _apart(low: Array, high: Array) -> Array:
    """Which columns have no value of a level below a value of an earlier level."""
    before = np.maximum.accumulate(high, axis=0)[:-1]
    return np.asarray((low[1:] >= before).all(axis=0))


def _one_to_one(x: Array, codes: Array) -> bool:
    """Whether the values and the codes are in one-to-one correspondence."""
    known = ~np.isnan(x) & (codes >= 0)
    return len(np.unique(x[known])) == len(np.unique(codes[known]))


def _evidence(x: Array, codes: Array, ordered: bool) -> float:
    """Log ratio of the number of arrangements of the values to those that follow the codes."""
    known = ~np.isnan(x) & (codes >= 0)
    if not known.any():
        return 0.0
    values, levels = pd.factorize(x[known])[0], pd.factorize(codes[known])[0]
    n_values, n_levels = values.max() + 1, levels.max() + 1
    if not ordered:
        return _arrangements(values) - n_levels * log(n_values)
    return _arrangements(values) - log(2) - sum(_arrangements(values[levels == i]) for i in range(n_levels))


def _arrangements(values: Array) -> float:
    """Logarithm of the number of arrangements of values, which are numbered from 0."""
    return lgamma(len(values) + 1) - sum(lgamma(count + 1) for count in np.bincount(values))


def aside_note(why: Mapping[str, str]) -> list[Note]:
    """The columns that were set aside, and why."""
    if not why:
        return []
    named = ", ".join(f"{name!r} ({reason})" for name, reason in list(why.items())[:MOST_NAMED])
    more = f" and {len(why) - MOST_NAMED} more" if len(why) > MOST_NAMED else ""
    return count_note(len(why), "column", text=f"set aside: {named}{more}; {WAY_BACK}", public=True)


def shared_columns(frames: Mapping[str, pd.DataFrame]) -> Iterator[Note]:
    """Notes on pairs of views with columns in common: equal values up to scale, whatever their names."""
    names = list(frames)
    for i, first in enumerate(names):
        for second in names[i + 1 :]:
            one, other = frames[first], frames[second]
            count = _n_shared(one, other)
            if count:
                sizes = f"of {one.shape[1]} and {other.shape[1]}"
                common = f" in common ({sizes}), equal up to scale; these columns count twice"
                shared = Count(count, "column", public=True)
                yield Note((f"views {first!r} and {second!r} have ", shared, common))


def _n_shared(one: pd.DataFrame, other: pd.DataFrame) -> int:
    """Number of columns that two tables have in common, among their common subjects."""
    if is_sparse(one) or is_sparse(other):
        return 0
    ids = one.index.intersection(other.index)
    if len(ids) < LEAST_ROWS:
        return 0
    if len(ids) > MOST_COMPARED:  # columns that are equal up to scale are so in any rows
        ids = ids[np.linspace(0, len(ids) - 1, MOST_COMPARED).astype(int)]
    left, right = (_profiles(numeric_columns(frame.loc[ids]).to_numpy(dtype=float)) for frame in (one, other))
    probe = np.random.default_rng(0).standard_normal(len(ids))
    keys = [np.abs(probe @ profiles) for profiles in (left, right)]
    order, slack = np.argsort(keys[1]), 3.0 * SAME * np.sqrt(len(ids))
    at = [np.searchsorted(keys[1][order], keys[0] + side) for side in (-slack, slack)]
    return sum(
        any(_same_profile(left[:, j], right[:, k]) for k in order[start:stop])
        for j, (start, stop) in enumerate(zip(*at, strict=True))
    )


def _profiles(X: Array) -> Array:
    """Columns with many values as standard scores, 0 where missing; other columns are left out."""
    several = (np.diff(np.sort(X[:FIRST_ROWS], axis=0), axis=0) > 0.0).sum(axis=0) >= LEAST_ROWS - 1
    X = X[:, several]
    if X.shape[1] == 0:
        return X
    scores = (X - np.nanmean(X, axis=0)) / np.nanstd(X, axis=0)
    return np.where(np.isnan(scores), 0.0, scores)


def _same_profile(a: Array, b: Array) -> bool:
    return bool(min(np.abs(a - b).max(), np.abs(a + b).max()) < SAME)


def without(frame: pd.DataFrame, names: Collection[str]) -> pd.DataFrame:
    """The table without some columns."""
    return frame.loc[:, ~frame.columns.isin(list(names))]
