"""Staging of results: written completely or not at all, and earlier results are kept until then.

Results are written to a hidden folder beside the target, which also has the checkpoints of interrupted runs,
and replace the target with a rename at the end. The hidden folder is locked during a run; the process holds
the lock, so that no stale lock remains. An existing hidden folder is used only if no other user can have
written to it: a folder, not a link, of the same user, and not writable for others.
"""

from __future__ import annotations

import json
import os
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from viewloom.runtime.files import special, sync
from viewloom.runtime.visible import visible
from viewloom.study.errors import StudyError

RUN = "run.json"  # identifies a run folder
PRIVATE_FOLDER = 0o700
OPEN_TO_OTHERS = stat.S_IWGRP | stat.S_IWOTH
LITTER = {".DS_Store", "Thumbs.db", "desktop.ini"}  # files that operating systems create


@dataclass(frozen=True)
class Workplace:
    """The hidden folder beside a run folder, or beside the table of a search."""

    target: Path

    @property
    def hidden(self) -> Path:
        """The hidden folder."""
        return self.target.with_name(f".{self.target.name}.unfinished")

    @property
    def checkpoints(self) -> Path:
        """Checkpoints of an interrupted run."""
        return self.hidden / "checkpoints"

    @property
    def new(self) -> Path:
        """The new run folder."""
        return self.hidden / "new"

    @property
    def old(self) -> Path:
        """The old run folder while it is replaced."""
        return self.hidden / "old"


@contextmanager
def workplace(
    target: str | os.PathLike[str], *, resume: bool = False, check: Callable[[Path], None] | None = None
) -> Iterator[Workplace]:
    """A locked workplace for a run; if the run fails, its checkpoints are kept.

    `check` refuses targets that must not be replaced; by default anything but a run folder.
    """
    place = Workplace(Path(os.path.abspath(target)))
    _check_place(place.target)
    missing = [path for path in place.target.parents if not path.exists()]
    _make(place)
    with _locked(place):
        _check_contents(place)
        try:
            recover(place)
            (check or check_replaceable)(place.target)
            if not resume:
                shutil.rmtree(place.checkpoints, ignore_errors=True)
            yield place
            shutil.rmtree(place.hidden)
        except BaseException as error:
            _tidy(place, missing, resumable=not isinstance(error, StudyError))
            raise


def unfinished(target: str | os.PathLike[str]) -> bool:
    """Whether an interrupted run has checkpoints from which it can be resumed."""
    return any(path.is_file() for path in Workplace(Path(os.path.abspath(target))).checkpoints.rglob("*"))


def discard(target: str | os.PathLike[str]) -> None:
    """Remove what an interrupted run left behind; earlier results stay."""
    if os.path.lexists(Workplace(Path(os.path.abspath(target))).hidden):
        with workplace(target, check=lambda folder: None):
            pass


def _check_place(target: Path) -> None:
    """Refuse targets that cannot be replaced."""
    if not target.name or os.path.ismount(target):
        raise StudyError(f"{visible(target)}: is a mount point; set --output to a folder in it.")
    if target.is_symlink():
        raise StudyError(f"{visible(target)}: is a link, which is not replaced; set --output to its target.")


def _make(place: Workplace) -> None:
    try:
        place.target.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileExistsError):
            place.hidden.mkdir(mode=PRIVATE_FOLDER)
            place.hidden.chmod(PRIVATE_FOLDER)  # regardless of the umask
    except OSError as error:
        raise StudyError(f"{visible(place.target)}: cannot be written ({error.strerror}).") from None


@contextmanager
def _locked(place: Workplace) -> Iterator[None]:
    """Lock the hidden folder for this process, on systems that support it."""
    try:
        import fcntl
    except ImportError:
        _check_owned(place, place.hidden.lstat())
        yield
        return
    handle = _opened(place)
    try:
        _lock(fcntl, handle, place.target)
        os.fchmod(handle, PRIVATE_FOLDER)
        yield
    finally:
        os.close(handle)


def _opened(place: Workplace) -> int:
    """Open the hidden folder, and check it when it is open, so that it cannot be replaced in between."""
    try:
        handle = os.open(place.hidden, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        raise _refused(place, "is not a usable folder") from None
    try:
        _check_owned(place, os.fstat(handle))
    except StudyError:
        os.close(handle)
        raise
    return handle


def _check_owned(place: Workplace, found: os.stat_result) -> None:
    """Refuse a hidden folder of another user, or one that other users can write to."""
    if not stat.S_ISDIR(found.st_mode):
        raise _refused(place, "is not a usable folder")
    if not _is_own(found):
        raise _refused(place, "belongs to another user")
    if os.name == "posix" and found.st_mode & OPEN_TO_OTHERS:
        raise _refused(place, "is writable for other users")


def _check_contents(place: Workplace) -> None:
    """Refuse links and other files that are not from a run."""
    for part in (place.checkpoints, place.new, place.old):
        if os.path.lexists(part) and not _is_plain(part, stat.S_ISDIR):
            raise _refused(place, "has files that are not from a run")
    for folder, folders, files in os.walk(place.checkpoints):
        sound = all(_is_plain(Path(folder, name), stat.S_ISDIR) for name in folders)
        if not (sound and all(_is_plain(Path(folder, name), stat.S_ISREG) for name in files)):
            raise _refused(place, "has files that are not from a run")


def _is_plain(path: Path, kind: Callable[[int], bool]) -> bool:
    """Whether a path is a file or folder of the same user, and not a link."""
    found = path.lstat()
    return kind(found.st_mode) and _is_own(found)


def _is_own(found: os.stat_result) -> bool:
    return os.name != "posix" or found.st_uid == os.geteuid()


def _refused(place: Workplace, why: str) -> StudyError:
    return StudyError(f"{visible(place.hidden)}: {why}; remove it, or set another --output.")


def _lock(fcntl: Any, handle: int, target: Path) -> None:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise StudyError(
            f"{visible(target)}: another run is writing to it; wait, or set another --output."
        ) from None


def recover(place: Workplace) -> None:
    """Restore the old run if a process was killed between two renames, and remove temporary folders."""
    if place.old.exists() and not os.path.lexists(place.target):
        place.old.rename(place.target)
    for remains in (place.old, place.new):
        shutil.rmtree(remains, ignore_errors=True)


def check_replaceable(folder: Path, index: str = RUN) -> None:
    """Refuse to replace anything but a folder whose file `index` lists its files; by default a run folder."""
    if folder.exists() and not folder.is_dir():
        raise StudyError(f"{visible(folder)}: is a file; set another --output.")
    foreign = _entries(folder) - _own_files(folder, index)
    if foreign:
        raise StudyError(
            f"{visible(folder)}: has {len(foreign)} files that are not from a run; set another --output, or "
            "move them."
        )


def _entries(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()} - LITTER if folder.exists() else set()


def _own_files(folder: Path, index: str) -> set[str]:
    """The files of an earlier run, from its index."""
    if special(folder / index):
        return set()
    try:
        return {index, *json.loads((folder / index).read_text(encoding="utf-8"))["files"]}
    except (OSError, ValueError, KeyError, TypeError):
        return set()


def publish(place: Workplace) -> list[Path]:
    """Replace the target by the new folder, which must be complete and on disk; return its files."""
    if place.target.exists():
        place.target.rename(place.old)
    try:
        place.new.rename(place.target)
    except OSError:
        recover(place)
        raise
    sync(place.target.parent)
    return sorted(place.target.iterdir())


def _tidy(place: Workplace, made: list[Path], resumable: bool) -> None:
    """Remove the files of a failed run, except its checkpoints."""
    shutil.rmtree(place.new, ignore_errors=True)
    if not (resumable and any(path.is_file() for path in place.checkpoints.rglob("*"))):
        shutil.rmtree(place.checkpoints, ignore_errors=True)
    for path in (place.hidden, *made):
        with suppress(OSError):
            path.rmdir()
