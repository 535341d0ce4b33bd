"""Simulated cohorts and toys with known truth."""

from viewloom.data.simulated import *  # noqa: F403
from viewloom.data.simulated import __all__ as __all__
