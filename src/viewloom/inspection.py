"""What a fitted model says: which view speaks for which sample, which features matter, how weights vary."""

from viewloom.evaluation.inspection import *  # noqa: F403
from viewloom.evaluation.inspection import __all__ as __all__
