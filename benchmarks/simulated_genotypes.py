"""Files of genotypes for `speed.py`, and their reading by the bare libraries."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pgenlib

from viewloom.study.readers.genetics import read_bgen, read_pgen, read_vcf

Array = np.ndarray
Work = Callable[[], Any]
BLOCK = 1024  # variants that the bare libraries read at a time


def pairs(folder: Path, n: int, d: int) -> Iterator[tuple[str, Work, Work]]:
    """What is read, our reader, and the bare library, for n subjects and d variants."""
    rng = np.random.default_rng(0)
    calls = rng.binomial(2, rng.uniform(0.05, 0.5, size=(d, 1)), size=(d, n)).astype(np.int8)
    ids = [f"s{i:05d}" for i in range(n)]
    pgen = folder / "calls.pgen"
    write_pgen(pgen, ids, [calls], d)
    yield "PLINK 2 calls / pgenlib", lambda: read_pgen(pgen), lambda: bare_pgen(pgen, n, d)
    vcf = folder / "calls.vcf"
    write_vcf(vcf, ids, calls)
    yield "VCF calls / cyvcf2", lambda: read_vcf(vcf), lambda: bare_vcf(vcf)
    bgen = folder / "dosages.bgen"
    write_bgen(bgen, ids, calls)
    yield "BGEN dosages / cbgen", lambda: read_bgen(bgen), lambda: bare_bgen(bgen)


def write_pgen(path: Path, ids: list[str], blocks: Any, d: int) -> None:
    """A ``.pgen`` with its two companions."""
    settings = {"variant_ct": d, "nonref_flags": False}
    with pgenlib.PgenWriter(bytes(path), len(ids), **settings) as file:
        for block in blocks:
            file.append_biallelic_batch(np.ascontiguousarray(block))
    path.with_suffix(".psam").write_text("#IID\n" + "".join(f"{id}\n" for id in ids))
    with path.with_suffix(".pvar").open("w") as file:
        file.write("#CHROM\tPOS\tID\tREF\tALT\n")
        file.writelines(f"{1 + 22 * j // d}\t{j + 1}\trs{j}\tA\tG\n" for j in range(d))


def bare_pgen(path: Path, n: int, d: int) -> Array:
    """All dosages as one array."""
    with pgenlib.PgenReader(bytes(path), raw_sample_ct=n, variant_ct=d) as file:
        whole = np.empty((d, n))
        file.read_dosages_range(0, d, whole)
    return whole


def pass_over(path: Path, n: int, d: int) -> int:
    """All calls, block by block; none are kept."""
    total = 0
    with pgenlib.PgenReader(bytes(path), raw_sample_ct=n, variant_ct=d) as file:
        for first in range(0, d, BLOCK):
            block = np.empty((min(BLOCK, d - first), n), dtype=np.int8)
            file.read_range(first, first + len(block), block)
            total += int(block[0, 0])
    return total


def write_bed(path: Path, ids: list[str], blocks: Any, d: int) -> None:
    """A ``.bed`` with its two companions; the counted allele is the first of the ``.bim``."""
    codes = np.array([3, 2, 0], dtype=np.uint8)
    places = np.array([0, 2, 4, 6], dtype=np.uint8)
    with path.open("wb") as file:
        file.write(b"\x6c\x1b\x01")
        for block in blocks:
            padded = np.zeros((len(block), 4 * -(-len(ids) // 4)), dtype=np.uint8)
            padded[:, : len(ids)] = codes[block]
            file.write(np.bitwise_or.reduce(padded.reshape(len(block), -1, 4) << places, axis=2).tobytes())
    path.with_suffix(".fam").write_text("".join(f"0 {id} 0 0 0 -9\n" for id in ids))
    with path.with_suffix(".bim").open("w") as file:
        file.writelines(f"{1 + 22 * j // d}\trs{j}\t0\t{j + 1}\tG\tA\n" for j in range(d))


def pass_over_bed(path: Path, n: int, d: int) -> int:
    """All calls, block by block; none are kept."""
    from bed_reader import open_bed

    total = 0
    with open_bed(path, iid_count=n, sid_count=d) as file:
        for first in range(0, d, BLOCK):
            block = file.read(np.s_[:, first : first + BLOCK], dtype="int8", order="F")
            total += int(block[0, 0])
    return total


def write_vcf(path: Path, ids: list[str], calls: Array) -> None:
    """A VCF with calls only."""
    head = '##fileformat=VCFv4.2\n##contig=<ID=1>\n##FORMAT=<ID=GT,Number=1,Type=String,Description="x">\n'
    columns = ["#CHROM", "POS", "ID", "REF", "ALT", "QUAL", "FILTER", "INFO", "FORMAT", *ids]
    shown = np.array(["0/0", "0/1", "1/1"], dtype=object)
    with path.open("w") as file:
        file.write(head + "\t".join(columns) + "\n")
        for j, row in enumerate(calls):
            file.write(f"1\t{j + 1}\trs{j}\tA\tG\t.\t.\t.\tGT\t" + "\t".join(shown[row]) + "\n")


def bare_vcf(path: Path) -> Array:
    """The types of all calls."""
    from cyvcf2 import VCF

    return np.array([record.gt_types for record in VCF(str(path), gts012=True)], dtype=np.float64)


def write_bgen(path: Path, ids: list[str], calls: Array) -> None:
    """A BGEN of eight bits, compressed by zlib, with probabilities near the calls."""
    import struct
    import zlib

    rng, n = np.random.default_rng(1), len(ids)
    known = b"".join(struct.pack("<H", len(id)) + id.encode() for id in ids)
    samples = struct.pack("<2I", 8 + len(known), n) + known
    with path.open("wb") as file:
        file.write(
            struct.pack("<4I4sI", 20 + len(samples), 20, len(calls), n, b"bgen", 1 | 8 | 1 << 31) + samples
        )
        for j, row in enumerate(calls):
            sure = rng.integers(200, 256, size=n)
            P = np.stack([np.where(row == 0, sure, 0), np.where(row == 1, sure, 255 - sure)], axis=1)
            data = (
                struct.pack("<IH2B", n, 2, 2, 2) + bytes([2]) * n + b"\0\x08" + P.astype(np.uint8).tobytes()
            )
            block = struct.pack("<I", len(data)) + zlib.compress(data)
            names = b"".join(struct.pack("<H", len(name)) + name.encode() for name in ("", f"rs{j}", "1"))
            alleles = b"".join(struct.pack("<I", 1) + name for name in (b"A", b"G"))
            file.write(names + struct.pack("<IH", j + 1, 2) + alleles + struct.pack("<I", len(block)) + block)


def bare_bgen(path: Path) -> Array:
    """Expected counts from all probabilities; the index that cbgen needs is written first, as by us."""
    import cbgen

    index = path.with_suffix(".metafile")
    index.unlink(missing_ok=True)
    with cbgen.bgen_file(path) as file:
        file.create_metafile(index, verbose=False)
        with cbgen.bgen_metafile(index) as meta:
            parts = [meta.read_partition(k).variants.offset for k in range(meta.npartitions)]
        offsets = np.concatenate(parts)
        return np.array([file.read_probability(at, precision=32) @ [0.0, 1.0, 2.0] for at in offsets])
