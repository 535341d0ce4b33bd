"""A first study.toml: what is found in a folder, and that it can be used as it stands."""

import numpy as np
import pandas as pd
import pytest

from viewloom.study.cohort import load
from viewloom.study.config.toml import read_study
from viewloom.study.drafting.draft import draft
from viewloom.study.drafting.walk import walk
from viewloom.study.errors import StudyError

N = 12
RID = list(range(1, N + 1))


def values(n=N, columns=("a", "b", "c"), seed=0):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(rng.normal(size=(n, len(columns))), columns=list(columns))


@pytest.fixture
def folder(tmp_path):
    """A study as it lies on disk, with spaces, accents, visits, text columns and a letter."""
    folder = tmp_path / "Ma belle étude"
    (folder / "pet").mkdir(parents=True)
    people = {
        "RID": RID,
        "PTID": [f"011_S_{j:04d}" for j in RID],
        "DX": ["CN", "AD"] * 6,
        "AGE": 70.0,
        "PTGENDER": ["F", "M"] * 6,
        "SITE": [1, 2, 3] * 4,
        "MMSE": range(10, 22),
    }
    pd.DataFrame(people).to_csv(folder / "people.csv", index=False)
    bids = [f"sub-ADNI011S{j:04d}" for j in RID]
    values().assign(participant_id=bids, sex="F", age=70.0, comment="ok").to_csv(
        folder / "rois (v2).tsv", sep="\t", index=False
    )
    visits = values(2 * N).assign(RID=RID * 2, VISCODE=["bl"] * N + ["m12"] * N)
    visits.to_csv(folder / "protéines.csv", sep=";", index=False)
    rows = [
        (j, region, side, 7 * j % 13 + 0.5)
        for j in RID
        for region in ("Angular", "Temporal")
        for side in "LR"
    ]
    pd.DataFrame(rows, columns=["RID", "region", "side", "SUVR"]).to_csv(folder / "pet/tau.csv", index=False)
    (folder / "letter.txt").write_text("Dear all,\nthese data are secret, so please, keep them.\n")
    (folder / ".hidden.csv").write_text("id,a,b\nx,1,2\n")
    return folder


def written(folder):
    text = draft(folder).text
    (folder / "study.toml").write_text(text, encoding="utf-8")
    return text, read_study(folder / "study.toml")


class TestDraft:
    def test_it_loads_as_it_stands(self, folder):
        _, study = written(folder)
        data = load(study)
        assert data.views.shape == (N, 3 + 3 + 4)
        assert data.views.complete
        assert data.views.feature_names["tau"].tolist() == [
            "Angular_L",
            "Angular_R",
            "Temporal_L",
            "Temporal_R",
        ]

    def test_what_is_clear_is_set(self, folder):
        _, study = written(folder)
        people = study.participants
        assert (study.name, study.ids.match) == ("Ma belle étude", "adni")
        assert (people.path.name, people.id, people.diagnosis, people.site) == (
            "people.csv",
            "RID",
            "DX",
            "SITE",
        )
        assert (people.covariates, people.outcomes) == (["AGE", "PTGENDER"], ["MMSE"])
        assert set(study.views) == {"rois_v2", "protéines", "tau"}
        assert study.views["protéines"].visit == "bl"
        assert study.views["rois_v2"].exclude == ["sex", "age", "comment"]
        assert study.views["tau"].name == ["region", "side"]

    def test_what_is_not_clear_stays_a_comment(self, folder):
        text, _ = written(folder)
        assert 'id = "RID"  # or "PTID"' in text
        assert 'path = "people.csv"  # or "rois (v2).tsv"' in text
        assert '# controls = "..."' in text

    def test_neither_ids_nor_values_are_told(self, folder):
        text, _ = written(folder)
        assert "011_S" not in text
        assert "ADNI011" not in text
        assert "secret" not in text
        assert ".hidden" not in text
        assert "# - letter.txt: text without numeric columns: not a table of subjects\n" in text

    def test_hostile_names_stay_in_their_quotes(self, tmp_path):
        frame = values(columns=['a"b', "c\nd = 1", "e#f\\"]).assign(id=RID, **{'com"ment\n[x]': "y"})
        frame.to_csv(tmp_path / 'it\'s "a" file.csv', index=False)
        _, study = written(tmp_path)
        (view,) = study.views.values()
        assert view.exclude == ['com"ment\n[x]']
        assert load(study).views.n_features == [3]

    def test_one_table_of_everything_is_participants_and_view(self, tmp_path):
        values().assign(subject_id=RID, diagnosis=["CN", "AD"] * 6, age=70.0).to_csv(
            tmp_path / "all.csv", index=False
        )
        _, study = written(tmp_path)
        assert study.participants.diagnosis == "diagnosis"
        assert study.views["features"].exclude == ["diagnosis", "age"]
        assert study.ids.match == "exact"
        assert load(study).views.n_features == [3]

    def test_features_beside_the_diagnosis_are_offered(self, folder):
        people = pd.read_csv(folder / "people.csv")
        people.join(values()).to_csv(folder / "people.csv", index=False)
        text, study = written(folder)
        assert '# [views.features]\n# path = "people.csv"' in text
        assert set(study.views) == {"rois_v2", "protéines", "tau"}

    def test_total_volumes_do_not_make_participants(self, tmp_path):
        values().assign(id=RID, eTIV=1500.0).to_csv(tmp_path / "rois.csv", index=False)
        _, study = written(tmp_path)
        assert study.participants is None
        assert study.views["rois"].exclude == ["eTIV"]

    def test_files_of_the_same_name_are_different_views(self, tmp_path):
        for part, name in (("x", "rois"), ("y", "rois"), ("z", "ROIs")):
            (tmp_path / part).mkdir()
            frame = values(columns=[f"{part}{j}" for j in range(3)]).assign(id=RID)
            frame.to_csv(tmp_path / part / f"{name}.csv", index=False)
        assert set(written(tmp_path)[1].views) == {"rois", "rois_2", "ROIs_3"}

    def test_freesurfer_folders_and_tables(self, tmp_path):
        subjects = [f"s{j}" for j in range(6)]
        for j, subject in enumerate(subjects):
            stats = tmp_path / "fs" / subject / "stats"
            stats.mkdir(parents=True)
            (stats / "aseg.stats").write_text(
                "# ColHeaders  Index SegId NVoxels Volume_mm3 StructName normMean normStdDev\n"
                f"  1  17  3000  300{j}.0  Left-Hippocampus  60 8\n"
                f"  2  18  3000  20{j}0.0  Left-Amygdala  60 8\n"
            )
        for side in ("lh", "rh"):
            header = f"{side}.aparc.thickness\t{side}_bankssts_thickness\t{side}_cuneus_thickness\n"
            rows = "".join(f"{subject}\t2.{j}\t3.{j}\n" for j, subject in enumerate(subjects))
            (tmp_path / f"{side}.tsv").write_text(header + rows)
        text, study = written(tmp_path)
        assert {name: view.format for name, view in study.views.items()} == {
            "freesurfer": "freesurfer-table",
            "fs": "freesurfer",
        }
        assert [path.name for path in study.views["freesurfer"].paths] == ["lh.tsv", "rh.tsv"]
        assert "s1" not in text

    @pytest.mark.parametrize(
        "content", [None, "", "just text", "id,only\n1,2\n", "011_S_0002,1,2\n011_S_0003,2,3\n"]
    )
    def test_a_folder_without_features(self, tmp_path, content):
        if content is not None:
            (tmp_path / "file.csv").write_text(content)
        with pytest.raises(StudyError, match="no study can be drafted") as caught:
            draft(tmp_path)
        assert "011_S" not in str(caught.value)

    def test_no_folder(self, tmp_path):
        with pytest.raises(StudyError, match="no such folder"):
            draft(tmp_path / "absent")

    def test_results_and_files_of_single_subjects_are_passed_over(self, folder):
        (folder / "run").mkdir()
        (folder / "run/run.json").write_text("{}")
        (folder / "single").mkdir()
        for part in ["run/labels.csv", *(f"single/{j}.csv" for j in range(30))]:
            values().assign(id=RID).to_csv(folder / part, index=False)
        assert set(written(folder)[1].views) == {"rois_v2", "protéines", "tau"}


def test_what_the_page_keeps_is_not_mentioned(tmp_path):
    (tmp_path / ".viewloom-app").mkdir()
    assert walk(tmp_path).passed == {}
    (tmp_path / ".other").mkdir()
    assert [name for name, _ in walk(tmp_path).passed] == ["hidden"]
