"""The subjects in whom a clustering is assessed: all, or of very many some that are drawn at random.

Refits, intervals and tests of features need many fits. Ten thousand subjects say the same as all: shares and
correlations of so many are known to within a hundredth. Refits on fewer subjects differ more from each other,
so that clusters are reported as less stable, and intervals as wider, than they are.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from sklearn.base import clone

from viewloom.data.views import Views
from viewloom.evaluation.selection.stability import Stability
from viewloom.models.kernel_nmf import KernelMultiviewNMF
from viewloom.study.notes import Count, Note

Array = np.ndarray
MOST_ASSESSED = 10_000  # subjects


@dataclass(frozen=True, eq=False)
class Assessed:
    """The subjects in whom a clustering is assessed.

    Attributes
    ----------
    rows : (m,) array of int
        Their positions among all subjects.
    views : Views
    labels : (m,) array of int
    estimator : KernelMultiviewNMF
        What is fitted to them and to parts of them: by landmarks if the model was, and on this machine.
    """

    rows: Array
    views: Views
    labels: Array
    estimator: KernelMultiviewNMF

    @classmethod
    def of(cls, model: KernelMultiviewNMF, views: Views) -> Assessed:
        """All subjects, or some of very many."""
        n, estimator = len(views), on_this_machine(model)
        if n <= MOST_ASSESSED:
            return cls(np.arange(n), views, model.labels_, estimator)
        rng = np.random.default_rng(model.random_state)
        rows = np.sort(rng.permutation(n)[:MOST_ASSESSED])
        if model.factored == "auto" and not model.fitted_model_.EXACT:
            estimator.set_params(factored=True)
        return cls(rows, views[rows], model.labels_[rows], estimator)

    def of_all(self, stability: Stability, n: int, ids: pd.Index | None) -> Stability:
        """The stability with one entry per subject of the study, NaN where it was not assessed."""
        if len(self.rows) == n:
            return stability
        subjects = np.full(n, np.nan)
        subjects[self.rows] = stability.subjects.to_numpy()
        return Stability(
            stability.clusters,
            pd.Series(subjects, index=ids, name="stability"),
            stability.overall,
            stability.refits,
            stability.share,
        )

    def notes(self, n: int) -> list[Note]:
        """In whom the clustering was assessed, if not in all."""
        if len(self.rows) == n:
            return []
        some = Count(len(self.rows), "subject")
        text = " drawn at random: stability, intervals, tests of features and other settings are of these"
        fewer = "; clusters are counted, and methods compared, in fewer of them"
        return [Note((some, text + fewer))]


def on_this_machine(model: KernelMultiviewNMF) -> KernelMultiviewNMF:
    """The estimator without a cluster, whose workers have no part in many small fits."""
    estimator = clone(model)
    return estimator.set_params(backend="threads") if estimator.backend == "dask" else estimator  # type: ignore[no-any-return]
