"""The report of a run: one HTML file."""

from viewloom.study.report import *  # noqa: F403
from viewloom.study.report import __all__ as __all__
