"""Tables of ADNI in their own layout: visits, quality ratings, codes, strings among numbers."""

import csv

import numpy as np
import pytest
from noted import texts
from numpy.testing import assert_allclose, assert_array_equal

from viewloom.study.errors import StudyError
from viewloom.study.readers import sniff
from viewloom.study.readers.adni import read_adnimerge, read_fdg, read_tadpole
from viewloom.study.readers.ucsffsx import read_ucsffsx

NAN = np.nan


@pytest.fixture
def write(tmp_path):
    """Write rows, lists of cells or text between blanks, with all cells quoted as ADNI does."""

    def write(name, header, rows):
        path = tmp_path / name
        with path.open("w", newline="") as file:
            cells = (row.split() if isinstance(row, str) else row for row in [header, *rows])
            csv.writer(file, quoting=csv.QUOTE_ALL).writerows(cells)
        return path

    return write


UCSF = (
    "RID VISCODE VISCODE2 EXAMDATE VERSION IMAGEUID RUNDATE OVERALLQC TEMPQC "
    "ST29SV ST88SV ST24TA ST24TS ST24SA ST10CV"
)


def run(rid, visit, qc, rundate, image, hippocampus, entorhinal="3.25", visit2=None):
    visits = [visit, visit if visit2 is None else visit2]
    return [rid, *visits, "2010-01-01", "2012-01-01", image, rundate, qc, "Pass",
            hippocampus, "3600", entorhinal, "0.5", "400", "1500000"]  # fmt: skip


RUNS = [
    run("2", "sc", "Pass", "2010-05-01", "11", "3100"),
    run("2", "scmri", "Pass", "2012-05-01", "10", "3200"),  # the newest run that passed
    run("2", "bl", "Fail", "2013-05-01", "12", "9999"),
    run("2", "m12", "Pass", "2014-05-01", "13", "2900"),
    run("5", "v03", "Partial", "2012-05-01", "20", "3300", visit2="scmri"),
    run("5", "v03", "", "2013-05-01", "21", "3350", visit2="scmri"),
    run("11", "v03", "Pass", "2012-05-01", "30", "", "", visit2="bl"),
    run("14", "bl", "Pass", "2012-05-01", "41", "3500", visit2=""),  # VISCODE2 is blank
    run("14", "bl", "Pass", "2012-05-01", "42", "3400", visit2=""),  # same date, later image
]


class TestUcsffsx:
    def test_baseline_of_the_best_and_newest_run(self, write):
        path = write("UCSFFSX51_11_08_19.csv", UCSF, RUNS)
        assert sniff(path) == "ucsffsx"
        frame = read_ucsffsx(path)
        assert frame.index.tolist() == ["2", "11", "14"]
        assert frame.columns.tolist() == [
            "LeftHippocampus_volume", "RightHippocampus_volume", "LeftEntorhinal_thickness", "Icv_volume",
        ]  # fmt: skip
        assert_array_equal(frame["LeftHippocampus_volume"], [3200, NAN, 3400])
        assert texts(frame.attrs["notes"]) == [
            "1 row of another visit left out",
            "3 rows without OVERALLQC Pass left out",
            "2 runs of subjects with a better or newer one left out",
            "2 columns of other measures left out",
        ]

    def test_without_quality_control_a_partial_pass_comes_before_a_newer_unrated_run(self, write):
        frame = read_ucsffsx(write("x.csv", UCSF, RUNS), require_qc=False)
        assert frame["LeftHippocampus_volume"].to_dict()["5"] == 3300
        assert frame["LeftHippocampus_volume"].to_dict()["2"] == 3200

    def test_another_visit(self, write):
        frame = read_ucsffsx(write("x.csv", UCSF, RUNS), visit="m12", measures=["thicknessstd", "area"])
        assert frame.loc["2"].to_dict() == {"LeftEntorhinal_thicknessstd": 0.5, "LeftEntorhinal_area": 400.0}

    def test_visits_are_not_taken_for_runs(self, write):
        path = write("x.csv", UCSF, RUNS)
        with pytest.raises(StudyError, match="2 rows with a duplicate id; set visit to keep one visit"):
            read_ucsffsx(path, visit="all")

    def test_the_adni1_table_has_no_viscode2(self, write):
        rows = [[cell for j, cell in enumerate(row) if j != 2] for row in RUNS]
        path = write("UCSFFSX_11_02_15.csv", UCSF.replace("VISCODE2 ", ""), rows)
        assert read_ucsffsx(path).index.tolist() == ["2", "14"]

    def test_dates_of_the_american_kind(self, write):
        rows = [
            run("2", "bl", "Pass", "12/31/2010", "1", "3000"),
            run("2", "bl", "Pass", "1/2/2011", "1", "3100"),
        ]
        assert read_ucsffsx(write("x.csv", UCSF, rows))["LeftHippocampus_volume"].tolist() == [3100]

    def test_names_from_a_dictionary(self, write):
        texts = [
            ["UCSFFSX", "ST29SV", "Volume (WM Parcellation) of Hippocampus (left)"],
            ["UCSFFSX", "ST24TA", " Cortical Thickness Average of Entorhinal (left) "],
            ["UCSFFSX51", "ST29SV", "Volume of something else"],
        ]
        dictionary = write("dictionary.csv", "TBLNAME FLDNAME TEXT", texts)
        frame = read_ucsffsx(write("x.csv", UCSF, RUNS), dictionary=dictionary)
        assert frame.columns.tolist() == [
            "Hippocampus (left)_volume", "RightHippocampus_volume", "Entorhinal (left)_thickness",
            "Icv_volume",
        ]  # fmt: skip

    def test_two_codes_of_one_name_keep_their_codes(self, write):
        texts = [["ST29SV", "Volume of Hippocampus"], ["ST88SV", "Volume of Hippocampus"]]
        dictionary = write("dictionary.csv", "FLDNAME TEXT", texts)
        frame = read_ucsffsx(write("x.csv", UCSF, RUNS), dictionary=dictionary, columns=["ST29SV", "ST88SV"])
        assert frame.columns.tolist() == ["ST29SV", "ST88SV"]

    @pytest.mark.parametrize("columns", [["ST29SV", "ST1*"], ["LeftHippo*", "Icv_volume"]])
    def test_columns_by_code_or_name(self, write, columns):
        frame = read_ucsffsx(write("x.csv", UCSF, RUNS), columns=columns)
        assert frame.columns.tolist() == ["LeftHippocampus_volume", "Icv_volume"]

    @pytest.mark.parametrize(
        ("header", "rows", "options", "said"),
        [
            (UCSF, [run("2", "m12", "Pass", "", "1", "1")], {}, "no row has visit 'bl', 'sc', 'scmri'"),
            (
                UCSF,
                [run("2", "bl", "Fail", "", "1", "1")],
                {},
                "none of 1 rows has OVERALLQC Pass; set require_qc",
            ),
            (
                UCSF,
                [run("2", "bl", "Pass", "", "1", "n/d")],
                {},
                "column 'LeftHippocampus_volume' is not a number in 1 of 1 rows",
            ),
            ("RID VISCODE OVERALLQC X", [["2", "bl", "Pass", "1"]], {}, "no columns such as ST29SV"),
            ("RID VISCODE ST29SV", [["2", "bl", "1"]], {}, "no column OVERALLQC"),
            ("RID ST29SV", [["2", "1"]], {}, "no column VISCODE; set visit = 'all'"),
            ("PTID VISCODE ST29SV", [["2", "bl", "1"]], {}, "no id column 'RID'"),
        ],
    )
    def test_refusals(self, write, header, rows, options, said):
        with pytest.raises(StudyError, match=said):
            read_ucsffsx(write("x.csv", header, rows), **options)


MERGE = (
    "RID COLPROT ORIGPROT PTID SITE VISCODE EXAMDATE DX_bl AGE PTGENDER PTEDUCAT APOE4 FDG ABETA TAU "
    "MOCA MMSE Hippocampus ICV DX Years_bl Month"
)
MERGED = [
    "2 ADNI1 ADNI1 011_S_0002 11 bl 2005-09-08 CN 74.3 Male 16 0 1.36 >1700 <80 -1 28 8336 1984660 CN 0 0",
    "2 ADNI1 ADNI1 011_S_0002 11 m12 2006-09-08 CN 74.3 Male 16 0 1.09 1300 90 25 27 8000 1984660 MCI 1.5 12",
    "3 ADNI1 ADNI1 011_S_0003 7 bl 2005-09-12 AD 81.3 Male 18 1 NA 741.5 239 -1 20 5319 1920690 Dementia 0 0",
    ["4", "ADNI1", "ADNI1", "022_S_0004", "22", "bl", "2005-11-08", "LMCI", "67.5", "Female", "10", "", " ",
     "1501", "153.1", "24", "27", "", "1640770", "", "", "0"],
]  # fmt: skip


class TestAdnimerge:
    def test_numbers_at_baseline(self, write):
        path = write("ADNIMERGE.csv", MERGE, MERGED)
        assert sniff(path) == "adnimerge"
        frame = read_adnimerge(path)
        assert frame.index.tolist() == ["2", "3", "4"]
        assert frame.columns.tolist() == [
            "AGE", "PTEDUCAT", "APOE4", "FDG", "ABETA", "TAU", "MOCA", "MMSE", "Hippocampus", "ICV",
        ]  # fmt: skip
        assert_array_equal(frame["ABETA"], [1700, 741.5, 1501])
        assert_array_equal(frame["TAU"], [80, 239, 153.1])
        assert_array_equal(frame["FDG"], [1.36, NAN, NAN])
        assert_array_equal(frame["MOCA"], [NAN, NAN, 24])
        assert "2 cells beyond the range of the assay set to the limit" in texts(frame.attrs["notes"])
        assert "1 row of another visit left out" in texts(frame.attrs["notes"])

    def test_codes_are_missing_only_where_asked(self, write):
        path = write("ADNIMERGE.csv", MERGE, MERGED)
        frame = read_adnimerge(path, columns=["MO*", "MMSE"], missing_codes={"MOCA": [-1, -4]})
        assert_array_equal(frame, [[NAN, 28], [NAN, 20], [24, 27]])

    def test_participants(self, write):
        path = write("ADNIMERGE.csv", MERGE, MERGED)
        frame = read_adnimerge(path, id="PTID", numeric=False)
        assert frame.index.tolist() == ["011_S_0002", "011_S_0003", "022_S_0004"]
        assert frame["DX"].fillna("?").tolist() == ["CN", "AD", "?"]
        assert frame["DX_bl"].tolist() == ["CN", "AD", "LMCI"]
        assert frame["PTGENDER"].tolist() == ["Male", "Male", "Female"]
        assert frame["ABETA"].tolist() == [1700, 741.5, 1501]
        assert frame["AGE"].tolist() == [74.3, 81.3, 67.5]

    def test_the_age_is_that_of_the_visit(self, write):
        frame = read_adnimerge(write("ADNIMERGE.csv", MERGE, MERGED), visit="m12")
        assert_allclose(frame["AGE"], [75.8])

    def test_text_that_is_asked_for_as_a_number_is_refused(self, write):
        path = write("ADNIMERGE.csv", MERGE, MERGED)
        with pytest.raises(StudyError, match="column 'PTGENDER' is not a number in 3 of 3 rows"):
            read_adnimerge(path, columns=["PTGENDER"])

    def test_all_visits_repeat_ids(self, write):
        path = write("ADNIMERGE.csv", MERGE, MERGED)
        with pytest.raises(StudyError, match="1 row with a duplicate id; set visit to keep one visit"):
            read_adnimerge(path, visit="all")


FSX, FSL = "_UCSFFSX_11_02_15_UCSFFSX51_08_01_16", "_UCSFFSL_02_01_16_UCSFFSL51ALL_08_01_16"
PET = "RIGHT_PUTAMEN_BAIPETNMRC_09_12_16"
TADPOLE = (
    "RID PTID VISCODE SITE D1 D2 COLPROT DX_bl DXCHANGE AGE ADAS13 mPACCdigit Years_bl DX "
    f"ST29SV{FSX} ST24TA{FSX} ST29SV{FSL} EXAMDATE{FSX} {PET}"
)


def person(rid, dxchange, dx, hippocampus, pet, z="-4"):
    return [rid, f"011_S_{int(rid):04d}", "bl", "11", "1", "0", "ADNI1", "CN", dxchange, "70.5", "10", z, "0",
            dx, hippocampus, "3.25", "3000", "2005-01-01", pet]  # fmt: skip


PEOPLE = [
    person("2", "1", "NL", "3500", "1.5"),
    person("3", "4", "NL to MCI", "-4", "-4"),
    person("4", "6", "NL to Dementia", " ", " "),
    person("5", "8", "Dementia to MCI", "", "1.25"),
    person("6", "", "MCI to Dementia", "3100", "1.125"),
    person("7", "9", " ", "3000", "1.0"),
]


class TestTadpole:
    def test_diagnoses_come_from_dxchange(self, write):
        path = write("TADPOLE_D1_D2.csv", TADPOLE, PEOPLE)
        assert sniff(path) == "tadpole"
        frame = read_tadpole(path, numeric=False)
        assert frame["DX"].tolist() == ["CN", "MCI", "AD", "MCI", "AD", "CN"]

    def test_every_code_of_change(self, write):
        path = write("t.csv", TADPOLE, [person(str(code), str(code), "", "1", "1") for code in range(1, 10)])
        diagnoses = read_tadpole(path, numeric=False, columns=["DX"])["DX"].tolist()
        assert diagnoses == ["CN", "MCI", "AD", "MCI", "AD", "AD", "CN", "MCI", "CN"]

    def test_minus_four_is_missing_in_the_tables_of_images_only(self, write):
        path = write("t.csv", TADPOLE, PEOPLE)
        frame = read_tadpole(path, columns=["ST*" + FSX, "*BAIPET*", "mPACC*"])
        assert frame.columns.tolist() == [
            "mPACCdigit",
            "LeftHippocampus_volume",
            "LeftEntorhinal_thickness",
            PET,
        ]
        assert_array_equal(frame["LeftHippocampus_volume"], [3500, NAN, NAN, NAN, 3100, 3000])
        assert_array_equal(frame[PET], [1.5, NAN, NAN, 1.25, 1.125, 1.0])
        assert_array_equal(frame["mPACCdigit"], [-4] * 6)
        frame = read_tadpole(path, columns=["ADAS13", "ST29SV" + FSX], missing_codes=[3500])
        assert_array_equal(frame["LeftHippocampus_volume"], [NAN, -4, NAN, NAN, 3100, 3000])

    def test_regions_of_two_tables_keep_their_full_names(self, write):
        frame = read_tadpole(write("t.csv", TADPOLE, PEOPLE), columns=["ST29SV*", "ST24TA*"])
        assert frame.columns.tolist() == ["ST29SV" + FSX, "LeftEntorhinal_thickness", "ST29SV" + FSL]

    def test_measurements_by_default(self, write):
        frame = read_tadpole(write("t.csv", TADPOLE, PEOPLE), exclude=["*UCSFFSL*"])
        assert frame.columns.tolist() == [
            "AGE", "ADAS13", "mPACCdigit", "LeftHippocampus_volume", "LeftEntorhinal_thickness", PET,
        ]  # fmt: skip
        assert texts(frame.attrs["notes"]) == [
            "11 columns of text, ids, dates or copies left out",
            "2 cells with a missing code set to missing",
        ]


OLD_FDG = "RID VISCODE VISCODE2 UID ROINAME ROILAT EXAMDATE MEAN MEDIAN MODE MIN MAX STDEV TOTVOX"
REGIONS = [("Angular", "Left"), ("Angular", "Right"), ("CingulumPost", "Bilateral"), ("Temporal", "Left"),
           ("Temporal", "Right")]  # fmt: skip


def scan(rid, visit, values, uid="1"):
    rest = ["1.0", "1.0", "0.5", "2.0", "0.1", "100"]
    return [
        [rid, visit, visit, uid, name, side, "2006-01-01", value, *rest]
        for (name, side), value in zip(REGIONS, values, strict=True)
    ]


class TestFdg:
    def test_five_regions_of_the_old_release(self, write):
        rows = [*scan("2", "bl", ["1.1", "1.2", "1.3", "1.4", "1.5"]), *scan("2", "m12", ["9"] * 5),
                *scan("5", "bl", ["2.1", "2.2", "", "2.4", "2.5"])]  # fmt: skip
        path = write("UCBERKELEYFDG_07_30_15.csv", OLD_FDG, rows)
        assert sniff(path) == "fdg"
        frame = read_fdg(path)
        assert frame.columns.tolist() == [
            "Angular_Left", "Angular_Right", "CingulumPost_Bilateral", "Temporal_Left", "Temporal_Right",
        ]  # fmt: skip
        assert_array_equal(frame, [[1.1, 1.2, 1.3, 1.4, 1.5], [2.1, 2.2, NAN, 2.4, 2.5]])
        assert texts(frame.attrs["notes"]) == ["5 rows of other visits left out"]

    def test_two_scans_of_a_visit_are_averaged_aloud(self, write):
        rows = [*scan("2", "bl", ["1"] * 5), *scan("2", "bl", ["1.5"] * 5, uid="2")]
        frame = read_fdg(write("fdg.csv", OLD_FDG, rows))
        assert_array_equal(frame, [[1.25] * 5])
        assert texts(frame.attrs["notes"]) == [
            "5 pairs of subject and region measured more than once averaged"
        ]

    def test_the_present_release(self, write):
        header = "RID VISCODE VISCODE2 EXAMDATE LONIUID ROINAME MEAN MAX STDEV TOTVOX update_stamp"
        rows = [
            ["2", "v03", "bl", "2010-01-01", "I1", roi, mean, "2", "0.1", "100", "2020-01-01"]
            for roi, mean in (("MetaROI", "1.25"), ("Top50PonsVermis", "1.75"))
        ]
        frame = read_fdg(write("UCBERKELEYFDG_8mm.csv", header, rows))
        assert frame.loc["2"].to_dict() == {"MetaROI": 1.25, "Top50PonsVermis": 1.75}
        frame = read_fdg(write("x.csv", header, rows), value="MAX", columns=["Meta*"])
        assert frame.loc["2"].to_dict() == {"MetaROI": 2.0}
