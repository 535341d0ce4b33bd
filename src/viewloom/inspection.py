"""What a fitted model says: which view speaks for which sample, which features matter, how weights vary."""

from viewloom.evaluation.inspection import (
    ViewContributions,
    annotate,
    cluster_profiles,
    importance_against_truth,
    view_contributions,
    weights_over_gamma,
    weights_over_seeds,
)

__all__ = [
    "ViewContributions",
    "annotate",
    "cluster_profiles",
    "importance_against_truth",
    "view_contributions",
    "weights_over_gamma",
    "weights_over_seeds",
]
