"""Kernels by name."""

from __future__ import annotations

from typing import Any

from viewloom.kernels.diffusion import Diffusion
from viewloom.kernels.linear import Cosine, Linear
from viewloom.kernels.pairwise import FunctionKernel, Gaussian, Polynomial, Precomputed
from viewloom.runtime.errors import InputError

KERNELS: dict[str, Any] = {
    "linear": Linear,
    "polynomial": Polynomial,
    "gaussian": Gaussian,
    "cosine": Cosine,
    "diffusion": Diffusion,
    "precomputed": Precomputed,
}


def make_kernel(kernel: Any) -> Any:
    """The kernel for a parameter: a name, a kernel object or a function."""
    if hasattr(kernel, "fit") and not isinstance(kernel, type):
        return kernel
    if isinstance(kernel, str) and kernel in KERNELS:
        return KERNELS[kernel]()
    if callable(kernel) and not isinstance(kernel, type):
        return FunctionKernel(kernel)
    raise InputError(
        f"kernel must be one of {sorted(KERNELS)}, a kernel object or a function, got {kernel!r}."
    )
