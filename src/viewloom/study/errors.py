"""Errors in the files or settings of a study."""

from __future__ import annotations

from pathlib import Path

from viewloom.runtime.errors import InputError
from viewloom.runtime.files import special
from viewloom.runtime.visible import visible


class StudyError(InputError):
    """An error in the files or settings of a study: one line with the problem and the solution."""


def check_readable(path: Path) -> None:
    """Raise an error for what is not a file, or not there."""
    check_kind(path)
    if not path.is_file():
        raise StudyError(f"{path.name}: {'is a folder, not a file' if path.is_dir() else 'no such file'}.")


def check_kind(path: Path) -> None:
    """Refuse pipes, sockets and devices before they are opened."""
    if kind := special(path):
        raise StudyError(f"{visible(path.name)}: is {kind}; only files and folders are read.")
