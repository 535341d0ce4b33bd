"""Which variants of genotypes are kept: by name, region, frequency, quality and linkage disequilibrium."""

import genotype_files as files
import numpy as np
import pytest
from noted import texts
from numpy.testing import assert_allclose

from viewloom.study.errors import StudyError
from viewloom.study.readers.genetics import read_bgen, read_vcf
from viewloom.study.readers.genotypes import sources
from viewloom.study.readers.genotypes.correlations import Strip, squared_correlations
from viewloom.study.readers.genotypes.pruning import LD, Pruner

N, D = 30, 12
IDS = [f"s{i}" for i in range(N)]
ROWS = files.panel(D, "19")
VALUES = files.counts(N, D, missing=0.0)


@pytest.fixture
def path(tmp_path):
    return files.write_vcf(tmp_path / "g.vcf", IDS, ROWS, VALUES)


class TestChoice:
    def names(self, frame):
        return [name.split("_")[1] for name in frame.columns]

    def test_regions(self, path):
        assert self.names(read_vcf(path, regions=["chr19:200-400"])) == ["1", "2", "3"]
        assert self.names(read_vcf(path, regions=["19:1-100", "19:1,150-1,250", "18"])) == ["0", "11"]
        assert read_vcf(path, regions=["19"]).shape == (N, D)
        with pytest.raises(StudyError, match=r"no variant is among those asked for; .* genome build"):
            read_vcf(path, regions=["19:1-99"])
        for bad in ("19:5", "19:300-200", "19 1 2"):
            with pytest.raises(StudyError, match="regions: "):
                read_vcf(path, regions=[bad])

    def test_intervals_count_from_zero(self, path, tmp_path):
        bed = tmp_path / "genes.bed"
        bed.write_text("track name=x\nchr19\t99\t100\tAPOE\nchr19\t200\t300\tTOMM40\nchr2\t1\t9\tBIN1\n")
        assert self.names(read_vcf(path, regions_from=bed)) == ["0", "2"]
        assert self.names(read_vcf(path, regions_from=bed, genes=["TOMM40"])) == ["2"]
        with pytest.raises(StudyError, match="no gene 'APOC1'"):
            read_vcf(path, regions_from=bed, genes=["APOC1"])
        with pytest.raises(StudyError, match="genes needs regions_from"):
            read_vcf(path, genes=["APOE"])
        bed.write_text("chr19\tx\t100\n")
        with pytest.raises(StudyError, match="1 line is not chromosome, start and end"):
            read_vcf(path, regions_from=bed)

    def test_lists_and_patterns(self, path, tmp_path):
        names = tmp_path / "keep.txt"
        names.write_text("rs19_3\nrs19_5\nrs1_0\n")
        assert self.names(read_vcf(path, variants_from=names)) == ["3", "5"]
        assert self.names(read_vcf(path, variants=["rs19_1*", "rs19_3"])) == ["1", "3", "10", "11"]
        assert self.names(read_vcf(path, variants=["*_3"], variants_from=names)) == ["3"]


class TestFilters:
    def test_blocks_make_no_difference(self, path, monkeypatch):
        whole = read_vcf(path, min_maf=0.2, ld_prune={"window": 5, "step": 1, "r2": 0.05})
        monkeypatch.setattr(sources, "BLOCK", 4 * N * 2)
        parts = read_vcf(path, min_maf=0.2, ld_prune={"window": 5, "step": 1, "r2": 0.05})
        assert parts.equals(whole)
        assert texts(parts.attrs["notes"]) == texts(whole.attrs["notes"])

    def test_quality_of_dosages(self, tmp_path):
        P = np.zeros((2, 200, 2))
        calls = np.random.default_rng(0).binomial(2, 0.4, size=200)
        P[0, :, 0], P[0, :, 1] = calls == 0, calls == 1  # certain
        P[1, :, 0], P[1, :, 1] = 0.36, 0.48  # known by their frequency only
        ids = [f"s{i}" for i in range(200)]
        path = files.write_bgen(tmp_path / "g.bgen", ids, files.panel(2), P)
        assert read_bgen(path, min_info=0.3).columns.tolist() == ["rs1_0_G"]

    def test_everything_left_out_is_counted(self, path):
        maf = np.minimum(VALUES.mean(axis=1) / 2, 1 - VALUES.mean(axis=1) / 2)
        frame = read_vcf(path, min_maf=0.3)
        assert frame.shape[1] == (maf >= 0.3).sum()
        assert texts(frame.attrs["notes"]) == [
            f"{(maf < 0.3).sum()} variants below a minor allele frequency of 0.3 left out"
        ]


class TestPruning:
    def linked(self, rng, d, n, missing):
        """Counts along a chromosome, of which neighbours are alike."""
        G, x = np.zeros((d, n), np.int8), rng.binomial(2, 0.4, n)
        for j in range(d):
            x = np.where(rng.random(n) < 0.25, rng.binomial(2, 0.4, n), x)
            G[j] = x
        G[rng.random((d, n)) < missing] = -1
        return G

    def naive(self, G, maf, ld):
        """Pairs of every window one by one."""
        pruned, start, d = set(), 0, len(G)

        def r2(i, j):
            both = (G[i] >= 0) & (G[j] >= 0)
            a, b = G[i][both].astype(float), G[j][both].astype(float)
            return 0.0 if a.std() == 0 or b.std() == 0 else np.corrcoef(a, b)[0, 1] ** 2

        while True:
            end, changed = min(start + ld.window, d), True
            while changed:
                changed = False
                for i in range(start, end):
                    for j in range(i + 1, end if i not in pruned else 0):
                        if j not in pruned and r2(i, j) > ld.r2:
                            pruned.add(i if maf[i] < maf[j] * (1 - 1e-9) else j)
                            changed = True
                            break
            if end == d:
                return pruned
            start += ld.step

    @pytest.mark.parametrize("seed", range(6))
    def test_equals_a_naive_loop(self, seed):
        rng = np.random.default_rng(seed)
        G = self.linked(rng, int(rng.integers(1, 45)), 40, 0.05 * (seed % 2))
        ld = LD(int(rng.integers(5, 15)), int(rng.integers(1, 5)), 0.3)
        frequency = np.array([row[row >= 0].mean() / 2 for row in G])
        maf, pruner, size = np.minimum(frequency, 1 - frequency), Pruner(ld), int(rng.integers(1, 30))
        for first in range(0, len(G), size):
            pruner.push(G[first : first + size], maf[first : first + size])
        pruner.finish()
        assert pruner.pruned == self.naive(G, maf, ld)
        assert pruner.decided == len(G)

    def test_correlations_of_pairs(self):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(4, 50)).astype(np.float32)
        found = squared_correlations(Strip.of(X), Strip.of(X[:2]))
        assert_allclose(found, np.corrcoef(X)[:, :2] ** 2, atol=1e-5)
        X[0] = 0.1
        assert (squared_correlations(Strip.of(X), Strip.of(X))[0] == 0).all()

    @pytest.mark.parametrize(("calls", "others"), [(True, True), (True, False), (False, False)])
    @pytest.mark.parametrize("missing", [0.0, 0.1])
    def test_correlations_of_calls_and_dosages(self, calls, others, missing):
        """Over the subjects that have both, as of pairs one by one; a chromosome may have both."""
        rng = np.random.default_rng(1)
        counts = rng.binomial(2, 0.3, size=(2, 6, 60))
        counts[:, 0], gone = 2, rng.random((2, 6, 60)) < missing
        counts[1, 1] = counts[0, 1]

        def values(which, as_calls):
            if as_calls:
                return np.where(gone[which], -1, counts[which]).astype(np.int8)
            return np.where(gone[which], np.nan, 0.9 * counts[which] + 0.05).astype(np.float32)

        found = squared_correlations(Strip.of(values(0, calls)), Strip.of(values(1, others)))
        both = ~gone[0][:, None] & ~gone[1][None]
        for i, j in np.ndindex(6, 6):
            x, y = counts[0, i][both[i, j]], counts[1, j][both[i, j]]
            expected = 0.0 if 0 in (i, j) else np.corrcoef(x, y)[0, 1] ** 2
            assert found[i, j] == pytest.approx(expected, abs=1e-5), (i, j)

    def test_chromosomes_are_apart_and_must_be_sorted(self, tmp_path):
        G = np.repeat(files.counts(N, 1, missing=0.0), 4, axis=0)
        rows = [
            ("1", 1, "a", "A", "G"),
            ("1", 2, "b", "A", "G"),
            ("2", 1, "c", "A", "G"),
            ("2", 2, "d", "A", "G"),
        ]
        path = files.write_vcf(tmp_path / "g.vcf", IDS, rows, G)
        frame = read_vcf(path, ld_prune={"r2": 0.5})
        assert frame.columns.tolist() == ["a_G", "c_G"]
        assert texts(frame.attrs["notes"]) == [
            "2 variants in linkage disequilibrium (r2 above 0.5) with another left out"
        ]
        rows[1] = ("1", 0, "b", "A", "G")
        with pytest.raises(StudyError, match="chromosome 1: variants are not sorted by position"):
            read_vcf(files.write_vcf(tmp_path / "g.vcf", IDS, rows, G), ld_prune={})
