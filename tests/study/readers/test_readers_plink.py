"""PLINK genotypes, with bytes written by hand where the layout matters."""

import shutil

import numpy as np
import pytest
from noted import texts
from numpy.testing import assert_array_equal

from viewloom.study.errors import StudyError
from viewloom.study.readers import plink, sniff
from viewloom.study.readers.genotypes import sources
from viewloom.study.readers.plink import BedSource, read_bed, read_raw

NAN = np.nan
FAM = "F1 01 0 0 1 -9\nF1 02 0 0 2 1\nF2 03 0 0 0 2\nF3 04 0 0 1 0\nF4 05 0 0 1 0\n"
BIM = "1\trs1\t0\t100\tA\tG\n19\trs429358\t0\t200\tC\tT\n"
# two bits a call from the low end: 00 is A1 A1, 01 no call, 10 heterozygous, 11 A2 A2; five people, two bytes
CALLS = bytes([0b11100100, 0b00000000, 0b10111111, 0b00000011])
VALUES = [[2, 0], [NAN, 0], [1, 0], [0, 1], [2, 0]]


def write(folder, bed=b"\x6c\x1b\x01" + CALLS, bim=BIM, fam=FAM, name="geno"):
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.bed").write_bytes(bed)
    (folder / f"{name}.bim").write_text(bim)
    (folder / f"{name}.fam").write_text(fam)
    return folder / f"{name}.bed"


class TestBed:
    @pytest.fixture(autouse=True)
    def _needs_bed_reader(self):
        pytest.importorskip("bed_reader")

    def test_bytes_to_counts_of_the_first_allele(self, tmp_path):
        path = write(tmp_path / "génotypes 1")
        assert sniff(path) == "plink"
        frame = read_bed(path)
        assert frame.index.tolist() == ["01", "02", "03", "04", "05"]
        assert frame.columns.tolist() == ["rs1_A", "rs429358_C"]
        assert (frame.dtypes == np.float64).all()
        assert_array_equal(frame, VALUES)
        assert texts(frame.attrs["notes"]) == []

    @pytest.mark.parametrize("suffix", ["", ".bim", ".fam"])
    def test_the_common_name_is_enough(self, tmp_path, suffix):
        path = write(tmp_path, name="chr19.v2")
        assert_array_equal(read_bed(str(path).removesuffix(".bed") + suffix), VALUES)

    def test_files_ordered_by_person(self, tmp_path):
        calls = bytes([0b1100, 0b1101, 0b1110, 0b1011, 0b1100])
        assert_array_equal(read_bed(write(tmp_path, b"\x6c\x1b\x00" + calls)), VALUES)

    @pytest.mark.parametrize("n", [1, 3, 32, 37, 64])
    @pytest.mark.parametrize("by_subject", [False, True])
    def test_counts_of_packed_calls_are_those_of_calls(self, tmp_path, monkeypatch, n, by_subject):
        """Also where the bits behind the last call are set; variants are left out in blocks of three."""
        rng, d = np.random.default_rng(n), 20
        calls = rng.choice(4, size=(d, n), p=[0.1, 0.1, 0.2, 0.6])
        rows = calls.T if by_subject else calls
        padded = np.full((len(rows), 4 * -(-rows.shape[1] // 4)), 3)
        padded[:, : rows.shape[1]] = rows
        packed = (padded.reshape(len(rows), -1, 4) << [0, 2, 4, 6]).sum(axis=2).astype(np.uint8)
        bim = "".join(f"1\trs{j}\t0\t{j}\tA\tG\n" for j in range(d))
        fam = "".join(f"F s{i} 0 0 0 -9\n" for i in range(n))
        head = b"\x6c\x1b\x00" if by_subject else b"\x6c\x1b\x01"
        path = write(tmp_path, head + packed.tobytes(), bim, fam)
        monkeypatch.setattr(plink, "PACKED", 3 * -(-n // 4))
        found = BedSource(path).tallies(rng.random(d) < 0.7)
        if by_subject:
            assert found is None
            return
        values = np.select([calls == 0, calls == 2], [2, 1], 0)
        assert 0 < len(found.at) < d
        assert_array_equal(found.calls, (calls != 1).sum(axis=1)[found.at])
        assert_array_equal(found.copies, values.sum(axis=1)[found.at])

    def test_filters_count_what_they_leave_out(self, tmp_path):
        path = write(tmp_path)
        rare = read_bed(path, min_maf=0.2)  # of C: 1 / 10; of A: 1 - 5 / 8
        assert rare.columns.tolist() == ["rs1_A"]
        assert texts(rare.attrs["notes"]) == ["1 variant below a minor allele frequency of 0.2 left out"]
        called = read_bed(path, min_call_rate=0.81)
        assert called.columns.tolist() == ["rs429358_C"]
        assert texts(called.attrs["notes"]) == ["1 variant below a call rate of 0.81 left out"]
        assert read_bed(path, min_maf=0.1, min_call_rate=0.8).shape == (5, 2)
        with pytest.raises(StudyError, match="no variant is left; lower min_maf"):
            read_bed(path, min_maf=0.4)

    def test_chosen_variants(self, tmp_path):
        path = write(tmp_path)
        assert_array_equal(read_bed(path, variants=["rs4*"]), [[0], [0], [0], [1], [0]])
        with pytest.raises(StudyError, match="no variant matches 'rs5', 'RS1' of variants"):
            read_bed(path, variants=["rs5", "RS1"])

    def test_variants_without_or_with_shared_ids(self, tmp_path):
        bim = "1\t.\t0\t100\tA\tG\n1\t.\t0\t100\tA\tT\n"
        assert read_bed(write(tmp_path, bim=bim)).columns.tolist() == ["1:100_A(/G)", "1:100_A(/T)"]
        with pytest.raises(StudyError, match="1 variant has the id and alleles of another"):
            read_bed(write(tmp_path, bim="1\trs1\t0\t100\tA\tG\n" * 2))

    def test_a_variant_nobody_was_called_for_is_left_out(self, tmp_path):
        calls = CALLS[:2] + bytes([0b01010101, 0b01])
        frame = read_bed(write(tmp_path, b"\x6c\x1b\x01" + calls))
        assert frame.columns.tolist() == ["rs1_A"]
        assert frame.attrs["empty"] == ["rs429358_C"]

    @pytest.mark.parametrize(
        ("change", "said"),
        [
            (
                {"bed": b"\x6c\x1b\x01" + CALLS[:-1]},
                "is truncated: 6 bytes instead of 7 for 5 subjects and 2 variants",
            ),
            ({"bed": b"\x6c\x1b\x01" + CALLS + b"\0"}, "is too long"),
            ({"bed": b""}, "is not a PLINK 1"),
            ({"bed": b"chr1\t1\t2\n"}, "is not a PLINK 1"),
            ({"fam": ""}, r"geno\.fam: the file is empty"),
            ({"fam": FAM.replace(" -9", "")}, r"geno\.fam: .*6"),
            ({"bim": "1\trs1\t0\t100\tA\n" * 2}, r"geno\.bim: has 5 columns instead of 6"),
            (
                {"fam": FAM.replace("F1 02", "F1 01")},
                r"geno\.fam: column 'iid' has 1 row with a duplicate id",
            ),
        ],
    )
    def test_refusals(self, tmp_path, change, said):
        with pytest.raises(StudyError, match=said):
            read_bed(write(tmp_path, **change))

    @pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
    @pytest.mark.parametrize("between", ["\t", " ", " \t "])
    def test_lists_with_other_blanks_and_ends_of_lines(self, tmp_path, end, between):
        bim = BIM.replace("\t", between).replace("\n", between * (between == " ") + end)
        path = write(tmp_path, fam=FAM.replace(" ", between))
        path.with_suffix(".bim").write_bytes(bim.encode())
        assert_array_equal(read_bed(path), VALUES)

    def test_many_cells_are_read_in_single_precision(self, tmp_path, monkeypatch):
        monkeypatch.setattr(sources, "LARGE_CELLS", 10)
        frame = read_bed(write(tmp_path))
        assert (frame.dtypes == np.float32).all()
        assert_array_equal(frame, VALUES)
        again = read_bed(write(tmp_path), needed=frame.attrs["variants"])
        assert (again.dtypes == np.float32).all()
        assert_array_equal(again, VALUES)

    @pytest.mark.parametrize("suffix", [".bed", ".bim", ".fam"])
    def test_a_missing_file_is_named(self, tmp_path, suffix):
        path = write(tmp_path)
        path.with_suffix(suffix).unlink()
        with pytest.raises(StudyError, match=rf"geno\{suffix}: no such file; \.bed, \.bim and \.fam"):
            read_bed(path)

    def test_a_cohort(self, tmp_path):
        n, d = 345, 1224
        rng = np.random.default_rng(0)
        codes = rng.choice([0, 2, 3], size=(d, 4 * -(-n // 4)))
        codes[:, n:] = 0
        packed = (codes.reshape(d, -1, 4) << np.array([0, 2, 4, 6])).sum(axis=2).astype(np.uint8)
        bim = "".join(f"1\trs{j}\t0\t{j}\tA\tG\n" for j in range(d))
        fam = "".join(f"0 s{i} 0 0 0 -9\n" for i in range(n))
        path = write(tmp_path, b"\x6c\x1b\x01" + packed.tobytes(), bim, fam)
        frame = read_bed(path)
        expected = np.array([2, NAN, 1, 0])[codes[:, :n].T]
        assert_array_equal(frame, expected)


RAW = """FID IID PAT MAT SEX PHENOTYPE rs1_A rs429358_C
F1 01 0 0 1 -9 2 0
F1 02 0 0 2 1 NA 0
F2 03 0 0 0 2 1 0
F3 04 0 0 1 0 0 1
F4 05 0 0 1 0 2 0
"""


class TestRaw:
    @pytest.mark.parametrize(
        "text",
        [
            RAW,
            RAW.replace(" ", "\t").replace("rs1_A", "rs1_A(/G)").replace("_C", "_C(/T)"),
            RAW.replace("FID", "#FID"),
            "\n".join(" " + line for line in RAW.splitlines()),
        ],
        ids=["PLINK 1", "PLINK 2", "hash", "indented"],
    )
    def test_both_versions(self, tmp_path, text):
        path = tmp_path / "my genotypes.raw"
        path.write_text(text)
        assert sniff(path) == "plink-raw"
        frame = read_raw(path)
        assert frame.index.tolist() == ["01", "02", "03", "04", "05"]
        assert frame.columns.tolist() == ["rs1_A", "rs429358_C"]
        assert_array_equal(frame, VALUES)

    def test_same_filters_as_bed(self, tmp_path):
        path = tmp_path / "g.raw"
        path.write_text(RAW)
        assert texts(read_raw(path, min_maf=0.2).attrs["notes"]) == [
            "1 variant below a minor allele frequency of 0.2 left out"
        ]
        assert read_raw(path, min_call_rate=0.81).columns.tolist() == ["rs429358_C"]
        assert read_raw(path, variants=["rs1"]).columns.tolist() == ["rs1_A"]

    def test_dosages_names_with_underscores_and_dominance(self, tmp_path):
        path = tmp_path / "g.raw"
        path.write_text(
            "FID IID PAT MAT SEX PHENOTYPE a_b_T a_b_HET 1:5:G:GAT_GAT\n0 1 0 0 1 1 0.25 1 1.75\n"
        )
        frame = read_raw(path)
        assert frame.loc["1"].to_dict() == {"a_b_T": 0.25, "1:5:G:GAT_GAT": 1.75}
        assert texts(frame.attrs["notes"]) == ["1 column of dominance left out"]

    @pytest.mark.parametrize(
        ("change", "said"),
        [
            (("01 0 0 1 -9 2", "01 0 0 1 -9 3"), "1 calls are not between 0 and 2"),
            (
                ("01 0 0 1 -9 2", "01 0 0 1 -9 AA"),
                "column 'rs1_A' is not a number in 1 of 5 rows \\('AA'\\); export it again",
            ),
            (("F1 02", "F1 01"), "1 row with a duplicate id; subjects are identified by IID"),
            ((" rs1_A rs429358_C", ""), "line 2 has more cells|no variants"),
            (("IID", "ID"), "no id column 'IID'"),
            ((RAW.partition("\n")[2], ""), "a header but no rows"),
        ],
    )
    def test_refusals(self, tmp_path, change, said):
        path = tmp_path / "g.raw"
        path.write_text(RAW.replace(*change))
        with pytest.raises(StudyError, match=said):
            read_raw(path)


def test_bed_and_raw_agree(tmp_path):
    pytest.importorskip("bed_reader")
    path = write(tmp_path)
    raw = shutil.copy(path, tmp_path / "geno.raw")
    raw.write_text(RAW)
    assert read_bed(path).equals(read_raw(raw))
