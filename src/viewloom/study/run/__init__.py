"""Run a study: analyse it, write the run folder, predict new subjects."""

from __future__ import annotations

from viewloom.study.results import Results, Roles
from viewloom.study.run.analysis import analyse, prepare
from viewloom.study.run.paper_figures import write_figures
from viewloom.study.run.prediction import predict, write_predictions
from viewloom.study.run.renaming import rename
from viewloom.study.run.replication import replicate_study
from viewloom.study.run.run_folder import earlier_run, rewrite_report, run_study, write
from viewloom.study.run.search import search

__all__ = [
    "Results",
    "Roles",
    "analyse",
    "earlier_run",
    "predict",
    "prepare",
    "rename",
    "replicate_study",
    "rewrite_report",
    "run_study",
    "search",
    "write",
    "write_figures",
    "write_predictions",
]
