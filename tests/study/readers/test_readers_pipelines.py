"""Folders of pipelines: BIDS with sidecars, clinica, CAT12."""

import json
import os
from pathlib import Path

import foreign_files as foreign
import numpy as np
import pandas as pd
import pytest
from noted import texts
from numpy.testing import assert_allclose, assert_array_equal
from typer.testing import CliRunner

from viewloom.cli import app
from viewloom.study.errors import StudyError
from viewloom.study.readers import FORMATS, sniff
from viewloom.study.readers.bids import read_bids
from viewloom.study.readers.caps import read_caps, read_merged
from viewloom.study.readers.cat12 import read_cat12, read_reports
from viewloom.study.readers.safexml import load_xml, parse_xml

IDS = [f"sub-{i:02d}" for i in range(1, 7)]
CAT12 = Path(os.environ.get("VIEWLOOM_REALFILES", "../shared/realfiles")) / "cat12"


class TestBids:
    def test_levels_of_participants(self, tmp_path):
        path = foreign.bids(tmp_path / "data", IDS) / "participants.tsv"
        assert sniff(path) == "bids"
        raw = pd.read_csv(path, sep="\t")
        frame = read_bids(path, numeric=False)
        assert frame["sex"].cat.categories.tolist() == ["male", "female"]
        assert frame["sex"].tolist() == raw["sex"].map({1: "male", 2: "female"}).tolist()
        assert frame["group"].tolist() == raw["group"].tolist()  # codes that are texts stay
        assert frame["group"].cat.categories.tolist() == ["CN", "AD"]
        assert frame["age"].dtype == np.float64
        assert frame.attrs["levels"]["group"]["AD"] == "Alzheimer's disease"
        assert frame.attrs["units"] == {"age": "years"}
        assert frame.attrs["descriptions"]["age"] == "Age at the first session"

    def test_codes_described_as_missing(self, tmp_path):
        path = foreign.bids(tmp_path / "data", IDS) / "phenotype" / "npi.tsv"
        assert sniff(path) == "bids"
        frame = read_bids(path)
        assert frame.isna().sum().sum() == 1
        assert np.isnan(frame.loc["sub-01", "item0"])
        assert "1 cell with a missing code set to missing" in texts(frame.attrs["notes"])
        assert set(frame.attrs["levels"]) == {f"item{j}" for j in range(4)}
        assert read_bids(path, numeric=False)["item1"].cat.categories.tolist() == [
            "never",
            "rarely",
            "often",
            "always",
        ]

    def test_columns_with_levels_in_views(self, tmp_path):
        path = foreign.bids(tmp_path / "data", IDS) / "participants.tsv"
        frame = read_bids(path, types={"sex": "nominal"})
        assert frame["sex"].cat.categories.tolist() == ["male", "female"]
        assert frame["group"].cat.categories.tolist() == ["CN", "AD"]  # in the order of the sidecar
        assert frame["age"].dtype == np.float64

    def test_values_beyond_the_levels_stay(self, tmp_path):
        (tmp_path / "participants.tsv").write_text("participant_id\tage\nsub-1\t70\nsub-2\tn/a\n")
        (tmp_path / "participants.json").write_text('{"age": {"Levels": {"90": "90 or older"}}}')
        frame = read_bids(tmp_path / "participants.tsv", numeric=False)
        assert_array_equal(frame["age"], [70, np.nan])

    def test_sessions_of_single_subjects(self, tmp_path):
        folder = foreign.bids(tmp_path / "data", IDS)
        assert sniff(folder) == "bids"
        frame = read_bids(folder, visit="M012")
        expected = [pd.read_csv(folder / id / f"{id}_sessions.tsv", sep="\t").iloc[1] for id in IDS]
        assert frame.index.tolist() == IDS
        assert_allclose(frame["weight"], [row["weight"] for row in expected])
        with pytest.raises(StudyError, match="6 rows with a duplicate id; set visit"):
            read_bids(folder)

    def test_words_of_the_sidecar_are_levels_however_few_occur(self, tmp_path):
        columns = {"participant_id": IDS, "hand": ["R"] * 6, "site": list("AABBCC"), "iq": range(6)}
        pd.DataFrame(columns).to_csv(tmp_path / "participants.tsv", sep="\t", index=False)
        sidecar = {"hand": {"Levels": {"R": "right", "L": "left"}}, "site": {"Levels": {"A": "Aix"}}}
        (tmp_path / "participants.json").write_text(json.dumps(sidecar))
        frame = read_bids(tmp_path / "participants.tsv")
        assert frame["hand"].cat.categories.tolist() == ["R", "L"]
        assert frame["site"].cat.categories.tolist() == ["A", "B", "C"]
        assert frame.attrs["types"] == {"hand": "file", "site": "file"}
        told = "1 column with values beyond the levels of the sidecar read as they are"
        assert told in texts(frame.attrs["notes"])
        frame = read_bids(tmp_path / "participants.tsv", types={"site": "nominal"})
        assert frame.attrs["types"] == {"hand": "file", "site": "study.toml"}

    def test_a_session_is_not_a_feature(self, tmp_path):
        folder = tmp_path / "phenotype"
        folder.mkdir()
        columns = {"participant_id": IDS, "session_id": ["ses-1"] * 5 + ["n/a"], "kss": range(6)}
        pd.DataFrame(columns).to_csv(folder / "kss.tsv", sep="\t", index=False)
        (folder / "kss.json").write_text(json.dumps({"kss": {"Description": "sleepiness"}}))
        assert read_bids(folder / "kss.tsv").columns.tolist() == ["kss"]
        assert read_bids(folder / "kss.tsv", rename={"session_id": "when"}).columns.tolist() == ["kss"]
        assert len(read_bids(folder / "kss.tsv", visit="ses-1")) == 5

    @pytest.mark.parametrize("text", ["{", "[]", "[" * 100_000, "\x00", '{"a": ' * 5000, "nul"])
    def test_a_damaged_sidecar(self, tmp_path, text):
        (tmp_path / "participants.tsv").write_text("participant_id\tage\nsub-1\t70\n")
        (tmp_path / "participants.json").write_text(text)
        with pytest.raises(
            StudyError, match=r"participants.json: (is not valid JSON|does not describe columns)"
        ):
            read_bids(tmp_path / "participants.tsv")

    @pytest.mark.parametrize("entry", [1, "x", None, [], {"Levels": []}, {"Levels": {"1": [2]}, "Units": 3}])
    def test_a_strange_sidecar_is_harmless(self, tmp_path, entry):
        (tmp_path / "participants.tsv").write_text("participant_id\tage\nsub-1\t70\n")
        (tmp_path / "participants.json").write_text(json.dumps({"age": entry}))
        assert read_bids(tmp_path / "participants.tsv").loc["sub-1", "age"] == 70


class TestClinica:
    def test_one_kind_of_statistics(self, tmp_path):
        folder = foreign.caps(tmp_path / "CAPS", IDS)
        assert sniff(folder) == "caps"
        with pytest.raises(
            StudyError, match=r"4 kinds of statistics; choose one .* pipeline: 'pet', 't1'; atlas"
        ):
            read_caps(folder)
        frame = read_caps(folder, statistics={"pipeline": "pet", "atlas": "AAL2"})
        assert frame.columns.tolist() == ["Precentral_L", "Precentral_R", "Hippocampus_L"]
        path = next(folder.rglob("sub-03*pet_space-AAL2*"))
        expected = pd.read_csv(path, sep="\t", index_col=0).set_index("label_name")["mean_scalar"]
        assert_allclose(frame.loc["sub-03"], expected[frame.columns])
        assert "statistics of pipeline pet, group ADNIbl, atlas AAL2, tracer 18FFDG, reference pons" in texts(
            frame.attrs["notes"]
        )

    def test_sessions(self, tmp_path):
        folder = foreign.caps(tmp_path / "CAPS", IDS, ("M000", "M012"), ("AAL2",))
        chosen = {"pipeline": "t1"}
        with pytest.raises(StudyError, match="6 rows with a duplicate id; set visit"):
            read_caps(folder, statistics=chosen)
        later = read_caps(folder / "subjects", statistics=chosen, visit="m12")
        assert not np.allclose(later, read_caps(folder, statistics=chosen, visit="first"))

    @pytest.mark.parametrize(
        "text", ["", "label_name\tmean_scalar\n", "x\ty\n1\t2\n", "\0", "label_name\tmean_scalar\na\tx\n"]
    )
    def test_damaged_statistics_are_counted(self, tmp_path, text):
        folder = foreign.caps(tmp_path / "CAPS", IDS, atlases=("AAL2",))
        next(folder.rglob("sub-03*pet*")).write_text(text)
        with pytest.raises(StudyError, match=r"CAPS: 1 of 6 files \*_statistics.tsv are no tables") as caught:
            read_caps(folder, statistics={"pipeline": "pet"})
        assert "sub-03" not in str(caught.value)

    @pytest.mark.parametrize(
        ("choice", "said"),
        [
            ({"atlas": "AAL3"}, "no statistics as chosen; there are .*atlas: 'AAL2', 'LPBA40'"),
            ({"space": "AAL2"}, "statistics has no key 'space'"),
        ],
    )
    def test_refusals(self, tmp_path, choice, said):
        with pytest.raises(StudyError, match=said):
            read_caps(foreign.caps(tmp_path / "CAPS", IDS[:1]), statistics=choice)

    def test_merged_table(self, tmp_path):
        table = foreign.merged(IDS, ("ses-M000", "ses-M012"))
        table.to_csv(tmp_path / "merge.tsv", sep="\t", index=False)
        assert sniff(tmp_path / "merge.tsv") == "clinica-merge"
        frame = read_merged(tmp_path / "merge.tsv", statistics={"pipeline": "t1-volume"}, visit="M000")
        assert frame.columns.tolist() == ["Precentral_L", "Precentral_R", "Vermis_1_2"]
        column = "t1-volume_group-ADNIbl_atlas-AAL2_ROI-Vermis_1_2_intensity"
        assert_allclose(frame["Vermis_1_2"], table[column].iloc[::2])
        with pytest.raises(StudyError, match="2 kinds of statistics"):
            read_merged(tmp_path / "merge.tsv")


class TestCat12:
    def test_one_atlas_and_measure(self, tmp_path):
        folder = foreign.cat12(tmp_path / "cat12", IDS)
        assert sniff(folder) == "cat12"
        with pytest.raises(StudyError, match="2 atlases, whose regions overlap; set atlas"):
            read_cat12(folder)
        frame = read_cat12(folder, atlas="hammers")
        assert frame.index.tolist() == IDS
        assert frame.columns.tolist() == ["lHip", "rHip", "lAmy", "rAmy", "lLatVen"]
        both = read_cat12(folder, atlas="hammers", measures=["Vgm", "Vwm"])
        assert both.shape == (6, 10)
        assert_array_equal(both["lHip_Vgm"], frame["lHip"])
        assert not np.allclose(frame, read_cat12(folder, atlas="neuromorphometrics"))

    def test_intracranial_volumes(self, tmp_path):
        folder = foreign.cat12(tmp_path / "cat12", IDS)
        frame = read_cat12(folder, atlas="hammers", global_measures=True)
        report = read_reports(folder / "report")
        assert_allclose(frame["TIV"], report["TIV"])
        assert_allclose(report["TIV"], report[["GM", "WM", "CSF", "WMH"]].sum(axis=1), rtol=1e-6)
        lines = [f"/data/{id}.nii\t{row.TIV:7.2f}\t{row.GM:7.2f}" for id, row in report.iterrows()]
        (tmp_path / "TIV.txt").write_text("\n".join(lines))
        table = read_reports(tmp_path / "TIV.txt")
        assert_allclose(table, report[["TIV", "GM"]], atol=0.006)

    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ("1500.10\n1400.20\n", "has no names of files; save it again in CAT12 with names"),
            ("a\t1\t2\t3\t4\t5\t6\n", "is no table of names and volumes"),
            ("a\tx\n", "has volumes that are no numbers"),
            ("", "is no table of names"),
        ],
    )
    def test_refused_tables_of_tiv(self, tmp_path, text, said):
        (tmp_path / "TIV.txt").write_text(text)
        with pytest.raises(StudyError, match=said):
            read_reports(tmp_path / "TIV.txt")

    def test_tissue_volumes_of_spm(self, tmp_path):
        names = ["sub-01/anat/sub-01_T1w_seg8.mat", "sub-02/anat/sub-02_T1w_seg8.mat", "ann_seg8.mat"]
        rows = [f"'/data/{name}',{6.5e-1 + n},4.5e-01,3.1e-01" for n, name in enumerate(names)]
        path = tmp_path / "TIV.csv"
        path.write_text("\n".join(["File,Volume1,Volume2,Volume3", *rows]) + "\n")
        assert sniff(path) == "cat12-report"
        frame = read_reports(path)
        assert frame.index.tolist() == ["sub-01", "sub-02", "ann"]
        assert frame.columns.tolist() == ["Volume1", "Volume2", "Volume3"]
        assert_allclose(frame["Volume1"], [0.65, 1.65, 2.65])
        path.write_text(path.read_text().replace("sub-02", "sub-01"))
        with pytest.raises(StudyError, match="set visit to keep one session") as caught:
            read_reports(path)
        assert "sub-01" not in str(caught.value)

    @pytest.mark.parametrize(
        ("row", "said"), [("'a_seg8.mat',x,1", "'Volume1'"), (",1,2", "'File' is blank")]
    )
    def test_refused_tables_of_spm(self, tmp_path, row, said):
        (tmp_path / "TIV.csv").write_text(
            f"File,Volume1,Volume2\n{row}\n'b_seg8.mat',1,2\n'c_seg8.mat',1,2\n"
        )
        with pytest.raises(StudyError, match=said):
            read_reports(tmp_path / "TIV.csv")

    def test_paths_of_reports_in_a_table_of_tiv(self, tmp_path):
        (tmp_path / "TIV.txt").write_text("/data/report/cat_ann.xml\t1500\n/data/bob.nii.gz\t1400\n")
        assert read_reports(tmp_path / "TIV.txt").index.tolist() == ["ann", "bob"]

    def test_matlab_files_give_the_same(self, tmp_path):
        from scipy.io import savemat

        folder = foreign.cat12(tmp_path / "cat12", IDS, ("hammers",))
        frame = read_cat12(folder)
        for path in (folder / "label").iterdir():
            row = frame.loc[path.stem.removeprefix("catROI_")]
            names = np.array(list(row.index), dtype=object)[:, None]
            atlas = {"ids": np.arange(len(row)), "names": names, "data": {"Vgm": row.to_numpy()[:, None]}}
            savemat(path.with_suffix(".mat"), {"S": {"hammers": atlas}}, do_compression=True)
            path.unlink()
        assert_array_equal(read_cat12(folder), frame)

    def test_sessions(self, tmp_path):
        names = [f"{id}_ses-M{month:02d}_T1w" for id in IDS for month in (0, 12)]
        folder = foreign.cat12(tmp_path / "cat12", names, ("hammers",))
        frame = read_cat12(folder, visit="M12")
        assert frame.index.tolist() == IDS
        with pytest.raises(StudyError, match="set visit to keep one session"):
            read_cat12(folder)

    @pytest.mark.parametrize(
        ("content", "said"),
        [
            (b"", "damaged"),
            (b"<S><hammers>", "damaged"),
            (b'<!DOCTYPE S [<!ENTITY a "b">]><S>&a;</S>', "has a document type"),
            (b"<S>" * 100 + b"</S>" * 100, "damaged"),
            (b"\xff\xfe", "damaged"),
        ],
    )
    def test_hostile_xml(self, tmp_path, content, said):
        folder = foreign.cat12(tmp_path / "cat12", IDS, ("hammers",))
        (folder / "label" / "catROI_sub-02.xml").write_bytes(content)
        with pytest.raises(StudyError, match=f"1 of 6 files cannot be read: an XML file .*{said}") as caught:
            read_cat12(folder)
        assert "sub-02" not in str(caught.value)

    @pytest.mark.parametrize(
        ("content", "said"),
        [
            (
                b"MATLAB 7.3 MAT-file, Platform: GLNXA64" + b" " * 90 + b"\x89HDF",
                "version 7.3; save it with -v7",
            ),
            (b"", "empty or too large"),
            (b"MATLAB 5.0 MAT-file" + b" " * 107 + b"IM" + b"\x0f\0\0\0\xff\xff\0\0xx", "damaged"),
        ],
    )
    def test_hostile_matlab(self, tmp_path, content, said):
        (tmp_path / "catROI_sub-02.mat").write_bytes(content)
        with pytest.raises(StudyError, match=said):
            read_cat12(tmp_path)

    def test_an_array_with_more_entries_than_bytes(self, tmp_path):
        from scipy.io import savemat

        path = tmp_path / "catROI_x.mat"
        savemat(path, {"S": np.array([["a", "b"]], dtype=object)})
        content = bytearray(path.read_bytes())
        at = 128 + 8 + 16 + 8  # after the head, the tag of the array, its flags, and the tag of its shape
        assert content[at : at + 8] == bytes([1, 0, 0, 0, 2, 0, 0, 0])
        content[at + 3 : at + 4] = b"\x40"
        path.write_bytes(content)
        with pytest.raises(StudyError, match="a MATLAB file that is damaged"):
            read_cat12(tmp_path)

    def test_a_file_that_expands_beyond_all_proportion(self, tmp_path):
        import zlib

        body = zlib.compress(b"\0" * (1 << 28), 9)
        head = b"MATLAB 5.0 MAT-file".ljust(124) + b"\0\1IM" + (15).to_bytes(4, "little")
        (tmp_path / "catROI_x.mat").write_bytes(head + len(body).to_bytes(4, "little") + body)
        with pytest.raises(StudyError, match="empty or too large"):
            read_cat12(tmp_path)

    @pytest.mark.skipif(not CAT12.is_dir(), reason="no files of CAT12")
    def test_real_files_of_both_kinds_agree(self):
        from scipy.io import loadmat

        for path in sorted(CAT12.rglob("catROI_*.mat")):
            frame = read_cat12(path.parent, atlas="neuromorphometrics", measures=["Vcsf"])
            own = loadmat(path, squeeze_me=True)["S"]["neuromorphometrics"].item()
            assert_allclose(frame.loc[path.stem.removeprefix("catROI_")], own["data"].item()["Vcsf"].item())


class TestXml:
    def test_names_texts_and_children(self):
        root = parse_xml(b"<S><a><b> 1 </b><b>2</b></a></S>")
        assert root.find("a", "b").text == "1"
        assert [child.text for child in root.find("a").children] == ["1", "2"]
        assert root.find("x", "y") is None

    def test_entities_are_refused(self, tmp_path):
        laughs = b'<!DOCTYPE l [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;">]><l>&b;</l>'
        (tmp_path / "x.xml").write_bytes(laughs)
        with pytest.raises(StudyError, match="has a document type"):
            load_xml(tmp_path / "x.xml")


@pytest.mark.parametrize("format", ["caps", "cat12", "cat12-report", "bids"])
def test_an_empty_folder(tmp_path, format):
    with pytest.raises(StudyError) as caught:
        FORMATS[format](tmp_path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "block"),
    [
        ("label/catROI_sub-02.xml", "path = 'data'\nformat = 'cat12'"),
        ("sub-1_space-AAL2_statistics.tsv", "path = 'data'\nformat = 'caps'"),
        ("participants.json", "path = 'data/participants.tsv'\nformat = 'bids'"),
        ("TIV.txt", "path = 'data/TIV.txt'\nformat = 'cat12-report'"),
        ("ukb.csv", "path = 'data/ukb.csv'\nformat = 'ukb'"),
    ],
)
@pytest.mark.parametrize("content", [b"", b"\0\xff<{", b"eid,p1_i0\n"])
def test_damaged_files_end_a_command_with_one_line_and_code_2(tmp_path, name, block, content):
    path = tmp_path / "data" / name
    path.parent.mkdir(parents=True)
    (tmp_path / "data" / "participants.tsv").write_text("participant_id\tage\nsub-1\t70\n")
    path.write_bytes(content)
    (tmp_path / "study.toml").write_text(f"[views.a]\n{block}\n")
    run = CliRunner().invoke(app, ["check", str(tmp_path / "study.toml")])
    assert run.exit_code == 2
    assert "Traceback" not in run.output
    assert "sub-02" not in run.output
