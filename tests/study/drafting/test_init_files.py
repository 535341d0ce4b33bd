"""`init` on what people have: every file is used or explained, every draft passes `check`."""

import gzip
import json
import os
import tomllib
import zipfile

import numpy as np
import pandas as pd
import pytest

from viewloom.study.check import check
from viewloom.study.config.toml import read_study
from viewloom.study.drafting.draft import draft
from viewloom.study.errors import StudyError

N = 24
IDS = [f"P{j:03d}" for j in range(N)]


def rois(names="abc", ids=IDS, seed=0, **more):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(rng.normal(50, 9, size=(len(ids), len(names))), columns=list(names))
    return (
        frame.assign(**more)
        if "id" in more
        else pd.concat([pd.Series(ids, name="id"), frame.assign(**more)], axis=1)
    )


def people(ids=IDS, **more):
    n = len(ids)
    age = np.linspace(55.5, 88.5, n).round(1)
    given = {
        "participant_id": ids,
        "age": age,
        "sex": (["F", "M"] * n)[:n],
        "diagnosis": (["AD", "CN", "CN"] * n)[:n],
    }
    return pd.DataFrame({**given, **more})


def accepted(folder):
    """The draft and the study, which `check` accepts."""
    drafted = draft(folder)
    (folder / "study.toml").write_text(drafted.text, encoding="utf-8")
    study = read_study(folder / "study.toml")
    assert check(study).problems == []
    (folder / "study.toml").unlink()
    return drafted, study


def refused(folder):
    with pytest.raises(StudyError, match="no study can be drafted") as caught:
        draft(folder)
    return str(caught.value)


def line_of(drafted, name):
    """The one line that speaks of a file."""
    (line,) = [line for line in [*drafted.used, *drafted.passed] if line.startswith(name)]
    return line


class TestIds:
    @pytest.mark.parametrize(
        "name",
        [
            "bblid", "iD", "SUBJ", "PTID", "Subject", "subject_id", "src_subject_id", "eid", "IID",
            "ID_subject", "participant", "Participant.ID", "Subject ID", "", "Unnamed: 0", "Probandennummer",
        ],
    )  # fmt: skip
    def test_columns_of_ids_whatever_they_are_called(self, tmp_path, name):
        rois().rename(columns={"id": name}).to_csv(tmp_path / "rois.csv", index=False)
        people().to_csv(tmp_path / "people.csv", index=False)
        _, study = accepted(tmp_path)
        assert study.views["rois"].id == (name or "row.names")
        assert study.participants.path.name == "people.csv"

    def test_whole_numbers_in_a_column_that_is_not_the_first_are_ids_where_others_know_them(self, tmp_path):
        numbers = [1000 + 7 * j for j in range(N)]
        rois(ids=numbers)[["a", "id", "b", "c"]].rename(columns={"id": "Proband"}).to_csv(
            tmp_path / "rois.csv", index=False
        )
        people(numbers).to_csv(tmp_path / "people.csv", index=False)
        assert accepted(tmp_path)[1].views["rois"].id == "Proband"

    def test_of_several_columns_that_which_others_share(self, tmp_path):
        rois(subject=[f"x{j}" for j in range(N)]).to_csv(tmp_path / "rois.csv", index=False)
        rois("de").to_csv(tmp_path / "more.csv", index=False)
        drafted, study = accepted(tmp_path)
        assert study.views["rois"].id == "id"
        assert 'id = "id"  # or "subject"' in drafted.text
        assert "subject" in study.views["rois"].exclude

    @pytest.mark.parametrize("written", [{}, {"index_label": "row"}])
    def test_a_running_number_is_no_id_and_no_feature(self, tmp_path, written):
        rois().to_csv(tmp_path / "good.csv")
        rois().drop(columns="id").to_csv(tmp_path / "none.csv", **written)
        drafted, study = accepted(tmp_path)
        assert study.views["good"].exclude == ["row.names"]
        assert "row numbers: 'row.names'" in line_of(drafted, "good.csv")
        assert "no id column" in line_of(drafted, "none.csv")

    def test_bids_and_plain_ids_are_matched(self, tmp_path):
        rois(ids=[f"sub-{j:03d}" for j in range(N)]).to_csv(tmp_path / "a.csv", index=False)
        rois("de", ids=list(range(N))).to_csv(tmp_path / "b.csv", index=False)
        _, study = accepted(tmp_path)
        assert study.ids.match == "bids"
        assert check(study).n_subjects == N

    def test_ids_that_only_end_alike_are_told(self, tmp_path):
        rois(ids=[f"FS_A_00{500 + j}" for j in range(N)]).to_csv(tmp_path / "a.csv", index=False)
        people([500 + j for j in range(N)]).to_csv(tmp_path / "people.csv", index=False)
        assert "the numbers at the end of ids agree for 24" in line_of(accepted(tmp_path)[0], "people.csv")


class TestVisits:
    @pytest.mark.parametrize(
        "column", ["Visit", "VISCODE", "session", "session_id", "timepoint", "wave", "Event_Name"]
    )
    @pytest.mark.parametrize("codes", [("ses-M0", "ses-M12"), ("bl", "m12"), ("baseline", "Month 12")])
    def test_the_baseline_where_all_have_it(self, tmp_path, column, codes):
        frame = pd.concat([rois(**{column: code}) for code in codes])
        frame.to_csv(tmp_path / "rois.csv", index=False)
        drafted, study = accepted(tmp_path)
        assert study.views["rois"].visit == codes[0]
        assert f"all {N} subjects have it" in line_of(drafted, "rois.csv")

    @pytest.mark.parametrize(
        "codes",
        [
            ("ses-01", "ses-02"), ("ses-M000", "ses-M006"), ("V01", "V02"), ("Screening", "V1"), (0, 1),
            (1, 2), ("m00", "m06"), ("2020-01-31", "2021-01-31"),
        ],
    )  # fmt: skip
    def test_the_first_of_each_subject(self, tmp_path, codes):
        frame = pd.concat([rois(visit=codes[0])[2:], rois(visit=codes[1])])
        frame.to_csv(tmp_path / "rois.csv", index=False)
        drafted, study = accepted(tmp_path)
        assert study.views["rois"].visit == "first"
        if "2020" not in str(codes[0]):
            assert f"{N - 2} at '{codes[0]}', 2 at '{codes[1]}'" in line_of(drafted, "rois.csv")
        assert "2020-01" not in drafted.text

    def test_a_column_of_visits_of_another_name(self, tmp_path):
        pd.concat([rois(phase="bl"), rois(phase="m12")]).to_csv(tmp_path / "rois.csv", index=False)
        assert accepted(tmp_path)[1].views["rois"].visit_column == "phase"

    def test_socioeconomic_status_is_no_session(self, tmp_path):
        rois(SES=[1, 2, 3] * 8).to_csv(tmp_path / "rois.csv", index=False)
        assert accepted(tmp_path)[1].views["rois"].visit is None

    def test_repeated_ids_without_visits_say_so_with_the_way_out(self, tmp_path):
        pd.concat([rois(), rois(seed=1)]).to_csv(tmp_path / "rois.csv", index=False)
        text = refused(tmp_path)
        assert f"{N} rows with a duplicate id (column 'id'), and no visit column; keep one row" in text
        pd.concat([rois(arm="x"), rois(arm="y")]).to_csv(tmp_path / "rois.csv", index=False)
        assert "column 'arm' distinguishes them: set visit_column = 'arm'" in refused(tmp_path)
        pd.concat([rois(visit="bl"), rois(visit="bl", seed=1)]).to_csv(tmp_path / "rois.csv", index=False)
        assert "also within one visit of column 'visit'" in refused(tmp_path)

    def test_a_table_of_adni_without_baseline(self, tmp_path):
        rows = [
            (j, "m24", "m24", name, j * 7 % 11 + 0.1) for j in range(1, N) for name in ("Angular", "Temporal")
        ]
        names = ["RID", "VISCODE", "VISCODE2", "ROINAME", "MEAN"]
        pd.DataFrame(rows, columns=names).to_csv(tmp_path / "fdg.csv", index=False)
        drafted, study = accepted(tmp_path)
        assert (study.views["fdg"].format, study.views["fdg"].visit) == ("fdg", "first")
        assert "no baseline; the first visit of each subject" in line_of(drafted, "fdg.csv")

    def test_participants_with_visits(self, tmp_path):
        rois().to_csv(tmp_path / "rois.csv", index=False)
        pd.concat([people(Visit="ses-M0"), people(Visit="ses-M12")]).to_csv(tmp_path / "who.csv", index=False)
        assert accepted(tmp_path)[1].participants.visit == "ses-M0"


class TestParticipants:
    def test_a_wide_table_of_participants_is_no_view(self, tmp_path):
        rng = np.random.default_rng(0)
        items = {f"item_{j}": rng.integers(0, 5, N) for j in range(60)}
        people(site=["A", "B"] * 12, MMSE=range(N), **items).to_csv(
            tmp_path / "participants.tsv", sep="\t", index=False
        )
        rois().rename(columns={"id": "participant_id"}).to_csv(tmp_path / "rois.csv", index=False)
        drafted, study = accepted(tmp_path)
        who = study.participants
        assert (who.path.name, who.diagnosis, who.site) == ("participants.tsv", "diagnosis", "site")
        assert (who.covariates, who.outcomes) == (["age", "sex"], ["MMSE"])
        assert list(study.views) == ["rois"]
        assert '# [views.features]\n# path = "participants.tsv"' in drafted.text

    def test_alone_it_is_both(self, tmp_path):
        rng = np.random.default_rng(0)
        people(**{f"m{j}": rng.normal(size=N) for j in range(5)}).to_csv(tmp_path / "all.csv", index=False)
        _, study = accepted(tmp_path)
        assert study.views["features"].exclude == ["age", "sex", "diagnosis"]

    def test_a_diagnosis_that_holds_numbers_is_none(self, tmp_path):
        rois(diagnosis=np.linspace(20, 30, N)).to_csv(tmp_path / "rois.csv", index=False)
        _, study = accepted(tmp_path)
        assert study.participants is None
        assert study.views["rois"].exclude == ["diagnosis"]

    def test_bids_with_assessments(self, tmp_path):
        (tmp_path / "phenotype").mkdir()
        people().to_csv(tmp_path / "participants.tsv", sep="\t", index=False)
        rois("xyz").rename(columns={"id": "participant_id"}).to_csv(
            tmp_path / "phenotype/bdi.tsv", sep="\t", index=False
        )
        assert list(accepted(tmp_path)[1].views) == ["bdi"]
        rois().to_csv(tmp_path / "rois.csv", index=False)
        drafted, study = accepted(tmp_path)
        assert list(study.views) == ["rois"]
        assert "assessments" in line_of(drafted, "phenotype/bdi.tsv")

    def test_levels_of_a_sidecar_are_told_from_numbers(self, tmp_path):
        (tmp_path / "phenotype").mkdir()
        people().to_csv(tmp_path / "participants.tsv", sep="\t", index=False)
        rois().to_csv(tmp_path / "rois.csv", index=False)
        items = {"participant_id": IDS, "session_id": "ses-1", "one": [0, 1, 2] * 8, "two": [1, 2, 3] * 8}
        pd.DataFrame(items).to_csv(tmp_path / "phenotype/npi.tsv", sep="\t", index=False)
        sidecar = {"one": {"Levels": {"0": "never", "1": "rarely", "2": "often"}}}
        (tmp_path / "phenotype/npi.json").write_text(json.dumps(sidecar))
        text = accepted(tmp_path)[0].text
        assert "# levels of the sidecar, nominal unless types makes them ordinal: 'one'\n" in text
        assert "# few whole numbers, continuous unless types makes them ordinal: 'two'\n" in text

    def test_codes_of_hospital_records(self, tmp_path):
        people().to_csv(tmp_path / "people.csv", index=False)
        rois().to_csv(tmp_path / "rois.csv", index=False)
        rows = [(id, code) for j, id in enumerate(IDS) for code in ("I10", f"G3{j % 3}")]
        pd.DataFrame(rows, columns=["eid", "diag_icd10"]).to_csv(tmp_path / "hospital.csv", index=False)
        _, study = accepted(tmp_path)
        assert (study.views["hospital"].id, study.views["hospital"].code) == ("eid", "diag_icd10")

    def test_what_check_refuses_is_left_out_of_the_draft(self, tmp_path):
        rois().to_csv(tmp_path / "rois.csv", index=False)
        people(MMSE=np.nan).to_csv(tmp_path / "people.csv", index=False)
        assert accepted(tmp_path)[1].participants.outcomes == []


class TestSameColumns:
    def test_other_subjects_are_one_view(self, tmp_path):
        rois().to_csv(tmp_path / "oslo.csv", index=False)
        rois(ids=[f"Q{j}" for j in range(N)], seed=1).to_csv(tmp_path / "turin.csv", index=False)
        drafted, study = accepted(tmp_path)
        (view,) = study.views.values()
        assert [path.name for path in view.paths] == ["oslo.csv", "turin.csv"]
        assert check(study).n_subjects == 2 * N
        assert "one view of both files" in drafted.used[0]

    def test_the_same_subjects_are_not_joined(self, tmp_path):
        rois().to_csv(tmp_path / "oslo.csv", index=False)
        rois(seed=1).to_csv(tmp_path / "turin.csv", index=False)
        drafted, study = accepted(tmp_path)
        assert list(study.views) == ["oslo"]
        line = line_of(drafted, "turin.csv")
        assert "not joined: it has the columns of oslo.csv and 24 subjects in common" in line
        assert "list both files in paths" in line

    def test_a_copy_is_not_used_twice(self, tmp_path):
        rois().to_csv(tmp_path / "a.csv", index=False)
        rois().iloc[::-1].to_csv(tmp_path / "copy of a.tsv", sep="\t", index=False)
        drafted, study = accepted(tmp_path)
        assert list(study.views) == ["a"]
        assert "the same measures as in a.csv" in line_of(drafted, "copy of a.tsv")

    def test_views_without_subjects_in_common_are_not_in_one_study(self, tmp_path):
        rois().to_csv(tmp_path / "a.csv", index=False)
        rois("uvw").to_csv(tmp_path / "b.csv", index=False)
        rois("xyz", ids=[f"Q{j}" for j in range(N)]).to_csv(tmp_path / "c.csv", index=False)
        drafted, study = accepted(tmp_path)
        assert list(study.views) == ["a", "b"]
        assert "none of its 24 subjects is in view 'a', 'b'" in line_of(drafted, "c.csv")


class TestGenotypes:
    @staticmethod
    def plink(stem, first, ids=IDS, variants=4):
        rng = np.random.default_rng(first)
        calls = rng.integers(0, 256, size=(variants, -(-len(ids) // 4)), dtype=np.uint8)
        calls &= 0b10101010  # no call is missing
        stem.with_suffix(".bed").write_bytes(b"\x6c\x1b\x01" + calls.tobytes())
        stem.with_suffix(".fam").write_text("".join(f"{id} {id} 0 0 1 -9\n" for id in ids))
        stem.with_suffix(".bim").write_text(
            "".join(f"{first} rs{first}{j} 0 {j + 1} A G\n" for j in range(variants))
        )

    def test_one_view_of_all_chromosomes(self, tmp_path):
        for number in (1, 2, 10, 22):
            self.plink(tmp_path / f"cohort_chr{number}", number)
        _, study = accepted(tmp_path)
        (view,) = study.views.values()
        assert [path.name for path in view.paths] == [f"cohort_chr{n}.bed" for n in (1, 2, 10, 22)]
        assert check(study).views["features"].tolist() == [16]

    def test_parts_that_lack_and_intervals_that_are_no_genotypes(self, tmp_path):
        rois().to_csv(tmp_path / "rois.csv", index=False)
        self.plink(tmp_path / "lone", 1)
        (tmp_path / "lone.bim").unlink()
        (tmp_path / "peaks.bed").write_text("chr1\t1\t2\n")
        drafted, _ = accepted(tmp_path)
        assert "without .bim" in line_of(drafted, "lone.bed")
        assert "list of intervals" in line_of(drafted, "peaks.bed")
        assert "part of a PLINK set" in line_of(drafted, "lone.fam")


class TestMatrices:
    def test_a_view_per_modality(self, tmp_path):
        anndata = pytest.importorskip("anndata")
        h5py = pytest.importorskip("h5py")
        rng = np.random.default_rng(0)
        for name in ("rna", "protein"):
            var = pd.DataFrame(index=[f"{name}{j}" for j in range(5)])
            data = anndata.AnnData(rng.normal(size=(N, 5)), obs=pd.DataFrame(index=IDS), var=var)
            data.write_h5ad(tmp_path / f"{name}.h5ad")
        with h5py.File(tmp_path / "both.h5mu", "w") as both:
            for name in ("rna", "protein"):
                with h5py.File(tmp_path / f"{name}.h5ad") as one:
                    one.copy("/", both.require_group("mod"), name)
        (tmp_path / "rna.h5ad").unlink()
        (tmp_path / "protein.h5ad").rename(tmp_path / "lipids.h5ad")
        _, study = accepted(tmp_path)
        read = {name: (view.format, view.modality) for name, view in study.views.items()}
        assert read == {
            "both_protein": ("h5mu", "protein"),
            "both_rna": ("h5mu", "rna"),
            "lipids": ("h5ad", None),
        }

    def test_damaged_ones_are_told(self, tmp_path):
        rois().to_csv(tmp_path / "rois.csv", index=False)
        (tmp_path / "omics.h5mu").write_bytes(b"\x89HDF\r\n\x1a\n")
        assert line_of(accepted(tmp_path)[0], "omics.h5mu")


class TestOtherFiles:
    def test_each_kind_is_named_with_its_way_out(self, tmp_path):
        pytest.importorskip("python_calamine")
        pytest.importorskip("pyreadstat")
        rois().to_csv(tmp_path / "rois.csv", index=False)
        with zipfile.ZipFile(tmp_path / "book.xlsx", "w") as book:
            book.writestr("x", "y")
        (tmp_path / "renamed.csv").write_bytes((tmp_path / "book.xlsx").read_bytes())
        (tmp_path / "rois.csv.gz").write_bytes(gzip.compress(b"id,a\n1,2\n"))
        (tmp_path / "old.sav").write_bytes(b"$FL2" + bytes(100))
        (tmp_path / "chr1.pgen").write_bytes(b"\x6c\x1b\x10")
        (tmp_path / "calls.vcf.gz").write_bytes(gzip.compress(b"##fileformat"))
        (tmp_path / "empty.csv").write_text("")
        (tmp_path / "notes.txt").write_text("only words\nand lines\n")
        (tmp_path / "blob").write_bytes(bytes(range(256)))
        (tmp_path / "gone.csv").symlink_to(tmp_path / "nowhere")
        (tmp_path / "text.csv").write_text("id,comment\n1,x\n2,y\n")
        (tmp_path / "one.csv").write_text("id,x\n1,3.5\n2,4.5\n")
        (tmp_path / "ragged.csv").write_text("id,x,y\n1,2,3\n1,2,3\n1,2,3,4,5\n" + "1,2,3\n" * 60)
        os.mkfifo(tmp_path / "pipe.csv")
        drafted, _ = accepted(tmp_path)
        for name, what in {
            "book.xlsx": "is not a valid workbook",
            "renamed.csv": "a zip file or workbook",
            "rois.csv.gz": "a single numeric column",
            "old.sav": "is not a valid file of SPSS",
            "chr1.pgen": "PLINK 2 genotypes",
            "calls.vcf.gz": "is damaged or truncated",
            "empty.csv": "an empty file",
            "notes.txt": "text without numeric columns",
            "blob": "not a text file",
            "gone.csv": "a link to a missing file",
            "text.csv": "without numeric columns",
            "one.csv": "a single numeric column ('x')",
            "ragged.csv": "line 4 has 5 cells",
            "pipe.csv": "not a regular file",
        }.items():
            assert what in line_of(drafted, name + ":"), name
        for line in drafted.passed:
            assert f"# - {line}\n" in drafted.text

    @pytest.mark.skipif(os.getuid() == 0, reason="root may read everything")
    def test_files_that_may_not_be_read(self, tmp_path):
        rois().to_csv(tmp_path / "rois.csv", index=False)
        (tmp_path / "locked.csv").write_text("id,a\n")
        (tmp_path / "locked.csv").chmod(0)
        assert "permission denied" in line_of(accepted(tmp_path)[0], "locked.csv")

    def test_thousands_of_files_are_counted_and_not_read(self, tmp_path):
        rois().to_csv(tmp_path / "rois.csv", index=False)
        for j in range(300):
            place = tmp_path / f"sub-{j:04d}" / "func"
            place.mkdir(parents=True)
            (place / f"sub-{j:04d}_task-rest_events.tsv").write_text("onset\tduration\n1\t2\n")
            (place / f"series_{j}.csv").write_text("t,x\n1,2\n2,3\n")
            (place / "bold.nii.gz").write_bytes(b"")
        drafted, study = accepted(tmp_path)
        assert list(study.views) == ["rois"]
        assert len(drafted.passed) < 10
        assert line_of(drafted, "sub-*/func/sub-*_task-rest_events.tsv (300 files)")
        assert line_of(drafted, "sub-*/func/bold.nii.gz (300 files)")
        assert not any("sub-0" in line for line in drafted.passed)

    def test_more_than_twenty_tables(self, tmp_path):
        for name in "abcdefghijklmnopqrstuv":
            rois([f"{name}{j}" for j in range(3)]).to_csv(tmp_path / f"{name}.csv", index=False)
        assert len(accepted(tmp_path)[1].views) == 22

    def test_freesurfer_anywhere_and_with_the_rest_of_its_output(self, tmp_path):
        root = tmp_path / "derivatives" / "freesurfer"
        for j in range(8):
            for place in ("stats", "mri", "surf"):
                (root / f"sub-{j:02d}" / place).mkdir(parents=True)
            (root / f"sub-{j:02d}/mri/aseg.mgz").write_bytes(b"\0")
            (root / f"sub-{j:02d}/stats/wmparc.stats").write_text("# x\n")
            (root / f"sub-{j:02d}/stats/aseg.stats").write_text(
                "# ColHeaders  Index SegId NVoxels Volume_mm3 StructName normMean\n"
                f" 1 17 3000 {3000 + j}.0 Left-Hippocampus 60\n 2 18 3000 {2000 - j * j}.0 Left-Amygdala 60\n"
            )
        people([f"sub-{j:02d}" for j in range(8)]).to_csv(
            tmp_path / "participants.tsv", sep="\t", index=False
        )
        drafted, study = accepted(tmp_path)
        assert study.views["freesurfer"].path == root
        assert "wmparc.stats" in line_of(drafted, "derivatives/freesurfer/*/stats (8 files)")
        assert line_of(drafted, "derivatives/freesurfer/* (8 files)")
        assert not any("sub-0" in line for line in [*drafted.used, *drafted.passed])

    def test_one_subject_is_no_study(self, tmp_path):
        rois(ids=["secret"]).to_csv(tmp_path / "a.csv", index=False)
        text = refused(tmp_path)
        assert "1 subject in total: at least 4 are needed" in text
        assert "secret" not in text

    def test_a_large_file_is_looked_at_only_at_its_beginning(self, tmp_path, monkeypatch):
        monkeypatch.setattr("viewloom.study.drafting.tables.LARGE", 2000)
        monkeypatch.setattr("viewloom.study.drafting.trial.LARGE", 2000)
        monkeypatch.setattr("viewloom.study.drafting.tables.SAMPLE", 20)
        rois(ids=[f"P{j}" for j in range(400)]).to_csv(tmp_path / "rois.csv", index=False)
        drafted, _ = accepted(tmp_path)
        assert "19 subjects in the first lines" in drafted.used[0]
        assert "not read by `init`" in drafted.used[0]

    def test_german_spreadsheet(self, tmp_path):
        text = rois().to_csv(index=False, sep=";", decimal=",").replace("id;", "Größe;", 1)
        (tmp_path / "Ausgabe.csv").write_bytes(text.encode("cp1252"))
        _, study = accepted(tmp_path)
        assert study.views["Ausgabe"].id == "Größe"


class TestText:
    def test_the_draft_is_the_same_twice(self, tmp_path):
        rois(comment="x").to_csv(tmp_path / "rois.csv", index=False)
        people().to_csv(tmp_path / "people.csv", index=False)
        assert draft(tmp_path) == draft(tmp_path)

    def test_whatever_characters_names_have(self, tmp_path):
        odd = ['x"y', "new\nline", "#", "[a]", "x*", "\\", "ünï", "tab\tx", "'", "\u2028", "\x1b[31m"]
        frame = rois(["x1", "x2"]).assign(**dict.fromkeys(odd, "text"))
        folder = tmp_path / 'a "b" ünï#'
        folder.mkdir()
        frame.to_csv(folder / 'we "ird" ünï#.csv', index=False)
        (folder / "pass\x1bed\n.xlsx").write_text("x")
        drafted, study = accepted(folder)
        tomllib.loads(drafted.text)
        assert check(study).views["features"].tolist() == [2]
        assert not any(char in line for line in [*drafted.used, *drafted.passed] for char in "\x1b\n\x07")
        assert not any(char in drafted.text for char in "\x1b\x07")

    def test_many_columns_are_still_a_study_file(self, tmp_path):
        rois(["x1", "x2"]).assign(**{f"a.b.c.{j}": "text" for j in range(200)}).to_csv(
            tmp_path / "r.csv", index=False
        )
        assert len(accepted(tmp_path)[1].views["r"].exclude) == 200
