"""Readers of the files researchers have: each gives one row per subject and one number per feature.

A reader returns a data frame indexed by ``id`` (text), with float64 columns, NaN where missing. What it left
out is counted in ``attrs["notes"]``; columns without any value are left out, too, and named in
``attrs["empty"]``. It raises `StudyError`: one line with file, column and count.
"""

from __future__ import annotations

from pathlib import Path

from viewloom.study.readers import adni, anndata, freesurfer, freesurfer_tables, plink, tables, ucsffsx
from viewloom.study.readers.formats import Format, Sample

__all__ = ["FORMATS", "Format", "Sample", "owner", "participants_formats", "sniff", "takes"]


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
    sample = Sample(path)
    if not (sample.path.is_dir() or sample.path.is_file()):
        return None
    # the last to be registered is asked first, and "table", which takes any text, last
    return next((name for name in reversed(_possible(sample.path)) if FORMATS[name].recognises(sample)), None)


def owner(path: Path) -> str | None:
    """The format that the end of a name belongs to."""
    name = path.name.lower()
    return next((key for key in reversed(FORMATS) if name.endswith(FORMATS[key].suffixes)), None)


def _possible(path: Path) -> list[str]:
    """Formats that a file or folder may have by its name."""
    known = owner(path)
    if known is not None and path.is_file():
        return [known]
    return [name for name, format in FORMATS.items() if not format.suffixes or name == known]


def takes(format: str, option: str) -> bool:
    """Whether the reader of a format has an option.

    >>> takes("table", "missing_codes"), takes("plink", "missing_codes")
    (True, False)
    """
    return option in FORMATS[format].options


def participants_formats() -> list[str]:
    """Formats that the table of participants may have: those whose reader also reads text."""
    return [name for name in FORMATS if takes(name, "numeric")]


FORMATS: dict[str, Format] = {
    "table": Format(tables.read_table, tables.is_table),
    "long": Format(tables.read_long, tables.is_long),
    "freesurfer": Format(freesurfer.read_stats, freesurfer.is_stats, contents="*.stats"),
    "freesurfer-table": Format(
        freesurfer_tables.read_stats_table, freesurfer_tables.is_stats_table, several=True
    ),
    "ucsffsx": Format(ucsffsx.read_ucsffsx, ucsffsx.is_ucsffsx, ids="adni"),
    "adnimerge": Format(adni.read_adnimerge, adni.is_adnimerge, ids="adni"),
    "tadpole": Format(adni.read_tadpole, adni.is_tadpole, ids="adni"),
    "fdg": Format(adni.read_fdg, adni.is_fdg, ids="adni"),
    "plink": Format(
        plink.read_bed, plink.is_genotypes, (".bed",), companions=(".bed", ".bim", ".fam"), genotypes=True
    ),
    "plink-raw": Format(plink.read_raw, plink.is_raw, genotypes=True),
    "h5mu": Format(anndata.read_h5mu, suffixes=(".h5mu",)),
    "h5ad": Format(anndata.read_h5ad, suffixes=(".h5ad",)),
}
