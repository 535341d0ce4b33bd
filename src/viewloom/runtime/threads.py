"""How many threads BLAS and OpenMP may use while viewloom computes.

An exact fit makes thousands of products of small matrices. With several threads each of them waits for all
threads to arrive; beside another busy process that takes many times as long as the product. Sums in several
threads are also rounded differently, so that one thread gives the same bits on every machine.

The limit of BLAS holds for the whole process. It is therefore counted: the first that asks for it sets it,
the last that is done puts back what was there. The limit of OpenMP holds for the thread that sets it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from threading import Lock
from typing import Any

from threadpoolctl import ThreadpoolController

SMALL_ROWS = 3000  # samples up to which a product with all of them is too short for several threads


class Libraries:
    """The thread pools that are loaded, searched for again once further modules were imported."""

    def __init__(self) -> None:
        self._modules = 0
        self._found: list[Any] = []

    def of(self, api: str) -> list[Any]:
        """Controllers of the libraries for "blas" or "openmp"."""
        if len(sys.modules) != self._modules:
            modules = len(sys.modules)
            self._found = ThreadpoolController().lib_controllers
            self._modules = modules  # last, since other threads ask too
        return [library for library in self._found if library.user_api == api]


class SharedLimit:
    """One BLAS thread for as long as anybody needs it, then what was there before."""

    def __init__(self, libraries: Libraries) -> None:
        self._libraries, self._lock = libraries, Lock()
        self._holders = 0
        self._before: dict[str, tuple[Any, int]] = {}  # by file: controller, number of threads

    def acquire(self) -> None:
        """Limit all libraries, those loaded meanwhile too."""
        with self._lock:
            self._holders += 1
            for library in self._libraries.of("blas"):
                if library.filepath not in self._before:
                    self._before[library.filepath] = library, library.get_num_threads()
                    library.set_num_threads(1)

    def release(self) -> None:
        """Put back what was there, if nobody else needs the limit."""
        with self._lock:
            self._holders -= 1
            if self._holders == 0:
                for library, count in self._before.values():
                    library.set_num_threads(count)
                self._before = {}


_LIBRARIES = Libraries()
_BLAS = SharedLimit(_LIBRARIES)


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """BLAS with one thread, in the whole process."""
    _BLAS.acquire()
    try:
        yield
    finally:
        _BLAS.release()


@contextmanager
def one_thread() -> Iterator[None]:
    """BLAS with one thread, and OpenMP in the calling thread."""
    before = [(library, library.get_num_threads()) for library in _LIBRARIES.of("openmp")]
    one_openmp_thread()
    try:
        with one_blas_thread():
            yield
    finally:
        for library, count in before:
            library.set_num_threads(count)


def one_openmp_thread() -> None:
    """OpenMP with one thread from now on, for a thread that does nothing else."""
    for library in _LIBRARIES.of("openmp"):
        library.set_num_threads(1)


def threads_for(n: int, *, dense: bool = False) -> AbstractContextManager[None]:
    """The limit that suits an exact problem.

    Parameters
    ----------
    n : int
        Number of training samples. Up to `SMALL_ROWS` nothing gains by threads; beyond it the search for
        neighbours does, which scikit-learn shares between threads of OpenMP.
    dense : bool
        Whether n x n matrices are stored. Beyond `SMALL_ROWS` products with them gain by threads of BLAS.
    """
    if n <= SMALL_ROWS:
        return one_thread()
    return nullcontext() if dense else one_blas_thread()
