"""`viewloom replicate`, `fit --leave-site-out` and `simulate --cohorts 2` on simulated cohorts."""

import json
import re
import shutil
import stat
from functools import partial

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import viewloom as vl
from viewloom.cli.commands import app
from viewloom.evaluation.replication import nulls
from viewloom.study import read_study, report, write_cohorts
from viewloom.study.clinical_numbers import confirmed
from viewloom.study.run import replication
from viewloom.study.run.replication import as_second, design_notes
from viewloom.study.run.sites import leave_out

pytest.importorskip("bed_reader")
runner = CliRunner()
SMALL = (
    ("n_clusters = 3", 'n_clusters = 2\nkernel = "linear"'),
    ('residualise_on = "controls"', 'residualise_on = "all"'),
)
ID = re.compile(r"sub-\d|second-")


def run(*arguments):
    return runner.invoke(app, [str(argument) for argument in arguments])


def edit(path, *changes):
    text = path.read_text(encoding="utf-8")
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    path.write_text(text, encoding="utf-8")


@pytest.fixture(scope="module")
def cohorts(tmp_path_factory):
    """Two small cohorts and the run of the first, with sites left out in turn."""
    folder = tmp_path_factory.mktemp("two")
    write_cohorts(folder, sizes=(30, 40, 40), second_sizes=(20, 30, 24))
    for name in ("first", "second"):
        edit(folder / name / "study.toml", *SMALL)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(report, "inline_figures", lambda parts, names: dict.fromkeys(parts, ""))  # saves time
        found = run("fit", folder / "first/study.toml", "-o", folder / "run", "--jobs", 1, "--leave-site-out")
    assert found.exit_code == 0, found.output
    return folder


@pytest.fixture(scope="module")
def replicated(cohorts):
    fewer = partial(replication.replicate, n_permutations=19, n_continuum=3)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nulls, "HALVES", 3)
        patch.setattr(replication, "replicate", fewer)
        found = run(
            "replicate", cohorts / "run", cohorts / "second/study.toml", "-o", cohorts / "out", "--jobs", 1
        )
    assert found.exit_code == 0, found.output
    return cohorts / "out", found.output


@pytest.fixture
def second(cohorts, tmp_path):
    """A copy of the second cohort that a test may spoil."""
    return shutil.copytree(cohorts / "second", tmp_path / "second")


def test_the_folder_holds_what_was_found(replicated):
    folder, output = replicated
    assert {path.name for path in folder.iterdir()} == {"labels.csv", "replication.html", "replication.json"}
    assert stat.S_IMODE((folder / "labels.csv").stat().st_mode) == 0o600
    content = json.loads((folder / "replication.json").read_text())
    assert content["verdict"] in output
    assert [row["cluster"] for row in content["clusters"]] == ["1", "2"]
    assert [row["view"] for row in content["weights"]] == ["vbm", "freesurfer", "fdg"]
    labels = pd.read_csv(folder / "labels.csv")
    assert set(labels["cluster"]) <= {1, 2}
    assert (labels["cluster"] == labels["label"] + 1).all()
    assert labels["id"].str.startswith("second-").all()


def test_nothing_that_is_shared_tells_of_single_subjects(replicated):
    folder, output = replicated
    page = (folder / "replication.html").read_text(encoding="utf-8")
    for text in (page, (folder / "replication.json").read_text(), output):
        assert not ID.search(text)
    assert "default-src &#39;none&#39;" in page
    assert "Agreement of cuts does not show that clusters exist" in page
    for part in ("Clinical associations in both cohorts", "View weights", "Profile correlations by view"):
        assert part in page


def test_small_clusters_are_not_described(cohorts, tmp_path, monkeypatch):
    none = partial(replication.replicate, n_permutations=0, n_continuum=0)
    monkeypatch.setattr(replication, "replicate", none)
    study = shutil.copytree(cohorts / "second", tmp_path / "second") / "study.toml"
    study.write_text(study.read_text() + "[report]\nmin_cell = 1000\n")
    found = run("replicate", cohorts / "run", study, "--jobs", 1, "--json")
    assert found.exit_code == 0, found.output
    content = json.loads(found.output)
    for row in content["clusters"]:
        assert {row[name] for name in ("first", "transferred", "refitted")} == {"<1000"}
        assert row["jaccard"] is None
        assert row["profile_p"] is None
    assert content["profiles"] == []


def test_a_second_study_of_another_design_is_noted(cohorts, second):
    about = json.loads((cohorts / "run/run.json").read_text())
    study = second / "study.toml"
    assert design_notes(about, read_study(study)) == []
    rules = '[cluster]\ninclude = { diagnosis = ["AD", "MCI"] }\nremove_severity = "common"\n\n[model]'
    edit(study, ('"education", "icv"]  #', '"education"]  #'), ("[model]", rules))
    (note,) = design_notes(about, read_study(study))
    assert "'preparation.residualise', 'cluster.include', 'cluster.remove_severity'" in str(note)
    assert design_notes({}, read_study(study)) == []  # a run of an earlier version


def test_a_replication_replaces_only_a_replication(cohorts, replicated):
    before = {path: path.read_bytes() for path in (cohorts / "run").iterdir()}
    found = run("replicate", cohorts / "run", cohorts / "second/study.toml", "-o", cohorts / "run")
    assert found.exit_code == 2
    assert "not from a run" in found.output
    assert {path: path.read_bytes() for path in (cohorts / "run").iterdir()} == before
    assert run("fit", cohorts / "first/study.toml", "-o", cohorts / "out").exit_code == 2


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (
            lambda study: edit(study, ("[views.", "[views.other_")),
            "no view in common",
        ),
        (lambda study: (study.parent / "vbm.csv").unlink(), "no such file"),
    ],
)
def test_bad_input_is_one_line_and_nothing_is_written(cohorts, second, spoil, message):
    spoil(second / "study.toml")
    found = run("replicate", cohorts / "run", second / "study.toml", "-o", second / "out")
    assert found.exit_code == 2
    assert message in found.output
    assert found.output.count("Error:") == 1
    assert not (second / "out").exists()
    assert run("replicate", second, second / "study.toml").exit_code == 2  # not a run


def test_features_without_anything_in_common_are_refused(cohorts, second):
    study = second / "study.toml"
    start, end = study.read_text().index("[views.freesurfer]"), study.read_text().index("# Fitted on")
    study.write_text(study.read_text()[:start] + study.read_text()[end:])
    table = pd.read_csv(second / "vbm.csv", index_col=0)
    table.add_prefix("gene").to_csv(second / "vbm.csv")
    found = run("replicate", cohorts / "run", study, "-o", second / "out")
    assert found.exit_code == 2
    assert "no view in common" in found.output
    assert found.output.count("Error:") == 1


def test_clinical_associations_of_the_first_cohort_are_stored_without_small_counts(cohorts):
    stored = json.loads((cohorts / "run" / "clinical.json").read_text())
    variables = {row["variable"] for row in stored["associations"]}
    assert {"diagnosis", "mmse", "age"} <= variables
    assert "site" not in variables
    assert len(stored["deviations"]["mmse"]["mean (SD)"]) == 2


def test_only_what_differs_in_the_first_cohort_is_tested():
    rows = [{"variable": name, "kind": "numeric", "effect": 0.2, "p": 0.02} for name in "abc"]
    first = {
        "associations": [{**row, "q": q} for row, q in zip(rows, (0.01, 0.5, 0.01), strict=True)],
        "deviations": {"a": {"mean (SD)": [1.0, -1.0]}, "c": {"mean (SD)": [1.0, -1.0]}},
    }
    second = {
        "associations": rows,
        "deviations": {"a": {"mean (SD)": [0.4, -0.2]}, "c": {"mean (SD)": [-0.4, 0.2]}},
    }
    table = confirmed(first, second).set_index("variable")
    assert table["confirmed"].to_dict() == {"a": "yes", "b": "not tested", "c": "no"}
    assert table.loc["a", "p_holm"] == 0.04  # of two tests
    assert table["direction"].to_dict() == {"a": "same", "b": "unknown", "c": "opposite"}
    assert confirmed(None, second)["p_holm"].notna().all()


def test_two_cohorts_differ_in_sites_sizes_and_views(cohorts):
    first, second = (pd.read_csv(cohorts / name / "participants.csv") for name in ("first", "second"))
    assert not set(first["site"]) & set(second["site"])
    assert not set(first["participant_id"]) & set(second["participant_id"])
    assert len(first) > len(second)
    assert list(read_study(cohorts / "second/study.toml").views) == ["vbm", "freesurfer", "fdg"]
    assert run("simulate", cohorts, "--cohorts", 2).exit_code == 2  # files exist


def test_sites_left_out_are_in_metrics_and_report(cohorts):
    sites = json.loads((cohorts / "run" / "metrics.json").read_text())["left_out_sites"]
    people = pd.read_csv(cohorts / "first/participants.csv")
    counts = people["site"].value_counts()
    assert {row["site"] for row in sites} <= set(counts.index[counts >= 11])
    for row in sites:
        sizes = [size for size in row["cluster_sizes"] if isinstance(size, int)]
        assert all(size >= 11 for size in sizes)
        assert sum(sizes) == row["subjects"] or len(sizes) <= len(row["cluster_sizes"]) - 2
        assert -1.0 <= row["agreement"] <= 1.0
    page = (cohorts / "run" / "report.html").read_text(encoding="utf-8")
    assert "Sites left out in turn" in page
    assert ("not left out in turn" in page) == (len(sites) < len(counts))


def test_a_site_of_one_cluster_that_is_predicted_so_agrees():
    views, y = vl.simulate.blobs_views(90, separation=6.0, random_state=0)
    model = vl.KernelMultiviewNMF(3, random_state=0).fit(views)
    inside = (y == y[0]) & (np.arange(90) % 2 == 0)
    found = leave_out(model, views, model.labels_, inside)
    assert sorted(found["counts"]) == [0, 0, inside.sum()]
    assert found["agreement"] == 1.0


@pytest.mark.parametrize(
    ("sites", "message"),
    [
        (lambda n: ["one"] * n, "at least two sites"),
        (lambda n: [f"s{i}" for i in range(n)], "site with at least 11 subjects"),
    ],
)
def test_sites_that_cannot_be_left_out_are_refused(second, sites, message):
    table = pd.read_csv(second / "participants.csv", index_col=0)
    table.assign(site=sites(len(table))).to_csv(second / "participants.csv")
    edit(second / "study.toml", ("[model]", '[cluster]\nleave = "site"\n\n[model]'))
    for command in ("check", "fit"):
        found = run(command, second / "study.toml")
        assert found.exit_code == 2
        assert message in found.output
        assert found.output.count("Error:") == 1


def test_order_and_later_visits_of_the_second_study_do_not_matter(tmp_path):
    """They would be refused, as its outcomes are not numeric and its files have one visit."""
    first, _ = write_cohorts(tmp_path, sizes=(12, 14, 16), second_sizes=(10, 12, 12))
    text = first[0].read_text().replace('outcomes = ["mmse", "cdrsb", "apoe"]', 'outcomes = ["apoe"]')
    more = '[cluster]\norder = "severity"\nleave = "site"\ninclude = { age = { min = 1 } }\n'
    first[0].write_text(text + more)
    study = as_second(read_study(first[0]), 2)
    assert (study.cluster.order, study.cluster.leave, study.followup.visits) == ("size", None, [])
    assert (study.model.n_clusters, len(study.rules)) == (2, 1)
