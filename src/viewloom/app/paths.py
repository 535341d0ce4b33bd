"""The folder that was given at the start: paths below it, and the studies and results in it."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath, PureWindowsPath

from viewloom.runtime.errors import InputError

CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
DEEPEST, MOST = 4, 20_000  # folders that are looked into, and files that are looked at
LISTED = 300  # files that are listed
STUDY = re.compile(r"^\s*\[(views\.|study\]|participants\])", re.MULTILINE)
LARGEST_STUDY = 1 << 17
RUN, REPLICATION = "run.json", "replication.json"


@dataclass
class Found:
    """What a folder holds, by paths relative to the root."""

    files: list[tuple[str, int]] = field(default_factory=list)
    studies: list[str] = field(default_factory=list)
    runs: list[str] = field(default_factory=list)
    replications: list[str] = field(default_factory=list)
    more: int = 0


@dataclass(frozen=True)
class Root:
    """The folder below which files are read and written."""

    folder: Path

    def path(self, given: str) -> Path:
        """A path below the root; `InputError` for any other.

        >>> Root(Path("/tmp")).path("../etc/passwd")
        Traceback (most recent call last):
        viewloom.runtime.errors.InputError: The path leads out of the folder ...
        """
        out = "The path leads out of the folder that viewloom app was started with."
        if CONTROL.search(given):
            raise InputError("A path must not hold line breaks or other control characters.")
        parts = PurePosixPath(given.replace("\\", "/") if os.name == "nt" else given)
        if parts.is_absolute() or PureWindowsPath(given).drive or ".." in parts.parts:
            raise InputError(out)
        if any(part.startswith(".") for part in parts.parts):
            raise InputError("Hidden files and folders are not used here.")
        path = self.folder / parts
        real = Path(os.path.realpath(path))
        if real != self.folder and self.folder not in real.parents:
            raise InputError(
                out if not path.is_symlink() else "The path is a link that leads out of the folder."
            )
        return path

    def relative(self, path: Path) -> str:
        """A path as seen from the root."""
        return path.relative_to(self.folder).as_posix()

    def found(self, below: str = "") -> Found:
        """Files, studies and results in a folder."""
        found, seen = Found(), 0
        for place, folders, names in os.walk(self.path(below)):
            here = Path(place)
            depth = len(here.relative_to(self.folder).parts)
            folders[:] = sorted(name for name in folders if not name.startswith("."))[
                : LISTED if depth < DEEPEST else 0
            ]
            if _is_result(here, names, found, self):
                folders.clear()
                continue
            for name in sorted(name for name in names if not name.startswith(".")):
                seen += 1
                self._add(here / name, found)
            if seen > MOST:
                break
        return found

    def _add(self, path: Path, found: Found) -> None:
        try:
            size = path.stat().st_size
        except OSError:
            return
        if path.suffix == ".toml" and is_study(path):
            found.studies.append(self.relative(path))
        elif len(found.files) < LISTED:
            found.files.append((self.relative(path), size))
        else:
            found.more += 1


def _is_result(here: Path, names: list[str], found: Found, root: Root) -> bool:
    """Record a folder of results; whether it is one."""
    for index, kept in ((RUN, found.runs), (REPLICATION, found.replications)):
        if index in names:
            kept.append(root.relative(here))
            return True
    return False


def is_study(path: Path) -> bool:
    """Whether a TOML file has the blocks of a study."""
    try:
        with path.open("rb") as file:
            return STUDY.search(file.read(LARGEST_STUDY).decode("utf-8", "replace")) is not None
    except OSError:
        return False
