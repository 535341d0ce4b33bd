"""Words, cautions, the continuum and features that stand out, in the content of a report."""

import copy
import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from study.report.conftest import FEWER, compared_with_twins

import viewloom as vl
from viewloom.evaluation.inspection import view_contributions
from viewloom.evaluation.uncertainty import Uncertainty
from viewloom.study.report import figure_data, summarize
from viewloom.study.report.continuum import histogram
from viewloom.study.report.disclosed import disclosed
from viewloom.study.report.evidence import evidence_section, evidence_sentence
from viewloom.study.report.regions import feature_names
from viewloom.study.report.standing_out import explained_shares, marked
from viewloom.study.run import computations

VERDICTS = ("clusters", "cuts", "not reproducible")


@pytest.fixture(scope="module", autouse=True)
def _once(results):
    """Contributions and agreement of views take time and say nothing about what these tests change."""
    same = view_contributions(results.model)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("viewloom.study.report.findings.view_contributions", lambda model: same)
        patch.setattr("viewloom.study.report.findings.view_agreement", FEWER)
        yield


@pytest.fixture(scope="module")
def told(results):
    return {
        verdict: summarize(replace(results, evidence=compared_with_twins(verdict))) for verdict in VERDICTS
    }


def test_words_follow_from_the_comparison(told):
    first = [told[verdict]["in_short"][1] for verdict in VERDICTS]
    assert [sentence.split(":")[0] for sentence in first] == [
        "The data show clusters",
        "Reproducible cuts through a continuum, not clearly distinct clusters",
        "The clusters are not reproducible",
    ]
    cards = [told[verdict]["clusters"][0]["verdict"] for verdict in VERDICTS]
    assert cards == ["stable cluster", "reproducible cut", "not reproducible"]
    assert not any("very stable" in json.dumps(summary) for summary in told.values())


def test_cuts_are_cautioned_against(told):
    headings = [{caution["heading"] for caution in told[verdict]["cautions"]} for verdict in VERDICTS]
    assert "No clearly distinct clusters" in headings[1]
    assert "Not reproducible" in headings[2]
    assert not headings[0] & {"No clearly distinct clusters", "Not reproducible", "Clusters not assessed"}


@pytest.mark.parametrize(
    ("gap", "z", "said"),
    [
        (-0.02, -1.0, "at least as tight"),
        (0.02, 1.0, "nearly as tight"),
        (0.08, 12.0, "it is open whether they are distinct"),
        (0.2, 12.0, "though these are less tight"),
        (0.2, 1.0, "do not show it with certainty"),
    ],
)
def test_cuts_are_as_tight_as_the_numbers_say(results, gap, z, said):
    found = compared_with_twins("cuts")
    table = found.table.copy()
    table.loc["loss"] = [0.2, 0.2 + gap, 0.01, z]
    sentence = evidence_sentence(replace(results, evidence=replace(found, table=table, gap=gap)))
    assert said in sentence
    assert f"loss 0.20, in twins {0.2 + gap:.2f}" in sentence


def test_sentence_and_table_round_alike(results):
    found = compared_with_twins("cuts")
    table = found.table.copy()
    table.loc["stability", ["data", "twins"]] = 0.98, 0.7051  # 0.705 would be rounded to 0.70
    section = evidence_section(replace(results, evidence=replace(found, table=table)))
    assert "in twins 0.71" in section["sentences"][0]
    assert section["tables"][0]["rows"][0][2]["text"] == "0.71"


def test_no_verdict_without_comparison_and_for_small_clusters(results):
    told = summarize(replace(results, evidence=None))
    assert told["evidence"] is None
    assert "Clusters not assessed" in {caution["heading"] for caution in told["cautions"]}
    few = summarize(replace(results, min_cell=40))
    assert {card["verdict"] for card in few["clusters"] if card["stability"] is None} <= {"not assessed"}


def test_a_continuum_is_offered_instead_of_clusters(results, told):
    assert told["clusters"]["continuum"] is None
    section = told["cuts"]["continuum"]
    assert section["tables"][0]["rows"]
    cut = replace(results, evidence=compared_with_twins("cuts"))
    drawn = figure_data(cut, told["cuts"])["continuum"]["data"]
    assert sum(drawn["counts"]) == len(results.views)
    assert min(drawn["counts"]) >= results.min_cell
    assert set(np.mod(np.array(drawn["low"][1:]), 0.5)) == {0.0}


def test_a_study_is_compared_with_the_twins_it_asks_for_once(tmp_path, monkeypatch):
    views, _ = vl.simulate.blobs_views(60, n_views=2, n_clusters=3, separation=6.0, random_state=0)
    model = vl.KernelMultiviewNMF(3, random_state=0)
    stages = computations.Stages(tmp_path, "key", 1, False)
    assert computations.evidence(model, views, None, 11, stages) is None  # none by default in tests
    assert computations.evidence(model, views, 3, 61, stages) is None  # too few subjects
    found = computations.evidence(model, views, 3, 11, stages)
    assert (found.verdict, found.n_twins) == ("clusters", 3)
    monkeypatch.setattr(computations, "judge", None)  # finished units are not computed again
    pd.testing.assert_frame_equal(computations.evidence(model, views, 3, 11, stages).table, found.table)


def test_counts_along_the_axis_are_never_small():
    for seed in range(20):
        rng = np.random.default_rng(seed)
        found = histogram(rng.standard_t(2, size=rng.integers(22, 200)), 11)
        assert found["count"].min() >= 11


def test_features_that_stand_out_are_named_and_where_none_does_it_is_said(results):
    def tests(view, q):
        names = results.importance[view]["feature"]
        return pd.DataFrame({"feature": names, "effect": 0.2, "p": q, "q": np.where(names.index < 1, q, 0.9)})

    q = {"vbm": 0.001, "snp": 0.6}
    told = summarize(replace(results, feature_tests={view: tests(view, value) for view, value in q.items()}))
    named = str(results.importance["vbm"]["feature"][0])
    vbm, snp = told["features"]["sentences"]
    assert vbm.startswith("vbm: 1 of 45 features is related to the clusters")
    assert snp.startswith("snp: no feature stands out. None of 45")
    assert len(told["features"]["tables"][0]["rows"]) == 1
    drawn = {figure["id"] for figure in told["figures"]}
    positions = {name: a for a, name in enumerate(results.views.names)}
    assert f"importance-{positions['vbm']}" in drawn
    assert not {f"{kind}-{positions['snp']}" for kind in ("importance", "profiles")} & drawn
    others = set(feature_names(results.importance["vbm"]["feature"][1:], 40)) - set(
        feature_names([named], 40)
    )
    traits = [text for card in told["clusters"] for text in card["traits"] if text.startswith("In vbm")]
    assert not [text for text in traits for other in others if f" {other} (" in text]


def test_features_in_figures_are_marked_where_they_do_not_stand_out(results):
    names = results.importance["vbm"]["feature"]
    table = pd.DataFrame({"feature": names, "effect": 0.2, "q": np.where(names.index < 2, 0.01, 0.9)})
    tested = replace(results, feature_tests={"vbm": table})
    assert marked(tested, "vbm", list(names[:3]), ["a", "b", "c"]) == ["a", "b", "c (n.s.)"]
    assert marked(results, "vbm", list(names[:3]), ["a", "b", "c"]) == ["a", "b", "c"]
    shares = pd.DataFrame({"feature": names[:3], "value": 0.5, "low": 0.4, "high": 0.6})
    known = replace(tested, uncertainty=Uncertainty(pd.DataFrame(), certainty(3), {"vbm": shares}))
    assert (
        explained_shares(known, disclosed(known))[["view", "other", "low"]].to_numpy().tolist()
        == [["vbm", 0.2, 0.4]] * 2
    )


def certainty(k):
    return pd.DataFrame({"value": [0.9] * k, "low": 0.85, "high": 0.95})


def test_clusters_have_intervals_of_their_certainty(results):
    k, names = results.model.n_clusters, results.views.names
    weights = certainty(len(names)).set_index(pd.Index(names))
    told = summarize(replace(results, uncertainty=Uncertainty(weights, certainty(k))))
    table = next(table for table in told["tables"] if table["id"] == "clusters")
    at = [column["label"] for column in table["columns"]].index("certainty")
    shown = [(row[at]["text"], row[at + 1]["text"]) for row in table["rows"]]
    assert ("0.90", "0.85 to 0.95") in shown
    assert set(shown) <= {("0.90", "0.85 to 0.95"), ("\N{EN DASH}", "\N{EN DASH}")}


def test_a_view_counts_most_only_where_intervals_part(results):
    names = results.views.names
    value = np.array([0.4, 0.3, 0.2, 0.1])
    largest = "has the largest weight"
    for half, said in ((0.01, f"{names[0]} {largest}"), (0.2, f"no view clearly {largest}")):
        table = pd.DataFrame({"value": value, "low": value - half, "high": value + half}, index=names)
        told = summarize(replace(results, uncertainty=Uncertainty(table, table)))
        assert any(said in sentence for sentence in told["in_short"])


def test_views_of_nearly_the_same_weight_are_not_ranked(results):
    names = results.views.names
    value = np.array([0.26, 0.25, 0.25, 0.24])
    table = pd.DataFrame({"value": value, "low": value, "high": value}, index=names)
    model = copy.copy(results.model)
    model.view_weights_ = value
    told = summarize(replace(results, model=model, uncertainty=Uncertainty(table, table)))
    assert any(sentence.startswith("All views have nearly the same weight") for sentence in told["in_short"])
