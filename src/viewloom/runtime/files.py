"""Atomic writing of files, and checks before reading and writing."""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from viewloom.runtime.errors import InputError, OutputError

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
LEAST_ROOM = 2**20  # bytes that must be free before a run starts
PAGE_FOLDER = ".viewloom-app"  # what the local page keeps of its jobs; readable by its owner only
PRIVATE = 0o600  # permissions of files about single subjects, set when the file is created
SPECIAL = {
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def special(path: str | os.PathLike[str]) -> str | None:
    """The kind of a path that is neither file nor folder; reading such a path might never end.

    None for files, folders, links to them, and paths that do not exist.

    >>> special(os.devnull), special("."), special("not there")
    ('a device', None, None)
    """
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        return None
    return SPECIAL.get(stat.S_IFMT(mode))


@contextmanager
def atomic_write(path: str | os.PathLike[str], mode: int = 0o666) -> Iterator[Path]:
    """Write a file completely or not at all: yield a hidden file, which replaces `path` at the end.

    If writing fails, the hidden file is removed and `path` is unchanged. Only files and links are replaced.

    Parameters
    ----------
    path : path
    mode : int
        Permissions of the new file, reduced by the umask; those of a replaced file are not kept.

    Yields
    ------
    Path
        The hidden file, in the same folder and with the same suffix.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with atomic_write(Path(folder, "a.txt")) as part:
    ...         _ = part.write_text("all of it")
    ...     Path(folder, "a.txt").read_text()
    'all of it'
    """
    target = Path(path)
    if os.path.exists(target) and not target.is_file():
        raise InputError(
            f"{target.name}: is {special(target) or 'a folder'}, which is not replaced by a file."
        )
    part = target.with_name(f".{target.stem}.{os.getpid()}.part{target.suffix}")
    try:
        with writing(target):
            part.unlink(missing_ok=True)
            os.close(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode))
            yield part
            sync(part)
            os.replace(part, target)
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)


@contextmanager
def writing(path: str | os.PathLike[str]) -> Iterator[None]:
    """Turn an OSError into an `OutputError` that says which path cannot be written, why, and what to do."""
    try:
        yield
    except OutputError:
        raise
    except OSError as error:
        raise unwritable(path, error) from error


@contextmanager
def all_or_none(paths: Iterable[Path]) -> Iterator[None]:
    """Remove new files, and their new folders, if an error occurs before all are written."""
    files = list(paths)
    missing = {folder for path in files for folder in path.parents if not folder.exists()}
    try:
        yield
    except BaseException:
        for path in files:
            with suppress(OSError):
                path.unlink(missing_ok=True)
        for folder in sorted(missing, key=lambda folder: -len(folder.parts)):
            with suppress(OSError):
                folder.rmdir()
        raise


def unwritable(path: str | os.PathLike[str], error: OSError) -> OutputError:
    """The error for a file or folder that cannot be written."""
    cause = error.strerror or type(error).__name__
    way_out = "make room there, or choose another place" if error.errno in FULL else "choose another place"
    return OutputError(error.errno or 0, f"{os.fspath(path)}: cannot be written ({cause}); {way_out}.")


def check_room(path: str | os.PathLike[str]) -> None:
    """Raise an error if the disk is full, before work starts whose results could not be written."""
    there = next(
        folder for folder in [Path(path).absolute(), *Path(path).absolute().parents] if folder.is_dir()
    )
    if shutil.disk_usage(there).free < LEAST_ROOM:
        raise unwritable(path, OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))


def sync(path: str | os.PathLike[str]) -> None:
    """Wait until a file or folder is on disk."""
    try:
        handle = os.open(path, os.O_RDONLY)
    except PermissionError:  # folders cannot be opened on Windows
        return
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
