"""The stage of an analysis that varies settings."""

from __future__ import annotations

from viewloom.data.views import Views
from viewloom.evaluation.solutions import Solutions, collected, solution, variations
from viewloom.models.kernel_nmf import KernelMultiviewNMF
from viewloom.study.run.computations import Stages


def varied_settings(model: KernelMultiviewNMF, views: Views, stages: Stages) -> Solutions:
    """Fits with settings that differ in one choice each, compared with those of the study."""
    found = variations(model)
    units = {f"{choice} {value}": (model, views, setting) for choice, value, setting in found}
    records = stages.run("Varying settings", solution, units)
    return collected(found, list(records.values()))
