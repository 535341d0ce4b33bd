"""Readings of files by other libraries, or by a few lines of Python, with which `realfiles.py` compares ours.

Tables are lists of rows of cells, the header and what is above it included; genotypes are data frames with
counts, one row per subject. A library that is not installed raises `ImportError`.
"""

from __future__ import annotations

import csv
import datetime
import io
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

Row = list[Any]
Grid = list[Row]
CALLS = np.array([2.0, np.nan, 1.0, 0.0])  # copies of A1 by the two bits of a .bed


def excel(path: Path, sheet: str | None) -> Grid:
    """Cells of a sheet, by openpyxl; the first column of a merged area is filled with its value."""
    from openpyxl import load_workbook

    page = load_workbook(path, data_only=True)[sheet]
    rows = [[cell.value for cell in row] for row in page.iter_rows()]
    for area in page.merged_cells.ranges:
        first = rows[area.min_row - 1][area.min_col - 1]
        for row in rows[area.min_row - 1 : area.max_row]:
            row[area.min_col - 1] = first
    return rows


def old_excel(path: Path, sheet: str | None) -> Grid:
    """Cells of a sheet of an old workbook, by xlrd."""
    import xlrd

    book = xlrd.open_workbook(path, logfile=io.StringIO())
    page = book.sheet_by_name(sheet)
    return [[_old_cell(cell, book, xlrd) for cell in page.row(i)] for i in range(page.nrows)]


def _old_cell(cell: Any, book: Any, xlrd: Any) -> Any:
    if cell.ctype == xlrd.XL_CELL_DATE:
        try:
            return xlrd.xldate_as_datetime(cell.value, book.datemode)
        except (ValueError, OverflowError):
            return cell.value
    if cell.ctype == xlrd.XL_CELL_BOOLEAN:
        return bool(cell.value)
    return xlrd.error_text_from_code[cell.value] if cell.ctype == xlrd.XL_CELL_ERROR else cell.value


def open_document(path: Path, sheet: str | None) -> Grid:
    """Cells of a sheet of an OpenDocument spreadsheet, by odfpy."""
    frame = pd.read_excel(path, sheet_name=sheet, engine="odf", header=None, dtype=object, na_filter=False)
    return frame.to_numpy(dtype=object).tolist()


def text(path: Path, part: str | None) -> Grid:
    """Lines of a delimited text, by Python's csv; the delimiter is the commonest in the first line."""
    content = path.read_bytes()
    for encoding in ("utf-8-sig", "latin-1"):
        try:
            lines = content.decode(encoding).splitlines(keepends=True)
            break
        except UnicodeDecodeError:
            continue
    first = next((line for line in lines if line.strip()), "")
    return list(csv.reader(lines, delimiter=max("\t;,", key=first.count)))


def stata(path: Path, part: str | None) -> Grid:
    """Cells of a Stata file, by pandas."""
    return _rows(pd.read_stata(path, convert_categoricals=False))


def sas(path: Path, part: str | None) -> Grid:
    """Cells of a SAS file, by pandas."""
    return _rows(pd.read_sas(path, encoding="latin-1"))


def arrow(path: Path, part: str | None) -> Grid:
    """Cells of a Parquet or Feather file, by Polars."""
    import polars

    frame = (
        polars.read_parquet(path) if path.suffix == ".parquet" else polars.read_ipc(path, memory_map=False)
    )
    return [list(frame.columns), *map(list, frame.iter_rows())]


def _rows(frame: pd.DataFrame) -> Grid:
    return [list(frame.columns), *frame.astype(object).to_numpy().tolist()]


def plink2(path: Path) -> pd.DataFrame:
    """Counts of ALT of variants with two alleles, one variant at a time by pgenlib."""
    import pgenlib

    variants, ids = _pvar(path), _psam(path)
    offsets = np.cumsum([0, *(alt.count(",") + 2 for alt in variants["ALT"])]).astype(np.uintp)
    values = np.empty((len(variants), len(ids)), dtype=np.float32)
    with pgenlib.PgenReader(
        bytes(path), raw_sample_ct=len(ids), variant_ct=len(variants), allele_idx_offsets=offsets
    ) as file:
        for i in range(len(variants)):
            file.read_dosages(i, values[i])
    two = ~variants["ALT"].str.contains(",").to_numpy()
    names = variants["ID"] + "_" + variants["ALT"]
    return pd.DataFrame(np.where(values < 0, np.nan, values)[two].T, ids, names[two])


def _pvar(path: Path) -> pd.DataFrame:
    import polars

    found = next(one for end in (".pvar", ".pvar.zst") if (one := path.with_suffix(end)).exists())
    lines = polars.read_csv(  # one column; decompresses .zst
        found, separator="\x01", has_header=False, new_columns=["line"], quote_char=None
    )["line"].to_list()
    rows = [line.split("\t") for line in lines if not line.startswith("##")]
    return pd.DataFrame(rows[1:], columns=[name.lstrip("#") for name in rows[0]])


def _psam(path: Path) -> list[str]:
    rows = [line.split() for line in path.with_suffix(".psam").read_text().splitlines() if line[:2] != "##"]
    at = next(j for j, name in enumerate(rows[0]) if name.lstrip("#") == "IID")
    return [row[at] for row in rows[1:]]


def plink1(path: Path) -> pd.DataFrame:
    """Counts of A1, from the two bits of each call."""
    ids = [line.split()[1] for line in path.with_suffix(".fam").read_text().splitlines()]
    names = [f"{row[1]}_{row[4]}" for line in _lines(path, ".bim") if (row := line.split())]
    packed = np.frombuffer(path.read_bytes()[3:], dtype=np.uint8).reshape(len(names), -1)
    bits = packed[:, :, None] >> np.array([0, 2, 4, 6]) & 3
    return pd.DataFrame(CALLS[bits.reshape(len(names), -1)[:, : len(ids)]].T, ids, names)


def _lines(path: Path, suffix: str) -> list[str]:
    return path.with_suffix(suffix).read_text().splitlines()


def variants(path: Path) -> pd.DataFrame:
    """Counts of ALT of variants with two alleles, by cyvcf2: dosages where the header declares them."""
    from cyvcf2 import VCF

    file = VCF(str(path))
    dosages = re.search(r"##FORMAT=<ID=DS\b", file.raw_header) is not None
    found = {
        f"{one.ID or f'{one.CHROM}:{one.POS}'}_{one.ALT[0]}": _dosages(one) if dosages else _calls(one)
        for one in file
        if len(one.ALT) == 1
    }
    return pd.DataFrame(found, file.samples)


def _calls(variant: Any) -> list[float]:
    copies = [call[:-1] for call in variant.genotypes]
    return [np.nan if -1 in one or not one else 2.0 * sum(one) / len(one) for one in copies]


def _dosages(variant: Any) -> np.ndarray:
    return np.asarray(variant.format("DS"), dtype=float)[:, 0]


def plain(cell: Any) -> float | str | None:
    """A cell as a number, a text, or None where it is blank or stands for a missing value.

    >>> [plain(cell) for cell in (3, " 4.50", "a ", "n/a", True, datetime.datetime(2021, 3, 14))]
    [3.0, 4.5, 'a', None, 'TRUE', '2021-03-14']
    """
    if isinstance(cell, (bool, np.bool_)):
        return "TRUE" if cell else "FALSE"
    if isinstance(cell, (datetime.date, np.datetime64)) and not pd.isna(cell):
        return str(pd.Timestamp(cell)).removesuffix(" 00:00:00")
    shown = "" if cell is None or cell is pd.NaT else str(cell).strip()
    try:
        number = float(shown)
    except ValueError:
        return None if shown in MISSING else shown
    return None if np.isnan(number) else number


MISSING = {
    "", ".", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "1.#IND", "1.#QNAN", "<NA>", "N/A", "NA",
    "NULL", "None", "n/a", "null",
}  # fmt: skip
TABLES: dict[str, Callable[[Path, str | None], Grid]] = {
    ".xlsx": excel, ".xlsm": excel, ".xls": old_excel, ".ods": open_document, ".csv": text, ".tsv": text,
    ".dta": stata, ".sas7bdat": sas, ".xpt": sas, ".parquet": arrow, ".feather": arrow,
}  # fmt: skip
GENOTYPES: dict[str, Callable[[Path], pd.DataFrame]] = {
    ".pgen": plink2, ".bed": plink1, ".vcf": variants, ".vcf.gz": variants, ".bcf": variants,
}  # fmt: skip
