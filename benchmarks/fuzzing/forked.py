"""Processes that read files, forked from the one that fuzzes instead of started: a hundred times as fast."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path

RESERVED = 1 << 30  # bytes that the process that fuzzes may have itself
LIBRARIES = ("pyreadstat", "python_calamine")  # imported once, before processes are forked


class Process:
    """What `viewloom.study.readers.separate.started` gives, by a fork."""

    def __init__(self, kind: str, path: Path, arguments: tuple[str, ...]) -> None:
        asked, ask = os.pipe()
        answer, answers = os.pipe()
        self.code: int | None = None
        self.pid = os.fork()
        if not self.pid:
            os.close(ask)
            os.close(answer)
            _read(kind, path, arguments, asked, answers)
        os.close(asked)
        os.close(answers)
        self.stdin, self.stdout = os.fdopen(ask, "wb", 0), os.fdopen(answer, "rb")

    def wait(self) -> int:
        """The exit code, negative for a signal."""
        if self.code is None:
            self.code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self.code

    def end(self) -> None:
        """Close the pipes and end the process."""
        self.stdin.close()
        self.stdout.close()
        if self.code is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
            self.wait()


def _read(kind: str, path: Path, arguments: tuple[str, ...], asked: int, answers: int) -> None:
    """The part of the forked process, which does not return."""
    readerprocess = import_module("viewloom.study.readers.readerprocess")
    readerprocess.BASE += RESERVED
    try:
        os.dup2(asked, 0)
        os.dup2(answers, 1)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        sys.stdin = os.fdopen(0)
        readerprocess.main(kind, os.fspath(path), *arguments)
    finally:
        os._exit(0)


@contextmanager
def forked(kind: str, path: Path, *arguments: str) -> Iterator[Process]:
    """The process that reads a file; it is ended with this block."""
    process = Process(kind, path, arguments)
    try:
        yield process
    finally:
        process.end()


def fork_readers() -> None:
    """Let the readers of this process fork."""
    for name in LIBRARIES:
        with suppress(ImportError):
            import_module(name)
    for name in ("sheets", "statfiles"):
        import_module(f"viewloom.study.readers.{name}").started = forked
