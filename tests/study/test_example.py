"""The simulated cohort comes back from its files."""

import sys

import numpy as np
import pytest
from numpy.testing import assert_allclose

from viewloom.data.simulated import adni_like
from viewloom.study import load, read_study
from viewloom.study.errors import StudyError
from viewloom.study.example import freesurfer_names, write_example
from viewloom.study.readers import FORMATS, sniff

pytest.importorskip("bed_reader")

FORMAT = {
    "vbm.csv": "table",
    "fdg.csv": "long",
    "freesurfer/aseg.volume.tsv": "freesurfer-table",
    "freesurfer/lh.aparc.thickness.tsv": "freesurfer-table",
    "freesurfer/rh.aparc.thickness.tsv": "freesurfer-table",
    "genotypes/snps.bed": "plink",
    "participants.csv": "table",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("a study é") / "new" / "folder"
    paths = write_example(folder, random_state=3, missing=0.2)
    assert paths[0] == folder / "study.toml"
    assert set(paths) == {path for path in folder.rglob("*") if path.is_file()}
    return folder


@pytest.fixture(scope="module")
def cohort():
    return adni_like(random_state=3, missing=0.2)


@pytest.mark.parametrize("name", FORMAT)
def test_formats_are_recognised(folder, name):
    assert sniff(folder / name) == FORMAT[name]


@pytest.mark.parametrize("view", ["vbm", "freesurfer", "fdg", "snp"])
def test_readers_give_the_views_back(folder, cohort, view):
    read = {
        "vbm": lambda: FORMATS["table"](folder / "vbm.csv", id="participant_id"),
        "freesurfer": lambda: FORMATS["freesurfer-table"]([folder / n for n in FORMAT if "freesurfer/" in n]),
        "fdg": lambda: FORMATS["long"](folder / "fdg.csv", id="participant_id", name="region", value="suvr"),
        "snp": lambda: FORMATS["plink"](folder / "genotypes/snps.bed"),
    }
    frame = read[view]()
    rows = cohort.views.rows(cohort.views.index(view))
    assert frame.index.tolist() == cohort.views.ids[rows].tolist()
    names = cohort.views.feature_names[view]
    if view == "freesurfer":
        frame = frame[[freesurfer_names()[name] for name in names]]
    elif view == "snp":
        assert [name.rpartition("_")[0] for name in frame.columns] == list(names)
        assert "rs429358_C" in frame.columns
    else:
        assert frame.columns.tolist() == list(names)
    assert_allclose(frame, cohort.views[view][rows], rtol=1e-14)


def test_participants_come_back(folder, cohort):
    people = FORMATS["table"](folder / "participants.csv", id="participant_id", numeric=False)
    expected = cohort.participants
    assert people.index.tolist() == expected.index.tolist()
    assert people.columns.tolist() == expected.columns.tolist()
    for name in expected:
        if expected[name].dtype.kind in "if":
            assert_allclose(people[name], expected[name], rtol=1e-14)
        else:
            assert people[name].tolist() == expected[name].tolist()


def test_the_study_loads(folder, cohort):
    data = load(read_study(folder / "study.toml"))
    assert data.views.names == ["vbm", "freesurfer", "fdg", "snp"]
    assert data.views.ids.tolist() == cohort.views.ids.tolist()
    assert (data.views.present == cohort.views.present).all()
    assert data.participants["diagnosis"].tolist() == cohort.participants["diagnosis"].tolist()


def test_the_same_seed_writes_the_same_bytes(folder, tmp_path):
    for path in write_example(tmp_path, random_state=3, missing=0.2):
        assert path.read_bytes() == (folder / path.relative_to(tmp_path)).read_bytes(), path.name


def test_files_that_are_there_are_not_touched(tmp_path):
    (tmp_path / "participants.csv").write_text("mine")
    with pytest.raises(StudyError, match="1 files of a study already exist; choose another folder"):
        write_example(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["participants.csv"]
    assert (tmp_path / "participants.csv").read_text() == "mine"


def test_without_bed_reader_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "bed_reader", None)
    with pytest.raises(ImportError, match=r"pip install viewloom\[study\]"):
        write_example(tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_names_of_freesurfer_are_unique():
    names = list(freesurfer_names().values())
    assert len(set(names)) == len(names) == 56
    assert np.all([name.startswith(("Left-", "Right-", "lh_", "rh_")) for name in names])
