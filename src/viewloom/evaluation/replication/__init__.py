"""Replication of clusters in a second cohort."""

from viewloom.evaluation.replication.assessment import Replication, replicate

__all__ = ["Replication", "replicate"]
