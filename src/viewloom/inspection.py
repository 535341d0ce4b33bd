"""Inspection of fitted models: contributions of views, importance of features, stability of weights."""

from viewloom.evaluation.inspection import *  # noqa: F403
from viewloom.evaluation.inspection import __all__ as __all__
