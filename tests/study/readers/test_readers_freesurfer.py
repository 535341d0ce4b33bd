"""FreeSurfer folders and tables of several versions, written here in their own layout."""

import numpy as np
import pandas as pd
import pytest
from noted import texts
from numpy.testing import assert_array_equal

from viewloom.study.errors import StudyError
from viewloom.study.readers import sniff
from viewloom.study.readers.freesurfer import read_stats
from viewloom.study.readers.freesurfer_tables import read_stats_table

NAN = np.nan
ASEG_HEADERS = "Index SegId NVoxels Volume_mm3 StructName normMean normStdDev normMin normMax normRange"
SAMSEG_HEADERS = "Index SegId NVoxels Volume_mm3 StructName"
APARC_HEADERS = "StructName NumVert SurfArea GrayVol ThickAvg ThickStd MeanCurv GausCurv FoldInd CurvInd"
ETIV = "EstimatedTotalIntraCranialVol, eTIV, Estimated Total Intracranial Volume"
ICV = "IntraCranialVol, ICV, Intracranial Volume"
WHOLE = "EstimatedTotalIntraCranialVol"


def aseg(volumes, icv=(ETIV, 1500000.25), headers=ASEG_HEADERS):
    """The text of aseg.stats."""
    lines = ["# Title Segmentation Statistics", "# ", "# generating_program mri_segstats"]
    lines += ["# Measure BrainSeg, BrainSegVol, Brain Segmentation Volume, 1126237.000000, mm^3"]
    lines += [f"# Measure {icv[0]}, {icv[1]}, mm^3", "# NTableCols 10", f"# ColHeaders  {headers}"]
    tail = "" if headers == SAMSEG_HEADERS else "    60.1   10.2   9.0  110.0  101.0"
    for i, (name, volume) in enumerate(volumes.items(), start=1):
        lines.append(f"{i:3d}  {i + 3:3d}   {int(volume):6d}  {volume:9.1f}  {name:30s}{tail}")
    return "\n".join(lines) + "\n"


def aparc(regions):
    """The text of ?h.aparc.stats; a region has volume and thickness."""
    lines = ["# Table of FreeSurfer cortical parcellation anatomical statistics ", "# "]
    lines += ["# Measure Cortex, NumVert, Number of Vertices, 130000, unitless"]
    lines += ["# Measure Cortex, MeanThickness, Mean Thickness, 2.40000, mm"]
    lines += [f"# Measure {ETIV}, 1500000.25, mm^3", f"# ColHeaders {APARC_HEADERS}"]
    for name, (volume, thickness) in regions.items():
        lines.append(
            f"{name:35s} 1200   800  {volume:5d}  {thickness:.3f} 0.512     0.116     0.025  13  1.3"
        )
    return "\n".join(lines) + "\n"


def write(folder, subject, files):
    for name, text in files.items():
        path = folder / subject / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def full(volume=3500.5, entorhinal=(1800, 3.25)):
    return {
        "stats/aseg.stats": aseg({"Left-Hippocampus": volume, "Left-Thalamus": 7000.5}),
        "stats/lh.aparc.stats": aparc({"entorhinal": entorhinal, "precuneus": (9000, 2.5)}),
        "stats/rh.aparc.stats": aparc({"entorhinal": (1700, 3.125)}),
        "stats/wmparc.stats": aseg({"wm-lh-bankssts": 1.0}),
    }


@pytest.fixture
def subjects(tmp_path):
    folder = tmp_path / "SUBJECTS DIR é"
    write(folder, "sub-01", full())
    write(folder, "sub-02", full(3000.5, (1500, 2.75)))
    return folder


class TestStats:
    def test_regions_of_a_subjects_dir(self, subjects):
        frame = read_stats(subjects)
        assert sniff(subjects) == "freesurfer"
        assert frame.index.tolist() == ["sub-01", "sub-02"]
        assert frame.columns.tolist() == [
            "Left-Hippocampus", "Left-Thalamus", "lh_entorhinal_volume", "lh_precuneus_volume",
            "lh_entorhinal_thickness", "lh_precuneus_thickness", "rh_entorhinal_volume",
            "rh_entorhinal_thickness",
        ]  # fmt: skip
        assert_array_equal(frame.loc["sub-02"], [3000.5, 7000.5, 1500, 9000, 2.75, 2.5, 1700, 3.125])
        assert texts(frame.attrs["notes"]) == ["6 measures of the whole brain left out"]

    def test_whole_brain_measures_when_asked_for(self, subjects):
        frame = read_stats(subjects, global_measures=True)
        assert frame.loc["sub-01", WHOLE] == 1500000.25
        assert frame.loc["sub-01", "BrainSegVol"] == 1126237.0
        assert frame.loc["sub-01", "rh_MeanThickness_thickness"] == 2.4
        assert frame.columns.is_unique

    def test_measures_hemispheres_and_patterns(self, subjects):
        frame = read_stats(subjects, measures=["thickness"], hemispheres=["lh"])
        assert frame.columns.tolist() == ["lh_entorhinal_thickness", "lh_precuneus_thickness"]
        frame = read_stats(
            subjects, measures=["area", "meancurv"], columns=["*entorhinal*"], exclude=["rh_*"]
        )
        assert frame.columns.tolist() == ["lh_entorhinal_area", "lh_entorhinal_meancurv"]
        assert_array_equal(frame, [[800.0, 0.116]] * 2)

    def test_another_atlas(self, subjects):
        write(subjects, "sub-02", {"stats/lh.aparc.a2009s.stats": aparc({"G_cuneus": (3000, 1.75)})})
        frame = read_stats(subjects, atlas="aparc.a2009s", measures=["thickness"])
        assert frame.loc["sub-02"].to_dict() == {"lh_G_cuneus_thickness": 1.75}

    @pytest.mark.parametrize(
        ("name", "text"),
        [
            ("aseg.stats", aseg({"Left-Thalamus-Proper": 7000.5}, icv=(ICV, 1400000.5))),
            ("aseg.stats", aseg({"Left-Thalamus-Proper*": 7000.5}, icv=(ICV, 1400000.5))),
            ("aseg.stats", aseg({"Left-Thalamus": 7000.5}, icv=(ETIV, 1400000.5))),
            ("aseg+DKT.stats", aseg({"Left-Thalamus": 7000.5}, icv=(ETIV, 1400000.5))),
            ("samseg.fs.stats", aseg({"Left-Thalamus": 7000.5}, (ETIV, 1400000.5), SAMSEG_HEADERS)),
        ],
        ids=["version 5", "starred", "version 7", "FastSurfer", "SAMSEG"],
    )
    def test_versions_agree_on_names(self, tmp_path, name, text):
        write(tmp_path, "a", {f"stats/{name}": text})
        frame = read_stats(tmp_path, global_measures=True)
        assert frame.loc["a", "Left-Thalamus"] == 7000.5
        assert frame.loc["a", WHOLE] == 1400000.5

    def test_what_a_subject_lacks_is_missing(self, subjects):
        (subjects / "sub-01/stats/rh.aparc.stats").unlink()
        write(subjects, "sub-02", {"stats/aseg.stats": aseg({"Left-Hippocampus": 3000.5})})
        frame = read_stats(subjects)
        assert np.isnan(frame.loc["sub-02", "Left-Thalamus"])
        assert np.isnan(frame.loc["sub-01", "rh_entorhinal_thickness"])
        assert frame.loc["sub-01", "Left-Thalamus"] == 7000.5
        assert "rh.aparc.stats missing for 1 of 2 subjects" in texts(frame.attrs["notes"])

    def test_longitudinal_directories_and_templates(self, subjects):
        for name in ("sub-01_m00.long.sub-01", "sub-01_m12.long.sub-01", "fsaverage"):
            write(subjects, name, full(4000.5))
        cross = read_stats(subjects)
        assert cross.index.tolist() == ["sub-02"]
        assert "4 directories of other streams, templates or averages left out" in texts(cross.attrs["notes"])
        assert read_stats(subjects, longitudinal=True).index.tolist() == ["sub-01_m00", "sub-01_m12"]

    def test_only_longitudinal_directories(self, tmp_path):
        write(tmp_path, "a_m00.long.a", full())
        with pytest.raises(StudyError, match="set longitudinal = true"):
            read_stats(tmp_path)

    @pytest.mark.parametrize("mark", [".", "_"])
    def test_flat_folders(self, tmp_path, mark):
        for subject in ("01", "02"):
            (tmp_path / f"{subject}{mark}aseg.stats").write_text(aseg({"Left-Hippocampus": 3500.5}))
            (tmp_path / f"{subject}{mark}lh.aparc.stats").write_text(aparc({"cuneus": (1, 2.0)}))
        frame = read_stats(tmp_path)
        assert frame.index.tolist() == ["01", "02"]
        assert frame.columns.tolist() == ["Left-Hippocampus", "lh_cuneus_volume", "lh_cuneus_thickness"]

    def test_files_right_below_the_subject(self, tmp_path):
        write(tmp_path, "01", {"aseg.stats": aseg({"Left-Hippocampus": 3500.5})})
        assert read_stats(tmp_path).loc["01", "Left-Hippocampus"] == 3500.5

    @pytest.mark.parametrize(
        "text", ["", "# only\n# comments\n", "1 2 3\n", "1 17 x wide Left-Hippocampus\n"]
    )
    def test_broken_files_are_counted_not_named(self, subjects, text):
        (subjects / "sub-02/stats/aseg.stats").write_text(text)
        with pytest.raises(StudyError, match=r"1 of 2 files aseg\.stats have no table") as caught:
            read_stats(subjects)
        assert "sub-02" not in str(caught.value)

    def test_refusals(self, tmp_path, subjects):
        with pytest.raises(StudyError, match="no such folder"):
            read_stats(tmp_path / "absent")
        with pytest.raises(StudyError, match=r"no aseg\.stats or .* or lh\.DKT\.stats or .*check the folder"):
            read_stats(tmp_path, atlas="DKT")
        with pytest.raises(StudyError, match="unknown measure 'thicknes'; known are volume, thickness"):
            read_stats(subjects, measures=["thicknes"])


ASEG_TABLE = [
    ["Measure:volume", "Left-Thalamus-Proper", "Left-Hippocampus", "BrainSegVol", WHOLE],
    ["sub-01", "7000.5", "3500.5", "1100000.0", "1500000.25"],
    ["sub-02", "6900.5", "3000.5", "1000000.0", "1400000.25"],
]
LH_TABLE = [
    [
        "lh.aparc.thickness",
        "lh_entorhinal_thickness",
        "lh_MeanThickness_thickness",
        "BrainSegVolNotVent",
        "eTIV",
    ],
    ["sub-02", "2.75", "2.4", "990000.0", "1400000.25"],
    ["sub-03", "3.25", "2.5", "980000.0", "1300000.25"],
]


def table(path, rows, mark="\t"):
    path.write_text("\n".join(mark.join(row) for row in rows) + "\n")
    return path


class TestTables:
    @pytest.mark.parametrize("mark", ["\t", ",", " ", ";", "  "])
    def test_any_delimiter(self, tmp_path, mark):
        path = table(tmp_path / "aseg.txt", ASEG_TABLE, mark)
        assert sniff(path) == "freesurfer-table"
        frame = read_stats_table(path)
        assert frame.columns.tolist() == ["Left-Thalamus", "Left-Hippocampus"]
        assert frame.loc["sub-02"].tolist() == [6900.5, 3000.5]
        assert texts(frame.attrs["notes"]) == ["2 measures of the whole brain left out"]

    def test_several_tables_are_joined(self, tmp_path):
        paths = [table(tmp_path / "aseg.txt", ASEG_TABLE), str(table(tmp_path / "lh.csv", LH_TABLE, ","))]
        frame = read_stats_table(paths, global_measures=True)
        assert frame.index.tolist() == ["sub-01", "sub-02", "sub-03"]
        assert frame.index.name == "id"
        assert frame[WHOLE].tolist() == [1500000.25, 1400000.25, 1300000.25]
        assert_array_equal(frame["lh_entorhinal_thickness"], [NAN, 2.75, 3.25])
        assert_array_equal(frame["Left-Hippocampus"], [3500.5, 3000.5, NAN])
        frame = read_stats_table(paths)
        assert frame.columns.tolist() == ["Left-Thalamus", "Left-Hippocampus", "lh_entorhinal_thickness"]

    def test_tables_of_other_subjects_are_stacked(self, tmp_path):
        later = [ASEG_TABLE[0], ["sub-09", *ASEG_TABLE[1][1:]]]
        paths = [table(tmp_path / "1.txt", ASEG_TABLE), table(tmp_path / "2.txt", later)]
        assert read_stats_table(paths).loc["sub-09", "Left-Hippocampus"] == 3500.5

    @pytest.mark.parametrize("rows", [ASEG_TABLE, LH_TABLE])
    def test_a_transposed_table(self, tmp_path, rows):
        """As with --transpose: subjects are never read as features."""
        straight = read_stats_table(table(tmp_path / "a.txt", rows), global_measures=True)
        path = table(tmp_path / "b.txt", list(zip(*rows, strict=True)))
        turned = read_stats_table(path, global_measures=True)
        pd.testing.assert_frame_equal(turned, straight)
        assert texts(turned.attrs["notes"]) == ["a row per region turned into a row per subject"]
        assert sniff(path) == "freesurfer-table"

    def test_a_table_given_twice_is_refused(self, tmp_path):
        path = table(tmp_path / "aseg.txt", ASEG_TABLE)
        with pytest.raises(
            StudyError,
            match="2 subjects have the same features in several tables: 'Left-Thalamus', 'Left-Hippocampus'",
        ):
            read_stats_table([path, path])

    def test_other_measures_than_the_volume_are_named(self, tmp_path):
        rows = [["Measure:mean", "Left-Hippocampus"], ["sub-01/", "81.5"]]
        paths = [table(tmp_path / "a.txt", ASEG_TABLE), table(tmp_path / "b.txt", rows)]
        frame = read_stats_table(paths)
        assert frame.loc["sub-01"].to_dict() == {
            "Left-Thalamus": 7000.5, "Left-Hippocampus": 3500.5, "Left-Hippocampus_mean": 81.5,
        }  # fmt: skip

    def test_an_id_column_can_be_given(self, tmp_path):
        rows = [["n", "subject", "lh_cuneus_area"], ["1", "007", "1500"]]
        assert read_stats_table(table(tmp_path / "a.csv", rows, ","), id="subject").loc["007", "n"] == 1.0

    def test_refusals(self, tmp_path):
        with pytest.raises(StudyError, match="has 1 row with a duplicate id"):
            read_stats_table(table(tmp_path / "a.txt", [*ASEG_TABLE, ASEG_TABLE[1]]))
        with pytest.raises(StudyError, match="no columns left"):
            read_stats_table(table(tmp_path / "b.txt", [["Measure:volume", "BrainSegVol"], ["a", "1"]]))


class TestFastSurfer:
    VINN = (
        "# Measure Mask, MaskVol, Mask Volume, 1500000.0, mm^3\n"
        "# ColHeaders  Index SegId NVoxels Volume_mm3 StructName normMean normStdDev\n"
        "  1   17   3500   3500.5  Left-Hippocampus   60.1 5.0\n"
        "  2 1006   1900   1900.5  ctx-lh-entorhinal  61.1 5.0\n"
    )
    MAPPED = (
        "# Measure Cortex, MeanThickness, Mean Thickness, 2.40000, mm\n"
        "# ColHeaders StructName NumVert SurfArea GrayVol ThickAvg ThickStd MeanCurv GausCurv FoldInd\n"
        "entorhinal   1200   800  1800  3.250 0.512     0.116     0.025  13  1.3\n"
    )

    def write(self, folder, subject, **files):
        for name, text in files.items():
            path = folder / subject / "stats" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    def test_segmentation_only(self, tmp_path):
        self.write(tmp_path, "s1", **{"aseg+DKT.VINN.stats": self.VINN})
        frame = read_stats(tmp_path)
        assert frame.loc["s1"].to_dict() == {"Left-Hippocampus": 3500.5, "ctx-lh-entorhinal": 1900.5}

    def test_surfaces_and_segmentation_count_the_cortex_once(self, tmp_path):
        files = {"aseg+DKT.stats": self.VINN, "lh.aparc.DKTatlas.mapped.stats": self.MAPPED}
        self.write(tmp_path, "s1", **files)
        frame = read_stats(tmp_path)
        assert frame.loc["s1"].to_dict() == {
            "Left-Hippocampus": 3500.5,
            "lh_entorhinal_volume": 1800,
            "lh_entorhinal_thickness": 3.25,
        }
        notes = texts(frame.attrs["notes"])
        assert "no ?h.aparc.stats: atlas aparc.DKTatlas.mapped" in notes
        assert "1 cortical parcel of the segmentation left out: the surface has their volumes" in notes

    def test_different_segmentations_are_told(self, tmp_path):
        self.write(tmp_path, "s1", **{"aseg.stats": self.VINN})
        self.write(tmp_path, "s2", **{"aseg+DKT.VINN.stats": self.VINN})
        notes = texts(read_stats(tmp_path).attrs["notes"])
        assert "different segmentations: 1 with aseg.stats, 1 with aseg+DKT.VINN.stats" in notes

    def test_fmriprep_has_them_in_its_sourcedata(self, tmp_path):
        self.write(tmp_path / "sourcedata" / "freesurfer", "sub-01", **{"aseg.stats": self.VINN})
        self.write(tmp_path / "sourcedata" / "freesurfer", "fsaverage", **{"aseg.stats": self.VINN})
        assert sniff(tmp_path) == "freesurfer"
        assert read_stats(tmp_path).index.tolist() == ["sub-01"]


def test_tables_in_a_list_of_r(tmp_path):
    rdata = pytest.importorskip("rdata")
    ids = pd.array(["S1", "S2", "S3"], dtype=pd.StringDtype("python"))
    tables = {
        "first": pd.DataFrame({"Measure:volume": ids, "Left-Amygdala": [1.5, 2.5, 3.5]}),
        "second": pd.DataFrame({"Measure:volume": ids, "Left-Amygdala": [4.5, 5.5, 6.5]}),
    }
    path = tmp_path / "aseg.rds"
    rdata.write_rds(path, tables)
    for name, table in tables.items():
        frame = read_stats_table(path, object=name)
        assert_array_equal(frame["Left-Amygdala"], table["Left-Amygdala"])
        assert sniff(path, {"object": name}) == "freesurfer-table"
    assert read_stats_table(path, object="second", sheet=None).index.tolist() == ["S1", "S2", "S3"]
    with pytest.raises(StudyError, match="3 subjects have the same features in several tables"):
        read_stats_table(path)
    with pytest.raises(StudyError, match="no data frame or matrix 'third'"):
        read_stats_table(path, object="third")
    with pytest.raises(StudyError, match="sheet is not an option of"):
        read_stats_table(path, sheet="second")


def test_a_row_of_units_is_counted(tmp_path):
    rows = ["Measure:volume,Left-Amygdala,Right-Amygdala", "unit,mm3,mm3", "S1,1,2", "S2,3,4", "S3,5,6"]
    (tmp_path / "aseg.csv").write_text("\n".join(rows) + "\n")
    frame = read_stats_table(tmp_path / "aseg.csv")
    assert frame.index.tolist() == ["S1", "S2", "S3"]
    assert "1 row of descriptions below the header left out" in texts(frame.attrs["notes"])
