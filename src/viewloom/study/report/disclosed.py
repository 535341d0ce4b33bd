"""What a run may tell about its subjects, decided once: described variables, and the digits of statistics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import numpy as np
import pandas as pd

from viewloom.clinical import Shown, described
from viewloom.clinical.published import precisions, published_agreement
from viewloom.clinical.statistics import Precision
from viewloom.evaluation.comparison import Comparison
from viewloom.study.compared import published_comparison, score_decimals
from viewloom.study.report.feature_means import hidden_means
from viewloom.study.report.levels import described_levels
from viewloom.study.report.privacy import released_importance, shown_sizes

if TYPE_CHECKING:
    from viewloom.study.results import Results

Array = np.ndarray
MOST_LEVELS = 30  # categories of a variable that a report lists


@dataclass(frozen=True, eq=False)
class Disclosed:
    """What may be told; see `Findings` for what is.

    Attributes
    ----------
    sizes, shown_sizes : (k,) array, list of Known or Hidden
        Number of subjects of each cluster, and the same without small counts.
    secret : (k,) bool array
        Clusters that are too small to describe.
    people : DataFrame
        Clinical variables.
    codes : list of str
        Those of them that are codes.
    crowded : dict of str to str
        Those with too many categories to describe, and the reason.
    profile : DataFrame
        Of `clinical.described`.
    precision : dict of str to Precision
        How precisely statistics of each clinical variable may be shown.
    scores : dict of str to float, or None
        Agreement of clusters and diagnosis, as far as it may be shown.
    levels : dict of str to DataFrame
        Of `described_levels`, for views with levels.
    hidden_means : dict of str to DataFrame
        Features x clusters of each view of which no mean may be shown, the most important first.
    importance : dict of str to DataFrame
        Features of each view, without numbers that would tell such means.
    comparison : Comparison or None
        Of methods, with scores that may be shown.
    score_decimals : dict of str to int
        Decimals of the scores of each method.
    """

    sizes: Array
    shown_sizes: list[Shown]
    secret: Array
    people: pd.DataFrame
    codes: list[str]
    crowded: dict[str, str]
    profile: pd.DataFrame
    precision: dict[str, Precision]
    scores: dict[str, float] | None
    levels: dict[str, pd.DataFrame]
    hidden_means: dict[str, pd.DataFrame]
    importance: dict[str, pd.DataFrame]
    comparison: Comparison | None
    score_decimals: dict[str, int]


_DISCLOSED: WeakKeyDictionary[Results, Disclosed] = WeakKeyDictionary()  # as long as the results are in use


def disclosed(results: Results) -> Disclosed:
    """What may be told of the results of a run; computed once."""
    if results not in _DISCLOSED:
        _DISCLOSED[results] = _computed(results)
    return _DISCLOSED[results]


def _computed(results: Results) -> Disclosed:
    labels, min_cell, diagnosis = results.model.labels_, results.min_cell, results.roles.diagnosis
    sizes = np.bincount(labels, minlength=results.model.n_clusters)
    people, codes, crowded = _variables(results)
    listed = people.drop(columns=list(crowded))
    profile = described(labels, listed, categorical=codes, min_cell=min_cell)
    known = precisions(labels, people, profile, min_cell, categorical=codes, agreement=diagnosis)
    methods = results.comparison
    levels = {name: described_levels(results, name) for name in results.importance}
    hidden = {name: hidden_means(results, name, levels[name]) for name in results.importance}
    of_diagnosis = known.get(str(diagnosis), Precision())
    return Disclosed(
        sizes=sizes,
        shown_sizes=shown_sizes(sizes, min_cell),
        secret=sizes < min_cell,
        people=people,
        codes=codes,
        crowded=crowded,
        profile=profile,
        precision=known,
        scores=published_agreement(results.agreement, known.get(str(diagnosis))),
        levels=levels,
        hidden_means=hidden,
        importance={
            name: released_importance(frame, hidden[name].to_numpy())
            for name, frame in results.importance.items()
        },
        comparison=None if methods is None else published_comparison(methods, of_diagnosis),
        score_decimals={} if methods is None else score_decimals(methods, of_diagnosis),
    )


def _variables(results: Results) -> tuple[pd.DataFrame, list[str], dict[str, str]]:
    """Clinical variables, those of them that are codes, and those with too many categories to describe."""
    roles = results.roles
    names = [roles.diagnosis, *roles.outcomes, *roles.covariates, roles.site]
    chosen = list(dict.fromkeys(name for name in names if name is not None))
    if results.participants is None or not chosen:
        return pd.DataFrame(index=range(len(results.views))), [], {}
    people = results.participants[chosen]
    codes = [name for name in (roles.diagnosis, roles.site) if name is not None]
    texts = people.select_dtypes(exclude="number").columns.union(codes, sort=False)
    counts = {name: people[name].nunique() for name in texts}
    crowded = {name: f"{n} categories, too many to list" for name, n in counts.items() if n > MOST_LEVELS}
    return people, codes, crowded
