"""viewloom weaves many views of the same subjects into one clustering and learns their weights."""

from viewloom import datasets, inspection, kernels, metrics, simulate
from viewloom.baselines import ConcatenatedNMF, GraphNMF, MultiviewNMF
from viewloom.comparison import compare
from viewloom.estimators import KernelMultiviewNMF
from viewloom.metrics import clustering_report
from viewloom.persistence import load
from viewloom.selection import choose_k, select
from viewloom.views import PerView, Views

__version__ = "0.1.0"
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
