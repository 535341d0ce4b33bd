"""Clinical description of clusters: tests of association, profiles, and time to conversion.

Clusters are compared on variables that were not used for clustering; `used_for_clustering` finds those that
were, and `view_left_out`, `split_tests` and `thinning_tests` are valid for features. Tables never show counts
of people below a minimum; see `suppressed`.
"""

from __future__ import annotations

from viewloom.clinical.adjusted import AdjustedEffects, adjusted_effects
from viewloom.clinical.association import associations, pairwise, site_warning
from viewloom.clinical.combining import cauchy_combination
from viewloom.clinical.explanations import explanation_sentences, explanations
from viewloom.clinical.findings import cramers_v, holm, p_text
from viewloom.clinical.hazards import Hazards, hazards
from viewloom.clinical.held_out import LeftOut, split_tests, view_left_out
from viewloom.clinical.intervals import cliffs_delta_interval, cramers_v_interval, epsilon_squared_interval
from viewloom.clinical.longitudinal import Slopes, first_conversion, slopes, transitions
from viewloom.clinical.profiles import described, profile
from viewloom.clinical.shown import Hidden, Known, Shown
from viewloom.clinical.suppression import MIN_CELL, hidden, shown_counts, suppressed
from viewloom.clinical.survival import Conversion, conversion, logrank, on_grid, round_times
from viewloom.clinical.thinning import thinned, thinning_tests
from viewloom.clinical.used import used_for_clustering
from viewloom.clinical.variables import as_categories, as_numbers

__all__ = [
    "MIN_CELL",
    "AdjustedEffects",
    "Conversion",
    "Hazards",
    "Hidden",
    "Known",
    "LeftOut",
    "Shown",
    "Slopes",
    "adjusted_effects",
    "as_categories",
    "as_numbers",
    "associations",
    "cauchy_combination",
    "cliffs_delta_interval",
    "conversion",
    "cramers_v",
    "cramers_v_interval",
    "described",
    "epsilon_squared_interval",
    "explanation_sentences",
    "explanations",
    "first_conversion",
    "hazards",
    "hidden",
    "holm",
    "logrank",
    "on_grid",
    "p_text",
    "pairwise",
    "profile",
    "round_times",
    "shown_counts",
    "site_warning",
    "slopes",
    "split_tests",
    "suppressed",
    "thinned",
    "thinning_tests",
    "transitions",
    "used_for_clustering",
    "view_left_out",
]
