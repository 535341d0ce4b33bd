"""The run folder: what is in it, that it is whole, and that the same inputs give the same bytes."""

import hashlib
import json
import os
import shutil
import signal
import stat
import subprocess
import sys
from functools import partial

import numpy as np
import pandas as pd
import pytest
from joblib import parallel_config
from numpy.testing import assert_allclose
from small import STUDY, in_name_only, write_small

from viewloom import KernelMultiviewNMF
from viewloom.evaluation.selection.stability import Stability
from viewloom.study import StudyError, read_study, report
from viewloom.study.report.privacy import shown_sizes
from viewloom.study.run import (
    analyse,
    analysis,
    predict,
    rewrite_report,
    run_study,
    tables,
    write,
    write_predictions,
)
from viewloom.study.run import (
    computations as stages,
)

pytest.importorskip("bed_reader")

REFITS = 3
TOML = (
    STUDY.replace("outcomes", 'site = "site"\noutcomes')
    + """
seed = 5
[views.snp]
path = "genotypes/snps.bed"
min_maf = 0.2
[preparation]
residualise = ["age", "sex"]
residualise_on = "all"
"""
)


@pytest.fixture(scope="module")
def cohort(tmp_path_factory):
    """Files of a small study."""
    return write_small(tmp_path_factory.mktemp("files") / "a study é", TOML, sizes=(12, 16, 20))


@pytest.fixture
def study(cohort, tmp_path):
    """A copy of the study that a test may spoil."""
    shutil.copytree(cohort, tmp_path / "files")
    return read_study(tmp_path / "files" / "study.toml")


@pytest.fixture(autouse=True)
def fast(monkeypatch, request):
    """Few refits, and a report in name only."""
    monkeypatch.setattr(stages, "REFITS", REFITS)
    if "whole_report" not in request.fixturenames:
        monkeypatch.setattr(report, "unnamed_summary", in_name_only)
        monkeypatch.setattr(report, "figure_data", lambda results, summary: {})
        monkeypatch.setattr(report, "to_html", lambda summary, figures: f"<h1>{summary['title']}</h1>")


@pytest.fixture
def whole_report():
    """Asks for the report as it is."""


@pytest.fixture(scope="module")
def results(cohort):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stages, "REFITS", REFITS)
        return analyse(read_study(cohort / "study.toml"))


def contents(folder):
    """What has to be the same in two runs, by name."""
    return {
        path.name: path.read_bytes()
        for path in sorted(folder.iterdir())
        if path.suffix == ".csv" or path.name == "metrics.json"
    }


def everything(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_the_folder_holds_what_was_found(results, tmp_path):
    folder = tmp_path / "deep" / "run"
    paths = write(results, folder)
    importance = {f"importance_{view}.csv" for view in ("vbm", "fdg", "snp")}
    others = {"labels.csv", "weights.csv", "metrics.json", "clinical.json", "model.safetensors"}
    assert {path.name for path in paths} == importance | others | {"report.html", "summary.json", "run.json"}
    assert [path.name for path in folder.parent.iterdir()] == ["run"]
    labels = pd.read_csv(folder / "labels.csv")
    memberships = labels[[f"membership_{j}" for j in range(3)]].to_numpy()
    assert labels["id"].tolist() == results.views.ids.tolist()
    assert labels["label"].tolist() == results.model.labels_.tolist()
    assert_allclose(memberships.sum(axis=1), 1.0, rtol=1e-8)
    ordered = np.sort(memberships, axis=1)
    assert_allclose(labels["confidence"], ordered[:, 2] - ordered[:, 1], atol=1e-9)
    has = results.views.present[7]
    seen = [name for name, present in zip(results.views.names, has, strict=True) if present]
    assert labels["views_seen"][7] == "; ".join(seen)
    assert_allclose(pd.read_csv(folder / "weights.csv")["weight"].sum(), 1.0, atol=0.002)
    metrics = json.loads((folder / "metrics.json").read_text())
    shown = shown_sizes(np.bincount(results.model.labels_), results.min_cell)
    assert [str(size) for size in metrics["cluster_sizes"]] == [str(size) for size in shown]
    assert metrics["comparison"] is None


def test_what_tells_of_single_subjects_is_for_its_owner_only(results, tmp_path):
    write(results, tmp_path / "run")
    write(results, tmp_path / "each", subjects=True)
    private = {"labels.csv", "model.safetensors"}
    for folder, closed in (("run", private), ("each", private | {"report.html", "summary.json"})):
        for path in (tmp_path / folder).iterdir():
            open_to_others = bool(stat.S_IMODE(path.stat().st_mode) & 0o077)
            assert open_to_others == (path.name not in closed), path


def test_the_run_tells_how_to_repeat_it(results, cohort, tmp_path):
    write(results, tmp_path / "run")
    about = json.loads((tmp_path / "run" / "run.json").read_text())
    for name in ("vbm.csv", "participants.csv", "genotypes/snps.fam"):
        assert about["inputs"][name] == hashlib.sha256((cohort / name).read_bytes()).hexdigest()
    assert about["seed"] == 5
    assert about["settings"]["views"]["snp"]["path"] == "genotypes/snps.bed"
    assert about["settings"]["model"]["gamma"] == 2.0
    assert {"viewloom", "numpy", "python"} <= set(about["versions"])
    assert str(cohort) not in (tmp_path / "run" / "run.json").read_text()


def test_same_inputs_and_seed_give_the_same_bytes_whatever_the_number_of_jobs(study, run, tmp_path):
    with parallel_config(backend="threading"):  # processes take long to start
        run_study(study, tmp_path / "two", n_jobs=2)
    assert contents(tmp_path / "two") == contents(run)


def test_methods_are_compared_but_for_those_that_choose_by_the_labels(study, run, tmp_path, monkeypatch):
    methods = ["SV vbm", "SV fdg", "SV snp", "k-means", "ours, Gaussian (oracle)", "ours, linear"]
    monkeypatch.setattr(stages.comparison, "method_names", lambda views: methods)
    found = run_study(study, tmp_path / "run", compare=True, seeds=2).comparison
    assert found.table.index.tolist() == [*methods[:3], "SV (mean)", "k-means", "ours, linear"]
    assert_allclose(found.table.loc["SV (mean)", "Acc"], found.table["Acc"][:3].mean())
    metrics = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert metrics["comparison"]["k-means"].keys() == {"Acc", "NMI", "ARI", "RI", "MI"}
    assert (tmp_path / "run" / "labels.csv").read_bytes() == (run / "labels.csv").read_bytes()


def test_an_interrupted_run_leaves_old_results_and_resumes_to_the_same_bytes(
    study, run, tmp_path, monkeypatch
):
    folder, calls, refit = tmp_path / "run", [], stages.refit
    shutil.copytree(run, folder)
    before = everything(folder)

    def interrupted(*arguments):
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return refit(*arguments)

    monkeypatch.setattr(stages, "refit", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_study(study, folder)
    assert everything(folder) == before
    hidden = tmp_path / ".run.unfinished"
    assert stat.S_IMODE(hidden.stat().st_mode) == 0o700
    assert [path.name for path in hidden.iterdir()] == ["checkpoints"]
    monkeypatch.setattr(stages, "rank", None)  # must not be called again
    monkeypatch.setattr(analysis, "KernelMultiviewNMF", None)
    run_study(study, folder, resume=True)
    assert len(calls) == 3 + REFITS - 2
    assert contents(folder) == contents(run)
    assert not hidden.exists()


def test_without_resume_all_is_done_anew(study, tmp_path, monkeypatch):
    def interrupted(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(stages, "refit", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_study(study, tmp_path / "run")
    monkeypatch.setattr(stages, "rank", lambda *arguments: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        run_study(study, tmp_path / "run")
    assert sorted(path.name for path in tmp_path.iterdir()) == [".run.unfinished", "files"]


KILLED = """
import os, signal, sys
from viewloom import KernelMultiviewNMF, report
from viewloom.study.run import computations as stages, run_study
from viewloom.study import read_study
report.summarize = lambda results, subjects: {"title": results.name}
report.figures = lambda results, summary: {}
report.to_html = lambda summary, figures: "<h1>"
stages.REFITS, refit, calls = int(sys.argv[3]), stages.refit, []
def killed(*arguments):
    calls.append(1)
    if len(calls) == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return refit(*arguments)
stages.refit = killed
run_study(read_study(sys.argv[1]), sys.argv[2])
"""


def test_a_killed_run_resumes_to_the_same_bytes(study, run, tmp_path):
    command = [sys.executable, "-c", KILLED, str(study.path), str(tmp_path / "run"), str(REFITS)]
    killed = subprocess.run(command, check=False, capture_output=True)
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()
    assert sorted(path.name for path in tmp_path.iterdir()) == [".run.unfinished", "files"]
    run_study(study, tmp_path / "run", resume=True)
    assert contents(tmp_path / "run") == contents(run)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["files", "run"]


def test_a_run_that_fails_while_writing_leaves_the_old_one(results, tmp_path, monkeypatch):
    write(results, tmp_path / "run")
    before = everything(tmp_path)
    monkeypatch.setattr(report, "to_html", lambda *arguments: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        write(results, tmp_path / "run")
    assert everything(tmp_path) == before


def test_a_run_killed_between_renames_is_put_back(results, study, tmp_path):
    write(results, tmp_path / "run")
    before = contents(tmp_path / "run")
    (tmp_path / ".run.unfinished").mkdir()
    (tmp_path / "run").rename(tmp_path / ".run.unfinished" / "old")
    (study.path.parent / "vbm.csv").write_text("")
    with pytest.raises(StudyError, match="empty"):
        run_study(study, tmp_path / "run")
    assert contents(tmp_path / "run") == before
    assert not (tmp_path / ".run.unfinished").exists()


def test_files_that_change_meanwhile_stop_the_run(study, tmp_path, monkeypatch):
    refit = stages.refit

    def meddling(*arguments):
        with (study.path.parent / "fdg.csv").open("a") as file:
            file.write("\n")
        return refit(*arguments)

    monkeypatch.setattr(stages, "refit", meddling)
    with pytest.raises(StudyError, match=r"fdg.csv: changed while the study was running"):
        run_study(study, tmp_path / "run")
    assert [path.name for path in tmp_path.iterdir()] == ["files"]


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (
            lambda folder: folder.mkdir() or (folder / "thesis.docx").touch(),
            "has 1 files that are not from a",
        ),
        (lambda folder: folder.touch(), "is a file"),
        (lambda folder: folder.mkdir() or (folder / "run.json").write_text("{}"), "has 1 files"),
    ],
)
def test_nothing_but_a_run_is_replaced(results, tmp_path, spoil, message):
    spoil(tmp_path / "run")
    before = everything(tmp_path)
    with pytest.raises(StudyError, match=message):
        write(results, tmp_path / "run")
    assert everything(tmp_path) == before
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_two_runs_do_not_write_one_folder(results, tmp_path):
    fcntl = pytest.importorskip("fcntl")
    (tmp_path / ".run.unfinished" / "new").mkdir(parents=True)
    other = os.open(tmp_path / ".run.unfinished", os.O_RDONLY)
    fcntl.flock(other, fcntl.LOCK_EX)
    with pytest.raises(StudyError, match="another run is writing to it"):
        write(results, tmp_path / "run")
    assert (tmp_path / ".run.unfinished" / "new").exists()
    os.close(other)
    write(results, tmp_path / "run")


def test_the_report_is_made_again_without_data(results, tmp_path, whole_report):
    write(results, tmp_path / "run")
    page = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert "Small" in page
    assert not any(subject in page for subject in results.views.ids)
    (tmp_path / "run" / "report.html").unlink()
    assert rewrite_report(tmp_path / "run").read_text(encoding="utf-8") == page
    for content in ("[]", '{"format": 99}', '{"summary": {"title": {}}, "figures": {}}'):
        (tmp_path / "run" / "summary.json").write_text(content)
        with pytest.raises(StudyError, match="damaged or of another version"):
            rewrite_report(tmp_path / "run")
    with pytest.raises(StudyError, match="not a run folder"):
        rewrite_report(tmp_path)


@pytest.fixture(scope="module")
def run(results, tmp_path_factory):
    folder = tmp_path_factory.mktemp("fitted") / "run"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(report, "unnamed_summary", in_name_only)
        patch.setattr(report, "figure_data", lambda results, summary: {})
        patch.setattr(report, "to_html", lambda summary, figures: "")
        write(results, folder)
    return folder


def subjects_only(study, ids):
    """The files of a study cut down to some subjects; genotypes are left out."""
    folder = study.path.parent
    for name in ("vbm.csv", "fdg.csv", "participants.csv"):
        frame = pd.read_csv(folder / name)
        frame[frame["participant_id"].isin(ids)].to_csv(folder / name, index=False)
    text = TOML.replace('[views.snp]\npath = "genotypes/snps.bed"\nmin_maf = 0.2\n', "")
    (folder / "study.toml").write_text(text, encoding="utf-8")
    return read_study(folder / "study.toml")


def test_new_subjects_are_placed_one_by_one_as_together(study, results, run):
    everyone = predict(run, study).set_index("id")
    agree = (everyone["label"] == results.model.labels_).mean()
    assert everyone.index.tolist() == results.views.ids.tolist()
    assert agree > 0.9
    complete = everyone.index[results.views.present.all(axis=1)][:2]
    few = predict(run / "model.safetensors", subjects_only(study, complete)).set_index("id")
    assert few["views_seen"].tolist() == ["vbm; fdg"] * 2
    one = predict(run, subjects_only(study, complete[1:])).set_index("id")
    assert_allclose(one["membership_0"], few["membership_0"][1:], atol=1e-9)
    assert_allclose(one["distance"], few["distance"][1:])


def test_who_is_far_from_everything_is_said(study, run, results):
    assert (predict(run, study)["far"] == "yes").mean() <= 0.05
    frame = pd.read_csv(study.path.parent / "vbm.csv")
    stranger = frame["participant_id"][3]
    frame.loc[3, frame.columns[1:]] *= 10.0
    frame.to_csv(study.path.parent / "vbm.csv", index=False)
    found = predict(run, study).set_index("id")
    assert found.loc[stranger, "far"] == "yes"
    assert found.loc[stranger, "far_in"] == "vbm"
    assert found.loc[stranger, "distance"] > 5.0
    assert ((found["far"] == "yes") == (found["distance"] > 1.0)).all()
    assert (found["far"] == "yes").mean() <= 0.07


def test_predictions_replace_nothing_but_predictions(study, run, tmp_path):
    table = predict(run, study)
    path = write_predictions(table, tmp_path / "placed.csv")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert pd.read_csv(write_predictions(table, path))["id"].tolist() == table["id"].tolist()
    with pytest.raises(StudyError, match="does not contain predictions"):
        write_predictions(table, study.path.parent / "vbm.csv")
    with pytest.raises(StudyError, match="no such model"):
        predict(tmp_path, study)


def test_text_that_a_spreadsheet_would_compute_is_inert(tmp_path):
    names = ["=1+1", "+1", "-1", "@x", "\tx", "\rx", "plain", "a=b", "1.5"]
    frame = pd.DataFrame({"feature": names, "=x": -1.0 / 3.0, "count": -2})
    tables.write_csv(frame, tmp_path / "t.csv")
    text = (tmp_path / "t.csv").read_bytes().decode()
    assert text.startswith("feature,'=x,count\n'=1+1,-0.3333333333,-2\n")
    read = pd.read_csv(tmp_path / "t.csv", dtype=str)["feature"].tolist()
    assert read == ["'=1+1", "'+1", "'-1", "'@x", "'\tx", "' x", "plain", "a=b", "1.5"]


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["mri", "MRI", "mri_2"], ["mri", "MRI_2", "mri_2_2"]),
        (["../../etc/passwd", "..", "a\\b:c"], ["etc_passwd", "view", "a_b_c"]),
        (["é", "e\u0301"], ["é", "é_2"]),
    ],
)
def test_names_of_views_become_harmless_names_of_files(names, expected):
    assert tables.file_names(names) == expected


def test_long_names_of_views_fit_a_file_system():
    one, other = tables.file_names(["\U0001d538" * 64, "\U0001d538" * 63])
    assert one != other
    assert max(len(name.encode()) for name in (one, other)) < 200


def test_comparing_needs_a_diagnosis(study, tmp_path):
    frame = pd.read_csv(study.path.parent / "participants.csv").assign(diagnosis="AD")
    frame.to_csv(study.path.parent / "participants.csv", index=False)
    with pytest.raises(StudyError, match="needs at least two diagnoses, and the clustered subjects have 1"):
        run_study(study, tmp_path / "new" / "run", compare=True)
    assert not (tmp_path / "new").exists()


def test_the_number_of_clusters_is_asked_for_within_what_the_subjects_allow(results, monkeypatch):
    fewer = partial(stages.selection.choose_k, n_subsamples=2, n_twins=2)
    monkeypatch.setattr(stages.selection, "choose_k", fewer)
    monkeypatch.setattr(stages, "LEAST_PER_CLUSTER", 24)
    serial = stages.Stages(None, "", 1, False)
    assert stages.number(results.model, results.views, serial).table["k"].tolist() == [2]
    monkeypatch.setattr(stages, "LEAST_PER_CLUSTER", 25)
    with pytest.raises(StudyError, match="48 subjects are too few"):
        stages.number(results.model, results.views, serial)


def test_wide_views_are_ranked_by_their_centroids(results, monkeypatch):
    model = KernelMultiviewNMF(3, kernel="gaussian", random_state=0).fit(results.views)
    found = stages.rank(model, results.views, "vbm")
    assert found["method"] == "permutation"
    monkeypatch.setattr(stages, "MOST_PLACED", 10)
    wide = stages.rank(model, results.views, "vbm")
    assert wide["method"] == "F = X^T P"
    rows = results.views.rows(0)
    X, G = results.views["vbm"][rows], model.view_memberships_[0][rows]
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    gram = 0.5 * G.T @ G + 0.5 * np.diag(G.sum(axis=0))  # sharpness of a half
    F = X.T @ G @ np.linalg.inv(gram)
    assert_allclose([row[1] for row in wide["table"]["data"]], np.sort(np.linalg.norm(F, axis=1))[::-1])


def test_subjects_without_a_diagnosis_are_left_out_of_the_comparison_only(study):
    frame = pd.read_csv(study.path.parent / "participants.csv")
    frame.loc[:9, "diagnosis"] = None
    frame.to_csv(study.path.parent / "participants.csv", index=False)
    found = analysis.prepare(study)
    assert len(found.classes) == len(frame) - 10
    assert len(found.views) == len(frame)


def test_stability_counts_agreement_by_hand():
    labels = [0, 0, 0, 1, 1, 1]
    seen = np.array([[1, 1, 1, 1, 1, 1], [1, 1, 0, 1, 1, 0], [0, 0, 0, 1, 1, 1]], dtype=bool)
    refits = np.array([[1, 1, 1, 0, 0, 0], [5, 5, 7, 5, 7, 7], [0, 0, 0, 1, 1, 1]])
    found = Stability.of(labels, refits, seen, ids=list("abcdef"))
    assert_allclose(found.clusters, [(1 + 2 / 3) / 2, (1 + 1 / 2 + 1) / 3])
    # cluster 5 is matched with 0 and 7 with 1; the last refit has seen 1 only
    assert_allclose(found.subjects, [2 / 3, 2 / 3, 1 / 3, 2 / 3, 1, 1])
    assert found.subjects.index.tolist() == list("abcdef")


def test_stability_without_refits_is_unknown():
    found = Stability.of([0, 1, 1], np.empty((0, 3), dtype=int), np.empty((0, 3), dtype=bool))
    assert found.clusters.isna().all()
    assert found.subjects.isna().all()
    assert np.isnan(found.overall)
