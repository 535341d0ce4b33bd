"""The kind of a file that no reader supports, from its name and first bytes."""

from __future__ import annotations

import re
from pathlib import Path

from viewloom.study.errors import StudyError
from viewloom.study.readers.files import kind_of
from viewloom.study.readers.packed import ZIP, is_packed, open_bytes

HEAD = 4096  # bytes that are read
NAME_IT = "give its name the end"
EXPORT = "not supported; export it as CSV"
UNPACK = "unpack it first"
NO_TABLE = "not a table of subjects"
NAMED = {  # suffixes -> kind, and solution
    ".xlsb": "a binary workbook: not supported; save it as .xlsx",
    ".sas7bcat": "labels of a SAS file; the .sas7bdat is read without them",
    ".mat": f"a MATLAB file, and not of CAT12: {EXPORT}",
    ".npy .npz .pkl .pickle .joblib .pt": "arrays: not supported; export them as CSV",
    ".h5 .hdf5 .hdf .nwb .loom .zarr": "HDF5 of an unknown layout; .h5ad and .h5mu are supported",
    ".pvar .psam .pvar.zst .pgen.pgi": "part of a PLINK 2 set without its .pgen",
    ".tbi .csi .bgi": f"an index of genotypes: {NO_TABLE}",
    ".sample": "ids of a BGEN file that is not in the same folder",
    ".gen .gen.gz .haps": "imputed genotypes as text: not supported; convert them with plink2 --make-pgen",
    ".ped .map .tped .tfam .lgen": "genotypes as text: not supported; convert them with plink --make-bed",
    ".bim .fam": "part of a PLINK set without its .bed",
    ".tar .tgz .tar.gz .tar.bz2 .tar.xz .7z .rar": f"an archive; {UNPACK}",
    ".nii .nii.gz": "an image; format 'nifti' reads maps of subjects with a label atlas",
    ".mgz .mgh .gii .dcm .hdr .img .mif .mnc .nrrd .annot .label .surf .ctab .lta .xfm .m3z "
    ".trk .tck .fif .edf .bdf .vhdr .vmrk .eeg .set .fdt .bval .bvec": f"an image or recording: {NO_TABLE}",
    ".png .jpg .jpeg .gif .tif .tiff .svg .bmp .eps": f"an image file: {NO_TABLE}",
    ".pdf .doc .docx .odt .rtf .ppt .pptx .tex .md .rst .html .htm .bib": f"a document: {NO_TABLE}",
    ".json .yaml .yml .toml .xml .ini .cfg .jsonl": f"settings or metadata: {NO_TABLE}",
    ".py .r .rmd .m .sh .ipynb .do .sas .js .c .cpp .jl .bat .make .pyc .so": f"a program: {NO_TABLE}",
    ".log .out .err .done .touch .env .cmd": f"a log: {NO_TABLE}",
    ".safetensors": "a saved model",
    ".db .sqlite .sqlite3 .mdb .accdb": f"a database: {EXPORT}",
    ".zst .lz4 .z": f"compressed; {UNPACK}",
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
    b"PK\x03\x04": f"a zip file or workbook; {NAME_IT} .zip or .xlsx",
    b"\xd0\xcf\x11\xe0": f"an old Office file; {NAME_IT} .xls if it is a workbook",
    b"\x1f\x8b": f"compressed; {NAME_IT} .gz",
    b"BZh": f"compressed; {NAME_IT} .bz2",
    b"\xfd7zXZ": f"compressed; {NAME_IT} .xz",
    b"\x89HDF": "HDF5 of an unknown layout; .h5ad and .h5mu are supported",
    b"MATLAB": f"a MATLAB file: {EXPORT}",
    b"$FL": f"an SPSS file; {NAME_IT} .sav",
    b"###PGS CATALOG": "weights of a polygenic score; name it under scores of a view of genotypes",
    b"%PDF": f"a document: {NO_TABLE}",
    b"\x89PNG": f"an image file: {NO_TABLE}",
    b"RDX": f"an R file; {NAME_IT} .RData",
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

    >>> known_as(Path("brain.mgz")), known_as(Path("rois.csv"))
    ('an image or recording: not a table of subjects', None)
    """
    name = path.name.casefold()
    if TEXTS.fullmatch(path.name) and path.suffix.casefold() not in (".csv", ".tsv"):
        return f"a document: {NO_TABLE}"
    suffixes = [part.casefold() for part in path.suffixes]
    ends = ["".join(suffixes[-2:]), suffixes[-1] if suffixes else ""]
    if is_packed(path) and path.suffix.casefold() != ZIP:  # what is compressed: report.pdf.gz
        ends.append(suffixes[-2] if len(suffixes) > 1 else "")
    for end in ends:
        if end in KNOWN:
            return KNOWN[end]
    found = re.fullmatch(r".*_(?:desc-\w+_)?([a-z]+)\.tsv(?:\.gz)?", name)
    kind = BIDS.get(found[1]) if found else None
    return f"{kind} (BIDS): {NO_TABLE}" if kind else None


def unreadable_as(path: Path) -> str | None:
    """Why a file cannot be a table, from its first bytes; None if it may be."""
    if path.is_symlink() and not path.exists():
        return "a link to a missing file (fetch it with datalad get or git annex get)"
    if not path.is_file():
        return "not a regular file"
    if kind_of(path) is not None:
        return "an empty file" if path.stat().st_size == 0 else None
    try:
        with open_bytes(path) as file:
            head = file.read(HEAD)
    except StudyError as error:
        return str(error).removeprefix(f"{path.name}: ").rstrip(".")
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
