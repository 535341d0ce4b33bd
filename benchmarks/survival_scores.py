"""How well clusters that were found without it tell survival: log-rank test, and C-index out of sample."""

from __future__ import annotations

import numpy as np
from sklearn.model_selection import RepeatedStratifiedKFold

from viewloom.clinical.survival import logrank

Array = np.ndarray
N_FOLDS, N_REPEATS = 5, 10


def survival_scores(labels: Array, time: Array, event: Array) -> dict[str, float]:
    """P-value of the log-rank test and the C-index out of sample, of subjects with a known time."""
    known = np.isfinite(time) & np.isfinite(event) & (labels >= 0)
    labels, time, event = np.unique(labels[known], return_inverse=True)[1], time[known], event[known] == 1
    p = logrank([(time[labels == c], event[labels == c]) for c in np.unique(labels)]).p
    return {"log-rank p": p, "C-index": held_out_c_index(labels, time, event)}


def held_out_c_index(labels: Array, time: Array, event: Array) -> float:
    """C-index of subjects left out, the risk of their cluster estimated on the others: events per time.

    Mean over ten repeats of five folds. Clusters are those of all subjects, found without survival; 0.5 is
    chance.
    """
    k = int(labels.max()) + 1
    splitter = RepeatedStratifiedKFold(n_splits=N_FOLDS, n_repeats=N_REPEATS, random_state=0)
    found = [
        c_index(risks(labels[train], time[train], event[train], k)[labels[test]], time[test], event[test])
        for train, test in splitter.split(labels, event)
    ]
    return float(np.nanmean(found))


def risks(labels: Array, time: Array, event: Array, n_clusters: int) -> Array:
    """Events per unit of time in each cluster; that of all where a cluster has nobody."""
    overall = event.sum() / time.sum()
    counts, exposure = (np.bincount(labels, weights=x, minlength=n_clusters) for x in (event, time))
    return np.where(exposure > 0.0, counts / np.where(exposure > 0.0, exposure, 1.0), overall)


def c_index(risk: Array, time: Array, event: Array) -> float:
    """Harrell's: share of comparable pairs whose earlier event has the higher risk, ties one half."""
    earlier = event[:, None] & ((time[:, None] < time) | ((time[:, None] == time) & ~event))
    ahead = (risk[:, None] > risk) + 0.5 * (risk[:, None] == risk)
    return float(ahead[earlier].mean()) if earlier.any() else float("nan")
