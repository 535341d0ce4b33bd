"""What a report tells, and what it keeps to itself."""

import json
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from study.report.conftest import K, changed

from viewloom import Views, clinical
from viewloom.evaluation.selection.stability import Stability
from viewloom.study.left_out import LeftOutSites
from viewloom.study.report import summarize
from viewloom.study.report.cluster_cards import NOT_SHOWN
from viewloom.study.report.findings import findings
from viewloom.study.report.presence import shown_patterns, view_sizes
from viewloom.study.report.privacy import plain
from viewloom.study.report.regions import region_names
from viewloom.study.report.sentences import in_short
from viewloom.study.report.sites import sites_sentence, sites_table
from viewloom.study.results import Roles
from viewloom.study.run import run_folder


def table(summary, name):
    """A table as a data frame of what is shown."""
    found = next(table for table in summary["tables"] if table["id"] == name)
    columns = [column["label"] for column in found["columns"]]
    return pd.DataFrame([[cell["text"] for cell in row] for row in found["rows"]], columns=columns)


def doubts(results):
    return {doubt["heading"]: doubt["text"] for doubt in summarize(results)["cautions"]}


def with_sizes(results, *sizes):
    """Results whose clusters have these sizes."""
    return changed(results, labels_=np.repeat(np.arange(len(sizes)), sizes))


class TestContent:
    def test_is_plain_data(self, summary):
        assert json.loads(json.dumps(summary, allow_nan=False)) == summary

    def test_says_what_was_found(self, results, summary):
        sizes = np.bincount(results.model.labels_)
        assert summary["in_short"][0] == (
            f"120 subjects were grouped into 3 clusters of {sizes[0]}, {sizes[1]} and {sizes[2]} subjects, "
            "based on 4 types of data (views): vbm, freesurfer, fdg and snp."
        )
        assert summary["in_short"][1].startswith("The data show clusters: ")
        assert summary["in_short"][2] == "The data support 3 clusters."
        assert summary["in_short"][3].startswith("When the analysis is repeated on random subsamples, the")
        assert [card["size"] for card in summary["clusters"]] == [str(size) for size in sizes]
        assert [card["verdict"] for card in summary["clusters"]] == ["stable cluster"] * 3

    @pytest.mark.usefixtures("_once")
    def test_what_distinguishes_a_cluster(self, results):
        """Planted differences are described with their numbers; absent ones are not."""
        labels = np.repeat([0, 1, 2], 40)
        people = results.participants.assign(
            mmse=np.tile([20.0, 21.0, 22.0, 23.0], 30) + 4 * labels,
            age=np.tile(np.arange(60.0, 80.0), 6),
            diagnosis=np.repeat(["AD", "HC"] * 3, [28, 12, 12, 28, 12, 28]),
        )
        told = summarize(replace(changed(results, labels_=labels), participants=people))
        assert table(told, "associations").set_index("variable").loc["mmse", "significant"] == "yes"
        first, _, last = (" ".join(card["traits"]) for card in told["clusters"])
        assert "Lower mmse (mean 21.5; all subjects 25.5)." in first
        assert "More frequent: diagnosis AD (70%; all subjects 43%)." in first
        assert "Higher mmse (mean 29.5; all subjects 25.5)." in last
        assert not re.search(r"\bage\b", first + last)

    def test_tables_hold_the_numbers_of_the_library(self, results, summary):
        names = ["diagnosis", "mmse", "apoe", "age", "sex", "site"]
        expected = clinical.associations(
            results.model.labels_, results.participants[names], categorical=["diagnosis", "site"]
        )
        found = table(summary, "associations")
        assert found["variable"].to_list() == names
        assert found["test"].to_list() == expected["test"].to_list()
        for shown, effect in zip(found["effect"], expected["effect"], strict=True):
            assert shown in (f"{effect:.2f}", f"{effect:.1f}", "\N{EN DASH}")
        assert f"{expected['effect'][1]:.2f}" == found["effect"][1]  # mmse, without hidden means
        features = table(summary, "features-0")
        assert features["feature"].to_list() == results.importance["vbm"]["feature"].to_list()
        comparison = table(summary, "comparison").set_index("method")
        assert list(comparison.columns) == ["Acc", "NMI", "ARI", "RI", "MI", "one cluster"]
        nmi = results.comparison.table.loc["k-means", "NMI"]
        assert (
            comparison.loc["k-means", "NMI"] == f"{nmi:.2f}"
        )  # other clusters than those that are described

    def test_a_bare_study(self, results):
        """No participants, one view, nothing compared: a shorter report."""
        alone = Views({"vbm": results.views["vbm"][results.views.rows(0)]})
        model = results.model.__class__(K, kernel="linear", random_state=0).fit(alone)
        bare = replace(
            results, model=model, views=alone, participants=None, roles=Roles(), comparison=None,
            numbers=None, importance={"vbm": model.feature_importance("vbm")},
        )  # fmt: skip
        told = summarize(bare)
        assert [figure["id"] for figure in told["figures"]] == [
            "weights", "certainty", "profiles-0", "importance-0", "overlaps", "objective",
        ]  # fmt: skip
        assert "was specified, not estimated from the data" in told["in_short"][2]
        assert "associations" not in [shown["id"] for shown in told["tables"]]


@pytest.mark.usefixtures("_once")
class TestCautions:
    def test_none_where_no_check_finds_a_problem(self, results):
        people = results.participants[["diagnosis"]]
        calm = replace(results, roles=Roles("diagnosis"), participants=people)
        calm = changed(calm, memberships_=np.eye(K)[results.model.labels_])
        assert doubts(calm) == {}

    @pytest.mark.parametrize(
        ("heading", "attributes"),
        [
            ("No convergence", {"converged_": False}),
            ("A single view dominates", {"view_weights_": np.array([0.93, 0.05, 0.01, 0.01])}),
            ("Ambiguous subjects", {"memberships_": np.full((120, K), 1 / K)}),
            ("Small clusters", {"labels_": np.repeat([0, 1, 2], [60, 55, 5])}),
        ],
    )
    def test_of_the_model(self, results, heading, attributes):
        assert heading not in doubts(results)
        assert heading in doubts(changed(results, **attributes))

    def test_unstable_clusters(self, results):
        shaky = Stability(pd.Series([0.9, 0.55, 0.7]), results.stability.subjects, 0.4)
        said = doubts(replace(results, stability=shaky))["Unstable clusters"]
        assert said.startswith("Cluster 2 is unstable. Cluster 3 is doubtful. The agreement")
        assert "is 0.40" in said

    def test_site_and_covariates(self, results):
        labels = results.model.labels_
        people = results.participants.assign(site=np.array(list("abc"))[labels], age=70.0 + labels)
        said = doubts(replace(results, participants=people))
        assert said["Clusters associated with site"].startswith("Clusters follow site (q < 0.001)")
        assert "The clusters differ in age." in said["Covariates differ between clusters"]

    def test_a_site_that_features_give_away(self, results):
        """Its p is not valid as that of a feature, and its counts are hidden; the caution stays."""
        labels, names = results.model.labels_, results.views.feature_names
        site = np.array(list("abc"))[labels]
        views = {name: pd.DataFrame(X, columns=names[name]) for name, X in results.views.items()}
        first = next(iter(views.values()))
        first.iloc[:, 0] = labels + 0.01 * first.iloc[:, 0]
        people = results.participants.assign(site=site, scanner=site)
        changed = replace(results, participants=people, views=Views(views, ids=results.views.ids))
        summary = summarize(changed)
        table = next(table for table in summary["tables"] if table["id"] == "associations")
        row = next(row for row in table["rows"] if row[0]["text"] == "site")
        assert any("used for clustering" in cell["text"] for cell in row)
        said = {caution["heading"]: caution["text"] for caution in summary["cautions"]}
        assert said["Clusters associated with site"].startswith("Clusters follow site")
        assert said["Other variables explain the clusters"].startswith("The clusters follow scanner.")
        assert summary["in_short"][2].startswith("Cautions: clusters associated with site")
        assert summary["sources"][2] == "cautions"

    def test_number_of_clusters(self, results):
        other = replace(results.numbers, recommended=2)
        assert doubts(replace(results, numbers=other))["Number of clusters"] == (
            "The data support 2 clusters, but 3 were requested."
        )
        none = replace(results.numbers, recommended=None)
        assert "no distinct groups" in doubts(replace(results, numbers=none))["Number of clusters"]

    def test_missing_views(self, results):
        present = results.views.present.copy()
        present[:, 2] &= results.model.labels_ != 0
        present |= ~present.any(axis=1)[:, None]
        said = doubts(replace(results, views=Views(results.views, present=present)))
        share = round(20 * (~present[:, 2]).mean()) / 20
        assert f"Many subjects lack fdg (about {share:.0%} of them)" in said["Missing views"]
        uneven = said["Missing views differ between clusters"]
        assert "fdg is missing in nearly all of cluster 1, few of cluster 2 and " in uneven


class TestPrivacy:
    def test_no_ids_unless_asked_for(self, results, summary):
        ids = [str(name) for name in results.views.ids]
        assert summary["subjects"] is None
        assert not any(name in json.dumps(summary) for name in ids)
        listed = summarize(results, subjects=True)["subjects"]["rows"]
        assert [row[0]["text"] for row in listed] == ids

    @pytest.mark.usefixtures("_once")
    def test_no_small_counts(self, results):
        """Clusters of 4 and of 50 are both hidden, for the total is known; nothing describes the small "
        "one."""
        split = with_sizes(results, 66, 50, 4)
        people = results.participants.assign(mmse=np.arange(120.0))
        told = summarize(replace(split, participants=people))
        assert [card["size"] for card in told["clusters"]] == ["66", "≥11", "<11"]
        assert [card["share"] for card in told["clusters"]] == ["55%", None, None]
        assert told["clusters"][2]["traits"] == ["Too small to be described: fewer than 11 subjects."]
        assert NOT_SHOWN in told["clusters"][1]["traits"]
        assert "and 2 sizes that are not shown, since one is below 11" in told["in_short"][0]
        assert told["clusters"][2]["stability"] is None
        assert set(table(told, "features-1")["cluster 3 (SD)"]) == {"\N{EN DASH}"}
        assert not table(told, "pairs")["clusters"].str.contains("3").any()
        crossed = table(told, "diagnosis").iloc[:, 1:].to_numpy().ravel()
        assert not [text for text in crossed if re.match(r"([1-9]|10)( |$)", text)]
        for shown in told["tables"]:
            for row in shown["rows"]:
                counts = (
                    cell["text"] for cell, head in zip(row, shown["columns"], strict=True) if counted(head)
                )
                assert not [text for text in counts if re.match(r"([1-9]|10)( |$)", text)]

    @pytest.mark.usefixtures("_once")
    def test_nothing_is_described_where_all_clusters_are_small(self, results):
        told = summarize(replace(results, min_cell=60))
        assert {figure["kind"] for figure in told["figures"]}.isdisjoint(
            {"certainty", "contributions", "profiles"}
        )
        assert [card["size"] for card in told["clusters"]] == ["<60"] * K
        assert "nan" not in json.dumps(told).lower()

    @pytest.mark.parametrize(
        ("lacking", "patterns", "sizes"),
        [
            ((30, 22, 15), ["53", "30", "22", "15"], ["90", "98", "105"]),
            ((30, 22, 5), ["63", "30", "≥11", "<11"], ["about 90", "about 100", ">109"]),
            ((0, 0, 0), ["120"], ["120", "120", "120"]),
        ],
    )
    def test_patterns_of_views(self, lacking, patterns, sizes):
        """Rare patterns are hidden, and with them the exact totals that would give them away."""
        present = np.ones((120, 3), dtype=bool)
        start = np.cumsum([0, *lacking])
        for a, n in enumerate(lacking):
            present[start[a] : start[a] + n, a] = False
        study = SimpleNamespace(views=Views([np.eye(120)] * 3, present=present), min_cell=11)
        assert [str(n) for n in shown_patterns(study)] == patterns
        assert [str(n) for n in view_sizes(study)] == sizes

    def test_notes_and_paths(self, summary):
        assert summary["notes"][0] == "view 'fdg': fewer than 11 subjects without any value left out"
        assert "30 subjects have no view" in summary["notes"][1]
        assert ["views.fdg.path", "fdg.csv"] in summary["settings"]
        assert summary["inputs"] == [["fdg.csv", "ab" * 32]]
        assert "anna" not in json.dumps(summary)

    def test_names_are_cut_and_show_what_they_hide(self, hostile):
        said = json.dumps(summarize(hostile), ensure_ascii=False)
        assert not re.search("[\u202a-\u202e\u2066-\u2069\x00-\x1f]", said)
        assert "\\\\u202egnp.exe" in said
        assert max(map(len, re.findall("x+", said))) < 200
        assert plain(" \n ") == "(unnamed)"


def counted(head):
    return head["label"] in ("subjects", "all", "followed up", "events", "missing values")


def test_diagnosis_by_cluster_has_totals_and_agreement(results):
    told = summarize(results)
    crossed = table(told, "diagnosis")
    profile = table(told, "profile").query("variable == 'diagnosis'")
    assert crossed.iloc[-1].tolist() == ["all", *(str(size) for size in results.sizes), "120"]
    assert crossed.iloc[:-1, 1:].to_numpy().tolist() == profile.iloc[:, 2:].to_numpy().tolist()
    about = next(shown["about"] for shown in told["tables"] if shown["id"] == "diagnosis")
    assert f"adjusted Rand index (0 is chance, 1 is perfect) {results.agreement['ARI']:.1f}" in about
    assert any(
        sentence.startswith("Agreement of the clusters with diagnosis") for sentence in told["in_short"]
    )


def test_regions_have_full_names():
    names = {
        "lh_bankssts_thickness": "left banks of superior temporal sulcus, thickness",
        "Right-Thalamus-Proper": "right thalamus",
        "ctx-rh-insula": "right insula",
        "LeftHippocampus_volume": "left hippocampus, volume",
        "RInfFrontal_Oper": "right inferior frontal, opercular part",
        "lingual": "lingual",
        "rs429358": None,
        "lh_age": None,
    }
    assert region_names(list(names)) == list(names.values())
    assert region_names(["lh_insula", "L_insula", "insula"]) == [None, None, "insula"]


def test_no_view_is_called_apart_if_all_agree(results):
    """Not "none does not clearly agree"."""
    found = findings(results)
    agreeing = replace(found, agreement=found.agreement.assign(agreement=0.5, lower=0.4, upper=0.6))
    apart = replace(found, agreement=found.agreement.assign(agreement=0.1, lower=0.0, upper=0.2))
    assert "not clearly agree" not in " ".join(in_short(results, agreeing))
    assert "do not clearly agree with the other views." in " ".join(in_short(results, apart))


def test_variables_whose_p_is_hidden_count_as_tested(results):
    """As many as the methods and the section on tests say."""
    found = findings(results)
    tested = found.associations["note"] == ""
    assert tested.sum() > 1
    hidden = replace(found, associations=found.associations.assign(p=np.nan))
    assert f"{tested.sum()} clinical variables" in " ".join(in_short(results, hidden))


def test_no_median_after_too_few_remain():
    """The last subject at risk has the event: the curve falls to 0, but nobody may read that time."""
    time = np.r_[np.full(30, 1.0), 2.5, np.linspace(1.0, 1.5, 20), np.full(20, 3.0)]
    event = np.r_[np.zeros(30), 1, np.ones(20), np.zeros(20)]
    found = clinical.conversion(np.repeat([0, 1], [31, 40]), time, event)
    assert found.summary["median"].notna().all()
    assert clinical.on_grid(found, 11).summary["median"].isna().tolist() == [True, False]
    assert clinical.on_grid(found, 1).summary["median"].notna().all()


def test_cards_and_alternative_texts_have_names_of_regions(results, summary):
    told = json.dumps([summary["clusters"], [figure["alt"] for figure in summary["figures"]]])
    columns = [str(name) for view in results.importance.values() for name in view["feature"]]
    named = [column for column, region in zip(columns, region_names(columns), strict=True) if region]
    assert named
    assert not [column for column in named if column in told]


@pytest.mark.parametrize("refit", [np.nan, 0.4])
def test_sites_without_a_model_of_their_own_have_no_columns_for_it(results, refit):
    counts, overlap = np.array([[20, 15, 30], [12, 30, 25]]), np.full((2, K), refit)
    sites = LeftOutSites(
        ["a", "b"],
        counts.sum(axis=1),
        np.array([-0.03, 0.5]),
        counts,
        np.array([refit, np.nan]),
        overlap,
        0,
        0,
        0,
    )
    left = replace(results, left_out_sites=sites)
    [made] = sites_table(left)
    labels = [column["label"] for column in made["columns"]]
    assert ("agreement of refit" in labels) == ("overlap 1" in labels) == np.isfinite(refit)
    assert all(len(row) == len(labels) for row in made["rows"])
    assert ("No site has enough subjects" in made["about"]) == np.isnan(refit)
    assert "from \N{MINUS SIGN}0.03 to 0.50" in sites_sentence(left)


def test_effects_have_intervals_where_no_count_is_hidden(results, summary):
    found = table(summary, "associations")
    shown = dict(zip(found["variable"], found["95% interval"], strict=True))
    precision = findings(results).precision
    raw = findings(results).compared.set_index("variable")
    assert {name for name, text in shown.items() if text != "\N{EN DASH}"} == {
        name for name in shown if precision[name].exact and np.isfinite(raw["low"][name])
    }
    low, high = (float(text) for text in shown["mmse"].replace("\N{MINUS SIGN}", "-").split(" to "))
    assert [low, high] == [round(raw[name]["mmse"], 2) for name in ("low", "high")]
    pairs = findings(results).pairs
    hides = ~pairs["variable"].map(lambda name: precision[name].exact)
    assert pairs.loc[hides, ["low", "high"]].isna().all(axis=None)
    assert ((pairs["low"] <= pairs["effect"]) & (pairs["effect"] <= pairs["high"]))[~hides].all()


@pytest.mark.parametrize("given", ["participant_id", {"column": "participant_id", "pattern": "(.*)"}])
def test_rules_on_ids_show_no_ids(results, given):
    rules = {"exclude": {"participant_id": ["S_17", "S_18"], "vbm.Participant ID": ["S_19"], "sex": ["F"]}}
    settings = {**results.settings, "participants": {"id": given}, "cluster": rules}
    told = json.dumps(summarize(replace(results, settings=settings)))
    assert not re.search(r"S_1\d", told)
    assert ["cluster.exclude.participant_id", "(hidden), (hidden)"] in json.loads(told)["settings"]
    assert ["cluster.exclude.sex", "F"] in json.loads(told)["settings"]
    about = run_folder._about(replace(results, settings=settings), Path(), False)
    assert not re.search(r"S_1\d", json.dumps(about))
