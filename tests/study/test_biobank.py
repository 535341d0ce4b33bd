"""The benchmark of a biobank, on a few subjects: what it writes is a study, and its summary is right."""

import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from viewloom.study import check, read_study

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

pytest.importorskip("psutil")

import biobank


@pytest.mark.parametrize("ext", ["csv", "parquet"])
def test_it_writes_a_study(tmp_path, ext):
    if ext == "parquet":
        pytest.importorskip("pyarrow")
    biobank.write(tmp_path, 250, ext)
    found = check(read_study(tmp_path / "study.toml"))
    assert found.ok, found.problems
    assert found.n_subjects == 250
    assert found.views.loc["imaging", "features"] == 300
    assert found.views.loc["codes", "format"] == "codes"
    assert np.all(found.views["subjects"] < 240)


def test_the_first_subjects_of_a_larger_study_are_the_same(tmp_path):
    for name, n in (("some", 60), ("all", 100)):
        biobank.write(tmp_path / name, n, "csv", whole=100)
    some, all_ = (pd.read_csv(tmp_path / name / "blood.csv") for name in ("some", "all"))
    assert some.equals(all_[: len(some)])


def test_shares_and_growth():
    records = [
        {"n": n, "stage": stage, "processor": n**power}
        for n in (1000, 10_000)
        for stage, power in (("check", 1.0), ("fit", 0.5))
    ]
    assert biobank.growth(records)["check"] == pytest.approx(1.0)
    assert biobank.growth(records)["fit"] == pytest.approx(0.5)
    assert sum(biobank.shares(records).values()) == pytest.approx(1.0)
    assert biobank.growth(records[:2]) == {}
