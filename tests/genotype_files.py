"""Files of genotypes for tests, written by the format's own library or byte by byte."""

import gzip
import struct
import zlib

import numpy as np
import pytest

LETTERS = [("A", "G"), ("C", "T"), ("G", "A"), ("T", "C"), ("A", "C"), ("G", "T")]  # REF, ALT: not ambiguous


def panel(d, chromosome="1"):
    """Rows (chromosome, position, name, REF, ALT)."""
    return [(chromosome, 100 * (j + 1), f"rs{chromosome}_{j}", *LETTERS[j % 6]) for j in range(d)]


def counts(n, d, seed=0, missing=0.05):
    """Copies of ALT (d, n), -1 where there is no call."""
    rng = np.random.default_rng(seed)
    found = rng.binomial(2, rng.uniform(0.1, 0.9, size=(d, 1)), size=(d, n)).astype(np.int8)
    found[rng.random((d, n)) < missing] = -1
    return found


def as_table(values):
    """Counts (n, d) with NaN."""
    return np.where(values.T < 0, np.nan, values.T).astype(float)


def write_pgen(path, ids, rows, values, info=None):
    pgenlib = pytest.importorskip("pgenlib")
    hard = values.dtype == np.int8
    settings = {"variant_ct": len(rows), "nonref_flags": False, "dosage_present": not hard}
    with pgenlib.PgenWriter(bytes(path), len(ids), **settings) as file:
        if hard:
            file.append_biallelic_batch(np.ascontiguousarray(np.where(values < 0, -9, values), dtype=np.int8))
        else:
            file.append_dosages_batch(np.where(values < 0, -9, values).astype(np.float32))
    path.with_suffix(".psam").write_text("#FID\tIID\tSEX\n" + "".join(f"0\t{id}\t1\n" for id in ids))
    head = "##source=test\n#CHROM\tPOS\tID\tREF\tALT" + ("" if info is None else "\tINFO") + "\n"
    more = [""] * len(rows) if info is None else [f"\tR2={value}" for value in info]
    lines = ["\t".join(map(str, row)) + end + "\n" for row, end in zip(rows, more, strict=True)]
    path.with_suffix(".pvar").write_text(head + "".join(lines))
    return path


def write_bed(path, ids, rows, values):
    """A1, which is counted, is ALT."""
    codes = np.array([3, 2, 0, 1], dtype=np.uint8)[values]  # 0, 1, 2 copies; -1 is the last
    padded = np.zeros((len(rows), 4 * -(-len(ids) // 4)), dtype=np.uint8)
    padded[:, : len(ids)] = codes
    packed = (padded.reshape(len(rows), -1, 4) << np.array([0, 2, 4, 6], dtype=np.uint8)).sum(axis=2)
    path.write_bytes(b"\x6c\x1b\x01" + packed.astype(np.uint8).tobytes())
    path.with_suffix(".fam").write_text("".join(f"0 {id} 0 0 0 -9\n" for id in ids))
    lines = [f"{row[0]}\t{row[2]}\t0\t{row[1]}\t{row[4]}\t{row[3]}\n" for row in rows]
    path.with_suffix(".bim").write_text("".join(lines))
    return path


def write_vcf(path, ids, rows, values, field="GT"):
    calls = {-1: "./.", 0: "0/0", 1: "0|1", 2: "1|1"}
    head = [
        "##fileformat=VCFv4.2",
        *(f"##contig=<ID={name}>" for name in dict.fromkeys(row[0] for row in rows)),
        '##INFO=<ID=R2,Number=1,Type=Float,Description="r2">',
        '##FORMAT=<ID=GT,Number=1,Type=String,Description="call">',
        *(['##FORMAT=<ID=DS,Number=A,Type=Float,Description="dosage">'] * (field == "DS")),
        "\t".join(["#CHROM", "POS", "ID", "REF", "ALT", "QUAL", "FILTER", "INFO", "FORMAT", *ids]),
    ]
    lines = []
    for row, cells in zip(rows, values, strict=True):
        if field == "DS":
            shown = [f"./.:{'.' if cell < 0 else f'{cell:.3f}'}" for cell in cells]
        else:
            shown = [calls[cell] for cell in cells.tolist()]
        lines.append(
            "\t".join([*map(str, row), ".", "PASS", "R2=0.9", "GT:DS" if field == "DS" else "GT", *shown])
        )
    text = ("\n".join([*head, *lines]) + "\n").encode()
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
    return path


def write_bgen(path, ids, rows, probabilities, bits=8, compressed=True, missing=None, ploidy=None):
    """BGEN 1.2 from P(REF REF) and P(REF ALT) (d, n, 2); with one copy only the first counts."""
    n, body = len(ids), b""
    ploidy = np.full(n, 2) if ploidy is None else ploidy
    for j, row in enumerate(rows):
        lacks = np.zeros(n, dtype=bool) if missing is None else missing[j]
        numbers = np.rint(probabilities[j] * (2**bits - 1)).astype(np.uint64)
        flat = [number for i in range(n) for number in numbers[i, : ploidy[i]]]
        packed = np.array(flat, dtype=f"<u{bits // 8}").tobytes()
        kinds = (ploidy | (lacks << 7)).astype(np.uint8).tobytes()
        data = struct.pack("<IH2B", n, 2, ploidy.min(), ploidy.max()) + kinds + bytes([0, bits]) + packed
        block = struct.pack("<I", len(data)) + zlib.compress(data) if compressed else data
        names = b"".join(struct.pack("<H", len(name)) + name.encode() for name in ("v", row[2], row[0]))
        alleles = b"".join(struct.pack("<I", len(name)) + name.encode() for name in row[3:5])
        body += names + struct.pack("<IH", row[1], 2) + alleles + struct.pack("<I", len(block)) + block
    known = b"".join(struct.pack("<H", len(id)) + id.encode() for id in ids)
    samples = struct.pack("<2I", 8 + len(known), n) + known
    flags = (1 if compressed else 0) | 2 << 2 | 1 << 31
    head = struct.pack("<3I4sI", 20, len(rows), n, b"bgen", flags)
    path.write_bytes(struct.pack("<I", 20 + len(samples)) + head + samples + body)
    return path
