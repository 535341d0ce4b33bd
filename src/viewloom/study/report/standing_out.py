"""Which features stand out: tests against the clusters that the other views form, with intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd

from viewloom.clinical.release import coarse_p, significant
from viewloom.study.report.privacy import plain
from viewloom.study.report.regions import feature_names
from viewloom.study.report.table_cells import Cell, Table, number, p_value, table_of, text

if TYPE_CHECKING:
    from viewloom.study.report.disclosed import Disclosed
    from viewloom.study.results import Results

LEVEL = 0.05  # q below which a feature stands out
MOST_ROWS, MOST_NAMED, MOST_DRAWN = 15, 5, 5  # features of a view in the table, a sentence and the figure
MARK = " (n.s.)"  # of a feature that does not stand out


def standing_out(results: Results, view: str) -> pd.DataFrame | None:
    """Features of a view that stand out, the clearest first; None where the view was not tested."""
    table = results.feature_tests.get(view)
    if table is None or results.views.present[:, results.views.index(view)].sum() < results.min_cell:
        return None
    return table[table["q"] < LEVEL]


def nothing_stands_out(results: Results, view: str) -> bool:
    """Whether the features of a view were tested, and none stands out."""
    found = standing_out(results, view)
    return found is not None and found.empty


def marked(results: Results, view: str, features: Sequence[str], labels: Sequence[str]) -> list[str]:
    """Labels of features, with a mark where a feature was tested and does not stand out."""
    found = standing_out(results, view)
    if found is None:
        return list(labels)
    known = set(found["feature"])
    return [f"{label}{'' if name in known else MARK}" for name, label in zip(features, labels, strict=True)]


def explained_shares(results: Results, told: Disclosed) -> pd.DataFrame:
    """The clearest features that stand out, a few of each view, with shares of variance and intervals.

    Returns
    -------
    DataFrame
        ``feature``, ``view``, ``other`` (share explained by the clusters of the other views), and ``value``,
        ``low`` and ``high`` (by the clusters of all views). Features without an interval, and those of
        which a mean is hidden, are left out.
    """
    parts = [pd.DataFrame(columns=pd.Index(["feature", "view", "other", "value", "low", "high"]))]
    for view in results.views.names:
        found, known = standing_out(results, view), results.uncertainty
        if found is not None and known is not None and view in known.features:
            chosen = found[["feature", "effect"]].rename(columns={"effect": "other"})
            chosen = chosen[~chosen["feature"].isin(undescribed(told, view))]
            joined = chosen.merge(known.features[view], on="feature").dropna()
            parts.append(joined[:MOST_DRAWN].assign(view=plain(view, 20)))
    filled = [part for part in parts if len(part)]
    return pd.concat(filled, ignore_index=True) if filled else parts[0]


def undescribed(told: Disclosed, view: str) -> set[str]:
    """Features of which the mean of a cluster is hidden: shares of variance would give it back."""
    hidden = told.hidden_means[view]
    return set(hidden.index[hidden.any(axis=1)])


def features_section(results: Results, told: Disclosed) -> dict[str, Any] | None:
    """Sentences and a table of the features that stand out; None where nothing was tested."""
    found = {view: standing_out(results, view) for view in results.views.names}
    tested = {view: table for view, table in found.items() if table is not None}
    if not tested:
        return None
    sentences = [features_sentence(results, view, table) for view, table in tested.items()]
    rows = [row for view, table in tested.items() for row in _rows(results, told, view, table)]
    return {"sentences": sentences, "tables": [_table(rows)] if rows else []}


def features_sentence(results: Results, view: str, found: pd.DataFrame) -> str:
    """How many features of a view stand out, and the first of them."""
    total, name = len(results.feature_tests[view]), plain(view)
    if found.empty:
        return (
            f"{name}: no feature stands out. None of {total} is related to the clusters that the other views "
            f"form (q below {LEVEL})."
        )
    first = feature_names(found["feature"][:MOST_NAMED], 40)
    features, are = "feature" if total == 1 else "features", "is" if len(found) == 1 else "are"
    named = f"most clearly {'; '.join(first)}" if len(found) > 1 else first[0]
    return (
        f"{name}: {len(found)} of {total} {features} {are} related to the clusters that the other views "
        f"form (q below {LEVEL}), {named}."
    )


def _rows(results: Results, told: Disclosed, view: str, found: pd.DataFrame) -> list[list[Cell]]:
    shown, secret = found[:MOST_ROWS], undescribed(told, view)
    known = None if results.uncertainty is None else results.uncertainty.features.get(view)
    intervals = (
        {} if known is None else known.set_index("feature")[["value", "low", "high"]].T.to_dict("list")
    )
    return [
        [text(label), text(plain(view)), *_numbers(row, intervals, row["feature"] in secret)]
        for label, row in zip(feature_names(shown["feature"], 60), shown.to_dict("records"), strict=True)
    ]


def _numbers(row: Mapping[Any, Any], intervals: Mapping[Any, Sequence[float]], secret: bool) -> list[Cell]:
    """Shares of variance and q; where a mean is hidden only the class of q, which follows from the share."""
    unknown = [float("nan")] * 3
    if secret:
        return [number(unknown[0]), p_value(coarse_p(row["q"])), *map(number, unknown)]
    shares = intervals.get(row["feature"], unknown)
    effect, *ends = (number(significant(value)) for value in (row["effect"], *shares))
    return [effect, p_value(significant(row["q"])), *ends]


def _table(rows: list[list[Cell]]) -> Table:
    columns = [
        ("feature", 0), ("view", 0), ("by other views", 1), ("q", 1), ("by all views", 1), ("from", 1),
        ("to", 1),
    ]  # fmt: skip
    return table_of("standing-out", "Features that stand out", ABOUT, columns, rows)


ABOUT = (
    "Share of the variance of a feature that is explained by the clusters which the other views form without "
    "this view, and q of a permutation test of it (Benjamini-Hochberg within the view). On the right: the "
    "share explained by the clusters of all views, which the feature helped to form, with a 95% interval "
    f"from refits on subsamples. At most {MOST_ROWS} features of each view. A dash: not shown, since the "
    "mean of a small group could be derived from it."
)
