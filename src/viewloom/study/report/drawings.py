"""What the figures of a report show, as plain data: means, quantiles and shares, nothing per subject.

The data are stored with the report, so that figures can be drawn again in other formats, or with other names
of clusters, without the data of the study. They have what is drawn and nothing else: names are shortened and
small counts are hidden. One function for each kind of figure; `viewloom.study.report.figures` draws them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from viewloom.clinical import Hidden, Known
from viewloom.clinical.release import P, PClass, group_quantiles, rounded_p, significant
from viewloom.evaluation.comparison import SCORES
from viewloom.study.report.captions import TOP, certainty
from viewloom.study.report.comparison import agreement_data, solutions_data
from viewloom.study.report.continuum import axis_of, histogram
from viewloom.study.report.findings import Findings, findings
from viewloom.study.report.presence import complete, patterns_of, shown_patterns, view_sizes
from viewloom.study.report.privacy import in_words, plain
from viewloom.study.report.regions import feature_names
from viewloom.study.report.standing_out import explained_shares, marked

if TYPE_CHECKING:
    from viewloom.study.results import Results

Data = dict[str, Any]
HEAD, TAIL = 13, 10  # letters of a long name beside a figure; together they fit on a line
LONGEST = 60  # letters of the name of a feature, which may have several lines
MOST_PATTERNS = 14  # of views that are drawn
BOUNDS = ("low", "high")  # of an interval


def figure_data(results: Results, summary: dict[str, Any]) -> dict[str, Data]:
    """The data of the figures that a summary lists, by their ids; serialisable as JSON."""
    found = findings(results)
    return {
        figure["id"]: _data(results, found, figure["kind"], figure["view"]) for figure in summary["figures"]
    }


def _data(results: Results, found: Findings, kind: str, view: int | None) -> Data:
    about = None if view is None else plain(_view(results, view))
    return {"kind": kind, "view": about, "data": DATA[kind](results, found, view)}


def numbers(values: Any) -> Any:
    """Nested lists of numbers with three digits, None where they are not finite.

    >>> numbers(np.array([[1 / 3, np.nan]])), numbers([1, 2])
    ([[0.333, None]], [1, 2])
    """
    if isinstance(values, (list, tuple, np.ndarray, pd.Series, pd.Index)):
        return [numbers(value) for value in values]
    if isinstance(values, (int, np.integer)):
        return int(values)
    return significant(values) if np.isfinite(values) else None


def decimals(values: Any) -> Any:
    """Nested lists of numbers with two decimals, None where they are not finite.

    >>> decimals(np.array([[1.23456, np.nan]]))
    [[1.23, None]]
    """
    return numbers(np.round(np.asarray(values, dtype=float), 2))


def _weights(results: Results, found: Findings, view: int | None) -> Data:
    shown = {"views": _views(results), "weights": numbers(results.model.view_weights_)}
    known = results.uncertainty
    if known is None:
        return shown
    return {**shown, **{name: numbers(known.weights[name]) for name in BOUNDS}}


def _continuum(results: Results, found: Findings, view: int | None) -> Data:
    """Counts along the leading axis, none of them small, between fixed positions."""
    axis = axis_of(results)
    assert axis is not None  # or there is no caption
    bins = histogram(axis.positions.to_numpy(), results.min_cell)
    return {"low": numbers(bins["low"]), "high": numbers(bins["high"]), "counts": numbers(bins["count"])}


def _objective(results: Results, found: Findings, view: int | None) -> Data:
    return {"objective": numbers(results.model.history_["objective"]), "converged": results.model.converged_}


def _contributions(results: Results, found: Findings, view: int | None) -> Data:
    sizes = [_size(size) for size in found.shown_sizes]
    return {"views": _views(results), "change": decimals(found.moved.to_numpy()), "sizes": sizes}


def _agreement(results: Results, found: Findings, view: int | None) -> Data:
    from viewloom.plotting.model import QUANTILES

    overlap = found.contributions.overlap
    values = [group_quantiles(shared, QUANTILES, results.min_cell) for shared in overlap.T]
    return {"views": _views(results), "quantiles": decimals(values)}


def _certainty(results: Results, found: Findings, view: int | None) -> Data:
    table, known = certainty(results, found), results.uncertainty
    shown = {"clusters": numbers(table.index), "quantiles": decimals(table.to_numpy())}
    if known is None:
        return shown
    means = known.certainty.reindex(table.index)
    return {**shown, "means": {name: decimals(means[name]) for name in ("value", *BOUNDS)}}


def _profiles(results: Results, found: Findings, view: int | None) -> Data:
    means = found.profiles[_view(results, view)][:TOP]
    return {"features": feature_names(means.index, LONGEST), "means": decimals(means.to_numpy())}


def _brain(results: Results, found: Findings, view: int | None) -> Data:
    from viewloom.study.report.brain import brain_data, brain_values

    values = brain_values(found.profiles[_view(results, view)])
    assert values is not None  # or there is no caption
    return {**brain_data(values), "values": decimals(values.z)}


def _importance(results: Results, found: Findings, view: int | None) -> Data:
    from viewloom.plotting.features import ImportanceMap

    name = _view(results, view)
    shown = ImportanceMap.of(found.importance[name], TOP)
    return {
        "features": marked(results, name, shown.features, feature_names(shown.features, LONGEST)),
        "values": decimals(shown.values),
        "strip": decimals(shown.strip),
        "total": shown.total,
        "half": shown.half,
    }


def _standing(results: Results, found: Findings, view: int | None) -> Data:
    """Shares of variance that the clusters explain, by the other views and by all."""
    table = explained_shares(results, found)
    shares = {name: decimals(table[name]) for name in ("other", "value", *BOUNDS)}
    names = [feature_names(part["feature"], LONGEST) for _, part in table.groupby("view", sort=False)]
    return {"feature": [one for part in names for one in part], "view": table["view"].tolist(), **shares}


def _associations(results: Results, found: Findings, view: int | None) -> Data:
    table = found.associations
    return {
        "variable": [short(name) for name in table["variable"]],
        "kind": table["kind"].tolist(),
        "significant": [bool(value) for value in table["significant"]],
        "effect": numbers(table["effect"]),
        **{name: [_p(p) for p in table[name]] for name in ("p", "q")},
    }


def _p(p: P) -> float | str | None:
    """A p-value as it is shown, the class of one as text."""
    return str(p) if isinstance(p, PClass) else numbers(p)


def _rounded(p: P) -> P:
    return p if isinstance(p, PClass) else rounded_p(p)


def _survival(results: Results, found: Findings, view: int | None) -> Data:
    """Curves on their grid, as far as enough subjects remain, without the numbers at risk at their steps."""
    assert found.conversion is not None  # or there is no caption
    curves, least = found.conversion.curves, results.min_cell
    at_risk = found.conversion.at_risk
    return {
        "clusters": numbers(found.conversion.summary.index),
        "curves": {name: numbers(curves[name]) for name in ("cluster", "time", "survival", "low", "high")},
        "times": numbers(at_risk.index),
        "at_risk": [[None if 0 <= n < least else int(n) for n in row] for row in at_risk.to_numpy()],
        "min_cell": least,
        "p": _p(_rounded(found.conversion.p)),
    }


def _numbers(results: Results, found: Findings, view: int | None) -> Data:
    assert results.numbers is not None
    table = results.numbers.table
    shown = {name: numbers(table[name]) for name in ("k", "stability", "twin_stability", "pac")}
    return {"table": shown, "recommended": numbers(results.numbers.recommended or 0) or None}


def _comparison(results: Results, found: Findings, view: int | None) -> Data:
    assert found.comparison is not None
    runs = found.comparison.runs
    names = [short(name) for name in runs["method"]]
    scores = {name: numbers(runs[name]) for name in SCORES}
    return {"runs": {"method": names, "seed": numbers(runs["seed"]), **scores}}


def _methods(results: Results, found: Findings, view: int | None) -> Data:
    assert results.comparison is not None
    return agreement_data(results.comparison)


def _solutions(results: Results, found: Findings, view: int | None) -> Data:
    assert results.solutions is not None
    return solutions_data(results.solutions)


def _overlaps(results: Results, found: Findings, view: int | None) -> Data:
    sizes = shown_patterns(results)[:MOST_PATTERNS]
    rows = zip(results.views.names, view_sizes(results), strict=True)
    patterns = patterns_of(results)[:MOST_PATTERNS].index
    return {
        "views": [f"{short(name)} ({size})" for name, size in rows],
        "patterns": [[bool(has) for has in pattern] for pattern in patterns],
        "heights": [int(n.value) if isinstance(n, Known) else results.min_cell for n in sizes],
        "sizes": [str(size) for size in sizes],
        "hidden": [isinstance(size, Hidden) for size in sizes],
        "complete": in_words(complete(results)),
        "subjects": len(results.views),
    }


def short(name: Any) -> str:
    """A name that fits on a line; long names keep their beginning and end.

    >>> short("rh_rostralanteriorcingulate_thickness")
    'rh_rostralant…_thickness'
    """
    text = plain(name, 200)
    return text if len(text) <= HEAD + 1 + TAIL else f"{text[:HEAD]}…{text[-TAIL:]}"


def _size(size: Known | Hidden) -> str:
    """A count for ``n = 12`` or ``n < 11``.

    >>> _size(Known(12)), _size(Hidden("<", 11)), _size(Hidden("", 0))
    ('= 12', '< 11', 'hidden')
    """
    if isinstance(size, Known):
        return f"= {size}"
    return f"{size.sign} {size.bound}" if size.sign else str(size)


def _views(results: Results) -> list[str]:
    return [short(name) for name in results.model.view_names_]


def _view(results: Results, view: int | None) -> str:
    assert view is not None
    return results.model.view_names_[view]


DATA: dict[str, Callable[[Any, Findings, int | None], Data]] = {
    "continuum": _continuum,
    "weights": _weights,
    "contributions": _contributions,
    "agreement": _agreement,
    "certainty": _certainty,
    "profiles": _profiles,
    "brain": _brain,
    "standing": _standing,
    "importance": _importance,
    "associations": _associations,
    "survival": _survival,
    "numbers": _numbers,
    "comparison": _comparison,
    "methods": _methods,
    "solutions": _solutions,
    "overlaps": _overlaps,
    "objective": _objective,
}
