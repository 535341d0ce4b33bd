"""Bytes of compressed files: gzip, bzip2, xz, and a zip file with one table."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import IO, Any

from viewloom.data.naming import listed
from viewloom.runtime.visible import visible
from viewloom.study.errors import StudyError

OPENERS: dict[str, Callable[[Path], Any]] = {".gz": gzip.GzipFile, ".bz2": bz2.BZ2File, ".xz": lzma.LZMAFile}
ZIP = ".zip"
PACKED = (*OPENERS, ZIP)
TEXTS = (".csv", ".tsv", ".txt", ".tab", ".dat", ".raw")  # names of delimited texts
LEAST, MOST_TIMES = 1 << 26, 500  # bytes from which the ratio of sizes is checked, and its limit
DAMAGED = (EOFError, OSError, zlib.error, lzma.LZMAError, zipfile.BadZipFile)
UNPACK = "unpack it, and name the unpacked file"


def is_packed(path: Path) -> bool:
    """Whether the name is that of a compressed file."""
    return path.suffix.lower() in PACKED


def unpacked_name(path: Path) -> str:
    """The name of the table in a compressed file.

    >>> unpacked_name(Path("volumes.tsv.gz")), unpacked_name(Path("volumes.csv"))
    ('volumes.tsv', 'volumes.csv')
    """
    return path.stem if is_packed(path) else path.name


def open_bytes(path: Path) -> IO[bytes]:
    """Open a file for reading; compressed files give the bytes of their table.

    Raises
    ------
    StudyError
        If a zip file has no table or several, or a file expands beyond all proportion.
    """
    suffix = path.suffix.lower()
    if suffix not in PACKED:
        return path.open("rb")
    size = path.stat().st_size
    inner = _member(path) if suffix == ZIP else OPENERS[suffix](path)
    return io.BufferedReader(Bounded(inner, path, size), 1 << 20)


class Bounded(io.RawIOBase):
    """A stream that ends with an error where a small file expands to a very large one, or is damaged."""

    def __init__(self, inner: IO[bytes], path: Path, size: int) -> None:
        super().__init__()
        self.inner, self.path = inner, path
        self.left = max(LEAST, MOST_TIMES * size)

    def readable(self) -> bool:
        """It can be read."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read into a buffer, as `io.RawIOBase` does."""
        try:
            found = self.inner.read(len(buffer))
        except (*DAMAGED, RuntimeError, NotImplementedError):
            raise StudyError(
                f"{visible(self.path.name)}: is damaged or cut off, or not a {self.path.suffix} file; "
                "copy it again."
            ) from None
        self.left -= len(found)
        if self.left < 0:
            raise StudyError(too_large(self.path))
        buffer[: len(found)] = found
        return len(found)

    def close(self) -> None:
        """Close both streams."""
        self.inner.close()
        super().close()


def too_large(path: Path) -> str:
    """The message on a file that expands beyond all proportion."""
    name = visible(path.name)
    return (
        f"{name}: expands to more than {MOST_TIMES} times its size and was not read; {UNPACK} if it is yours."
    )


def _member(path: Path) -> IO[bytes]:
    """The only table in a zip file."""
    try:
        archive = zipfile.ZipFile(path)
        info = _only_table(path, archive)
        if info.flag_bits & 1:
            raise StudyError(f"{visible(path.name)}: is protected by a password; {UNPACK}.")
        if info.file_size > max(LEAST, MOST_TIMES * path.stat().st_size):
            raise StudyError(too_large(path))
        return archive.open(info)
    except (*DAMAGED, NotImplementedError, ValueError, IndexError) as error:  # IndexError: an empty name
        if isinstance(error, StudyError | PermissionError | FileNotFoundError):
            raise
        raise StudyError(f"{visible(path.name)}: is not a valid zip file; copy it again.") from None


def _only_table(path: Path, archive: zipfile.ZipFile) -> zipfile.ZipInfo:
    inside = [info for info in archive.infolist() if not info.is_dir() and not _hidden(info.filename)]
    texts = [info for info in inside if info.filename.lower().endswith(TEXTS)]
    if len(texts) == 1:
        return texts[0]
    names = [visible(PurePosixPath(info.filename).name) for info in texts or inside]
    if not names:
        raise StudyError(f"{visible(path.name)}: the zip file is empty.")
    what = f"{len(texts)} tables" if texts else "no delimited text"
    raise StudyError(
        f"{visible(path.name)}: the zip file has {what} instead of one table: {listed(names)}; unpack it, "
        "and name one of the files."
    )


def _hidden(name: str) -> bool:
    """Whether a member is of the archive program rather than the user."""
    return name.startswith("__MACOSX/") or PurePosixPath(name).name.startswith(".")
