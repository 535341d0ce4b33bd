"""What the analysis of a study found: plain data and fitted objects, nothing of files."""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib.metadata import version
from platform import python_version
from typing import Any

import numpy as np
import pandas as pd

from viewloom.data.views import Views
from viewloom.evaluation.comparison import Comparison
from viewloom.evaluation.selection import ClusterNumber
from viewloom.evaluation.selection.stability import Stability
from viewloom.models.kernel_nmf import KernelMultiviewNMF
from viewloom.study.check import Check
from viewloom.study.config.toml import Study
from viewloom.study.notes import Note
from viewloom.study.preparation.fitted import Preparation

PACKAGES = ("viewloom", "numpy", "scipy", "scikit-learn", "pandas")


@dataclass(frozen=True)
class Roles:
    """What columns of the participants table are."""

    diagnosis: str | None = None
    site: str | None = None
    covariates: list[str] = field(default_factory=list)
    outcomes: list[str] = field(default_factory=list)
    survival: tuple[str, str] | None = None  # time, event

    @classmethod
    def of(cls, study: Study) -> Roles:
        """The roles that a study gives them."""
        people = study.participants
        if people is None:
            return cls()
        times = people.survival
        return cls(
            people.diagnosis,
            people.site,
            list(people.covariates),
            list(people.outcomes),
            None if times is None else (times.time, times.event),
        )


@dataclass(frozen=True, eq=False)
class Results:
    """Everything that a report may tell of a study.

    Attributes
    ----------
    name : str
        Title of the study.
    model : KernelMultiviewNMF
        Fitted.
    views : Views
        As they were fitted: prepared, no NaN in observed rows.
    preparation : Preparation
        How they were prepared.
    participants : DataFrame or None
        Indexed by ``views.ids``, in the same order.
    roles : Roles
        Which of its columns is what.
    importance : dict of str to DataFrame
        Features of each view by importance; ``attrs["method"]`` says how it was found.
    stability : Stability
        Of clusters and subjects, from refits on subsamples.
    comparison : Comparison or None
        With other methods, scored against the diagnosis.
    numbers : ClusterNumber or None
        How many clusters there seem to be.
    check : Check
        Who has what.
    notes : list of Note
        What is worth knowing; counts only.
    settings : dict
        As in study.toml, with all defaults.
    versions, inputs : dict of str to str
        Of packages; SHA-256 of each input file.
    seed, min_cell : int
    """

    name: str
    model: KernelMultiviewNMF
    views: Views
    preparation: Preparation
    participants: pd.DataFrame | None
    roles: Roles
    importance: dict[str, pd.DataFrame]
    stability: Stability
    comparison: Comparison | None
    numbers: ClusterNumber | None
    check: Check
    notes: list[Note]
    settings: dict[str, Any]
    versions: dict[str, str]
    seed: int
    inputs: dict[str, str]
    min_cell: int

    @property
    def sizes(self) -> list[int]:
        """Number of subjects in each cluster."""
        return np.bincount(self.model.labels_, minlength=self.model.n_clusters).tolist()

    @property
    def cluster_stability(self) -> pd.Series:
        """Stability of every cluster; NaN where it is not known, as that of a cluster without subjects."""
        return self.stability.clusters.reindex(range(self.model.n_clusters))


def versions() -> dict[str, str]:
    """Versions of what computes the results."""
    return {"python": python_version(), **{name: version(name) for name in PACKAGES}}
