"""Choosing parameters and the number of clusters without labels.

`select` searches a grid of parameters, `choose_k` looks for the number of clusters. Both judge by what a
model says of samples it has not seen and by whether models of different samples agree; neither looks at
labels.
"""

from viewloom.evaluation.selection.evidence import ClusterEvidence, cluster_evidence
from viewloom.evaluation.selection.number import ClusterNumber, choose_k
from viewloom.evaluation.selection.search import Selection, select
from viewloom.evaluation.selection.stability import (
    consensus_matrix,
    pac,
    pairwise_ari,
    prediction_strength,
)
from viewloom.evaluation.twins import draw_twin

__all__ = [
    "ClusterEvidence",
    "ClusterNumber",
    "Selection",
    "choose_k",
    "cluster_evidence",
    "consensus_matrix",
    "draw_twin",
    "pac",
    "pairwise_ari",
    "prediction_strength",
    "select",
]
