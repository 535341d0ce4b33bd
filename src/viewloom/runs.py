"""Runs of studies: analyse, write the run folder, predict new subjects."""

from viewloom.study.results import Results, Roles
from viewloom.study.run import (
    analyse,
    predict,
    prepare,
    rewrite_report,
    run_study,
    search,
    write,
    write_predictions,
)

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
