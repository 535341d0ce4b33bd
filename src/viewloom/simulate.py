"""Simulated cohorts and toy data with known clusters."""

from viewloom.data.simulated import Cohort, Truth, adni_like, blobs_views, feature_notes, rings, three_kinds

__all__ = ["Cohort", "Truth", "adni_like", "blobs_views", "feature_notes", "rings", "three_kinds"]
