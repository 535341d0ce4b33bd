"""`viewloom init` on a folder that mixes kinds of files, sheets and spellings of ids."""

import gzip

import numpy as np
import pandas as pd
import pytest
from inprocess import without_process

from viewloom.study.check import check
from viewloom.study.config.toml import parse_study
from viewloom.study.drafting.draft import draft
from viewloom.study.readers import statfiles

pytest.importorskip("python_calamine")
pytest.importorskip("openpyxl")
pyreadstat = pytest.importorskip("pyreadstat")
rdata = pytest.importorskip("rdata")
N = 16
IDS = [f"OAS3{i:04d}" for i in range(N)]


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(0)

    def table(name, ids=IDS, id="subject_id"):
        values = pd.DataFrame(rng.normal(size=(len(ids), 3)), columns=[f"{name}{j}" for j in range(3)])
        return pd.concat([pd.DataFrame({id: ids}), values], axis=1)

    people = pd.DataFrame(
        {"subject_id": IDS, "age": rng.normal(70, 5, N).round(1), "diagnosis": ["CN", "AD"] * (N // 2)}
    )
    with pd.ExcelWriter(tmp_path / "clinic.xlsx") as book:
        people.to_excel(book, sheet_name="participants", index=False, startrow=2)
        table("volume").to_excel(book, sheet_name="volumes", index=False)
    pyreadstat.write_sav(table("memory"), tmp_path / "memory.sav")
    table("pet").to_stata(tmp_path / "pet.dta", write_index=False)
    pyreadstat.write_xport(table("blood"), tmp_path / "blood.xpt")
    rdata.write_rds(tmp_path / "csf.rds", table("csf").astype({"subject_id": pd.StringDtype("python")}))
    table("eeg").to_feather(tmp_path / "eeg.feather")
    (tmp_path / "genes.csv.gz").write_bytes(gzip.compress(table("gene").to_csv(index=False).encode()))
    visits = [f"{id}_MR_d{day:04d}" for id in IDS for day in (10, 700)]
    table("thickness", visits, "scan").to_csv(tmp_path / "mri.tsv", sep="\t", index=False)
    return tmp_path


def test_a_mixture(folder, monkeypatch):
    monkeypatch.setattr(statfiles, "started", without_process)
    drafted = draft(folder)
    study = parse_study(drafted.text, folder / "study.toml")
    names = {"clinic_volumes", "memory", "pet", "blood", "csf", "eeg", "genes", "mri"}
    assert set(study.views) == names
    assert study.participants.sheet == "participants"
    assert study.views["mri"].id.column == "scan"
    assert study.views["mri"].visit == "first"
    assert any(
        f"view 'mri'; {N} subjects in {2 * N} rows, 3 numeric columns" in line for line in drafted.used
    )
    assert any(f"ids by a pattern: {N} of {N} subjects are in other tables" in line for line in drafted.used)
    found = check(study)
    assert not found.problems


def test_a_workbook_of_freesurfer(tmp_path):
    """One sheet per hemisphere is one view of one file."""
    values = np.random.default_rng(0).normal(3, 0.1, size=(2, N, 3)).round(4)
    with pd.ExcelWriter(tmp_path / "freesurfer.xlsx") as book:
        for side, rows in zip(("lh", "rh"), values, strict=True):
            names = [f"{side}_{region}_thickness" for region in ("cuneus", "insula", "fusiform")]
            sheet = pd.DataFrame(rows, pd.Index(IDS, name=f"{side}.aparc.thickness"), names)
            sheet.to_excel(book, sheet_name=side)
    study = parse_study(draft(tmp_path).text, tmp_path / "study.toml")
    (view,) = study.views.values()
    assert (view.format, view.path.name) == ("freesurfer-table", "freesurfer.xlsx")
    assert check(study).views["features"].tolist() == [6]


@pytest.mark.parametrize("ids", [IDS, [f"{n:03d}" for n in range(1, N + 1)]], ids=["text", "digits"])
def test_a_transposed_table_of_freesurfer(tmp_path, ids):
    """Rows are regions, as with --transpose: columns are subjects."""
    regions = pd.Index(["Left-Hippocampus", "Right-Hippocampus", "Left-Amygdala"], name="Measure:volume")
    values = np.random.default_rng(0).normal(3000, 100, size=(3, N)).round(1)
    pd.DataFrame(values, regions, ids).to_csv(tmp_path / "aseg.txt", sep="\t")
    study = parse_study(draft(tmp_path).text, tmp_path / "study.toml")
    found = check(study)
    assert (found.views["subjects"].tolist(), found.views["features"].tolist()) == ([N], [3])


def test_columns_that_need_correction_are_left_out_and_named(tmp_path):
    """One such cell does not keep `init` from drafting the rest; ids with zeros are no row numbers."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(N, 3)).round(3), columns=["a", "b", "c"])
    table.insert(0, "", [f"{n:03d}" for n in range(1, N + 1)])
    table["share"] = [f"{n} %" for n in range(N)]
    table["dose"] = ["`", *map(str, range(1, N))]
    table.to_csv(tmp_path / "t.csv", index=False)
    drafted = draft(tmp_path)
    (view,) = parse_study(drafted.text, tmp_path / "study.toml").views.values()
    assert (view.id, view.exclude) == ("row.names", ["share", "dose"])
    assert any("numeric except for a few cells: 'dose'" in line for line in drafted.used)


def test_a_list_of_tables_of_r(tmp_path):
    """Each table of a list is a view, named as its part."""
    rng = np.random.default_rng(0)
    people = pd.Index(IDS, dtype=object)
    parts = {
        name: pd.DataFrame(rng.normal(size=(N, 3)), people, [f"{name}{j}" for j in range(3)])
        for name in ("gene", "lipid")
    }
    rdata.write_rda(tmp_path / "mice.RData", {"mice": parts})
    study = parse_study(draft(tmp_path).text, tmp_path / "study.toml")
    assert {name: view.object for name, view in study.views.items()} == {
        "mice_gene": "mice$gene", "mice_lipid": "mice$lipid",
    }  # fmt: skip
    assert not check(study).problems
