"""Hashes of the input files, which identify the data of a run."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path

from viewloom.study import readers
from viewloom.study.config.schema import Participants, Study, View
from viewloom.study.errors import StudyError


def input_hashes(study: Study) -> dict[str, str]:
    """SHA-256 of every file and folder that the study reads, by path relative to the study file.

    A folder has one hash, over the files that are read and their names. The names are not listed, as they
    may be ids.
    """
    sources: list[Participants | View] = [*study.views.values(), *filter(None, [study.participants])]
    folder, hashes = study.path.parent, {}
    for source in sources:
        format = readers.FORMATS[source.format]
        for part in {part for path in source.inputs for part in _companions(path, format)}:
            hashes[_relative(part, folder)] = _sha256(part, format.contents)
    return dict(sorted(hashes.items()))


def check_unchanged(before: Mapping[str, str], now: Mapping[str, str]) -> None:
    """Raise an error if an input file has changed."""
    changed = [name for name in before if now.get(name) != before[name]]
    if changed:
        raise StudyError(f"{changed[0]}: changed while the study was running; run it again.")


def _companions(path: Path, format: readers.Format) -> list[Path]:
    """A file and its companions."""
    others = [path.with_suffix(suffix) for suffix in format.companions]
    return [path, *(other for other in others if other.is_file())]


def _relative(path: Path, folder: Path) -> str:
    return Path(os.path.relpath(path, folder)).as_posix()


def _sha256(path: Path, contents: str = "*") -> str:
    if path.is_file():
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    lines = [
        f"{_relative(part, path)} {_sha256(part)}\n"
        for part in sorted(path.rglob(contents))
        if part.is_file()
    ]
    return hashlib.sha256("".join(lines).encode()).hexdigest()
