"""The section on tests and other explanations, as plain data."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from viewloom.clinical.held_out import LeftOut
from viewloom.study.held_out import ONE_VIEW, HeldOutTests
from viewloom.study.report import testing
from viewloom.study.report.findings import findings


def section(results):
    found = testing.testing_section(results, findings(results))
    return found, {table["id"]: table for table in found["tables"]}


def made_up(results, splits):
    """Made up: the first feature of every view differs."""
    views = {}
    for name, d in zip(results.views.names, results.views.n_features, strict=True):
        p = np.where(np.arange(d) == 0, 1e-9, 0.5)
        views[name] = LeftOut(p, np.where(np.arange(d) == 0, 0.4, 0.01), 0.3, 100)
    rows = [(view, name, 0.5, 0.5) for view in views for name in results.views.feature_names[view]]
    table = pd.DataFrame(rows, columns=["view", "name", "p", "q"])
    return HeldOutTests(views, {}, table if splits else None, splits)


def test_variables_with_small_cells_are_named_and_have_no_row(results):
    found, tables = section(results)
    json.dumps(found)
    hidden = testing.hidden_variables(results)
    assert hidden
    assert any(sentence.startswith("Not shown in these tables") for sentence in found["sentences"])
    for name in ("explanations", "adjusted"):
        assert not hidden & {row[0]["text"] for row in tables[name]["rows"]}


def test_adjusted_effects_have_intervals_around_them(results):
    pytest.importorskip("statsmodels")
    _, tables = section(results)
    heads = [column["label"] for column in tables["adjusted"]["columns"]]
    at, bounds = heads.index("effect"), heads.index("95% interval")
    rows = [row for row in tables["adjusted"]["rows"] if row[at]["value"] is not None]
    assert rows
    for row in rows:
        low, high = (float(text) for text in row[bounds]["text"].replace("\N{MINUS SIGN}", "-").split(" to "))
        assert low <= row[at]["value"] <= high
    assert "Adjusted for age and sex" in tables["adjusted"]["about"]


@pytest.mark.parametrize("splits", [0, 5])
def test_features_tested_without_their_view(results, splits):
    found, tables = section(replace(results, tests=made_up(results, splits)))
    total = sum(results.views.n_features)
    assert any(f"{results.views.n_views} of {total} features differ" in text for text in found["sentences"])
    labels = [column["label"] for column in tables["left-out"]["columns"]]
    assert ("differ in other halves" in labels) == bool(splits)
    assert ("5 splits" in tables["left-out"]["about"]) == bool(splits)
    assert [row[2]["value"] for row in tables["left-out"]["rows"]] == [1] * results.views.n_views


def test_a_reason_is_said_instead_of_tests(results):
    found, tables = section(replace(results, tests=HeldOutTests(reason=ONE_VIEW)))
    assert f"Features were not tested: {ONE_VIEW}." in found["sentences"]
    assert "left-out" not in tables
    assert "left-out" not in section(replace(results, tests=None))[1]
