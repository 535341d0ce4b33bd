"""viewloom weaves many views of the same subjects into one clustering, and learns how much each view counts."""

from viewloom import kernels, metrics
from viewloom.estimators import KernelMultiviewNMF
from viewloom.metrics import clustering_report
from viewloom.views import PerView, Views

__version__ = "0.1.0"
__all__ = [
    "KernelMultiviewNMF",
    "PerView",
    "Views",
    "clustering_report",
    "kernels",
    "metrics",
]
