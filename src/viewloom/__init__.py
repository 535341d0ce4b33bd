"""Multi-view clustering by kernel matrix factorisation, with learned view weights."""

from importlib import import_module as _import_module
from importlib.util import find_spec as _find_spec
from typing import TYPE_CHECKING as _TYPE_CHECKING

if _TYPE_CHECKING:
    from viewloom import datasets, inspection, kernels, metrics, simulate
    from viewloom.data.per_view import PerView
    from viewloom.data.views import Views
    from viewloom.evaluation.comparison import compare
    from viewloom.evaluation.replication import replicate
    from viewloom.evaluation.selection import choose_k, select
    from viewloom.metrics import clustering_report
    from viewloom.models.baselines import ConcatenatedNMF, GraphNMF, MultiviewNMF
    from viewloom.models.kernel_nmf import KernelMultiviewNMF
    from viewloom.models.persistence import load
    from viewloom.runtime.errors import InputError, InputTypeError, OutputError, ViewloomError

__version__ = "0.3.0"
__all__ = [
    "ConcatenatedNMF",
    "GraphNMF",
    "InputError",
    "InputTypeError",
    "KernelMultiviewNMF",
    "MultiviewNMF",
    "OutputError",
    "PerView",
    "ViewloomError",
    "Views",
    "choose_k",
    "clustering_report",
    "compare",
    "datasets",
    "inspection",
    "kernels",
    "load",
    "metrics",
    "replicate",
    "select",
    "simulate",
]
_MODULES = ("clinical", "clinical_plots", "plotting", "report", "runs", "study")  # public, beside __all__
_HOMES = {
    "data.per_view": ("PerView",),
    "data.views": ("Views",),
    "evaluation.comparison": ("compare",),
    "evaluation.replication": ("replicate",),
    "evaluation.selection": ("choose_k", "select"),
    "metrics": ("clustering_report",),
    "models.baselines": ("ConcatenatedNMF", "GraphNMF", "MultiviewNMF"),
    "models.kernel_nmf": ("KernelMultiviewNMF",),
    "models.persistence": ("load",),
    "runtime.errors": ("InputError", "InputTypeError", "OutputError", "ViewloomError"),
}


def __getattr__(name: str) -> object:
    """Import public names on first access, so that the command line starts before numpy is imported."""
    home = next((home for home, names in _HOMES.items() if name in names), None)
    if home is not None:
        found: object = getattr(_import_module(f"viewloom.{home}"), name)
    elif not name.startswith("_") and _find_spec(f"viewloom.{name}") is not None:
        found = _import_module(f"viewloom.{name}")
    else:
        raise AttributeError(f"module 'viewloom' has no attribute {name!r}")
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted([*__all__, *_MODULES, *(name for name in globals() if name.startswith("__"))])
