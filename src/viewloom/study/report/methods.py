"""What was done in a run, as plain data that may be shared: the publication kit writes its text from it.

Settings say what was asked for, the fitted preparation what was done: a step is listed if a view has it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from viewloom.data.checks import per_view
from viewloom.models.scaling import Centred, Standard, UnitRows
from viewloom.study.report.design import who
from viewloom.study.report.findings import Findings
from viewloom.study.report.presence import view_sizes
from viewloom.study.report.privacy import plain

if TYPE_CHECKING:
    from viewloom.study.preparation.fitted import Preparation
    from viewloom.study.preparation.steps import Step
    from viewloom.study.results import Results


def methods(results: Results, found: Findings, testing: Mapping[str, Any]) -> dict[str, Any]:
    """What was done: subjects, views, preparation, model, stability, tests.

    Parameters
    ----------
    results : Results
    found : Findings
    testing : dict
        Of `testing_section`: models are listed if their table is shown.

    Returns
    -------
    dict
        Serialisable as JSON, without small counts of subjects.
    """
    model = results.model
    return {
        "subjects": len(results.views),
        "who": list(who(results)),
        "views": _views(results),
        "preparation": _preparation(results.preparation),
        "clusters": int(model.n_clusters),
        "candidates": None if results.numbers is None else [int(k) for k in results.numbers.table["k"]],
        "recommended": None if results.numbers is None else _number(results.numbers.recommended),
        "seed": int(results.seed),
        "starts": int(model.n_init),
        "iterations": int(model.n_iter_),
        "converged": bool(model.converged_),
        "lam": _setting(model.lam),
        "theta": _setting(model.theta),
        "gamma": float(model.gamma),
        "stability": _stability(results),
        "twins": _twins(results),
        "tests": {**_tests(results, found), **_models(results, testing), "held_out": _held_out(results)},
        "comparison": _comparison(results),
        "left_out_sites": None if results.left_out_sites is None else len(results.left_out_sites.sites),
        "min_cell": int(results.min_cell),
    }


def _views(results: Results) -> list[dict[str, Any]]:
    """Name, format, size, kernel and importance of each view."""
    model, views = results.model, results.views
    kernels = per_view(model.kernel, views.names, "kernel")
    settings = results.settings.get("views", {})
    scalers = [view.scaler for view in model.fitted_model_.problem.views]
    return [
        {
            "name": plain(name),
            "format": str(settings.get(name, {}).get("format", "table")),
            "transform": str(settings.get(name, {}).get("transform", "none")),
            "subjects": str(size),
            "features": int(features),
            "kernel": plain(kernel),
            "scale": _scale(scaler),
            "importance": str(results.importance[name].attrs.get("method", "")),
        }
        for name, size, features, kernel, scaler in zip(
            views.names, view_sizes(results), views.n_features, kernels, scalers, strict=True
        )
    ]


def _scale(scaler: Any) -> str:
    """How the model scales a view: "standard", "centre", "unit", "root" or "none"."""
    if isinstance(scaler, UnitRows):
        return "root" if scaler.root else "unit"
    if isinstance(scaler, Standard):
        return "standard"
    return "centre" if isinstance(scaler, Centred) else "none"


def _preparation(fitted: Preparation) -> dict[str, Any]:
    """The steps that changed views, and the settings of these steps."""
    plan = fitted.plan
    used = [
        (kind, plain(view.name), step)
        for view in fitted.views
        for kind, step in zip(view.kinds, view.steps, strict=True)
        if CHANGES.get(kind, _never)(step)
    ]
    sites = [len(step.arrays()["shift"]) for kind, _, step in used if kind == "combat"]
    return {
        "steps": {kind: [name for other, name, _ in used if other == kind] for kind, _, _ in used},
        "neighbours": int(plan.n_neighbors),
        "covariates": [plain(name) for name in plan.covariates],
        "splines": [plain(name) for name in plan.splines],
        "on_controls": bool(plan.on_controls),
        "controls": [plain(name) for name in plan.controls or ()],
        "sites": max(sites, default=0),
        "site": None if plan.site is None else plain(plan.site),
        "harmonise_on": plan.harmonise_on,
        "severity": [_severity(one) for one in fitted.severity],
    }


def _filled(step: Step) -> bool:
    """Whether cells were imputed."""
    return bool(step.notes)


def _harmonised(step: Step) -> bool:
    """Whether there were sites to harmonise."""
    return len(step.arrays()["shift"]) > 0


def _always(step: Step) -> bool:
    return True


def _never(step: Step) -> bool:
    return False


def _severity(fitted: Any) -> dict[str, Any]:
    return {"what": plain(fitted.column), "views": [plain(name) for name in fitted.views]}


def _stability(results: Results) -> dict[str, Any]:
    """Refits that succeeded, and their agreement."""
    return {
        "refits": int(results.stability.refits),
        "share": _rounded(results.stability.share),
        "agreement": _rounded(results.stability.overall),
    }


def _twins(results: Results) -> dict[str, Any] | None:
    """The number of twins that the clustering was compared with, and the verdict; None without them."""
    found = results.evidence
    return None if found is None else {"number": int(found.n_twins), "verdict": str(found.verdict)}


def _tests(results: Results, found: Findings) -> dict[str, Any]:
    """Names of the tests that were used, and how many variables were compared."""
    slopes = {} if results.followup is None else results.followup.slopes
    used = found.associations["note"] != ""
    return {
        "variables": int((~used).sum()),
        "used": int(used.sum()),
        "tests": sorted({str(test) for test in found.associations.loc[~used, "test"]}),
        "pairs": sorted({str(test) for test in found.pairs["test"]}),
        "survival": found.conversion is not None,
        "slopes": len(slopes),
        "visits": 0 if results.followup is None else results.followup.labels.shape[1] - 1,
    }


def _models(results: Results, testing: Mapping[str, Any]) -> dict[str, Any]:
    """Models whose table is shown: regressions adjusted for covariates, and Cox regression."""
    shown = {table["id"]: table for table in testing["tables"]}
    people = results.participants
    given = [plain(name) for name in results.roles.covariates if people is not None and name in people]
    return {
        "adjusted": sorted({row[1]["text"] for row in shown["adjusted"]["rows"]})
        if "adjusted" in shown
        else [],
        "covariates": given,
        "cox": "hazards" in shown,
    }


def _held_out(results: Results) -> dict[str, int] | None:
    """How many features and variables were tested by clusters of other views, and in how many splits."""
    tests = results.tests
    if tests is None or tests.reason:
        return None
    return {
        "features": sum(int(np.isfinite(one.p).sum()) for one in tests.views.values()),
        "variables": sum(bool(np.isfinite(p)) for p in tests.variables.values()),
        "splits": int(tests.n_splits),
    }


def _comparison(results: Results) -> dict[str, Any] | None:
    if results.comparison is None:
        return None
    runs = results.comparison.runs
    return {
        "methods": [plain(name) for name in dict.fromkeys(runs["method"])],
        "seeds": runs["seed"].nunique(),
    }


def _setting(value: Any) -> Any:
    """A number, or one for each view."""
    if isinstance(value, dict):
        return {plain(name): float(one) for name, one in value.items()}
    return [float(one) for one in value] if np.ndim(value) else float(value)


def _number(value: Any) -> int | None:
    return None if value is None else int(value)


def _rounded(value: float) -> float | None:
    return round(float(value), 2) if np.isfinite(value) else None


# whether a step changed the values of its view
CHANGES: dict[str, Callable[[Step], bool]] = {
    "median": _filled,
    "knn": _filled,
    "dosage": _filled,
    "combat": _harmonised,
    "residualise": _always,
    "w_scores": _always,
    "standardise": _always,
}
