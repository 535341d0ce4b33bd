"""Files that are read in a process of their own; see `readerprocess`."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from viewloom.study.readers import readerprocess

BUFFER = 1 << 20


@contextmanager
def started(kind: str, path: Path, *arguments: str) -> Iterator[Any]:
    """The process that reads a file, with one thread; it is ended with this block."""
    command = [sys.executable, "-P", readerprocess.__file__, kind, os.fspath(path), *arguments]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, bufsize=BUFFER, env=environment, **pipes) as process:
        try:
            yield process
        finally:
            process.kill()
