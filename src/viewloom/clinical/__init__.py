"""Clinical description of clusters: tests of association, profiles, and time to conversion.

Clusters are compared on variables that were not used for clustering. Tables never show counts of people
below a minimum; see `suppressed`.
"""

from __future__ import annotations

from viewloom.clinical.association import associations, pairwise, site_warning
from viewloom.clinical.findings import cramers_v, holm, p_text
from viewloom.clinical.longitudinal import Slopes, first_conversion, slopes, transitions
from viewloom.clinical.profiles import described, profile
from viewloom.clinical.shown import Hidden, Known, Shown
from viewloom.clinical.suppression import MIN_CELL, hidden, shown_counts, suppressed
from viewloom.clinical.survival import Conversion, conversion, logrank, round_times
from viewloom.clinical.variables import as_categories, as_numbers

__all__ = [
    "MIN_CELL",
    "Conversion",
    "Hidden",
    "Known",
    "Shown",
    "Slopes",
    "as_categories",
    "as_numbers",
    "associations",
    "conversion",
    "cramers_v",
    "described",
    "first_conversion",
    "hidden",
    "holm",
    "logrank",
    "p_text",
    "pairwise",
    "profile",
    "round_times",
    "shown_counts",
    "site_warning",
    "slopes",
    "suppressed",
    "transitions",
]
