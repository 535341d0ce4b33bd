"""Where results are made: written whole or not at all, and never in the way of the ones before.

Everything is made in a hidden folder beside it, which also keeps what an interrupted run had found, and takes
its place with a rename at the end. The hidden folder is locked while a run works in it; the lock is held by
the process, so none is left behind.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from viewloom.study.errors import StudyError

RUN = "run.json"  # what makes a folder a run
LITTER = {".DS_Store", "Thumbs.db", "desktop.ini"}  # files that systems put anywhere


@dataclass(frozen=True)
class Workplace:
    """The hidden folder beside a run folder, or beside the table of a search."""

    target: Path

    @property
    def hidden(self) -> Path:
        """The folder itself."""
        return self.target.with_name(f".{self.target.name}.unfinished")

    @property
    def checkpoints(self) -> Path:
        """What an interrupted run had found."""
        return self.hidden / "checkpoints"

    @property
    def new(self) -> Path:
        """The run folder to be."""
        return self.hidden / "new"

    @property
    def old(self) -> Path:
        """The run folder that was, while another takes its place."""
        return self.hidden / "old"


@contextmanager
def workplace(
    target: str | os.PathLike[str], *, resume: bool = False, check: Callable[[Path], None] | None = None
) -> Iterator[Workplace]:
    """A locked workplace for a run; what it leaves behind if it fails is what it takes to resume.

    `check` refuses targets that are not to be replaced: anything but a run folder, unless given.
    """
    place = Workplace(Path(target).absolute())
    missing = [path for path in place.target.parents if not path.exists()]
    _make(place)
    with _locked(place):
        try:
            recover(place)
            (check or _check_replaceable)(place.target)
            if not resume:
                shutil.rmtree(place.checkpoints, ignore_errors=True)
            yield place
            shutil.rmtree(place.hidden)
        except BaseException as error:
            _tidy(place, missing, resumable=not isinstance(error, StudyError))
            raise


def _make(place: Workplace) -> None:
    try:
        place.target.parent.mkdir(parents=True, exist_ok=True)
        place.hidden.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise StudyError(f"{place.target}: cannot be written ({error.strerror}).") from None


@contextmanager
def _locked(place: Workplace) -> Iterator[None]:
    """Hold the hidden folder for this process; systems without such locks go without."""
    try:
        import fcntl
    except ImportError:
        yield
        return
    handle = os.open(place.hidden, os.O_RDONLY)
    try:
        _lock(fcntl, handle, place.target)
        yield
    finally:
        os.close(handle)


def _lock(fcntl: Any, handle: int, target: Path) -> None:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise StudyError(
            f"{target}: another run is writing it; wait for it or give another --output."
        ) from None


def recover(place: Workplace) -> None:
    """Put back the old run of a process that was killed between two renames, and clear its remains."""
    if place.old.exists() and not place.target.exists():
        place.old.rename(place.target)
    for remains in (place.old, place.new):
        shutil.rmtree(remains, ignore_errors=True)


def _check_replaceable(folder: Path) -> None:
    """Refuse to replace anything but a run."""
    if folder.exists() and not folder.is_dir():
        raise StudyError(f"{folder}: is a file; give another --output.")
    foreign = _entries(folder) - _own_files(folder)
    if foreign:
        raise StudyError(
            f"{folder}: holds {len(foreign)} files that are not of a run; give another --output or move them."
        )


def _entries(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()} - LITTER if folder.exists() else set()


def _own_files(folder: Path) -> set[str]:
    """What an earlier run wrote, as its run.json tells."""
    try:
        return {RUN, *json.loads((folder / RUN).read_text(encoding="utf-8"))["files"]}
    except (OSError, ValueError, KeyError, TypeError):
        return set()


def _tidy(place: Workplace, made: list[Path], resumable: bool) -> None:
    """Take away what a run that failed has made, but for what it takes to resume it."""
    shutil.rmtree(place.new, ignore_errors=True)
    if not (resumable and any(path.is_file() for path in place.checkpoints.rglob("*"))):
        shutil.rmtree(place.checkpoints, ignore_errors=True)
    for path in (place.hidden, *made):
        with suppress(OSError):
            path.rmdir()
