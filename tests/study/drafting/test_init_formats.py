"""`viewloom init` on folders of single formats, and on one that mixes ten: drafts that check and fit."""

import foreign_files as foreign
import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from viewloom.cli import app
from viewloom.study.check import check
from viewloom.study.config.toml import parse_study, read_study
from viewloom.study.drafting.draft import draft

N = 24
RIDS = list(range(2, 2 + N))
IDS = [f"sub-ADNI011S{rid:04d}" for rid in RIDS]


def drafted(folder):
    return parse_study(draft(folder).text, folder / "study.toml")


@pytest.fixture
def mixture(tmp_path, monkeypatch):
    """Ten formats of one cohort, whose subjects are named by RID, PTID or as in BIDS."""
    pytest.importorskip("nibabel")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = tmp_path / "data"
    folder.mkdir()
    rng = np.random.default_rng(0)
    foreign.bids(folder / "bids", IDS)
    foreign.berkeley(RIDS, tracers=("FBP",) * 9 + ("FBB",)).to_csv(
        folder / "UCBERKELEY_AMY_6MM.csv", index=False
    )
    tau = foreign.berkeley(RIDS, kind="tau", visits=("m36", "m60"))
    tau.to_csv(folder / "UCBERKELEY_TAU_6MM.csv", index=False)
    foreign.caps(folder / "CAPS", IDS)
    foreign.merged(IDS).to_csv(folder / "merged.tsv", sep="\t", index=False)
    foreign.cat12(folder / "cat12", [f"{id}_T1w" for id in IDS])
    foreign.nifti(folder / "cbf", [f"{id}_cbf" for id in IDS])
    foreign.muse(IDS).to_csv(folder / "DLMUSE_Volumes.csv", index=False)
    for id in IDS:
        stats = folder / "subjects" / id / "stats"
        stats.mkdir(parents=True)
        rows = "".join(
            f"{i} {i} 9 {rng.normal(3000, 99):.1f} {name} 1\n"
            for i, name in enumerate(("Left-Hippocampus", "Left-Amygdala"))
        )
        (stats / "aseg.stats").write_text(
            "# ColHeaders  Index SegId NVoxels Volume_mm3 StructName normMean\n" + rows
        )
    proteins = pd.DataFrame(rng.normal(size=(N, 3)), columns=["p1", "p2", "p3"])
    pd.concat([pd.Series(IDS, name="participant_id"), proteins], axis=1).to_csv(
        folder / "proteins.csv", index=False
    )
    fdg = [
        [rid, "bl", "bl", roi, rng.normal(1.2, 0.1)] for rid in RIDS for roi in ("MetaROI", "Top50PonsVermis")
    ]
    header = ["RID", "VISCODE", "VISCODE2", "ROINAME", "MEAN"]
    pd.DataFrame(fdg, columns=header).to_csv(folder / "UCBERKELEYFDG.csv", index=False)
    return folder


def run(*arguments):
    """The output of a command that succeeds."""
    done = CliRunner().invoke(app, [*map(str, arguments)], env={"COLUMNS": "80"})
    assert done.exit_code == 0, done.output
    return done.output


def test_ten_formats_in_one_folder(mixture, monkeypatch):
    """By the commands of a newcomer, with a fit that does little."""
    path = mixture / "study.toml"
    told = run("init", mixture)
    study = read_study(path)
    formats = {view.format for view in study.views.values()} | {study.participants.format}
    assert formats == {
        "adni-pet", "bids", "caps", "cat12", "clinica-merge", "fdg", "freesurfer", "muse", "nifti", "table",
    }  # fmt: skip
    assert study.participants.diagnosis == "group"
    pet = {view.visit for view in study.views.values() if view.format == "adni-pet"}
    assert pet == {"bl", "first"}
    assert len(study.views) == 12
    assert all(f"view '{name}'" in " ".join(told.split()) for name in study.views)
    told = run("check", path)
    assert "24 subjects" in told
    assert "Subjects by available views, numbered in their order above" in told  # 12 names are too wide
    monkeypatch.setattr("viewloom.study.run.computations.REFITS", 2)
    monkeypatch.setattr("viewloom.study.run.analysis.feature_q", lambda *_: {})
    path.write_text(path.read_text().replace("seed = 0", "seed = 0\nmax_iter = 2"))
    run("fit", path, "--twins", 0, "--splits", 0, "--jobs", 1, "--quiet")
    labels = pd.read_csv(mixture / "study-results" / "labels.csv")
    assert len(labels) == N
    assert len(pd.read_csv(mixture / "study-results" / "weights.csv")) == 12


def test_a_folder_of_cat12_has_a_view_of_volumes_and_one_of_the_surface(tmp_path):
    """Reports elsewhere are no view, and those as .mat are the same reports."""
    foreign.cat12(tmp_path / "out", IDS)
    for path in (tmp_path / "out" / "label").iterdir():
        surface = (
            path.read_text()
            .replace("hammers>", "aparc_a2009s>")
            .replace("neuromorphometrics>", "aparc_DK40>")
        )
        thick = (
            surface.replace("Vgm>", "thickness>").replace("Vcsf>", "gyrification>").replace("Vwm>", "depth>")
        )
        path.with_name(path.name.replace("catROI_", "catROIs_")).write_text(thick)
    (tmp_path / "out" / "report").rename(tmp_path / "reports")
    for path in [*(tmp_path / "reports").iterdir()]:
        path.with_suffix(".mat").write_bytes(b"MATLAB 5.0 MAT-file")
    told = " ".join(run("init", tmp_path).split())
    study = read_study(tmp_path / "study.toml")
    assert [(view.format, view.options["atlas"]) for view in study.views.values()] == [
        ("cat12", "neuromorphometrics"),
        ("cat12", "aparc_DK40"),
    ]
    assert "covariates rather than features" in told
    assert ".mat" not in told


def test_a_folder_of_clinica_has_a_view_per_pipeline(tmp_path):
    foreign.caps(tmp_path / "CAPS", IDS[:12], ("M000", "M012"))
    foreign.merged(IDS[:12], ("ses-M000", "ses-M012")).to_csv(tmp_path / "merged.tsv", sep="\t", index=False)
    study = drafted(tmp_path)
    assert {view.format for view in study.views.values()} == {"caps", "clinica-merge"}
    assert {view.statistics["pipeline"] for view in study.views.values()} == {
        "t1",
        "pet",
        "t1-volume",
        "pet-volume",
    }
    assert {view.visit for view in study.views.values()} == {"bl", "first"}
    assert not check(study).problems


def test_tables_of_ppmi(tmp_path):
    """The cohort is a diagnosis and no feature, tests are long, and 101 is no rating."""
    rng, subjects = np.random.default_rng(0), list(range(3000, 3060))
    status = {
        "COHORT": 1,
        "COHORT_DEFINITION": ["PD", "Healthy Control"] * 30,
        "ENROLL_AGE": rng.normal(62, 9, 60),
    }
    pd.DataFrame({"PATNO": subjects, **status}).to_csv(tmp_path / "Participant_Status.csv", index=False)
    scores = pd.DataFrame(rng.integers(0, 4, (60, 4)), columns=["NP3SPCH", "NP3FACXP", "NP3RIGN", "NP3GAIT"])
    scores.loc[[3, 9], "NP3GAIT"] = 101
    scores.insert(0, "PATNO", subjects)
    scores.to_csv(tmp_path / "MDS-UPDRS_Part_III.csv", index=False)
    tests = ["tTau", "pTau", "ABeta 1-42"]
    rows = [(id, "BL", test, rng.normal(100, 20), "pg/ml") for id in subjects for test in tests]
    header = ["PATNO", "CLINICAL_EVENT", "TESTNAME", "TESTVALUE", "UNITS"]
    pd.DataFrame(rows, columns=header).to_csv(tmp_path / "Biospecimen.csv", index=False)
    told = " ".join(run("init", tmp_path).split())
    study = read_study(tmp_path / "study.toml")
    assert study.participants.diagnosis == "COHORT_DEFINITION"
    assert study.participants.covariates == ["ENROLL_AGE"]
    assert [(name, view.format) for name, view in study.views.items()] == [("Biospecimen", "long")]
    assert "column 'NP3GAIT': 101 in 2 cells, far from all other values" in told
    assert not check(study).problems


def test_uk_biobank(tmp_path):
    foreign.ukb(range(1000, 1000 + N)).to_csv(tmp_path / "ukb.csv", index=False)
    study = drafted(tmp_path)
    (view,) = study.views.values()
    assert (view.format, view.instance, view.arrays) == ("ukb", 2, "drop")


def test_oasis3(tmp_path):
    ids = [f"OAS3{i:04d}" for i in range(N)]
    foreign.oasis(ids).to_csv(tmp_path / "freesurfer.csv", index=False)
    pet = foreign.oasis(ids, days=(200,), seed=1).rename(columns={"FS_FSDATA ID": "PUP_PUPTIMECOURSEDATA ID"})
    pet.rename(columns={"lhCortexVol": "a", "IntraCranialVol": "b", "Left-Hippocampus_volume": "c"}).to_csv(
        tmp_path / "pup.csv", index=False
    )
    clinic = foreign.oasis(ids, days=(0, 900)).drop(columns=["version"]).iloc[:, :3]
    clinic = clinic.rename(columns={"FS_FSDATA ID": "ADRC_ADRCCLINICALDATA ID"})
    rng = np.random.default_rng(0)
    clinic = clinic.assign(age=rng.normal(70, 5, 2 * N).round(1), diagnosis=np.repeat(["CN", "AD"], N))
    clinic.to_csv(tmp_path / "clinical.csv", index=False)
    study = drafted(tmp_path)
    assert {view.format for view in study.views.values()} == {"oasis3"}
    assert set(study.views) == {"freesurfer", "pup"}
    assert study.participants.format == "oasis3"
    assert (study.participants.diagnosis, study.participants.visit) == ("diagnosis", "first")
    found = check(study)
    assert not found.problems
