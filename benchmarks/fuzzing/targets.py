"""What is fuzzed: every reader of files, given bytes as they come.

A target writes its input into a folder and reads it. It may return, or raise what the reader documents;
whatever else it raises is a defect. Inputs of several files are cut at `CUT`; where a reader has options, the
first byte of the input chooses among them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from viewloom.models import persistence
from viewloom.models.persistence import DamagedFile
from viewloom.study import readers
from viewloom.study.config.toml import read_study
from viewloom.study.drafting.draft import draft
from viewloom.study.errors import StudyError
from viewloom.study.readers.text import find_dialect
from viewloom.study.run import prediction, run_folder

CUT = b"\n--8<--\n"
Options = dict[str, Any]


@dataclass(frozen=True)
class Target:
    """A reader, what it may raise, and how its inputs are changed (a key of `mutations.MUTATIONS`)."""

    run: Callable[[bytes, Path], object]
    documented: tuple[type[Exception], ...] = (StudyError,)
    mutation: str | None = None


def attempt(target: Target, content: bytes, folder: Path) -> None:
    """Run a target; nothing is raised but defects."""
    with suppress(*target.documented):
        target.run(content, folder)


def written(path: Path, content: bytes) -> Path:
    """The path, with this content."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def chosen(content: bytes, options: Sequence[Any]) -> tuple[Any, bytes]:
    """What the first byte chooses, and the rest."""
    return options[(content[0] if content else 0) % len(options)], content[1:]


def parts(content: bytes, names: Sequence[str]) -> Iterator[tuple[str, bytes]]:
    """Contents of several files by name; those that the input lacks are empty."""
    found = content.split(CUT, len(names) - 1)
    return zip(names, [*found, *[b""] * (len(names) - len(found))], strict=True)


def model(content: bytes, folder: Path) -> object:
    """A model file."""
    return persistence.load_with(written(folder / "m.safetensors", content))


def run_model(content: bytes, folder: Path) -> object:
    """A model file with the preparation that `viewloom predict` needs."""
    return prediction.loaded_model(written(folder / "m.safetensors", content))


def study(content: bytes, folder: Path) -> object:
    """A study.toml beside files that are there."""
    for name, content_of in BESIDE.items():
        if not (folder / name).exists():
            written(folder / name, content_of)
    return read_study(written(folder / "study.toml", content))


def summary(content: bytes, folder: Path) -> object:
    """The summary that a report is made of."""
    written(folder / "summary.json", content)
    return run_folder.rewrite_report(folder)


def table_by(
    format: str, settings: Sequence[Options], name: str = "t.csv"
) -> Callable[[bytes, Path], object]:
    """A reader of one table, with options that may name its columns by number."""

    def run(content: bytes, folder: Path) -> object:
        options, text = chosen(content, settings)
        path = written(folder / name, text)
        header = find_dialect(path).header if name.endswith("csv") else []
        return readers.FORMATS[format](
            path,
            **{key: value if key == "digits" else in_header(value, header) for key, value in options.items()},
        )

    return run


def cells_by(name: str, settings: Sequence[Options]) -> Callable[[bytes, Path], object]:
    """A file with typed cells, such as a workbook; the name chooses its kind."""

    def run(content: bytes, folder: Path) -> object:
        options, rest = chosen(content, settings)
        return readers.FORMATS["table"](written(folder / name, rest), **options)

    return run


def condition(content: bytes, folder: Path) -> object:
    """A condition on rows, of a small table."""
    path = written(folder / "t.csv", b"id,a,b c,d\n1,2,x,2010-01-01\n2,,y,\n3,4,,2011-02-03\n")
    text = content.decode("utf-8", "replace")
    return readers.FORMATS["table"](path, id="id", columns=["a"], rows=text)


def packed(content: bytes, folder: Path) -> object:
    """A compressed table; the first byte chooses how."""
    end, rest = chosen(content, [".csv.gz", ".csv.bz2", ".csv.xz", ".zip"])
    return readers.FORMATS["table"](written(folder / f"t{end}", rest), id="id")


def in_header(value: Any, header: Sequence[str]) -> Any:
    """A column's name, where an option has its number."""
    return header[value % len(header)] if type(value) is int and header else value


def adni(content: bytes, folder: Path) -> object:
    """A table of ADNI, and the dictionary that one reader takes beside it."""
    (format, options), text = chosen(content, ADNI)
    files = {name: written(folder / name, part) for name, part in parts(text, ("t.csv", "dictionary.csv"))}
    if options.get("dictionary"):
        options = {**options, "dictionary": files["dictionary.csv"]}
    return readers.FORMATS[format](files["t.csv"], **options)


def stats_tables(content: bytes, folder: Path) -> object:
    """Two tables of asegstats2table."""
    options, text = chosen(content, [{}, {"global_measures": True}, {"columns": ["Left*", "lh*"]}])
    paths = [written(folder / name, part) for name, part in parts(text, ("aseg.tsv", "lh.tsv"))]
    return readers.FORMATS["freesurfer-table"](paths if CUT in text else paths[0], **options)


def stats_folder(content: bytes, folder: Path) -> object:
    """Stats files of two subjects."""
    options, text = chosen(content, STATS)
    names = (
        "s1/stats/aseg.stats",
        "s1/stats/lh.aparc.stats",
        "s2/stats/aseg.stats",
        "s2/stats/rh.aparc.stats",
    )
    for name, part in parts(text, names):
        written(folder / name, part)
    return readers.FORMATS["freesurfer"](folder, **options)


def folder_by(
    format: str, names: Sequence[str], settings: Sequence[Options]
) -> Callable[[bytes, Path], object]:
    """A reader of a folder, with some of its files."""

    def run(content: bytes, folder: Path) -> object:
        options, rest = chosen(content, settings)
        for name, part in parts(rest, names):
            written(folder / name, part)
        beside = {key: folder / value for key, value in options.items() if key.startswith("atlas_")}
        return readers.FORMATS[format](folder, **{**options, **beside})

    return run


def sidecar(content: bytes, folder: Path) -> object:
    """A table of BIDS with its sidecar, and sessions of a subject."""
    options, rest = chosen(content, BIDS)
    names = ("participants.tsv", "participants.json", "sub-1/sub-1_sessions.tsv")
    for name, part in parts(rest, names):
        written(folder / name, part)
    path = folder if options.get("visit") else folder / "participants.tsv"
    return readers.FORMATS["bids"](path, **options)


def with_dictionary(format: str, settings: Sequence[Options]) -> Callable[[bytes, Path], object]:
    """A table, and the dictionary beside it."""

    def run(content: bytes, folder: Path) -> object:
        options, text = chosen(content, settings)
        files = {name: written(folder / name, part) for name, part in parts(text, ("t.csv", "d.csv"))}
        if options.get("dictionary"):
            options = {**options, "dictionary": files["d.csv"]}
        return readers.FORMATS[format](files["t.csv"], **options)

    return run


def genotypes(content: bytes, folder: Path) -> object:
    """The three files of PLINK."""
    options, rest = chosen(content, GENOTYPES)
    for name, part in parts(rest, ("g.fam", "g.bim", "g.bed")):
        written(folder / name, part)
    return readers.FORMATS["plink"](folder / "g.bed", **options)


def plink2(content: bytes, folder: Path) -> object:
    """The three files of PLINK 2."""
    options, rest = chosen(content, GENOTYPES)
    for name, part in parts(rest, ("g.psam", "g.pvar", "g.pgen")):
        written(folder / name, part)
    return readers.FORMATS["pgen"](folder / "g.pgen", **options)


def scored(content: bytes, folder: Path) -> object:
    """Weights of a score, with genotypes."""
    for name, part in zip(
        ("g.fam", "g.bim", "g.bed"), (b"0 a 0 0 0 0\n", b"1 rs1 0 9 A G\n", ONE_CALL), strict=True
    ):
        written(folder / name, part)
    weights = written(folder / "weights.txt", content)
    return readers.FORMATS["plink"](folder / "g.bed", scores=[weights], max_absent=1.0)


def folder_of_files(content: bytes, folder: Path) -> object:
    """A file of unknown kind, for which `viewloom init` writes a study that can be read."""
    name, text = chosen(content, NAMES)
    inner = written(folder / name.replace(".", "_") / name, text).parent
    (inner / "study.toml").unlink(missing_ok=True)
    toml = draft(inner).text
    try:
        return read_study(written(inner / "study.toml", toml.encode()))
    except StudyError as error:
        raise AssertionError("a study that was drafted is refused") from error


BESIDE = {  # files that a study may name
    "participants.csv": b"participant_id,age\ns1,70\n",
    "vbm.csv": b"participant_id,Left\ns1,0.5\n",
    "genotypes/snps.bed": b"\x6c\x1b\x01",
    "subjects/s1/stats/aseg.stats": b"",
}
ENCODINGS = [
    "utf-16", "utf-32", "utf-7", "idna", "punycode", "undefined", "base64", "rot13", "unicode_escape", "hex",
    "latin-1", "cp1252", "utf-8-sig", "no such", "utf-16-le", "utf\0", "",
]  # fmt: skip
MARKS = ["semicolon", "tab", "space", "|", '"', "\n", "\0", "\\", "é", "ab", "", ".", "+", "1"]
DIALECTS: list[Options] = [
    *({"encoding": name} for name in ENCODINGS),
    *({"delimiter": mark} for mark in MARKS),
    {"decimal": ","},
    {"decimal": ",", "delimiter": ","},
]
TABLE: list[Options] = [
    {"id": 0, **options}
    for options in [
        *[{}] * 20,
        *[{"numeric": False}] * 20,
        {"visit": "bl"},
        {"visit": "bl", "visit_column": 1},
        {"visit_column": 1},
        {"missing_codes": [-9, "x", 2.5]},
        {"missing_codes": {"*": [-4], "a": ["NA", 1e400]}, "numeric": False},
        {"columns": ["a*", "[b"]},
        {"exclude": ["b*"], "numeric": False},
        {"id": "participant_id"},
        *DIALECTS,
    ]
]
MATRIX: list[Options] = [
    *[{}] * 4,
    {"name": 0, "repeats": "mean"},
    {"name": -1, "missing_codes": ["-9", "x"]},
    {"subjects": ["*"], "exclude": ["*a"]},
    {"decimal": ","},
]
LONG: list[Options] = [
    {"id": 0, "name": 2, "value": -1, **options}
    for options in [
        *[{}] * 20,
        *[{"repeats": "mean"}] * 10,
        {"visit": "bl"},
        {"visit": "bl", "visit_column": 1},
        {"name": ["region", "side"]},
        {"value": 0},
        {"name": 0},
        {"missing_codes": [-9], "columns": ["L*"]},
        *DIALECTS,
    ]
]
CODES: list[Options] = [
    {"id": 0, "code": -1, **options}
    for options in ({}, {"digits": 2}, {"columns": ["L*"]}, {"exclude": ["a*"]}, {"code": 0})
]
VISITS: list[Options] = [
    {},
    {"visit": "all"},
    {"id": "PTID"},
    {"missing_codes": [-4]},
    {"columns": ["ST*", "AGE"]},
]
ADNI: list[tuple[str, Options]] = [
    *((format, options) for format in ("ucsffsx", "adnimerge", "tadpole", "fdg") for options in VISITS),
    *((format, {"numeric": False}) for format in ("adnimerge", "tadpole")),
    *(
        ("ucsffsx", options)
        for options in ({"require_qc": False}, {"dictionary": True}, {"measures": ["area"]})
    ),
]
PET: list[Options] = [
    *[{}] * 3,
    {"measures": ["centiloids", "status", "volume"], "visit": "first"},
    {"measures": ["summary", "reference"], "reference_region": "COMPOSITE_REF", "require_qc": False},
    {"tracer": "FBP", "visit": "last"},
]
UKB: list[Options] = [
    *({"instance": 2, "arrays": way} for way in ("error", "drop", "mean", "first", "all")),
    {"instance": 2, "arrays": "drop", "dictionary": True},
    {"numeric": False, "arrays": "all", "instance": 3},
    {"columns": ["p2*"]},
]
OASIS: list[Options] = [{}, {"numeric": False}, {"visit": "last"}, {"visit": {"months": 12, "within": 6}}]
MUSE: list[Options] = [{}, {"rois": "all"}, {"rois": "derived", "dictionary": True}, {"columns": ["4*"]}]
MERGED: list[Options] = [{}, {"visit": "M000"}, {"statistics": {"atlas": "AAL2"}, "visit": "first"}]
BIDS: list[Options] = [{}, {"numeric": False}, {"visit": "first"}, {"visit": "M000", "numeric": False}]
CAPS_FILES = tuple(
    f"subjects/sub-{n}/ses-M000/pet/sub-{n}_ses-M000_trc-FDG_pet_space-AAL2_suvr-pons_statistics.tsv"
    for n in (1, 2)
)
CAPS: list[Options] = [{}, {"visit": "M000"}, {"statistics": {"atlas": "AAL2"}, "columns": ["a*"]}]
CAT12_FILES = ("label/catROI_a.xml", "label/catROI_b.mat", "report/cat_a.xml")
CAT12: list[Options] = [
    {},
    {"atlas": "hammers", "measures": ["Vgm"]},
    {"atlas": "hammers", "global_measures": True},
]
NIFTI: list[Options] = [
    {"atlas_image": "atlas.nii", "atlas_labels": "atlas.tsv", "cache": False, "files": "sub*", **options}
    for options in ({}, {"statistic": "median"}, {"statistic": "sum", "resample": True})
]
STATS: list[Options] = [{}, {"global_measures": True}, {"measures": ["thickness"]}, {"longitudinal": True}]
ONE_CALL = b"\x6c\x1b\x01\x02"  # a .bed of one subject and one variant
GENOTYPES: list[Options] = [{}, {"min_maf": 0.1, "min_call_rate": 0.5}, {"variants": ["rs*"]}]
IMPUTED: list[Options] = [*GENOTYPES, {"min_info": 0.3}, {"ld_prune": {"window": 5, "step": 1, "r2": 0.5}}]
MAY_LACK = (StudyError, ImportError)
PARQUET: list[Options] = [{"id": "participant_id"}, {"id": "participant_id", "numeric": False}]
CELLS: list[Options] = [{"id": "id"}, {"id": "id", "numeric": False}, {"id": "id", "rows": "a > 1"}]
NAMES = [
    "t.csv", "t.tsv", "t.txt", "t.parquet", "t.raw", "t.bed", "a.aseg.stats", "t.xlsx", "t", "t.h5ad",
    "participants.csv",
]  # fmt: skip

TARGETS: Mapping[str, Target] = {
    "load": Target(model, (DamagedFile,), "model"),
    "study": Target(study, mutation="toml"),
    "table": Target(table_by("table", TABLE), mutation="table"),
    "long": Target(table_by("long", LONG), mutation="table"),
    "matrix": Target(table_by("matrix", MATRIX), mutation="table"),
    "codes": Target(table_by("codes", CODES), mutation="table"),
    "predict": Target(run_model, (DamagedFile, StudyError), "model"),
    "adni": Target(adni, mutation="table"),
    "freesurfer-table": Target(stats_tables, mutation="table"),
    "plink-raw": Target(table_by("plink-raw", GENOTYPES, "t.raw"), mutation="table"),
    "plink": Target(genotypes),
    "pgen": Target(plink2, MAY_LACK),
    "bgen": Target(table_by("bgen", IMPUTED, "t.bgen"), MAY_LACK),
    "vcf": Target(table_by("vcf", [*IMPUTED, {"field": "GT"}], "t.vcf"), MAY_LACK, "table"),
    "scores": Target(scored, mutation="table"),
    "freesurfer": Target(stats_folder),
    "adni-pet": Target(table_by("adni-pet", PET), mutation="table"),
    "ukb": Target(with_dictionary("ukb", UKB), mutation="table"),
    "oasis3": Target(table_by("oasis3", OASIS), mutation="table"),
    "muse": Target(with_dictionary("muse", MUSE), mutation="table"),
    "clinica-merge": Target(table_by("clinica-merge", MERGED), mutation="table"),
    "bids": Target(sidecar, mutation="table"),
    "caps": Target(folder_by("caps", CAPS_FILES, CAPS), mutation="table"),
    "cat12": Target(folder_by("cat12", CAT12_FILES, CAT12)),
    "cat12-report": Target(folder_by("cat12-report", CAT12_FILES[2:], [{}, {"columns": ["TIV"]}])),
    "nifti": Target(folder_by("nifti", ("sub-1.nii", "atlas.nii", "atlas.tsv"), NIFTI), MAY_LACK),
    "look": Target(folder_of_files, mutation="table"),
    "parquet": Target(table_by("table", PARQUET, "t.parquet")),
    "feather": Target(table_by("table", PARQUET, "t.feather")),
    "xlsx": Target(cells_by("t.xlsx", CELLS)),
    "xls": Target(cells_by("t.xls", CELLS)),
    "ods": Target(cells_by("t.ods", CELLS)),
    "sav": Target(cells_by("t.sav", CELLS)),
    "zsav": Target(cells_by("t.zsav", CELLS)),
    "por": Target(cells_by("t.por", [{"id": "ID"}, {"id": "ID", "numeric": False}])),
    "dta": Target(cells_by("t.dta", CELLS)),
    "sas7bdat": Target(cells_by("t.sas7bdat", CELLS)),
    "xpt": Target(cells_by("t.xpt", CELLS)),
    "rds": Target(cells_by("t.rds", CELLS)),
    "rdata": Target(cells_by("t.RData", [*CELLS, {"id": "id", "object": "one"}])),
    "packed": Target(packed),
    "rows": Target(condition),
    "report": Target(summary),
    "h5ad": Target(table_by("h5ad", [{}, {"layer": "log"}], "t.h5ad"), (StudyError, ImportError), "hdf5"),
    "h5mu": Target(table_by("h5mu", [{"modality": "rna"}], "t.h5mu"), (StudyError, ImportError), "hdf5"),
}
