"""Hashes of the input files, which identify the data of a run."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path

from viewloom.study.config.schema import Participants, Study, View
from viewloom.study.errors import StudyError

COMPANIONS = {".bed": (".bed", ".bim", ".fam")}  # files that are read together


def input_hashes(study: Study) -> dict[str, str]:
    """SHA-256 of every file and folder that the study reads, by path relative to the study file.

    A folder has one hash of its statistics files and their names, which are not listed since they may be ids.
    """
    sources: list[Participants | View] = [*study.views.values(), *filter(None, [study.participants])]
    paths = {path for source in sources for path in source.inputs}
    parts = sorted({part for path in paths for part in _companions(path)})
    return {_relative(path, study.path.parent): _sha256(path) for path in parts}


def check_unchanged(before: Mapping[str, str], now: Mapping[str, str]) -> None:
    """Raise an error if an input file has changed."""
    changed = [name for name in before if now.get(name) != before[name]]
    if changed:
        raise StudyError(f"{changed[0]}: changed while the study was running; run it again.")


def _companions(path: Path) -> list[Path]:
    """A file and its companions."""
    others = [path.with_suffix(suffix) for suffix in COMPANIONS.get(path.suffix.lower(), ())]
    return [path, *(other for other in others if other.is_file())]


def _relative(path: Path, folder: Path) -> str:
    return Path(os.path.relpath(path, folder)).as_posix()


def _sha256(path: Path) -> str:
    if path.is_file():
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    lines = [
        f"{_relative(part, path)} {_sha256(part)}\n"
        for part in sorted(path.rglob("*.stats"))
        if part.is_file()
    ]
    return hashlib.sha256("".join(lines).encode()).hexdigest()
