"""Runs of studies: analyse, write the run folder, predict new subjects."""

from viewloom.study.run import *  # noqa: F403
from viewloom.study.run import __all__ as __all__
