"""Tests of what was clustered, by clusters that are assigned without the view in question."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from viewloom.clinical.held_out import LeftOut, adjusted

Array = np.ndarray
ALPHA = 0.05
ONE_VIEW = (
    "there is only one view: no other view can assign the subjects to clusters, so that nothing valid is left"
)
COMMON = "common components were removed from all views together, which makes the views depend on each other"


@dataclass(frozen=True, eq=False)
class HeldOutTests:
    """Valid tests of what was clustered.

    Attributes
    ----------
    views : dict of str to LeftOut
        Features of each view between clusters of the other views.
    variables : dict of str to float
        P-value of each variable that was used for clustering, between clusters of the views that do not have
        it; NaN if all views have it.
    splits : DataFrame or None
        Of `clinical.split_tests`, if splits were asked for.
    n_splits : int
    reason : str
        Why there are no tests; empty if there are.
    """

    views: dict[str, LeftOut] = field(default_factory=dict)
    variables: dict[str, float] = field(default_factory=dict)
    splits: pd.DataFrame | None = None
    n_splits: int = 0
    reason: str = ""

    @property
    def q(self) -> dict[str, Array]:
        """Benjamini-Hochberg q-values of the features of each view, within the view."""
        return {name: adjusted(found.p) for name, found in self.views.items()}
