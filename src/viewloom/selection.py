"""Choosing parameters and the number of clusters without labels."""

from viewloom.evaluation.selection import *  # noqa: F403
from viewloom.evaluation.selection import __all__ as __all__
