"""Genotypes counted as a stored model counts them, and polygenic scores: alleles, strands, absence."""

import gzip

import genotype_files as files
import numpy as np
import pandas as pd
import pytest
from noted import texts
from numpy.testing import assert_allclose, assert_array_equal
from small import without_figures

from viewloom.runs import predict, run_study
from viewloom.study.config.toml import read_study
from viewloom.study.errors import StudyError
from viewloom.study.readers.genetics import read_vcf
from viewloom.study.readers.genotypes.matching import complement, relation
from viewloom.study.readers.genotypes.panel import Panel
from viewloom.study.readers.plink import read_bed, read_raw

N, D = 60, 14
IDS = [f"s{i:02d}" for i in range(N)]
ROWS = files.panel(D)
VALUES = files.counts(N, D, missing=0.02)
TRUE = files.as_table(VALUES)


def turned(values):
    return np.where(values < 0, -1, 2 - values).astype(np.int8)


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """The panel of a model."""
    path = files.write_vcf(tmp_path_factory.mktemp("first") / "g.vcf", IDS, ROWS, VALUES)
    panel = read_vcf(path).attrs["variants"]
    return Panel.from_state(panel.features, panel.state())


def again(tmp_path, rows, values, stored, **options):
    frame = read_vcf(files.write_vcf(tmp_path / "new.vcf", IDS, rows, values), needed=stored, **options)
    return frame.reindex(columns=list(stored)), texts(frame.attrs["notes"])


class TestHarmonised:
    def test_the_same_file(self, tmp_path, stored):
        frame, notes = again(tmp_path, ROWS, VALUES, stored)
        assert_array_equal(frame, TRUE)
        assert notes == []

    @pytest.mark.parametrize("how", ["swapped", "flipped", "both", "renamed", "shuffled"])
    def test_other_notations(self, tmp_path, stored, how):
        rows, values = [list(row) for row in ROWS], VALUES.copy()
        for row in rows[:4]:
            if how in ("swapped", "both"):
                row[3:] = row[:2:-1]
            if how in ("flipped", "both"):
                row[3:] = [complement(allele) for allele in row[3:]]
            if how == "renamed":
                row[0], row[2] = f"chr{row[0]}", f"{row[0]}:{row[1]}:{row[3]}:{row[4]}"
        values[:4] = turned(values[:4]) if how in ("swapped", "both") else values[:4]
        if how == "shuffled":
            rows, values = rows[::-1], values[::-1]
        frame, notes = again(tmp_path, rows, values, stored)
        assert_array_equal(frame, TRUE)
        told = {
            "swapped": ["4 variants that the file counts by the other allele counted as in the model"],
            "flipped": ["4 variants on the other strand than in the model turned"],
            "renamed": ["4 variants of another name matched by place and alleles"],
            "shuffled": [],
        }
        assert notes == told.get(how, [*told["flipped"], *told["swapped"]])

    def test_absent_variants_and_other_alleles(self, tmp_path, stored):
        rows = [list(row) for row in ROWS[2:]]
        rows[0][4] = "GTT"
        frame, notes = again(tmp_path, rows, VALUES[2:], stored)
        assert frame.iloc[:, :3].isna().all().all()
        assert_array_equal(frame.iloc[:, 3:], TRUE[:, 3:])
        assert notes == [
            "1 variant with other alleles than in the model treated as absent",
            "3 variants of the model absent, replaced by the mean of the training data",
        ]
        with pytest.raises(
            StudyError, match="3 of the 14 variants of the model are absent, more than max_absent"
        ):
            again(tmp_path, rows, VALUES[2:], stored, max_absent=0.2)

    def test_places_of_another_genome_build_are_not_compared(self, tmp_path, stored):
        rows = [[c, p + 100, name, ref, alt] for c, p, name, ref, alt in ROWS]
        rows[5][2] = "unknown"  # at the place where the model has another variant
        rows[5][3:] = ROWS[6][3:]
        frame, notes = again(tmp_path, rows[:6] + rows[7:], np.delete(VALUES, 6, axis=0), stored)
        assert frame.iloc[:, [5, 6]].isna().all().all()
        assert "2 variants not matched by place, since the genome build is another" in notes

    @pytest.mark.parametrize(("copies", "others"), [("same", 8), ("turned", 8), ("same", 1), ("turned", 1)])
    def test_ambiguous_variants_by_frequency(self, tmp_path, copies, others):
        rng = np.random.default_rng(1)
        rows = [*ROWS[:others], ("2", 1, "rare", "A", "T"), ("2", 2, "half", "C", "G")]
        values = np.vstack([VALUES[:others], rng.binomial(2, 0.15, N), [0, 1, 2, 1] * (N // 4)]).astype(
            np.int8
        )
        panel = read_vcf(files.write_vcf(tmp_path / "g.vcf", IDS, rows, values)).attrs["variants"]
        new = values.copy()
        new[-2:] = turned(new[-2:]) if copies == "turned" else new[-2:]
        frame, notes = again(tmp_path, rows, new, panel, max_absent=0.9)
        rare, half = frame["rare_T"], frame["half_G"]
        if others >= 5:  # all on the same strand: taken as it is, unless frequencies contradict
            assert rare.isna().all() == (copies == "turned")
            assert half.notna().all()
        else:  # decided by frequency alone
            assert_array_equal(rare, values[-2])
            assert half.isna().all()
            assert any("of unknown strand treated as absent" in note for note in notes)

    def test_models_that_know_names_only(self, tmp_path):
        rows = [("1", 1, "rs1", "A", "G"), ("1", 2, "rs2", "A", "G"), ("1", 3, "rs3", "C", "T")]
        path = files.write_vcf(tmp_path / "g.vcf", IDS, rows, VALUES[:3])
        frame = read_vcf(path, needed={"rs1_A": 0, "rs2_G": 0, "rs3_G": 0}, max_absent=0.5)
        assert_array_equal(frame["rs1_A"], 2 - TRUE[:, 0])
        assert_array_equal(frame["rs2_G"], TRUE[:, 1])
        assert "rs3_G" in frame.attrs["empty"]  # not turned: the other allele is unknown

    def test_bed_and_raw(self, tmp_path, stored):
        pytest.importorskip("bed_reader")
        swapped = [(c, p, name, alt, ref) for c, p, name, ref, alt in ROWS]
        path = files.write_bed(tmp_path / "g.bed", IDS, swapped, turned(VALUES))
        assert_array_equal(read_bed(path, needed=stored), TRUE)
        raw = pd.DataFrame(2 - TRUE, columns=[f"{row[2]}_{row[3]}(/{row[4]})" for row in ROWS])
        raw = raw.map(lambda x: "NA" if np.isnan(x) else f"{x:.0f}")
        for name in ("PHENOTYPE", "SEX", "MAT", "PAT"):
            raw.insert(0, name, 0)
        raw.insert(0, "IID", IDS)
        raw.insert(0, "FID", 0)
        raw.to_csv(tmp_path / "g.raw", sep="\t", index=False)
        assert_array_equal(read_raw(tmp_path / "g.raw", needed=stored), TRUE)


@pytest.mark.parametrize(
    ("ours", "theirs", "expected"),
    [
        (("A", "T"), ("T", "A"), "swapped"),
        (("AC", "A"), ("T", "GT"), "flipped and swapped"),
        (("A", ""), ("T", ""), None),
        (("A", ""), ("A", ""), "same"),
        (("A", "G"), ("T", ""), "flipped"),
        (("1", "2"), ("2", "1"), "swapped"),
        (("A", "G"), ("A", "C"), None),
        (("", ""), ("A", "C"), None),
    ],
)
def test_relations_of_alleles(ours, theirs, expected):
    assert relation(*ours, *theirs) == expected


class TestScores:
    WEIGHT = np.random.default_rng(5).normal(size=D)

    def weights(self, rows=ROWS, effect=4, other=3):
        lines = ["rsID\tchr_name\tchr_position\teffect_allele\tother_allele\teffect_weight"]
        for row, weight in zip(rows, self.WEIGHT.tolist(), strict=False):
            lines.append(f"{row[2]}\t{row[0]}\t{row[1]}\t{row[effect]}\t{row[other]}\t{weight!r}")
        return "###PGS CATALOG SCORING FILE\n#pgs_id=PGS000001\n" + "\n".join(lines) + "\n"

    @pytest.fixture
    def path(self, tmp_path):
        return files.write_vcf(tmp_path / "g.vcf", IDS, ROWS, VALUES)

    @property
    def expected(self):
        filled = np.where(np.isnan(TRUE), np.nanmean(TRUE, axis=0), TRUE)
        return filled @ self.WEIGHT

    def test_sums_of_weights(self, path, tmp_path):
        one, two = tmp_path / "one.txt.gz", tmp_path / "plain.txt"
        one.write_bytes(gzip.compress(self.weights().encode()))
        two.write_text(
            "".join(f"{row[2]} {row[3]} {w!r}\n" for row, w in zip(ROWS, self.WEIGHT.tolist(), strict=True))
        )
        frame = read_vcf(path, scores=[one, two])
        assert frame.columns.tolist() == ["PGS000001", "plain"]
        assert_allclose(frame["PGS000001"], self.expected)
        assert_allclose(frame["plain"], 2 * self.WEIGHT.sum() - self.expected)
        assert texts(frame.attrs["notes"])[0] == "14 variants of 14 of score 'PGS000001' used"

    def test_quotation_marks_of_r(self, path, tmp_path):
        lines = [
            [f'"{row[2]}"', f'"{row[4]}"', repr(w)] for row, w in zip(ROWS, self.WEIGHT.tolist(), strict=True)
        ]
        for mark in ("\t", ",", " "):
            rows = [['"rsID"', '"effect_allele"', '"effect_weight"'], *lines]
            (tmp_path / "r.txt").write_text("".join(mark.join(row) + "\n" for row in rows))
            assert_allclose(read_vcf(path, scores=[tmp_path / "r.txt"])["r"], self.expected)

    def test_variants_without_a_harmonised_name_keep_their_own(self, path, tmp_path):
        rows = zip(ROWS, self.WEIGHT.tolist(), strict=True)
        text = "rsID\teffect_allele\teffect_weight\thm_rsID\n"
        text += "".join(
            f"{row[2]}\t{row[4]}\t{w!r}\t{row[2] if j % 2 else ''}\n" for j, (row, w) in enumerate(rows)
        )
        (tmp_path / "hm.txt").write_text(text)
        assert_allclose(read_vcf(path, scores=[tmp_path / "hm.txt"])["hm"], self.expected)

    def test_strands_and_absent_variants(self, path, tmp_path):
        rows = [*ROWS, ("9", 1, "new", "A", "G")]
        flipped = [[*row[:3], *map(complement, row[3:])] for row in rows]
        file = tmp_path / "w.tsv"
        file.write_text(self.weights(flipped[:-1]) + "new\t9\t1\tG\tA\t5\n")
        frame = read_vcf(path, scores=[file])
        assert_allclose(frame["PGS000001"], self.expected)
        assert texts(frame.attrs["notes"]) == [
            "14 variants of 15 of score 'PGS000001' used",
            "14 variants of score 'PGS000001' on the other strand turned",
            "1 variant of score 'PGS000001' absent",
        ]
        with pytest.raises(StudyError, match=r"w\.tsv: 1 of 15 variants are absent from the genotypes"):
            read_vcf(path, scores=[file], max_absent=0.0)

    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ("", "the file is empty"),
            ("a,b\n1,2\n", "needs columns of the variant"),
            ("rsID\teffect_allele\teffect_weight\nrs1\tA\tx\n", "1 weight is not a number"),
            (
                "rsID\teffect_allele\teffect_weight\tis_recessive\nrs1\tA\t1\tTrue\n",
                "1 weight is of terms that are not additive",
            ),
            (
                "rsID\teffect_allele\teffect_weight\teffect_type\nrs1\tA\t1\tdominant\nrs2\tA\t1\tadditive\n",
                r"1 weight is of terms that are not additive \(effect_type\)",
            ),
            (
                "rsID\teffect_allele\teffect_weight\taccession\nrs1\tA\t1\tPGS1\nrs1\tA\t2\tPGS2\n",
                r"has 2 scores \(column accession\); write one file per score",
            ),
        ],
    )
    def test_refusals(self, path, tmp_path, text, said):
        (tmp_path / "w.txt").write_text(text)
        with pytest.raises(StudyError, match=said):
            read_vcf(path, scores=[tmp_path / "w.txt"])
        with pytest.raises(StudyError, match="scores use all variants of the weights"):
            read_vcf(path, scores=[tmp_path / "w.txt"], min_maf=0.1)


class TestStudy:
    """From files per chromosome to a model, and new subjects of another notation."""

    @pytest.fixture
    def run(self, tmp_path_factory):
        folder = tmp_path_factory.mktemp("study")
        rng = np.random.default_rng(0)
        group = np.arange(N) % 2
        values = rng.binomial(2, np.where(group, 0.8, 0.2), size=(D, N)).astype(np.int8)
        for name, part in (("1", slice(0, 7)), ("2", slice(7, D))):
            rows = [(name, *row[1:]) for row in ROWS[part]]
            files.write_vcf(folder / f"chr{name}.vcf", IDS, rows, values[part])
        weights = "".join(f"{row[2]} {row[4]} 1\n" for row in ROWS)
        (folder / "all.txt").write_text(weights)
        (folder / "half.txt").write_text("".join(weights.splitlines(keepends=True)[::2]))
        text = '[views.snp]\npaths = "chr{chr}.vcf"\nmin_maf = 0.05\n[views.prs]\npaths = ["chr*.vcf"]\n'
        text += 'scores = ["all.txt", "half.txt"]\n[model]\nn_clusters = 2\nkernel = "linear"\n'
        (folder / "study.toml").write_text(text)
        study = read_study(folder / "study.toml")
        assert [path.name for path in study.views["snp"].paths] == ["chr1.vcf", "chr2.vcf"]
        assert study.plan["genotypes"] == ["snp"]
        with without_figures():
            run_study(study, folder / "run")
        return folder, values

    def test_new_subjects_of_another_notation(self, run, tmp_path):
        folder, values = run
        same = predict(folder / "run", read_study(folder / "study.toml"))
        rows = [("1" if j < 7 else "2", p, name, alt, ref) for j, (_, p, name, ref, alt) in enumerate(ROWS)]
        files.write_vcf(tmp_path / "all.vcf", IDS[::-1], rows, turned(values)[:, ::-1])
        (tmp_path / "study.toml").write_text('[views.snp]\npath = "all.vcf"\n')
        other = predict(folder / "run", read_study(tmp_path / "study.toml"))
        told = texts(other.attrs["notes"])
        assert (
            "view 'snp': 14 variants that the file counts by the other allele counted as in the model" in told
        )
        assert (same.set_index("id")["label"] == other.set_index("id")["label"]).mean() > 0.9

    def test_patterns_without_files(self, tmp_path):
        (tmp_path / "study.toml").write_text('[views.snp]\npaths = "chr*.vcf"\n')
        with pytest.raises(StudyError, match="no file matches"):
            read_study(tmp_path / "study.toml")
        (tmp_path / "study.toml").write_text('[views.snp]\npath = "chr*.vcf"\n')
        with pytest.raises(StudyError, match="a pattern belongs under paths"):
            read_study(tmp_path / "study.toml")
