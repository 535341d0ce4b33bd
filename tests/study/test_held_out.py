"""Tests by clusters that are assigned without a view: stages, settings, and their place in the report."""

import numpy as np
import pandas as pd
import pytest
from pandas.testing import assert_frame_equal
from small import STUDY, write_small

import viewloom as vl
from viewloom.cli.study_commands import with_report
from viewloom.study import StudyError, read_study
from viewloom.study.held_out import COMMON, ONE_VIEW
from viewloom.study.results import Roles
from viewloom.study.run import held_out
from viewloom.study.run.computations import Stages
from viewloom.study.run.held_out import held_out_tests
from viewloom.study.run.sampled import Assessed

SPLITS = 3
ROLES = Roles(None, None, [], ["copy", "other"], None)


@pytest.fixture(scope="module")
def study():
    """Two views of 80 subjects, a variable that is nearly a feature, and one that is not; a model."""
    views, _ = vl.simulate.blobs_views(80, n_views=2, random_state=0)
    rng = np.random.default_rng(0)
    first = np.asarray(views[views.names[0]])[:, 0]
    people = pd.DataFrame(
        {"copy": first + 0.01 * first.std() * rng.normal(size=80), "other": rng.normal(size=80)}
    )
    return vl.KernelMultiviewNMF(3, kernel="linear", n_init=1, random_state=0).fit(views), views, people


def run(study, folder, splits=SPLITS, severity=None):
    model, views, people = study
    stages = Stages(folder, "key", 1, False)
    return held_out_tests(Assessed.of(model, views), people, ROLES, splits, severity, stages)


def test_stages_are_resumed_with_the_same_numbers(study, tmp_path, monkeypatch):
    whole = run(study, tmp_path)
    fresh = run(study, None)

    def never(*_):
        raise AssertionError("computed again")

    for name in ("without_view", "variable_left_out", "split_once"):
        monkeypatch.setattr(held_out, name, never)
    again = run(study, tmp_path)
    for other in (fresh, again):
        assert_frame_equal(other.splits, whole.splits)
        assert other.variables == whole.variables
        for view, found in whole.views.items():
            np.testing.assert_array_equal(other.views[view].p, found.p)
            assert other.views[view].agreement == found.agreement
    assert set(whole.variables) == {"copy"}
    assert whole.splits["p"].notna().all()
    with pytest.raises(AssertionError, match="computed again"):
        run(study, tmp_path / "elsewhere")


def test_without_splits_there_is_no_table_of_them(study):
    found = run(study, None, splits=0)
    assert found.splits is None
    assert found.n_splits == 0


def test_where_nothing_is_valid_the_reason_is_given(study):
    model, views, people = study
    one = views.select(views.names[:1])
    assert run((model, one, people), None).reason == ONE_VIEW
    assert run(study, None, severity="common").reason == COMMON


def test_splits_are_set_in_the_file_or_on_the_command_line(tmp_path):
    pytest.importorskip("bed_reader")
    write_small(tmp_path, f"{STUDY}[report]\nsplits = 4\n")
    given = read_study(tmp_path / "study.toml")
    assert given.report.splits == 4
    assert with_report(given, splits=None).report.splits == 4
    assert with_report(given, splits=2).report.splits == 2
    (tmp_path / "study.toml").write_text(f"{STUDY}[report]\nsplits = -1\n", encoding="utf-8")
    with pytest.raises(StudyError, match="splits"):
        read_study(tmp_path / "study.toml")
