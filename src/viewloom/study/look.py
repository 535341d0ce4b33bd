"""What lies in a folder: files that a reader knows, and what their columns may be."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd

from viewloom.study import readers
from viewloom.study.readers.tables import is_parquet
from viewloom.study.readers.text import NAMED, find_dialect

# names of columns in lower case, without spaces and _, the likeliest first
IDS = "participantid subjectid rid ptid subject participant id sub iid patientid srcsubjectid eid names"
DIAGNOSIS = "dx dxbl diagnosis dxgroup diag group researchgroup diagnosticgroup dxchange"
COVARIATES = "age sex gender ptgender pteducat education educ icv etiv"
SITE = "site siteid scanner center centre"
OUTCOMES = "mmse cdr cdrsb adas11 adas13 moca faq apoe apoe4"
CLINICAL = f"{DIAGNOSIS} {COVARIATES} {SITE} {OUTCOMES}"
TABLES = ("table", "adnimerge", "tadpole")  # what participants can be read from
OURS = "run.json"  # a folder with this file holds results
NOT_DATA = {".toml", ".json", ".md", ".html", ".png", ".pdf", ".bim", ".fam", ".safetensors"}
MOST_FILES = 20  # of a folder; more are files of single subjects


@dataclass(frozen=True)
class Found:
    """A file or folder that a reader knows."""

    path: Path
    format: str
    header: list[str] = field(default_factory=list)

    def named(self, names: str) -> list[str]:
        """Columns that go by one of these names, the likeliest first; case, spaces and _ do not count."""
        known = names.split()
        plain = {column: re.sub(r"[\W_]", "", column.casefold()) for column in self.header}
        return sorted(
            (column for column in plain if plain[column] in known), key=lambda c: known.index(plain[c])
        )


def look(folder: Path) -> list[Found]:
    """Files of the folder and of its subfolders that a reader knows."""
    below = [path for path in sorted(folder.iterdir()) if path.is_dir() and not _is_ours(path)]
    if _is_stats(folder):
        below = []  # one folder per subject
    paths = [part for place in [folder, *below] for part in ([place] if _is_stats(place) else _files(place))]
    formats = [(path, readers.sniff(path)) for path in paths]
    return [Found(path, format, _header(path, format)) for path, format in formats if format is not None]


def likely_participants(found: Sequence[Found]) -> list[Found]:
    """Tables that look like participants, the likeliest first."""
    tables = [file for file in found if file.format in TABLES and file.named(IDS)]
    likely = [file for file in tables if file.named(DIAGNOSIS) or len(file.named(CLINICAL)) > 1]
    return sorted(likely, key=lambda file: (not file.named(DIAGNOSIS), -len(file.named(CLINICAL))))


def _is_stats(folder: Path) -> bool:
    return readers.sniff(folder) == "freesurfer"


def _is_ours(folder: Path) -> bool:
    return folder.name.startswith(".") or (folder / OURS).exists()


def _files(folder: Path) -> list[Path]:
    """Files that may hold data; folders with one file per subject are none of ours."""
    files = [path for path in sorted(folder.iterdir()) if path.is_file() and not path.name.startswith(".")]
    data = [path for path in files if path.suffix.lower() not in NOT_DATA]
    return data if len(data) <= MOST_FILES else []


def _header(path: Path, format: str) -> list[str]:
    """Names of the columns of a table."""
    if format not in (*TABLES, "long"):
        return []
    if is_parquet(path):
        return _parquet_header(path)
    return find_dialect(path, candidates=NAMED.values()).header


def _parquet_header(path: Path) -> list[str]:
    try:
        frame = pd.read_parquet(path)
    except Exception:  # damaged, in too many ways to list
        return []
    return [str(name) for name in [*filter(None, frame.index.names), *frame.columns]]
