"""Sites that are left out in turn: which, and what is found in each."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from viewloom.clinical.variables import as_categories
from viewloom.study.config.schema import Study
from viewloom.study.errors import StudyError
from viewloom.study.notes import Count, Note, count_note
from viewloom.study.wording import counted

Array = np.ndarray
LEAST = 10  # subjects of a site that is left out
LEAST_PER_CLUSTER = 10  # subjects per cluster of a site that is also clustered on its own


@dataclass(frozen=True, eq=False)
class LeftOutSites:
    """Clusters of each site, by a model of the other sites and by a model of its own.

    Attributes
    ----------
    sites : list of str
        Sites with enough subjects.
    sizes : (s,) array of int
        Subjects of each.
    agreement : (s,) array
        Adjusted Rand index of the clusters that the model of the other sites predicts, and those of the model
        of all sites.
    counts : (s, k) array of int
        Predicted clusters; their numbers are those of the model of all sites.
    refit : (s,) array
        Adjusted Rand index of predicted clusters and those of a model of the site alone; NaN for sites with
        too few subjects.
    overlap : (s, k) array
        Jaccard similarity of each predicted cluster and the matching one of the model of the site alone.
    small_sites, small_subjects, unknown : int
        Sites that are skipped since they have few subjects, their subjects, and subjects without a site.
    """

    sites: list[str]
    sizes: Array
    agreement: Array
    counts: Array
    refit: Array
    overlap: Array
    small_sites: int = 0
    small_subjects: int = 0
    unknown: int = 0

    @property
    def notes(self) -> list[Note]:
        """What was skipped."""
        sites, subjects = Count(self.small_sites, "site", public=True), Count(self.small_subjects, "subject")
        skipped = Note((sites, " with few subjects (", subjects, ") not left out in turn"))
        unknown = count_note(self.unknown, "subject", text="without a site in the models of all sites")
        return [*([skipped] if self.small_sites else []), *unknown]


def site_labels(study: Study, participants: pd.DataFrame | None) -> Array:
    """The site of each subject, None where it is unknown."""
    column = None if study.participants is None else study.participants.site
    if column is None or participants is None:
        raise StudyError("study.toml: leave = 'site' needs the column of the site, site of [participants].")
    return np.array(as_categories(participants[column]), dtype=object)


def sites_to_leave(labels: Array, min_cell: int) -> list[str]:
    """Sites with enough subjects to be left out, in order."""
    counts = pd.Series(labels).value_counts()
    least = max(LEAST, min_cell)
    return sorted(str(site) for site in counts.index[counts >= least])


def check_sites(study: Study, participants: pd.DataFrame | None) -> None:
    """Refuse a study that asks to leave out sites, and has none that can be left out."""
    if study.cluster.leave != "site":
        return
    labels = site_labels(study, participants)
    known = {label for label in labels if label is not None}
    if len(known) < 2:
        raise StudyError(
            f"study.toml: leave = 'site' needs at least two sites, and there are {len(known)}; leave it out."
        )
    if not sites_to_leave(labels, study.report.min_cell):
        least = max(LEAST, study.report.min_cell)
        raise StudyError(
            f"study.toml: leave = 'site' needs a site with at least {least} subjects, and none of "
            f"{counted(len(known), 'site')} has as many; leave it out."
        )
