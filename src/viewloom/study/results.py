"""The results of the analysis of a study: data and fitted objects, independent of files."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from platform import python_version
from typing import Any

import numpy as np
import pandas as pd

from viewloom.data.views import Views
from viewloom.evaluation.comparison import Comparison
from viewloom.evaluation.selection import ClusterEvidence, ClusterNumber
from viewloom.evaluation.selection.stability import Stability
from viewloom.evaluation.solutions import Solutions
from viewloom.evaluation.uncertainty import Uncertainty
from viewloom.metrics import clustering_report
from viewloom.models.kernel_nmf import KernelMultiviewNMF
from viewloom.study.check import Check
from viewloom.study.cluster_names import default_names
from viewloom.study.config.toml import Study
from viewloom.study.design import Design
from viewloom.study.followup import Followup
from viewloom.study.held_out import HeldOutTests
from viewloom.study.left_out import LeftOutSites
from viewloom.study.notes import Note
from viewloom.study.preparation.fitted import Preparation

PACKAGES = ("viewloom", "numpy", "scipy", "scikit-learn", "pandas")


@dataclass(frozen=True)
class Roles:
    """The roles of columns of the participants."""

    diagnosis: str | None = None
    site: str | None = None
    covariates: list[str] = field(default_factory=list)
    outcomes: list[str] = field(default_factory=list)
    survival: tuple[str, str] | None = None  # time, event

    @classmethod
    def of(cls, study: Study) -> Roles:
        """The roles that a study sets."""
        people = study.participants
        if people is None:
            return cls()
        times = people.survival
        return cls(
            people.diagnosis,
            people.site,
            list(people.covariates),
            list(people.outcomes),
            None if times is None else times.columns,
        )

    @property
    def clinical(self) -> list[str]:
        """Columns that are compared between clusters."""
        names = [self.diagnosis, *self.outcomes, *self.covariates, self.site]
        return list(dict.fromkeys(name for name in names if name is not None))


@dataclass(frozen=True, eq=False)
class Results:
    """The results of a study, from which its report is made.

    Attributes
    ----------
    name : str
        Title of the study.
    model : KernelMultiviewNMF
        Fitted.
    views : Views
        The prepared views that the model was fitted to, without NaN in observed rows.
    preparation : Preparation
        The fitted preparation of the views.
    participants : DataFrame or None
        Indexed by ``views.ids``, in the same order.
    roles : Roles
        The roles of its columns.
    importance : dict of str to DataFrame
        Features of each view by importance; ``attrs["method"]`` is the method.
    stability : Stability
        Stability of clusters and subjects, from refits on subsamples.
    comparison : Comparison or None
        Comparison with other methods by agreement with the diagnosis.
    numbers : ClusterNumber or None
        The estimated number of clusters.
    check : Check
        The result of `viewloom.study.check`.
    notes : list of Note
        Notes on the data and the fit; counts only.
    settings : dict
        The settings of study.toml, with all defaults.
    versions, inputs : dict of str to str
        Versions of packages, and the SHA-256 of each input file.
    seed, min_cell : int
    design : Design or None
        Who was clustered, where controls fall, and how much of the clustering is severity.
    followup : Followup or None
        Later visits, placed by the model.
    left_out_sites : LeftOutSites or None
        Clusters of each site by a model of the others, if the study asks for it.
    tests : HeldOutTests or None
        Features, and variables that were used for clustering, tested by clusters assigned without their view.
    evidence : ClusterEvidence or None
        The clusters beside those of data without clusters.
    uncertainty : Uncertainty or None
        Intervals of view weights, certainty of clusters and importance of features.
    feature_tests : dict of str to DataFrame
        Of `viewloom.inspection.importance_test`, by view; empty for a single view.
    solutions : Solutions or None
        Clusters by other settings, with the comparison.
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
    design: Design | None = None
    followup: Followup | None = None
    left_out_sites: LeftOutSites | None = None
    tests: HeldOutTests | None = None
    evidence: ClusterEvidence | None = None
    uncertainty: Uncertainty | None = None
    feature_tests: dict[str, pd.DataFrame] = field(default_factory=dict)
    solutions: Solutions | None = None

    @property
    def sizes(self) -> list[int]:
        """Number of subjects in each cluster."""
        return np.bincount(self.model.labels_, minlength=self.model.n_clusters).tolist()

    @property
    def cluster_names(self) -> list[str]:
        """Names of the clusters for people: those that the study gives, else numbers from 1."""
        given = list(self.settings.get("cluster", {}).get("names", []))
        return given or default_names(self.model.n_clusters)

    @property
    def agreement(self) -> dict[str, float] | None:
        """Agreement of clusters and known diagnoses; None without two diagnoses."""
        column, people = self.roles.diagnosis, self.participants
        if column is None or people is None:
            return None
        known = people[column].notna().to_numpy()
        y = people[column][known].astype(str).to_numpy()
        return clustering_report(y, self.model.labels_[known]) if len(set(y)) > 1 else None

    @property
    def cluster_stability(self) -> pd.Series:
        """Stability of every cluster; NaN where unknown, such as for a cluster without subjects."""
        return self.stability.clusters.reindex(range(self.model.n_clusters))


def versions() -> dict[str, str]:
    """Versions of Python and of the packages that compute the results, as far as they are installed."""
    found = {"python": python_version(), **{name: version(name) for name in PACKAGES}}
    with suppress(PackageNotFoundError):
        found["statsmodels"] = version("statsmodels")
    return found
