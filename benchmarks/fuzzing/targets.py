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
            path, **{key: in_header(value, header) for key, value in options.items()}
        )

    return run


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


def genotypes(content: bytes, folder: Path) -> object:
    """The three files of PLINK."""
    options, rest = chosen(content, GENOTYPES)
    for name, part in parts(rest, ("g.fam", "g.bim", "g.bed")):
        written(folder / name, part)
    return readers.FORMATS["plink"](folder / "g.bed", **options)


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
STATS: list[Options] = [{}, {"global_measures": True}, {"measures": ["thickness"]}, {"longitudinal": True}]
GENOTYPES: list[Options] = [{}, {"min_maf": 0.1, "min_call_rate": 0.5}, {"variants": ["rs*"]}]
PARQUET: list[Options] = [{"id": "participant_id"}, {"id": "participant_id", "numeric": False}]
NAMES = [
    "t.csv", "t.tsv", "t.txt", "t.parquet", "t.raw", "t.bed", "a.aseg.stats", "t.xlsx", "t", "t.h5ad",
    "participants.csv",
]  # fmt: skip

TARGETS: Mapping[str, Target] = {
    "load": Target(model, (DamagedFile,), "model"),
    "study": Target(study, mutation="toml"),
    "table": Target(table_by("table", TABLE), mutation="table"),
    "long": Target(table_by("long", LONG), mutation="table"),
    "predict": Target(run_model, (DamagedFile, StudyError), "model"),
    "adni": Target(adni, mutation="table"),
    "freesurfer-table": Target(stats_tables, mutation="table"),
    "plink-raw": Target(table_by("plink-raw", GENOTYPES, "t.raw"), mutation="table"),
    "plink": Target(genotypes),
    "freesurfer": Target(stats_folder),
    "look": Target(folder_of_files, mutation="table"),
    "parquet": Target(table_by("table", PARQUET, "t.parquet")),
    "report": Target(summary),
    "h5ad": Target(table_by("h5ad", [{}, {"layer": "log"}], "t.h5ad"), (StudyError, ImportError), "hdf5"),
    "h5mu": Target(table_by("h5mu", [{"modality": "rna"}], "t.h5mu"), (StudyError, ImportError), "hdf5"),
}
