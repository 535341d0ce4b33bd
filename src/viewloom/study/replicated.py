"""The results of the replication of a run in a second study, independent of files."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from viewloom.evaluation.replication import Replication
from viewloom.study.notes import Note


@dataclass(frozen=True, eq=False)
class StudyReplication:
    """A run beside a second study.

    Attributes
    ----------
    first, second : str
        Titles of the studies.
    found : Replication
        Its ``labels`` are indexed by the ids of the second study.
    cluster_names : list of str
        Names of the clusters of the first study.
    clinical : DataFrame
        Clinical associations of both cohorts; see `clinical_numbers.confirmed`.
    deviations : tuple of dict
        Deviations of clusters by variable and value in the first and the second cohort.
    knows_first : bool
        Whether the run stores its clinical associations.
    min_cell, seed : int
    notes : list of Note
        On the data of the second study.
    versions, inputs : dict of str to str
    """

    first: str
    second: str
    found: Replication
    cluster_names: list[str]
    clinical: pd.DataFrame
    deviations: tuple[dict[str, Any], dict[str, Any]]
    knows_first: bool
    min_cell: int
    seed: int
    notes: list[Note] = field(default_factory=list)
    versions: dict[str, str] = field(default_factory=dict)
    inputs: dict[str, str] = field(default_factory=dict)
