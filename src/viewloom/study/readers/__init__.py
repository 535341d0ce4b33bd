"""Readers of the files researchers have: each gives one row per subject and one number per feature.

A reader returns a data frame indexed by ``id`` (text), with float64 columns, NaN where missing. What it left
out is counted in ``attrs["notes"]``; columns without any value are left out, too, and named in
``attrs["empty"]``. It raises `StudyError`: one line with file, column and count.
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature
from pathlib import Path

import pandas as pd

from viewloom.study.errors import StudyError
from viewloom.study.readers import stcodes
from viewloom.study.readers.adni import read_adnimerge, read_fdg, read_tadpole
from viewloom.study.readers.anndata import read_h5ad, read_h5mu
from viewloom.study.readers.freesurfer import is_stats_folder, read_stats
from viewloom.study.readers.freesurfer_tables import is_stats_table, read_stats_table
from viewloom.study.readers.plink import RAW, is_bed, read_bed, read_raw
from viewloom.study.readers.tables import is_parquet, read_long, read_table
from viewloom.study.readers.text import NAMED, find_dialect
from viewloom.study.readers.ucsffsx import read_ucsffsx

__all__ = ["FORMATS", "sniff", "takes"]

# columns of long tables in lower case, the likeliest first
REGION = ("region", "roi", "roiname", "roi_name", "feature", "structure")
VALUE = ("value", "mean", "suvr", "measure", "volume", "thickness")


def sniff(path: str | Path) -> str | None:
    r"""Guess the format of a file or folder from its name and first lines.

    Parameters
    ----------
    path : str or Path

    Returns
    -------
    str or None
        A key of `FORMATS`; None where nothing fits.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "lh.csv")
    ...     _ = path.write_text("lh.aparc.thickness,lh_entorhinal_thickness\nsub-01,3.2\n")
    ...     sniff(path)
    'freesurfer-table'
    """
    path = Path(path)
    if path.is_dir():
        return "freesurfer" if is_stats_folder(path) else None
    if not path.is_file():
        return None
    suffix = path.suffix.lower()
    if suffix == ".bed":
        return "plink" if is_bed(path) else None
    if suffix in (".h5mu", ".h5ad"):
        return suffix[1:]
    return "table" if is_parquet(path) else _sniff_text(path)


def takes(format: str, option: str) -> bool:
    """Whether the reader of a format has an option.

    >>> takes("table", "missing_codes"), takes("plink", "missing_codes")
    (True, False)
    """
    return option in signature(FORMATS[format]).parameters


def _sniff_text(path: Path) -> str | None:
    """The format of a delimited text, from its header."""
    try:
        header = find_dialect(path, candidates=NAMED.values()).header
    except StudyError:
        return None
    if is_stats_table(header):
        return "freesurfer-table"
    names, folded = set(header), {name.casefold() for name in header}
    if header[:2] in (RAW[:2], ["#FID", "IID"]) and names >= set(RAW[2:]):
        return "plink-raw"
    if {"RID", "ROINAME", "MEAN"} <= names:
        return "fdg"
    if {"RID", "PTID", "VISCODE"} <= names and names & {"DX_bl", "DX", "DXCHANGE"}:
        return "tadpole" if {"D1", "D2"} <= names or "DXCHANGE" in names else "adnimerge"
    if "RID" in names and any(stcodes.CODE.fullmatch(name) for name in names):
        return "ucsffsx"
    return "long" if folded & set(REGION) and folded & set(VALUE) else "table"


FORMATS: dict[str, Callable[..., pd.DataFrame]] = {
    "table": read_table,
    "long": read_long,
    "freesurfer": read_stats,
    "freesurfer-table": read_stats_table,
    "ucsffsx": read_ucsffsx,
    "adnimerge": read_adnimerge,
    "tadpole": read_tadpole,
    "fdg": read_fdg,
    "plink": read_bed,
    "plink-raw": read_raw,
    "h5mu": read_h5mu,
    "h5ad": read_h5ad,
}
