"""PLINK 2, BGEN, VCF and BCF: values of independent readings, and files that are not as they should be."""

import gzip
import os
from pathlib import Path

import genotype_files as files
import numpy as np
import pandas as pd
import pytest
from noted import texts
from numpy.testing import assert_allclose, assert_array_equal

from viewloom.study.errors import StudyError
from viewloom.study.readers import sniff
from viewloom.study.readers.genetics import read_bgen, read_pgen, read_vcf
from viewloom.study.readers.genotypes import sources
from viewloom.study.readers.genotypes.counts import Counts
from viewloom.study.readers.genotypes.filters import Filters
from viewloom.study.readers.genotypes.pgen import PgenSource
from viewloom.study.readers.genotypes.pgen_header import records
from viewloom.study.readers.genotypes.vcf_cells import decimals
from viewloom.study.readers.plink import read_bed

REAL = Path(os.environ.get("VIEWLOOM_REALFILES", Path(__file__).parents[4] / "shared/realfiles"))
N, D = 23, 17
IDS = [f"s{i:02d}" for i in range(N)]
ROWS = files.panel(D)
VALUES = files.counts(N, D)
NAMES = [f"{row[2]}_{row[4]}" for row in ROWS]
WRITE = {
    ".pgen": files.write_pgen,
    ".bed": files.write_bed,
    ".vcf": files.write_vcf,
    ".vcf.gz": files.write_vcf,
}
READ = {".pgen": read_pgen, ".bed": read_bed, ".vcf": read_vcf, ".vcf.gz": read_vcf, ".bgen": read_bgen}


@pytest.mark.parametrize("suffix", list(WRITE))
def test_calls_are_those_written(tmp_path, suffix):
    path = WRITE[suffix](tmp_path / f"génotypes v1{suffix}", IDS, ROWS, VALUES)
    assert sniff(path) == {".pgen": "pgen", ".bed": "plink"}.get(suffix, "vcf")
    frame = READ[suffix](path)
    assert frame.index.tolist() == IDS
    assert frame.columns.tolist() == NAMES
    assert_array_equal(frame, files.as_table(VALUES))
    assert texts(frame.attrs["notes"]) == []
    rows = frame.attrs["variants"].rows
    assert rows["position"].tolist() == [row[1] for row in ROWS]
    assert rows["other"].tolist() == [row[3] for row in ROWS]
    assert_allclose(rows["frequency"], np.nanmean(frame, axis=0) / 2)


class TestPgen:
    def test_dosages_and_quality(self, tmp_path):
        rng = np.random.default_rng(0)
        dosages = np.round(rng.uniform(0, 2, size=(D, N)) * 16384) / 16384
        dosages[3, 4] = -1
        path = files.write_pgen(tmp_path / "g.pgen", IDS, ROWS, dosages, info=[0.2, *[0.9] * (D - 1)])
        assert_allclose(read_pgen(path), np.where(dosages < 0, np.nan, dosages).T, atol=1e-4)
        good = read_pgen(path, min_info=0.5)
        assert good.columns.tolist() == NAMES[1:]
        assert texts(good.attrs["notes"]) == ["1 variant below a quality of imputation of 0.5 left out"]

    def test_dosages_in_a_late_block_of_the_header_are_found(self, tmp_path):
        d = 65536 + 3
        values = np.zeros((d, 2))
        values[0], values[-1] = 2, [0.25, 2]
        rows = [("1", j + 1, f"v{j}", "A", "G") for j in range(d)]
        path = files.write_pgen(tmp_path / "g.pgen", ["a", "b"], rows, values)
        assert_array_equal(read_pgen(path, variants=["v0", f"v{d - 1}"]), [[2, 0.25], [2, 2]])

    def test_compressed_variants_and_old_companions(self, tmp_path):
        arrow = pytest.importorskip("pyarrow")
        path = files.write_pgen(tmp_path / "g.pgen", IDS, ROWS, VALUES)
        text = path.with_suffix(".pvar").read_bytes()
        path.with_suffix(".pvar").unlink()
        with arrow.CompressedOutputStream(str(tmp_path / "g.pvar.zst"), "zstd") as stream:
            stream.write(text)
        assert_array_equal(read_pgen(path), files.as_table(VALUES))
        (tmp_path / "g.pvar.zst").write_bytes(b"\x28\xb5\x2f\xfd broken")
        with pytest.raises(StudyError, match=r"g\.pvar\.zst: is damaged or truncated"):
            read_pgen(path)
        (tmp_path / "g.pvar.zst").unlink()
        files.write_bed(tmp_path / "g.bed", IDS, ROWS, VALUES)
        assert read_pgen(path).columns.tolist() == NAMES

    @pytest.mark.parametrize(
        ("suffix", "change", "said"),
        [
            (".pgen", lambda b: b[:-3], "damaged or truncated"),
            (".pgen", lambda b: b[:2], "is not a PLINK 2 .pgen file"),
            (".pgen", lambda b: b"", "is not a PLINK 2"),
            (
                ".pgen",
                lambda b: b[:3] + b"\xff\xff\xff\x7f" + b[7:],
                "but its .pvar and .psam have 17 and 23",
            ),
            (".psam", lambda b: b.replace(b"s01", b"s00"), "1 row with a duplicate id"),
            (".psam", lambda b: b"", r"g\.psam: the file is empty"),
            (".psam", lambda b: b.replace(b"IID", b"ID"), "no column IID"),
            (".pvar", lambda b: b.replace(b"\t100\t", b"\tx\t"), "1 variant has no valid position"),
            (".pvar", lambda b: b.replace(b"ALT", b"A1"), "no column ALT"),
            (".pvar", lambda b: b[:40], "is not a table of variants"),
        ],
    )
    def test_refusals(self, tmp_path, suffix, change, said):
        path = files.write_pgen(tmp_path / "g.pgen", IDS, ROWS, VALUES)
        beside = path.with_suffix(suffix)
        beside.write_bytes(change(beside.read_bytes()))
        with pytest.raises(StudyError, match=said):
            read_pgen(path)
        beside.unlink()
        with pytest.raises(StudyError, match=r"no such file; \.pgen, \.pvar and \.psam belong together"):
            read_pgen(path)

    def test_variants_of_several_alleles_are_counted(self, tmp_path):
        pgenlib = pytest.importorskip("pgenlib")
        path = tmp_path / "g.pgen"
        with pgenlib.PgenWriter(bytes(path), 3, variant_ct=2, nonref_flags=False, allele_ct_limit=3) as file:
            file.append_alleles(np.array([0, 1, 0, 2, 1, 2], dtype=np.int32), allele_ct=3)
            file.append_alleles(np.array([0, 1, 0, 0, 1, 1], dtype=np.int32), allele_ct=2)
        (tmp_path / "g.psam").write_text("#IID\na\nb\nc\n")
        (tmp_path / "g.pvar").write_text("#CHROM\tPOS\tID\tREF\tALT\n1\t1\tm\tA\tC,G\n1\t2\trs1\tA\tG\n")
        frame = read_pgen(path)
        assert frame["rs1_G"].tolist() == [1, 0, 2]
        assert "1 variant with more than two alleles left out" in texts(frame.attrs["notes"])[0]


class TestBgen:
    @staticmethod
    def probabilities(seed=0):
        P = np.random.default_rng(seed).dirichlet([1, 1, 1], size=(D, N))
        return P[:, :, :2]

    @pytest.mark.parametrize(("bits", "compressed"), [(8, True), (16, False)])
    def test_expected_counts(self, tmp_path, bits, compressed):
        P, one = self.probabilities(), 2**bits - 1
        missing = np.random.default_rng(1).random((D, N)) < 0.1
        path = files.write_bgen(tmp_path / "g.bgen", IDS, ROWS, P, bits, compressed, missing)
        assert sniff(path) == "bgen"
        frame = read_bgen(path)
        stored = np.rint(P * one) / one
        expected = np.where(missing, np.nan, 2 - 2 * stored[:, :, 0] - stored[:, :, 1])
        assert_allclose(frame, expected.T, atol=1e-6)
        assert frame.columns.tolist() == NAMES

    def test_agrees_with_cbgen(self, tmp_path):
        cbgen = pytest.importorskip("cbgen")
        path = files.write_bgen(tmp_path / "g.bgen", IDS, ROWS, self.probabilities())
        frame = read_bgen(path)
        file = cbgen.bgen_file(path)
        file.create_metafile(tmp_path / "meta", verbose=False)
        offsets = cbgen.bgen_metafile(tmp_path / "meta").read_partition(0).variants.offset
        theirs = [file.read_genotype(at).probability @ [0, 1, 2] for at in offsets]
        assert_allclose(frame, np.array(theirs).T, atol=1e-6)

    def test_one_copy_counts_twice(self, tmp_path):
        P, ploidy = self.probabilities(), np.array([1, 2] * 12)[:N]
        path = files.write_bgen(tmp_path / "g.bgen", IDS, ROWS, P, 16, ploidy=ploidy)
        expected = np.where(ploidy == 1, 2 - 2 * P[:, :, 0], 2 - 2 * P[:, :, 0] - P[:, :, 1])
        assert_allclose(read_bgen(path), expected.T, atol=1e-4)

    def test_variants_whose_rsid_is_zero(self, tmp_path):
        rows = [("1", 100, "0", "A", "G")]
        path = files.write_bgen(tmp_path / "g.bgen", IDS, rows, self.probabilities()[:1])
        assert list(read_bgen(path)) == ["v_G"]

    def test_ids_of_a_sample_file(self, tmp_path):
        path = files.write_bgen(tmp_path / "g.bgen", IDS, ROWS, self.probabilities())
        lines = ["ID_1 ID_2 missing sex", "0 0 0 D", *(f"f{i} p{i} 0 1" for i in range(N))]
        other = tmp_path / "people.sample"
        other.write_text("\n".join(lines) + "\n")
        assert read_bgen(path, sample=other).index[1] == "p1"
        (tmp_path / "g.sample").write_text("\n".join(lines[:-1]) + "\n")
        with pytest.raises(StudyError, match=r"g\.sample: 22 subjects, but g\.bgen has 23"):
            read_bgen(path)

    @pytest.mark.parametrize("damage", ["cut", "size", "magic", "numbers", "empty", "end"])
    def test_refusals(self, tmp_path, damage):
        path = files.write_bgen(tmp_path / "g.bgen", IDS, ROWS, self.probabilities())
        content = path.read_bytes()
        changed = {
            "cut": content[:-5],
            "size": content[:8] + b"\xff\xff\xff\x7f" + content[12:],
            "magic": content[:16] + b"nope" + content[20:],
            "numbers": content[:-20] + bytes(20),
            "empty": b"",
            "end": content + b"more",
        }[damage]
        path.write_bytes(changed)
        with pytest.raises(StudyError, match=r"g\.bgen: is not a BGEN file, or damaged or truncated"):
            read_bgen(path)


class TestVcf:
    def test_real_files(self):
        vcf = REAL / "vcf/1kg_phase3_chr21_start.vcf.gz"
        if not vcf.is_file():
            pytest.skip("real files not found; set VIEWLOOM_REALFILES")
        frame = read_vcf(vcf)
        assert frame.shape == (2504, 600)
        with gzip.open(vcf, "rt") as file:
            lines = [line.rstrip("\n").split("\t") for line in file if not line.startswith("#")]
        for line in lines[::97]:
            assert frame[f"{line[2]}_{line[4]}"].tolist() == [cell.count("1") for cell in line[9:]]

    def test_dosages_where_the_header_declares_them(self, tmp_path):
        dosages = np.round(np.random.default_rng(0).uniform(0, 2, size=(D, N)), 3)
        dosages[2, 3] = -1
        path = files.write_vcf(tmp_path / "g.vcf", IDS, ROWS, dosages, "DS")
        assert_allclose(read_vcf(path), np.where(dosages < 0, np.nan, dosages).T, atol=1e-6)
        with pytest.raises(StudyError, match="no column has any value"):
            read_vcf(path, field="GT")

    def test_copies_half_calls_and_several_alleles(self, tmp_path):
        path = files.write_vcf(tmp_path / "g.vcf", ["a", "b", "c", "d"], [], np.empty((0, 4)))
        lines = [
            "X\t1\trs1\tA\tG\t.\t.\t.\tGT:DP\t1:3\t0\t./1:2\t1|0:1",
            "X\t2\trs2\tA\tG,T\t.\t.\t.\tGT\t0/2\t0\t1\t.",
            "X\t3\trs3\tA\tG\t.\t.\t.\tGT\t0/0/1\t0\t1\t.",
            "X\t4\trs4\tA\tG\t.\t.\t.\tDP\t3\t0\t1\t.",
        ]
        path.write_text(path.read_text() + "\n".join(lines) + "\n")
        frame = read_vcf(path)
        assert_array_equal(frame["rs1_G"], [2, 0, np.nan, 1])
        assert frame.shape == (4, 1)
        assert [note.partition(";")[0] for note in texts(frame.attrs["notes"])] == [
            "1 variant with more than two alleles left out",
            "1 variant with more than two copies of a subject left out",
            "1 variant without calls left out",
        ]

    def test_the_phase_before_the_first_allele(self, tmp_path):
        path = files.write_vcf(tmp_path / "g.vcf", ["a", "b", "c", "d"], [], np.empty((0, 4)))
        lines = [
            "1\t1\trs1\tA\tG\t.\t.\t.\tGT\t/0\t|1\t/0|1\t|1/1",
            "1\t2\trs2\tA\tG\t.\t.\t.\tGT:DP\t/.:1\t|./1:1\t1|1:1\t/0/0:1",
        ]
        path.write_text(path.read_text().replace("VCFv4.2", "VCFv4.4") + "\n".join(lines) + "\n")
        frame = read_vcf(path)
        assert_array_equal(frame, [[0, np.nan], [2, np.nan], [1, 2], [2, 0]])

    @pytest.mark.parametrize("options", [{}, {"variants": ["rs*"]}])
    def test_a_file_without_variants_that_can_be_read(self, tmp_path, options):
        path = files.write_vcf(tmp_path / "g.vcf", ["a", "b"], [], np.empty((0, 2)))
        lines = [
            "1\t1\trs1\tA\tG,T\t.\t.\t.\tGT\t0/2\t0/0",
            "1\t2\trs2\tA\tG\t.\t.\t.\tPL\t0,3,26\t0,3,34",
        ]
        path.write_text(path.read_text() + "\n".join(lines) + "\n")
        said = "no variant can be read: 1 variant with more than two alleles left out; split .*; 1 variant"
        with pytest.raises(StudyError, match=said):
            read_vcf(path, **options)

    def test_bcf_is_the_same(self, tmp_path):
        cyvcf2 = pytest.importorskip("cyvcf2")
        for field, values in (("GT", VALUES), ("DS", np.where(VALUES < 0, -1, VALUES / 1.7))):
            path = files.write_vcf(tmp_path / f"{field}.vcf", IDS, ROWS, values, field)
            source = cyvcf2.VCF(str(path))
            writer = cyvcf2.Writer(str(tmp_path / f"{field}.bcf"), source, mode="wb")
            for record in source:
                writer.write_record(record)
            writer.close()
            source.close()
            assert sniff(tmp_path / f"{field}.bcf") == "vcf"
            assert_allclose(read_vcf(tmp_path / f"{field}.bcf"), read_vcf(path), atol=1e-6)

    def test_numbers_in_text(self):
        cells = ["0.5", ".", "", "1e-1", "12.25", "007", "2.", ".5"]
        text = np.frombuffer("".join(cells).encode(), dtype=np.uint8)
        ends = np.cumsum([len(cell) for cell in cells])
        found = decimals(text, ends - [len(cell) for cell in cells], ends)
        assert_array_equal(found, [0.5, np.nan, np.nan, 0.1, 12.25, 7, 2, 0.5])

    @pytest.mark.parametrize(
        ("change", "said"),
        [
            (lambda t: t[: len(t) - 30], "damaged or truncated"),
            (lambda t: t.replace("0|1", "0x1", 1), "damaged or truncated"),
            (lambda t: t.replace("0|1", "0|7", 1), "damaged or truncated"),
            (lambda t: "", "the file is empty"),
            (lambda t: "id,a\n1,2\n", "is not a VCF or BCF"),
            (lambda t: t.replace("#CHROM", "#CHR"), "damaged or truncated"),
            (lambda t: t.replace("\ts01", "\ts00"), "1 row with a duplicate id"),
            (lambda t: t[: t.index("\n1\t") + 1], "has no variants"),
        ],
    )
    def test_refusals(self, tmp_path, change, said):
        path = files.write_vcf(tmp_path / "g.vcf", IDS, ROWS, VALUES)
        path.write_text(change(path.read_text()))
        with pytest.raises(StudyError, match=said):
            read_vcf(path)

    def test_a_compressed_file_that_is_cut(self, tmp_path):
        path = files.write_vcf(tmp_path / "g.vcf.gz", IDS, ROWS, VALUES)
        path.write_bytes(path.read_bytes()[:-20])
        with pytest.raises(StudyError, match="damaged or truncated"):
            read_vcf(path)


class TestSeveralFiles:
    @pytest.mark.parametrize("suffix", [".pgen", ".vcf", ".bed"])
    def test_subjects_are_matched_by_id(self, tmp_path, suffix):
        order = np.random.default_rng(2).permutation(N)
        more = files.counts(N, 5, seed=3)
        first = WRITE[suffix](tmp_path / f"chr1{suffix}", IDS, ROWS, VALUES)
        second = WRITE[suffix](
            tmp_path / f"chr2{suffix}", [IDS[i] for i in order], files.panel(5, "2"), more[:, order]
        )
        frame = READ[suffix]([first, second])
        assert frame.index.tolist() == IDS
        assert_array_equal(frame, files.as_table(np.vstack([VALUES, more])))

    def test_subjects_that_a_file_lacks(self, tmp_path):
        first = files.write_vcf(tmp_path / "chr1.vcf", IDS, ROWS, VALUES)
        few = files.write_vcf(tmp_path / "chr2.vcf", IDS[3:], files.panel(2, "2"), files.counts(N - 3, 2))
        frame = read_vcf([first, few])
        assert frame.index.tolist() == IDS[3:]
        assert texts(frame.attrs["notes"]) == ["3 subjects who are not in all files left out"]
        fewer = files.write_vcf(tmp_path / "chr3.vcf", IDS[15:], files.panel(2, "3"), files.counts(N - 15, 2))
        with pytest.raises(StudyError, match="only 8 of 23 subjects are in all 3 files"):
            read_vcf([first, few, fewer])

    def test_other_subjects_are_stacked_and_alleles_counted_alike(self, tmp_path):
        swapped = [(c, p, name, alt, ref) for c, p, name, ref, alt in ROWS[:-1]]
        first = files.write_vcf(tmp_path / "a.vcf", IDS[:12], ROWS, VALUES[:, :12])
        turned = np.where(VALUES < 0, -1, 2 - VALUES).astype(np.int8)
        second = files.write_vcf(tmp_path / "b.vcf", IDS[12:], swapped, turned[:-1, 12:])
        frame = read_vcf([first, second])
        assert_array_equal(frame, files.as_table(VALUES[:-1]))
        assert "1 variant that not all files have left out" in texts(frame.attrs["notes"])


LIMITS = [{"min_maf": 0.2}, {"min_maf": 0.1, "min_call_rate": 0.8}, {"min_maf": 0.02, "min_call_rate": 0.99}]


@pytest.mark.parametrize("limits", LIMITS)
@pytest.mark.parametrize("n", [N, 300])
def test_variants_left_out_by_counts_are_those_left_out_by_calls(tmp_path, limits, n, monkeypatch):
    """Rare and common alleles, of which either may be counted; most records of 300 subjects are lists."""
    rng, d = np.random.default_rng(3), 120
    frequency = rng.choice([0.001, 0.01, 0.02, 0.1, 0.3, 0.5, 0.9, 0.98, 0.99, 0.999], size=(d, 1))
    values = rng.binomial(2, frequency, size=(d, n)).astype(np.int8)
    values[rng.random(values.shape) < rng.choice([0, 0.005, 0.02, 0.4], size=(d, 1))] = -1
    path = files.write_pgen(tmp_path / "g.pgen", [f"s{i}" for i in range(n)], files.panel(d, "1"), values)
    source = PgenSource(path)
    tallies = source.tallies(np.ones(d, dtype=bool))
    assert tallies.calls.tolist() == (values >= 0).sum(axis=1).tolist()
    assert tallies.copies.tolist() == np.maximum(values, 0).sum(axis=1).tolist()
    few = Filters(**limits).unlike(n)
    rare = source.tallies(np.ones(d, dtype=bool), few).rare
    assert (n == N) or len(rare)
    by_counts = read_pgen(path, **limits)
    monkeypatch.setattr(PgenSource, "tallies", lambda self, wanted, unlike: None)
    by_calls = read_pgen(path, **limits)
    assert 0 < by_calls.shape[1] < d
    pd.testing.assert_frame_equal(by_counts, by_calls)
    assert by_counts.attrs["notes"] == by_calls.attrs["notes"]


@pytest.mark.parametrize("n", [200, 256, 257, 5000])
def test_the_length_of_a_record_bounds_the_subjects_in_its_list(tmp_path, n):
    """The subjects are neighbours, so that the list is as short as possible, or far from each other."""
    few = range(min(n // 2, 130))
    values = np.zeros((4 * len(few), n), dtype=np.int8)
    for k in few:
        values[4 * k, :k], values[4 * k + 1, : n // 2 : max(1, n // 2 // max(k, 1))] = 1, -1
        values[4 * k + 2], values[4 * k + 3] = 2, 2
        values[4 * k + 2, :k], values[4 * k + 3, n - k :] = 1, 0
    path = files.write_pgen(
        tmp_path / "g.pgen", [f"s{i}" for i in range(n)], files.panel(len(values), "1"), values
    )
    unlike = np.minimum((values != 0).sum(axis=1), (values != 2).sum(axis=1))
    bound = records(path).unlike_at_most()
    assert (bound >= unlike).all()
    assert (bound[unlike == 1] < n).all()


def test_records_beyond_the_end_of_the_file(tmp_path):
    path = files.write_pgen(tmp_path / "g.pgen", IDS, ROWS, VALUES)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(StudyError, match="is damaged or truncated"):
        read_pgen(path, variants=[ROWS[0][2]])


@pytest.mark.parametrize("options", [{}, {"ld_prune": {"window": 5, "step": 2, "r2": 0.02}}])
@pytest.mark.parametrize("dosages", [False, True])
def test_reserved_room_makes_no_difference(tmp_path, monkeypatch, options, dosages):
    """Neither where all variants that are expected come, nor where some are pruned."""
    path = files.write_pgen(tmp_path / "g.pgen", IDS, ROWS, VALUES / np.float32(1.25) if dosages else VALUES)
    monkeypatch.setattr(sources, "BLOCK", 4 * N)
    expected = read_pgen(path, min_maf=0.05, **options)
    reserved = []
    monkeypatch.setattr(sources, "LARGE_CELLS", 1)
    monkeypatch.setattr(Counts, "reserve", lambda *a, old=Counts.reserve, **k: reserved.append(old(*a, **k)))
    found = read_pgen(path, min_maf=0.05, **options)
    assert bool(reserved) == (not dosages)
    assert set(found.dtypes) == {np.dtype(np.float32)}
    pd.testing.assert_frame_equal(found.astype(np.float64), expected)
    assert found.attrs["notes"] == expected.attrs["notes"]
