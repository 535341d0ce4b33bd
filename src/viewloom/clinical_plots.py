"""Figures of clinical variables."""

from viewloom.plotting.clinical import association_bars, survival_curves

__all__ = ["association_bars", "survival_curves"]
