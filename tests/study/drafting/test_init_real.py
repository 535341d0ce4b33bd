"""`init` on real files of others: every file is used or explained, every draft passes `check`."""

import os
import re
import shutil
from pathlib import Path

import pytest

from viewloom.study.check import check
from viewloom.study.config.toml import read_study
from viewloom.study.drafting.draft import draft
from viewloom.study.errors import StudyError

REAL = Path(os.environ.get("VIEWLOOM_REALFILES", Path(__file__).parents[3].parent / "shared" / "realfiles"))
pytestmark = pytest.mark.skipif(not REAL.is_dir(), reason="real files not found; set VIEWLOOM_REALFILES")
FOLDERS = ["fs", "abide", "mlni", "plink_toy", "plink_chr", "pgen", "vcf", "h5mu", "sav"]
MIXTURES = [
    ("mlni", "abide", "sav"),
    ("plink_chr", "plink_toy", "pgen"),
    ("fs", "mlni", "h5mu"),
    tuple(FOLDERS),
]
STUDIES = {  # what is to be drafted, where it is clear
    "fs": {"freesurfer"},
    "abide": {"FS_data_ABIDE_common"},
    "mlni": {"test_feature"},
    "plink_toy": {"toydata_5chrom"},
    "plink_chr": {"genotypes"},
}


def explained(folder):
    """All that is said of the files, and the study if there is one."""
    try:
        drafted = draft(folder)
    except StudyError as error:
        return str(error), None
    (folder / "study.toml").write_text(drafted.text, encoding="utf-8")
    study = read_study(folder / "study.toml")
    assert check(study).problems == []
    (folder / "study.toml").unlink()
    return "\n".join([*drafted.used, *drafted.passed]), study


def is_told(path, text):
    """Whether a file is spoken of by name, with the set it belongs to, or by its kind."""
    names = [path.name, path.with_suffix(".bed").name, re.sub(r"^[lr]h\.", "?h.", path.name)]
    return any(name in text for name in names)


def copied(tmp_path, names):
    for name in names:
        shutil.copytree(REAL / name, tmp_path / name, copy_function=shutil.copyfile)
        for place, _, _ in os.walk(tmp_path / name):
            Path(place).chmod(0o755)
    return tmp_path


@pytest.mark.parametrize("name", FOLDERS)
def test_each_folder(tmp_path, name):
    if name == "abide":
        pytest.importorskip("python_calamine")
    folder = copied(tmp_path, [name]) / name
    text, study = explained(folder)
    assert all(is_told(path, text) for path in folder.rglob("*") if path.is_file())
    if name in STUDIES:
        assert set(study.views) == STUDIES[name]


@pytest.mark.parametrize("names", MIXTURES, ids="+".join)
def test_mixtures(tmp_path, names):
    folder = copied(tmp_path, names)
    text, study = explained(folder)
    assert study is not None
    files = [path for path in folder.rglob("*") if path.is_file()]
    untold = [path for path in files if not is_told(path, text) and "fs" not in path.parts]
    assert untold == []


def test_a_subject_of_freesurfer_alone_is_too_few(tmp_path):
    text, study = explained(copied(tmp_path, ["fs"]) / "fs" / "sub-01")
    assert study is None
    assert "1 subject in total: at least 4 are needed" in text


def test_modalities_are_views(tmp_path):
    pytest.importorskip("anndata")
    text, study = explained(copied(tmp_path, ["h5mu"]) / "h5mu")
    assert [view.modality for view in study.views.values()] == ["mod1", "mod2"]
    assert "not joined" in text
