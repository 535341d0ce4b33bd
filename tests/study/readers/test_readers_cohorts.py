"""Tables of cohorts: amyloid and tau PET of ADNI, UK Biobank, OASIS-3, MUSE regions."""

import foreign_files as foreign
import numpy as np
import pandas as pd
import pytest
from noted import texts
from numpy.testing import assert_allclose, assert_array_equal

from viewloom.study.errors import StudyError
from viewloom.study.readers import FORMATS, sniff
from viewloom.study.readers.berkeley import kinds_of, read_pet
from viewloom.study.readers.muse import read_muse
from viewloom.study.readers.oasis import read_oasis
from viewloom.study.readers.ukb import drafts, parsed, read_ukb

RIDS = [2, 3, 5, 7]
EIDS = [1000011, 1000022, 1000033]
SUBJECTS = ["OAS30001", "OAS30002", "OAS30003"]


@pytest.fixture
def save(tmp_path):
    def save(frame, name="t.csv", **options):
        frame.to_csv(tmp_path / name, index=False, **options)
        return tmp_path / name

    return save


class TestPet:
    def test_regions_only_by_default(self, save):
        table = foreign.berkeley(RIDS, visits=("bl", "m24"))
        path = save(table, "UCBERKELEY_AMY_6MM.csv")
        assert sniff(path) == "adni-pet"
        frame = read_pet(path)
        sided = [name for name in table.columns if name.startswith(("CTX_LH", "CTX_RH", "LEFT_AMY"))]
        regions = [name for name in sided if name.endswith("_SUVR") and "UNKNOWN" not in name]
        assert frame.columns.tolist() == regions
        baseline = table[table["VISCODE"] == "bl"].set_index("RID")[regions]
        assert frame.index.tolist() == [str(rid) for rid in RIDS]
        assert_allclose(frame, baseline)
        assert "SUVR relative to WHOLECEREBELLUM, as in the file" in texts(frame.attrs["notes"])

    @pytest.mark.parametrize(
        ("measures", "columns"),
        [
            (["centiloids"], ["CENTILOIDS"]),
            (["status"], ["AMYLOID_STATUS", "AMYLOID_STATUS_COMPOSITE_REF"]),
            (["summary"], ["SUMMARY_SUVR"]),
            (["bilateral"], [f"CTX_{region}_SUVR" for region in foreign.REGIONS]),
        ],
    )
    def test_other_measures_are_asked_for(self, save, measures, columns):
        frame = read_pet(save(foreign.berkeley(RIDS)), measures=measures)
        assert frame.columns.tolist() == columns

    def test_every_numeric_column_has_one_measure(self):
        kinds = kinds_of(list(foreign.berkeley(RIDS, kind="tau").columns))
        assert kinds["META_TEMPORAL_SUVR"] == kinds["BRAAK1_SUVR"] == "summary"
        assert kinds["INFERIORCEREBELLUM_SUVR"] == kinds["LEFT_CEREBELLUM_CORTEX_SUVR"] == "reference"
        assert kinds["CSF_SUVR"] == kinds["CTX_LH_UNKNOWN_SUVR"] == "other"
        assert kinds["RID"] is kinds["qc_flag"] is kinds["LONIUID"] is None

    def test_negative_centiloids_are_kept_and_codes_are_not(self, save):
        table = foreign.berkeley(RIDS)
        table.loc[0, "CENTILOIDS"], table.loc[1, "CTX_LH_CUNEUS_SUVR"] = -4, -4
        frame = read_pet(save(table), measures=["suvr", "centiloids"])
        assert frame.loc["2", "CENTILOIDS"] == -4
        assert np.isnan(frame.loc["3", "CTX_LH_CUNEUS_SUVR"])

    def test_tracers_are_not_mixed(self, save):
        path = save(foreign.berkeley(RIDS, tracers=("FBP", "FBB")))
        with pytest.raises(StudyError, match=r"2 tracers .*'FBB', 'FBP'.*set tracer"):
            read_pet(path)
        assert read_pet(path, tracer="FBB").index.tolist() == ["3", "7"]
        assert len(read_pet(path, measures=["centiloids"])) == len(RIDS)

    def test_scans_that_fail_are_left_out(self, save):
        table = foreign.berkeley(RIDS)
        table.loc[[0, 1], "qc_flag"] = [0, -1]
        path = save(table)
        assert read_pet(path).index.tolist() == ["5", "7"]
        assert len(read_pet(path, require_qc=False)) == 4

    def test_values_that_are_not_relative_are_divided(self, save):
        table = foreign.berkeley(RIDS, kind="tau")
        suvr = [name for name in table.columns if name.endswith("_SUVR")]
        factor = np.array([0.9, 1.1, 1.2, 1.3])
        raw = table.assign(**{name: table[name] * factor for name in suvr})
        frame = read_pet(save(raw))
        assert_allclose(frame, table[frame.columns])
        assert "SUVR divided by that of INFERIORCEREBELLUM" in texts(frame.attrs["notes"])

    def test_another_reference_region(self, save):
        table = foreign.berkeley(RIDS)
        frame = read_pet(save(table), reference_region="COMPOSITE_REF")
        assert_allclose(
            frame["CTX_LH_CUNEUS_SUVR"], table["CTX_LH_CUNEUS_SUVR"] / table["COMPOSITE_REF_SUVR"]
        )
        with pytest.raises(StudyError, match="no reference region 'COMPOSITE'; did you mean 'COMPOSITE_REF'"):
            read_pet(save(table), reference_region="COMPOSITE")

    def test_first_scan_by_date(self, save):
        table = foreign.berkeley(RIDS, visits=("m24", "m48"))
        table["VISCODE2"] = table["VISCODE"] = ["4_m24", "x"] * len(RIDS)  # codes without an order
        frame = read_pet(save(table), visit="first", columns=["CTX_LH_CUNEUS_SUVR"])
        assert_allclose(frame["CTX_LH_CUNEUS_SUVR"], table["CTX_LH_CUNEUS_SUVR"].iloc[::2])

    def test_an_old_release_has_no_suffix(self, save):
        table = foreign.berkeley(RIDS)
        old = {name: name.replace("_SUVR", "").replace("_VOLUME", "_SIZE") for name in table.columns}
        path = save(table.rename(columns=old).drop(columns=["TRACER", "qc_flag", "CENTILOIDS"]))
        assert sniff(path) == "adni-pet"
        frame = read_pet(path)
        assert "CTX_LH_CUNEUS" in frame.columns
        assert not any(name.endswith("SIZE") for name in frame.columns)

    @pytest.mark.parametrize(
        ("options", "said"),
        [
            ({"measures": ["thickness"]}, "unknown measure 'thickness'"),
            ({"tracer": "PIB"}, "no row has tracer 'PIB'; there are 'FBP'"),
            ({"visit": "m12"}, "no row has visit 'm12'"),
            ({"columns": ["X*"]}, "no column matches"),
        ],
    )
    def test_refusals(self, save, options, said):
        with pytest.raises(StudyError, match=said):
            read_pet(save(foreign.berkeley(RIDS)), **options)


class TestUkb:
    @pytest.mark.parametrize("style", ["rap", "csv", "r", "stata"])
    def test_all_spellings_give_the_same(self, save, style):
        table = foreign.ukb(EIDS, style)
        path = save(table)
        assert sniff(path) == "ukb"
        frame = read_ukb(path, instance=2, arrays="drop", columns=["25*"])
        assert frame.columns.tolist() == ["p25005", "p25010", "p25019"]
        assert_array_equal(frame["p25010"], table[foreign.ukb_name(style, 25010, 2)])
        assert frame.index.tolist() == [str(id) for id in EIDS]

    @pytest.mark.parametrize("style", ["rap", "csv", "r", "stata"])
    def test_age_sex_and_visit_are_no_features_of_a_draft(self, save, style):
        path = save(foreign.ukb(EIDS, style).assign(**{foreign.ukb_name(style, 21003, 2): range(len(EIDS))}))
        (settings,) = drafts(path)
        sex = ["p31"] if style == "rap" else []  # elsewhere of instance 0
        assert settings == {"instance": 2, "arrays": "drop", "exclude": [*sex, "p53", "p21003"]}
        assert read_ukb(path, **settings).columns.tolist() == ["p25005", "p25010", "p25019"]

    def test_a_table_of_age_and_sex_alone_is_kept(self, save):
        path = save(pd.DataFrame({"eid": EIDS, "p31": 1, "p21022": range(len(EIDS))}))
        assert drafts(path) == [{}]

    def test_instances_and_arrays_are_chosen(self, save):
        table = foreign.ukb(EIDS)
        path = save(table)
        with pytest.raises(StudyError, match="fields have instances 2, 3; set instance"):
            read_ukb(path)
        with pytest.raises(StudyError, match="1 field with several array elements: 'p102'; set arrays"):
            read_ukb(path, instance=2)
        mean = read_ukb(path, instance=2, arrays="mean")
        assert_allclose(mean["p102"], table[["p102_i2_a0", "p102_i2_a1"]].mean(axis=1))
        assert "p53" not in mean.columns  # dates
        assert "p31" in mean.columns  # without instances
        assert_array_equal(read_ukb(path, instance=2, arrays="first")["p102"], table["p102_i2_a0"])
        assert {"p102_a0", "p102_a1"} <= set(read_ukb(path, instance=2, arrays="all").columns)
        notes = texts(read_ukb(path, instance=3, arrays="drop").attrs["notes"])
        assert "2 fields without instance 3 left out" in notes
        assert "instance 3 kept" in notes

    def test_a_dictionary_names_fields_and_leaves_out_codes(self, save):
        fields = {"FieldID": [25005, 25010, 25019, 31], "Field": ["Grey matter", "Brain", "Brain", "Sex"]}
        fields["ValueType"] = ["Continuous", "Continuous", "Continuous", "Categorical single"]
        dictionary = save(pd.DataFrame(fields), "dictionary.tsv", sep="\t")
        path = save(foreign.ukb(EIDS))
        frame = read_ukb(path, instance=2, arrays="drop", dictionary=dictionary)
        assert frame.columns.tolist() == ["Grey matter", "Brain (25010)", "Brain (25019)"]
        chosen = read_ukb(path, instance=3, dictionary=dictionary, columns=["Grey*", "p31"])
        assert chosen.columns.tolist() == ["Sex", "Grey matter"]

    def test_participants(self, save):
        frame = read_ukb(save(foreign.ukb(EIDS)), instance=2, arrays="drop", numeric=False)
        assert frame["p53"].tolist() == ["2015-03-01"] * 3

    def test_other_names_are_not_fields(self):
        assert [parsed(name) for name in ("p12_i2_b1", "12-2", "p", "n_eid", "25005")] == [None] * 5

    @pytest.mark.parametrize(
        ("text", "options", "said"),
        [
            ("eid,age\n1,2\n", {}, "no columns such as p25005_i2"),
            ("eid,p1_i0\n1,2\n1,3\n", {}, "1 row with a duplicate id"),
            ("eid,p1_i0\n1,2\n", {"instance": 2}, "no field has instance 2; there are 0"),
            ("eid,p1_i0\n1,2\n", {"columns": ["p2"]}, "no field matches 'p2'"),
            ("eid,p1_i0\n1,2\n", {"exclude": ["p1"]}, "no fields left"),
            ("id,p1_i0\n1,2\n", {}, "no id column 'eid'"),
        ],
    )
    def test_refusals(self, tmp_path, text, options, said):
        (tmp_path / "t.csv").write_text(text)
        with pytest.raises(StudyError, match=said):
            read_ukb(tmp_path / "t.csv", **options)


class TestOasis:
    def test_subjects_and_days_from_labels(self, save):
        table = foreign.oasis(SUBJECTS)
        path = save(table)
        assert sniff(path) == "oasis3"
        frame = read_oasis(path)
        assert frame.index.tolist() == SUBJECTS
        assert_array_equal(frame["IntraCranialVol"], table["IntraCranialVol"].iloc[::2])
        assert_array_equal(read_oasis(path, visit="last")["lhCortexVol"], table["lhCortexVol"].iloc[1::2])
        assert frame.columns.tolist() == ["IntraCranialVol", "lhCortexVol", "Left-Hippocampus_volume"]

    def test_the_order_of_days_is_that_of_numbers(self, save):
        table = foreign.oasis(SUBJECTS, days=(10300, 9000))
        assert_array_equal(read_oasis(save(table))["lhCortexVol"], table["lhCortexVol"].iloc[1::2])

    def test_a_month(self, save):
        table = foreign.oasis(SUBJECTS)
        frame = read_oasis(save(table), visit={"months": 24, "within": 3})
        assert_array_equal(frame["lhCortexVol"], table["lhCortexVol"].iloc[1::2])

    @pytest.mark.parametrize(
        "header",
        [
            "OASISID,OASIS_session_label,days_to_visit,a",
            "Subject,MR ID,M/F,a",
            "Subject,oasis_session_id,tracer,a",
            "Subject,XNAT_PETSESSIONDATA ID,M/F,a",
            "Subject,Label,M/F,a",
        ],
    )
    def test_headers_of_other_tables(self, tmp_path, header):
        (tmp_path / "t.csv").write_text(f"{header}\nOAS30001,OAS30001_MR_d0129,129,1\n")
        assert sniff(tmp_path / "t.csv") == "oasis3"
        expected = ["a"] if "days" in header else [header.split(",")[2], "a"]
        assert read_oasis(tmp_path / "t.csv").columns.tolist() == expected

    @pytest.mark.parametrize("header", ["MR ID", "freesurfer_id", "session_label"])
    @pytest.mark.parametrize("suffix", [".csv", ".parquet"])
    def test_columns_of_the_same_name_in_tables_of_others(self, tmp_path, header, suffix):
        table = pd.DataFrame({header: ["MR0001", "MR0002"], "a": [1.0, 2.0]})
        path = tmp_path / f"t{suffix}"
        table.to_csv(path, index=False) if suffix == ".csv" else table.to_parquet(path)
        assert sniff(path) == "table"

    def test_participants_keep_text(self, save):
        table = foreign.oasis(SUBJECTS).assign(dx1=["Cognitively normal", "AD Dementia"] * 3)
        frame = read_oasis(save(table), numeric=False)
        assert frame["dx1"].tolist() == ["Cognitively normal"] * 3
        assert "Session" not in frame.columns

    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ("MR_session,a\nx,1\n", "no column of labels such as OAS30001_MR_d0129"),
            ("MR_session,a\nOAS30001_MR_d0129,1\nOAS30001_MR_d0129,2\n", "1 row with a duplicate id"),
        ],
    )
    def test_refusals(self, tmp_path, text, said):
        (tmp_path / "t.csv").write_text(text)
        with pytest.raises(StudyError, match=said):
            read_oasis(tmp_path / "t.csv")


class TestMuse:
    @pytest.mark.parametrize("prefix", ["", "MUSE_Volume_", "H_MUSE_Volume_", "DL_MUSE_Volume_"])
    def test_single_regions_by_default(self, save, prefix):
        table = foreign.muse(["a", "b"], prefix)
        path = save(table)
        assert sniff(path) == "muse"
        frame = read_muse(path)
        assert frame.shape == (2, 20)
        assert_array_equal(frame["MUSE_47"], table[f"{prefix}47"])
        assert "5 derived regions left out" in texts(frame.attrs["notes"])
        assert read_muse(path, rois="derived").columns.tolist()[-1] == "MUSE_702"
        assert read_muse(path, rois="all").shape == (2, 25)

    def test_plain_numbers_beside_other_ids(self, save):
        assert sniff(save(foreign.muse(["a", "b"]).rename(columns={"MRID": "ID"}))) == "muse"
        without = foreign.muse(["a", "b"]).rename(columns={"MRID": "ID"}).drop(columns="702")
        assert sniff(save(without, "o.csv")) == "table"

    def test_a_few_plain_numbers_are_no_regions(self, save):
        assert sniff(save(foreign.muse(["a", "b"]).iloc[:, :20])) == "table"

    def test_lesions_in_regions(self, save):
        path = save(foreign.muse(["a", "b"], "DL_WMLS_Volume_"))
        assert sniff(path) == "muse"
        assert read_muse(path).columns.tolist()[:2] == ["WMLS_4", "WMLS_11"]

    def test_names(self, save):
        names = pd.DataFrame(
            {"ID": [47, 48, 702], "Full_Name": ["Right Hippocampus", "Left Hippocampus", "ICV"]}
        )
        path = save(foreign.muse(["a", "b"]))
        frame = read_muse(path, dictionary=save(names, "names.csv"), columns=["*Hippocampus", "52"])
        assert frame.columns.tolist() == ["Right Hippocampus", "Left Hippocampus", "MUSE_52"]

    def test_raw_beside_harmonised_volumes(self, save):
        both = foreign.muse(["a", "b"], "MUSE_Volume_").merge(foreign.muse(["a", "b"], "H_MUSE_Volume_"))
        with pytest.raises(StudyError, match="25 regions have several columns, such as raw and harmonised"):
            read_muse(save(both))


@pytest.mark.parametrize("format", ["adni-pet", "ukb", "oasis3", "muse"])
@pytest.mark.parametrize("text", ["", "\n", "a,b\n", "\0\0\0", "eid\n1\n", "RID\n1\n", "x,y\n1\n1,2,3\n"])
def test_damaged_files_give_one_line(tmp_path, format, text):
    path = tmp_path / "t.csv"
    path.write_text(text)
    with pytest.raises(StudyError) as caught:
        FORMATS[format](path)
    assert "\n" not in str(caught.value)
