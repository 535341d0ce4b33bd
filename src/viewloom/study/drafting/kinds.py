"""The kind of a file that no reader supports, from its name and first bytes."""

from __future__ import annotations

import re
from pathlib import Path

HEAD = 4096  # bytes that are read
CSV = "save the sheet as CSV"
TO_BED = "not supported; convert it with plink2 --make-bed"
EXPORT = "not supported; export it as CSV"
UNPACK = "unpack it first"
NO_TABLE = "not a table of subjects"
NAMED = {  # suffixes -> kind, and solution
    ".xlsx .xls .xlsm .xlsb .ods": f"an Excel workbook: not supported; {CSV}",
    ".sav .zsav .por": f"an SPSS file: {EXPORT}",
    ".dta": f"a Stata file: {EXPORT}",
    ".sas7bdat .xpt": f"a SAS file: {EXPORT}",
    ".rds .rdata .rda": "an R file: not supported; export the table with write.csv",
    ".mat": f"a MATLAB file: {EXPORT}",
    ".npy .npz .pkl .pickle .joblib .pt .feather .arrow": "arrays: not supported; export them as CSV",
    ".h5 .hdf5 .hdf .nwb .loom .zarr": "HDF5 of an unknown layout; .h5ad and .h5mu are supported",
    ".pgen .pvar .psam .pvar.zst .pgen.pgi": f"PLINK 2 genotypes: {TO_BED}",
    ".vcf .vcf.gz .bcf .vcf.bgz": f"variant calls (VCF): {TO_BED}",
    ".bgen .gen .gen.gz .sample .haps": f"imputed genotypes: {TO_BED}",
    ".ped .map .tped .tfam .lgen": "genotypes as text: not supported; convert them with plink --make-bed",
    ".bim .fam": "part of a PLINK set without its .bed",
    ".zip .tar .tgz .tar.gz .tar.bz2 .tar.xz .7z .rar": f"an archive; {UNPACK}",
    ".nii .nii.gz .mgz .mgh .gii .dcm .hdr .img .mif .mnc .nrrd .annot .label .surf .ctab .lta .xfm .m3z "
    ".trk .tck .fif .edf .bdf .vhdr .vmrk .eeg .set .fdt .bval .bvec": f"an image or recording: {NO_TABLE}",
    ".png .jpg .jpeg .gif .tif .tiff .svg .bmp .eps": f"an image file: {NO_TABLE}",
    ".pdf .doc .docx .odt .rtf .ppt .pptx .tex .md .rst .html .htm .bib": f"a document: {NO_TABLE}",
    ".json .yaml .yml .toml .xml .ini .cfg .jsonl": f"settings or metadata: {NO_TABLE}",
    ".py .r .rmd .m .sh .ipynb .do .sas .js .c .cpp .jl .bat .make .pyc .so": f"a program: {NO_TABLE}",
    ".log .out .err .done .touch .env .cmd": f"a log: {NO_TABLE}",
    ".safetensors": "a saved model",
    ".db .sqlite .sqlite3 .mdb .accdb": f"a database: {EXPORT}",
    ".gz .bz2 .xz .zst": f"compressed; {UNPACK}",
}  # fmt: skip
BIDS = {  # suffixes of BIDS tables without one row per subject
    "events": "events of a recording",
    "channels": "channels of a recording",
    "electrodes": "electrodes of a recording",
    "scans": "scans of one subject",
    "sessions": "sessions of one subject",
    "timeseries": "time series of one subject",
    "regressors": "time series of one subject",
    "physio": "a recording of one subject",
    "motion": "time series of one subject",
    "coordsystem": "coordinates of a recording",
    "dseg": "labels of a parcellation",
    "probseg": "labels of a parcellation",
}
MAGIC = {
    b"PK\x03\x04": f"a zip file or workbook; {UNPACK}, or {CSV}",
    b"\xd0\xcf\x11\xe0": f"an old Office file: not supported; {CSV}",
    b"\x1f\x8b": f"compressed; {UNPACK}",
    b"BZh": f"compressed; {UNPACK}",
    b"\xfd7zXZ": f"compressed; {UNPACK}",
    b"\x89HDF": "HDF5 of an unknown layout; .h5ad and .h5mu are supported",
    b"MATLAB": f"a MATLAB file: {EXPORT}",
    b"$FL2": f"an SPSS file: {EXPORT}",
    b"%PDF": f"a document: {NO_TABLE}",
    b"\x89PNG": f"an image file: {NO_TABLE}",
    b"RDX": "an R file: not supported; export the table with write.csv",
    b"<!DOCTYPE": f"a web page: {NO_TABLE}; was the download refused?",
    b"<html": f"a web page: {NO_TABLE}; was the download refused?",
    b"version https://git-lfs": "a Git LFS pointer; fetch the file with git lfs pull",
    b"/annex/objects": "a git-annex pointer; fetch the file with datalad get",
}
TEXTS = re.compile(
    r"(?i)(readme|changes|license|licence|authors|citation|copying|notice|makefile|dockerfile)\b.*"
)
KNOWN = {end: what for ends, what in NAMED.items() for end in ends.split()}


def known_as(path: Path) -> str | None:
    """The kind of a file by its name, or None.

    >>> known_as(Path("brain.nii.gz")), known_as(Path("rois.csv"))
    ('an image or recording: not a table of subjects', None)
    """
    name = path.name.casefold()
    if TEXTS.fullmatch(path.name) and path.suffix.casefold() not in (".csv", ".tsv"):
        return f"a document: {NO_TABLE}"
    suffixes = [part.casefold() for part in path.suffixes]
    for end in ("".join(suffixes[-2:]), suffixes[-1] if suffixes else ""):
        if end in KNOWN:
            return KNOWN[end]
    found = re.fullmatch(r".*_(?:desc-\w+_)?([a-z]+)\.tsv", name)
    kind = BIDS.get(found[1]) if found else None
    return f"{kind} (BIDS): {NO_TABLE}" if kind else None


def unreadable_as(path: Path) -> str | None:
    """Why a file cannot be a table, from its first bytes; None if it may be."""
    if path.is_symlink() and not path.exists():
        return "a link to a missing file (fetch it with datalad get or git annex get)"
    if not path.is_file():
        return "not a regular file"
    try:
        with path.open("rb") as file:
            head = file.read(HEAD)
    except PermissionError:
        return "permission denied"
    except OSError as error:
        return f"cannot be read ({error.strerror})"
    return _bytes_as(head)


def _bytes_as(head: bytes) -> str | None:
    if not head.strip():
        return "an empty file"
    for mark, what in MAGIC.items():
        if head.startswith(mark):
            return what
    utf16 = head.startswith((b"\xff\xfe", b"\xfe\xff"))
    return "not a text file, and of unknown kind" if b"\0" in head and not utf16 else None
