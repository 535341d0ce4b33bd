"""Inspection of fitted models: contributions of views, importance of features, stability of weights."""

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
