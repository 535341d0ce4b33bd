"""viewloom weaves many views of the same subjects into one clustering and learns their weights."""

from importlib import import_module as _import_module
from typing import Any as _Any

from viewloom import datasets, inspection, kernels, metrics, simulate
from viewloom.baselines import ConcatenatedNMF, GraphNMF, MultiviewNMF
from viewloom.comparison import compare
from viewloom.estimators import KernelMultiviewNMF
from viewloom.metrics import clustering_report
from viewloom.persistence import load
from viewloom.selection import choose_k, select
from viewloom.views import PerView, Views

__version__ = "0.2.0"
__all__ = [
    "ConcatenatedNMF",
    "GraphNMF",
    "KernelMultiviewNMF",
    "MultiviewNMF",
    "PerView",
    "Views",
    "choose_k",
    "clustering_report",
    "compare",
    "datasets",
    "inspection",
    "kernels",
    "load",
    "metrics",
    "select",
    "simulate",
]
_LATER = ("clinical", "clinical_plots", "plotting", "report", "runs", "study")  # few need them at once


def __getattr__(name: str) -> _Any:
    """Import a room when it is first asked for."""
    if name in _LATER:
        return _import_module(f"viewloom.{name}")
    raise AttributeError(f"module 'viewloom' has no attribute {name!r}")


def __dir__() -> list[str]:
    private = [name for name in globals() if name.startswith("_")]
    return sorted({*__all__, *_LATER, *private})
