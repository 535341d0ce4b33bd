"""Figures of clinical variables."""

from viewloom.plotting.clinical import *  # noqa: F403
from viewloom.plotting.clinical import __all__ as __all__
