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

__all__ = ["Study", "StudyError", "check", "load", "read_study", "write_example"]


def __getattr__(name: str) -> Any:
    """Import `write_example` on first use: only it needs the simulated cohort."""
    if name == "write_example":
        return import_module("viewloom.study.example").write_example
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
