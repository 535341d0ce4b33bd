"""Statistics of transferred and refitted clusters, and the tables of a replication."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from viewloom.evaluation.replication.cohort import Cohort
from viewloom.evaluation.replication.statistics import (
    adjusted_p,
    agreement,
    best_matching,
    in_group,
    interval,
    jaccard,
    nearest_samples,
    upper_p,
)
from viewloom.evaluation.replication.verdicts import cluster_verdict
from viewloom.evaluation.selection.jobs import Record
from viewloom.models.kernel_nmf import KernelMultiviewNMF

Array = np.ndarray
DRAWS, BATCH = 999, 111  # random directions, and permutations of memberships; directions at a time
IN_NULLS = ("jaccard", "in_group")  # statistics of null cohorts


@dataclass(frozen=True, eq=False)
class Compared:
    """Statistics of transferred and refitted clusters."""

    cohort: Cohort
    transferred: Array
    refitted: Array

    @cached_property
    def nearest(self) -> Array:
        """The nearest subject of each."""
        cohort = self.cohort
        return nearest_samples(cohort.profiles.distances, cohort.rows, cohort.weights, cohort.n)

    def statistics(self, counts: Array | None = None) -> dict[str, Any]:
        """All statistics, of subjects that count as often as `counts`."""
        k, one, other = self.cohort.k, self.transferred, self.refitted
        overall, by_view = self.cohort.profiles.of_clusters(other, counts)
        return {
            "ari": agreement(one, other, counts),
            "concordance": self.cohort.concordance.observed(counts),
            "jaccard": jaccard(one, other, k, counts),
            "in_group": in_group(one, self.nearest, k, counts),
            "profile": np.diagonal(overall),
            "by_view": np.diagonal(by_view, axis1=1, axis2=2),  # v x k
        }

    @cached_property
    def observed(self) -> dict[str, Any]:
        """All statistics of the second cohort."""
        return self.statistics()

    def resampled(self, rng: np.random.Generator, n_resamples: int) -> dict[str, Array]:
        """Statistics of bootstrap resamples of the subjects."""
        n = self.cohort.n
        draws = rng.multinomial(n, np.full(n, 1.0 / n), size=n_resamples)
        rows = [self.statistics(counts) for counts in draws]
        return {name: np.array([row[name] for row in rows]) for name in rows[0]}

    def permuted(self, rng: np.random.Generator) -> Array:
        """Concordance of clusters after permutations of the subjects of each view (draws x k)."""
        return np.array([self.cohort.concordance.permuted(rng) for _ in range(DRAWS)])

    def directions(self, rng: np.random.Generator) -> dict[str, Array]:
        """Profile correlations of random directions, matched as well as possible."""
        k, n = self.cohort.k, self.cohort.n
        parts: dict[str, list[Array]] = {"profile": [], "by_view": []}
        for _ in range(DRAWS // BATCH):
            G = rng.standard_normal((BATCH, k, n))
            overall, by_view = self.cohort.profiles.of_directions(G, self.refitted)
            best = np.array([best_matching(S) for S in overall])  # batch x k
            at, columns = np.arange(BATCH)[:, None], np.arange(k)
            parts["profile"].append(overall[at, best, columns])
            parts["by_view"].append(by_view[:, at, best, columns].swapaxes(0, 1))
        return {name: np.concatenate(part) for name, part in parts.items()}


def clusters_table(
    compared: Compared,
    resampled: Mapping[str, Array],
    permuted: Array,
    directions: Mapping[str, Array],
    null: Sequence[Record],
) -> pd.DataFrame:
    """One row per cluster: sizes, statistics with intervals and corrected p-values, verdict."""
    k, observed = compared.cohort.k, compared.observed
    nulls = {"concordance": permuted}
    nulls |= {
        name: np.array([record[name] for record in null], dtype=float).reshape(-1, k) for name in IN_NULLS
    }
    nulls["profile"] = directions["profile"]
    table = pd.DataFrame(index=pd.RangeIndex(k, name="cluster"))
    table["first"] = compared.cohort.sizes
    for name, labels in (("transferred", compared.transferred), ("refitted", compared.refitted)):
        table[name] = np.bincount(labels, minlength=k)
    for name, values in nulls.items():
        table[name] = observed[name]
        table[f"{name}_lower"], table[f"{name}_upper"] = interval(resampled[name])
        table[f"{name}_p"] = adjusted_p(observed[name], values)
    table["verdict"] = [cluster_verdict(row) for row in table.to_dict("records")]
    return table


def overall_agreement(
    compared: Compared, resampled: Mapping[str, Array], drawn: Mapping[str, list[Record]]
) -> pd.Series:
    """Agreement of transferred and refitted clusters, with interval and p-values."""
    ari = compared.observed["ari"]
    lower, upper = interval(resampled["ari"])
    p = float(upper_p(ari, [record["ari"] for record in drawn["null"]]))
    gaussian = [record["ari"] for record in drawn["gaussian"]]
    single = len(compared.cohort.views) == 1  # whose null cohorts are Gaussian
    continuum = p if single else float(upper_p(ari, gaussian)) if gaussian else np.nan
    values = {"ari": ari, "lower": float(lower), "upper": float(upper), "p": p, "continuum_p": continuum}
    return pd.Series(values, name="overall")


def profiles_table(
    compared: Compared, resampled: Mapping[str, Array], directions: Mapping[str, Array]
) -> pd.DataFrame:
    """Profile correlations by view and cluster."""
    observed = compared.observed["by_view"]  # v x k
    lower, upper = interval(resampled["by_view"])
    names, k = compared.cohort.names, compared.cohort.k
    columns = {
        "view": np.repeat(np.array(names, dtype=object), k),
        "cluster": np.tile(np.arange(k), len(names)),
        "correlation": observed.ravel(),
        "lower": lower.ravel(),
        "upper": upper.ravel(),
        "p": upper_p(observed, directions["by_view"]).ravel(),
    }
    return pd.DataFrame(columns)


def weights_table(
    cohort: Cohort, refit: KernelMultiviewNMF, drawn: Mapping[str, list[Record]]
) -> pd.DataFrame:
    """Weights of the common views in both cohorts."""
    second = refit.view_weights_
    halves = np.array([record["weights"] for record in drawn["half"]], dtype=float).reshape(-1, len(second))
    known = halves[~np.isnan(halves).any(axis=1)]
    spread = 1.96 * known.std(axis=0, ddof=1) if len(known) > 1 else np.full(len(second), np.nan)
    columns = {
        "first": cohort.weights,
        "second": second,
        "lower": np.clip(second - spread, 0.0, 1.0),
        "upper": np.clip(second + spread, 0.0, 1.0),
        "p": upper_p(
            second, np.array([record["weights"] for record in drawn["null"]]).reshape(-1, len(second))
        ),
    }
    return pd.DataFrame(columns, index=pd.Index(cohort.names, name="view"))
