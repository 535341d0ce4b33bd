"""The verdict on each cluster and on all of them, and what to bear in mind about it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

ALPHA, STRICT = 0.05, 0.01  # levels of null cohorts, which are few; and of concordance and profiles
# Jaccard similarity below which a cluster is called dissolved (Hennig 2007); also of neighbours
SIMILAR = 0.5
REPLICATED, PARTLY, NOT = "replicated", "partly replicated", "not replicated"
RULE = (
    "A cluster is replicated or partly replicated only if two p-values, corrected for the number of "
    f"clusters, are small: that of its concordance below {STRICT} (the views of the second cohort place "
    f"the same subjects in it; with a single view, that of the Jaccard similarity below {ALPHA}), and that "
    f"of its profile correlation below {STRICT}. It is replicated if moreover the Jaccard similarity and "
    f"the in-group proportion are at least {SIMILAR}, and the interval of the profile correlation lies "
    "above 0."
)
CUTS = "Agreement of cuts does not show that clusters exist; see choose_k."


def cluster_verdict(row: Mapping[Any, Any]) -> str:
    """The verdict on a cluster, by `RULE`.

    >>> row = {"concordance": 0.6, "concordance_p": 0.001, "jaccard": 0.8, "jaccard_p": 0.025}
    >>> row |= {"in_group": 0.9, "profile_p": 0.001, "profile_lower": 0.7}
    >>> cluster_verdict(row), cluster_verdict({**row, "jaccard": 0.4})
    ('replicated', 'partly replicated')
    """
    single = np.isnan(row["concordance"])
    shared = row["jaccard_p"] < ALPHA if single else row["concordance_p"] < STRICT
    if not (shared and row["profile_p"] < STRICT):
        return NOT
    fully = min(row["jaccard"], row["in_group"]) >= SIMILAR and row["profile_lower"] > 0.0
    return REPLICATED if fully else PARTLY


def overall_verdict(verdicts: Sequence[str]) -> str:
    """The common verdict on all clusters, if they have one."""
    return verdicts[0] if len(set(verdicts)) == 1 else PARTLY


def cautions(clusters: pd.DataFrame, overall: pd.Series) -> list[str]:
    """What to bear in mind about the verdict."""
    found = []
    if overall["continuum_p"] > ALPHA:
        found.append(
            "The clusters agree no more than cuts through a single Gaussian with the same correlations would "
            f"(p = {overall['continuum_p']:.2f}). {CUTS}"
        )
    elif np.isnan(overall["continuum_p"]):
        found.append(CUTS)
    empty = int((clusters["transferred"] == 0).sum())
    if empty:
        found.append(f"{empty} clusters have no subjects in the second cohort.")
    return found
