"""Readers of the files researchers have: each gives one row per subject and one number per feature.

A reader returns a data frame indexed by ``id`` (text), with float64 columns, NaN where missing. What it left
out is counted in ``attrs["notes"]``; columns without any value are left out, too, and named in
``attrs["empty"]``. It raises `StudyError`: one line with file, column and count.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from viewloom.study.readers import (
    adni,
    anndata,
    berkeley,
    bids,
    caps,
    cat12,
    codes,
    freesurfer,
    freesurfer_tables,
    genetics,
    images,
    matrices,
    muse,
    oasis,
    plink,
    tables,
    ucsffsx,
    ukb,
)
from viewloom.study.readers.formats import Format, Sample

__all__ = ["FORMATS", "Format", "Sample", "owner", "participants_formats", "sniff", "takes"]


def sniff(path: str | Path, part: dict[str, Any] | None = None) -> str | None:
    r"""Guess the format of a file or folder from its name and first lines.

    Parameters
    ----------
    path : str or Path
    part : dict, optional
        The sheet or object of a file with several tables.

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
    sample = Sample(path, part)
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
    "table": Format(tables.read_table, tables.is_table, tabular=True),
    "long": Format(tables.read_long, tables.is_long, tabular=True),
    "matrix": Format(
        matrices.read_matrix,
        matrices.is_matrix,
        example='''[views.expression]
path = "counts.tsv"
format = "matrix"
name = "Geneid"''',
        glance=matrices.by_subject,
    ),
    "codes": Format(codes.read_codes, codes.is_codes, drafts=codes.drafts),
    "nifti": Format(
        images.read_maps,
        images.is_maps,
        contents="*.nii*",
        several=True,
        extra="images",
        example='''[views.vbm]
path = "derivatives/cat12"
format = "nifti"
files = "mwp1*.nii"
atlas_image = "atlas-AAL2_dseg.nii.gz"
atlas_labels = "atlas-AAL2_dseg.tsv"
statistic = "sum"''',
        drafts=images.drafts,
        folders=images.folders_of_maps,
    ),
    "cat12-report": Format(
        cat12.read_reports,
        cat12.is_reports,
        contents="cat_*.xml",
        example="""[participants]
path = "cat12/report"
format = "cat12-report"
covariates = ["TIV"]""",
        folders=cat12.folders_of_reports,
    ),
    "cat12": Format(
        cat12.read_cat12,
        cat12.is_cat12,
        contents="cat*",
        example="""[views.vbm]
path = "cat12"
format = "cat12"
atlas = "neuromorphometrics"
measures = ["Vgm"]""",
        drafts=cat12.drafts,
        folders=cat12.folders_of_rois,
    ),
    "caps": Format(
        caps.read_caps,
        caps.is_caps,
        contents="*_statistics.tsv",
        example='''[views.fdg]
path = "CAPS"
format = "caps"
statistics = { pipeline = "pet", tracer = "18FFDG", atlas = "AAL2", reference = "pons" }
visit = "M000"''',
        drafts=caps.drafts_of_caps,
        folders=caps.folders_of_caps,
    ),
    "bids": Format(
        bids.read_bids,
        bids.is_bids,
        companions=(".json",),
        contents="*sessions.*",
        example="""[participants]
path = "participants.tsv"  # with participants.json
format = "bids"
covariates = ["age", "sex"]""",
        tabular=True,
        drafts=bids.drafts,
        folders=bids.joined_sessions,
    ),
    "freesurfer": Format(freesurfer.read_stats, freesurfer.is_stats, contents="*.stats"),
    "freesurfer-table": Format(
        freesurfer_tables.read_stats_table,
        freesurfer_tables.is_stats_table,
        several=True,
        glance=freesurfer_tables.by_subject,
    ),
    "clinica-merge": Format(
        caps.read_merged,
        caps.is_merged,
        example='''[views.vbm]
path = "merged.tsv"
format = "clinica-merge"
statistics = { pipeline = "t1-volume", atlas = "AAL2" }
visit = "M000"''',
        drafts=caps.drafts_of_merged,
    ),
    "muse": Format(
        muse.read_muse,
        muse.is_muse,
        example='''[views.muse]
path = "DLMUSE_Volumes.csv"
format = "muse"
dictionary = "MUSE_ROI_complete_list.csv"''',
    ),
    "oasis3": Format(oasis.read_oasis, oasis.is_oasis, glance=oasis.first_rows),
    "ukb": Format(
        ukb.read_ukb,
        ukb.is_ukb,
        example='''[views.brain]
path = "ukb.csv"
format = "ukb"
instance = 2  # imaging
columns = ["p25*"]
dictionary = "Data_Dictionary_Showcase.tsv"''',
        drafts=ukb.drafts,
    ),
    "ucsffsx": Format(ucsffsx.read_ucsffsx, ucsffsx.is_ucsffsx, ids="adni"),
    "adnimerge": Format(adni.read_adnimerge, adni.is_adnimerge, ids="adni"),
    "tadpole": Format(adni.read_tadpole, adni.is_tadpole, ids="adni"),
    "fdg": Format(adni.read_fdg, adni.is_fdg, ids="adni"),
    "adni-pet": Format(
        berkeley.read_pet,
        berkeley.is_pet,
        ids="adni",
        example='''[views.amyloid]
path = "UCBERKELEY_AMY_6MM.csv"
format = "adni-pet"
tracer = "FBP"
visit = "first"''',
        drafts=berkeley.drafts,
    ),
    "plink": Format(
        plink.read_bed,
        plink.is_genotypes,
        (".bed",),
        companions=(".bed", ".bim", ".fam"),
        several=True,
        genotypes=True,
        extra="study",
    ),
    "plink-raw": Format(plink.read_raw, plink.is_raw, several=True, genotypes=True),
    "pgen": Format(
        genetics.read_pgen,
        genetics.is_pgen,
        (".pgen",),
        companions=(".pvar", ".pvar.zst", ".psam", ".bim", ".fam"),
        several=True,
        genotypes=True,
        extra="genetics",
    ),
    "bgen": Format(
        genetics.read_bgen,
        genetics.is_bgen,
        (".bgen",),
        companions=(".sample",),
        several=True,
        genotypes=True,
    ),
    "vcf": Format(
        genetics.read_vcf,
        suffixes=(".vcf", ".vcf.gz", ".vcf.bgz", ".bcf"),
        several=True,
        genotypes=True,
    ),
    "h5mu": Format(anndata.read_h5mu, suffixes=(".h5mu",), extra="omics"),
    "h5ad": Format(anndata.read_h5ad, suffixes=(".h5ad",), extra="omics"),
}
