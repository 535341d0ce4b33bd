"""Changes that keep an input alive: cells of tables, lines of study files; models and HDF5 have modules."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from fuzzing.hdf5 import mutated_hdf5
from fuzzing.models import Mutate, mutated_model

CELLS = [
    b"", b"NA", b"nan", b"inf", b"-inf", b"1e400", b"-9", b"1,5", b"0x10", b"1_000", b"9" * 400, b"1e-400",
    b"True", b">1700",
    b"2010-01-01", b"1-Mar", b"1.0E+05", b"007", b"1.0", b'"', b'""', b"'", b"=1+1", b"bl", b"a", b"\xe9",
    b"\xef\xbb\xbf", b"\0",
    b"\xff\xfe", b"\\", b"\r", b"\n", b" ", b"\xe2\x80\xa8", b"\xf0\x9f\xa7\xa0", b"sep=;", b"#FID", b"1j",
    b"-", b"0" * 40, b"<NA>",
    b"9223372036854775808", b"18446744073709551616", b"\xd9\xa3", b"9999-99-99", b"a.1", b"row.names",
    b"column 1", b"_HET",
]  # fmt: skip
MARKS = [b",", b";", b"\t", b" ", b"|"]


def mutated_table(content: bytes, random: Random, mutate: Mutate) -> bytes:
    """A table with other cells, rows, columns, marks or letters; one in three times other bytes."""
    if random.random() < 0.33:
        return mutate(content)
    head, text = content[:1], content[1:]
    mark = max(MARKS, key=text.count)
    rows = [line.split(mark) for line in text.split(b"\n")]
    for _ in range(random.choice([1, 1, 2, 4])):
        random.choice(TABLE_CHANGES)(rows, random, mutate)
    mark = random.choice(MARKS) if random.random() < 0.05 else mark
    text = b"\n".join(mark.join(row) for row in rows)
    return head + (random.choice(LETTERS)(text) if random.random() < 0.05 else text)


def _cell(rows: list[list[bytes]], random: Random, mutate: Mutate) -> None:
    row = random.choice(rows)
    if row:
        row[random.randrange(len(row))] = random.choice(CELLS)


def _bytes_of_cell(rows: list[list[bytes]], random: Random, mutate: Mutate) -> None:
    row = random.choice(rows)
    if row:
        at = random.randrange(len(row))
        row[at] = mutate(row[at] or b"0")


def _other_cell(rows: list[list[bytes]], random: Random, mutate: Mutate) -> None:
    """A cell that stands elsewhere in the table."""
    row, other = random.choice(rows), random.choice(rows)
    if row and other:
        row[random.randrange(len(row))] = random.choice(other)


def _whole_column(rows: list[list[bytes]], random: Random, mutate: Mutate) -> None:
    at, cell = random.randrange(max(len(rows[0]), 1)), random.choice(CELLS)
    for row in rows[1:]:
        if at < len(row):
            row[at] = cell


def _repeat_row(rows: list[list[bytes]], random: Random, mutate: Mutate) -> None:
    if len(rows) < 200:
        rows.insert(random.randrange(len(rows) + 1), list(random.choice(rows)))


def _drop_row(rows: list[list[bytes]], random: Random, mutate: Mutate) -> None:
    if len(rows) > 1:
        del rows[random.randrange(len(rows))]


def _change_columns(rows: list[list[bytes]], random: Random, mutate: Mutate) -> None:
    """A column less, or one that is there twice."""
    at, drop = random.randrange(max(len(rows[0]), 1)), random.random() < 0.5
    for row in rows:
        if at < len(row):
            row[at : at + 1] = [] if drop else [row[at], row[at]]


def _quote(rows: list[list[bytes]], random: Random, mutate: Mutate) -> None:
    rows[:] = [[b'"' + cell + b'"' for cell in row] for row in rows]


TABLE_CHANGES = [
    _cell, _cell, _cell, _bytes_of_cell, _other_cell, _whole_column, _repeat_row, _drop_row, _change_columns,
    _quote,
]  # fmt: skip
LETTERS: list[Callable[[bytes], bytes]] = [
    lambda text: text.decode("utf-8", "replace").encode("utf-16"),
    lambda text: text.decode("utf-8", "replace").encode("utf-8-sig"),
    lambda text: text.replace(b"\n", b"\r\n"),
    lambda text: text.replace(b"\n", b"\r"),
    lambda text: b"sep=;\n" + text,
]


def mutated_toml(content: bytes, random: Random, mutate: Mutate) -> bytes:
    """A study file with other lines, keys or values; one in four times other bytes."""
    if random.random() < 0.25:
        return mutate(content)
    lines = content.split(b"\n")
    for _ in range(random.choice([1, 1, 2, 4])):
        random.choice(LINE_CHANGES)(lines, random)
    return b"\n".join(lines)


def _other_value(lines: list[bytes], random: Random) -> None:
    at = random.randrange(len(lines))
    lines[at] = lines[at].partition(b"=")[0] + b"= " + random.choice(TOML_VALUES)


def _other_key(lines: list[bytes], random: Random) -> None:
    at = random.randrange(len(lines))
    lines[at] = random.choice(TOML_KEYS) + b" =" + lines[at].partition(b"=")[2]


def _new_line(lines: list[bytes], random: Random) -> None:
    line = random.choice(
        [random.choice(TOML_KEYS) + b" = " + random.choice(TOML_VALUES), random.choice(BLOCKS)]
    )
    lines.insert(random.randrange(len(lines) + 1), line)


def _moved_line(lines: list[bytes], random: Random) -> None:
    lines.insert(random.randrange(len(lines)), lines.pop(random.randrange(len(lines))))


def _same_line(lines: list[bytes], random: Random) -> None:
    lines.insert(random.randrange(len(lines)), random.choice(lines))


def _no_line(lines: list[bytes], random: Random) -> None:
    if len(lines) > 1:
        del lines[random.randrange(len(lines))]


LINE_CHANGES = [
    _other_value,
    _other_value,
    _other_key,
    _new_line,
    _new_line,
    _moved_line,
    _same_line,
    _no_line,
]
TOML_KEYS = b"""
path paths format id visit visit_column missing_codes delimiter decimal encoding diagnosis covariates
site outcomes survival survival.time transform columns exclude name value repeats atlas measures
hemispheres longitudinal global_measures dictionary require_qc min_maf min_call_rate variants modality
layer impute n_neighbors genotypes residualise residualise_on controls harmonise min_site new_sites
harmonise_on w_scores splines
standardise n_clusters kernel kernel.vbm lam theta.mri gamma graph membership sharpness scale n_init
max_iter tol seed match min_cell model views.x participants "" 'a.b' a.b.c
""".split()
TOML_VALUES = [
    b"1", b"-1", b"0.5", b"1e400", b"nan", b"-inf", b"true", b"''", b"'a'", b'"\\u0000"', b"[]", b"{}",
    b"[[]]", b"[1, 'a', []]",
    b"{ a = 1 }", b"{ vbm = 'linear', mri = 3 }", b"'vbm.csv'", b"'..'", b"'/'", b"'~'", b"'/dev/null'",
    b"'/proc/self/mem'", b"'subjects'",
    b"'genotypes/snps.bed'", b"['vbm.csv']", b"'participants.csv'", b"'table'", b"'long'", b"'plink'",
    b"'freesurfer'", b"'h5ad'", b"'utf-16'",
    b"1979-05-27", b"07:32:00", b"0xFF", b"9" * 30, b'""' + b'"a\n"' + b'""', b"[\n1,\n]",
    b"'" + b"x" * 300 + b"'", b"'\xf0\x9f\xa7\xa0'",
]  # fmt: skip
BLOCKS = [
    b"[views]", b"[views.x]", b"[[views]]", b"[[views.x]]", b"[views.x.y]", b'[views."../x"]',
    b"[views.VBM]", b"[participants]", b"[model]",
    b"[model.kernel]", b"[preparation]", b"[ids]", b"[report]", b"[study]", b"[unknown]",
    b"[participants.survival]",
]  # fmt: skip


MUTATIONS: dict[str, Callable[[bytes, Random, Mutate], bytes]] = {
    "table": mutated_table,
    "toml": mutated_toml,
    "model": mutated_model,
    "hdf5": mutated_hdf5,
}
