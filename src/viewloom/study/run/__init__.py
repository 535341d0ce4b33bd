"""Run a study: analyse it, write the run folder, predict new subjects."""

from __future__ import annotations

from viewloom.study.results import Results, Roles
from viewloom.study.run.analysis import analyse, prepare
from viewloom.study.run.prediction import predict, write_predictions
from viewloom.study.run.replication import replicate_study
from viewloom.study.run.run_folder import rewrite_report, run_study, write
from viewloom.study.run.search import search

__all__ = [
    "Results",
    "Roles",
    "analyse",
    "predict",
    "prepare",
    "replicate_study",
    "rewrite_report",
    "run_study",
    "search",
    "write",
    "write_predictions",
]
