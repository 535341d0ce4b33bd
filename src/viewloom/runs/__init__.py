"""From a study to results: analyse it, write the run folder, place new subjects."""

from __future__ import annotations

from viewloom.runs.analysis import analyse, prepare
from viewloom.runs.folder import rewrite_report, run_study, write
from viewloom.runs.prediction import predict, write_predictions
from viewloom.runs.results import Results, Roles
from viewloom.runs.search import search

__all__ = [
    "Results",
    "Roles",
    "analyse",
    "predict",
    "prepare",
    "rewrite_report",
    "run_study",
    "search",
    "write",
    "write_predictions",
]
