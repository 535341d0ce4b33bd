"""Public cohorts included in PyPI packages; nothing is downloaded."""

from viewloom.data.public import *  # noqa: F403
from viewloom.data.public import __all__ as __all__
