"""From files to views and participants: who is joined, what is refused, what is told."""

import hashlib
import re

import numpy as np
import pandas as pd
import pytest
from noted import texts
from numpy.testing import assert_array_equal

from viewloom.study.check import check
from viewloom.study.cohort import input_hashes, load
from viewloom.study.config.toml import read_study
from viewloom.study.errors import StudyError
from viewloom.study.readers import takes
from viewloom.study.run import prepare

IDS = [f"S{j:02d}" for j in range(12)]


def table(ids=IDS, columns=("a", "b"), seed=0):
    values = np.random.default_rng(seed).normal(5.0, 1.0, (len(ids), len(columns))).round(3)
    return pd.DataFrame(values, index=pd.Index(ids, name="id"), columns=list(columns))


def people(ids=IDS):
    n = len(ids)
    return pd.DataFrame(
        {"dx": ["CN", "AD"] * (n // 2), "age": 60.0 + np.arange(n), "site": [1, 2, 3] * (n // 3), "spare": 0},
        index=pd.Index(ids, name="id"),
    )


PEOPLE = (
    "[participants]\npath = 'people.csv'\nid = 'id'\ndiagnosis = 'dx'\ncovariates = ['age']\nsite = 'site'\n"
)


@pytest.fixture
def study(tmp_path):
    """Write frames as CSV and a study of them; what `more` says is added to the file."""

    def write(views, people=None, more="", **options):
        text = ""
        for name, frame in views.items():
            frame.to_csv(tmp_path / f"{name}.csv")
            text += f"[views.{name}]\npath = '{name}.csv'\nid = 'id'\n{options.get(name, '')}\n"
        if people is not None:
            people.to_csv(tmp_path / "people.csv")
            text += PEOPLE
        (tmp_path / "study.toml").write_text(text + more)
        return read_study(tmp_path / "study.toml")

    return write


def refused(study):
    with pytest.raises(StudyError) as caught:
        load(study)
    lines = str(caught.value).split("\n")
    assert check(study).problems == lines, "check says something else than load"
    with pytest.raises(StudyError) as fitted:
        prepare(study)
    assert str(fitted.value) == str(caught.value), "fit says something else than load"
    assert not re.search(r"S\d\d|_S_", str(caught.value)), "an id was told"
    return lines


class TestLevels:
    def test_a_level_that_is_read_as_missing_cannot_be_merged(self, study):
        """`check` says it in the same words."""
        who = people().assign(dx=["None", "AD"] * (len(IDS) // 2))
        written = study({"a": table(IDS)}, who, more="levels = { dx = { control = ['None'] } }\n")
        (line,) = refused(written)
        assert f"column 'dx' has {len(IDS) // 2} missing cells, and 'None' is read as missing" in line


class TestJoining:
    def test_everyone_with_a_view_is_in_and_participants_are_aligned(self, study):
        a, b = table(IDS[:8]), table(IDS[4:], ["c", "d", "e"], seed=1)
        data = load(study({"a": a, "b": b}, people(IDS[:6])))
        assert data.views.ids.tolist() == IDS
        assert data.views.present.sum(axis=0).tolist() == [8, 8]
        assert_array_equal(data.views["a"][:8], a)
        assert_array_equal(data.views["b"][4:], b)
        assert data.views.feature_names["b"].tolist() == ["c", "d", "e"]
        assert data.participants.index.tolist() == IDS
        assert data.participants.columns.tolist() == ["dx", "site", "age"]
        assert data.participants["site"].tolist()[:6] == ["1", "2", "3", "1", "2", "3"]
        assert data.participants.iloc[6:].isna().all(axis=None)
        assert texts(data.notes) == ["6 subjects of the views are not among participants"]

    def test_the_order_of_rows_and_of_files_does_not_matter(self, study):
        frames, who = {"a": table(), "b": table(seed=1)}, people()
        expected = load(study(frames, who))
        shuffled = load(
            study({name: frame.sample(frac=1, random_state=3) for name, frame in frames.items()}, who[::-1])
        )
        for name in frames:
            assert_array_equal(shuffled.views[name], expected.views[name])
        pd.testing.assert_frame_equal(shuffled.participants, expected.participants)

    def test_missing_cells_stay_and_empty_rows_are_absent(self, study):
        a = table([*IDS, "S99"])
        a.iloc[0, 0] = np.nan
        a.iloc[[1, 12]] = np.nan
        data = load(study({"a": a, "b": table(seed=1)}))
        assert data.views.ids.tolist() == IDS
        assert np.isnan(data.views["a"][0]).tolist() == [True, False]
        assert not data.views.present[1, 0]
        assert data.participants is None
        assert texts(data.notes) == ["view 'a': 2 subjects without any value left out"]

    def test_adni_spellings_are_one_subject_if_asked(self, study):
        ptid = [f"011_S_{j:04d}" for j in range(1, 13)]
        bids = [f"sub-ADNI011S{j:04d}" for j in range(1, 13)]
        rid = [str(j) for j in range(1, 13)]
        written = study(
            {"a": table(ptid), "b": table([*bids[:11], "phantom"])}, people(rid), "[ids]\nmatch = 'adni'"
        )
        data = load(written)
        assert sorted(data.views.ids) == sorted([*rid, "phantom"])
        assert data.participants["age"].notna().sum() == 12
        assert "view 'b': 1 id is not of the 'adni' style and kept unchanged" in texts(data.notes)

    def test_a_better_match_is_pointed_out(self, study):
        ptid = [f"011_S_{j:04d}" for j in range(1, 13)]
        data = load(study({"a": table(ptid), "b": table([*ptid[:9], "10", "11", "12"])}))
        assert len(data.views) == 15
        assert texts(data.notes) == [
            "3 ids are spelled differently; match = 'adni' under [ids] would join them"
        ]

    def test_participants_without_a_view_are_left_out(self, study):
        data = load(study({"a": table(IDS[:6])}, people()))
        assert len(data.participants) == 6
        assert texts(data.notes) == ["6 participants are in no view and left out"]

    def test_columns_without_any_value_are_left_out_and_named(self, study):
        a = table(columns=["a", "b", "c", "d"])
        a[["b", "d"]] = np.nan
        data = load(study({"a": a}, people().assign(spare=np.nan)))
        assert data.views.feature_names["a"].tolist() == ["a", "c"]
        assert texts(data.notes) == ["view 'a': 2 columns without any value left out: 'b', 'd'"]

    @pytest.mark.parametrize(
        ("transform", "function"),
        [("log", np.log), ("log1p", np.log1p), ("sqrt", np.sqrt), ("none", np.positive)],
    )
    def test_transforms(self, study, transform, function):
        a = table()
        a.iloc[0, 0] = np.nan
        data = load(study({"a": a}, a=f"transform = '{transform}'"))
        assert_array_equal(data.views["a"], function(a.to_numpy()))

    def test_several_files_are_stacked_or_put_side_by_side(self, study, tmp_path):
        whole = table(columns=["a", "b", "c", "d"])
        parts = {
            "upper": whole[:5],
            "lower": whole[5:],
            "left": whole[["a", "b"]],
            "right": whole[["c", "d"]],
        }
        written = study(parts)
        for pair in (["upper", "lower"], ["left", "right"]):
            files = [f"{name}.csv" for name in pair]
            (tmp_path / "study.toml").write_text(f"[views.all]\npaths = {files}\nid = 'id'")
            data = load(read_study(tmp_path / "study.toml"))
            assert_array_equal(data.views["all"], whole)
            assert list(data.inputs) == sorted(files)
        assert load(written).views.names == list(parts)

    def test_files_of_a_view_may_spell_ids_differently(self, study, tmp_path):
        whole = table([str(j) for j in range(1, 13)], ["a", "b", "c", "d"])
        left, right = whole[["a", "b"]], whole[["c", "d"]].set_axis([f"011_S_{j:04d}" for j in range(1, 13)])
        study({"left": left, "right": right.rename_axis("id")})
        text = "[views.all]\npaths = ['left.csv', 'right.csv']\nid = 'id'\n[ids]\nmatch = 'adni'"
        (tmp_path / "study.toml").write_text(text)
        assert_array_equal(load(read_study(tmp_path / "study.toml")).views["all"], whole.sort_index())

    def test_tables_of_freesurfer_are_joined_by_their_reader(self, tmp_path):
        for side in ("lh", "rh"):
            frame = table(columns=[f"{side}_bankssts_thickness", f"{side}_cuneus_thickness", "eTIV"])
            frame.rename_axis(f"{side}.aparc.thickness").to_csv(tmp_path / f"{side}.tsv", sep="\t")
        (tmp_path / "study.toml").write_text("[views.fs]\npaths = ['lh.tsv', 'rh.tsv']")
        data = load(read_study(tmp_path / "study.toml"))
        assert data.views.ids.tolist() == IDS
        assert {"lh_cuneus_thickness", "rh_cuneus_thickness"} <= set(data.views.feature_names["fs"])

    def test_folders_have_one_hash_and_genotypes_three(self, tmp_path):
        stats = [tmp_path / f"fs/S{j:02d}/stats/aseg.stats" for j in range(2)]
        for path in stats:
            path.parent.mkdir(parents=True)
            path.write_text(
                "# ColHeaders Index SegId NVoxels Volume_mm3 StructName\n1 17 1 1.0 Left-Hippocampus\n"
            )
        for suffix in ("bed", "bim", "fam"):
            (tmp_path / f"chr.{suffix}").write_bytes(b"\x6c\x1b\x01\x00")
        (tmp_path / "study.toml").write_text("[views.fs]\npath = 'fs'\n[views.snp]\npath = 'chr.bed'")
        study = read_study(tmp_path / "study.toml")
        before = input_hashes(study)
        assert list(before) == ["chr.bed", "chr.bim", "chr.fam", "fs"]
        stats[1].write_text(stats[1].read_text().replace("1.0", "2.0"))
        after = input_hashes(study)
        assert [name for name in before if before[name] != after[name]] == ["fs"]

    def test_inputs_are_hashed_under_their_relative_paths(self, study, tmp_path):
        data = load(study({"a": table()}, people()))
        assert data.inputs == {
            name: hashlib.sha256((tmp_path / name).read_bytes()).hexdigest()
            for name in ("a.csv", "people.csv")
        }


class TestRefusals:
    def test_duplicate_ids(self, study):
        twice = pd.concat([table(), table()[:3]])
        (line,) = refused(study({"a": twice, "b": table()}))
        assert line.startswith("view 'a': ")
        assert "a.csv" in line
        assert "3 rows with a duplicate id" in line

    def test_ids_that_become_duplicates_by_matching(self, study):
        ids = ["2", "011_S_0002", *map(str, range(3, 13))]
        (line,) = refused(study({"a": table(ids)}, more="[ids]\nmatch = 'adni'"))
        assert line == (
            "view 'a': a.csv: 1 row with a duplicate id (ids matched as 'adni'); keep one row per "
            "subject, for example by choosing a visit."
        )

    def test_ids_that_never_match(self, study):
        (line,) = refused(study({"a": table(), "b": table([f"x{j}" for j in range(10)])}))
        assert line == (
            "views 'a' have no subject in common with 'b' (12 and 10 ids): check the id columns and the "
            "spelling of ids."
        )

    def test_ids_that_would_match_as_adni(self, study):
        ptid = [f"011_S_{j:04d}" for j in range(1, 13)]
        rid = [str(j) for j in range(4, 16)]
        views = {"a": table(ptid), "b": table(ptid, seed=1), "c": table(rid), "d": table(rid, seed=2)}
        (line,) = refused(study(views))
        assert line == (
            "views 'a', 'b' have no subject in common with 'c', 'd' (12 and 12 ids): set match = 'adni' "
            "under [ids], which matches 9."
        )

    def test_participants_who_are_strangers(self, study):
        ids = [f"011_S_{j:04d}" for j in range(1, 13)]
        (line,) = refused(study({"a": table(ids)}, people([str(j) for j in range(1, 13)])))
        assert line == (
            "the views have no subject in common with participants (12 and 12 ids): set match = 'adni' "
            "under [ids], which matches 12."
        )

    def test_a_view_of_one_column(self, study):
        (line,) = refused(study({"a": table(columns=["only"]), "b": table()}))
        assert line == (
            "view 'a': a.csv: the view has a single column 'only'; add columns, or name it "
            "under outcomes of [participants] instead."
        )

    def test_a_view_that_is_constant(self, study):
        (line,) = refused(study({"a": table() * 0.0, "b": table()}))
        assert line == "view 'a': a.csv: no column varies among its 12 subjects; leave the view out."

    @pytest.mark.parametrize(("n", "k", "least"), [(2, 2, 4), (2, 3, 6), (7, 4, 8)])
    def test_too_few_subjects(self, study, n, k, least):
        (line,) = refused(study({"a": table(IDS[:n])}, more=f"[model]\nn_clusters = {k}"))
        assert line == f"{n} subjects are too few for {k} clusters; at least {least} are needed."

    @pytest.mark.parametrize(
        ("old", "new", "expected"),
        [
            (
                "'age'",
                "'aeg'",
                "people.csv: no column 'aeg', named under covariates; did you mean 'age'?",
            ),
            (
                "'dx'",
                "'xyz'",
                "'xyz', named under diagnosis; there are 'dx', 'age', 'site', 'spare'.",
            ),
        ],
    )
    def test_columns_that_participants_do_not_have(self, study, tmp_path, old, new, expected):
        study({"a": table()}, people())
        path = tmp_path / "study.toml"
        path.write_text(path.read_text().replace(old, new))
        (line,) = refused(read_study(path))
        assert expected in line

    @pytest.mark.parametrize(
        ("key", "column"),
        [("diagnosis", "dx"), ("covariates", "age"), ("site", "site"), ("outcomes", "spare")],
    )
    def test_named_columns_without_any_value(self, study, tmp_path, key, column):
        more = "" if key != "outcomes" else "outcomes = ['spare']"
        written = study({"a": table()}, people().assign(**{column: np.nan}), more)
        (line,) = refused(written)
        assert line == (
            f"participants: people.csv: column {column!r}, named under {key}, has no value; remove it, "
            "or check visit and missing_codes."
        )
        data = load(written, training=False)  # new subjects, of whom it is not known yet
        assert data.participants[column].isna().all()
        assert len(data.participants) == 12

    def test_a_view_without_any_value(self, study):
        (line,) = refused(study({"a": table() * np.nan, "b": table()}))
        assert line == (
            "view 'a': a.csv: no column has any value among 12 subjects: 'a', 'b'; check the selection of "
            "rows and columns."
        )

    def test_every_column_that_is_absent_is_told(self, study, tmp_path):
        study({"a": table()}, people())
        path = tmp_path / "study.toml"
        path.write_text(path.read_text().replace("['age']", "['aeg', 'sit']"))
        assert [line[:42] for line in refused(read_study(path))] == [
            "participants: people.csv: no column 'aeg',",
            "participants: people.csv: no column 'sit',",
        ]

    def test_controls_whom_nobody_is(self, study):
        more = "[preparation]\nresidualise = ['age']\ncontrols = ['CN', 'cn']"
        (line,) = refused(study({"a": table()}, people(), more))
        assert line == (
            "participants: no subject has the diagnosis 'cn' of preparation.controls; did you mean 'CN'?"
        )

    def test_values_are_not_told_where_the_diagnosis_is_a_column_of_ids(self, study):
        who = people().assign(dx=IDS)
        (line,) = refused(study({"a": table()}, who, "[preparation]\ncontrols = 'healthy'"))
        assert line.endswith("of preparation.controls; there are 12 others.")

    @pytest.mark.parametrize(("transform", "count"), [("log", 3), ("sqrt", 2), ("log1p", 2)])
    def test_values_without_a_logarithm(self, study, transform, count):
        a = table()
        a.iloc[:3, 0] = [-4.0, -4.0, 0.0]
        (line,) = refused(study({"a": a}, a=f"transform = '{transform}'"))
        assert f"view 'a': a.csv: {count} values are without a finite {transform}, in column 'a'; " in line
        assert "missing_codes" in line

    def test_files_of_a_view_that_collide(self, study, tmp_path):
        study({"a": table(), "b": table(seed=1)})
        (tmp_path / "study.toml").write_text("[views.all]\npaths = ['a.csv', 'b.csv']\nid = 'id'")
        (line,) = refused(read_study(tmp_path / "study.toml"))
        assert "a.csv, b.csv: the files have both subjects and columns in common" in line

    def test_everything_that_is_wrong_is_told_at_once(self, study):
        lines = refused(
            study({"a": pd.concat([table(), table()]), "b": table(columns=["x"])}, people([*IDS[:11], "S00"]))
        )
        assert [line.split(":")[0] for line in lines] == ["view 'a'", "participants", "view 'b'"]


class TestWaysOut:
    """Keys that an error tells the user to set are keys of that very format."""

    KEYS = (
        "missing_codes", "exclude", "delimiter", "encoding", "decimal", "visit_column", "repeats", "variants",
        "min_maf", "min_call_rate", "require_qc", "longitudinal", "atlas", "layer", "modality", "dictionary",
    )  # fmt: skip
    ADNI = "RID,PTID,VISCODE,DX,A,B\n{rows}"
    UCSF = "RID,VISCODE2,OVERALLQC,ST29SV,ST88SV\n{rows}"
    RAW = "FID IID PAT MAT SEX PHENOTYPE rs1_A rs2_C\n{rows}"
    FS = "Measure:volume\tLeft-Hippocampus\tRight-Hippocampus\n{rows}"

    @pytest.mark.parametrize(
        ("format", "text"),
        [
            ("table", "id;x\n1;a\n"),
            ("table", "id,x,y\n1,inf,2\n"),
            ("table", "id,x,y\n1,2\n1,3,4,5\n"),
            ("table", "id,x,y\n1,2,0\n1,3,4\n"),
            ("table", "id,x,y\n1,2,0\n2,3,4\n"),
            ("adnimerge", ADNI.format(rows="1,011_S_0001,bl,CN,1,inf\n")),
            ("adnimerge", ADNI.format(rows="1,011_S_0001,m06,CN,1,2\n")),
            ("adnimerge", ADNI.format(rows="1,011_S_0001,bl,CN,1,2\n" * 2)),
            ("adnimerge", ADNI.format(rows="1,011_S_0001,bl,CN,1,2,3,4\n2,x\n")),
            ("adnimerge", "RID|PTID\n1|2\n"),
            ("ucsffsx", UCSF.format(rows="1,bl,Pass,x,2\n")),
            ("ucsffsx", UCSF.format(rows="1,bl,Fail,1,2\n")),
            ("ucsffsx", UCSF.format(rows="1,bl,Pass,0,2\n")),
            ("plink-raw", RAW.format(rows="1 1 0 0 1 1 0 x\n")),
            ("plink-raw", RAW.format(rows="1 1 0 0 1 1 0 3\n")),
            ("plink-raw", RAW.format(rows="1 1 0 0 1 1 0 NA\n")),
            ("plink-raw", RAW.format(rows="1 1 0 0 1 1 0 1\n" * 2)),
            ("plink-raw", "FID,IID\n1,2\n"),
            ("freesurfer-table", FS.format(rows="a\tx\t2\n")),
            ("freesurfer-table", FS.format(rows="a\t0\t2\nb\t1\t3\n")),
            ("freesurfer-table", FS.format(rows="a\t1\t2\n" * 2)),
            ("freesurfer-table", "Measure:volume\n1\n"),
        ],
    )
    def test_of_a_format(self, tmp_path, format, text):
        (tmp_path / "view.txt").write_text(text)
        id = "id = 'id'\n" if format == "table" else ""
        (tmp_path / "study.toml").write_text(
            f"[views.a]\npath = 'view.txt'\nformat = '{format}'\ntransform = 'log'\n{id}"
        )
        for line in refused(read_study(tmp_path / "study.toml")):
            line = re.sub(r"\w+ \(formats 'table' and 'long' only\)", "", line)
            said = set(re.findall(r"\w+", line)) & set(self.KEYS)
            assert {key for key in said if not takes(format, key)} == set(), line

    def test_an_infinite_cell_may_be_a_missing_code(self, study):
        a = table()
        a.iloc[0, 0] = np.inf
        (line,) = refused(study({"a": a}))
        assert "a.csv: column 'a' is infinite in 1 of 12 rows; list missing codes" in line
        assert np.isnan(load(study({"a": a}, a="missing_codes = ['inf']")).views["a"][0, 0])


class TestNewSubjects:
    def test_few_subjects_with_separate_views_can_be_placed(self, study):
        written = study({"a": table(IDS[:1]), "b": table(IDS[1:2])})
        with pytest.raises(StudyError):
            load(written)
        data = load(written, training=False)
        assert data.views.present.tolist() == [[True, False], [False, True]]

    def test_columns_of_which_nothing_is_known_stay(self, study):
        a = table(IDS[:2], ["a", "b", "c"])
        a["b"] = np.nan
        data = load(study({"a": a}), training=False)
        assert sorted(data.views.feature_names["a"]) == ["a", "b", "c"]
        assert texts(data.notes) == []

    def test_variants_are_not_chosen_by_how_common_they_are_among_a_few(self, tmp_path):
        rows = "".join(f"S{j} S{j} 0 0 1 -9 {call} 0\n" for j, call in enumerate("0120120"))
        (tmp_path / "a.raw").write_text(f"FID IID PAT MAT SEX PHENOTYPE rs1_A rs2_C\n{rows}")
        (tmp_path / "study.toml").write_text("[views.snp]\npath = 'a.raw'\nmin_maf = 0.01")
        written = read_study(tmp_path / "study.toml")
        assert load(written, training=False).views.feature_names["snp"].tolist() == ["rs1_A", "rs2_C"]
        assert "the view has a single column 'rs1_A'" in refused(written)[0]

    def test_none_of_them_need_be_a_control(self, study):
        more = "[preparation]\nresidualise = ['age']\ncontrols = 'healthy'"
        written = study({"a": table()}, people(), more)
        with pytest.raises(StudyError, match="no subject has the diagnosis 'healthy'"):
            load(written)
        assert len(load(written, training=False).views) == 12
