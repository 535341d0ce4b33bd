"""Effects of clusters on clinical variables, adjusted for covariates."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from viewloom.clinical.findings import holm
from viewloom.clinical.regression import MODELS, Estimate, Model, check_installed, covariate_columns, model_of
from viewloom.clinical.used import USED, used_for_clustering, used_names
from viewloom.clinical.variables import Variable, clusters_of, variables_of
from viewloom.runtime.errors import InputError

Array = np.ndarray
REST = "rest"
LEAST = 10  # subjects of a cluster, and of those that it is compared with
EFFECTS = [
    "variable",
    "model",
    "cluster",
    "against",
    "measure",
    "effect",
    "low",
    "high",
    "p",
    "p_holm",
    "n",
    "note",
]
OVERALL = ["variable", "model", "test", "statistic", "df", "p", "q", "n", "note"]


@dataclass(frozen=True, eq=False)
class AdjustedEffects:
    """Effects of clusters, adjusted for covariates; see `adjusted_effects`.

    Attributes
    ----------
    overall : DataFrame
        One row per variable: ``model`` ("linear", "logistic" or "ordinal"), ``test`` (of all clusters at
        once), ``statistic``, ``df``, ``p``, ``q`` (Benjamini-Hochberg over the variables that have a p),
        ``n``, ``note``.
    effects : DataFrame
        One row per variable and cluster: ``cluster``, ``against``, ``measure`` ("difference (SD)" or "odds
        ratio"), ``effect`` with its 95 % interval ``low`` to ``high``, ``p``, ``p_holm`` (over the clusters
        of the variable), ``n``, and a ``note`` where there is no estimate.
    covariates : list of str
    skipped : dict of str to str
        Variables without a model, and the reason.
    """

    overall: pd.DataFrame
    effects: pd.DataFrame
    covariates: list[str]
    skipped: dict[str, str] = field(default_factory=dict)

    @property
    def tested(self) -> int:
        """Number of variables that q is corrected for."""
        return int(self.overall["p"].notna().sum())


def adjusted_effects(
    labels: Any,
    participants: pd.DataFrame,
    outcomes: Collection[str],
    covariates: Collection[str] = (),
    *,
    against: Any = REST,
    categorical: Collection[str] = (),
    ordinal: Collection[str] = (),
    views: Any = None,
    least: int = LEAST,
) -> AdjustedEffects:
    """Compare clusters on clinical variables, adjusted for covariates.

    Numbers are compared by linear regression with standard errors that allow for unequal variances (HC3),
    variables with two values by logistic regression, and ordered categories and numbers with 3 to 7 values
    by the proportional-odds model. Linear effects are differences in standard deviations of the variable;
    the others are odds ratios, of the later of two values in alphabetical or numerical order, or of higher
    values. Clusters are tested by F (linear) or likelihood-ratio tests.

    Parameters
    ----------
    labels : (n,) array
    participants : DataFrame
    outcomes, covariates : collection of str
        Columns of the table. Subjects with a missing value of the variable or a covariate are left out.
    against : "rest" or a cluster
        Compare each cluster with all other subjects, or with a reference cluster.
    categorical : collection of str
        Columns that contain codes rather than numbers.
    ordinal : collection of str
        Outcomes to treat as ordered, also with many values.
    views : Views, optional
        The views that were clustered: variables that were used for clustering get no test.
    least : int, default=10
        Clusters with fewer subjects are not estimated.

    Returns
    -------
    AdjustedEffects

    Raises
    ------
    MissingPackageError
        Without statsmodels (``pip install viewloom[stats]``).

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> labels, age = np.repeat([0, 1], 50), rng.normal(70, 5, 100)
    >>> people = pd.DataFrame({"age": age, "score": 0.1 * age + 2.0 * labels + rng.normal(size=100)})
    >>> found = adjusted_effects(labels, people, ["score"], ["age"])
    >>> found.effects[["cluster", "effect", "low", "high"]].round(1).to_numpy().tolist()
    [[0.0, -1.3, -1.6, -1.0], [1.0, 1.3, 1.0, 1.6]]
    """
    check_installed("Adjusted effects need")
    _check_columns(participants, [*outcomes, *covariates])
    clusters, codes = clusters_of(labels, len(participants), participants.index)
    if against is not REST and against not in clusters:
        raise InputError(f"No subject is in cluster {against!r}, the reference.")
    task = _Task(clusters, codes, participants, list(covariates), set(categorical), against, least)
    used = _used(participants, outcomes, views, categorical)
    rows, parts, skipped = [], [], {}
    for variable, reason in variables_of(participants[list(outcomes)], categorical):
        kind = model_of(variable, variable.name in ordinal) if reason is None else None
        if kind is None:
            skipped[variable.name] = reason or "categories without an order, which have no single effect"
            continue
        row, effects = task.compared(variable, kind, USED if variable.name in used else "")
        rows.append(row)
        parts.append(effects)
    overall = pd.DataFrame(rows, columns=pd.Index(OVERALL))
    overall["q"] = _corrected(overall["p"].to_numpy(dtype=float))
    listed = pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=pd.Index(EFFECTS))
    return AdjustedEffects(overall, listed, list(covariates), skipped)


@dataclass(frozen=True, eq=False)
class _Task:
    """What all variables share: clusters, covariates, and what clusters are compared with."""

    clusters: list[Any]
    codes: Array
    participants: pd.DataFrame
    covariates: list[str]
    categorical: set[str]
    against: Any
    least: int

    def compared(self, variable: Variable, kind: str, note: str) -> tuple[dict[str, Any], pd.DataFrame]:
        """The test of all clusters, and the effect of each."""
        names = [name for name in self.covariates if name != variable.name]
        Z, complete = covariate_columns(self.participants, names, self.categorical)
        rows = complete & variable.known
        counts = np.bincount(self.codes[rows], minlength=len(self.clusters))
        kept = rows & np.isin(self.codes, np.flatnonzero(counts >= self.least))
        model, y = MODELS[kind], variable.data[kept]
        codes, Z = self.codes[kept], Z[kept]
        overall = (
            model.overall(y, _indicators(codes)[:, 1:], Z)
            if len(set(codes)) > 1
            else Estimate.none(f"fewer than two clusters have {self.least} subjects")
        )
        shared = {"variable": variable.name, "model": kind}
        p = np.nan if note else overall.p
        row = {
            **shared, "test": model.test, "statistic": np.nan if note else overall.effect, "df": overall.df,
            "p": p, "n": len(y), "note": note or overall.note,
        }  # fmt: skip
        effects = pd.DataFrame(
            [
                {**shared, "measure": model.measure, **found, "note": note or found["note"]}
                for found in self._effects(model, y, codes, Z)
            ],
            columns=pd.Index(EFFECTS),
        )
        effects["p"] = effects["p"].astype(float).mask(np.full(len(effects), bool(note)))
        effects["p_holm"] = _holm(effects["p"].to_numpy(dtype=float))
        return row, effects

    def _effects(self, model: Model, y: Array, codes: Array, Z: Array) -> Iterator[dict[str, Any]]:
        """The effect of each cluster against the rest, or against the reference."""
        reference = None if self.against is REST else self.clusters.index(self.against)
        for j, cluster in enumerate(self.clusters):
            if j == reference:
                continue
            inside = codes == j
            subjects = np.ones(len(codes), dtype=bool) if reference is None else inside | (codes == reference)
            found = {"cluster": cluster, "against": self.against, "n": int(inside.sum())}
            if min(inside.sum(), (subjects & ~inside).sum()) < self.least:
                short = Estimate.none(f"fewer than {self.least} subjects")
                yield {**found, **vars(short)}
                continue
            estimate = model.effect(y[subjects], inside[subjects].astype(float)[:, None], Z[subjects])
            yield {**found, **vars(estimate)}


def _check_columns(participants: pd.DataFrame, names: Sequence[str]) -> None:
    absent = [name for name in names if name not in participants]
    if absent:
        raise InputError(f"The participants have no column {absent[0]!r}.")


def _used(
    participants: pd.DataFrame, outcomes: Collection[str], views: Any, categorical: Collection[str]
) -> Collection[str]:
    if views is None:
        return ()
    return used_names(used_for_clustering(participants[list(outcomes)], views, categorical=categorical))


def _indicators(codes: Array) -> Array:
    """One column per cluster that occurs."""
    return np.asarray(codes[:, None] == np.unique(codes), dtype=float)


def _corrected(p: Array) -> Array:
    q, known = np.full(len(p), np.nan), np.isfinite(p)
    q[known] = stats.false_discovery_control(p[known]) if known.any() else []
    return q


def _holm(p: Array) -> Array:
    corrected, known = np.full(len(p), np.nan), np.isfinite(p)
    corrected[known] = holm(p[known])
    return corrected
