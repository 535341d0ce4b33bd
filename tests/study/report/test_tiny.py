"""Reports on so few subjects that little or nothing may be shown."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from study.report.conftest import of_model

from viewloom import clinical
from viewloom.clinical_plots import survival_curves
from viewloom.evaluation.selection.stability import Stability
from viewloom.study.preparation.fitted import Preparation
from viewloom.study.report import figures, summarize, to_html
from viewloom.study.results import Roles

CASES = {  # subjects, and how many of them were followed up
    "20": (np.arange(50, 70), 20),
    "one diagnosis": (np.arange(40, 70), 12),
}
FOLLOW_UP = ("conversion_time", "conversion_event")
ROLES = Roles("diagnosis", "site", ["age", "sex"], ["mmse", "apoe"], FOLLOW_UP)


def tiny(results, rows, followed):
    """Two views of some subjects; `followed` of them have a known time."""
    views, people = results.views[rows].select(["fdg", "snp"]), results.participants.iloc[rows].copy()
    known = np.arange(len(rows)) < followed
    people["conversion_time"] = np.where(known, 1.0 + np.arange(len(rows)) / 7.0, np.nan)
    people["conversion_event"] = np.where(known, np.arange(len(rows)) % 2, np.nan)
    stable = Stability(pd.Series([np.nan] * 3), pd.Series(np.nan, index=views.ids), np.nan)
    fitted = {"preparation": Preparation.fit(views), "stability": stable, **of_model(views, people)}
    return replace(results, roles=ROLES, comparison=None, numbers=None, **fitted)


@pytest.mark.parametrize(("rows", "followed"), CASES.values(), ids=CASES)
def test_a_report_is_written_whatever_has_to_be_hidden(results, rows, followed):
    few = tiny(results, rows, followed)
    summary = summarize(few)
    page = to_html(summary, figures(few, summary))
    assert "NaN" not in page
    assert ">nan<" not in page
    shown = {figure["id"] for figure in summary["figures"]}
    assert "survival" not in shown


def test_curves_of_clusters_below_the_least_count_are_not_shown():
    rng = np.random.default_rng(0)
    found = clinical.conversion(np.repeat([0, 1], 8), rng.exponential(3.0, 16), np.ones(16))
    shown = clinical.on_grid(clinical.on_grid(found, 11), 11)  # a figure takes a grid again
    assert shown.curves.empty
    assert shown.summary["median"].isna().all()
    assert not shown.at_risk.any(axis=None)
    assert not any(len(line.get_xdata()) for line in survival_curves(found).lines)
    assert clinical.on_grid(found, 1) is found
