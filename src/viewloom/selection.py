"""Choosing parameters and the number of clusters without labels."""

from viewloom.evaluation.selection import (
    ClusterNumber,
    Selection,
    choose_k,
    consensus_matrix,
    pac,
    pairwise_ari,
    prediction_strength,
    select,
)

__all__ = [
    "ClusterNumber",
    "Selection",
    "choose_k",
    "consensus_matrix",
    "pac",
    "pairwise_ari",
    "prediction_strength",
    "select",
]
