"""The stages that test features and variables by clusters assigned without their view."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from sklearn.base import clone

from viewloom.clinical.held_out import (
    LeftOut,
    combined_splits,
    split_once,
    used_variables,
    variable_left_out,
    without_view,
)
from viewloom.clinical.variables import Variable
from viewloom.data.views import Views
from viewloom.evaluation.selection.jobs import Record
from viewloom.models.kernel_nmf import KernelMultiviewNMF
from viewloom.study.held_out import COMMON, ONE_VIEW, HeldOutTests
from viewloom.study.results import Roles
from viewloom.study.run.computations import Stages
from viewloom.study.run.sampled import Assessed

Used = dict[str, tuple[Variable, list[str]]]


def held_out_tests(
    assessed: Assessed,
    people: pd.DataFrame | None,
    roles: Roles,
    splits: int,
    severity: str | None,
    stages: Stages,
) -> HeldOutTests:
    """Test features, and variables that were used for clustering, by clusters assigned without their view.

    Parameters
    ----------
    assessed : Assessed
    people : DataFrame or None
        All participants of the study.
    roles : Roles
    splits : int
        Random halves for `clinical.split_tests`; 0 for none.
    severity : str or None
        What was removed from the views.
    stages : Stages
    """
    model, views = assessed.estimator, assessed.views
    reason = ONE_VIEW if views.n_views < 2 else COMMON if str(severity).startswith("common") else ""
    if reason:
        return HeldOutTests(reason=reason)
    used = _used(None if people is None else people.iloc[assessed.rows], views, roles)
    units = {f"view {name}": (model, assessed.labels, views, name) for name in views.names}
    found = stages.run("Leaving out views", leave_view_out, units)
    ps = stages.run(
        "Leaving out variables",
        leave_variable_out,
        {name: (clone(model), views, *given) for name, given in used.items()},
    )
    return HeldOutTests(
        {name: _framed(found[f"view {name}"]) for name in views.names},
        {name: float(record["p"]) for name, record in ps.items()},
        _splits(model, views, used, splits, stages) if splits else None,
        splits,
    )


def _used(people: pd.DataFrame | None, views: Views, roles: Roles) -> Used:
    """Clinical variables that were used for clustering."""
    names = roles.clinical
    if people is None or not names:
        return {}
    codes = [name for name in (roles.diagnosis, roles.site) if name is not None]
    return used_variables(people[names], views, codes)


def leave_view_out(model: KernelMultiviewNMF, labels: np.ndarray, views: Views, view: str) -> Record:
    """Features of a view between clusters of the others, as a record."""
    found = without_view(model, labels, views, view)
    return {
        "p": found.p.tolist(),
        "effect": found.effect.tolist(),
        "agreement": found.agreement,
        "subjects": found.subjects,
    }


def _framed(record: Record) -> LeftOut:
    p, effect = (np.array(record[name], dtype=float) for name in ("p", "effect"))
    return LeftOut(p, effect, float(record["agreement"]), int(record["subjects"]))


def leave_variable_out(
    model: KernelMultiviewNMF, views: Views, variable: Variable, left: Sequence[str]
) -> Record:
    """A variable between clusters of the views that do not have it."""
    return {"p": variable_left_out(model, views, variable, left)}


def _splits(model: KernelMultiviewNMF, views: Views, used: Used, splits: int, stages: Stages) -> pd.DataFrame:
    seed = model.random_state if isinstance(model.random_state, int) else 0
    units = {f"split {i}": (clone(model), views, seed + i, used) for i in range(splits)}
    return combined_splits(list(stages.run("Testing other halves", split_once, units).values()), views)
