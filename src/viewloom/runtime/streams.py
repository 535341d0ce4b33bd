"""Standard streams that are closed, piped into ``head``, or cannot encode all characters."""

from __future__ import annotations

import codecs
import errno
import io
import os
import sys
from typing import Any

PLAIN = {
    "█": "#",
    "▏": "|",
    "●": "o",
    "·": ".",
    "•": "*",
    "±": "+-",
    "…": "...",
    "─": "-",
    "━": "-",
    "→": "->",
}
READER_GONE = (errno.EPIPE, errno.EINVAL)  # the second on Windows
HANDLER = "viewloom-plain"


class Pipe(io.FileIO):
    """A file or pipe to write to; on an error, further output is dropped and the error is kept."""

    failure: OSError | None = None

    def write(self, data: Any, /) -> int:
        """Write bytes; return their number."""
        try:
            return super().write(data) if self.failure is None else len(data)
        except OSError as error:
            self.failure = error
            return len(data)


def plain(error: UnicodeError) -> tuple[str, int]:
    """Replace characters that an encoding lacks by similar ASCII characters, or question marks.

    >>> codecs.register_error("plain", plain)
    >>> "30 ██ ± é".encode("ascii", "plain")
    b'30 ## +- ?'
    """
    if not isinstance(error, UnicodeEncodeError):
        raise error
    lost = error.object[error.start : error.end]
    return "".join(PLAIN.get(letter, "?") for letter in lost), error.end


def prepare() -> None:
    """Make standard streams accept any text."""
    _open_closed()
    codecs.register_error(HANDLER, plain)
    sys.stdout, sys.stderr = _prepared(sys.stdout, 1), _prepared(sys.stderr, 2)


def _open_closed() -> None:
    """Open closed standard streams, so that files opened later do not take their place."""
    while (handle := os.open(os.devnull, os.O_RDWR)) < 3:
        os.set_inheritable(handle, True)
    os.close(handle)


def _prepared(stream: Any, handle: int) -> Any:
    if stream is None:
        return open(handle, "w", encoding="utf-8", closefd=False)
    if stream.isatty():
        stream.reconfigure(errors=HANDLER)
        return stream
    stream.flush()
    raw = io.BufferedWriter(Pipe(handle, "w", closefd=False))
    return io.TextIOWrapper(raw, stream.encoding, HANDLER, line_buffering=stream.line_buffering)


def close(code: int) -> int:
    """Flush the standard output; return the exit code, which is 1 if it could not be written.

    A closed pipe, as after ``| head``, is not an error.
    """
    sys.stdout.flush()
    failure = getattr(getattr(sys.stdout.buffer, "raw", None), "failure", None)
    if failure is None or failure.errno in READER_GONE:
        return code
    print(f"Error: the standard output cannot be written ({failure.strerror}).", file=sys.stderr)
    return code or 1


def encodes(text: str, stream: Any) -> bool:
    """Whether a stream can encode all characters of a text."""
    try:
        text.encode(getattr(stream, "encoding", None) or "utf-8")
    except UnicodeEncodeError:
        return False
    return True
