"""Figures: ``f(result, ax=None) -> ax``, one function each.

Every function draws on the axes it is given, or on a new figure the width of a journal column, and says in
the title what there is to see. Categories have the colours of Okabe and Ito, heat maps perceptually uniform
ones. Names from files are drawn as they are, never as formulas. For axes of your own, make the figure with
``layout="constrained"``, which leaves room for long names.
"""

from viewloom.runtime.errors import MissingPackageError

try:
    import matplotlib  # noqa: F401
except ImportError as error:
    raise MissingPackageError("Figures need matplotlib: pip install viewloom[plot]") from error

from viewloom.plotting.features import cluster_profiles, feature_importance, feature_importances
from viewloom.plotting.model import (
    comparison,
    consensus_matrix,
    memberships,
    objective,
    stability,
    view_agreement,
    view_contributions,
    view_weights,
    weights_over_gamma,
)
from viewloom.plotting.style import OKABE_ITO

__all__ = [
    "OKABE_ITO",
    "cluster_profiles",
    "comparison",
    "consensus_matrix",
    "feature_importance",
    "feature_importances",
    "memberships",
    "objective",
    "stability",
    "view_agreement",
    "view_contributions",
    "view_weights",
    "weights_over_gamma",
]
