"""Files that are read only if they are files, and that appear whole or not at all."""

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
LEAST_ROOM = 2**20  # bytes; a run takes more, and with less none need begin
PRIVATE = 0o600  # permissions of what tells of single subjects, from its first byte
SPECIAL = {
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def special(path: str | os.PathLike[str]) -> str | None:
    """What stands at a path if it is neither file nor folder: reading it might never come to an end.

    None for files, folders and links to them, and where there is nothing.

    >>> special(os.devnull), special("."), special("not there")
    ('a device', None, None)
    """
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        return None
    return SPECIAL.get(stat.S_IFMT(mode))


@contextmanager
def whole(path: str | os.PathLike[str], mode: int = 0o666) -> Iterator[Path]:
    """A hidden file to write to, which takes the place of `path` once all is on disk.

    If writing fails, it is taken away and `path` is what it was. Only files and links are replaced.

    Parameters
    ----------
    path : path
    mode : int
        Permissions, less what the umask takes away; of the new file, whatever those of an old one were.

    Yields
    ------
    Path
        In the same folder and with the same suffix.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with whole(Path(folder, "a.txt")) as part:
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
    """Let errors say which file or folder cannot be written, why, and what can be done."""
    try:
        yield
    except OutputError:
        raise
    except OSError as error:
        raise unwritable(path, error) from error


@contextmanager
def all_or_none(paths: Iterable[Path]) -> Iterator[None]:
    """Take new files away again, and their folders, if not all of them could be written."""
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
    """The error of a file or folder that cannot be written."""
    cause = error.strerror or type(error).__name__
    way_out = "make room there, or choose another place" if error.errno in FULL else "choose another place"
    return OutputError(error.errno or 0, f"{os.fspath(path)}: cannot be written ({cause}); {way_out}.")


def check_room(path: str | os.PathLike[str]) -> None:
    """Refuse to begin work whose results could not be written, since the disk is full."""
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
