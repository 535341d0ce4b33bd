"""Where a model is fitted: on this machine, or on a Dask cluster; within how much memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from viewloom.runtime.errors import MissingPackageError
from viewloom.study.config.schema import Compute, Study
from viewloom.study.errors import StudyError

SECONDS = 10  # to wait for a scheduler
PER_FIT = 4  # n x n matrices of double precision that an exact fit of n subjects needs, and as much again


def model_settings(study: Study, n: int) -> dict[str, Any]:
    """Parameters of `KernelMultiviewNMF` for n subjects.

    Without a setting, landmarks are used if an exact fit would need more than the memory that is allowed.
    """
    given = study.compute.settings
    if given["factored"] == "auto" and not enough_memory(study.compute, n):
        given["factored"] = True
    return {**study.model.settings, **given}


def enough_memory(compute: Compute, n: int) -> bool:
    """Whether an exact fit of n subjects stays within the memory that is allowed."""
    return compute.bytes is None or 8 * PER_FIT * n**2 <= compute.bytes


def jobs_within(compute: Compute, n_jobs: int, n: int) -> int:
    """Number of parallel fits of n subjects that stay within the memory that is allowed.

    >>> jobs_within(Compute(memory="1GB"), 4, 4000)
    1
    """
    if compute.bytes is None:
        return n_jobs
    return max(1, min(n_jobs, compute.bytes // max(8 * PER_FIT * n**2, 1)))


@contextmanager
def machines(compute: Compute) -> Iterator[None]:
    """Connect with the cluster of a study while a model is fitted; nothing without one."""
    if compute.settings["backend"] != "dask":
        yield
        return
    if find_spec("distributed") is None:
        raise MissingPackageError("A Dask cluster needs distributed: pip install viewloom[dask]")
    if compute.scheduler is None:
        _check_client()
        yield
        return
    with _client(compute.scheduler) as client, client.as_current():
        yield


def _check_client() -> None:
    """Without an address, a program may have connected with a cluster; a command has not."""
    try:
        import_module("distributed").get_client()
    except ValueError:
        raise StudyError(
            "study.toml: backend of [compute]: 'dask' needs scheduler, the address of a Dask scheduler, "
            "such as 'tcp://10.0.0.5:8786'."
        ) from None


def _client(address: str) -> Any:
    """A client of the scheduler at an address."""
    try:
        return import_module("distributed").Client(address, timeout=SECONDS, set_as_default=False)
    except (OSError, TimeoutError, ValueError):
        raise StudyError(
            f"study.toml: scheduler of [compute]: no Dask scheduler answers at {address}; start one with "
            "`dask scheduler`, or correct the address."
        ) from None
