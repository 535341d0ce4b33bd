"""Agreement of a clustering with known classes."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score, rand_score
from sklearn.metrics.cluster import contingency_matrix
from sklearn.utils import check_consistent_length, column_or_1d

from viewloom.data.matching import matched_pair
from viewloom.runtime.errors import InputError

__all__ = ["clustering_accuracy", "clustering_report", "mirkin_index", "purity_score"]


def clustering_accuracy(y_true: Any, labels: Any) -> float:
    """Share of samples in the correct class under the best one-to-one matching of clusters to classes.

    Examples
    --------
    >>> clustering_accuracy(["ad", "ad", "hc", "hc"], [1, 1, 0, 1])
    0.75
    """
    counts = _contingency(y_true, labels)
    rows, columns = linear_sum_assignment(counts, maximize=True)
    return float(counts[rows, columns].sum() / counts.sum())


def mirkin_index(y_true: Any, labels: Any) -> float:
    """Normalised Mirkin distance: the share of pairs on which two partitions disagree, `1 - RI`.

    It is 0 for equal partitions; lower is better.

    Examples
    --------
    >>> mirkin_index([0, 0, 1, 1], [1, 1, 0, 0])
    0.0
    """
    return float(1.0 - rand_score(*_checked(y_true, labels)))


def purity_score(y_true: Any, labels: Any) -> float:
    """Share of samples that belong to the most frequent class of their cluster.

    Examples
    --------
    >>> purity_score([0, 0, 1, 1], [0, 1, 2, 3])
    1.0
    """
    counts = _contingency(y_true, labels)
    return float(counts.max(axis=0).sum() / counts.sum())


def clustering_report(y_true: Any, labels: Any) -> dict[str, float]:
    """Acc, NMI, ARI, RI, MI and purity of a clustering.

    RI is the Rand index and MI the normalised Mirkin distance, so that `RI + MI = 1`.

    Examples
    --------
    >>> report = clustering_report([0, 0, 1, 1], [1, 1, 0, 1])
    >>> {name: round(value, 2) for name, value in report.items()}
    {'Acc': 0.75, 'NMI': 0.34, 'ARI': 0.0, 'RI': 0.5, 'MI': 0.5, 'purity': 0.75}
    """
    y_true, labels = _checked(y_true, labels)
    rand = float(rand_score(y_true, labels))
    return {
        "Acc": clustering_accuracy(y_true, labels),
        "NMI": float(normalized_mutual_info_score(y_true, labels)),
        "ARI": float(adjusted_rand_score(y_true, labels)),
        "RI": rand,
        "MI": 1.0 - rand,
        "purity": purity_score(y_true, labels),
    }


def _checked(y_true: Any, labels: Any) -> tuple[np.ndarray, np.ndarray]:
    y_true, labels = (column_or_1d(values) for values in matched_pair(y_true, labels, ("y_true", "labels")))
    check_consistent_length(y_true, labels)
    if len(y_true) == 0:
        raise InputError("No samples to compare: y_true and labels are empty.")
    return y_true, labels


def _contingency(y_true: Any, labels: Any) -> np.ndarray:
    return np.asarray(contingency_matrix(*_checked(y_true, labels)))  # classes x clusters
