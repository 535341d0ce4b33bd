"""Simulated cohorts and toy data with known clusters."""

from viewloom.data.simulated import *  # noqa: F403
from viewloom.data.simulated import __all__ as __all__
