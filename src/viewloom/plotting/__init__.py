"""Figures: one function each, ``f(result, ax=None) -> ax``.

Every function draws on the given axes, or on a new figure with the width of a journal column; the title
states the main finding. Categories use the colours of Okabe and Ito, heat maps perceptually uniform colour
maps. Names from files are drawn literally, never as formulas. If you pass your own axes, create the figure
with ``layout="constrained"``, which leaves room for long names.
"""

from viewloom.runtime.errors import MissingPackageError

try:
    import matplotlib  # noqa: F401
except ImportError as error:
    raise MissingPackageError("Figures need matplotlib: pip install viewloom[plot]") from error

from viewloom.plotting.agreement import method_agreement, solutions
from viewloom.plotting.brain import brain_key, brain_map
from viewloom.plotting.features import (
    cluster_profiles,
    explained_shares,
    feature_importance,
    feature_importances,
)
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
    "brain_key",
    "brain_map",
    "cluster_profiles",
    "comparison",
    "consensus_matrix",
    "explained_shares",
    "feature_importance",
    "feature_importances",
    "memberships",
    "method_agreement",
    "objective",
    "solutions",
    "stability",
    "view_agreement",
    "view_contributions",
    "view_weights",
    "weights_over_gamma",
]
