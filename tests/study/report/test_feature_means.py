"""What follows from means of features: importance, shares of variance and loadings tell no small counts."""

import tracemalloc
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import viewloom as vl
from viewloom.study.report import continuum, feature_means
from viewloom.study.report.disclosed import disclosed
from viewloom.study.report.feature_means import unusual_counts
from viewloom.study.report.findings import _profiles
from viewloom.study.report.standing_out import explained_shares, features_section

VIEW = "fdg"
FEW = 3  # subjects with the rare value


@pytest.fixture(scope="module")
def rare(results):
    """The study with a feature that few subjects have, tested as all others are."""
    frames = {
        name: pd.DataFrame(X, columns=results.views.feature_names[name]) for name, X in results.views.items()
    }
    seen = np.flatnonzero(results.views.present[:, results.views.index(VIEW)])
    carriers = np.where(np.isin(np.arange(len(frames[VIEW])), seen[:FEW]), 1.0, 0.0)
    frames[VIEW] = (
        frames[VIEW].iloc[:, :5].assign(rare=np.where(frames[VIEW].iloc[:, 0].notna(), carriers, np.nan))
    )
    views = vl.Views(frames, ids=results.views.ids)
    model = vl.KernelMultiviewNMF(3, kernel="linear", random_state=0).fit(views)
    features = views.feature_names[VIEW]
    tests = pd.DataFrame({"feature": features, "effect": 0.5, "p": 0.004321, "q": 0.004321})
    known = pd.DataFrame({"feature": features, "value": 0.6, "low": 0.5, "high": 0.7})
    return replace(
        results,
        views=views,
        model=model,
        importance={name: model.feature_importance(name) for name in views.names},
        feature_tests={VIEW: tests},
        uncertainty=SimpleNamespace(features={VIEW: known}),
    )


@pytest.mark.parametrize("seed", range(5))
def test_values_that_are_not_usual_are_counted_in_each_cluster(seed):
    rng = np.random.default_rng(seed)
    labels, k = rng.integers(3, size=300), 3
    X = np.column_stack(
        [rng.binomial(2, 0.1, 300), rng.binomial(1, 0.9, 300), rng.integers(7, size=300), np.ones(300)]
    )
    X = np.hstack([X, rng.standard_normal((300, 1)), rng.integers(6, size=(300, 1))])
    found = unusual_counts(X, labels, k)
    for j, x in enumerate(X.T):
        few = 1 < len(np.unique(x)) <= 6
        for c in range(k):
            here = x[labels == c]
            usual = max(np.unique(here, return_counts=True)[1]) if few else 0
            assert found[j, c] == len(here) - usual


def test_importance_is_hidden_where_means_are(rare):
    told = disclosed(rare)
    assert told.hidden_means[VIEW].loc["rare"].all()
    table, raw = (frames[VIEW].set_index("feature") for frames in (told.importance, rare.importance))
    assert table.loc["rare"].isna().all()
    assert raw.loc["rare"].notna().all()
    hidden = told.hidden_means[VIEW].to_numpy()
    assert (table.drop(columns="importance").isna().to_numpy() == hidden).all()
    assert (_profiles(rare, told, VIEW).isna().to_numpy() == hidden).all()
    assert table["importance"].isna().tolist() == hidden.any(axis=1).tolist()


def test_shares_of_variance_are_hidden_where_a_mean_is(rare):
    """The mean of a hidden cluster follows from the others and the share, and the share from q."""
    tested = features_section(rare, disclosed(rare))["tables"][0]["rows"]
    rows = dict(zip(rare.views.feature_names[VIEW], tested, strict=True))
    assert [cell["text"] for cell in rows["rare"][2:]] == ["\N{EN DASH}", "<0.01", *["\N{EN DASH}"] * 3]
    hidden = disclosed(rare).hidden_means[VIEW].any(axis=1)
    shown = hidden.index[~hidden]
    assert len(shown)
    assert all(rows[name][2]["text"] == "0.50" and rows[name][3]["text"] == "0.004" for name in shown)
    assert set(explained_shares(rare, disclosed(rare))["feature"]) == set(shown[:5])


def test_loadings_of_rare_values_are_left_out(rare, monkeypatch):
    """The loading of a value that one subject has is the position of that subject."""
    table = pd.DataFrame({"feature": rare.views.feature_names[VIEW], "loading": 0.9})
    axis = SimpleNamespace(loadings={VIEW: table})
    monkeypatch.setattr(continuum, "MOST_LOADINGS", 10)
    named = {row[0]["text"] for row in continuum._table(rare, axis)["rows"]}
    assert "rare" not in named
    assert len(named) == len(table) - 1


def test_features_of_sparse_views_are_counted_some_at_a_time(monkeypatch):
    """All parts at once would take 64 MiB here, and 3 GiB for 2000 codes of half a million subjects."""
    codes = sp.random(20_000, 400, density=0.01, format="csr", random_state=0)
    codes.data[:] = 1.0
    monkeypatch.setattr(feature_means, "BATCH_VALUES", 200_000)
    tracemalloc.start()
    try:
        common = feature_means.common_features(codes, np.arange(20_000), 200)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 2**24
    assert (common == (codes.sum(axis=0) >= 200)).all()
    assert 0 < common.sum() < 400
