"""Studies: from data files and a study.toml to views, participants and a report."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from viewloom.runtime.errors import MissingPackageError

try:
    import pydantic  # noqa: F401
except ImportError as error:
    raise MissingPackageError("Studies need pydantic: pip install viewloom[study]") from error
from viewloom.study.check import check
from viewloom.study.cohort import load
from viewloom.study.config.toml import Study, read_study
from viewloom.study.errors import StudyError

__all__ = ["Study", "StudyError", "check", "load", "read_study", "write_cohorts", "write_example"]


def __getattr__(name: str) -> Any:
    """Import the functions that write examples on first use: only they need the simulated cohort."""
    if name in ("write_cohorts", "write_example"):
        return getattr(import_module("viewloom.study.example"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
