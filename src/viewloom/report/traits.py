"""What sets each cluster apart, in plain words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from viewloom.report.findings import Findings
from viewloom.report.privacy import plain
from viewloom.report.words import joined, percent, signed, verdict

if TYPE_CHECKING:
    from viewloom.runs.results import Results

SHIFT = 0.2  # SD from which a mean is said to differ
EXCESS = 0.05  # difference of shares that is worth a word
STANDS_OUT = 0.3  # mean z-score of a feature that is worth a word
MOVES = 0.01  # share of membership that is worth a word
MOST = 3  # of a kind that are told


def cluster_cards(results: Results, found: Findings) -> list[dict[str, Any]]:
    """Every cluster: size, stability, and what sets it apart."""
    return [_card(results, found, j) for j in range(results.model.n_clusters)]


def share_of(cell: str) -> float | None:
    """The share in a cell of `clinical.profile`, if it is shown.

    >>> share_of("62 (51%)"), share_of("≥11")
    (0.51, None)
    """
    return float(cell.split("(")[1].rstrip("%)")) / 100.0 if "%" in cell else None


def moments_of(cell: str) -> tuple[float, float] | None:
    """Mean and standard deviation in a cell of `clinical.profile`, if they are shown.

    >>> moments_of("24.7 (2.7)"), moments_of("<11")
    ((24.7, 2.7), None)
    """
    mean, _, spread = cell.rstrip(")").partition(" (")
    return (float(mean), float(spread)) if spread else None


def _card(results: Results, found: Findings, j: int) -> dict[str, Any]:
    jaccard = float(results.stability.clusters.reindex([j]).iloc[0])
    shown = found.size_texts[j].isdigit()
    return {
        "cluster": j,
        "size": found.size_texts[j],
        "share": percent(found.sizes[j] / found.sizes.sum()) if shown else None,
        "stability": None if found.secret[j] or np.isnan(jaccard) else round(jaccard, 2),
        "verdict": verdict(jaccard),
        "traits": _traits(results, found, j),
    }


def _traits(results: Results, found: Findings, j: int) -> list[str]:
    """What sets a cluster apart, in sentences."""
    if found.secret[j]:
        return [f"Too small to be described: fewer than {results.min_cell} subjects."]
    table = found.associations
    told = table["significant"] & (table["variable"] != results.roles.site)
    names = {
        kind: table.loc[told & (table["kind"] == kind), "variable"] for kind in ("numeric", "categorical")
    }
    return [
        *_frequent(found, j, names["categorical"]),
        *_shifted(found, j, names["numeric"]),
        *_features(found, j),
        *_defining(found, j),
    ]


def _cells(found: Findings, j: int, names: Iterable[str]) -> Iterator[tuple[str, str, str, str]]:
    """Rows of the profile of some variables: name, value, and what stands there for a cluster and for all."""
    described = set(found.profile.index.get_level_values("variable"))
    for name in (name for name in names if name in described):
        part = found.profile.xs(name, level="variable")[[str(j), "all"]]
        for value, (here, everyone) in zip(part.index, part.to_numpy(), strict=True):
            yield name, str(value), here, everyone


def _frequent(found: Findings, j: int, names: Iterable[str]) -> list[str]:
    """Categories that are more frequent in a cluster than in all, as far as counts may be shown."""
    told: dict[str, tuple[float, str]] = {}
    for name, value, here, everyone in _cells(found, j, names):
        share, overall = share_of(here), share_of(everyone)
        if share is not None and overall is not None and share - overall >= EXCESS:
            text = f"{plain(name)} {plain(value, 40)} ({share:.0%}; all subjects {overall:.0%})"
            told[name] = max(told.get(name, (0.0, "")), (share - overall, text))
    best = sorted(told.values(), reverse=True)[:MOST]
    return [f"More often {joined(text for _, text in best)}."] if best else []


def _shifted(found: Findings, j: int, names: Iterable[str]) -> list[str]:
    """Numbers whose mean in a cluster is off that of all."""
    told = []
    for name, _, here, everyone in _cells(found, j, names):
        ours, all_ = moments_of(here), moments_of(everyone)
        if ours and all_ and abs(ours[0] - all_[0]) >= SHIFT * all_[1] > 0:
            way = "higher" if ours[0] > all_[0] else "lower"
            means = f"mean {here.split(' ')[0]}; all subjects {everyone.split(' ')[0]}"
            told.append((abs(ours[0] - all_[0]) / all_[1], f"{way} {plain(name)} ({means})"))
    best = joined(text for _, text in sorted(told, reverse=True)[:MOST])
    return [f"{best[0].upper()}{best[1:]}."] if told else []


def _features(found: Findings, j: int) -> list[str]:
    """The features that lie furthest from the mean, in up to two views."""
    told = []
    for view, means in found.profiles.items():
        known = [(abs(z), str(name), z) for name, z in means[j].items() if abs(z) >= STANDS_OUT]
        far = sorted(known, key=lambda item: -item[0])[:MOST]
        parts = [f"{plain(name, 40)} ({signed(z)} SD)" for _, name, z in far]
        if far:
            told.append((far[0][0], f"In {plain(view)}, furthest from average: {joined(parts)}."))
    nothing = ["In every view close to the average of all subjects."]
    return [text for _, text in sorted(told, reverse=True)[:2]] or nothing


def _defining(found: Findings, j: int) -> list[str]:
    """The view without which the cluster would change most."""
    moved = dict(zip(found.moved.columns, found.moved.to_numpy()[j], strict=True))
    view = max(moved, key=lambda name: np.nan_to_num(moved[name]))
    if len(moved) < 2 or not moved[view] >= MOVES:
        return []
    return [f"Rests most on {plain(view)}: without it, {percent(moved[view])} of membership moves."]
