"""Limits on the threads of BLAS and OpenMP.

An exact fit computes thousands of products of small matrices. With several threads, each product waits for
all threads; if another process is busy, this takes many times as long as the product. Sums over several
threads are also rounded differently; with one thread results do not depend on the number of cores.

The limit of BLAS applies to the entire process. It is therefore counted: the first caller sets it, and the
last one restores the earlier value. The limit of OpenMP applies to the thread that sets it. A BLAS that is
built on OpenMP (the one of faiss is) counts as OpenMP: its limit is that of the calling thread.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from importlib.machinery import EXTENSION_SUFFIXES
from threading import Lock
from typing import Any

from threadpoolctl import ThreadpoolController

SMALL_ROWS = 3000  # number of samples up to which several threads do not pay off
EXTENSIONS = tuple(EXTENSION_SUFFIXES)
DENSE_ROWS = 10_000  # the same for products with n x n matrices, which wait for memory rather than for BLAS


class Libraries:
    """The loaded thread pools, searched again after compiled modules have been imported."""

    def __init__(self) -> None:
        self._modules = 0  # number of modules that were loaded
        self._found: dict[str, list[Any]] = {"blas": [], "openmp": []}

    def of(self, api: str) -> list[Any]:
        """Controllers of the libraries for "blas" or "openmp"; of a BLAS only if its threads are its own."""
        if len(sys.modules) != self._modules:
            modules = list(sys.modules.values())
            if len(modules) < self._modules or any(map(_is_compiled, modules[self._modules :])):
                found = [one for one in ThreadpoolController().lib_controllers if not _on_openmp(one)]
                self._found = {
                    known: [one for one in found if one.user_api == known] for known in self._found
                }
            self._modules = len(modules)  # last, since other threads read it
        return self._found[api]


def _is_compiled(module: Any) -> bool:
    """Whether a module is a shared library, which may load others; a search takes milliseconds."""
    return str(getattr(module, "__file__", None)).endswith(EXTENSIONS)


def _on_openmp(library: Any) -> bool:
    """Whether a BLAS takes its threads from OpenMP: its limit would change that of OpenMP."""
    return getattr(library, "threading_layer", None) == "openmp"


class SharedLimit:
    """A limit of one BLAS thread, restored when its last holder releases it."""

    def __init__(self, libraries: Libraries) -> None:
        self._libraries, self._lock = libraries, Lock()
        self._holders = 0
        self._before: dict[str, tuple[Any, int]] = {}  # by file: controller, number of threads

    def acquire(self) -> None:
        """Limit all libraries, including those loaded in the meantime."""
        with self._lock:
            self._holders += 1
            for library in self._libraries.of("blas"):
                if library.filepath not in self._before:
                    self._before[library.filepath] = library, library.get_num_threads()
                    library.set_num_threads(1)

    def release(self) -> None:
        """Restore the earlier limits, if there is no other holder."""
        with self._lock:
            self._holders -= 1
            if self._holders == 0:
                for library, count in self._before.values():
                    library.set_num_threads(count)
                self._before = {}

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *error: object) -> None:
        self.release()

    def found(self) -> list[int]:
        """Numbers of threads of all libraries without this limit."""
        with self._lock:
            libraries = self._libraries.of("blas")
            limited = [self._before.get(library.filepath) for library in libraries]
            return [
                library.get_num_threads() if before is None else before[1]
                for library, before in zip(libraries, limited, strict=True)
            ]


_LIBRARIES = Libraries()
_BLAS = SharedLimit(_LIBRARIES)


def one_blas_thread() -> AbstractContextManager[None]:
    """Limit BLAS to one thread, in the entire process."""
    return _BLAS


@contextmanager
def one_thread() -> Iterator[None]:
    """Limit BLAS to one thread, and OpenMP in the calling thread."""
    before = [
        (library, count) for library in _LIBRARIES.of("openmp") if (count := library.get_num_threads()) != 1
    ]
    for library, _ in before:
        library.set_num_threads(1)
    try:
        with _BLAS:
            yield
    finally:
        for library, count in before:
            library.set_num_threads(count)


def one_openmp_thread() -> None:
    """Limit OpenMP to one thread permanently, in a thread of a pool."""
    for library in _LIBRARIES.of("openmp"):
        library.set_num_threads(1)


def allowed_threads() -> int:
    """Number of threads to use: that of BLAS without the limits of this module, at most one per core."""
    return min(cores(), max(_BLAS.found(), default=cores()))


def cores() -> int:
    """Number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def threads_for(n: int, *, dense: bool = False) -> AbstractContextManager[None]:
    """The thread limit for an exact problem.

    Parameters
    ----------
    n : int
        Number of training samples. Up to `SMALL_ROWS` several threads do not pay off. Beyond it they speed
        up the search for neighbours, which uses OpenMP in scikit-learn.
    dense : bool
        Whether n x n matrices are stored. Beyond `DENSE_ROWS` several BLAS threads speed up their products.
    """
    if n <= SMALL_ROWS:
        return one_thread()
    return nullcontext() if dense and n > DENSE_ROWS else one_blas_thread()
