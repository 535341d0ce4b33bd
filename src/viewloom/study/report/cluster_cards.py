"""Descriptions of the clusters: how each differs from all subjects, in sentences."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from viewloom.clinical import Known, Shown
from viewloom.study.report.evidence import cluster_words
from viewloom.study.report.findings import Findings
from viewloom.study.report.privacy import plain
from viewloom.study.report.regions import feature_names
from viewloom.study.report.sentences import joined, percent, signed
from viewloom.study.report.standing_out import nothing_stands_out, standing_out

if TYPE_CHECKING:
    from viewloom.study.results import Results

SHIFT = 0.2  # SD; smaller differences of means are not mentioned
EXCESS = 0.05  # smallest difference of shares that is mentioned
DEVIATION = 0.3  # smallest mean z-score of a feature that is mentioned
MOVES, MARGIN = 0.01, 0.02  # smallest share of membership that is mentioned, and lead over the next view
MOST = 3  # items of a kind
NO_FEATURE = f"No feature that stands out deviates from the mean of all subjects by {DEVIATION} SD or more."
NOT_SHOWN = "Means of features are not shown, since those of a small cluster could be derived from them."


def cluster_cards(results: Results, found: Findings) -> list[dict[str, Any]]:
    """Every cluster: size, stability, and how it differs from all subjects."""
    return [_card(results, found, j) for j in range(results.model.n_clusters)]


def _card(results: Results, found: Findings, j: int) -> dict[str, Any]:
    jaccard, size = float(results.cluster_stability[j]), found.shown_sizes[j]
    return {
        "number": str(j + 1),
        "cluster": results.cluster_names[j],
        "size": str(size),
        "share": percent(size.value / found.sizes.sum()) if isinstance(size, Known) else None,
        "stability": None if found.secret[j] or np.isnan(jaccard) else round(jaccard, 2),
        "verdict": cluster_words(results, j),
        "traits": _traits(results, found, j),
    }


def _traits(results: Results, found: Findings, j: int) -> list[str]:
    """How a cluster differs from all subjects, in sentences."""
    if found.secret[j]:
        return [f"Too small to be described: fewer than {results.min_cell} subjects."]
    table = found.associations
    chosen = table["significant"] & (table["variable"] != results.roles.site)
    names = {
        kind: table.loc[chosen & (table["kind"] == kind), "variable"] for kind in ("numeric", "categorical")
    }
    return [
        *_frequent(found, j, names["categorical"]),
        *_shifted(found, j, names["numeric"]),
        *_features(results, found, j),
        *_levels(results, found, j),
        *_defining(found, j),
    ]


def _cells(found: Findings, j: int, names: Iterable[str]) -> Iterator[tuple[str, str, Shown, Shown]]:
    """Rows of the profile of some variables: name, value, and the cells of a cluster and of all subjects."""
    known = set(found.profile.index.get_level_values("variable"))
    for name in (name for name in names if name in known):
        part = found.profile.xs(name, level="variable")[[str(j), "all"]]
        for value, (here, everyone) in zip(part.index, part.to_numpy(), strict=True):
            yield name, str(value), here, everyone


def _frequent(found: Findings, j: int, names: Iterable[str]) -> list[str]:
    """Categories that are more frequent in a cluster than in all subjects, where counts may be shown."""
    frequent: dict[str, tuple[float, str]] = {}
    for name, value, here, everyone in _cells(found, j, names):
        if here.share is not None and everyone.share is not None:
            text = f"{plain(name)} {plain(value, 40)} ({here.share:.0%}; all subjects {everyone.share:.0%})"
            frequent[name] = max(frequent.get(name, (0.0, "")), (here.share - everyone.share, text))
    best = sorted((found for found in frequent.values() if found[0] >= EXCESS), reverse=True)[:MOST]
    return [f"More frequent: {joined(text for _, text in best)}."] if best else []


def _shifted(found: Findings, j: int, names: Iterable[str]) -> list[str]:
    """Variables whose mean in a cluster differs from that of all subjects."""
    shifted = []
    for name, _, here, everyone in _cells(found, j, names):
        shift = _shift(here, everyone)
        if isinstance(here, Known) and isinstance(everyone, Known) and abs(shift) >= SHIFT:
            means = f"mean {here.number}; all subjects {everyone.number}"
            shifted.append((abs(shift), f"{'higher' if shift > 0 else 'lower'} {plain(name)} ({means})"))
    best = joined(text for _, text in sorted(shifted, reverse=True)[:MOST])
    return [f"{best[0].upper()}{best[1:]}."] if shifted else []


def _shift(here: Shown, everyone: Shown) -> float:
    """Difference of a mean from that of all subjects, in their standard deviations; 0 where one is hidden.

    >>> _shift(Known(24.0, spread=2.0), Known(25.0, spread=4.0))
    -0.25
    >>> _shift(Known(7, share=0.5), Known(9, share=0.1))
    0.0
    """
    if not (isinstance(here, Known) and isinstance(everyone, Known)):
        return 0.0
    if here.spread is None or not everyone.spread or np.isnan(everyone.spread):
        return 0.0
    return (here.value - everyone.value) / everyone.spread


def _features(results: Results, found: Findings, j: int) -> list[str]:
    """The features that deviate most from the mean of all subjects, in up to two views."""
    found_in = []
    for view, means in found.profiles.items():
        tested = standing_out(results, view)
        if tested is not None:
            means = means[means.index.isin(tested["feature"])]
        names = feature_names(means.index, 40)
        known = [(abs(z), name, z) for name, z in zip(names, means[j], strict=True) if abs(z) >= DEVIATION]
        far = sorted(known, key=lambda item: -item[0])[:MOST]
        parts = [f"{name} ({signed(z)} SD)" for _, name, z in far]
        if far:
            found_in.append(
                (far[0][0], f"In {plain(view)}, largest deviations from the mean: {joined(parts)}.")
            )
    if all(means[j].isna().all() for means in found.profiles.values()):
        return [NOT_SHOWN]
    tests = any(standing_out(results, view) is not None for view in found.profiles)
    nothing = [NO_FEATURE if tests else "Close to the mean of all subjects in every view."]
    return [text for _, text in sorted(found_in, reverse=True)[:2]] or nothing


def _levels(results: Results, found: Findings, j: int) -> Iterator[str]:
    """Levels of features of the views that are more frequent in a cluster."""
    for view, table in found.levels.items():
        if len(table) and not nothing_stands_out(results, view):
            yield from frequent_levels(view, table, j)


def frequent_levels(view: str, table: pd.DataFrame, j: int) -> Iterator[str]:
    """The levels of features that are most in excess in a cluster, where their counts may be shown."""
    found: dict[str, tuple[float, str]] = {}
    for (feature, level), here, everyone in zip(table.index, table[str(j)], table["all"], strict=True):
        if isinstance(here, Known) and isinstance(everyone, Known) and here.share and everyone.share:
            shares = f"({here.share:.0%}; all subjects {everyone.share:.0%})"
            one = here.share - everyone.share, f"{plain(feature)} {plain(level, 40)} {shares}"
            found[feature] = max(found.get(feature, (0.0, "")), one)
    best = sorted((one for one in found.values() if one[0] >= EXCESS), reverse=True)[:MOST]
    if best:
        yield f"In {plain(view)}, more frequent: {joined(text for _, text in best)}."


def _defining(found: Findings, j: int) -> list[str]:
    """The view without which the cluster would change most."""
    moved = dict(zip(found.moved.columns, found.moved.to_numpy()[j], strict=True))
    if len(moved) < 2:
        return []
    second, view = sorted(moved, key=lambda name: float(np.nan_to_num(moved[name])))[-2:]
    if not moved[view] >= MOVES or moved[view] - np.nan_to_num(moved[second]) < MARGIN:
        return []
    return [
        f"Depends most on {plain(view)}: without it, {percent(moved[view])} of the membership shifts to "
        "other clusters."
    ]
